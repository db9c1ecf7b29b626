//! Generates random functions with nested control flow, vectors, arrays, cells with constant and dynamic
//! indices, stacks, calls and buffers. Every loop ends.

use ir::{
    AtomicOp, Builder, Func, Global, GlobalData, LoopInfo, Math, MemData, Module, Op, Path, Scalar, Slot,
    Space, Span, Type, TypeData, Types, Value,
};

/// The xorshift64* generator.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        let mut rng = Rng((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03);
        for _ in 0..4 {
            rng.next();
        }
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// A small number, often one of the special ones.
    pub(crate) fn float(&mut self) -> f64 {
        const SPECIAL: [f64; 8] = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NAN, 2.0, 0.5];
        match self.below(3) {
            0 => SPECIAL[self.below(8)],
            _ => self.below(256) as f64 / 64.0 - 2.0,
        }
    }
}

pub(crate) struct Program {
    pub(crate) module: Module,
    pub(crate) main: Func,
}

pub(crate) fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut module = Module::default();
    let float = module.mem.intern(MemData::Scalar(Scalar::F32));
    let mut globals = Vec::new();
    for (name, space) in [("input", Space::ReadOnly), ("state", Space::ReadWrite)] {
        globals.push(module.globals.push(GlobalData {
            name: name.into(),
            space,
            ty: float,
            init: None,
            span: Span::NONE,
        }));
    }
    let mut callees = Vec::new();
    for n in 0..3 {
        let mut types = std::mem::take(&mut module.types);
        let name = format!("f{n}");
        let effects = n != 0;
        let budget = [10, 20, 90][n];
        let generator = Generator {
            kinds: Kinds::of(&mut types),
            rng: &mut rng,
            b: Builder::new(&mut types, name),
            buffer: float,
            globals: globals.clone(),
            callees: &callees,
            values: Vec::new(),
            cells: Vec::new(),
            effects,
            watch: effects && !seed.is_multiple_of(4),
            budget,
        };
        let func = generator.function();
        module.types = types;
        let (params, results) = (func.params.clone(), func.results.clone());
        let id = module.funcs.push(func);
        callees.push((id, params, results));
    }
    Program { module, main: callees[2].0 }
}

#[derive(Clone, Copy)]
struct Kinds {
    vector: Type,
    array: Type,
    matrix: Type,
    big: Type,
}

impl Kinds {
    fn of(types: &mut Types) -> Kinds {
        let vector = types.vector(Scalar::F32, 3);
        Kinds {
            vector,
            array: types.array(Type::F32, 4),
            matrix: types.array(vector, 2),
            big: types.array(Type::F32, 80),
        }
    }
}

type Callee = (Func, Vec<Slot>, Vec<Slot>);

struct Generator<'a, 'r> {
    kinds: Kinds,
    rng: &'r mut Rng,
    b: Builder<'a>,
    buffer: ir::MemType,
    globals: Vec<Global>,
    callees: &'r [Callee],
    values: Vec<Value>,
    cells: Vec<Value>,
    effects: bool,
    watch: bool,
    budget: usize,
}

fn slot(ty: Type) -> Slot {
    Slot { ty, diff: ty == Type::F32, linear: false, name: None }
}

impl Generator<'_, '_> {
    fn function(mut self) -> ir::Function {
        let k = self.kinds;
        for ty in [Type::F32, Type::F32, Type::I32, Type::U32, Type::BOOL, k.vector, k.array] {
            let v = self.b.param(slot(ty));
            self.values.push(v);
        }
        while self.budget > 0 {
            self.statements(0);
        }
        let types = [Type::F32, Type::I32, k.vector, k.array, k.matrix, Type::BOOL, Type::U32];
        let mut results: Vec<Value> = types.iter().map(|&ty| self.pick(ty)).collect();
        for n in 0..6 {
            let ty = if n % 3 == 0 { Type::I32 } else { Type::F32 };
            let v = self.pick(ty);
            results.push(v);
        }
        for cell in self.cells.clone().into_iter().take(4) {
            let v = self.b.emit(Op::Load, &[cell]);
            results.push(v);
        }
        let slots = results.iter().map(|&v| slot(self.b.func.ty(v))).collect();
        self.b.finish(results, slots)
    }

