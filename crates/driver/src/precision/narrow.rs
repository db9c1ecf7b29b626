//! Proposes narrower types for variables, within a tolerance, and checks the proposal by running it.
//!
//! Each variable alone is given each narrower type, and the changed program is observed like the program itself; then the
//! variables are narrowed one after the other, those that cost least first, as long as the estimate of the program with all
//! of them stays within the tolerance. This is the greedy search of Menon et al. (2018), but with the estimate of the
//! changed program in place of a sum of terms of the original one: two variables that are narrow may narrow the operation
//! between them, which no term of either knows. Where the changed program's own error is larger than its estimate, as
//! where an error passes through a value without a derivative, that counts.
//!
//! Then the changed program is run in its own types at points that the estimate has not seen, and compared with the
//! original in numbers of twice a double's digits. If the error is larger than the tolerance, the variables that were
//! narrowed last get their types back until it is not.
//!
//! If the error of a derivative counts, too ([`Options::derivative`]), the derivative of every changed program is run, and
//! all of this holds for its error as well.

use ir::Scalar;
use syntax::Span;

use super::owners::{Change, Place, name_of};
use super::{Contribution, Estimate, Measured, Model, Options, Source, larger};
use crate::call::Direction;
use crate::error::{Error, Failure};
use crate::session::Session;

/// A variable with a narrower type.
#[derive(Clone, Debug, PartialEq)]
pub struct Narrowed {
    /// The index in [`super::Report::contributions`] of each variable that the change is of: several if they share the
    /// name of their type.
    pub variables: Vec<usize>,
    /// The type.
    pub to: Scalar,
}

/// A proposal of narrower types.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The variables with narrower types.
    pub narrowed: Vec<Narrowed>,
    /// The variables that have kept their types, and why.
    pub kept: Vec<(usize, String)>,
    /// The estimate for the changed program.
    pub predicted: f64,
    /// The errors of the changed program at other points than those of the estimate.
    pub measured: Measured,
    /// The number of these points.
    pub points: usize,
    /// The variables whose narrower types were given up because the error was larger than the tolerance.
    pub given_up: Vec<Narrowed>,
    /// The text of the changed program.
    pub text: String,
}

impl Proposal {
    /// Returns true if the errors of the changed program are known and within the tolerance.
    pub fn is_within(&self, tolerance: f64) -> bool {
        self.measured.value.is_some() && !self.measured.exceeds(tolerance)
    }
}

/// The word for the derivative of a mode.
pub fn derivative_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "tangent",
        Direction::Reverse | Direction::Back => "gradient",
    }
}

/// The errors of a changed program at the points of the estimate.
#[derive(Clone, Copy, Debug)]
struct Predicted {
    /// The estimate, or the error that the program has if that is larger.
    value: f64,
    /// The error of the derivative that counts, or 0.
    derivative: f64,
}

impl Predicted {
    fn largest(self) -> f64 {
        larger(self.value, self.derivative)
    }

    /// The reason why the program is not chosen.
    fn why(self, tolerance: f64, options: &Options) -> String {
        match options.derivative {
            Some(direction) if self.value <= tolerance => {
                format!("the error of the {} would be {:.1e}", derivative_name(direction), self.derivative)
            }
            _ => format!("the error would be {:.1e}", self.value),
        }
    }
}

/// A change of the source, and the variables that it is of.
struct Candidate {
    variables: Vec<usize>,
    change: Change,
    /// For each narrower type, the estimate with this change alone, or why there is none.
    alone: Vec<(Scalar, Result<f64, String>)>,
}

/// The types that are narrower than one, the widest first.
fn narrower(s: Scalar) -> &'static [Scalar] {
    match s {
        Scalar::F64 => &[Scalar::F32, Scalar::F16],
        Scalar::F32 => &[Scalar::F16],
        _ => &[],
    }
}

/// Estimates the error with each variable alone in narrower types, and fills in [`Contribution::narrower`].
pub fn alone(session: &Session, estimate: &mut Estimate, options: &Options) -> Result<(), Failure> {
    for candidate in candidates(session, estimate, options)? {
        for &k in &candidate.variables {
            estimate.report.contributions[k].narrower = candidate.alone.clone();
        }
    }
    Ok(())
}

