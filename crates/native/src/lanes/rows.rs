//! Merges accesses of neighbouring numbers, so that lanes load and store several at a time.
//!
//! A thread that reads `m[11 * i]`, `m[11 * i + 1]`, … or the fields of an element reads numbers that are adjacent in
//! memory, while a [`Val`] holds one of them for all lanes. Loaded one by one, each takes an access for every lane;
//! together, each lane loads up to four at once, and a few shuffles sort them by component.
//!
//! The elements of a table at indices that have no order, such as `cameras[seen]`, are such rows, too: each lane has the
//! address of its own, from which it loads the fields of the element together.
//!
//! A [`Row`] is a set of loads, or of stores, that are in one region, whose indices differ by constants, and between
//! which nothing happens that could make their order matter. Loads are emitted with the first of them, stores with
//! the last. Whether all of a row is in range is tested once; if it is not, each access is emitted as if it were
//! alone.
//!
//! Atomic additions that all lanes make to one place each are a row, too: the sums over the lanes of several vectors
//! take fewer shuffles together.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::{Analyses, AtomicOp, Inst, Op, Path, Region, Scalar, Space, TypeData, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::local::Place;
use super::operand::{El, Val, Vals};
use super::{Backend, Emitter, Res, Writer, el};
use crate::emit::{Binary, Compare, Fixed, Instructions, Memory, Odds, blocks, memory};
use crate::plan::Plan;

/// The maximum number of numbers of a row.
const MOST: usize = 32;
/// The bytes from the first to the last number of a row at most whose lanes have addresses of their own: lanes that do
/// not read are sent to memory that is zero, of which there are more ([`crate::Fixed`]).
const SPAN: i64 = 1 << 10;

/// The rows of a function.
#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    of: FxHashMap<Inst, usize>,
    /// The instructions whose values are set, or that are emitted elsewhere.
    done: EntitySet<Inst>,
}

/// The kind of the accesses of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Sum,
}

/// Accesses of neighbouring numbers.
#[derive(Clone)]
struct Row {
    kind: Kind,
    el: El,
    /// The accesses in the order of the text.
    members: Vec<Member>,
    /// The accesses are emitted one by one.
    apart: bool,
}

/// An access of a row.
#[derive(Clone)]
struct Member {
    inst: Inst,
    /// The constant in the index, in elements.
    index: i64,
    /// The offset in the element in bytes.
    fixed: u64,
    /// The number of numbers.
    n: usize,
    /// The instructions after the first member that compute the index.
    makes_index: Vec<Inst>,
}

/// The common parts of all loads or stores of a row: kind, buffer, index without its constant (a value and its factor), and
/// type.
type Key = (Kind, Value, (Value, i64), El);

/// The maximum number of additions of a row.
const MOST_SUMS: usize = 8;

impl Rows {
    /// Finds the rows of a function.
    pub(super) fn of(
        module: &ir::Module,
        plan: &Plan,
        analyses: &Analyses<'_>,
        varying: Option<&SecondaryMap<Value, bool>>,
    ) -> Rows {
        let mut rows = Rows::default();
        let f = analyses.func;
        for region in f.regions.keys() {
            let (open, sums) = (Vec::new(), Vec::new());
            Find { module, plan, analyses, varying, open, sums, rows: &mut rows }.region(region);
        }
        rows
    }

    fn add(&mut self, row: Row) {
        if row.members.iter().map(|m| m.n).sum::<usize>() < 2 {
            return;
        }
        self.of.extend(row.members.iter().map(|m| (m.inst, self.rows.len())));
        self.rows.push(row);
    }
}

struct Find<'a, 'm> {
    module: &'m ir::Module,
    plan: &'a Plan,
    analyses: &'a Analyses<'m>,
    /// The values that vary, if additions may be joined.
    varying: Option<&'a SecondaryMap<Value, bool>>,
    open: Vec<(Key, Row)>,
    sums: Vec<Member>,
    rows: &'a mut Rows,
}

