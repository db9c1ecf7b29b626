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
    runner.bind_gradients()?;
    runner.bind_counters();
    runner.bind_pointers()?;
    // A tensor's gradient need not be bound if the tensor is, so what is said of the tensor is enough.
    let is_grad = |global: &ir::Global| runner.tensor(*global).is_some_and(|tensor| tensor.is_grad);
    let (gradients, others): (Vec<_>, Vec<_>) = runner.all_unbound().partition(is_grad);
    let mut missing: Vec<String> = Vec::new();
    for global in if others.is_empty() { gradients } else { others } {
        let one = unbound(runner, global);
        // A tensor has several globals.
        if !missing.contains(&one) {
            missing.push(one);
        }
    }
    match missing.is_empty() {
        true => Ok(unused),
        false => Err(Error::input(missing.join("\n  "))),
    }
}

/// Renames the only value whose name is none of the program's to the only name that has no value, if both are at the same
/// place among as many others: Slang's own tests give values in the order of the parameters, under any name. Returns a
/// warning that says so.
pub fn bind_in_order(loaded: &Loaded, runner: &Runner, binds: &mut [Bind]) -> Option<String> {
    // The globals of a module are in the order of their first use.
    let span = |global: &ir::Global| runner.module().globals[*global].span;
    let mut parameters: Vec<ir::Global> = runner.all_unbound().collect();
    parameters.sort_by_key(|global| (span(global).file, span(global).start));
    if parameters.windows(2).any(|pair| span(&pair[0]).file != span(&pair[1]).file) {
        return None;
    }
    let mut names: Vec<&str> = parameters.iter().map(|&global| runner.name(global)).collect();
    names.dedup();
    // A single name that is wrong has no others that show the order.
    if names.len() != binds.len() || names.len() < 2 {
        return None;
    }
    let is_known = |name: &str| {
        names.iter().any(|known| base(known) == base(name)) || loaded.declares_global(base(name))
    };
    let mut unknown = binds.iter().enumerate().filter(|(_, bind)| !is_known(&bind.name));
    let (Some((at, _)), None) = (unknown.next(), unknown.next()) else { return None };
    let mut open = names.iter().enumerate().filter(|(_, name)| binds.iter().all(|bind| bind.name != **name));
    let (Some((place, &name)), None) = (open.next(), open.next()) else { return None };
    if at != place {
        return None;
    }
    let name = name.to_owned();
    let given = std::mem::replace(&mut binds[at].name, name.clone());
    Some(format!(
        "warning: the program has no `{given}`: its value is for `{name}`, which is at the same place and has no other"
    ))
}

/// The variable at the beginning of a path.
fn base(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

/// The message that a global is not bound, and how to bind it.
fn unbound(runner: &Runner, global: ir::Global) -> String {
    let name = runner.name(global);
    let tensor = runner.tensor(global);
    let is_texture = tensor.is_some_and(|t| t.texture.is_some());
    // The elements of a tensor are words of the type that its data has.
    let element = runner.element_of(tensor.map_or(global, |t| t.data));
    let element = runner.module().mem.type_name(element);
    let forms = match runner.is_single(global) && tensor.is_none() {
        _ if is_texture => {
            "an array `[height, width]` or `[height, width, channels]`, `zeros:H,W` or `@file.npy`"
                .to_string()
        }
        true => format!("a JSON value of type `{element}`, or `zeros:1`"),
        false => format!("a JSON list of `{element}`, `zeros:N` or `@file.npy`"),
    };
    format!("`{name}` is not bound: `--bind {name}=…` gives it {forms}")
}