fn candidates(session: &Session, estimate: &Estimate, options: &Options) -> Result<Vec<Candidate>, Failure> {
    let mut all: Vec<Candidate> = Vec::new();
    for (k, contribution) in estimate.report.contributions.iter().enumerate() {
        let Ok(change) = &contribution.variable.change else { continue };
        match all.iter_mut().find(|c| c.change == *change) {
            Some(known) => known.variables.push(k),
            None => {
                all.push(Candidate { variables: vec![k], change: change.clone(), alone: Vec::new() });
            }
        }
    }
    for candidate in &mut all {
        for &to in narrower(candidate.change.from) {
            let found = predicted(session, estimate, options, &[(&candidate.change, to)])?;
            candidate.alone.push((to, found.map(Predicted::largest)));
        }
    }
    Ok(all)
}

/// Proposes narrower types with which the error stays within a tolerance, relative to the sizes of the results.
pub fn propose(
    session: &Session,
    estimate: &mut Estimate,
    options: &Options,
    tolerance: f64,
) -> Result<Proposal, Failure> {
    let candidates = candidates(session, estimate, options)?;
    for candidate in &candidates {
        for &k in &candidate.variables {
            estimate.report.contributions[k].narrower = candidate.alone.clone();
        }
    }
    // The narrowest type of each variable comes first; of all variables, the one that costs least.
    let mut order: Vec<(usize, Scalar, f64)> = Vec::new();
    let mut kept = Vec::new();
    for (k, candidate) in candidates.iter().enumerate() {
        for (to, found) in &candidate.alone {
            match found {
                Ok(cost) => order.push((k, *to, *cost)),
                Err(why) => kept.extend(candidate.variables.iter().map(|&v| (v, why.clone()))),
            }
        }
    }
    order.sort_by(|a, b| a.1.bytes().cmp(&b.1.bytes()).then(a.2.total_cmp(&b.2)));
    let mut chosen: Vec<(usize, Scalar)> = Vec::new();
    let mut last = estimate.report.estimated;
    let mut excess: Vec<(usize, Predicted)> = Vec::new();
    for (k, to, _) in order {
        if chosen.iter().any(|c| c.0 == k) {
            continue;
        }
        let mut with = chosen.clone();
        with.push((k, to));
        match predicted(session, estimate, options, &changes(&candidates, &with))? {
            Ok(found) if found.largest() <= tolerance => (chosen, last) = (with, found.value),
            Ok(found) => excess.push((k, found)),
            Err(why) => kept.extend(candidates[k].variables.iter().map(|&v| (v, why.clone()))),
        }
    }
    let mut given_up = Vec::new();
    let (text, measured) = loop {
        let text = changed(&estimate.source.text, &changes(&candidates, &chosen));
        let measured = match chosen.is_empty() {
            true => estimate.report.measured,
            false => measured(session, estimate, options, &text)?,
        };
        if !measured.exceeds(tolerance) {
            break (text, measured);
        }
        let Some((k, to)) = chosen.pop() else { break (text, measured) };
        given_up.push(Narrowed { variables: candidates[k].variables.clone(), to });
        if let Ok(found) = predicted(session, estimate, options, &changes(&candidates, &chosen))? {
            last = found.value;
        }
    };
    for (k, found) in excess {
        if chosen.iter().all(|c| c.0 != k) {
            let why = found.why(tolerance, options);
            kept.extend(candidates[k].variables.iter().map(|&v| (v, why.clone())));
        }
    }
    let is_narrowed = |v: usize| chosen.iter().any(|c| candidates[c.0].variables.contains(&v));
    let is_given_up = |v: usize| given_up.iter().any(|n: &Narrowed| n.variables.contains(&v));
    kept.retain(|(v, _)| !is_narrowed(*v) && !is_given_up(*v));
    // Of several types, the reason against the widest one is the last.
    let mut seen = rustc_hash::FxHashSet::default();
    kept.reverse();
    kept.retain(|(v, _)| seen.insert(*v));
    kept.reverse();
    let of = |(k, to): &(usize, Scalar)| Narrowed { variables: candidates[*k].variables.clone(), to: *to };
    Ok(Proposal {
        narrowed: chosen.iter().map(of).collect(),
        kept,
        predicted: last,
        measured,
        points: estimate.reference.others.len(),
        given_up,
        text,
    })
}

