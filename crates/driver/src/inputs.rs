//! Binds the memory that a program reaches to the values given on the command line; shared by all commands
//! that run something.

use ir::{MatrixOrder, MemData, MemType, MemTypes, Scalar};

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
    let missing: Vec<ir::Global> = runner.all_unbound().collect();
    match &missing[..] {
        [] => Ok(unused),
        missing => Err(Error::input(not_bound(runner, missing))),
    }
}

/// The variable at the beginning of a path.
fn base(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

/// The message that globals are not bound, and how to bind each of them.
fn not_bound(runner: &Runner, missing: &[ir::Global]) -> String {
    let one = |&global| {
        let name = runner.name(global);
        format!("`{name}` is not bound: `--bind {name}=…` gives it {}", forms(runner, global))
    };
    let all: Vec<String> = missing.iter().map(one).collect();
    all.join("\n")
}

/// The values that may be bound to a global.
fn forms(runner: &Runner, global: ir::Global) -> String {
    let of = type_name(runner.mem(), runner.element_of(global));
    let of = of.map_or(String::new(), |name| format!(" of `{name}`"));
    let texture = runner.tensor(global).is_some_and(|t| t.texture.is_some());
    match runner.is_single(global) && runner.tensor(global).is_none() {
        _ if texture => {
            "an array `[height, width]` or `[height, width, channels]`, `zeros:H,W` or `@file.npy`".into()
        }
        true => format!("a JSON value{of} or `zeros:1`"),
        false => format!("a JSON list{of}, `zeros:N` or `@file.npy`"),
    }
}

/// The name of a memory type in the language, if it has one.
fn type_name(mem: &MemTypes, ty: MemType) -> Option<String> {
    let scalar = |s: Scalar| match s {
        Scalar::Bool => "bool",
        Scalar::I8 => "int8_t",
        Scalar::I16 => "int16_t",
        Scalar::I32 => "int",
        Scalar::I64 => "int64_t",
        Scalar::U8 => "uint8_t",
        Scalar::U16 => "uint16_t",
        Scalar::U32 => "uint",
        Scalar::U64 => "uint64_t",
        Scalar::F16 => "half",
        Scalar::F32 => "float",
        Scalar::F64 => "double",
    };
    // There is no `int8_t3`.
    let sized = |s: Scalar, size: String| match scalar(s) {
        name if name.ends_with("_t") => None,
        name => Some(format!("{name}{size}")),
    };
    match &mem[ty] {
        MemData::Scalar(s) => Some(scalar(*s).to_string()),
        MemData::Vector(s, n) => sized(*s, n.to_string()),
        MemData::Matrix(s, vectors, each, MatrixOrder::Rows) => sized(*s, format!("{vectors}x{each}")),
        MemData::Matrix(s, vectors, each, MatrixOrder::Columns) => sized(*s, format!("{each}x{vectors}")),
        // Others are those of the compiler.
        MemData::Struct { name, .. } => {
            name.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| name.clone())
        }
        MemData::Array(element, n) => Some(format!("{}[{n}]", type_name(mem, *element)?)),
        MemData::Handle(_) => None,
    }
}
