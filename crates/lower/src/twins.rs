//! Pointers that are made of parts: `f : (p, i) ↦ q` gives the pair `(f(p, i), f(d, i))`.
//!
//! A pointer-like value carries its differential along (see [`crate::leaves::Part::is_shadow`]). Made of parts, as in
//! `DPtr at(uint o) { return { buffer, offset + o }; }`, it has none. A function that gets a pointer and gives one, and
//! does nothing else, is a map of pointers: the differential of its result is the function of the differential of its
//! argument, which is how a user writes its forward derivative by hand. So that is its forward derivative here, if it
//! has no other. A pointer that is made of parts elsewhere in what is differentiated has no differential: gradients
//! through it would be lost, which is said.

use std::ops::Range;

use check::Derivatives;
use check::signature::Subst;
use check::tables::{Callable, FuncRef};
use check::types::Ty;
use ir::{Func, Function, Op, Region, Types, Value};
use rustc_hash::FxHashSet;
use syntax::{Diagnostic, FileId, Span};

use crate::Lowerer;
use crate::body::Body;
use crate::derivatives::jvp_slots;
use crate::functions::{Declared, Key};

/// How a function with a backward derivative moves pointers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Moves {
    /// It gives none.
    Not,
    /// As this forward derivative says.
    By(FuncRef),
    /// Both halves in the same way.
    Both,
}

/// A part of a pointer-like type that is a pointer itself.
struct PointerPart {
    own: Range<usize>,
    ty: Ty,
    /// Where it is in the differential.
    theirs: Range<usize>,
}

/// The shadow of a local that is a pointer: slots, and how many of a place's indices lead to them.
#[derive(Clone, Debug)]
pub(crate) struct Stale {
    start: usize,
    len: usize,
    n_indices: usize,
}

