//! Emits functions: a region becomes a block, a value becomes an expression, and results of regions become
//! local variables.
//!
//! A value is held as an expression, or as the place of a variable that is not written while the value is
//! alive. An array that is indexed at run time or carried by a loop is therefore not copied. A cell is a
//! variable.

mod aggregate;
mod arithmetic;
mod cells;
mod control;
mod convert;
mod copies;
mod functions;
mod loops;
mod shared;
pub(crate) mod stages;
mod waves;
mod world;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::flow::{Direction, Flow};
use ir::analysis::{Use, lasting};
use ir::{Builtin, Class, Function, Inst, InstData, Op, Region, Scalar, Span, Type, TypeData, Types, Value};
use naga::{Block, Handle, ScalarKind};
use rustc_hash::FxHashMap;

use crate::bounds::Bounds;
use crate::build::{Code, Expr};
use crate::module::Cx;
use crate::plan::{Arg, Base};
use crate::{LARGEST_PRIVATE, Unsupported};

pub(crate) type Res<T = ()> = Result<T, Unsupported>;

/// An index outside of all memory, in either direction.
pub(crate) const FAR: u32 = 1 << 31;

/// A handle of a buffer: the buffers that it may refer to, and the numbers that select one and a place in it.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// The memory that the handle may refer to.
    pub(crate) bases: Vec<Base>,
    /// The index into `bases`, if there are several.
    pub(crate) which: Option<Expr>,
    /// The offset from the beginning: in bytes if the memory is words, otherwise in elements.
    pub(crate) at: Option<Expr>,
}

/// The representation of a value.
#[derive(Clone, Debug, Default)]
pub(crate) enum Held {
    /// The value has not been emitted.
    #[default]
    Nothing,
    /// An expression.
    Expr(Expr),
    /// A variable that is not written while the value is alive.
    Place(Expr),
    /// An array in an array that is held as a place, if it is only indexed.
    Row(Row),
    /// A cell's variable.
    Cell(Expr),
    /// A handle.
    Buffer(Buffer),
    /// An array of handles.
    Buffers(Vec<Buffer>),
}

/// An element, itself an array, of an array that is held as a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Where it is.
    place: Expr,
    /// False where an index is out of range, and the element therefore zero.
    inside: Option<Expr>,
    /// The array that it is in.
    of: Value,
}

/// Emits one instance of a function.
pub(crate) struct Emitter<'a, 'm> {
    pub(crate) cx: &'a mut Cx<'m>,
    pub(crate) code: Code,
    pub(crate) f: &'m Function,
    pub(crate) types: &'m Types,
    pub(crate) bounds: Bounds<'m>,
    /// Indexing operations on stacks that are known to be in range.
    pub(crate) inside: cranelift_entity::EntitySet<Value>,
    /// The number of the instance.
    instance: usize,
    values: SecondaryMap<Value, Held>,
    /// The number of uses of each value.
    uses: SecondaryMap<Value, u32>,
    /// Results that the arm around them yields unchanged: see [`control`].
    chains: FxHashMap<Value, (Inst, usize)>,
    /// The variables of such results while their `if` or `switch` is being emitted.
    shared: FxHashMap<Value, Expr>,
    /// The default values of variables, which the arms of a chain need not assign.
    defaults: FxHashMap<Expr, Value>,
    /// Arrays that are indexed at run time.
    indexed: EntitySet<Value>,
    /// The number of times that each array is indexed.
    reads: SecondaryMap<Value, u32>,
    /// Values loaded from cells that are not written afterwards.
    pub(crate) lasting: EntitySet<Value>,
    /// The built-in inputs that the function takes as parameters.
    builtins: Vec<(Builtin, Expr)>,
    /// The number of groups of the dispatch, if the entry point takes it.
    group_counts: Option<Expr>,
    /// The loops around the instruction that is being emitted, by their numbers, and the number of loops so far.
    loops: (Vec<u32>, u32),
    /// The number of times that each array has been indexed so far.
    read: SecondaryMap<Value, u32>,
    /// The variables of arrays that are only indexed.
    temporaries: Vec<Temporary<Expr>>,
    /// The group-shared arrays of values of lanes; their types are those of a lane's value.
    gathered: Vec<Temporary<Handle<naga::GlobalVariable>>>,
    /// 64-bit integers whose low half suffices.
    narrow: EntitySet<Value>,
    /// Floats widened only to be printed: the unwidened values are printed.
    printed: EntitySet<Value>,
    pub(crate) role: Role,
}

