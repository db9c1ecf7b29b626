//! Rules for the parameters of functions and setters.

use syntax::ast::{AccessorKind, DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic};

use crate::program::Program;
use crate::types::Ty;
use crate::types::follow_up::text;

impl Program {
    pub(super) fn check_parameters(&mut self, decl: DeclId) {
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Func { params, .. } | DeclKind::Init { params, .. } => {
                self.check_default_order(&params);
            }
            DeclKind::Property { accessors, .. } => {
                let ty = self.decl_type(decl);
                for accessor in accessors {
                    self.check_setter(accessor, ty);
                }
            }
            _ => {}
        }
    }

    /// Reports a parameter without a default after one that has a default: the earlier default is never used.
    fn check_default_order(&mut self, params: &[DeclId]) {
        let mut with_default = None;
        for &param in params {
            let DeclKind::Param { default, .. } = self.ast.decls[param].kind else { continue };
            let is_pack = self.ast.decls[param].modifiers.has(Modifiers::EACH) || {
                let ty = self.decl_type(param);
                self.is_pack(ty)
            };
            match (default, with_default) {
                (Some(_), _) => with_default = with_default.or(Some(param)),
                (None, Some(first)) if !is_pack => {
                    let (own, other) = (self.ast.decl_name(param), self.ast.decl_name(first));
                    let message = format!("'{own}' has no default, but follows '{other}', which has one");
                    let error = Diagnostic::error("E30704", self.name_span(param), message);
                    return self.report(error.note(self.name_span(first), "this parameter"));
                }
                _ => {}
            }
        }
    }

    /// Reports a setter for values of another type than the property's.
    fn check_setter(&mut self, accessor: DeclId, ty: Ty) {
        let DeclKind::Accessor { kind: AccessorKind::Set, param: Some(param), .. } =
            self.ast.decls[accessor].kind
        else {
            return;
        };
        let DeclKind::Param { ty: Some(_), .. } = self.ast.decls[param].kind else { return };
        let takes = self.decl_type(param);
        if takes != ty && takes != Ty::ERROR && ty != Ty::ERROR {
            let message = text!(
                "this setter takes '{}', and the property is of type '{}'",
                self.shown(takes),
                self.shown(ty)
            );
            self.error("E31109", self.name_span(param), message);
        }
    }
}
