//! Reports which values reverse mode keeps, and why, so that users can see where the memory goes.

use ir::{Defs, Function, Module, Op, Span, Value};
use rustc_hash::FxHashMap;

use crate::checkpoint::Kept;
use crate::results::KeptValue;

/// The kept values of a function, in source order.
pub(crate) fn report(module: &Module, src: &Function, name: &str, kept: &Kept) -> Vec<KeptValue> {
    let defs = Defs::of(src);
    let mut loops: FxHashMap<Value, Vec<Span>> = FxHashMap::default();
    for (inst, values) in kept.through.iter() {
        for &v in values {
            loops.entry(v).or_default().push(src.insts[inst].span);
        }
    }
    let mut list: Vec<KeptValue> = kept
        .stored
        .iter()
        .map(|v| {
            let maker = defs.inst(v);
            let reader = kept
                .readers
                .get(&v)
                .map(|&inst| (ir::print::arithmetic(&src.insts[inst].op), src.insts[inst].span));
            let mut around = loops.remove(&v).unwrap_or_default();
            around.sort_by_key(|span| (span.file, span.start));
            KeptValue {
                function: name.to_string(),
                name: src.values[v].name.as_ref().map(|n| n.to_string()),
                span: maker.map_or(src.span, |inst| src.insts[inst].span),
                bytes: module.types.bytes(src.ty(v)),
                reason: reason(maker.map(|inst| &src.insts[inst].op), around.is_empty()),
                loops: around,
                reader,
            }
        })
        .collect();
    list.sort_by_key(|k| (k.span.file, k.span.start, k.span.end));
    list
}

fn reason(maker: Option<&Op>, outside: bool) -> &'static str {
    match maker {
        None if outside => "it is a parameter",
        None => "the loop carries it from trip to trip",
        _ if outside => "it is outside of all loops, where keeping costs nothing for each trip",
        Some(Op::For(_) | Op::Loop(_)) => "a loop makes it",
        Some(Op::If | Op::Switch(_)) => "a branch makes it",
        Some(Op::Call(_) | Op::CallTransposeOf(_)) => "a call makes it",
        Some(Op::Load | Op::BufferLoad(_) | Op::Atomic(..)) => "it is read from memory that may change",
        Some(Op::Math(_) | Op::Div) => "computing it again takes longer than keeping it",
        Some(_) => "computing it again, with what that needs, costs more",
    }
}
