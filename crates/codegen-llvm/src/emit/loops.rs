//! Emits `for` and `loop`.
//!
//! Both test their condition at the end of a trip. A carried array has one memory, which values of the trip
//! may alias: the parameter itself, and parts that were extracted from it. So a trip writes that memory last,
//! after it has pushed to stacks, and an array that moves from one carried array to another is copied to
//! other memory first.
//!
//! If lanes leave a loop at different times, it continues while any lane is active; lanes that have left are
//! masked. A carried value stays, for a lane, as it was when the lane left. A value that is the same for all
//! lanes in the loop stays uniform there, and only the value that lanes leave with varies.
//!
//! A reversed `for` whose count varies works the other way round: lanes enter it at different times and leave
//! it together, so that all lanes read the residuals of one trip at one place (see `uniform::counted_down`).
//!
//! The stacks of a `for` have their final size from the start; those of a `loop` double at the start of a
//! trip, so that the trip's own allocations can be released at its end. A stack has one length for all lanes:
//! for a lane that has left, it holds zeros, the value that a read past its end would give.

use ir::{InstData, LoopInfo, Op, Type, TypeData};
use native::emit::Assembler;
use native::runtime::{Helper, Site, offsets};
use native::types::{is_array, size};

use super::local::{Class, Place};
use super::{Emitter, Res, el};
use crate::text::{Block, El, PhiId, Val, Vals};
use crate::uniform::Left;

/// A carried value of a loop.
struct Carried {
    ty: Type,
    /// The region's parameter, the value that the trip yields, and the result.
    param: ir::Value,
    next: ir::Value,
    result: ir::Value,
    /// The memory of an array.
    memory: Option<Val>,
    /// The phis of other values, and their results.
    phis: Vec<PhiId>,
    now: Vals,
    /// The same for the value that lanes leave with, if it is kept separately.
    left_memory: Option<Val>,
    left_phis: Vec<PhiId>,
    left: Vals,
    /// The initial values.
    init: Vals,
    left_init: Vals,
}

