//! Measures the functions of floats of `ir::library` against those of doubles of the C library, and compares
//! the largest errors with the bounds that docs/cpu.md states.
//!
//! The test takes a sample of all floats. `PULLBACK_FLOATS=1 cargo test --release -p pullback-ir --test floats
//! -- --nocapture` takes all of them, which lasts some minutes for each function, and prints the table of
//! docs/cpu.md; `PULLBACK_FLOATS=exp,log` does so for these functions only.

use std::ops::ControlFlow;

use pullback_ir::{Math, library, scalar};

mod reference;

use reference::reference;
use test_support::Random;

/// The functions, with the bound of their error in units in the last place.
const FUNCTIONS: [(Math, f64); 19] = [
    (Math::Exp, 1.0),
    (Math::Exp2, 1.0),
    (Math::Log, 1.0),
    (Math::Log2, 2.0),
    (Math::Log10, 2.0),
    (Math::Pow, 2.0),
    (Math::Sin, 2.0),
    (Math::Cos, 2.0),
    (Math::Tan, 2.0),
    (Math::Asin, 2.0),
    (Math::Acos, 2.0),
    (Math::Atan, 2.0),
    (Math::Atan2, 2.0),
    (Math::Sinh, 2.0),
    (Math::Cosh, 2.0),
    (Math::Tanh, 2.0),
    (Math::Asinh, 2.0),
    (Math::Acosh, 2.0),
    (Math::Atanh, 2.0),
];

/// The unit in the last place of a float near `x`; the least float for subnormal numbers.
fn unit(x: f64) -> f64 {
    let x = x.abs();
    if x < f64::from(f32::MIN_POSITIVE) {
        return f64::from(f32::from_bits(1));
    }
    f64::from_bits(x.to_bits() >> 52 << 52) * 2f64.powi(-23)
}

/// The largest error that was found, and the arguments.
#[derive(Clone, Copy, Default)]
struct Worst {
    error: f64,
    at: [f32; 2],
}

impl Worst {
    /// Evaluates the function; breaks at a result that is wrong altogether.
    #[inline(always)]
    fn take(&mut self, m: Math, at: [f32; 2]) -> ControlFlow<String> {
        let found = scalar::math_f32(m, at[0], at[1], 0.0);
        let [a, b] = at.map(f64::from);
        let wanted = reference(m, a, b);
        let rounded = wanted as f32;
        if rounded.is_finite() && rounded != 0.0 && found.is_finite() {
            let error = (f64::from(found) - wanted).abs() / unit(wanted);
            if error > self.error {
                *self = Worst { error, at };
            }
        } else if found != rounded && !(found.is_nan() && rounded.is_nan()) {
            // Results at the border of infinity and zero may be on either side.
            let most = f64::from(f32::MAX);
            let near_infinity = (wanted.abs() / most - 1.0).abs() < 3e-7 && found.abs() >= f32::MAX;
            let near_zero = wanted.abs() < 3e-45 && found.abs() < 3e-45;
            if !near_infinity && !near_zero {
                return ControlFlow::Break(format!("{m:?} of {at:?} is {found:e} instead of {wanted:e}"));
            }
        } else if rounded == 0.0 && found.to_bits() != rounded.to_bits() {
            return ControlFlow::Break(format!("{m:?} of {at:?} is a zero of the wrong sign"));
        }
        ControlFlow::Continue(())
    }

    fn or(self, other: Worst) -> Worst {
        if other.error > self.error { other } else { self }
    }
}

/// Every `step`th float.
fn floats(m: Math, first: u64, step: u64) -> Result<Worst, String> {
    let mut worst = Worst::default();
    let mut bits = first;
    while bits < 1 << 32 {
        if let ControlFlow::Break(fault) = worst.take(m, [f32::from_bits(bits as u32), 0.0]) {
            return Err(fault);
        }
        bits += step;
    }
    Ok(worst)
}

/// A float of any bits.
fn float(rng: &mut Random) -> f32 {
    f32::from_bits(rng.bits() as u32)
}

/// `n` pairs of arguments; for powers most of them such that the result is neither zero nor infinite, many with
/// an extreme exponent, and a base near 1 or near where the reduction of the logarithm changes.
fn pairs(m: Math, seed: u64, n: u64) -> Result<Worst, String> {
    let mut rng = Random(seed);
    let mut worst = Worst::default();
    for k in 0..n {
        let x = match k % 6 {
            0 => float(&mut rng),
            1 => (0.5 + rng.unit()) as f32,
            2 => (0.84 + 0.84 * rng.unit()) as f32,
            3 => (1.0 + 0.01 * (rng.unit() - 0.5)) as f32,
            4 => (2f64.powi((rng.bits() % 8) as i32 - 4) * (0.839 + 0.004 * rng.unit())) as f32,
            _ => (100.0 * rng.unit()) as f32,
        };
        let y = match (m, k / 6 % 4) {
            (Math::Pow, 0 | 1) => ((276.0 * rng.unit() - 149.0) / f64::from(x.abs()).log2()) as f32,
            (Math::Pow, 2) => (8.0 * (rng.unit() - 0.5)) as f32,
            (_, 0) => float(&mut rng),
            _ => (f64::from(x) * 2f64.powf(20.0 * (rng.unit() - 0.5))) as f32,
        };
        if let ControlFlow::Break(fault) = worst.take(m, [x, y]) {
            return Err(fault);
        }
    }
    Ok(worst)
}

#[test]
fn errors_are_within_their_bounds() {
    let all = std::env::var("PULLBACK_FLOATS").ok();
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mut faults = Vec::new();
    for (m, most) in FUNCTIONS {
        assert!(library::has(m));
        let is_named = |names: &String| names == "1" || names.split(',').any(|name| name == m.name());
        if all.as_ref().is_some_and(|names| !is_named(names)) {
            continue;
        }
        // The sample's step is a prime number.
        let (step, n) = if all.is_some() { (1, 1 << 31) } else { (10_007, 1 << 18) };
        let found: Result<Vec<Worst>, String> = std::thread::scope(|scope| {
            let one = |w: u64| match m.arity() {
                1 => floats(m, w * step, workers * step),
                _ => pairs(m, 88_172_645_463_325_252 + w, n / workers),
            };
            let running: Vec<_> = (0..workers).map(|w| scope.spawn(move || one(w))).collect();
            running.into_iter().map(|w| w.join().expect("a worker does not panic")).collect()
        });
        match found {
            Err(fault) => faults.push(fault),
            Ok(found) => {
                let worst = found.into_iter().fold(Worst::default(), Worst::or);
                if all.is_some() {
                    eprintln!("| `{}` | {:.3} | {:e}, {:e}", m.name(), worst.error, worst.at[0], worst.at[1]);
                }
                if worst.error > most {
                    faults.push(format!("{m:?} of {:?} is {:.3} units away", worst.at, worst.error));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
