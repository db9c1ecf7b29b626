//! Decides where each value of a function is: in a local variable, or computed where it is used.
//!
//! A constant is written at each use. A value that has no effect and one use, in the block that computes it, is computed
//! at that use, so that it stays on WebAssembly's stack. All others are in local variables: those of one block share
//! variables, which matters because an engine's time grows with their number.

use cranelift_codegen::ir::{Block, Function, Inst, InstructionData, Opcode, Type as ClifType, Value, types};
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wasm_encoder::ValType;

/// The depth of operands that are computed at their use: deeper trees would use up the compiler's own stack.
const DEEPEST: u32 = 32;

/// Where a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Home {
    /// It is never used.
    #[default]
    Nowhere,
    /// It is computed where it is used.
    Used(Inst),
    /// It is in a local variable.
    Local(u32),
}

/// The homes of a function's values.
pub(crate) struct Values {
    pub(crate) homes: SecondaryMap<Value, Home>,
    /// The types of the local variables, after the parameters.
    pub(crate) locals: Vec<ValType>,
}

/// The type that holds a value: integers of up to 32 bits are kept without a sign.
pub(crate) fn val_type(ty: ClifType) -> ValType {
    match ty {
        types::F32 => ValType::F32,
        types::F64 => ValType::F64,
        types::I64 => ValType::I64,
        ty if ty.is_vector() => ValType::V128,
        _ => ValType::I32,
    }
}

/// Returns true if the instruction is a constant, which costs nothing to write again.
fn is_constant(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Iconst | Opcode::F32const | Opcode::F64const | Opcode::Vconst | Opcode::StackAddr
    )
}

/// Returns true if the instruction depends on nothing but its operands.
fn is_pure(opcode: Opcode) -> bool {
    !opcode.is_terminator()
        && !opcode.is_call()
        && !opcode.can_load()
        && !opcode.can_store()
        && !opcode.is_branch()
        && opcode != Opcode::GetStackPointer
}

/// The values that an instruction uses, those that it passes to blocks included.
pub(crate) fn operands(func: &Function, inst: Inst) -> SmallVec<[Value; 8]> {
    func.dfg.inst_values(inst).collect()
}

impl Values {
    /// Finds homes for the values of these blocks, in the order in which they are written.
    pub(crate) fn new(func: &Function, blocks: &[Block]) -> Values {
        let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
        // The block of a value, and whether it is used in another.
        let mut defined: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
        for &block in blocks {
            for inst in func.layout.block_insts(block) {
                operands(func, inst).iter().for_each(|&v| uses[v] += 1);
                func.dfg.inst_results(inst).iter().for_each(|&v| defined[v] = Some(block));
            }
        }
        let mut elsewhere: SecondaryMap<Value, bool> = SecondaryMap::new();
        for &block in blocks {
            for inst in func.layout.block_insts(block) {
                for v in operands(func, inst) {
                    elsewhere[v] |= defined[v] != Some(block);
                }
            }
        }
        let mut made = Values { homes: SecondaryMap::new(), locals: Vec::new() };
        let first = func.layout.entry_block();
        if let Some(entry) = first {
            for (k, &param) in func.dfg.block_params(entry).iter().enumerate() {
                made.homes[param] = Home::Local(k as u32);
            }
        }
        let n_params = func.signature.params.len() as u32;
        let mut free: FxHashMap<ValType, Vec<u32>> = FxHashMap::default();
        for &block in blocks {
            if Some(block) != first {
                for &param in func.dfg.block_params(block) {
                    made.homes[param] = made.new_local(n_params, val_type(func.dfg.value_type(param)));
                }
            }
        }
        for &block in blocks {
            made.fold(func, block, &uses, &elsewhere);
            made.place(func, block, n_params, &uses, &elsewhere, &mut free);
        }
        made
    }

    fn new_local(&mut self, n_params: u32, ty: ValType) -> Home {
        self.locals.push(ty);
        Home::Local(n_params + self.locals.len() as u32 - 1)
    }

    /// Finds the values of a block that are computed where they are used.
    fn fold(
        &mut self,
        func: &Function,
        block: Block,
        uses: &SecondaryMap<Value, u32>,
        elsewhere: &SecondaryMap<Value, bool>,
    ) {
        let mut depths: FxHashMap<Value, u32> = FxHashMap::default();
        for inst in func.layout.block_insts(block) {
            let opcode = func.dfg.insts[inst].opcode();
            let &[result] = func.dfg.inst_results(inst) else { continue };
            if is_constant(opcode) {
                self.homes[result] = Home::Used(inst);
                continue;
            }
            let depth = operands(func, inst).iter().filter_map(|v| depths.get(v)).max().map_or(0, |d| d + 1);
            if is_pure(opcode) && uses[result] == 1 && !elsewhere[result] && depth < DEEPEST {
                self.homes[result] = Home::Used(inst);
                depths.insert(result, depth);
            }
        }
    }

    /// Finds local variables for the other values of a block.
    fn place(
        &mut self,
        func: &Function,
        block: Block,
        n_params: u32,
        uses: &SecondaryMap<Value, u32>,
        elsewhere: &SecondaryMap<Value, bool>,
        free: &mut FxHashMap<ValType, Vec<u32>>,
    ) {
        // An operand of a value that is computed at its use is read there, too.
        let insts: Vec<Inst> = func.layout.block_insts(block).collect();
        let mut read_at: FxHashMap<Value, usize> = FxHashMap::default();
        for (k, &inst) in insts.iter().enumerate().rev() {
            let results = func.dfg.inst_results(inst);
            let at = match results {
                &[result] if matches!(self.homes[result], Home::Used(_)) => {
                    read_at.get(&result).copied().unwrap_or(k)
                }
                _ => k,
            };
            for v in operands(func, inst) {
                let last = read_at.entry(v).or_insert(at);
                *last = (*last).max(at);
            }
        }
        let mut ends: Vec<Vec<Value>> = vec![Vec::new(); insts.len()];
        for (k, &inst) in insts.iter().enumerate() {
            for &result in func.dfg.inst_results(inst) {
                if self.homes[result] != Home::Nowhere || uses[result] == 0 {
                    continue;
                }
                let ty = val_type(func.dfg.value_type(result));
                if elsewhere[result] {
                    self.homes[result] = self.new_local(n_params, ty);
                    continue;
                }
                self.homes[result] = match free.get_mut(&ty).and_then(Vec::pop) {
                    Some(local) => Home::Local(local),
                    None => self.new_local(n_params, ty),
                };
                ends[read_at.get(&result).copied().unwrap_or(k)].push(result);
            }
            // A result may not share a variable with an operand of an instruction that has several results.
            for v in std::mem::take(&mut ends[k]) {
                if let Home::Local(local) = self.homes[v] {
                    free.entry(val_type(func.dfg.value_type(v))).or_default().push(local);
                }
            }
        }
    }

    /// The bits of an integer constant.
    pub(crate) fn integer(&self, func: &Function, v: Value) -> Option<i64> {
        match self.homes[v] {
            Home::Used(inst) => match func.dfg.insts[inst] {
                InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
                _ => None,
            },
            Home::Nowhere | Home::Local(_) => None,
        }
    }
}
