//! Functions of numbers as code without branches, for one thread and for lanes.
//!
//! Each function is written once, on [`Val`]s, and emitted as an LLVM function of numbers or of vectors; so lanes and
//! single threads compute the same operations and agree bit for bit. Everything is computed in double precision; a
//! `float` function is the double one, rounded, and so nearly always the nearest float.
//!
//! Arguments are reduced to a small range (Cody and Waite's way, constants split so that products are exact), where a
//! polynomial is evaluated. The coefficients come from interpolation at Chebyshev nodes in 60 digits, done for this
//! file; beside each list stands the largest error of the polynomial with its coefficients rounded. Errors of the
//! functions are at most 2 units in the last place (`tests/mathematics.rs`).
//!
//! What is not here, or on a machine without fused multiplication and addition, is computed lane by lane by the
//! functions of the interpreter; so are sines of numbers beyond [`FAR`].

use ir::Math;
use native::runtime::libm_name;

use crate::text::{El, Id, Val, Writer};

/// `(e^r - 1 - r) / r^2` for `r` in ±0.3467; error 4e-17.
const EXP: [f64; 11] = [
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.00833333333332612,
    0.0013888888888883737,
    0.00019841269874873975,
    2.480158732558584e-05,
    2.755725533255441e-06,
    2.7557273594799413e-07,
    2.510524515390137e-08,
    2.0914707069612355e-09,
];

/// `(ln((1 + s) / (1 - s)) / s - 2) / s^2` by `s^2` up to 0.02944; error 4e-17.
const LOG: [f64; 8] = [
    0.6666666666666666,
    0.4000000000000088,
    0.28571428570803253,
    0.22222222391794727,
    0.18181795631498243,
    0.15386240172447838,
    0.13268760562036724,
    0.1308675766695207,
];

/// `(sin(r) / r - 1) / r^2` by `r^2` up to 0.6171; error 9e-18.
const SIN: [f64; 7] = [
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841265055,
    2.755731921933165e-06,
    -2.505210622983663e-08,
    1.6058531205225323e-10,
    -7.586672732233366e-13,
];

/// `(cos(r) - 1 + r^2 / 2) / r^4` by `r^2` up to 0.6171; error 2e-18.
const COS: [f64; 7] = [
    0.041666666666666664,
    -0.0013888888888888887,
    2.4801587301584642e-05,
    -2.755731922139864e-07,
    2.08767557896288e-09,
    -1.1470460657567371e-11,
    4.745858344161125e-14,
];

/// `(atan(t) / t - 1) / t^2` by `t^2` up to 0.17158; error 2e-17.
const ATAN: [f64; 12] = [
    -0.3333333333333333,
    0.19999999999999804,
    -0.14285714285659806,
    0.11111111105153429,
    -0.09090908753400499,
    0.07692296372129964,
    -0.06666424833613552,
    0.05878928398517232,
    -0.052304498567092406,
    0.04551573086664191,
    -0.034570044186095536,
    0.016285183029865667,
];

/// `(asin(t) / t - 1) / t^2` by `t^2` up to 0.25; error 2e-17.
const ASIN: [f64; 13] = [
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
];

/// π/2 in three parts, the first two of 33 bits.
const PIO2: [f64; 3] = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21];
/// π/2 rounded, and the rest.
const HALF_PI: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
/// ln 2 in two parts, the first of 41 bits.
const LN2: (f64, f64) = (0.693147180559663, 2.8235290563031577e-13);
/// log10 2 in two parts, the first of 41 bits.
const LOG10_2: (f64, f64) = (0.30102999566383914, 1.42050232272661e-13);

/// Beyond this a sine is computed lane by lane: the number of quarter turns must have at most 20 bits.
pub(crate) const FAR: f64 = 1.0e6;

/// Whether a function is here.
pub(crate) fn has(m: Math, double: bool) -> bool {
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
        _ => false,
    }
}

/// The name of a function at a width.
pub(crate) fn name(m: Math, el: El, lanes: u32) -> String {
    format!("m_{}_{}_{lanes}", m.name(), el.bits())
}

