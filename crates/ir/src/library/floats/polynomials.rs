//! Constants for floats: polynomials that approximate functions, and numbers in several parts.
//!
//! The coefficients were made for this file: Remez's exchange in 40 digits finds the polynomial with the least
//! relative error of the function; then the coefficients are rounded to floats, the lowest first, and those
//! that remain are fitted again, so that they make up for the rounding. Each list states the largest
//! error relative to the function, with the coefficients rounded.

/// `(e^r - 1 - r) / r^2` for `r` in ±0.3475; error relative to `e^r` 3.3e-9.
pub(super) const EXP: [f64; 5] = [
    0.4999999403953552,
    0.16666515171527863,
    0.041668087244033813,
    0.008369295857846737,
    0.0013838219456374645,
];

/// `(ln(1 + f) - f) / f^2` for `f` in ±1/3; error 5e-9.
pub(super) const LOG: [f64; 9] = [
    -0.5,
    0.33333197236061096,
    -0.24999919533729553,
    0.20011432468891144,
    -0.16674457490444183,
    0.13989759981632233,
    -0.1227302998304367,
    0.14059945940971375,
    -0.12491711974143982,
];

/// `(log2((1 + s) / (1 - s)) - 2 s / ln 2) / s^3` in `s^2` up to 0.00747; error 5.6e-12.
pub(super) const LOG2_ODD: [f64; 3] = [0.9617967009544373, 0.5770647525787354, 0.4162202477455139];

/// `(tanh(x) / x - 1) / x^2` in `x^2` up to 0.3025; error 1.1e-9.
pub(super) const TANH: [f64; 5] = [
    -0.33333316445350647,
    0.13332544267177582,
    -0.0538475476205349,
    0.02105071395635605,
    -0.00624284939840436,
];

/// `(sinh(x) / x - 1) / x^2` in `x^2` up to 1; error 5.2e-9.
pub(super) const SINH: [f64; 4] =
    [0.1666666716337204, 0.008333349600434303, 0.0001983615948120132, 2.8169513370812638e-06];

/// `(sin(r) / r - 1) / r^2` in `r^2` up to 0.64; error 1.3e-8.
pub(super) const SIN: [f64; 3] = [-0.166666641831398, 0.00833270326256752, -0.0001957844360731542];

/// `(cos(r) - 1) / r^2` in `r^2` up to 0.64; error 9e-10.
pub(super) const COS: [f64; 4] = [-0.5, 0.0416666641831398, -0.0013888258254155517, 2.4538474463042803e-05];

/// `(atan(t) / t - 1) / t^2` in `t^2` up to 1; error 8.1e-9.
pub(super) const ATAN: [f64; 9] = [
    -0.33333298563957214,
    0.1999852955341339,
    -0.14264015853405,
    0.10950881987810135,
    -0.08399318903684616,
    0.057881910353899,
    -0.031097976490855217,
    0.010869585908949375,
    -0.001783135812729597,
];

/// `(asin(t) / t - 1) / t^2` in `t^2` up to 0.25; error 4.9e-9.
pub(super) const ASIN: [f64; 5] =
    [0.16666752099990845, 0.074953094124794, 0.04546915367245674, 0.02418474294245243, 0.04215838760137558];

/// π/2 as the sum of three floats, each the rounded remainder of those before it.
pub(super) const PIO2: [f64; 3] = [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15];

/// ln 2 in two parts, the first of 15 bits.
pub(super) const LN2: (f64, f64) = (0.693145751953125, 1.428606765330187e-06);

/// log10 2 in two parts, the first of 14 bits.
pub(super) const LOG10_2: (f64, f64) = (0.301025390625, 4.605039066518657e-06);

/// 1 / ln 2 in two parts.
pub(super) const LOG2_E: (f64, f64) = (1.4426950216293335, 1.925963033500011e-08);

/// 1 / ln 10 in two parts.
pub(super) const LOG10_E: (f64, f64) = (0.4342944920063019, -1.0103049952192578e-08);

/// The root of 2 in two parts.
pub(super) const SQRT_2: (f64, f64) = (1.4142135381698608, 2.4203234971764687e-08);

/// Beyond this magnitude an angle is reduced as a double by `far_turns`: up to here the number of quarter turns
/// fits in 16 bits, and the first step of the reduction is exact.
pub(super) const FAR: f64 = 1.0e5;

/// The least normal number.
pub(super) const LEAST: f64 = f32::MIN_POSITIVE as f64;