/// The variable of an array that is only indexed.
#[derive(Clone, Copy)]
struct Temporary<Place> {
    ty: Handle<naga::Type>,
    place: Place,
    /// The array that it holds, and the innermost loop around that.
    owner: Value,
    within: Option<u32>,
}

/// The role of a function for the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing: it is called by others.
    Function,
    /// A kernel with thread groups of this size.
    Kernel([u32; 3]),
    /// The entry point of a stage.
    Stage(ir::pipeline::Stage),
}

impl<'a, 'm> Emitter<'a, 'm> {
    pub(crate) fn new(cx: &'a mut Cx<'m>, instance: usize, f: &'m Function, code: Code) -> Emitter<'a, 'm> {
        let types = &cx.ir.types;
        let bounds = Bounds::new(types, f, cx.group);
        let (mut indexed, mut reads) = (EntitySet::new(), SecondaryMap::<Value, u32>::new());
        if f.has_body() {
            f.walk(f.body(), &mut |inst| {
                let data = &f.insts[inst];
                if data.op == Op::Index {
                    reads[data.args[0]] += 1;
                    if bounds.constant(data.args[1]).is_none() {
                        indexed.insert(data.args[0]);
                    }
                }
            });
        }
        let uses = ir::walk::use_counts(f);
        let (narrow, printed) = (narrow_values(types, f), printed_only(types, f, &bounds));
        Emitter {
            cx,
            code,
            f,
            types,
            bounds,
            inside: ir::analysis::reads_in_range(types, f),
            instance,
            values: SecondaryMap::new(),
            chains: control::chains(f, &uses),
            uses,
            shared: FxHashMap::default(),
            defaults: FxHashMap::default(),
            indexed,
            reads,
            lasting: lasting(f),
            builtins: Vec::new(),
            group_counts: None,
            loops: (Vec::new(), 0),
            read: SecondaryMap::new(),
            temporaries: Vec::new(),
            gathered: Vec::new(),
            narrow,
            printed,
            role: Role::Function,
        }
    }

    // ---- values

    /// The expression that holds a value.
    pub(crate) fn get(&mut self, v: Value) -> Expr {
        match self.values[v] {
            Held::Expr(e) => e,
            Held::Place(place) => self.code.load(place),
            // The verifier rejects uses of undefined values.
            _ => self.code.u32(0),
        }
    }

    /// Binds a value to an expression; an array that is indexed is stored to a variable.
    pub(crate) fn set(&mut self, v: Value, e: Expr) -> Res {
        if let Some(name) = &self.f.values[v].name {
            self.code.name(e, &crate::names::plain(name));
        }
        if self.indexed.contains(v) && self.is_array(self.f.ty(v)) {
            if let Some(table) = self.table(v, e) {
                self.values[v] = Held::Place(table);
                return Ok(());
            }
            let place = self.temporary(v)?;
            self.store_expr(place, e)?;
            self.values[v] = Held::Place(place);
        } else {
            self.values[v] = Held::Expr(e);
        }
        Ok(())
    }

    /// A variable for an array. For a driver that is slow for each variable, arrays that are only indexed share
    /// one: it can hold another array once all that indexes the former one has been emitted, and no loop around that
    /// is still open that the former array is not in, too, whose next trip would index it again.
    pub(crate) fn temporary(&mut self, v: Value) -> Res<Expr> {
        if !self.cx.options.inlines_slowly || self.reads[v] < self.uses[v] {
            return self.variable(v, self.f.ty(v));
        }
        let ty = self.naga_type(v, self.f.span)?;
        if let Some(k) = self.free_temporary(&self.temporaries, ty) {
            self.temporaries[k] = self.temporary_of(v, ty, self.temporaries[k].place);
            return Ok(self.temporaries[k].place);
        }
        let place = self.variable(v, self.f.ty(v))?;
        let made = self.temporary_of(v, ty, place);
        self.temporaries.push(made);
        Ok(place)
    }

    /// The number of a variable of a type that can hold another array.
    fn free_temporary<P>(&self, all: &[Temporary<P>], ty: Handle<naga::Type>) -> Option<usize> {
        let (open, within) = (&self.loops.0, self.loops.0.last().copied());
        all.iter().position(|t| {
            let is_closed = t.within.is_some_and(|number| !open.contains(&number));
            t.ty == ty && self.read[t.owner] == self.uses[t.owner] && (t.within == within || is_closed)
        })
    }

