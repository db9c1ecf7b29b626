//! Prints declarations: attributes and modifiers, then the kind of declaration, then its members or its body.

use super::Printer;
use crate::ast::*;
use crate::grammar::attributes::is_word_attribute;
use crate::keywords as kw;

/// The keyword of each modifier, in the order in which they are written.
const MODIFIERS: &[(Modifiers, &str)] = &[
    (Modifiers::PUBLIC, "public"),
    (Modifiers::INTERNAL, "internal"),
    (Modifiers::PRIVATE, "private"),
    (Modifiers::EXPORTED, "__exported"),
    (Modifiers::EXTERN, "extern"),
    (Modifiers::EXPORT, "export"),
    (Modifiers::OVERRIDE, "override"),
    (Modifiers::INLINE, "inline"),
    (Modifiers::DYN, "dyn"),
    (Modifiers::STATIC, "static"),
    (Modifiers::CONST, "const"),
    (Modifiers::UNIFORM, "uniform"),
    (Modifiers::GROUPSHARED, "groupshared"),
    (Modifiers::PRECISE, "precise"),
    (Modifiers::VOLATILE, "volatile"),
    (Modifiers::GLOBALLYCOHERENT, "globallycoherent"),
    (Modifiers::INTERPOLATION, "nointerpolation"),
    (Modifiers::ROW_MAJOR, "row_major"),
    (Modifiers::COLUMN_MAJOR, "column_major"),
    (Modifiers::NO_DIFF, "no_diff"),
    (Modifiers::IN, "in"),
    (Modifiers::OUT, "out"),
    (Modifiers::INOUT, "inout"),
    (Modifiers::CONSTREF, "__constref"),
    (Modifiers::REF, "__ref"),
    (Modifiers::EACH, "each"),
];

