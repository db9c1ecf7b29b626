//! Random functions of the IR (`generate::functions`), of both styles:
//!
//! - every pass of `opt` keeps them valid and keeps their results, buffers and output, bit for bit;
//! - compiled code and the interpreter agree bit for bit, also on derivatives, which have stacks of every shape,
//!   cells that hold them, and loops that consume them in reverse;
//! - forward mode equals dual numbers, reverse mode is its transpose, and the four ways to compute second
//!   derivatives agree;
//! - derivatives before and after optimisation are the same up to rounding.
//!
//! NaNs are equal. `PULLBACK_RANDOM` sets the number of programs, `PULLBACK_SEED` the first seed, and
//! `PULLBACK_SIZE` the size of the programs that are differentiated.

use std::collections::BTreeSet;

use autodiff::Mode;
use ir::interp::depends::dependences;
use ir::interp::{Limits, Memory, Value, call_limited, dual};
use ir::print::print_module;
use ir::{Func, Function, InstData, Math, Module, Op, Prefer, Scalar, Slot, TypeData};
use native::{Desc, Options, Worker};
use pullback_tests::arena;
use pullback_tests::generate::Rng;
use pullback_tests::generate::functions::{Style, argument, float, functions};
use pullback_tests::setting;

fn seeds(default: u64) -> std::ops::Range<u64> {
    let first = setting("PULLBACK_SEED", 1);
    first..first + setting("PULLBACK_RANDOM", default)
}

fn size(seed: u64) -> usize {
    setting("PULLBACK_SIZE", 3 + seed % 40) as usize
}

fn arguments(style: Style, rng: &mut Rng, module: &Module, slots: &[Slot]) -> Vec<Value> {
    slots.iter().map(|slot| argument(style, rng, &module.types, slot.ty)).collect()
}

/// Memory with eight random numbers for each global.
fn memory(module: &Module, rng: &mut Rng) -> Memory {
    let mut memory = Memory::default();
    for global in module.globals.keys() {
        memory.bind(global, (0..8).flat_map(|_| (float(Style::Wild, rng) as f32).to_le_bytes()).collect());
    }
    memory
}

fn limits() -> Limits {
    Limits { steps: Some(3_000_000), depth: 1000, ..Limits::default() }
}

/// The contents of buffers as the bits of numbers, with all NaNs replaced by the same one.
fn words(buffers: &[Vec<u8>]) -> Vec<u32> {
    let bytes = buffers.iter().flat_map(|b| b.chunks(4));
    let bits = bytes.map(|c| u32::from_le_bytes(c.try_into().expect("four bytes")));
    bits.map(|bits| if f32::from_bits(bits).is_nan() { f32::NAN.to_bits() } else { bits }).collect()
}

/// The outcome of a run: results or an error, buffers, output.
type Outcome = (Result<Vec<Value>, String>, Vec<u32>, String);

fn interpret(module: &Module, func: Func, args: &[Value], memory: Memory) -> Outcome {
    let (outcome, memory) = interpret_in(module, func, args, memory, 1 << 22);
    assert!(arena::was_enough(module, &memory), "the arena is too small");
    outcome
}

/// Runs a function with a part of so many bytes of an arena, if the module has one; returns the memory, too.
fn interpret_in(
    module: &Module,
    func: Func,
    args: &[Value],
    mut memory: Memory,
    bytes: u32,
) -> (Outcome, Memory) {
    let n = memory.buffers.len();
    arena::bind(module, &mut memory, bytes);
    let results = call_limited(module, func, args, &mut memory, limits()).map_err(|e| e.message);
    ((results, words(&memory.buffers[..n]), memory.printed.clone()), memory)
}

/// Returns true if two runs of a function left the same, or if a program runs too long.
fn same(module: &Module, func: Func, a: &Outcome, b: &Outcome) -> bool {
    let is_one = |((slot, a), b): ((&Slot, &Value), &Value)| a.same(b, &module.types, slot.ty);
    let results = match (&a.0, &b.0) {
        (Ok(a), Ok(b)) => module.funcs[func].results.iter().zip(a).zip(b).all(is_one),
        (Err(a), _) if a.contains("step") => return true,
        (a, b) => a == b,
    };
    results && (&a.1, &a.2) == (&b.1, &b.2)
}

fn verify(module: &Module, what: &str) {
    let errors = ir::verify::verify_module(module);
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{}", print_module(module));
}

