//! Builds libraries of C functions from the functions of a file, their derivatives, and its kernels.
//!
//! A function `f` becomes `f`, `f_fwd` and `f_bwd`. The header lists their parameters, one line per leaf; the
//! calling convention is that of `codegen_llvm::aot`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use codegen_llvm::aot::{self, Export};
use ir::{Func, Module, Slot};
use lower::Request;
use syntax::Diagnostic;

use crate::c_names;
use crate::error::{Error, Failure, only_kernels, source_span};
use crate::files;
use crate::pipeline::{self, Loaded};
use crate::wrap::is_number;

/// The options of a build.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the compiler.
    pub compile: pipeline::Options,
    /// The functions to build; if empty, every differentiable one, unless kernels are named.
    pub functions: Vec<String>,
    /// The kernels to build; if empty, all.
    pub kernels: Vec<String>,
    /// Generate code for this machine only, with its widest vectors.
    pub native: bool,
    /// Kernels are never called concurrently on the same buffers, so additions need not be atomic.
    pub exclusive: bool,
    /// The prefix of generated names that are not the user's, such as that of the function for error
    /// messages.
    pub prefix: String,
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct Built {
    /// An object file.
    pub object: Vec<u8>,
    /// The C header.
    pub header: String,
}

/// The prefix of a library's generated names, derived from the name of its file.
pub fn prefix(path: &Path) -> Result<String, Error> {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or("pullback");
    let stem = stem.strip_prefix("lib").filter(|s| !s.is_empty()).unwrap_or(stem);
    let prefix: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if prefix.is_empty() || prefix.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(Error::input(format!("the name of `{}` begins no name in C", path.display())));
    }
    Ok(prefix)
}

/// Compiles a file to an object file and a header.
pub fn build(loaded: &mut Loaded, options: &Options) -> Result<Built, Failure> {
    let functions = match &options.functions[..] {
        [] if options.kernels.is_empty() => loaded.differentiable_functions(),
        named => named.iter().map(|name| loaded.function(name)).collect::<Result<_, _>>()?,
    };
    let entries = match &options.kernels[..] {
        [] => loaded.program.entry_points(loaded.file),
        named => named.iter().map(|name| loaded.entry(Some(name))).collect::<Result<_, _>>()?,
    };
    // A function or kernel that is named twice is built once.
    let (functions, entries) = (once(functions), once(entries));
    if functions.is_empty() && entries.is_empty() {
        let message =
            "the file has nothing to build: mark a function [Differentiable], name one, or write a kernel";
        return Err(Error::input(message).into());
    }
    let request = Request { functions, entries, derivatives: true, ..Request::default() };
    let compiled = loaded.compile(&request, &options.compile.for_processor())?;
    only_kernels(&compiled.module)?;
    let mut module = compiled.module;
    let mut exports = Vec::new();
    // For each export, how many of its parameters and results belong to the original function.
    let mut primals = Vec::new();
    let mut names = Names::new(&options.prefix);
    for info in &compiled.functions {
        let name = names.free(&info.name);
        let all = [("", Some(info.func)), ("_fwd", info.jvp), ("_bwd", info.vjp)];
        for (suffix, func) in all {
            let Some(func) = func else { continue };
            let span = source_span(module.funcs[info.func].span);
            if suffix.is_empty() && !is_plain(&module, func) {
                let is_odd = |p: &&lower::ParamInfo| p.leaves.iter().any(|l| !is_number(&module.types, l.1));
                let message = match info.params.iter().find(is_odd) {
                    Some(param) => format!("`{}` takes `{}`, which is no number", info.name, param.name),
                    None => format!("the result of `{}` is no number", info.name),
                };
                return Err(Failure::Program(vec![Diagnostic::error("E0902", span, message)]));
            }
            if is_plain(&module, func) && (suffix.is_empty() || !module.funcs[func].results.is_empty()) {
                let own = &module.funcs[info.func];
                primals.push((own.params.len(), own.results.len() * usize::from(suffix != "_bwd")));
                let what = match suffix {
                    "_fwd" => format!("the forward derivative of `{}`", info.name),
                    "_bwd" => format!("the backward derivative of `{}`", info.name),
                    _ => format!("`{}`", info.name),
                };
                let name = names.take(format!("{name}{suffix}"), what, span)?;
                exports.push(Export { name, func });
            }
        }
    }
    for k in 0..module.entries.len() {
        let name = names.free(&module.entries[k].name);
        let what = format!("the kernel `{}`", module.entries[k].name);
        let span = source_span(module.funcs[module.entries[k].func].span);
        module.entries[k].name = names.take(name, what, span)?;
    }
    let through = opt::for_lanes(&module, crate::device::WAYS);
    let module = through.as_ref().unwrap_or(&module);
    let machine = if options.native { codegen_llvm::machine() } else { codegen_llvm::Machine::common() };
    let fast_math = options.compile.optimise.fast_math;
    let built = aot::library(module, &exports, &options.prefix, &machine, fast_math, options.exclusive)
        .map_err(|unsupported| {
            let what = unsupported.op.trim_end_matches(" in a library");
            Failure::of_backend(&unsupported, |span| {
                Diagnostic::error("E0902", span, format!("a library cannot have {what}"))
            })
        })?;
    let header = header(module, &exports, &primals, &built.buffers, options);
    Ok(Built { object: built.object, header })
}

