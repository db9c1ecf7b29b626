//! Facts about compiled code other than its results, which are in `tests/ir/run`.

use ir::Module;
use ir::interp::Value;
use native::Options;
use native::profile::Profile;

fn module(text: &str) -> Module {
    let module = ir::parse::parse_module(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let errors = ir::verify::verify_module(&module);
    assert!(errors.is_empty(), "{errors:#?}");
    module
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
    let func = module.find("main").expect("a function main");
    let options = Options { functions: vec![func], ..Options::default() };
    let compiled = pullback_codegen_cranelift::compile(&module, &options).expect("compiles");
    let used = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    let before = used();
    compiled.call(func, &[Value::u32(6_000), Value::f32(1.0)]).expect("runs");
    assert!(used() < before + (64 << 20));
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

#[test]
fn code_has_the_locations_of_its_instructions() {
    let text = "
        func main(v0: u32, v1: f32) -> (f32) {
            v2: f32 = const 0.5
            v3 = for v0, v1 (v4, v5) {
                v6 = mul v5, v2
                v7 = sin v6
                yield v7
            }
            v8 = div v3, v2
            yield v8
        }";
    let mut module = module(text);
    let func = module.funcs.keys().next().expect("one function");
    for (k, data) in module.funcs[func].insts.values_mut().enumerate() {
        data.span = ir::Span { file: 0, start: k as u32, end: k as u32 + 1 };
    }
    let functions = vec![func];
    let args = [Value::u32(3), Value::f32(0.25)];
    let mut results = Vec::new();
    for profile in [Profile::Off, Profile::Lines, Profile::Counts] {
        let options = Options { profile, functions: functions.clone(), ..Options::default() };
        let code = pullback_codegen_cranelift::compile(&module, &options).expect("compiles");
        results.push(code.call(func, &args).expect("runs"));
        let pieces = code.lines().pieces();
        assert_eq!(pieces.is_empty(), profile == Profile::Off);
        assert!(pieces.windows(2).all(|pair| pair[0].end <= pair[1].start), "{pieces:?}");
        if profile == Profile::Off {
            continue;
        }
        let locations: Vec<_> = code.notes().locations().collect();
        let op = |location: u32| {
            let span = locations[location as usize].span;
            let data = module.funcs[func].insts.values().find(|data| data.span == span);
            data.map_or("", |data| data.op.spec().name)
        };
        let mut found: Vec<&str> = pieces.iter().filter_map(|piece| piece.location).map(op).collect();
        found.dedup();
        for wanted in ["mul", "sin", "div"] {
            assert!(found.contains(&wanted), "{wanted}: {found:?}");
        }
        // The function itself, and the body of its loop.
        let counts: Vec<_> = (0..2).map(|k| code.notes().count(k).map(|count| count.entries)).collect();
        let counted = if profile == Profile::Counts { [Some(1), Some(3)] } else { [None, None] };
        assert_eq!(counts, counted);
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

#[test]
fn lanes_are_for_what_has_vectors() {
    // Each thread of the first kernel goes from place to place by itself; the second computes with what it has loaded.
    let text = "
        global next: read_only u32
        global a: read_only f32
        global b: read_write f32
        func follow() {
            v0: u32x3 = dispatch_thread_id
            v1 = extract.0 v0
            v2 = global_ref next
            v3: u32 = const 100
            v4 = for v3, v1 (v5, v6) {
                v7: u32 = buffer_load v2, v6
                yield v7
            }
            v8 = global_ref a
            v9: f32 = buffer_load v8, v4
            v10 = global_ref b
            buffer_store v10, v1, v9
            yield
        }
        func compute() {
            v0: u32x3 = dispatch_thread_id
            v1 = extract.0 v0
            v2 = global_ref a
            v3: f32 = buffer_load v2, v1
            v4: u32 = const 100
            v5 = for v4, v3 (v6, v7) {
                v8 = mul v7, v7
                v9 = add v8, v3
                yield v9
            }
            v10 = global_ref b
            buffer_store v10, v1, v5
            yield
        }
        entry follow: follow [64, 1, 1]
        entry compute: compute [64, 1, 1]";
    let module = module(text);
    let lanes = |lanes: Option<u32>| {
        let options = Options { lanes, ..Options::default() };
        let compiled = pullback_codegen_cranelift::compile(&module, &options).expect("compiles");
        let reason = compiled.why_single(0).map(|reason| reason.what.clone());
        ([0, 1].map(|entry| compiled.lanes(entry)), reason)
    };
    let (chosen, reason) = lanes(None);
    assert_eq!(chosen, [1, 16]);
    assert_eq!(reason.as_deref(), Some("a kernel that mostly does what lanes do one after the other"));
    assert_eq!(lanes(Some(8)), ([8, 8], None));
}
