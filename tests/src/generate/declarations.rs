//! The top of a program: types with methods, helper functions, `f`.

use std::fmt::Write;

use super::{Generator, Scope, Shape, Ty};

impl Generator {
    pub(super) fn program(&mut self, scalar: &str) {
        let _ = writeln!(self.out, "typedef {scalar} F;");
        self.line("RWStructuredBuffer<F> data;");
        self.line("static const F weights[3] = { 0.75, -0.5, 1.25 };");
        self.line("interface IBlend { [Differentiable] static F blend(F a, F b); }");
        self.line(
            "struct Mean : IBlend { [Differentiable] static F blend(F a, F b) { return 0.5 * (a + b); } }",
        );
        self.line("struct Wave : IBlend { [Differentiable] static F blend(F a, F b) { return sin(a * b) - 0.3 * b; } }");
        self.types();
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
            ][self.rng.below(8)];
            self.helper(&name, shape, &helpers);
            helpers.push((name, shape));
        }
        self.line("[Differentiable]");
        self.open("F f(F x, F y, S s, no_diff int n)");
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
        self.line(&format!("return {e};"));
        self.close();
    }

    fn types(&mut self) {
        self.open("struct S : IDifferentiable");
        for field in ["F a;", "int k;", "F b[3];", "no_diff F c;"] {
            self.line(field);
        }
        for (head, returns) in [("F weigh(F t)", Some(Ty::Float)), ("[mutating] void shift(F t)", None)] {
            self.line("[Differentiable]");
            self.open(head);
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
                self.line(&format!("return {e};"));
            }
            self.close();
        }
        self.close();
        self.line(
            "struct T : IDifferentiable { S one; vector<F, 3> v; S many[2]; no_diff F w; F table[2][3]; }",
        );
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
            Shape::Vector => (
                format!("vector<F, 3> {name}(vector<F, 3> a, inout T t)"),
                &[("a", Ty::Vector(3)), ("t", Ty::Outer)],
                Some(Ty::Vector(3)),
            ),
        };
        self.line("[Differentiable]");
        self.open(&head);
        self.scope.returns = returns;
        for &(name, ty) in params {
            self.declare(name, ty, false);
        }
        match shape {
            Shape::Out => self.line("a = s.a;"),
            Shape::Generic => {
                self.line("F g = B.blend(a, b);");
                self.declare("g", Ty::Float, false);
            }
            Shape::Array => {
                self.scope.ints.push("i".into());
                self.line("F t = a[1];");
                self.declare("t", Ty::Float, false);
            }
            Shape::NoDiff => self.declare("c", Ty::Float, true),
            Shape::Pure | Shape::InOut | Shape::Struct | Shape::Vector => {}
        }
        let n = 1 + self.rng.below(4);
        self.statements(n);
        if let Some(ty) = returns {
            let e = self.value(ty, 2);
            self.line(&format!("return {e};"));
        }
        self.close();
    }
}
