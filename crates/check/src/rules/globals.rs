//! Rules for global variables. One without `static` or `groupshared` is a parameter that the host sets.

use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::program::Program;
use crate::tables::Meaning;
use crate::types::{Ty, TyKind};

impl Program {
    pub(super) fn check_global(&mut self, decl: DeclId) {
        let d = &self.ast.decls[decl];
        let DeclKind::Var { ty, init, .. } = d.kind else { return };
        let modifiers = d.modifiers;
        if modifiers.has(Modifiers::STATIC)
            && modifiers.has(Modifiers::CONST)
            && init.is_some()
            // Of a generic constant, the same one with other arguments may be meant.
            && self.all_generic_params(decl).is_empty()
            && self.names_itself(decl)
        {
            let message =
                format!("the constant '{}' is defined in terms of itself", self.ast.decl_name(decl));
            self.report_once(Diagnostic::error("E0906", self.name_span(decl), message));
        }
        let is_global = self.ast.decls[decl]
            .parent
            .is_none_or(|p| matches!(self.ast.decls[p].kind, DeclKind::Namespace { .. }));
        if !is_global || ty.is_none() {
            return;
        }
        let span = self.name_span(decl);
        let marks = ["vk::push_constant", "push_constant"];
        let is_marked =
            self.is_specialized(decl) || marks.iter().any(|mark| self.attribute(decl, mark).is_some());
        if is_marked && modifiers.has(Modifiers::STATIC) {
            let message = "a constant that the host sets cannot be 'static'";
            let error = Diagnostic::error("E31219", span, message);
            return self.report(error.help("remove 'static'"));
        }
        if modifiers.has(Modifiers::STATIC) && !modifiers.has(Modifiers::CONST) {
            let ty = self.decl_type(decl);
            if self.holds_resource(ty, 0) {
                let message = "a global variable cannot hold a resource";
                let error = Diagnostic::error("E30076", span, message);
                return self.report(error.help("write 'static const' for a second name of the resource"));
            }
        }
        let stays = Modifiers(
            Modifiers::STATIC.0
                | Modifiers::GROUPSHARED.0
                | Modifiers::EXTERN.0
                | Modifiers::EXPORT.0
                | Modifiers::IN.0
                | Modifiers::OUT.0,
        );
        if is_marked || modifiers.has(stays) {
            return;
        }
        if init.is_some() && modifiers.has(Modifiers(Modifiers::CONST.0 | Modifiers::UNIFORM.0)) {
            let message = "a global variable with a value that is not 'static'";
            let warning = Diagnostic::warning("E31224", span, message);
            let help =
                "write 'static const' for a constant; without 'static', the host may set another value";
            return self.report(warning.help(help));
        }
        let ty = self.decl_type(decl);
        if !modifiers.has(Modifiers(Modifiers::UNIFORM.0 | Modifiers::CONST.0))
            && init.is_none()
            && self.holds_numbers(ty, 0)
        {
            let message = format!("'{}' is a parameter that the host sets", self.ast.decl_name(decl));
            let warning = Diagnostic::warning("E39019", span, message);
            self.report(warning.help("write 'uniform' if it is one, and 'static' if it is a variable"));
        }
    }

    /// Returns true if the value of a constant depends on the constant itself.
    fn names_itself(&mut self, constant: DeclId) -> bool {
        let (mut open, mut seen) = (vec![constant], FxHashSet::default());
        while let Some(decl) = open.pop() {
            let DeclKind::Var { init: Some(init), .. } = self.ast.decls[decl].kind else { continue };
            self.body(decl);
            let mut exprs: Vec<ExprId> = vec![init];
            while let Some(expr) = exprs.pop() {
                self.ast.exprs[expr].kind.operands(&mut exprs);
                let named = match &self.tables.exprs[expr].meaning {
                    Meaning::Var(decl) => *decl,
                    Meaning::StaticMember(func) => func.decl,
                    _ => continue,
                };
                if named == constant {
                    return true;
                }
                if self.is_constant(named) && !self.is_core(named) && seen.insert(named) {
                    open.push(named);
                }
            }
        }
        false
    }

    /// Returns true if a value of a type has a handle of a resource.
    pub(super) fn holds_resource(&mut self, ty: Ty, depth: u32) -> bool {
        match self.types[ty].clone() {
            _ if self.is_bound(ty) => true,
            TyKind::Array(element, _) | TyKind::Optional(element) => self.holds_resource(element, depth + 1),
            TyKind::Struct(decl, _) if !self.is_core(decl) && depth < 16 => {
                let fields = self.raw_fields(ty);
                fields.into_iter().any(|(_, field)| self.holds_resource(field, depth + 1))
            }
            _ => false,
        }
    }

    /// Returns true if a value of a type has numbers of its own, as opposed to handles of resources.
    pub(super) fn holds_numbers(&mut self, ty: Ty, depth: u32) -> bool {
        match self.types[ty].clone() {
            TyKind::Scalar(_) | TyKind::Vector(..) | TyKind::Matrix(..) | TyKind::Enum(_) => true,
            TyKind::Array(element, _) | TyKind::Optional(element) => self.holds_numbers(element, depth + 1),
            TyKind::Struct(decl, _) if !self.is_core(decl) && depth < 16 => {
                let fields = self.fields(ty);
                fields.into_iter().any(|(_, field, _)| self.holds_numbers(field, depth + 1))
            }
            _ => false,
        }
    }
}
