//! Builds IR from the operations of [`ir::library`], and rounding to whole numbers.
//!
//! A device's `fma` need not round only once, and its rounding may be wrong. Unless `fused` says otherwise, a
//! product is therefore made exact by parts of 26 bits, which is right where each operation is rounded by
//! itself: the SPIR-V demands that of each operation (`spirv.rs`).

use std::cell::RefCell;

use ir::build::Builder;
use ir::library::{Ops, far_angle};
use ir::{LoopInfo, Math, Op, Scalar, Type, Value};

/// A function under construction.
pub(super) struct Build<'b, 't> {
    pub(super) b: &'b RefCell<Builder<'t>>,
    /// The floats that it computes with, and the integers of as many bits.
    pub(super) numbers: (Scalar, Scalar),
    /// The device has an `fma` that rounds once, and rounds to whole numbers.
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
        let whole = self.number(4_503_599_627_370_496.0);
        let by = self.copy_sign(whole, a);
        let r = self.add(a, by);
        let r = self.sub(r, by);
        let size = self.op(Op::Math(Math::Abs), &[a]);
        let small = self.less(size, whole);
        self.op(Op::Select, &[small, r, a])
    }

    /// Rounds a double to a whole number.
    pub(super) fn whole_number(&self, m: Math, a: Value) -> Value {
        let r = match m {
            Math::Trunc => {
                let size = self.op(Op::Math(Math::Abs), &[a]);
                self.whole_number(Math::Floor, size)
            }
            Math::Floor | Math::Ceil => {
                let r = self.nearest(a);
                let step = self.number(if m == Math::Floor { -1.0 } else { 1.0 });
                let other = self.add(r, step);
                let wrong = if m == Math::Floor { self.less(a, r) } else { self.less(r, a) };
                self.op(Op::Select, &[wrong, other, r])
            }
            _ => self.nearest(a),
        };
        let r = self.copy_sign(r, a);
        self.op(Op::Select, &[self.op(Op::Math(Math::IsNan), &[a]), a, r])
    }

    /// Splits `a` into a number of 26 bits and the remainder.
    fn split(&self, a: Value) -> (Value, Value) {
        let bits = self.of_numbers(&Op::Bitcast, &[a]);
        let bits = self.op(Op::And, &[bits, self.integer(!0 << 27)]);
        let high = self.of_integers(&Op::Bitcast, &[bits]);
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

    /// Element number `i` of a table, for `i` in `from..to`, by binary search: drivers are slow to compile
    /// arrays.
    fn element(&self, table: &[f64], i: Value, from: usize, to: usize) -> Value {
        if to - from == 1 {
            return self.number(table[from]);
        }
        let middle = (from + to) / 2;
        let below = self.less(i, self.number(middle as f64));
        let (low, high) = (self.element(table, i, from, middle), self.element(table, i, middle, to));
        self.op(Op::Select, &[below, low, high])
    }
}

impl Ops for Build<'_, '_> {
    type V = Value;

    fn single(&self) -> bool {
        self.numbers.0 == Scalar::F32
    }

    fn number(&self, x: f64) -> Value {
        self.b.borrow_mut().float(self.numbers.0, x)
    }

    fn integer(&self, n: i64) -> Value {
        let bits = ir::scalar::from_i64(self.numbers.1, n);
        self.b.borrow_mut().constant(self.numbers.1, bits)
    }

    fn of_numbers(&self, op: &Op, args: &[Value]) -> Value {
        match op {
            Op::Math(Math::Round) if !self.fused => self.nearest(args[0]),
            Op::Math(Math::Trunc) if !self.fused => self.whole_number(Math::Trunc, args[0]),
            Op::Bitcast => self.op_to(Op::Bitcast, args[0], self.numbers.1.into()),
            _ => self.op(op.clone(), args),
        }
    }

    fn of_integers(&self, op: &Op, args: &[Value]) -> Value {
        match op {
            Op::Bitcast | Op::Convert => self.op_to(op.clone(), args[0], self.numbers.0.into()),
            _ => self.op(op.clone(), args),
        }
    }

    fn of_truths(&self, op: &Op, args: &[Value]) -> Value {
        self.op(op.clone(), args)
    }

    fn copy_sign(&self, a: Value, b: Value) -> Value {
        let sign = self.integer(1 << (self.numbers.0.bits() - 1));
        let bits = |x: Value| self.of_numbers(&Op::Bitcast, &[x]);
        let (a, b) = (bits(self.op(Op::Math(Math::Abs), &[a])), bits(b));
        let b = self.op(Op::And, &[b, sign]);
        self.of_integers(&Op::Bitcast, &[self.op(Op::Or, &[a, b])])
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

    fn either<const N: usize>(
        &self,
        _: Value,
        x: [Value; N],
        _: impl FnOnce([Value; N]) -> Value,
        far: impl FnOnce([Value; N]) -> Value,
    ) -> Value {
        far(x)
    }

    fn elsewhere(&self, m: Math, near: Value, x: Value, found: Value) -> Value {
        let here = self.b.borrow_mut().open();
        self.b.borrow_mut().close(vec![found]);
        let there = self.b.borrow_mut().open();
        let double = Build { numbers: (Scalar::F64, Scalar::I64), ..*self };
        let far = match self.single() {
            false => far_angle(&double, m, x),
            true => {
                let far = far_angle(&double, m, self.op_to(Op::Convert, x, Type::F64));
                self.op_to(Op::Convert, far, Type::F32)
            }
        };
        self.b.borrow_mut().close(vec![far]);
        self.b.borrow_mut().nest(Op::If, &[near], &[here, there])[0]
    }

    /// The elements' numbers are not constant, which keeps compilers from unrolling this loop, which hardly
    /// ever runs.
    fn sums(
        &self,
        table: &'static [f64],
        first: Value,
        n: usize,
        step: impl Fn(Value, [Value; 2]) -> [Value; 2],
    ) -> [Value; 2] {
        let (zero, one) = (self.number(0.0), self.number(1.0));
        let end = self.add(first, self.number(n as f64));
        let body = self.b.borrow_mut().open();
        let [i, a, b] = [(); 3].map(|()| self.b.borrow_mut().region_param(Type::F64));
        let element = self.element(table, i, 0, table.len());
        let [a, b] = step(element, [a, b]);
        let next = self.add(i, one);
        let again = self.less(next, end);
        self.b.borrow_mut().close(vec![again, next, a, b]);
        let sums = self.b.borrow_mut().nest(Op::Loop(LoopInfo::default()), &[first, zero, zero], &[body]);
        [sums[1], sums[2]]
    }
}
