//! Removes the bodies of functions that no root can reach.
//!
//! Ids do not change: an unreachable function keeps its name and signature and loses its body. A function is
//! reachable if it is a root, or if a reachable function calls it by any kind of call or the initialiser of a
//! global names it; while derivatives are still to be made, the functions in the witness of a reachable
//! function are reachable, too.

use ir::analysis::reach;
use ir::walk::callees;
use ir::{Func, Module, Witness};

use crate::has_derivative_ops;

/// Removes the bodies of functions that are not reachable from `roots`, entry points and initialisers of globals.
pub fn prune(module: &mut Module, roots: &[Func]) {
    let open = module.funcs.values().any(has_derivative_ops);
    let mut all = roots.to_vec();
    all.extend(module.entries.iter().map(|e| e.func));
    all.extend(module.globals.values().filter_map(|g| g.init));
    let seen = reach(all, |f| {
        let witness = if open { module.witness(f) } else { Witness::default() };
        let parts = [witness.jvp, witness.vjp, witness.apply, witness.substitute];
        [callees(&module.funcs[f]), parts.into_iter().flatten().collect()].concat()
    });
    for (f, func) in module.funcs.iter_mut() {
        if !seen.contains(f) && func.has_body() {
            func.values.clear();
            func.insts.clear();
            func.regions.clear();
        }
    }
    module.witnesses.retain(|f, _| seen.contains(*f));
}
