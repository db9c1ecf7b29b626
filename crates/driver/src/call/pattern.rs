//! Patterns of sparse matrices: which columns each row of a derivative depends on at a point.
//!
//! Compiled code finds them by masks ([`autodiff::sparsity`]): a run tells for 64 groups of columns at once which rows depend
//! on them. Groups are divided until each is a column. In one run, the bits are those of the parts of all groups that no row
//! has together, so the colours of the pattern so far say which share bits: with few numbers a row, a run divides each group
//! by ten or more, and 100,000 columns take some six runs. Where a derivative asks for more than masks tell, or a row has too
//! many numbers for this, the interpreter runs the derivative on sets instead ([`ir::interp::depends`]); if these are too many,
//! masks take as many runs as they need.

use std::ops::Range;

use ir::interp::depends::dependences;
use ir::interp::{Deadline, Limits};
use ir::{Func, Function, Module, Op, Slot, Value};
use lower::FunctionInfo;
use rustc_hash::FxHashMap;

use super::Callee;
use crate::error::{Error, Failure};
use crate::gradcheck::Random;
use crate::launch::{Backend, CodeOptions, stopped};
use crate::oracle;
use crate::pipeline::{self, Compiled};
use crate::sparse::Pattern;
use crate::sparse::columns::coloured;
use crate::wrap;

/// The most runs of the function of masks. The interpreter takes as long as several hundred.
const MOST_RUNS: usize = 200;
/// The most runs that check a pattern.
const MOST_CHECKS: usize = 24;

/// A function of masks.
pub(super) struct Mask {
    callee: Callee,
    /// It gives the same at all points.
    is_of_all_points: bool,
}

/// The functions of masks of derivatives; `None` if there is none.
pub(super) type Masks = FxHashMap<Func, Option<Box<Mask>>>;

impl Callee {
    /// The pattern of a derivative at a point: a row for each of its results from number `skip` on, a column for each input
    /// that has a tangent. The tangents of the inputs are the arguments from number `first` on.
    pub(super) fn pattern(
        &mut self,
        func: Option<Func>,
        arguments: &[u64],
        first: usize,
        skip: usize,
    ) -> Result<Pattern, Error> {
        let func = func.ok_or_else(|| Error::input(format!("`{}` has no derivative", self.info.name)))?;
        let seeds = first..first + self.inputs.iter().filter(|n| n.diff).count();
        let mut masks = self.take_masks(func, seeds.clone(), skip);
        let module = self.runner.module();
        let n_results = ends(module, &module.funcs[func].results).last().copied().unwrap_or(0);
        let mut by_masks = |most_runs: usize| {
            let masks = &mut masks.as_mut()?.callee;
            divided(seeds.len(), n_results - skip, most_runs, &mut |calls| {
                masks.run(calls, arguments, &seeds)
            })
        };
        let mut found = by_masks(MOST_RUNS);
        if found.is_none() {
            let mut memory = self.memory();
            let args = oracle::values(module, func, arguments);
            let limits = Limits::default();
            let limits = Limits {
                memory: self.code.memory.unwrap_or(limits.memory),
                deadline: self.code.seconds.and_then(Deadline::after),
                ..limits
            };
            let sets = dependences(module, func, &args, seeds.clone(), &mut memory, limits);
            found = Some(match sets {
                Ok(found) => Pattern::new(seeds.len(), &found[skip.min(found.len())..]),
                // There may be too many different sets, of which masks know nothing.
                Err(error) => by_masks(usize::MAX).ok_or_else(|| stopped(error.message, error.span))?,
            });
        }
        self.masks.insert(func, masks);
        found.ok_or_else(|| Error::Internal("a pattern is missing".into()))
    }

