//! Rules for the bases of structs, and for what an interface requires: only methods may have a body there, a property or subscript has bodies
//! for all of its accessors or for none, and a constant gets its value from the types.

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic};

use crate::program::Program;
use crate::types::TyKind;
use crate::types::follow_up::text;

impl Program {
    /// Warns of a type that cannot be copied and conforms to an interface, whose values are.
    pub(super) fn check_copies(&mut self, decl: DeclId) {
        let (DeclKind::Struct { bases, .. } | DeclKind::Extension { bases, .. }) = &self.ast.decls[decl].kind
        else {
            return;
        };
        let Some(&base) = bases.first() else { return };
        let ty = self.self_type(decl);
        let TyKind::Struct(of, _) = self.types[ty] else { return };
        if self.attribute(of, "__NonCopyableType").is_some() {
            let message = text!("a '{}' cannot be copied, as values of an interface are", self.shown(ty));
            let warning = Diagnostic::warning("E38109", self.span(base), message);
            self.report(warning.help("call its methods directly, or pass it by 'inout'"));
        }
    }

    /// Checks what a struct derives from. Versions of the language from 2026 on refuse other structs, and a file
    /// may ask for a version.
    pub(super) fn check_bases(&mut self, decl: DeclId) {
        let DeclKind::Struct { bases, .. } = &self.ast.decls[decl].kind else { return };
        let file = self.ast.decls[decl].span.file;
        let Some(&(_, version)) = self.ast.languages.iter().rev().find(|l| l.0 == file) else { return };
        for base in bases.clone() {
            let TyKind::Struct(of, _) = self.types[self.tables.exprs[base].ty] else { continue };
            let (name, base_name) = (self.ast.decl_name(decl), self.ast.decl_name(of));
            let message = format!("the struct '{name}' is derived from the struct '{base_name}'");
            self.report(match version {
                2026.. => Diagnostic::error("E30811", self.span(base), message)
                    .help("the version of the language that this file asks for has interfaces as bases only"),
                _ => Diagnostic::warning("E30816", self.span(base), message)
                    .help("later versions of the language refuse it: make it a field"),
            });
        }
    }

    pub(super) fn check_requirement(&mut self, decl: DeclId) {
        let d = &self.ast.decls[decl];
        let is_requirement =
            d.parent.is_some_and(|p| matches!(self.ast.decls[p].kind, DeclKind::Interface { .. }));
        if !is_requirement {
            return;
        }
        let span = d.name_span;
        if d.modifiers.has(Modifiers::OVERRIDE) {
            let message = "a requirement of an interface overrides nothing";
            self.report(Diagnostic::error("E30312", span, message).help("remove 'override'"));
        }
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Init { body: Some(_), .. } => {
                self.error("E30317", span, "a constructor that an interface requires cannot have a body");
            }
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                let with_body: Vec<DeclId> =
                    accessors.iter().copied().filter(|&a| self.ast.decls[a].kind.body().is_some()).collect();
                if with_body.len() < accessors.len()
                    && let Some(&first) = with_body.first()
                {
                    let message = "this accessor has a body, but others of the requirement have none";
                    let error = Diagnostic::error("E30318", self.name_span(first), message);
                    self.report(error.help("give all accessors a body, or none"));
                }
            }
            DeclKind::Var { init: Some(init), .. }
                if self.ast.decls[decl].modifiers.has(Modifiers::STATIC) =>
            {
                let message = "a constant that an interface requires has no value there";
                let error = Diagnostic::error("E30623", self.span(init), message);
                self.report(error.help("the types that conform give it a value"));
            }
            _ => {}
        }
    }
}