impl<'m> Emitter<'_, 'm> {
    fn context(&mut self, offset: i32) -> Val {
        self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset as i64))
    }

    /// The current mark of the arena.
    pub(super) fn mark(&mut self) -> Val {
        let at = self.context(offsets::ARENA_TOP);
        let note = self.note(Class::Context, 8);
        self.w.load(El::Ptr, false, at, &note)
    }

    /// Releases everything that was allocated in the arena since the mark.
    pub(super) fn release(&mut self, mark: Option<Val>) {
        let Some(mark) = mark else { return };
        let note = self.note(Class::Context, 8);
        let base_at = self.context(offsets::ARENA_BASE);
        let base = self.w.load(El::I64, false, base_at, &note);
        let end_at = self.context(offsets::ARENA_END);
        let end = self.w.load(El::I64, false, end_at, &note);
        let mark_bits = self.w.cast("ptrtoint", mark, El::I64);
        let at = self.w.binary("sub", mark_bits, base);
        let size = self.w.binary("sub", end, base);
        let here = self.w.compare("icmp ule", at, size);
        let (near, far, go) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        self.w.branch(here, near, far, ", !prof !8");
        self.w.enter(near);
        let top = self.context(offsets::ARENA_TOP);
        self.w.store(mark, top, &note);
        self.w.jump(go);
        self.w.enter(far);
        self.helper(Helper::Release, &[mark]);
        self.w.jump(go);
        self.w.enter(go);
    }

    /// Prepares the carried values of a loop; the phis are added in the body's block.
    fn carried(
        &mut self,
        data: &InstData,
        init: &[ir::Value],
        params: &[ir::Value],
        next: &[ir::Value],
        divergent: bool,
    ) -> Res<Vec<Carried>> {
        let mut all = Vec::new();
        for (k, (&v, &param)) in init.iter().zip(params).enumerate() {
            let (ty, result) = (self.ty(v), data.results[k]);
            let apart = divergent && !self.varies(param);
            let vals = self.get(v);
            let vals_in = self.fit_all(ty, vals.clone(), self.varies(param), data.span)?;
            let left_in = if apart { self.fit_all(ty, vals, true, data.span)? } else { Vals::new() };
            let (mut memory, mut left_memory) = (None, None);
            if is_array(self.ts, ty) {
                let to = self.memory(size(self.ts, ty), self.varies(param));
                self.store(ty, &vals_in, Place::local(to), data.span)?;
                memory = Some(to);
                if apart {
                    let to = self.memory(size(self.ts, ty), true);
                    self.store(ty, &left_in, Place::local(to), data.span)?;
                    left_memory = Some(to);
                }
            }
            all.push(Carried {
                ty,
                param,
                next: next[k],
                result,
                memory,
                phis: Vec::new(),
                now: Vals::new(),
                left_memory,
                left_phis: Vec::new(),
                left: Vals::new(),
                init: vals_in,
                left_init: left_in,
            });
        }
        Ok(all)
    }

    /// Adds the phis of the carried values to the body's block, which was just entered, with the edge from
    /// `before`.
    fn bind(&mut self, all: &mut [Carried], before: Block) {
        for c in all.iter_mut() {
            match c.memory {
                Some(at) => c.now = Vals::from_slice(&[at]),
                None => {
                    let (phis, now) = self.phis(&c.init, before);
                    (c.phis, c.now) = (phis, now);
                }
            }
            match c.left_memory {
                Some(at) => c.left = Vals::from_slice(&[at]),
                None => {
                    let (phis, left) = self.phis(&c.left_init, before);
                    (c.left_phis, c.left) = (phis, left);
                }
            }
        }
        for c in all.iter() {
            self.set(c.param, &c.now);
        }
    }

    fn phis(&mut self, init: &[Val], before: Block) -> (Vec<PhiId>, Vals) {
        let (mut phis, mut now) = (Vec::new(), Vals::new());
        for &v in init {
            let (phi, x) = self.w.phi(v.el, v.var, v.wide);
            self.w.flow(phi, v, before);
            phis.push(phi);
            now.push(x);
        }
        (phis, now)
    }

    /// Returns true if an array certainly has memory of its own.
    fn is_fresh(&self, v: ir::Value) -> bool {
        self.def(v).is_some_and(|d| {
            matches!(
                d.op,
                Op::Construct | Op::Splat | Op::Insert(_) | Op::Call(_) | Op::BufferLoad(_) | Op::Zero
            )
        })
    }

    /// Ends a trip: writes carried arrays, and returns the parts of all other carried values for the next
    /// trip and for leaving.
    fn carry(&mut self, data: &InstData, all: &[Carried], active: Option<Val>) -> Res<Vec<(Vals, Vals)>> {
        let mut arrays = Vec::new();
        for c in all {
            let vals = self.get(c.next);
            let vals = self.fit_all(c.ty, vals, self.varies(c.param), data.span)?;
            if c.memory.is_some() && c.next != c.param && !self.is_fresh(c.next) {
                let to = self.memory(size(self.ts, c.ty), vals[0].wide);
                self.store(c.ty, &vals, Place::local(to), data.span)?;
                arrays.push(Vals::from_slice(&[to]));
            } else {
                arrays.push(vals);
            }
        }
        let mut out = Vec::new();
        for (c, vals) in all.iter().zip(arrays) {
            let varying = self.varies(c.param);
            let mask = active.filter(|_| varying);
            let mut left = Vals::new();
            if let Some(to) = c.memory {
                if let (Some(to), Some(active)) = (c.left_memory, active) {
                    let wide = self.fit(c.ty, vals.clone(), true, data.span)?;
                    let place = Place { mask: Some(active), ..Place::local(to) };
                    self.store(c.ty, &wide, place, data.span)?;
                }
                if c.next != c.param {
                    self.store(c.ty, &vals, Place { mask, ..Place::local(to) }, data.span)?;
                }
                out.push((Vals::new(), Vals::new()));
                continue;
            }
            let next = match mask {
                Some(active) => {
                    let now = c.now.clone();
                    self.pick(c.ty, active, &vals, &now, data.span)?
                }
                None => vals.clone(),
            };
            if let (Some(active), false) = (active, c.left_phis.is_empty()) {
                let wide = self.fit_all(c.ty, vals, true, data.span)?;
                let before = c.left.clone();
                left = self.pick(c.ty, active, &wide, &before, data.span)?;
            }
            out.push((next, left));
        }
        Ok(out)
    }

    /// Adds the parts to the phis of the loop, with the edge from the current block.
    fn flow_round(&mut self, all: &[Carried], next: &[(Vals, Vals)]) {
        let from = self.w.block;
        for (c, (now, left)) in all.iter().zip(next) {
            for (&phi, &v) in c.phis.iter().zip(now).chain(c.left_phis.iter().zip(left)) {
                self.w.flow(phi, v, from);
            }
        }
    }

    /// Sets the results after the loop, in the block that was just entered. `skipped` is the block from which
    /// the loop was skipped, `ended` the block that ends a trip.
    fn leave(&mut self, all: &[Carried], next: &[(Vals, Vals)], skipped: Option<Block>, ended: Block) {
        for (c, (now, left)) in all.iter().zip(next) {
            if let Some(at) = c.left_memory.or(c.memory) {
                self.set(c.result, &[at]);
                continue;
            }
            let apart = !c.left_phis.is_empty();
            let (first, last) = if apart { (&c.left_init, left) } else { (&c.init, now) };
            let mut vals = Vals::new();
            for (&a, &b) in first.iter().zip(last) {
                let (phi, v) = self.w.phi(b.el, b.var, b.wide);
                if let Some(block) = skipped {
                    self.w.flow(phi, a, block);
                }
                self.w.flow(phi, b, ended);
                vals.push(v);
            }
            self.set(c.result, &vals);
        }
    }

    /// The parts of a yielded value in the representation of its stack; zero in lanes that are not active.
    fn stacked(
        &mut self,
        v: ir::Value,
        result: ir::Value,
        active: Option<Val>,
        data: &InstData,
    ) -> Res<Vals> {
        let (ty, vals) = (self.ty(v), self.get(v));
        let varying = self.varies(result);
        let vals = self.fit_all(ty, vals, varying, data.span)?;
        let Some(active) = active else { return Ok(vals) };
        if matches!(self.ts[ty], TypeData::Stack(_)) {
            // Inner loops have stored zeros for lanes that did not take part.
            return Ok(vals);
        }
        let zero = self.blank(ty, true);
        self.pick(ty, active, &vals, &zero, data.span)
    }

    pub(super) fn for_op(&mut self, data: &'m InstData, info: LoopInfo, divergent: bool) -> Res {
        let region = data.regions[0];
        let results = &self.f.regions[region].results;
        let params = &self.f.regions[region].params;
        let n_carried = data.args.len() - 1;
        let counter = el(self.scalar_of(data.args[0]));
        let outer = self.mask;
        let n_each = self.one(data.args[0]);
        let stacks = &data.results[n_carried..];
        if let (Some(bound), false) = (info.max_iters, stacks.is_empty()) {
            let n64 = self.extend(El::I64, false, n_each);
            let over = self.w.compare("icmp ugt", n64, Val::i64(bound as i64));
            native::emit::world::fail_if(self, over, Site::MaxIters(bound, data.span));
        }
        let n = if divergent {
            let n = self.active_or_zero(n_each);
            self.w.reduce("umax", n)
        } else {
            n_each
        };
        let n64 = self.extend(El::I64, false, n);
        let mut headers = Vals::new();
        let mut memories = Vals::new();
        for (&result, &v) in stacks.iter().zip(&results[n_carried..]) {
            let wide = self.varies(result) && self.lanes > 1;
            let bytes = Val::i64(self.stride(self.ty(v), wide) as i64);
            let header = self.helper_value(Helper::StackNew, &[n64, bytes]);
            let note = self.note(Class::Header, 8);
            let first = self.w.load(El::Ptr, false, header, &note);
            headers.push(Val { wide, ..header });
            memories.push(Val { wide, ..first });
        }
        let mut all = self.carried(data, &data.args[1..], &params[1..], &results[..n_carried], divergent)?;
        // Lanes diverge where they leave the loop, unless all run it the same number of times.
        let parts = n.constant().is_none();
        let some = self.w.compare("icmp ne", n, Val::bits(counter, 0));
        let together = if parts { self.split_lanes(region, some) } else { None };
        let before = self.w.block;
        let (body, exit) = (self.w.new_block(), self.w.new_block());
        self.w.branch(some, body, exit, "");
        self.w.enter(body);
        let (i_phi, i) = self.w.phi(counter, false, false);
        self.w.flow(i_phi, Val::bits(counter, 0), before);
        self.bind(&mut all, before);
        native::emit::path_trip(self, region);
        // In a loop that lanes may enter late, a lane takes part in a trip if it has that many trips left.
        let late = self.facts.late[params[0]];
        let mut at = i;
        let mut counted = i;
        if late.is_some() || info.down {
            let last = self.w.binary("sub", if late.is_some() { n } else { n_each }, Val::bits(counter, 1));
            counted = self.w.binary("sub", last, i);
        }
        if late.is_some() {
            at = counted;
        }
        if late == Some(Left::Subtracted) {
            self.trips_left.insert(params[0], counted);
        }
        self.set(params[0], &[counted]);
        let active = divergent.then(|| {
            let here = self.w.compare("icmp ult", at, n_each);
            let here = self.w.spread(here);
            self.active(here)
        });
        if active.is_some() {
            self.mask = active;
            self.note_full();
        }
        let mark = self.releases_trip(region).then(|| self.mark());
        self.region(region)?;
        let i64 = self.extend(El::I64, false, i);
        for (k, (&v, &result)) in results[n_carried..].iter().zip(stacks).enumerate() {
            let ty = self.ty(v);
            let vals = self.stacked(v, result, active, data)?;
            let by = self.times(i64, self.stride(ty, memories[k].wide));
            let at = self.w.offset(memories[k], by);
            self.store(ty, &vals, Place::local(at), data.span)?;
        }
        let next = self.carry(data, &all, active)?;
        self.mask = outer;
        self.release(mark);
        let following = self.w.binary("add nuw", i, Val::bits(counter, 1));
        let more = self.w.compare("icmp ult", following, n);
        if parts {
            self.split_lanes(region, more);
        }
        let end = self.w.block;
        self.w.flow(i_phi, following, end);
        self.flow_round(&all, &next);
        self.w.branch(more, body, exit, "");
        self.w.enter(exit);
        self.leave(&all, &next, Some(before), end);
        self.rejoin(together);
        for (&result, &header) in stacks.iter().zip(&headers) {
            self.set(result, &[header]);
        }
        Ok(())
    }

    /// A varying number that is zero in lanes that are not active.
    fn active_or_zero(&mut self, v: Val) -> Val {
        let v = self.w.spread(v);
        match self.mask {
            Some(mask) => self.w.select(mask, v, Val::bits(v.el, 0)),
            None => v,
        }
    }

    pub(super) fn loop_op(&mut self, data: &'m InstData, info: LoopInfo, divergent: bool) -> Res {
        let region = data.regions[0];
        let params = &self.f.regions[region].params;
        let results = &self.f.regions[region].results;
        let n = data.args.len();
        let stacks = &data.results[n..];
        let outer = self.mask;
        let mut all = self.carried(data, &data.args, params, &results[1..=n], divergent)?;
        let together = self.together(region);
        let before = self.w.block;
        let first_mask = match outer {
            Some(mask) => mask,
            None => Val { var: true, ..Val::bool(true) },
        };
        let (body, exit) = (self.w.new_block(), self.w.new_block());
        self.w.jump(body);
        self.w.enter(body);
        let active = divergent.then(|| {
            let (phi, v) = self.w.phi(El::I1, true, false);
            self.w.flow(phi, first_mask, before);
            (phi, v)
        });
        // The stacks need the number of trips, the capacity, and the memory of each stack.
        let words = if stacks.is_empty() { 0 } else { 2 + stacks.len() };
        let mut own: Vec<(PhiId, Val)> = Vec::new();
        for k in 0..words {
            let e = if k < 2 { El::I64 } else { El::Ptr };
            let (phi, v) = self.w.phi(e, false, false);
            self.w.flow(phi, Val::bits(e, 0), before);
            own.push((phi, v));
        }
        self.bind(&mut all, before);
        native::emit::path_trip(self, region);
        let mask = active.map(|a| a.1);
        if mask.is_some() {
            self.mask = mask;
            self.note_full();
        }
        let mut own_next: Vals = own.iter().map(|o| o.1).collect();
        if words > 0 {
            self.make_room(&results[n + 1..], stacks, &mut own_next);
        }
        let mark = self.releases_trip(region).then(|| self.mark());
        self.region(region)?;
        let again = self.one(results[0]);
        if words > 0 {
            self.push(data, &results[n + 1..], stacks, &own_next, mask)?;
            if let Some(bound) = info.max_iters {
                let over = self.w.compare("icmp uge", own_next[0], Val::i64(bound as i64));
                let over = self.w.binary("and", over, again);
                native::emit::world::fail_if(self, over, Site::MaxIters(bound, data.span));
            }
            own_next[0] = self.w.binary("add nuw", own_next[0], Val::i64(1));
        }
        let next = self.carry(data, &all, mask)?;
        self.release(mark);
        let (go_on, next_mask) = match mask {
            Some(mask) => {
                let again = self.w.spread(again);
                let still = self.w.binary("and", mask, again);
                (self.any(still), Some(still))
            }
            None => (again, None),
        };
        self.mask = outer;
        self.split_lanes(region, go_on);
        let end = self.w.block;
        for (&(phi, _), &v) in own.iter().zip(&own_next) {
            self.w.flow(phi, v, end);
        }
        if let (Some((phi, _)), Some(still)) = (active, next_mask) {
            self.w.flow(phi, still, end);
        }
        self.flow_round(&all, &next);
        self.w.branch(go_on, body, exit, "");
        self.w.enter(exit);
        self.leave(&all, &next, None, end);
        self.rejoin(together);
        for (k, &result) in stacks.iter().enumerate() {
            let args = [own_next[2 + k], own_next[0], own_next[1]];
            let header = self.helper_value(Helper::StackHeader, &args);
            let wide = self.varies(result) && self.lanes > 1;
            self.set(result, &[Val { wide, ..header }]);
        }
        Ok(())
    }

    /// Makes sure that the stacks of a `loop` have room for another trip: `own` holds the number of trips,
    /// the capacity and the memory of each stack.
    fn make_room(&mut self, values: &[ir::Value], stacks: &[ir::Value], own: &mut Vals) {
        let (len, cap) = (own[0], own[1]);
        let (full, fits) = (self.w.new_block(), self.w.new_block());
        let is_full = self.w.compare("icmp eq", len, cap);
        let before = self.w.block;
        self.w.branch(is_full, full, fits, ", !prof !9");
        self.w.enter(full);
        let doubled = self.w.binary("add", cap, cap);
        let more = self.w.intrinsic("umax", &[doubled, Val::i64(16)], "");
        let mut grown = Vals::from_slice(&[more]);
        for ((&ptr, &v), &result) in own[2..].iter().zip(values).zip(stacks) {
            let wide = self.varies(result) && self.lanes > 1;
            let bytes = Val::i64(self.stride(self.ty(v), wide) as i64);
            grown.push(self.helper_value(Helper::StackRoom, &[ptr, len, more, bytes]));
        }
        let full_end = self.w.block;
        self.w.jump(fits);
        self.w.enter(fits);
        for (a, &b) in own[1..].iter_mut().zip(&grown) {
            let (phi, v) = self.w.phi(a.el, false, false);
            self.w.flow(phi, *a, before);
            self.w.flow(phi, b, full_end);
            *a = v;
        }
    }

    /// Pushes values on the stacks of a `loop`, which must have room.
    fn push(
        &mut self,
        data: &InstData,
        values: &[ir::Value],
        stacks: &[ir::Value],
        own: &[Val],
        active: Option<Val>,
    ) -> Res {
        for (k, (&v, &result)) in values.iter().zip(stacks).enumerate() {
            let ty = self.ty(v);
            let wide = self.varies(result) && self.lanes > 1;
            let vals = self.stacked(v, result, active, data)?;
            let by = self.times(own[0], self.stride(ty, wide));
            let at = self.w.offset(Val { wide, ..own[2 + k] }, by);
            self.store(ty, &vals, Place::local(at), data.span)?;
        }
        Ok(())
    }
}
