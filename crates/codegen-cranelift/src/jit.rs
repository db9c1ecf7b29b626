//! Compiles a module to machine code in memory: emits its functions, compiles them together, and hands out their
//! addresses.

use cranelift_codegen::isa::CallConv;
use cranelift_codegen::{CodegenError, Context as ClifContext};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Module as _, ModuleError, default_libcall_names};
use ir::{Entry, Func, Module, Scalar, Span};
use native::plan::Plan;
use native::profile::{Line, Lines, Profile};
use native::runtime::{Tables, symbols};
use native::{
    Compiled, EntryCode, EntryFn, Fixed, Lanes, Options, Parts, RawFn, Reason, SpanFn, Unsupported,
};

use crate::compile::{Queue, Runs};
use crate::emit::{Emitter, ModuleCx};
use crate::{NAME, spill, threads};

/// The executable memory, freed when it is dropped.
struct Memory(Option<JITModule>);

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(jit) = self.0.take() {
            // SAFETY: the owner keeps no pointers into the memory once it drops it.
            unsafe { jit.free_memory() };
        }
    }
}

/// Compiles the entry points of a verified module, the functions in `options`, and all functions that they
/// call.
pub fn compile(module: &Module, options: &Options) -> Result<Compiled, Unsupported> {
    let (mut cx, fixed) = prepare(module, options)?;
    let made = emit_all(&mut cx);
    let ModuleCx { jit, plan, tables, frames, lane_frames, pieces, spills, .. } = cx;
    let mut memory = Memory(Some(jit));
    let (entries, raw) = made?;
    let jit = memory.0.as_mut().expect("just made");
    if let Err(error) = jit.finalize_definitions() {
        return Err(Unsupported { backend: NAME, op: error.to_string(), span: Span::NONE, internal: true });
    }
    let code = |id: FuncId| jit.get_finalized_function(id);
    let entry = |entry: MadeEntry| {
        // SAFETY: functions for lanes, and for the threads that these leave over, were emitted with this signature.
        let span = |id| unsafe { std::mem::transmute::<*const u8, SpanFn>(code(id)) };
        match (entry.lanes, entry.one) {
            (Ok((lanes, width)), one) => {
                let one = span(one.unwrap_or(lanes));
                (EntryCode::Span(one, Some(Lanes { code: span(lanes), width })), None)
            }
            (Err(reason), one) => {
                let one = code(one.expect("an entry point has code"));
                // SAFETY: the function was emitted with this signature.
                (EntryCode::Whole(unsafe { std::mem::transmute::<*const u8, EntryFn>(one) }), Some(reason))
            }
        }
    };
    let entries = entries.into_iter().map(entry).collect();
    let function = |&(func, id): &(Func, FuncId)| {
        let code = jit.get_finalized_function(id);
        // SAFETY: the function was emitted with this signature.
        (func, unsafe { std::mem::transmute::<*const u8, RawFn>(code) })
    };
    let raw = raw.iter().map(function).collect();
    let lines = pieces.into_iter().flat_map(|(id, pieces)| {
        let base = jit.get_finalized_function(id) as u64;
        pieces.into_iter().map(move |piece| Line {
            start: base + piece.start,
            end: base + piece.end,
            ..piece
        })
    });
    let lines = Lines::new(lines.collect(), Some(spills));
    let stack_need = plan.stack_need(&frames) + lane_frames;
    let recursion_need = plan.recursion_need(|f| u64::from(frames[f]));
    let memory = Box::new(memory);
    let parts = Parts { entries, raw, tables, fixed, lines, stack_need, recursion_need, memory };
    // SAFETY: the emitted code keeps the contract of `native`.
    Ok(unsafe { Compiled::new(module, &plan, parts) })
}

/// The text of the Cranelift IR that [`compile`] compiles, before Cranelift's optimiser.
pub fn clif_text(module: &Module, options: &Options) -> Result<String, Unsupported> {
    let (mut cx, _fixed) = prepare(module, options)?;
    cx.text = Some(String::new());
    let made = emit_all(&mut cx);
    // SAFETY: nothing was compiled, so no pointers into the memory exist.
    unsafe { cx.jit.free_memory() };
    made.map(|_| cx.text.unwrap_or_default())
}

