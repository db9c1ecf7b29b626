//! Walks an entry point and all functions that it calls, and collects the memory accesses with their
//! addresses.

use std::rc::Rc;

use cranelift_entity::{EntitySet, SecondaryMap};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::access::{Access, Accesses, Around, Kind, Root};
use super::form::{Atom, Form};
use super::{Conflict, Lanes};
use crate::analysis::{Defs, reach};
use crate::entities::{Func, Global, Inst, MemType, Region, Value};
use crate::function::{Function, InstData};
use crate::memory::MemData;
use crate::module::{Module, Space};
use crate::ops::{AtomicOp, Builtin, Math, Op, Path};
use crate::types::{Scalar, Type, TypeData};

/// The maximum number of instructions visited; a function's instructions count at each call.
const BUDGET: u32 = 1 << 19;
/// The maximum nesting depth of calls.
const DEPTH: u32 = 100;

/// The key of an atom: equal keys stand for equal numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Builtin(Builtin, u32),
    Op(Op, Type, Vec<Form>, u32),
    Load(Global, Path, Vec<Form>, u32),
}

/// Numbers that are zero where a condition holds, and numbers that are zero where it does not hold.
#[derive(Clone, Debug, Default)]
struct Truth {
    holds: Vec<Form>,
    fails: Vec<Form>,
}

/// A handle, as its root and the address of the first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Handle {
    root: Root,
    at: Form,
    /// The handle comes from a cast, so its elements may partly overlap those of other handles.
    cast: bool,
}

/// The facts about a value: its numbers, if it has at most four, or its handle.
#[derive(Clone, Debug, Default)]
struct Known {
    numbers: SmallVec<[Form; 1]>,
    handle: Option<Handle>,
    truth: Option<Rc<Truth>>,
}

impl Known {
    fn number(number: Form) -> Known {
        Known { numbers: std::iter::once(number).collect(), ..Known::default() }
    }
}

type Values = SecondaryMap<Value, Known>;

struct Walk<'m> {
    module: &'m Module,
    lanes: Lanes,
    atoms: FxHashMap<Key, Atom>,
    touches: EntitySet<Func>,
    definitions: FxHashMap<Func, Rc<Defs>>,
    found: Accesses,
    here: usize,
    order: u32,
    zeros: Vec<Form>,
    left: u32,
    depth: u32,
}

/// The accesses that an entry point makes to memory that threads share.
pub(super) fn accesses(module: &Module, entry: Func, lanes: Lanes) -> Result<Accesses, Conflict> {
    let inits = module.globals.values().filter(|g| g.space == Space::Private).filter_map(|g| g.init);
    let roots: Vec<Func> = inits.chain([entry]).collect();
    let mut walk = Walk {
        module,
        lanes,
        atoms: FxHashMap::default(),
        touches: touching(module, &roots),
        definitions: FxHashMap::default(),
        found: Accesses::default(),
        here: 0,
        order: 0,
        zeros: Vec::new(),
        left: BUDGET,
        depth: 0,
    };
    walk.found.regions.push(Around { parent: None, is_loop: false });
    for func in roots {
        if walk.touches.contains(func) {
            walk.call(func, Vec::new())?;
        }
    }
    Ok(walk.found)
}

/// Those of the reached functions that have effects or depend on memory, buffers or built-in inputs.
fn touching(module: &Module, roots: &[Func]) -> EntitySet<Func> {
    let mut callers: SecondaryMap<Func, Vec<Func>> = SecondaryMap::new();
    let reached = reach(roots.iter().copied(), |func| {
        let callees = crate::walk::callees(&module.funcs[func]);
        callees.iter().for_each(|&callee| callers[callee].push(func));
        callees
    });
    let touches = |op: &Op| {
        matches!(
            op,
            Op::BufferLoad(_)
                | Op::BufferStore(_)
                | Op::Atomic(..)
                | Op::Barrier
                | Op::WaveGather
                | Op::WaveMultiply(_)
                | Op::GlobalRef(_)
                | Op::Builtin(_)
        )
    };
    let own = reached.iter().filter(|&func| module.funcs[func].contains(touches));
    reach(own, |func| callers[func].iter().copied())
}

