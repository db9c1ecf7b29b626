//! Warns of the use of what is marked `[deprecated("…")]`.

use syntax::ast::ExprKind;
use syntax::{DeclId, Diagnostic, ExprId, Span};

use super::Code;
use crate::program::Program;
use crate::tables::Meaning;
use crate::types::TyKind;

impl Program {
    /// Looks over the names in a declaration. What is deprecated itself may use its like.
    pub(super) fn lint_uses(&mut self, decl: DeclId, code: &Code) {
        if self.ast.symbols.find("deprecated").is_none_or(|_| self.is_deprecated(decl)) {
            return;
        }
        let mut types = code.types.clone();
        let mut next = 0;
        while let Some(&ty) = types.get(next) {
            self.ast.exprs[ty].kind.operands(&mut types);
            next += 1;
        }
        for &expr in code.exprs.iter().chain(&types) {
            let Some((used, span)) = self.named_by(expr) else { continue };
            let Some(attribute) = self.attribute(used, "deprecated") else { continue };
            let why = attribute.args.first().and_then(|&arg| match &self.ast.exprs[arg].kind {
                ExprKind::String(text) => Some(text.clone()),
                _ => None,
            });
            let name = self.ast.decl_name(used);
            let message = match why {
                Some(why) => format!("'{name}' is deprecated: {why}"),
                None => format!("'{name}' is deprecated"),
            };
            let warning = self.declared(used, Diagnostic::warning("E31200", span, message));
            self.report_once(warning);
        }
    }

    fn is_deprecated(&self, decl: DeclId) -> bool {
        self.ast.enclosing(decl).any(|d| self.attribute(d, "deprecated").is_some())
    }

    /// The declaration that an expression names, and the location of the name.
    pub(super) fn named_by(&self, expr: ExprId) -> Option<(DeclId, Span)> {
        let span = match self.ast.exprs[expr].kind {
            ExprKind::Member { name_span, .. } | ExprKind::Static { name_span, .. } => name_span,
            ExprKind::Name(_)
            | ExprKind::GlobalName(_)
            | ExprKind::Generic { .. }
            | ExprKind::Call { .. } => self.span(expr),
            _ => return None,
        };
        let decl = match &self.tables.exprs[expr].meaning {
            Meaning::Var(decl) | Meaning::EnumCase(decl) | Meaning::Field { field: decl, .. } => *decl,
            Meaning::StaticMember(func) | Meaning::Init { init: func, .. } => func.decl,
            Meaning::Property { member, .. } => member.decl,
            Meaning::Func { func, .. } => func.function()?.decl,
            Meaning::Type(ty) => match self.types[*ty] {
                TyKind::Struct(decl, _) | TyKind::Interface(decl, _) | TyKind::Enum(decl) => decl,
                _ => return None,
            },
            _ => return None,
        };
        Some((decl, span))
    }
}