/// Makes the context that functions are emitted into, and the memory that their code refers to.
fn prepare<'m>(module: &'m Module, options: &Options) -> Result<(ModuleCx<'m>, Fixed), Unsupported> {
    let roots = module.entries.iter().map(|e| e.func).chain(options.functions.iter().copied());
    let plan = Plan::new(module, roots);
    let fixed = Fixed::new(&plan);
    let queue = Queue::new(options).map_err(|op| Unsupported {
        backend: NAME,
        op,
        span: Span::NONE,
        internal: false,
    })?;
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
        rare: Vec::new(),
        symbols: Default::default(),
        tables: Tables::default(),
        zero: fixed.zero() as i64,
        absent: [Scalar::F16, Scalar::F32, Scalar::F64].map(|s| (s, fixed.absent(s) as i64)),
        empty: fixed.empty() as i64,
        empty_at: fixed.empty_at() as i64,
        plan,
        frames: SecondaryMap::new(),
        lane_frames: 0,
        text: None,
        queue,
        pieces: Vec::new(),
        spills: Vec::new(),
    };
    Ok((cx, fixed))
}

/// The address space reserved for the code of one module, within which every call reaches every function.
/// Only the part in use becomes memory.
const REACH: usize = 1 << 30;

/// Makes a module that emits for this machine, with all code in one reservation: if each function had memory
/// of its own, the functions of a process with large stacks could be further apart than a call reaches.
fn new_module(queue: &Queue) -> JITModule {
    let mut builder = JITBuilder::with_isa(queue.isa(), default_libcall_names());
    builder.symbols(symbols());
    // If so much cannot be reserved because address space is limited, functions cannot be far apart anyway.
    if let Ok(together) = ArenaMemoryProvider::new_with_size(REACH) {
        builder.memory_provider(Box::new(together));
    }
    JITModule::new(builder)
}

/// The functions of an entry point.
struct MadeEntry {
    /// The function that runs a group, or what lanes leave over.
    one: Option<FuncId>,
    /// The function that runs threads in lanes, and the number of lanes; or the reason why there is none.
    lanes: Result<(FuncId, u32), Reason>,
}

type Made = (Vec<MadeEntry>, Vec<(Func, FuncId)>);

/// Emits all functions; returns the functions of the entry points, and those that Rust can call.
fn emit_all(cx: &mut ModuleCx<'_>) -> Result<Made, Unsupported> {
    let module = cx.ir;
    let mut clif = cx.jit.make_context();
    let mut frontend = FunctionBuilderContext::new();
    let in_lanes = threads::emit(cx, &mut clif)?;
    // The functions that one thread calls.
    let is_left = |entry: &Entry, lanes: &Result<(FuncId, u32), Reason>| {
        let all: u64 = entry.group_size.iter().map(|&n| u64::from(n)).product();
        lanes.as_ref().map_or(true, |lanes| !all.is_multiple_of(u64::from(lanes.1)))
    };
    let left = module.entries.iter().zip(&in_lanes).filter(|(entry, lanes)| is_left(entry, lanes));
    let mut roots: Vec<Func> = left.map(|(entry, _)| entry.func).collect();
    roots.extend(cx.options.functions.iter().copied().filter(|&f| module.funcs[f].has_body()));
    if !roots.is_empty() {
        roots.extend(module.globals.values().filter_map(|g| g.init));
    }
    let mut needed: SecondaryMap<Func, bool> = SecondaryMap::new();
    ir::walk::reachable(module, &roots).into_iter().for_each(|f| needed[f] = true);
    let order: Vec<Func> = cx.plan.order.iter().copied().filter(|&f| needed[f]).collect();
    for &func in &order {
        if module.funcs[func].has_body() {
            let sig = cx.signature(func);
            let id = cx.jit.declare_anonymous_function(&sig).map_err(|e| too_big(e, func, module))?;
            cx.funcs[func] = Some(id);
        }
    }
    // An entry point that nothing calls is emitted only in its wrapper.
    let mut called: SecondaryMap<Func, bool> = SecondaryMap::new();
    let callees = order.iter().flat_map(|&f| module.funcs[f].insts.values().filter_map(|i| i.op.callee()));
    let inits = module.globals.values().filter_map(|g| g.init);
    callees.chain(inits).chain(cx.options.functions.iter().copied()).for_each(|f| called[f] = true);
    for &func in &order {
        let (Some(id), true) = (cx.funcs[func], called[func]) else { continue };
        clif.func.signature = cx.signature(func);
        Emitter::new(cx, &module.funcs[func], &mut clif.func, &mut frontend).function(func)?;
        define(cx, id, &mut clif, (func, Runs::One))?;
    }
    let system = cx.jit.isa().default_call_conv();
    let mut entries = Vec::new();
    for (entry, lanes) in module.entries.iter().zip(in_lanes) {
        let one = match is_left(entry, &lanes) {
            true => Some(emit_entry(cx, (entry, lanes.is_ok()), system, &mut clif, &mut frontend)?),
            false => None,
        };
        entries.push(MadeEntry { one, lanes });
    }
    let mut raw = Vec::new();
    for func in cx.options.functions.clone() {
        if cx.funcs[func].is_none() {
            continue;
        }
        let sig = Emitter::entry_signature(system, 3);
        let id = cx.jit.declare_anonymous_function(&sig).map_err(|e| too_big(e, func, module))?;
        clif.func.signature = sig;
        Emitter::new(cx, &module.funcs[func], &mut clif.func, &mut frontend).raw(func)?;
        define(cx, id, &mut clif, (func, Runs::One))?;
        raw.push((func, id));
    }
    if let (Some(&func), None) = (cx.plan.order.first(), &cx.text) {
        for k in 0..cx.rare.len() {
            let id = cx.emit_rare(k, &mut clif, &mut frontend);
            define(cx, id, &mut clif, (func, Runs::One))?;
        }
    }
    flush(cx)?;
    Ok((entries, raw))
}

