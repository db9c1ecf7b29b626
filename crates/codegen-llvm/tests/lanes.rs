//! Tests of the text for lanes: how memory is accessed, and what runs one thread at a time. LLVM is not needed.

use ir::Module;
use native::Options;
use pullback_codegen_llvm::{Machine, Text, text};

fn module(text: &str) -> Module {
    let module = ir::parse::parse_module(text).expect("a module");
    for function in module.funcs.values() {
        ir::verify::assert_valid(&module, function);
    }
    module
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
    // Threads that are left over run under a mask.
    assert_eq!(lanes_of("f32", 4), (16, true));
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
    // Vectors of one number, since LLVM makes slow gathers of numbers at even distances.
    assert_eq!(count("= load <1 x float>,"), 8, "{lanes}");
    assert_eq!(count("  store float "), 8, "{lanes}");
    assert_eq!(count("@llvm.masked."), 0, "{lanes}");
}

/// A loop that carries `n` numbers for each thread, each of which is added to its square; their sum is stored.
fn carried(ty: &str, n: usize) -> String {
    let list = |first: usize| (first..first + n).map(|v| format!("v{v}")).collect::<Vec<_>>().join(", ");
    let mut body = String::new();
    for k in 0..n {
        body += &format!("v{} = mul v{}, v{}\n", 500 + k, 400 + k, 400 + k);
        body += &format!("v{} = add v{}, v3\n", 600 + k, 500 + k);
    }
    let mut sum = "v300".to_string();
    let mut sums = String::new();
    for k in 1..n {
        sums += &format!("v{} = add {sum}, v{}\n", 700 + k, 300 + k);
        sum = format!("v{}", 700 + k);
    }
    format!(
        "global b: read_write {ty}
         func main() {{
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2 = global_ref b
             v3: {ty} = buffer_load v2, v1
             v4: u32 = const 100
             {} = for v4, {} (v5, {}) {{
                 {body}
                 yield {}
             }}
             {sums}
             buffer_store v2, v1, {sum}
             yield
         }}
         entry main: main [64, 1, 1]",
        list(300),
        vec!["v3"; n].join(", "),
        list(400),
        list(600),
    )
}

#[test]
fn there_are_as_many_lanes_as_registers_hold() {
    let lanes_of = |ty: &str, n: usize| {
        let machine = Machine { vector_bits: 512, ..Machine::generic() };
        let text = text(&module(&carried(ty, n)), &Options::default(), &machine).expect("text");
        text.entries[0].lanes.clone().expect("lanes").1
    };
    // Four vectors of eight doubles for each number, if few numbers are in use, else two.
    assert_eq!(lanes_of("f64", 2), 32);
    assert_eq!(lanes_of("f64", 5), 16);
    assert_eq!(lanes_of("f64", 12), 16);
    // There is no code for more lanes than 32.
    assert_eq!(lanes_of("f32", 2), 32);
}

/// A kernel that stores numbers at `3 * (2 * i + k)` and the next place, for `k` 0 and 1.
const ROWS: &str = "global a: read_only f64
         global b: read_write f64
         func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2: u32 = const 1
             v3: u32 = const 2
             v4: u32 = const 3
             v5 = mul v1, v3
             v6 = add v5, v2
             v7 = mul v5, v4
             v8 = mul v6, v4
             v9 = add v7, v2
             v10 = add v8, v2
             v11 = global_ref a
             v12 = global_ref b
             v13: f64 = buffer_load v11, v1
             v14 = mul v13, v13
             v15 = mul v14, v13
             v16 = mul v15, v13
             buffer_store v12, v7, v13
             buffer_store v12, v9, v14
             buffer_store v12, v8, v15
             buffer_store v12, v10, v16
             yield
         }
         entry main: main [64, 1, 1]";

#[test]
fn rows_of_one_thread_are_stored_together_lane_after_lane() {
    let (_, lanes) = lanes(ROWS, 8);
    // One row: there is one test, which leads to one place that stores, and to one that calls a helper for each number.
    assert_eq!(lanes.matches("store <2 x double>").count(), 16, "{lanes}");
    assert_eq!(lanes.matches("call void @rt_scatter_elements(").count(), 4, "{lanes}");
    let start = lanes.lines().position(|line| line.contains("store <2 x double>")).expect("a store");
    let offset = |line: &str| line.rsplit_once("i64 ")?.1.trim().parse::<u32>().ok();
    let stores = lanes.lines().skip(start).take_while(|line| !line.trim_start().starts_with("br "));
    let offsets: Vec<u32> = stores.filter(|line| line.contains("getelementptr")).filter_map(offset).collect();
    assert!(offsets.len() > 8 && offsets.is_sorted(), "{offsets:?} in {lanes}");
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
}

#[test]
fn functions_get_the_arguments_of_active_lanes_only() {
    let (_, lanes) = lanes(
        "global a: read_only f32
         global b: read_write f32
         func main() {
             v0: u32x3 = dispatch_thread_id
             v1 = extract.0 v0
             v2 = global_ref a
             v3: f32 = buffer_load v2, v1
             v4: f32 = const 0.0
             v5 = lt v4, v3
             v6 = if v5 {
                 v7 = log v3
                 yield v7
             } else {
                 yield v4
             }
             v8 = exp v6
             v9 = global_ref b
             buffer_store v9, v1, v8
             yield
         }
         entry main: main [64, 1, 1]",
        8,
    );
    // An idle lane whose argument is rare would send all lanes the long way.
    let call =
        lanes.lines().find(|line| line.contains("call fastcc <8 x float> @m_log_32_8(")).expect("a call");
    let argument = call.rsplit_once(' ').map_or("", |(_, last)| last.trim_end_matches(')'));
    let chosen = format!("{argument} = select <8 x i1> ");
    assert!(argument.starts_with('%') && lanes.contains(&chosen), "{lanes}");
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
