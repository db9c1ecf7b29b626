//! `[CheckpointStates(s)]`: the gradient is the same but for the order of sums, a loop is run no more often than the best schedule
//! runs it, and the number of runs that is announced is the number of runs.

use ir::interp::{Lane, Limits, Machine, Memory, Step, Value};
use ir::{Module, parse::parse_module};
use pullback_autodiff::backward;

/// The instructions of a trip that only its forward run executes.
const WORK: u64 = 600;

/// A trip: from `v5` and the number `v4` of the trip to `v16`.
const TRIP: &str = "
        v6 = for v2, v4 (v7, v8) {
            v9 = mul v8, v2
            v10 = add v9, v7
            yield v10
        }
        v11: u32 = const 7
        v12 = and v6, v11
        v13: f64 = convert v12
        v30: f64 = const 0.25
        v31: f64 = const 0.1
        v14 = mul v5, v5
        v15 = mul v14, v30
        v32 = mul v0, v13
        v33 = mul v32, v31
        v16 = add v15, v33";

/// A recurrence `y ↦ y²/4 + x·h/10`, where `h` needs [`WORK`] instructions and has no derivative. `{c}` is the
/// attribute of the loop.
const COUNTED: &str = "
func f(v0: f64 diff @x, v1: u32 @n) -> (f64 diff) {
    v2: u32 = const 200
    v3 = for{c} v1, v0 (v4, v5) {
{trip}
        yield v16
    }
    yield v3
}";

/// The same without a number of trips that is known when the loop starts.
const ENDLESS: &str = "
func f(v0: f64 diff @x, v1: u32 @n) -> (f64 diff) {
    v2: u32 = const 200
    v20: u32 = const 0
    v21: u32 = const 1
    v3, v22 = loop{c} v0, v20 (v5, v4) {
{trip}
        v23 = add v4, v21
        v24 = lt v23, v1
        yield v24, v16, v23
    }
    yield v3
}";

/// The gradient at `x`, and how often trips were run.
fn gradient(text: &str, kind: &str, n: u32) -> (f64, f64) {
    let mut module: Module =
        parse_module(&text.replace("{trip}", TRIP).replace("{c}", kind)).expect("the text is right");
    let f = module.funcs.keys().next().expect("a function");
    let back = backward(&mut module, f).expect("a derivative");
    let errors = ir::verify::verify_module(&module);
    assert!(errors.is_empty(), "{}", errors[0]);
    let args = [Value::f64(0.7), Value::u32(n), Value::f64(1.0)];
    let mut machine = Machine::<u64>::new(&module, back, &args, Limits::default()).expect("it fits");
    match machine.resume(&mut Memory::default()).expect("it runs") {
        Step::Done(results) => {
            (f64::from_bits(results[0].lane().bits()), machine.steps() as f64 / WORK as f64)
        }
        _ => panic!("it waits"),
    }
}

/// The fewest trips to be run to reverse `n` of them with `s` places for states or for what a trip keeps, by trying
/// all schedules.
fn fewest(n: usize, s: usize) -> u64 {
    let mut all = vec![vec![0u64; s + 1]; n + 1];
    for trips in 1..=n {
        for states in 0..=s {
            all[trips][states] = if trips <= states + 1 {
                trips as u64
            } else if states == 0 {
                u64::MAX / 4
            } else {
                let of = |m: usize| m as u64 + all[m][states] + all[trips - m][states - 1];
                (1..trips).map(of).min().expect("there are lengths")
            };
        }
    }
    all[n][s]
}

#[test]
fn trips_run_as_often_as_in_the_best_schedule() {
    for (n, s) in [(4, 3), (10, 3), (40, 3), (100, 4), (200, 9), (37, 5), (300, 6), (25, 30)] {
        let (expected, _) = gradient(COUNTED, "", n);
        let (found, runs) = gradient(COUNTED, &format!(" checkpoint(states {s})"), n);
        assert!((found / expected - 1.0).abs() < 1e-12, "{n} trips, {s} states: {found}, not {expected}");
        let fewest = fewest(n as usize, s) as f64;
        assert!((runs / fewest - 1.0).abs() < 0.1, "{n} trips, {s} states: {runs} runs, not {fewest}");
    }
}

#[test]
fn loops_without_a_bound_run_hardly_more_often() {
    for (n, s) in [(1, 3), (5, 3), (100, 4), (300, 6)] {
        let (expected, _) = gradient(ENDLESS, "", n);
        let (found, runs) = gradient(ENDLESS, &format!(" checkpoint(states {s})"), n);
        assert!((found / expected - 1.0).abs() < 1e-12, "{n} trips, {s} states: {found}, not {expected}");
        // One run more, to find out how many there are.
        let most = (fewest(n as usize, s) + u64::from(n)) as f64;
        assert!(runs < 1.1 * most + 1.0, "{n} trips, {s} states: {runs} runs, {most} at most");
    }
}

#[test]
fn runs_are_as_announced() {
    for (n, s) in [(20, 3), (220, 3), (1000, 8), (3000, 10), (12, 20), (42, 40)] {
        let (_, runs) = gradient(COUNTED, &format!(" checkpoint(states {s})"), n);
        let announced = pullback_autodiff::runs(s, u64::from(n)) as f64;
        assert!((runs / announced - 1.0).abs() < 0.1, "{n} trips, {s} states: {runs} runs, not {announced}");
    }
}

#[test]
fn forward_mode_does_the_same() {
    for (text, kind) in [(COUNTED, " checkpoint(states 2)"), (ENDLESS, " checkpoint(states 2)")] {
        let mut module =
            parse_module(&text.replace("{trip}", TRIP).replace("{c}", kind)).expect("the text is right");
        let f = module.funcs.keys().next().expect("a function");
        let forward = pullback_autodiff::forward(&mut module, f).expect("a derivative");
        let args = [Value::f64(0.7), Value::u32(25), Value::f64(1.0)];
        let results = ir::interp::call(&module, forward, &args, &mut Memory::default()).expect("it runs");
        let (expected, _) = gradient(text, "", 25);
        let found = f64::from_bits(results[1].lane());
        assert!(
            (found / expected - 1.0).abs() < 1e-12,
            "{found}, not {expected}\n{}",
            ir::print::print_module(&module)
        );
    }
}
