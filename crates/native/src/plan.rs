//! Computes facts about a module before code is emitted: which functions are needed, which of them may be
//! recursive, their side effects, and the size of the largest values.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{AtomicOp, Func, MemData, MemType, MemTypes, Module, Op, Scalar, Space, TypeData};
use rustc_hash::FxHashSet;

use crate::types::size;

/// The globals that an entry point only adds floats to, so that each worker may accumulate into zeroed memory
/// of its own first.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// The globals.
    pub globals: Vec<Summed>,
    /// True if no other floats are the target of atomic additions.
    pub all: bool,
    /// True if nothing else depends on the order of threads.
    pub only: bool,
}

/// A global whose elements are floats, vectors of them, or arrays and structs that contain nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Summed {
    /// The number of the global.
    pub global: usize,
    /// The width of its floats in bits.
    pub bits: u32,
    /// The number of floats in an element.
    pub floats: u64,
}

/// Facts about one function and all functions that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The function may call itself, directly or through other functions.
    pub recursive: bool,
    /// The function reaches a barrier.
    pub barrier: bool,
    /// The function reaches a wave operation.
    pub wave: bool,
    /// The function uses memory of the group.
    pub shared: bool,
    /// The function uses memory of the thread.
    pub private: bool,
    /// The results depend on the order of threads: the function adds floats or exchanges values atomically,
    /// or uses the old value that an atomic operation returns.
    pub ordered: bool,
    /// Operations on floats may be reordered.
    pub fast_math: bool,
}

impl ir::analysis::flow::Lattice for Facts {
    fn join(&mut self, callee: &Facts) -> bool {
        let before = *self;
        self.barrier |= callee.barrier;
        self.wave |= callee.wave;
        self.shared |= callee.shared;
        self.private |= callee.private;
        self.ordered |= callee.ordered;
        self.fast_math |= callee.fast_math;
        *self != before
    }
}

impl Facts {
    /// Returns true if threads of a group wait for each other.
    pub fn waits(&self) -> bool {
        self.barrier || self.wave
    }
}

/// The plan of a module.
#[derive(Debug, Default)]
pub struct Plan {
    /// The functions in an order where callees precede their callers, except in recursion.
    pub order: Vec<Func>,
    /// The facts about each function in `order`.
    pub facts: SecondaryMap<Func, Facts>,
    /// The size of the largest value in bytes.
    pub largest: u64,
    /// The size of the largest element of a stack in bytes.
    pub largest_stacked: u64,
    /// True if any function reaches a wave operation.
    pub has_waves: bool,
    /// The element types of buffers whose last element may be present only in part.
    pub partial: FxHashSet<MemType>,
    /// Pointers are made of numbers, or stored as such; otherwise numbers only tell pointers apart.
    pub numbers: bool,
    /// The number of elements that the code takes read-only memory to have: see [`room`].
    pub room: SecondaryMap<ir::Global, u64>,
    callees: SecondaryMap<Func, Vec<Func>>,
}

impl Plan {
    /// The plan for `roots` and all functions that they reach.
    pub fn new(module: &Module, roots: impl Iterator<Item = Func>) -> Plan {
        let partial = ir::analysis::room::partial_elements(module);
        let numbers = ir::analysis::room::numbered_handle(module).is_some();
        let mut plan = Plan { largest: 64, partial, numbers, ..Plan::default() };
        let mut callees: SecondaryMap<Func, Vec<Func>> = SecondaryMap::new();
        let inits: Vec<Func> = module.globals.values().filter_map(|g| g.init).collect();
        // A depth-first search with an explicit stack: the order is the postorder.
        let mut seen: EntitySet<Func> = EntitySet::new();
        for root in roots.chain(inits) {
            if !seen.insert(root) {
                continue;
            }
            plan.scan(module, root, &mut callees[root]);
            let mut path = vec![(root, 0usize)];
            while let Some((func, next)) = path.last_mut() {
                match callees[*func].get(*next).copied() {
                    Some(callee) => {
                        *next += 1;
                        if seen.insert(callee) {
                            let mut list = Vec::new();
                            plan.scan(module, callee, &mut list);
                            callees[callee] = list;
                            path.push((callee, 0));
                        }
                    }
                    None => {
                        plan.order.push(*func);
                        path.pop();
                    }
                }
            }
        }
        let mut cycles = ir::Cycles::default();
        for &func in &plan.order {
            plan.facts[func].recursive = cycles.is_recursive(module, func);
        }
        ir::analysis::flow::join_callees(&plan.order, &callees, &mut plan.facts);
        plan.has_waves = plan.order.iter().any(|&f| plan.facts[f].wave);
        for entry in &module.entries {
            room(module, &plan.partial, entry, &mut plan.room);
        }
        plan.callees = callees;
        plan
    }

