//! Reports arguments that are known at run time only where the library needs a constant (`constexpr` before a
//! parameter: offsets of texels, alignments), since the instructions of graphics processors contain the number.
//!
//! A variable is known at run time if the host sets it, if it gets such a value, or if it is assigned where a
//! condition that is known at run time decides. Parameters of functions may be constants where the functions are
//! called, so nothing is said of them, except in entry points.

use syntax::ast::{DeclKind, Modifiers, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use super::Code;
use crate::program::Program;
use crate::tables::{Arg, Meaning};
use crate::types::Val;

/// Something that is known at run time, and what decides about it.
struct Late {
    place: Span,
    cause: Option<Span>,
}

impl Program {
    /// Looks over the calls in a declaration.
    pub(super) fn lint_constants(&mut self, decl: DeclId, code: &Code) {
        for &expr in &code.exprs {
            let Meaning::Call { func, args, .. } = &self.tables.exprs[expr].meaning else { continue };
            let Some(callee) = func.function().map(|f| f.decl).filter(|&d| self.is_core(d)) else { continue };
            let args = args.clone();
            for (param, arg) in self.params_of(callee).into_iter().zip(args) {
                let Arg::Expr(arg) = arg else { continue };
                if self.ast.decls[param].modifiers.has(Modifiers::CONSTEXPR) {
                    self.check_compile_time(decl, code, param, arg);
                }
            }
        }
    }

    fn check_compile_time(&mut self, decl: DeclId, code: &Code, param: DeclId, arg: ExprId) {
        if let Some(late) = self.late(decl, code, arg, 0) {
            let name = self.ast.decl_name(param);
            let message = format!("this is known at run time only, but '{name}' has to be a constant");
            let error = Diagnostic::error("E40012", late.place, message);
            return self.report_once(match late.cause {
                Some(cause) => error.note(cause, "this decides about it"),
                None => error,
            });
        }
        let is_alignment = self.ast.decl_name(param) == "alignment";
        if let Some(Val::Int(value)) = self.constant(arg, 0).filter(|_| is_alignment)
            && !u64::try_from(value).is_ok_and(u64::is_power_of_two)
        {
            let message = format!("an alignment is a power of two, not {value}");
            self.report(Diagnostic::error("E41301", self.span(arg), message));
        }
    }

    /// The part of an expression that is known at run time only.
    fn late(&mut self, decl: DeclId, code: &Code, expr: ExprId, depth: u32) -> Option<Late> {
        if depth > 32 {
            return None;
        }
        let here = self.span(expr);
        match self.tables.exprs[expr].meaning.clone() {
            Meaning::Var(variable) => self.late_variable(decl, code, variable, here, depth),
            Meaning::Same(inner) | Meaning::Cast(inner) | Meaning::Unary(_, inner) => {
                self.late(decl, code, inner, depth + 1)
            }
            Meaning::Swizzle { base, .. } => self.late(decl, code, base, depth + 1),
            Meaning::Binary(_, left, right) => {
                let left = self.late(decl, code, left, depth + 1);
                left.or_else(|| self.late(decl, code, right, depth + 1))
            }
            Meaning::Construct(parts) => {
                parts.into_iter().find_map(|part| self.late(decl, code, part, depth + 1))
            }
            Meaning::Ternary(a, b, c) => {
                [a, b, c].into_iter().find_map(|part| self.late(decl, code, part, depth + 1))
            }
            _ => None,
        }
    }

    fn late_variable(
        &mut self,
        decl: DeclId,
        code: &Code,
        variable: DeclId,
        here: Span,
        depth: u32,
    ) -> Option<Late> {
        let d = &self.ast.decls[variable];
        let host = Modifiers(Modifiers::STATIC.0 | Modifiers::CONST.0 | Modifiers::EXTERN.0);
        let at_top = |p: &Program, d: DeclId| {
            matches!(p.ast.decls[d].kind, DeclKind::Namespace { .. } | DeclKind::CBuffer { .. })
        };
        match d.kind {
            DeclKind::Param { .. } => {
                let is_entry =
                    ["shader", "numthreads"].iter().any(|mark| self.attribute(decl, mark).is_some());
                (is_entry && d.parent == Some(decl)).then_some(Late { place: here, cause: None })
            }
            DeclKind::Var { .. } if d.parent.is_none_or(|parent| at_top(self, parent)) => {
                let is_set = !d.modifiers.has(host) && !self.is_specialized(variable);
                is_set.then_some(Late { place: here, cause: None })
            }
            DeclKind::Var { init, .. } if code.stmts.iter().any(|&s| self.declares_local(s, variable)) => {
                let assigned = self.assignments(code, variable);
                if assigned.is_empty() {
                    return init.and_then(|init| self.late(decl, code, init, depth + 1));
                }
                let values = init.into_iter().chain(assigned.iter().filter_map(|a| a.1));
                for value in values.collect::<Vec<_>>() {
                    // A loop's counter is a function of itself.
                    if self.root_of(value) != Some(variable)
                        && self.late(decl, code, value, depth + 16).is_some()
                    {
                        return Some(Late { place: here, cause: None });
                    }
                }
                for (at, _) in assigned {
                    for cond in self.conditions_around(code, at, variable) {
                        if let Some(late) = self.late(decl, code, cond, depth + 16) {
                            return Some(Late { place: here, cause: Some(late.place) });
                        }
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn declares_local(&self, stmt: StmtId, variable: DeclId) -> bool {
        self.ast.stmts[stmt].kind.declarations().contains(&variable)
    }

    /// The expressions that assign to a variable, with the new value if that is an expression.
    fn assignments(&self, code: &Code, variable: DeclId) -> Vec<(ExprId, Option<ExprId>)> {
        let mut found = Vec::new();
        for &expr in &code.exprs {
            let (target, value) = match self.tables.exprs[expr].meaning {
                Meaning::Assign { target, value, .. } => (target, Some(value)),
                Meaning::IncDec(target) => (target, None),
                _ => continue,
            };
            if self.root_of(target) == Some(variable) {
                found.push((expr, value));
            }
        }
        found
    }

    /// The conditions that decide whether an expression runs, from the declaration of a variable on.
    fn conditions_around(&self, code: &Code, expr: ExprId, variable: DeclId) -> Vec<ExprId> {
        let at = self.span(expr);
        let is_inside = |span: Span| span.file == at.file && span.start <= at.start && at.end <= span.end;
        let start = self.ast.decls[variable].span.start;
        let mut found = Vec::new();
        for &stmt in &code.stmts {
            let stmt = &self.ast.stmts[stmt];
            let is_later = stmt.span.start >= start;
            match stmt.kind {
                StmtKind::If { cond, .. } | StmtKind::While { cond, .. } | StmtKind::DoWhile { cond, .. }
                    if is_inside(stmt.span) && is_later =>
                {
                    found.push(cond);
                }
                StmtKind::For { cond: Some(cond), init, .. } if is_inside(stmt.span) => {
                    let is_own = init.is_some_and(|init| self.declares_local(init, variable));
                    if is_own || is_later {
                        found.push(cond);
                    }
                }
                _ => {}
            }
        }
        found
    }
}
