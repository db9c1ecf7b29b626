//! Describes as JSON the interface of a program for a host: its kernels and host functions, with the types of
//! their parameters.
//!
//! A type is an object with its `kind`: `scalar` (its `name`), `vector`, `matrix` and `array` (their
//! `element` and lengths), `struct` (its `name` without arguments, and `fields`), `tuple` (its `parts`),
//! `tensor` (its `element`; `host` if host code allocates it), `diff tensor`, `void`, or `other` for types
//! whose values hosts cannot make.

use check::tables::FuncRef;
use check::types::{Scalar, Ty, TyKind, Val};
use check::{Level, Program, Subst, View};
use serde_json::{Value, json};
use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Sources};

use crate::host;

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
            "params": params(program, decl),
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

pub(crate) fn name_of(program: &Program, decl: DeclId) -> String {
    program.ast.name(program.ast.decls[decl].name).to_string()
}

/// The parameters of a function: `{"name", "type", "out"}`.
pub(crate) fn params(program: &mut Program, decl: DeclId) -> Vec<Value> {
    let signature = program.func_signature(&FuncRef { decl, args: Vec::new(), self_ty: None });
    let mut found = Vec::new();
    for param in signature.params {
        let name = param.decl.map(|d| name_of(program, d)).unwrap_or_default();
        found.push(json!({ "name": name, "type": ty(program, param.ty), "out": param.dir.is_written() }));
    }
    found
}

pub(crate) fn number(program: &Program, val: &Val) -> Value {
    program.val_int(val, &Subst::default()).map_or(Value::Null, Value::from)
}

/// Describes a type that is made of others, which `part` describes; `None` for all other types.
pub(crate) fn composite(program: &mut Program, of: Ty, part: fn(&mut Program, Ty) -> Value) -> Option<Value> {
    Some(match program.types[of].clone() {
        TyKind::Void => json!({ "kind": "void" }),
        TyKind::Vector(element, n) => {
            json!({ "kind": "vector", "element": part(program, element), "n": number(program, &n) })
        }
        TyKind::Matrix(element, rows, columns, _) => json!({
            "kind": "matrix",
            "element": part(program, element),
            "rows": number(program, &rows),
            "columns": number(program, &columns),
        }),
        TyKind::Array(element, Some(n)) => {
            json!({ "kind": "array", "element": part(program, element), "n": number(program, &n) })
        }
        TyKind::Tuple(parts) => {
            let parts: Vec<Value> = parts.into_iter().map(|of| part(program, of)).collect();
            json!({ "kind": "tuple", "parts": parts })
        }
        _ => return None,
    })
}

/// Describes a type.
pub(crate) fn ty(program: &mut Program, of: Ty) -> Value {
    if let Some(found) = composite(program, of, ty) {
        return found;
    }
    let name = program.type_name(of);
    match program.types[of].clone() {
        TyKind::Scalar(scalar) => json!({ "kind": "scalar", "name": scalar.name() }),
        TyKind::Enum(_) => json!({ "kind": "scalar", "name": Scalar::Int.name() }),
        TyKind::Struct(decl, args) if program.is_core(decl) => {
            let element = match args.first() {
                Some(check::types::GenericArg::Type(element)) => ty(program, *element),
                _ => json!({ "kind": "scalar", "name": "float" }),
            };
            match &name_of(program, decl)[..] {
                "TensorView" => json!({ "kind": "tensor", "element": element, "host": false }),
                "TorchTensor" => json!({ "kind": "tensor", "element": element, "host": true }),
                "DiffTensorView" => json!({ "kind": "diff tensor", "element": element }),
                _ => json!({ "kind": "other", "name": name }),
            }
        }
        TyKind::Struct(decl, _) => {
            let fields = program.fields(of);
            let fields: Vec<Value> = fields
                .into_iter()
                .map(|(field, of, _)| json!([name_of(program, field), ty(program, of)]))
                .collect();
            json!({ "kind": "struct", "name": exported_name(program, decl).unwrap_or_else(|| name_of(program, decl)), "fields": fields })
        }
        _ => json!({ "kind": "other", "name": name }),
    }
}

/// The name given by `[PyExport("name")]`.
fn exported_name(program: &Program, decl: DeclId) -> Option<String> {
    let argument = *program.attribute(decl, "PyExport")?.args.first()?;
    match &program.ast.exprs[argument].kind {
        ExprKind::String(name) => Some(name.clone()),
        _ => None,
    }
}
