//! Checks accesses through pointers that were made of numbers.
//!
//! A pointer is a handle of memory and an offset. In memory, and as a number, it is the number of that memory and the
//! offset in bytes (`handle_bits` and `handle_of` of the IR), so each leads back to the other, and every access is still
//! checked against the end of the memory.
//!
//! A number may stand for no memory of this run. Making a pointer of it is no error, since it may serve as a number
//! again; an access through it stops the program. An `assert` before the access decides: the pointer leads to memory,
//! or it is null, through which reads give zero.

use ir::{Builder, Func, Module, Op, Region, Scalar, TypeData, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// Adds the checks to a module that makes pointers of numbers.
pub(crate) fn check(module: &mut Module) {
    if !module.funcs.values().any(|f| f.insts.values().any(|data| data.op == Op::HandleOf)) {
        return;
    }
    let all: Vec<Func> = module.funcs.keys().filter(|&f| module.funcs[f].has_body()).collect();
    for f in all {
        let func = ir::build::take(module, f);
        let body = func.body();
        let b = Builder::resume(&mut module.types, func);
        let mut pass = Pass { b, numbers: FxHashMap::default(), own: FxHashSet::default() };
        pass.region(body);
        let func = pass.b.func;
        ir::build::put_back(module, f, func);
    }
}

struct Pass<'a> {
    b: Builder<'a>,
    /// The numbers that handles were made of in this function.
    numbers: FxHashMap<Value, Value>,
    /// Handles of memory that the program names.
    own: FxHashSet<Value>,
}

impl Pass<'_> {
    fn region(&mut self, region: Region) {
        let results = self.b.func.regions[region].results.clone();
        self.b.reopen(region);
        for inst in std::mem::take(&mut self.b.func.regions[region].insts) {
            let data = self.b.func.insts[inst].clone();
            data.regions.iter().for_each(|&nested| self.region(nested));
            self.b.span = data.span;
            match &data.op {
                Op::BufferLoad(_) | Op::BufferStore(_) | Op::Atomic(..) => self.access(data.args[0]),
                Op::HandleOf => {
                    self.numbers.insert(data.results[0], data.args[0]);
                }
                Op::GlobalRef(_) => {
                    self.own.insert(data.results[0]);
                }
                Op::BufferOffset | Op::BufferCast(_) => {
                    if let Some(&number) = self.numbers.get(&data.args[0]) {
                        self.numbers.insert(data.results[0], number);
                    }
                    if self.own.contains(&data.args[0]) {
                        self.own.insert(data.results[0]);
                    }
                }
                _ => {}
            }
            self.b.func.regions[region].insts.push(inst);
        }
        self.b.close(results);
    }

    /// Stops the program if a handle was made of a number that stands for no memory.
    fn access(&mut self, handle: Value) {
        let TypeData::Buffer(_) = self.b.types[self.b.func.ty(handle)] else { return };
        if self.own.contains(&handle) {
            return;
        }
        let words = self.b.emit(Op::BufferAddress, &[handle]);
        let parts = [0, 1].map(|k| self.b.emit(Op::Extract(k), &[words]));
        let any = self.b.emit(Op::Or, &parts);
        let none = self.b.u32(0);
        let leads = self.b.emit(Op::Ne, &[any, none]);
        let number = match self.numbers.get(&handle) {
            Some(&number) => number,
            None => self.b.emit(Op::HandleBits, &[handle]),
        };
        let zero = self.b.constant(Scalar::U64, 0);
        let is_null = self.b.emit(Op::Eq, &[number, zero]);
        let fits = self.b.emit(Op::Or, &[leads, is_null]);
        let message = "this pointer was made of a number that stands for no memory of the run";
        self.b.effect(Op::Assert(message.into()), &[fits]);
    }
}
