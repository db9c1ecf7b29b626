//! The loop of a fit, for all methods.
//!
//! Everything that a step depends on is in [`State`] and [`Plan`]: batches and schedules are functions of the number
//! of the step. So a fit that is interrupted, stored and resumed goes on as if it had not been interrupted.

use std::fmt;
use std::time::Instant;

use crate::error::Error;
use crate::files;
use crate::fit::Fit;
use crate::fit::batches::{Batches, split};
use crate::fit::descent::{Descent, Settings, Trouble};
use crate::fit::kernel::Task;
use crate::fit::optimise::bounds::Bounds;
use crate::fit::optimise::least_squares::{self, Covariance, NoCovariance, Robust};
use crate::fit::optimise::rule::Rates;
use crate::fit::optimise::schedule::Schedule;
use crate::fit::optimise::{Objective, Step, Tolerances};
use crate::fit::state::{Best, State};

/// The methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// That of the kernels' rule: Adam, AdamW or SGD.
    FirstOrder,
    /// L-BFGS.
    Lbfgs,
    /// Levenberg–Marquardt.
    Marquardt,
}

/// The plan of a fit: its method, its options and when it ends.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The method.
    pub method: Method,
    /// The number of steps.
    pub steps: u64,
    /// The most seconds.
    pub seconds: Option<f64>,
    /// Items in a batch of a first-order method.
    pub batch: usize,
    /// The number of batches whose gradients are added up for a step.
    pub accumulate: usize,
    /// The factor of the rates at each step.
    pub schedule: Schedule,
    /// The rate and the bounds of each number.
    pub rates: Rates,
    /// The largest norm of a gradient.
    pub clip: Option<f64>,
    /// The factor of losses while they are differentiated (first-order methods).
    pub loss_scale: f64,
    /// When a minimum counts as found (L-BFGS, Levenberg–Marquardt).
    pub tolerances: Tolerances,
    /// The loss of a residual (Levenberg–Marquardt).
    pub robust: Robust,
    /// The items that are kept apart.
    pub validation: Option<Validation>,
    /// The seed of the batches.
    pub seed: u64,
}

/// Items that are kept apart: the fit stops when it gets no better for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validation {
    /// Their share of all items.
    pub share: f64,
    /// The number of checks in a row without a lower loss after which the fit stops.
    pub patience: u64,
}

/// The wish of an observer after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Continue,
    /// Bring the state up to date and call [`Observer::save`].
    Save,
    /// Stop.
    Interrupt,
}

/// A witness of a fit.
pub trait Observer {
    /// Called after each step with the last loss that is known. The point is not always that of the state: see
    /// [`Wish::Save`].
    fn step(&mut self, fit: &mut Fit, state: &State, loss: f64) -> Result<Wish, Error>;
    /// Called with an up-to-date state at the start and after each pass over the items, or after each step of a method
    /// that uses all items for it. A pass has at least [`LOSS_EVERY`] steps.
    fn pass(&mut self, fit: &mut Fit, state: &State) -> Result<(), Error>;
    /// Called with an up-to-date state.
    fn save(&mut self, fit: &mut Fit, state: &State) -> Result<(), Error>;
}

/// The reason why a fit is finished.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// All steps were made.
    Steps(u64),
    /// The time is over.
    Seconds(f64),
    /// The last step decreased the loss by less than this share.
    Decrease(f64),
    /// No derivative exceeds the tolerance; the largest has this magnitude.
    Flat(f64),
    /// No lower value was found.
    Stuck,
    /// The loss of the items kept apart has not become lower since this step, for so many checks.
    Validation(u64, u64),
    /// The user interrupted it.
    Interrupted,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Steps(steps) => write!(f, "all {steps} steps are made"),
            Ending::Seconds(seconds) => write!(f, "{seconds} seconds are over"),
            Ending::Decrease(share) => write!(f, "the last step lowered the loss by less than {share} of it"),
            Ending::Flat(most) => {
                write!(f, "no derivative is above the tolerance, the largest is {most:.3e}")
            }
            Ending::Stuck => write!(f, "no lower loss is found near the point, at this precision"),
            Ending::Validation(step, checks) => {
                write!(f, "the validation loss has not fallen since step {step}, for {checks} checks")
            }
            Ending::Interrupted => write!(f, "interrupted"),
        }
    }
}

