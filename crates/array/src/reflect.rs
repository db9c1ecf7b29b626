//! Answers questions of a host about a program: types by their text, functions by name, and the callees of
//! calls.
//!
//! The text of a question is added to the module, so names, overloads and generic arguments resolve as they
//! do in the module. A separate thread keeps the checked program and ends with its owner, because the checker
//! is single-threaded and needs a large stack.
//!
//! A type is an object with its `kind`, its `name` as Slang's reflection writes it (`vector<float,3>`), and the name
//! of its `differential`. `scalar` and `enum` have a `scalar`; `vector`, `matrix` and `array` an `element` and their
//! lengths (0 for an array without one); `tuple` has `parts`; `struct`, `interface` and `opaque` (types of the library)
//! have a `base`, which is the name without arguments, and generic `args`; structs have `fields`, and the name under
//! which they are `exported`. A type that depends on a generic parameter is `generic`, and a number that depends on one
//! is `null`.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use check::tables::{Callable, FuncRef, Meaning};
use check::types::{GenericArg, Scalar, Ty, TyKind, Val};
use check::{Direction, Level, Program, Subst, View};
use driver::pipeline::{Failure, Loaded};
use driver::session::Session;
use serde_json::{Value, json};
use syntax::ast::{DeclKind, ExprKind, StmtKind};
use syntax::print::print_value_type;
use syntax::{DeclId, ExprId};

use crate::declarations;
use crate::error::Error;

/// A question about a program.
#[derive(Clone, Debug)]
pub enum Question {
    /// The types with these texts; `null` for a text that is not a type.
    Types(Vec<String>),
    /// A list of the functions with this name; if a type is given, its member functions.
    Functions {
        /// The name without generic arguments.
        name: String,
        /// The text of the type.
        of: Option<String>,
        /// The text of the generic arguments, such as `<float, 3>`.
        args: Option<String>,
    },
    /// The function that a call resolves to; the call is the only statement of the given function. `null`,
    /// with the reason, if it resolves to none.
    Call(String),
    /// The declarations of the program's files: see [`crate::declarations`].
    Declarations,
}

/// A question together with the channel for its answer.
type Asking = (Question, Sender<Result<Value, Error>>);

/// A thread that answers questions.
pub(crate) struct Asked {
    questions: Mutex<Sender<Asking>>,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

impl Asked {
    /// Starts the thread; `load` reads the program on that thread.
    pub(crate) fn new(load: impl FnOnce() -> (Session, Result<Loaded, Failure>) + Send + 'static) -> Asked {
        let (send, receive) = channel();
        let thread = std::thread::Builder::new().stack_size(1 << 30);
        // If the thread cannot be started, the receiver is dropped, and `ask` reports that.
        drop(thread.spawn(move || answer_all(load(), &receive)));
        Asked { questions: Mutex::new(send) }
    }

    /// Asks a question and returns the answer as JSON.
    pub(crate) fn ask(&self, question: Question) -> Result<Value, Error> {
        let (send, receive) = channel();
        let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || Error::Value("the compiler stopped at an earlier question".into());
        questions.send((question, send)).map_err(|_| gone())?;
        receive.recv().map_err(|_| gone())?
    }
}

fn answer_all((mut session, loaded): (Session, Result<Loaded, Failure>), questions: &Receiver<Asking>) {
    let mut loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            let error = Error::of(&session.sources, failure);
            while let Ok((_, answer)) = questions.recv() {
                // An asker that no longer waits needs no answer.
                let _ = answer.send(Err(error.clone()));
            }
            return;
        }
    };
    while let Ok((question, answer)) = questions.recv() {
        let found = match question {
            Question::Types(texts) => Ok(types(&mut session, &mut loaded, &texts)),
            Question::Functions { name, of, args } => {
                let mut found = find_functions(&mut session, &mut loaded, &name, of);
                if let Some(args) = args {
                    found.retain_mut(|func| specialize(&mut session, &mut loaded, func, &args));
                }
                Ok(Value::Array(found.iter().map(|f| function(&mut loaded.program, f)).collect()))
            }
            Question::Call(text) => Ok(call(&mut session, &mut loaded, text)),
            Question::Declarations => Ok(declarations::files(&loaded.program, loaded.file)),
        };
        let _ = answer.send(found);
    }
}

