//! Derivatives in expressions: see [`crate::flow`].
//!
//! One walk serves both ways. Forwards it finds out which expressions carry a derivative and remembers them; backwards
//! it reads that, and finds out what is needed.

use syntax::ast::{AccessorKind, BinaryOp, DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::flow::{Direction, Flow, Key, Mark, Part, Purpose};
use crate::signature::Level;
use crate::tables::{Arg, Callable, FuncRef, Initializer, Meaning};
use crate::types::Ty;

/// A place in a variable.
pub(crate) struct Place {
    /// The variable, and the part of it that the place is or is in.
    pub(crate) key: Key,
    /// The place is that part, and not only in it.
    pub(crate) exact: bool,
    /// A field on the way has no derivative.
    pub(crate) plain: bool,
}

impl Flow<'_> {
    /// Whether an expression may carry a derivative. `needed`: a differentiable result depends on it.
    pub(crate) fn expr(&mut self, expr: ExprId, needed: bool) -> bool {
        // The initial value of a field can make its own struct, which is an error found elsewhere.
        if !self.open.insert(expr) {
            return false;
        }
        self.value_depth += 1;
        // A number that is converted to an integer, or is part of what has no derivative, is not needed for one.
        let info = &self.p.tables.exprs[expr];
        let ty = info.coerce.unwrap_or(info.ty);
        let is_differentiable = self.has_differential(ty);
        let needed = needed && is_differentiable;
        let carries = if self.value_depth > 3000 { false } else { self.kind(expr, needed) };
        self.value_depth -= 1;
        self.open.remove(&expr);
        if self.direction == Direction::Backward {
            if needed {
                self.check_cut(expr);
            }
            return self.carried.contains(&expr);
        }
        self.find_cut(expr, ty);
        let carries = carries && (is_differentiable || self.may_carry(ty));
        if carries {
            self.carried.insert(expr);
        }
        carries
    }

    /// The place in a variable that an expression denotes, if it is one and no code of the user's is run for it.
    pub(crate) fn place(&mut self, expr: ExprId) -> Option<Place> {
        let (base, part, exact, plain) = match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Var(decl) => return Some(Place { key: (decl, None), exact: true, plain: false }),
            Meaning::Same(base) => return self.place(base),
            Meaning::Field { base: Some(base), field } => {
                (base, Some(Part::Field(field)), true, self.p.is_no_diff(field))
            }
            Meaning::DiffField { base, field } => (base, Some(Part::Field(field)), true, false),
            Meaning::TupleField { base, idx } => (base, Some(Part::Element(idx.into())), true, false),
            Meaning::Swizzle { base, comps } if comps.len() == 1 => {
                (base, Some(Part::Element(comps[0].into())), true, false)
            }
            Meaning::MatrixSwizzle { base, comps } if comps.len() == 1 => {
                (base, Some(Part::Element(comps[0].0.into())), false, false)
            }
            Meaning::Index { base, index } => match self.p.ast.exprs[index].kind {
                ExprKind::Int { value, .. } => (base, Some(Part::Element(value)), true, false),
                _ => (base, None, false, false),
            },
            Meaning::PairField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::TupleSwizzle { base, .. } => (base, None, false, false),
            _ => return None,
        };
        let outer = self.place(base)?;
        let plain = plain || outer.plain;
        Some(match (outer.key.1, outer.exact) {
            // The variable itself.
            (None, true) => Place { key: (outer.key.0, part), exact, plain },
            _ => Place { exact: false, plain, ..outer },
        })
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
            Meaning::This => self.this.0,
            Meaning::Field { base, field } => {
                let plain = self.p.is_no_diff(field);
                let of_this = base.is_none_or(|b| matches!(self.p.tables.exprs[b].meaning, Meaning::This));
                if self.plain_this && of_this && !plain {
                    self.check_field_of_this(expr, field);
                }
                if let Some(place) = self.place(expr) {
                    self.indices(expr);
                    return self.read(expr, place.key, needed && !place.plain) && !place.plain;
                }
                match base {
                    Some(base) => self.expr(base, needed && !plain) && !plain,
                    None => self.this.0 && !plain,
                }
            }
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::TupleSwizzle { base, .. }
            | Meaning::Index { base, .. } => {
                if let Some(place) = self.place(expr) {
                    self.indices(expr);
                    return self.read(expr, place.key, needed && !place.plain) && !place.plain;
                }
                if let Meaning::Index { index, .. } = self.p.tables.exprs[expr].meaning {
                    self.expr(index, false);
                }
                self.expr(base, needed)
            }
            Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::Cast(base)
            | Meaning::Unary(_, base) => self.expr(base, needed),
            Meaning::AddressOf(base) => {
                self.set(base);
                self.expr(base, false);
                false
            }
            Meaning::Deref(base) => {
                self.expr(base, false);
                false
            }
            Meaning::Property { base, property } => self.read_accessor(expr, base, &property, &[], needed),
            Meaning::Subscript { base, subscript, args } => {
                self.read_accessor(expr, Some(base), &subscript, &args, needed)
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
            Meaning::Binary(op, ..) => self.chain(expr, op, needed),
            Meaning::Ternary(cond, a, b) => {
                self.expr(cond, false);
                let a = self.expr(a, needed);
                self.expr(b, needed) || a
            }
            Meaning::Assign { target, value, op } => {
                let place_needed = self.place_needed(target);
                if op.is_none() && self.direction == Direction::Backward {
                    self.overwrite(target);
                }
                let mut carried = self.expr(value, place_needed || needed);
                if carried && place_needed {
                    self.check_setters(target);
                }
                self.indices(target);
                if op.is_some() {
                    // `a op= b` reads the place too.
                    self.read_and_set(target);
                    carried |= self.has_differential(self.p.tables.exprs[target].ty) && self.carries(target);
                } else if self.direction == Direction::Forward {
                    self.overwrite(target);
                }
                self.store(expr, target, value, carried);
                carried
            }
            Meaning::AssignCall { func, target, value } => {
                let place_needed = self.place_needed(target);
                let carried = self.expr(value, place_needed || needed);
                self.indices(target);
                self.read_and_set(target);
                if place_needed && (carried || self.carried.contains(&target)) {
                    self.check_setters(target);
                    let func = self.p.substitute_func(&func, &self.subst);
                    if self.p.differentiable_level(&func, self.view) < self.level {
                        self.lost_in_call(expr, &Callable::Func(func));
                    }
                }
                if self.carries(target) {
                    self.carried.insert(target);
                }
                self.cut_store(target, value, carried);
                if carried {
                    self.store_to(target);
                }
                carried
            }
            Meaning::IncDec(target) => {
                self.read_and_set(target);
                self.carries(target)
            }
            Meaning::NoDiff(inner) => {
                // What is inside is a constant; its arguments are looked at as if it were not needed.
                self.expr(inner, false);
                false
            }
        }
    }

    /// Chains are nested to the left: no recursion along them.
    fn chain(&mut self, expr: ExprId, op: BinaryOp, needed: bool) -> bool {
        let mut at = expr;
        let mut carried = false;
        let mut op = op;
        let mut needed = needed;
        loop {
            let Meaning::Binary(_, left, right) = self.p.tables.exprs[at].meaning else {
                return self.expr(at, needed) || carried;
            };
            let compares = matches!(
                op,
                BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::And
                    | BinaryOp::Or
            );
            needed &= !compares;
            carried |= self.expr(right, needed);
            match self.p.tables.exprs[left].meaning {
                Meaning::Binary(inner, ..) => {
                    op = inner;
                    at = left;
                }
                _ => return self.expr(left, needed) || carried,
            }
        }
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

    /// The place that a place is a part of.
    pub(crate) fn base(&self, expr: ExprId) -> Option<ExprId> {
        match self.p.tables.exprs[expr].meaning {
            Meaning::Field { base, .. } | Meaning::Property { base, .. } => base,
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::TupleSwizzle { base, .. }
            | Meaning::Index { base, .. }
            | Meaning::Subscript { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. } => Some(base),
            _ => None,
        }
    }

    /// The place that a place is a part of in the end, a variable or a member of `this` mostly.
    fn root(&self, expr: ExprId) -> ExprId {
        let mut at = expr;
        while let Some(base) = self.base(at) {
            at = base;
        }
        at
    }

    /// Reads a place: whether it carries a derivative. Backwards it is needed from here on.
    fn read(&mut self, expr: ExprId, key: Key, needed: bool) -> bool {
        match self.direction {
            Direction::Forward => {
                self.check_set(expr, key);
                self.holds(key)
            }
            Direction::Backward => {
                if needed {
                    self.places.insert((Mark::Derivative, key.0, key.1));
                }
                false
            }
        }
    }

    fn read_and_set(&mut self, target: ExprId) {
        if let Some(place) = self.place(target) {
            self.check_set(target, place.key);
        }
        self.set(target);
    }

    /// What is assigned replaces what was there, if it is all of it.
    fn overwrite(&mut self, target: ExprId) {
        self.set(target);
        if let Some(place) = self.place(target).filter(|p| p.exact) {
            self.forget(place.key);
        }
    }

    fn place_needed(&mut self, target: ExprId) -> bool {
        // What is put where no derivative can be is not needed for one.
        if self.direction == Direction::Forward || !self.has_tangent(target) {
            return false;
        }
        if let Some(place) = self.place(target) {
            return self.holds(place.key);
        }
        match self.p.tables.exprs[self.root(target)].meaning {
            Meaning::Var(decl) => self.holds((decl, None)),
            Meaning::This | Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. } => {
                self.this.1
            }
            _ => false,
        }
    }

    /// Whether a place carries a derivative now.
    fn carries(&mut self, target: ExprId) -> bool {
        if self.direction == Direction::Backward || !self.has_tangent(target) {
            return false;
        }
        if let Some(place) = self.place(target) {
            return self.holds(place.key);
        }
        match self.p.tables.exprs[self.root(target)].meaning {
            Meaning::Var(decl) => self.holds((decl, None)),
            Meaning::This | Meaning::Field { base: None, .. } => self.this.0,
            _ => false,
        }
    }

    /// The indices within a place are expressions of their own.
    fn indices(&mut self, target: ExprId) {
        match self.p.tables.exprs[target].meaning.clone() {
            Meaning::Index { base, index } => {
                self.expr(index, false);
                self.indices(base);
            }
            Meaning::Field { base: Some(base), .. }
            | Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::TupleSwizzle { base, .. } => self.indices(base),
            _ => {}
        }
    }

    fn store_to(&mut self, target: ExprId) {
        if let Some(place) = self.place(target) {
            return self.carry(place.key);
        }
        match self.p.tables.exprs[self.root(target)].meaning {
            Meaning::Var(decl) => self.carry((decl, None)),
            Meaning::This | Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. }
                if self.this.1 =>
            {
                self.this.0 = true;
            }
            _ => {}
        }
    }

    /// A value is assigned.
    fn store(&mut self, expr: ExprId, target: ExprId, value: ExprId, carried: bool) {
        let ty = self.p.tables.exprs[target].ty;
        self.cut_store(target, value, carried);
        if !carried || !self.may_carry(ty) {
            return;
        }
        if self.has_tangent(target) || !self.has_differential(ty) {
            self.store_to(target);
        } else if self.purpose == Purpose::Derivatives {
            let span = self.p.ast.exprs[expr].span;
            let place = self.p.ast.exprs[target].span;
            self.p.lost.insert(value);
            self.report(
                Diagnostic::error("E41031", span, "the derivative is lost in this assignment")
                    .note(place, "this place has no derivative")
                    .help("use 'detach(…)' to say that this is meant"),
            );
        }
    }

    /// Whether a place can hold a derivative.
    fn has_tangent(&mut self, target: ExprId) -> bool {
        match self.p.tables.exprs[target].meaning.clone() {
            Meaning::Var(decl) => {
                if let DeclKind::Param { .. } = self.p.ast.decls[decl].kind {
                    // One that is not handed back is a variable of the function's own.
                    let written = Modifiers(Modifiers::OUT.0 | Modifiers::INOUT.0 | Modifiers::REF.0);
                    return !self.p.is_no_diff(decl) || !self.p.ast.decls[decl].modifiers.has(written);
                }
                let modifiers = self.p.ast.decls[decl].modifiers;
                let shared = Modifiers(Modifiers::STATIC.0 | Modifiers::GROUPSHARED.0);
                let global = self.p.ast.decls[decl].parent.is_none_or(|p| {
                    !matches!(
                        self.p.ast.decls[p].kind,
                        DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. }
                    )
                });
                !modifiers.has(shared) && !self.p.is_no_diff(decl) && !global
            }
            Meaning::Field { base, field } => {
                if self.p.is_no_diff(field) {
                    return false;
                }
                match base {
                    Some(base) => {
                        let info = &self.p.tables.exprs[base];
                        let ty = info.coerce.unwrap_or(info.ty);
                        self.has_differential(ty) && self.has_tangent(base)
                    }
                    // A field of `this`; one of a type without derivatives is not told apart here.
                    None => self.this.1,
                }
            }
            Meaning::This => self.this.1,
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::TupleSwizzle { base, .. } => self.has_tangent(base),
            Meaning::Index { base, .. } => {
                let ty = self.p.tables.exprs[base].ty;
                self.has_differential(ty) && self.has_tangent(base)
            }
            Meaning::StaticMember(_) | Meaning::Deref(_) => false,
            // Setters are functions; what they do with the value is checked there.
            _ => true,
        }
    }

    /// A property or a user's subscript is read: a call of its `get`.
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
            None => self.this.0,
        };
        for arg in args.iter().flat_map(Arg::exprs) {
            carried |= self.expr(arg, needed);
        }
        carried
    }

    /// A value with a derivative that is needed is assigned: through calls of `set`, where properties or users' subscripts
    /// are on the way.
    fn check_setters(&mut self, target: ExprId) {
        let member = match self.p.tables.exprs[target].meaning.clone() {
            Meaning::Property { property, .. } => Some(property),
            Meaning::Subscript { subscript, .. } => Some(subscript),
            _ => None,
        };
        if let Some(member) = member {
            let member = self.p.substitute_func(&member, &self.subst);
            if let Some(set) = self.p.declared_accessors(&member).set
                && !self.p.is_core(set.decl)
            {
                if self.p.differentiable_level(&set, self.view) < self.level {
                    self.lost_in_call(target, &Callable::Func(set));
                } else {
                    let signature = self.p.func_signature(&set);
                    let value = signature.params.last().filter(|p| !p.differentiable && !p.no_diff);
                    if let Some(value) = value {
                        self.lost_by_declaration(target, set.decl, value.decl);
                    }
                    if signature.this.as_ref().is_some_and(|t| t.mutating && !t.differentiable)
                        && !self.p.says_no_diff_this(set.decl)
                    {
                        self.lost_by_declaration(target, set.decl, None);
                    }
                }
            }
        }
        if let Some(base) = self.base(target) {
            self.check_setters(base);
        }
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
            // Derivatives of derivatives.
            Callable::Fwd(..)
            | Callable::Bwd(..)
            | Callable::Apply(..)
            | Callable::Linearize(..)
            | Callable::Synthesized(..) => Level::Backward,
        };
        let differentiable = level >= self.level;
        let mutates = signature.this.as_ref().is_some_and(|t| t.mutating);
        let writes = signature.params.iter().any(|p| p.dir.is_written()) || mutates;
        // Of what is written, whether any is needed afterwards.
        let mut writes_needed = false;
        if self.direction == Direction::Backward && writes {
            writes_needed = mutates && base.is_some_and(|base| self.place_needed(base))
                || mutates && base.is_none() && self.this.1;
            for (arg, param) in args.iter().zip(&signature.params) {
                if param.dir.is_written() && !param.no_diff {
                    writes_needed |= arg.exprs().into_iter().any(|arg| self.place_needed(arg));
                }
            }
        }
        let mut carried = false;
        // The parameters without a derivative, as they are declared, for which something with one is passed.
        let mut dropped: Vec<Option<DeclId>> = Vec::new();
        let is_detach = matches!(func, Callable::Func(f) if self.p.is_core(f.decl)
            && self.p.intrinsic(f.decl).as_deref() == Some("detach"));
        if let Some(this) = &signature.this {
            let says = matches!(func, Callable::Func(f) if self.p.says_no_diff_this(f.decl));
            let inner = differentiable && (needed || writes) && this.differentiable;
            if let Some(base) = base.filter(|_| mutates) {
                self.set(base);
            }
            // The library's members of types (`getCount`) say what is known of the type.
            let unset =
                matches!(func, Callable::Func(f) if self.p.is_core(f.decl)).then(|| self.take_unset());
            let carries = match base {
                Some(base) => self.expr(base, inner),
                None => self.this.0,
            };
            self.places.extend(unset.into_iter().flatten());
            let is_dropped = carries && !says && !this.differentiable;
            // What has no derivative as it is declared may be of a type that has one here.
            carried |= carries && !says && (this.differentiable || self.has_differential(this.ty));
            if is_dropped {
                dropped.push(None);
            }
        } else if let Some(base) = base {
            self.expr(base, false);
        }
        for (arg, param) in args.iter().zip(&signature.params) {
            // A derivative that is lost within the arguments of a call that loses it, too, is lost there.
            let inner =
                (needed || differentiable && writes) && !param.no_diff && param.differentiable && !is_detach;
            for arg in arg.exprs() {
                if differentiable && param.dir.is_written() && param.differentiable {
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
                carried |= carries && !param.no_diff && self.has_differential(ty);
                let lost = carries && !param.no_diff && !param.differentiable;
                if lost && needed && differentiable && self.p.is_lambda(arg) {
                    self.p.lost.insert(arg);
                    let span = self.p.ast.exprs[arg].span;
                    self.report(
                        Diagnostic::error(
                            "E41022",
                            span,
                            "the derivative by what this lambda captures is lost in this call",
                        )
                        .help("pass it as an argument of the lambda, or capture 'detach' of it if this is meant"),
                    );
                } else if lost {
                    dropped.push(param.decl);
                }
            }
        }
        for arg in args.iter().skip(signature.params.len()).flat_map(Arg::exprs) {
            self.expr(arg, false);
        }
        if is_detach {
            return false;
        }
        // A derivative that the user wrote for a function without differentiable inputs is that of what it reads.
        let has_inputs = signature.params.iter().any(|p| p.differentiable && p.dir != crate::Direction::Out)
            || signature.this.as_ref().is_some_and(|t| t.differentiable);
        if let (Callable::Func(f), false) = (func, has_inputs)
            && !self.p.is_core(f.decl)
        {
            let derivatives = self.p.derivatives_of(f, self.view);
            carried |= derivatives.fwd.is_some() || derivatives.bwd.is_some();
        }
        self.cut_call(expr, func, (base, args), &signature, carried);
        if carried && differentiable {
            for (arg, param) in args.iter().zip(&signature.params) {
                if param.dir.is_written() && param.differentiable {
                    for arg in arg.exprs() {
                        self.store_to(arg);
                    }
                }
            }
            if mutates {
                match base {
                    Some(base) => self.store_to(base),
                    None => self.this.0 |= self.this.1,
                }
            }
        }
        let no_diff_result = match func {
            Callable::Func(f) => self.p.is_no_diff(f.decl),
            _ => false,
        };
        let result_differentiable =
            signature.ret != Ty::VOID && self.has_differential(signature.ret) && !no_diff_result;
        let is_needed = needed && result_differentiable || writes_needed;
        if carried && !differentiable && is_needed {
            self.lost_in_call(expr, func);
        }
        if let (Callable::Func(f), true) = (func, differentiable && (needed || writes_needed)) {
            if carried && result_differentiable && needed && !signature.ret_differentiable {
                dropped.push(None);
            }
            for param in dropped {
                self.lost_by_declaration(expr, f.decl, param);
            }
        }
        if let (Callable::Func(f), true) = (func, carried && differentiable) {
            let span = self.p.ast.exprs[expr].span;
            let derivatives = self.p.derivatives_of(f, self.view);
            self.p.report_ambiguity(f, &derivatives, self.level == Level::Backward, span);
        }
        carried && differentiable && result_differentiable
    }

    /// A field whose type has derivatives, of an object whose type has none.
    fn check_field_of_this(&mut self, expr: ExprId, field: DeclId) {
        let ty = self.p.tables.exprs[expr].ty;
        let span = self.p.ast.exprs[expr].span;
        if self.p.differential(ty).is_none() {
            return;
        }
        let name = self.p.ast.name(self.p.ast.decls[field].name).to_string();
        let message = format!("'{name}' has no derivative here: the type of 'this' is not differentiable");
        let help =
            "write '[NoDiffThis]' before the function if this is meant, or make the type 'IDifferentiable'";
        self.report(Diagnostic::warning("E31159", span, message).help(help));
    }

    /// A place that is passed for a differentiable output.
    fn check_output(&mut self, arg: ExprId) {
        // A parameter can be assigned to, but what is passed on is the caller's.
        let is_plain_param = self.place(arg).is_some_and(|place| self.p.is_no_diff(place.key.0));
        if is_plain_param || !self.has_tangent(arg) {
            let span = self.p.ast.exprs[arg].span;
            let message =
                "the derivative is lost: this place has none, and is passed for a differentiable output";
            let help = "pass a local variable, and assign 'detach' of it";
            self.report(Diagnostic::error("E41025", span, message).help(help));
        }
    }

    fn lost_in_call(&mut self, expr: ExprId, func: &Callable) {
        let Callable::Func(FuncRef { decl, .. }) = func else { return };
        let decl = *decl;
        if self.is_instance {
            return self.lost_by_declaration(expr, decl, None);
        }
        self.p.lost.insert(expr);
        let name = self.callee_name(decl);
        let mode = if self.level == Level::Backward { "backward" } else { "forward" };
        let span = self.p.ast.exprs[expr].span;
        let declared = self.p.ast.decls[decl].name_span;
        let mut diagnostic = Diagnostic::error(
            "E41022",
            span,
            format!("the derivative is lost in this call: '{name}' is not {mode}-differentiable"),
        )
        .help("write 'no_diff' before the call if this is meant, or mark the function '[Differentiable]'");
        if !self.p.is_core(decl) {
            diagnostic = diagnostic.note(declared, "declared here");
        }
        self.report(diagnostic);
    }

    fn callee_name(&self, decl: DeclId) -> String {
        let name = |decl: DeclId| self.p.ast.name(self.p.ast.decls[decl].name).to_string();
        match self.p.ast.decls[decl].kind {
            DeclKind::Init { .. } => "__init".to_string(),
            DeclKind::Accessor { kind, .. } => {
                let kind = match kind {
                    AccessorKind::Get => "get",
                    AccessorKind::Set => "set",
                    AccessorKind::Ref => "ref",
                };
                let member = self.p.ast.decls[decl].parent.map_or(String::new(), name);
                let member = if member.is_empty() { "__subscript".to_string() } else { member };
                format!("{member}.{kind}")
            }
            _ => name(decl),
        }
    }

    /// A derivative is zero since a declaration names a type that has none, as `T` or an interface, where the value has
    /// one: in a parameter, or (without one) in the receiver or the result.
    fn lost_by_declaration(&mut self, expr: ExprId, decl: DeclId, param: Option<DeclId>) {
        if self.p.is_core(decl) {
            return;
        }
        let span = self.p.ast.exprs[expr].span;
        // Of what is refused for all arguments there is nothing to be said for some.
        if self.p.diagnostics.iter().any(|d| d.code == "E41022" && d.primary.span == span) {
            return;
        }
        let name = self.callee_name(decl);
        let (at, what) = match param {
            Some(param) => {
                let param_name = self.p.ast.name(self.p.ast.decls[param].name).to_string();
                (param, format!("'{param_name}' of '{name}'"))
            }
            None => (decl, format!("'{name}'")),
        };
        let message =
            format!("the derivative is zero here: {what} has none for the types that it is declared with");
        let help = "declare it with types that are 'IDifferentiable', or write 'detach' or 'no_diff' if zero is meant";
        let declared = self.p.ast.decls[at].name_span;
        self.report(Diagnostic::warning("E41033", span, message).note(declared, "declared here").help(help));
    }
}