// ---- passes

fn passes(names: &[&str], seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let (mut module, main) = functions(Style::Wild, seed, 90);
        verify(&module, "generated");
        for name in names {
            let before = module.clone();
            opt::run_pass(&mut module, name, &opt::Options::default()).expect("a pass of that name");
            keeps(&before, &module, main, name, seed);
        }
    }
}

/// Checks that a module does the same after a change.
fn keeps(before: &Module, after: &Module, main: Func, what: &str, seed: u64) {
    verify(after, what);
    for k in 0..3 {
        let mut rng = Rng::new(seed + k);
        let args = arguments(Style::Wild, &mut rng, before, &before.funcs[main].params);
        let memory = memory(before, &mut rng);
        let (x, y) = (interpret(before, main, &args, memory.clone()), interpret(after, main, &args, memory));
        let show = || format!("{}\n---- after\n{}", print_module(before), print_module(after));
        assert!(same(before, main, &x, &y), "{what}, seed {seed}:\n{x:?}\n{y:?}\n---- before\n{}", show());
    }
}

#[test]
fn each_pass_alone() {
    // Only `after-ad` treats the user's zeros as symbolic zeros, and `contract` rounds once instead of twice.
    for name in opt::passes().filter(|name| !["after-ad", "contract"].contains(name)) {
        passes(&[name], seeds(60));
    }
}

/// Takes fused multiply-adds apart.
fn take_apart(func: &mut Function) {
    func.rebuild(|func, inst, out| {
        let InstData { op, args, results, span, .. } = func.insts[inst].clone();
        if op == Op::Math(Math::Fma) {
            let like = func.values[results[0]].clone();
            let (mul, product) = func.make_value(Op::Mul, &args[..2], like, span);
            out.push(mul);
            func.insts[inst].op = Op::Add;
            func.insts[inst].args = [product, args[2]][..].into();
        }
        out.push(inst);
    });
}

#[test]
fn contraction_only_fuses() {
    let is_fused = |module: &Module| {
        module.funcs.values().any(|f| f.has_body() && f.contains(|op| *op == Op::Math(Math::Fma)))
    };
    let mut fused = 0;
    for seed in seeds(200) {
        let (before, main) = functions(Style::Wild, seed, 90);
        if is_fused(&before) {
            continue;
        }
        let mut after = before.clone();
        opt::run_pass(&mut after, "contract", &opt::Options::default()).expect("a pass of that name");
        verify(&after, "contract");
        fused += u32::from(is_fused(&after));
        after.funcs.values_mut().filter(|f| f.has_body()).for_each(take_apart);
        keeps(&before, &after, main, "contract, taken apart", seed);
    }
    assert!(fused >= 5, "only {fused} programs have something to fuse");
}

#[test]
fn passes_in_turn() {
    let cleaning =
        ["simplify", "scalarize", "simplify", "cse", "dce", "licm", "cse", "unroll", "simplify", "dce"];
    let late = ["accumulators", "rematerialise", "deliver", "cse", "code-sinking", "copy-forwarding"];
    passes(&[&cleaning[..], &late].concat(), seeds(250));
}

#[test]
fn the_pipelines() {
    passes(&["before-ad", "after-ad"], seeds(250));
}

#[test]
fn pruning_keeps_the_roots() {
    for seed in seeds(30) {
        let (before, main) = functions(Style::Wild, seed, 90);
        let mut module = before.clone();
        opt::before_ad(&mut module, &opt::Options::default());
        opt::after_ad(&mut module, &opt::Options::default(), &[]);
        opt::prune(&mut module, &[main]);
        keeps(&before, &module, main, "prune", seed);
    }
}

/// A second run of the pipeline finds little to do.
#[test]
fn the_pipeline_is_at_rest() {
    let mut restless = 0;
    for seed in seeds(60) {
        let (mut module, _) = functions(Style::Wild, seed, 90);
        let [_, second, third] = [(); 3].map(|()| {
            opt::before_ad(&mut module, &opt::Options::default());
            print_module(&module)
        });
        restless += usize::from(second != third);
    }
    assert!(restless * 4 <= seeds(60).count(), "{restless}");
}

// ---- compiled code

