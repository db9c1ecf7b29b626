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
    Builder, Func, InstData, MemData, MemType, MemTypes, Module, Op, Path, Region, Rest, Scalar, Type,
    TypeData, Value,
};
use rustc_hash::FxHashSet;

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
        let func = ir::build::take(module, f);
        let body = func.body();
        let b = Builder::resume(&mut module.types, func);
        let mut checks =
            Checks { b, mem: &module.mem, partial: &partial, bytes, whole: FxHashSet::default() };
        checks.region(body);
        let func = checks.b.func;
        ir::build::put_back(module, f, func);
    }
}

struct Checks<'a> {
    b: Builder<'a>,
    mem: &'a MemTypes,
    partial: &'a FxHashSet<MemType>,
    /// The type of a handle of bytes.
    bytes: Type,
    /// Handles whose memory holds only whole elements.
    whole: FxHashSet<Value>,
}

impl Checks<'_> {
    fn region(&mut self, region: Region) {
        let results = self.b.func.regions[region].results.clone();
        self.b.reopen(region);
        for inst in std::mem::take(&mut self.b.func.regions[region].insts) {
            let data = self.b.func.insts[inst].clone();
            data.regions.iter().for_each(|&nested| self.region(nested));
            self.b.span = data.span;
            match &data.op {
                Op::BufferLoad(path) => self.access(&data, path, 0),
                Op::BufferStore(path) => self.access(&data, path, 1),
                Op::Atomic(path, op) => self.access(&data, path, op.n_values()),
                _ => {}
            }
            match &data.op {
                Op::GlobalRef(_) | Op::BufferLoad(_) => self.whole.extend(&data.results),
                Op::BufferCast(Rest::Dropped) => self.whole.extend(&data.results),
                Op::BufferOffset if self.whole.contains(&data.args[0]) => self.whole.extend(&data.results),
                _ => {}
            }
            self.b.func.regions[region].insts.push(inst);
        }
        self.b.close(results);
    }

    /// Emits a check that all memory of an access exists, if any of the element does.
    fn access(&mut self, data: &InstData, path: &Path, n_values: usize) {
        let (handle, element) = (data.args[0], data.args[1]);
        let TypeData::Buffer(ty) = self.b.types[self.b.func.ty(handle)] else { return };
        if !self.partial.contains(&ty) || self.whole.contains(&handle) {
            return;
        }
        let size = self.mem.size(ty);
        let dynamic = &data.args[2..data.args.len() - n_values];
        let element = self.converted(element, Scalar::I64);
        let at = self.b.emit(Op::BufferOffset, &[handle, element]);
        let zero = self.b.constant(Scalar::I64, 0);
        let bytes = self.b.emit_typed(Op::BufferCast(Rest::Kept), &[at, zero], self.bytes);
        let left = self.b.emit(Op::BufferLen, &[bytes]);
        let none = self.b.u32(0);
        let mut fits = self.b.emit(Op::Eq, &[left, none]);
        let selection = self.mem.select(ty, &path.0).expect("the path is valid");
        let end = selection.fixed + selection.target.bytes(self.mem);
        let mut end = self.b.constant(Scalar::U32, end.min(u32::MAX.into()));
        for (&index, (n, stride)) in dynamic.iter().zip(selection.choices) {
            // The comparison uses no more bits than the index has, since not all devices support 64.
            let is_long = self.b.types.scalar_of(self.b.func.ty(index)).is_some_and(|s| s.bits() == 64);
            let unsigned = if is_long { Scalar::U64 } else { Scalar::U32 };
            let index = self.converted(index, unsigned);
            let n = self.b.constant(unsigned, n.into());
            let outside = self.b.emit(Op::Ge, &[index, n]);
            fits = self.b.emit(Op::Or, &[fits, outside]);
            let index = self.converted(index, Scalar::U32);
            let stride = self.b.constant(Scalar::U32, stride.min(u32::MAX.into()));
            let by = self.b.emit(Op::Mul, &[index, stride]);
            end = self.b.emit(Op::Add, &[end, by]);
        }
        let room = self.b.emit(Op::Ge, &[left, end]);
        let fits = self.b.emit(Op::Or, &[fits, room]);
        let message = format!("the memory behind this pointer ends within an element of {size} bytes");
        self.b.effect(Op::Assert(message.into()), &[fits]);
    }

    /// Converts a number to another type.
    fn converted(&mut self, v: Value, to: Scalar) -> Value {
        match self.b.types[self.b.func.ty(v)] {
            TypeData::Scalar(s) if s == to => v,
            _ => self.b.emit_typed(Op::Convert, &[v], to.into()),
        }
    }
}
