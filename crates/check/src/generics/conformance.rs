//! Determines what a type conforms to and where its members come from.
//!
//! A type's *facets* are the declarations whose members it has, nearest first: the struct itself, its
//! extensions, base structs, and the interfaces that it conforms to, each with a substitution for the generic
//! parameters around the members. Member lookup, conformance and requirements all read this one list.

use std::rc::Rc;

use smallvec::SmallVec;
use syntax::ast::{BinaryOp, DeclKind, ExprKind};
use syntax::{DeclId, Symbol};

use crate::exprs::infer::Checker;
use crate::facts::{ExtensionInfo, Facet, FacetKind, Magic};
use crate::program::Program;
use crate::signature::Subst;
use crate::types::{Args, Comparison, GenericArg, Part, Ty, TyKind, Val};

impl Program {
    /// The generic parameters of a declaration and of all enclosing ones, outermost first.
    pub fn all_generic_params(&self, decl: DeclId) -> Vec<DeclId> {
        let chain: SmallVec<[_; 4]> = self.ast.enclosing(decl).filter(|&d| self.is_generic(d)).collect();
        chain.into_iter().rev().flat_map(|d| self.own_params(d)).collect()
    }

    /// The generic parameters of a declaration as arguments for themselves.
    pub(crate) fn identity_args(&mut self, decl: DeclId) -> Args {
        let params = self.all_generic_params(decl);
        params.into_iter().map(|p| self.param_arg(p)).collect()
    }

    /// A generic parameter as an argument.
    pub(crate) fn param_arg(&mut self, param: DeclId) -> GenericArg {
        match self.is_value_param(param) {
            true => GenericArg::Val(Val::Param(param)),
            false => GenericArg::Type(self.types.intern(TyKind::Param(param))),
        }
    }

    /// The type that the members of a struct, enumeration, interface or extension belong to.
    pub(crate) fn self_type(&mut self, container: DeclId) -> Ty {
        match self.ast.decls[container].kind {
            DeclKind::Struct { .. } => {
                let args = self.identity_args(container);
                self.types.intern(TyKind::Struct(container, args))
            }
            DeclKind::Enum { .. } => self.types.intern(TyKind::Enum(container)),
            DeclKind::Interface { .. } => self.types.intern(TyKind::This(container)),
            DeclKind::Extension { .. } => {
                self.resolve_extensions();
                let info = self.extensions.known.iter().find(|e| e.decl == container);
                // While its target is being resolved, an extension has none.
                let Some(target) = info.map(|info| info.target) else { return Ty::ERROR };
                // Within an extension of an interface, `this` has some conforming type.
                match self.interface_decl(target) {
                    Some(decl) => self.types.intern(TyKind::This(decl)),
                    None => target,
                }
            }
            _ => Ty::ERROR,
        }
    }

    /// The types after the colon of a struct, interface, extension, associated type or type parameter.
    pub(crate) fn bases_of(&mut self, decl: DeclId) -> Rc<[Ty]> {
        if let Some(found) = self.queries.bases.get(&decl) {
            return found.clone();
        }
        let exprs = match &self.ast.decls[decl].kind {
            DeclKind::Struct { bases, .. }
            | DeclKind::Interface { bases, .. }
            | DeclKind::Extension { bases, .. }
            | DeclKind::TypeParam { bases, .. } => bases.clone(),
            // `This` is a constraint, not a bound.
            DeclKind::AssociatedType { bases } => {
                bases.iter().copied().filter(|&base| !self.is_this(base)).collect()
            }
            _ => Vec::new(),
        };
        self.queries.bases.begin_as(&decl, Rc::from([]));
        let types: Rc<[Ty]> = self.types_of_bases(&exprs, decl).into();
        self.queries.bases.finish(&decl, types.clone());
        let fine: Rc<[Ty]> = types.iter().copied().filter(|&base| !self.inherits(base, decl)).collect();
        if fine.len() < types.len() {
            let message = format!("'{}' inherits from itself", self.ast.decl_name(decl));
            self.error("E39999", self.name_span(decl), message);
            // Without this, walks over the bases would not terminate.
            self.queries.bases.insert(decl, fine.clone());
        }
        fine
    }