impl Lowerer<'_> {
    /// Notes that a pointer-like value without differential was made: the first leaf of its shadow.
    pub(crate) fn note_bare_pointer(&mut self, func: Func, shadow: Value) {
        self.bare_pointers.entry(func).or_default().push(shadow);
    }

    /// Gives a function of pointers its forward derivative, or reports pointers that have no differential.
    pub(crate) fn request_twin(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        declared: &Declared,
    ) -> Option<Func> {
        let is_map = declared.sig.outputs().iter().all(|o| o.diff.is_none());
        if !self.has_twin(types, f, declared, is_map) {
            return None;
        }
        let (params, results) = jvp_slots(declared);
        Some(self.flat_once(Key::Twin(f.clone()), declared, params, results))
    }

    /// Reverse mode of a function with a backward derivative calls the function itself, which moves pointers without
    /// their differentials, and whose own derivative must not see what belongs to this one. If it takes pointers, this
    /// is called in its place: `(params…) -> (results…, params…)`. Also: whether the results are the same.
    pub(crate) fn request_moved(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        derivatives: &Derivatives,
        declared: &Declared,
    ) -> (Option<Func>, bool) {
        let inputs = declared.sig.params.iter().filter(|p| p.is_input());
        if !inputs.clone().any(|p| self.is_pointer_like(types, p.ty)) {
            return (None, false);
        }
        let gives = declared.sig.outputs().iter().any(|o| self.is_pointer_like(types, o.ty));
        let by = match &derivatives.fwd {
            Some(user) if gives => Moves::By(user.clone()),
            None if gives && self.has_twin(types, f, declared, true) => Moves::Both,
            _ => Moves::Not,
        };
        let is_same = !matches!(by, Moves::By(_));
        let params = declared.params.clone();
        let results = declared.results.iter().chain(&params).cloned().collect();
        (Some(self.flat_once(Key::Moved(f.clone(), by), declared, params, results)), is_same)
    }

    /// Whether the pointers that a function gives have the differentials that it gives for the differentials of those
    /// that it takes. If they have none, that is reported.
    fn has_twin(&mut self, types: &mut Types, f: &FuncRef, declared: &Declared, is_map: bool) -> bool {
        let Some(span) = self.makes_bare_pointers(declared.func, &mut FxHashSet::default()) else {
            return false;
        };
        let takes =
            declared.sig.params.iter().filter(|p| p.is_input()).any(|p| self.is_pointer_like(types, p.ty));
        let gives = declared.sig.outputs().iter().any(|o| self.is_pointer_like(types, o.ty));
        if gives && !takes {
            // made of nothing that has a differential: its callers say what it is to them
            return false;
        }
        let pure = is_map && !self.has_effects(declared.func, &mut FxHashSet::default());
        if takes && gives && pure && self.program.at_differential(f).is_some() {
            return true;
        }
        let message = "this pointer has no differential: what is read through it is a constant here";
        let known = self.diagnostics.iter().any(|d| d.primary.span == span);
        if !known {
            self.diagnostics.push(Diagnostic::warning("E41032", span, message).help(
                "make it in a function that takes the pointer and returns the new one, or give that function a \
                 '[ForwardDerivative]'",
            ));
        }
        false
    }

    /// Whether values of a type carry a differential along.
    pub(crate) fn is_pointer_like(&mut self, types: &mut Types, ty: Ty) -> bool {
        self.shadow_of(types, ty).is_some()
    }

    /// Where a function makes a pointer-like value without differential that is used, itself or by a constructor.
    fn makes_bare_pointers(&self, func: Func, seen: &mut FxHashSet<Func>) -> Option<Span> {
        let function = &self.module.funcs[func];
        if !function.has_body() || !seen.insert(func) {
            return None;
        }
        if let Some(bare) = self.bare_pointers.get(&func) {
            let is_used = |v: &Value| {
                function.insts.values().any(|i| i.args.contains(v))
                    || function.regions.values().any(|r| r.results.contains(v))
            };
            let made = |v: Value| function.insts.values().find(|i| i.results.contains(&v));
            if let Some(inst) = bare.iter().filter(|v| is_used(v)).find_map(|&v| made(v)) {
                return Some(span_of(inst.span));
            }
        }
        let calls = function.insts.values().filter_map(|i| match i.op {
            Op::Call(callee) => Some((callee, i.span)),
            _ => None,
        });
        for (callee, span) in calls {
            if self.pointer_makers.contains(&callee) && self.makes_bare_pointers(callee, seen).is_some() {
                return Some(span_of(span));
            }
        }
        None
    }

    /// Whether a function does more than compute its results.
    fn has_effects(&self, func: Func, seen: &mut FxHashSet<Func>) -> bool {
        let function = &self.module.funcs[func];
        if !seen.insert(func) {
            return false;
        }
        !function.has_body() || self.region_has_effects(function, function.body(), seen)
    }

    fn region_has_effects(&self, function: &Function, region: Region, seen: &mut FxHashSet<Func>) -> bool {
        function.regions[region].insts.iter().any(|&inst| {
            let data = &function.insts[inst];
            let own = match data.op {
                Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => false,
                Op::Local | Op::Load | Op::Store | Op::BufferLoad(_) | Op::Assert(_) => false,
                Op::Call(callee) => self.has_effects(callee, seen),
                _ => !data.op.is_pure(),
            };
            own || data.regions.iter().any(|&r| self.region_has_effects(function, r, seen))
        })
    }
}

