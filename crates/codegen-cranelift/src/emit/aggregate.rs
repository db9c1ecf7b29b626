//! Emits the address arithmetic that all indexing shares.
//!
//! An index out of range yields a valid address without meaning: zeros for a read, the sink for a write. So
//! an access needs no branch.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use ir::{Type, TypeData};

use super::Emitter;
use native::emit::Assembler;

/// The elements that an index selects from.
pub(super) struct Indexed {
    /// The address of the first element.
    pub(super) base: Value,
    /// The distance in bytes from one element to the next.
    pub(super) stride: u64,
    /// The address that is accessed instead if the index is out of range.
    pub(super) otherwise: Value,
}

impl Emitter<'_, '_> {
    /// The address that a read out of range uses: absent differentials within a stack, else zeros.
    pub(super) fn otherwise(&mut self, elem: Type, of_stack: bool) -> Value {
        let scalar = self.ts.scalar_of(elem);
        let absent = self.cx.absent.iter().find(|(s, _)| of_stack && Some(*s) == scalar);
        let at = match (&self.ts[elem], absent) {
            (TypeData::Stack(_), _) => self.cx.empty_at,
            (_, Some(&(_, at))) => at,
            _ => self.cx.zero,
        };
        self.i64(at)
    }

    /// The address of element `idx` of `len` elements.
    pub(super) fn place(&mut self, from: &Indexed, idx: ir::Value, len: u64) -> Value {
        if let Some(bits) = self.const_of(idx) {
            return if ir::scalar::index(self.scalar_of(idx), bits, len as usize).is_some() {
                self.add_imm(from.base, (bits * from.stride) as i64)
            } else {
                from.otherwise
            };
        }
        let at = self.index64(idx);
        if self.upper_bound(idx).is_some_and(|max| max < len) {
            let bytes = self.mul_imm(at, from.stride);
            return self.b.ins().iadd(from.base, bytes);
        }
        let len = self.i64(len as i64);
        self.place_below(from, at, len)
    }

    /// The address of element `at` of `len` elements, both of 64 bits.
    pub(super) fn place_below(&mut self, from: &Indexed, at: Value, len: Value) -> Value {
        let inside = self.b.ins().icmp(IntCC::UnsignedLessThan, at, len);
        let bytes = self.mul_imm(at, from.stride);
        let place = self.b.ins().iadd(from.base, bytes);
        self.b.ins().select(inside, place, from.otherwise)
    }
}
