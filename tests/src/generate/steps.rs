//! Generates programs of statements that change variables in place:
//! `double f(double x, double y, double a0[4], double3 v, int n)`.
//!
//! They have loops of every form (conditions that change what they test, trip counts that are known, depend on an outer
//! loop or are open), branches within branches with and without `else`, and arrays, structs, vectors and matrices whose
//! parts are copied to each other. Every loop ends if `n` is small.

use super::{Rng, Writer};

/// The declarations that all programs begin with.
const HEAD: &str = "\
struct P : IDifferentiable { double q; double2 w; }
[Differentiable] void part(inout double x, double y)
{
    if (x > y) { x = x * 0.5lf + y; return; }
    x = sin(x * y);
}
[Differentiable] double mix(inout double a[4], double b[4], int n)
{
    double s = 0.1lf;
    for (int i = 0; i < 4; i++)
    {
        if (i == n) continue;
        s += a[i] * b[3 - i] * 0.2lf;
        a[i] = b[i] * 0.7lf + s * 0.1lf;
        if (s > 2.0lf) break;
    }
    return s;
}
[Differentiable] P turn(P p, int n)
{
    if (n == 2) return p;
    P r = { p.w.x, double2(p.q, p.w.y * 0.5lf) };
    for (int i = 0; i < n; i++)
    {
        if (r.q > 1.0lf) return r;
        r.q += 0.3lf * r.w.x;
        if (i == 1) continue;
        r.w = r.w.yx * 0.9lf;
    }
    return r;
}
";

/// The begin of the function.
const BEGIN: &str = "\
[Differentiable] double f(double x, double y, double a0[4], double3 v, int n)
{
    double z = 0.5lf;
    double a[4] = a0;
    double b[4];
    double c[4];
    P p[4];
    double2x2 m = double2x2(x, y, v.x, 0.3lf);
    int k = n;
    for (int i = 0; i < 4; i++)
    {
        b[i] = 0.3lf * i + y;
        c[i] = a[i] * 0.1lf;
        p[i].q = a[i] * 0.5lf;
        p[i].w = double2(x, v.x) * 0.3lf;
    }
";

/// The end of the function, which reads all of it.
const END: &str = "\
    double r = m[0].x * m[1].y - m[0][1] + x + 2.0lf * y + 3.0lf * z + dot(v, double3(0.3lf, 0.2lf, 0.1lf));
    for (int i = 0; i < 4; i++)
        r += a[i] * (i + 1) + b[i] * 0.3lf + c[i] * c[3 - i] + p[i].q * 0.7lf + dot(p[i].w, double2(0.2lf, i));
    return r;
}
";

/// The program for a seed.
pub fn steps(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let left = 3 + rng.below(20);
    let ints = vec!["n".to_string()];
    let mut steps = Steps { rng, writer: Writer::default(), ints, left, loops: 0, goes_on: false, depth: 0 };
    steps.writer.indent = 1;
    while steps.left > 0 {
        steps.statement();
    }
    [HEAD, BEGIN, &steps.writer.text, END].concat()
}

struct Steps {
    rng: Rng,
    writer: Writer,
    /// Integers that can be read.
    ints: Vec<String>,
    /// The number of statements to come.
    left: usize,
    /// The number of loops around the statement.
    loops: usize,
    /// `continue` makes the innermost loop's step.
    goes_on: bool,
    depth: usize,
}

impl Steps {
    fn int(&mut self) -> String {
        let k = self.rng.below(self.ints.len());
        self.ints[k].clone()
    }

    fn index(&mut self) -> String {
        let i = self.int();
        match self.rng.below(7) {
            0..=2 => self.rng.below(4).to_string(),
            3 => format!("({i} & 3)"),
            4 => format!("(({i} + 1) & 3)"),
            5 => format!("((3 - {i}) & 3)"),
            _ => "(k & 3)".into(),
        }
    }

    fn place(&mut self) -> String {
        let (at, i) = (self.index(), self.int());
        let lane = self.rng.of(&["x", "y", "z"]);
        match self.rng.below(13) {
            0 | 1 => "x".into(),
            2 => "y".into(),
            3 => "z".into(),
            4 => format!("m[{i} & 1][{at} & 1]"),
            5 | 6 => format!("a[{at}]"),
            7 => format!("b[{at}]"),
            8 => format!("c[{at}]"),
            9 => format!("v.{lane}"),
            10 => format!("p[{at}].q"),
            11 => format!("p[{at}].w.{}", self.rng.of(&["x", "y"])),
            _ => format!("v[({i} & 3) % 3]"),
        }
    }

