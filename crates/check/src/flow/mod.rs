//! Finds derivatives that would be lost silently.
//!
//! Inside a differentiable function two facts are computed for each place:
//! - by the forward pass, which variables may *carry* a derivative (they depend on a differentiable input),
//!   and
//! - by the backward pass, which are *needed* (the differentiable results depend on them).
//!
//! Both are may-analyses over the graph of the body's statements: an assignment to a whole variable kills its
//! facts, and paths are joined until nothing is added (the sets only grow, and there are finitely many
//! variables). Fields, components and elements with known indices of a variable are distinguished, one
//! level deep. A derivative is lost by
//! - a call of a function without derivatives, where an argument carries one and the result is needed, and
//! - an assignment of a value that carries one to a place that has none.
//!
//! Both have to be made explicit: by `no_diff` and by `detach`. In case of doubt a program is accepted.
//!
//! Generic functions are analysed twice: as declared, where `T` has the derivatives that its constraints
//! state, and for the arguments of each instance, where it may have more. A derivative that is lost only in
//! an instance is zero by Slang's rules, since declarations determine differentiability: it causes a warning.

mod cut;
mod exceptions;
mod guards;
mod lost;
mod places;
mod statements;
mod unset;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::{BinaryOp, DeclKind, UnaryOp};
use syntax::{DeclId, Diagnostic, ExprId, StmtId};

use crate::flow::cut::Cuts;
use crate::program::Program;
use crate::signature::{Level, ParamSig, Subst, Tangent};
use crate::tables::{Callable, FuncRef, Meaning};
use crate::types::{Scalar, Ty, TyKind, Val};
use crate::view::View;

/// A part of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Field(DeclId),
    /// A component, or an element with a known index.
    Element(u64),
}

/// A variable, or a part of one. `this` is identified by the function's own id.
pub(crate) type Key = (DeclId, Option<Part>);

/// A fact about a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// The variable carries a derivative (forward), or is needed for one (backward).
    Derivative,
    /// The variable is computed from something that carries a derivative, but its type has none: see
    /// [`crate::flow::cut`].
    Cut,
    /// The variable was declared without a value and has been assigned on some path: see [`crate::flow::unset`].
    Set,
    /// The variable has not been assigned on some path. This is the last kind of mark, so that all of them
    /// can be split off.
    Unset,
}

/// The purpose for which a function is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Finds lost derivatives, and variables that are read too early.
    Derivatives,
    /// Finds such variables only: the function is not differentiable.
    Variables,
    /// Determines if the result is made from the bits of the arguments. Reports nothing.
    Bits,
}

/// Marks on variables, or on parts of them.
pub(crate) type Places = BTreeSet<(Mark, DeclId, Option<Part>)>;

/// The direction of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// The known facts about variables without a value.
#[derive(Default)]
pub(crate) struct Unset {
    /// Types mapped to true if some part of their default value is uninitialised, for the types examined so
    /// far.
    pub(crate) types: FxHashMap<Ty, bool>,
    /// Parameters that are outputs only.
    pub(crate) outputs: Vec<DeclId>,
    /// Reads of places that are not set, mapped to true if they are unset on some paths only.
    pub(crate) uses: BTreeMap<(ExprId, DeclId, Option<Part>), bool>,
}

/// The state of the analysis of one function.
pub(crate) struct Flow<'p> {
    pub(crate) p: &'p mut Program,
    pub(crate) direction: Direction,
    pub(crate) purpose: Purpose,
    /// The marks at the current point: what carries a derivative, or is needed.
    pub(crate) places: Places,
    pub(crate) unset: Unset,
    /// The code being visited may not run to its end, so assignments do not replace the old value.
    pub(crate) is_weak: bool,
    /// The expressions being visited, each nested within the previous one.
    pub(crate) open: FxHashSet<ExprId>,
    /// Expressions that carry a derivative.
    pub(crate) carried: FxHashSet<ExprId>,
    /// The `try`s on whose results a differentiable result depends.
    pub(crate) tried: FxHashSet<ExprId>,
    /// Calls of methods with an implicit `this`, where `this` carries a derivative.
    pub(crate) this_carried: FxHashSet<ExprId>,
    /// Expressions whose derivative is cut.
    pub(crate) cuts: Cuts,
    /// The places that are needed where the function returns.
    pub(crate) outputs: Places,
    /// The type of `this`, which is a variable identified by the function's own id.
    pub(crate) this_ty: Ty,
    /// `this` is a differentiable result.
    pub(crate) this_returns: bool,
    /// `this` has no derivative, and nothing in the program states that this is intended.
    pub(crate) plain_this: bool,
    /// The operand of the last `no_diff` that was visited.
    pub(crate) operand_of_no_diff: Option<ExprId>,
    /// The result is differentiable.
    pub(crate) returns: bool,
    pub(crate) decl: DeclId,
    pub(crate) level: Level,
    /// The module of the function, as a view.
    pub(crate) view: View,
    /// The generic arguments, if an instance is analysed.
    pub(crate) subst: Subst,
    pub(crate) is_instance: bool,
}