    /// Returns false if a derivative has numbers at a point that a pattern lacks, as it does on another path than that
    /// on which the pattern was found; the arguments are those of [`Self::pattern`].
    ///
    /// Each column gets some of the bits of a few masks, by chance, and a row has those of its columns at most. Numbers
    /// that others hide with all of their bits go unnoticed: fewer than one of ten thousand, in rows of up to 75 numbers
    /// (B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970).
    pub(super) fn holds(
        &mut self,
        func: Option<Func>,
        arguments: &[u64],
        (first, skip): (usize, usize),
        pattern: &Pattern,
    ) -> bool {
        let Some(func) = func else { return true };
        let seeds = first..first + pattern.n_columns;
        let mut masks = self.take_masks(func, seeds.clone(), skip);
        let holds = masks.as_mut().is_none_or(|masks| {
            if masks.is_of_all_points {
                return true;
            }
            let rows = pattern.starts.len() - 1;
            let longest = (0..rows).map(|row| pattern.row(row).len()).max().unwrap_or(0).max(1);
            // With `m` bits for `k` columns of a row, the share that is hidden is `0.6185^(m / k)`, and the best number of
            // bits of a column is `ln 2 · m / k`.
            let runs = (longest * 20).div_ceil(64).min(MOST_CHECKS);
            let each =
                ((64 * runs) as f64 / longest as f64 * std::f64::consts::LN_2).round().clamp(1.0, 32.0);
            let mut codes = vec![vec![0u64; pattern.n_columns]; runs];
            let mut random = Random::new(1);
            for place in 0..pattern.n_columns * each as usize {
                let bit = random.below(64 * runs);
                codes[bit / 64][place / each as usize] |= 1 << (bit % 64);
            }
            let Some(found) = masks.callee.run(codes.clone(), arguments, &seeds) else { return false };
            let is_within = |(codes, found): (&Vec<u64>, &Vec<u64>)| {
                (0..rows).all(|row| {
                    let own = pattern.row(row).iter().fold(0, |all, &column| all | codes[column as usize]);
                    found.get(row).is_some_and(|found| found & !own == 0)
                })
            };
            codes.iter().zip(&found).all(is_within)
        });
        self.masks.insert(func, masks);
        holds
    }

    /// The masks of each row for masks of the columns, at the point of the arguments.
    fn run(
        &mut self,
        calls: Vec<Vec<u64>>,
        arguments: &[u64],
        seeds: &Range<usize>,
    ) -> Option<Vec<Vec<u64>>> {
        let at_point = |masks: Vec<u64>| {
            let mut call = arguments.to_vec();
            call[seeds.clone()].copy_from_slice(&masks);
            call
        };
        let calls: Vec<Vec<u64>> = calls.into_iter().map(at_point).collect();
        self.call(&self.primal.clone(), &[], &calls, 0).ok()
    }

    /// The function of masks of a derivative, with the memory as it is now; `None` if masks do not tell what it asks for.
    fn take_masks(&mut self, func: Func, seeds: Range<usize>, skip: usize) -> Option<Box<Mask>> {
        let known = self.masks.remove(&func);
        let is_compiled = [self.backend, Backend::SOONEST].iter().all(|b| b.name() != Backend::INTERP.name());
        let module = self.runner.module();
        // The numbers of pointers are those of the memory that they were bound to.
        let has_pointers = module.globals.values().any(|global| global.pointee(&module.mem).is_some());
        let mut masks = match known {
            Some(known) => known?,
            None if !is_compiled || has_pointers => return None,
            None => Box::new(self.of_masks(func, seeds, skip)?),
        };
        self.share_memory(&mut masks.callee);
        Some(masks)
    }

    /// Copies the memory to a callee of a function of the same module.
    fn share_memory(&self, to: &mut Callee) {
        let globals = self.runner.module().globals.keys();
        for global in globals.filter(|&global| self.runner.is_bound(global)) {
            to.runner.bind_global(global, self.runner.bytes_of(global));
        }
        for (global, bytes) in to.writable.iter_mut().flatten() {
            *bytes = to.runner.bytes_of(*global).to_vec();
        }
    }

    fn of_masks(&self, func: Func, seeds: Range<usize>, skip: usize) -> Option<Mask> {
        let mut module = self.runner.module().clone();
        let (params, results) = (&module.funcs[func].params, &module.funcs[func].results);
        let is_seed: Vec<bool> =
            ends(&module, params).into_iter().map(|end| seeds.start < end && end <= seeds.end).collect();
        let from = ends(&module, results).into_iter().filter(|&end| end <= skip).count();
        let made = autodiff::sparsity(&mut module, func, &is_seed, from).ok()?;
        module.entries.clear();
        opt::prune(&mut module, &[made]);
        opt::after_ad(
            &mut module,
            &opt::Options { on_device: Some(false), ..opt::Options::default() },
            &[made],
        );
        opt::prune(&mut module, &[made]);
        let is_of_all_points = !depends_on_point(&module, made, &is_seed);
        let info =
            FunctionInfo { func: made, jvp: None, vjp: None, derived: Vec::new(), ..self.info.clone() };
        let callee = self.copy(module, info).ok()?;
        Some(Mask { callee, is_of_all_points })
    }

