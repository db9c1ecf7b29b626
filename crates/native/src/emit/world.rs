//! Emits operations on handles of buffers, the initial values of private globals, and effects.

use ir::{Factors, InstData, Op, Rest, Scalar, Space, Span, Type, TypeData};

use super::blocks::{fail_if, site};
use super::{Assembler, Binary, Cast, Compare, Res, UNIFORM, Vals, control, handles, memory};
use crate::runtime::{Helper, Site};
use crate::types::{has_handle, is_array, mem_leaves, size};

/// Emits ops with side effects, or whose results depend on the environment.
pub(super) fn world<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A> {
    match &data.op {
        Op::BufferLoad(path) => memory::buffer_load(e, data, path),
        Op::BufferStore(path) => memory::buffer_store(e, data, path),
        Op::Atomic(path, op) => memory::atomic(e, data, path, *op),
        Op::Clock => {
            e.check_alone("a clock", data.span)?;
            let now = e.helper_value(Helper::Clock, &[]);
            let half = e.number(32);
            let high = e.binary(Binary::ShrUnsigned, now, half);
            let words: Vals<A::V> =
                [now, high].into_iter().map(|word| e.cast(Cast::Truncate, word, Scalar::U32)).collect();
            e.set(data.results[0], &words);
            Ok(())
        }
        Op::Barrier => e.barrier(data.span),
        Op::WaveGather => wave_gather(e, data),
        Op::WaveMultiply(factors) => wave_multiply(e, data, *factors),
        Op::OnDevice => {
            let is_device = e.is_device();
            let is_device = e.constant(Scalar::Bool, is_device.into());
            e.set(data.results[0], &[is_device]);
            Ok(())
        }
        Op::Builtin(builtin) => {
            let vals = e.builtin(*builtin, data);
            e.set(data.results[0], &vals);
            Ok(())
        }
        Op::Printf(format) => {
            printf(e, data, format);
            Ok(())
        }
        Op::Assert(message) => {
            let no = e.constant(Scalar::Bool, 0);
            let bad = e.compare(Compare::Equal, e.one(data.args[0]), no);
            fail_if(e, bad, Site::Assert(message.clone(), data.span));
            Ok(())
        }
        Op::CheckFinite(what) => {
            check_finite(e, data, what);
            Ok(())
        }
        _ => handle(e, data),
    }
}

/// Stops the thread if a component of the first operand is not finite; the message shows all operands.
fn check_finite<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, what: &str) {
    let parts = e.get(data.args[0]);
    let s = e.scalar_of(data.args[0]);
    let mut bad = e.constant(Scalar::Bool, 0);
    for &part in &parts {
        // The difference x - x is NaN for an infinity and for NaN, and 0 for all other numbers.
        let x = if s == Scalar::F16 { e.widen(part) } else { part };
        let rest = e.binary(Binary::SubF, x, x);
        let is_bad = e.compare(Compare::UnorderedF, rest, rest);
        bad = e.binary(Binary::Or, bad, is_bad);
    }
    e.stop_if(bad, &mut |e, lane| {
        let all: Vec<Vals<A::V>> = data.args.iter().map(|&arg| e.get(arg)).collect();
        let kinds = data.args.iter().zip(&all).map(|(&arg, parts)| (e.scalar_of(arg), parts.len()));
        let kinds: Box<[(Scalar, usize)]> = kinds.collect();
        let words = e.memory(8 * all.iter().map(|parts| parts.len() as u64).sum::<u64>(), UNIFORM);
        for (k, &x) in all.iter().flatten().enumerate() {
            let x = e.of_lane(x, lane);
            e.store_word(x, words, k);
        }
        let site = site(e, Site::NotFinite(what.into(), kinds, data.span));
        e.rare_helper(Helper::NotFinite, &[site, words]);
    });
    e.set(data.results[0], &parts);
}

/// Emits ops that make or inspect handles.
fn handle<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A> {
    let result = data.results[0];
    if let Op::HandleOf = data.op {
        let TypeData::Buffer(elem) = e.ts[e.ty(result)] else {
            return e.unsupported(&data.op, "no buffer", data.span);
        };
        let bits = e.one(data.args[0]);
        let vals = handles::of_bits(e, bits, elem);
        e.set(result, &vals);
        return Ok(());
    }
    if let Op::GlobalRef(global) = data.op {
        e.roots.insert(result, global);
        let vals = e.global(global);
        e.set(result, &vals);
        return Ok(());
    }
    let mut handle = e.get(data.args[0]);
    let vals = match &data.op {
        Op::BufferLen => {
            let rest = e.binary(Binary::Sub, handle[1], handle[2]);
            let (zero, most) = (e.number(0), e.number(u32::MAX.into()));
            let rest = e.binary(Binary::MaxSigned, rest, zero);
            let rest = e.binary(Binary::MinSigned, rest, most);
            std::iter::once(e.cast(Cast::Truncate, rest, Scalar::U32)).collect()
        }
        Op::BufferOffset => {
            keep_root(e, data);
            let by = e.index64(data.args[1]);
            handle[2] = e.binary(Binary::Add, handle[2], by);
            handle
        }
        Op::BufferCast(rest) => {
            keep_root(e, data);
            cast(e, data, *rest)?
        }
        Op::HandleBits => {
            let TypeData::Buffer(elem) = e.ts[e.ty(data.args[0])] else {
                return e.unsupported(&data.op, "no buffer", data.span);
            };
            std::iter::once(handles::bits(e, &handle, elem, data.span)?).collect()
        }
        _ => {
            let TypeData::Buffer(elem) = e.ts[e.ty(data.args[0])] else {
                return e.unsupported(&data.op, "no buffer", data.span);
            };
            let bytes = e.times(handle[2], e.module().mem.size(elem));
            let address = e.offset(handle[0], bytes);
            let address = e.address_bits(address);
            let (zero, half) = (e.number(0), e.number(32));
            let some = e.binary(Binary::Or, handle[1], handle[3]);
            let empty = e.compare(Compare::Equal, some, zero);
            let address = e.select(empty, zero, address);
            let high = e.binary(Binary::ShrUnsigned, address, half);
            [address, high].into_iter().map(|word| e.cast(Cast::Truncate, word, Scalar::U32)).collect()
        }
    };
    e.set(result, &vals);
    Ok(())
}

