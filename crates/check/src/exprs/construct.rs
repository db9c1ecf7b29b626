//! Checks calls that construct values: tuples, pairs, and values of a type, `T(…)`.
//!
//! The type determines the form. Scalars, vectors and matrices are converted or composed from components; a
//! struct uses the constructors that it declares, or its fields if it declares none; a type that is not known
//! yet has only the constructors that its constraints promise.

use std::rc::Rc;

use syntax::ast::DeclKind;
use syntax::{DeclId, ExprId, Span, keywords as kw};

use crate::exprs::infer::Checker;
use crate::facts::FacetKind;
use crate::names::lookup::Candidate;
use crate::program::Program;
use crate::signature::Tangent;
use crate::tables::{Arg, Callable, FuncRef, Initializer, Meaning};
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{Scalar, Ty, TyKind, Val};

impl Checker<'_> {
    pub(crate) fn make_tuple(&mut self, expr: ExprId, args: &[ExprId]) -> Ty {
        let types: Vec<Ty> = args.iter().map(|&a| self.infer(a, None)).collect();
        if types.contains(&Ty::ERROR) {
            return self.set_error(expr);
        }
        let ty = self.p.tuple_of(types);
        self.set_value(expr, ty, Meaning::MakeTuple(args.to_vec()))
    }

    /// `diffPair(p, d)`: the pair's type is determined by `p`, where integers count as `float`.
    pub(crate) fn diff_pair(&mut self, expr: ExprId, args: &[ExprId], expected: Option<Ty>) -> Ty {
        let span = self.span(expr);
        let (primal, differential) = match *args {
            [primal] => (primal, None),
            [primal, differential] => (primal, Some(differential)),
            _ => {
                let message = format!("'diffPair' takes 1 to 2 arguments, got {}", args.len());
                self.skip_args(args);
                return self.fail(expr, "E39999", message);
            }
        };
        if self.is_list(primal) {
            if let Some(ty) = expected.filter(|&ty| matches!(self.p.types[ty], TyKind::DiffPair(_))) {
                return self.construct(expr, ty, args);
            }
            return self.fail(expr, "E39999", "the type of this pair cannot be inferred from a brace list");
        }
        let mut ty = self.infer(primal, None);
        ty = self.p.loaded(ty);
        if ty == Ty::ERROR {
            self.skip_args(&args[1..]);
            return self.set_error(expr);
        }
        // Treat integers as floats.
        let is_float = |p: &Program, ty: Ty| matches!(p.types[ty], TyKind::Scalar(s) if s.is_float());
        if let TyKind::Scalar(scalar) = self.p.types[ty]
            && scalar != Scalar::Bool
        {
            let other = differential.filter(|&d| !self.is_list(d)).map(|d| self.infer(d, None));
            let other = other.filter(|&other| is_float(self.p, other));
            ty = match other {
                Some(other) if scalar.is_float() => self.p.join(ty, other).unwrap_or(ty),
                Some(other) => other,
                None if scalar.is_float() => ty,
                None => Ty::FLOAT,
            };
        }
        let tangent = self.p.tangent(ty);
        if tangent == Tangent::None {
            self.not_differentiable(ty, span);
            return self.set_error(expr);
        }
        let pair = self.p.pair_of(ty, tangent);
        self.pair_parts(expr, pair, primal, differential)
    }

    fn pair_parts(&mut self, expr: ExprId, pair: Ty, primal: ExprId, differential: Option<ExprId>) -> Ty {
        let Some((ty, tangent)) = self.p.halves(pair) else { return self.set_error(expr) };
        self.check(primal, ty);
        differential.into_iter().for_each(|differential| self.check(differential, tangent));
        self.set_value(expr, pair, Meaning::MakePair { primal, differential })
    }

    /// `S(args)` for a generic `S` without its arguments: they are inferred from a constructor's parameters
    /// or, for a struct without constructors, from its fields.
    pub(crate) fn construct_generic(
        &mut self,
        expr: ExprId,
        decl: DeclId,
        outer: &Rc<crate::Subst>,
        args: &[ExprId],
    ) -> Ty {
        let span = self.span(expr);
        if let DeclKind::Struct { .. } = self.p.ast.decls[decl].kind {
            let arguments = self.arguments(args);
            let params = self.p.own_params(decl);
            let mut patterns: Vec<Vec<Ty>> = Vec::new();
            for init in self.p.named(decl, kw::CONSTRUCTOR) {
                patterns.push(self.p.raw_signature(init).params.iter().map(|p| p.ty).collect());
            }
            if patterns.is_empty() {
                let generic = self.p.self_type(decl);
                patterns.push(self.p.fields(generic).into_iter().map(|f| f.1).collect());
            }
            for pattern in patterns {
                let mut env = (**outer).clone();
                let fits = pattern.len() == arguments.len()
                    && pattern.iter().zip(&arguments).all(|(&p, a)| {
                        a.ty.is_none_or(|ty| {
                            self.p.unify(p, ty, &params, &mut env)
                                || self.p.conversion(ty, p, a.source).is_some()
                        })
                    });
                if fits && params.iter().all(|&p| env.get(p).is_some()) {
                    let list = params.iter().filter_map(|&p| env.get(p).cloned()).collect();
                    let ty = self.apply_generic(decl, outer, list, span);
                    return self.construct(expr, ty, args);
                }
            }
        }
        self.fail(expr, "E30075", "the generic arguments of this type cannot be inferred: name them")
    }

    /// `T(args)`.
    pub(crate) fn construct(&mut self, expr: ExprId, ty: Ty, args: &[ExprId]) -> Ty {
        match self.p.types[ty].clone() {
            TyKind::Error => {
                self.skip_args(args);
                self.set_error(expr)
            }
            TyKind::Scalar(_) | TyKind::Enum(_) => match *args {
                [] => self.default_value(expr, ty),
                [arg] => self.infer_cast(expr, ty, arg),
                _ => {
                    let message = text!("'{}' takes 1 argument, got {}", self.name(ty), args.len());
                    self.skip_args(args);
                    self.fail_as(expr, ty, "E39999", message)
                }
            },
            TyKind::Vector(..) | TyKind::Matrix(..) => self.construct_components(expr, ty, args),
            TyKind::Array(_, n) => {
                if let [arg] = *args
                    && !self.is_list(arg)
                    && matches!(n, Some(Val::Int(n)) if n != 1)
                {
                    let from = self.infer(arg, None);
                    if matches!(self.p.types[from], TyKind::Array(..)) {
                        return self.infer_cast(expr, ty, arg);
                    }
                }
                self.aggregate(expr, ty, args)
            }
            TyKind::DiffPair(_) | TyKind::DiffPtrPair(_) => match *args {
                [] => self.default_value(expr, ty),
                [primal] if !self.is_list(primal) && self.infer(primal, None) == ty => {
                    self.set_value(expr, ty, Meaning::Cast(primal))
                }
                [primal] => self.pair_parts(expr, ty, primal, None),
                [primal, differential] => self.pair_parts(expr, ty, primal, Some(differential)),
                _ => {
                    let message = text!("'{}' takes 1 to 2 arguments, got {}", self.name(ty), args.len());
                    self.fail_as(expr, ty, "E39999", message)
                }
            },
            TyKind::Tuple(parts) if args.len() == parts.len() && !args.is_empty() => {
                args.iter().zip(parts).for_each(|(&arg, part)| self.check(arg, part));
                self.set_value(expr, ty, Meaning::MakeTuple(args.to_vec()))
            }
            TyKind::Tuple(_) if args.is_empty() => self.default_value(expr, ty),
            TyKind::Struct(..) => self.construct_struct(expr, ty, args),
            TyKind::SynthDiff(_) => self.aggregate(expr, ty, args),
            TyKind::Laid(content, _) => self.construct(expr, content, args),
            TyKind::Optional(_) => match *args {
                [] => self.default_value(expr, ty),
                [arg] => {
                    self.check(arg, ty);
                    self.set_value(expr, ty, Meaning::Cast(arg))
                }
                _ => self.fail_as(expr, ty, "E39999", "an optional takes one value"),
            },
            TyKind::Param(_)
            | TyKind::This(_)
            | TyKind::Assoc(..)
            | TyKind::PackPart(..)
            | TyKind::PackBranch(..)
            | TyKind::Each(_) => self.construct_unknown(expr, ty, args),
            // A reference to no object.
            TyKind::Interface(decl, _) if args.is_empty() && self.p.is_com(decl) => {
                self.default_value(expr, ty)
            }
            TyKind::Interface(..) if args.is_empty() => {
                let message =
                    text!("a value of type '{}' is made from one of a type that conforms", self.name(ty));
                self.fail_as(expr, ty, "E39999", message)
            }
            TyKind::Void
            | TyKind::Interface(..)
            | TyKind::Tuple(_)
            | TyKind::Pointer(..)
            | TyKind::Buffer(..)
            | TyKind::Opaque(..)
            | TyKind::String
            | TyKind::NullPtr
            | TyKind::NoneLiteral
            | TyKind::Function(..)
            | TyKind::Pack(_)
            | TyKind::Expand(..) => {
                if let [arg] = *args {
                    return self.infer_cast(expr, ty, arg);
                }
                let message = text!("a value of type '{}' cannot be made like this", self.name(ty));
                self.skip_args(args);
                self.fail_as(expr, ty, "E39999", message)
            }
        }
    }

    pub(crate) fn default_value(&mut self, expr: ExprId, ty: Ty) -> Ty {
        let initializer = self.p.default_of(ty);
        self.set_value(expr, ty, Meaning::Aggregate(initializer))
    }

    /// `T(x)` where `T` is not known: a conversion between numbers, or a constructor that a constraint
    /// promises.
    fn construct_unknown(&mut self, expr: ExprId, ty: Ty, args: &[ExprId]) -> Ty {
        if args.is_empty() {
            return self.set_value(expr, ty, Meaning::Aggregate(Initializer::Default(ty)));
        }
        if let [arg] = *args
            && !self.is_list(arg)
        {
            let from = self.infer(arg, None);
            let from = self.p.loaded(from);
            let number = matches!(self.p.types[from], TyKind::Scalar(_)) || self.p.has_operators(from);
            let explicit = Source { explicit: true, ..self.source_of(arg) };
            if from == ty
                || from == Ty::ERROR
                || number && self.p.has_operators(ty)
                || self.p.conversion(from, ty, explicit).is_some()
            {
                if from != self.ty_of(arg) {
                    self.coerce(arg, from);
                }
                return self.set_value(expr, ty, Meaning::Cast(arg));
            }
        }
        self.construct_struct(expr, ty, args)
    }

    /// The constructors that a type declares or that its interfaces promise.
    pub(crate) fn constructors(&mut self, ty: Ty) -> Vec<Candidate> {
        let mut out = Vec::new();
        for facet in self.p.facets(ty).iter() {
            let is_skipped = match facet.kind {
                FacetKind::Base => true,
                FacetKind::Interface => !out.is_empty() || !self.p.types.is_abstract(ty),
                FacetKind::Own | FacetKind::Extension | FacetKind::InterfaceExtension => false,
            };
            if !is_skipped {
                let inits = self.p.named(facet.container, kw::CONSTRUCTOR).into_iter();
                out.extend(inits.map(|decl| Candidate::member(decl, facet)));
            }
        }
        out
    }

    fn construct_struct(&mut self, expr: ExprId, ty: Ty, args: &[ExprId]) -> Ty {
        let constructors = self.constructors(ty);
        if constructors.is_empty() {
            if let [arg] = *args
                && !self.is_list(arg)
            {
                let from = self.infer(arg, None);
                let is_struct = matches!(self.p.types[from], TyKind::Struct(..));
                if from == ty || is_struct && self.p.conversion(from, ty, Source::default()).is_some() {
                    self.coerce(arg, ty);
                    return self.set_value(expr, ty, Meaning::Cast(arg));
                }
            }
            if !matches!(self.p.types[ty], TyKind::Struct(..)) {
                let message = text!("type '{}' has no constructor that is known here", self.name(ty));
                self.skip_args(args);
                return self.fail_as(expr, ty, "E39999", message);
            }
            return self.aggregate(expr, ty, args);
        }
        let arguments = self.arguments(args);
        if let [arg] = &arguments[..]
            && arg.ty == Some(ty)
        {
            return self.set_value(expr, ty, Meaning::Cast(arg.expr));
        }
        let takes_nothing = |c: &Candidate| self.p.params_of(c.decl).iter().all(|&p| self.p.has_default(p));
        if args.is_empty() && !constructors.iter().any(takes_nothing) {
            let initializer = self.p.fields_default_of(ty);
            return self.set_value(expr, ty, Meaning::Aggregate(initializer));
        }
        let Some(chosen) = self.choose(&constructors, &arguments, self.span(expr)) else {
            return self.set_value(expr, ty, Meaning::Error);
        };
        let args = self.fit_arguments(&chosen, &arguments);
        let Callable::Func(init) = chosen.callable else { return self.set_error(expr) };
        self.set_value(expr, ty, Meaning::Init { init, args })
    }

    /// Finds a constructor that fits these arguments (for brace lists); reports no diagnostics.
    pub(crate) fn constructor_for(
        &mut self,
        ty: Ty,
        args: &[ExprId],
        span: Span,
    ) -> Option<(FuncRef, Vec<Arg>)> {
        let constructors = self.constructors(ty);
        if constructors.is_empty() {
            return None;
        }
        let arguments = self.arguments(args);
        let chosen = self.attempt(|c| c.choose(&constructors, &arguments, span))?;
        let args = self.fit_arguments(&chosen, &arguments);
        let Callable::Func(init) = chosen.callable else { return None };
        Some((init, args))
    }
}