    fn temporary_of<P>(&self, owner: Value, ty: Handle<naga::Type>, place: P) -> Temporary<P> {
        Temporary { ty, place, owner, within: self.loops.0.last().copied() }
    }

    /// Emits the body of a loop.
    fn in_loop(&mut self, body: impl FnOnce(&mut Self) -> Res) -> Res {
        self.loops.1 += 1;
        self.loops.0.push(self.loops.1);
        body(self)?;
        self.loops.0.pop();
        Ok(())
    }

    /// A new variable of a type, named and sized after a value.
    pub(crate) fn variable(&mut self, v: Value, ty: Type) -> Res<Expr> {
        let shape = self.shape(v);
        let naga_ty = self.cx.value_type(ty, &shape, self.f.span)?;
        let name = match self.bounds.name(v) {
            Some(name) => crate::names::plain(&name),
            None => match self.types[ty] {
                TypeData::Stack(_) => "kept".into(),
                _ if matches!(self.types[self.f.ty(v)], TypeData::Cell(_)) => "cell".into(),
                TypeData::Scalar(Scalar::Bool) => "flag".into(),
                TypeData::Scalar(s) if s.is_int() => "n".into(),
                _ => "x".into(),
            },
        };
        // HLSL does not provide the number of groups, so a thread cannot compute its number in the dispatch.
        let hlsl = self.cx.options.target == crate::Target::Hlsl;
        let most = if hlsl { 4 * LARGEST_PRIVATE } else { LARGEST_PRIVATE };
        let bytes = self.cx.natural(naga_ty).0 as u64;
        if bytes > most || self.cx.prefers_scratch(naga_ty, bytes) {
            return self.scratch(&name, naga_ty);
        }
        // The variables of a function that does not call itself are not in use when it is called, so all copies of it can
        // have the same ones.
        if self.cx.options.inlines_slowly && self.role == Role::Function && self.is_large(naga_ty) {
            let var = self.cx.private(&name, naga_ty, None);
            let place = self.code.expr(naga::Expression::GlobalVariable(var));
            self.code.is_variable(place, naga_ty);
            return Ok(place);
        }
        Ok(self.code.local(&name, naga_ty))
    }

    /// A constant array that is only indexed, as a variable of the module that nothing writes, so that it is not
    /// written again wherever it is used. In HLSL, naga writes such a variable's value by a function that calls itself.
    fn table(&mut self, v: Value, e: Expr) -> Option<Expr> {
        if self.reads[v] < self.uses[v] || self.cx.options.target == crate::Target::Hlsl {
            return None;
        }
        let init = self.code.constant(e, &mut self.cx.out.global_expressions)?;
        let ty = self.cx.value_type(self.f.ty(v), &[], self.f.span).ok()?;
        if self.cx.natural(ty).0 as u64 > self.cx.options.most_private {
            return None;
        }
        let var = self.cx.private("table", ty, Some(init));
        Some(self.code.expr(naga::Expression::GlobalVariable(var)))
    }

    /// The thread's own copy of a variable that is placed in storage.
    fn scratch(&mut self, name: &str, ty: Handle<naga::Type>) -> Res<Expr> {
        let span = self.f.span;
        if self.cx.ir.entries.is_empty() {
            return self.refuse("a large array outside of entry points", "there are no threads", span);
        }
        if self.cx.has_bool(ty) {
            return self.refuse("a large array of `bool`", "storage has none", span);
        }
        if self.cx.options.target == crate::Target::Hlsl {
            return self.refuse("a large array", "it does not say how many groups there are", span);
        }
        let var = self.cx.scratch(name, ty);
        let slot = self.cx.slot_number();
        let slot = self.code.expr(naga::Expression::GlobalVariable(slot));
        let slot = self.code.load(slot);
        let all = self.code.expr(naga::Expression::GlobalVariable(var));
        let place = self.code.expr(naga::Expression::Access { base: all, index: slot });
        self.code.is_variable(place, ty);
        Ok(place)
    }

