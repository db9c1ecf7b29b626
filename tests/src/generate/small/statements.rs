//! Generates statements: variables, places, control flow, calls, and statements about the kind's subject.

use super::{Generator, Helper, Kind, Ty};

impl Generator {
    pub(super) fn statements(&mut self, n: usize) {
        (0..n).for_each(|_| self.statement());
    }

    fn block(&mut self) {
        let n_vars = self.vars.len();
        self.depth -= 1;
        let n = self.few(2);
        self.statements(n);
        self.depth += 1;
        self.vars.truncate(n_vars);
    }

    fn statement(&mut self) {
        match self.rng.below(if self.depth > 0 { 22 } else { 13 }) {
            0..=2 => self.variable(),
            3..=5 => self.assignment(),
            6 | 7 => self.element(),
            8 => {
                if let Some(s) = self.find(Ty::Struct, true) {
                    let e = self.float(1);
                    self.writer.line(&format!("{s}.shift({e});"));
                }
            }
            9 | 10 => self.special(),
            11 => self.procedure(),
            12 => {
                if let Some(ty) = self.returns.filter(|_| self.rng.one_in(2)) {
                    let (c, e) = (self.condition(), self.value(ty, 1));
                    self.writer.line(&format!("if ({c}) return {e};"));
                }
            }
            13..=16 => {
                let c = self.condition();
                self.writer.open(&format!("if ({c})"));
                self.block();
                self.writer.close();
                if self.rng.one_in(2) {
                    self.writer.open("else");
                    self.block();
                    self.writer.close();
                }
            }
            17 => {
                self.writer.open("switch (n & 3)");
                for k in 0..2 {
                    self.writer.line(&format!("case {k}:"));
                    self.writer.open("");
                    self.block();
                    self.writer.close();
                    self.writer.line("break;");
                }
                self.writer.line("default:");
                self.writer.open("");
                self.block();
                self.writer.close();
                self.writer.line("break;");
                self.writer.close();
            }
            _ => self.r#loop(),
        }
    }

    fn variable(&mut self) {
        let ty = Ty::ALL[self.rng.below(6)];
        let name = self.writer.fresh("v");
        let value = match ty {
            Ty::Array => format!("{{ {}, {}, {} }}", self.float(1), self.float(1), self.float(0)),
            Ty::Struct => format!(
                "{{ {}, {}, {{ {}, {} }}, {}, {} }}",
                self.float(1),
                self.two(1),
                self.float(0),
                self.float(1),
                self.rng.float(),
                self.rng.below(4)
            ),
            _ => self.value(ty, 1),
        };
        self.writer.line(&format!("{} {name} = {value};", ty.name()));
        self.declare(&name, ty, false);
    }

    fn assignment(&mut self) {
        let ty = Ty::ALL[self.rng.below(6)];
        let Some(place) = self.find(ty, true) else { return };
        let e = self.value(ty, 1);
        match ty {
            Ty::Array | Ty::Struct => self.writer.line(&format!("{place} = {e};")),
            _ => {
                let op = self.rng.of(&["=", "=", "+=", "-=", "*="]);
                let e = if op == "*=" { format!("(0.5 * sin({e}))") } else { e };
                self.writer.line(&format!("{place} {op} {e};"));
            }
        }
    }

    /// An assignment to a part of a variable, often at an index that depends on data.
    fn element(&mut self) {
        let ty = Ty::ALL[1 + self.rng.below(5)];
        let Some(place) = self.find(ty, true) else { return };
        let op = self.rng.of(&["=", "+=", "-="]);
        let text = match ty {
            Ty::Two => format!("{place}{} {op} {};", self.rng.of(&[".x", ".y", "[n & 1]"]), self.float(1)),
            Ty::Three if self.rng.one_in(2) => {
                format!("{place}.{} {op} {};", self.rng.of(&["zx", "xy", "yz"]), self.two(1))
            }
            Ty::Matrix if self.rng.one_in(2) => format!("{place}[{}] {op} {};", self.index(2), self.two(1)),
            Ty::Matrix => format!("{place}[{}][{}] {op} {};", self.index(2), self.index(2), self.float(1)),
            Ty::Struct if self.rng.one_in(2) => format!("{place}.v {op} {};", self.two(1)),
            Ty::Struct => {
                format!("{place}{} {op} {};", self.rng.of(&[".a", ".w[1]", ".w[n & 1]"]), self.float(1))
            }
            _ => format!("{place}[{}] {op} {};", self.index(3), self.float(1)),
        };
        self.writer.line(&text);
    }