impl Program {
    /// Checks a differentiable function for lost derivatives. Idempotent.
    pub fn check_flow(&mut self, decl: DeclId) {
        if self.queries.flows.is_first(decl) {
            self.flow_of(decl, Subst::default());
        }
    }

    /// Checks an instance of a generic function as well. Callers request it once per instance.
    pub fn check_flow_of(&mut self, func: &FuncRef) {
        self.check_flow(func.decl);
        let subst = self.subst_of(func);
        let is_plain = subst.map.is_empty()
            && self
                .container_of(func.decl)
                .is_none_or(|c| !matches!(self.ast.decls[c].kind, DeclKind::Interface { .. }));
        if !is_plain {
            self.flow_of(func.decl, subst);
        }
    }

    fn flow_of(&mut self, decl: DeclId, subst: Subst) {
        let Some(body) = self.body_of(decl) else { return };
        if self.is_core(decl) {
            return;
        }
        let is_followed =
            self.level(decl) != Level::None && self.attribute(decl, "TreatAsDifferentiable").is_none();
        if !is_followed && !subst.is_empty() {
            return;
        }
        let purpose = if is_followed { Purpose::Derivatives } else { Purpose::Variables };
        Flow::of(self, decl, subst, purpose).check(body);
    }

    /// The expressions in the body of a differentiable function that carry a derivative; empty for other
    /// functions.
    pub fn active_expressions(&mut self, decl: DeclId) -> FxHashSet<ExprId> {
        let is_followed =
            self.level(decl) != Level::None && self.attribute(decl, "TreatAsDifferentiable").is_none();
        let Some(body) = self.body_of(decl).filter(|_| is_followed && !self.is_core(decl)) else {
            return FxHashSet::default();
        };
        self.body(decl);
        self.quietly(|p| {
            let mut flow = Flow::of(p, decl, Subst::default(), Purpose::Derivatives);
            let graph = flow.graph(body);
            flow.solve(&graph);
            flow.carried
        })
    }

    /// Returns true if a function without differentiable inputs has a derivative: that of the memory that it reads, which its
    /// author states (`DiffTensorView.load`), for the function or for one that it calls.
    pub(crate) fn reads_derivatives(&mut self, func: &FuncRef, view: View) -> bool {
        let signature = self.func_signature(func);
        let mut is_input = |p: &ParamSig| {
            p.dir != crate::Direction::Out
                && !p.no_diff
                && (p.has_tangent() || self.has_number(p.ty, Scalar::has_fraction))
        };
        if signature.params.iter().any(&mut is_input) || signature.has_differentiable_this() {
            return false;
        }
        let derivatives = self.derivatives_of(func, view);
        if derivatives.fwd.is_some() || derivatives.bwd.is_some() {
            return true;
        }
        let decl = func.decl;
        if let Some(&known) = self.queries.reads_derivatives.get(&decl) {
            return known;
        }
        // A recursive call contributes what the other calls do, and chains of calls are only followed to this depth.
        let body = self.body_of(decl).filter(|_| self.level(decl) != Level::None);
        let Some(body) = body.filter(|_| self.queries.reads_derivatives.open().len() <= 32) else {
            return false;
        };
        self.queries.reads_derivatives.begin_as(&decl, false);
        self.body(decl);
        let found = self.body_parts(body).0.into_iter().any(|e| {
            let callee = match self.tables.exprs[e].meaning.clone() {
                Meaning::Call { func: Callable::Func(callee), .. } => Some(callee),
                Meaning::Property { member, .. } => self.declared_accessors(&member).get,
                _ => None,
            };
            callee.is_some_and(|callee| self.reads_derivatives(&callee, view))
        });
        self.queries.reads_derivatives.finish(&decl, found);
        found
    }

