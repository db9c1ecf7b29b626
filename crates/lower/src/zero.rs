//! `dzero` and `dadd` of any differentiable type: the user-defined function if there is one, otherwise part
//! by part.
//!
//! Generated derivatives add leaf by leaf, starting from zero. The user-defined functions are called where
//! the language defines that a differential is created: `diffPair(x)`, the derivative of a
//! `[TreatAsDifferentiable]` function, and the pair that is passed to a custom backward derivative.

use check::DiffFieldTarget;
use check::tables::Callable;
use check::types::{Ty, TyKind};
use ir::{Op, Value};
use syntax::Span;

use crate::body::Body;
use crate::layout::MAX_DEPTH;
use crate::lowerer::Lowerer;

impl Lowerer<'_> {
    /// The user-defined `dzero` or `dadd` of a type.
    fn user_member(&mut self, ty: Ty, name: &str) -> Option<Callable> {
        let func = self.program.differential_member(ty, name)?;
        self.canonical(Callable::Func(func)).ok()
    }

    /// Returns true if a type (or a part of it) has a user-defined `dzero`.
    pub(crate) fn has_user_zero(&mut self, ty: Ty) -> bool {
        self.has_user_member(ty, "dzero", 0)
    }

    fn has_user_member(&mut self, ty: Ty, name: &str, depth: u32) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        match self.program.types[ty].clone() {
            TyKind::Array(element, _) | TyKind::DiffPair(element) => {
                self.has_user_member(element, name, depth + 1)
            }
            TyKind::Tuple(parts) => parts.into_iter().any(|p| self.has_user_member(p, name, depth + 1)),
            TyKind::Struct(..) => {
                self.user_member(ty, name).is_some()
                    || self.diff_field_types(ty).into_iter().any(|f| self.has_user_member(f, name, depth + 1))
            }
            TyKind::Interface(..) | TyKind::Assoc(..) => {
                let types = self.types_in(ty);
                name == "dadd" && types.into_iter().any(|t| self.has_user_member(t, name, depth + 1))
            }
            _ => false,
        }
    }

    fn diff_field_types(&mut self, ty: Ty) -> Vec<Ty> {
        let fields = self.program.fields(ty);
        let diff = self.program.diff_fields(ty);
        fields.into_iter().filter(|f| diff.iter().any(|d| d.0 == f.0)).map(|f| f.1).collect()
    }
}

impl Body<'_, '_, '_> {
    /// The zero of `ty.Differential`, as its leaves.
    pub(crate) fn dzero(&mut self, ty: Ty, span: Span) -> Vec<Value> {
        self.differential_by(ty, "dzero", &[], span, 0)
    }

    /// The sum of two differentials of a type.
    pub(crate) fn dadd(&mut self, ty: Ty, a: &[Value], b: &[Value], span: Span) -> Vec<Value> {
        self.differential_by(ty, "dadd", &[a, b], span, 0)
    }

    /// A differential computed from others by the user-defined function of that name, or part by part.
    fn differential_by(
        &mut self,
        ty: Ty,
        name: &str,
        operands: &[&[Value]],
        span: Span,
        depth: u32,
    ) -> Vec<Value> {
        let Some(differential) = self.lw.program.differential(ty) else { return Vec::new() };
        let plain = match operands {
            [a, b] => {
                let layout = self.layout(differential);
                let leaves = a.iter().zip(*b).zip(&layout.leaves);
                leaves.map(|((&a, &b), leaf)| self.add_leaf(a, b, leaf.is_tag)).collect()
            }
            _ => self.zeros(differential),
        };
        if !self.lw.has_user_member(ty, name, depth) {
            return plain;
        }
        if let Some(callable) = self.lw.user_member(ty, name) {
            let inputs = operands.iter().map(|o| (o.to_vec(), differential)).collect();
            let ret = self.lw.function(self.b.types, &callable).sig.ret;
            let values = self.call_values(&callable, inputs, span);
            return self.convert(values, ret, differential, span);
        }
        let mut values = plain;
        if let ([a, b], true) = (operands, self.lw.program.is_existential(ty)) {
            return self.dadd_existential(ty, differential, (a, b), span, depth);
        }
        match self.lw.program.types[ty].clone() {
            TyKind::Array(element, _) if operands.is_empty() => {
                let one = self.differential_by(element, name, &[], span, depth + 1);
                let layout = self.layout(differential);
                for (k, leaf) in layout.leaves.iter().enumerate().take(one.len()) {
                    values[k] = self.b.emit_typed(Op::Splat, &[one[k]], leaf.ty);
                }
            }
            TyKind::Struct(..) => {
                let layout = self.layout(differential);
                let fields = self.lw.program.fields(ty);
                for (field, target) in self.lw.program.diff_fields(ty) {
                    let (DiffFieldTarget::Same(to)
                    | DiffFieldTarget::Synth(to)
                    | DiffFieldTarget::Member(to)) = target;
                    let part = layout.parts.iter().find(|p| p.decl == Some(to));
                    let from = fields.iter().find(|f| f.0 == field);
                    if let (Some(part), Some(from)) = (part, from) {
                        let range = part.offset..part.offset + part.len;
                        let own: Vec<&[Value]> = operands.iter().map(|o| &o[range.clone()]).collect();
                        let inner = self.differential_by(from.1, name, &own, span, depth + 1);
                        if inner.len() == range.len() {
                            values[range].copy_from_slice(&inner);
                        }
                    }
                }
            }
            _ => {}
        }
        values
    }

    /// The sum of two differentials of an existential type. The sum with a null differential is the other
    /// one.
    fn dadd_existential(
        &mut self,
        ty: Ty,
        differential: Ty,
        (a, b): (&[Value], &[Value]),
        span: Span,
        depth: u32,
    ) -> Vec<Value> {
        let (primal, shared) =
            (self.lw.existential(self.b.types, ty), self.lw.existential(self.b.types, differential));
        let (Some(&left), Some(&right)) = (a.first(), b.first()) else { return self.zeros(differential) };
        let none = self.b.u32(0);
        let is_null = self.b.emit(Op::Eq, &[left, none]);
        let tag = self.b.emit(Op::Select, &[is_null, right, left]);
        let results = self.leaf_types(differential);
        let sum = self.switch_on_type(&shared, tag, &results, &mut |body, idx| {
            let Some(own) = primal.position(shared.types[idx].tag) else { return a.to_vec() };
            let (x, y) = (body.open(&shared, idx, a), body.open(&shared, idx, b));
            let sum = body.differential_by(primal.types[own].ty, "dadd", &[&x, &y], span, depth + 1);
            body.close(&shared, differential, idx, &sum)
        });
        let chosen = |body: &mut Self, cond: Value, one: &[Value], other: &[Value]| {
            one.iter()
                .zip(other)
                .map(|(&x, &y)| body.b.emit(Op::Select, &[cond, x, y]))
                .collect::<Vec<Value>>()
        };
        let right_null = self.b.emit(Op::Eq, &[right, none]);
        let sum = chosen(self, right_null, a, &sum);
        chosen(self, is_null, b, &sum)
    }
}
