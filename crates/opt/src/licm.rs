//! Loop-invariant code motion: moves instructions out of loops in which they do not change.
//!
//! All operations are total, so computing one that would not have been reached is never wrong, only useless;
//! an operation can therefore move to any place where its operands are visible. One walk keeps the
//! instruction lists of all open regions. An instruction in a loop's body whose operands come from further
//! out is appended to the list of the region around the loop, which at that moment ends just before the loop.
//! It moves out of as many loops as possible. Only cheap operations move out of an arm of an `if`, and only
//! if they also leave a loop: an operation that an arm guards may be expensive and is often not reached.
//!
//! Loads move if nothing in the loop writes the memory that they read. Calls move if they only compute and
//! certainly terminate.

use cranelift_entity::SecondaryMap;
use ir::analysis::points_to::root_cell;
use ir::analysis::{Defs, Summaries, Writes};
use ir::{Function, Inst, Op, Region, Types, Value};
use smallvec::SmallVec;

/// Hoists instructions; returns true if anything moved.
pub(crate) fn run(types: &mut Types, func: &mut Function, summaries: &Summaries) -> bool {
    if !func.contains(Op::is_loop) {
        return false;
    }
    let defs = Defs::of(func);
    let writes = Writes::of(func, &defs, summaries);
    let mut licm = Licm {
        types,
        summaries,
        defs,
        writes,
        depth: SecondaryMap::new(),
        open: Vec::new(),
        moved: false,
        func,
    };
    let body = licm.func.body();
    licm.region(body, Kind::Body);
    licm.moved
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Body,
    Loop,
    Arm,
}

struct Open {
    kind: Kind,
    region: Region,
    list: Vec<Inst>,
}

struct Licm<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    summaries: &'a Summaries,
    defs: Defs,
    writes: Writes,
    /// The number of regions open around a value's definition.
    depth: SecondaryMap<Value, u32>,
    open: Vec<Open>,
    moved: bool,
}

impl Licm<'_> {
    fn region(&mut self, region: Region, kind: Kind) {
        let depth = self.open.len() as u32;
        for &p in &self.func.regions[region].params {
            self.depth[p] = depth;
        }
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        self.open.push(Open { kind, region, list: Vec::with_capacity(insts.len()) });
        for inst in insts {
            let nested: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
            let kind = match self.func.insts[inst].op {
                Op::For(_) | Op::Loop(_) => Kind::Loop,
                _ => Kind::Arm,
            };
            for r in nested {
                self.region(r, kind);
            }
            let target = self.target(inst, depth as usize);
            self.moved |= target != depth as usize;
            for &r in &self.func.insts[inst].results {
                self.depth[r] = target as u32;
            }
            self.open[target].list.push(inst);
        }
        let done = self.open.pop().expect("pushed above");
        self.func.regions[region].insts = done.list;
    }

    /// The outermost level that an instruction at level `here` should move to.
    fn target(&self, inst: Inst, here: usize) -> usize {
        let data = &self.func.insts[inst];
        if !data.regions.is_empty() || data.results.is_empty() {
            return here;
        }
        let effects = self.summaries.inst(self.func, &self.defs, inst);
        if effects.writes || effects.hangs {
            return here;
        }
        let cell = match data.op {
            Op::Local | Op::SubCell => return here,
            Op::Load => Some(root_cell(self.func, &self.defs, data.args[0])),
            _ => None,
        };
        let need = data.args.iter().map(|&a| self.depth[a] as usize).max().unwrap_or(0);
        let cheap = self.cheap(inst);
        let mut target = here;
        let mut at = here;
        while at > need {
            let open = &self.open[at];
            match open.kind {
                Kind::Body => break,
                Kind::Arm if !cheap => break,
                Kind::Arm => at -= 1,
                Kind::Loop => {
                    let region = open.region;
                    if effects.reads && self.writes.effects(region).writes {
                        break;
                    }
                    if let Some(cell) = cell
                        && self.writes.cells(region).binary_search(&cell).is_ok()
                    {
                        break;
                    }
                    at -= 1;
                    target = at;
                }
            }
        }
        target
    }

    /// Returns true if computing the instruction in vain costs next to nothing.
    fn cheap(&self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        let numeric = self.types.is_numeric(self.func.ty(data.results[0]));
        match data.op {
            Op::Const(_) | Op::GlobalRef(_) | Op::Builtin(_) | Op::BufferLen => true,
            Op::Zero | Op::Absent | Op::Splat | Op::Construct => numeric,
            Op::Extract(_) => numeric,
            ref op if op.is_elementary() => numeric,
            _ => false,
        }
    }
}