/// A fit that went wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Diverged {
    /// The reason.
    pub why: String,
    /// The step.
    pub step: u64,
    /// Where to look for the item to blame: a point and items.
    pub at: Option<(Vec<f64>, Vec<u32>)>,
}

/// The reason why a fit stopped without a result.
#[derive(Debug)]
pub enum Stopped {
    /// It diverged.
    Diverged(Diverged),
    /// Another error.
    Error(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Error(error)
    }
}

/// The number of steps of a first-order method between two values of the loss.
pub const LOSS_EVERY: u64 = 10;
/// Numbers that exceed those at the start by this factor are a sign of a fit without a minimum.
const FAR: f64 = 1e8;
/// A loss that exceeds the one at the start by this factor is not noise.
const WORSE: f64 = 1e3;
/// A loss whose magnitude exceeds that at the start by this factor is unbounded, possibly from below.
const BOTTOMLESS: f64 = 1e12;

/// A fit in progress.
pub struct Run<'a> {
    fit: &'a mut Fit,
    plan: &'a Plan,
    state: &'a mut State,
    observer: &'a mut dyn Observer,
    /// The items that are fitted, and those kept apart.
    order: Vec<u32>,
    apart: Vec<u32>,
    /// The largest plausible magnitude of a number.
    far: f64,
    begin: Instant,
    seconds_before: f64,
}

/// The result of a fit: the last point or, with items kept apart, the one that was best for them. The state keeps the last
/// one, from which a fit can go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimum {
    /// The point.
    pub x: Vec<f64>,
    /// Its value over the items that were fitted: the mean loss, or half the sum of the (robust) squares.
    pub fitted: f64,
    /// The mean over the items kept apart.
    pub apart: Option<f64>,
}

impl Fit {
    /// The items that are fitted, and those that are kept apart.
    pub fn parts(&self, plan: &Plan) -> (Vec<u32>, Vec<u32>) {
        split(&self.order(), plan.validation.map_or(0.0, |v| v.share), plan.seed)
    }

    /// Minimises from the state on.
    pub fn minimise(
        &mut self,
        plan: &Plan,
        state: &mut State,
        observer: &mut dyn Observer,
    ) -> Result<(Ending, Optimum), Stopped> {
        let (order, apart) = self.parts(plan);
        let largest = self.start.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        let seconds_before = state.seconds;
        let (fit, begin, far) = (self, Instant::now(), FAR * largest);
        let mut run = Run { fit, plan, state, observer, order, apart, far, begin, seconds_before };
        run.start()?;
        let ending = match plan.method {
            Method::FirstOrder => run.descend(),
            Method::Lbfgs => run.lbfgs(),
            Method::Marquardt => run.marquardt(),
        }?;
        run.end(ending)
    }

    /// The covariance of the numbers at a minimum of least squares.
    pub fn covariance(&mut self, plan: &Plan, x: &[f64]) -> Result<Result<Covariance, NoCovariance>, Error> {
        least_squares::covariance(x, &plan.rates.bounds, plan.robust, self)
    }
}

/// The mean loss over some items, as an objective.
struct Mean<'a>(&'a mut Fit, &'a [u32]);

impl Objective for Mean<'_> {
    fn evaluate(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
        self.0.evaluate(x, self.1, gradient)
    }
}

