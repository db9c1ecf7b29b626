//! Builds libraries of C functions from the functions of a file, their derivatives, and its kernels.
//!
//! A function `f` becomes `f`, `f_fwd` and `f_bwd`. A [`Signature`] lists its parameters and results, one for each leaf; the
//! header for C and the bindings for Rust are written from it. The calling convention is that of `codegen_llvm::aot`.

mod c_names;
mod header;
mod names;
mod rust;
mod write;

use codegen_llvm::Machine;
use codegen_llvm::aot::{self, Export};
use ir::{Func, Module, Scalar, Slot, Space};
use lower::{FunctionInfo, Request};
use syntax::Diagnostic;

use crate::chosen::{Chosen, choose, nothing, skipped};
use crate::error::{Failure, only_kernels, source_span};
use crate::pipeline::{self, Loaded};
use crate::wrap::is_number;
use names::{Names, Parts};

pub use names::{Prefixed, is_beginning, prefix};
pub use write::write;

/// The options of a build.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the compiler.
    pub compile: pipeline::Options,
    /// The functions to build; if empty, every differentiable one, unless kernels are named.
    pub functions: Vec<String>,
    /// The kernels to build; if empty, all, unless functions are named.
    pub kernels: Vec<String>,
    /// Generate code for this machine only, with its widest vectors.
    pub native: bool,
    /// Kernels are never called concurrently on the same buffers, so additions need not be atomic.
    pub exclusive: bool,
    /// The prefix of generated names that are not the user's, such as that of the function for error
    /// messages.
    pub prefix: String,
    /// Which functions have the prefix.
    pub prefixed: Prefixed,
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct Built {
    /// An object file.
    pub object: Vec<u8>,
    /// The C header.
    pub header: String,
    /// The bindings for Rust.
    pub rust: String,
    /// Warnings about what is not in the library, and about names that are others there.
    pub notes: Vec<Diagnostic>,
}

/// A C function of the library.
pub(crate) struct Signature {
    /// Its name in C.
    pub(crate) name: String,
    /// Its description.
    pub(crate) about: String,
    pub(crate) parameters: Vec<Part>,
    pub(crate) results: Vec<Part>,
}

/// A parameter or result of a C function.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) scalar: Scalar,
    /// The type in C of one number.
    pub(crate) c_type: &'static str,
    /// How many numbers there are; `None` for one that is passed by itself.
    pub(crate) count: Option<u64>,
}

/// Memory that kernels take.
pub(crate) struct Binding {
    /// The name in the program.
    pub(crate) name: String,
    pub(crate) is_writable: bool,
    /// It is one value.
    pub(crate) is_single: bool,
    /// The type and number of the scalars of an element, if they are of one type.
    pub(crate) scalars: Option<(Scalar, usize)>,
    /// The size of an element, and its alignment.
    pub(crate) size: (usize, usize),
}

