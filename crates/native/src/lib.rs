//! What compiled code of every CPU backend shares: the run-time contract, in one place.
//!
//! A backend turns a module into a [`Compiled`]: addresses of code, and the memory that the code refers to.
//! [`Worker`] runs it on one core. Whatever the backend, the code means what `ir::interp` says, bit for bit (any two
//! NaN are equal).
//!
//! # The contract
//!
//! Code is entered by functions of the platform's C calling convention:
//!
//! - an entry point by [`EntryCode::Whole`]: `code(ctx)` runs all threads of the group whose number is in the context,
//!   one after the other; or, if threads wait for each other (barriers, waves), the one thread whose numbers are there;
//! - or by [`EntryCode::Span`]: `code(ctx, start, end)` runs the threads with these numbers of a row of groups that
//!   begins at the group in the context and goes on in x. Code for lanes runs as many threads at a time as it has
//!   lanes, and the span is a multiple of that; where groups have memory of their own it is within one group;
//! - a function that was asked for by `code(ctx, arguments, results)` with each word (see [`types::words`]) of its
//!   arguments and results in eight bytes; an array is a pointer, and for a result a pointer to where it goes.
//!
//! `ctx` is a [`runtime::Context`]; code uses the fields at [`runtime::offsets`], and the functions that
//! [`runtime::symbols`] lists. It runs inside a coroutine, so that it can wait and can be stopped anywhere.
//!
//! Errors of a running program — a failed assertion, a loop past the bound that its reversal relies on, calls nested
//! too deep — stop it and are reported with the user's line and the thread. An op that a backend cannot express is an
//! [`Unsupported`] that names it.
//!
//! Unsafe code is where it must be: entering compiled code (`exec`) and the functions that compiled code calls
//! (`runtime`).

mod exec;
mod flush;
pub mod fork;
pub mod library;
pub mod nesting;
pub mod plan;
pub mod runtime;
pub mod types;
mod values;

use std::any::Any;
use std::sync::Arc;

use ir::interp::{RunError, Value};
use ir::{Func, Module, Scalar, Slot, Space, Span, Types};

use plan::Facts;
use runtime::{Context, Header, Tables};

pub use exec::Worker;
pub use flush::Subnormals;
pub use runtime::{Budget, DEFAULT_MEMORY, Desc, PRINT_EVERY, Printer};

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
    /// How many threads run in lanes, if the backend can: 1, 4, 8 or 16; `None` for what suits machine and program.
    pub lanes: Option<u32>,
    /// Compute every function of numbers as the interpreter does, even if the backend has functions of its own.
    pub plain_math: bool,
    /// Add up the lanes of an atomic sum in their order, as one thread after the other would, and not by halves.
    pub lane_order: bool,
    /// Call the functions of [`library`], as LLVM's backend does, even if the backend would use the interpreter's. So code
    /// of both gives the same bits.
    pub own_math: bool,
    /// Give the same bits in every run and with any number of workers: floats that are added atomically are added in an
    /// order that depends on the dispatch alone.
    pub deterministic: bool,
    /// Operations on floats may be done in any order and fused, as in functions that say so themselves. Only LLVM does it.
    pub fast_math: bool,
    /// Numbers too small to be normal may be taken for zeros: on many processors operations on them take long. Whoever
    /// dispatches has to tell the workers ([`Worker::set_flush`]).
    pub flush_subnormals: bool,
    /// Bytes that threads may hold together for large arrays and for what reverse mode keeps; `None` for
    /// [`DEFAULT_MEMORY`]. It is for those who dispatch, and makes no difference to code.
    pub memory: Option<u64>,
    /// Seconds that a dispatch may take; `None`: any. As [`Self::memory`], for those who dispatch.
    pub seconds: Option<f64>,
    /// The caller promises that one dispatch at a time, on one thread, touches the buffers: atomic additions of floats are
    /// plain ones from the start.
    pub exclusive: bool,
    /// Longer functions are compiled in pieces of so many lines of the backend's text; `None` for what suits. It makes no
    /// difference to what code does.
    pub piece: Option<usize>,
    /// Look for the code in the user's cache, and keep it there, if the backend's code is worth that.
    pub cache: bool,
}

