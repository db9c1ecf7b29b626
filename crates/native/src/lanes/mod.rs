//! Emits code that runs several threads side by side, in the lanes of vectors; and the same for one thread.
//!
//! An [`Emitter`] walks the regions of a function by [`crate::emit`], and writes instructions by a [`Writer`], which
//! each backend has. Every IR value is held in [`Val`]s, one for each component; with more than one lane a component
//! is uniform or varying, as [`uniform`] determined.
//!
//! # Masks
//!
//! Where control has diverged, [`Emitter::mask`] holds the active lanes; `None` means all. Code runs only if
//! at least one lane is active. Values that a lane computes while it is inactive are never used, and an
//! inactive lane never writes: stores are masked, and results of regions are selected by the mask.
//!
//! # Memory of a function
//!
//! Memory is laid out as in `crate::types`, except that memory of varying values is *wide*: in place of each
//! number it has room for the numbers of all lanes. The result of an instruction is dead when the same
//! instruction runs again in the same call, so each instruction has its own memory: of the frame or, if it is
//! large, of the arena.

mod assignment;
mod atomics;
mod blocks;
mod calls;
mod copies;
pub mod cost;
mod entry;
mod instructions;
mod library;
mod local;
pub mod operand;
mod rows;
mod scattered;
mod sums;
mod threads;
pub mod uniform;
mod writer;

use std::ops::{Deref, DerefMut};

use crate::emit::{Assembler, Binary, Unary, Walk};
use crate::plan::Plan;
use crate::runtime::{Tables, Word};
use crate::{Options, Unsupported};
use cranelift_entity::SecondaryMap;
use ir::{Builtin, Func, Scalar, Slot, Span, Type};
use rustc_hash::FxHashMap;

use crate::Reason;
use operand::{El, Id, Val};
use uniform::{Analysis, Dealing, Facts};

pub use assignment::{Widths, in_lanes, one_at_a_time, raw};
pub use library::define as define_library;
pub use sums::Vectors;
pub use writer::{Backend, Class, Head, Kind, Writer};

/// The reason why there is no code.
#[derive(Clone, Debug)]
pub enum Stop {
    /// An op is not supported at all.
    Unsupported(Unsupported),
    /// The code cannot run in lanes.
    Lanes(Reason),
}

impl From<Unsupported> for Stop {
    fn from(unsupported: Unsupported) -> Stop {
        Stop::Unsupported(unsupported)
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Lanes(reason)
    }
}

/// The result of emission.
pub type Res<T = ()> = Result<T, Stop>;

/// A version of a function: the properties of a call that its code depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    pub(crate) func: Func,
    pub(crate) lanes: u32,
    /// For each parameter, true if it varies.
    pub(crate) params: Vec<bool>,
    /// True if a mask is passed.
    pub(crate) masked: bool,
    pub(crate) dealing: Dealing,
}

/// State shared by all functions of a module while they are emitted.
pub struct ModuleCx<'m, B> {
    /// The module.
    pub ir: &'m ir::Module,
    /// The facts about the module.
    pub plan: Plan,
    /// The options.
    pub options: Options,
    /// The tables that code refers to by number or address.
    pub tables: Tables,
    /// The analysis of what varies, for each assignment of threads to lanes.
    pub(crate) analyses: Vec<(Dealing, Analysis<'m>)>,
    /// The called versions, in the order of their first calls; number N is `@fN`.
    pub(crate) versions: indexmap::IndexSet<Version, rustc_hash::FxBuildHasher>,
    /// The number of versions that are emitted.
    pub(crate) emitted: usize,
    /// The code of the entry point that was emitted last for lanes also runs the threads that are left over, fewer than
    /// there are lanes.
    pub takes_left_over: bool,
    /// The functions.
    pub backend: B,
    /// The functions of `ir::library` that are called.
    pub(crate) used_library: indexmap::IndexSet<library::Routine, rustc_hash::FxBuildHasher>,
}

impl<'m, B: Backend> ModuleCx<'m, B> {
    /// A module to which functions are added.
    pub fn new(ir: &'m ir::Module, plan: Plan, options: Options, tables: Tables, backend: B) -> Self {
        ModuleCx {
            ir,
            plan,
            options,
            tables,
            analyses: Vec::new(),
            versions: Default::default(),
            emitted: 0,
            takes_left_over: false,
            backend,
            used_library: Default::default(),
        }
    }

    /// The facts about a function whose parameters vary as given by `params`.
    pub(crate) fn facts(&mut self, dealing: Dealing, func: Func, params: &[bool]) -> Res<Facts> {
        let at = self.analyses.iter().position(|a| a.0 == dealing).unwrap_or_else(|| {
            self.analyses.push((dealing, Analysis::new(self.ir, dealing)));
            self.analyses.len() - 1
        });
        Ok(self.analyses[at].1.function(func, params)?.clone())
    }
}

/// The IDs of the threads that run in the lanes.
pub(crate) struct Numbers {
    pub(super) thread: [Val; 3],
    group: [Val; 3],
    local: [Val; 3],
    index: Val,
}

impl Numbers {
    /// Component `k` of an ID.
    pub(super) fn part(&self, builtin: Builtin, k: usize) -> Val {
        match builtin {
            Builtin::DispatchThreadId => self.thread[k],
            Builtin::GroupId => self.group[k],
            Builtin::GroupThreadId => self.local[k],
            _ => self.index,
        }
    }
}

