//! Resolves names: scopes from the inside out, and members of types.

use std::rc::Rc;

use smallvec::SmallVec;
use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, ExprId, Symbol, keywords as kw};

use crate::exprs::infer::Checker;
use crate::facts::{Facet, FacetKind};
use crate::program::Program;
use crate::signature::{Accessors, Subst};
use crate::tables::{DiffOp, ExprInfo, FuncRef, Meaning};
use crate::types::builtin::NativeGeneric;
use crate::types::{GenericArg, Ty, TyKind, Val};

/// A function that a name may refer to.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) decl: DeclId,
    /// Arguments of the enclosing declarations, and `This`.
    pub(crate) env: Rc<Subst>,
    /// For members, the type that the function is a member of.
    pub(crate) self_ty: Option<Ty>,
    /// The explicit generic arguments.
    pub(crate) explicit: Vec<GenericArg>,
    /// The distance from the reference: by scopes, and within a type by [`Facet::rank`].
    pub(crate) rank: u32,
    /// The function is a requirement of an interface.
    pub(crate) required: bool,
    /// The derivative operators applied to it, outermost first.
    pub(crate) ops: Vec<DiffOp>,
    /// The object of a method within operators, which is held fixed.
    pub(crate) object: Option<ExprId>,
}

/// The rank of one scope, which exceeds the ranks within a type.
const SCOPE: u32 = 1 << 10;

impl Candidate {
    /// The candidate for a member of a type.
    pub(crate) fn member(decl: DeclId, facet: &Facet) -> Candidate {
        let required = facet.kind == FacetKind::Interface;
        Candidate { required, ..Candidate::new(decl, facet.env.clone(), Some(facet.self_ty), facet.rank) }
    }

    fn new(decl: DeclId, env: Rc<Subst>, self_ty: Option<Ty>, rank: u32) -> Candidate {
        let (explicit, ops) = (Vec::new(), Vec::new());
        Candidate { decl, env, self_ty, explicit, rank, required: false, ops, object: None }
    }
}

/// The referent of a name or of a path of names.
#[derive(Clone, Debug)]
pub(crate) enum Ref {
    Error,
    NotFound,
    Type(Ty),
    Native(NativeGeneric),
    /// A generic type without its arguments.
    Generic(DeclId, Rc<Subst>),
    Namespace(DeclId),
    /// Functions, and the receiver if they are named as `a.f`.
    Funcs(Vec<Candidate>, Option<ExprId>),
    Value(ExprInfo),
}

/// The way in which a member is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Value(ExprId, bool),
    Type,
    /// By its bare name, inside the type.
    Implicit,
}