    fn value(&mut self, depth: usize) -> String {
        if depth == 0 || self.rng.one_in(3) {
            return match self.rng.one_in(4) {
                true => format!("0.{}lf", 1 + self.rng.below(9)),
                false => self.place(),
            };
        }
        let (a, b) = (self.value(depth - 1), self.value(depth - 1));
        match self.rng.below(10) {
            0..=2 => format!("({a} + {b})"),
            3 => format!("({a} - {b})"),
            4 | 5 => format!("({a} * {b})"),
            6 => format!("{}({a})", self.rng.of(&["sin", "cos", "tanh"])),
            7 => format!("({} ? {a} : {b})", self.condition()),
            8 => format!("dot(v, double3({a}, {b}, 0.5lf))"),
            _ => format!("{}({a}, {b})", self.rng.of(&["max", "min"])),
        }
    }

    fn condition(&mut self) -> String {
        let i = self.int();
        match self.rng.below(8) {
            0 => format!("({i} & 1) == 0"),
            1 | 2 => format!("{i} > {}", self.rng.below(4)),
            3 => "k > 2".into(),
            _ => format!("{} > {}", self.place(), self.place()),
        }
    }

    fn block(&mut self, n: usize) {
        self.depth += 1;
        (0..n).for_each(|_| self.statement());
        self.depth -= 1;
    }

    fn few(&mut self, n: usize) -> usize {
        1 + self.rng.below(n)
    }

    fn statement(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.depth > 4 {
            let place = self.place();
            return self.writer.line(&format!("{place} += 0.1lf;"));
        }
        match self.rng.below(24) {
            0..=5 => self.assignment(),
            6 => {
                let (a, b, t) = (self.place(), self.place(), self.writer.fresh("t"));
                self.writer.line(&format!("{{ double {t} = {a}; {a} = {b}; {b} = {t}; }}"));
            }
            7 => self.whole(),
            8 => {
                let line = match self.rng.one_in(2) {
                    true => format!("part({}, {});", self.rng.of(&["x", "y", "z"]), self.value(2)),
                    false => format!("{} = mix(a, b, {});", self.place(), self.int()),
                };
                self.writer.line(&line);
            }
            9..=11 if self.loops < 3 => self.counted(),
            12 | 13 if self.loops < 2 => self.open(),
            14..=17 => self.branch(),
            18 => self.switch(),
            19 if self.loops > 0 => {
                let condition = self.condition();
                let leave = if self.goes_on { self.rng.of(&["break", "continue"]) } else { "break" };
                self.writer.line(&format!("if ({condition}) {leave};"));
            }
            20 => {
                let line = format!("if ({} > 5.0lf) return {};", self.place(), self.value(1));
                self.writer.line(&line);
            }
            21 => {
                let line = self.rng.of(&["k++;", "k += n;", "k = (k * 5 + 1) & 7;"]);
                self.writer.line(line);
            }
            _ => self.assignment(),
        }
    }

    fn assignment(&mut self) {
        let (place, op, value) =
            (self.place(), self.rng.of(&["=", "=", "=", "+=", "-=", "*="]), self.value(3));
        self.writer.line(&format!("{place} {op} {value};"));
    }

    /// Changes arrays, vectors, matrices and structs as a whole.
    fn whole(&mut self) {
        let (i, at, from) = (self.int(), self.index(), self.index());
        let line = match self.rng.below(13) {
            0 => "a = b;".into(),
            1 => "b = a;".into(),
            2 => "{ double t[4] = a; a = c; c = t; }".into(),
            3 => "m = mul(m, m) * 0.3lf;".into(),
            4 => "m[0] = m[1].yx;".into(),
            5 => format!("m[{i} & 1] *= v.xy;"),
            6 => format!("p[{at}] = turn(p[{from}], {i} & 3);"),
            7 => format!("p[{at}].w = p[{from}].w.yx;"),
            8 => "v = v.zxy;".into(),
            9 => "v.xy = v.yx * x;".into(),
            10 => format!("p[{at}] = p[{from}];"),
            11 => format!("b[k++ & 3] = a[{from}];"),
            _ => format!("a[k & 3] = b[{from}];"),
        };
        self.writer.line(&line);
    }

