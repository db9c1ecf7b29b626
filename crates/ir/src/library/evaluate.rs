//! Evaluates the functions on plain numbers: what the interpreter, the constant folder, and the functions that
//! compiled code calls give.

use crate::{Math, Op};

use super::{Ops, far_angle, function};

macro_rules! evaluate {
    ($name:ident, $value:ident, $float:ident, $bits:ident, $signed:ident, $is_single:literal, $cuts:expr, $scales:expr) => {
        /// The operations on plain numbers.
        struct $name;

        /// A value: the field of its kind is the one that matters.
        #[derive(Clone, Copy, Default)]
        struct $value {
            number: $float,
            integer: $signed,
            truth: bool,
        }

        impl $value {
            #[inline(always)]
            fn number(number: $float) -> $value {
                $value { number, ..$value::default() }
            }

            #[inline(always)]
            fn integer(integer: $signed) -> $value {
                $value { integer, ..$value::default() }
            }

            #[inline(always)]
            fn truth(truth: bool) -> $value {
                $value { truth, ..$value::default() }
            }
        }

        impl Ops for $name {
            type V = $value;

            #[inline(always)]
            fn single(&self) -> bool {
                $is_single
            }

            #[inline(always)]
            fn number(&self, x: f64) -> $value {
                $value::number(x as $float)
            }

            #[inline(always)]
            fn integer(&self, n: i64) -> $value {
                $value::integer(n as $signed)
            }

            #[inline(always)]
            fn of_numbers(&self, op: &Op, args: &[$value]) -> $value {
                let (a, b) = (args[0].number, args[args.len() - 1].number);
                $value::number(match op {
                    Op::Bitcast => return $value::integer(a.to_bits() as $signed),
                    Op::Eq => return $value::truth(a == b),
                    Op::Lt => return $value::truth(a < b),
                    Op::Le => return $value::truth(a <= b),
                    Op::Ge => return $value::truth(a >= b),
                    Op::Math(Math::IsNan) => return $value::truth(a.is_nan()),
                    Op::Math(Math::Abs) => a.abs(),
                    Op::Math(Math::Round) => a.round_ties_even(),
                    Op::Math(Math::Trunc) => a.trunc(),
                    Op::Math(_) => a.sqrt(),
                    Op::Neg => -a,
                    Op::Add => a + b,
                    Op::Sub => a - b,
                    Op::Mul => a * b,
                    _ => a / b,
                })
            }

            #[inline(always)]
            fn of_integers(&self, op: &Op, args: &[$value]) -> $value {
                let (a, b) = (args[0].integer, args[args.len() - 1].integer);
                $value::integer(match op {
                    Op::Bitcast => return $value::number($float::from_bits(a as $bits)),
                    Op::Convert => return $value::number(a as $float),
                    Op::Ne => return $value::truth(a != b),
                    Op::Lt => return $value::truth(a < b),
                    Op::Add => a.wrapping_add(b),
                    Op::Sub => a.wrapping_sub(b),
                    Op::And => a & b,
                    Op::Xor => a ^ b,
                    Op::Shl => a.wrapping_shl(b as u32),
                    _ => a.wrapping_shr(b as u32),
                })
            }

            #[inline(always)]
            fn of_truths(&self, op: &Op, args: &[$value]) -> $value {
                match op {
                    Op::And => $value::truth(args[0].truth & args[1].truth),
                    Op::Or => $value::truth(args[0].truth | args[1].truth),
                    Op::Not => $value::truth(!args[0].truth),
                    _ => $value::number(if args[0].truth { args[1].number } else { args[2].number }),
                }
            }

            #[inline(always)]
            fn copy_sign(&self, a: $value, b: $value) -> $value {
                $value::number(a.number.copysign(b.number))
            }

            #[inline(always)]
            fn fma(&self, a: $value, b: $value, c: $value) -> $value {
                $value::number(a.number.mul_add(b.number, c.number))
            }

            #[inline(always)]
            fn scales(&self) -> bool {
                $scales
            }

            #[inline(always)]
            fn scale(&self, p: $value, k: $value) -> $value {
                $value::number(scale(f64::from(p.number), k.number as i64) as $float)
            }

            #[inline(always)]
            fn either<const N: usize>(
                &self,
                is_near: $value,
                x: [$value; N],
                near: impl FnOnce([$value; N]) -> $value,
                far: impl FnOnce([$value; N]) -> $value,
            ) -> $value {
                if is_near.truth { near(x) } else { far(x) }
            }

            #[inline(always)]
            fn short_cut(
                &self,
                is_near: $value,
                x: $value,
                near: impl FnOnce($value) -> $value,
                any: impl FnOnce($value) -> $value,
            ) -> $value {
                if $cuts && is_near.truth { near(x) } else { any(x) }
            }

            #[inline(always)]
            fn elsewhere(&self, m: Math, near: $value, x: $value, found: $value) -> $value {
                if near.truth { found } else { $value::number(far(m, x.number as f64) as $float) }
            }

            #[inline(always)]
            fn sums(
                &self,
                table: &'static [f64],
                first: $value,
                n: usize,
                step: impl Fn($value, [$value; 2]) -> [$value; 2],
            ) -> [$value; 2] {
                let rest = table.iter().skip(first.number as usize).take(n);
                rest.fold([$value::default(); 2], |sums, &x| step(self.number(x), sums))
            }
        }
    };
}

