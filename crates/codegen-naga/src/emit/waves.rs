//! Emits wave operations: a wave is 32 threads of a group in the order of their index, on every device.
//!
//! A device's subgroups may have another size and another order, and all lanes must receive the value of each
//! lane at once. Lanes therefore exchange values through group-shared memory: each lane writes its value and,
//! after a barrier, reads those of its wave, where they are or, without room for that, in a copy. Control flow is
//! known to be uniform across the group at this point (`uniformity`), so every thread that belongs to the wave
//! takes part.
//!
//! Where a device has subgroups of 32 lanes, or a group is a row of no more threads than they have lanes, numbers
//! and vectors are read from the other lanes directly. Each entry point begins with a test that the subgroup's
//! lanes are those of the wave, and each exchange tests that all lanes have arrived; if a test fails, the run
//! reports it.

use ir::{Builtin, Inst, InstData, Op, Scalar, Type, Value, WAVE_LANES};
use naga::{
    Barrier, BinaryOperator as Bin, Expression, GatherMode, GlobalVariable, Handle, Literal, ScalarKind,
    Statement,
};

use super::{Emitter, Held, Res};
use crate::Target;
use crate::build::Expr;

/// A group of no more threads reads each of them by an operation of its own: in a loop, the lane that is read is not a
/// constant, which drivers are slower for.
const FEW_LANES: u32 = 8;

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
            self.exchange(data, here, n)?;
            return self.set(mask, here);
        }
        if self.uses[values] == 0 {
            // Only the mask is used: no values are exchanged, but writes to memory become visible to all
            // lanes.
            self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
        } else {
            let ty = self.naga_type(value, data.span)?;
            let is_full = matches!(self.code.literal_of(n), Some(Literal::U32(n)) if n % WAVE_LANES == 0);
            let lanes = if is_full { self.shared_lanes(values, ty)? } else { None };
            match lanes {
                Some(lanes) => self.gather_in_place(data, lanes, index)?,
                None => self.gather_copies(data, ty, (index, first, n))?,
            }
        }
        let here = self.lanes_here(n, first);
        self.set(mask, here)
    }

    /// Writes this lane's value to `lanes`, an array of a value for each lane of each wave; there, all lanes read them.
    fn gather_in_place(&mut self, data: &'m InstData, lanes: Handle<GlobalVariable>, index: Expr) -> Res {
        let (value, values) = (data.args[0], data.results[0]);
        let size = self.code.u32(WAVE_LANES);
        let (wave, lane) = if self.cx.threads() == WAVE_LANES {
            (self.code.u32(0), index)
        } else {
            (self.code.binary(Bin::Divide, index, size), self.code.binary(Bin::Modulo, index, size))
        };
        // All have read what was there.
        self.code.push(Statement::ControlBarrier(Barrier::WORK_GROUP));
        let all = self.code.expr(Expression::GlobalVariable(lanes));
        let place = self.code.element(all, wave);
        let own = self.code.element(place, lane);
        self.store_value(own, value)?;
        self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
        let ty = self.naga_type(values, data.span)?;
        self.code.is_variable(place, ty);
        self.values[values] = Held::Place(place);
        Ok(())
    }

    /// Copies the values of all lanes to a variable of the thread, by way of an array that all gathers share; those of
    /// lanes that do not exist are zero. The numbers are those of the thread, of its wave's first one, and of all.
    fn gather_copies(
        &mut self,
        data: &'m InstData,
        ty: Handle<naga::Type>,
        (index, first, n): (Expr, Expr, Expr),
    ) -> Res {
        let (value, values) = (data.args[0], data.results[0]);
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
        Ok(())
    }

    /// A group-shared array in which the values of all lanes stay while they are read, if there is room for it. As
    /// variables of arrays do ([`Self::temporary`]), several gathers share one. What is in such an array must outlast
    /// calls: a function that calls others with operations of waves has arrays of its own.
    fn shared_lanes(&mut self, values: Value, ty: Handle<naga::Type>) -> Res<Option<Handle<GlobalVariable>>> {
        if let Some(k) = self.free_temporary(&self.gathered, ty) {
            self.gathered[k] = self.temporary_of(values, ty, self.gathered[k].place);
            return Ok(Some(self.gathered[k].place));
        }
        let mut calls_waves = false;
        self.f.walk(self.f.body(), &mut |inst| {
            if let Op::Call(callee) = self.f.insts[inst].op {
                calls_waves |= self.cx.waves.functions.get(&callee).is_none_or(|&has| has);
            }
        });
        let owner = calls_waves.then_some(self.instance);
        let number = self.gathered.iter().filter(|t| t.ty == ty).count();
        let Some(place) = self.cx.wave_lanes(ty, owner, number) else { return Ok(None) };
        let made = self.temporary_of(values, ty, place);
        self.gathered.push(made);
        Ok(Some(place))
    }

    /// The mask of the lanes that exist in the wave beginning with thread `first`, in a group of `n` threads.
    fn lanes_here(&mut self, n: Expr, first: Expr) -> Expr {
        let all = self.code.u32(u32::MAX);
        if matches!(self.code.literal_of(n), Some(Literal::U32(n)) if n % WAVE_LANES == 0) {
            return all;
        }
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

    /// Returns true if the value is a number or vector that can be read from other lanes directly.
    fn is_of_words(&self, v: Value) -> bool {
        // The bits of a double are a 64-bit integer.
        let is_known = self.scalar(v) != Scalar::F64 || self.cx.options.target.has_int64();
        self.types.is_numeric(self.ty(v)) && !self.is_array(self.ty(v)) && is_known
    }

    /// Reads the value of each active lane by subgroup operations; the values of other lanes are zero.
    fn exchange(&mut self, data: &'m InstData, here: Expr, threads: Expr) -> Res {
        self.cx.waves.uses_subgroups = true;
        let (value, values) = (data.args[0], data.results[0]);
        // Earlier writes of the lanes become visible to the others. WGSL and MSL have no barrier for memory
        // alone.
        let both = Barrier::STORAGE | Barrier::WORK_GROUP;
        self.code.push(match self.cx.options.target {
            Target::Wgsl | Target::Msl => Statement::ControlBarrier(both),
            _ => Statement::MemoryBarrier(both),
        });
        let yes = self.code.literal(Literal::Bool(true));
        let came = self.code.expr(Expression::SubgroupBallotResult);
        self.code.push(Statement::SubgroupBallot { result: came, predicate: Some(yes) });
        let came = self.code.part(came, 0);
        let differs = self.code.binary(Bin::NotEqual, came, here);
        self.fail_if(differs, "not all lanes of a wave came to its operation together", data.span);
        let ty = self.ty(value);
        let moved = match self.scalar(value) {
            Scalar::F16 => Scalar::F32,
            s if s.bytes() < 8 && s != Scalar::Bool => s,
            _ => Scalar::U32,
        };
        let moved = self.cx.lanes_type(moved, self.lanes(ty));
        let own = self.get(value);
        let own = self.words(ty, own);
        let zero = self.code.zero(moved);
        let read = |e: &mut Self, mode: GatherMode| -> Vec<Expr> {
            let read = own.iter().map(|&argument| {
                let result = e.code.expr(Expression::SubgroupOperationResult { ty: moved });
                e.code.push(Statement::SubgroupGather { mode, argument, result });
                result
            });
            read.collect()
        };
        if let Some(Literal::U32(threads)) = self.code.literal_of(threads)
            && threads <= FEW_LANES
        {
            let element = self.naga_type(value, data.span)?;
            let mut parts = vec![self.code.zero(element); WAVE_LANES as usize];
            for (k, part) in (0..threads).zip(&mut parts) {
                let k = self.code.u32(k);
                let theirs = read(self, GatherMode::Shuffle(k));
                *part = self.of_words(ty, &theirs);
            }
            let all = self.naga_type(values, data.span)?;
            let all = self.code.compose(all, parts);
            return self.set(values, all);
        }
        let n = self.lanes(ty);
        let place = self.temporary(values)?;
        self.each(WAVE_LANES, |e, i| {
            let theirs = read(e, GatherMode::Shuffle(i));
            let bit = e.code.binary(Bin::ShiftRight, here, i);
            let one = e.code.u32(1);
            let bit = e.code.binary(Bin::And, bit, one);
            let there = e.code.binary(Bin::Equal, bit, one);
            let there = if n > 1 { e.code.splat(n, there) } else { there };
            let theirs: Vec<Expr> = theirs.into_iter().map(|word| e.code.select(there, word, zero)).collect();
            let part = e.of_words(ty, &theirs);
            let to = e.code.element(place, i);
            e.code.store(to, part);
            Ok(())
        })?;
        self.values[values] = Held::Place(place);
        Ok(())
    }

    /// A number or vector as one of 32 bits a lane, or as two of them, the low bits first.
    fn words(&mut self, ty: Type, x: Expr) -> Vec<Expr> {
        let s = self.types.scalar_of(ty).expect("it consists of numbers");
        match s {
            Scalar::Bool => vec![self.code.convert(x, ScalarKind::Uint, Some(4))],
            Scalar::F16 => vec![self.code.convert(x, ScalarKind::Float, Some(4))],
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                let bits = if s == Scalar::U64 { x } else { self.code.convert(x, ScalarKind::Uint, None) };
                let by = self.code.u32(32);
                let by = self.code.splat(self.lanes(ty), by);
                let high = self.code.binary(Bin::ShiftRight, bits, by);
                [bits, high].map(|half| self.code.convert(half, ScalarKind::Uint, Some(4))).to_vec()
            }
            _ => vec![x],
        }
    }

    /// The number or vector of which [`Self::words`] made these.
    fn of_words(&mut self, ty: Type, words: &[Expr]) -> Expr {
        let s = self.types.scalar_of(ty).expect("it consists of numbers");
        match (s, words) {
            (Scalar::Bool, &[x]) => self.code.convert(x, ScalarKind::Bool, Some(1)),
            (Scalar::F16, &[x]) => self.code.convert(x, ScalarKind::Float, Some(2)),
            (_, &[low, high]) => {
                let [low, high] = [low, high].map(|half| self.code.convert(half, ScalarKind::Uint, Some(8)));
                let by = self.code.u32(32);
                let by = self.code.splat(self.lanes(ty), by);
                let high = self.code.binary(Bin::ShiftLeft, high, by);
                let bits = self.code.binary(Bin::InclusiveOr, low, high);
                match s {
                    Scalar::I64 => self.code.convert(bits, ScalarKind::Sint, None),
                    Scalar::F64 => self.code.convert(bits, ScalarKind::Float, None),
                    _ => bits,
                }
            }
            _ => words[0],
        }
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