    fn statements(&mut self, depth: usize) {
        let n = 3 + self.rng.below(8);
        for _ in 0..n {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            self.statement(depth);
        }
    }

    fn add(&mut self, v: Value) {
        self.values.push(v);
        if self.watch && self.rng.below(4) == 0 {
            self.observe(v);
        }
    }

    /// Prints the observable parts of a value, including the signs of zeros.
    fn observe(&mut self, v: Value) {
        let ty = self.b.func.ty(v);
        let x = match self.b.types[ty] {
            TypeData::Scalar(_) => v,
            TypeData::Vector(..) | TypeData::Array(..) => {
                let n = self.rng.below(2) as u32;
                let x = self.b.emit(Op::Extract(n), &[v]);
                return self.observe(x);
            }
            _ => return,
        };
        let mut args = Vec::new();
        if self.b.func.ty(x) == Type::F32 {
            let scale = self.b.float(Scalar::F32, 64.0);
            args.push(self.b.emit(Op::Mul, &[x, scale]));
            let (one, zero) = (self.b.float(Scalar::F32, 1.0), self.b.float(Scalar::F32, 0.0));
            let inverse = self.b.emit(Op::Div, &[one, x]);
            args.push(self.b.emit(Op::Lt, &[inverse, zero]));
        } else {
            args.push(x);
        }
        for arg in &mut args {
            *arg = self.b.emit_typed(Op::Convert, &[*arg], Type::I32);
        }
        let format = ["", "%d ", "%d,%d "][args.len()];
        self.b.effect(Op::Printf(format.into()), &args);
    }

    fn pick(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self.values.iter().copied().filter(|&v| self.b.func.ty(v) == ty).collect();
        if !fitting.is_empty() && self.rng.below(9) > 0 {
            // Prefer recent values.
            let n = fitting.len();
            return fitting[n - 1 - self.rng.below(n).min(self.rng.below(n)).min(self.rng.below(n))];
        }
        match self.b.types[ty] {
            TypeData::Scalar(s) => self.number(s),
            _ => {
                if self.rng.below(3) == 0 {
                    return self.b.zero(ty, false);
                }
                let Some(element) = self.b.types.element(ty) else { return self.b.zero(ty, false) };
                let x = self.pick(element);
                self.b.emit_typed(Op::Splat, &[x], ty)
            }
        }
    }

    fn number(&mut self, s: Scalar) -> Value {
        match s {
            Scalar::Bool => {
                let yes = self.rng.below(2) == 0;
                self.b.bool(yes)
            }
            Scalar::F32 => {
                let x = self.rng.float();
                self.b.float(s, x)
            }
            _ => {
                let n = self.rng.below(5) as i64 - i64::from(self.rng.below(8) == 0) * 3;
                self.b.constant(s, ir::scalar::from_i64(s, n))
            }
        }
    }

    fn int_type(&mut self) -> Type {
        if self.rng.below(2) == 0 { Type::I32 } else { Type::U32 }
    }

    fn index_value(&mut self) -> Value {
        let ty = self.int_type();
        if self.rng.below(2) == 0 {
            let n = self.rng.below(5) as u64;
            let TypeData::Scalar(s) = self.b.types[ty] else { unreachable!("an int type") };
            self.b.constant(s, n)
        } else {
            self.pick(ty)
        }
    }

    fn any_type(&mut self) -> Type {
        let k = self.kinds;
        [Type::F32, Type::F32, Type::I32, Type::U32, Type::BOOL, k.vector, k.array, k.matrix]
            [self.rng.below(8)]
    }

    fn statement(&mut self, depth: usize) {
        match self.rng.below(30) {
            0..=3 => self.float_op(),
            4..=6 => self.int_op(),
            7 | 8 => self.logic(),
            9 => self.convert(),
            10..=12 => self.aggregate(),
            13 => self.local(),
            14..=17 => self.access(),
            18 => self.memory(),
            19 => self.call(),
            20 | 21 if depth < 4 => self.r#if(depth),
            22 if depth < 4 => self.switch(depth),
            23 | 24 if depth < 3 => self.r#for(depth),
            25 if depth < 3 => self.r#loop(depth),
            26..=28 => self.access(),
            _ => self.float_op(),
        }
    }

