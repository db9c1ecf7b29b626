//! Plans the emission of a module: finds the memory that each handle may refer to, how that memory is used,
//! and how many elements each stack can have.
//!
//! A device has no pointers to buffers: every access names its buffer. Functions are therefore specialised
//! for each combination of buffers that their handles may refer to ([`Arg`]), and likewise for the sizes of
//! the stacks passed to them. An *instance* is a function together with facts about its parameters; instances
//! are found by walking the code from the entry points. A handle that may refer to several buffers keeps the
//! whole set, and a number at run time selects one of them.

use cranelift_entity::{EntitySet, SecondaryMap};
use indexmap::IndexMap;
use ir::{
    AtomicOp, Func, Function, Global, Inst, MemData, MemType, Module, Op, Path, Region, Scalar, Space, Step,
    Type, TypeData, Value,
};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::bounds::Bounds;
use crate::{Target, Unsupported};

/// Memory that a handle refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Base {
    /// The null handle: loads return zero, stores do nothing.
    Null,
    /// A global.
    Global(Global),
    /// The memory that a global pointer points to.
    Pointee(Global),
}

/// Facts about a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Arg {
    /// The value consists of numbers only.
    #[default]
    Data,
    /// A handle of one of these, sorted; the flag is true if the handle may have an offset from the
    /// beginning.
    Handle(Vec<Base>, bool),
    /// An array of handles: the set of each element, in order.
    Handles(Vec<Vec<Base>>),
    /// A stack, or a cell that holds one: the number of elements at each level of nesting, from the outside
    /// in.
    Stack(Vec<u32>),
}

/// How a piece of memory is used.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// The type of an element.
    pub(crate) element: MemType,
    /// The memory is accessed as several element types, so it is declared as an array of words.
    pub(crate) raw: bool,
    /// The memory is written.
    pub(crate) written: bool,
    /// The memory is read.
    pub(crate) read: bool,
    /// Places of atomic operations, with array indices left open.
    pub(crate) atomics: Vec<(Path, Scalar)>,
    /// The words are atomic: some accesses write parts of a word, or an atomic operation works on a word.
    pub(crate) atomic_words: bool,
    /// Atomic operations on floats only add and exchange, which devices may support natively.
    pub(crate) only_sums: bool,
}

/// A function specialised for facts about its parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instance {
    /// Facts about those of its values that are not plain numbers.
    pub(crate) values: FxHashMap<Value, Arg>,
    /// Facts about its results.
    pub(crate) results: Vec<Arg>,
    /// The instance of each call.
    pub(crate) calls: FxHashMap<Inst, usize>,
    /// The function.
    pub(crate) func: Option<Func>,
    /// Facts about its parameters.
    pub(crate) params: Vec<Arg>,
}

/// The result of planning.
pub(crate) struct Plan {
    /// Instances by number.
    pub(crate) instances: Vec<Instance>,
    /// How each piece of memory is used.
    pub(crate) uses: IndexMap<Base, Use, FxBuildHasher>,
    /// The instance of each requested function.
    pub(crate) roots: Vec<usize>,
    /// The private globals in use, in the order of their discovery.
    pub(crate) private: Vec<Global>,
}

/// The maximum number of elements of a stack that is a local array.
const LARGEST_STACK: u64 = 1 << 16;

struct Planner<'m> {
    module: &'m Module,
    target: Target,
    group: [u32; 3],
    plan: Plan,
    known: FxHashMap<(Func, Vec<Arg>), usize>,
    open: EntitySet<Func>,
    /// Sets of buffers that a single handle may refer to.
    merged: Vec<Vec<Base>>,
    /// The instance of each private global's initialiser.
    inits: FxHashMap<Global, usize>,
}

