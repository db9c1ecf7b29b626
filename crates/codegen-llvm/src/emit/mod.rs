//! Emits one function, for one thread or for lanes.
//!
//! An [`Emitter`] walks the regions of a function and writes LLVM's text. Every IR value is held in [`Val`]s,
//! one for each component; with more than one lane a component is uniform or varying, as [`crate::uniform`]
//! determined.
//!
//! # Masks
//!
//! Where control has diverged, [`Emitter::mask`] holds the active lanes; `None` means all. Code runs only if
//! at least one lane is active. Values that a lane computes while it is inactive are never used, and an
//! inactive lane never writes: stores are masked, and results of regions are selected by the mask.
//!
//! # Memory of a function
//!
//! Memory is laid out as in `native::types`, except that memory of varying values is *wide*: in place of each
//! number it has room for the numbers of all lanes. The result of an instruction is dead when the same
//! instruction runs again in the same call, so each instruction has its own memory: of the frame or, if it is
//! large, of the arena.

mod aggregate;
mod blocks;
mod cells;
mod control;
mod copies;
mod entry;
mod handles;
pub(crate) mod library;
mod local;
mod loops;
mod math;
mod memory;
mod scalar;
mod scattered;
mod waves;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Func, Inst, InstData, Op, Region, Scalar, Slot, Span, Type, TypeData, Types};
use native::nesting::Nesting;
use native::plan::Plan;
use native::runtime::{Helper, Site, Tables, Word, offsets};
use native::types::size;
use native::{Options, Unsupported};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::local::Class;
use crate::text::{El, Id, Val, Vals, Writer};
use crate::uniform::{Analysis, Dealing, Facts};
use crate::unit::Unit;
use native::Reason;

pub(crate) use entry::{dealing, emit_versions};

/// The reason why there is no code.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// An op is not supported at all.
    Unsupported(Unsupported),
    /// The code cannot run in lanes.
    Lanes(Reason),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Lanes(reason)
    }
}

/// The result of emission.
pub(crate) type Res<T = ()> = Result<T, Stop>;

/// Values larger than this number of bytes are allocated in the arena.
const BIG: u64 = 16 << 10;
/// If all arrays of a function together are larger than this, `CROWDED_BIG` is the limit instead.
const CROWDED: u64 = 96 << 10;
const CROWDED_BIG: u64 = 128;

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
pub(crate) struct ModuleCx<'m> {
    pub(crate) ir: &'m ir::Module,
    pub(crate) plan: Plan,
    pub(crate) options: Options,
    /// The tables that code refers to by number or address.
    pub(crate) tables: Tables,
    /// The analysis of what varies, for each assignment of threads to lanes.
    pub(crate) analyses: Vec<(Dealing, Analysis<'m>)>,
    /// The called versions, in the order of their first calls; number N is `@fN`.
    pub(crate) versions: indexmap::IndexSet<Version, rustc_hash::FxBuildHasher>,
    /// The number of versions that are emitted.
    pub(crate) emitted: usize,
    /// The functions.
    pub(crate) unit: Unit,
    /// Fields of the context never change while a function runs, wherever it is inlined.
    pub(crate) constant_context: bool,
    /// The machine has instructions that convert from and to halves.
    pub(crate) has_f16c: bool,
    /// Masked stores are slow, as on x86-64 before AVX-512.
    pub(crate) slow_masks: bool,
    /// See [`crate::Machine::has_waves`].
    pub(crate) has_waves: bool,
    /// Mathematical functions are those of `ir::library`, if it has them; and those that are called.
    pub(crate) library: bool,
    pub(crate) used_library: indexmap::IndexSet<(ir::Math, El, u32), rustc_hash::FxBuildHasher>,
    /// An upper bound of the size of all frames together in bytes.
    pub(crate) frames: u64,
    /// The length of a piece: see [`crate::pieces`]. Devices have little room for frames, so their functions
    /// are not split.
    pub(crate) piece: usize,
}

impl<'m> ModuleCx<'m> {
    /// The facts about a function whose parameters vary as given by `params`.
    pub(crate) fn facts(&mut self, dealing: Dealing, func: Func, params: &[bool]) -> Res<Facts> {
        let at = self.analyses.iter().position(|a| a.0 == dealing).unwrap_or_else(|| {
            self.analyses.push((dealing, Analysis::new(self.ir, dealing)));
            self.analyses.len() - 1
        });
        Ok(self.analyses[at].1.function(func, params)?.clone())
    }
}

