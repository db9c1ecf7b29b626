//! Wraps functions in kernels, so that the host can call them on any backend.
//!
//! Thread `t` of a kernel reads the arguments of call number `t`, calls the function and writes its results.
//! The numbers are stored in tables, one for each kind of number that memory holds on every device; a [`Row`]
//! describes their locations.

use ir::{
    Builder, Builtin, Defs, Entry, Func, Function, Global, GlobalData, Inst, LoopInfo, MemData, Module, Op,
    Path, Scalar, Slot, Space, Span, Type, TypeData, Types, Value, scalar,
};

/// The length from which arrays are read and written by loops.
const LOOP: u32 = 16;

/// The kind of number that holds a scalar in a table.
fn held(s: Scalar) -> Scalar {
    match s {
        Scalar::F16 | Scalar::F32 => Scalar::F32,
        Scalar::Bool | Scalar::U8 | Scalar::U16 | Scalar::U32 => Scalar::U32,
        Scalar::I8 | Scalar::I16 | Scalar::I32 => Scalar::I32,
        Scalar::F64 | Scalar::I64 | Scalar::U64 => s,
    }
}

/// Returns true if values of a type consist of numbers.
pub fn is_number(types: &Types, ty: Type) -> bool {
    types.scalar_of(ty).is_some() && !types.has_stack(ty)
}

/// Returns true if what a function gives may depend on the other threads of its wave. Calls of it are in groups of their own,
/// so that each is a wave by itself.
pub fn sees_wave(module: &Module, func: Func) -> bool {
    let reached = ir::analysis::reach(vec![func], |f| ir::walk::callees(&module.funcs[f]));
    reached.iter().any(|f| {
        let (src, mut found) = (&module.funcs[f], false);
        if src.has_body() {
            src.walk(src.body(), &mut |inst| {
                found |= matches!(src.insts[inst].op, Op::WaveGather | Op::WaveMultiply(_));
            });
        }
        found
    })
}

/// The bytes of the narrowest floats that a function rounds to, in itself or in a function that it calls.
pub(crate) fn narrowest(module: &Module, func: Func) -> Option<u32> {
    let mut least: Option<u32> = None;
    for f in ir::analysis::reach(vec![func], |f| ir::walk::callees(&module.funcs[f])).iter() {
        let src = &module.funcs[f];
        let defs = Defs::of(src);
        // Differentials begin as a sum with zero, which is exact.
        let is_zero = |v: &Value| match defs.op(src, *v) {
            Some(Op::Zero) => true,
            Some(&Op::Const(bits)) => {
                module.types.scalar_of(src.ty(*v)).is_some_and(|s| scalar::to_f64(s, bits) == 0.0)
            }
            _ => false,
        };
        let mut of_inst = |inst: Inst| {
            let data = &src.insts[inst];
            let of = match data.op {
                Op::Add if data.args.iter().any(is_zero) => None,
                Op::AddTo => data.args.last(),
                Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Scale | Op::Unscale | Op::Sum => {
                    data.results.first()
                }
                Op::Convert | Op::Math(_) => data.results.first(),
                _ => None,
            };
            let float = of.and_then(|&v| module.types.scalar_of(src.ty(v))).filter(|s| s.is_float());
            least = float.map(Scalar::bytes).into_iter().chain(least).min();
        };
        if src.has_body() {
            src.walk(src.body(), &mut of_inst);
        }
    }
    least
}

/// The distance from one part of a value to the next, in numbers.
#[derive(Clone, Copy, Debug)]
pub enum Stride {
    /// Known at compile time.
    Of(u32),
    /// Known at run time.
    At(Value),
}

/// The lengths of a numeric type, by dimension; empty for a scalar.
pub fn dims(types: &Types, ty: Type) -> Vec<u32> {
    match types[ty] {
        TypeData::Vector(_, n) => vec![n],
        TypeData::Array(t, n) => [vec![n], dims(types, t)].concat(),
        _ => Vec::new(),
    }
}

/// The strides of a value whose numbers follow each other at this distance.
pub fn dense(types: &Types, ty: Type, distance: u32) -> Vec<Stride> {
    let dims = dims(types, ty);
    (0..dims.len()).map(|k| Stride::Of(distance * dims[k + 1..].iter().product::<u32>())).collect()
}

/// The number of numbers in a value of a type.
pub(crate) fn count(types: &Types, ty: Type) -> u32 {
    match types[ty] {
        TypeData::Vector(_, n) => n,
        TypeData::Array(t, n) => n * count(types, t),
        _ => 1,
    }
}

/// The tables of a module's kernels, either for all arguments or for all results.
#[derive(Clone)]
pub(crate) struct Tables {
    name: &'static str,
    space: Space,
    /// One table for each kind of number that occurs.
    pub(crate) globals: Vec<(Scalar, Global)>,
}

