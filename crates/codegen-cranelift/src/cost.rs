//! Estimates how long functions for lanes run, before they are compiled.
//!
//! Lanes pay off by instructions on vectors. What Cranelift has no vectors for is done lane by lane, with the numbers of
//! each lane taken out of vectors before and put into vectors after: a kernel of little else takes longer in lanes than
//! one thread at a time. To see that, a kernel is emitted for lanes and for one thread, and the instructions of both are
//! added up: those of a loop count [`TRIPS`] times, those of code that hardly ever runs not at all, and a call counts what
//! it calls. Nothing is timed, so the estimate is the same in every run.

use std::collections::hash_map::Entry;

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{ExternalName, Function, Inst, InstructionData, Opcode};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use rustc_hash::FxHashMap;

use crate::lanes::{Callee, Emitted};

/// The trips of a loop, whose number is hardly ever known.
const TRIPS: f64 = 8.0;

/// The cost of entering and leaving a function, of a mathematical function, and of a function of the runtime.
const CALL: f64 = 5.0;
const MATHEMATICS: f64 = 30.0;
const HELPER: f64 = 20.0;

/// The cost of functions.
pub(crate) struct Costs<'a> {
    functions: FxHashMap<&'a str, &'a Emitted>,
    known: FxHashMap<&'a str, f64>,
}

impl<'a> Costs<'a> {
    /// The cost of these functions, which call each other by name.
    pub(crate) fn new(functions: &'a [Emitted]) -> Costs<'a> {
        let functions = functions.iter().map(|f| (f.head.name.as_str(), f)).collect();
        Costs { functions, known: FxHashMap::default() }
    }

    /// The cost of a call of a function, with all that it calls.
    pub(crate) fn of(&mut self, name: &str) -> f64 {
        let Some((&name, &emitted)) = self.functions.get_key_value(name) else { return 0.0 };
        match self.known.entry(name) {
            Entry::Occupied(known) => return *known.get(),
            // What a function costs that calls itself is not known: a call counts nothing.
            Entry::Vacant(new) => new.insert(0.0),
        };
        let cost = self.function(emitted);
        self.known.insert(name, cost);
        cost
    }

    fn function(&mut self, emitted: &'a Emitted) -> f64 {
        let func = &emitted.func;
        let cfg = ControlFlowGraph::with_function(func);
        let tree = DominatorTree::with_function(func, &cfg);
        let mut loops = LoopAnalysis::new();
        loops.compute(func, &cfg, &tree);
        let mut sum = 0.0;
        for block in func.layout.blocks().filter(|&block| !func.layout.is_cold(block)) {
            let here: f64 = func.layout.block_insts(block).map(|inst| self.inst(emitted, inst)).sum();
            sum += here * TRIPS.powi(loops.loop_level(block).level() as i32);
        }
        sum
    }

    fn inst(&mut self, emitted: &'a Emitted, inst: Inst) -> f64 {
        let dfg = &emitted.func.dfg;
        let InstructionData::Call { func_ref, .. } = dfg.insts[inst] else { return own(&emitted.func, inst) };
        let ExternalName::User(callee) = dfg.ext_funcs[func_ref].name else { return HELPER };
        match emitted.callees.iter().find(|known| known.0 == callee) {
            Some((_, Callee::Own(name))) if self.functions.contains_key(name.as_str()) => {
                CALL + self.of(name)
            }
            // A mathematical function, of each of the values that hold the results.
            Some((_, Callee::Own(_))) => CALL + MATHEMATICS * dfg.inst_results(inst).len() as f64,
            Some((_, Callee::Rare(_))) => 0.0,
            Some((_, Callee::Helper(_) | Callee::Symbol(..))) | None => HELPER,
        }
    }
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
