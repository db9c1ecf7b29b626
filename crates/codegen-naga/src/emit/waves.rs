//! Emits wave operations: a wave is 32 threads of a group in the order of their index, on every device.
//!
//! A device's subgroups may have another size and another order, and all lanes must receive the value of each
//! lane at once. Lanes therefore exchange values through group-shared memory: each lane writes its value and,
//! after a barrier, reads those of its wave. Control flow is known to be uniform across the group at this
//! point (`uniformity`), so every thread that belongs to the wave takes part.
//!
//! Where a device has subgroups of 32 lanes, or a group is a row of no more threads than they have lanes, 32-bit
//! numbers are read from the other lanes directly. Each entry point begins with a test that the subgroup's
//! lanes are those of the wave, and each exchange tests that all lanes have arrived; if a test fails, the run
//! reports it.

use ir::{Builtin, Inst, InstData, Scalar, Value, WAVE_LANES};
use naga::{Barrier, BinaryOperator as Bin, Expression, GatherMode, ScalarKind, Statement};

use super::{Emitter, Held, Res};
use crate::Target;
use crate::build::Expr;

impl<'m> Emitter<'_, 'm> {
    /// Gathers the values of the wave's lanes, and the mask of the lanes that exist.
    pub(super) fn wave_gather(&mut self, inst: Inst) -> Res {
        let data: &'m InstData = &self.f.insts[inst];
        let value = data.args[0];
        let func = self.cx.plan.instances[self.instance].func.expect("an instance has a function");
        if let Some(apart) = self.cx.waves.steps_apart.get(&func)
            && apart.as_ref().is_none_or(|apart| apart.contains(inst))
        {
            // A step of lanes in divergent control flow: memory becomes visible, but no thread waits. WGSL
            // and MSL have no barrier for memory alone, and atomic operations are visible there anyway.
            if !matches!(self.cx.options.target, Target::Wgsl | Target::Msl) {
                self.code.push(Statement::MemoryBarrier(Barrier::WORK_GROUP));
            }
            return Ok(());
        }
        let index = self.builtin(Builtin::GroupIndex)?;
        let n = self.group_threads()?;
        let first = self.code.u32(!(WAVE_LANES - 1));
        let first = self.code.binary(Bin::And, index, first);
        let [values, mask] = data.results[..] else { return Ok(()) };
        if self.cx.waves.subgroups.is_some() && self.uses[values] > 0 && self.is_of_words(value) {
            let here = self.lanes_here(n, first);
            self.exchange(data, here)?;
            return self.set(mask, here);
        }
        if self.uses[values] == 0 {
            // Only the mask is used: no values are exchanged, but writes to memory become visible to all
            // lanes.
            self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
        } else {
            let ty = self.naga_type(value, data.span)?;
            let shared = self.cx.wave_values(ty);
            let own = self.code.expr(Expression::GlobalVariable(shared));
            let own = self.code.element(own, index);
            self.store_value(own, value)?;
            self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
            let place = self.temporary(values)?;
            let last = self.code.u32(self.cx.threads() - 1);
            self.each(WAVE_LANES, |e, i| {
                let from = e.code.binary(Bin::Add, first, i);
                let there = e.code.binary(Bin::Less, from, n);
                let at = e.code.math(naga::MathFunction::Min, &[from, last]);
                let all = e.code.expr(Expression::GlobalVariable(shared));
                let theirs = e.code.element(all, at);
                let to = e.code.element(place, i);
                e.either(there, |e| e.copy_place(to, theirs, ty), |e| e.store_zero(to, ty))
            })?;
            // No thread may write the next value before all have read this one.
            self.code.push(Statement::ControlBarrier(Barrier::WORK_GROUP));
            self.values[values] = Held::Place(place);
        }
        let here = self.lanes_here(n, first);
        self.set(mask, here)
    }

    /// The mask of the lanes that exist in the wave beginning with thread `first`, in a group of `n` threads.
    fn lanes_here(&mut self, n: Expr, first: Expr) -> Expr {
        let all = self.code.u32(u32::MAX);
        let lanes = self.code.u32(WAVE_LANES);
        let left = self.code.binary(Bin::Subtract, n, first);
        let full = self.code.binary(Bin::GreaterEqual, left, lanes);
        let one = self.code.u32(1);
        let last = self.code.u32(WAVE_LANES - 1);
        let few = self.code.math(naga::MathFunction::Min, &[left, last]);
        let some = self.code.binary(Bin::ShiftLeft, one, few);
        let some = self.code.binary(Bin::Subtract, some, one);
        self.code.select(full, all, some)
    }

    /// Returns true if the value is a scalar or vector of 32-bit numbers or of `bool`.
    fn is_of_words(&self, v: Value) -> bool {
        let (ty, s) = (self.ty(v), self.scalar(v));
        self.types.is_numeric(ty) && !self.is_array(ty) && (s.bytes() == 4 || s == Scalar::Bool)
    }

    /// Reads the value of each active lane by subgroup operations; the values of other lanes are zero.
    fn exchange(&mut self, data: &'m InstData, here: Expr) -> Res {
        self.cx.waves.uses_subgroups = true;
        let (value, values) = (data.args[0], data.results[0]);
        // Earlier writes of the lanes become visible to the others. WGSL and MSL have no barrier for memory
        // alone.
        let both = Barrier::STORAGE | Barrier::WORK_GROUP;
        self.code.push(match self.cx.options.target {
            Target::Wgsl | Target::Msl => Statement::ControlBarrier(both),
            _ => Statement::MemoryBarrier(both),
        });
        let yes = self.code.literal(naga::Literal::Bool(true));
        let came = self.code.expr(Expression::SubgroupBallotResult);
        self.code.push(Statement::SubgroupBallot { result: came, predicate: Some(yes) });
        let came = self.code.part(came, 0);
        let differs = self.code.binary(Bin::NotEqual, came, here);
        self.fail_if(differs, "not all lanes of a wave came to its operation together", data.span);
        let (s, n) = (self.scalar(value), self.lanes(self.ty(value)));
        let is_bool = s == Scalar::Bool;
        let moved = self.cx.lanes_type(if is_bool { Scalar::U32 } else { s }, n);
        let mut own = self.get(value);
        if is_bool {
            own = self.code.convert(own, ScalarKind::Uint, Some(4));
        }
        let place = self.temporary(values)?;
        self.each(WAVE_LANES, |e, i| {
            let theirs = e.code.expr(Expression::SubgroupOperationResult { ty: moved });
            e.code.push(Statement::SubgroupGather {
                mode: GatherMode::Shuffle(i),
                argument: own,
                result: theirs,
            });
            let zero = e.code.zero(moved);
            let bit = e.code.binary(Bin::ShiftRight, here, i);
            let one = e.code.u32(1);
            let bit = e.code.binary(Bin::And, bit, one);
            let there = e.code.binary(Bin::Equal, bit, one);
            let there = if n > 1 { e.code.splat(n, there) } else { there };
            let mut part = e.code.select(there, theirs, zero);
            if is_bool {
                part = e.code.convert(part, ScalarKind::Bool, Some(1));
            }
            let to = e.code.element(place, i);
            e.code.store(to, part);
            Ok(())
        })?;
        self.values[values] = Held::Place(place);
        Ok(())
    }

    /// Reports an error if waves are not subgroups: lane `k` of the subgroup must be thread `k` of the wave.
    pub(super) fn check_subgroups(&mut self, size: Expr, index: Expr) {
        let uint = self.cx.lanes_type(Scalar::U32, 1);
        let lanes = self.code.u32(WAVE_LANES);
        let wanted = self.code.u32(self.cx.waves.subgroups.unwrap_or(WAVE_LANES));
        let other_size = self.code.binary(Bin::NotEqual, size, wanted);
        let last = self.code.u32(WAVE_LANES - 1);
        let lane = self.code.binary(Bin::And, index, last);
        let gather = |e: &mut Self, mode: GatherMode| {
            let result = e.code.expr(Expression::SubgroupOperationResult { ty: uint });
            e.code.push(Statement::SubgroupGather { mode, argument: index, result });
            result
        };
        // The lane with this thread's number must be this thread, and the first lane must be of the same
        // wave.
        let there = gather(self, GatherMode::Shuffle(lane));
        let first = gather(self, GatherMode::BroadcastFirst);
        let other_order = self.code.binary(Bin::NotEqual, there, index);
        let own_wave = self.code.binary(Bin::ExclusiveOr, first, index);
        let other_wave = self.code.binary(Bin::GreaterEqual, own_wave, lanes);
        let bad = self.code.binary(Bin::LogicalOr, other_size, other_order);
        let bad = self.code.binary(Bin::LogicalOr, bad, other_wave);
        let n = self.cx.waves.subgroups.unwrap_or(WAVE_LANES);
        let message = format!("the subgroups of this device are not {n} threads of a group in their order");
        self.fail_if(bad, &message, self.f.span);
    }

    /// The number of threads of the group.
    fn group_threads(&mut self) -> Res<Expr> {
        let mut sizes = self.cx.ir.entries.iter().map(|e| e.group_size.iter().product::<u32>());
        if let Some(first) = sizes.next()
            && sizes.all(|n| n == first)
        {
            return Ok(self.code.u32(first));
        }
        let size = self.builtin(Builtin::GroupSize)?;
        let parts = [0, 1, 2].map(|k| self.code.part(size, k));
        let area = self.code.binary(Bin::Multiply, parts[0], parts[1]);
        Ok(self.code.binary(Bin::Multiply, area, parts[2]))
    }
}