/// Resolves texts to types. Errors in a text are not reported: the text is then not a type.
fn find_types(session: &mut Session, loaded: &mut Loaded, texts: &[String]) -> Vec<Option<Ty>> {
    let mut found = Vec::new();
    for text in texts {
        // A text with these characters could contain declarations, not just a type.
        let is_type = !text.trim().is_empty() && !text.contains([';', '{', '}', '=']);
        let text = format!("typealias __asked = {text};\n");
        let known = std::mem::take(&mut loaded.program.diagnostics);
        found.push(if is_type {
            let index = session.parse_text(&mut loaded.program, "a type", text);
            let types = loaded.program.aliases(index, loaded.file);
            let wrong = loaded.program.diagnostics.iter().any(|d| d.severity == syntax::Severity::Error);
            types.first().copied().flatten().filter(|&ty| !wrong && ty != Ty::ERROR)
        } else {
            None
        });
        loaded.program.diagnostics = known;
    }
    found
}

fn types(session: &mut Session, loaded: &mut Loaded, texts: &[String]) -> Value {
    let found = find_types(session, loaded, texts);
    let described =
        found.into_iter().map(|ty| ty.map_or(Value::Null, |ty| describe(&mut loaded.program, ty)));
    Value::Array(described.collect())
}

fn find_functions(
    session: &mut Session,
    loaded: &mut Loaded,
    name: &str,
    of: Option<String>,
) -> Vec<FuncRef> {
    let file = loaded.file;
    let is_callable =
        |p: &Program, d: DeclId| matches!(p.ast.decls[d].kind, DeclKind::Func { .. } | DeclKind::Init { .. });
    let mut found: Vec<FuncRef> = Vec::new();
    match of {
        None => {
            let mut decls = loaded.program.find_function(file, name);
            if decls.is_empty() {
                let all = loaded.program.names_at(None, file);
                let p = &loaded.program;
                decls = all.into_iter().filter(|&d| is_callable(p, d) && name_of(p, d) == name).collect();
            }
            for decl in decls {
                let args = own_parameters(&mut loaded.program, decl, 0);
                found.push(FuncRef { decl, args, self_ty: None });
            }
        }
        Some(of) => {
            let Some(Some(ty)) = find_types(session, loaded, &[of]).pop() else { return Vec::new() };
            let members = loaded.program.members_of(ty);
            for decl in members {
                if !is_callable(&loaded.program, decl) || name_of(&loaded.program, decl) != name {
                    continue;
                }
                let mut args = match loaded.program.types[ty].clone() {
                    TyKind::Struct(_, args) | TyKind::Interface(_, args) => args,
                    _ => Vec::new(),
                };
                let around = loaded.program.all_generic_params(decl).len().min(args.len());
                args.truncate(around);
                args.extend(own_parameters(&mut loaded.program, decl, around));
                found.push(FuncRef { decl, args, self_ty: Some(ty) });
            }
        }
    }
    // A declaration without a body and the function itself count as one.
    let has_body = |p: &Program, f: &FuncRef| {
        matches!(
            p.ast.decls[f.decl].kind,
            DeclKind::Func { body: Some(_), .. } | DeclKind::Init { body: Some(_), .. }
        )
    };
    if found.iter().any(|f| has_body(&loaded.program, f)) {
        found.retain(|f| has_body(&loaded.program, f));
    }
    found.dedup();
    found
}

