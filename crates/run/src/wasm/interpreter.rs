//! Runs modules of WebAssembly in an interpreter.

use std::sync::Arc;

use native::runtime::Site;
use wasmi::{AsContext, Caller, Config, Engine, Linker, Memory, Module, Store, TrapCode, Val};

use super::Trap;

/// A module.
pub(super) struct Code {
    engine: Engine,
    module: Module,
    /// The number of operands of each place that prints, by its number.
    operands: Arc<[usize]>,
}

impl Code {
    pub(super) fn new(bytes: &[u8], sites: &[Site]) -> Result<Code, String> {
        let mut config = Config::default();
        config.set_max_recursion_depth(4 * ir::interp::MAX_DEPTH).set_max_stack_height(1 << 26);
        let engine = Engine::new(&config);
        let module = Module::new(&engine, bytes).map_err(|error| error.to_string())?;
        Ok(Code { engine, module, operands: super::operands(sites).collect() })
    }
}

/// An instance of a module.
pub(super) struct Instance {
    store: Store<Host>,
    instance: wasmi::Instance,
    memory: Memory,
}

/// The state of an instance on the host's side.
struct Host {
    operands: Arc<[usize]>,
    memory: Option<Memory>,
    printed: Vec<(u32, Vec<u64>)>,
}

impl Instance {
    pub(super) fn new(code: &Code) -> Result<Instance, Trap> {
        let data = Host { operands: code.operands.clone(), memory: None, printed: Vec::new() };
        let mut store = Store::new(&code.engine, data);
        let mut linker = <Linker<Host>>::new(&code.engine);
        linker.func_wrap("pullback", "print", print).map_err(any)?;
        let instance = linker.instantiate_and_start(&mut store, &code.module).map_err(any)?;
        let memory = instance.get_memory(&store, "memory").ok_or_else(|| any("no memory"))?;
        store.data_mut().memory = Some(memory);
        Ok(Instance { store, instance, memory })
    }

    /// Sets a global.
    pub(super) fn set(&mut self, global: &str, value: u32) -> Result<(), Trap> {
        let global = self.instance.get_global(&self.store, global).ok_or_else(|| any("no global"))?;
        global.set(&mut self.store, Val::I32(value as i32)).map_err(any)
    }

    /// The value of a global.
    pub(super) fn get(&self, global: &str) -> u32 {
        let global = self.instance.get_global(&self.store, global);
        global.and_then(|global| global.get(&self.store).i32()).unwrap_or(0) as u32
    }

    /// Calls a function that has at most one result.
    pub(super) fn call(&mut self, name: &str, args: &[u32]) -> Result<u32, Trap> {
        let function = self.instance.get_func(&self.store, name).ok_or_else(|| any("no function"))?;
        let args: Vec<Val> = args.iter().map(|&arg| Val::I32(arg as i32)).collect();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        let called = function.call(&mut self.store, &args, &mut results);
        called.map_err(|error| match error.as_trap_code() {
            Some(TrapCode::StackOverflow) => Trap::StackOverflow,
            _ => any(error),
        })?;
        Ok(results.first().and_then(Val::i32).unwrap_or(0) as u32)
    }

    pub(super) fn read(&self, at: u32, bytes: &mut [u8]) -> Result<(), Trap> {
        self.memory.read(&self.store, at as usize, bytes).map_err(any)
    }

    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Trap> {
        self.memory.write(&mut self.store, at as usize, bytes).map_err(any)
    }

    /// The places that printed, with their operands, in order.
    pub(super) fn take_printed(&mut self) -> Vec<(u32, Vec<u64>)> {
        std::mem::take(&mut self.store.data_mut().printed)
    }
}

fn any(why: impl ToString) -> Trap {
    Trap::Any(why.to_string())
}

/// Records what a place of the program prints.
fn print(mut caller: Caller<'_, Host>, _: i64, number: i32, words: i64) {
    let (Some(memory), operands) = (caller.data().memory, &caller.data().operands) else { return };
    let n = operands.get(number as usize).copied().unwrap_or(0);
    let words = (0..n).map(|k| word(memory, &caller, words as usize + 8 * k)).collect();
    caller.data_mut().printed.push((number as u32, words));
}

/// Eight bytes of memory.
fn word(memory: Memory, store: impl AsContext, at: usize) -> u64 {
    let mut word = [0; 8];
    memory.read(store, at, &mut word).map_or(0, |()| u64::from_le_bytes(word))
}
