//! Properties of dispatches other than their results, which are those of the interpreter (`tests/ir/dispatch`).

use std::sync::atomic::{AtomicBool, Ordering};

use ir::Module;
use native::Compiled;
use pullback_run::{Buffers, Interpreter, Options, Output, Program, Stopped, dispatch};

/// A module, and its machine code.
fn compile(text: &str) -> (Module, Compiled) {
    let module = ir::parse::parse_module(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let errors = ir::verify::verify_module(&module);
    assert!(errors.is_empty(), "{errors:#?}");
    let code = codegen_cranelift::compile(&module, &native::Options::default()).expect("compiles");
    (module, code)
}

/// Runs `groups` groups of a module's only entry point, with words bound to its only global; returns the words afterwards.
fn run(
    program: &dyn Program,
    module: &Module,
    groups: u32,
    words: &[u32],
    options: Options<'_>,
) -> (Result<Output, Stopped>, Vec<u32>) {
    let mut buffers = Buffers::new(module);
    let (global, _) = module.globals.iter().next().expect("a global");
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    buffers.bind(module, global, &bytes);
    let done = dispatch(program, module, 0, [groups, 1, 1], &mut buffers, options);
    let (words, _) = buffers.bytes(global).as_chunks::<4>();
    (done, words.iter().map(|w| u32::from_le_bytes(*w)).collect())
}

/// Each group adds 1.
const COUNT: &str = "
    global out: read_write u32
    func main() {
        v0 = global_ref out
        v1: u32 = const 0
        v2: u32 = const 1
        v3: u32 = atomic.add v0, v1, v2
        yield
    }
    entry main: main [1, 1, 1]";

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
    let (module, code) = compile(text);
    for (first, second) in [(700, 20_000), (9_990, 10_010), (39_998, 39_999)] {
        for threads in [1, 2, 3, 7] {
            let options = Options { threads, ..Options::default() };
            let (got, _) = run(&code, &module, 40_000, &[first, second], options);
            assert_eq!(got.expect_err("fails").error.message, "the first");
        }
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
    let (_, code) = compile(text);
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
    let (module, code) = compile(text);
    assert!(code.is_ordered(0) && code.sums(0).only);
    // One number, more numbers than a copy is allocated for, and so many that one worker adds all.
    for (numbers, in_portions) in [(1, true), (100_000, true), (10_000_000, false)] {
        let zeros = vec![0; numbers];
        let sum = |threads: usize, deterministic: bool| {
            let options = Options { threads, deterministic, ..Options::default() };
            let (done, sums) = run(&code, &module, 5000, &zeros, options);
            done.expect("runs");
            sums[0]
        };
        let wanted = sum(1, true);
        // One after the other, the numbers are rounded differently than portion by portion.
        assert_eq!(sum(1, false) != wanted, in_portions);
        for round in 0..10 {
            assert_eq!(sum(2 + round % 7, true), wanted);
        }
    }
}

#[test]
fn a_dispatch_can_be_ended_from_outside() {
    let (module, code) = compile(COUNT);
    let programs: [(&dyn Program, usize); 3] = [(&Interpreter, 1), (&code, 1), (&code, 3)];
    for (program, threads) in programs {
        let stop = AtomicBool::new(false);
        let options = Options { threads, stop: Some(&stop), ..Options::default() };
        let (done, words) = run(program, &module, 1000, &[0], options);
        assert!(done.is_ok() && words == [1000]);
        stop.store(true, Ordering::SeqCst);
        let (done, words) = run(program, &module, 1000, &[7], options);
        assert_eq!(done.expect_err("was stopped").error.message, "the run was interrupted");
        assert_eq!(words, [7]);
    }
}

#[test]
fn threads_that_are_given_up_are_replaced() {
    let (module, code) = compile(COUNT);
    for groups in [500, 700] {
        for threads in [1, 3] {
            let (done, words) = run(&code, &module, groups, &[0], Options { threads, ..Options::default() });
            assert!(done.is_ok() && words == [groups]);
        }
        pullback_run::abandon_threads();
    }
}