    /// Statements about the kind's subject.
    pub(super) fn special(&mut self) {
        match self.kind {
            Kind::Effects => {
                let x = self.float(1);
                let callee = self.rng.of(&["note", "note", "linearized", "applied"]);
                self.writer.line(&format!("{callee}({}, {x});", self.number));
            }
            Kind::Ignored => {
                let (a, b, c) = (self.float(1), self.float(1), self.condition());
                let (p, v) = (self.writer.fresh("v"), self.writer.fresh("v"));
                match self.rng.below(3) {
                    0 => {
                        self.writer.line(&format!("IPick {p} = make({a}, {b}, n);"));
                        self.writer.line(&format!("if ({c}) {p}.step({b});"));
                        self.writer.line(&format!("F {v} = {p}.pick({b}, {a});"));
                    }
                    1 => {
                        self.writer.line(&format!("IPick {p} = make({a}, {b}, n + 1);"));
                        let t = 1 + self.rng.below(3);
                        self.writer.line(&format!("F {v} = 0;"));
                        self.writer.line(&format!(
                            "for (int i = 0; i < {t}; i++) {{ {p}.step({v} + {b}); {v} = 0.5 * {v} + {p}.pick({a}, {b}); }}"
                        ));
                    }
                    _ => {
                        self.writer.line(&format!("F {v} = {a};"));
                        self.writer.line(&format!("if ({c}) keep({v}, {b});"));
                    }
                }
                self.declare(&v, Ty::Number, false);
            }
            Kind::Nested => self.reverse(),
            Kind::Carried => self.r#loop(),
            _ => self.assignment(),
        }
    }

    /// A call of a reverse-mode derivative in the program itself.
    fn reverse(&mut self) {
        let fit: Vec<Helper> = self
            .helpers
            .iter()
            .filter(|h| {
                h.result == Ty::Number && h.params.iter().all(|p| p.0.is_empty() && p.1 == Ty::Number)
            })
            .cloned()
            .collect();
        if fit.is_empty() || self.loops > 0 {
            return;
        }
        self.nested = true;
        let helper = fit[self.rng.below(fit.len())].clone();
        let mut names = Vec::new();
        for _ in &helper.params {
            let (p, a) = (self.writer.fresh("v"), self.float(1));
            self.writer.line(&format!("var {p} = DifferentialPair<F>({a}, F(0));"));
            names.push(p);
        }
        let d = self.float(1);
        let mut args = names.clone();
        if helper.counted {
            args.push("n & 3".into());
        }
        self.writer.line(&format!("bwd_diff({})({}, {d});", helper.name, args.join(", ")));
        let v = self.writer.fresh("v");
        let sum: Vec<String> = names.iter().map(|p| format!("tanh({p}.d)")).collect();
        self.writer.line(&format!("F {v} = {};", sum.join(" + ")));
        self.declare(&v, Ty::Number, false);
    }

    /// A call of a helper that writes its arguments.
    fn procedure(&mut self) {
        let fit: Vec<Helper> =
            self.helpers.iter().filter(|h| h.params.iter().any(|p| !p.0.is_empty())).cloned().collect();
        if fit.is_empty() || self.loops > 1 {
            return;
        }
        let helper = fit[self.rng.below(fit.len())].clone();
        let mut args: Vec<String> = Vec::new();
        for (way, ty) in &helper.params {
            let arg = match *way {
                "" => Some(self.value(*ty, 1)),
                _ => self.find(*ty, true),
            };
            match arg {
                // Aliasing arguments are a separate matter.
                Some(arg) if way.is_empty() || !args.contains(&arg) => args.push(arg),
                _ => return,
            }
        }
        if helper.counted {
            args.push("n & 3".into());
        }
        let v = self.writer.fresh("v");
        self.writer.line(&format!("{} {v} = {}({});", helper.result.name(), helper.name, args.join(", ")));
        self.declare(&v, helper.result, false);
    }

    fn r#loop(&mut self) {
        if self.loops > 1 || self.depth == 0 {
            return;
        }
        let i = self.writer.fresh("v");
        let c = self.condition();
        let e = self.leaf();
        let trips = 1 + self.rng.below(4);
        if self.rng.one_in(6) {
            let n = 1 + self.rng.below(2);
            self.writer.line(&format!("[Checkpoint({n})]"));
        }
        let label = self.rng.one_in(4).then(|| format!("{i}_out"));
        if let Some(label) = &label {
            self.writer.line(&format!("{label}:"));
        }
        let head = match self.rng.below(6) {
            0 => format!("for (int {i} = 0; {i} < {trips}; {i}++)"),
            1 => format!("for (int {i} = 0; {i} < (n & 3); {i}++)"),
            2 => format!("for (F {i} = 0; {i} < F({trips}) * 0.3; {i} += 0.25)"),
            3 => format!("for (int {i} = {trips}; {i} > 0; {i}--)"),
            4 => format!("for (int {i} = 0; {i} < {trips} && {c}; {i}++)"),
            _ => format!("for (F {i} = 0; {i} < 1 + abs(tanh({e})); {i} += 0.5)"),
        };
        self.writer.open(&head);
        self.loops += 1;
        let n_vars = self.vars.len();
        if head.starts_with("for (F") {
            self.declare(&i, Ty::Number, true);
        }
        self.depth -= 1;
        if self.rng.one_in(2) {
            self.element();
        }
        let n = 1 + self.rng.below(2);
        self.statements(n);
        if self.rng.one_in(3) {
            let c = self.condition();
            let exit = self.rng.of(&["break", "continue"]);
            self.writer.line(&format!("if ({c}) {exit};"));
            self.statements(1);
        }
        if let Some(label) = &label {
            let c = self.condition();
            self.writer.line(&format!("for (int q{i} = 0; q{i} < 2; q{i}++)"));
            self.writer.open("");
            self.statements(1);
            self.writer.line(&format!("if ({c}) break {label};"));
            self.writer.close();
        }
        self.depth += 1;
        self.vars.truncate(n_vars);
        self.loops -= 1;
        self.writer.close();
    }
}
