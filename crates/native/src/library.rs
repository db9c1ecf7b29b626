//! Functions of numbers as operations with hardly a branch, for one thread and for lanes.
//!
//! Each function is written once, on the operations of [`Ops`]. LLVM's backend emits them, as functions of numbers or of
//! vectors; `runtime::own` computes them here, for the backend that runs a kernel until LLVM's code is there. So lanes, single
//! threads and both backends agree bit for bit. A `float` function is the double one, rounded, and so nearly always the
//! nearest float; but sines and cosines of floats are computed in single precision ([`is_single`]).
//!
//! Arguments are reduced to a small range (Cody and Waite's way, constants split so that products are exact), where a
//! polynomial is evaluated: those of doubles are in [`ir::polynomials`], those of floats here. Errors of the
//! functions are at most 2 units in the last place (`codegen-llvm/tests/mathematics.rs`).
//!
//! What is not here, or on a machine without fused multiplication and addition, is computed by the functions of the
//! interpreter; so are sines of numbers beyond [`FAR`].

use ir::Math;
use ir::polynomials::{ASIN, ATAN, COS, EXP, FAR, LOG, PIO2, SIN};

/// What functions of numbers are made of: doubles, integers of 64 bits and truth values, of one thread or of all lanes;
/// or floats, and integers of 32 bits.
#[expect(missing_docs, reason = "the names say it")]
pub trait Ops {
    /// A value of any of the three kinds.
    type V: Copy;

    /// Whether numbers are floats (and integers have 32 bits).
    fn single(&self) -> bool;
    fn float(&mut self, x: f64) -> Self::V;
    fn int(&mut self, n: i64) -> Self::V;
    fn yes(&mut self) -> Self::V;
    fn unary(&mut self, op: Unary, a: Self::V) -> Self::V;
    fn binary(&mut self, op: Binary, a: Self::V, b: Self::V) -> Self::V;
    fn compare(&mut self, op: Compare, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once.
    fn fma(&mut self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    fn select(&mut self, c: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// What `near` makes of `x` if `is_near` holds in all lanes, else what `far` makes of it. Where it holds in one, both
    /// give that the same bits.
    fn either(
        &mut self,
        is_near: Self::V,
        x: Self::V,
        near: impl FnOnce(&mut Self, Self::V) -> Self::V,
        far: impl FnOnce(&mut Self, Self::V) -> Self::V,
    ) -> Self::V;
    /// `found` where `near` holds, else what the interpreter's function gives.
    fn elsewhere(&mut self, m: Math, near: Self::V, x: Self::V, found: Self::V) -> Self::V;
}

/// Operations on one value. `Round` is to the nearest whole number, of two the even one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Unary {
    Neg,
    Abs,
    Round,
    Trunc,
    Sqrt,
    /// The bits of a double.
    Bits,
    /// The double of these bits.
    OfBits,
    /// The double of a signed integer.
    OfInt,
}

/// Operations on two values of a kind: doubles where the name ends in F, else integers; truth values have the bitwise
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Binary {
    AddF,
    SubF,
    MulF,
    DivF,
    /// The first with the sign of the second, both doubles.
    CopySign,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Shl,
    Ashr,
}

/// Comparisons: of doubles, where a NaN fits none but `Unordered`; the last two of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Compare {
    Less,
    LessOrSame,
    Same,
    MoreOrSame,
    Unordered,
    Differ,
    Below,
}

/// As [`SIN`], for floats: by `r^2` up to 0.64; error 1.3e-8.
const SIN32: [f64; 3] = [-0.166666641831398, 0.00833270326256752, -0.0001957844360731542];
/// As [`COS`], for floats: by `r^2` up to 0.64; error 9e-10.
const COS32: [f64; 3] = [0.0416666641831398, -0.0013888258254155517, 2.4538474463042803e-05];

/// π/2 in three floats, each what the one before leaves.
const PIO2_32: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];
/// π/2 rounded, and the rest.
const HALF_PI: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// ln 2 in two parts, the first of 41 bits.
const LN2: (f64, f64) = (0.693147180559663, 2.8235290563031577e-13);
/// log10 2 in two parts, the first of 41 bits.
const LOG10_2: (f64, f64) = (0.30102999566383914, 1.42050232272661e-13);

/// The same for floats: the number of quarter turns has 16 bits, and the first step of the reduction is exact.
const FAR32: f64 = 1.0e5;

