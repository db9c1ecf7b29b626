//! Replaces a `for` of a known, small number of trips by that many copies of its body.
//!
//! The meaning of `for(n)` is its body `n` times, each time with the counter and the values carried from the
//! previous trip; the unrolled loop writes that out. A stacked result has no value without the loop, so all
//! its uses must be `index` by constants: each becomes the value that the trip yielded, or zero beyond the
//! end. Inner loops are unrolled first. A loop that the user wants unrolled has a high limit; other loops are
//! unrolled only if the copies are few, since the benefit of unrolling is constant counters.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::{Defs, Use, Uses};
use ir::walk::copy_list;
use ir::{Function, Inst, Op, Region, Type, TypeData, Types, Value};
use smallvec::SmallVec;

use crate::util::{ValueMap, make, make_number};
use ir::transform::Subst;

/// The maximum number of instruction copies in an unrolled loop.
const SMALL: u64 = 64;
/// The maximum number of trips of a loop that the user wants unrolled, and of instruction copies.
const FORCED: (u64, u64) = (4096, 100_000);

/// Unrolls loops; `forced_only` restricts this to loops that the user marked. Returns true if anything
/// changed.
pub(crate) fn run(types: &mut Types, func: &mut Function, forced_only: bool) -> bool {
    let defs = Defs::of(func);
    let may = |inst: Inst| {
        let data = &func.insts[inst];
        matches!(data.op, Op::For(info) if info.unroll || !forced_only)
            && defs.scalar(types, func, data.args[0]).is_some()
    };
    if !func.any(func.body(), &may) {
        return false;
    }
    let open = open_stacks(types, func, &defs);
    let mut unroll = Unroll {
        types,
        defs,
        open,
        forced_only,
        subst: Subst::default(),
        stacks: SecondaryMap::new(),
        room: FORCED.1,
        changed: false,
        func,
    };
    let body = unroll.func.body();
    unroll.region(body);
    unroll.changed
}

/// The stacks that have uses other than `index` with a constant.
fn open_stacks(types: &Types, func: &Function, defs: &Defs) -> EntitySet<Value> {
    let uses = Uses::of(func);
    let is_stack = |v: Value| matches!(types[func.ty(v)], TypeData::Stack(_));
    let is_fixed = |at: &Use| match *at {
        Use::Operand(inst, 0) if func.insts[inst].op == Op::Index => {
            defs.scalar(types, func, func.insts[inst].args[1]).is_some()
        }
        Use::Operand(..) | Use::Result(..) => false,
    };
    let mut open = EntitySet::new();
    open.extend(func.values.keys().filter(|&v| is_stack(v) && !uses.of_value(v).iter().all(is_fixed)));
    open
}

struct Unroll<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    open: EntitySet<Value>,
    forced_only: bool,
    subst: Subst,
    /// For each stack of an unrolled loop, the values that the trips yielded.
    stacks: SecondaryMap<Value, Option<Vec<Value>>>,
    /// The number of instructions that may still be added to this function.
    room: u64,
    changed: bool,
}

