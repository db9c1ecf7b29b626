//! Generates programs with numbers of all types: conversions, integers at their limits, buffers, atomics,
//! nested places.
//!
//! `void main()` prints the computed numbers as bits (all NaNs count as equal). Only exactly rounded
//! operations are used, so that another compiler must give the same bits. A `tame` program uses only what C
//! defines: no division by zero, no wide shifts, no conversion out of range.

use super::{Rng, Writer};

const INTEGERS: [&str; 8] =
    ["int", "uint", "int8_t", "uint8_t", "int16_t", "uint16_t", "int64_t", "uint64_t"];
const FLOATS: [&str; 3] = ["float", "double", "half"];
const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// The program for a seed.
pub fn kernel(seed: u64, tame: bool) -> String {
    let mut kernel = Kernel {
        rng: Rng::new(seed ^ 0x5EED),
        tame,
        writer: Writer::default(),
        vars: Vec::new(),
        functions: Vec::new(),
        depth: 3,
        loops: 0,
        exits: Vec::new(),
    };
    kernel.program();
    kernel.writer.text
}

#[derive(Clone)]
struct Var {
    name: String,
    /// The scalar type of the elements.
    scalar: &'static str,
    /// The number of lanes; 0 for a scalar.
    lanes: usize,
    /// The length; 0 for a value that is not an array.
    length: usize,
    constant: bool,
}

#[derive(Clone)]
struct Function {
    name: String,
    result: &'static str,
    /// The scalar type, and `in`, `out` or `inout`, of each parameter.
    params: Vec<(&'static str, &'static str)>,
}

struct Kernel {
    rng: Rng,
    tame: bool,
    writer: Writer,
    vars: Vec<Var>,
    functions: Vec<Function>,
    depth: usize,
    loops: usize,
    /// Statements that exit an enclosing construct here.
    exits: Vec<String>,
}

fn is_float(ty: &str) -> bool {
    FLOATS.contains(&ty)
}

