//! Lowering of expressions, with one match arm for each meaning.

use check::tables::{Callable, Meaning};
use check::types::{Ty, TyKind, Val};
use ir::build::float_bits;
use ir::{Op, Scalar, Value};
use syntax::ast::{BinaryOp, ExprKind};
use syntax::{ExprId, Span};

use crate::body::{Body, Name};
use crate::leaves::scalar_in;
use crate::lowerer::ir_span;
use crate::statements::truncate;

impl Body<'_, '_, '_> {
    /// The value of an expression in the type that its context requires.
    pub(crate) fn expr(&mut self, e: ExprId) -> Vec<Value> {
        let values = self.expr_raw(e);
        let (own, seen) = (self.raw_ty(e), self.expr_ty(e));
        if own == seen {
            return values;
        }
        let span = self.span_of(e);
        self.b.span = ir_span(span);
        self.convert(values, own, seen, span)
    }

    /// The value of an expression, and the type in which its context requires it.
    pub(crate) fn typed(&mut self, e: ExprId) -> (Vec<Value>, Ty) {
        (self.expr(e), self.expr_ty(e))
    }

    /// The value of an expression in its own type.
    pub(crate) fn expr_raw(&mut self, e: ExprId) -> Vec<Value> {
        let span = self.span_of(e);
        let outer = std::mem::replace(&mut self.b.span, ir_span(span));
        let mut values = self.nested(span, |body| body.value_raw(e)).unwrap_or_else(|| {
            let ty = self.raw_ty(e);
            self.zeros(ty)
        });
        if self.lw.program.lost.contains(&e) {
            values = self.detach(values);
        }
        self.b.span = outer;
        values
    }

    /// The value of an expression with the rules of its meaning; see [`Body::expr_raw`].
    pub(crate) fn value_raw(&mut self, e: ExprId) -> Vec<Value> {
        let ty = self.raw_ty(e);
        let span = self.span_of(e);
        match self.lw.program.tables.exprs[e].meaning.clone() {
            Meaning::Error => self.internal(span, "an expression without a meaning", ty),
            Meaning::Type(_) | Meaning::Namespace(_) => self.internal(span, "a type is used as a value", ty),
            Meaning::Literal => self.literal(e, ty, span),
            Meaning::AddressOf(of) => self.address_of(e, of),
            Meaning::Const(x) => self.number(x, ty),
            Meaning::Value(val) => {
                let val = self.lw.program.substitute_val(&val, &self.subst);
                if let (Val::Pack(vals), TyKind::Pack(parts)) = (&val, self.lw.program.types[ty].clone()) {
                    let known = vals.iter().map(|v| self.lw.program.val_int(v, &self.subst).unwrap_or(0));
                    let known: Vec<i64> = known.collect();
                    let each = known.into_iter().zip(parts);
                    return each.flat_map(|(n, part)| self.integer(n, part)).collect();
                }
                match self.lw.program.val_int(&val, &self.subst) {
                    Some(n) => self.integer(n, ty),
                    None if self.lw.only_checks => self.zeros(ty),
                    None => self.unsupported(span, "a generic value that only the link step knows is", ty),
                }
            }
            Meaning::SizeOf(kind, of) => {
                // The type may be one that is stored with a data layout.
                let of = self.lw.program.substitute(of, &self.subst);
                match self.lw.program.measure(kind, of) {
                    Some(n) => self.integer(n, ty),
                    None => {
                        let name = self.lw.program.type_name(of);
                        self.unsupported(span, format_args!("the size of `{name}` is"), ty)
                    }
                }
            }
            Meaning::EnumCase(case) => {
                let n = self.lw.program.enum_case_value(case);
                self.integer(n, ty)
            }
            Meaning::Func { .. } => self.unsupported(span, "a function as a value is", ty),
            Meaning::Call { func: Callable::Func(func), base, args }
                if self.lw.program.gives_place(func.decl) =>
            {
                let place = self.called_place(e, &func, base, &args, ty);
                self.read(&place)
            }
            Meaning::Call { func, base, args } => self.call_expr(e, &func, base, &args),
            Meaning::Init { init, args } => {
                let init = self.lw.program.substitute_func(&init, &self.subst);
                self.construct_by_init(ty, &init, &args, span)
            }
            Meaning::Construct(parts) => self.construct_from(ty, &parts, span),
            Meaning::Aggregate(init) => {
                let values = self.initializer(&init, span);
                let from = self.initializer_ty(&init);
                self.convert(values, from, ty, span)
            }
            Meaning::Cast(inner) | Meaning::Same(inner) => self.expr_as(inner, ty, span),
            Meaning::Unary(op, operand) => self.unary_expr(e, op, operand),
            Meaning::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.short_circuit(e, op, a, b),
            Meaning::Binary(..) => self.binary_expr(e),
            Meaning::Assign { op, target, value } => self.assign(e, op, target, value),
            Meaning::AssignCall { func, target, value } => self.assign_call(e, &func, target, value),
            Meaning::IncDec(target) => self.inc_dec(e, target),
            Meaning::Ternary(c, a, b) => self.ternary(e, c, a, b),
            Meaning::Try(_) => match self.locals.vars.get(&Name::Try(e)).copied() {
                Some(var) => self.read_var(var),
                None => self.zeros(ty),
            },
            Meaning::NoDiff(inner) => {
                let outer = std::mem::replace(&mut self.detached, true);
                let (values, from) = self.typed(inner);
                self.detached = outer;
                let values = self.detach(values);
                self.convert(values, from, ty, span)
            }
            Meaning::MakePair { primal, differential } => self.make_pair(ty, primal, differential, span),
            Meaning::Expand { inner, shape } => self.expand(inner, &shape, span),
            Meaning::MakeTuple(parts) => {
                let elements = match self.lw.program.types[ty].clone() {
                    TyKind::Tuple(elements) | TyKind::Pack(elements) => elements,
                    _ => Vec::new(),
                };
                let mut values = Vec::new();
                let mut elements = elements.into_iter();
                for (own, from) in self.pack_inputs(&parts) {
                    let to = elements.next().unwrap_or(from);
                    values.extend(self.convert(own, from, to, span));
                }
                values
            }
            Meaning::TypeIs(..) => {
                let holds = self.known_condition(e) == Some(true);
                vec![self.b.bool(holds)]
            }
            Meaning::TypeTest { value, ty, cast } => {
                let to = self.ty(ty);
                self.type_test(value, to, cast, span)
            }
            Meaning::Var(_)
            | Meaning::StaticMember(_)
            | Meaning::This
            | Meaning::Field { .. }
            | Meaning::DiffField { .. }
            | Meaning::PairField { .. }
            | Meaning::TupleField { .. }
            | Meaning::TupleSwizzle { .. }
            | Meaning::Each(_)
            | Meaning::PackPart(..)
            | Meaning::Swizzle { .. }
            | Meaning::MatrixSwizzle { .. }
            | Meaning::Index { .. }
            | Meaning::Deref(_)
            | Meaning::Chosen(_)
            | Meaning::Property { .. } => {
                let place = self.place(e);
                self.b.span = ir_span(span);
                self.read_used(&place)
            }
        }
    }

    fn literal(&mut self, e: ExprId, ty: Ty, span: Span) -> Vec<Value> {
        match self.lw.program.ast.exprs[e].kind.clone() {
            ExprKind::Int { value, .. } => match self.lw.scalar_of(ty) {
                Some(s) if s.is_float() => self.number(value as f64, ty),
                _ => self.integer(value as i64, ty),
            },
            ExprKind::Float { value, .. } => self.number(value, ty),
            ExprKind::Bool(b) => self.integer(i64::from(b), ty),
            ExprKind::None | ExprKind::NullPtr => self.zeros(ty),
            ExprKind::String(text) => {
                let number = self.lw.text_number(&text);
                vec![self.b.constant(Scalar::U32, number)]
            }
            _ => self.internal(span, "a literal is none", ty),
        }
    }

    /// An integer constant in a scalar type (or in each lane of a vector).
    pub(crate) fn integer(&mut self, n: i64, ty: Ty) -> Vec<Value> {
        let layout = self.layout(ty);
        let Some(leaf) = layout.leaves.first() else { return Vec::new() };
        let scalar = scalar_in(self.b.types, leaf.ty);
        let bits = match scalar {
            Scalar::F16 | Scalar::F32 | Scalar::F64 => float_bits(scalar, n as f64),
            Scalar::Bool => u64::from(n != 0),
            _ => truncate(scalar, n),
        };
        let value = self.b.constant(scalar, bits);
        vec![self.convert_leaf(value, leaf.ty)]
    }

    /// A number constant in a scalar type (or in each lane of a vector).
    pub(crate) fn number(&mut self, x: f64, ty: Ty) -> Vec<Value> {
        let layout = self.layout(ty);
        let Some(leaf) = layout.leaves.first() else { return Vec::new() };
        let scalar = scalar_in(self.b.types, leaf.ty);
        if !scalar.is_float() {
            return self.integer(x as i64, ty);
        }
        let value = self.b.constant(scalar, float_bits(scalar, x));
        vec![self.convert_leaf(value, leaf.ty)]
    }

    /// Detaches values, so that no derivatives flow through them.
    pub(crate) fn detach(&mut self, values: Vec<Value>) -> Vec<Value> {
        values
            .into_iter()
            .map(|v| {
                let ty = self.b.func.ty(v);
                if self.b.types.is_differentiable(ty) { self.b.emit(Op::Detach, &[v]) } else { v }
            })
            .collect()
    }

    /// Lowers `diffPair(p, d)`; without `d` the differential is zero.
    fn make_pair(&mut self, ty: Ty, primal: ExprId, differential: Option<ExprId>, span: Span) -> Vec<Value> {
        let layout = self.layout(ty);
        let part = |k: usize| layout.parts.get(k).map(|p| p.ty);
        let (Some(primal_ty), Some(diff_ty)) = (part(0), part(1)) else {
            let name = self.lw.program.type_name(ty);
            return self.unsupported(span, format_args!("`{name}` is"), ty);
        };
        let mut values = self.expr_as(primal, primal_ty, span);
        match differential {
            Some(d) => values.extend(self.expr_as(d, diff_ty, span)),
            None if self.lw.has_user_zero(primal_ty) => values.extend(self.dzero(primal_ty, span)),
            None => values.extend(self.zeros(diff_ty)),
        }
        values
    }
}