/// Checks that compiled code does what the interpreter does.
fn compiles(module: &Module, functions: &[Func], style: Style, seed: u64) {
    let options =
        Options { functions: functions.to_vec(), fast_compile: seed.is_multiple_of(3), ..Options::default() };
    let text = || print_module(module);
    let compiled = codegen_cranelift::compile(module, &options)
        .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text()));
    let mut rng = Rng::new(seed);
    for func in [functions, functions].concat() {
        let args = arguments(style, &mut rng, module, &module.funcs[func].params);
        let memory = memory(module, &mut rng);
        let mut buffers = memory.buffers.clone();
        let expected = interpret(module, func, &args, memory);
        if matches!(&expected.0, Err(message) if message.contains("step")) {
            continue;
        }
        let descs: Vec<Desc> =
            buffers.iter_mut().map(|b| Desc { ptr: b.as_mut_ptr(), count: b.len() as u64 / 4 }).collect();
        // SAFETY: the buffers outlive the worker, and nothing else uses them.
        let mut worker = unsafe { Worker::with_buffers(&compiled, &descs) };
        let results = worker.call(func, &args).map_err(|e| e.message);
        let found = (results, words(&buffers), worker.take_stdout());
        let name = &module.funcs[func].name;
        let is_same = same(module, func, &expected, &found);
        assert!(is_same, "seed {seed}, '{name}': {expected:?} but compiled {found:?}\n{}", text());
    }
}

#[test]
fn compiled_functions_agree_with_the_interpreter() {
    for seed in seeds(300) {
        let (module, main) = functions(Style::Wild, seed, 90);
        compiles(&module, &[main], Style::Wild, seed);
    }
}

#[test]
fn compiled_derivatives_agree_with_the_interpreter() {
    for seed in seeds(40) {
        let (mut module, f) = functions(Style::Smooth, seed, 12 + seed as usize % 30);
        let mut all = derivatives(&mut module, f);
        all.extend(autodiff::backward(&mut module, all[2]));
        // The forward half passes stacks to the reverse half.
        all.extend(autodiff::stages(&mut module, f).map(|stages| stages.primal));
        opt::after_ad(&mut module, &opt::Options { level: 0, ..Default::default() }, &all);
        compiles(&module, &all, Style::Smooth, seed);
    }
}

/// Derivatives have the same results without recursion, and with their stacks in an arena, whatever its size is:
/// if it is too small, the run ends, says so and has touched nothing else.
#[test]
fn derivatives_in_an_arena_are_the_same() {
    let (mut changed, mut short) = (0, 0);
    for seed in seeds(60) {
        let (mut module, f) = functions(Style::Smooth, seed, 12 + seed as usize % 30);
        let mut all = derivatives(&mut module, f);
        all.extend(autodiff::backward(&mut module, all[2]));
        let level = (seed % 3) as u8;
        opt::after_ad(&mut module, &opt::Options { level, ..Default::default() }, &all);
        opt::prune(&mut module, &all);
        let offset = if seed % 2 == 0 { Scalar::I32 } else { Scalar::I64 };
        let looping = opt::recursion::to_loops(&module, &all, offset);
        // Of every third program only the reverse derivative has an arena.
        let roots = if seed % 3 == 0 { &all[2..3] } else { &all };
        let made = opt::arena::stacks_to_arena(looping.as_ref().unwrap_or(&module), roots);
        verify(&made, "in an arena");
        changed += usize::from(made.funcs.values().any(|f| f.name.starts_with("arena_grow")));
        let mut rng = Rng::new(seed);
        for &func in &all {
            let args = arguments(Style::Smooth, &mut rng, &module, &module.funcs[func].params);
            let memory = memory(&module, &mut rng);
            let expected = interpret(&module, func, &args, memory.clone());
            let found = interpret(&made, func, &args, memory.clone());
            let name = &module.funcs[func].name;
            let text = || [&module, &made].map(print_module).join("\n---- then\n");
            assert!(
                same(&module, func, &expected, &found)
                    || matches!(&found.0, Err(message) if message.contains("step")),
                "seed {seed}, '{name}': {expected:?} is {found:?}\n{}",
                text()
            );
            for bytes in [0, 64, 512, 4096] {
                let (found, memory) = interpret_in(&made, func, &args, memory.clone(), bytes);
                if arena::was_enough(&made, &memory) {
                    assert!(same(&module, func, &expected, &found) || found.0.is_err(), "{bytes} bytes");
                    break;
                }
                short += 1;
            }
        }
    }
    assert!(
        changed > 10 && short > 20,
        "{changed} programs have stacks that grow, {short} runs were too short"
    );
}

