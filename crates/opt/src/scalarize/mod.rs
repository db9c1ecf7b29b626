//! Replaces cells by values (scalar replacement of aggregates). Arrays that cross control flow are put into
//! cells first ([`arrays`]).
//!
//! A cell never leaves its function and no two cells alias, so all accesses to a cell are visible. Two kinds
//! of cells need not be memory:
//!
//! - A cell that is never written after `local`: every load is an `index` of the initial value.
//! - A small cell whose every access selects elements by constants: each leaf (a scalar, or a vector) becomes
//!   a value of its own. One walk in program order tracks the current value of each leaf. A store changes it;
//!   a load reads it. Where an `if` or `switch` writes a leaf, the leaf becomes a further result of all arms;
//!   where a loop does, a further carried value. Structured control has one entry and one exit, so these are
//!   all the places where a phi could be, and every phi that is needed is made; superfluous ones are dead,
//!   and `dce` removes them.
//!
//! An access out of range reads zero and writes nothing, here as everywhere. Values made from a cell are
//! linear if the cell is.

mod arrays;

use cranelift_entity::SecondaryMap;
use ir::analysis::Defs;
use ir::{Function, Inst, Op, Region, Span, Type, TypeData, Types, Value};
use smallvec::SmallVec;

use crate::util::make;
use ir::transform::Subst;

/// The maximum number of scalars in a cell that is replaced.
const MOST: u64 = 64;

/// Replaces cells, and arrays that cross control flow, by values; returns true if any was replaced.
pub(crate) fn run(types: &mut Types, func: &mut Function) -> bool {
    let moved = arrays::run(types, func);
    cells(types, func) | moved
}

/// Replaces cells by values; returns true if any was replaced.
fn cells(types: &mut Types, func: &mut Function) -> bool {
    let defs = Defs::of(func);
    let uses = Uses::of(types, func, &defs);
    if uses.cells.is_empty() {
        return false;
    }
    let mut s = Scalarize {
        types,
        defs,
        plans: SecondaryMap::new(),
        leaves: Vec::new(),
        state: Vec::new(),
        written: SecondaryMap::new(),
        subst: Subst::default(),
        out: Vec::new(),
        span: Span::NONE,
        func,
    };
    let mut any = false;
    for &cell in &uses.cells {
        let content = s.types.content(s.func.ty(cell)).expect("a cell has a content");
        let how = &uses.how[cell];
        if how.aliased || s.types.has_stack(content) {
            continue;
        }
        if !how.written {
            s.plans[cell] = Plan::Frozen;
        } else if how.constant && scalars(s.types, content) <= MOST {
            let first = s.leaves.len() as u32;
            s.add_leaves(content);
            s.plans[cell] = Plan::Leaves(first);
        } else {
            continue;
        }
        any = true;
    }
    if !any {
        return false;
    }
    s.state = vec![None; s.leaves.len()];
    let body = s.func.body();
    s.find_writes(body);
    s.region(body);
    true
}