/// The C names of the functions and kernels in a library.
struct Names {
    prefix: String,
    /// Each name with a description of its owner.
    taken: Vec<(String, String)>,
}

impl Names {
    fn new(prefix: &str) -> Names {
        let message = format!("{prefix}_message");
        let taken = vec![
            (message.clone(), format!("the library's own `{message}`")),
            ("pullback_buffer".to_string(), "the type `pullback_buffer`".to_string()),
        ];
        Names { prefix: prefix.to_string(), taken }
    }

    /// The C name for `name`, with the library's prefix if C gives that name another meaning.
    fn free(&self, name: &str) -> String {
        let plain = c_name(name);
        if c_names::is_taken(&plain) { format!("{}_{plain}", self.prefix) } else { plain }
    }

    /// Reserves a name; `what` describes its owner. A second use of a name is an error at the line of the
    /// second owner.
    fn take(&mut self, name: String, what: String, span: syntax::Span) -> Result<String, Failure> {
        if let Some((_, other)) = self.taken.iter().find(|t| t.0 == name) {
            let message = format!("{what} and {other} have one name in C: `{name}`");
            let error = Diagnostic::error("E0902", span, message);
            return Err(Failure::Program(vec![
                error.help("rename one of them, or name what is to be built"),
            ]));
        }
        self.taken.push((name.clone(), what));
        Ok(name)
    }
}

/// Converts a name to one of letters, digits and `_` that C accepts.
fn c_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c),
            c if c.is_ascii() => out.push('_'),
            c => {
                let _ = write!(out, "u{:04x}", c as u32);
            }
        }
    }
    out
}

/// Returns true if a function's parameters and results consist of numbers.
fn is_plain(module: &Module, func: Func) -> bool {
    let f = &module.funcs[func];
    f.params.iter().chain(&f.results).all(|slot| is_number(&module.types, slot.ty))
}

