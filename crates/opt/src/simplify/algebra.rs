//! Rewrites arithmetic, comparisons, logic and conversions: folds constants, applies the table of rules, and
//! does what no table can say, since it depends on the lanes of vectors, on types, or on other instructions.

use ir::analysis::Lanes;
use ir::{Inst, Op, Scalar, Type, Value};
use smallvec::SmallVec;

use super::{Simplify, Step};

/// The depth to which factors of nested products are searched.
const FACTORS: u32 = 6;

impl Simplify<'_> {
    pub(super) fn algebra(&mut self, inst: Inst) -> Step {
        if let Some(step) = self.fold(inst) {
            return step;
        }
        let data = &self.func.insts[inst];
        let (op, args) = (data.op.clone(), data.args.clone());
        if op.commutes() && self.lanes(args[0]).is_some() && self.lanes(args[1]).is_none() {
            return self.rewrite(inst, op, &[args[1], args[0]]);
        }
        if let Some(step) = self.apply_rules(inst) {
            return step;
        }
        let is_vector = self.types.lanes(self.ty(args[0])).is_some();
        let step = match op {
            Op::Add if is_vector => self.sparse_add(inst, args[0], args[1]),
            Op::Scale if is_vector => self.sparse_product(inst, args[0], args[1]),
            Op::Mul if is_vector && self.fast => self.sparse_product(inst, args[0], args[1]),
            Op::Div => self.splat_quotient(inst, args[0], args[1]),
            Op::Select => self.select(inst, args[0], args[1], args[2]),
            Op::Lt | Op::Le | Op::Gt | Op::Ge => self.compare_counter(inst, &op, args[0], args[1]),
            Op::Convert => self.convert(inst, args[0]),
            Op::Bitcast => self.bitcast(inst, args[0]),
            _ => None,
        };
        step.unwrap_or(Step::Keep)
    }

    /// Compares the counter of a loop, which is at least zero and below the number of trips.
    fn compare_counter(&mut self, inst: Inst, op: &Op, a: Value, b: Value) -> Option<Step> {
        // `x < y` or `x <= y`.
        let (x, y, or_equal) = match op {
            Op::Lt | Op::Le => (a, b, *op == Op::Le),
            _ => (b, a, *op == Op::Ge),
        };
        let constant = |v: Value| match self.scalar(v)? {
            (s, bits) if s.is_signed_int() => Some(i128::from(ir::scalar::to_i64(s, bits))),
            (_, bits) => Some(i128::from(bits)),
        };
        let holds = |x: i128, y: i128| x < y || or_equal && x == y;
        let last = |trips: Value| constant(trips).map(|n| n - 1);
        let truth = match (self.trips[x], self.trips[y]) {
            (Some(trips), None) if trips == y => Some(true),
            (Some(trips), None) => {
                let c = constant(y)?;
                let always = last(trips).is_some_and(|last| holds(last, c));
                if always { Some(true) } else { (!holds(0, c)).then_some(false) }
            }
            (None, Some(trips)) if trips == x => Some(false),
            (None, Some(trips)) => {
                let c = constant(x)?;
                let never = last(trips).is_some_and(|last| !holds(c, last));
                if never { Some(false) } else { holds(c, 0).then_some(true) }
            }
            _ => None,
        };
        truth.map(|truth| self.be_lanes(inst, Scalar::Bool, &[u64::from(truth)]))
    }

    /// Divides numbers before they are spread over the lanes of vectors.
    fn splat_quotient(&mut self, inst: Inst, a: Value, b: Value) -> Option<Step> {
        let (x, y) = (self.under(a, &Op::Splat)?, self.under(b, &Op::Splat)?);
        let r = self.func.result(inst);
        let is_float = self.types.scalar_of(self.ty(x)).is_some_and(Scalar::is_float);
        let q = is_float.then(|| self.emit_marked(Op::Div, &[x, y], self.ty(x), self.func.is_linear(r)))?;
        Some(self.rewrite(inst, Op::Splat, &[q]))
    }

    /// Adds vectors that have absent lanes lane by lane. Such sums arise from the cotangents of a vector
    /// whose lanes are used separately.
    fn sparse_add(&mut self, inst: Inst, a: Value, b: Value) -> Option<Step> {
        let (a, b) = (self.parts(a)?, self.parts(b)?);
        let absent = |x: &Option<Value>| x.is_none();
        if !a.iter().zip(&b).any(|(x, y)| absent(x) || absent(y)) {
            return None;
        }
        let r = self.func.result(inst);
        let (ty, linear) = (self.types.element(self.ty(r))?, self.func.is_linear(r));
        let lanes: SmallVec<[Value; 4]> = a
            .iter()
            .zip(&b)
            .map(|pair| match pair {
                (Some(x), Some(y)) => self.emit_marked(Op::Add, &[*x, *y], ty, linear),
                (Some(x), None) | (None, Some(x)) => *x,
                (None, None) => self.emit_marked(self.nothing(), &[], ty, linear),
            })
            .collect();
        Some(self.rewrite(inst, Op::Construct, &lanes))
    }

    /// The op that defines an absent lane.
    fn nothing(&self) -> Op {
        if self.fast { Op::Zero } else { Op::Absent }
    }

    /// Multiplies a vector that has absent lanes by another vector, lane by lane and only where a lane is
    /// present.
    fn sparse_product(&mut self, inst: Inst, a: Value, b: Value) -> Option<Step> {
        let is_sparse = |parts: &SmallVec<[Option<Value>; 4]>| parts.iter().any(Option::is_none);
        let op = self.func.insts[inst].op.clone();
        let of_b = || self.parts(b).filter(|_| op == Op::Mul).filter(is_sparse);
        let (parts, other) = match (self.parts(a).filter(is_sparse), of_b()) {
            (Some(parts), _) => (parts, b),
            (None, Some(parts)) => (parts, a),
            (None, None) => return None,
        };
        let r = self.func.result(inst);
        let (ty, linear) = (self.types.element(self.ty(r))?, self.func.is_linear(r));
        let of_other = self.func.is_linear(other);
        let lanes: SmallVec<[Value; 4]> = parts
            .iter()
            .enumerate()
            .map(|(k, part)| match part {
                Some(x) => {
                    let y = self.emit_marked(Op::Extract(k as u32), &[other], ty, of_other);
                    self.emit_marked(op.clone(), &[*x, y], ty, linear)
                }
                None => self.emit_marked(self.nothing(), &[], ty, linear),
            })
            .collect();
        Some(self.rewrite(inst, Op::Construct, &lanes))
    }

    /// The lanes of a vector that is constructed from them; `None` for a lane that is absent.
    fn parts(&self, mut v: Value) -> Option<SmallVec<[Option<Value>; 4]>> {
        let n = self.types.lanes(self.ty(v)).filter(|&n| n <= 8)? as usize;
        let mut parts: SmallVec<[Option<Option<Value>>; 4]> = SmallVec::from_elem(None, n);
        // Where `x * 0` is 0, a zero serves as well as an absent differential.
        let is_absent = |x: Value| self.is_absent(x) || self.fast && self.is_any_zero(x);
        let lane = |x: Value| (!is_absent(x)).then_some(x);
        for _ in 0..16 {
            if is_absent(v) {
                return Some(parts.into_iter().map(Option::flatten).collect());
            }
            let data = &self.func.insts[self.defs.inst(v)?];
            let arg = |k: usize| self.subst.get(data.args[k]);
            match data.op {
                Op::Insert(k) => {
                    let k = k as usize;
                    parts[k] = parts[k].or(Some(lane(arg(1))));
                    v = arg(0);
                }
                Op::Construct => {
                    let whole = parts.iter().enumerate().map(|(k, p)| p.unwrap_or_else(|| lane(arg(k))));
                    return Some(whole.collect());
                }
                _ => return None,
            }
        }
        None
    }

    /// Folds an op whose operands are constants.
    fn fold(&mut self, inst: Inst) -> Option<Step> {
        let data = &self.func.insts[inst];
        let r = data.results[0];
        if self.func.is_linear(r) || data.op == Op::Detach {
            return None;
        }
        let mut to = self.types.scalar_of(self.ty(r))?;
        let mut lanes: SmallVec<[Lanes; 3]> = SmallVec::new();
        for &arg in &data.args {
            lanes.push(self.lanes(arg)?.1);
        }
        let from = self.types.scalar_of(self.ty(*data.args.first()?))?;
        if data.op == Op::Select && lanes[0].len() == 1 {
            return None;
        }
        let n = lanes.iter().map(|l| l.len()).max()?;
        if lanes.iter().any(|l| l.len() != n) {
            return None;
        }
        if matches!(data.op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge) {
            to = Scalar::Bool;
        }
        let op = data.op.clone();
        let mut result: Lanes = SmallVec::new();
        for k in 0..n {
            let operands: SmallVec<[u64; 4]> = lanes.iter().map(|l| l[k]).collect();
            result.push(ir::scalar::elementwise(&op, from, to, &operands)?);
        }
        Some(self.be_lanes(inst, to, &result))
    }

    /// Replaces `c ? x : 0` by `x`, where `x` is zero by itself if `c` does not hold.
    fn select(&mut self, inst: Inst, c: Value, a: Value, b: Value) -> Option<Step> {
        if self.is_any_zero(b) && self.is_checked_read(c, a) {
            return Some(self.replace(inst, a));
        }
        // A factor of `x` is zero unless `c` holds, as in derivatives of guarded expressions.
        for (kept, zero, when) in [(a, b, true), (b, a, false)] {
            if self.fast && self.is_any_zero(zero) && self.vanishes(kept, c, when, FACTORS) {
                return Some(self.replace(inst, kept));
            }
        }
        None
    }

    fn is_any_zero(&self, v: Value) -> bool {
        self.is_zero_op(v) || self.uniform(v).is_some_and(|(s, bits)| s.is_float() && bits == 0)
    }

    /// Returns true if a product of real numbers is zero unless `c` equals `when`.
    fn vanishes(&self, v: Value, c: Value, when: bool, depth: u32) -> bool {
        let Some(inst) = self.defs.inst(v).filter(|_| depth > 0) else { return false };
        let data = &self.func.insts[inst];
        let arg = |n: usize| self.subst.get(data.args[n]);
        match data.op {
            Op::Mul => (0..2).any(|n| self.vanishes(arg(n), c, when, depth - 1)),
            Op::Neg => self.vanishes(arg(0), c, when, depth - 1),
            Op::Select => arg(0) == c && self.is_any_zero(arg(if when { 2 } else { 1 })),
            _ => false,
        }
    }

    /// Converts a converted number at once, where that is the same.
    fn convert(&mut self, inst: Inst, a: Value) -> Option<Step> {
        let r = self.func.result(inst);
        let x = self.under(a, &Op::Convert).filter(|_| !self.func.is_linear(r))?;
        let scalar = |v: Value| self.types.scalar_of(self.ty(v));
        let is_same = collapses(scalar(x)?, scalar(a)?, scalar(r)?);
        is_same.then(|| self.rewrite(inst, Op::Convert, &[x]))
    }

    /// Bits have no derivative, so a value that is cast to bits and back is detached.
    fn bitcast(&mut self, inst: Inst, a: Value) -> Option<Step> {
        let r = self.func.result(inst);
        let x = if self.ty(a) == self.ty(r) { a } else { self.under(a, &Op::Bitcast)? };
        let lanes = |ty: Type| self.types.lanes(ty);
        Some(if self.ty(x) != self.ty(r) {
            let same = lanes(self.ty(x)) == lanes(self.ty(r));
            return same.then(|| self.rewrite(inst, Op::Bitcast, &[x]));
        } else if self.types.is_differentiable(self.ty(r)) {
            self.rewrite(inst, Op::Detach, &[x])
        } else {
            self.replace(inst, x)
        })
    }
}

