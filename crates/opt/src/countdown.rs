//! Makes `for` loops that reverse others count down.
//!
//! In its trip `i`, a reversed loop reads the residuals of trip `n - 1 - i` of the original loop. Where that
//! is the only use of its counter, the counter itself may run from `n - 1` to 0: every trip sees the same
//! number as before, and computes one subtraction less. The result is also the loop that one would write by
//! hand, so derivatives are easier to read. The pass runs last, so that no other pass needs to handle loops
//! that count down, except for [`crate::unroll`]; differentiation turns such loops round again
//! (`autodiff/upward`). Loops that stack values are left alone, since their stacks are ordered by trip, not
//! by counter.

use ir::analysis::{Analyses, Use, is_last_trip};
use ir::{Function, Inst, Op, Types, Value};

use ir::transform::Subst;

/// Turns loops round; returns true if there were any. Instructions that are no longer needed are left for
/// `dce`.
pub(crate) fn run(types: &Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
    let all = Analyses::of(types, func);
    // The loops, each with the values that its counter is only used for.
    let mut found: Vec<(Inst, Value, Vec<Value>)> = Vec::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        let Op::For(info) = data.op else { return };
        let counter = func.regions[data.regions[0]].params[0];
        let mirror = |at: &Use| match *at {
            Use::Operand(by, 1) if func.insts[by].op == Op::Sub => {
                let last = func.insts[by].args[0];
                is_last_trip(types, func, all.defs(), last, data.args[0]).then(|| func.result(by))
            }
            Use::Operand(..) | Use::Result(..) => None,
        };
        let mirrors: Option<Vec<Value>> = all.uses().of_value(counter).iter().map(mirror).collect();
        let turns = |mirrors: &Vec<Value>| {
            !info.down && data.n_carried() == data.results.len() && !mirrors.is_empty()
        };
        found.extend(mirrors.filter(turns).map(|mirrors| (inst, counter, mirrors)));
    });
    if found.is_empty() {
        return false;
    }
    let mut subst = Subst::default();
    for (inst, counter, mirrors) in &found {
        mirrors.iter().for_each(|&mirror| subst.set(mirror, *counter));
        if let Op::For(info) = &mut func.insts[*inst].op {
            info.down = true;
        }
    }
    subst.apply_everywhere(func);
    true
}