impl Find<'_, '_> {
    fn region(&mut self, region: Region) {
        let f = self.analyses.func;
        let mut places: FxHashMap<Inst, usize> = FxHashMap::default();
        for (place, &inst) in f.regions[region].insts.iter().enumerate() {
            places.insert(inst, place);
            let data = &f.insts[inst];
            let is_constant = self.is_constant(data.args.first().copied());
            match &data.op {
                Op::BufferLoad(path) => {
                    if !is_constant {
                        self.close(|_, key| key.0 == Kind::Store);
                        self.close_sums();
                    }
                    self.access(inst, path, &places);
                }
                Op::BufferStore(path) => {
                    let buffer = data.args[0];
                    self.close_sums();
                    let key = self.access(inst, path, &places);
                    // Other accesses of the same memory must stay on their side of the store.
                    let (module, analyses) = (self.module, self.analyses);
                    let root = |v: Value| match analyses.op(v) {
                        Some(Op::GlobalRef(global)) => Some(module.globals[*global].space).zip(Some(*global)),
                        _ => None,
                    };
                    self.close(|_, other| {
                        let apart = match (root(other.1), root(buffer)) {
                            (Some((Space::ReadOnly | Space::Uniform, _)), _) => true,
                            (Some(a), Some(b)) => a.1 != b.1,
                            _ => false,
                        };
                        !apart && Some(other) != key.as_ref()
                    });
                }
                Op::Atomic(..) if self.is_sum(inst) => {
                    self.close(|find, key| key.0 == Kind::Store || !find.is_constant(Some(key.1)));
                    let makes_index = Vec::new();
                    self.sums.push(Member { inst, index: 0, fixed: 0, n: 1, makes_index });
                    if self.sums.len() == MOST_SUMS {
                        self.close_sums();
                    }
                }
                // Accesses of buffers may move over computations, and over accesses of cells.
                op if op.is_pure() || op.spec().class == ir::Class::Cell => {}
                _ => {
                    self.close(|_, _| true);
                    self.close_sums();
                }
            }
        }
        self.close(|_, _| true);
        self.close_sums();
    }

    /// Returns true if all lanes add floats to one place.
    fn is_sum(&self, inst: Inst) -> bool {
        let data = &self.analyses.func.insts[inst];
        let Some((x, places)) = data.args.split_last() else { return false };
        let is_float = matches!(
            self.analyses.types[self.analyses.func.ty(*x)],
            TypeData::Scalar(Scalar::F32 | Scalar::F64)
        );
        let is_one = self.varying.is_some_and(|v| v[*x] && places.iter().all(|&place| !v[place]));
        let unused = data.results.iter().all(|&r| self.analyses.uses().of_value(r).is_empty());
        matches!(data.op, Op::Atomic(_, AtomicOp::Add)) && is_float && is_one && unused
    }

    fn close_sums(&mut self) {
        let of = |m: &Member| {
            let f = self.analyses.func;
            let s = f.insts[m.inst].args.last().and_then(|&x| self.analyses.types.scalar_of(f.ty(x)));
            s.map_or(El::F32, el)
        };
        let sums = std::mem::take(&mut self.sums);
        for members in sums.chunk_by(|a, b| of(a) == of(b)) {
            let el = of(&members[0]);
            self.rows.add(Row { kind: Kind::Sum, el, members: members.to_vec(), apart: false });
        }
    }

    /// Returns true if a buffer is memory that is only read.
    fn is_constant(&self, buffer: Option<Value>) -> bool {
        matches!(
            buffer.and_then(|v| self.analyses.op(v)),
            Some(Op::GlobalRef(g)) if matches!(self.module.globals[*g].space, Space::ReadOnly | Space::Uniform)
        )
    }

    /// Ends rows: later accesses do not join them.
    fn close(&mut self, ends: impl Fn(&Self, &Key) -> bool) {
        for (key, row) in std::mem::take(&mut self.open) {
            if ends(self, &key) { self.rows.add(row) } else { self.open.push((key, row)) }
        }
    }

    /// Adds an access to its row, and returns the row's key.
    fn access(&mut self, inst: Inst, path: &Path, places: &FxHashMap<Inst, usize>) -> Option<Key> {
        let (f, types) = (self.analyses.func, self.analyses.types);
        let data = &f.insts[inst];
        let stores = matches!(data.op, Op::BufferStore(_));
        let &[buffer, index] = &data.args[..data.args.len() - usize::from(stores)] else { return None };
        let value = if stores { *data.args.last()? } else { data.results[0] };
        let (s, n) = match types[f.ty(value)] {
            TypeData::Scalar(s) => (s, 1),
            TypeData::Vector(s, n) => (s, n as usize),
            _ => return None,
        };
        let TypeData::Buffer(elem) = types[f.ty(buffer)] else { return None };
        let at = self.module.mem.select(elem, &path.0)?;
        if !matches!(el(s).bytes(), 4 | 8) || s == Scalar::Bool || self.plan.partial.contains(&elem) {
            return None;
        }
        let (base, offset, makes_index) = self.split(index);
        let kind = if stores { Kind::Store } else { Kind::Load };
        let key = (kind, buffer, base, el(s));
        let found = self.open.iter().position(|(other, row)| {
            *other == key && row.members.iter().map(|m| m.n).sum::<usize>() + n <= MOST
        });
        let found = found.unwrap_or_else(|| {
            self.close(|_, other| *other == key);
            self.open.push((key, Row { kind, el: key.3, members: Vec::new(), apart: false }));
            self.open.len() - 1
        });
        let row = &mut self.open[found].1;
        let first = row.members.first().map_or(usize::MAX, |m| places[&m.inst]);
        let is_later = |inst: &Inst| places.get(inst).is_some_and(|&place| place > first);
        let makes_index = makes_index.into_iter().filter(is_later).collect();
        row.members.push(Member { inst, index: offset, fixed: at.fixed, n, makes_index });
        Some(key)
    }