    /// Returns true if a function computes its result from the bits of numbers in its arguments. The function
    /// is analysed as if all inputs that can carry a derivative did so.
    pub(crate) fn gives_bits(&mut self, decl: DeclId) -> bool {
        if let Some(&known) = self.queries.bits.get(&decl) {
            return known;
        }
        // A recursive call contributes what the other paths return. Chains of calls are only followed to this
        // depth.
        if self.queries.bits.open().len() > 32 {
            return false;
        }
        self.queries.bits.begin_as(&decl, false);
        self.body(decl);
        let signature = self.raw_signature(decl);
        let body = self.body_of(decl);
        let mut flow = Flow::of(self, decl, Subst::default(), Purpose::Bits);
        if signature.this.as_ref().is_some_and(|this| flow.has_differential(this.ty)) {
            flow.places.insert((Mark::Derivative, decl, None));
        }
        for param in signature.params.iter().filter(|p| p.dir != crate::Direction::Out) {
            if let Some(decl) = param.decl {
                flow.carry((decl, None));
            }
        }
        if let Some(body) = body {
            let graph = flow.graph(body);
            flow.solve(&graph);
        }
        let found = flow.cuts.is_result;
        self.queries.bits.finish(&decl, found);
        found
    }
}

impl<'p> Flow<'p> {
    /// The state at the start of a function.
    fn of(p: &'p mut Program, decl: DeclId, subst: Subst, purpose: Purpose) -> Flow<'p> {
        let level = p.level(decl);
        let signature = p.raw_signature(decl);
        let view = View::of(p.asking(decl));
        let mut flow = Flow {
            p,
            direction: Direction::Forward,
            purpose,
            places: Places::new(),
            unset: Unset::default(),
            is_weak: false,
            open: FxHashSet::default(),
            carried: FxHashSet::default(),
            tried: FxHashSet::default(),
            this_carried: FxHashSet::default(),
            cuts: Cuts::default(),
            outputs: Places::new(),
            this_ty: signature.this.as_ref().map_or(Ty::ERROR, |this| this.ty),
            this_returns: signature
                .this
                .as_ref()
                .is_some_and(|this| this.has_tangent() && this.dir.is_written()),
            plain_this: false,
            operand_of_no_diff: None,
            returns: signature.ret_tangent != Tangent::None,
            decl,
            level,
            view,
            is_instance: !subst.is_empty(),
            subst,
        };
        if let DeclKind::Init { .. } = flow.p.ast.decls[decl].kind {
            flow.this_ty = signature.ret;
            flow.this_returns = signature.ret_tangent != Tangent::None;
            flow.declare_unset(decl);
        }
        if let Some(this) = &signature.this {
            let p = &mut flow.p;
            flow.plain_this = p.tangent(this.ty) == Tangent::None && !p.says_no_diff_this(decl);
        }
        if purpose == Purpose::Derivatives {
            if signature.has_differentiable_this() {
                flow.places.insert((Mark::Derivative, decl, None));
            }
            if flow.this_returns {
                flow.outputs.insert((Mark::Derivative, decl, None));
            }
        }
        let outputs = signature.params.iter().filter(|p| p.dir == crate::Direction::Out);
        flow.unset.outputs = outputs.filter_map(|p| p.decl).collect();
        for output in flow.unset.outputs.clone() {
            flow.declare_unset(output);
        }
        for param in signature.params.iter().filter(|_| purpose == Purpose::Derivatives) {
            let Some(decl) = param.decl.filter(|_| param.has_tangent()) else { continue };
            if param.dir != crate::Direction::Out {
                flow.places.insert((Mark::Derivative, decl, None));
            }
            if param.dir.is_written() {
                flow.outputs.insert((Mark::Derivative, decl, None));
            }
        }
        flow
    }

    fn check(&mut self, body: StmtId) {
        let graph = self.graph(body);
        if !self.is_instance {
            self.check_paths(&graph);
        }
        self.solve(&graph);
        self.report_unset();
        if self.purpose == Purpose::Derivatives {
            self.direction = Direction::Backward;
            self.solve(&graph);
        }
    }
}

impl Program {
    /// Evaluates a condition on types that is known for these arguments: the branch not taken may not even
    /// make sense for them.
    pub fn known_condition(&mut self, cond: ExprId, subst: &Subst) -> Option<bool> {
        match self.tables.exprs[cond].meaning.clone() {
            Meaning::TypeIs(subject, ty) => {
                let (subject, ty) = (self.substitute(subject, subst), self.substitute(ty, subst));
                Some(match self.types[ty] {
                    TyKind::Interface(..) => self.conforms(subject, ty),
                    _ => subject == ty,
                })
            }
            Meaning::Same(inner) => self.known_condition(inner, subst),
            Meaning::Unary(UnaryOp::Not, inner) => self.known_condition(inner, subst).map(|c| !c),
            Meaning::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                match self.known_condition(a, subst)? {
                    first if first == (op == BinaryOp::Or) => Some(first),
                    _ => self.known_condition(b, subst),
                }
            }
            _ => self.known_value(cond, subst).map(|value| value != 0),
        }
    }

