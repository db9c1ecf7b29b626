//! Prints declarations: attributes and modifiers, then the kind of declaration, then its members or its body.

use super::{Piece, Printer};
use crate::ast::*;
use crate::grammar::attributes::is_word_attribute;
use crate::keywords as kw;
use crate::literal::quoted;

impl Piece for Modifiers {
    fn print(self, printer: &mut Printer<'_>) {
        for &(modifier, word) in Modifiers::WORDS {
            if self.has(modifier) {
                put!(printer, word, " ");
            }
        }
    }
}

impl Piece for &[Attribute] {
    fn print(self, printer: &mut Printer<'_>) {
        for Attribute { name, args, .. } in self {
            let (open, close) = if is_word_attribute(*name) { ("", " ") } else { ("[", "] ") };
            let args = (!args.is_empty()).then_some(("(", (&args[..], ")")));
            put!(printer, open, name, args, close);
        }
    }
}

/// The generic parameters, without the constraints.
impl Piece for &Generics {
    fn print(self, printer: &mut Printer<'_>) {
        if self.params.is_empty() {
            return;
        }
        put!(printer, "<");
        printer.separated(&self.params, |printer, &param| {
            let decl = &printer.ast.decls[param];
            let is_value = matches!(decl.kind, DeclKind::ValueParam { .. });
            put!(printer, is_value.then_some("let "), decl.modifiers);
            printer.param(param);
        });
        put!(printer, ">");
    }
}

impl Piece for &[Constraint] {
    fn print(self, printer: &mut Printer<'_>) {
        for constraint in self {
            match constraint {
                Constraint::Other(_) => put!(printer, " /* where … */"),
                constraint => put!(printer, " where ", constraint),
            }
        }
    }
}

impl Piece for &Constraint {
    fn print(self, printer: &mut Printer<'_>) {
        match self {
            Constraint::Conforms(left, right) => put!(printer, left, " : ", &right[..]),
            Constraint::Equal(left, right) => put!(printer, left, " == ", right),
            Constraint::Optional(left, right) => put!(printer, "optional ", left, " : ", &right[..]),
            Constraint::Converts { to, from, implicit } => {
                put!(printer, to, "(", from, ")", implicit.then_some(" implicit"));
            }
            Constraint::NonEmpty(pack) => put!(printer, "nonempty(", pack, ")"),
            Constraint::Other(_) => {}
        }
    }
}

/// Parameters in parentheses.
pub(super) struct Params<'a>(pub(super) &'a [DeclId]);

impl Piece for Params<'_> {
    fn print(self, printer: &mut Printer<'_>) {
        put!(printer, "(");
        printer.separated(self.0, |p, &param| {
            let decl = &p.ast.decls[param];
            put!(p, &decl.attributes[..], decl.modifiers);
            p.param(param);
        });
        put!(printer, ")");
    }
}

/// Members in braces.
struct Members<'a>(&'a [DeclId]);

impl Piece for Members<'_> {
    fn print(self, printer: &mut Printer<'_>) {
        if self.0.is_empty() {
            return put!(printer, " {}");
        }
        put!(printer, " ");
        printer.braces(|p| self.0.iter().for_each(|&member| p.decl(member)));
    }
}

/// Accessors in braces, or the `;` that declares a getter.
struct Accessors<'a>(&'a [DeclId]);

impl Piece for Accessors<'_> {
    fn print(self, printer: &mut Printer<'_>) {
        match self.0 {
            &[only] if printer.ast.decls[only].name == kw::EMPTY => put!(printer, ";"),
            accessors => put!(printer, Members(accessors)),
        }
    }
}

/// A function's body, or `;`.
struct Body(Option<StmtId>);

impl Piece for Body {
    fn print(self, printer: &mut Printer<'_>) {
        match self.0 {
            Some(body) => put!(printer, " ", body),
            None => put!(printer, ";"),
        }
    }
}

