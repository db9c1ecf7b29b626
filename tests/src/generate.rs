//! Random programs in the language: nested control flow, arrays, structs, calls, `inout`, early exits.
//!
//! A program is a few helper functions and `float f(float x, float y, S s, no_diff int n)`. Every expression is bounded
//! and smooth between branches, so that differences can check derivatives; every loop ends. The text depends on the
//! seed alone.

use std::fmt::Write;

/// A small generator of pseudo-random numbers (xorshift64*), so that a seed means the same program for ever.
pub struct Rng(u64);

impl Rng {
    /// From any seed.
    pub fn new(seed: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03);
        if rng.0 == 0 {
            rng.0 = 1;
        }
        for _ in 0..4 {
            rng.bits();
        }
        rng
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// In [-2, 2), in steps of 1/64, so that it prints exactly.
    pub fn float(&mut self) -> f64 {
        self.below(256) as f64 / 64.0 - 2.0
    }
}

/// The program of a seed, with float type `scalar` (`float` or `double`).
pub fn program(seed: u64, scalar: &str) -> String {
    let mut generator =
        Generator { rng: Rng::new(seed), out: String::new(), indent: 0, names: 0, scope: Scope::default() };
    generator.program(scalar);
    generator.out
}

#[derive(Clone, Default)]
struct Scope {
    /// Assignable scalars.
    floats: Vec<String>,
    /// Readable only.
    constants: Vec<String>,
    /// Assignable arrays of 4.
    arrays: Vec<String>,
    /// Assignable structs.
    structs: Vec<String>,
    ints: Vec<String>,
    /// Helper functions that may be called: name and shape.
    helpers: Vec<(String, Shape)>,
    in_loop: bool,
    returns: bool,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Shape {
    /// `F h(F a, F b)`
    Pure,
    /// `F h(inout F a, F b)`
    InOut,
    /// `void h(S s, out F a)`
    Out,
    /// `S h(S s, F a)`
    Struct,
    /// `F h(F a[4], int i)`
    Array,
}

struct Generator {
    rng: Rng,
    out: String,
    indent: usize,
    names: usize,
    scope: Scope,
}

impl Generator {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn open(&mut self, text: &str) {
        self.line(text);
        self.line("{");
        self.indent += 1;
    }

    fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn program(&mut self, scalar: &str) {
        let _ = writeln!(self.out, "typedef {scalar} F;");
        self.line("struct S : IDifferentiable { F a; int k; F b[3]; no_diff F c; }");
        let n_helpers = self.rng.below(4);
        let mut helpers = Vec::new();
        for idx in 0..n_helpers {
            let name = format!("h{idx}");
            let shape =
                [Shape::Pure, Shape::InOut, Shape::Out, Shape::Struct, Shape::Array][self.rng.below(5)];
            self.helper(&name, shape, &helpers);
            helpers.push((name, shape));
        }
        self.line("[Differentiable]");
        self.open("F f(F x, F y, S s, no_diff int n)");
        self.scope = Scope {
            floats: vec!["x".into(), "y".into()],
            constants: Vec::new(),
            arrays: Vec::new(),
            structs: vec!["s".into()],
            ints: vec!["n".into()],
            helpers,
            in_loop: false,
            returns: true,
            depth: 3,
        };
        let n = 3 + self.rng.below(6);
        self.statements(n);
        let e = self.float(2);
        self.line(&format!("return {e};"));
        self.close();
    }