/// The scalar type and the number of lanes of a scalar or short vector.
fn shape(module: &Module, ty: Type) -> Option<(Scalar, usize)> {
    match module.types[ty] {
        TypeData::Scalar(s) => Some((s, 1)),
        TypeData::Vector(s, n) if n <= 4 => Some((s, n as usize)),
        _ => None,
    }
}

/// The form of an unknown number of a type.
fn any(s: Scalar) -> Form {
    match s {
        Scalar::Bool => Form::within(0, 1),
        Scalar::U8 => Form::within(0, 255),
        Scalar::I8 => Form::within(-128, 127),
        Scalar::U16 => Form::within(0, 65_535),
        Scalar::I16 => Form::within(-32_768, 32_767),
        _ => Form::any(),
    }
}

impl<'m> Walk<'m> {
    fn atom(&mut self, key: Key) -> Form {
        let next = self.atoms.len() as Atom;
        Form::atom(*self.atoms.entry(key).or_insert(next))
    }

    fn unknown(&self, ty: Type) -> Known {
        let numbers = shape(self.module, ty).map(|(s, n)| (0..n).map(|_| any(s)).collect());
        let is_handle = matches!(self.module.types[ty], TypeData::Buffer(_));
        let handle = is_handle.then(|| Handle { root: Root::Unknown, at: Form::any(), cast: true });
        Known { numbers: numbers.unwrap_or_default(), handle, truth: None }
    }

    fn too_much(&self, f: &Function, what: &str) -> Conflict {
        Conflict { what: what.to_string(), span: f.span }
    }

    /// Walks a call and returns its results.
    fn call(&mut self, func: Func, args: Vec<Known>) -> Result<Vec<Known>, Conflict> {
        let f = &self.module.funcs[func];
        if self.depth >= DEPTH || !f.has_body() {
            return Err(self.too_much(f, "calls that are nested too deep to see what threads share"));
        }
        let defs = self.definitions.entry(func).or_insert_with(|| Rc::new(Defs::of(f))).clone();
        let mut values = Values::new();
        let body = f.body();
        for (&param, known) in f.regions[body].params.iter().zip(args) {
            values[param] = known;
        }
        self.depth += 1;
        self.region(f, &defs, &mut values, body)?;
        self.depth -= 1;
        Ok(f.regions[body].results.iter().map(|&v| values[v].clone()).collect())
    }

    fn region(
        &mut self,
        f: &'m Function,
        defs: &Defs,
        values: &mut Values,
        region: Region,
    ) -> Result<(), Conflict> {
        let outer = self.here;
        self.here = self.found.regions.len();
        self.found.regions.push(Around { parent: Some(outer), is_loop: false });
        for &inst in &f.regions[region].insts {
            self.left = match self.left.checked_sub(1) {
                Some(left) => left,
                None => return Err(self.too_much(f, "more code than is searched for what threads share")),
            };
            self.inst(f, defs, values, inst)?;
        }
        self.here = outer;
        Ok(())
    }

    /// All numbers of some values, if each number is the same in all lanes at any time.
    fn fixed(&self, values: &Values, args: &[Value]) -> Option<Vec<Form>> {
        let mut all = Vec::new();
        for &arg in args {
            let numbers = &values[arg].numbers;
            if numbers.is_empty() || !numbers.iter().all(Form::is_fixed) {
                return None;
            }
            all.extend(numbers.iter().cloned());
        }
        Some(all)
    }

    /// Returns true if the low 32 bits contain the whole number.
    fn is_narrow(&self, f: &Function, v: Value) -> bool {
        self.module.types.scalar_of(f.ty(v)).is_some_and(|s| s.bits() <= 32 || s.is_float())
    }

    fn number(&self, values: &Values, v: Value) -> Form {
        values[v].numbers.first().cloned().unwrap_or_else(Form::any)
    }

