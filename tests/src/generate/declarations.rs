//! Generates the declarations of a program: types with methods, helper functions, `f`.

use std::fmt::Write;

use super::{Generator, Scope, Shape, Ty};

/// Types that conform to an interface.
const PARTS: &str = "\
interface IPart : IDifferentiable
{
    [Differentiable] F get(F t);
    [Differentiable] [mutating] F move(F t, int i);
}
struct Line : IPart
{
    F m; F c;
    [Differentiable] F get(F t) { return 0.3 * m * t + sin(c); }
    [Differentiable] [mutating] F move(F t, int i) { F old = m; m = tanh(c + t); c = old; return m * old; }
}
struct Bump : IPart
{
    F w[2]; no_diff F k;
    [Differentiable] F get(F t) { return sin(w[0] * t) * k + 0.5 * tanh(w[1]); }
    [Differentiable] [mutating] F move(F t, int i) { w[i & 1] = sin(w[(i + 1) & 1] * t) + 0.3; return w[0] * w[1]; }
}
struct Fixed : IPart
{
    int n;
    [Differentiable] F get(F t) { return 0.25 * sin(t) + n; }
    [Differentiable] [mutating] F move(F t, int i) { n = (n + i) & 3; return cos(t) * n; }
}
[Differentiable]
IPart choose(F a, F b, no_diff int k)
{
    if ((k & 3) == 0)
    {
        Line l = { a, b };
        return l;
    }
    if ((k & 3) == 1)
    {
        Fixed f = { k & 7 };
        return f;
    }
    Bump u = { { b, a * b }, 0.75 };
    return u;
}
";

impl Generator {
    pub(super) fn program(&mut self, scalar: &str) {
        let _ = writeln!(self.writer.text, "typedef {scalar} F;");
        self.writer.line("RWStructuredBuffer<F> data;");
        self.writer.line("static const F weights[3] = { 0.75, -0.5, 1.25 };");
        self.writer.line("interface IBlend { [Differentiable] static F blend(F a, F b); }");
        self.writer.line(
            "struct Mean : IBlend { [Differentiable] static F blend(F a, F b) { return 0.5 * (a + b); } }",
        );
        self.writer.line("struct Wave : IBlend { [Differentiable] static F blend(F a, F b) { return sin(a * b) - 0.3 * b; } }");
        self.types();
        self.writer.text.push_str(PARTS);
        let n_helpers = self.rng.below(4);
        let mut helpers = Vec::new();
        for idx in 0..n_helpers {
            let name = format!("h{idx}");
            let shape = [
                Shape::Pure,
                Shape::Generic,
                Shape::InOut,
                Shape::Out,
                Shape::Struct,
                Shape::Array,
                Shape::NoDiff,
                Shape::Vector,
                Shape::Recursive,
                Shape::Dynamic,
                Shape::Written,
            ][self.rng.below(11)];
            self.helper(&name, shape, &helpers);
            helpers.push((name, shape));
        }
        self.writer.line("[Differentiable]");
        self.writer.open("F f(F x, F y, S s, no_diff int n)");
        self.scope = Scope {
            ints: vec!["n".into()],
            helpers,
            returns: Some(Ty::Float),
            methods: true,
            depth: 3,
            ..Scope::default()
        };
        for (name, ty) in [("x", Ty::Float), ("y", Ty::Float), ("s", Ty::Struct)] {
            self.declare(name, ty, false);
        }
        let n = 3 + self.rng.below(6);
        self.statements(n);
        let e = self.float(2);
        self.writer.line(&format!("return {e};"));
        self.writer.close();
    }

