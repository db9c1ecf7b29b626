//! Emits operations on cells: memory of the function that is written in place.
//!
//! A cell of a stack holds a pointer to a header that it owns (or to the shared empty one), so storing a
//! stack in a cell copies it, and so does loading a whole stack or an array from a cell. The copy on a load
//! is omitted if the cell is not written again while the loaded value is live.

use ir::{Inst, InstData, Op, TypeData};

use super::{Assembler, Res, Vals, numbers};
use crate::types::{flat, is_array, size};

/// The purpose for which a part of a cell is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A write that may grow a stack.
    Grow,
}

/// Emits `local`, `load`, `store`, `add_to` and `sub_cell`.
pub(super) fn cell<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) -> Res<'m, A> {
    let f = e.f;
    let data = &f.insts[inst];
    match &data.op {
        Op::Local => local(e, data),
        Op::Load => load(e, inst, data),
        Op::Store => {
            let (&x, place) = data.args.split_last().expect("a store has operands");
            let (ty, vals) = (e.ty(x), e.get(x));
            let place = place_of(e, data, place, Access::Write)?;
            let vals = e.to_own(ty, vals, place, data.span)?;
            e.store(ty, &vals, place, data.span)
        }
        Op::AddTo => {
            let (&x, place) = data.args.split_last().expect("an add_to has operands");
            let place = place_of(e, data, place, Access::Grow)?;
            add_to(e, data, x, place)
        }
        _ => {
            // The place is computed again at each use: the outer stack may move when it grows.
            let path = path(e, &data.args);
            e.sub_cells.insert(data.results[0], path);
            Ok(())
        }
    }
}

fn local<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A> {
    let (init, cell) = (data.args[0], data.results[0]);
    let ty = e.ty(init);
    let bytes = size(e.ts, ty);
    let at = e.cell_memory(cell, bytes);
    let zero = e.def(init).is_some_and(|d| d.op == Op::Zero);
    if is_array(e.ts, ty) && zero && !e.ts.has_stack(ty) {
        e.clear(at, bytes);
    } else {
        let vals = e.get(init);
        let place = e.part(at, ty, 0);
        let vals = e.to_own(ty, vals, place, data.span)?;
        e.store(ty, &vals, place, data.span)?;
    }
    e.set(cell, &[at]);
    Ok(())
}

fn load<'m, A: Assembler<'m>>(e: &mut A, inst: Inst, data: &InstData) -> Res<'m, A> {
    let ty = e.ty(data.results[0]);
    let place = place_of(e, data, &data.args, Access::Read)?;
    let mut vals = e.load(ty, place, data.span)?;
    let is_stack = matches!(e.ts[ty], TypeData::Stack(_));
    if (is_array(e.ts, ty) || is_stack) && e.loads_in_place(place) && !e.nesting.last_use(inst, data.args[0])
    {
        vals = if is_stack { e.own(ty, vals) } else { e.copy_of(ty, vals, data.span)? };
    }
    e.set(data.results[0], &vals);
    Ok(())
}

/// The path `cell, i…`, where a cell within a cell is replaced by its own path.
fn path<'m, A: Assembler<'m>>(e: &A, args: &[ir::Value]) -> Vec<ir::Value> {
    match e.sub_cells.get(&args[0]) {
        Some(path) => path.iter().chain(&args[1..]).copied().collect(),
        None => args.to_vec(),
    }
}

/// The place of the part of a cell that `cell, i…` selects.
fn place_of<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    args: &[ir::Value],
    access: Access,
) -> Res<'m, A, A::Place> {
    let args = path(e, args);
    e.cell_place(data, &args, access)
}

fn add_to<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, x: ir::Value, place: A::Place) -> Res<'m, A> {
    let (ty, vals) = (e.ty(x), e.get(x));
    if is_array(e.ts, ty) || matches!(e.ts[ty], TypeData::Stack(_)) {
        return e.add_whole(data, ty, vals, place);
    }
    let Some((s, _)) = flat(e.ts, ty) else {
        return e.unsupported(&data.op, "of this type", data.span);
    };
    let mut sum = Vals::new();
    for (&a, &b) in e.load(ty, place, data.span)?.iter().zip(&vals) {
        sum.push(numbers::combine(e, &Op::Add, s, a, b, data.span)?);
    }
    e.store(ty, &sum, place, data.span)
}