    fn inst(
        &mut self,
        f: &'m Function,
        defs: &Defs,
        values: &mut Values,
        inst: Inst,
    ) -> Result<(), Conflict> {
        let data = &f.insts[inst];
        match &data.op {
            Op::Barrier => {
                self.order += 1;
                self.found.barriers.push((self.here, self.order));
            }
            Op::BufferLoad(path) => {
                self.access(f, values, data, path, &data.args, Kind::Load);
                values[data.results[0]] = self.loaded(f, values, data, path);
            }
            Op::BufferStore(path) => {
                let places = &data.args[..data.args.len() - 1];
                self.access(f, values, data, path, places, Kind::Store);
            }
            Op::Atomic(path, op) => {
                let n = if *op == AtomicOp::CompareExchange { 2 } else { 1 };
                self.access(f, values, data, path, &data.args[..data.args.len() - n], Kind::Atomic);
                values[data.results[0]] = self.unknown(f.ty(data.results[0]));
            }
            Op::GlobalRef(global) => {
                let handle = Handle { root: Root::Global(*global), at: Form::constant(0), cast: false };
                values[data.results[0]].handle = Some(handle);
            }
            Op::BufferOffset | Op::BufferCast(_) => {
                let by = self.number(values, data.args[1]);
                let cast = matches!(data.op, Op::BufferCast(_));
                let by = match self.module.types[f.ty(data.args[0])] {
                    TypeData::Buffer(element) if !cast => by.times(self.module.mem.size(element) as i64),
                    _ => by,
                };
                let handle = values[data.args[0]].handle.clone();
                let moved = handle.map(|h| Handle { at: h.at.plus(&by), cast: h.cast || cast, ..h });
                values[data.results[0]].handle = moved;
            }
            Op::Call(callee) if self.touches.contains(*callee) => {
                let args = data.args.iter().map(|&a| values[a].clone()).collect();
                for (&r, known) in data.results.iter().zip(self.call(*callee, args)?) {
                    values[r] = known;
                }
            }
            Op::If | Op::Switch(_) => self.arms(f, defs, values, data)?,
            Op::For(_) | Op::Loop(_) => self.trips(f, defs, values, data)?,
            _ => {
                for (k, &r) in data.results.iter().enumerate() {
                    values[r] = self.computed(f, values, data, k);
                }
            }
        }
        Ok(())
    }

    fn arms(
        &mut self,
        f: &'m Function,
        defs: &Defs,
        values: &mut Values,
        data: &InstData,
    ) -> Result<(), Conflict> {
        let truth = values[data.args[0]].truth.clone().unwrap_or_default();
        for (k, &region) in data.regions.iter().enumerate() {
            let before = self.zeros.len();
            match (&data.op, k) {
                (Op::If, 0) => self.zeros.extend(truth.holds.iter().cloned()),
                (Op::If, _) => self.zeros.extend(truth.fails.iter().cloned()),
                _ => {}
            }
            self.region(f, defs, values, region)?;
            self.zeros.truncate(before);
        }
        for (k, &r) in data.results.iter().enumerate() {
            let mut arms = data.regions.iter().map(|&region| f.regions[region].results[k]);
            let first = arms.next().map_or_else(Known::default, |v| values[v].clone());
            let mut all = first;
            for v in arms {
                all = either(&truth, &all, &values[v]);
            }
            values[r] = all;
        }
        Ok(())
    }

    fn trips(
        &mut self,
        f: &'m Function,
        defs: &Defs,
        values: &mut Values,
        data: &InstData,
    ) -> Result<(), Conflict> {
        let region = data.regions[0];
        let is_for = matches!(data.op, Op::For(_));
        let (inits, params, yields) = if is_for {
            let count = self.number(values, data.args[0]).as_constant();
            let count = count.filter(|&n| n > 0 && self.is_narrow(f, data.args[0]));
            let counter = f.regions[region].params[0];
            values[counter] = match count {
                Some(n) => Known::number(Form::within(0, n - 1)),
                None => self.unknown(f.ty(counter)),
            };
            (&data.args[1..], &f.regions[region].params[1..], &f.regions[region].results[..])
        } else {
            (&data.args[..], &f.regions[region].params[..], &f.regions[region].results[1..])
        };
        for ((&init, &param), &yielded) in inits.iter().zip(params).zip(yields) {
            let first = self.number(values, init);
            values[param] = match change(f, defs, param, yielded, 16) {
                _ if yielded == param => values[init].clone(),
                Some(Change::Steps(by)) => Known::number(first.and_steps(by)),
                Some(Change::Shrinks) if self.is_narrow(f, param) => match first.as_constant() {
                    Some(n) if n >= 0 => Known::number(Form::within(0, n)),
                    _ => self.unknown(f.ty(param)),
                },
                _ => self.unknown(f.ty(param)),
            };
        }
        let entered = self.found.regions.len();
        self.region(f, defs, values, region)?;
        self.found.regions[entered].is_loop = true;
        for (k, &r) in data.results.iter().enumerate() {
            values[r] = match params.get(k) {
                Some(&param) => values[param].clone(),
                None => Known::default(),
            };
        }
        Ok(())
    }

