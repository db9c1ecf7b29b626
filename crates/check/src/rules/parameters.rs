//! Rules about generic parameters.

use syntax::ast::{Constraint, DeclKind, ExprKind, Modifiers, SizeOfKind};
use syntax::{DeclId, Diagnostic};

use crate::program::Program;
use crate::types::follow_up::text;
use crate::types::{Scalar, TyKind};

impl Program {
    /// Checks the generic parameters of a declaration.
    pub(crate) fn check_generic_params(&mut self, decl: DeclId) {
        let Some(generics) = self.ast.decls[decl].generics.clone() else { return };
        let mut pack = None;
        for &param in &generics.params {
            self.check_value_param(param);
            let name = self.ast.decl_name(param).to_string();
            let is_pack = self.ast.decls[param].modifiers.has(Modifiers::EACH);
            if let Some(pack) = pack.filter(|_| !is_pack) {
                let message = format!("the generic parameter '{name}' comes after a pack");
                let error = Diagnostic::error("E30522", self.name_span(param), message);
                let error = error.help("a pack takes all arguments that are left, so it comes last");
                self.report(error.note(self.name_span(pack), "the pack"));
            } else if is_pack {
                pack = Some(param);
            }
        }
        for constraint in &generics.constraints {
            self.check_pack_constraint(decl, &generics.params, constraint);
        }
    }

    /// Reports a value parameter of a type whose values are not integers.
    fn check_value_param(&mut self, param: DeclId) {
        let DeclKind::ValueParam { ty, .. } = self.ast.decls[param].kind else { return };
        let name = self.ast.decl_name(param).to_string();
        let span = self.name_span(param);
        if ty.is_none() {
            let error =
                Diagnostic::error("E30625", span, format!("the generic parameter '{name}' needs a type"));
            self.report(error.help(format!("write `let {name} : int`")));
            return;
        }
        let ty = self.decl_type(param);
        let is_float = |scalar: &Scalar| scalar.is_float();
        let fits = match &self.types[ty] {
            TyKind::Scalar(scalar) => !is_float(scalar),
            TyKind::Vector(..) | TyKind::Matrix(..) | TyKind::Struct(..) | TyKind::String => false,
            _ => true,
        };
        if !fits {
            let message = text!("a generic parameter cannot be a value of type '{}'", self.shown(ty));
            let help = "it is an integer, a `bool` or a case of an enumeration";
            self.report(Diagnostic::error("E30624", span, message).help(help));
        }
    }

    /// Reports constraints on the number of elements of what is not a pack of this declaration.
    fn check_pack_constraint(&mut self, decl: DeclId, params: &[DeclId], constraint: &Constraint) {
        let (pack, what) = match constraint {
            Constraint::Equal(left, _) => match self.ast.exprs[*left].kind {
                ExprKind::SizeOf(SizeOfKind::CountOf, pack, _) => (pack, "countof"),
                _ => return,
            },
            Constraint::NonEmpty(pack) => (*pack, "nonempty"),
            _ => return,
        };
        let span = self.span(pack);
        let ExprKind::Name(name) = self.ast.exprs[pack].kind else { return self.no_pack(what, span) };
        let is_pack = |p: &DeclId| self.ast.decls[*p].modifiers.has(Modifiers::EACH);
        if params.iter().any(|p| self.ast.decls[*p].name == name && is_pack(p)) {
            return;
        }
        let outer = self.ast.enclosing(decl).skip(1).find_map(|d| {
            let generics = self.ast.decls[d].generics.as_ref()?;
            generics.params.iter().copied().find(|p| self.ast.decls[*p].name == name && is_pack(p))
        });
        let Some(outer) = outer else { return self.no_pack(what, span) };
        let text = self.ast.name(name);
        let message =
            format!("'{text}' is not a parameter of this declaration, so it cannot be constrained here");
        let error = Diagnostic::error("E30431", span, message);
        self.report(error.note(self.name_span(outer), "declared here"));
    }

    fn no_pack(&mut self, what: &str, span: syntax::Span) {
        let message = format!("a `{what}` constraint needs a pack");
        let help = "name a generic parameter that is declared with `each`";
        self.report(Diagnostic::error("E30430", span, message).help(help));
    }
}
