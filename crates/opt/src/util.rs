//! Helpers shared by the passes.

use ir::analysis::Analyses;
use ir::{Function, Inst, Op, Region, Span, Type, Value};
use rustc_hash::FxHashMap;

/// Makes an instruction with one result that is not linear; the caller inserts it.
pub(crate) fn make_number(
    func: &mut Function,
    op: Op,
    args: &[Value],
    ty: Type,
    span: Span,
) -> (Inst, Value) {
    func.make_value(op, args, ir::ValueData::new(ty), span)
}

/// Makes an instruction with one result; the caller inserts it.
pub(crate) fn make(
    func: &mut Function,
    op: Op,
    args: &[Value],
    ty: Type,
    linear: bool,
    span: Span,
) -> (Inst, Value) {
    func.make_value(op, args, ir::ValueData::marked(ty, linear), span)
}

/// The assumed number of trips of a loop whose number is not known.
const MANY: u64 = 64;

/// How many times at most an instruction runs each time that the region `outer` around it does.
pub(crate) fn times(analyses: &Analyses, inst: Inst, outer: Region) -> Option<u64> {
    let (func, tree) = (analyses.func, analyses.tree());
    let mut n = 1u64;
    let mut region = tree.home(inst)?;
    while region != outer {
        if tree.is_loop(region) {
            let counter = func.regions[region].params.first();
            let trips = counter.and_then(|&counter| analyses.constant_trips(counter));
            n = n.saturating_mul(trips.unwrap_or(MANY));
        }
        region = tree.home(tree.holder(region)?)?;
    }
    Some(n)
}

/// Maps values to their copies; a value that is not in the map stands for itself.
pub(crate) type ValueMap = FxHashMap<Value, Value>;