    // ---- memory

    fn access(
        &mut self,
        f: &Function,
        values: &Values,
        data: &InstData,
        path: &Path,
        args: &[Value],
        kind: Kind,
    ) {
        self.order += 1;
        let TypeData::Buffer(element) = self.module.types[f.ty(args[0])] else { return };
        let unknown = Handle { root: Root::Unknown, at: Form::any(), cast: true };
        let handle = values[args[0]].handle.clone().unwrap_or(unknown);
        if let Root::Global(g) = handle.root
            && matches!(self.module.globals[g].space, Space::ReadOnly | Space::Uniform | Space::Private)
        {
            return;
        }
        let index = self.number(values, args[1]).times(self.module.mem.size(element) as i64);
        let mut at = handle.at.plus(&index);
        let size = self.path(values, element, path, &args[2..], &mut at);
        let (root, region, order) = (handle.root, self.here, self.order);
        let own = (!handle.cast && handle.root != Root::Unknown).then(|| path.clone());
        let ordered = !handle.cast && handle.root != Root::Unknown
            || matches!(data.args.last().map(|&x| self.module.types[f.ty(x)]), Some(TypeData::Scalar(_)));
        let zeros = self.zeros.clone();
        self.found.all.push(Access {
            root,
            kind,
            at,
            size,
            path: own,
            ordered,
            order,
            region,
            zeros,
            span: data.span,
        });
    }

    /// Adds to `at` the bytes from an element's start to the leaf at a path; returns the leaf's size.
    fn path(&self, values: &Values, element: MemType, path: &Path, args: &[Value], at: &mut Form) -> u64 {
        let mem = &self.module.mem;
        let Some(selection) = mem.select(element, &path.0) else { return mem.size(element) };
        *at = at.plus(&Form::constant(selection.fixed as i64));
        for (&v, &(n, stride)) in args.iter().zip(&selection.choices) {
            let by = self.number(values, v);
            // An index out of range accesses nothing.
            let by = if by.is_bounded() { by } else { Form::within(0, i64::from(n) - 1) };
            *at = at.plus(&by.times(stride as i64));
        }
        selection.target.bytes(mem)
    }

    /// The facts about a loaded value.
    fn loaded(&mut self, f: &Function, values: &Values, data: &InstData, path: &Path) -> Known {
        let ty = f.ty(data.results[0]);
        let mut known = self.unknown(ty);
        let Some(Handle { root: Root::Global(g), at, .. }) = values[data.args[0]].handle.clone() else {
            return known;
        };
        if !matches!(self.module.globals[g].space, Space::ReadOnly | Space::Uniform) {
            return known;
        }
        let known_whole = data.args[1..]
            .iter()
            .all(|&a| self.is_narrow(f, a) || self.number(values, a).as_constant().is_some());
        let fixed = self.fixed(values, &data.args[1..]).filter(|_| at.is_fixed() && known_whole);
        let Some(mut fixed) = fixed else { return known };
        fixed.push(at);
        let is_pointer = matches!(self.module.mem[self.module.globals[g].ty], MemData::Handle(_));
        if known.handle.is_some() {
            let root = if is_pointer {
                Root::Pointee(g)
            } else {
                let atoms = self.atoms.len() as Atom;
                Root::Loaded(*self.atoms.entry(Key::Load(g, path.clone(), fixed, 0)).or_insert(atoms))
            };
            known.handle = Some(Handle { root, at: Form::constant(0), cast: false });
            return known;
        }
        for (k, number) in known.numbers.iter_mut().enumerate() {
            *number = self.atom(Key::Load(g, path.clone(), fixed.clone(), k as u32));
        }
        known
    }

    // ---- numbers

