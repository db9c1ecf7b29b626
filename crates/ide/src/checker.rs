//! Finds the diagnostics of a file, and reuses those of declarations that an edit does not concern.
//!
//! After each edit the file is parsed anew, which is fast. Each declaration is a unit (see [`crate::units`]): its
//! diagnostics, of the checker and of differentiation, are kept under the key of everything that they depend on,
//! and are computed again only if no entry has that key. Their places are relative to the units that they are in,
//! so an edit before a unit does not matter either.
//!
//! A function is differentiated if nothing that it reaches by names or by types has an error, so an error in a function,
//! an operator or an extension hides nothing of what cannot use it. Functions are differentiated together, as long as there is nothing to report: only if there is, the
//! functions are told apart, by halving.

use std::path::Path;

use check::tables::FuncRef;
use driver::Error;
use driver::Request;
use driver::pipeline::{Failure, Loaded, Options};
use driver::session::FileOptions;
use rustc_hash::FxHashMap;
use syntax::{DeclId, Diagnostic, Severity};

use crate::consequences::{places, shown};
use crate::units::{Place, Units};
use crate::{Analysis, Checked};

/// The number of functions that are differentiated together at most; between two such groups, the work can stop.
const GROUP: usize = 24;
/// An entry that was not used in this number of checks is dropped.
const KEPT_RUNS: u32 = 100;

/// The results that are reused from one check of a file to the next.
#[derive(Debug, Default)]
pub struct Checker {
    entries: FxHashMap<u64, Entry>,
    run: u32,
    /// The number of units that were checked or differentiated in the last check.
    n_computed: usize,
}

/// The diagnostics of a unit.
#[derive(Debug)]
struct Entry {
    diagnostics: Vec<Kept>,
    /// The last check that used the entry.
    run: u32,
}

/// A diagnostic whose places are relative to units: the primary one, then those of the notes.
#[derive(Debug)]
struct Kept {
    diagnostic: Diagnostic,
    places: Vec<Place>,
}

/// The result of a check, or of its first half.
struct Found {
    diagnostics: Vec<Diagnostic>,
    is_stopped: bool,
}

impl Checker {
    /// A checker that knows nothing yet.
    pub fn new() -> Checker {
        Checker::default()
    }

    /// The number of declarations that the last check did not find among what it knew.
    pub fn n_computed(&self) -> usize {
        self.n_computed
    }

    /// Checks a file. `first` gets the diagnostics of the checker as soon as they are known, if differentiation
    /// takes longer. Returns `None` if `stop` has become true.
    pub fn check(
        &mut self,
        options: &FileOptions,
        path: &Path,
        stop: &dyn Fn() -> bool,
        first: &mut dyn FnMut(Checked),
    ) -> Result<Option<Checked>, Error> {
        self.run += 1;
        self.n_computed = 0;
        let mut analysis = Analysis::new(options, path)?;
        if stop() {
            return Ok(None);
        }
        let units = Units::of(&analysis);
        let Found { mut diagnostics, is_stopped } = self.check_units(&mut analysis, &units, stop);
        if is_stopped {
            return Ok(None);
        }
        let mut has_error = vec![false; units.all.len()];
        for diagnostic in diagnostics.iter().filter(|d| d.severity == Severity::Error) {
            places(&units, diagnostic)
                .into_iter()
                .flat_map(|at| units.all_at(at))
                .for_each(|k| has_error[k] = true);
        }
        let roots = self.roots(&mut analysis, &units, &has_error, &mut diagnostics);
        if !roots.is_empty() {
            first((analysis.session.sources.clone(), shown(&analysis, &units, diagnostics.clone())));
        }
        if self.differentiate(&mut analysis, &units, roots, &mut diagnostics, stop) {
            return Ok(None);
        }
        // A search for extensions that went too far has ended the checks of all.
        if diagnostics.iter().any(|d| d.code == "E0901") {
            self.entries.clear();
        }
        let run = self.run;
        self.entries.retain(|_, entry| run - entry.run < KEPT_RUNS);
        let diagnostics = shown(&analysis, &units, diagnostics);
        Ok(Some((analysis.session.sources, diagnostics)))
    }

