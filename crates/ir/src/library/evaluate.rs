//! Evaluates the functions on plain numbers: what the interpreter, the constant folder, and the functions that
//! compiled code calls give.

use crate::{Math, Op};

use super::{Ops, far_angle, function};

macro_rules! evaluate {
    ($name:ident, $value:ident, $float:ident, $bits:ident, $signed:ident, $is_single:literal) => {
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
                if is_near.truth { near(x) } else { any(x) }
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

evaluate!(Double, Value64, f64, u64, i64, false);
evaluate!(Single, Value32, f32, u32, i32, true);

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
