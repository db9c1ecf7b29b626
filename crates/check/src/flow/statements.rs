//! Analyses derivatives in statements, forwards and backwards: see [`crate::flow`].
//!
//! Both passes walk over the structured statements. Branches start from one state, and their resulting states
//! are joined; a loop is repeated until an iteration adds nothing. The sets only grow in a loop, so this
//! terminates; a deeply nested loop is left to the enclosing loops to repeat.

use syntax::ast::{DeclKind, StmtKind};
use syntax::{DeclId, ExprId, StmtId};

use crate::flow::{Direction, Flow, Mark, Places};

/// Adds all marks; returns true if any of them was new.
pub(crate) fn join(places: &mut Places, more: &Places) -> bool {
    let before = places.len();
    places.extend(more.iter().copied());
    places.len() != before
}

impl Flow<'_> {
    /// Runs both branches from the same state and joins the resulting states.
    fn either(&mut self, then: Option<StmtId>, otherwise: Option<StmtId>, go: fn(&mut Self, StmtId)) {
        let before = self.places.clone();
        if let Some(then) = then {
            go(self, then);
        }
        let after = std::mem::replace(&mut self.places, before);
        if let Some(otherwise) = otherwise {
            go(self, otherwise);
        }
        join(&mut self.places, &after);
    }

    /// The branches of an `if` on types that are compiled.
    fn taken(
        &mut self,
        cond: ExprId,
        then: StmtId,
        otherwise: Option<StmtId>,
    ) -> (Option<StmtId>, Option<StmtId>) {
        match self.p.known_condition(cond, &self.subst).filter(|_| self.is_instance) {
            Some(true) => (Some(then), None),
            Some(false) => (None, otherwise),
            None => (Some(then), otherwise),
        }
    }

    fn enter(&mut self) -> bool {
        self.depth += 1;
        self.depth <= 1500
    }

    /// Returns true if a loop is nested so deeply that the enclosing loops have to repeat it; otherwise the
    /// time would be exponential in the depth. Such a loop kills no facts, so that each iteration only adds
    /// marks.
    fn enter_loop(&mut self) -> bool {
        self.loops += 1;
        let is_deep = self.loops > 3;
        self.weak += u32::from(is_deep);
        is_deep
    }

    fn leave_loop(&mut self) {
        self.weak -= u32::from(self.loops > 3);
        self.loops -= 1;
    }

    pub(crate) fn forward(&mut self, stmt: StmtId) {
        if self.enter() {
            self.forward_kind(stmt);
        }
        self.depth -= 1;
    }

    fn forward_kind(&mut self, stmt: StmtId) {
        match self.p.ast.stmts[stmt].kind.clone() {
            StmtKind::Block(stmts) => stmts.into_iter().for_each(|s| self.forward(s)),
            StmtKind::Expr(expr) => {
                self.expr(expr, false);
            }
            StmtKind::Decl(decls) => decls.into_iter().for_each(|decl| self.declare(decl)),
            StmtKind::If { cond, then, otherwise } => {
                self.expr(cond, false);
                let (then, otherwise) = self.taken(cond, then, otherwise);
                self.either(then, otherwise, Self::forward);
            }
            StmtKind::IfLet { var, then, otherwise } => {
                self.declare(var);
                self.either(Some(then), otherwise, Self::forward);
            }
            StmtKind::For { init, cond, step, body } => {
                if let Some(init) = init {
                    self.forward(init);
                }
                self.loop_forward(cond, body, step, false);
            }
            StmtKind::While { cond, body } => self.loop_forward(Some(cond), body, None, false),
            StmtKind::DoWhile { body, cond } => self.loop_forward(None, body, Some(cond), true),
            StmtKind::Switch { scrutinee, cases } => {
                self.expr(scrutinee, false);
                let has_default = cases.iter().any(|case| case.labels.contains(&None));
                let entry = self.places.clone();
                self.breaks.push(Places::new());
                for case in cases {
                    // Control may also come from the previous case.
                    join(&mut self.places, &entry);
                    case.body.into_iter().for_each(|s| self.forward(s));
                }
                if !has_default {
                    join(&mut self.places, &entry);
                }
                let broken = self.breaks.pop().unwrap_or_default();
                join(&mut self.places, &broken);
            }
            StmtKind::TargetSwitch(cases) => {
                // Only the CPU's case has been checked; in the other cases nothing is known to carry a
                // derivative.
                self.take_unset();
                let entry = self.places.clone();
                for case in cases {
                    join(&mut self.places, &entry);
                    case.1.into_iter().for_each(|s| self.forward(s));
                }
                join(&mut self.places, &entry);
                self.take_unset();
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.expr(value, false);
                    self.cuts.is_result |= self.is_cut(value);
                }
                self.check_outputs_set(self.p.ast.stmts[stmt].span);
                self.places.clear();
            }
            StmtKind::Break => {
                if let Some(to) = self.breaks.last_mut() {
                    join(to, &self.places);
                }
                self.places.clear();
            }
            StmtKind::BreakTo { .. } => {
                for to in &mut self.breaks {
                    join(to, &self.places);
                }
                self.places.clear();
            }
            StmtKind::Continue => {
                if let Some(to) = self.continues.last_mut() {
                    join(to, &self.places);
                }
                self.places.clear();
            }
            StmtKind::DoCatch { body, catches, .. } => {
                self.weak += 1;
                self.forward(body);
                self.weak -= 1;
                let entry = self.places.clone();
                for catch in catches {
                    join(&mut self.places, &entry);
                    self.forward(catch.1);
                }
                join(&mut self.places, &entry);
            }
            StmtKind::Throw(value) => {
                self.expr(value, false);
                self.take_unset();
            }
            StmtKind::Try(var) => {
                if let DeclKind::Var { init: Some(call), .. } = self.p.ast.decls[var].kind {
                    self.expr(call, false);
                }
            }
            StmtKind::Defer(body) => {
                // The statement runs later, when more places are set.
                let unset = self.take_unset();
                self.weak += 1;
                self.forward(body);
                self.weak -= 1;
                self.places.extend(unset);
            }
            StmtKind::Labeled { body, .. } => {
                self.breaks.push(Places::new());
                self.forward(body);
                let broken = self.breaks.pop().unwrap_or_default();
                join(&mut self.places, &broken);
            }
            StmtKind::Discard | StmtKind::Unsupported(_) | StmtKind::IntrinsicAsm(_) | StmtKind::Error => {
                self.take_unset();
            }
            StmtKind::Empty => {}
        }
    }

    /// Visits the declaration of a variable and its initial value.
    fn declare(&mut self, decl: DeclId) {
        let DeclKind::Var { init, .. } = self.p.ast.decls[decl].kind else { return };
        let needed = self.direction == Direction::Backward && self.holds((decl, None));
        let parts = init.map_or(Vec::new(), |init| self.parts_needed(init, decl));
        if self.direction == Direction::Backward {
            self.forget((decl, None));
        }
        let carried = init.is_some_and(|init| self.value(init, parts, needed));
        if self.direction == Direction::Forward {
            self.forget((decl, None));
            if carried {
                self.carry((decl, None));
            }
            match init {
                Some(init) if self.is_cut(init) => {
                    self.places.insert((Mark::Cut, decl, None));
                }
                Some(_) => {}
                None => self.declare_unset(decl),
            }
        }
    }

    /// Follows a loop until an iteration adds nothing. The body runs at least once in a `do` loop.
    fn loop_forward(&mut self, before: Option<ExprId>, body: StmtId, after: Option<ExprId>, runs_once: bool) {
        self.breaks.push(Places::new());
        let is_deep = self.enter_loop();
        loop {
            let entry = self.places.clone();
            if let Some(before) = before {
                self.expr(before, false);
            }
            self.continues.push(Places::new());
            self.forward(body);
            let continued = self.continues.pop().unwrap_or_default();
            join(&mut self.places, &continued);
            if let Some(after) = after {
                self.expr(after, false);
            }
            let end = std::mem::replace(&mut self.places, entry);
            if !join(&mut self.places, &end) || is_deep {
                match runs_once {
                    true => self.places = end,
                    false => self.leave_unset(&end, before),
                }
                break;
            }
        }
        self.leave_loop();
        let broken = self.breaks.pop().unwrap_or_default();
        join(&mut self.places, &broken);
    }

    pub(crate) fn backward(&mut self, stmt: StmtId) {
        if self.enter() {
            self.backward_kind(stmt);
        }
        self.depth -= 1;
    }

    fn backward_kind(&mut self, stmt: StmtId) {
        match self.p.ast.stmts[stmt].kind.clone() {
            StmtKind::Block(stmts) => stmts.into_iter().rev().for_each(|s| self.backward(s)),
            StmtKind::Expr(expr) => {
                self.expr(expr, false);
            }
            StmtKind::Decl(decls) => decls.into_iter().rev().for_each(|decl| self.declare(decl)),
            StmtKind::If { cond, then, otherwise } => {
                let (then, otherwise) = self.taken(cond, then, otherwise);
                self.either(then, otherwise, Self::backward);
                self.expr(cond, false);
            }
            StmtKind::IfLet { var, then, otherwise } => {
                self.either(Some(then), otherwise, Self::backward);
                self.declare(var);
            }
            StmtKind::For { init, cond, step, body } => {
                self.loop_backward(cond, body, step, false);
                if let Some(init) = init {
                    self.backward(init);
                }
            }
            StmtKind::While { cond, body } => self.loop_backward(Some(cond), body, None, false),
            StmtKind::DoWhile { body, cond } => self.loop_backward(None, body, Some(cond), true),
            StmtKind::Switch { scrutinee, cases } => {
                let after = self.places.clone();
                let mut all = after.clone();
                self.breaks.push(after);
                for case in cases.into_iter().rev() {
                    // The next case follows if this one does not leave.
                    case.body.into_iter().rev().for_each(|s| self.backward(s));
                    join(&mut all, &self.places);
                }
                self.breaks.pop();
                self.places = all;
                self.expr(scrutinee, false);
            }
            StmtKind::TargetSwitch(cases) => {
                let after = self.places.clone();
                let mut all = after.clone();
                for case in cases {
                    self.places.clone_from(&after);
                    case.1.into_iter().rev().for_each(|s| self.backward(s));
                    join(&mut all, &self.places);
                }
                self.places = all;
            }
            StmtKind::Return(value) => {
                self.places.clone_from(&self.outputs);
                if let Some(value) = value {
                    self.expr(value, self.returns);
                }
            }
            StmtKind::Break => {
                let to = self.breaks.last().cloned().unwrap_or_default();
                self.places = to;
            }
            StmtKind::BreakTo { .. } => {
                self.places.clear();
                for to in &self.breaks {
                    self.places.extend(to.iter().copied());
                }
            }
            StmtKind::Continue => {
                let to = self.continues.last().cloned().unwrap_or_default();
                self.places = to;
            }
            StmtKind::DoCatch { body, catches, .. } => {
                let after = self.places.clone();
                let mut all = after.clone();
                for catch in catches {
                    self.places.clone_from(&after);
                    self.backward(catch.1);
                    join(&mut all, &self.places);
                }
                self.places = all;
                self.weak += 1;
                self.backward(body);
                self.weak -= 1;
            }
            StmtKind::Throw(value) => {
                self.expr(value, false);
            }
            StmtKind::Try(var) => {
                if let DeclKind::Var { init: Some(call), .. } = self.p.ast.decls[var].kind {
                    self.expr(call, false);
                }
            }
            StmtKind::Defer(body) => {
                self.weak += 1;
                self.backward(body);
                self.weak -= 1;
            }
            StmtKind::Labeled { body, .. } => {
                self.breaks.push(self.places.clone());
                self.backward(body);
                self.breaks.pop();
            }
            StmtKind::Empty
            | StmtKind::Discard
            | StmtKind::Unsupported(_)
            | StmtKind::IntrinsicAsm(_)
            | StmtKind::Error => {}
        }
    }

    /// Follows a loop backward until an iteration adds nothing.
    fn loop_backward(
        &mut self,
        before: Option<ExprId>,
        body: StmtId,
        after: Option<ExprId>,
        runs_once: bool,
    ) {
        let exit = self.places.clone();
        let mut head = if runs_once { Places::new() } else { exit.clone() };
        let is_deep = self.enter_loop();
        loop {
            self.places.clone_from(&head);
            join(&mut self.places, &exit);
            if let Some(after) = after {
                self.expr(after, false);
            }
            self.breaks.push(exit.clone());
            self.continues.push(self.places.clone());
            self.backward(body);
            self.breaks.pop();
            self.continues.pop();
            if let Some(before) = before {
                self.expr(before, false);
            }
            if !join(&mut head, &self.places) || is_deep {
                break;
            }
        }
        self.leave_loop();
        self.places = head;
    }
}
