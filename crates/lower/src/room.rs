//! Checks accesses to elements that memory may contain only in part.
//!
//! A pointer may be cast to a type with larger elements, of which its memory does not hold a whole number.
//! The part of the last element that exists is read and written like any other memory; an access to the
//! missing part stops the program, since reading zero would be silently wrong. An element that begins beyond
//! the end is out of range, and reads as zero, as everywhere.
//!
//! The access itself reads zero or writes nothing beyond the end of memory, so passes may move it. A
//! preceding `assert` decides whether the program stops: `bytes left from the element on = 0 or ≥ the leaf's
//! end`.

use ir::{
    Func, Function, Inst, InstData, MemData, Module, Op, Path, Region, Rest, Scalar, Step, Type, TypeData,
};
use ir::{MemType, MemTypes, Value, ValueData};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Adds the checks to a module in which casts may leave a part of an element.
pub(crate) fn check(module: &mut Module) {
    let partial = ir::analysis::room::partial_elements(module);
    if partial.is_empty() {
        return;
    }
    let byte = module.mem.intern(MemData::Scalar(Scalar::U8));
    let bytes = module.types.buffer(byte);
    let all: Vec<Func> = module.funcs.keys().filter(|&f| module.funcs[f].has_body()).collect();
    for f in all {
        let mut func = ir::build::take(module, f);
        let body = func.body();
        let whole = FxHashSet::default();
        Checks { module, partial: &partial, bytes, whole, func: &mut func }.region(body);
        ir::build::put_back(module, f, func);
    }
}

struct Checks<'a> {
    module: &'a Module,
    partial: &'a FxHashSet<MemType>,
    /// The type of a handle of bytes.
    bytes: Type,
    /// Handles whose memory holds only whole elements.
    whole: FxHashSet<Value>,
    func: &'a mut Function,
}

impl Checks<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut checked = Vec::with_capacity(insts.len());
        for inst in insts {
            for nested in self.func.insts[inst].regions.clone() {
                self.region(nested);
            }
            let data = self.func.insts[inst].clone();
            match &data.op {
                Op::BufferLoad(path) => self.access(&data, path, 0, &mut checked),
                Op::BufferStore(path) => self.access(&data, path, 1, &mut checked),
                Op::Atomic(path, op) => self.access(&data, path, op.n_values(), &mut checked),
                _ => {}
            }
            match &data.op {
                Op::GlobalRef(_) | Op::BufferLoad(_) => self.whole.extend(&data.results),
                Op::BufferCast(Rest::Dropped) => self.whole.extend(&data.results),
                Op::BufferOffset if self.whole.contains(&data.args[0]) => self.whole.extend(&data.results),
                _ => {}
            }
            checked.push(inst);
        }
        self.func.regions[region].insts = checked;
    }

    /// Emits a check that all memory of an access exists, if any of the element does.
    fn access(&mut self, data: &InstData, path: &Path, n_values: usize, out: &mut Vec<Inst>) {
        let (handle, element) = (data.args[0], data.args[1]);
        let TypeData::Buffer(ty) = self.module.types[self.func.ty(handle)] else { return };
        if !self.partial.contains(&ty) || self.whole.contains(&handle) {
            return;
        }
        let size = self.module.mem.size(ty);
        let dynamic = &data.args[2..data.args.len() - n_values];
        let mut put = Put { func: self.func, span: data.span, out };
        let element = put.converted(self.module, element, Scalar::I64);
        let handle_ty = put.func.ty(handle);
        let at = put.op(Op::BufferOffset, &[handle, element], handle_ty);
        let zero = put.op(Op::Const(0), &[], Scalar::I64.into());
        let bytes = put.op(Op::BufferCast(Rest::Kept), &[at, zero], self.bytes);
        let left = put.op(Op::BufferLen, &[bytes], Type::U32);
        let none = put.op(Op::Const(0), &[], Type::U32);
        let mut fits = put.op(Op::Eq, &[left, none], Type::BOOL);
        let (strides, fixed, length) = strides(&self.module.mem, ty, &path.0);
        let mut end = put.op(Op::Const((fixed + length).min(u32::MAX.into())), &[], Type::U32);
        for (&index, (stride, n)) in dynamic.iter().zip(strides) {
            // The comparison uses no more bits than the index has, since not all devices support 64.
            let is_long = self.module.types.scalar_of(put.func.ty(index)).is_some_and(|s| s.bits() == 64);
            let unsigned = if is_long { Scalar::U64 } else { Scalar::U32 };
            let index = put.converted(self.module, index, unsigned);
            let n = put.op(Op::Const(n), &[], unsigned.into());
            let outside = put.op(Op::Ge, &[index, n], Type::BOOL);
            fits = put.op(Op::Or, &[fits, outside], Type::BOOL);
            let index = put.converted(self.module, index, Scalar::U32);
            let stride = put.op(Op::Const(stride.min(u32::MAX.into())), &[], Type::U32);
            let by = put.op(Op::Mul, &[index, stride], Type::U32);
            end = put.op(Op::Add, &[end, by], Type::U32);
        }
        let room = put.op(Op::Ge, &[left, end], Type::BOOL);
        let fits = put.op(Op::Or, &[fits, room], Type::BOOL);
        let message = format!("the memory behind this pointer ends within an element of {size} bytes");
        put.inst(Op::Assert(message.into()), &[fits], SmallVec::new());
    }
}

