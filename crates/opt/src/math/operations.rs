//! Builds IR from the operations of [`ir::library`], and rounding to whole numbers.
//!
//! A device's `fma` need not round only once, and its rounding may be wrong. Unless `fused` says otherwise, a
//! product is therefore made exact by parts of 26 bits, which is right where each operation is rounded by
//! itself: the SPIR-V demands that of each operation (`spirv.rs`).

use std::cell::RefCell;

use ir::build::Builder;
use ir::library::{Binary, Compare, HALF_PI, Ops, Unary};
use ir::{LoopInfo, Math, Op, Scalar, Type, Value};

/// 2/π in digits of 24 bits.
const TWO_OVER_PI: [u32; 48] = [
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163, 0xabdebb,
    0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5,
    0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41, 0x3991d6, 0x398353, 0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8,
    0x97ffde, 0x05980f, 0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d,
    0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08,
];

/// A function of doubles under construction.
pub(super) struct Build<'b, 't> {
    pub(super) b: RefCell<&'b mut Builder<'t>>,
    /// The device has an `fma` that rounds once.
    pub(super) fused: bool,
}

impl Build<'_, '_> {
    fn op(&self, op: Op, args: &[Value]) -> Value {
        self.b.borrow_mut().emit(op, args)
    }

    fn op_to(&self, op: Op, arg: Value, ty: Type) -> Value {
        self.b.borrow_mut().emit_typed(op, &[arg], ty)
    }

    fn less(&self, a: Value, b: Value) -> Value {
        self.op(Op::Lt, &[a, b])
    }

    fn add(&self, a: Value, b: Value) -> Value {
        self.op(Op::Add, &[a, b])
    }

    fn sub(&self, a: Value, b: Value) -> Value {
        self.op(Op::Sub, &[a, b])
    }

    fn mul(&self, a: Value, b: Value) -> Value {
        self.op(Op::Mul, &[a, b])
    }

    /// Rounds to a whole number, ties to even; the sign of a zero may change.
    fn nearest(&self, a: Value) -> Value {
        // Beyond 2^52 all numbers are whole.
        const WHOLE: f64 = 4_503_599_627_370_496.0;
        let whole = self.float(WHOLE);
        let by = self.binary(Binary::CopySign, whole, a);
        let r = self.add(a, by);
        let r = self.sub(r, by);
        let size = self.unary(Unary::Abs, a);
        let small = self.less(size, whole);
        self.select(small, r, a)
    }

    /// Rounds to a whole number.
    pub(super) fn whole(&self, m: Math, a: Value) -> Value {
        let r = match m {
            Math::Trunc => {
                let size = self.unary(Unary::Abs, a);
                self.whole(Math::Floor, size)
            }
            Math::Floor | Math::Ceil => {
                let r = self.nearest(a);
                let step = self.float(if m == Math::Floor { -1.0 } else { 1.0 });
                let other = self.add(r, step);
                let wrong = if m == Math::Floor { self.less(a, r) } else { self.less(r, a) };
                self.select(wrong, other, r)
            }
            _ => self.nearest(a),
        };
        let r = self.binary(Binary::CopySign, r, a);
        let nan = self.compare(Compare::Unordered, a, a);
        self.select(nan, a, r)
    }

    /// Splits `a` into a number of 26 bits and the remainder.
    fn split(&self, a: Value) -> (Value, Value) {
        let (bits, mask) = (self.unary(Unary::Bits, a), self.int(!0 << 27));
        let bits = self.binary(Binary::And, bits, mask);
        let high = self.unary(Unary::OfBits, bits);
        (high, self.sub(a, high))
    }

    /// The rounding error of `product`, which is `a b` rounded.
    fn lost(&self, a: Value, b: Value, product: Value) -> Value {
        let ((ah, al), (bh, bl)) = (self.split(a), self.split(b));
        let all = self.mul(ah, bh);
        let lost = self.sub(all, product);
        [(ah, bl), (al, bh), (al, bl)].into_iter().fold(lost, |lost, (a, b)| self.mul_add_twice(a, b, lost))
    }

    /// `a b + c`, rounded twice.
    fn mul_add_twice(&self, a: Value, b: Value, c: Value) -> Value {
        let product = self.mul(a, b);
        self.add(product, c)
    }

