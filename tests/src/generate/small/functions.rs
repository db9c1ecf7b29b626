//! Generates functions, and kernels that call them.

use std::fmt::Write;

use super::{FOUND, GIVEN, Generator, Helper, Kind, THREADS, Ty, Var, WAY};

impl Generator {
    fn begin(&mut self, params: &[(&'static str, Ty)], result: Ty) -> Vec<String> {
        self.vars.clear();
        let names: Vec<String> = (0..params.len()).map(|k| format!("p{k}")).collect();
        for (name, (_, ty)) in names.iter().zip(params) {
            self.declare(name, *ty, false);
        }
        self.returns = Some(result);
        self.loops = 0;
        names
    }

    /// Declares a variable of each type, which expressions fall back to.
    fn stock(&mut self) {
        let n = self.leaf();
        let m = self.leaf();
        self.writer.line(&format!("A3 arr = {{ {n}, F(0.5), {m} }};"));
        self.writer.line(&format!("S st = {{ {m}, F2({n}, 0.25), {{ F(0.75), {n} }}, 0.375, n }};"));
        self.declare("arr", Ty::Array, false);
        self.declare("st", Ty::Struct, false);
    }

    fn helper(&mut self) {
        let name = format!("h{}_{}", self.helpers.len(), self.number);
        if self.kind == Kind::Written && self.rng.one_in(2) {
            return self.written(&name);
        }
        let n = 1 + self.rng.below(3);
        let simple = self.kind == Kind::Nested || self.rng.one_in(3);
        let params: Vec<(&'static str, Ty)> = (0..n)
            .map(|_| match simple {
                true => ("", Ty::Number),
                false => {
                    let way = self.rng.of(&["", "", "inout", "out"]);
                    (
                        ["", "inout", "out"].into_iter().find(|w| *w == way).unwrap_or(""),
                        Ty::ALL[self.rng.below(6)],
                    )
                }
            })
            .collect();
        let result = if simple { Ty::Number } else { Ty::ALL[self.rng.below(6)] };
        let recursive = self.kind == Kind::Recursive && simple;
        let names = self.begin(&params, result);
        let list: Vec<String> = names
            .iter()
            .zip(&params)
            .map(|(name, (way, ty))| {
                format!("{}{}{} {name}", way, if way.is_empty() { "" } else { " " }, ty.name())
            })
            .collect();
        let attributes = self.rng.of(&["", "", "", "[PreferRecompute] ", "[ForceInline] "]);
        let attributes = if recursive { "" } else { attributes };
        self.writer.open(&format!(
            "[Differentiable] {attributes}{} {name}({}, no_diff int n)",
            result.name(),
            list.join(", ")
        ));
        for (name, (way, ty)) in names.iter().zip(&params) {
            if *way == "out" {
                let text = match ty {
                    Ty::Array => format!("{name} = A3(F(1), F(2), F(3));"),
                    Ty::Struct => format!("{name} = S(F(1), F2(0), {{ F(0), F(2) }}, F(0.5), 1);"),
                    _ => format!("{name} = {}(0.5);", ty.name()),
                };
                let text = match ty {
                    Ty::Array => format!("A3 a_{name} = {{ F(1), F(2), F(3) }}; {name} = a_{name};"),
                    Ty::Struct => format!(
                        "S s_{name} = {{ F(1), F2(0.5, 0.25), {{ F(0), F(2) }}, 0.5, 1 }}; {name} = s_{name};"
                    ),
                    _ => text,
                };
                self.writer.line(&text);
            }
        }
        self.stock();
        if recursive {
            let end = self.value(result, 1);
            self.writer.line(&format!("if (n <= 0) return {end};"));
        }
        let k = self.few(2);
        self.statements(k);
        if recursive {
            let args: Vec<String> = names.iter().map(|_| self.float(1)).collect();
            self.writer.line(&format!("F next = {name}({}, n - 1);", args.join(", ")));
            self.declare("next", Ty::Number, false);
            if self.rng.one_in(3) {
                let c = self.condition();
                let args: Vec<String> = names.iter().map(|_| self.float(1)).collect();
                self.writer
                    .line(&format!("if ({c}) next = tanh(next) + 0.5 * {name}({}, n - 2);", args.join(", ")));
            }
        }
        let e = self.value(result, if self.brief { 1 } else { 2 });
        let e = if recursive { format!("sin(next) * 0.5 + {e}") } else { e };
        self.writer.line(&format!("return {e};"));
        self.writer.close();
        self.helpers.push(Helper { name, params, result, counted: true });
    }

    /// A function with correct custom derivatives, or with a substitute that computes the same.
    fn written(&mut self, name: &str) {
        let (c, k) = (self.rng.float(), self.rng.float());
        let value = format!("sin(a * F({c})) * b + a * F({k})");
        let by_a = format!("(F({c}) * cos(a.p * F({c})) * b.p + F({k}))");
        let by_b = format!("sin(a.p * F({c}))");
        let forward = format!(
            "[Differentiable] DifferentialPair<F> {name}_fwd(DifferentialPair<F> a, DifferentialPair<F> b) \
             {{ return DifferentialPair<F>({name}(a.p, b.p), {by_a} * a.d + {by_b} * b.d); }}"
        );
        let backward = format!(
            "[Differentiable] void {name}_bwd(inout DifferentialPair<F> a, inout DifferentialPair<F> b, F d) \
             {{ let da = {by_a} * d; b = DifferentialPair<F>(b.p, {by_b} * d); a = DifferentialPair<F>(a.p, da); }}"
        );
        let attributes = match self.rng.below(4) {
            0 => format!("[ForwardDerivative({name}_fwd)]"),
            1 => format!("[ForwardDerivative({name}_fwd)] [BackwardDerivative({name}_bwd)]"),
            2 => format!("[Differentiable] [BackwardDerivative({name}_bwd)]"),
            _ => {
                self.writer.line(&format!("F {name}(F a, F b) {{ return {value}; }}"));
                self.writer.line(&format!(
                    "[PrimalSubstituteOf({name})] [Differentiable] F {name}_sub(F a, F b) \
                     {{ F s = sin(a * F({c})); if (b > F(4)) return s * b + F({k}) * a; return a * F({k}) + b * s; }}"
                ));
                self.helpers.push(Helper {
                    name: name.to_string(),
                    params: vec![("", Ty::Number); 2],
                    result: Ty::Number,
                    counted: false,
                });
                // Dual numbers evaluate the original function, which has no derivative.
                self.nested = true;
                return;
            }
        };
        self.writer.line(&format!("{attributes} F {name}(F a, F b) {{ return {value}; }}"));
        if attributes.contains("_fwd") {
            self.writer.line(&forward);
        }
        if attributes.contains("_bwd") {
            self.writer.line(&backward);
        }
        self.helpers.push(Helper {
            name: name.to_string(),
            params: vec![("", Ty::Number); 2],
            result: Ty::Number,
            counted: false,
        });
    }

    pub(super) fn function(&mut self) {
        let n = match self.kind {
            Kind::Parameters | Kind::Nested | Kind::Written | Kind::Recursive => 1 + self.rng.below(2),
            _ => self.rng.below(2),
        };
        (0..n).for_each(|_| self.helper());
        self.begin(&[], Ty::Number);
        self.declare("x", Ty::Number, false);
        self.declare("y", Ty::Number, false);
        let k = self.number;
        self.writer.open(&format!("[Differentiable] F f{k}(F x, F y, no_diff int n)"));
        self.stock();
        let n = self.few(3);
        self.statements(n);
        self.special();
        let e = self.float(2);
        // The result includes whatever was computed.
        let seen: Vec<Var> = self.vars.clone();
        let mut sum = e;
        for var in seen.iter().rev().take(3) {
            let part = match var.ty {
                Ty::Number => var.name.clone(),
                Ty::Two => format!("dot({}, F2(0.25, 0.5))", var.name),
                Ty::Three => format!("dot({}, F3(0.25, 0.5, -0.75))", var.name),
                Ty::Matrix => format!("({0}[0][1] - {0}[1][0])", var.name),
                Ty::Array => format!("({0}[0] + {0}[2])", var.name),
                Ty::Struct => format!("({0}.a + {0}.v.y - {0}.w[1])", var.name),
            };
            let _ = write!(sum, " + 0.25 * {part}");
        }
        self.writer.line(&format!("return {sum};"));
        self.writer.close();
        self.writer.open(&format!(
            "[shader(\"compute\")] [numthreads({THREADS}, 1, 1)] void k{k}(uint3 tid : SV_DispatchThreadID)"
        ));
        self.writer.line(&format!("uint i = tid.x * {GIVEN}; uint o = tid.x * {FOUND};"));
        self.writer.line("F x = given[i]; F y = given[i + 1]; int n = int(given[i + 2]);");
        self.writer.line(&format!("found[o] = f{k}(x, y, n);"));
        self.writer.line(&format!(
            "found[o + 1] = fwd_diff(f{k})(DifferentialPair<F>(x, F({})), DifferentialPair<F>(y, F({})), n).d;",
            WAY[0], WAY[1]
        ));
        self.writer.line("var px = DifferentialPair<F>(x, F(0)); var py = DifferentialPair<F>(y, F(0));");
        self.writer.line(&format!("bwd_diff(f{k})(px, py, n, F(1));"));
        self.writer.line("found[o + 2] = px.d; found[o + 3] = py.d;");
        self.writer.close();
    }

    /// A kernel whose threads work in the memory of their group, between barriers.
    pub(super) fn shared(&mut self) {
        let k = self.number;
        self.writer.line(&format!("groupshared F mem{k}[{THREADS}]; groupshared uint all{k};"));
        self.writer.open(&format!(
            "[shader(\"compute\")] [numthreads({THREADS}, 1, 1)] void k{k}(uint3 tid : SV_DispatchThreadID)"
        ));
        self.writer.line(&format!("uint i = tid.x * {GIVEN}; uint o = tid.x * {FOUND}; uint t = tid.x;"));
        self.writer.line("F x = given[i]; F y = given[i + 1]; int n = int(given[i + 2]);");
        self.begin(&[], Ty::Number);
        self.returns = None;
        self.declare("x", Ty::Number, false);
        self.declare("y", Ty::Number, false);
        self.stock();
        let e = self.float(2);
        self.writer.line(&format!("mem{k}[t] = {e};"));
        self.writer.line(&format!("if (t == 0) all{k} = 0;"));
        self.writer.line("GroupMemoryBarrierWithGroupSync();");
        let n = self.few(4);
        for _ in 0..n {
            let (c, e, d) = (self.condition(), self.float(1), 1 + self.rng.below(THREADS - 1));
            match self.rng.below(5) {
                0 => {
                    // Read from a neighbour, and write to the thread's own place.
                    let v = self.writer.fresh("v");
                    self.writer.line(&format!("F {v} = mem{k}[(t + {d}) % {THREADS}];"));
                    self.declare(&v, Ty::Number, false);
                    self.writer.line("GroupMemoryBarrierWithGroupSync();");
                    self.writer.line(&format!("mem{k}[t] = 0.5 * {v} + {e};"));
                    self.writer.line("GroupMemoryBarrierWithGroupSync();");
                }
                1 => self.writer.line(&format!("if ({c}) InterlockedAdd(all{k}, t + {d});")),
                2 => {
                    self.writer.line(&format!("if ({c}) mem{k}[t] += {e};"));
                    self.writer.line("GroupMemoryBarrierWithGroupSync();");
                }
                3 => {
                    // A tree reduction.
                    self.writer.open(&format!("for (uint s = {}; s > 0; s /= 2)", THREADS / 2));
                    self.writer.line(&format!("if (t < s) mem{k}[t] += mem{k}[t + s];"));
                    self.writer.line("GroupMemoryBarrierWithGroupSync();");
                    self.writer.close();
                }
                _ => self.statements(1),
            }
        }
        self.writer.line("GroupMemoryBarrierWithGroupSync();");
        let (other, e) = (self.rng.below(THREADS), self.float(1));
        self.writer.line(&format!("found[o] = mem{k}[t]; found[o + 1] = mem{k}[{other}];"));
        self.writer.line(&format!("found[o + 2] = F(all{k}); found[o + 3] = {e};"));
        self.writer.close();
    }
}
