//! State shared by the passes: the module, the functions made so far, and the problems found.
//!
//! Each pass is a memoised method `Engine::pass(func) -> Func`. A pass works in two steps, so that the module
//! can grow while it is read: it first requests the derivatives of all callees, then builds the result.

use cranelift_entity::EntitySet;
use ir::{Cycles, Func, Function, Inst, Module, Slot, Span, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Problem;
use crate::activity::Activity;
use crate::checkpoint::measure::Footprint;
use crate::propagate::Marks;
use crate::report::KeptValue;
use crate::request::Halves;
use crate::unzip::Unzipped;

/// How the linear program is used: run as it is, or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Tangents are wanted.
    Forward,
    /// The linear part will be transposed: functions known by their vjp alone may be called.
    Reverse,
}

/// Selects parameters or results.
pub(crate) type Mask = Box<[bool]>;

/// The maximum number of instructions in the derivatives of a program, before inlining and other
/// optimisations. Each order of differentiation takes about three times as many as the one before.
const MOST_MADE: usize = 1 << 19;
/// The same limit per instruction of the source program, for large programs.
const MOST_MADE_OF_ONE: usize = 64;

/// The state of differentiation; see the head of this file.
pub(crate) struct Engine<'m> {
    pub(crate) module: &'m mut Module,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// Calls in forward mode of functions that have only a backward derivative: the derivative that contains
    /// the call, the location of the call, and the callee.
    pub(crate) lost: Vec<(Func, Span, Func)>,
    /// See [`crate::Options::unasked`].
    pub(crate) unasked: Vec<Func>,
    /// A number may be added to a differential without an error.
    pub(crate) numbers_may_be_added: bool,
    pub(crate) activity: Activity,
    pub(crate) marks: Marks,
    pub(crate) cycles: Cycles,
    /// Segments of loops with `[Checkpoint]`.
    pub(crate) segments: EntitySet<Func>,
    /// See [`crate::stand_in`].
    pub(crate) stand_ins: FxHashMap<(Func, Mode), Func>,
    pub(crate) linearized: FxHashMap<(Func, Mask, Mode), Func>,
    /// Functions of the form `(params…, tangents…) -> (results…, tangents…)`, made here or by users.
    pub(crate) shapes: FxHashMap<Func, Shape>,
    /// The calls that `linearize` emitted for calls: operands and results beyond the callee's [`Shape`] are
    /// tangents.
    pub(crate) derivative_calls: FxHashSet<(Func, Inst)>,
    pub(crate) propagated: FxHashMap<(Func, Mask), Option<Func>>,
    pub(crate) unzipped: FxHashMap<Func, Option<Unzipped>>,
    /// The linear halves that [`Engine::unzip`] made for transposition.
    pub(crate) linear_halves: EntitySet<Func>,
    pub(crate) transposed: FxHashMap<Func, Func>,
    pub(crate) forwards: FxHashMap<Func, Option<Func>>,
    pub(crate) backwards: FxHashMap<Func, Option<Func>>,
    /// The halves that backward derivatives call.
    pub(crate) halves: FxHashMap<Func, Halves>,
    /// The functions that pullbacks and pushforwards are differentiated as, each with the function that it
    /// belongs to.
    pub(crate) wholes: FxHashMap<Func, Func>,
    pub(crate) resolved: FxHashSet<Func>,
    /// Functions without requests, in themselves or in any function they call.
    pub(crate) without_requests: EntitySet<Func>,
    /// Functions without marks that call only functions without marks.
    pub(crate) plain: EntitySet<Func>,
    /// The functions that a pass is working on, to detect recursion.
    pub(crate) running: Vec<Func>,
    /// The forward derivatives that [`Engine::note_if_affine`] has examined.
    pub(crate) affine_known: FxHashSet<Func>,
    /// The report of kept values, if it was requested.
    pub(crate) kept_values: Option<Vec<KeptValue>>,
    /// Factors by which memory costs more than usual, for user functions with a budget.
    pub(crate) thrift: FxHashMap<Func, u64>,
    /// The number of instructions of functions, including their callees, once per call.
    pub(crate) trees: FxHashMap<Func, u64>,
    /// Functions already reported as having too many calls while they cannot be run again.
    pub(crate) bushes: EntitySet<Func>,
    /// The number of instructions made so far, and the limit on it.
    pub(crate) n_made: usize,
    pub(crate) most_made: usize,
    /// The cost of calling a function again; `None` if it must not be called again.
    pub(crate) call_costs: FxHashMap<Func, Option<u64>>,
    /// Record a footprint for each function that is split.
    pub(crate) measuring: bool,
    /// The footprint of each primal half, with the user function that it derives from.
    pub(crate) footprints: FxHashMap<Func, (Func, Footprint)>,
    /// The user functions that are called in loops.
    pub(crate) called_in_loops: Option<EntitySet<Func>>,
    /// The user function that each generated function derives from.
    pub(crate) origins: FxHashMap<Func, Func>,
    /// Mark differentials in user-written derivatives.
    pub(crate) mark_custom: bool,
    /// See [`crate::Options::tidy`].
    pub(crate) tidy: Option<fn(&mut Module, Func) -> bool>,
    pub(crate) unmarked: crate::rule::Unmarked,
    names: FxHashSet<String>,
    /// The last number appended to each base name.
    numbers: FxHashMap<String, usize>,
}

