//! Rules of visibility: what is `public` names no types that are less visible, and `private` members are used
//! by their own type and its extensions only.

use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic, Span};

use crate::program::Program;
use crate::types::follow_up::text;
use crate::types::{Part, Ty, TyKind};

/// How widely a declaration can be named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Type,
    Module,
    Everywhere,
}

impl Program {
    pub(super) fn check_visibility(&mut self, decl: DeclId) {
        self.check_named_types(decl);
        self.check_private_uses(decl);
    }

    /// Reports a declaration that is more visible than a type in its signature.
    fn check_named_types(&mut self, decl: DeclId) {
        let reach = self.reach(decl);
        if reach == Reach::Type || !self.ast.decls[decl].modifiers.has(Modifiers::PUBLIC) {
            return;
        }
        let mut types: Vec<Ty> = match &self.ast.decls[decl].kind {
            DeclKind::Func { .. } | DeclKind::Init { .. } => {
                let params = self.params_of(decl);
                params.into_iter().map(|param| self.decl_type(param)).collect()
            }
            DeclKind::Var { .. } | DeclKind::Property { .. } | DeclKind::Subscript { .. } => {
                vec![self.decl_type(decl)]
            }
            // An alias that is itself what is public is how a hidden type gets out.
            DeclKind::TypeAlias(_) if self.ast.decls[decl].generics.is_none() => vec![self.decl_type(decl)],
            _ => return,
        };
        if let DeclKind::Func { .. } = self.ast.decls[decl].kind {
            types.push(self.raw_signature(decl).ret);
        }
        let mut seen = FxHashSet::default();
        let hidden = types.into_iter().find_map(|ty| self.less_visible(ty, reach, &mut seen));
        let Some(hidden) = hidden else { return };
        let name = self.function_name(decl);
        let message = text!("'{name}' is public, and the type '{}' is not", self.ast.decl_name(hidden));
        let error = Diagnostic::error("E30604", self.name_span(decl), message);
        let mut error = error.note(self.name_span(hidden), "this type");
        // The constructor that a struct has by itself takes the field, too.
        if let (DeclKind::Var { .. }, Some(owner)) = (&self.ast.decls[decl].kind, self.container_of(decl)) {
            error = error.note(self.name_span(owner), "its field");
        }
        self.report(error.help("mark the type 'public'"));
    }

    /// How widely a declaration says that it can be named.
    fn reach(&self, decl: DeclId) -> Reach {
        let modifiers = self.ast.decls[decl].modifiers;
        if modifiers.has(Modifiers::PRIVATE) {
            Reach::Type
        } else if modifiers.has(Modifiers::INTERNAL) {
            Reach::Module
        } else if modifiers.has(Modifiers::PUBLIC) || !self.modules.all[self.module_of(decl)].has_visibility {
            Reach::Everywhere
        } else {
            Reach::Module
        }
    }

    /// A declaration that a type mentions and that is less visible.
    fn less_visible(&self, ty: Ty, reach: Reach, seen: &mut FxHashSet<Ty>) -> Option<DeclId> {
        if !seen.insert(ty) {
            return None;
        }
        let kind = &self.types[ty];
        let own = match kind {
            TyKind::Struct(decl, _) | TyKind::Interface(decl, _) | TyKind::Enum(decl) => Some(*decl),
            _ => None,
        };
        if let Some(decl) = own.filter(|&decl| !self.is_core(decl) && self.reach(decl) < reach) {
            return Some(decl);
        }
        let mut found = None;
        kind.for_each_part(&mut |part| {
            if let Part::Type(part) = part {
                found = found.or_else(|| self.less_visible(part, reach, seen));
            }
        });
        found
    }

    /// Reports the use of a `private` member outside of its type.
    fn check_private_uses(&mut self, decl: DeclId) {
        if !matches!(
            self.ast.decls[decl].kind,
            DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. } | DeclKind::Var { .. }
        ) {
            return;
        }
        for (used, span) in self.names_used_in(decl) {
            if self.ast.decls[used].modifiers.has(Modifiers::PRIVATE) {
                self.check_private(decl, used, span);
            }
        }
    }

    fn check_private(&mut self, user: DeclId, used: DeclId, span: Span) {
        let Some(owner) = self.container_of(used) else { return };
        let ty = self.self_type(owner);
        let TyKind::Struct(owner, _) = self.types[ty] else { return };
        let around: Vec<DeclId> = self.ast.enclosing(user).filter(|&d| self.is_type(d)).collect();
        let is_inside = around.into_iter().any(|d| {
            let ty = self.self_type(d);
            d == owner || matches!(self.types[ty], TyKind::Struct(decl, _) if decl == owner)
        });
        if !is_inside {
            let name = self.function_name(used);
            let of = self.ast.decl_name(owner);
            let error = Diagnostic::error("E30600", span, format!("'{name}' is a private member of '{of}'"));
            let error = error.note(self.name_span(used), "declared here");
            self.report(error);
        }
    }
}
