//! Computes signatures of functions, both as declared and through `fwd_diff` and `bwd_diff`.
//!
//! `f : (A, inout B, out C, N) → R` becomes
//! `fwd_diff(f) : (⟨A⟩, inout ⟨B⟩, out ⟨C⟩, N) → ⟨R⟩` and
//! `bwd_diff(f) : (inout ⟨A⟩, inout ⟨B⟩, C.Differential, N, R.Differential) → void`
//! where `⟨T⟩` stands for `DifferentialPair<T>` and `N` is not differentiable.

use crate::prelude::*;

impl Program {
    /// The type of a declaration (variable, field, parameter, property, …) as declared. It may mention
    /// parameters.
    pub fn decl_type(&mut self, decl: DeclId) -> Ty {
        if let Some(ty) = self.tables.decl_types[decl] {
            return ty;
        }
        if !self.queries.decl_types.begin(&decl) {
            let span = self.name_span(decl);
            let name = self.ast.decl_name(decl).to_string();
            self.error("E39999", span, format!("the type of '{name}' depends on itself"));
            self.tables.decl_types[decl] = Some(Ty::ERROR);
            return Ty::ERROR;
        }
        let ty = match self.ast.decls[decl].kind.clone() {
            DeclKind::Var { ty: Some(ty), init, .. } => {
                let declared = Checker::new(self, decl).type_expr(ty);
                let declared = self.ordered_as(decl, declared);
                if init.is_none() && self.lacks_value(decl) {
                    let name = self.ast.decl_name(decl).to_owned();
                    self.error("E31225", self.name_span(decl), format!("the constant '{name}' has no value"));
                }
                self.sized_by(declared, init)
            }
            DeclKind::Var { ty: None, init: Some(init), .. } => Checker::new(self, decl).infer(init, None),
            DeclKind::Param { ty: Some(ty), .. } => {
                let declared = Checker::new(self, decl).type_expr(ty);
                self.ordered_as(decl, declared)
            }
            DeclKind::Param { ty: None, .. } if self.is_setter_param(decl) => {
                // `newValue` has the type of the property or subscript.
                let accessor = self.ast.decls[decl].parent;
                let owner = accessor.and_then(|a| self.ast.decls[a].parent);
                owner.map_or(Ty::ERROR, |owner| self.decl_type(owner))
            }
            DeclKind::Var { ty: None, init: None, .. } | DeclKind::Param { ty: None, .. } => {
                let span = self.name_span(decl);
                self.error("E30620", span, "a type or an initial value is needed here");
                Ty::ERROR
            }
            DeclKind::Property { ty, .. } | DeclKind::Subscript { result: ty, .. } => {
                Checker::new(self, decl).type_expr(ty)
            }
            DeclKind::TypeAlias(ty) => Checker::new(self, decl).type_expr(ty),
            DeclKind::ValueParam { ty, .. } => {
                // Not looked up among the members of the parameter's owner, whose bases may be in the middle
                // of being resolved.
                let owner = self.scopes.param_owner.get(&decl).copied();
                let mut checker = Checker::new(self, decl);
                checker.outside_of = owner;
                checker.type_expr(ty)
            }
            DeclKind::Accessor { .. } | DeclKind::EnumCase(_) => {
                let parent = self.ast.decls[decl].parent;
                parent.map_or(Ty::ERROR, |parent| self.decl_type(parent))
            }
            DeclKind::TypeParam { .. } => self.types.intern(TyKind::Param(decl)),
            DeclKind::Struct { .. } | DeclKind::Enum { .. } => self.self_type(decl),
            DeclKind::Interface { .. } => {
                let args = self.identity_args(decl);
                self.types.intern(TyKind::Interface(decl, args))
            }
            DeclKind::Func { .. }
            | DeclKind::Init { .. }
            | DeclKind::Extension { .. }
            | DeclKind::AssociatedType { .. }
            | DeclKind::Namespace { .. }
            | DeclKind::CBuffer { .. }
            | DeclKind::Import { .. }
            | DeclKind::Include { .. }
            | DeclKind::Module(_)
            | DeclKind::Implementing(_)
            | DeclKind::Using(_)
            | DeclKind::Unsupported(_)
            | DeclKind::Empty => Ty::ERROR,
        };
        self.queries.decl_types.end(&decl);
        self.tables.decl_types[decl] = Some(ty);
        ty
    }

