//! Rules about attributes: what they may stand before, and their arguments.

use syntax::ast::{Attribute, DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::derivatives::implicit::IMPLICIT;
use crate::program::Program;
use crate::signature::Subst;
use crate::types::{Ty, TyKind};

/// The greatest `[anyValueSize(n)]`.
const MAX_ANY_VALUE: i64 = 0x7fff;

impl Program {
    /// Reports attributes that do not apply to the declaration after them.
    pub(crate) fn check_attribute_places(&mut self, decl: DeclId) {
        for attribute in self.ast.decls[decl].attributes.clone() {
            let span = attribute.span;
            match self.ast.name(attribute.name) {
                "MaybeDifferentiable" if !self.is_requirement(decl) => {
                    let message = "`[MaybeDifferentiable]` is for what an interface requires";
                    let help = "mark a function `[Differentiable]`, or remove the attribute";
                    self.report(Diagnostic::error("E30314", span, message).help(help));
                }
                "TreatAsDifferentiable"
                    if self.is_requirement(decl) && self.ast.decls[decl].kind.body().is_none() =>
                {
                    let message = "`[TreatAsDifferentiable]` is for a function with a body";
                    let help = "require derivatives by `[Differentiable]`";
                    self.report(Diagnostic::error("E30313", span, message).help(help));
                }
                IMPLICIT if !self.is_function(decl) => self.misplaced_implied(span),
                "NoDiscard" => self.check_no_discard(decl),
                "anyValueSize" => self.check_any_value_size(&attribute),
                "COM" => self.check_guid(&attribute),
                "vk::constant_id" | "vk::specialization_constant" | "SpecializationConstant" => {
                    self.check_specialization(decl, &attribute);
                }
                _ => {}
            }
        }
    }

    /// The integer that is an attribute's argument.
    pub(crate) fn integer_argument(&mut self, attribute: &Attribute, idx: usize) -> Option<i64> {
        let &arg = attribute.args.get(idx)?;
        self.integer_of(arg)
    }

    fn integer_of(&mut self, arg: ExprId) -> Option<i64> {
        match self.ast.exprs[arg].kind {
            ExprKind::Int { value, .. } => i64::try_from(value).ok(),
            _ => self.const_int(arg, &Subst::default()),
        }
    }

    /// The text that is an attribute's argument.
    pub(crate) fn text_argument(&self, attribute: &Attribute) -> Option<String> {
        match &self.ast.exprs[*attribute.args.first()?].kind {
            ExprKind::String(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn check_no_discard(&mut self, decl: DeclId) {
        let is_function = matches!(self.ast.decls[decl].kind, DeclKind::Func { .. });
        if is_function && self.raw_signature(decl).ret == Ty::VOID {
            let message = "`[NoDiscard]` of a function that has no result";
            let error = Diagnostic::error("E30069", self.name_span(decl), message);
            self.report(error.help("remove it: there is nothing that a caller could discard"));
        }
    }

    fn check_any_value_size(&mut self, attribute: &Attribute) {
        if self.integer_argument(attribute, 0).is_some_and(|size| size > MAX_ANY_VALUE) {
            let message = format!("`[anyValueSize(…)]` is at most {MAX_ANY_VALUE}");
            self.error("E31121", attribute.span, message);
        }
    }

    fn check_guid(&mut self, attribute: &Attribute) {
        let Some(text) = self.text_argument(attribute) else { return };
        // Where the dashes are is the author's business.
        let digits: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
        let is_guid = digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit);
        if !is_guid {
            let message = format!("'{text}' is not the number of an interface");
            let help = "it has 32 hexadecimal digits, usually in groups of 8, 4, 4, 4 and 12 with dashes between them";
            self.report(Diagnostic::error("E31123", attribute.span, message).help(help));
        }
    }

    fn check_specialization(&mut self, decl: DeclId, attribute: &Attribute) {
        if !matches!(self.ast.decls[decl].kind, DeclKind::Var { .. }) {
            return;
        }
        let ty = self.decl_type(decl);
        let name = self.ast.decl_name(decl).to_string();
        let span = self.name_span(decl);
        if !matches!(self.types[ty], TyKind::Scalar(_) | TyKind::Enum(_) | TyKind::Error) {
            let message = "a specialization constant has to be a number, a `bool` or an enumeration";
            self.error("E31218", attribute.span, message);
        }
        let is_pushed =
            ["push_constant", "vk::push_constant"].iter().any(|word| self.attribute(decl, word).is_some());
        if is_pushed {
            let message = format!("'{name}' cannot be both a push constant and a specialization constant");
            let error = Diagnostic::error("E31220", span, message);
            self.report(error.note(attribute.span, "a specialization constant by this attribute"));
        }
    }
}
