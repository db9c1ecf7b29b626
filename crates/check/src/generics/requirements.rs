//! Resolves requirements of an interface to the members that fulfil them for a known type.

use syntax::ast::DeclKind;
use syntax::{DeclId, Symbol, keywords as kw};

use crate::exprs::infer::Checker;
use crate::facts::{FacetKind, Magic};
use crate::program::Program;
use crate::signature::{Resolved, Subst};
use crate::tables::{FuncRef, SynthesizedMember};
use crate::types::{GenericArg, Ty};

impl Program {
    /// Returns true if a declaration is (part of) a requirement of an interface.
    pub fn is_requirement(&self, decl: DeclId) -> bool {
        self.container_of(decl).is_some_and(|c| matches!(self.ast.decls[c].kind, DeclKind::Interface { .. }))
    }

    /// Resolves a requirement (method, accessor, constructor, static function) for its `self_ty`. A function
    /// that is not a requirement resolves to itself.
    pub fn resolve_requirement(&mut self, func: &FuncRef) -> Resolved {
        if !self.is_requirement(func.decl) {
            return Resolved::Func(func.clone());
        }
        let Some(self_ty) = func.self_ty else { return Resolved::Unresolved };
        if self.is_existential(self_ty) {
            let member = self.synthesized_member(func.decl);
            return member.map_or_else(
                || Resolved::Func(func.clone()),
                |member| Resolved::Synthesized(member, self_ty),
            );
        }
        if self.types.is_abstract(self_ty) || self_ty == Ty::ERROR {
            return Resolved::Unresolved;
        }
        let found = self.fulfilment(func, self_ty);
        if matches!(found, Resolved::Unresolved) {
            self.lacking.push(self_ty);
        }
        found
    }

    /// The member that fulfils a requirement for a type whose members are all known.
    pub(crate) fn fulfilment(&mut self, func: &FuncRef, self_ty: Ty) -> Resolved {
        let Some(container) = self.container_of(func.decl) else { return Resolved::Unresolved };
        // An accessor is found through its property or subscript.
        if let DeclKind::Accessor { kind, .. } = self.ast.decls[func.decl].kind {
            let Some(parent) = self.ast.decls[func.decl].parent else { return Resolved::Unresolved };
            let member = FuncRef { decl: parent, ..func.clone() };
            return match self.fulfilment(&member, self_ty) {
                Resolved::Func(found) if found.decl == parent => Resolved::Func(func.clone()),
                Resolved::Func(found) => {
                    let accessor = self.declared_accessors(&found).of(kind).cloned();
                    accessor.map_or(Resolved::Unresolved, Resolved::Func)
                }
                other => other,
            };
        }
        let name = self.member_name(func.decl);
        if let Some(found) = self.member_for(func, self_ty, name) {
            return Resolved::Func(found);
        }
        if let Some(member) = self.synthesized_member(func.decl) {
            return Resolved::Synthesized(member, self_ty);
        }
        if self.has_default(func.decl) {
            return Resolved::Func(func.clone());
        }
        if self.magics.of.contains_key(&container) {
            return Resolved::Builtin(self.function_name(func.decl));
        }
        Resolved::Unresolved
    }

    /// The member that the compiler provides for a requirement of `IDifferentiable`.
    fn synthesized_member(&self, decl: DeclId) -> Option<SynthesizedMember> {
        let container = self.container_of(decl)?;
        match (self.magics.of.get(&container)?, self.ast.decl_name(decl)) {
            (Magic::Differentiable, "dzero") => Some(SynthesizedMember::DZero),
            (Magic::Differentiable, "dadd") => Some(SynthesizedMember::DAdd),
            _ => None,
        }
    }

    /// The user's `dzero` or `dadd` for a type.
    pub fn differential_member(&mut self, ty: Ty, name: &str) -> Option<FuncRef> {
        let name = self.ast.symbols.find(name)?;
        let interface = self.magic_decl(Magic::Differentiable)?;
        let &decl = self.named(interface, name).first()?;
        match self.resolve_requirement(&FuncRef { decl, args: Vec::new(), self_ty: Some(ty) }) {
            Resolved::Func(func) if func.decl != decl => Some(func),
            _ => None,
        }
    }

