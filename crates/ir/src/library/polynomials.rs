//! Constants: polynomials that approximate functions, and numbers in several parts.
//!
//! The coefficients come from interpolation at Chebyshev nodes in 60 digits, done for this file. Each list
//! states the largest error of the polynomial with its coefficients rounded.

/// `(e^r - 1 - r) / r^2` for `r` in ±0.3467; error 4e-17.
pub(super) const EXP: [f64; 11] = [
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

/// As [`EXP`], for results that are rounded to floats; error 1.4e-9.
pub(super) const EXP_ROUNDED: [f64; 6] = [
    0.5000000013487226,
    0.16666666681647016,
    0.04166646471137908,
    0.00833331090172597,
    0.0013933673732931852,
    0.0001989101718430203,
];

/// `(ln((1 + s) / (1 - s)) / s - 2) / s^2` in `s^2` up to 0.02944; error 4e-17.
pub(super) const LOG: [f64; 8] = [
    0.6666666666666666,
    0.4000000000000088,
    0.28571428570803253,
    0.22222222391794727,
    0.18181795631498243,
    0.15386240172447838,
    0.13268760562036724,
    0.1308675766695207,
];

/// As [`LOG`], for results that are rounded to floats; error 8e-12.
pub(super) const LOG_ROUNDED: [f64; 5] =
    [0.6666666666737543, 0.3999999879688111, 0.28571754629111545, 0.2219139491351568, 0.19362768670426095];

/// `((ln((1 + s) / (1 - s)) / s - 2) / s^2 - 2/3) / s^2` in `s^2` up to 0.02944; error, times `s^4`, 2e-20.
pub(super) const LOG_NEXT: [f64; 8] = [
    0.4,
    0.2857142857142937,
    0.22222222221654733,
    0.1818181833565416,
    0.15384594934597917,
    0.13334806212100603,
    0.11706195689881364,
    0.11723603622905411,
];

/// `(sin(r) / r - 1) / r^2` in `r^2` up to 0.6171; error 9e-18.
pub(super) const SIN: [f64; 7] = [
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841265055,
    2.755731921933165e-06,
    -2.505210622983663e-08,
    1.6058531205225323e-10,
    -7.586672732233366e-13,
];

/// `(cos(r) - 1 + r^2 / 2) / r^4` in `r^2` up to 0.6171; error 2e-18.
pub(super) const COS: [f64; 7] = [
    0.041666666666666664,
    -0.0013888888888888887,
    2.4801587301584642e-05,
    -2.755731922139864e-07,
    2.08767557896288e-09,
    -1.1470460657567371e-11,
    4.745858344161125e-14,
];

/// `(atan(t) / t - 1) / t^2` in `t^2` up to 0.17158; error 2e-17.
pub(super) const ATAN: [f64; 12] = [
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

/// `(asin(t) / t - 1) / t^2` in `t^2` up to 0.25; error 2e-17.
pub(super) const ASIN: [f64; 13] = [
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
pub(super) const PIO2: [f64; 3] = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21];

/// π/2 as a rounded double, and the remainder.
pub(super) const HALF_PI: (f64, f64) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);

/// ln 2 in two parts, the first of 41 bits.
pub(super) const LN2: (f64, f64) = (0.693147180559663, 2.8235290563031577e-13);

/// log10 2 in two parts, the first of 41 bits.
pub(super) const LOG10_2: (f64, f64) = (0.30102999566383914, 1.42050232272661e-13);

/// Beyond this magnitude an angle is reduced by `far_turns`: here the number of quarter turns must have at most
/// 20 bits.
pub(super) const FAR: f64 = 1.0e6;

/// As [`SIN`], for floats: in `r^2` up to 0.64; error 1.3e-8.
pub(super) const SIN32: [f64; 3] = [-0.166666641831398, 0.00833270326256752, -0.0001957844360731542];

/// As [`COS`], for floats: in `r^2` up to 0.64; error 9e-10.
pub(super) const COS32: [f64; 3] = [0.0416666641831398, -0.0013888258254155517, 2.4538474463042803e-05];

/// π/2 as the sum of three floats, each the rounded remainder of those before it.
pub(super) const PIO2_32: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];

/// As [`FAR`], for floats: the number of quarter turns fits in 16 bits, and the first step of the reduction
/// is exact.
pub(super) const FAR32: f64 = 1.0e5;
