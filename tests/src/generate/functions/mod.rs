//! Generates random functions of the IR: nested `if`, `switch`, `for` and `loop`, vectors, arrays, cells with
//! constant and dynamic indices (out of range, too), stacks, calls and recursion. Every loop ends.
//!
//! The two styles share all of that. [`Style::Smooth`] is for derivatives: numbers are doubles of moderate
//! size, since values that loops carry go through `sin` and divisors are at least 1, and there are checkpoints,
//! functions with user-written derivatives, and derivatives of the program's own functions. [`Style::Wild`] is
//! for the meaning of operations: floats are often zeros of either sign, infinite or NaN, and programs use all
//! conversions, memory and output.

mod regions;

use ir::{
    AtomicOp, Builder, DerivativeOp, Func, Function, Global, LoopInfo, Math, Module, Op, Path, Residuals,
    Scalar, Slot, Type, TypeData, Types, Value,
};

use super::Rng;

/// The kind of program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Doubles of moderate size, and derivatives.
    Smooth,
    /// Floats of any kind, memory and output.
    Wild,
}

/// A module with a few functions, and the function to test.
pub fn functions(style: Style, seed: u64, size: usize) -> (Module, Func) {
    let rng = &mut Rng::new(seed);
    let text = match style {
        Style::Smooth => include_str!("rules.ir"),
        Style::Wild => "global input: read_only f32\nglobal state: read_write f32\n",
    };
    let mut module = ir::parse::parse_module(text).expect("the text is well-formed");
    let sin = module.find("sin");
    let globals: Vec<Global> = module.globals.keys().collect();
    let mut callees: Vec<Func> = ["both", "backward"].iter().filter_map(|name| module.find(name)).collect();
    let kinds = Kinds::of(&mut module.types, if style == Style::Smooth { Scalar::F64 } else { Scalar::F32 });
    let n_functions = 1 + rng.below(3);
    for k in 0..n_functions {
        let itself = module.funcs.next_key();
        let Module { types, mem, funcs, residuals, .. } = &mut module;
        let buffer = mem.intern(ir::MemData::Scalar(Scalar::F32));
        let buffer = types.buffer(buffer);
        let is_last = k + 1 == n_functions;
        let generator = Generator {
            style,
            kinds,
            sin,
            globals: &globals,
            buffer,
            funcs: funcs.values().as_slice(),
            callees: &callees,
            residuals,
            b: Builder::new(types, format!("f{k}")),
            scope: Vec::new(),
            budget: if is_last { size } else { size / 3 + 2 },
            depth: 0,
            has_effects: style == Style::Wild && (is_last || rng.one_in(2)),
            watches: !seed.is_multiple_of(4),
            itself,
            rng,
        };
        let function = generator.function();
        callees.push(module.funcs.push(function));
    }
    let last = *callees.last().expect("at least one");
    (module, last)
}

/// A random argument of a type.
pub fn argument(style: Style, rng: &mut Rng, types: &Types, ty: Type) -> ir::interp::Value {
    if let TypeData::Stack(element) = types[ty] {
        return ir::interp::Value::stack((0..3).map(|_| argument(style, rng, types, element)).collect());
    }
    let template: ir::interp::Value = ir::interp::Value::zero(types, ty);
    template.map(&mut |_: u64| match types.scalar_of(ty) {
        Some(s) if s.is_float() => ir::build::float_bits(s, float(style, rng)),
        Some(Scalar::Bool) => rng.below(2) as u64,
        _ => rng.below(5) as u64,
    })
}

/// A random number in a program's style.
pub fn float(style: Style, rng: &mut Rng) -> f64 {
    const SPECIAL: [f64; 8] = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NAN, 2.0, 0.5];
    match style {
        // In ±1.5, away from zero.
        Style::Smooth => (0.2 + rng.below(1000) as f64 * 0.0013) * if rng.one_in(2) { 1.0 } else { -1.0 },
        Style::Wild if rng.one_in(3) => SPECIAL[rng.below(SPECIAL.len())],
        Style::Wild => rng.float(),
    }
}

