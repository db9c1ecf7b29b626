//! Reads and writes typed memory, leaf by leaf.
//!
//! A scalar, vector, matrix or array of those is a single access. A struct takes one access for each field.
//! An array of structs consists of elements in memory, and of one array for each leaf in values: a short one
//! is accessed element by element, a long one in a loop over cells.
//!
//! A column-major matrix is the transposed matrix in memory, and is transposed when it is read or written. An
//! access to a part of it touches only that part.

use check::types::Ty;
use ir::{LoopInfo, Op, Path, Step, Type, TypeData, Value};
use smallvec::SmallVec;

use crate::body::Body;
use crate::layout::{Layout, Part};
use crate::lowerer::source_span;
use crate::places::Memory;

/// Arrays of structs up to this length are accessed without a loop.
const UNROLLED: u32 = 16;

impl Memory {
    pub(crate) fn step(&self, step: Step) -> Memory {
        let mut next = self.clone();
        next.path.push(step);
        next
    }

    /// The place of a part with this number.
    pub(crate) fn lane(&self, k: u8) -> Memory {
        self.step(Step::Static(k.into()))
    }

    fn step_dynamic(&self, index: Value) -> Memory {
        let mut next = self.step(Step::Dynamic);
        next.dynamic.push(index);
        next
    }

    /// The operands of an access, without the stored value.
    pub(crate) fn operands(&self) -> SmallVec<[Value; 4]> {
        let mut args: SmallVec<[Value; 4]> = SmallVec::from_slice(&[self.handle, self.element]);
        args.extend_from_slice(&self.dynamic);
        args
    }

    pub(crate) fn ir_path(&self) -> Path {
        Path(self.path.clone().into())
    }
}