    /// The shape of the stack that a value is.
    pub(crate) fn shape(&self, v: Value) -> Vec<u32> {
        match self.cx.plan.instances[self.instance].values.get(&v) {
            Some(Arg::Stack(shape)) => shape.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns true if values of the type are arrays in naga.
    pub(crate) fn is_array(&self, ty: Type) -> bool {
        match self.types[ty] {
            TypeData::Array(..) => true,
            TypeData::Vector(_, n) => n > 4,
            _ => false,
        }
    }

    pub(crate) fn ty(&self, v: Value) -> Type {
        self.f.ty(v)
    }

    /// The kind of number that a value consists of.
    pub(crate) fn scalar(&self, v: Value) -> Scalar {
        self.types.scalar_of(self.f.ty(v)).unwrap_or(Scalar::U32)
    }

    /// The number of lanes of a scalar or vector.
    pub(crate) fn lanes(&self, ty: Type) -> u32 {
        self.types.lanes(ty).unwrap_or(1).max(1)
    }

    /// The naga type of `n` numbers of a kind.
    pub(crate) fn lanes_type(&mut self, s: Scalar, n: u32, span: Span) -> Res<Handle<naga::Type>> {
        self.cx.check_scalar(s, span)?;
        Ok(self.cx.lanes_type(s, n))
    }

    /// The naga type of a value.
    pub(crate) fn naga_type(&mut self, v: Value, span: Span) -> Res<Handle<naga::Type>> {
        let shape = self.shape(v);
        self.cx.value_type(self.f.ty(v), &shape, span)
    }

    pub(crate) fn refuse<T>(&self, what: impl Into<String>, why: impl Into<String>, span: Span) -> Res<T> {
        Err(self.cx.refuse(what, why, span))
    }

    /// An integer as a 32-bit index, which wraps if it is negative. An index that does not fit in 31 bits
    /// becomes [`FAR`], so that its sum with a pointer's offset is never in range.
    pub(crate) fn index(&mut self, v: Value) -> Expr {
        if let Some(n) = self.bounds.constant(v) {
            return self.code.u32(i32::try_from(n).map_or(FAR, i32::cast_unsigned));
        }
        let s = self.scalar(v);
        if s.bits() == 64
            && let Some(def) = self.bounds.def(v)
            && let Some(from) = widened(self.types, self.f, &self.f.insts[def])
        {
            return self.index(from);
        }
        let e = self.get(v);
        match s {
            Scalar::U8 | Scalar::U16 | Scalar::U32 => e,
            Scalar::I64 | Scalar::U64 => {
                use naga::BinaryOperator as Bin;
                let wide = if s == Scalar::I64 { self.code.convert(e, ScalarKind::Uint, None) } else { e };
                let half = self.code.literal(naga::Literal::U64(u64::from(FAR)));
                let all = self.code.literal(naga::Literal::U64(2 * u64::from(FAR)));
                let moved = self.code.binary(Bin::Add, wide, half);
                let near = self.code.binary(Bin::Less, moved, all);
                let low = self.code.convert(wide, ScalarKind::Uint, Some(4));
                let far = self.code.u32(FAR);
                self.code.select(near, low, far)
            }
            _ => self.code.convert(e, ScalarKind::Uint, Some(4)),
        }
    }

    /// The low 32 bits of an integer.
    pub(crate) fn low(&mut self, v: Value) -> Expr {
        if self.narrow.contains(v) {
            let Held::Expr(e) = self.values[v] else { return self.code.u32(0) };
            return e;
        }
        let e = self.get(v);
        match self.scalar(v) {
            Scalar::U8 | Scalar::U16 | Scalar::U32 => e,
            _ => self.code.convert(e, ScalarKind::Uint, Some(4)),
        }
    }

    /// Returns true if only the low half of a 64-bit integer is held.
    pub(crate) fn is_narrow(&self, v: Value) -> bool {
        self.narrow.contains(v)
    }

    /// The number of elements of an array or vector.
    pub(crate) fn length(&self, ty: Type) -> u32 {
        self.types.length(ty).unwrap_or(1)
    }

    /// A vector of type `ty`, each of whose lanes is made of the same lane of other vectors; for one lane, numbers
    /// make a number.
    pub(crate) fn by_lane(
        &mut self,
        ty: Handle<naga::Type>,
        n: u32,
        vectors: &[Expr],
        mut one: impl FnMut(&mut Self, &[Expr]) -> Res<Expr>,
    ) -> Res<Expr> {
        if n == 1 {
            return one(self, vectors);
        }
        let mut lanes = Vec::new();
        for k in 0..n {
            let parts: Vec<Expr> = vectors.iter().map(|&v| self.code.part(v, k)).collect();
            lanes.push(one(self, &parts)?);
        }
        Ok(self.code.compose(ty, lanes))
    }

    // ---- blocks

    /// Emits a region into a new block, followed by the code that `after` adds.
    pub(crate) fn block(&mut self, region: Region, after: impl FnOnce(&mut Self) -> Res) -> Res<Block> {
        self.scoped(|e| {
            e.region(region)?;
            after(e)
        })
    }

    /// Emits a block.
    pub(crate) fn scoped(&mut self, body: impl FnOnce(&mut Self) -> Res) -> Res<Block> {
        let before = self.code.enter();
        body(self)?;
        Ok(self.code.close(before))
    }

    /// `if condition { body }`; a block if there is no condition.
    pub(crate) fn when(&mut self, condition: Option<Expr>, body: impl FnOnce(&mut Self) -> Res) -> Res {
        let body = self.scoped(body)?;
        match condition {
            Some(condition) => self.code.if_else(condition, body, Block::new()),
            None => self.code.push(naga::Statement::Block(body)),
        }
        Ok(())
    }

    /// `if condition { accept } else { reject }`
    pub(crate) fn either(
        &mut self,
        condition: Expr,
        accept: impl FnOnce(&mut Self) -> Res,
        reject: impl FnOnce(&mut Self) -> Res,
    ) -> Res {
        let (accept, reject) = (self.scoped(accept)?, self.scoped(reject)?);
        self.code.if_else(condition, accept, reject);
        Ok(())
    }

    /// Emits the instructions of a region.
    pub(crate) fn region(&mut self, region: Region) -> Res {
        for &inst in &self.f.regions[region].insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    pub(crate) fn inst(&mut self, inst: Inst) -> Res {
        let data: &'m InstData = &self.f.insts[inst];
        if let Some(&v) = data.results.first()
            && self.narrow.contains(v)
        {
            return self.narrow_inst(data);
        }
        if data.results.iter().any(|&v| self.printed.contains(v)) {
            return Ok(());
        }
        match &data.op {
            Op::WaveGather => self.wave_gather(inst),
            Op::Call(_) => self.call(inst),
            Op::If => self.if_op(data),
            Op::Switch(_) => self.switch_op(data),
            Op::For(info) => self.for_op(inst, *info),
            Op::Loop(info) => self.loop_op(inst, *info),
            Op::Convert | Op::Bitcast => self.conversion(data),
            Op::Sum => self.arithmetic(data),
            op => match op.spec().class {
                Class::Number => self.arithmetic(data),
                Class::Aggregate => self.aggregate(data),
                Class::Cell => self.cell(data),
                Class::World => self.world(data),
                Class::Differential | Class::Call | Class::Control => {
                    self.refuse("a derivative that was not made", "there is an operator left", data.span)
                }
            },
        }
    }

    /// Emits the low half of a 64-bit integer operation, in 32 bits.
    fn narrow_inst(&mut self, data: &'m InstData) -> Res {
        use naga::BinaryOperator as Bin;
        let result = data.results[0];
        let arg = |e: &mut Self, k: usize| e.low(data.args[k]);
        let made = match data.op {
            Op::Const(bits) => self.code.u32(bits as u32),
            Op::Zero => self.code.u32(0),
            Op::Convert | Op::Bitcast | Op::Detach => arg(self, 0),
            Op::Neg => {
                let (zero, x) = (self.code.u32(0), arg(self, 0));
                self.code.binary(Bin::Subtract, zero, x)
            }
            _ => {
                let op = match data.op {
                    Op::Sub => Bin::Subtract,
                    Op::Mul => Bin::Multiply,
                    _ => Bin::Add,
                };
                let (a, b) = (arg(self, 0), arg(self, 1));
                self.code.binary(op, a, b)
            }
        };
        self.values[result] = Held::Expr(made);
        Ok(())
    }
}

/// The 64-bit integers whose low half suffices: they only move handles, serve as indices, or are narrowed.
fn narrow_values(types: &Types, f: &Function) -> EntitySet<Value> {
    let mut narrow = EntitySet::new();
    if !f.has_body() {
        return narrow;
    }
    let is_wide = |v: Value| matches!(types[f.ty(v)], TypeData::Scalar(Scalar::I64 | Scalar::U64));
    let defs = ir::Defs::of(f);
    let is_simple = |data: &InstData| {
        let is_op = match data.op {
            Op::Const(_) | Op::Zero | Op::Add | Op::Sub | Op::Mul | Op::Neg | Op::Detach => true,
            Op::Convert | Op::Bitcast => types.scalar_of(f.ty(data.args[0])).is_some_and(Scalar::is_int),
            _ => false,
        };
        is_op && is_wide(data.results[0])
    };
    let is_candidate = |v: Value| defs.inst(v).is_some_and(|def| is_simple(&f.insts[def]));
    // Returns true if an instruction needs the low half of an operand only.
    let narrows = |data: &InstData, k: usize| match &data.op {
        Op::BufferOffset | Op::BufferCast(_) => k == 1,
        Op::BufferLoad(_) | Op::BufferStore(_) | Op::Atomic(..) | Op::Index | Op::Load => {
            let values = match &data.op {
                Op::BufferStore(_) => 1,
                Op::Atomic(_, op) => op.n_values(),
                _ => 0,
            };
            (1..data.args.len() - values).contains(&k)
                && defs.inst(data.args[k]).is_some_and(|def| widened(types, f, &f.insts[def]).is_some())
        }
        // A conversion to 32 bits or fewer.
        Op::Convert => match types[f.ty(data.results[0])] {
            TypeData::Scalar(s) => s.is_int() && s.bits() <= 32,
            _ => false,
        },
        _ => false,
    };
    // The values of which all bits are needed.
    let mut full = Flow::new(f, &is_wide);
    f.regions.values().flat_map(|region| &region.results).for_each(|&v| full.join(v, &true));
    full.settle(Direction::Backward, &mut |full, inst| {
        let data = &f.insts[inst];
        for (_, &arg) in data.args.iter().enumerate().filter(|(k, a)| is_wide(**a) && !narrows(data, *k)) {
            match is_simple(data) {
                true => {
                    // An operand that cannot be narrow itself makes its user wide.
                    full.join(data.results[0], &!is_candidate(arg));
                    full.copy(data.results[0], arg);
                }
                false => full.join(arg, &true),
            }
        }
    });
    narrow.extend(f.values.keys().filter(|&v| is_candidate(v) && !*full.get(v)));
    narrow
}

/// The numbers that are widened only to be printed.
fn printed_only(types: &Types, f: &Function, bounds: &Bounds<'_>) -> EntitySet<Value> {
    let mut printed = EntitySet::new();
    let is_printed =
        |at: &Use| matches!(*at, Use::Operand(user, _) if matches!(f.insts[user].op, Op::Printf(_)));
    for data in f.insts.values() {
        let Some(&v) = data.results.first() else { continue };
        let to = types.scalar_of(f.ty(v));
        let is_widened = data.op == Op::Convert
            && matches!(types[f.ty(v)], TypeData::Scalar(_))
            && types.scalar_of(f.ty(data.args[0])).zip(to).is_some_and(|(from, to)| {
                from.bits() <= 32
                    && to.bits() == 64
                    && from != Scalar::Bool
                    && from.is_float() == to.is_float()
            });
        // A constant that can be represented in 32 bits as well.
        let constant = constant_bits(types, f, data).and_then(|bits| printed_constant(to, bits));
        if (is_widened || constant.is_some()) && bounds.uses(v).iter().all(is_printed) {
            printed.insert(v);
        }
    }
    printed
}

/// The bits of a constant number.
fn constant_bits(types: &Types, f: &Function, data: &InstData) -> Option<u64> {
    match data.op {
        Op::Const(bits) => Some(bits),
        Op::Zero if matches!(types[f.ty(data.results[0])], TypeData::Scalar(_)) => Some(0),
        _ => None,
    }
}

/// A 64-bit constant as a 32-bit constant, if the conversion is exact.
fn printed_constant(s: Option<Scalar>, bits: u64) -> Option<(Scalar, u64)> {
    let narrow = match s? {
        Scalar::F64 => Scalar::F32,
        Scalar::I64 => Scalar::I32,
        Scalar::U64 => Scalar::U32,
        _ => return None,
    };
    let small = ir::scalar::convert(s?, narrow, bits);
    (ir::scalar::convert(narrow, s?, small) == bits).then_some((narrow, small))
}

/// The integer of up to 32 bits that an instruction converts.
fn widened(types: &Types, f: &Function, data: &InstData) -> Option<Value> {
    let from = types.scalar_of(f.ty(*data.args.first()?))?;
    (data.op == Op::Convert && from.is_int() && from.bits() <= 32).then_some(data.args[0])
}
