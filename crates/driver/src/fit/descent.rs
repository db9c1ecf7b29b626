//! Steps of first-order methods, by kernels where the parameters are ([`Reduction::Atomic`]): the point, its means and
//! the gradient stay in buffers, and the host looks at them only when it asks for them.
//!
//! The kernels round as [`Rule::update`] does, so both give the same bits. With workers, the host reads
//! the gradient and makes the step.
//!
//! [`Reduction::Atomic`]: super::kernel::Reduction::Atomic

use crate::error::Error;
use crate::fit::Fit;
use crate::fit::numbers::read_number;
use crate::fit::optimise::rule::{Factors, Means, Rates, Rule};

/// The reason why no further step makes sense.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The derivative by the number with that index is infinite or NaN, at this point.
    Derivative(usize, f64, Vec<f64>),
    /// The number with that index has become NaN or too large.
    Number(usize, f64),
}

/// The method of a descent, and its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The method; that of the kernels.
    pub rule: Rule,
    /// The rate and the bounds of each number.
    pub rates: Rates,
    /// The largest norm of the gradient; a longer one is scaled down to it.
    pub clip: Option<f64>,
    /// The factor of losses while they are differentiated, a power of two, so that no cotangent is too small for a half.
    pub loss_scale: f64,
    /// The largest magnitude that a number may have.
    pub far: f64,
}

/// A descent from a point.
pub struct Descent {
    settings: Settings,
    gradient: Vec<f64>,
}

/// The words of `fit_watch` where nothing is noted.
const NOTHING: [u32; 2] = [u32::MAX; 2];

impl Descent {
    /// Begins at the point `x` with these means.
    pub fn new(fit: &mut Fit, x: &[f64], means: &Means, settings: Settings) -> Descent {
        fit.put(x);
        fit.loss_scale = settings.loss_scale;
        if !fit.kernel.has_workers() {
            let Rates { rates, bounds } = &settings.rates;
            fit.runner.bind("fit_x", &doubles(x));
            fit.runner.bind("fit_mean", &doubles(&means.mean));
            fit.runner.bind("fit_square", &doubles(&means.square));
            for (name, numbers) in
                [("fit_rates", rates), ("fit_low", &bounds.low), ("fit_high", &bounds.high)]
            {
                fit.runner.bind(name, &doubles(&fit.of_elements(numbers)));
            }
            fit.runner.bind("fit_far", &settings.far.to_le_bytes());
            fit.runner.bind("fit_watch", &words(NOTHING));
            for f in &fit.kernel.fitted {
                let [value, next] = ["value", "next"].map(|what| format!("fit_{what}_{}", f.name));
                if let Ok(bytes) = fit.runner.bytes(&value).map(<[u8]>::to_vec) {
                    fit.runner.bind(&next, &bytes);
                }
            }
        }
        Descent { gradient: vec![0.0; x.len()], settings }
    }

    /// The mean loss of some items at the current point.
    pub fn loss(&self, fit: &mut Fit, order: &[u32]) -> Result<f64, Error> {
        fit.loss_of(order)
    }

    /// Makes a step by the gradient over the items of some batches; `scale` applies to all rates. The point and the
    /// means are those of the step before unless the host makes the step; see [`Self::point`] and [`Self::state`].
    pub fn step(
        &mut self,
        fit: &mut Fit,
        (x, means): (&mut [f64], &mut Means),
        batches: &[Vec<u32>],
        scale: f64,
    ) -> Result<Option<Trouble>, Error> {
        if fit.kernel.has_workers() {
            return self.step_on_host(fit, (x, means), batches, scale);
        }
        fit.weigh_scaled(batches.iter().map(Vec::len).sum());
        let most = fit.per_dispatch;
        for part in batches.iter().flat_map(|batch| batch.chunks(most)) {
            fit.add_up(part)?;
        }
        if self.settings.clip.is_some() {
            fit.copy_gradient(&mut self.gradient)?;
        }
        means.step += 1;
        let [bias_mean, bias_square] = self.settings.rule.biases(means.step);
        for (name, number) in [
            ("fit_scale", scale),
            ("fit_clip", self.clip() / fit.loss_scale),
            ("fit_bias_mean", bias_mean),
            ("fit_bias_square", bias_square),
        ] {
            fit.runner.bind(name, &number.to_le_bytes());
        }
        fit.step()?;
        let [lost, far] = fit.watched()?;
        if [lost, far] == NOTHING {
            return Ok(None);
        }
        fit.runner.bind("fit_watch", &words(NOTHING));
        if lost != u32::MAX {
            let before = fit.point_before()?;
            fit.put(&before);
            self.differentiate(fit, batches)?;
            let at = self.gradient.iter().position(|g| !g.is_finite()).unwrap_or(lost as usize);
            return Ok(Some(Trouble::Derivative(at, self.gradient[at], before)));
        }
        self.point(fit, x)?;
        Ok(Some(Trouble::Number(far as usize, x[far as usize])))
    }