    /// Returns true if a type is an instance of the declaration, or inherits from one.
    fn inherits(&mut self, ty: Ty, decl: DeclId) -> bool {
        let mut seen: Vec<DeclId> = Vec::new();
        let mut left = vec![ty];
        while let Some(ty) = left.pop() {
            let (TyKind::Struct(of, _) | TyKind::Interface(of, _)) = self.types[ty] else { continue };
            if of == decl {
                return true;
            }
            if !seen.contains(&of) {
                seen.push(of);
                left.extend(self.bases_of(of).iter().copied());
            }
        }
        false
    }

    /// The types that a list of bases or bounds names.
    pub(crate) fn types_of_bases(&mut self, bases: &[syntax::ExprId], scope: DeclId) -> Vec<Ty> {
        let mut out = Vec::new();
        bases.iter().for_each(|&base| self.base_types(base, scope, &mut out));
        out
    }

    fn base_types(&mut self, expr: syntax::ExprId, scope: DeclId, out: &mut Vec<Ty>) {
        if let ExprKind::Binary(BinaryOp::BitAnd, a, b) = self.ast.exprs[expr].kind {
            self.base_types(a, scope, out);
            self.base_types(b, scope, out);
            return;
        }
        // The bounds of a parameter are resolved outside of the parameter's owner.
        let outside = self.scopes.param_owner.get(&scope).copied().unwrap_or(scope);
        let mut checker = Checker::outside(self, scope);
        checker.outside_of = Some(outside);
        checker.expanding.push(Vec::new());
        let ty = checker.type_expr(expr);
        if let TyKind::Pack(parts) = self.types[ty].clone() {
            out.extend(parts);
        } else if ty != Ty::ERROR {
            out.push(ty);
        } else {
            self.scopes.unknown_bases.insert(scope);
        }
    }

    /// The declaration that owns the generic parameter at the root of a type: the owner of `T` for `T.A.B`.
    pub(crate) fn root_owner(&self, ty: Ty) -> Option<DeclId> {
        match &self.types[ty] {
            TyKind::Param(param) => self.scopes.param_owner.get(param).copied(),
            TyKind::Assoc(base, _) | TyKind::Each(base) | TyKind::PackPart(_, base) => self.root_owner(*base),
            _ => None,
        }
    }

    /// The interfaces that a type is *declared* to conform to, together with their bases. The type may be a
    /// parameter, `This`, an associated type, an interface, a struct, or an enumeration.
    pub(crate) fn interfaces_of(&mut self, ty: Ty) -> Vec<Ty> {
        let mut out = Vec::new();
        match self.types[ty].clone() {
            TyKind::Param(_) => self.constrained_to(ty, &mut out),
            TyKind::Each(pack) => match self.types[pack].clone() {
                // The interfaces that all elements have in common.
                TyKind::Pack(parts) => out = self.interfaces_of_all(&parts),
                TyKind::PackPart(_, whole) => {
                    out = self.interfaces_of_elements(whole);
                    self.constrained_to(ty, &mut out);
                }
                _ => {
                    self.constrained_to(pack, &mut out);
                    self.constrained_to(ty, &mut out);
                }
            },
            TyKind::PackPart(_, pack) => {
                out = self.interfaces_of_elements(pack);
                self.constrained_to(ty, &mut out);
            }
            TyKind::PackBranch(_, empty, other) => out = self.interfaces_of_all(&[empty, other]),
            TyKind::This(decl) => {
                let args = self.identity_args(decl);
                let own = self.types.intern(TyKind::Interface(decl, args));
                self.add_interface(own, ty, &mut out);
            }
            TyKind::Interface(..) => self.add_interface(ty, ty, &mut out),
            TyKind::Assoc(base, decl) => {
                let env = self.env_of_assoc(base, decl);
                for &bound in self.bases_of(decl).iter() {
                    let bound = self.substitute(bound, &env);
                    self.add_interface(bound, ty, &mut out);
                }
                let mut at = ty;
                while let TyKind::Assoc(outer, _) = self.types[at] {
                    for (subject, bound) in self.constraints_on(outer).0 {
                        if subject == ty {
                            self.add_interface(bound, ty, &mut out);
                        }
                    }
                    at = outer;
                }
                self.constrained_to(ty, &mut out);
            }
            TyKind::Struct(..)
            | TyKind::Enum(_)
            | TyKind::Scalar(_)
            | TyKind::Vector(..)
            | TyKind::Matrix(..)
            | TyKind::Array(..)
            | TyKind::Tuple(_)
            | TyKind::Pointer(..)
            | TyKind::Buffer(..)
            | TyKind::Optional(_) => {
                for facet in self.facets(ty).iter().filter(|facet| facet.kind == FacetKind::Interface) {
                    let args = self.known_args(facet.container, &facet.env);
                    out.push(self.types.intern(TyKind::Interface(facet.container, args)));
                }
            }
            _ => {}
        }
        out
    }

