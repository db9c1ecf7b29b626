//! Compares random programs over values of interface type with the same programs over a struct of all types
//! with a tag that is dispatched on by hand.
//!
//! Both print the same values and derivatives: first order in both modes and second order in both modes. The
//! interpreter runs one program, the JIT the other. `PULLBACK_RANDOM` sets the number of programs,
//! `PULLBACK_SEED` the first seed.

use std::fmt::Write as _;

use driver::launch::{Backend, Runner};
use driver::pipeline::{Failure, Loaded, Options, on_large_stack};
use driver::session::{FileOptions, Session};
use driver::{Request, render};
use pullback_tests::generate::Rng;
use pullback_tests::setting;

/// The types of fields, and the expressions that use them (`#` stands for the field).
const FIELDS: [(&str, &[&str]); 8] = [
    ("double #", &["#"]),
    ("no_diff double #", &["#"]),
    ("double2 #", &["#.x", "#.y"]),
    ("double #[2]", &["#[0]", "#[1]"]),
    ("int #", &["double(#)"]),
    ("bool #", &["(# ? x : 0.25lf)"]),
    ("Sub #", &["#.s", "#.v.y"]),
    ("float #", &["double(#)"]),
];

const OBJECTS: [&str; 5] = ["f", "g", "many[0]", "many[2]", "held.f"];

struct Generator {
    rng: Rng,
    n_types: usize,
    n_loops: usize,
}

