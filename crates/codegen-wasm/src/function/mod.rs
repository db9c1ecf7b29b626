//! Writes the functions that `codegen-cranelift` emits for lanes as WebAssembly.
//!
//! Nearly every instruction of Cranelift that this code consists of is one of WebAssembly, since both have vectors of 128
//! bits. Where they differ:
//! - integers of 8 and 16 bits are kept in 32, without a sign, and results are cut to their width;
//! - addresses have 64 bits: where one is used it is computed in 32, if it is computed there and then;
//! - an atomic operation is a load, an operation and a store, since threads run one after the other.

mod numbers;

use cranelift_codegen::ir::{
    AtomicRmwOp, Block, Function, Inst, InstructionData, Opcode, StackSlot, Type as ClifType, Value, types,
};
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use wasm_encoder::{Instruction as I, MemArg, MemArgTarget, ValType};

use crate::control::{self, Graph};
use crate::values::{Home, Values, val_type};

/// The stack pointer's global.
const STACK_POINTER: u32 = 0;

/// An instruction that has no counterpart: its name.
pub(crate) type Missing = String;

/// A function while it is written.
pub(crate) struct Body<'f> {
    pub(crate) func: &'f Function,
    values: Values,
    out: Vec<u8>,
    /// The number of each function that is called.
    callees: &'f dyn Fn(cranelift_codegen::ir::FuncRef) -> u32,
    /// The numbers of the runtime's functions.
    runtime: &'f FxHashMap<String, u32>,
    /// The offset of each slot from the frame's start, and the frame's size.
    slots: SecondaryMap<StackSlot, u32>,
    frame: u32,
    /// The variable that holds the frame's start.
    frame_local: u32,
    /// Variables for intermediate results, by type.
    scratch: FxHashMap<(ValType, u32), u32>,
    n_params: u32,
    /// The engine fuses products and sums.
    relaxed: bool,
    missing: Option<Missing>,
}

/// Writes a function.
pub(crate) fn write(
    func: &Function,
    callees: &dyn Fn(cranelift_codegen::ir::FuncRef) -> u32,
    runtime: &FxHashMap<String, u32>,
    relaxed: bool,
) -> Result<wasm_encoder::Function, Missing> {
    let graph = Graph::new(func);
    let values = Values::new(func, &graph.order);
    let (mut slots, mut frame) = (SecondaryMap::new(), 0u32);
    for (slot, data) in &func.sized_stack_slots {
        slots[slot] = frame;
        frame += data.size.next_multiple_of(16);
    }
    let n_params = func.signature.params.len() as u32;
    let mut body = Body {
        func,
        values,
        out: Vec::new(),
        callees,
        runtime,
        slots,
        frame,
        frame_local: 0,
        scratch: FxHashMap::default(),
        n_params,
        relaxed,
        missing: None,
    };
    if frame > 0 {
        body.frame_local = body.new_local(ValType::I32);
        body.put(&I::GlobalGet(STACK_POINTER));
        body.put(&I::I32Const(frame as i32));
        body.put(&I::I32Sub);
        body.put(&I::LocalTee(body.frame_local));
        body.put(&I::GlobalSet(STACK_POINTER));
    }
    control::write(&mut body, &graph);
    // Every path has returned.
    body.put(&I::Unreachable);
    body.put(&I::End);
    if let Some(missing) = body.missing {
        return Err(missing);
    }
    let mut f = wasm_encoder::Function::new_with_locals_types(body.values.locals.iter().copied());
    f.raw(body.out);
    Ok(f)
}

/// An address of memory with an offset; accesses need not be aligned.
fn at(offset: i32) -> MemArg {
    MemArg { offset: offset as u64, align: 0, target: MemArgTarget::Memory(0), ordering: None }
}

/// The bits of an integer of fewer than 32 bits.
fn mask(ty: ClifType) -> Option<i32> {
    match ty {
        types::I8 => Some(0xff),
        types::I16 => Some(0xffff),
        _ => None,
    }
}

