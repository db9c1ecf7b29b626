//! Empties functions that no root can reach.
//!
//! Ids stay what they are: an unreachable function keeps its name and signature and loses its
//! body. Reachable is what a call of any kind or the initialiser of a global names, from the roots on;
//! while a derivative is still to be made, what a witness of a reachable function names, too.

use cranelift_entity::EntityRef;
use ir::{Func, Module};

use crate::has_derivative_ops;

/// Empties functions that are not reachable from `roots`, entry points and initialisers of globals;
/// true if any was.
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