impl Body<'_, '_, '_> {
    /// The source location of the instructions being emitted.
    fn source_span(&self) -> syntax::Span {
        source_span(self.b.span)
    }

    /// The place of an element, row or lane; `n` is their number.
    pub(crate) fn part_in_memory(&mut self, memory: &Memory, index: Value, n: u32) -> Memory {
        let part = match self.constant_of(index) {
            Some(k) if k < u64::from(n) => memory.step(Step::Static(k as u32)),
            _ => memory.step_dynamic(index),
        };
        self.in_row(part)
    }

    /// The place of a lane of a vector.
    pub(crate) fn lane_in_memory(&mut self, memory: &Memory, lane: u32) -> Memory {
        let lane = memory.step(Step::Static(lane));
        self.in_row(lane)
    }

    /// Applies the pending row of a column-major matrix to a place in a column.
    fn in_row(&mut self, mut column: Memory) -> Memory {
        let Some((row, n)) = column.row.take() else { return column };
        self.part_in_memory(&column, row, n)
    }

    /// A matrix with rows and columns exchanged, as a value of type `to`.
    fn transposed(&mut self, matrix: Value, to: Type) -> Value {
        let vector = self.b.types.element(to).unwrap_or(to);
        self.construct(to, |body, k| {
            body.construct(vector, |body, j| {
                let column = body.b.emit(Op::Extract(j), &[matrix]);
                body.b.emit(Op::Extract(k), &[column])
            })
        })
    }

    /// The IR type of a matrix as an array of its columns.
    pub(crate) fn columns_type(&mut self, ty: Ty) -> Option<Type> {
        let (s, r, c) = self.lw.matrix_of(ty)?;
        let column = self.b.types.vector(s, r);
        Some(self.b.types.array(column, c))
    }

    /// A matrix in its column-major memory format.
    pub(crate) fn in_columns(&mut self, ty: Ty, matrix: &[Value]) -> Option<Value> {
        let columns = self.columns_type(ty)?;
        Some(self.transposed(*matrix.first()?, columns))
    }

    /// Returns true if a place holds column-major matrices. The memory type determines this, whatever the
    /// type of the expression that leads there is.
    pub(crate) fn lies_in_columns(&self, memory: &Memory) -> bool {
        let TypeData::Buffer(whole) = self.b.types[self.b.func.ty(memory.handle)] else { return false };
        let part = self.lw.mem.part_at(whole, &memory.path);
        part.is_some_and(|part| self.lw.mem.lies_in_columns(part))
    }

    /// The type of the leaf at a place.
    fn leaf_in(&mut self, memory: &Memory) -> Option<Type> {
        let TypeData::Buffer(whole) = self.b.types[self.b.func.ty(memory.handle)] else { return None };
        self.lw.mem.leaf_at(self.b.types, whole, &memory.ir_path())
    }

    /// Returns true if a type is a single leaf of the same shape in memory, too.
    fn is_memory_leaf(&mut self, memory: &Memory, ty: Ty) -> bool {
        let mem = self.lw.mem_type(self.b.types, ty);
        self.lw.mem.leaf(self.b.types, mem).is_some()
            && !self.lies_in_columns(memory)
            && !self.is_padded(memory, ty)
    }

    pub(crate) fn read_memory(&mut self, memory: &Memory, ty: Ty) -> Vec<Value> {
        if self.lw.program.is_existential(ty) {
            return self.read_any_value(memory, ty, self.source_span());
        }
        let layout = self.layout(ty);
        if layout.leaves.is_empty() {
            return Vec::new();
        }
        if self.is_padded(memory, ty) && self.lw.array_of(ty).is_none() {
            return vec![self.read_padded(memory, ty)];
        }
        if self.lies_in_columns(memory)
            && memory.row.is_none()
            && let Some(columns) = self.columns_type(ty)
        {
            let value = self.b.emit_typed(Op::BufferLoad(memory.ir_path()), &memory.operands(), columns);
            return vec![self.transposed(value, layout.leaves[0].ty)];
        }
        if let (Some(_), Some((s, _))) = (memory.row, self.lw.vector_of(ty)) {
            return vec![self.construct(layout.leaves[0].ty, |body, k| {
                let lane = body.lane_in_memory(memory, k);
                body.b.emit_typed(Op::BufferLoad(lane.ir_path()), &lane.operands(), Type::from(s))
            })];
        }
        if self.is_memory_leaf(memory, ty) {
            let to = layout.leaves[0].ty;
            let own = self.leaf_in(memory).unwrap_or(to);
            let value = self.b.emit_typed(Op::BufferLoad(memory.ir_path()), &memory.operands(), own);
            // The host's memory has the fields of a type where pointers may only have its name.
            let is_named = own != to && matches!(self.b.types[own], TypeData::Buffer(_));
            return vec![if is_named { self.cast_pointer(value, to) } else { value }];
        }
        if let Some((element, n)) = self.lw.array_of(ty) {
            if n <= UNROLLED {
                let read = |k| self.read_memory(&memory.step(Step::Static(k)), element);
                let elements = (0..n).map(read).collect();
                return self.array_of_elements(ty, element, elements);
            }
            let mut cells = Vec::new();
            for leaf in &layout.leaves {
                let zero = self.b.zero(leaf.ty);
                cells.push(self.b.emit(Op::Local, &[zero]));
            }
            self.each_element(n, |body, index| {
                let values = body.read_memory(&memory.step_dynamic(index), element);
                for (&cell, value) in cells.iter().zip(values) {
                    body.b.effect(Op::Store, &[cell, index, value]);
                }
            });
            return cells.iter().map(|&cell| self.b.emit(Op::Load, &[cell])).collect();
        }
        let mut values = Vec::new();
        for (k, part) in layout.parts.iter().enumerate() {
            if part.is_shadow {
                values.extend(self.shadow_zeros(&layout, part));
                continue;
            }
            let field = memory.step(Step::Static(k as u32));
            values.extend(self.read_memory(&field, part.ty));
        }
        values
    }

    pub(crate) fn write_memory(&mut self, memory: &Memory, ty: Ty, values: &[Value]) {
        if self.lw.program.is_existential(ty) {
            return self.write_any_value(memory, ty, values, self.source_span());
        }
        let layout = self.layout(ty);
        if layout.leaves.is_empty() || values.len() < layout.leaves.len() {
            return;
        }
        if self.is_padded(memory, ty) && self.lw.array_of(ty).is_none() {
            return self.write_padded(memory, ty, values[0]);
        }
        if self.lies_in_columns(memory)
            && memory.row.is_none()
            && let Some(columns) = self.in_columns(ty, values)
        {
            return self.store(memory, columns);
        }
        if let (Some(_), Some((_, n))) = (memory.row, self.lw.vector_of(ty)) {
            for k in 0..n {
                let lane = self.lane_in_memory(memory, k);
                let value = self.b.emit(Op::Extract(k), &[values[0]]);
                self.store(&lane, value);
            }
            return;
        }
        if self.is_memory_leaf(memory, ty) {
            return self.store(memory, values[0]);
        }
        if let Some((element, n)) = self.lw.array_of(ty) {
            if n <= UNROLLED {
                for k in 0..n {
                    let parts = self.elements_at(values, k);
                    self.write_memory(&memory.step(Step::Static(k)), element, &parts);
                }
                return;
            }
            self.each_element(n, |body, index| {
                let parts: Vec<Value> = values.iter().map(|&v| body.b.emit(Op::Index, &[v, index])).collect();
                body.write_memory(&memory.step_dynamic(index), element, &parts);
            });
            return;
        }
        for (k, part) in layout.parts.iter().enumerate().filter(|p| !p.1.is_shadow) {
            let values = &values[part.offset..part.offset + part.len];
            let field = memory.step(Step::Static(k as u32));
            self.write_memory(&field, part.ty, values);
        }
    }

    /// Stores a leaf.
    pub(crate) fn store(&mut self, memory: &Memory, value: Value) {
        let mut args = memory.operands();
        args.push(value);
        self.b.effect(Op::BufferStore(memory.ir_path()), &args);
    }

    /// The shadow of a pointer-like value outside of derivatives.
    pub(crate) fn shadow_zeros(&mut self, layout: &Layout, part: &Part) -> Vec<Value> {
        let leaves = &layout.leaves[part.offset..part.offset + part.len];
        let zeros: Vec<Value> = leaves.iter().map(|leaf| self.b.zero(leaf.ty)).collect();
        // A value that consists of pointers has their differentials.
        let of_pointers = (layout.parts.iter().filter(|p| !p.is_shadow))
            .all(|p| self.lw.is_pointer_like(self.b.types, p.ty));
        if let (Some(func), Some(&first), false) = (self.func, zeros.first(), of_pointers) {
            self.lw.note_bare_pointer(func, first);
        }
        zeros
    }

    /// Emits a loop over `0..n`.
    pub(crate) fn each_element(&mut self, n: u32, run: impl FnOnce(&mut Self, Value)) {
        let trips = self.b.u32(n);
        let region = self.b.open();
        let index = self.b.region_param(ir::Type::U32);
        run(self, index);
        self.b.close(Vec::new());
        self.b.nest(Op::For(LoopInfo::default()), &[trips], &[region]);
    }
}
