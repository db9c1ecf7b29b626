//! Operations on values of interface type: conversions, type tests, and dynamic dispatch.
//!
//! A member of an existential type is a function of its own: a `switch` on the tag that calls the
//! implementation of each type. So is a generic function whose type argument is an existential type: it
//! *opens* the value, and each case is an instance for one type. Differentiation sees ordinary functions. A
//! value without a type (tag 0) yields zeros.

use check::Resolved;
use check::tables::{Callable, FuncRef};
use check::types::{GenericArg, Ty, TyKind};
use ir::{Func, Function, Op, Type, Value};
use rustc_hash::FxHashSet;
use syntax::ast::{AccessorKind, DeclKind};
use syntax::{ExprId, Span};

use crate::body::Body;
use crate::declared::{Declared, Key, Role};
use crate::existential::Existential;
use crate::flat::take;
use crate::lowerer::{Lowerer, Making, ir_span};

/// Longer arrays are not converted element by element.
const MAX_ELEMENTS: u32 = 64;

/// How a function depends on the type in an existential value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// The existential type.
    pub(crate) ty: Ty,
    object: Object,
}

/// The value whose type determines the case.
#[derive(Clone, Copy, Debug)]
enum Object {
    /// The receiver; for a static member, the value that it is accessed through.
    This,
    /// An argument whose type is the generic parameter.
    Param { generic: usize, param: usize },
}

/// Converts a part of one type to the corresponding part of another.
type Conversion<'a, B> = dyn Fn(&mut B, Vec<Value>, Ty, Ty) -> Vec<Value> + 'a;

/// The value that is open in a case of a dispatch, and the type that it is opened as.
#[derive(Clone, Copy)]
struct Opened {
    ty: Ty,
    tag: u32,
    inner: Ty,
}

/// An operand of a case: the object whose type decides, or another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Object,
    Other,
}

impl Lowerer<'_> {
    /// Returns an opening if a function's body is a dispatch on the type in a value.
    pub(crate) fn opening(&mut self, f: &FuncRef) -> Option<Opening> {
        if let Some(ty) = f.self_ty
            && self.program.is_existential(ty)
            && !matches!(self.program.ast.decls[f.decl].kind, DeclKind::Init { .. })
        {
            return (self.program.is_requirement(f.decl) || !self.program.is_static(f.decl))
                .then_some(Opening { ty, object: Object::This });
        }
        if f.args.is_empty() || self.intrinsic_name(f.decl).is_some() {
            return None;
        }
        let params = self.program.all_generic_params(f.decl);
        for (generic, (&param, arg)) in params.iter().zip(&f.args).enumerate() {
            let GenericArg::Type(ty) = *arg else { continue };
            if !self.program.is_existential(ty) || !self.program.opens(f.decl, param) {
                continue;
            }
            if let Some(param) = self.program.first_of_type(f.decl, param) {
                return Some(Opening { ty, object: Object::Param { generic, param } });
            }
        }
        None
    }

    /// Keeps the place of the first call of a function with these generic arguments.
    pub(crate) fn note_first_call(&mut self, f: &FuncRef, callee: Func, caller: Option<Func>, span: Span) {
        if !f.args.is_empty() && Some(callee) != caller {
            self.first_calls.entry(callee).or_insert((caller, span));
        }
    }

    /// The call by which code that is not generic came to a generic function, if `func` is one: what is wrong with its
    /// generic arguments is said there.
    pub(crate) fn call_from_outside(&self, func: Func) -> Option<Span> {
        let (mut at, mut call) = (func, None);
        let mut seen = FxHashSet::default();
        while let Some(Key::Callable(Callable::Func(f))) = self.key_of(at)
            && !f.args.is_empty()
            && seen.insert(at)
        {
            let &(caller, span) = self.first_calls.get(&at)?;
            call = Some(span);
            let Some(caller) = caller else { break };
            at = caller;
        }
        call
    }

    /// Keeps the place of a call that a diagnostic may be about.
    pub(crate) fn note_call(&mut self, f: &FuncRef, span: Span) {
        if self.program.is_core(f.decl) {
            return;
        }
        let has_body = self.program.ast.decls[f.decl].kind.body().is_some();
        if !has_body {
            self.called.entry(f.decl).or_insert(span);
        } else if !f.args.is_empty() {
            self.called.insert(f.decl, span);
        }
        let Some(opening) = self.opening(f) else { return };
        let place = match opening.object {
            Object::This => span,
            Object::Param { generic, .. } => {
                let params = self.program.all_generic_params(f.decl);
                self.program.first_dispatch(f.decl, params[generic]).unwrap_or(span)
            }
        };
        self.conformances.note_call(opening.ty, place);
    }

    /// The function for one type that a function of an existential type dispatches to.
    fn specialised(&mut self, f: &FuncRef, opening: Opening, inner: Ty) -> FuncRef {
        let mut f = f.clone();
        match opening.object {
            Object::This => {
                f.self_ty = Some(inner);
                // This is the parameter of an extension of all conforming types.
                let own = self.program.own_params(f.decl).len();
                let outer = f.args.len().saturating_sub(own);
                if !self.program.is_requirement(f.decl) {
                    for arg in &mut f.args[..outer] {
                        if *arg == GenericArg::Type(opening.ty) {
                            *arg = GenericArg::Type(inner);
                        }
                    }
                } else if let Some(interface) = self.program.container_of(f.decl) {
                    self.program.own_arguments(inner, interface, &mut f.args[..outer]);
                }
            }
            Object::Param { generic, .. } => f.args[generic] = GenericArg::Type(inner),
        }
        f
    }

    /// The type of the value that a call of a static member needs for its dispatch, if it needs one.
    pub(crate) fn needs_object(&mut self, callable: &Callable) -> Option<Ty> {
        let f = callable.function()?.clone();
        if !self.program.is_static(f.decl) {
            return None;
        }
        self.opening(&f).filter(|o| matches!(o.object, Object::This)).map(|o| o.ty)
    }
}

