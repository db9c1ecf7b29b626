//! The functions of the module: the key of each, its flat signature, and its declaration.
//!
//! A function is declared (with its parameters and results) when it is first named, and built later by the
//! worklist in [`crate::lower`], so a recursive program does not make the compiler recurse.

use std::rc::Rc;

use check::signature::Signature;
use check::tables::{Callable, DiffOp, FuncRef};
use check::types::{Ty, TyKind};
use check::{Direction, ParamSig, Resolved, View};
use ir::{Function, Inline, Prefer, Slot, Types};
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Span};

use crate::body::Body;
use crate::declared::{Declared, FlatParam, FlatSig, Half, Key, Role, Variant};
use crate::layout::DiffMap;
use crate::lowerer::{Lowerer, Making, ir_span};
use crate::request::Step;
use crate::{apply, calls, derivatives, dispatch, entries, intrinsics, twins, uses, witness};

impl Variant {
    fn build(&self, making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
        match self {
            Variant::Jvp(Some(user)) => witness::build_jvp(making, f, user),
            Variant::Jvp(None) => witness::build_zero_jvp(making, f),
            Variant::Vjp(Some(user)) => witness::build_vjp(making, f, user),
            Variant::Vjp(None) => witness::build_zero_vjp(making, f),
            Variant::Apply(applied) => apply::build_apply(making, applied),
            Variant::Propagate(applied) => apply::build_propagate(making, f, applied),
            Variant::Twin => twins::build_twin(making, f),
            Variant::Moved(by) => twins::build_moved(making, f, by),
            Variant::Quiet => calls::build_call(making, f),
            Variant::Use(_) => uses::build_use(making, f),
            Variant::UseJvp(ty) => uses::build_use_jvp(making, f, *ty),
            Variant::UseVjp(ty) => uses::build_use_vjp(making, f, *ty),
            Variant::GlobalInit => Body::build_global_init(making, f),
            Variant::Plain(_) => build_own(making, f),
        }
    }

    /// The last part of the names of such functions.
    fn name(&self) -> &'static str {
        match self {
            Variant::Jvp(_) => "jvp",
            Variant::Vjp(_) => "vjp",
            Variant::Twin => "pair",
            Variant::Quiet => "no_diff",
            Variant::Moved(_) => "moved",
            Variant::Use(_) => "split",
            Variant::UseJvp(_) => "split.jvp",
            Variant::UseVjp(_) => "split.vjp",
            Variant::Apply(_) => "apply",
            Variant::Propagate(_) => "propagate",
            Variant::Plain(_) => "plain",
            Variant::GlobalInit => "init",
        }
    }
}

/// Builds the body that a function of the source has: a half of a derivative, a dispatch, an adapter, or its own.
fn build_own(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
    if let Some(of) = making.lw.program.pullback_of(f) {
        return apply::build_half(making, &of);
    }
    if let Some(opening) = making.lw.opening(f) {
        return dispatch::build(making, f, opening);
    }
    if let Some(own) = making.lw.adapted(f) {
        return calls::build_adapter(making, &own);
    }
    match making.lw.intrinsic_name(f.decl) {
        Some(_) => intrinsics::build(making, f),
        None => Body::build_source(making, f),
    }
}

