//! Emits elementwise operations, and operations on vectors and arrays as values.

use ir::{InstData, Op, Type, TypeData};

use super::blocks::each;
use super::bundles;
use super::memory::{self, Checked, element, part, stack_element};
use super::numbers::{combine, component};
use super::{Assembler, Compare, Res, Stack, UNROLL, Vals, zero};
use crate::types::{flat, size};

/// Emits `construct`, `splat`, `extract`, `insert` and `index`.
pub(super) fn aggregate<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A> {
    let result = data.results[0];
    let ty = e.ty(result);
    if bundles::read(e, data)? {
        return Ok(());
    }
    let vals = match &data.op {
        Op::Construct => construct(e, data, ty)?,
        Op::Splat => splat(e, data, ty)?,
        Op::Extract(idx) => extract(e, data, *idx, ty)?,
        Op::Insert(idx) => insert(e, data, *idx, ty)?,
        _ => index(e, data, ty)?,
    };
    e.set(result, &vals);
    Ok(())
}

fn construct<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let TypeData::Array(elem, _) = e.ts[ty] else {
        return Ok(data.args.iter().map(|&a| e.one(a)).collect());
    };
    let varying = e.varies(data.results[0]);
    let to = e.memory(size(e.ts, ty), varying);
    for (k, &arg) in data.args.iter().enumerate() {
        let vals = e.get(arg);
        let vals = e.fit(elem, vals, varying, data.span)?;
        let k = e.number(k as u64);
        let place = part(e, to, elem, k);
        e.store(elem, &vals, place, data.span)?;
    }
    Ok(std::iter::once(to).collect())
}

fn splat<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let vals = e.get(data.args[0]);
    let varying = e.varies(data.results[0]);
    match e.ts[ty] {
        TypeData::Vector(_, n) => Ok(std::iter::repeat_n(vals[0], n as usize).collect()),
        TypeData::Array(elem, n) => {
            let to = e.memory(size(e.ts, ty), varying);
            let vals = e.fit(elem, vals, varying, data.span)?;
            each(e, n.into(), |e, k| {
                let place = part(e, to, elem, k);
                e.store(elem, &vals, place, data.span)
            })?;
            Ok(std::iter::once(to).collect())
        }
        _ => Ok(vals),
    }
}

fn extract<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, idx: u32, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let whole = data.args[0];
    match e.ts[e.ty(whole)] {
        TypeData::Vector(..) => Ok(std::iter::once(e.get(whole)[idx as usize]).collect()),
        TypeData::Array(elem, _) => {
            let k = e.number(idx.into());
            let place = part(e, e.one(whole), elem, k);
            e.load(ty, place, data.span)
        }
        _ => Ok(e.get(whole)),
    }
}

fn insert<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, idx: u32, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let (mut whole, x) = (e.get(data.args[0]), e.get(data.args[1]));
    let TypeData::Array(elem, _) = e.ts[ty] else {
        whole[idx as usize] = x[0];
        return Ok(whole);
    };
    let varying = e.varies(data.results[0]);
    let whole = e.fit(ty, whole, varying, data.span)?;
    let x = e.fit(elem, x, varying, data.span)?;
    let to = e.memory(size(e.ts, ty), varying);
    e.store(ty, &whole, e.place(to), data.span)?;
    let k = e.number(idx.into());
    let place = part(e, to, elem, k);
    e.store(elem, &x, place, data.span)?;
    Ok(std::iter::once(to).collect())
}