    fn float_op(&mut self) {
        let ty = if self.rng.below(3) == 0 { self.kinds.vector } else { Type::F32 };
        let (x, y, z) = (self.pick(ty), self.pick(ty), self.pick(ty));
        let v = match self.rng.below(9) {
            0 | 1 => self.b.emit(Op::Add, &[x, y]),
            2 => self.b.emit(Op::Sub, &[x, y]),
            3 => self.b.emit(Op::Mul, &[x, y]),
            4 => self.b.emit(Op::Div, &[x, y]),
            5 => self.b.emit(Op::Neg, &[x]),
            6 => {
                let m =
                    [Math::Min, Math::Max, Math::Abs, Math::Sqrt, Math::Floor, Math::Fma][self.rng.below(6)];
                self.b.emit(Op::Math(m), &[x, y, z][..m.arity()])
            }
            7 => self.b.emit(Op::Detach, &[x]),
            _ => {
                let c = self.pick(Type::BOOL);
                self.b.emit(Op::Select, &[c, x, y])
            }
        };
        self.add(v);
    }

    fn int_op(&mut self) {
        let ty = self.int_type();
        let (x, y) = (self.pick(ty), self.pick(ty));
        let op = [
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Div,
            Op::Rem,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::Shl,
            Op::Shr,
            Op::Sub,
            Op::Add,
        ][self.rng.below(12)]
        .clone();
        let v = match self.rng.below(8) {
            0 => self.b.emit(Op::Neg, &[x]),
            1 => self.b.emit(Op::Not, &[x]),
            _ => self.b.emit(op, &[x, y]),
        };
        self.add(v);
    }

    fn logic(&mut self) {
        let v = if self.rng.below(2) == 0 {
            let ty = if self.rng.below(2) == 0 { Type::F32 } else { self.int_type() };
            let (x, y) = (self.pick(ty), self.pick(ty));
            let op = [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge][self.rng.below(6)].clone();
            self.b.emit(op, &[x, y])
        } else {
            let (x, y, c) = (self.pick(Type::BOOL), self.pick(Type::BOOL), self.pick(Type::BOOL));
            match self.rng.below(7) {
                0 => self.b.emit(Op::And, &[x, y]),
                1 => self.b.emit(Op::Or, &[x, y]),
                2 => self.b.emit(Op::Xor, &[x, y]),
                3 => self.b.emit(Op::Select, &[c, x, y]),
                4 => self.b.emit(Op::Eq, &[x, y]),
                _ => self.b.emit(Op::Not, &[x]),
            }
        };
        self.add(v);
    }

    fn convert(&mut self) {
        let all = [
            Scalar::Bool,
            Scalar::I8,
            Scalar::I32,
            Scalar::I64,
            Scalar::U16,
            Scalar::U32,
            Scalar::F32,
            Scalar::F16,
            Scalar::F64,
        ];
        let from = self.any_type();
        if !self.b.types.is_numeric(from) {
            return;
        }
        let mut x = self.pick(from);
        for _ in 0..1 + self.rng.below(3) {
            let s = all[self.rng.below(9)];
            let ty = self.b.types.with_scalar(from, s);
            x = self.b.emit_typed(Op::Convert, &[x], ty);
            self.add(x);
        }
        let back = self.any_type();
        if self.b.types.is_numeric(back) && self.b.types.lanes(back) == self.b.types.lanes(from) {
            x = self.b.emit_typed(Op::Convert, &[x], back);
            self.add(x);
        }
    }