    /// A callee of a function of the same module, one call after another.
    fn copy(&self, module: Module, info: FunctionInfo) -> Result<Callee, Failure> {
        pipeline::verify(&module, "sparsity")?;
        let code = CodeOptions { lanes: Some(1), ..self.code.clone() };
        let compiled = Compiled { module, functions: vec![info], ..Compiled::default() };
        Callee::new(compiled, Backend::SOONEST, &code, &[])
    }
}

/// Returns false if masks are certainly the same at all points: only the numbers of the point are floats there, and none of
/// them decides anything, nor does another of its numbers or memory.
fn depends_on_point(module: &Module, made: Func, is_seed: &[bool]) -> bool {
    let f = &module.funcs[made];
    let uses = ir::walk::use_counts(f);
    let others = f.regions[f.body()].params.iter().zip(is_seed.iter().chain(std::iter::repeat(&false)));
    let is_float = |f: &Function, v: &Value| module.types.is_differentiable(f.ty(*v));
    let mut depends = others.filter(|(v, seed)| !**seed && !is_float(f, v)).any(|(&v, _)| uses[v] > 0);
    for func in ir::walk::reachable(module, &[made]) {
        let f = &module.funcs[func];
        f.walk(f.body(), &mut |inst| {
            let data = &f.insts[inst];
            depends |= match data.op {
                Op::GlobalRef(_) => true,
                Op::Call(_) => false,
                _ if !data.regions.is_empty() => false,
                _ => data.args.iter().any(|v| is_float(f, v)) && data.results.iter().any(|v| !is_float(f, v)),
            };
        });
    }
    depends
}

/// The number of numbers up to the end of each slot.
fn ends(module: &Module, slots: &[Slot]) -> Vec<usize> {
    let counts = slots.iter().map(|slot| wrap::count(&module.types, slot.ty) as usize);
    counts
        .scan(0, |end, count| {
            *end += count;
            Some(*end)
        })
        .collect()
}

