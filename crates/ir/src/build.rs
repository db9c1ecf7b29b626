//! Builds a function by appending instructions and by opening and closing regions.
//!
//! Result types follow from operands ([`infer`]) where they can; [`Builder::emit_typed`] is for ops whose
//! result type is a choice (`const`, `zero`, `convert`, …).

use smallvec::SmallVec;

use crate::entities::{Func, Inst, Region, Value};
use crate::function::{Function, InstData, RegionData, Slot, Span, ValueData};
use crate::module::Module;
use crate::ops::{Math, Op};
use crate::spec::Typing;
use crate::types::{Scalar, Type, TypeData, Types};

/// Appends instructions to the innermost open region.
pub struct Builder<'a> {
    /// The interner of the module that the function will join.
    pub types: &'a mut Types,
    /// The function so far.
    pub func: Function,
    /// The span given to each instruction that is emitted.
    pub span: Span,
    open: Vec<Region>,
}

impl<'a> Builder<'a> {
    /// Starts a function without parameters, its body open.
    pub fn new(types: &'a mut Types, name: impl Into<String>) -> Builder<'a> {
        let mut func = Function { name: name.into(), ..Function::default() };
        let body = func.regions.push(RegionData::default());
        Builder { types, func, span: Span::NONE, open: vec![body] }
    }

    /// Goes on with a function; no region of it is open.
    pub fn resume(types: &'a mut Types, func: Function) -> Builder<'a> {
        Builder { types, func, span: Span::NONE, open: Vec::new() }
    }

    /// Closes the body with these results. `slots` describe the results; the types must agree.
    pub fn finish(mut self, results: Vec<Value>, slots: Vec<Slot>) -> Function {
        debug_assert_eq!(results.len(), slots.len());
        self.func.results = slots;
        self.close(results);
        debug_assert!(self.open.is_empty());
        self.func
    }

    /// Opens a nested region; instructions are appended to it until it is closed.
    pub fn open(&mut self) -> Region {
        let region = self.func.regions.push(RegionData::default());
        self.open.push(region);
        region
    }

    /// Opens a region again that was closed before.
    pub fn reopen(&mut self, region: Region) {
        self.open.push(region);
    }

    /// Closes the innermost region with its results.
    pub fn close(&mut self, results: Vec<Value>) {
        let region = self.open.pop().expect("a region is open");
        self.func.regions[region].results = results;
    }

    /// The innermost open region.
    pub fn region(&self) -> Region {
        *self.open.last().expect("a region is open")
    }

    /// Creates a value that nothing defines yet.
    pub fn value(&mut self, ty: Type) -> Value {
        self.func.values.push(ValueData::new(ty))
    }

    /// Creates a linear value that nothing defines yet.
    pub fn linear_value(&mut self, ty: Type) -> Value {
        self.func.values.push(ValueData::linear(ty))
    }

    /// Creates a value that nothing defines yet, linear if requested.
    pub fn marked_value(&mut self, ty: Type, linear: bool) -> Value {
        self.func.values.push(ValueData::marked(ty, linear))
    }

    /// Adds a parameter to the innermost open region (not to the function: see [`Self::param`]).
    pub fn region_param(&mut self, ty: Type) -> Value {
        let v = self.value(ty);
        self.add_region_param(v)
    }

    /// Adds a linear parameter to the innermost open region.
    pub fn linear_region_param(&mut self, ty: Type) -> Value {
        let v = self.linear_value(ty);
        self.add_region_param(v)
    }

    /// Makes a value a parameter of the innermost open region.
    pub fn add_region_param(&mut self, v: Value) -> Value {
        let region = self.region();
        self.func.regions[region].params.push(v);
        v
    }

    /// Adds a parameter to the function.
    pub fn param(&mut self, slot: Slot) -> Value {
        let data = ValueData { name: slot.name.clone(), ..ValueData::marked(slot.ty, slot.linear) };
        let v = self.func.values.push(data);
        let body = self.func.body();
        self.func.regions[body].params.push(v);
        self.func.params.push(slot);
        v
    }

    /// Names a value for printing; a name that it already has stays.
    pub fn name(&mut self, v: Value, name: &str) {
        self.func.values[v].name.get_or_insert_with(|| name.into());
    }

    /// Appends an op whose result type follows from its operands. The result is linear if the op allows it
    /// and an operand is linear.
    pub fn emit(&mut self, op: Op, args: &[Value]) -> Value {
        let operand_types: SmallVec<[Type; 4]> = args.iter().map(|&a| self.func.ty(a)).collect();
        let ty = infer(self.types, &op, &operand_types)
            .unwrap_or_else(|| panic!("the result type of {op:?} does not follow from {operand_types:?}"));
        self.emit_typed(op, args, ty)
    }

    /// Appends an op with one result of the given type.
    pub fn emit_typed(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let linear = args.iter().any(|&a| self.func.is_linear(a));
        let result = self.marked_value(ty, linear);
        self.push(op, args, &[result], &[]);
        result
    }

    /// Appends an op without a result.
    pub fn effect(&mut self, op: Op, args: &[Value]) -> Inst {
        self.push(op, args, &[], &[])
    }

    /// Appends a call of any kind with results of the given types and linearity.
    pub fn call(&mut self, op: Op, args: &[Value], results: &[(Type, bool)]) -> Vec<Value> {
        let results: Vec<Value> = results.iter().map(|&(ty, linear)| self.marked_value(ty, linear)).collect();
        self.push(op, args, &results, &[]);
        results
    }

    /// Appends `If`, `Switch`, `For` or `Loop` over closed regions; the results' types follow from
    /// the regions.
    pub fn nest(&mut self, op: Op, args: &[Value], regions: &[Region]) -> Vec<Value> {
        let inner = &self.func.regions[regions[0]].results;
        let (inner, n_carried) = match op {
            Op::For(_) => (inner.clone(), args.len() - 1),
            Op::Loop(_) => (inner[1..].to_vec(), args.len()),
            _ => (inner.clone(), inner.len()),
        };
        let mut results = Vec::with_capacity(inner.len());
        for (idx, &v) in inner.iter().enumerate() {
            let mut ty = self.func.ty(v);
            if idx >= n_carried {
                ty = self.types.stack(ty);
            }
            let linear = regions.iter().any(|&r| {
                let skip = usize::from(matches!(op, Op::Loop(_)));
                self.func.is_linear(self.func.regions[r].results[idx + skip])
            });
            results.push(self.marked_value(ty, linear));
        }
        self.push(op, args, &results, regions);
        results
    }

    /// Appends an instruction with the given operands, results and regions.
    pub fn push(&mut self, op: Op, args: &[Value], results: &[Value], regions: &[Region]) -> Inst {
        let inst = self.func.insts.push(InstData {
            op,
            args: args.into(),
            results: results.into(),
            regions: regions.into(),
            span: self.span,
        });
        let region = self.region();
        self.func.regions[region].insts.push(inst);
        inst
    }

    // ---- shorthands

    /// A scalar constant by its bits.
    pub fn constant(&mut self, scalar: Scalar, bits: u64) -> Value {
        self.emit_typed(Op::Const(bits), &[], scalar.into())
    }

    /// A `u32` constant.
    pub fn u32(&mut self, n: u32) -> Value {
        self.constant(Scalar::U32, n as u64)
    }

    /// An `i32` constant.
    pub fn i32(&mut self, n: i32) -> Value {
        self.constant(Scalar::I32, n as u32 as u64)
    }

    /// A `bool` constant.
    pub fn bool(&mut self, b: bool) -> Value {
        self.constant(Scalar::Bool, b as u64)
    }

    /// A float constant of the given scalar type, rounded to that type.
    pub fn float(&mut self, scalar: Scalar, x: f64) -> Value {
        self.constant(scalar, float_bits(scalar, x))
    }

    /// Zero of a type.
    pub fn zero(&mut self, ty: Type) -> Value {
        let result = self.value(ty);
        self.push(Op::Zero, &[], &[result], &[]);
        result
    }

    /// The absent differential of a type.
    pub fn absent(&mut self, ty: Type) -> Value {
        let result = self.value(ty);
        self.push(Op::Absent, &[], &[result], &[]);
        result
    }

    /// The absent differential of a type, as a linear value.
    pub fn linear_absent(&mut self, ty: Type) -> Value {
        let result = self.linear_value(ty);
        self.push(Op::Absent, &[], &[result], &[]);
        result
    }

    /// A differential with the opposite sign.
    pub fn opposite(&mut self, d: Value) -> Value {
        let minus_one = self.splat_float(self.func.ty(d), -1.0);
        self.emit(Op::Scale, &[d, minus_one])
    }

    /// A number as a constant of a scalar type, or as a splat of a vector type.
    pub fn splat_float(&mut self, ty: Type, x: f64) -> Value {
        let scalar = self.types.scalar_of(ty).expect("a numeric type");
        let c = self.float(scalar, x);
        if self.types.lanes(ty).is_some() { self.emit_typed(Op::Splat, &[c], ty) } else { c }
    }

    /// Calls a function with `Op::Call`; `slots` are its results.
    pub fn call_func(&mut self, func: Func, slots: &[Slot], args: &[Value]) -> Vec<Value> {
        let results: Vec<(Type, bool)> = slots.iter().map(|s| (s.ty, s.linear)).collect();
        self.call(Op::Call(func), args, &results)
    }
}

/// The bits of `x` rounded to a float type.
pub fn float_bits(scalar: Scalar, x: f64) -> u64 {
    if scalar.is_float() { crate::scalar::from_f64(scalar, x) } else { x as i64 as u64 }
}

/// The number that these bits stand for in a float type.
pub fn float_value(scalar: Scalar, bits: u64) -> f64 {
    match scalar {
        Scalar::F16 => half::f16::from_bits(bits as u16).to_f64(),
        Scalar::F32 => f32::from_bits(bits as u32) as f64,
        _ => f64::from_bits(bits),
    }
}

/// The result type of an op with one result, where it follows from the operands' types.
pub fn infer(types: &mut Types, op: &Op, args: &[Type]) -> Option<Type> {
    match op.spec().typing {
        Typing::Same(_) => return args.first().copied(),
        Typing::Compare => return Some(types.with_scalar(*args.first()?, Scalar::Bool)),
        Typing::Own => {}
    }
    Some(match op {
        Op::Math(Math::IsNan | Math::IsInf) => types.with_scalar(*args.first()?, Scalar::Bool),
        Op::Math(_) | Op::Present | Op::Detach | Op::CheckFinite(_) | Op::Insert(_) | Op::BufferOffset => {
            *args.first()?
        }
        Op::Select => *args.get(1)?,
        Op::Extract(_) | Op::Index => types.element(*args.first()?)?,
        Op::Sum => types.scalar_of(*args.first()?)?.into(),
        Op::Local => types.cell(*args.first()?),
        Op::Load => {
            let mut ty = types.content(*args.first()?)?;
            for _ in &args[1..] {
                ty = types.element(ty)?;
            }
            ty
        }
        Op::SubCell => {
            let content = types.content(*args.first()?)?;
            let inner = types.element(content)?;
            types.cell(inner)
        }
        Op::BufferLen => Type::U32,
        Op::HandleBits => Type::U64,
        Op::OnDevice => Type::BOOL,
        Op::WaveMultiply(_) => *args.get(2)?,
        Op::BufferAddress | Op::Clock => types.vector(Scalar::U32, 2),
        Op::Builtin(crate::ops::Builtin::GroupIndex) => Type::U32,
        Op::Builtin(_) => types.vector(Scalar::U32, 3),
        _ => return None,
    })
}

/// Takes a function out of a module so that it can be changed while the module is read; [`put_back`] returns
/// it.
pub fn take(module: &mut Module, func: Func) -> Function {
    std::mem::take(&mut module.funcs[func])
}

/// Puts a function back that [`take`] has taken.
pub fn put_back(module: &mut Module, func: Func, function: Function) {
    module.funcs[func] = function;
}

/// Returns true if a type is `bool` or a vector of `bool`.
pub fn is_bool(types: &Types, ty: Type) -> bool {
    matches!(types[ty], TypeData::Scalar(Scalar::Bool) | TypeData::Vector(Scalar::Bool, _))
}