/// Indices of words of an arena are numbers of 32 bits: all parts together may have 4 GiB.
#[test]
fn an_arena_may_have_four_gibibytes() {
    let mut changed = 0;
    for seed in seeds(8) {
        let (mut module, f) = functions(Style::Smooth, seed, 12 + seed as usize % 30);
        let all = derivatives(&mut module, f);
        opt::after_ad(&mut module, &opt::Options::default(), &all);
        opt::prune(&mut module, &all);
        let made = opt::arena::stacks_to_arena(&module, &all);
        let mut rng = Rng::new(seed);
        for &func in &all {
            let args = arguments(Style::Smooth, &mut rng, &module, &module.funcs[func].params);
            let mut memory = memory(&module, &mut rng);
            let expected = interpret(&module, func, &args, memory.clone());
            let n = memory.buffers.len();
            // The last word is the thread's.
            arena::bind_for(&made, &mut memory, 1 << 20, LAST);
            let results = call_limited(&made, func, &args, &mut memory, limits()).map_err(|e| e.message);
            assert!(arena::was_enough(&made, &memory), "seed {seed}");
            changed += usize::from(uses_part(&made, &memory));
            let found = (results, words(&memory.buffers[..n]), memory.printed.clone());
            assert!(same(&module, func, &expected, &found), "seed {seed}: {expected:?} is {found:?}");
        }
    }
    assert!(changed > 2, "{changed} runs keep something");
}

/// The last of so many threads.
const LAST: arena::Thread = arena::Thread { number: (1 << 12) - 1, of: 1 << 12 };

/// Returns true if that thread has kept something in the arena.
fn uses_part(module: &Module, memory: &Memory) -> bool {
    let arena = module.globals.iter().find(|(_, data)| data.name == opt::arena::ARENA);
    arena.is_some_and(|(global, _)| {
        let words = memory.bytes(global).chunks_exact(4);
        words.skip(LAST.number as usize).step_by(LAST.of as usize).take(256).any(|word| word != [0; 4])
    })
}

/// A function, its derivatives, and the forward derivative of the backward one.
fn derivatives(module: &mut Module, f: Func) -> Vec<Func> {
    let forward = autodiff::forward(module, f).expect("a derivative");
    let backward = autodiff::backward(module, f).expect("a derivative");
    let second = autodiff::forward(module, backward).expect("a second derivative");
    vec![f, forward, backward, second]
}

// ---- optimised derivatives

/// The numbers of some values.
fn numbers(values: &[Value]) -> Vec<f64> {
    values.iter().flat_map(|v| v.lanes()).map(f64::from_bits).collect()
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    let most = a.abs().max(b.abs());
    (a - b).abs() <= 1e-9 + tolerance * most || !a.is_finite() && !b.is_finite() || most > 1e11
}

