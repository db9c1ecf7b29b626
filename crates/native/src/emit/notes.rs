//! Emits what a profile needs: the location of instructions, and the counts of regions (see [`crate::profile`]).
//!
//! Without a profile, nothing here emits anything.

use ir::Scalar;

use super::{Assembler, Binary, Fixed};
use crate::profile::{Event, Location, Profile};

/// The state of the walk before a region.
pub(super) struct Outer {
    region: Option<u32>,
    here: ir::Span,
}

/// Begins the instructions of a region; `None` without a profile.
pub(super) fn begin<'m, A: Assembler<'m>>(e: &mut A) -> Option<Outer> {
    let profile = e.options().profile;
    if profile == Profile::Off {
        return None;
    }
    let lanes = e.lanes();
    let outer = Outer { region: e.region_number, here: e.here };
    e.region_number = e.tables().notes.region(lanes);
    if let (Profile::Counts, Some(number)) = (profile, e.region_number) {
        let at = e.fixed(Fixed::Counts);
        let (one, active) = (e.number(1), e.count_active());
        for (k, n) in [one, active].into_iter().enumerate() {
            let word = 2 * number as usize + k;
            let sum = e.load_word(Some(Scalar::U64), at, word);
            let sum = e.binary(Binary::Add, sum, n);
            e.store_word(sum, at, word);
        }
    }
    Some(outer)
}

/// Ends the instructions of a region: what follows belongs to the instruction that holds it.
pub(super) fn end<'m, A: Assembler<'m>>(e: &mut A, outer: Option<Outer>) {
    let Some(outer) = outer else { return };
    e.region_before = std::mem::replace(&mut e.region_number, outer.region);
    e.here = outer.here;
    locate(e);
}

/// Sets the location of the instructions that are emitted next: the line of [`super::Walk::here`].
fn locate<'m, A: Assembler<'m>>(e: &mut A) -> u32 {
    let location = Location { span: e.here, region: e.region_number };
    let number = e.tables().notes.location(location);
    // Code of the library belongs to the line that calls it.
    let known = !e.module().is_library(location.span);
    e.location = Some(number);
    e.locate(known.then_some(number));
    number
}

/// Begins an instruction.
pub(super) fn instruction<'m, A: Assembler<'m>>(e: &mut A) {
    if e.options().profile == Profile::Off {
        return;
    }
    let location = locate(e);
    e.tables().notes.event(location, Event::Instruction, 1);
}

/// Notes something about the instruction that is being emitted.
pub fn event<'m, A: Assembler<'m>>(e: &mut A, event: Event, times: u64) {
    if let Some(location) = e.location {
        e.tables().notes.event(location, event, times);
    }
}

/// Notes that a trip of a loop pushes `bytes` of a value to a stack. The trip has ended: its region is the one before.
pub(super) fn kept<'m, A: Assembler<'m>>(e: &mut A, v: ir::Value, bytes: u64) {
    if e.options().profile == Profile::Off {
        return;
    }
    let span = e.def(v).map_or(e.here, |data| data.span);
    let region = e.region_before;
    let number = e.tables().notes.location(Location { span, region });
    e.tables().notes.event(number, Event::Kept, bytes);
}

/// Emits a part of a region, up to an instruction whose arms are emitted in another way.
pub(super) fn within<'m, A: Assembler<'m>>(
    e: &mut A,
    body: impl FnOnce(&mut A) -> super::Res<'m, A>,
) -> super::Res<'m, A> {
    let outer = begin(e);
    body(e)?;
    end(e, outer);
    Ok(())
}
