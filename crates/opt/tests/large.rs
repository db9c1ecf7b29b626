//! Tests large programs: compile time stays about linear, and deep nesting does not crash the process.

use std::time::{Duration, Instant};

use ir::{Builder, Module, Op, Slot, Type, Value};
use pullback_opt as opt;

fn slot(ty: Type) -> Slot {
    Slot { ty, diff: false, linear: false, name: None }
}

fn optimise(build: impl FnOnce(&mut Builder<'_>, Value) -> Value + Send + 'static) -> Duration {
    let work = move || {
        let mut module = Module::default();
        let mut types = std::mem::take(&mut module.types);
        let mut b = Builder::new(&mut types, "f");
        let x = b.param(slot(Type::F32));
        let y = build(&mut b, x);
        let func = b.finish(vec![y], vec![slot(Type::F32)]);
        module.types = types;
        module.funcs.push(func);
        let start = Instant::now();
        opt::before_ad(&mut module, &opt::Options::default());
        opt::after_ad(&mut module, &opt::Options::default(), &[]);
        let time = start.elapsed();
        assert!(ir::verify::verify_module(&module).is_empty());
        time
    };
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(work);
    thread.expect("a thread").join().expect("no panic")
}

/// Checks that four times the size takes less than twelve times the time.
fn about_linear(mut time: impl FnMut(u32) -> Duration, size: u32) {
    let (small, large) = (time(size), time(4 * size));
    assert!(large < 12 * small + Duration::from_millis(200), "{small:?}, four times as large {large:?}");
}

#[test]
fn a_long_line() {
    let time = |n| {
        optimise(move |b, x| {
            let mut y = x;
            for k in 0..n {
                let c = b.float(ir::Scalar::F32, f64::from(k % 7) + 0.5);
                let z = b.emit(Op::Mul, &[y, c]);
                y = b.emit(Op::Add, &[z, x]);
            }
            y
        })
    };
    about_linear(time, 5_000);
}

#[test]
fn deep_nesting() {
    let time = |n| {
        optimise(move |b, x| {
            let zero = b.float(ir::Scalar::F32, 0.0);
            let mut opened = Vec::new();
            let mut y = x;
            for _ in 0..n {
                let c = b.emit(Op::Lt, &[y, zero]);
                let region = b.open();
                opened.push((c, region));
                y = b.emit(Op::Add, &[y, x]);
            }
            for (c, region) in opened.into_iter().rev() {
                b.close(vec![y]);
                let other = b.open();
                let z = b.emit(Op::Mul, &[x, x]);
                b.close(vec![z]);
                y = b.nest(Op::If, &[c], &[region, other])[0];
            }
            y
        })
    };
    about_linear(time, 250);
}

#[test]
fn a_long_chain_of_inserts() {
    let time = |n| {
        optimise(move |b, x| {
            let ty = b.types.array(Type::F32, 2 * n);
            let mut whole = b.zero(ty);
            for k in 0..n {
                whole = b.emit(Op::Insert(k), &[whole, x]);
            }
            let mut y = x;
            for k in 0..n {
                let part = b.emit(Op::Extract((k * 7) % (2 * n)), &[whole]);
                y = b.emit(Op::Add, &[y, part]);
            }
            y
        })
    };
    about_linear(time, 1000);
}

#[test]
fn many_cells_in_branches() {
    let time = |n| {
        optimise(move |b, x| {
            let zero = b.float(ir::Scalar::F32, 0.0);
            let cells: Vec<Value> = (0..n).map(|_| b.emit(Op::Local, &[x])).collect();
            for &cell in &cells {
                let old = b.emit(Op::Load, &[cell]);
                let c = b.emit(Op::Lt, &[old, zero]);
                let yes = b.open();
                b.effect(Op::Store, &[cell, x]);
                b.close(vec![]);
                let no = b.open();
                b.effect(Op::AddTo, &[cell, x]);
                b.close(vec![]);
                b.nest(Op::If, &[c], &[yes, no]);
            }
            let mut y = x;
            for &cell in &cells {
                let part = b.emit(Op::Load, &[cell]);
                y = b.emit(Op::Add, &[y, part]);
            }
            y
        })
    };
    about_linear(time, 1000);
}

/// `f0` and further functions, each of which calls the previous one once, in a module whose root is the last.
fn chain(n: u32) -> Module {
    let mut module = Module::default();
    let mut types = std::mem::take(&mut module.types);
    for k in 0..n {
        let mut b = Builder::new(&mut types, format!("f{k}"));
        let x = b.param(slot(Type::F32));
        let mut y = b.emit(Op::Detach, &[x]);
        if k > 0 {
            let callee = module.funcs.keys().next_back().expect("the one before");
            y = b.call(Op::Call(callee), &[y], &[(Type::F32, false)])[0];
        }
        for _ in 0..8 {
            y = b.emit(Op::Mul, &[y, x]);
        }
        let twice = b.emit(Op::Mul, &[x, x]);
        let again = b.emit(Op::Mul, &[x, x]);
        let sum = b.emit(Op::Add, &[twice, again]);
        let y = b.emit(Op::Add, &[y, sum]);
        let func = b.finish(vec![y], vec![slot(Type::F32)]);
        module.funcs.push(func);
    }
    module.types = types;
    module
}

#[test]
fn a_chain_of_calls() {
    let time = |n| {
        let mut module = chain(n);
        let root = module.funcs.keys().next_back().expect("a function");
        let start = Instant::now();
        opt::after_ad(&mut module, &opt::Options::default(), &[root]);
        let time = start.elapsed();
        opt::prune(&mut module, &[root]);
        assert!(ir::verify::verify_module(&module).is_empty());
        for func in module.funcs.values().filter(|f| f.has_body()) {
            let mut squares = 0;
            func.walk(func.body(), &mut |inst| {
                let data = &func.insts[inst];
                assert_ne!(data.op, Op::Detach);
                squares += usize::from(data.op == Op::Mul && data.args[0] == data.args[1]);
            });
            assert!(squares <= 1, "{} is left as it came: {squares} squares", func.name);
        }
        time
    };
    about_linear(time, 500);
}

#[test]
fn what_is_called_once_is_part_of_its_caller() {
    let mut module = chain(100);
    let root = module.funcs.keys().next_back().expect("a function");
    opt::after_ad(&mut module, &opt::Options::default(), &[root]);
    opt::prune(&mut module, &[root]);
    let left: Vec<&str> = module.funcs.values().filter(|f| f.has_body()).map(|f| f.name.as_str()).collect();
    assert_eq!(left, ["f99"]);
}