impl Run<'_> {
    /// The value at the state's point over some items.
    fn value(&mut self, order: &[u32]) -> Result<f64, Error> {
        match self.fit.kernel.task {
            Task::Loss(_) => self.fit.loss(&self.state.x, order),
            Task::Residuals => least_squares::value(&self.state.x, self.plan.robust, self.fit),
        }
    }

    /// Evaluates the loss at the start, which must be finite.
    fn start(&mut self) -> Result<(), Stopped> {
        if self.state.start.is_some() {
            return Ok(());
        }
        let order = self.order.clone();
        let start = self.value(&order)?;
        if !start.is_finite() {
            let why = format!("the loss is {start} at the start");
            return Err(self.diverged(why, Some((self.state.x.clone(), order))));
        }
        let best = Best { loss: start, x: self.state.x.clone(), step: 0 };
        (self.state.start, self.state.best) = (Some(start), Some(best));
        self.state.record(0, start);
        Ok(())
    }

    fn diverged(&self, why: String, at: Option<(Vec<f64>, Vec<u32>)>) -> Stopped {
        Stopped::Diverged(Diverged { why, step: self.state.step, at })
    }

    /// Returns the ending if the budget is used up.
    fn is_over(&self) -> Option<Ending> {
        if self.state.step >= self.plan.steps {
            return Some(Ending::Steps(self.plan.steps));
        }
        self.plan.seconds.filter(|&seconds| self.state.seconds >= seconds).map(Ending::Seconds)
    }

    /// Records the loss at the state's point; returns an error if the fit has diverged.
    fn note(&mut self, loss: f64, order: &[u32]) -> Result<(), Stopped> {
        let (step, start) = (self.state.step, self.state.start.unwrap_or(0.0));
        if !loss.is_finite() || loss.abs() > BOTTOMLESS * (1.0 + start.abs()) {
            let at = Some((self.state.x.clone(), order.to_vec())).filter(|_| !loss.is_finite());
            return Err(self.diverged(format!("the loss is {loss}"), at));
        }
        if self.apart.is_empty() {
            self.state.better(loss, step);
        }
        self.state.record(step, loss);
        Ok(())
    }

    /// Checks the items kept apart at the state's point; returns true if the fit gets no better.
    fn validate(&mut self) -> Result<Option<Ending>, Stopped> {
        let Some(validation) = self.plan.validation.filter(|_| !self.apart.is_empty()) else {
            return Ok(None);
        };
        let apart = self.apart.clone();
        let loss = self.fit.loss(&self.state.x, &apart)?;
        let step = self.state.step;
        self.state.validation.push((step as f64, loss));
        if self.state.better(loss, step) || self.state.validation.len() == 1 {
            self.state.checks = 0;
            return Ok(None);
        }
        self.state.checks += 1;
        let best = self.state.best.as_ref().map_or(0, |best| best.step);
        let is_over = self.state.checks >= validation.patience;
        Ok(is_over.then_some(Ending::Validation(best, self.state.checks)))
    }

    /// Reports a step to the observer, whose wish is fulfilled by the caller.
    fn report(&mut self, loss: f64) -> Result<Wish, Error> {
        self.state.seconds = self.seconds_before + self.begin.elapsed().as_secs_f64();
        self.observer.step(self.fit, self.state, loss)
    }

    /// Adam, AdamW and SGD.
    fn descend(&mut self) -> Result<Ending, Stopped> {
        let Task::Loss(rule) = self.fit.kernel.task else {
            return Err(Error::Internal("residuals have no first-order method".into()).into());
        };
        let mut batches = Batches::new(&self.fit.items, &self.order, self.plan.batch, self.plan.seed);
        let per_step = self.plan.accumulate.max(1) as u64;
        let items = self.plan.batch.min(self.order.len()).saturating_mul(self.plan.accumulate);
        files::check_room(items.saturating_mul(size_of::<u64>()))
            .map_err(|why| Error::input(format!("a step of {} batches: {why}", self.plan.accumulate)))?;
        let epoch = batches.per_epoch().div_ceil(per_step).max(LOSS_EVERY);
        let mut loss = self.state.latest.map_or(f64::NAN, |latest| latest.1);
        let settings = Settings {
            rule,
            rates: self.plan.rates.clone(),
            clip: self.plan.clip,
            loss_scale: self.plan.loss_scale,
            far: self.far,
        };
        let mut descent = Descent::new(self.fit, &self.state.x, &self.state.means, settings);
        let ending = loop {
            if let Some(ending) = self.is_over() {
                break ending;
            }
            let step = self.state.step;
            let first = step * per_step;
            let taken: Vec<Vec<u32>> = (0..per_step).map(|k| batches.batch(first + k).to_vec()).collect();
            if step.is_multiple_of(LOSS_EVERY) {
                loss = descent.loss(self.fit, &taken[0])?;
                descent.point(self.fit, &mut self.state.x)?;
                self.note(loss, &taken[0])?;
            }
            if step.is_multiple_of(epoch) {
                descent.point(self.fit, &mut self.state.x)?;
                let validated = if step > 0 { self.validate()? } else { None };
                if let Some(ending) = validated {
                    break ending;
                }
                self.observer.pass(self.fit, self.state)?;
            }
            let scale = self.plan.schedule.factor(step, self.plan.steps);
            let (x, means) = (&mut self.state.x, &mut self.state.means);
            match descent.step(self.fit, (x, means), &taken, scale)? {
                None => {}
                Some(Trouble::Derivative(at, value, before)) => {
                    let why = format!("the derivative by `{}` is {value}", self.fit.paths[at]);
                    return Err(self.diverged(why, Some((before, taken.concat()))));
                }
                Some(Trouble::Number(at, x)) => {
                    self.state.step += 1;
                    return Err(self.diverged(format!("`{}` is {x}", self.fit.paths[at]), None));
                }
            }
            self.state.step += 1;
            match self.report(loss)? {
                Wish::Continue => {}
                wish @ (Wish::Save | Wish::Interrupt) => {
                    descent.point(self.fit, &mut self.state.x)?;
                    descent.state(self.fit, &mut self.state.means)?;
                    if wish == Wish::Interrupt {
                        return Ok(Ending::Interrupted);
                    }
                    self.observer.save(self.fit, self.state)?;
                }
            }
        };
        descent.point(self.fit, &mut self.state.x)?;
        descent.state(self.fit, &mut self.state.means)?;
        Ok(ending)
    }

    /// L-BFGS.
    fn lbfgs(&mut self) -> Result<Ending, Stopped> {
        let order = self.order.clone();
        self.each_step(|run| {
            let mut objective = Mean(run.fit, &order);
            let bounds: &Bounds = &run.plan.rates.bounds;
            run.state.lbfgs.update(&mut run.state.x, bounds, run.plan.tolerances, &mut objective)
        })
    }

    /// Levenberg–Marquardt.
    fn marquardt(&mut self) -> Result<Ending, Stopped> {
        self.each_step(|run| {
            let (bounds, tolerances) = (&run.plan.rates.bounds, run.plan.tolerances);
            run.state.marquardt.update(&mut run.state.x, bounds, tolerances, run.plan.robust, run.fit)
        })
    }

    /// Makes steps that need all items until there is nothing left to gain.
    fn each_step(
        &mut self,
        mut make: impl FnMut(&mut Self) -> Result<Step, Error>,
    ) -> Result<Ending, Stopped> {
        let order = self.order.clone();
        if self.state.step == 0 {
            self.observer.pass(self.fit, self.state)?;
        }
        loop {
            if let Some(ending) = self.is_over() {
                return Ok(ending);
            }
            let step = make(self)?;
            let value = match step {
                Step::Flat(most) => return Ok(Ending::Flat(most)),
                Step::Stuck => return Ok(Ending::Stuck),
                Step::NotFinite(k, value) => {
                    let why = format!("the derivative by `{}` is {value}", self.fit.paths[k]);
                    return Err(self.diverged(why, Some((self.state.x.clone(), order))));
                }
                Step::Done(value) | Step::Last(value) => value,
            };
            self.state.step += 1;
            self.note(value, &order)?;
            self.check()?;
            let validated = self.validate()?;
            let wish = self.report(value)?;
            self.observer.pass(self.fit, self.state)?;
            if let Some(ending) = validated {
                return Ok(ending);
            }
            if let Step::Last(_) = step {
                return Ok(Ending::Decrease(self.plan.tolerances.decrease));
            }
            match wish {
                Wish::Continue => {}
                Wish::Save => self.observer.save(self.fit, self.state)?,
                Wish::Interrupt => return Ok(Ending::Interrupted),
            }
        }
    }

    /// Returns an error if a number of the point is NaN or too large.
    fn check(&self) -> Result<(), Stopped> {
        let x = &self.state.x;
        match x.iter().position(|x| x.is_nan() || x.abs() > self.far) {
            Some(at) => Err(self.diverged(format!("`{}` is {}", self.fit.paths[at], x[at]), None)),
            None => Ok(()),
        }
    }

    /// Checks the point and the loss over all items at the end. With items kept apart, the point that was best for
    /// them is the result.
    fn end(&mut self, ending: Ending) -> Result<(Ending, Optimum), Stopped> {
        self.check()?;
        let kept = self.state.clone();
        let mut apart = None;
        if !self.apart.is_empty() && ending != Ending::Interrupted {
            self.validate()?;
            if let Some(best) = &self.state.best {
                self.state.x.copy_from_slice(&best.x);
                apart = Some(best.loss);
            }
        }
        let order = self.order.clone();
        let loss = self.value(&order)?;
        let start = self.state.start.unwrap_or(loss);
        if !loss.is_finite() || loss - start > WORSE * start.abs() + 1.0 {
            let at = Some((self.state.x.clone(), order)).filter(|_| !loss.is_finite());
            return Err(self.diverged(format!("the loss is {loss}, and was {start} at the start"), at));
        }
        let x = std::mem::replace(self.state, kept).x;
        Ok((ending, Optimum { x, fitted: loss, apart }))
    }
}