    /// The interfaces that all of several types have in common; a pack stands for its elements.
    fn interfaces_of_all(&mut self, types: &[Ty]) -> Vec<Ty> {
        let mut out: Option<Vec<Ty>> = None;
        for &ty in types {
            let element = if self.is_pack(ty) { self.each_of(ty) } else { None };
            let own = self.interfaces_of(element.unwrap_or(ty));
            match &mut out {
                Some(out) => out.retain(|interface| own.contains(interface)),
                None => out = Some(own),
            }
        }
        out.unwrap_or_default()
    }

    fn interfaces_of_elements(&mut self, pack: Ty) -> Vec<Ty> {
        let element = self.each_of(pack).unwrap_or(Ty::ERROR);
        self.interfaces_of(element)
    }

    fn env_of_assoc(&mut self, base: Ty, assoc: DeclId) -> Subst {
        let container = self.container_of(assoc).filter(|&c| self.ast.decls[c].generics.is_some());
        let interfaces = container.map_or(Vec::new(), |_| self.interfaces_of(base));
        let found = interfaces.into_iter().find(|&interface| self.interface_decl(interface) == container);
        match found.map(|interface| &self.types[interface]) {
            Some(TyKind::Interface(decl, args)) => self.subst(*decl, args, Some(base)),
            _ => Subst { this: Some(base), ..Subst::default() },
        }
    }

    pub(crate) fn add_interface(&mut self, interface: Ty, this: Ty, out: &mut Vec<Ty>) {
        if out.contains(&interface) || out.len() > 500 {
            return;
        }
        let TyKind::Interface(decl, args) = self.types[interface].clone() else { return };
        out.push(interface);
        let env = self.subst(decl, &args, Some(this));
        for &base in self.bases_of(decl).iter() {
            let base = self.substitute(base, &env);
            self.add_interface(base, this, out);
        }
    }

    /// Resolves the targets of newly added extensions.
    pub(crate) fn resolve_extensions(&mut self) {
        while let Some(decl) = self.extensions.pending.pop() {
            let DeclKind::Extension { target, .. } = self.ast.decls[decl].kind else { continue };
            let params = self.all_generic_params(decl);
            let target = Checker::outside(self, decl).type_expr(target);
            self.extensions.known.push(ExtensionInfo { decl, target, params });
        }
    }

    /// The substitution for the parameters of an extension if it extends this type.
    pub(crate) fn match_extension(&mut self, idx: usize, ty: Ty) -> Option<Subst> {
        let ExtensionInfo { decl, target, .. } = self.extensions.known[idx];
        if self.extensions.known[idx].params.is_empty() {
            return (target == ty).then(Subst::default);
        }
        let params = self.extensions.known[idx].params.clone();
        let mut env = Subst::default();
        if !self.unify(target, ty, &params, &mut env) {
            return None;
        }
        if !self.begin_search(decl) {
            return None;
        }
        self.infer_from_constraints(decl, &params, &mut env);
        let applies = self.is_solved(decl, &params, &env);
        self.end_search();
        applies.then_some(env)
    }

    /// Returns true if arguments for all parameters are known and fulfil the constraints of a declaration.
    pub(crate) fn is_solved(&mut self, decl: DeclId, params: &[DeclId], env: &Subst) -> bool {
        params.iter().all(|&param| env.get(param).is_some()) && self.satisfies(decl, env)
    }

    /// The arguments that a substitution has for a declaration's generic parameters.
    pub(crate) fn known_args(&self, decl: DeclId, env: &Subst) -> Args {
        self.all_generic_params(decl).into_iter().filter_map(|param| env.get(param).cloned()).collect()
    }

    /// Unifies each type with its pattern, unless the pattern is known to be that type by then.
    pub(crate) fn fit_all(
        &mut self,
        pairs: impl Iterator<Item = (Ty, Ty)>,
        params: &[DeclId],
        env: &mut Subst,
    ) -> bool {
        let mut pairs = pairs;
        pairs.all(|(pattern, ty)| self.substitute(pattern, env) == ty || self.unify(pattern, ty, params, env))
    }