    /// The number of errors that the checker finds, without differentiation.
    pub(crate) fn n_errors(&mut self, options: &FileOptions, path: &Path) -> Result<usize, Error> {
        self.run += 1;
        let mut analysis = Analysis::new(options, path)?;
        let units = Units::of(&analysis);
        let found = self.check_units(&mut analysis, &units, &|| false);
        let found = shown(&analysis, &units, found.diagnostics);
        Ok(found.iter().filter(|d| d.severity == Severity::Error).count())
    }

    /// The diagnostics under a key, in the places of this version of the program.
    fn known(&mut self, key: u64, analysis: &Analysis, units: &Units) -> Option<Vec<Diagnostic>> {
        let entry = self.entries.get_mut(&key)?;
        let mut found = Vec::with_capacity(entry.diagnostics.len());
        for kept in &entry.diagnostics {
            let mut diagnostic = kept.diagnostic.clone();
            let labels = std::iter::once(&mut diagnostic.primary).chain(&mut diagnostic.notes);
            for (label, place) in labels.zip(&kept.places) {
                label.span = units.span(analysis, place)?;
            }
            found.push(diagnostic);
        }
        entry.run = self.run;
        Some(found)
    }

    fn keep(&mut self, key: u64, diagnostics: &[Diagnostic], analysis: &Analysis, units: &Units) {
        self.n_computed += 1;
        let kept = diagnostics.iter().map(|diagnostic| {
            let labels = std::iter::once(&diagnostic.primary).chain(&diagnostic.notes);
            let places: Option<Vec<Place>> = labels.map(|label| units.place(analysis, label.span)).collect();
            Some(Kept { diagnostic: diagnostic.clone(), places: places? })
        });
        if let Some(diagnostics) = kept.collect() {
            self.entries.insert(key, Entry { diagnostics, run: self.run });
        }
    }

    /// The diagnostics of parsing and checking.
    ///
    /// Checking one unit may check the body of another one, whose own diagnostics are then found before its turn:
    /// those in a unit that is still to be checked belong to it. What is said of a derivative that names its function
    /// belongs to the unit that asked for the derivative, since nothing is kept for such a unit itself.
    fn check_units(&mut self, analysis: &mut Analysis, units: &Units, stop: &dyn Fn() -> bool) -> Found {
        analysis.program.link_later();
        analysis.program.check_heads(analysis.index);
        let own: Vec<usize> = (0..units.all.len()).filter(|&k| units.all[k].is_own).collect();
        let (functions, others): (Vec<usize>, Vec<usize>) =
            own.into_iter().partition(|&k| units.all[k].is_function);
        let mut known: Vec<Diagnostic> = Vec::new();
        let mut todo: Vec<usize> = Vec::new();
        let mut kept: Vec<usize> = Vec::new();
        for k in others.into_iter().chain(functions) {
            let is_kept = !units.casts_bits && !units.all[k].is_derivative;
            let found = match is_kept {
                true => self.known(units.all[k].shallow, analysis, units),
                false => None,
            };
            match found {
                Some(found) => {
                    kept.push(k);
                    known.extend(found);
                }
                None => todo.push(k),
            }
        }
        let mut is_todo = vec![false; units.all.len()];
        todo.iter().for_each(|&k| is_todo[k] = true);
        let mut early: FxHashMap<usize, Vec<Diagnostic>> = FxHashMap::default();
        for k in todo {
            if stop() {
                return Found { diagnostics: Vec::new(), is_stopped: true };
            }
            let before = analysis.program.diagnostics.len();
            analysis.program.check_unit(units.all[k].decl);
            is_todo[k] = false;
            let mut own = early.remove(&k).unwrap_or_default();
            for diagnostic in analysis.program.diagnostics.get(before..).unwrap_or(&[]) {
                match units
                    .at(diagnostic.primary.span)
                    .filter(|&at| is_todo[at] && units.all[at].is_function && !units.all[at].is_derivative)
                {
                    Some(other) => early.entry(other).or_default().push(diagnostic.clone()),
                    None => own.push(diagnostic.clone()),
                }
            }
            self.keep(units.all[k].shallow, &own, analysis, units);
        }
        // Any code may assign a global variable. What is wrong with it is known already.
        if analysis.program.has_unset_globals() {
            let n_found = analysis.program.diagnostics.len();
            kept.iter().for_each(|&k| analysis.program.check_unit(units.all[k].decl));
            analysis.program.diagnostics.truncate(n_found);
        }
        analysis.program.check_rest();
        let mut diagnostics = std::mem::take(&mut analysis.program.diagnostics);
        diagnostics.append(&mut known);
        Found { diagnostics, is_stopped: false }
    }