    fn types(&mut self) {
        self.writer.open("struct S : IDifferentiable");
        for field in ["F a;", "int k;", "F b[3];", "no_diff F c;"] {
            self.writer.line(field);
        }
        for (head, returns) in [("F weigh(F t)", Some(Ty::Float)), ("[mutating] void shift(F t)", None)] {
            self.writer.line("[Differentiable]");
            self.writer.open(head);
            self.scope = Scope { ints: vec!["k".into()], returns, depth: 1, ..Scope::default() };
            let constant = returns.is_some();
            for (name, ty) in [("a", Ty::Float), ("b", Ty::Array(3))] {
                self.declare(name, ty, constant);
            }
            self.declare("t", Ty::Float, false);
            let n = 1 + self.rng.below(3);
            self.statements(n);
            if returns.is_some() {
                let e = self.float(2);
                self.writer.line(&format!("return {e};"));
            }
            self.writer.close();
        }
        self.writer.close();
        self.writer.line(
            "struct T : IDifferentiable { S one; vector<F, 3> v; S many[2]; no_diff F w; F table[2][3]; }",
        );
    }

    /// A function with correct custom derivatives: forward, both, or backward in addition to a body that is
    /// differentiable itself.
    fn written(&mut self, name: &str) {
        let (c, k) = (self.rng.float(), self.rng.float());
        let value = format!("sin(a * F({c})) * b + a * F({k})");
        let by_a = format!("(F({c}) * cos({{a}} * F({c})) * {{b}} + F({k}))");
        let by_b = format!("sin({{a}} * F({c}))");
        let at = |text: &str| text.replace("{a}", "a.p").replace("{b}", "b.p");
        let (by_a, by_b) = (at(&by_a), at(&by_b));
        let way = self.rng.below(3);
        let forward = format!(
            "[Differentiable] DifferentialPair<F> {name}_fwd(DifferentialPair<F> a, DifferentialPair<F> b) \
             {{ return DifferentialPair<F>({name}(a.p, b.p), {by_a} * a.d + {by_b} * b.d); }}"
        );
        let backward = format!(
            "[Differentiable] void {name}_bwd(inout DifferentialPair<F> a, inout DifferentialPair<F> b, F d) \
             {{ let da = {by_a} * d; b = DifferentialPair<F>(b.p, {by_b} * d); a = DifferentialPair<F>(a.p, da); }}"
        );
        let attributes = match way {
            0 => format!("[ForwardDerivative({name}_fwd)]"),
            1 => format!("[ForwardDerivative({name}_fwd)] [BackwardDerivative({name}_bwd)]"),
            _ => format!("[Differentiable] [BackwardDerivative({name}_bwd)]"),
        };
        self.writer.line(&format!("{attributes} F {name}(F a, F b) {{ return {value}; }}"));
        if way < 2 {
            self.writer.line(&forward);
        }
        if way > 0 {
            self.writer.line(&backward);
        }
    }

    /// A recursive function, whose step and end are random.
    fn recursive(&mut self, name: &str) {
        self.writer.line("[Differentiable]");
        self.writer.open(&format!("F {name}(F a, F b, no_diff int n)"));
        self.declare("a", Ty::Float, false);
        self.declare("b", Ty::Float, false);
        self.scope.ints.push("n".into());
        self.scope.loops = 2;
        let n = 1 + self.rng.below(2);
        self.statements(n);
        let end = self.float(2);
        self.writer.line(&format!("if (n <= 0) return {end};"));
        self.statements(1);
        let (next, other) = (self.float(1), self.float(1));
        self.writer.line(&format!("F next = {name}({next}, {other}, n - 1);"));
        self.declare("next", Ty::Float, false);
        if self.rng.one_in(3) {
            let c = self.condition();
            let (next, other) = (self.float(1), self.float(1));
            self.writer.line(&format!("if ({c}) next = tanh(next) + {name}({next}, {other}, n - 2);"));
        }
        let e = self.float(2);
        self.writer.line(&format!("return 0.5 * sin(next) + {e};"));
        self.writer.close();
    }

