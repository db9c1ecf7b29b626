//! Calls: evaluation of arguments, the call itself, and writing of parameters back to their places.
//!
//! Arguments are evaluated left to right. `inout` is copy-in copy-out: the place is evaluated once, read
//! before the call, and written after it, in the order of the parameters. What lies in group-shared memory is passed by its
//! place instead, since other threads read and write there until the function returns.

use std::rc::Rc;

use check::tables::{Arg, Callable, FuncRef, Meaning, SynthesizedMember};
use check::types::{Ty, TyKind};
use check::{ParamSig, Resolved};
use ir::{Op, Type, Value};
use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, ExprId, Span};

use crate::body::{Body, Name};
use crate::declared::{Declared, FlatParam, Key, Role, Variant};
use crate::lowerer::{Making, ir_span};
use crate::places::{Place, PlaceKind};

/// The arguments of a call that have been evaluated: the values of each and their type, and the place to
/// write an output to.
#[derive(Default)]
struct Inputs {
    values: Vec<(Vec<Value>, Ty)>,
    places: Vec<Option<Place>>,
}

impl Inputs {
    fn push(&mut self, value: (Vec<Value>, Ty), place: Option<Place>) {
        self.values.push(value);
        self.places.push(place);
    }
}

impl Body<'_, '_, '_> {
    pub(crate) fn call_expr(
        &mut self,
        e: ExprId,
        func: &Callable,
        base: Option<ExprId>,
        args: &[Arg],
    ) -> Vec<Value> {
        let ty = self.raw_ty(e);
        let span = self.span_of(e);
        let callable = self.lw.program.substitute_callable(func, &self.subst);
        if let Callable::Func(f) = &callable
            && let Resolved::Builtin(name) = self.lw.program.resolve_requirement(f)
        {
            return self.builtin_member(&name, base, args, ty, span);
        }
        let is_plain = matches!(callable, Callable::Func(_));
        let named = callable.clone();
        let callable = match self.lw.canonical(callable) {
            Ok(callable) => callable,
            Err(name) => {
                if let Callable::Func(f) = &named
                    && let Some(TyKind::Struct(own, _)) = f.self_ty.map(|ty| &self.lw.program.types[ty])
                    && self.lw.is_left_to_link(*own)
                {
                    return self.zeros(ty);
                }
                // The type may lack what its interface requires.
                self.lw.program.lacks(&self.subst);
                if self.lw.has_errors() {
                    return self.zeros(ty);
                }
                let what =
                    format_args!("a call of `{name}` whose implementation is only known at run time is");
                self.lw.unsupported_here(span, what);
                return self.zeros(ty);
            }
        };
        if let (true, Callable::Derived(op, inner, asks), Callable::Func(_)) =
            (self.lw.check_finite, &named, &callable)
            && let Ok(Callable::Func(f)) = self.lw.canonical((**inner).clone())
            && self.lw.is_code(f.decl)
        {
            let inner = Box::new(Callable::Func(f));
            self.lw.function(self.b.types, &Callable::Derived(*op, inner, *asks));
        }
        match &callable {
            Callable::Synthesized(member, of) => return self.synthesized(*member, *of, args, span),
            Callable::Func(f) => {
                if self.lw.is_left_to_link(f.decl) || self.lw.is_beyond(f.decl, span) {
                    return self.zeros(ty);
                }
                if self.lw.is_prototype(f.decl) {
                    self.lw.warn_of_prototype(f.decl, span);
                    return self.zeros(ty);
                }
                if let Some(values) = self.intrinsic_call(f, base, args, ty, span) {
                    return values;
                }
                self.lw.note_call(f, span);
            }
            Callable::Derived(..) => {}
        }
        let plain = match &callable {
            Callable::Func(f) => {
                let shared = self.shared(&callable, base, args);
                let is_plain =
                    !self.differentiable || !shared.is_empty() && self.lw.program.is_never_differentiable(f);
                if is_plain { self.lw.plain(self.b.types, f, shared) } else { None }
            }
            _ => None,
        };
        let mut declared = match plain {
            Some(plain) => plain,
            None => self.lw.function(self.b.types, &callable),
        };
        if let Callable::Func(f) = &callable {
            self.lw.note_first_call(f, declared.func, self.func, span);
        }
        if let Callable::Func(named) = &named {
            declared = self.as_declared(named, declared);
        }
        let mut inputs = Inputs::default();
        let mut params = declared.sig.params.iter();
        if declared.sig.has_object {
            let Some(base) = base else {
                let what = "a call of a static member of a type that is only known at run time is";
                return self.unsupported(span, what, ty);
            };
            let object = params.next().map_or(Ty::ERROR, |p| p.ty);
            let (mut values, from) = self.typed(base);
            if from != object {
                // The tag of the value also identifies the associated type.
                let tag = values.first().copied();
                values = self.zeros(object);
                if let (Some(slot), Some(tag)) = (values.first_mut(), tag) {
                    *slot = tag;
                }
            }
            inputs.push((values, object), None);
        }
        if is_plain && declared.sig.has_this {
            let param = params.next();
            let place = self.base_place(base, e);
            match param {
                Some(param) if param.is_reference => {
                    let span = base.map_or(span, |base| self.span_of(base));
                    inputs.push((self.reference_to(place, param, span), param.ty), None);
                }
                param => {
                    let value = (self.read(&place), place.ty);
                    inputs.push(value, param.is_some_and(|p| p.is_output()).then_some(place));
                }
            }
        }
        let default_owner = match func {
            Callable::Func(f) => Some(f.clone()),
            _ => callable.function().cloned(),
        };
        self.arguments(args, default_owner.as_ref(), &mut params, &mut inputs);
        if params.next().is_some() || inputs.values.len() != declared.sig.params.len() {
            return self.internal(span, "a call has too few arguments", ty);
        }
        self.b.span = ir_span(span);
        // A derivative that the program has written has one itself where an operator calls it, whether it is declared
        // differentiable or not: so it has where another derivative calls it.
        let by_operator = matches!(named, Callable::Derived(..));
        let is_quiet = !by_operator && self.differentiable && self.is_plain(&declared);
        let values = self.invoke_as(&declared, is_quiet, inputs.values, &inputs.places, span);
        self.convert(values, declared.sig.ret, ty, span)
    }

    /// The parameters that a call writes and whose arguments are in group-shared memory; `None` is `this`.
    fn shared(&mut self, callable: &Callable, base: Option<ExprId>, args: &[Arg]) -> Rc<[Option<DeclId>]> {
        // The type of each argument that is.
        let own = match base {
            Some(base) => self.is_shared(base).then(|| self.raw_ty(base)),
            None => self.locals.references.get(&Name::This).map(|known| known.1),
        };
        let args = args.iter().map(|arg| match arg {
            Arg::Expr(e) if self.is_shared(*e) => Some(self.raw_ty(*e)),
            Arg::Expr(_) | Arg::Pack(_) | Arg::Default(_) => None,
        });
        let types: Vec<Option<Ty>> = args.collect();
        if own.is_none() && types.iter().all(Option::is_none) {
            return Rc::default();
        }
        let sig = self.lw.program.callable_signature(callable);
        let this = sig.this.iter().map(|param| (param, own));
        let params = this.chain(sig.params.iter().zip(types));
        let is_shared = |param: &ParamSig, ty| param.dir.is_written() && ty == Some(param.ty);
        params.filter(|(param, ty)| is_shared(param, *ty)).map(|(param, _)| param.decl).collect()
    }

    /// Returns true if an expression is a variable in group-shared memory, or a field or an element in it.
    fn is_shared(&mut self, e: ExprId) -> bool {
        let mut at = e;
        loop {
            match self.lw.program.tables.exprs[at].meaning {
                Meaning::Var(decl) => {
                    return self.lw.program.ast.decls[decl].modifiers.has(Modifiers::GROUPSHARED)
                        || self.locals.references.contains_key(&Name::Decl(decl));
                }
                Meaning::This | Meaning::Field { base: None, .. } => {
                    return self.locals.references.contains_key(&Name::This);
                }
                Meaning::Field { base: Some(base), .. } => at = base,
                Meaning::Index { base, .. } => {
                    let ty = self.raw_ty(base);
                    if !matches!(self.lw.program.types[ty], TyKind::Array(..)) {
                        return false;
                    }
                    at = base;
                }
                _ => return false,
            }
        }
    }

    /// Evaluates the arguments for a pack: one for each of the next parameters.
    fn pack_arguments(
        &mut self,
        exprs: &[ExprId],
        params: &mut std::slice::Iter<'_, FlatParam>,
        inputs: &mut Inputs,
    ) {
        let is_output = params.as_slice().first().is_some_and(|p| p.is_output());
        if is_output && !exprs.is_empty() {
            for place in self.pack_places(exprs) {
                let Some(param) = params.next() else { break };
                let values = if param.is_input() { self.read(&place) } else { Vec::new() };
                inputs.push((values, place.ty), Some(place));
            }
            return;
        }
        let found = self.pack_inputs(exprs);
        if let Some(last) = found.len().checked_sub(1) {
            params.nth(last);
        }
        found.into_iter().for_each(|value| inputs.push(value, None));
    }

    /// Evaluates a default argument, an expression of the callee's declaration.
    pub(crate) fn default_argument(&mut self, param: DeclId, owner: &FuncRef) -> (Vec<Value>, Ty) {
        self.lw.program.body(owner.decl);
        let default = match self.lw.program.ast.decls[param].kind {
            DeclKind::Param { default, .. } => default,
            _ => None,
        };
        let Some(default) = default else { return (Vec::new(), Ty::ERROR) };
        let owner = self.lw.program.substitute_func(owner, &self.subst);
        let subst = self.lw.program.subst_of(&owner);
        self.with_subst(subst, |body| body.typed(default))
    }

    /// Calls a function with given values.
    pub(crate) fn call_values(
        &mut self,
        callable: &Callable,
        inputs: Vec<(Vec<Value>, Ty)>,
        span: Span,
    ) -> Vec<Value> {
        if let Callable::Func(f) = callable
            && let Some(values) = self.intrinsic_values(f, &inputs, span)
        {
            return values;
        }
        let declared = self.lw.function(self.b.types, callable);
        let places = vec![None; inputs.len()];
        self.invoke(&declared, inputs, &places, span)
    }

    /// Evaluates the arguments of a call for these parameters: appends their values with types, and the
    /// places to write outputs to. An omitted argument has the default value of the owner's parameter.
    fn arguments(
        &mut self,
        args: &[Arg],
        default_owner: Option<&FuncRef>,
        params: &mut std::slice::Iter<'_, FlatParam>,
        inputs: &mut Inputs,
    ) {
        for arg in args {
            if let Arg::Pack(exprs) = arg {
                self.pack_arguments(exprs, params, inputs);
                continue;
            }
            let Some(param) = params.next() else { break };
            match arg {
                Arg::Pack(_) => {}
                Arg::Expr(a) if param.is_reference => {
                    let place = self.place(*a);
                    inputs.push((self.reference_to(place, param, self.span_of(*a)), param.ty), None);
                }
                Arg::Expr(a) if param.is_output() => {
                    let place = self.place(*a);
                    let values = if param.is_input() { self.read(&place) } else { Vec::new() };
                    inputs.push((values, place.ty), Some(place));
                }
                Arg::Expr(a) => inputs.push(self.typed(*a), None),
                Arg::Default(param) => {
                    let value = match default_owner {
                        Some(owner) => self.default_argument(*param, owner),
                        None => (Vec::new(), Ty::ERROR),
                    };
                    inputs.push(value, None);
                }
            }
        }
    }

    /// The address of a place that is passed as such, rather than by a copy.
    pub(crate) fn reference_to(&mut self, place: Place, param: &FlatParam, span: Span) -> Vec<Value> {
        let of = match self.lw.program.types[param.ty] {
            TyKind::Pointer(of, ..) => of,
            _ => param.ty,
        };
        let same = self.leaf_types(of) == self.leaf_types(place.ty);
        if !same || !matches!(place.kind, PlaceKind::Memory(_)) {
            let message = format_args!(
                "`{}` is updated by atomic operations, or shared: an argument that is no place of its type in memory is",
                param.name
            );
            let values = self.unsupported(span, message, param.ty);
            if let Some(decl) = param.decl {
                let span = self.lw.program.name_span(decl);
                self.lw.note(span, "declared here");
            }
            return values;
        }
        self.address_of_place(place, param.ty, span)
    }

    /// Emits the call. `inputs` has the values for each parameter, in their own types; `places` receive the
    /// parameters that are written.
    pub(crate) fn invoke(
        &mut self,
        declared: &Declared,
        inputs: Vec<(Vec<Value>, Ty)>,
        places: &[Option<Place>],
        span: Span,
    ) -> Vec<Value> {
        let is_quiet = self.differentiable && self.is_plain(declared);
        self.invoke_as(declared, is_quiet, inputs, places, span)
    }

    /// Like [`Self::invoke`]; a call that `is_quiet` has no derivative.
    fn invoke_as(
        &mut self,
        declared: &Declared,
        is_quiet: bool,
        inputs: Vec<(Vec<Value>, Ty)>,
        places: &[Option<Place>],
        span: Span,
    ) -> Vec<Value> {
        let mut args = Vec::new();
        for (param, (values, from)) in declared.sig.params.iter().zip(inputs) {
            if !param.is_input() {
                continue;
            }
            if param.is_reference && from != param.ty {
                let what = "a value for a parameter that is updated by atomic operations is";
                return self.unsupported(span, what, declared.sig.ret);
            }
            let values = self.convert(values, from, param.ty, span);
            let values = if self.detached { self.detach(values) } else { values };
            args.extend(values);
        }
        if !self.fit(&args, &declared.params) {
            return self.internal(span, "arguments do not fit the parameters of a call", declared.sig.ret);
        }
        let func = if self.detached || is_quiet { self.quiet(declared) } else { declared.func };
        let results = self.b.call_func(func, &declared.results, &args);
        let mut returned = Vec::new();
        for (output, values) in self.by_output(&declared.sig, &results) {
            match output.role {
                Role::Returned => returned = values,
                Role::Error => self.exits.error = values,
                Role::Param(k) => {
                    if let Some(Some(place)) = places.get(k) {
                        let values = if self.detached { self.detach(values) } else { values };
                        let values = self.convert(values, output.ty, place.ty, span);
                        self.write(place, values);
                    }
                }
            }
        }
        returned
    }

    /// Returns true if a function never has a derivative, so that its calls in a differentiable function have
    /// none either.
    fn is_plain(&mut self, declared: &Declared) -> bool {
        let key = self.lw.key_of(declared.func).cloned();
        matches!(key, Some(Key::Callable(Callable::Func(f))) if self.lw.program.is_never_differentiable(&f))
    }

    /// The function to call for an interface's requirement in a differentiable function. If the interface
    /// declares the requirement without a derivative, the call has none, even if the implementation has one.
    pub(crate) fn as_declared(&mut self, named: &FuncRef, declared: Rc<Declared>) -> Rc<Declared> {
        let program = &mut self.lw.program;
        if !self.differentiable
            || !program.is_requirement(named.decl)
            || program.is_core(named.decl)
            || !program.is_never_differentiable(named)
        {
            return declared;
        }
        let (sig, params, results) =
            (declared.sig.clone(), declared.params.clone(), declared.results.clone());
        Rc::new(Declared { func: self.quiet(&declared), sig, params, results, span: declared.span })
    }

    /// The function to call under `no_diff`. Functions of the library are called as they are, as their
    /// derivatives at most add zeros, and so are functions that return pointers, as a pointer must move along
    /// with its differential.
    fn quiet(&mut self, declared: &Declared) -> ir::Func {
        let Some(Key::Callable(Callable::Func(f))) = self.lw.key_of(declared.func).cloned() else {
            return declared.func;
        };
        let outputs = declared.sig.outputs();
        let moves = outputs.iter().any(|o| self.lw.is_pointer_like(self.b.types, o.ty));
        if moves || self.lw.program.is_core(f.decl) {
            return declared.func;
        }
        let slots = (declared.params.clone(), declared.results.clone());
        self.lw.variant(&f, Variant::Quiet, declared, slots)
    }

    /// Calls an `__init`, a function that returns the new value.
    pub(crate) fn call_init(&mut self, callable: &Callable, ty: Ty, args: &[Arg], span: Span) -> Vec<Value> {
        let declared = self.lw.function(self.b.types, callable);
        let mut inputs = Inputs::default();
        let default_owner = match callable {
            Callable::Func(f) => Some(f),
            _ => None,
        };
        self.arguments(args, default_owner, &mut declared.sig.params.iter(), &mut inputs);
        self.b.span = ir_span(span);
        let returned = self.invoke(&declared, inputs.values, &inputs.places, span);
        self.convert(returned, declared.sig.ret, ty, span)
    }

    /// Lowers `a op= b` with a user-defined function.
    pub(crate) fn assign_call(
        &mut self,
        e: ExprId,
        func: &FuncRef,
        target: ExprId,
        value: ExprId,
    ) -> Vec<Value> {
        let span = self.span_of(e);
        let func = self.lw.program.substitute_func(func, &self.subst);
        let place = self.place(target);
        let right = self.typed(value);
        let callable = match self.lw.canonical(Callable::Func(func)) {
            Ok(callable) => callable,
            Err(name) => return self.internal(span, format_args!("`{name}` is not resolved"), place.ty),
        };
        let left = self.read(&place);
        self.b.span = ir_span(span);
        let declared = self.lw.function(self.b.types, &callable);
        let writes = declared.sig.params.first().is_some_and(|p| p.is_output());
        let inputs = vec![(left, place.ty), right];
        if writes {
            // `operator+=` writes its first parameter.
            let places = [Some(place.clone()), None];
            self.invoke(&declared, inputs, &places, span);
        } else {
            let values = self.invoke(&declared, inputs, &[None, None], span);
            let values = self.convert(values, declared.sig.ret, place.ty, span);
            self.write(&place, values);
        }
        self.read(&place)
    }

    /// Lowers `dzero` and `dadd` of a type that does not define them.
    fn synthesized(&mut self, member: SynthesizedMember, of: Ty, args: &[Arg], span: Span) -> Vec<Value> {
        let Some(ty) = self.lw.program.differential(of) else { return Vec::new() };
        match member {
            SynthesizedMember::DZero => self.dzero(of, span),
            SynthesizedMember::DAdd => {
                let mut operands = Vec::new();
                for arg in args {
                    if let Arg::Expr(e) = arg {
                        operands.push(self.expr_as(*e, ty, span));
                    }
                }
                let [a, b] = operands.as_slice() else { return self.zeros(ty) };
                let (a, b) = (a.clone(), b.clone());
                self.dadd(of, &a, &b, span)
            }
        }
    }

    /// The sum of two leaves of differentials; a leaf that is not differentiable is taken from the first one.
    /// The sum with a null differential has the type of the other one.
    pub(crate) fn add_leaf(&mut self, a: Value, b: Value, is_tag: bool) -> Value {
        let ty = self.b.func.ty(a);
        if is_tag && ty == Type::U32 {
            let none = self.b.u32(0);
            let is_null = self.b.emit(Op::Eq, &[a, none]);
            return self.b.emit(Op::Select, &[is_null, b, a]);
        }
        if self.b.types.is_differentiable(ty) {
            self.binary_leaf(syntax::ast::BinaryOp::Add, a, b)
        } else {
            a
        }
    }

    /// Lowers a requirement that a built-in type fulfils natively, by its name.
    fn builtin_member(
        &mut self,
        name: &str,
        base: Option<ExprId>,
        args: &[Arg],
        ty: Ty,
        span: Span,
    ) -> Vec<Value> {
        let mut operands: Vec<(Vec<Value>, Ty)> = Vec::new();
        if let Some(base) = base
            && !matches!(
                self.lw.program.tables.exprs[base].meaning,
                check::tables::Meaning::Type(_) | check::tables::Meaning::Namespace(_)
            )
        {
            operands.push(self.typed(base));
        }
        for arg in args {
            if let Arg::Expr(e) = arg {
                operands.push(self.typed(*e));
            }
        }
        self.builtin_values(name, operands, ty, span)
    }

    pub(crate) fn builtin_values(
        &mut self,
        name: &str,
        operands: Vec<(Vec<Value>, Ty)>,
        ty: Ty,
        span: Span,
    ) -> Vec<Value> {
        use syntax::ast::BinaryOp;
        let op = match name {
            "add" | "dadd" => Some(BinaryOp::Add),
            "sub" => Some(BinaryOp::Sub),
            "mul" | "scale" => Some(BinaryOp::Mul),
            "div" => Some(BinaryOp::Div),
            "mod" => Some(BinaryOp::Rem),
            "shl" => Some(BinaryOp::Shl),
            "shr" => Some(BinaryOp::Shr),
            "bitAnd" | "and" => Some(BinaryOp::BitAnd),
            "bitOr" | "or" => Some(BinaryOp::BitOr),
            "bitXor" => Some(BinaryOp::BitXor),
            "equals" => Some(BinaryOp::Eq),
            "lessThan" => Some(BinaryOp::Lt),
            "lessThanOrEquals" => Some(BinaryOp::Le),
            _ => None,
        };
        let leaf = |k: usize| operands.get(k).and_then(|o| o.0.first().copied());
        match (name, op) {
            (_, Some(op)) => {
                let (Some(a), Some(b)) = (leaf(0), leaf(1)) else { return self.zeros(ty) };
                if op.is_comparison() && self.lw.program.is_compared_whole(operands[0].1) {
                    return vec![self.compare_whole(op, a, b)];
                }
                let value = self.binary_leaf(op, a, b);
                let layout = self.layout(ty);
                match layout.leaves.first() {
                    Some(l) if l.ty == Type::BOOL && op.is_comparison() => vec![self.one_answer(op, value)],
                    Some(l) => vec![self.convert_leaf(value, l.ty)],
                    None => Vec::new(),
                }
            }
            ("neg", _) => match leaf(0) {
                Some(v) => vec![self.map_leaf(v, |body, v| body.b.emit(Op::Neg, &[v]))],
                None => self.zeros(ty),
            },
            ("not" | "bitNot", _) => match leaf(0) {
                Some(v) => vec![self.map_leaf(v, |body, v| body.b.emit(Op::Not, &[v]))],
                None => self.zeros(ty),
            },
            ("dzero", _) => self.zeros(ty),
            ("toInt" | "toInt64" | "toUInt" | "toUInt64" | "toFloat" | "__init" | "$init" | "init", _) => {
                match operands.into_iter().next() {
                    Some((values, from)) => self.convert(values, from, ty, span),
                    None => self.zeros(ty),
                }
            }
            _ => self.unsupported(span, format_args!("the built-in member `{name}` is"), ty),
        }
    }

    /// Emits a test that all lanes of a `bool` vector or matrix are true.
    pub(crate) fn all_lanes(&mut self, value: Value) -> Value {
        self.fold_lanes(value, &Op::And)
    }

    /// Reduces the lanes of a vector or matrix to a scalar with a binary operation.
    pub(crate) fn fold_lanes(&mut self, value: Value, op: &Op) -> Value {
        let n = match self.b.types[self.b.func.ty(value)] {
            ir::TypeData::Vector(_, n) | ir::TypeData::Array(_, n) => n,
            _ => return value,
        };
        let mut result = None;
        for k in 0..n {
            let lane = self.b.emit(Op::Extract(k), &[value]);
            let lane = self.fold_lanes(lane, op);
            result = Some(match result {
                None => lane,
                Some(other) => self.b.emit(op.clone(), &[other, lane]),
            });
        }
        result.unwrap_or(value)
    }
}

