//! Prints, parses, verifies and runs a module that contains something of everything.

use pullback_ir::interp::{Limits, Memory, Value, call, call_limited, dual};
use pullback_ir::parse::parse_module;
use pullback_ir::print::print_module;
use pullback_ir::verify::{verify_function, verify_module};
use pullback_ir::{Module, scalar};

const TEXT: &str = r#"struct Ray { origin: f32x3, "odd name": [2 x f32], m: columns f32x2x2, hit: bool }
struct Ray#1 { x: f16 }
global out: read_write struct Ray
global counts: read_write u32
global state: private f32 = init_state
global tile: group_shared [4 x f32]
witness "sin<float>": jvp sin_jvp treat_as_differentiable
entry main: kernel [8, 1, 1]

declare external(f32 diff @x) -> (f32 diff)

func "sin<float>"(v0: f32 diff @x) -> (f32 diff) always_inline {
    v1 = sin v0
    yield v1
}

func sin_jvp(v0: f32 @x, v1: f32) -> (f32, f32) {
    v2 = sin v0
    v3 = cos v0
    v4 = mul v3, v1
    yield v2, v4
}

func init_state() -> (f32) {
    v0: f32 = const 1.5
    yield v0
}

func scaled(v0: f32, ~v1: f32x3) -> (~f32) {
    v2: f32x3 = splat v0
    ~v3 = mul v2, ~v1
    ~v4 = sum ~v3
    ~v5: f32 = zero
    ~v6 = add ~v4, ~v5
    yield ~v6
}

func power(v0: f32 diff, v1: u32) -> (f32 diff, stack<f32>) prefer_recompute {
    v2: f32 = const 1.0
    v6, v7 = for max_iters(100) v1, v2 (v3, v4) {
        v5 = mul v4, v0
        yield v5, v4
    }
    yield v6, v7
}

func collatz(v0: u32) -> (u32) never_inline {
    v1: u32 = const 0
    v2: u32 = const 1
    v17, v18 = loop v0, v1 (v3, v4) {
        v5 = gt v3, v2
        v15, v16 = if v5 {
            v6 = and v3, v2
            v13 = switch v6 {
                case 0 {
                    v7 = shr v3, v2
                    yield v7
                }
                default {
                    v8: u32 = const 3
                    v9 = mul v3, v8
                    v10 = add v9, v2
                    yield v10
                }
            }
            v14 = add v4, v2
            yield v13, v14
        } else {
            yield v3, v4
        }
        yield v5, v15, v16
    }
    yield v18
}

func kernel() {
    v0 = dispatch_thread_id
    v1 = extract.0 v0
    v2 = global_ref out
    v3: f32x3 = buffer_load<0> v2, v1
    v4 = sum v3
    v5: u32 = const 1
    buffer_store<1.*> v2, v1, v5, v4
    v6 = global_ref counts
    v7: u32 = const 0
    v8: u32 = atomic.add v6, v7, v5
    v9 = global_ref state
    v10: f32 = buffer_load v9, v7
    buffer_store<2.1.0> v2, v1, v10
    barrier
    printf "%d \"%s\"\n", v8, v10
    v11: bool = const true
    assert "must be", v11
    v12: f32 = const 0x7fc00000
    v13: [3 x f32] = construct v12, v4, v10
    v14 = local v13
    store v14, v5, v10
    add_to v14, v5, v10
    v15 = load v14
    v16 = index v15, v5
    buffer_store<1.0> v2, v1, v16
    buffer_store<3> v2, v1, v11
    v17: f32 = call "sin<float>"(v16)
    v18, v19 = call_fwd "sin<float>"(v16, v16)
}
"#;