/// Applies arguments to a function's own generic parameters; returns false if the arguments do not fit. The
/// arguments are resolved as those of a struct with the same parameters.
fn specialize(session: &mut Session, loaded: &mut Loaded, func: &mut FuncRef, args: &str) -> bool {
    let program = &mut loaded.program;
    let params = program.own_params(func.decl);
    if params.is_empty() {
        return false;
    }
    let mut list = Vec::new();
    for (k, &param) in params.iter().enumerate() {
        list.push(match program.ast.decls[param].kind {
            DeclKind::ValueParam { ty, .. } => format!("let A{k} : {}", print_value_type(&program.ast, ty)),
            _ => format!("A{k}"),
        });
    }
    let name = format!("__Asked{}", program.ast.files.len());
    let text = format!("struct {name}<{}> {{}}\n", list.join(", "));
    let index = session.parse_text(program, "generic parameters", text);
    program.extend_module(index, loaded.file);
    let found = find_types(session, loaded, &[format!("{name}{args}")]).pop().flatten();
    let Some(TyKind::Struct(_, given)) = found.map(|ty| loaded.program.types[ty].clone()) else {
        return false;
    };
    let around = func.args.len().saturating_sub(params.len());
    func.args.truncate(around);
    func.args.extend(given);
    true
}

/// The generic parameters of a declaration and of its enclosing declarations, from index `from` on, as
/// arguments.
fn own_parameters(program: &mut Program, decl: DeclId, from: usize) -> Vec<GenericArg> {
    let params = program.all_generic_params(decl);
    let as_arg = |program: &mut Program, p: DeclId| match program.ast.decls[p].kind {
        DeclKind::ValueParam { .. } => GenericArg::Val(Val::Param(p)),
        _ => GenericArg::Type(program.types.intern(TyKind::Param(p))),
    };
    params[from.min(params.len())..].iter().map(|&p| as_arg(program, p)).collect()
}

/// The callee of the only statement of a function.
fn call(session: &mut Session, loaded: &mut Loaded, text: String) -> Value {
    let known = std::mem::take(&mut loaded.program.diagnostics);
    let index = session.parse_text(&mut loaded.program, "a call", text);
    loaded.program.join_module(index, loaded.file);
    let decl = loaded.program.ast.files[index].decls.first().copied();
    let found = decl.and_then(|decl| {
        loaded.program.check_declaration(decl);
        let called = only_expression(&loaded.program, decl)?;
        match loaded.program.tables.exprs[called].meaning.clone() {
            Meaning::Call { func: Callable::Func(func), .. } => Some(func),
            Meaning::Init { init, .. } => Some(init),
            _ => None,
        }
    });
    let wrong = std::mem::replace(&mut loaded.program.diagnostics, known);
    let errors: Vec<&str> =
        wrong.iter().filter(|d| d.severity == syntax::Severity::Error).map(|d| &d.message[..]).collect();
    match found {
        Some(func) if errors.is_empty() => json!({ "function": function(&mut loaded.program, &func) }),
        _ => json!({ "function": null, "errors": errors }),
    }
}

fn only_expression(program: &Program, decl: DeclId) -> Option<ExprId> {
    let DeclKind::Func { body: Some(body), .. } = program.ast.decls[decl].kind else { return None };
    let StmtKind::Block(list) = &program.ast.stmts[body].kind else { return None };
    let mut at = match program.ast.stmts[*list.first()?].kind {
        StmtKind::Expr(expr) => expr,
        _ => return None,
    };
    while let ExprKind::Paren(inner) = program.ast.exprs[at].kind {
        at = inner;
    }
    Some(at)
}

/// The parameters of a function.
pub(crate) fn params(program: &mut Program, func: &FuncRef) -> Vec<Value> {
    let signature = program.func_signature(func);
    let mut params = Vec::new();
    for param in &signature.params {
        let (name, default) = param.decl.map_or((String::new(), false), |d| {
            let default = matches!(program.ast.decls[d].kind, DeclKind::Param { default: Some(_), .. });
            (name_of(program, d), default)
        });
        let direction = match param.dir {
            Direction::In | Direction::ConstRef => "in",
            Direction::Out => "out",
            Direction::InOut | Direction::Ref => "inout",
        };
        params.push(json!({
            "name": name,
            "type": describe(program, param.ty),
            "direction": direction,
            "no_diff": param.no_diff,
            "differentiable": param.has_tangent(),
            "default": default,
        }));
    }
    params
}

