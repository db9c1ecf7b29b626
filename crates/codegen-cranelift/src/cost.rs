//! Describes functions for lanes to the estimate of how long they run (`native::lanes::cost`).
//!
//! An operation that Cranelift has no vectors for is done lane by lane, with the numbers of each lane taken out of vectors before and put
//! into vectors after: a kernel of little else takes longer in lanes than one thread at a time.

use cranelift_codegen::ir::{ExternalName, Function, Inst, InstructionData, Opcode, Value};
use native::lanes::Kind;
use native::lanes::cost::{Block, HELPER, Sketch, Values};
use rustc_hash::FxHashMap;

use crate::lanes::{Callee, Emitted};

/// The code of a function.
pub(crate) fn sketch(emitted: &Emitted) -> Sketch {
    let func = &emitted.func;
    let numbers: FxHashMap<_, usize> = func.layout.blocks().zip(0..).collect();
    let blocks = func.layout.blocks().map(|block| {
        let mut out = Block { is_rare: func.layout.is_cold(block), ..Block::default() };
        for inst in func.layout.block_insts(block) {
            match call(emitted, inst) {
                Some(Called::Own(name)) => {
                    out.calls.push((name.to_string(), func.dfg.inst_results(inst).len() as f64));
                }
                Some(Called::Rare) => {}
                Some(Called::Helper) => out.own += HELPER,
                None => out.own += own(func, inst),
            }
        }
        func.block_successors(block).for_each(|to| out.to.extend(numbers.get(&to)));
        out
    });
    let around = u32::from(emitted.head.kind == Kind::Span);
    let mut sketch = Sketch { lanes: emitted.lanes, around, blocks: blocks.collect() };
    values(func).spill(&mut sketch, REGISTERS);
    sketch
}

/// The registers for floats and vectors, of which each holds one value.
const REGISTERS: u32 = 16;

/// The floats and vectors of a function. Constants are in memory.
fn values(func: &Function) -> Values {
    let mut values = Values::default();
    let size = |v: Value| {
        let ty = func.dfg.value_type(v);
        u32::from(ty.is_vector() || ty.is_float())
    };
    for (k, block) in func.layout.blocks().enumerate() {
        func.dfg.block_params(block).iter().for_each(|&v| values.make(v.as_u32(), k, size(v)));
        for inst in func.layout.block_insts(block) {
            let is_constant =
                matches!(func.dfg.insts[inst].opcode(), Opcode::F32const | Opcode::F64const | Opcode::Vconst);
            func.dfg.inst_values(inst).for_each(|v| values.read(v.as_u32(), k));
            let made = func.dfg.inst_results(inst).iter().filter(|_| !is_constant);
            made.for_each(|&v| values.make(v.as_u32(), k, size(v)));
        }
    }
    values
}

/// A function that is called.
enum Called<'a> {
    Own(&'a str),
    Helper,
    /// A function of the runtime, in code that hardly ever runs.
    Rare,
}

/// The function that an instruction calls.
fn call(emitted: &Emitted, inst: Inst) -> Option<Called<'_>> {
    let dfg = &emitted.func.dfg;
    let InstructionData::Call { func_ref, .. } = dfg.insts[inst] else { return None };
    let ExternalName::User(callee) = dfg.ext_funcs[func_ref].name else { return Some(Called::Helper) };
    Some(match emitted.callees.iter().find(|known| known.0 == callee) {
        Some((_, Callee::Own(name))) => Called::Own(name),
        Some((_, Callee::Rare(_))) => Called::Rare,
        Some((_, Callee::Helper(_) | Callee::Symbol(..))) | None => Called::Helper,
    })
}

/// The cost of an instruction that is no call: the instructions of the machine that it becomes, more for those that take
/// long. Much of what computes addresses and conditions of single threads becomes part of other instructions. A number
/// that is put into a vector waits in memory for the others of it.
fn own(func: &Function, inst: Inst) -> f64 {
    let ty = func.dfg.inst_results(inst).first().map(|&v| func.dfg.value_type(v));
    let is_vector = ty.is_some_and(|ty| ty.is_vector());
    match func.dfg.insts[inst].opcode() {
        Opcode::Iconst | Opcode::F32const | Opcode::F64const | Opcode::Vconst | Opcode::Jump => 0.0,
        Opcode::Bitcast | Opcode::StackAddr | Opcode::Nop | Opcode::ScalarToVector => 0.0,
        Opcode::Fdiv | Opcode::Sqrt => 5.0,
        Opcode::Udiv | Opcode::Sdiv | Opcode::Urem | Opcode::Srem => 8.0,
        Opcode::AtomicRmw | Opcode::AtomicCas => 18.0,
        Opcode::Imul if is_vector => 3.0,
        Opcode::Icmp if ty.is_some_and(|ty| ty.is_vector() && ty.lane_bits() == 64) => 3.0,
        Opcode::Bitselect => 2.5,
        Opcode::Insertlane => 3.0,
        Opcode::Extractlane => 2.0,
        Opcode::Load => 1.0,
        _ if ty.is_some_and(|ty| ty.is_int()) => 0.4,
        _ => 1.0,
    }
}
