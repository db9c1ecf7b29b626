//! Second derivatives, summed over directions: `__intrinsic_op(second, g)`, by which the library's Laplacians are made.
//!
//! The attribute names a function `g(f, x)` of the library that calls `f` at `x` and has the leading generic parameters of
//! the declaration. The function that is built takes `f`, `x` and an array of directions of `x`, and yields a struct of
//! the value, the array of the first derivatives, and the sum of the second ones: [`DerivativeOp::Second`] between leaves.
//! Without an array, the directions are the unit vectors of `x`, an array or a vector of numbers. Their zeros are absent
//! tangents, and so are all tangents of `f`, which does not move.

use check::tables::{Callable, FuncRef};
use check::types::Ty;
use ir::{DerivativeOp, Function, Op, Type, TypeData, Value};

use crate::body::Body;
use crate::derivatives::tangent_slots;
use crate::lowerer::{Lowerer, Making};

/// The name of the operation.
pub(crate) const NAME: &str = "second";

impl Lowerer<'_> {
    /// The function whose derivative a declaration stands for.
    fn operand_of(&mut self, f: &FuncRef) -> Option<Callable> {
        let argument = *self.program.attribute(f.decl, "__intrinsic_op")?.args.get(1)?;
        let decl = *self.program.functions_in_attribute(f.decl, argument).first()?;
        let n = self.program.own_params(decl).len();
        let args = f.args.get(..n)?.to_vec();
        self.canonical(Callable::Func(FuncRef { decl, args, self_ty: None })).ok()
    }
}

/// Builds such a function.
pub(crate) fn build(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
    let Making { lw, types, declared } = making;
    let operand = lw.operand_of(f)?;
    let callee = lw.function(types, &operand);
    let (mut body, bound) = Body::with_params(lw, types, declared);
    let ([function, point, directions @ ..], [of_function, of_point]) = (&bound[..], &callee.sig.params[..])
    else {
        body.internal(declared.span, "a second derivative has not the parameters of its operand", Ty::VOID);
        return None;
    };
    body.refuse_pointers_in(of_function);
    let map = of_point.diff.clone()?;
    let layout = body.layout(declared.sig.ret);
    let [_, slopes, _] = &layout.parts[..] else { return None };
    let (slope, n_directions) = body.lw.array_of(slopes.ty)?;
    let still: Vec<Type> = (tangent_slots(&callee.params).iter())
        .take(of_function.diff.as_ref().map_or(0, |diff| diff.map.iter().flatten().count()))
        .map(|slot| slot.ty)
        .collect();
    let mut args = [&function[..], point].concat();
    for k in 0..n_directions {
        args.extend(still.iter().map(|&ty| body.b.absent(ty)));
        let direction: Vec<Value> = match directions {
            [directions] => directions.iter().map(|&leaf| body.b.emit(Op::Extract(k), &[leaf])).collect(),
            _ => point.iter().map(|&leaf| body.unit(leaf, k)).collect(),
        };
        args.extend(body.gather(&map, &direction));
    }
    let mut slots = callee.results.clone();
    for _ in 0..=n_directions {
        slots.extend(tangent_slots(&callee.results));
    }
    let results = body.derivative(DerivativeOp::Second, callee.func, &args, &slots);
    let (value, mut tangents) = results.split_at(callee.results.len());
    let map = callee.sig.ret_diff.clone()?;
    let mut all = value.to_vec();
    let firsts = (0..n_directions).map(|_| body.spread(&map, value, &mut tangents)).collect();
    all.extend(body.array_of_elements(slopes.ty, slope, firsts));
    all.extend(body.spread(&map, value, &mut tangents));
    body.finish(all, declared)
}

impl Body<'_, '_, '_> {
    /// The tangent of an array or a vector of numbers of which only one component moves. Vectors are mostly taken apart
    /// by name, so that absent components cost nothing. Arrays are read in loops, in which every trip would have to ask
    /// for what is absent.
    fn unit(&mut self, like: Value, component: u32) -> Value {
        let ty = self.b.func.ty(like);
        let Some(element) = self.b.types.element(ty) else { return self.b.splat_float(ty, 1.0) };
        let in_numbers = matches!(self.b.types[ty], TypeData::Array(..));
        let unit = self.construct(ty, |body, k| match k == component {
            true => body.b.splat_float(element, 1.0),
            false if in_numbers => body.b.splat_float(element, 0.0),
            false => body.b.absent(element),
        });
        // Zeros that are written for a tangent would be absent.
        if in_numbers { self.b.emit(Op::Present, &[unit]) } else { unit }
    }
}
