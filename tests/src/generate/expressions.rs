//! Generates expressions by type, and places.

use super::{Generator, Shape, Ty, Var};

const LANES: [&str; 4] = ["x", "y", "z", "w"];

impl Generator {
    /// A variable of this type, or a part of one.
    pub(super) fn find(&mut self, want: Ty, assignable: bool) -> Option<String> {
        let vars: Vec<Var> =
            self.scope.vars.iter().filter(|v| !(assignable && v.constant)).cloned().collect();
        if vars.is_empty() {
            return None;
        }
        for _ in 0..8 {
            let var = vars[self.rng.below(vars.len())].clone();
            let (mut text, mut ty) = (var.name, var.ty);
            for _ in 0..5 {
                if ty == want {
                    return Some(text);
                }
                (text, ty) = match ty {
                    Ty::Float => break,
                    Ty::Vector(n) => match self.rng.one_in(3) {
                        true => (format!("{text}[{}]", self.index(n)), Ty::Float),
                        false => (format!("{text}.{}", LANES[self.rng.below(n)]), Ty::Float),
                    },
                    Ty::Matrix(r, c) => (format!("{text}[{}]", self.index(r)), Ty::Vector(c)),
                    Ty::Array(n) => (format!("{text}[{}]", self.index(n)), Ty::Float),
                    Ty::Table => (format!("{text}[{}]", self.index(2)), Ty::Array(3)),
                    Ty::Struct if self.rng.one_in(2) => (format!("{text}.a"), Ty::Float),
                    Ty::Struct => (format!("{text}.b"), Ty::Array(3)),
                    Ty::Structs => (format!("{text}[{}]", self.index(2)), Ty::Struct),
                    Ty::Outer => match self.rng.below(4) {
                        0 => (format!("{text}.one"), Ty::Struct),
                        1 => (format!("{text}.v"), Ty::Vector(3)),
                        2 => (format!("{text}.many"), Ty::Structs),
                        _ => (format!("{text}.table"), Ty::Table),
                    },
                };
            }
        }
        vars.iter().find(|v| v.ty == want).map(|v| v.name.clone())
    }

    fn constant(&mut self) -> String {
        format!("F({})", self.rng.float())
    }