/// Removes repeated items from a list.
fn once<T: PartialEq>(list: Vec<T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in list {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// A side of a signature.
#[derive(Clone, Copy)]
enum Side {
    Parameter,
    Result,
}

fn header(
    module: &Module,
    exports: &[Export],
    primals: &[(usize, usize)],
    buffers: &[String],
    options: &Options,
) -> String {
    let prefix = &options.prefix;
    let guard = format!("{}_H", prefix.to_uppercase());
    let mut out = format!(
        "/* Made by Pullback. Every function gives 0, or the number of an error. */\n\
         #ifndef {guard}\n#define {guard}\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
         /* What an error means, or null. */\nconst char *{prefix}_message(int status);\n"
    );
    for (export, &(n_params, n_results)) in exports.iter().zip(primals) {
        let f = &module.funcs[export.func];
        let mut lines = Vec::new();
        let mut used: Vec<String> = Vec::new();
        let mut name = |slot: &Slot, k: usize, of: Side| {
            let (result, own) = match of {
                Side::Result => (true, k < n_results),
                Side::Parameter => (false, k < n_params),
            };
            let base = match (slot.name.as_deref(), own, result) {
                (Some(name), ..) => c_name(name).trim_matches('_').to_string(),
                (None, true, true) => "result".to_string(),
                (None, false, _) => "d_result".to_string(),
                (None, true, false) => "x".to_string(),
            };
            let base = if base.is_empty() || base.starts_with(|c: char| c.is_ascii_digit()) {
                format!("x{base}")
            } else {
                base
            };
            let base = if result { format!("out_{base}") } else { base };
            let base = if c_names::is_odd(&base) { format!("{base}_") } else { base };
            let mut unique = base.clone();
            let mut n = 1;
            while used.contains(&unique) {
                n += 1;
                unique = format!("{base}{n}");
            }
            used.push(unique.clone());
            unique
        };
        for (k, slot) in f.params.iter().enumerate() {
            let (ty, n) = aot::c_type(&module.types, slot.ty);
            let name = name(slot, k, Side::Parameter);
            lines.push(match module.types[slot.ty] {
                ir::TypeData::Scalar(_) => format!("{ty} {name}"),
                _ => format!("const {ty} {name}[{n}]"),
            });
        }
        for (k, slot) in f.results.iter().enumerate() {
            let (ty, n) = aot::c_type(&module.types, slot.ty);
            let name = name(slot, k, Side::Result);
            lines.push(match module.types[slot.ty] {
                ir::TypeData::Scalar(_) => format!("{ty} *{name}"),
                _ => format!("{ty} {name}[{n}]"),
            });
        }
        let lines = if lines.is_empty() { "void".to_string() } else { lines.join(", ") };
        let _ = writeln!(out, "\nint {}({lines});", export.name);
    }
    if !module.entries.is_empty() {
        out += "\n#ifndef PULLBACK_BUFFER\n#define PULLBACK_BUFFER\n\
                typedef struct { void *data; uint64_t count; } pullback_buffer;\n#endif\n";
        let _ = writeln!(out, "\n/* The buffers of kernels, in this order: {}. */", buffers.join(", "));
        out += match options.exclusive {
            true => {
                "/* No two calls at a time with the same buffers: what kernels add up is not added atomically. */\n"
            }
            false => {
                "/* Calls at a time on several threads may add to the same buffers: that is atomic. */\n"
            }
        };
        for entry in &module.entries {
            let _ = writeln!(
                out,
                "int {}(const pullback_buffer buffers[{}], uint32_t groups_x, uint32_t groups_y, uint32_t groups_z);",
                entry.name,
                buffers.len().max(1)
            );
        }
    }
    out += "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
    out
}

/// Writes the result to a file: depending on the path's extension an object file, an archive or a shared
/// library. The last two need the system's `ar` and `cc`.
pub fn write(built: &Built, path: &Path) -> Result<(), Error> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if ending == "o" || ending == "obj" {
        return files::write(path, &built.object);
    }
    let tool = match ending {
        "a" => "ar",
        "so" | "dylib" => "cc",
        _ => return Err(Error::input(format!("`{}` ends in none of .o, .a and .so", path.display()))),
    };
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty() && !p.is_dir()) {
        return Err(Error::write(path, format!("there is no folder `{}`", folder.display())));
    }
    let object = std::env::temp_dir().join(format!("pullback-{}.o", std::process::id()));
    files::write(&object, &built.object)?;
    let mut failed = None;
    let made = files::make(path, |beside| {
        let mut command = Command::new(tool);
        match tool {
            "ar" => command.arg("rcs").arg(beside).arg(&object),
            _ => command.arg("-shared").arg("-o").arg(beside).arg(&object).arg("-lm"),
        };
        let stopped = || std::io::Error::other("it was not made");
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
                failed = Some(format!("`{tool}` could not make `{}`: {text}", path.display()));
                Err(stopped())
            }
            Err(error) => {
                failed = Some(format!("`{tool}`, which makes `{}`, does not run: {error}", path.display()));
                Err(stopped())
            }
        }
    });
    let _ = std::fs::remove_file(&object);
    failed.map_or(made, |why| Err(Error::input(why)))
}