impl Tables {
    /// Creates an empty set of tables, whose names will begin with `name`.
    pub(crate) fn new(name: &'static str, space: Space) -> Tables {
        Tables { name, space, globals: Vec::new() }
    }

    /// Each table's kind of number, the type of its elements, and its global.
    pub(crate) fn places(&self, module: &Module) -> Vec<(Scalar, (ir::MemType, Global))> {
        self.globals.iter().map(|&(kind, global)| (kind, (module.globals[global].ty, global))).collect()
    }

    /// The index of the table that holds a scalar; the table is created if necessary.
    pub(crate) fn add(&mut self, module: &mut Module, s: Scalar) -> usize {
        let kind = held(s);
        let found = self.globals.iter().position(|t| t.0 == kind);
        found.unwrap_or_else(|| {
            let ty = module.mem.intern(MemData::Scalar(kind));
            let name = format!("{}.{}", self.name, kind.name());
            let data = GlobalData { name, space: self.space, ty, init: None, span: Span::NONE };
            self.globals.push((kind, module.globals.push(data)));
            self.globals.len() - 1
        })
    }
}

/// The layout of the numbers of calls.
///
/// The calls of a group lie side by side: number `n` of all of them, then number `n + 1`. So threads that run side by side
/// read and write neighbours in memory, and what the host does with a number of all calls is in one place, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The binary logarithm of the number of calls of a group.
    group: u32,
    /// For each number: its scalar, its table, and its index among the call's numbers in that table.
    numbers: Vec<(Scalar, u16, u32)>,
    /// For each leaf: its table, and its index there.
    leaves: Vec<(usize, u32)>,
    /// The number of numbers per call, by table.
    sizes: Vec<u32>,
}

impl Row {
    /// The layout of slots that consist of numbers, for calls in groups of `group`, a power of two.
    pub(crate) fn new(module: &mut Module, tables: &mut Tables, slots: &[Slot], group: u32) -> Row {
        let mut row = Row { group: group.trailing_zeros(), ..Row::default() };
        for slot in slots {
            let s = module.types.scalar_of(slot.ty).unwrap_or(Scalar::U64);
            let table = tables.add(module, s);
            if row.sizes.len() <= table {
                row.sizes.resize(table + 1, 0);
            }
            let (at, n) = (row.sizes[table], count(&module.types, slot.ty));
            row.leaves.push((table, at));
            row.numbers.extend((at..at + n).map(|at| (s, table as u16, at)));
            row.sizes[table] += n;
        }
        row
    }

    /// The table of a leaf, and the leaf's index there; `None` if there is no such leaf.
    pub(crate) fn leaf(&self, n: usize) -> Option<(usize, u32)> {
        self.leaves.get(n).copied()
    }

    /// Where a number of a call is in its table, as an index.
    fn place(&self, call: usize, table: usize, at: u32) -> usize {
        let (group, size) = (self.group, self.sizes[table] as usize);
        ((call >> group) * size + at as usize) << group | call & ((1 << group) - 1)
    }

    /// Writes numbers of calls, each given by the call, its index among the call's numbers, and its bits, to the bytes of a
    /// table. Numbers that are in other tables are passed over.
    pub(crate) fn write(
        &self,
        tables: &Tables,
        table: usize,
        bytes: &mut [u8],
        numbers: impl IntoIterator<Item = (usize, usize, u64)>,
    ) {
        let kind = tables.globals[table].0;
        let width = kind.bytes() as usize;
        for (call, n, bits) in numbers {
            let (s, of, at) = self.numbers[n];
            if usize::from(of) != table {
                continue;
            }
            let bits = if s == kind { bits } else { scalar::convert(s, kind, bits) };
            let start = self.place(call, table, at) * width;
            match width {
                8 => bytes[start..start + 8].copy_from_slice(&bits.to_le_bytes()),
                _ => bytes[start..start + width].copy_from_slice(&bits.to_le_bytes()[..width]),
            }
        }
    }

