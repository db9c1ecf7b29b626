//! Copies of large arrays: loops over their elements.
//!
//! A variable could be loaded and stored as a whole. But drivers write such an assignment out, element by element, and take
//! minutes for arrays of some hundred elements; so it is whole for small types only, and for values that nothing but an
//! expression holds.

use ir::Value;
use naga::{Expression, Handle, TypeInner};

use super::{Emitter, Held, Res};
use crate::build::Expr;

/// A type of more numbers and vectors is copied by loops.
const SMALL: u64 = 16;

/// Elements that a trip of such a loop copies, on a device that ends loops after some number of trips.
const PER_TRIP: u32 = 4;

/// What is written to a place.
#[derive(Clone, Copy)]
enum Source {
    Zero,
    Place(Expr),
}

impl Emitter<'_, '_> {
    /// Numbers and vectors of a type.
    fn leaves(&self, ty: Handle<naga::Type>) -> u64 {
        match &self.cx.out.types[ty].inner {
            TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } => {
                self.leaves(*base).saturating_mul(n.get() as u64)
            }
            TypeInner::Struct { members, .. } => members.iter().map(|m| self.leaves(m.ty)).sum(),
            _ => 1,
        }
    }

    /// Whether values of a type are copied by loops.
    pub(super) fn is_large(&self, ty: Handle<naga::Type>) -> bool {
        self.leaves(ty) > SMALL
    }

    /// Whether a value is copied by loops.
    pub(super) fn is_large_value(&mut self, v: Value) -> Res<bool> {
        if !self.is_array(self.ty(v)) {
            return Ok(false);
        }
        let ty = self.naga_type(v, self.f.span)?;
        Ok(self.is_large(ty))
    }

    /// Writes a value to a place of its type.
    pub(super) fn store_value(&mut self, to: Expr, v: Value) -> Res {
        if let (Held::Place(from), true) = (&self.values[v], self.is_array(self.ty(v))) {
            let from = *from;
            let ty = self.naga_type(v, self.f.span)?;
            return self.copy(to, Source::Place(from), ty);
        }
        let value = self.get(v);
        self.store_expr(to, value)
    }

    /// Writes an expression to a place.
    pub(super) fn store_expr(&mut self, to: Expr, value: Expr) -> Res {
        match self.code.expression(value) {
            &Expression::ZeroValue(ty) => self.copy(to, Source::Zero, ty),
            _ => {
                self.code.store(to, value);
                Ok(())
            }
        }
    }

    /// Writes zeros to a place of a type.
    pub(super) fn store_zero(&mut self, to: Expr, ty: Handle<naga::Type>) -> Res {
        self.copy(to, Source::Zero, ty)
    }

    /// Copies from a place to another, both of a type.
    pub(super) fn copy_place(&mut self, to: Expr, from: Expr, ty: Handle<naga::Type>) -> Res {
        self.copy(to, Source::Place(from), ty)
    }

    fn copy(&mut self, to: Expr, from: Source, ty: Handle<naga::Type>) -> Res {
        if self.is_large(ty) {
            match self.cx.out.types[ty].inner.clone() {
                TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } => {
                    let per_trip = if self.cx.checks_loops && !self.is_large(base) { PER_TRIP } else { 1 };
                    return self.each_of(n.get(), per_trip, |e, i| {
                        let part = e.code.element(to, i);
                        let from = match from {
                            Source::Zero => Source::Zero,
                            Source::Place(from) => Source::Place(e.code.element(from, i)),
                        };
                        e.copy(part, from, base)
                    });
                }
                TypeInner::Struct { members, .. } => {
                    for (k, member) in members.iter().enumerate() {
                        let part = self.code.part(to, k as u32);
                        let from = match from {
                            Source::Zero => Source::Zero,
                            Source::Place(from) => Source::Place(self.code.part(from, k as u32)),
                        };
                        self.copy(part, from, member.ty)?;
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        let value = match from {
            Source::Zero => self.code.zero(ty),
            Source::Place(from) => self.code.load(from),
        };
        self.code.store(to, value);
        Ok(())
    }
}