impl Printer<'_> {
    pub(super) fn modifiers(&mut self, modifiers: Modifiers) {
        for &(modifier, word) in MODIFIERS {
            if modifiers.has(modifier) {
                self.text(word);
                self.text(" ");
            }
        }
    }

    pub(super) fn attributes(&mut self, attributes: &[Attribute], after: &str) {
        for attribute in attributes {
            let word = is_word_attribute(attribute.name);
            self.text(if word { "" } else { "[" });
            self.name(attribute.name);
            if !attribute.args.is_empty() {
                self.text("(");
                self.list(&attribute.args);
                self.text(")");
            }
            self.text(if word { "" } else { "]" });
            self.text(after);
        }
    }

    pub(super) fn decl(&mut self, decl: DeclId) {
        self.line();
        self.decl_here(decl);
        self.text("\n");
    }

    pub(super) fn decl_here(&mut self, decl: DeclId) {
        let ast = self.ast;
        let node = &ast.decls[decl];
        if matches!(node.kind, DeclKind::Var { .. }) {
            self.var_head(decl);
            return self.text(";");
        }
        self.attributes(&node.attributes, " ");
        self.modifiers(node.modifiers);
        match &node.kind {
            DeclKind::Var { .. } => {}
            DeclKind::Param { .. } | DeclKind::TypeParam { .. } | DeclKind::ValueParam { .. } => {
                self.param(decl);
            }
            DeclKind::Func { params, result, body } => {
                match result {
                    Some(result) => self.wrapped("", *result, " "),
                    None => self.text("func "),
                }
                self.name(node.name);
                self.callable(node, params, None, *body);
            }
            DeclKind::Init { params, body } => {
                self.text("__init");
                self.callable(node, params, None, *body);
            }
            DeclKind::Subscript { params, result, accessors } => {
                self.text("__subscript");
                self.generic_params(node);
                self.params(params);
                self.wrapped(" -> ", *result, "");
                self.constraints(node);
                self.members(accessors);
            }
            DeclKind::Property { ty, accessors } => {
                self.wrapped("property ", *ty, " ");
                self.name(node.name);
                self.members(accessors);
            }
            DeclKind::Accessor { kind, param, body } => {
                self.text(match kind {
                    AccessorKind::Get => "get",
                    AccessorKind::Set => "set",
                    AccessorKind::Ref => "ref",
                });
                if let Some(param) = param {
                    self.params(std::slice::from_ref(param));
                }
                self.body(*body);
            }
            DeclKind::Struct { bases, members } => self.aggregate("struct ", node, bases, members),
            DeclKind::Interface { bases, members } => self.aggregate("interface ", node, bases, members),
            DeclKind::Extension { target, bases, members } => {
                self.text("extension");
                self.generic_params(node);
                self.wrapped(" ", *target, "");
                self.bases(bases);
                self.constraints(node);
                self.members(members);
            }
            DeclKind::Enum { tag, cases } => {
                self.text("enum ");
                self.name(node.name);
                self.bases(tag.as_slice());
                self.text(" {\n");
                self.indent += 1;
                for &case in cases {
                    self.line();
                    self.decl_here(case);
                    self.text(",\n");
                }
                self.indent -= 1;
                self.line();
                self.text("}");
            }
            DeclKind::EnumCase(value) => {
                self.name(node.name);
                if let Some(value) = value {
                    self.wrapped(" = ", *value, "");
                }
            }
            DeclKind::AssociatedType { bases } => {
                self.text("associatedtype ");
                self.name(node.name);
                self.bases(bases);
                self.constraints(node);
                self.text(";");
            }
            DeclKind::TypeAlias(target) => {
                self.text("typealias ");
                self.name(node.name);
                self.generic_params(node);
                self.wrapped(" = ", *target, "");
                self.constraints(node);
                self.text(";");
            }
            DeclKind::Namespace { members } => {
                self.text("namespace ");
                self.name(node.name);
                self.members(members);
            }
            DeclKind::CBuffer { members } => {
                self.text("cbuffer ");
                self.name(node.name);
                self.members(members);
            }
            DeclKind::Import { path, quoted } => self.module("import ", path, *quoted),
            DeclKind::Include { path, quoted } => self.module("__include ", path, *quoted),
            DeclKind::Module(path) => self.module("module ", path, true),
            DeclKind::Implementing(path) => self.module("implementing ", path, true),
            DeclKind::Using(target) => self.wrapped("using ", *target, ";"),
            DeclKind::FuncExtension { op, target, params, result, body } => {
                self.text("__func_extension");
                self.generic_params(node);
                self.text(" ");
                self.name(*op);
                self.wrapped("(", *target, ")");
                self.params(params);
                if let Some(result) = result {
                    self.wrapped(" -> ", *result, "");
                }
                self.constraints(node);
                self.body(*body);
            }
            DeclKind::Unsupported(name) => {
                self.name(*name);
                self.text(" ();");
            }
            DeclKind::Empty => self.text(";"),
        }
    }

    /// Prints a variable up to and including its initialiser, without `;`.
    pub(super) fn var_head(&mut self, decl: DeclId) {
        let ast = self.ast;
        let node = &ast.decls[decl];
        let DeclKind::Var { ty, init, semantic } = &node.kind else { return };
        self.attributes(&node.attributes, " ");
        self.modifiers(node.modifiers);
        let is_let = node.modifiers.has(Modifiers::LET);
        match ty {
            Some(ty) if !is_let => {
                self.wrapped("", *ty, " ");
                self.name(node.name);
                if let Some(&width) = self.ast.bit_widths.get(&decl) {
                    self.wrapped(" : ", width, "");
                }
            }
            _ => {
                self.text(if is_let { "let " } else { "var " });
                self.name(node.name);
                if let Some(ty) = ty {
                    self.wrapped(" : ", *ty, "");
                }
            }
        }
        if let Some(semantic) = semantic {
            self.text(" : ");
            self.name(*semantic);
        }
        if let Some(init) = init {
            self.wrapped(" = ", *init, "");
        }
    }

    fn module(&mut self, word: &str, path: &str, quoted: bool) {
        self.text(word);
        if quoted {
            self.string(path);
        } else {
            self.text(&path.replace('/', "."));
        }
        self.text(";");
    }

    fn callable(&mut self, node: &Decl, params: &[DeclId], result: Option<ExprId>, body: Option<StmtId>) {
        self.generic_params(node);
        self.params(params);
        if let Some(result) = result {
            self.wrapped(" -> ", result, "");
        }
        self.constraints(node);
        self.body(body);
    }

    fn body(&mut self, body: Option<StmtId>) {
        match body {
            Some(body) => {
                self.text(" ");
                self.block_of(body);
            }
            None => self.text(";"),
        }
    }

    fn aggregate(&mut self, word: &str, node: &Decl, bases: &[ExprId], members: &[DeclId]) {
        self.text(word);
        self.name(node.name);
        self.generic_params(node);
        self.bases(bases);
        self.constraints(node);
        self.members(members);
    }

    fn bases(&mut self, bases: &[ExprId]) {
        if !bases.is_empty() {
            self.text(" : ");
            self.list(bases);
        }
    }

    fn members(&mut self, members: &[DeclId]) {
        if members.is_empty() {
            return self.text(" {}");
        }
        self.text(" {\n");
        self.indent += 1;
        for &member in members {
            self.decl(member);
        }
        self.indent -= 1;
        self.line();
        self.text("}");
    }

    pub(super) fn params(&mut self, params: &[DeclId]) {
        self.text("(");
        for (i, &param) in params.iter().enumerate() {
            self.text(if i > 0 { ", " } else { "" });
            self.attributes(&self.ast.decls[param].attributes, " ");
            self.modifiers(self.ast.decls[param].modifiers);
            self.param(param);
        }
        self.text(")");
    }

    /// Prints a function or generic parameter after its modifiers.
    fn param(&mut self, param: DeclId) {
        let ast = self.ast;
        let node = &ast.decls[param];
        let default = match &node.kind {
            DeclKind::Param { ty, default, semantic } => {
                if let Some(ty) = ty {
                    self.wrapped("", *ty, if node.name == kw::EMPTY { "" } else { " " });
                }
                self.name(node.name);
                if let Some(semantic) = semantic {
                    self.text(" : ");
                    self.name(*semantic);
                }
                default
            }
            DeclKind::TypeParam { bases, default } => {
                self.name(node.name);
                self.bases(bases);
                default
            }
            DeclKind::ValueParam { ty, default } => {
                self.name(node.name);
                self.wrapped(" : ", *ty, "");
                default
            }
            _ => return,
        };
        if let Some(default) = default {
            self.wrapped(" = ", *default, "");
        }
    }

    fn generic_params(&mut self, node: &Decl) {
        let Some(generics) = node.generics.as_ref().filter(|g| !g.params.is_empty()) else { return };
        self.text("<");
        for (i, &param) in generics.params.iter().enumerate() {
            let decl = &self.ast.decls[param];
            self.text(if i > 0 { ", " } else { "" });
            self.text(if matches!(decl.kind, DeclKind::ValueParam { .. }) { "let " } else { "" });
            self.modifiers(decl.modifiers);
            self.param(param);
        }
        self.text(">");
    }

    fn constraints(&mut self, node: &Decl) {
        for constraint in node.generics.iter().flat_map(|g| &g.constraints) {
            match constraint {
                Constraint::Conforms(left, right) => {
                    self.wrapped(" where ", *left, " : ");
                    self.list(right);
                }
                Constraint::Equal(left, right) => {
                    self.wrapped(" where ", *left, " == ");
                    self.expr(*right);
                }
                Constraint::Optional(left, right) => {
                    self.wrapped(" where optional ", *left, " : ");
                    self.list(right);
                }
                Constraint::Converts { to, from, implicit } => {
                    self.wrapped(" where ", *to, "(");
                    self.wrapped("", *from, if *implicit { ") implicit" } else { ")" });
                }
                Constraint::NonEmpty(pack) => self.wrapped(" where nonempty(", *pack, ")"),
                Constraint::Other(_) => self.text(" /* where … */"),
            }
        }
    }
}
