//! Finds the parts of cells, and adds to them: see `native::emit::cells`.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types::*};
use ir::{InstData, Op, Type, TypeData};

use super::aggregate::Indexed;
use super::{Emitter, Res, plain};
use crate::types::clif;
use native::emit::cells::Access;
use native::emit::{Assembler, numbers};
use native::runtime::Helper;
use native::types::{Shape, flat, size};

impl Emitter<'_, '_> {
    /// The address of the part of a cell that `cell, i…` selects.
    pub(super) fn cell_place(&mut self, args: &[ir::Value], access: Access) -> Res<Value> {
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
        let (shape, empty) = self.shape(elem);
        self.rare_call(Helper::CellGrow, &[at, i, shape, empty]);
        self.jump(go, &[]);
        self.enter(go);
    }

    /// Adds an array or a stack to the one at an address.
    pub(super) fn add_whole(&mut self, data: &InstData, ty: Type, x: Value, at: Value) -> Res {
        if let TypeData::Stack(elem) = self.ts[ty] {
            let (shape, empty) = self.shape(elem);
            self.helper(Helper::StackAdd, &[at, x, shape, empty]);
            return Ok(());
        }
        let Some((s, n)) = flat(self.ts, ty) else {
            return self.unsupported(&data.op, "of this type", data.span);
        };
        self.each(n, s.bytes() as u64, &mut |e, offset| {
            let (to, from) = (e.b.ins().iadd(at, offset), e.b.ins().iadd(x, offset));
            let a = e.b.ins().load(clif(s), plain(), to, 0);
            let b = e.b.ins().load(clif(s), plain(), from, 0);
            let sum = numbers::combine(e, &Op::Add, s, a, b, data.span)?;
            e.b.ins().store(plain(), sum, to, 0);
            Ok(())
        })
    }

    /// The shape of a stack's elements, and the empty stack, for helpers.
    pub(super) fn shape(&mut self, elem: Type) -> (Value, Value) {
        let shape = self.cx.shape(Shape::of(self.ts, elem));
        (self.i64(shape), self.i64(self.cx.empty))
    }
}