    /// An index as the sum of a multiple of a value and a constant, with the instructions that add and multiply, operands
    /// first: `15 * (2 * i + 1) + 3` and `15 * (2 * i)` differ by 18. Nothing is known of overflows; whether the indices do
    /// differ by this in memory is tested.
    fn split(&self, index: Value) -> ((Value, i64), i64, Vec<Inst>) {
        let analyses = self.analyses;
        let signed = |v: Value| {
            let TypeData::Scalar(s) = analyses.types[analyses.func.ty(v)] else { return None };
            let shift = 64 - s.bits();
            analyses.constant(v).map(|bits| (bits << shift) as i64 >> shift)
        };
        let (mut base, mut factor, mut sum, mut made) = (index, 1i64, 0i64, Vec::new());
        while let Some(inst) = analyses.inst(base) {
            let data = &analyses.func.insts[inst];
            let &[a, b] = &data.args[..] else { break };
            let (rest, k, constant) = match (signed(a), signed(b)) {
                (None, Some(k)) => (a, k, b),
                (Some(k), None) if data.op != Op::Sub => (b, k, a),
                _ => break,
            };
            let (by, times) = match data.op {
                Op::Add => (Some(k), Some(1)),
                Op::Sub => (k.checked_neg(), Some(1)),
                Op::Mul => (Some(0), Some(k)),
                _ => break,
            };
            let next = by.and_then(|by| sum.checked_add(factor.checked_mul(by)?));
            let Some((next, times)) = next.zip(times.and_then(|k| factor.checked_mul(k))) else { break };
            made.push(inst);
            made.extend(analyses.inst(constant));
            (base, factor, sum) = (rest, times, next);
        }
        made.reverse();
        ((base, factor), sum, made)
    }
}

/// A number of a row: the member and the number in it, with the offset in bytes from the row's first element.
#[derive(Clone, Copy)]
struct Number {
    member: usize,
    at: i64,
    k: usize,
}

impl<B: Backend> Emitter<'_, '_, B> {
    /// Finds the rows, if the function runs in lanes.
    pub(super) fn find_rows(&mut self) {
        if self.lanes > 1 && !self.cx.options.trap {
            let varying = (!self.cx.options.lane_order).then_some(&self.facts.varying);
            self.rows = Rows::of(self.cx.ir, &self.cx.plan, &self.nesting.analyses, varying);
        }
    }

    /// Emits the row of an access, or leaves that to a later one; returns true if the access needs no code of its own.
    pub(super) fn in_row(&mut self, inst: Inst) -> Res<bool> {
        let Some(&number) = self.rows.of.get(&inst) else { return Ok(self.rows.done.contains(inst)) };
        let row = self.rows.rows[number].clone();
        let place = row.members.iter().position(|m| m.inst == inst).expect("it is a member");
        if place == 0 {
            // The code of a region may be written several times.
            for m in &row.members {
                for &inst in m.makes_index.iter().chain([&m.inst]) {
                    self.rows.done.remove(inst);
                }
            }
            self.rows.rows[number].apart = !self.is_strided(&row) && !self.is_scattered_row(&row);
        }
        if self.rows.rows[number].apart || self.rows.done.contains(inst) {
            return Ok(!self.rows.rows[number].apart);
        }
        if row.kind != Kind::Load && place + 1 < row.members.len() {
            return Ok(true);
        }
        if row.kind == Kind::Load {
            for &made in row.members.iter().flat_map(|m| &m.makes_index) {
                if !self.rows.done.contains(made) {
                    crate::emit::inst(self, made)?;
                    self.rows.done.insert(made);
                }
            }
        }
        match row.kind {
            Kind::Sum => self.sums(&row)?,
            Kind::Load | Kind::Store => self.row(&row)?,
        }
        self.rows.done.extend(row.members.iter().map(|m| m.inst));
        Ok(true)
    }