    /// `a + b`, and its rounding error.
    fn sum(&self, a: Value, b: Value) -> (Value, Value) {
        let s = self.add(a, b);
        let of_b = self.sub(s, a);
        let of_a = self.sub(s, of_b);
        let (lost_a, lost_b) = (self.sub(a, of_a), self.sub(b, of_b));
        (s, self.add(lost_a, lost_b))
    }

    /// See [`Ops::turns`]; for any angle, by the method of Payne and Hanek: multiplies it by 2/π, digit by
    /// digit, and drops whole turns.
    fn far_turns(&self, x: Value) -> [Value; 3] {
        // The digits are scaled up by 2^120, so that none underflows.
        let by = self.float(2.0f64.powi(-120));
        let scaled = self.mul(x, by);
        let (high, low) = self.split(scaled);
        // Digits before the first one used contribute only whole turns, and nine digits have 110 bits below a
        // turn. The numbers of the digits are not constant, which keeps compilers from unrolling this loop,
        // which hardly ever runs.
        let size = self.unary(Unary::Abs, x);
        let bits = self.unary(Unary::Bits, size);
        let exponent = self.binary(Binary::Ashr, bits, self.int(52));
        let over = self.binary(Binary::Sub, exponent, self.int(1023 + 54));
        let over = self.op(Op::Math(Math::Max), &[over, self.int(0)]);
        let begin = self.op(Op::Div, &[over, self.int(24)]);
        let begin = self.op(Op::Math(Math::Min), &[begin, self.int(TWO_OVER_PI.len() as i64 - 9)]);
        let begin = self.op_to(Op::Convert, begin, Type::U32);
        let (nine, one) = (self.number(9), self.number(1));
        let end = self.add(begin, nine);
        let zero = self.float(0.0);
        let body = self.b.borrow_mut().open();
        let i = self.b.borrow_mut().region_param(Type::U32);
        let mut sum = self.b.borrow_mut().region_param(Type::F64);
        let mut rest = self.b.borrow_mut().region_param(Type::F64);
        let digit = self.digit(i, 0, TWO_OVER_PI.len());
        let (turn, of_turn) = (self.float(4.0), self.float(0.25));
        for part in [high, low] {
            // A product of 27 bits and 24 bits is exact, and so is the remainder after whole turns are
            // dropped.
            let p = self.mul(part, digit);
            let turns = self.mul(p, of_turn);
            let turns = self.nearest(turns);
            let turns = self.mul(turns, turn);
            let p = self.sub(p, turns);
            let (s, lost) = self.sum(sum, p);
            sum = s;
            rest = self.add(rest, lost);
        }
        let next = self.add(i, one);
        let again = self.less(next, end);
        self.b.borrow_mut().close(vec![again, next, sum, rest]);
        let args = [begin, zero, zero];
        let sums = self.b.borrow_mut().nest(Op::Loop(LoopInfo::default()), &args, &[body]);
        let k = self.nearest(sums[1]);
        let left = self.sub(sums[1], k);
        let (high, low) = self.sum(left, sums[2]);
        let (quarter, quarter_low) = (self.float(HALF_PI.0), self.float(HALF_PI.1));
        let r = self.mul(high, quarter);
        let rest = self.lost(high, quarter, r);
        let rest = self.mul_add_twice(high, quarter_low, rest);
        let rest = self.mul_add_twice(low, quarter, rest);
        let (r, rest) = self.sum(r, rest);
        [k, r, rest]
    }

    fn number(&self, n: u32) -> Value {
        self.b.borrow_mut().u32(n)
    }

    /// Digit number `i` of 2/π, for `i` in `from..to`, by binary search: drivers are slow to compile arrays.
    fn digit(&self, i: Value, from: usize, to: usize) -> Value {
        if to - from == 1 {
            return self.float(f64::from(TWO_OVER_PI[from]) * 2.0f64.powi(96 - 24 * from as i32));
        }
        let middle = (from + to) / 2;
        let below = self.less(i, self.number(middle as u32));
        let (low, high) = (self.digit(i, from, middle), self.digit(i, middle, to));
        self.select(below, low, high)
    }
}

impl Ops for Build<'_, '_> {
    type V = Value;

    fn single(&self) -> bool {
        false
    }

