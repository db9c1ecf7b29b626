//! What fulfils a requirement of an interface for a known type.

use syntax::DeclId;
use syntax::ast::{AccessorKind, DeclKind};

use crate::conform::FacetKind;
use crate::native::Magic;
use crate::program::Program;
use crate::signature::{Resolved, Subst};
use crate::tables::{FuncRef, SynthesizedMember};
use crate::types::{GenericArg, Ty, TyKind};

impl Program {
    /// Whether a declaration is (part of) a requirement of an interface.
    pub fn is_requirement(&self, decl: DeclId) -> bool {
        self.container_of(decl).is_some_and(|c| matches!(self.ast.decls[c].kind, DeclKind::Interface { .. }))
    }

    /// What fulfils a requirement (method, accessor, constructor, static function) for its `self_ty`. A function
    /// that is no requirement is its own resolution.
    pub fn resolve_requirement(&mut self, func: &FuncRef) -> Resolved {
        let Some(container) = self.container_of(func.decl) else { return Resolved::Func(func.clone()) };
        if !matches!(self.ast.decls[container].kind, DeclKind::Interface { .. }) {
            return Resolved::Func(func.clone());
        }
        let Some(self_ty) = func.self_ty else { return Resolved::Unresolved };
        if self.is_existential(self_ty) {
            let name = self.ast.name(self.ast.decls[func.decl].name);
            return match (self.magic.get(&container), name) {
                (Some(Magic::Differentiable), "dzero") => {
                    Resolved::Synthesized(SynthesizedMember::DZero, self_ty)
                }
                (Some(Magic::Differentiable), "dadd") => {
                    Resolved::Synthesized(SynthesizedMember::DAdd, self_ty)
                }
                _ => Resolved::Func(func.clone()),
            };
        }
        if matches!(
            self.types[self_ty],
            TyKind::Param(_) | TyKind::This(_) | TyKind::Assoc(..) | TyKind::Each(_) | TyKind::Error
        ) {
            return Resolved::Unresolved;
        }
        // An accessor is found through its property or subscript.
        if let DeclKind::Accessor { kind, .. } = self.ast.decls[func.decl].kind {
            let Some(parent) = self.ast.decls[func.decl].parent else { return Resolved::Unresolved };
            let member = FuncRef { decl: parent, ..func.clone() };
            return match self.resolve_requirement(&member) {
                Resolved::Func(found) if found.decl == parent => Resolved::Func(func.clone()),
                Resolved::Func(found) => match self.accessor(found.decl, kind) {
                    Some(decl) => Resolved::Func(FuncRef { decl, ..found }),
                    None => Resolved::Unresolved,
                },
                other => other,
            };
        }
        let name = match self.ast.decls[func.decl].kind {
            DeclKind::Init { .. } => self.words.init,
            DeclKind::Subscript { .. } => self.ast.symbols.intern("__subscript"),
            _ => self.ast.decls[func.decl].name,
        };
        let magic = self.magic.get(&container).copied();
        if let Some(found) = self.member_for(func, self_ty, name) {
            return Resolved::Func(found);
        }
        if magic == Some(Magic::Differentiable) {
            let member = match self.ast.name(name) {
                "dzero" => Some(SynthesizedMember::DZero),
                "dadd" => Some(SynthesizedMember::DAdd),
                _ => None,
            };
            if let Some(member) = member {
                return Resolved::Synthesized(member, self_ty);
            }
        }
        if self.has_default(func.decl) {
            return Resolved::Func(func.clone());
        }
        if magic.is_some() {
            let text = if matches!(self.ast.decls[func.decl].kind, DeclKind::Init { .. }) {
                "__init".to_string()
            } else {
                self.ast.name(name).to_string()
            };
            return Resolved::Builtin(text);
        }
        Resolved::Unresolved
    }

    /// The user's `dzero` or `dadd` of a type.
    pub fn differential_member(&mut self, ty: Ty, name: &str) -> Option<FuncRef> {
        let name = self.ast.symbols.find(name)?;
        let interface = self.magic_decl(Magic::Differentiable)?;
        let decl = self.names_in(interface)?.get(&name)?[0];
        match self.resolve_requirement(&FuncRef { decl, args: Vec::new(), self_ty: Some(ty) }) {
            Resolved::Func(func) if func.decl != decl => Some(func),
            _ => None,
        }
    }