    /// Returns true if the lanes access a row at a constant stride, which is large enough if they write.
    fn is_strided(&self, row: &Row) -> bool {
        if row.kind == Kind::Sum {
            return true;
        }
        let data = &self.f.insts[row.members[0].inst];
        let handle = self.get(data.args[0]);
        let index = self.one(data.args[1]);
        let Some(lin) = index.lin.filter(|_| handle.iter().all(|part| !part.var)) else { return false };
        let bytes = self.element_bytes(data.args[0]);
        let numbers = numbers(row, bytes);
        let span = numbers.last().map_or(0, |n| n.at) - numbers[0].at + row.el.bytes() as i64;
        row.kind == Kind::Load || lin.step.saturating_mul(bytes as i64).abs() >= span
    }

    /// Returns true if the lanes load a row of an element each, at addresses that have no order.
    fn is_scattered_row(&self, row: &Row) -> bool {
        let data = &self.f.insts[row.members[0].inst];
        let numbers = numbers(row, 0);
        row.kind == Kind::Load
            && row.members.iter().all(|m| m.index == row.members[0].index)
            && self.get(data.args[0]).iter().all(|part| !part.var)
            && self.one(data.args[1]).var
            && numbers.windows(2).any(|pair| pair[1].at - pair[0].at == row.el.bytes() as i64)
            && numbers.last().is_some_and(|last| last.at - numbers[0].at < SPAN)
    }

    fn element_bytes(&self, buffer: Value) -> u64 {
        match self.ts[self.ty(buffer)] {
            TypeData::Buffer(elem) => self.cx.ir.mem.size(elem),
            _ => 0,
        }
    }

    /// The place of the first number of an access, with its block.
    fn place_of(&mut self, member: &Member) -> Res<Place> {
        let data = &self.f.insts[member.inst];
        let (Op::BufferLoad(path) | Op::BufferStore(path)) = &data.op else {
            unreachable!("it is an access")
        };
        memory::buffer_place(self, data, path, &data.args[..2])
    }

    /// The number of the element that lane 0 accesses.
    fn first_index(&mut self, member: &Member) -> Option<Val> {
        let args = &self.f.insts[member.inst].args;
        let i = self.index64(args[1]);
        let handle = self.get(args[0]);
        let i = self.binary(Binary::Add, i, handle[2]);
        i.lin.map(|lin| Val::uniform(lin.base, El::I64))
    }

    /// Emits all accesses of a row.
    fn row(&mut self, row: &Row) -> Res {
        let bytes = self.element_bytes(self.f.insts[row.members[0].inst].args[0]);
        let numbers = numbers(row, bytes);
        let ends = [row.members.iter().min_by_key(|m| m.index), row.members.iter().max_by_key(|m| m.index)];
        let [Some(low), Some(high)] = ends else { return Ok(()) };
        let first = self.place_of(low)?;
        let Some((at, step, mut holds)) = first.block else {
            if !self.is_scattered_row(row) {
                return self.one_by_one(row);
            }
            let first = self.even(first);
            let to = numbers[0].at;
            let mut at = self.w.offset(first.addr, Val::i64(to - low.fixed as i64));
            if let Some(lanes) = self.both(first.inside, self.mask) {
                let zeros = self.fixed(Fixed::Zeros);
                at = self.w.select(lanes, at, zeros);
            }
            let ats: Vec<i64> = numbers.iter().map(|n| n.at - to).collect();
            let found = self.load_near(row.el, &ats, at, 0, first.class);
            self.set_loaded(row, &numbers, &found);
            return Ok(());
        };
        let at = self.w.offset(at, Val::i64(-(low.fixed as i64)));
        if high.index != low.index {
            let last = self.place_of(high)?;
            let (Some((_, _, all)), Some(a), Some(b)) =
                (last.block, self.first_index(low), self.first_index(high))
            else {
                return self.one_by_one(row);
            };
            let expected = self.w.binary(Binary::Add, a, Val::i64(high.index - low.index));
            let same = self.w.compare(Compare::Equal, b, expected);
            holds = self.w.binary(Binary::And, holds, all);
            holds = self.w.binary(Binary::And, holds, same);
        }
        let class = first.class;
        if row.kind == Kind::Store {
            if self.mask.is_some() {
                holds = self.all_active().map_or(holds, |full| self.w.binary(Binary::And, holds, full));
            }
            let vals: Vec<Vals> = row.members.iter().map(|m| self.stored(m)).collect();
            let fast = |e: &mut Self| {
                let vals: Vec<(Val, i64)> = numbers.iter().map(|n| (vals[n.member][n.k], n.at)).collect();
                e.store_near(row.el, &vals, at, step, class);
                Ok(Vals::new())
            };
            let slow = |e: &mut Self| {
                for (member, vals) in row.members.iter().zip(&vals) {
                    let place = e.place_of(member)?;
                    for (k, &x) in (0..).zip(vals) {
                        e.rare_scatter(x, place, k * row.el.bytes());
                    }
                }
                Ok(Vals::new())
            };
            return blocks::either(self, holds, Odds::Likely, fast, slow).map(drop);
        }
        let fast = |e: &mut Self| {
            let ats: Vec<i64> = numbers.iter().map(|n| n.at).collect();
            Ok(e.load_near(row.el, &ats, at, step, class).into())
        };
        let slow = |e: &mut Self| {
            let mut loaded = Vec::new();
            for member in &row.members {
                let place = e.place_of(member)?;
                let size = row.el.bytes();
                loaded.push((0..member.n as u64).map(|k| e.rare_gather(row.el, place, k * size)).collect());
            }
            let loaded: Vec<Vals> = loaded;
            Ok(numbers.iter().map(|n| loaded[n.member][n.k]).collect())
        };
        let found = blocks::either(self, holds, Odds::Likely, fast, slow)?;
        self.set_loaded(row, &numbers, &found);
        Ok(())
    }