impl Generator {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.below(from.len())]
    }

    fn expr(&mut self, atoms: &[String], depth: usize) -> String {
        if depth == 0 {
            return atoms[self.rng.below(atoms.len())].clone();
        }
        let (a, b) = (self.expr(atoms, depth - 1), self.expr(atoms, depth - 1));
        match self.rng.below(6) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 | 4 => format!("({a} * {b})"),
            _ => format!("sin({a})"),
        }
    }

    /// A type with random fields and methods, and a function that creates a value of it.
    fn conforming(&mut self, number: usize) -> (String, String) {
        let fields: Vec<(String, usize)> = (0..self.rng.below(5))
            .map(|k| (format!("m{number}_{k}"), self.rng.below(FIELDS.len())))
            .collect();
        let mut atoms: Vec<String> = ["x", "x", "0.5lf", "1.25lf"].map(str::to_string).to_vec();
        for (name, kind) in &fields {
            atoms.extend(FIELDS[*kind].1.iter().map(|a| a.replace('#', name)));
        }
        let (mut declared, mut update, mut next, mut make) =
            (String::new(), String::new(), String::new(), String::new());
        let seeds: Vec<String> = ["p", "p", "0.75lf"].map(str::to_string).to_vec();
        for (name, kind) in &fields {
            let _ = writeln!(declared, "    {};", FIELDS[*kind].0.replace('#', name));
            let (own, seed) = (self.expr(&atoms, 1), self.expr(&seeds, 1));
            let _ = match kind {
                0 => {
                    let _ = writeln!(next, "        n.{name} = {own};");
                    let _ = writeln!(update, "        {name} = {own} * 0.5lf;");
                    writeln!(make, "    v.{name} = {seed};")
                }
                1 => writeln!(make, "    v.{name} = detach({seed});"),
                2 => {
                    let _ = writeln!(update, "        {name}.x += {own} * 0.25lf;");
                    writeln!(make, "    v.{name} = double2({seed}, p);")
                }
                3 => {
                    let _ = writeln!(next, "        n.{name}[0] = {own};");
                    let _ = writeln!(update, "        {name}[1] = {name}[0] + {own};");
                    writeln!(make, "    v.{name}[0] = {seed}; v.{name}[1] = p * p;")
                }
                4 => writeln!(make, "    v.{name} = {};", self.rng.below(6) as i32 - 2),
                5 => writeln!(make, "    v.{name} = {};", self.rng.one_in(2)),
                6 => {
                    let _ = writeln!(update, "        {name}.s = {own};");
                    writeln!(
                        make,
                        "    v.{name}.s = {seed}; v.{name}.v = double2(p, {seed}); v.{name}.q = 3;"
                    )
                }
                _ => writeln!(make, "    v.{name} = float({seed});"),
            };
        }
        let depth = 1 + self.rng.below(3);
        let (eval, gain) = (self.expr(&atoms, depth), self.expr(&atoms, 1));
        let text = format!(
            "struct T{number} : BASE\n{{\n{declared}    [Differentiable] double eval(double x) {{ return {eval}; }}\n\
             \x20   [Differentiable] [mutating] void update(double x, inout double sum)\n    {{\n{update}\
             \x20       sum = sum * 0.5lf + {gain};\n    }}\n\
             \x20   [Differentiable] T{number} next(double x)\n    {{\n        T{number} n = this;\n{next}\
             \x20       return n;\n    }}\n    int id() {{ return {number}; }}\n}}\n"
        );
        let make = format!(
            "[Differentiable] T{number} raw{number}(double p)\n{{\n    T{number} v;\n{make}    return v;\n}}\n"
        );
        (text, make)
    }

    fn block(&mut self, depth: usize, indent: usize, out: &mut String) {
        for _ in 0..1 + self.rng.below(4) {
            self.statement(depth, indent, out);
        }
    }

    fn statement(&mut self, depth: usize, indent: usize, out: &mut String) {
        let pad = "    ".repeat(indent);
        let x = self.pick(&["x", "p", "(x * p)", "(sum * 0.125lf)", "0.5lf"]);
        let (object, other) = (self.pick(&OBJECTS), self.pick(&OBJECTS));
        let kind = self.rng.below(if depth == 0 { 6 } else { 9 });
        let _ = match kind {
            0 => writeln!(out, "{pad}{object} = make{}({x});", self.rng.below(self.n_types)),
            1 => writeln!(out, "{pad}sum += eval({object}, {x}) * 0.25lf;"),
            2 => writeln!(out, "{pad}update({object}, {x}, sum);"),
            3 => writeln!(out, "{pad}{object} = {other};"),
            4 => writeln!(out, "{pad}{object} = next({other}, {x});"),
            5 => writeln!(
                out,
                "{pad}many[(k + {}) % 3] = {object};\n{pad}sum += eval(many[(k + 1) % 3], x);",
                self.rng.below(3)
            ),
            6 => {
                let cond =
                    self.pick(&["k == 0", "sum > 0.3lf", "x < p", "id(f) == 0", "id(held.f) == id(many[1])"]);
                let _ = writeln!(out, "{pad}if ({cond})\n{pad}{{");
                self.block(depth - 1, indent + 1, out);
                if self.rng.one_in(2) {
                    let _ = writeln!(out, "{pad}}}\n{pad}else\n{pad}{{");
                    self.block(depth - 1, indent + 1, out);
                }
                writeln!(out, "{pad}}}")
            }
            7 => {
                self.n_loops += 1;
                let (i, n) = (format!("i{}", self.n_loops), 1 + self.rng.below(3));
                let _ =
                    writeln!(out, "{pad}[MaxIters(3)]\n{pad}for (int {i} = 0; {i} < {n}; {i}++)\n{pad}{{");
                self.block(depth - 1, indent + 1, out);
                if self.rng.one_in(3) {
                    let _ = writeln!(out, "{pad}    if (sum > 1.5lf)\n{pad}        break;");
                }
                writeln!(out, "{pad}    sum = sum * 0.5lf;\n{pad}}}")
            }
            _ => writeln!(out, "{pad}if (sum > 4)\n{pad}    return sum * {x};"),
        };
    }

    /// The program with values of interface type, and the one with a struct of all types.
    fn programs(&mut self) -> (String, String) {
        let sub = "struct Sub : IDifferentiable { double s; double2 v; int q; }\n";
        let mut structs = String::new();
        for number in 0..self.n_types {
            let (text, make) = self.conforming(number);
            structs += &text;
            structs += &make;
        }
        let n = self.n_types;
        let mut body = String::new();
        self.block(2, 1, &mut body);
        self.block(2, 1, &mut body);
        let (g, third) = (self.rng.below(n), self.rng.below(n));
        let main = format!(
            "struct Held : IDifferentiable {{ double w; Object f; }}\n\
             [Differentiable]\ndouble run(int k, double p, double x)\n{{\n    double sum = p * 0.5lf;\n\
             \x20   Object f = make0(p);\n    Object g = make{g}(x);\n    Object many[3];\n    many[0] = f;\n\
             \x20   many[1] = g;\n    many[2] = make{third}(p * x);\n    Held held;\n    held.w = x;\n    held.f = g;\n\
             {body}    return sum + eval(f, x) + eval(g, p) * 0.5lf + eval(many[1], x) + eval(held.f, held.w);\n}}\n\
             {MAIN}"
        );
        let mut dynamic = format!("{sub}{INTERFACE}{}", structs.replace("BASE", "IObject"));
        dynamic += "typealias Object = IObject;\n";
        let mut by_hand = format!("{sub}{}", structs.replace("BASE", "IDifferentiable"));
        let all = |line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<Vec<_>>().concat();
        by_hand +=
            &format!("struct Object : IDifferentiable {{ int tag;{} }}\n", all(&|t| format!(" T{t} t{t};")));
        for t in 0..n {
            let head = format!("[Differentiable] Object make{t}(double p)");
            dynamic += &format!("{head} {{ return raw{t}(p); }}\n");
            by_hand += &format!("{head} {{ Object r; r.tag = {t}; r.t{t} = raw{t}(p); return r; }}\n");
        }
        dynamic += METHODS;
        by_hand += &format!(
            "[Differentiable] double eval(Object f, double x) {{{} return 0; }}\n\
             [Differentiable] void update(inout Object f, double x, inout double sum) {{{} }}\n\
             [Differentiable] Object next(Object f, double x) {{ Object r = f;{} return r; }}\n\
             int id(Object f) {{ return f.tag; }}\n",
            all(&|t| format!(" if (f.tag == {t}) return f.t{t}.eval(x);")),
            all(&|t| format!(" if (f.tag == {t}) f.t{t}.update(x, sum);")),
            all(&|t| format!(" if (f.tag == {t}) r.t{t} = f.t{t}.next(x);")),
        );
        (dynamic + &main, by_hand + &main)
    }
}

