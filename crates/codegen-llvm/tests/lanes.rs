//! Tests of the uniformity analysis and of the text for lanes: which values vary, where control diverges, how
//! memory is accessed, and what runs one thread at a time. LLVM is not needed.

use ir::{Module, Op, Value};
use native::Options;
use pullback_codegen_llvm::uniform::{Analysis, Dealing};
use pullback_codegen_llvm::{Machine, Text, text};

fn module(text: &str) -> Module {
    let module = ir::parse::parse_module(text).expect("a module");
    for function in module.funcs.values() {
        ir::verify::assert_valid(&module, function);
    }
    module
}

/// The varying values of `main`, by number, and the number of divergent control ops.
fn varying(text: &str) -> (Vec<u32>, usize) {
    let module = module(text);
    let main = module.find("main").expect("a function");
    let mut analysis = Analysis::new(&module, Dealing { rows: true, packed: false });
    let facts = analysis.function(main, &[]).expect("lanes can do it").clone();
    let f = &module.funcs[main];
    let values = f.values.keys().filter(|&v: &Value| facts.varying[v]).map(|v| v.as_u32()).collect();
    (values, f.insts.keys().filter(|&i| facts.divergent[i]).count())
}

fn lanes(text_of: &str, width: u32) -> (Text, String) {
    let module = module(text_of);
    let options = Options { lanes: Some(width), ..Options::default() };
    let text = text(&module, &options, &Machine::generic()).expect("everything is supported");
    // The text of the code that runs in lanes.
    let lanes = text.print().split("@entry0_lanes").nth(1).unwrap_or_default().to_string();
    (text, lanes)
}

#[test]
fn only_what_comes_from_the_thread_varies() {
    let (values, parted) = varying(
        "global a: read_only f32
         global b: read_write f32
         func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2 = extract.1 v0
             v3 = global_ref a
             v4: f32 = buffer_load v3, v2
             v5: f32 = buffer_load v3, v1
             v6 = add v4, v4
             v7 = lt v4, v6
             v8 = if v7 {
                 yield v4
             } else {
                 yield v6
             }
             v9 = lt v5, v6
             v10 = if v9 {
                 v11 = mul v4, v4
                 yield v11
             } else {
                 yield v4
             }
             v12 = global_ref b
             buffer_store v12, v1, v10
             yield
         }
         entry main: main [64, 1, 1]",
    );
    // The thread's ID, the value loaded there, and the value that the condition selects vary; the value that
    // an arm computes from uniform values does not.
    assert_eq!((values, parted), (vec![0, 1, 5, 9, 10], 1));
}

#[test]
fn cells_vary_if_some_lanes_write_them() {
    let (values, parted) = varying(
        "func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2: u32 = const 3
             v3 = lt v1, v2
             v4 = local v2
             v5 = local v2
             if v3 {
                 store v4, v2
                 v6 = local v2
                 store v6, v2
                 v7 = load v6
                 yield
             } else {
                 yield
             }
             store v5, v2
             v8 = load v4
             v9 = load v5
             yield
         }
         entry main: main [64, 1, 1]",
    );
    assert_eq!((values, parted), (vec![0, 1, 3, 4, 8], 1));
}

#[test]
fn loops_that_lanes_leave_at_different_times_give_what_varies() {
    let (values, parted) = varying(
        "func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2: u32 = const 8
             v3 = for v1, v2 (v4, v5) {
                 v6 = add v5, v4
                 yield v6
             }
             v7 = for v2, v2 (v8, v9) {
                 v10 = add v9, v8
                 yield v10
             }
             yield
         }
         entry main: main [64, 1, 1]",
    );
    // Everything in the first loop is uniform, but its result is not.
    assert_eq!((values, parted), (vec![0, 1, 3], 1));
}

#[test]
fn memory_is_accessed_as_its_places_are() {
    let (text, lanes) = lanes(
        "global a: read_only f32
         global b: read_write f32
         func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2: u32 = const 3
             v3 = mul v1, v1
             v4 = global_ref a
             v5: f32 = buffer_load v4, v1
             v6: f32 = buffer_load v4, v2
             v7: f32 = buffer_load v4, v3
             v8 = add v5, v6
             v9 = add v8, v7
             v10 = global_ref b
             buffer_store v10, v1, v9
             yield
         }
         entry main: main [64, 1, 1]",
        8,
    );
    assert_eq!(text.entries[0].lanes, Ok(("entry0_lanes".to_string(), 8)));
    let count = |what: &str| lanes.matches(what).count();
    // The access is a block of memory if all of it is in range, and a call of a helper otherwise.
    assert_eq!(count("= load <8 x float>"), 2, "{lanes}");
    assert_eq!(count("= load float,"), 1, "{lanes}");
    assert_eq!(count("@llvm.masked.gather"), 1, "{lanes}");
    assert_eq!(count("call void @rt_gather_elements("), 1, "{lanes}");
    assert_eq!(count("  store <8 x float>"), 2, "{lanes}");
    assert_eq!(count("@llvm.masked.scatter"), 0, "{lanes}");
    assert_eq!(count("call void @rt_scatter_elements("), 1, "{lanes}");
}

