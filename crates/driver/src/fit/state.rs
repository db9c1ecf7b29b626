//! The state of a fit as a file, so that it can go on later.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::error::Error;
use crate::fit::optimise::{Adam, Lbfgs};

/// What a fit needs to go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps made.
    pub step: u64,
    /// Seconds spent.
    pub seconds: f64,
    /// The point.
    pub x: Vec<f64>,
    /// Adam's memory.
    pub adam: Adam,
    /// L-BFGS's memory.
    pub lbfgs: Lbfgs,
    /// Step and loss, as plotted.
    pub history: Vec<(f64, f64)>,
}

impl State {
    /// Writes the file, by way of a second one, so that there is always a whole one.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let pairs: Vec<Json> = self.lbfgs.pairs.iter().map(|(s, y)| json!([s, y])).collect();
        let state = json!({
            "pullback-fit": 1,
            "step": self.step,
            "seconds": self.seconds,
            "x": self.x,
            "adam": { "step": self.adam.step, "mean": self.adam.mean, "square": self.adam.square },
            "lbfgs": {
                "step": self.lbfgs.step,
                "value": self.lbfgs.value,
                "gradient": self.lbfgs.gradient,
                "pairs": pairs,
            },
            "history": self.history,
        });
        let partial = path.with_extension("partial");
        std::fs::write(&partial, state.to_string()).map_err(|e| Error::write(&partial, e))?;
        std::fs::rename(&partial, path).map_err(|e| Error::write(path, e))
    }

    /// Reads the file; `n` is how many numbers are fitted.
    pub fn load(path: &Path, n: usize) -> Result<State, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::read(path, e))?;
        let json: Json = serde_json::from_str(&text).map_err(|e| Error::read(path, e))?;
        let state = parse(&json).ok_or_else(|| Error::read(path, "not the checkpoint of a fit"))?;
        if state.x.len() != n {
            return Err(Error::read(
                path,
                format!("the checkpoint holds {} numbers, the program fits {n}", state.x.len()),
            ));
        }
        Ok(state)
    }
}

fn parse(json: &Json) -> Option<State> {
    let numbers = |j: &Json| j.as_array()?.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>();
    let (adam, lbfgs) = (json.get("adam")?, json.get("lbfgs")?);
    let pairs = lbfgs.get("pairs")?.as_array()?.iter();
    let history = json.get("history")?.as_array()?.iter();
    Some(State {
        step: json.get("step")?.as_u64()?,
        seconds: json.get("seconds")?.as_f64()?,
        x: numbers(json.get("x")?)?,
        adam: Adam {
            step: adam.get("step")?.as_u64()?,
            mean: numbers(adam.get("mean")?)?,
            square: numbers(adam.get("square")?)?,
        },
        lbfgs: Lbfgs {
            step: lbfgs.get("step")?.as_u64()?,
            value: lbfgs.get("value")?.as_f64(),
            gradient: numbers(lbfgs.get("gradient")?)?,
            pairs: pairs.map(|p| Some((numbers(p.get(0)?)?, numbers(p.get(1)?)?))).collect::<Option<_>>()?,
        },
        history: history.map(|p| Some((p.get(0)?.as_f64()?, p.get(1)?.as_f64()?))).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_back() {
        let state = State {
            step: 7,
            seconds: 1.25,
            x: vec![0.1, 1e-300, -3.0],
            adam: Adam { step: 7, mean: vec![0.1; 3], square: vec![1.0 / 3.0; 3] },
            lbfgs: Lbfgs {
                step: 1,
                value: Some(0.3),
                gradient: vec![1.0; 3],
                pairs: [(vec![1.0; 3], vec![2.0; 3])].into_iter().collect(),
            },
            history: vec![(0.0, 1.0), (7.0, 0.3)],
        };
        let path = std::env::temp_dir().join(format!("pullback-state-{}.json", std::process::id()));
        state.save(&path).expect("saves");
        assert_eq!(State::load(&path, 3).expect("loads"), state);
        assert!(State::load(&path, 4).is_err());
        std::fs::remove_file(&path).expect("removes");
    }
}
