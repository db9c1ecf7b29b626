//! Spills long-lived values to the frame, so that compile time stays linear in a function's size.
//!
//! A derivative computes residuals in its forward half and uses them in its reverse half: hundreds of values
//! are live across most of a function and across every call in it. Cranelift's register allocator splits each
//! of them at each obstacle, which takes time quadratic in their number; half a minute was seen for a
//! function of two thousand instructions. Such values do not fit into registers anyway. So in a function that
//! has many of them, each is stored to the frame where it is computed and reloaded before it is used, once
//! for a stretch of instructions; a constant is rematerialised instead. The live ranges that remain for the
//! allocator are short. Functions with few long-lived values are left unchanged.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, MemFlagsData, Opcode, StackSlotData, StackSlotKind, Value, types,
};
use rustc_hash::FxHashMap;

/// A value that is live across more instructions than this is long-lived.
const LONG: u32 = 100;
/// A reloaded value is reused for this many instructions.
const STRETCH: u32 = 32;
/// Up to this number of long-lived values the allocator is fast enough.
const FEW: usize = 64;

/// The live range of a value, in instructions from the start of the function, and how it is kept.
#[derive(Clone, Copy, Default)]
struct Life {
    defined: u32,
    last: u32,
    /// The offset of the value's slot in the frame plus one; 0 if it stays in a register.
    slot: u32,
    /// The instruction that is cloned to rematerialise the value at its uses: a constant or an address in the
    /// frame.
    again: Option<Inst>,
}

impl Life {
    /// Returns true if the value is only in a register near its uses.
    fn is_apart(self) -> bool {
        self.slot != 0 || self.again.is_some()
    }
}

/// Spills long-lived values to the frame if there are many.
pub(crate) fn spill_long_lived(func: &mut Function) {
    if func.dfg.num_insts() <= LONG as usize {
        return;
    }
    func.dfg.resolve_all_aliases();
    let mut lives = lives(func);
    let long: Vec<Value> = func
        .dfg
        .values()
        .filter(|&v| {
            let life = lives[v];
            life.last.saturating_sub(life.defined) > LONG
        })
        .collect();
    if long.len() <= FEW {
        return;
    }
    let mut size = 0u32;
    for &v in &long {
        lives[v].again = maker(func, v);
        if lives[v].again.is_some() {
            continue;
        }
        let bytes = func.dfg.value_type(v).bytes().max(1);
        size = size.next_multiple_of(bytes);
        lives[v].slot = size + 1;
        size += bytes;
    }
    let slot = func.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4));
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let mut cursor = FuncCursor::new(func);
    let Some(&entry) = blocks.first() else { return };
    cursor.goto_first_insertion_point(entry);
    let base = cursor.ins().stack_addr(types::I64, slot, 0);

    let mut loaded: FxHashMap<Value, Value> = FxHashMap::default();
    for block in blocks {
        let mut insts: Vec<Inst> = cursor.func.layout.block_insts(block).collect();
        if block == entry {
            insts.remove(0);
        }
        loaded.clear();
        let params: Vec<Value> = cursor.func.dfg.block_params(block).to_vec();
        match insts.first() {
            Some(&first) => cursor.goto_inst(first),
            None => cursor.goto_bottom(block),
        };
        for v in params {
            keep(&mut cursor, base, &lives, v, &mut loaded);
        }
        for (at, inst) in insts.into_iter().enumerate() {
            if (at as u32).is_multiple_of(STRETCH) {
                loaded.clear();
            }
            cursor.goto_inst(inst);
            let used: Vec<Value> =
                cursor.func.dfg.inst_values(inst).filter(|&v| lives[v].is_apart()).collect();
            for v in used {
                let Life { slot, again, .. } = lives[v];
                loaded.entry(v).or_insert_with(|| match again {
                    Some(made) => {
                        let made = cursor.func.dfg.clone_inst(made);
                        cursor.insert_inst(made);
                        cursor.func.dfg.first_result(made)
                    }
                    None => {
                        let ty = cursor.func.dfg.value_type(v);
                        cursor.ins().load(ty, MemFlagsData::trusted(), base, (slot - 1) as i32)
                    }
                });
            }
            cursor.func.dfg.map_inst_values(inst, |v| match lives[v].is_apart() {
                false => v,
                true => loaded.get(&v).copied().unwrap_or(v),
            });
            let results: Vec<Value> = cursor.func.dfg.inst_results(inst).to_vec();
            if results.iter().any(|&v| lives[v].slot != 0) {
                cursor.goto_after_inst(inst);
                for v in results {
                    keep(&mut cursor, base, &lives, v, &mut loaded);
                }
            }
        }
    }
}

/// Spills a value that was just computed; uses that follow shortly still use the original.
fn keep(
    cursor: &mut FuncCursor<'_>,
    base: Value,
    lives: &SecondaryMap<Value, Life>,
    v: Value,
    loaded: &mut FxHashMap<Value, Value>,
) {
    if lives[v].slot != 0 {
        cursor.ins().store(MemFlagsData::trusted(), v, base, (lives[v].slot - 1) as i32);
        loaded.insert(v, v);
    }
}

fn lives(func: &Function) -> SecondaryMap<Value, Life> {
    let mut lives: SecondaryMap<Value, Life> = SecondaryMap::with_capacity(func.dfg.num_values());
    let mut at = 0;
    for block in func.layout.blocks() {
        for &v in func.dfg.block_params(block) {
            lives[v].defined = at;
        }
        for inst in func.layout.block_insts(block) {
            at += 1;
            for v in func.dfg.inst_values(inst) {
                lives[v].last = at;
            }
            for &v in func.dfg.inst_results(inst) {
                lives[v].defined = at;
            }
        }
    }
    lives
}

/// The instruction that defines a value, if it can be rematerialised at each use: a constant or an address in
/// the frame.
fn maker(func: &Function, v: Value) -> Option<Inst> {
    let inst = func.dfg.value_def(v).inst()?;
    matches!(
        func.dfg.insts[inst].opcode(),
        Opcode::Iconst
            | Opcode::F32const
            | Opcode::F64const
            | Opcode::F16const
            | Opcode::Vconst
            | Opcode::StackAddr
    )
    .then_some(inst)
}