    fn aggregate(&mut self) {
        let k = self.kinds;
        let ty = [k.vector, k.array, k.matrix][self.rng.below(3)];
        let n = if ty == k.vector {
            3
        } else if ty == k.array {
            4
        } else {
            2
        };
        let element = self.b.types.element(ty).expect("an aggregate");
        let whole = self.pick(ty);
        let v = match self.rng.below(6) {
            0 => {
                let parts: Vec<Value> = (0..n).map(|_| self.pick(element)).collect();
                self.b.emit_typed(Op::Construct, &parts, ty)
            }
            1 => {
                let n = self.rng.below(n) as u32;
                self.b.emit(Op::Extract(n), &[whole])
            }
            2 => {
                let x = self.pick(element);
                let n = self.rng.below(n) as u32;
                self.b.emit(Op::Insert(n), &[whole, x])
            }
            3 => {
                let i = self.index_value();
                self.b.emit(Op::Index, &[whole, i])
            }
            4 => {
                let stacks: Vec<Value> = self
                    .values
                    .iter()
                    .copied()
                    .filter(|&v| matches!(self.b.types[self.b.func.ty(v)], TypeData::Stack(_)))
                    .collect();
                let Some(&stack) = stacks.last() else { return };
                let i = self.index_value();
                self.b.emit(Op::Index, &[stack, i])
            }
            _ => {
                let x = self.pick(k.vector);
                self.b.emit(Op::Sum, &[x])
            }
        };
        self.add(v);
    }

    fn local(&mut self) {
        let k = self.kinds;
        let ty = [k.array, k.array, k.matrix, k.big, k.vector, Type::F32][self.rng.below(6)];
        let init = self.pick(ty);
        let cell = self.b.emit(Op::Local, &[init]);
        self.cells.push(cell);
    }

    fn access(&mut self) {
        if self.cells.is_empty() {
            return self.local();
        }
        let cell = self.cells[self.rng.below(self.cells.len())];
        let mut ty = self.b.types.content(self.b.func.ty(cell)).expect("a cell");
        let mut args = vec![cell];
        while let Some(element) = self.b.types.element(ty) {
            if self.rng.below(5) == 0 {
                break;
            }
            let i = if self.rng.below(3) > 0 {
                let n = self.rng.below(4) as u32;
                self.b.u32(n)
            } else {
                self.index_value()
            };
            args.push(i);
            ty = element;
        }
        match self.rng.below(5) {
            0 | 1 => {
                let v = self.b.emit(Op::Load, &args);
                self.add(v);
            }
            2 | 3 => {
                let x = self.pick(ty);
                args.push(x);
                self.b.effect(Op::Store, &args);
            }
            _ => {
                let x = self.pick(ty);
                args.push(x);
                self.b.effect(Op::AddTo, &args);
            }
        }
    }

    fn memory(&mut self) {
        let ty = self.b.types.buffer(self.buffer);
        let global = self.globals[self.rng.below(2)];
        let handle = self.b.emit_typed(Op::GlobalRef(global), &[], ty);
        let i = self.index_value();
        match self.rng.below(4) {
            1 if self.effects => {
                let x = self.pick(Type::F32);
                let handle = self.b.emit_typed(Op::GlobalRef(self.globals[1]), &[], ty);
                self.b.effect(Op::BufferStore(Path::default()), &[handle, i, x]);
            }
            2 if self.effects => {
                let x = self.pick(Type::F32);
                let handle = self.b.emit_typed(Op::GlobalRef(self.globals[1]), &[], ty);
                let v = self.b.emit_typed(
                    Op::Atomic(Path::default(), AtomicOp::Exchange),
                    &[handle, i, x],
                    Type::F32,
                );
                self.add(v);
            }
            3 if self.effects => {
                let x = self.pick(Type::I32);
                self.b.effect(Op::Printf("%d ".into()), &[x]);
            }
            _ => {
                let v = self.b.emit_typed(Op::BufferLoad(Path::default()), &[handle, i], Type::F32);
                self.add(v);
            }
        }
    }

    fn call(&mut self) {
        if self.callees.is_empty() {
            return self.float_op();
        }
        let (func, params, results) = self.callees[self.rng.below(self.callees.len())].clone();
        let args: Vec<Value> = params.iter().map(|p| self.pick(p.ty)).collect();
        let values = self.b.call_func(func, &results, &args);
        self.values.extend(values);
    }