const INTERFACE: &str = "interface IObject : IDifferentiable
{
    [Differentiable] double eval(double x);
    [Differentiable] [mutating] void update(double x, inout double sum);
    [Differentiable] This next(double x);
    int id();
}
";

const METHODS: &str = "[Differentiable] double eval(IObject f, double x) { return f.eval(x); }
[Differentiable] void update(inout IObject f, double x, inout double sum) { f.update(x, sum); }
[Differentiable] IObject next(IObject f, double x) { return f.next(x); }
int id(IObject f) { return f.id(); }
";

const MAIN: &str = "[Differentiable]
double gradient(int k, double p, double x)
{
    var dp = diffPair(p), dx = diffPair(x);
    bwd_diff(run)(k, dp, dx, 1.0lf);
    return dp.d + dx.d * 0.5lf;
}

void main()
{
    for (int k = 0; k < 3; k++)
    {
        var p = diffPair(0.6lf + 0.1lf * k), x = diffPair(0.9lf - 0.2lf * k);
        bwd_diff(run)(k, p, x, 1.0lf);
        let t = fwd_diff(run)(k, diffPair(p.p, 1.0lf), diffPair(x.p, 0.5lf));
        printf(\"%.17g %.17g %.17g %.17g \", t.p, p.d, x.d, t.d);
        var q = diffPair(p.p), y = diffPair(x.p);
        bwd_diff(gradient)(k, q, y, 1.0lf);
        let u = fwd_diff(gradient)(k, diffPair(p.p, 1.0lf), diffPair(x.p, 0.5lf));
        printf(\"%.17g %.17g %.17g %.17g\\n\", u.p, q.d, y.d, u.d);
    }
}
";

fn print(text: &str, backend: Backend) -> Result<Vec<f64>, String> {
    let mut session = Session::new(FileOptions::default());
    let mut program = session.program();
    let file = session.load_text(&mut program, "random.slang", text.to_string(), ".".as_ref());
    let mut loaded = Loaded::new(program, file);
    let outcome = (|| {
        let entry = loaded.entry(Some("main"))?;
        let request = Request { entries: vec![entry], ..Request::default() };
        let compiled = loaded.compile(&request, &Options::default())?;
        let mut runner = Runner::new(compiled.module, backend)?;
        Ok(runner.dispatch("main", [1, 1, 1], 1)?.stdout)
    })();
    let printed = outcome.map_err(|failure| match failure {
        Failure::Program(diagnostics) => {
            render::all_to_text(&session.sources, &diagnostics, driver::render::Style::Plain)
        }
        Failure::Other(error) => error.to_string(),
    })?;
    printed.split_whitespace().map(|n| n.parse().map_err(|_| format!("printed\n{printed}"))).collect()
}

fn near(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * (1e-2 + a.abs() + b.abs())
}

fn check(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let n_types = 1 + rng.below(4);
    let (dynamic, by_hand) = Generator { rng, n_types, n_loops: 0 }.programs();
    let backends = match seed % 2 {
        0 => (Backend::INTERP, Backend::CRANELIFT),
        _ => (Backend::CRANELIFT, Backend::INTERP),
    };
    let fail = |why: String| Err(format!("seed {seed}: {why}\n{dynamic}"));
    let found = match print(&dynamic, backends.0) {
        Ok(found) => found,
        Err(why) => return fail(why),
    };
    let wanted = match print(&by_hand, backends.1) {
        Ok(wanted) => wanted,
        Err(why) => return fail(format!("by hand: {why}")),
    };
    if found.len() != 24 || !found.iter().zip(&wanted).all(|(&a, &b)| near(a, b)) {
        return fail(format!("printed {found:?} instead of {wanted:?}"));
    }
    // The value and the gradient by reverse mode, then the forward derivative in the direction (1, 1/2).
    for line in found.chunks(4) {
        // Fields of type `float` are rounded.
        let scale: f64 = line.iter().map(|v| v.abs()).sum();
        if (line[1] + 0.5 * line[2] - line[3]).abs() > 1e-5 * (1e-2 + scale) {
            return fail(format!("forward and reverse mode differ: {line:?}"));
        }
    }
    Ok(())
}

#[test]
fn values_of_interface_type_are_tags_and_structs() {
    let (first, n) = (setting("PULLBACK_SEED", 1), setting("PULLBACK_RANDOM", 12));
    let failures: Vec<String> =
        on_large_stack(|| (first..first + n).filter_map(|seed| check(seed).err()).collect());
    let seeds: Vec<&str> = failures.iter().filter_map(|why| why.lines().next()).collect();
    let shown = failures.iter().min_by_key(|why| why.len()).map_or("", |why| why);
    assert!(failures.is_empty(), "{} of {n} fail\n{}\n\n{shown}", failures.len(), seeds.join("\n"));
}
