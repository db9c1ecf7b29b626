//! Rules about resources as values: a processor holds the number of a resource in any variable, and Vulkan, Metal and
//! WebGPU know textures and samplers by the names of their bindings only.
//!
//! So an `Optional` of a resource, which has to be something where it is `none`, is an error, as it is in Slang; and a
//! function that chooses a texture or a sampler at run time gets a warning where it is called. A handle of a resource
//! (`DescriptorHandle<T>`) is a number everywhere.

use syntax::ast::{DeclKind, ExprKind, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::program::Program;
use crate::tables::{Callable, FuncRef, Meaning};
use crate::types::follow_up::text;
use crate::types::{GenericArg, TyKind};

/// The beginnings of the names of resources that are bound by name.
const BOUND: [&str; 5] =
    ["Texture", "RWTexture", "Sampler", "SubpassInput", "RaytracingAccelerationStructure"];

impl Program {
    /// Checks what a declaration does with resources.
    pub(super) fn check_resources(&mut self, decl: DeclId) {
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Var { ty: Some(written), .. } => self.check_optional_resource(written),
            DeclKind::Func { result, .. } => {
                result.into_iter().for_each(|written| self.check_optional_resource(written));
                self.check_params_and_code(decl);
            }
            DeclKind::Init { .. } => self.check_params_and_code(decl),
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                accessors.into_iter().for_each(|accessor| self.check_resource_code(accessor));
            }
            _ => {}
        }
    }

    fn check_params_and_code(&mut self, decl: DeclId) {
        for param in self.params_of(decl) {
            if let DeclKind::Param { ty: Some(written), .. } = self.ast.decls[param].kind {
                self.check_optional_resource(written);
            }
        }
        self.check_resource_code(decl);
    }

    /// Reports an `Optional` of a resource.
    fn check_optional_resource(&mut self, written: ExprId) {
        let TyKind::Optional(ty) = self.types[self.tables.exprs[written].ty] else { return };
        if self.holds_resource(ty, 0) {
            let message =
                text!("an 'Optional' cannot hold a '{}', which is or has a resource", self.shown(ty));
            let error = Diagnostic::error("E30902", self.span(written), message);
            self.report(error.help("no resource stands for 'none': pass a 'bool' beside it, or a handle"));
        }
    }

    /// Looks over the calls in a body.
    fn check_resource_code(&mut self, decl: DeclId) {
        let Some(body) = self.body_of(decl) else { return };
        for expr in self.body_parts(body).0 {
            let (func, base) = match &self.tables.exprs[expr].meaning {
                Meaning::Call { func: Callable::Func(func), base, .. } => (func, *base),
                Meaning::Property { member: func, base, .. } => (func, *base),
                _ => continue,
            };
            let func = func.clone();
            if self.is_core(func.decl) {
                base.into_iter().for_each(|base| self.check_sampled(&func, base, self.span(expr)));
                continue;
            }
            if let Some(receiver) = base.and_then(|base| self.root_of(base)) {
                self.check_empty_resource(&func, receiver);
            }
            self.check_choice(&func, self.span(expr));
        }
    }

    /// Warns of a texture of integers that is sampled, as opposed to loaded from.
    fn check_sampled(&mut self, func: &FuncRef, texture: ExprId, span: Span) {
        let name = self.ast.decl_name(func.decl);
        if !["Sample", "SampleBias", "SampleGrad", "SampleLevel"].contains(&name) {
            return;
        }
        let ty = self.tables.exprs[texture].ty;
        let (TyKind::Struct(of, args) | TyKind::Opaque(of, args)) = &self.types[ty] else { return };
        let Some(&GenericArg::Type(texel)) = args.first() else { return };
        let is_integer = matches!(self.types[self.element(texel)], TyKind::Scalar(s) if !s.is_float());
        if is_integer && self.ast.decl_name(*of).starts_with("Texture") {
            let message = text!("a '{}' is sampled, and its texels are integers", self.shown(ty));
            let warning = Diagnostic::warning("E38206", span, message);
            self.report(warning.help("Direct3D and WebGPU sample textures of floats only: call 'Load'"));
        }
    }

    /// Warns of a `none` in a member of a generic struct, where it stands for a resource.
    fn check_empty_resource(&mut self, func: &FuncRef, receiver: DeclId) {
        let ty = self.decl_type(receiver);
        let TyKind::Struct(_, given) = self.types[ty].clone() else { return };
        let mut given = given.into_iter();
        if !given.any(|arg| matches!(arg, GenericArg::Type(arg) if self.holds_resource(arg, 0))) {
            return;
        }
        let bodies = match &self.ast.decls[func.decl].kind {
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => accessors.clone(),
            _ => vec![func.decl],
        };
        let env = self.subst_of(func);
        for body in bodies {
            self.body(body);
            let Some(stmt) = self.body_of(body) else { continue };
            for expr in self.body_parts(stmt).0 {
                let made = match (&self.ast.exprs[expr].kind, self.tables.exprs[expr].coerce) {
                    (ExprKind::None, Some(made)) => made,
                    _ => continue,
                };
                let TyKind::Optional(inner) = self.types[made] else { continue };
                let ty = self.substitute(inner, &env);
                if ty == inner || !self.holds_resource(ty, 0) {
                    continue;
                }
                let message =
                    text!("'none' stands for a '{}' here, which is or has a resource", self.shown(ty));
                let warning = Diagnostic::warning("E30902", self.span(expr), message);
                let warning = warning.note(self.name_span(receiver), "of this");
                let help = "Vulkan and WebGPU have no resource that stands for 'none': return a handle";
                self.report_once(warning.help(help));
            }
        }
    }

    /// Warns of a call whose result is a texture or a sampler that the function chooses at run time.
    fn check_choice(&mut self, func: &FuncRef, span: Span) {
        let DeclKind::Func { result: Some(result), body: Some(body), .. } = self.ast.decls[func.decl].kind
        else {
            return;
        };
        let ty = self.tables.exprs[result].ty;
        let (TyKind::Struct(of, _) | TyKind::Opaque(of, _)) = self.types[ty] else { return };
        let name = self.ast.decl_name(of);
        if !BOUND.iter().any(|start| name.starts_with(start)) || !self.is_bound(ty) {
            return;
        }
        self.body(func.decl);
        let Some(place) = self.choice_in(body) else { return };
        let name = self.ast.decl_name(func.decl);
        let message = format!("'{name}' chooses a resource at run time");
        let help = "Vulkan, Metal and WebGPU cannot: choose among the results, or use handles of resources";
        let warning = Diagnostic::warning("E56004", span, message).note(place, "chosen here");
        self.report_once(warning.help(help));
    }

    /// Where a body chooses its result by a condition that is not known at compile time.
    fn choice_in(&self, body: StmtId) -> Option<Span> {
        let mut open = vec![body];
        while let Some(stmt) = open.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            kind.statements(&mut open);
            match *kind {
                StmtKind::Return(Some(value)) => {
                    if let Meaning::Ternary(cond, ..) = self.tables.exprs[self.tables.plain(value)].meaning
                        && !self.is_decided(cond)
                    {
                        return Some(self.span(cond));
                    }
                }
                StmtKind::If { cond, then, .. } if !self.is_decided(cond) => {
                    let (mut inner, mut next) = (vec![then], 0);
                    while let Some(&stmt) = inner.get(next) {
                        let kind = &self.ast.stmts[stmt].kind;
                        if matches!(kind, StmtKind::Return(Some(_))) {
                            return Some(self.span(cond));
                        }
                        kind.statements(&mut inner);
                        next += 1;
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns true for a condition of constants and generic arguments only.
    fn is_decided(&self, cond: ExprId) -> bool {
        let mut open = vec![cond];
        while let Some(expr) = open.pop() {
            self.ast.exprs[expr].kind.operands(&mut open);
            match &self.tables.exprs[expr].meaning {
                Meaning::Var(var) if !self.is_constant(*var) => return false,
                Meaning::Call { .. } | Meaning::Field { .. } | Meaning::This | Meaning::Property { .. } => {
                    return false;
                }
                _ => {}
            }
        }
        true
    }
}
