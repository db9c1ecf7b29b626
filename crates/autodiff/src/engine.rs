//! State shared by the passes: the module, the functions made so far, and the problems found.
//!
//! Each pass is a memoised method `Engine::pass(func) -> Func`. A pass works in two steps, so that the module
//! can grow while it is read: it first requests the derivatives of all callees, then builds the result.

use cranelift_entity::{EntitySet, PrimaryMap, SecondaryMap};
use ir::{Builder, Cycles, Func, Function, Inst, Module, Op, Origin, Slot, Span, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Options;
use crate::activity::Activity;
use crate::results::{Checkpoints, Footprint, Halves, Marks, Problem, Steps, Unzipped};
use crate::second::Layers;
use crate::shape::{Mask, Mode, Shape};

/// The maximum number of instructions in the derivatives of a program, before inlining and other
/// optimisations. Each order of differentiation takes about three times as many as the one before.
const MOST_MADE: usize = 1 << 19;
/// The same limit per instruction of the source program, for large programs.
const MOST_MADE_OF_ONE: usize = 64;

/// The state of differentiation; see the head of this file.
pub(crate) struct Engine<'m> {
    pub(crate) module: &'m mut Module,
    pub(crate) options: Options,
    pub(crate) found: Found,
    pub(crate) made: Made,
    pub(crate) roles: Roles,
    pub(crate) facts: Facts,
    /// The functions whose requests are only checked: see [`Options::only_problems`].
    pub(crate) never_run: EntitySet<Func>,
    /// The functions whose requests have been resolved.
    pub(crate) resolved: FxHashSet<Func>,
    /// The functions that a pass is working on, to detect recursion.
    pub(crate) running: Vec<Func>,
    /// A number may be added to a differential without an error.
    pub(crate) numbers_may_be_added: bool,
    /// Factors by which memory costs more than usual, for user functions with a budget.
    pub(crate) thrift: FxHashMap<Func, u64>,
    /// The loops that are reversed in segments for a budget.
    pub(crate) budgeted: FxHashSet<Span>,
    /// Record a footprint for each function that is split.
    pub(crate) measuring: bool,
    /// The number of instructions made so far, and the limit on it.
    pub(crate) n_made: usize,
    pub(crate) most_made: usize,
    names: Names,
}

/// The results besides functions.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    /// Calls in forward mode of functions that have only a backward derivative.
    pub(crate) lost: Vec<crate::lost::Lost>,
    /// The report of kept values, if it was requested.
    pub(crate) kept: Option<Checkpoints>,
    /// The results of all steps, if they were requested.
    pub(crate) steps: Option<Steps>,
    /// The footprint of each primal half, with the user function or segment that it derives from.
    pub(crate) footprints: FxHashMap<Func, (Func, Footprint)>,
}

/// The results of each pass, by function.
#[derive(Default)]
pub(crate) struct Made {
    /// See [`crate::stand_in`].
    pub(crate) stand_ins: FxHashMap<(Func, Mode), Func>,
    pub(crate) linearized: FxHashMap<(Func, Mask, Mode, Layers), Func>,
    /// The second derivatives of functions with a custom forward derivative.
    pub(crate) second_of_rules: FxHashMap<(Func, Mask, Layers), Option<Func>>,
    pub(crate) propagated: FxHashMap<(Func, Mask), Option<Func>>,
    pub(crate) unzipped: FxHashMap<Func, Option<Unzipped>>,
    pub(crate) transposed: FxHashMap<Func, Func>,
    pub(crate) forwards: FxHashMap<Func, Option<Func>>,
    pub(crate) backwards: FxHashMap<Func, Option<Func>>,
    pub(crate) decisions: FxHashMap<Func, Func>,
    /// See [`crate::decisions`].
    pub(crate) traced: FxHashMap<Func, Func>,
    /// The loops that are reversed with a bounded number of states, by the function that runs them.
    pub(crate) binomials: FxHashMap<Func, crate::segment::Binomial>,
    /// See [`crate::segment`].
    pub(crate) split: Option<Func>,
    /// The halves that backward derivatives call.
    pub(crate) halves: FxHashMap<Func, Halves>,
    pub(crate) unmarked: crate::results::Unmarked,
}

