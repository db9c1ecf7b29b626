//! Describes host code as JSON: the checked bodies of functions that allocate tensors and dispatch kernels.
//!
//! The host itself runs this code, since the code consists of little else than calls into the host. A
//! statement is an object with its kind in `do`; an expression is an object with its kind in `is`, and in
//! `to` the type that its context converts it to, if that differs. A construct that hosts need not support is
//! `unsupported`, with a description.

use check::Program;
use check::tables::{Arg, Callable, DiffOp, FuncRef, Initializer, Meaning};
use check::types::Ty;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use syntax::ast::{DeclKind, ExprKind, Modifiers, StmtKind};
use syntax::print::print_expr;
use syntax::{DeclId, ExprId, Sources, Span, StmtId};

use crate::reflect::{describe as ty, name_of, params};

/// Describes functions and their callees, each once.
pub(crate) struct Host<'a> {
    pub(crate) program: &'a mut Program,
    sources: &'a Sources,
    numbers: FxHashMap<DeclId, usize>,
    /// The functions in the order of their numbers; the last ones may not have been described yet.
    named: Vec<DeclId>,
}

impl<'a> Host<'a> {
    pub(crate) fn new(program: &'a mut Program, sources: &'a Sources) -> Host<'a> {
        Host { program, sources, numbers: FxHashMap::default(), named: Vec::new() }
    }

    /// The number of a function, assigned on first use.
    pub(crate) fn function(&mut self, decl: DeclId) -> usize {
        *self.numbers.entry(decl).or_insert_with(|| {
            self.named.push(decl);
            self.named.len() - 1
        })
    }

    /// Describes all functions that have numbers.
    pub(crate) fn finish(mut self) -> Vec<Value> {
        let mut found = Vec::new();
        while let Some(&decl) = self.named.get(found.len()) {
            self.program.body(decl);
            let func = FuncRef { decl, args: Vec::new(), self_ty: None };
            let signature = self.program.func_signature(&func);
            let mut list = params(self.program, &func);
            for (json, param) in list.iter_mut().zip(&signature.params) {
                json["id"] = param.decl.map_or(Value::Null, |d| self.id(d));
            }
            let body = match self.program.ast.decls[decl].kind {
                DeclKind::Func { body: Some(body), .. } => self.stmt(body),
                _ => self.refused("a function without a body", self.program.ast.decls[decl].span),
            };
            let result = ty(self.program, signature.ret);
            found.push(json!({
                "name": name_of(self.program, decl), "params": list, "result": result, "body": body,
            }));
        }
        found
    }

    /// The ID by which the JSON refers to a declaration.
    fn id(&self, decl: DeclId) -> Value {
        json!(decl.to_string())
    }

    fn refused(&self, what: &str, span: Span) -> Value {
        let file = &self.sources.files[span.file.0 as usize];
        let line = self.sources.line_column(span.file, span.start).0;
        let what = format!("{}:{line}: {what} in host code is not supported yet", file.path);
        json!({ "do": "unsupported", "is": "unsupported", "what": what })
    }

    fn stmts(&mut self, list: &[StmtId]) -> Vec<Value> {
        list.iter().map(|&stmt| self.stmt(stmt)).collect()
    }

    fn optional(&mut self, expr: Option<ExprId>) -> Value {
        expr.map_or(Value::Null, |expr| self.expr(expr))
    }

    fn stmt(&mut self, stmt: StmtId) -> Value {
        let span = self.program.ast.stmts[stmt].span;
        match self.program.ast.stmts[stmt].kind.clone() {
            StmtKind::Empty => json!({ "do": "block", "body": [] }),
            StmtKind::Block(list) => json!({ "do": "block", "body": self.stmts(&list) }),
            StmtKind::Expr(expr) => json!({ "do": "expr", "expr": self.expr(expr) }),
            StmtKind::Decl(decls) => {
                let body: Vec<Value> = decls.into_iter().map(|decl| self.variable(decl)).collect();
                json!({ "do": "block", "body": body })
            }
            StmtKind::If { cond, then, otherwise } => {
                let otherwise = otherwise.map_or(Value::Null, |stmt| self.stmt(stmt));
                json!({ "do": "if", "cond": self.expr(cond), "then": self.stmt(then), "else": otherwise })
            }
            StmtKind::For { init, cond, step, body } => {
                let init = init.map_or(Value::Null, |stmt| self.stmt(stmt));
                let (cond, step) = (self.optional(cond), self.optional(step));
                json!({ "do": "for", "init": init, "cond": cond, "step": step, "body": self.stmt(body) })
            }
            StmtKind::While { cond, body } => {
                json!({ "do": "for", "init": null, "cond": self.expr(cond), "step": null, "body": self.stmt(body) })
            }
            StmtKind::Break => json!({ "do": "break" }),
            StmtKind::Continue => json!({ "do": "continue" }),
            StmtKind::Return(expr) => json!({ "do": "return", "expr": self.optional(expr) }),
            _ => self.refused("this statement", span),
        }
    }

    fn variable(&mut self, decl: DeclId) -> Value {
        let init = match self.program.ast.decls[decl].kind {
            DeclKind::Var { init, .. } => init,
            DeclKind::Tuple { .. } => return self.refused("a tuple", self.program.ast.decls[decl].span),
            _ => return json!({ "do": "block", "body": [] }),
        };
        if self.program.ast.decls[decl].modifiers.has(Modifiers::STATIC) && !self.program.is_constant(decl) {
            return self.refused("a static variable", self.program.ast.decls[decl].span);
        }
        let of = self.program.decl_type(decl);
        json!({ "do": "var", "id": self.id(decl), "type": ty(self.program, of), "init": self.optional(init) })
    }

    fn expr(&mut self, expr: ExprId) -> Value {
        let mut found = self.meaning(expr);
        if let Some(to) = self.program.tables.exprs[expr].coerce {
            found["to"] = ty(self.program, to);
        }
        found
    }

    fn exprs(&mut self, list: &[ExprId]) -> Vec<Value> {
        list.iter().map(|&expr| self.expr(expr)).collect()
    }

    fn meaning(&mut self, expr: ExprId) -> Value {
        let info = self.program.tables.exprs[expr].clone();
        let kind = self.program.ast.exprs[expr].kind.clone();
        let span = self.program.ast.exprs[expr].span;
        if let ExprKind::Call { callee, args } = &kind
            && let Some(found) = self.dispatch(*callee, args)
        {
            return found;
        }
        match info.meaning {
            Meaning::Literal => match kind {
                ExprKind::Int { value, .. } => json!({ "is": "literal", "value": value }),
                ExprKind::Float { value, .. } => json!({ "is": "literal", "value": value }),
                ExprKind::Bool(value) => json!({ "is": "literal", "value": value }),
                _ => self.refused(&format!("`{}`", print_expr(&self.program.ast, expr)), span),
            },
            Meaning::Const(value) => {
                json!({ "is": "cast", "type": ty(self.program, info.ty), "value": { "is": "literal", "value": value } })
            }
            Meaning::Value(val) if self.program.val_int(&val, &check::Subst::default()).is_some() => {
                json!({ "is": "literal", "value": self.program.val_int(&val, &check::Subst::default()) })
            }
            Meaning::Var(decl) => self.variable_use(decl, span),
            Meaning::This => json!({ "is": "this" }),
            Meaning::Field { base, field } => {
                let base = base.map_or(json!({ "is": "this" }), |base| self.expr(base));
                json!({ "is": "field", "base": base, "name": name_of(self.program, field) })
            }
            Meaning::TupleField { base, idx } => json!({ "is": "part", "base": self.expr(base), "at": idx }),
            Meaning::Swizzle { base, comps } => {
                json!({ "is": "swizzle", "base": self.expr(base), "at": comps.to_vec() })
            }
            Meaning::Index { base, index } => {
                json!({ "is": "index", "base": self.expr(base), "index": self.expr(index) })
            }
            Meaning::Call { func: Callable::Func(func), base, args } => {
                self.call(&func, base, &args, info.ty, span)
            }
            Meaning::Init { init, args } if self.program.is_core(init.decl) => {
                json!({ "is": "construct", "type": ty(self.program, info.ty), "args": self.args(&args) })
            }
            Meaning::Construct(args) => {
                json!({ "is": "construct", "type": ty(self.program, info.ty), "args": self.exprs(&args) })
            }
            Meaning::MakeTuple(args) => {
                json!({ "is": "construct", "type": ty(self.program, info.ty), "args": self.exprs(&args) })
            }
            Meaning::Aggregate(parts) => self.initializer(&parts, span),
            Meaning::Cast(value) => {
                json!({ "is": "cast", "type": ty(self.program, info.ty), "value": self.expr(value) })
            }
            Meaning::Unary(op, value) => {
                json!({ "is": "unary", "op": format!("{op:?}"), "type": ty(self.program, info.ty), "value": self.expr(value) })
            }
            Meaning::Binary(op, a, b) => {
                let of = ty(self.program, info.ty);
                json!({ "is": "binary", "op": op.text(), "type": of, "args": self.exprs(&[a, b]) })
            }
            Meaning::Assign { op, target, value } => {
                let of = ty(self.program, info.ty);
                let op = op.map(|op| op.text());
                json!({ "is": "assign", "op": op, "type": of, "target": self.expr(target), "value": self.expr(value) })
            }
            Meaning::IncDec(target) => {
                let (step, after) = match kind {
                    ExprKind::Postfix(up, _) => (if up { 1 } else { -1 }, true),
                    ExprKind::Unary(syntax::ast::UnaryOp::PreInc, _) => (1, false),
                    _ => (-1, false),
                };
                let of = ty(self.program, info.ty);
                json!({ "is": "step", "by": step, "after": after, "type": of, "target": self.expr(target) })
            }
            Meaning::Ternary(c, a, b) => json!({ "is": "choose", "args": self.exprs(&[c, a, b]) }),
            Meaning::Same(inner) | Meaning::NoDiff(inner) => self.expr(inner),
            _ => self.refused(&format!("`{}`", print_expr(&self.program.ast, expr)), span),
        }
    }

    fn variable_use(&mut self, decl: DeclId, span: Span) -> Value {
        let is_local = self.program.ast.decls[decl]
            .parent
            .is_some_and(|parent| matches!(self.program.ast.decls[parent].kind, DeclKind::Func { .. }));
        if !is_local && self.program.is_constant(decl) {
            self.program.body(decl);
            if let DeclKind::Var { init: Some(init), .. } = self.program.ast.decls[decl].kind {
                return self.expr(init);
            }
        }
        match is_local {
            true => json!({ "is": "local", "id": self.id(decl) }),
            false => self.refused(&format!("the global `{}`", name_of(self.program, decl)), span),
        }
    }

    fn args(&mut self, args: &[Arg]) -> Vec<Value> {
        let exprs = |arg: &Arg| match arg {
            Arg::Expr(expr) => vec![Ok(*expr)],
            Arg::Pack(exprs) => exprs.iter().map(|&e| Ok(e)).collect(),
            Arg::Default(param) => vec![Err(*param)],
        };
        let mut found = Vec::new();
        for arg in args.iter().flat_map(exprs) {
            found.push(match arg {
                Ok(expr) => self.expr(expr),
                Err(param) => match self.program.ast.decls[param].kind {
                    DeclKind::Param { default: Some(default), .. } => self.expr(default),
                    _ => self.refused("this argument", self.program.ast.decls[param].span),
                },
            });
        }
        found
    }

    fn call(&mut self, func: &FuncRef, base: Option<ExprId>, args: &[Arg], result: Ty, span: Span) -> Value {
        let name = name_of(self.program, func.decl);
        let result = ty(self.program, result);
        let base = base.map_or(Value::Null, |base| self.expr(base));
        if self.program.is_core(func.decl) {
            return json!({ "is": "built in", "name": name, "base": base, "type": result, "args": self.args(args) });
        }
        if !func.args.is_empty() {
            return self.refused(&format!("a call of the generic `{name}`"), span);
        }
        json!({ "is": "call", "function": self.function(func.decl), "base": base, "args": self.args(args) })
    }

    /// A call of the form `__dispatch_kernel(kernel, groups, block)(args)`.
    fn dispatch(&mut self, callee: ExprId, args: &[ExprId]) -> Option<Value> {
        let ExprKind::Call { callee, args: of } = self.program.ast.exprs[callee].kind.clone() else {
            return None;
        };
        let ExprKind::Name(name) = self.program.ast.exprs[callee].kind else { return None };
        let [kernel, groups, block] = of[..] else { return None };
        if self.program.ast.name(name) != "__dispatch_kernel" {
            return None;
        }
        let text = print_expr(&self.program.ast, kernel);
        let Meaning::Func { func, base: None } = self.program.tables.exprs[kernel].meaning.clone() else {
            return Some(
                self.refused(&format!("a dispatch of `{text}`"), self.program.ast.exprs[kernel].span),
            );
        };
        let (entry, func) = match &func {
            Callable::Func(func) => (name_of(self.program, func.decl), func),
            Callable::Derived(op @ (DiffOp::Fwd | DiffOp::Bwd), inner, _) => {
                let op = op.word();
                let Callable::Func(inner) = &**inner else {
                    return Some(
                        self.refused(&format!("a dispatch of `{text}`"), self.program.ast.exprs[kernel].span),
                    );
                };
                (format!("{op}({})", name_of(self.program, inner.decl)), inner)
            }
            _ => {
                return Some(
                    self.refused(&format!("a dispatch of `{text}`"), self.program.ast.exprs[kernel].span),
                );
            }
        };
        if !func.args.is_empty() {
            return Some(
                self.refused(&format!("a dispatch of `{text}`"), self.program.ast.exprs[kernel].span),
            );
        }
        let params = params(self.program, func);
        let sizes = self.exprs(&[groups, block]);
        Some(json!({
            "is": "dispatch", "entry": entry, "params": params, "sizes": sizes, "args": self.exprs(args),
        }))
    }

    fn initializer(&mut self, parts: &Initializer, span: Span) -> Value {
        match parts {
            Initializer::Expr(expr) => self.expr(*expr),
            Initializer::Default(of) => json!({ "is": "default", "type": ty(self.program, *of) }),
            Initializer::Parts(of, parts) => {
                let parts: Vec<Value> = parts.iter().map(|part| self.initializer(part, span)).collect();
                json!({ "is": "construct", "type": ty(self.program, *of), "args": parts })
            }
            Initializer::Init(of, init, args) if self.program.is_core(init.decl) => {
                json!({ "is": "construct", "type": ty(self.program, *of), "args": self.args(args) })
            }
            Initializer::Init(..) => self.refused("a constructor", span),
        }
    }
}