evaluate!(Double, Value64, f64, u64, i64, false, SHORT_CUTS, SCALES);
evaluate!(Single, Value32, f32, u32, i32, true, SHORT_CUTS, SCALES);

/// One number takes a short cut where it can.
const SHORT_CUTS: bool = true;
/// Rust has no instruction that scales.
const SCALES: bool = false;

/// `p 2^k`, rounded once: as a double, which does not round a float, or by two steps of which the first is exact.
#[inline(always)]
fn scale(p: f64, k: i64) -> f64 {
    let power = |k: i64| f64::from_bits(((k + 1023) as u64) << 52);
    p * power(k >> 1) * power(k - (k >> 1))
}

/// See [`far_angle`].
#[cold]
#[inline(never)]
fn far(m: Math, x: f64) -> f64 {
    far_angle(&Double, m, Value64::number(x)).number
}

/// Evaluates a function of doubles. [`super::has`] tells which functions there are.
#[inline(always)]
pub fn double(m: Math, a: f64, b: f64) -> f64 {
    function(&Double, m, &[a, b].map(Value64::number)).number
}

/// Evaluates a function of floats.
#[inline(always)]
pub fn single(m: Math, a: f32, b: f32) -> f32 {
    function(&Single, m, &[a, b].map(Value32::number)).number
}

#[cfg(test)]
mod tests {
    use super::super::{estimate, sine_and_cosine};
    use super::*;

    // Lanes take no short cut, and some machines have an instruction that scales.
    evaluate!(DoubleInLanes, Lanes64, f64, u64, i64, false, false, false);
    evaluate!(SingleInLanes, Lanes32, f32, u32, i32, true, false, false);
    evaluate!(ScaledDouble, Scaled64, f64, u64, i64, false, false, true);
    evaluate!(ScaledSingle, Scaled32, f32, u32, i32, true, false, true);

    fn check_double(m: Math, a: f64, b: f64) {
        let one = double(m, a, b);
        let lanes = function(&DoubleInLanes, m, &[a, b].map(Lanes64::number)).number;
        let scaled = function(&ScaledDouble, m, &[a, b].map(Scaled64::number)).number;
        let same = |x: f64| x.to_bits() == one.to_bits() || x.is_nan() && one.is_nan();
        assert!(same(lanes) && same(scaled), "{} of {a:e}, {b:e}: {one:e}, {lanes:e}, {scaled:e}", m.name());
    }

    fn check_single(m: Math, a: f32, b: f32) {
        let one = single(m, a, b);
        let lanes = function(&SingleInLanes, m, &[a, b].map(Lanes32::number)).number;
        let scaled = function(&ScaledSingle, m, &[a, b].map(Scaled32::number)).number;
        let same = |x: f32| x.to_bits() == one.to_bits() || x.is_nan() && one.is_nan();
        assert!(same(lanes) && same(scaled), "{} of {a:e}, {b:e}: {one:e}, {lanes:e}, {scaled:e}", m.name());
    }