fn changes<'c>(candidates: &'c [Candidate], chosen: &[(usize, Scalar)]) -> Vec<(&'c Change, Scalar)> {
    chosen.iter().map(|&(k, to)| (&candidates[k].change, to)).collect()
}

/// The errors of the program with changes: the estimate, or the error that it has in its own types if that is larger: it is
/// where a value without a derivative carries the error, or where a condition is decided otherwise. The reason why there is
/// none if the program does not compile.
fn predicted(
    session: &Session,
    estimate: &Estimate,
    options: &Options,
    changes: &[(&Change, Scalar)],
) -> Result<Result<Predicted, String>, Failure> {
    let source = Source { text: changed(&estimate.source.text, changes), ..estimate.source.clone() };
    let reference = &estimate.reference;
    let run = || {
        let mut model = Model::new(&mut session.fresh(), &source, options, &mut Vec::new())?;
        let errors = model.errors(&reference.inputs, &reference.points)?;
        let mut own = model.own(options)?;
        let measured = reference.errors(&mut own, &reference.points, 0)?;
        let estimated = errors.largest(&reference.sizes, |_| true);
        Ok(Predicted {
            value: larger(estimated, measured.value.unwrap_or(0.0)),
            derivative: measured.derivative.unwrap_or(0.0),
        })
    };
    match run() {
        Ok(predicted) => Ok(Ok(predicted)),
        Err(Failure::Program(diagnostics)) => {
            let errors = diagnostics.into_iter().filter(|d| d.severity == syntax::Severity::Error);
            let why = errors.map(|d| d.message).next().unwrap_or_default();
            Ok(Err(format!("the program would have an error: {why}")))
        }
        Err(Failure::Other(Error::Stopped(why))) => Ok(Err(why)),
        Err(failure) => Err(failure),
    }
}

/// The errors of a changed program at the points that the estimate has not seen.
fn measured(
    session: &Session,
    estimate: &Estimate,
    options: &Options,
    text: &str,
) -> Result<Measured, Failure> {
    let source = Source { text: text.to_string(), ..estimate.source.clone() };
    let mut model = Model::new(&mut session.fresh(), &source, options, &mut Vec::new())?;
    let mut own = model.own(options)?;
    let reference = &estimate.reference;
    debug_assert_eq!(own.outputs, reference.outputs, "narrower variables change no result's type");
    Ok(reference.errors(&mut own, &reference.others, reference.points.len())?)
}

/// A text with changes of types.
fn changed(text: &str, changes: &[(&Change, Scalar)]) -> String {
    let mut edits: Vec<(Span, String, String)> = Vec::new();
    for (change, to) in changes {
        let name = name_of(*to);
        let text_of = |span: Span| text[span.start as usize..span.end as usize].to_string();
        edits.push(match change.place {
            Place::Name(span) => (span, name.to_string(), String::new()),
            Place::Initialiser(span, n) => {
                let shape = n.map_or(String::new(), |n| n.to_string());
                (span, format!("{name}{shape}({}", text_of(span)), ")".to_string())
            }
        });
    }
    edits.sort_by_key(|edit| edit.0.start);
    let (mut out, mut at) = (String::new(), 0);
    for (span, first, last) in edits {
        out += &text[at..span.start as usize];
        out += &first;
        out += &last;
        at = span.end as usize;
    }
    out + &text[at..]
}

/// The variables of a change, as messages name them.
pub fn names(contributions: &[Contribution], narrowed: &Narrowed) -> String {
    let names: Vec<String> = narrowed.variables.iter().map(|&k| contributions[k].variable.path()).collect();
    names.join(", ")
}
