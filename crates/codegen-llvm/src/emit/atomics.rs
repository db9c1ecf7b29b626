//! Emits atomic ops: in the order of the lanes, or as one for all lanes where that is the same.

use ir::{AtomicOp, InstData, Op, Scalar};
use native::emit::{Instructions, Memory, Odds, UNIFORM, blocks, memory, numbers};

use super::local::{Class, Place};
use super::{Emitter, Res, el};
use crate::operand::{El, Val, Vals};

impl Emitter<'_, '_> {
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
        let one_by_one = |e: &mut Self| {
            let (bits, olds) = (e.mask_bits(lanes), Val { var: true, ..none });
            let (head, body, exit) = (e.w.block(&[bits, olds]), e.w.block(&[]), e.w.block(&[]));
            e.w.jump(head, &[bits, olds]);
            let now = e.w.enter(head);
            let (left, olds) = (now[0], now[1]);
            let some = e.w.compare("icmp ne", left, Val::i32(0));
            e.w.branch(some, (body, &[]), (exit, &[]), Odds::Even);
            e.w.enter(body);
            let lane = e.w.zeros("cttz", left);
            let [at, compare, x] = [place.addr, compare, x].map(|v| e.w.lane(v, lane));
            let old = memory::atomic_one(e, (op, s), at, compare, x);
            let more = e.w.with_lane(olds, lane, old);
            let fewer = e.w.binary("sub", left, Val::i32(1));
            let fewer = e.w.binary("and", fewer, left);
            e.w.jump(head, &[fewer, more]);
            e.w.enter(exit);
            olds
        };
        match place.block.filter(|b| is_sum && s.is_float() && b.1 == s.bytes() as i64) {
            None => Ok(one_by_one(self)),
            // If no other worker adds, adjacent numbers are added to as one vector.
            Some((_, _, holds)) => {
                let alone = self.alone();
                let both = self.w.binary("and", alone, holds);
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

    /// Adds the numbers of the active lanes to one number in memory: in the order of the lanes if the options
    /// ask for that, else their sum by halves.
    fn atomic_sum(&mut self, s: Scalar, place: Place, x: Val, data: &InstData) -> Res {
        let at = place.addr;
        let inside = place.inside.unwrap_or(Val::bool(true));
        let here = match self.mask {
            Some(mask) => {
                let any = self.any(mask);
                self.w.binary("and", inside, any)
            }
            None => inside,
        };
        blocks::when_ok(self, here, Odds::Even, |e| {
            let x = e.w.spread(x);
            // Adding -0 changes nothing.
            let nothing = Val::bits(el(s), if s.is_float() { 1 << (s.bits() - 1) } else { 0 });
            let x = match (e.mask, e.all_active()) {
                (Some(mask), Some(full)) => {
                    let partial = |e: &mut Self| Ok(Vals::from_slice(&[e.w.select(mask, x, nothing)]));
                    let none = e.w.binary("xor", full, Val::bool(true));
                    blocks::unless(e, none, Odds::Unlikely, &[x], partial)?[0]
                }
                _ => x,
            };
            if s.is_int() {
                let sum = e.w.reduce("add", x);
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
        let note = self.note(Class::Buffer { global: None, constant: false }, e.bytes());
        let first = self.w.load(int, UNIFORM, at, &note);
        let (head, done) = (self.w.block(&[first]), self.w.block(&[]));
        self.w.jump(head, &[first]);
        let old = self.w.enter(head)[0];
        let mut sum = self.w.cast("bitcast", old, e);
        for k in 0..self.lanes {
            let x = self.w.lane(x, Val::i32(k as i64));
            sum = numbers::combine(self, &Op::Add, s, sum, x, data.span)?;
        }
        let new = self.w.cast("bitcast", sum, int);
        let (plain, locked) = (self.w.block(&[]), self.w.block(&[]));
        let alone = self.alone();
        self.w.branch(alone, (plain, &[]), (locked, &[]), Odds::Even);
        self.w.enter(plain);
        self.w.store(new, at, &note);
        self.w.jump(done, &[]);
        self.w.enter(locked);
        let (pair, found, same) = (self.w.odd(), self.w.reg(int, UNIFORM), self.w.reg(El::I1, UNIFORM));
        let (p, ty, align) = (self.w.operand(pair, UNIFORM), int.name(), e.bytes());
        let list = self.w.list(&[at, old, new]);
        let exchange = format_args!("cmpxchg {list} monotonic monotonic, align {align}");
        self.w.make(pair, &[at, old, new], exchange);
        self.w.make(found, &[pair], format_args!("extractvalue {{ {ty}, i1 }} {p}, 0"));
        self.w.make(same, &[pair], format_args!("extractvalue {{ {ty}, i1 }} {p}, 1"));
        self.w.branch(same, (done, &[]), (head, &[found]), Odds::Even);
        self.w.enter(done);
        Ok(())
    }
}