    /// A sequence of random bits.
    fn random() -> impl FnMut() -> u64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    #[test]
    fn errors_of_estimated_powers_grow_with_the_logarithm() {
        let estimated = |x: f32, y: f32| {
            let one = estimate(&Single, Math::Pow, &[x, y].map(Value32::number)).number;
            let lanes = estimate(&SingleInLanes, Math::Pow, &[x, y].map(Lanes32::number)).number;
            assert!(one.to_bits() == lanes.to_bits() || one.is_nan() && lanes.is_nan(), "{x:e}, {y:e}");
            one
        };
        let mut bits = random();
        let mut unit = || (bits() >> 11) as f64 / (1u64 << 53) as f64;
        let mut worst = 0f64;
        for _ in 0..200_000 {
            let x = 2f64.powf(20.0 * unit() - 10.0) as f32;
            let log = f64::from(x).log2();
            let y = ((240.0 * unit() - 120.0) / log) as f32;
            let wanted = f64::from(x).powf(f64::from(y));
            let place = 2f64.powi(wanted.log2().floor() as i32 - 23);
            let error = (f64::from(estimated(x, y)) - wanted).abs() / place;
            worst = worst.max(error / (1.0 + (f64::from(y) * log).abs()));
        }
        assert!(worst < 1.5 && worst > 0.3, "{worst}");
        // Elsewhere they are those of `pow`.
        for (x, y) in
            [(0.0, 2.0), (0.0, 0.0), (0.0, -1.0), (-2.0, 3.0), (-2.0, 2.0), (-2.0, 0.5), (1.0, f32::NAN)]
        {
            let (found, exact) = (estimated(x, y), single(Math::Pow, x, y));
            assert!(
                found.to_bits() == exact.to_bits() || found.is_nan() && exact.is_nan(),
                "{x}, {y}: {found}"
            );
        }
    }

    const ENDS: [f64; 17] = [
        0.0,
        f64::MIN_POSITIVE,
        5e-324,
        1e-45,
        1e-40,
        1.1754943508222875e-38,
        0.25,
        0.5,
        1.0,
        2.0,
        3.0,
        32.0,
        150.0,
        1074.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];

    #[test]
    fn lanes_take_no_short_cut_and_agree() {
        for a in ENDS.into_iter().flat_map(|a| [a, -a]) {
            for b in ENDS.into_iter().flat_map(|b| [b, -b]) {
                for m in [Math::Exp, Math::Exp2, Math::Pow] {
                    check_double(m, a, b);
                    check_single(m, a as f32, b as f32);
                }
            }
        }
    }

    #[test]
    fn a_sine_and_a_cosine_at_once_are_those_of_two_calls() {
        let mut next = random();
        let small = (0..100_000).map(|k| f64::from(k) * 1e-3);
        let any: Vec<f64> = (0..100_000).map(|_| f64::from_bits(next())).collect();
        for x in ENDS.into_iter().chain(small).chain(any).flat_map(|x| [x, -x]) {
            let both = sine_and_cosine(&DoubleInLanes, Lanes64::number(x)).map(|v| v.number);
            let y = x as f32;
            let singles = sine_and_cosine(&SingleInLanes, Lanes32::number(y)).map(|v| v.number);
            for (k, m) in [Math::Sin, Math::Cos].into_iter().enumerate() {
                let (one, alone) = (double(m, x, 0.0), single(m, y, 0.0));
                let same = both[k].to_bits() == one.to_bits() || both[k].is_nan() && one.is_nan();
                let same_single =
                    singles[k].to_bits() == alone.to_bits() || singles[k].is_nan() && alone.is_nan();
                assert!(
                    same && same_single,
                    "{} of {x:e}: {both:?}, {one:e}, {singles:?}, {alone:e}",
                    m.name()
                );
            }
        }
    }

    #[test]
    fn results_that_vanish_agree_in_lanes() {
        // All floats whose exponentials are subnormal, or nearly, and a sample of doubles.
        for bits in 86.0_f32.to_bits()..105.0_f32.to_bits() {
            check_single(Math::Exp, -f32::from_bits(bits), 0.0);
        }
        for bits in 124.0_f32.to_bits()..153.0_f32.to_bits() {
            check_single(Math::Exp2, -f32::from_bits(bits), 0.0);
        }
        let mut next = random();
        for _ in 0..200_000 {
            let part = next() as f64 / 2f64.powi(64);
            check_double(Math::Exp, -700.0 - 55.0 * part, 0.0);
            check_double(Math::Exp2, -1015.0 - 70.0 * part, 0.0);
        }
    }

    #[test]
    fn powers_agree_in_lanes() {
        let mut next = random();
        for _ in 0..1_000_000 {
            let (a, b) = (next(), next());
            check_single(Math::Pow, f32::from_bits(a as u32), f32::from_bits(b as u32));
            check_double(Math::Pow, f64::from_bits(a), f64::from_bits(b));
            // Powers from where they vanish to where they overflow.
            let (x, y) = (a as f64 / 2f64.powi(64), 1.25 * (b as f64 / 2f64.powi(64) - 0.15));
            check_single(Math::Pow, x as f32, (-150.0 * y / x.log2()) as f32);
            check_double(Math::Pow, x, -1075.0 * y / x.log2());
        }
    }
}
