//! `throw`, `try` and `catch`, as early exits with a value.
//!
//! A function that throws has an optional error as its last result. `try` tests for the error after its call
//! and rethrows it. A `do` with `catch` is a labelled block: a `throw` in it records the error and the
//! `catch` that handles it, and leaves the block like a `break`. The record is in slots of the environment,
//! like all values that are joined where control flow merges.

use std::rc::Rc;

use check::tables::Callable;
use check::types::{Ty, TyKind};
use ir::{Op, Types, Value};
use syntax::ast::ExprKind;
use syntax::{DeclId, ExprId, StmtId};

use crate::body::{Body, Flow, Label, Name, Slot, Var};
use crate::layout::DiffMap;
use crate::lowerer::{Lowerer, ir_span};

impl Lowerer<'_> {
    /// The type of the optional error of a function that throws, or of a derivative of one, and the map of its
    /// tangents. A derivative throws what the function throws.
    pub(crate) fn optional_error(
        &mut self,
        types: &mut Types,
        callable: &Callable,
    ) -> Option<(Ty, Option<Rc<DiffMap>>)> {
        let error = self.program.error_of(callable.function()?)?;
        let ty = self.program.types.intern(TyKind::Optional(error));
        let diff = if matches!(callable, Callable::Func(_)) { self.diff_map(types, ty) } else { None };
        Some((ty, diff))
    }
}

impl Body<'_, '_, '_> {
    /// How control leaves a `throw`, or a `try` whose call returned an error.
    pub(crate) fn thrown_flow(&self, expr: ExprId) -> Flow {
        match self.lw.program.tables.throws.get(&expr) {
            Some(thrown) => match thrown.target {
                Some((level, _)) => Flow { labels: 1u32.checked_shl(level).unwrap_or(0), ..Flow::default() },
                None => Flow { returns: true, ..Flow::default() },
            },
            None => Flow { falls: true, ..Flow::default() },
        }
    }

    /// The next `try` of a statement that has not run yet.
    pub(crate) fn pending_try(&self, stmt: StmtId) -> Option<ExprId> {
        self.lw.program.ast.tries(stmt).into_iter().find(|expr| !self.exits.tried.contains(expr))
    }

    /// Lowers a `try`, and then the statements from the one that contains it on.
    pub(crate) fn try_call(&mut self, expr: ExprId, rest: &[StmtId]) {
        let ExprKind::Try(call) = self.lw.program.ast.exprs[expr].kind else { return };
        self.b.span = ir_span(self.lw.program.ast.exprs[expr].span);
        self.exits.tried.push(expr);
        self.exits.error.clear();
        let (values, ty) = self.typed(call);
        let mut error = std::mem::take(&mut self.exits.error);
        self.declare_var(Name::Try(expr), ty, values);
        let Some(has) = error.pop() else { return self.list(rest) };
        let rest = rest.to_vec();
        self.branch(has, |body| body.leave_with(expr, error), |body| body.list(&rest));
    }

    /// Records the error of a `throw`, or of a `try` whose call returned one, and leaves.
    pub(crate) fn leave_with(&mut self, expr: ExprId, mut error: Vec<Value>) {
        let Some(thrown) = self.lw.program.tables.throws.get(&expr).copied() else { return };
        let first = if let Some((level, clause)) = thrown.target {
            let Some(label) = self.exits.labels.get(level as usize) else { return };
            let Some(error) = label.errors.get(clause as usize) else { return };
            let (which, start) = (label.slots.start, error.map(|var| var.start));
            self.env[which] = Slot::Value(self.b.u32(clause));
            start
        } else {
            error.push(self.b.bool(true));
            self.exits.thrown.map(|thrown| thrown.start)
        };
        if let Some(first) = first {
            self.set_slots(first, error);
        }
        self.set_flags(self.thrown_flow(expr));
    }

    /// Lowers `do body catch (e : E) { … }`.
    pub(crate) fn do_catch(&mut self, body: StmtId, level: u32, catches: &[(Option<DeclId>, StmtId)]) {
        let flag = self.new_flag(1);
        let none = self.b.u32(0);
        let which = self.new_slots([none]);
        let mut errors: Vec<Option<Var>> = Vec::new();
        for &(var, _) in catches {
            let ty = var.and_then(|var| self.lw.program.tables.decl_types[var]).map(|ty| self.ty(ty));
            errors.push(ty.map(|ty| {
                let zeros = self.zeros(ty);
                let (len, start) = (zeros.len(), self.new_slots(zeros));
                Var { start, len, ty }
            }));
        }
        let slots = which..self.env.len();
        self.exits.labels.push(Label { flag, errors: errors.clone(), slots });
        self.list(&[body]);
        self.exits.labels.pop();
        let bit = 1u32.checked_shl(level).unwrap_or(0);
        if self.flow(body).labels & bit == 0 {
            return;
        }
        let Slot::Value(thrown) = self.env[flag.slot] else { return };
        self.branch(thrown, |body| body.handlers(catches, &errors, which), |_| {});
    }

    /// Runs the `catch` whose number is in the slot `which`.
    fn handlers(&mut self, catches: &[(Option<DeclId>, StmtId)], errors: &[Option<Var>], which: usize) {
        let Some((&(var, handler), others)) = catches.split_last() else { return };
        let run = |body: &mut Self| {
            if let (Some(var), Some(error)) = (var, errors[others.len()]) {
                let values = body.read_var(error);
                body.declare_var(Name::Decl(var), error.ty, values);
            }
            body.list(&[handler]);
        };
        if others.is_empty() {
            return run(self);
        }
        let number = self.b.u32(others.len() as u32);
        let noted = self.read_slot(which);
        let hit = self.b.emit(Op::Eq, &[noted, number]);
        self.branch(hit, run, |body| body.handlers(others, errors, which));
    }
}
