//! Emits bundles of stacks: see [`ir::analysis::bundles`].

use ir::analysis::bundles::{Bundle, Column, Join};
use ir::{Inst, InstData, Region, Span, Type, Value};

use super::memory::{Checked, stack_element};
use super::{Assembler, Fixed, Res, Stack, UNIFORM, Vals};
use crate::runtime::{Header, Helper};

/// A stack that a loop makes.
pub(super) struct Pushed {
    column: Column,
    /// The type of its elements.
    pub(super) ty: Type,
    /// Its elements have room for all lanes.
    pub(super) wide: bool,
}

/// The stacks that a loop makes.
pub(super) fn pushed<'m, A: Assembler<'m>>(e: &A, inst: Inst) -> Vec<Pushed> {
    let f = e.f;
    let data = &f.insts[inst];
    let results = &data.results[data.n_carried()..];
    let stacked = &f.regions[data.regions[0]].results[data.op.carried_at().2 + data.n_carried()..];
    let columns = match e.bundles.columns(inst) {
        Some(columns) => columns.to_vec(),
        None => (0..results.len()).map(Column::alone).collect(),
    };
    let one = |column: Column| {
        let first = column.members[0];
        let wide = !column.of_bundles && e.varies(results[first]);
        Pushed { column, ty: e.ty(stacked[first]), wide }
    };
    columns.into_iter().map(one).collect()
}

impl Pushed {
    /// The value that stands for it among these stacked values.
    pub(super) fn first(&self, stacked: &[Value]) -> Value {
        stacked[self.column.members[0]]
    }

    /// The value that it gets of a trip that yields these stacked values; `Err` with the bundle, if it is one.
    pub(super) fn element<'m, A: Assembler<'m>>(&self, e: &mut A, stacked: &[Value]) -> Result<Value, A::V> {
        let v = self.first(stacked);
        if !self.column.of_bundles {
            return Ok(v);
        }
        // An arm without stacks yields empty ones.
        Err(match e.bundles.member(v) {
            Some(member) => e.held(member.bundle),
            None => e.fixed(Fixed::Empty),
        })
    }
}

/// Sets the stacks that are results of a loop, given the memory of each stack that it makes, the length and the
/// capacity, and the means to make the header of one.
pub(super) fn set_stacks<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    (pushed, memories): (&[Pushed], &[A::V]),
    (len, cap): (A::V, A::V),
    mut header: impl FnMut(&mut A, usize) -> A::V,
) -> Res<'m, A> {
    let results = &data.results[data.n_carried()..];
    let mut k = 0;
    while k < pushed.len() {
        let Pushed { column, wide, .. } = &pushed[k];
        let together =
            pushed[k..].iter().take_while(|p| p.column.bundle.is_some() && p.column.bundle == column.bundle);
        let n = together.count().max(1);
        let made = match n {
            1 => header(e, k),
            _ => bundle(e, &memories[k..k + n], len, cap),
        };
        match column.bundle {
            Some(bundle) => {
                e.hold(bundle, made);
                for &member in pushed[k..k + n].iter().flat_map(|p| &p.column.members) {
                    set_member(e, results[member], data.span)?;
                }
            }
            None => {
                let made = e.widened(made, *wide);
                e.set(results[column.members[0]], &[made]);
            }
        }
        k += n;
    }
    Ok(())
}

/// Makes the headers of several stacks.
fn bundle<'m, A: Assembler<'m>>(e: &mut A, memories: &[A::V], len: A::V, cap: A::V) -> A::V {
    let words = e.memory(8 * memories.len() as u64, UNIFORM);
    for (k, &memory) in memories.iter().enumerate() {
        let memory = e.widened(memory, UNIFORM);
        e.store_word(memory, words, k);
    }
    let n = e.number(memories.len() as u64);
    e.rare_helper(Helper::StackBundle, &[words, n, len, cap]).expect("the helper has a result")
}

/// Sets a stack in a bundle that is held, unless it is a part of a column of bundles, which no code reads as a whole.
fn set_member<'m, A: Assembler<'m>>(e: &mut A, v: Value, span: Span) -> Res<'m, A> {
    let Some(member) = e.bundles.member(v) else { return Ok(()) };
    let place = e.bundles.place(member.place);
    if place.rest.is_some() {
        return Ok(());
    }
    let at = header_at(e, member.bundle, place.column);
    let at = e.widened(at, e.varies(place.origin));
    let vals = e.fit(e.ty(v), std::iter::once(at).collect(), e.varies(v), span)?;
    e.set(v, &vals);
    Ok(())
}

/// The address of a header in a bundle.
fn header_at<'m, A: Assembler<'m>>(e: &mut A, bundle: Bundle, column: usize) -> A::V {
    let first = e.held(bundle);
    if column == 0 {
        return first;
    }
    let bytes = e.number((column * size_of::<Header>()) as u64);
    e.offset(first, bytes)
}

/// Emits the read of an element of a column of bundles; returns false if it is another read.
pub(super) fn read<'m, A: Assembler<'m>>(e: &mut A, data: &InstData) -> Res<'m, A, bool> {
    let result = data.results[0];
    if e.bundles.member(result).is_none() {
        return Ok(false);
    }
    if let (Some(to), Some(from)) = (e.bundles.leader(result), e.bundles.member(data.args[0])) {
        let ty = e.ty(result);
        let place = e.bundles.place(from.place);
        let header = header_at(e, from.bundle, place.column);
        let certain = e.inside.contains(result) && !e.varies(data.args[1]);
        let idx = if certain { Checked::Before(data.args[1]) } else { Checked::Here(data.args[1]) };
        let place = stack_element(e, header, Stack::Value, ty, idx);
        let found = e.load(ty, place, data.span)?[0];
        e.hold(to, found);
    }
    set_member(e, result, data.span)?;
    Ok(true)
}

/// The bundles that are results of a branch, at the end of an arm.
pub(super) fn of_arm<'m, A: Assembler<'m>>(e: &mut A, data: &InstData, arm: Region) -> Vec<Vals<A::V>> {
    let joins = e.bundles.clone();
    let one = |join: &Join| {
        let bundle = if join.arm == arm { e.held(join.of) } else { e.fixed(Fixed::Empty) };
        std::iter::once(bundle).collect()
    };
    joins.joins(data).iter().map(one).collect()
}

/// Sets the bundles that are results of a branch, and the stacks in them.
pub(super) fn set_joined<'m, A: Assembler<'m>>(
    e: &mut A,
    data: &InstData,
    found: &[Vals<A::V>],
) -> Res<'m, A> {
    let bundles = e.bundles.clone();
    for (join, vals) in bundles.joins(data).iter().zip(found) {
        e.hold(join.bundle, vals[0]);
        join.members.iter().try_for_each(|&v| set_member(e, v, data.span))?;
    }
    Ok(())
}