/// An op that a backend cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The backend's name.
    pub backend: &'static str,
    /// The op and why.
    pub op: String,
    /// The user's line.
    pub span: Span,
    /// True if no program should come here: the backend is at fault, and says so in its own terms.
    pub internal: bool,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the {} backend does not support {}", self.backend, self.op)
    }
}

impl std::error::Error for Unsupported {}

/// Memory that code refers to by address, at fixed places. Nobody writes it once it is made.
pub struct Fixed {
    zero: Vec<u128>,
    absent: [Vec<u128>; 3],
    empty: Box<Header>,
    empty_at: Box<*mut Header>,
}

impl Fixed {
    /// The memory for values of the plan's largest size, in as many lanes as there can be.
    pub fn new(plan: &plan::Plan) -> Fixed {
        let largest = plan.largest;
        let absent = |s: Scalar| {
            let number = u128::from(ir::scalar::absent(s));
            let numbers = (0..128 / s.bits()).map(|k| number << (k * s.bits()));
            vec![numbers.sum(); plan.largest_stacked as usize / 16 + 1]
        };
        let mut fixed = Fixed {
            absent: [Scalar::F16, Scalar::F32, Scalar::F64].map(absent),
            zero: vec![0; largest as usize / 16 * MOST_LANES as usize + 2 * MOST_LANES as usize],
            empty: Box::new(Header { ptr: std::ptr::null_mut(), len: 0, cap: 0 }),
            empty_at: Box::new(std::ptr::null_mut()),
        };
        fixed.empty.ptr = fixed.zero.as_mut_ptr().cast();
        *fixed.empty_at = &raw mut *fixed.empty;
        fixed
    }

    /// Address of memory that is always zero.
    pub fn zero(&self) -> usize {
        self.zero.as_ptr() as usize
    }

    /// Address of memory that always holds absent differentials of this type, as many as an element of a stack has; zeros
    /// where it is no float.
    pub fn absent(&self, s: Scalar) -> usize {
        match s {
            Scalar::F16 => self.absent[0].as_ptr() as usize,
            Scalar::F32 => self.absent[1].as_ptr() as usize,
            Scalar::F64 => self.absent[2].as_ptr() as usize,
            _ => self.zero(),
        }
    }

    /// Address of the empty stack's header.
    pub fn empty(&self) -> usize {
        &raw const *self.empty as usize
    }

    /// Address of a word that holds [`Self::empty`].
    pub fn empty_at(&self) -> usize {
        &raw const *self.empty_at as usize
    }
}

/// Code that runs a group, or the thread that the context names.
pub type EntryFn = unsafe extern "C" fn(*mut Context);

/// Code that runs some threads of a row of groups.
pub type SpanFn = unsafe extern "C" fn(*mut Context, u64, u64);

/// Code of an entry point.
#[derive(Clone, Copy)]
pub enum EntryCode {
    /// All threads of a group, or one thread if they wait for each other.
    Whole(EntryFn),
    /// Any threads of a row of groups, one at a time and, perhaps, in lanes. Where the lanes divide a group, none is left
    /// over, and the first is never called.
    Span(SpanFn, Option<Lanes>),
}

/// Code that runs threads in lanes.
#[derive(Clone, Copy)]
pub struct Lanes {
    /// Its code.
    pub code: SpanFn,
    /// How many there are.
    pub width: u32,
}

/// Why an entry point runs one thread at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What is in the way.
    pub what: String,
    /// The user's line.
    pub span: Span,
}

/// The most lanes there are.
pub const MOST_LANES: u32 = 16;

/// Code of a function for Rust.
pub type RawFn = unsafe extern "C" fn(*mut Context, *const u64, *mut u64);

/// An entry point's code.
#[derive(Clone, Copy)]
struct EntryPoint {
    code: EntryCode,
    size: [u32; 3],
    facts: Facts,
}

/// A function's code for Rust.
struct RawCode {
    func: Func,
    code: RawFn,
    params: Vec<Slot>,
    results: Vec<Slot>,
}

/// A global's memory.
#[derive(Clone, Copy)]
struct GlobalShape {
    space: Space,
    bytes: u64,
}

