//! Statements with regions: arms, loops, and calls of the function itself.

use ir::{Checkpoint, LoopInfo, Op, Region, Slot, Type, TypeData, Value};

use super::{Generator, types_of};

impl Generator<'_> {
    /// Generates a region with parameters of these types. What becomes visible in it is not visible after it.
    pub(super) fn nested(
        &mut self,
        params: &[Type],
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Region {
        let visible = self.scope.len();
        let region = self.b.open();
        let params: Vec<Value> = params.iter().map(|&ty| self.b.region_param(ty)).collect();
        let is_shown = |v: &&Value| !matches!(self.b.types[self.b.func.ty(**v)], TypeData::Residuals(_));
        self.scope.extend(params.iter().filter(is_shown));
        self.depth += 1;
        let results = body(self, &params);
        self.depth -= 1;
        self.b.close(results);
        self.scope.truncate(visible);
        region
    }

    fn arms(&mut self, n: usize, shape: &[Type]) -> Vec<Region> {
        let arm = |this: &mut Self| {
            this.nested(&[], |this, _| {
                if !this.rng.one_in(4) {
                    this.statements();
                }
                this.all(shape)
            })
        };
        (0..n).map(|_| arm(self)).collect()
    }

    pub(super) fn branch(&mut self) {
        let (c, shape) = (self.condition(), self.shape(3));
        let arms = self.arms(2, &shape);
        let results = self.b.nest(Op::If, &[c], &arms);
        self.scope.extend(results);
    }

    pub(super) fn switch(&mut self) {
        let (tag, shape) = (self.index(), self.shape(2));
        let cases = self.choose(&[vec![], vec![1], vec![0, 2], vec![2, 1, 0]]);
        let arms = self.arms(cases.len() + 1, &shape);
        let results = self.b.nest(Op::Switch(cases.into()), &[tag], &arms);
        self.scope.extend(results);
    }

    /// The values that a loop's body yields: those that it carries, then those that it stacks.
    fn body(&mut self, carried: &[Type], stacked: &[Type]) -> Vec<Value> {
        self.statements();
        for _ in 0..self.rng.below(3) {
            // The next trip sees these.
            self.access();
        }
        let mut results = self.all(carried);
        results.iter_mut().for_each(|v| *v = self.tame(*v));
        results.extend(self.all(stacked));
        results
    }

    fn loop_info(&mut self) -> LoopInfo {
        let checkpoint = (self.is_smooth() && self.rng.one_in(8)).then(|| {
            let n = self.rng.below(3) as u32 + 1;
            match self.rng.below(4) {
                0 => Checkpoint::Root,
                1 => Checkpoint::Every(n),
                _ => Checkpoint::States(n),
            }
        });
        LoopInfo { checkpoint, unroll: self.rng.one_in(4), ..LoopInfo::default() }
    }

    pub(super) fn counted(&mut self) {
        let n = if self.rng.one_in(2) {
            let n = self.rng.below(6) as u32;
            self.b.u32(n)
        } else {
            self.small_index()
        };
        let (carried, stacked) = (self.shape(3), self.shape(2));
        let args = [vec![n], self.all(&carried)].concat();
        let params = [vec![self.ty(n)], carried.clone()].concat();
        let body = self.nested(&params, |this, _| this.body(&carried, &stacked));
        let info = LoopInfo { down: self.rng.one_in(4), ..self.loop_info() };
        let results = self.b.nest(Op::For(info), &args, &[body]);
        self.see_results(results);
    }

    pub(super) fn repeated(&mut self) {
        let limit = self.any(Type::I32);
        let (limit, zero) = (self.up_to_three(limit), self.b.i32(0));
        let (carried, stacked) = (self.shape(2), self.shape(1));
        let args = [vec![zero], self.all(&carried)].concat();
        let params = [vec![Type::I32], carried.clone()].concat();
        let body = self.nested(&params, |this, params| {
            let values = this.body(&carried, &stacked);
            let one = this.b.i32(1);
            let next = this.b.emit(Op::Add, &[params[0], one]);
            let mut again = this.b.emit(Op::Lt, &[next, limit]);
            let (c, way) = (this.condition(), this.rng.below(3));
            if way == 0 {
                again = this.b.emit(Op::And, &[again, c]);
            } else if way == 1 {
                let goes_on = this.nested(&[], |_, _| vec![again]);
                let stops = this.nested(&[], |this, _| vec![this.b.bool(false)]);
                again = this.b.nest(Op::If, &[c], &[goes_on, stops])[0];
            }
            [vec![again, next], values].concat()
        });
        let max_iters = (self.is_smooth() || self.rng.one_in(2)).then_some(16);
        let info = LoopInfo { max_iters, ..self.loop_info() };
        let results = self.b.nest(Op::Loop(info), &args, &[body]);
        self.see_results(results);
    }

    /// Makes a loop's results visible; reads elements of stacks, and adds them to cells.
    fn see_results(&mut self, results: Vec<Value>) {
        for v in results {
            self.scope.push(v);
            if !matches!(self.b.types[self.ty(v)], TypeData::Stack(_)) {
                continue;
            }
            let i = self.small_index();
            let x = self.b.emit(Op::Index, &[v, i]);
            self.see(x);
            if self.rng.one_in(2) && self.ty(x) != Type::BOOL {
                let cell = self.b.emit(Op::Local, &[v]);
                let (place, y) = (self.small_index(), self.any(self.ty(x)));
                self.b.effect(Op::AddTo, &[cell, place, y]);
                let x = self.b.emit(Op::Load, &[cell, i]);
                self.see(x);
            }
        }
    }

    /// Generates a recursive call with a smaller count, unless the count is zero.
    pub(super) fn recurse(&mut self, count: Value, results: &[Slot]) {
        let [zero, one, three] = [0, 1, 3].map(|n| self.b.i32(n));
        let left = self.b.emit(Op::And, &[count, three]);
        let more = self.b.emit(Op::Gt, &[left, zero]);
        let itself = self.nested(&[], |this, _| {
            let next = this.b.emit(Op::Sub, &[left, one]);
            let params: Vec<Type> = this.b.func.params.iter().map(|p| p.ty).collect();
            let mut args: Vec<Value> = params.iter().map(|&ty| this.any(ty)).collect();
            *args.last_mut().expect("the count") = next;
            this.b.call(Op::Call(this.itself), &args, &types_of(results))
        });
        let end = self.nested(&[], |this, _| results.iter().map(|slot| this.any(slot.ty)).collect());
        let values = self.b.nest(Op::If, &[more], &[itself, end]);
        self.see_tamed(values);
    }
}
