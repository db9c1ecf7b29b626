//! Functions that the compiler makes, as functions of leaves: their parameters are the leaves of a signature's
//! parameters, and often tangents or cotangents after them.

use check::signature::Subst;
use check::types::Ty;
use ir::{Slot, Types, Value};
use rustc_hash::FxHashMap;

use crate::body::Body;
use crate::declared::{Declared, FlatSig, Output, Role};
use crate::layout::DiffMap;
use crate::lowerer::{Lowerer, ir_span};

/// Takes the first leaves of a list; none if there are too few.
pub(crate) fn take<'v>(rest: &mut &'v [Value], n: usize) -> &'v [Value] {
    rest.split_off(..n).unwrap_or_default()
}

impl<'l, 'p, 't> Body<'l, 'p, 't> {
    /// Starts the body of a function that is not in the source, and declares its parameters.
    pub(crate) fn flat(
        lw: &'l mut Lowerer<'p>,
        types: &'t mut Types,
        declared: &Declared,
    ) -> (Self, Vec<Value>) {
        let mut body = Body::new(lw, types, Subst::default(), Ty::VOID);
        body.b.span = ir_span(declared.span);
        let all = declared.params.iter().map(|slot| body.b.param(slot.clone())).collect();
        (body, all)
    }

    /// Like [`Body::flat`], with the leaves of each parameter; there are none for an `out` parameter.
    pub(crate) fn with_params(
        lw: &'l mut Lowerer<'p>,
        types: &'t mut Types,
        declared: &Declared,
    ) -> (Self, Vec<Vec<Value>>) {
        let (mut body, all) = Body::flat(lw, types, declared);
        let bound = body.by_param(&declared.sig, &mut &all[..]);
        (body, bound)
    }

    /// The number of leaves of a type.
    pub(crate) fn n_leaves(&mut self, ty: Ty) -> usize {
        self.layout(ty).leaves.len()
    }

    /// Takes the leaves of each parameter; there are none for an `out` parameter.
    pub(crate) fn by_param(&mut self, sig: &FlatSig, rest: &mut &[Value]) -> Vec<Vec<Value>> {
        let leaves = |p: &crate::declared::FlatParam| {
            let n = if p.is_input() { self.n_leaves(p.ty) } else { 0 };
            take(rest, n).to_vec()
        };
        sig.params.iter().map(leaves).collect()
    }

    /// The leaves of each output of a call.
    pub(crate) fn by_output(&mut self, sig: &FlatSig, results: &[Value]) -> Vec<(Output, Vec<Value>)> {
        let mut rest = results;
        let leaves = |o: Output| {
            let n = self.n_leaves(o.ty);
            (o, take(&mut rest, n).to_vec())
        };
        sig.outputs().into_iter().map(leaves).collect()
    }

    /// Returns true if values have the types of these slots.
    pub(crate) fn fit(&self, values: &[Value], slots: &[Slot]) -> bool {
        values.iter().map(|&v| self.b.func.ty(v)).eq(slots.iter().map(|slot| slot.ty))
    }

    /// Distributes tangents (one for each leaf that has one, taken from a list) to the leaves of a
    /// differential; the other leaves are copied from the primal or zero.
    pub(crate) fn spread(&mut self, map: &DiffMap, primal: &[Value], tangents: &mut &[Value]) -> Vec<Value> {
        let layout = self.layout(map.ty);
        let mut leaves: Vec<Option<Value>> = vec![None; layout.leaves.len()];
        for &to in map.map.iter().flatten() {
            leaves[to] = tangents.split_off_first().copied();
        }
        for &(from, to) in &map.same {
            leaves[to] = primal.get(from).copied();
        }
        let leaves = leaves.into_iter().zip(&layout.leaves);
        leaves.map(|(v, leaf)| v.unwrap_or_else(|| self.b.zero(leaf.ty))).collect()
    }

    /// Collects the tangents from a differential's leaves, one for each leaf that has one.
    pub(crate) fn gather(&mut self, map: &DiffMap, differential: &[Value]) -> Vec<Value> {
        let layout = self.layout(map.ty);
        let tangent = |&from: &usize| match differential.get(from) {
            Some(&v) => v,
            None => self.b.zero(layout.leaves[from].ty),
        };
        map.map.iter().flatten().map(tangent).collect()
    }

    /// The differentials of a function's outputs, by [`Output::role`], from tangents. `primals` are the
    /// leaves of the outputs, if they are known.
    pub(crate) fn spread_outputs(
        &mut self,
        sig: &FlatSig,
        mut primals: &[Value],
        tangents: &mut &[Value],
    ) -> FxHashMap<Role, Vec<Value>> {
        let mut given = FxHashMap::default();
        for output in sig.outputs() {
            let primal = take(&mut primals, self.n_leaves(output.ty));
            if let Some(map) = &output.diff {
                given.insert(output.role, self.spread(map, primal, tangents));
            }
        }
        given
    }

    /// Splits the leaves of a pair into primal and differential.
    pub(crate) fn split_pair<'v>(&mut self, primal: Ty, pair: &'v [Value]) -> (&'v [Value], &'v [Value]) {
        pair.split_at(self.n_leaves(primal).min(pair.len()))
    }
}