    /// Runs `body` in a new region with parameters of these types and returns the region.
    fn nested(
        &mut self,
        params: &[Type],
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> ir::Region {
        let (values, cells) = (self.values.len(), self.cells.len());
        let region = self.b.open();
        let params: Vec<Value> = params.iter().map(|&ty| self.b.region_param(ty, false)).collect();
        self.values.extend(&params);
        let results = body(self, &params);
        self.b.close(results);
        self.values.truncate(values);
        self.cells.truncate(cells);
        region
    }

    fn some_types(&mut self) -> Vec<Type> {
        (0..self.rng.below(4)).map(|_| self.any_type()).collect()
    }

    fn arm(&mut self, depth: usize, types: &[Type]) -> ir::Region {
        self.nested(&[], |this, _| {
            if this.rng.below(4) > 0 {
                this.statements(depth + 1);
            }
            types.iter().map(|&ty| this.pick(ty)).collect()
        })
    }

    fn r#if(&mut self, depth: usize) {
        let types = self.some_types();
        let c = self.pick(Type::BOOL);
        let yes = self.arm(depth, &types);
        let no = self.arm(depth, &types);
        let results = self.b.nest(Op::If, &[c], &[yes, no]);
        self.values.extend(results);
    }

    fn switch(&mut self, depth: usize) {
        let types = self.some_types();
        let tag = self.pick(Type::I32);
        let n = self.rng.below(3);
        let arms: Vec<ir::Region> = (0..=n).map(|_| self.arm(depth, &types)).collect();
        let cases: Vec<i64> = (0..n as i64).collect();
        let results = self.b.nest(Op::Switch(cases.into()), &[tag], &arms);
        self.values.extend(results);
    }

    fn trip_count(&mut self) -> Value {
        if self.rng.below(3) > 0 {
            let n = self.rng.below(6) as u32;
            return self.b.u32(n);
        }
        let x = self.pick(Type::U32);
        let five = self.b.u32(5);
        self.b.emit(Op::Rem, &[x, five])
    }

    /// Emits memory accesses whose effects the next trip can see.
    fn end_of_body(&mut self) {
        for _ in 0..self.rng.below(3) {
            self.access();
        }
    }

    fn r#for(&mut self, depth: usize) {
        let n = self.trip_count();
        let carried = self.some_types();
        let stacked = if self.rng.below(2) == 0 { vec![Type::F32] } else { vec![] };
        let mut args = vec![n];
        for &ty in &carried {
            let v = self.pick(ty);
            args.push(v);
        }
        let mut params = vec![Type::U32];
        params.extend(&carried);
        let body = self.nested(&params, |this, _| {
            this.statements(depth + 1);
            this.end_of_body();
            carried.iter().chain(&stacked).map(|&ty| this.pick(ty)).collect()
        });
        let down = self.rng.below(4) == 0;
        let info = LoopInfo { unroll: self.rng.below(4) == 0, down, ..LoopInfo::default() };
        let results = self.b.nest(Op::For(info), &args, &[body]);
        self.values.extend(results);
    }

    fn r#loop(&mut self, depth: usize) {
        let carried = self.some_types();
        let zero = self.b.u32(0);
        let mut args = vec![zero];
        for &ty in &carried {
            let v = self.pick(ty);
            args.push(v);
        }
        let mut params = vec![Type::U32];
        params.extend(&carried);
        let end = self.rng.below(4) as u32;
        let stop_early = self.rng.below(2) == 0;
        let body = self.nested(&params, |this, params| {
            this.statements(depth + 1);
            this.end_of_body();
            let one = this.b.u32(1);
            let next = this.b.emit(Op::Add, &[params[0], one]);
            let end = this.b.u32(end);
            let mut again = this.b.emit(Op::Lt, &[next, end]);
            if stop_early {
                let c = this.pick(Type::BOOL);
                let no = this.b.bool(false);
                let yes_arm = this.nested(&[], |_, _| vec![again]);
                let no_arm = this.nested(&[], |_, _| vec![no]);
                again = this.b.nest(Op::If, &[c], &[yes_arm, no_arm])[0];
            }
            let mut results = vec![again, next];
            results.extend(carried.iter().map(|&ty| this.pick(ty)));
            results
        });
        let results = self.b.nest(Op::Loop(LoopInfo::default()), &args, &[body]);
        self.values.extend(results);
    }
}
