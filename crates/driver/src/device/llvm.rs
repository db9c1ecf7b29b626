//! Obtains machine code from LLVM: from the cache, at once, or in the background for kernels that run for a
//! long time.
//!
//! With two tiers a kernel starts on Cranelift's code, which is available within milliseconds. Once it has
//! run for a while, LLVM compiles it on a separate thread, and workers switch to the new code between groups.
//! The switch is not observable: both tiers give the same bits. They differ only in the order of atomic
//! operations, and in what `[FastMath]` and flushing allow; a kernel that depends on these and must give the
//! same bits in every run (`--deterministic`) therefore runs LLVM's code from the start.
//!
//! A kernel that ends before that has nothing to do with LLVM: not even the text is written for it that LLVM reads, and by
//! which the cache names LLVM's code. So where LLVM's code is put into the cache, the module is noted there, too, and
//! a kernel that is not noted starts on Cranelift's.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use codegen_llvm::{Machine, Text};
use ir::Module;
use native::profile::Profile;
use native::{Compiled, Options, Unsupported};

use super::interface::{Device, DeviceInfo, Program, processor, refused};
use crate::cache::{Cache, Key, compiler};
use crate::error::Failure;

/// Machine code by LLVM.
pub(super) struct Llvm;

impl Device for Llvm {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn about(&self) -> &'static str {
        "Machine code, by LLVM, in lanes where it can"
    }

    fn compile(&self, module: &Arc<Module>, options: &Options) -> Result<Box<dyn Program>, Failure> {
        let code = Job::new(module, options).and_then(Job::code);
        Ok(Box::new(code.map_err(refused)?))
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        let found = codegen_llvm::found()?;
        let [major, minor, patch] = found.version;
        let device = processor(format!("LLVM {major}.{minor}.{patch}"), native::MOST_LANES);
        Ok(vec![DeviceInfo { driver: found.path.clone(), ..device }])
    }

    fn side_by_side(&self, options: &Options, _bytes: u32) -> u32 {
        options.lanes.unwrap_or(16)
    }

    fn prepare(&self, kept: Option<&Path>) {
        let text = kept.and_then(|file| std::fs::read(file).ok());
        let cache = Cache::of_user();
        if !cache.zip(text).is_some_and(|(cache, text)| ran_before(&cache, &text)) {
            codegen_llvm::open_early();
        }
    }
}

/// Returns true if a program with this text was compiled before, which the cache notes: its code is probably there, and
/// LLVM is not opened, which takes longer than everything else then. If the code is not there, since another kernel of the
/// program is run, LLVM is opened once it is needed.
fn ran_before(cache: &Cache, text: &[u8]) -> bool {
    cache.note(Key::new(&[b"program", compiler().as_bytes(), text]))
}

/// Machine code by Cranelift, which LLVM's replaces.
pub(super) struct Tiers;

impl Device for Tiers {
    fn name(&self) -> &'static str {
        "tiers"
    }

    fn about(&self) -> &'static str {
        "Machine code by Cranelift, and by LLVM for what runs long"
    }

    fn compile(&self, module: &Arc<Module>, options: &Options) -> Result<Box<dyn Program>, Failure> {
        start(module, options).map_err(refused)
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>, String> {
        match Llvm.devices() {
            Ok(mut devices) => {
                devices.iter_mut().for_each(|device| {
                    device.interface = format!("Cranelift, then {}", device.interface);
                });
                Ok(devices)
            }
            Err(_) => super::cranelift::Cranelift.devices(),
        }
    }

    fn is_distinct(&self) -> bool {
        false
    }
}

/// The reason why LLVM, which was wanted, could not be opened.
static MISSED: OnceLock<String> = OnceLock::new();

/// Returns true if LLVM is on this machine; otherwise, [`missed`] has the reason.
pub(super) fn is_there() -> bool {
    match codegen_llvm::found() {
        Ok(_) => true,
        Err(why) => {
            let _ = MISSED.set(why);
            false
        }
    }
}