    fn builtin(&mut self, builtin: Builtin) -> Known {
        let Lanes { group_size: size, rows, packed, .. } = self.lanes;
        let flat = size[1] == 1 && size[2] == 1;
        let all: u64 = size.iter().map(|&n| u64::from(n)).product();
        let n = if builtin == Builtin::GroupIndex { 1 } else { 3 };
        let numbers = (0..n).map(|k| {
            let base = self.atom(Key::Builtin(builtin, k as u32));
            let row = if k == 0 { base.plus(&Form::lane()) } else { base.clone() };
            match builtin {
                Builtin::DispatchThreadId if flat || rows && !packed => row,
                Builtin::DispatchThreadId => Form::any(),
                Builtin::GroupThreadId if size[k] == 1 => Form::constant(0),
                Builtin::GroupThreadId if rows && !packed => row,
                Builtin::GroupThreadId => Form::within(0, i64::from(size[k]) - 1),
                Builtin::GroupId if !packed || k > 0 => base,
                Builtin::GroupId => Form::any(),
                Builtin::GroupIndex if !packed => row,
                Builtin::GroupIndex => Form::within(0, all as i64 - 1),
                Builtin::GroupSize => Form::constant(size[k].into()),
            }
        });
        Known { numbers: numbers.collect(), ..Known::default() }
    }

    /// Result number `k` of an op that only computes, or of a call of a function that touches no memory.
    fn computed(&mut self, f: &Function, values: &Values, data: &InstData, k: usize) -> Known {
        let ty = f.ty(data.results[k]);
        let Some((s, n)) = shape(self.module, ty) else {
            let mut known = self.unknown(ty);
            if let (Op::Select, Some(_)) = (&data.op, &known.handle) {
                known = either(&Truth::default(), &values[data.args[1]], &values[data.args[2]]);
            }
            return known;
        };
        let arg = |k: usize| &values[data.args[k]];
        match &data.op {
            Op::Builtin(builtin) => return self.builtin(*builtin),
            Op::Const(bits) if !s.is_float() && (*bits as i64).unsigned_abs() < 1 << 32 => {
                let x = match s {
                    Scalar::I8 => i64::from(*bits as i8),
                    Scalar::I16 => i64::from(*bits as i16),
                    _ => *bits as i64,
                };
                return Known::number(Form::constant(x));
            }
            Op::Zero if !s.is_float() => {
                return Known { numbers: (0..n).map(|_| Form::constant(0)).collect(), ..Known::default() };
            }
            Op::Construct => {
                let numbers: SmallVec<[Form; 1]> =
                    (0..n).map(|k| self.number(values, data.args[k])).collect();
                return Known { numbers, ..Known::default() };
            }
            Op::Splat => {
                let one = self.number(values, data.args[0]);
                return Known { numbers: (0..n).map(|_| one.clone()).collect(), ..Known::default() };
            }
            Op::Extract(k) if !arg(0).numbers.is_empty() => {
                let number = arg(0).numbers.get(*k as usize).cloned().unwrap_or_else(|| any(s));
                return Known::number(number);
            }
            Op::Insert(k) if !arg(0).numbers.is_empty() => {
                let mut numbers = arg(0).numbers.clone();
                if let Some(number) = numbers.get_mut(*k as usize) {
                    *number = self.number(values, data.args[1]);
                }
                return Known { numbers, ..Known::default() };
            }
            Op::Select => {
                let truth = arg(0).truth.clone().unwrap_or_default();
                return either(&truth, arg(1), arg(2));
            }
            Op::Load
            | Op::CheckFinite(_)
            | Op::WaveGather
            | Op::WaveMultiply(_)
            | Op::BufferLen
            | Op::BufferAddress
            | Op::HandleBits
            | Op::HandleOf
            | Op::Clock => {
                return self.unknown(ty);
            }
            _ => {}
        }
        let from = data.args.first().and_then(|&a| shape(self.module, f.ty(a))).map(|shape| shape.0);
        let truth = (s == Scalar::Bool && n == 1).then(|| truth(values, data, from)).flatten().map(Rc::new);
        // Only the low half of a wide number is known, which is enough for sums and products.
        let is_ring = matches!(data.op, Op::Add | Op::Sub | Op::Mul | Op::Neg);
        let known = is_ring || data.args.iter().all(|&a| self.is_narrow(f, a));
        let numbers = (0..n).map(|lane| {
            let operands: Option<SmallVec<[Form; 3]>> = data
                .args
                .iter()
                .map(|&a| {
                    let numbers = &values[a].numbers;
                    if numbers.len() == n { numbers.get(lane).cloned() } else { None }
                })
                .collect();
            if let (Some(operands), Some(from)) = (operands, from)
                && let Some(form) = arithmetic(&data.op, from, s, &operands)
            {
                return form;
            }
            match self.fixed(values, &data.args).filter(|_| known) {
                Some(fixed) => self.atom(Key::Op(data.op.clone(), ty, fixed, (k * 4 + lane) as u32)),
                None => range(&data.op, s, data.args.last().map(|&a| self.number(values, a))),
            }
        });
        let numbers = numbers.collect();
        Known { numbers, handle: None, truth }
    }
}