fn all_close(a: &[Value], b: &[Value], tolerance: f64) -> bool {
    let (a, b) = (numbers(a), numbers(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(&a, &b)| close(a, b, tolerance))
}

#[test]
fn optimised_derivatives_are_the_same() {
    compare(&opt::Options::default());
}

#[test]
fn derivatives_in_fast_mathematics_are_the_same() {
    compare(&opt::Options { fast_math: true, ..opt::Options::default() });
}

fn compare(options: &opt::Options) {
    let mut compared = 0;
    for seed in seeds(150) {
        let (mut plain, f) = functions(Style::Smooth, seed, size(seed));
        let mut fast = plain.clone();
        opt::before_ad(&mut fast, options);
        let before = fast.clone();
        let (expected, found) = (derivatives(&mut plain, f), derivatives(&mut fast, f));
        let made = fast.clone();
        opt::after_ad(&mut fast, options, &[]);
        opt::prune(&mut fast, &found);
        verify(&fast, "optimised");
        let mut rng = Rng::new(seed);
        for (&a, &b) in expected.iter().zip(&found) {
            let args = arguments(Style::Smooth, &mut rng, &plain, &plain.funcs[a].params);
            let run = |module, func| interpret(module, func, &args, Memory::default()).0;
            let (Ok(x), Ok(y)) = (run(&plain, a), run(&fast, b)) else { continue };
            if !numbers(&x).iter().all(|x| x.is_finite()) {
                continue;
            }
            compared += 1;
            let show = || [&before, &made, &fast].map(print_module).join("\n---- then\n");
            let name = &plain.funcs[a].name;
            assert!(all_close(&x, &y, 1e-7), "seed {seed}, {name}: {x:?} is {y:?}\n{}", show());
        }
    }
    assert!(compared > 2 * seeds(150).count(), "most programs are to test something: {compared}");
}

// ---- derivatives

/// A program that is differentiated, and where.
struct Case {
    module: Module,
    f: Func,
    seed: u64,
    rng: Rng,
    /// The arguments, two directions, and a cotangent.
    x: Vec<Value>,
    v: Vec<Value>,
    w: Vec<Value>,
    y: Vec<Value>,
}

impl Case {
    fn new(module: Module, f: Func, seed: u64) -> Case {
        let mut rng = Rng::new(!seed);
        let ir::Function { params, results, .. } = &module.funcs[f];
        let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).cloned().collect::<Vec<_>>();
        let mut some = |slots: &[Slot]| arguments(Style::Smooth, &mut rng, &module, slots);
        let (x, v, w, y) = (some(params), some(&diff(params)), some(&diff(params)), some(&diff(results)));
        Case { module, f, seed, rng, x, v, w, y }
    }

    fn fail(&self, what: &str) -> ! {
        let path = std::env::temp_dir().join("pullback-random-failure.ir");
        let _ = std::fs::write(&path, print_module(&self.module));
        panic!("seed {}: {what}; the module is in {}", self.seed, path.display());
    }

    /// Runs a function; `None` if it takes too long.
    fn run(&self, func: Func, args: &[&[Value]]) -> Option<Vec<Value>> {
        match interpret(&self.module, func, &args.concat(), Memory::default()).0 {
            Ok(results) => Some(results),
            Err(message) if message.contains("step") => None,
            Err(message) => self.fail(&format!("`{}` stops: {message}", self.module.funcs[func].name)),
        }
    }

    fn verify(&self, what: &str) {
        let errors = ir::verify::verify_module(&self.module);
        if !errors.is_empty() {
            self.fail(&format!("after {what}: {errors:?}"));
        }
    }

    fn make(&mut self, what: &str, mode: Mode, of: Func) -> Func {
        let make = if mode == Mode::Forward { autodiff::forward } else { autodiff::backward };
        let made =
            make(&mut self.module, of).unwrap_or_else(|problems| self.fail(&format!("{what}: {problems:?}")));
        self.verify(what);
        made
    }

    /// Tangents for all parameters, given those of the `diff` parameters.
    fn spread(&self, tangents: &[Value]) -> Vec<Value> {
        let mut rest = tangents.iter().cloned();
        let zero = |slot: &Slot| Value::zero(&self.module.types, slot.ty);
        let tangent = |slot: &Slot| if slot.diff { rest.next() } else { None }.unwrap_or_else(|| zero(slot));
        self.module.funcs[self.f].params.iter().map(tangent).collect()
    }

    fn expect_close(&self, what: &str, found: f64, expected: f64) {
        if !close(found, expected, 1e-8) {
            self.fail(&format!("{what}: {found} and {expected}"));
        }
    }
}

fn dot(a: &[Value], b: &[Value]) -> f64 {
    numbers(a).iter().zip(numbers(b)).map(|(x, y)| x * y).sum()
}

fn zeros(values: &[Value]) -> Vec<Value> {
    values.iter().map(|v| v.map(&mut |_| 0)).collect()
}

/// Dual numbers of a function. Dual numbers ignore rules, and the residuals of a pullback have no tangents, so
/// pullbacks are replaced by the functions that they are differentiated as.
fn by_dual(module: &Module, func: Func, x: &[Value], dx: &[Value]) -> Option<Vec<Value>> {
    let mut module = module.clone();
    let Module { funcs, witnesses, .. } = &mut module;
    for data in funcs.values_mut().flat_map(|func| func.insts.values_mut()) {
        if let Op::Call(callee) = &mut data.op {
            *callee = witnesses.get(callee).and_then(|w| w.substitute).unwrap_or(*callee);
        }
    }
    let (_, tangents) = dual::jvp(&module, func, x, dx, &mut Memory::default(), limits()).ok()?;
    let results = tangents.into_iter().zip(&module.funcs[func].results);
    Some(results.filter(|(_, slot)| slot.diff).map(|(tangent, _)| tangent).collect())
}

