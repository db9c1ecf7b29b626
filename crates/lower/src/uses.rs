//! Custom splitting of values, `x ↦ (x.use(), x)`, for types that define `use`.
//!
//! A value that is read twice is the map `x ↦ (x, x)`, whose transpose is addition. A type whose `use` has
//! custom derivatives replaces that map: in differentiable functions each read of a variable of the type, or
//! of a struct that contains it, is a call of `use`, and the variable then holds the value that is left. So
//! the backward derivative of `use` receives the cotangent that later reads have accumulated as `this.d`, and
//! the cotangent of this read as its argument, and leaves their sum in `this.d`, in whatever way the type
//! adds. The cotangent starts as the default of the differential, zero.

use std::rc::Rc;

use check::tables::FuncRef;
use check::types::{Ty, TyKind};
use check::{Derivatives, Direction, View};
use ir::{Function, Types, Witness};

use crate::body::Body;
use crate::declared::{Declared, FlatParam, FlatSig, Key, Role, Variant};
use crate::derivatives::{jvp_slots, vjp_slots};
use crate::layout::{MAX_DEPTH, UsePart};
use crate::lowerer::{Lowerer, Making};
use crate::places::{Place, PlaceKind};
use crate::witness::{call_user, user_input};

impl Lowerer<'_> {
    /// The parts of a type that have a custom `use`.
    pub(crate) fn use_parts(&mut self, types: &mut Types, ty: Ty) -> Rc<[UsePart]> {
        if let Some(known) = self.types.uses.get(&ty) {
            return known.clone();
        }
        let mut parts = Vec::new();
        if self.program.has_custom_uses() {
            self.collect_use_parts(types, ty, 0, &mut parts, 0);
        }
        let parts: Rc<[UsePart]> = parts.into();
        self.types.uses.insert(ty, parts.clone());
        parts
    }

    fn collect_use_parts(
        &mut self,
        types: &mut Types,
        ty: Ty,
        offset: usize,
        out: &mut Vec<UsePart>,
        depth: u32,
    ) {
        if depth > MAX_DEPTH || !matches!(self.program.types[ty], TyKind::Struct(..) | TyKind::Tuple(_)) {
            return;
        }
        let layout = self.layout(types, ty);
        if let Some(func) = self.program.custom_use(ty) {
            out.push(UsePart { offset, len: layout.leaves.len(), func });
            return;
        }
        for part in layout.parts.iter().filter(|p| !p.is_shadow && !p.no_diff) {
            self.collect_use_parts(types, part.ty, offset + part.offset, out, depth + 1);
        }
    }

    /// Declares `(x) -> (x.use(), x)`.
    fn use_function(&mut self, types: &mut Types, func: &FuncRef, ty: Ty) -> Rc<Declared> {
        let key = Key::Variant(func.clone(), Variant::Use(ty));
        if let Some(declared) = self.declared.get(&key) {
            return declared.clone();
        }
        let diff = self.diff_map(types, ty);
        let mut this = FlatParam::new("this", ty, Direction::InOut);
        this.diff.clone_from(&diff);
        self.declare(
            types,
            key,
            FlatSig { params: vec![this], has_this: true, ret_diff: diff, ..FlatSig::returning(ty) },
        )
    }

    /// Declares the derivatives of such a function.
    pub(crate) fn request_use(&mut self, func: &FuncRef, ty: Ty, declared: &Declared) -> Witness {
        let jvp = self.variant(func, Variant::UseJvp(ty), declared, jvp_slots(declared));
        let mut witness = Witness { jvp: Some(jvp), ..Witness::default() };
        if self.use_derivatives(func).bwd.is_some() {
            witness.vjp = Some(self.variant(func, Variant::UseVjp(ty), declared, vjp_slots(declared)));
        }
        witness
    }

    /// The user's derivatives of a `use`.
    fn use_derivatives(&mut self, func: &FuncRef) -> Derivatives {
        let view = View::of(self.program.asking(func.decl));
        self.program.derivatives_of(func, view)
    }
}

