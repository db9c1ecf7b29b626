//! Emits `for` and `loop`.
//!
//! Both test their condition at the end of a trip. A carried array alternates between two memories of the
//! loop: a trip reads one (at first the initial value) and writes the next value to the other, so a parallel
//! assignment such as a swap needs no special care.
//!
//! The stacks of a `for` have their final size from the start; those of a `loop` double at the start of a
//! trip. If a trip allocates in the arena and passes no stack on, the arena is released at the end of each
//! trip, after values are pushed to stacks and carried arrays are written.
//!
//! A `loop` whose body ends with an `if` that decides whether to continue (every `while` of the source does)
//! jumps from the arms directly to the next trip or out of the loop.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types::*};
use ir::{InstData, LoopInfo, Op, Region, Type};

use super::{Emitter, Res, Vals, plain};
use crate::types::{clif, parts};
use native::runtime::{Helper, Site, offsets};
use native::types::{is_array, size};

/// A loop while its body is emitted.
struct Loop<'d> {
    data: &'d InstData,
    info: LoopInfo,
    body: Block,
    exit: Block,
    /// The region's parameters that hold carried values.
    params: Vec<ir::Value>,
    /// For each carried array, the memory that is written next and the one after it.
    spare: Vec<Option<(Value, Value)>>,
    /// The arena's mark at the start of the trip, if the trip's allocations are released at its end.
    mark: Option<Value>,
    /// The types of the stacks' elements.
    stacked: Vec<Type>,
    /// The number of trips before this one and the capacity of the stacks (`loop` only), and the memory of
    /// each stack.
    len: Value,
    cap: Value,
    stacks: Vals,
}

