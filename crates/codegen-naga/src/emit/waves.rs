//! Waves: 32 threads of a group in the order of their index, on every device.
//!
//! A device's subgroups have other sizes and other orders, and what a lane gives must be known to all others at once. So
//! lanes meet in group-shared memory: each writes its value, and after a barrier reads those of its wave. That all threads
//! of the group come by is known (`uniformity`), so a wave's lanes are all that the group has.

use ir::{Builtin, Inst, InstData, WAVE_LANES};
use naga::{Barrier, BinaryOperator as Bin, Expression, Statement};

use super::{Emitter, Held, Res};
use crate::Target;
use crate::build::Expr;

impl<'m> Emitter<'_, 'm> {
    /// The values of the wave's lanes, and which are there.
    pub(super) fn wave_gather(&mut self, inst: Inst) -> Res {
        let data: &'m InstData = &self.f.insts[inst];
        let value = data.args[0];
        let func = self.cx.plan.instances[self.instance].func.expect("an instance has a function");
        if let Some(apart) = self.cx.steps_apart.get(&func)
            && apart.as_ref().is_none_or(|apart| apart.contains(inst))
        {
            // A step of lanes that not all threads come by: memory is seen, nobody waits. WGSL and MSL have no barrier for
            // that, and what is atomic is seen there, too.
            if !matches!(self.cx.target, Target::Wgsl | Target::Msl) {
                self.code.push(Statement::MemoryBarrier(Barrier::WORK_GROUP));
            }
            return Ok(());
        }
        let index = self.builtin(Builtin::GroupIndex)?;
        let n = self.group_threads()?;
        let first = self.code.u32(!(WAVE_LANES - 1));
        let first = self.code.binary(Bin::And, index, first);
        let [values, mask] = data.results[..] else { return Ok(()) };
        if self.uses[values] == 0 {
            // Only who is here: nothing need be exchanged, but memory is seen by all.
            self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
        } else {
            let ty = self.naga_type(value, data.span)?;
            let shared = self.cx.wave_values(ty);
            let own = self.code.expr(Expression::GlobalVariable(shared));
            let own = self.code.element(own, index);
            self.store_value(own, value)?;
            self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
            let place = self.variable(values, self.ty(values))?;
            let last = self.code.u32(self.cx.threads() - 1);
            self.each(WAVE_LANES, |e, i| {
                let from = e.code.binary(Bin::Add, first, i);
                let there = e.code.binary(Bin::Less, from, n);
                let at = e.code.math(naga::MathFunction::Min, &[from, last]);
                let all = e.code.expr(Expression::GlobalVariable(shared));
                let theirs = e.code.element(all, at);
                let to = e.code.element(place, i);
                let before = e.code.enter();
                e.copy_place(to, theirs, ty)?;
                let accept = e.code.close(before);
                let before = e.code.enter();
                e.store_zero(to, ty)?;
                let reject = e.code.close(before);
                e.code.if_else(there, accept, reject);
                Ok(())
            })?;
            // Nobody writes the next value before all have read this one.
            self.code.push(Statement::ControlBarrier(Barrier::WORK_GROUP));
            self.values[values] = Held::Place(place);
        }
        let all = self.code.u32(u32::MAX);
        let lanes = self.code.u32(WAVE_LANES);
        let left = self.code.binary(Bin::Subtract, n, first);
        let full = self.code.binary(Bin::GreaterEqual, left, lanes);
        let one = self.code.u32(1);
        let last = self.code.u32(WAVE_LANES - 1);
        let few = self.code.math(naga::MathFunction::Min, &[left, last]);
        let some = self.code.binary(Bin::ShiftLeft, one, few);
        let some = self.code.binary(Bin::Subtract, some, one);
        let here = self.code.select(full, all, some);
        self.set(mask, here)
    }

    /// Threads of the group.
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
