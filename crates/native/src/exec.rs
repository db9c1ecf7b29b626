//! Runs compiled code on one core.
//!
//! Compiled code runs in a coroutine with a stack of its own. So a thread can wait at a barrier, a program
//! can be stopped anywhere by leaving its coroutine, and deep recursion meets a known limit rather than the
//! end of Rust's stack.

use std::sync::{Arc, Mutex};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use ir::interp::{RunError, Value};
use ir::{Func, Space, Span};

use crate::flush::Subnormals;
use crate::profile::sampler;
use crate::runtime::{Budget, Context, DEFAULT_MEMORY, Desc, Exchange, Ids, PRINT_EVERY, Printer, Signal};
use crate::values::{Place, Scratch};
use crate::{Compiled, EntryCode, EntryPoint, Lanes, MOST_LANES, SpanFn};

/// The stack for code that runs alone on its core, in addition to what it needs without recursion. It is
/// mapped, but only touched as it is used.
const ALONE: usize = 64 << 20;
/// The stack for each thread of a group with barriers, likewise.
const IN_GROUP: usize = 512 << 10;
/// The largest stack for recursive calls, which may nest [`ir::interp::MAX_DEPTH`] deep.
const LARGEST: usize = 1 << 30;
/// The stack that helpers need.
const HELPERS: usize = 96 << 10;
/// The size of the stacks that are kept for reuse.
const KEPT: usize = ALONE + (4 << 20);

/// Stacks of `KEPT` bytes to be reused.
static STACKS: Mutex<Vec<DefaultStack>> = Mutex::new(Vec::new());

/// One thread's state and memory.
struct Thread {
    ctx: Box<Context>,
    globals: Vec<Desc>,
    /// The same memory in bytes, for handles that are numbers.
    _handles: Vec<Desc>,
    /// Memory of private globals, kept for its descriptors.
    private: Vec<Vec<u128>>,
    stack: Option<DefaultStack>,
    /// The lowest address and the end of the stack of the coroutine.
    stack_range: (usize, usize),
    /// The number of bytes that must be free when a function that may recurse starts.
    reserve: usize,
    flush: bool,
}

/// Runs the code of a module on one core.
pub struct Worker<'c> {
    compiled: &'c Compiled,
    /// The threads made so far, as many as were needed at the same time; `None` while one is in use.
    threads: Vec<Option<Thread>>,
    /// The descriptors of the buffers that the host bound and of the group's memory.
    globals: Vec<Desc>,
    /// Memory of the group.
    shared: Vec<Vec<u128>>,
    /// Copies of read-only memory that is shorter than the code takes it to be, continued with zeros.
    _continued: Vec<Vec<u128>>,
    stdout: String,
    alone: bool,
    flush: bool,
    budget: Option<Arc<Budget>>,
    printer: Option<Arc<dyn Printer>>,
}