    fn body(&mut self, index: String, goes_on: bool, n: usize) {
        let before = std::mem::replace(&mut self.goes_on, goes_on);
        self.loops += 1;
        self.ints.push(index);
        self.block(n);
        self.ints.pop();
        self.loops -= 1;
        self.goes_on = before;
    }

    fn counted(&mut self) {
        let (index, other) = (self.writer.fresh("i"), self.int());
        let to = match self.rng.below(6) {
            0 | 1 => self.rng.of(&["3", "4"]).into(),
            2 => "n".into(),
            3 => "n + 2".into(),
            4 => format!("{other} + 1"),
            _ => format!("{other} / 2"),
        };
        let head = match self.rng.below(6) {
            0 | 1 => format!("int {index} = 0; {index} < {to}; {index}++"),
            2 => format!("int {index} = {other}; {index} < 4; {index} += {}", self.few(2)),
            3 => format!("int {index} = {}; {index} >= 0; {index}--", 2 + self.rng.below(3)),
            4 => format!("int {index} = {to}; {index}-- > 0;"),
            _ => format!("int {index} = 1; {index} <= 8; {index} <<= 1"),
        };
        self.writer.open(&format!("for ({head})"));
        let n = self.few(4);
        self.body(index, true, n);
        self.writer.close();
    }

    /// A loop whose condition changes what it tests, or comes after that has changed.
    fn open(&mut self) {
        let (index, n) = (self.writer.fresh("c"), self.few(3));
        let start = 1 + self.rng.below(4);
        let place = self.place();
        let form = self.rng.below(7);
        let is_up = form == 1;
        self.writer.line(&format!("int {index} = {};", if is_up { 0 } else { start }));
        let head = match form {
            0 => format!("while (--{index} > 0)"),
            1 => format!("while ({index}++ < n + 1)"),
            2 => format!("while ({index}-- > 0 && {place} < 3.0lf)"),
            3 | 4 => "while (true)".into(),
            _ => "do".into(),
        };
        self.writer.open(&head);
        self.body(index.clone(), form < 3, n);
        if let 3 | 4 = form {
            let (before, value) = (self.writer.fresh("t"), self.value(2));
            if self.rng.one_in(2) {
                self.writer.line(&format!("double {before} = {place};"));
                self.writer.line(&format!("{place} = {value};"));
                self.writer.line(&format!("if ({index}-- <= 0 || abs({before} - {place}) < 0.1lf) break;"));
            } else {
                self.writer.line(&format!("if ({index}-- <= 0) break;"));
            }
            if self.rng.one_in(3) {
                self.body(index.clone(), false, 1);
            }
        }
        self.writer.close();
        match form {
            5 => self.writer.line(&format!("while ({index}-- > 1);")),
            6 => self.writer.line(&format!("while (--{index} > 0);")),
            _ => {}
        }
    }

    /// A branch; those within it have an `else` of their own or none.
    fn branch(&mut self) {
        let condition = self.condition();
        self.writer.open(&format!("if ({condition})"));
        if self.rng.one_in(3) {
            let (inner, place, value) = (self.condition(), self.place(), self.value(1));
            self.writer.line(&format!("if ({inner}) {place} = {value};"));
        } else {
            let n = self.few(3);
            self.block(n);
        }
        self.writer.close();
        if self.rng.one_in(2) {
            self.writer.open("else");
            let n = self.few(2);
            self.block(n);
            self.writer.close();
        }
    }

    fn switch(&mut self) {
        let index = self.int();
        self.writer.open(&format!("switch ({index} & 3)"));
        for case in ["case 0:", "case 1:", "default:"] {
            self.writer.line(case);
            self.writer.open("");
            let (n, goes_on) = (self.few(2), std::mem::replace(&mut self.goes_on, false));
            // `break` would leave the switch.
            let loops = std::mem::replace(&mut self.loops, 0);
            self.block(n);
            (self.loops, self.goes_on) = (loops, goes_on);
            self.writer.close();
            if case == "default:" || !self.rng.one_in(5) {
                self.writer.line("break;");
            }
        }
        self.writer.close();
    }
}
