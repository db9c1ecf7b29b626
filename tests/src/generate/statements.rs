//! Generates statements: declarations, assignments, control flow, calls.

use super::{Generator, Shape, Ty};

const INTEGERS: [&str; 8] =
    ["int", "uint", "int8_t", "int16_t", "int64_t", "uint8_t", "uint16_t", "uint64_t"];

impl Generator {
    pub(super) fn statements(&mut self, n: usize) {
        for _ in 0..n {
            self.statement();
        }
    }

    /// The body of a control statement, with a scope of its own.
    fn block(&mut self, in_loop: bool, in_switch: bool) {
        let saved = self.scope.clone();
        self.scope.depth -= 1;
        if in_loop {
            self.scope.in_loop = true;
            self.scope.loops += 1;
        }
        self.scope.in_switch = in_switch || self.scope.in_switch && !in_loop;
        let n = 1 + self.rng.below(3);
        self.statements(n);
        self.scope = saved;
    }

    fn statement(&mut self) {
        let nested = self.scope.depth > 0;
        match self.rng.below(if nested { 33 } else { 21 }) {
            0..=3 => self.variable(),
            4..=6 => self.assignment(),
            7 => self.swizzle(),
            8 | 9 => self.integer(),
            10..=12 => self.call(),
            13 => {
                if let Some(s) = self.find(Ty::Struct, true) {
                    let k = self.rng.below(5);
                    self.writer.line(&format!("{s}.k = ({s}.k + {k}) % 5;"));
                }
            }
            14 => self.reverse(),
            15..=17 => self.exit(),
            18 | 19 => self.whole(),
            20 => self.swap(),
            21..=24 => {
                let c = self.condition();
                self.writer.open(&format!("if ({c})"));
                self.block(false, false);
                self.writer.close();
                if self.rng.one_in(2) {
                    self.writer.open("else");
                    self.block(false, false);
                    self.writer.close();
                }
            }
            25 => self.switch(),
            26..=29 => self.counted(),
            30 => self.stepped(),
            _ => self.r#while(),
        }
    }

    fn variable(&mut self) {
        let ty = match self.rng.below(if self.features.vectors { 12 } else { 8 }) {
            0..=2 => Ty::Float,
            3 => Ty::Array(3 + self.rng.below(2)),
            4 => Ty::Struct,
            5 => Ty::Table,
            6 => Ty::Structs,
            7 => Ty::Outer,
            8..=10 => Ty::Vector(2 + self.rng.below(3)),
            _ => Ty::Matrix(2 + self.rng.below(2), 2 + self.rng.below(2)),
        };
        let name = self.writer.fresh("v");
        let value = self.initialiser(ty);
        let head = match ty {
            Ty::Float => format!("F {name}"),
            Ty::Vector(n) => format!("vector<F, {n}> {name}"),
            Ty::Matrix(r, c) => format!("matrix<F, {r}, {c}> {name}"),
            Ty::Array(n) => format!("F {name}[{n}]"),
            Ty::Table => format!("F {name}[2][3]"),
            Ty::Struct => format!("S {name}"),
            Ty::Structs => format!("S {name}[2]"),
            Ty::Outer => format!("T {name}"),
        };
        let constant = self.rng.one_in(6);
        let word = if constant { "const " } else { "" };
        self.writer.line(&format!("{word}{head} = {value};"));
        self.declare(&name, ty, constant);
    }

    fn assignment(&mut self) {
        let ty = match self.rng.below(8) {
            0 => Ty::Vector(2 + self.rng.below(3)),
            1 => Ty::Matrix(2 + self.rng.below(2), 2 + self.rng.below(2)),
            2 => [Ty::Struct, Ty::Array(3), Ty::Table, Ty::Structs, Ty::Array(4)][self.rng.below(5)],
            _ => Ty::Float,
        };
        let Some(place) = self.find(ty, true) else { return };
        if !matches!(ty, Ty::Float | Ty::Vector(_) | Ty::Matrix(..)) {
            if let Some(from) = self.find(ty, false) {
                self.writer.line(&format!("{place} = {from};"));
            }
            return;
        }
        let op = self.rng.of(&["=", "=", "+=", "-=", "*="]);
        let e = self.value(ty, 2);
        let e = if op == "*=" { format!("(0.25 + 0.5 * sin({e}))") } else { e };
        self.writer.line(&format!("{place} {op} {e};"));
    }

