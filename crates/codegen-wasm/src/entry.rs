//! Writes the function that runs the groups of an entry point.

use ir::{Module, Space};
use native::runtime::offsets;
use wasm_encoder::{BlockType, Function, Instruction as I, MemArg, MemArgTarget, ValType};

use crate::layout::{CONTEXT, Layout};
use crate::{Features, NOT_FUSED};

/// The code of an entry point.
pub(crate) struct Code {
    /// The number of threads in a group along each axis.
    pub(crate) size: [u32; 3],
    /// The function that runs threads in lanes, and the number of lanes.
    pub(crate) lanes: Option<(u32, u32)>,
    /// The function that runs one thread at a time, if there is need for it.
    pub(crate) one: Option<u32>,
    /// Groups run one by one, since they have memory of their own or barriers.
    pub(crate) one_by_one: bool,
    /// The first group runs last: it may read what the others have left.
    pub(crate) backwards: bool,
}

/// The parameters and variables.
const X: u32 = 0;
const Y: u32 = 1;
const Z: u32 = 2;
const AT: [u32; 3] = [3, 4, 5];
const THREADS: u32 = 6;
const WHOLE: u32 = 7;

/// The runtime's functions and globals that are used.
pub(crate) struct Uses {
    pub(crate) begin: u32,
    pub(crate) stack_pointer: u32,
    pub(crate) error: u32,
    pub(crate) stack_end: u32,
    pub(crate) features: Features,
}

fn field(offset: i32) -> (I<'static>, MemArg) {
    let memory = MemArg { offset: offset as u64, align: 2, target: MemArgTarget::Memory(0), ordering: None };
    (I::I32Const(CONTEXT as i32), memory)
}

/// Stores to a field of the context.
fn store(f: &mut Function, offset: i32, value: I<'_>) {
    let (base, memory) = field(offset);
    f.instruction(&base).instruction(&value).instruction(&I::I32Store(memory));
}

/// Computes 1 if relaxed SIMD rounds products before it adds, and 0 if not.
fn is_rounded(f: &mut Function) {
    // (1 + 2^-12) (1 - 2^-12) - 1 is 0 if the product is rounded.
    let e = 2f32.powi(-12);
    for x in [1.0 + e, 1.0 - e, -1.0] {
        f.instruction(&I::F32Const(x.into())).instruction(&I::F32x4Splat);
    }
    f.instruction(&I::F32x4RelaxedMadd).instruction(&I::F32x4ExtractLane(0));
    f.instruction(&I::F32Const(0f32.into())).instruction(&I::F32Eq);
}