    fn accessor(&self, member: DeclId, wanted: AccessorKind) -> Option<DeclId> {
        let (DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. }) =
            &self.ast.decls[member].kind
        else {
            return None;
        };
        accessors
            .iter()
            .copied()
            .find(|&a| matches!(self.ast.decls[a].kind, DeclKind::Accessor { kind, .. } if kind == wanted))
    }

    fn has_default(&self, decl: DeclId) -> bool {
        match &self.ast.decls[decl].kind {
            DeclKind::Func { body, .. } | DeclKind::Init { body, .. } | DeclKind::Accessor { body, .. } => {
                body.is_some()
            }
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                accessors.iter().any(|&a| self.has_default(a))
            }
            DeclKind::Var { init, .. } => init.is_some(),
            _ => false,
        }
    }

    /// The member of a type that fits a requirement.
    fn member_for(&mut self, func: &FuncRef, self_ty: Ty, name: syntax::Symbol) -> Option<FuncRef> {
        let mut facets: Vec<_> =
            self.facets(self_ty).iter().filter(|f| f.kind != FacetKind::Interface).cloned().collect();
        facets.extend(
            self.blanket_facets(self_ty, |p, ext| p.names_in(ext).is_some_and(|n| n.contains_key(&name))),
        );
        // What the requirement looks like for this type.
        let required = self.substituted_params(func);
        let is_static = self.is_static(func.decl);
        let mut by_count: Option<FuncRef> = None;
        for facet in facets {
            let Some(decls) = self.names_in(facet.container).and_then(|n| n.get(&name)).cloned() else {
                continue;
            };
            for decl in decls {
                let same_kind = matches!(
                    (&self.ast.decls[decl].kind, &self.ast.decls[func.decl].kind),
                    (DeclKind::Func { .. }, DeclKind::Func { .. })
                        | (DeclKind::Init { .. }, DeclKind::Init { .. })
                        | (DeclKind::Property { .. } | DeclKind::Var { .. }, DeclKind::Property { .. })
                        | (DeclKind::Subscript { .. }, DeclKind::Subscript { .. })
                        | (DeclKind::Var { .. }, DeclKind::Var { .. })
                );
                // What a static requirement is called without cannot be needed.
                if !same_kind || is_static && !self.is_static(decl) {
                    continue;
                }
                let Some(own) = self.args_for(decl, func, &required) else { continue };
                let mut env: Subst = (*facet.env).clone();
                env.this = Some(facet.self_ty);
                env.map.extend(own);
                let args = self
                    .all_generic_params(decl)
                    .into_iter()
                    .map(|p| env.get(p).cloned().unwrap_or_else(|| self.param_arg(p)))
                    .collect();
                let found = FuncRef { decl, args, self_ty: Some(facet.self_ty) };
                let given = self.substituted_params(&found);
                if given == required {
                    return Some(found);
                }
                if given.len() == required.len() && by_count.is_none() {
                    by_count = Some(found);
                }
            }
        }
        by_count
    }

    /// The generic arguments of a requirement as those of a member that may fulfil it. Where a parameter of interface
    /// type made one of them generic, the argument is the type of the requirement's parameter.
    fn args_for(
        &mut self,
        decl: DeclId,
        func: &FuncRef,
        required: &[Ty],
    ) -> Option<Vec<(DeclId, GenericArg)>> {
        let asked = self.own_params(func.decl);
        let n_outer = func.args.len().saturating_sub(asked.len());
        let mut given =
            asked.iter().zip(&func.args[n_outer..]).filter(|a| !self.interface_params.contains(a.0));
        let mut own = Vec::new();
        let mut by_type = Vec::new();
        for param in self.own_params(decl) {
            if self.interface_params.contains(&param) {
                by_type.push(param);
            } else {
                own.push((param, given.next()?.1.clone()));
            }
        }
        if given.next().is_some() {
            return None;
        }
        for param in by_type {
            let ty = self.types.intern(TyKind::Param(param));
            let params = self.params_of(decl);
            let at = params.into_iter().position(|p| self.decl_type(p) == ty)?;
            own.push((param, GenericArg::Type(*required.get(at)?)));
        }
        Some(own)
    }

    pub(crate) fn own_params(&self, decl: DeclId) -> Vec<DeclId> {
        self.ast.decls[decl].generics.as_ref().map_or(Vec::new(), |g| g.params.clone())
    }

    fn substituted_params(&mut self, func: &FuncRef) -> Vec<Ty> {
        let env = self.subst_of(func);
        let types: Vec<Ty> = self
            .params_of(func.decl)
            .into_iter()
            .map(|p| {
                let ty = self.decl_type(p);
                self.substitute(ty, &env)
            })
            .collect();
        // A pack is as many parameters as it has elements.
        self.spliced(types)
    }
}
