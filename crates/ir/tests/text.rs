//! The text of the IR, and the parts of the interpreter that only programs of the host reach.

use pullback_ir::interp::{Limits, Memory, Value, call, call_limited};
use pullback_ir::parse::parse_module;
use pullback_ir::print::print_module;
use pullback_ir::verify::verify_module;

/// The text of `tests/ir/run/everything.ir` without its comments.
fn text() -> String {
    let lines =
        include_str!("../../../tests/ir/run/everything.ir").lines().filter(|line| !line.starts_with(';'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn printing_what_was_parsed_is_the_identity() {
    let module = parse_module(&text()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(print_module(&module), text());
}

#[test]
fn a_kernel_changes_memory_and_prints() {
    let m = parse_module(&text()).expect("it parses");
    let mut memory = Memory::new(&m, |_| 4);
    memory.thread = [2, 0, 0];
    let out = m.globals.keys().next().expect("a global");
    let ray = m.globals[out].ty;
    let size = m.mem.size(ray) as usize;
    assert_eq!(size, 40);
    let mut bytes = vec![0; 4 * size];
    bytes[2 * size..2 * size + 12].copy_from_slice(&[1.0f32, 2.0, 4.0].map(f32::to_le_bytes).concat());
    memory.bind(out, bytes);
    let state = m.globals.keys().nth(2).expect("state");
    let initial = pullback_ir::interp::initial_bytes(&m, state, &mut memory).expect("an initialiser");
    assert_eq!(initial, 1.5f32.to_le_bytes());
    memory.bind(state, initial);
    call(&m, m.find("kernel").expect("kernel"), &[], &mut memory).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(memory.printed, "0 \"1.5\"\n");
    let float = |at: usize| {
        let bytes = &memory.bytes(out)[2 * size + at..];
        f32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
    };
    assert_eq!([float(12), float(16), float(28)], [3.0, 7.0, 1.5]);
    assert_eq!(memory.bytes(out)[2 * size + 36], 1);
}

#[test]
fn an_endless_loop_is_an_error() {
    let m =
        parse_module("func f() {\nv1: bool = const true\nloop () {\nyield v1\n}\n}\n").expect("it parses");
    let limits = Limits { steps: Some(1000), ..Limits::default() };
    let func = m.find("f").expect("f");
    assert!(call_limited::<u64>(&m, func, &[], &mut Memory::default(), limits).is_err());
}

#[test]
fn depth_is_guarded() {
    let deep = 5000;
    let text = format!("func f(v0: bool) {{\n{}{}}}\n", "if v0 {\n".repeat(deep), "}\n".repeat(deep));
    assert!(parse_module(&text).expect_err("too deep").message.contains("deep"));
    let text = format!("func f(v0: {}f32{}) {{\n}}\n", "stack<".repeat(deep), ">".repeat(deep));
    assert!(parse_module(&text).is_err());
}

#[test]
fn a_thread_stops_at_a_barrier_and_goes_on() {
    use pullback_ir::interp::{Machine, Step};
    let text = "global sum: group_shared u32
func f(v0: u32) -> (u32) {
    v1 = global_ref sum
    v2: u32 = const 0
    v3 = atomic.add v1, v2, v0
    barrier
    v4 = buffer_load v1, v2
    yield v4
}
";
    let m = parse_module(text).expect("it parses");
    let f = m.find("f").expect("f");
    let mut memory = Memory::new(&m, |_| 1);
    let mut threads: Vec<Machine> =
        (1..=3).map(|n| Machine::new(&m, f, &[Value::u32(n)], Limits::default()).expect("it fits")).collect();
    for thread in &mut threads {
        assert_eq!(thread.resume(&mut memory), Ok(Step::Barrier));
    }
    for thread in &mut threads {
        assert_eq!(thread.resume(&mut memory), Ok(Step::Done(vec![Value::u32(6)])));
    }
}

#[test]
fn verifying_takes_linear_time() {
    let mut text = String::from("func f(v0: f32) -> (f32) {\n");
    for n in 1..20_000 {
        text += &format!("    v{n} = add v{}, v0\n", n - 1);
    }
    text += "    yield v19999\n}\n";
    let start = std::time::Instant::now();
    let m = parse_module(&text).expect("it parses");
    assert!(verify_module(&m).is_empty());
    assert_eq!(print_module(&m), text);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}
