//! Emits one function: values, memory and the dispatch over ops.
//!
//! # Memory of a function
//!
//! An instruction that makes an array or a cell has its own memory: a slot of the frame or, if it is large,
//! memory of the arena. That is sound because the result of an instruction is dead when the same instruction
//! is executed again in the same activation: only a loop executes it again, and the values that a trip passes
//! to the next one are copied into the loop's own memory.

mod entry;
mod instructions;
mod memory;
mod rare;

use std::ops::{Deref, DerefMut};

use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, FuncRef, Function as ClifFunction, InstBuilder, Signature, Type as ClifType,
    Value, types::*,
};
use cranelift_codegen::isa::CallConv;
use cranelift_entity::SecondaryMap;
use cranelift_frontend::FunctionBuilder;
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Linkage, Module as _};
use ir::{Func, Scalar, Slot, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::common::plain;
use crate::compile::Queue;
use crate::types::{parts, returns};
use native::emit::Walk;
use native::plan::Plan;
use native::profile::{Line, Spills};
use native::runtime::{Helper, Tables, offsets};
use native::types::{Shape, is_array};
use native::{Options, Unsupported};

/// The Cranelift values that hold an IR value.
pub(crate) type Vals = SmallVec<[Value; 4]>;
/// The result of emission.
pub(crate) type Res<T = ()> = Result<T, Unsupported>;

/// State shared by all functions of a module while they are emitted.
pub(crate) struct ModuleCx<'m> {
    /// The module.
    pub(crate) ir: &'m ir::Module,
    /// The facts about the module.
    pub(crate) plan: Plan,
    /// The options.
    pub(crate) options: Options,
    /// The module of Cranelift that receives the code.
    pub(crate) jit: JITModule,
    /// Declared functions.
    pub(crate) funcs: SecondaryMap<Func, Option<FuncId>>,
    /// The helpers that are called on paths that are almost never taken.
    pub(crate) rare: Vec<(Helper, FuncId)>,
    /// Declared symbols of the runtime.
    pub(crate) symbols: FxHashMap<String, FuncId>,
    /// The tables that code refers to by number or address.
    pub(crate) tables: Tables,
    /// The address of memory that is always zero.
    pub(crate) zero: i64,
    /// The addresses of memory that always holds absent differentials, by their type.
    pub(crate) absent: [(Scalar, i64); 3],
    /// The address of the empty stack's header.
    pub(crate) empty: i64,
    /// The address of a word that holds `empty`.
    pub(crate) empty_at: i64,
    /// True if the machine has a fused multiply-add.
    pub(crate) has_fma: bool,
    /// True if the machine rounds to integers in one instruction.
    pub(crate) has_round: bool,
    /// The size of each function's frame in bytes.
    pub(crate) frames: SecondaryMap<Func, u32>,
    /// The size of all frames of functions for lanes in bytes.
    pub(crate) lane_frames: u64,
    /// Collects the text of functions instead of compiling them, if present.
    pub(crate) text: Option<String>,
    /// The functions that are emitted but not yet compiled.
    pub(crate) queue: Queue,
    /// For a profile: the pieces of each compiled function, by their offsets.
    pub(crate) pieces: Vec<(FuncId, Vec<Line>)>,
    /// For a profile: the spills of all functions.
    pub(crate) spills: Vec<Spills>,
}

impl ModuleCx<'_> {
    /// The address of a shape, which stays valid.
    pub(crate) fn shape(&mut self, shape: Shape) -> i64 {
        self.tables.shape(shape).1
    }

    /// The signature of a function: context, parameters, a destination for each array result, and one
    /// destination for results that do not fit in registers.
    pub(crate) fn signature(&self, func: Func) -> Signature {
        let f = &self.ir.funcs[func];
        let mut sig = Signature::new(CallConv::Tail);
        sig.params.push(AbiParam::new(I64));
        for slot in &f.params {
            sig.params.extend(parts(&self.ir.types, slot.ty).into_iter().map(AbiParam::new));
        }
        for slot in &f.results {
            if is_array(&self.ir.types, slot.ty) {
                sig.params.push(AbiParam::new(I64));
            }
        }
        let (all, spilled) = returns(&self.ir.types, slot_types(&f.results));
        if spilled > 0 {
            sig.params.push(AbiParam::new(I64));
        }
        sig.returns.extend(all.iter().filter(|p| p.1).map(|p| AbiParam::new(p.0)));
        sig
    }

    /// The declaration of a symbol of the runtime.
    pub(crate) fn symbol(&mut self, name: &str, params: &[ClifType], result: Option<ClifType>) -> FuncId {
        if let Some(&id) = self.symbols.get(name) {
            return id;
        }
        let mut sig = self.jit.make_signature();
        sig.params.extend(params.iter().map(|&t| AbiParam::new(t)));
        sig.returns.extend(result.map(AbiParam::new));
        let id = self
            .jit
            .declare_function(name, Linkage::Import, &sig)
            .expect("a runtime symbol is declared once");
        self.symbols.insert(name.to_string(), id);
        id
    }
}

