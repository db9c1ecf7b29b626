//! Reduces large angles by the method of Payne and Hanek: the angle is multiplied by 2/π, digit by digit, and
//! whole turns are dropped.

use super::number::Number;
use super::ops::Ops;
use super::polynomials::HALF_PI;
use super::powers::sum;

/// The digits of 2/π, of 24 bits each.
const DIGITS: [u32; 48] = [
    0xa2f983, 0x6e4e44, 0x1529fc, 0x2757d1, 0xf534dd, 0xc0db62, 0x95993c, 0x439041, 0xfe5163, 0xabdebb,
    0xc561b7, 0x246e3a, 0x424dd2, 0xe00649, 0x2eea09, 0xd1921c, 0xfe1deb, 0x1cb129, 0xa73ee8, 0x8235f5,
    0x2ebb44, 0x84e99c, 0x7026b4, 0x5f7e41, 0x3991d6, 0x398353, 0x39f49c, 0x845f8b, 0xbdf928, 0x3b1ff8,
    0x97ffde, 0x05980f, 0xef2f11, 0x8b5a0a, 0x6d1f6d, 0x367ecf, 0x27cb09, 0xb74f46, 0x3f669e, 0x5fea2d,
    0x7527ba, 0xc7ebe5, 0xf17b3d, 0x0739f7, 0x8a5292, 0xea6bfb, 0x5fb11f, 0x8d5d08,
];

/// The digits in their places, times 2^120, so that none underflows.
static TWO_OVER_PI: [f64; 48] = scaled_digits();

/// The table that `far_angle` sums over, for code that cannot refer to this process's memory.
pub fn digits_of_two_over_pi() -> &'static [f64] {
    &TWO_OVER_PI
}

const fn scaled_digits() -> [f64; 48] {
    let mut all = [0.0; 48];
    let mut k = 0;
    while k < all.len() {
        // In two steps, since 2^(96 - 24 k) may be subnormal.
        all[k] = DIGITS[k] as f64 * power_of_two(136 - 24 * k as i64) * power_of_two(-40);
        k += 1;
    }
    all
}

const fn power_of_two(n: i64) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

/// The digits before the first one used contribute only whole turns, and so many have 110 bits below a turn.
const USED: usize = 9;

/// The number of quarter turns in an angle, less any number of whole turns, and the remaining angle in two
/// parts.
#[inline(always)]
pub(super) fn far_turns<O: Ops>(x: Number<'_, O>) -> [Number<'_, O>; 3] {
    let [high, low] = split(x * power_of_two(-120));
    let exponent = (x.abs().bits() >> 52).to_number();
    let first = (exponent - (1023.0 + 54.0)) / 24.0;
    let first = first.clamp(0.0, (DIGITS.len() - USED) as f64).trunc();
    let [turns, lost] = x.sums(&TWO_OVER_PI, first, USED, |digit, sums| {
        [high, low].into_iter().fold(sums, |[turns, lost], part| {
            // A product of 27 bits and 24 bits is exact, and so is the remainder after whole turns are
            // dropped.
            let quarters = part * digit;
            let quarters = quarters - (quarters * 0.25).round() * 4.0;
            let (turns, error) = sum(turns, quarters);
            [turns, lost + error]
        })
    });
    let k = turns.round();
    let (high, low) = sum(turns - k, lost);
    let r = high * HALF_PI.0;
    let rest = high.fma(HALF_PI.0, -r);
    let rest = high.mul_add(HALF_PI.1, rest);
    let rest = low.mul_add(HALF_PI.0, rest);
    let (r, rest) = sum(r, rest);
    [k, r, rest]
}

/// Splits `a` into a number of 26 bits and the remainder.
#[inline(always)]
fn split<O: Ops>(a: Number<'_, O>) -> [Number<'_, O>; 2] {
    let high = (a.bits() & (!0 << 27)).of_bits();
    [high, a - high]
}
