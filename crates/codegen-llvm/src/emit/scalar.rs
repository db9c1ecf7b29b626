//! Emits arithmetic, comparisons and conversions, component by component.
//!
//! `ir::scalar` defines the meaning of each op. Instructions of LLVM that are only partially defined are
//! guarded here, so that nothing is poison or undefined: shift amounts are masked, divisors are made
//! harmless, conversions saturate. No instruction has a flag that allows other results.

use ir::{InstData, Op, Scalar, Span, Type, TypeData};
use native::runtime::Helper;
use native::types::{Shape, flat, size};

use super::{Emitter, Res, el};
use crate::text::{El, Id, Lin, Val, Vals};

impl Emitter<'_, '_> {
    /// Emits constants and elementwise ops.
    pub(super) fn arithmetic(&mut self, data: &InstData) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        let vals = match &data.op {
            Op::Const(bits) => {
                let s = self.scalar_of(result);
                Vals::from_slice(&[self.constant(s, *bits)])
            }
            Op::Zero => self.zero(ty),
            Op::Select => self.select(data, ty)?,
            Op::Sum => {
                let s = self.scalar_of(result);
                let lanes = self.get(data.args[0]);
                let mut sum = lanes[0];
                for &lane in &lanes[1..] {
                    sum = self.binary(&Op::Add, s, sum, lane, data.span)?;
                }
                Vals::from_slice(&[sum])
            }
            _ if !self.ts.is_numeric(ty) => self.whole(data, ty)?,
            _ => {
                let from = self.scalar_of(data.args[0]);
                let to = self.scalar_of(result);
                let args: Vec<Vals> = data.args.iter().map(|&a| self.get(a)).collect();
                let mut out = Vals::new();
                for k in 0..args[0].len() {
                    let operands: Vals = args.iter().map(|a| a[k]).collect();
                    out.push(self.component(&data.op, from, to, &operands, data.span)?);
                }
                out
            }
        };
        self.set(result, &vals);
        Ok(())
    }

    /// The zero of a type.
    pub(super) fn zero(&mut self, ty: Type) -> Vals {
        match self.ts[ty] {
            TypeData::Scalar(s) => Vals::from_slice(&[self.constant(s, 0)]),
            TypeData::Vector(s, n) => Vals::from_elem(self.constant(s, 0), n as usize),
            TypeData::Array(..) | TypeData::Cell(_) => Vals::from_slice(&[Val::name(El::Ptr, "@rt_zero")]),
            TypeData::Stack(_) => Vals::from_slice(&[Val::name(El::Ptr, "@rt_empty")]),
            TypeData::Buffer(_) => self.null(),
            TypeData::Residuals(_) => Vals::new(),
        }
    }

    fn select(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let c = self.get(data.args[0]);
        let varying = self.varies(data.results[0]);
        let (a, b) = (self.get(data.args[1]), self.get(data.args[2]));
        if !self.ts.is_numeric(ty) {
            let (a, b) = (self.fit(ty, a, varying, data.span)?, self.fit(ty, b, varying, data.span)?);
            return self.pick(ty, c[0], &a, &b, data.span);
        }
        Ok(a.iter()
            .zip(&b)
            .enumerate()
            .map(|(k, (&a, &b))| self.w.select(if c.len() > 1 { c[k] } else { c[0] }, a, b))
            .collect())
    }

    /// Emits `c ? a : b` for values with the same representation.
    pub(super) fn pick(&mut self, ty: Type, c: Val, a: &[Val], b: &[Val], span: Span) -> Res<Vals> {
        if a == b {
            return Ok(a.iter().copied().collect());
        }
        match self.ts[ty] {
            TypeData::Array(..) if c.var => {
                let to = self.memory(size(self.ts, ty), true);
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

    /// Emits an elementwise op on arrays or stacks.
    fn whole(&mut self, data: &InstData, ty: Type) -> Res<Vals> {
        let varying = self.varies(data.results[0]);
        if let (TypeData::Stack(elem), Op::Add) = (self.ts[ty], &data.op) {
            let shape = self.shape(elem, varying);
            let empty = Val::name(El::Ptr, "@rt_empty");
            let (a, b) = (self.get(data.args[0]), self.get(data.args[1]));
            let (a, b) = (self.fit(ty, a, varying, data.span)?, self.fit(ty, b, varying, data.span)?);
            let sum = self.helper_value(Helper::StackClone, &[a[0], shape, empty]);
            let loc = self.memory(8, false);
            self.w.store(sum, loc, ", align 8, !tbaa !5");
            self.helper(Helper::StackAdd, &[loc, b[0], shape, empty]);
            let sum = self.w.load(El::Ptr, false, loc, ", align 8, !tbaa !5");
            return Ok(Vals::from_slice(&[Val { wide: varying, ..sum }]));
        }
        let from = data.args.first().and_then(|&a| flat(self.ts, self.ty(a)));
        let (Some((s, n)), Some((to_s, _))) = (from, flat(self.ts, ty)) else {
            return self.unsupported(&data.op, "operands of this type", data.span);
        };
        let to = self.memory(size(self.ts, ty), varying);
        let mut args = Vals::new();
        for &arg in &data.args {
            args.push(self.one(arg));
        }
        let op = data.op.clone();
        self.each(n, &mut |e, k| {
            let mut operands = Vals::new();
            for &a in &args {
                operands.push(e.load_local(s, a, k));
            }
            let x = e.component(&op, s, to_s, &operands, data.span)?;
            e.store_local(to_s, x, to, k);
            Ok(())
        })?;
        Ok(Vals::from_slice(&[to]))
    }

    /// The address of the shape of a stack's elements.
    pub(super) fn shape(&mut self, elem: Type, wide: bool) -> Val {
        let shape = Shape::of(self.ts, elem);
        let shape = if wide { widened(shape, self.lanes) } else { shape };
        Val::uniform(Id::Shape(self.cx.tables.shape(shape).0), El::Ptr)
    }

    /// Emits one component of an elementwise op.
    pub(super) fn component(
        &mut self,
        op: &Op,
        from: Scalar,
        to: Scalar,
        args: &[Val],
        span: Span,
    ) -> Res<Val> {
        match op {
            Op::Neg => Ok(match from {
                Scalar::F32 | Scalar::F64 => self.w.unary("fneg", args[0]),
                Scalar::F16 => self.w.binary("xor", args[0], Val::bits(El::I16, 0x8000)),
                _ => self.w.binary("sub", Val::bits(el(from), 0), args[0]),
            }),
            Op::Not => Ok(match from {
                Scalar::Bool => self.w.binary("xor", args[0], Val::bool(true)),
                _ => self.w.binary("xor", args[0], Val::bits(el(from), u64::MAX)),
            }),
            Op::Convert => Ok(self.convert(from, to, args[0])),
            Op::Bitcast => {
                Ok(if el(from) == el(to) { args[0] } else { self.w.cast("bitcast", args[0], el(to)) })
            }
            Op::Math(m) => self.math(*m, from, args, span),
            _ => self.binary(op, from, args[0], args[1], span),
        }
    }

    /// Emits an op on two numbers of the same kind.
    pub(super) fn binary(&mut self, op: &Op, s: Scalar, a: Val, b: Val, span: Span) -> Res<Val> {
        match s {
            Scalar::F16 => {
                let (a, b) = (self.widen(a), self.widen(b));
                let r = self.float_binary(op, Scalar::F32, a, b, span)?;
                Ok(if r.el == El::F32 { self.narrow(r) } else { r })
            }
            Scalar::F32 | Scalar::F64 => self.float_binary(op, s, a, b, span),
            _ => self.int_binary(op, s, a, b, span),
        }
    }

    /// Converts the bits of an `f16` to an `f32`.
    pub(super) fn widen(&mut self, a: Val) -> Val {
        if self.cx.has_f16c {
            let var = a.var;
            let half = self.w.reg(El::I16, var);
            let out = self.w.reg(El::F32, var);
            let (h, o, a) = (self.w.operand(half, false), self.w.operand(out, false), self.w.typed(a));
            let (half_ty, float) = (self.half(var), self.w.ty(El::F32, var));
            self.w.line(format_args!("{h} = bitcast {a} to {half_ty}"));
            self.w.line(format_args!("{o} = fpext {half_ty} {h} to {float}"));
            return out;
        }
        self.by_lane(El::F32, &[a], &mut |e, args| {
            let a = e.w.cast("zext", args[0], El::I32);
            e.helper_value(Helper::HalfToSingle, &[a])
        })
    }

    fn half(&self, var: bool) -> String {
        if var { format!("<{} x half>", self.lanes) } else { "half".to_string() }
    }

    /// Rounds an `f32` to the bits of an `f16`.
    pub(super) fn narrow(&mut self, a: Val) -> Val {
        if self.cx.has_f16c {
            let var = a.var;
            let half = self.w.reg(El::I16, var);
            let out = self.w.reg(El::I16, var);
            let (h, o, a) = (self.w.operand(half, false), self.w.operand(out, false), self.w.typed(a));
            let (half_ty, int) = (self.half(var), self.w.ty(El::I16, var));
            self.w.line(format_args!("{h} = fptrunc {a} to {half_ty}"));
            self.w.line(format_args!("{o} = bitcast {half_ty} {h} to {int}"));
            return out;
        }
        self.by_lane(El::I16, &[a], &mut |e, args| {
            let bits = e.helper_value(Helper::SingleToHalf, args);
            e.w.cast("trunc", bits, El::I16)
        })
    }

    /// Emits an operation without a vector form lane by lane.
    pub(super) fn by_lane(
        &mut self,
        to: El,
        args: &[Val],
        one: &mut dyn FnMut(&mut Self, &[Val]) -> Val,
    ) -> Val {
        if args.iter().all(|a| !a.var) {
            return one(self, args);
        }
        let mut all = Val { id: Id::Poison, el: to, var: true, wide: false, lin: None };
        for k in 0..self.lanes {
            let lane = Val::i32(k as i64);
            let args: Vals = args.iter().map(|&a| self.w.lane(a, lane)).collect();
            let x = one(self, &args);
            all = self.w.with_lane(all, lane, x);
        }
        all
    }

    fn float_binary(&mut self, op: &Op, s: Scalar, a: Val, b: Val, span: Span) -> Res<Val> {
        let cc = match op {
            Op::Add => return Ok(self.w.binary("fadd", a, b)),
            Op::Sub => return Ok(self.w.binary("fsub", a, b)),
            Op::Mul => return Ok(self.w.binary("fmul", a, b)),
            Op::Div => return Ok(self.w.binary("fdiv", a, b)),
            Op::Rem => {
                let helper = if s == Scalar::F64 { Helper::RemDouble } else { Helper::RemSingle };
                return Ok(self.by_lane(el(s), &[a, b], &mut |e, args| e.helper_value(helper, args)));
            }
            Op::Eq => "fcmp oeq",
            Op::Ne => "fcmp une",
            Op::Lt => "fcmp olt",
            Op::Le => "fcmp ole",
            Op::Gt => "fcmp ogt",
            Op::Ge => "fcmp oge",
            _ => return self.unsupported(op, "on floats", span),
        };
        Ok(self.w.compare(cc, a, b))
    }

    fn int_binary(&mut self, op: &Op, s: Scalar, a: Val, b: Val, span: Span) -> Res<Val> {
        let signed = s.is_signed_int();
        let cc = match op {
            Op::And => return Ok(self.w.binary("and", a, b)),
            Op::Or => return Ok(self.w.binary("or", a, b)),
            Op::Xor => return Ok(self.w.binary("xor", a, b)),
            Op::Eq => "icmp eq",
            Op::Ne => "icmp ne",
            Op::Lt if signed => "icmp slt",
            Op::Le if signed => "icmp sle",
            Op::Gt if signed => "icmp sgt",
            Op::Ge if signed => "icmp sge",
            Op::Lt => "icmp ult",
            Op::Le => "icmp ule",
            Op::Gt => "icmp ugt",
            Op::Ge => "icmp uge",
            _ if s == Scalar::Bool => return self.unsupported(op, "on bool", span),
            Op::Add => return Ok(self.add_ints(a, b)),
            Op::Sub => {
                let out = self.w.binary("sub", a, b);
                let lin = match (a.lin, b.lin) {
                    (Some(a), None) if !b.var => self.stepped("sub", a, b, out.el, a.step),
                    (None, Some(b)) if !a.var => {
                        let base = self.w.binary("sub", a, Val::uniform(b.base, out.el));
                        Some(Lin { base: base.id, step: -b.step, holds: b.holds })
                    }
                    _ => None,
                };
                return Ok(Val { lin, ..out });
            }
            Op::Mul => return Ok(self.mul_ints(a, b)),
            Op::Div | Op::Rem => return Ok(self.divide(op, s, a, b)),
            Op::Shl | Op::Shr => {
                let amount = match b.constant() {
                    Some(n) => Val::bits(b.el, n & (s.bits() as u64 - 1)),
                    None => self.w.binary("and", b, Val::bits(b.el, s.bits() as u64 - 1)),
                };
                return Ok(match op {
                    Op::Shl => {
                        let out = self.w.binary("shl", a, amount);
                        let lin = match (a.lin, amount.constant()) {
                            (Some(lin), Some(n)) if n < 20 => {
                                self.stepped("shl", lin, amount, out.el, lin.step << n)
                            }
                            _ => None,
                        };
                        Val { lin, ..out }
                    }
                    _ if signed => self.w.binary("ashr", a, amount),
                    _ => self.w.binary("lshr", a, amount),
                });
            }
            _ => return self.unsupported(op, "on integers", span),
        };
        Ok(self.w.compare(cc, a, b))
    }

    /// The form of a stepped value after an instruction on its base.
    fn stepped(&mut self, op: &str, lin: Lin, with: Val, el: El, step: i64) -> Option<Lin> {
        let base = self.w.binary(op, Val::uniform(lin.base, el), with);
        (step.unsigned_abs() < 1 << 24).then_some(Lin { base: base.id, step, holds: lin.holds })
    }

    /// The sum of integers, which preserves steps.
    pub(super) fn add_ints(&mut self, a: Val, b: Val) -> Val {
        if b.constant() == Some(0) && !b.var {
            return a;
        }
        let out = self.w.binary("add", a, b);
        let lin = match (a.lin, b.lin) {
            (Some(lin), None) if !b.var => self.stepped("add", lin, b, out.el, lin.step),
            (None, Some(lin)) if !a.var => self.stepped("add", lin, a, out.el, lin.step),
            _ => None,
        };
        Val { lin, ..out }
    }

    /// The product of integers, which preserves steps if one factor is a constant.
    pub(super) fn mul_ints(&mut self, a: Val, b: Val) -> Val {
        if b.constant() == Some(1) {
            return a;
        }
        let out = self.w.binary("mul", a, b);
        let times = |lin: Lin, n: u64| lin.step.checked_mul(i64::try_from(n).ok()?);
        let lin = match (a.lin, b.lin, a.constant(), b.constant()) {
            (Some(lin), None, _, Some(n)) => times(lin, n).map(|step| (lin, b, step)),
            (None, Some(lin), Some(n), _) => times(lin, n).map(|step| (lin, a, step)),
            _ => None,
        };
        let lin = lin.and_then(|(lin, by, step)| self.stepped("mul", lin, by, out.el, step));
        Val { lin, ..out }
    }

    /// Emits a division with `x / 0 = x`, `x % 0 = 0`, `MIN / -1 = MIN` and `MIN % -1 = 0`. Replacing those
    /// divisors by 1 gives the right result in the first two cases and the last; a quotient by -1 is the
    /// negation.
    fn divide(&mut self, op: &Op, s: Scalar, a: Val, b: Val) -> Val {
        let (signed, ty) = (s.is_signed_int(), el(s));
        let (zero, one) = (Val::bits(ty, 0), Val::bits(ty, 1));
        let known = b.constant().filter(|&n| n != 0 && !(signed && ir::scalar::to_i64(s, n) == -1));
        if known.is_some() {
            let name = match (op, signed) {
                (Op::Div, true) => "sdiv",
                (Op::Div, false) => "udiv",
                (_, true) => "srem",
                (_, false) => "urem",
            };
            return self.w.binary(name, a, b);
        }
        let is_zero = self.w.compare("icmp eq", b, zero);
        let by = self.w.select(is_zero, one, b);
        if !signed {
            return self.w.binary(if *op == Op::Div { "udiv" } else { "urem" }, a, by);
        }
        let is_minus = self.w.compare("icmp eq", b, Val::bits(ty, u64::MAX));
        let by = self.w.select(is_minus, one, by);
        if *op != Op::Div {
            return self.w.binary("srem", a, by);
        }
        let q = self.w.binary("sdiv", a, by);
        let negated = self.w.binary("sub", zero, a);
        self.w.select(is_minus, negated, q)
    }

    /// Extends an integer to a wider type; steps are preserved where they fit.
    pub(super) fn extend(&mut self, ty: El, signed: bool, a: Val) -> Val {
        if a.el == ty {
            return a;
        }
        if let (Some(bits), false) = (a.constant(), a.el == El::I1) {
            let shift = 64 - a.el.bits();
            let bits = if signed { ((bits << shift) as i64 >> shift) as u64 } else { bits << shift >> shift };
            return Val { el: ty, id: Id::Bits(bits), ..a };
        }
        let name = if signed && a.el != El::I1 { "sext" } else { "zext" };
        let out = self.w.cast(name, a, ty);
        let Some(lin) = a.lin.filter(|_| a.el.bits() >= 16) else { return out };
        // The exact numbers of all lanes must be within the range of the narrow type.
        let span = lin.step.unsigned_abs() * u64::from(self.lanes - 1);
        let bits = a.el.bits();
        let base = Val::uniform(lin.base, a.el);
        let fits = match (signed, lin.step >= 0) {
            (false, true) => {
                self.w.compare("icmp ule", base, Val::bits(a.el, (u64::MAX >> (64 - bits)) - span))
            }
            (false, false) => self.w.compare("icmp uge", base, Val::bits(a.el, span)),
            (true, true) => {
                let max = (1u64 << (bits - 1)) - 1;
                self.w.compare("icmp sle", base, Val::bits(a.el, max - span))
            }
            (true, false) => {
                let min = 1u64 << (bits - 1);
                self.w.compare("icmp sge", base, Val::bits(a.el, min + span))
            }
        };
        let holds = self.w.binary("and", fits, Val::uniform(lin.holds, El::I1));
        let base = self.w.cast(name, base, ty);
        Val { lin: Some(Lin { base: base.id, step: lin.step, holds: holds.id }), ..out }
    }

    /// Extends an integer to an index of 64 bits: negative ones become huge.
    pub(crate) fn index64(&mut self, v: ir::Value) -> Val {
        let s = self.scalar_of(v);
        let x = self.one(v);
        let i = self.extend(El::I64, s.is_signed_int(), x);
        // A constant is the same in all lanes even if the analysis does not know it, and so is a place that
        // it selects.
        Val { var: i.var && i.constant().is_none(), ..i }
    }

    /// Converts a number to another kind.
    fn convert(&mut self, from: Scalar, to: Scalar, a: Val) -> Val {
        if from == to {
            return a;
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => match (from, to) {
                (Scalar::F16, Scalar::F32) => self.widen(a),
                (Scalar::F16, _) => {
                    let a = self.widen(a);
                    self.w.cast("fpext", a, El::F64)
                }
                (Scalar::F32, Scalar::F16) => self.narrow(a),
                (Scalar::F32, _) => self.w.cast("fpext", a, El::F64),
                (_, Scalar::F16) => self.by_lane(El::I16, &[a], &mut |e, args| {
                    let bits = e.helper_value(Helper::DoubleToHalf, args);
                    e.w.cast("trunc", bits, El::I16)
                }),
                (_, _) => self.w.cast("fptrunc", a, El::F32),
            },
            (true, false) => {
                let a = if from == Scalar::F16 { self.widen(a) } else { a };
                if to == Scalar::Bool {
                    return self.w.compare("fcmp une", a, Val::bits(a.el, 0));
                }
                self.w.float_to_int(a, el(to), to.is_signed_int())
            }
            (false, true) => {
                let ty = if to == Scalar::F64 { El::F64 } else { El::F32 };
                let x = self.w.cast(if from.is_signed_int() { "sitofp" } else { "uitofp" }, a, ty);
                if to == Scalar::F16 { self.narrow(x) } else { x }
            }
            (false, false) => {
                if to == Scalar::Bool {
                    return self.w.compare("icmp ne", a, Val::bits(a.el, 0));
                }
                let (f, t) = (el(from), el(to));
                if f == t {
                    a
                } else if f.bits() > t.bits() {
                    let out = self.w.cast("trunc", a, t);
                    let lin = a.lin.map(|lin| {
                        let base = self.w.cast("trunc", Val::uniform(lin.base, f), t);
                        Lin { base: base.id, ..lin }
                    });
                    Val { lin, ..out }
                } else {
                    self.extend(t, from.is_signed_int(), a)
                }
            }
        }
    }
}

/// The shape of elements that have room for all lanes.
fn widened(shape: Shape, lanes: u32) -> Shape {
    match shape {
        Shape::Flat(s, n) => Shape::Flat(s, n * lanes as u64),
        Shape::Opaque(n) => Shape::Opaque(n * lanes as u64),
        Shape::Stack(inner) => Shape::Stack(Box::new(widened(*inner, lanes))),
    }
}