/// Builds the body of a function that dispatches.
pub(crate) fn build(making: Making<'_, '_>, f: &FuncRef, opening: Opening) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let (mut body, bound) = Body::with_params(lw, types, declared);
    let object = match opening.object {
        Object::This => 0,
        Object::Param { param, .. } => param + usize::from(declared.sig.has_this),
    };
    let Some(&tag) = bound.get(object).and_then(|leaves| leaves.first()) else {
        body.internal(declared.span, "a dispatch without a value to decide it", declared.sig.ret);
        return None;
    };
    let shared = body.lw.existential(body.b.types, opening.ty);
    let results: Vec<Type> = declared.results.iter().map(|slot| slot.ty).collect();
    let values = body.switch_on_type(&shared, tag, &results, &mut |body, idx| {
        let opened = Opened { ty: opening.ty, tag: shared.types[idx].tag, inner: shared.types[idx].ty };
        body.dispatch_case(f, opening, declared, &bound, object, opened)
    });
    body.finish(values, declared)
}

impl Body<'_, '_, '_> {
    /// Runs the case for the type that a tag stands for. The results have the given types, and are zeros if
    /// there is no type.
    pub(crate) fn switch_on_type(
        &mut self,
        shared: &Existential,
        tag: Value,
        results: &[Type],
        case: &mut dyn FnMut(&mut Self, usize) -> Vec<Value>,
    ) -> Vec<Value> {
        self.joined(results.iter().copied(), |body, start| {
            let arm = |idx: usize| {
                body.arm(|body| {
                    let values = case(body, idx);
                    body.set_slots(start, values.into_iter().take(results.len()));
                })
            };
            let mut arms: Vec<_> = (0..shared.types.len()).map(arm).collect();
            if !arms.is_empty() {
                arms.push(body.arm(|_| {}));
                let tags = shared.types.iter().map(|placed| i64::from(placed.tag)).collect();
                body.join(Op::Switch(tags), &[tag], &arms);
            }
        })
    }

    /// Converts a value of one type to the existential type `to`.
    pub(crate) fn close(&mut self, shared: &Existential, to: Ty, idx: usize, values: &[Value]) -> Vec<Value> {
        let mut leaves = self.zeros(to);
        let placed = &shared.types[idx];
        if let Some(tag) = leaves.first_mut() {
            *tag = self.b.u32(placed.tag);
        }
        for (&slot, &value) in placed.slots.iter().zip(values) {
            leaves[slot] = value;
        }
        leaves
    }

    /// Extracts the value in an existential value, as a value of the type with this index.
    pub(crate) fn open(&mut self, shared: &Existential, idx: usize, values: &[Value]) -> Vec<Value> {
        shared.types[idx].slots.iter().filter_map(|&slot| values.get(slot).copied()).collect()
    }

    /// Emits a test that a tag is one of these.
    pub(crate) fn is_one_of(&mut self, tag: Value, tags: impl Iterator<Item = u32>) -> Value {
        let mut hit = self.b.bool(false);
        for wanted in tags {
            let wanted = self.b.u32(wanted);
            let same = self.b.emit(Op::Eq, &[tag, wanted]);
            hit = self.b.emit(Op::Or, &[hit, same]);
        }
        hit
    }

    /// Emits an assertion that two tags are the same; `tag`, one of them, may also be of no type.
    fn assert_same(&mut self, tags: [Value; 2], tag: Value, message: String, span: Span) {
        let outer = std::mem::replace(&mut self.b.span, ir_span(span));
        let none = self.b.u32(0);
        let right = self.b.emit(Op::Eq, &tags);
        let empty = self.b.emit(Op::Eq, &[tag, none]);
        let fits = self.b.emit(Op::Or, &[right, empty]);
        self.b.effect(Op::Assert(message.into()), &[fits]);
        self.b.span = outer;
    }

    /// Emits an assertion that a value is of the required type.
    fn expect_tag(&mut self, tag: Value, wanted: u32, ty: Ty, span: Span) {
        let wanted = self.b.u32(wanted);
        let message = format!("the value is not of type `{}`", self.lw.program.type_name(ty));
        self.assert_same([tag, wanted], tag, message, span);
    }

    /// Emits an assertion that the differential of an existential value belongs to the type in it.
    pub(crate) fn check_differential(
        &mut self,
        ty: Ty,
        primal: &[Value],
        differential: &[Value],
        span: Span,
    ) {
        if !self.lw.program.is_existential(ty) {
            return;
        }
        let (Some(&own), Some(&given)) = (primal.first(), differential.first()) else { return };
        let message = "the differential is of another type than the value".to_owned();
        self.assert_same([own, given], given, message, span);
    }

    // ---- conversions

    /// Converts from or to an existential type.
    pub(crate) fn convert_existential(
        &mut self,
        values: Vec<Value>,
        from: Ty,
        to: Ty,
        span: Span,
    ) -> Vec<Value> {
        let into = self.lw.program.is_existential(to);
        if !self.lw.program.is_existential(from) {
            let shared = self.lw.existential(self.b.types, to);
            let mut fitting = (0..shared.types.len()).filter(|&k| shared.types[k].ty == from);
            let found = fitting.next();
            if let (Some(_), Some(_), TyKind::Assoc(..)) = (found, fitting.next(), &self.lw.program.types[to])
            {
                let what = "a value that may belong to several of the types in a value of interface type is";
                return self.unsupported(span, what, to);
            }
            return match found {
                Some(idx) => self.close(&shared, to, idx, &values),
                None if matches!(self.lw.program.types[to], TyKind::Interface(..)) => {
                    // The next round will know about this type.
                    self.lw.note_conversion(from, to);
                    self.zeros(to)
                }
                None => {
                    let (name, into) = (self.lw.program.type_name(from), self.lw.program.type_name(to));
                    let what =
                        format!("`{name}`, which is of no type that a `{into}` has in this program, is");
                    self.unsupported(span, what, to)
                }
            };
        }
        let shared = self.lw.existential(self.b.types, from);
        let Some(&tag) = values.first() else { return self.zeros(to) };
        let results = self.leaf_types(to);
        self.switch_on_type(&shared, tag, &results, &mut |body, idx| {
            let inner = shared.types[idx].ty;
            let opened = body.open(&shared, idx, &values);
            let fits = match (into, &body.lw.program.types[to]) {
                (false, _) => inner == to,
                (true, TyKind::Interface(..)) => true,
                (true, _) => {
                    let target = body.lw.existential(body.b.types, to);
                    target.types.iter().any(|t| t.ty == inner)
                }
            };
            if fits {
                return body.convert(opened, inner, to, span);
            }
            body.expect_tag(tag, 0, to, span);
            body.zeros(to)
        })
    }

    /// Lowers `value is ty` and `value as ty`.
    pub(crate) fn type_test(&mut self, value: ExprId, to: Ty, cast: bool, span: Span) -> Vec<Value> {
        let (values, from) = self.typed(value);
        let is_interface = matches!(self.lw.program.types[to], TyKind::Interface(..));
        if !self.lw.program.is_existential(from) {
            let fits = from == to || is_interface && self.lw.program.conforms(from, to);
            let mut result = match (cast, fits) {
                (true, true) => self.convert(values, from, to, span),
                (true, false) => self.zeros(to),
                (false, _) => Vec::new(),
            };
            result.push(self.b.bool(fits));
            return result;
        }
        let shared = self.lw.existential(self.b.types, from);
        let Some(&tag) = values.first() else { return self.zeros(Ty::BOOL) };
        let fits: Vec<bool> = shared
            .types
            .iter()
            .map(|t| t.ty == to || is_interface && self.lw.program.conforms(t.ty, to))
            .collect();
        let mut result = if cast {
            let results = self.leaf_types(to);
            self.switch_on_type(&shared, tag, &results, &mut |body, idx| {
                if !fits[idx] {
                    return body.zeros(to);
                }
                let opened = body.open(&shared, idx, &values);
                body.convert(opened, shared.types[idx].ty, to, span)
            })
        } else {
            Vec::new()
        };
        let wanted = shared.types.iter().zip(&fits).filter(|t| *t.1).map(|(placed, _)| placed.tag);
        result.push(self.is_one_of(tag, wanted));
        result
    }

    // ---- calls

    /// Calls the implementation of one type: opens the arguments and closes the results.
    fn dispatch_case(
        &mut self,
        f: &FuncRef,
        opening: Opening,
        declared: &Declared,
        bound: &[Vec<Value>],
        object: usize,
        opened: Opened,
    ) -> Vec<Value> {
        let span = declared.span;
        let target = self.lw.specialised(f, opening, opened.inner);
        let skip = usize::from(declared.sig.has_object);
        let operand = |k| if k == object { Operand::Object } else { Operand::Other };
        let resolved = self.lw.program.resolve_requirement(&target);
        let callable = match resolved {
            Resolved::Func(_) => match self.lw.canonical(Callable::Func(target.clone())) {
                Ok(callable) => callable,
                Err(_) => return self.not_provided(&target, span),
            },
            Resolved::Builtin(name) => {
                let sig = self.lw.program.func_signature(&target);
                let this = sig.this.as_ref().map(|t| t.ty);
                let tys: Vec<Ty> = this.into_iter().chain(sig.params.iter().map(|p| p.ty)).collect();
                let mut operands = Vec::new();
                for (k, (param, ty)) in declared.sig.params[skip..].iter().zip(tys).enumerate() {
                    let values = bound[k + skip].clone();
                    operands.push((self.open_as(values, param.ty, ty, opened, operand(k + skip), span), ty));
                }
                let values = self.builtin_values(&name, operands, sig.ret, span);
                return self.close_as(values, sig.ret, declared.sig.ret, opened, span);
            }
            Resolved::Synthesized(..) | Resolved::Unresolved => {
                return match self.field_case(f, declared, bound, opened, span) {
                    Some(values) => values,
                    None => self.not_provided(&target, span),
                };
            }
        };
        let callee = self.lw.passed(self.b.types, &callable, &declared.sig.params[skip..]);
        let mut args = Vec::new();
        for (k, param) in callee.sig.params.iter().enumerate().filter(|p| p.1.is_input()) {
            let Some(values) = bound.get(k + skip).cloned() else { continue };
            let given = &declared.sig.params[k + skip];
            let from = given.ty;
            if param.is_reference != given.is_reference || param.is_reference && from != param.ty {
                let what =
                    "an atomic operation on a parameter that is a copy, as in any call by an interface, is";
                self.lw.unsupported(callee.span, what);
                return Vec::new();
            }
            args.extend(self.open_as(values, from, param.ty, opened, operand(k + skip), span));
        }
        if !self.fit(&args, &callee.params) {
            let name = self.lw.func_name(f);
            self.lw.unsupported(
                callee.span,
                format_args!("an implementation of `{name}` with other parameters is"),
            );
            return Vec::new();
        }
        let results = self.b.call_func(callee.func, &callee.results, &args);
        let groups = self.by_output(&callee.sig, &results);
        let mut closed = Vec::new();
        for output in declared.sig.outputs() {
            match groups.iter().find(|g| g.0.role.behind(skip) == output.role) {
                Some((from, values)) if output.role == Role::Param(object) && from.ty != opened.inner => {
                    // The base comes first in a derived struct.
                    let shared = self.lw.existential(self.b.types, opened.ty);
                    let Some(idx) = shared.position(opened.tag) else { continue };
                    let mut whole = self.open(&shared, idx, &bound[object]);
                    let n = values.len().min(whole.len());
                    whole[..n].copy_from_slice(&values[..n]);
                    closed.extend(self.close(&shared, opened.ty, idx, &whole));
                }
                Some((from, values)) => {
                    closed.extend(self.close_as(values.clone(), from.ty, output.ty, opened, span));
                }
                None if output.role == Role::Error => closed.extend(self.zeros(output.ty)),
                None => {}
            }
        }
        closed
    }

    fn not_provided(&mut self, target: &FuncRef, span: Span) -> Vec<Value> {
        if !self.lw.has_errors() {
            let name = self.lw.func_name(target);
            self.lw.unsupported(span, format_args!("the member `{name}`, called by its interface, is"));
        }
        Vec::new()
    }

    /// Lowers an accessor of a property that the type fulfils with a field.
    fn field_case(
        &mut self,
        f: &FuncRef,
        declared: &Declared,
        bound: &[Vec<Value>],
        opened: Opened,
        span: Span,
    ) -> Option<Vec<Value>> {
        let decl = &self.lw.program.ast.decls[f.decl];
        let DeclKind::Accessor { kind, .. } = decl.kind else { return None };
        let member = FuncRef { decl: decl.parent?, self_ty: Some(opened.inner), ..f.clone() };
        let Resolved::Func(field) = self.lw.program.resolve_requirement(&member) else { return None };
        let layout = self.layout(opened.inner);
        let part = layout.parts.iter().find(|p| p.decl == Some(field.decl))?;
        let range = part.offset..part.offset + part.len;
        let shared = self.lw.existential(self.b.types, opened.ty);
        let idx = shared.position(opened.tag)?;
        let mut this = self.open(&shared, idx, bound.first()?);
        match kind {
            AccessorKind::Get => {
                let values = this[range].to_vec();
                Some(self.close_as(values, part.ty, declared.sig.ret, opened, span))
            }
            AccessorKind::Set => {
                let (values, from) = (bound.last()?.clone(), declared.sig.params.last()?.ty);
                let values = self.open_as(values, from, part.ty, opened, Operand::Other, span);
                this.splice(range, values);
                Some(self.close(&shared, opened.ty, idx, &this))
            }
            AccessorKind::Ref => None,
        }
    }

    /// Converts a value from a type of the dispatch to the type of the case.
    fn open_as(
        &mut self,
        values: Vec<Value>,
        from: Ty,
        to: Ty,
        opened: Opened,
        operand: Operand,
        span: Span,
    ) -> Vec<Value> {
        if from == to {
            return values;
        }
        let is_object = operand == Operand::Object;
        if self.lw.program.is_existential(from) {
            let shared = self.lw.existential(self.b.types, from);
            let fits =
                |ty: Ty| ty == to || is_object && matches!(self.lw.program.types[to], TyKind::Struct(..));
            let idx = shared.position(opened.tag).filter(|&k| fits(shared.types[k].ty));
            return match (idx, values.first()) {
                (Some(idx), Some(&tag)) => {
                    if !is_object {
                        self.expect_tag(tag, opened.tag, to, span);
                    }
                    // A method of a base struct takes the base.
                    let values = self.open(&shared, idx, &values);
                    self.convert(values, shared.types[idx].ty, to, span)
                }
                _ => self.convert(values, from, to, span),
            };
        }
        let convert =
            |body: &mut Self, values, from, to| body.open_as(values, from, to, opened, Operand::Other, span);
        self.by_parts(values, from, to, span, &convert)
    }

    /// Converts a value from a type of the case to the type of the dispatch.
    fn close_as(&mut self, values: Vec<Value>, from: Ty, to: Ty, opened: Opened, span: Span) -> Vec<Value> {
        if from == to {
            return values;
        }
        if self.lw.program.is_existential(to) {
            let shared = self.lw.existential(self.b.types, to);
            if let Some(idx) = shared.position(opened.tag).filter(|&k| shared.types[k].ty == from) {
                return self.close(&shared, to, idx, &values);
            }
        }
        let convert = |body: &mut Self, values, from, to| body.close_as(values, from, to, opened, span);
        self.by_parts(values, from, to, span, &convert)
    }

    /// Converts part by part: pairs, optionals, tuples, instances of the same generic struct, and arrays.
    fn by_parts(
        &mut self,
        values: Vec<Value>,
        from: Ty,
        to: Ty,
        span: Span,
        convert: &Conversion<'_, Self>,
    ) -> Vec<Value> {
        if let (Some((a, n)), Some((b, m))) = (self.lw.array_of(from), self.lw.array_of(to))
            && n == m
            && n <= MAX_ELEMENTS
        {
            let mut elements = Vec::new();
            for k in 0..n {
                let element = self.elements_at(&values, k);
                elements.push(convert(self, element, a, b));
            }
            return self.array_of_elements(to, b, elements);
        }
        let Some(parts) = self.matching_parts(from, to) else { return self.convert(values, from, to, span) };
        let (mut rest, mut out) = (&values[..], Vec::new());
        for (from, to) in parts {
            let part = take(&mut rest, self.n_leaves(from)).to_vec();
            out.extend(convert(self, part, from, to));
        }
        out
    }

    /// The parts of two types that have the same structure.
    fn matching_parts(&mut self, from: Ty, to: Ty) -> Option<Vec<(Ty, Ty)>> {
        let alike = match (&self.lw.program.types[from], &self.lw.program.types[to]) {
            (TyKind::Struct(a, _), TyKind::Struct(b, _)) => a == b,
            (TyKind::DiffPair(_), TyKind::DiffPair(_))
            | (TyKind::Optional(_), TyKind::Optional(_))
            | (TyKind::Tuple(_), TyKind::Tuple(_)) => true,
            _ => false,
        };
        let (a, b) = (self.layout(from), self.layout(to));
        (alike && a.parts.len() == b.parts.len())
            .then(|| a.parts.iter().zip(&b.parts).map(|(a, b)| (a.ty, b.ty)).collect())
    }
}
