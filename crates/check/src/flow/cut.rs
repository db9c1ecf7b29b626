//! Finds derivatives that are cut by values of types without one: see [`crate::flow`].
//!
//! A value of such a type (a struct that is not `IDifferentiable`, the bits of a number) may be computed from
//! something that carries a derivative, and a number may be read from it again. Judged by its type, that
//! number has the derivative zero, which is rarely intended; it causes a warning where the number is needed.
//! The forward pass follows these values through variables and calls; the backward pass finds the numbers
//! read from them that are needed.
//!
//! A conversion to an integer and a comparison cut nothing: their derivative is zero wherever it exists.
//! Therefore a call that maps numbers to integers cuts a derivative only if it takes their bits, and an
//! integer that accompanies numbers in a struct does not represent them.

use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::DeclKind;
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::flow::{Direction, Flow, Mark, Part};
use crate::program::Program;
use crate::signature::Signature;
use crate::tables::{Arg, Callable, Initializer, Meaning};
use crate::types::follow_up::text;
use crate::types::{Scalar, Ty, TyKind};

/// The expressions of a function where derivatives are cut.
#[derive(Default)]
pub(crate) struct Cuts {
    /// Values without a derivative that are computed from something with one.
    values: FxHashSet<ExprId>,
    /// Numbers that are read from such values, and the types of the values.
    numbers: FxHashMap<ExprId, Ty>,
    /// Calls that return such a value or number, and the type that cuts.
    calls: FxHashMap<ExprId, Ty>,
    /// Variables that are assigned to after their declaration.
    assigned: FxHashSet<DeclId>,
    /// The function's result is a value without a derivative that is computed from something with one.
    pub(crate) is_result: bool,
}