#[test]
fn a_small_group_that_fills_a_vector_is_the_lanes() {
    let lanes_of = |ty: &str, threads: u32| {
        let module = module(&format!(
            "global b: read_write {ty}
             func main() {{
                 v0: u32x3 = dispatch_thread_id
                 v1 = extract.0 v0
                 v2 = global_ref b
                 v3: {ty} = buffer_load v2, v1
                 v4 = add v3, v3
                 buffer_store v2, v1, v4
                 yield
             }}
             entry main: main [{threads}, 1, 1]"
        ));
        let text = text(&module, &Options::default(), &Machine::generic()).expect("text");
        let lanes = text.entries[0].lanes.clone().expect("lanes").1;
        (lanes, text.entries[0].one.is_none())
    };
    assert_eq!(lanes_of("f32", 8), (8, true));
    assert_eq!(lanes_of("f64", 4), (4, true));
    assert_eq!(lanes_of("f32", 4), (16, false));
    assert_eq!(lanes_of("f32", 64), (16, true));
}

#[test]
fn even_distances_are_accessed_lane_by_lane() {
    let (text, lanes) = lanes(
        "global a: read_only f32
         global b: read_write f32
         func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2: u32 = const 3
             v3 = mul v1, v2
             v4 = global_ref a
             v5: f32 = buffer_load v4, v3
             v6 = global_ref b
             buffer_store v6, v3, v5
             yield
         }
         entry main: main [64, 1, 1]",
        8,
    );
    assert_eq!(text.entries[0].lanes, Ok(("entry0_lanes".to_string(), 8)));
    let count = |what: &str| lanes.matches(what).count();
    assert_eq!(count("= load float,"), 8, "{lanes}");
    assert_eq!(count("  store float "), 8, "{lanes}");
    assert_eq!(count("@llvm.masked."), 0, "{lanes}");
}

#[test]
fn what_lanes_cannot_do_runs_alone_and_says_why() {
    for (body, what) in
        [("printf \"hello\"", "printf"), ("v1: u32 = const 1\n v2, v3 = wave_gather v1", "wave")]
    {
        let source = format!("func main() {{\n{body}\nyield\n}}\nentry main: main [64, 1, 1]");
        let (text, _) = lanes(&source, 8);
        let reason = text.entries[0].lanes.clone().expect_err("no lanes");
        assert!(reason.what.contains(what), "{reason:?}");
        assert!(text.print().contains("define void @entry0("));
    }
    let recursive = module(
        "func f(v0: u32) -> (u32) {
             v1: u32 = const 1
             v2 = lt v0, v1
             v3 = if v2 {
                 yield v0
             } else {
                 v4 = sub v0, v1
                 v5 = call f(v4)
                 yield v5
             }
             yield v3
         }",
    );
    let f = recursive.find("f").expect("a function");
    assert!(recursive.funcs[f].insts.values().any(|d| matches!(d.op, Op::Call(_))));
    let mut analysis = Analysis::new(&recursive, Dealing { rows: true, packed: false });
    let reason = analysis.function(f, &[true]).expect_err("no lanes");
    assert!(reason.what.contains("calls itself"));
}

#[test]
fn only_fast_functions_compute_in_any_order() {
    let text = "global out: read_write f32
         func fast(v0: f32) -> (f32) fast_math never_inline {
             v1 = add v0, v0
             yield v1
         }
         func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2: f32 = convert v1
             v3 = call fast(v2)
             v4 = mul v3, v2
             v5 = global_ref out
             buffer_store v5, v1, v4
             yield
         }
         entry main: main [8, 1, 1]";
    let text = text.replace("fast_math never_inline", "never_inline fast_math");
    let all = lanes(&text, 8).0.print();
    let lines = |what: &str| all.lines().filter(|l| l.contains(what)).map(str::to_string).collect::<Vec<_>>();
    assert!(lines("fadd").iter().all(|l| l.contains("fadd reassoc nsz arcp contract")), "{all}");
    assert!(!lines("fadd").is_empty() && !lines("fmul").is_empty());
    assert!(lines("fmul").iter().all(|l| !l.contains("reassoc")), "{all}");
}

#[test]
fn floats_come_back_in_vector_registers_or_in_memory() {
    for (n, in_memory) in [(3, false), (4, true), (5, true)] {
        let results = vec!["f32"; n].join(", ");
        let values = vec!["v0"; n].join(", ");
        let called: Vec<String> = (4..4 + n).map(|k| format!("v{k}")).collect();
        let module = module(&format!(
            "global out: read_write f32
             func many(v0: f32) -> ({results}) never_inline {{
                 yield {values}
             }}
             func main() {{
                 v0: u32x3 = dispatch_thread_id
                 v1 = extract.0 v0
                 v2: f32 = convert v1
                 v3 = global_ref out
                 {} = call many(v2)
                 buffer_store v3, v1, v{}
                 yield
             }}
             entry main: main [8, 1, 1]",
            called.join(", "),
            3 + n
        ));
        let options = Options { lanes: Some(1), ..Options::default() };
        let text = text(&module, &options, &Machine::generic()).expect("everything is supported").print();
        let lines: Vec<&str> = text.lines().filter(|l| l.contains("fastcc") && l.contains("@f0(")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines.iter().all(|l| l.contains("fastcc void @f0") == in_memory), "{lines:?}");
    }
}
