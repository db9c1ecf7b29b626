//! Determines which globals of a module are written.
//!
//! A global whose type permits writes is often not written: nearly all tensors are only read. Within a
//! function, handles that may refer to the same memory are in one class. A class is written if an instruction
//! stores through one of its handles, or passes a handle to a function that writes its parameter. The
//! analysis is conservative: a global that it does not report is certainly not written.

use ir::{Function, Global, Inst, Module, Op, Region, Type, TypeData, Types, Value};
use rustc_hash::FxHashSet;

/// The globals that functions of the module may write. The module must have been differentiated already.
pub(crate) fn written(module: &Module) -> FxHashSet<Global> {
    let mut found = Found::default();
    loop {
        let before = found.clone();
        for (key, func) in module.funcs.iter().filter(|(_, func)| func.has_body()) {
            let mut classes = Classes::of(module, func);
            func.walk(func.body(), &mut |inst| classes.inst(inst, &found));
            if classes.all {
                return module.globals.keys().collect();
            }
            let params = &func.regions[func.body()].params;
            let stored: FxHashSet<usize> =
                std::mem::take(&mut classes.stored).into_iter().map(|v| classes.root(v)).collect();
            for (at, &param) in params.iter().enumerate() {
                if stored.contains(&classes.root(param)) {
                    found.params.insert((key, at));
                }
            }
            for (v, global) in std::mem::take(&mut classes.globals) {
                if stored.contains(&classes.root(v)) {
                    found.globals.insert(global);
                }
            }
        }
        if found == before {
            return found.globals;
        }
    }
}

/// The memory found to be written so far: globals, and the memory that parameters refer to.
#[derive(Clone, Default, PartialEq)]
struct Found {
    globals: FxHashSet<Global>,
    params: FxHashSet<(ir::Func, usize)>,
}

struct Classes<'a> {
    types: &'a Types,
    func: &'a Function,
    /// Union-find: for each value, another value of its class, or the value itself for the root.
    parent: Vec<usize>,
    globals: Vec<(Value, Global)>,
    /// Handles that are stored through.
    stored: Vec<Value>,
    /// A handle was used in a way that cannot be tracked.
    all: bool,
}

impl<'a> Classes<'a> {
    fn of(module: &'a Module, func: &'a Function) -> Classes<'a> {
        let parent = (0..func.values.len()).collect();
        let (types, globals, stored) = (&module.types, Vec::new(), Vec::new());
        Classes { types, func, parent, globals, stored, all: false }
    }

    fn root(&self, v: Value) -> usize {
        let mut at = v.as_u32() as usize;
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    fn is_handle(&self, v: Value) -> bool {
        has_handle(self.types, self.func.ty(v))
    }

    fn inst(&mut self, inst: Inst, found: &Found) {
        let func = self.func;
        let data = &func.insts[inst];
        match &data.op {
            Op::GlobalRef(global) => self.globals.push((func.result(inst), *global)),
            Op::BufferStore(_) | Op::Atomic(..) => {
                self.stored.push(data.args[0]);
                self.all |= data.args[1..].iter().any(|&v| self.is_handle(v));
            }
            Op::Call(callee) => {
                let written = |&(at, _): &(usize, &Value)| found.params.contains(&(*callee, at));
                self.stored.extend(data.args.iter().enumerate().filter(written).map(|(_, &v)| v));
            }
            Op::CallDerivative(..) | Op::CallTransposeOf(_) => self.all = true,
            _ => {}
        }
        // The results of an instruction may refer to the memory of any of its operands. A call that returns
        // no handle does not retain any handle.
        let gives = data.results.iter().any(|&v| self.is_handle(v));
        if matches!(data.op, Op::Call(_)) && !gives {
            return;
        }
        let of_regions = data.regions.iter().flat_map(|&region: &Region| {
            let region = &func.regions[region];
            region.params.iter().chain(&region.results)
        });
        let handles = data.args.iter().chain(&data.results).chain(of_regions);
        let mut handles = handles.copied().filter(|&v| has_handle(self.types, func.ty(v)));
        if let Some(first) = handles.next() {
            for other in handles {
                let (a, b) = (self.root(first), self.root(other));
                self.parent[b] = a;
            }
        }
    }
}

fn has_handle(types: &Types, ty: Type) -> bool {
    match types[ty] {
        TypeData::Buffer(_) => true,
        TypeData::Array(of, _) | TypeData::Stack(of) | TypeData::Cell(of) => has_handle(types, of),
        TypeData::Scalar(_) | TypeData::Vector(..) | TypeData::Residuals(_) => false,
    }
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
