//! Analyses derivatives of errors: see [`crate::flow`].
//!
//! A `try` is a step before the statement that contains it, since there the call may leave the statement. An
//! error of a differentiable type takes its derivative to the variable of the `catch`; that of an error of
//! another type is cut there.

use syntax::ast::ExprKind;
use syntax::{DeclId, ExprId};

use crate::flow::{Direction, Flow, Mark};
use crate::tables::{Arg, Meaning};
use crate::types::Scalar;

impl Flow<'_> {
    /// Visits the call of a `try`, whose error goes to this variable of a `catch`.
    pub(crate) fn visit_try(&mut self, expr: ExprId, var: Option<DeclId>) {
        let ExprKind::Try(call) = self.p.ast.exprs[expr].kind else { return };
        let is_forward = self.direction == Direction::Forward;
        let error_needed = !is_forward && self.is_error_needed(expr, var);
        self.expr(call, self.tried.contains(&expr));
        let Meaning::Call { func, base, args } = self.p.tables.exprs[call].meaning.clone() else { return };
        let inputs = base.into_iter().chain(args.iter().flat_map(Arg::exprs));
        let carried = inputs.into_iter().any(|input| self.carried.contains(&input));
        if is_forward {
            self.catch(var, carried);
        } else if error_needed && carried {
            let func = self.p.substitute_callable(&func, &self.subst);
            let level = func.function().map(|func| self.p.differentiable_level(func, self.view));
            if level.is_some_and(|level| level < self.level) {
                self.lost_in_call(call, &func);
            }
        }
    }

    /// Returns true if a differentiable result depends on the error that an expression throws.
    pub(crate) fn is_error_needed(&mut self, expr: ExprId, var: Option<DeclId>) -> bool {
        if let Some(var) = var {
            let needed = self.holds((var, None));
            self.forget((var, None));
            return needed;
        }
        let error = self.p.tables.throws.get(&expr).map(|thrown| (thrown.error, thrown.target));
        error.is_some_and(|(error, target)| target.is_none() && self.has_differential(error))
    }

    /// Marks the variable of a `catch` for an error that is computed from something with a derivative.
    pub(crate) fn catch(&mut self, var: Option<DeclId>, carried: bool) {
        let Some(var) = var.filter(|_| carried) else { return };
        let ty = self.variable_ty(var);
        if self.may_carry(ty) {
            self.carry((var, None));
        } else if self.has_number(ty, Scalar::has_fraction) {
            self.places.insert((Mark::Cut, var, None));
        }
    }
}
