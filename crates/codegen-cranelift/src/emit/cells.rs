//! Emits operations on cells: memory of the function that is written in place.
//!
//! A cell of a stack holds a pointer to a header that it owns (or to the shared empty one), so storing a
//! stack in a cell copies it, and so does loading a whole stack or an array from a cell. The copy on a load
//! is omitted if the cell is not written again while the loaded value is live.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types::*};
use ir::{Inst, InstData, Op, Type, TypeData};

use super::aggregate::Indexed;
use super::{Emitter, Res, Vals, plain};
use crate::types::clif;
use native::emit::{Assembler, numbers};
use native::runtime::Helper;
use native::types::{Shape, flat, is_array, size};

/// The purpose for which a part of a cell is accessed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// A write that may grow a stack.
    Grow,
}

impl Emitter<'_, '_> {
    /// Emits `local`, `load`, `store`, `add_to` and `sub_cell`.
    pub(super) fn cell(&mut self, inst: Inst) -> Res {
        let data = &self.f.insts[inst];
        match &data.op {
            Op::Local => self.local(data),
            Op::Load => self.load_cell(inst, data)?,
            Op::Store => {
                let (&x, place) = data.args.split_last().expect("a store has operands");
                let ty = self.ty(x);
                let at = self.cell_place(place, Access::Write)?;
                let vals = self.get(x);
                let vals = self.own(ty, vals);
                self.store(ty, &vals, at, 0);
            }
            Op::AddTo => {
                let (&x, place) = data.args.split_last().expect("an add_to has operands");
                let at = self.cell_place(place, Access::Grow)?;
                self.add_to(data, x, at)?;
            }
            _ => {
                // The address is computed again at each use: the outer stack may move when it grows.
                let path = self.cell_path(&data.args);
                self.sub_cells.insert(data.results[0], path);
            }
        }
        Ok(())
    }

    fn local(&mut self, data: &InstData) {
        let init = data.args[0];
        let ty = self.ty(init);
        let bytes = size(self.ts, ty);
        let at = match self.wanted.get(&data.results[0]) {
            Some(&at) => at,
            None => self.memory(bytes),
        };
        if is_array(self.ts, ty) && self.def(init).is_some_and(|d| d.op == Op::Zero) {
            self.clear(at, bytes);
        } else {
            let vals = self.get(init);
            let vals = self.own(ty, vals);
            self.store(ty, &vals, at, 0);
        }
        self.set(data.results[0], &[at]);
    }

    /// Converts a value to one that a cell can own: a stack is copied.
    fn own(&mut self, ty: Type, vals: Vals) -> Vals {
        let TypeData::Stack(elem) = self.ts[ty] else { return vals };
        let shape = self.cx.shape(Shape::of(self.ts, elem));
        let (shape, empty) = (self.i64(shape), self.i64(self.cx.empty));
        Vals::from_slice(&[self.helper_value(Helper::StackClone, &[vals[0], shape, empty])])
    }

    fn load_cell(&mut self, inst: Inst, data: &InstData) -> Res {
        let ty = self.ty(data.results[0]);
        let at = self.cell_place(&data.args, Access::Read)?;
        let mut vals = self.load(ty, at, 0);
        let is_stack = matches!(self.ts[ty], TypeData::Stack(_));
        if (is_array(self.ts, ty) || is_stack) && !self.nesting.last_use(inst, data.args[0]) {
            if is_stack {
                vals = self.own(ty, vals);
            } else {
                let bytes = size(self.ts, ty);
                let to = self.memory(bytes);
                self.copy(to, vals[0], bytes);
                vals[0] = to;
            }
        }
        self.set(data.results[0], &vals);
        Ok(())
    }

    /// The path `cell, i…`, where a cell within a cell is replaced by its own path.
    fn cell_path(&self, args: &[ir::Value]) -> Vec<ir::Value> {
        match self.sub_cells.get(&args[0]) {
            Some(path) => path.iter().chain(&args[1..]).copied().collect(),
            None => args.to_vec(),
        }
    }

