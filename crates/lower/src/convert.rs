//! Conversions between types, leaf by leaf.

use check::types::{BufferKind, Ty, TyKind};
use ir::{Op, Scalar, Type, TypeData, Value};
use syntax::Span;

use crate::body::Body;
use crate::leaves::scalar_in;

impl Body<'_, '_, '_> {
    /// Converts a value from one type to another.
    pub(crate) fn convert(&mut self, values: Vec<Value>, from: Ty, to: Ty, span: Span) -> Vec<Value> {
        if from == to || to == Ty::VOID {
            return if to == Ty::VOID { Vec::new() } else { values };
        }
        if from == Ty::ERROR || to == Ty::ERROR {
            return self.zeros(to);
        }
        let (source, target) = (self.lw.program.types[from].clone(), self.lw.program.types[to].clone());
        if let Some(content) = self.lw.block_content(from) {
            return if content == to { values } else { self.convert(values, content, to, span) };
        }
        if let (TyKind::Struct(..), TyKind::Optional(inner)) = (&source, &target)
            && *inner != from
            && let Some(init) = self.lw.program.converting_init(from, to)
        {
            return self.call_values(&check::tables::Callable::Func(init), vec![(values, from)], span);
        }
        match (&source, &target) {
            (TyKind::NoneLiteral, TyKind::Optional(_)) | (TyKind::NullPtr, _) => return self.zeros(to),
            (TyKind::Optional(a), TyKind::Optional(b)) => {
                let mut values = values;
                let has = values.pop();
                let mut converted = self.convert(values, *a, *b, span);
                converted.extend(has);
                return converted;
            }
            (_, TyKind::Optional(inner)) => {
                let mut values = self.convert(values, from, *inner, span);
                values.push(self.b.bool(true));
                return values;
            }
            (TyKind::Buffer(BufferKind::ConstantBuffer | BufferKind::ParameterBlock, content), _)
                if *content == to || !matches!(target, TyKind::Buffer(..)) =>
            {
                let content = &self.lw.program.types.bare(*content);
                let Some(&handle) = values.first() else { return self.zeros(to) };
                let place = self.content_place(*content, handle);
                let values = self.read(&place);
                return self.convert(values, *content, to, span);
            }
            (TyKind::Pointer(..) | TyKind::Buffer(..), TyKind::Scalar(check::types::Scalar::Bool)) => {
                let Some(&handle) = values.first() else { return self.zeros(to) };
                return vec![self.is_bound(handle)];
            }
            (TyKind::Pointer(..) | TyKind::Buffer(..), TyKind::Pointer(..) | TyKind::Buffer(..)) => {
                let target = self.layout(to);
                let fits = values
                    .first()
                    .is_some_and(|&v| Some(self.b.func.ty(v)) == target.leaves.first().map(|l| l.ty));
                if fits {
                    return values;
                }
                if let (TyKind::Pointer(..), [handle], Some(leaf)) =
                    (&source, &values[..], target.leaves.first())
                {
                    return vec![self.cast_pointer(*handle, leaf.ty)];
                }
            }
            (TyKind::Scalar(_), TyKind::Pointer(..)) => {
                let leaf = self.layout(to).leaves.first().map(|leaf| leaf.ty);
                let (Some(&number), Some(leaf)) = (values.first(), leaf) else { return self.zeros(to) };
                let bits = self.convert_leaf(number, Type::U64);
                return vec![self.handle_of(bits, leaf)];
            }
            (TyKind::Pointer(..), TyKind::Scalar(_)) => {
                let Some(&handle) = values.first() else { return self.zeros(to) };
                let ty = self.layout(to).leaves[0].ty;
                return vec![self.address(handle, ty)];
            }
            (TyKind::DiffPair(primal), _) if !matches!(target, TyKind::DiffPair(_)) => {
                // This is a derivative of a member that does not take the receiver's tangent.
                let layout = self.layout(from);
                let primal_len = layout.parts.first().map_or(0, |p| p.len);
                let values = values[..primal_len.min(values.len())].to_vec();
                return self.convert(values, *primal, to, span);
            }
            // This derivative takes a tangent where the requirement that it fulfils has none.
            (_, TyKind::DiffPair(primal)) if *primal == from => {
                let zero = self.dzero(from, span);
                return values.into_iter().chain(zero).collect();
            }
            (TyKind::Struct(..), _) if let Some(values) = self.convert_handle(&values, from, to, span) => {
                return values;
            }
            _ if self.lw.program.is_existential(from) || self.lw.program.is_existential(to) => {
                return self.convert_existential(values, from, to, span);
            }
            _ => {}
        }
        if let TyKind::Struct(..) = target
            && !self.lw.program.is_derived(from, to)
            && let Some(init) = self.lw.program.converting_init(from, to)
        {
            return self.call_values(&check::tables::Callable::Func(init), vec![(values, from)], span);
        }
        let target_layout = self.layout(to);
        if self.is_numeric_shape(&source) && self.is_numeric_shape(&target) {
            if let Some(values) = self.convert_stored(&values, from, to, span) {
                return values;
            }
            let (Some(&value), Some(leaf)) = (values.first(), target_layout.leaves.first()) else {
                return self.zeros(to);
            };
            if matches!(
                (&source, &target),
                (TyKind::Matrix(..), TyKind::Vector(..)) | (TyKind::Vector(..), TyKind::Matrix(..))
            ) {
                let mut components = Vec::new();
                self.components(value, &mut components);
                return self.of_components(to, &components);
            }
            return vec![self.convert_leaf(value, leaf.ty)];
        }
        // Structs and arrays are converted leaf by leaf.
        let source_layout = self.layout(from);
        let is_closed = !source_layout.leaves.iter().chain(&target_layout.leaves).any(|leaf| leaf.is_tag);
        if is_closed
            && source_layout.leaves.len() >= target_layout.leaves.len()
            && values.len() >= target_layout.leaves.len()
        {
            let fits = source_layout.leaves.iter().zip(&target_layout.leaves);
            let convertible = fits.clone().all(|(a, b)| {
                a.ty == b.ty
                    || (self.b.types.scalar_of(a.ty).is_some() && self.b.types.scalar_of(b.ty).is_some())
            });
            if convertible {
                let targets: Vec<Type> = target_layout.leaves.iter().map(|l| l.ty).collect();
                return values.iter().zip(targets).map(|(&v, ty)| self.convert_leaf(v, ty)).collect();
            }
        }
        let (from, into) = (self.lw.program.type_name(from), self.lw.program.type_name(to));
        self.unsupported(span, format_args!("conversion from `{from}` to `{into}` is"), to)
    }

    fn is_numeric_shape(&self, kind: &TyKind) -> bool {
        matches!(kind, TyKind::Scalar(_) | TyKind::Enum(_) | TyKind::Vector(..) | TyKind::Matrix(..))
    }

    /// Converts a scalar, vector, matrix or array of those: numbers are converted, scalars are splatted, and
    /// longer vectors and matrices are truncated.
    pub(crate) fn convert_leaf(&mut self, value: Value, to: Type) -> Value {
        let from = self.b.func.ty(value);
        if from == to {
            return value;
        }
        match (self.b.types[from], self.b.types[to]) {
            (TypeData::Scalar(_), TypeData::Scalar(s)) => self.convert_scalar(value, s),
            (TypeData::Scalar(_), TypeData::Vector(s, _)) => {
                let value = self.convert_scalar(value, s);
                self.b.emit_typed(Op::Splat, &[value], to)
            }
            (TypeData::Scalar(_) | TypeData::Vector(..), TypeData::Array(row, _)) => {
                let value = self.convert_leaf(value, row);
                self.b.emit_typed(Op::Splat, &[value], to)
            }
            (TypeData::Vector(_, n), TypeData::Vector(_, m)) if n == m => {
                self.b.emit_typed(Op::Convert, &[value], to)
            }
            (TypeData::Vector(s, n), TypeData::Vector(_, m)) => {
                let cut = self.b.types.vector(s, m);
                let cut = self.construct(cut, |body, k| match k < n {
                    true => body.b.emit(Op::Extract(k), &[value]),
                    false => body.b.zero(s.into()),
                });
                self.convert_leaf(cut, to)
            }
            (TypeData::Vector(..), TypeData::Scalar(s)) => {
                let first = self.b.emit(Op::Extract(0), &[value]);
                self.convert_scalar(first, s)
            }
            (TypeData::Array(_, n), TypeData::Array(row, _)) => self.construct(to, |body, k| {
                if k >= n {
                    return body.b.zero(row);
                }
                let element = body.b.emit(Op::Extract(k), &[value]);
                body.convert_leaf(element, row)
            }),
            (TypeData::Array(..), TypeData::Scalar(_) | TypeData::Vector(..)) => {
                let first = self.b.emit(Op::Extract(0), &[value]);
                self.convert_leaf(first, to)
            }
            _ => self.b.zero(to),
        }
    }

    fn convert_scalar(&mut self, value: Value, to: Scalar) -> Value {
        let from = self.b.func.ty(value);
        if from == Type::from(to) {
            return value;
        }
        let own = scalar_in(self.b.types, from);
        if let Some(bits) = self.constant_of(value) {
            let bits = ir::scalar::convert(own, to, bits);
            return self.b.constant(to, bits);
        }
        self.b.emit_typed(Op::Convert, &[value], to.into())
    }
}