impl<'c> Worker<'c> {
    /// A worker without buffers: every global has no elements.
    pub fn new(compiled: &'c Compiled) -> Worker<'c> {
        // SAFETY: there are no buffers.
        unsafe { Worker::with_buffers(compiled, &[]) }
    }

    /// A worker on these buffers: first one for each of the module's globals, where entries for group-shared
    /// and private globals are ignored, then the buffers that only handles in memory refer to, whose elements are
    /// bytes. A missing buffer has no elements.
    ///
    /// # Safety
    /// While the worker is used, each buffer is memory of the given number of elements of the global's type,
    /// aligned as its largest number requires, and is only accessed from elsewhere in the ways that threads
    /// of the same dispatch access it.
    pub unsafe fn with_buffers(compiled: &'c Compiled, buffers: &[Desc]) -> Worker<'c> {
        // Also where no groups are left for it: the time that waking this thread takes belongs to the dispatch.
        sampler::sample_this_thread();
        let nothing = Desc { ptr: compiled.fixed.zero() as *mut u8, count: 0 };
        let (mut shared, mut continued) = (Vec::new(), Vec::new());
        let mut globals: Vec<Desc> = compiled
            .globals
            .iter()
            .enumerate()
            .map(|(k, shape)| match shape.space {
                Space::GroupShared => {
                    let mut memory = vec![0u128; shape.bytes as usize / 16 + 1];
                    let ptr = memory.as_mut_ptr().cast();
                    shared.push(memory);
                    Desc { ptr, count: 1 }
                }
                Space::Private => Desc { ptr: nothing.ptr, count: 1 },
                Space::ReadWrite | Space::ReadOnly | Space::Uniform | Space::Arena => {
                    let desc = buffers.get(k).copied().filter(|d| d.count > 0).unwrap_or(nothing);
                    if desc.count >= shape.room {
                        return desc;
                    }
                    let mut memory = vec![0u128; (shape.room * shape.bytes / 16 + 1) as usize];
                    // SAFETY: `desc` is memory of so many elements, fewer than the new memory has.
                    unsafe {
                        let bytes = (desc.count * shape.bytes) as usize;
                        memory.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(desc.ptr, bytes);
                    }
                    let ptr = memory.as_mut_ptr().cast();
                    continued.push(memory);
                    Desc { ptr, ..desc }
                }
            })
            .collect();
        globals.extend(buffers.iter().skip(globals.len()).map(|d| if d.count > 0 { *d } else { nothing }));
        Worker {
            compiled,
            threads: Vec::new(),
            globals,
            shared,
            _continued: continued,
            stdout: String::new(),
            alone: false,
            flush: false,
            budget: None,
            printer: None,
        }
    }

    /// Declares that no other worker touches the buffers while this one runs.
    pub fn set_alone(&mut self) {
        self.alone = true;
        self.threads.iter_mut().flatten().for_each(|thread| thread.ctx.alone = 1);
    }

    /// Sets the memory that this worker and others may hold together in stacks and large arrays. Must be
    /// called before any code runs.
    pub fn set_memory(&mut self, budget: Arc<Budget>) {
        self.budget = Some(budget);
    }

    /// Sets the sink of printed text while code runs. Must be called before any code runs.
    pub fn set_printer(&mut self, printer: Arc<dyn Printer>) {
        self.printer = Some(printer);
    }

    /// Makes code flush subnormal numbers to zero.
    pub fn set_flush(&mut self) {
        self.flush = true;
        self.threads.iter_mut().flatten().for_each(|thread| thread.flush = true);
    }

    /// The memory in bytes that the worker's threads hold for stacks and large arrays.
    pub fn arena_bytes(&self) -> u64 {
        self.threads.iter().flatten().map(|thread| thread.ctx.arena.held() as u64).sum()
    }

    /// Takes the output of `printf` since the last call.
    pub fn take_stdout(&mut self) -> String {
        std::mem::take(&mut self.stdout)
    }

    /// Runs groups of entry point number `entry` (see [`Compiled::entry`]), one after the other; stops at the
    /// first error.
    pub fn run_groups(
        &mut self,
        entry: usize,
        groups: impl Iterator<Item = [u32; 3]>,
    ) -> Result<(), RunError> {
        let code = self.compiled.entries[entry].1;
        if code.size.contains(&0) {
            return Ok(());
        }
        if code.facts.waits() {
            let mut groups = groups;
            return groups.try_for_each(|group| self.run_together(code, group));
        }
        let mut thread = self.take_thread(0, ALONE);
        let shared = if code.facts.shared { &mut self.shared[..] } else { &mut [] };
        thread.ctx.output.in_order = true;
        let result = thread.enter(|ctx| {
            // SAFETY: the context is that of this thread, and alive; the code is that of this entry point.
            unsafe {
                (*ctx).ids.size = code.size;
                match code.code {
                    EntryCode::Whole(run) => {
                        for group in groups {
                            clear(shared);
                            (*ctx).ids.group = group;
                            run(ctx);
                        }
                    }
                    EntryCode::Span(one, lanes) => {
                        let all: u64 = code.size.iter().map(|&n| n as u64).product();
                        for (group, n) in rows(groups, code.facts.shared) {
                            clear(shared);
                            span(ctx, group, n * all, one, lanes);
                        }
                    }
                }
            }
        });
        self.stdout.push_str(&std::mem::take(&mut thread.ctx.output.text));
        self.put_thread(0, thread);
        result
    }

    /// Runs the threads of one group concurrently, each to its next barrier or wave operation in turn. A
    /// barrier that some threads do not reach because they have ended still releases the others.
    ///
    /// When no thread can continue, the lanes of each wave that wait at the first place (see
    /// [`ir::interp::first_together`]) exchange their values and continue. The threads at barriers are only
    /// released if no wave has such lanes.
    fn run_together(&mut self, code: EntryPoint, group: [u32; 3]) -> Result<(), RunError> {
        clear(&mut self.shared);
        let [x, y, z] = code.size;
        let threads: u64 = [x, y, z].iter().map(|&n| n as u64).product();
        // Each coroutine runs one thread, or as many threads as there are lanes.
        let width = match code.code {
            EntryCode::Span(_, Some(lanes)) => u64::from(lanes.width),
            EntryCode::Span(_, None) | EntryCode::Whole(_) => 1,
        };
        let in_lanes = threads / width * width;
        let starts = (0..in_lanes).step_by(width as usize).chain(in_lanes..threads);
        let starts: Vec<u64> = starts.collect();
        let n = starts.len();
        let mut running: Vec<(Thread, Running)> = Vec::with_capacity(n);
        for (k, &start) in starts.iter().enumerate() {
            let mut thread = self.take_thread(k, IN_GROUP);
            let index = start as u32;
            let local = [index % x, index / x % y, index / (x * y)];
            let ctx = &mut *thread.ctx;
            ctx.output.in_order = k == 0;
            let size = code.size;
            let at = |k: usize| group[k].wrapping_mul(size[k]).wrapping_add(local[k]);
            ctx.ids = Ids { thread: std::array::from_fn(at), group, local, index, size };
            let coroutine = thread.start(move |ctx| {
                // SAFETY: the context belongs to this code.
                unsafe {
                    match code.code {
                        EntryCode::Whole(run) => run(ctx),
                        EntryCode::Span(_, Some(lanes)) if start < in_lanes => {
                            (lanes.code)(ctx, start, start + width)
                        }
                        EntryCode::Span(one, _) => one(ctx, start, start + 1),
                    }
                }
            });
            running.push((thread, Running(Some(coroutine))));
        }
        let mut failed = false;
        let mut left = n;
        let mut waits = vec![Wait::Ready; n];
        while left > 0 && !failed {
            for ((thread, running), wait) in running.iter_mut().zip(&mut waits) {
                let Some(coroutine) = &mut running.0 else { continue };
                if *wait != Wait::Ready || coroutine.done() {
                    continue;
                }
                let _sampled = sampler::on_stack(thread.stack_range);
                match resume(coroutine, self.flush) {
                    CoroutineResult::Return(()) => left -= 1,
                    CoroutineResult::Yield(Signal::Barrier) => *wait = Wait::Barrier,
                    CoroutineResult::Yield(Signal::Wave) => *wait = Wait::Wave,
                    CoroutineResult::Yield(Signal::Failed) => {
                        failed = true;
                        break;
                    }
                }
            }
            let mut exchanged = false;
            if code.facts.wave && !failed {
                let waves = running.chunks_mut(ir::WAVE_LANES as usize);
                for (wave, waits) in waves.zip(waits.chunks_mut(ir::WAVE_LANES as usize)) {
                    exchanged |= exchange(wave, waits);
                }
            }
            if !exchanged {
                for wait in waits.iter_mut().filter(|w| **w == Wait::Barrier) {
                    *wait = Wait::Ready;
                }
            }
        }
        let mut result = Ok(());
        for (k, (mut thread, mut running)) in running.into_iter().enumerate() {
            thread.stack = running.finish();
            self.stdout.push_str(&std::mem::take(&mut thread.ctx.output.text));
            if let Some(error) = thread.end()
                && result.is_ok()
            {
                result = Err(error);
            }
            self.put_thread(k, thread);
        }
        result
    }

    /// Calls a function of [`crate::Options::functions`]. A buffer among the values is one of this worker's,
    /// given by its number.
    pub fn call(&mut self, func: Func, args: &[Value]) -> Result<Vec<Value>, RunError> {
        let error =
            |message: &str| RunError { message: message.to_string(), span: Span::NONE, thread: [0; 3] };
        let Some(raw) = self.compiled.raw.iter().find(|raw| raw.func == func) else {
            return Err(error("the function was not compiled"));
        };
        let types = &self.compiled.types;
        let fits =
            args.len() == raw.params.len() && args.iter().zip(&raw.params).all(|(a, p)| a.fits(types, p.ty));
        if !fits {
            return Err(error("the arguments do not fit the parameters"));
        }
        let globals = self.globals.clone();
        let empty = self.compiled.fixed.empty() as *const _;
        let place = Place { types, globals: &globals, empty };
        let mut scratch = Scratch::default();
        let mut words = Vec::new();
        for (arg, slot) in args.iter().zip(&raw.params) {
            place.words(slot.ty, arg, &mut scratch, &mut words);
        }
        let mut results = Vec::new();
        for slot in &raw.results {
            let n = crate::types::words(types, slot.ty);
            results.extend(std::iter::repeat_n(0u64, n));
            if crate::types::is_array(types, slot.ty) {
                let at = scratch.alloc(crate::types::size(types, slot.ty));
                *results.last_mut().expect("an array is a word") = at as u64;
            }
        }
        clear(&mut self.shared);
        let mut thread = self.take_thread(0, ALONE);
        let (from, to, code) = (words.as_ptr(), results.as_mut_ptr(), raw.code);
        let ran = thread.enter(|ctx| {
            // SAFETY: the words are those of the function's arguments and results.
            unsafe { code(ctx, from, to) }
        });
        self.stdout.push_str(&std::mem::take(&mut thread.ctx.output.text));
        let mut values = Vec::new();
        if ran.is_ok() {
            let mut at = 0;
            for slot in &raw.results {
                let n = crate::types::words(types, slot.ty);
                // SAFETY: the code wrote the results of its signature, and `thread` still owns its arena.
                values.push(unsafe { place.value(slot.ty, &results[at..at + n]) });
                at += n;
            }
        }
        self.put_thread(0, thread);
        ran.map(|()| values)
    }

    /// Takes thread number `k`, and makes it first if there is none yet.
    fn take_thread(&mut self, k: usize, stack: usize) -> Thread {
        if let Some(mut thread) = self.threads.get_mut(k).and_then(Option::take) {
            if thread.stack.is_none() {
                let stack = stack.max(self.compiled.recursion_need.min(LARGEST));
                thread.stack = new_stack(stack + thread.reserve);
            }
            return thread;
        }
        let compiled = self.compiled;
        let mut globals = self.globals.clone();
        let mut private = Vec::new();
        for (desc, shape) in globals.iter_mut().zip(&compiled.globals) {
            if shape.space == Space::Private {
                // Each lane has memory of its own.
                let each = shape.bytes as usize / 16 + 1;
                let mut memory = vec![0u128; each * MOST_LANES as usize];
                desc.ptr = memory.as_mut_ptr().cast();
                private.push(memory);
            }
        }
        let budget = self.budget.get_or_insert_with(|| Budget::new(DEFAULT_MEMORY)).clone();
        let mut ctx = Context::new(compiled.tables.clone(), compiled.largest, budget);
        ctx.output.printer = self.printer.clone();
        ctx.globals = globals.as_ptr();
        ctx.alone = u32::from(self.alone);
        let sizes = compiled.globals.iter().map(|shape| shape.bytes.max(1)).chain(std::iter::repeat(1));
        let handles: Vec<Desc> = globals
            .iter()
            .zip(sizes)
            .map(|(desc, size)| Desc { count: desc.count * size, ..*desc })
            .collect();
        ctx.handles = handles.as_ptr();
        ctx.handle_count = handles.len() as u64;
        let reserve = compiled.stack_need + HELPERS;
        let stack = stack.max(compiled.recursion_need.min(LARGEST));
        let stack = new_stack(stack + reserve);
        Thread {
            ctx,
            globals,
            _handles: handles,
            private,
            stack,
            stack_range: (0, 0),
            reserve,
            flush: self.flush,
        }
    }

    fn put_thread(&mut self, k: usize, thread: Thread) {
        if self.threads.len() <= k {
            self.threads.resize_with(k + 1, || None);
        }
        self.threads[k] = Some(thread);
    }
}

/// The state of a thread of a group: ready to run, or the operation that it waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Ready,
    Barrier,
    Wave,
}

/// Exchanges the values of the lanes of a wave that wait together at the first place; returns false if there
/// are none.
fn exchange(wave: &mut [(Thread, Running)], waits: &mut [Wait]) -> bool {
    let places = waits.iter().zip(wave.iter()).map(|(&wait, (thread, running))| {
        let done = running.0.as_ref().is_none_or(|c| c.done());
        (!done && wait != Wait::Ready).then(|| (&thread.ctx.path[..], wait == Wait::Wave))
    });
    let mask = ir::interp::first_together(places);
    if mask == 0 {
        return false;
    }
    let here = |k: usize| mask >> k & 1 == 1;
    let Some(first) = (0..wave.len()).find(|&k| here(k)) else { return false };
    let bytes = wave[first].0.ctx.exchange.bytes;
    let mut all = vec![0u8; bytes * ir::WAVE_LANES as usize];
    for (k, (thread, _)) in wave.iter().enumerate().filter(|(k, _)| here(*k)) {
        // SAFETY: the thread waits in the helper `wave`, so its operands are in place. Threads that wait
        // together wait at the same instruction, so the values of all have the same size.
        unsafe {
            std::ptr::copy_nonoverlapping(thread.ctx.exchange.from, all[k * bytes..].as_mut_ptr(), bytes);
        }
    }
    for (k, (thread, _)) in wave.iter_mut().enumerate().filter(|(k, _)| here(*k)) {
        // SAFETY: as above; there is room for the values of a whole wave.
        unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), thread.ctx.exchange.to, all.len()) };
        thread.ctx.exchange.mask = mask;
        waits[k] = Wait::Ready;
    }
    true
}

