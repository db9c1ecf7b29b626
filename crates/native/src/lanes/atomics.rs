//! Emits atomic ops: in the order of the lanes, or as one for all lanes where that is the same.

use crate::emit::{
    Binary, Cast, Compare, Instructions, Memory, Odds, UNIFORM, Unary, blocks, memory, numbers,
};
use ir::{AtomicOp, InstData, Op, Scalar};

use super::local::Place;
use super::operand::{El, Val, Vals};
use super::{Backend, Class, Emitter, Res, Writer, el};

impl<B: Backend> Emitter<'_, '_, B> {
    /// Emits an atomic op of the active lanes; returns the old numbers.
    pub(super) fn atomic_lanes(
        &mut self,
        data: &InstData,
        (op, s): (AtomicOp, Scalar),
        place: Place,
        (compare, x): (Val, Val),
    ) -> Res<Val> {
        let inside = place.inside.unwrap_or(Val::bool(true));
        let none = Val::bits(el(s), 0);
        if self.lanes == 1 {
            let one = |e: &mut Self| {
                Ok(Vals::from_slice(&[memory::atomic_one(e, (op, s), place.addr, compare, x)]))
            };
            return Ok(blocks::unless(self, inside, Odds::Likely, &[none], one)?[0]);
        }
        let is_sum = self.uses[data.results[0]] == 0 && op == AtomicOp::Add;
        if is_sum && !place.addr.var && !inside.var {
            self.atomic_sum(s, place, x, data)?;
            return Ok(none);
        }
        let lanes = self.both(Some(inside), self.mask).unwrap_or(Val::bool(true));
        let is_used = self.uses[data.results[0]] > 0;
        let one_by_one = |e: &mut Self| {
            let bits = e.w.mask_bits(lanes);
            let olds: &[Val] = if is_used { &[Val { var: true, ..none }] } else { &[] };
            let [at, x] = [place.addr, x].map(|v| e.w.indexed(v));
            // Only an exchange compares.
            let compare = if op == AtomicOp::CompareExchange { e.w.indexed(compare) } else { x };
            let from = [at, compare, x];
            let first: Vals = [bits].iter().chain(olds).copied().collect();
            let (head, body, exit) = (e.w.block(&first), e.w.block(&[]), e.w.block(&[]));
            e.w.jump(head, &first);
            let now = e.w.enter(head);
            let (left, olds) = (now[0], now.get(1).copied());
            let some = e.w.compare(Compare::NotEqual, left, Val::i32(0));
            e.w.branch(some, (body, &[]), (exit, &[]), Odds::Even);
            e.w.enter(body);
            let lane = e.w.unary(Unary::TrailingZeros, left);
            let [at, compare, x] = from.map(|v| e.w.lane(v, lane));
            let old = memory::atomic_one(e, (op, s), at, compare, x);
            let more = olds.map(|olds| e.w.with_lane(olds, lane, old));
            let fewer = e.w.binary(Binary::Sub, left, Val::i32(1));
            let fewer = e.w.binary(Binary::And, fewer, left);
            let next: Vals = [fewer].into_iter().chain(more).collect();
            e.w.jump(head, &next);
            e.w.enter(exit);
            olds.unwrap_or(none)
        };
        match place.block.filter(|b| is_sum && s.is_float() && b.1 == s.bytes() as i64) {
            None => Ok(one_by_one(self)),
            // If no other worker adds, adjacent numbers are added to as one vector.
            Some((_, _, holds)) => {
                let alone = self.alone();
                let both = self.w.binary(Binary::And, alone, holds);
                let together = |e: &mut Self| {
                    let (ty, place) = (s.into(), e.even(place));
                    let old = e.load(ty, place, data.span)?;
                    let sum = numbers::combine(e, &Op::Add, s, old[0], x, data.span)?;
                    e.store(ty, &[sum], place, data.span)?;
                    Ok(Vals::new())
                };
                let apart = |e: &mut Self| {
                    one_by_one(e);
                    Ok(Vals::new())
                };
                blocks::either(self, both, Odds::Even, together, apart)?;
                Ok(none)
            }
        }
    }

