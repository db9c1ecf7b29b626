//! IR to machine code in memory.
//!
//! [`Compiled`] is the code of a module's entry points and of functions that were asked for;
//! [`Worker`] runs it on one core. The code means what `ir::interp` says, bit for bit (any two NaN
//! are equal): both share the scalar functions of `ir::scalar` where the machine has no exact
//! instruction.
//!
//! Errors of a running program — a failed assertion, a loop past the bound that its reversal
//! relies on, calls nested too deep — stop it and are reported with the user's line and the
//! thread. An op that this backend cannot express is an [`Unsupported`] that names it.
//!
//! Unsafe code is where it must be: entering compiled code (`exec`) and the functions that
//! compiled code calls (`runtime`).

mod compile;
mod emit;
mod exec;
mod plan;
mod runtime;
mod spill;
mod types;
mod values;

use std::sync::Arc;

use cranelift_codegen::Context as ClifContext;
use cranelift_codegen::isa::CallConv;
use cranelift_entity::SecondaryMap;
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module as _, ModuleError, default_libcall_names};
use ir::interp::{RunError, Value};
use ir::{Entry, Func, Module, Slot, Space, Span, Types};

use compile::Queue;
use emit::{Emitter, ModuleCx};
use plan::{Facts, Plan};
use runtime::{Header, Tables};

pub use exec::Worker;
pub use runtime::Desc;

/// What the user wants of the code.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Report the first buffer access that is out of range, instead of reading zero and writing
    /// nothing.
    pub trap: bool,
    /// Functions that [`Compiled::call`] will be asked for, besides the entry points.
    pub functions: Vec<Func>,
    /// Compile faster, to slower code.
    pub fast_compile: bool,
}

/// An op that this backend cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The op and why.
    pub op: String,
    /// The user's line.
    pub span: Span,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the cranelift backend does not support {}", self.op)
    }
}

impl std::error::Error for Unsupported {}

/// Memory that code refers to by address, at fixed places.
struct Fixed {
    zero: Vec<u128>,
    empty: Box<Header>,
    empty_at: Box<*mut Header>,
}

/// An entry point's code.
#[derive(Clone, Copy)]
struct EntryCode {
    /// Runs a thread if `barrier`, else a group.
    code: extern "C" fn(*mut runtime::Context),
    size: [u32; 3],
    facts: Facts,
}

/// A function's code for Rust.
struct RawCode {
    func: Func,
    code: extern "C" fn(*mut runtime::Context, *const u64, *mut u64),
    params: Vec<Slot>,
    results: Vec<Slot>,
}

/// A global's memory.
#[derive(Clone, Copy)]
struct GlobalShape {
    space: Space,
    bytes: u64,
}

/// The code of a module.
pub struct Compiled {
    entries: Vec<(String, EntryCode)>,
    raw: Vec<RawCode>,
    globals: Vec<GlobalShape>,
    types: Types,
    tables: Arc<Tables>,
    fixed: Fixed,
    largest: u64,
    /// Bytes of stack that calls without recursion need.
    stack_need: usize,
    /// The executable memory; taken on drop.
    jit: Option<JITModule>,
}

// SAFETY: after compilation nothing of it changes: code, tables and the fixed memory are only read
// (`empty` is never grown in place, the zeros are never written), and the module is only kept for
// its memory.
unsafe impl Send for Compiled {}
// SAFETY: as above.
unsafe impl Sync for Compiled {}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("entries", &self.entries.iter().map(|e| &e.0).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(jit) = self.jit.take() {
            // SAFETY: the function pointers die with `self`, and a `Worker` borrows it.
            unsafe { jit.free_memory() };
        }
    }
}

