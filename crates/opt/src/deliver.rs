//! Turns sums that are only added to a buffer into direct additions to the buffer.
//!
//! `a = local 0; for … { add_to a, i, x }; for n (k) { atomic.add buf, k + c, (load a)[k] }` ↦
//! `for … { atomic.add buf, i + c, x }`
//!
//! The cotangents of weights that a thread keeps in an array have this shape: each is computed once, stored
//! in an element of its own, and loaded from there to be added, and the elements of all lanes together exceed
//! a processor's first-level cache.
//!
//! The rewrite is right where at most one number is added to each element, so that this number is added to
//! the buffer: the index is affine in the counters of all loops between the array and the addition, no two
//! trips give the same index, and no index is out of range. An element to which nothing is added would
//! contribute zero. Nothing else may access the buffer in between, except for other atomic additions, whose
//! order is unspecified.

use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;

use ir::{AtomicOp, Function, Global, Inst, Op, Path, Region, Scalar, Span, Type, TypeData, Types, Value};

use crate::util::{Defs, make};

/// Limits on the number of counters in an index and on the number of arrays in a function, since the code in
/// between is scanned for each array.
const MOST_TERMS: usize = 8;
const MOST_ARRAYS: usize = 64;

/// Rewrites all such sums; returns true if there were any. Only valid after AD.
pub fn run(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut survey = Survey {
        types,
        func,
        defs: Defs::of(func),
        order: 0,
        cells: FxHashMap::default(),
        names: Vec::new(),
        uses: SecondaryMap::new(),
        user: SecondaryMap::new(),
        place: SecondaryMap::new(),
        owner: SecondaryMap::new(),
        counters: FxHashMap::default(),
    };
    survey.region(func.body());
    let found: Vec<Delivery> =
        survey.names.iter().take(MOST_ARRAYS).filter_map(|&cell| survey.delivery(cell)).collect();
    for delivery in &found {
        apply(func, delivery);
    }
    !found.is_empty()
}

/// The position of an instruction.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    region: Option<Region>,
    /// The instruction's number in the region, and in the order of the text.
    number: usize,
    order: u32,
}

/// The uses of a cell that holds an array of zeros.
#[derive(Default)]
struct Cell {
    added: Vec<Inst>,
    loads: Vec<Inst>,
    /// The cell has other uses.
    other: bool,
}

/// An array whose elements a loop adds to a buffer.
struct Delivery {
    /// The addition to the array, its region, the index and the value added.
    site: Inst,
    region: Region,
    index: Value,
    value: Value,
    /// The addition to the buffer, and the region of that addition.
    atomic: Inst,
    body: Region,
    global: Global,
    handle: Type,
    result: Type,
    span: Span,
    offset: Offset,
}

/// The offset that is added to the index.
#[derive(Clone, Copy)]
enum Offset {
    None,
    Const(u64),
    Value(Value),
}

struct Survey<'a> {
    types: &'a Types,
    func: &'a Function,
    defs: Defs,
    order: u32,
    cells: FxHashMap<Value, Cell>,
    /// The cells in program order.
    names: Vec<Value>,
    /// The number of uses of each value, and the last instruction that uses it.
    uses: SecondaryMap<Value, u32>,
    user: SecondaryMap<Value, Option<Inst>>,
    place: SecondaryMap<Inst, At>,
    /// The instruction that holds each region.
    owner: SecondaryMap<Region, Option<Inst>>,
    /// The number of trips of each `for` where it is constant, by the loop's counter.
    counters: FxHashMap<Value, u64>,
}