    /// Changes a matrix or array through a part that is only known at run time.
    fn whole(&mut self) {
        let (ty, n) = match self.rng.below(4) {
            0 => (Ty::Array(3), 3),
            1 => (Ty::Array(4), 4),
            _ => {
                let r = 2 + self.rng.below(2);
                (Ty::Matrix(r, 2 + self.rng.below(2)), r)
            }
        };
        let Some(place) = self.find(ty, true) else { return };
        let (i, j) = (self.index(n), self.index(n));
        let (by, way) = (self.rng.float(), self.rng.below(3));
        let text = match ty {
            Ty::Matrix(..) => match way {
                0 => format!("{place} = tanh({place} + {place} * {place}[{i}].x);"),
                1 => format!("{place} *= sin({place}[{i}].y) + F(0.5);"),
                _ => format!("{place}[{j}] = sin({place}[{i}] * {place}[{j}].x);"),
            },
            _ => format!("{place}[{i}] = sin({place}[{j}] * {place}[{i}]) + F({by});"),
        };
        self.writer.line(&text);
    }

    /// Swaps two arrays or structs, or two parts of one.
    fn swap(&mut self) {
        let (ty, name, dimensions) = match self.rng.below(4) {
            0 => (Ty::Array(3), "F", "[3]"),
            1 => (Ty::Table, "F", "[2][3]"),
            2 => (Ty::Matrix(2, 2), "matrix<F, 2, 2>", ""),
            _ => (Ty::Struct, "S", ""),
        };
        let (Some(a), Some(b)) = (self.find(ty, true), self.find(ty, true)) else { return };
        let old = self.writer.fresh("old");
        self.writer.line(&format!("{name} {old}{dimensions} = {a}; {a} = {b}; {b} = {old};"));
        self.declare(&old, ty, true);
    }

    fn swizzle(&mut self) {
        let n = 2 + self.rng.below(3);
        let Some(v) = self.find(Ty::Vector(n), true) else { return };
        let lanes = match n {
            2 => self.rng.of(&["xy", "yx", "x"]),
            3 => self.rng.of(&["zx", "xyz", "yzx", "yx", "z"]),
            _ => self.rng.of(&["wx", "yzw", "wzyx", "xz", "y"]),
        };
        let e = match lanes.len() {
            1 => self.float(1),
            k => self.vector(k, 1),
        };
        let op = self.rng.of(&["=", "+=", "-="]);
        self.writer.line(&format!("{v}.{lanes} {op} {e};"));
    }

    /// Declares or changes an integer of any width.
    fn integer(&mut self) {
        let n = self.scope.counters.len();
        if n > 0 && self.rng.one_in(2) {
            let (name, ty) = self.scope.counters[self.rng.below(n)].clone();
            let e = self.int();
            let op = self.rng.of(&["=", "+=", "-=", "*=", "^=", "|=", "&=", "%=", "/=", "<<=", ">>="]);
            let text = match self.rng.below(4) {
                0 => format!("{name}++;"),
                1 => format!("--{name};"),
                _ => format!("{name} {op} ({ty})({e});"),
            };
            return self.writer.line(&text);
        }
        let ty = self.rng.of(&INTEGERS);
        let name = self.writer.fresh("q");
        let e = match self.rng.below(4) {
            0 => format!("{} * 2.5", self.float(1)),
            _ => self.int(),
        };
        self.writer.line(&format!("{ty} {name} = ({ty})({e});"));
        self.scope.ints.push(format!("(int){name}"));
        self.scope.counters.push((name, ty));
    }

    fn exit(&mut self) {
        let c = self.condition();
        if !self.scope.labels.is_empty() && self.rng.one_in(3) {
            let n = self.scope.labels.len();
            let label = self.scope.labels[self.rng.below(n)].clone();
            self.writer.line(&format!("if ({c}) break {label};"));
        } else if self.scope.in_loop && self.rng.one_in(2) {
            let exit = if self.rng.one_in(2) { "break" } else { "continue" };
            self.writer.line(&format!("if ({c}) {exit};"));
        } else if self.scope.in_switch && self.rng.one_in(2) {
            self.writer.line(&format!("if ({c}) break;"));
        } else if let Some(ty) = self.scope.returns {
            let e = match ty {
                Ty::Struct => match self.find(ty, false) {
                    Some(s) => s,
                    None => return,
                },
                _ => self.value(ty, 2),
            };
            self.writer.line(&format!("if ({c}) return {e};"));
        }
    }

