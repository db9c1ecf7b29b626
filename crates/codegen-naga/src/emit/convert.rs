//! Emits conversions between kinds of number.

use ir::{InstData, Op, Scalar};
use naga::{BinaryOperator as Bin, MathFunction as Fun, ScalarKind};

use super::{Emitter, Res};
use crate::build::Expr;
use crate::types::scalar;
use crate::words::word_of_half;

impl<'m> Emitter<'_, 'm> {
    pub(super) fn conversion(&mut self, data: &'m InstData) -> Res {
        let (arg, result) = (data.args[0], data.results[0]);
        let (from, to) = (self.scalar(arg), self.scalar(result));
        self.cx.check_scalar(to, data.span)?;
        if self.is_narrow(arg) {
            // Only the low half is held, and only the low half is needed.
            let low = self.low(arg);
            let e = self.integer_of(Scalar::U32, to, 1, low);
            return self.set(result, e);
        }
        self.cx.check_scalar(from, data.span)?;
        let n = self.lanes(self.ty(arg));
        let e = self.get(arg);
        let convert = |e: &mut Self, n: u32, x: Expr| match data.op {
            Op::Bitcast => e.bitcast(from, to, n, x, data),
            _ => e.convert(from, to, n, x, data),
        };
        let e = if n <= 4 {
            convert(self, n, e)?
        } else {
            let ty = self.cx.value_type(self.f.ty(result), &[], data.span)?;
            self.by_lane(ty, n, &[e], |e, lane| convert(e, 1, lane[0]))?
        };
        self.set(result, e)
    }

    fn convert(&mut self, from: Scalar, to: Scalar, n: u32, e: Expr, data: &InstData) -> Res<Expr> {
        if from == to {
            return Ok(e);
        }
        let width = Some(scalar(to).width);
        Ok(match (from, to) {
            (_, Scalar::Bool) if from.is_float() => {
                let zero = self.splat_float(from, n, 0.0);
                self.differ(e, zero)
            }
            (_, Scalar::Bool) => {
                let zero = self.splat_integer(from, n, 0);
                self.code.binary(Bin::NotEqual, e, zero)
            }
            (Scalar::Bool, _) => {
                let (one, zero) = if to.is_float() {
                    (self.splat_float(to, n, 1.0), self.splat_float(to, n, 0.0))
                } else {
                    (self.splat_integer(to, n, 1), self.splat_integer(to, n, 0))
                };
                self.code.select(e, one, zero)
            }
            _ if from.is_float() && to.is_float() => self.code.convert(e, ScalarKind::Float, width),
            _ if from.is_int() && to.is_int() => self.integer_of(from, to, n, e),
            _ if from.is_int() => {
                // A conversion to `half` goes through `float`.
                let first = if to == Scalar::F16 { Some(4) } else { width };
                let wide = self.code.convert(e, ScalarKind::Float, first);
                if to == Scalar::F16 { self.code.convert(wide, ScalarKind::Float, width) } else { wide }
            }
            _ => {
                let function = self.cx.integer_from(from, to);
                let ty = self.lanes_type(to, n, data.span)?;
                self.by_lane(ty, n, &[e], |e, lane| Ok(e.code.value_of(function, lane)))?
            }
        })
    }

    /// Converts an integer to another kind of integer.
    fn integer_of(&mut self, from: Scalar, to: Scalar, n: u32, e: Expr) -> Expr {
        let (held, wanted) = (scalar(from), scalar(to));
        let mut e = e;
        if held.width != wanted.width {
            // First the width is converted, with the signedness of the source.
            e = self.code.convert(e, held.kind, Some(wanted.width));
        }
        if held.kind != wanted.kind {
            e = self.code.convert(e, wanted.kind, None);
        }
        let fits = from.bits() < to.bits() && (!from.is_signed_int() || to.is_signed_int());
        if fits { e } else { self.fit(to, n, e) }
    }

    fn bitcast(&mut self, from: Scalar, to: Scalar, n: u32, e: Expr, data: &InstData) -> Res<Expr> {
        if from == to {
            return Ok(e);
        }
        if from.is_int() && to.is_int() {
            return Ok(self.integer_of(from, to, n, e));
        }
        if from != Scalar::F16 && to != Scalar::F16 {
            return Ok(self.code.convert(e, scalar(to).kind, None));
        }
        let ty = self.lanes_type(to, n, data.span)?;
        self.by_lane(ty, n, &[e], |e, lane| {
            if from == Scalar::F16 {
                let bits = word_of_half(&mut e.code, lane[0]);
                return Ok(e.integer_of(Scalar::U32, to, 1, bits));
            }
            let bits = e.integer_of(from, Scalar::U32, 1, lane[0]);
            let both = e.code.math(Fun::Unpack2x16float, &[bits]);
            let low = e.code.part(both, 0);
            Ok(e.code.convert(low, ScalarKind::Float, Some(2)))
        })
    }
}
