//! Programs that take less common paths through the emitter, compared with the interpreter.

use ir::interp::{Memory, Value, call};
use ir::{Func, Module};
use native::{Compiled, Options};

fn module(text: &str) -> Module {
    let module = ir::parse::parse_module(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let errors = ir::verify::verify_module(&module);
    assert!(errors.is_empty(), "{errors:#?}");
    module
}

fn compile(module: &Module) -> (Compiled, Func) {
    let func = module.find("main").expect("a function main");
    let options = Options { functions: vec![func], ..Options::default() };
    (pullback_codegen_cranelift::compile(module, &options).expect("compiles"), func)
}

/// Calls compiled and interpreted `main`, checks that they agree, and returns the results.
fn agree(text: &str, args: &[&[Value]]) -> Vec<Vec<Value>> {
    let module = module(text);
    let (compiled, func) = compile(&module);
    args.iter()
        .map(|args| {
            let expected = call(&module, func, args, &mut Memory::new(&module, |_| 1)).expect("runs");
            let got = compiled.call(func, args).expect("runs");
            for (slot, (a, b)) in module.funcs[func].results.iter().zip(expected.iter().zip(&got)) {
                let (a, b) = (a, b);
                assert!(
                    a.same(b, &module.types, slot.ty),
                    "{} but compiled {}",
                    a.display(&module.types, slot.ty),
                    b.display(&module.types, slot.ty)
                );
            }
            got
        })
        .collect()
}

fn error(text: &str, args: &[Value]) -> String {
    let module = module(text);
    let (compiled, func) = compile(&module);
    let expected = call(&module, func, args, &mut Memory::new(&module, |_| 1)).expect_err("fails");
    let got = compiled.call(func, args).expect_err("fails");
    assert_eq!(expected.span, got.span);
    assert_eq!(expected.message, got.message);
    got.message
}

#[test]
fn carried_arrays_are_swapped() {
    let text = "
        func main(v0: [3 x f32], v1: [3 x f32], v2: u32) -> ([3 x f32], [3 x f32]) {
            v3, v4 = for v2, v0, v1 (v5, v6, v7) {
                v8 = index v6, v5
                v9: f32 = const 10.0
                v10 = add v8, v9
                v11 = insert.0 v7, v10
                yield v11, v6
            }
            yield v3, v4
        }";
    let (a, b) = (
        Value::array([1.0, 2.0, 3.0].map(Value::f32).into()),
        Value::array([4.0, 5.0, 6.0].map(Value::f32).into()),
    );
    for n in 0..6 {
        agree(text, &[&[a.clone(), b.clone(), Value::u32(n)]]);
    }
}

/// A loop that keeps its results, inside a loop that keeps those stacks; consumed in reverse into cells that
/// hold stacks of stacks.
const NESTED: &str = "
    func main(v0: u32, v1: u32, v2: f32) -> (f32, f32, stack<stack<f32>>, stack<[2 x f32]>) {
        v3, v4, v5 = for v0, v2 (v10, v11) {
            v12: u32 = const 0
            v13, v14, v15 = loop v11, v12 (v16, v17) {
                v18: u32 = const 1
                v19 = add v17, v18
                v20: f32 = const 1.5
                v21 = mul v16, v20
                v22 = lt v19, v1
                yield v22, v21, v19, v16
            }
            v23: [2 x f32] = construct v11, v13
            v24: f32 = const 0.25
            v25 = mul v13, v24
            yield v25, v15, v23
        }
        v30: stack<stack<f32>> = zero
        v31 = local v30
        v32: f32 = const 0.0
        v33 = for v0, v32 (v40, v41) {
            v42: u32 = const 1
            v43 = sub v0, v42
            v44 = sub v43, v40
            v45 = index v4, v44
            v46 = sub_cell v31, v44
            v47 = for v1, v41 (v48, v49) {
                v50 = index v45, v48
                add_to v46, v48, v50
                v51: u32 = const 2
                v52 = mul v48, v51
                add_to v46, v52, v50
                v53 = add v49, v50
                yield v53
            }
            yield v47
        }
        v60 = load v31
        v61 = load v31
        v62: u32 = const 0
        v63 = index v60, v62
        v64: u32 = const 2
        v65 = index v63, v64
        v66 = add v33, v65
        yield v3, v66, v61, v5
    }";

#[test]
fn stacks_of_stacks() {
    let x = Value::f32(0.7);
    for (n, m) in [(0, 0), (1, 1), (3, 5), (40, 33), (2, 1000)] {
        let results = agree(NESTED, &[&[Value::u32(n), Value::u32(m), x.clone()]]);
        assert_eq!(results[0][2].len(), n as usize);
    }
}

#[test]
fn memory_of_a_trip_is_given_back() {
    // The 6,000 trips keep 12,000 numbers each: 288 MB if nothing were released.
    let text = "
        func inner(v0: u32, v1: f32) -> (f32) {
            v2, v3 = for v0, v1 (v4, v5) {
                v6: f32 = const 0.5
                v7 = mul v5, v6
                yield v7, v5
            }
            v8 = index v3, v0
            v9 = add v2, v8
            yield v9
        }
        func main(v0: u32, v1: f32) -> (f32) {
            v2 = for v0, v1 (v3, v4) {
                v5, v6 = for v0, v4 (v7, v8) {
                    v9: f32 = const 0.5
                    v10 = mul v8, v9
                    yield v10, v8
                }
                v11: u32 = const 0
                v12 = index v6, v11
                v13 = call inner(v0, v12)
                v14 = add v13, v12
                yield v14
            }
            yield v2
        }";
    let module = module(text);
    let (compiled, func) = compile(&module);
    let used = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    let before = used();
    compiled.call(func, &[Value::u32(6_000), Value::f32(1.0)]).expect("runs");
    assert!(used() < before + (64 << 20));
    agree(text, &[&[Value::u32(20), Value::f32(1.0)]]);
}

#[test]
fn big_arrays_and_long_vectors() {
    let text = "
        func fill(v0: f32, v1: u32) -> ([9000 x f32], f32x20) {
            v2: [9000 x f32] = splat v0
            v3 = local v2
            v4: u32 = const 9000
            for v4 (v5) {
                v6: f32 = convert v5
                add_to v3, v5, v6
                yield
            }
            v7 = load v3
            store v3, v1, v0
            add_to v3, v7
            v8 = load v3
            v9: f32x20 = splat v0
            yield v8, v9
        }
        func main(v0: f32, v1: u32) -> (f32, f32, f32, [9000 x f32]) {
            v2, v3 = call fill(v0, v1)
            v4 = index v2, v1
            v5 = index v3, v1
            v6: u32 = const 3
            v7, v8 = for v6, v2, v0 (v9, v10, v11) {
                v12, v13 = call fill(v11, v9)
                v14 = sum v13
                yield v12, v14
            }
            yield v4, v5, v8, v7
        }";
    for n in [0, 5, 8999, 9000, u32::MAX] {
        agree(text, &[&[Value::f32(1.5), Value::u32(n)]]);
    }
}

#[test]
fn switches_on_every_kind_of_tag() {
    for (ty, cases, values) in [
        ("i8", "-1 0 5", vec![0xffu64, 0, 5, 1]),
        ("u8", "255 0 -1", vec![255, 0, 1]),
        ("i32", "-1 7 0", vec![0xffff_ffff, 7, 0, 8]),
        ("u64", "1 2 3", vec![1, 2, 3, u64::MAX]),
        ("i64", "-9 2 3", vec![(-9i64) as u64, 2, 3, 4]),
    ] {
        let cases: Vec<&str> = cases.split(' ').collect();
        let text = format!(
            "func main(v0: {ty}) -> (i32) {{
                v1 = switch v0 {{
                    case {} {{ v2: i32 = const 10 \n yield v2 }}
                    case {} {{ v3: i32 = const 20 \n yield v3 }}
                    case {} {{ v4: i32 = const 30 \n yield v4 }}
                    default {{ v5: i32 = const 40 \n yield v5 }}
                }}
                yield v1
            }}",
            cases[0], cases[1], cases[2]
        );
        for bits in values {
            agree(&text, &[&[Value::Scalar(bits)]]);
        }
    }
}