/// How functions and calls take tangents beside values.
#[derive(Default)]
pub(crate) struct Roles {
    /// Functions of the form `(params…, tangents…) -> (results…, tangents…)`, made here or by users.
    pub(crate) shapes: FxHashMap<Func, Shape>,
    /// The derivatives in forward mode that `linearize` has made, and what they are made of.
    pub(crate) forward: FxHashMap<Func, Func>,
    /// The calls that `linearize` emitted for calls: operands and results beyond the callee's [`Shape`] are
    /// tangents.
    pub(crate) derivative_calls: FxHashSet<(Func, Inst)>,
}

/// The results of analyses, by function.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) activity: Activity,
    pub(crate) marks: Marks,
    pub(crate) cycles: Cycles,
    /// Functions without requests, in themselves or in any function they call.
    pub(crate) without_requests: EntitySet<Func>,
    /// Functions without marks that call only functions without marks.
    pub(crate) plain: EntitySet<Func>,
    /// The forward derivatives that [`Engine::note_if_affine`] has examined.
    pub(crate) affine_known: FxHashSet<Func>,
    /// The number of instructions of functions, including their callees, once per call.
    pub(crate) trees: FxHashMap<Func, u64>,
    /// The number of calls of each function in marked functions.
    pub(crate) marked_calls: SecondaryMap<Func, u32>,
    /// The marked functions that have been copied into their callers.
    pub(crate) copied: EntitySet<Func>,
    /// Functions already reported as having too many calls while they cannot be run again.
    pub(crate) bushes: EntitySet<Func>,
    /// The cost of calling a function again; `None` if it must not be called again.
    pub(crate) call_costs: FxHashMap<Func, Option<u64>>,
    /// Memoised results of [`Engine::differs`].
    pub(crate) traces_differ: FxHashMap<(Func, bool), bool>,
    /// The user functions that are called in loops.
    pub(crate) called_in_loops: Option<EntitySet<Func>>,
}

/// The names of functions.
struct Names {
    taken: FxHashSet<String>,
    /// The last number appended to each base name.
    numbers: FxHashMap<String, usize>,
}

