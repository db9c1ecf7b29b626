//! Collects the constraints of generics on their parameters and of interfaces on associated types.
//!
//! The constraints of one declaration are resolved in order; those resolved so far are visible while the rest
//! is resolved, since `where T.Differential == T` needs the bases of `T`.

use std::rc::Rc;

use syntax::DeclId;
use syntax::ast::{Constraint, DeclKind, ExprKind};

use crate::exprs::infer::Checker;
use crate::facts::Constraints;
use crate::program::Program;
use crate::signature::Subst;
use crate::types::{GenericArg, Ty, TyKind, Val};

/// Pairs of the two types in a constraint, as written.
pub(crate) type Pairs = Vec<(Ty, Ty)>;

impl Program {
    /// The constraints of one declaration's generics.
    pub(crate) fn constraints_of(&mut self, owner: DeclId) -> Rc<Constraints> {
        if let Some(found) = self.queries.constraints.get(&owner) {
            return found.clone();
        }
        if !self.is_generic(owner) && !self.is_constrained(owner) {
            return Rc::default();
        }
        let params = self.own_params(owner);
        let written = self.ast.decls[owner].generics.as_ref().map_or(Vec::new(), |g| g.constraints.clone());
        // Make the constraints found so far visible while the rest is resolved: `where T.Differential == T`
        // needs the bases of `T`.
        let mut known = Constraints::default();
        self.queries.constraints.begin_as(&owner, Rc::default());
        for &param in &params {
            if self.is_value_param(param) {
                continue;
            }
            let ty = self.types.intern(TyKind::Param(param));
            for &base in self.bases_of(param).iter() {
                known.conforms.push((ty, base));
            }
            self.queries.constraints.insert(owner, Rc::new(known.clone()));
        }
        for constraint in &written {
            match constraint {
                Constraint::Conforms(expr, bases) => {
                    let ty = self.constrained_type(owner, *expr);
                    let types = self.types_of_bases(bases, owner);
                    known.conforms.extend(types.into_iter().map(|base| (ty, base)));
                }
                Constraint::Equal(a, b) if self.is_value(*a) || self.is_value(*b) => {
                    let [a, b] = [*a, *b].map(|side| {
                        let mut checker = Checker::outside(self, owner);
                        checker.infer(side, None);
                        checker.val_of(side)
                    });
                    known.equal_values.push((a, b));
                }
                Constraint::Equal(a, b) => {
                    let [a, b] = [*a, *b].map(|side| self.constrained_type(owner, side));
                    let is_assoc = matches!(self.types[a], TyKind::Assoc(..));
                    known.equal.push(if is_assoc { (a, b) } else { (b, a) });
                }
                Constraint::Converts { to, from, implicit } => {
                    let to = Checker::outside(self, owner).type_expr(*to);
                    let from = Checker::outside(self, owner).type_expr(*from);
                    known.converts.push((to, from, *implicit));
                }
                Constraint::Optional(expr, bases) => {
                    let ty = Checker::outside(self, owner).type_expr(*expr);
                    let types = self.types_of_bases(bases, owner);
                    known.optional.extend(types.into_iter().map(|base| (ty, base)));
                }
                Constraint::NonEmpty(expr) => {
                    let pack = Checker::outside(self, owner).generic_arg(*expr);
                    let is_own =
                        params.iter().any(|&p| self.is_pack_param(p) && pack.is_param(p, &self.types));
                    if !is_own && pack != GenericArg::Type(Ty::ERROR) {
                        let span = self.ast.exprs[*expr].span;
                        let message = "'nonempty' needs a parameter of this declaration that is a pack";
                        self.error("E30413", span, message);
                    }
                    known.nonempty.push(pack);
                }
                Constraint::Other(span) => {
                    self.error("E0900", *span, "this kind of constraint is not supported yet");
                }
            }
            self.queries.constraints.insert(owner, Rc::new(known.clone()));
        }
        if let DeclKind::AssociatedType { bases } = self.ast.decls[owner].kind.clone() {
            for base in bases {
                if self.is_this(base) {
                    let this = self.constrained_type(owner, base);
                    known.equal.push((self.types.intern(TyKind::Assoc(this, owner)), this));
                }
            }
            self.queries.constraints.insert(owner, Rc::new(known.clone()));
            // The facts known about associated types have changed.
            let is_associated = |&ty: &Ty| matches!(self.types[ty], TyKind::Assoc(..));
            self.queries.facets.forget_all(is_associated);
            self.queries.differentials.forget_all(is_associated);
        }
        self.queries.constraints.end(&owner);
        // Facets and differentials of the parameters may have been cached on the way.
        for &param in &params {
            let ty = self.types.intern(TyKind::Param(param));
            self.queries.facets.forget(&ty);
            self.queries.differentials.forget(&ty);
        }
        Rc::new(known)
    }