impl Plan {
    /// Walks everything that the functions reach.
    pub(crate) fn new(
        module: &Module,
        target: Target,
        roots: &[Func],
        group: [u32; 3],
    ) -> Result<Plan, Unsupported> {
        let plan =
            Plan { instances: Vec::new(), uses: IndexMap::default(), roots: Vec::new(), private: Vec::new() };
        let mut planner = Planner {
            module,
            target,
            group,
            plan,
            known: FxHashMap::default(),
            open: EntitySet::new(),
            merged: Vec::new(),
            inits: FxHashMap::default(),
        };
        for &func in roots {
            let f = &module.funcs[func];
            if let Some(slot) = f.params.iter().find(|s| holds_handle(module, s.ty)) {
                let name = slot.name.as_deref().unwrap_or("a parameter");
                let why = format!("`{name}` is a buffer or pointer that no entry point gives");
                return Err(planner.refuse(format!("the function `{}`", f.name), why, f.span));
            }
            let params = vec![Arg::Data; f.params.len()];
            let root = planner.instance(func, params)?;
            planner.plan.roots.push(root);
        }
        // Initialisers may use further globals.
        let mut at = 0;
        while at < planner.plan.private.len() {
            let global = planner.plan.private[at];
            if let Some(init) = module.globals[global].init {
                let instance = planner.instance(init, Vec::new())?;
                planner.inits.insert(global, instance);
            }
            at += 1;
        }
        planner.close();
        Ok(planner.plan)
    }

    /// The instance of a function that has no parameters.
    pub(crate) fn find(&self, func: Func) -> Option<usize> {
        self.instances.iter().position(|i| i.func == Some(func) && i.params.is_empty())
    }
}

/// Returns true if values of the type contain a handle.
pub(crate) fn holds_handle(module: &Module, ty: Type) -> bool {
    match module.types[ty] {
        TypeData::Buffer(_) => true,
        TypeData::Array(t, _) | TypeData::Stack(t) | TypeData::Cell(t) => holds_handle(module, t),
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Residuals(_) => false,
    }
}