/// `(params…) ↦ (results…)` with the pointers among the results taking along those of the differentials.
pub(crate) fn build_twin(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    declared: &Declared,
) -> Option<Function> {
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(declared.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let results = body.call_with_twin(f, &all)?;
    body.finish(results, declared)
}

/// What stands for a function in reverse mode; with the parameters after the results.
pub(crate) fn build_moved(
    lw: &mut Lowerer<'_>,
    types: &mut Types,
    f: &FuncRef,
    by: &Moves,
    declared: &Declared,
) -> Option<Function> {
    let own = lw.function(types, &Callable::Func(f.clone()));
    let jvp = match by {
        Moves::By(user) => {
            let (params, results) = jvp_slots(&own);
            let key = Key::WitnessJvp(f.clone(), Some(user.clone()));
            Some((lw.flat_once(key, &own, params.clone(), results.clone()), params, results))
        }
        Moves::Both | Moves::Not => None,
    };
    let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
    body.b.span = crate::ir_span(declared.span);
    let all: Vec<Value> = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
    let mut results = match jvp {
        Some((jvp, params, results)) => {
            let mut args = all.clone();
            args.extend(params[all.len()..].iter().map(|slot| body.b.zero(slot.ty, false)));
            let results = body.b.call_func(jvp, &results, &args);
            results[..own.results.len()].to_vec()
        }
        None if *by == Moves::Both => body.call_with_twin(f, &all)?,
        None => {
            let args = body.without_shadows(&own, &all);
            body.b.call_func(own.func, &own.results, &args).to_vec()
        }
    };
    results.extend(all);
    body.finish(results, declared)
}

impl Body<'_, '_, '_> {
    /// The results of a function, and of the function for the differentials as the shadows of pointers.
    fn call_with_twin(&mut self, f: &FuncRef, all: &[Value]) -> Option<Vec<Value>> {
        let own = self.lw.function(self.b.types, &Callable::Func(f.clone()));
        let twin = self.lw.program.at_differential(f)?;
        let twin = self.lw.canonical(Callable::Func(twin)).ok()?;
        let twin = self.lw.function(self.b.types, &twin);
        let args = self.without_shadows(&own, all);
        let primals = self.b.call_func(own.func, &own.results, &args);
        let mut at = 0;
        let mut args = Vec::new();
        for (param, theirs) in own.sig.params.iter().zip(&twin.sig.params).filter(|p| p.0.is_input()) {
            let values = &all[at..at + self.layout(param.ty).leaves.len()];
            at += values.len();
            match self.differential_of_pointer(param.ty, theirs.ty, values) {
                Some(differential) => args.extend(differential),
                None => args.extend_from_slice(values),
            }
        }
        let differentials = self.b.call_func(twin.func, &twin.results, &args);
        let (mut at, mut at_twin) = (0, 0);
        let mut results = Vec::new();
        for (output, theirs) in own.sig.outputs().iter().zip(twin.sig.outputs()) {
            let (n, n_twin) = (self.layout(output.ty).leaves.len(), self.layout(theirs.ty).leaves.len());
            let (primal, d) = (&primals[at..at + n], &differentials[at_twin..at_twin + n_twin]);
            results.extend(self.with_shadow(output.ty, primal, d));
            at += n;
            at_twin += n_twin;
        }
        Some(results)
    }

    /// The arguments of a function whose pointers have no differentials: those that they had belong to this derivative.
    fn without_shadows(&mut self, own: &Declared, all: &[Value]) -> Vec<Value> {
        let mut at = 0;
        let mut args = Vec::new();
        for param in own.sig.params.iter().filter(|p| p.is_input()) {
            let n = self.layout(param.ty).leaves.len();
            let values = self.without_shadow(param.ty, &all[at..at + n]);
            args.extend(values);
            at += n;
        }
        args
    }

    /// A value without the differential that it carries along.
    pub(crate) fn without_shadow(&mut self, ty: Ty, values: &[Value]) -> Vec<Value> {
        let Some(shadow) = self.lw.shadow_of(self.b.types, ty) else { return values.to_vec() };
        let mut values = values.to_vec();
        for part in self.pointer_parts(ty) {
            let bare = self.without_shadow(part.ty, &values[part.own.clone()]);
            values[part.own].copy_from_slice(&bare);
        }
        for value in values.get_mut(shadow).into_iter().flatten() {
            *value = self.b.zero(self.b.func.ty(*value), false);
        }
        values
    }

    /// A pointer-like value whose shadow is the differential it is paired with, and so for its parts that are pointers.
    pub(crate) fn with_shadow(&mut self, ty: Ty, primal: &[Value], differential: &[Value]) -> Vec<Value> {
        let mut values = primal.to_vec();
        self.set_shadow(ty, &mut values, differential);
        values
    }

    fn set_shadow(&mut self, ty: Ty, values: &mut [Value], differential: &[Value]) {
        let Some(shadow) = self.lw.shadow_of(self.b.types, ty) else { return };
        if shadow.len() > differential.len() || shadow.end > values.len() {
            return;
        }
        let n = shadow.len();
        values[shadow].copy_from_slice(&differential[..n]);
        for part in self.pointer_parts(ty) {
            self.set_shadow(part.ty, &mut values[part.own], &differential[part.theirs]);
        }
    }

    /// The differential that a pointer-like value carries, without that one's own.
    pub(crate) fn shadow_values(&mut self, ty: Ty, values: &[Value]) -> Option<Vec<Value>> {
        let shadow = self.lw.shadow_of(self.b.types, ty)?;
        let mut differential = values.get(shadow)?.to_vec();
        for part in self.pointer_parts(ty) {
            let inner = self.shadow_values(part.ty, &values[part.own]).unwrap_or_default();
            for (slot, value) in differential[part.theirs].iter_mut().zip(inner) {
                *slot = value;
            }
        }
        Some(differential)
    }

    /// The differential as a value of its type.
    fn differential_of_pointer(&mut self, ty: Ty, differential: Ty, values: &[Value]) -> Option<Vec<Value>> {
        let mut leaves = self.shadow_values(ty, values)?;
        let layout = self.layout(differential);
        let rest = layout.leaves.get(leaves.len()..).unwrap_or_default().to_vec();
        leaves.extend(rest.iter().map(|leaf| self.b.zero(leaf.ty, false)));
        Some(leaves)
    }

    /// The shadow of a place that starts at a slot, if a part of it is written that is no pointer itself.
    pub(crate) fn stale_shadow(&mut self, ty: Ty, part: Ty, start: usize, n_indices: usize) -> Option<Stale> {
        let shadow = self.lw.shadow_of(self.b.types, ty)?;
        let is_pointer = self.lw.is_pointer_like(self.b.types, part);
        (!is_pointer).then(|| Stale { start: start + shadow.start, len: shadow.len(), n_indices })
    }

    /// A pointer of which a part is written is made of parts.
    pub(crate) fn forget(&mut self, indices: &[Value], stale: &[Stale]) {
        for part in stale {
            for slot in part.start..part.start + part.len {
                let indices = &indices[..part.n_indices];
                let old = self.read_indexed(slot, indices);
                let ty = self.b.func.ty(old);
                let zero = self.b.zero(ty, false);
                self.write_indexed(slot, indices, zero);
                if let (Some(func), true) = (self.func, slot == part.start) {
                    self.lw.note_bare_pointer(func, zero);
                }
            }
        }
    }

    /// The parts of a pointer-like type that are pointers themselves.
    fn pointer_parts(&mut self, ty: Ty) -> Vec<PointerPart> {
        let mut element = ty;
        while let Some((inner, _)) = self.lw.array_of(element) {
            element = inner;
        }
        let layout = self.layout(element);
        let Some(differential) = layout.parts.iter().find(|p| p.is_shadow).map(|p| p.ty) else {
            return Vec::new();
        };
        let target = self.layout(differential);
        let mut parts = Vec::new();
        for part in layout.parts.iter().filter(|p| !p.is_shadow) {
            let theirs = target.parts.iter().find(|p| p.name == part.name && !p.is_shadow);
            if let Some(theirs) = theirs
                && self.lw.is_pointer_like(self.b.types, part.ty)
            {
                parts.push(PointerPart {
                    own: part.offset..part.offset + part.len,
                    ty: part.ty,
                    theirs: theirs.offset..theirs.offset + theirs.len,
                });
            }
        }
        parts
    }
}

fn span_of(span: ir::Span) -> Span {
    Span { file: FileId(span.file), start: span.start, end: span.end }
}