    /// Returns true for an associated type with a `where` clause, or that is `This`.
    pub(crate) fn is_constrained(&self, decl: DeclId) -> bool {
        let DeclKind::AssociatedType { bases } = &self.ast.decls[decl].kind else { return false };
        self.ast.decls[decl].generics.is_some() || bases.iter().any(|&base| self.is_this(base))
    }

    /// Returns true for the expression `This`.
    pub(crate) fn is_this(&self, expr: syntax::ExprId) -> bool {
        matches!(self.ast.exprs[expr].kind, ExprKind::ThisType)
    }

    /// The type on one side of a constraint; `each T : I` constrains the whole pack, as does `expand each T : I`.
    fn constrained_type(&mut self, owner: DeclId, expr: syntax::ExprId) -> Ty {
        let expr = match self.ast.exprs[expr].kind {
            ExprKind::Expand(inner) => inner,
            _ => expr,
        };
        let mut checker = Checker::outside(self, owner);
        checker.expanding.push(Vec::new());
        let ty = checker.type_expr(expr);
        match self.types[ty] {
            TyKind::Each(pack) if matches!(self.types[pack], TyKind::PackPart(..)) => {
                let span = self.ast.exprs[expr].span;
                self.error("E30404", span, "a part of a pack cannot be constrained: constrain the pack");
                Ty::ERROR
            }
            TyKind::Each(pack) => pack,
            _ => ty,
        }
    }

    /// The type that the name of a generic parameter stands for: the parameter, or, where a constraint makes it
    /// equal to a known type (`where T == uint`), that type. While the constraints themselves are being resolved,
    /// it is the parameter.
    pub(crate) fn param_type(&mut self, param: DeclId) -> Ty {
        let ty = self.types.intern(TyKind::Param(param));
        let owner = self.scopes.param_owner.get(&param).copied();
        match owner.filter(|owner| !self.queries.constraints.is_open(owner)) {
            Some(owner) if !self.is_pack_param(param) => self.equated_to(owner, ty).unwrap_or(ty),
            _ => ty,
        }
    }

    /// The type without parameters that the constraints of a declaration make a type equal to.
    fn equated_to(&mut self, owner: DeclId, ty: Ty) -> Option<Ty> {
        let constraints = self.constraints_of(owner);
        let others = constraints.equal.iter().filter_map(|&(a, b)| match ty {
            ty if ty == a => Some(b),
            ty => (ty == b).then_some(a),
        });
        others.into_iter().find(|&other| {
            let mut mentioned = Vec::new();
            self.params_in(other, &mut mentioned);
            mentioned.is_empty() && other != Ty::ERROR && !self.types.is_abstract(other)
        })
    }

    /// Returns true if a side of a constraint is an integer rather than a type.
    fn is_value(&self, expr: syntax::ExprId) -> bool {
        matches!(
            self.ast.exprs[expr].kind,
            ExprKind::Int { .. } | ExprKind::SizeOf(..) | ExprKind::Binary(..)
        )
    }

