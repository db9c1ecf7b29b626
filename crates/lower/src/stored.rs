//! Converts floats that are stored and converted only (`BFloat16` and those of 8 bits), which are their bits here.
//!
//! The arithmetic is in `core/smallfloats.slang`, for single numbers. From such a float: its value as a `float`, which
//! is exact, and from there to the wanted type. To such a float: rounded to odd to a `float`, and from there to the
//! bits; the library says why that rounds as if it were done at once.

use check::tables::{Callable, FuncRef};
use check::types::{Args, Scalar, Ty, TyKind};
use ir::Value;
use syntax::Span;

use crate::body::Body;

/// The library's functions that give the bits of a `float`, and the `float` that bits stand for.
fn functions(scalar: Scalar) -> Option<[&'static str; 2]> {
    match scalar {
        Scalar::BFloat16 => Some(["__bfloat16Bits", "__ofBfloat16"]),
        Scalar::FloatE4M3 => Some(["__floatE4M3Bits", "__ofFloatE4M3"]),
        Scalar::FloatE5M2 => Some(["__floatE5M2Bits", "__ofFloatE5M2"]),
        _ => None,
    }
}

impl Body<'_, '_, '_> {
    /// Converts numbers, vectors and matrices from or to floats that are only stored; `None` if they are no such.
    pub(crate) fn convert_stored(
        &mut self,
        values: &[Value],
        from: Ty,
        to: Ty,
        span: Span,
    ) -> Option<Vec<Value>> {
        let [source, target] = [from, to].map(|ty| match self.lw.program.types[ty] {
            TyKind::Vector(element, _, _) | TyKind::Matrix(element, ..) => element,
            _ => ty,
        });
        let [of, bits] = [source, target].map(|ty| match self.lw.program.types[ty] {
            TyKind::Scalar(scalar) => functions(scalar),
            _ => None,
        });
        if source == target || of.is_none() && bits.is_none() {
            return None;
        }
        let leaf = self.layout(to).leaves.first()?.ty;
        let scalar = self.lw.scalar_of(target)?;
        let value = self.map_leaf(*values.first()?, |body, value| {
            let own = body.b.func.ty(value);
            let mut numbers = Vec::new();
            body.components(value, &mut numbers);
            for number in &mut numbers {
                let mut ty = source;
                if let Some([_, of]) = of {
                    (*number, ty) = (body.call_library(of, *number, None, span), Ty::FLOAT);
                }
                if let Some([bits, _]) = bits {
                    let odd = body.wide(number, ty, span);
                    *number = body.call_library(bits, odd, None, span);
                } else {
                    *number = body.convert_leaf(*number, ir::Type::from(scalar));
                }
            }
            match body.b.types.lanes(own) {
                None => numbers[0],
                Some(_) => {
                    let ty = body.b.types.with_scalar(own, scalar);
                    body.construct(ty, |_, k| numbers[k as usize])
                }
            }
        });
        Some(vec![self.convert_leaf(value, leaf)])
    }

    /// A number of any type as a `float`, rounded to odd.
    fn wide(&mut self, number: &Value, ty: Ty, span: Span) -> Value {
        let (mut number, mut ty) = (*number, ty);
        let short = match self.lw.program.types[ty] {
            TyKind::Scalar(scalar) => scalar.is_int() && scalar.size() < 4 || scalar == Scalar::Bool,
            _ => false,
        };
        let is_enum = matches!(self.lw.program.types[ty], TyKind::Enum(_));
        if short || is_enum {
            number = self.convert_leaf(number, ir::Type::I32);
            ty = Ty::INT;
        }
        self.call_library("__roundToOdd", number, Some(ty), span)
    }

    /// Calls the library's function of this name, with this type of parameter if there are several.
    fn call_library(&mut self, name: &str, value: Value, takes: Option<Ty>, span: Span) -> Value {
        let found = self.lw.program.library_functions(name).into_iter().find_map(|decl| {
            let function = FuncRef { decl, args: Args::default(), self_ty: None };
            let ty = self.lw.program.func_signature(&function).params.first()?.ty;
            takes.is_none_or(|takes| takes == ty).then_some((function, ty))
        });
        let (function, ty) = found.expect("the library converts numbers of all types");
        self.call_values(&Callable::Func(function), vec![(vec![value], ty)], span)[0]
    }
}