/// Builds an adapter for a requirement of an interface: a call of the type's own function, which has another
/// signature.
pub(crate) fn build_adapter(making: Making<'_, '_>, own: &FuncRef) -> Option<ir::Function> {
    let Making { lw, types, declared } = making;
    // A static function takes no object.
    let own_sig = lw.program.callable_signature(&Callable::Func(own.clone()));
    let skip = usize::from(declared.sig.has_this && own_sig.this.is_none());
    let callee = lw.passed(types, &Callable::Func(own.clone()), &declared.sig.params[skip..]);
    let (mut body, bound) = Body::with_params(lw, types, declared);
    let span = declared.span;
    let mut args = Vec::new();
    for (k, param) in callee.sig.params.iter().enumerate().filter(|p| p.1.is_input()) {
        let (values, from) = match (bound.get(k + skip), param.decl) {
            (Some(values), _) => (values.clone(), declared.sig.params[k + skip].ty),
            (None, Some(decl)) => body.default_argument(decl, own),
            (None, None) => return None,
        };
        let is_given = declared.sig.params.get(k + skip).is_some_and(|given| given.is_reference);
        if param.is_reference != is_given || param.is_reference && from != param.ty {
            let what = "a function that updates a parameter by atomic operations, for this requirement, is";
            body.lw.unsupported(callee.span, what);
            return None;
        }
        args.extend(body.convert(values, from, param.ty, span));
    }
    let results = body.b.call_func(callee.func, &callee.results, &args);
    let given = body.by_output(&callee.sig, &results);
    let mut results = Vec::new();
    for output in declared.sig.outputs() {
        match given.iter().find(|g| g.0.role.behind(skip) == output.role) {
            Some((from, values)) => results.extend(body.convert(values.clone(), from.ty, output.ty, span)),
            // It throws nothing.
            None if output.role == Role::Error => results.extend(body.zeros(output.ty)),
            // A parameter that the function does not write keeps its value.
            None => {
                results.extend(output.role.param().and_then(|k| bound.get(k)).cloned().unwrap_or_default())
            }
        }
    }
    body.finish(results, declared)
}

/// Builds a wrapper that calls the function. The wrapper's own slots and witness determine its derivative.
pub(crate) fn build_call(making: Making<'_, '_>, f: &FuncRef) -> Option<ir::Function> {
    let Making { lw, types, declared } = making;
    let callable = lw.canonical(Callable::Func(f.clone())).ok()?;
    let callee = lw.function(types, &callable);
    let (mut body, args) = Body::flat(lw, types, declared);
    let results = body.b.call_func(callee.func, &callee.results, &args);
    body.finish(results, declared)
}