#[test]
fn many_results_and_recursion() {
    let text = "
        func fib(v0: i32) -> (i32, f32, f32x4, f64, f32x4, f32x4, u8, u8, i32, i32, i32, i32) {
            v1: i32 = const 2
            v2 = lt v0, v1
            v3, v4 = if v2 {
                v5: f32 = const 1.0
                yield v0, v5
            } else {
                v6: i32 = const 1
                v7 = sub v0, v6
                v8, v9, v10, v11, v12, v13, v14, v15, v16, v17, v18, v19 = call fib(v7)
                v20 = sub v0, v1
                v21, v22, v23, v24, v25, v26, v27, v28, v29, v30, v31, v32 = call fib(v20)
                v33 = add v8, v21
                v34 = extract.2 v26
                v35 = add v34, v9
                yield v33, v35
            }
            v36: f32x4 = splat v4
            v37: f64 = convert v4
            v38: u8 = convert v3
            yield v3, v4, v36, v37, v36, v36, v38, v38, v3, v0, v3, v0
        }
        func main(v0: i32) -> (i32, f32, f32x4, f64, f32x4, f32x4, u8, u8, i32, i32, i32, i32) {
            v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12 = call fib(v0)
            yield v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12
        }";
    let results = agree(text, &[&[Value::i32(12)]]);
    assert_eq!(results[0][0], Value::i32(144));
}

