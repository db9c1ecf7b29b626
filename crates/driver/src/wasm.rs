//! Modules of WebAssembly for other hosts, with what these have to know of the program.
//!
//! The module is that of `codegen-wasm`, whose crate doc describes its interface. A custom section `pullback` has the
//! program's as JSON: entry points, buffers by number, functions, and the messages of errors by number.

use check::tables::FuncRef;
pub use codegen_wasm::Features;
use ir::Space;
use lower::Request;
use native::runtime::Site;
use serde_json::{Value as Json, json};
use syntax::{DeclId, Diagnostic, Severity, Sources};

use crate::chosen::{Chosen, choose, nothing, skipped};
use crate::error::{Failure, only_kernels};
use crate::gpu::place;
use crate::pipeline::{Compiled, Loaded, Options};

/// The name of the section.
pub const SECTION: &str = "pullback";

/// The module of a program.
pub fn emit(sources: &Sources, compiled: &Compiled, features: Features) -> Result<Vec<u8>, Failure> {
    let functions = compiled.functions.iter().flat_map(|f| [Some(f.func), f.jvp, f.vjp]).flatten();
    let options = native::Options { functions: functions.collect(), ..native::Options::default() };
    let mut wasm = crate::device::wasm::module(&compiled.module, &options, features)?;
    let text = interface(sources, compiled, &wasm, &options);
    wasm.add_section(SECTION, text.to_string().as_bytes());
    Ok(wasm.bytes)
}

/// The module of the functions and kernels that are named, or of all that are marked; and notes about what it lacks, unless
/// that was named.
pub fn build(
    sources: &Sources,
    loaded: &mut Loaded,
    (functions, kernels): (&[String], &[String]),
    features: Features,
    options: &Options,
) -> Result<(Vec<u8>, Vec<Diagnostic>), Failure> {
    let Chosen { mut functions, mut entries, is_named, mut notes } = choose(loaded, functions, kernels)?;
    let mut made = |functions: Vec<FuncRef>, entries: Vec<DeclId>| {
        let request = Request { functions, entries, derivatives: true, ..Request::default() };
        let compiled = loaded.compile(&request, &options.for_processor())?;
        only_kernels(&compiled.module)?;
        emit(sources, &compiled, features)
    };
    let whole = made(functions.clone(), entries.clone());
    if is_named || whole.is_ok() {
        return whole.map(|bytes| (bytes, notes));
    }
    let mut refused = Vec::new();
    let mut is_possible = |of: DeclId, made: Result<Vec<u8>, Failure>| match made {
        Err(Failure::Program(why)) => {
            refused.push((of, why));
            Ok(false)
        }
        other => other.map(|_| true),
    };
    let mut kept = (Vec::new(), Vec::new());
    for function in functions.drain(..) {
        if is_possible(function.decl, made(vec![function.clone()], Vec::new()))? {
            kept.0.push(function);
        }
    }
    for entry in entries.drain(..) {
        if is_possible(entry, made(Vec::new(), vec![entry]))? {
            kept.1.push(entry);
        }
    }
    let left = (!kept.0.is_empty() || !kept.1.is_empty()).then(|| made(kept.0, kept.1));
    for (of, why) in refused {
        let reason = why.iter().find(|d| d.severity == Severity::Error);
        let (message, span) =
            reason.map_or(("", loaded.program.name_span(of)), |d| (&d.message[..], d.primary.span));
        notes.push(skipped(loaded.name(of), span, message));
    }
    match left {
        Some(bytes) => Ok((bytes?, notes)),
        None => Err(nothing(notes)),
    }
}

/// The interface of the program.
fn interface(
    sources: &Sources,
    compiled: &Compiled,
    wasm: &codegen_wasm::Wasm,
    options: &native::Options,
) -> Json {
    let module = &compiled.module;
    let entries = module.entries.iter().zip(&wasm.entries);
    let entry = |(entry, made): (&ir::Entry, &codegen_wasm::Entry)| json!({ "name": made.name, "group_size": entry.group_size, "lanes": made.lanes });
    let buffer = |buffer: &codegen_wasm::Buffer| {
        let access = match buffer.space {
            Space::ReadWrite => "read_write",
            Space::Uniform => "uniform",
            _ => "read",
        };
        json!({ "number": buffer.number, "name": buffer.name, "access": access, "size": buffer.size })
    };
    let slots = |slots: &[ir::Slot]| -> Vec<Json> {
        slots.iter().map(|slot| Json::from(ir::print::print_type(module, slot.ty))).collect()
    };
    let function = |&func: &ir::Func| {
        let f = &module.funcs[func];
        json!({ "name": &f.name[..], "parameters": slots(&f.params), "results": slots(&f.results) })
    };
    let site = |(number, site): (usize, &Site)| {
        let (message, span) = site.failure();
        let at = place(sources, span);
        (!message.is_empty()).then(|| json!({ "error": number + 1, "message": message, "at": at }))
    };
    json!({
        "entries": entries.map(entry).collect::<Vec<_>>(),
        "buffers": wasm.globals.iter().map(buffer).collect::<Vec<_>>(),
        "functions": options.functions.iter().map(function).collect::<Vec<_>>(),
        "errors": wasm.sites.iter().enumerate().filter_map(site).collect::<Vec<_>>(),
    })
}