/// The reason why programs ran without LLVM, although they would have gained from it.
pub(super) fn missed() -> Option<&'static str> {
    MISSED.get().map(String::as_str)
}

/// LLVM compiles a kernel once it has run for this time, or for this time per instruction of its IR, whichever
/// is longer: a fraction of the time that compiling takes.
const LONG: Duration = Duration::from_millis(20);
const FOR_EACH_INST: Duration = Duration::from_micros(45);

/// The number of trips of a loop that run side by side in an inner loop: the sums of four, in two vectors each, leave
/// registers for their operands.
pub(crate) const WAYS: u64 = 4;

/// The input to a compilation by LLVM.
struct Job {
    module: Arc<Module>,
    text: Text,
    machine: Machine,
    options: Options,
    place: Option<Place>,
}

/// Where the code of a module is in the cache.
struct Place {
    cache: Cache,
    key: Key,
    note: Key,
}

/// The cache that the options ask for.
fn cache(options: &Options) -> Option<Cache> {
    Cache::of_user().filter(|_| options.cache)
}

/// The key of the note that LLVM's code of a module is in the cache.
fn note(module: &Module, options: &Options) -> Key {
    let (compiler, options, digest) = (compiler(), format!("{options:?}"), module.digest().to_le_bytes());
    Key::new(&[b"module", compiler.as_bytes(), options.as_bytes(), &digest])
}

impl Job {
    fn new(module: &Arc<Module>, options: &Options) -> Result<Job, Unsupported> {
        let machine = codegen_llvm::machine();
        let module = &opt::for_lanes(module, WAYS).map_or_else(|| module.clone(), Arc::new);
        let text = codegen_llvm::text(module, options, &machine)?;
        let place = cache(options).map(|cache| {
            let note = note(module, options);
            let options = format!("{options:?}");
            let (compiler, machine) = (compiler(), codegen_llvm::identity());
            let printed = text.print();
            let parts = [compiler.as_bytes(), machine.as_bytes(), options.as_bytes(), printed.as_bytes()];
            Place { cache, key: Key::new(&parts), note }
        });
        Ok(Job { module: module.clone(), text, machine, options: options.clone(), place })
    }

    /// The object files found in the cache.
    fn kept(&self) -> Option<Vec<Vec<u8>>> {
        let Place { cache, key, note } = self.place.as_ref()?;
        let kept = cache.load(*key)?;
        // The note may be of another module with the same text.
        cache.note(*note);
        Some(kept)
    }

    fn load(self, objects: &[Vec<u8>]) -> Result<Compiled, Unsupported> {
        codegen_llvm::load(&self.module, self.text, objects)
    }

    /// LLVM's code, from the cache if it is there.
    fn code(self) -> Result<Compiled, Unsupported> {
        match self.kept() {
            Some(objects) => self.load(&objects),
            None => self.compile(),
        }
    }

    /// Compiles the module and stores the object files in the cache.
    fn compile(mut self) -> Result<Compiled, Unsupported> {
        if self.options.profile == Profile::Lines {
            codegen_llvm::find_spills(&mut self.text, &self.machine, &self.options)?;
        }
        let (objects, _) = codegen_llvm::objects(&self.text, &self.machine, &self.options)?;
        if let Some(Place { cache, key, note }) = &self.place {
            cache.store(*key, &objects);
            cache.note(*note);
        }
        self.load(&objects)
    }
}

/// Code that is replaced by LLVM's while it runs.
struct Replaced {
    first: Compiled,
    next: Arc<Next>,
}

struct Next {
    /// The module that is compiled once `after` was spent on the first tier's code.
    module: Mutex<Option<Arc<Module>>>,
    options: Options,
    after: Duration,
    /// The time spent so far, in nanoseconds.
    spent: AtomicU64,
    code: OnceLock<Compiled>,
}