/// Describes a function with arguments for its generic parameters, or with the parameters themselves.
fn function(program: &mut Program, func: &FuncRef) -> Value {
    let signature = program.func_signature(func);
    let derivatives = program.derivatives_of(func, View::default());
    let args: Vec<Value> = func.args.iter().map(|arg| argument(program, arg)).collect();
    let is_generic = func.args.iter().any(|arg| match arg {
        GenericArg::Type(ty) => mentions_parameter(program, *ty),
        GenericArg::Val(val) => program.val_int(val, &Subst::default()).is_none(),
    });
    let is_init = matches!(program.ast.decls[func.decl].kind, DeclKind::Init { .. });
    let this = signature.this.as_ref().map(|this| this.ty).or(func.self_ty);
    json!({
        "name": name_of(program, func.decl),
        "args": args,
        "generic": is_generic,
        "params": params(program, func),
        "result": describe(program, signature.ret),
        "result_differentiable": signature.returns_differential(),
        "of": this.map_or(Value::Null, |ty| describe(program, ty)),
        "static": signature.this.is_none(),
        "constructor": is_init,
        "mutating": signature.is_mutating(),
        "this_differentiable": signature.has_differentiable_this(),
        "differentiable": derivatives.level == Level::Backward || derivatives.bwd.is_some() || derivatives.apply.is_some(),
    })
}

fn mentions_parameter(program: &mut Program, ty: Ty) -> bool {
    let described = describe(program, ty);
    is_generic(&described)
}

fn is_generic(of: &Value) -> bool {
    match of {
        Value::Object(fields) => {
            fields.get("kind").is_some_and(|kind| kind == "generic")
                || fields.iter().any(|(name, value)| {
                    matches!(&name[..], "n" | "rows" | "columns") && value.is_null() || is_generic(value)
                })
        }
        Value::Array(parts) => parts.iter().any(is_generic),
        _ => false,
    }
}

pub(crate) fn name_of(program: &Program, decl: DeclId) -> String {
    program.ast.name(program.ast.decls[decl].name).to_string()
}

fn number(program: &Program, val: &Val) -> Value {
    program.val_int(val, &Subst::default()).map_or(Value::Null, Value::from)
}

fn argument(program: &mut Program, arg: &GenericArg) -> Value {
    match arg {
        GenericArg::Type(ty) => describe(program, *ty),
        GenericArg::Val(val) => number(program, val),
    }
}

/// The name of a type as Slang's reflection writes it.
pub(crate) fn full_name(program: &mut Program, ty: Ty) -> String {
    match program.types[ty].clone() {
        TyKind::Vector(element, n, _) => {
            format!("vector<{},{}>", full_name(program, element), value_name(program, &n))
        }
        TyKind::Matrix(element, rows, columns, _) => {
            let (rows, columns) = (value_name(program, &rows), value_name(program, &columns));
            format!("matrix<{},{rows},{columns}>", full_name(program, element))
        }
        TyKind::Array(element, n) => {
            // The last length is that of the outermost dimension: `int[2][3]` has three elements.
            let n = n.map_or_else(String::new, |n| value_name(program, &n));
            format!("{}[{n}]", full_name(program, element))
        }
        TyKind::Pointer(of, ..) => format!("Ptr<{}>", full_name(program, of)),
        TyKind::DiffPair(of) => format!("DifferentialPair<{}>", full_name(program, of)),
        TyKind::Buffer(_, element) => {
            let name = program.type_name(ty);
            let kind = name.split('<').next().unwrap_or(&name).to_string();
            format!("{kind}<{}>", full_name(program, element))
        }
        TyKind::Struct(decl, args) | TyKind::Interface(decl, args) | TyKind::Opaque(decl, args) => {
            let own = program.ast.decls[decl].generics.as_ref().map_or(0, |g| g.params.len());
            let name = program.type_name(ty);
            if own == 0 || own != args.len() {
                return name.replace(", ", ",");
            }
            let mut list = Vec::new();
            for arg in &args {
                list.push(match arg {
                    GenericArg::Type(ty) => full_name(program, *ty),
                    GenericArg::Val(val) => value_name(program, val),
                });
            }
            format!("{}<{}>", name.split('<').next().unwrap_or(&name), list.join(","))
        }
        _ => program.type_name(ty).replace(", ", ","),
    }
}

