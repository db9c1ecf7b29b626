//! Visibility: `public`, `internal` and `private`.

use syntax::DeclId;
use syntax::ast::{DeclKind, Modifiers};

use crate::program::Program;

impl Program {
    /// Returns true if other modules may name a declaration: it and all enclosing declarations are `public`,
    /// or its module does not use visibility modifiers.
    pub(crate) fn is_visible_outside(&self, decl: DeclId) -> bool {
        if !self.modules.all[self.module_of(decl)].has_visibility {
            return true;
        }
        let mut at = Some(decl);
        while let Some(decl) = at {
            let d = &self.ast.decls[decl];
            let decides = match d.kind {
                DeclKind::Namespace { .. } | DeclKind::Extension { .. } | DeclKind::CBuffer { .. } => false,
                // Visible like the enumeration.
                DeclKind::EnumCase(_) => false,
                // From version 2026 of the language on, the members of a struct are visible like the struct.
                _ if self.is_member_of_2026(decl) => false,
                // Visible like the interface, property or subscript that it belongs to.
                _ => !d.parent.is_some_and(|p| {
                    matches!(
                        self.ast.decls[p].kind,
                        DeclKind::Interface { .. } | DeclKind::Property { .. } | DeclKind::Subscript { .. }
                    )
                }),
            };
            let hidden = Modifiers(Modifiers::INTERNAL.0 | Modifiers::PRIVATE.0);
            if d.modifiers.has(hidden) || decides && !d.modifiers.has(Modifiers::PUBLIC) {
                return false;
            }
            at = d.parent;
        }
        true
    }

    /// Returns true for a member of a struct in a file that asks for version 2026 of the language, or a later
    /// one.
    fn is_member_of_2026(&self, decl: DeclId) -> bool {
        let d = &self.ast.decls[decl];
        let is_new = self.ast.languages.iter().any(|l| l.0 == d.span.file && l.1 >= 2026);
        is_new && d.parent.is_some_and(|p| matches!(self.ast.decls[p].kind, DeclKind::Struct { .. }))
    }

    /// Returns true if code at a declaration may name another declaration.
    pub(crate) fn is_accessible(&self, decl: DeclId, from: DeclId) -> bool {
        self.is_core(decl) || self.module_of(decl) == self.module_of(from) || self.is_visible_outside(decl)
    }

    /// Returns true if brace lists skip a field because it is less visible than its struct.
    pub(crate) fn is_hidden_from_lists(&self, field: DeclId) -> bool {
        let level = |decl: DeclId, default: u32| {
            let modifiers = self.ast.decls[decl].modifiers;
            if modifiers.has(Modifiers::PRIVATE) {
                0
            } else if modifiers.has(Modifiers::INTERNAL) {
                1
            } else if modifiers.has(Modifiers::PUBLIC) {
                2
            } else {
                default
            }
        };
        let Some(parent) = self.ast.decls[field].parent else { return false };
        let own = level(parent, 1);
        level(field, own) < own
    }
}