    /// Returns true for a constant whose initial value is missing and cannot come from elsewhere: zero would
    /// be a value that the program does not contain.
    fn lacks_value(&self, decl: DeclId) -> bool {
        let d = &self.ast.decls[decl];
        let is_required =
            d.parent.is_some_and(|p| matches!(self.ast.decls[p].kind, DeclKind::Interface { .. }));
        let is_constant = d.modifiers.has(Modifiers::STATIC) && d.modifiers.has(Modifiers::CONST);
        is_constant && !is_required && !d.modifiers.has(Modifiers::EXTERN)
    }

    fn is_setter_param(&self, decl: DeclId) -> bool {
        self.ast.decls[decl].parent.is_some_and(|p| {
            matches!(self.ast.decls[p].kind, DeclKind::Accessor { kind: AccessorKind::Set, .. })
        })
    }

    /// The parameters of a function, constructor, subscript or accessor (for a setter: the indices, then the
    /// value).
    pub fn params_of(&self, decl: DeclId) -> Vec<DeclId> {
        match &self.ast.decls[decl].kind {
            DeclKind::Func { params, .. }
            | DeclKind::Init { params, .. }
            | DeclKind::Subscript { params, .. } => params.clone(),
            DeclKind::Accessor { param, kind, .. } => {
                let indices = self.ast.decls[decl].parent.map_or(Vec::new(), |p| self.params_of(p));
                indices.into_iter().chain(param.filter(|_| *kind == AccessorKind::Set)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The signature as declared.
    pub(crate) fn raw_signature(&mut self, decl: DeclId) -> Rc<Signature> {
        if let Some(found) = self.queries.signatures.get(&decl) {
            return found.clone();
        }
        let mut params = Vec::new();
        for param in self.params_of(decl) {
            let ty = self.decl_type(param);
            let ty = self.types.of_value(ty);
            let modifiers = self.ast.decls[param].modifiers;
            let dir = Direction::of(modifiers);
            let no_diff = self.is_no_diff(param);
            let (differentiable, pointer_like) = self.differentiability(ty, no_diff);
            params.push(ParamSig { decl: Some(param), ty, dir, no_diff, differentiable, pointer_like });
        }
        let ret = match self.ast.decls[decl].kind.clone() {
            DeclKind::Func { result: Some(result), .. } => Checker::new(self, decl).type_expr(result),
            DeclKind::Func { result: None, .. } => self.made.results.get(&decl).copied().unwrap_or(Ty::VOID),
            DeclKind::Init { .. } => self.container_of(decl).map_or(Ty::ERROR, |c| self.self_type(c)),
            DeclKind::Accessor { kind: AccessorKind::Set, .. } => Ty::VOID,
            DeclKind::Accessor { .. } | DeclKind::Subscript { .. } | DeclKind::Property { .. } => {
                self.decl_type(decl)
            }
            _ => Ty::ERROR,
        };
        let ret = self.types.of_value(ret);
        let no_diff = self.is_no_diff(decl);
        let (has_tangent, ret_pointer_like) = self.differentiability(ret, no_diff);
        let ret_differentiable = has_tangent && !ret_pointer_like;
        let this = self.raw_this(decl);
        let signature = Rc::new(Signature { params, ret, ret_differentiable, ret_pointer_like, this });
        self.queries.signatures.insert(decl, signature.clone());
        signature
    }

    fn raw_this(&mut self, decl: DeclId) -> Option<ThisSig> {
        if self.apply_target(decl).is_some() {
            return self.apply_this(decl);
        }
        if self.is_static(decl) || matches!(self.ast.decls[decl].kind, DeclKind::Init { .. }) {
            return None;
        }
        let ty = self.container_of(decl).map(|c| self.self_type(c))?;
        let d = &self.ast.decls[decl];
        let mutating = match &d.kind {
            DeclKind::Accessor { kind: AccessorKind::Set | AccessorKind::Ref, .. } => {
                !d.modifiers.has(Modifiers::NONMUTATING)
                    && self.attribute(decl, "nonmutating").is_none()
                    && d.parent.is_none_or(|p| self.attribute(p, "nonmutating").is_none())
            }
            _ => d.modifiers.has(Modifiers::MUTATING) || self.attribute(decl, "mutating").is_some(),
        };
        let no_diff = self.says_no_diff_this(decl);
        let (differentiable, pointer_like) = self.differentiability(ty, no_diff);
        if differentiable && self.is_deriv_method(decl) {
            return Some(self.pair_receiver(ty, mutating, pointer_like));
        }
        Some(ThisSig { ty, mutating, differentiable, pointer_like })
    }

    /// Returns true if a function or the property or subscript that it belongs to is marked `[NoDiffThis]`.
    pub(crate) fn says_no_diff_this(&self, decl: DeclId) -> bool {
        let parent = self.ast.decls[decl].parent.unwrap_or(decl);
        [decl, parent]
            .iter()
            .any(|&d| self.attribute(d, "NoDiffThis").is_some() || self.attribute(d, "noDiffThis").is_some())
    }

    /// Returns whether a place of this type has a tangent, and whether that is the tangent of a pointer.
    pub(crate) fn differentiability(&mut self, ty: Ty, no_diff: bool) -> (bool, bool) {
        if no_diff || ty == Ty::ERROR {
            return (false, false);
        }
        if self.differential(ty).is_some() {
            return (true, false);
        }
        let pointer = self.pointer_differential(ty).is_some();
        (pointer, pointer)
    }

    /// The signature of a function with its generic arguments substituted.
    pub fn func_signature(&mut self, func: &FuncRef) -> Signature {
        let raw = self.raw_signature(func.decl);
        let env = self.subst_of(func);
        let mut signature = self.substitute_signature(&raw, &env);
        if self.is_judged_late(func.decl) {
            self.refresh(&mut signature);
        }
        signature
    }

    /// Returns true if a function's differentiability is determined by its arguments rather than by its
    /// declaration. This holds for the library's functions and for generic functions that a
    /// `__func_extension` makes differentiable for some arguments.
    pub(crate) fn is_judged_late(&self, decl: DeclId) -> bool {
        self.is_core(decl)
            || self.registry.late_names.contains(&self.ast.decls[decl].name)
                && (self.ast.decls[decl].generics.is_some()
                    || self.container_of(decl).is_some_and(|c| self.ast.decls[c].generics.is_some()))
    }

    /// Recomputes the differentiability of a signature from the types in it. The library's generic functions
    /// are differentiable where their arguments are: their declarations say `T` for any number.
    fn refresh(&mut self, signature: &mut Signature) {
        for param in &mut signature.params {
            (param.differentiable, param.pointer_like) = self.differentiability(param.ty, param.no_diff);
        }
        let (has_tangent, pointer_like) = self.differentiability(signature.ret, false);
        signature.ret_differentiable = has_tangent && !pointer_like;
        signature.ret_pointer_like = pointer_like;
        if let Some(this) = &mut signature.this {
            let (has_tangent, pointer_like) = self.differentiability(this.ty, false);
            this.differentiable = has_tangent && (!pointer_like || this.pointer_like);
        }
    }

    pub(crate) fn substitute_signature(&mut self, signature: &Signature, env: &Subst) -> Signature {
        let mut out = signature.clone();
        if env.is_empty() {
            return out;
        }
        for param in &mut out.params {
            param.ty = self.substitute(param.ty, env);
            param.ty = self.types.of_value(param.ty);
        }
        out.ret = self.substitute(out.ret, env);
        out.ret = self.types.of_value(out.ret);
        if let Some(this) = &mut out.this {
            this.ty = self.substitute(this.ty, env);
        }
        out
    }

    /// The signature of a callee, with `fwd_diff` and `bwd_diff` applied. Under these operators a receiver
    /// becomes the first parameter.
    pub fn callable_signature(&mut self, callable: &Callable) -> Signature {
        let ops = callable.operators();
        if let Some(func) = callable.function() {
            let asks = if let Callable::Derived(_, _, asks) = callable { *asks } else { ModuleId(0) };
            return self.derived_signature(func, &ops, asks);
        }
        let mut at = callable;
        while let Callable::Derived(_, inner, _) = at {
            at = inner;
        }
        let &Callable::Synthesized(member, ty) = at else { unreachable!("a function is handled above") };
        let ret = self.differential(ty).unwrap_or(Ty::ERROR);
        let param = ParamSig::input(None, ret, Direction::In, true, false);
        let params = match member {
            SynthesizedMember::DZero => Vec::new(),
            SynthesizedMember::DAdd => vec![param.clone(), param],
        };
        let signature =
            Signature { params, ret, ret_differentiable: true, ret_pointer_like: false, this: None };
        self.apply_ops(&ops, signature)
    }

    /// Applies derivative operators to the signature of a function. `ops` is outermost first.
    fn derived_signature(&mut self, func: &FuncRef, ops: &[DiffOp], asks: ModuleId) -> Signature {
        if ops.is_empty() {
            return self.func_signature(func);
        }
        if let &[op @ (DiffOp::Apply | DiffOp::Linearize)] = ops {
            let signature = self.func_signature(func);
            let ret = self.apply_result(func, asks, op == DiffOp::Linearize);
            let ret_differentiable = self.differential(ret).is_some();
            return Signature { ret, ret_differentiable, ..self.apply_op(op, &signature) };
        }
        let env = self.subst_of(func);
        let is_late = self.is_judged_late(func.decl);
        let mut signature = match is_late {
            true => self.func_signature(func),
            false => (*self.raw_signature(func.decl)).clone(),
        };
        self.read_only(func.decl, &mut signature);
        let signature = self.apply_ops(ops, signature);
        if is_late { signature } else { self.substitute_signature(&signature, &env) }
    }

    /// The signature of a function through operators, for matching arguments against it before its generic
    /// arguments are known.
    pub(crate) fn pattern_signature(&mut self, decl: DeclId, ops: &[DiffOp]) -> Signature {
        let raw = self.raw_signature(decl);
        let mut signature = (*raw).clone();
        if !ops.is_empty() && self.is_judged_late(decl) {
            for param in &mut signature.params {
                param.differentiable |= !param.no_diff && self.may_be_float(param.ty);
            }
            signature.ret_differentiable |= self.may_be_float(signature.ret);
        }
        if !ops.is_empty() {
            self.read_only(decl, &mut signature);
        }
        self.apply_ops(ops, signature)
    }

    /// Applies derivative operators, given outermost first, to a signature.
    fn apply_ops(&mut self, ops: &[DiffOp], signature: Signature) -> Signature {
        ops.iter().rev().fold(signature, |signature, &op| self.apply_op(op, &signature))
    }

    /// Makes the receiver of a `ref` accessor read-only: a derivative treats the accessor as a function that
    /// returns the value of the place.
    fn read_only(&self, decl: DeclId, signature: &mut Signature) {
        if let (DeclKind::Accessor { kind: AccessorKind::Ref, .. }, Some(this)) =
            (&self.ast.decls[decl].kind, &mut signature.this)
        {
            this.mutating = false;
        }
    }

    pub(crate) fn pair_of(&mut self, ty: Ty, pointer_like: bool) -> Ty {
        if self.is_pack(ty) {
            // The result is a pack of pairs.
            if let TyKind::Pack(parts) = self.types[ty].clone() {
                let parts = parts.into_iter().map(|t| self.pair_of(t, pointer_like)).collect();
                return self.pack_of(parts);
            }
            let element = self.each_of(ty).unwrap_or(Ty::ERROR);
            let pair = self.pair_of(element, pointer_like);
            let shape = match self.types[ty].clone() {
                TyKind::Expand(_, shape) => *shape,
                _ => crate::types::GenericArg::Type(ty),
            };
            return self.expand_of(pair, &shape);
        }
        let kind = if pointer_like { TyKind::DiffPtrPair(ty) } else { TyKind::DiffPair(ty) };
        self.types.intern(kind)
    }

    fn differential_or_self(&mut self, ty: Ty) -> Ty {
        self.differential(ty).unwrap_or(ty)
    }

    pub(crate) fn apply_op(&mut self, op: DiffOp, signature: &Signature) -> Signature {
        let inputs = signature.inputs();
        let mut params = Vec::new();
        match op {
            DiffOp::Fwd => {
                for mut param in inputs {
                    if param.differentiable {
                        param.ty = self.pair_of(param.ty, param.pointer_like);
                        param.differentiable = !param.pointer_like;
                        param.pointer_like = false;
                    }
                    params.push(param);
                }
                let ret = if signature.ret_differentiable || signature.ret_pointer_like {
                    self.pair_of(signature.ret, signature.ret_pointer_like)
                } else {
                    signature.ret
                };
                let ret_differentiable = signature.ret_differentiable;
                Signature { params, ret, ret_differentiable, ret_pointer_like: false, this: None }
            }
            // The return type depends on the function; see `apply_result`.
            DiffOp::Apply | DiffOp::Linearize => {
                // The destination of a pointer's gradients has to be known.
                for mut param in inputs {
                    if param.pointer_like {
                        param.ty = self.pair_of(param.ty, true);
                        (param.differentiable, param.pointer_like) = (false, false);
                    }
                    params.push(param);
                }
                Signature { params, this: None, ..signature.clone() }
            }
            DiffOp::Bwd => {
                for mut param in inputs {
                    if !param.differentiable {
                        match param.dir {
                            Direction::Out => continue,
                            Direction::InOut => param.dir = Direction::In,
                            Direction::In | Direction::Ref | Direction::ConstRef => {}
                        }
                    } else if param.pointer_like {
                        param.ty = self.pair_of(param.ty, true);
                        param.differentiable = false;
                        param.pointer_like = false;
                    } else if param.dir == Direction::Out {
                        param.ty = self.differential_or_self(param.ty);
                        param.dir = Direction::In;
                    } else {
                        param.ty = self.pair_of(param.ty, false);
                        param.dir = Direction::InOut;
                    }
                    params.push(param);
                }
                if signature.ret_differentiable {
                    let ty = self.differential_or_self(signature.ret);
                    params.push(ParamSig::input(None, ty, Direction::In, true, false));
                }
                let ret = Ty::VOID;
                Signature { params, ret, ret_differentiable: false, ret_pointer_like: false, this: None }
            }
        }
    }

    /// The accessors of a property or subscript (`decl` of the [`FuncRef`] is the property or subscript).
    pub fn accessors(&mut self, member: &FuncRef) -> Accessors {
        let member = self.resolve_requirement(member).func().unwrap_or_else(|| member.clone());
        self.declared_accessors(&member)
    }

    /// The accessors of a property or subscript as declared, without resolving a requirement of an interface.
    pub fn declared_accessors(&self, member: &FuncRef) -> Accessors {
        let mut out = Accessors::default();
        let (DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. }) =
            &self.ast.decls[member.decl].kind
        else {
            return out;
        };
        for &accessor in accessors {
            let func = FuncRef { decl: accessor, ..member.clone() };
            let DeclKind::Accessor { kind, .. } = self.ast.decls[accessor].kind else { continue };
            *match kind {
                AccessorKind::Get => &mut out.get,
                AccessorKind::Set => &mut out.set,
                AccessorKind::Ref => &mut out.by_ref,
            } = Some(func);
        }
        out
    }
}