impl Unroll<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut out = Vec::with_capacity(insts.len());
        for inst in insts {
            self.subst.apply(self.func, inst);
            let nested: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
            for r in nested {
                self.region(r);
            }
            match self.func.insts[inst].op {
                Op::For(_) => match self.trips(inst) {
                    Some(n) => self.unroll(inst, n, &mut out),
                    None => out.push(inst),
                },
                Op::Index => self.index(inst, &mut out),
                _ => out.push(inst),
            }
        }
        self.func.regions[region].insts = out;
        self.subst.apply_results(self.func, region);
    }

    /// The number of trips, if the loop is to be unrolled.
    fn trips(&mut self, inst: Inst) -> Option<u64> {
        let data = &self.func.insts[inst];
        let Op::For(info) = data.op else { return None };
        if self.forced_only && !info.unroll {
            return None;
        }
        let (_, n) = self.defs.scalar(self.types, self.func, data.args[0])?;
        let stacked = &data.results[self.func.insts[inst].n_carried()..];
        if stacked.iter().any(|&s| self.open.contains(s)) {
            return None;
        }
        // A loop with stacks that exceeds its bound is an error, so the loop must stay to report it.
        if !stacked.is_empty() && info.max_iters.is_some_and(|bound| n > bound as u64) {
            return None;
        }
        let small = if self.pays(data.regions[0], stacked.is_empty()) { SMALL } else { SMALL / 4 };
        let limits = if info.unroll { FORCED } else { (small, small) };
        if n > limits.0 {
            return None;
        }
        // Each copy needs a constant for the counter. Where the loop is kept, counting down is free.
        let size = ir::walk::size(self.func, data.regions[0]) as u64;
        let cost = n.checked_mul(size + u64::from(info.unroll | info.down))?;
        let fits = cost <= limits.1 && cost <= self.room || n <= 1;
        self.room = self.room.saturating_sub(if fits { cost } else { 0 });
        fits.then_some(n)
    }

    /// Returns true if unrolling helps: the counter is an operand in the body, or a stack disappears.
    fn pays(&self, body: Region, no_stacks: bool) -> bool {
        let counter = self.func.regions[body].params[0];
        let mut used = !no_stacks;
        self.func.walk(body, &mut |inst| used |= self.func.insts[inst].args.contains(&counter));
        used
    }

    fn unroll(&mut self, inst: Inst, n: u64, out: &mut Vec<Inst>) {
        self.changed = true;
        let data = self.func.insts[inst].clone();
        let body = data.regions[0];
        let params = self.func.regions[body].params.clone();
        let yields = self.func.regions[body].results.clone();
        let n_carried = self.func.insts[inst].n_carried();
        let mut state: Vec<Value> = data.args[1..].to_vec();
        let mut stacked: Vec<Vec<Value>> = vec![Vec::with_capacity(n as usize); yields.len() - n_carried];
        let counter = self.func.ty(params[0]);
        let is_down = matches!(data.op, Op::For(info) if info.down);
        for trip in 0..n {
            let at = if is_down { n - 1 - trip } else { trip };
            let (c, i) = make_number(self.func, Op::Const(at), &[], counter, data.span);
            out.push(c);
            let mut map = ValueMap::default();
            map.insert(params[0], i);
            map.extend(params[1..].iter().copied().zip(state.iter().copied()));
            let first = out.len();
            copy_list(self.func, None, body, &mut map, out);
            for &copy in &out[first..] {
                self.defs.add(self.func, copy);
            }
            let yielded = |v: &Value| map.get(v).copied().unwrap_or(*v);
            state = yields[..n_carried].iter().map(yielded).collect();
            for (list, v) in stacked.iter_mut().zip(&yields[n_carried..]) {
                list.push(yielded(v));
            }
        }
        for (k, &r) in data.results.iter().enumerate() {
            if k < n_carried {
                let name = self.func.values[r].name.clone();
                let slot = &mut self.func.values[state[k]].name;
                if slot.is_none() {
                    *slot = name;
                }
                self.subst.set(r, state[k]);
            } else {
                self.stacks[r] = Some(std::mem::take(&mut stacked[k - n_carried]));
            }
        }
    }

    /// Replaces a read of a stack whose loop was unrolled.
    fn index(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let data = &self.func.insts[inst];
        let Some(list) = &self.stacks[data.args[0]] else { return out.push(inst) };
        let at = self.defs.index(self.types, self.func, data.args[1], list.len() as u32).flatten();
        match at {
            Some(k) => {
                let v = list[k as usize];
                let r = data.results[0];
                self.subst.set(r, v);
            }
            None => {
                let r = self.func.result(inst);
                let missing = self.missing(self.func.ty(r), inst, out);
                self.subst.set(r, missing);
            }
        }
    }

    /// The value of an element beyond the end of a stack: an absent differential, or the number that
    /// represents one.
    fn missing(&mut self, ty: Type, read: Inst, out: &mut Vec<Inst>) -> Value {
        let linear = self.func.is_linear(self.func.result(read));
        let scalar = self.types.scalar_of(ty).filter(|s| s.is_float());
        let (op, args): (Op, Vec<Value>) = match (scalar, &self.types[ty]) {
            (None, _) => (Op::Zero, Vec::new()),
            (Some(_), _) if linear => (Op::Absent, Vec::new()),
            (Some(s), TypeData::Scalar(_)) => (Op::Const(ir::scalar::absent(s)), Vec::new()),
            (Some(_), _) => match self.types.element(ty) {
                Some(element) if !matches!(self.types[ty], TypeData::Stack(_)) => {
                    (Op::Splat, vec![self.missing(element, read, out)])
                }
                _ => (Op::Zero, Vec::new()),
            },
        };
        let (inst, v) = make(self.func, op, &args, ty, linear, self.func.insts[read].span);
        self.defs.add(self.func, inst);
        out.push(inst);
        v
    }
}
