//! Rewrite rules for vectors and arrays, as values and in cells.

use ir::{Inst, Op, Scalar, TypeData, Value};
use smallvec::SmallVec;

use super::{Simplify, Step};

impl Simplify<'_> {
    pub(super) fn aggregate(&mut self, inst: Inst) -> Step {
        let data = &self.func.insts[inst];
        let args = data.args.clone();
        match data.op {
            Op::Extract(n) => self.extract(inst, args[0], n),
            Op::Index => self.index(inst, args[0], args[1]),
            Op::Insert(n) => self.insert(inst, args[0], args[1], n),
            Op::Construct => self.construct(inst, &args),
            Op::Splat => match self.default_op(args[0]) {
                Some(op) => self.rewrite(inst, op, &[]),
                None => Step::Keep,
            },
            Op::Sum => self.sum(inst, args[0]),
            _ => Step::Keep,
        }
    }

    /// Removes a `select` on the value of a write if its condition only repeats the write's own index checks.
    /// A linear write is left alone, since its transpose reads there.
    pub(super) fn write(&mut self, inst: Inst) -> Step {
        let args = self.func.insts[inst].args.clone();
        let last = args.len() - 1;
        match self.operands(args[last], |op| *op == Op::Select) {
            Some(select)
                if !self.func.is_linear(args[last])
                    && self.is_check_of(select[0], args[0], &args[1..last]) =>
            {
                self.func.insts[inst].args[last] = select[1];
                Step::Again
            }
            _ => Step::Keep,
        }
    }

    /// Returns true if `a` in `c ? a : 0` is a read that gives zero by itself where `c`, a check of its
    /// indices, does not hold.
    pub(super) fn is_checked_read(&self, c: Value, a: Value) -> bool {
        self.operands(a, |op| matches!(op, Op::Load | Op::Index))
            .is_some_and(|read| self.is_check_of(c, read[0], &read[1..]))
    }

    /// Returns true if `c` only states that some of these indices of an array or a cell are in range.
    fn is_check_of(&self, c: Value, of: Value, indices: &[Value]) -> bool {
        if let Some(both) = self.operands(c, |op| *op == Op::And) {
            return both.iter().all(|&c| self.is_check_of(c, of, indices));
        }
        let Some(below) = self.operands(c, |op| *op == Op::Lt) else { return false };
        let Some((Scalar::U32 | Scalar::U64, len)) = self.scalar(below[1]) else { return false };
        let word = self.under(below[0], &Op::Bitcast).unwrap_or(below[0]);
        let same = [Some(below[0]), Some(word), self.under(word, &Op::Convert)];
        let mut ty = self.types.content(self.ty(of)).unwrap_or(self.ty(of));
        for &i in indices {
            let is_len = self.types.length(ty).is_some_and(|n| u64::from(n) == len);
            if is_len && same.contains(&Some(self.subst.get(i))) {
                return true;
            }
            let Some(element) = self.types.element(ty) else { return false };
            ty = element;
        }
        false
    }

    fn extract(&mut self, inst: Inst, a: Value, n: u32) -> Step {
        let Some(def) = self.defs.inst(a) else { return Step::Keep };
        let data = &self.func.insts[def];
        let part = |k: usize| self.subst.get(data.args[k]);
        match data.op {
            Op::Construct => {
                let x = part(n as usize);
                self.replace(inst, x)
            }
            Op::Splat => {
                let x = part(0);
                self.replace(inst, x)
            }
            Op::Insert(_) => self.extract_insert(inst, a, n),
            Op::Zero | Op::Absent => {
                let op = data.op.clone();
                self.rewrite(inst, op, &[])
            }
            _ => Step::Keep,
        }
    }

    /// Follows a chain of inserts, up to a limited length.
    fn extract_insert(&mut self, inst: Inst, mut a: Value, n: u32) -> Step {
        for _ in 0..64 {
            let Some(def) = self.defs.inst(a) else { break };
            let data = &self.func.insts[def];
            match data.op {
                Op::Insert(k) if k == n => {
                    let x = self.subst.get(data.args[1]);
                    return self.replace(inst, x);
                }
                Op::Insert(_) => a = self.subst.get(data.args[0]),
                _ => break,
            }
        }
        if matches!(self.op(a), Some(Op::Insert(_))) {
            return Step::Keep;
        }
        self.rewrite(inst, Op::Extract(n), &[a])
    }

    fn index(&mut self, inst: Inst, a: Value, i: Value) -> Step {
        if let Some(op) = self.default_op(a) {
            // The number that represents an absent differential has a sign.
            let of_stack =
                matches!(self.types[self.ty(a)], TypeData::Stack(e) if self.types.is_differentiable(e));
            let r = self.func.result(inst);
            return match self.types[self.ty(r)] {
                _ if !of_stack => self.rewrite(inst, op, &[]),
                _ if self.func.is_linear(r) => self.rewrite(inst, Op::Absent, &[]),
                TypeData::Scalar(s) => self.rewrite(inst, Op::Const(ir::scalar::absent(s)), &[]),
                _ => Step::Keep,
            };
        }
        let Some(len) = self.types.length(self.ty(a)) else { return Step::Keep };
        match self.defs.index(self.types, self.func, i, len) {
            Some(Some(n)) => self.rewrite(inst, Op::Extract(n), &[a]),
            Some(None) => self.be_zero(inst),
            None => Step::Keep,
        }
    }

    fn insert(&mut self, inst: Inst, a: Value, x: Value, n: u32) -> Step {
        // The result is `a` if the element inserted is its own.
        if let Some(of) = self.operands(x, |op| *op == Op::Extract(n))
            && of[0] == a
        {
            return self.replace(inst, a);
        }
        let Some(def) = self.defs.inst(a) else { return Step::Keep };
        let len = self.types.length(self.ty(a)).unwrap_or(0);
        let data = &self.func.insts[def];
        match data.op {
            Op::Insert(k) if k == n => {
                let base = self.subst.get(data.args[0]);
                self.rewrite(inst, Op::Insert(n), &[base, x])
            }
            Op::Construct if len <= 16 => {
                let mut parts: SmallVec<[Value; 4]> = data.args.iter().map(|&p| self.subst.get(p)).collect();
                parts[n as usize] = x;
                self.rewrite(inst, Op::Construct, &parts)
            }
            Op::Zero | Op::Absent | Op::Splat | Op::Insert(_) if len <= 64 => self.complete(inst, len),
            _ => Step::Keep,
        }
    }

    /// Turns a chain of inserts that sets every element into a construct.
    fn complete(&mut self, inst: Inst, len: u32) -> Step {
        let mut parts: SmallVec<[Option<Value>; 16]> = SmallVec::from_elem(None, len as usize);
        let mut missing = len;
        let mut at = inst;
        for _ in 0..len {
            let data = &self.func.insts[at];
            let Op::Insert(n) = data.op else { return Step::Keep };
            if parts[n as usize].is_none() {
                parts[n as usize] = Some(self.subst.get(data.args[1]));
                missing -= 1;
            }
            if missing == 0 {
                let parts: SmallVec<[Value; 16]> = parts.into_iter().flatten().collect();
                return self.rewrite(inst, Op::Construct, &parts);
            }
            let Some(def) = self.defs.inst(self.subst.get(data.args[0])) else { return Step::Keep };
            at = def;
        }
        Step::Keep
    }

    fn construct(&mut self, inst: Inst, args: &[Value]) -> Step {
        let Some(&first) = args.first() else { return Step::Keep };
        // All elements of the same aggregate, in order, are the aggregate itself.
        if let Some(of) = self.operands(first, |op| *op == Op::Extract(0)) {
            let whole = of[0];
            let r = self.func.result(inst);
            let all = args.iter().enumerate().all(|(n, &x)| {
                self.operands(x, |op| *op == Op::Extract(n as u32)).is_some_and(|o| o[0] == whole)
            });
            if all && self.ty(whole) == self.ty(r) {
                return self.replace(inst, whole);
            }
        }
        if args.iter().all(|&x| self.same(first, x)) {
            if let Some(op) = self.default_op(first) {
                return self.rewrite(inst, op, &[]);
            }
            if args.len() > 1 {
                return self.rewrite(inst, Op::Splat, &[first]);
            }
        }
        Step::Keep
    }

    /// The op that gives an aggregate with `v` in every element, if `v` is zero or absent.
    fn default_op(&self, v: Value) -> Option<Op> {
        match self.op(v) {
            Some(op @ (Op::Zero | Op::Absent)) => Some(op.clone()),
            Some(Op::Const(0)) => Some(Op::Zero),
            _ => None,
        }
    }

    fn sum(&mut self, inst: Inst, a: Value) -> Step {
        let r = self.func.result(inst);
        if let Some(op) = self.default_op(a) {
            return self.rewrite(inst, op, &[]);
        }
        if let Some((s, lanes)) = self.lanes(a)
            && !self.func.is_linear(r)
        {
            let mut total = lanes[0];
            for &lane in &lanes[1..] {
                let Some(next) = ir::scalar::binary(&Op::Add, s, total, lane) else { return Step::Keep };
                total = next;
            }
            return self.be_lanes(inst, s, &[total]);
        }
        if let TypeData::Vector(_, 1) = self.types[self.ty(a)] {
            return self.rewrite(inst, Op::Extract(0), &[a]);
        }
        // The sum of parts of which some are absent.
        let Some(parts) = self.operands(a, |op| *op == Op::Construct) else { return Step::Keep };
        let all = parts.len();
        let parts: SmallVec<[Value; 4]> = parts.into_iter().filter(|&p| !self.is_absent(p)).collect();
        if parts.len() == all {
            return Step::Keep;
        }
        match parts[..] {
            [] => self.rewrite(inst, Op::Absent, &[]),
            [x] => self.replace(inst, x),
            [x, y] => self.rewrite(inst, Op::Add, &[x, y]),
            _ => Step::Keep,
        }
    }
}
