//! Tests of Levenberg–Marquardt against closed forms and against problems of the literature.

use super::*;

const TIGHT: Tolerances = Tolerances { decrease: 0.0, gradient: 1e-10 };

/// Residuals as a function, with derivatives by central differences.
struct Problem<F: Fn(&[f64]) -> Vec<f64>> {
    f: F,
    group: usize,
    calls: usize,
}

impl<F: Fn(&[f64]) -> Vec<f64>> Problem<F> {
    fn column(&self, x: &[f64], v: &[f64]) -> Vec<f64> {
        let at = |t: f64| (self.f)(&x.iter().zip(v).map(|(x, v)| x + t * v).collect::<Vec<_>>());
        let h = 1e-5;
        at(h).iter().zip(at(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect()
    }
}

impl<F: Fn(&[f64]) -> Vec<f64>> Residuals for Problem<F> {
    fn residuals(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<(), Error> {
        self.calls += 1;
        *out = (self.f)(x);
        Ok(())
    }

    fn jvp(&mut self, x: &[f64], v: &[f64], out: &mut Vec<f64>) -> Result<(), Error> {
        *out = self.column(x, v);
        Ok(())
    }

    fn vjp(&mut self, x: &[f64], u: &[f64], out: &mut [f64]) -> Result<(), Error> {
        for k in 0..x.len() {
            let mut unit = vec![0.0; x.len()];
            unit[k] = 1.0;
            out[k] = dot(&self.column(x, &unit), u);
        }
        Ok(())
    }

    fn group(&self) -> usize {
        self.group
    }
}

fn minimise(
    f: impl Fn(&[f64]) -> Vec<f64>,
    mut x: Vec<f64>,
    bounds: &Bounds,
    robust: Robust,
) -> (Vec<f64>, Marquardt, usize) {
    let (mut problem, mut state) = (Problem { f, group: 1, calls: 0 }, Marquardt::default());
    while let Step::Done(_) = state.update(&mut x, bounds, TIGHT, robust, &mut problem).expect("evaluates") {
        assert!(state.step < 300);
    }
    (x, state, problem.calls)
}

fn near(found: &[f64], wanted: &[f64], tolerance: f64) {
    let close = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= tolerance);
    assert!(close && found.len() == wanted.len(), "{found:?} instead of {wanted:?}");
}

/// Points near a line, one of them far off.
const LINE: [(f64, f64); 6] = [(0.0, 1.1), (1.0, 2.9), (2.0, 5.2), (3.0, 6.8), (4.0, 9.1), (5.0, 40.0)];

fn line(x: &[f64]) -> Vec<f64> {
    LINE.iter().map(|&(t, y)| x[0] * t + x[1] - y).collect()
}

#[test]
fn problems_of_the_literature_are_solved() {
    // More, Garbow and Hillstrom, "Testing Unconstrained Optimization Software": Rosenbrock, Powell's badly
    // scaled function, and the helical valley.
    let rosenbrock = |x: &[f64]| vec![10.0 * (x[1] - x[0] * x[0]), 1.0 - x[0]];
    let (x, _, calls) = minimise(rosenbrock, vec![-1.2, 1.0], &Bounds::none(2), Robust::Square);
    near(&x, &[1.0, 1.0], 1e-7);
    assert!(calls < 100, "{calls} evaluations");
    let powell = |x: &[f64]| vec![1e4 * x[0] * x[1] - 1.0, (-x[0]).exp() + (-x[1]).exp() - 1.0001];
    let (x, ..) = minimise(powell, vec![0.0, 1.0], &Bounds::none(2), Robust::Square);
    near(&x, &[1.098e-5, 9.106], 1e-3);
    let helix = |x: &[f64]| {
        let turn = x[1].atan2(x[0]) / std::f64::consts::TAU;
        vec![10.0 * (x[2] - 10.0 * turn), 10.0 * (x[0].hypot(x[1]) - 1.0), x[2]]
    };
    let (x, ..) = minimise(helix, vec![-1.0, 0.1, 0.0], &Bounds::none(3), Robust::Square);
    near(&x, &[1.0, 0.0, 0.0], 1e-7);
}

#[test]
fn robust_losses_ignore_a_point_far_off() {
    let (x, ..) = minimise(line, vec![0.0, 0.0], &Bounds::none(2), Robust::Square);
    near(&x, &[6.134_286, -4.485_714], 1e-4);
    let (x, ..) = minimise(line, vec![0.0, 0.0], &Bounds::none(2), Robust::Cauchy(0.1));
    near(&x, &[2.0, 1.0], 0.15);
    let (x, ..) = minimise(line, vec![0.0, 0.0], &Bounds::none(2), Robust::Huber(0.1));
    near(&x, &[2.0, 1.0], 0.3);
    // The derivative of each loss is the weight.
    for robust in [Robust::Square, Robust::Huber(0.7), Robust::Cauchy(0.7)] {
        for s in [0.01, 0.4, 0.6, 5.0] {
            let difference = (robust.of(s + 1e-6).0 - robust.of(s - 1e-6).0) / 2e-6;
            assert!((difference - robust.of(s).1).abs() < 1e-6, "{robust:?} at {s}");
        }
    }
}

#[test]
fn bounds_hold() {
    let bounds = Bounds { low: vec![1.0, 2.5], high: vec![3.0, 2.5] };
    let (x, ..) = minimise(line, vec![2.0, 2.5], &bounds, Robust::Square);
    near(&x, &[3.0, 2.5], 0.0);
    let bounds = Bounds { low: vec![1.0, 2.5], high: vec![9.0, 2.5] };
    let (x, ..) = minimise(line, vec![2.0, 2.5], &bounds, Robust::Square);
    let (tt, ty): (f64, f64) = LINE.iter().fold((0.0, 0.0), |(a, b), (t, y)| (a + t * t, b + t * (y - 2.5)));
    near(&x, &[ty / tt, 2.5], 1e-7);
}

/// A chain: in units that the function gives, neighbours differ by a known amount, and so do the squares from known ones.
struct Chain(fn(usize) -> f64);

impl Chain {
    fn in_units(&self, x: &[f64]) -> Vec<f64> {
        x.iter().enumerate().map(|(k, x)| x * self.0(k)).collect()
    }
}

impl Residuals for Chain {
    fn residuals(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<(), Error> {
        let x = self.in_units(x);
        *out = x.windows(2).map(|w| w[1] - w[0] - 0.01).collect();
        out.push(10.0 * (x[0] - 1.0));
        out.extend(x.iter().enumerate().map(|(k, x)| x * x - (1.0 + 0.01 * k as f64).powi(2)));
        Ok(())
    }

    fn jvp(&mut self, x: &[f64], v: &[f64], out: &mut Vec<f64>) -> Result<(), Error> {
        let (x, v) = (self.in_units(x), self.in_units(v));
        *out = v.windows(2).map(|w| w[1] - w[0]).collect();
        out.push(10.0 * v[0]);
        out.extend(x.iter().zip(&v).map(|(x, v)| 2.0 * x * v));
        Ok(())
    }

    fn vjp(&mut self, x: &[f64], u: &[f64], out: &mut [f64]) -> Result<(), Error> {
        let (n, x) = (x.len(), self.in_units(x));
        for k in 0..n {
            out[k] = 2.0 * x[k] * u[n + k];
            out[k] += if k > 0 { u[k - 1] } else { 10.0 * u[n - 1] };
            out[k] -= if k + 1 < n { u[k] } else { 0.0 };
            out[k] *= self.0(k);
        }
        Ok(())
    }

    fn group(&self) -> usize {
        1
    }
}

#[test]
fn many_numbers_are_fitted_without_a_matrix() {
    let n = 600;
    let (mut x, mut state, mut problem) = (vec![2.0; n], Marquardt::default(), Chain(|_| 1.0));
    let none = Bounds::none(n);
    while let Step::Done(_) =
        state.update(&mut x, &none, TIGHT, Robust::Square, &mut problem).expect("evaluates")
    {
        assert!(state.step < 100);
    }
    let wanted: Vec<f64> = (0..n).map(|k| 1.0 + 0.01 * k as f64).collect();
    near(&x, &wanted, 1e-6);
}

#[test]
fn many_numbers_may_have_different_units() {
    // From a thousandth to a thousand.
    let n = 600;
    let mut problem = Chain(|k| 10f64.powi((k % 7) as i32 - 3));
    let (mut x, mut state) = ((0..n).map(|k| 2.0 / problem.0(k)).collect::<Vec<f64>>(), Marquardt::default());
    for _ in 0..20 {
        let step =
            state.update(&mut x, &Bounds::none(n), TIGHT, Robust::Square, &mut problem).expect("evaluates");
        if !matches!(step, Step::Done(_)) {
            break;
        }
    }
    let wanted: Vec<f64> = (0..n).map(|k| 1.0 + 0.01 * k as f64).collect();
    near(&problem.in_units(&x), &wanted, 1e-5);
}

#[test]
fn the_covariance_is_that_of_linear_regression() {
    let f = |x: &[f64]| LINE[..5].iter().map(|&(t, y)| x[0] * t + x[1] - y).collect::<Vec<_>>();
    let (x, ..) = minimise(f, vec![0.0, 0.0], &Bounds::none(2), Robust::Square);
    let mut problem = Problem { f, group: 1, calls: 0 };
    let found = covariance(&x, &Bounds::none(2), Robust::Square, &mut problem).expect("evaluates");
    let found = found.expect("is determined");
    // s² = Σ r² / 3; the variance of the slope is s² / Σ (t - mean)², that of the height s² (1/5 + mean² / …).
    let square: f64 = f(&x).iter().map(|r| r * r).sum::<f64>() / 3.0;
    near(&[found.deviation], &[square.sqrt()], 1e-9);
    let errors: Vec<f64> = found.errors.iter().map(|e| e.expect("is free")).collect();
    near(&errors, &[(square / 10.0).sqrt(), (square * (0.2 + 4.0 / 10.0)).sqrt()], 1e-7);
    near(&found.matrix[1..3], &[-2.0 * square / 10.0; 2], 1e-7);

    let twice = |x: &[f64]| LINE.iter().map(|&(t, y)| (x[0] + x[1]) * t + x[2] - y).collect::<Vec<_>>();
    let mut problem = Problem { f: twice, group: 1, calls: 0 };
    let found = covariance(&[1.0, 1.0, 1.0], &Bounds::none(3), Robust::Square, &mut problem);
    assert_eq!(found.expect("evaluates"), Err(NoCovariance::Undetermined(1)));
    let fixed = Bounds { low: vec![f64::NEG_INFINITY, 1.0, f64::NEG_INFINITY], high: vec![9.0, 1.0, 9.0] };
    let found = covariance(&[1.0, 1.0, 1.0], &fixed, Robust::Square, &mut problem).expect("evaluates");
    assert_eq!(found.expect("is determined").errors[1], None);
    let found = covariance(
        &[1.0; 9],
        &Bounds::none(9),
        Robust::Square,
        &mut Problem { f: |x: &[f64]| x.to_vec(), group: 1, calls: 0 },
    );
    assert_eq!(found.expect("evaluates"), Err(NoCovariance::Few));
}
