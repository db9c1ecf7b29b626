//! Emits arithmetic, comparisons and conversions, lane by lane.
//!
//! `ir::scalar` defines the meaning of each op. Instructions of the hardware that are only partially defined
//! are guarded here.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types::*};
use ir::{InstData, Op, Scalar, Span, Type, TypeData};

use super::{Emitter, Res, Vals};
use crate::types::clif;
use native::runtime::Helper;
use native::types::{HANDLE_WORDS, Shape, flat, size};

impl Emitter<'_, '_> {
    /// Emits constants and elementwise ops.
    pub(super) fn arithmetic(&mut self, data: &InstData) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        let vals = match &data.op {
            Op::Const(bits) => {
                let s = self.scalar_of(result);
                Vals::from_slice(&[self.constant(s, *bits)])
            }
            Op::Zero => self.zero(ty),
            Op::Select => self.select(data),
            Op::Sum => {
                let s = self.scalar_of(result);
                let lanes = self.get(data.args[0]);
                let mut sum = lanes[0];
                for &lane in &lanes[1..] {
                    sum = self.binary(&Op::Add, s, sum, lane, data.span)?;
                }
                Vals::from_slice(&[sum])
            }
            _ if !self.ts.is_numeric(ty) => self.whole(data, ty)?,
            _ => {
                let from = self.scalar_of(data.args[0]);
                let to = self.scalar_of(result);
                let args: Vec<Vals> = data.args.iter().map(|&a| self.get(a)).collect();
                let mut out = Vals::new();
                for k in 0..args[0].len() {
                    let operands: Vals = args.iter().map(|a| a[k]).collect();
                    out.push(self.lane(&data.op, from, to, &operands, data.span)?);
                }
                out
            }
        };
        self.set(result, &vals);
        Ok(())
    }

    /// The zero of a type.
    pub(super) fn zero(&mut self, ty: Type) -> Vals {
        match self.ts[ty] {
            TypeData::Scalar(s) => Vals::from_slice(&[self.constant(s, 0)]),
            TypeData::Vector(s, n) => Vals::from_elem(self.constant(s, 0), n as usize),
            TypeData::Array(..) | TypeData::Cell(_) => Vals::from_slice(&[self.i64(self.cx.zero)]),
            TypeData::Stack(_) => Vals::from_slice(&[self.i64(self.cx.empty)]),
            TypeData::Buffer(_) => Vals::from_elem(self.i64(0), HANDLE_WORDS),
            TypeData::Residuals(_) => Vals::new(),
        }
    }

    fn select(&mut self, data: &InstData) -> Vals {
        let (c, a, b) = (self.get(data.args[0]), self.get(data.args[1]), self.get(data.args[2]));
        a.iter()
            .zip(&b)
            .enumerate()
            .map(|(k, (&a, &b))| {
                let c = if c.len() > 1 { c[k] } else { c[0] };
                self.b.ins().select(c, a, b)
            })
            .collect()
    }

    /// Emits an elementwise op on arrays or stacks.
    fn whole(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        if let (TypeData::Stack(elem), Op::Add) = (self.ts[ty], &data.op) {
            let shape = self.cx.shape(Shape::of(self.ts, elem));
            let (shape, empty) = (self.i64(shape), self.i64(self.cx.empty));
            let (a, b) = (self.one(data.args[0]), self.one(data.args[1]));
            let sum = self.helper_value(Helper::StackClone, &[self.ctx, a, shape, empty]);
            let loc = self.memory(8);
            self.b.ins().store(super::plain(), sum, loc, 0);
            self.helper(Helper::StackAdd, &[self.ctx, loc, b, shape, empty]);
            return Ok(self.load(ty, loc, 0));
        }
        let from = data.args.first().and_then(|&a| flat(self.ts, self.ty(a)));
        let (Some((s, n)), Some((to_s, _))) = (from, flat(self.ts, ty)) else {
            return self.unsupported(&data.op, "operands of this type", data.span);
        };
        let to = self.memory(size(self.ts, ty));
        let args: Vals = data.args.iter().map(|&a| self.one(a)).collect();
        let (step, to_step) = (s.bytes() as u64, to_s.bytes() as u64);
        let op = data.op.clone();
        self.each(n, step, &mut |e, at| {
            let operands: Vals = args
                .iter()
                .map(|&a| {
                    let a = e.b.ins().iadd(a, at);
                    e.b.ins().load(clif(s), super::plain(), a, 0)
                })
                .collect();
            let x = e.lane(&op, s, to_s, &operands, data.span)?;
            let to_at = if to_step == step {
                at
            } else {
                let shift = i64::from(step.trailing_zeros());
                let shift = e.i64(shift);
                let k = e.b.ins().ushr(at, shift);
                e.mul_imm(k, to_step)
            };
            let place = e.b.ins().iadd(to, to_at);
            e.b.ins().store(super::plain(), x, place, 0);
            Ok(())
        })?;
        Ok(Vals::from_slice(&[to]))
    }

    /// Emits one lane of an elementwise op.
    pub(super) fn lane(
        &mut self,
        op: &Op,
        from: Scalar,
        to: Scalar,
        args: &[Value],
        span: Span,
    ) -> Res<Value> {
        match op {
            Op::Neg => Ok(match from {
                Scalar::F32 | Scalar::F64 => self.b.ins().fneg(args[0]),
                Scalar::F16 => {
                    let sign = self.b.ins().iconst(I16, 0x8000);
                    self.b.ins().bxor(args[0], sign)
                }
                _ => self.b.ins().ineg(args[0]),
            }),
            Op::Not => Ok(match from {
                Scalar::Bool => {
                    let one = self.b.ins().iconst(I8, 1);
                    self.b.ins().bxor(args[0], one)
                }
                _ => self.b.ins().bnot(args[0]),
            }),
            Op::Convert => Ok(self.convert(from, to, args[0])),
            Op::Bitcast => Ok(if clif(from) == clif(to) {
                args[0]
            } else {
                self.b.ins().bitcast(clif(to), MemFlagsData::new(), args[0])
            }),
            Op::Math(m) => self.math(*m, from, args, span),
            _ => self.binary(op, from, args[0], args[1], span),
        }
    }

    /// Emits an op on two numbers of the same kind.
    pub(super) fn binary(&mut self, op: &Op, s: Scalar, a: Value, b: Value, span: Span) -> Res<Value> {
        match s {
            Scalar::F16 => {
                let (a, b) = (self.widen(a), self.widen(b));
                let r = self.float_binary(op, Scalar::F32, a, b, span)?;
                Ok(if self.b.func.dfg.value_type(r) == F32 { self.narrow(r) } else { r })
            }
            Scalar::F32 | Scalar::F64 => self.float_binary(op, s, a, b, span),
            _ => self.int_binary(op, s, a, b, span),
        }
    }

    /// Converts the bits of an `f16` to an `f32`.
    pub(super) fn widen(&mut self, a: Value) -> Value {
        let a = self.b.ins().uextend(I32, a);
        self.helper_value(Helper::HalfToSingle, &[a])
    }

    /// Rounds an `f32` to the bits of an `f16`.
    pub(super) fn narrow(&mut self, a: Value) -> Value {
        let bits = self.helper_value(Helper::SingleToHalf, &[a]);
        self.b.ins().ireduce(I16, bits)
    }

    fn float_binary(&mut self, op: &Op, s: Scalar, a: Value, b: Value, span: Span) -> Res<Value> {
        let cc = match op {
            Op::Add => return Ok(self.b.ins().fadd(a, b)),
            Op::Sub => return Ok(self.b.ins().fsub(a, b)),
            Op::Mul => return Ok(self.b.ins().fmul(a, b)),
            Op::Div => return Ok(self.b.ins().fdiv(a, b)),
            Op::Rem => {
                let helper = if s == Scalar::F64 { Helper::RemDouble } else { Helper::RemSingle };
                return Ok(self.helper_value(helper, &[a, b]));
            }
            Op::Eq => FloatCC::Equal,
            Op::Ne => FloatCC::NotEqual,
            Op::Lt => FloatCC::LessThan,
            Op::Le => FloatCC::LessThanOrEqual,
            Op::Gt => FloatCC::GreaterThan,
            Op::Ge => FloatCC::GreaterThanOrEqual,
            _ => return self.unsupported(op, "on floats", span),
        };
        Ok(self.b.ins().fcmp(cc, a, b))
    }

    fn int_binary(&mut self, op: &Op, s: Scalar, a: Value, b: Value, span: Span) -> Res<Value> {
        let signed = s.is_signed_int();
        let cc = match op {
            Op::And => return Ok(self.b.ins().band(a, b)),
            Op::Or => return Ok(self.b.ins().bor(a, b)),
            Op::Xor => return Ok(self.b.ins().bxor(a, b)),
            Op::Eq => IntCC::Equal,
            Op::Ne => IntCC::NotEqual,
            Op::Lt if signed => IntCC::SignedLessThan,
            Op::Le if signed => IntCC::SignedLessThanOrEqual,
            Op::Gt if signed => IntCC::SignedGreaterThan,
            Op::Ge if signed => IntCC::SignedGreaterThanOrEqual,
            Op::Lt => IntCC::UnsignedLessThan,
            Op::Le => IntCC::UnsignedLessThanOrEqual,
            Op::Gt => IntCC::UnsignedGreaterThan,
            Op::Ge => IntCC::UnsignedGreaterThanOrEqual,
            _ if s == Scalar::Bool => return self.unsupported(op, "on bool", span),
            Op::Add => return Ok(self.b.ins().iadd(a, b)),
            Op::Sub => return Ok(self.b.ins().isub(a, b)),
            Op::Mul => return Ok(self.b.ins().imul(a, b)),
            Op::Div | Op::Rem => return Ok(self.divide(op, s, a, b)),
            Op::Shl => return Ok(self.b.ins().ishl(a, b)),
            Op::Shr if signed => return Ok(self.b.ins().sshr(a, b)),
            Op::Shr => return Ok(self.b.ins().ushr(a, b)),
            _ => return self.unsupported(op, "on integers", span),
        };
        Ok(self.b.ins().icmp(cc, a, b))
    }

    /// Emits a division with `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN` and `MIN % -1 = 0`. Replacing those
    /// divisors by 1 gives the right result in the first two cases and the last; a quotient by -1 is the
    /// negation.
    fn divide(&mut self, op: &Op, s: Scalar, a: Value, b: Value) -> Value {
        let signed = s.is_signed_int();
        let narrow = s.bits() < 32;
        let ty = if narrow { I32 } else { clif(s) };
        let (a, b) = if narrow { (self.extend(ty, signed, a), self.extend(ty, signed, b)) } else { (a, b) };
        let (zero, one) = (self.b.ins().iconst(ty, 0), self.b.ins().iconst(ty, 1));
        let is_zero = self.b.ins().icmp(IntCC::Equal, b, zero);
        let by = self.b.ins().select(is_zero, one, b);
        let r = if signed {
            let minus_one = self.b.ins().iconst(ty, if ty == I32 { 0xffff_ffff } else { -1 });
            let is_minus = self.b.ins().icmp(IntCC::Equal, b, minus_one);
            let by = self.b.ins().select(is_minus, one, by);
            if *op == Op::Div {
                let q = self.b.ins().sdiv(a, by);
                let negated = self.b.ins().ineg(a);
                self.b.ins().select(is_minus, negated, q)
            } else {
                self.b.ins().srem(a, by)
            }
        } else if *op == Op::Div {
            self.b.ins().udiv(a, by)
        } else {
            self.b.ins().urem(a, by)
        };
        if narrow { self.b.ins().ireduce(clif(s), r) } else { r }
    }

    /// Extends an integer to a wider type.
    pub(super) fn extend(&mut self, ty: cranelift_codegen::ir::Type, signed: bool, a: Value) -> Value {
        if self.b.func.dfg.value_type(a) == ty {
            a
        } else if signed {
            self.b.ins().sextend(ty, a)
        } else {
            self.b.ins().uextend(ty, a)
        }
    }

    /// Extends an integer to an index of 64 bits: negative ones become huge.
    pub(crate) fn index64(&mut self, v: ir::Value) -> Value {
        let s = self.scalar_of(v);
        let x = self.one(v);
        self.extend(I64, s.is_signed_int(), x)
    }

    /// Converts a number to another kind.
    fn convert(&mut self, from: Scalar, to: Scalar, a: Value) -> Value {
        if from == to {
            return a;
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => match (from, to) {
                (Scalar::F16, Scalar::F32) => self.widen(a),
                (Scalar::F16, _) => {
                    let a = self.widen(a);
                    self.b.ins().fpromote(F64, a)
                }
                (Scalar::F32, Scalar::F16) => self.narrow(a),
                (Scalar::F32, _) => self.b.ins().fpromote(F64, a),
                (_, Scalar::F16) => {
                    let bits = self.helper_value(Helper::DoubleToHalf, &[a]);
                    self.b.ins().ireduce(I16, bits)
                }
                (_, _) => self.b.ins().fdemote(F32, a),
            },
            (true, false) => self.float_to_int(from, to, a),
            (false, true) => {
                let signed = from.is_signed_int();
                let wide = if from.bits() < 32 { I32 } else { clif(from) };
                let a = self.extend(wide, signed, a);
                let ty = if to == Scalar::F64 { F64 } else { F32 };
                let x = if signed {
                    self.b.ins().fcvt_from_sint(ty, a)
                } else {
                    self.b.ins().fcvt_from_uint(ty, a)
                };
                if to == Scalar::F16 { self.narrow(x) } else { x }
            }
            (false, false) => {
                if to == Scalar::Bool {
                    let zero = self.b.ins().iconst(clif(from), 0);
                    return self.b.ins().icmp(IntCC::NotEqual, a, zero);
                }
                let (f, t) = (clif(from), clif(to));
                if f == t {
                    a
                } else if f.bits() > t.bits() {
                    self.b.ins().ireduce(t, a)
                } else {
                    self.extend(t, from.is_signed_int(), a)
                }
            }
        }
    }

    fn float_to_int(&mut self, from: Scalar, to: Scalar, a: Value) -> Value {
        let a = if from == Scalar::F16 { self.widen(a) } else { a };
        if to == Scalar::Bool {
            let zero = self.constant(if from == Scalar::F64 { Scalar::F64 } else { Scalar::F32 }, 0);
            return self.b.ins().fcmp(FloatCC::NotEqual, a, zero);
        }
        let signed = to.is_signed_int();
        let wide = if to.bits() < 32 { I32 } else { clif(to) };
        let x = if signed {
            self.b.ins().fcvt_to_sint_sat(wide, a)
        } else {
            self.b.ins().fcvt_to_uint_sat(wide, a)
        };
        if to.bits() >= 32 {
            return x;
        }
        let x = if signed {
            let (min, max) = (-1i64 << (to.bits() - 1), (1i64 << (to.bits() - 1)) - 1);
            let min = self.b.ins().iconst(I32, min & 0xffff_ffff);
            let max = self.b.ins().iconst(I32, max);
            let x = self.b.ins().smax(x, min);
            self.b.ins().smin(x, max)
        } else {
            let max = self.b.ins().iconst(I32, (1i64 << to.bits()) - 1);
            self.b.ins().umin(x, max)
        };
        self.b.ins().ireduce(clif(to), x)
    }
}