    /// Reads number `n` of calls, as bits, from the bytes of all tables.
    pub(crate) fn read(&self, tables: &Tables, bytes: &[&[u8]], n: usize) -> impl Fn(usize) -> u64 {
        let (s, table, at) = self.numbers[n];
        let table = usize::from(table);
        let (kind, bytes) = (tables.globals[table].0, bytes[table]);
        let width = kind.bytes() as usize;
        move |call| {
            let start = self.place(call, table, at) * width;
            let bits = match bytes.get(start..start + width) {
                Some(&[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                Some(bytes) => crate::npy::from_le(bytes),
                None => 0,
            };
            if kind == s { bits } else { scalar::convert(kind, s, bits) }
        }
    }

    /// The number of numbers of a call.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The size of a table in bytes for `calls` calls.
    pub(crate) fn size(&self, tables: &Tables, table: usize, calls: usize) -> usize {
        let size = self.sizes.get(table).copied().unwrap_or(0) as usize;
        size * calls * tables.globals[table].0.bytes() as usize
    }
}

/// A kernel under construction.
pub struct Kernel<'a> {
    /// The builder of the kernel's instructions.
    pub b: Builder<'a>,
    /// The index of the thread.
    pub thread: Value,
    /// A factor applied to floats outside of arrays.
    pub scale: Option<Value>,
}

impl<'a> Kernel<'a> {
    /// Creates an empty kernel.
    pub fn new(types: &'a mut Types, name: String) -> Kernel<'a> {
        let mut b = Builder::new(types, name);
        let ty = b.types.vector(Scalar::U32, 3);
        let id = b.emit_typed(Op::Builtin(ir::Builtin::DispatchThreadId), &[], ty);
        let thread = b.emit(Op::Extract(0), &[id]);
        Kernel { b, thread, scale: None }
    }

    /// A table in the form of a handle, as operations on memory take it.
    pub fn table(&mut self, (mem, global): (ir::MemType, Global)) -> Value {
        let handle = self.b.types.buffer(mem);
        self.b.emit_typed(Op::GlobalRef(global), &[], handle)
    }

    /// `base + n`.
    fn plus(&mut self, base: Value, n: u32) -> Value {
        if n == 0 {
            return base;
        }
        let n = self.b.u32(n);
        self.b.emit(Op::Add, &[base, n])
    }

    /// The index in a table of number `at` of this thread's call, of groups of `group` threads; a call has `size` numbers in
    /// the table. See [`Row`].
    fn first(&mut self, group: u32, size: u32, at: u32) -> Value {
        let ty = self.b.types.vector(Scalar::U32, 3);
        let [of, lane] = [Builtin::GroupId, Builtin::GroupThreadId].map(|id| {
            let id = self.b.emit_typed(Op::Builtin(id), &[], ty);
            self.b.emit(Op::Extract(0), &[id])
        });
        let size = self.b.u32(size * group);
        let begin = self.b.emit(Op::Mul, &[of, size]);
        let begin = self.plus(begin, at * group);
        self.b.emit(Op::Add, &[begin, lane])
    }

    /// The index of part `k` of a value that begins at `at`.
    fn part(&mut self, at: Value, k: u32, stride: Stride) -> Value {
        match stride {
            Stride::Of(n) => self.plus(at, k * n),
            Stride::At(_) if k == 0 => at,
            Stride::At(stride) => {
                let k = self.b.u32(k);
                let by = self.b.emit(Op::Mul, &[stride, k]);
                self.b.emit(Op::Add, &[at, by])
            }
        }
    }

    /// Reads a value whose first number is at index `at` of a table of numbers of type `kind`. `strides`
    /// gives the distance between its parts, by dimension.
    pub fn read(&mut self, ty: Type, kind: Scalar, table: Value, at: Value, strides: &[Stride]) -> Value {
        let (Some(&stride), inner) = (strides.first(), strides.get(1..).unwrap_or_default()) else {
            return self.read_number(ty, kind, table, at);
        };
        let (part, n) = match self.b.types[ty] {
            TypeData::Vector(s, n) => (s.into(), n),
            TypeData::Array(t, n) => (t, n),
            _ => return self.b.zero(ty),
        };
        if n > LOOP {
            let empty = self.b.zero(ty);
            let cell = self.b.emit(Op::Local, &[empty]);
            self.each(n, stride, at, |kernel, i, at| {
                let x = kernel.read(part, kind, table, at, inner);
                kernel.b.effect(Op::Store, &[cell, i, x]);
            });
            return self.b.emit(Op::Load, &[cell]);
        }
        let parts: Vec<Value> = (0..n)
            .map(|k| {
                let at = self.part(at, k, stride);
                self.read(part, kind, table, at, inner)
            })
            .collect();
        self.b.emit_typed(Op::Construct, &parts, ty)
    }

    fn read_number(&mut self, ty: Type, kind: Scalar, table: Value, at: Value) -> Value {
        let TypeData::Scalar(s) = self.b.types[ty] else { return self.b.zero(ty) };
        let x = self.b.emit_typed(Op::BufferLoad(Path::default()), &[table, at], kind.into());
        let x = match self.scale.filter(|_| s.is_float()) {
            Some(scale) => {
                let scale = self.convert(scale, kind);
                self.b.emit(Op::Mul, &[x, scale])
            }
            None => x,
        };
        self.convert(x, s)
    }

    /// Emits a loop over the parts of a value that begins at `at`; `element` receives the index and the
    /// location of each part.
    fn each(&mut self, n: u32, stride: Stride, at: Value, element: impl FnOnce(&mut Self, Value, Value)) {
        let trips = self.b.u32(n);
        let body = self.b.open();
        let i = self.b.region_param(Type::U32);
        let stride = match stride {
            Stride::Of(n) => self.b.u32(n),
            Stride::At(stride) => stride,
        };
        let offset = self.b.emit(Op::Mul, &[i, stride]);
        let at = self.b.emit(Op::Add, &[at, offset]);
        element(self, i, at);
        self.b.close(Vec::new());
        self.b.nest(Op::For(LoopInfo::default()), &[trips], &[body]);
    }

    /// Writes a value's numbers where [`Self::read`] would find them; `put` writes each number at its index.
    pub fn write(
        &mut self,
        v: Value,
        at: Value,
        strides: &[Stride],
        put: &mut dyn FnMut(&mut Self, Value, Value),
    ) {
        let (Some(&stride), inner) = (strides.first(), strides.get(1..).unwrap_or_default()) else {
            return put(self, at, v);
        };
        match self.b.types[self.b.func.ty(v)] {
            TypeData::Vector(_, n) | TypeData::Array(_, n) if n <= LOOP => {
                for k in 0..n {
                    let part = self.b.emit(Op::Extract(k), &[v]);
                    let at = self.part(at, k, stride);
                    self.write(part, at, inner, put);
                }
            }
            TypeData::Vector(_, n) | TypeData::Array(_, n) => {
                self.each(n, stride, at, |kernel, i, at| {
                    let part = kernel.b.emit(Op::Index, &[v, i]);
                    kernel.write(part, at, inner, put);
                });
            }
            _ => {}
        }
    }

    /// Stores a number in a table of numbers of type `kind`.
    pub fn store(&mut self, kind: Scalar, table: Value, at: Value, x: Value) {
        let x = self.convert(x, kind);
        self.b.effect(Op::BufferStore(Path::default()), &[table, at, x]);
    }

    /// Converts a number to another scalar type.
    pub fn convert(&mut self, x: Value, to: Scalar) -> Value {
        if self.b.func.ty(x) == to.into() { x } else { self.b.emit_typed(Op::Convert, &[x], to.into()) }
    }
}

/// A function wrapped as an entry point of its module.
#[derive(Clone, Debug)]
pub(crate) struct Wrapped {
    /// The index of the entry point.
    pub(crate) entry: usize,
    /// The layout of the arguments that all calls share, of which there is one row.
    pub(crate) shared: Row,
    /// The layout of the other arguments, of which there is a row for each call.
    pub(crate) args: Row,
    /// The layout of its results.
    pub(crate) results: Row,
}

/// Adds an entry point with groups of `group` threads that calls a function of numbers. All calls share the first `shared`
/// parameters: what is computed from them alone is the same for threads that run side by side, and is computed once.
pub(crate) fn wrap(
    module: &mut Module,
    func: Func,
    shared: usize,
    [common, inputs, outputs]: [&mut Tables; 3],
    group: u32,
) -> Wrapped {
    let Function { params, results, name, .. } = module.funcs[func].clone();
    let (same, own) = params.split_at(shared.min(params.len()));
    let (shared_row, args_row) = (Row::new(module, common, same, 1), Row::new(module, inputs, own, group));
    let results_row = Row::new(module, outputs, &results, group);
    let entry = module.entries.len();
    let (common, inputs, outputs) = (common.places(module), inputs.places(module), outputs.places(module));
    let mut k = Kernel::new(&mut module.types, format!("call of {name}"));
    let mut args = Vec::new();
    for (slot, &(table, at)) in same.iter().zip(&shared_row.leaves) {
        let (kind, place) = common[table];
        let handle = k.table(place);
        let at = k.b.u32(at);
        let strides = dense(k.b.types, slot.ty, 1);
        args.push(k.read(slot.ty, kind, handle, at, &strides));
    }
    for (slot, &(table, at)) in own.iter().zip(&args_row.leaves) {
        let (kind, place) = inputs[table];
        let handle = k.table(place);
        let at = k.first(group, args_row.sizes[table], at);
        let strides = dense(k.b.types, slot.ty, group);
        args.push(k.read(slot.ty, kind, handle, at, &strides));
    }
    let values = k.b.call_func(func, &results, &args);
    for (v, &(table, at)) in values.into_iter().zip(&results_row.leaves) {
        let (kind, place) = outputs[table];
        let handle = k.table(place);
        let at = k.first(group, results_row.sizes[table], at);
        let strides = dense(k.b.types, k.b.func.ty(v), group);
        k.write(v, at, &strides, &mut |k, at, x| k.store(kind, handle, at, x));
    }
    let kernel = k.b.finish(Vec::new(), Vec::new());
    let kernel = module.funcs.push(kernel);
    module.entries.push(Entry::kernel(format!("call.{entry}"), kernel, [group, 1, 1]));
    Wrapped { entry, shared: shared_row, args: args_row, results: results_row }
}
