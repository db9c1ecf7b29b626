//! Warns of `for` loops that never run, never end, or count in a variable that they do not test.
//!
//! A loop counts if it initialises a variable, compares a variable with a bound and adds a constant to a
//! variable. Where the body changes one of these variables, too, nothing is said.

use syntax::ast::{BinaryOp, DeclKind, ExprKind, StmtKind, UnaryOp};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::program::Program;
use crate::tables::{Arg, Meaning};
use crate::types::{TyKind, Val};

/// `for (…; variable op bound; …)`
struct Test {
    variable: DeclId,
    op: BinaryOp,
    bound: Option<i64>,
    span: Span,
}

/// `for (…; …; variable += by)`
struct Step {
    variable: DeclId,
    by: Option<i64>,
    span: Span,
}

impl Program {
    /// Looks over a statement.
    pub(super) fn lint_loop(&mut self, stmt: StmtId) {
        let StmtKind::For { init, cond: Some(cond), step: Some(step), body } = self.ast.stmts[stmt].kind
        else {
            return;
        };
        let Some((counter, first)) = init.and_then(|init| self.counter(init)) else { return };
        let (Some(test), Some(step)) = (self.loop_test(cond), self.loop_step(step)) else { return };
        let changed = self.changed_in(body);
        if [counter, test.variable, step.variable].iter().any(|v| changed.contains(v)) {
            return;
        }
        if test.variable != counter && self.mentions(cond, counter) {
            return;
        }
        let name = |p: &Program, decl: DeclId| p.ast.decl_name(decl).to_string();
        if step.variable != counter || test.variable != counter {
            let (code, message, span) = match (test.variable == counter, step.variable == counter) {
                (true, _) => {
                    let what = format!(
                        "this loop tests '{}' and changes '{}'",
                        name(self, counter),
                        name(self, step.variable)
                    );
                    ("E30507", what, step.span)
                }
                (_, true) => {
                    let what = format!(
                        "this loop changes '{}' and tests '{}'",
                        name(self, counter),
                        name(self, test.variable)
                    );
                    ("E30508", what, test.span)
                }
                _ => return,
            };
            self.report(Diagnostic::warning(code, span, message));
            return;
        }
        let Some(by) = step.by else { return };
        let name = name(self, counter);
        let runs_up = matches!(test.op, BinaryOp::Lt | BinaryOp::Le);
        if by == 0 {
            let message = format!("this adds 0 to '{name}': the loop does not end");
            return self.report(Diagnostic::warning("E30512", step.span, message));
        }
        let begins = first.zip(test.bound).is_none_or(|(first, bound)| holds(first, test.op, bound));
        if !begins {
            let span = self.ast.stmts[stmt].span;
            let span = Span { end: (span.start + 3).min(span.end), ..span };
            let message = format!("this loop never runs: its condition is false for the first '{name}'");
            return self.report(Diagnostic::warning("E30514", span, message));
        }
        if runs_up != (by > 0) {
            let message = format!("this moves '{name}' away from the end of the loop");
            return self.report(Diagnostic::warning("E30511", step.span, message));
        }
        let (Some(first), Some(bound)) = (first, test.bound) else { return };
        let (Some(distance), closed) =
            (bound.checked_sub(first), matches!(test.op, BinaryOp::Le | BinaryOp::Ge))
        else {
            return;
        };
        let (distance, by) = (distance.unsigned_abs(), by.unsigned_abs());
        let trips = if closed { distance / by + 1 } else { distance.div_ceil(by) };
        self.lint_max_iters(stmt, trips);
    }

    /// Warns of a bound that is larger than the number of trips.
    fn lint_max_iters(&mut self, stmt: StmtId, trips: u64) {
        let attributes = self.ast.stmts[stmt].attributes.clone();
        for attribute in attributes {
            if self.ast.name(attribute.name) != "MaxIters" {
                continue;
            }
            let Some(Val::Int(most)) = attribute.args.first().and_then(|&arg| self.constant(arg, 0)) else {
                continue;
            };
            if u64::try_from(most).is_ok_and(|most| most > trips) {
                let message =
                    format!("this loop ends after {trips} iterations, which is less than '[MaxIters]' says");
                self.report(Diagnostic::warning("E30519", attribute.span, message));
            }
        }
    }