    fn switch(&mut self) {
        let tag = self.int();
        self.writer.open(&format!("switch ({tag} % 4)"));
        let n = 2 + self.rng.below(3);
        let default = self.rng.below(n + 1);
        for k in 0..n {
            if k == default {
                self.writer.line("default:");
            } else {
                self.writer.line(&format!("case {k}:"));
                if self.rng.one_in(4) {
                    self.writer.line(&format!("case {}:", k + 10));
                }
            }
            self.writer.indent += 1;
            self.writer.line("{");
            self.writer.indent += 1;
            self.block(false, true);
            self.writer.close();
            if k + 1 == n || !self.rng.one_in(3) {
                let end = match self.scope.in_loop && self.rng.one_in(4) {
                    true => "continue;",
                    false => "break;",
                };
                self.writer.line(end);
            }
            self.writer.indent -= 1;
        }
        self.writer.close();
    }

    fn counted(&mut self) {
        if self.scope.loops > 2 {
            return;
        }
        let i = self.writer.fresh("i");
        let ty = if self.rng.one_in(2) { "int" } else { self.rng.of(&INTEGERS) };
        let signed = !ty.starts_with('u');
        let (from, to) = (self.rng.below(3), 2 + self.rng.below(4));
        let n = format!("({} & 3)", self.small());
        let head = match self.rng.below(7) {
            0 => format!("for ({ty} {i} = {from}; {i} < {to}; {i}++)"),
            1 if signed => format!("for ({ty} {i} = {to}; {i} >= {from}; {i}--)"),
            2 if signed => {
                format!("for ({ty} {i} = ({ty})({from} - {n}); {i} <= {to}; {i} += 2)")
            }
            3 => format!("for ({ty} {i} = {from}; {i} < ({ty}){n}; ++{i})"),
            4 => format!("for ({ty} {i} = 0; {i} < {to}; {i} += ({ty})(1 + {n}))"),
            5 => format!("for ({ty} {i} = ({ty}){n}; {i} != {to}; {i} = ({ty})(({i} + 1) & 7))"),
            _ => format!("for ({ty} {i} = 1; {i} <= {to}; {i} *= 2)"),
        };
        let label = if self.rng.one_in(8) {
            self.writer.line("[ForceUnroll]");
            let head = format!("for (int {i} = 0; {i} < {to}; {i}++)");
            self.writer.open(&head);
            false
        } else {
            self.checkpoint();
            let label = self.label();
            self.writer.open(&head);
            label
        };
        let saved = self.scope.ints.len();
        self.scope.ints.push(format!("(int){i}"));
        self.block(true, false);
        self.scope.ints.truncate(saved);
        self.writer.close();
        self.end_label(label);
    }

    /// A loop with a counter that may have a derivative, which ends after a fixed number of iterations at the
    /// latest.
    fn stepped(&mut self) {
        if self.scope.loops > 2 {
            return;
        }
        let t = self.writer.fresh("t");
        let (from, to) = (self.rng.float(), 0.5 + self.rng.below(4) as f64);
        let step = self.leaf();
        let head = match self.rng.below(3) {
            0 => format!("for (F {t} = 0; {t} < F({to}); {t} += F(0.4375))"),
            1 => format!("for (F {t} = F({from}); {t} < F({to}); {t} += F(0.5) + abs(sin({step})))"),
            _ => format!("for (F {t} = abs({step}) + F(1); {t} > F(0.25); {t} *= F(0.375))"),
        };
        let label = self.label();
        self.writer.open(&head);
        let saved = self.scope.vars.len();
        self.declare(&t, Ty::Float, true);
        self.block(true, false);
        self.scope.vars.truncate(saved);
        self.writer.close();
        self.end_label(label);
    }

