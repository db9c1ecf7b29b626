//! Large programs: the passes take time in proportion to the program, and memory in proportion to what the
//! derivative reads.

use ir::interp::{Memory, Value, call};
use ir::{Builder, Func, LoopInfo, Module, Op, Scalar, Slot, Type};
use pullback_autodiff::{backward, forward};

fn slot(ty: Type) -> Slot {
    Slot { ty, diff: true, linear: false, name: None }
}

fn verified(module: &Module) {
    let errors = ir::verify::verify_module(module);
    assert!(errors.is_empty(), "{}", errors[0]);
}

fn gradient(module: &mut Module, f: Func, x: f64) -> f64 {
    let back = backward(module, f).expect("a derivative");
    verified(module);
    let results =
        call(module, back, &[Value::f64(x), Value::f64(1.0)], &mut Memory::default()).expect("it runs");
    f64::from_bits(results[0].lane())
}

/// Runs a test on a thread with the stack size that the driver uses.
fn with_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(test).expect("a thread");
    assert!(thread.join().is_ok());
}

#[test]
fn ten_thousand_operations() {
    let mut module = Module::default();
    let mut b = Builder::new(&mut module.types, "long");
    let x = b.param(slot(Type::F64));
    let k = b.float(Scalar::F64, 1.0001);
    let mut v = x;
    for _ in 0..10_000 {
        v = b.emit(Op::Mul, &[v, k]);
    }
    let body = b.finish(vec![v], vec![slot(Type::F64)]);
    let f = module.funcs.push(body);
    let expected = 1.0001f64.powi(10_000);
    let found = gradient(&mut module, f, 3.0);
    assert!((found - expected).abs() < 1e-6 * expected, "{found} {expected}");
}

/// Values kept in a chain of calls is not passed on from each function to the next, which would take parameters in
/// proportion to the square of the chain.
#[test]
fn a_chain_of_a_thousand_calls() {
    with_stack(|| {
        let mut module = Module::default();
        let mut chain: Vec<Func> = Vec::new();
        for k in 0..1000 {
            let mut b = Builder::new(&mut module.types, format!("f{k}"));
            let x = b.param(slot(Type::F64));
            let inner = chain.last().map_or(x, |&f| b.call_func(f, &[slot(Type::F64)], &[x])[0]);
            let square = b.emit(Op::Mul, &[inner, inner]);
            let half = b.float(Scalar::F64, 0.5);
            let scaled = b.emit(Op::Mul, &[square, half]);
            let y = b.emit(Op::Add, &[scaled, half]);
            let body = b.finish(vec![y], vec![slot(Type::F64)]);
            chain.push(module.funcs.push(body));
        }
        // At its fixed point, `x ↦ x²/2 + 1/2` has the slope 1.
        let found = gradient(&mut module, chain[999], 1.0);
        assert!((found - 1.0).abs() < 1e-9, "{found}");
        let params: usize = module.funcs.values().map(|f| f.params.len()).sum();
        assert!(params < 40 * chain.len(), "{params}");
    });
}

#[test]
fn two_hundred_nested_arms_and_loops() {
    with_stack(|| {
        let mut module = Module::default();
        let mut b = Builder::new(&mut module.types, "deep");
        let x = b.param(slot(Type::F64));
        let v = nest(&mut b, x, 200);
        let body = b.finish(vec![v], vec![slot(Type::F64)]);
        let f = module.funcs.push(body);
        let found = gradient(&mut module, f, 1.0);
        assert!((found - 0.5f64.powi(200)).abs() < 1e-70, "{found}");
    });
}

fn nest(b: &mut Builder, v: Value_, depth: usize) -> Value_ {
    let half = b.float(Scalar::F64, 0.5);
    let v = b.emit(Op::Mul, &[v, half]);
    if depth == 1 {
        return v;
    }
    if depth.is_multiple_of(10) {
        let one = b.u32(1);
        let region = b.open();
        b.region_param(Type::U32);
        let carried = b.region_param(Type::F64);
        let inner = nest(b, carried, depth - 1);
        b.close(vec![inner]);
        return b.nest(Op::For(LoopInfo::default()), &[one, v], &[region])[0];
    }
    let zero = b.float(Scalar::F64, 0.0);
    let c = b.emit(Op::Gt, &[v, zero]);
    let then = b.open();
    let inner = nest(b, v, depth - 1);
    b.close(vec![inner]);
    let other = b.open();
    b.close(vec![v]);
    b.nest(Op::If, &[c], &[then, other])[0]
}

