//! Generates expressions by type.

use super::{Generator, Kind, Ty};

impl Generator {
    pub(super) fn constant(&mut self) -> String {
        format!("F({})", self.rng.float())
    }

    /// An index below `n`, often one that depends on data.
    pub(super) fn index(&mut self, n: usize) -> String {
        match self.rng.below(6) {
            0 | 1 => self.rng.below(n).to_string(),
            2 => format!("((n + {}) % {n})", self.rng.below(3)),
            3 => {
                let x = self.find(Ty::Number, false).unwrap_or("F(1.5)".into());
                format!("(int(abs({x}) * 4) % {n})")
            }
            4 => {
                let c = self.condition();
                format!("({c} ? {} : {})", self.rng.below(n), self.rng.below(n))
            }
            _ => format!("(n % {n})"),
        }
    }

    pub(super) fn condition(&mut self) -> String {
        let (a, b) = (self.leaf(), self.constant());
        let op = self.rng.of(&["<", ">", "<=", ">="]);
        match self.rng.below(6) {
            0 => format!("(n & 1) == {}", self.rng.below(2)),
            1 => {
                let v = self.two(1);
                format!("{}({v} {op} {b})", self.rng.of(&["any", "all"]))
            }
            _ => format!("{a} {op} {b}"),
        }
    }

    /// A number: an existing variable or a part of one, or a constant.
    pub(super) fn leaf(&mut self) -> String {
        if self.vars.is_empty() || self.rng.one_in(8) {
            return self.constant();
        }
        let var = self.vars[self.rng.below(self.vars.len())].clone();
        let name = var.name;
        match var.ty {
            Ty::Number => name,
            Ty::Two => format!("{name}{}", self.rng.of(&[".x", ".y", "[n & 1]"])),
            Ty::Three if self.rng.one_in(3) => format!("{name}[{}]", self.index(3)),
            Ty::Three => format!("{name}{}", self.rng.of(&[".x", ".y", ".z"])),
            Ty::Matrix => format!("{name}[{}][{}]", self.index(2), self.index(2)),
            Ty::Array => format!("{name}[{}]", self.index(3)),
            Ty::Struct => {
                format!("{name}{}", self.rng.of(&[".a", ".v.x", ".v.y", ".w[0]", ".w[n & 1]", ".c"]))
            }
        }
    }

    pub(super) fn value(&mut self, ty: Ty, depth: usize) -> String {
        match ty {
            Ty::Number => self.float(depth),
            Ty::Two => self.two(depth),
            Ty::Three => self.three(depth),
            Ty::Matrix => self.matrix(depth),
            Ty::Array => self.find(Ty::Array, false).expect("`arr` is always there"),
            Ty::Struct => self.find(Ty::Struct, false).expect("`st` is always there"),
        }
    }