#[test]
fn errors_stop_the_program() {
    let deep = "
        func main(v0: f32) -> (f32) {
            v1 = call main(v0)
            v2 = call main(v1)
            v3 = add v1, v2
            yield v3
        }";
    assert!(error(deep, &[Value::f32(1.0)]).contains("nested more than 10000 deep"));
    let assertion = "
        func check(v0: i32) -> (i32) {
            v1: i32 = const 3
            v2 = lt v0, v1
            assert \"too large\", v2
            yield v0
        }
        func main(v0: i32) -> (i32) {
            v1 = call check(v0)
            yield v1
        }";
    agree(assertion, &[&[Value::i32(2)]]);
    assert_eq!(error(assertion, &[Value::i32(3)]), "too large");
    let bound = "
        func main(v0: u32, v1: f32) -> (f32, stack<f32>) {
            v2, v3 = for max_iters(4) v0, v1 (v4, v5) {
                v6 = add v5, v5
                yield v6, v5
            }
            yield v2, v3
        }";
    agree(bound, &[&[Value::u32(4), Value::f32(1.0)]]);
    error(bound, &[Value::u32(5), Value::f32(1.0)]);
    let bound = "
        func main(v0: u32, v1: u32) -> (u32, stack<u32>) {
            v2, v3 = loop max_iters(4) v1 (v4) {
                v5: u32 = const 1
                v6 = lt v4, v0
                v7, v8 = if v6 {
                    v9 = add v4, v5
                    v10: bool = const true
                    yield v10, v9
                } else {
                    v11: bool = const false
                    yield v11, v4
                }
                yield v7, v8, v4
            }
            yield v2, v3
        }";
    for n in 0..5 {
        agree(bound, &[&[Value::u32(n), Value::u32(0)]]);
    }
    error(bound, &[Value::u32(5), Value::u32(0)]);
    let huge = "
        func main(v0: u32) -> (stack<f32>) {
            v1: stack<f32> = zero
            v2 = local v1
            v3: f32 = const 1.0
            add_to v2, v0, v3
            v4 = load v2
            yield v4
        }";
    agree(huge, &[&[Value::u32(9)]]);
    error(huge, &[Value::u32(u32::MAX)]);
}

#[test]
fn what_cannot_be_expressed_is_named() {
    let module = module(
        "func f(v0: f32 diff) -> (f32 diff) { yield v0 }
         func main(v0: f32) -> (f32, f32) {
             v1, v2 = call_fwd f(v0, v0)
             yield v1, v2
         }",
    );
    let func = module.find("main").expect("main");
    let options = Options { functions: vec![func], ..Options::default() };
    let error = pullback_codegen_cranelift::compile(&module, &options).expect_err("unsupported");
    assert!(error.op.starts_with("CallDerivative(Fwd"), "{error}");
    let text = pullback_codegen_cranelift::clif_text(&module, &Options::default()).expect("no entry");
    assert!(text.is_empty());
}
