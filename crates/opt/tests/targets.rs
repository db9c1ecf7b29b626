//! Tests what is made of a module for devices and for lanes, and that there is nothing where nothing changes.

use ir::{Module, Op};
use pullback_opt as opt;

const COPY: &str = "
global x: read_only f32
func f(v0: i32) -> (f32) {
    v1: i32 = const 16
    v2 = global_ref x
    v3: [16 x f32] = zero
    v4 = local v3
    for v1 (v5) {
        v6: f32 = buffer_load v2, v5
        store v4, v5, v6
    }
    v7 = load v4, v0
    yield v7
}
";

const PRODUCT: &str = "
global weights: read_only f32
func f(v0: [8 x f32]) -> ([8 x f32]) {
    v1: i32 = const 8
    v2 = global_ref weights
    v3: [8 x f32] = zero
    v4 = local v3
    v5: f32 = const 0.0
    for v1 (v6) {
        v7 = mul v6, v1
        v8 = for v1, v5 (v9, v10) {
            v11 = add v7, v9
            v12: f32 = buffer_load v2, v11
            v13 = index v0, v9
            v14 = mul v12, v13
            v15 = add v10, v14
            yield v15
        }
        store v4, v6, v8
    }
    v16 = load v4
    yield v16
}
";

const PLAIN: &str = "
func f(v0: f32, v1: i32) -> (f32) {
    v2 = for v1, v0 (v3, v4) {
        v5 = mul v4, v0
        yield v5
    }
    yield v2
}
";

fn module(text: &str) -> Module {
    ir::parse::parse_module(text).expect("the text is a module")
}

fn has(module: &Module, op: &Op) -> bool {
    module.funcs.values().any(|f| f.contains(|other| other == op))
}

#[test]
fn devices_read_memory_in_place_of_a_copy_of_it() {
    let made = opt::for_devices(&module(COPY)).expect("the copy goes");
    assert!(ir::verify::verify_module(&made).is_empty());
    assert!(!has(&made, &Op::Local) && has(&made, &Op::BufferLoad(ir::ops::Path::default())));
    assert!(opt::for_devices(&module(PLAIN)).is_none());
    assert!(opt::for_devices(&module(PRODUCT)).is_none());
}

#[test]
fn lanes_compute_rows_side_by_side() {
    let loops = |module: &Module| {
        let mut carried = Vec::new();
        for f in module.funcs.values() {
            f.walk(f.body(), &mut |inst| {
                let data = &f.insts[inst];
                carried.extend(matches!(data.op, Op::For(_)).then(|| data.n_carried()));
            });
        }
        carried
    };
    let made = opt::for_lanes(&module(PRODUCT), 4).expect("rows go together");
    assert!(ir::verify::verify_module(&made).is_empty());
    assert_eq!(loops(&made), [0, 4]);
    assert!(opt::for_lanes(&module(PLAIN), 4).is_none());
    assert!(opt::for_lanes(&module(COPY), 4).is_none());
}
