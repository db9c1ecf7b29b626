//! LLVM's text to machine code in memory: LLVM's optimiser, an object file, and its JIT linker.

use std::ffi::{CStr, CString, c_char};

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine};
use ir::{Module, Span};
use native::{Compiled, EntryCode, Fixed, Lanes, Options, Parts, RawFn, SpanFn, Unsupported};

use crate::{Machine, NAME, Text};

/// This machine.
pub fn machine() -> Machine {
    let cpu = TargetMachine::get_host_cpu_name().to_string();
    let features = TargetMachine::get_host_cpu_features().to_string();
    let has = |name: &str| features.split(',').any(|f| f.strip_prefix('+') == Some(name));
    let vector_bits = if has("avx512f") {
        512
    } else if has("avx2") {
        256
    } else {
        128
    };
    Machine { cpu, features, vector_bits }
}

/// Compiles the entry points of a verified module, the functions in `options`, and all that they call.
pub fn compile(module: &Module, options: &Options) -> Result<Compiled, Unsupported> {
    let machine = machine();
    let text = crate::text(module, options, &machine)?;
    let fixed = Fixed::new(text.plan.largest);
    let failed =
        |op: String| Unsupported { backend: NAME, op: format!("the module: {op}"), span: Span::NONE };
    let object = object(&text.text, &machine, options).map_err(failed)?;
    let memory = Linked::new(&object, &fixed).map_err(failed)?;
    let span = |name: &str| {
        // SAFETY: emitted with this signature.
        memory.address(name).map(|at| unsafe { std::mem::transmute::<u64, SpanFn>(at) })
    };
    let Text { entries, raw, tables, plan, stack_need, .. } = text;
    let mut codes = Vec::new();
    for entry in &entries {
        let (lanes, reason) = match &entry.lanes {
            Ok((name, width)) => (Some(Lanes { code: span(name).map_err(failed)?, width: *width }), None),
            Err(reason) => (None, Some(reason.clone())),
        };
        codes.push((EntryCode::Span(span(&entry.one).map_err(failed)?, lanes), reason));
    }
    let mut functions = Vec::new();
    for (func, name) in raw {
        let at = memory.address(&name).map_err(failed)?;
        // SAFETY: emitted with this signature.
        functions.push((func, unsafe { std::mem::transmute::<u64, RawFn>(at) }));
    }
    let parts = Parts { entries: codes, raw: functions, tables, fixed, stack_need, memory: Box::new(memory) };
    // SAFETY: the emitter keeps the contract; the text means what the module says.
    Ok(unsafe { Compiled::new(module, &plan, parts) })
}

/// An object file of the text.
pub(crate) fn object(text: &str, machine: &Machine, options: &Options) -> Result<Vec<u8>, String> {
    Target::initialize_native(&InitializationConfig::default())?;
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "pullback");
    let module = context.create_module_from_ir(buffer).map_err(|e| e.to_string())?;
    let triple = TargetMachine::get_default_triple();
    let target = Target::from_triple(&triple).map_err(|e| e.to_string())?;
    let level = if options.fast_compile { OptimizationLevel::None } else { OptimizationLevel::Default };
    let target = target
        .create_target_machine(
            &triple,
            &machine.cpu,
            &machine.features,
            level,
            RelocMode::PIC,
            CodeModel::JITDefault,
        )
        .ok_or("LLVM has no such target")?;
    module.set_triple(&triple);
    module.set_data_layout(&target.get_target_data().get_data_layout());
    if cfg!(debug_assertions) {
        module.verify().map_err(|e| e.to_string())?;
    }
    let passes = if options.fast_compile { "default<O1>" } else { "default<O2>" };
    module.run_passes(passes, &target, PassBuilderOptions::create()).map_err(|e| e.to_string())?;
    let object = target.write_to_memory_buffer(&module, FileType::Object).map_err(|e| e.to_string())?;
    Ok(object.as_slice().to_vec())
}

/// Code in memory, until it is dropped.
struct Linked(LLVMOrcLLJITRef);

impl Drop for Linked {
    fn drop(&mut self) {
        // SAFETY: made by `new`; whoever owns this has given up the addresses. What goes wrong is memory that is
        // not given back.
        let error = unsafe { LLVMOrcDisposeLLJIT(self.0) };
        let _ = check(error);
    }
}

impl Linked {
    /// Links an object file with the runtime.
    fn new(object: &[u8], fixed: &Fixed) -> Result<Linked, String> {
        let mut jit = std::ptr::null_mut();
        // SAFETY: without a builder the JIT is for this process.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, std::ptr::null_mut()) })?;
        let linked = Linked(jit);
        let fixed = [
            ("rt_zero", fixed.zero() as u64),
            ("rt_empty", fixed.empty() as u64),
            ("rt_empty_at", fixed.empty_at() as u64),
        ];
        let symbols = native::runtime::symbols();
        let all = fixed.into_iter().chain(symbols.iter().map(|(name, at)| (name.as_str(), *at as u64)));
        // SAFETY: the JIT is alive; names are terminated, and interned names are handed over with the definitions.
        unsafe {
            let library = LLVMOrcLLJITGetMainJITDylib(jit);
            let mut pairs = Vec::new();
            for (name, address) in all {
                let name = CString::new(name).map_err(|e| e.to_string())?;
                let flags = LLVMJITSymbolFlags {
                    GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8,
                    TargetFlags: 0,
                };
                pairs.push(LLVMOrcCSymbolMapPair {
                    Name: LLVMOrcLLJITMangleAndIntern(jit, name.as_ptr()),
                    Sym: LLVMJITEvaluatedSymbol { Address: address, Flags: flags },
                });
            }
            let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
            check(LLVMOrcJITDylibDefine(library, unit))?;
            // What LLVM makes of instructions that the machine lacks: memcpy and the like.
            let mut process = std::ptr::null_mut();
            let prefix = LLVMOrcLLJITGetGlobalPrefix(jit);
            check(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
                &mut process,
                prefix,
                None,
                std::ptr::null_mut(),
            ))?;
            LLVMOrcJITDylibAddGenerator(library, process);
            let name = c"pullback";
            let buffer = inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy(
                object.as_ptr().cast::<c_char>(),
                object.len(),
                name.as_ptr(),
            );
            check(LLVMOrcLLJITAddObjectFile(jit, library, buffer))?;
        }
        Ok(linked)
    }

    /// The address of a function.
    fn address(&self, name: &str) -> Result<u64, String> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        let mut at = 0;
        // SAFETY: the JIT is alive, the name is terminated.
        check(unsafe { LLVMOrcLLJITLookup(self.0, &mut at, name.as_ptr()) })?;
        Ok(at)
    }
}

/// An error of LLVM as text.
fn check(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error that is not null has a message, which is ours to dispose of.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(text)
    }
}
