//! Rewrite rules for arithmetic, comparison, logic and conversion, one line each.
//!
//! With fast mathematics, the sign of a zero is ignored. All other rules give the same bits (except for the
//! payload of a NaN, which the semantics leave open).

use ir::{Inst, Math, Op, Scalar, Type, TypeData, Value};
use smallvec::SmallVec;

use super::{Simplify, Step};
use crate::cse::commutes;
use crate::util::Lanes;

/// The depth to which factors of nested products are searched.
const FACTORS: u32 = 6;

impl Simplify<'_> {
    pub(super) fn algebra(&mut self, inst: Inst) -> Step {
        if let Some(step) = self.differentials(inst) {
            return step;
        }
        if let Some(step) = self.fold(inst) {
            return step;
        }
        let data = &self.func.insts[inst];
        let op = data.op.clone();
        let args = data.args.clone();
        let loose = self.fast;
        let Some(s) = self.types.scalar_of(self.ty(args[0])) else {
            return match op {
                Op::Select => self.select(inst, &args),
                _ => Step::Keep,
            };
        };
        match op {
            Op::Select => self.select(inst, &args),
            Op::Convert => self.convert(inst, s, args[0]),
            Op::Bitcast => self.bitcast(inst, args[0]),
            Op::Detach => match self.op(args[0]) {
                Some(Op::Detach | Op::Const(_) | Op::Zero | Op::Absent) => self.replace(inst, args[0]),
                _ => Step::Keep,
            },
            Op::Neg => {
                if let Some(x) = self.under(args[0], &Op::Neg) {
                    self.replace(inst, x)
                } else if let (true, Some(ab)) =
                    (loose || s.is_int(), self.operands(args[0], |op| *op == Op::Sub))
                {
                    self.rewrite(inst, Op::Sub, &[ab[1], ab[0]])
                } else {
                    Step::Keep
                }
            }
            Op::Present => Step::Keep,
            Op::Not => self.not(inst, s, args[0]),
            Op::Math(m) => self.math(inst, m, &args),
            _ => {
                let (a, b) = (args[0], args[1]);
                if commutes(&op) && self.lanes(a).is_some() && self.lanes(b).is_none() {
                    return self.rewrite(inst, op, &[b, a]);
                }
                match op {
                    Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => self.compare(inst, &op, s, a, b),
                    _ if s.is_float() => self.float(inst, &op, s, a, b, loose),
                    _ => self.int(inst, &op, s, a, b),
                }
            }
        }
    }

    /// Rules for differentials, above all for absent ones.
    fn differentials(&mut self, inst: Inst) -> Option<Step> {
        let data = &self.func.insts[inst];
        let (a, b) = (data.args[0], data.args.get(1).copied().unwrap_or(data.args[0]));
        let to_float = self.types.is_differentiable(self.ty(data.results[0]));
        let is_vector = self.types.lanes(self.ty(a)).is_some();
        match data.op {
            Op::Add if self.is_absent(b) => Some(self.replace(inst, a)),
            Op::Add if self.is_absent(a) => Some(self.replace(inst, b)),
            Op::Add if is_vector => self.sparse_add(inst, a, b),
            Op::Scale | Op::Unscale if self.is_absent(a) => Some(self.rewrite(inst, Op::Absent, &[])),
            Op::Scale | Op::Unscale if self.is_one(b) => Some(self.replace(inst, a)),
            Op::Unscale if self.is_minus_one(b) => Some(self.rewrite(inst, Op::Scale, &[a, b])),
            Op::Scale if self.is_minus_one(b) => {
                let inner = self.operands(a, |op| *op == Op::Scale)?;
                self.is_minus_one(inner[1]).then(|| self.replace(inst, inner[0]))
            }
            Op::Scale if is_vector => self.sparse_product(inst, a, b),
            Op::Mul if is_vector && self.fast => self.sparse_product(inst, a, b),
            Op::Mask if self.is_absent(a) || self.is_absent(b) => Some(self.rewrite(inst, Op::Absent, &[])),
            Op::Mask if self.op(a) == Some(&Op::Present) => Some(self.replace(inst, b)),
            Op::Present if self.is_absent(a) => Some(self.be_zero(inst)),
            Op::Present if self.op(a) == Some(&Op::Present) => Some(self.replace(inst, a)),
            Op::Convert if to_float && self.is_absent(a) => Some(self.rewrite(inst, Op::Absent, &[])),
            _ => None,
        }
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
                (Some(x), Some(y)) => self.emit(Op::Add, &[*x, *y], ty, linear),
                (Some(x), None) | (None, Some(x)) => *x,
                (None, None) => self.emit(self.nothing(), &[], ty, linear),
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
                    let y = self.emit(Op::Extract(k as u32), &[other], ty, of_other);
                    self.emit(op.clone(), &[*x, y], ty, linear)
                }
                None => self.emit(self.nothing(), &[], ty, linear),
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
        let mut from = to;
        for (n, &arg) in data.args.iter().enumerate() {
            let (s, bits) = self.lanes(arg)?;
            if n == 0 || data.op == Op::Select {
                from = s;
            }
            lanes.push(bits);
        }
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

    fn is_one(&self, v: Value) -> bool {
        self.uniform(v).is_some_and(|(s, b)| b == ir::scalar::one(s))
    }

    fn is_minus_one(&self, v: Value) -> bool {
        self.uniform(v).is_some_and(|(s, b)| ir::scalar::unary(&Op::Neg, s, ir::scalar::one(s)) == Some(b))
    }

    fn float(&mut self, inst: Inst, op: &Op, s: Scalar, a: Value, b: Value, loose: bool) -> Step {
        let plus_zero = |this: &Self, v| this.uniform(v).is_some_and(|c| c.1 == 0);
        let minus_zero =
            |this: &Self, v| this.uniform(v).is_some_and(|c| Some(c.1) == ir::scalar::unary(&Op::Neg, s, 0));
        let any_zero = |this: &Self, v| plus_zero(this, v) || minus_zero(this, v);
        match op {
            Op::Add if minus_zero(self, b) || loose && plus_zero(self, b) => self.replace(inst, a),
            Op::Add if loose && any_zero(self, a) => self.replace(inst, b),
            Op::Add if self.under(b, &Op::Neg).is_some() => {
                let x = self.under(b, &Op::Neg).expect("just found");
                self.rewrite(inst, Op::Sub, &[a, x])
            }
            Op::Add if self.under(a, &Op::Neg).is_some() => {
                let x = self.under(a, &Op::Neg).expect("just found");
                self.rewrite(inst, Op::Sub, &[b, x])
            }
            Op::Sub if plus_zero(self, b) || loose && minus_zero(self, b) => self.replace(inst, a),
            Op::Sub if minus_zero(self, a) || loose && plus_zero(self, a) => {
                self.rewrite(inst, Op::Neg, &[b])
            }
            Op::Sub if self.under(b, &Op::Neg).is_some() => {
                let x = self.under(b, &Op::Neg).expect("just found");
                self.rewrite(inst, Op::Add, &[a, x])
            }
            Op::Sub if a == b && loose => self.be_zero(inst),
            Op::Sub
                if self.fast
                    && let Some(x) = self.under(a, &Op::Neg) =>
            {
                self.negated(inst, Op::Add, x, b)
            }
            Op::Add | Op::Sub => self.negated_product(inst, op, a, b),
            Op::Mul if self.is_one(b) => self.replace(inst, a),
            Op::Mul if self.is_one(a) => self.replace(inst, b),
            Op::Mul if self.is_minus_one(b) => self.rewrite(inst, Op::Neg, &[a]),
            Op::Mul if self.is_minus_one(a) => self.rewrite(inst, Op::Neg, &[b]),
            Op::Mul if self.fast && (any_zero(self, a) || any_zero(self, b)) => self.be_zero(inst),
            Op::Mul => match (self.under(a, &Op::Neg), self.under(b, &Op::Neg)) {
                (Some(x), Some(y)) => self.rewrite(inst, Op::Mul, &[x, y]),
                (Some(x), None) => self.negated_factor(inst, x, a, b),
                (None, Some(y)) => self.negated_factor(inst, y, b, a),
                _ => Step::Keep,
            },
            Op::Div if self.is_one(b) => self.replace(inst, a),
            Op::Div if let (Some(x), Some(y)) = (self.under(a, &Op::Splat), self.under(b, &Op::Splat)) => {
                let r = self.func.result(inst);
                let (ty, linear) = (self.ty(x), self.func.is_linear(r));
                let q = self.emit(Op::Div, &[x, y], ty, linear);
                self.rewrite(inst, Op::Splat, &[q])
            }
            Op::Div if self.is_minus_one(b) => self.rewrite(inst, Op::Neg, &[a]),
            Op::Div if self.fast && a == b => {
                let ty = self.ty(self.func.result(inst));
                let n = self.types.lanes(ty).unwrap_or(1);
                self.be_lanes(inst, s, &vec![ir::scalar::one(s); n as usize])
            }
            _ => Step::Keep,
        }
    }

    /// Rewrites `(-x) * c` to `x * (-c)` for a constant `c`, where `v` is `-x` and has no other use.
    fn negated_factor(&mut self, inst: Inst, x: Value, v: Value, c: Value) -> Step {
        let constant = self.uniform(c).filter(|_| self.uses.as_ref().is_some_and(|uses| uses[v] == 1));
        let Some((s, bits)) = constant else { return self.negated(inst, Op::Mul, x, c) };
        let Some(negated) = ir::scalar::unary(&Op::Neg, s, bits) else { return Step::Keep };
        let mut factor = self.constant(s, negated);
        if self.types.lanes(self.ty(c)).is_some() {
            factor = self.emit(Op::Splat, &[factor], self.ty(c), false);
        }
        self.rewrite(inst, Op::Mul, &[x, factor])
    }

    /// Rewrites an op with a negated operand to the negation of `x op b`: signs move outwards until a sum
    /// absorbs them. The ops on the separate lanes of a vector then become equal.
    fn negated(&mut self, inst: Inst, op: Op, x: Value, b: Value) -> Step {
        let r = self.func.result(inst);
        if !self.fast || self.func.is_linear(r) {
            return Step::Keep;
        }
        let opposite = self.emit(op, &[x, b], self.ty(r), false);
        self.rewrite(inst, Op::Neg, &[opposite])
    }

    /// Rewrites `a + (-x) * y` to `a - x * y`, where the product has no other use.
    fn negated_product(&mut self, inst: Inst, op: &Op, a: Value, b: Value) -> Step {
        if let Some(product) = self.without_sign(b) {
            let opposite = if *op == Op::Add { Op::Sub } else { Op::Add };
            return self.rewrite(inst, opposite, &[a, product]);
        }
        match self.without_sign(a) {
            Some(product) if *op == Op::Add => self.rewrite(inst, Op::Sub, &[b, product]),
            _ => Step::Keep,
        }
    }

    /// Rewrites `v` to `x * y`, where `v` is `-x * y` or `x * -y` and has no other use.
    fn without_sign(&mut self, v: Value) -> Option<Value> {
        if self.uses.as_ref()?[v] != 1 {
            return None;
        }
        let factors = self.operands(v, |op| *op == Op::Mul)?;
        let (x, y) = match (self.under(factors[0], &Op::Neg), self.under(factors[1], &Op::Neg)) {
            (Some(x), None) => (x, factors[1]),
            (None, Some(y)) => (factors[0], y),
            _ => return None,
        };
        let product = self.emit(Op::Mul, &[x, y], self.ty(v), self.func.is_linear(v));
        self.func.values[product].differential = self.func.values[v].differential;
        Some(product)
    }

    fn int(&mut self, inst: Inst, op: &Op, s: Scalar, a: Value, b: Value) -> Step {
        let ones = ir::scalar::canonical(s, u64::MAX);
        let ca = self.uniform(a).map(|c| c.1);
        let cb = self.uniform(b).map(|c| c.1);
        match op {
            Op::Add | Op::Sub | Op::Or | Op::Xor | Op::Shl | Op::Shr if cb == Some(0) => {
                self.replace(inst, a)
            }
            Op::Mul | Op::Div if cb == Some(1) && s != Scalar::Bool => self.replace(inst, a),
            Op::And if cb == Some(ones) => self.replace(inst, a),
            Op::Mul | Op::And if cb == Some(0) => self.be_zero(inst),
            Op::Shl | Op::Shr | Op::Div | Op::Rem if ca == Some(0) => self.be_zero(inst),
            Op::Rem if cb == Some(1) => self.be_zero(inst),
            Op::Div if cb == Some(0) => self.replace(inst, a),
            Op::Rem if cb == Some(0) => self.be_zero(inst),
            Op::Or if cb == Some(ones) => self.replace(inst, b),
            Op::Sub | Op::Xor if a == b => self.be_zero(inst),
            Op::And | Op::Or if a == b => self.replace(inst, a),
            Op::Sub if ca == Some(0) => self.rewrite(inst, Op::Neg, &[b]),
            Op::Xor if s == Scalar::Bool && cb == Some(1) => self.rewrite(inst, Op::Not, &[a]),
            Op::And | Op::Or if s == Scalar::Bool && self.complement(a, b) => {
                let one = u64::from(*op == Op::Or);
                let n = self.types.lanes(self.ty(a)).unwrap_or(1);
                self.be_lanes(inst, s, &vec![one; n as usize])
            }
            // (x + c) + d, (x - c) + d, (c - x) - d … become one constant. Wrapping sums associate.
            Op::Add | Op::Sub if cb.is_some() => self.reassociate(inst, op, s, a, b),
            // c - (d - x) = x + (c - d)
            Op::Sub if ca.is_some() => match self.operands(b, |op| *op == Op::Sub) {
                Some(inner) => match (self.scalar(a), self.scalar(inner[0])) {
                    (Some((_, c)), Some((_, d))) => {
                        let k = self.constant(s, ir::scalar::canonical(s, c.wrapping_sub(d)));
                        self.rewrite(inst, Op::Add, &[inner[1], k])
                    }
                    _ => Step::Keep,
                },
                None => Step::Keep,
            },
            // (x + y) - y = x, (x + y) - x = y
            Op::Sub => match self.operands(a, |op| *op == Op::Add) {
                Some(xy) if xy[1] == b => self.replace(inst, xy[0]),
                Some(xy) if xy[0] == b => self.replace(inst, xy[1]),
                _ => Step::Keep,
            },
            // (x - y) + y = x
            Op::Add => match (self.operands(a, |op| *op == Op::Sub), self.operands(b, |op| *op == Op::Sub)) {
                (Some(xy), _) if xy[1] == b => self.replace(inst, xy[0]),
                (_, Some(xy)) if xy[1] == a => self.replace(inst, xy[0]),
                _ => Step::Keep,
            },
            _ => Step::Keep,
        }
    }

    fn reassociate(&mut self, inst: Inst, op: &Op, s: Scalar, a: Value, b: Value) -> Step {
        let Some((_, d)) = self.scalar(b) else { return Step::Keep };
        let d = if *op == Op::Sub { d.wrapping_neg() } else { d };
        let Some(xy) = self.operands(a, |op| matches!(op, Op::Add | Op::Sub)) else { return Step::Keep };
        let inner = self.op(a).cloned();
        let (at, c) = match (self.scalar(xy[0]), self.scalar(xy[1])) {
            (_, Some((_, c))) => (1, c),
            (Some((_, c)), None) => (0, c),
            (None, None) => return Step::Keep,
        };
        match (inner, at) {
            (Some(Op::Sub), 0) => {
                let k = self.constant(s, ir::scalar::canonical(s, c.wrapping_add(d)));
                self.rewrite(inst, Op::Sub, &[k, xy[1]])
            }
            (Some(inner), _) => {
                let c = if inner == Op::Sub { c.wrapping_neg() } else { c };
                let k = self.constant(s, ir::scalar::canonical(s, c.wrapping_add(d)));
                self.rewrite(inst, Op::Add, &[xy[1 - at], k])
            }
            (None, _) => Step::Keep,
        }
    }

    /// Returns true if one of two values is the negation of the other.
    fn complement(&self, a: Value, b: Value) -> bool {
        self.under(a, &Op::Not) == Some(b) || self.under(b, &Op::Not) == Some(a)
    }

    fn not(&mut self, inst: Inst, s: Scalar, a: Value) -> Step {
        if let Some(x) = self.under(a, &Op::Not) {
            return self.replace(inst, x);
        }
        let compares = |op: &Op| matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge);
        let (Scalar::Bool, Some(xy)) = (s, self.operands(a, compares)) else { return Step::Keep };
        let float = self.types.scalar_of(self.ty(xy[0])).is_none_or(Scalar::is_float);
        let opposite = match self.op(a) {
            Some(Op::Eq) => Op::Ne,
            Some(Op::Ne) => Op::Eq,
            Some(Op::Lt) if !float => Op::Ge,
            Some(Op::Le) if !float => Op::Gt,
            Some(Op::Gt) if !float => Op::Le,
            Some(Op::Ge) if !float => Op::Lt,
            _ => return Step::Keep,
        };
        self.rewrite(inst, opposite, &xy)
    }

    fn compare(&mut self, inst: Inst, op: &Op, s: Scalar, a: Value, b: Value) -> Step {
        let n = self.types.lanes(self.ty(a)).unwrap_or(1) as usize;
        let answer = |this: &mut Self, yes: bool| this.be_lanes(inst, Scalar::Bool, &vec![u64::from(yes); n]);
        if s.is_float() {
            return Step::Keep;
        }
        if a == b {
            return answer(self, matches!(op, Op::Eq | Op::Le | Op::Ge));
        }
        let ca = self.uniform(a).map(|c| c.1);
        let cb = self.uniform(b).map(|c| c.1);
        if s == Scalar::Bool {
            match (op, cb) {
                (Op::Eq, Some(1)) | (Op::Ne, Some(0)) => return self.replace(inst, a),
                (Op::Eq, Some(0)) | (Op::Ne, Some(1)) => return self.rewrite(inst, Op::Not, &[a]),
                _ => return Step::Keep,
            }
        }
        if !s.is_signed_int() {
            match op {
                Op::Lt if cb == Some(0) => return answer(self, false),
                Op::Ge if cb == Some(0) => return answer(self, true),
                Op::Gt if ca == Some(0) => return answer(self, false),
                Op::Le if ca == Some(0) => return answer(self, true),
                _ => {}
            }
        }
        // A bool converted to a number, compared with zero or one.
        if let (Op::Eq | Op::Ne, Some(c @ 0..=1), Some(x)) = (op, cb, self.under(a, &Op::Convert))
            && matches!(
                self.types[self.ty(x)],
                TypeData::Scalar(Scalar::Bool) | TypeData::Vector(Scalar::Bool, _)
            )
        {
            return if (c == 1) == (*op == Op::Eq) {
                self.replace(inst, x)
            } else {
                self.rewrite(inst, Op::Not, &[x])
            };
        }
        Step::Keep
    }

    fn math(&mut self, inst: Inst, m: Math, args: &[Value]) -> Step {
        match m {
            Math::Min | Math::Max if args[0] == args[1] => self.replace(inst, args[0]),
            Math::Abs => match self.op(args[0]) {
                Some(Op::Math(Math::Abs)) => self.replace(inst, args[0]),
                Some(Op::Neg) => {
                    let x = self.under(args[0], &Op::Neg).expect("just found");
                    self.rewrite(inst, Op::Math(Math::Abs), &[x])
                }
                _ => Step::Keep,
            },
            _ => Step::Keep,
        }
    }

    fn select(&mut self, inst: Inst, args: &[Value]) -> Step {
        let (c, a, b) = (args[0], args[1], args[2]);
        if self.same(a, b) {
            return self.replace(inst, a);
        }
        match self.uniform(c) {
            Some((_, 0)) => return self.replace(inst, b),
            Some(_) => return self.replace(inst, a),
            None => {}
        }
        if let Some(x) = self.under(c, &Op::Not) {
            return self.rewrite(inst, Op::Select, &[x, b, a]);
        }
        if let Some(inner) = self.operands(a, |op| *op == Op::Select)
            && inner[0] == c
        {
            return self.rewrite(inst, Op::Select, &[c, inner[1], b]);
        }
        if let Some(inner) = self.operands(b, |op| *op == Op::Select)
            && inner[0] == c
        {
            return self.rewrite(inst, Op::Select, &[c, a, inner[2]]);
        }
        if self.is_any_zero(b) && self.is_checked_read(c, a) {
            return self.replace(inst, a);
        }
        // `c ? x : 0` is `x` if a factor of `x` is zero unless `c` holds, as in derivatives of guarded
        // expressions.
        for (kept, zero, when) in [(a, b, true), (b, a, false)] {
            if self.fast && self.is_any_zero(zero) && self.vanishes(kept, c, when, FACTORS) {
                return self.replace(inst, kept);
            }
        }
        if self.ty(c) == self.ty(a) && self.types.scalar_of(self.ty(a)) == Some(Scalar::Bool) {
            let (ca, cb) = (self.uniform(a).map(|x| x.1), self.uniform(b).map(|x| x.1));
            match (ca, cb) {
                (Some(1), Some(0)) => return self.replace(inst, c),
                (Some(0), Some(1)) => return self.rewrite(inst, Op::Not, &[c]),
                (Some(1), None) => return self.rewrite(inst, Op::Or, &[c, b]),
                (None, Some(0)) => return self.rewrite(inst, Op::And, &[c, a]),
                _ => {}
            }
        }
        Step::Keep
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

    fn convert(&mut self, inst: Inst, from: Scalar, a: Value) -> Step {
        let r = self.func.result(inst);
        if self.ty(a) == self.ty(r) {
            return self.replace(inst, a);
        }
        if self.func.is_linear(r) {
            return Step::Keep;
        }
        let Some(to) = self.types.scalar_of(self.ty(r)) else { return Step::Keep };
        if let Some(x) = self.under(a, &Op::Convert)
            && let Some(first) = self.types.scalar_of(self.ty(x))
            && collapses(first, from, to)
        {
            return self.rewrite(inst, Op::Convert, &[x]);
        }
        Step::Keep
    }

    /// Bits have no derivative, so a value that is cast to bits and back is detached.
    fn bitcast(&mut self, inst: Inst, a: Value) -> Step {
        let r = self.func.result(inst);
        let back = match self.under(a, &Op::Bitcast) {
            _ if self.ty(a) == self.ty(r) => Some(a),
            under => under.filter(|&x| self.ty(x) == self.ty(r)),
        };
        match back {
            Some(x) if self.types.is_differentiable(self.ty(r)) => {
                return self.rewrite(inst, Op::Detach, &[x]);
            }
            Some(x) => return self.replace(inst, x),
            None => (),
        }
        match self.under(a, &Op::Bitcast) {
            Some(x) if same_shape(self, x, r) => self.rewrite(inst, Op::Bitcast, &[x]),
            _ => Step::Keep,
        }
    }
}

fn same_shape(s: &Simplify<'_>, a: Value, b: Value) -> bool {
    let lanes = |ty: Type| s.types.lanes(ty);
    lanes(s.ty(a)) == lanes(s.ty(b))
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
    if a == b || a == Scalar::Bool && b != Scalar::Bool {
        return true;
    }
    if b == Scalar::Bool {
        return false;
    }
    match (a.is_float(), b.is_float()) {
        (true, true) => a.bits() < b.bits(),
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
