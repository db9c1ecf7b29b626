//! Sinks computations into the arm that uses them.
//!
//! A pure operation all of whose uses are within one arm of an `if` or `switch` moves to the start of that
//! arm, or further in, but never into a loop. Its operands are visible there, and pure operations may be
//! computed at any time. The backend does this for arithmetic by itself, but not for operations that it emits
//! as loads and calls: elements of arrays and stacks, mathematics, functions. Instructions are processed from
//! last to first, so whole chains move.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use ir::{Function, Inst, Op, Region, Value};

use crate::effects::Facts;
use crate::util::Defs;

/// Moves instructions; returns true if anything moved.
pub fn run(func: &mut Function, facts: &Facts) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut any = false;
    func.walk(func.body(), &mut |inst| any |= matches!(func.insts[inst].op, Op::If | Op::Switch(_)));
    if !any {
        return false;
    }
    let defs = Defs::of(func);
    let mut delay = Delay {
        facts,
        defs,
        parent: SecondaryMap::new(),
        depth: SecondaryMap::new(),
        in_loop: SecondaryMap::new(),
        used_in: SecondaryMap::new(),
        moved: false,
        func,
    };
    let body = delay.func.body();
    delay.tree(body, 0);
    delay.region(body);
    delay.moved
}

struct Delay<'a> {
    func: &'a mut Function,
    facts: &'a Facts,
    defs: Defs,
    parent: SecondaryMap<Region, PackedOption<Region>>,
    depth: SecondaryMap<Region, u32>,
    /// For each region, true if it is the body of a loop.
    in_loop: SecondaryMap<Region, bool>,
    /// The innermost region that contains all uses seen so far.
    used_in: SecondaryMap<Value, PackedOption<Region>>,
    moved: bool,
}

impl Delay<'_> {
    fn tree(&mut self, region: Region, depth: u32) {
        self.depth[region] = depth;
        for inst in self.func.regions[region].insts.clone() {
            let is_loop = matches!(self.func.insts[inst].op, Op::For(_) | Op::Loop(_));
            for nested in self.func.insts[inst].regions.clone() {
                self.parent[nested] = region.into();
                self.in_loop[nested] = is_loop;
                self.tree(nested, depth + 1);
            }
        }
    }

    fn up(&self, region: Region) -> Region {
        self.parent[region].expand().expect("only the body has no parent")
    }

    fn common(&self, mut a: Region, mut b: Region) -> Region {
        while a != b {
            if self.depth[a] >= self.depth[b] {
                a = self.up(a);
            } else {
                b = self.up(b);
            }
        }
        a
    }

    fn use_in(&mut self, v: Value, region: Region) {
        let all = match self.used_in[v].expand() {
            Some(other) => self.common(region, other),
            None => region,
        };
        self.used_in[v] = all.into();
    }

    /// Processes a region from last to first; instructions that move into an arm are put before the arm's
    /// own.
    fn region(&mut self, region: Region) {
        for v in self.func.regions[region].results.clone() {
            self.use_in(v, region);
        }
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut kept = Vec::with_capacity(insts.len());
        let mut leaving: Vec<(Region, Inst)> = Vec::new();
        for inst in insts.into_iter().rev() {
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
            let target = self.target(inst, region);
            for arg in self.func.insts[inst].args.clone() {
                self.use_in(arg, target);
            }
            if target == region {
                kept.push(inst);
            } else {
                self.moved = true;
                leaving.push((target, inst));
            }
        }
        kept.reverse();
        self.func.regions[region].insts = kept;
        // The last instruction found is the first in program order: each goes before those that may use it.
        let mut fronts: IndexMap<Region, Vec<Inst>, FxBuildHasher> = IndexMap::default();
        for (target, inst) in leaving.into_iter().rev() {
            fronts.entry(target).or_default().push(inst);
        }
        for (target, front) in fronts {
            self.func.regions[target].insts.splice(0..0, front);
        }
    }

    /// The region in which an instruction should be computed.
    fn target(&self, inst: Inst, here: Region) -> Region {
        let data = &self.func.insts[inst];
        if !data.regions.is_empty() || data.results.len() != 1 {
            return here;
        }
        let fixed = match data.op {
            Op::Const(_) | Op::Zero | Op::Absent | Op::GlobalRef(_) | Op::Builtin(_) | Op::SubCell => true,
            Op::Call(_) => self.facts.inst(self.func, &self.defs, inst) != crate::Effects::NONE,
            _ => !data.op.is_pure(),
        };
        if fixed {
            return here;
        }
        let Some(used) = self.used_in[data.results[0]].expand() else { return here };
        // The innermost region on the path to the uses that is not inside a further loop.
        let mut target = used;
        let mut at = used;
        while at != here {
            let parent = self.up(at);
            if self.in_loop[at] {
                target = parent;
            }
            at = parent;
        }
        target
    }
}