/// Emits instructions before an access.
struct Put<'a> {
    func: &'a mut Function,
    span: ir::Span,
    out: &'a mut Vec<Inst>,
}

impl Put<'_> {
    fn inst(&mut self, op: Op, args: &[Value], results: SmallVec<[Value; 2]>) {
        let args = args.iter().copied().collect();
        let data = InstData { op, args, results, regions: SmallVec::new(), span: self.span };
        self.out.push(self.func.insts.push(data));
    }

    fn op(&mut self, op: Op, args: &[Value], ty: Type) -> Value {
        let result = self.func.values.push(ValueData::new(ty, false));
        self.inst(op, args, [result].into_iter().collect());
        result
    }

    /// Converts a number to another type.
    fn converted(&mut self, module: &Module, v: Value, to: Scalar) -> Value {
        match module.types[self.func.ty(v)] {
            TypeData::Scalar(s) if s == to => v,
            _ => self.op(Op::Convert, &[v], to.into()),
        }
    }
}

/// For each dynamic step of a path, the stride and the number of the parts that it selects from; and the
/// offset and the size of the leaf if all of them select the first part.
pub(crate) fn strides(mem: &MemTypes, element: MemType, path: &[Step]) -> (Vec<(u64, u64)>, u64, u64) {
    let (mut strides, mut fixed, mut at) = (Vec::new(), 0, ir::interp::Place::Mem(element));
    for &step in path {
        use ir::interp::Place::{Lane, Mem, Row};
        let (next, stride, n) = match at {
            Lane(_) => break,
            Row(s, n) => (Lane(s), u64::from(s.bytes()), n),
            Mem(ty) => match &mem[ty] {
                MemData::Scalar(_) | MemData::Handle(_) => break,
                &MemData::Vector(s, n) => (Lane(s), u64::from(s.bytes()), n),
                &MemData::Array(inner, n) => (Mem(inner), mem.size(inner), n),
                &MemData::Matrix(s, rows, columns, _) => {
                    (Row(s, columns), u64::from(s.bytes() * columns), rows)
                }
                MemData::Struct { fields, .. } => {
                    let Step::Static(k) = step else { break };
                    fixed += mem.field_offset(ty, k as usize);
                    at = Mem(fields[k as usize].1);
                    continue;
                }
            },
        };
        match step {
            Step::Static(k) => fixed += u64::from(k) * stride,
            Step::Dynamic => strides.push((stride, u64::from(n))),
        }
        at = next;
    }
    (strides, fixed, at.bytes(mem))
}
