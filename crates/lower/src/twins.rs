//! Differentials of pointers that are built from parts: `f : (p, i) ↦ q` gives the pair `(f(p, i), f(d, i))`.
//!
//! A pointer-like value carries its differential along (see [`crate::layout::Part::is_shadow`]). Built from
//! parts, as in `DPtr at(uint o) { return { buffer, offset + o }; }`, it has none. A function that takes a
//! pointer and returns one, and does nothing else, is a map of pointers: the differential of its result is
//! the same function of the differential of its argument, which is how its forward derivative would be
//! written by hand. So this becomes its forward derivative if it has no other. A pointer that is built from
//! parts elsewhere in a differentiated function has no differential. Gradients through it would be lost, so a
//! warning is given.

use check::Derivatives;
use check::tables::{Callable, FuncRef};
use check::types::Ty;
use ir::{Func, Function, Op, Region, Types, Value};
use rustc_hash::FxHashSet;
use syntax::{Diagnostic, Span};

use crate::body::Body;
use crate::declared::{Declared, Moves, Variant};
use crate::derivatives::jvp_slots;
use crate::lowerer::{Lowerer, Making, source_span};
use crate::places::Stale;

/// The outputs that a twin is meant to compute.
#[derive(Clone, Copy)]
enum Outputs {
    Pointers,
    All,
}

impl Lowerer<'_> {
    /// Records that a pointer-like value without a differential was built. `shadow` is the first leaf of its
    /// shadow.
    pub(crate) fn note_bare_pointer(&mut self, func: Func, shadow: Value) {
        self.pointers.bare.entry(func).or_default().push(shadow);
    }

    /// Gives a function of pointers its forward derivative, or warns about pointers that have no
    /// differential.
    pub(crate) fn request_twin(
        &mut self,
        types: &mut Types,
        f: &FuncRef,
        declared: &Declared,
    ) -> Option<Func> {
        if !self.has_twin(types, f, declared, Outputs::All) {
            return None;
        }
        Some(self.variant(f, Variant::Twin, declared, jvp_slots(declared)))
    }

    /// Declares `(params…) -> (results…, params…)`, which reverse mode calls in place of a function that
    /// takes pointers and has a backward derivative: the function itself moves pointers without their
    /// differentials, and the differentials that its arguments carry must not reach its own derivative. Also
    /// returns true if the results are the same as the function's.
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
            None if gives && self.has_twin(types, f, declared, Outputs::Pointers) => Moves::Both,
            _ => Moves::Not,
        };
        let is_same = !matches!(by, Moves::By(_));
        let params = declared.params.clone();
        let results = declared.results.iter().chain(&params).cloned().collect();
        (Some(self.variant(f, Variant::Moved(by), declared, (params, results))), is_same)
    }

    /// Returns true if the differentials of the pointers that a function returns are what the function
    /// returns for the differentials of its arguments. If such pointers have no differential, a warning is
    /// given.
    fn has_twin(&mut self, types: &mut Types, f: &FuncRef, declared: &Declared, wanted: Outputs) -> bool {
        let Some(span) = self.makes_bare_pointers(declared.func, &mut FxHashSet::default()) else {
            return false;
        };
        let takes =
            declared.sig.params.iter().filter(|p| p.is_input()).any(|p| self.is_pointer_like(types, p.ty));
        let gives = declared.sig.outputs().iter().any(|o| self.is_pointer_like(types, o.ty));
        if gives && !takes {
            // The pointer is made without any pointer that has a differential; the callers decide what it
            // means.
            return false;
        }
        let is_map = match wanted {
            Outputs::All => declared.sig.outputs().iter().all(|o| o.diff.is_none()),
            Outputs::Pointers => true,
        };
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

    /// Returns true if values of a type carry a differential along.
    pub(crate) fn is_pointer_like(&mut self, types: &mut Types, ty: Ty) -> bool {
        self.shadow_of(types, ty).is_some()
    }

    /// The location where a function, or a constructor it calls, builds a pointer-like value without a
    /// differential that is used.
    fn makes_bare_pointers(&self, func: Func, seen: &mut FxHashSet<Func>) -> Option<Span> {
        let function = &self.module.funcs[func];
        if !function.has_body() || !seen.insert(func) {
            return None;
        }
        if let Some(bare) = self.pointers.bare.get(&func) {
            let is_used = |v: &Value| {
                function.insts.values().any(|i| i.args.contains(v))
                    || function.regions.values().any(|r| r.results.contains(v))
            };
            let made = |v: Value| function.insts.values().find(|i| i.results.contains(&v));
            if let Some(inst) = bare.iter().filter(|v| is_used(v)).find_map(|&v| made(v)) {
                return Some(source_span(inst.span));
            }
        }
        let calls = function.insts.values().filter_map(|i| match i.op {
            Op::Call(callee) => Some((callee, i.span)),
            _ => None,
        });
        for (callee, span) in calls {
            if self.pointers.makers.contains(&callee) && self.makes_bare_pointers(callee, seen).is_some() {
                return Some(source_span(span));
            }
        }
        None
    }

    /// Returns true if a function does more than compute its results.
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

/// Builds `(params…) ↦ (results…)`, in which the resulting pointers carry the resulting pointers of the
/// differentials.
pub(crate) fn build_twin(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let (mut body, all) = Body::flat(lw, types, declared);
    let results = body.call_with_twin(f, &all)?;
    body.finish(results, declared)
}

/// Builds the function that replaces `f` in reverse mode and returns the parameters after the results.
pub(crate) fn build_moved(making: Making<'_, '_>, f: &FuncRef, by: &Moves) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let own = lw.function(types, &Callable::Func(f.clone()));
    let jvp = match by {
        Moves::By(user) => {
            let (params, results) = jvp_slots(&own);
            let variant = Variant::Jvp(Some(user.clone()));
            Some((lw.variant(f, variant, &own, jvp_slots(&own)), params, results))
        }
        Moves::Both | Moves::Not => None,
    };
    let (mut body, all) = Body::flat(lw, types, declared);
    let mut results = match jvp {
        Some((jvp, params, results)) => {
            let mut args = all.clone();
            args.extend(params[all.len()..].iter().map(|slot| body.b.zero(slot.ty)));
            let results = body.b.call_func(jvp, &results, &args);
            results[..own.results.len()].to_vec()
        }
        None if *by == Moves::Both => body.call_with_twin(f, &all)?,
        None => {
            let args = body.without_shadows(&own, &all);
            body.b.call_func(own.func, &own.results, &args)
        }
    };
    results.extend(all);
    body.finish(results, declared)
}