    /// A function of values whose type is chosen at run time and may change.
    fn dynamic(&mut self, name: &str) {
        self.writer.line("[Differentiable]");
        self.writer.open(&format!("F {name}(F a, F b, no_diff int k)"));
        self.declare("a", Ty::Float, false);
        self.declare("b", Ty::Float, false);
        self.scope.ints.push("k".into());
        let first = self.float(2);
        self.writer.line(&format!("IPart part = choose({first}, b, k);"));
        self.writer.line("F sum = part.get(a);");
        self.declare("sum", Ty::Float, false);
        self.statements(1);
        let trips = 1 + self.rng.below(3);
        self.writer.open(&format!("for (int i = 0; i < {trips}; i++)"));
        let (x, y) = (self.float(1), self.float(1));
        let c = self.condition();
        self.writer.line(&format!("if ({c}) part = choose({x}, part.get(b), k + i);"));
        self.writer.line(&format!("sum = 0.5 * sum + part.get({y});"));
        if !self.rng.one_in(3) {
            let (c, z) = (self.condition(), self.float(1));
            self.writer.line(&format!("if ({c}) sum += 0.5 * tanh(part.move({z}, k + i));"));
        }
        self.writer.close();
        let e = self.float(1);
        self.writer.line(&format!("return sum + {e};"));
        self.writer.close();
    }

    fn helper(&mut self, name: &str, shape: Shape, helpers: &[(String, Shape)]) {
        let loops = helpers.len() / 2;
        self.scope = Scope {
            helpers: helpers.to_vec(),
            depth: if loops > 0 { 1 } else { 2 },
            methods: true,
            loops,
            returns: Some(Ty::Float),
            ..Scope::default()
        };
        match shape {
            Shape::Written => return self.written(name),
            Shape::Recursive => return self.recursive(name),
            Shape::Dynamic => return self.dynamic(name),
            _ => {}
        }
        if self.rng.one_in(5) {
            self.writer.line("[PreferRecompute]");
        }
        let (head, params, returns): (String, &[(&str, Ty)], _) = match shape {
            Shape::Pure => {
                (format!("F {name}(F a, F b)"), &[("a", Ty::Float), ("b", Ty::Float)], Some(Ty::Float))
            }
            Shape::Generic => (
                format!("F {name}<B : IBlend>(F a, F b)"),
                &[("a", Ty::Float), ("b", Ty::Float)],
                Some(Ty::Float),
            ),
            Shape::InOut => {
                (format!("F {name}(inout F a, F b)"), &[("a", Ty::Float), ("b", Ty::Float)], Some(Ty::Float))
            }
            Shape::Out => {
                (format!("void {name}(S s, out F a)"), &[("a", Ty::Float), ("s", Ty::Struct)], None)
            }
            Shape::Struct => {
                (format!("S {name}(S s, F a)"), &[("a", Ty::Float), ("s", Ty::Struct)], Some(Ty::Struct))
            }
            Shape::Array => (format!("F {name}(F a[4], int i)"), &[("a", Ty::Array(4))], Some(Ty::Float)),
            Shape::NoDiff => (format!("F {name}(F a, no_diff F c)"), &[("a", Ty::Float)], Some(Ty::Float)),
            Shape::Written | Shape::Recursive | Shape::Dynamic => return,
            Shape::Vector => (
                format!("vector<F, 3> {name}(vector<F, 3> a, inout T t)"),
                &[("a", Ty::Vector(3)), ("t", Ty::Outer)],
                Some(Ty::Vector(3)),
            ),
        };
        self.writer.line("[Differentiable]");
        self.writer.open(&head);
        self.scope.returns = returns;
        for &(name, ty) in params {
            self.declare(name, ty, false);
        }
        match shape {
            Shape::Out => self.writer.line("a = s.a;"),
            Shape::Generic => {
                self.writer.line("F g = B.blend(a, b);");
                self.declare("g", Ty::Float, false);
            }
            Shape::Array => {
                self.scope.ints.push("i".into());
                self.writer.line("F t = a[1];");
                self.declare("t", Ty::Float, false);
            }
            Shape::NoDiff => self.declare("c", Ty::Float, true),
            _ => {}
        }
        let n = 1 + self.rng.below(4);
        self.statements(n);
        if let Some(ty) = returns {
            let e = self.value(ty, 2);
            self.writer.line(&format!("return {e};"));
        }
        self.writer.close();
    }
}
