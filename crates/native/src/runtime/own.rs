//! The functions of [`crate::library`], which compiled code calls unless it contains them itself.

use ir::{Math, scalar};

use super::Address;
use crate::library::{Binary, Compare, Ops, Unary, function, is_single};

/// Evaluates the operations for one thread; a value is represented by its bits.
struct Compute {
    /// True if the result is rounded to a float.
    rounds: bool,
}

fn f(bits: u64) -> f64 {
    f64::from_bits(bits)
}

impl Ops for Compute {
    type V = u64;

    #[inline(always)]
    fn single(&self) -> bool {
        false
    }

    #[inline(always)]
    fn rounds(&self) -> bool {
        self.rounds
    }

    #[inline(always)]
    fn float(&mut self, x: f64) -> u64 {
        x.to_bits()
    }

    #[inline(always)]
    fn int(&mut self, n: i64) -> u64 {
        n as u64
    }

    #[inline(always)]
    fn yes(&mut self) -> u64 {
        1
    }

    #[inline(always)]
    fn unary(&mut self, op: Unary, a: u64) -> u64 {
        match op {
            Unary::Neg => a ^ 1 << 63,
            Unary::Abs => a & !(1 << 63),
            Unary::Round => f(a).round_ties_even().to_bits(),
            Unary::Trunc => f(a).trunc().to_bits(),
            Unary::Sqrt => f(a).sqrt().to_bits(),
            Unary::Bits | Unary::OfBits => a,
            Unary::OfInt => (a as i64 as f64).to_bits(),
        }
    }

    #[inline(always)]
    fn binary(&mut self, op: Binary, a: u64, b: u64) -> u64 {
        match op {
            Binary::AddF => (f(a) + f(b)).to_bits(),
            Binary::SubF => (f(a) - f(b)).to_bits(),
            Binary::MulF => (f(a) * f(b)).to_bits(),
            Binary::DivF => (f(a) / f(b)).to_bits(),
            Binary::CopySign => a & !(1 << 63) | b & 1 << 63,
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::Shl => a.wrapping_shl(b as u32),
            Binary::Ashr => (a as i64).wrapping_shr(b as u32) as u64,
        }
    }

    #[inline(always)]
    fn compare(&mut self, op: Compare, a: u64, b: u64) -> u64 {
        u64::from(match op {
            Compare::Less => f(a) < f(b),
            Compare::LessOrSame => f(a) <= f(b),
            Compare::Same => f(a) == f(b),
            Compare::MoreOrSame => f(a) >= f(b),
            Compare::Unordered => f(a).is_nan() || f(b).is_nan(),
            Compare::Differ => a != b,
            Compare::Below => (a as i64) < b as i64,
        })
    }

    #[inline(always)]
    fn fma(&mut self, a: u64, b: u64, c: u64) -> u64 {
        f(a).mul_add(f(b), f(c)).to_bits()
    }

    #[inline(always)]
    fn select(&mut self, c: u64, a: u64, b: u64) -> u64 {
        if c == 1 { a } else { b }
    }

    #[inline(always)]
    fn either(
        &mut self,
        is_near: u64,
        x: u64,
        near: impl FnOnce(&mut Self, u64) -> u64,
        far: impl FnOnce(&mut Self, u64) -> u64,
    ) -> u64 {
        if is_near == 1 { near(self, x) } else { far(self, x) }
    }

    #[inline(always)]
    fn elsewhere(&mut self, m: Math, near: u64, x: u64, found: u64) -> u64 {
        if near == 1 { found } else { scalar::math_f64(m, f(x), 0.0, 0.0).to_bits() }
    }
}

/// As [`Compute`], for floats and 32-bit integers.
struct Single;

fn g(bits: u32) -> f32 {
    f32::from_bits(bits)
}

impl Ops for Single {
    type V = u32;

    #[inline(always)]
    fn single(&self) -> bool {
        true
    }

    #[inline(always)]
    fn rounds(&self) -> bool {
        false
    }

    #[inline(always)]
    fn float(&mut self, x: f64) -> u32 {
        (x as f32).to_bits()
    }

    #[inline(always)]
    fn int(&mut self, n: i64) -> u32 {
        n as u32
    }

    #[inline(always)]
    fn yes(&mut self) -> u32 {
        1
    }

    #[inline(always)]
    fn unary(&mut self, op: Unary, a: u32) -> u32 {
        match op {
            Unary::Neg => a ^ 1 << 31,
            Unary::Abs => a & !(1 << 31),
            Unary::Round => g(a).round_ties_even().to_bits(),
            Unary::Trunc => g(a).trunc().to_bits(),
            Unary::Sqrt => g(a).sqrt().to_bits(),
            Unary::Bits | Unary::OfBits => a,
            Unary::OfInt => (a as i32 as f32).to_bits(),
        }
    }

    #[inline(always)]
    fn binary(&mut self, op: Binary, a: u32, b: u32) -> u32 {
        match op {
            Binary::AddF => (g(a) + g(b)).to_bits(),
            Binary::SubF => (g(a) - g(b)).to_bits(),
            Binary::MulF => (g(a) * g(b)).to_bits(),
            Binary::DivF => (g(a) / g(b)).to_bits(),
            Binary::CopySign => a & !(1 << 31) | b & 1 << 31,
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::Shl => a.wrapping_shl(b),
            Binary::Ashr => (a as i32).wrapping_shr(b) as u32,
        }
    }

    #[inline(always)]
    fn compare(&mut self, op: Compare, a: u32, b: u32) -> u32 {
        u32::from(match op {
            Compare::Less => g(a) < g(b),
            Compare::LessOrSame => g(a) <= g(b),
            Compare::Same => g(a) == g(b),
            Compare::MoreOrSame => g(a) >= g(b),
            Compare::Unordered => g(a).is_nan() || g(b).is_nan(),
            Compare::Differ => a != b,
            Compare::Below => (a as i32) < b as i32,
        })
    }

    #[inline(always)]
    fn fma(&mut self, a: u32, b: u32, c: u32) -> u32 {
        g(a).mul_add(g(b), g(c)).to_bits()
    }

    #[inline(always)]
    fn select(&mut self, c: u32, a: u32, b: u32) -> u32 {
        if c == 1 { a } else { b }
    }

    #[inline(always)]
    fn either(
        &mut self,
        is_near: u32,
        x: u32,
        near: impl FnOnce(&mut Self, u32) -> u32,
        far: impl FnOnce(&mut Self, u32) -> u32,
    ) -> u32 {
        if is_near == 1 { near(self, x) } else { far(self, x) }
    }

    #[inline(always)]
    fn elsewhere(&mut self, m: Math, near: u32, x: u32, found: u32) -> u32 {
        if near == 1 { found } else { scalar::math_f32(m, g(x), 0.0, 0.0).to_bits() }
    }
}

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
                        f(function(&mut Compute { rounds: ROUNDS }, Math::$variant, &[$($arg.to_bits()),*]))
                    }
                    extern "C" fn double($($arg: f64),*) -> f64 {
                        #[allow(unused_unsafe, reason = "only on machines where fusing is no matter of course")]
                        // SAFETY: code that calls this is only generated if the machine supports the feature.
                        unsafe { fused::<false>($($arg),*) }
                    }
                    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "fma"))]
                    fn fused_single($($arg: f32),*) -> f32 {
                        g(function(&mut Single, Math::$variant, &[$($arg.to_bits()),*]))
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
