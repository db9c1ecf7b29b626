//! Emits conversions.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use native::emit::{Cast, VARYING};
use native::lanes::Writer as _;
use native::lanes::operand::{El, Val};

use super::parts::{Parts, scalar};
use super::{Writer, ins};

impl Writer {
    pub(super) fn emit_cast(&mut self, op: Cast, a: Val, to: El) -> Val {
        let out = match a.var && self.lanes() > 1 {
            true => self.cast_vectors(op, a, to),
            false => None,
        };
        if let Some(parts) = out {
            return self.register(to, VARYING, parts);
        }
        let from = a.el;
        self.by_lane(to, &[a], |w, x| w.cast_scalar(op, from, x[0], to))
    }

    /// Converts vectors without taking them apart, if there are instructions for it.
    fn cast_vectors(&mut self, op: Cast, a: Val, to: El) -> Option<Parts> {
        let parts = self.parts(a, VARYING);
        // The first and last two numbers of each vector of four.
        let halves = |w: &mut Writer, one: &dyn Fn(&mut Writer, Value) -> [Value; 2]| -> Parts {
            parts.iter().flat_map(|&x| one(w, x)).collect()
        };
        Some(match (op, a.el, to) {
            (Cast::Bits, El::F32, El::I32) => self.each_as(&parts, types::I32X4),
            (Cast::Bits, El::I32, El::F32) => self.each_as(&parts, types::F32X4),
            (Cast::Bits, El::F64, El::I64) => self.each_as(&parts, types::I64X2),
            (Cast::Bits, El::I64, El::F64) => self.each_as(&parts, types::F64X2),
            (Cast::Promote, El::F32, El::F64) => halves(self, &|w, x| {
                let high = w.high_half(x);
                [ins!(w).fvpromote_low(x), ins!(w).fvpromote_low(high)]
            }),
            (Cast::Demote, El::F64, El::F32) => {
                let mut all = Parts::new();
                for pair in parts.chunks(2) {
                    let (low, high) = (ins!(self).fvdemote(pair[0]), ins!(self).fvdemote(pair[1]));
                    all.push(self.low_halves(low, high));
                }
                all
            }
            (Cast::OfSigned, El::I32, El::F32) => {
                parts.iter().map(|&x| ins!(self).fcvt_from_sint(types::F32X4, x)).collect()
            }
            (Cast::OfUnsigned, El::I32, El::F32) => {
                parts.iter().map(|&x| ins!(self).fcvt_from_uint(types::F32X4, x)).collect()
            }
            (Cast::OfSigned, El::I32, El::F64) => halves(self, &|w, x| {
                let high = w.high_half(x);
                [x, high].map(|x| {
                    let wide = ins!(w).swiden_low(x);
                    ins!(w).fcvt_from_sint(types::F64X2, wide)
                })
            }),
            (Cast::OfUnsigned, El::I32, El::F64) => halves(self, &|w, x| {
                let (low, high) = (ins!(w).uwiden_low(x), ins!(w).uwiden_high(x));
                [low, high].map(|x| ins!(w).fcvt_from_sint(types::F64X2, x))
            }),
            (Cast::OfSigned, El::I64, El::F64) => {
                parts.iter().map(|&x| ins!(self).fcvt_from_sint(types::F64X2, x)).collect()
            }
            (Cast::ZeroExtend, El::I32, El::I64) => {
                halves(self, &|w, x| [ins!(w).uwiden_low(x), ins!(w).uwiden_high(x)])
            }
            (Cast::SignExtend, El::I32, El::I64) => {
                halves(self, &|w, x| [ins!(w).swiden_low(x), ins!(w).swiden_high(x)])
            }
            (Cast::ZeroExtend, El::I1, El::I32) => {
                let one = Val { var: true, ..Val::i32(1) };
                let one = self.parts(one, VARYING);
                parts.iter().zip(one).map(|(&x, one)| ins!(self).band(x, one)).collect()
            }
            (Cast::Truncate, El::I64, El::I32) => {
                parts.chunks(2).map(|pair| self.low_words(pair[0], pair[1])).collect()
            }
            (Cast::Address, ..) => parts,
            _ => return None,
        })
    }