/// Performs the exchange of a thread that runs alone.
fn exchange_alone(ctx: &mut Context) {
    let lane = (ctx.ids.index % ir::WAVE_LANES) as usize;
    let Exchange { from, bytes, to, .. } = ctx.exchange;
    // SAFETY: as in `exchange`.
    unsafe {
        to.write_bytes(0, bytes * ir::WAVE_LANES as usize);
        std::ptr::copy_nonoverlapping(from, to.add(lane * bytes), bytes);
    }
    ctx.exchange.mask = 1 << lane;
}

/// Rows of consecutive groups along x, each given by its first group and its length; rows are of one group if
/// `each` group has memory of its own.
fn rows(groups: impl Iterator<Item = [u32; 3]>, each: bool) -> impl Iterator<Item = ([u32; 3], u64)> {
    let mut groups = groups.peekable();
    std::iter::from_fn(move || {
        let first = groups.next()?;
        let mut n = 1u64;
        let follows =
            |g: &[u32; 3], n: u64| u64::from(g[0]) == u64::from(first[0]) + n && g[1..] == first[1..];
        while !each && groups.next_if(|g| follows(g, n)).is_some() {
            n += 1;
        }
        Some((first, n))
    })
}

/// Runs the first `n` threads of the row of groups that begins with `group`.
///
/// # Safety
/// The context is alive and belongs to the code of the entry point.
unsafe fn span(ctx: *mut Context, group: [u32; 3], n: u64, one: SpanFn, lanes: Option<Lanes>) {
    let mut done = 0;
    // SAFETY: the caller guarantees that the context is alive and belongs to this code.
    unsafe {
        (*ctx).ids.group = group;
        if let Some(lanes) = lanes {
            done = n / u64::from(lanes.width) * u64::from(lanes.width);
            if done > 0 {
                (lanes.code)(ctx, 0, done);
            }
        }
        if done < n {
            (*ctx).ids.group = group;
            one(ctx, done, n);
        }
    }
}