    /// Takes arguments for parameters that have none yet from a list.
    pub(crate) fn fill_in(&self, params: &[DeclId], args: &[GenericArg], env: &mut Subst) {
        for (&param, arg) in params.iter().zip(args) {
            if env.get(param).is_none() {
                env.map.push((param, arg.clone()));
            }
        }
    }

    /// Unifies each type with its pattern.
    pub(crate) fn unify_all(
        &mut self,
        mut pairs: impl Iterator<Item = (Ty, Ty)>,
        params: &[DeclId],
        env: &mut Subst,
    ) -> bool {
        pairs.all(|(pattern, ty)| self.unify(pattern, ty, params, env))
    }

    /// Unifies a type with a pattern over parameters, without conversions.
    pub(crate) fn unify(&mut self, pattern: Ty, ty: Ty, params: &[DeclId], env: &mut Subst) -> bool {
        if pattern == ty {
            // Parameters may occur on both sides (an extension seen from within); then they stand for
            // themselves.
            let mut found = Vec::new();
            self.params_in(pattern, &mut found);
            for param in found {
                if params.contains(&param) && env.get(param).is_none() {
                    let arg = self.param_arg(param);
                    env.map.push((param, arg));
                }
            }
            return true;
        }
        let pattern_param = match self.types[pattern] {
            TyKind::Param(param) => Some((param, self.is_pack_param(param))),
            TyKind::Each(pack) => match self.types[pack] {
                TyKind::Param(param) => Some((param, false)),
                _ => None,
            },
            _ => None,
        };
        if let Some((param, is_pack)) = pattern_param.filter(|pattern| params.contains(&pattern.0)) {
            if is_pack != self.is_pack(ty) && ty != Ty::ERROR {
                return false;
            }
            if let Some(GenericArg::Type(bound)) = env.get(param) {
                return *bound == ty;
            }
            env.map.push((param, GenericArg::Type(ty)));
            return true;
        }
        match (self.types[pattern].clone(), self.types[ty].clone()) {
            (TyKind::Array(a, None), TyKind::Array(b, _)) => self.unify(a, b, params, env),
            // Where the argument has no length either, the host will give it one.
            (TyKind::Array(a, Some(Val::Param(n))), TyKind::Array(b, None))
                if self.opened.params.contains(&n) && params.contains(&n) =>
            {
                if env.get(n).is_none() {
                    env.map.push((n, GenericArg::Val(Val::Error)));
                }
                self.unify(a, b, params, env)
            }
            (TyKind::Tuple(a), TyKind::Tuple(b)) | (TyKind::Pack(a), TyKind::Pack(b)) => {
                self.unify_list(&a, &b, params, env)
            }
            (TyKind::Pack(a), _) if self.is_pack(ty) => self.unify_list(&a, &[ty], params, env),
            (TyKind::Expand(pattern, shape), _) if self.is_pack(ty) => {
                self.unify_expand(pattern, &shape, ty, params, env)
            }
            (TyKind::Assoc(..) | TyKind::PackPart(..) | TyKind::PackBranch(..), _) => {
                // Not a pattern; it is compared once its base is known.
                let known = self.substitute(pattern, &env.clone());
                known == ty
                    || matches!(
                        self.types[known],
                        TyKind::Assoc(..) | TyKind::PackPart(..) | TyKind::PackBranch(..)
                    )
            }
            // What has no layout has the default one.
            (TyKind::Laid(content, layout), kind) if !matches!(kind, TyKind::Laid(..)) => {
                let default = self.default_layout();
                self.unify(content, ty, params, env)
                    && default.is_some_and(|default| self.unify(layout, default, params, env))
            }
            // What is for all vectors is for those that are compared as a whole, too.
            (TyKind::Vector(a, n, Comparison::Each), TyKind::Vector(b, m, Comparison::Whole)) => {
                self.unify(a, b, params, env) && self.unify_val(&n, &m, params, env)
            }
            // Types of one kind, part by part.
            (a, b) if std::mem::discriminant(&a) == std::mem::discriminant(&b) => {
                let (x, y) = (a.parts(), b.parts());
                x.len() == y.len()
                    && a.with_parts(y.clone()) == b
                    && x.iter().zip(&y).all(|(x, y)| self.unify_arg(x, y, params, env))
            }
            _ => false,
        }
    }

