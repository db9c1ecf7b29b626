//! The properties of every tree of the parser that other stages rely on: parts that contain each other in no circle and
//! not too deeply, and declarations only where their kind can be.

use super::*;
use crate::parser::MAX_NESTING;

/// The maximum depth of nodes in nodes: a level of the parser makes at most so many nodes, one in the other. The left
/// spines of expressions do not count, as in the parser.
const MAX_DEPTH: u32 = 8 * MAX_NESTING;
/// The maximum number of nodes, with those that several nodes share counted for each: variables with one type share it.
const MAX_SIZE: u64 = 1 << 24;

/// The nodes of a module in the tree of a program, which had so many before.
pub(super) struct Nodes<'a> {
    pub(super) ast: &'a Ast,
    pub(super) base: [u32; 3],
}

impl Nodes<'_> {
    fn exprs(&self) -> &[Expr] {
        &self.ast.exprs.as_values_slice()[self.base[0] as usize..]
    }

    fn stmts(&self) -> &[Stmt] {
        &self.ast.stmts.as_values_slice()[self.base[1] as usize..]
    }

    fn decls(&self) -> &[Decl] {
        &self.ast.decls.as_values_slice()[self.base[2] as usize..]
    }

    /// Returns true if no node contains itself and none is too deep, and every declaration comes after the one around
    /// it.
    pub(super) fn is_forest(&self, edges: Edges) -> bool {
        let Edges { mut starts, parts } = edges;
        let n = starts.len();
        starts.push(parts.len() as u32);
        // Depth-first, with the position among the parts of each open node.
        let (mut depth, mut size) = (vec![0_u32; n], vec![0_u64; n]);
        let mut is_open = vec![false; n];
        let mut open: Vec<(u32, u32)> = Vec::new();
        for root in 0..n as u32 {
            if depth[root as usize] == 0 {
                open.push((root, starts[root as usize]));
                is_open[root as usize] = true;
            }
            while let Some((node, at)) = open.last_mut() {
                let (k, first) = (*node as usize, starts[*node as usize]);
                if *at < starts[k + 1] {
                    let part = parts[*at as usize];
                    *at += 1;
                    if is_open[part as usize] {
                        return false;
                    }
                    if depth[part as usize] == 0 {
                        is_open[part as usize] = true;
                        open.push((part, starts[part as usize]));
                    }
                    continue;
                }
                let parts = &parts[first as usize..starts[k + 1] as usize];
                let level = |(at, part): (usize, &u32)| {
                    depth[*part as usize] + u32::from(at > 0 || !self.is_spine(k))
                };
                depth[k] = parts.iter().enumerate().map(level).max().unwrap_or(1);
                size[k] = parts.iter().fold(1, |sum: u64, &part| sum.saturating_add(size[part as usize]));
                if depth[k] > MAX_DEPTH || size[k] > MAX_SIZE {
                    return false;
                }
                is_open[k] = false;
                open.pop();
            }
        }
        let is_inside = |(k, decl): (usize, &Decl)| {
            decl.parent.is_none_or(|parent| ((parent.as_u32() - self.base[2]) as usize) < k)
        };
        self.decls().iter().enumerate().all(is_inside)
    }

    /// The first part of the node is on the left spine of an expression.
    fn is_spine(&self, node: usize) -> bool {
        self.exprs().get(node).is_some_and(|expr| {
            matches!(
                expr.kind,
                ExprKind::Member { .. }
                    | ExprKind::Static { .. }
                    | ExprKind::Index { .. }
                    | ExprKind::Call { .. }
                    | ExprKind::Generic { .. }
                    | ExprKind::Postfix(..)
                    | ExprKind::Binary(..)
                    | ExprKind::Pointer(_)
            )
        })
    }

    fn kind(&self, decl: DeclId) -> &DeclKind {
        &self.ast.decls[decl].kind
    }

    /// Returns true if parameters are where parameters are, and so on.
    pub(super) fn has_roles(&self, files: &[FileAst], facts: &[(DeclId, Facts)]) -> bool {
        let all =
            |decls: &[DeclId], fits: fn(&DeclKind) -> bool| decls.iter().all(|&decl| fits(self.kind(decl)));
        let decls_fit = self.decls().iter().all(|decl| {
            let generics = decl.generics.as_ref().is_none_or(|generics| {
                all(&generics.params, |kind| {
                    matches!(kind, DeclKind::TypeParam { .. } | DeclKind::ValueParam { .. })
                })
            });
            generics
                && match &decl.kind {
                    DeclKind::Tuple { parts, .. } => all(parts, is_variable),
                    DeclKind::Func { params, .. } | DeclKind::Init { params, .. } => all(params, is_param),
                    DeclKind::Subscript { params, accessors, .. } => {
                        all(params, is_param) && all(accessors, is_accessor)
                    }
                    DeclKind::Property { accessors, .. } => all(accessors, is_accessor),
                    DeclKind::Accessor { param, .. } => all(param.as_slice(), is_param),
                    DeclKind::Enum { cases, .. } => all(cases, |kind| matches!(kind, DeclKind::EnumCase(_))),
                    kind => all(kind.members(), is_free),
                }
        });
        let stmts_fit = self.stmts().iter().all(|stmt| match &stmt.kind {
            StmtKind::IfLet { var, .. } => is_variable(self.kind(*var)),
            StmtKind::Decl(decls) => all(decls, is_free),
            StmtKind::DoCatch { catches, .. } => {
                catches.iter().all(|(var, _)| all(var.as_slice(), is_variable))
            }
            _ => true,
        });
        let exprs_fit = self.exprs().iter().all(|expr| match expr.kind {
            ExprKind::Lambda(decl) => matches!(self.kind(decl), DeclKind::Func { .. }),
            _ => true,
        });
        let extend = |(decl, facts): &(DeclId, Facts)| {
            facts.extension.is_none() || matches!(self.kind(*decl), DeclKind::Func { .. })
        };
        decls_fit
            && stmts_fit
            && exprs_fit
            && facts.iter().all(extend)
            && files.iter().all(|file| all(&file.decls, is_free))
    }
}