    /// The variable that a loop initialises, with its value if that is a literal.
    fn counter(&mut self, init: StmtId) -> Option<(DeclId, Option<i64>)> {
        match &self.ast.stmts[init].kind {
            StmtKind::Decl(decls) => {
                let [decl] = decls[..] else { return None };
                let DeclKind::Var { init: Some(value), .. } = self.ast.decls[decl].kind else { return None };
                Some((decl, self.integer(value)))
            }
            StmtKind::Expr(expr) => match self.tables.exprs[*expr].meaning {
                Meaning::Assign { op: None, target, value } => {
                    Some((self.variable_of(target)?, self.integer(value)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn loop_test(&mut self, cond: ExprId) -> Option<Test> {
        let Meaning::Binary(op, left, right) = self.tables.exprs[self.tables.plain(cond)].meaning else {
            return None;
        };
        let turned = match op {
            BinaryOp::Lt => BinaryOp::Gt,
            BinaryOp::Le => BinaryOp::Ge,
            BinaryOp::Gt => BinaryOp::Lt,
            BinaryOp::Ge => BinaryOp::Le,
            _ => return None,
        };
        let is_fixed = |p: &mut Program, expr: ExprId| p.constant(expr, 0).is_some();
        let (variable, op, bound) = match (self.variable_of(left), self.variable_of(right)) {
            (Some(variable), _) if !is_fixed(self, left) => (variable, op, right),
            (_, Some(variable)) if !is_fixed(self, right) => (variable, turned, left),
            _ => return None,
        };
        Some(Test { variable, op, bound: self.integer(bound), span: self.span(cond) })
    }

    /// Returns true if an expression reads a variable.
    fn mentions(&self, expr: ExprId, variable: DeclId) -> bool {
        let (mut exprs, mut next) = (vec![expr], 0);
        while let Some(&expr) = exprs.get(next) {
            self.ast.exprs[expr].kind.operands(&mut exprs);
            next += 1;
        }
        exprs
            .into_iter()
            .any(|expr| matches!(self.tables.exprs[expr].meaning, Meaning::Var(of) if of == variable))
    }

    fn loop_step(&mut self, step: ExprId) -> Option<Step> {
        let step = self.tables.plain(step);
        let span = self.span(step);
        match self.tables.exprs[step].meaning {
            Meaning::IncDec(target) => {
                let up = match self.ast.exprs[step].kind {
                    ExprKind::Postfix(up, _) => up,
                    ExprKind::Unary(op, _) => op == UnaryOp::PreInc,
                    _ => return None,
                };
                Some(Step { variable: self.variable_of(target)?, by: Some(if up { 1 } else { -1 }), span })
            }
            Meaning::Assign { op: Some(op @ (BinaryOp::Add | BinaryOp::Sub)), target, value } => {
                let by = self.integer(value);
                let by = if op == BinaryOp::Sub { by.and_then(i64::checked_neg) } else { by };
                Some(Step { variable: self.variable_of(target)?, by, span })
            }
            _ => None,
        }
    }

    /// The value of a literal of integer type.
    fn integer(&mut self, expr: ExprId) -> Option<i64> {
        let expr = self.tables.plain(expr);
        let is_written = match self.tables.exprs[expr].meaning {
            Meaning::Literal => true,
            Meaning::Unary(UnaryOp::Neg, inner) => {
                matches!(self.tables.exprs[self.tables.plain(inner)].meaning, Meaning::Literal)
            }
            _ => false,
        };
        let is_integer = matches!(self.types[self.tables.exprs[expr].ty], TyKind::Scalar(s) if s.is_int());
        match self.constant(expr, 0).filter(|_| is_written && is_integer)? {
            Val::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The variables that a statement assigns to, also in part.
    fn changed_in(&mut self, body: StmtId) -> Vec<DeclId> {
        let (mut stmts, mut exprs) = (vec![body], Vec::new());
        while let Some(stmt) = stmts.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            kind.statements(&mut stmts);
            kind.expressions(&mut exprs);
            exprs.extend(kind.declarations().iter().filter_map(|&d| self.ast.decls[d].kind.init()));
        }
        let mut next = 0;
        while let Some(&expr) = exprs.get(next) {
            self.ast.exprs[expr].kind.operands(&mut exprs);
            next += 1;
        }
        self.changed_by(exprs)
    }

    /// The variables that expressions, not counting their operands, assign to, also in part.
    pub(super) fn changed_by(&mut self, exprs: Vec<ExprId>) -> Vec<DeclId> {
        let mut changed = Vec::new();
        for expr in exprs {
            match self.tables.exprs[expr].meaning.clone() {
                Meaning::Assign { target, .. }
                | Meaning::AssignCall { target, .. }
                | Meaning::IncDec(target) => {
                    changed.extend(self.root_of(target));
                }
                Meaning::AddressOf(target) => changed.extend(self.root_of(target)),
                meaning @ (Meaning::Call { .. } | Meaning::Init { .. }) => {
                    let (signature, args) = match meaning {
                        Meaning::Call { func, base, args } => {
                            changed.extend(base.and_then(|base| self.root_of(base)));
                            (self.callable_signature(&func), args)
                        }
                        Meaning::Init { init, args } => (self.func_signature(&init), args),
                        _ => continue,
                    };
                    for (arg, param) in args.iter().zip(&signature.params) {
                        if let (Arg::Expr(arg), true) = (arg, param.dir.is_written()) {
                            changed.extend(self.root_of(*arg));
                        }
                    }
                }
                _ => {}
            }
        }
        changed
    }
}

fn holds(left: i64, op: BinaryOp, right: i64) -> bool {
    match op {
        BinaryOp::Lt => left < right,
        BinaryOp::Le => left <= right,
        BinaryOp::Gt => left > right,
        _ => left >= right,
    }
}
