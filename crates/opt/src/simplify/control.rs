//! Rewrite rules for the four control operations.
//!
//! An arm whose condition is known is spliced into the region around it: its instructions then run exactly
//! when they would have run before. Results on which all arms agree do not need the arms. A value that a loop
//! carries round without changing it is its initial value before, in and after the loop. A counter is below the number
//! of trips.

use ir::{Inst, Op, Region, Scalar, Value};
use smallvec::SmallVec;

use super::{Simplify, Step};
use ir::transform::keep_results;

impl Simplify<'_> {
    pub(super) fn control(&mut self, inst: Inst) -> Step {
        match self.func.insts[inst].op {
            Op::If => self.r#if(inst),
            Op::Switch(_) => self.switch(inst),
            Op::For(_) => self.r#for(inst),
            _ => self.r#loop(inst),
        }
    }

    /// Appends a region's instructions to the current region; its results replace those of the instruction.
    fn splice(&mut self, inst: Inst, region: Region) -> Step {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        for nested in insts {
            self.inst(nested);
        }
        self.subst.apply_results(self.func, region);
        let results = self.func.insts[inst].results.clone();
        for (n, r) in results.into_iter().enumerate() {
            let by = self.func.regions[region].results[n];
            self.subst.set(r, by);
        }
        Step::Gone
    }

    /// Walks the regions of an instruction that is kept.
    fn walk_regions(&mut self, inst: Inst) {
        let saved = self.again.take();
        let regions: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
        let is_loop = matches!(self.func.insts[inst].op, Op::Loop(_));
        for region in regions {
            if let Op::For(_) = self.func.insts[inst].op {
                self.trips[self.func.regions[region].params[0]] = Some(self.func.insts[inst].args[0]);
            }
            if is_loop {
                self.again = self.negate_arms(region, 0);
            }
            self.region(region);
        }
        self.again = saved;
        self.span = self.func.insts[inst].span;
    }

    fn r#if(&mut self, inst: Inst) -> Step {
        let mut c = self.func.insts[inst].args[0];
        if let Some(yes) = self.boolean(c) {
            let region = self.func.insts[inst].regions[usize::from(!yes)];
            return self.splice(inst, region);
        }
        if let Some(x) = self.under(c, &Op::Not) {
            c = x;
            self.func.insts[inst].args[0] = x;
            self.func.insts[inst].regions.swap(0, 1);
            self.changed = true;
            if let Some(yes) = self.boolean(c) {
                let region = self.func.insts[inst].regions[usize::from(!yes)];
                return self.splice(inst, region);
            }
        }
        let saved = self.again;
        let slot = self.func.insts[inst].results.iter().position(|&r| Some(r) == saved);
        for (n, yes) in [(0, true), (1, false)] {
            let region = self.func.insts[inst].regions[n];
            let mut learnt: SmallVec<[Value; 4]> = SmallVec::new();
            self.assume(c, yes, &mut learnt, 4);
            self.again = slot.map(|slot| self.func.regions[region].results[slot]);
            self.region(region);
            for v in learnt {
                self.known[v] = None;
            }
        }
        self.again = saved;
        self.span = self.func.insts[inst].span;
        self.agree(inst);
        self.arms_to_values(inst, c)
    }

    /// Records everything that follows from `c` being `yes`.
    fn assume(&mut self, c: Value, yes: bool, learnt: &mut SmallVec<[Value; 4]>, depth: u32) {
        if self.known[c].is_some() || depth == 0 {
            return;
        }
        self.known[c] = Some(yes);
        learnt.push(c);
        match self.op(c) {
            Some(Op::Not) => {
                let x = self.under(c, &Op::Not).expect("just found");
                self.assume(x, !yes, learnt, depth);
            }
            Some(op) if *op == Op::And && yes || *op == Op::Or && !yes => {
                if let Some(xy) = self.operands(c, |op| matches!(op, Op::And | Op::Or)) {
                    for x in xy {
                        self.assume(x, yes, learnt, depth - 1);
                    }
                }
            }
            _ => {}
        }
    }

    /// Replaces results that are the same outer value, or the same constant, whichever arm runs.
    fn agree(&mut self, inst: Inst) {
        let regions: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
        let results = self.func.insts[inst].results.clone();
        let mut keep: SmallVec<[bool; 16]> = SmallVec::from_elem(true, results.len());
        for (n, &r) in results.iter().enumerate() {
            let first = self.func.regions[regions[0]].results[n];
            if !regions[1..].iter().all(|&arm| self.same(first, self.func.regions[arm].results[n])) {
                continue;
            }
            let by = if regions[1..].iter().all(|&arm| self.func.regions[arm].results[n] == first) {
                // The same value in two arms can only come from outside of them.
                if regions.len() == 1 {
                    continue;
                }
                first
            } else {
                let op = self.op(first).cloned().expect("equal constants have an op");
                self.emit_marked(op, &[], self.ty(first), self.func.is_linear(first))
            };
            self.subst.set(r, by);
            keep[n] = false;
        }
        self.drop_results(inst, &keep);
    }

    fn drop_results(&mut self, inst: Inst, keep: &[bool]) {
        if keep.iter().all(|&k| k) {
            return;
        }
        self.changed = true;
        keep_results(self.func, inst, keep);
    }

    /// Turns `if(c) { yield a } else { yield b }` of outer values into `select`. If `a` and `b` are true and
    /// false, the result is `c` even if the arms contain other instructions.
    fn arms_to_values(&mut self, inst: Inst, c: Value) -> Step {
        let (yes, no) = (self.func.insts[inst].regions[0], self.func.insts[inst].regions[1]);
        let empty = self.func.regions[yes]
            .insts
            .iter()
            .chain(&self.func.regions[no].insts)
            .all(|&i| matches!(self.func.insts[i].op, Op::Const(_) | Op::Zero | Op::Absent));
        let results = self.func.insts[inst].results.clone();
        // Arrays and stacks keep their arms: choosing there costs no copy.
        if empty && results.iter().all(|&r| self.types.is_numeric(self.ty(r))) {
            for region in [yes, no] {
                let insts = std::mem::take(&mut self.func.regions[region].insts);
                self.out.extend(insts);
            }
            for (n, &r) in results.iter().enumerate() {
                let (a, b) = (self.func.regions[yes].results[n], self.func.regions[no].results[n]);
                let (ty, linear) = (self.ty(r), self.func.is_linear(r));
                let (select, v) = crate::util::make(self.func, Op::Select, &[c, a, b], ty, linear, self.span);
                self.func.values[v].name = self.func.values[r].name.clone();
                self.defs.add(self.func, select);
                self.inst(select);
                let by = self.subst.get(v);
                self.subst.set(r, by);
            }
            return Step::Gone;
        }
        let mut keep: SmallVec<[bool; 16]> = SmallVec::from_elem(true, results.len());
        for (n, &r) in results.iter().enumerate() {
            if self.ty(r) != Scalar::Bool.into() || Some(r) == self.again {
                continue;
            }
            let (a, b) = (self.func.regions[yes].results[n], self.func.regions[no].results[n]);
            let by = match (self.boolean(a), self.boolean(b)) {
                (Some(true), Some(false)) => c,
                (Some(false), Some(true)) => self.emit(Op::Not, &[c], self.ty(c)),
                _ => continue,
            };
            self.subst.set(r, by);
            keep[n] = false;
        }
        self.drop_results(inst, &keep);
        Step::Keep
    }

    fn switch(&mut self, inst: Inst) -> Step {
        let data = &self.func.insts[inst];
        let Op::Switch(cases) = &data.op else { return Step::Keep };
        let arm = if cases.is_empty() {
            Some(0)
        } else {
            self.scalar(data.args[0]).map(|(s, bits)| {
                let tag = ir::scalar::to_i64(s, bits);
                cases.iter().position(|&case| case == tag).unwrap_or(cases.len())
            })
        };
        if let Some(arm) = arm {
            let region = data.regions[arm];
            return self.splice(inst, region);
        }
        self.walk_regions(inst);
        self.agree(inst);
        Step::Keep
    }

    fn r#for(&mut self, inst: Inst) -> Step {
        let n = self.func.insts[inst].args[0];
        let n_carried = self.func.insts[inst].n_carried();
        if let Some((_, 0)) = self.scalar(n) {
            return self.no_trips(inst, n_carried);
        }
        self.invariants(inst);
        self.walk_regions(inst);
        Step::Keep
    }

    /// Replaces a loop that makes no trips by its initial values and empty stacks.
    fn no_trips(&mut self, inst: Inst, n_carried: usize) -> Step {
        let data = &self.func.insts[inst];
        let (args, results) = (data.args.clone(), data.results.clone());
        for (k, r) in results.into_iter().enumerate() {
            let by = if k < n_carried {
                args[1 + k]
            } else {
                self.emit_marked(Op::Zero, &[], self.ty(r), self.func.is_linear(r))
            };
            self.subst.set(r, by);
        }
        Step::Gone
    }

    fn r#loop(&mut self, inst: Inst) -> Step {
        let body = self.func.insts[inst].regions[0];
        let n_carried = self.func.insts[inst].n_carried();
        let again = self.subst.get(self.func.regions[body].results[0]);
        if self.boolean(again) == Some(false) && self.func.insts[inst].results.len() == n_carried {
            // The loop runs once.
            let args = self.func.insts[inst].args.clone();
            let params = self.func.regions[body].params.clone();
            for (p, arg) in params.into_iter().zip(args) {
                self.subst.set(p, arg);
            }
            self.func.regions[body].results.remove(0);
            return self.splice(inst, body);
        }
        self.invariants(inst);
        self.walk_regions(inst);
        Step::Keep
    }

    /// Replaces carried values that the body yields unchanged.
    fn invariants(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let body = data.regions[0];
        let (args, params, yields) = data.op.carried_at();
        let n_carried = self.func.insts[inst].n_carried();
        let mut keep: SmallVec<[bool; 16]> = SmallVec::from_elem(true, n_carried);
        for k in 0..n_carried {
            let init = self.func.insts[inst].args[args + k];
            let p = self.func.regions[body].params[params + k];
            let y = self.subst.get(self.func.regions[body].results[yields + k]);
            if y == p || self.same(y, init) {
                keep[k] = false;
                self.subst.set(p, init);
                self.subst.set(self.func.insts[inst].results[k], init);
            }
        }
        self.drop_results(inst, &keep);
    }
}