/// The number of scalars in a value of the type.
fn scalars(types: &Types, ty: Type) -> u64 {
    match types[ty] {
        TypeData::Vector(_, n) => n as u64,
        TypeData::Array(t, n) => scalars(types, t).saturating_mul(n as u64),
        TypeData::Scalar(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => 1,
        TypeData::Stack(_) | TypeData::Cell(_) => u64::MAX,
    }
}

/// How a cell is used.
#[derive(Clone, Default)]
struct How {
    /// Stored or added to.
    written: bool,
    /// Sub-cells are taken, or the cell is an operand of an unknown op.
    aliased: bool,
    /// All indices are constants (except for the lane in a load from a vector).
    constant: bool,
}

struct Uses {
    cells: Vec<Value>,
    how: SecondaryMap<Value, How>,
}

impl Uses {
    fn of(types: &Types, func: &Function, defs: &Defs) -> Uses {
        let mut cells = Vec::new();
        let mut how: SecondaryMap<Value, How> = SecondaryMap::new();
        func.walk(func.body(), &mut |inst| {
            let data = &func.insts[inst];
            match data.op {
                Op::Local => {
                    cells.push(data.results[0]);
                    how[data.results[0]].constant = true;
                }
                Op::Load | Op::Store | Op::AddTo => {
                    let is_load = data.op == Op::Load;
                    let cell = data.args[0];
                    let end = data.args.len() - usize::from(!is_load);
                    how[cell].written |= !is_load;
                    let Some(mut ty) = types.content(func.ty(cell)) else { return };
                    for &idx in &data.args[1..end] {
                        let lane = is_load && types.lanes(ty).is_some();
                        how[cell].constant &= lane || defs.scalar(types, func, idx).is_some();
                        if let Some(element) = types.element(ty) {
                            ty = element;
                        }
                    }
                    for &a in &data.args[1..] {
                        if types.content(func.ty(a)).is_some() {
                            how[a].aliased = true;
                        }
                    }
                }
                _ => {
                    for &a in &data.args {
                        if types.content(func.ty(a)).is_some() {
                            how[a].aliased = true;
                        }
                    }
                }
            }
        });
        Uses { cells, how }
    }
}

#[derive(Clone, Copy, Default)]
enum Plan {
    /// The cell stays in memory.
    #[default]
    Keep,
    /// The cell is never written and is replaced by its initial value.
    Frozen,
    /// The cell is replaced by leaves; this is the number of the first one.
    Leaves(u32),
}

struct Scalarize<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    plans: SecondaryMap<Value, Plan>,
    /// The type of each leaf of the cells that are replaced.
    leaves: Vec<Type>,
    /// The current value of each leaf; `None` before its cell is created.
    state: Vec<Option<Value>>,
    /// For each region, the leaves that are written in it, sorted.
    written: SecondaryMap<Region, Vec<u32>>,
    /// The substitution of values, which also maps frozen cells to their initial values.
    subst: Subst,
    out: Vec<Inst>,
    span: Span,
}

/// The part of a cell that the indices of an access select.
enum Place {
    /// Out of range.
    Nowhere,
    /// The leaves from this number on, with the type of the part.
    Part(u32, Type),
    /// A lane of a leaf.
    Lane(u32, Lane),
}

/// The effect of a write on the old value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Set,
    Add,
}

/// A lane of a vector.
#[derive(Clone, Copy)]
enum Lane {
    Constant(u32),
    Dynamic(Value),
}