    /// The globals that `entry` and its callees only add floats to, without reading the results.
    pub fn sums(&self, module: &Module, entry: Func) -> Sums {
        let (mut added, mut others) = (SecondaryMap::<ir::Global, bool>::new(), SecondaryMap::new());
        let (mut all, mut only) = (true, true);
        for func in ir::walk::reachable(module, &[entry]) {
            if self.callees[func].iter().any(|&callee| !module.funcs[callee].has_body()) {
                return Sums::default();
            }
            let f = &module.funcs[func];
            let uses = ir::walk::use_counts(f);
            let mut refs: SecondaryMap<ir::Value, Option<ir::Global>> = SecondaryMap::new();
            f.walk(f.body(), &mut |inst| {
                if let Op::GlobalRef(global) = f.insts[inst].op {
                    refs[f.insts[inst].results[0]] = Some(global);
                }
            });
            let yields = f.regions.values().flat_map(|region| &region.results);
            yields.filter_map(|&v| refs[v]).for_each(|global| others[global] = true);
            f.walk(f.body(), &mut |inst| {
                let data = &f.insts[inst];
                let is_float = |v: ir::Value| module.types.scalar_of(f.ty(v)).is_some_and(|s| s.is_float());
                let adds = matches!(&data.op, Op::Atomic(_, AtomicOp::Add)) && is_float(data.results[0]);
                let mut is_sum = false;
                for (k, global) in data.args.iter().enumerate().filter_map(|(k, &v)| Some((k, refs[v]?))) {
                    let sum = adds && k == 0 && uses[data.results[0]] == 0;
                    if sum {
                        is_sum = true;
                        added[global] = true;
                    } else if data.op != Op::BufferLen {
                        others[global] = true;
                    }
                }
                all &= !adds || is_sum;
                if let Op::Atomic(_, op) = &data.op {
                    let asks = matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange);
                    only &= is_sum || !asks && data.results.iter().all(|&v| uses[v] == 0);
                }
            });
        }
        let mut globals = Vec::new();
        for (global, data) in module.globals.iter().filter(|(global, _)| added[*global]) {
            match floats(&module.mem, data.ty) {
                Some((bits, floats)) if data.space == Space::ReadWrite && !others[global] => {
                    globals.push(Summed { global: global.as_u32() as usize, bits, floats });
                }
                _ => all = false,
            }
        }
        Sums { globals, all, only: all && only }
    }

    /// Returns true if threads may wait for other threads of their wave in the function, so that the code has
    /// to keep track of the path there.
    pub fn converges(&self, func: Func) -> bool {
        let facts = &self.facts[func];
        facts.wave || facts.barrier && self.has_waves
    }

    /// The number of bytes of stack that code needs between two checks of the stack: from the start of a
    /// function that has checked it, or that Rust calls, to the next check or to the deepest frame. A
    /// function checks the stack after it has allocated its frame.
    pub fn stack_need(&self, frames: &SecondaryMap<Func, u32>) -> u64 {
        let largest = self.order.iter().map(|&f| frames[f] as u64).max().unwrap_or(0);
        let mut needs: SecondaryMap<Func, u64> = SecondaryMap::new();
        let mut need = 0;
        for &func in &self.order {
            // A callee without a known need is on a cycle, and so checks the stack.
            let inner = self.callees[func].iter().map(|&c| needs[c].max(largest)).max().unwrap_or(0);
            needs[func] = frames[func] as u64 + 64 + inner;
            need = need.max(needs[func]);
        }
        need + largest
    }

    /// The number of bytes of stack that recursive calls need when they are nested as deep as is allowed.
    pub fn recursion_need(&self, frame: impl Fn(Func) -> u64) -> u64 {
        let recursive = self.order.iter().filter(|&&f| self.facts[f].recursive);
        recursive.map(|&f| (frame(f) + 128).saturating_mul(ir::interp::MAX_DEPTH as u64)).max().unwrap_or(0)
    }

    /// Collects the facts about a function's own body, and its callees.
    fn scan(&mut self, module: &Module, func: Func, callees: &mut Vec<Func>) {
        let f = &module.funcs[func];
        let facts = &mut self.facts[func];
        if !f.has_body() {
            return;
        }
        facts.fast_math |= f.fast_math;
        let uses = ir::walk::use_counts(f);
        let is_ordered = |inst: ir::Inst, op: AtomicOp| {
            let mut results = f.insts[inst].results.iter();
            let is_float = |v: ir::Value| module.types.scalar_of(f.ty(v)).is_some_and(|s| s.is_float());
            matches!(op, AtomicOp::Exchange | AtomicOp::CompareExchange)
                || results.any(|&v| uses[v] > 0 || op == AtomicOp::Add && is_float(v))
        };
        f.walk(f.body(), &mut |inst| match &f.insts[inst].op {
            Op::Atomic(_, op) => facts.ordered |= is_ordered(inst, *op),
            Op::Call(callee) => callees.push(*callee),
            Op::Barrier => facts.barrier = true,
            Op::WaveGather | Op::WaveMultiply(_) => facts.wave = true,
            Op::GlobalRef(global) => match module.globals[*global].space {
                Space::GroupShared => facts.shared = true,
                Space::Private => facts.private = true,
                Space::ReadWrite | Space::ReadOnly | Space::Uniform | Space::Arena => {}
            },
            _ => {}
        });
        for value in f.values.values() {
            let bytes = match module.types[value.ty] {
                TypeData::Stack(elem) => size(&module.types, elem),
                TypeData::Buffer(elem) => module.mem.size(elem),
                _ => size(&module.types, value.ty),
            };
            self.largest = self.largest.max(bytes);
            let mut content = module.types.content(value.ty).unwrap_or(value.ty);
            while let TypeData::Stack(elem) = module.types[content] {
                self.largest_stacked = self.largest_stacked.max(size(&module.types, elem));
                content = elem;
            }
        }
    }
}

