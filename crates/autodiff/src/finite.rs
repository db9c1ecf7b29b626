//! Marks the differentials of user-written derivatives: the values that depend on a tangent or cotangent.
//!
//! Generated derivatives are marked as they are built; `opt::finite` explains what the marks are used for.

use ir::{Func, Op};

use crate::engine::Engine;
use crate::propagate::linear_values;

impl Engine<'_> {
    /// Marks the differentials in the custom derivatives of a function, and in what these call: the derivatives that the
    /// program has written, which it may also call itself.
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
            self.mark(made, &tangents);
            let src = &self.module.funcs[made];
            let mut written: Vec<(Func, Vec<bool>)> = Vec::new();
            src.walk(src.body(), &mut |inst| {
                let data = &src.insts[inst];
                if let Op::Call(callee) = data.op
                    && self.module.funcs[callee].has_body()
                {
                    written.push((callee, data.args.iter().map(|&v| src.values[v].differential).collect()));
                }
            });
            for (written, tangents) in written {
                self.mark(written, &tangents);
            }
        }
    }

    fn mark(&mut self, func: Func, tangents: &[bool]) {
        for v in linear_values(self, func, tangents).iter() {
            self.module.funcs[func].values[v].differential = true;
        }
    }
}
