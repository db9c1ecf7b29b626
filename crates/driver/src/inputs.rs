//! Binds the memory that a program reaches to the values given on the command line; shared by all commands
//! that run something.

use ir::{MemType, MemTypes};

use crate::bind::{self, Bind};
use crate::error::Error;
use crate::launch::Runner;
use crate::pipeline::Loaded;

/// A writable buffer that is bound but not used by the program: `run` prints it unchanged.
#[derive(Clone, Debug)]
pub struct Unused {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub element: MemType,
    /// Its content.
    pub bytes: Vec<u8>,
    /// The table of memory types that `element` refers to.
    pub mem: MemTypes,
}

/// Binds the user's memory by name. Leaving anything unbound that the program reaches is an error, since it
/// is unlikely that zeros were intended. Globals that the caller bound beforehand are the caller's own, and
/// the user cannot name them.
pub fn bind(loaded: &mut Loaded, runner: &mut Runner, binds: &[Bind]) -> Result<Vec<Unused>, Error> {
    let users: Vec<_> = runner.globals().map(|g| g.0).filter(|&g| !runner.is_bound(g)).collect();
    let mut unused = Vec::new();
    for (k, bind) in binds.iter().enumerate() {
        let name = &bind.name;
        if binds[..k].iter().any(|b| b.name == *name) {
            return Err(Error::input(format!("`{name}` is bound twice")));
        }
        let wrong = |why: String| Error::input(format!("`--bind {name}`: {why}"));
        let Some(global) = runner.find(name).filter(|g| users.contains(g)) else {
            // If any part of a variable is reached, all its parts are globals: another path below it does not
            // exist.
            let is_reached = users.iter().any(|&g| base(runner.name(g)) == base(name));
            if !is_reached && loaded.declares_global(name) {
                let mut mem = MemTypes::default();
                if let Some(element) = loaded.unused_buffer(name, &mut mem) {
                    let bytes = bind::buffer_bytes(&mem, element, &bind.value).map_err(wrong)?;
                    unused.push(Unused { name: name.clone(), element, bytes, mem });
                }
                continue;
            }
            let mut known: Vec<&str> = users.iter().map(|&g| runner.name(g)).collect();
            known.dedup();
            let known = if known.is_empty() { "no buffers".into() } else { known.join(", ") };
            return Err(Error::input(format!("`{name}` is bound, but the program has {known}")));
        };
        runner.bind_value(global, &bind.value).map_err(wrong)?;
    }
    runner.bind_gradients();
    runner.bind_pointers()?;
    match runner.unbound() {
        Some(global) => Err(Error::input(unbound(runner, global))),
        None => Ok(unused),
    }
}

/// The variable at the beginning of a path.
fn base(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

/// The message that a global is not bound, and how to bind it.
fn unbound(runner: &Runner, global: ir::Global) -> String {
    let name = runner.name(global);
    let texture = runner.tensor(global).is_some_and(|t| t.texture.is_some());
    let forms = match runner.is_single(global) && runner.tensor(global).is_none() {
        _ if texture => {
            "an array `[height, width]` or `[height, width, channels]`, `zeros:H,W` or `@file.npy`"
        }
        true => "a JSON value or `zeros:1`",
        false => "a JSON list, `zeros:N` or `@file.npy`",
    };
    format!("`{name}` is not bound: `--bind {name}=…` gives it {forms}")
}