    fn rounds(&self) -> bool {
        false
    }

    fn float(&self, x: f64) -> Value {
        self.b.borrow_mut().float(Scalar::F64, x)
    }

    fn int(&self, n: i64) -> Value {
        self.b.borrow_mut().constant(Scalar::I64, n as u64)
    }

    fn yes(&self) -> Value {
        self.b.borrow_mut().bool(true)
    }

    fn unary(&self, op: Unary, a: Value) -> Value {
        match op {
            Unary::Neg => self.op(Op::Neg, &[a]),
            Unary::Abs => self.op(Op::Math(Math::Abs), &[a]),
            Unary::Round => self.nearest(a),
            Unary::Trunc => self.whole(Math::Trunc, a),
            Unary::Sqrt => self.op(Op::Math(Math::Sqrt), &[a]),
            Unary::Bits => self.op_to(Op::Bitcast, a, Type::I64),
            Unary::OfBits => self.op_to(Op::Bitcast, a, Type::F64),
            Unary::OfInt => self.op_to(Op::Convert, a, Type::F64),
        }
    }

    fn binary(&self, op: Binary, a: Value, b: Value) -> Value {
        let op = match op {
            Binary::AddF | Binary::Add => Op::Add,
            Binary::SubF | Binary::Sub => Op::Sub,
            Binary::MulF => Op::Mul,
            Binary::DivF => Op::Div,
            Binary::And => Op::And,
            Binary::Or => Op::Or,
            Binary::Xor => Op::Xor,
            Binary::Shl => Op::Shl,
            Binary::Ashr => Op::Shr,
            Binary::CopySign => {
                let (a, b) = (self.unary(Unary::Bits, a), self.unary(Unary::Bits, b));
                let a = self.binary(Binary::And, a, self.int(i64::MAX));
                let b = self.binary(Binary::And, b, self.int(i64::MIN));
                let r = self.binary(Binary::Or, a, b);
                return self.unary(Unary::OfBits, r);
            }
        };
        self.op(op, &[a, b])
    }

    fn compare(&self, op: Compare, a: Value, b: Value) -> Value {
        match op {
            Compare::Less | Compare::Below => self.less(a, b),
            Compare::LessOrSame => self.op(Op::Le, &[a, b]),
            Compare::Same => self.op(Op::Eq, &[a, b]),
            Compare::MoreOrSame => self.op(Op::Ge, &[a, b]),
            Compare::Differ => self.op(Op::Ne, &[a, b]),
            // Both operands are the same.
            Compare::Unordered => self.op(Op::Math(Math::IsNan), &[a]),
        }
    }

    fn fma(&self, a: Value, b: Value, c: Value) -> Value {
        if self.fused {
            return self.op(Op::Math(Math::Fma), &[a, b, c]);
        }
        // Where the result matters to the last bit, `c` cancels the product.
        let product = self.mul(a, b);
        let lost = self.lost(a, b, product);
        let sum = self.add(product, c);
        self.add(sum, lost)
    }

    fn mul_add(&self, a: Value, b: Value, c: Value) -> Value {
        if self.fused { self.fma(a, b, c) } else { self.mul_add_twice(a, b, c) }
    }

    fn select(&self, c: Value, a: Value, b: Value) -> Value {
        self.op(Op::Select, &[c, a, b])
    }

    fn either(
        &self,
        _: Value,
        x: Value,
        _: impl FnOnce(Value) -> Value,
        far: impl FnOnce(Value) -> Value,
    ) -> Value {
        far(x)
    }

    fn turns(&self, near: Value, x: Value, found: [Value; 3]) -> [Value; 3] {
        let here = self.b.borrow_mut().open();
        self.b.borrow_mut().close(found.to_vec());
        let there = self.b.borrow_mut().open();
        let far = self.far_turns(x);
        self.b.borrow_mut().close(far.to_vec());
        let found = self.b.borrow_mut().nest(Op::If, &[near], &[here, there]);
        [found[0], found[1], found[2]]
    }

    fn elsewhere(&self, _: Math, _: Value, x: Value, found: Value) -> Value {
        let size = self.unary(Unary::Abs, x);
        let finite = self.less(size, self.float(f64::INFINITY));
        let nan = self.float(f64::NAN);
        self.select(finite, found, nan)
    }
}
