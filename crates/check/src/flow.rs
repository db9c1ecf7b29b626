//! Where a derivative would be lost without a word.
//!
//! Inside of a differentiable function two things are found of each place in it:
//! - forwards, which variables may *carry* a derivative (they depend on a differentiable input), and
//! - backwards, which are *needed* (the differentiable results depend on them).
//!
//! Both are may-analyses over the statements as they are nested: what is assigned as a whole is as new, arms are joined,
//! loops are repeated until nothing is added (the sets only grow, and there are finitely many variables). Fields,
//! components and elements with known indices of a variable are told apart, one level deep. A derivative is lost by
//! - a call of a function without derivatives, where an argument carries one and the result is needed, and
//! - an assignment of a value that carries one to a place that has none.
//!
//! Both have to be said: by `no_diff` and by `detach`. When in doubt a program is accepted.
//!
//! Generic functions are looked at twice. As declared, where `T` has the derivatives that its constraints say; and for the
//! arguments of each instance, where it may have more. What is lost only there is zero by Slang's rules, since
//! differentiability is that of declarations: a warning says which.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::{BinaryOp, DeclKind, UnaryOp};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::cut::Cuts;
use crate::program::Program;
use crate::signature::{Level, Subst};
use crate::tables::{FuncRef, Meaning};
use crate::types::{Ty, TyKind, Val};
use crate::views::View;

/// A part of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Field(DeclId),
    /// A component, or an element with a known index.
    Element(u64),
}

/// A variable, or a part of it. `this` has the function's own id.
pub(crate) type Key = (DeclId, Option<Part>);

/// A fact about a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// It carries a derivative, or is needed for one.
    Derivative,
    /// It is made of something that carries one, and its type has none: see [`crate::cut`].
    Cut,
    /// On some path something has been assigned to it since it was declared without a value: see [`crate::unset`].
    Set,
    /// On some path nothing has been. The last of the marks, so that these can be taken out.
    Unset,
}

/// The question that a function is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Derivatives that get lost, and variables that are read too early.
    Derivatives,
    /// Variables only: the function is not differentiable.
    Variables,
    /// True if its result is made from the bits of its arguments. Nothing is reported.
    Bits,
}

/// Marks of variables, or of parts of them.
pub(crate) type Places = BTreeSet<(Mark, DeclId, Option<Part>)>;

/// Which way the analysis goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// What is known of one function.
pub(crate) struct Flow<'p> {
    pub(crate) p: &'p mut Program,
    pub(crate) direction: Direction,
    pub(crate) purpose: Purpose,
    /// What carries a derivative, or is needed, at the place that has been reached.
    pub(crate) places: Places,
    /// The types that were asked if nothing gives a part of them a value.
    pub(crate) unset_types: FxHashMap<Ty, bool>,
    /// Expressions that carry a derivative.
    pub(crate) carried: FxHashSet<ExprId>,
    /// Calls of methods that do not name `this`, where it carries one.
    pub(crate) this_carried: FxHashSet<ExprId>,
    /// Expressions whose derivative is cut.
    pub(crate) cuts: Cuts,
    /// Parameters that are outputs only.
    pub(crate) written: Vec<DeclId>,
    /// Places that are read before they are set; true of those that are so on some paths only.
    pub(crate) unset_uses: BTreeMap<(ExprId, DeclId, Option<Part>), bool>,
    /// What holds where `break` goes to, from the outside in, and `continue`: backwards what is needed there,
    /// forwards what has come together.
    pub(crate) breaks: Vec<Places>,
    pub(crate) continues: Vec<Places>,
    /// What is needed where the function is left.
    pub(crate) outputs: Places,
    /// Inside of what may not be run to its end, where assignments do not replace what is there.
    pub(crate) weak: u32,
    pub(crate) loops: u32,
    /// The type of `this`, which is a variable that has the function's own id.
    pub(crate) this_ty: Ty,
    /// `this` is a differentiable result.
    pub(crate) this_returns: bool,
    /// `this` has no derivative, and nobody says that this is meant.
    pub(crate) plain_this: bool,
    /// The result is differentiable.
    pub(crate) returns: bool,
    pub(crate) decl: DeclId,
    pub(crate) level: Level,
    /// The module that the function is in.
    pub(crate) view: View,
    /// The generic arguments of the instance, if it is one that is looked at.
    pub(crate) subst: Subst,
    pub(crate) is_instance: bool,
    pub(crate) depth: u32,
    pub(crate) value_depth: u32,
    /// The expressions that are being looked at, each within the one before.
    pub(crate) open: FxHashSet<ExprId>,
}

