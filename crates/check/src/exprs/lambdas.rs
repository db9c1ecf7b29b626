//! Implements lambdas and functions as values.
//!
//! `(float x) => x * k` is a value of a struct of its own: it has a field for each variable of the enclosing
//! function that the body names (`k`, copied when the lambda is made), and the body as `operator()`. The
//! struct conforms to `IFunc<R, P…>`, and in a differentiable function also to `IDifferentiableFunc` and
//! `IDifferentiable`, so that derivatives flow through both the call and the captured values. (With a row and a
//! column before parameters that have derivatives, it conforms to `__IDifferentiableMap` of these, too, if the
//! program has cooperative matrices.) The name of a function as a value is the lambda that calls it; the type
//! `functype (P…) -> R` is `IFunc<R, P…>`.

use std::rc::Rc;

use syntax::ast::{Decl, DeclKind, ExprKind, Modifiers, StmtKind};
use syntax::{DeclId, ExprId, Span, Symbol, keywords as kw};

use crate::exprs::infer::Checker;
use crate::facts::{Magic, Names};
use crate::names::lookup::{Candidate, Ref};
use crate::program::Program;
use crate::signature::{Direction, Level, ParamSig, Signature, Tangent};
use crate::tables::{ExprInfo, Initializer, Meaning};
use crate::types::{GenericArg, Ty, TyKind};

/// The captures of a lambda whose body is being checked.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The struct of the lambda.
    pub(crate) lambda: DeclId,
    /// The variables in scope around the lambda, outermost first.
    outer: Vec<(Symbol, DeclId)>,
    /// The type of `this` around the lambda.
    this: Option<Ty>,
    /// Each captured variable and its field; `None` stands for `this`.
    fields: Vec<(Option<DeclId>, DeclId)>,
}

impl Program {
    /// Returns true if an expression has the type of a lambda.
    pub(crate) fn is_lambda(&self, expr: ExprId) -> bool {
        match self.types[self.tables.exprs[expr].ty] {
            TyKind::Struct(decl, _) => self.ast.decl_name(decl) == "$lambda",
            _ => false,
        }
    }

    /// Returns true for the call operator of a lambda.
    pub(crate) fn is_lambda_call(&self, decl: DeclId) -> bool {
        self.ast.decls[decl].name == kw::CALL_OPERATOR
            && self.container_of(decl).is_some_and(|c| self.ast.decl_name(c) == "$lambda")
    }

    /// `IFunc<R, P…>` or one of its variants.
    fn function_interface(&mut self, name: &str, params: Vec<Ty>, result: Ty) -> Option<Ty> {
        let decls = self.modules.named(0, self.ast.symbols.find(name)?);
        let is_interface = |d: &&DeclId| matches!(self.ast.decls[**d].kind, DeclKind::Interface { .. });
        let &decl = decls.iter().find(is_interface)?;
        let params = self.pack_of(params);
        let args = vec![GenericArg::Type(result), GenericArg::Type(params)];
        Some(self.types.intern(TyKind::Interface(decl, args)))
    }

    /// Returns true if a name is that of a function interface.
    pub(crate) fn is_function_interface(&self, name: Symbol) -> bool {
        let name = self.ast.name(name);
        name.strip_prefix('I').and_then(|n| n.strip_suffix("Func")).is_some_and(|middle| {
            matches!(middle, "" | "Mutating" | "Differentiable" | "DifferentiableMutating")
        })
    }
}