/// Compiles a file to an object file, a header and bindings.
pub fn build(loaded: &mut Loaded, options: &Options) -> Result<Built, Failure> {
    let Chosen { functions, entries, is_named, mut notes } =
        choose(loaded, &options.functions, &options.kernels)?;
    let request = Request { functions, entries, derivatives: true, ..Request::default() };
    let compiled = loaded.compile(&request, &options.compile.for_processor())?;
    only_kernels(&compiled.module)?;
    let through = opt::for_lanes(&compiled.module, crate::device::WAYS);
    let mut module = through.unwrap_or(compiled.module);
    let compiler = Compiler {
        machine: if options.native { codegen_llvm::machine() } else { Machine::common() },
        options,
    };
    let mut infos = compiled.functions;
    // Overloads have the number of their function at their end (`f#2`), which no program writes.
    infos.iter_mut().for_each(|info| info.name.truncate(info.name.find('#').unwrap_or(info.name.len())));
    // What cannot be in a library, if that was not asked for by name.
    if !is_named {
        leave_out(&mut module, &mut infos, &compiler, &mut notes)?;
    }
    if infos.is_empty() && module.entries.is_empty() {
        return Err(nothing(notes));
    }
    let mut exports = Vec::new();
    let mut signatures = Vec::new();
    let all = infos.iter().map(|info| info.name.as_str());
    let all = all.chain(module.entries.iter().map(|entry| entry.name.as_str()));
    let mut names = Names::new(&options.prefix, options.prefixed, all);
    for info in &infos {
        if let Some(why) = not_plain(&module, info) {
            return Err(Failure::Program(vec![why]));
        }
        let span = source_span(module.funcs[info.func].span);
        let name = names.free(&info.name, span);
        for (suffix, func) in forms(&module, info) {
            let about = match suffix {
                "_fwd" => format!("the forward derivative of `{}`", info.name),
                "_bwd" => format!("the backward derivative of `{}`", info.name),
                _ => format!("`{}`", info.name),
            };
            let name = names.take(format!("{name}{suffix}"), about.clone(), span)?;
            let own = &module.funcs[info.func];
            let primal = (own.params.len(), own.results.len() * usize::from(suffix != "_bwd"));
            signatures.push(signature(&module, func, (&name, about), primal));
            exports.push(Export { name, func });
        }
    }
    for k in 0..module.entries.len() {
        let span = source_span(module.funcs[module.entries[k].func].span);
        let what = format!("the kernel `{}`", module.entries[k].name);
        let name = names.free(&module.entries[k].name, span);
        module.entries[k].name = names.take(name, what, span)?;
    }
    notes.append(&mut names.notes);
    let built = compiler.library(&module, &exports).map_err(refused)?;
    let bindings: Vec<Binding> = built.globals.iter().map(|&global| binding(&module, global)).collect();
    let kernels: Vec<&str> = module.entries.iter().map(|e| e.name.as_str()).collect();
    let header = header::header(&signatures, &kernels, &bindings, options);
    let rust = rust::bindings(&signatures, &kernels, &bindings, options);
    Ok(Built { object: built.object, header, rust, notes })
}

/// Code generation with the options of a build.
struct Compiler<'o> {
    machine: Machine,
    options: &'o Options,
}

impl Compiler<'_> {
    fn library(&self, module: &Module, exports: &[Export]) -> Result<aot::Library, native::Unsupported> {
        let Options { prefix, exclusive, compile, .. } = self.options;
        aot::library(module, exports, prefix, &self.machine, compile.optimise.fast_math, *exclusive)
    }

    /// The reason why functions and the kernels of a module cannot be in a library.
    fn refusal(&self, module: &Module, exports: &[Export]) -> Option<native::Unsupported> {
        let Options { exclusive, compile, .. } = self.options;
        aot::refusal(module, exports, &self.machine, compile.optimise.fast_math, *exclusive)
    }
}

/// Takes out what a library cannot have, each with a note. What is left is compiled together, so that no code is made
/// twice unless something is left out.
fn leave_out(
    module: &mut Module,
    infos: &mut Vec<FunctionInfo>,
    compiler: &Compiler<'_>,
    notes: &mut Vec<Diagnostic>,
) -> Result<(), Failure> {
    infos.retain(|info| match not_plain(module, info) {
        Some(why) => {
            notes.push(skipped(&info.name, why.primary.span, &why.message));
            false
        }
        None => true,
    });
    let exports = |module: &Module, infos: &[FunctionInfo]| {
        let mut all: Vec<Export> = Vec::new();
        for (_, func) in infos.iter().flat_map(|info| forms(module, info)) {
            all.push(Export { name: format!("f{}", all.len()), func });
        }
        all
    };
    let Some(whole) = compiler.refusal(module, &exports(module, infos)) else { return Ok(()) };
    if whole.internal {
        return Err(refused(whole));
    }
    let mut without = module.clone();
    without.entries.clear();
    let mut kept = Vec::new();
    for info in infos.drain(..) {
        match compiler.refusal(&without, &exports(&without, std::slice::from_ref(&info))) {
            Some(why) => notes.push(skipped(&info.name, source_span(why.span), &in_words(&why))),
            None => kept.push(info),
        }
    }
    *infos = kept;
    let entries = std::mem::take(&mut module.entries);
    for entry in entries {
        without.entries = vec![entry.clone()];
        match compiler.refusal(&without, &[]) {
            Some(why) => notes.push(skipped(&entry.name, source_span(why.span), &in_words(&why))),
            None => module.entries.push(entry),
        }
    }
    Ok(())
}

