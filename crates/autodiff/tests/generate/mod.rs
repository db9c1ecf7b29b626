//! Generates random programs: nested `if`, `switch`, `for`, `loop`, vectors, arrays, cells with indices known
//! at run time (out of range too), stacks, calls, recursion, checkpoints, and functions with custom
//! derivatives.
//!
//! Numbers stay of moderate size, since loop-carried values go through `sin`, and divisors are at least 1.

use ir::{
    Builder, DerivativeOp, Func, LoopInfo, Math, Module, Op, Region, Residuals, Scalar, Slot, Type, TypeData,
    Value, Witness,
};

/// A small random number generator (splitmix64), so that a seed always means the same program.
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A number in ±1.5, away from zero.
    pub(crate) fn number(&mut self) -> f64 {
        let x = 0.2 + (self.next() % 1000) as f64 / 1000.0 * 1.3;
        if self.chance(50) { x } else { -x }
    }
}

fn slot(ty: Type, diff: bool, name: &str) -> Slot {
    Slot { ty, diff, linear: false, name: Some(name.into()) }
}

/// The types that programs are made of.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    pub vec2: Type,
    pub vec3: Type,
    pub array: Type,
    pub vectors: Type,
    pub nested: Type,
}

/// `sin` and `cos` with forward derivatives that call each other.
fn trigonometry(module: &mut Module) -> (Func, Func) {
    let unary = |module: &mut Module, name: &str, op: Math| {
        let mut b = Builder::new(&mut module.types, name);
        let x = b.param(slot(Type::F64, true, "x"));
        let y = b.emit(Op::Math(op), &[x]);
        let f = b.finish(vec![y], vec![slot(Type::F64, true, "y")]);
        module.funcs.push(f)
    };
    let sin = unary(module, "sin", Math::Sin);
    let cos = unary(module, "cos", Math::Cos);
    let rule = |module: &mut Module, name: &str, f: Func, df: Func, negate: bool| {
        let mut b = Builder::new(&mut module.types, name);
        let x = b.param(slot(Type::F64, true, "x"));
        let dx = b.param(slot(Type::F64, true, "dx"));
        let y = b.call(Op::Call(f), &[x], &[(Type::F64, false)])[0];
        let mut k = b.call(Op::Call(df), &[x], &[(Type::F64, false)])[0];
        if negate {
            k = b.emit(Op::Neg, &[k]);
        }
        let dy = b.emit(Op::Mul, &[k, dx]);
        let f = b.finish(vec![y, dy], vec![slot(Type::F64, true, "y"), slot(Type::F64, true, "dy")]);
        module.funcs.push(f)
    };
    let sin_jvp = rule(module, "sin_jvp", sin, cos, false);
    let cos_jvp = rule(module, "cos_jvp", cos, sin, true);
    module.witnesses.insert(sin, Witness { jvp: Some(sin_jvp), ..Witness::default() });
    module.witnesses.insert(cos, Witness { jvp: Some(cos_jvp), ..Witness::default() });
    (sin, cos)
}

/// `f(a, b) = a·sin(b) + b` with a custom vjp; its forward derivative is a custom jvp or that of its body.
fn written(module: &mut Module, sin: Func, cos: Func, with_jvp: bool) -> Func {
    let float = |name: &str| slot(Type::F64, true, name);
    let name = if with_jvp { "both" } else { "backward" };
    let mut b = Builder::new(&mut module.types, name);
    let (x, y) = (b.param(float("a")), b.param(float("b")));
    let s = b.call(Op::Call(sin), &[y], &[(Type::F64, false)])[0];
    let product = b.emit(Op::Mul, &[x, s]);
    let value = b.emit(Op::Add, &[product, y]);
    let f = b.finish(vec![value], vec![float("y")]);
    let f = module.funcs.push(f);
    let derivative = |module: &mut Module, forward: bool| {
        let mut b =
            Builder::new(&mut module.types, format!("{name}_{}", if forward { "jvp" } else { "vjp" }));
        let (x, y) = (b.param(float("a")), b.param(float("b")));
        let s = b.call(Op::Call(sin), &[y], &[(Type::F64, false)])[0];
        let c = b.call(Op::Call(cos), &[y], &[(Type::F64, false)])[0];
        let product = b.emit(Op::Mul, &[x, c]);
        let one = b.float(Scalar::F64, 1.0);
        let by_b = b.emit(Op::Add, &[product, one]);
        let made = if forward {
            let (dx, dy) = (b.param(float("da")), b.param(float("db")));
            let value = b.call(Op::Call(f), &[x, y], &[(Type::F64, false)])[0];
            let (left, right) = (b.emit(Op::Mul, &[s, dx]), b.emit(Op::Mul, &[by_b, dy]));
            let tangent = b.emit(Op::Add, &[left, right]);
            b.finish(vec![value, tangent], vec![float("y"), float("dy")])
        } else {
            let d = b.param(float("d"));
            let (left, right) = (b.emit(Op::Mul, &[s, d]), b.emit(Op::Mul, &[by_b, d]));
            b.finish(vec![left, right], vec![float("da"), float("db")])
        };
        module.funcs.push(made)
    };
    let jvp = with_jvp.then(|| derivative(module, true));
    let vjp = Some(derivative(module, false));
    module.witnesses.insert(f, Witness { jvp, vjp, differentiable: !with_jvp, ..Witness::default() });
    f
}

