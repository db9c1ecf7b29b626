//! Large and deep functions compile in reasonable time, or are refused with an error that names them.

use ir::interp::Value;
use ir::{Builder, LoopInfo, Module, Op, Scalar, Slot, Type};
use native::Options;
use pullback_codegen_cranelift::compile;

fn slot(ty: Type) -> Slot {
    Slot { ty, diff: false, linear: false, name: None }
}

fn run(module: &mut Module, function: ir::Function, args: &[Value]) -> Vec<Value> {
    let func = module.funcs.push(function);
    let options = Options { functions: vec![func], ..Options::default() };
    compile(module, &options).expect("compiles").call(func, args).expect("runs")
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
            b.region_param(Type::U32);
            open.push((region, one, carried));
            carried = b.region_param(Type::F32);
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
    // The program has 400 arrays of 4 kB each, and a function that calls itself with them.
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

#[test]
fn a_large_frame_in_a_group_with_barriers() {
    // The program has 20,000 values that are all live at once, in a callee of every thread.
    let mut module = Module::default();
    let mut types = std::mem::take(&mut module.types);
    let float = module.mem.intern(ir::MemData::Scalar(Scalar::F32));
    let global = module.globals.push(ir::GlobalData {
        name: "out".into(),
        space: ir::Space::ReadWrite,
        ty: float,
        init: None,
        span: ir::Span::NONE,
    });
    let buffer = types.buffer(float);
    let mut b = Builder::new(&mut types, "wide");
    let x = b.param(slot(Type::F32));
    let handle = b.emit_typed(Op::GlobalRef(global), &[], buffer);
    let zero = b.u32(0);
    let values: Vec<ir::Value> = (0..20_000)
        .map(|_| b.emit_typed(Op::BufferLoad(ir::Path::default()), &[handle, zero], Type::F32))
        .collect();
    b.effect(Op::Barrier, &[]);
    let mut sum = x;
    for v in values {
        sum = b.emit(Op::Add, &[sum, v]);
    }
    let wide = b.finish(vec![sum], vec![slot(Type::F32)]);
    let wide = module.funcs.push(wide);
    let mut b = Builder::new(&mut types, "main");
    let handle = b.emit_typed(Op::GlobalRef(global), &[], buffer);
    let index = b.emit(Op::Builtin(ir::Builtin::GroupIndex), &[]);
    let x = b.emit_typed(Op::Convert, &[index], Type::F32);
    let sum = b.call(Op::Call(wide), &[x], &[(Type::F32, false)])[0];
    b.effect(Op::BufferStore(ir::Path::default()), &[handle, index, sum]);
    let func = b.finish(vec![], vec![]);
    module.types = types;
    let func = module.funcs.push(func);
    module.entries.push(ir::Entry::kernel("main", func, [64, 1, 1]));
    let compiled = compile(&module, &Options::default()).expect("compiles");
    let mut memory = vec![1.0f32; 64];
    let desc = native::Desc { ptr: memory.as_mut_ptr().cast(), count: 64 };
    // SAFETY: the buffer outlives the worker, and nothing else uses it.
    let mut worker = unsafe { native::Worker::with_buffers(&compiled, &[desc]) };
    let entry = compiled.entry("main").expect("an entry point");
    worker.run_groups(entry, std::iter::once([0; 3])).expect("runs");
    assert_eq!(memory[..3], [20_000.0, 20_001.0, 20_002.0]);
}

/// Straight-line code that keeps all its values until the end, as a derivative does.
fn keeps_everything(n: u32) -> (Module, ir::Function) {
    let mut module = Module::default();
    let mut types = std::mem::take(&mut module.types);
    let mut b = Builder::new(&mut types, "main");
    let x = b.param(slot(Type::F64));
    let mut kept = vec![x];
    for k in 0..n as usize {
        let y = b.emit(Op::Mul, &[kept[k], x]);
        let y = b.emit(Op::Add, &[y, x]);
        kept.push(y);
    }
    let mut sum = x;
    for &y in kept.iter().rev() {
        let z = b.emit(Op::Mul, &[sum, y]);
        sum = b.emit(Op::Add, &[z, y]);
    }
    let function = b.finish(vec![sum], vec![slot(Type::F64)]);
    module.types = types;
    (module, function)
}

#[test]
fn very_many_values_live_at_once() {
    let n = 4000;
    let (mut module, function) = keeps_everything(n);
    let x = -0.5f64;
    let mut kept = vec![x];
    for k in 0..n as usize {
        kept.push(kept[k] * x + x);
    }
    let expected = kept.iter().rev().fold(x, |sum, &y| sum * y + y);
    assert_eq!(run(&mut module, function, &[Value::f64(x)]), [Value::f64(expected)]);
}

#[test]
fn many_functions_on_all_cores() {
    let mut module = Module::default();
    let n = 300;
    let mut last = None;
    for k in 0..n {
        let mut types = std::mem::take(&mut module.types);
        let mut b = Builder::new(&mut types, format!("f{k}"));
        let x = b.param(slot(Type::F64));
        let mut y = match last {
            Some(callee) => b.call(Op::Call(callee), &[x], &[(Type::F64, false)])[0],
            None => x,
        };
        for j in 0..200 {
            let c = b.float(Scalar::F64, f64::from((k + j) % 5));
            y = b.emit(if j % 2 == 0 { Op::Add } else { Op::Sub }, &[y, c]);
        }
        let function = b.finish(vec![y], vec![slot(Type::F64)]);
        module.types = types;
        last = Some(module.funcs.push(function));
    }
    let step = |y: f64, k: i32| {
        (0..200).fold(y, |y, j| {
            let c = f64::from((k + j) % 5);
            if j % 2 == 0 { y + c } else { y - c }
        })
    };
    let expected = (0..n).fold(1.0, step);
    let func = last.expect("there are functions");
    let options = Options { functions: vec![func], ..Options::default() };
    let compiled = compile(&module, &options).expect("compiles");
    assert_eq!(compiled.call(func, &[Value::f64(1.0)]).expect("runs"), [Value::f64(expected)]);
}