    fn helper(&mut self, name: &str, shape: Shape, helpers: &[(String, Shape)]) {
        let mut scope = Scope { helpers: helpers.to_vec(), depth: 2, ..Scope::default() };
        self.line("[Differentiable]");
        match shape {
            Shape::Pure => {
                self.open(&format!("F {name}(F a, F b)"));
                scope.floats = vec!["a".into(), "b".into()];
                scope.returns = true;
            }
            Shape::InOut => {
                self.open(&format!("F {name}(inout F a, F b)"));
                scope.floats = vec!["a".into(), "b".into()];
                scope.returns = true;
            }
            Shape::Out => {
                self.open(&format!("void {name}(S s, out F a)"));
                self.line("a = s.a;");
                scope.floats = vec!["a".into()];
                scope.structs = vec!["s".into()];
            }
            Shape::Struct => {
                self.open(&format!("S {name}(S s, F a)"));
                scope.floats = vec!["a".into()];
                scope.structs = vec!["s".into()];
            }
            Shape::Array => {
                self.open(&format!("F {name}(F a[4], int i)"));
                scope.arrays = vec!["a".into()];
                scope.ints = vec!["i".into()];
                scope.floats = Vec::new();
                scope.returns = true;
                self.line("F t = a[1];");
                scope.floats.push("t".into());
            }
        }
        self.scope = scope;
        let n = 1 + self.rng.below(4);
        self.statements(n);
        match shape {
            Shape::Out => {}
            Shape::Struct => self.line("return s;"),
            Shape::Pure | Shape::InOut | Shape::Array => {
                let e = self.float(2);
                self.line(&format!("return {e};"));
            }
        }
        self.close();
    }

    fn statements(&mut self, n: usize) {
        for _ in 0..n {
            self.statement();
        }
    }

    fn block(&mut self, n: usize, in_loop: bool) {
        let saved = self.scope.clone();
        self.scope.depth -= 1;
        self.scope.in_loop |= in_loop;
        self.statements(n);
        self.scope = saved;
    }

    fn statement(&mut self) {
        let nested = self.scope.depth > 0;
        match self.rng.below(if nested { 20 } else { 11 }) {
            0 | 1 => {
                let name = self.fresh("v");
                let e = self.float(3);
                self.line(&format!("F {name} = {e};"));
                self.scope.floats.push(name);
            }
            2 | 3 => {
                let place = self.place();
                let op = ["=", "+=", "-=", "*="][self.rng.below(4)];
                let e = self.float(2);
                let e = if op == "*=" { format!("(0.25 + 0.5 * sin({e}))") } else { e };
                self.line(&format!("{place} {op} {e};"));
            }
            4 => {
                let name = self.fresh("w");
                let parts: Vec<String> = (0..4).map(|_| self.float(1)).collect();
                self.line(&format!("F {name}[4] = {{ {} }};", parts.join(", ")));
                self.scope.arrays.push(name);
            }
            5 => {
                let name = self.fresh("s");
                let parts: Vec<String> = (0..4).map(|_| self.float(1)).collect();
                let k = self.rng.below(5);
                let text = format!(
                    "S {name} = {{ {}, {k}, {{ {}, {}, {} }}, {} }};",
                    parts[0],
                    parts[1],
                    parts[2],
                    parts[3],
                    self.rng.float()
                );
                self.line(&text);
                self.scope.structs.push(name);
            }
            6 | 7 => self.call(),
            8 => {
                if let Some(s) = self.pick_struct() {
                    let k = self.rng.below(5);
                    self.line(&format!("{s}.k = ({s}.k + {k}) % 5;"));
                }
            }
            9 | 10 => {
                if self.scope.in_loop && self.rng.one_in(2) {
                    let c = self.condition();
                    let exit = if self.rng.one_in(2) { "break" } else { "continue" };
                    self.line(&format!("if ({c}) {exit};"));
                } else if self.scope.returns {
                    let c = self.condition();
                    let e = self.float(2);
                    self.line(&format!("if ({c}) return {e};"));
                }
            }
            11..=13 => {
                let c = self.condition();
                self.open(&format!("if ({c})"));
                let n = 1 + self.rng.below(3);
                self.block(n, false);
                self.close();
                if self.rng.one_in(2) {
                    self.open("else");
                    let n = 1 + self.rng.below(3);
                    self.block(n, false);
                    self.close();
                }
            }
            14 => {
                let tag = self.int();
                self.open(&format!("switch ({tag} % 3)"));
                for k in 0..3 {
                    self.line(&if k == 2 { "default:".to_string() } else { format!("case {k}:") });
                    self.indent += 1;
                    let saved = self.scope.in_loop;
                    self.scope.in_loop = false;
                    let n = 1 + self.rng.below(2);
                    self.line("{");
                    self.indent += 1;
                    self.block(n, false);
                    self.close();
                    self.scope.in_loop = saved;
                    if k == 2 || !self.rng.one_in(3) {
                        self.line("break;");
                    }
                    self.indent -= 1;
                }
                self.close();
            }
            15..=17 => {
                let i = self.fresh("i");
                let n = if self.scope.ints.iter().any(|name| name == "n") { "n" } else { "3" };
                let (from, to) = (self.rng.below(3), 2 + self.rng.below(4));
                let head = match self.rng.below(4) {
                    0 => format!("for (int {i} = {from}; {i} < {to}; {i}++)"),
                    1 => format!("for (int {i} = {to}; {i} >= {from}; {i}--)"),
                    2 => format!("for (int {i} = {from} - {n}; {i} <= {to}; {i} += 2)"),
                    _ => format!("for (uint {i} = {from}; {i} < {n}; ++{i})"),
                };
                self.open(&head);
                let saved = self.scope.ints.len();
                self.scope.ints.push(format!("(int){i}"));
                let n = 1 + self.rng.below(3);
                self.block(n, true);
                self.scope.ints.truncate(saved);
                self.close();
            }
            _ => {
                // counted by hand, so that `continue` cannot make it endless
                let i = self.fresh("j");
                let trips = 1 + self.rng.below(4);
                self.line(&format!("int {i} = 0;"));
                let c = self.condition();
                if self.rng.one_in(2) {
                    self.open(&format!("while ({i} < {trips} && {c})"));
                    self.line(&format!("{i}++;"));
                    let n = 1 + self.rng.below(3);
                    self.block(n, true);
                    self.close();
                } else {
                    self.open("do");
                    self.line(&format!("{i}++;"));
                    let n = 1 + self.rng.below(3);
                    self.block(n, true);
                    self.indent -= 1;
                    self.line(&format!("}} while ({i} < {trips} && {c});"));
                }
            }
        }
    }

