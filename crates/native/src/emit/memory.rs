//! Emits accesses of elements: of arrays and stacks, and of buffers, which the host sees.
//!
//! A handle of a buffer is the address of the first element, the number of elements, an element offset that is
//! added to every index, and the number of bytes that there are of one more, partial element.

use ir::{AtomicOp, InstData, MemType, Op, Path, Scalar, Span, Type, TypeData, Types, Value};

use super::blocks::{each, fail_if, when_ok};
use super::{Assembler, Binary, Cast, Compare, Fixed, Odds, Res, Stack, UNIFORM, Vals, handles, in_range};
use crate::runtime::{Helper, Site, atomic_code};
use crate::types::{HANDLE_BYTES, size};

// ---- elements

/// The place of element number `k` of an array, which exists.
pub fn part<'m, A: Assembler<'m>>(e: &mut A, array: A::V, elem: Type, k: A::V) -> A::Place {
    let by = e.times(k, e.stride(elem, array));
    let at = e.offset(array, by);
    e.place(at)
}

/// The condition that `i`, the value of an index, is below `n`; `None` if it certainly is.
pub fn is_below<'m, A: Assembler<'m>>(e: &mut A, idx: Value, i: A::V, n: u64) -> Option<A::V> {
    e.upper_bound(idx).is_none_or(|most| most >= n).then(|| {
        let n = e.number(n);
        e.compare(Compare::LessUnsigned, i, n)
    })
}

/// The place of element `idx` of `n` elements of an array.
pub(super) fn element<'m, A: Assembler<'m>>(
    e: &mut A,
    array: A::V,
    elem: Type,
    idx: Value,
    n: u64,
) -> A::Place {
    let i = e.index64(idx);
    let inside = is_below(e, idx, i, n);
    e.below(array, elem, i, inside)
}

/// An index, and where it is shown to be in range.
pub(super) enum Checked {
    /// It is known to be, from the function.
    Before(Value),
    /// The emitted code compares it.
    Here(Value),
}

/// The place of an element of a stack.
pub(super) fn stack_element<'m, A: Assembler<'m>>(
    e: &mut A,
    header: A::V,
    of: Stack,
    elem: Type,
    idx: Checked,
) -> A::Place {
    let (Checked::Before(index) | Checked::Here(index)) = idx;
    let (first, i) = (e.first(header, of), e.index64(index));
    let inside = matches!(idx, Checked::Here(_)).then(|| {
        let len = e.len(header, of);
        e.compare(Compare::LessUnsigned, i, len)
    });
    let place = e.below(first, elem, i, inside);
    e.of_stack(place)
}

/// Emits `body` for each of the `n` numbers of arrays of kind `s`, and writes its results to an array of kind
/// `to_s`.
pub(super) fn map_numbers<'m, A: Assembler<'m>>(
    e: &mut A,
    (n, s, args): (u64, Scalar, &[A::V]),
    (to_s, to): (Scalar, A::V),
    span: Span,
    mut body: impl FnMut(&mut A, &[A::V]) -> Res<'m, A, A::V>,
) -> Res<'m, A> {
    each(e, n, |e, k| {
        let mut operands = Vals::new();
        for &a in args {
            let place = part(e, a, s.into(), k);
            operands.extend(e.load(s.into(), place, span)?);
        }
        let x = body(e, &operands)?;
        let place = part(e, to, to_s.into(), k);
        e.store(to_s.into(), &[x], place, span)
    })
}

// ---- buffers

/// The place that the operands `buf, i, dyn…` and a path denote.
pub fn buffer_place<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    path: &Path,
    args: &[Value],
) -> Res<'m, A, A::Place> {
    let TypeData::Buffer(elem) = e.ts[e.ty(args[0])] else {
        return e.unsupported(&data.op, "no buffer", data.span);
    };
    let handle = e.get(args[0]);
    let known = in_range::index(e, args);
    let is_there = known.is_some() || has_room(e, args);
    let i = match known {
        Some(i) => i,
        None => {
            let i = e.index64(args[1]);
            e.binary(Binary::Add, i, handle[2])
        }
    };
    let mut inside = e.compare(Compare::LessUnsigned, i, handle[1]);
    let mut place = e.buffer_element(elem, args, &handle, i);
    let Some(selection) = e.module().mem.select(elem, &path.0) else {
        return e.unsupported(&data.op, "a path into a number", data.span);
    };
    let bytes = selection.target.bytes(&e.module().mem);
    // For a partial last element, `end` is the offset in the element at which the leaf ends.
    let partial = e.plan().partial.contains(&elem);
    let (mut within, mut end) = (None, e.number(selection.fixed + bytes));
    for (&idx, (n, stride)) in args[2..].iter().zip(selection.choices) {
        let k = e.index64(idx);
        let below = is_below(e, idx, k, n.into());
        within = e.both(within, below);
        let bytes = e.times(k, stride);
        if partial {
            end = e.binary(Binary::Add, end, bytes);
        }
        place = e.advance(place, bytes, below);
    }
    let fixed = e.number(selection.fixed);
    place = e.advance(place, fixed, None);
    if partial {
        // The leaf may be in the present part of the partial last element.
        let last = e.compare(Compare::Equal, i, handle[1]);
        let fits = e.compare(Compare::LessOrEqualUnsigned, end, handle[3]);
        let here = e.binary(Binary::And, last, fits);
        inside = e.binary(Binary::Or, inside, here);
    }
    if is_there {
        return Ok(e.moved(place, e.address(place), within));
    }
    let inside = e.both(within, Some(inside)).unwrap_or(inside);
    if e.options().trap {
        let yes = e.constant(Scalar::Bool, 1);
        let outside = e.binary(Binary::Xor, inside, yes);
        fail_if(e, outside, Site::OutOfRange(data.span));
    }
    Ok(e.moved(place, e.address(place), Some(inside)))
}