/// Emits the code of one IR function.
pub(crate) struct Emitter<'a, 'm, B: Backend> {
    pub(crate) cx: &'a mut ModuleCx<'m, B>,
    /// The text.
    pub(crate) w: B::Writer,
    walk: Walk<'m, Val>,
    /// The number of lanes, and the assignment of threads to them.
    pub(crate) lanes: u32,
    pub(crate) dealing: Dealing,
    /// The facts about what varies; with one lane nothing does.
    pub(crate) facts: Facts,
    /// The active lanes, if not all are.
    pub(crate) mask: Option<Val>,
    /// For masks, the uniform truth value that all lanes are active.
    full: FxHashMap<Id, Val>,
    /// The mask that was active when each cell was made.
    cell_mask: FxHashMap<ir::Value, Option<Val>>,
    /// The IDs of the threads, if the entry point has computed them.
    numbers: Option<Numbers>,
    /// The function maintains the mask of the lanes that are together.
    keeps_mask: bool,
    /// The number of uses of each value.
    uses: SecondaryMap<ir::Value, u32>,
    /// The memory in which addresses and numbers are passed to helpers, if it was needed.
    handed: Option<(Val, Val)>,
    /// Sines and cosines that were computed with the other function of the same angle.
    angles: FxHashMap<ir::Value, operand::Vals>,
    /// For counters of loops that all lanes leave together: the number of trips left after the current one.
    trips_left: FxHashMap<ir::Value, Val>,
    /// The accesses that are emitted together.
    rows: rows::Rows,
}

impl<'m, B: Backend> Deref for Emitter<'_, 'm, B> {
    type Target = Walk<'m, Val>;

    fn deref(&self) -> &Walk<'m, Val> {
        &self.walk
    }
}

impl<B: Backend> DerefMut for Emitter<'_, '_, B> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.walk
    }
}

impl<'a, 'm, B: Backend> Emitter<'a, 'm, B> {
    /// Makes an emitter for `f`.
    pub(crate) fn new(
        cx: &'a mut ModuleCx<'m, B>,
        f: &'m ir::Function,
        kind: Kind,
        lanes: u32,
        dealing: Dealing,
        facts: Facts,
    ) -> Emitter<'a, 'm, B> {
        let mut walk = Walk::new(f, &cx.ir.types, lanes);
        if !cx.backend.has_arena() {
            walk.big = u64::MAX;
        }
        let w = cx.backend.writer(kind, lanes, cx.options.fast_math || f.fast_math);
        let mut emitter = Emitter {
            cx,
            w,
            walk,
            lanes,
            dealing,
            facts,
            mask: None,
            full: FxHashMap::default(),
            cell_mask: FxHashMap::default(),
            numbers: None,
            keeps_mask: false,
            uses: ir::walk::use_counts(f),
            handed: None,
            angles: FxHashMap::default(),
            trips_left: FxHashMap::default(),
            rows: Default::default(),
        };
        emitter.find_rows();
        emitter
    }

    // ---- values

    /// Sets the operands that hold `v`.
    pub(crate) fn set(&mut self, v: ir::Value, vals: &[Val]) {
        debug_assert!(self.varies(v) || vals.iter().all(|x| !x.var && !x.wide), "{v} in {}", self.f.name);
        self.walk.set(v, vals);
    }

    // ---- helpers

    /// Computes once, at the head of code that runs under the mask, whether all lanes are active.
    pub(crate) fn note_full(&mut self) {
        let Some(mask) = self.mask.filter(|mask| mask.var) else { return };
        let missing = self.w.binary(Binary::Xor, mask, Val::bool(true));
        let some = self.w.any(missing);
        let full = self.w.binary(Binary::Xor, some, Val::bool(true));
        self.full.insert(mask.id, full);
    }

    /// The condition that all lanes are active; `None` if they certainly are.
    pub(crate) fn all_active(&mut self) -> Option<Val> {
        let mask = self.mask?;
        if !self.full.contains_key(&mask.id) {
            let missing = self.w.spread(mask);
            let missing = self.w.binary(Binary::Xor, missing, Val::bool(true));
            let some = self.w.any(missing);
            return Some(self.w.binary(Binary::Xor, some, Val::bool(true)));
        }
        self.full.get(&mask.id).copied()
    }

    /// The number of the first lane for which a varying truth value holds; there must be one.
    pub(crate) fn first_lane(&mut self, c: Val) -> Val {
        let bits = self.w.mask_bits(c);
        self.w.unary(Unary::TrailingZeros, bits)
    }

    /// The error for code that cannot run in lanes.
    pub(crate) fn no_lanes<T>(&self, what: &str, span: Span) -> Res<T> {
        Err(Stop::Lanes(uniform::reason(what, span)))
    }
}

/// The type that holds one number in a register.
pub(crate) fn el(s: Scalar) -> El {
    match s {
        Scalar::Bool => El::I1,
        Scalar::I8 | Scalar::U8 => El::I8,
        Scalar::I16 | Scalar::U16 | Scalar::F16 => El::I16,
        Scalar::I32 | Scalar::U32 => El::I32,
        Scalar::I64 | Scalar::U64 => El::I64,
        Scalar::F32 => El::F32,
        Scalar::F64 => El::F64,
    }
}

/// The type of a helper's parameter.
fn word(w: Word) -> El {
    match w {
        Word::I32 => El::I32,
        Word::I64 => El::I64,
        Word::F32 => El::F32,
        Word::F64 => El::F64,
        Word::Ptr => El::Ptr,
    }
}

/// The slots' types.
pub(crate) fn slot_types(slots: &[Slot]) -> impl Iterator<Item = Type> + '_ {
    slots.iter().map(|s| s.ty)
}