impl Planner<'_> {
    fn refuse(&self, what: impl Into<String>, why: impl Into<String>, span: ir::Span) -> Unsupported {
        Unsupported::new(self.target, what, why, span)
    }

    /// Propagates `raw` to all memory that shares a handle with raw memory, and sorts the uses.
    fn close(&mut self) {
        loop {
            let mut changed = false;
            for set in &self.merged {
                let is_raw = set.iter().any(|b| self.plan.uses.get(b).is_some_and(|u| u.raw));
                for base in set.iter().filter(|_| is_raw) {
                    if let Some(usage) = self.plan.uses.get_mut(base) {
                        changed |= !usage.raw;
                        usage.raw = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        for usage in self.plan.uses.values_mut().filter(|u| u.raw && !u.atomics.is_empty()) {
            usage.atomic_words = true;
        }
        // Sort in the order of declaration in the source; globals without a location come last.
        let module = self.module;
        let place = |g: Global| {
            let span = module.globals[g].span;
            if span == ir::Span::NONE { (u32::MAX, u32::MAX) } else { (span.file, span.start) }
        };
        let order = |b: &Base| match *b {
            Base::Null => ((u32::MAX, u32::MAX), u32::MAX, false),
            Base::Global(g) => (place(g), g.as_u32(), false),
            Base::Pointee(g) => (place(g), g.as_u32(), true),
        };
        self.plan.uses.sort_by(|a, _, b, _| order(a).cmp(&order(b)));
    }

    fn instance(&mut self, func: Func, params: Vec<Arg>) -> Result<usize, Unsupported> {
        let key = (func, params);
        if let Some(&found) = self.known.get(&key) {
            return Ok(found);
        }
        let module = self.module;
        let f = &module.funcs[func];
        if !f.has_body() {
            return Err(self.refuse(format!("the function `{}`", f.name), "it has no body", f.span));
        }
        if !self.open.insert(func) {
            let why = "it calls itself, and devices have no recursion";
            return Err(self.refuse(format!("the function `{}`", f.name), why, f.span));
        }
        let mut walker = Walker {
            bounds: Bounds::new(&module.types, f, self.group),
            planner: self,
            f,
            uses: ir::walk::use_counts(f),
            instance: Instance { func: Some(func), params: key.1.clone(), ..Instance::default() },
        };
        for (&v, arg) in f.regions[f.body()].params.iter().zip(&key.1) {
            walker.set(v, arg.clone());
        }
        walker.region(f.body())?;
        let results = f.regions[f.body()].results.iter().map(|&v| walker.arg(v)).collect();
        let mut instance = walker.instance;
        instance.results = results;
        self.open.remove(func);
        let number = self.plan.instances.len();
        self.plan.instances.push(instance);
        self.known.insert(key, number);
        Ok(number)
    }

    fn usage(&mut self, base: Base) -> Option<&mut Use> {
        let module = self.module;
        let element = match base {
            Base::Null => return None,
            Base::Global(g) => {
                let data = &module.globals[g];
                if data.space == Space::Private && !self.plan.private.contains(&g) {
                    self.plan.private.push(g);
                }
                data.ty
            }
            Base::Pointee(g) => match module.mem[module.globals[g].ty] {
                MemData::Handle(element) => element,
                _ => return None,
            },
        };
        let fresh = || Use {
            element,
            raw: false,
            written: false,
            read: false,
            atomics: Vec::new(),
            atomic_words: false,
            only_sums: true,
        };
        Some(self.plan.uses.entry(base).or_insert_with(fresh))
    }
}

/// Walks one instance.
struct Walker<'a, 'm> {
    planner: &'a mut Planner<'m>,
    bounds: Bounds<'m>,
    f: &'m Function,
    /// The number of uses of each value.
    uses: SecondaryMap<Value, u32>,
    instance: Instance,
}

type Res<T = ()> = Result<T, Unsupported>;

impl Walker<'_, '_> {
    fn arg(&self, v: Value) -> Arg {
        self.instance.values.get(&v).cloned().unwrap_or_default()
    }

    fn set(&mut self, v: Value, arg: Arg) {
        match arg {
            Arg::Data => {}
            arg => {
                self.instance.values.insert(v, arg);
            }
        }
    }

    /// Joins `arg` into the facts about `v`; returns true if they changed.
    fn join(&mut self, v: Value, arg: Arg, span: ir::Span) -> Res<bool> {
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

    fn region(&mut self, region: Region) -> Res {
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
                self.set(data.results[0], Arg::Handle(vec![base], false));
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
            Op::Atomic(path, op) => {
                let read = self.uses[data.results[0]] > 0;
                let s = module.types.scalar_of(self.f.ty(data.results[0])).unwrap_or(Scalar::U32);
                for base in self.bases(data.args[0], span)? {
                    if let Base::Global(global) = base
                        && module.globals[global].space == Space::Private
                    {
                        let why = "no other thread sees it";
                        return Err(self.planner.refuse(
                            "an atomic operation on a thread's own variable",
                            why,
                            span,
                        ));
                    }
                    let open = Path(open_path(module, base, path));
                    if let Some(usage) = self.planner.usage(base) {
                        usage.written = true;
                        usage.read |= read;
                        // A lane of a vector cannot be addressed by itself, and part of a word is accessed
                        // through its word.
                        usage.raw |= ends_in_lane(module, usage.element, path) || s.bytes() < 4;
                        usage.only_sums &= matches!(op, AtomicOp::Add | AtomicOp::Exchange);
                        if !usage.atomics.iter().any(|(p, t)| *p == open && *t == s) {
                            // If several kinds of number are accessed atomically at one place, the memory
                            // holds their bits.
                            usage.raw |= usage.atomics.iter().any(|(p, t)| *p == open && *t != s);
                            usage.atomics.push((open, s));
                        }
                    }
                }
            }
            Op::BufferOffset => {
                let bases = self.bases(data.args[0], span)?;
                self.set(data.results[0], Arg::Handle(bases, true));
            }
            Op::BufferCast(_) => {
                let bases = self.bases(data.args[0], span)?;
                for &base in &bases {
                    if let Some(usage) = self.planner.usage(base) {
                        usage.raw = true;
                    }
                }
                self.set(data.results[0], Arg::Handle(bases, true));
            }
            Op::BufferLen | Op::BufferAddress => {
                self.bases(data.args[0], span)?;
            }
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
                    self.set(data.results[0], Arg::Handle(set, true));
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
                    self.set(data.results[0], Arg::Handle(all, true));
                }
                Arg::Stack(shape) if shape.len() > 1 => {
                    self.set(data.results[0], Arg::Stack(shape[1..].to_vec()));
                }
                _ => {}
            },
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
        self.set(result, Arg::Handle(targets, false));
        Ok(())
    }

    fn zero(&mut self, v: Value) {
        let types = &self.planner.module.types;
        match types[self.f.ty(v)] {
            TypeData::Buffer(_) => self.set(v, Arg::Handle(vec![Base::Null], false)),
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
                let Some(most) = most else { return Err(self.no_bound(inst, "what is added to")) };
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
                return Err(self.no_bound(inst, "this loop runs"));
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

    fn no_bound(&self, inst: Inst, what: &str) -> Unsupported {
        let message =
            format!("how often {what} at most is not known, and reverse mode must keep values of each trip");
        self.unbounded(inst, message)
    }

    fn too_many(&self, inst: Inst, trips: u64) -> Unsupported {
        let message = format!(
            "it may run {trips} times, and reverse mode must keep values of each trip, of {LARGEST_STACK} at most"
        );
        self.unbounded(inst, message)
    }

    fn unbounded(&self, inst: Inst, message: String) -> Unsupported {
        let span = self.f.insts[inst].span;
        let mut error = self.planner.refuse("a loop that is run backwards", message, span);
        error.code = "E0931";
        error.help = Some(
            "give it `[MaxIters(n)]`, or let reverse mode keep less with `[Checkpoint(n)]` or `[PreferRecompute]`".into(),
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

fn union(a: &mut Vec<Base>, b: &[Base]) {
    for base in b {
        if let Err(at) = a.binary_search(base) {
            a.insert(at, *base);
        }
    }
}

fn larger(a: &[u32], b: &[u32]) -> Vec<u32> {
    let at = |s: &[u32], k: usize| s.get(k).copied().unwrap_or(1);
    (0..a.len().max(b.len())).map(|k| at(a, k).max(at(b, k))).collect()
}

/// The path with all array indices left open.
fn open_path(module: &Module, base: Base, path: &Path) -> Box<[Step]> {
    let mut ty = match base {
        Base::Null => return path.0.clone(),
        Base::Global(g) => module.globals[g].ty,
        Base::Pointee(g) => match module.mem[module.globals[g].ty] {
            MemData::Handle(t) => t,
            _ => return path.0.clone(),
        },
    };
    let mut out = Vec::new();
    for &step in &path.0 {
        match (&module.mem[ty], step) {
            (MemData::Struct { fields, .. }, Step::Static(k)) if (k as usize) < fields.len() => {
                out.push(step);
                ty = fields[k as usize].1;
            }
            (MemData::Array(t, _), _) => {
                out.push(Step::Dynamic);
                ty = *t;
            }
            _ => out.push(step),
        }
    }
    out.into()
}

/// Returns true if a path ends in a lane of a vector or matrix.
fn ends_in_lane(module: &Module, mut ty: MemType, path: &Path) -> bool {
    for &step in &path.0 {
        ty = match (&module.mem[ty], step) {
            (MemData::Struct { fields, .. }, Step::Static(k)) if (k as usize) < fields.len() => {
                fields[k as usize].1
            }
            (MemData::Array(t, _), _) => *t,
            _ => return true,
        };
    }
    false
}

/// The kind of number at the leaf that a path reaches.
pub(crate) fn scalar_at(module: &Module, mut ty: MemType, path: &Path) -> Option<Scalar> {
    for &step in &path.0 {
        ty = match (&module.mem[ty], step) {
            (MemData::Struct { fields, .. }, Step::Static(k)) => fields.get(k as usize)?.1,
            (MemData::Array(t, _), _) => *t,
            _ => break,
        };
    }
    while let MemData::Array(t, _) = module.mem[ty] {
        ty = t;
    }
    match module.mem[ty] {
        MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => Some(s),
        MemData::Struct { .. } | MemData::Handle(_) | MemData::Array(..) => None,
    }
}
