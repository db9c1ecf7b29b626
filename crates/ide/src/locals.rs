//! Finds the variables of a function's body that are in scope at an offset.

use syntax::ast::{DeclKind, StmtKind};
use syntax::{DeclId, Span, StmtId};

use crate::Analysis;

impl Analysis {
    /// The innermost function, accessor or type around an offset, in which names are looked up.
    pub(crate) fn scope_at(&self, offset: u32) -> Option<DeclId> {
        let ast = &self.program.ast;
        ast.decls
            .iter()
            .filter(|(_, d)| self.around(d.span, offset))
            .filter(|(_, d)| {
                matches!(
                    d.kind,
                    DeclKind::Func { .. }
                        | DeclKind::Init { .. }
                        | DeclKind::Accessor { .. }
                        | DeclKind::Struct { .. }
                        | DeclKind::Interface { .. }
                        | DeclKind::Extension { .. }
                        | DeclKind::Namespace { .. }
                )
            })
            .min_by_key(|(_, d)| d.span.end - d.span.start)
            .map(|(id, _)| id)
    }

    /// The variables declared before an offset in the blocks around it, innermost last.
    pub(crate) fn locals_at(&self, scope: DeclId, offset: u32) -> Vec<DeclId> {
        let body = self.program.ast.decls[scope].kind.body();
        let mut out = Vec::new();
        let mut work: Vec<StmtId> = body.into_iter().collect();
        // Statements nest no deeper than the parser allows, and each is visited once.
        while let Some(id) = work.pop() {
            let stmt = &self.program.ast.stmts[id];
            match &stmt.kind {
                StmtKind::Decl(decls) => {
                    let ast = &self.program.ast;
                    let all = decls.iter().flat_map(|d| [d].into_iter().chain(ast.decls[*d].kind.parts()));
                    out.extend(all.copied().filter(|&d| ast.decls[d].name_span.end <= offset));
                }
                kind if self.around(stmt.span, offset) => {
                    if let StmtKind::IfLet { var, then, .. } = kind
                        && self.around(self.program.ast.stmts[*then].span, offset)
                    {
                        out.push(*var);
                    }
                    let first = work.len();
                    kind.statements(&mut work);
                    work[first..].reverse();
                }
                _ => {}
            }
        }
        out
    }

    fn around(&self, span: Span, offset: u32) -> bool {
        span.file == self.file && span.start <= offset && offset <= span.end
    }
}