/// Emits the code of one IR function.
pub(crate) struct Emitter<'a, 'm> {
    pub(crate) cx: &'a mut ModuleCx<'m>,
    /// The text.
    pub(crate) w: Writer,
    /// The function.
    pub(crate) f: &'m ir::Function,
    /// The module's types.
    pub(crate) ts: &'m Types,
    /// The number of lanes, and the assignment of threads to them.
    pub(crate) lanes: u32,
    pub(crate) dealing: Dealing,
    /// The facts about what varies; with one lane nothing does.
    pub(crate) facts: Facts,
    /// The active lanes, if not all are.
    pub(crate) mask: Option<Val>,
    /// For masks, the uniform truth value that all lanes are active.
    full: FxHashMap<Id, Val>,
    map: SecondaryMap<ir::Value, (u32, u32)>,
    pool: Vec<Val>,
    big: u64,
    /// The path of each cell within a cell.
    sub_cells: FxHashMap<ir::Value, Vec<ir::Value>>,
    /// The function's structure.
    nesting: Nesting<'m>,
    /// The reads of stacks that are known to be in range.
    inside: cranelift_entity::EntitySet<ir::Value>,
    allocates: FxHashMap<Region, bool>,
    /// The mask that was active when each cell was made.
    cell_mask: FxHashMap<ir::Value, Option<Val>>,
    /// The global whose memory each handle refers to.
    roots: FxHashMap<ir::Value, ir::Global>,
    /// The IDs of the threads, if the entry point has computed them.
    numbers: Option<entry::Numbers>,
    /// The depth of the function's path, if paths matter.
    path_base: Option<Val>,
    /// The line of the instruction being emitted.
    here: Span,
    /// The function maintains the mask of the lanes that are together.
    keeps_mask: bool,
    /// The values that have uses.
    used: EntitySet<ir::Value>,
    /// The memory in which addresses and numbers are passed to helpers, if it was needed.
    handed: Option<(Val, Val)>,
    /// For counters of loops that all lanes leave together: the number of trips left after the current one.
    trips_left: FxHashMap<ir::Value, Val>,
}

impl<'a, 'm> Emitter<'a, 'm> {
    /// Makes an emitter for `f`.
    pub(crate) fn new(
        cx: &'a mut ModuleCx<'m>,
        f: &'m ir::Function,
        lanes: u32,
        dealing: Dealing,
        facts: Facts,
    ) -> Emitter<'a, 'm> {
        let ts = &cx.ir.types;
        let mut used = EntitySet::new();
        for data in f.insts.values() {
            used.extend(data.args.iter().copied());
        }
        for data in f.regions.values() {
            used.extend(data.results.iter().copied());
        }
        let mut crowd = 0u64;
        for value in f.values.values() {
            match ts[value.ty] {
                TypeData::Array(..) => crowd = crowd.saturating_add(size(ts, value.ty)),
                TypeData::Cell(t) => crowd = crowd.saturating_add(size(ts, t)),
                _ => {}
            }
        }
        let mut w = Writer::new(lanes);
        w.fast = cx.options.fast_math || f.fast_math;
        let big = if crowd.saturating_mul(lanes as u64) > CROWDED { CROWDED_BIG } else { BIG };
        Emitter {
            cx,
            w,
            f,
            ts,
            lanes,
            dealing,
            facts,
            mask: None,
            full: FxHashMap::default(),
            map: SecondaryMap::new(),
            pool: Vec::new(),
            big,
            sub_cells: FxHashMap::default(),
            nesting: Nesting::of(f, ts),
            inside: ir::analysis::reads_in_range(ts, f),
            allocates: FxHashMap::default(),
            cell_mask: FxHashMap::default(),
            roots: FxHashMap::default(),
            numbers: None,
            path_base: None,
            here: f.span,
            keeps_mask: false,
            used,
            handed: None,
            trips_left: FxHashMap::default(),
        }
    }

    // ---- values

    /// The operands that hold `v`.
    pub(crate) fn get(&self, v: ir::Value) -> Vals {
        let (at, n) = self.map[v];
        SmallVec::from_slice(&self.pool[at as usize..(at + n) as usize])
    }

    /// The only (or first) operand that holds `v`.
    pub(crate) fn one(&self, v: ir::Value) -> Val {
        let (at, n) = self.map[v];
        debug_assert!(n >= 1, "{v} has no value in {}", self.f.name);
        self.pool[at as usize]
    }

    /// Sets the operands that hold `v`.
    pub(crate) fn set(&mut self, v: ir::Value, vals: &[Val]) {
        debug_assert!(self.varies(v) || vals.iter().all(|x| !x.var && !x.wide), "{v} in {}", self.f.name);
        self.map[v] = (self.pool.len() as u32, vals.len() as u32);
        self.pool.extend_from_slice(vals);
    }

    /// Returns true if `v` varies.
    pub(crate) fn varies(&self, v: ir::Value) -> bool {
        self.facts.varying[v]
    }

