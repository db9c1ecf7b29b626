//! Emits accesses of memory that the host sees.

use ir::{AtomicOp, Builtin, InstData, Op, Path, Scalar, Space, TypeData};
use native::emit::{Assembler, numbers, world};
use native::runtime::{Helper, Site, atomic_code, offsets};
use native::types::{HANDLE_BYTES, size};

use super::local::{Class, Elements, Place};
use super::{Emitter, Res, el};
use crate::text::{El, Val, Vals};

impl Emitter<'_, '_> {
    /// Writes a number to word `k` of the operands of a helper.
    pub(super) fn word_to(&mut self, x: Val, words: Val, k: usize) {
        let at = self.w.offset(words, Val::i64(8 * k as i64));
        self.write(x, at, Class::Local, None);
    }

    /// Stores the ID of the thread that fails in the context: that of the first lane for which `c` holds.
    /// Returns the lane.
    pub(super) fn name_lane(&mut self, c: Val) -> Val {
        if self.lanes == 1 {
            return Val::i32(0);
        }
        let c = match self.mask {
            Some(mask) if !c.var => mask,
            _ if !c.var => Val { var: true, ..Val::bool(true) },
            _ => c,
        };
        let lane = self.first_lane(c);
        for k in 0..3 {
            let x = self.lane_number(Builtin::DispatchThreadId, k);
            let x = self.w.lane(x, lane);
            let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64((offsets::THREAD + 4 * k) as i64));
            let note = self.note(Class::Context, 4);
            self.w.store(x, at, &note);
        }
        lane
    }

    /// Component `k` of an ID of the threads in the lanes.
    fn lane_number(&mut self, builtin: Builtin, k: i32) -> Val {
        if let Some(numbers) = &self.numbers {
            return numbers.part(builtin, k as usize);
        }
        let row = match builtin {
            Builtin::DispatchThreadId => k,
            Builtin::GroupId => 3 + k,
            Builtin::GroupThreadId => 6 + k,
            _ => 9,
        };
        let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64((offsets::LANES + 64 * row) as i64));
        let note = self.note(Class::Context, 4);
        self.w.load(El::I32, true, at, &note)
    }

    pub(super) fn builtin(&mut self, builtin: Builtin, varying: bool) -> Vals {
        let (at, n) = match builtin {
            Builtin::DispatchThreadId => (offsets::THREAD, 3),
            Builtin::GroupId => (offsets::GROUP, 3),
            Builtin::GroupThreadId => (offsets::LOCAL, 3),
            Builtin::GroupIndex => (offsets::INDEX, 1),
            Builtin::GroupSize => (offsets::SIZE, 3),
        };
        let in_lanes = self.lanes > 1 && builtin != Builtin::GroupSize;
        (0..n)
            .map(|k| {
                if let (Some(numbers), 1) = (&self.numbers, self.lanes)
                    && builtin != Builtin::GroupSize
                {
                    return numbers.part(builtin, k as usize);
                }
                if !in_lanes {
                    let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64((at + 4 * k) as i64));
                    let note = self.note(Class::Context, 4);
                    return self.w.load(El::I32, false, at, &note);
                }
                let x = self.lane_number(builtin, k);
                let same = match builtin {
                    Builtin::DispatchThreadId | Builtin::GroupThreadId => self.dealing.rows && k > 0,
                    Builtin::GroupId => k > 0 || !self.dealing.packed,
                    _ => false,
                };
                if x.var && (same || !varying) { self.w.lane(x, Val::i32(0)) } else { x }
            })
            .collect()
    }

    /// The place that the operands `buf, i, dyn…` and a path denote.
    fn buffer_place(&mut self, data: &InstData, path: &Path, args: &[ir::Value]) -> Res<Place> {
        let TypeData::Buffer(elem) = self.ts[self.ty(args[0])] else {
            return self.unsupported(&data.op, "no buffer", data.span);
        };
        let mem = &self.cx.ir.mem;
        let handle = self.get(args[0]);
        let root = self.roots.get(&args[0]).copied();
        let constant =
            root.is_some_and(|g| matches!(self.cx.ir.globals[g].space, Space::ReadOnly | Space::Uniform));
        let class = Class::Buffer { global: root, constant };
        let i = self.index64(args[1]);
        let i = self.add_ints(i, handle[2]);
        let mut inside = self.w.compare("icmp ult", i, handle[1]);
        let bytes = self.times(i, mem.size(elem));
        let mut addr = self.w.offset(handle[0], bytes);
        // For a partial last element, `end` is the offset in the element at which the leaf ends.
        let partial = self.cx.plan.partial.contains(&elem);
        let (mut within, mut end) = (None, Val::i64(0));
        let mut block = match i.lin {
            Some(lin) if !handle[0].var && !handle[1].var && self.lanes > 1 => {
                let base = Val::uniform(lin.base, El::I64);
                let last = self.w.binary("add", base, Val::i64(lin.step.wrapping_mul(self.lanes as i64 - 1)));
                let first_in = self.w.compare("icmp ult", base, handle[1]);
                let last_in = self.w.compare("icmp ult", last, handle[1]);
                let all = self.w.binary("and", first_in, last_in);
                let all = self.w.binary("and", all, Val::uniform(lin.holds, El::I1));
                let bytes = self.times(base, mem.size(elem));
                let at = self.w.offset(handle[0], bytes);
                lin.step.checked_mul(mem.size(elem) as i64).map(|step| (at, step, all))
            }
            _ => None,
        };
        let number = self.one(args[1]);
        let by_number =
            block.is_some() && number.var && number.el == El::I32 && handle[2].constant() == Some(0);
        let mut elements = (by_number && !partial).then(|| Elements {
            first: handle[0],
            count: handle[1],
            size: mem.size(elem),
            numbers: Val { lin: None, ..number },
            signed: self.scalar_of(args[1]).is_signed_int(),
            certain: Val::bool(true),
        });
        let steps = world::steps(self, data, elem, path, &args[2..])?;
        for (idx, n, stride) in steps.dynamic {
            let k = self.index64(idx);
            let certain = self.upper_bound(idx).is_some_and(|max| max < n);
            let below =
                if certain { Val::bool(true) } else { self.w.compare("icmp ult", k, Val::i64(n as i64)) };
            within = self.both(within, Some(below));
            let bytes = self.times(k, stride);
            if partial {
                end = self.w.binary("add", end, bytes);
            }
            addr = self.w.offset(addr, bytes);
            elements = match elements {
                Some(e) if !k.var => {
                    let first = self.w.offset(e.first, bytes);
                    Some(Elements { first, certain: self.w.binary("and", e.certain, below), ..e })
                }
                _ => None,
            };
            block = match block {
                Some((at, step, all)) if !k.var => {
                    let all = self.w.binary("and", all, below);
                    Some((self.w.offset(at, bytes), step, all))
                }
                _ => None,
            };
        }
        let fixed = steps.fixed;
        let addr = self.w.offset(addr, Val::i64(fixed as i64));
        let block = block.map(|(at, step, all)| (self.w.offset(at, Val::i64(fixed as i64)), step, all));
        let elements =
            elements.map(|e| Elements { first: self.w.offset(e.first, Val::i64(fixed as i64)), ..e });
        if partial {
            let last = self.w.compare("icmp eq", i, handle[1]);
            let end = self.w.binary("add", end, Val::i64((fixed + steps.bytes) as i64));
            let fits = self.w.compare("icmp ule", end, handle[3]);
            let here = self.w.binary("and", last, fits);
            inside = self.w.binary("or", inside, here);
        }
        inside = self.both(within, Some(inside)).unwrap_or(inside);
        if self.cx.options.trap {
            let outside = self.w.binary("xor", inside, Val::bool(true));
            world::fail_if(self, outside, Site::OutOfRange(data.span));
        }
        Ok(Place { addr, inside: Some(inside), class, of_stack: false, mask: self.mask, block, elements })
    }

    /// Makes the address and the condition of a place both uniform or both varying.
    fn even(&mut self, place: Place) -> Place {
        let inside = place.inside.unwrap_or(Val::bool(true));
        match (place.addr.var, inside.var) {
            (true, false) => Place { inside: Some(self.w.spread(inside)), ..place },
            (false, true) => Place { addr: self.w.spread(place.addr), ..place },
            _ => place,
        }
    }

    pub(super) fn buffer_load(&mut self, data: &InstData, path: &Path) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        let place = self.buffer_place(data, path, &data.args)?;
        let place = self.even(place);
        let vals = match self.ts[ty] {
            TypeData::Buffer(_) => {
                let u64s = ir::Type::U64;
                let bits = self.load(u64s, place, data.span)?;
                self.pointee(bits[0])
            }
            TypeData::Array(..) if self.ts.scalar_of(ty).is_none() => {
                if place.addr.var {
                    return self.no_lanes("an array of handles at a place that varies", data.span);
                }
                let bytes = size(self.ts, ty);
                let to = self.memory(bytes, false);
                let zero = Val::name(El::Ptr, "@rt_zero");
                let from = self.w.select(place.inside.unwrap_or(Val::bool(true)), place.addr, zero);
                self.each(bytes / HANDLE_BYTES, &mut |e, k| {
                    let by = e.times(k, 8);
                    let at = e.w.offset(from, by);
                    let bits = e.read(El::I64, at, place.class, None);
                    let handle = e.pointee(bits);
                    let by = e.times(k, HANDLE_BYTES);
                    let at = e.w.offset(to, by);
                    for (k, &x) in handle.iter().enumerate() {
                        e.word_to(x, at, k);
                    }
                    Ok(())
                })?;
                Vals::from_slice(&[to])
            }
            _ => self.load(ty, place, data.span)?,
        };
        let varying = self.varies(result);
        let vals = self.fit(ty, vals, varying, data.span)?;
        self.set(result, &vals);
        Ok(())
    }

    pub(super) fn buffer_store(&mut self, data: &InstData, path: &Path) -> Res {
        let (&x, args) = data.args.split_last().expect("a store has operands");
        let ty = self.ty(x);
        if self.ts.scalar_of(ty).is_none() {
            return self.unsupported(&data.op, "a handle", data.span);
        }
        let place = self.buffer_place(data, path, args)?;
        let place = self.even(place);
        let vals = self.get(x);
        self.store(ty, &vals, place, data.span)
    }

    pub(super) fn atomic(&mut self, data: &InstData, path: &Path, op: AtomicOp) -> Res {
        let result = data.results[0];
        let TypeData::Scalar(s) = self.ts[self.ty(result)] else {
            return self.unsupported(&data.op, "on more than a number", data.span);
        };
        let n = op.n_values();
        let (args, values) = data.args.split_at(data.args.len() - n);
        let place = self.buffer_place(data, path, args)?;
        let inside = place.inside.unwrap_or(Val::bool(true));
        let (compare, x) = (self.one(values[0]), self.one(values[n - 1]));
        if self.lanes == 1 {
            let before = self.w.block;
            let (yes, join) = (self.w.new_block(), self.w.new_block());
            self.w.branch(inside, yes, join, ", !prof !8");
            self.w.enter(yes);
            let old = self.atomic_one(s, op, place.addr, compare, x);
            let end = self.w.block;
            self.w.jump(join);
            self.w.enter(join);
            let (phi, old_or_zero) = self.w.phi(el(s), false, false);
            self.w.flow(phi, Val::bits(el(s), 0), before);
            self.w.flow(phi, old, end);
            self.set(result, &[old_or_zero]);
            return Ok(());
        }
        if !self.used.contains(result) && op == AtomicOp::Add && !place.addr.var && !inside.var {
            self.atomic_sum(s, place, x, data)?;
            self.set(result, &[Val::bits(el(s), 0)]);
            return Ok(());
        }
        let lanes = self.both(Some(inside), self.mask).unwrap_or(Val::bool(true));
        // If no other worker adds, adjacent numbers are added to as one vector.
        let in_a_row = place.block.filter(|b| s.is_float() && b.1 == s.bytes() as i64);
        let join = match in_a_row {
            Some((_, _, holds)) if !self.used.contains(result) && op == AtomicOp::Add => {
                let (quick, slow, join) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
                let alone = self.alone();
                let both = self.w.binary("and", alone, holds);
                self.w.branch(both, quick, slow, "");
                self.w.enter(quick);
                let (ty, place) = (self.ty(result), self.even(place));
                let old = self.load(ty, place, data.span)?;
                let sum = numbers::combine(self, &Op::Add, s, old[0], x, data.span)?;
                self.store(ty, &[sum], place, data.span)?;
                self.w.jump(join);
                self.w.enter(slow);
                Some(join)
            }
            _ => None,
        };
        let bits = self.mask_bits(lanes);
        let before = self.w.block;
        let (head, body, exit) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
        self.w.jump(head);
        self.w.enter(head);
        let (left_phi, left) = self.w.phi(El::I32, false, false);
        let (old_phi, olds) = self.w.phi(el(s), true, false);
        self.w.flow(left_phi, bits, before);
        self.w.flow(old_phi, Val::bits(el(s), 0), before);
        let some = self.w.compare("icmp ne", left, Val::i32(0));
        self.w.branch(some, body, exit, "");
        self.w.enter(body);
        let lane = self.w.intrinsic("cttz", &[left], ", i1 true");
        let at = self.w.lane(place.addr, lane);
        let (compare, x) = (self.w.lane(compare, lane), self.w.lane(x, lane));
        let old = self.atomic_one(s, op, at, compare, x);
        let more = self.w.with_lane(olds, lane, old);
        let fewer = self.w.binary("sub", left, Val::i32(1));
        let fewer = self.w.binary("and", fewer, left);
        let end = self.w.block;
        self.w.flow(left_phi, fewer, end);
        self.w.flow(old_phi, more, end);
        self.w.jump(head);
        self.w.enter(exit);
        let olds = match join {
            None => olds,
            Some(join) => {
                self.w.jump(join);
                self.w.enter(join);
                Val::bits(el(s), 0)
            }
        };
        self.set(result, &[olds]);
        Ok(())
    }

    /// The condition that no other worker runs threads of the dispatch.
    fn alone(&mut self) -> Val {
        if self.cx.options.exclusive {
            return Val::bool(true);
        }
        let flag = self.field(El::I32, offsets::ALONE);
        self.w.compare("icmp ne", flag, Val::i32(0))
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
        let (yes, join) = (self.w.new_block(), self.w.new_block());
        self.w.branch(here, yes, join, "");
        self.w.enter(yes);
        let x = self.w.spread(x);
        // Adding -0 changes nothing.
        let nothing = Val::bits(el(s), if s.is_float() { 1 << (s.bits() - 1) } else { 0 });
        let x = match (self.mask, self.all_active()) {
            (Some(mask), Some(full)) => {
                let before = self.w.block;
                let (some, join) = (self.w.new_block(), self.w.new_block());
                self.w.branch(full, join, some, ", !prof !8");
                self.w.enter(some);
                let part = self.w.select(mask, x, nothing);
                let part = self.w.spread(part);
                self.w.jump(join);
                self.w.enter(join);
                let (phi, chosen) = self.w.phi(el(s), true, false);
                self.w.flow(phi, x, before);
                self.w.flow(phi, part, some);
                chosen
            }
            _ => x,
        };
        if s.is_int() {
            let sum = self.w.reduce("add", x);
            self.atomic_one(s, AtomicOp::Add, at, sum, sum);
        } else if s == Scalar::F16 {
            for k in 0..self.lanes {
                let x = self.w.lane(x, Val::i32(k as i64));
                self.atomic_one(s, AtomicOp::Add, at, x, x);
            }
        } else if self.cx.options.lane_order {
            self.add_in_order(s, at, x, data)?;
        } else {
            let sum = self.w.sum_by_halves(x);
            self.atomic_one(s, AtomicOp::Add, at, sum, sum);
        }
        self.w.jump(join);
        self.w.enter(join);
        Ok(())
    }

    /// Adds the floats of all lanes to a number in memory, one after the other, but in one atomic operation.
    fn add_in_order(&mut self, s: Scalar, at: Val, x: Val, data: &InstData) -> Res {
        let (int, e) = (if s.bits() == 64 { El::I64 } else { El::I32 }, el(s));
        let note = self.note(Class::Buffer { global: None, constant: false }, e.bytes());
        let first = self.w.load(int, false, at, &note);
        let before = self.w.block;
        let (head, done) = (self.w.new_block(), self.w.new_block());
        self.w.jump(head);
        self.w.enter(head);
        let (phi, old) = self.w.phi(int, false, false);
        self.w.flow(phi, first, before);
        let mut sum = self.w.cast("bitcast", old, e);
        for k in 0..self.lanes {
            let x = self.w.lane(x, Val::i32(k as i64));
            sum = numbers::combine(self, &Op::Add, s, sum, x, data.span)?;
        }
        let new = self.w.cast("bitcast", sum, int);
        let (pair, found, same) = (self.w.reg(int, false), self.w.reg(int, false), self.w.reg(El::I1, false));
        let text = |v: Val, w: &crate::text::Writer| w.operand(v, false);
        let (p, f, ok) = (text(pair, &self.w), text(found, &self.w), text(same, &self.w));
        let (a, o, n) = (self.w.typed(at), self.w.typed(old), self.w.typed(new));
        let ty = int.name();
        let alone = self.alone();
        let (plain, locked) = (self.w.new_block(), self.w.new_block());
        self.w.branch(alone, plain, locked, "");
        self.w.enter(plain);
        self.w.store(new, at, &note);
        self.w.jump(done);
        self.w.enter(locked);
        self.w.line(format_args!("{p} = cmpxchg {a}, {o}, {n} monotonic monotonic, align {}", e.bytes()));
        self.w.line(format_args!("{f} = extractvalue {{ {ty}, i1 }} {p}, 0"));
        self.w.line(format_args!("{ok} = extractvalue {{ {ty}, i1 }} {p}, 1"));
        let end = self.w.block;
        self.w.flow(phi, found, end);
        self.w.branch(same, done, head, "");
        self.w.enter(done);
        Ok(())
    }

    /// Emits one atomic op; returns the old number.
    fn atomic_one(&mut self, s: Scalar, op: AtomicOp, at: Val, compare: Val, x: Val) -> Val {
        let e = el(s);
        let signed = s.is_signed_int();
        let native = match op {
            AtomicOp::Add if s.is_float() => "fadd",
            AtomicOp::Add => "add",
            AtomicOp::And => "and",
            AtomicOp::Or => "or",
            AtomicOp::Xor => "xor",
            AtomicOp::Exchange => "xchg",
            AtomicOp::Min => {
                if signed {
                    "min"
                } else {
                    "umin"
                }
            }
            AtomicOp::Max => {
                if signed {
                    "max"
                } else {
                    "umax"
                }
            }
            AtomicOp::CompareExchange => "",
        };
        let whole = s.is_int() && s.bits() >= 32 || e.is_float() && native == "fadd";
        if whole && !native.is_empty() {
            let out = self.w.reg(e, false);
            let number = x;
            let (o, a, x) = (self.w.operand(out, false), self.w.typed(at), self.w.typed(x));
            let align = e.bytes();
            if e.is_float() {
                let alone = self.alone();
                let (plain, locked, join) = (self.w.new_block(), self.w.new_block(), self.w.new_block());
                self.w.branch(alone, plain, locked, "");
                self.w.enter(plain);
                let note = self.note(Class::Buffer { global: None, constant: false }, align);
                let old = self.w.load(e, false, at, &note);
                let new = self.w.binary("fadd", old, number);
                self.w.store(new, at, &note);
                let plain_end = self.w.block;
                self.w.jump(join);
                self.w.enter(locked);
                self.w.line(format_args!("{o} = atomicrmw {native} {a}, {x} monotonic, align {align}"));
                self.w.jump(join);
                self.w.enter(join);
                let (phi, before) = self.w.phi(e, false, false);
                self.w.flow(phi, old, plain_end);
                self.w.flow(phi, out, locked);
                return before;
            }
            self.w.line(format_args!("{o} = atomicrmw {native} {a}, {x} acq_rel, align {align}"));
            return out;
        }
        let word = |e: &mut Self, x: Val| match x.el {
            El::F32 => {
                let bits = e.w.cast("bitcast", x, El::I32);
                e.w.cast("zext", bits, El::I64)
            }
            El::F64 => e.w.cast("bitcast", x, El::I64),
            El::I64 => x,
            _ => e.w.cast("zext", x, El::I64),
        };
        let code = Val::i32(atomic_code(op, s) as i64);
        let (x, compare) = (word(self, x), word(self, compare));
        let bits = self.helper_value(Helper::Atomic, &[at, code, x, compare]);
        match e {
            El::F32 => {
                let bits = self.w.cast("trunc", bits, El::I32);
                self.w.cast("bitcast", bits, El::F32)
            }
            El::F64 => self.w.cast("bitcast", bits, El::F64),
            El::I64 => bits,
            _ => self.w.cast("trunc", bits, e),
        }
    }
}