/// Whether a function of floats is computed in single precision, by operations that are of floats and of 32-bit numbers.
pub const fn is_single(m: Math) -> bool {
    matches!(m, Math::Sin | Math::Cos)
}

/// Whether a function is here.
pub fn has(m: Math, double: bool) -> bool {
    match m {
        Math::Sin
        | Math::Cos
        | Math::Tan
        | Math::Asin
        | Math::Acos
        | Math::Atan
        | Math::Atan2
        | Math::Sinh
        | Math::Cosh
        | Math::Tanh
        | Math::Exp
        | Math::Exp2
        | Math::Log
        | Math::Log2
        | Math::Log10 => true,
        // The logarithm would have to be exact to 63 bits.
        Math::Pow => !double,
        // Two units in the last place cannot be promised.
        Math::Asinh | Math::Acosh | Math::Atanh => !double,
        _ => false,
    }
}

/// A function of doubles. [`has`] says which there are.
#[inline(always)]
pub fn function<O: Ops>(ops: &mut O, m: Math, args: &[O::V]) -> O::V {
    Library { o: ops }.function(m, args)
}

/// The functions, on some operations.
struct Library<'o, O> {
    o: &'o mut O,
}

impl<O: Ops> Library<'_, O> {
    #[inline(always)]
    fn function(&mut self, m: Math, args: &[O::V]) -> O::V {
        let a = args[0];
        match m {
            Math::Exp => self.exp(a),
            Math::Exp2 => self.exp2(a),
            Math::Log => self.log(a),
            Math::Log2 => {
                let (k, f) = self.log_parts(a);
                let zero = self.num(0.0);
                let r = self.log_of(zero, f);
                let by = self.num(std::f64::consts::LOG2_E);
                let r = self.fma(r, by, k);
                self.log_ends(a, r)
            }
            Math::Log10 => {
                let (k, f) = self.log_parts(a);
                let zero = self.num(0.0);
                let r = self.log_of(zero, f);
                let (hi, lo) = (self.num(LOG10_2.0), self.num(LOG10_2.1));
                let by = self.num(std::f64::consts::LOG10_E);
                let low = self.mul(k, lo);
                let low = self.fma(r, by, low);
                let r = self.fma(k, hi, low);
                self.log_ends(a, r)
            }
            Math::Sin | Math::Cos | Math::Tan => self.circular(m, a),
            Math::Atan => {
                let one = self.num(1.0);
                let (t, _) = self.angle(a, one);
                let t = self.with_sign(t, a);
                self.or_nan(t, a)
            }
            Math::Atan2 => self.atan2(a, args[1]),
            Math::Asin | Math::Acos => self.arc(m, a),
            Math::Tanh => self.tanh(a),
            Math::Sinh | Math::Cosh => self.hyperbolic(m, a),
            Math::Pow => self.pow(a, args[1]),
            Math::Asinh => self.asinh(a),
            Math::Acosh => self.acosh(a),
            Math::Atanh => self.atanh(a),
            _ => a,
        }
    }

    // ---- operations

    #[inline(always)]
    fn num(&mut self, x: f64) -> O::V {
        self.o.float(x)
    }

    #[inline(always)]
    fn add(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::AddF, a, b)
    }

    #[inline(always)]
    fn sub(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::SubF, a, b)
    }

    #[inline(always)]
    fn mul(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::MulF, a, b)
    }

    #[inline(always)]
    fn div(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::DivF, a, b)
    }

    #[inline(always)]
    fn fma(&mut self, a: O::V, b: O::V, c: O::V) -> O::V {
        self.o.fma(a, b, c)
    }

    #[inline(always)]
    fn neg(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Neg, a)
    }

    #[inline(always)]
    fn abs(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Abs, a)
    }

    #[inline(always)]
    fn round(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Round, a)
    }

    #[inline(always)]
    fn select(&mut self, c: O::V, a: O::V, b: O::V) -> O::V {
        self.o.select(c, a, b)
    }

    #[inline(always)]
    fn less(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.compare(Compare::Less, a, b)
    }

    #[inline(always)]
    fn same(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.compare(Compare::Same, a, b)
    }

    #[inline(always)]
    fn int(&mut self, a: O::V) -> O::V {
        let (magic, zero) = self.magic();
        let at = self.num(magic);
        let sum = self.add(a, at);
        let bits = self.bits(sum);
        let constant = self.o.int(zero);
        self.o.binary(Binary::Sub, bits, constant)
    }

    /// What makes an integer of a number, and the bits that stand for 0.
    fn magic(&self) -> (f64, i64) {
        // A whole number below 2^51 stands in the last bits of its sum with 1.5 * 2^52, of floats one below 2^22 in that
        // with 1.5 * 2^23. A NaN gives any number, which nobody looks at.
        if self.o.single() {
            (12_582_912.0, i64::from(12_582_912.0_f32.to_bits()))
        } else {
            (6_755_399_441_055_744.0, 6_755_399_441_055_744.0_f64.to_bits() as i64)
        }
    }

    #[inline(always)]
    fn bits(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::Bits, a)
    }

    #[inline(always)]
    fn float(&mut self, a: O::V) -> O::V {
        self.o.unary(Unary::OfBits, a)
    }

    /// `|a|` with the sign of `b`.
    #[inline(always)]
    fn with_sign(&mut self, a: O::V, b: O::V) -> O::V {
        self.o.binary(Binary::CopySign, a, b)
    }

    /// `r`, but NaN where `a` is.
    #[inline(always)]
    fn or_nan(&mut self, r: O::V, a: O::V) -> O::V {
        let nan = self.o.compare(Compare::Unordered, a, a);
        self.select(nan, a, r)
    }

    /// `c[0] + c[1] z + …`, by Horner's rule.
    #[inline(always)]
    fn polynomial(&mut self, c: &[f64], z: O::V) -> O::V {
        let mut sum = self.num(c[c.len() - 1]);
        for &c in c[..c.len() - 1].iter().rev() {
            let c = self.num(c);
            sum = self.fma(sum, z, c);
        }
        sum
    }

    // ---- exponentials

    #[inline(always)]
    fn exp(&mut self, a: O::V) -> O::V {
        // Neither the argument nor the result is extreme.
        let most = self.num(708.0);
        let size = self.abs(a);
        let is_near = self.o.compare(Compare::LessOrSame, size, most);
        self.o.either(
            is_near,
            a,
            |o, a| {
                let mut this = Library { o };
                let (p, k) = this.exp_far(a);
                let one = this.num(1.0);
                let p = this.add(one, p);
                // The result is no more extreme than `p 2^k` by itself, so `k` is added to the exponent.
                let up = this.exponent(k);
                let bits = this.bits(p);
                let bits = this.o.binary(Binary::Add, bits, up);
                this.float(bits)
            },
            |o, a| {
                let mut this = Library { o };
                let (p, k) = this.exp_parts(a);
                let one = this.num(1.0);
                let p = this.add(one, p);
                let r = this.scaled(p, k);
                this.exp_ends(a, r)
            },
        )
    }

    /// The exponent's bits of `2^k`, less those of 1, of a whole number as [`Self::exp_far`] gives it.
    #[inline(always)]
    fn exponent(&mut self, k: O::V) -> O::V {
        // What stands for 0 in the sum has zeros in these bits.
        let at = self.num(self.magic().0);
        let sum = self.add(k, at);
        let bits = self.bits(sum);
        let constant = self.o.int(52);
        self.o.binary(Binary::Shl, bits, constant)
    }

    /// `e^x = 2^k (1 + p)`.
    #[inline(always)]
    fn exp_parts(&mut self, x: O::V) -> (O::V, O::V) {
        let (low, high) = (self.num(-750.0), self.num(710.0));
        let under = self.less(x, low);
        let x = self.select(under, low, x);
        let over = self.less(high, x);
        let x = self.select(over, high, x);
        self.exp_far(x)
    }

    /// `p 2^k`, right for subnormal results.
    #[inline(always)]
    fn scaled(&mut self, p: O::V, k: O::V) -> O::V {
        let k = self.int(k);
        let constant = self.o.int(1);
        let half = self.o.binary(Binary::Ashr, k, constant);
        let rest = self.o.binary(Binary::Sub, k, half);
        let mut r = p;
        for n in [half, rest] {
            let constant = self.o.int(1023);
            let n = self.o.binary(Binary::Add, n, constant);
            let constant = self.o.int(52);
            let n = self.o.binary(Binary::Shl, n, constant);
            let n = self.float(n);
            r = self.mul(r, n);
        }
        r
    }

    #[inline(always)]
    fn exp_ends(&mut self, x: O::V, r: O::V) -> O::V {
        let high = self.num(709.782712893384);
        let over = self.less(high, x);
        let infinity = self.num(f64::INFINITY);
        let r = self.select(over, infinity, r);
        self.or_nan(r, x)
    }

    #[inline(always)]
    fn exp2(&mut self, x: O::V) -> O::V {
        let (low, high) = (self.num(-1080.0), self.num(1025.0));
        let under = self.less(x, low);
        let y = self.select(under, low, x);
        let over = self.less(high, y);
        let y = self.select(over, high, y);
        let k = self.round(y);
        let r = self.sub(y, k);
        let by = self.num(std::f64::consts::LN_2);
        let t = self.mul(r, by);
        // What rounding took from t, and from ln 2.
        let back = self.neg(t);
        let rest = self.fma(r, by, back);
        let low = self.num(2.3190468138462996e-17);
        let rest = self.fma(r, low, rest);
        let q = self.polynomial(&EXP, t);
        let tt = self.mul(t, t);
        let p = self.fma(tt, q, rest);
        let p = self.add(t, p);
        let one = self.num(1.0);
        let p = self.add(one, p);
        let e = self.scaled(p, k);
        let high = self.num(1024.0);
        let too_far = self.o.compare(Compare::MoreOrSame, x, high);
        let infinity = self.num(f64::INFINITY);
        let e = self.select(too_far, infinity, e);
        self.or_nan(e, x)
    }

    /// `e^x - 1` for `x` from 0 to 40.
    #[inline(always)]
    fn minus_one(&mut self, x: O::V) -> O::V {
        let (p, k) = self.exp_far(x);
        let one = self.num(1.0);
        let (up, bits) = (self.exponent(k), self.bits(one));
        let bits = self.o.binary(Binary::Add, bits, up);
        let power = self.float(bits);
        let less = self.sub(power, one);
        self.fma(p, power, less)
    }

    #[inline(always)]
    fn tanh(&mut self, x: O::V) -> O::V {
        let a = self.abs(x);
        let most = self.num(20.0);
        let over = self.less(most, a);
        let b = self.select(over, most, a);
        let twice = self.add(b, b);
        let t = self.minus_one(twice);
        let two = self.num(2.0);
        let under = self.add(t, two);
        let r = self.div(t, under);
        // What the sum and the quotient lost; one over the sum is (1 - tanh) / 2.
        let of_two = self.sub(under, t);
        let of_t = self.sub(under, of_two);
        let lost_t = self.sub(t, of_t);
        let lost_two = self.sub(two, of_two);
        let lost = self.add(lost_t, lost_two);
        let back = self.neg(r);
        let rest = self.fma(back, under, t);
        let rest = self.fma(back, lost, rest);
        let (one, half) = (self.num(1.0), self.num(0.5));
        let over = self.sub(one, r);
        let over = self.mul(half, over);
        let r = self.fma(rest, over, r);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    #[inline(always)]
    fn hyperbolic(&mut self, m: Math, x: O::V) -> O::V {
        let a = self.abs(x);
        let one = self.num(1.0);
        // Half of the exponential, which is finite where the result is.
        let (most, half) = (self.num(711.0), self.num(0.5));
        let over = self.less(most, a);
        let b = self.select(over, most, a);
        let (p, k) = self.exp_far(b);
        let p = self.add(one, p);
        let k1 = self.sub(k, one);
        let e = self.scaled(p, k1);
        let infinity = self.num(f64::INFINITY);
        let e = self.select(over, infinity, e);
        if m == Math::Cosh {
            let quarter = self.num(0.25);
            let rest = self.div(quarter, e);
            let r = self.add(e, rest);
            return self.or_nan(r, x);
        }
        let most = self.num(22.0);
        let far = self.less(most, a);
        let b = self.select(far, most, a);
        let t = self.minus_one(b);
        let under = self.add(t, one);
        let rest = self.div(t, under);
        let near = self.add(t, rest);
        let near = self.mul(half, near);
        let r = self.select(far, e, near);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    /// As [`Self::exp_parts`], up to 711.
    #[inline(always)]
    fn exp_far(&mut self, x: O::V) -> (O::V, O::V) {
        // The nearest whole number: what is added leaves no room for a fraction.
        let (turns, magic) = (self.num(std::f64::consts::LOG2_E), self.num(self.magic().0));
        let k = self.fma(x, turns, magic);
        let k = self.sub(k, magic);
        let back = self.neg(k);
        let (hi, lo) = (self.num(LN2.0), self.num(LN2.1));
        let high = self.fma(back, hi, x);
        let r = self.fma(back, lo, high);
        let rest = self.sub(high, r);
        let rest = self.fma(back, lo, rest);
        let q = self.polynomial(&EXP, r);
        let rr = self.mul(r, r);
        let p = self.fma(rr, q, rest);
        (self.add(r, p), k)
    }

    // ---- logarithms

    #[inline(always)]
    fn log(&mut self, a: O::V) -> O::V {
        let (k, f) = self.log_parts(a);
        let r = self.log_of(k, f);
        self.log_ends(a, r)
    }

    /// `x = 2^k (1 + f)` with `1 + f` between the roots of 1/2 and 2.
    #[inline(always)]
    fn log_parts(&mut self, x: O::V) -> (O::V, O::V) {
        let (least, up) = (self.num(f64::MIN_POSITIVE), self.num(18014398509481984.0));
        let small = self.less(x, least);
        let larger = self.mul(x, up);
        let y = self.select(small, larger, x);
        let bits = self.bits(y);
        // So that the exponent changes at the root of 1/2.
        let root = self.o.int(0x3fe6_a09e_667f_3bcd);
        let from = self.o.binary(Binary::Sub, bits, root);
        let constant = self.o.int(52);
        let k = self.o.binary(Binary::Ashr, from, constant);
        let constant = self.o.int(52);
        let shift = self.o.binary(Binary::Shl, k, constant);
        let mantissa = self.o.binary(Binary::Sub, bits, shift);
        let m = self.float(mantissa);
        let one = self.num(1.0);
        let f = self.sub(m, one);
        let k = self.o.unary(Unary::OfInt, k);
        let (bias, zero) = (self.num(54.0), self.num(0.0));
        let bias = self.select(small, bias, zero);
        (self.sub(k, bias), f)
    }

    /// `k ln 2 + ln(1 + f)`.
    #[inline(always)]
    fn log_of(&mut self, k: O::V, f: O::V) -> O::V {
        let (two, half) = (self.num(2.0), self.num(0.5));
        let under = self.add(two, f);
        let s = self.div(f, under);
        let z = self.mul(s, s);
        let p = self.polynomial(&LOG, z);
        let p = self.mul(p, z);
        let hf = self.mul(half, f);
        let h = self.mul(hf, f);
        // ln(1 + f) = f - (h - s (h + p)).
        let sum = self.add(h, p);
        let (hi, lo) = (self.num(LN2.0), self.num(LN2.1));
        let low = self.mul(k, lo);
        let inner = self.fma(s, sum, low);
        let rest = self.sub(h, inner);
        let rest = self.sub(rest, f);
        let back = self.neg(rest);
        self.fma(k, hi, back)
    }

    #[inline(always)]
    fn log_ends(&mut self, x: O::V, r: O::V) -> O::V {
        let (zero, infinity) = (self.num(0.0), self.num(f64::INFINITY));
        let top = self.same(x, infinity);
        let r = self.select(top, infinity, r);
        let bottom = self.num(f64::NEG_INFINITY);
        let none = self.same(x, zero);
        let r = self.select(none, bottom, r);
        let below = self.less(x, zero);
        let nan = self.num(f64::NAN);
        let r = self.select(below, nan, r);
        self.or_nan(r, x)
    }

    // ---- angles

    #[inline(always)]
    fn circular(&mut self, m: Math, x: O::V) -> O::V {
        let single = self.o.single();
        let far = self.num(if single { FAR32 } else { FAR });
        let a = self.abs(x);
        let near = self.o.compare(Compare::LessOrSame, a, far);
        let zero = self.num(0.0);
        let y = self.select(near, x, zero);
        let by = self.num(std::f64::consts::FRAC_2_PI);
        let k = self.mul(y, by);
        let k = self.round(k);
        let (r, rest) = if single { self.reduced_single(y, k) } else { self.reduced(y, k) };
        let (sines, cosines): (&[f64], &[f64]) = if single { (&SIN32, &COS32) } else { (&SIN, &COS) };
        let (one, half) = (self.num(1.0), self.num(0.5));
        let z = self.mul(r, r);
        let hz = self.mul(half, z);
        let w = self.sub(one, hz);
        // sin = r + (r z S + rest (1 - z/2)), cos = w + ((1 - w - z/2) + (z z C - r rest)).
        let s = self.polynomial(sines, z);
        let zr = self.mul(z, r);
        let turned = self.mul(rest, w);
        let s = self.fma(zr, s, turned);
        let sin = self.add(r, s);
        // Of a zero the sign stays.
        let none = self.same(y, zero);
        let sin = self.select(none, y, sin);
        let c = self.polynomial(cosines, z);
        let zz = self.mul(z, z);
        let turned = self.mul(r, rest);
        let turned = self.neg(turned);
        let c = self.fma(zz, c, turned);
        let lost = self.sub(one, w);
        let lost = self.sub(lost, hz);
        let c = self.add(lost, c);
        let cos = self.add(w, c);
        let quarter = self.int(k);
        let constant = self.o.int(1);
        let odd = self.o.binary(Binary::And, quarter, constant);
        let constant = self.o.int(0);
        let odd = self.o.compare(Compare::Differ, odd, constant);
        let found = match m {
            Math::Tan => {
                let above = self.select(odd, cos, sin);
                let under = self.select(odd, sin, cos);
                let t = self.div(above, under);
                let back = self.neg(t);
                self.select(odd, back, t)
            }
            _ => {
                let (even, other, turn) = if m == Math::Sin { (sin, cos, 0) } else { (cos, sin, 1) };
                let v = self.select(odd, other, even);
                let constant = self.o.int(turn);
                let q = self.o.binary(Binary::Add, quarter, constant);
                let constant = self.o.int(2);
                let q = self.o.binary(Binary::And, q, constant);
                let constant = self.o.int(0);
                let minus = self.o.compare(Compare::Differ, q, constant);
                let back = self.neg(v);
                self.select(minus, back, v)
            }
        };
        self.o.elsewhere(m, near, x, found)
    }

    /// `y - k π/2` in two parts.
    #[inline(always)]
    fn reduced(&mut self, y: O::V, k: O::V) -> (O::V, O::V) {
        let [p1, p2, p3] = PIO2.map(|p| self.num(p));
        let first = self.mul(k, p1);
        let r1 = self.sub(y, first);
        let second = self.mul(k, p2);
        let r2 = self.sub(r1, second);
        let lost = self.sub(r1, r2);
        let lost = self.sub(lost, second);
        let back = self.neg(k);
        let low = self.fma(back, p3, lost);
        let r = self.add(r2, low);
        let rest = self.sub(r2, r);
        let rest = self.add(rest, low);
        (r, rest)
    }

    /// The same for floats. What is left after the first step is a multiple of 2^-23 below 1 (or of what `y` is a
    /// multiple of), so that step is exact.
    #[inline(always)]
    fn reduced_single(&mut self, y: O::V, k: O::V) -> (O::V, O::V) {
        let [p1, p2, p3] = PIO2_32.map(|p| self.num(p));
        let back = self.neg(k);
        let first = self.fma(back, p1, y);
        let second = self.mul(k, p2);
        let minus = self.neg(second);
        let lost = self.fma(k, p2, minus);
        let r1 = self.sub(first, second);
        let rest = self.sub(first, r1);
        let rest = self.sub(rest, second);
        let rest = self.sub(rest, lost);
        let rest = self.fma(back, p3, rest);
        let r = self.add(r1, rest);
        let over = self.sub(r1, r);
        (r, self.add(over, rest))
    }

    /// The angle of `|y| / |x|`, from 0 to a quarter turn; and whether `y` is larger.
    #[inline(always)]
    fn angle(&mut self, y: O::V, x: O::V) -> (O::V, O::V) {
        let (a, b) = (self.abs(y), self.abs(x));
        let steep = self.less(b, a);
        let top = self.select(steep, b, a);
        let under = self.select(steep, a, b);
        // Near 45 degrees, from there.
        let limit = self.num(0.41421356237309503);
        let limit = self.mul(limit, under);
        let turned = self.less(limit, top);
        let less = self.sub(top, under);
        let more = self.add(top, under);
        let above = self.select(turned, less, top);
        let below = self.select(turned, more, under);
        let t = self.div(above, below);
        // 0/0 and ∞/∞: the corner of the square.
        let zero = self.num(0.0);
        let none = self.same(under, zero);
        let t = self.select(none, zero, t);
        let infinity = self.num(f64::INFINITY);
        let both = self.same(top, infinity);
        let t = self.select(both, zero, t);
        let huge = self.same(under, infinity);
        let constant = self.o.yes();
        let not_both = self.o.binary(Binary::Xor, both, constant);
        let flat = self.o.binary(Binary::And, huge, not_both);
        let t = self.select(flat, zero, t);
        let turned = self.o.binary(Binary::Or, turned, both);
        let constant = self.o.yes();
        let not_flat = self.o.binary(Binary::Xor, flat, constant);
        let turned = self.o.binary(Binary::And, turned, not_flat);
        let z = self.mul(t, t);
        let p = self.polynomial(&ATAN, z);
        let zt = self.mul(z, t);
        // What 45 degrees are besides their rounded number.
        let (eighth, low) = (self.num(std::f64::consts::FRAC_PI_4), self.num(3.061616997868383e-17));
        let low = self.select(turned, low, zero);
        let p = self.fma(zt, p, low);
        let base = self.select(turned, eighth, zero);
        let sum = self.add(t, p);
        let flat_angle = self.add(base, sum);
        let (quarter, low) = (self.num(HALF_PI.0), self.num(HALF_PI.1));
        let rest = self.sub(low, sum);
        let steep_base = self.sub(quarter, base);
        let steep_angle = self.add(steep_base, rest);
        (self.select(steep, steep_angle, flat_angle), steep)
    }

    #[inline(always)]
    fn atan2(&mut self, y: O::V, x: O::V) -> O::V {
        let (t, _) = self.angle(y, x);
        let bits = self.bits(x);
        let constant = self.o.int(0);
        let left = self.o.compare(Compare::Below, bits, constant);
        let (half, low) = (self.num(std::f64::consts::PI), self.num(2.0 * HALF_PI.1));
        let rest = self.sub(low, t);
        let other = self.add(half, rest);
        let t = self.select(left, other, t);
        let t = self.with_sign(t, y);
        let t = self.or_nan(t, x);
        self.or_nan(t, y)
    }

    #[inline(always)]
    fn arc(&mut self, m: Math, x: O::V) -> O::V {
        let (half, one, two) = (self.num(0.5), self.num(1.0), self.num(2.0));
        let a = self.abs(x);
        let outer = self.less(half, a);
        let square = self.mul(x, x);
        let rest = self.sub(one, a);
        let rest = self.mul(half, rest);
        let z = self.select(outer, rest, square);
        let root = self.o.unary(Unary::Sqrt, z);
        let s = self.select(outer, root, a);
        let p = self.polynomial(&ASIN, z);
        let zs = self.mul(z, s);
        let p = self.mul(zs, p);
        // What the root lacks.
        let back = self.neg(root);
        let lack = self.fma(back, root, z);
        let twice = self.add(root, root);
        let lack = self.div(lack, twice);
        let zero = self.num(0.0);
        let none = self.same(root, zero);
        let lack = self.select(none, zero, lack);
        let lack = self.select(outer, lack, zero);
        let p = self.add(p, lack);
        let (quarter, low) = (self.num(HALF_PI.0), self.num(HALF_PI.1));
        let r = if m == Math::Asin {
            let inner = self.add(s, p);
            // π/2 - 2 (s + p), the large parts first.
            let twice_s = self.mul(two, s);
            let twice_p = self.mul(two, p);
            let small = self.sub(low, twice_p);
            let large = self.sub(quarter, twice_s);
            let lost = self.sub(quarter, large);
            let lost = self.sub(lost, twice_s);
            let small = self.add(small, lost);
            let far = self.add(large, small);
            let r = self.select(outer, far, inner);
            self.with_sign(r, x)
        } else {
            let below = self.less(x, zero);
            let sum = self.add(s, p);
            let near_one = self.mul(two, sum);
            // π - 2 (s + p)
            let (straight, low2) = (self.num(std::f64::consts::PI), self.num(2.0 * HALF_PI.1));
            let twice_s = self.mul(two, s);
            let twice_p = self.mul(two, p);
            let small = self.sub(low2, twice_p);
            let large = self.sub(straight, twice_s);
            let lost = self.sub(straight, large);
            let lost = self.sub(lost, twice_s);
            let small = self.add(small, lost);
            let near_minus_one = self.add(large, small);
            let far = self.select(below, near_minus_one, near_one);
            // π/2 - (x + p of the sign of x)
            let p = self.with_sign(p, x);
            let small = self.sub(low, p);
            let large = self.sub(quarter, x);
            let lost = self.sub(quarter, large);
            let lost = self.sub(lost, x);
            let small = self.add(small, lost);
            let inner = self.add(large, small);
            self.select(outer, far, inner)
        };
        let outside = self.less(one, a);
        let nan = self.num(f64::NAN);
        let r = self.select(outside, nan, r);
        self.or_nan(r, x)
    }

    // ---- inverse hyperbolic functions, of numbers that are floats

    /// `ln(1 + u)`: what rounding took from the sum is added to first order.
    #[inline(always)]
    fn log_of_more(&mut self, u: O::V) -> O::V {
        let one = self.num(1.0);
        let sum = self.add(one, u);
        let log = self.log(sum);
        let back = self.sub(sum, one);
        let lost = self.sub(u, back);
        let lost = self.div(lost, sum);
        let infinity = self.num(f64::INFINITY);
        let top = self.same(u, infinity);
        let r = self.add(log, lost);
        self.select(top, infinity, r)
    }

    #[inline(always)]
    fn asinh(&mut self, x: O::V) -> O::V {
        let one = self.num(1.0);
        let a = self.abs(x);
        // a + sqrt(1 + a²) - 1
        let square = self.mul(a, a);
        let more = self.add(one, square);
        let root = self.o.unary(Unary::Sqrt, more);
        let under = self.add(one, root);
        let rest = self.div(square, under);
        let u = self.add(a, rest);
        let infinity = self.num(f64::INFINITY);
        let top = self.same(a, infinity);
        let u = self.select(top, infinity, u);
        let r = self.log_of_more(u);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    #[inline(always)]
    fn acosh(&mut self, x: O::V) -> O::V {
        let (one, two) = (self.num(1.0), self.num(2.0));
        // x + sqrt(x² - 1) - 1
        let t = self.sub(x, one);
        let more = self.add(t, two);
        let square = self.mul(t, more);
        let root = self.o.unary(Unary::Sqrt, square);
        let u = self.add(t, root);
        let r = self.log_of_more(u);
        let below = self.less(x, one);
        let nan = self.num(f64::NAN);
        let r = self.select(below, nan, r);
        self.or_nan(r, x)
    }

    #[inline(always)]
    fn atanh(&mut self, x: O::V) -> O::V {
        let (one, half) = (self.num(1.0), self.num(0.5));
        let a = self.abs(x);
        let twice = self.add(a, a);
        let under = self.sub(one, a);
        let u = self.div(twice, under);
        let r = self.log_of_more(u);
        let r = self.mul(half, r);
        let beyond = self.less(one, a);
        let nan = self.num(f64::NAN);
        let r = self.select(beyond, nan, r);
        let r = self.with_sign(r, x);
        self.or_nan(r, x)
    }

    // ---- powers, of numbers that are floats

    #[inline(always)]
    fn pow(&mut self, x: O::V, y: O::V) -> O::V {
        let (zero, one, half) = (self.num(0.0), self.num(1.0), self.num(0.5));
        let infinity = self.num(f64::INFINITY);
        let a = self.abs(x);
        let log = self.log(a);
        let product = self.mul(y, log);
        let r = self.exp(product);
        let unit = self.same(a, one);
        let r = self.select(unit, one, r);
        // Whole and odd exponents.
        let whole = self.o.unary(Unary::Trunc, y);
        let whole = self.same(whole, y);
        let halved = self.mul(y, half);
        let even = self.o.unary(Unary::Trunc, halved);
        let even = self.same(even, halved);
        let constant = self.o.yes();
        let not_even = self.o.binary(Binary::Xor, even, constant);
        let odd = self.o.binary(Binary::And, whole, not_even);
        let bits = self.bits(x);
        let constant = self.o.int(0);
        let negative = self.o.compare(Compare::Below, bits, constant);
        let flips = self.o.binary(Binary::And, negative, odd);
        let back = self.neg(r);
        let r = self.select(flips, back, r);
        let below = self.less(x, zero);
        let top = self.same(a, infinity);
        let constant = self.o.yes();
        let not_top = self.o.binary(Binary::Xor, top, constant);
        let constant = self.o.yes();
        let not_whole = self.o.binary(Binary::Xor, whole, constant);
        let bad = self.o.binary(Binary::And, below, not_top);
        let bad = self.o.binary(Binary::And, bad, not_whole);
        let nan = self.num(f64::NAN);
        let r = self.select(bad, nan, r);
        let r = self.or_nan(r, x);
        let r = self.or_nan(r, y);
        let always = self.same(x, one);
        let r = self.select(always, one, r);
        let none = self.same(y, zero);
        self.select(none, one, r)
    }
}
