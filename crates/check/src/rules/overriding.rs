//! Rules about `override`: a member that replaces the default of an interface says so.

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic};

use crate::program::Program;
use crate::signature::Resolved;
use crate::tables::FuncRef;
use crate::types::TyKind;

impl Program {
    /// Checks the members of a struct or extension against the interfaces that it names.
    pub(crate) fn check_overriding(&mut self, decl: DeclId) {
        let ty = self.self_type(decl);
        if self.is_core(decl) || !matches!(self.types[ty], TyKind::Struct(..) | TyKind::Enum(_)) {
            return;
        }
        let (mut interfaces, mut is_derived) = (Vec::new(), false);
        for &base in self.bases_of(decl).iter() {
            match self.types[base] {
                TyKind::Interface(..) => self.add_interface(base, ty, &mut interfaces),
                _ => is_derived = true,
            }
        }
        let is_function =
            |p: &Program, member: DeclId| matches!(p.ast.decls[member].kind, DeclKind::Func { .. });
        let mut overriding = Vec::new();
        for interface in interfaces {
            let TyKind::Interface(of, args) = self.types[interface].clone() else { continue };
            if self.is_core(of) {
                continue;
            }
            for required in self.ast.decls[of].kind.members().to_vec() {
                if !is_function(self, required) || self.is_generic(required) {
                    continue;
                }
                let func = FuncRef { decl: required, args: args.clone(), self_ty: Some(ty) };
                let Resolved::Func(found) = self.fulfilment(&func, ty) else { continue };
                if found.decl == required || self.ast.decls[found.decl].parent != Some(decl) {
                    continue;
                }
                overriding.push(found.decl);
                let has_default = self.ast.decls[required].kind.body().is_some();
                if has_default && !self.ast.decls[found.decl].modifiers.has(Modifiers::OVERRIDE) {
                    let name = self.ast.decl_name(found.decl);
                    let message = format!("'{name}' replaces the default of an interface without saying so");
                    let warning = Diagnostic::warning("E30853", self.name_span(found.decl), message);
                    let warning = warning.note(self.name_span(required), "the default");
                    self.report_once(warning.help("write `override` before it, as Slang demands"));
                }
            }
        }
        for member in self.members(decl).to_vec() {
            let says_so = self.ast.decls[member].modifiers.has(Modifiers::OVERRIDE);
            let may_be = is_derived || self.is_generic(member) || overriding.contains(&member);
            if says_so && is_function(self, member) && !may_be {
                let name = self.ast.decl_name(member);
                let message = format!("'{name}' is marked `override`, and replaces no function");
                let error = Diagnostic::error("E30854", self.name_span(member), message);
                self.report(error.help("compare its parameters with those of the interface's function"));
            }
        }
    }
}