impl Scalarize<'_> {
    fn add_leaves(&mut self, ty: Type) {
        match self.types[ty] {
            TypeData::Array(element, n) => {
                for _ in 0..n {
                    self.add_leaves(element);
                }
            }
            _ => self.leaves.push(ty),
        }
    }

    /// The number of leaves of a type.
    fn count(&self, ty: Type) -> u32 {
        match self.types[ty] {
            TypeData::Array(element, n) => n * self.count(element),
            _ => 1,
        }
    }

    fn find_writes(&mut self, region: Region) {
        let mut written = Vec::new();
        for inst in self.func.regions[region].insts.clone() {
            let data = &self.func.insts[inst];
            if let Op::Store | Op::AddTo = data.op
                && let Plan::Leaves(first) = self.plans[data.args[0]]
            {
                let end = data.args.len() - 1;
                match self.place(inst, first, end) {
                    Place::Nowhere => {}
                    Place::Part(first, ty) => written.extend(first..first + self.count(ty)),
                    Place::Lane(leaf, _) => written.push(leaf),
                }
            }
            for nested in self.func.insts[inst].regions.clone() {
                self.find_writes(nested);
                written.extend(&self.written[nested]);
            }
        }
        written.sort_unstable();
        written.dedup();
        self.written[region] = written;
    }

    /// The part that the indices `args[1..end]` of an access select.
    fn place(&self, inst: Inst, first: u32, end: usize) -> Place {
        let data = &self.func.insts[inst];
        let mut ty = self.types.content(self.func.ty(data.args[0])).expect("a cell has a content");
        let mut leaf = first;
        for &idx in &data.args[1..end] {
            let len = self.types.length(ty).expect("an index is of a vector or array");
            let at = self.defs.index(self.types, self.func, idx, len);
            let element = self.types.element(ty).expect("an index is of a vector or array");
            if self.types.lanes(ty).is_some() {
                return match at {
                    Some(Some(k)) => Place::Lane(leaf, Lane::Constant(k)),
                    Some(None) => Place::Nowhere,
                    None => Place::Lane(leaf, Lane::Dynamic(idx)),
                };
            }
            let Some(Some(k)) = at else { return Place::Nowhere };
            leaf += k * self.count(element);
            ty = element;
        }
        Place::Part(leaf, ty)
    }

    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let saved = std::mem::replace(&mut self.out, Vec::with_capacity(insts.len()));
        for inst in insts {
            self.subst.apply(self.func, inst);
            self.span = self.func.insts[inst].span;
            if !self.inst(inst) {
                self.out.push(inst);
            }
        }
        let list = std::mem::replace(&mut self.out, saved);
        self.func.regions[region].insts = list;
        self.subst.apply_results(self.func, region);
    }

    /// Processes an instruction; returns true if it is removed.
    fn inst(&mut self, inst: Inst) -> bool {
        let data = &self.func.insts[inst];
        match data.op {
            Op::Local => {
                let (cell, init) = (data.results[0], data.args[0]);
                match self.plans[cell] {
                    Plan::Keep => false,
                    // Accesses find the initial value in place of the cell.
                    Plan::Frozen => {
                        self.subst.set(cell, init);
                        true
                    }
                    Plan::Leaves(first) => {
                        let ty = self.func.ty(init);
                        self.write(first, ty, init, Write::Set);
                        true
                    }
                }
            }
            Op::Load => {
                let cell = data.args[0];
                let r = data.results[0];
                if self.types.content(self.func.ty(cell)).is_none() {
                    // The cell is frozen and already replaced by its initial value.
                    let args = data.args.clone();
                    let mut v = args[0];
                    for &idx in &args[1..] {
                        let Some(element) = self.types.element(self.func.ty(v)) else { break };
                        v = self.emit(Op::Index, &[v, idx], element, self.func.is_linear(v));
                    }
                    self.subst.set(r, v);
                    return true;
                }
                let Plan::Leaves(first) = self.plans[cell] else { return false };
                let (ty, linear) = (self.func.ty(r), self.func.is_linear(r));
                let v = match self.place(inst, first, self.func.insts[inst].args.len()) {
                    Place::Nowhere => self.emit(Op::Zero, &[], ty, linear),
                    Place::Part(leaf, ty) => self.read(leaf, ty, linear),
                    Place::Lane(leaf, lane) => {
                        let v = self.leaf(leaf);
                        match lane {
                            Lane::Constant(k) => self.emit(Op::Extract(k), &[v], ty, linear),
                            Lane::Dynamic(i) => self.emit(Op::Index, &[v, i], ty, linear),
                        }
                    }
                };
                self.subst.set(r, v);
                true
            }
            Op::Store | Op::AddTo => {
                let how = if data.op == Op::AddTo { Write::Add } else { Write::Set };
                let Plan::Leaves(first) = self.plans[data.args[0]] else { return false };
                let (&x, _) = data.args.split_last().expect("a store has a value");
                let end = data.args.len() - 1;
                match self.place(inst, first, end) {
                    Place::Nowhere => {}
                    Place::Part(leaf, ty) => self.write(leaf, ty, x, how),
                    Place::Lane(leaf, Lane::Constant(k)) => {
                        let old = self.leaf(leaf);
                        let (ty, linear) = (self.func.ty(x), self.func.is_linear(x));
                        let x = if how == Write::Add {
                            let lane = self.emit(Op::Extract(k), &[old], ty, linear);
                            self.emit(Op::Add, &[lane, x], ty, linear)
                        } else {
                            x
                        };
                        let ty = self.func.ty(old);
                        let new = self.emit(Op::Insert(k), &[old, x], ty, linear);
                        self.state[leaf as usize] = Some(new);
                    }
                    Place::Lane(_, Lane::Dynamic(_)) => unreachable_store(),
                }
                true
            }
            Op::If | Op::Switch(_) => {
                self.arms(inst);
                false
            }
            Op::For(_) | Op::Loop(_) => {
                self.r#loop(inst);
                false
            }
            _ => false,
        }
    }

    fn emit(&mut self, op: Op, args: &[Value], ty: Type, linear: bool) -> Value {
        let (inst, v) = make(self.func, op, args, ty, linear, self.span);
        self.defs.add(self.func, inst);
        self.out.push(inst);
        v
    }

    fn leaf(&self, leaf: u32) -> Value {
        self.state[leaf as usize].expect("a cell is used where it is visible")
    }

    /// Reads the value of a part of a cell.
    fn read(&mut self, leaf: u32, ty: Type, linear: bool) -> Value {
        let TypeData::Array(element, n) = self.types[ty] else { return self.leaf(leaf) };
        let step = self.count(element);
        let parts: SmallVec<[Value; 16]> =
            (0..n).map(|k| self.read(leaf + k * step, element, linear)).collect();
        self.emit(Op::Construct, &parts, ty, linear)
    }

    /// Stores `x` to a part of a cell, or adds it to that part.
    fn write(&mut self, leaf: u32, ty: Type, x: Value, how: Write) {
        let linear = self.func.is_linear(x);
        let TypeData::Array(element, n) = self.types[ty] else {
            let new = match (how, self.state[leaf as usize]) {
                (Write::Add, Some(old)) => self.emit(Op::Add, &[old, x], ty, linear),
                _ => x,
            };
            self.state[leaf as usize] = Some(new);
            return;
        };
        let step = self.count(element);
        let default = self.defs.op(self.func, x).filter(|op| matches!(op, Op::Zero | Op::Absent)).cloned();
        let zero = default.map(|op| self.emit(op, &[], element, linear));
        for k in 0..n {
            let part = match zero {
                Some(zero) => zero,
                None => self.emit(Op::Extract(k), &[x], element, linear),
            };
            self.write(leaf + k * step, element, part, how);
        }
    }

    /// The leaves that the regions write and that exist before the instruction.
    fn crossing(&self, regions: &[Region]) -> Vec<u32> {
        let mut leaves: Vec<u32> = regions
            .iter()
            .flat_map(|&r| self.written[r].iter().copied())
            .filter(|&leaf| self.state[leaf as usize].is_some())
            .collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves
    }

    fn arms(&mut self, inst: Inst) {
        let regions: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
        let leaves = self.crossing(&regions);
        let before: Vec<Option<Value>> = leaves.iter().map(|&l| self.state[l as usize]).collect();
        for region in regions {
            for (&l, &v) in leaves.iter().zip(&before) {
                self.state[l as usize] = v;
            }
            self.region(region);
            for &l in &leaves {
                let v = self.leaf(l);
                self.func.regions[region].results.push(v);
            }
        }
        for &l in &leaves {
            let v = self.leaf(l);
            let r = self.func.value_like(v);
            self.func.insts[inst].results.push(r);
            self.state[l as usize] = Some(r);
        }
        let (func, defs) = (&*self.func, &mut self.defs);
        defs.add(func, inst);
    }

    fn r#loop(&mut self, inst: Inst) {
        let body = self.func.insts[inst].regions[0];
        let leaves = self.crossing(&[body]);
        let (_, params, yields) = self.func.insts[inst].op.carried_at();
        let n_carried = self.func.insts[inst].n_carried();
        for (k, &l) in leaves.iter().enumerate() {
            let v = self.leaf(l);
            let p = self.func.value_like(v);
            self.func.insts[inst].args.push(v);
            self.func.regions[body].params.insert(params + n_carried + k, p);
            self.state[l as usize] = Some(p);
        }
        self.region(body);
        for (k, &l) in leaves.iter().enumerate() {
            let v = self.leaf(l);
            self.func.regions[body].results.insert(yields + n_carried + k, v);
            let r = self.func.value_like(v);
            self.func.insts[inst].results.insert(n_carried + k, r);
            self.state[l as usize] = Some(r);
        }
    }
}

/// A cell with a store to a lane that is not constant stays in memory, so this is unreachable.
fn unreachable_store() {
    debug_assert!(false, "such cells are not planned");
}