    /// The type of `v`.
    pub(crate) fn ty(&self, v: ir::Value) -> Type {
        self.f.ty(v)
    }

    /// The kind of scalar of `v`.
    pub(crate) fn scalar_of(&self, v: ir::Value) -> Scalar {
        self.ts.scalar_of(self.f.ty(v)).unwrap_or(Scalar::U64)
    }

    /// The instruction that defines `v`; `None` for a parameter.
    pub(crate) fn def(&self, v: ir::Value) -> Option<&'m InstData> {
        self.nesting.def(v)
    }

    /// An upper bound of the integer `v`, if one is easy to find.
    pub(crate) fn upper_bound(&self, v: ir::Value) -> Option<u64> {
        self.nesting.upper_bound(v)
    }

    /// The scalar constant with these bits.
    pub(crate) fn constant(&self, s: Scalar, bits: u64) -> Val {
        Val::bits(el(s), bits)
    }

    // ---- helpers

    /// Calls a helper; the context is added if the helper takes one.
    pub(crate) fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        if helper.allocates() {
            let site = self.cx.tables.memory_site(self.here);
            let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offsets::SITE.into()));
            let note = self.note(Class::Context, 4);
            self.w.store(Val::i32(site), at, &note);
        }
        let (params, result) = helper.signature();
        let ctx = Val::name(El::Ptr, "%ctx");
        let args: Vals = if params.len() == args.len() + 1 {
            std::iter::once(ctx).chain(args.iter().copied()).collect()
        } else {
            args.iter().copied().collect()
        };
        debug_assert!(args.iter().zip(params).all(|(a, &w)| !a.var && a.el == word(w)), "{helper:?}");
        let types: Vec<&str> = params.iter().map(|&w| word(w).name()).collect();
        let ret = result.map_or("void", |w| word(w).name());
        let about = match helper {
            Helper::HalfToSingle
            | Helper::SingleToHalf
            | Helper::DoubleToHalf
            | Helper::RemSingle
            | Helper::RemDouble => " nounwind willreturn memory(none)",
            Helper::Fail | Helper::NotFinite => " cold nounwind",
            _ => " nounwind",
        };
        let name = helper.name();
        self.w.declare(ret, &name, &types.join(", "), about);
        self.call_text(name, result.map(word), &args)
    }

    /// Calls a declared function with uniform operands.
    pub(crate) fn call_text(&mut self, name: &str, result: Option<El>, args: &[Val]) -> Option<Val> {
        let list: Vec<String> = args.iter().map(|&a| self.w.typed(a)).collect();
        let list = list.join(", ");
        match result {
            None => {
                self.w.line(format_args!("call void @{name}({list})"));
                None
            }
            Some(el) => {
                let out = self.w.reg(el, false);
                let o = self.w.operand(out, false);
                self.w.line(format_args!("{o} = call {} @{name}({list})", el.name()));
                Some(out)
            }
        }
    }

    /// Calls a helper that returns a value.
    pub(crate) fn helper_value(&mut self, helper: Helper, args: &[Val]) -> Val {
        self.helper(helper, args).expect("the helper has a result")
    }

    /// Restricts a truth value to the active lanes.
    pub(crate) fn active(&mut self, c: Val) -> Val {
        match self.mask {
            Some(mask) => self.w.binary("and", mask, c),
            None => c,
        }
    }

    /// Restricts a truth value to the active lanes, to test whether it holds for any of them. A uniform one
    /// needs no restriction: code that may stop the program only runs if a lane is active.
    pub(crate) fn for_any(&mut self, c: Val) -> Val {
        if c.var { self.active(c) } else { c }
    }

    /// Computes once, at the head of code that runs under the mask, whether all lanes are active.
    pub(crate) fn note_full(&mut self) {
        let Some(mask) = self.mask.filter(|mask| mask.var) else { return };
        let missing = self.w.binary("xor", mask, Val::bool(true));
        let some = self.any(missing);
        let full = self.w.binary("xor", some, Val::bool(true));
        self.full.insert(mask.id, full);
    }

    /// The condition that all lanes are active; `None` if they certainly are.
    pub(crate) fn all_active(&mut self) -> Option<Val> {
        let mask = self.mask?;
        if !self.full.contains_key(&mask.id) {
            let missing = self.w.spread(mask);
            let missing = self.w.binary("xor", missing, Val::bool(true));
            let some = self.any(missing);
            return Some(self.w.binary("xor", some, Val::bool(true)));
        }
        self.full.get(&mask.id).copied()
    }

    /// The condition that `c` holds for any lane.
    pub(crate) fn any(&mut self, c: Val) -> Val {
        if !c.var {
            return c;
        }
        let n = self.lanes;
        let bits = self.lane_bits(c);
        let out = self.w.reg(El::I1, false);
        let (o, b) = (self.w.operand(out, false), self.w.operand(bits, false));
        self.w.line(format_args!("{o} = icmp ne i{n} {b}, 0"));
        out
    }

    /// The truth values of all lanes in an integer with one bit for each lane. The type of the integer is
    /// only right in the text that uses it, not in the [`Val`].
    fn lane_bits(&mut self, c: Val) -> Val {
        let n = self.lanes;
        let out = self.w.reg(El::I32, false);
        let (o, c) = (self.w.operand(out, false), self.w.typed(c));
        self.w.line(format_args!("{o} = bitcast {c} to i{n}"));
        out
    }

    /// The truth values of all lanes as the bits of a 32-bit integer.
    pub(crate) fn mask_bits(&mut self, c: Val) -> Val {
        let c = self.w.spread(c);
        let n = self.lanes;
        let bits = self.lane_bits(c);
        let wide = self.w.reg(El::I32, false);
        let (o, b) = (self.w.operand(wide, false), self.w.operand(bits, false));
        self.w.line(format_args!("{o} = zext i{n} {b} to i32"));
        wide
    }

    /// The number of the first lane for which a varying truth value holds; there must be one.
    pub(crate) fn first_lane(&mut self, c: Val) -> Val {
        let bits = self.mask_bits(c);
        self.w.intrinsic("cttz", &[bits], ", i1 true")
    }

    /// Stops the program with the message of a site if `c` holds for an active lane.
    pub(crate) fn fail_if(&mut self, c: Val, site: Site) {
        let (bad, good) = (self.w.new_block(), self.w.new_block());
        let c = self.for_any(c);
        let stop = self.any(c);
        self.w.branch(stop, bad, good, ", !prof !9");
        self.w.enter(bad);
        self.name_lane(c);
        let site = self.cx.tables.site(site);
        self.helper(Helper::Fail, &[Val::i32(site)]);
        self.w.jump(good);
        self.w.enter(good);
    }

    // ---- ops

    /// Emits the instructions of a region.
    pub(crate) fn region(&mut self, region: Region) -> Res {
        for &inst in &self.f.regions[region].insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    /// Emits one instruction.
    pub(crate) fn inst(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        self.here = data.span;
        if self.path_base.is_some() {
            self.path_inst(inst);
        }
        if let (Op::Sub, Some(&left)) = (&data.op, data.args.get(1).and_then(|i| self.trips_left.get(i))) {
            self.set(data.results[0], &[left]);
            return Ok(());
        }
        match &data.op {
            Op::Const(_)
            | Op::Zero
            | Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Rem
            | Op::Neg
            | Op::And
            | Op::Or
            | Op::Xor
            | Op::Not
            | Op::Shl
            | Op::Shr
            | Op::Math(_)
            | Op::Eq
            | Op::Ne
            | Op::Lt
            | Op::Le
            | Op::Gt
            | Op::Ge
            | Op::Convert
            | Op::Bitcast
            | Op::Select
            | Op::Sum => self.arithmetic(data),
            Op::Detach => {
                let vals = self.get(data.args[0]);
                self.set(data.results[0], &vals);
                Ok(())
            }
            Op::Construct | Op::Splat | Op::Extract(_) | Op::Insert(_) | Op::Index => self.aggregate(data),
            Op::Local | Op::Load | Op::Store | Op::AddTo | Op::SubCell => self.cell(inst),
            Op::GlobalRef(_)
            | Op::BufferLoad(_)
            | Op::BufferStore(_)
            | Op::Atomic(..)
            | Op::BufferLen
            | Op::BufferOffset
            | Op::BufferCast(_)
            | Op::BufferAddress
            | Op::OnDevice
            | Op::Barrier
            | Op::WaveGather
            | Op::Builtin(_)
            | Op::Printf(_)
            | Op::Assert(_)
            | Op::CheckFinite(_) => self.world(data),
            Op::Call(_) | Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => self.control(inst),
            _ => self.unsupported(&data.op, "a derivative that was not generated", data.span),
        }
    }

    /// The error for an op that this backend cannot express.
    pub(crate) fn unsupported<T>(&self, op: &Op, why: &str, span: Span) -> Res<T> {
        Err(Stop::Unsupported(Unsupported {
            backend: crate::NAME,
            op: format!("{op:?}: {why}"),
            span,
            internal: true,
        }))
    }

    /// The error for code that cannot run in lanes.
    pub(crate) fn no_lanes<T>(&self, what: &str, span: Span) -> Res<T> {
        Err(Stop::Lanes(crate::uniform::reason(what, span)))
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