/// The types that programs are made of.
#[derive(Clone, Copy)]
struct Kinds {
    s: Scalar,
    float: Type,
    vec2: Type,
    vec3: Type,
    array: Type,
    vectors: Type,
    nested: Type,
    big: Type,
}

impl Kinds {
    fn of(types: &mut Types, s: Scalar) -> Kinds {
        let (float, vec2) = (s.into(), types.vector(s, 2));
        let pair = types.array(float, 2);
        Kinds {
            s,
            float,
            vec2,
            vec3: types.vector(s, 3),
            array: types.array(float, 4),
            vectors: types.array(vec2, 3),
            nested: types.array(pair, 3),
            big: types.array(float, 80),
        }
    }
}

struct Generator<'a> {
    style: Style,
    rng: &'a mut Rng,
    b: Builder<'a>,
    kinds: Kinds,
    /// `sin` as a function with a derivative; smooth programs only.
    sin: Option<Func>,
    globals: &'a [Global],
    /// The type of a handle of a global.
    buffer: Type,
    /// The functions so far, and those that may be called.
    funcs: &'a [Function],
    callees: &'a [Func],
    /// The residuals of the module.
    residuals: &'a mut Vec<Residuals>,
    /// The visible values, and cells.
    scope: Vec<Value>,
    /// The number of statements left.
    budget: usize,
    depth: usize,
    /// The function writes to memory and prints.
    has_effects: bool,
    /// The function prints parts of its values.
    watches: bool,
    /// The function being generated.
    itself: Func,
}

fn types_of(slots: &[Slot]) -> Vec<(Type, bool)> {
    slots.iter().map(|slot| (slot.ty, false)).collect()
}

fn differentials(slots: &[Slot]) -> Vec<(Type, bool)> {
    slots.iter().filter(|slot| slot.diff).map(|slot| (slot.ty, false)).collect()
}

impl<'a> Generator<'a> {
    fn is_smooth(&self) -> bool {
        self.style == Style::Smooth
    }

    fn ty(&self, v: Value) -> Type {
        self.b.func.ty(v)
    }