/// Returns true if the element that is accessed is certainly there, so that no check is needed.
pub(super) fn has_room<'m, A: Assembler<'m>>(e: &A, args: &[Value]) -> bool {
    let Some(Op::GlobalRef(global)) = e.def(args[0]).map(|data| &data.op) else { return false };
    let room = e.plan().room[*global];
    room > 0 && !e.options().trap && e.upper_bound(args[1]).is_some_and(|last| last < room)
}

/// Loads a value from a buffer.
pub(super) fn buffer_load<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, path: &Path) -> Res<'m, A> {
    let result = data.results[0];
    let ty = e.ty(result);
    let place = buffer_place(e, data, path, &data.args)?;
    let vals = match e.ts[ty] {
        TypeData::Buffer(elem) => {
            let bits = e.load(Type::U64, place, data.span)?;
            handles::of_bits(e, bits[0], elem)
        }
        TypeData::Array(..) if e.ts.scalar_of(ty).is_none() => {
            if e.is_scattered(place) {
                e.check_alone("an array of handles at a place that varies", data.span)?;
            }
            let (bytes, zeros) = (size(e.ts, ty), e.fixed(Fixed::Zeros));
            let Some(elem) = target(e.ts, ty) else {
                return e.unsupported(&data.op, "of this type", data.span);
            };
            let to = e.memory(bytes, UNIFORM);
            let mut from = e.address(place);
            if let Some(inside) = e.inside(place) {
                from = e.select(inside, from, zeros);
            }
            let place = e.moved(place, from, None);
            each(e, bytes / HANDLE_BYTES, |e, k| {
                let by = e.times(k, 8);
                let part = e.advance(place, by, None);
                let bits = e.load(Type::U64, part, data.span)?;
                let handle = handles::of_bits(e, bits[0], elem);
                let by = e.times(k, HANDLE_BYTES);
                let at = e.offset(to, by);
                handle.iter().enumerate().for_each(|(k, &x)| e.store_word(x, at, k));
                Ok(())
            })?;
            std::iter::once(to).collect()
        }
        _ => e.load(ty, place, data.span)?,
    };
    let vals = e.fit(ty, vals, e.varies(result), data.span)?;
    e.set(result, &vals);
    Ok(())
}

/// Writes a value to a buffer.
pub(super) fn buffer_store<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, path: &Path) -> Res<'m, A> {
    let (&x, args) = data.args.split_last().expect("a store has operands");
    let ty = e.ty(x);
    let place = buffer_place(e, data, path, args)?;
    match target(e.ts, ty) {
        None => e.store(ty, &e.get(x), place, data.span),
        Some(elem) => store_handles(e, data, (x, elem), place),
    }
}

/// The elements that a handle, or an array of handles, leads to.
fn target(types: &Types, ty: Type) -> Option<MemType> {
    match types[ty] {
        TypeData::Buffer(elem) => Some(elem),
        TypeData::Array(of, _) => target(types, of),
        _ => None,
    }
}

/// Writes the numbers of a handle, or of an array of handles.
fn store_handles<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    (x, elem): (Value, MemType),
    place: A::Place,
) -> Res<'m, A> {
    let ty = e.ty(x);
    let vals = e.get(x);
    if let TypeData::Buffer(_) = e.ts[ty] {
        let bits = handles::bits(e, &vals, elem, data.span)?;
        return e.store(Type::U64, &[bits], place, data.span);
    }
    let store = |e: &mut A, place: A::Place| {
        each(e, size(e.ts, ty) / HANDLE_BYTES, |e, k| {
            let by = e.times(k, HANDLE_BYTES);
            let from = e.offset(vals[0], by);
            let word = |e: &mut A, n: usize| e.load_word((n > 0).then_some(Scalar::I64), from, n);
            let handle = [word(e, 0), word(e, 1), word(e, 2), word(e, 3)];
            let bits = handles::bits(e, &handle, elem, data.span)?;
            let by = e.times(k, 8);
            let to = e.advance(place, by, None);
            e.store(Type::U64, &[bits], to, data.span)
        })
    };
    match e.inside(place) {
        Some(inside) => when_ok(e, inside, Odds::Even, |e| {
            let to = e.moved(place, e.address(place), None);
            store(e, to)
        }),
        None => store(e, place),
    }
}

