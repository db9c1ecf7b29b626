//! Computes signatures of functions, both as declared and through `fwd_diff` and `bwd_diff`.
//!
//! `f : (A, inout B, out C, N) → R` becomes
//! `fwd_diff(f) : (⟨A⟩, inout ⟨B⟩, out ⟨C⟩, N) → ⟨R⟩` and
//! `bwd_diff(f) : (inout ⟨A⟩, inout ⟨B⟩, C.Differential, N, R.Differential) → void`
//! where `⟨T⟩` stands for `DifferentialPair<T>` and `N` is not differentiable.

use std::rc::Rc;

use syntax::ast::{AccessorKind, DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, ExprId};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::signature::{Accessors, Direction, ParamSig, Signature, Subst, Tangent};
use crate::tables::{Callable, DiffOp, FuncRef, SynthesizedMember};
use crate::types::{Ty, TyKind, Val, pointers};
use crate::view::ModuleId;

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
                if self.is_ref(ty) && !self.is_core(decl) {
                    let message =
                        "`Ref<T>` is for the results and parameters of functions: a variable cannot be one";
                    self.error("E39999", self.name_span(decl), message);
                }
                if init.is_none() && self.lacks_value(decl) {
                    let name = self.ast.decl_name(decl).to_owned();
                    self.error("E31225", self.name_span(decl), format!("the constant '{name}' has no value"));
                }
                match self.host_length(decl, declared) {
                    Some(sized) => sized,
                    None => self.sized_by(declared, init),
                }
            }
            DeclKind::Var { ty: None, init: Some(init), .. } => Checker::new(self, decl).infer(init, None),
            DeclKind::Param { ty: Some(ty), .. } => {
                let declared = Checker::new(self, decl).type_expr(ty);
                let declared = self.ordered_as(decl, declared);
                match (self.opened.lengths.get(&decl), &self.types[declared]) {
                    (Some(&length), &TyKind::Array(element, None)) => {
                        self.types.intern(TyKind::Array(element, Some(Val::Param(length))))
                    }
                    _ => declared,
                }
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
            DeclKind::ValueParam { ty: None, .. } => Ty::INT,
            DeclKind::ValueParam { ty: Some(ty), .. } => {
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
            | DeclKind::Tuple { .. }
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
                let param = param.or(self.made.new_values.get(&decl).copied());
                let indices = self.ast.decls[decl].parent.map_or(Vec::new(), |p| self.params_of(p));
                indices.into_iter().chain(param.filter(|_| *kind == AccessorKind::Set)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns true for the type expression `Ref<T>`.
    fn is_ref(&self, ty: ExprId) -> bool {
        let ExprKind::Generic { base, .. } = self.ast.exprs[ty].kind else { return false };
        matches!(self.ast.exprs[base].kind, ExprKind::Name(name) if self.ast.name(name) == "Ref")
    }

    /// Returns true for the type expression `Ref<T, access>`, if it has been checked, where the access is another than
    /// `Access.ReadWrite`.
    pub(crate) fn is_read_ref(&mut self, ty: ExprId) -> bool {
        let ExprKind::Generic { args, .. } = &self.ast.exprs[ty].kind else { return false };
        let Some(&access) = args.get(1) else { return false };
        self.is_ref(ty) && self.constant(access, 0) != Some(pointers::READ_WRITE)
    }

    /// Returns true if a call of a function is a place that can be written.
    pub(crate) fn gives_written_place(&mut self, decl: DeclId) -> bool {
        match self.ast.decls[decl].kind {
            DeclKind::Func { result: Some(result), .. } => self.is_ref(result) && !self.is_read_ref(result),
            _ => false,
        }
    }

    /// Returns true if a call of a function is a place: its result is declared as `Ref<T>`.
    pub fn gives_place(&self, decl: DeclId) -> bool {
        match self.ast.decls[decl].kind {
            DeclKind::Func { result: Some(result), .. } => self.is_ref(result),
            _ => false,
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
            let written = match self.ast.decls[param].kind {
                DeclKind::Param { ty, .. } => ty.filter(|&ty| self.is_ref(ty)),
                _ => None,
            };
            let dir = match written {
                Some(ty) if self.is_read_ref(ty) => Direction::ConstRef,
                Some(_) => Direction::Ref,
                None => Direction::of(modifiers),
            };
            let no_diff = self.is_no_diff(param);
            let tangent = self.declared_tangent(ty, no_diff);
            params.push(ParamSig { decl: Some(param), ty, dir, no_diff, tangent });
        }
        let ret = match self.ast.decls[decl].kind.clone() {
            DeclKind::Func { result: Some(result), .. } => self.result_type(decl, result),
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
        let ret_tangent = self.declared_tangent(ret, no_diff);
        let this = self.raw_this(decl);
        let signature = Rc::new(Signature { params, ret, ret_tangent, this });
        self.queries.signatures.insert(decl, signature.clone());
        signature
    }

    /// The type of a function's result, which an array length in it may make depend on the function.
    fn result_type(&mut self, decl: DeclId, result: ExprId) -> Ty {
        if !self.queries.result_types.begin(&decl) {
            let message =
                format!("the type of the result of '{}' depends on itself", self.ast.decl_name(decl));
            self.error("E39999", self.name_span(decl), message);
            return Ty::ERROR;
        }
        let ty = Checker::new(self, decl).type_expr(result);
        self.queries.result_types.end(&decl);
        ty
    }

    fn raw_this(&mut self, decl: DeclId) -> Option<ParamSig> {
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
        let dir = if mutating { Direction::InOut } else { Direction::In };
        let tangent = self.declared_tangent(ty, no_diff);
        if tangent == Tangent::None || !self.is_deriv_method(decl) {
            return Some(ParamSig::made(ty, dir, tangent));
        }
        // The receiver of a `[deriv_method]` is the pair.
        let pair = self.pair_of(ty, tangent);
        Some(ParamSig::made(pair, dir, self.tangent(pair)))
    }

    /// Returns true if a function or the property or subscript that it belongs to is marked `[NoDiffThis]`.
    pub(crate) fn says_no_diff_this(&self, decl: DeclId) -> bool {
        let parent = self.ast.decls[decl].parent.unwrap_or(decl);
        [decl, parent]
            .iter()
            .any(|&d| self.attribute(d, "NoDiffThis").is_some() || self.attribute(d, "noDiffThis").is_some())
    }

    /// The tangent of a place of this type, which may be declared `no_diff`.
    fn declared_tangent(&mut self, ty: Ty, no_diff: bool) -> Tangent {
        if no_diff { Tangent::None } else { self.tangent(ty) }
    }

    /// The tangent of a place of this type.
    pub(crate) fn tangent(&mut self, ty: Ty) -> Tangent {
        match () {
            () if ty == Ty::ERROR => Tangent::None,
            () if self.differential(ty).is_some() => Tangent::Value,
            () if self.pointer_differential(ty).is_some() => Tangent::Pointer,
            () => Tangent::None,
        }
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
    /// declaration. This holds for the library's functions, for accessors that are parts of their callers, for
    /// requirements that are as what fulfils them, and for generic functions that a `__func_extension` makes differentiable for some arguments.
    pub(crate) fn is_judged_late(&self, decl: DeclId) -> bool {
        self.is_core(decl)
            || self.is_part_of_caller(decl)
            || self.is_as_fulfilled(decl)
            || self.registry.late_names.contains(&self.ast.decls[decl].name)
                && (self.is_generic(decl) || self.container_of(decl).is_some_and(|c| self.is_generic(c)))
    }

    /// Recomputes the differentiability of a signature from the types in it. The library's generic functions
    /// are differentiable where their arguments are: their declarations say `T` for any number.
    fn refresh(&mut self, signature: &mut Signature) {
        for param in &mut signature.params {
            param.tangent = self.declared_tangent(param.ty, param.no_diff);
        }
        signature.ret_tangent = self.tangent(signature.ret);
        if let Some(this) = &mut signature.this {
            let tangent = self.tangent(this.ty);
            let is_new_pointer = tangent == Tangent::Pointer && this.tangent != Tangent::Pointer;
            this.tangent = if is_new_pointer { Tangent::None } else { tangent };
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
        let param = ParamSig::made(ret, Direction::In, Tangent::Value);
        let params = match member {
            SynthesizedMember::DZero => Vec::new(),
            SynthesizedMember::DAdd => vec![param.clone(), param],
        };
        self.apply_ops(&ops, Signature { params, ret, ret_tangent: Tangent::Value, this: None })
    }

    /// Applies derivative operators to the signature of a function. `ops` is outermost first.
    fn derived_signature(&mut self, func: &FuncRef, ops: &[DiffOp], asks: ModuleId) -> Signature {
        if ops.is_empty() {
            return self.func_signature(func);
        }
        if let &[op @ (DiffOp::Apply | DiffOp::Linearize | DiffOp::Decisions)] = ops {
            let signature = self.func_signature(func);
            let ret = match op {
                DiffOp::Decisions => self.types.intern(TyKind::Tuple(vec![signature.ret, Ty::FLOAT])),
                _ => self.apply_result(func, asks, op == DiffOp::Linearize),
            };
            let ret_tangent = self.differential(ret).map_or(Tangent::None, |_| Tangent::Value);
            return Signature { ret, ret_tangent, ..self.apply_op(op, &signature) };
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
            for param in signature.params.iter_mut().filter(|p| !p.has_tangent() && !p.no_diff) {
                param.tangent = self.may_have_value(param.ty);
            }
            if signature.ret_tangent == Tangent::None {
                signature.ret_tangent = self.may_have_value(signature.ret);
            }
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
            this.dir = Direction::In;
        }
    }

    /// The tangent of a type that may turn out to be floating point.
    fn may_have_value(&mut self, ty: Ty) -> Tangent {
        if self.may_be_float(ty) { Tangent::Value } else { Tangent::None }
    }

    /// The pair of a type and its tangent.
    pub(crate) fn pair_of(&mut self, ty: Ty, tangent: Tangent) -> Ty {
        if self.is_pack(ty) {
            // The result is a pack of pairs.
            if let TyKind::Pack(parts) = self.types[ty].clone() {
                let parts = parts.into_iter().map(|t| self.pair_of(t, tangent)).collect();
                return self.pack_of(parts);
            }
            let element = self.each_of(ty).unwrap_or(Ty::ERROR);
            let pair = self.pair_of(element, tangent);
            let shape = match self.types[ty].clone() {
                TyKind::Expand(_, shape) => *shape,
                _ => crate::types::GenericArg::Type(ty),
            };
            return self.expand_of(pair, &shape);
        }
        let is_pointer = tangent == Tangent::Pointer;
        let kind = if is_pointer { TyKind::DiffPtrPair(ty) } else { TyKind::DiffPair(ty) };
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
                    if param.has_tangent() {
                        param.ty = self.pair_of(param.ty, param.tangent);
                    }
                    if param.tangent == Tangent::Pointer {
                        param.tangent = Tangent::None;
                    }
                    params.push(param);
                }
                let ret = match signature.ret_tangent {
                    Tangent::None => signature.ret,
                    tangent => self.pair_of(signature.ret, tangent),
                };
                let returns = signature.returns_differential();
                let ret_tangent = if returns { Tangent::Value } else { Tangent::None };
                Signature { params, ret, ret_tangent, this: None }
            }
            // The return type depends on the function; see `apply_result`.
            DiffOp::Apply | DiffOp::Linearize => {
                // The destination of a pointer's gradients has to be known.
                params.extend(inputs.into_iter().map(|param| self.with_pointer_pair(param)));
                Signature { params, this: None, ..signature.clone() }
            }
            // The return type depends on the function.
            DiffOp::Decisions => {
                params.extend(inputs);
                let dirs = [Direction::In, Direction::Out, Direction::Out];
                params.extend(dirs.map(|dir| ParamSig::made(Ty::UINT, dir, Tangent::None)));
                Signature { params, this: None, ..signature.clone() }
            }
            DiffOp::Bwd => {
                for param in inputs {
                    let is_pointer = param.tangent == Tangent::Pointer;
                    let mut param = self.with_pointer_pair(param);
                    match (param.tangent, param.dir) {
                        _ if is_pointer => {}
                        (Tangent::None, Direction::Out) => continue,
                        (Tangent::None, Direction::InOut) => param.dir = Direction::In,
                        (Tangent::None, _) => {}
                        (_, Direction::Out) => {
                            param.ty = self.differential_or_self(param.ty);
                            param.dir = Direction::In;
                        }
                        _ => {
                            param.ty = self.pair_of(param.ty, Tangent::Value);
                            param.dir = Direction::InOut;
                        }
                    }
                    params.push(param);
                }
                if signature.returns_differential() {
                    let ty = self.differential_or_self(signature.ret);
                    params.push(ParamSig::made(ty, Direction::In, Tangent::Value));
                }
                Signature { params, ret: Ty::VOID, ret_tangent: Tangent::None, this: None }
            }
        }
    }

    /// Turns a pointer with a tangent into the pair of both, which has none.
    fn with_pointer_pair(&mut self, param: ParamSig) -> ParamSig {
        match param.tangent {
            Tangent::Pointer => {
                let ty = self.pair_of(param.ty, Tangent::Pointer);
                ParamSig { ty, tangent: Tangent::None, ..param }
            }
            Tangent::None | Tangent::Value => param,
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
