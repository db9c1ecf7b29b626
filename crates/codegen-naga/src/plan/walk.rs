//! Walks a function with facts about its parameters, and finds what each of its values refers to.

use cranelift_entity::SecondaryMap;
use ir::{
    AtomicOp, Function, Inst, InstData, MemData, Op, Path, Place, Region, Scalar, Space, TypeData, Value,
};

use super::{Arg, Base, Instance, LARGEST_STACK, Planner, holds_handle, larger, open_path, scalar_at, union};
use crate::Unsupported;
use crate::bounds::Bounds;

/// Walks one instance.
pub(super) struct Walker<'a, 'm> {
    pub(super) planner: &'a mut Planner<'m>,
    pub(super) bounds: Bounds<'m>,
    pub(super) f: &'m Function,
    /// The number of uses of each value.
    pub(super) uses: SecondaryMap<Value, u32>,
    pub(super) instance: Instance,
}

type Res<T = ()> = Result<T, Unsupported>;

impl Walker<'_, '_> {
    pub(super) fn arg(&self, v: Value) -> Arg {
        self.instance.values.get(&v).cloned().unwrap_or_default()
    }

    pub(super) fn set(&mut self, v: Value, arg: Arg) {
        match arg {
            Arg::Data => {}
            arg => {
                self.instance.values.insert(v, arg);
            }
        }
    }

    /// Joins `arg` into the facts about `v`; returns true if they changed.
    pub(super) fn join(&mut self, v: Value, arg: Arg, span: ir::Span) -> Res<bool> {
        let old = self.arg(v);
        let new = match (old.clone(), arg) {
            (Arg::Data, arg) => arg,
            (Arg::Handle(mut a, moved), Arg::Handle(b, also)) => {
                union(&mut a, &b);
                Arg::Handle(a, moved || also)
            }
            (Arg::Handles(mut a), Arg::Handles(b)) if a.len() == b.len() => {
                a.iter_mut().zip(&b).for_each(|(a, b)| union(a, b));
                Arg::Handles(a)
            }
            (Arg::Stack(a), Arg::Stack(b)) => Arg::Stack(larger(&a, &b)),
            (old, Arg::Data) => old,
            _ => return Err(self.planner.refuse("a value", "it is made of buffers in several ways", span)),
        };
        let changed = new != old;
        if let (true, Arg::Handle(set, _)) = (changed, &new)
            && set.len() > 1
        {
            self.planner.merged.push(set.clone());
        }
        self.set(v, new);
        Ok(changed)
    }

