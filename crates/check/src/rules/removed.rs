//! Uses of declarations that are marked as removed.

use rustc_hash::FxHashMap;
use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Symbol};

use crate::names::enter::last_name;
use crate::program::Program;
use crate::tables::{Callable, Meaning};
use crate::types::TyKind;

/// The version of the language that files are in which ask for none.
const DEFAULT_LANGUAGE: u32 = 2025;

impl Program {
    /// Reports uses of declarations that `[RemovedSince(…)]` marks.
    pub(crate) fn check_removed(&mut self) {
        let mut marked: FxHashMap<Symbol, Vec<DeclId>> = FxHashMap::default();
        for (decl, d) in self.ast.decls.iter() {
            if d.attributes.is_empty() || self.is_core(decl) {
                continue;
            }
            let is_mark = |name: &str| name == "RemovedSince";
            if d.attributes.iter().any(|a| is_mark(self.ast.name(a.name))) {
                marked.entry(d.name).or_default().push(decl);
            }
        }
        if marked.is_empty() {
            return;
        }
        for expr in self.ast.exprs.keys() {
            let is_path = matches!(
                self.ast.exprs[expr].kind,
                ExprKind::Name(_)
                    | ExprKind::GlobalName(_)
                    | ExprKind::Member { .. }
                    | ExprKind::Static { .. }
            );
            let Some(candidates) =
                last_name(&self.ast, expr).filter(|_| is_path).and_then(|n| marked.get(&n))
            else {
                continue;
            };
            if let Some(&decl) = candidates.iter().find(|decl| self.means(expr, **decl)) {
                self.report_removed(expr, decl);
            }
        }
    }

    /// Returns true if a path of names stands for a declaration.
    fn means(&self, expr: ExprId, decl: DeclId) -> bool {
        match &self.tables.exprs[expr].meaning {
            Meaning::Var(found) | Meaning::EnumCase(found) => *found == decl,
            Meaning::Field { field, .. } => *field == decl,
            Meaning::Func { func: Callable::Func(func), .. } => func.decl == decl,
            Meaning::StaticMember(func) | Meaning::Property { member: func, .. } => func.decl == decl,
            Meaning::Type(ty) => match (&self.types[*ty], &self.ast.decls[decl].kind) {
                (TyKind::Struct(found, _) | TyKind::Interface(found, _) | TyKind::Enum(found), _)
                    if *found == decl =>
                {
                    true
                }
                (_, DeclKind::TypeAlias(_)) => self.tables.decl_types[decl] == Some(*ty),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns true if a declaration has been removed from a version of the language; `[RemovedSince(-1, …)]`
    /// removes it from all.
    fn is_removed_in(&self, decl: DeclId, version: Option<u32>) -> bool {
        let Some(&since) = self.attribute(decl, "RemovedSince").and_then(|a| a.args.first()) else {
            return false;
        };
        match self.ast.exprs[since].kind {
            ExprKind::Int { value, .. } => u64::from(version.unwrap_or(DEFAULT_LANGUAGE)) >= value,
            _ => true,
        }
    }

    fn report_removed(&mut self, expr: ExprId, decl: DeclId) {
        let name = self.ast.decl_name(decl).to_string();
        let text = |p: &Program, attribute: &str| {
            let attribute = p.attribute(decl, attribute)?;
            let text = attribute.args.iter().find_map(|arg| match &p.ast.exprs[*arg].kind {
                ExprKind::String(text) => Some(text.clone()),
                _ => None,
            });
            Some(text.map_or(String::new(), |text| format!(": {text}")))
        };
        let span = match self.ast.exprs[expr].kind {
            ExprKind::Member { name_span, .. } | ExprKind::Static { name_span, .. } => name_span,
            _ => self.span(expr),
        };
        let languages = &self.ast.languages;
        let version = languages.iter().rev().find(|l| l.0 == span.file).map(|l| l.1);
        let Some(why) = text(self, "RemovedSince").filter(|_| self.is_removed_in(decl, version)) else {
            return;
        };
        let found = Diagnostic::error("E31207", span, format!("'{name}' has been removed{why}"));
        let found = self.declared(decl, found);
        self.report_once(found);
    }
}
