//! Compares the mathematical functions of `ir::library`, one by one, with those of the C library and with values
//! of 60 digits: the results are within two units in the last place; also tests their values at zeros,
//! infinities, NaN and subnormal numbers.

use pullback_ir::{Math, Scalar, library, scalar};
use test_support::{Random, SPECIAL};

mod reference;

use reference::reference;

/// The position of a float among all floats, so that neighbours differ by one.
fn order(bits: i64) -> i64 {
    if bits < 0 { i64::MIN - bits } else { bits }
}

/// Values of inverse hyperbolic functions, rounded from 60 digits: the interpreter's are not exact enough to
/// compare with.
const INVERSE: [(Math, f64, f64); 32] = [
    (Math::Asinh, 1e-300, 1e-300),
    (Math::Asinh, 3.7e-09, 3.7e-09),
    (Math::Asinh, 0.0123, 0.01229968987661289),
    (Math::Asinh, 0.31, 0.3052380199252282),
    (Math::Asinh, 0.9, 0.8088669356527824),
    (Math::Asinh, 1.164350014088765, 0.9929489729812576),
    (Math::Asinh, 5.5, 2.4060591252980172),
    (Math::Asinh, 777.25, 7.348909643325289),
    (Math::Asinh, 250000000.0, 20.030118656386467),
    (Math::Asinh, 310000000.0, 20.245230036003413),
    (Math::Asinh, 1e+200, 461.2101657793691),
    (Math::Acosh, 1.0000000000000002, 2.1073424255447014e-08),
    (Math::Acosh, 1.0000000003, 2.4494898440577838e-05),
    (Math::Acosh, 1.00763883917552, 0.1235243589502942),
    (Math::Acosh, 1.119105535349454, 0.48334980613591466),
    (Math::Acosh, 1.5, 0.9624236501192069),
    (Math::Acosh, 2.0, 1.3169578969248168),
    (Math::Acosh, 3.3, 1.8632793511534487),
    (Math::Acosh, 99.75, 5.295789109912614),
    (Math::Acosh, 250000000.0, 20.030118656386467),
    (Math::Acosh, 310000000.0, 20.245230036003413),
    (Math::Acosh, 1e+200, 461.2101657793691),
    (Math::Atanh, 1e-300, 1e-300),
    (Math::Atanh, 3.7e-09, 3.7e-09),
    (Math::Atanh, 0.0123, 0.012300620345312199),
    (Math::Atanh, 0.31, 0.3205454093019461),
    (Math::Atanh, 0.4547062372630064, 0.4906172983946932),
    (Math::Atanh, 0.5, 0.5493061443340549),
    (Math::Atanh, 0.77, 1.0203277583223398),
    (Math::Atanh, 0.99, 2.6466524123622457),
    (Math::Atanh, 0.9999999999, 11.859499013855018),
    (Math::Atanh, 0.9999999999999999, 18.714973875118524),
];

/// Values of powers, rounded from 60 digits.
const POWERS: [(f64, f64, f64); 11] = [
    (2.0, 0.5, std::f64::consts::SQRT_2),
    (1.0029435786198226, 129127.87833210742, 6.792219422563622e+164),
    (0.999, -70000.5, 2.6064022215065215e+30),
    (1.4513952250692264, 1848.6443923072209, 1.2139715601853923e+299),
    (1e-300, -1.02, 1.0000000000000122e+306),
    (1e+300, 1.0274, 1.659586907437665e+308),
    (3.0, 5.5, 420.8883462392372),
    (1e-310, 0.7, 1.0000000000000295e-217),
    (0.1, 323.9, 0.0),
    (7.0, -381.9, 2e-323),
    (1.0000000000000002, 3e+18, 1.98719262165461e+289),
];

/// The distance of two doubles in units in the last place.
fn apart(a: f64, b: f64) -> u64 {
    order(a.to_bits() as i64).abs_diff(order(b.to_bits() as i64))
}

fn double(m: Math, args: [f64; 2]) -> f64 {
    scalar::math_f64(m, args[0], args[1], 0.0)
}

#[test]
fn powers_and_inverses_are_exact_to_a_unit() {
    let check = |m: Math, args: [f64; 2], wanted: f64| {
        let found = double(m, args);
        assert!(apart(found, wanted) <= 1, "{m:?} at {args:?} is {found:?} instead of {wanted:?}");
    };
    for (m, x, y) in INVERSE {
        check(m, [x, 0.0], y);
        if m != Math::Acosh {
            check(m, [-x, 0.0], -y);
        }
    }
    POWERS.iter().for_each(|&(x, y, r)| check(Math::Pow, [x, y], r));
}

#[test]
fn functions_are_accurate() {
    let special = SPECIAL;
    for m in Math::ALL.into_iter().filter(|&m| library::has(m)) {
        for double in [true, false] {
            let s = if double { Scalar::F64 } else { Scalar::F32 };
            let mut rng = Random(m as u64 + 7);
            let mut inputs: Vec<[f64; 2]> = Vec::new();
            for a in special {
                inputs.extend(special.iter().map(|&b| [a, b]));
            }
            inputs.extend((0..3000).map(|_| [rng.number(), rng.number()]));
            if matches!(m, Math::Sin | Math::Cos | Math::Tan) {
                // Inputs near the zeros, where the remainder after whole turns is small.
                let turns =
                    (0..3000).map(|k| (k as f64 + 21.0 * (k % 1500) as f64) * std::f64::consts::FRAC_PI_2);
                inputs.extend(turns.map(|x| [x, 0.0]));
                inputs.extend((0..3000).map(|_| [2e5 * (rng.unit() - 0.5), 0.0]));
                inputs.extend((0..3000).map(|_| [2f64.powf(1000.0 * rng.unit()), 0.0]));
            }
            for [a, b] in inputs {
                let bits: Vec<u64> = [a, b].iter().map(|&x| scalar::from_f64(s, x)).collect();
                let [of_a, of_b] = [0, 1].map(|k| scalar::to_f64(s, bits[k]));
                let found = scalar::math(m, s, &bits[..m.arity()]).expect("a float function");
                let wanted = scalar::from_f64(s, reference(m, of_a, of_b));
                let (x, y) = (scalar::to_f64(s, found), scalar::to_f64(s, wanted));
                if x.is_nan() && y.is_nan() {
                    continue;
                }
                assert_eq!(x.is_nan(), y.is_nan(), "{m:?} at {a:?}, {b:?} is {x:?} instead of {y:?}");
                let apart = match double {
                    true => order(found as i64).abs_diff(order(wanted as i64)),
                    false => {
                        let order = |bits: u64| order(((bits as u32) as i32 as i64) << 32) >> 32;
                        order(found).abs_diff(order(wanted))
                    }
                };
                // The reference value has an error of its own, and is rounded.
                let is_wide = matches!(m, Math::Asinh | Math::Acosh | Math::Atanh);
                let is_narrow = matches!(m, Math::Exp | Math::Exp2 | Math::Log);
                let most = match double {
                    true if is_wide => 4,
                    false if is_narrow => 1,
                    _ => 2,
                };
                assert!(
                    apart <= most && (y != 0.0 || x.to_bits() == y.to_bits()),
                    "{m:?} of {} at {a:?}, {b:?} is {x:?} instead of {y:?}, {apart} units apart",
                    s.name()
                );
            }
        }
    }
}