impl Flow<'_> {
    /// Returns true if an expression's value has no derivative but is computed from something that has one.
    pub(crate) fn is_cut(&self, expr: ExprId) -> bool {
        self.direction == Direction::Forward && self.cuts.values.contains(&expr)
    }

    /// Classifies an expression visited by the forward pass. `ty` is the type that its value is converted to.
    pub(crate) fn find_cut(&mut self, expr: ExprId, ty: Ty) {
        let Some(by) = self.cut_by(expr) else { return };
        if self.has_differential(ty) {
            self.cuts.numbers.insert(expr, by);
        } else if self.has_number(ty, |_| true) {
            self.cuts.values.insert(expr);
        }
    }

    /// The type that cuts the derivative of an expression's inputs.
    fn cut_by(&mut self, expr: ExprId) -> Option<Ty> {
        let ty = self.p.tables.exprs[expr].ty;
        let called = self.cuts.calls.get(&expr).copied();
        let parts = match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Call { .. } | Meaning::Init { .. } => return called,
            Meaning::Property { base, .. } => return called.or_else(|| self.cut_part(base?, ty)),
            Meaning::Aggregate(initializer) => return self.cut_initializer(&initializer, ty),
            Meaning::Same(inner)
            | Meaning::Try(inner)
            | Meaning::Each(inner)
            | Meaning::PackPart(_, inner)
            | Meaning::Expand { inner, .. }
            | Meaning::Cast(inner)
            | Meaning::Unary(_, inner) => vec![inner],
            Meaning::Construct(parts) | Meaning::MakeTuple(parts) => parts,
            Meaning::Binary(_, a, b) | Meaning::Ternary(_, a, b) => vec![a, b],
            Meaning::Assign { value, .. } | Meaning::AssignCall { value, .. } => vec![value],
            meaning
                if matches!(meaning, Meaning::Var(_) | Meaning::Field { .. }) || meaning.base().is_some() =>
            {
                return self.cut_place(expr, ty);
            }
            _ => return None,
        };
        parts.into_iter().find_map(|part| self.cut_part(part, ty))
    }

    fn cut_place(&mut self, expr: ExprId, ty: Ty) -> Option<Ty> {
        let Some(place) = self.place(expr) else {
            let base = self.base(expr)?;
            let whole = self.p.tables.exprs[base].ty;
            let is_of_it =
                self.has_number(ty, Scalar::has_fraction) || !self.has_number(whole, Scalar::is_float);
            return (is_of_it && self.is_cut(base)).then_some(whole);
        };
        let (decl, part) = place.key;
        let whole = self.variable_ty(decl);
        let is_cut = !place.plain
            && self.has(Mark::Cut, place.key)
            && (self.places.contains(&(Mark::Cut, decl, part))
                || self.has_number(ty, Scalar::has_fraction)
                || !self.has_number(whole, Scalar::has_fraction));
        if !is_cut {
            return None;
        }
        if !self.has_differential(whole) {
            return Some(whole);
        }
        // Find the part on the way that has no differential.
        let mut at = expr;
        while self.has_differential(self.p.tables.exprs[at].ty) {
            let Some(base) = self.base(at) else { return Some(ty) };
            at = base;
        }
        Some(self.p.tables.exprs[at].ty)
    }

    /// The type that cuts, if a part of a value is cut or carries a derivative that the whole does not.
    fn cut_part(&mut self, part: ExprId, whole: Ty) -> Option<Ty> {
        if self.is_cut(part) {
            return Some(self.p.tables.exprs[part].ty);
        }
        let is_lost = self.carried.contains(&part)
            && !self.may_carry(whole)
            && self.has_number(whole, Scalar::has_fraction);
        is_lost.then_some(whole)
    }

    fn cut_initializer(&mut self, initializer: &Initializer, whole: Ty) -> Option<Ty> {
        match initializer {
            Initializer::Expr(expr) => self.cut_part(*expr, whole),
            Initializer::Default(_) => None,
            Initializer::Parts(ty, parts) => {
                let ty = self.p.substitute(*ty, &self.subst);
                let fields = self.p.fields(ty);
                let is_plain = |k: usize| fields.len() == parts.len() && fields[k].2;
                (0..parts.len()).filter(|&k| !is_plain(k)).find_map(|k| self.cut_initializer(&parts[k], ty))
            }
            Initializer::Init(ty, _, args) => {
                args.iter().flat_map(Arg::exprs).find_map(|arg| self.cut_part(arg, *ty))
            }
        }
    }

    /// Follows a call whose inputs carry a derivative, or are cut by a type.
    pub(crate) fn cut_call(
        &mut self,
        expr: ExprId,
        func: &Callable,
        (base, args): (Option<ExprId>, &[Arg]),
        signature: &Signature,
        carried: bool,
    ) {
        if self.direction == Direction::Backward {
            return;
        }
        let says = matches!(func, Callable::Func(f) if self.p.says_no_diff_this(f.decl));
        let mut cut = base.filter(|&base| !says && self.is_cut(base));
        if cut.is_some() && self.warns_itself(func, signature) {
            cut = None;
        }
        for (arg, param) in args.iter().zip(&signature.params) {
            if !param.no_diff && param.dir != crate::Direction::Out {
                cut = cut.or_else(|| arg.exprs().into_iter().find(|&arg| self.is_cut(arg)));
            }
        }
        let by = cut.map(|cut| self.p.tables.exprs[cut].ty);
        if by.is_none() && !carried {
            return;
        }
        let cuts = |flow: &mut Self, ty: Ty| match by {
            Some(_) => by.filter(|_| flow.has_number(ty, |_| true)),
            None if flow.may_carry(ty) => None,
            None if flow.has_number(ty, Scalar::has_fraction) => Some(ty),
            None => {
                let is_bits = flow.has_number(ty, |_| true)
                    && matches!(func, Callable::Func(f) if flow.takes_bits(f.decl));
                is_bits.then_some(ty)
            }
        };
        if !matches!(func, Callable::Func(f) if self.p.is_no_diff(f.decl))
            && let Some(by) = cuts(self, signature.ret)
        {
            self.cuts.calls.insert(expr, by);
        }
        let written = args.iter().zip(&signature.params).filter(|(_, p)| p.dir.is_written() && !p.no_diff);
        let mut written: Vec<ExprId> = written.flat_map(|(arg, _)| arg.exprs()).collect();
        written.extend(base.filter(|_| signature.is_mutating()));
        for place in written {
            let ty = self.p.tables.exprs[place].ty;
            if !self.has_differential(ty) && cuts(self, ty).is_some() {
                self.mark_cut(place);
            }
        }
    }

    /// Returns true for a method that is differentiable while its object is not, and that already warns about
    /// the object's fields, which have no derivative in it. A second warning at the call would be redundant.
    fn warns_itself(&mut self, func: &Callable, signature: &Signature) -> bool {
        let Callable::Func(func) = func else { return false };
        let is_plain = signature.this.as_ref().is_some_and(|this| !this.has_tangent());
        if !is_plain || self.p.differentiable_level(func, self.view) < self.level {
            return false;
        }
        self.p.body(func.decl);
        self.p.check_flow(func.decl);
        let whole = self.p.ast.decls[func.decl].span;
        let is_inside =
            |span: Span| span.file == whole.file && whole.start <= span.start && span.end <= whole.end;
        self.p.diagnostics.iter().any(|d| d.code == "E31159" && is_inside(d.primary.span))
    }

    /// Records an assignment of a value.
    pub(crate) fn cut_store(&mut self, target: ExprId, value: ExprId, carried: bool) {
        if self.direction == Direction::Backward {
            return;
        }
        if let Some(place) = self.place(target) {
            self.cuts.assigned.insert(place.key.0);
        }
        if self.is_cut(value) || carried && self.place(target).is_none() && !self.is_set_elsewhere(target) {
            self.mark_cut(target);
        }
    }

    /// Marks the fields of a variable that its value sets to something cut.
    pub(crate) fn cut_parts(&mut self, var: DeclId, value: ExprId) {
        let (ty, meaning) = (self.p.tables.exprs[value].ty, self.p.tables.exprs[value].meaning.clone());
        let parts = match meaning {
            Meaning::Same(inner) => return self.cut_parts(var, inner),
            Meaning::Aggregate(Initializer::Parts(_, parts)) if self.cuts.numbers.contains_key(&value) => {
                parts
            }
            _ => return,
        };
        let ty = self.p.substitute(ty, &self.subst);
        let fields = self.p.fields(ty);
        for ((field, ty, plain), part) in
            fields.iter().copied().zip(&parts).filter(|_| fields.len() == parts.len())
        {
            if !plain && !self.has_differential(ty) && self.cut_initializer(part, ty).is_some() {
                self.places.insert((Mark::Cut, var, Some(Part::Field(field))));
            }
        }
    }

    /// Marks the variable, or the part of it, that contains a place.
    fn mark_cut(&mut self, target: ExprId) {
        let mut at = target;
        loop {
            if !self.has_differential(self.p.tables.exprs[at].ty)
                && let Some((decl, part)) = self.place(at).filter(|p| !p.plain).map(|p| p.key)
            {
                self.places.insert((Mark::Cut, decl, part));
                return;
            }
            let Some(base) = self.base(at) else { return };
            at = base;
        }
    }

    /// Reports a needed number whose derivative is cut.
    pub(crate) fn check_cut(&mut self, expr: ExprId) {
        let Some(&by) = self.cuts.numbers.get(&expr) else { return };
        let span = self.p.span(expr);
        if self.is_half(expr) || self.p.is_reported("E41022", span) {
            return;
        }
        let is_bits = !self.has_number(by, Scalar::has_fraction);
        let is_stored = self.has_number(by, Scalar::is_stored) && !self.has_number(by, Scalar::is_float);
        let name = self.p.shown(by);
        let (message, help) = if is_bits {
            (
                text!(
                    "the derivative is zero here: this number is made from the bits of another, as '{}'",
                    name
                ),
                "use functions of numbers, or write 'detach' or 'no_diff' if zero is meant",
            )
        } else {
            (
                text!("the derivative is zero here: this was kept in '{}', which has none", name),
                match is_stored {
                    true => {
                        "keep it in a 'half' or a 'float', or write 'detach' or 'no_diff' if zero is meant"
                    }
                    false => {
                        "make that type 'IDifferentiable', or write 'detach' or 'no_diff' if zero is meant"
                    }
                },
            )
        };
        self.report(Diagnostic::warning("E41033", span, message).help(help));
    }

    /// Returns true for `f16tof32` of the result of `f32tof16`, which is a conversion to half precision and
    /// back.
    fn is_half(&self, expr: ExprId) -> bool {
        let Some(arg) = self.argument_of(expr, "f16tof32") else { return false };
        let made = match self.p.tables.exprs[arg].meaning {
            Meaning::Var(decl) if !self.cuts.assigned.contains(&decl) => match self.p.ast.decls[decl].kind {
                DeclKind::Var { init: Some(init), .. } => init,
                _ => return false,
            },
            _ => arg,
        };
        self.argument_of(made, "f32tof16").is_some()
    }

    /// The first argument of a call of a library function with this intrinsic.
    fn argument_of(&self, expr: ExprId, intrinsic: &str) -> Option<ExprId> {
        match &self.p.tables.exprs[expr].meaning {
            Meaning::Same(inner) => self.argument_of(*inner, intrinsic),
            Meaning::Call { func: Callable::Func(func), args, .. } => {
                let is_it = self.p.is_core(func.decl)
                    && self.p.intrinsic(func.decl).is_some_and(|name| name == intrinsic);
                args.first().filter(|_| is_it)?.exprs().first().copied()
            }
            _ => None,
        }
    }

    /// Returns true for functions that return all or some of the bits of numbers.
    fn takes_bits(&mut self, decl: DeclId) -> bool {
        if !self.p.is_core(decl) {
            return self.p.gives_bits(decl);
        }
        let name = self.p.ast.decl_name(decl);
        ["as", "pack", "f32tof16", "bit_cast", "reinterpret"].iter().any(|word| name.starts_with(word))
    }

    /// Returns true if values of a type contain a scalar that satisfies the predicate, for the arguments of this instance.
    pub(crate) fn has_number(&mut self, ty: Ty, is_it: impl Fn(Scalar) -> bool) -> bool {
        let ty = self.p.substitute(ty, &self.subst);
        self.p.has_number(ty, is_it)
    }
}

impl Program {
    /// Returns true if values of a type contain a scalar that satisfies the predicate. A type that is not
    /// known may do so.
    pub(super) fn has_number(&mut self, ty: Ty, is_it: impl Fn(Scalar) -> bool) -> bool {
        let mut seen = FxHashSet::default();
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            if !seen.insert(ty) {
                continue;
            }
            match self.types[ty].clone() {
                TyKind::Scalar(scalar) if scalar != Scalar::Bool && is_it(scalar) => return true,
                TyKind::Vector(of, _, _)
                | TyKind::Matrix(of, ..)
                | TyKind::Array(of, _)
                | TyKind::Optional(of)
                | TyKind::DiffPair(of)
                | TyKind::SynthDiff(of) => open.push(of),
                TyKind::Tuple(parts) | TyKind::Pack(parts) => open.extend(parts),
                TyKind::Struct(..) => open.extend(self.fields(ty).into_iter().map(|f| f.1)),
                TyKind::Interface(..) | TyKind::Param(_) | TyKind::This(_) | TyKind::Assoc(..) => {
                    return true;
                }
                _ => {}
            }
        }
        false
    }
}
