//! Dispatches WebAssembly modules.
//!
//! A host compiles and runs them: an interpreter ([`interpreter`]), which shows that a module does what the program says,
//! or, if this crate is WebAssembly itself, what runs it (`browser`), which is much faster. A module has one instance,
//! whose memory the bound bytes are copied to and from.

#[cfg(target_family = "wasm")]
mod browser;
#[cfg(not(target_family = "wasm"))]
mod interpreter;

use std::sync::{Mutex, OnceLock, PoisonError};

use codegen_wasm::{NO_MEMORY, THREAD_AT, Wasm};
use ir::Span;
use ir::interp::RunError;
use native::runtime::Site;

#[cfg(target_family = "wasm")]
use browser::{Code, Instance};
#[cfg(not(target_family = "wasm"))]
use interpreter::{Code, Instance};

use crate::{Cost, Launch};

/// The largest number of pages of 64 KiB that memory may have.
const MOST_PAGES: u64 = 1 << 16;

/// Returns true if the host has relaxed SIMD whose product and sum in one instruction is rounded once.
pub fn has_fused() -> bool {
    static FUSED: OnceLock<bool> = OnceLock::new();
    *FUSED.get_or_init(|| {
        let Ok(code) = Code::new(&codegen_wasm::probe(), &[]) else { return false };
        let called = Instance::new(&code).and_then(|mut instance| instance.call("rounds", &[]));
        matches!(called, Ok(0))
    })
}

/// A module, ready to run.
pub struct Program {
    wasm: Wasm,
    code: Code,
    /// The instance, unless the last dispatch trapped.
    instance: Mutex<Option<Instance>>,
}

/// A trap of an instance, or an error of its host.
enum Trap {
    /// A trap.
    Any(String),
    /// Calls are nested too deep.
    StackOverflow,
}

impl Trap {
    fn error(self) -> RunError {
        let message = match self {
            Trap::Any(why) => why,
            Trap::StackOverflow => "calls are nested too deep for the stack".to_string(),
        };
        RunError { message, span: Span::NONE, thread: [0; 3] }
    }
}

impl Program {
    /// Validates a module.
    pub fn new(wasm: Wasm) -> Result<Program, String> {
        let code = Code::new(&wasm.bytes, &wasm.sites)?;
        Ok(Program { wasm, code, instance: Mutex::default() })
    }

    fn run(&self, launch: Launch<'_>, text: &mut String) -> Result<(), RunError> {
        let mut held = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = match held.take() {
            Some(instance) => Running { wasm: &self.wasm, instance },
            None => {
                let instance = Instance::new(&self.code).map_err(Trap::error)?;
                Running { wasm: &self.wasm, instance }
            }
        };
        let ran = running.dispatch(launch);
        for (number, words) in running.instance.take_printed() {
            *text += &self.wasm.printed(number, |k| words.get(k).copied().unwrap_or(0));
        }
        ran?;
        running.call("reset", &[])?;
        *held = Some(running.instance);
        Ok(())
    }
}

/// An instance during a dispatch.
struct Running<'p> {
    wasm: &'p Wasm,
    instance: Instance,
}

impl Running<'_> {
    fn dispatch(&mut self, launch: Launch<'_>) -> Result<(), RunError> {
        let Launch { module, entry, groups, buffers, options, .. } = launch;
        let most = match options.memory {
            Some(bytes) => {
                let held: u64 = buffers.contents().map(|bytes| bytes.len() as u64).sum();
                (bytes.saturating_add(held) >> 16).saturating_add(64).min(MOST_PAGES)
            }
            None => MOST_PAGES,
        };
        self.instance.set("most_pages", most as u32).map_err(Trap::error)?;
        let own = module.globals.len();
        if buffers.all.len() > own {
            self.call("pointees", &[(buffers.all.len() - own) as u32])?;
        }
        // Where each buffer's whole elements are, and their size in bytes.
        let mut places = Vec::new();
        for (k, held) in buffers.all.iter().enumerate() {
            let of = self.wasm.globals.iter().find(|of| of.number as usize == k);
            let size = match of {
                Some(of) => of.size.max(1),
                None if k >= own => held.element.max(1),
                None => continue,
            };
            let n = u32::try_from(held.len as u64 / size).map_err(|_| self.failed(NO_MEMORY))?;
            let at = match of {
                Some(_) => self.call("buffer", &[k as u32, n])?,
                None => self.call("pointee", &[k as u32, size as u32, n])?,
            };
            let bytes = (u64::from(n) * size) as usize;
            self.instance.write(at, &held.bytes()[..bytes]).map_err(Trap::error)?;
            if of.is_none_or(|of| of.space == ir::Space::ReadWrite) {
                places.push((k, at, bytes));
            }
        }
        let wasm = self.wasm;
        let ran = self.call(&wasm.entries[entry].name, &groups);
        for (k, at, bytes) in places {
            self.instance.read(at, &mut buffers.all[k].bytes_mut()[..bytes]).map_err(Trap::error)?;
        }
        ran.map(drop)
    }

    /// Calls a function of the module. A trap is the error that the module names.
    fn call(&mut self, name: &str, args: &[u32]) -> Result<u32, RunError> {
        let called = self.instance.call(name, args);
        called.map_err(|trap| match (self.instance.get("error"), trap) {
            (0, Trap::StackOverflow) => self.failed(u32::MAX),
            (0, trap) => trap.error(),
            (number, _) => self.failed(number),
        })
    }

    /// The error of this number.
    fn failed(&self, number: u32) -> RunError {
        let word = |at: u32| {
            let mut word = [0; 8];
            self.instance.read(at, &mut word).map_or(0, |()| u64::from_le_bytes(word))
        };
        let thread = std::array::from_fn(|k| word(THREAD_AT + 4 * k as u32) as u32);
        let detail = self.instance.get("detail");
        self.wasm.failure(number, thread, |k| word(detail.wrapping_add(8 * k as u32)))
    }
}

/// The number of operands of each place that prints, by number; 0 for other places.
fn operands(sites: &[Site]) -> impl Iterator<Item = usize> {
    sites.iter().map(|site| if let Site::Printf(_, kinds) = site { kinds.len() } else { 0 })
}

impl crate::Program for Program {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        let (printed, mut text) = (launch.printed, String::new());
        let done = self.run(launch, &mut text);
        printed.all(text);
        done.map(|()| (Cost::default(), None))
    }

    fn lanes(&self, entry: usize) -> u32 {
        self.wasm.entries[entry].lanes
    }
}