/// A module with a function `rounds`, whose result is 1 if relaxed SIMD rounds products before it adds. Engines without
/// relaxed SIMD refuse it.
pub fn probe() -> Vec<u8> {
    let mut module = wasm_encoder::Module::new();
    let mut types = wasm_encoder::TypeSection::new();
    types.ty().function([], [ValType::I32]);
    let mut functions = wasm_encoder::FunctionSection::new();
    functions.function(0);
    let mut memories = wasm_encoder::MemorySection::new();
    memories.memory(wasm_encoder::MemoryType {
        minimum: 0,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = wasm_encoder::ExportSection::new();
    exports.export("memory", wasm_encoder::ExportKind::Memory, 0);
    exports.export("rounds", wasm_encoder::ExportKind::Func, 0);
    let mut code = wasm_encoder::CodeSection::new();
    let mut f = Function::new([]);
    is_rounded(&mut f);
    f.instruction(&I::End);
    code.function(&f);
    module.section(&types).section(&functions).section(&memories).section(&exports).section(&code);
    module.finish()
}

/// Prepares for code to run.
fn begin(f: &mut Function, uses: &Uses) {
    f.instruction(&I::Call(uses.begin));
    f.instruction(&I::I32Const(uses.stack_end as i32)).instruction(&I::GlobalSet(uses.stack_pointer));
    store(f, offsets::DEPTH, I::I32Const(0));
    if !uses.features.relaxed_simd {
        return;
    }
    is_rounded(f);
    f.instruction(&I::If(BlockType::Empty)).instruction(&I::I32Const(NOT_FUSED as i32));
    f.instruction(&I::GlobalSet(uses.error)).instruction(&I::Unreachable).instruction(&I::End);
}

/// Writes `(arguments, results)`, which calls a function by the addresses of its words.
pub(crate) fn raw(function: u32, uses: &Uses) -> Function {
    let mut f = Function::new([]);
    begin(&mut f, uses);
    f.instruction(&I::I64Const(CONTEXT.into()));
    f.instruction(&I::LocalGet(0)).instruction(&I::I64ExtendI32U);
    f.instruction(&I::LocalGet(1)).instruction(&I::I64ExtendI32U);
    f.instruction(&I::Call(function)).instruction(&I::End);
    f
}

/// Writes `(x, y, z)`.
pub(crate) fn write(module: &Module, layout: &Layout, code: &Code, uses: &Uses) -> Function {
    let locals = [(3, ValType::I32), (2, ValType::I64)];
    let mut f = Function::new(locals);
    let each: u64 = code.size.iter().map(|&n| u64::from(n)).product();
    begin(&mut f, uses);
    for (k, n) in code.size.into_iter().enumerate() {
        store(&mut f, offsets::SIZE + 4 * k as i32, I::I32Const(n as i32));
    }
    // Without threads there is nothing to do.
    f.instruction(&I::I64Const(each as i64)).instruction(&I::I64Eqz);
    f.instruction(&I::If(BlockType::Empty)).instruction(&I::Return).instruction(&I::End);
    let nested = |f: &mut Function, axis: usize, n: u32| {
        f.instruction(&I::I32Const(0)).instruction(&I::LocalSet(AT[axis]));
        f.instruction(&I::Block(BlockType::Empty)).instruction(&I::Loop(BlockType::Empty));
        f.instruction(&I::LocalGet(AT[axis])).instruction(&I::LocalGet(n));
        f.instruction(&I::I32GeU).instruction(&I::BrIf(1));
        let (base, memory) = field(offsets::GROUP + 4 * axis as i32);
        f.instruction(&base);
        if code.backwards {
            f.instruction(&I::LocalGet(n)).instruction(&I::I32Const(1)).instruction(&I::I32Sub);
            f.instruction(&I::LocalGet(AT[axis])).instruction(&I::I32Sub);
        } else {
            f.instruction(&I::LocalGet(AT[axis]));
        }
        f.instruction(&I::I32Store(memory));
    };
    let close = |f: &mut Function, axis: usize| {
        f.instruction(&I::LocalGet(AT[axis])).instruction(&I::I32Const(1)).instruction(&I::I32Add);
        f.instruction(&I::LocalSet(AT[axis])).instruction(&I::Br(0));
        f.instruction(&I::End).instruction(&I::End);
    };
    nested(&mut f, 2, Z);
    nested(&mut f, 1, Y);
    store(&mut f, offsets::GROUP, I::I32Const(0));
    if code.one_by_one {
        nested(&mut f, 0, X);
        for ((_, data), own) in module.globals.iter().zip(&layout.own) {
            if let (Space::GroupShared, Some((at, bytes))) = (data.space, own) {
                f.instruction(&I::I32Const(*at as i32)).instruction(&I::I32Const(0));
                f.instruction(&I::I32Const(*bytes as i32)).instruction(&I::MemoryFill(0));
            }
        }
        f.instruction(&I::I64Const(each as i64));
    } else {
        f.instruction(&I::LocalGet(X)).instruction(&I::I64ExtendI32U);
        f.instruction(&I::I64Const(each as i64)).instruction(&I::I64Mul);
    }
    f.instruction(&I::LocalSet(THREADS));
    let call = |f: &mut Function, number: u32, from: I<'_>, to: I<'_>| {
        f.instruction(&I::I64Const(CONTEXT.into())).instruction(&from).instruction(&to);
        f.instruction(&I::Call(number));
    };
    match code.lanes {
        Some((function, lanes)) => {
            f.instruction(&I::LocalGet(THREADS)).instruction(&I::LocalGet(THREADS));
            f.instruction(&I::I64Const(lanes.into())).instruction(&I::I64RemU).instruction(&I::I64Sub);
            f.instruction(&I::LocalSet(WHOLE));
            call(&mut f, function, I::I64Const(0), I::LocalGet(WHOLE));
            if let Some(one) = code.one {
                call(&mut f, one, I::LocalGet(WHOLE), I::LocalGet(THREADS));
            }
        }
        None => {
            if let Some(one) = code.one {
                call(&mut f, one, I::I64Const(0), I::LocalGet(THREADS));
            }
        }
    }
    if code.one_by_one {
        close(&mut f, 0);
    }
    close(&mut f, 1);
    close(&mut f, 2);
    f.instruction(&I::End);
    f
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_probe_is_a_module() {
        let features = wasmparser::WasmFeatures::default();
        assert!(features.relaxed_simd(), "the validator knows relaxed SIMD");
        wasmparser::Validator::new_with_features(features)
            .validate_all(&super::probe())
            .expect("it is valid");
    }
}