    /// Unifies a generic argument with a pattern.
    pub(crate) fn unify_arg(
        &mut self,
        a: &GenericArg,
        b: &GenericArg,
        params: &[DeclId],
        env: &mut Subst,
    ) -> bool {
        match (a, b) {
            (GenericArg::Type(a), GenericArg::Type(b)) => self.unify(*a, *b, params, env),
            (GenericArg::Val(a), GenericArg::Val(b)) => self.unify_val(a, b, params, env),
            _ => false,
        }
    }

    /// Unifies a compile-time integer with a pattern.
    pub(crate) fn unify_val(&mut self, a: &Val, b: &Val, params: &[DeclId], env: &mut Subst) -> bool {
        if a == b && !matches!(a, Val::Param(p) if params.contains(p)) {
            return true;
        }
        match a {
            Val::Each(pack) if matches!(**pack, Val::Param(p) if params.contains(&p)) => {
                self.unify_val(pack, b, params, env)
            }
            Val::Param(param) if params.contains(param) => match env.get(*param) {
                Some(GenericArg::Val(bound)) => bound == b,
                _ => {
                    env.map.push((*param, GenericArg::Val(b.clone())));
                    true
                }
            },
            Val::Binary(..)
            | Val::Select(_)
            | Val::Member(_)
            | Val::SizeOf(..)
            | Val::PackPart(..)
            | Val::Shape(..)
            | Val::CountOf(_)
            | Val::CountOfVals(_) => {
                let known = self.substitute_val(a, &env.clone());
                known == *b || !matches!(known, Val::Int(_))
            }
            Val::Error => true,
            Val::Int(_) | Val::Param(_) | Val::Pack(_) | Val::Each(_) | Val::Expand(..) => *b == Val::Error,
        }
    }

    /// The facets of a type, nearest first.
    pub(crate) fn facets(&mut self, ty: Ty) -> Rc<[Facet]> {
        if let Some(found) = self.queries.facets.get(&ty) {
            return found.clone();
        }
        if matches!(self.types[ty], TyKind::Param(_))
            && let Some(owner) = self.root_owner(ty)
        {
            self.constraints_of(owner);
        }
        if let (TyKind::Assoc(outer, _), true) = (&self.types[ty], self.has_constraints) {
            // Constraints that are resolved on the way request the same facets, which are not cached yet.
            let outer = *outer;
            self.constraints_on(outer);
        }
        let mut out = Vec::new();
        let kind = self.types[ty].clone();
        let (own, env) = match &kind {
            TyKind::Struct(decl, args) => (Some(*decl), self.subst(*decl, args, None)),
            TyKind::Enum(decl) => (Some(*decl), Subst::default()),
            _ => (None, Subst::default()),
        };
        if let Some(container) = own {
            let env = Rc::new(env.clone());
            out.push(Facet { container, kind: FacetKind::Own, env, self_ty: ty, rank: 0 });
        }
        self.queries.facets.begin_as(&ty, out.clone().into());
        self.resolve_extensions();
        let mut interfaces = Vec::new();
        if !self.types.is_abstract(ty) && !matches!(kind, TyKind::Interface(..)) {
            for facet in self.extension_facets(FacetKind::Extension, ty, |p, e| !p.is_blanket(e)) {
                self.interfaces_added_by(&facet, &mut interfaces);
                out.push(facet);
            }
        }
        if let Some(decl) = own {
            for &base in self.bases_of(decl).iter() {
                let base = self.substitute(base, &env);
                if matches!(self.types[base], TyKind::Interface(..)) {
                    self.add_interface(base, ty, &mut interfaces);
                } else if base != ty && out.len() < 500 {
                    for facet in self.facets(base).iter() {
                        let is_own = facet.kind == FacetKind::Own;
                        let kind = if is_own { FacetKind::Base } else { facet.kind };
                        // The conformance of a base also holds for the derived struct.
                        out.push(Facet { kind, rank: facet.rank + 2, ..facet.clone() });
                    }
                }
            }
        } else {
            let more = self.interfaces_of(ty).into_iter().filter(|i| !interfaces.contains(i));
            interfaces.extend(more.collect::<Vec<Ty>>());
        }
        for idx in 0..self.magics.decls.len() {
            let (magic, decl) = self.magics.decls[idx];
            let native = match magic {
                Magic::Differentiable => {
                    !matches!(kind, TyKind::Struct(..) | TyKind::Enum(_))
                        && !self.types.is_abstract(ty)
                        && self.differential(ty).is_some()
                        || self.conforms_natively(ty, magic)
                }
                _ => self.conforms_natively(ty, magic),
            };
            let interface = self.types.intern(TyKind::Interface(decl, Vec::new()));
            if native && !interfaces.contains(&interface) {
                interfaces.push(interface);
            }
        }
        for interface in interfaces {
            let TyKind::Interface(decl, args) = self.types[interface].clone() else { continue };
            let env = Rc::new(self.subst(decl, &args, Some(ty)));
            out.push(Facet { container: decl, kind: FacetKind::Interface, env, self_ty: ty, rank: 0 });
            let of_it = |p: &Program, e: &ExtensionInfo| p.interface_decl(e.target) == Some(decl);
            for facet in self.extension_facets(FacetKind::InterfaceExtension, interface, of_it) {
                let env = Rc::new(Subst { this: Some(ty), ..(*facet.env).clone() });
                out.push(Facet { env, self_ty: ty, ..facet });
            }
        }
        let facets: Rc<[Facet]> = out.into();
        self.queries.facets.finish(&ty, facets.clone());
        facets
    }