impl Body<'_, '_, '_> {
    /// Calls a function, and its instance for the differentials, whose results become the shadows of the
    /// resulting pointers.
    fn call_with_twin(&mut self, f: &FuncRef, all: &[Value]) -> Option<Vec<Value>> {
        let own = self.lw.function(self.b.types, &Callable::Func(f.clone()));
        let twin = self.lw.program.at_differential(f)?;
        let twin = self.lw.user_derivative(self.b.types, &twin)?;
        let args = self.without_shadows(&own, all);
        let primals = self.b.call_func(own.func, &own.results, &args);
        let mut args = Vec::new();
        let inputs = self.by_param(&own.sig, &mut &all[..]).into_iter();
        for ((param, theirs), values) in own.sig.params.iter().zip(&twin.sig.params).zip(inputs) {
            args.extend(self.shadow_for(param.ty, &values, theirs.ty, 0).unwrap_or(values));
        }
        let differentials = self.b.call_func(twin.func, &twin.results, &args);
        let primals = self.by_output(&own.sig, &primals);
        let differentials = self.by_output(&twin.sig, &differentials);
        let outputs = primals.iter().zip(&differentials);
        Some(outputs.flat_map(|((output, p), (_, d))| self.with_shadow(output.ty, p, d)).collect())
    }

    /// Removes the differentials that the arguments of a function carry, as these belong to the current
    /// derivative.
    fn without_shadows(&mut self, own: &Declared, all: &[Value]) -> Vec<Value> {
        let inputs = self.by_param(&own.sig, &mut &all[..]);
        let params = own.sig.params.iter().zip(&inputs);
        params.flat_map(|(param, values)| self.without_shadow(param.ty, values)).collect()
    }

    /// A value without the differential that it carries.
    pub(crate) fn without_shadow(&mut self, ty: Ty, values: &[Value]) -> Vec<Value> {
        let mut values = values.to_vec();
        for (own, _) in self.shadow_leaves(ty) {
            if let Some(value) = values.get_mut(own) {
                *value = self.b.zero(self.b.func.ty(*value));
            }
        }
        values
    }

    /// A pointer-like value with `differential` as its shadow, and likewise for its parts that are pointers.
    pub(crate) fn with_shadow(&mut self, ty: Ty, primal: &[Value], differential: &[Value]) -> Vec<Value> {
        let mut values = primal.to_vec();
        for (own, theirs) in self.shadow_leaves(ty) {
            if let (Some(value), Some(&d)) = (values.get_mut(own), differential.get(theirs)) {
                *value = d;
            }
        }
        values
    }

    /// The differential that a pointer-like value carries, as the leaves of `whole` after the first `skip`.
    /// The differential's own shadow is zero.
    pub(crate) fn shadow_for(
        &mut self,
        ty: Ty,
        values: &[Value],
        whole: Ty,
        skip: usize,
    ) -> Option<Vec<Value>> {
        let shadow = self.lw.shadow_of(self.b.types, ty)?;
        let mut differential = values[..skip].to_vec();
        differential.extend(values.get(shadow)?);
        for (own, theirs) in self.shadow_leaves(ty) {
            differential[skip + theirs] = values[own];
        }
        self.fill(&mut differential, whole);
        Some(differential.split_off(skip))
    }

    /// The shadow of a place that starts at a slot, if writing this part, which is not itself a pointer,
    /// invalidates it.
    pub(crate) fn stale_shadow(&mut self, ty: Ty, part: Ty, start: usize, n_indices: usize) -> Option<Stale> {
        let shadow = self.lw.shadow_of(self.b.types, ty)?;
        let is_pointer = self.lw.is_pointer_like(self.b.types, part);
        (!is_pointer).then(|| Stale { start: start + shadow.start, len: shadow.len(), n_indices })
    }

    /// Clears shadows: a pointer of which a part is written counts as built from parts.
    pub(crate) fn forget(&mut self, indices: &[Value], stale: &[Stale]) {
        for part in stale {
            for slot in part.start..part.start + part.len {
                let indices = &indices[..part.n_indices];
                let old = self.read_indexed(slot, indices);
                let ty = self.b.func.ty(old);
                let zero = self.b.zero(ty);
                self.write_indexed(slot, indices, zero);
                if let (Some(func), true) = (self.func, slot == part.start) {
                    self.lw.note_bare_pointer(func, zero);
                }
            }
        }
    }

    /// The leaves of a pointer-like type that hold differentials, each with the leaf of the differential that
    /// it holds: the shadow, and then the shadows of the parts that are themselves pointers.
    fn shadow_leaves(&mut self, ty: Ty) -> Vec<(usize, usize)> {
        let mut element = ty;
        while let Some((inner, _)) = self.lw.array_of(element) {
            element = inner;
        }
        let layout = self.layout(element);
        let Some(shadow) = layout.parts.iter().find(|p| p.is_shadow) else { return Vec::new() };
        let mut leaves: Vec<(usize, usize)> = (0..shadow.len).map(|k| (shadow.offset + k, k)).collect();
        let target = self.layout(shadow.ty);
        for part in layout.parts.iter().filter(|p| !p.is_shadow) {
            if let Some(theirs) = target.parts.iter().find(|p| p.name == part.name && !p.is_shadow) {
                let inner = self.shadow_leaves(part.ty).into_iter().filter(|(_, k)| *k < theirs.len);
                leaves.extend(inner.map(|(own, k)| (part.offset + own, theirs.offset + k)));
            }
        }
        leaves
    }
}