impl Body<'_> {
    pub(crate) fn put(&mut self, instruction: &I<'_>) {
        wasm_encoder::Encode::encode(instruction, &mut self.out);
    }

    fn new_local(&mut self, ty: ValType) -> u32 {
        self.values.locals.push(ty);
        self.n_params + self.values.locals.len() as u32 - 1
    }

    /// A variable for an intermediate result; `k` tells several apart. Operands that are computed in between may
    /// use variables with other numbers.
    fn scratch(&mut self, ty: ValType, k: u32) -> u32 {
        if let Some(&local) = self.scratch.get(&(ty, k)) {
            return local;
        }
        let local = self.new_local(ty);
        self.scratch.insert((ty, k), local);
        local
    }

    fn type_of(&self, v: Value) -> ClifType {
        self.func.dfg.value_type(v)
    }

    fn lacks(&mut self, what: String) {
        self.missing.get_or_insert(what);
    }

    // ---- blocks

    /// Writes the instructions of a block other than its branch.
    pub(crate) fn block(&mut self, block: Block) {
        let insts: Vec<Inst> = self.func.layout.block_insts(block).collect();
        for inst in insts {
            let data = self.func.dfg.insts[inst];
            match data.opcode() {
                Opcode::Jump | Opcode::Brif => {}
                Opcode::Return => self.give(inst),
                _ => self.statement(inst),
            }
        }
    }

    /// Passes arguments to a block.
    pub(crate) fn pass(&mut self, to: Block, args: &[Value]) {
        let params: Vec<Value> = self.func.dfg.block_params(to).to_vec();
        // All are read before one is written.
        let moves: Vec<(Home, Value)> =
            params.iter().zip(args).map(|(&p, &arg)| (self.values.homes[p], arg)).collect();
        let moves: Vec<_> = moves.into_iter().filter(|&(home, arg)| self.values.homes[arg] != home).collect();
        moves.iter().for_each(|&(_, arg)| self.get(arg));
        for (home, _) in moves.into_iter().rev() {
            match home {
                Home::Local(local) => self.put(&I::LocalSet(local)),
                Home::Nowhere | Home::Used(_) => self.put(&I::Drop),
            }
        }
    }

    fn give(&mut self, inst: Inst) {
        let results: Vec<Value> = self.func.dfg.inst_args(inst).to_vec();
        results.iter().for_each(|&v| self.get(v));
        if self.frame > 0 {
            self.put(&I::LocalGet(self.frame_local));
            self.put(&I::I32Const(self.frame as i32));
            self.put(&I::I32Add);
            self.put(&I::GlobalSet(STACK_POINTER));
        }
        self.put(&I::Return);
    }

    /// Writes an instruction, and keeps its results.
    fn statement(&mut self, inst: Inst) {
        let results: Vec<Value> = self.func.dfg.inst_results(inst).to_vec();
        if let [result] = results[..]
            && matches!(self.values.homes[result], Home::Used(_))
        {
            return;
        }
        let opcode = self.func.dfg.insts[inst].opcode();
        let has_effect = opcode.is_call() || opcode.can_store();
        if !has_effect && results.iter().all(|&v| self.values.homes[v] == Home::Nowhere) {
            return;
        }
        self.compute(inst);
        for &result in results.iter().rev() {
            match self.values.homes[result] {
                Home::Local(local) => self.put(&I::LocalSet(local)),
                Home::Nowhere | Home::Used(_) => self.put(&I::Drop),
            }
        }
    }

    // ---- operands

    /// Puts a value on the stack.
    pub(crate) fn get(&mut self, v: Value) {
        match self.values.homes[v] {
            Home::Local(local) => self.put(&I::LocalGet(local)),
            Home::Used(inst) => self.compute(inst),
            Home::Nowhere => self.lacks(format!("the value {v}")),
        }
    }

    /// Puts a condition on the stack: an integer of 32 bits that is zero or not.
    pub(crate) fn condition(&mut self, v: Value) {
        self.get(v);
        if self.type_of(v) == types::I64 {
            self.put(&I::I64Const(0));
            self.put(&I::I64Ne);
        }
    }

    /// Puts an integer on the stack, extended from its width with its sign.
    fn get_signed(&mut self, v: Value) {
        self.get(v);
        match self.type_of(v) {
            types::I8 => self.put(&I::I32Extend8S),
            types::I16 => self.put(&I::I32Extend16S),
            _ => {}
        }
    }

    /// Puts the low 32 bits of an integer of 64 on the stack, computed in 32 if it is computed here.
    fn get_low(&mut self, v: Value) {
        if let Some(bits) = self.values.integer(self.func, v) {
            return self.put(&I::I32Const(bits as i32));
        }
        if let Home::Used(inst) = self.values.homes[v] {
            match self.func.dfg.insts[inst] {
                InstructionData::Binary { opcode, args: [a, b] } => {
                    let by = self.values.integer(self.func, b).filter(|by| (0..32).contains(by));
                    if let (Opcode::Ishl, Some(by)) = (opcode, by) {
                        self.get_low(a);
                        self.put(&I::I32Const(by as i32));
                        return self.put(&I::I32Shl);
                    }
                    let op = match opcode {
                        Opcode::Iadd => Some(I::I32Add),
                        Opcode::Isub => Some(I::I32Sub),
                        Opcode::Imul => Some(I::I32Mul),
                        _ => None,
                    };
                    if let Some(op) = op {
                        self.get_low(a);
                        self.get_low(b);
                        return self.put(&op);
                    }
                }
                InstructionData::Unary { opcode: Opcode::Uextend | Opcode::Sextend, arg }
                    if self.type_of(arg) == types::I32 =>
                {
                    return self.get(arg);
                }
                InstructionData::StackAddr { stack_slot, offset, .. } => {
                    return self.slot_address(stack_slot, offset.into());
                }
                _ => {}
            }
        }
        self.get(v);
        self.put(&I::I32WrapI64);
    }

    fn slot_address(&mut self, slot: StackSlot, offset: i32) {
        self.put(&I::LocalGet(self.frame_local));
        let offset = self.slots[slot] as i32 + offset;
        if offset != 0 {
            self.put(&I::I32Const(offset));
            self.put(&I::I32Add);
        }
    }

    /// Puts an address on the stack; returns the offset that is left to add.
    fn address(&mut self, v: Value, offset: i32) -> MemArg {
        self.get_low(v);
        if offset >= 0 {
            return at(offset);
        }
        self.put(&I::I32Const(offset));
        self.put(&I::I32Add);
        at(0)
    }

    /// Cuts the integer on the stack to its width.
    fn cut(&mut self, ty: ClifType) {
        if let Some(mask) = mask(ty) {
            self.put(&I::I32Const(mask));
            self.put(&I::I32And);
        }
    }

    fn call_runtime(&mut self, name: &str) {
        match self.runtime.get(name) {
            Some(&number) => self.put(&I::Call(number)),
            None => self.lacks(format!("the function '{name}' of the runtime")),
        }
    }

    // ---- instructions

    /// Writes an instruction, which leaves its results on the stack.
    fn compute(&mut self, inst: Inst) {
        let data = self.func.dfg.insts[inst];
        let result = self.func.dfg.inst_results(inst).first().map(|&v| self.type_of(v));
        let ty = result.unwrap_or(types::INVALID);
        match data {
            InstructionData::UnaryImm { imm, .. } if ty == types::I64 => self.put(&I::I64Const(imm.bits())),
            InstructionData::UnaryImm { imm, .. } => {
                let bits = imm.bits() as i32;
                self.put(&I::I32Const(mask(ty).map_or(bits, |mask| bits & mask)));
            }
            InstructionData::UnaryIeee32 { imm, .. } => {
                self.put(&I::F32Const(wasm_encoder::Ieee32::new(imm.bits())));
            }
            InstructionData::UnaryIeee64 { imm, .. } => {
                self.put(&I::F64Const(wasm_encoder::Ieee64::new(imm.bits())));
            }
            InstructionData::UnaryConst { constant_handle, .. } => {
                let bytes = self.func.dfg.constants.get(constant_handle).as_slice();
                match bytes.try_into() {
                    Ok(bytes) => self.put(&I::V128Const(i128::from_le_bytes(bytes))),
                    Err(_) => self.lacks(format!("a constant of {} bytes", bytes.len())),
                }
            }
            InstructionData::StackAddr { stack_slot, offset, .. } => {
                self.slot_address(stack_slot, offset.into());
                self.put(&I::I64ExtendI32U);
            }
            InstructionData::NullAry { opcode: Opcode::GetStackPointer } => {
                self.put(&I::GlobalGet(STACK_POINTER));
                self.put(&I::I64ExtendI32U);
            }
            InstructionData::Unary { opcode, arg }
            | InstructionData::LoadNoOffset { opcode: opcode @ Opcode::Bitcast, arg, .. } => {
                self.unary(opcode, arg, ty);
            }
            InstructionData::Binary { opcode, args: [a, b] } => self.binary(opcode, a, b, ty),
            InstructionData::Ternary { opcode, args: [a, b, c] } => self.ternary(opcode, a, b, c, ty),
            InstructionData::IntCompare { args: [a, b], cond, .. } => self.compare(cond, a, b),
            InstructionData::FloatCompare { args: [a, b], cond, .. } => self.compare_floats(cond, a, b),
            InstructionData::BinaryImm8 { opcode: Opcode::Extractlane, arg, imm } => {
                self.get(arg);
                self.put(&match self.type_of(arg) {
                    types::I32X4 => I::I32x4ExtractLane(imm),
                    types::I64X2 => I::I64x2ExtractLane(imm),
                    types::F32X4 => I::F32x4ExtractLane(imm),
                    _ => I::F64x2ExtractLane(imm),
                });
            }
            InstructionData::TernaryImm8 { opcode: Opcode::Insertlane, args: [a, x], imm } => {
                self.get(a);
                self.get(x);
                self.put(&match ty {
                    types::I32X4 => I::I32x4ReplaceLane(imm),
                    types::I64X2 => I::I64x2ReplaceLane(imm),
                    types::F32X4 => I::F32x4ReplaceLane(imm),
                    _ => I::F64x2ReplaceLane(imm),
                });
            }
            InstructionData::Shuffle { args: [a, b], imm, .. } => {
                self.get(a);
                self.get(b);
                let bytes = self.func.dfg.immediates.get(imm).map(|data| data.as_slice());
                match bytes.and_then(|bytes| bytes.try_into().ok()) {
                    Some(bytes) => self.put(&I::I8x16Shuffle(bytes)),
                    None => self.lacks("a shuffle of other than 16 bytes".to_string()),
                }
            }
            InstructionData::Load { opcode, arg, offset, .. } => self.load(opcode, arg, offset.into(), ty),
            InstructionData::Store { opcode, args: [x, at], offset, .. } => {
                self.store(opcode, x, at, offset.into());
            }
            InstructionData::AtomicRmw { args: [at, x], op, .. } => self.atomic(op, at, x, ty),
            InstructionData::AtomicCas { args: [at, old, new], .. } => self.exchange(at, old, new, ty),
            InstructionData::Call { func_ref, .. } => {
                let args: Vec<Value> = self.func.dfg.inst_args(inst).to_vec();
                args.iter().for_each(|&arg| self.get(arg));
                let number = (self.callees)(func_ref);
                self.put(&I::Call(number));
            }
            _ => self.lacks(format!("{}", data.opcode())),
        }
    }

    fn load(&mut self, opcode: Opcode, arg: Value, offset: i32, ty: ClifType) {
        let at = self.address(arg, offset);
        self.put(&match (opcode, val_type(ty)) {
            (Opcode::Load, ValType::I64) => I::I64Load(at),
            (Opcode::Load, ValType::F32) => I::F32Load(at),
            (Opcode::Load, ValType::F64) => I::F64Load(at),
            (Opcode::Load, ValType::V128) => I::V128Load(at),
            (Opcode::Load, _) => match ty {
                types::I8 => I::I32Load8U(at),
                types::I16 => I::I32Load16U(at),
                _ => I::I32Load(at),
            },
            _ => return self.lacks(format!("{opcode}")),
        });
    }

    fn store(&mut self, opcode: Opcode, x: Value, to: Value, offset: i32) {
        let at = self.address(to, offset);
        self.get(x);
        let ty = self.type_of(x);
        self.put(&match (opcode, val_type(ty)) {
            (Opcode::Store, ValType::I64) => I::I64Store(at),
            (Opcode::Store, ValType::F32) => I::F32Store(at),
            (Opcode::Store, ValType::F64) => I::F64Store(at),
            (Opcode::Store, ValType::V128) => I::V128Store(at),
            (Opcode::Store, _) => match ty {
                types::I8 => I::I32Store8(at),
                types::I16 => I::I32Store16(at),
                _ => I::I32Store(at),
            },
            _ => return self.lacks(format!("{opcode}")),
        });
    }

    /// An atomic operation on an integer of 32 or 64 bits, which leaves the old number.
    fn atomic(&mut self, op: AtomicRmwOp, to: Value, x: Value, ty: ClifType) {
        let wide = ty == types::I64;
        let vt = val_type(ty);
        let (place, old, new) = (self.scratch(ValType::I32, 6), self.scratch(vt, 4), self.scratch(vt, 5));
        self.get_low(to);
        self.put(&I::LocalTee(place));
        self.put(&if wide { I::I64Load(at(0)) } else { I::I32Load(at(0)) });
        self.put(&I::LocalSet(old));
        self.get(x);
        self.put(&I::LocalSet(new));
        self.put(&I::LocalGet(place));
        let pick = |body: &mut Self, compare: I<'_>| {
            body.put(&I::LocalGet(new));
            body.put(&I::LocalGet(old));
            body.put(&I::LocalGet(new));
            body.put(&I::LocalGet(old));
            body.put(&compare);
            body.put(&I::Select);
        };
        let both = |body: &mut Self, op: I<'_>| {
            body.put(&I::LocalGet(old));
            body.put(&I::LocalGet(new));
            body.put(&op);
        };
        match (op, wide) {
            (AtomicRmwOp::Add, false) => both(self, I::I32Add),
            (AtomicRmwOp::Add, true) => both(self, I::I64Add),
            (AtomicRmwOp::And, false) => both(self, I::I32And),
            (AtomicRmwOp::And, true) => both(self, I::I64And),
            (AtomicRmwOp::Or, false) => both(self, I::I32Or),
            (AtomicRmwOp::Or, true) => both(self, I::I64Or),
            (AtomicRmwOp::Xor, false) => both(self, I::I32Xor),
            (AtomicRmwOp::Xor, true) => both(self, I::I64Xor),
            (AtomicRmwOp::Xchg, _) => self.put(&I::LocalGet(new)),
            (AtomicRmwOp::Smin, false) => pick(self, I::I32LtS),
            (AtomicRmwOp::Smin, true) => pick(self, I::I64LtS),
            (AtomicRmwOp::Umin, false) => pick(self, I::I32LtU),
            (AtomicRmwOp::Umin, true) => pick(self, I::I64LtU),
            (AtomicRmwOp::Smax, false) => pick(self, I::I32GtS),
            (AtomicRmwOp::Smax, true) => pick(self, I::I64GtS),
            (AtomicRmwOp::Umax, false) => pick(self, I::I32GtU),
            (AtomicRmwOp::Umax, true) => pick(self, I::I64GtU),
            _ => self.lacks(format!("an atomic {op}")),
        }
        self.put(&if wide { I::I64Store(at(0)) } else { I::I32Store(at(0)) });
        self.put(&I::LocalGet(old));
    }

    /// Replaces a number by another if it is `before`; leaves what it was.
    fn exchange(&mut self, to: Value, before: Value, new: Value, ty: ClifType) {
        let vt = val_type(ty);
        let (place, old) = (self.scratch(ValType::I32, 6), self.scratch(vt, 4));
        self.get_low(to);
        self.put(&I::LocalTee(place));
        self.put(&match ty {
            types::I64 => I::I64Load(at(0)),
            types::I16 => I::I32Load16U(at(0)),
            types::I8 => I::I32Load8U(at(0)),
            _ => I::I32Load(at(0)),
        });
        self.put(&I::LocalSet(old));
        self.put(&I::LocalGet(place));
        self.get(new);
        self.put(&I::LocalGet(old));
        self.put(&I::LocalGet(old));
        self.get(before);
        self.put(&if ty == types::I64 { I::I64Eq } else { I::I32Eq });
        self.put(&I::Select);
        self.put(&match ty {
            types::I64 => I::I64Store(at(0)),
            types::I16 => I::I32Store16(at(0)),
            types::I8 => I::I32Store8(at(0)),
            _ => I::I32Store(at(0)),
        });
        self.put(&I::LocalGet(old));
    }
}
