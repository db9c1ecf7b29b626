//! Emits arithmetic, adapted where devices differ from the IR's semantics.
//!
//! naga's integer division and remainder have the IR's semantics except in GLSL, where the divisor is
//! replaced; shift amounts are masked; integers of fewer than 32 bits are truncated to their width after each
//! operation. Operations on a vector of more than four lanes are emitted lane by lane.

use ir::{InstData, Math, Op, Scalar, TypeData, Value};
use naga::{BinaryOperator as Bin, Literal, MathFunction as Fun, ScalarKind, UnaryOperator};

use super::{Emitter, Res};
use crate::Target;
use crate::build::Expr;
use crate::helpers::{float, integer};
use crate::types::scalar;

/// The sign of a zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

impl<'m> Emitter<'_, 'm> {
    pub(super) fn arithmetic(&mut self, data: &'m InstData) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        if let Op::Const(bits) = data.op {
            let s = self.scalar(result);
            self.cx.check_scalar(s, data.span)?;
            let e = self.constant(s, bits);
            return self.set(result, e);
        }
        let arg_ty = self.ty(data.args[0]);
        let n = self.lanes(arg_ty);
        for s in data.args.iter().map(|&a| self.scalar(a)).chain([self.scalar(result)]) {
            self.cx.check_scalar(s, data.span)?;
        }
        if data.op == Op::Sum {
            let v = self.get(data.args[0]);
            let mut sum = if n == 1 { v } else { self.code.part(v, 0) };
            for k in 1..n {
                let lane = self.code.part(v, k);
                sum = self.binary(Bin::Add, self.scalar(result), 1, sum, lane);
            }
            return self.set(result, sum);
        }
        if n > 4 {
            let vectors: Vec<Expr> = data.args.iter().map(|&a| self.get(a)).collect();
            let whole = self.cx.value_type(ty, &[], data.span)?;
            let e = self.by_lane(whole, n, &vectors, |e, args| e.op(data, 1, args))?;
            return self.set(result, e);
        }
        // A vector multiplied by a scalar needs no splat.
        if let (Op::Mul, true, true) = (&data.op, n > 1, self.scalar(result).is_float()) {
            let (a, b) = (self.splat_of(data.args[0]), self.splat_of(data.args[1]));
            if a.is_some() != b.is_some() {
                let a = a.unwrap_or(data.args[0]);
                let b = b.unwrap_or(data.args[1]);
                let (a, b) = (self.get(a), self.get(b));
                let e = self.code.binary(Bin::Multiply, a, b);
                return self.set(result, e);
            }
        }
        let args: Vec<Expr> = data.args.iter().map(|&a| self.get(a)).collect();
        let e = self.op(data, n, &args)?;
        self.set(result, e)
    }

    /// The scalar that a vector was splatted from.
    fn splat_of(&self, v: Value) -> Option<Value> {
        let def = &self.f.insts[self.bounds.def(v)?];
        let is_splat = def.op == Op::Splat && matches!(self.types[self.f.ty(v)], TypeData::Vector(..));
        is_splat.then(|| def.args[0])
    }

    /// The sign of zero, if the value is a constant zero in every lane.
    fn zero_of(&self, v: Value) -> Option<Sign> {
        let def = &self.f.insts[self.bounds.def(v)?];
        match def.op {
            Op::Zero => Some(Sign::Plus),
            Op::Splat => self.zero_of(def.args[0]),
            Op::Const(bits) if ir::scalar::is_absent(self.scalar(v), bits) => Some(Sign::Minus),
            Op::Const(bits) => (bits == 0).then_some(Sign::Plus),
            _ => None,
        }
    }

    /// `x + 0` and `x + -0`, which drivers simplify to `x`. Adding 0 turns -0, the absent differential, into
    /// 0; adding -0 does yield `x`.
    fn plus_zero(&mut self, s: Scalar, n: u32, x: Expr, zero: Sign) -> Expr {
        if zero == Sign::Minus {
            return x;
        }
        let zero = self.splat_float(s, n, 0.0);
        let is_zero = self.code.binary(Bin::Equal, x, zero);
        self.code.select(is_zero, zero, x)
    }

    /// A constant number with the given bits.
    pub(super) fn constant(&mut self, s: Scalar, bits: u64) -> Expr {
        match s {
            Scalar::F32 => {
                let x = f32::from_bits(bits as u32);
                if !x.is_finite() {
                    let bits = if x.is_nan() { 0x7fc0_0000 } else { bits as u32 };
                    let function = self.cx.special(bits);
                    return self.code.value_of(function, &[]);
                }
                self.code.literal(Literal::F32(x))
            }
            Scalar::F64 | Scalar::F16 => {
                let x = if s == Scalar::F64 {
                    f64::from_bits(bits)
                } else {
                    half::f16::from_bits(bits as u16).to_f64()
                };
                if !x.is_finite() {
                    let single = if x.is_nan() { 0x7fc0_0000 } else { (x as f32).to_bits() };
                    let function = self.cx.special(single);
                    let e = self.code.value_of(function, &[]);
                    return self.code.convert(e, ScalarKind::Float, Some(s.bytes() as u8));
                }
                float(&mut self.code, s, x)
            }
            _ if s.is_signed_int() => {
                let shift = 64 - s.bits();
                integer(&mut self.code, s, (((bits << shift) as i64) >> shift) as i128)
            }
            _ => integer(&mut self.code, s, bits as i128),
        }
    }

    /// An integer literal in each of `n` lanes.
    pub(super) fn splat_integer(&mut self, s: Scalar, n: u32, x: i128) -> Expr {
        let x = integer(&mut self.code, s, x);
        self.code.splat(n, x)
    }

    pub(super) fn splat_float(&mut self, s: Scalar, n: u32, x: f64) -> Expr {
        let x = float(&mut self.code, s, x);
        self.code.splat(n, x)
    }

    /// `a op b`, truncated to the width of the kind of number.
    pub(super) fn binary(&mut self, op: Bin, s: Scalar, n: u32, a: Expr, b: Expr) -> Expr {
        let e = self.code.binary(op, a, b);
        self.fit(s, n, e)
    }

    /// Truncates an integer of fewer than 32 bits to its width.
    pub(super) fn fit(&mut self, s: Scalar, n: u32, e: Expr) -> Expr {
        if !s.is_int() || s.bits() >= 32 {
            return e;
        }
        if s.is_signed_int() {
            let by = self.code.u32(32 - s.bits());
            let by = self.code.splat(n, by);
            let up = self.code.binary(Bin::ShiftLeft, e, by);
            return self.code.binary(Bin::ShiftRight, up, by);
        }
        let mask = self.splat_integer(s, n, (1 << s.bits()) - 1);
        self.code.binary(Bin::And, e, mask)
    }

    /// Emits one operation on scalars or vectors of up to four lanes.
    fn op(&mut self, data: &InstData, n: u32, args: &[Expr]) -> Res<Expr> {
        let s = self.scalar(data.args[0]);
        let a = args[0];
        let b = args.get(1).copied().unwrap_or(a);
        Ok(match &data.op {
            Op::Add if s.is_float() => match (self.zero_of(data.args[0]), self.zero_of(data.args[1])) {
                (Some(sign), _) => self.plus_zero(s, n, b, sign),
                (_, Some(sign)) => self.plus_zero(s, n, a, sign),
                _ => self.code.binary(Bin::Add, a, b),
            },
            Op::Add => self.binary(Bin::Add, s, n, a, b),
            Op::Sub => self.binary(Bin::Subtract, s, n, a, b),
            Op::Mul => self.binary(Bin::Multiply, s, n, a, b),
            Op::Div | Op::Rem => {
                let op = if data.op == Op::Div { Bin::Divide } else { Bin::Modulo };
                if op == Bin::Modulo && s.is_float() {
                    // Exact remainders are functions of the IR module.
                    let what = format!("a remainder of `{}`", s.name());
                    return self.refuse(what, "it has none that is exact", data.span);
                }
                let b = if s.is_int() { self.divisor(data.args[1], s, n, a, b) } else { b };
                self.binary(op, s, n, a, b)
            }
            Op::Neg => match s {
                _ if s.is_float() || s.is_signed_int() => {
                    let e = self.code.unary(UnaryOperator::Negate, a);
                    self.fit(s, n, e)
                }
                _ => {
                    let zero = self.splat_integer(s, n, 0);
                    self.binary(Bin::Subtract, s, n, zero, a)
                }
            },
            Op::And | Op::Or | Op::Xor if s == Scalar::Bool => self.logic(&data.op, n, a, b),
            Op::And => self.code.binary(Bin::And, a, b),
            Op::Or => self.code.binary(Bin::InclusiveOr, a, b),
            Op::Xor => self.code.binary(Bin::ExclusiveOr, a, b),
            Op::Not if s == Scalar::Bool => self.code.unary(UnaryOperator::LogicalNot, a),
            Op::Not => {
                let e = self.code.unary(UnaryOperator::BitwiseNot, a);
                self.fit(s, n, e)
            }
            Op::Shl | Op::Shr => {
                let by = self.shift(data.args[1], s, n, b);
                let op = if data.op == Op::Shl { Bin::ShiftLeft } else { Bin::ShiftRight };
                self.binary(op, s, n, a, by)
            }
            Op::Math(math) => self.math(*math, s, n, args, data)?,
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                let op = match data.op {
                    Op::Eq => Bin::Equal,
                    Op::Ne => Bin::NotEqual,
                    Op::Lt => Bin::Less,
                    Op::Le => Bin::LessEqual,
                    Op::Gt => Bin::Greater,
                    _ => Bin::GreaterEqual,
                };
                if s == Scalar::Bool && !matches!(op, Bin::Equal | Bin::NotEqual) {
                    let (one, zero) =
                        (self.splat_integer(Scalar::U32, n, 1), self.splat_integer(Scalar::U32, n, 0));
                    let (a, b) = (self.code.select(a, one, zero), self.code.select(b, one, zero));
                    return Ok(self.code.binary(op, a, b));
                }
                if s.is_float() && op == Bin::NotEqual {
                    return Ok(self.differ(a, b));
                }
                self.code.binary(op, a, b)
            }
            _ => return self.refuse("an operation", "it is no arithmetic", data.span),
        })
    }

    /// `and`, `or` and `xor` of booleans.
    fn logic(&mut self, op: &Op, n: u32, a: Expr, b: Expr) -> Expr {
        match (op, n) {
            (Op::Xor, _) => self.code.binary(Bin::NotEqual, a, b),
            (Op::And, 1) => self.code.binary(Bin::LogicalAnd, a, b),
            (Op::Or, 1) => self.code.binary(Bin::LogicalOr, a, b),
            (Op::And, _) => {
                let no = self.splat_integer(Scalar::Bool, n, 0);
                self.code.select(a, b, no)
            }
            _ => {
                let yes = self.splat_integer(Scalar::Bool, n, 1);
                self.code.select(a, yes, b)
            }
        }
    }

    /// The divisor, replaced where the result of the division is undefined in GLSL.
    fn divisor(&mut self, of: Value, s: Scalar, n: u32, a: Expr, b: Expr) -> Expr {
        let constant = self.splat_of(of).or(Some(of)).and_then(|v| self.bounds.constant(v));
        if self.cx.options.target != Target::Glsl || constant.is_some_and(|c| c != 0 && c != -1) {
            return b;
        }
        let (zero, one) = (self.splat_integer(s, n, 0), self.splat_integer(s, n, 1));
        let mut bad = self.code.binary(Bin::Equal, b, zero);
        if s.is_signed_int() && s.bits() >= 32 {
            let (minus, least) =
                (self.splat_integer(s, n, -1), self.splat_integer(s, n, -(1i128 << (s.bits() - 1))));
            let by_minus = self.code.binary(Bin::Equal, b, minus);
            let of_least = self.code.binary(Bin::Equal, a, least);
            let over = self.logic(&Op::And, n, by_minus, of_least);
            bad = self.logic(&Op::Or, n, bad, over);
        }
        self.code.select(bad, one, b)
    }

    /// The amount of a shift, reduced modulo the width.
    fn shift(&mut self, amount: Value, s: Scalar, n: u32, b: Expr) -> Expr {
        let mask = s.bits() - 1;
        let known = self.splat_of(amount).or(Some(amount)).and_then(|v| self.bounds.constant(v));
        if let Some(known) = known {
            return self.splat_integer(Scalar::U32, n, (known as u32 & mask) as i128);
        }
        let of = self.scalar(amount);
        let by =
            if scalar(of) == naga::Scalar::U32 { b } else { self.code.convert(b, ScalarKind::Uint, Some(4)) };
        let mask = self.splat_integer(Scalar::U32, n, mask as i128);
        self.code.binary(Bin::And, by, mask)
    }

    fn math(&mut self, math: Math, s: Scalar, n: u32, args: &[Expr], data: &InstData) -> Res<Expr> {
        let a = args[0];
        let fun = match math {
            Math::Sin => Fun::Sin,
            Math::Cos => Fun::Cos,
            Math::Tan => Fun::Tan,
            Math::Asin => Fun::Asin,
            Math::Acos => Fun::Acos,
            Math::Atan => Fun::Atan,
            Math::Atan2 => Fun::Atan2,
            Math::Sinh => Fun::Sinh,
            Math::Cosh => Fun::Cosh,
            Math::Tanh => Fun::Tanh,
            Math::Asinh => Fun::Asinh,
            Math::Acosh => Fun::Acosh,
            Math::Atanh => Fun::Atanh,
            Math::Exp => Fun::Exp,
            Math::Exp2 => Fun::Exp2,
            Math::Log => Fun::Log,
            Math::Log2 | Math::Log10 | Math::Pow => Fun::Log2,
            Math::Sqrt => Fun::Sqrt,
            Math::Floor => Fun::Floor,
            Math::Ceil => Fun::Ceil,
            Math::Round => Fun::Round,
            Math::Trunc => Fun::Trunc,
            Math::Min => Fun::Min,
            Math::Max => Fun::Max,
            Math::Abs => Fun::Abs,
            Math::Fma => Fun::Fma,
            Math::IsNan | Math::IsInf => return Ok(self.classify(math, s, n, a)),
            Math::CountBits | Math::ReverseBits | Math::FirstBitLow | Math::FirstBitHigh => {
                if s.bits() == 64 {
                    let what = format!("`{}` of a 64-bit integer", math.name());
                    return self.refuse(what, "it has no such function", data.span);
                }
                return Ok(self.bits(math, s, n, a));
            }
        };
        let is_exact = matches!(
            fun,
            Fun::Sqrt
                | Fun::Floor
                | Fun::Ceil
                | Fun::Round
                | Fun::Trunc
                | Fun::Min
                | Fun::Max
                | Fun::Abs
                | Fun::Fma
        );
        if s == Scalar::F64 && !is_exact {
            let what = format!("`{}` of a `double`", math.name());
            let why = "it has this function for 32 and 16 bits only; the SPIR-V of this compiler has it";
            return self.refuse(what, why, data.span);
        }
        let only_single = matches!(math, Math::Sqrt | Math::Floor | Math::Ceil | Math::Round | Math::Trunc);
        if s == Scalar::F64 && only_single && self.cx.options.target == Target::Hlsl {
            let what = format!("`{}` of a `double`", math.name());
            return self.refuse(what, "it takes the number for a `float`", data.span);
        }
        match math {
            Math::Log10 => {
                let log = self.code.math(Fun::Log2, &[a]);
                let factor = self.splat_float(s, n, std::f64::consts::LOG10_2);
                Ok(self.code.binary(Bin::Multiply, log, factor))
            }
            Math::Pow => self.power(s, n, args, data),
            Math::Atan2 => {
                let x = self.off_the_origin(s, n, a, args[1]);
                Ok(self.code.math(fun, &[a, x]))
            }
            Math::Abs if s.is_int() && !s.is_signed_int() => Ok(a),
            Math::Abs => {
                let e = self.code.math(fun, &[a]);
                Ok(self.fit(s, n, e))
            }
            _ => Ok(self.code.math(fun, args)),
        }
    }

    /// The abscissa of a point for its angle. Of (0, 0) the languages leave the angle open; (±1, 0), where the sign is that
    /// of the abscissa, has the angle that C gives to (0, 0).
    fn off_the_origin(&mut self, s: Scalar, n: u32, y: Expr, x: Expr) -> Expr {
        let zero = self.splat_float(s, n, 0.0);
        let (y_is_zero, x_is_zero) =
            (self.code.binary(Bin::Equal, y, zero), self.code.binary(Bin::Equal, x, zero));
        let at_origin = self.logic(&Op::And, n, y_is_zero, x_is_zero);
        let wide = if s == Scalar::F16 { self.code.convert(x, ScalarKind::Float, Some(4)) } else { x };
        let bits = self.code.convert(wide, ScalarKind::Sint, None);
        let none = self.splat_integer(Scalar::I32, n, 0);
        let is_negative = self.code.binary(Bin::Less, bits, none);
        let (left, right) = (self.splat_float(s, n, -1.0), self.splat_float(s, n, 1.0));
        let unit = self.code.select(is_negative, left, right);
        self.code.select(at_origin, unit, x)
    }

    /// C's `pow`, by a helper function.
    fn power(&mut self, s: Scalar, n: u32, args: &[Expr], data: &InstData) -> Res<Expr> {
        let function = self.cx.pow(s);
        let ty = self.lanes_type(s, n, data.span)?;
        self.by_lane(ty, n, args, |e, args| Ok(e.code.value_of(function, args)))
    }

    /// Compares floats: a NaN differs from everything. (The comparison for inequality in SPIR-V, as naga writes it, is
    /// false for a NaN.)
    pub(super) fn differ(&mut self, a: Expr, b: Expr) -> Expr {
        let same = self.code.binary(Bin::Equal, a, b);
        self.code.unary(UnaryOperator::LogicalNot, same)
    }

    /// Tests each lane for a NaN or an infinity. Except for `double`, the test examines the bits, because
    /// compilers may assume that neither occurs.
    pub(super) fn classify(&mut self, math: Math, s: Scalar, n: u32, a: Expr) -> Expr {
        if s == Scalar::F64 {
            return match math {
                Math::IsNan => self.differ(a, a),
                _ => {
                    let most = self.splat_float(s, n, f64::MAX);
                    let size = self.code.math(Fun::Abs, &[a]);
                    self.code.binary(Bin::Greater, size, most)
                }
            };
        }
        let wide = if s == Scalar::F16 { self.code.convert(a, ScalarKind::Float, Some(4)) } else { a };
        let bits = self.code.convert(wide, ScalarKind::Uint, None);
        let mask = self.splat_integer(Scalar::U32, n, 0x7fff_ffff);
        let size = self.code.binary(Bin::And, bits, mask);
        let infinity = self.splat_integer(Scalar::U32, n, 0x7f80_0000);
        let op = if math == Math::IsNan { Bin::Greater } else { Bin::Equal };
        self.code.binary(op, size, infinity)
    }

    fn bits(&mut self, math: Math, s: Scalar, n: u32, a: Expr) -> Expr {
        let unused = 32 - s.bits();
        let unsigned = |e: &mut Self, x: Expr| {
            if !s.is_signed_int() {
                return x;
            }
            let bits = e.code.convert(x, ScalarKind::Uint, None);
            if unused == 0 {
                return bits;
            }
            let mask = e.splat_integer(Scalar::U32, n, (1 << s.bits()) - 1);
            e.code.binary(Bin::And, bits, mask)
        };
        let back = |e: &mut Self, x: Expr| {
            let x = if s.is_signed_int() { e.code.convert(x, ScalarKind::Sint, None) } else { x };
            e.fit(s, n, x)
        };
        match math {
            Math::CountBits => {
                let x = unsigned(self, a);
                let count = self.code.math(Fun::CountOneBits, &[x]);
                back(self, count)
            }
            Math::ReverseBits => {
                let x = unsigned(self, a);
                let mut turned = self.code.math(Fun::ReverseBits, &[x]);
                if unused > 0 {
                    let by = self.splat_integer(Scalar::U32, n, unused as i128);
                    turned = self.code.binary(Bin::ShiftRight, turned, by);
                }
                back(self, turned)
            }
            Math::FirstBitLow => {
                let found = self.code.math(Fun::FirstTrailingBit, &[a]);
                self.fit(s, n, found)
            }
            _ => {
                let found = self.code.math(Fun::FirstLeadingBit, &[a]);
                self.fit(s, n, found)
            }
        }
    }
}
