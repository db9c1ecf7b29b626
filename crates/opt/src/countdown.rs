//! Makes `for` loops that reverse others count down.
//!
//! In its trip `i`, a reversed loop reads the residuals of trip `n - 1 - i` of the original loop. Where that
//! is the only use of its counter, the counter itself may run from `n - 1` to 0: every trip sees the same
//! number as before, and computes one subtraction less. The result is also the loop that one would write by
//! hand, so derivatives are easier to read. The pass runs last, so that no other pass needs to handle loops
//! that count down, except for [`crate::unroll`]; differentiation turns such loops round again
//! (`autodiff/upward`). Loops that stack values are left alone, since their stacks are ordered by trip, not
//! by counter.

use cranelift_entity::SecondaryMap;

use ir::analysis::{Defs, is_last_trip};
use ir::{Function, Inst, Op, Types, Value};

use crate::util::Subst;

/// Turns loops round; returns true if there were any. Instructions that are no longer needed are left for
/// `dce`.
pub(crate) fn run(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let mut counters: SecondaryMap<Value, Option<Inst>> = SecondaryMap::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        if let Op::For(info) = data.op
            && !info.down
            && data.results.len() < data.args.len()
        {
            counters[func.regions[data.regions[0]].params[0]] = Some(inst);
        }
    });
    if counters.is_empty() {
        return false;
    }
    let defs = Defs::of(func);
    let mut mirrored: Vec<(Value, Value)> = Vec::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        for (k, &i) in data.args.iter().enumerate() {
            let Some(of) = counters[i] else { continue };
            let n = func.insts[of].args[0];
            if k == 1 && data.op == Op::Sub && is_last_trip(types, func, &defs, data.args[0], n) {
                mirrored.push((data.results[0], i));
            } else {
                counters[i] = None;
            }
        }
        for &region in &data.regions {
            for &v in &func.regions[region].results {
                counters[v] = None;
            }
        }
    });
    mirrored.retain(|&(_, i)| counters[i].is_some());
    if mirrored.is_empty() {
        return false;
    }
    let mut subst = Subst::default();
    for (mirror, i) in mirrored {
        subst.set(mirror, i);
        if let Some(Op::For(info)) = counters[i].map(|inst| &mut func.insts[inst].op) {
            info.down = true;
        }
    }
    subst.apply_everywhere(func);
    true
}
