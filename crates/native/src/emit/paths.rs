//! Records the path of a thread, if wave operations need it: see `nesting`.

use ir::{Inst, Region};

use super::{Assembler, Binary};
use crate::runtime::Helper;

/// Records in the path that an instruction is executed next.
pub(super) fn path_inst<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) {
    let Some(base) = e.path_base else { return };
    for (depth, word) in e.nesting.path_inst(e.plan(), inst) {
        path_word(e, base, depth, word);
    }
}

/// Records in the path that a region of an `if` or `switch` begins.
pub(super) fn path_arm<'m, A: Assembler<'m>>(e: &mut A, region: Region) {
    let Some(base) = e.path_base else { return };
    if let Some((depth, arm)) = e.nesting.path_arm(e.plan(), region) {
        path_word(e, base, depth, arm);
    }
}

/// Records in the path that a trip of a loop begins.
pub(super) fn path_trip<'m, A: Assembler<'m>>(e: &mut A, region: Region) {
    let Some(base) = e.path_base else { return };
    if let Some(depth) = e.nesting.path_trip(e.plan(), region) {
        let at = path_at(e, base, depth);
        e.helper(Helper::PathNext, &[at]);
    }
}

fn path_at<'m, A: Assembler<'m>>(e: &mut A, base: A::V, depth: i64) -> A::V {
    let depth = e.number(depth as u64);
    e.binary(Binary::Add, base, depth)
}

fn path_word<'m, A: Assembler<'m>>(e: &mut A, base: A::V, depth: i64, word: i64) {
    let at = path_at(e, base, depth);
    let word = e.number(word as u64);
    e.helper(Helper::PathSet, &[at, word]);
}
