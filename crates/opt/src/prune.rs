//! Removes the bodies of functions that no root can reach.
//!
//! Ids do not change: an unreachable function keeps its name and signature and loses its body. A function is
//! reachable if it is a root, or if a reachable function calls it by any kind of call or the initialiser of a
//! global names it; while derivatives are still to be made, the functions in the witness of a reachable
//! function are reachable, too.

use cranelift_entity::EntityRef;
use ir::{Func, Module};

use crate::has_derivative_ops;

/// Removes the bodies of functions that are not reachable from `roots`, entry points and initialisers of
/// globals; returns true if any was removed.
pub fn prune(module: &mut Module, roots: &[Func]) -> bool {
    let open = module.funcs.values().any(has_derivative_ops);
    let mut seen = vec![false; module.funcs.len()];
    let mut todo: Vec<Func> = roots.to_vec();
    todo.extend(module.entries.iter().map(|e| e.func));
    todo.extend(module.globals.values().filter_map(|g| g.init));
    while let Some(f) = todo.pop() {
        if std::mem::replace(&mut seen[f.index()], true) {
            continue;
        }
        if open {
            let witness = module.witness(f);
            let parts = [witness.jvp, witness.vjp, witness.apply, witness.substitute];
            todo.extend(parts.into_iter().flatten());
        }
        let func = &module.funcs[f];
        if func.has_body() {
            func.walk(func.body(), &mut |inst| todo.extend(func.insts[inst].op.callee()));
        }
    }
    let mut changed = false;
    for (f, func) in module.funcs.iter_mut() {
        if !seen[f.index()] && func.has_body() {
            func.values.clear();
            func.insts.clear();
            func.regions.clear();
            changed = true;
        }
    }
    module.witnesses.retain(|f, _| seen[f.index()]);
    changed
}
