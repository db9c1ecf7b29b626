//! Resolves paths of names (`a.b<T>::c`, `fwd_diff(f)`) and reports unknown ones.

use std::rc::Rc;

use syntax::ast::{AccessorKind, DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Symbol, keywords as kw};

use crate::exprs::infer::Checker;
use crate::exprs::overload::Argument;
use crate::names::lookup::{Candidate, Ref};
use crate::program::Program;
use crate::signature::Tangent;
use crate::tables::{Callable, DiffOp, ExprInfo, Meaning};
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty, TyKind};

impl Program {
    /// The functions that an attribute of a declaration names.
    pub(crate) fn named_functions(&mut self, decl: DeclId, target: ExprId) -> Vec<Candidate> {
        match self.quietly(|p| Checker::new(p, decl).resolve(target)) {
            Ref::Funcs(candidates, _) => candidates,
            _ => Vec::new(),
        }
    }

    /// The functions that an argument of a declaration's attribute names.
    pub fn functions_in_attribute(&mut self, decl: DeclId, argument: ExprId) -> Vec<DeclId> {
        self.named_functions(decl, argument).into_iter().map(|candidate| candidate.decl).collect()
    }
}

impl Checker<'_> {
    /// Resolves a path of names. Other expressions are inferred and returned as values or types.
    pub(crate) fn resolve(&mut self, expr: ExprId) -> Ref {
        match self.p.ast.exprs[expr].kind.clone() {
            ExprKind::Name(name) | ExprKind::OperatorName(name) => self.lookup(name),
            ExprKind::GlobalName(name) => self.lookup_outside(name, 0, Vec::new()),
            ExprKind::Paren(inner) if self.is_path(inner) => match self.resolve(inner) {
                Ref::Value(info) => {
                    self.check_receiver(inner, &info);
                    let (ty, lvalue) = (info.coerce.unwrap_or(info.ty), info.lvalue);
                    self.set(inner, info);
                    Ref::Value(ExprInfo::new(ty, Meaning::Same(inner), lvalue))
                }
                found => found,
            },
            ExprKind::Member { base, name, arrow, .. } => {
                let found = self.resolve_member(base, name);
                if arrow {
                    self.check_arrow(expr, base);
                }
                if let Ref::Value(ExprInfo { meaning: Meaning::Field { field, .. }, .. }) = &found
                    && self.p.attribute(*field, "writeonly").is_some()
                    && !self.targets.contains(&expr)
                {
                    let name = self.p.ast.decl_name(*field).to_string();
                    let message = format!("'{name}' is 'writeonly' and cannot be read");
                    self.error("E31229", self.span(expr), message);
                    return Ref::Error;
                }
                found
            }
            ExprKind::Static { base, name, .. } => self.resolve_member(base, name),
            ExprKind::Generic { base, args } => match self.resolve(base) {
                Ref::Native(native) => Ref::Type(self.native_generic(native, &args, self.span(expr))),
                Ref::Generic(decl, outer) => {
                    let args = args.iter().map(|&a| self.generic_arg(a)).collect();
                    Ref::Type(self.apply_generic(decl, &outer, args, self.span(expr)))
                }
                Ref::Funcs(mut funcs, base) => {
                    let args: Vec<GenericArg> = args.iter().map(|&a| self.generic_arg(a)).collect();
                    let first = funcs.first().map(|c| c.decl);
                    funcs.retain(|c| {
                        let params = self.p.own_params(c.decl);
                        self.p.is_generic(c.decl)
                            && (params.len() >= args.len()
                                || params.iter().any(|&p| self.p.is_pack_param(p))
                                || self.p.is_elementwise(c.decl))
                    });
                    if funcs.is_empty() {
                        let name = first.map_or("", |decl| self.p.ast.decl_name(decl));
                        let arguments = if args.len() == 1 { "argument" } else { "arguments" };
                        let message = format!("no '{name}' takes {} generic {arguments}", args.len());
                        self.error("E30075", self.span(expr), message);
                        return Ref::Error;
                    }
                    funcs.iter_mut().for_each(|c| c.explicit.clone_from(&args));
                    Ref::Funcs(funcs, base)
                }
                Ref::Error => Ref::Error,
                Ref::NotFound => {
                    self.not_found(base);
                    Ref::Error
                }
                Ref::Type(_) | Ref::Namespace(_) | Ref::Value(_) => {
                    self.error("E30075", self.span(base), "this takes no generic arguments");
                    Ref::Error
                }
            },
            ExprKind::Derivative(op, inner) => {
                let found = self.resolve(inner);
                self.with_operator(op, found, inner)
            }
            _ => {
                self.infer_any(expr, None);
                let info = self.p.tables.exprs[expr].clone();
                match info.meaning {
                    Meaning::Type(ty) => Ref::Type(ty),
                    Meaning::Error => Ref::Error,
                    _ => Ref::Value(info),
                }
            }
        }
    }

    /// Reports `a->b` where `a` is neither a pointer nor a buffer of one value.
    fn check_arrow(&mut self, expr: ExprId, base: ExprId) {
        let ty = self.ty_of(base);
        let is_value = match self.p.types[ty] {
            TyKind::Struct(decl, _) => !self.p.is_core(decl),
            TyKind::Scalar(_)
            | TyKind::Vector(..)
            | TyKind::Matrix(..)
            | TyKind::Array(..)
            | TyKind::Tuple(_) => true,
            _ => false,
        };
        if is_value && !self.p.is_core(self.scope) {
            let message = text!("'->' needs a pointer, got '{}'", self.name(ty));
            self.p.report_once(Diagnostic::error("E0015", self.span(expr), message).help("write '.'"));
        }
    }

    fn is_path(&self, expr: ExprId) -> bool {
        match &self.p.ast.exprs[expr].kind {
            ExprKind::Name(_)
            | ExprKind::OperatorName(_)
            | ExprKind::GlobalName(_)
            | ExprKind::Member { .. }
            | ExprKind::Static { .. }
            | ExprKind::Generic { .. }
            | ExprKind::Derivative(..) => true,
            ExprKind::Paren(inner) => self.is_path(*inner),
            _ => false,
        }
    }

    /// Returns true if the object of a method can be held fixed in its derivative.
    fn may_be_bound(&mut self, candidate: &Candidate, op: DiffOp) -> bool {
        let this = self.p.raw_signature(candidate.decl).this.clone();
        matches!(op, DiffOp::Fwd | DiffOp::Bwd)
            && this.is_some_and(|t| !t.dir.is_written() && t.tangent != Tangent::Pointer)
    }

    /// The types of the object of a method that operators are applied to: its own type, then the type of the
    /// pair for each operator that gives the object a derivative.
    fn object_types(&mut self, decl: DeclId, self_ty: Ty, n_ops: usize) -> Vec<Ty> {
        let this = self.p.raw_signature(decl).this.clone();
        let mut types = vec![self_ty];
        if this.is_some_and(|t| t.has_tangent()) {
            for _ in 0..n_ops {
                let pair = self.p.pair_of(types[types.len() - 1], Tangent::Value);
                types.push(pair);
            }
        }
        types
    }

    /// The arguments for a candidate: the object that it is bound to comes first.
    pub(crate) fn after_object(&mut self, candidate: &Candidate, args: &[Argument]) -> Vec<Argument> {
        let object = candidate.object.map(|expr| {
            let self_ty = candidate.self_ty.unwrap_or(self.ty_of(expr));
            let ty = self.object_types(candidate.decl, self_ty, candidate.ops.len()).pop();
            Argument { expr, ty, source: Source::default(), lvalue: true }
        });
        object.into_iter().chain(args.iter().copied()).collect()
    }

    /// The first argument of `fwd_diff(object.method)(…)` and `bwd_diff(object.method)(…)`: the object, which
    /// is held fixed (as a pair with zero differential, if the parameter is a pair).
    pub(crate) fn bind_object(&mut self, object: ExprId, callable: &Callable) -> Argument {
        let ops = callable.operators();
        let is_bound = ops.iter().all(|op| matches!(op, DiffOp::Fwd | DiffOp::Bwd));
        let func = callable.function().filter(|_| is_bound);
        let from = self.ty_of(object);
        let self_ty = func.and_then(|f| f.self_ty).unwrap_or(from);
        if self_ty != from {
            self.p.tables.exprs[object].coerce = Some(self_ty);
        }
        let types = func.map_or(vec![self_ty], |f| self.object_types(f.decl, self_ty, ops.len()));
        let mut expr = object;
        for &ty in &types[1..] {
            let span = self.span(object);
            let primal = expr;
            expr = self.p.add_expr(ExprKind::Paren(primal), span);
            // The pair is a place whose value after the call is never read.
            let meaning = Meaning::MakePair { primal, differential: None };
            self.set(expr, ExprInfo::place(ty, meaning));
        }
        Argument { expr, ty: types.last().copied(), source: Source::default(), lvalue: true }
    }

    /// Returns `this` if a method of it is named without a receiver.
    fn implicit_object(&mut self, named: ExprId, funcs: &[Candidate]) -> Option<ExprId> {
        let (this, _) = self.this.filter(|_| !self.this_is_pair())?;
        let mut at = named;
        while let ExprKind::Paren(inner) | ExprKind::Generic { base: inner, .. } = self.p.ast.exprs[at].kind {
            at = inner;
        }
        if !matches!(self.p.ast.exprs[at].kind, ExprKind::Name(_) | ExprKind::OperatorName(_)) {
            return None;
        }
        let is_own = |c: &Candidate| {
            c.self_ty.is_some_and(|ty| !self.p.is_static(c.decl) && self.p.conforms(this, ty))
        };
        if !funcs.iter().any(is_own) {
            return None;
        }
        let span = self.span(named);
        let object = self.p.add_expr(ExprKind::This, span);
        self.infer(object, None);
        Some(object)
    }

    fn with_operator(&mut self, op: DiffOp, result: Ref, inner: ExprId) -> Ref {
        match result {
            Ref::Funcs(mut funcs, base) => {
                if let Some(object) = base.or_else(|| self.implicit_object(inner, &funcs)) {
                    let own = self.this.filter(|_| base.is_none()).map(|this| this.0);
                    let is_of = |p: &mut Program, c: &Candidate| {
                        let is_own = own.is_none_or(|own| c.self_ty.is_some_and(|ty| p.conforms(own, ty)));
                        is_own && !p.is_static(c.decl)
                    };
                    let methods: Vec<DeclId> =
                        funcs.iter().filter(|c| is_of(self.p, c)).map(|c| c.decl).collect();
                    let named = funcs[0].clone();
                    funcs.retain(|c| !methods.contains(&c.decl) || self.may_be_bound(c, op));
                    if funcs.is_empty() {
                        self.refuse_object(op, object, &named);
                        return Ref::Error;
                    }
                    let methods = funcs.iter_mut().filter(|c| methods.contains(&c.decl));
                    methods.for_each(|c| c.object = Some(object));
                }
                funcs.iter_mut().for_each(|c| c.ops.insert(0, op));
                Ref::Funcs(funcs, base)
            }
            Ref::Error => Ref::Error,
            Ref::NotFound => {
                self.not_found(inner);
                Ref::Error
            }
            Ref::Type(_) | Ref::Native(_) | Ref::Generic(..) | Ref::Namespace(_) | Ref::Value(_) => {
                let word = op.word();
                let found = match &result {
                    Ref::Type(ty) => text!("the type '{}'", self.name(*ty)),
                    Ref::Value(info) => text!("a value of type '{}'", self.name(info.ty)),
                    Ref::Namespace(_) => "a namespace".into(),
                    _ => "a generic type".into(),
                };
                self.error("E38030", self.span(inner), text!("'{word}' takes a function, found {}", found));
                Ref::Error
            }
        }
    }

    /// Reports a method whose object cannot be held fixed.
    fn refuse_object(&mut self, op: DiffOp, object: ExprId, method: &Candidate) {
        let message = "this derivative has one of the object, too: an object that is a pair is needed";
        let of = self.name(method.self_ty.unwrap_or(self.ty_of(object)));
        let name = self.p.ast.decl_name(method.decl).to_string();
        let word = op.word();
        let help =
            text!("write '{word}({}.{name})(pair, …)', with a pair of the object as first argument", of);
        let error = Diagnostic::error("E30027", self.span(object), message);
        self.p.report(error.help(help));
    }

    /// Static functions of an associated type that is named through a value (`x.Data.make()`) keep the value:
    /// it determines the function if its type is only known at run time.
    fn through_value(&mut self, path: ExprId, ty: Ty, found: Ref) -> Ref {
        let Ref::Funcs(funcs, None) = found else { return found };
        let value = match self.p.ast.exprs[path].kind {
            ExprKind::Member { base, .. } | ExprKind::Static { base, .. } => Some(base),
            _ => None,
        };
        let value = value.filter(|&v| {
            let info = &self.p.tables.exprs[v];
            let is_value = !matches!(info.meaning, Meaning::Type(_) | Meaning::Namespace(_) | Meaning::Error);
            let abstract_type = matches!(self.p.types[ty], TyKind::Assoc(..));
            is_value && abstract_type && funcs.iter().all(|c| self.p.is_static(c.decl))
        });
        Ref::Funcs(funcs, value)
    }

    /// `T::__subscript::get`, `T::property::set`: the accessors of that kind, as functions.
    fn resolve_accessor(&mut self, base: ExprId, name: Symbol) -> Option<Ref> {
        let wanted = AccessorKind::ALL.into_iter().find(|kind| kind.word() == name)?;
        let (ExprKind::Member { base: owner, name: member, .. }
        | ExprKind::Static { base: owner, name: member, .. }) = self.p.ast.exprs[base].kind
        else {
            return None;
        };
        if !self.is_path(owner) {
            return None;
        }
        let ty = self.attempt(|c| match c.resolve(owner) {
            Ref::Type(ty) => Some(ty),
            _ => None,
        })?;
        let mut candidates = Vec::new();
        for facet in self.p.facets(ty).iter() {
            for decl in self.p.named(facet.container, member) {
                let (DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. }) =
                    &self.p.ast.decls[decl].kind
                else {
                    continue;
                };
                let of_kind = accessors.iter().copied().filter(
                    |&a| matches!(self.p.ast.decls[a].kind, DeclKind::Accessor { kind, .. } if kind == wanted),
                );
                candidates.extend(of_kind.map(|decl| Candidate::member(decl, facet)));
            }
        }
        (!candidates.is_empty()).then_some(Ref::Funcs(candidates, None))
    }

    /// The type that a generic type denotes without its arguments: inside a generic type, its bare name means
    /// the type itself; elsewhere, all parameters need defaults. Anything else is returned as it is.
    pub(crate) fn completed(&mut self, expr: ExprId, found: Ref) -> Ref {
        let ty = match found {
            Ref::Native(native) => match self.p.native_default(native) {
                Some(ty) => ty,
                None => self.fail(expr, "E30075", "generic arguments are missing"),
            },
            Ref::Generic(decl, _) if self.p.ast.enclosing(self.scope).any(|d| d == decl) => {
                self.p.decl_type(decl)
            }
            Ref::Generic(decl, outer) => self.apply_generic(decl, &outer, Vec::new(), self.span(expr)),
            found => return found,
        };
        if ty == Ty::ERROR { Ref::Error } else { Ref::Type(ty) }
    }

    fn resolve_member(&mut self, base: ExprId, name: Symbol) -> Ref {
        if let Some(found) = self.resolve_accessor(base, name) {
            return found;
        }
        if self.is_path(base) {
            let found = self.resolve(base);
            match self.completed(base, found) {
                Ref::Value(info) => {
                    self.check_receiver(base, &info);
                    self.set(base, info);
                    self.value_member(base, name)
                }
                Ref::Type(ty) => {
                    self.set_type(base, ty);
                    let found = self.static_member(ty, name);
                    self.through_value(base, ty, found)
                }
                Ref::Namespace(namespace) => {
                    let decls = self.p.named_in_namespace(namespace, name, self.module);
                    self.set_value(base, Ty::ERROR, Meaning::Namespace(namespace));
                    self.ref_of(&decls, &Rc::default(), 0)
                }
                Ref::Funcs(funcs, receiver) => {
                    let op = match name {
                        kw::FWD_DIFF => DiffOp::Fwd,
                        kw::BWD_DIFF => DiffOp::Bwd,
                        _ => {
                            let message = format!("a function has no member '{}'", self.p.ast.name(name));
                            self.error("E30027", self.span(base), message);
                            return Ref::Error;
                        }
                    };
                    self.with_operator(op, Ref::Funcs(funcs, receiver), base)
                }
                Ref::Native(_) | Ref::Generic(..) | Ref::Error => Ref::Error,
                Ref::NotFound => {
                    self.not_found(base);
                    self.set_error(base);
                    Ref::Error
                }
            }
        } else {
            self.infer_any(base, None);
            match self.p.tables.exprs[base].meaning {
                Meaning::Error => Ref::Error,
                Meaning::Type(ty) => self.static_member(ty, name),
                _ => self.value_member(base, name),
            }
        }
    }

    /// Reports that a name (or the last name of a path) is unknown.
    pub(crate) fn not_found(&mut self, expr: ExprId) {
        let (name, base, span) = match self.p.ast.exprs[expr].kind {
            ExprKind::Name(name) | ExprKind::OperatorName(name) | ExprKind::GlobalName(name) => {
                (name, None, self.span(expr))
            }
            ExprKind::Member { base, name, name_span, .. } | ExprKind::Static { base, name, name_span } => {
                (name, Some(base), name_span)
            }
            ExprKind::Paren(inner) | ExprKind::Generic { base: inner, .. } => return self.not_found(inner),
            _ => return,
        };
        let text = self.p.ast.name(name).to_string();
        let diagnostic = match base {
            None => {
                if self.native_function(expr).is_some() {
                    self.error("E30060", span, format!("expected a value, found the function '{text}'"));
                    return;
                }
                let similar = self.similar_name(&text).map(|name| format!("did you mean '{name}'?"));
                Diagnostic::error("E30015", span, format!("undefined identifier '{text}'")).help_if(similar)
            }
            Some(base) => {
                let info = &self.p.tables.exprs[base];
                let whose = match info.meaning {
                    Meaning::Namespace(decl) => self.p.ast.decl_name(decl).into(),
                    _ => self.name(info.ty),
                };
                let ty = info.ty;
                if self.p.has_unknown_base(ty) {
                    return;
                }
                let similar = self.similar_member(ty, &text).map(|name| format!("did you mean '{name}'?"));
                let message = text!("'{text}' is not a member of '{}'", whose);
                Diagnostic::error("E30027", span, message).help_if(similar)
            }
        };
        self.p.report(diagnostic);
    }
}
