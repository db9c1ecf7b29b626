//! Random functions that call each other with handles made of offsets, selections, arms, loops, globals and the
//! null handle, and that read and write through them: as loops without handles in memory (`opt::recursion`), they
//! give the same results and leave the same memory.
//!
//! `PULLBACK_RANDOM` sets the number of programs, `PULLBACK_SEED` the first seed.

use std::fmt::Write as _;

use ir::Scalar;
use ir::interp::{Limits, Memory, Value, call_limited};
use ir::parse::parse_module;
use ir::print::print_module;
use pullback_tests::generate::Rng;
use pullback_tests::{arena, setting};

/// The text of a function `f0` or `f1` that is being written.
struct Writer<'r> {
    rng: &'r mut Rng,
    text: String,
    next: usize,
    depth: usize,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", "    ".repeat(self.depth));
    }

    /// A new value, given by a line with `{}` in the place of its name.
    fn value(&mut self, line: &str) -> String {
        let v = format!("v{}", self.next);
        self.next += 1;
        self.line(&line.replace("{}", &v));
        v
    }

    fn number(&mut self, ty: &str, most: usize) -> String {
        let n = self.rng.below(most);
        self.value(&format!("{{}}: {ty} = const {n}"))
    }

    fn any(&mut self, all: &[String]) -> String {
        all[self.rng.below(all.len())].clone()
    }

    fn condition(&mut self, count: &str) -> String {
        let (two, zero) = (self.value("{}: u32 = const 2"), self.value("{}: u32 = const 0"));
        let rest = self.value(&format!("{{}} = rem {count}, {two}"));
        self.value(&format!("{{}} = eq {rest}, {zero}"))
    }

    /// A handle that is made of others.
    fn handle(&mut self, all: &[String], count: &str, nested: usize) -> String {
        let from = self.any(all);
        match self.rng.below(if nested == 0 { 5 } else { 8 }) {
            0 => from,
            1 => {
                let by = self.number("u32", 3);
                let wide = self.value(&format!("{{}}: i64 = convert {by}"));
                self.value(&format!("{{}} = buffer_offset {from}, {wide}"))
            }
            2 => {
                let by = self.value("{}: i64 = const -1");
                self.value(&format!("{{}} = buffer_offset {from}, {by}"))
            }
            3 if self.rng.one_in(3) => self.value("{}: buffer<f32> = zero"),
            3 => {
                let name = if self.rng.one_in(2) { "left" } else { "right" };
                self.value(&format!("{{}}: buffer<f32> = global_ref {name}"))
            }
            4 => {
                let (c, other) = (self.condition(count), self.any(all));
                self.value(&format!("{{}} = select {c}, {from}, {other}"))
            }
            5 | 6 => {
                let c = self.condition(count);
                let result = format!("v{}", self.next);
                self.next += 1;
                self.line(&format!("{result} = if {c} {{"));
                let yes = self.arm(all, count, nested);
                self.line(&format!("    yield {yes}"));
                self.line("} else {");
                let no = self.arm(all, count, nested);
                self.line(&format!("    yield {no}"));
                self.line("}");
                result
            }
            _ => {
                let trips = self.number("u32", 3);
                let (result, i, at) =
                    (format!("v{}", self.next), format!("v{}", self.next + 1), format!("v{}", self.next + 2));
                self.next += 3;
                self.line(&format!("{result} = for {trips}, {from} ({i}, {at}) {{"));
                let next = self.arm(&[&[at], all].concat(), &i, nested);
                self.line(&format!("    yield {next}"));
                self.line("}");
                result
            }
        }
    }

    fn arm(&mut self, all: &[String], count: &str, nested: usize) -> String {
        self.depth += 1;
        if self.rng.one_in(2) {
            self.touch(all);
        }
        // Calls within what gives handles take it apart.
        if self.rng.one_in(3) {
            self.call(all, count);
        }
        let handle = self.handle(all, count, nested - 1);
        self.depth -= 1;
        handle
    }

    /// Reads, changes and writes memory.
    fn touch(&mut self, all: &[String]) {
        let (from, to) = (self.any(all), self.any(all));
        let (i, j) = (self.number("u32", 3), self.number("u32", 3));
        let x = self.value(&format!("{{}}: f32 = buffer_load {from}, {i}"));
        let y = self.value(&format!("{{}}: f32 = buffer_load {to}, {j}"));
        let half = self.value("{}: f32 = const 0.5");
        let z = self.value(&format!("{{}} = mul {x}, {half}"));
        let sum = self.value(&format!("{{}} = add {z}, {y}"));
        self.line(&format!("buffer_store {to}, {j}, {sum}"));
    }

    /// Calls one of the functions, unless the count is zero.
    fn call(&mut self, all: &[String], count: &str) -> String {
        let zero = self.value("{}: u32 = const 0");
        let one = self.value("{}: u32 = const 1");
        let left = self.value(&format!("{{}}: u32 = sub v{COUNT}, {one}"));
        let ends = self.value(&format!("{{}} = eq v{COUNT}, {zero}"));
        let result = format!("v{}", self.next);
        self.next += 1;
        self.line(&format!("{result} = if {ends} {{"));
        self.depth += 1;
        let none = self.value("{}: f32 = const 0.25");
        self.line(&format!("yield {none}"));
        self.depth -= 1;
        self.line("} else {");
        self.depth += 1;
        let (a, b) = (self.handle(all, count, 0), self.handle(all, count, 0));
        let callee = self.rng.below(2);
        let x = self.value(&format!("{{}}: f32 = call f{callee}({a}, {b}, {left})"));
        let y = self.value(&format!("{{}}: f32 = buffer_load {b}, {zero}"));
        let sum = self.value(&format!("{{}} = add {x}, {y}"));
        self.line(&format!("yield {sum}"));
        self.depth -= 1;
        self.line("}");
        result
    }
}

