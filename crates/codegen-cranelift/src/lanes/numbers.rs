//! Emits arithmetic, comparisons and selections.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, Value, types};
use ir::Math;
use native::emit::{Binary, Compare, UNIFORM, Unary, VARYING};
use native::lanes::Writer as _;
use native::lanes::operand::{El, Val};
use native::runtime::math_name;

use super::parts::{Parts, form};
use super::{Callee, Writer, ins};

impl Writer {
    pub(super) fn emit_unary(&mut self, op: Unary, a: Val) -> Val {
        match op {
            Unary::NegF => self.by_part(a.el, &[a], |w, x| ins!(w).fneg(x[0])),
            Unary::Neg => self.by_part(a.el, &[a], |w, x| ins!(w).ineg(x[0])),
            Unary::Not => self.by_part(a.el, &[a], |w, x| ins!(w).bnot(x[0])),
            Unary::CountBits => self.by_lane(a.el, &[a], |w, x| ins!(w).popcnt(x[0])),
            Unary::ReverseBits => self.by_lane(a.el, &[a], |w, x| ins!(w).bitrev(x[0])),
            Unary::LeadingZeros => self.by_lane(a.el, &[a], |w, x| ins!(w).clz(x[0])),
            Unary::TrailingZeros if a.el == El::I32 && a.var && self.lanes() > 1 => {
                self.by_part(a.el, &[a], |w, x| w.trailing_zeros(x[0]))
            }
            Unary::TrailingZeros => self.by_lane(a.el, &[a], |w, x| ins!(w).ctz(x[0])),
        }
    }