fn index<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let (whole, idx) = (data.args[0], data.args[1]);
    let place = match e.ts[e.ty(whole)] {
        TypeData::Vector(s, n) if n as u64 <= UNROLL => {
            let at = e.index64(idx);
            let mut found = e.constant(s, 0);
            for (k, part) in e.get(whole).into_iter().enumerate() {
                let k = e.number(k as u64);
                let here = e.compare(Compare::Equal, at, k);
                found = e.select(here, part, found);
            }
            return Ok(std::iter::once(found).collect());
        }
        TypeData::Vector(_, n) => {
            // A long vector is indexed through memory.
            let base = e.memory(size(e.ts, e.ty(whole)), e.varies(whole));
            for (k, x) in e.get(whole).into_iter().enumerate() {
                let k = e.number(k as u64);
                let place = part(e, base, ty, k);
                e.store(ty, &[x], place, data.span)?;
            }
            element(e, base, ty, idx, n as u64)
        }
        TypeData::Array(elem, n) => element(e, e.one(whole), elem, idx, n as u64),
        TypeData::Stack(elem) => {
            let certain = e.inside.contains(data.results[0]) && !e.varies(idx);
            let idx = if certain { Checked::Before(idx) } else { Checked::Here(idx) };
            stack_element(e, e.one(whole), Stack::Value, elem, idx)
        }
        TypeData::Scalar(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
            return e.unsupported(&data.op, "operands of this type", data.span);
        }
    };
    e.load(ty, place, data.span)
}

/// Emits constants and elementwise ops.
pub(super) fn arithmetic<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A> {
    let result = data.results[0];
    let ty = e.ty(result);
    let vals = match &data.op {
        Op::Const(bits) => {
            let s = e.scalar_of(result);
            std::iter::once(e.constant(s, *bits)).collect()
        }
        Op::Zero => zero(e, ty),
        Op::Select => select(e, data, ty)?,
        Op::Sum => {
            let s = e.scalar_of(result);
            let lanes = e.get(data.args[0]);
            let mut sum = lanes[0];
            for &lane in &lanes[1..] {
                sum = combine(e, &Op::Add, s, sum, lane, data.span)?;
            }
            std::iter::once(sum).collect()
        }
        _ if !e.ts.is_numeric(ty) => whole(e, data, ty)?,
        _ => {
            let (from, to) = (e.scalar_of(data.args[0]), e.scalar_of(result));
            let args: Vec<Vals<A::V>> = data.args.iter().map(|&a| e.get(a)).collect();
            let mut out = Vals::new();
            for k in 0..args[0].len() {
                let operands: Vals<A::V> = args.iter().map(|a| a[k]).collect();
                out.push(component(e, &data.op, from, to, &operands, data.span)?);
            }
            out
        }
    };
    e.set(result, &vals);
    Ok(())
}

/// Emits an elementwise op on arrays or stacks.
fn whole<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let varying = e.varies(data.results[0]);
    let to = e.memory(size(e.ts, ty), varying);
    if let (TypeData::Stack(_), Op::Add) = (e.ts[ty], &data.op) {
        let (a, b) = (e.get(data.args[0]), e.get(data.args[1]));
        let (a, b) = (e.fit(ty, a, varying, data.span)?, e.fit(ty, b, varying, data.span)?);
        let place = e.place(to);
        let sum = e.own(ty, a);
        e.store(ty, &sum, place, data.span)?;
        memory::add_whole(e, data, ty, b, place)?;
        return e.load(ty, place, data.span);
    }
    let from = data.args.first().and_then(|&a| flat(e.ts, e.ty(a)));
    let (Some((s, n)), Some((to_s, _))) = (from, flat(e.ts, ty)) else {
        return e.unsupported(&data.op, "operands of this type", data.span);
    };
    let args: Vals<A::V> = data.args.iter().map(|&a| e.one(a)).collect();
    memory::map_numbers(e, (n, s, &args), (to_s, to), data.span, |e, args| {
        component(e, &data.op, s, to_s, args, data.span)
    })?;
    Ok(std::iter::once(to).collect())
}

/// Emits a selection.
fn select<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, ty: Type) -> Res<'m, A, Vals<A::V>> {
    let (c, mut a, mut b) = (e.get(data.args[0]), e.get(data.args[1]), e.get(data.args[2]));
    if !e.ts.is_numeric(ty) {
        let varying = e.varies(data.results[0]);
        (a, b) = (e.fit(ty, a, varying, data.span)?, e.fit(ty, b, varying, data.span)?);
        return e.pick(ty, c[0], &a, &b, data.span);
    }
    let c = c.iter().cycle();
    Ok(c.zip(a.iter().zip(&b)).map(|(&c, (&a, &b))| e.select(c, a, b)).collect())
}