/// The facts about a value that is one of two, `a` where a condition holds.
fn either(condition: &Truth, a: &Known, b: &Known) -> Known {
    let numbers = if a.numbers.len() == b.numbers.len() {
        a.numbers.iter().zip(&b.numbers).map(|(a, b)| a.or(b)).collect()
    } else {
        SmallVec::new()
    };
    let unknown = Handle { root: Root::Unknown, at: Form::any(), cast: true };
    let handle = match (&a.handle, &b.handle) {
        (Some(a), Some(b)) if a == b => Some(a.clone()),
        (Some(a), Some(b)) if a.root == b.root => {
            Some(Handle { root: a.root, at: a.at.or(&b.at), cast: a.cast || b.cast })
        }
        (None, None) => None,
        _ => Some(unknown),
    };
    let is = |known: &Known, x| known.numbers.len() == 1 && known.numbers[0].as_constant() == Some(x);
    let of = |known: &Known| known.truth.clone().unwrap_or_default();
    let both = |a: &[Form], b: &[Form]| -> Vec<Form> { a.iter().chain(b).cloned().collect() };
    let holds = match (is(a, 0), is(b, 0)) {
        (true, false) => both(&condition.fails, &of(b).holds),
        (false, true) => both(&condition.holds, &of(a).holds),
        _ => Vec::new(),
    };
    let fails = match (is(a, 1), is(b, 1)) {
        (true, false) => both(&condition.fails, &of(b).fails),
        (false, true) => both(&condition.holds, &of(a).fails),
        _ => Vec::new(),
    };
    let truth = (!holds.is_empty() || !fails.is_empty()).then(|| Rc::new(Truth { holds, fails }));
    Known { numbers, handle, truth }
}

/// The facts that follow from a condition.
fn truth(values: &Values, data: &InstData, from: Option<Scalar>) -> Option<Truth> {
    let is_unsigned = from == Some(Scalar::U32);
    let number = |k: usize| match &values[data.args[k]].numbers[..] {
        [x] => Some(x.clone()),
        _ => None,
    };
    let of = |k: usize| values[data.args[k]].truth.clone().unwrap_or_default();
    let difference = || Some(vec![number(0)?.minus(&number(1)?)]);
    let is_one = |k: usize| number(k).and_then(|x| x.as_constant()) == Some(1);
    let join = |a: &[Form], b: &[Form]| -> Vec<Form> { a.iter().chain(b).cloned().collect() };
    Some(match data.op {
        Op::Eq => Truth { holds: difference()?, fails: Vec::new() },
        Op::Ne => Truth { holds: Vec::new(), fails: difference()? },
        Op::Lt if is_one(1) && is_unsigned => Truth { holds: vec![number(0)?], fails: Vec::new() },
        Op::Gt if is_one(0) && is_unsigned => Truth { holds: vec![number(1)?], fails: Vec::new() },
        Op::Not => {
            let a = of(0);
            Truth { holds: a.fails.clone(), fails: a.holds.clone() }
        }
        Op::And => Truth { holds: join(&of(0).holds, &of(1).holds), fails: Vec::new() },
        Op::Or => Truth { holds: Vec::new(), fails: join(&of(0).fails, &of(1).fails) },
        Op::Detach => (*of(0)).clone(),
        _ => return None,
    })
}