impl Survey<'_> {
    fn region(&mut self, region: Region) {
        let func = self.func;
        for (number, &inst) in func.regions[region].insts.iter().enumerate() {
            self.order += 1;
            self.place[inst] = At { region: Some(region), number, order: self.order };
            let data = &func.insts[inst];
            for (k, &arg) in data.args.iter().enumerate() {
                self.uses[arg] += 1;
                self.user[arg] = Some(inst);
                let Some(cell) = self.cells.get_mut(&arg) else { continue };
                match data.op {
                    Op::AddTo if k == 0 && data.args.len() == 3 => cell.added.push(inst),
                    Op::Load if data.args.len() == 1 => cell.loads.push(inst),
                    _ => cell.other = true,
                }
            }
            if let (Op::Local, &[init]) = (&data.op, &data.args[..])
                && matches!(self.defs.op(func, init), Some(Op::Zero | Op::Absent))
                && let TypeData::Array(element, _) = self.types[func.ty(init)]
                && matches!(self.types[element], TypeData::Scalar(Scalar::F32 | Scalar::F64))
            {
                self.cells.insert(data.results[0], Cell::default());
                self.names.push(data.results[0]);
            }
            if let Op::For(_) = data.op
                && let Some((_, trips)) = self.defs.scalar(self.types, func, data.args[0])
            {
                self.counters.insert(func.regions[data.regions[0]].params[0], trips);
            }
            for &inner in &data.regions {
                self.owner[inner] = Some(inst);
                self.region(inner);
            }
        }
        for &v in &func.regions[region].results {
            self.uses[v] += 2;
            if let Some(cell) = self.cells.get_mut(&v) {
                cell.other = true;
            }
        }
    }

    /// The instruction that uses a value, if there is only one.
    fn only_user(&self, v: Value) -> Option<Inst> {
        self.user[v].filter(|_| self.uses[v] == 1)
    }

    fn delivery(&self, name: Value) -> Option<Delivery> {
        let func = self.func;
        let cell = &self.cells[&name];
        let (&[site], &[load], false) = (&cell.added[..], &cell.loads[..], cell.other) else { return None };
        let made = self.place[self.defs.inst(name)?];
        let (home, whole) = (made.region?, func.insts[load].results[0]);
        // The loop that adds to the buffer: each trip reads one element.
        let read = self.only_user(whole)?;
        let &[_, counter] = &func.insts[read].args[..] else { return None };
        let atomic = self.only_user(*func.insts[read].results.first()?)?;
        let (Op::Index, Op::Atomic(path, AtomicOp::Add)) = (&func.insts[read].op, &func.insts[atomic].op)
        else {
            return None;
        };
        let body = self.place[atomic].region?;
        let delivers = self.owner[body]?;
        let data = &func.insts[atomic];
        let &[handle, place, _] = &data.args[..] else { return None };
        let result = data.results[0];
        let is_loop = matches!(func.insts[delivers].op, Op::For(_))
            && func.regions[body].params[0] == counter
            && self.place[delivers].region == Some(home)
            && self.place[load].region == Some(home);
        if !is_loop || !path.0.is_empty() || self.uses[result] != 0 {
            return None;
        }
        let global = self.global(handle)?;
        let offset = self.offset(place, counter, made.order)?;
        let trips = *self.counters.get(&counter)?;
        // The addition to the array.
        let (index, value) = (func.insts[site].args[1], func.insts[site].args[2]);
        let TypeData::Array(_, len) = self.types[func.ty(whole)] else { return None };
        if func.ty(index) != func.ty(counter) || func.ty(value) != func.ty(result) {
            return None;
        }
        let outermost = self.is_once(site, home, index, trips.min(u64::from(len)))?;
        let (first, last) = (self.place[outermost].number, self.place[delivers].number);
        if self.place[load].number < first || last < first {
            return None;
        }
        let between = &func.regions[home].insts[first..=last];
        if !between.iter().all(|&inst| self.may_pass(inst, global)) {
            return None;
        }
        Some(Delivery {
            site,
            region: self.place[site].region?,
            index,
            value,
            atomic,
            body,
            global,
            handle: func.ty(handle),
            result: func.ty(result),
            span: data.span,
            offset,
        })
    }

    fn global(&self, handle: Value) -> Option<Global> {
        match self.defs.op(self.func, handle)? {
            Op::GlobalRef(global) => Some(*global),
            _ => None,
        }
    }

    /// The offset of a place from the counter, if the offset was defined before the cell.
    fn offset(&self, place: Value, counter: Value, before: u32) -> Option<Offset> {
        if place == counter {
            return Some(Offset::None);
        }
        let sum = &self.func.insts[self.defs.inst(place)?];
        let rest = match (&sum.op, &sum.args[..]) {
            (Op::Add, &[a, b]) if a == counter && b != counter => b,
            (Op::Add, &[a, b]) if b == counter && a != counter => a,
            _ => return None,
        };
        if let Some((_, bits)) = self.defs.scalar(self.types, self.func, rest) {
            return Some(Offset::Const(bits));
        }
        let order = self.place[self.defs.inst(rest)?].order;
        (order < before).then_some(Offset::Value(rest))
    }

    /// Checks that an addition is made at most once to each element below `len`, and to no other element.
    /// Returns the instruction of the home region that contains the addition.
    fn is_once(&self, site: Inst, home: Region, index: Value, len: u64) -> Option<Inst> {
        let mut affine = self.affine(index, 8)?;
        // The counter of every loop around the addition must occur in the index.
        let mut inst = site;
        loop {
            let region = self.place[inst].region?;
            if region == home {
                break;
            }
            inst = self.owner[region]?;
            match self.func.insts[inst].op {
                Op::For(_) => {
                    let counter = self.func.regions[region].params[0];
                    let trips = *self.counters.get(&counter)?;
                    if trips > 1 && !affine.terms.iter().any(|t| t.0 == counter) {
                        return None;
                    }
                }
                Op::If | Op::Switch(_) => {}
                _ => return None,
            }
        }
        let (least, most) = affine.bounds;
        if least < 0 || most >= i64::try_from(len).ok()? {
            return None;
        }
        // Each coefficient must exceed the range of all smaller terms together.
        affine.terms.sort_by_key(|t| t.1.unsigned_abs());
        let mut reach = 0;
        for &(_, by, trips) in &affine.terms {
            let by = by.unsigned_abs();
            if by <= reach {
                return None;
            }
            reach += by * (trips - 1);
        }
        Some(inst)
    }

    /// A value as a sum of multiples of counters, if it and all its parts fit their types.
    fn affine(&self, v: Value, depth: u32) -> Option<Affine> {
        let TypeData::Scalar(s) = self.types[self.func.ty(v)] else { return None };
        if !s.is_int() || depth == 0 {
            return None;
        }
        let found = self.affine_of(v, s, depth)?;
        let range = match s {
            Scalar::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            Scalar::U32 => (0, i64::from(u32::MAX)),
            _ => return None,
        };
        (range.0 <= found.bounds.0 && found.bounds.1 <= range.1).then_some(found)
    }

    fn affine_of(&self, v: Value, s: Scalar, depth: u32) -> Option<Affine> {
        if let Some(&trips) = self.counters.get(&v) {
            let last = i64::try_from(trips.max(1) - 1).ok()?;
            return Some(Affine { terms: vec![(v, 1, trips.max(1))], bounds: (0, last) });
        }
        if let Some((_, bits)) = self.defs.scalar(self.types, self.func, v) {
            let n = if s == Scalar::I32 { i64::from(bits as u32 as i32) } else { i64::from(bits as u32) };
            return Some(Affine { terms: Vec::new(), bounds: (n, n) });
        }
        let inst = &self.func.insts[self.defs.inst(v)?];
        let part = |k: usize| self.affine(inst.args[k], depth - 1);
        match inst.op {
            Op::Add => part(0)?.plus(part(1)?, 1),
            Op::Sub => part(0)?.plus(part(1)?, -1),
            Op::Mul => {
                let (a, b) = (part(0)?, part(1)?);
                let (a, by) = if b.terms.is_empty() { (a, b) } else { (b, a) };
                if !by.terms.is_empty() {
                    return None;
                }
                Affine::default().plus(a, by.bounds.0)
            }
            Op::Convert => part(0),
            _ => None,
        }
    }

    /// Returns true if additions to a buffer may be made before an instruction rather than after it.
    fn may_pass(&self, inst: Inst, global: Global) -> bool {
        let data = &self.func.insts[inst];
        let elsewhere = || self.global(data.args[0]).is_some_and(|other| other != global);
        let here = match &data.op {
            Op::BufferLoad(_) | Op::BufferStore(_) => elsewhere(),
            Op::Atomic(_, AtomicOp::Add) => elsewhere() || self.uses[data.results[0]] == 0,
            Op::Atomic(..) => elsewhere(),
            Op::Barrier | Op::WaveGather => false,
            op => op.callee().is_none(),
        };
        let inner = data.regions.iter().flat_map(|&region| &self.func.regions[region].insts);
        here && inner.copied().all(|inst| self.may_pass(inst, global))
    }
}