impl Kernel {
    fn scalar(&mut self) -> &'static str {
        match self.rng.below(12) {
            0..=6 => INTEGERS[self.rng.below(8)],
            7..=9 => FLOATS[self.rng.below(3)],
            10 => "float",
            _ => "bool",
        }
    }

    fn program(&mut self) {
        self.writer.line("RWStructuredBuffer<int> counts;");
        self.writer.line("RWStructuredBuffer<float> state;");
        self.writer.line("struct P { int16_t i; float f[2]; uint2 u; double d; }");
        self.writer.line("int bits(float x) { if (isnan(x)) return 1; return asint(x); }");
        self.writer.line("double number(double x) { if (x != x) return 1.0lf; return x; }");
        self.writer.line("static const int primes[4] = { 2, -3, 5, 7 };");
        let n = self.rng.below(4);
        for _ in 0..n {
            self.function();
        }
        self.writer.open("void main()");
        self.vars.clear();
        self.exits.clear();
        self.writer.line("P p = { (int16_t)3, { 0.5f, -2.0f }, uint2(7u, 9u), 1.5lf };");
        for (name, scalar) in [("p.i", "int16_t"), ("p.f[0]", "float"), ("p.u.y", "uint"), ("p.d", "double")]
        {
            self.vars.push(Var { name: name.into(), scalar, lanes: 0, length: 0, constant: false });
        }
        for (name, scalar, lanes, length) in
            [("p.f", "float", 0, 2), ("p.u", "uint", 2, 0), ("counts", "int", 0, 8), ("state", "float", 0, 8)]
        {
            self.vars.push(Var { name: name.into(), scalar, lanes, length, constant: false });
        }
        let n = 6 + self.rng.below(10);
        for _ in 0..n {
            self.statement();
        }
        for var in self.vars.clone() {
            self.print(&var);
        }
        self.writer.close();
    }

    fn function(&mut self) {
        let name = format!("f{}", self.functions.len());
        let result = self.scalar();
        let n = 1 + self.rng.below(3);
        let params: Vec<(&str, &str)> =
            (0..n).map(|_| (self.scalar(), ["in", "inout", "out", "in"][self.rng.below(4)])).collect();
        self.vars.clear();
        let mut texts = Vec::new();
        for (k, (ty, mode)) in params.iter().enumerate() {
            texts.push(format!("{mode} {ty} a{k}"));
            self.vars.push(Var { name: format!("a{k}"), scalar: ty, lanes: 0, length: 0, constant: false });
        }
        self.writer.open(&format!("{result} {name}({})", texts.join(", ")));
        for (k, (ty, mode)) in params.iter().enumerate() {
            if *mode == "out" {
                self.writer.line(&format!("a{k} = ({ty})({k});"));
            }
        }
        self.depth = 2;
        let n = 1 + self.rng.below(4);
        for _ in 0..n {
            self.statement();
            if self.rng.one_in(3) {
                let (c, e) = (self.value("bool", 1), self.value(result, 2));
                self.writer.line(&format!("if ({c}) return {e};"));
            }
        }
        let e = self.value(result, 2);
        self.writer.line(&format!("return {e};"));
        self.writer.close();
        self.depth = 3;
        self.functions.push(Function { name, result, params });
    }

    fn print(&mut self, var: &Var) {
        let mut places = vec![var.name.clone()];
        if var.length > 0 {
            places = (0..var.length).map(|k| format!("{}[{k}]", var.name)).collect();
        }
        if var.lanes > 0 {
            places = places
                .iter()
                .flat_map(|p| LANES[..var.lanes].iter().map(move |lane| format!("{p}.{lane}")))
                .collect();
        }
        for place in places {
            let text = match var.scalar {
                "float" | "half" => format!("bits((float)({place}))"),
                "double" => {
                    self.writer.line(&format!("printf(\"%.17g\\n\", number({place}));"));
                    continue;
                }
                "int64_t" | "uint64_t" => {
                    self.writer.line(&format!("printf(\"%d %d\\n\", (int)({place} >> 32), (int){place});"));
                    continue;
                }
                _ => format!("(int)({place})"),
            };
            self.writer.line(&format!("printf(\"%d\\n\", {text});"));
        }
    }

    fn block(&mut self, exit: Option<&[&str]>) {
        let (saved, exits) = (self.vars.len(), self.exits.clone());
        if let Some(exit) = exit {
            self.exits = exit.iter().map(|e| e.to_string()).collect();
            self.loops += 1;
        }
        self.depth -= 1;
        let n = 1 + self.rng.below(3);
        for _ in 0..n {
            self.statement();
        }
        self.depth += 1;
        if exit.is_some() {
            self.loops -= 1;
        }
        self.exits = exits;
        self.vars.truncate(saved);
    }

    fn statement(&mut self) {
        match self.rng.below(if self.depth > 0 && self.loops < 3 { 18 } else { 10 }) {
            0..=2 => self.variable(),
            3..=5 => self.assignment(),
            6 => {
                if let Some(place) = self.place(None) {
                    let op = ["++", "--"][self.rng.below(2)];
                    if place.1 != "bool" {
                        let text = if self.rng.one_in(2) {
                            format!("{}{op};", place.0)
                        } else {
                            format!("{op}{};", place.0)
                        };
                        self.writer.line(&text);
                    }
                }
            }
            7 => {
                let name = self.rng.of(&["Add", "Max", "Min", "Or", "And", "Xor"]);
                let (i, e) = (self.index(8), self.value("int", 1));
                match self.rng.one_in(2) {
                    true => self.writer.line(&format!("Interlocked{name}(counts[{i}], {e});")),
                    false => {
                        let old = self.writer.fresh("v");
                        self.writer.line(&format!("int {old};"));
                        self.writer.line(&format!("Interlocked{name}(counts[{i}], {e}, {old});"));
                        self.push(&old, "int", 0, 0);
                    }
                }
            }
            8 => {
                let (old, e) = (self.writer.fresh("v"), self.value("int", 2));
                self.writer.line(&format!("int {old} = {e};"));
                self.push(&old, "int", 0, 0);
            }
            9 => {
                if !self.exits.is_empty() {
                    let exit = self.exits[self.rng.below(self.exits.len())].clone();
                    let c = self.value("bool", 1);
                    self.writer.line(&format!("if ({c}) {exit};"));
                }
            }
            10..=12 => {
                let c = self.value("bool", 2);
                self.writer.open(&format!("if ({c})"));
                self.block(None);
                self.writer.close();
                if self.rng.one_in(2) {
                    self.writer.open("else");
                    self.block(None);
                    self.writer.close();
                }
            }
            13 => self.switch(),
            14 | 15 => {
                let i = self.writer.fresh("v");
                let ty = INTEGERS[self.rng.below(8)];
                let (from, to) = (self.rng.below(3), 1 + self.rng.below(5));
                let head = match self.rng.below(4) {
                    0 if !ty.starts_with('u') => {
                        format!("for ({ty} {i} = ({ty})({to}); {i} >= ({ty})({from}); {i}--)")
                    }
                    1 => format!("for ({ty} {i} = ({ty})({from}); {i} < ({ty})(9); {i} += ({ty})({to}))"),
                    _ => format!("for ({ty} {i} = ({ty})({from}); {i} <= ({ty})({to}); ++{i})"),
                };
                self.writer.open(&head);
                let saved = self.vars.len();
                self.vars.push(Var { name: i, scalar: ty, lanes: 0, length: 0, constant: true });
                self.block(Some(&["break", "continue"]));
                self.vars.truncate(saved);
                self.writer.close();
            }
            _ => {
                let i = self.writer.fresh("v");
                let n = 1 + self.rng.below(4);
                self.writer.line(&format!("int {i} = 0;"));
                let c = self.value("bool", 1);
                match self.rng.below(3) {
                    0 => {
                        self.writer.open(&format!("while ({i}++ < {n} && {c})"));
                        self.block(Some(&["break", "continue"]));
                        self.writer.close();
                    }
                    1 => {
                        self.writer.open("do");
                        self.block(Some(&["break", "continue"]));
                        self.writer.indent -= 1;
                        self.writer.line(&format!("}} while (++{i} < {n} && {c});"));
                    }
                    _ => {
                        self.writer.open("for (;;)");
                        self.writer.line(&format!("if ({i}++ >= {n} || {c}) break;"));
                        self.block(Some(&["break", "continue"]));
                        self.writer.close();
                    }
                }
            }
        }
    }

    fn switch(&mut self) {
        let e = self.value("int", 1);
        self.writer.open(&format!("switch ({e} & 3)"));
        let n = 2 + self.rng.below(3);
        let default = self.rng.below(n + 1);
        let inside = self.loops > 0 && !self.exits.is_empty();
        for k in 0..n {
            self.writer.line(&if k == default { "default:".to_string() } else { format!("case {k}:") });
            self.writer.indent += 1;
            self.writer.line("{");
            self.writer.indent += 1;
            let loops = self.loops;
            self.block(Some(&["break"]));
            self.loops = loops;
            self.writer.close();
            if k + 1 == n || self.rng.one_in(2) {
                let end = if inside && self.rng.one_in(4) { "continue;" } else { "break;" };
                self.writer.line(if self.exits.iter().any(|e| e == "continue") { end } else { "break;" });
            }
            self.writer.indent -= 1;
        }
        self.writer.close();
    }

    fn push(&mut self, name: &str, scalar: &'static str, lanes: usize, length: usize) {
        self.vars.push(Var { name: name.to_string(), scalar, lanes, length, constant: false });
    }

    fn variable(&mut self) {
        let name = self.writer.fresh("v");
        let scalar = self.scalar();
        match self.rng.below(6) {
            0 => {
                let n = 2 + self.rng.below(3);
                let parts: Vec<String> = (0..n).map(|_| self.value(scalar, 1)).collect();
                self.writer.line(&format!("{scalar} {name}[{n}] = {{ {} }};", parts.join(", ")));
                self.push(&name, scalar, 0, n);
            }
            1 | 2 => {
                let n = 2 + self.rng.below(3);
                let e = self.vector(scalar, n, 2);
                self.writer.line(&format!("vector<{scalar}, {n}> {name} = {e};"));
                self.push(&name, scalar, n, 0);
            }
            _ => {
                let e = self.value(scalar, 3);
                self.writer.line(&format!("{scalar} {name} = {e};"));
                self.push(&name, scalar, 0, 0);
            }
        }
    }

    fn assignment(&mut self) {
        if self.rng.one_in(4) {
            let vectors: Vec<Var> =
                self.vars.iter().filter(|v| v.lanes > 0 && v.length == 0).cloned().collect();
            if vectors.is_empty() {
                return;
            }
            let v = vectors[self.rng.below(vectors.len())].clone();
            let lanes = match v.lanes {
                2 => self.rng.of(&["yx", "xy", ""]),
                3 => self.rng.of(&["zx", "yzx", "xy", ""]),
                _ => self.rng.of(&["wx", "yzw", "xz", ""]),
            };
            let n = if lanes.is_empty() { v.lanes } else { lanes.len() };
            let e = self.vector(v.scalar, n, 2);
            let dot = if lanes.is_empty() { "" } else { "." };
            return self.writer.line(&format!("{}{dot}{lanes} = {e};", v.name));
        }
        let Some((place, ty)) = self.place(None) else { return };
        let op = match ty {
            "bool" => "=",
            _ if is_float(ty) => self.rng.of(&["=", "+=", "-=", "*="]),
            _ => self.rng.of(&["=", "+=", "-=", "*=", "&=", "|=", "^="]),
        };
        let e = self.value(ty, 2);
        self.writer.line(&format!("{place} {op} {e};"));
    }

    fn index(&mut self, n: usize) -> String {
        match self.rng.below(3) {
            0 => {
                let e = self.value("uint", 0);
                format!("{e} % {n}u")
            }
            1 if !self.tame => self.value("int", 0),
            _ => format!("{}", self.rng.below(n)),
        }
    }

    /// A scalar of the given type that can be assigned to.
    fn place(&mut self, want: Option<&str>) -> Option<(String, &'static str)> {
        let fits = |v: &&Var| !v.constant && want.is_none_or(|w| w == v.scalar);
        let vars: Vec<Var> = self.vars.iter().filter(fits).cloned().collect();
        if vars.is_empty() {
            return None;
        }
        let var = vars[self.rng.below(vars.len())].clone();
        Some((self.part(&var), var.scalar))
    }

    fn part(&mut self, var: &Var) -> String {
        match (var.length, var.lanes) {
            (0, 0) => var.name.clone(),
            (0, n) if self.rng.one_in(2) => format!("{}.{}", var.name, LANES[self.rng.below(n)]),
            (0, n) | (n, _) => {
                let i = self.index(n);
                format!("{}[{i}]", var.name)
            }
        }
    }

    fn literal(&mut self, ty: &str) -> String {
        let small = self.rng.below(9) as i64 - 3;
        match ty {
            "bool" => self.rng.of(&["true", "false"]).to_string(),
            "float" | "double" | "half" => {
                let x = match self.rng.below(8) {
                    0 if !self.tame => self.rng.of(&["1e30", "65504.0", "1e-30", "3000000000.0"]).to_string(),
                    _ => format!("{:?}", self.rng.float()),
                };
                let suffix = if ty == "double" { "lf" } else { "f" };
                format!("({ty})({x}{suffix})")
            }
            _ => {
                let extreme =
                    self.rng.of(&["127", "-128", "255", "32767", "65535", "2147483647", "-1", "100000"]);
                let wide = self.rng.of(&["4294967296ll", "9223372036854775807ll", "-2147483648"]);
                match self.rng.below(6) {
                    0 => format!("({ty})({extreme})"),
                    1 if ty.contains("64") => format!("({ty})({wide})"),
                    _ => format!("({ty})({small})"),
                }
            }
        }
    }

    /// An expression of the given type.
    fn value(&mut self, ty: &'static str, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(5) {
            if self.rng.one_in(12) {
                let i = if self.tame { format!("{}", self.rng.below(4)) } else { self.index(4) };
                return format!("({ty})(primes[{i}])");
            }
            let vars: Vec<Var> = self.vars.iter().filter(|v| v.scalar == ty).cloned().collect();
            if vars.is_empty() || self.rng.one_in(4) {
                return self.literal(ty);
            }
            let var = vars[self.rng.below(vars.len())].clone();
            if depth == 0 {
                return match (var.length, var.lanes) {
                    (0, 0) => var.name,
                    (0, n) => format!("{}.{}", var.name, LANES[self.rng.below(n)]),
                    (n, _) => format!("{}[{}]", var.name, self.rng.below(n)),
                };
            }
            return self.part(&var);
        }
        if self.rng.one_in(8) {
            let fits: Vec<Function> = self.functions.iter().filter(|f| f.result == ty).cloned().collect();
            if !fits.is_empty() && self.loops < 2 {
                let f = fits[self.rng.below(fits.len())].clone();
                if let Some(call) = self.call(&f) {
                    return call;
                }
            }
        }
        match ty {
            "bool" => self.boolean(depth),
            _ if is_float(ty) => self.float(ty, depth),
            _ => self.integer(ty, depth),
        }
    }

    fn call(&mut self, f: &Function) -> Option<String> {
        let mut args = Vec::new();
        let mut written: Vec<String> = Vec::new();
        for &(ty, mode) in &f.params {
            if mode == "in" {
                args.push(self.value(ty, 0));
                continue;
            }
            // Each place is passed once, since the order of copying results back is not defined.
            let place = self.place(Some(ty))?.0;
            let base = place.split(['.', '[']).next().unwrap_or(&place).to_string();
            if written.contains(&base) {
                return None;
            }
            written.push(base);
            args.push(place);
        }
        // The order of evaluation is not defined either if a call writes what a neighbouring operand reads.
        if !written.is_empty() {
            let v = self.writer.fresh("v");
            self.writer.line(&format!("{} {v} = {}({});", f.result, f.name, args.join(", ")));
            self.push(&v, f.result, 0, 0);
            return Some(v);
        }
        Some(format!("{}({})", f.name, args.join(", ")))
    }

    fn boolean(&mut self, depth: usize) -> String {
        match self.rng.below(6) {
            0 => format!("(!{})", self.value("bool", depth - 1)),
            1 => {
                let op = self.rng.of(&["&&", "||", "==", "!="]);
                format!("({} {op} {})", self.value("bool", depth - 1), self.value("bool", depth - 1))
            }
            2 => {
                let ty = self.scalar();
                format!("((bool)({}))", self.value(ty, depth - 1))
            }
            _ => {
                let mut ty = self.scalar();
                if ty == "bool" {
                    ty = "int";
                }
                let op = self.rng.of(&["<", "<=", ">", ">=", "==", "!="]);
                format!("({} {op} {})", self.value(ty, depth - 1), self.value(ty, depth - 1))
            }
        }
    }

    fn integer(&mut self, ty: &'static str, depth: usize) -> String {
        let a = self.value(ty, depth - 1);
        let b = self.value(ty, depth - 1);
        // C computes on narrow numbers as `int`; with the cast both languages give the same result.
        match self.rng.below(14) {
            0 => format!("({ty})({a} + {b})"),
            1 => format!("({ty})({a} - {b})"),
            2 => format!("({ty})({a} * {b})"),
            3 | 4 => {
                let op = self.rng.of(&["/", "%"]);
                match self.tame {
                    true => format!("({ty})({a} {op} ({ty})(({b} & ({ty})(7)) + ({ty})(1)))"),
                    false => format!("({ty})({a} {op} {b})"),
                }
            }
            5 => {
                let op = self.rng.of(&["&", "|", "^"]);
                format!("({ty})({a} {op} {b})")
            }
            6 => {
                let op = self.rng.of(&["<<", ">>"]);
                match self.tame {
                    true => format!("({ty})({a} {op} ({b} & ({ty})(7)))"),
                    false => format!("({ty})({a} {op} {b})"),
                }
            }
            7 => format!("({ty})(~{a})"),
            8 => format!("({ty})(-{a})"),
            9 => {
                let c = self.value("bool", depth - 1);
                format!("({c} ? {a} : {b})")
            }
            10 => {
                let f = self.rng.of(&["min", "max"]);
                match ty {
                    "int" | "uint" => format!("{f}({a}, {b})"),
                    _ => format!("({a} < {b} ? {a} : {b})"),
                }
            }
            11 if ty == "uint" => {
                format!("{}({a})", self.rng.of(&["countbits", "reversebits", "firstbitlow", "firstbithigh"]))
            }
            _ => {
                let from = self.scalar();
                let e = self.value(from, depth - 1);
                match self.tame && is_float(from) {
                    // The value is in the range of all types, and not negative.
                    true => format!(
                        "({ty})({e} > ({from})(0.0f) && {e} < ({from})(100.0f) ? {e} : ({from})(9.5f))"
                    ),
                    false => format!("({ty})({e})"),
                }
            }
        }
    }

    fn float(&mut self, ty: &'static str, depth: usize) -> String {
        let a = self.value(ty, depth - 1);
        let b = self.value(ty, depth - 1);
        match self.rng.below(11) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {b})"),
            2 => format!("({a} * {b})"),
            3 => format!("({a} / {b})"),
            4 => format!("(-{a})"),
            5 => {
                let c = self.value("bool", depth - 1);
                format!("({c} ? {a} : {b})")
            }
            6 if ty != "half" => format!("floor({a})"),
            7 if ty != "half" => format!("abs({a})"),
            8 if ty == "float" => format!("sqrt(abs({a}))"),
            9 if ty == "float" && !self.tame => format!("{}({a}, {b})", self.rng.of(&["min", "max", "fmod"])),
            _ => {
                let from = self.scalar();
                format!("({ty})({})", self.value(from, depth - 1))
            }
        }
    }

    fn vector(&mut self, ty: &'static str, n: usize, depth: usize) -> String {
        let vars: Vec<Var> =
            self.vars.iter().filter(|v| v.scalar == ty && v.lanes > 0 && v.length == 0).cloned().collect();
        let known = (!vars.is_empty()).then(|| vars[self.rng.below(vars.len())].clone());
        match (self.rng.below(5), known) {
            (0 | 1, Some(v)) => {
                let lanes: String = (0..n).map(|_| LANES[self.rng.below(v.lanes)]).collect();
                format!("{}.{lanes}", v.name)
            }
            (2, _) if depth > 0 && ty != "bool" && (is_float(ty) || matches!(ty, "int" | "uint")) => {
                let (a, b) = (self.vector(ty, n, depth - 1), self.vector(ty, n, depth - 1));
                let op = self.rng.of(&["+", "-", "*"]);
                format!("({a} {op} {b})")
            }
            (3, _) if depth > 0 => {
                let from = self.scalar();
                if self.tame && is_float(from) && !is_float(ty) {
                    return format!("vector<{ty}, {n}>({})", self.value(ty, depth - 1));
                }
                format!("vector<{ty}, {n}>({})", self.vector(from, n, depth - 1))
            }
            _ => {
                let parts: Vec<String> = (0..n).map(|_| self.value(ty, depth.saturating_sub(1))).collect();
                format!("vector<{ty}, {n}>({})", parts.join(", "))
            }
        }
    }
}
