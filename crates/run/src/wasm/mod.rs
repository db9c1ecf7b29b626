//! Dispatches WebAssembly modules, in an interpreter of WebAssembly.
//!
//! It shows that a module does what the program says, whatever its host; browsers, which compile modules, run them much
//! faster. Each dispatch has an instance of its own, whose memory the bound bytes are copied to and from.

use std::sync::Arc;

use codegen_wasm::{NO_MEMORY, THREAD_AT, Wasm};
use ir::Span;
use ir::interp::RunError;
use wasmi::{
    AsContext, Caller, Config, Engine, Linker, Memory, Module, Store, TrapCode, Val, WasmParams, WasmResults,
};

use crate::{Cost, Launch};

/// The largest number of pages of 64 KiB that memory may have.
const MOST_PAGES: u64 = 1 << 16;

/// A module, ready to run.
pub struct Program {
    wasm: Arc<Wasm>,
    engine: Engine,
    module: Module,
}

/// The state of a dispatch on the host's side.
struct Host {
    wasm: Arc<Wasm>,
    text: String,
    memory: Option<Memory>,
}

impl Program {
    /// Validates a module.
    pub fn new(wasm: Wasm) -> Result<Program, String> {
        let mut config = Config::default();
        config.set_max_recursion_depth(4 * ir::interp::MAX_DEPTH).set_max_stack_height(1 << 26);
        let engine = Engine::new(&config);
        let module = Module::new(&engine, &wasm.bytes).map_err(|error| error.to_string())?;
        Ok(Program { wasm: Arc::new(wasm), engine, module })
    }

    fn run(&self, launch: Launch<'_>, text: &mut String) -> Result<(), Failed> {
        let Launch { module, entry, groups, buffers, options, .. } = launch;
        let mut instance = Instance::new(self)?;
        if let Some(bytes) = options.memory {
            let held: u64 = buffers.contents().map(|bytes| bytes.len() as u64).sum();
            let pages = (bytes.saturating_add(held) >> 16).saturating_add(64).min(MOST_PAGES);
            instance.set("most_pages", pages as i32)?;
        }
        let own = module.globals.len();
        if buffers.all.len() > own {
            instance.call::<i32, ()>("pointees", (buffers.all.len() - own) as i32)?;
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
            let n = u32::try_from(held.len as u64 / size).map_err(|_| instance.failed(NO_MEMORY))? as i32;
            let at = match of {
                Some(_) => instance.call::<_, i32>("buffer", (k as i32, n))?,
                None => instance.call::<_, i32>("pointee", (k as i32, size as i32, n))?,
            };
            let (at, bytes) = (at as u32 as usize, (u64::from(n as u32) * size) as usize);
            instance.memory.write(&mut instance.store, at, &held.bytes()[..bytes]).map_err(Failed::of)?;
            if of.is_none_or(|of| of.space == ir::Space::ReadWrite) {
                places.push((k, at, bytes));
            }
        }
        let [x, y, z] = groups.map(|n| n as i32);
        let ran = instance.call::<_, ()>(&self.wasm.entries[entry].name, (x, y, z));
        *text = std::mem::take(&mut instance.store.data_mut().text);
        for (k, at, bytes) in places {
            let held = &mut buffers.all[k].bytes_mut()[..bytes];
            instance.memory.read(&instance.store, at, held).map_err(Failed::of)?;
        }
        ran
    }
}

/// An instance of a module, for one dispatch.
struct Instance<'p> {
    wasm: &'p Wasm,
    store: Store<Host>,
    instance: wasmi::Instance,
    memory: Memory,
}

impl<'p> Instance<'p> {
    fn new(program: &'p Program) -> Result<Instance<'p>, Failed> {
        let data = Host { wasm: program.wasm.clone(), text: String::new(), memory: None };
        let mut store = Store::new(&program.engine, data);
        let mut linker = <Linker<Host>>::new(&program.engine);
        linker.func_wrap("pullback", "print", print).map_err(Failed::of)?;
        let instance = linker.instantiate_and_start(&mut store, &program.module).map_err(Failed::of)?;
        let memory = instance.get_memory(&store, "memory").ok_or_else(|| Failed::of("no memory"))?;
        store.data_mut().memory = Some(memory);
        Ok(Instance { wasm: &program.wasm, store, instance, memory })
    }

    fn set(&mut self, global: &str, value: i32) -> Result<(), Failed> {
        let global = self.instance.get_global(&self.store, global).ok_or_else(|| Failed::of("no global"))?;
        global.set(&mut self.store, Val::I32(value)).map_err(Failed::of)
    }

    fn get(&self, global: &str) -> u32 {
        let global = self.instance.get_global(&self.store, global);
        global.and_then(|global| global.get(&self.store).i32()).unwrap_or(0) as u32
    }

    /// Calls a function of the module. A trap is the error that the module names.
    fn call<P: WasmParams, R: WasmResults>(&mut self, name: &str, args: P) -> Result<R, Failed> {
        let function = self.instance.get_typed_func::<P, R>(&self.store, name).map_err(Failed::of)?;
        let called = function.call(&mut self.store, args);
        called.map_err(|error| match (self.get("error"), error.as_trap_code()) {
            (0, Some(TrapCode::StackOverflow)) => self.failed(u32::MAX),
            (0, _) => Failed::of(error),
            (number, _) => self.failed(number),
        })
    }

    /// The error of this number.
    fn failed(&self, number: u32) -> Failed {
        let word = |at: usize| word(self.memory, &self.store, at);
        let thread = std::array::from_fn(|k| word(THREAD_AT as usize + 4 * k) as u32);
        let detail = self.get("detail") as usize;
        Failed(self.wasm.failure(number, thread, |k| word(detail + 8 * k)))
    }
}

/// The error of a dispatch.
struct Failed(RunError);

impl Failed {
    fn of(error: impl ToString) -> Failed {
        Failed(RunError { message: error.to_string(), span: Span::NONE, thread: [0; 3] })
    }
}

/// Prints what a place of the program prints.
fn print(mut caller: Caller<'_, Host>, _: i64, number: i32, words: i64) {
    let Some(memory) = caller.data().memory else { return };
    let text = caller.data().wasm.printed(number as u32, |k| word(memory, &caller, words as usize + 8 * k));
    caller.data_mut().text.push_str(&text);
}

/// Eight bytes of memory.
fn word(memory: Memory, store: impl AsContext, at: usize) -> u64 {
    let mut word = [0; 8];
    memory.read(store, at, &mut word).map_or(0, |()| u64::from_le_bytes(word))
}

impl crate::Program for Program {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        let (printed, mut text) = (launch.printed, String::new());
        let done = self.run(launch, &mut text);
        printed.all(text);
        done.map(|()| (Cost::default(), None)).map_err(|failed| failed.0)
    }

    fn lanes(&self, entry: usize) -> u32 {
        self.wasm.entries[entry].lanes
    }
}