    /// Gives the loads of a row their numbers.
    fn set_loaded(&mut self, row: &Row, numbers: &[Number], found: &[Val]) {
        for (m, member) in row.members.iter().enumerate() {
            let number = |k: usize| numbers.iter().position(|n| n.member == m && n.k == k);
            let vals: Vals = (0..member.n).filter_map(|k| Some(found[number(k)?])).collect();
            self.set(self.f.insts[member.inst].results[0], &vals);
        }
    }

    /// Emits the additions of a row.
    fn sums(&mut self, row: &Row) -> Res {
        for members in row.members.chunks(4) {
            let mut places = Vec::new();
            for member in members {
                let data = &self.f.insts[member.inst];
                let Op::Atomic(path, _) = &data.op else { unreachable!("it is an addition") };
                places.push(memory::buffer_place(self, data, path, &data.args[..data.args.len() - 1])?);
            }
            let zero = Val::bits(row.el, 0);
            let without: Option<Vals> = members.iter().map(|m| self.without_zero(m)).collect();
            let (numbers, more) = match without {
                Some(numbers) => (numbers, Some(zero)),
                None => (members.iter().map(|m| self.stored(m)[0]).collect(), None),
            };
            self.add_sums(row.el, &places, &numbers, more)?;
        }
        Ok(())
    }

    /// The number `x` of an addition of `x + 0`, as sums of absent differentials have it. The sum over the lanes of
    /// `x + 0` is that of `x`, plus 0: the two sums differ only if all lanes have -0.
    fn without_zero(&self, member: &Member) -> Option<Val> {
        let analyses = &self.nesting.analyses;
        let args = &self.f.insts[member.inst].args;
        let inst = analyses.inst(*args.last()?).filter(|&inst| self.f.insts[inst].op == Op::Add)?;
        let &[a, b] = &self.f.insts[inst].args[..] else { return None };
        let is_zero = |v: Value| analyses.constant(v) == Some(0);
        let rest = if is_zero(b) { Some(a) } else { is_zero(a).then_some(b) };
        Some(self.get(rest?)[0])
    }

    /// The numbers that an access stores.
    fn stored(&self, member: &Member) -> Vals {
        let args = &self.f.insts[member.inst].args;
        self.get(args[args.len() - 1])
    }

    /// Emits the accesses of a row as if each were alone.
    fn one_by_one(&mut self, row: &Row) -> Res {
        let members: FxHashSet<Inst> = row.members.iter().map(|m| m.inst).collect();
        for member in &row.members {
            let numbers: Vec<_> = members.iter().filter_map(|inst| self.rows.of.remove_entry(inst)).collect();
            crate::emit::inst(self, member.inst)?;
            self.rows.of.extend(numbers);
        }
        Ok(())
    }
}

/// The numbers of a row in the order of memory.
fn numbers(row: &Row, element: u64) -> Vec<Number> {
    let least = row.members.iter().map(|m| m.index).min().unwrap_or(0);
    let mut all = Vec::new();
    for (member, m) in row.members.iter().enumerate() {
        for k in 0..m.n {
            let at = (m.index - least) * element as i64 + (m.fixed + k as u64 * row.el.bytes()) as i64;
            all.push(Number { member, at, k });
        }
    }
    // Of several stores to a place, the last counts: a stable order keeps it behind the others.
    all.sort_by_key(|n| n.at);
    all
}
