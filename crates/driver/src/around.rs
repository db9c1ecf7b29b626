//! Generates wrapper functions around the user's functions: source text that is parsed and added to the
//! user's module.

use check::signature::Signature;
use check::tables::FuncRef;
use check::{Direction, types::Ty};
use syntax::ast::DeclKind;
use syntax::print::{print_expr, print_value_type};
use syntax::{DeclId, Diagnostic};

use crate::error::Failure;
use crate::pipeline::Loaded;
use crate::session::Session;

/// The prefix of the names of globals that stand for parameters.
pub const MEMORY: &str = "__memory_";

/// The name of the function that [`Loaded::specialised`] generates.
const SPECIAL: &str = "__special.__call";

/// A function that a host requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its name; members are `Type.name`.
    pub name: String,
    /// The arguments of its generic parameters, as written in the language: types and numbers.
    pub generics: Vec<String>,
    /// The types of parameters, by name, for those declared with an interface or a generic parameter.
    pub types: Vec<(String, String)>,
}

/// The types that a caller must supply before a generic function can be compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generics {
    /// The generic parameters, as declared.
    pub generics: Vec<String>,
    /// The names of all parameters.
    pub params: Vec<String>,
    /// The names of the parameters that are of interface type.
    pub dynamic: Vec<String>,
}

impl Loaded {
    /// The types that a caller of a function must supply, if it is generic or takes values of interface type.
    pub fn generics_of(&mut self, name: &str) -> Option<Generics> {
        let decl = *self.program.find_function(self.file, name).first()?;
        let all = self.program.all_generic_params(decl);
        let (hidden, generics): (Vec<_>, Vec<_>) = all.into_iter().partition(|&g| self.is_hidden(g));
        let generics = generics.into_iter().map(|g| self.generic(g)).collect();
        let hidden: Vec<String> = hidden.into_iter().map(|g| self.interface_of(g)).collect();
        let signature = self.program.func_signature(&FuncRef { decl, args: Vec::new(), self_ty: None });
        let (mut params, mut dynamic) = (Vec::new(), Vec::new());
        for param in &signature.params {
            let Some(decl) = param.decl else { continue };
            let name = self.name(decl).to_owned();
            if hidden.contains(&self.program.type_name(param.ty)) {
                dynamic.push(name.clone());
            }
            params.push(name);
        }
        Some(Generics { generics, params, dynamic })
    }

    /// Returns true if a generic parameter was introduced for a parameter of interface type and therefore has
    /// no name in the source.
    fn is_hidden(&self, generic: DeclId) -> bool {
        self.name(generic).contains(' ')
    }

    /// The interface of a parameter with such a generic parameter, as types are printed.
    fn interface_of(&self, hidden: DeclId) -> String {
        self.name(hidden).trim_start_matches("some ").to_owned()
    }

    /// The declarations of the file's functions, each with its name.
    pub fn signatures(&mut self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for decl in self.functions() {
            let name = self.name(decl).to_owned();
            let generics = self.program.all_generic_params(decl).into_iter();
            let generics: Vec<String> =
                generics.filter(|&g| !self.is_hidden(g)).map(|g| self.generic(g)).collect();
            let signature = self.program.func_signature(&FuncRef { decl, args: Vec::new(), self_ty: None });
            let params: Vec<String> = signature
                .params
                .iter()
                .filter_map(|p| {
                    let (ty, name) = (self.program.type_name(p.ty), self.name(p.decl?));
                    let no_diff = if p.no_diff { "no_diff " } else { "" };
                    Some(format!("{no_diff}{}{ty} {name}", direction(p.dir)))
                })
                .collect();
            let generics =
                if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
            let (mark, ty) = (self.mark(decl), self.program.type_name(signature.ret));
            found.push((name.clone(), format!("{mark}{ty} {name}{generics}({})", params.join(", "))));
        }
        found
    }

    /// A generic parameter as declared.
    fn generic(&self, decl: DeclId) -> String {
        let (ast, name) = (&self.program.ast, self.name(decl));
        match &ast.decls[decl].kind {
            DeclKind::ValueParam { ty, .. } => format!("let {name} : {}", print_value_type(ast, *ty)),
            DeclKind::TypeParam { bases, .. } if !bases.is_empty() => {
                let bases: Vec<String> = bases.iter().map(|&base| print_expr(ast, base)).collect();
                format!("{name} : {}", bases.join(", "))
            }
            _ => name.to_string(),
        }
    }