    /// The value of an integer expression of a generic function that is known for its arguments: only the branch that it
    /// selects is compiled, so a `static_assert` or a call that does not fit in another branch does no harm.
    pub fn known_value(&mut self, expr: ExprId, subst: &Subst) -> Option<i64> {
        if subst.map.is_empty() { None } else { self.const_int(expr, subst) }
    }
}

impl Flow<'_> {
    /// Reports a diagnostic once, however often the place is visited.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.purpose != Purpose::Derivatives {
            return;
        }
        self.p.report_once(diagnostic);
    }

    /// Returns true if any part of a place carries a derivative at this point, or is needed.
    pub(crate) fn holds(&self, key: Key) -> bool {
        self.has(Mark::Derivative, key)
    }

    /// Returns true if any part of a place is marked.
    pub(crate) fn has(&self, mark: Mark, (decl, part): Key) -> bool {
        match part {
            Some(_) => self.places.contains(&(mark, decl, None)) || self.places.contains(&(mark, decl, part)),
            None => {
                self.places.range((mark, decl, None)..).next().is_some_and(|p| (p.0, p.1) == (mark, decl))
            }
        }
    }

    /// The marks on a variable and on its parts.
    fn marks(&self, mark: Mark, decl: DeclId) -> Vec<(Mark, DeclId, Option<Part>)> {
        let from = self.places.range((mark, decl, None)..);
        from.take_while(|held| (held.0, held.1) == (mark, decl)).copied().collect()
    }

    /// Kills the facts about a place that gets a new value.
    pub(crate) fn forget(&mut self, (decl, part): Key) {
        if self.is_weak {
            return;
        }
        for mark in [Mark::Derivative, Mark::Cut] {
            if part.is_none() {
                for held in self.marks(mark, decl) {
                    self.places.remove(&held);
                }
                continue;
            }
            // A mark on the whole variable also holds for the other parts.
            if self.places.contains(&(mark, decl, None))
                && let Some(parts) = self.parts(decl)
            {
                self.places.remove(&(mark, decl, None));
                self.places.extend(parts.into_iter().map(|part| (mark, decl, Some(part))));
            }
            self.places.remove(&(mark, decl, part));
        }
    }

    /// Marks a place as carrying a derivative.
    pub(crate) fn carry(&mut self, (decl, part): Key) {
        let ty = self.variable_ty(decl);
        if self.direction == Direction::Forward
            && self.may_carry(ty)
            && (decl != self.decl || self.this_returns)
        {
            self.places.insert((Mark::Derivative, decl, part));
        }
    }

    /// All parts of a variable, if there are few.
    fn parts(&mut self, decl: DeclId) -> Option<Vec<Part>> {
        let ty = self.p.substitute(self.variable_ty(decl), &self.subst);
        let elements = |n: i64| (n <= 16).then(|| (0..n.max(0) as u64).map(Part::Element).collect());
        match self.p.types[ty] {
            TyKind::Struct(..) => {
                let fields = self.p.fields(ty).into_iter();
                Some(fields.filter(|field| !field.2).map(|field| Part::Field(field.0)).collect())
            }
            TyKind::Vector(_, Val::Int(n), _) | TyKind::Array(_, Some(Val::Int(n))) => elements(n),
            _ => None,
        }
    }

    /// The type of a variable, or of `this`.
    pub(crate) fn variable_ty(&self, decl: DeclId) -> Ty {
        if decl == self.decl { self.this_ty } else { self.p.tables.decl_types[decl].unwrap_or(Ty::ERROR) }
    }

    /// Returns true if values of a type have a derivative, for the arguments of this instance.
    pub(crate) fn has_differential(&mut self, ty: Ty) -> bool {
        let ty = self.p.substitute(ty, &self.subst);
        self.p.differential(ty).is_some()
    }

    /// Returns true if values of a type have a derivative, or lead to places that have one: what is read
    /// through a differentiable pointer depends on the pointer.
    pub(crate) fn is_active_type(&mut self, ty: Ty) -> bool {
        let ty = self.p.substitute(ty, &self.subst);
        self.p.tangent(ty) != Tangent::None
    }

    /// Returns true if values of a type may carry a derivative. This includes values of an interface without
    /// derivatives, which may contain a type that has one.
    pub(crate) fn may_carry(&mut self, ty: Ty) -> bool {
        self.is_active_type(ty) || matches!(self.p.types[ty], TyKind::Interface(..))
    }
}