/// The number of the parameter that counts down.
const COUNT: usize = 2;

fn function(name: &str, rng: &mut Rng) -> String {
    let mut w = Writer { rng, text: String::new(), next: COUNT + 1, depth: 0 };
    w.line(&format!("func {name}(v0: buffer<f32>, v1: buffer<f32>, v{COUNT}: u32) -> (f32) {{"));
    w.depth = 1;
    let mut all = vec!["v0".to_string(), "v1".to_string()];
    let count = format!("v{COUNT}");
    let mut sum = w.value("{}: f32 = const 0.0");
    for _ in 0..1 + w.rng.below(3) {
        for _ in 0..1 + w.rng.below(3) {
            let handle = w.handle(&all, &count, 2);
            all.push(handle);
        }
        w.touch(&all);
        let x = w.call(&all, &count);
        sum = w.value(&format!("{{}} = add {sum}, {x}"));
    }
    w.line(&format!("yield {sum}"));
    w.depth = 0;
    w.line("}");
    w.text
}

/// A function that calls the others with two buffers from outside.
const MAIN: &str = "func main(v0: u32) -> (f32) {
    v1: buffer<f32> = global_ref left
    v2: buffer<f32> = global_ref right
    v3: i64 = const 2
    v4 = buffer_offset v1, v3
    v5: f32 = call f0(v4, v2, v0)
    v6: f32 = call f1(v2, v2, v0)
    v7 = add v5, v6
    yield v7
}
";

#[test]
fn handles_that_differ_between_calls_become_numbers() {
    let first = setting("PULLBACK_SEED", 1);
    let mut changed = 0;
    for seed in first..first + setting("PULLBACK_RANDOM", 150) {
        let mut rng = Rng::new(seed);
        let functions: String = (0..2).map(|k| function(&format!("f{k}"), &mut rng)).collect();
        let text =
            format!("global left: read_write f32\nglobal right: read_write f32\n\n{functions}\n{MAIN}");
        let module = parse_module(&text).unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{text}"));
        let main = module.find("main").expect("a function");
        let run = |module: &ir::Module, n: u64| {
            let mut memory = Memory::default();
            for (g, start) in [(0u32, 1.0f32), (1, -3.0)] {
                let numbers = (0..6).flat_map(|k| (start + k as f32).to_le_bytes()).collect();
                memory.bind(ir::Global::from_u32(g), numbers);
            }
            arena::bind_for(module, &mut memory, 1 << 22, arena::Thread { number: 0, of: 1 });
            let limits = Limits { steps: Some(400_000), depth: 100, ..Limits::default() };
            let found = call_limited(module, main, &[Value::<u64>::Scalar(n)], &mut memory, limits);
            (found.map_err(|e| e.message), memory.buffers[..2].to_vec())
        };
        for offset in [Scalar::I32, Scalar::I64] {
            let Some(looping) = opt::recursion::to_loops(&module, &[main], offset) else {
                panic!("seed {seed}: nothing became a loop\n{text}");
            };
            let errors = ir::verify::verify_module(&looping);
            assert!(errors.is_empty(), "seed {seed}: {errors:#?}\n{}", print_module(&looping));
            let mut cycles = ir::Cycles::default();
            let is_loop = looping.funcs.keys().all(|f| !cycles.is_recursive(&looping, f));
            assert!(is_loop, "seed {seed}: a function calls itself still\n{text}");
            for n in 0..4 {
                let (expected, found) = (run(&module, n), run(&looping, n));
                if [&expected.0, &found.0].into_iter().any(|r| matches!(r, Err(m) if m.contains("step"))) {
                    continue;
                }
                changed += usize::from(n > 1);
                assert!(
                    format!("{expected:?}") == format!("{found:?}"),
                    "seed {seed}, {n}: {expected:?}\nbut {found:?}\n{text}\n---- then\n{}",
                    print_module(&looping)
                );
            }
        }
    }
    assert!(changed > 200, "{changed} runs had nested calls");
}