fn value_name(program: &Program, val: &Val) -> String {
    match program.val_int(val, &Subst::default()) {
        Some(n) => n.to_string(),
        None => match val {
            // The length of an unnamed parameter has no name.
            Val::Param(decl) => {
                Some(name_of(program, *decl)).filter(|n| !n.contains(' ')).unwrap_or_default()
            }
            _ => "?".into(),
        },
    }
}

/// Describes a type.
pub(crate) fn describe(program: &mut Program, of: Ty) -> Value {
    let mut found = kind(program, of);
    found["name"] = full_name(program, of).into();
    let differential = program.differential(of);
    found["differential"] = differential.map_or(Value::Null, |d| full_name(program, d).into());
    found
}

fn kind(program: &mut Program, of: Ty) -> Value {
    match program.types[of].clone() {
        TyKind::Void => json!({ "kind": "void" }),
        TyKind::Vector(element, n, _) => {
            json!({ "kind": "vector", "element": describe(program, element), "n": number(program, &n) })
        }
        TyKind::Matrix(element, rows, columns, _) => json!({
            "kind": "matrix",
            "element": describe(program, element),
            "rows": number(program, &rows),
            "columns": number(program, &columns),
        }),
        TyKind::Tuple(parts) => {
            let parts: Vec<Value> = parts.into_iter().map(|of| describe(program, of)).collect();
            json!({ "kind": "tuple", "parts": parts })
        }
        TyKind::Scalar(scalar) => json!({ "kind": "scalar", "scalar": scalar.name() }),
        TyKind::Enum(decl) => {
            let tag = program.enum_tag(decl);
            let scalar = match program.types[tag] {
                TyKind::Scalar(scalar) => scalar,
                _ => Scalar::Int,
            };
            json!({ "kind": "enum", "scalar": scalar.name() })
        }
        TyKind::Array(element, n) => {
            let n = n.map_or(json!(0), |n| number(program, &n));
            json!({ "kind": "array", "element": describe(program, element), "n": n })
        }
        TyKind::Param(decl) => json!({ "kind": "generic", "parameter": name_of(program, decl) }),
        // The target is not described, since a struct may contain a pointer to itself.
        TyKind::Pointer(to, ..) => json!({ "kind": "pointer", "to": full_name(program, to) }),
        TyKind::Buffer(_, element) => {
            let name = program.type_name(of);
            let buffer = name.split('<').next().unwrap_or(&name).to_string();
            json!({ "kind": "buffer", "buffer": buffer, "element": describe(program, element) })
        }
        TyKind::DiffPair(primal) => json!({ "kind": "pair", "primal": describe(program, primal) }),
        TyKind::Interface(decl, args) => named(program, "interface", decl, &args),
        TyKind::Opaque(decl, args) => named(program, "opaque", decl, &args),
        TyKind::Struct(decl, args) if program.is_core(decl) => named(program, "opaque", decl, &args),
        TyKind::Struct(decl, args) => {
            let mut found = named(program, "struct", decl, &args);
            found["fields"] = fields(program, of);
            found["exported"] = exported_name(program, decl).into();
            found
        }
        TyKind::SynthDiff(_) => {
            json!({ "kind": "struct", "base": program.type_name(of), "args": [], "fields": fields(program, of) })
        }
        _ => json!({ "kind": "other" }),
    }
}

/// The name given by `[PyExport("name")]`.
fn exported_name(program: &Program, decl: DeclId) -> Option<String> {
    match &program.ast.exprs[*program.attribute(decl, "PyExport")?.args.first()?].kind {
        ExprKind::String(name) => Some(name.clone()),
        _ => None,
    }
}

/// Describes a declared type; `base` is its name without arguments.
fn named(program: &mut Program, kind: &str, decl: DeclId, args: &[GenericArg]) -> Value {
    let args: Vec<Value> = args.iter().map(|arg| argument(program, arg)).collect();
    json!({ "kind": kind, "base": name_of(program, decl), "args": args })
}

fn fields(program: &mut Program, of: Ty) -> Value {
    let fields = program.fields(of);
    let described = fields.into_iter().map(|(field, of, no_diff)| {
        json!({ "name": name_of(program, field), "type": describe(program, of), "no_diff": no_diff })
    });
    Value::Array(described.collect())
}