fn module() -> Module {
    let text = TEXT.replace("v17: f32 = call", "v17 = call");
    let module = parse_module(&text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(print_module(&module), text);
    module
}

#[test]
fn printing_what_was_parsed_is_the_identity() {
    let module = module();
    let errors = verify_module(&module);
    assert!(errors.is_empty(), "{errors:?}");
}

fn run(module: &Module, name: &str, args: &[Value]) -> Vec<Value> {
    let func = module.find(name).expect("the function is there");
    let mut memory = Memory::new(module, |_| 4);
    call(module, func, args, &mut memory).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn functions_run() {
    let m = module();
    let stack = Value::stack([1.0, 3.0, 9.0].map(Value::f32).to_vec());
    assert_eq!(run(&m, "power", &[Value::f32(3.0), Value::u32(3)]), [Value::f32(27.0), stack]);
    assert_eq!(run(&m, "collatz", &[Value::u32(27)]), [Value::u32(111)]);
    let v = Value::Vector([1.0f32, 2.0, 3.0].map(|x| x.to_bits() as u64).into_iter().collect());
    assert_eq!(run(&m, "scaled", &[Value::f32(2.0), v]), [Value::f32(12.0)]);
    let func = m.find("power").expect("power");
    let too_many = call(&m, func, &[Value::f32(1.0), Value::u32(101)], &mut Memory::new(&m, |_| 1))
        .expect_err("it stops");
    assert!(too_many.message.contains("MaxIters(100)"), "{too_many}");
}

#[test]
fn dual_numbers_differentiate_the_power() {
    let m = module();
    let func = m.find("power").expect("power");
    let (y, dy) = dual::jvp(
        &m,
        func,
        &[Value::f32(3.0), Value::u32(4)],
        &[Value::f32(1.0), Value::u32(0)],
        &mut Memory::new(&m, |_| 1),
        Limits::default(),
    )
    .expect("it runs");
    assert_eq!((y[0].clone(), dy[0].clone()), (Value::f32(81.0), Value::f32(108.0)));
}

#[test]
fn a_kernel_changes_memory_and_prints() {
    let mut text = TEXT.replace("v17: f32 = call", "v17 = call");
    text = text.replace("    v18, v19 = call_fwd \"sin<float>\"(v16, v16)\n", "");
    let m = parse_module(&text).expect("it parses");
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
fn deep_recursion_and_endless_loops_are_errors() {
    let text = "func f(v0: u32) -> (u32) {
    v1 = call f(v0)
    yield v1
}
func g() {
    v1: bool = const true
    loop () {
        yield v1
    }
}
";
    let m = parse_module(text).expect("it parses");
    let f = m.find("f").expect("f");
    let mut memory = Memory::default();
    let error = call(&m, f, &[Value::u32(1)], &mut memory).expect_err("it stops");
    assert!(error.message.contains("nested"), "{error}");
    let limits = Limits { steps: Some(1000), ..Limits::default() };
    let g = m.find("g").expect("g");
    assert!(call_limited::<u64>(&m, g, &[], &mut memory, limits).is_err());
}

#[test]
fn constants_of_every_type_read_back() {
    for (s, bits) in [
        (pullback_ir::Scalar::F16, 0x3555),
        (pullback_ir::Scalar::F16, 0xfc00),
        (pullback_ir::Scalar::F32, 0x8000_0000),
        (pullback_ir::Scalar::F32, 0x0000_0001),
        (pullback_ir::Scalar::F64, f64::MIN_POSITIVE.to_bits()),
        (pullback_ir::Scalar::I8, 0x80),
        (pullback_ir::Scalar::U64, u64::MAX),
        (pullback_ir::Scalar::I64, 1 << 63),
    ] {
        let text = format!(
            "func f() -> ({0}) {{\n    v0: {0} = const {1}\n    yield v0\n}}\n",
            s.name(),
            pullback_ir::print::scalar_text(s, bits)
        );
        let m = parse_module(&text).unwrap_or_else(|e| panic!("{text}{e}"));
        assert_eq!(run(&m, "f", &[]), [Value::Scalar(scalar::canonical(s, bits))], "{text}");
        assert_eq!(print_module(&m), text);
    }
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
fn unfit_functions_are_found() {
    let bad = |text: &str, want: &str| {
        let m = parse_module(text).unwrap_or_else(|e| panic!("{text}{e}"));
        let errors: Vec<String> =
            m.funcs.values().flat_map(|f| verify_function(&m, f)).map(|e| e.to_string()).collect();
        assert!(errors.iter().any(|e| e.contains(want)), "{text}{errors:?}");
    };
    bad("func f(v0: f32, v1: i32) {\n v2 = add v0, v1\n}\n", "is i32 instead of f32");
    bad("func f(~v0: f32) {\n ~v1 = mul ~v0, ~v0\n}\n", "two linear values");
    bad("func f(v0: bool) {\n if v0 {\n v1: f32 = zero\n}\n v2 = neg v1\n}\n", "not visible");
    bad("func f(v0: f32) {\n v1 = local v0\n v2 = local v1\n}\n", "is a cell");
    bad("func f(v0: f32) -> (~f32) {\n yield v0\n}\n", "linear in one");
    bad("func f(~v0: f32) {\n v1: f32 = const 1.0\n ~v2 = add ~v0, v1\n}\n", "all operands are linear");
    bad("func f(~v0: f32) {\n ~v1 = sin ~v0\n}\n", "must not be linear");
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
