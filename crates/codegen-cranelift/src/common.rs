//! Types, flags and conventions that code for one thread and code for lanes share.

use cranelift_codegen::ir::{AbiParam, MemFlagsData, Signature, Type as ClifType, types::*};
use cranelift_codegen::isa::CallConv;
use native::runtime::{Helper, Word};

/// The type of a helper's parameter.
pub(crate) fn word(w: Word) -> ClifType {
    match w {
        Word::I32 => I32,
        Word::I64 | Word::Ptr => I64,
        Word::F32 => F32,
        Word::F64 => F64,
    }
}

/// Ordinary memory: valid, of any alignment.
pub(crate) fn plain() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Memory that is not written while code that can read it runs.
pub(crate) fn constant_memory() -> MemFlagsData {
    MemFlagsData::new().with_notrap().with_readonly().with_can_move()
}

/// The offsets and types of loads that together cover this number of bytes.
pub(crate) fn chunks(bytes: u64) -> impl Iterator<Item = (i32, ClifType)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let ty = match bytes - at {
            0 => return None,
            16.. => I8X16,
            8.. => I64,
            4.. => I32,
            2.. => I16,
            _ => I8,
        };
        let here = at as i32;
        at += ty.bytes() as u64;
        Some((here, ty))
    })
}

/// True if the machine's backend supports the calling convention of functions that preserve all registers.
pub(crate) const HAS_RARE: bool =
    cfg!(all(not(windows), any(target_arch = "x86_64", target_arch = "aarch64")));

/// The signature of the function that preserves all registers and calls a helper.
pub(crate) fn rare_signature(helper: Helper) -> Signature {
    let (params, result) = helper.signature();
    let mut sig = Signature::new(CallConv::PreserveAll);
    sig.params.extend(params.iter().map(|&w| AbiParam::new(word(w))));
    sig.params.extend(result.map(|_| AbiParam::new(I64)));
    sig
}