    pub(crate) fn constrained_to(&mut self, ty: Ty, out: &mut Vec<Ty>) {
        let Some(owner) = self.root_owner(ty) else { return };
        let constraints = self.constraints_of(owner);
        for &(subject, bound) in constraints.conforms.iter().chain(&constraints.optional) {
            if subject == ty {
                self.add_interface(bound, ty, out);
            }
        }
    }

    /// The constraints that the interfaces of a type put on its associated types beyond their bounds, by
    /// `where` or `__constraint`: conformances, and pairs of equal types.
    pub(crate) fn constraints_on(&mut self, base: Ty) -> (Pairs, Pairs) {
        let (mut conforms, mut equal) = (Vec::new(), Vec::new());
        // A query that recurs within itself sees only what is known by then, so that the recursion ends; it
        // may recur once.
        let key = (base, self.queries.associated.is_open(&(base, false)));
        if !self.has_constraints || !self.queries.associated.begin(&key) {
            return (conforms, equal);
        }
        for interface in self.interfaces_of(base) {
            let TyKind::Interface(decl, args) = self.types[interface].clone() else { continue };
            let env = self.subst(decl, &args, Some(base));
            for member in self.ast.decls[decl].kind.members().to_vec() {
                if !self.is_constrained(member) {
                    continue;
                }
                // Members after one that is being resolved may depend on it.
                if self.queries.constraints.is_open(&member) {
                    break;
                }
                let constraints = self.constraints_of(member);
                for &(subject, bound) in &constraints.conforms {
                    let pair = (self.substitute_raw(subject, &env), self.substitute(bound, &env));
                    conforms.push(pair);
                }
                for &(a, b) in &constraints.equal {
                    equal.push((self.substitute_raw(a, &env), self.substitute_raw(b, &env)));
                }
            }
        }
        self.queries.associated.end(&key);
        (conforms, equal)
    }

    /// Replaces the root of a path of associated types without looking anything up.
    fn substitute_raw(&mut self, ty: Ty, env: &Subst) -> Ty {
        match self.types[ty] {
            TyKind::Assoc(base, assoc) => match self.substitute_raw(base, env) {
                base if self.types.is_abstract(base) => self.types.intern(TyKind::Assoc(base, assoc)),
                base => self.project(base, assoc),
            },
            _ => self.substitute(ty, env),
        }
    }

    /// Returns true if the arguments fulfil the constraints of a declaration's generics.
    pub(crate) fn satisfies(&mut self, owner: DeclId, env: &Subst) -> bool {
        self.unsatisfied(owner, env).is_none()
    }

    /// The first constraint that the arguments do not fulfil: the type, and the type or interface that it
    /// should match.
    pub(crate) fn unsatisfied(&mut self, owner: DeclId, env: &Subst) -> Option<(Ty, Ty)> {
        let constraints = self.constraints_of(owner);
        for &(subject, bound) in &constraints.conforms {
            let (subject, general) = (self.substitute(subject, env), bound);
            let bound = self.substitute(general, env);
            if let TyKind::Pack(parts) = self.types[subject].clone() {
                // Check each element against the bound for this element.
                let mut inner = env.clone();
                for (idx, part) in parts.into_iter().enumerate() {
                    inner.element = Some(idx);
                    let bound = self.substitute(general, &inner);
                    if !self.conforms(part, bound) {
                        return Some((part, bound));
                    }
                }
                continue;
            }
            if !self.conforms(subject, bound) {
                return Some((subject, bound));
            }
        }
        for &(a, b) in &constraints.equal {
            let (a, b) = (self.substitute(a, env), self.substitute(b, env));
            if !self.same_types(a, b) {
                return Some((a, b));
            }
        }
        for &(to, from, _) in &constraints.converts {
            let (to, from) = (self.substitute(to, env), self.substitute(from, env));
            if !self.is_convertible(from, to) {
                return Some((from, to));
            }
        }
        for pack in &constraints.nonempty {
            let pack = self.substitute_arg(pack, env);
            if self.is_nonempty(&pack) != Some(true) {
                let empty = self.pack_of(Vec::new());
                return Some((empty, Ty::INT));
            }
        }
        for (a, b) in &constraints.equal_values {
            let counted = match a {
                Val::CountOf(ty) => Some(self.substitute(*ty, env)),
                _ => None,
            };
            let (a, b) = (self.substitute_val(a, env), self.substitute_val(b, env));
            let (known_a, known_b) = (self.val_int(&a, env), self.val_int(&b, env));
            let is_refuted = match (known_a, known_b) {
                (Some(x), Some(y)) => x != y,
                _ => !self.is_proven_count(owner, &a, &b, env),
            };
            if is_refuted {
                return Some((counted.unwrap_or(Ty::INT), Ty::INT));
            }
        }
        None
    }

