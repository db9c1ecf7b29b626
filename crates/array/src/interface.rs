//! Describes as JSON the interface of a program for a host: its kernels and host functions, with the types of
//! their parameters.
//! Parameters and types are those of [`crate::reflect`].

use check::tables::FuncRef;
use check::{Level, Program, View};
use serde_json::{Value, json};
use syntax::ast::DeclKind;
use syntax::{DeclId, Sources};

use crate::host;
use crate::reflect::{name_of, params};

/// `{"kernels": […], "hosts": […], "functions": […]}`: kernels are entry points with `[AutoPyBindCUDA]`, host
/// functions are those with `[TorchEntryPoint]`, whose bodies are indices into `functions`. The whole file
/// must have been checked.
pub(crate) fn describe(program: &mut Program, sources: &Sources, file: usize) -> Value {
    let mut kernels = Vec::new();
    for decl in program.entry_points(file) {
        if !is_bound(program, decl) {
            continue;
        }
        let name = name_of(program, decl);
        let func = FuncRef { decl, args: Vec::new(), self_ty: None };
        let level = program.derivatives_of(&func, View::default()).level;
        kernels.push(json!({
            "name": name,
            "params": params(program, &func),
            "fwd": level != Level::None,
            "bwd": level == Level::Backward,
        }));
    }
    let mut host = host::Host::new(program, sources);
    let mut hosts = Vec::new();
    for decl in top_functions(host.program, file) {
        if host.program.attribute(decl, "TorchEntryPoint").is_some() {
            hosts.push(json!({ "name": name_of(host.program, decl), "function": host.function(decl) }));
        }
    }
    let functions = host.finish();
    json!({ "kernels": kernels, "hosts": hosts, "functions": functions })
}

fn is_bound(program: &Program, decl: DeclId) -> bool {
    ["AutoPyBindCUDA", "AutoPyBindCuda"].iter().any(|name| program.attribute(decl, name).is_some())
}

/// The functions of a file that are not members of types.
fn top_functions(program: &Program, file: usize) -> Vec<DeclId> {
    let mut stack: Vec<DeclId> = program.ast.files[file].decls.iter().rev().copied().collect();
    let mut found = Vec::new();
    while let Some(decl) = stack.pop() {
        if let DeclKind::Namespace { members } = &program.ast.decls[decl].kind {
            stack.extend(members.iter().rev());
        } else if let DeclKind::Func { body: Some(_), .. } = program.ast.decls[decl].kind {
            found.push(decl);
        }
    }
    found
}