/// How a carried number changes in each trip of a loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A constant is added.
    Steps(i64),
    /// The number is divided by a constant, so a number that is not negative moves towards zero.
    Shrinks,
}

fn change(f: &Function, defs: &Defs, param: Value, yielded: Value, left: u32) -> Option<Change> {
    if left == 0 {
        return None;
    }
    let inst = defs.inst(yielded)?;
    let data = &f.insts[inst];
    // The number is one of several, each of which changes in the same way or not at all.
    let choices: Vec<Value> = match data.op {
        Op::If => {
            let k = data.results.iter().position(|&r| r == yielded)?;
            data.regions.iter().map(|&region| f.regions[region].results[k]).collect()
        }
        Op::Select => data.args[1..].to_vec(),
        _ => Vec::new(),
    };
    if !choices.is_empty() {
        let mut changes =
            choices.into_iter().filter(|&v| v != param).map(|v| change(f, defs, param, v, left / 2));
        let first = changes.next()??;
        return changes.all(|other| other == Some(first)).then_some(first);
    }
    let constant = |v: Value| match f.insts[defs.inst(v)?].op {
        Op::Const(bits) => Some(bits as i64),
        _ => None,
    };
    match (&data.op, &data.args[..]) {
        (Op::Add, &[a, b]) if a == param => constant(b).map(Change::Steps),
        (Op::Add, &[a, b]) if b == param => constant(a).map(Change::Steps),
        (Op::Sub, &[a, b]) if a == param => constant(b).map(|by| Change::Steps(by.wrapping_neg())),
        (Op::Div, &[a, b]) if a == param => constant(b).filter(|&by| by > 0).map(|_| Change::Shrinks),
        (Op::Shr, &[a, b]) if a == param => constant(b).map(|_| Change::Shrinks),
        _ => None,
    }
}

/// Returns true if the analysis tracks numbers of a type, and everything computed from them, by their low 32
/// bits.
fn is_tracked(s: Scalar) -> bool {
    matches!(s, Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64)
}

/// Evaluates sums and similar operations on forms.
fn arithmetic(op: &Op, from: Scalar, to: Scalar, args: &[Form]) -> Option<Form> {
    if !is_tracked(to) || from.is_float() {
        return None;
    }
    match (op, args) {
        (Op::Convert | Op::Bitcast, [a]) if is_tracked(from) || *op == Op::Convert => Some(a.clone()),
        (Op::Detach, [a]) => Some(a.clone()),
        (Op::Add, [a, b]) => Some(a.plus(b)),
        (Op::Sub, [a, b]) => Some(a.minus(b)),
        (Op::Neg, [a]) => Some(a.times(-1)),
        (Op::Mul, [a, b]) => match (a.as_constant(), b.as_constant()) {
            (Some(by), _) => Some(b.times(by)),
            (_, Some(by)) => Some(a.times(by)),
            _ => None,
        },
        (Op::Shl, [a, b]) => {
            let by = b.as_constant()? as u32 % to.bits();
            Some(if by < 32 { a.times(1 << by) } else { Form::constant(0) })
        }
        _ => None,
    }
}

/// The bounds of the result of an operation whose last operand may be a constant.
fn range(op: &Op, s: Scalar, last: Option<Form>) -> Form {
    let constant = last.and_then(|l| l.as_constant());
    if s.bits() > 32 {
        return any(s);
    }
    match (op, constant) {
        (Op::Rem, Some(n)) if n > 0 && s.is_int() => {
            Form::within(if s.is_signed_int() { 1 - n } else { 0 }, n - 1)
        }
        (Op::And, Some(mask)) if mask > 0 && s.is_int() => {
            let low = mask & mask.wrapping_neg();
            Form::within(0, mask / low).times(low)
        }
        (Op::Shr, Some(by)) if s == Scalar::U32 => Form::within(0, i64::from(u32::MAX >> (by as u32 % 32))),
        (Op::Div, Some(by)) if s == Scalar::U32 && by > 0 => Form::within(0, i64::from(u32::MAX) / by),
        (Op::Math(Math::Min), Some(most)) if s == Scalar::U32 && most >= 0 => Form::within(0, most),
        _ => any(s),
    }
}
