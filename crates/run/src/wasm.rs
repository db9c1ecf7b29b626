//! Dispatches WebAssembly modules, in an interpreter of WebAssembly.
//!
//! It shows that a module does what the program says, whatever its host; browsers, which compile modules, run them much
//! faster. Each dispatch has an instance of its own, whose memory the bound bytes are copied to and from.

use std::sync::Mutex;

use codegen_wasm::{Print, THREAD_AT, Wasm};
use ir::interp::RunError;
use ir::{Scalar, Span, scalar};
use wasmi::{AsContext, Caller, Config, Engine, Linker, Memory, Module, Store, Val};

use crate::{Cost, Launch};

/// The largest number of pages of 64 KiB that memory may have.
const MOST_PAGES: u64 = 1 << 16;

/// A module, ready to run.
pub struct Program {
    wasm: Wasm,
    engine: Engine,
    module: Module,
}

/// The state of a dispatch on the host's side.
struct Host {
    prints: Vec<Print>,
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
        Ok(Program { wasm, engine, module })
    }

    fn run(&self, launch: Launch<'_>, host: &Mutex<String>) -> Result<(), Failed> {
        let Launch { entry, groups, buffers, options, .. } = launch;
        let data = Host { prints: self.wasm.prints.clone(), text: String::new(), memory: None };
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
        for of in &self.wasm.globals {
            let held = &mut buffers.all[of.number as usize];
            let count = held.len as u64 / of.size.max(1);
            let at = buffer.call(&mut store, (of.number as i32, count as i32)).map_err(Failed::of)?;
            memory.write(&mut store, at as u32 as usize, &held.bytes()[..(count * of.size) as usize]).map_err(Failed::of)?;
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
        ran.map_err(|error| {
            let mut thread = [0; 3];
            for (k, id) in thread.iter_mut().enumerate() {
                let mut word = [0; 4];
                if memory.read(&store, THREAD_AT as usize + 4 * k, &mut word).is_ok() {
                    *id = u32::from_le_bytes(word);
                }
            }
            let number = global(&store, "error").and_then(|error| error.get(&store).i32());
            match number {
                Some(number) if number != 0 => Failed(self.wasm.failure(number as u32, thread)),
                _ => match error.as_trap_code() {
                    Some(wasmi::TrapCode::StackOverflow) => Failed(self.wasm.failure(u32::MAX, thread)),
                    _ => Failed::of(error),
                },
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
    let host = caller.data();
    let (Some(memory), Some(print)) =
        (host.memory, host.prints.iter().find(|print| print.number == number as u32).cloned())
    else {
        return;
    };
    let word = |k: usize, s: Scalar| {
        let mut word = [0; 8];
        let read = memory.read(caller.as_context(), words as usize + 8 * k, &mut word);
        (s, read.map_or(0, |()| scalar::canonical(s, u64::from_le_bytes(word))))
    };
    let args: Vec<(Scalar, u64)> = print.kinds.iter().enumerate().map(|(k, &s)| word(k, s)).collect();
    let text = ir::printf::print(&print.format, &args);
    caller.data_mut().text.push_str(&text);
}

impl crate::Program for Program {
    fn dispatch(&self, launch: Launch<'_>) -> Result<(Cost, Option<f64>), RunError> {
        let (printed, text) = (launch.printed, Mutex::default());
        let done = self.run(launch, &text);
        printed.all(text.into_inner().unwrap_or_default());
        done.map(|()| (Cost::default(), None)).map_err(|failed| failed.0)
    }
}