/// The memory of the result is that of the operand.
fn keep_root<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) {
    if let Some(&root) = e.roots.get(&data.args[0]) {
        e.roots.insert(data.results[0], root);
    }
}

/// Reinterprets memory as elements of another type: the part of the offset that is less than an element moves
/// the address.
fn cast<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, kind: Rest) -> Res<'m, A, Vals<A::V>> {
    let (TypeData::Buffer(from), TypeData::Buffer(to)) =
        (e.ts[e.ty(data.args[0])], e.ts[e.ty(data.results[0])])
    else {
        return e.unsupported(&data.op, "no buffer", data.span);
    };
    let (from, to) = (e.module().mem.size(from).max(1), e.module().mem.size(to).max(1));
    let handle = e.get(data.args[0]);
    let by = e.index64(data.args[1]);
    let at = e.times(handle[2], from);
    let at = e.binary(Binary::Add, at, by);
    let bytes = e.times(handle[1], from);
    let bytes = e.binary(Binary::Add, bytes, handle[3]);
    Ok(handles::elements(e, handle[0], bytes, at, to, kind))
}

/// Initialises every private global of the threads.
pub fn init_private<'m, A: Assembler<'m>>(e: &mut A) -> Res<'m, A> {
    let module = e.module();
    for (global, data) in module.globals.iter().filter(|(_, g)| g.space == Space::Private) {
        let base = e.global(global)[0];
        e.clear_private(base, module.mem.size(data.ty));
        let Some(init) = data.init else { continue };
        if e.plan().facts[init].wave {
            let op = Op::GlobalRef(global);
            return e.unsupported(&op, "a wave operation in an initial value", data.span);
        }
        let leaves = control::call(e, init, &[], data.span)?;
        let results = &module.funcs[init].results;
        for ((place, vals), slot) in mem_leaves(&module.mem, data.ty).iter().zip(&leaves).zip(results) {
            // What has no initial value is zero: null.
            if !has_handle(&module.mem, place.ty) {
                scatter(e, slot.ty, vals, base, place.offset, &place.dims, data.span)?;
            }
        }
    }
    Ok(())
}

/// Writes a leaf that is in (arrays of) structs: one part for each.
fn scatter<'m, A: Assembler<'m>>(
    e: &mut A,
    ty: Type,
    vals: &[A::V],
    base: A::V,
    offset: u64,
    dims: &[(u64, u64)],
    span: Span,
) -> Res<'m, A> {
    let Some((&(n, stride), inner)) = dims.split_first() else {
        let place = e.private_place(base, offset);
        return e.store(ty, vals, place, span);
    };
    let Some(elem) = e.ts.element(ty).filter(|_| is_array(e.ts, ty)) else { return Ok(()) };
    for k in 0..n {
        let i = e.number(k);
        let place = memory::part(e, vals[0], elem, i);
        let part = e.load(elem, place, span)?;
        scatter(e, elem, &part, base, offset + k * stride, inner, span)?;
    }
    Ok(())
}

/// Emits `printf`.
fn printf<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, format: &str) {
    let kinds: Box<[Scalar]> = data.args.iter().map(|&a| e.scalar_of(a)).collect();
    let words = e.memory(8 * data.args.len().max(1) as u64, UNIFORM);
    for (k, &arg) in data.args.iter().enumerate() {
        e.store_word(e.one(arg), words, k);
    }
    let site = site(e, Site::Printf(format.into(), kinds));
    e.helper(Helper::Printf, &[site, words]);
}

/// Multiplies by matrix units: ten words hold the operands, and the last four of them the result afterwards.
fn wave_multiply<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, factors: Factors) -> Res<'m, A> {
    if !e.is_device() {
        return e.unsupported(&data.op, "no matrix units here", data.span);
    }
    let words = e.memory(80, UNIFORM);
    let parts: Vec<A::V> = data.args.iter().flat_map(|&arg| e.get(arg)).collect();
    for (k, &part) in parts.iter().enumerate() {
        e.store_word(part, words, k);
    }
    let kind = e.number(factors as u64);
    e.helper(Helper::Multiply, &[kind, words]);
    let sums: Vals<A::V> = (6..10).map(|k| e.load_word(Some(factors.sum()), words, k)).collect();
    e.set(data.results[0], &sums);
    Ok(())
}

/// Waits for the lanes that take part in the operation, and gathers their values.
fn wave_gather<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A> {
    e.check_alone("a wave operation", data.span)?;
    let own = e.ty(data.args[0]);
    let bytes = size(e.ts, own);
    let vals = e.get(data.args[0]);
    let from = if is_array(e.ts, own) {
        vals[0]
    } else {
        let from = e.memory(bytes.max(1), UNIFORM);
        e.store(own, &vals, e.place(from), data.span)?;
        from
    };
    let to = e.memory(bytes.max(1) * u64::from(ir::WAVE_LANES), UNIFORM);
    let bytes = e.number(bytes);
    let mask = e.helper_value(Helper::Wave, &[from, bytes, to]);
    e.set(data.results[0], &[to]);
    e.set(data.results[1], &[mask]);
    Ok(())
}
