//! Built-in operators on scalars, vectors and matrices.
//!
//! An operand is a single leaf; matrices are processed row by row. The checker has converted both operands to
//! the same type (except for shift amounts).

use check::tables::{Callable, FuncRef, Meaning};
use check::types::{Ty, TyKind};
use ir::{Op, Scalar, TypeData, Value};
use smallvec::SmallVec;
use syntax::ExprId;
use syntax::ast::{BinaryOp, UnaryOp};

use crate::body::Body;
use crate::leaves::{rows, scalar_in};
use crate::lowerer::ir_span;

impl Body<'_, '_, '_> {
    /// Lowers a binary expression. A left-deep chain of operators is lowered without recursion.
    pub(crate) fn binary_expr(&mut self, e: ExprId) -> Vec<Value> {
        let mut chain = Vec::new();
        let mut left = e;
        loop {
            match self.lw.program.tables.exprs[left].meaning {
                Meaning::Binary(op, a, _) if !matches!(op, BinaryOp::And | BinaryOp::Or) => {
                    chain.push(left);
                    left = a;
                }
                _ => break,
            }
        }
        let (mut values, mut from) = self.typed(left);
        while let Some(node) = chain.pop() {
            let Meaning::Binary(op, a, b) = self.lw.program.tables.exprs[node].meaning else { break };
            // `values` is `a`, already converted.
            debug_assert_eq!(self.expr_ty(a), from);
            let right = self.typed(b);
            self.b.span = ir_span(self.span_of(node));
            values = self.binary(node, op, (values, from), right);
            let (own, seen) = (self.raw_ty(node), self.expr_ty(node));
            from = own;
            if !chain.is_empty() {
                let span = self.span_of(node);
                values = self.convert(values, own, seen, span);
                from = seen;
            }
        }
        values
    }

    /// Lowers `a op b`; the result has the node's own type.
    fn binary(
        &mut self,
        node: ExprId,
        op: BinaryOp,
        (a, a_ty): (Vec<Value>, Ty),
        (b, b_ty): (Vec<Value>, Ty),
    ) -> Vec<Value> {
        if op == BinaryOp::Comma {
            return b;
        }
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne)
            && let Some(present) = self.compared_to_nothing(node, (&a, a_ty), (&b, b_ty))
        {
            return vec![if op == BinaryOp::Ne { present } else { self.b.emit(Op::Not, &[present]) }];
        }
        if !self.is_builtin(a_ty) {
            let (result, span) = (self.raw_ty(node), self.span_of(node));
            let func = self.lw.program.operator_of(op, a_ty);
            return self.call_operator(
                func,
                format_args!("`{}`", op.text()),
                vec![(a, a_ty), (b, b_ty)],
                span,
                result,
            );
        }
        let (Some(&a), Some(&b)) = (a.first(), b.first()) else { return Vec::new() };
        let result = self.raw_ty(node);
        let is_one = op.is_comparison() && matches!(self.lw.program.types[result], TyKind::Scalar(_));
        if is_one && self.lw.program.is_compared_whole(a_ty) {
            return vec![self.compare_whole(op, a, b)];
        }
        let value = self.binary_leaf(op, a, b);
        vec![if is_one { self.one_answer(op, value) } else { value }]
    }

    /// Compares two vectors as a whole: by the first components that differ, from the last to the first.
    pub(crate) fn compare_whole(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        match op {
            BinaryOp::Gt => return self.compare_whole(BinaryOp::Lt, b, a),
            BinaryOp::Ge => return self.compare_whole(BinaryOp::Le, b, a),
            BinaryOp::Lt | BinaryOp::Le => {}
            _ => {
                let value = self.binary_leaf(op, a, b);
                return self.one_answer(op, value);
            }
        }
        let mut whole = self.b.bool(op == BinaryOp::Le);
        for k in (0..self.length(self.b.func.ty(a))).rev() {
            let (x, y) = (self.b.emit(Op::Extract(k), &[a]), self.b.emit(Op::Extract(k), &[b]));
            let (less, greater) = (self.b.emit(Op::Lt, &[x, y]), self.b.emit(Op::Gt, &[x, y]));
            let no_greater = self.b.emit(Op::Not, &[greater]);
            let rest = self.b.emit(Op::And, &[no_greater, whole]);
            whole = self.b.emit(Op::Or, &[less, rest]);
        }
        whole
    }

    /// The answer of a comparison in generic code, where vectors and matrices are compared as `IComparable` does: they
    /// are equal if all components are, and ordered by their first components.
    pub(crate) fn one_answer(&mut self, op: BinaryOp, value: Value) -> Value {
        let n = self.length(self.b.func.ty(value));
        let first = |body: &mut Self, k| {
            let part = body.b.emit(Op::Extract(k), &[value]);
            body.one_answer(op, part)
        };
        match op {
            _ if n == 0 => value,
            BinaryOp::Eq | BinaryOp::Ne => {
                let join = if op == BinaryOp::Eq { Op::And } else { Op::Or };
                let mut whole = first(self, 0);
                for k in 1..n {
                    let part = first(self, k);
                    whole = self.b.emit(join.clone(), &[whole, part]);
                }
                whole
            }
            _ => first(self, 0),
        }
    }

    /// For `x == none` and `p == nullptr`: emits a test that there is a value.
    fn compared_to_nothing(
        &mut self,
        node: ExprId,
        (a, a_ty): (&[Value], Ty),
        (b, b_ty): (&[Value], Ty),
    ) -> Option<Value> {
        let Meaning::Binary(_, left, right) = self.lw.program.tables.exprs[node].meaning else { return None };
        let nothing = |body: &mut Self, e: ExprId| {
            let ty = body.raw_ty(e);
            matches!(body.lw.program.types[ty], TyKind::NoneLiteral | TyKind::NullPtr)
        };
        let (values, ty) = if nothing(self, right) {
            (a, a_ty)
        } else if nothing(self, left) {
            (b, b_ty)
        } else {
            return None;
        };
        match self.lw.program.types[ty] {
            TyKind::Optional(_) => values.last().copied(),
            TyKind::Pointer(..) | TyKind::Buffer(..) => values.first().map(|&p| self.is_bound(p)),
            _ => None,
        }
    }

    /// Emits a test that a pointer or handle is bound to memory.
    pub(crate) fn is_bound(&mut self, handle: Value) -> Value {
        let len = self.b.emit(Op::BufferLen, &[handle]);
        let zero = self.b.u32(0);
        self.b.emit(Op::Ne, &[len, zero])
    }

    /// Returns true if operators on this type are built in.
    pub(crate) fn is_builtin(&self, ty: Ty) -> bool {
        matches!(
            self.lw.program.types[ty],
            TyKind::Scalar(_)
                | TyKind::Vector(..)
                | TyKind::Matrix(..)
                | TyKind::Enum(_)
                | TyKind::Pointer(..)
        )
    }

    /// Calls a user-defined operator; `name` is for messages.
    fn call_operator(
        &mut self,
        func: Option<FuncRef>,
        name: impl std::fmt::Display,
        operands: Vec<(Vec<Value>, Ty)>,
        span: syntax::Span,
        result: Ty,
    ) -> Vec<Value> {
        let Some(func) = func else {
            let ty = operands.first().map_or(Ty::ERROR, |o| o.1);
            let ty = self.lw.program.type_name(ty);
            return self.unsupported(span, format_args!("{name} on `{ty}` is"), result);
        };
        let func = self.lw.program.substitute_func(&func, &self.subst);
        match self.lw.canonical(Callable::Func(func)) {
            Ok(callable) => self.call_values(&callable, operands, span),
            Err(name) => self.internal(span, format_args!("`{name}` is not resolved"), result),
        }
    }

    /// Emits a binary operator on two leaves.
    pub(crate) fn binary_leaf(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let is_pointer =
            |body: &Self, v: Value| matches!(body.b.types[body.b.func.ty(v)], TypeData::Buffer(_));
        if is_pointer(self, a) || is_pointer(self, b) {
            return self.pointer_arithmetic(op, a, b);
        }
        let ir = match op {
            BinaryOp::Add => Op::Add,
            BinaryOp::Sub => Op::Sub,
            BinaryOp::Mul => Op::Mul,
            BinaryOp::Div => Op::Div,
            BinaryOp::Rem => Op::Rem,
            BinaryOp::Shl => Op::Shl,
            BinaryOp::Shr => Op::Shr,
            BinaryOp::BitAnd | BinaryOp::And => Op::And,
            BinaryOp::BitOr | BinaryOp::Or => Op::Or,
            BinaryOp::BitXor => Op::Xor,
            BinaryOp::Eq => Op::Eq,
            BinaryOp::Ne => Op::Ne,
            BinaryOp::Lt => Op::Lt,
            BinaryOp::Le => Op::Le,
            BinaryOp::Gt => Op::Gt,
            BinaryOp::Ge => Op::Ge,
            BinaryOp::Comma => return b,
        };
        self.each_row(&[a, b], &mut |body, v| {
            let b = body.convert_leaf(v[1], body.b.func.ty(v[0]));
            match ir {
                Op::Shl | Op::Shr => body.shift(ir.clone(), v[0], b),
                _ => body.b.emit(ir.clone(), &[v[0], b]),
            }
        })
    }

    /// Emits a shift. Integers of 8 and 16 bits are shifted as `int`, as in C; a constant amount that is not
    /// less than the width shifts all bits out.
    fn shift(&mut self, op: Op, a: Value, b: Value) -> Value {
        let ty = self.b.func.ty(a);
        let Some(scalar) = self.b.types.scalar_of(ty) else { return self.b.emit(op, &[a, b]) };
        let (width, wide) = match scalar.bits() {
            8 | 16 => (32, if scalar.is_signed_int() { Scalar::I32 } else { Scalar::U32 }),
            bits => (bits, scalar),
        };
        if let Some(amount) = self.constant_of(b)
            && scalar.is_int()
            && ir::scalar::to_i128(scalar, amount).unsigned_abs() >= u128::from(width)
        {
            if op == Op::Shl || !scalar.is_signed_int() {
                return self.b.zero(ty);
            }
            let most = self.b.constant(scalar, u64::from(scalar.bits() - 1));
            return self.b.emit(op, &[a, most]);
        }
        if wide == scalar {
            return self.b.emit(op, &[a, b]);
        }
        let wide = self.b.types.with_scalar(ty, wide);
        let (a, b) = (self.convert_leaf(a, wide), self.convert_leaf(b, wide));
        let shifted = self.b.emit(op, &[a, b]);
        self.convert_leaf(shifted, ty)
    }

    pub(crate) fn unary_expr(&mut self, e: ExprId, op: UnaryOp, operand: ExprId) -> Vec<Value> {
        let (values, ty) = self.typed(operand);
        if !self.is_builtin(ty) {
            let (result, span) = (self.raw_ty(e), self.span_of(e));
            let func = self.lw.program.unary_operator_of(op, ty);
            return self.call_operator(func, "this operator", vec![(values, ty)], span, result);
        }
        let Some(&value) = values.first() else { return Vec::new() };
        let ir = match op {
            UnaryOp::Plus => return values,
            UnaryOp::Neg => Op::Neg,
            UnaryOp::Not | UnaryOp::BitNot => Op::Not,
            UnaryOp::PreInc | UnaryOp::PreDec | UnaryOp::Deref | UnaryOp::AddressOf | UnaryOp::GetAddress => {
                let span = self.span_of(e);
                return self.unsupported(span, "this operator is", ty);
            }
        };
        vec![self.map_leaf(value, |body, v| {
            if let (Op::Neg, Some(bits)) = (&ir, body.constant_of(v)) {
                // Fold `-1` into a constant.
                let scalar = scalar_in(body.b.types, body.b.func.ty(v));
                if let Some(bits) = ir::scalar::unary(&Op::Neg, scalar, bits) {
                    return body.b.constant(scalar, bits);
                }
            }
            body.b.emit(ir.clone(), &[v])
        })]
    }

    /// Applies `f` to a scalar or vector, or to each row of a matrix.
    pub(crate) fn map_leaf(&mut self, value: Value, mut f: impl FnMut(&mut Self, Value) -> Value) -> Value {
        self.each_row(&[value], &mut |body, v| f(body, v[0]))
    }

    /// Applies `f` to scalars or vectors, or to the rows of matrices. An operand that is no matrix goes with
    /// each row of the first one.
    pub(crate) fn each_row(
        &mut self,
        operands: &[Value],
        f: &mut dyn FnMut(&mut Self, &[Value]) -> Value,
    ) -> Value {
        let Some((_, n)) = rows(self.b.types, self.b.func.ty(operands[0])) else { return f(self, operands) };
        let mut parts: SmallVec<[Value; 4]> = SmallVec::new();
        for k in 0..n {
            let row = |&operand: &Value| match rows(self.b.types, self.b.func.ty(operand)) {
                Some(_) => self.b.emit(Op::Extract(k), &[operand]),
                None => operand,
            };
            let inner: SmallVec<[Value; 4]> = operands.iter().map(row).collect();
            parts.push(self.each_row(&inner, f));
        }
        let ty = self.b.types.array(self.b.func.ty(parts[0]), n);
        self.b.emit_typed(Op::Construct, &parts, ty)
    }

    /// A vector or array of these parts.
    pub(crate) fn construct(&mut self, ty: ir::Type, mut part: impl FnMut(&mut Self, u32) -> Value) -> Value {
        let parts: SmallVec<[Value; 4]> = (0..self.length(ty)).map(|k| part(self, k)).collect();
        self.b.emit_typed(Op::Construct, &parts, ty)
    }

    /// Lowers `&&` and `||`: the right side is evaluated conditionally, unless evaluating it is cheap and has
    /// no effect.
    pub(crate) fn short_circuit(&mut self, e: ExprId, op: BinaryOp, a: ExprId, b: ExprId) -> Vec<Value> {
        let left = self.expr(a);
        let Some(&left) = left.first() else { return Vec::new() };
        // Each lane, and so each row of a matrix, has its own left side, so both sides are evaluated.
        let is_scalar = self.b.func.ty(left) == ir::Type::BOOL;
        if !is_scalar || self.is_cheap(b, 0) {
            let right = self.expr(b);
            let Some(&right) = right.first() else { return Vec::new() };
            return vec![self.binary_leaf(op, left, right)];
        }
        let ty = self.raw_ty(e);
        let right = |body: &mut Self| body.expr(b);
        if op == BinaryOp::And {
            self.choose(left, ty, right, |body| vec![body.b.bool(false)])
        } else {
            self.choose(left, ty, |body| vec![body.b.bool(true)], right)
        }
    }

    /// Returns true if an expression is cheap and free of effects, so that it may be evaluated
    /// unconditionally.
    fn is_cheap(&self, e: ExprId, depth: u32) -> bool {
        if depth > 4 {
            return false;
        }
        let next = |inner: ExprId| self.is_cheap(inner, depth + 1);
        match &self.lw.program.tables.exprs[e].meaning {
            Meaning::Literal | Meaning::Const(_) | Meaning::Value(_) | Meaning::EnumCase(_) => true,
            Meaning::Var(d) => self.locals.vars.contains_key(&crate::body::Name::Decl(*d)),
            Meaning::This => true,
            Meaning::Field { base, .. } => base.is_none_or(next),
            Meaning::Same(b) | Meaning::Swizzle { base: b, .. } | Meaning::Cast(b) => next(*b),
            Meaning::Unary(_, b) => next(*b) && self.is_number(*b),
            Meaning::Binary(op, a, b) => {
                !matches!(op, BinaryOp::Div | BinaryOp::Rem) && next(*a) && next(*b) && self.is_number(*a)
            }
            _ => false,
        }
    }

    fn is_number(&self, e: ExprId) -> bool {
        let info = &self.lw.program.tables.exprs[e];
        let ty = info.coerce.unwrap_or(info.ty);
        matches!(self.lw.program.types[ty], TyKind::Scalar(_) | TyKind::Vector(..))
    }

    /// Lowers `c ? a : b`.
    pub(crate) fn ternary(&mut self, e: ExprId, c: ExprId, a: ExprId, b: ExprId) -> Vec<Value> {
        let ty = self.raw_ty(e);
        if let Some(known) = self.known_condition(c) {
            let span = self.span_of(e);
            return self.expr_as(if known { a } else { b }, ty, span);
        }
        let cond = self.expr(c);
        let Some(&cond) = cond.first() else { return Vec::new() };
        let span = self.span_of(e);
        if self.b.func.ty(cond) != ir::Type::BOOL {
            let x = self.expr_as(a, ty, span);
            let y = self.expr_as(b, ty, span);
            return x.iter().zip(&y).map(|(&x, &y)| self.select_rows(cond, x, y)).collect();
        }
        self.choose(cond, ty, |body| body.expr_as(a, ty, span), |body| body.expr_as(b, ty, span))
    }

    /// Lowers an expression and converts it to a type.
    pub(crate) fn expr_as(&mut self, e: ExprId, ty: Ty, span: syntax::Span) -> Vec<Value> {
        let (values, from) = self.typed(e);
        self.convert(values, from, ty, span)
    }

    /// Lowers `a = b` and `a op= b`; returns the new value.
    pub(crate) fn assign(
        &mut self,
        e: ExprId,
        op: Option<BinaryOp>,
        target: ExprId,
        value: ExprId,
    ) -> Vec<Value> {
        let span = self.span_of(e);
        if op.is_none() && self.assign_chosen(target, value) {
            // It is a statement.
            let ty = self.raw_ty(e);
            return self.zeros(ty);
        }
        let place = self.place(target);
        let new = match op {
            None => self.expr_as(value, place.ty, span),
            Some(op) => {
                let (right, right_ty) = self.typed(value);
                let old = self.read(&place);
                self.b.span = ir_span(span);
                let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
                if !self.is_builtin(place.ty) {
                    let func = self.lw.program.operator_of(op, place.ty);
                    let operands = vec![(old, place.ty), (right, right_ty)];
                    self.call_operator(func, format_args!("`{}=`", op.text()), operands, span, place.ty)
                } else if shift || matches!(self.lw.program.types[place.ty], TyKind::Pointer(..)) {
                    let (Some(&a), Some(&b)) = (old.first(), right.first()) else { return Vec::new() };
                    vec![self.binary_leaf(op, a, b)]
                } else {
                    let operand = if self.is_builtin(right_ty) { right_ty } else { place.ty };
                    let right = self.convert(right, right_ty, operand, span);
                    // A scalar on the right of a vector is splatted.
                    let widened = self.wider_shape(place.ty, operand);
                    let old = self.convert(old, place.ty, widened, span);
                    let right = self.convert(right, operand, widened, span);
                    let (Some(&a), Some(&b)) = (old.first(), right.first()) else { return Vec::new() };
                    let result = vec![self.binary_leaf(op, a, b)];
                    self.convert(result, widened, place.ty, span)
                }
            }
        };
        self.b.span = ir_span(span);
        self.write(&place, new.clone());
        new
    }

    /// The operand type of `a op= b`: the type of `b`, unless `b` is a scalar and `a` is not.
    fn wider_shape(&self, a: Ty, b: Ty) -> Ty {
        let is_scalar = |ty: Ty| matches!(self.lw.program.types[ty], TyKind::Scalar(_) | TyKind::Enum(_));
        if is_scalar(b) && !is_scalar(a) { a } else { b }
    }

    /// Lowers `++e` and the like; returns the new value, or the old one for `e++`.
    pub(crate) fn inc_dec(&mut self, e: ExprId, target: ExprId) -> Vec<Value> {
        let (up, postfix) = match self.lw.program.ast.exprs[e].kind {
            syntax::ast::ExprKind::Postfix(up, _) => (up, true),
            syntax::ast::ExprKind::Unary(op, _) => (op == UnaryOp::PreInc, false),
            _ => (true, false),
        };
        let place = self.place(target);
        let old = self.read(&place);
        let Some(&value) = old.first() else { return old };
        let new = self.map_leaf(value, |body, v| {
            let ty = body.b.func.ty(v);
            if matches!(body.b.types[ty], TypeData::Buffer(_)) {
                let step = body.b.constant(Scalar::I64, if up { 1 } else { u64::MAX });
                return body.b.emit(Op::BufferOffset, &[v, step]);
            }
            let one = body.one(ty);
            body.b.emit(if up { Op::Add } else { Op::Sub }, &[v, one])
        });
        self.write(&place, vec![new]);
        if postfix { old } else { vec![new] }
    }

    /// Emits 1 in a scalar or vector type.
    fn one(&mut self, ty: ir::Type) -> Value {
        let scalar = scalar_in(self.b.types, ty);
        let one = self.b.constant(scalar, ir::scalar::one(scalar));
        if self.b.types.lanes(ty).is_some() { self.b.emit_typed(Op::Splat, &[one], ty) } else { one }
    }
}