/// The text of a function: `f64` or `f32`, of one number or of vectors.
pub(crate) fn define(m: Math, el: El, lanes: u32) -> (String, Writer) {
    let var = lanes > 1;
    let mut w = Writer::new(lanes);
    let params: Vec<Val> = (0..m.arity()).map(|_| w.reg(el, var)).collect();
    let list: Vec<String> = params.iter().map(|&p| w.typed(p)).collect();
    let mut lib = Library { w, var };
    let args: Vec<Val> =
        params.iter().map(|&p| if el == El::F32 { lib.w.cast("fpext", p, El::F64) } else { p }).collect();
    let r = lib.function(m, &args);
    let r = if el == El::F32 { lib.w.cast("fptrunc", r, El::F32) } else { r };
    let mut w = lib.w;
    let (ty, r) = (w.ty(el, var), w.typed(r));
    w.line(format_args!("ret {r}"));
    let head = format!(
        "define internal fastcc {ty} @{}({}) nounwind willreturn memory(none)",
        name(m, el, lanes),
        list.join(", ")
    );
    (head, w)
}

/// Emits the operations of a function.
struct Library {
    w: Writer,
    var: bool,
}

impl Library {
    fn function(&mut self, m: Math, args: &[Val]) -> Val {
        let a = args[0];
        match m {
            Math::Exp => {
                let (p, k) = self.exp_parts(a);
                let one = self.num(1.0);
                let p = self.add(one, p);
                let r = self.scaled(p, k);
                self.exp_ends(a, r)
            }
            Math::Exp2 => self.exp2(a),
            Math::Log => {
                let (k, f) = self.log_parts(a);
                let r = self.log_of(k, f);
                self.log_ends(a, r)
            }
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
            _ => a,
        }
    }

    // ---- operations

    fn num(&self, x: f64) -> Val {
        Val::bits(El::F64, x.to_bits())
    }

    fn add(&mut self, a: Val, b: Val) -> Val {
        self.w.binary("fadd", a, b)
    }

    fn sub(&mut self, a: Val, b: Val) -> Val {
        self.w.binary("fsub", a, b)
    }

    fn mul(&mut self, a: Val, b: Val) -> Val {
        self.w.binary("fmul", a, b)
    }

    fn div(&mut self, a: Val, b: Val) -> Val {
        self.w.binary("fdiv", a, b)
    }

    fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        self.w.intrinsic("fma", &[a, b, c], "")
    }

    fn neg(&mut self, a: Val) -> Val {
        self.w.unary("fneg", a)
    }

    fn abs(&mut self, a: Val) -> Val {
        self.w.intrinsic("fabs", &[a], "")
    }

    fn round(&mut self, a: Val) -> Val {
        self.w.intrinsic("roundeven", &[a], "")
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        self.w.select(c, a, b)
    }

    fn less(&mut self, a: Val, b: Val) -> Val {
        self.w.compare("fcmp olt", a, b)
    }

    fn same(&mut self, a: Val, b: Val) -> Val {
        self.w.compare("fcmp oeq", a, b)
    }

    fn int(&mut self, a: Val) -> Val {
        // A whole number below 2^51 stands in the last bits of its sum with 1.5 * 2^52. A NaN gives any number, which
        // nobody looks at.
        let magic = 6_755_399_441_055_744.0_f64;
        let at = self.num(magic);
        let sum = self.add(a, at);
        let bits = self.bits(sum);
        self.w.binary("sub", bits, Val::i64(magic.to_bits() as i64))
    }

    fn bits(&mut self, a: Val) -> Val {
        self.w.cast("bitcast", a, El::I64)
    }

    fn float(&mut self, a: Val) -> Val {
        self.w.cast("bitcast", a, El::F64)
    }

    /// `|a|` with the sign of `b`.
    fn with_sign(&mut self, a: Val, b: Val) -> Val {
        self.w.intrinsic("copysign", &[a, b], "")
    }

    /// `r`, but NaN where `a` is.
    fn or_nan(&mut self, r: Val, a: Val) -> Val {
        let nan = self.w.compare("fcmp uno", a, a);
        self.select(nan, a, r)
    }

    /// `c[0] + c[1] z + …`, by Horner's rule.
    fn polynomial(&mut self, c: &[f64], z: Val) -> Val {
        let mut sum = self.num(c[c.len() - 1]);
        for &c in c[..c.len() - 1].iter().rev() {
            let c = self.num(c);
            sum = self.fma(sum, z, c);
        }
        sum
    }

    // ---- exponentials

    /// `e^x = 2^k (1 + p)`.
    fn exp_parts(&mut self, x: Val) -> (Val, Val) {
        let (low, high) = (self.num(-750.0), self.num(710.0));
        let under = self.less(x, low);
        let x = self.select(under, low, x);
        let over = self.less(high, x);
        let x = self.select(over, high, x);
        self.exp_far(x)
    }

    /// `p 2^k`, right for subnormal results.
    fn scaled(&mut self, p: Val, k: Val) -> Val {
        let k = self.int(k);
        let half = self.w.binary("ashr", k, Val::i64(1));
        let rest = self.w.binary("sub", k, half);
        let mut r = p;
        for n in [half, rest] {
            let n = self.w.binary("add", n, Val::i64(1023));
            let n = self.w.binary("shl", n, Val::i64(52));
            let n = self.float(n);
            r = self.mul(r, n);
        }
        r
    }

    fn exp_ends(&mut self, x: Val, r: Val) -> Val {
        let high = self.num(709.782712893384);
        let over = self.less(high, x);
        let infinity = self.num(f64::INFINITY);
        let r = self.select(over, infinity, r);
        self.or_nan(r, x)
    }

    fn exp2(&mut self, x: Val) -> Val {
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
        let too_far = self.w.compare("fcmp oge", x, high);
        let infinity = self.num(f64::INFINITY);
        let e = self.select(too_far, infinity, e);
        self.or_nan(e, x)
    }

    /// `e^x - 1` for `x` from 0 to 40.
    fn minus_one(&mut self, x: Val) -> Val {
        let (p, k) = self.exp_parts(x);
        let zero = self.num(0.0);
        let power = self.num(1.0);
        let power = self.scaled(power, k);
        let one = self.num(1.0);
        let less = self.sub(power, one);
        let far = self.fma(p, power, less);
        let near = self.same(k, zero);
        self.select(near, p, far)
    }

    fn tanh(&mut self, x: Val) -> Val {
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

    fn hyperbolic(&mut self, m: Math, x: Val) -> Val {
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
    fn exp_far(&mut self, x: Val) -> (Val, Val) {
        let turns = self.num(std::f64::consts::LOG2_E);
        let k = self.mul(x, turns);
        let k = self.round(k);
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

    /// `x = 2^k (1 + f)` with `1 + f` between the roots of 1/2 and 2.
    fn log_parts(&mut self, x: Val) -> (Val, Val) {
        let (least, up) = (self.num(f64::MIN_POSITIVE), self.num(18014398509481984.0));
        let small = self.less(x, least);
        let larger = self.mul(x, up);
        let y = self.select(small, larger, x);
        let bits = self.bits(y);
        // So that the exponent changes at the root of 1/2.
        let root = Val::i64(0x3fe6_a09e_667f_3bcd);
        let from = self.w.binary("sub", bits, root);
        let k = self.w.binary("ashr", from, Val::i64(52));
        let shift = self.w.binary("shl", k, Val::i64(52));
        let mantissa = self.w.binary("sub", bits, shift);
        let m = self.float(mantissa);
        let one = self.num(1.0);
        let f = self.sub(m, one);
        let k = self.w.cast("sitofp", k, El::F64);
        let (bias, zero) = (self.num(54.0), self.num(0.0));
        let bias = self.select(small, bias, zero);
        (self.sub(k, bias), f)
    }

    /// `k ln 2 + ln(1 + f)`.
    fn log_of(&mut self, k: Val, f: Val) -> Val {
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

    fn log_ends(&mut self, x: Val, r: Val) -> Val {
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

    fn circular(&mut self, m: Math, x: Val) -> Val {
        let far = self.num(FAR);
        let a = self.abs(x);
        let near = self.w.compare("fcmp ole", a, far);
        let zero = self.num(0.0);
        let y = self.select(near, x, zero);
        let by = self.num(std::f64::consts::FRAC_2_PI);
        let k = self.mul(y, by);
        let k = self.round(k);
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
        let (one, half) = (self.num(1.0), self.num(0.5));
        let z = self.mul(r, r);
        let hz = self.mul(half, z);
        let w = self.sub(one, hz);
        // sin = r + (r z S + rest (1 - z/2)), cos = w + ((1 - w - z/2) + (z z C - r rest)).
        let s = self.polynomial(&SIN, z);
        let zr = self.mul(z, r);
        let turned = self.mul(rest, w);
        let s = self.fma(zr, s, turned);
        let sin = self.add(r, s);
        // Of a zero the sign stays.
        let none = self.same(y, zero);
        let sin = self.select(none, y, sin);
        let c = self.polynomial(&COS, z);
        let zz = self.mul(z, z);
        let turned = self.mul(r, rest);
        let turned = self.neg(turned);
        let c = self.fma(zz, c, turned);
        let lost = self.sub(one, w);
        let lost = self.sub(lost, hz);
        let c = self.add(lost, c);
        let cos = self.add(w, c);
        let quarter = self.int(k);
        let odd = self.w.binary("and", quarter, Val::i64(1));
        let odd = self.w.compare("icmp ne", odd, Val::i64(0));
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
                let q = self.w.binary("add", quarter, Val::i64(turn));
                let q = self.w.binary("and", q, Val::i64(2));
                let minus = self.w.compare("icmp ne", q, Val::i64(0));
                let back = self.neg(v);
                self.select(minus, back, v)
            }
        };
        self.elsewhere(m, near, x, found)
    }

    /// `found` where `near` holds, else what the interpreter's function gives.
    fn elsewhere(&mut self, m: Math, near: Val, x: Val, found: Val) -> Val {
        let all = self.w.reduce("and", near);
        let before = self.w.block;
        let (some, done) = (self.w.new_block(), self.w.new_block());
        self.w.branch(all, done, some, ", !prof !8");
        self.w.enter(some);
        let helper = libm_name(m, true);
        self.w.declare(format!("declare double @{helper}(double) nounwind willreturn memory(none)"));
        let mut other = Val { id: Id::Bits(0), el: El::F64, var: self.var, wide: false, lin: None };
        let lanes = if self.var { self.w.lanes } else { 1 };
        for k in 0..lanes {
            let lane = Val::i32(i64::from(k));
            let one = self.w.lane(x, lane);
            let r = self.w.reg(El::F64, false);
            let (o, a) = (self.w.operand(r, false), self.w.typed(one));
            self.w.line(format_args!("{o} = call double @{helper}({a})"));
            other = if self.var { self.w.with_lane(other, lane, r) } else { r };
        }
        let other = self.select(near, found, other);
        let end = self.w.block;
        self.w.jump(done);
        self.w.enter(done);
        let (phi, v) = self.w.phi(El::F64, self.var, false);
        self.w.flow(phi, found, before);
        self.w.flow(phi, other, end);
        v
    }

    /// The angle of `|y| / |x|`, from 0 to a quarter turn; and whether `y` is larger.
    fn angle(&mut self, y: Val, x: Val) -> (Val, Val) {
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
        let not_both = self.w.binary("xor", both, Val::bool(true));
        let flat = self.w.binary("and", huge, not_both);
        let t = self.select(flat, zero, t);
        let turned = self.w.binary("or", turned, both);
        let not_flat = self.w.binary("xor", flat, Val::bool(true));
        let turned = self.w.binary("and", turned, not_flat);
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

    fn atan2(&mut self, y: Val, x: Val) -> Val {
        let (t, _) = self.angle(y, x);
        let bits = self.bits(x);
        let left = self.w.compare("icmp slt", bits, Val::i64(0));
        let (half, low) = (self.num(std::f64::consts::PI), self.num(2.0 * HALF_PI.1));
        let rest = self.sub(low, t);
        let other = self.add(half, rest);
        let t = self.select(left, other, t);
        let t = self.with_sign(t, y);
        let t = self.or_nan(t, x);
        self.or_nan(t, y)
    }

    fn arc(&mut self, m: Math, x: Val) -> Val {
        let (half, one, two) = (self.num(0.5), self.num(1.0), self.num(2.0));
        let a = self.abs(x);
        let outer = self.less(half, a);
        let square = self.mul(x, x);
        let rest = self.sub(one, a);
        let rest = self.mul(half, rest);
        let z = self.select(outer, rest, square);
        let root = self.w.intrinsic("sqrt", &[z], "");
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

    // ---- powers, of numbers that are floats

    fn pow(&mut self, x: Val, y: Val) -> Val {
        let (zero, one, half) = (self.num(0.0), self.num(1.0), self.num(0.5));
        let infinity = self.num(f64::INFINITY);
        let a = self.abs(x);
        let log = self.function(Math::Log, &[a]);
        let product = self.mul(y, log);
        let r = self.function(Math::Exp, &[product]);
        let unit = self.same(a, one);
        let r = self.select(unit, one, r);
        // Whole and odd exponents.
        let whole = self.w.intrinsic("trunc", &[y], "");
        let whole = self.same(whole, y);
        let halved = self.mul(y, half);
        let even = self.w.intrinsic("trunc", &[halved], "");
        let even = self.same(even, halved);
        let not_even = self.w.binary("xor", even, Val::bool(true));
        let odd = self.w.binary("and", whole, not_even);
        let bits = self.bits(x);
        let negative = self.w.compare("icmp slt", bits, Val::i64(0));
        let flips = self.w.binary("and", negative, odd);
        let back = self.neg(r);
        let r = self.select(flips, back, r);
        let below = self.less(x, zero);
        let top = self.same(a, infinity);
        let not_top = self.w.binary("xor", top, Val::bool(true));
        let not_whole = self.w.binary("xor", whole, Val::bool(true));
        let bad = self.w.binary("and", below, not_top);
        let bad = self.w.binary("and", bad, not_whole);
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