impl Lowerer<'_> {
    /// Resolves requirements and replaces derivative operators by user-written derivatives.
    pub(crate) fn canonical(&mut self, callable: Callable) -> Result<Callable, String> {
        Ok(match callable {
            Callable::Func(f) => match self.program.resolve_requirement(&f) {
                // The adapter function has the requirement's signature.
                Resolved::Func(found) if self.program.is_adapted(&f, &found) => Callable::Func(f),
                Resolved::Func(found) => {
                    self.program.check_called(&f);
                    Callable::Func(found)
                }
                Resolved::Synthesized(member, ty) => Callable::Synthesized(member, ty),
                Resolved::Builtin(_) => Callable::Func(f),
                Resolved::Unresolved => {
                    let name = self.program.ast.name(self.program.ast.decls[f.decl].name).to_owned();
                    return Err(name);
                }
            },
            Callable::Derived(op, inner, asks) => {
                let inner = self.canonical(*inner)?;
                if let (Callable::Func(f), DiffOp::Fwd | DiffOp::Bwd) = (&inner, op) {
                    let derivatives = self.program.derivatives_of(f, View::of(asks));
                    let user = if op == DiffOp::Fwd { derivatives.fwd } else { derivatives.bwd };
                    if let Some(user) = user {
                        return self.canonical(Callable::Func(user));
                    }
                }
                Callable::Derived(op, Box::new(inner), asks)
            }
            Callable::Synthesized(member, ty) => Callable::Synthesized(member, ty),
        })
    }

    /// Flattens a signature with concrete types. The parameters `in_place` are the places of their arguments.
    fn flatten(&mut self, types: &mut Types, sig: &Signature, in_place: &[Option<DeclId>]) -> FlatSig {
        let mut params = Vec::new();
        let is_in_place = |p: &ParamSig| p.dir.is_written() && in_place.contains(&p.decl);
        if let Some(this) = &sig.this {
            if is_in_place(this) {
                params.push(self.reference_param("this", None, this.ty));
            } else {
                let diff = if this.has_tangent() { self.diff_map(types, this.ty) } else { None };
                params.push(FlatParam { diff, ..FlatParam::new("this", this.ty, this.dir) });
            }
        }
        for (k, param) in sig.params.iter().enumerate() {
            let name = match param.decl {
                Some(d) => self.program.ast.name(self.program.ast.decls[d].name).to_owned(),
                None if k + 1 == sig.params.len() => "result_d".to_owned(),
                None => format!("arg{k}"),
            };
            let dir = match param.dir {
                // User functions get a copy of the place; buffers are handles anyway.
                Direction::Ref => Direction::InOut,
                Direction::ConstRef => Direction::In,
                Direction::In | Direction::Out | Direction::InOut => param.dir,
            };
            let decl = param.decl;
            // A reference to shared memory is no copy: other threads write there, too.
            let is_shared = matches!(param.dir, Direction::Ref | Direction::ConstRef)
                && decl.is_some_and(|d| self.program.ast.decls[d].modifiers.has(Modifiers::GROUPSHARED));
            if is_shared || is_in_place(param) {
                params.push(self.reference_param(&name, decl, param.ty));
                continue;
            }
            let in_pack = matches!(self.program.types[param.ty], TyKind::Pack(_));
            let parts = if in_pack { self.program.elements(param.ty) } else { vec![param.ty] };
            for (idx, ty) in parts.into_iter().enumerate() {
                let diff = if param.has_tangent() { self.diff_map(types, ty) } else { None };
                let name = if in_pack { format!("{name}_{idx}") } else { name.clone() };
                params.push(FlatParam { name, decl, ty, dir, diff, in_pack, is_reference: false });
            }
        }
        let ret_diff = if sig.returns_differential() { self.diff_map(types, sig.ret) } else { None };
        FlatSig { params, has_this: sig.this.is_some(), ret_diff, ..FlatSig::returning(sig.ret) }
    }

    /// [`Self::flatten`] with the error that a function may throw, and the object that its dispatch needs.
    fn flatten_callable(
        &mut self,
        types: &mut Types,
        callable: &Callable,
        sig: &Signature,
        in_place: &[Option<DeclId>],
    ) -> FlatSig {
        let mut sig = self.flatten(types, sig, in_place);
        sig.error = self.optional_error(types, callable);
        if let Some(ty) = self.needs_object(callable) {
            sig.params.insert(0, FlatParam::new("object", ty, Direction::In));
            sig.has_object = true;
        }
        sig
    }

    /// A parameter that is the place of its argument.
    fn reference_param(&mut self, name: &str, decl: Option<DeclId>, of: Ty) -> FlatParam {
        let ty = self.program.types.intern(TyKind::pointer(of));
        FlatParam { decl, is_reference: true, ..FlatParam::new(name, ty, Direction::In) }
    }

    /// The parameters of a function that are updated in place and have no tangents; a derivative cannot be taken of such a
    /// function.
    fn in_place(&mut self, callable: &Callable, sig: &Signature) -> Vec<Option<DeclId>> {
        let Some(f) = callable.function().cloned() else { return Vec::new() };
        let in_place = self.program.updated_in_place(f.decl);
        if !in_place.is_empty() && matches!(callable, Callable::Derived(..)) {
            let span = self.program.name_span(f.decl);
            self.unsupported(
                span,
                "a derivative of a function with an atomic operation on one of its parameters is",
            );
        }
        let params = sig.this.iter().chain(&sig.params).filter(|p| !p.has_tangent());
        params.map(|p| p.decl).filter(|decl| in_place.contains(decl)).collect()
    }

    /// The slots for the leaves of a value.
    pub(crate) fn slots(
        &mut self,
        types: &mut Types,
        name: &str,
        ty: Ty,
        diff: Option<&DiffMap>,
    ) -> Vec<Slot> {
        let layout = self.layout(types, ty);
        let leaves = layout.leaves.iter().enumerate().map(|(k, leaf)| {
            let name = format!("{name}{}", leaf.name);
            let name = name.strip_prefix('.').unwrap_or(&name);
            Slot {
                ty: leaf.ty,
                diff: diff.is_some_and(|d| d.map.get(k).is_some_and(Option::is_some)),
                linear: false,
                name: (!name.is_empty()).then(|| name.into()),
            }
        });
        leaves.collect()
    }

    /// Declares the IR function of a callee if it is new. The callee must be canonical.
    pub(crate) fn function(&mut self, types: &mut Types, callable: &Callable) -> Rc<Declared> {
        let key = Key::Callable(callable.clone());
        if let Some(declared) = self.declared.get(&key) {
            return declared.clone();
        }
        let sig = self.program.callable_signature(callable);
        let in_place = self.in_place(callable, &sig);
        let sig = self.flatten_callable(types, callable, &sig, &in_place);
        self.declare(types, key, sig)
    }

    /// Declares a function with the slots of its signature.
    pub(crate) fn declare(&mut self, types: &mut Types, key: Key, sig: FlatSig) -> Rc<Declared> {
        let mut params = Vec::new();
        for p in sig.params.iter().filter(|p| p.is_input()) {
            params.extend(self.slots(types, &p.name, p.ty, p.diff.as_deref()));
        }
        let mut results = Vec::new();
        for output in sig.outputs() {
            let name = match output.role {
                Role::Returned => "",
                Role::Param(k) => sig.params[k].name.as_str(),
                Role::Error => "error",
            };
            results.extend(self.slots(types, name, output.ty, output.diff.as_deref()));
        }
        let takes = sig.params.iter().any(|p| p.is_input() && self.is_pointer_like(types, p.ty));
        let gives = sig.outputs().iter().any(|o| self.is_pointer_like(types, o.ty));
        let declared = self.declare_flat(key, sig, params, results);
        if gives && !takes {
            self.pointers.makers.insert(declared.func);
        }
        declared
    }

    /// Declares a function with the given slots.
    pub(crate) fn declare_flat(
        &mut self,
        key: Key,
        sig: FlatSig,
        params: Vec<Slot>,
        results: Vec<Slot>,
    ) -> Rc<Declared> {
        let name = self.key_name(&key);
        let name = self.unique_name(name);
        let span = self.key_span(&key);
        let function = Function {
            name,
            params: params.clone(),
            results: results.clone(),
            span: ir_span(span),
            ..Function::default()
        };
        let func = self.module.funcs.push(function);
        let declared = Rc::new(Declared { func, sig, params, results, span });
        self.declared.insert(key, declared.clone());
        declared
    }

    fn key_span(&self, key: &Key) -> Span {
        let decl = match key {
            Key::Callable(c) | Key::Derived(c, _) => c.function().map(|f| f.decl),
            Key::Variant(f, _) => Some(f.decl),
            Key::Entry(d) => Some(*d),
        };
        decl.map_or(crate::lowerer::NOWHERE, |d| self.program.ast.decls[d].name_span)
    }

    /// A readable name: `S.eval<float>`, `fwd_diff(f)`.
    pub(crate) fn func_name(&mut self, f: &FuncRef) -> String {
        let decl = self.program.ast.decls[f.decl].clone();
        let own = self.program.ast.name(decl.name).to_owned();
        let own = match &decl.kind {
            DeclKind::Init { .. } => "__init".to_owned(),
            DeclKind::Accessor { kind, .. } => {
                let member = decl.parent.map(|p| self.program.ast.decls[p].name);
                let member = member.map_or("", |n| self.program.ast.name(n));
                let kind = kind.text();
                if member.is_empty() { format!("__subscript.{kind}") } else { format!("{member}.{kind}") }
            }
            _ => own,
        };
        let mut name = match f.self_ty {
            Some(ty) => format!("{}.{own}", self.program.type_name(ty)),
            None => own,
        };
        let own_params = self.program.own_params(f.decl).len();
        if own_params > 0 && own_params <= f.args.len() {
            let args = &f.args[f.args.len() - own_params..];
            let args: Vec<String> = args
                .iter()
                .map(|arg| match arg {
                    check::types::GenericArg::Type(ty) => self.program.type_name(*ty),
                    check::types::GenericArg::Val(v) => self
                        .program
                        .val_int(v, &check::Subst::default())
                        .map_or("?".to_owned(), |v| v.to_string()),
                })
                .collect();
            name = format!("{name}<{}>", args.join(", "));
        }
        name
    }

    fn callable_name(&mut self, callable: &Callable) -> String {
        match callable {
            Callable::Func(f) => self.func_name(f),
            Callable::Derived(op, c, _) => format!("{}({})", op.text(), self.callable_name(c)),
            Callable::Synthesized(member, ty) => format!("{}.{}", self.program.type_name(*ty), member.name()),
        }
    }

    fn key_name(&mut self, key: &Key) -> String {
        match key {
            Key::Callable(c) => self.callable_name(c),
            Key::Variant(f, Variant::Quiet) => format!("no_diff {}", self.func_name(f)),
            Key::Variant(f, Variant::GlobalInit) => format!("{}:init", self.program.ast.decl_name(f.decl)),
            Key::Variant(f, variant) => format!("{}:{}", self.func_name(f), variant.name()),
            Key::Derived(c, steps) => {
                let steps: Vec<&str> = steps.iter().map(Step::name).collect();
                format!("{}:{}", self.callable_name(c), steps.join(":"))
            }
            Key::Entry(d) => format!("{}:entry", self.program.ast.decl_name(*d)),
        }
    }

    /// The function that fulfils a requirement of an interface, for a concrete type, with another signature.
    fn adapted(&mut self, f: &FuncRef) -> Option<FuncRef> {
        match self.program.resolve_requirement(f) {
            Resolved::Func(own) if own.decl != f.decl => Some(own),
            _ => None,
        }
    }

    /// The function to call in place of a callee where no derivatives are taken, if that is another one: it has `out`
    /// arrays, updates parameters by atomic operations, or has `shared` ones (those of [`Variant::Plain`]).
    pub(crate) fn plain(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        shared: Rc<[Option<DeclId>]>,
    ) -> Option<Rc<Declared>> {
        let key = Key::Variant(f.clone(), Variant::Plain(shared.clone()));
        if let Some(declared) = self.declared.get(&key) {
            return Some(declared.clone());
        }
        let callable = Callable::Func(f.clone());
        let sig = self.program.callable_signature(&callable);
        let is_forwarded = self.adapted(f).is_some() || self.opening(f).is_some();
        let has_body = self.program.ast.decls[f.decl].kind.body().is_some()
            && self.intrinsic_name(f.decl).is_none()
            && self.program.pullback_of(f).is_none();
        let is_own = has_body && !is_forwarded;
        let keeps_arrays = is_own && !self.program.is_core(f.decl);
        let keeps = |lw: &Lowerer<'_>, dir, ty| {
            keeps_arrays && dir == Direction::Out && matches!(lw.program.types[ty], TyKind::Array(_, Some(_)))
        };
        let updated = if is_own { self.program.updated_in_place(f.decl) } else { Rc::default() };
        let is_another = !updated.is_empty()
            || !shared.is_empty() && (is_own || is_forwarded)
            || sig.params.iter().any(|param| keeps(self, param.dir, param.ty));
        if !is_another {
            return None;
        }
        let in_place = [&updated[..], &shared].concat();
        let mut sig = self.flatten_callable(types, &callable, &sig, &in_place);
        // A call that passes places of group-shared memory has no derivative. Others may have: a rule of the library is not
        // marked, and is differentiated nevertheless.
        let has_derivative = shared.is_empty();
        sig.ret_diff = sig.ret_diff.filter(|_| has_derivative);
        for k in 0..sig.params.len() {
            sig.params[k].diff = sig.params[k].diff.take().filter(|_| has_derivative);
            if keeps(self, sig.params[k].dir, sig.params[k].ty) {
                sig.params[k].dir = Direction::InOut;
            }
        }
        Some(self.declare(types, key, sig))
    }

    /// The function that one with these parameters calls with them: references are passed on.
    pub(crate) fn passed(
        &mut self,
        types: &mut Types,
        callable: &Callable,
        given: &[FlatParam],
    ) -> Rc<Declared> {
        if let Callable::Func(f) = callable
            && given.iter().any(|param| param.is_reference)
        {
            let sig = self.program.callable_signature(callable);
            let own = sig.this.iter().chain(&sig.params).zip(given);
            let shared = own.filter(|(_, given)| given.is_reference).map(|(own, _)| own.decl).collect();
            if let Some(declared) = self.plain(types, f, shared) {
                return declared;
            }
        }
        self.function(types, callable)
    }

    /// Checks the source of the function with this index in the worklist.
    pub(crate) fn check_source(&mut self, idx: usize) {
        let Some(f) = self.declared.get_index(idx).and_then(|d| d.0.source()).cloned() else { return };
        self.program.body(f.decl);
        self.program.check_flow_of(&f);
        self.program.check_called(&f);
    }

    /// Builds the body of the function with this index in the worklist.
    pub(crate) fn build(&mut self, types: &mut Types, idx: usize) {
        let (key, declared) = self.declared.get_index(idx).expect("idx is in range");
        let (key, declared) = (key.clone(), declared.clone());
        let errors = self.diagnostics.len();
        let is_adapter = key.source().cloned().is_some_and(|f| self.adapted(&f).is_some());
        let making = Making { lw: self, types, declared: &declared };
        let mut function = match &key {
            Key::Callable(Callable::Func(f)) => build_own(making, f),
            Key::Callable(Callable::Derived(op, inner, asks)) => match op {
                DiffOp::Fwd => derivatives::build_fwd(making, inner),
                DiffOp::Bwd => derivatives::build_bwd(making, inner),
                DiffOp::Apply => apply::build_value_and_half(making, inner, (*asks, Half::Pullback)),
                DiffOp::Linearize => apply::build_value_and_half(making, inner, (*asks, Half::Pushforward)),
                DiffOp::Decisions => derivatives::build_decisions(making, inner),
            },
            Key::Callable(Callable::Synthesized(..)) => {
                self.unsupported(declared.span, "a derivative of `dzero` or `dadd` is");
                None
            }
            Key::Variant(f, variant) => variant.build(making, f),
            Key::Derived(c, steps) => derivatives::build_derived(making, c, steps),
            Key::Entry(d) => entries::build(making, *d),
        };
        if let Some(function) = &mut function {
            let slot = &mut self.module.funcs[declared.func];
            function.name = std::mem::take(&mut slot.name);
            function.span = slot.span;
            function.results.clone_from(&slot.results);
            match &key {
                _ if is_adapter => function.inline = Inline::Always,
                Key::Callable(Callable::Func(f)) | Key::Variant(f, Variant::Plain(_)) => {
                    self.set_attributes(f, function);
                }
                Key::Derived(..) | Key::Variant(_, Variant::GlobalInit) => {}
                Key::Callable(_) | Key::Variant(..) | Key::Entry(_) => function.inline = Inline::Always,
            }
            self.check_results(&declared, function);
            self.module.funcs[declared.func] = std::mem::take(function);
        } else if self.diagnostics.len() == errors && self.program.diagnostics.is_empty() {
            self.internal(declared.span, "a function got no body");
        }
    }

    /// Checks that the results of the body have the types of the signature.
    fn check_results(&mut self, declared: &Declared, function: &Function) {
        let results = &function.regions[function.body()].results;
        let fit = results.iter().map(|&v| function.ty(v)).eq(declared.results.iter().map(|slot| slot.ty));
        if !fit && self.diagnostics.is_empty() && self.program.diagnostics.is_empty() {
            self.internal(declared.span, "a body's results do not fit its signature");
        }
    }

    fn set_attributes(&mut self, f: &FuncRef, function: &mut Function) {
        let has = |name: &str| self.program.attribute(f.decl, name).is_some();
        if has("ForceInline") || has("__unsafeForceInlineEarly") || has("__intrinsic_op") {
            function.inline = Inline::Always;
        } else if has("noinline") {
            function.inline = Inline::Never;
        }
        function.fast_math = has("FastMath");
        if has("PreferRecompute") {
            function.checkpoint.prefer = Prefer::Recompute;
        } else if has("PreferCheckpoint") {
            function.checkpoint.prefer = Prefer::Checkpoint;
        }
        if let Some(attribute) = self.program.attribute(f.decl, "CheckpointBudget").cloned() {
            let bytes = match attribute.args[..] {
                [n] => {
                    let subst = self.program.subst_of(f);
                    self.program.const_int_of(f.decl, n, &subst).and_then(|n| u64::try_from(n).ok())
                }
                _ => None,
            };
            function.checkpoint.budget = bytes;
            if bytes.is_none() {
                let message = "`[CheckpointBudget(n)]` needs a number of bytes that is known when the program is compiled";
                self.error("E0924", attribute.span, message);
            }
        }
    }

    /// The primal type of a pair type; `None` for other types.
    pub(crate) fn pair_of(&self, ty: Ty) -> Option<Ty> {
        match self.program.types[ty] {
            TyKind::DiffPair(t) | TyKind::DiffPtrPair(t) => Some(t),
            _ => None,
        }
    }
}
