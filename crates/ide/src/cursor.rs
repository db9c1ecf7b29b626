//! Maps an offset to the node under it, and to the meaning of that node.
//!
//! The checker records a meaning for whole expressions; the name in `f(x)` or `a.b<int>()` has none of its
//! own. A name therefore takes the meaning of the expression of which it is the head.

use check::tables::{Callable, Meaning};
use check::types::{Ty, TyKind, Val};
use rustc_hash::FxHashMap;
use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, ExprId, FileId, Span};

use crate::Analysis;

/// The node under the cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Under {
    /// The name of a declaration, at the declaration itself.
    Declaration(DeclId),
    /// An expression: a name, or the innermost expression around the cursor.
    Expr(ExprId),
}

/// Maps operands to the expressions that they are operands of.
pub(crate) type Parents = FxHashMap<ExprId, ExprId>;

/// The referent of a name.
#[derive(Clone, Debug)]
pub(crate) enum Entity {
    /// A variable, field, case, parameter, namespace, ….
    Decl(DeclId),
    /// A function, possibly within derivative operators.
    Func(Callable),
    /// A type.
    Type(Ty),
}

impl Analysis {
    /// The node at an offset of the file, and its span. Checks the declaration around it.
    pub(crate) fn under(&mut self, offset: u32) -> Option<(Under, Span)> {
        self.check_around(offset);
        let ast = &self.program.ast;
        let hit = |span: Span| span.file == self.file && span.start <= offset && offset <= span.end;
        let names =
            ast.exprs.iter().filter_map(|(id, e)| Some((Under::Expr(id), name_part(&e.kind, e.span)?)));
        let decls = ast
            .decls
            .iter()
            .filter(|d| d.1.name_span.start < d.1.name_span.end && !ast.name(d.1.name).is_empty())
            .map(|(id, d)| (Under::Declaration(id), d.name_span));
        let smallest = |found: &mut dyn Iterator<Item = (Under, Span)>| {
            found.filter(|n| hit(n.1)).min_by_key(|n| n.1.end - n.1.start)
        };
        if let Some(found) = smallest(&mut names.chain(decls)) {
            return Some(found);
        }
        let known = |id: &ExprId| !matches!(self.program.tables.exprs[*id].meaning, Meaning::Error);
        let mut exprs = ast.exprs.iter().filter(|e| known(&e.0)).map(|(id, e)| (Under::Expr(id), e.span));
        smallest(&mut exprs)
    }

    /// The top-level declaration around an offset.
    pub(crate) fn top_level(&self, offset: u32) -> Option<DeclId> {
        let ast = &self.program.ast;
        let around = |d: &DeclId| {
            let span = ast.decls[*d].span;
            span.file == self.file && span.start <= offset && offset <= span.end
        };
        ast.files[self.index].decls.iter().copied().find(around)
    }

    /// Checks the top-level declaration around an offset.
    pub(crate) fn check_around(&mut self, offset: u32) {
        if let Some(decl) = self.top_level(offset) {
            self.program.check_declaration(decl);
        }
    }

    /// The entity that an expression refers to, if it is a name or an operator on one.
    pub(crate) fn entity(&mut self, expr: ExprId) -> Option<Entity> {
        let parents = self.parents(self.program.ast.exprs[expr].span.file);
        self.entity_within(expr, &parents)
    }

    /// The entity of an expression, given the parents of all expressions of its file.
    pub(crate) fn entity_within(&mut self, expr: ExprId, parents: &Parents) -> Option<Entity> {
        let mut at = expr;
        // Each step goes to a parent, so the loop ends.
        loop {
            if let Some(found) = self.own_entity(at) {
                return Some(found);
            }
            let parent = *parents.get(&at)?;
            match &self.program.ast.exprs[parent].kind {
                ExprKind::Call { callee: head, .. }
                | ExprKind::Generic { base: head, .. }
                | ExprKind::Paren(head)
                | ExprKind::Derivative(_, head)
                    if *head == at => {}
                // `f.bwd_diff(…)`
                ExprKind::Member { base, name, .. }
                    if *base == at && matches!(self.program.ast.name(*name), "fwd_diff" | "bwd_diff") => {}
                _ => return None,
            }
            at = parent;
        }
    }

