//! Infers the generic arguments of a call from the types of its arguments.
//!
//! Each argument is matched with the type of its parameter, which yields facts about the generic parameters
//! mentioned in that type. An exact match decides; where the types may still be converted, all types found
//! for a generic parameter are joined. Then come the constraints (`where T == U.V`), the defaults, and the
//! empty pack. The constraints are proved last, for all arguments together, so that no step here has to prove
//! one individually.

use syntax::DeclId;
use syntax::ast::{DeclKind, ExprKind};

use crate::exprs::infer::Checker;
use crate::exprs::mismatch::Failure;
use crate::exprs::overload::Argument;
use crate::names::lookup::Candidate;
use crate::program::Program;
use crate::signature::{Signature, Subst};
use crate::types::builtin::{ALL_SCALARS, BOOL, FLOATS, SIGNED, USER};
use crate::types::{Comparison, GenericArg, Ty, TyKind, Val};

impl Checker<'_> {
    /// Infers the arguments of a candidate's generics.
    pub(crate) fn infer_generics(
        &mut self,
        candidate: &Candidate,
        pattern: &Signature,
        args: &[Argument],
    ) -> Result<Subst, Failure> {
        let (mut env, open) = self.explicit_arguments(candidate).ok_or(Failure::Generics)?;
        if !self.p.is_generic(candidate.decl) {
            return Ok(env);
        }
        let is_value = |p: &DeclId| matches!(self.p.ast.decls[*p].kind, DeclKind::ValueParam { .. });
        let own = self.p.own_params(candidate.decl);
        if own.iter().any(|p| env.get(*p).is_some_and(|arg| is_value(p) != matches!(arg, GenericArg::Val(_))))
        {
            return Err(Failure::Generics);
        }
        if !open.is_empty() {
            let mut found = Found::default();
            for (param, arg) in pattern.params.iter().zip(args) {
                let Some(from) = arg.ty else { continue };
                if from == Ty::ERROR {
                    continue;
                }
                let to = if env.is_empty() { param.ty } else { self.p.substitute(param.ty, &env) };
                self.collect(to, from, &open, &mut found);
            }
            for &param in &open {
                if !self.p.is_value_param(param)
                    && let Some(ty) = self.solve(param, &found)
                {
                    env.map.push((param, GenericArg::Type(ty)));
                }
            }
            self.p.infer_from_constraints(candidate.decl, &open, &mut env);
            for &param in &open {
                if env.get(param).is_some() {
                    continue;
                }
                let arg = if self.p.is_value_param(param) {
                    let val =
                        found.vals.iter().chain(&found.weak_vals).find(|v| v.0 == param).map(|v| v.1.clone());
                    val.map(GenericArg::Val)
                } else {
                    self.solve(param, &found).map(GenericArg::Type)
                };
                match arg.or_else(|| self.default_arg(param, &env)).or_else(|| self.p.empty_pack(param)) {
                    Some(arg) => env.map.push((param, arg)),
                    None => {
                        let mut types =
                            found.types.iter().filter(|found| found.0 == param).map(|found| found.1);
                        let one = types.next();
                        let other = one.and_then(|one| types.find(|&other| other != one));
                        return Err(match (one, other) {
                            (Some(one), Some(other)) => Failure::Conflict { one, other },
                            _ => Failure::NotInferred { param },
                        });
                    }
                }
            }
        }
        if let Some((subject, bound)) = self.p.unsatisfied(candidate.decl, &env) {
            return Err(Failure::Constraint { subject, bound });
        }
        self.expect_equated(candidate.decl, pattern, args, &open)?;
        Ok(env)
    }

    /// Checks the arguments for parameters that are declared with a generic parameter which a constraint makes equal to
    /// a type: they determine the generic parameter, so they are of that type rather than converted to it.
    fn expect_equated(
        &mut self,
        decl: DeclId,
        pattern: &Signature,
        args: &[Argument],
        open: &[DeclId],
    ) -> Result<(), Failure> {
        let DeclKind::Func { params, .. } = &self.p.ast.decls[decl].kind else { return Ok(()) };
        for ((param, sig), arg) in params.clone().into_iter().zip(&pattern.params).zip(args) {
            let DeclKind::Param { ty: Some(written), .. } = self.p.ast.decls[param].kind else { continue };
            let ExprKind::Name(name) = self.p.ast.exprs[written].kind else { continue };
            let Some(&generic) = open.iter().find(|&&p| self.p.ast.decls[p].name == name) else { continue };
            let bound = self.p.param_type(generic);
            if let Some(subject) = arg.ty
                && bound == sig.ty
                && !matches!(self.p.types[bound], TyKind::Param(_))
                && ![bound, Ty::ERROR].contains(&subject)
            {
                return Err(Failure::Constraint { subject, bound });
            }
        }
        Ok(())
    }

    /// The candidate for explicit arguments that name a type by its elements, as in `sin<float>(float3(1))` and `sin<float,
    /// 3>(v)`: functions of the library that work on each element have one generic parameter for scalars and shapes.
    pub(crate) fn of_elements(
        &mut self,
        candidate: &Candidate,
        pattern: &Signature,
        args: &[Argument],
    ) -> Option<Candidate> {
        let (GenericArg::Type(element), lengths) = candidate.explicit.split_first()? else { return None };
        let param = *self.p.own_params(candidate.decl).first()?;
        if !self.p.is_elementwise(candidate.decl) || self.p.kinds_of(*element) & !ALL_SCALARS != 0 {
            return None;
        }
        let whole = match lengths {
            [GenericArg::Val(n)] => {
                self.p.types.intern(TyKind::Vector(*element, n.clone(), Comparison::Each))
            }
            [GenericArg::Val(rows), GenericArg::Val(columns)] => {
                self.p.types.matrix(*element, rows.clone(), columns.clone())
            }
            [] => {
                let bare = self.p.types.intern(TyKind::Param(param));
                let mut shapes = pattern.params.iter().zip(args).filter(|(sig, _)| sig.ty == bare);
                let is_shape =
                    |p: &Program, ty| matches!(p.types[ty], TyKind::Vector(..) | TyKind::Matrix(..));
                let shape = shapes.find_map(|(_, arg)| arg.ty.filter(|&ty| is_shape(self.p, ty)))?;
                self.p.with_element(shape, *element)
            }
            _ => return None,
        };
        Some(Candidate { explicit: vec![GenericArg::Type(whole)], ..candidate.clone() })
    }

    /// The substitution of a candidate's explicit generic arguments, and its generic parameters without one.
    pub(crate) fn explicit_arguments(&mut self, candidate: &Candidate) -> Option<(Subst, Vec<DeclId>)> {
        let mut env = (*candidate.env).clone();
        env.this = candidate.self_ty.or(env.this);
        let own = self.p.own_params(candidate.decl);
        let mut open = Vec::new();
        for (&param, arg) in own.iter().zip(self.p.assign_generics(&own, &candidate.explicit)?) {
            match arg {
                Some(arg) => env.map.push((param, arg)),
                None => open.push(param),
            }
        }
        Some((env, open))
    }

    /// The common type of the arguments for one parameter; an integer becomes `float` if only floats are
    /// allowed.
    fn solve(&mut self, param: DeclId, found: &Found) -> Option<Ty> {
        let mut exact = found.types.iter().filter(|t| t.0 == param && t.2).map(|t| t.1);
        let mut ty = exact.next();
        if ty.is_none() {
            for &(_, from, _) in found.types.iter().filter(|t| t.0 == param) {
                ty = match ty {
                    None => Some(from),
                    Some(ty) => Some(self.p.join(ty, from)?),
                };
            }
        }
        let ty = ty?;
        let as_param = self.p.types.intern(TyKind::Param(param));
        if let TyKind::Pack(parts) = self.p.types[ty].clone() {
            let parts = parts.into_iter().map(|part| self.fitted(as_param, part)).collect();
            return Some(self.p.pack_of(parts));
        }
        Some(self.fitted(as_param, ty))
    }

    /// Adjusts a type to a parameter: an integer becomes `float` if only floats are allowed.
    fn fitted(&mut self, as_param: Ty, ty: Ty) -> Ty {
        let kinds = self.p.kinds_of(as_param);
        let is_bounded = !self.p.interfaces_of(as_param).is_empty();
        if is_bounded && kinds & FLOATS != 0 && kinds & !(FLOATS | USER) == 0 {
            let element = self.p.element(ty);
            let is_exact = matches!(self.p.types[element], TyKind::Scalar(scalar) if !scalar.is_float() && !scalar.is_stored());
            return if is_exact { self.p.with_element(ty, Ty::FLOAT) } else { ty };
        }
        if ty == Ty::BOOL && kinds & (BOOL | SIGNED) == SIGNED { Ty::INT } else { ty }
    }

    /// Collects what the elements of a pack determine of the parameters in an expansion's pattern.
    fn collect_elements(
        &mut self,
        pattern: Ty,
        shape: &GenericArg,
        pack: Ty,
        open: &[DeclId],
        found: &mut Found,
    ) {
        let parts = self.p.elements(pack);
        let mut env = Subst::default();
        // Match element by element if that is exact; otherwise combine what the elements determine.
        if self.p.unify_expand(pattern, shape, pack, open, &mut env) {
            found.add(env);
            return;
        }
        let mut lists: Vec<(DeclId, Vec<Ty>)> = Vec::new();
        for part in parts {
            let mut inner = Found::default();
            self.collect(pattern, part, open, &mut inner);
            for &param in open {
                if !self.p.is_pack_param(param) {
                    continue;
                }
                let own: Vec<Ty> = inner.types.iter().filter(|t| t.0 == param).map(|t| t.1).collect();
                let Some(&first) = own.first() else { continue };
                let ty = own.iter().skip(1).fold(first, |a, &b| self.p.join(a, b).unwrap_or(a));
                match lists.iter_mut().find(|l| l.0 == param) {
                    Some(list) => list.1.push(ty),
                    None => lists.push((param, vec![ty])),
                }
            }
            found.types.extend(inner.types.into_iter().filter(|t| !self.p.is_pack_param(t.0)));
            found.vals.extend(inner.vals.into_iter().filter(|t| !self.p.is_pack_param(t.0)));
        }
        for (param, list) in lists {
            let ty = self.p.pack_of(list);
            found.types.push((param, ty, false));
        }
    }

    /// Collects what an argument determines of the generic parameters in its parameter's type.
    fn collect(&mut self, pattern: Ty, from: Ty, open: &[DeclId], found: &mut Found) {
        match (self.p.types[pattern].clone(), self.p.types[from].clone()) {
            (TyKind::Each(pack), _) if matches!(self.p.types[pack], TyKind::Param(p) if open.contains(&p)) => {
                if let TyKind::Param(param) = self.p.types[pack] {
                    found.types.push((param, from, false));
                }
            }
            (TyKind::Expand(pattern, shape), _) if self.p.is_pack(from) => {
                self.collect_elements(pattern, &shape, from, open, found);
            }
            (TyKind::Param(param), _) if open.contains(&param) => {
                if self.p.is_pack_param(param) != self.p.is_pack(from) {
                    return;
                }
                let from = self.p.loaded(from);
                found.types.push((param, from, false));
            }
            // What a constant buffer holds is used as if it stood there.
            (ref pattern_kind, TyKind::Buffer(..))
                if self.p.types_deref(from) && !matches!(pattern_kind, TyKind::Buffer(..)) =>
            {
                let content = self.p.loaded(from);
                self.collect(pattern, content, open, found);
            }
            (TyKind::Vector(element, n, _), TyKind::Scalar(_)) => {
                self.collect(element, from, open, found);
                // A scalar counts as a vector of one component, unless another argument determines more.
                if let Val::Param(param) = n
                    && open.contains(&param)
                {
                    found.weak_vals.push((param, Val::Int(1)));
                }
            }
            (TyKind::Matrix(element, ..), TyKind::Scalar(_)) => self.collect(element, from, open, found),
            (a @ TyKind::Vector(..), b @ TyKind::Vector(..))
            | (a @ TyKind::Matrix(..), b @ TyKind::Matrix(..)) => {
                for part in a.parts().into_iter().zip(b.parts()) {
                    match part {
                        (GenericArg::Type(pattern), GenericArg::Type(from)) => {
                            self.collect(pattern, from, open, found);
                        }
                        (GenericArg::Val(Val::Param(param)), GenericArg::Val(from))
                            if open.contains(&param) =>
                        {
                            found.vals.push((param, from));
                        }
                        _ => {}
                    }
                }
            }
            // If the pointer may not be used so, its conversion tells.
            (TyKind::Pointer(pattern, access, space), TyKind::Pointer(from, own_access, own_space)) => {
                let mut env = Subst::default();
                if self.p.unify(pattern, from, open, &mut env) {
                    found.add(env);
                }
                for (pattern, own) in [(access, own_access), (space, own_space)] {
                    if let Val::Param(param) = pattern
                        && open.contains(&param)
                    {
                        found.vals.push((param, own));
                    }
                }
            }
            (TyKind::Optional(_), TyKind::NoneLiteral) => {}
            (TyKind::Optional(inner), TyKind::Optional(from)) => self.collect(inner, from, open, found),
            (TyKind::Optional(inner), _) => self.collect(inner, from, open, found),
            _ => {
                // All other types have to match exactly.
                let mut env = Subst::default();
                if self.p.unify(pattern, from, open, &mut env) {
                    found.add(env);
                } else if let TyKind::Interface(decl, args) = self.p.types[pattern].clone() {
                    for interface in self.p.interfaces_of(from) {
                        let mut env = Subst::default();
                        if self.p.interface_decl(interface) == Some(decl)
                            && !args.is_empty()
                            && self.p.unify(pattern, interface, open, &mut env)
                        {
                            found.add(env);
                        }
                    }
                }
            }
        }
    }
}

/// The generic arguments that are determined by a call's arguments.
#[derive(Debug, Default)]
struct Found {
    /// Parameter, type, and true if the type has to match exactly.
    types: Vec<(DeclId, Ty, bool)>,
    vals: Vec<(DeclId, Val)>,
    weak_vals: Vec<(DeclId, Val)>,
}

impl Found {
    /// Adds the arguments found by an exact match.
    fn add(&mut self, env: Subst) {
        for (param, arg) in env.map {
            match arg {
                GenericArg::Type(ty) => self.types.push((param, ty, true)),
                GenericArg::Val(val) => self.vals.push((param, val)),
            }
        }
    }
}