    /// Facets for the extensions of a type among those that are wanted.
    fn extension_facets(
        &mut self,
        kind: FacetKind,
        self_ty: Ty,
        wanted: impl Fn(&Program, &ExtensionInfo) -> bool,
    ) -> Vec<Facet> {
        let mut out = Vec::new();
        for idx in 0..self.extensions.known.len() {
            let container = self.extensions.known[idx].decl;
            if wanted(self, &self.extensions.known[idx])
                && let Some(env) = self.match_extension(idx, self_ty)
            {
                out.push(Facet { container, kind, env: Rc::new(env), self_ty, rank: 1 });
            }
        }
        out
    }

    /// Adds the interfaces that an extension adds to its type.
    fn interfaces_added_by(&mut self, extension: &Facet, out: &mut Vec<Ty>) {
        for &base in self.bases_of(extension.container).iter() {
            let base = self.substitute(base, &extension.env);
            self.add_interface(base, extension.self_ty, out);
        }
    }

    /// Returns true for an extension of all types that conform to an interface.
    pub(crate) fn is_blanket(&self, extension: &ExtensionInfo) -> bool {
        matches!(self.types[extension.target], TyKind::Param(_))
    }

    /// Returns true for a member of such an extension.
    pub(crate) fn is_of_blanket(&self, decl: DeclId) -> bool {
        let container = self.container_of(decl);
        self.extensions.known.iter().any(|e| Some(e.decl) == container && self.is_blanket(e))
    }

    /// Facets for the extensions of all types that conform to an interface (`extension<T : I> T`), if they
    /// extend this type.
    pub(crate) fn blanket_facets(&mut self, ty: Ty, wanted: impl Fn(&Program, DeclId) -> bool) -> Vec<Facet> {
        self.resolve_extensions();
        self.extension_facets(FacetKind::InterfaceExtension, ty, |p, e| p.is_blanket(e) && wanted(p, e.decl))
    }

    /// The facets of such extensions that declare a member of this name.
    pub(crate) fn blanket_facets_with(&mut self, ty: Ty, name: Symbol) -> Vec<Facet> {
        self.blanket_facets(ty, |p, ext| p.declares_name(ext, name))
    }

    /// The interfaces that such extensions add to this type, restricted to extensions that provide the given
    /// interface or one that inherits from it. The constraints of other extensions are not checked: each
    /// check queries interfaces itself, so that the queries would multiply.
    pub(crate) fn blanket_interfaces(&mut self, ty: Ty, interface: DeclId) -> Vec<Ty> {
        self.resolve_extensions();
        let blanket: Vec<DeclId> =
            self.extensions.known.iter().filter(|e| self.is_blanket(e)).map(|e| e.decl).collect();
        let mut offering = Vec::new();
        for container in blanket {
            let mut all = Vec::new();
            for &base in self.bases_of(container).iter() {
                self.add_interface(base, ty, &mut all);
            }
            if all.iter().any(|&i| self.interface_decl(i) == Some(interface)) {
                offering.push(container);
            }
        }
        let mut all = Vec::new();
        if !offering.is_empty() {
            for facet in self.blanket_facets(ty, |_, extension| offering.contains(&extension)) {
                self.interfaces_added_by(&facet, &mut all);
            }
        }
        all
    }

