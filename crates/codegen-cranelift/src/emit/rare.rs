//! Calls of helpers on paths that are almost never taken, at no cost to the surrounding code.
//!
//! A call clobbers every floating-point register on most machines, and the register allocator keeps values
//! that are live across it in the frame, even in loops that never make the call: a loop of a derivative took
//! twice its time. So these calls go through a function of their own that preserves all registers. Cranelift
//! does not allow such a function to have a result, so the result goes through memory that the caller
//! provides.

use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types::I64};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module as _};

use super::{Emitter, ModuleCx};
use crate::common::{HAS_RARE, plain, rare_signature, word};
use native::emit::Instructions;
use native::runtime::Helper;

impl ModuleCx<'_> {
    /// The function that preserves all registers and calls a helper.
    pub(crate) fn rare(&mut self, helper: Helper) -> FuncId {
        if let Some(known) = self.rare.iter().find(|known| known.0 == helper) {
            return known.1;
        }
        let sig = rare_signature(helper);
        let id = self.jit.declare_anonymous_function(&sig).expect("a function without a name");
        self.rare.push((helper, id));
        id
    }

    /// Emits the `k`th of those functions.
    pub(crate) fn emit_rare(
        &mut self,
        k: usize,
        clif: &mut cranelift_codegen::Context,
        frontend: &mut FunctionBuilderContext,
    ) -> FuncId {
        let (helper, id) = self.rare[k];
        clif.func.signature = rare_signature(helper);
        let (params, result) = helper.signature();
        let types: Vec<_> = params.iter().map(|&w| word(w)).collect();
        let callee = self.symbol(helper.name(), &types, result.map(word));
        let callee = self.jit.declare_func_in_func(callee, &mut clif.func);
        let mut b = FunctionBuilder::new(&mut clif.func, frontend);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let all = b.block_params(block).to_vec();
        let call = b.ins().call(callee, &all[..types.len()]);
        if let Some(&made) = b.inst_results(call).first() {
            b.ins().store(plain(), made, all[types.len()], 0);
        }
        b.ins().return_(&[]);
        b.finalize(self.jit.target_config());
        id
    }
}

impl Emitter<'_, '_> {
    /// Calls a helper on a path that is almost never taken.
    pub(crate) fn rare_call(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        if !HAS_RARE {
            return self.helper(helper, args);
        }
        self.note_memory(helper);
        let mut args = self.with_context(helper, args);
        let result = helper.signature().1.map(|w| {
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
            let slot = *self.rare_result.get_or_insert_with(|| self.b.create_sized_stack_slot(slot));
            args.push(self.b.ins().stack_addr(I64, slot, 0));
            (word(w), slot)
        });
        let id = self.cx.rare(helper);
        let func = self.func_ref(id);
        self.b.ins().call(func, &args);
        result.map(|(ty, slot)| self.b.ins().stack_load(I64, ty, slot, 0))
    }
}