    /// The requested function, and the name by which it is called. A function that is generic or takes values
    /// of interface type is wrapped in a function of the given types. The wrapper is a member of a struct in
    /// which `T` and the other generic parameters are declared as names, so that types can be repeated as
    /// written.
    pub fn specialised(
        &mut self,
        session: &mut Session,
        wanted: &Wanted,
    ) -> Result<(FuncRef, String), Failure> {
        let Wanted { name, generics, types } = wanted;
        if generics.is_empty() && types.is_empty() {
            return Ok((self.function(name)?, name.clone()));
        }
        let Some(decl) = self.program.find_function(self.file, name).first().copied() else {
            return Ok((self.function(name)?, name.clone()));
        };
        let span = self.program.ast.decls[decl].name_span;
        let refuse = |message: String, help: String| {
            Failure::Program(vec![Diagnostic::error("E0705", span, message).help(help)])
        };
        let signature = self.program.func_signature(&FuncRef { decl, args: Vec::new(), self_ty: None });
        let named: Vec<(String, &check::signature::ParamSig)> =
            signature.params.iter().filter_map(|p| Some((self.name(p.decl?).to_owned(), p))).collect();
        if let Some((unknown, _)) = types.iter().find(|t| !named.iter().any(|n| n.0 == t.0)) {
            let names: Vec<&str> = named.iter().map(|n| &n.0[..]).collect();
            let message = format!("`{name}` has no parameter `{unknown}`");
            return Err(refuse(message, format!("it has {}", names.join(", "))));
        }
        let given = |param: &str| types.iter().find(|t| t.0 == param).map(|t| &t.1);
        let all = self.program.all_generic_params(decl);
        let (hidden, params): (Vec<_>, Vec<_>) = all.into_iter().partition(|&g| self.is_hidden(g));
        for generic in hidden {
            let own = self.interface_of(generic);
            for (param, _) in named.iter().filter(|n| self.program.type_name(n.1.ty) == own) {
                if given(param).is_none() {
                    let message = format!(
                        "`{name}` takes a value of an interface, and nothing says which type `{param}` has"
                    );
                    return Err(refuse(message, "name the type".into()));
                }
            }
        }
        let declared: Vec<String> = params.iter().map(|&g| self.generic(g)).collect();
        let mut inner = String::new();
        let mut args = Vec::new();
        for (k, (&param, declared)) in params.iter().zip(&declared).enumerate() {
            let own = self.name(param).to_owned();
            let of_argument = || {
                let is_own =
                    |p: &&(String, &check::signature::ParamSig)| self.program.type_name(p.1.ty) == own;
                named.iter().filter(is_own).find_map(|p| given(&p.0))
            };
            let Some(argument) = generics.get(k).or_else(of_argument) else {
                let message = format!("`{name}` is generic, and nothing says what `{declared}` is");
                return Err(refuse(message, format!("name it with its arguments: `{name}<…>`")));
            };
            inner += &match &self.program.ast.decls[param].kind {
                DeclKind::ValueParam { ty, .. } => {
                    let ty = print_value_type(&self.program.ast, *ty);
                    format!("static const {ty} {own} = {argument}; ")
                }
                DeclKind::TypeParam { .. } => format!("typealias {own} = {argument}; "),
                _ => {
                    let message =
                        format!("the generic parameter `{declared}` of `{name}` stands for several types");
                    let help = "write a function that calls it with concrete types, and name that function";
                    return Err(refuse(message, help.into()));
                }
            };
            args.push(own);
        }
        if generics.len() > params.len() {
            let message = format!(
                "`{name}` has {} generic parameters, and was given {}: {}",
                params.len(),
                generics.len(),
                generics.join(", ")
            );
            return Err(refuse(message, format!("they are {}", declared.join(", "))));
        }
        let mark = self.mark(decl);
        let mut list = Vec::new();
        for (param, sig) in &named {
            let no_diff = if sig.no_diff || !sig.has_tangent() && !mark.is_empty() && sig.dir == Direction::In
            {
                "no_diff "
            } else {
                ""
            };
            let ty = given(param).cloned().unwrap_or_else(|| self.program.type_name(sig.ty));
            list.push(format!("{no_diff}{}{ty} {param}", direction(sig.dir)));
        }
        let returned = self.returned(&signature, &mark);
        let generic = if args.is_empty() { String::new() } else { format!("<{}>", args.join(", ")) };
        let args: Vec<&str> = named.iter().map(|n| &n.0[..]).collect();
        let text = format!(
            "struct __special {{ {inner}{mark}static {returned} __call({}) {{ {}{name}{generic}({}); }} }}\n",
            list.join(", "),
            if signature.ret == Ty::VOID { "" } else { "return " },
            args.join(", "),
        );
        let arguments =
            if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let index = session.parse_text(&mut self.program, &format!("a call of {name}{arguments}"), text);
        self.program.extend_module(index, self.file);
        self.errors()?;
        let found = self.function(SPECIAL).map_err(|_| {
            let types: Vec<&str> = types.iter().map(|t| &t.1[..]).collect();
            let message =
                format!("`{name}` needs types of values, and `{}` is an interface", types.join("`, `"));
            refuse(message, "name a type that conforms to it".into())
        });
        Ok((found?, SPECIAL.to_string()))
    }

