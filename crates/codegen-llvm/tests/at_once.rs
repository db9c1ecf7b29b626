//! Compiles the first functions of a process on several threads at once. LLVM does not guard its list of
//! targets: two threads that registered a target at the same time left a list without an end.
#![cfg(feature = "jit")]

use native::Options;
use pullback_codegen_llvm::compile;

#[test]
fn threads_begin_together() {
    let text = "func f(v0: f32) -> (f32) {\n    v1 = mul v0, v0\n    yield v1\n}\n";
    let module = ir::parse::parse_module(text).expect("a module");
    let options = Options { functions: module.funcs.keys().collect(), ..Options::default() };
    // All threads wait for the one that opens the library, and continue when it is open.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| compile(&module, &options).expect("compiles"));
        }
    });
}
