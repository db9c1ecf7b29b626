//! The functions of [`ir::library`], which compiled code calls unless it contains them itself.

use ir::library::{Binary, Compare, Ops, Unary, function, is_single};
use ir::{Math, scalar};

use super::Address;

macro_rules! compute {
    ($name:ident, $float:ident, $bits:ident, $signed:ident, $is_single:literal, $math:ident) => {
        /// Evaluates the operations for one thread; a value is represented by its bits.
        struct $name {
            /// True if the result is rounded to a float.
            rounds: bool,
        }

        impl Ops for $name {
            type V = $bits;

            #[inline(always)]
            fn single(&self) -> bool {
                $is_single
            }

            #[inline(always)]
            fn rounds(&self) -> bool {
                self.rounds
            }

            #[inline(always)]
            fn float(&self, x: f64) -> $bits {
                (x as $float).to_bits()
            }

            #[inline(always)]
            fn int(&self, n: i64) -> $bits {
                n as $bits
            }

            #[inline(always)]
            fn yes(&self) -> $bits {
                1
            }

            #[inline(always)]
            fn unary(&self, op: Unary, a: $bits) -> $bits {
                let x = $float::from_bits(a);
                match op {
                    Unary::Neg => (-x).to_bits(),
                    Unary::Abs => x.abs().to_bits(),
                    Unary::Round => x.round_ties_even().to_bits(),
                    Unary::Trunc => x.trunc().to_bits(),
                    Unary::Sqrt => x.sqrt().to_bits(),
                    Unary::Bits | Unary::OfBits => a,
                    Unary::OfInt => (a as $signed as $float).to_bits(),
                }
            }

            #[inline(always)]
            fn binary(&self, op: Binary, a: $bits, b: $bits) -> $bits {
                let (x, y) = ($float::from_bits(a), $float::from_bits(b));
                match op {
                    Binary::AddF => (x + y).to_bits(),
                    Binary::SubF => (x - y).to_bits(),
                    Binary::MulF => (x * y).to_bits(),
                    Binary::DivF => (x / y).to_bits(),
                    Binary::CopySign => x.copysign(y).to_bits(),
                    Binary::Add => a.wrapping_add(b),
                    Binary::Sub => a.wrapping_sub(b),
                    Binary::And => a & b,
                    Binary::Or => a | b,
                    Binary::Xor => a ^ b,
                    Binary::Shl => a.wrapping_shl(b as u32),
                    Binary::Ashr => (a as $signed).wrapping_shr(b as u32) as $bits,
                }
            }

            #[inline(always)]
            fn compare(&self, op: Compare, a: $bits, b: $bits) -> $bits {
                let (x, y) = ($float::from_bits(a), $float::from_bits(b));
                $bits::from(match op {
                    Compare::Less => x < y,
                    Compare::LessOrSame => x <= y,
                    Compare::Same => x == y,
                    Compare::MoreOrSame => x >= y,
                    Compare::Unordered => x.is_nan() || y.is_nan(),
                    Compare::Differ => a != b,
                    Compare::Below => (a as $signed) < b as $signed,
                })
            }

            #[inline(always)]
            fn fma(&self, a: $bits, b: $bits, c: $bits) -> $bits {
                $float::from_bits(a).mul_add($float::from_bits(b), $float::from_bits(c)).to_bits()
            }

            #[inline(always)]
            fn mul_add(&self, a: $bits, b: $bits, c: $bits) -> $bits {
                self.fma(a, b, c)
            }

            #[inline(always)]
            fn select(&self, c: $bits, a: $bits, b: $bits) -> $bits {
                if c == 1 { a } else { b }
            }

            #[inline(always)]
            fn either(
                &self,
                is_near: $bits,
                x: $bits,
                near: impl FnOnce($bits) -> $bits,
                far: impl FnOnce($bits) -> $bits,
            ) -> $bits {
                if is_near == 1 { near(x) } else { far(x) }
            }

            #[inline(always)]
            fn turns(&self, _: $bits, _: $bits, found: [$bits; 3]) -> [$bits; 3] {
                found
            }

            #[inline(always)]
            fn elsewhere(&self, m: Math, near: $bits, x: $bits, found: $bits) -> $bits {
                if near == 1 { found } else { scalar::$math(m, $float::from_bits(x), 0.0, 0.0).to_bits() }
            }
        }
    };
}

compute!(Double, f64, u64, i64, false, math_f64);
compute!(Single, f32, u32, i32, true, math_f32);

/// Returns true if the machine has the fused multiply-add that the functions consist of.
pub fn is_fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// The symbol of a function for `f32` or `f64`. The function must only be called if [`is_fused`] returns
/// true.
pub fn own_name(m: Math, double: bool) -> String {
    format!("own_{}_{}", m.name(), if double { 64 } else { 32 })
}

macro_rules! own {
    ($($variant:ident($($arg:ident),*);)*) => {
        /// The versions of a function for `f32` and `f64`, if there are any.
        pub(super) fn own(m: Math) -> Option<(Address, Address)> {
            match m {
                $(Math::$variant => {
                    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "fma"))]
                    fn fused<const ROUNDS: bool>($($arg: f64),*) -> f64 {
                        let ops = Double { rounds: ROUNDS };
                        f64::from_bits(function(&ops, Math::$variant, &[$($arg.to_bits()),*]))
                    }
                    extern "C" fn double($($arg: f64),*) -> f64 {
                        #[allow(unused_unsafe, reason = "only on machines where fusing is no matter of course")]
                        // SAFETY: code that calls this is only generated if the machine supports the feature.
                        unsafe { fused::<false>($($arg),*) }
                    }
                    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "fma"))]
                    fn fused_single($($arg: f32),*) -> f32 {
                        let ops = Single { rounds: false };
                        f32::from_bits(function(&ops, Math::$variant, &[$($arg.to_bits()),*]))
                    }
                    extern "C" fn single($($arg: f32),*) -> f32 {
                        #[allow(unused_unsafe, reason = "only on machines where fusing is no matter of course")]
                        // SAFETY: code that calls this is only generated if the machine supports the feature.
                        unsafe {
                            if is_single(Math::$variant) {
                                fused_single($($arg),*)
                            } else {
                                fused::<true>($(f64::from($arg)),*) as f32
                            }
                        }
                    }
                    Some((single as *const () as Address, double as *const () as Address))
                })*
                _ => None,
            }
        }
    };
}

own! {
    Sin(a); Cos(a); Tan(a); Asin(a); Acos(a); Atan(a); Atan2(a, b); Sinh(a); Cosh(a); Tanh(a);
    Exp(a); Exp2(a); Log(a); Log2(a); Log10(a); Pow(a, b); Asinh(a); Acosh(a); Atanh(a);
}