/// Emits the code of one IR function.
pub(crate) struct Emitter<'a, 'm> {
    pub(crate) cx: &'a mut ModuleCx<'m>,
    pub(crate) b: FunctionBuilder<'a>,
    walk: Walk<'m, Value>,
    /// The first block.
    entry: Block,
    /// The context.
    pub(crate) ctx: Value,
    /// The references to other functions.
    refs: FxHashMap<FuncId, FuncRef>,
    /// The slot for results of rarely called helpers.
    rare_result: Option<cranelift_codegen::ir::StackSlot>,
}

impl<'m> Deref for Emitter<'_, 'm> {
    type Target = Walk<'m, Value>;

    fn deref(&self) -> &Walk<'m, Value> {
        &self.walk
    }
}

impl<'m> DerefMut for Emitter<'_, 'm> {
    fn deref_mut(&mut self) -> &mut Walk<'m, Value> {
        &mut self.walk
    }
}

impl<'a, 'm> Emitter<'a, 'm> {
    /// Makes an emitter for `f` into `clif`, with its first block open.
    pub(crate) fn new(
        cx: &'a mut ModuleCx<'m>,
        f: &'m ir::Function,
        clif: &'a mut ClifFunction,
        frontend: &'a mut cranelift_frontend::FunctionBuilderContext,
    ) -> Emitter<'a, 'm> {
        let mut b = FunctionBuilder::new(clif, frontend);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let ctx = b.block_params(block)[0];
        let walk = Walk::new(f, &cx.ir.types, 1);
        Emitter { cx, b, walk, entry: block, ctx, refs: FxHashMap::default(), rare_result: None }
    }

    // ---- instructions in short

    /// An address or 64-bit integer constant.
    pub(crate) fn i64(&mut self, n: i64) -> Value {
        self.b.ins().iconst(I64, n)
    }

    /// `a + n`.
    pub(crate) fn add_imm(&mut self, a: Value, n: i64) -> Value {
        if n == 0 {
            return a;
        }
        let n = self.i64(n);
        self.b.ins().iadd(a, n)
    }

    /// `a * n`.
    pub(crate) fn mul_imm(&mut self, a: Value, n: u64) -> Value {
        if n == 1 {
            return a;
        }
        let n = self.i64(n as i64);
        self.b.ins().imul(a, n)
    }

    /// Records the line that allocates memory, for the error message if there is not enough.
    pub(crate) fn note_memory(&mut self, helper: Helper) {
        if helper.allocates() {
            let site = self.cx.tables.memory_site(self.here);
            let site = self.b.ins().iconst(I32, site);
            self.b.ins().store(plain(), site, self.ctx, offsets::SITE);
        }
    }

    /// Calls a function of the runtime.
    pub(crate) fn call_symbol(
        &mut self,
        name: &str,
        params: &[ClifType],
        result: Option<ClifType>,
        args: &[Value],
    ) -> Option<Value> {
        let id = self.cx.symbol(name, params, result);
        let func = self.func_ref(id);
        let call = self.b.ins().call(func, args);
        self.b.inst_results(call).first().copied()
    }

    /// The reference to a declared function.
    pub(crate) fn func_ref(&mut self, id: FuncId) -> FuncRef {
        if let Some(&func) = self.refs.get(&id) {
            return func;
        }
        let func = self.cx.jit.declare_func_in_func(id, self.b.func);
        self.refs.insert(id, func);
        func
    }

    /// Emits the instructions of a region.
    pub(crate) fn region(&mut self, region: ir::Region) -> Res {
        native::emit::region(self, region)
    }
}

/// The slots' types.
pub(crate) fn slot_types(slots: &[Slot]) -> impl Iterator<Item = Type> + '_ {
    slots.iter().map(|s| s.ty)
}

fn block_args(vals: &[Value]) -> SmallVec<[BlockArg; 8]> {
    vals.iter().map(|&v| BlockArg::Value(v)).collect()
}