    pub(super) fn float(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(5) {
            return self.leaf();
        }
        let (a, b) = (self.float(depth - 1), self.float(depth - 1));
        match self.rng.below(30) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 | 4 => format!("sin({a} * {b})"),
            5 => format!("tanh({a} * 2 + {b})"),
            6 => format!("(0.5 * {a} / (1 + {b} * {b}))"),
            7 => format!("exp(-{a} * {a})"),
            8 => format!("sqrt(0.5 + {a} * {a})"),
            9 => {
                let c = self.condition();
                format!("({c} ? {a} : {b})")
            }
            10 => {
                let c = self.condition();
                format!("select({c}, {a}, {b})")
            }
            11 => format!("max({a}, {b})"),
            12 => format!("min({a}, {b})"),
            13 => format!("clamp({a}, F(-0.7131), F(1.0917))"),
            14 => format!("abs({a})"),
            15 => format!("tanh({a} > F(0.125) ? {b} / {a} : {b})"),
            16 => format!("({a} > F(0.25) ? log({a}) : {a})"),
            17 => format!("atan2({a}, 1.5 + {b} * {b})"),
            18 => format!("pow(1.5 + sin({a}), cos({b}))"),
            19 => format!("dot(sin({}), {})", self.two(depth - 1), self.two(0)),
            20 => format!("tanh(dot({}, {}))", self.three(depth - 1), self.three(0)),
            21 => format!("tanh(determinant({}))", self.matrix(depth - 1)),
            22 => {
                let v = self.three(depth - 1);
                format!("tanh({v})[{}]", self.index(3))
            }
            23 if self.kind == Kind::Ignored => match self.rng.below(5) {
                0 => format!("first({a}, {b})"),
                1 => format!("only({a}, {})", self.three(depth - 1)),
                2 => format!("only({a}, {})", self.find(Ty::Struct, false).expect("one is there")),
                3 => format!("by<First>(First({b}), {a}, {b})"),
                _ => format!("make({a}, {b}, n).pick({b}, {a})"),
            },
            24 if self.kind == Kind::Effects => {
                self.cuts = true;
                let callee = self.rng.of(&["noted", "slope"]);
                format!("({a} + (no_diff {callee}({}, {b})))", self.number)
            }
            23 | 25 | 26 => match self.call(depth - 1) {
                Some(call) => call,
                None => a,
            },
            27 => {
                let s = self.find(Ty::Struct, false).expect("one is there");
                format!("{s}.get({a})")
            }
            28 if self.rng.one_in(3) => {
                self.cuts = true;
                format!("({b} + detach({a}))")
            }
            _ => format!("(0.75 * {a})"),
        }
    }

    /// A call of a helper, as a number.
    pub(super) fn call(&mut self, depth: usize) -> Option<String> {
        if self.loops > 1 || self.helpers.is_empty() {
            return None;
        }
        let helper = self.helpers[self.rng.below(self.helpers.len())].clone();
        if helper.params.iter().any(|p| !p.0.is_empty()) {
            return None;
        }
        let mut args: Vec<String> = Vec::new();
        for (_, ty) in &helper.params {
            args.push(self.value(*ty, depth));
        }
        if self.kind == Kind::Nested
            && self.loops == 0
            && helper.result == Ty::Number
            && helper.params.iter().all(|p| p.1 == Ty::Number)
            && !self.rng.one_in(3)
        {
            self.nested = true;
            let mut pairs: Vec<String> =
                args.iter().map(|a| format!("DifferentialPair<F>({a}, {})", self.leaf())).collect();
            if helper.counted {
                pairs.push("n & 3".into());
            }
            return Some(format!("tanh(fwd_diff({})({}).d)", helper.name, pairs.join(", ")));
        }
        if helper.counted {
            args.push("n & 3".into());
        }
        let call = format!("{}({})", helper.name, args.join(", "));
        Some(match helper.result {
            Ty::Number => call,
            Ty::Two => format!("{call}.y"),
            Ty::Three => format!("{call}.{}", self.rng.of(&["x", "z"])),
            Ty::Matrix => format!("{call}[1][0]"),
            Ty::Array => format!("{call}[{}]", self.index(3)),
            Ty::Struct => format!("{call}{}", self.rng.of(&[".a", ".v.x", ".w[1]"])),
        })
    }

    pub(super) fn two(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(5) {
            return match self.find(Ty::Two, false) {
                Some(v) if !self.rng.one_in(3) => v,
                _ => format!("F2({}, {})", self.leaf(), self.leaf()),
            };
        }
        let a = self.two(depth - 1);
        match self.rng.below(12) {
            0 => format!("mul({}, {a})", self.matrix(depth - 1)),
            1 => format!("{}.{}", self.three(depth - 1), self.rng.of(&["xy", "zx", "yy"])),
            2 => format!("{}[{}]", self.matrix(depth - 1), self.index(2)),
            3 => format!("F2({}, {})", self.float(depth - 1), self.float(depth - 1)),
            _ => {
                let b = self.two(depth - 1);
                self.lanes("F2", &a, &b)
            }
        }
    }

    pub(super) fn three(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(5) {
            return match self.find(Ty::Three, false) {
                Some(v) if !self.rng.one_in(3) => v,
                _ => format!("F3({}, {}, {})", self.leaf(), self.leaf(), self.leaf()),
            };
        }
        let a = self.three(depth - 1);
        match self.rng.below(12) {
            0 => format!("cross({a}, {})", self.three(depth - 1)),
            1 => format!("{}.{}", self.two(depth - 1), self.rng.of(&["xyx", "yyx"])),
            2 => format!("F3({}, {})", self.two(depth - 1), self.float(depth - 1)),
            3 => {
                let c = self.condition();
                format!("({c} ? {a} : {})", self.three(depth - 1))
            }
            _ => {
                let b = self.three(depth - 1);
                self.lanes("F3", &a, &b)
            }
        }
    }

    /// An operation component by component.
    pub(super) fn lanes(&mut self, ty: &str, a: &str, b: &str) -> String {
        let c = self.constant();
        match self.rng.below(16) {
            0 => format!("({a} + {b})"),
            1 => format!("(0.5 * {a} * {b})"),
            2 => format!("sin({a} - {b})"),
            3 => format!("select({a} > {ty}({c}), {a}, {b})"),
            4 => format!("select({a} > {ty}(0.125), tanh({b} / {a}), {ty}({c}))"),
            5 => format!("max({a}, {b})"),
            6 => format!("min({a}, {ty}({c}))"),
            7 => format!("clamp({a}, {ty}(-0.6131), {ty}(0.8917))"),
            8 => format!("select({a} > {ty}(0.25), log({a}), -{b})"),
            9 => format!("({a} / (1.25 + {b} * {b}))"),
            10 => format!("abs({a})"),
            11 => format!("(sqrt(0.25 + {a} * {a}) - {b})"),
            12 => format!("saturate({a})"),
            13 => format!("normalize({a} + 3)"),
            14 => format!("select({a} <= {b}, exp(-abs({a})), {b})"),
            _ => format!("tanh({a})"),
        }
    }

    pub(super) fn matrix(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return match self.find(Ty::Matrix, false) {
                Some(m) if !self.rng.one_in(3) => m,
                _ => format!("M2({}, {}, {}, {})", self.leaf(), self.leaf(), self.leaf(), self.leaf()),
            };
        }
        let a = self.matrix(depth - 1);
        match self.rng.below(9) {
            0 => format!("({a} + {})", self.matrix(depth - 1)),
            1 => format!("tanh(mul({a}, {}))", self.matrix(depth - 1)),
            2 => format!("transpose({a})"),
            3 => format!("max({a}, {})", self.matrix(depth - 1)),
            4 => format!("(1 / (1.5 + {a} * {a}))"),
            5 => format!(
                "select({a} > M2({c}, {c}, {c}, {c}), {a}, {})",
                self.matrix(depth - 1),
                c = self.rng.float()
            ),
            6 => format!("M2({}, {})", self.two(depth - 1), self.two(depth - 1)),
            7 => format!("(0.5 * {a} * {})", self.matrix(depth - 1)),
            _ => format!("sin({a})"),
        }
    }
}