    fn choose<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.rng.below(all.len())].clone()
    }

    /// Makes a value visible.
    fn see(&mut self, v: Value) {
        self.scope.push(v);
        if self.has_effects && self.watches && self.rng.one_in(4) {
            self.observe(v);
        }
    }

    fn slot(&mut self, ty: Type) -> Slot {
        let diff = self.b.types.is_differentiable(ty) && !self.rng.one_in(8);
        Slot { ty, diff, linear: false, name: None }
    }

    fn function(mut self) -> Function {
        let k = self.kinds;
        let is_recursive = self.rng.one_in(4);
        for n in 0..2 + self.rng.below(4) {
            let ty = if n == 0 { k.float } else { self.any_type() };
            let slot = self.slot(ty);
            let v = self.b.param(Slot { diff: slot.diff || n == 0, ..slot });
            self.see(v);
        }
        let count = self.slot(Type::I32);
        let count = self.b.param(count);
        self.see(count);
        let mut slots = vec![Slot { ty: k.float, diff: true, linear: false, name: None }];
        for _ in 0..self.rng.below(4) {
            let ty = self.any_type();
            slots.push(self.slot(ty));
        }
        self.statements();
        if is_recursive {
            self.recurse(count, &slots);
        }
        while self.budget > 0 {
            self.statements();
        }
        let mut results = vec![self.blend(1)];
        results.extend(slots[1..].to_vec().iter().map(|slot| self.any(slot.ty)));
        if !self.is_smooth() && !is_recursive {
            for cell in self.cells().into_iter().take(4) {
                let content = self.b.emit(Op::Load, &[cell]);
                slots.push(Slot { diff: false, ..self.slot(self.ty(content)) });
                results.push(content);
            }
        }
        self.b.finish(results, slots)
    }

    // ---- values

    fn any_type(&mut self) -> Type {
        let k = self.kinds;
        let (float, vec2, vec3) = (k.float, k.vec2, k.vec3);
        let small = [float, float, float, float, vec2, vec3, k.array, k.vectors, k.nested];
        self.choose(&[&small[..], &[Type::I32, Type::U32, Type::BOOL]].concat())
    }

    /// Random types for the values that a region yields.
    fn shape(&mut self, most: usize) -> Vec<Type> {
        (0..self.rng.below(most + 1)).map(|_| self.any_type()).collect()
    }

    /// A visible value of the type, with a preference for recent ones, or a new one.
    fn any(&mut self, ty: Type) -> Value {
        let found: Vec<Value> = self.scope.iter().copied().filter(|&v| self.ty(v) == ty).collect();
        if !found.is_empty() && !self.rng.one_in(14) {
            let recent = if self.rng.below(10) < 7 { 3 } else { 100 };
            return found[found.len() - 1 - self.rng.below(found.len().min(recent))];
        }
        match self.b.types[ty] {
            TypeData::Scalar(s) if s.is_float() => {
                let x = float(self.style, self.rng);
                self.b.float(s, x)
            }
            TypeData::Scalar(Scalar::Bool) => {
                let yes = self.rng.one_in(2);
                self.b.bool(yes)
            }
            TypeData::Scalar(s) => {
                let n = self.rng.below(5) as i64 - if self.rng.one_in(8) { 3 } else { 0 };
                self.b.constant(s, ir::scalar::from_i64(s, n))
            }
            TypeData::Vector(_, n) | TypeData::Array(_, n) if !self.rng.one_in(4) => {
                let element = self.element(ty);
                if n > 4 || self.rng.one_in(3) {
                    let x = self.any(element);
                    return self.b.emit_typed(Op::Splat, &[x], ty);
                }
                let parts: Vec<Value> = (0..n).map(|_| self.any(element)).collect();
                self.b.emit_typed(Op::Construct, &parts, ty)
            }
            _ => self.b.zero(ty),
        }
    }

    fn all(&mut self, types: &[Type]) -> Vec<Value> {
        types.iter().map(|&ty| self.any(ty)).collect()
    }

    fn element(&self, ty: Type) -> Type {
        self.b.types.element(ty).expect("an aggregate")
    }

    fn float(&mut self) -> Value {
        if self.is_smooth() && self.rng.one_in(4) { self.blend(3) } else { self.any(self.kinds.float) }
    }

    /// A sum of numbers, lanes, elements and contents of cells, over one in `few` of the visible values.
    fn blend(&mut self, few: usize) -> Value {
        let k = self.kinds;
        let visible: Vec<Value> = self.scope.iter().copied().rev().take(40).collect();
        let mut sum = self.b.float(k.s, 0.0);
        for mut v in visible {
            if !self.rng.one_in(few) {
                continue;
            }
            if self.b.types.content(self.ty(v)).is_some() {
                v = self.b.emit(Op::Load, &[v]);
            }
            while let TypeData::Array(_, n) = self.b.types[self.ty(v)] {
                let idx = self.rng.below(n as usize) as u32;
                v = self.b.emit(Op::Extract(idx), &[v]);
            }
            if [k.vec2, k.vec3].contains(&self.ty(v)) {
                v = self.b.emit(Op::Sum, &[v]);
            }
            if self.ty(v) == k.float {
                let weight = 0.5 * float(Style::Smooth, self.rng);
                let weight = self.b.float(k.s, weight);
                let term = self.b.emit(Op::Mul, &[v, weight]);
                sum = self.b.emit(Op::Add, &[sum, term]);
            }
        }
        self.squash(sum)
    }

    /// The sine of a number, in a smooth program.
    fn squash(&mut self, v: Value) -> Value {
        let ty = self.ty(v);
        self.sin.map_or(v, |sin| self.b.emit_typed(Op::Call(sin), &[v], ty))
    }

    /// Keeps a number or vector small, in a smooth program.
    fn tame(&mut self, v: Value) -> Value {
        let ty = self.ty(v);
        if ty == self.kinds.float {
            return self.squash(v);
        }
        if !self.is_smooth() || ![self.kinds.vec2, self.kinds.vec3].contains(&ty) {
            return v;
        }
        let sum = self.b.emit(Op::Sum, &[v]);
        let x = self.squash(sum);
        let quarter = self.b.splat_float(ty, 0.25);
        let scaled = self.b.emit(Op::Mul, &[v, quarter]);
        let spread = self.b.emit_typed(Op::Splat, &[x], ty);
        self.b.emit(Op::Add, &[scaled, spread])
    }

    fn see_tamed(&mut self, values: Vec<Value>) {
        for v in values {
            let v = self.tame(v);
            self.see(v);
        }
    }

    fn int_type(&mut self) -> Type {
        self.choose(&[Type::I32, Type::U32])
    }

    fn index(&mut self) -> Value {
        let ty = self.int_type();
        let v = self.any(ty);
        match self.rng.below(4) {
            0 => v,
            1 => {
                let n = self.rng.below(4) as u32;
                self.b.u32(n)
            }
            _ => self.up_to_three(v),
        }
    }

    /// An index up to 3, as for stacks: a cotangent's stack grows up to the greatest index that is read.
    fn small_index(&mut self) -> Value {
        let ty = self.int_type();
        let v = self.any(ty);
        self.up_to_three(v)
    }

    fn up_to_three(&mut self, v: Value) -> Value {
        let s = self.b.types.scalar_of(self.ty(v)).expect("an integer");
        let three = self.b.constant(s, 3);
        self.b.emit(Op::And, &[v, three])
    }

    fn condition(&mut self) -> Value {
        if self.rng.one_in(4) {
            return self.any(Type::BOOL);
        }
        let args = [self.float(), self.float()];
        let op = self.choose(&[Op::Lt, Op::Ge]);
        self.b.emit(op, &args)
    }

    fn cells(&self) -> Vec<Value> {
        self.scope.iter().copied().filter(|&v| self.b.types.content(self.ty(v)).is_some()).collect()
    }

    // ---- statements

    fn statements(&mut self) {
        for _ in 0..2 + self.rng.below(7) {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            match self.rng.below(if self.depth < 3 { 36 } else { 28 }) {
                0..=5 => self.float_op(),
                6 | 7 => self.int_op(),
                8 => self.logic(),
                9 => self.convert(),
                10..=14 => self.aggregate(),
                15 | 16 => self.local(),
                17..=23 => self.access(),
                24 | 25 if !self.is_smooth() => self.memory(),
                24..=27 => self.call(),
                28..=30 => self.branch(),
                31 => self.switch(),
                32 | 33 => self.counted(),
                _ => self.repeated(),
            }
        }
    }

    fn float_op(&mut self) {
        let k = self.kinds;
        let ty = self.choose(&[k.float, k.float, k.vec2, k.vec3]);
        let [x, y] = [(); 2].map(|()| if ty == k.float { self.float() } else { self.any(ty) });
        let v = match self.rng.below(10) {
            0 => self.b.emit(Op::Add, &[x, y]),
            1 => self.b.emit(Op::Sub, &[x, y]),
            2..=4 => {
                let product = self.b.emit(Op::Mul, &[x, y]);
                self.tame(product)
            }
            5 if self.is_smooth() => {
                let square = self.b.emit(Op::Mul, &[y, y]);
                let one = self.b.splat_float(ty, 1.0);
                let divisor = self.b.emit(Op::Add, &[square, one]);
                self.b.emit(Op::Div, &[x, divisor])
            }
            5 => self.b.emit(Op::Div, &[x, y]),
            6 => self.b.emit(Op::Neg, &[x]),
            7 if self.is_smooth() || self.rng.one_in(4) => self.b.emit(Op::Detach, &[x]),
            7 => {
                let all = [Math::Min, Math::Max, Math::Abs, Math::Sqrt, Math::Floor, Math::Fma];
                let (m, z) = (self.choose(&all), self.any(ty));
                self.b.emit(Op::Math(m), &[x, y, z][..m.arity()])
            }
            8 => {
                let (a, b) = (self.any(ty), self.any(ty));
                let c = self.b.emit(Op::Lt, &[x, y]);
                self.b.emit(Op::Select, &[c, a, b])
            }
            _ => {
                let (c, ty) = (self.condition(), self.any_type());
                let (a, b) = (self.any(ty), self.any(ty));
                self.b.emit(Op::Select, &[c, a, b])
            }
        };
        self.see(v);
    }

    fn int_op(&mut self) {
        let ty = self.int_type();
        let (x, y) = (self.any(ty), self.any(ty));
        let all = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr];
        let v = match self.rng.below(8) {
            0 => self.b.emit(Op::Neg, &[x]),
            1 => self.b.emit(Op::Not, &[x]),
            _ => {
                let op = self.choose(&all);
                self.b.emit(op, &[x, y])
            }
        };
        self.see(v);
    }

    fn logic(&mut self) {
        let float = self.kinds.float;
        let ty = self.choose(&[Type::I32, Type::U32, float, Type::BOOL]);
        let (x, y, c) = (self.any(ty), self.any(ty), self.any(Type::BOOL));
        let v = if ty != Type::BOOL {
            let all = [Op::Lt, Op::Le, Op::Gt, Op::Ge, Op::Eq, Op::Ne];
            // Two floats are equal only by chance, or if both were computed in the same way.
            let op = self.choose(if ty == float && self.is_smooth() { &all[..4] } else { &all });
            self.b.emit(op, &[x, y])
        } else {
            match self.choose(&[Op::And, Op::Or, Op::Xor, Op::Eq, Op::Select, Op::Not]) {
                Op::Select => self.b.emit(Op::Select, &[c, x, y]),
                Op::Not => self.b.emit(Op::Not, &[x]),
                op => self.b.emit(op, &[x, y]),
            }
        };
        self.see(v);
    }

    fn convert(&mut self) {
        let k = self.kinds;
        let from = self.choose(&[k.float, k.vec3, Type::I32, Type::U32, Type::BOOL]);
        let mut x = self.any(from);
        // Narrower floats would make rounding errors large.
        let all: &[Scalar] = if self.is_smooth() {
            &[Scalar::Bool, Scalar::I8, Scalar::I32, Scalar::U32, Scalar::F64]
        } else {
            use Scalar::{Bool, F16, F32, F64, I8, I32, I64, U16, U32};
            &[Bool, I8, I32, I64, U16, U32, F32, F16, F64]
        };
        for _ in 0..1 + self.rng.below(3) {
            let s = self.choose(all);
            let ty = self.b.types.with_scalar(from, s);
            x = self.b.emit_typed(Op::Convert, &[x], ty);
        }
        let back = if from == k.vec3 { from } else { self.choose(&[k.float, Type::I32, Type::BOOL]) };
        let v = self.b.emit_typed(Op::Convert, &[x], back);
        self.see_tamed(vec![v]);
    }

    fn aggregate(&mut self) {
        let k = self.kinds;
        let ty = self.choose(&[k.vec2, k.vec3, k.array, k.vectors, k.nested]);
        let (whole, element) = (self.any(ty), self.element(ty));
        let place = self.rng.below(if ty == k.vec2 { 2 } else { 3 }) as u32;
        let v = match self.rng.below(6) {
            0 => {
                let x = self.any(element);
                self.b.emit_typed(Op::Splat, &[x], ty)
            }
            1 => self.b.emit(Op::Extract(place), &[whole]),
            2 => {
                let x = self.any(element);
                self.b.emit(Op::Insert(place), &[whole, x])
            }
            3 if ty == k.vec2 || ty == k.vec3 => self.b.emit(Op::Sum, &[whole]),
            4 => {
                let is_stack = |v: &Value| matches!(self.b.types[self.ty(*v)], TypeData::Stack(_));
                let Some(stack) = self.scope.iter().copied().rfind(is_stack) else { return };
                let i = self.small_index();
                self.b.emit(Op::Index, &[stack, i])
            }
            _ => {
                let i = self.index();
                let x = self.b.emit(Op::Index, &[whole, i]);
                if ty == k.nested {
                    self.see(x);
                    let i = self.index();
                    self.b.emit(Op::Index, &[x, i])
                } else {
                    x
                }
            }
        };
        self.see(v);
    }

    fn local(&mut self) {
        let k = self.kinds;
        let ty = self.choose(&[k.array, k.array, k.vectors, k.nested, k.big, k.float, k.vec3]);
        let v = self.any(ty);
        let cell = self.b.emit(Op::Local, &[v]);
        self.see(cell);
    }

    fn access(&mut self) {
        let cells = self.cells();
        if cells.is_empty() {
            return self.local();
        }
        let cell = self.choose(&cells);
        let mut ty = self.b.types.content(self.ty(cell)).expect("a cell");
        let mut args = vec![cell];
        while let Some(element) = self.b.types.element(ty).filter(|_| !self.rng.one_in(7)) {
            args.push(self.index());
            ty = element;
        }
        let op = self.choose(&[Op::Load, Op::Store, Op::AddTo]);
        if op == Op::Load {
            let v = self.b.emit(op, &args);
            return self.see(v);
        }
        let x = self.any(ty);
        args.push(if op == Op::Store { self.tame(x) } else { x });
        self.b.effect(op, &args);
    }

    fn memory(&mut self) {
        let [input, state] = [0, 1].map(|k| Op::GlobalRef(self.globals[k]));
        let from = self.choose(&[input, state.clone()]);
        let (i, x) = (self.index(), self.any(Type::F32));
        let kind = if self.has_effects { self.rng.below(4) } else { 0 };
        let handle = self.b.emit_typed(if kind == 0 { from } else { state }, &[], self.buffer);
        let path = Path::default();
        match kind {
            0 => {
                let v = self.b.emit_typed(Op::BufferLoad(path), &[handle, i], Type::F32);
                self.see(v);
            }
            1 => _ = self.b.effect(Op::BufferStore(path), &[handle, i, x]),
            2 => {
                let op = Op::Atomic(path, AtomicOp::Exchange);
                let v = self.b.emit_typed(op, &[handle, i, x], Type::F32);
                self.see(v);
            }
            _ => {
                let n = self.any(Type::I32);
                self.b.effect(Op::Printf("%d ".into()), &[n]);
            }
        }
    }

    /// Prints a part of a value; of a float, some digits and the sign, which a zero has, too.
    fn observe(&mut self, v: Value) {
        let mut v = v;
        while let TypeData::Vector(..) | TypeData::Array(..) = self.b.types[self.ty(v)] {
            let n = self.rng.below(2) as u32;
            v = self.b.emit(Op::Extract(n), &[v]);
        }
        let TypeData::Scalar(s) = self.b.types[self.ty(v)] else { return };
        let (format, parts) = if s.is_float() {
            let [scale, one, zero] = [64.0, 1.0, 0.0].map(|x| self.b.float(s, x));
            let digits = self.b.emit(Op::Mul, &[v, scale]);
            let inverse = self.b.emit(Op::Div, &[one, v]);
            ("%d,%d ", vec![digits, self.b.emit(Op::Lt, &[inverse, zero])])
        } else {
            ("%d ", vec![v])
        };
        let args: Vec<Value> =
            parts.into_iter().map(|part| self.b.emit_typed(Op::Convert, &[part], Type::I32)).collect();
        self.b.effect(Op::Printf(format.into()), &args);
    }

    // ---- calls

    fn call(&mut self) {
        if self.callees.is_empty() {
            return self.float_op();
        }
        let func = self.choose(self.callees);
        let Function { params, results, .. } = self.signature(func);
        let is_smooth = self.is_smooth();
        let args: Vec<Value> = params.iter().map(|p| self.any(p.ty)).collect();
        let values = match self.rng.below(10) {
            0 if is_smooth => self.halves(func, args),
            1 | 2 if is_smooth => self.derivative(func, args),
            _ => self.b.call_func(func, results, &args),
        };
        self.see_tamed(values);
    }

    fn signature(&self, func: Func) -> &'a Function {
        &self.funcs[func.as_u32() as usize]
    }

    fn some_differentials(&mut self, slots: &[Slot]) -> Vec<Value> {
        differentials(slots).iter().map(|&(ty, _)| self.any(ty)).collect()
    }

    fn derivative(&mut self, func: Func, mut args: Vec<Value>) -> Vec<Value> {
        let of = self.signature(func);
        let (op, given, results) = if self.rng.one_in(2) {
            (DerivativeOp::Fwd, &of.params, [types_of(&of.results), differentials(&of.results)].concat())
        } else {
            (DerivativeOp::Bwd, &of.results, differentials(&of.params))
        };
        args.extend(self.some_differentials(given));
        self.b.call(Op::CallDerivative(op, func), &args, &results)
    }

    /// Generates the value now and the cotangents or tangents after some other statements, from residuals
    /// that were kept as they are or in a cell, an arm or a loop.
    fn halves(&mut self, func: Func, args: Vec<Value>) -> Vec<Value> {
        let of = self.signature(func);
        let forward = self.rng.one_in(2);
        let (first, second) = match forward {
            true => (DerivativeOp::Linearize, DerivativeOp::Pushforward),
            false => (DerivativeOp::Apply, DerivativeOp::Pullback),
        };
        let first = Op::CallDerivative(first, func);
        let residuals = Residuals { func, forward };
        let number = self.residuals.iter().position(|&known| known == residuals).unwrap_or_else(|| {
            self.residuals.push(residuals);
            self.residuals.len() - 1
        });
        let kept = self.b.types.residuals(number as u32);
        let types = [types_of(&of.results), vec![(kept, false)]].concat();
        let mut values = self.b.call(first.clone(), &args, &types);
        let mut held = values.pop().expect("what is kept is a result");
        self.see_tamed(values);
        let way = self.rng.below(4);
        let cell = (way == 0).then(|| self.b.emit(Op::Local, &[held]));
        self.budget = self.budget.saturating_sub(1);
        if self.depth < 3 {
            self.depth += 1;
            self.statements();
            self.depth -= 1;
        }
        match way {
            0 => held = self.b.emit(Op::Load, &[cell.expect("made above")]),
            1 => {
                let c = self.condition();
                let arms = [(); 2].map(|()| self.nested(&[], |_, _| vec![held]));
                held = self.b.nest(Op::If, &[c], &arms)[0];
            }
            2 => {
                // The residuals of the last of the runs that a loop made at the same arguments, if it made
                // any.
                let body = self.nested(&[Type::U32, kept], |this, _| {
                    this.b.call(first, &args, &types).pop().into_iter().collect()
                });
                let trips = self.rng.below(3) as u32;
                let trips = self.b.u32(trips);
                held = self.b.nest(Op::For(LoopInfo::default()), &[trips, held], &[body])[0];
            }
            _ => {}
        }
        let (given, wanted) = if forward { (&of.params, &of.results) } else { (&of.results, &of.params) };
        let operands = [args, vec![held], self.some_differentials(given)].concat();
        self.b.call(Op::CallDerivative(second, func), &operands, &differentials(wanted))
    }
}