/// Builds the body of [`Variant::Use`].
pub(crate) fn build_use(making: Making<'_, '_>, func: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let user = lw.user_derivative(types, func)?;
    let (mut body, all) = Body::flat(lw, types, declared);
    let mut results = body.b.call_func(user.func, &user.results, &all);
    results.extend(all);
    body.finish(results, declared)
}

/// Builds `(x, ẋ) ↦ (x.use(), x, d use(x, ẋ), ẋ)`.
pub(crate) fn build_use_jvp(making: Making<'_, '_>, func: &FuncRef, ty: Ty) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let map = lw.diff_map(types, ty)?;
    let user = lw.use_derivatives(func).fwd;
    let user = user.map(|user| lw.user_derivative(types, &user));
    let (mut body, all) = Body::flat(lw, types, declared);
    let (primal, tangents) = all.split_at(body.n_leaves(ty));
    let (value, slope) = match user {
        Some(user) => {
            let user = user?;
            let differential = body.spread(&map, primal, &mut &tangents[..]);
            let this = user.sig.params.first()?.ty;
            let pair = user_input(&mut body, this, ty, primal, Some(differential), user.span);
            let given = call_user(&mut body, &user, &[(pair, this)])?;
            let (value, d) = body.split_pair(ty, &given.first()?.1);
            (value.to_vec(), body.gather(&map, d))
        }
        None => (primal.to_vec(), tangents.to_vec()),
    };
    let results = [&value, primal, &slope, tangents].concat();
    body.finish(results, declared)
}

/// Builds `(x, ȳ, x̄) ↦ x̄'` with the user's backward derivative, which receives the cotangent accumulated so
/// far in its pair.
pub(crate) fn build_use_vjp(making: Making<'_, '_>, func: &FuncRef, ty: Ty) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let map = lw.diff_map(types, ty)?;
    let user = lw.use_derivatives(func).bwd?;
    let user = lw.user_derivative(types, &user)?;
    let (mut body, all) = Body::flat(lw, types, declared);
    let (primal, mut cotangents) = all.split_at(body.n_leaves(ty));
    let read = body.spread(&map, primal, &mut cotangents);
    let gathered = body.spread(&map, primal, &mut cotangents);
    let [this, other] = &user.sig.params[..] else { return None };
    let pair = user_input(&mut body, this.ty, ty, primal, Some(gathered), user.span);
    let given = call_user(&mut body, &user, &[(pair, this.ty), (read, other.ty)])?;
    let (_, values) = given.iter().find(|g| g.0.role == Role::Param(0))?;
    let d = body.split_pair(ty, values).1;
    let results = body.gather(&map, d);
    body.finish(results, declared)
}

impl Body<'_, '_, '_> {
    /// Returns true if reads of this type are calls of `use` here.
    pub(crate) fn is_split(&mut self, ty: Ty) -> bool {
        self.splits && !self.detached && !self.lw.use_parts(self.b.types, ty).is_empty()
    }

    /// Reads a local, by calls of `use` if it has any; see the head of this file.
    pub(crate) fn read_used(&mut self, place: &Place) -> Vec<ir::Value> {
        let mut values = self.read(place);
        let PlaceKind::Slots { start, indices, .. } = &place.kind else { return values };
        if !self.is_split(place.ty) {
            return values;
        }
        for part in self.lw.use_parts(self.b.types, place.ty).iter() {
            let range = part.offset..part.offset + part.len;
            let ty = part.func.self_ty.unwrap_or(place.ty);
            let function = self.lw.use_function(self.b.types, &part.func, ty);
            let results = self.b.call_func(function.func, &function.results, &values[range.clone()]);
            let (value, rest) = results.split_at(part.len);
            for (slot, &left) in range.clone().zip(rest) {
                self.write_indexed(start + slot, indices, left);
            }
            values[range].copy_from_slice(value);
        }
        values
    }
}