/// Returns true if a function calls itself, or a loop is reversed in segments.
fn runs_again(module: &Module) -> bool {
    module.funcs.iter().any(|(at, func)| {
        func.contains(|op| match op {
            Op::Call(callee) => *callee == at,
            Op::For(info) | Op::Loop(info) => info.checkpoint.is_some(),
            _ => false,
        })
    })
}

/// Checks that the result of every stage is well-formed, marks included.
fn stages(case: &mut Case) {
    let f = case.f;
    // A function that is run again, or has pullbacks, is reversed as a whole; the functions that it shares with
    // the stages have lost their marks. A user-written vjp never had any.
    let mut verifies = !runs_again(&case.module) && case.module.residuals.is_empty();
    if let Err(problems) = autodiff::stages(&mut case.module, f) {
        case.fail(&format!("stages: {problems:?}"));
    }
    verifies &= !case.module.funcs.values().any(|f| f.contains(|op| matches!(op, Op::CallTransposeOf(_))));
    let mask: Vec<bool> = case.x.iter().map(|_| case.rng.one_in(2)).collect();
    for what in ["stages", "linearize with a mask"] {
        if verifies {
            case.verify(what);
        }
        autodiff::linearize(&mut case.module, f, &mask, Mode::Forward);
    }
}

/// Checks that the choice of kept values changes nothing.
fn policies(module: &Module, f: Func, seed: u64, wanted: &[Value]) -> Option<()> {
    for k in 0..2 {
        let mut case = Case::new(module.clone(), f, seed);
        let budget = (k == 1).then(|| case.rng.below(300) as u64);
        let prefer = if case.rng.one_in(2) { Prefer::Recompute } else { Prefer::Checkpoint };
        for func in case.module.funcs.values_mut() {
            func.checkpoint.prefer = if case.rng.one_in(2) { prefer } else { Prefer::Neither };
        }
        case.module.funcs[f].checkpoint.budget = budget;
        match autodiff::backward(&mut case.module, f) {
            Ok(backward) => {
                case.verify("backward with another policy");
                let found = case.run(backward, &[&case.x, &case.y])?;
                if !all_close(&found, wanted, 1e-8) {
                    case.fail(&format!("with budget {budget:?}: {found:?} and not {wanted:?}"));
                }
            }
            Err(problems) if problems.iter().all(|p| budget.is_some() && p.code == "E0921") => {}
            Err(problems) => case.fail(&format!("{problems:?}")),
        }
    }
    Some(())
}

/// Checks second derivatives, four ways and by dual numbers; returns the number that all of them give.
fn second(case: &mut Case, forward: Func, backward: Func, tangents: &[Value]) -> Option<f64> {
    let (no_v, no_y) = (zeros(&case.v), zeros(&case.y));
    let (n_v, n_y) = (case.v.len(), case.y.len());
    let last = |values: &[Value], n: usize| values[values.len() - n..].to_vec();
    let directions = [case.spread(&case.w), no_v.clone()].concat();
    let by_dual = by_dual(&case.module, forward, &[&case.x[..], &case.v].concat(), &directions);

    let made = case.make("forward of forward", Mode::Forward, forward);
    let out = case.run(made, &[&case.x, &case.v, &case.w, &no_v])?;
    let expected = dot(&last(&out, n_y), &case.y);
    case.expect_close("forward of forward, dual numbers", expected, dot(&last(&by_dual?, n_y), &case.y));

    summed(case, made)?;

    let made = case.make("forward of backward", Mode::Forward, backward);
    let out = case.run(made, &[&case.x, &case.y, &case.w, &no_y])?;
    case.expect_close("forward of backward", dot(&last(&out, n_v), &case.v), expected);

    let made = case.make("backward of forward", Mode::Reverse, forward);
    let out = case.run(made, &[&case.x, &case.v, &no_y, &case.y])?;
    case.expect_close("backward of forward", dot(&out[..n_v], &case.w), expected);

    let made = case.make("backward of backward", Mode::Reverse, backward);
    let out = case.run(made, &[&case.x, &case.y, &case.v])?;
    case.expect_close("backward of backward", dot(&out[..n_v], &case.w), expected);
    if !all_close(&out[n_v..], tangents, 1e-8) {
        case.fail("the derivative of Jᵀȳ by ȳ is not J");
    }
    Some(expected)
}