impl Checker<'_> {
    /// Resolves a bare name in the current scope.
    pub(crate) fn lookup(&mut self, name: Symbol) -> Ref {
        if let Some(decl) = self.locals.find(name) {
            return self.ref_of(&[decl], &Rc::default(), 0);
        }
        if let Some(found) = self.captured(name) {
            return found;
        }
        let mut funcs: Vec<Candidate> = Vec::new();
        let mut rank = 0;
        let mut at = Some(self.scope);
        while let Some(decl) = at {
            if let Some(generics) = &self.p.ast.decls[decl].generics
                && let Some(&param) = generics.params.iter().find(|&&p| self.p.ast.decls[p].name == name)
            {
                return self.ref_of(&[param], &Rc::default(), 0);
            }
            rank += SCOPE;
            match self.p.ast.decls[decl].kind {
                _ if self.outside_of == Some(decl) => {}
                DeclKind::Struct { .. }
                | DeclKind::Interface { .. }
                | DeclKind::Extension { .. }
                | DeclKind::Enum { .. } => {
                    let found = self.lookup_in_container(decl, name);
                    match self.through_captured_this(decl, found) {
                        Ref::NotFound => {}
                        // These are methods of the captured `this`.
                        Ref::Funcs(found, Some(this)) => return Ref::Funcs(found, Some(this)),
                        Ref::Funcs(mut found, None) => {
                            found.iter_mut().for_each(|c| c.rank += rank);
                            funcs.extend(found);
                        }
                        other if funcs.is_empty() => return other,
                        _ => break,
                    }
                    if let Some(locals) = self.p.scopes.local_scopes.get(&decl).cloned()
                        && let Some(&(_, local)) = locals.iter().rev().find(|l| l.0 == name)
                        && funcs.is_empty()
                    {
                        return self.ref_of(&[local], &Rc::default(), 0);
                    }
                }
                DeclKind::Namespace { .. } => {
                    let found = self.p.named_in_namespace(decl, name, self.module);
                    if let Some(result) = self.merge(&found, rank, &mut funcs) {
                        return result;
                    }
                }
                _ => {}
            }
            at = self.p.ast.decls[decl].parent;
        }
        self.lookup_outside(name, rank, funcs)
    }

    /// Resolves a name outside of all scopes, after the functions of that name found in scopes.
    pub(crate) fn lookup_outside(&mut self, name: Symbol, rank: u32, mut funcs: Vec<Candidate>) -> Ref {
        let mut found = SmallVec::from_slice(self.p.modules.named(self.module, name));
        if let Some(result) = self.merge(&found, rank + SCOPE, &mut funcs) {
            return result;
        }
        found.clear();
        self.lookup_using(name, &mut found);
        // Of what opened namespaces declare, that of outer ones is nearer.
        let mut opened: Vec<(u32, DeclId)> =
            found.drain(..).map(|decl| (self.p.ast.enclosing(decl).count() as u32, decl)).collect();
        opened.sort_by_key(|&(depth, _)| depth);
        for level in opened.chunk_by(|a, b| a.0 == b.0) {
            let decls: SmallVec<[DeclId; 4]> = level.iter().map(|&(_, decl)| decl).collect();
            if let Some(result) = self.merge(&decls, rank + 2 * SCOPE + level[0].0, &mut funcs) {
                return result;
            }
        }
        for (module, _) in self.p.modules.seen_from(self.module).into_iter().skip(1) {
            add(self.p.modules.named(module, name), &mut found);
        }
        found.retain(|decl| !opened.iter().any(|opened| opened.1 == *decl));
        if let Some(result) = self.merge(&found, rank + 2 * SCOPE, &mut funcs) {
            return result;
        }
        if self.module != 0 {
            let found: SmallVec<[DeclId; 4]> = SmallVec::from_slice(self.p.modules.named(0, name));
            if let Some(result) = self.merge(&found, rank + 3 * SCOPE, &mut funcs) {
                return result;
            }
        }
        if !funcs.is_empty() {
            return Ref::Funcs(funcs, None);
        }
        let text = self.p.ast.name(name).to_string();
        if let Some(native) = NativeGeneric::by_name(&text, name) {
            return Ref::Native(native);
        }
        self.p.native_type(&text).map_or(Ref::NotFound, Ref::Type)
    }

    /// Adds functions to those of inner scopes; anything else ends the search unless inner functions hide it.
    fn merge(&mut self, found: &[DeclId], rank: u32, funcs: &mut Vec<Candidate>) -> Option<Ref> {
        if found.is_empty() {
            return None;
        }
        match self.ref_of(found, &Rc::default(), rank) {
            Ref::Funcs(more, _) => {
                funcs.extend(more);
                None
            }
            Ref::NotFound => None,
            other if funcs.is_empty() => Some(other),
            _ => Some(Ref::Funcs(std::mem::take(funcs), None)),
        }
    }

    fn lookup_using(&mut self, name: Symbol, found: &mut SmallVec<[DeclId; 4]>) {
        let mut using = self.p.modules.all[self.module].using.clone();
        using.extend_from_slice(&self.using);
        for decl in using {
            let DeclKind::Using(expr) = self.p.ast.decls[decl].kind else { continue };
            // The path of a `using` is looked up without the namespaces that other `using`s open.
            let ExprKind::Name(first) = self.p.ast.exprs[expr].kind else {
                // Nor does it see the names that it opens itself.
                if std::mem::replace(&mut self.in_using, true) {
                    continue;
                }
                if let Ref::Namespace(namespace) = self.resolve(expr) {
                    add(&self.p.named_in_namespace(namespace, name, self.module), found);
                }
                self.in_using = false;
                continue;
            };
            if first == name {
                continue;
            }
            let mut declared = self.p.declared_anywhere(first);
            declared.retain(|&d| matches!(self.p.ast.decls[d].kind, DeclKind::Namespace { .. }));
            if let Some(&namespace) = declared.first() {
                add(&self.p.named_in_namespace(namespace, name, self.module), found);
            }
        }
    }

    fn lookup_in_container(&mut self, container: DeclId, name: Symbol) -> Ref {
        // While the extension's own target is being resolved, there is no type to search.
        let ty = self.p.self_type(container);
        if ty == Ty::ERROR {
            return Ref::NotFound;
        }
        self.declared_member(ty, name, Base::Implicit)
    }

    /// Resolves the declarations of one name in one scope. `env` has the arguments of the enclosing
    /// declarations.
    pub(crate) fn ref_of(&mut self, decls: &[DeclId], env: &Rc<Subst>, rank: u32) -> Ref {
        let mut funcs = Vec::new();
        // What this module may not name is found only where there is nothing else.
        let is_seen =
            |p: &Program, d: DeclId| p.is_core(d) || p.module_of(d) == self.module || p.is_visible_outside(d);
        let (seen, hidden) = match decls.len() {
            0 | 1 => (decls.to_vec(), Vec::new()),
            _ => decls.iter().copied().partition::<Vec<_>, _>(|&d| is_seen(self.p, d)),
        };
        for decl in seen.into_iter().chain(hidden) {
            let decl = self.p.linked(decl);
            match self.p.ast.decls[decl].kind {
                DeclKind::Func { .. } => {
                    for decl in std::iter::once(decl).chain(self.p.linked_functions(decl)) {
                        if !funcs.iter().any(|known: &Candidate| known.decl == decl) {
                            funcs.push(Candidate::new(decl, env.clone(), None, rank));
                        }
                    }
                }
                // In `typedef S S;`, the second `S` names the outer one.
                DeclKind::TypeAlias(_) if decl == self.scope => {}
                DeclKind::Struct { .. } | DeclKind::Interface { .. } | DeclKind::TypeAlias(_) => {
                    if self.p.ast.decls[decl].generics.is_some() {
                        return Ref::Generic(decl, env.clone());
                    }
                    let ty = self.p.decl_type(decl);
                    return Ref::Type(self.p.substitute(ty, env));
                }
                DeclKind::Enum { .. } => return Ref::Type(self.p.self_type(decl)),
                DeclKind::TypeParam { .. } => return Ref::Type(self.p.param_type(decl)),
                DeclKind::ValueParam { .. } => {
                    let mut ty = self.p.decl_type(decl);
                    if self.p.is_pack_param(decl) {
                        ty = self.p.expand_of(ty, &GenericArg::Val(Val::Param(decl)));
                    }
                    let meaning = Meaning::Value(Val::Param(decl));
                    return Ref::Value(ExprInfo::value(ty, meaning));
                }
                DeclKind::Namespace { .. } => return Ref::Namespace(decl),
                DeclKind::Var { .. } | DeclKind::Param { .. } => {
                    let Some(block) = self.p.block_of(decl) else { return Ref::Value(self.variable(decl)) };
                    let (name, span) = (self.p.ast.decls[decl].name, self.p.ast.decls[decl].name_span);
                    let base = self.p.add_expr(ExprKind::Name(block), span);
                    self.infer(base, None);
                    return self.value_member(base, name);
                }
                DeclKind::EnumCase(_) => {
                    let ty = self.p.decl_type(decl);
                    return Ref::Value(ExprInfo::value(ty, Meaning::EnumCase(decl)));
                }
                DeclKind::Property { .. } if self.p.container_of(decl).is_none() => {
                    let member = FuncRef { decl, args: Vec::new(), self_ty: None };
                    let ty = self.p.decl_type(decl);
                    let accessors = self.p.declared_accessors(&member);
                    let lvalue = self.is_written_through(accessors, true);
                    let meaning = Meaning::Property { base: None, member, args: Vec::new() };
                    return Ref::Value(ExprInfo::new(ty, meaning, lvalue));
                }
                _ => {}
            }
        }
        if funcs.is_empty() { Ref::NotFound } else { Ref::Funcs(funcs, None) }
    }

    /// The expression info of a variable.
    fn variable(&mut self, decl: DeclId) -> ExprInfo {
        let ty = self.p.decl_type(decl);
        let d = &self.p.ast.decls[decl];
        let modifiers = d.modifiers;
        let fixed = Modifiers::CONST.0 | Modifiers::LET.0;
        let lvalue = match d.kind {
            DeclKind::Param { .. } if modifiers.has(Modifiers(fixed | Modifiers::CONSTREF.0)) => false,
            DeclKind::Param { ty, .. } => ty.is_none_or(|ty| !self.p.is_read_ref(ty)),
            _ => {
                let is_local = d.parent.is_some_and(|p| {
                    !matches!(self.p.ast.decls[p].kind, DeclKind::Namespace { .. } | DeclKind::CBuffer { .. })
                });
                // `out` is what a stage of a graphics pipeline gives to the next.
                let mutable = Modifiers::STATIC.0 | Modifiers::GROUPSHARED.0 | Modifiers::OUT.0;
                let mutable_global = modifiers.has(Modifiers(mutable));
                (is_local || mutable_global) && !modifiers.has(Modifiers(fixed))
            }
        };
        ExprInfo::new(ty, Meaning::Var(decl), lvalue)
    }

    /// Finds a member that is declared, as opposed to swizzles and the like.
    pub(crate) fn declared_member(&mut self, ty: Ty, name: Symbol, base: Base) -> Ref {
        let facets = self.p.facets(ty);
        let mut funcs = Vec::new();
        let mut has_concrete = false;
        for facet in facets.iter() {
            if facet.kind == FacetKind::Interface && has_concrete {
                continue;
            }
            let decls = self.p.named(facet.container, name);
            let before = funcs.len();
            if let Some(result) = self.member_of_facet(facet, &decls, base, &mut funcs) {
                if funcs.is_empty() {
                    return result;
                }
                break;
            }
            has_concrete |= funcs.len() > before && facet.kind != FacetKind::Interface;
        }
        let nearer = funcs.len();
        let is_known = ty != Ty::ERROR;
        for facet in if is_known { self.p.blanket_facets_with(ty, name) } else { Vec::new() } {
            let decls = self.p.named(facet.container, name);
            match self.member_of_facet(&facet, &decls, base, &mut funcs) {
                Some(result) if nearer == 0 => return result,
                Some(_) => break,
                None => {}
            }
        }
        // The type's own functions and the requirements of its interfaces take precedence where both fit.
        for extra in funcs[nearer..].iter_mut().filter(|_| nearer > 0) {
            extra.rank += 1;
            // If the type has a function of its own, that function fulfils the requirement.
            extra.required = true;
        }
        let (receiver, _) = self.receiver(base);
        if funcs.is_empty() { Ref::NotFound } else { Ref::Funcs(funcs, receiver) }
    }

    /// The receiver of a member, and true if it is a place.
    fn receiver(&self, base: Base) -> (Option<ExprId>, bool) {
        match base {
            Base::Value(expr, place) => (Some(expr), place),
            Base::Type => (None, false),
            Base::Implicit => (None, self.this.is_some_and(|t| t.1)),
        }
    }

    fn member_of_facet(
        &mut self,
        facet: &Facet,
        decls: &[DeclId],
        base: Base,
        funcs: &mut Vec<Candidate>,
    ) -> Option<Ref> {
        for &decl in decls {
            match self.p.ast.decls[decl].kind {
                DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Subscript { .. } => {
                    funcs.push(Candidate::member(decl, facet));
                }
                DeclKind::AssociatedType { .. } => {
                    return Some(Ref::Type(self.p.project(facet.self_ty, decl)));
                }
                DeclKind::Property { .. } => {
                    let func = self.p.member_ref(decl, facet);
                    let declared = self.p.decl_type(decl);
                    let ty = self.p.substitute(declared, &self.p.subst_of(&func));
                    let accessors = self.p.accessors(&func);
                    // A property of a type is a place by itself.
                    let (receiver, place) = self.receiver(base);
                    let place = place || base == Base::Type;
                    let lvalue = self.is_written_through(accessors, place);
                    let meaning = Meaning::Property { base: receiver, member: func, args: Vec::new() };
                    return Some(Ref::Value(ExprInfo::new(ty, meaning, lvalue)));
                }
                // Skip a field whose type is being resolved: `geometry::Mesh geometry;`.
                DeclKind::Var { .. }
                    if base == Base::Implicit && self.p.queries.decl_types.is_open(&decl) => {}
                DeclKind::Var { .. } => {
                    let declared = self.p.decl_type(decl);
                    let ty = self.p.substitute(declared, &facet.env);
                    let modifiers = self.p.ast.decls[decl].modifiers;
                    let constant = modifiers.has(Modifiers::CONST);
                    if modifiers.has(Modifiers::STATIC) {
                        let meaning = match facet.env.map.is_empty() && facet.kind != FacetKind::Interface {
                            true => Meaning::Var(decl),
                            false => Meaning::StaticMember(self.p.member_ref(decl, facet)),
                        };
                        return Some(Ref::Value(ExprInfo::new(ty, meaning, !constant)));
                    }
                    let (receiver, place) = self.receiver(base);
                    let meaning = Meaning::Field { base: receiver, field: decl };
                    let constant = constant || self.p.attribute(decl, "readonly").is_some();
                    return Some(Ref::Value(ExprInfo::new(ty, meaning, place && !constant)));
                }
                _ => match self.ref_of(&[decl], &facet.env, 0) {
                    Ref::NotFound => {}
                    found => return Some(found),
                },
            }
        }
        None
    }

    /// Returns true if what accessors give can be assigned to, for an object that is a place or not.
    pub(crate) fn is_written_through(&mut self, accessors: Accessors, place: bool) -> bool {
        let writer = accessors.by_ref.or(accessors.set);
        writer.is_some_and(|writer| place || !self.p.raw_signature(writer.decl).is_mutating())
    }

    /// Resolves a member of a value, of any kind.
    pub(crate) fn value_member(&mut self, base: ExprId, name: Symbol) -> Ref {
        let info = &self.p.tables.exprs[base];
        self.member_of(View { base, ty: info.ty, lvalue: info.lvalue }, name)
    }

    /// Resolves a member of what a view shows.
    fn member_of(&mut self, view: View, name: Symbol) -> Ref {
        let View { base, ty, lvalue } = view;
        let ty = self.p.types.bare(ty);
        if ty == Ty::ERROR {
            return Ref::Error;
        }
        let text = self.p.ast.name(name).to_string();
        let part = |ty, meaning, lvalue| Ref::Value(ExprInfo::new(ty, meaning, lvalue));
        let value = |ty, meaning| part(ty, meaning, false);
        match self.p.types[ty].clone() {
            TyKind::Vector(element, n, _) => {
                if let Some(comps) = swizzle(&text) {
                    if let Val::Int(n) = n
                        && comps.iter().any(|&c| i64::from(c) >= n)
                    {
                        return Ref::NotFound;
                    }
                    return self.swizzled(base, element, comps, lvalue);
                }
            }
            TyKind::Scalar(_) => {
                if let Some(comps) = swizzle(&text)
                    && comps.iter().all(|&c| c == 0)
                {
                    return self.swizzled(base, ty, comps, lvalue);
                }
            }
            TyKind::Matrix(element, Val::Int(1), Val::Int(columns), _) if matches!(&text[..], "x" | "r") => {
                // The only row: what is declared as a vector of one vector.
                let comps = (0..columns.clamp(0, 4) as u8).map(|column| (0, column)).collect();
                let row = self.p.types.components(element, columns.max(1) as usize);
                return part(row, Meaning::MatrixSwizzle { base, comps }, lvalue);
            }
            TyKind::Matrix(element, r, c, _) => {
                if let Some(comps) = matrix_swizzle(&text) {
                    let bad = |val: &Val, at: u8| matches!(val, Val::Int(n) if i64::from(at) >= *n);
                    if comps.iter().any(|&(i, j)| bad(&r, i) || bad(&c, j)) {
                        return Ref::NotFound;
                    }
                    let ty = self.p.types.components(element, comps.len());
                    let lvalue = lvalue && are_distinct(&comps);
                    return part(ty, Meaning::MatrixSwizzle { base, comps }, lvalue);
                }
            }
            TyKind::DiffPair(primal) | TyKind::DiffPtrPair(primal) => match text.as_str() {
                "p" | "v" => return value(primal, Meaning::PairField { base, primal: true }),
                "d" => {
                    let differential = self.p.halves(ty).map_or(primal, |halves| halves.1);
                    let is_place =
                        matches!(self.p.types[ty], TyKind::DiffPair(_)) && self.is_written_pair(base);
                    return part(differential, Meaning::PairField { base, primal: false }, is_place);
                }
                _ => {}
            },
            TyKind::SynthDiff(_) => {
                for (field, ty, _) in self.p.fields(ty) {
                    if self.p.ast.decls[field].name == name {
                        return part(ty, Meaning::DiffField { base, field }, lvalue);
                    }
                }
            }
            TyKind::Tuple(parts) => {
                let comps: Option<Vec<u32>> =
                    text.strip_prefix('_').and_then(|t| t.split('_').map(|k| k.parse().ok()).collect());
                if let Some(comps) = comps {
                    // Indices after a pack that is not known yet cannot be determined.
                    let n = parts.iter().position(|&p| self.p.is_pack(p)).unwrap_or(parts.len());
                    if comps.iter().any(|&k| k as usize >= n) {
                        return Ref::NotFound;
                    }
                    let own: Vec<Ty> = comps.iter().map(|&k| parts[k as usize]).collect();
                    if let (&[idx], &[ty]) = (&comps[..], &own[..]) {
                        return part(ty, Meaning::TupleField { base, idx }, lvalue);
                    }
                    let ty = self.p.tuple_of(own);
                    let lvalue = lvalue && are_distinct(&comps);
                    return part(ty, Meaning::TupleSwizzle { base, comps }, lvalue);
                }
            }
            TyKind::Optional(inner) => match text.as_str() {
                "value" => return part(inner, Meaning::TupleField { base, idx: 0 }, lvalue),
                "hasValue" => return value(Ty::BOOL, Meaning::TupleField { base, idx: 1 }),
                _ => {}
            },
            TyKind::Buffer(_, content) if self.p.types_deref(ty) => {
                let content = self.p.types.bare(content);
                self.p.tables.exprs[base].coerce = Some(content);
                return self.member_of(View { base, ty: content, lvalue: false }, name);
            }
            TyKind::Struct(..) if let Some(target) = self.p.handle_target(ty) => {
                let own = self.declared_member(ty, name, Base::Value(base, lvalue));
                if !matches!(own, Ref::NotFound | Ref::Error) {
                    return own;
                }
                self.p.tables.exprs[base].coerce = Some(target);
                return self.member_of(View { base, ty: target, lvalue: true }, name);
            }
            TyKind::Pointer(content, ..) => {
                // Prefer a member from an extension of the pointer type itself.
                let own = self.declared_member(ty, name, Base::Value(base, lvalue));
                if !matches!(own, Ref::NotFound | Ref::Error) {
                    return own;
                }
                let content = self.p.types.bare(content);
                self.p.tables.exprs[base].coerce = Some(content);
                let lvalue = self.p.is_writing_pointer(ty);
                return self.member_of(View { base, ty: content, lvalue }, name);
            }
            _ => {}
        }
        self.declared_member(ty, name, Base::Value(base, lvalue))
    }

    fn swizzled(&mut self, base: ExprId, element: Ty, comps: SmallVec<[u8; 4]>, lvalue: bool) -> Ref {
        let ty = self.p.types.components(element, comps.len());
        let lvalue = lvalue && are_distinct(&comps);
        Ref::Value(ExprInfo::new(ty, Meaning::Swizzle { base, comps }, lvalue))
    }

    /// Resolves a member of a type.
    pub(crate) fn static_member(&mut self, ty: Ty, name: Symbol) -> Ref {
        if ty == Ty::ERROR {
            return Ref::Error;
        }
        if name == kw::HANDLE
            && self.p.is_resource(ty)
            && let Some(handle) = self.p.handle_of(ty)
        {
            return Ref::Type(handle);
        }
        self.declared_member(ty, name, Base::Type)
    }
}