impl Checker<'_> {
    /// `functype (A, B) -> R`
    pub(crate) fn infer_function_type(&mut self, expr: ExprId, params: &[ExprId], result: ExprId) -> Ty {
        let params: Vec<Ty> = params.iter().map(|&p| self.type_expr(p)).collect();
        let result = self.type_expr(result);
        if params.contains(&Ty::ERROR) || result == Ty::ERROR {
            return self.set_error(expr);
        }
        match self.p.function_interface("IFunc", params, result) {
            Some(ty) => self.set_type(expr, ty),
            None => self.set_error(expr),
        }
    }

    /// Returns true if an expression is a lambda, or the name of a function that stands for one.
    pub(crate) fn makes_lambda(&self, expr: ExprId) -> bool {
        matches!(self.p.tables.exprs[expr].meaning, Meaning::Aggregate(_)) && self.p.is_lambda(expr)
    }

    /// `(params) => body`
    pub(crate) fn infer_lambda(&mut self, expr: ExprId, written: DeclId) -> Ty {
        if !self.p.queries.bodies.is_first(written) {
            return self.set_error(expr);
        }
        let lambda = self.lambda_struct(self.span(expr));
        let (name, parent) = (kw::CALL_OPERATOR, Some(lambda));
        let func = self.p.add_decl(Decl { name, parent, ..self.p.ast.decls[written].clone() });
        self.closure(expr, lambda, func)
    }

    /// Adds the struct of a lambda.
    fn lambda_struct(&mut self, span: Span) -> DeclId {
        let name = self.p.ast.symbols.intern("$lambda");
        let kind = DeclKind::Struct { bases: Vec::new(), members: Vec::new() };
        self.p.add_decl(Decl::new(kind, name, span, Some(self.scope)))
    }

    /// The value of a lambda: its struct, and the call operator of the struct.
    fn closure(&mut self, expr: ExprId, lambda: DeclId, func: DeclId) -> Ty {
        let span = self.span(expr);
        let DeclKind::Func { params, body: Some(body), .. } = self.p.ast.decls[func].kind.clone() else {
            return self.set_error(expr);
        };
        // A lambda in a differentiable function is differentiable, and so are those in its body.
        let around = self.p.ast.enclosing(self.scope).find(|&d| self.p.is_function(d));
        let level = around.map_or(Level::None, |around| self.p.level(around)).max(self.p.level(func));
        let differentiable = level != Level::None;
        if differentiable && self.p.level(func) == Level::None {
            self.p.made.differentiable.insert(func);
        }
        let mut names = Names::default();
        names.entry(kw::CALL_OPERATOR).or_default().push(func);
        self.p.scopes.members.insert(lambda, Rc::new(names));
        self.p.queries.bases.insert(lambda, Rc::from([]));
        self.p.queries.bodies.insert(func, ());
        let own = self.p.self_type(lambda);
        // Check the body, which determines the captures and the return type.
        let mut types = Vec::new();
        for &param in &params {
            let ty = match self.p.ast.decls[param].kind {
                DeclKind::Param { ty: Some(ty), .. } if self.p.tables.decl_types[param].is_none() => {
                    self.type_expr(ty)
                }
                _ => self.p.decl_type(param),
            };
            self.p.tables.decl_types[param] = Some(ty);
            self.p.check_value_type(ty, self.p.name_span(param));
            types.push(ty);
        }
        let mut outer: Vec<(Symbol, DeclId)> =
            self.capture.as_ref().map_or(Vec::new(), |capture| capture.outer.clone());
        outer.extend_from_slice(&self.locals);
        let around = match &self.capture {
            Some(capture) => capture.this,
            None => self.this.map(|t| t.0),
        };
        let depth = self.depth;
        let mut inner = Checker::new(self.p, func);
        inner.depth = depth;
        inner.this = Some((own, false));
        inner.infers_result = true;
        inner.capture = Some(Capture { lambda, outer, this: around, fields: Vec::new() });
        for &param in &params {
            let name = inner.p.ast.decls[param].name;
            inner.locals.push((name, param));
        }
        inner.statement(body);
        let result = inner.ret.unwrap_or(Ty::VOID);
        let captured = inner.capture.take().map_or(Vec::new(), |capture| capture.fields);
        let returned = std::mem::take(&mut inner.returned);
        self.p.made.returned.insert(lambda, returned);
        // Build the struct of the lambda.
        let members = captured.iter().map(|c| c.1).chain([func]).collect();
        self.p.made.members.insert(lambda, members);
        let mut has_tangent = |ty: &Ty| *ty == Ty::VOID || self.p.differential(*ty).is_some();
        let differentiable_result = differentiable && result != Ty::VOID && has_tangent(&result);
        let all = differentiable_result && types.iter().all(&mut has_tangent);
        let elements = types.strip_prefix(&[Ty::UINT, Ty::UINT]).filter(|_| differentiable_result);
        let elements = elements.filter(|elements| elements.iter().all(has_tangent)).map(<[Ty]>::to_vec);
        let map = elements.and_then(|e| self.p.function_interface("__IDifferentiableMap", e, result));
        let interface = if all { "IDifferentiableFunc" } else { "IFunc" };
        let interface = self.p.function_interface(interface, types, result);
        let magic = self.p.magic_type(Magic::Differentiable).filter(|_| differentiable);
        self.p.queries.bases.insert(lambda, interface.into_iter().chain(map).chain(magic).collect());
        self.p.queries.facets.forget(&own);
        self.p.queries.differentials.forget(&own);
        self.lambda_signature(func, (own, differentiable), result);
        // The value of the lambda holds the captured variables as they are at this point.
        let mut parts = Vec::new();
        for (source, field) in captured {
            let kind = match source {
                Some(decl) => ExprKind::Name(self.p.ast.decls[decl].name),
                None => ExprKind::This,
            };
            let value = self.p.add_expr(kind, span);
            let ty = self.infer(value, None);
            debug_assert!(ty == Ty::ERROR || self.p.tables.decl_types[field] == Some(ty));
            parts.push(Initializer::Expr(value));
        }
        let ty = self.set_value(expr, own, Meaning::Aggregate(Initializer::Parts(own, parts)));
        self.p.check_flow(func);
        ty
    }

    /// Adapts a lambda to a parameter of function type with another result type: the returned expressions are
    /// converted.
    pub(crate) fn fit_lambda(&mut self, ty: Ty, to: Ty) {
        let (TyKind::Struct(lambda, _), TyKind::Interface(decl, args)) =
            (self.p.types[ty].clone(), self.p.types[to].clone())
        else {
            return;
        };
        let Some(returned) = self.p.made.returned.get(&lambda).cloned() else { return };
        let [GenericArg::Type(result), GenericArg::Type(params)] = args[..] else { return };
        let Some(&func) = self.p.members(lambda).last() else { return };
        let signature = (*self.p.raw_signature(func)).clone();
        let own: Vec<Ty> = signature.params.iter().map(|p| p.ty).collect();
        let mut open = Vec::new();
        self.p.params_in(result, &mut open);
        let is_function = self.p.is_function_interface(self.p.ast.decls[decl].name);
        if !is_function || signature.ret == result || own != self.p.elements(params) || !open.is_empty() {
            return;
        }
        let fits = returned.iter().all(|&e| {
            let (from, source) = (self.ty_of(e), self.source_of(e));
            self.p.conversion(from, result, source).is_some()
        });
        if !fits || result == Ty::VOID || returned.is_empty() {
            return;
        }
        for e in returned {
            self.coerce(e, result);
        }
        let differentiable = signature.has_differentiable_this();
        let interfaces = self.p.bases_of(lambda);
        let bases = interfaces.iter().map(|&base| match self.p.types[base].clone() {
            TyKind::Interface(decl, args) if args.len() == 2 => {
                let args = vec![GenericArg::Type(result), args[1].clone()];
                self.p.types.intern(TyKind::Interface(decl, args))
            }
            _ => base,
        });
        let bases = bases.collect();
        self.p.queries.bases.insert(lambda, bases);
        self.p.queries.facets.forget(&ty);
        self.p.made.returned.remove(&lambda);
        self.lambda_signature(func, (ty, differentiable), result);
    }

    fn lambda_signature(&mut self, func: DeclId, (own, differentiable): (Ty, bool), result: Ty) {
        // The signature is as declared except for the result and the receiver, whose types are known only
        // here.
        let declared = self.p.raw_signature(func);
        let with_tangent = self.p.differential(result).is_some();
        let value_if = |has_one| if has_one { Tangent::Value } else { Tangent::None };
        let signature = Signature {
            ret: result,
            ret_tangent: value_if(result != Ty::VOID && with_tangent),
            this: Some(ParamSig::made(own, Direction::In, value_if(differentiable))),
            params: declared.params.clone(),
        };
        self.p.queries.signatures.insert(func, Rc::new(signature));
    }

    /// Captures a variable of the enclosing function as a field of the lambda.
    pub(crate) fn captured(&mut self, name: Symbol) -> Option<Ref> {
        let capture = self.capture.as_ref()?;
        let &(_, decl) = capture.outer.iter().rev().find(|l| l.0 == name)?;
        let d = &self.p.ast.decls[decl];
        let is_value = matches!(d.kind, DeclKind::Var { .. } | DeclKind::Param { .. });
        if !is_value || d.modifiers.has(Modifiers::STATIC) {
            return Some(self.ref_of(&[decl], &Rc::default(), 0));
        }
        let ty = self.p.decl_type(decl);
        let field = self.captured_field(Some(decl), name, ty);
        let meaning = Meaning::Field { base: None, field };
        Some(Ref::Value(ExprInfo::value(ty, meaning)))
    }

    /// Captures `this` of the enclosing method.
    pub(crate) fn captured_this(&mut self) -> Option<ExprInfo> {
        let ty = self.capture.as_ref()?.this?;
        let name = self.p.ast.symbols.intern("$this");
        let field = self.captured_field(None, name, ty);
        let meaning = Meaning::Field { base: None, field };
        Some(ExprInfo::value(ty, meaning))
    }

    fn captured_field(&mut self, source: Option<DeclId>, name: Symbol, ty: Ty) -> DeclId {
        let Some(capture) = &mut self.capture else { return self.scope };
        if let Some(found) = capture.fields.iter().find(|f| f.0 == source) {
            return found.1;
        }
        let lambda = capture.lambda;
        let field = self.p.add_field(name, ty, Modifiers::default(), lambda);
        self.p.queries.bodies.insert(field, ());
        if let Some(capture) = &mut self.capture {
            capture.fields.push((source, field));
        }
        field
    }

    /// Resolves a member of the enclosing type that is named in a lambda: it is a member of the captured
    /// `this`.
    pub(crate) fn through_captured_this(&mut self, container: DeclId, found: Ref) -> Ref {
        match &self.capture {
            Some(capture) if capture.lambda != container => {}
            _ => return found,
        }
        let needs_this = match &found {
            Ref::Value(info) => match &info.meaning {
                Meaning::Field { base: None, .. } => true,
                Meaning::Property { base: None, member, .. } => !self.p.is_static(member.decl),
                _ => false,
            },
            Ref::Funcs(funcs, None) => funcs.iter().any(|c| !self.p.is_static(c.decl)),
            _ => false,
        };
        if !needs_this {
            return found;
        }
        let Some(info) = self.captured_this() else { return found };
        let span = self.p.ast.decls[self.scope].span;
        let this = self.p.add_expr(ExprKind::This, span);
        self.set(this, info);
        match found {
            Ref::Value(mut info) => {
                info.lvalue = false;
                if let Meaning::Field { base, .. } | Meaning::Property { base, .. } = &mut info.meaning {
                    *base = Some(this);
                }
                Ref::Value(info)
            }
            Ref::Funcs(funcs, _) => Ref::Funcs(funcs, Some(this)),
            other => other,
        }
    }

    /// The name of a function as a value: `(params) => f(params)`. `None` if the name is overloaded.
    pub(crate) fn function_value(&mut self, expr: ExprId) -> Option<Ty> {
        let Ref::Funcs(candidates, None) = self.resolve(expr) else { return None };
        // Of overloaded functions, the only one whose generic arguments are all given.
        let mut known = candidates.iter().filter_map(|candidate| {
            let is_plain = candidate.ops.is_empty();
            let signature = if is_plain { self.function_signature(candidate) } else { None };
            signature.map(|signature| (candidate, signature))
        });
        let (Some((candidate, signature)), None) = (known.next(), known.next()) else { return None };
        let span = self.span(expr);
        let lambda = self.lambda_struct(span);
        let func = self.p.add_owner(kw::CALL_OPERATOR, span, lambda);
        let (mut params, mut args) = (Vec::new(), Vec::new());
        for (idx, given) in signature.params.iter().enumerate() {
            let name = self.p.ast.symbols.intern(&format!("a{idx}"));
            let mut modifiers = given.dir.modifiers();
            if given.no_diff {
                modifiers |= Modifiers::NO_DIFF;
            }
            params.push(self.p.add_param(name, given.ty, modifiers, func));
            args.push(self.p.add_expr(ExprKind::Name(name), span));
        }
        let callee = self.p.add_expr(self.p.ast.exprs[expr].kind.clone(), span);
        let value = self.p.add_expr(ExprKind::Call { callee, args }, span);
        let kind =
            if signature.ret == Ty::VOID { StmtKind::Expr(value) } else { StmtKind::Return(Some(value)) };
        let body = Some(self.p.add_block(kind, span));
        self.p.complete(func, DeclKind::Func { params, result: None, body });
        if self.p.level(candidate.decl) != Level::None || self.p.has_rule(candidate.decl) {
            self.p.made.differentiable.insert(func);
        }
        self.set_error(expr);
        Some(self.closure(expr, lambda, func))
    }

    /// The signature of a function whose generic arguments are all explicit.
    fn function_signature(&mut self, candidate: &Candidate) -> Option<Signature> {
        let (mut env, open) = self.explicit_arguments(candidate)?;
        for param in open {
            let arg = self.default_arg(param, &env)?;
            env.map.push((param, arg));
        }
        if self.p.container_of(candidate.decl).is_some() && !self.p.is_static(candidate.decl) {
            return None;
        }
        let raw = self.p.raw_signature(candidate.decl);
        Some(self.p.substitute_signature(&raw, &env))
    }
}
