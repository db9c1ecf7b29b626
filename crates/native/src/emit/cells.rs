//! Emits operations on cells: memory of the function that is written in place.
//!
//! A cell of a stack holds a pointer to a header that it owns (or to the shared empty one), so storing a
//! stack in a cell copies it, and so does loading a whole stack or an array from a cell. The copy on a load
//! is omitted if the cell is not written again while the loaded value is live.

use ir::{Inst, InstData, Op, Span, TypeData};

use super::blocks::when;
use super::memory::{self, Checked, stack_element};
use super::{Access, Assembler, Binary, Compare, Fixed, Odds, Res, Stack, Vals, numbers};
use crate::runtime::Helper;
use crate::types::{flat, is_array, size};

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
            let vals = to_own(e, ty, vals, place, data.span)?;
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
    let at = match e.destinations.get(&cell) {
        Some(&at) => at,
        None => e.memory(bytes, e.varies(cell)),
    };
    e.begin_cell(cell);
    let zero = e.def(init).is_some_and(|d| d.op == Op::Zero);
    if is_array(e.ts, ty) && zero && !e.ts.has_stack(ty) {
        e.clear(at, bytes);
    } else {
        let vals = e.get(init);
        let place = e.place(at);
        let vals = to_own(e, ty, vals, place, data.span)?;
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
    if (is_array(e.ts, ty) || is_stack) && !e.is_scattered(place) && !e.nesting.last_use(inst, data.args[0]) {
        if is_stack {
            vals = e.own(ty, vals);
        } else {
            let to = e.memory(size(e.ts, ty), e.is_wide(vals[0]));
            e.store(ty, &vals, e.place(to), data.span)?;
            vals = std::iter::once(to).collect();
        }
    }
    e.set(data.results[0], &vals);
    Ok(())
}

/// Converts a value to one that a cell which contains a place can own.
fn to_own<'m, A: Assembler<'m>>(
    e: &mut A,
    ty: ir::Type,
    vals: Vals<A::V>,
    place: A::Place,
    span: Span,
) -> Res<'m, A, Vals<A::V>> {
    let vals = e.fit(ty, vals, e.is_wide(e.address(place)), span)?;
    if let (TypeData::Stack(_), false) = (e.ts[ty], e.is_scattered(place)) {
        e.check_stack(place, "a stack that is replaced in some lanes", span)?;
    }
    Ok(e.own(ty, vals))
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
    let mut place = e.cell(args[0], access);
    let Some(mut ty) = e.ts.content(e.ty(args[0])) else {
        return e.unsupported(&data.op, "no cell", data.span);
    };
    for &idx in &args[1..] {
        let Some(elem) = e.ts.element(ty) else {
            return e.unsupported(&data.op, "an index into a scalar", data.span);
        };
        place = match e.ts[ty] {
            TypeData::Stack(_) => {
                e.check_stack_place(place, data.span)?;
                // A path that is out of range leads to the empty stack, which has no elements.
                let mut at = e.address(place);
                if let Some(inside) = e.inside(place) {
                    let empty = e.fixed(Fixed::EmptyAt);
                    let empty = e.widened(empty, e.is_wide(at));
                    at = e.select(inside, at, empty);
                    at = e.widened(at, e.is_wide(empty));
                }
                if access == Access::Grow {
                    grow(e, at, idx, elem, e.inside(place));
                }
                let header = e.load_word(None, at, 0);
                let element = stack_element(e, header, Stack::Cell, elem, Checked::Here(idx));
                e.in_cell(element, place)
            }
            TypeData::Array(_, n) | TypeData::Vector(_, n) => e.within(place, elem, idx, n.into()),
            TypeData::Scalar(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => place,
        };
        ty = elem;
    }
    Ok(place)
}

/// Grows the stack at `at` so that it has an element number `idx`, unless the stack itself is out of range.
fn grow<'m, A: Assembler<'m>>(e: &mut A, at: A::V, idx: ir::Value, elem: ir::Type, inside: Option<A::V>) {
    let i = e.index64(idx);
    let i = e.last_index(i);
    let header = e.load_word(None, at, 0);
    let (len, zero) = (e.len(header, Stack::Cell), e.number(0));
    let short = e.compare(Compare::MoreOrEqualUnsigned, i, len);
    let exists = e.compare(Compare::MoreOrEqualSigned, i, zero);
    let short = e.binary(Binary::And, short, exists);
    let short = e.both(Some(short), inside).unwrap_or(short);
    when(e, short, Odds::Unlikely, |e| {
        let (shape, empty) = (e.shape(elem, e.is_wide(at)), e.fixed(Fixed::Empty));
        e.rare_helper(Helper::CellGrow, &[at, i, shape, empty]);
    });
}

fn add_to<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, x: ir::Value, place: A::Place) -> Res<'m, A> {
    let (ty, vals) = (e.ty(x), e.get(x));
    if is_array(e.ts, ty) || matches!(e.ts[ty], TypeData::Stack(_)) {
        return memory::add_whole(e, data, ty, vals, place);
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