/// An expression's value, viewed as a type.
struct View {
    base: ExprId,
    ty: Ty,
    lvalue: bool,
}

/// Adds declarations that are not there yet.
fn add(more: &[DeclId], found: &mut SmallVec<[DeclId; 4]>) {
    for decl in more {
        if !found.contains(decl) {
            found.push(*decl);
        }
    }
}

fn are_distinct<T: PartialEq>(comps: &[T]) -> bool {
    (0..comps.len()).all(|i| !comps[..i].contains(&comps[i]))
}

fn swizzle(text: &str) -> Option<SmallVec<[u8; 4]>> {
    if text.is_empty() || text.len() > 4 {
        return None;
    }
    let find = |set: &str| -> Option<SmallVec<[u8; 4]>> {
        text.chars().map(|c| set.find(c).map(|i| i as u8)).collect()
    };
    find("xyzw").or_else(|| find("rgba"))
}

fn matrix_swizzle(text: &str) -> Option<SmallVec<[(u8, u8); 4]>> {
    let mut comps = SmallVec::new();
    let mut rest = text.as_bytes();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (zero_based, tail) = match rest {
            [b'_', b'm', tail @ ..] => (true, tail),
            [b'_', tail @ ..] => (false, tail),
            _ => return None,
        };
        let [row, column, tail @ ..] = tail else { return None };
        let digit = |b: u8| -> Option<u8> {
            let low = if zero_based { b'0' } else { b'1' };
            (low..low + 4).contains(&b).then(|| b - low)
        };
        comps.push((digit(*row)?, digit(*column)?));
        rest = tail;
    }
    (comps.len() <= 4).then_some(comps)
}
