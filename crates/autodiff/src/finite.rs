//! Marks the differentials of user-written derivatives: the values that depend on a tangent or cotangent.
//!
//! Generated derivatives are marked as they are built; `opt::finite` explains what the marks are used for.

use ir::Func;

use crate::engine::Engine;
use crate::propagate::linear_values;

impl Engine<'_> {
    /// Marks the differentials in the custom derivatives of a function.
    pub(crate) fn mark_custom(&mut self, func: Func) {
        let witness = self.module.witness(func);
        let results = &self.module.funcs[func].results;
        let n_params = self.module.funcs[func].params.len();
        let n_cotangents = results.iter().filter(|slot| slot.diff).count();
        let n_vjp = witness.vjp.map_or(0, |vjp| self.module.funcs[vjp].params.len());
        let custom = [(witness.jvp, n_params), (witness.vjp, n_vjp.saturating_sub(n_cotangents))];
        for (made, first) in custom {
            let Some(made) = made.filter(|&f| self.module.funcs[f].has_body()) else { continue };
            let n = self.module.funcs[made].params.len();
            let tangents: Vec<bool> = (0..n).map(|k| k >= first).collect();
            for v in linear_values(self, made, &tangents).iter() {
                self.module.funcs[made].values[v].differential = true;
            }
        }
    }
}