    /// The address of the part of a cell that `cell, i…` selects.
    fn cell_place(&mut self, args: &[ir::Value], access: Access) -> Res<Value> {
        let args = &self.cell_path(args)[..];
        let mut at = self.one(args[0]);
        let Some(mut ty) = self.ts.content(self.ty(args[0])) else {
            return self.unsupported(&Op::Load, "no cell", ir::Span::NONE);
        };
        let mut of_stack = false;
        for (k, &idx) in args[1..].iter().enumerate() {
            of_stack |= matches!(self.ts[ty], TypeData::Stack(_));
            let last = k + 2 == args.len();
            let Some(elem) = self.ts.element(ty) else {
                return self.unsupported(&Op::Load, "an index into a scalar", ir::Span::NONE);
            };
            let stride = size(self.ts, elem);
            let is_stack = matches!(self.ts[elem], TypeData::Stack(_));
            // A write into a nested stack that does not exist goes to the empty stack, which has no element
            // to write.
            let otherwise = if access == Access::Read || (is_stack && !last) {
                self.otherwise(elem, of_stack)
            } else {
                self.sink()
            };
            at = match self.ts[ty] {
                TypeData::Stack(_) => {
                    if access == Access::Grow {
                        self.grow_to(at, idx, elem);
                    }
                    let header = self.b.ins().load(I64, plain(), at, 0);
                    let base = self.b.ins().load(I64, plain(), header, 0);
                    let len = self.b.ins().load(I64, plain(), header, 8);
                    let i = self.index64(idx);
                    self.place_below(&Indexed { base, stride, otherwise }, i, len)
                }
                TypeData::Array(_, n) | TypeData::Vector(_, n) => {
                    self.place(&Indexed { base: at, stride, otherwise }, idx, n as u64)
                }
                TypeData::Scalar(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => at,
            };
            ty = elem;
        }
        Ok(at)
    }

    /// Grows the stack at `at` so that it has an element number `idx`.
    fn grow_to(&mut self, at: Value, idx: ir::Value, elem: Type) {
        let i = self.index64(idx);
        let header = self.b.ins().load(I64, plain(), at, 0);
        let len = self.b.ins().load(I64, plain(), header, 8);
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, i, len);
        let (grow, go) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(grow);
        self.branch(short, (grow, &[]), (go, &[]));
        self.enter(grow);
        let shape = self.cx.shape(Shape::of(self.ts, elem));
        let (shape, empty) = (self.i64(shape), self.i64(self.cx.empty));
        self.rare_call(Helper::CellGrow, &[at, i, shape, empty]);
        self.jump(go, &[]);
        self.enter(go);
    }

    fn add_to(&mut self, data: &InstData, x: ir::Value, at: Value) -> Res {
        let ty = self.ty(x);
        if let TypeData::Stack(elem) = self.ts[ty] {
            let shape = self.cx.shape(Shape::of(self.ts, elem));
            let (shape, empty) = (self.i64(shape), self.i64(self.cx.empty));
            let x = self.one(x);
            self.helper(Helper::StackAdd, &[at, x, shape, empty]);
            return Ok(());
        }
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.unsupported(&data.op, "of this type", data.span);
        };
        let vals = self.get(x);
        if !is_array(self.ts, ty) {
            let old = self.load(ty, at, 0);
            let mut sum = Vals::new();
            for (&a, &b) in old.iter().zip(&vals) {
                sum.push(numbers::combine(self, &Op::Add, s, a, b, data.span)?);
            }
            self.store(ty, &sum, at, 0);
            return Ok(());
        }
        self.each(n, s.bytes() as u64, &mut |e, offset| {
            let (to, from) = (e.b.ins().iadd(at, offset), e.b.ins().iadd(vals[0], offset));
            let a = e.b.ins().load(clif(s), plain(), to, 0);
            let b = e.b.ins().load(clif(s), plain(), from, 0);
            let sum = numbers::combine(e, &Op::Add, s, a, b, data.span)?;
            e.b.ins().store(plain(), sum, to, 0);
            Ok(())
        })
    }
}
