//! The runtime, as the beginning of a module.
//!
//! `runtime.wat` is assembled when the crate is built. Its sections are copied into each new module: its functions come
//! first, after those that the host provides, and its globals get the values that fit the program. What it exports by a
//! name that begins with a letter of its own (`buffer`, `reset`, `error` …) is the interface of the module; the other
//! names are for the compiler.

use std::convert::Infallible;

use rustc_hash::FxHashMap;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{CodeSection, ConstExpr, ExportKind, FunctionSection, GlobalSection, TypeSection};
use wasmparser::{ExternalKind, Parser, Payload};

static RUNTIME: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.wasm"));

/// The names that hosts use.
const INTERFACE: [&str; 8] =
    ["buffer", "pointees", "pointee", "reset", "error", "detail", "heap", "most_pages"];

/// The sections of a module that begins with the runtime.
pub(crate) struct Runtime {
    pub(crate) types: TypeSection,
    /// The type of each function.
    pub(crate) functions: FunctionSection,
    pub(crate) globals: GlobalSection,
    pub(crate) code: CodeSection,
    /// The numbers of the functions, by name.
    pub(crate) names: FxHashMap<String, u32>,
    /// The interface for hosts.
    pub(crate) exports: Vec<(&'static str, ExportKind, u32)>,
}

/// Numbers functions after those of the host.
struct After(u32);

impl Reencode for After {
    type Error = Infallible;

    fn function_index(&mut self, func: u32) -> Result<u32, Error<Infallible>> {
        Ok(func + self.0)
    }
}

impl Runtime {
    /// The runtime after `imported` functions of the host, with these values of its globals.
    pub(crate) fn new(imported: u32, values: &[(&str, i32)]) -> Result<Runtime, Error<Infallible>> {
        let mut after = After(imported);
        let mut made = Runtime {
            types: TypeSection::new(),
            functions: FunctionSection::new(),
            globals: GlobalSection::new(),
            code: CodeSection::new(),
            names: FxHashMap::default(),
            exports: Vec::new(),
        };
        let mut globals = Vec::new();
        let mut names: FxHashMap<u32, &str> = FxHashMap::default();
        for payload in Parser::new(0).parse_all(RUNTIME) {
            match payload? {
                Payload::TypeSection(section) => after.parse_type_section(&mut made.types, section)?,
                Payload::FunctionSection(section) => {
                    after.parse_function_section(&mut made.functions, section)?;
                }
                Payload::GlobalSection(section) => {
                    globals = section.into_iter().collect::<Result<Vec<_>, _>>()?;
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        let (kind, index) = match export.kind {
                            ExternalKind::Func => (ExportKind::Func, export.index + imported),
                            _ => (ExportKind::Global, export.index),
                        };
                        match kind {
                            ExportKind::Func => drop(made.names.insert(export.name.to_string(), index)),
                            _ => drop(names.insert(index, export.name)),
                        }
                        if let Some(name) = INTERFACE.iter().find(|name| **name == export.name) {
                            made.exports.push((name, kind, index));
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => after.parse_function_body(&mut made.code, body)?,
                _ => {}
            }
        }
        for (k, global) in globals.into_iter().enumerate() {
            let name = names.get(&(k as u32)).copied();
            match values.iter().find(|(of, _)| Some(*of) == name) {
                Some(&(_, value)) => {
                    let ty = after.global_type(global.ty)?;
                    made.globals.global(ty, &ConstExpr::i32_const(value));
                }
                None => after.parse_global(&mut made.globals, global)?,
            }
        }
        Ok(made)
    }
}