    /// The attribute that declares how a function is differentiable, as a prefix for a wrapper.
    fn mark(&self, decl: DeclId) -> String {
        let marks = ["Differentiable", "BackwardDifferentiable", "ForwardDifferentiable"];
        let mark = marks.iter().find(|mark| self.program.attribute(decl, mark).is_some());
        mark.map_or_else(String::new, |mark| format!("[{mark}] "))
    }

    /// The result type of a function, as a prefix for a wrapper.
    fn returned(&self, signature: &Signature, mark: &str) -> String {
        let is_lost = signature.ret != Ty::VOID && !signature.returns_differential() && !mark.is_empty();
        format!("{}{}", if is_lost { "no_diff " } else { "" }, self.program.type_name(signature.ret))
    }

    /// Like [`Self::entry`], but also accepts `fwd_diff(f)` and `bwd_diff(f)`: kernels that call the
    /// derivative of a kernel whose parameters have no derivatives themselves (tensors carry theirs).
    pub fn entry_or_derivative(
        &mut self,
        session: &mut Session,
        name: Option<&str>,
    ) -> Result<DeclId, Failure> {
        let split = name.and_then(|n| n.strip_suffix(')')?.split_once('('));
        let Some((op @ ("fwd_diff" | "bwd_diff"), inner)) = split else { return self.entry(name) };
        let kernel = self.entry(Some(inner))?;
        let sig = self.program.func_signature(&FuncRef { decl: kernel, args: Vec::new(), self_ty: None });
        let mut params = Vec::new();
        for param in &sig.params {
            let Some(decl) = param.decl else { continue };
            let name = self.name(decl).to_owned();
            if param.has_tangent() {
                let help =
                    format!("write a kernel that calls `{op}({inner})`, or write `no_diff` before its type");
                let message = format!("the parameter `{name}` of `{inner}` has a derivative itself");
                let span = self.program.ast.decls[decl].name_span;
                return Err(Failure::Program(vec![Diagnostic::error("E0706", span, message).help(help)]));
            }
            params.push((self.program.type_name(param.ty), name));
        }
        let group = self.program.attribute(kernel, "numthreads").map(|a| {
            let sizes: Vec<String> =
                a.args.iter().map(|&arg| syntax::print::print_expr(&self.program.ast, arg)).collect();
            format!("[numthreads({})]", sizes.join(", "))
        });
        let list: Vec<String> = params.iter().map(|(ty, name)| format!("{ty} {name}")).collect();
        let args: Vec<&str> = params.iter().map(|p| p.1.as_str()).collect();
        let text = format!(
            "{}[CUDAKernel] void __{op}_kernel({}) {{ {op}({inner})({}); }}\n",
            group.unwrap_or_default(),
            list.join(", "),
            args.join(", ")
        );
        let index = session.parse_text(&mut self.program, &format!("--entry {op}({inner})"), text);
        self.program.join_module(index, self.file);
        self.errors()?;
        Ok(self.program.ast.files[index].decls[0])
    }

    /// Wraps a function so that the parameters selected by `is_memory` become globals, named with the prefix
    /// [`MEMORY`]; the other parameters stay parameters.
    pub fn without_memory(
        &mut self,
        session: &mut Session,
        (function, name): (&FuncRef, &str),
        is_memory: &[bool],
    ) -> Result<FuncRef, Failure> {
        let signature = self.program.func_signature(function);
        let (mut globals, mut list, mut args) = (String::new(), Vec::new(), Vec::new());
        for (param, &is_memory) in signature.params.iter().zip(is_memory) {
            let Some(decl) = param.decl else { continue };
            let (ty, name) = (self.program.type_name(param.ty), self.name(decl).to_owned());
            if is_memory {
                globals += &format!("uniform {ty} {MEMORY}{name};\n");
                args.push(format!("{MEMORY}{name}"));
                continue;
            }
            let no_diff = if param.no_diff { "no_diff " } else { "" };
            list.push(format!("{no_diff}{}{ty} {name}", direction(param.dir)));
            args.push(name);
        }
        let mark = self.mark(function.decl);
        let returned = self.returned(&signature, &mark);
        let returns = if signature.ret == Ty::VOID { "" } else { "return " };
        let (list, args) = (list.join(", "), args.join(", "));
        let text =
            format!("{globals}{mark}{returned} __without_memory({list}) {{ {returns}{name}({args}); }}\n");
        let index = session.parse_text(&mut self.program, &format!("a call of {name}"), text);
        self.program.extend_module(index, self.file);
        self.errors()?;
        let decl = self.program.ast.files[index].decls.last().copied();
        Ok(FuncRef { decl: decl.unwrap_or(function.decl), args: Vec::new(), self_ty: None })
    }
}

/// A parameter's direction, as a prefix for its type.
fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::In | Direction::ConstRef => "",
        Direction::Out => "out ",
        Direction::InOut | Direction::Ref => "inout ",
    }
}