impl Printer<'_> {
    pub(super) fn decl(&mut self, decl: DeclId) {
        self.line();
        self.decl_here(decl);
        put!(self, "\n");
    }

    pub(super) fn decl_here(&mut self, decl: DeclId) {
        let ast = self.ast;
        let node = &ast.decls[decl];
        if let DeclKind::Var { init, .. } = node.kind {
            // A `static_assert` is a constant without a name.
            if node.name == kw::EMPTY {
                return put!(self, init, ";");
            }
            self.var_head(decl);
            return put!(self, ";");
        }
        let name = node.name;
        let generics = node.generics.as_ref();
        let constraints = generics.map(|g| &g.constraints[..]);
        put!(self, &node.attributes[..], node.modifiers);
        match &node.kind {
            DeclKind::Var { .. } => {}
            DeclKind::Tuple { parts, init } => {
                put!(self, if node.modifiers.has(Modifiers::LET) { "let (" } else { "var (" });
                self.separated(parts, |p, &part| put!(p, p.ast.decls[part].name));
                put!(self, ") = ", init, ";");
            }
            DeclKind::Param { .. } | DeclKind::TypeParam { .. } | DeclKind::ValueParam { .. } => {
                self.param(decl);
            }
            DeclKind::Func { params, result, body } => {
                if let Some(extension) = ast.extensions.get(&decl) {
                    put!(self, "__func_extension", generics, " ", extension.op, "(", extension.target, ")");
                    put!(self, Params(params), result.map(|ty| (" -> ", ty)), constraints, Body(*body));
                    return;
                }
                match result {
                    Some(result) => put!(self, result, " "),
                    None => put!(self, "func "),
                }
                let semantic = ast.semantics.get(&decl).map(|semantic| (" : ", *semantic));
                put!(self, name, generics, Params(params), constraints, semantic, Body(*body));
            }
            DeclKind::Init { params, body } => {
                put!(self, "__init", generics, Params(params), constraints, Body(*body));
            }
            DeclKind::Subscript { params, result, accessors } => {
                put!(self, "__subscript", generics, Params(params), " -> ", result, constraints);
                put!(self, Accessors(accessors));
            }
            DeclKind::Property { ty, accessors } => {
                put!(self, "property ", ty, " ", name, Accessors(accessors));
            }
            DeclKind::Accessor { kind, param, body } => {
                let param = param.as_ref().map(|param| Params(std::slice::from_ref(param)));
                put!(self, kind.text(), param, Body(*body));
            }
            DeclKind::Struct { bases, members } => {
                put!(self, "struct ", name, generics, after_colon(bases), constraints, Members(members));
            }
            DeclKind::Interface { bases, members } => {
                put!(self, "interface ", name, generics, after_colon(bases), constraints, Members(members));
            }
            DeclKind::Extension { target, bases, members } => {
                put!(self, "extension", generics, " ", target, after_colon(bases), constraints);
                put!(self, Members(members));
            }
            DeclKind::Enum { tag, cases } => {
                put!(self, "enum ", name, after_colon(tag.as_slice()), " ");
                self.braces(|p| {
                    for &case in cases {
                        p.line();
                        p.decl_here(case);
                        put!(p, ",\n");
                    }
                });
            }
            DeclKind::EnumCase(value) => put!(self, name, value.map(|e| (" = ", e))),
            DeclKind::AssociatedType { .. } if name == kw::EMPTY => {
                put!(self, "__constraint ", constraints.and_then(<[_]>::first), ";");
            }
            DeclKind::AssociatedType { bases } => {
                put!(self, "associatedtype ", name, after_colon(bases), constraints, ";");
            }
            DeclKind::TypeAlias(target) => {
                put!(self, "typealias ", name, generics, " = ", target, constraints, ";");
            }
            DeclKind::Namespace { members } => put!(self, "namespace ", name, Members(members)),
            DeclKind::CBuffer { members } => put!(self, "cbuffer ", name, Members(members)),
            DeclKind::Import { path, quoted } => put!(self, "import ", module(path, *quoted), ";"),
            DeclKind::Include { path, quoted } => put!(self, "__include ", module(path, *quoted), ";"),
            DeclKind::Module(path) => put!(self, "module ", quoted(path), ";"),
            DeclKind::Implementing(path) => put!(self, "implementing ", quoted(path), ";"),
            DeclKind::Using(target) => put!(self, "using ", target, ";"),
            DeclKind::Unsupported(name) => put!(self, name, " ();"),
            DeclKind::Empty => put!(self, ";"),
        }
    }

    /// Prints a variable up to and including its initialiser, without `;`.
    pub(super) fn var_head(&mut self, decl: DeclId) {
        let ast = self.ast;
        let node = &ast.decls[decl];
        let DeclKind::Var { ty, init, semantic } = &node.kind else { return };
        put!(self, &node.attributes[..], node.modifiers);
        let is_let = node.modifiers.has(Modifiers::LET);
        match ty {
            Some(ty) if !is_let => {
                put!(self, ty, " ", node.name, ast.bit_widths.get(&decl).map(|width| (" : ", width)));
            }
            _ => put!(self, if is_let { "let " } else { "var " }, node.name, ty.map(|ty| (" : ", ty))),
        }
        put!(self, semantic.map(|s| (" : ", s)), init.map(|e| (" = ", e)));
    }

    /// Prints a function or generic parameter after its modifiers.
    fn param(&mut self, param: DeclId) {
        let ast = self.ast;
        let Decl { kind, name, .. } = &ast.decls[param];
        let default = match kind {
            DeclKind::Param { ty, default, semantic } => {
                let space = if *name == kw::EMPTY { "" } else { " " };
                put!(self, ty.map(|ty| (ty, space)), name, semantic.map(|s| (" : ", s)));
                default
            }
            DeclKind::TypeParam { bases, default } => {
                put!(self, name, after_colon(bases));
                default
            }
            DeclKind::ValueParam { ty, default } => {
                put!(self, name, ty.map(|ty| (" : ", ty)));
                default
            }
            _ => return,
        };
        put!(self, default.map(|e| (" = ", e)));
    }
}

fn after_colon(bases: &[ExprId]) -> Option<(&str, &[ExprId])> {
    (!bases.is_empty()).then_some((" : ", bases))
}

fn module(path: &str, is_quoted: bool) -> String {
    if is_quoted { quoted(path) } else { path.replace('/', ".") }
}
