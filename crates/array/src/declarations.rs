//! Lists the declarations of a program as its source has them: in order, with their attributes and modifiers.
//!
//! Everything here is in the syntax tree; [`crate::reflect`] answers what it means.

use check::Program;
use serde_json::{Value, json};
use syntax::DeclId;
use syntax::ast::{Attribute, DeclKind, Modifiers};
use syntax::print::{print_decl, print_expr};

use crate::reflect::name_of;

const MODIFIERS: [(Modifiers, &str); 9] = [
    (Modifiers::NO_DIFF, "no_diff"),
    (Modifiers::STATIC, "static"),
    (Modifiers::CONST, "const"),
    (Modifiers::EXPORT, "export"),
    (Modifiers::EXTERN, "extern"),
    (Modifiers::GROUPSHARED, "groupshared"),
    (Modifiers::IN, "in"),
    (Modifiers::OUT, "out"),
    (Modifiers::INOUT, "inout"),
];

/// A list of the declarations of each file, where `main` is first and library files are left out.
pub(crate) fn files(program: &Program, main: usize) -> Value {
    let files = &program.ast.files;
    let is_own = |file: &usize| files[*file].decls.first().is_some_and(|&decl| !program.is_core(decl));
    let others = (0..files.len()).filter(|&file| file != main).filter(is_own);
    Value::Array(std::iter::once(main).chain(others).map(|file| list(program, &files[file].decls)).collect())
}

fn list(program: &Program, decls: &[DeclId]) -> Value {
    Value::Array(decls.iter().filter_map(|&decl| describe(program, decl)).collect())
}

/// `{"kind", "name", "modifiers", "attributes", …}`. Variables have the text of their `type`, functions
/// their `params` as texts, types and namespaces their `members`; a `generic` function or type has its
/// `generics`, by name.
fn describe(program: &Program, decl: DeclId) -> Option<Value> {
    let node = &program.ast.decls[decl];
    let empty = json!([]);
    let (kind, members, params, ty) = match &node.kind {
        DeclKind::Var { ty, .. } => ("variable", empty, json!([]), *ty),
        DeclKind::CBuffer { .. } => ("variable", empty, json!([]), None),
        DeclKind::Func { params, .. } | DeclKind::Init { params, .. } => {
            let params: Vec<Value> = params
                .iter()
                .map(|&param| json!({ "name": name_of(program, param), "text": print_decl(&program.ast, param).trim() }))
                .collect();
            ("func", empty, Value::Array(params), None)
        }
        DeclKind::Struct { .. } | DeclKind::Interface { .. } => {
            ("struct", list(program, program.members(decl)), json!([]), None)
        }
        DeclKind::Enum { .. } => ("enum", empty, json!([]), None),
        DeclKind::Namespace { members } => ("namespace", list(program, members), json!([]), None),
        _ => return None,
    };
    let names = || program.own_params(decl).into_iter().map(|param| name_of(program, param)).collect();
    let generics: Option<Vec<String>> = program.is_generic(decl).then(names);
    let modifiers: Vec<&str> = MODIFIERS
        .iter()
        .filter(|&&(modifier, _)| node.modifiers.has(modifier))
        .map(|&(_, word)| word)
        .collect();
    let attributes: Vec<Value> = node.attributes.iter().map(|found| attribute(program, found)).collect();
    Some(json!({
        "kind": if generics.is_some() { "generic" } else { kind },
        "name": if matches!(node.kind, DeclKind::Init { .. }) { "$init".into() } else { name_of(program, decl) },
        "modifiers": modifiers,
        "attributes": attributes,
        "type": ty.map(|ty| print_expr(&program.ast, ty)),
        "params": params,
        "members": members,
        "generics": generics,
    }))
}

fn attribute(program: &Program, found: &Attribute) -> Value {
    let args: Vec<String> = found.args.iter().map(|&arg| print_expr(&program.ast, arg)).collect();
    json!([program.ast.name(found.name), args])
}
