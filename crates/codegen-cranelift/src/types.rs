//! The representation of IR values by Cranelift's values; local memory is laid out as in `native::types`.

use cranelift_codegen::ir::{Type as ClifType, types};
use ir::{Scalar, Type, TypeData, Types};
use native::types::{HANDLE_WORDS, is_array};
use smallvec::{SmallVec, smallvec};

/// The Cranelift type that holds one number.
pub(crate) fn clif(s: Scalar) -> ClifType {
    match s {
        Scalar::Bool | Scalar::I8 | Scalar::U8 => types::I8,
        Scalar::I16 | Scalar::U16 | Scalar::F16 => types::I16,
        Scalar::I32 | Scalar::U32 => types::I32,
        Scalar::I64 | Scalar::U64 => types::I64,
        Scalar::F32 => types::F32,
        Scalar::F64 => types::F64,
    }
}

/// The Cranelift types that hold a value.
pub(crate) fn parts(ts: &Types, ty: Type) -> SmallVec<[ClifType; 4]> {
    match ts[ty] {
        TypeData::Scalar(s) => smallvec![clif(s)],
        TypeData::Vector(s, n) => smallvec![clif(s); n as usize],
        TypeData::Array(..) | TypeData::Stack(_) | TypeData::Cell(_) => smallvec![types::I64],
        TypeData::Buffer(_) => smallvec![types::I64; HANDLE_WORDS],
        TypeData::Residuals(_) => smallvec![],
    }
}

/// The results of a function other than arrays: for each part its type and whether it is returned in a
/// register, and the number of parts that are returned through memory instead, eight bytes each.
pub(crate) fn returns(ts: &Types, results: impl Iterator<Item = Type>) -> (Vec<(ClifType, bool)>, u64) {
    let (mut ints, mut floats, mut spilled) = (6, 8, 0);
    let mut all = Vec::new();
    for ty in results.filter(|&ty| !is_array(ts, ty)) {
        for part in parts(ts, ty) {
            let left = if part.is_float() { &mut floats } else { &mut ints };
            let in_register = *left > 0;
            *left -= i32::from(in_register);
            spilled += u64::from(!in_register);
            all.push((part, in_register));
        }
    }
    (all, spilled)
}
