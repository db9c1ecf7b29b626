//! Dispatches on both backends give the same buffers, the same output and the same errors.

use std::sync::atomic::{AtomicBool, Ordering};

use ir::{Module, Space};
use native::Compiled;
use pullback_run::{Buffers, Interpreter, Options, Output, Program, Stopped, dispatch};

fn module(text: &str) -> Module {
    let module = ir::parse::parse_module(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let errors = ir::verify::verify_module(&module);
    assert!(errors.is_empty(), "{errors:#?}");
    module
}

fn compile(module: &Module, trap: bool) -> Compiled {
    let options = native::Options { trap, ..Default::default() };
    codegen_cranelift::compile(module, &options).expect("compiles")
}

fn run(
    backend: &dyn Program,
    module: &Module,
    groups: [u32; 3],
    bindings: &[(&str, Vec<u8>)],
    threads: usize,
) -> (Result<Output, Stopped>, Vec<Vec<u8>>) {
    let mut buffers = Buffers::new(module);
    for (name, bytes) in bindings {
        let (global, _) = module.globals.iter().find(|(_, g)| g.name == *name).expect("a global");
        buffers.bind(module, global, bytes);
    }
    let result =
        dispatch(backend, module, 0, groups, &mut buffers, Options { threads, ..Options::default() });
    let host = module.globals.iter().filter(|(_, g)| !matches!(g.space, Space::GroupShared | Space::Private));
    (result, host.map(|(g, _)| buffers.bytes(g).to_vec()).collect())
}

/// Runs the module's only entry point on both backends, with one worker and with three.
fn agree(text: &str, groups: [u32; 3], bindings: &[(&str, Vec<u8>)]) -> (String, Vec<Vec<u8>>) {
    let module = module(text);
    let (expected, expected_buffers) = run(&Interpreter, &module, groups, bindings, 1);
    let expected = expected.expect("runs").stdout;
    let code = compile(&module, false);
    for threads in [1, 3] {
        let (got, buffers) = run(&code, &module, groups, bindings, threads);
        assert_eq!(expected, got.expect("runs").stdout);
        assert_eq!(expected_buffers, buffers);
    }
    (expected, expected_buffers)
}

fn floats(xs: impl IntoIterator<Item = f32>) -> Vec<u8> {
    xs.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn ints(xs: impl IntoIterator<Item = u32>) -> Vec<u8> {
    xs.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn every_thread_knows_its_place() {
    let text = r#"
        global out: read_write u32x4
        func main() {
            v0: u32x3 = dispatch_thread_id
            v1: u32x3 = group_id
            v2: u32x3 = group_thread_id
            v3: u32 = group_index
            v4 = extract.0 v0
            v5 = extract.1 v0
            v6 = extract.2 v0
            v7: u32 = const 6
            v8: u32 = const 12
            v9 = mul v5, v7
            v10 = mul v6, v8
            v11 = mul v10, v8
            v12 = add v4, v9
            v13 = add v12, v11
            v14 = sum v1
            v15 = sum v2
            v16: u32x4 = construct v13, v14, v15, v3
            v17 = global_ref out
            buffer_store v17, v13, v16
            printf "%u/%u ", v13, v3
            yield
        }
        entry main: main [3, 2, 2]"#;
    let (stdout, buffers) = agree(text, [2, 6, 3], &[("out", vec![0; 16 * 6 * 12 * 6])]);
    assert!(stdout.starts_with("0/0 1/1 2/2 6/3 "));
    assert_eq!(buffers[0][..4], [0; 4]);
}

#[test]
fn groups_reduce_with_barriers() {
    let text = "
        global input: read_only f32
        global sums: read_write f32
        global part: group_shared [64 x f32]
        func main() {
            v0: u32x3 = dispatch_thread_id
            v1 = extract.0 v0
            v2: u32 = group_index
            v3 = global_ref input
            v4: f32 = buffer_load v3, v1
            v5 = global_ref part
            v6: u32 = const 0
            buffer_store<*> v5, v6, v2, v4
            v7: u32 = const 6
            v8: u32 = const 32
            v9 = for v7, v8 (v10, v11) {
                barrier
                v12 = lt v2, v11
                if v12 {
                    v13 = add v2, v11
                    v14: f32 = buffer_load<*> v5, v6, v2
                    v15: f32 = buffer_load<*> v5, v6, v13
                    v16 = add v14, v15
                    buffer_store<*> v5, v6, v2, v16
                    yield
                }
                v17: u32 = const 1
                v18 = shr v11, v17
                yield v18
            }
            v20 = eq v2, v6
            if v20 {
                v21: u32x3 = group_id
                v22 = extract.0 v21
                v23: f32 = buffer_load<0> v5, v6
                v24 = global_ref sums
                buffer_store v24, v22, v23
                yield
            } else {
                barrier
                yield
            }
            yield
        }
        entry main: main [64, 1, 1]";
    let input = floats((0..64 * 9).map(|k| k as f32 * 0.25));
    let (_, buffers) = agree(text, [9, 1, 1], &[("input", input), ("sums", vec![0; 36])]);
    let first: f32 = (0..64).map(|k| k as f32 * 0.25).sum();
    assert_eq!(buffers[1][..4], first.to_le_bytes());
}

#[test]
fn atomics_of_every_kind() {
    for (ty, one) in
        [("f32", 1.0f32.to_bits() as u64), ("u32", 1), ("i64", 1), ("u8", 1), ("f64", 1f64.to_bits())]
    {
        let text = format!(
            "
            global cells: read_write {ty}
            func main() {{
                v0 = global_ref cells
                v1: {ty} = const 0x{one:x}
                v2: u32 = const 0
                v3: u32 = const 1
                v4: u32 = const 2
                v5: u32x3 = dispatch_thread_id
                v6 = extract.0 v5
                v7: {ty} = convert v6
                v8: {ty} = atomic.add v0, v2, v1
                v9: {ty} = atomic.max v0, v3, v7
                v10: {ty} = atomic.min v0, v4, v7
                v11: u32 = const 99
                v12: {ty} = atomic.add v0, v11, v1
                v13: u32 = const 3
                v14: {ty} = atomic.compare_exchange v0, v13, v12, v1
                yield
            }}
            entry main: main [8, 1, 1]"
        );
        agree(&text, [15, 1, 1], &[("cells", vec![0; 64])]);
    }
}

#[test]
fn private_globals_start_anew() {
    let text = r#"
        struct S { a: f32, b: [2 x f32x2], n: i32 }
        global state: private [2 x struct S] = init
        global count: private i32
        global out: read_write f32
        func init() -> ([2 x f32], [2 x [2 x f32x2]], [2 x i32]) {
            v0: f32 = const 1.5
            v1: [2 x f32] = splat v0
            v2: f32 = const 2.5
            v3: f32x2 = construct v0, v2
            v4: [2 x f32x2] = splat v3
            v5: [2 x [2 x f32x2]] = splat v4
            v6: i32 = const 7
            v7: i32 = const 8
            v8: [2 x i32] = construct v6, v7
            yield v1, v5, v8
        }
        func bump() {
            v0 = global_ref count
            v1: i32 = const 0
            v2: i32 = buffer_load v0, v1
            v3: i32 = const 1
            v4 = add v2, v3
            buffer_store v0, v1, v4
            v5 = global_ref state
            v6: i32 = buffer_load<1.2> v5, v1
            v7: f32 = buffer_load<*.1.*.1> v5, v1, v3, v3
            buffer_store<*.1.*.1> v5, v1, v3, v3, v7
            v8 = add v6, v4
            buffer_store<1.2> v5, v1, v8
            v9: f32x2 = buffer_load<0.1.1> v5, v1
            v10 = sum v9
            v11: u32x3 = dispatch_thread_id
            v12 = extract.0 v11
            v13 = global_ref out
            v14: f32 = convert v8
            v15 = add v10, v14
            v16 = add v15, v7
            buffer_store v13, v12, v16
            yield
        }
        func main() {
            call bump()
            call bump()
            yield
        }
        entry main: main [4, 1, 1]"#;
    let (_, buffers) = agree(text, [5, 1, 1], &[("out", vec![0; 80])]);
    assert_eq!(buffers[0], floats([17.5; 20]));
}

#[test]
fn pointers_handles_and_bounds() {
    let text = r#"
        global data: uniform handle<f32>
        global scale: uniform f32
        global out: read_write f32x3
        func main() {
            v0 = global_ref data
            v1: u32 = const 0
            v2: buffer<f32> = buffer_load v0, v1
            v3: i64 = const 2
            v4 = buffer_offset v2, v3
            v5: i32 = const -1
            v6: f32 = buffer_load v4, v5
            v7 = buffer_len v4
            v8: i32 = const -3
            v9: f32 = buffer_load v4, v8
            v10 = global_ref scale
            v11: f32 = buffer_load v10, v1
            v12 = mul v6, v11
            v13: f32 = convert v7
            v14: f32x3 = construct v12, v13, v9
            v15 = global_ref out
            buffer_store v15, v1, v14
            v16: u32 = const 5
            buffer_store v15, v16, v14
            v17: i64 = const -1
            buffer_store v15, v17, v14
            buffer_store v4, v5, v11
            printf "%d %f\n", v7, v9
            yield
        }
        entry main: main [1, 1, 1]"#;
    let bindings =
        [("data", floats([1.0, 2.0, 3.0, 4.0, 5.0])), ("scale", floats([0.5])), ("out", vec![0; 12])];
    let (stdout, buffers) = agree(text, [1, 1, 1], &bindings);
    assert_eq!(stdout, "3 0.000000\n");
    assert_eq!(buffers[2], floats([1.0, 3.0, 0.0]));
    assert_eq!(buffers[0], floats([1.0, 0.5, 3.0, 4.0, 5.0]));
    // With `trap`, the first access out of range is an error.
    let module = module(text);
    let code = compile(&module, true);
    let (result, _) = run(&code, &module, [1, 1, 1], &bindings, 1);
    assert!(result.expect_err("out of range").error.message.contains("range"));
    // Unbound buffers are empty.
    agree(text, [1, 1, 1], &[]);
}

#[test]
fn an_error_names_its_thread() {
    let text = r#"
        global limit: uniform u32
        func main() {
            v0: u32x3 = dispatch_thread_id
            v1 = extract.0 v0
            v2 = global_ref limit
            v3: u32 = const 0
            v4: u32 = buffer_load v2, v3
            v5 = lt v1, v4
            assert "past the limit", v5
            yield
        }
        entry main: main [8, 1, 1]"#;
    let module = module(text);
    let code = compile(&module, false);
    for threads in [1, 4] {
        let bindings = [("limit", ints([100]))];
        let (expected, _) = run(&Interpreter, &module, [64, 1, 1], &bindings, 1);
        let (got, _) = run(&code, &module, [64, 1, 1], &bindings, threads);
        let (expected, got) = (expected.expect_err("fails"), got.expect_err("fails"));
        assert_eq!(expected.error.message, got.error.message);
        if threads == 1 {
            assert_eq!(expected.error.thread, got.error.thread);
        }
    }
    let with_barrier = text.replace("assert", "barrier\nassert");
    let module = self::module(&with_barrier);
    let code = compile(&module, false);
    let (got, _) = run(&code, &module, [64, 1, 1], &[("limit", ints([100]))], 2);
    assert_eq!(got.expect_err("fails").error.thread, [100, 0, 0]);
}

#[test]
fn every_run_fails_alike() {
    // The failing groups are far apart, so that another worker meets the later one first.
    let text = r#"
        global at: uniform u32x2
        func main() {
            v0: u32x3 = group_id
            v1 = extract.0 v0
            v2 = global_ref at
            v3: u32 = const 0
            v4: u32x2 = buffer_load v2, v3
            v5 = extract.0 v4
            v6 = extract.1 v4
            v7 = ne v1, v5
            assert "the first", v7
            v8 = ne v1, v6
            assert "the second", v8
            yield
        }
        entry main: main [1, 1, 1]"#;
    let module = module(text);
    let code = compile(&module, false);
    for (first, second) in [(700, 20_000), (9_990, 10_010), (39_998, 39_999)] {
        for threads in [1, 2, 3, 7] {
            let bindings = [("at", ints([first, second]))];
            let (got, _) = run(&code, &module, [40_000, 1, 1], &bindings, threads);
            assert_eq!(got.expect_err("fails").error.message, "the first");
        }
    }
}

#[test]
fn leaves_that_are_not_kept_as_they_are() {
    // Any nonzero byte is true, and an array of pointers is loaded as a whole.
    let text = r#"
        struct P { flags: [20 x bool], one: bool, many: [2 x handle<f32>] }
        global p: uniform struct P
        global data: uniform handle<f32>
        global out: read_write u32
        func main() {
            v0 = global_ref p
            v1: u32 = const 0
            v2: [20 x bool] = buffer_load<0> v0, v1
            v3: bool = buffer_load<1> v0, v1
            v4: u32 = const 7
            v5 = index v2, v4
            v6 = not v5
            v7 = not v3
            v8: u32 = convert v6
            v9: u32 = convert v7
            v10: [2 x buffer<f32>] = buffer_load<2> v0, v1
            v11 = index v10, v1
            v12 = buffer_len v11
            v13: u32x3 = construct v8, v9, v12
            v14 = sum v13
            v15 = global_ref out
            buffer_store v15, v1, v14
            v16: f32 = buffer_load v11, v4
            v17: u32 = convert v16
            v18: u32 = const 1
            buffer_store v15, v18, v17
            yield
        }
        entry main: main [1, 1, 1]"#;
    let mut p = vec![2u8; 21];
    p.resize(24, 0);
    // The pointer's buffer follows those of the three globals.
    p.extend(4u64.to_le_bytes());
    p.extend(9u64.to_le_bytes());
    let bindings = [("p", p), ("data", floats((0..9).map(|k| k as f32))), ("out", vec![0; 8])];
    let (_, buffers) = agree(text, [1, 1, 1], &bindings);
    assert_eq!(buffers[2], ints([9, 7]));
}

/// Workers add to zeroed copies of a buffer that is not read before the end, and to the buffer itself if it
/// is read.
#[test]
fn sums_of_several_workers() {
    for (ty, bits, looks) in [("f32", 32, false), ("f64", 64, false), ("f32", 32, true)] {
        let look = if looks {
            "v20: f32 = buffer_load v0, v10\n                buffer_store v0, v11, v20"
        } else {
            ""
        };
        let text = format!(
            "
            global sums: read_write {ty}
            func main() {{
                v0 = global_ref sums
                v1: u32x3 = dispatch_thread_id
                v2 = extract.0 v1
                v3: u32 = const 7
                v4 = rem v2, v3
                v5: {ty} = convert v4
                v10: u32 = const 8
                v11: u32 = const 9
                v6: {ty} = atomic.add v0, v4, v5
                v7: {ty} = atomic.add v0, v3, v5
                v8: {ty} = atomic.add v0, v2, v5
                {look}
                yield
            }}
            entry main: main [16, 1, 1]"
        );
        let starts = (0..10).map(|k| if k == 9 { -0.0 } else { f64::from(k) });
        let bytes = match bits {
            32 => floats(starts.map(|x| x as f32)),
            _ => starts.flat_map(f64::to_le_bytes).collect(),
        };
        // Sums of whole numbers are exact in any order.
        agree(&text, [600, 1, 1], &[("sums", bytes)]);
    }
}

/// For a large buffer, only the touched parts of the workers' copies take memory.
#[test]
fn sums_in_a_large_buffer() {
    for (ty, bytes) in [("f32", 4), ("f64", 8)] {
        let text = format!(
            "
            global sums: read_write {ty}
            func main() {{
                v0 = global_ref sums
                v1: u32x3 = dispatch_thread_id
                v2 = extract.0 v1
                v3: u32 = const 7919
                v4 = mul v2, v3
                v5: u32 = const 80000
                v6 = rem v4, v5
                v7: u32 = const 79999
                v8: {ty} = const 1.0
                v9: {ty} = atomic.add v0, v6, v8
                v10: {ty} = atomic.add v0, v7, v8
                v11 = div v6, v3
                v12: {ty} = atomic.add v0, v11, v8
                yield
            }}
            entry main: main [16, 1, 1]"
        );
        agree(&text, [1200, 1, 1], &[("sums", vec![0; 80_000 * bytes])]);
    }
}

/// A buffer that a thread reads right after adding to it must not be replaced by workers' copies.
#[test]
fn sums_that_are_looked_at_stay_shared() {
    let text = "
        global sums: read_write f32
        global out: read_write f32
        func main() {
            v0 = global_ref sums
            v1: u32x3 = dispatch_thread_id
            v2 = extract.0 v1
            v3: u32 = const 0
            v4: f32 = const 1.0
            v5: f32 = atomic.add v0, v3, v4
            v6 = global_ref out
            buffer_store v6, v2, v5
            yield
        }
        entry main: main [16, 1, 1]";
    let module = module(text);
    let code = compile(&module, false);
    let sums = code.sums(0);
    assert!(sums.globals.is_empty() && !sums.all && !sums.only);
}

#[test]
fn deterministic_sums_have_the_same_bits_with_any_number_of_workers() {
    let text = "
        global out: read_write f32
        func main() {
            v0: u32x3 = dispatch_thread_id
            v1 = extract.0 v0
            v2: f32 = convert v1
            v3: f32 = const 0.1
            v4 = mul v2, v3
            v5 = global_ref out
            v6: u32 = const 0
            v7: f32 = atomic.add v5, v6, v4
            yield
        }
        entry main: main [8, 1, 1]
    ";
    let module = module(text);
    let code = compile(&module, false);
    assert!(code.is_ordered(0) && code.sums(0).only);
    let sum = |threads: usize| {
        let mut buffers = Buffers::new(&module);
        let (global, _) = module.globals.iter().next().expect("a global");
        buffers.bind(&module, global, &floats([0.0]));
        let options = Options { threads, deterministic: true, ..Options::default() };
        dispatch(&code, &module, 0, [5000, 1, 1], &mut buffers, options).expect("runs");
        buffers.bytes(global).to_vec()
    };
    let wanted = sum(1);
    for round in 0..20 {
        assert_eq!(sum(2 + round % 7), wanted);
    }
}

#[test]
fn a_dispatch_can_be_ended_from_outside() {
    let text = r#"
        global out: read_write u32
        func main() {
            v0: u32 = const 0
            v1: u32 = const 1
            v2 = global_ref out
            v3 = atomic.add v2, v0, v1
            yield
        }
        entry main: main [1, 1, 1]
    "#;
    let module = module(text);
    let code = compile(&module, false);
    let programs: [(&dyn Program, usize); 3] = [(&Interpreter, 1), (&code, 1), (&code, 3)];
    for (backend, threads) in programs {
        let stop = AtomicBool::new(false);
        let mut buffers = Buffers::new(&module);
        let (global, _) = module.globals.iter().next().expect("a global");
        buffers.bind(&module, global, &ints([0]));
        let options = Options { threads, stop: Some(&stop), ..Options::default() };
        dispatch(backend, &module, 0, [1000, 1, 1], &mut buffers, options).expect("runs to the end");
        assert_eq!(buffers.bytes(global), ints([1000]));
        stop.store(true, Ordering::SeqCst);
        let stopped =
            dispatch(backend, &module, 0, [1000, 1, 1], &mut buffers, options).expect_err("was stopped");
        assert_eq!(stopped.error.message, "the run was interrupted");
        assert_eq!(buffers.bytes(global), ints([1000]));
    }
}

#[test]
fn threads_that_are_given_up_are_replaced() {
    let sums = |k: u32| {
        let text = "
            global out: read_write u32
            func main() {
                v0 = global_ref out
                v1: u32 = const 0
                v2: u32 = const 1
                v3: u32 = atomic.add v0, v1, v2
                yield
            }
            entry main: main [1, 1, 1]";
        let (_, buffers) = agree(text, [k, 1, 1], &[("out", ints([0]))]);
        assert_eq!(buffers, [ints([k])]);
    };
    sums(500);
    pullback_run::abandon_threads();
    sums(700);
}