impl<'m> Engine<'m> {
    pub(crate) fn new(module: &'m mut Module) -> Engine<'m> {
        let taken = module.funcs.values().map(|f| f.name.clone()).collect();
        let given: usize = module.funcs.values().map(|f| f.insts.len()).sum();
        let most_made = given.saturating_mul(MOST_MADE_OF_ONE);
        Engine {
            module,
            options: Options::default(),
            found: Found::default(),
            made: Made::default(),
            roles: Roles::default(),
            facts: Facts::default(),
            never_run: EntitySet::new(),
            resolved: FxHashSet::default(),
            running: Vec::new(),
            numbers_may_be_added: false,
            thrift: FxHashMap::default(),
            budgeted: FxHashSet::default(),
            measuring: false,
            n_made: 0,
            most_made: MOST_MADE.max(most_made),
            names: Names { taken, numbers: FxHashMap::default() },
        }
    }

    /// The function of the program that `func` derives from.
    pub(crate) fn user_function(&self, func: Func) -> Func {
        self.module.origins(func).last().unwrap_or(func)
    }

    /// The name of the function of the program that `func` derives from.
    pub(crate) fn user_name(&self, func: Func) -> &str {
        &self.module.funcs[self.user_function(func)].name
    }

    /// Returns true if differentiation made a function.
    pub(crate) fn is_generated(&self, func: Func) -> bool {
        self.module.funcs[func].origin != Origin::Program
    }

    /// Returns true if a function is a segment of a loop.
    pub(crate) fn is_segment(&self, func: Func) -> bool {
        match self.module.funcs[func].origin {
            Origin::Segment(_) => true,
            Origin::Variant(of) => self.is_segment(of),
            _ => false,
        }
    }

    /// A name that no function has yet: `base`, or `base` with a number appended.
    pub(crate) fn unique(&mut self, base: String) -> String {
        if self.names.taken.insert(base.clone()) {
            return base;
        }
        let n = self.names.numbers.entry(base.clone()).or_insert(1);
        loop {
            *n += 1;
            let name = format!("{base}_{n}");
            if self.names.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Declares a function: a signature without a body. It has the attributes of the one that it is made of.
    pub(crate) fn declare(
        &mut self,
        name: String,
        origin: Origin,
        params: Vec<Slot>,
        results: Vec<Slot>,
    ) -> Func {
        let name = self.unique(name);
        let declared = Function { name, params, results, origin, ..Function::default() };
        let made = self.module.funcs.push(declared);
        if let Some(like) = origin.parent() {
            let Function { inline, checkpoint, fast_math, span, .. } = self.module.funcs[like];
            let declared = &mut self.module.funcs[made];
            (declared.inline, declared.checkpoint) = (inline, checkpoint);
            (declared.fast_math, declared.span) = (fast_math, span);
        }
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

    /// Gives a declared function a body: `build` makes it from the parameters and returns the results.
    pub(crate) fn wrap(
        &mut self,
        made: Func,
        build: impl FnOnce(&mut Builder, &PrimaryMap<Func, Function>, &[Value]) -> Vec<Value>,
    ) -> Func {
        let Function { params, results, span, .. } = self.module.funcs[made].clone();
        let Module { types, funcs, .. } = &mut *self.module;
        let mut b = Builder::new(types, String::new());
        b.span = span;
        let args: Vec<Value> = params.into_iter().map(|slot| b.param(slot)).collect();
        let values = build(&mut b, funcs, &args);
        let body = b.finish(values, results);
        self.define(made, body);
        made
    }

    /// Copies a function for which `is_copied` is true, along with such functions that it calls, directly or
    /// through others, and changes the copies.
    pub(crate) fn copy_with_callees(
        &mut self,
        func: Func,
        suffix: &str,
        copies: &mut FxHashMap<Func, Func>,
        is_copied: &dyn Fn(&Function) -> bool,
        change: &dyn Fn(&mut Function),
    ) -> Func {
        if !is_copied(&self.module.funcs[func]) {
            return func;
        }
        if let Some(&known) = copies.get(&func) {
            return known;
        }
        let mut copy = self.module.funcs[func].clone();
        for data in copy.insts.values_mut() {
            if let Op::Call(callee) = data.op {
                data.op = Op::Call(self.copy_with_callees(callee, suffix, copies, is_copied, change));
            }
        }
        change(&mut copy);
        copy.name = self.unique(format!("{}_{suffix}", copy.name));
        copy.origin = Origin::Variant(func);
        let made = self.module.funcs.push(copy);
        self.inherit_derivatives(made, func);
        copies.insert(func, made);
        made
    }

    /// Returns true, and reports a problem, if a function of which a derivative is asked for is marked to have none.
    pub(crate) fn refuses(&mut self, func: Func, span: Span) -> bool {
        let is_last = self.module.witness(func).last;
        if is_last {
            self.problem(span, "E0925", "a derivative is asked for of one that is marked `[LastDerivative]`");
        }
        is_last
    }

    /// Reports the problems from number `first` on that are inside of the library at the call that led there.
    pub(crate) fn report_at_call(&mut self, first: usize, span: Span) {
        for problem in &mut self.found.problems[first..] {
            if self.module.is_library(problem.span) {
                problem.span = span;
            }
        }
    }

    pub(crate) fn problem(&mut self, span: Span, code: &'static str, message: impl Into<String>) {
        let problem = Problem { span, code, message: message.into() };
        if !self.found.problems.contains(&problem) {
            self.found.problems.push(problem);
        }
    }
}