/// Emits the code of an entry point for one thread at a time: for a group, or for what lanes leave over.
fn emit_entry(
    cx: &mut ModuleCx<'_>,
    (entry, has_lanes): (&Entry, bool),
    system: CallConv,
    clif: &mut ClifContext,
    frontend: &mut FunctionBuilderContext,
) -> Result<FuncId, Unsupported> {
    let module = cx.ir;
    let f = &module.funcs[entry.func];
    if !f.has_body() || !f.params.is_empty() {
        let op = format!("the entry point '{}', which has parameters or no body", entry.name);
        return Err(Unsupported { backend: NAME, op, span: f.span, internal: false });
    }
    let sig = Emitter::entry_signature(system, if has_lanes { 3 } else { 1 });
    let id = cx.jit.declare_anonymous_function(&sig).map_err(|e| too_big(e, entry.func, module))?;
    clif.func.signature = sig;
    let facts = cx.plan.facts[entry.func];
    let emitter = Emitter::new(cx, f, &mut clif.func, frontend);
    if has_lanes {
        emitter.span(entry.func, entry.group_size)?
    } else if facts.waits() {
        emitter.thread(entry.func)?
    } else {
        emitter.group(entry.group_size)?
    }
    define(cx, id, clif, (entry.func, Runs::One))?;
    Ok(id)
}

/// Queues an emitted function, to be compiled together with others.
pub(crate) fn define(
    cx: &mut ModuleCx<'_>,
    id: FuncId,
    clif: &mut ClifContext,
    of: (Func, Runs),
) -> Result<(), Unsupported> {
    let slots = clif.func.sized_stack_slots.len();
    spill::spill_long_lived(&mut clif.func);
    if let Some(text) = &mut cx.text {
        text.push_str(&format!("; {}\n{}\n", cx.ir.funcs[of.0].name, clif.func.display()));
        cx.jit.clear_context(clif);
        return Ok(());
    }
    if cx.queue.push((id, slots), of, clif) { flush(cx) } else { Ok(()) }
}

/// Compiles all functions in the queue.
fn flush(cx: &mut ModuleCx<'_>) -> Result<(), Unsupported> {
    for mut job in cx.queue.compile() {
        let frame = job.define(&mut cx.jit).map_err(|e| too_big(*e, job.func, cx.ir))?;
        match job.runs {
            Runs::One => cx.frames[job.func] = cx.frames[job.func].saturating_add(frame),
            Runs::Lanes => cx.lane_frames += u64::from(frame) + 64,
        }
        if cx.options.profile != Profile::Off {
            cx.pieces.push((job.id, job.pieces()));
            cx.spills.extend(job.spills());
        }
        cx.queue.reuse(job);
    }
    Ok(())
}

/// The error for a function that Cranelift refuses to compile, such as one that is too large.
pub(crate) fn too_big(error: ModuleError, func: Func, module: &Module) -> Unsupported {
    let f = &module.funcs[func];
    let (op, internal) = match error {
        ModuleError::Compilation(CodegenError::CodeTooLarge | CodegenError::ImplLimitExceeded) => {
            (format!("a function as large as '{}'", f.name), false)
        }
        ModuleError::Compilation(e) => (format!("the function '{}': {e:?}", f.name), true),
        e => (format!("the function '{}': {e}", f.name), true),
    };
    Unsupported { backend: NAME, op, span: f.span, internal }
}