/// Emits an atomic op.
pub(super) fn atomic<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    path: &Path,
    op: AtomicOp,
) -> Res<'m, A> {
    let result = data.results[0];
    let TypeData::Scalar(s) = e.ts[e.ty(result)] else {
        return e.unsupported(&data.op, "on more than a number", data.span);
    };
    let n = op.n_values();
    let (args, values) = data.args.split_at(data.args.len() - n);
    let place = buffer_place(e, data, path, args)?;
    let (compare, x) = (e.one(values[0]), e.one(values[n - 1]));
    let old = e.atomic(data, (op, s), place, (compare, x))?;
    e.set(result, &[old]);
    Ok(())
}

/// Emits an atomic op on one number; returns the old number.
pub fn atomic_one<'m, A: Assembler<'m>>(
    e: &mut A,
    (op, s): (AtomicOp, Scalar),
    at: A::V,
    compare: A::V,
    x: A::V,
) -> A::V {
    if op != AtomicOp::Add || !matches!(s, Scalar::F32 | Scalar::F64) {
        return atomic_by_all(e, (op, s), at, compare, x);
    }
    // Without threads of other workers, a sum of floats is a plain one.
    if e.options().exclusive {
        return e.add_alone(s, at, x);
    }
    let alone = e.alone();
    let (plain, locked) = (e.block(&[]), e.block(&[]));
    e.branch(alone, (plain, &[]), (locked, &[]), Odds::Even);
    e.enter(plain);
    let old = e.add_alone(s, at, x);
    let after = e.block(&[old]);
    e.jump(after, &[old]);
    e.enter(locked);
    let old = atomic_by_all(e, (op, s), at, compare, x);
    e.jump(after, &[old]);
    e.enter(after)[0]
}

/// As [`atomic_one`], where threads of other workers access the number, too.
fn atomic_by_all<'m, A: Assembler<'m>>(
    e: &mut A,
    (op, s): (AtomicOp, Scalar),
    at: A::V,
    compare: A::V,
    x: A::V,
) -> A::V {
    if let Some(old) = e.atomic_instruction(s, op, at, x) {
        return old;
    }
    let word = |e: &mut A, x: A::V| {
        let bits = if s == Scalar::F64 { Scalar::U64 } else { Scalar::U32 };
        let x = if matches!(s, Scalar::F32 | Scalar::F64) { e.cast(Cast::Bits, x, bits) } else { x };
        e.zero_extend(Scalar::I64, x)
    };
    let code = e.constant(Scalar::I32, atomic_code(op, s).into());
    let (x, compare) = (word(e, x), word(e, compare));
    let bits = e.helper_value(Helper::Atomic, &[at, code, x, compare]);
    match s {
        Scalar::F32 => {
            let bits = e.cast(Cast::Truncate, bits, Scalar::U32);
            e.cast(Cast::Bits, bits, Scalar::F32)
        }
        Scalar::F64 => e.cast(Cast::Bits, bits, Scalar::F64),
        Scalar::I64 | Scalar::U64 => bits,
        _ => e.cast(Cast::Truncate, bits, s),
    }
}

/// Adds an array or a stack to the one at a place.
pub(super) fn add_whole<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    ty: Type,
    vals: Vals<A::V>,
    place: A::Place,
) -> Res<'m, A> {
    let at = e.address(place);
    let wide = e.is_wide(at);
    let vals = e.fit(ty, vals, wide, data.span)?;
    if let TypeData::Stack(_) = e.ts[ty] {
        e.check_stack(place, "a stack that is added in some lanes", data.span)?;
    }
    if let (Some(inside), false) = (e.inside(place), e.is_scattered(place)) {
        return when_ok(e, inside, super::Odds::Even, |e| {
            add_whole(e, data, ty, vals, e.moved(place, at, None))
        });
    }
    if let TypeData::Stack(elem) = e.ts[ty] {
        let (shape, empty) = (e.shape(elem, wide), e.fixed(Fixed::Empty));
        e.helper(Helper::StackAdd, &[at, vals[0], shape, empty]);
        return Ok(());
    }
    let Some((s, n)) = crate::types::flat(e.ts, ty) else {
        return e.unsupported(&data.op, "of this type", data.span);
    };
    each(e, n, |e, k| {
        let by = e.times(k, e.stride(s.into(), at));
        let to = e.advance(place, by, None);
        let from = part(e, vals[0], s.into(), k);
        let (a, b) = (e.load(s.into(), to, data.span)?[0], e.load(s.into(), from, data.span)?[0]);
        let sum = super::numbers::combine(e, &Op::Add, s, a, b, data.span)?;
        e.store(s.into(), &[sum], to, data.span)
    })
}