impl Compiled {
    /// Compiles the entry points of a verified module, the functions in `options`, and all that they
    /// call.
    pub fn compile(module: &Module, options: &Options) -> Result<Compiled, Unsupported> {
        let (mut cx, fixed) = prepare(module, options)?;
        let made = emit_all(&mut cx);
        let ModuleCx { mut jit, plan, tables, frames, .. } = cx;
        let (entries, raw) = match made {
            Ok(made) => made,
            Err(unsupported) => {
                // SAFETY: no pointer into the memory was taken.
                unsafe { jit.free_memory() };
                return Err(unsupported);
            }
        };
        if let Err(error) = jit.finalize_definitions() {
            return Err(Unsupported { op: error.to_string(), span: Span::NONE });
        }
        let entries = module
            .entries
            .iter()
            .zip(entries)
            .map(|(entry, id)| {
                let code = jit.get_finalized_function(id);
                // SAFETY: emitted with this signature.
                let code =
                    unsafe { std::mem::transmute::<*const u8, extern "C" fn(*mut runtime::Context)>(code) };
                let facts = plan.facts[entry.func];
                (entry.name.clone(), EntryCode { code, size: entry.group_size, facts })
            })
            .collect();
        let raw =
            raw.into_iter()
                .map(|(func, id)| {
                    let code = jit.get_finalized_function(id);
                    let f = &module.funcs[func];
                    // SAFETY: emitted with this signature.
                    let code = unsafe {
                        std::mem::transmute::<
                            *const u8,
                            extern "C" fn(*mut runtime::Context, *const u64, *mut u64),
                        >(code)
                    };
                    RawCode { func, code, params: f.params.clone(), results: f.results.clone() }
                })
                .collect();
        let globals = module
            .globals
            .values()
            .map(|g| GlobalShape { space: g.space, bytes: module.mem.size(g.ty) })
            .collect();
        Ok(Compiled {
            entries,
            raw,
            globals,
            types: module.types.clone(),
            tables: Arc::new(tables),
            fixed,
            largest: plan.largest,
            stack_need: plan.stack_need(&frames) as usize,
            jit: Some(jit),
        })
    }

    /// Whether an entry point's threads wait for each other.
    pub fn has_barrier(&self, entry: usize) -> bool {
        self.entries[entry].1.facts.barrier
    }

    /// The number of the entry point of that name, for [`Worker::run_groups`].
    pub fn entry(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|e| e.0 == name)
    }

    /// Calls a function of [`Options::functions`] with no global bound.
    pub fn call(&self, func: Func, args: &[Value]) -> Result<Vec<Value>, RunError> {
        Worker::new(self).call(func, args)
    }
}

/// The text of Cranelift's IR for what [`Compiled::compile`] compiles, before its optimiser.
pub fn clif_text(module: &Module, options: &Options) -> Result<String, Unsupported> {
    let (mut cx, _fixed) = prepare(module, options)?;
    cx.text = Some(String::new());
    let made = emit_all(&mut cx);
    // SAFETY: nothing was compiled.
    unsafe { cx.jit.free_memory() };
    made.map(|_| cx.text.unwrap_or_default())
}

/// What functions are emitted into, and the memory they refer to.
fn prepare<'m>(module: &'m Module, options: &Options) -> Result<(ModuleCx<'m>, Fixed), Unsupported> {
    let roots = module.entries.iter().map(|e| e.func).chain(options.functions.iter().copied());
    let plan = Plan::new(module, roots);
    let mut fixed = Fixed {
        zero: vec![0; plan.largest as usize / 16 + 2],
        empty: Box::new(Header { ptr: std::ptr::null_mut(), len: 0, cap: 0 }),
        empty_at: Box::new(std::ptr::null_mut()),
    };
    fixed.empty.ptr = fixed.zero.as_mut_ptr().cast();
    *fixed.empty_at = &raw mut *fixed.empty;

    let queue = Queue::new(options.fast_compile).map_err(|op| Unsupported { op, span: Span::NONE })?;
    let jit = new_module(&queue);
    let has = |name: &str| {
        jit.isa().isa_flags().iter().any(|flag| flag.name == name && flag.as_bool() == Some(true))
    };
    let x86 = cfg!(target_arch = "x86_64");
    let cx = ModuleCx {
        has_fma: !x86 || has("has_fma"),
        has_round: !x86 || has("has_sse41"),
        ir: module,
        options: options.clone(),
        jit,
        funcs: SecondaryMap::new(),
        symbols: Default::default(),
        tables: Tables::default(),
        shapes: Default::default(),
        zero: fixed.zero.as_ptr() as i64,
        empty: &raw const *fixed.empty as i64,
        empty_at: &raw const *fixed.empty_at as i64,
        plan,
        frames: SecondaryMap::new(),
        text: None,
        queue,
    };
    Ok((cx, fixed))
}

/// A module that emits for this machine.
fn new_module(queue: &Queue) -> JITModule {
    let mut builder = JITBuilder::with_isa(queue.isa(), default_libcall_names());
    builder.symbols(runtime::symbols());
    JITModule::new(builder)
}

type Made = (Vec<FuncId>, Vec<(Func, FuncId)>);

