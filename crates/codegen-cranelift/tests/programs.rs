//! Facts about compiled code other than its results, which are in `tests/ir/run`.

use ir::Module;
use ir::interp::Value;
use native::Options;

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
