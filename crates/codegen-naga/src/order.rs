//! Finds the kernels that depend on the order in which groups run.
//!
//! On the CPU the first group of a kernel with barriers runs after all others have ended: programs rely on
//! this to read, after a barrier for all memory, the sums that the other groups have accumulated. Devices run
//! groups concurrently. A host therefore dispatches such a kernel twice, and this module finds the kernels
//! concerned: those that have a barrier and read memory which they also write.

use ir::{Func, Module, Op, Space};

use crate::plan::{Base, Plan};

/// Returns true if an entry point has a barrier and reads storage that it also writes.
pub(crate) fn reads_of_others(module: &Module, entry: Func, plan: &Plan) -> bool {
    let is_shared = |base: &Base| match *base {
        Base::Null => false,
        Base::Pointee(_) => true,
        Base::Global(g) => {
            !matches!(module.globals[g].space, Space::GroupShared | Space::Private | Space::Arena)
        }
    };
    ir::walk::reaches(module, entry, |op| matches!(op, Op::Barrier))
        && plan.uses.iter().any(|(base, usage)| is_shared(base) && usage.read && usage.written)
}
