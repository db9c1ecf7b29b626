//! Finds uses of a variable that nothing reaches without a value, although the joined paths of [`super::unset`] say so:
//! what the program tests decides it.
//!
//! - `if (c) x = …; … if (c) use(x);`: the use runs only if the assignment has run.
//! - `if (c) x = …; if (!c) x = …; use(x);`: one of the assignments has run.
//!
//! Conditions are compared as they are written, whether or not what they read has changed in between: the warning that
//! this suppresses is about a possibility, and is of use only where it is likely.

use syntax::ast::{BinaryOp, ExprKind, StmtKind, UnaryOp};
use syntax::print::print_expr;
use syntax::{DeclId, ExprId, Span, StmtId};

use crate::flow::Flow;
use crate::program::Program;

/// A condition as it is written: `a < b` with the operator apart from its operands, or a value that is true or false.
#[derive(PartialEq)]
struct Test {
    op: BinaryOp,
    left: String,
    right: String,
}

/// A part of an `if`, and the test that leads there.
struct Branch {
    test: Test,
    span: Span,
    /// The whole statement.
    whole: Span,
}

impl Test {
    fn of(p: &Program, cond: ExprId) -> Test {
        match p.ast.exprs[cond].kind {
            ExprKind::Paren(inner) => Test::of(p, inner),
            ExprKind::Unary(UnaryOp::Not, inner) => Test::of(p, inner).negated(),
            ExprKind::Binary(op, left, right) if opposite(op).is_some() => {
                Test { op, left: print_expr(&p.ast, left), right: print_expr(&p.ast, right) }
            }
            _ => Test { op: BinaryOp::Ne, left: print_expr(&p.ast, cond), right: "false".into() },
        }
    }

    fn negated(self) -> Test {
        Test { op: opposite(self.op).unwrap_or(self.op), ..self }
    }
}

/// The comparison that holds where another does not.
fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        _ => return None,
    })
}

impl Flow<'_> {
    /// Returns true if the tests around a use, or before it, let an assignment run before it.
    pub(crate) fn is_decided_by_tests(&self, at: ExprId, decl: DeclId) -> bool {
        let (Some(body), place) = (self.p.body_of(self.decl), self.p.span(at)) else { return false };
        let is_in = |inner: Span, outer: Span| outer.start <= inner.start && inner.end <= outer.end;
        let named: Vec<Span> =
            self.p.names_used_in(self.decl).into_iter().filter(|n| n.0 == decl).map(|n| n.1).collect();
        let (mut around, mut before) = (Vec::new(), Vec::new());
        for branch in self.branches(body) {
            if is_in(place, branch.span) {
                around.push(branch.test);
            } else if branch.whole.end <= place.start && named.iter().any(|&n| is_in(n, branch.span)) {
                before.push(branch.test);
            }
        }
        before.iter().any(|test| around.contains(test))
            || before.iter().enumerate().any(|(k, test)| {
                let other = |o: &Test| {
                    opposite(o.op) == Some(test.op) && o.left == test.left && o.right == test.right
                };
                before[..k].iter().any(other)
            })
    }

    fn branches(&self, body: StmtId) -> Vec<Branch> {
        let (mut open, mut found) = (vec![body], Vec::new());
        while let Some(stmt) = open.pop() {
            let node = &self.p.ast.stmts[stmt];
            node.kind.statements(&mut open);
            let StmtKind::If { cond, then, otherwise } = node.kind else { continue };
            let span = |stmt: StmtId| self.p.ast.stmts[stmt].span;
            found.push(Branch { test: Test::of(self.p, cond), span: span(then), whole: node.span });
            if let Some(otherwise) = otherwise {
                let test = Test::of(self.p, cond).negated();
                found.push(Branch { test, span: span(otherwise), whole: node.span });
            }
        }
        found
    }
}