impl<'m> Emitter<'_, 'm> {
    /// The current mark of the arena.
    pub(super) fn mark(&mut self) -> Value {
        self.b.ins().load(I64, plain(), self.ctx, offsets::ARENA_TOP)
    }

    /// Releases everything that was allocated in the arena since the mark.
    pub(super) fn release(&mut self, mark: Option<Value>) {
        let Some(mark) = mark else { return };
        let base = self.b.ins().load(I64, plain(), self.ctx, offsets::ARENA_BASE);
        let end = self.b.ins().load(I64, plain(), self.ctx, offsets::ARENA_END);
        let (at, size) = (self.b.ins().isub(mark, base), self.b.ins().isub(end, base));
        let here = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, at, size);
        let (near, far, go) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(far);
        self.branch(here, (near, &[]), (far, &[]));
        self.enter(near);
        self.b.ins().store(plain(), mark, self.ctx, offsets::ARENA_TOP);
        self.jump(go, &[]);
        self.enter(far);
        self.rare_call(Helper::Release, &[mark]);
        self.jump(go, &[]);
        self.enter(go);
    }

    /// Allocates a stack of `n` uninitialised elements; returns its header and its memory. `n` is below 2^32
    /// if `short`.
    fn new_stack(&mut self, n: Value, short: bool, elem: Type) -> (Value, Value) {
        const HEADER: i64 = 32;
        let bytes = size(self.ts, elem);
        let (slow, join) = (self.b.create_block(), self.b.create_block());
        let header = self.b.append_block_param(join, I64);
        let ptr = self.b.append_block_param(join, I64);
        if short && bytes < 1 << 24 {
            // Allocates header and elements at once, if the arena's chunk has room.
            let fast = self.b.create_block();
            self.b.set_cold_block(slow);
            let total = self.mul_imm(n, bytes);
            let total = self.add_imm(total, HEADER + 15);
            let mask = self.i64(!15);
            let total = self.b.ins().band(total, mask);
            let top = self.mark();
            let end = self.b.ins().load(I64, plain(), self.ctx, offsets::ARENA_END);
            let new = self.b.ins().iadd(top, total);
            let fits = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, new, end);
            self.branch(fits, (fast, &[]), (slow, &[]));
            self.enter(fast);
            self.b.ins().store(plain(), new, self.ctx, offsets::ARENA_TOP);
            let first = self.add_imm(top, HEADER);
            for (k, x) in [first, n, n].into_iter().enumerate() {
                self.b.ins().store(plain(), x, top, 8 * k as i32);
            }
            self.jump(join, &[top, first]);
        } else {
            self.jump(slow, &[]);
        }
        self.enter(slow);
        let bytes = self.i64(bytes as i64);
        let made = self.rare_value(Helper::StackNew, &[n, bytes]);
        let first = self.b.ins().load(I64, plain(), made, 0);
        self.jump(join, &[made, first]);
        self.enter(join);
        (header, ptr)
    }

    /// Makes the block of the trips: its parameters are those of types `before`, then those of the carried
    /// values (three for an array).
    fn body_block(&mut self, before: &[cranelift_codegen::ir::Type], carried: &[ir::Value]) -> Block {
        let block = self.b.create_block();
        for &ty in before {
            self.b.append_block_param(block, ty);
        }
        for &v in carried {
            let ty = self.ty(v);
            let more = if is_array(self.ts, ty) { 2 } else { 0 };
            for part in parts(self.ts, ty).into_iter().chain(std::iter::repeat_n(I64, more)) {
                self.b.append_block_param(block, part);
            }
        }
        block
    }

    /// The initial carried values as arguments of the body's block and of the exit.
    fn initial(&mut self, carried: &[ir::Value]) -> (Vals, Vals) {
        let (mut body, mut exit) = (Vals::new(), Vals::new());
        for &v in carried {
            let vals = self.get(v);
            exit.extend_from_slice(&vals);
            body.extend_from_slice(&vals);
            if is_array(self.ts, self.ty(v)) {
                let bytes = size(self.ts, self.ty(v));
                body.push(self.memory(bytes));
                body.push(self.memory(bytes));
            }
        }
        (body, exit)
    }

    /// Binds the carried parameters of a body's block; returns the spare memories.
    fn bind_carried(
        &mut self,
        block: Block,
        from: usize,
        params: &[ir::Value],
    ) -> Vec<Option<(Value, Value)>> {
        let mut at = from;
        let mut spare = Vec::with_capacity(params.len());
        for &param in params {
            at = self.bind_params(block, at, &[param]);
            spare.push(is_array(self.ts, self.ty(param)).then(|| {
                let rest = self.b.block_params(block);
                (rest[at], rest[at + 1])
            }));
            if spare.last().is_some_and(Option::is_some) {
                at += 2;
            }
        }
        spare
    }

    /// The carried results of a trip as arguments of the body's block and of the exit.
    fn carry(&mut self, lp: &Loop<'_>, results: &[ir::Value]) -> (Vals, Vals) {
        let (mut body, mut exit) = (Vals::new(), Vals::new());
        for (k, &v) in results.iter().enumerate() {
            let vals = self.get(v);
            match lp.spare[k] {
                None => {
                    body.extend_from_slice(&vals);
                    exit.extend_from_slice(&vals);
                }
                Some((write, other)) if v == lp.params[k] => {
                    body.extend([vals[0], write, other]);
                    exit.push(vals[0]);
                }
                Some((write, other)) => {
                    self.copy(write, vals[0], size(self.ts, self.ty(v)));
                    body.extend([write, other, write]);
                    exit.push(write);
                }
            }
        }
        (body, exit)
    }

    pub(super) fn for_op(&mut self, data: &'m InstData, info: LoopInfo) -> Res {
        let region = data.regions[0];
        let (params, results) = (&self.f.regions[region].params, &self.f.regions[region].results);
        let carried = &data.args[1..];
        let stacked: Vec<Type> = results[carried.len()..].iter().map(|&v| self.ty(v)).collect();
        let counter = clif(self.scalar_of(data.args[0]));
        let n = self.one(data.args[0]);
        let n64 = self.extend(I64, false, n);
        if let (Some(bound), false) = (info.max_iters, stacked.is_empty()) {
            let bound64 = self.i64(bound as i64);
            let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, n64, bound64);
            native::emit::world::fail_if(self, over, Site::MaxIters(bound, data.span));
        }
        let mut headers = Vals::new();
        let mut stacks = Vals::new();
        for &ty in &stacked {
            let (header, ptr) = self.new_stack(n64, counter == I32, ty);
            headers.push(header);
            stacks.push(ptr);
        }
        let carried_types: Vec<Type> = carried.iter().map(|&v| self.ty(v)).collect();
        let exit = self.block_for(&carried_types);
        let body = self.body_block(&[counter], &params[1..]);
        let (mut first, out) = self.initial(carried);
        let zero = self.b.ins().iconst(counter, 0);
        let one = self.b.ins().iconst(counter, 1);
        // A loop that counts down carries the number of trips that are left.
        first.insert(0, if info.down { n } else { zero });
        let count = self.const_of(data.args[0]);
        match count {
            Some(0) => self.jump(exit, &out),
            Some(_) => self.jump(body, &first),
            None => {
                let some = self.b.ins().icmp(IntCC::NotEqual, n, zero);
                self.branch(some, (body, &first), (exit, &out));
            }
        }

        self.b.switch_to_block(body);
        native::emit::path_trip(self, region);
        let held = self.b.block_params(body)[0];
        let i = if info.down { self.b.ins().isub(held, one) } else { held };
        self.set(params[0], &[i]);
        let spare = self.bind_carried(body, 1, &params[1..]);
        let mark = self.releases_trip(region).then(|| self.mark());
        let params = params[1..].to_vec();
        let lp = Loop { data, info, body, exit, params, spare, mark, stacked, len: i, cap: i, stacks };
        self.region(region)?;
        let trip = if info.down && !lp.stacked.is_empty() { self.b.ins().isub(n, held) } else { i };
        let i64 = self.extend(I64, false, trip);
        for (k, &ty) in lp.stacked.iter().enumerate() {
            let at = self.mul_imm(i64, size(self.ts, ty));
            let at = self.b.ins().iadd(lp.stacks[k], at);
            let vals = self.get(results[carried.len() + k]);
            self.store(ty, &vals, at, 0);
        }
        let (mut next, out) = self.carry(&lp, &results[..carried.len()]);
        self.release(lp.mark);
        let more = if info.down {
            next.insert(0, i);
            self.b.ins().icmp(IntCC::NotEqual, i, zero)
        } else {
            let i = self.b.ins().iadd(i, one);
            next.insert(0, i);
            self.b.ins().icmp(IntCC::UnsignedLessThan, i, n)
        };
        self.branch(more, (body, &next), (exit, &out));

        self.b.switch_to_block(exit);
        self.bind_params(exit, 0, &data.results[..carried.len()]);
        for (&result, &header) in data.results[carried.len()..].iter().zip(&headers) {
            self.set(result, &[header]);
        }
        Ok(())
    }

    pub(super) fn loop_op(&mut self, data: &'m InstData, info: LoopInfo) -> Res {
        let region = data.regions[0];
        let params = self.f.regions[region].params.clone();
        let results = self.f.regions[region].results.clone();
        let n = data.args.len();
        let stacked: Vec<Type> = results[n + 1..].iter().map(|&v| self.ty(v)).collect();
        // The stacks need the number of trips, the capacity, and the memory of each stack.
        let words = if stacked.is_empty() { 0 } else { 2 + stacked.len() };
        let carried_types: Vec<Type> = data.args.iter().map(|&v| self.ty(v)).collect();
        let exit = self.block_for(&carried_types);
        for _ in 0..words {
            self.b.append_block_param(exit, I64);
        }
        let body = self.body_block(&vec![I64; words], &params);
        let (carried, _) = self.initial(&data.args);
        let zero = self.i64(0);
        let mut first = Vals::from_elem(zero, words);
        first.extend(carried);
        self.jump(body, &first);

        self.b.switch_to_block(body);
        native::emit::path_trip(self, region);
        let own = Vals::from_slice(&self.b.block_params(body)[..words]);
        let spare = self.bind_carried(body, words, &params);
        let own = self.make_room(own, &stacked);
        let mark = self.releases_trip(region).then(|| self.mark());
        let lp = Loop {
            data,
            info,
            body,
            exit,
            params,
            spare,
            mark,
            stacked,
            len: own.first().copied().unwrap_or(zero),
            cap: own.get(1).copied().unwrap_or(zero),
            stacks: own.iter().skip(2).copied().collect(),
        };
        self.trip(region, &results, &lp)?;

        self.b.switch_to_block(exit);
        let at = self.bind_params(exit, 0, &data.results[..n]);
        if words > 0 {
            let own = Vals::from_slice(&self.b.block_params(exit)[at..]);
            for (k, &result) in data.results[n..].iter().enumerate() {
                let args = [own[2 + k], own[0], own[1]];
                let header = self.rare_value(Helper::StackHeader, &args);
                self.set(result, &[header]);
            }
        }
        Ok(())
    }

    /// Emits a region at whose end the loop's body has these results, and the end of the trip.
    fn trip(&mut self, region: Region, results: &[ir::Value], lp: &Loop<'_>) -> Res {
        let insts = &self.f.regions[region].insts;
        if let Some((&last, before)) = insts.split_last() {
            let tail = &self.f.insts[last];
            if tail.op == Op::If && tail.results.contains(&results[0]) {
                for &inst in before {
                    native::emit::inst(self, inst)?;
                }
                native::emit::path_inst(self, last);
                let (yes, no) = (self.b.create_block(), self.b.create_block());
                let c = self.one(tail.args[0]);
                self.branch(c, (yes, &[]), (no, &[]));
                for (block, &arm) in [yes, no].into_iter().zip(&tail.regions) {
                    let inner = &self.f.regions[arm].results;
                    let mapped: Vec<ir::Value> = results
                        .iter()
                        .map(|&v| tail.results.iter().position(|&r| r == v).map_or(v, |k| inner[k]))
                        .collect();
                    self.b.switch_to_block(block);
                    native::emit::path_arm(self, arm);
                    self.trip(arm, &mapped, lp)?;
                }
                return Ok(());
            }
        }
        self.region(region)?;
        self.end_trip(results, lp)
    }

    /// Ends a trip of a `loop`: pushes to the stacks, then continues with the next trip or leaves the loop.
    fn end_trip(&mut self, results: &[ir::Value], lp: &Loop<'_>) -> Res {
        let n = lp.params.len();
        let known = self.const_of(results[0]);
        let again = self.one(results[0]);
        let mut own = Vals::new();
        if !lp.stacked.is_empty() {
            own = self.push(lp, &results[n + 1..]);
            if let (Some(bound), true) = (lp.info.max_iters, known != Some(0)) {
                let limit = self.i64(bound as i64);
                let over = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, lp.len, limit);
                let over = self.b.ins().band(over, again);
                native::emit::world::fail_if(self, over, Site::MaxIters(bound, lp.data.span));
            }
        }
        let (body, out) = self.carry(lp, &results[1..=n]);
        self.release(lp.mark);
        let next: Vals = own.iter().chain(&body).copied().collect();
        let out: Vals = out.iter().chain(&own).copied().collect();
        match known {
            Some(0) => self.jump(lp.exit, &out),
            Some(_) => self.jump(lp.body, &next),
            None => self.branch(again, (lp.body, &next), (lp.exit, &out)),
        }
        Ok(())
    }

    /// Makes sure that the stacks of a `loop` have room for another trip, before the trip allocates anything:
    /// `own` holds the number of trips, the capacity and the memory of each stack.
    fn make_room(&mut self, own: Vals, stacked: &[Type]) -> Vals {
        let [len, cap, ..] = own[..] else { return own };
        let (full, fits) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(full);
        for _ in 0..=stacked.len() {
            self.b.append_block_param(fits, I64);
        }
        let is_full = self.b.ins().icmp(IntCC::Equal, len, cap);
        self.branch(is_full, (full, &[]), (fits, &own[1..]));
        self.enter(full);
        let doubled = self.b.ins().iadd(cap, cap);
        let least = self.i64(16);
        let more = self.b.ins().umax(doubled, least);
        let mut grown = Vals::from_slice(&[more]);
        for (&ptr, &ty) in own[2..].iter().zip(stacked) {
            let bytes = self.i64(size(self.ts, ty) as i64);
            grown.push(self.rare_value(Helper::StackRoom, &[ptr, len, more, bytes]));
        }
        self.jump(fits, &grown);
        self.enter(fits);
        std::iter::once(len).chain(self.b.block_params(fits).iter().copied()).collect()
    }

    /// Pushes values on the stacks of a `loop`; returns the new number of trips, the capacity and the
    /// memories.
    fn push(&mut self, lp: &Loop<'_>, values: &[ir::Value]) -> Vals {
        for (k, (&v, &ty)) in values.iter().zip(&lp.stacked).enumerate() {
            let at = self.mul_imm(lp.len, size(self.ts, ty));
            let at = self.b.ins().iadd(lp.stacks[k], at);
            let vals = self.get(v);
            self.store(ty, &vals, at, 0);
        }
        let len = self.add_imm(lp.len, 1);
        [len, lp.cap].into_iter().chain(lp.stacks.iter().copied()).collect()
    }
}