    fn call(&mut self) {
        let helpers = self.scope.helpers.clone();
        if helpers.is_empty() {
            return;
        }
        let (name, shape) = helpers[self.rng.below(helpers.len())].clone();
        match shape {
            Shape::Pure => {
                let (a, b) = (self.float(1), self.float(1));
                let v = self.fresh("v");
                self.line(&format!("F {v} = {name}({a}, {b});"));
                self.scope.floats.push(v);
            }
            Shape::InOut => {
                let place = self.place();
                let b = self.float(1);
                let v = self.fresh("v");
                self.line(&format!("F {v} = {name}({place}, {b});"));
                self.scope.floats.push(v);
            }
            Shape::Out => {
                let Some(s) = self.pick_struct() else { return };
                let place = self.place();
                self.line(&format!("{name}({s}, {place});"));
            }
            Shape::Struct => {
                let Some(s) = self.pick_struct() else { return };
                let a = self.float(1);
                self.line(&format!("{s} = {name}({s}, {a});"));
            }
            Shape::Array => {
                let Some(w) = self.pick_array() else { return };
                let i = self.int();
                let v = self.fresh("v");
                self.line(&format!("F {v} = {name}({w}, {i});"));
                self.scope.floats.push(v);
            }
        }
    }

    fn pick_struct(&mut self) -> Option<String> {
        let n = self.scope.structs.len();
        (n > 0).then(|| self.scope.structs[self.rng.below(n)].clone())
    }

    fn pick_array(&mut self) -> Option<String> {
        let n = self.scope.arrays.len();
        (n > 0).then(|| self.scope.arrays[self.rng.below(n)].clone())
    }