    /// Maps each operand in the file to the expression that it is an operand of.
    pub(crate) fn parents(&self, file: FileId) -> Parents {
        let mut parents = FxHashMap::default();
        let mut operands = Vec::new();
        for (id, expr) in self.program.ast.exprs.iter().filter(|e| e.1.span.file == file) {
            operands.clear();
            expr.kind.operands(&mut operands);
            parents.extend(operands.iter().map(|&o| (o, id)));
        }
        parents
    }

    fn own_entity(&mut self, expr: ExprId) -> Option<Entity> {
        let info = self.program.tables.exprs[expr].clone();
        Some(match info.meaning {
            Meaning::Var(decl) | Meaning::EnumCase(decl) | Meaning::Namespace(decl) => Entity::Decl(decl),
            Meaning::Value(Val::Param(decl)) => Entity::Decl(decl),
            Meaning::StaticMember(func) => Entity::Decl(func.decl),
            Meaning::Field { field, .. } | Meaning::DiffField { field, .. } => Entity::Decl(field),
            Meaning::Property { member, .. } => Entity::Decl(member.decl),
            Meaning::Func { func, .. } | Meaning::Call { func, .. } => Entity::Func(func),
            Meaning::Init { init, .. } => Entity::Func(Callable::Func(init)),
            Meaning::Type(ty) => Entity::Type(ty),
            // `S(a, b)` and `float3(v, 1)`: the name before the bracket is a type.
            Meaning::Construct(_) | Meaning::Aggregate(_) | Meaning::Cast(_)
                if matches!(self.program.ast.exprs[expr].kind, ExprKind::Call { .. }) =>
            {
                Entity::Type(info.ty)
            }
            _ => return None,
        })
    }

    /// The declaration behind an entity.
    pub(crate) fn declaration_of(&self, entity: &Entity) -> Option<DeclId> {
        match entity {
            Entity::Decl(decl) => Some(*decl),
            Entity::Func(callable) => function_of(callable),
            Entity::Type(ty) => match &self.program.types[*ty] {
                TyKind::Struct(decl, _) | TyKind::Interface(decl, _) | TyKind::Opaque(decl, _) => Some(*decl),
                TyKind::Enum(decl) | TyKind::Param(decl) | TyKind::Assoc(_, decl) | TyKind::This(decl) => {
                    Some(*decl)
                }
                TyKind::SynthDiff(primal) => self.declaration_of(&Entity::Type(*primal)),
                _ => None,
            },
        }
    }

    /// The index of the file that an `import` or `__include` at an offset names.
    pub(crate) fn imported(&mut self, offset: u32) -> Option<usize> {
        let decl = self.top_level(offset)?;
        let (path, quoted) = match &self.program.ast.decls[decl].kind {
            DeclKind::Import { path, quoted } | DeclKind::Include { path, quoted } => (path.clone(), *quoted),
            _ => return None,
        };
        check::ModuleLoader::load(&mut self.session, &mut self.program, &path, quoted, self.file)
    }
}

/// The function inside any derivative operators.
pub(crate) fn function_of(callable: &Callable) -> Option<DeclId> {
    callable.function().map(|func| func.decl)
}

/// The span of the name in an expression, if it has one.
pub(crate) fn name_part(kind: &ExprKind, span: Span) -> Option<Span> {
    match kind {
        ExprKind::Name(_) | ExprKind::OperatorName(_) | ExprKind::GlobalName(_) | ExprKind::This => {
            Some(span)
        }
        ExprKind::Member { name_span, .. } | ExprKind::Static { name_span, .. } => Some(*name_span),
        _ => None,
    }
}