    pub(super) fn emit_binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        let el = a.el;
        let both = [a, b];
        // An amount of a shift that is the same for all lanes is a scalar.
        if matches!(op, Binary::Shl | Binary::ShrSigned | Binary::ShrUnsigned) {
            let shift = move |w: &mut Writer, x: Value, by: Value| match op {
                Binary::Shl => ins!(w).ishl(x, by),
                Binary::ShrSigned => ins!(w).sshr(x, by),
                _ => ins!(w).ushr(x, by),
            };
            if a.var && (!b.var || b.constant().is_some()) {
                let by = self.one(Val { var: false, ..b });
                return self.by_part(el, &[a], |w, x| shift(w, x[0], by));
            }
            // x64 has the conversion of floats that the powers of two need.
            let is_wide = el == El::I32 && b.var && self.lanes() > 1;
            let is_x64 = cfg!(target_arch = "x86_64") && self.settings.apart.is_none();
            if is_x64 && op == Binary::Shl && is_wide {
                let powers = self.by_part(el, &[b], |w, x| w.power_of_two(x[0]));
                return match a.constant() {
                    Some(1) => powers,
                    _ => self.by_part(el, &[a, powers], |w, x| ins!(w).imul(x[0], x[1])),
                };
            }
            return self.by_lane(el, &both, |w, x| shift(w, x[0], x[1]));
        }
        let is_vector = form(el, a.var || b.var, self.lanes()).0.is_vector();
        match op {
            Binary::AddF => self.by_part(el, &both, |w, x| ins!(w).fadd(x[0], x[1])),
            Binary::SubF => self.by_part(el, &both, |w, x| ins!(w).fsub(x[0], x[1])),
            Binary::MulF => self.by_part(el, &both, |w, x| ins!(w).fmul(x[0], x[1])),
            Binary::DivF => self.by_part(el, &both, |w, x| ins!(w).fdiv(x[0], x[1])),
            Binary::Add | Binary::AddNoWrap => self.by_part(el, &both, |w, x| ins!(w).iadd(x[0], x[1])),
            Binary::Sub => self.by_part(el, &both, |w, x| ins!(w).isub(x[0], x[1])),
            Binary::Mul => self.by_part(el, &both, |w, x| ins!(w).imul(x[0], x[1])),
            Binary::DivSigned => self.by_lane(el, &both, |w, x| ins!(w).sdiv(x[0], x[1])),
            Binary::DivUnsigned => self.by_lane(el, &both, |w, x| ins!(w).udiv(x[0], x[1])),
            Binary::RemSigned => self.by_lane(el, &both, |w, x| ins!(w).srem(x[0], x[1])),
            Binary::RemUnsigned => self.by_lane(el, &both, |w, x| ins!(w).urem(x[0], x[1])),
            Binary::And => self.by_part(el, &both, |w, x| ins!(w).band(x[0], x[1])),
            Binary::Or => self.by_part(el, &both, |w, x| ins!(w).bor(x[0], x[1])),
            Binary::Xor => self.by_part(el, &both, |w, x| ins!(w).bxor(x[0], x[1])),
            Binary::MinSigned | Binary::MaxSigned | Binary::MaxUnsigned if is_vector && el != El::I32 => {
                let least =
                    if op == Binary::MaxUnsigned { Compare::MoreUnsigned } else { Compare::MoreSigned };
                let more = self.compare(least, a, b);
                if op == Binary::MinSigned { self.select(more, b, a) } else { self.select(more, a, b) }
            }
            Binary::MinSigned => self.by_part(el, &both, |w, x| ins!(w).smin(x[0], x[1])),
            Binary::MaxSigned => self.by_part(el, &both, |w, x| ins!(w).smax(x[0], x[1])),
            Binary::MaxUnsigned => self.by_part(el, &both, |w, x| ins!(w).umax(x[0], x[1])),
            Binary::Shl | Binary::ShrSigned | Binary::ShrUnsigned => a,
        }
    }

    /// The number of zeros below the lowest one of each of four integers, or 32. As a float, the lowest one alone is a
    /// power of two, whose exponent is that number.
    fn trailing_zeros(&mut self, x: Value) -> Value {
        let negative = ins!(self).ineg(x);
        let lowest = ins!(self).band(x, negative);
        let power = ins!(self).fcvt_from_sint(types::F32X4, lowest);
        let bits = self.bits_as(types::I32X4, power);
        let by = ins!(self).iconst(types::I32, 23);
        let exponent = ins!(self).ushr(bits, by);
        let [low, bias, zero, all] = [0xff, 127, 0, 32].map(|n| self.four(n));
        // The lowest one may be the sign.
        let exponent = ins!(self).band(exponent, low);
        let found = ins!(self).isub(exponent, bias);
        let none = ins!(self).icmp(IntCC::Equal, x, zero);
        ins!(self).bitselect(none, all, found)
    }

    /// `2^k` for four integers `k` below 32. As a float, it has `k` as its exponent; 2^31 is converted to what stands for
    /// numbers out of range, which is 2^31.
    fn power_of_two(&mut self, k: Value) -> Value {
        let bias = self.four(127);
        let exponent = ins!(self).iadd(k, bias);
        let by = ins!(self).iconst(types::I32, 23);
        let bits = ins!(self).ishl(exponent, by);
        let power = self.bits_as(types::F32X4, bits);
        ins!(self).x86_cvtt2dq(types::I32X4, power)
    }

    /// A vector of four times the same integer.
    fn four(&mut self, n: u64) -> Value {
        self.constant_vector(El::I32, types::I32X4, n)
    }

    pub(super) fn emit_compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        let compare = move |w: &mut Writer, x: &[Value]| {
            let int = match op {
                Compare::EqualF => return ins!(w).fcmp(FloatCC::Equal, x[0], x[1]),
                Compare::NotEqualF => return ins!(w).fcmp(FloatCC::NotEqual, x[0], x[1]),
                Compare::LessF => return ins!(w).fcmp(FloatCC::LessThan, x[0], x[1]),
                Compare::LessOrEqualF => return ins!(w).fcmp(FloatCC::LessThanOrEqual, x[0], x[1]),
                Compare::MoreF => return ins!(w).fcmp(FloatCC::GreaterThan, x[0], x[1]),
                Compare::MoreOrEqualF => return ins!(w).fcmp(FloatCC::GreaterThanOrEqual, x[0], x[1]),
                Compare::UnorderedF => return ins!(w).fcmp(FloatCC::Unordered, x[0], x[1]),
                Compare::Equal => IntCC::Equal,
                Compare::NotEqual => IntCC::NotEqual,
                Compare::LessSigned => IntCC::SignedLessThan,
                Compare::LessOrEqualSigned => IntCC::SignedLessThanOrEqual,
                Compare::MoreSigned => IntCC::SignedGreaterThan,
                Compare::MoreOrEqualSigned => IntCC::SignedGreaterThanOrEqual,
                Compare::LessUnsigned => IntCC::UnsignedLessThan,
                Compare::LessOrEqualUnsigned => IntCC::UnsignedLessThanOrEqual,
                Compare::MoreUnsigned => IntCC::UnsignedGreaterThan,
                Compare::MoreOrEqualUnsigned => IntCC::UnsignedGreaterThanOrEqual,
            };
            ins!(w).icmp(int, x[0], x[1])
        };
        let (ty, _) = form(a.el, a.var || b.var, self.lanes());
        if !ty.is_vector() {
            return self.by_lane(El::I1, &[a, b], compare);
        }
        let found = self.by_part(El::I1, &[a, b], compare);
        if ty.lane_bits() == 32 {
            return found;
        }
        // Each pair of masks of 64 bits becomes one of 32 bits.
        let wide = self.parts(found, VARYING);
        let narrow = wide.chunks(2).map(|pair| self.low_words(pair[0], pair[1])).collect();
        self.register(El::I1, VARYING, narrow)
    }

    /// The low halves of four numbers of 64 bits.
    pub(super) fn low_words(&mut self, a: Value, b: Value) -> Value {
        let [a, b] = [a, b].map(|x| self.bits_as(types::I8X16, x));
        let mask = self.bytes(&[0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]);
        let x = ins!(self).shuffle(a, b, mask);
        self.bits_as(types::I32X4, x)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> cranelift_codegen::ir::Immediate {
        self.func.dfg.immediates.push(bytes.to_vec().into())
    }

    /// The bits of a value as a value of another type.
    pub(super) fn bits_as(&mut self, ty: cranelift_codegen::ir::Type, x: Value) -> Value {
        if self.func.dfg.value_type(x) == ty {
            return x;
        }
        let flags = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        ins!(self).bitcast(ty, flags, x)
    }

    /// The masks for parts of numbers with this form, from those of truth values.
    pub(super) fn masks(&mut self, c: Val, of: cranelift_codegen::ir::Type) -> Parts {
        let masks = self.parts(c, VARYING);
        if of.lane_bits() == 32 {
            return masks;
        }
        let mut all = Parts::new();
        for mask in masks {
            all.push(ins!(self).swiden_low(mask));
            all.push(ins!(self).swiden_high(mask));
        }
        all
    }

    pub(super) fn emit_select(&mut self, c: Val, a: Val, b: Val) -> Val {
        if a == b {
            return a;
        }
        if let Some(bit) = c.constant() {
            return if bit & 1 == 1 { a } else { b };
        }
        let var = self.lanes() > 1 && (c.var || a.var || b.var);
        if !c.var || self.lanes() == 1 {
            let c = self.one(c);
            let (a_parts, b_parts) = (self.parts(a, var), self.parts(b, var));
            let parts = a_parts.iter().zip(b_parts).map(|(&a, b)| ins!(self).select(c, a, b)).collect();
            return self.register(a.el, var, parts);
        }
        let (ty, _) = form(a.el, VARYING, self.lanes());
        let (a_parts, b_parts) = (self.parts(a, VARYING), self.parts(b, VARYING));
        let parts = if ty.is_vector() {
            let masks = self.masks(c, ty);
            let mut parts = Parts::new();
            for ((mask, &a), b) in masks.into_iter().zip(&a_parts).zip(b_parts) {
                let mask = self.bits_as(ty, mask);
                parts.push(ins!(self).bitselect(mask, a, b));
            }
            parts
        } else {
            let conditions = self.conditions(c);
            let picks = conditions.into_iter().zip(&a_parts).zip(b_parts);
            picks.map(|((c, &a), b)| ins!(self).select(c, a, b)).collect()
        };
        self.register(a.el, VARYING, parts)
    }

    pub(super) fn emit_math(&mut self, m: Math, args: &[Val]) -> Val {
        let el = args[0].el;
        let (fma, round) = (self.settings.has_fma, self.settings.has_round);
        match m {
            Math::Sqrt => self.by_part(el, args, |w, x| ins!(w).sqrt(x[0])),
            Math::Abs => self.by_part(el, args, |w, x| ins!(w).fabs(x[0])),
            Math::Floor if round => self.by_part(el, args, |w, x| ins!(w).floor(x[0])),
            Math::Ceil if round => self.by_part(el, args, |w, x| ins!(w).ceil(x[0])),
            Math::Trunc if round => self.by_part(el, args, |w, x| ins!(w).trunc(x[0])),
            Math::Round if round => self.by_part(el, args, |w, x| ins!(w).nearest(x[0])),
            Math::Fma if fma => self.by_part(el, args, |w, x| ins!(w).fma(x[0], x[1], x[2])),
            _ => {
                let of = if el == El::F64 { ir::Scalar::F64 } else { ir::Scalar::F32 };
                let ty = super::parts::scalar(el);
                let func = self.func_ref(Callee::Symbol(math_name(m, of), of, args.len()), |w| {
                    let mut signature = Signature::new(w.settings.system);
                    signature.params = vec![AbiParam::new(ty); args.len()];
                    signature.returns = vec![AbiParam::new(ty)];
                    signature
                });
                self.by_lane(el, args, |w, x| w.call(func, x)[0])
            }
        }
    }

    pub(super) fn emit_copy_sign(&mut self, a: Val, b: Val) -> Val {
        let (ty, _) = form(a.el, a.var || b.var, self.lanes());
        if !ty.is_vector() {
            return self.by_lane(a.el, &[a, b], |w, x| ins!(w).fcopysign(x[0], x[1]));
        }
        let sign = Val { var: true, ..Val::bits(a.el, 1 << (a.el.bits() - 1)) };
        self.by_part(a.el, &[sign, b, a], |w, x| ins!(w).bitselect(x[0], x[1], x[2]))
    }

    pub(super) fn emit_reduce(&mut self, op: Binary, a: Val) -> Val {
        if !a.var || self.lanes() == 1 {
            return a;
        }
        if a.el == El::I1 && op == Binary::And {
            let parts = self.parts(a, VARYING);
            let all = parts[1..].iter().fold(parts[0], |a, &b| ins!(self).band(a, b));
            let all = ins!(self).vall_true(all);
            return self.register(El::I1, UNIFORM, Parts::from_slice(&[all]));
        }
        let all = self.scalars(a);
        let combine = |a: Value, &b: &Value| match op {
            Binary::MaxSigned => ins!(self).smax(a, b),
            Binary::MaxUnsigned => ins!(self).umax(a, b),
            Binary::And => ins!(self).band(a, b),
            _ => ins!(self).iadd(a, b),
        };
        let one = all[1..].iter().fold(all[0], combine);
        self.register(a.el, UNIFORM, Parts::from_slice(&[one]))
    }
}