/// Checks the sums of second derivatives along two directions against nested forward mode, and the derivatives of that
/// sum, which are third derivatives, both ways. `forward_twice` is forward mode of forward mode.
fn summed(case: &mut Case, forward_twice: Func) -> Option<()> {
    let (n_v, n_y) = (case.v.len(), case.y.len());
    let last = |values: &[Value], n: usize| values[values.len() - n..].to_vec();
    let (no_v, no_y) = (zeros(&case.v), zeros(&case.y));
    let mut nested = Vec::new();
    for v in [&case.v, &case.w] {
        let out = case.run(forward_twice, &[&case.x, v, v, &no_v])?;
        nested.push((last(&out[..out.len() - 2 * n_y], n_y), last(&out, n_y)));
    }
    let made = match autodiff::second(&mut case.module, case.f, 2) {
        Ok(made) => made,
        Err(problems) => case.fail(&format!("second derivatives: {problems:?}")),
    };
    case.verify("second derivatives");
    let out = case.run(made, &[&case.x, &case.v, &case.w])?;
    let n_values = out.len() - 3 * n_y;
    for (k, (first, _)) in nested.iter().enumerate() {
        if !all_close(&out[n_values + k * n_y..][..n_y], first, 1e-8) {
            case.fail("first derivatives along two directions");
        }
    }
    let expected: f64 = nested.iter().map(|(_, second)| dot(second, &case.y)).sum();
    case.expect_close("the sum of second derivatives", dot(&last(&out, n_y), &case.y), expected);

    // Their derivatives along `v`.
    let forward = case.make("forward of second derivatives", Mode::Forward, made);
    let out = case.run(forward, &[&case.x, &case.v, &case.w, &case.v, &no_v, &no_v])?;
    let along = dot(&last(&out, n_y), &case.y);
    let third = case.make("forward of forward of forward", Mode::Forward, forward_twice);
    let mut expected = 0.0;
    for v in [&case.v, &case.w] {
        let out = case.run(third, &[&case.x, v, v, &no_v, &case.v, &no_v, &no_v, &no_v])?;
        expected += dot(&last(&out, n_y), &case.y);
    }
    case.expect_close("the derivative of second derivatives", along, expected);
    let backward = case.make("backward of second derivatives", Mode::Reverse, made);
    let out = case.run(backward, &[&case.x, &case.v, &case.w, &no_y, &no_y, &no_y, &case.y])?;
    case.expect_close("backward of second derivatives", dot(&out[..n_v], &case.v), expected);
    Some(())
}

/// Makes all checks of a program; returns a second derivative, or `None` for a program that runs too long.
fn check(seed: u64, size: usize) -> Option<f64> {
    let (mut module, f) = functions(Style::Smooth, seed, size);
    let problems = autodiff::differentiate(&mut module, &autodiff::Options::default());
    assert!(problems.is_empty(), "seed {seed} size {size}: {problems:?}");
    let original = module.clone();
    let mut case = Case::new(module, f, seed);
    case.verify("generation");
    stages(&mut Case::new(original.clone(), f, seed));

    let value = case.run(f, &[&case.x])?;
    let forward = case.make("forward", Mode::Forward, f);
    let out = case.run(forward, &[&case.x, &case.v])?;
    let (primal, tangents) = out.split_at(value.len());
    let outcome = |results: &[Value]| (Ok(results.to_vec()), Vec::new(), String::new());
    if !same(&case.module, f, &outcome(&value), &outcome(primal)) {
        case.fail(&format!("forward mode changes the primal {value:?} to {primal:?}"));
    }
    let expected = by_dual(&original, f, &case.x, &case.spread(&case.v))?;
    if !all_close(tangents, &expected, 1e-8) {
        case.fail(&format!("forward mode gives {tangents:?}, dual numbers {expected:?}"));
    }
    let backward = case.make("backward", Mode::Reverse, f);
    let gradient = case.run(backward, &[&case.x, &case.y])?;
    case.expect_close("<ȳ, Jẋ>, <Jᵀȳ, ẋ>", dot(&case.y, tangents), dot(&gradient, &case.v));
    policies(&original, f, seed, &gradient)?;
    second(&mut case, forward, backward, tangents)
}