fn clear(shared: &mut [Vec<u128>]) {
    for memory in shared {
        memory.fill(0);
    }
}

/// Takes or allocates a stack; `None` if the system has no memory for one.
fn new_stack(bytes: usize) -> Option<DefaultStack> {
    if !(ALONE..=KEPT).contains(&bytes) {
        return DefaultStack::new(bytes).ok();
    }
    // The lock must not be waited for: the thread that held it when the process forked does not exist in the
    // child.
    let kept = STACKS.try_lock().ok().and_then(|mut stacks| stacks.pop());
    kept.or_else(|| DefaultStack::new(KEPT).ok())
}

impl Drop for Thread {
    fn drop(&mut self) {
        const AT_MOST: usize = 64;
        if let Some(stack) = self.stack.take()
            && (ALONE..=KEPT + (64 << 10)).contains(&(stack.base().get() - stack.limit().get()))
            && let Ok(mut stacks) = STACKS.try_lock()
            && stacks.len() < AT_MOST
        {
            stacks.push(stack);
        }
    }
}

type Code = Coroutine<(), Signal, (), DefaultStack>;

/// Resumes a coroutine.
fn resume(coroutine: &mut Code, flush: bool) -> CoroutineResult<Signal, ()> {
    let _subnormals = Subnormals::set(flush);
    coroutine.resume(())
}