/// Returns true if converting from `a` to `b` and then to `c` is the same as converting from `a` to `c`.
fn collapses(a: Scalar, b: Scalar, c: Scalar) -> bool {
    let exact = exact(a, b);
    if exact && (a.is_float() || !b.is_float()) {
        return true;
    }
    // An integer survives a round trip through a float that represents it exactly.
    if exact && b.is_float() && c == a {
        return true;
    }
    // Integers wrap: only the lowest bits matter.
    a.is_int() && b.is_int() && c.is_int() && c.bits() <= b.bits()
}

/// Returns true if every number of `a` is a number of `b`.
fn exact(a: Scalar, b: Scalar) -> bool {
    if a == Scalar::Bool || b == Scalar::Bool {
        return a == Scalar::Bool;
    }
    match (a.is_float(), b.is_float()) {
        (true, true) => a.bits() <= b.bits(),
        (true, false) => false,
        (false, true) => match b {
            Scalar::F64 => a.bits() <= 32,
            Scalar::F32 => a.bits() <= 16,
            _ => a.bits() <= 8,
        },
        (false, false) => {
            let room = b.bits() - u32::from(b.is_signed_int());
            let need = a.bits() - u32::from(a.is_signed_int());
            need <= room && (!a.is_signed_int() || b.is_signed_int())
        }
    }
}
