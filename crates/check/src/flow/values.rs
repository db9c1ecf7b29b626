//! Analyses derivatives in expressions: see [`crate::flow`].
//!
//! One walk serves both directions. The forward pass determines which expressions carry a derivative and
//! records them; the backward pass uses that record and determines what is needed.

use syntax::{DeclId, ExprId};

use crate::flow::{Direction, Flow, Part};
use crate::signature::{Level, Signature, Tangent};
use crate::tables::{Arg, Callable, FuncRef, Initializer, Meaning};
use crate::types::{Ty, TyKind, Val};

impl Flow<'_> {
    /// Visits an expression; returns true if it may carry a derivative. `needed`: a differentiable result
    /// depends on it.
    pub(crate) fn expr(&mut self, expr: ExprId, needed: bool) -> bool {
        // The initial value of a field may construct the field's own struct, which is an error reported
        // elsewhere.
        if !self.open.insert(expr) {
            return false;
        }
        // A number that is converted to or from an integer, or is part of a value without derivative, is not
        // needed for one.
        let info = &self.p.tables.exprs[expr];
        let (own, ty) = (info.ty, info.coerce.unwrap_or(info.ty));
        let is_active = self.is_active_type(ty);
        let needed = needed && is_active;
        let is_number_needed = needed && (own == ty || self.is_active_type(own));
        let carries = if self.open.len() > 3000 { false } else { self.kind(expr, is_number_needed) };
        self.open.remove(&expr);
        if self.direction == Direction::Backward {
            if needed {
                self.check_cut(expr);
            }
            return self.carried.contains(&expr);
        }
        self.find_cut(expr, ty);
        let carries = carries && (is_active || self.may_carry(ty));
        if carries {
            self.carried.insert(expr);
        }
        carries
    }

    /// Walks an expression of which only the primal is needed.
    pub(crate) fn primal(&mut self, expr: ExprId) {
        self.expr(expr, false);
    }

    fn kind(&mut self, expr: ExprId, needed: bool) -> bool {
        match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Error => {
                self.take_unset();
                false
            }
            Meaning::Type(_)
            | Meaning::Namespace(_)
            | Meaning::Literal
            | Meaning::Const(_)
            | Meaning::SizeOf(..)
            | Meaning::StaticMember(_)
            | Meaning::Value(_)
            | Meaning::EnumCase(_)
            | Meaning::Func { .. }
            | Meaning::TypeTest { .. }
            | Meaning::TypeIs(..) => false,
            Meaning::Var(decl) => self.read(expr, (decl, None), needed),
            Meaning::This => self.read(expr, (self.decl, None), needed),
            Meaning::Field { base, field } => {
                let plain = self.p.is_no_diff(field);
                let of_this = base.is_none_or(|b| matches!(self.p.tables.exprs[b].meaning, Meaning::This));
                if self.plain_this && of_this && !plain {
                    self.check_field_of_this(expr, field);
                }
                if let Some(place) = self.place(expr) {
                    return self.read_place(expr, place, needed);
                }
                base.is_some_and(|base| self.expr(base, needed && !plain) && !plain)
            }
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::TupleSwizzle { base, .. }
            | Meaning::Index { base, .. } => {
                if let Some(place) = self.place(expr) {
                    return self.read_place(expr, place, needed);
                }
                if let Meaning::Index { index, .. } = self.p.tables.exprs[expr].meaning {
                    self.primal(index);
                }
                self.expr(base, needed)
            }
            Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::PackPart(_, base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::Cast(base)
            | Meaning::Unary(_, base) => self.expr(base, needed),
            Meaning::AddressOf(base) => {
                self.set(base);
                self.primal(base);
                false
            }
            Meaning::Deref(base) => {
                self.primal(base);
                false
            }
            Meaning::Chosen(pointer) => {
                let places = self.chosen_places(pointer);
                places.into_iter().fold(false, |carried, place| self.expr(place, needed) | carried)
            }
            Meaning::Property { base, member, args } => {
                self.read_accessor(expr, base, &member, &args, needed)
            }
            Meaning::Call { func, base, args } => self.call(expr, &func, base, &args, needed),
            Meaning::Init { init, args } => self.call(expr, &Callable::Func(init), None, &args, needed),
            Meaning::Construct(parts) | Meaning::MakeTuple(parts) => {
                parts.into_iter().fold(false, |carried, part| self.expr(part, needed) | carried)
            }
            Meaning::Aggregate(initializer) => self.initializer(&initializer, needed),
            Meaning::MakePair { primal, differential } => {
                let carried = self.expr(primal, needed);
                differential.is_some_and(|d| self.expr(d, needed)) || carried
            }
            Meaning::Binary(..) => self.chain(expr, needed),
            Meaning::Ternary(cond, a, b) => {
                self.primal(cond);
                let a = self.expr(a, needed);
                self.expr(b, needed) || a
            }
            Meaning::Assign { target, value, op } => {
                let place_needed = self.place_needed(target);
                let whole = self.place(target).filter(|place| place.exact && place.key.1.is_none());
                let whole = whole.map(|place| place.key.0).filter(|_| op.is_none() && !needed);
                let parts = whole.map_or(Vec::new(), |decl| self.parts_needed(value, decl));
                if op.is_none() && self.direction == Direction::Backward {
                    self.overwrite(target);
                }
                let mut carried = self.value(value, parts, place_needed || needed);
                if op.is_some() {
                    carried |= self.read_and_set(target, place_needed || needed);
                }
                if op.is_none() {
                    self.indices(target);
                    if self.direction == Direction::Forward {
                        self.overwrite(target);
                    }
                }
                self.store(expr, target, value, carried);
                if let (None, Some((var, None))) = (op, self.place(target).map(|place| place.key))
                    && self.direction == Direction::Forward
                {
                    self.cut_parts(var, value);
                }
                if self.call_setters(target, carried, place_needed) {
                    self.store_to(target);
                }
                carried
            }
            Meaning::AssignCall { func, target, value } => {
                let place_needed = self.place_needed(target);
                let carried = self.expr(value, place_needed || needed);
                if self.read_and_set(target, place_needed || needed) {
                    self.carried.insert(target);
                }
                let result_carried = carried || self.carried.contains(&target);
                let stored = self.call_setters(target, result_carried, place_needed);
                if place_needed && result_carried {
                    let func = self.p.substitute_func(&func, &self.subst);
                    if self.p.differentiable_level(&func, self.view) < self.level {
                        self.lost_in_call(expr, &Callable::Func(func));
                    }
                }
                self.cut_store(target, value, carried);
                if carried || stored {
                    self.store_to(target);
                }
                carried
            }
            Meaning::IncDec(target) => {
                let place_needed = self.place_needed(target);
                let carried = self.read_and_set(target, place_needed || needed);
                if self.call_setters(target, carried, place_needed) {
                    self.store_to(target);
                }
                carried
            }
            Meaning::Try(call) => {
                // The call is a step of its own, before this statement: see `Flow::visit_try`.
                if needed {
                    self.tried.insert(expr);
                }
                self.carried.contains(&call)
            }
            Meaning::NoDiff(inner) => {
                // The operand is a constant; its arguments are visited as not needed.
                self.operand_of_no_diff = Some(inner);
                self.primal(inner);
                false
            }
        }
    }

    /// Visits the value of a variable: its parts, if it is composed of parts.
    pub(crate) fn value(&mut self, value: ExprId, parts: Vec<(ExprId, bool)>, needed: bool) -> bool {
        if parts.is_empty() {
            return self.expr(value, needed);
        }
        for (part, is_needed) in parts {
            self.expr(part, is_needed);
        }
        self.carried.contains(&value)
    }

    /// In the backward pass, the parts that a variable's value is composed of, and for each whether the
    /// corresponding part of the variable is needed.
    pub(crate) fn parts_needed(&mut self, value: ExprId, decl: DeclId) -> Vec<(ExprId, bool)> {
        if self.direction == Direction::Forward || !self.has_differential(self.p.tables.exprs[value].ty) {
            return Vec::new();
        }
        let info = &self.p.tables.exprs[value];
        let (ty, meaning) = (info.ty, info.meaning.clone());
        if info.coerce.is_some_and(|to| to != ty) {
            return Vec::new();
        }
        let parts: Vec<ExprId> = match meaning {
            Meaning::Same(inner) => return self.parts_needed(inner, decl),
            Meaning::Construct(parts) => parts,
            Meaning::Aggregate(Initializer::Parts(_, parts)) => {
                let expr = |part: &Initializer| if let Initializer::Expr(e) = part { Some(*e) } else { None };
                let Some(exprs) = parts.iter().map(expr).collect() else { return Vec::new() };
                exprs
            }
            _ => return Vec::new(),
        };
        let ty = self.p.substitute(ty, &self.subst);
        let count = parts.len();
        let keys: Vec<(Part, bool)> = match self.p.types[ty] {
            TyKind::Struct(..) => {
                self.p.fields(ty).into_iter().map(|(field, _, plain)| (Part::Field(field), plain)).collect()
            }
            TyKind::Vector(_, Val::Int(n), _) | TyKind::Array(_, Some(Val::Int(n))) if n == count as i64 => {
                (0..count as u64).map(|k| (Part::Element(k), false)).collect()
            }
            _ => return Vec::new(),
        };
        if keys.len() != count {
            return Vec::new();
        }
        let needed = |(part, plain): (Part, bool)| !plain && self.holds((decl, Some(part)));
        keys.into_iter().map(needed).collect::<Vec<_>>().into_iter().zip(parts).map(|(n, p)| (p, n)).collect()
    }

    /// Visits a chain of operators, which is nested to the left, without recursion; forwards in the order in which it is
    /// evaluated, since an operand may assign what a later one reads: `f(x, y) && y > 0`.
    fn chain(&mut self, expr: ExprId, mut needed: bool) -> bool {
        let (mut at, mut operands) = (expr, Vec::new());
        while let Meaning::Binary(op, left, right) = self.p.tables.exprs[at].meaning {
            needed &= !op.is_comparison() && !op.is_logical();
            operands.push((right, needed));
            at = left;
        }
        operands.push((at, needed));
        if self.direction == Direction::Forward {
            operands.reverse();
        }
        operands.into_iter().fold(false, |carried, (operand, needed)| self.expr(operand, needed) | carried)
    }

    fn initializer(&mut self, initializer: &Initializer, needed: bool) -> bool {
        match initializer {
            Initializer::Expr(expr) => self.expr(*expr, needed),
            Initializer::Default(_) => false,
            Initializer::Parts(ty, parts) => {
                let ty = self.p.substitute(*ty, &self.subst);
                let fields = self.p.fields(ty);
                parts.iter().enumerate().fold(false, |carried, (k, part)| {
                    let plain = fields.len() == parts.len() && fields[k].2;
                    self.initializer(part, needed && !plain) & !plain | carried
                })
            }
            Initializer::Init(_, _, args) => args
                .iter()
                .flat_map(Arg::exprs)
                .fold(false, |carried, expr| self.expr(expr, needed) | carried),
        }
    }

    /// Visits a read of a property or of a user's subscript, which is a call of its `get`.
    fn read_accessor(
        &mut self,
        expr: ExprId,
        base: Option<ExprId>,
        member: &FuncRef,
        args: &[Arg],
        needed: bool,
    ) -> bool {
        let member = self.p.substitute_func(member, &self.subst);
        if let Some(get) = self.p.declared_accessors(&member).get
            && !self.p.is_core(get.decl)
        {
            return self.call(expr, &Callable::Func(get), base, args, needed);
        }
        let mut carried = match base {
            Some(base) => self.expr(base, needed),
            None => self.read_this(expr, needed),
        };
        for arg in args.iter().flat_map(Arg::exprs) {
            carried |= self.expr(arg, needed);
        }
        let get = self.p.declared_accessors(&member).get;
        carried || get.is_some_and(|get| self.p.reads_derivatives(&get, self.view))
    }

    /// Returns true for a function whose results are pointers. It moves their tangents alike, so it needs no
    /// derivative of its own.
    fn moves_pointers(&mut self, signature: &Signature) -> bool {
        let written = signature.params.iter().chain(&signature.this).filter(|p| p.dir.is_written());
        let results: Vec<Ty> = written.map(|p| p.ty).chain([signature.ret]).collect();
        let active: Vec<Ty> = results.into_iter().filter(|&ty| self.is_active_type(ty)).collect();
        !active.is_empty() && active.into_iter().all(|ty| !self.has_differential(ty))
    }

    /// Returns true for a function without results that has derivatives for what it does to memory: it writes through a
    /// differentiable pointer, or its author says what its derivative is (`DiffPtr.store`, `DiffTensorView.store`).
    fn only_stores(&mut self, func: &Callable, signature: &Signature) -> bool {
        let Callable::Func(f) = func else { return false };
        if signature.ret != Ty::VOID {
            return false;
        }
        let derivatives = self.p.derivatives_of(f, self.view);
        derivatives.fwd.is_some()
            || derivatives.bwd.is_some()
            || signature
                .params
                .iter()
                .chain(&signature.this)
                .any(|p| p.has_tangent() && !self.has_differential(p.ty))
    }

    fn call(
        &mut self,
        expr: ExprId,
        func: &Callable,
        base: Option<ExprId>,
        args: &[Arg],
        needed: bool,
    ) -> bool {
        let substituted = self.p.substitute_callable(func, &self.subst);
        let func = &substituted;
        let signature = self.p.callable_signature(func);
        let level = match func {
            Callable::Func(func) => self.p.differentiable_level(func, self.view),
            // These are derivatives of derivatives.
            Callable::Derived(..) | Callable::Synthesized(..) => Level::Backward,
        };
        let differentiable = level >= self.level || self.moves_pointers(&signature);
        let mutates = signature.is_mutating();
        let writes = signature.params.iter().any(|p| p.dir.is_written()) || mutates;
        // The places that are written, with flags for whether they get a derivative and whether they are
        // needed afterwards.
        let mut written: Vec<(ExprId, bool, bool)> = Vec::new();
        if let Some(base) = base.filter(|_| mutates) {
            written.push((base, true, self.place_needed(base)));
        }
        for (arg, param) in
            args.iter().zip(&signature.params).filter(|(_, p)| p.dir.is_written() && !p.no_diff)
        {
            for arg in arg.exprs() {
                written.push((arg, param.has_tangent(), self.place_needed(arg)));
            }
        }
        let writes_needed = written.iter().any(|w| w.2)
            || mutates
                && base.is_none()
                && self.direction == Direction::Backward
                && self.holds((self.decl, None));
        let stores = differentiable && !writes && self.only_stores(func, &signature);
        let mut carried = false;
        // The parameters that have no derivative as declared but receive a value with one.
        let mut dropped: Vec<Option<DeclId>> = Vec::new();
        let is_detach = matches!(func, Callable::Func(f) if self.p.is_core(f.decl)
            && self.p.intrinsic(f.decl).as_deref() == Some("detach"));
        if let Some(this) = &signature.this {
            let says = matches!(func, Callable::Func(f) if self.p.says_no_diff_this(f.decl));
            let inner = differentiable && (needed || writes) && this.has_tangent();
            if let Some(base) = base.filter(|_| mutates) {
                self.set(base);
            }
            // The library's members of types (`getCount`) depend only on the type.
            let unset =
                matches!(func, Callable::Func(f) if self.p.is_core(f.decl)).then(|| self.take_unset());
            let carries = match base {
                Some(base) => self.expr(base, inner),
                None => self.read_this(expr, inner),
            };
            self.places.extend(unset.into_iter().flatten());
            let is_dropped = carries && !says && !this.has_tangent();
            // A type without a derivative as declared may be instantiated with one that has a derivative.
            carried |= carries && !says && (this.has_tangent() || self.is_active_type(this.ty));
            if is_dropped {
                dropped.push(None);
            }
        } else if let Some(base) = base {
            self.primal(base);
        }
        if matches!(func, Callable::Func(f) if self.p.is_core(f.decl) && self.p.ast.decl_name(f.decl) == "unused")
        {
            // The author says that the value does not matter, whether there is one or not.
            args.iter().flat_map(|arg| arg.exprs()).for_each(|arg| self.set(arg));
        }
        for (arg, param) in args.iter().zip(&signature.params) {
            // If the call itself loses the derivative, losses within its arguments are not reported
            // separately.
            let inner = (needed || stores || differentiable && writes)
                && !param.no_diff
                && param.has_tangent()
                && !is_detach;
            for arg in arg.exprs() {
                if differentiable && param.dir.is_written() && param.has_tangent() {
                    self.check_output(arg);
                }
                if param.dir == crate::Direction::Out {
                    self.overwrite(arg);
                    self.indices(arg);
                    continue;
                }
                if param.dir.is_written() {
                    self.set(arg);
                }
                let carries = self.expr(arg, inner);
                let info = &self.p.tables.exprs[arg];
                let ty = info.coerce.unwrap_or(info.ty);
                carried |= carries && !param.no_diff && self.is_active_type(ty);
                let lost = carries && !param.no_diff && !param.has_tangent();
                if lost && needed && differentiable && self.p.is_lambda(arg) {
                    self.lost_by_capture(arg);
                } else if lost {
                    dropped.push(param.decl);
                }
            }
        }
        for arg in args.iter().skip(signature.params.len()).flat_map(Arg::exprs) {
            self.primal(arg);
        }
        if is_detach {
            return false;
        }
        if let Callable::Func(f) = func {
            carried = carried || self.p.reads_derivatives(f, self.view);
        }
        self.cut_call(expr, func, (base, args), &signature, carried);
        if carried && differentiable && mutates && base.is_none() {
            self.carry((self.decl, None));
        }
        for (place, has_derivative, needed) in written {
            let carried = carried && differentiable && has_derivative;
            if self.call_setters(place, carried, needed) {
                self.store_to(place);
            }
        }
        let no_diff_result = matches!(func, Callable::Func(f) if self.p.is_no_diff(f.decl));
        let result_differentiable =
            signature.ret != Ty::VOID && self.is_active_type(signature.ret) && !no_diff_result;
        let is_needed = needed && result_differentiable || writes_needed;
        if carried && !differentiable && is_needed {
            self.lost_in_call(expr, func);
        } else if carried && !differentiable && signature.ret == Ty::VOID {
            self.lost_in_memory(expr, func, base);
        }
        if let (Callable::Func(f), true) = (func, differentiable && (needed || writes_needed)) {
            if carried && result_differentiable && needed && signature.ret_tangent == Tangent::None {
                dropped.push(None);
            }
            for param in dropped {
                self.lost_by_declaration(expr, f.decl, param);
            }
        }
        if let (Callable::Func(f), true) = (func, carried && differentiable) {
            let derivatives = self.p.derivatives_of(f, self.view);
            self.p.report_ambiguity(f, &derivatives, self.level == Level::Backward, self.p.span(expr));
        }
        carried && differentiable && result_differentiable
    }
}