    fn each_as(&mut self, parts: &[Value], ty: cranelift_codegen::ir::Type) -> Parts {
        parts.iter().map(|&x| self.bits_as(ty, x)).collect()
    }

    /// The upper two of four numbers, as the lower two.
    pub(super) fn high_half(&mut self, x: Value) -> Value {
        let ty = self.func.dfg.value_type(x);
        let bytes = self.bits_as(types::I8X16, x);
        let mask = self.bytes(&[8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15]);
        let high = ins!(self).shuffle(bytes, bytes, mask);
        self.bits_as(ty, high)
    }

    /// The lower two floats of two vectors.
    fn low_halves(&mut self, a: Value, b: Value) -> Value {
        let [a, b] = [a, b].map(|x| self.bits_as(types::I8X16, x));
        let mask = self.bytes(&[0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]);
        let both = ins!(self).shuffle(a, b, mask);
        self.bits_as(types::F32X4, both)
    }

    fn cast_scalar(&mut self, op: Cast, from: El, a: Value, to: El) -> Value {
        let ty = scalar(to);
        match op {
            Cast::Promote => ins!(self).fpromote(ty, a),
            Cast::Demote => ins!(self).fdemote(ty, a),
            Cast::OfSigned => ins!(self).fcvt_from_sint(ty, a),
            Cast::OfUnsigned => ins!(self).fcvt_from_uint(ty, a),
            Cast::Bits => self.bits_as(ty, a),
            // A truth value in memory is 0 or 1.
            Cast::Truncate if to == El::I1 => {
                let x = match scalar(from) {
                    types::I8 => a,
                    _ => ins!(self).ireduce(types::I8, a),
                };
                let one = ins!(self).iconst(types::I8, 1);
                ins!(self).band(x, one)
            }
            Cast::Truncate if scalar(from) != ty => ins!(self).ireduce(ty, a),
            Cast::ZeroExtend if scalar(from) != ty => ins!(self).uextend(ty, a),
            Cast::SignExtend if scalar(from) != ty => ins!(self).sextend(ty, a),
            Cast::Truncate | Cast::ZeroExtend | Cast::SignExtend | Cast::Address => a,
        }
    }

    pub(super) fn emit_float_to_int(&mut self, a: Val, to: El, signed: bool) -> Val {
        if a.var && self.lanes() > 1 && a.el == El::F32 && to == El::I32 {
            return self.by_part(to, &[a], |w, x| match signed {
                true => ins!(w).fcvt_to_sint_sat(types::I32X4, x[0]),
                false => ins!(w).fcvt_to_uint_sat(types::I32X4, x[0]),
            });
        }
        self.by_lane(to, &[a], |w, x| w.float_to_scalar(x[0], to, signed))
    }

    fn float_to_scalar(&mut self, a: Value, to: El, signed: bool) -> Value {
        let wide = if to.bits() < 32 { types::I32 } else { scalar(to) };
        let x = match signed {
            true => ins!(self).fcvt_to_sint_sat(wide, a),
            false => ins!(self).fcvt_to_uint_sat(wide, a),
        };
        if to.bits() >= 32 {
            return x;
        }
        let x = if signed {
            let (min, max) = (-1i64 << (to.bits() - 1), (1i64 << (to.bits() - 1)) - 1);
            let min = ins!(self).iconst(types::I32, min & 0xffff_ffff);
            let max = ins!(self).iconst(types::I32, max);
            let x = ins!(self).smax(x, min);
            ins!(self).smin(x, max)
        } else {
            let max = ins!(self).iconst(types::I32, (1i64 << to.bits()) - 1);
            ins!(self).umin(x, max)
        };
        ins!(self).ireduce(scalar(to), x)
    }
}
