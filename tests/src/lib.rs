//! Filetests and random tests of Pullback: see `docs/testing.md`.

#![forbid(unsafe_code)]

pub mod arena;
pub mod commands;
#[cfg(doctest)]
mod documents;
pub mod file;
pub mod floor;
pub mod generate;
#[cfg(feature = "llvm")]
pub mod library;
pub mod literal;
#[cfg(feature = "cuda")]
pub mod ptx;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use driver::Request;
use driver::pipeline::{self, Failure, Loaded};
use driver::session::Session;

/// A number from an environment variable.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The results of `work` for each of `items`, in their order, computed on all cores and on stacks that are large enough for
/// the compiler.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return found };
            found.push((at, work(item)));
        }
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = std::thread::scope(|scope| {
        let start = |_| {
            let thread = std::thread::Builder::new().stack_size(512 << 20);
            thread.spawn_scoped(scope, worker).expect("the system has a thread")
        };
        let threads: Vec<_> = (0..n_threads).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    all.sort_by_key(|&(at, _)| at);
    all.into_iter().map(|(_, found)| found).collect()
}

/// A program, and a request for its entry points, or for its differentiable functions if there are none.
pub fn request(
    session: &mut Session,
    path: &Path,
    entry: Option<&str>,
) -> Result<(Loaded, Request), Failure> {
    let mut loaded = pipeline::load(session, path)?;
    loaded.errors()?;
    let entries = match entry {
        Some(_) => vec![loaded.entry(entry)?],
        None => match loaded.program.entry_points(loaded.file) {
            entries if entries.is_empty() => vec![loaded.entry(None)?],
            entries => entries,
        },
    };
    Ok((loaded, Request { entries, ..Request::default() }))
}

/// The numbers of instructions, and of their operands and results with those of regions, over all functions.
pub fn size(module: &ir::Module) -> (usize, usize) {
    let (mut instructions, mut operands) = (0, 0);
    for f in module.funcs.values().filter(|f| f.has_body()) {
        let mut regions = vec![f.body()];
        f.walk(f.body(), &mut |inst| {
            let data = &f.insts[inst];
            instructions += 1;
            operands += data.args.len() + data.results.len();
            regions.extend(data.regions.iter().copied());
        });
        operands +=
            regions.iter().map(|&r| f.regions[r].params.len() + f.regions[r].results.len()).sum::<usize>();
    }
    (instructions, operands)
}
