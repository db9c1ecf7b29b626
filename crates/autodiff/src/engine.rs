//! What the passes share: the module, what has been made already, and the problems found.
//!
//! Each pass is a method `Engine::pass(func) -> Func`, memoised. A pass works in two steps, so that the
//! module can grow while it is read: first it asks for the derivatives of all callees, then it builds.

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

/// Whether the tangent program is to be run as it is, or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Tangents are wanted.
    Forward,
    /// The linear part will be transposed: functions known by their vjp alone may be called.
    Reverse,
}

/// Which parameters (or results).
pub(crate) type Mask = Box<[bool]>;

/// How many instructions the derivatives of a program may take before they are inlined and the like. Each order takes
/// some three times as many as the one before.
const MOST_MADE: usize = 1 << 19;
/// The same for each instruction of a program that is large itself.
const MOST_MADE_OF_ONE: usize = 64;

/// See the head of this file.
pub(crate) struct Engine<'m> {
    pub(crate) module: &'m mut Module,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// Calls in forward mode of functions with a backward derivative alone: in which function that was made.
    pub(crate) lost: Vec<(Func, Span, Func)>,
    /// See [`crate::Options::unasked`].
    pub(crate) unasked: Vec<Func>,
    /// Whether a number that is added to a differential is let pass.
    pub(crate) numbers_may_be_added: bool,
    pub(crate) activity: Activity,
    pub(crate) marks: Marks,
    pub(crate) cycles: Cycles,
    /// Parts of loops with `[Checkpoint]`.
    pub(crate) segments: EntitySet<Func>,
    /// See [`crate::stand_in`].
    pub(crate) stand_ins: FxHashMap<(Func, Mode), Func>,
    pub(crate) linearized: FxHashMap<(Func, Mask, Mode), Func>,
    /// Functions of the form `(params…, tangents…) -> (results…, tangents…)`, made here or by users.
    pub(crate) shapes: FxHashMap<Func, Shape>,
    /// The calls that `linearize` put for a call: all operands and results after the first are tangents.
    pub(crate) derivative_calls: FxHashSet<(Func, Inst)>,
    pub(crate) propagated: FxHashMap<(Func, Mask), Option<Func>>,
    pub(crate) unzipped: FxHashMap<Func, Option<Unzipped>>,
    /// What [`Engine::unzip`] made to be transposed.
    pub(crate) linear_halves: EntitySet<Func>,
    pub(crate) transposed: FxHashMap<Func, Func>,
    pub(crate) forwards: FxHashMap<Func, Option<Func>>,
    pub(crate) backwards: FxHashMap<Func, Option<Func>>,
    /// The halves that backward derivatives call.
    pub(crate) halves: FxHashMap<Func, Halves>,
    /// What is differentiated in a pullback's place, and whose pullback it is.
    pub(crate) wholes: FxHashMap<Func, Func>,
    pub(crate) resolved: FxHashSet<Func>,
    /// Functions with nothing to resolve in them or in what they call.
    pub(crate) without_requests: EntitySet<Func>,
    /// Functions without marks, as all that they call.
    pub(crate) plain: EntitySet<Func>,
    /// What a pass is working on, to notice recursion.
    pub(crate) running: Vec<Func>,
    /// The forward derivatives that [`Engine::note_if_affine`] has looked at.
    pub(crate) affine_known: FxHashSet<Func>,
    /// What is kept, if that is asked for.
    pub(crate) kept_values: Option<Vec<KeptValue>>,
    /// How much more than usual memory counts, in users' functions with a budget.
    pub(crate) thrift: FxHashMap<Func, u64>,
    /// How many instructions functions and all that they call have.
    pub(crate) trees: FxHashMap<Func, u64>,
    /// Functions of which it is reported that they cannot be run again though their calls are too many.
    pub(crate) bushes: EntitySet<Func>,
    /// How many instructions were made so far, and how many may be.
    pub(crate) n_made: usize,
    pub(crate) most_made: usize,
    /// What it costs to call a function again, where that does no harm.
    pub(crate) call_costs: FxHashMap<Func, Option<u64>>,
    /// Whether to find out how much is kept.
    pub(crate) measuring: bool,
    /// What is kept by each primal half, and for which function of the user's.
    pub(crate) footprints: FxHashMap<Func, (Func, Footprint)>,
    /// The users' functions that are called in loops.
    pub(crate) called_in_loops: Option<EntitySet<Func>>,
    /// The user's function that a made one came from.
    pub(crate) origins: FxHashMap<Func, Func>,
    /// Whether users' derivatives get marks of differentials.
    pub(crate) mark_custom: bool,
    /// See [`crate::Options::tidy`].
    pub(crate) tidy: Option<fn(&mut Module, Func) -> bool>,
    pub(crate) unmarked: crate::rule::Unmarked,
    names: FxHashSet<String>,
    /// The last number that came after a name.
    numbers: FxHashMap<String, usize>,
}

/// How many parameters and results of a forward derivative come before the tangents.
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

    /// Notes what a function was made from.
    pub(crate) fn inherit_origin(&mut self, made: Func, from: Func) {
        let origin = self.origins.get(&from).copied().unwrap_or(from);
        self.origins.insert(made, origin);
    }

    /// The user's name for what `func` was made from.
    pub(crate) fn origin_name(&self, func: Func) -> &str {
        let origin = self.origins.get(&func).copied().unwrap_or(func);
        &self.module.funcs[origin].name
    }

    /// A name that no function has: `base`, or `base` with a number.
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

    /// Declares a function: signature, no body yet.
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

    /// Gives a declared function its body; the declaration's name and slots stay.
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

/// A slot for the tangent (or cotangent) of another.
pub(crate) fn tangent_slot(of: &Slot, linear: bool) -> Slot {
    let name = of.name.as_ref().map(|name| format!("d_{name}").into());
    Slot { ty: of.ty, diff: true, linear, name }
}

/// A slot without a name; `diff` if its type can have a tangent.
pub(crate) fn plain_slot(types: &ir::Types, ty: Type, linear: bool) -> Slot {
    Slot { ty, diff: types.is_differentiable(ty), linear, name: None }
}

/// The items of `all` that the mask names.
pub(crate) fn select<'a, T>(all: &'a [T], mask: &'a [bool]) -> impl Iterator<Item = &'a T> {
    all.iter().zip(mask).filter(|(_, named)| **named).map(|(item, _)| item)
}

/// The parameters of a function's body.
pub(crate) fn params(func: &Function) -> &[Value] {
    &func.regions[func.body()].params
}
