//! Determines which globals of a module are written.
//!
//! A global whose type permits writes is often not written: nearly all tensors are only read. A global is
//! written if an instruction stores through a handle that may refer to it. The analysis is conservative: a
//! global that it does not report is certainly not written.

use ir::analysis::points_to::{PointsTo, has_handle};
use ir::{Global, Module, Op};
use rustc_hash::FxHashSet;

/// The globals that functions of the module may write. The module must have been differentiated already.
pub(crate) fn written(module: &Module) -> FxHashSet<Global> {
    // Functions that nobody calls have no memory of their own.
    let points_to = PointsTo::of(module, &|_| true);
    let (mut written, mut known) = (FxHashSet::default(), true);
    for (f, func) in module.funcs.iter().filter(|(_, func)| func.has_body()) {
        func.walk(func.body(), &mut |inst| {
            let data = &func.insts[inst];
            match data.op {
                Op::BufferStore(_) | Op::Atomic(..) => {
                    let memory = points_to.memory(f, data.args[0]);
                    known &= memory.is_some()
                        && !data.args[1..].iter().any(|&v| has_handle(&module.types, func.ty(v)));
                    written.extend(memory.into_iter().flatten());
                }
                Op::CallDerivative(..) | Op::CallTransposeOf(_) => known = false,
                _ => {}
            }
        });
    }
    if known { written } else { module.globals.keys().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBALS: &str = "global a: read_write f32\nglobal b: read_write f32\nglobal c: read_write f32\n";

    fn check(text: &str, wanted: &[&str]) {
        let module = ir::parse::parse_module(&format!("{GLOBALS}{text}")).expect("it is a module");
        let found = written(&module);
        let is_found = module.globals.iter().filter(|(global, _)| found.contains(global));
        let names: Vec<String> = is_found.map(|(_, data)| data.name.to_string()).collect();
        assert_eq!(names, wanted);
    }

    #[test]
    fn what_is_only_read_is_not_written() {
        check(
            "func f(v0: u32) {
                v1 = global_ref a
                v2 = global_ref b
                v3: f32 = buffer_load v1, v0
                buffer_store v2, v0, v3
                v4 = global_ref c
                v5: f32 = atomic.add v4, v0, v3
            }",
            &["b", "c"],
        );
    }

    #[test]
    fn handles_are_followed_through_arms_and_cells() {
        check(
            "func f(v0: u32, v1: bool, v2: f32) {
                v3 = global_ref a
                v4 = global_ref b
                v5 = global_ref c
                v6 = local v3
                v7 = if v1 {
                    yield v4
                } else {
                    v8 = load v6
                    yield v8
                }
                buffer_store v7, v0, v2
                v9: f32 = buffer_load v5, v0
            }",
            &["a", "b"],
        );
    }

    #[test]
    fn a_function_writes_for_those_that_call_it() {
        check(
            "func first(v0: buffer<f32>, v1: buffer<f32>, v2: u32) {
                call second(v1, v0, v2)
            }
            func second(v0: buffer<f32>, v1: buffer<f32>, v2: u32) {
                v3: f32 = buffer_load v0, v2
                buffer_store v1, v2, v3
            }
            func f(v0: u32) {
                v1 = global_ref a
                v2 = global_ref b
                call first(v1, v2, v0)
                v3 = global_ref c
                v4 = call same(v3)
                call second(v4, v1, v0)
            }
            func same(v0: buffer<f32>) -> (buffer<f32>) {
                yield v0
            }",
            &["a"],
        );
    }
}