/// The number of parameters and results of a forward derivative that precede the tangents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) params: usize,
    pub(crate) results: usize,
}

impl<'m> Engine<'m> {
    pub(crate) fn new(module: &'m mut Module) -> Engine<'m> {
        crate::upward::run(module);
        let names = module.funcs.values().map(|f| f.name.clone()).collect();
        let given: usize = module.funcs.values().map(|f| f.insts.len()).sum();
        let most_made = given.saturating_mul(MOST_MADE_OF_ONE);
        let pullbacks = module.witnesses.values().filter(|w| w.is_same);
        let wholes = pullbacks.filter_map(|w| w.substitute).map(|whole| (whole, whole)).collect();
        Engine {
            module,
            problems: Vec::new(),
            warnings: Vec::new(),
            lost: Vec::new(),
            unasked: Vec::new(),
            numbers_may_be_added: false,
            activity: Activity::default(),
            marks: Marks::default(),
            cycles: Cycles::default(),
            segments: EntitySet::new(),
            kept_values: None,
            thrift: FxHashMap::default(),
            trees: FxHashMap::default(),
            bushes: EntitySet::new(),
            n_made: 0,
            most_made: MOST_MADE.max(most_made),
            call_costs: FxHashMap::default(),
            measuring: false,
            footprints: FxHashMap::default(),
            called_in_loops: None,
            mark_custom: false,
            tidy: None,
            stand_ins: FxHashMap::default(),
            linearized: FxHashMap::default(),
            shapes: FxHashMap::default(),
            derivative_calls: FxHashSet::default(),
            running: Vec::new(),
            affine_known: FxHashSet::default(),
            propagated: FxHashMap::default(),
            unzipped: FxHashMap::default(),
            linear_halves: EntitySet::new(),
            transposed: FxHashMap::default(),
            forwards: FxHashMap::default(),
            backwards: FxHashMap::default(),
            halves: FxHashMap::default(),
            wholes,
            resolved: FxHashSet::default(),
            without_requests: EntitySet::new(),
            origins: FxHashMap::default(),
            unmarked: FxHashMap::default(),
            names,
            numbers: FxHashMap::default(),
            plain: EntitySet::new(),
        }
    }

    /// Records the function that `made` derives from.
    pub(crate) fn inherit_origin(&mut self, made: Func, from: Func) {
        let origin = self.origins.get(&from).copied().unwrap_or(from);
        self.origins.insert(made, origin);
    }

    /// The name of the user function that `func` derives from.
    pub(crate) fn origin_name(&self, func: Func) -> &str {
        let origin = self.origins.get(&func).copied().unwrap_or(func);
        &self.module.funcs[origin].name
    }

    /// A name that no function has yet: `base`, or `base` with a number appended.
    pub(crate) fn unique(&mut self, base: String) -> String {
        if self.names.insert(base.clone()) {
            return base;
        }
        let n = self.numbers.entry(base.clone()).or_insert(1);
        loop {
            *n += 1;
            let name = format!("{base}_{n}");
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Declares a function: a signature without a body.
    pub(crate) fn declare(
        &mut self,
        name: String,
        like: Func,
        params: Vec<Slot>,
        results: Vec<Slot>,
    ) -> Func {
        let name = self.unique(name);
        let origin = self.origins.get(&like).copied().unwrap_or(like);
        let like = &self.module.funcs[like];
        let declared = Function {
            name,
            params,
            results,
            inline: like.inline,
            checkpoint: like.checkpoint,
            fast_math: like.fast_math,
            is_half: like.is_half,
            span: like.span,
            ..Function::default()
        };
        let made = self.module.funcs.push(declared);
        self.origins.insert(made, origin);
        made
    }

    /// Gives a declared function its body. The declaration's name and slots stay.
    pub(crate) fn define(&mut self, func: Func, body: Function) {
        self.n_made += body.insts.len();
        let declared = &mut self.module.funcs[func];
        declared.values = body.values;
        declared.insts = body.insts;
        declared.regions = body.regions;
    }

    pub(crate) fn problem(&mut self, span: Span, code: &'static str, message: impl Into<String>) {
        let problem = Problem { span, code, message: message.into() };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// A slot for the tangent (or cotangent) of another slot.
pub(crate) fn tangent_slot(of: &Slot, linear: bool) -> Slot {
    let name = of.name.as_ref().map(|name| format!("d_{name}").into());
    Slot { ty: of.ty, diff: true, linear, name }
}

/// A slot without a name; `diff` if its type can have a tangent.
pub(crate) fn plain_slot(types: &ir::Types, ty: Type, linear: bool) -> Slot {
    Slot { ty, diff: types.is_differentiable(ty), linear, name: None }
}

/// The items of `all` that the mask selects.
pub(crate) fn select<'a, T>(all: &'a [T], mask: &'a [bool]) -> impl Iterator<Item = &'a T> {
    all.iter().zip(mask).filter(|(_, named)| **named).map(|(item, _)| item)
}

/// The parameters of a function's body.
pub(crate) fn params(func: &Function) -> &[Value] {
    &func.regions[func.body()].params
}