/// Why the backend refuses something.
fn in_words(why: &native::Unsupported) -> String {
    format!("a library cannot have {}", why.op.trim_end_matches(" in a library"))
}

fn refused(why: native::Unsupported) -> Failure {
    Failure::of_backend(&why, |span| Diagnostic::error("E0902", span, in_words(&why)))
}

/// The error that a function takes or gives what is no number.
fn not_plain(module: &Module, info: &FunctionInfo) -> Option<Diagnostic> {
    if is_plain(module, info.func) {
        return None;
    }
    let is_odd = |p: &&lower::ParamInfo| p.leaves.iter().any(|l| !is_number(&module.types, l.1));
    let message = match info.params.iter().find(is_odd) {
        Some(param) => format!("`{}` takes `{}`, which is no number", info.name, param.name),
        None => format!("the result of `{}` is no number", info.name),
    };
    Some(Diagnostic::error("E0902", source_span(module.funcs[info.func].span), message))
}

/// The C functions that a function becomes, each with the end of its name.
fn forms(module: &Module, info: &FunctionInfo) -> Vec<(&'static str, Func)> {
    let all = [("", Some(info.func)), ("_fwd", info.jvp), ("_bwd", info.vjp)];
    let is_one = |&(suffix, func): &(&str, Func)| {
        is_plain(module, func) && (suffix.is_empty() || !module.funcs[func].results.is_empty())
    };
    all.into_iter().filter_map(|(suffix, func)| Some((suffix, func?))).filter(is_one).collect()
}

/// Returns true if a function's parameters and results consist of numbers.
fn is_plain(module: &Module, func: Func) -> bool {
    let f = &module.funcs[func];
    f.params.iter().chain(&f.results).all(|slot| is_number(&module.types, slot.ty))
}

/// Describes a C function. The first `primal` parameters and results are those of the program's function.
fn signature(
    module: &Module,
    func: Func,
    (name, about): (&str, String),
    (n_params, n_results): (usize, usize),
) -> Signature {
    let f = &module.funcs[func];
    let mut names = Parts::default();
    let mut part = |slot: &Slot, other: &str, start: &str| {
        let (c_type, n) = aot::c_type(&module.types, slot.ty);
        let is_alone = matches!(module.types[slot.ty], ir::TypeData::Scalar(_));
        Part {
            name: names.name(slot.name.as_deref(), other, start),
            scalar: module.types.scalar_of(slot.ty).unwrap_or(Scalar::I32),
            c_type,
            count: (!is_alone).then_some(n),
        }
    };
    let parameter = |(k, slot): (usize, &Slot)| part(slot, if k < n_params { "x" } else { "d_result" }, "");
    let parameters = f.params.iter().enumerate().map(parameter).collect();
    let result =
        |(k, slot): (usize, &Slot)| part(slot, if k < n_results { "result" } else { "d_result" }, "out_");
    let results = f.results.iter().enumerate().map(result).collect();
    Signature { name: name.to_string(), about, parameters, results }
}

/// Describes memory that kernels take.
fn binding(module: &Module, global: ir::Global) -> Binding {
    let data = &module.globals[global];
    let leaves = native::types::mem_leaves(&module.mem, data.ty);
    let all = crate::bind::scalars(&module.mem, data.ty);
    let size = module.mem.size(data.ty) as usize;
    let first = all.first().map(|leaf| leaf.1).filter(|_| !leaves.is_empty());
    let is_uniform =
        |s: &Scalar| all.iter().all(|leaf| leaf.1 == *s) && all.len() * s.bytes() as usize == size;
    let align = all.iter().map(|leaf| leaf.1.bytes() as usize).max().unwrap_or(1);
    Binding {
        name: data.name.clone(),
        is_writable: data.space == Space::ReadWrite,
        is_single: data.space == Space::Uniform,
        scalars: first.filter(is_uniform).map(|s| (s, all.len())),
        size: (size, align),
    }
}