/// The sum of a constant and of multiples of counters (each with its number of trips, at least one), with its
/// bounds.
#[derive(Default)]
struct Affine {
    terms: Vec<(Value, i64, u64)>,
    bounds: (i64, i64),
}

impl Affine {
    /// `self + by * other`.
    fn plus(mut self, other: Affine, by: i64) -> Option<Affine> {
        for (counter, n, trips) in other.terms {
            let n = n.checked_mul(by)?;
            match self.terms.iter_mut().find(|t| t.0 == counter) {
                Some(term) => term.1 = term.1.checked_add(n)?,
                None => self.terms.push((counter, n, trips)),
            }
        }
        self.terms.retain(|t| t.1 != 0);
        let (a, b) = (other.bounds.0.checked_mul(by)?, other.bounds.1.checked_mul(by)?);
        self.bounds = (self.bounds.0.checked_add(a.min(b))?, self.bounds.1.checked_add(a.max(b))?);
        (self.terms.len() <= MOST_TERMS).then_some(self)
    }
}

fn apply(func: &mut Function, delivery: &Delivery) {
    let Delivery { site, region, index, value, atomic, body, global, handle, result, span, offset } =
        *delivery;
    let ty = func.ty(index);
    let mut new: Vec<Inst> = Vec::new();
    let offset = match offset {
        Offset::None => None,
        Offset::Value(v) => Some(v),
        Offset::Const(bits) => {
            let (inst, v) = make(func, Op::Const(bits), &[], ty, false, span);
            new.push(inst);
            Some(v)
        }
    };
    let place = offset.map_or(index, |offset| {
        let (inst, place) = make(func, Op::Add, &[index, offset], ty, false, span);
        new.push(inst);
        place
    });
    let (inst, buffer) = make(func, Op::GlobalRef(global), &[], handle, false, span);
    new.push(inst);
    let op = Op::Atomic(Path::default(), AtomicOp::Add);
    let (inst, _) = make(func, op, &[buffer, place, value], result, false, span);
    new.push(inst);
    let list = &mut func.regions[region].insts;
    if let Some(at) = list.iter().position(|&inst| inst == site) {
        list.splice(at..=at, new);
    }
    func.regions[body].insts.retain(|&inst| inst != atomic);
}
