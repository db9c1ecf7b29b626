//! Plans the emission of a module: finds the memory that each handle may refer to, how that memory is used,
//! and how many elements each stack can have.
//!
//! A device has no pointers to buffers: every access names its buffer. Functions are therefore specialised
//! for each combination of buffers that their handles may refer to ([`Arg`]), and likewise for the sizes of
//! the stacks passed to them. An *instance* is a function together with facts about its parameters; instances
//! are found by walking the code from the entry points. A handle that may refer to several buffers keeps the
//! whole set, and a number at run time selects one of them.

use cranelift_entity::EntitySet;
use indexmap::IndexMap;
use ir::{
    Func, Global, Inst, MemData, MemType, Module, Path, Place, Scalar, Space, Step, Type, TypeData, Value,
};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

mod walk;

use walk::Walker;

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

impl Arg {
    /// A handle of one of these, without an offset.
    fn handle(bases: Vec<Base>) -> Arg {
        Arg::Handle(bases, false)
    }

    /// A handle of one of these that may have an offset.
    fn moved(bases: Vec<Base>) -> Arg {
        Arg::Handle(bases, true)
    }
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

/// The maximum number of elements of a stack that is a local array, those of the stacks in it included.
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

    /// An instance and those that it calls.
    pub(crate) fn reached(&self, instance: usize) -> FxHashSet<usize> {
        let (mut seen, mut open) = (FxHashSet::default(), vec![instance]);
        while let Some(instance) = open.pop() {
            if seen.insert(instance) {
                open.extend(self.instances[instance].calls.values());
            }
        }
        seen
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
            let why = "it calls itself, and cannot be a loop: its calls pass on buffers from memory, or reach a \
                       barrier or an operation of a wave, or no kernel calls it";
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
fn open_path(module: &Module, element: MemType, path: &Path) -> Box<[Step]> {
    let open = |k: usize| match module.mem.part_at(element, &path.0[..k]) {
        Some(ty) if matches!(module.mem[ty], MemData::Array(..)) => Step::Dynamic,
        _ => path.0[k],
    };
    (0..path.0.len()).map(open).collect()
}

/// The kind of number at the leaf that a path reaches.
pub(crate) fn scalar_at(module: &Module, element: MemType, path: &Path) -> Option<Scalar> {
    let mut ty = match module.mem.select(element, &path.0)?.target {
        Place::Row(s, _) | Place::Lane(s) => return Some(s),
        Place::Mem(ty) => ty,
    };
    while let MemData::Array(t, _) = module.mem[ty] {
        ty = t;
    }
    match module.mem[ty] {
        MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => Some(s),
        MemData::Struct { .. } | MemData::Handle(_) | MemData::Array(..) => None,
    }
}