/// What a backend has made of a module.
pub struct Parts {
    /// The code of each entry point, in order; and why not in lanes, if the backend has lanes.
    pub entries: Vec<(EntryCode, Option<Reason>)>,
    /// The code of functions that were asked for.
    pub raw: Vec<(Func, RawFn)>,
    /// What the code refers to by number or address.
    pub tables: Tables,
    /// What the code refers to by address.
    pub fixed: Fixed,
    /// Bytes of stack that calls without recursion need.
    pub stack_need: u64,
    /// Bytes of stack for calls of functions that call themselves: [`plan::Plan::recursion_need`].
    pub recursion_need: u64,
    /// Owns the executable memory; dropped when the code cannot run any more.
    pub memory: Box<dyn Any>,
}

/// The code of a module.
pub struct Compiled {
    entries: Vec<(String, EntryPoint)>,
    reasons: Vec<Option<Reason>>,
    sums: Vec<plan::Sums>,
    raw: Vec<RawCode>,
    globals: Vec<GlobalShape>,
    types: Types,
    tables: Arc<Tables>,
    fixed: Fixed,
    largest: u64,
    /// Bytes of stack that calls without recursion need.
    stack_need: usize,
    recursion_need: usize,
    _memory: Box<dyn Any>,
}

// SAFETY: after compilation nothing of it changes: code, tables and the fixed memory are only read
// (`empty` is never grown in place, the zeros are never written), and `_memory` is only kept to be dropped.
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

impl Compiled {
    /// The code of `module`, made by this `plan`.
    ///
    /// # Safety
    /// The code keeps the contract at the head of this crate, means what the module says, and stays in place until
    /// `parts.memory` is dropped.
    pub unsafe fn new(module: &Module, plan: &plan::Plan, parts: Parts) -> Compiled {
        let (codes, reasons): (Vec<EntryCode>, Vec<Option<Reason>>) = parts.entries.into_iter().unzip();
        let entry = |(entry, code): (&ir::Entry, EntryCode)| {
            let facts = plan.facts[entry.func];
            (entry.name.clone(), EntryPoint { code, size: entry.group_size, facts })
        };
        let raw = |(func, code): (Func, RawFn)| {
            let f = &module.funcs[func];
            RawCode { func, code, params: f.params.clone(), results: f.results.clone() }
        };
        let shape = |g: &ir::GlobalData| GlobalShape { space: g.space, bytes: module.mem.size(g.ty) };
        Compiled {
            entries: module.entries.iter().zip(codes).map(entry).collect(),
            reasons,
            sums: module.entries.iter().map(|entry| plan.sums(module, entry.func)).collect(),
            raw: parts.raw.into_iter().map(raw).collect(),
            globals: module.globals.values().map(shape).collect(),
            types: module.types.clone(),
            tables: Arc::new(parts.tables),
            fixed: parts.fixed,
            largest: plan.largest,
            stack_need: parts.stack_need as usize,
            recursion_need: parts.recursion_need as usize,
            _memory: parts.memory,
        }
    }

    /// How many threads of an entry point run in lanes; 1 if they run one after the other.
    pub fn lanes(&self, entry: usize) -> u32 {
        match self.entries[entry].1.code {
            EntryCode::Span(_, Some(lanes)) => lanes.width,
            EntryCode::Span(_, None) | EntryCode::Whole(_) => 1,
        }
    }

    /// True if the code may print.
    pub fn prints(&self) -> bool {
        self.tables.sites().iter().any(|site| matches!(site, runtime::Site::Printf(..)))
    }

    /// Why an entry point's threads do not run in lanes, if that is known.
    pub fn why_single(&self, entry: usize) -> Option<&Reason> {
        self.reasons[entry].as_ref()
    }

    /// What an entry point only adds to.
    pub fn sums(&self, entry: usize) -> &plan::Sums {
        &self.sums[entry]
    }

    /// The threads of a group of an entry point.
    pub fn group_threads(&self, entry: usize) -> u64 {
        self.entries[entry].1.size.iter().map(|&n| u64::from(n)).product()
    }

    /// Whether an entry point's threads wait for each other.
    pub fn has_barrier(&self, entry: usize) -> bool {
        self.entries[entry].1.facts.barrier
    }

    /// Whether what an entry point leaves depends on the order of threads.
    pub fn is_ordered(&self, entry: usize) -> bool {
        self.entries[entry].1.facts.ordered
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