/// A coroutine of compiled code, which may be abandoned before its end.
struct Running(Option<Code>);

impl Running {
    /// Ends the coroutine and returns its stack, whether or not the code has run to its end.
    fn finish(&mut self) -> Option<DefaultStack> {
        let mut coroutine = self.0.take()?;
        if !coroutine.done() {
            // SAFETY: frames of compiled code own nothing, helpers hold nothing where they suspend,
            // and the closure at the bottom captures only copies and references.
            unsafe { coroutine.force_reset() };
        }
        Some(coroutine.into_stack())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Thread {
    /// Makes a coroutine that will run `code` with the context. The caller keeps the thread, and whatever
    /// `code` borrows, alive and in place until the coroutine is finished.
    fn start(&mut self, code: impl FnOnce(*mut Context)) -> Code {
        debug_assert_eq!(self.ctx.globals, self.globals.as_ptr());
        debug_assert!(self.private.len() <= self.globals.len());
        let stack = self.stack.take().expect("memory for a stack");
        self.stack_range = (stack.limit().get(), stack.base().get());
        self.ctx.stack_limit = self.stack_range.0 + self.reserve;
        self.ctx.failure = None;
        self.ctx.depth = 0;
        self.ctx.path.clear();
        self.ctx.output.print_at = PRINT_EVERY;
        self.ctx.arena.reset();
        let ctx = &raw mut *self.ctx;
        let body = move |yielder: &Yielder<(), Signal>, ()| {
            // SAFETY: the context and everything that `code` borrows outlive the coroutine, as the caller
            // guarantees.
            unsafe { (*ctx).yielder = yielder };
            code(ctx);
        };
        // SAFETY: as above.
        unsafe { Coroutine::with_stack_unchecked(stack, body) }
    }

    /// Runs `code` with the context to its end or to an error. The thread runs alone, so it does not wait: it
    /// passes barriers at once.
    fn enter(&mut self, code: impl FnOnce(*mut Context)) -> Result<(), RunError> {
        let mut running = Running(Some(self.start(code)));
        let _sampled = sampler::on_stack(self.stack_range);
        if let Some(coroutine) = &mut running.0 {
            while let CoroutineResult::Yield(signal) = resume(coroutine, self.flush) {
                match signal {
                    Signal::Barrier => {}
                    Signal::Wave => exchange_alone(&mut self.ctx),
                    Signal::Failed => break,
                }
            }
        }
        self.stack = running.finish();
        match self.end() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Takes the error of the run that has ended, if there was one.
    fn end(&mut self) -> Option<RunError> {
        self.ctx.yielder = std::ptr::null();
        self.ctx.failure.take()
    }
}
