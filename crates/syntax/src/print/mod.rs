//! The AST as source text again, for `emit --stage ast` and for messages that quote an expression.
//!
//! What comes out parses to the same tree. Parentheses are nodes of the tree, so none are added. The left
//! spine of an expression is walked in a loop: a sum of a million terms needs no stack.

use std::fmt::Write;

use crate::ast::*;
use crate::grammar::attributes::is_word_attribute;
use crate::keywords as kw;

/// A file's declarations.
pub fn print_file(ast: &Ast, file: &FileAst) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    for &decl in &file.decls {
        printer.decl(decl);
    }
    printer.out
}

/// An expression or type.
pub fn print_expr(ast: &Ast, expr: ExprId) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    printer.expr(expr);
    printer.out
}

/// A declaration with what is in it.
pub fn print_decl(ast: &Ast, decl: DeclId) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    printer.decl(decl);
    printer.out
}

/// A statement with what is in it.
pub fn print_stmt(ast: &Ast, stmt: StmtId) -> String {
    let mut printer = Printer { ast, out: String::new(), indent: 0 };
    printer.stmt(stmt);
    printer.out
}

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

struct Printer<'a> {
    ast: &'a Ast,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn name(&mut self, symbol: Symbol) {
        let ast = self.ast;
        self.out.push_str(ast.name(symbol));
    }

    /// Starts a line.
    fn line(&mut self) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
    }

    fn list(&mut self, items: &[ExprId]) {
        for (i, &item) in items.iter().enumerate() {
            self.text(if i > 0 { ", " } else { "" });
            self.expr(item);
        }
    }

    fn modifiers(&mut self, modifiers: Modifiers) {
        for &(modifier, word) in MODIFIERS {
            if modifiers.has(modifier) {
                self.text(word);
                self.text(" ");
            }
        }
    }

    // Expressions.

    fn expr(&mut self, expr: ExprId) {
        let mut spine = Vec::new();
        let mut leaf = expr;
        while let Some(left) = self.leftmost(leaf) {
            spine.push(leaf);
            leaf = left;
        }
        self.leaf(leaf);
        while let Some(parent) = spine.pop() {
            self.rest(parent);
        }
    }

    /// The sub-expression that an expression's text starts with.
    fn leftmost(&self, expr: ExprId) -> Option<ExprId> {
        match self.ast.exprs[expr].kind {
            ExprKind::Member { base, .. } | ExprKind::Static { base, .. } => Some(base),
            ExprKind::Index { base, .. } | ExprKind::Generic { base, .. } => Some(base),
            ExprKind::Call { callee, .. } => Some(callee),
            ExprKind::Postfix(_, left) | ExprKind::Binary(_, left, _) | ExprKind::Assign(_, left, _) => {
                Some(left)
            }
            ExprKind::Ternary(left, _, _) | ExprKind::Is(left, _) | ExprKind::As(left, _) => Some(left),
            ExprKind::Pointer(left) => Some(left),
            _ => None,
        }
    }

    /// What follows the leftmost sub-expression.
    fn rest(&mut self, expr: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Member { name, arrow, .. } => {
                self.text(if *arrow { "->" } else { "." });
                self.name(*name);
            }
            ExprKind::Static { name, .. } => {
                self.text("::");
                self.name(*name);
            }
            ExprKind::Index { args, .. } => {
                self.text("[");
                self.list(args);
                self.text("]");
            }
            ExprKind::Generic { args, .. } => {
                self.text("<");
                self.list(args);
                self.text(">");
            }
            ExprKind::Call { args, .. } => {
                self.text("(");
                self.list(args);
                self.text(")");
            }
            ExprKind::Postfix(increment, _) => self.text(if *increment { "++" } else { "--" }),
            ExprKind::Binary(op, _, right) => {
                let space = if *op == BinaryOp::Comma { "" } else { " " };
                let _ = write!(self.out, "{space}{} ", op.text());
                self.expr(*right);
            }
            ExprKind::Assign(op, _, right) => {
                let _ = write!(self.out, " {}= ", op.map_or("", BinaryOp::text));
                self.expr(*right);
            }
            ExprKind::Ternary(_, then, otherwise) => {
                self.text(" ? ");
                self.expr(*then);
                self.text(" : ");
                self.expr(*otherwise);
            }
            ExprKind::Is(_, ty) => {
                self.text(" is ");
                self.expr(*ty);
            }
            ExprKind::As(_, ty) => {
                self.text(" as ");
                self.expr(*ty);
            }
            ExprKind::Pointer(_) => self.text("*"),
            _ => {}
        }
    }

    fn leaf(&mut self, expr: ExprId) {
        let ast = self.ast;
        match &ast.exprs[expr].kind {
            ExprKind::Int { value, suffix } => {
                let _ = write!(self.out, "{value}");
                self.name(*suffix);
            }
            ExprKind::Float { value, suffix } => {
                if value.is_infinite() {
                    self.text("1.#INF");
                } else {
                    self.text(&crate::literal::float_text(*value, *suffix));
                }
                self.name(*suffix);
            }
            ExprKind::Bool(value) => self.text(if *value { "true" } else { "false" }),
            ExprKind::String(text) => self.string(text),
            ExprKind::NullPtr => self.text("nullptr"),
            ExprKind::None => self.text("none"),
            ExprKind::GlobalName(name) => {
                self.text("::");
                self.name(*name);
            }
            ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::Opaque(name) => {
                self.name(*name);
                if matches!(*name, kw::SPIRV_ASM) {
                    self.text(" {}");
                }
            }
            ExprKind::This => self.text("this"),
            ExprKind::ThisType => self.text("This"),
            ExprKind::Unary(op, inner) => {
                self.text(match op {
                    UnaryOp::Plus => "+",
                    UnaryOp::Neg => "-",
                    UnaryOp::Not => "!",
                    UnaryOp::BitNot => "~",
                    UnaryOp::PreInc => "++",
                    UnaryOp::PreDec => "--",
                    UnaryOp::Deref => "*",
                    UnaryOp::AddressOf => "&",
                });
                // `- -x` is not `--x`.
                if matches!(ast.exprs[*inner].kind, ExprKind::Unary(..)) {
                    self.text(" ");
                }
                self.expr(*inner);
            }
            ExprKind::Cast(ty, inner) => {
                self.wrapped("(", *ty, ")");
                self.expr(*inner);
            }
            ExprKind::Paren(inner) => self.wrapped("(", *inner, ")"),
            ExprKind::InitList(items) => {
                self.text("{");
                self.list(items);
                self.text("}");
            }
            ExprKind::NoDiff(inner) => self.wrapped("no_diff ", *inner, ""),
            ExprKind::FwdDiff(inner) => self.wrapped("fwd_diff(", *inner, ")"),
            ExprKind::BwdDiff(inner) => self.wrapped("bwd_diff(", *inner, ")"),
            ExprKind::Apply(inner) => self.wrapped("__apply(", *inner, ")"),
            ExprKind::Linearize(inner) => self.wrapped("__linearize(", *inner, ")"),
            ExprKind::SizeOf(SizeOfKind::SizeOf, inner) => self.wrapped("sizeof(", *inner, ")"),
            ExprKind::SizeOf(SizeOfKind::AlignOf, inner) => self.wrapped("alignof(", *inner, ")"),
            ExprKind::SizeOf(SizeOfKind::CountOf, inner) => self.wrapped("countof(", *inner, ")"),
            ExprKind::Expand(inner) => self.wrapped("expand ", *inner, ""),
            ExprKind::Each(inner) => self.wrapped("each ", *inner, ""),
            ExprKind::Modified(modifiers, inner) => {
                self.modifiers(*modifiers);
                self.expr(*inner);
            }
            ExprKind::Lambda(decl) => self.lambda(*decl),
            ExprKind::FuncType(params, result) => {
                self.text("functype(");
                self.list(params);
                self.wrapped(") -> ", *result, "");
            }
            // The others have a leftmost sub-expression.
            _ => self.text("<error>"),
        }
    }

    fn wrapped(&mut self, before: &str, inner: ExprId, after: &str) {
        self.text(before);
        self.expr(inner);
        self.text(after);
    }

    fn string(&mut self, text: &str) {
        self.text("\"");
        for c in text.chars() {
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '\n' => self.text("\\n"),
                '\t' => self.text("\\t"),
                '\r' => self.text("\\r"),
                '\0'..='\x1f' => {
                    let _ = write!(self.out, "\\{:03o}", u32::from(c));
                }
                _ => self.out.push(c),
            }
        }
        self.text("\"");
    }

    fn lambda(&mut self, decl: DeclId) {
        if let DeclKind::Func { params, body, .. } = &self.ast.decls[decl].kind {
            self.params(params);
            self.text(" => ");
            if let Some(body) = body {
                self.block_of(*body);
            }
        }
    }

    // Statements.

    fn stmt(&mut self, stmt: StmtId) {
        self.line();
        self.stmt_here(stmt);
        self.text("\n");
    }

    /// A statement's text without the line around it.
    fn stmt_here(&mut self, stmt: StmtId) {
        let ast = self.ast;
        let node = &ast.stmts[stmt];
        self.attributes(&node.attributes, " ");
        match &node.kind {
            StmtKind::Empty => self.text(";"),
            StmtKind::Block(_) => self.block_of(stmt),
            StmtKind::Expr(expr) => self.wrapped("", *expr, ";"),
            StmtKind::Decl(decls) => {
                for (i, &decl) in decls.iter().enumerate() {
                    if i > 0 {
                        self.text("\n");
                        self.line();
                    }
                    self.decl_here(decl);
                }
            }
            StmtKind::If { cond, then, otherwise } => {
                self.wrapped("if (", *cond, ") ");
                self.branches(*then, *otherwise);
            }
            StmtKind::IfLet { var, then, otherwise } => {
                self.text("if (");
                self.var_head(*var);
                self.text(") ");
                self.branches(*then, *otherwise);
            }
            StmtKind::For { init, cond, step, body } => {
                self.text("for (");
                self.for_init(*init);
                if let Some(cond) = cond {
                    self.text(" ");
                    self.expr(*cond);
                }
                self.text(";");
                if let Some(step) = step {
                    self.text(" ");
                    self.expr(*step);
                }
                self.text(") ");
                self.block_of(*body);
            }
            StmtKind::While { cond, body } => {
                self.wrapped("while (", *cond, ") ");
                self.block_of(*body);
            }
            StmtKind::DoWhile { body, cond } => {
                self.text("do ");
                self.block_of(*body);
                self.wrapped(" while (", *cond, ");");
            }
            StmtKind::Switch { scrutinee, cases } => {
                self.wrapped("switch (", *scrutinee, ") {\n");
                for case in cases {
                    self.line();
                    for &label in &case.labels {
                        match label {
                            Some(value) => self.wrapped("case ", value, ": "),
                            None => self.text("default: "),
                        }
                    }
                    self.text("\n");
                    self.stmts(&case.body);
                }
                self.line();
                self.text("}");
            }
            StmtKind::Break => self.text("break;"),
            StmtKind::Continue => self.text("continue;"),
            StmtKind::Return(None) => self.text("return;"),
            StmtKind::Return(Some(value)) => self.wrapped("return ", *value, ";"),
            StmtKind::Discard => self.text("discard;"),
            StmtKind::TargetSwitch(cases) => {
                self.text("__target_switch {\n");
                for (names, body) in cases {
                    self.line();
                    for &name in names {
                        self.text(if name == kw::DEFAULT { "" } else { "case " });
                        self.name(name);
                        self.text(": ");
                    }
                    self.text("\n");
                    self.stmts(body);
                }
                self.line();
                self.text("}");
            }
            StmtKind::IntrinsicAsm(text) => {
                self.text("__intrinsic_asm ");
                self.string(text);
                self.text(";");
            }
            StmtKind::Defer(body) => {
                self.text("defer ");
                self.block_of(*body);
            }
            StmtKind::Labeled { label, body, .. } => {
                self.name(*label);
                self.text(": ");
                self.block_of(*body);
            }
            StmtKind::BreakTo { label, .. } => {
                self.text("break ");
                self.name(*label);
                self.text(";");
            }
            StmtKind::Throw(value) => self.wrapped("throw ", *value, ";"),
            StmtKind::Try(var) => {
                let name = self.ast.decls[*var].name;
                self.text("let ");
                self.name(name);
                if let DeclKind::Var { init: Some(call), .. } = self.ast.decls[*var].kind {
                    self.wrapped(" = try ", call, ";");
                }
            }
            StmtKind::DoCatch { body, catches, .. } => {
                self.text("do ");
                self.block_of(*body);
                for &(var, handler) in catches {
                    self.text(" catch ");
                    if let Some(var) = var
                        && let DeclKind::Var { ty: Some(ty), .. } = self.ast.decls[var].kind
                    {
                        let name = self.ast.decls[var].name;
                        self.text("(");
                        self.name(name);
                        self.wrapped(" : ", ty, ") ");
                    }
                    self.block_of(handler);
                }
            }
            StmtKind::Unsupported(name) => match *name {
                kw::SPIRV_ASM => self.text("spirv_asm {}"),
                kw::BREAK | kw::CONTINUE => {
                    self.name(*name);
                    self.text(" label;");
                }
                _ => {
                    self.name(*name);
                    self.text(";");
                }
            },
            StmtKind::Error => self.text("/* error */;"),
        }
    }

    fn stmts(&mut self, stmts: &[StmtId]) {
        self.indent += 1;
        for &stmt in stmts {
            self.stmt(stmt);
        }
        self.indent -= 1;
    }

    /// A statement that follows something on its line.
    fn block_of(&mut self, stmt: StmtId) {
        let ast = self.ast;
        match &ast.stmts[stmt].kind {
            StmtKind::Block(stmts) if stmts.is_empty() => self.text("{}"),
            StmtKind::Block(stmts) => {
                self.text("{\n");
                self.stmts(stmts);
                self.line();
                self.text("}");
            }
            _ => self.stmt_here(stmt),
        }
    }

    fn branches(&mut self, then: StmtId, otherwise: Option<StmtId>) {
        self.block_of(then);
        if let Some(otherwise) = otherwise {
            self.text(" else ");
            self.block_of(otherwise);
        }
    }

    fn for_init(&mut self, init: Option<StmtId>) {
        let ast = self.ast;
        match init.map(|init| &ast.stmts[init].kind) {
            Some(StmtKind::Decl(decls)) => {
                for (i, &decl) in decls.iter().enumerate() {
                    if i == 0 {
                        self.var_head(decl);
                        continue;
                    }
                    self.text(", ");
                    self.name(ast.decls[decl].name);
                    if let DeclKind::Var { init: Some(init), .. } = ast.decls[decl].kind {
                        self.wrapped(" = ", init, "");
                    }
                }
                self.text(";");
            }
            Some(_) => self.stmt_here(init.expect("matched above")),
            None => self.text(";"),
        }
    }

    // Declarations.

    fn attributes(&mut self, attributes: &[Attribute], after: &str) {
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

    fn decl(&mut self, decl: DeclId) {
        self.line();
        self.decl_here(decl);
        self.text("\n");
    }

    fn decl_here(&mut self, decl: DeclId) {
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

    /// A variable up to its initialiser, without `;`.
    fn var_head(&mut self, decl: DeclId) {
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

    fn params(&mut self, params: &[DeclId]) {
        self.text("(");
        for (i, &param) in params.iter().enumerate() {
            self.text(if i > 0 { ", " } else { "" });
            self.attributes(&self.ast.decls[param].attributes, " ");
            self.modifiers(self.ast.decls[param].modifiers);
            self.param(param);
        }
        self.text(")");
    }

    /// A parameter of a function or of generics, after its modifiers.
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