impl Program {
    /// Checks a differentiable function for derivatives that get lost. Idempotent.
    pub fn check_flow(&mut self, decl: DeclId) {
        if self.flow_checked.insert(decl) {
            self.flow_of(decl, Subst::default());
        }
    }

    /// Checks an instance of a generic function, too. It is asked for once.
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

    /// True if a function makes its result from the bits of numbers that it is given. It is looked at as if all of its
    /// inputs that can do so carried a derivative.
    pub(crate) fn gives_bits(&mut self, decl: DeclId) -> bool {
        if let Some(&known) = self.bits_given.get(&decl) {
            return known;
        }
        // A call of itself gives what the other paths do. Chains of calls are followed so far.
        if self.bits_depth > 32 {
            return false;
        }
        self.bits_given.insert(decl, false);
        self.bits_depth += 1;
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
            flow.forward(body);
        }
        let found = flow.cuts.is_result;
        self.bits_depth -= 1;
        self.bits_given.insert(decl, found);
        found
    }
}

impl<'p> Flow<'p> {
    /// The state at a function's start.
    fn of(p: &'p mut Program, decl: DeclId, subst: Subst, purpose: Purpose) -> Flow<'p> {
        let level = p.level(decl);
        let signature = p.raw_signature(decl);
        let view = View::of(p.asking(decl));
        let mut flow = Flow {
            unset_types: FxHashMap::default(),
            p,
            direction: Direction::Forward,
            purpose,
            written: Vec::new(),
            unset_uses: BTreeMap::new(),
            places: Places::new(),
            carried: FxHashSet::default(),
            this_carried: FxHashSet::default(),
            cuts: Cuts::default(),
            breaks: Vec::new(),
            continues: Vec::new(),
            outputs: Places::new(),
            weak: 0,
            loops: 0,
            this_ty: signature.this.as_ref().map_or(Ty::ERROR, |this| this.ty),
            this_returns: signature.this.as_ref().is_some_and(|this| this.differentiable && this.mutating),
            plain_this: false,
            returns: signature.ret_differentiable,
            decl,
            level,
            view,
            is_instance: !subst.is_empty(),
            subst,
            depth: 0,
            value_depth: 0,
            open: FxHashSet::default(),
        };
        if let DeclKind::Init { .. } = flow.p.ast.decls[decl].kind {
            flow.this_ty = signature.ret;
            flow.this_returns = signature.ret_differentiable;
            flow.declare_unset(decl);
        }
        if let Some(this) = &signature.this {
            let p = &mut flow.p;
            flow.plain_this =
                p.differentiability(this.ty, false) == (false, false) && !p.says_no_diff_this(decl);
        }
        if purpose == Purpose::Derivatives {
            if signature.this.as_ref().is_some_and(|this| this.differentiable) {
                flow.places.insert((Mark::Derivative, decl, None));
            }
            if flow.this_returns {
                flow.outputs.insert((Mark::Derivative, decl, None));
            }
        }
        let outputs = signature.params.iter().filter(|p| p.dir == crate::Direction::Out);
        flow.written = outputs.filter_map(|p| p.decl).collect();
        for output in flow.written.clone() {
            flow.declare_unset(output);
        }
        for param in signature.params.iter().filter(|_| purpose == Purpose::Derivatives) {
            let Some(decl) = param.decl.filter(|_| param.differentiable) else { continue };
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
        self.forward(body);
        self.check_outputs_set(self.p.ast.decls[self.decl].name_span);
        self.report_unset();
        if self.purpose != Purpose::Derivatives {
            return;
        }
        self.direction = Direction::Backward;
        self.places.clone_from(&self.outputs);
        self.backward(body);
    }
}

impl Program {
    /// A condition on types, which is known for these arguments: what is not taken may not even make sense for them.
    pub fn known_condition(&mut self, cond: ExprId, subst: &Subst) -> Option<bool> {
        match self.tables.exprs[cond].meaning.clone() {
            Meaning::TypeIs(subject, ty) => {
                let (subject, ty) = (self.substitute(subject, subst), self.substitute(ty, subst));
                Some(match self.types[ty] {
                    TyKind::Interface(..) => self.is_conforming(subject, ty),
                    _ => subject == ty,
                })
            }
            Meaning::Same(inner) => self.known_condition(inner, subst),
            Meaning::Unary(UnaryOp::Not, inner) => self.known_condition(inner, subst).map(|c| !c),
            Meaning::Binary(BinaryOp::And, a, b) => match self.known_condition(a, subst)? {
                true => self.known_condition(b, subst),
                false => Some(false),
            },
            Meaning::Binary(BinaryOp::Or, a, b) => match self.known_condition(a, subst)? {
                true => Some(true),
                false => self.known_condition(b, subst),
            },
            _ => None,
        }
    }
}

impl Flow<'_> {
    /// Reports something once, however often the place is passed.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.purpose != Purpose::Derivatives {
            return;
        }
        let (code, span): (&str, Span) = (diagnostic.code, diagnostic.primary.span);
        if !self.p.diagnostics.iter().any(|d| d.code == code && d.primary.span == span) {
            self.p.report(diagnostic);
        }
    }

    /// True if any part of a place carries a derivative now, or is needed.
    pub(crate) fn holds(&self, key: Key) -> bool {
        self.has(Mark::Derivative, key)
    }

    /// True if any part of a place is marked.
    pub(crate) fn has(&self, mark: Mark, (decl, part): Key) -> bool {
        match part {
            Some(_) => self.places.contains(&(mark, decl, None)) || self.places.contains(&(mark, decl, part)),
            None => {
                self.places.range((mark, decl, None)..).next().is_some_and(|p| (p.0, p.1) == (mark, decl))
            }
        }
    }

    /// From here on a place is another: what held of it does no more.
    pub(crate) fn forget(&mut self, (decl, part): Key) {
        if self.weak > 0 {
            return;
        }
        match part {
            Some(_) => {
                for mark in [Mark::Derivative, Mark::Cut] {
                    // What holds of the whole does so of the other parts.
                    if self.places.contains(&(mark, decl, None))
                        && let Some(parts) = self.parts(decl)
                    {
                        self.places.remove(&(mark, decl, None));
                        self.places.extend(parts.into_iter().map(|part| (mark, decl, Some(part))));
                    }
                    self.places.remove(&(mark, decl, part));
                }
            }
            None => {
                for mark in [Mark::Derivative, Mark::Cut] {
                    while let Some(&held) = self.places.range((mark, decl, None)..).next()
                        && (held.0, held.1) == (mark, decl)
                    {
                        self.places.remove(&held);
                    }
                }
            }
        }
    }

    /// A place carries a derivative.
    pub(crate) fn carry(&mut self, (decl, part): Key) {
        let ty = self.variable_ty(decl);
        if self.direction == Direction::Forward
            && self.may_carry(ty)
            && (decl != self.decl || self.this_returns)
        {
            self.places.insert((Mark::Derivative, decl, part));
        }
    }

    /// All parts of a variable, if they are few.
    fn parts(&mut self, decl: DeclId) -> Option<Vec<Part>> {
        let ty = self.p.substitute(self.variable_ty(decl), &self.subst);
        let elements = |n: i64| (n <= 16).then(|| (0..n.max(0) as u64).map(Part::Element).collect());
        match self.p.types[ty] {
            TyKind::Struct(..) => {
                let fields = self.p.fields(ty).into_iter();
                Some(fields.filter(|field| !field.2).map(|field| Part::Field(field.0)).collect())
            }
            TyKind::Vector(_, Val::Int(n)) | TyKind::Array(_, Some(Val::Int(n))) => elements(n),
            _ => None,
        }
    }

    /// The type of a variable, or of `this`.
    pub(crate) fn variable_ty(&self, decl: DeclId) -> Ty {
        if decl == self.decl { self.this_ty } else { self.p.tables.decl_types[decl].unwrap_or(Ty::ERROR) }
    }

    /// True if values of a type have a derivative, for the arguments of this instance.
    pub(crate) fn has_differential(&mut self, ty: Ty) -> bool {
        let ty = self.p.substitute(ty, &self.subst);
        self.p.differential(ty).is_some()
    }

    /// Values of an interface without derivatives may hold what has one.
    pub(crate) fn may_carry(&mut self, ty: Ty) -> bool {
        self.has_differential(ty) || matches!(self.p.types[ty], TyKind::Interface(..))
    }
}
