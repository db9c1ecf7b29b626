//! Converts functions to double precision: every `f16` and `f32` value becomes `f64`.
//!
//! `f ↦ f₆₄` performs the same operations on wider numbers, so that finite differences of `f₆₄` tell a wrong
//! derivative from rounding. Memory keeps its types: a value is converted where it is loaded or stored. The
//! pass runs before differentiation, so that derivatives are those of `f₆₄`.

use ir::{DerivativeOp, Func, Function, Module, Op, Scalar, Span, Type, TypeData, Types, Value, scalar};
use lower::FunctionInfo;

/// Widens every function of the module, and the descriptions of the functions that the host calls.
pub fn widen(module: &mut Module, functions: &mut [FunctionInfo]) {
    for info in functions {
        for leaf in info.params.iter_mut().chain([&mut info.result]).flat_map(|p| &mut p.leaves) {
            leaf.1 = wide(&mut module.types, leaf.1);
        }
    }
    for func in module.funcs.keys().collect::<Vec<Func>>() {
        let mut function = std::mem::take(&mut module.funcs[func]);
        widen_function(&mut module.types, &mut function);
        module.funcs[func] = function;
    }
}

fn widen_function(types: &mut Types, function: &mut Function) {
    // What is kept takes up to four times as many bytes.
    function.checkpoint.budget = function.checkpoint.budget.map(|bytes| bytes.saturating_mul(4));
    let old_types: Vec<Type> = function.values.values().map(|v| v.ty).collect();
    for value in function.values.values_mut() {
        value.ty = wide(types, value.ty);
    }
    for slot in function.params.iter_mut().chain(&mut function.results) {
        slot.ty = wide(types, slot.ty);
    }
    let old = |v: Value| old_types[v.as_u32() as usize];
    for region in function.regions.keys().collect::<Vec<_>>() {
        let mut insts = Vec::new();
        for inst in std::mem::take(&mut function.regions[region].insts) {
            let data = function.insts[inst].clone();
            match data.op {
                Op::Const(bits) => {
                    let Some(&result) = data.results.first() else { continue };
                    if let TypeData::Scalar(from) = types[old(result)]
                        && let TypeData::Scalar(to) = types[function.ty(result)]
                    {
                        function.insts[inst].op = Op::Const(scalar::convert(from, to, bits));
                    }
                    insts.push(inst);
                }
                // Memory, the bits of values, and the level of a decision keep their types.
                Op::BufferLoad(_)
                | Op::Atomic(..)
                | Op::BufferStore(_)
                | Op::Bitcast
                | Op::CallDerivative(DerivativeOp::Decisions, _) => {
                    let is_call = matches!(data.op, Op::CallDerivative(..));
                    let narrow = |v: Value| !is_call && is_changed(types, old(v));
                    let inputs: Vec<(usize, Value)> =
                        data.args.iter().copied().enumerate().filter(|a| narrow(a.1)).collect();
                    for (k, arg) in inputs {
                        let ty = old(arg);
                        let converted = convert(types, function, arg, ty, data.span, &mut insts);
                        function.insts[inst].args[k] = converted;
                    }
                    insts.push(inst);
                    for (k, &result) in data.results.iter().enumerate() {
                        let ty = old(result);
                        if is_changed(types, ty) && (!is_call || k + 1 == data.results.len()) {
                            let loaded = new_value(function, ty);
                            function.insts[inst].results[k] = loaded;
                            let to = function.ty(result);
                            convert_into(types, function, loaded, result, to, data.span, &mut insts);
                        }
                    }
                }
                _ => insts.push(inst),
            }
        }
        function.regions[region].insts = insts;
    }
}

/// The type with `f64` in place of every narrower float; buffers keep their elements.
fn wide(types: &mut Types, ty: Type) -> Type {
    match types[ty] {
        TypeData::Scalar(s) if s.is_float() => Scalar::F64.into(),
        TypeData::Vector(s, n) if s.is_float() => types.vector(Scalar::F64, n),
        TypeData::Array(t, n) => {
            let t = wide(types, t);
            types.array(t, n)
        }
        TypeData::Stack(t) => {
            let t = wide(types, t);
            types.stack(t)
        }
        TypeData::Cell(t) => {
            let t = wide(types, t);
            types.cell(t)
        }
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Buffer(_) | TypeData::Residuals(_) => ty,
    }
}

fn is_changed(types: &Types, ty: Type) -> bool {
    matches!(types.scalar_of(ty), Some(Scalar::F16 | Scalar::F32))
}

fn new_value(function: &mut Function, ty: Type) -> Value {
    function.values.push(ir::ValueData::new(ty))
}

fn push(
    function: &mut Function,
    op: Op,
    args: &[Value],
    result: Value,
    span: Span,
    insts: &mut Vec<ir::Inst>,
) {
    insts.push(function.make(op, args, &[result], span));
}

/// Creates a new value: `from` with its numbers converted to give a value of type `to`.
fn convert(
    types: &mut Types,
    function: &mut Function,
    from: Value,
    to: Type,
    span: Span,
    insts: &mut Vec<ir::Inst>,
) -> Value {
    let result = new_value(function, to);
    convert_into(types, function, from, result, to, span, insts);
    result
}

fn convert_into(
    types: &mut Types,
    function: &mut Function,
    from: Value,
    result: Value,
    to: Type,
    span: Span,
    insts: &mut Vec<ir::Inst>,
) {
    let TypeData::Array(element, n) = types[to] else {
        push(function, Op::Convert, &[from], result, span, insts);
        return;
    };
    let from_element = types.element(function.ty(from)).unwrap_or(element);
    let mut parts = Vec::new();
    for idx in 0..n {
        let part = new_value(function, from_element);
        push(function, Op::Extract(idx), &[from], part, span, insts);
        parts.push(convert(types, function, part, element, span, insts));
    }
    push(function, Op::Construct, &parts, result, span, insts);
}
