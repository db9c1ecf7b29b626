//! Analyses derivatives in statements, forwards and backwards: see [`crate::flow`].
//!
//! Both passes walk over the structured statements. Branches start from one state, and their resulting states
//! are joined; a loop is repeated until an iteration adds nothing. The sets only grow in a loop, so this
//! terminates; a deeply nested loop is left to the enclosing loops to repeat.

use crate::flow::Direction;
use crate::prelude::*;

/// Adds all marks; returns true if any of them was new.
pub(crate) fn join(places: &mut Places, more: &Places) -> bool {
    let before = places.len();
    places.extend(more.iter().copied());
    places.len() != before
}

/// How often a loop runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    AnyNumber,
    AtLeastOnce,
}

impl Flow<'_> {
    /// Runs both branches from the same state and joins the resulting states.
    fn either(&mut self, then: Option<StmtId>, otherwise: Option<StmtId>) {
        let before = self.places.clone();
        if let Some(then) = then {
            self.statement(then);
        }
        let after = std::mem::replace(&mut self.places, before);
        if let Some(otherwise) = otherwise {
            self.statement(otherwise);
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

    /// Returns true if a loop is nested so deeply that the enclosing loops have to repeat it; otherwise the
    /// time would be exponential in the depth. Such a loop kills no facts, so that each iteration only adds
    /// marks.
    fn enter_loop(&mut self) -> bool {
        self.control.loops += 1;
        let is_deep = self.control.loops > 3;
        self.control.weak += u32::from(is_deep);
        is_deep
    }

    fn leave_loop(&mut self) {
        self.control.weak -= u32::from(self.control.loops > 3);
        self.control.loops -= 1;
    }

    /// Visits items in the order of the analysis.
    fn each<T>(&mut self, mut items: Vec<T>, visit: impl Fn(&mut Self, T)) {
        if self.direction == Direction::Backward {
            items.reverse();
        }
        items.into_iter().for_each(|item| visit(self, item));
    }

    /// Runs two steps in the order of the analysis.
    fn in_order(&mut self, first: impl FnOnce(&mut Self), second: impl FnOnce(&mut Self)) {
        match self.direction {
            Direction::Forward => {
                first(self);
                second(self);
            }
            Direction::Backward => {
                second(self);
                first(self);
            }
        }
    }

    /// Runs a statement in the direction of the analysis.
    pub(crate) fn statement(&mut self, stmt: StmtId) {
        self.nesting.depth += 1;
        if self.nesting.depth <= 1500 {
            let calls = self.p.ast.tries(stmt);
            self.in_order(|flow| flow.each(calls, Self::try_call), |flow| flow.statement_kind(stmt));
        }
        self.nesting.depth -= 1;
    }

    fn try_call(&mut self, expr: ExprId) {
        if let ExprKind::Try(call) = self.p.ast.exprs[expr].kind {
            self.expr(call, false);
        }
    }

    fn statement_kind(&mut self, stmt: StmtId) {
        let is_forward = self.direction == Direction::Forward;
        match self.p.ast.stmts[stmt].kind.clone() {
            StmtKind::Block(stmts) => self.each(stmts, Self::statement),
            StmtKind::Expr(expr) => {
                self.expr(expr, false);
            }
            StmtKind::Decl(decls) => self.each(decls, Self::declare),
            StmtKind::If { cond, then, otherwise } => {
                let (then, otherwise) = self.taken(cond, then, otherwise);
                self.in_order(|flow| _ = flow.expr(cond, false), |flow| flow.either(then, otherwise));
            }
            StmtKind::IfLet { var, then, otherwise } => {
                self.in_order(|flow| flow.declare(var), |flow| flow.either(Some(then), otherwise));
            }
            StmtKind::For { init, cond, step, body } => {
                let init = |flow: &mut Self| init.into_iter().for_each(|init| flow.statement(init));
                self.in_order(init, |flow| flow.iterate(cond, body, step, Runs::AnyNumber));
            }
            StmtKind::While { cond, body } => self.iterate(Some(cond), body, None, Runs::AnyNumber),
            StmtKind::DoWhile { body, cond } => self.iterate(None, body, Some(cond), Runs::AtLeastOnce),
            StmtKind::Switch { scrutinee, cases } => self.switch(scrutinee, cases),
            StmtKind::TargetSwitch(cases) => self.target_switch(cases.into_iter().map(|case| case.1)),
            StmtKind::Return(value) if is_forward => {
                if let Some(value) = value {
                    self.expr(value, false);
                    self.cuts.is_result |= self.is_cut(value);
                }
                self.check_outputs_set(self.p.ast.stmts[stmt].span);
                self.places.clear();
            }
            StmtKind::Return(value) => {
                self.places.clone_from(&self.outputs);
                if let Some(value) = value {
                    self.expr(value, self.returns);
                }
            }
            StmtKind::Break => {
                let at = self.control.breaks.len().saturating_sub(1);
                self.leave_to(at, |flow| &mut flow.control.breaks);
            }
            StmtKind::BreakTo { .. } => self.leave_to(0, |flow| &mut flow.control.breaks),
            StmtKind::Continue => {
                let at = self.control.continues.len().saturating_sub(1);
                self.leave_to(at, |flow| &mut flow.control.continues);
            }
            StmtKind::DoCatch { body, catches, .. } if is_forward => {
                self.weakly(body);
                let entry = self.places.clone();
                for catch in catches {
                    join(&mut self.places, &entry);
                    self.statement(catch.1);
                }
                join(&mut self.places, &entry);
            }
            StmtKind::DoCatch { body, catches, .. } => {
                let after = self.places.clone();
                let mut all = after.clone();
                for catch in catches {
                    self.places.clone_from(&after);
                    self.statement(catch.1);
                    join(&mut all, &self.places);
                }
                self.places = all;
                self.weakly(body);
            }
            StmtKind::Throw(value) => {
                self.expr(value, false);
                self.take_unset();
            }
            StmtKind::Defer(body) => {
                // The statement runs later, when more places are set.
                let unset = self.take_unset();
                self.weakly(body);
                self.places.extend(unset);
            }
            StmtKind::Labeled { body, .. } if is_forward => {
                self.control.breaks.push(Places::new());
                self.statement(body);
                self.join_breaks();
            }
            StmtKind::Labeled { body, .. } => {
                self.control.breaks.push(self.places.clone());
                self.statement(body);
                self.control.breaks.pop();
            }
            StmtKind::Discard | StmtKind::Unsupported(_) | StmtKind::IntrinsicAsm(_) | StmtKind::Error => {
                self.take_unset();
            }
            StmtKind::Empty => {}
        }
    }

    fn switch(&mut self, scrutinee: ExprId, cases: Vec<Case>) {
        if self.direction == Direction::Forward {
            self.expr(scrutinee, false);
            let has_default = cases.iter().any(|case| case.labels.contains(&None));
            let entry = self.places.clone();
            self.control.breaks.push(Places::new());
            for case in cases {
                // Control may also come from the previous case.
                join(&mut self.places, &entry);
                self.each(case.body, Self::statement);
            }
            if !has_default {
                join(&mut self.places, &entry);
            }
            return self.join_breaks();
        }
        let after = self.places.clone();
        let mut all = after.clone();
        self.control.breaks.push(after);
        for case in cases.into_iter().rev() {
            // The next case follows if this one does not leave.
            self.each(case.body, Self::statement);
            join(&mut all, &self.places);
        }
        self.control.breaks.pop();
        self.places = all;
        self.expr(scrutinee, false);
    }

    fn target_switch(&mut self, cases: impl Iterator<Item = Vec<StmtId>>) {
        // Only the CPU's case has been checked; in the other cases nothing is known to carry a derivative.
        self.take_unset();
        let entry = self.places.clone();
        let mut all = entry.clone();
        for case in cases {
            match self.direction {
                Direction::Forward => {
                    join(&mut self.places, &entry);
                }
                Direction::Backward => self.places.clone_from(&entry),
            }
            self.each(case, Self::statement);
            join(&mut all, &self.places);
        }
        match self.direction {
            Direction::Forward => {
                join(&mut self.places, &entry);
            }
            Direction::Backward => self.places = all,
        }
        self.take_unset();
    }

    /// Runs a statement that may not run to its end.
    fn weakly(&mut self, stmt: StmtId) {
        self.control.weak += 1;
        self.statement(stmt);
        self.control.weak -= 1;
    }

    /// Leaves for the targets from this index on: forward, the state joins that of the targets; backward, it
    /// is theirs.
    fn leave_to(&mut self, from: usize, targets: fn(&mut Self) -> &mut Vec<Places>) {
        let mut places = std::mem::take(&mut self.places);
        let is_forward = self.direction == Direction::Forward;
        if !is_forward {
            places.clear();
        }
        for to in targets(self).iter_mut().skip(from) {
            match is_forward {
                true => join(to, &places),
                false => join(&mut places, to),
            };
        }
        if !is_forward {
            self.places = places;
        }
    }

    /// Joins the states at the `break`s of a statement that ends here.
    fn join_breaks(&mut self) {
        let broken = self.control.breaks.pop().unwrap_or_default();
        join(&mut self.places, &broken);
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

    /// Runs a loop, with expressions before and after its body, until an iteration adds nothing.
    fn iterate(&mut self, before: Option<ExprId>, body: StmtId, after: Option<ExprId>, runs: Runs) {
        let is_deep = self.enter_loop();
        let is_forward = self.direction == Direction::Forward;
        let exit = self.places.clone();
        let mut head = if is_forward || runs == Runs::AnyNumber { exit.clone() } else { Places::new() };
        let (first, last) = if is_forward { (before, after) } else { (after, before) };
        self.control.breaks.push(if is_forward { Places::new() } else { exit.clone() });
        loop {
            self.places.clone_from(&head);
            if !is_forward {
                join(&mut self.places, &exit);
            }
            if let Some(first) = first {
                self.expr(first, false);
            }
            self.control.continues.push(if is_forward { Places::new() } else { self.places.clone() });
            self.statement(body);
            let continued = self.control.continues.pop().unwrap_or_default();
            if is_forward {
                join(&mut self.places, &continued);
            }
            if let Some(last) = last {
                self.expr(last, false);
            }
            if !join(&mut head, &self.places) || is_deep {
                break;
            }
        }
        self.leave_loop();
        if !is_forward {
            self.control.breaks.pop();
            self.places = head;
            return;
        }
        if runs == Runs::AnyNumber {
            let end = std::mem::replace(&mut self.places, head);
            self.leave_unset(&end, before);
        }
        self.join_breaks();
    }
}