    /// Returns false if the number of elements of a pack that is a parameter has to be equal to another number, and
    /// no constraint of that parameter says so. As in Slang, constraints are used as they are written.
    fn is_proven_count(&mut self, owner: DeclId, count: &Val, other: &Val, env: &Subst) -> bool {
        let param_of = |p: &Program, val: &Val| match val {
            Val::Param(param) => Some(*param),
            Val::CountOf(ty) => match p.types[*ty] {
                TyKind::Param(param) => Some(param),
                _ => None,
            },
            Val::CountOfVals(vals) => match **vals {
                Val::Param(param) => Some(param),
                _ => None,
            },
            _ => None,
        };
        let (Val::CountOf(_) | Val::CountOfVals(_)) = count else { return true };
        let (Some(pack), true) = (param_of(self, count), count != other) else { return true };
        let number = param_of(self, other);
        if number.is_none() && !matches!(other, Val::Int(_)) {
            return true;
        }
        let own = self.own_params(owner);
        let is_open = |param: &DeclId| own.contains(param) && env.get(*param).is_none();
        if is_open(&pack) || number.as_ref().is_some_and(is_open) {
            return true;
        }
        let owners: Vec<DeclId> = [Some(pack), number]
            .into_iter()
            .flatten()
            .filter_map(|param| self.scopes.param_owner.get(&param).copied())
            .collect();
        owners.into_iter().any(|owner| {
            let known = self.constraints_of(owner);
            known.equal_values.iter().any(|(a, b)| a == count && b == other)
        })
    }

    /// Infers parameters from constraints: `T` from `U : IBuffer<T>` where `U` is known.
    pub(crate) fn infer_from_constraints(&mut self, owner: DeclId, params: &[DeclId], env: &mut Subst) {
        if params.iter().all(|&p| env.get(p).is_some()) {
            return;
        }
        let constraints = self.constraints_of(owner);
        for &param in params {
            let ty = self.types.intern(TyKind::Param(param));
            if env.get(param).is_none()
                && !self.is_pack_param(param)
                && let Some(equal) = self.equated_to(owner, ty)
            {
                env.map.push((param, GenericArg::Type(equal)));
            }
        }
        for &(subject, bound) in &constraints.conforms {
            let is_open = |p: &DeclId| params.contains(p) && env.get(*p).is_none();
            let unknown = matches!(&self.types[subject], TyKind::Param(p) if is_open(p));
            let subject = self.substitute(subject, env);
            let TyKind::Interface(decl, args) = self.types[bound].clone() else { continue };
            if args.is_empty() || unknown {
                continue;
            }
            let mut offered = self.interfaces_of(subject);
            let is_offered = offered.iter().any(|&i| self.interface_decl(i) == Some(decl));
            if !is_offered && self.queries.conformances.begin(&(subject, bound)) {
                // Also consider extensions of all types that conform to an interface.
                offered.extend(self.blanket_interfaces(subject, decl));
                self.queries.conformances.end(&(subject, bound));
            }
            for interface in offered {
                let mut trial = env.clone();
                if self.interface_decl(interface) == Some(decl)
                    && self.unify(bound, interface, params, &mut trial)
                {
                    *env = trial;
                    break;
                }
            }
        }
    }
}
