//! Implements `[deriv_method]`: a derivative of a method that is itself written as a method, with the pair as
//! `this`.
//!
//! `this.p` is the object and `this.d` its differential (for a pointer, the pointer through which gradients
//! are accumulated). To its users it is equivalent to a static function with the pair as its first parameter,
//! so everything that holds for derivatives holds for it. It belongs to the method that names it and cannot
//! be called by itself.

use std::rc::Rc;

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, Symbol};

use crate::exprs::infer::Checker;
use crate::facts::FacetKind;
use crate::program::Program;
use crate::signature::Signature;
use crate::tables::{FuncRef, Meaning};
use crate::types::{Ty, TyKind};
use crate::view::View;

impl Program {
    /// Returns true if `this` is a pair in a method.
    pub fn is_deriv_method(&self, decl: DeclId) -> bool {
        self.attribute(decl, "deriv_method").is_some() && !self.is_static(decl)
    }

    /// The signature of a function in its role as a derivative: the pair that is `this` becomes the first
    /// parameter.
    pub(crate) fn with_pair_receiver(&mut self, decl: DeclId) -> Rc<Signature> {
        let raw = self.raw_signature(decl);
        if raw.this.is_none() || !self.is_deriv_method(decl) {
            return raw;
        }
        Rc::new(Signature { params: raw.inputs(), this: None, ..(*raw).clone() })
    }

    /// Returns true if some type may define how its values are split.
    pub fn has_custom_uses(&self) -> bool {
        self.ast.symbols.find("use").is_some()
    }

    /// Returns true if a function is the `use` of a type.
    pub fn is_use(&self, decl: DeclId) -> bool {
        self.ast.symbols.find("use") == Some(self.ast.decls[decl].name)
    }

    /// The `use` of a struct if it has a derivative of its own.
    pub fn custom_use(&mut self, ty: Ty) -> Option<FuncRef> {
        let name = self.ast.symbols.find("use")?;
        if !matches!(self.types[ty], TyKind::Struct(..)) || self.differential(ty).is_none() {
            return None;
        }
        self.methods(ty, name).into_iter().find(|found| {
            let derivatives = self.derivatives_of(found, View::of(self.asking(found.decl)));
            self.params_of(found.decl).is_empty()
                && self.func_signature(found).ret == ty
                && (derivatives.fwd.is_some() || derivatives.bwd.is_some())
        })
    }

    /// The methods of this name that a type has itself, without generic ones and those of interfaces.
    pub(crate) fn methods(&mut self, ty: Ty, name: Symbol) -> Vec<FuncRef> {
        let mut methods = Vec::new();
        for facet in self.facets(ty).iter().filter(|facet| facet.kind != FacetKind::Interface) {
            for decl in self.named(facet.container, name) {
                let is_function = matches!(self.ast.decls[decl].kind, DeclKind::Func { .. });
                if is_function && !self.is_static(decl) && !self.is_generic(decl) {
                    methods.push(self.member_ref(decl, facet));
                }
            }
        }
        methods
    }

    /// Reports a `[deriv_method]` that is not a method of a type with a differential.
    pub(crate) fn check_deriv_method(&mut self, decl: DeclId) {
        let Some(attribute) = self.attribute(decl, "deriv_method") else { return };
        let span = attribute.span;
        let is_pair = self
            .raw_signature(decl)
            .this
            .as_ref()
            .is_some_and(|t| matches!(self.types[t.ty], TyKind::DiffPair(_) | TyKind::DiffPtrPair(_)));
        if !is_pair && !self.has_unknown_types(decl) {
            let message =
                "'[deriv_method]' is for methods that are not static, of types that have a differential";
            let help = "the type has to conform to 'IDifferentiable' or 'IDifferentiablePtrType'";
            self.report(Diagnostic::error("E0922", span, message).help(help));
        }
    }
}

impl Checker<'_> {
    /// Returns true if `this` is the pair of a `[deriv_method]`.
    pub(crate) fn this_is_pair(&self) -> bool {
        self.this.is_some_and(|t| matches!(self.p.types[t.0], TyKind::DiffPair(_) | TyKind::DiffPtrPair(_)))
            && self.p.is_deriv_method(self.scope)
    }

    /// The result of `x.use()` where the type of `x` does not define `use`: the value itself.
    pub(crate) fn used_value(&mut self, callee: ExprId) -> Option<ExprId> {
        let ExprKind::Member { base, name, .. } = self.p.ast.exprs[callee].kind else { return None };
        let info = &self.p.tables.exprs[base];
        if self.p.ast.name(name) != "use" || matches!(info.meaning, Meaning::Type(_) | Meaning::Error) {
            return None;
        }
        let ty = info.ty;
        self.p.differential(ty).map(|_| base)
    }

    /// Returns true if an expression is the pair that a `[deriv_method]` may modify, so that its halves are
    /// places.
    pub(crate) fn is_written_pair(&self, expr: ExprId) -> bool {
        let info = &self.p.tables.exprs[expr];
        info.lvalue && matches!(info.meaning, Meaning::This) && self.this_is_pair()
    }

    /// Reports a member that is named without `this.p` or `this.d`, since both halves of the pair have it.
    pub(crate) fn half_is_missing(&mut self, name: Symbol, span: Span) {
        let name = self.p.ast.name(name);
        let message = format!("'this' is a pair here: '{name}' is a member of both halves");
        let help = format!("write 'this.p.{name}' or 'this.d.{name}'");
        self.p.report(Diagnostic::error("E0923", span, message).help(help));
    }

    /// Reports a direct call of a `[deriv_method]`, which only derivative operators call.
    pub(crate) fn refuse_deriv_method(&mut self, decl: DeclId, span: Span) {
        let name = self.p.ast.decl_name(decl).to_string();
        let message = format!("'{name}' is a '[deriv_method]': it is no method that can be called");
        let help = "call 'fwd_diff' or 'bwd_diff' of the method that it belongs to";
        self.p.report(Diagnostic::error("E0922", span, message).help(help));
    }
}
