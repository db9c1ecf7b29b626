//! Copies large arrays by loops over their elements.
//!
//! A variable could be loaded and stored as a whole, but drivers expand such an assignment element by element
//! and take minutes for arrays of a few hundred elements. Whole assignments are therefore emitted only for
//! small types and for values that are only held as an expression.

use ir::Value;
use naga::{Expression, Handle, TypeInner};

use super::{Emitter, Held, Res};
use crate::build::Expr;

/// A type with more numbers and vectors than this is copied by loops.
const SMALL: u64 = 16;

/// The number of elements copied in each iteration of such a loop, on a device that terminates loops after
/// some number of iterations.
const PER_TRIP: u32 = 4;

/// The value that is written to a place.
#[derive(Clone, Copy)]
enum Source {
    Zero,
    Place(Expr),
}

impl Emitter<'_, '_> {
    /// The number of scalars and vectors in a type.
    fn leaves(&self, ty: Handle<naga::Type>) -> u64 {
        match &self.cx.out.types[ty].inner {
            TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } => {
                self.leaves(*base).saturating_mul(n.get() as u64)
            }
            TypeInner::Struct { members, .. } => members.iter().map(|m| self.leaves(m.ty)).sum(),
            _ => 1,
        }
    }

    /// Returns true if values of the type are copied by loops.
    pub(super) fn is_large(&self, ty: Handle<naga::Type>) -> bool {
        self.leaves(ty) > SMALL
    }

    /// Returns true if the value is copied by loops.
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

    /// Copies from one place to another, both of the same type.
    pub(super) fn copy_place(&mut self, to: Expr, from: Expr, ty: Handle<naga::Type>) -> Res {
        self.copy(to, Source::Place(from), ty)
    }

    fn copy(&mut self, to: Expr, from: Source, ty: Handle<naga::Type>) -> Res {
        if self.is_large(ty) {
            match self.cx.out.types[ty].inner.clone() {
                TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } => {
                    let per_trip =
                        if self.cx.options.checks_loops && !self.is_large(base) { PER_TRIP } else { 1 };
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
