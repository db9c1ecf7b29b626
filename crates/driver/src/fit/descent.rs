//! Steps of Adam, by kernels where the parameters are ([`Reduction::Atomic`]): the point, its means and the
//! gradient stay in buffers, and the host looks at them only when it asks for them.
//!
//! The kernels round as [`Adam::update`] does, so both give the same bits. With workers, the host reads
//! the gradient and makes the step.
//!
//! [`Reduction::Atomic`]: super::kernel::Reduction::Atomic

use crate::error::Error;
use crate::fit::Fit;
use crate::fit::optimise::Adam;

/// The reason why no further step makes sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// No derivative is finite; the first is this one.
    Derivative(f64),
    /// The number with that index is NaN or too large.
    Number(usize, f64),
}

/// A descent by Adam from a point.
pub struct Descent {
    /// The rate of each number.
    rates: Vec<f64>,
    /// The largest magnitude that a number may have.
    far: f64,
    gradient: Vec<f64>,
}

/// The words of `fit_watch` where nothing is noted.
const NOTHING: [u32; 2] = [0, u32::MAX];

impl Descent {
    /// Begins at the point `x` with the state `adam`; `rates` has a rate for each number.
    pub fn new(fit: &mut Fit, x: &[f64], adam: &Adam, rates: &[f64], far: f64) -> Descent {
        fit.put(x);
        let descent = Descent { rates: rates.to_vec(), far, gradient: vec![0.0; x.len()] };
        if !fit.kernel.has_workers() {
            fit.runner.bind("fit_x", &doubles(x));
            fit.runner.bind("fit_mean", &doubles(&adam.mean));
            fit.runner.bind("fit_square", &doubles(&adam.square));
            fit.runner.bind("fit_rates", &doubles(&fit.rates_of_elements(rates)));
            fit.runner.bind("fit_far", &far.to_le_bytes());
            fit.runner.bind("fit_watch", &words(NOTHING));
            for f in &fit.kernel.fitted {
                let [value, next] = ["value", "next"].map(|what| format!("fit_{what}_{}", f.name));
                if let Ok(bytes) = fit.runner.bytes(&value).map(<[u8]>::to_vec) {
                    fit.runner.bind(&next, &bytes);
                }
            }
        }
        descent
    }

    /// The mean loss of some items at the current point.
    pub fn loss(&self, fit: &mut Fit, order: &[u32]) -> Result<f64, Error> {
        fit.loss_of(order)
    }

    /// Makes a step by the gradient over some items; `scale` applies to all rates. The point and the state of Adam
    /// are those of the step before unless the host makes the step; see [`Self::point`] and [`Self::state`].
    pub fn step(
        &mut self,
        fit: &mut Fit,
        (x, adam): (&mut [f64], &mut Adam),
        order: &[u32],
        scale: f64,
    ) -> Result<Option<Trouble>, Error> {
        if fit.kernel.has_workers() {
            return self.step_on_host(fit, (x, adam), order, scale);
        }
        fit.weigh(order.len());
        for part in order.chunks(fit.per_dispatch) {
            fit.add_up(part)?;
        }
        adam.step += 1;
        let [bias_mean, bias_square] = adam.biases();
        for (name, number) in
            [("fit_scale", scale), ("fit_bias_mean", bias_mean), ("fit_bias_square", bias_square)]
        {
            fit.runner.bind(name, &number.to_le_bytes());
        }
        fit.step()?;
        let [lost, far] = fit.watched()?;
        if [lost, far] == NOTHING {
            return Ok(None);
        }
        fit.runner.bind("fit_watch", &words(NOTHING));
        if lost as usize == self.rates.len() {
            // The step has changed nothing but cleared the gradient.
            self.point(fit, x)?;
            adam.step -= 1;
            fit.differentiate(order, &mut self.gradient)?;
            return Ok(Some(Trouble::Derivative(self.gradient[0])));
        }
        if far == u32::MAX {
            return Ok(None);
        }
        self.point(fit, x)?;
        Ok(Some(Trouble::Number(far as usize, x[far as usize])))
    }

    fn step_on_host(
        &mut self,
        fit: &mut Fit,
        (x, adam): (&mut [f64], &mut Adam),
        order: &[u32],
        scale: f64,
    ) -> Result<Option<Trouble>, Error> {
        fit.differentiate(order, &mut self.gradient)?;
        if let [first, ..] = self.gradient[..]
            && self.gradient.iter().all(|g| !g.is_finite())
        {
            return Ok(Some(Trouble::Derivative(first)));
        }
        adam.update(x, &self.gradient, &self.rates, scale);
        fit.put(x);
        let far = x.iter().position(|x| x.is_nan() || x.abs() > self.far);
        Ok(far.map(|at| Trouble::Number(at, x[at])))
    }

    /// Copies the current point to `x`.
    pub fn point(&self, fit: &Fit, x: &mut [f64]) -> Result<(), Error> {
        if fit.kernel.has_workers() { Ok(()) } else { fit.read_doubles("fit_x", x) }
    }

    /// Copies the current state of Adam, whose step is known, to `adam`.
    pub fn state(&self, fit: &Fit, adam: &mut Adam) -> Result<(), Error> {
        if fit.kernel.has_workers() {
            return Ok(());
        }
        fit.read_doubles("fit_mean", &mut adam.mean)?;
        fit.read_doubles("fit_square", &mut adam.square)
    }
}

/// The most numbers that are moved on the calling thread, since waking others takes longer.
const FEW: usize = 1 << 14;

impl Fit {
    /// Binds what the kernels of the descent use, so that other kernels of the program can run.
    pub(super) fn bind_descent(&mut self) {
        let zeros = vec![0; self.places.len() * 8];
        for name in ["fit_x", "fit_mean", "fit_square", "fit_rates"] {
            self.runner.bind(name, &zeros);
        }
        for name in ["fit_scale", "fit_bias_mean", "fit_bias_square", "fit_far"] {
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

    /// The rates of the numbers of an element of each parameter: all elements have the same.
    fn rates_of_elements(&self, rates: &[f64]) -> Vec<f64> {
        let mut out = Vec::new();
        let mut first = 0;
        for f in &self.kernel.fitted {
            let n = f.shape.as_ref().map_or(0, |shape| shape.len());
            out.extend_from_slice(&rates[first..first + n]);
            first += n * f.n();
        }
        out
    }

    fn read_doubles(&self, name: &str, to: &mut [f64]) -> Result<(), Error> {
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