/// Emits everything; gives the entry points' code and the functions' code for Rust.
fn emit_all(cx: &mut ModuleCx<'_>) -> Result<Made, Unsupported> {
    let module = cx.ir;
    let order = cx.plan.order.clone();
    for &func in &order {
        if module.funcs[func].has_body() {
            let sig = cx.signature(func);
            let id = cx.jit.declare_anonymous_function(&sig).map_err(|e| too_big(e, func, module))?;
            cx.funcs[func] = Some(id);
        }
    }
    let mut clif = cx.jit.make_context();
    let mut frontend = FunctionBuilderContext::new();
    // An entry point that nothing calls is emitted only in its wrapper.
    let mut called: SecondaryMap<Func, bool> = SecondaryMap::new();
    for &func in &order {
        let f = &module.funcs[func];
        for inst in f.insts.values() {
            if let Some(callee) = inst.op.callee() {
                called[callee] = true;
            }
        }
    }
    for init in module.globals.values().filter_map(|g| g.init) {
        called[init] = true;
    }
    for &func in &cx.options.functions {
        called[func] = true;
    }
    for &func in &order {
        let (Some(id), true) = (cx.funcs[func], called[func]) else { continue };
        clif.func.signature = cx.signature(func);
        Emitter::new(cx, &module.funcs[func], &mut clif.func, &mut frontend).function(func)?;
        define(cx, id, &mut clif, func)?;
    }
    let system = cx.jit.isa().default_call_conv();
    let mut entries = Vec::new();
    for entry in &module.entries {
        entries.push(emit_entry(cx, entry, system, &mut clif, &mut frontend)?);
    }
    let mut raw = Vec::new();
    for func in cx.options.functions.clone() {
        if cx.funcs[func].is_none() {
            continue;
        }
        let sig = Emitter::entry_signature(system, true);
        let id = cx.jit.declare_anonymous_function(&sig).map_err(|e| too_big(e, func, module))?;
        clif.func.signature = sig;
        let private = cx.plan.facts[func].private;
        Emitter::new(cx, &module.funcs[func], &mut clif.func, &mut frontend).raw(func, private)?;
        define(cx, id, &mut clif, func)?;
        raw.push((func, id));
    }
    flush(cx)?;
    Ok((entries, raw))
}

fn emit_entry(
    cx: &mut ModuleCx<'_>,
    entry: &Entry,
    system: CallConv,
    clif: &mut ClifContext,
    frontend: &mut FunctionBuilderContext,
) -> Result<FuncId, Unsupported> {
    let module = cx.ir;
    let f = &module.funcs[entry.func];
    if !f.has_body() || !f.params.is_empty() {
        let op = format!("the entry point '{}', which has parameters or no body", entry.name);
        return Err(Unsupported { op, span: f.span });
    }
    let sig = Emitter::entry_signature(system, false);
    let id = cx.jit.declare_anonymous_function(&sig).map_err(|e| too_big(e, entry.func, module))?;
    clif.func.signature = sig;
    let facts = cx.plan.facts[entry.func];
    let emitter = Emitter::new(cx, f, &mut clif.func, frontend);
    if facts.waits() {
        emitter.thread(entry.func)?
    } else {
        emitter.group(entry.group_size)?
    }
    define(cx, id, clif, entry.func)?;
    Ok(id)
}

/// Hands over what was emitted, to be compiled with others.
fn define(cx: &mut ModuleCx<'_>, id: FuncId, clif: &mut ClifContext, func: Func) -> Result<(), Unsupported> {
    spill::spill_long_lived(&mut clif.func);
    if let Some(text) = &mut cx.text {
        text.push_str(&format!("; {}\n{}\n", cx.ir.funcs[func].name, clif.func.display()));
        cx.jit.clear_context(clif);
        return Ok(());
    }
    if cx.queue.push(id, func, clif) { flush(cx) } else { Ok(()) }
}

/// Compiles what is in the queue.
fn flush(cx: &mut ModuleCx<'_>) -> Result<(), Unsupported> {
    for mut job in cx.queue.compile() {
        let frame = job.define(&mut cx.jit).map_err(|e| too_big(*e, job.func, cx.ir))?;
        cx.frames[job.func] = cx.frames[job.func].saturating_add(frame);
        cx.queue.reuse(job);
    }
    Ok(())
}

/// What Cranelift refuses: a function too large for it.
fn too_big(error: ModuleError, func: Func, module: &Module) -> Unsupported {
    let f = &module.funcs[func];
    let op = match error {
        ModuleError::Compilation(e) => format!("the function '{}': {e:?}", f.name),
        e => format!("the function '{}': {e}", f.name),
    };
    Unsupported { op, span: f.span }
}
