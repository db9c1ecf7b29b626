//! Dispatches WebAssembly modules, in an interpreter of WebAssembly.
//!
//! It shows that a module does what the program says, whatever its host; browsers, which compile modules, run them much
//! faster. Each dispatch has an instance of its own, whose memory the bound bytes are copied to and from.

use std::sync::{Arc, Mutex};

use codegen_wasm::{THREAD_AT, Wasm};
use ir::Span;
use ir::interp::RunError;
use wasmi::{AsContext, Caller, Config, Engine, Linker, Memory, Module, Store, Val};

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

    fn run(&self, launch: Launch<'_>, host: &Mutex<String>) -> Result<(), Failed> {
        let Launch { module, entry, groups, buffers, options, .. } = launch;
        let data = Host { wasm: self.wasm.clone(), text: String::new(), memory: None };
        let mut store = Store::new(&self.engine, data);
        let mut linker = <Linker<Host>>::new(&self.engine);
        linker.func_wrap("pullback", "print", print).map_err(Failed::of)?;
        let instance = linker.instantiate_and_start(&mut store, &self.module).map_err(Failed::of)?;
        let Some(memory) = instance.get_memory(&store, "memory") else { return Err(Failed::of("no memory")) };
        store.data_mut().memory = Some(memory);
        let global = |store: &Store<Host>, name: &str| instance.get_global(store, name);
        if let (Some(most), Some(bytes)) = (global(&store, "most_pages"), options.memory) {
            let held: u64 = buffers.contents().map(|bytes| bytes.len() as u64).sum();
            let pages = (bytes.saturating_add(held) >> 16).saturating_add(64).min(MOST_PAGES);
            most.set(&mut store, Val::I32(pages as i32)).map_err(Failed::of)?;
        }
        let buffer = instance.get_typed_func::<(i32, i32), i32>(&store, "buffer").map_err(Failed::of)?;
        let mut places = Vec::new();
        let own = module.globals.len();
        if buffers.all.len() > own {
            let more = instance.get_typed_func::<i32, ()>(&store, "pointees").map_err(Failed::of)?;
            more.call(&mut store, (buffers.all.len() - own) as i32).map_err(Failed::of)?;
        }
        let pointee =
            instance.get_typed_func::<(i32, i32, i32), i32>(&store, "pointee").map_err(Failed::of)?;
        let mut pointees = Vec::new();
        for (k, held) in buffers.all.iter().enumerate().skip(own) {
            let (size, bytes) = (held.element.max(1), held.bytes());
            let args = (k as i32, size as i32, (bytes.len() as u64 / size) as i32);
            let at = pointee.call(&mut store, args).map_err(Failed::of)? as u32 as usize;
            memory.write(&mut store, at, bytes).map_err(Failed::of)?;
            pointees.push(at);
        }
        for of in &self.wasm.globals {
            let held = &mut buffers.all[of.number as usize];
            let count = held.len as u64 / of.size.max(1);
            let at = buffer.call(&mut store, (of.number as i32, count as i32)).map_err(Failed::of)?;
            memory
                .write(&mut store, at as u32 as usize, &held.bytes()[..(count * of.size) as usize])
                .map_err(Failed::of)?;
            places.push((at as u32 as usize, (count * of.size) as usize));
        }
        let name = &self.wasm.entries[entry].name;
        let kernel = instance.get_typed_func::<(i32, i32, i32), ()>(&store, name).map_err(Failed::of)?;
        let [x, y, z] = groups.map(|n| n as i32);
        let ran = kernel.call(&mut store, (x, y, z));
        if let Ok(mut text) = host.lock() {
            *text = std::mem::take(&mut store.data_mut().text);
        }
        for (of, (at, bytes)) in self.wasm.globals.iter().zip(places) {
            if of.space == ir::Space::ReadWrite {
                let held = &mut buffers.all[of.number as usize];
                memory.read(&store, at, &mut held.bytes_mut()[..bytes]).map_err(Failed::of)?;
            }
        }
        for (held, at) in buffers.all.iter_mut().skip(own).zip(pointees) {
            memory.read(&store, at, held.bytes_mut()).map_err(Failed::of)?;
        }
        ran.map_err(|error| {
            let id = |k: usize| word(memory, &store, THREAD_AT as usize + 4 * k) as u32;
            let thread = [id(0), id(1), id(2)];
            let held = |name: &str| global(&store, name).and_then(|held| held.get(&store).i32());
            let detail = held("detail").unwrap_or(0) as u32 as usize;
            let failure = |number: u32| {
                Failed(self.wasm.failure(number, thread, |k| word(memory, &store, detail + 8 * k)))
            };
            match (held("error"), error.as_trap_code()) {
                (Some(number), _) if number != 0 => failure(number as u32),
                (_, Some(wasmi::TrapCode::StackOverflow)) => failure(u32::MAX),
                _ => Failed::of(error),
            }
        })
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
        let (printed, text) = (launch.printed, Mutex::default());
        let done = self.run(launch, &text);
        printed.all(text.into_inner().unwrap_or_default());
        done.map(|()| (Cost::default(), None)).map_err(|failed| failed.0)
    }

    fn lanes(&self, entry: usize) -> u32 {
        self.wasm.entries[entry].lanes
    }
}