    /// Adds the sum of the active lanes of each of several vectors of floats, plus `more`, to a number in memory.
    pub(super) fn add_sums(&mut self, el: El, places: &[Place], numbers: &[Val], more: Option<Val>) -> Res {
        let s = if el == El::F64 { Scalar::F64 } else { Scalar::F32 };
        let here = self.mask.map_or(Val::bool(true), |mask| self.w.any(mask));
        blocks::when_ok(self, here, Odds::Likely, |e| {
            let numbers = e.or_nothing(s, numbers)?;
            let sums = super::sums::sums(&mut e.w, &numbers, more);
            let inside = places.iter().fold(None, |all, place| e.both(all, place.inside));
            let alone = if e.cx.options.exclusive { Val::bool(true) } else { e.alone() };
            let all = inside.map_or(alone, |inside| e.w.binary(Binary::And, alone, inside));
            let plain = |e: &mut Self| {
                for (place, &sum) in places.iter().zip(&sums) {
                    e.add_alone(s, place.addr, sum);
                }
                Ok(Vals::new())
            };
            let others = |e: &mut Self| {
                for (place, &sum) in places.iter().zip(&sums) {
                    let inside = place.inside.unwrap_or(Val::bool(true));
                    blocks::when_ok(e, inside, Odds::Likely, |e| {
                        memory::atomic_one(e, (AtomicOp::Add, s), place.addr, sum, sum);
                        Ok(())
                    })?;
                }
                Ok(Vals::new())
            };
            blocks::either(e, all, Odds::Likely, plain, others).map(drop)
        })
    }

    /// Vectors with -0, whose addition changes nothing, in the lanes that are not active.
    fn or_nothing(&mut self, s: Scalar, numbers: &[Val]) -> Res<Vals> {
        let numbers: Vals = numbers.iter().map(|&x| self.w.spread(x)).collect();
        let nothing = Val::bits(el(s), if s.is_float() { 1 << (s.bits() - 1) } else { 0 });
        let (Some(mask), Some(full)) = (self.mask, self.all_active()) else { return Ok(numbers) };
        let partial =
            |e: &mut Self| Ok(numbers.iter().map(|&x| e.w.select(mask, x, nothing)).collect::<Vals>());
        let none = self.w.binary(Binary::Xor, full, Val::bool(true));
        blocks::unless(self, none, Odds::Unlikely, &numbers, partial)
    }

    /// Adds the numbers of the active lanes to one number in memory: in the order of the lanes if the options
    /// ask for that, else their sum by halves.
    fn atomic_sum(&mut self, s: Scalar, place: Place, x: Val, data: &InstData) -> Res {
        let at = place.addr;
        let inside = place.inside.unwrap_or(Val::bool(true));
        let here = match self.mask {
            Some(mask) => {
                let any = self.w.any(mask);
                self.w.binary(Binary::And, inside, any)
            }
            None => inside,
        };
        blocks::when_ok(self, here, Odds::Even, |e| {
            let x = e.or_nothing(s, &[x])?[0];
            if s.is_int() {
                let sum = e.w.reduce(Binary::Add, x);
                memory::atomic_one(e, (AtomicOp::Add, s), at, sum, sum);
            } else if s == Scalar::F16 {
                for k in 0..e.lanes {
                    let x = e.w.lane(x, Val::i32(k as i64));
                    memory::atomic_one(e, (AtomicOp::Add, s), at, x, x);
                }
            } else if e.cx.options.lane_order {
                e.add_in_order(s, at, x, data)?;
            } else {
                let sum = e.w.sum_by_halves(x);
                memory::atomic_one(e, (AtomicOp::Add, s), at, sum, sum);
            }
            Ok(())
        })
    }

    /// Adds the floats of all lanes to a number in memory, one after the other, but in one atomic operation.
    fn add_in_order(&mut self, s: Scalar, at: Val, x: Val, data: &InstData) -> Res {
        let (int, e) = (if s.bits() == 64 { El::I64 } else { El::I32 }, el(s));
        let class = Class::Buffer { global: None, constant: false };
        let first = self.w.load(int, UNIFORM, at, class);
        let (head, done) = (self.w.block(&[first]), self.w.block(&[]));
        self.w.jump(head, &[first]);
        let old = self.w.enter(head)[0];
        let mut sum = self.w.cast(Cast::Bits, old, e);
        for k in 0..self.lanes {
            let x = self.w.lane(x, Val::i32(k as i64));
            sum = numbers::combine(self, &Op::Add, s, sum, x, data.span)?;
        }
        let new = self.w.cast(Cast::Bits, sum, int);
        let (plain, locked) = (self.w.block(&[]), self.w.block(&[]));
        let alone = self.alone();
        self.w.branch(alone, (plain, &[]), (locked, &[]), Odds::Even);
        self.w.enter(plain);
        self.w.store(new, at, class);
        self.w.jump(done, &[]);
        self.w.enter(locked);
        let (found, same) = self.w.exchange(at, old, new);
        self.w.branch(same, (done, &[]), (head, &[found]), Odds::Even);
        self.w.enter(done);
        Ok(())
    }
}