    /// The functions to differentiate: entry points and differentiable functions, in units without errors, that
    /// are not known. The diagnostics of known ones are added.
    fn roots(
        &mut self,
        analysis: &mut Analysis,
        units: &Units,
        has_error: &[bool],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Root> {
        let is_bad = units.reaching_by_type(has_error);
        let by_decl: FxHashMap<DeclId, usize> =
            units.all.iter().enumerate().map(|(k, unit)| (unit.decl, k)).collect();
        let program = std::mem::take(&mut analysis.program);
        let mut loaded = Loaded::new(program, analysis.index);
        let (entries, functions) = loaded.checked();
        if let Err(Failure::Program(found)) = loaded.names_of_entries_differ(&entries) {
            diagnostics.extend(found);
        }
        let mut roots: Vec<Root> =
            entries.into_iter().map(|decl| Root { entry: Some(decl), function: None }).collect();
        roots.extend(functions.into_iter().map(|f| Root { entry: None, function: Some(f) }));
        analysis.program = loaded.program;
        let mut todo = Vec::new();
        for root in roots {
            let Some(&unit) = by_decl.get(&root.decl()) else { continue };
            if is_bad[unit] {
                continue;
            }
            match self.known(root.key(units.all[unit].deep), analysis, units) {
                Some(found) => diagnostics.extend(found),
                None => todo.push(root),
            }
        }
        todo
    }

    /// Adds what differentiation reports. Returns true if it was stopped.
    fn differentiate(
        &mut self,
        analysis: &mut Analysis,
        units: &Units,
        roots: Vec<Root>,
        diagnostics: &mut Vec<Diagnostic>,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        let by_decl: FxHashMap<DeclId, u64> = units.all.iter().map(|unit| (unit.decl, unit.deep)).collect();
        let mut loaded = Loaded::new(std::mem::take(&mut analysis.program), analysis.index);
        let mut groups: Vec<&[Root]> = roots.chunks(GROUP).rev().collect();
        let mut is_stopped = false;
        while let Some(group) = groups.pop() {
            is_stopped = stop();
            if is_stopped {
                break;
            }
            let found = compile(&mut loaded, group);
            if !found.is_empty() && group.len() > 1 {
                let (first, second) = group.split_at(group.len() / 2);
                groups.extend([second, first]);
                continue;
            }
            for root in group {
                let key = by_decl.get(&root.decl()).map_or(0, |&deep| root.key(deep));
                self.keep(key, &found, analysis, units);
            }
            diagnostics.extend(found);
        }
        analysis.program = loaded.program;
        is_stopped
    }
}

/// A function that is compiled to see what differentiation has to say.
#[derive(Clone, Debug)]
struct Root {
    entry: Option<DeclId>,
    function: Option<FuncRef>,
}

impl Root {
    fn decl(&self) -> DeclId {
        self.entry.or(self.function.as_ref().map(|f| f.decl)).expect("a root is one of both")
    }

    /// The key under which the diagnostics are kept, which are not those of checking the unit.
    fn key(&self, deep: u64) -> u64 {
        deep.rotate_left(1 + u32::from(self.entry.is_some())) ^ 0x9e37_79b9_7f4a_7c15
    }
}

/// The diagnostics of compiling some functions and their derivatives.
fn compile(loaded: &mut Loaded, roots: &[Root]) -> Vec<Diagnostic> {
    let request = Request {
        entries: roots.iter().filter_map(|root| root.entry).collect(),
        functions: roots.iter().filter_map(|root| root.function.clone()).collect(),
        derivatives: true,
        as_marked: true,
        only_checks: true,
        ..Request::default()
    };
    let optimise = opt::Options { level: 1, ..opt::Options::default() };
    let options = Options { optimise, only_diagnostics: true, ..Options::default() };
    loaded.program.diagnostics.clear();
    let found = match loaded.compile(&request, &options) {
        Ok(compiled) => compiled.warnings,
        Err(Failure::Program(diagnostics)) => diagnostics,
        // What the machine says is not about the program.
        Err(Failure::Other(_)) => Vec::new(),
    };
    loaded.program.diagnostics.clear();
    found
}
