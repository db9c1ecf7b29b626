//! Helpers shared by the passes.

use ir::{Function, Inst, Op, Span, Type, Value};
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

/// Maps values to their copies; a value that is not in the map stands for itself.
pub(crate) type ValueMap = FxHashMap<Value, Value>;
