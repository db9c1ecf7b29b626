//! Large and deep functions compile in reasonable time, or are refused by name.

use ir::interp::Value;
use ir::{Builder, LoopInfo, Module, Op, Scalar, Slot, Type};
use pullback_codegen_cranelift::{Compiled, Options};

fn slot(ty: Type) -> Slot {
    Slot { ty, diff: false, linear: false, name: None }
}

fn run(module: &mut Module, function: ir::Function, args: &[Value]) -> Vec<Value> {
    let func = module.funcs.push(function);
    let options = Options { functions: vec![func], ..Options::default() };
    Compiled::compile(module, &options).expect("compiles").call(func, args).expect("runs")
}

#[test]
fn a_long_expression() {
    let mut module = Module::default();
    let mut types = std::mem::take(&mut module.types);
    let mut b = Builder::new(&mut types, "main");
    let x = b.param(slot(Type::F64));
    let mut sum = x;
    for k in 0..100_000 {
        let c = b.float(Scalar::F64, (k % 7) as f64);
        sum = b.emit(Op::Add, &[sum, if k % 2 == 0 { c } else { x }]);
    }
    let function = b.finish(vec![sum], vec![slot(Type::F64)]);
    module.types = types;
    let expected: f64 =
        1.0 + (0..100_000).map(|k| if k % 2 == 0 { (k % 7) as f64 } else { 1.0 }).sum::<f64>();
    assert_eq!(run(&mut module, function, &[Value::f64(1.0)]), [Value::f64(expected)]);
}

#[test]
fn deep_nesting() {
    let mut module = Module::default();
    let mut types = std::mem::take(&mut module.types);
    let mut b = Builder::new(&mut types, "main");
    let x = b.param(slot(Type::F32));
    let c = b.param(slot(Type::BOOL));
    let (mut open, mut carried) = (Vec::new(), x);
    for depth in 0..240 {
        let one = b.u32(1);
        let region = b.open();
        if depth % 2 == 0 {
            b.region_param(Type::U32, false);
            open.push((region, one, carried));
            carried = b.region_param(Type::F32, false);
        } else {
            open.push((region, c, carried));
        }
        carried = b.emit(Op::Add, &[carried, x]);
    }
    for (region, n, outer) in open.into_iter().rev() {
        b.close(vec![carried]);
        carried = if n == c {
            let other = b.open();
            b.close(vec![outer]);
            b.nest(Op::If, &[c], &[region, other])[0]
        } else {
            b.nest(Op::For(LoopInfo::default()), &[n, outer], &[region])[0]
        };
    }
    let function = b.finish(vec![carried], vec![slot(Type::F32)]);
    module.types = types;
    assert_eq!(run(&mut module, function, &[Value::f32(1.0), Value::bool(true)]), [Value::f32(241.0)]);
}

#[test]
fn many_arrays_fit_on_the_stack() {
    // 400 arrays of 4 kB each, and a function that calls itself with them.
    let mut module = Module::default();
    let mut types = std::mem::take(&mut module.types);
    let array = types.array(Type::F32, 1024);
    let mut b = Builder::new(&mut types, "main");
    let n = b.param(slot(Type::I32));
    let mut sum = b.float(Scalar::F32, 0.0);
    for k in 0..400 {
        let x = b.float(Scalar::F32, k as f64);
        let whole = b.emit_typed(Op::Splat, &[x], array);
        let element = b.emit(Op::Index, &[whole, n]);
        sum = b.emit(Op::Add, &[sum, element]);
    }
    let zero = b.i32(0);
    let again = b.emit(Op::Gt, &[n, zero]);
    let deeper = b.open();
    let one = b.i32(1);
    let less = b.emit(Op::Sub, &[n, one]);
    let result = b.call(Op::Call(ir::Func::from_u32(0)), &[less], &[(Type::F32, false)])[0];
    let both = b.emit(Op::Add, &[sum, result]);
    b.close(vec![both]);
    let other = b.open();
    b.close(vec![sum]);
    let total = b.nest(Op::If, &[again], &[deeper, other])[0];
    let function = b.finish(vec![total], vec![slot(Type::F32)]);
    module.types = types;
    assert_eq!(run(&mut module, function, &[Value::i32(9)]), [Value::f32(798_000.0)]);
}