/// A module with a few functions; the last one is the function to test.
pub(crate) fn program(seed: u64, size: usize) -> (Module, Func) {
    let mut rng = Rng(seed);
    let mut module = Module::default();
    let (sin, cos) = trigonometry(&mut module);
    let both = written(&mut module, sin, cos, true);
    let backward = written(&mut module, sin, cos, false);
    let types = &mut module.types;
    let vec2 = types.vector(Scalar::F64, 2);
    let kinds = Kinds {
        vec2,
        vec3: types.vector(Scalar::F64, 3),
        array: types.array(Type::F64, 4),
        vectors: types.array(vec2, 3),
        nested: {
            let inner = types.array(Type::F64, 2);
            types.array(inner, 3)
        },
    };
    let mut callable: Vec<Func> = vec![both, backward];
    let mut residuals: Vec<Residuals> = Vec::new();
    let n_functions = 1 + rng.below(3);
    for k in 0..n_functions {
        let recursive = rng.chance(25);
        let budget = if k + 1 == n_functions { size } else { size / 3 + 2 };
        let name = format!("f{k}");
        let signatures: Vec<(Func, Vec<Slot>, Vec<Slot>)> = callable
            .iter()
            .map(|&f| (f, module.funcs[f].params.clone(), module.funcs[f].results.clone()))
            .collect();
        let program = Program {
            b: Builder::new(&mut module.types, name),
            rng: &mut rng,
            kinds,
            sin,
            callable: signatures,
            residuals: &mut residuals,
            scope: Vec::new(),
            budget,
            depth: 0,
            itself: module.funcs.next_key(),
            recursive,
        };
        let body = program.function();
        callable.push(module.funcs.push(body));
    }
    module.residuals = residuals;
    let last = *callable.last().expect("at least one");
    (module, last)
}

struct Program<'a> {
    b: Builder<'a>,
    rng: &'a mut Rng,
    kinds: Kinds,
    sin: Func,
    callable: Vec<(Func, Vec<Slot>, Vec<Slot>)>,
    /// The residuals of the module.
    residuals: &'a mut Vec<Residuals>,
    scope: Vec<Value>,
    budget: usize,
    depth: usize,
    /// The function being generated, and whether it calls itself.
    itself: Func,
    recursive: bool,
}