    /// Returns true for a parameter with a default, and for a requirement with an implementation of its own.
    pub(crate) fn has_default(&self, decl: DeclId) -> bool {
        match &self.ast.decls[decl].kind {
            DeclKind::Func { body, .. } | DeclKind::Init { body, .. } | DeclKind::Accessor { body, .. } => {
                body.is_some()
            }
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                accessors.iter().any(|&a| self.has_default(a))
            }
            DeclKind::Var { init: default, .. }
            | DeclKind::Param { default, .. }
            | DeclKind::TypeParam { default, .. }
            | DeclKind::ValueParam { default, .. } => default.is_some(),
            _ => false,
        }
    }

    /// The name under which a member is found in its type.
    pub(crate) fn member_name(&self, decl: DeclId) -> Symbol {
        match self.ast.decls[decl].kind {
            DeclKind::Init { .. } => kw::CONSTRUCTOR,
            DeclKind::Subscript { .. } => kw::SUBSCRIPT,
            _ => self.ast.decls[decl].name,
        }
    }

    /// The member of a type that fulfils a requirement: one with the same parameters, or else the first that
    /// fulfils it.
    fn member_for(&mut self, func: &FuncRef, self_ty: Ty, name: Symbol) -> Option<FuncRef> {
        let required = self.substituted_params(func);
        let mut first = None;
        for (_, found) in self.members_for(func, self_ty, name) {
            let Some(found) = found else { continue };
            if self.difference(func, &found).is_some() {
                continue;
            }
            if self.substituted_params(&found) == required {
                return Some(found);
            }
            first.get_or_insert(found);
        }
        first
    }

    /// The members of a type that may fulfil a requirement, with the requirement's generic arguments if they
    /// accept these.
    pub(crate) fn members_for(
        &mut self,
        func: &FuncRef,
        self_ty: Ty,
        name: Symbol,
    ) -> Vec<(DeclId, Option<FuncRef>)> {
        let mut facets: Vec<_> =
            self.facets(self_ty).iter().filter(|f| f.kind != FacetKind::Interface).cloned().collect();
        facets.extend(self.blanket_facets_with(self_ty, name));
        // The parameters of the requirement for this type.
        let required = self.substituted_params(func);
        let mut members = Vec::new();
        for facet in facets {
            for decl in self.named(facet.container, name) {
                let same_kind = matches!(
                    (&self.ast.decls[decl].kind, &self.ast.decls[func.decl].kind),
                    (DeclKind::Func { .. }, DeclKind::Func { .. })
                        | (DeclKind::Init { .. }, DeclKind::Init { .. })
                        | (DeclKind::Property { .. } | DeclKind::Var { .. }, DeclKind::Property { .. })
                        | (DeclKind::Subscript { .. }, DeclKind::Subscript { .. })
                        | (DeclKind::Var { .. }, DeclKind::Var { .. })
                );
                if !same_kind {
                    continue;
                }
                let Some(own) = self.args_for(decl, func, &required) else {
                    members.push((decl, None));
                    continue;
                };
                let mut env: Subst = (*facet.env).clone();
                env.map.extend(own);
                members.push((decl, Some(self.func_ref(decl, &env, Some(facet.self_ty)))));
            }
        }
        members
    }

    /// Maps the generic arguments of a requirement to those of a member that may fulfil it. For a generic
    /// parameter that was made from a parameter of interface type, the argument is the type of the
    /// requirement's parameter.
    fn args_for(
        &mut self,
        decl: DeclId,
        func: &FuncRef,
        required: &[Ty],
    ) -> Option<Vec<(DeclId, GenericArg)>> {
        let asked = self.own_params(func.decl);
        let n_outer = func.args.len().saturating_sub(asked.len());
        let mut given =
            asked.iter().zip(&func.args[n_outer..]).filter(|a| !self.opened.params.contains(a.0)).peekable();
        // Arguments that the requirement does not name are inferred from its parameters.
        let is_inferred = given.peek().is_none();
        let mut own: Vec<(DeclId, GenericArg)> = Vec::new();
        let mut open = Vec::new();
        for param in self.own_params(decl) {
            if is_inferred || self.opened.params.contains(&param) {
                open.push(param);
                continue;
            }
            let (&asked, arg) = given.next()?;
            if self.is_value_param(asked) != self.is_value_param(param) {
                return None;
            }
            own.push((param, arg.clone()));
        }
        if given.next().is_some() {
            return None;
        }
        let mut env = Subst::default();
        let params = self.params_of(decl);
        for (param, &wanted) in params.into_iter().zip(required) {
            let ty = self.decl_type(param);
            self.unify(ty, wanted, &open, &mut env);
        }
        for param in open {
            let arg =
                env.get(param).cloned().or_else(|| Checker::outside(self, decl).default_arg(param, &env));
            own.push((param, arg?));
        }
        Some(own)
    }

    /// Returns true if a generic parameter stands for an integer rather than for a type.
    pub(crate) fn is_value_param(&self, param: DeclId) -> bool {
        matches!(self.ast.decls[param].kind, DeclKind::ValueParam { .. })
    }

    /// The generic parameters of a declaration: those that are written, and those that were made.
    pub fn own_params(&self, decl: DeclId) -> Vec<DeclId> {
        let written = self.ast.decls[decl].generics.iter().flat_map(|generics| &generics.params);
        written.chain(self.opened.of.get(&decl).into_iter().flatten()).copied().collect()
    }

    /// Returns true for a declaration with generic parameters.
    pub fn is_generic(&self, decl: DeclId) -> bool {
        self.ast.decls[decl].generics.is_some() || self.opened.of.contains_key(&decl)
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
        // A pack contributes as many parameters as it has elements.
        self.spliced(types)
    }
}