    /// Sometimes writes a label for the loop that follows.
    fn label(&mut self) -> bool {
        let labelled = self.rng.one_in(3);
        if labelled {
            let label = self.writer.fresh("label");
            self.writer.line(&format!("{label}:"));
            self.scope.labels.push(label);
        }
        labelled
    }

    fn end_label(&mut self, labelled: bool) {
        if labelled {
            self.scope.labels.pop();
        }
    }

    /// Sometimes writes an attribute that controls what reverse mode keeps of the loop that follows.
    fn checkpoint(&mut self) {
        match self.rng.below(10) {
            0 => self.writer.line("[Checkpoint]"),
            1 => {
                let n = 1 + self.rng.below(3);
                self.writer.line(&format!("[Checkpoint({n})]"));
            }
            2 => {
                let n = 1 + self.rng.below(3);
                self.writer.line(&format!("[CheckpointStates({n})]"));
            }
            _ => {}
        }
    }

    fn small(&mut self) -> String {
        let n = self.scope.ints.len();
        match n {
            0 => format!("{}", self.rng.below(4)),
            _ => self.scope.ints[self.rng.below(n)].clone(),
        }
    }

    /// A loop with a separate counter, so that `continue` cannot make it endless.
    fn r#while(&mut self) {
        if self.scope.loops > 2 {
            return;
        }
        let i = self.writer.fresh("j");
        let trips = 1 + self.rng.below(4);
        self.writer.line(&format!("int {i} = 0;"));
        let c = self.condition();
        let (head, end) = match self.rng.below(4) {
            0 => ("do".to_string(), format!("}} while ({i} < {trips} && {c});")),
            1 => ("while (true)".to_string(), "}".to_string()),
            2 => ("for (;;)".to_string(), "}".to_string()),
            _ => (format!("while ({i} < {trips} && {c})"), "}".to_string()),
        };
        self.checkpoint();
        let label = self.label();
        self.writer.open(&head);
        if head == "while (true)" || head == "for (;;)" {
            self.writer.line(&format!("if ({i} >= {trips} || !({c})) break;"));
        }
        self.writer.line(&format!("{i}++;"));
        let saved = self.scope.ints.len();
        self.scope.ints.push(i);
        self.block(true, false);
        self.scope.ints.truncate(saved);
        self.writer.indent -= 1;
        self.writer.line(&end);
        self.end_label(label);
    }

    fn call(&mut self) {
        if self.scope.loops > 1 {
            return;
        }
        let helpers = self.scope.helpers.clone();
        if helpers.is_empty() || self.rng.one_in(4) {
            if self.scope.methods
                && let Some(s) = self.find(Ty::Struct, true)
            {
                let e = self.float(1);
                self.writer.line(&format!("{s}.shift({e});"));
            }
            return;
        }
        let (name, shape) = helpers[self.rng.below(helpers.len())].clone();
        let v = self.writer.fresh("v");
        match shape {
            Shape::Recursive | Shape::Dynamic => {
                let (a, b) = (self.float(1), self.float(1));
                let n = self.small();
                self.writer.line(&format!("F {v} = {name}({a}, {b}, ({n}) & 3);"));
            }
            Shape::Pure | Shape::Written => {
                let (a, b) = (self.float(1), self.float(1));
                self.writer.line(&format!("F {v} = {name}({a}, {b});"));
            }
            Shape::Generic => {
                let (a, b) = (self.float(1), self.float(1));
                let with = self.rng.of(&["Mean", "Wave"]);
                self.writer.line(&format!("F {v} = {name}<{with}>({a}, {b});"));
            }
            Shape::NoDiff => {
                let a = self.float(1);
                let mut c = format!("F({})", self.rng.float());
                if self.features.cuts {
                    self.used.cuts = true;
                    c = format!("detach({})", self.float(1));
                }
                self.writer.line(&format!("F {v} = {name}({a}, {c});"));
            }
            Shape::InOut => {
                let Some(place) = self.find(Ty::Float, true) else { return };
                let b = self.float(1);
                self.writer.line(&format!("F {v} = {name}({place}, {b});"));
            }
            Shape::Vector => {
                let Some(place) = self.find(Ty::Outer, true) else { return };
                let a = self.vector(3, 1);
                self.writer
                    .line(&format!("F {v} = dot({name}({a}, {place}), vector<F, 3>(0.3, -0.2, 0.25));"));
            }
            Shape::Out => {
                let Some(s) = self.find(Ty::Struct, false) else { return };
                let Some(place) = self.find(Ty::Float, true) else { return };
                return self.writer.line(&format!("{name}({s}, {place});"));
            }
            Shape::Struct => {
                let Some(s) = self.find(Ty::Struct, true) else { return };
                let a = self.float(1);
                return self.writer.line(&format!("{s} = {name}({s}, {a});"));
            }
            Shape::Array => {
                let Some(w) = self.find(Ty::Array(4), false) else { return };
                let i = self.int();
                self.writer.line(&format!("F {v} = {name}({w}, {i});"));
            }
        }
        self.declare(&v, Ty::Float, false);
    }

    /// A call of a reverse-mode derivative in the program itself.
    fn reverse(&mut self) {
        if !self.features.nested || self.scope.loops > 0 {
            return;
        }
        let helpers: Vec<(String, Shape)> = self
            .scope
            .helpers
            .iter()
            .filter(|(_, shape)| {
                matches!(shape, Shape::Pure | Shape::InOut | Shape::Generic | Shape::Written)
            })
            .cloned()
            .collect();
        if helpers.is_empty() {
            return;
        }
        self.used.nested = true;
        let (name, shape) = helpers[self.rng.below(helpers.len())].clone();
        let name = if shape == Shape::Generic { format!("{name}<Mean>") } else { name };
        let (a, b, d, e) = (self.float(1), self.float(1), self.float(1), self.float(1));
        let (p, q, v) = (self.writer.fresh("p"), self.writer.fresh("p"), self.writer.fresh("v"));
        if shape != Shape::InOut && self.rng.one_in(2) {
            self.writer.line(&format!(
                "F {v} = tanh(fwd_diff({name})(DifferentialPair<F>({a}, {d}), DifferentialPair<F>({b}, {e})).d);"
            ));
            return self.declare(&v, Ty::Float, false);
        }
        if self.rng.one_in(2) {
            let first = [a, b, d, e];
            return self.pullback(&name, shape == Shape::InOut, first);
        }
        self.writer.line(&format!("DifferentialPair<F> {p} = DifferentialPair<F>({a}, {e});"));
        self.writer.line(&format!("DifferentialPair<F> {q} = DifferentialPair<F>({b}, 0);"));
        self.writer.line(&format!("bwd_diff({name})({p}, {q}, {d});"));
        self.writer.line(&format!("F {v} = tanh({p}.d) + 0.5 * sin({q}.d);"));
        self.declare(&v, Ty::Float, false);
    }

    /// Two pullbacks of the same function, one of which is selected by a condition and called after some
    /// other statements.
    fn pullback(&mut self, name: &str, inout: bool, [a, b, d, e]: [String; 4]) {
        let (c, other) = (self.condition(), self.float(1));
        let (x, z, y, p, q) = (
            self.writer.fresh("x"),
            self.writer.fresh("x"),
            self.writer.fresh("y"),
            self.writer.fresh("p"),
            self.writer.fresh("p"),
        );
        let (u, w, v) = (self.writer.fresh("u"), self.writer.fresh("u"), self.writer.fresh("v"));
        self.writer.line(&format!("F {x} = {a}; F {z} = {other};"));
        self.writer.line(&format!("let ({y}, {p}) = __apply({name})({x}, {b});"));
        self.writer.line(&format!("let ({y}b, {q}) = __apply({name})({z}, {b});"));
        self.declare(&y, Ty::Float, true);
        if self.rng.one_in(2) {
            self.statements(1);
        }
        self.writer.line(&format!("var {p}c = {p};"));
        self.writer.line(&format!("if ({c}) {p}c = {q};"));
        let start = if inout { e } else { "0".to_string() };
        self.writer.line(&format!("F {u} = {start}; F {w};"));
        self.writer.line(&format!("{p}c({u}, {w}, {d});"));
        self.writer.line(&format!("F {v} = tanh({u}) + 0.5 * sin({w}) + 0.1 * {y}b;"));
        self.declare(&v, Ty::Float, false);
    }
}
