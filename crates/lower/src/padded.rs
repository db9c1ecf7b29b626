//! Data layouts in memory: `Std430DataLayout` and the like.
//!
//! A memory type states such a layout by itself: a struct by the places of its fields, a matrix or an array of vectors
//! by lanes that nothing uses at the end of each vector, and a `bool` of four bytes by a 32-bit number. A value
//! whose leaf has another shape in memory is read and written number by number.

use check::types::Ty;
use check::types::data_layout::DataLayout;
use ir::{MemData, MemType, Op, Placement, Scalar, Step, Type, TypeData, Value};

use crate::body::Body;
use crate::leaves::scalar_in;
use crate::lowerer::Lowerer;
use crate::places::Memory;

impl Lowerer<'_> {
    /// Returns true if the layout of the memory type that is being made differs from that of C.
    fn is_laid(&self) -> bool {
        !matches!(self.types.data_layout, DataLayout::Natural | DataLayout::C)
    }

    /// A memory type with the padding and the numbers of the data layout.
    pub(crate) fn padded(&mut self, ty: Ty, data: MemData) -> MemData {
        if !self.is_laid() {
            return data;
        }
        let layout = self.types.data_layout;
        let number = |s: Scalar| if s == Scalar::Bool { Scalar::U32 } else { s };
        let lanes = |bytes: i64, s: Scalar| u32::try_from(bytes).unwrap_or(0) / s.bytes();
        match data {
            MemData::Scalar(s) => MemData::Scalar(number(s)),
            MemData::Vector(s, n) => MemData::Vector(number(s), n),
            MemData::Matrix(s, vectors, _, order) => {
                let size = self.program.extent_in(ty, layout).map_or(0, |extent| extent.0);
                MemData::Matrix(number(s), vectors, lanes(size / i64::from(vectors.max(1)), number(s)), order)
            }
            MemData::Array(element, n) => match self.array_of(ty) {
                Some((of, _)) => MemData::Array(self.element_of_buffer(of, element), n),
                None => MemData::Array(element, n),
            },
            MemData::Struct { .. } | MemData::Handle(_) => data,
        }
    }

    /// The memory type of one of the elements that follow one another in a buffer or an array.
    pub(crate) fn element_of_buffer(&mut self, of: Ty, element: MemType) -> MemType {
        let layout = self.types.data_layout;
        let extent = if self.is_laid() { self.program.extent_in(of, layout) } else { None };
        let Some(extent) = extent else { return element };
        let stride = layout.stride(extent).0;
        match self.mem[element] {
            MemData::Scalar(s) | MemData::Vector(s, _) if stride as u64 != self.mem.size(element) => {
                let lanes = u32::try_from(stride).unwrap_or(0) / s.bytes();
                self.mem.intern(MemData::Vector(s, lanes))
            }
            _ => element,
        }
    }

    /// The places of a struct's fields by the data layout.
    pub(crate) fn placement(&mut self, fields: &[Ty]) -> Option<Box<Placement>> {
        if !self.is_laid() {
            return None;
        }
        let found = self.program.places_of(fields, self.types.data_layout)?;
        let align = found.align as u64;
        Some(Box::new(Placement {
            offsets: found.offsets.iter().map(|&offset| offset as u64).collect(),
            size: (found.size as u64).next_multiple_of(align),
            align,
        }))
    }
}

impl Body<'_, '_, '_> {
    /// The type of the leaf of memory that a place is.
    fn stored(&mut self, memory: &Memory) -> Option<Type> {
        let TypeData::Buffer(whole) = self.b.types[self.b.func.ty(memory.handle)] else { return None };
        self.lw.mem.leaf_at(self.b.types, whole, &memory.ir_path())
    }

    /// Returns true if a value of a single leaf has another shape in memory, apart from the order of matrices.
    pub(crate) fn is_padded(&mut self, memory: &Memory, ty: Ty) -> bool {
        let layout = self.layout(ty);
        let [leaf] = &layout.leaves[..] else { return false };
        // A pointer is one word, whatever it leads to.
        let is_pointer = matches!(self.b.types[leaf.ty], TypeData::Buffer(_));
        if !layout.parts.is_empty() || memory.row.is_some() || is_pointer {
            return false;
        }
        let Some(stored) = self.stored(memory) else { return false };
        let columns = if self.lies_in_columns(memory) { self.columns_type(ty) } else { None };
        stored != columns.unwrap_or(leaf.ty)
    }

    /// The place of a number, which may be the first lane of a vector, and its type there.
    fn number_place(&mut self, memory: &Memory) -> (Memory, Scalar) {
        let Some(stored) = self.stored(memory) else { return (memory.clone(), Scalar::U32) };
        let scalar = scalar_in(self.b.types, stored);
        let is_vector = matches!(self.b.types[stored], TypeData::Vector(..));
        (if is_vector { memory.step(Step::Static(0)) } else { memory.clone() }, scalar)
    }

    fn read_number(&mut self, memory: &Memory, wanted: Scalar) -> Value {
        let (place, s) = self.number_place(memory);
        let value = self.b.emit_typed(Op::BufferLoad(place.ir_path()), &place.operands(), s.into());
        self.convert_leaf(value, wanted.into())
    }

    fn write_number(&mut self, memory: &Memory, value: Value) {
        let (place, s) = self.number_place(memory);
        let value = self.convert_leaf(value, s.into());
        self.store(&place, value);
    }

    /// The place of an entry of a matrix.
    fn entry_place(&self, memory: &Memory, row: u32, column: u32) -> Memory {
        let (first, second) = if self.lies_in_columns(memory) { (column, row) } else { (row, column) };
        memory.step(Step::Static(first)).step(Step::Static(second))
    }

    /// Reads a number, vector or matrix, number by number.
    pub(crate) fn read_padded(&mut self, memory: &Memory, ty: Ty) -> Value {
        let whole = self.layout(ty).leaves[0].ty;
        if let Some((s, _, _)) = self.lw.matrix_of(ty) {
            let row = self.b.types.element(whole).unwrap_or(whole);
            return self.construct(whole, |body, j| {
                body.construct(row, |body, k| {
                    let entry = body.entry_place(memory, j, k);
                    body.read_number(&entry, s)
                })
            });
        }
        if let Some((s, _)) = self.lw.vector_of(ty) {
            return self.construct(whole, |body, k| body.read_number(&memory.step(Step::Static(k)), s));
        }
        let wanted = self.lw.scalar_of(ty).unwrap_or(Scalar::U32);
        self.read_number(memory, wanted)
    }

    /// Writes a number, vector or matrix, number by number.
    pub(crate) fn write_padded(&mut self, memory: &Memory, ty: Ty, value: Value) {
        if let Some((_, rows, columns)) = self.lw.matrix_of(ty) {
            for j in 0..rows {
                let row = self.b.emit(Op::Extract(j), &[value]);
                for k in 0..columns {
                    let number = self.b.emit(Op::Extract(k), &[row]);
                    let entry = self.entry_place(memory, j, k);
                    self.write_number(&entry, number);
                }
            }
            return;
        }
        if let Some((_, n)) = self.lw.vector_of(ty) {
            for k in 0..n {
                let number = self.b.emit(Op::Extract(k), &[value]);
                self.write_number(&memory.step(Step::Static(k)), number);
            }
            return;
        }
        self.write_number(memory, value);
    }
}