/// The code that a module starts with: LLVM's, if it is in the cache or is required from the start, else
/// Cranelift's.
fn start(module: &Arc<Module>, options: &Options) -> Result<Box<dyn Program>, Unsupported> {
    if cache(options).is_some_and(|cache| cache.is_noted(note(module, options))) {
        let job = Job::new(module, options)?;
        if let Some(objects) = job.kept() {
            return Ok(Box::new(job.load(&objects)?));
        }
    }
    if options.deterministic && tiers_differ(module, options) {
        // The code of one compiler from start to end.
        return Ok(Box::new(if is_there() {
            Job::new(module, options).and_then(Job::code)?
        } else {
            super::cranelift::in_lanes(module, options)?
        }));
    }
    // Code that runs long enough for lanes to matter is that of the second tier.
    let first = Options { lanes: Some(1), ..options.clone() };
    match codegen_cranelift::compile(module, &first) {
        Ok(first) => {
            let insts: usize = module.funcs.values().map(ir::walk::function_size).sum();
            let after = LONG.max(FOR_EACH_INST.saturating_mul(insts as u32));
            let (spent, code) = (AtomicU64::new(0), OnceLock::new());
            let module = Mutex::new(Some(module.clone()));
            let next = Next { module, options: options.clone(), after, spent, code };
            Ok(Box::new(Replaced { first, next: Arc::new(next) }))
        }
        // Cranelift rejects some functions, for example those that are too large for it.
        Err(_) => Ok(Box::new(Job::new(module, options).and_then(Job::code)?)),
    }
}

/// Returns true if the bits of a kernel's results depend on which tier it runs on.
fn tiers_differ(module: &Module, options: &Options) -> bool {
    let plan = native::plan::Plan::new(module, module.entries.iter().map(|entry| entry.func));
    let mut facts = module.entries.iter().map(|entry| plan.facts[entry.func]);
    options.fast_math || options.flush_subnormals || facts.any(|facts| facts.ordered || facts.fast_math)
}

impl Program for Replaced {
    fn dispatch(&self, launch: run::Launch<'_>) -> Result<(run::Cost, Option<f64>), run::RunError> {
        match self.next.code.get() {
            Some(code) => code.dispatch(launch),
            None => run::dispatch_tiers(&self.first, self, launch),
        }
    }

    fn machine_code(&self) -> Option<&Compiled> {
        Some(self.next.code.get().unwrap_or(&self.first))
    }

    fn is_first_tier(&self) -> bool {
        self.next.code.get().is_none()
    }
}

impl Replaced {
    /// Starts the compilation by LLVM, unless it was started before.
    fn begin(&self) {
        // A lock held here during a fork would stay locked in the child process.
        let _work = native::fork::at_work();
        let module = self.next.module.lock().ok().and_then(|mut module| module.take());
        let Some(module) = module else { return };
        let next = self.next.clone();
        codegen_llvm::in_background(move || {
            let options = &next.options;
            let code = Job::new(&module, options).and_then(Job::code).or_else(|_| {
                // Without LLVM, Cranelift's code for lanes is the faster one.
                is_there();
                super::cranelift::in_lanes(&module, options)
            });
            // If that fails, too, the first tier's code continues to the end.
            if let Ok(code) = code {
                drop(next.code.set(code));
            }
        });
    }
}

impl run::Faster for Replaced {
    fn code(&self) -> Option<&Compiled> {
        self.next.code.get()
    }

    fn spent(&self, time: Duration) {
        let time = time.as_nanos() as u64;
        let all = self.next.spent.fetch_add(time, Ordering::Relaxed).saturating_add(time);
        if all >= self.next.after.as_nanos() as u64 {
            self.begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, ran_before};

    #[test]
    fn a_program_is_known_after_its_first_run() {
        let folder = std::env::temp_dir().join(format!("pullback-known-{}", std::process::id()));
        let cache = Cache::at(folder.clone());
        assert!(!ran_before(&cache, b"one"));
        assert!(ran_before(&cache, b"one"));
        assert!(!ran_before(&cache, b"two"));
        std::fs::remove_dir_all(folder).expect("the folder is there");
    }
}