/// The maximum size in bytes of memory that the code may take to be there.
const MOST_ROOM: u64 = 64 << 10;

/// Finds the elements of read-only memory that every thread of an entry point reads, whatever its data: those at
/// indices with a bound, in code that always runs. Code does not check such indices, since whoever runs it hands
/// on memory with that many elements: where the host's has fewer, a copy that is continued with zeros, which is what a
/// read out of range gives.
fn room(
    module: &Module,
    partial: &FxHashSet<MemType>,
    entry: &ir::Entry,
    room: &mut SecondaryMap<ir::Global, u64>,
) {
    let f = &module.funcs[entry.func];
    if !f.has_body() {
        return;
    }
    let analyses = ir::Analyses::of(&module.types, f);
    let mut regions = vec![f.body()];
    while let Some(region) = regions.pop() {
        for &inst in &f.regions[region].insts {
            let data = &f.insts[inst];
            match &data.op {
                Op::BufferLoad(_) => {
                    let Some(Op::GlobalRef(global)) = analyses.op(data.args[0]) else { continue };
                    let ty = module.globals[*global].ty;
                    let is_constant =
                        matches!(module.globals[*global].space, Space::ReadOnly | Space::Uniform);
                    let needed = analyses.bounds().upper(data.args[1]).map(|last| last.saturating_add(1));
                    let needed = needed.filter(|n| n.saturating_mul(module.mem.size(ty)) <= MOST_ROOM);
                    if let (Some(needed), true, false) = (needed, is_constant, partial.contains(&ty)) {
                        room[*global] = room[*global].max(needed);
                    }
                }
                Op::For(_) => {
                    let body = data.regions[0];
                    if analyses.constant_trips(f.regions[body].params[0]).is_some_and(|trips| trips > 0) {
                        regions.push(body);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The width and the number of the floats in a type, if it consists of nothing but floats of one width.
fn floats(mem: &MemTypes, ty: MemType) -> Option<(u32, u64)> {
    let of = |s: Scalar, n: u32| (s.is_float() && s.bits() >= 32).then_some((s.bits(), u64::from(n)));
    let (bits, n) = match &mem[ty] {
        MemData::Scalar(s) => of(*s, 1),
        MemData::Vector(s, n) => of(*s, *n),
        MemData::Matrix(s, vectors, each, _) => of(*s, vectors * each),
        MemData::Array(element, n) => {
            floats(mem, *element).map(|(bits, each)| (bits, each.saturating_mul(u64::from(*n))))
        }
        MemData::Struct { fields, .. } => {
            let mut sum = None;
            for (_, field) in fields {
                let (bits, n) = floats(mem, *field)?;
                match &mut sum {
                    None => sum = Some((bits, n)),
                    Some((all, sum)) if *all == bits => *sum += n,
                    Some(_) => return None,
                }
            }
            sum
        }
        MemData::Handle(_) => None,
    }?;
    (mem.size(ty) == n * u64::from(bits / 8)).then_some((bits, n))
}