fn is_param(kind: &DeclKind) -> bool {
    matches!(kind, DeclKind::Param { .. })
}

fn is_accessor(kind: &DeclKind) -> bool {
    matches!(kind, DeclKind::Accessor { .. })
}

fn is_variable(kind: &DeclKind) -> bool {
    matches!(kind, DeclKind::Var { .. } | DeclKind::Param { .. })
}

/// The declaration is no part of another one that only its kind has.
fn is_free(kind: &DeclKind) -> bool {
    !matches!(
        kind,
        DeclKind::Param { .. }
            | DeclKind::Accessor { .. }
            | DeclKind::EnumCase(_)
            | DeclKind::TypeParam { .. }
            | DeclKind::ValueParam { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_form_a_forest() {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let mut ast = Ast::default();
        ast.exprs.extend(vec![Expr { kind: ExprKind::NullPtr, span }; 100]);
        let is_forest = |parts: &dyn Fn(u32) -> Vec<u32>| {
            let mut edges = Edges::default();
            for node in 0..100 {
                edges.starts.push(edges.parts.len() as u32);
                edges.parts.extend(parts(node));
            }
            Nodes { ast: &ast, base: [0; 3] }.is_forest(edges)
        };
        assert!(is_forest(&|node| node.checked_sub(1).into_iter().collect()));
        assert!(!is_forest(&|node| vec![node]));
        assert!(!is_forest(&|node| vec![(node + 99) % 100]));
        // Each node is twice a part of the next one: there are 2^99 of the first.
        assert!(!is_forest(&|node| node.checked_sub(1).map_or(Vec::new(), |part| vec![part; 2])));
    }
}