type Value_ = ir::Value;

#[test]
fn a_thousand_functions_that_call_each_other() {
    with_stack(|| {
        let mut module = Module::default();
        let mut last: Option<Func> = None;
        for k in 0..1000 {
            let mut b = Builder::new(&mut module.types, format!("f{k}"));
            let x = b.param(slot(Type::F64));
            let y = match last {
                Some(f) => b.call(Op::Call(f), &[x], &[(Type::F64, false)])[0],
                None => b.emit(Op::Mul, &[x, x]),
            };
            let one = b.float(Scalar::F64, 1.0);
            let y = b.emit(Op::Mul, &[y, one]);
            let body = b.finish(vec![y], vec![slot(Type::F64)]);
            last = Some(module.funcs.push(body));
        }
        let f = last.expect("the last one");
        assert_eq!(gradient(&mut module, f, 3.0), 6.0);
        forward(&mut module, f).expect("forward");
        verified(&module);
    });
}

/// Counts the lanes of all stacks that a call of the primal half returns.
#[test]
fn an_update_of_one_element_keeps_one_number() {
    let mut module = Module::default();
    let array = module.types.array(Type::F64, 1024);
    let mut b = Builder::new(&mut module.types, "update");
    let a = b.param(slot(array));
    let cell = b.emit(Op::Local, &[a]);
    let n = b.u32(1000);
    let one = b.u32(1);
    let region = b.open();
    let i = b.region_param(Type::U32);
    let x = b.emit(Op::Load, &[cell, i]);
    let y = b.emit(Op::Mul, &[x, x]);
    let next = b.emit(Op::Add, &[i, one]);
    b.effect(Op::Store, &[cell, next, y]);
    b.close(vec![]);
    b.nest(Op::For(LoopInfo::default()), &[n], &[region]);
    let last = b.emit(Op::Load, &[cell, n]);
    let body = b.finish(vec![last], vec![slot(Type::F64)]);
    let f = module.funcs.push(body);
    let stages = pullback_autodiff::stages(&mut module, f).expect("stages");
    verified(&module);
    let ones = Value::array(vec![Value::f64(1.0); 1024]);
    let results = call(&module, stages.primal, &[ones], &mut Memory::default()).expect("it runs");
    let kept: usize = results.iter().map(|v| v.lanes().len()).sum();
    assert!(kept <= 1 + 1000, "{kept} numbers are kept");
}

/// `f(k + 1)(x) = f(k)(x) + (x > 10 ? f(k)(x / 2) : 0)`: the number of values that all calls together compute
/// doubles with each level, so the residuals of the upper levels are not kept.
#[test]
fn forty_levels_of_two_calls() {
    with_stack(|| {
        let mut module = Module::default();
        let mut b = Builder::new(&mut module.types, "f0");
        let x = b.param(slot(Type::F64));
        let square = b.emit(Op::Mul, &[x, x]);
        let body = b.finish(vec![square], vec![slot(Type::F64)]);
        let mut f = module.funcs.push(body);
        for k in 1..=40 {
            let mut b = Builder::new(&mut module.types, format!("f{k}"));
            let x = b.param(slot(Type::F64));
            let first = b.emit_typed(Op::Call(f), &[x], Type::F64);
            let ten = b.float(Scalar::F64, 10.0);
            let is_large = b.emit(Op::Gt, &[x, ten]);
            let then = b.open();
            let half = b.float(Scalar::F64, 0.5);
            let half = b.emit(Op::Mul, &[x, half]);
            let second = b.emit_typed(Op::Call(f), &[half], Type::F64);
            b.close(vec![second]);
            let otherwise = b.open();
            let zero = b.float(Scalar::F64, 0.0);
            b.close(vec![zero]);
            let second = b.nest(Op::If, &[is_large], &[then, otherwise]);
            let sum = b.emit(Op::Add, &[first, second[0]]);
            let body = b.finish(vec![sum], vec![slot(Type::F64)]);
            f = module.funcs.push(body);
        }
        let found = gradient(&mut module, f, 3.0);
        assert!((found - 6.0).abs() < 1e-12, "{found}");
        let made: usize = module.funcs.values().map(|f| f.insts.len()).sum();
        assert!(made < 100_000, "{made} instructions");
        let most = module.funcs.values().map(|f| f.params.len().max(f.results.len())).max();
        assert!(most < Some(5_000), "{most:?} values are handed over");
    });
}