    /// Something to assign to.
    fn place(&mut self) -> String {
        for _ in 0..4 {
            match self.rng.below(4) {
                0 | 1 => {
                    let n = self.scope.floats.len();
                    if n > 0 {
                        return self.scope.floats[self.rng.below(n)].clone();
                    }
                }
                2 => {
                    if let Some(w) = self.pick_array() {
                        let i = self.index(4);
                        return format!("{w}[{i}]");
                    }
                }
                _ => {
                    if let Some(s) = self.pick_struct() {
                        return if self.rng.one_in(2) {
                            format!("{s}.a")
                        } else {
                            let i = self.index(3);
                            format!("{s}.b[{i}]")
                        };
                    }
                }
            }
        }
        let n = self.scope.floats.len();
        if n > 0 {
            self.scope.floats[self.rng.below(n)].clone()
        } else {
            format!("{}.a", self.scope.structs[0])
        }
    }

    fn int(&mut self) -> String {
        let n = self.scope.ints.len();
        match self.rng.below(3) {
            0 => format!("{}", self.rng.below(7)),
            1 if n > 0 => self.scope.ints[self.rng.below(n)].clone(),
            _ => match self.pick_struct() {
                Some(s) => format!("{s}.k"),
                None => format!("{}", self.rng.below(7)),
            },
        }
    }

    /// In range for an array of `n`.
    fn index(&mut self, n: usize) -> String {
        if self.rng.one_in(3) {
            return format!("{}", self.rng.below(n));
        }
        let i = self.int();
        format!("(uint({i}) + {}) % {n}", self.rng.below(3))
    }

    fn condition(&mut self) -> String {
        match self.rng.below(5) {
            0 => format!("{} > {}", self.int(), self.rng.below(4)),
            1 => {
                let (a, b) = (self.float(1), self.float(1));
                format!("({a} < {b} && {} != {})", self.int(), self.rng.below(4))
            }
            2 => format!("!({} > {})", self.float(1), self.rng.float()),
            _ => format!("{} < {}", self.float(1), self.float(1)),
        }
    }

    /// A bounded smooth expression.
    fn float(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match self.rng.below(8) {
                0 => format!("F({})", self.rng.float()),
                1 => match self.pick_array() {
                    Some(w) => {
                        let i = self.index(4);
                        format!("{w}[{i}]")
                    }
                    None => format!("F({})", self.rng.float()),
                },
                2 => match self.pick_struct() {
                    Some(s) => {
                        let i = self.index(3);
                        format!("{s}.b[{i}]")
                    }
                    None => format!("F({})", self.rng.float()),
                },
                3 => match self.pick_struct() {
                    Some(s) => format!("{s}.{}", if self.rng.one_in(3) { "c" } else { "a" }),
                    None => format!("F({})", self.rng.float()),
                },
                _ => {
                    let n = self.scope.floats.len();
                    let m = self.scope.constants.len();
                    if n + m == 0 {
                        format!("F({})", self.rng.float())
                    } else {
                        let k = self.rng.below(n + m);
                        if k < n { self.scope.floats[k].clone() } else { self.scope.constants[k - n].clone() }
                    }
                }
            };
        }
        let a = self.float(depth - 1);
        let b = self.float(depth - 1);
        match self.rng.below(16) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 | 4 => format!("sin({a} * {b})"),
            5 => format!("cos({a} + 0.5 * {b})"),
            6 => format!("(0.5 * {a} * {b} / (1 + {b} * {b}))"),
            7 => format!("sqrt(1 + {a} * {a})"),
            8 => format!("exp(-{a} * {a})"),
            9 => format!("log(2 + {a} * {a})"),
            10 => {
                let c = self.condition();
                format!("({c} ? {a} : {b})")
            }
            11 => format!("tanh({a})"),
            12 => format!("(-{a})"),
            13 => format!("atan({a} * {b})"),
            14 => {
                let i = self.int();
                format!("(0.1 * {i} * {a})")
            }
            _ => format!("max({a}, {b})"),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_seed_means_one_program() {
        assert_eq!(super::program(7, "float"), super::program(7, "float"));
        assert_ne!(super::program(7, "float"), super::program(8, "float"));
    }
}