impl Program<'_> {
    fn ty(&self, v: Value) -> Type {
        self.b.func.ty(v)
    }

    fn see(&mut self, v: Value) -> Value {
        self.scope.push(v);
        v
    }

    fn function(mut self) -> ir::Function {
        let k = self.kinds;
        let n = 2 + self.rng.below(3);
        for idx in 0..n {
            let choices = [Type::F64, Type::F64, k.vec3, k.array, k.vectors, k.vec2, k.nested];
            let ty = choices[self.rng.below(if idx == 0 { 1 } else { choices.len() })];
            let diff = idx == 0 || self.rng.chance(85);
            let v = self.b.param(slot(ty, diff, &format!("p{idx}")));
            self.see(v);
        }
        let v = self.b.param(Slot { ty: Type::I32, diff: false, linear: false, name: Some("count".into()) });
        self.see(v);
        let n = self.rng.below(3);
        let mut slots = vec![slot(Type::F64, true, "r0")];
        for idx in 1..=n {
            let choices = [Type::F64, Type::F64, k.vec3, k.array, k.vec2, k.vectors, k.nested];
            let ty = choices[self.rng.below(choices.len())];
            slots.push(slot(ty, self.rng.chance(90), &format!("r{idx}")));
        }
        self.statements();
        if self.recursive {
            self.recurse(v, &slots);
            self.statements();
        }
        let mut results = vec![self.blend(100)];
        for slot in &slots[1..] {
            results.push(self.any(slot.ty));
        }
        self.b.finish(results, slots)
    }

    /// Generates a recursive call with a smaller count, unless the count is zero.
    fn recurse(&mut self, count: Value, results: &[Slot]) {
        let three = self.b.i32(3);
        let left = self.b.emit(Op::And, &[count, three]);
        let zero = self.b.i32(0);
        let more = self.b.emit(Op::Gt, &[left, zero]);
        let region = self.b.open();
        let one = self.b.i32(1);
        let next = self.b.emit(Op::Sub, &[left, one]);
        let params: Vec<Type> = self.b.func.params.iter().map(|p| p.ty).collect();
        let mut args: Vec<Value> = params.iter().map(|&ty| self.any(ty)).collect();
        *args.last_mut().expect("the count") = next;
        let types: Vec<(Type, bool)> = results.iter().map(|r| (r.ty, false)).collect();
        let values = self.b.call(Op::Call(self.itself), &args, &types);
        self.b.close(values);
        let arms = [region, {
            let region = self.b.open();
            let values: Vec<Value> = results.iter().map(|r| self.any(r.ty)).collect();
            self.b.close(values);
            region
        }];
        for v in self.b.nest(Op::If, &[more], &arms) {
            let v = self.tame(v);
            self.see(v);
        }
    }

    /// A random `[Checkpoint]` attribute for a loop.
    fn checkpoint(&mut self) -> Option<u32> {
        self.rng.chance(12).then(|| self.rng.below(4) as u32)
    }

    /// A visible value of the type, with a preference for recent ones, or a constant.
    fn any(&mut self, ty: Type) -> Value {
        let found: Vec<Value> = self.scope.iter().copied().filter(|&v| self.ty(v) == ty).collect();
        if !found.is_empty() && self.rng.chance(95) {
            let recent = if self.rng.chance(70) { 3 } else { 100 };
            let back = self.rng.below(found.len().min(recent));
            return found[found.len() - 1 - back];
        }
        match self.b.types[ty] {
            TypeData::Scalar(s) if s.is_float() => {
                let x = self.rng.number();
                self.b.float(s, x)
            }
            TypeData::Scalar(s) => {
                let n = self.rng.below(5) as u64;
                self.b.constant(s, if s == Scalar::Bool { n & 1 } else { n })
            }
            TypeData::Vector(_, n) | TypeData::Array(_, n) => {
                let element = self.b.types.element(ty).expect("an aggregate");
                let parts: Vec<Value> = (0..n).map(|_| self.any(element)).collect();
                self.b.emit_typed(Op::Construct, &parts, ty)
            }
            TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
                self.b.zero(ty, false)
            }
        }
    }

    fn float(&mut self) -> Value {
        if self.rng.chance(25) { self.blend(40) } else { self.any(Type::F64) }
    }

    /// A sum of numbers, lanes, elements and contents of cells, over the given percentage of the visible
    /// values.
    fn blend(&mut self, percent: usize) -> Value {
        let visible: Vec<Value> = self.scope.iter().copied().rev().take(40).collect();
        let mut sum = self.b.float(Scalar::F64, 0.0);
        for v in visible {
            if !self.rng.chance(percent) {
                continue;
            }
            let mut v = v;
            if self.b.types.content(self.ty(v)).is_some() {
                v = self.b.emit(Op::Load, &[v]);
            }
            while let TypeData::Array(_, n) = self.b.types[self.ty(v)] {
                let idx = self.rng.below(n as usize) as u32;
                v = self.b.emit(Op::Extract(idx), &[v]);
            }
            if self.b.types.lanes(self.ty(v)).is_some() && self.b.types.is_differentiable(self.ty(v)) {
                v = self.b.emit(Op::Sum, &[v]);
            }
            if self.ty(v) == Type::F64 {
                let weight = self.rng.number();
                let weight = self.b.float(Scalar::F64, weight * 0.5);
                let term = self.b.emit(Op::Mul, &[v, weight]);
                sum = self.b.emit(Op::Add, &[sum, term]);
            }
        }
        self.squash(sum)
    }

    fn index(&mut self) -> Value {
        let ty = if self.rng.chance(70) { Type::I32 } else { Type::U32 };
        let v = self.any(ty);
        if self.rng.chance(60) {
            let scalar = self.b.types.scalar_of(ty).expect("a number");
            let three = self.b.constant(scalar, 3);
            return self.b.emit(Op::And, &[v, three]);
        }
        v
    }

    fn condition(&mut self) -> Value {
        let (a, b) = (self.float(), self.float());
        let op = [Op::Lt, Op::Ge][self.rng.below(2)].clone();
        self.b.emit(op, &[a, b])
    }

    fn squash(&mut self, v: Value) -> Value {
        let sin = self.sin;
        self.b.call(Op::Call(sin), &[v], &[(Type::F64, false)])[0]
    }

    /// Keeps a carried value small.
    fn tame(&mut self, v: Value) -> Value {
        if self.ty(v) == Type::F64 {
            return self.squash(v);
        }
        if self.b.types.lanes(self.ty(v)).is_some() && self.b.types.is_differentiable(self.ty(v)) {
            let x = self.squash_sum(v);
            let half = self.b.splat_float(self.ty(v), 0.25);
            let scaled = self.b.emit(Op::Mul, &[v, half]);
            let spread = self.b.emit_typed(Op::Splat, &[x], self.ty(v));
            return self.b.emit(Op::Add, &[scaled, spread]);
        }
        v
    }

    fn squash_sum(&mut self, v: Value) -> Value {
        let sum = self.b.emit(Op::Sum, &[v]);
        self.squash(sum)
    }

    fn statements(&mut self) {
        let n = 2 + self.rng.below(6);
        for _ in 0..n {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            self.statement();
        }
    }

    fn cells(&self) -> Vec<Value> {
        self.scope.iter().copied().filter(|&v| self.b.types.content(self.ty(v)).is_some()).collect()
    }

    fn statement(&mut self) {
        let k = self.kinds;
        let nested = self.depth < 3;
        match self.rng.below(if nested { 30 } else { 23 }) {
            0 | 1 => {
                let (a, b) = (self.float(), self.float());
                let op = [Op::Add, Op::Sub, Op::Mul][self.rng.below(3)].clone();
                let v = self.b.emit(op, &[a, b]);
                self.see(v);
            }
            2 | 3 => {
                let (a, b) = (self.float(), self.float());
                let product = self.b.emit(Op::Mul, &[a, b]);
                let v = self.squash(product);
                self.see(v);
            }
            4 => {
                let (a, b) = (self.float(), self.float());
                let square = self.b.emit(Op::Mul, &[b, b]);
                let one = self.b.float(Scalar::F64, 1.0);
                let divisor = self.b.emit(Op::Add, &[square, one]);
                let v = self.b.emit(Op::Div, &[a, divisor]);
                self.see(v);
            }
            5 => {
                let ty = [k.vec2, k.vec3, Type::F64][self.rng.below(3)];
                let (a, b) = (self.any(ty), self.any(ty));
                let op = [Op::Add, Op::Sub][self.rng.below(2)].clone();
                let v = self.b.emit(op, &[a, b]);
                self.see(v);
                let v = self.b.emit(Op::Neg, &[v]);
                self.see(v);
            }
            6 => {
                let ty = [k.vec2, k.vec3][self.rng.below(2)];
                let (a, b) = (self.any(ty), self.any(ty));
                let v = self.b.emit(Op::Mul, &[a, b]);
                let v = self.tame(v);
                self.see(v);
            }
            7 => {
                let c = self.condition();
                let ty = [Type::F64, k.vec3, k.array, k.vectors][self.rng.below(4)];
                let (a, b) = (self.any(ty), self.any(ty));
                let v = self.b.emit(Op::Select, &[c, a, b]);
                self.see(v);
            }
            8 => {
                let (a, b) = (self.any(k.vec3), self.any(k.vec3));
                let c = self.b.emit(Op::Lt, &[a, b]);
                let (x, y) = (self.any(k.vec3), self.any(k.vec3));
                let v = self.b.emit(Op::Select, &[c, x, y]);
                self.see(v);
            }
            9 => {
                let ty = [k.vec2, k.vec3][self.rng.below(2)];
                let v = self.any(ty);
                let x = self.b.emit(Op::Sum, &[v]);
                self.see(x);
                let i = self.index();
                let x = self.b.emit(Op::Index, &[v, i]);
                self.see(x);
            }
            10 => {
                let ty = [k.array, k.vectors, k.nested][self.rng.below(3)];
                let v = self.any(ty);
                let i = self.index();
                let x = self.b.emit(Op::Index, &[v, i]);
                self.see(x);
                if ty == k.nested {
                    let i = self.index();
                    let x = self.b.emit(Op::Index, &[x, i]);
                    self.see(x);
                }
            }
            11 => {
                let ty = [k.array, k.vectors, k.nested, k.vec3][self.rng.below(4)];
                let v = self.any(ty);
                let x = self.b.emit(Op::Extract(self.rng.below(3) as u32), &[v]);
                self.see(x);
                let element = self.b.types.element(ty).expect("an aggregate");
                let y = self.any(element);
                let w = self.b.emit(Op::Insert(self.rng.below(3) as u32), &[v, y]);
                self.see(w);
            }
            12 => {
                let ty = [k.array, k.vectors, k.nested, k.vec3, k.vec2][self.rng.below(5)];
                let element = self.b.types.element(ty).expect("an aggregate");
                let x = self.any(element);
                let v = self.b.emit_typed(Op::Splat, &[x], ty);
                self.see(v);
            }
            13 => {
                let x = self.float();
                let v = self.b.emit(Op::Detach, &[x]);
                self.see(v);
            }
            14 => {
                let x = self.float();
                let v = self.b.emit_typed(Op::Convert, &[x], Type::I32);
                self.see(v);
                let (a, b) = (self.any(Type::I32), self.any(Type::I32));
                let v = self.b.emit(Op::Add, &[a, b]);
                let three = self.b.i32(3);
                let v = self.b.emit(Op::And, &[v, three]);
                self.see(v);
            }
            15 | 16 => {
                let ty = [k.array, k.array, k.vectors, k.nested, Type::F64, k.vec3][self.rng.below(6)];
                let v = self.any(ty);
                let cell = self.b.emit(Op::Local, &[v]);
                self.see(cell);
            }
            17..=21 => self.cell_access(),
            22 => self.call(),
            23..=25 => self.branch(),
            26 => self.switch(),
            27 | 28 => self.counted(),
            _ => self.repeated(),
        }
    }

    fn cell_access(&mut self) {
        let cells = self.cells();
        if cells.is_empty() {
            let v = self.any(self.kinds.array);
            let cell = self.b.emit(Op::Local, &[v]);
            self.see(cell);
            return;
        }
        let cell = cells[self.rng.below(cells.len())];
        let mut ty = self.b.types.content(self.ty(cell)).expect("a cell");
        let mut args = vec![cell];
        while let Some(element) = self.b.types.element(ty) {
            if self.rng.chance(12) {
                break;
            }
            args.push(self.index());
            ty = element;
        }
        match self.rng.below(3) {
            0 => {
                let v = self.b.emit(Op::Load, &args);
                self.see(v);
            }
            1 => {
                let x = self.any(ty);
                let x = self.tame(x);
                args.push(x);
                self.b.effect(Op::Store, &args);
            }
            _ => {
                let x = self.any(ty);
                args.push(x);
                self.b.effect(Op::AddTo, &args);
            }
        }
    }

    fn call(&mut self) {
        if self.callable.is_empty() {
            let v = self.float();
            let v = self.squash(v);
            self.see(v);
            return;
        }
        let (func, params, results) = self.callable[self.rng.below(self.callable.len())].clone();
        if self.rng.chance(30) {
            return self.request(func, &params, &results);
        }
        let args: Vec<Value> = params.iter().map(|p| self.any(p.ty)).collect();
        let types: Vec<(Type, bool)> = results.iter().map(|r| (r.ty, false)).collect();
        let values = self.b.call(Op::Call(func), &args, &types);
        for v in values {
            let v = self.tame(v);
            self.see(v);
        }
    }

    /// Generates a derivative of an earlier function.
    fn request(&mut self, func: Func, params: &[Slot], results: &[Slot]) {
        let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).map(|s| s.ty).collect::<Vec<Type>>();
        let mut args: Vec<Value> = params.iter().map(|p| self.any(p.ty)).collect();
        let values = if self.rng.chance(30) {
            self.pullback(func, args, params, results)
        } else if self.rng.chance(50) {
            args.extend(diff(params).into_iter().map(|ty| self.any(ty)).collect::<Vec<_>>());
            let mut types: Vec<(Type, bool)> = results.iter().map(|r| (r.ty, false)).collect();
            types.extend(diff(results).into_iter().map(|ty| (ty, false)));
            self.b.call(Op::CallDerivative(DerivativeOp::Fwd, func), &args, &types)
        } else {
            args.extend(diff(results).into_iter().map(|ty| self.any(ty)).collect::<Vec<_>>());
            let types: Vec<(Type, bool)> = diff(params).into_iter().map(|ty| (ty, false)).collect();
            self.b.call(Op::CallDerivative(DerivativeOp::Bwd, func), &args, &types)
        };
        for v in values {
            let v = self.tame(v);
            self.see(v);
        }
    }

    /// Generates the value now and the cotangents or tangents after some other statements, from residuals
    /// that were kept as they are or in a cell, an arm or a loop.
    fn pullback(&mut self, func: Func, args: Vec<Value>, params: &[Slot], results: &[Slot]) -> Vec<Value> {
        let forward = self.rng.chance(40);
        let (first, second) = match forward {
            true => (DerivativeOp::Linearize, DerivativeOp::Pushforward),
            false => (DerivativeOp::Apply, DerivativeOp::Pullback),
        };
        let of = Residuals { func, forward };
        let number = self.residuals.iter().position(|&known| known == of).unwrap_or_else(|| {
            self.residuals.push(of);
            self.residuals.len() - 1
        });
        let kept = self.b.types.residuals(number as u32);
        let mut types: Vec<(Type, bool)> = results.iter().map(|r| (r.ty, false)).collect();
        types.push((kept, false));
        let mut values = self.b.call(Op::CallDerivative(first, func), &args, &types);
        let mut held = values.pop().expect("what is kept is a result");
        for v in values {
            let v = self.tame(v);
            self.see(v);
        }
        let way = self.rng.below(4);
        let cell = (way == 0).then(|| self.b.emit(Op::Local, &[held]));
        self.budget = self.budget.saturating_sub(1);
        if self.depth < 3 {
            self.depth += 1;
            self.statements();
            self.depth -= 1;
        }
        held = match way {
            0 => self.b.emit(Op::Load, &[cell.expect("made above")]),
            1 => {
                let c = self.condition();
                let then = self.b.open();
                self.b.close(vec![held]);
                let other = self.b.open();
                self.b.close(vec![held]);
                self.b.nest(Op::If, &[c], &[then, other])[0]
            }
            2 => {
                // The residuals of the last of the runs that a loop made at the same arguments, if it made
                // any.
                let body = self.b.open();
                self.b.region_param(Type::U32, false);
                self.b.region_param(kept, false);
                let again = self.b.call(Op::CallDerivative(first, func), &args, &types);
                self.b.close(vec![again[results.len()]]);
                let trips = self.rng.below(3) as u64;
                let trips = self.b.emit_typed(Op::Const(trips), &[], Type::U32);
                self.b.nest(Op::For(LoopInfo::default()), &[trips, held], &[body])[0]
            }
            _ => held,
        };
        let mut operands = args;
        operands.push(held);
        let diff = |slots: &[Slot]| slots.iter().filter(|s| s.diff).map(|s| s.ty).collect::<Vec<Type>>();
        let (given, wanted) = if forward { (params, results) } else { (results, params) };
        operands.extend(diff(given).into_iter().map(|ty| self.any(ty)).collect::<Vec<_>>());
        let types: Vec<(Type, bool)> = diff(wanted).into_iter().map(|ty| (ty, false)).collect();
        self.b.call(Op::CallDerivative(second, func), &operands, &types)
    }

    /// Random types for the values that a region yields.
    fn shape(&mut self, max: usize) -> Vec<Type> {
        let k = self.kinds;
        let n = self.rng.below(max + 1);
        let choices = [Type::F64, Type::F64, Type::F64, k.vec3, k.array, k.vectors, Type::I32, k.nested];
        (0..n).map(|_| choices[self.rng.below(choices.len())]).collect()
    }

    fn arm(&mut self, shape: &[Type]) -> Region {
        let region = self.b.open();
        let mark = self.scope.len();
        self.depth += 1;
        self.statements();
        self.depth -= 1;
        let results: Vec<Value> = shape.iter().map(|&ty| self.any(ty)).collect();
        self.scope.truncate(mark);
        self.b.close(results);
        region
    }

    fn branch(&mut self) {
        let c = self.condition();
        let shape = self.shape(3);
        let arms = [self.arm(&shape), self.arm(&shape)];
        let results = self.b.nest(Op::If, &[c], &arms);
        self.scope.extend(results);
    }

    fn switch(&mut self) {
        let tag = self.index();
        let shape = self.shape(2);
        let arms = [self.arm(&shape), self.arm(&shape), self.arm(&shape)];
        let results = self.b.nest(Op::Switch(vec![0, 2].into()), &[tag], &arms);
        self.scope.extend(results);
    }

    /// The values that a loop's body yields, including the stacked ones.
    fn body(&mut self, carried: &[Type], stacked: &[Type]) -> Vec<Value> {
        self.depth += 1;
        self.statements();
        self.depth -= 1;
        let mut results = Vec::new();
        for &ty in carried {
            let v = self.any(ty);
            results.push(self.tame(v));
        }
        for &ty in stacked {
            results.push(self.any(ty));
        }
        results
    }

    /// Reads elements of stacks, and adds them to cells.
    fn use_stacks(&mut self, results: Vec<Value>) {
        for v in results {
            let ty = self.ty(v);
            if !matches!(self.b.types[ty], TypeData::Stack(_)) {
                self.see(v);
                continue;
            }
            let i = self.index();
            let x = self.b.emit(Op::Index, &[v, i]);
            self.see(x);
            if self.rng.chance(40) {
                let cell = self.b.emit(Op::Local, &[v]);
                let i = self.index();
                let element = self.b.types.element(ty).expect("a stack");
                let y = self.any(element);
                let place = self.index();
                let bound = self.b.types.scalar_of(self.ty(place)).expect("a number");
                let three = self.b.constant(bound, 3);
                let place = self.b.emit(Op::And, &[place, three]);
                self.b.effect(Op::AddTo, &[cell, place, y]);
                let x = self.b.emit(Op::Load, &[cell, i]);
                self.see(x);
            }
        }
    }

    fn counted(&mut self) {
        let n = self.any(Type::I32);
        let three = self.b.i32(3);
        let n = self.b.emit(Op::And, &[n, three]);
        let shape = self.shape(3);
        let stacked = self.shape(2);
        let mut args = vec![n];
        args.extend(shape.iter().map(|&ty| self.any(ty)).collect::<Vec<_>>());
        let region = self.b.open();
        let mark = self.scope.len();
        let trip = self.b.region_param(Type::I32, false);
        self.see(trip);
        for &ty in &shape {
            let v = self.b.region_param(ty, false);
            self.see(v);
        }
        let results = self.body(&shape, &stacked);
        self.scope.truncate(mark);
        self.b.close(results);
        // This takes no number from the generator, so seeds keep their programs.
        let down = self.rng.0 & 7 == 0;
        let info = LoopInfo { checkpoint: self.checkpoint(), down, ..LoopInfo::default() };
        let results = self.b.nest(Op::For(info), &args, &[region]);
        self.use_stacks(results);
    }

    fn repeated(&mut self) {
        let limit = self.any(Type::I32);
        let three = self.b.i32(3);
        let limit = self.b.emit(Op::And, &[limit, three]);
        let shape = self.shape(2);
        let stacked = self.shape(1);
        let zero = self.b.i32(0);
        let mut args = vec![zero];
        args.extend(shape.iter().map(|&ty| self.any(ty)).collect::<Vec<_>>());
        let region = self.b.open();
        let mark = self.scope.len();
        let counter = self.b.region_param(Type::I32, false);
        self.see(counter);
        for &ty in &shape {
            let v = self.b.region_param(ty, false);
            self.see(v);
        }
        let values = self.body(&shape, &stacked);
        let one = self.b.i32(1);
        let next = self.b.emit(Op::Add, &[counter, one]);
        let in_time = self.b.emit(Op::Lt, &[next, limit]);
        let other = self.condition();
        let again = self.b.emit(Op::And, &[in_time, other]);
        self.scope.truncate(mark);
        let mut results = vec![again, next];
        results.extend(values);
        self.b.close(results);
        let info = LoopInfo { max_iters: Some(16), checkpoint: self.checkpoint(), ..LoopInfo::default() };
        let results = self.b.nest(Op::Loop(info), &args, &[region]);
        self.use_stacks(results);
    }
}
