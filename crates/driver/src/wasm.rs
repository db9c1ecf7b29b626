//! Modules of WebAssembly for other hosts, with what these have to know of the program.
//!
//! The module is that of `codegen-wasm`, whose crate doc describes its interface. A custom section `pullback` has the
//! program's as JSON: entry points, buffers by number, functions, and the messages of errors by number.

use codegen_wasm::Features;
use ir::Space;
use native::runtime::Site;
use serde_json::{Value as Json, json};
use syntax::Sources;

use crate::error::Failure;
use crate::gpu::place;
use crate::pipeline::Compiled;

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