    fn step_on_host(
        &mut self,
        fit: &mut Fit,
        (x, means): (&mut [f64], &mut Means),
        batches: &[Vec<u32>],
        scale: f64,
    ) -> Result<Option<Trouble>, Error> {
        self.differentiate(fit, batches)?;
        if let Some(at) = self.gradient.iter().position(|g| !g.is_finite()) {
            return Ok(Some(Trouble::Derivative(at, self.gradient[at], x.to_vec())));
        }
        let factors = Factors { rate: scale, gradient: self.clip() };
        self.settings.rule.update(means, x, &self.gradient, &self.settings.rates, factors);
        fit.put(x);
        let far = x.iter().position(|x| x.is_nan() || x.abs() > self.settings.far);
        Ok(far.map(|at| Trouble::Number(at, x[at])))
    }

    /// Computes the gradient over some batches at the point that was put.
    fn differentiate(&mut self, fit: &mut Fit, batches: &[Vec<u32>]) -> Result<(), Error> {
        fit.differentiate(&batches.concat(), &mut self.gradient)
    }

    /// The factor that keeps the gradient within the norm.
    fn clip(&self) -> f64 {
        let Some(clip) = self.settings.clip else { return 1.0 };
        let finite = self.gradient.iter().filter(|g| g.is_finite());
        let norm = finite.map(|g| g * g).sum::<f64>().sqrt();
        if norm > clip { clip / norm } else { 1.0 }
    }

    /// Copies the current point to `x`.
    pub fn point(&self, fit: &Fit, x: &mut [f64]) -> Result<(), Error> {
        if fit.kernel.has_workers() { Ok(()) } else { fit.read_doubles("fit_x", x) }
    }

    /// Copies the current means, whose step is known, to `means`.
    pub fn state(&self, fit: &Fit, means: &mut Means) -> Result<(), Error> {
        if fit.kernel.has_workers() {
            return Ok(());
        }
        fit.read_doubles("fit_mean", &mut means.mean)?;
        fit.read_doubles("fit_square", &mut means.square)
    }
}

/// The most numbers that are moved on the calling thread, since waking others takes longer.
const FEW: usize = 1 << 14;

impl Fit {
    /// Binds what the kernels of the descent use, so that other kernels of the program can run.
    pub(super) fn bind_descent(&mut self) {
        let zeros = vec![0; self.places.len() * 8];
        for name in ["fit_x", "fit_mean", "fit_square", "fit_rates", "fit_low", "fit_high"] {
            self.runner.bind(name, &zeros);
        }
        for name in ["fit_scale", "fit_clip", "fit_bias_mean", "fit_bias_square", "fit_far"] {
            self.runner.bind(name, &[0; 8]);
        }
        self.runner.bind("fit_watch", &words(NOTHING));
    }

    /// Moves all parameters, whose gradients are in the buffers, and clears these.
    fn step(&mut self) -> Result<(), Error> {
        let threads = self.threads;
        if self.places.len() <= FEW {
            self.threads = 1;
        }
        let mut done = Ok(());
        for k in 0..self.kernel.fitted.len() {
            let f = &self.kernel.fitted[k];
            let (name, n) = (f.name.clone(), f.step_threads());
            done = done.and_then(|()| self.dispatch(&format!("fit_step_{name}"), n, None));
            let [value, next] = ["value", "next"].map(|what| self.runner.find(&format!("fit_{what}_{name}")));
            if let (Ok(()), Some(value), Some(next)) = (&done, value, next) {
                self.runner.exchange(value, next);
            }
        }
        self.threads = threads;
        done
    }

    fn watched(&self) -> Result<[u32; 2], Error> {
        let bytes = self.runner.bytes("fit_watch")?;
        let word = |at: usize| bytes[at..at + 4].iter().rev().fold(0, |word, &b| word << 8 | u32::from(b));
        Ok([word(0), word(4)])
    }

    /// The point before the last step.
    fn point_before(&self) -> Result<Vec<f64>, Error> {
        let names = self.kernel.fitted.iter().map(|f| format!("fit_next_{}", f.name));
        let buffers: Vec<&[u8]> = names.map(|name| self.runner.bytes(&name)).collect::<Result<_, _>>()?;
        let numbers = self.places.iter().map(|p| read_number(p.scalar, buffers[p.param], p.at));
        Ok(numbers.collect())
    }

    /// The settings of the numbers of one element of each parameter; those of all elements are the same.
    fn of_elements(&self, all: &[f64]) -> Vec<f64> {
        let mut out = Vec::new();
        let mut first = 0;
        for f in &self.kernel.fitted {
            let n = f.shape.as_ref().map_or(0, |shape| shape.len());
            out.extend_from_slice(&all[first..first + n]);
            first += n * f.n();
        }
        out
    }

    /// Copies a buffer of doubles, unless the method has no need of it.
    fn read_doubles(&self, name: &str, to: &mut [f64]) -> Result<(), Error> {
        if self.runner.find(name).is_none() {
            return Ok(());
        }
        let bytes = self.runner.bytes(name)?;
        for (x, bytes) in to.iter_mut().zip(bytes.chunks_exact(8)) {
            *x = f64::from_le_bytes(bytes.try_into().expect("a chunk has eight bytes"));
        }
        Ok(())
    }
}

fn doubles(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn words(words: [u32; 2]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
