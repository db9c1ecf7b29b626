//! The rules of attributes that a program declares: `[Speed(2)]` stands for the struct `SpeedAttribute`, which
//! `[__AttributeUsage(…)]` marks. Its arguments are the struct's fields, and it stands where the mark allows.

use syntax::ast::{Attribute, DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic};

use crate::exprs::infer::Checker;
use crate::names::lookup::Ref;
use crate::program::Program;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

impl Program {
    pub(super) fn check_own_attributes(&mut self, decl: DeclId) {
        for attribute in self.ast.decls[decl].attributes.clone() {
            if let Some(ty) = self.declared_attribute(decl, &attribute) {
                self.check_own_attribute(decl, &attribute, ty);
            }
        }
    }

    /// The struct that declares an attribute.
    fn declared_attribute(&mut self, decl: DeclId, attribute: &Attribute) -> Option<Ty> {
        let name = format!("{}Attribute", self.ast.name(attribute.name));
        let name = self.ast.symbols.find(&name)?;
        let Ref::Type(ty) = self.quietly(|p| Checker::new(p, decl).lookup(name)) else { return None };
        let TyKind::Struct(of, _) = self.types[ty] else { return None };
        (self.attribute(of, "__AttributeUsage").is_some() && !self.is_core(of)).then_some(ty)
    }

    fn check_own_attribute(&mut self, decl: DeclId, attribute: &Attribute, ty: Ty) {
        let TyKind::Struct(of, _) = self.types[ty] else { return };
        let name = self.ast.name(attribute.name).to_string();
        let allowed: Vec<String> = self.ast.decls[of]
            .attributes
            .iter()
            .filter(|a| self.ast.name(a.name) == "__AttributeUsage")
            .filter_map(|a| match self.ast.exprs[*a.args.first()?].kind {
                ExprKind::Member { name, .. } | ExprKind::Static { name, .. } => {
                    Some(self.ast.name(name).to_string())
                }
                _ => None,
            })
            .collect();
        let own = match self.ast.decls[decl].kind {
            DeclKind::Struct { .. } => "Struct",
            DeclKind::Var { .. } => "Var",
            DeclKind::Func { .. } => "Function",
            DeclKind::Param { .. } => "Param",
            _ => return,
        };
        if !allowed.is_empty() && !allowed.iter().any(|place| place == own) {
            let message = format!("'[{name}]' cannot stand here: it is for '{}'", allowed.join("', '"));
            let error = Diagnostic::error("E31002", attribute.span, message);
            return self.report(error.note(self.name_span(of), "as its declaration says"));
        }
        let fields = self.fields(ty);
        if attribute.args.len() > fields.len() {
            let n = fields.len();
            let message = format!("'[{name}]' takes {n} arguments, not {}", attribute.args.len());
            return self.report(Diagnostic::error("E31001", attribute.span, message));
        }
        for (&arg, (_, wanted, _)) in attribute.args.iter().zip(fields) {
            Checker::new(self, decl).check(arg, wanted);
            let (from, to) = (self.tables.exprs[arg].ty, self.tables.exprs[arg].coerce);
            let is_scalar = |p: &Program, ty: Ty, float: bool| matches!(p.types[ty], TyKind::Scalar(scalar) if scalar.is_float() == float);
            if let Some(to) = to.filter(|&to| is_scalar(self, from, true) && is_scalar(self, to, false)) {
                let message = text!("a '{}' becomes a '{}' here", self.shown(from), self.shown(to));
                self.report(Diagnostic::warning("E30081", self.span(arg), message));
            }
        }
    }
}