    /// An arbitrary `int`.
    pub(super) fn int(&mut self) -> String {
        let n = self.scope.ints.len();
        match self.rng.below(6) {
            0 => format!("{}", self.rng.below(7)),
            1 | 2 if n > 0 => self.scope.ints[self.rng.below(n)].clone(),
            3 => {
                let (a, b) = (self.small_int(), self.small_int());
                let op = self.rng.of(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
                // A literal zero as divisor is an error.
                let op = if b.starts_with(|c: char| c.is_ascii_digit()) { "+" } else { op };
                format!("({a} {op} {b})")
            }
            _ => self.small_int(),
        }
    }

    fn small_int(&mut self) -> String {
        let n = self.scope.ints.len();
        match self.rng.below(3) {
            0 if n > 0 => self.scope.ints[self.rng.below(n)].clone(),
            1 => match self.find(Ty::Struct, false) {
                Some(s) => format!("{s}.k"),
                None => format!("{}", self.rng.below(5)),
            },
            _ => format!("{}", self.rng.below(5)),
        }
    }

    /// An index within an array of length `n`.
    pub(super) fn index(&mut self, n: usize) -> String {
        if self.scope.depth == 0 || self.rng.one_in(3) {
            return format!("{}", self.rng.below(n));
        }
        let k = self.scope.ints.len();
        if self.rng.one_in(6) {
            // An index that depends on a differentiable value.
            let by = self.leaf();
            return format!("uint(int(({by}) * 5)) % {n}");
        }
        let i = match k {
            0 => format!("{}", self.rng.below(n)),
            _ => self.scope.ints[self.rng.below(k)].clone(),
        };
        format!("(uint({i}) + {}) % {n}", self.rng.below(3))
    }

    pub(super) fn condition(&mut self) -> String {
        match self.rng.below(7) {
            0 => format!("{} > {}", self.int(), self.rng.below(4)),
            1 => {
                let (a, b) = (self.float(1), self.float(1));
                format!("({a} < {b} && {} != {})", self.int(), self.rng.below(4))
            }
            2 => format!("!({} > {})", self.float(1), self.rng.float()),
            3 => {
                let (a, b) = (self.float(1), self.float(1));
                format!("({a} < {b} || {} == {})", self.int(), self.rng.below(4))
            }
            4 if self.features.vectors => {
                let (a, b) = (self.vector(2, 1), self.vector(2, 1));
                format!("{}({a} < {b})", self.rng.of(&["any", "all"]))
            }
            _ => format!("{} < {}", self.float(1), self.float(1)),
        }
    }

    /// An expression of the given type.
    pub(super) fn value(&mut self, ty: Ty, depth: usize) -> String {
        match ty {
            Ty::Float => self.float(depth),
            Ty::Vector(n) => self.vector(n, depth),
            Ty::Matrix(r, c) => self.matrix(r, c, depth),
            Ty::Array(_) | Ty::Table | Ty::Struct | Ty::Structs | Ty::Outer => {
                self.find(ty, false).unwrap_or_else(|| self.initialiser(ty))
            }
        }
    }

    /// An initialiser after `=` in a declaration.
    pub(super) fn initialiser(&mut self, ty: Ty) -> String {
        let list = |parts: Vec<String>| format!("{{ {} }}", parts.join(", "));
        match ty {
            Ty::Float | Ty::Vector(_) | Ty::Matrix(..) => self.value(ty, 2),
            Ty::Array(n) => list((0..n).map(|_| self.float(1)).collect()),
            Ty::Table => list((0..2).map(|_| self.initialiser(Ty::Array(3))).collect()),
            Ty::Struct => {
                let (a, b) = (self.float(1), self.initialiser(Ty::Array(3)));
                format!("{{ {a}, {}, {b}, {} }}", self.rng.below(5), self.rng.float())
            }
            Ty::Structs => list((0..2).map(|_| self.initialiser(Ty::Struct)).collect()),
            Ty::Outer => {
                let (one, v) = (self.initialiser(Ty::Struct), self.vector(3, 1));
                let (many, table) = (self.initialiser(Ty::Structs), self.initialiser(Ty::Table));
                format!("{{ {one}, {v}, {many}, {}, {table} }}", self.rng.float())
            }
        }
    }

    fn pure_helper(&mut self) -> Option<String> {
        let helpers = &self.scope.helpers;
        let pure: Vec<String> = helpers
            .iter()
            .filter_map(|(name, shape)| match shape {
                Shape::Pure => Some(name.clone()),
                Shape::Generic => Some(format!("{name}<Wave>")),
                _ => None,
            })
            .collect();
        (!pure.is_empty()).then(|| pure[self.rng.below(pure.len())].clone())
    }

    /// An existing number.
    pub(super) fn leaf(&mut self) -> String {
        match self.rng.below(12) {
            0 => self.constant(),
            1 => format!("weights[{}]", self.index(3)),
            2 => format!("data[{}]", self.index(4)),
            3 => match self.find(Ty::Struct, false) {
                Some(s) => format!("{s}.c"),
                None => self.constant(),
            },
            _ => self.find(Ty::Float, false).unwrap_or_else(|| self.constant()),
        }
    }

    /// A bounded smooth expression.
    pub(super) fn float(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            return self.leaf();
        }
        let a = self.float(depth - 1);
        let b = self.float(depth - 1);
        match self.rng.below(32) {
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
                format!("(0.1 * ({i} % 5) * {a})")
            }
            15 => format!("max({a}, {b})"),
            16 => format!("clamp({a}, F(-0.7131), F(1.0917))"),
            17 => format!("lerp({a}, {b}, F(0.3))"),
            18 => format!("(F)(int)({a} * 3)"),
            19 => format!("pow(1.5 + sin({a}), cos({b}))"),
            20 => format!("atan2({a}, 1.5 + {b} * {b})"),
            21 => {
                let c = self.condition();
                format!("select({c}, {a}, {b})")
            }
            22 | 23 if self.features.vectors => {
                let n = 2 + self.rng.below(3);
                let (v, w) = (self.vector(n, depth - 1), self.vector(n, depth - 1));
                format!("tanh(dot({v}, {w}))")
            }
            24 if self.features.vectors => {
                let v = self.vector(3, depth - 1);
                format!("length({v} + vector<F, 3>(4, 0, 3))")
            }
            25 if self.features.vectors => {
                let m = self.matrix(2, 2, depth - 1);
                format!("sin(determinant({m}))")
            }
            26 if self.features.lossy => {
                self.used.lossy = true;
                let to = self.rng.of(&["float", "half", "float", "double"]);
                format!("F({to}({a}))")
            }
            27 if self.features.cuts => {
                self.used.cuts = true;
                format!("detach({a})")
            }
            28 if self.scope.methods && self.scope.loops < 2 => match self.find(Ty::Struct, false) {
                Some(s) => format!("{s}.weigh({a})"),
                None => a,
            },
            29 if self.scope.loops < 2 => match self.pure_helper() {
                Some(_) if self.features.cuts && self.rng.one_in(4) => {
                    self.used.cuts = true;
                    format!("(no_diff {}({a}, {b}))", self.pure_helper().expect("there is one"))
                }
                Some(h) => format!("{h}({a}, {b})"),
                None => a,
            },
            30 if self.features.nested && self.scope.loops < 1 => match self.pure_helper() {
                Some(h) => {
                    self.used.nested = true;
                    let (p, q) = (self.leaf(), self.leaf());
                    format!(
                        "tanh(fwd_diff({h})(DifferentialPair<F>({a}, {p}), DifferentialPair<F>({b}, {q})).d)"
                    )
                }
                None => a,
            },
            _ => format!("min({a}, {b})"),
        }
    }

    pub(super) fn vector(&mut self, n: usize, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            if let Some(v) = self.find(Ty::Vector(n), false).filter(|_| !self.rng.one_in(4)) {
                return v;
            }
            let parts: Vec<String> = (0..n).map(|_| self.leaf()).collect();
            return format!("vector<F, {n}>({})", parts.join(", "));
        }
        let a = self.vector(n, depth - 1);
        match self.rng.below(15) {
            0 => format!("({a} + {})", self.vector(n, depth - 1)),
            1 => format!("({a} * tanh({}))", self.vector(n, depth - 1)),
            2 => format!("(tanh({}) * {a})", self.float(depth - 1)),
            3 => format!("sin({a})"),
            4 => format!("vector<F, {n}>({})", self.float(depth - 1)),
            5 => format!("(-{a})"),
            6 => {
                let m = 2 + self.rng.below(3);
                let v = self.vector(m, depth - 1);
                let lanes: String = (0..n).map(|_| LANES[self.rng.below(m)]).collect();
                format!("{v}.{lanes}")
            }
            7 => {
                let m = 2 + self.rng.below(2);
                let (m, v) = (self.matrix(n, m, depth - 1), self.vector(m, depth - 1));
                format!("tanh(mul({m}, {v}))")
            }
            8 => {
                let m = 2 + self.rng.below(2);
                let (v, m) = (self.vector(m, depth - 1), self.matrix(m, n, depth - 1));
                format!("tanh(mul({v}, {m}))")
            }
            9 if n == 3 => format!("tanh(cross({a}, {}))", self.vector(n, depth - 1)),
            10 => {
                let c = self.condition();
                format!("({c} ? {a} : {})", self.vector(n, depth - 1))
            }
            11 => {
                let (b, c, d) =
                    (self.vector(n, depth - 1), self.vector(n, depth - 1), self.vector(n, depth - 1));
                format!("select({c} < {d}, {a}, {b})")
            }
            12 => format!("({a} / sqrt(1 + dot({a}, {a})))"),
            13 => format!("(1.5 - {a})"),
            _ => format!("max({a}, {})", self.vector(n, depth - 1)),
        }
    }

    pub(super) fn matrix(&mut self, r: usize, c: usize, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(4) {
            if let Some(m) = self.find(Ty::Matrix(r, c), false).filter(|_| !self.rng.one_in(4)) {
                return m;
            }
            let parts: Vec<String> = match self.rng.one_in(2) {
                true => (0..r * c).map(|_| self.leaf()).collect(),
                false => (0..r).map(|_| self.vector(c, 0)).collect(),
            };
            return format!("matrix<F, {r}, {c}>({})", parts.join(", "));
        }
        let a = self.matrix(r, c, depth - 1);
        match self.rng.below(8) {
            0 => format!("({a} + {})", self.matrix(r, c, depth - 1)),
            1 => format!("({a} * tanh({}))", self.matrix(r, c, depth - 1)),
            2 => format!("(tanh({}) * {a})", self.float(depth - 1)),
            3 => format!("transpose({})", self.matrix(c, r, depth - 1)),
            4 => {
                let m = 2 + self.rng.below(2);
                let (a, b) = (self.matrix(r, m, depth - 1), self.matrix(m, c, depth - 1));
                format!("tanh(mul({a}, {b}))")
            }
            5 => format!("sin({a})"),
            6 => {
                let p = self.condition();
                format!("({p} ? {a} : {})", self.matrix(r, c, depth - 1))
            }
            _ => format!("(-{a})"),
        }
    }
}
