//! Stores the state of a fit in a file, so that the fit can be resumed later.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files;
use crate::fit::optimise::lbfgs::Lbfgs;
use crate::fit::optimise::least_squares::Marquardt;
use crate::fit::optimise::rule::Means;

/// The state needed to resume a fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The method and the function that is minimised, as one text: see [`State::load`].
    pub of: String,
    /// Steps made so far.
    pub step: u64,
    /// Seconds spent so far.
    pub seconds: f64,
    /// The current point.
    pub x: Vec<f64>,
    /// The means of a first-order method.
    pub means: Means,
    /// The state of L-BFGS.
    pub lbfgs: Lbfgs,
    /// The state of Levenberg–Marquardt.
    pub marquardt: Marquardt,
    /// The loss at the start, once it is known.
    pub start: Option<f64>,
    /// The best point so far.
    pub best: Option<Best>,
    /// The last pair of step and loss.
    pub latest: Option<(f64, f64)>,
    /// The number of pairs so far.
    pub losses: u64,
    /// The plotted pairs of step and loss: every so many-th, so that there are not too many.
    pub history: Vec<(f64, f64)>,
    /// The first numbers of the point at the steps of `history`.
    pub path: Vec<Vec<f64>>,
    /// The pairs of step and loss of the items that are kept apart.
    pub validation: Vec<(f64, f64)>,
    /// The number of checks since the loss of the items kept apart was lowest.
    pub checks: u64,
}

/// A point and its loss: over all items or a batch, or over the items that are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The loss.
    pub loss: f64,
    /// The point.
    pub x: Vec<f64>,
    /// The step.
    pub step: u64,
}

/// The maximum number of loss values kept: beyond it, every second one is dropped.
const MOST_HISTORY: usize = 2048;

/// The most numbers whose way is kept.
pub const MOST_PLOTTED: usize = 16;

/// Drops every second element.
fn halve<T>(list: &mut Vec<T>) {
    let mut is_even = false;
    list.retain(|_| {
        is_even = !is_even;
        is_even
    });
}

impl State {
    /// The state before the first step, at the point `x`.
    pub fn new(of: String, x: Vec<f64>) -> State {
        State { of, means: Means::new(x.len()), x, ..State::default() }
    }

    /// Remembers the point if its loss is the lowest so far; returns true if it is. The first loss of items that are
    /// kept apart takes the place of that of the others.
    pub fn better(&mut self, loss: f64, step: u64) -> bool {
        let is_first = self.validation.len() == 1;
        if !is_first && self.best.as_ref().is_some_and(|best| loss >= best.loss) {
            return false;
        }
        self.best = Some(Best { loss, x: self.x.clone(), step });
        true
    }

    /// Records a value of the loss.
    pub fn record(&mut self, step: u64, loss: f64) {
        self.latest = Some((step as f64, loss));
        self.losses += 1;
        let most = MOST_HISTORY as u64;
        // Every pair at first, and every second, fourth and so on when there are too many.
        let every = (self.losses - 1).checked_div(most).map_or(1, |full| (full + 1).next_power_of_two());
        if (self.losses - 1).is_multiple_of(every) {
            if self.history.len() >= MOST_HISTORY {
                halve(&mut self.history);
                halve(&mut self.path);
            }
            self.history.push((step as f64, loss));
            self.path.push(self.x.iter().take(MOST_PLOTTED).copied().collect());
        }
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let state = serde_json::to_vec(self).map_err(|e| Error::write(path, e))?;
        files::write(path, &state)
    }

    /// Reads the file, which must be of `n` fitted numbers and the same text `of`.
    pub fn load(path: &Path, of: &str, n: usize) -> Result<State, Error> {
        let text = files::read_text(path, files::DATA)?;
        let state: State = serde_json::from_str(&text)
            .map_err(|e| Error::read(path, format!("it is not the checkpoint of a fit ({e})")))?;
        if state.x.len() != n {
            return Err(Error::read(
                path,
                format!("the checkpoint holds {} numbers, the program fits {n}", state.x.len()),
            ));
        }
        if state.of != of {
            return Err(Error::read(path, format!("the checkpoint is of {}, this is {of}", state.of)));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_does_not_grow_with_steps() {
        let mut state = State::default();
        (0..1_000_000).for_each(|step| state.record(step, 1.0 / step as f64));
        let first = state.history.first().map(|h| h.0);
        assert!(state.history.len() <= MOST_HISTORY && first == Some(0.0), "{}", state.history.len());
        assert!(state.history.len() > MOST_HISTORY / 4 && state.path.len() == state.history.len());
        let gaps: Vec<f64> = state.history.windows(2).map(|w| w[1].0 - w[0].0).collect();
        assert!(gaps.iter().all(|&gap| gap == gaps[0]), "{gaps:?}");
        assert_eq!(state.latest.map(|l| l.0), Some(999_999.0));
    }

    #[test]
    fn a_state_reads_back() {
        let state = State {
            of: "`loss` by Adam".into(),
            step: 7,
            seconds: 1.25,
            x: vec![0.1, 1e-300, -3.0],
            means: Means { step: 7, mean: vec![0.1; 3], square: vec![1.0 / 3.0; 3] },
            best: Some(Best { loss: 0.1, x: vec![1.0 / 7.0; 3], step: 5 }),
            lbfgs: Lbfgs {
                step: 1,
                value: Some(0.3),
                gradient: vec![1.0; 3],
                pairs: [(vec![1.0; 3], vec![2.0; 3])].into_iter().collect(),
            },
            history: vec![(0.0, 1.0), (7.0, 0.3)],
            ..State::default()
        };
        let path = std::env::temp_dir().join(format!("pullback-state-{}.json", std::process::id()));
        state.save(&path).expect("saves");
        assert_eq!(State::load(&path, &state.of, 3).expect("loads"), state);
        assert!(State::load(&path, &state.of, 4).is_err());
        assert!(State::load(&path, "`loss` by L-BFGS", 3).is_err());
        std::fs::remove_file(&path).expect("removes");
    }
}
