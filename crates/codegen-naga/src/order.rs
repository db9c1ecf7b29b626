//! Which kernels depend on the order of groups.
//!
//! On the CPU the first group of a kernel with barriers runs when all others have ended: programs let it read, after a
//! barrier for all memory, what the others have added up. Devices run groups at once. So a host dispatches such a kernel
//! twice, and this module finds which: those with a barrier that read memory which they write.

use cranelift_entity::EntitySet;
use ir::{Func, Module, Op, Space};

use crate::plan::{Base, Plan};

/// Whether an entry point's threads wait for each other and read storage that they write.
pub(crate) fn reads_of_others(module: &Module, entry: Func, plan: &Plan) -> bool {
    let is_shared = |base: &Base| match *base {
        Base::Null => false,
        Base::Pointee(_) => true,
        Base::Global(g) => !matches!(module.globals[g].space, Space::GroupShared | Space::Private),
    };
    waits(module, entry)
        && plan.uses.iter().any(|(base, usage)| is_shared(base) && usage.read && usage.written)
}

/// Whether what a function reaches has a barrier.
fn waits(module: &Module, entry: Func) -> bool {
    let (mut open, mut seen, mut found) = (vec![entry], EntitySet::new(), false);
    while let Some(func) = open.pop() {
        let f = &module.funcs[func];
        if !seen.insert(func) || !f.has_body() {
            continue;
        }
        f.walk(f.body(), &mut |inst| match f.insts[inst].op {
            Op::Barrier => found = true,
            Op::Call(callee) => open.push(callee),
            _ => {}
        });
    }
    found
}