    pub(super) fn region(&mut self, region: Region) -> Res {
        for &inst in &self.f.regions[region].insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    fn bases(&self, v: Value, span: ir::Span) -> Res<Vec<Base>> {
        match self.arg(v) {
            Arg::Handle(bases, _) => Ok(bases),
            _ => Err(self.planner.refuse("a buffer or pointer", "what it refers to is not known", span)),
        }
    }

    fn inst(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        let span = data.span;
        let module = self.planner.module;
        match &data.op {
            Op::GlobalRef(global) => {
                let base = Base::Global(*global);
                if !matches!(module.mem[module.globals[*global].ty], MemData::Handle(_)) {
                    self.planner.usage(base);
                }
                self.set(data.results[0], Arg::handle(vec![base]));
            }
            Op::BufferLoad(path) => self.load(data.args[0], data.results[0], path, span)?,
            Op::BufferStore(path) => {
                if holds_handle(module, self.f.ty(*data.args.last().expect("a store has a value"))) {
                    return Err(self.planner.refuse(
                        "a store of a pointer",
                        "devices have no pointers",
                        span,
                    ));
                }
                for base in self.bases(data.args[0], span)? {
                    let words = self.is_part_of_word(data.args[0], path);
                    if let Some(usage) = self.planner.usage(base) {
                        usage.written = true;
                        usage.atomic_words |= words;
                    }
                }
            }
            Op::Atomic(path, op) => self.atomic(data, path, *op)?,
            Op::BufferOffset => {
                let bases = self.bases(data.args[0], span)?;
                self.set(data.results[0], Arg::moved(bases));
            }
            Op::BufferCast(_) => {
                let bases = self.bases(data.args[0], span)?;
                for &base in &bases {
                    if let Some(usage) = self.planner.usage(base) {
                        usage.raw = true;
                    }
                }
                self.set(data.results[0], Arg::moved(bases));
            }
            Op::BufferLen | Op::BufferAddress => {
                self.bases(data.args[0], span)?;
            }
            Op::HandleBits | Op::HandleOf => {
                let what = "a pointer that is made of a number, or becomes one";
                return Err(self.planner.refuse(what, "devices have no pointers", span));
            }
            Op::Clock => return Err(self.planner.refuse("a clock", "it has none", span)),
            Op::WaveMultiply(_) => return Err(self.planner.refuse("matrix units", "it has none", span)),
            Op::Zero => self.zero(data.results[0]),
            Op::Detach => {
                let arg = self.arg(data.args[0]);
                self.set(data.results[0], arg);
            }
            // In a loop, facts learned about the cell in an earlier round are kept.
            Op::Local => {
                let arg = self.arg(data.args[0]);
                self.join(data.results[0], arg, span)?;
            }
            Op::Select => {
                for k in [1, 2] {
                    let arg = self.arg(data.args[k]);
                    self.join(data.results[0], arg, span)?;
                }
            }
            Op::Construct | Op::Splat | Op::Extract(_) | Op::Insert(_) | Op::Index => self.parts(data)?,
            Op::Load => {
                if let Arg::Stack(shape) = self.arg(data.args[0]) {
                    let inner = shape.get(data.args.len() - 1..).unwrap_or_default().to_vec();
                    if !inner.is_empty() {
                        self.set(data.results[0], Arg::Stack(inner));
                    }
                }
            }
            Op::SubCell => {
                if let Arg::Stack(shape) = self.arg(data.args[0]) {
                    self.set(data.results[0], Arg::Stack(shape[1..].to_vec()));
                }
            }
            Op::Call(callee) => {
                let args = data.args.iter().map(|&a| self.arg(a)).collect();
                let callee = self.planner.instance(*callee, args)?;
                self.instance.calls.insert(inst, callee);
                let results = self.planner.plan.instances[callee].results.clone();
                for (&v, arg) in data.results.iter().zip(results) {
                    self.set(v, arg);
                }
            }
            Op::If | Op::Switch(_) => {
                for &arm in &data.regions {
                    self.region(arm)?;
                }
                for &arm in &data.regions {
                    for (k, &v) in data.results.iter().enumerate() {
                        let arg = self.arg(self.f.regions[arm].results[k]);
                        self.join(v, arg, span)?;
                    }
                }
            }
            Op::For(_) | Op::Loop(_) => self.a_loop(inst)?,
            Op::Store | Op::AddTo => self.store(inst)?,
            _ => {}
        }
        Ok(())
    }

    fn atomic(&mut self, data: &InstData, path: &Path, op: AtomicOp) -> Res {
        let (module, span) = (self.planner.module, data.span);
        let read = self.uses[data.results[0]] > 0;
        let s = module.types.scalar_of(self.f.ty(data.results[0])).unwrap_or(Scalar::U32);
        for base in self.bases(data.args[0], span)? {
            if let Base::Global(global) = base
                && module.globals[global].space == Space::Private
            {
                let why = "no other thread sees it";
                return Err(self.planner.refuse("an atomic operation on a thread's own variable", why, span));
            }
            if let Some(usage) = self.planner.usage(base) {
                let open = Path(open_path(module, usage.element, path));
                let selection = module.mem.select(usage.element, &path.0);
                usage.written = true;
                usage.read |= read;
                // A lane of a vector cannot be addressed by itself, and part of a word is accessed
                // through its word.
                usage.raw |= selection.is_none_or(|s| !matches!(s.target, Place::Mem(_))) || s.bytes() < 4;
                usage.only_sums &= matches!(op, AtomicOp::Add | AtomicOp::Exchange);
                if !usage.atomics.iter().any(|(p, t)| *p == open && *t == s) {
                    // If several kinds of number are accessed atomically at one place, the memory
                    // holds their bits.
                    usage.raw |= usage.atomics.iter().any(|(p, t)| *p == open && *t != s);
                    usage.atomics.push((open, s));
                }
            }
        }
        Ok(())
    }

    /// Values that are made of others, and their elements.
    fn parts(&mut self, data: &InstData) -> Res {
        let (module, span) = (self.planner.module, data.span);
        match &data.op {
            Op::Construct | Op::Splat if holds_handle(module, self.f.ty(data.results[0])) => {
                let n = match module.types[self.f.ty(data.results[0])] {
                    TypeData::Array(_, n) => n as usize,
                    _ => 0,
                };
                let args = data.args.iter().cycle().take(n);
                let sets = args.map(|&a| self.bases(a, span)).collect::<Res<Vec<_>>>()?;
                self.set(data.results[0], Arg::Handles(sets));
            }
            Op::Extract(k) => {
                if let Arg::Handles(sets) = self.arg(data.args[0]) {
                    let set = sets.get(*k as usize).cloned().unwrap_or_default();
                    self.set(data.results[0], Arg::moved(set));
                }
            }
            Op::Insert(k) => {
                if let (Arg::Handles(mut sets), Arg::Handle(set, _)) =
                    (self.arg(data.args[0]), self.arg(data.args[1]))
                {
                    if let Some(place) = sets.get_mut(*k as usize) {
                        *place = set;
                    }
                    self.set(data.results[0], Arg::Handles(sets));
                }
            }
            Op::Index => match self.arg(data.args[0]) {
                Arg::Handles(sets) => {
                    let mut all = vec![Base::Null];
                    sets.iter().for_each(|s| union(&mut all, s));
                    self.planner.merged.push(all.clone());
                    self.set(data.results[0], Arg::moved(all));
                }
                Arg::Stack(shape) if shape.len() > 1 => {
                    self.set(data.results[0], Arg::Stack(shape[1..].to_vec()));
                }
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn load(&mut self, handle: Value, result: Value, path: &Path, span: ir::Span) -> Res {
        let module = self.planner.module;
        let bases = self.bases(handle, span)?;
        if !holds_handle(module, self.f.ty(result)) {
            for &base in &bases {
                if let Some(usage) = self.planner.usage(base) {
                    usage.read = true;
                }
            }
            return Ok(());
        }
        // Only a global that is itself a pointer has its pointee bound.
        let mut targets = Vec::new();
        for base in bases {
            match base {
                Base::Global(g)
                    if path.0.is_empty()
                        && matches!(module.mem[module.globals[g].ty], MemData::Handle(_)) =>
                {
                    let pointee = Base::Pointee(g);
                    self.planner.usage(pointee);
                    union(&mut targets, &[pointee]);
                }
                Base::Null => union(&mut targets, &[Base::Null]),
                Base::Global(_) | Base::Pointee(_) => {
                    let why = "devices have no pointers in memory";
                    return Err(self.planner.refuse("a pointer read from memory", why, span));
                }
            }
        }
        if !matches!(module.types[self.f.ty(result)], TypeData::Buffer(_)) {
            return Err(self.planner.refuse(
                "an array of pointers in memory",
                "devices have no pointers",
                span,
            ));
        }
        self.set(result, Arg::handle(targets));
        Ok(())
    }

    fn zero(&mut self, v: Value) {
        let types = &self.planner.module.types;
        match types[self.f.ty(v)] {
            TypeData::Buffer(_) => self.set(v, Arg::handle(vec![Base::Null])),
            TypeData::Array(_, n) if holds_handle(self.planner.module, self.f.ty(v)) => {
                self.set(v, Arg::Handles(vec![vec![Base::Null]; n as usize]));
            }
            TypeData::Stack(mut t) => {
                let mut shape = vec![1];
                while let TypeData::Stack(inner) = types[t] {
                    shape.push(1);
                    t = inner;
                }
                self.set(v, Arg::Stack(shape));
            }
            TypeData::Scalar(_)
            | TypeData::Vector(..)
            | TypeData::Array(..)
            | TypeData::Cell(_)
            | TypeData::Residuals(_) => {}
        }
    }

    /// Gives the cell of a stack enough room for the values that are stored or added.
    fn store(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        let (cell, n) = (data.args[0], data.args.len());
        let Arg::Stack(shape) = self.arg(cell) else { return Ok(()) };
        let mut room = shape.clone();
        if let Op::AddTo = data.op {
            for (k, place) in room.iter_mut().enumerate().take(n - 2) {
                let most = self.bounds.index_estimate(data.args[1 + k]);
                let Some(most) = most else { return Err(self.no_bound(inst, "additions to this stack")) };
                if most >= LARGEST_STACK {
                    return Err(self.too_many(inst, most.saturating_add(1)));
                }
                *place = (*place).max(most as u32 + 1);
            }
        }
        if let Arg::Stack(inner) = self.arg(data.args[n - 1]) {
            for (place, &m) in room[n - 2..].iter_mut().zip(&inner) {
                *place = (*place).max(m);
            }
        }
        self.grow(cell, room);
        Ok(())
    }

    /// Gives a cell more room, and likewise the cell that it is part of.
    fn grow(&mut self, cell: Value, room: Vec<u32>) {
        let Arg::Stack(old) = self.arg(cell) else { return };
        let new = larger(&old, &room);
        if let Some(def) = self.bounds.def(cell)
            && self.f.insts[def].op == Op::SubCell
        {
            let outer = self.f.insts[def].args[0];
            if let Arg::Stack(shape) = self.arg(outer) {
                let mut wide = vec![shape[0]];
                wide.extend(&new);
                let most = self.bounds.index_estimate(self.f.insts[def].args[1]);
                wide[0] = wide[0].max(most.filter(|&m| m < LARGEST_STACK).map_or(1, |m| m as u32 + 1));
                self.grow(outer, wide);
            }
        }
        self.set(cell, Arg::Stack(new));
    }

    fn a_loop(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        let body = data.regions[0];
        let region = &self.f.regions[body];
        let (args, params, results) = match data.op {
            Op::For(_) => (&data.args[1..], &region.params[1..], &region.results[..]),
            _ => (&data.args[..], &region.params[..], &region.results[1..]),
        };
        for (&param, &arg) in params.iter().zip(args) {
            let arg = self.arg(arg);
            self.join(param, arg, data.span)?;
        }
        // Cells outside the loop may grow in its body; the fixpoint sees uses in the body with their final
        // sizes.
        for round in 0.. {
            let before = self.cells();
            self.region(body)?;
            let mut changed = self.cells() != before;
            for (&param, &next) in params.iter().zip(results) {
                let next = self.arg(next);
                changed |= self.join(param, next, data.span)?;
            }
            if !changed {
                break;
            }
            if round > 16 {
                return Err(self.planner.refuse(
                    "a loop",
                    "the size of what it carries has no end",
                    data.span,
                ));
            }
        }
        let n = args.len();
        for k in 0..n {
            let (param, first) = (self.arg(params[k]), self.arg(args[k]));
            self.join(data.results[k], first, data.span)?;
            self.join(data.results[k], param, data.span)?;
        }
        if data.results.len() > n {
            let Some(trips) = self.bounds.trips(inst) else {
                return Err(self.no_bound(inst, "trips of this loop"));
            };
            if trips > LARGEST_STACK {
                return Err(self.too_many(inst, trips));
            }
            for (&result, &yielded) in data.results[n..].iter().zip(&results[n..]) {
                let mut shape = vec![(trips as u32).max(1)];
                match self.arg(yielded) {
                    Arg::Stack(inner) => shape.extend(inner),
                    Arg::Data => {}
                    Arg::Handle(..) | Arg::Handles(_) => {
                        let what = "a buffer or pointer that reverse mode must keep in a loop";
                        return Err(self.planner.refuse(what, "which one it is changes", data.span));
                    }
                }
                let all = shape.iter().fold(1u64, |all, &n| all.saturating_mul(n.into()));
                if all > LARGEST_STACK {
                    return Err(self.too_many(inst, all));
                }
                self.set(result, Arg::Stack(shape));
            }
        }
        Ok(())
    }

    /// Facts about all cells that hold stacks, for detecting changes.
    fn cells(&self) -> Vec<(Value, Arg)> {
        let types = &self.planner.module.types;
        let is_cell = |v: Value| matches!(types[self.f.ty(v)], TypeData::Cell(_));
        let mut list: Vec<(Value, Arg)> =
            self.instance.values.iter().filter(|(v, _)| is_cell(**v)).map(|(&v, a)| (v, a.clone())).collect();
        list.sort_by_key(|c| c.0);
        list
    }

    fn no_bound(&self, inst: Inst, events: &str) -> Unsupported {
        let message = format!(
            "the maximum number of {events} is not known, and reverse mode must keep values of each trip"
        );
        self.unbounded(inst, message)
    }

    fn too_many(&self, inst: Inst, trips: u64) -> Unsupported {
        let message = format!(
            "it may run {trips} times in all, and reverse mode must keep values of each trip, of {LARGEST_STACK} at most"
        );
        self.unbounded(inst, message)
    }

    fn unbounded(&self, inst: Inst, message: String) -> Unsupported {
        let span = self.f.insts[inst].span;
        let mut error = self.planner.refuse("a loop that is run backwards", message, span);
        error.code = crate::OPEN;
        error.help = Some(
            "give it `[MaxIters(n)]`, or write a kernel that calls the function: its threads have an arena for what they keep".into(),
        );
        error
    }

    /// Returns true if an access through the path covers less than a whole word of raw memory.
    fn is_part_of_word(&self, handle: Value, path: &Path) -> bool {
        let module = self.planner.module;
        let TypeData::Buffer(element) = module.types[self.f.ty(handle)] else { return false };
        scalar_at(module, element, path).is_some_and(|s| s.bytes() < 4)
    }
}
