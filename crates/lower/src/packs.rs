//! Packs: a value of a pack consists of its elements' leaves in order, like a tuple's.
//!
//! A parameter that is a pack becomes one parameter for each element, so derivative operators see a pair for
//! each. `expand e` is `e` once for each element, where [`check::Subst::element`] selects the element that
//! `each` denotes. The generic arguments are known here, so the number of elements is, too.

use check::types::{GenericArg, Ty, TyKind};
use ir::Value;
use syntax::ast::PackPart;
use syntax::{ExprId, Span};

use crate::body::Body;
use crate::flat::take;
use crate::places::{Place, PlaceKind};

impl Body<'_, '_, '_> {
    /// The types of the elements of an expression that is a pack.
    fn pack_elements(&mut self, e: ExprId) -> Option<Vec<Ty>> {
        let ty = self.expr_ty(e);
        match &self.lw.program.types[ty] {
            TyKind::Pack(parts) => Some(parts.clone()),
            _ => None,
        }
    }

    /// The arguments for a parameter that is a pack: the elements' values and types.
    pub(crate) fn pack_inputs(&mut self, exprs: &[ExprId]) -> Vec<(Vec<Value>, Ty)> {
        let mut out = Vec::new();
        for &e in exprs {
            let values = self.expr(e);
            match self.pack_elements(e) {
                Some(parts) => {
                    let mut rest = &values[..];
                    for part in parts {
                        out.push((take(&mut rest, self.n_leaves(part)).to_vec(), part));
                    }
                }
                None => {
                    let ty = self.expr_ty(e);
                    out.push((values, ty));
                }
            }
        }
        out
    }

    /// The arguments for a parameter that is a pack and is written: the elements' places.
    pub(crate) fn pack_places(&mut self, exprs: &[ExprId]) -> Vec<Place> {
        let mut out = Vec::new();
        for &e in exprs {
            let place = self.place(e);
            match self.pack_elements(e) {
                Some(parts) => {
                    for (idx, part) in parts.into_iter().enumerate() {
                        out.push(self.part_place(place.clone(), idx, part));
                    }
                }
                None => out.push(place),
            }
        }
        out
    }

    /// The number of elements of an expansion.
    fn shape_count(&mut self, shape: &GenericArg, span: Span) -> usize {
        let shape = self.lw.program.substitute_arg(shape, &self.subst);
        match self.lw.program.shape_count(&shape) {
            Some(n) => n,
            None => {
                if let Some(why) = self.lw.program.no_such_shape(&shape) {
                    let call = self.func.and_then(|func| self.lw.call_from_outside(func));
                    self.lw.error("E30412", call.unwrap_or(span), why);
                    if call.is_some() {
                        self.lw.note(span, "it is asked for here");
                    }
                    return 0;
                }
                self.internal(span, "the elements of a pack are not known", Ty::VOID);
                0
            }
        }
    }

    /// Runs `run` for each element of an expansion.
    fn for_each<R>(&mut self, shape: &GenericArg, span: Span, mut run: impl FnMut(&mut Self) -> R) -> Vec<R> {
        let n = self.shape_count(shape, span);
        let mut out = Vec::new();
        for idx in 0..n {
            let mut subst = self.subst.clone();
            subst.element = Some(idx);
            out.push(self.with_subst(subst, &mut run));
        }
        out
    }

    /// Lowers `expand e`.
    pub(crate) fn expand(&mut self, inner: ExprId, shape: &GenericArg, span: Span) -> Vec<Value> {
        self.for_each(shape, span, |body| body.expr(inner)).into_iter().flatten().collect()
    }

    /// Lowers `expand e` to the places of its elements.
    pub(crate) fn expand_place(&mut self, inner: ExprId, shape: &GenericArg, ty: Ty, span: Span) -> Place {
        let places = self.for_each(shape, span, |body| body.place_as_context(inner));
        Place { ty, kind: PlaceKind::Group(places) }
    }

    /// Lowers `each e`.
    pub(crate) fn each_place(&mut self, inner: ExprId, ty: Ty, span: Span) -> Place {
        let Some(idx) = self.subst.element else {
            let values = self.internal(span, "`each` outside of an expansion", ty);
            return Place::value(ty, values);
        };
        let base = self.place_as_context(inner);
        self.part_place(base, idx, ty)
    }

    /// Selects elements of a pack or tuple by their position.
    pub(crate) fn pack_part(&mut self, base: ExprId, part: PackPart, ty: Ty) -> Place {
        let base = self.place_as_context(base);
        let n = match &self.lw.program.types[base.ty] {
            TyKind::Tuple(parts) | TyKind::Pack(parts) => parts.len(),
            _ => 0,
        };
        let range = match part {
            PackPart::First => return self.part_place(base, 0, ty),
            PackPart::Last => return self.part_place(base, n.saturating_sub(1), ty),
            PackPart::TrimFirst => 1.min(n)..n,
            PackPart::TrimLast => 0..n.saturating_sub(1),
        };
        let (TyKind::Tuple(parts) | TyKind::Pack(parts)) = self.lw.program.types[ty].clone() else {
            return Place { ty, kind: PlaceKind::Group(Vec::new()) };
        };
        let places = range.zip(parts).map(|(idx, part)| self.part_place(base.clone(), idx, part)).collect();
        Place { ty, kind: PlaceKind::Group(places) }
    }

    /// Selects elements of a tuple.
    pub(crate) fn tuple_swizzle(&mut self, base: ExprId, comps: &[u32], ty: Ty) -> Place {
        let base = self.place_as_context(base);
        let parts = match &self.lw.program.types[ty] {
            TyKind::Tuple(parts) => parts.clone(),
            _ => Vec::new(),
        };
        let places = comps.iter().zip(parts);
        let places = places.map(|(&idx, part)| self.part_place(base.clone(), idx as usize, part)).collect();
        Place { ty, kind: PlaceKind::Group(places) }
    }

    /// Writes the elements of a group of places.
    pub(crate) fn write_group(&mut self, places: &[Place], values: Vec<Value>) {
        let mut rest = &values[..];
        for place in places {
            let own = take(&mut rest, self.n_leaves(place.ty)).to_vec();
            self.write(place, own);
        }
    }
}
