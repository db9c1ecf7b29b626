//! Warns of a call that passes one place twice, and writes it: `f(x, x)` for `void f(out int a, out int b)`.
//! Which of the two values remains depends on the order in which the results are copied back.

use smallvec::SmallVec;
use syntax::{Diagnostic, ExprId};

use crate::program::Program;
use crate::signature::Direction;
use crate::tables::{Arg, Meaning};

impl Program {
    /// Looks over one expression.
    pub(super) fn lint_aliases(&mut self, expr: ExprId) {
        let Meaning::Call { func, args, .. } = &self.tables.exprs[expr].meaning else { return };
        let given: SmallVec<[(usize, ExprId); 4]> = args
            .iter()
            .enumerate()
            .filter_map(|(k, arg)| if let Arg::Expr(arg) = arg { Some((k, *arg)) } else { None })
            .collect();
        if given.len() < 2 {
            return;
        }
        let func = func.clone();
        let signature = self.callable_signature(&func);
        let is_own = func.function().is_some_and(|f| !self.is_core(f.decl));
        let dir = |k: usize| signature.params.get(k).map_or(Direction::In, |p| p.dir);
        for (at, &(k, written)) in given.iter().enumerate() {
            for (other_at, &(j, other)) in given.iter().enumerate() {
                let both = dir(j).is_written();
                if at == other_at || !dir(k).is_written() || both && at > other_at || !both && !is_own {
                    continue;
                }
                let overlaps =
                    if both { self.overlap(written, other) } else { self.is_same_place(written, other) };
                if !overlaps {
                    continue;
                }
                let message = if both {
                    "this place is written through two arguments of the call"
                } else {
                    "this place is written through one argument of the call and read through another"
                };
                let warning = Diagnostic::warning("E30051", self.span(written), message);
                let warning = warning.note(self.span(other), "the other argument");
                self.report(warning.help("copy the value into a variable of its own first"));
                return;
            }
        }
    }

    /// Returns true if one place is the other or a part of it.
    fn overlap(&mut self, a: ExprId, b: ExprId) -> bool {
        self.is_part(a, b) || self.is_part(b, a)
    }

    fn is_part(&mut self, part: ExprId, whole: ExprId) -> bool {
        let mut at = Some(part);
        while let Some(expr) = at {
            if self.is_same_place(expr, whole) {
                return true;
            }
            at = self.tables.exprs[expr].meaning.base();
        }
        false
    }

    /// Returns true if two expressions certainly denote the same place.
    fn is_same_place(&mut self, a: ExprId, b: ExprId) -> bool {
        let (a, b) = (self.tables.plain(a), self.tables.plain(b));
        let is_this = |p: &Program, expr: &ExprId| {
            matches!(p.tables.exprs[p.tables.plain(*expr)].meaning, Meaning::This)
        };
        match (self.tables.exprs[a].meaning.clone(), self.tables.exprs[b].meaning.clone()) {
            (Meaning::This, Meaning::This) => true,
            (Meaning::Var(a), Meaning::Var(b)) => a == b,
            (Meaning::StaticMember(a), Meaning::StaticMember(b)) => a == b,
            (Meaning::Field { base: x, field: f }, Meaning::Field { base: y, field: g }) => {
                f == g
                    && match (x, y) {
                        (Some(x), Some(y)) => self.is_same_place(x, y),
                        (None, None) => true,
                        (Some(one), None) | (None, Some(one)) => is_this(self, &one),
                    }
            }
            (Meaning::Swizzle { base: x, comps: c }, Meaning::Swizzle { base: y, comps: d }) => {
                c.iter().any(|comp| d.contains(comp)) && self.is_same_place(x, y)
            }
            (Meaning::TupleField { base: x, idx: i }, Meaning::TupleField { base: y, idx: j }) => {
                i == j && self.is_same_place(x, y)
            }
            (Meaning::Index { base: x, index: i }, Meaning::Index { base: y, index: j }) => {
                self.is_same_place(x, y) && self.is_same_index(i, j)
            }
            _ => false,
        }
    }

    fn is_same_index(&mut self, a: ExprId, b: ExprId) -> bool {
        match (self.constant(a, 0), self.constant(b, 0)) {
            (Some(a), Some(b)) => a == b,
            _ => self.variable_of(a).is_some_and(|a| Some(a) == self.variable_of(b)),
        }
    }
}