#[test]
fn derivatives_are_dual_numbers_and_their_transpose() {
    let all = seeds(250);
    let curved =
        all.clone().filter(|&seed| check(seed, size(seed)).is_some_and(|found| found != 0.0)).count();
    assert!(curved * 3 > all.count(), "most programs are to test something: {curved}");
}

/// Masks in place of tangents tell what the interpreter's sets do, before and after optimisation.
#[test]
fn sparsity_is_what_the_interpreter_finds() {
    let (mut followed, mut refused, mut sparse) = (0, 0, 0);
    for seed in seeds(150) {
        let (mut module, f) = functions(Style::Smooth, seed, size(seed));
        let all = derivatives(&mut module, f);
        let counts = |f: Func| (module.funcs[f].params.len(), module.funcs[f].results.len());
        for (func, (from, results)) in [(all[1], counts(f)), (all[3], counts(all[2]))] {
            let params = module.funcs[func].params.clone();
            let is_tangent: Vec<bool> = (0..params.len()).map(|k| k >= from).collect();
            let mut made = module.clone();
            let Ok(of_masks) = autodiff::sparsity(&mut made, func, &is_tangent, results) else {
                refused += 1;
                continue;
            };
            verify(&made, "sparsity");
            let mut optimised = made.clone();
            opt::after_ad(&mut optimised, &opt::Options::default(), &[of_masks]);
            verify(&optimised, "sparsity, optimised");
            let args = arguments(Style::Smooth, &mut Rng::new(seed), &module, &params);
            let n: usize = args[..from].iter().map(|v| v.lanes().len()).sum();
            let n_seeds = args.iter().map(|v| v.lanes().len()).sum::<usize>() - n;
            let mut memory = Memory::default();
            let Ok(expected) = dependences(&module, func, &args, n..n + n_seeds, &mut memory, limits())
            else {
                continue;
            };
            let skip = expected.len() - {
                let types = module.funcs[func].results[results..].iter();
                types.map(|slot| Value::<u64>::zero(&module.types, slot.ty).lanes().len()).sum::<usize>()
            };
            let expected: Vec<u64> = expected[skip..]
                .iter()
                .map(|seeds| seeds.iter().fold(0, |mask, seed| mask | 1 << (seed % 64)))
                .collect();
            let mut next = 0;
            let masks = args[from..].iter().map(|arg| {
                arg.map(&mut |_| {
                    next += 1;
                    1 << ((next - 1) % 64)
                })
            });
            let args: Vec<Value> = args[..from].iter().cloned().chain(masks).collect();
            for module in [&made, &optimised] {
                let found = interpret(module, of_masks, &args, Memory::default()).0;
                let found = found.map(|found| found.iter().flat_map(|v| v.lanes()).collect::<Vec<u64>>());
                assert_eq!(found, Ok(expected.clone()), "seed {seed}\n{}", print_module(module));
            }
            followed += 1;
            sparse += usize::from(expected.iter().any(|&mask| mask != expected[0]));
        }
    }
    let n = seeds(150).count();
    assert!(followed > n && sparse * 4 > n, "{followed} followed, {refused} refused, {sparse} sparse");
}

#[test]
fn the_generator_uses_everything() {
    let mut seen = BTreeSet::new();
    for (seed, style) in (0..60).flat_map(|seed| [(seed, Style::Smooth), (seed, Style::Wild)]) {
        let (module, _) = functions(style, seed, 30);
        for func in module.funcs.values().filter(|f| f.has_body()) {
            func.walk(func.body(), &mut |inst| _ = seen.insert(func.insts[inst].op.spec().name));
            let is_stack = |v: &ir::ValueData| matches!(module.types[v.ty], TypeData::Stack(_));
            seen.extend(func.values.values().any(is_stack).then_some("stacks"));
        }
    }
    let all = [
        "if",
        "switch",
        "for",
        "loop",
        "local",
        "load",
        "store",
        "add_to",
        "call",
        "call_fwd",
        "call_bwd",
        "call_apply",
        "call_pullback",
        "call_linearize",
        "call_pushforward",
        "index",
        "extract",
        "insert",
        "construct",
        "splat",
        "sum",
        "select",
        "detach",
        "convert",
        "buffer_load",
        "buffer_store",
        "atomic",
        "printf",
        "rem",
        "shl",
        "stacks",
    ];
    let missing: Vec<&str> = all.into_iter().filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