    /// Returns true if a type conforms to an interface (or is derived from a struct).
    pub fn conforms(&mut self, ty: Ty, bound: Ty) -> bool {
        if ty == bound || ty == Ty::ERROR || bound == Ty::ERROR {
            return true;
        }
        match self.types[ty].clone() {
            TyKind::Pack(parts) => return parts.into_iter().all(|part| self.conforms(part, bound)),
            TyKind::Expand(pattern, _) => return self.conforms(pattern, bound),
            TyKind::PackBranch(_, empty, other) => {
                return self.conforms(empty, bound) && self.conforms(other, bound);
            }
            TyKind::PackPart(_, pack) => {
                let element = self.each_of(pack).unwrap_or(Ty::ERROR);
                if self.conforms(element, bound) {
                    return true;
                }
            }
            TyKind::Each(pack) if matches!(self.types[pack], TyKind::Pack(_)) => {
                return self.conforms(pack, bound);
            }
            _ => {}
        }
        let (decl, args) = match &self.types[bound] {
            TyKind::Interface(decl, args) => (*decl, args.clone()),
            TyKind::Struct(decl, _) => {
                let decl = *decl;
                return self.facets(ty).iter().any(|f| f.container == decl && f.self_ty == bound);
            }
            _ => return false,
        };
        match self.magic_of(decl) {
            Some(Magic::Differentiable) => return self.differential(ty).is_some(),
            Some(Magic::DifferentiablePtr) => return self.pointer_differential(ty).is_some(),
            Some(Magic::DefaultInitializable) => return true,
            Some(Magic::OpaqueDescriptor) if matches!(self.types[ty], TyKind::Buffer(..)) => return true,
            Some(magic) if self.conforms_natively(ty, magic) => return true,
            _ => {}
        }
        if self.has_interface(ty, decl, &args) || self.is_given(ty, bound) {
            return true;
        }
        if !self.queries.conformances.begin(&(ty, bound)) {
            return false;
        }
        let found = self.blanket_interfaces(ty, decl).contains(&bound);
        self.queries.conformances.end(&(ty, bound));
        found
    }

    /// Returns true if a `where` clause of the parameters that a type mentions states the conformance:
    /// `where vector<T, 1> : I`.
    fn is_given(&mut self, ty: Ty, bound: Ty) -> bool {
        if matches!(self.types[ty], TyKind::Param(_) | TyKind::Assoc(..)) {
            return false;
        }
        let mut params = Vec::new();
        self.params_in(ty, &mut params);
        let mut owners: Vec<DeclId> =
            params.iter().filter_map(|param| self.scopes.param_owner.get(param)).copied().collect();
        owners.dedup();
        owners.into_iter().any(|owner| self.constraints_of(owner).conforms.contains(&(ty, bound)))
    }

    /// Returns true if an interface is among a type's facets.
    pub(crate) fn has_interface(&mut self, ty: Ty, decl: DeclId, args: &Args) -> bool {
        self.facets(ty).iter().any(|f| {
            f.kind == FacetKind::Interface
                && f.container == decl
                && f.env.map.iter().map(|m| &m.1).eq(args.iter())
        })
    }

    /// Returns true if a type is declared to conform to one of the library's interfaces, at its declaration
    /// or in an extension.
    pub(crate) fn declares(&mut self, ty: Ty, magic: Magic) -> bool {
        let Some(decl) = self.magic_decl(magic) else { return false };
        self.has_interface(ty, decl, &Vec::new())
    }

    /// Collects the generic parameters that a type mentions.
    pub(crate) fn params_in(&self, ty: Ty, out: &mut Vec<DeclId>) {
        self.params_in_part(Part::Type(ty), out);
    }

    fn params_in_part(&self, part: Part<'_>, out: &mut Vec<DeclId>) {
        match part {
            Part::Type(ty) => match &self.types[ty] {
                TyKind::Param(param) => out.push(*param),
                kind => kind.for_each_part(&mut |part| self.params_in_part(part, out)),
            },
            Part::Val(Val::Param(param)) => out.push(*param),
            // The number of elements of a pack says nothing of the pack.
            Part::Val(Val::CountOf(_)) => {}
            Part::Val(Val::Expand(val, _)) => self.params_in_part(Part::Val(val), out),
            Part::Val(val) => val.for_each_part(&mut |part| self.params_in_part(part, out)),
        }
    }
}
