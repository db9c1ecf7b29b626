//! Emits blocks in common forms, the arena's marks, and code that stops the program.

use ir::Scalar;

use super::{Assembler, Binary, Compare, Odds, Res, UNROLL, Vals};
use crate::runtime::{Helper, Site, Word, offsets};

// ---- blocks

/// Emits `body` under a branch.
pub fn when<'m, A: Assembler<'m>>(e: &mut A, c: A::V, odds: Odds, body: impl FnOnce(&mut A)) {
    let done = when_ok(e, c, odds, |e| {
        body(e);
        Ok(())
    });
    debug_assert!(done.is_ok());
}

/// As [`when`], for code that may be impossible.
pub fn when_ok<'m, A: Assembler<'m>>(
    e: &mut A,
    c: A::V,
    odds: Odds,
    body: impl FnOnce(&mut A) -> Res<'m, A>,
) -> Res<'m, A> {
    let (yes, after) = (e.block(&[]), e.block(&[]));
    e.branch(c, (yes, &[]), (after, &[]), odds);
    e.enter(yes);
    body(e)?;
    e.jump(after, &[]);
    e.enter(after);
    Ok(())
}

/// Emits `body` under a branch: gives its results if `c` holds, else `otherwise`.
pub fn unless<'m, A: Assembler<'m>>(
    e: &mut A,
    c: A::V,
    odds: Odds,
    otherwise: &[A::V],
    body: impl FnOnce(&mut A) -> Res<'m, A, Vals<A::V>>,
) -> Res<'m, A, Vals<A::V>> {
    let (yes, after) = (e.block(&[]), e.block(otherwise));
    e.branch(c, (yes, &[]), (after, otherwise), odds);
    e.enter(yes);
    let found = body(e)?;
    e.jump(after, &found);
    Ok(e.enter(after))
}

/// Emits two blocks of which one runs; gives its results.
pub fn either<'m, A: Assembler<'m>>(
    e: &mut A,
    c: A::V,
    odds: Odds,
    yes: impl FnOnce(&mut A) -> Res<'m, A, Vals<A::V>>,
    no: impl FnOnce(&mut A) -> Res<'m, A, Vals<A::V>>,
) -> Res<'m, A, Vals<A::V>> {
    let (accept, reject) = (e.block(&[]), e.block(&[]));
    e.branch(c, (accept, &[]), (reject, &[]), odds);
    e.enter(accept);
    let found = yes(e)?;
    let after = e.block(&found);
    e.jump(after, &found);
    e.enter(reject);
    let other = no(e)?;
    e.jump(after, &other);
    Ok(e.enter(after))
}

/// Emits `body` for each of `0..n`, in a loop if there are many.
pub fn each<'m, A: Assembler<'m>>(
    e: &mut A,
    n: u64,
    mut body: impl FnMut(&mut A, A::V) -> Res<'m, A>,
) -> Res<'m, A> {
    if n <= UNROLL {
        return (0..n).try_for_each(|k| {
            let k = e.number(k);
            body(e, k)
        });
    }
    let (zero, one, end) = (e.number(0), e.number(1), e.number(n));
    let (head, exit) = (e.block(&[zero]), e.block(&[]));
    e.jump(head, &[zero]);
    let k = e.enter(head)[0];
    body(e, k)?;
    let next = e.binary(Binary::AddNoWrap, k, one);
    let more = e.compare(Compare::LessUnsigned, next, end);
    e.branch(more, (head, &[next]), (exit, &[]), Odds::Even);
    e.enter(exit);
    Ok(())
}

// ---- the arena

/// The current mark of the arena.
pub fn mark<'m, A: Assembler<'m>>(e: &mut A) -> A::V {
    e.context(Word::Ptr, offsets::ARENA_TOP)
}

/// Releases everything that was allocated in the arena since the mark.
pub fn release<'m, A: Assembler<'m>>(e: &mut A, mark: Option<A::V>) {
    let Some(mark) = mark else { return };
    let base = e.context(Word::I64, offsets::ARENA_BASE);
    let end = e.context(Word::I64, offsets::ARENA_END);
    let bits = e.address_bits(mark);
    let at = e.binary(Binary::Sub, bits, base);
    let room = e.binary(Binary::Sub, end, base);
    let here = e.compare(Compare::LessOrEqualUnsigned, at, room);
    let done = either(
        e,
        here,
        Odds::Likely,
        |e| {
            e.set_context(mark, offsets::ARENA_TOP);
            Ok(Vals::new())
        },
        |e| {
            e.rare_helper(Helper::Release, &[mark]);
            Ok(Vals::new())
        },
    );
    debug_assert!(done.is_ok());
}

// ---- errors

/// The number of a site.
pub(super) fn site<'m, A: Assembler<'m>>(e: &mut A, site: Site) -> A::V {
    let number = e.tables().site(site);
    e.constant(Scalar::I32, number as u64)
}

/// Stops the program with the message of a site if `c` holds for a thread.
pub fn fail_if<'m, A: Assembler<'m>>(e: &mut A, c: A::V, failure: Site) {
    e.stop_if(c, &mut |e, _| {
        let site = site(e, failure.clone());
        e.rare_helper(Helper::Fail, &[site]);
    });
}
