//! The threads that code runs at a time: lanes, and waves.
//!
//! Where control has diverged, the mask of the active lanes is kept, and values that vary are represented so that
//! there is one number for each lane: see [`super`].
//!
//! # Waves
//!
//! A thread with wave operations runs by itself, never in lanes of this backend: which threads are together
//! is determined at run time, from the path that each has taken. [`crate::nesting`] describes paths.
//!
//! On a machine whose threads are lanes already, the context holds the mask of the lanes that are together
//! instead. Regions have one entry and one exit. So before a branch on the way to a wave operation, the lanes
//! of the mask exchange which way they go, and the mask becomes that of the lanes that go the same way; after
//! the branch the previous mask is restored. The same happens at the end of each trip of a loop.

use crate::emit::{Assembler, Binary, Cast, Compare, Instructions, Memory, Odds, Unary, VARYING, blocks};
use crate::runtime::{Word, offsets};
use crate::types::size;
use ir::{Builtin, Func, Inst, InstData, Op, Region, Scalar, Span, Type, TypeData};

use super::local::Place;
use super::operand::{El, Id, Val, Vals};
use super::uniform::Left;
use super::{Backend, Class, Emitter, Res, Writer};

impl<'m, B: Backend> Assembler<'m> for Emitter<'_, 'm, B> {
    fn builtin(&mut self, builtin: Builtin, data: &InstData) -> Vals {
        let varying = self.varies(data.results[0]);
        let (at, n) = offsets::of(builtin);
        let in_lanes = self.lanes > 1 && builtin != Builtin::GroupSize;
        (0..n)
            .map(|k| {
                if let (Some(numbers), 1) = (&self.numbers, self.lanes)
                    && builtin != Builtin::GroupSize
                {
                    return numbers.part(builtin, k as usize);
                }
                if !in_lanes {
                    return self.context(Word::I32, at + 4 * k);
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

    fn lanes(&self) -> u32 {
        self.lanes
    }

    fn count_active(&mut self) -> Val {
        let Some(mask) = self.mask.filter(|mask| mask.var) else { return Val::i64(i64::from(self.lanes)) };
        let bits = self.w.mask_bits(mask);
        let n = self.w.unary(Unary::CountBits, bits);
        self.w.cast(Cast::ZeroExtend, n, El::I64)
    }

    /// Among LLVM's targets, only devices have waves.
    fn is_device(&self) -> bool {
        self.cx.backend.has_waves()
    }

    fn barrier(&mut self, span: Span) -> Res {
        if self.mask.is_some() {
            return self.no_lanes("a barrier that not all lanes reach", span);
        }
        self.helper(crate::runtime::Helper::Barrier, &[]);
        Ok(())
    }

    fn begin_path(&mut self, func: Func) {
        if self.cx.backend.has_waves() {
            self.keeps_mask = self.cx.plan.converges(func);
        } else {
            crate::emit::begin_path(self, func);
        }
    }

    fn stop_if(&mut self, c: Val, body: &mut dyn FnMut(&mut Self, Val)) {
        // A uniform condition needs no mask: code that may stop the program only runs if a lane is active.
        let c = if c.var { self.active(c) } else { c };
        let stop = self.w.any(c);
        blocks::when(self, stop, Odds::Unlikely, |e| {
            let lane = e.name_lane(c);
            body(e, lane);
        });
    }

    /// Emits an operation without a vector form lane by lane.
    fn by_lane(&mut self, to: Scalar, args: &[Val], mut one: impl FnMut(&mut Self, &[Val]) -> Val) -> Val {
        if args.iter().all(|a| !a.var) {
            return one(self, args);
        }
        let mut all = Val { var: true, ..Val::uniform(Id::Poison, super::el(to)) };
        for k in 0..self.lanes {
            let lane = Val::i32(k as i64);
            let args: Vals = args.iter().map(|&a| self.w.lane(a, lane)).collect();
            let x = one(self, &args);
            all = self.w.with_lane(all, lane, x);
        }
        all
    }

    fn of_lane(&mut self, x: Val, lane: Val) -> Val {
        self.w.lane(x, lane)
    }

    fn check_alone(&self, what: &str, span: Span) -> Res {
        if self.lanes > 1 { self.no_lanes(what, span) } else { Ok(()) }
    }

    fn check_stack(&self, place: Place, what: &str, span: Span) -> Res {
        if place.addr.var || place.mask.is_some() { self.no_lanes(what, span) } else { Ok(()) }
    }

    fn varies(&self, v: ir::Value) -> bool {
        self.facts.varying[v]
    }

    fn results_vary(&mut self, func: Option<(Func, &[ir::Value])>) -> Res<Vec<bool>> {
        Ok(match func {
            Some((func, _)) if self.lanes == 1 => vec![false; self.cx.ir.funcs[func].results.len()],
            Some((func, args)) => {
                let params: Vec<bool> = args.iter().map(|&a| self.varies(a)).collect();
                self.cx.facts(self.dealing, func, &params)?.results
            }
            None if self.lanes == 1 => vec![false; self.f.results.len()],
            None => self.facts.results.clone(),
        })
    }

    /// Converts a value to the representation of a varying one, if that differs; a number is broadcast where
    /// it is used.
    fn fit(&mut self, ty: Type, vals: Vals, varying: bool, span: Span) -> Res<Vals> {
        if !varying || self.lanes == 1 || vals.first().is_none_or(|v| v.wide) {
            return Ok(vals);
        }
        let known = vals[0].id == Id::Name("@rt_zero") || vals[0].id == Id::Name("@rt_empty");
        match self.ts[ty] {
            TypeData::Array(..) | TypeData::Stack(_) if known => {
                Ok(Vals::from_slice(&[Val { wide: true, ..vals[0] }]))
            }
            TypeData::Stack(_) => self.no_lanes("a uniform stack among varying ones", span),
            TypeData::Array(..) => {
                let to = self.memory(size(self.ts, ty), VARYING);
                self.store_array(ty, vals[0], Place::local(to), None, span)?;
                Ok(Vals::from_slice(&[to]))
            }
            _ => Ok(vals),
        }
    }

    /// As [`Self::fit`], but also broadcasts numbers and handles, as phis and calls require.
    fn fit_all(&mut self, ty: Type, vals: Vals, varying: bool, span: Span) -> Res<Vals> {
        let vals = self.fit(ty, vals, varying, span)?;
        if !varying || matches!(self.ts[ty], TypeData::Array(..) | TypeData::Stack(_)) {
            return Ok(vals);
        }
        Ok(vals.into_iter().map(|v| Val { lin: None, ..self.w.spread(v) }).collect())
    }

    /// Emits `c ? a : b` for values with the same representation.
    fn pick(&mut self, ty: Type, c: Val, a: &[Val], b: &[Val], span: Span) -> Res<Vals> {
        if a == b {
            return Ok(a.iter().copied().collect());
        }
        match self.ts[ty] {
            TypeData::Array(..) if c.var => {
                let to = self.memory(size(self.ts, ty), VARYING);
                self.blend(ty, to, a[0], b[0], c)?;
                Ok(Vals::from_slice(&[to]))
            }
            TypeData::Stack(_) if c.var => self.no_lanes("a choice of stacks that varies", span),
            TypeData::Array(..) | TypeData::Stack(_) => {
                let wide = a[0].wide || b[0].wide;
                let one = self.w.select(c, a[0], b[0]);
                Ok(Vals::from_slice(&[Val { wide, ..one }]))
            }
            _ => Ok(a.iter().zip(b).map(|(&a, &b)| self.w.select(c, a, b)).collect()),
        }
    }

    fn is_done(&mut self, inst: Inst) -> Res<bool> {
        let data = &self.f.insts[inst];
        let left = data.args.get(1).filter(|_| data.op == Op::Sub).and_then(|v| self.trips_left.get(v));
        match left.copied() {
            Some(left) => self.set(data.results[0], &[left]),
            None => return Ok(self.angle(inst) || self.in_row(inst)?),
        }
        Ok(true)
    }

    fn diverges(&self, inst: Inst) -> bool {
        self.facts.divergent[inst]
    }

    fn parted(&mut self, data: &'m InstData, cases: &[i64]) -> Res {
        self.part(data, cases)
    }

    fn mask(&self) -> Option<Val> {
        self.mask
    }

    fn set_mask(&mut self, mask: Option<Val>) {
        self.mask = mask;
        if mask.is_some_and(|mask| !self.full.contains_key(&mask.id)) {
            self.note_full();
        }
    }

    fn all_lanes(&mut self) -> Val {
        self.mask.unwrap_or(Val { var: true, ..Val::bool(true) })
    }

    /// Masks are varying even if the condition is uniform, since loops carry them.
    fn active(&mut self, c: Val) -> Val {
        let c = self.w.spread(c);
        match self.mask {
            Some(mask) => self.w.binary(Binary::And, mask, c),
            None => c,
        }
    }

    fn remaining(&mut self, mask: Val, c: Val) -> (Val, Val) {
        let c = self.w.spread(c);
        let still = self.w.binary(Binary::And, mask, c);
        (still, self.w.any(still))
    }

    fn masked(&self, place: Place, mask: Val) -> Place {
        Place { mask: Some(mask), ..place }
    }

    fn most(&mut self, n: Val) -> Val {
        let n = self.or_in_idle_lanes(n, Val::bits(n.el, 0));
        self.w.reduce(Binary::MaxUnsigned, n)
    }

    fn last_index(&mut self, i: Val) -> Val {
        if !i.var {
            return i;
        }
        let negative = self.w.compare(Compare::LessSigned, i, Val::i64(0));
        let i = self.w.select(negative, Val::i64(-1), i);
        let i = self.or_in_idle_lanes(i, Val::i64(-1));
        self.w.reduce(Binary::MaxSigned, i)
    }

    fn blank(&mut self, ty: Type) -> Vals {
        self.blanks(ty, VARYING)
    }

    fn enters_late(&self, counter: ir::Value) -> bool {
        self.facts.late[counter].is_some()
    }

    fn trips_left(&mut self, counter: ir::Value, left: Val) {
        if self.facts.late[counter] == Some(Left::Subtracted) {
            self.trips_left.insert(counter, left);
        }
    }

    /// Returns true if the mask has to be maintained at the operation that holds a region.
    fn parts_at(&self, region: Region) -> bool {
        self.keeps_mask && self.nesting.path_arm(&self.cx.plan, region).is_some()
    }

    /// Splits the mask by the number of the way that each lane takes into a region; returns the mask of the
    /// lanes that were together, for [`Self::rejoin`], or `None` if the mask need not be maintained.
    fn split_lanes(&mut self, region: Region, way: Val) -> Option<Val> {
        if !self.parts_at(region) {
            return None;
        }
        let way = if way.el == El::I1 { self.w.cast(Cast::ZeroExtend, way, El::I32) } else { way };
        let ctx = Val::name(El::Ptr, "%ctx");
        self.w.device_call("rt_part", Some(El::I32), &[ctx, way])
    }

    /// The mask of the lanes that reach the operation that holds a region, for [`Self::rejoin`].
    fn together(&mut self, region: Region) -> Option<Val> {
        if !self.parts_at(region) {
            return None;
        }
        let ctx = Val::name(El::Ptr, "%ctx");
        self.w.device_call("rt_together", Some(El::I32), &[ctx])
    }

    /// Restores a mask: its lanes are together again.
    fn rejoin(&mut self, mask: Option<Val>) {
        let Some(mask) = mask else { return };
        let ctx = Val::name(El::Ptr, "%ctx");
        self.w.device_call("rt_rejoin", None, &[ctx, mask]);
    }
}

impl<B: Backend> Emitter<'_, '_, B> {
    /// A varying number, replaced in lanes that are not active.
    pub(super) fn or_in_idle_lanes(&mut self, v: Val, otherwise: Val) -> Val {
        let v = self.w.spread(v);
        match self.mask {
            Some(mask) => self.w.select(mask, v, otherwise),
            None => v,
        }
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
            self.set_context(x, offsets::THREAD + 4 * k);
        }
        lane
    }

    /// Component `k` of an ID of the threads in the lanes.
    pub(super) fn lane_number(&mut self, builtin: Builtin, k: i32) -> Val {
        if let Some(numbers) = &self.numbers {
            return numbers.part(builtin, k as usize);
        }
        let row = match builtin {
            Builtin::DispatchThreadId => k,
            Builtin::GroupId => 3 + k,
            Builtin::GroupThreadId => 6 + k,
            _ => 9,
        };
        let at = self.context_at(offsets::LANES + 4 * crate::MOST_LANES as i32 * row);
        self.w.load(El::I32, VARYING, at, Class::Context)
    }
}