/// Divides columns into ever smaller groups by runs with masks. `run` gives the masks of the rows for each list of masks of
/// the columns. `None` if it fails, or if it would take more than `most_runs`.
fn divided(
    n_columns: usize,
    n_rows: usize,
    most_runs: usize,
    run: &mut dyn FnMut(Vec<Vec<u64>>) -> Option<Vec<Vec<u64>>>,
) -> Option<Pattern> {
    // Group `g` has the columns from `bounds[g]` to `bounds[g + 1]`. At first all are in one.
    let mut bounds = vec![0, n_columns];
    let mut pattern = Pattern::new(1, &vec![vec![0]; n_rows]);
    let mut n_runs = 0;
    while bounds.len() - 1 < n_columns || n_runs == 0 {
        let colours = coloured(&pattern)?;
        // So many parts of each group, and groups of so many colours, share the bits of a run.
        let parts = (64 / colours.count.max(1)).max(4);
        let together = 64 / parts;
        n_runs += colours.count.div_ceil(together).max(1);
        if n_runs > most_runs {
            return None;
        }
        let mut masks = vec![vec![0; n_columns]; colours.count.div_ceil(together)];
        let (mut finer, mut first) = (vec![0], Vec::with_capacity(bounds.len()));
        for (group, columns) in bounds.windows(2).enumerate() {
            let (start, end) = (columns[0], columns[1]);
            let size = (end - start).div_ceil(parts).max(1);
            first.push(finer.len() - 1);
            finer.extend((start..end).step_by(size).map(|at| (at + size).min(end)));
            let Some(colour) = colours.of[group].map(|colour| colour as usize) else { continue };
            for (k, mask) in masks[colour / together][start..end].iter_mut().enumerate() {
                *mask = 1 << (colour % together * parts + k / size);
            }
        }
        let found = run(masks)?;
        let own = if parts == 64 { u64::MAX } else { (1 << parts) - 1 };
        let mut divided = Pattern { n_columns: finer.len() - 1, starts: vec![0], columns: Vec::new() };
        for row in 0..n_rows {
            for &group in pattern.row(row) {
                let colour = colours.of[group as usize]? as usize;
                let mut mask = found.get(colour / together)?.get(row)? >> (colour % together * parts) & own;
                while mask != 0 {
                    divided.columns.push(first[group as usize] as u32 + mask.trailing_zeros());
                    mask &= mask - 1;
                }
            }
            divided.starts.push(divided.columns.len());
        }
        (pattern, bounds) = (divided, finer);
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use lower::{Request, Step};

    use super::*;
    use crate::session::{FileOptions, Session};
    use crate::sparse::random::Random;

    /// A loop with a branch, an array in which differentials are summed, a call in a loop, and recursion.
    const PROGRAM: &str = "
        [Differentiable] double power(double x, int n) { if (n <= 0) return 1; return x * power(x, n - 1); }
        [Differentiable] double[6] f(double x[6], double y)
        {
            double r[6];
            for (int i = 0; i < 6; i++) r[i] = i % 2 == 0 ? x[i] * y : power(x[5 - i], i);
            for (int i = 0; i < 4; i += 2) r[i + 1] += max(x[i], x[i + 1]) * r[i];
            return r;
        }
        [Differentiable] double sum(double x[6], double y)
        {
            double s = 0, r[6] = f(x, y);
            for (int i = 0; i < 6; i++) s += r[i] * x[i];
            return s;
        }";

    /// A function of which all points have the same pattern.
    const SHIFTED: &str = "
        [Differentiable] double[6] shifted(double x[6], double y)
        {
            double r[6];
            for (int i = 0; i < 6; i++) r[i] = x[(i + 1) % 6] * sin(y);
            return r;
        }";

    /// Both ways give the same pattern, and compiled code is one of them.
    #[test]
    fn masks_and_sets_agree() {
        let path = PathBuf::from("/nowhere/pattern.slang");
        let open = vec![(path.clone(), format!("{PROGRAM}{SHIFTED}").into())];
        for (name, is_of_all_points) in [("f", false), ("sum", false), ("shifted", true)] {
            let callee = |backend| {
                let mut session = Session::new(FileOptions { open: open.clone(), ..FileOptions::default() });
                let mut loaded = pipeline::load(&mut session, Path::new(&path)).expect("loads");
                let functions = vec![loaded.function(name).expect("is there")];
                let derived = vec![vec![Step::SparseVjp, Step::SparseJvp]];
                let request =
                    Request { functions, derivatives: true, sparse: true, derived, ..Request::default() };
                let compiled = loaded.compile(&request, &pipeline::Options::default()).expect("compiles");
                Callee::new(compiled, backend, &CodeOptions::default(), &[]).expect("is callable")
            };
            let [mut sets, mut masks] = [Backend::INTERP, Backend::SOONEST].map(callee);
            let point: Vec<u64> = (0..7).map(|k| (1.5 - 0.25 * f64::from(k)).to_bits()).collect();
            let n_outputs = masks.outputs.len();
            let jacobian = |callee: &mut Callee| {
                let arguments = [&point[..], &[1.0f64.to_bits(); 7]].concat();
                callee.pattern(callee.info.jvp, &arguments, 7, n_outputs).expect("is found")
            };
            let hessian = |callee: &mut Callee| {
                let mut arguments = [&point[..], &vec![1.0f64.to_bits(); n_outputs + 7]].concat();
                arguments.extend(vec![0; n_outputs]);
                callee.pattern(Some(callee.info.derived[0]), &arguments, 7 + n_outputs, 7).expect("is found")
            };
            let [first, second] = [jacobian(&mut sets), hessian(&mut sets)];
            assert!(first.len() > 6 && first.len() <= 7 * n_outputs, "{name}: {first:?}");
            assert_eq!([jacobian(&mut masks), hessian(&mut masks)], [first, second], "{name}");
            let jvp = masks.info.jvp.expect("is there");
            let masks = masks.of_masks(jvp, 7..14, n_outputs).expect("first derivatives");
            assert_eq!(masks.is_of_all_points, is_of_all_points, "{name}");
        }
    }

    /// Masks of rows by the product of a pattern with masks of columns.
    #[test]
    fn groups_are_divided_down_to_columns() {
        let mut random = Random(11);
        let mut most = 0;
        for (n_rows, n_columns) in [(1, 1), (3, 2), (40, 63), (64, 65), (300, 1000), (2000, 5000)] {
            for _ in 0..8 {
                let pattern = random.pattern(n_rows, n_columns);
                let mut n_runs = 0;
                let found = divided(n_columns, n_rows, MOST_RUNS, &mut |calls| {
                    n_runs += calls.len();
                    let rows = |masks: Vec<u64>| {
                        let mask =
                            |row: usize| pattern.row(row).iter().fold(0, |m, &c| m | masks[c as usize]);
                        (0..n_rows).map(mask).collect()
                    };
                    Some(calls.into_iter().map(rows).collect())
                });
                match found {
                    Some(found) => assert_eq!(found, pattern),
                    None => {
                        assert!((0..n_rows).any(|row| pattern.row(row).len() > 500), "few runs are enough")
                    }
                }
                most = most.max(n_runs);
            }
        }
        assert!(most <= MOST_RUNS, "{most}");
    }
}
