//! Emits mathematical functions: one instruction where the machine has an exact one, else a call of the
//! function that the interpreter uses, or of `ir::library`'s if the options ask for it.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types::*};
use ir::{Math, Op, Scalar, Span, library, scalar};
use native::runtime::{libm_name, own_name};

use super::{Emitter, Res, Vals};
use crate::types::clif;

impl Emitter<'_, '_> {
    /// Emits a math function of numbers of one kind.
    pub(super) fn math(&mut self, m: Math, s: Scalar, args: &[Value], span: Span) -> Res<Value> {
        if !scalar::has_math(m, s) {
            return self.unsupported(&Op::Math(m), s.name(), span);
        }
        match s {
            Scalar::F16 => {
                if m == Math::Abs {
                    let mask = self.b.ins().iconst(I16, 0x7fff);
                    return Ok(self.b.ins().band(args[0], mask));
                }
                let wide: Vals = args.iter().map(|&a| self.widen(a)).collect();
                let r = self.float_math(m, false, &wide);
                Ok(if self.b.func.dfg.value_type(r) == F32 { self.narrow(r) } else { r })
            }
            Scalar::F32 | Scalar::F64 => Ok(self.float_math(m, s == Scalar::F64, args)),
            _ => self.int_math(m, s, args, span),
        }
    }

    fn float_math(&mut self, m: Math, double: bool, args: &[Value]) -> Value {
        let ty = if double { F64 } else { F32 };
        let a = args[0];
        match m {
            Math::Sqrt => self.b.ins().sqrt(a),
            Math::Abs => self.b.ins().fabs(a),
            Math::Floor if self.cx.has_round => self.b.ins().floor(a),
            Math::Ceil if self.cx.has_round => self.b.ins().ceil(a),
            Math::Trunc if self.cx.has_round => self.b.ins().trunc(a),
            Math::Round if self.cx.has_round => self.b.ins().nearest(a),
            Math::Fma if self.cx.has_fma => self.b.ins().fma(a, args[1], args[2]),
            Math::Min | Math::Max => {
                let cc = if m == Math::Min { FloatCC::LessThan } else { FloatCC::GreaterThan };
                let better = self.b.ins().fcmp(cc, args[1], a);
                let nan = self.b.ins().fcmp(FloatCC::Unordered, a, a);
                let second = self.b.ins().bor(better, nan);
                self.b.ins().select(second, args[1], a)
            }
            Math::IsNan => self.b.ins().fcmp(FloatCC::Unordered, a, a),
            Math::IsInf => {
                let s = if double { Scalar::F64 } else { Scalar::F32 };
                let infinity = self.constant(s, scalar::from_f64(s, f64::INFINITY));
                let a = self.b.ins().fabs(a);
                self.b.ins().fcmp(FloatCC::Equal, a, infinity)
            }
            _ => {
                let params = [ty; 3];
                let own = self.cx.own_math && library::has(m);
                let name = if own { own_name(m, double) } else { libm_name(m, double) };
                self.call_symbol(&name, &params[..args.len()], Some(ty), args)
                    .expect("a math function has a result")
            }
        }
    }

    fn int_math(&mut self, m: Math, s: Scalar, args: &[Value], span: Span) -> Res<Value> {
        let (ty, signed, a) = (clif(s), s.is_signed_int(), args[0]);
        let bits = s.bits() as i64;
        Ok(match m {
            Math::Min | Math::Max => {
                let cc = match (m == Math::Min, signed) {
                    (true, true) => IntCC::SignedLessThan,
                    (true, false) => IntCC::UnsignedLessThan,
                    (false, true) => IntCC::SignedGreaterThan,
                    (false, false) => IntCC::UnsignedGreaterThan,
                };
                let second = self.b.ins().icmp(cc, args[1], a);
                self.b.ins().select(second, args[1], a)
            }
            Math::Abs if signed => {
                let zero = self.b.ins().iconst(ty, 0);
                let below = self.b.ins().icmp(IntCC::SignedLessThan, a, zero);
                let negated = self.b.ins().ineg(a);
                self.b.ins().select(below, negated, a)
            }
            Math::Abs => a,
            Math::CountBits => self.b.ins().popcnt(a),
            Math::ReverseBits => self.b.ins().bitrev(a),
            Math::FirstBitLow | Math::FirstBitHigh => {
                // Computed in 32 or 64 bits, where counting zeros is one instruction.
                let wide = if bits < 64 { I32 } else { I64 };
                let x = if m == Math::FirstBitHigh && signed {
                    let sign = self.b.ins().iconst(ty, bits - 1);
                    let sign = self.b.ins().sshr(a, sign);
                    self.b.ins().bxor(a, sign)
                } else {
                    a
                };
                let x = self.extend(wide, false, x);
                let zero = self.b.ins().iconst(wide, 0);
                let none = self.b.ins().icmp(IntCC::Equal, x, zero);
                let at = if m == Math::FirstBitLow {
                    self.b.ins().ctz(x)
                } else {
                    let last = self.b.ins().iconst(wide, wide.bits() as i64 - 1);
                    let zeros = self.b.ins().clz(x);
                    self.b.ins().isub(last, zeros)
                };
                let all = self.b.ins().iconst(wide, if wide == I32 { 0xffff_ffff } else { -1 });
                let at = self.b.ins().select(none, all, at);
                if ty == wide { at } else { self.b.ins().ireduce(ty, at) }
            }
            _ => return self.unsupported(&Op::Math(m), s.name(), span),
        })
    }
}
