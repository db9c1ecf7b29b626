//! Differentials of pointers: types that conform to `IDifferentiablePtrType`.
//!
//! The differential of a pointer is the pointer through which gradients are accumulated. The two form a
//! `DifferentialPtrPair`; a derivative is never computed of the pointer itself.

use syntax::{DeclId, Diagnostic, keywords as kw};

use crate::facts::Magic;
use crate::program::Program;
use crate::signature::Subst;
use crate::tables::FuncRef;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

impl Program {
    /// The `Differential` of an `IDifferentiablePtrType`.
    pub fn pointer_differential(&mut self, ty: Ty) -> Option<Ty> {
        match self.types[ty] {
            TyKind::Struct(..) => {
                if !self.declares(ty, Magic::DifferentiablePtr) {
                    return None;
                }
                Some(self.type_member(ty, kw::DIFFERENTIAL).unwrap_or(ty))
            }
            TyKind::Param(_)
            | TyKind::This(_)
            | TyKind::Assoc(..)
            | TyKind::Interface(..)
            | TyKind::PackPart(..)
            | TyKind::PackBranch(..)
            | TyKind::Each(_) => self
                .promised_differential(ty, Magic::DifferentiablePtr)
                .or_else(|| self.extended_differential(ty)),
            TyKind::Array(element, ref n) => {
                let n = n.clone();
                let element = self.pointer_differential(element)?;
                Some(self.types.intern(TyKind::Array(element, n)))
            }
            TyKind::Scalar(_) | TyKind::Vector(..) | TyKind::Matrix(..) | TyKind::Enum(_) => {
                self.extended_differential(ty)
            }
            _ => None,
        }
    }

    /// The `Differential` of a built-in type to which an extension adds the conformance:
    /// `extension<T : I> T : …`.
    fn extended_differential(&mut self, ty: Ty) -> Option<Ty> {
        let interface = self.magic_type(Magic::DifferentiablePtr)?;
        if !self.queries.conformances.begin(&(ty, interface)) {
            return None;
        }
        let mut found = None;
        for facet in self.blanket_facets_with(ty, kw::DIFFERENTIAL) {
            if self.bases_of(facet.container).contains(&interface)
                && let Some(&decl) = self.named(facet.container, kw::DIFFERENTIAL).first()
            {
                let declared = self.decl_type(decl);
                found = Some(self.substitute(declared, &facet.env));
            }
        }
        self.queries.conformances.end(&(ty, interface));
        found
    }

    /// The instance of a function that takes the differentials of its pointer parameters: the function
    /// itself, or the function with other generic arguments. `None` if there is no such instance; then the
    /// author has to declare the derivative.
    pub fn at_differential(&mut self, func: &FuncRef) -> Option<FuncRef> {
        let own = self.func_signature(func);
        let raw = self.raw_signature(func.decl);
        let params = self.all_generic_params(func.decl);
        let mut env = Subst::default();
        let mut same = true;
        let mut self_ty = func.self_ty;
        if let (Some(this), Some(pattern)) = (&own.this, &raw.this)
            && let Some(differential) = self.pointer_differential(this.ty)
        {
            same &= differential == this.ty;
            self_ty = Some(differential);
            if !self.unify(pattern.ty, differential, &params, &mut env) {
                return None;
            }
        }
        for (have, pattern) in own.params.iter().zip(&raw.params) {
            let Some(differential) = self.pointer_differential(have.ty) else { continue };
            same &= differential == have.ty;
            if !self.unify(pattern.ty, differential, &params, &mut env) {
                return None;
            }
        }
        if same {
            return Some(func.clone());
        }
        // Arguments that the pointers do not determine stay as they were.
        self.fill_in(&params, &func.args, &mut env);
        let found = FuncRef { decl: func.decl, args: self.known_args(func.decl, &env), self_ty };
        let theirs = self.func_signature(&found);
        let fits = own.params.iter().zip(&theirs.params).all(|(a, b)| {
            let wanted = self.pointer_differential(a.ty).unwrap_or(a.ty);
            b.ty == wanted
        });
        let ret = self.pointer_differential(own.ret).unwrap_or(own.ret);
        (fits && ret == theirs.ret && self.satisfies(func.decl, &env)).then_some(found)
    }

    /// Reports a pointer type whose differential is not named or is not a pointer.
    pub(crate) fn check_pointer_type(&mut self, decl: DeclId, ty: Ty, interface: Ty) {
        let is_own = self.declares_name(decl, kw::DIFFERENTIAL);
        if !is_own && self.type_member(ty, kw::DIFFERENTIAL).is_none() && self.differential(ty).is_none() {
            let message = text!(
                "type '{}' does not name the 'Differential' that 'IDifferentiablePtrType' requires",
                self.shown(ty)
            );
            let span = self.base_span(decl, interface);
            self.report(
                Diagnostic::error("E38100", span, message).help("write 'typealias Differential = This;'"),
            );
            return;
        }
        let span = self.differential_span(decl).unwrap_or(self.base_span(decl, interface));
        let Some(differential) = self.pointer_differential(ty) else { return };
        if differential != Ty::ERROR && self.pointer_differential(differential).is_none() {
            let named = self.shown(differential);
            let message = text!("the differential '{}' does not conform to 'IDifferentiablePtrType'", named);
            self.error("E38029", span, message);
        }
    }

    /// The diagnostic for a pointer field of a differentiable value: the value's differential has no place
    /// for the pointer that accumulates gradients. A derivative keeps such pointers internally, so the error
    /// concerns values that are its parameters.
    pub fn pointer_in_value(&self, field: DeclId) -> Diagnostic {
        let declared = &self.ast.decls[field];
        let name = self.ast.name(declared.name);
        let message = format!(
            "the field '{name}' is a pointer: its gradients have no place in the differential of a value"
        );
        let help = "mark it 'no_diff', or make the struct an 'IDifferentiablePtrType'";
        Diagnostic::error("E38111", declared.name_span, message).help(help)
    }
}
