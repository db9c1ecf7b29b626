//! Emits handles that are numbers, as they are in memory.
//!
//! Such a number is that of a descriptor, from 1, in the bits from [`HANDLE_SHIFT`] on, plus the bytes from the start of
//! the memory that it describes. The descriptors that numbers refer to count bytes, so that any of them can be memory
//! of elements of any type. A handle without memory is its bytes only: null is 0, and a number that stands for no
//! memory stays that number.

use ir::interp::HANDLE_SHIFT;
use ir::{MemType, Rest, Scalar, Span};

use super::{Assembler, Binary, Compare, Fixed, Odds, Res, Vals};
use crate::runtime::{Word, offsets};

/// The size of a descriptor.
const DESC: u64 = 16;

/// Memory of so many bytes as elements of `size` bytes, the first of them at a byte: the part of the offset that is less
/// than an element moves the address.
pub(super) fn elements<'m, A: Assembler<'m>>(
    e: &mut A,
    first: A::V,
    bytes: A::V,
    at: A::V,
    to: u64,
    kind: Rest,
) -> Vals<A::V> {
    let (size, zero) = (e.number(to), e.number(0));
    // The division rounds down.
    let rest = e.binary(Binary::RemSigned, at, size);
    let below = e.compare(Compare::LessSigned, rest, zero);
    let fix = e.select(below, size, zero);
    let rest = e.binary(Binary::Add, rest, fix);
    let whole = e.binary(Binary::Sub, at, rest);
    let offset = if to == 1 { whole } else { e.binary(Binary::DivSigned, whole, size) };
    let some = e.compare(Compare::MoreOrEqualUnsigned, bytes, rest);
    let left = e.binary(Binary::Sub, bytes, rest);
    let left = e.select(some, left, zero);
    let count = if to == 1 { left } else { e.binary(Binary::DivUnsigned, left, size) };
    let part = match kind {
        Rest::Kept => {
            let counted = e.times(count, to);
            e.binary(Binary::Sub, left, counted)
        }
        Rest::Dropped => zero,
    };
    let ptr = e.offset(first, rest);
    [ptr, count, offset, part].into_iter().collect()
}

/// The handle with elements of a type that a number stands for.
pub(super) fn of_bits<'m, A: Assembler<'m>>(e: &mut A, bits: A::V, elem: MemType) -> Vals<A::V> {
    let size = e.module().mem.size(elem).max(1);
    let (table, count) =
        (e.context(Word::Ptr, offsets::HANDLES), e.context(Word::I64, offsets::HANDLE_COUNT));
    let (one, shift) = (e.number(1), e.number(HANDLE_SHIFT.into()));
    let half = e.number(1 << (HANDLE_SHIFT - 1));
    let number = e.binary(Binary::Add, bits, half);
    let number = e.binary(Binary::ShrUnsigned, number, shift);
    let start = e.binary(Binary::Shl, number, shift);
    let at = e.binary(Binary::Sub, bits, start);
    let number = e.binary(Binary::Sub, number, one);
    let inside = e.compare(Compare::LessUnsigned, number, count);
    let by = e.times(number, DESC);
    let (desc, zeros) = (e.offset(table, by), e.fixed(Fixed::Zeros));
    let desc = e.select(inside, desc, zeros);
    let (first, bytes) = (e.load_word(None, desc, 0), e.load_word(Some(Scalar::I64), desc, 1));
    let none = e.number(0);
    let empty = e.compare(Compare::Equal, bytes, none);
    let (first, at) = (e.select(empty, zeros, first), e.select(empty, bits, at));
    elements(e, first, bytes, at, size, Rest::Kept)
}

/// The number that stands for a handle with elements of a type.
pub(super) fn bits<'m, A: Assembler<'m>>(
    e: &mut A,
    handle: &[A::V],
    elem: MemType,
    span: Span,
) -> Res<'m, A, A::V> {
    let is_number = e.plan().numbers;
    if is_number {
        e.check_alone("a pointer that becomes a number", span)?;
    }
    let (zero, one) = (e.number(0), e.number(1));
    let at = e.times(handle[2], e.module().mem.size(elem).max(1));
    let ptr = e.address_bits(handle[0]);
    // Without memory, the part of the offset that is less than an element is that of the address of zeros.
    let zeros = e.fixed(Fixed::Zeros);
    let zeros = e.address_bits(zeros);
    let rest = e.binary(Binary::Sub, ptr, zeros);
    let most = e.number(e.module().mem.size(elem));
    let is_rest = e.compare(Compare::LessUnsigned, rest, most);
    let rest = e.select(is_rest, rest, zero);
    let empty = e.binary(Binary::Add, at, rest);
    let some = e.binary(Binary::Or, handle[1], handle[3]);
    if !is_number {
        // Numbers only tell pointers apart: they are addresses.
        let none = e.compare(Compare::Equal, some, zero);
        let address = e.binary(Binary::Add, ptr, at);
        return Ok(e.select(none, empty, address));
    }
    // The descriptors are tried one after the other; numbers count from 1.
    let (table, count) =
        (e.context(Word::Ptr, offsets::HANDLES), e.context(Word::I64, offsets::HANDLE_COUNT));
    let none = e.compare(Compare::Equal, some, zero);
    let end = e.select(none, zero, count);
    let (head, body, next, exit) = (e.block(&[zero]), e.block(&[]), e.block(&[]), e.block(&[zero]));
    e.jump(head, &[zero]);
    let k = e.enter(head)[0];
    let more = e.compare(Compare::LessUnsigned, k, end);
    e.branch(more, (body, &[]), (exit, &[empty]), Odds::Even);
    e.enter(body);
    let by = e.times(k, DESC);
    let desc = e.offset(table, by);
    let (first, bytes) = (e.load_word(None, desc, 0), e.load_word(Some(Scalar::I64), desc, 1));
    let first = e.address_bits(first);
    let from = e.binary(Binary::Sub, ptr, first);
    let inside = e.compare(Compare::LessUnsigned, from, bytes);
    let shift = e.number(HANDLE_SHIFT.into());
    let number = e.binary(Binary::Add, k, one);
    let start = e.binary(Binary::Shl, number, shift);
    let place = e.binary(Binary::Add, from, at);
    let found = e.binary(Binary::Add, start, place);
    e.branch(inside, (exit, &[found]), (next, &[]), Odds::Even);
    e.enter(next);
    let k = e.binary(Binary::Add, k, one);
    e.jump(head, &[k]);
    Ok(e.enter(exit)[0])
}
