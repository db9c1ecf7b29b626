//! Values of interface type in memory, and values made from the bits of others.
//!
//! In memory such a value has the layout of Slang's CPU target: 8 bytes for run-time type information (not
//! used here), 8 bytes with the number of the type, and the value itself as 32-bit words. There are as many
//! words as `[anyValueSize(n)]` of the interface says, or else 16 bytes or as many as the largest type needs.
//! Within these words a type has its natural layout with scalar alignment, in which `bool` takes four bytes;
//! matrices have the order that their field declares.
//!
//! A number that is read from the offset of a number of the same type is used directly, along with its
//! derivatives; all others are assembled from bits.

use check::types::{Ty, TyKind};
use ir::{MemData, Op, Scalar, Step, Type, Value};
use smallvec::SmallVec;
use syntax::Span;

use crate::body::Body;
use crate::layout::MAX_DEPTH;
use crate::leaves::scalar_in;
use crate::lowerer::Lowerer;
use crate::places::Memory;

/// The bytes before the value: run-time type information and the number of the type.
const HEADER: u32 = 16;
/// The offset of the number of the type.
const ID: u32 = 8;
/// The minimum size of a value whose interface does not specify one.
const DEFAULT_SIZE: u32 = 16;
/// Larger values are rejected: they would take thousands of instructions.
const MAX_SIZE: u32 = 4096;

/// The size and alignment of a type in its bit representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    size: u32,
    align: u32,
}

impl Extent {
    /// The distance between elements of an array.
    fn stride(self) -> u32 {
        self.size.next_multiple_of(self.align)
    }
}

/// Numbers with their byte offsets.
#[derive(Clone, Debug, Default)]
struct Bits {
    parts: Vec<(u32, Scalar, Value)>,
    /// Matrices are row-major, whatever their types say. Used for `bit_cast`, which works on values.
    in_rows: bool,
}

/// The holder of bits that a value is made from.
#[derive(Clone, Copy, PartialEq)]
enum Holder {
    Memory,
    Value,
}

/// The size of a number in the bit representation.
fn bytes(scalar: Scalar) -> u32 {
    if scalar == Scalar::Bool { 4 } else { scalar.bytes() }
}

/// The unsigned integer type with the width of a number.
fn unsigned(scalar: Scalar) -> Scalar {
    match bytes(scalar) {
        1 => Scalar::U8,
        2 => Scalar::U16,
        4 => Scalar::U32,
        _ => Scalar::U64,
    }
}

impl Lowerer<'_> {
    /// The memory type of an existential type.
    pub(crate) fn any_value_memory(&mut self, ty: Ty) -> MemData {
        let name = self.program.type_name(ty);
        let pair = self.mem.intern(MemData::Vector(Scalar::U32, 2));
        let word = self.mem.intern(MemData::Scalar(Scalar::U32));
        let words = self.payload_size(ty, 0).div_ceil(4);
        let payload = self.mem.intern(MemData::Array(word, words));
        let fields = vec![("rtti".to_owned(), pair), ("id".to_owned(), pair), ("value".to_owned(), payload)];
        MemData::Struct { name, fields, placement: None }
    }

    /// Reports a `bit_cast` between types of different sizes.
    pub(crate) fn check_bit_cast(&mut self, from: Ty, to: Ty, span: Span) {
        let (Some(a), Some(b)) = (self.extent(from, 0), self.extent(to, 0)) else { return };
        if a.size != b.size && a.stride() != b.stride() {
            let (from, to) = ((from, a.size.into()), (to, b.size.into()));
            self.diagnostics.push(self.program.bit_cast_error(from, to, span));
        }
    }

    /// The size in memory of the value in an existential type.
    fn payload_size(&mut self, ty: Ty, depth: u32) -> u32 {
        if let Some(size) = self.types.payloads.get(&ty).copied().or_else(|| self.any_value_size(ty)) {
            return size;
        }
        // A type that contains itself is rejected when its leaves are laid out.
        self.types.payloads.insert(ty, DEFAULT_SIZE);
        let mut size = DEFAULT_SIZE;
        for inner in self.types_in(ty) {
            if let Some(extent) = self.extent(inner, depth + 1) {
                size = size.max(extent.size);
            }
        }
        let size = size.min(MAX_SIZE);
        self.types.payloads.insert(ty, size);
        size
    }

    /// The value of `[anyValueSize(n)]`.
    fn any_value_size(&mut self, ty: Ty) -> Option<u32> {
        let decl = self.program.bound_of(ty)?;
        let arg = *self.program.attribute(decl, "anyValueSize")?.args.first()?;
        let literal = match self.program.ast.exprs[arg].kind {
            syntax::ast::ExprKind::Int { value, .. } => i64::try_from(value).ok(),
            _ => self.program.const_int(arg, &check::Subst::default()),
        };
        u32::try_from(literal?).ok().map(|n| n.min(MAX_SIZE))
    }

    /// The size and alignment of a type; `None` for types without a bit representation and types that are too
    /// large.
    fn extent(&mut self, ty: Ty, depth: u32) -> Option<Extent> {
        if depth > MAX_DEPTH {
            return None;
        }
        let extent = if let Some(scalar) = self.scalar_of(ty) {
            Extent { size: bytes(scalar), align: bytes(scalar) }
        } else if let Some((scalar, n)) = self.vector_of(ty) {
            Extent { size: bytes(scalar) * n, align: bytes(scalar) }
        } else if let Some((scalar, rows, columns)) = self.matrix_of(ty) {
            Extent { size: bytes(scalar) * rows * columns, align: bytes(scalar) }
        } else if let Some((element, n)) = self.array_of(ty) {
            let element = self.extent(element, depth + 1)?;
            Extent { size: element.stride().checked_mul(n)?, align: element.align }
        } else if self.is_handle(ty) {
            Extent { size: 8, align: 8 }
        } else if self.program.is_existential(ty) {
            let size = HEADER + self.payload_size(ty, depth).next_multiple_of(4);
            Extent { size, align: 4 }
        } else {
            self.offsets(ty, depth)?.1
        };
        (extent.size <= MAX_SIZE).then_some(extent)
    }

    /// Returns true if values of a type are handles, which are numbers in memory.
    fn is_handle(&mut self, ty: Ty) -> bool {
        match self.program.types[ty] {
            TyKind::Pointer(..) => true,
            TyKind::Buffer(..) => self.block_content(ty).is_none(),
            _ => false,
        }
    }

    /// The offsets of the parts of a struct, pair, tuple or optional, and its extent.
    fn offsets(&mut self, ty: Ty, depth: u32) -> Option<(Vec<u32>, Extent)> {
        let parts = self.bit_parts(ty)?;
        let (mut offsets, mut at, mut align) = (Vec::new(), 0u32, 1);
        for part in parts {
            let extent = self.extent(part, depth + 1)?;
            at = at.next_multiple_of(extent.align);
            offsets.push(at);
            at = at.checked_add(extent.size)?;
            align = align.max(extent.align);
        }
        // As in Slang, a struct has no padding after its last field.
        Some((offsets, Extent { size: at, align }))
    }

    /// The position of component `k` among the components of a vector or matrix in memory.
    fn place_of(&mut self, ty: Ty, k: u32, bits: &Bits) -> u32 {
        match self.matrix_of(ty).filter(|_| !bits.in_rows && self.program.lies_in_columns(ty)) {
            Some((_, rows, columns)) => k % columns * rows + k / columns,
            None => k,
        }
    }

    /// The types of the parts of a type, in order.
    fn bit_parts(&mut self, ty: Ty) -> Option<Vec<Ty>> {
        Some(match self.program.types[ty].clone() {
            TyKind::Struct(..) | TyKind::SynthDiff(_) => {
                self.program.fields(ty).iter().map(|f| f.1).collect()
            }
            TyKind::Tuple(parts) => parts,
            TyKind::Optional(inner) => vec![inner, Ty::BOOL],
            TyKind::DiffPair(primal) => vec![primal, self.program.differential(primal)?],
            TyKind::Void => Vec::new(),
            _ => return None,
        })
    }
}

impl Body<'_, '_, '_> {
    // ---- values to numbers

    /// Adds the numbers of a value to the bits.
    fn put(&mut self, ty: Ty, values: &[Value], at: u32, bits: &mut Bits, span: Span) {
        let lw = &mut *self.lw;
        if lw.scalar_of(ty).is_some() || lw.vector_of(ty).is_some() || lw.matrix_of(ty).is_some() {
            let mut scalars = Vec::new();
            if let Some(&value) = values.first() {
                self.components(value, &mut scalars);
            }
            for (k, value) in (0u32..).zip(scalars) {
                let scalar = scalar_in(self.b.types, self.b.func.ty(value));
                let k = self.lw.place_of(ty, k, bits);
                bits.parts.push((at + k * bytes(scalar), scalar, value));
            }
        } else if let Some((element, n)) = lw.array_of(ty) {
            let Some(extent) = lw.extent(element, 0) else { return self.no_bits(ty, span) };
            for k in 0..n {
                let inner = self.elements_at(values, k);
                self.put(element, &inner, at + k * extent.stride(), bits, span);
            }
        } else if lw.is_handle(ty) {
            let Some(&handle) = values.first() else { return };
            let number = self.b.emit(Op::HandleBits, &[handle]);
            bits.parts.push((at, Scalar::U64, number));
        } else if lw.program.is_existential(ty) {
            let Some((&tag, words)) = values.first().map(|tag| (tag, self.payload_words(ty, values, span)))
            else {
                return;
            };
            let one = self.b.u32(1);
            let id = self.b.emit(Op::Sub, &[tag, one]);
            bits.parts.push((at + ID, Scalar::U32, id));
            let words = (0u32..).zip(words);
            bits.parts.extend(words.map(|(k, word)| (at + HEADER + 4 * k, Scalar::U32, word)));
        } else if let Some((offsets, _)) = lw.offsets(ty, 0) {
            let layout = self.layout(ty);
            for (part, offset) in layout.parts.iter().zip(offsets) {
                let inner = &values[part.offset..part.offset + part.len];
                self.put(part.ty, inner, at + offset, bits, span);
            }
        } else {
            self.no_bits(ty, span);
        }
    }

    fn no_bits(&mut self, ty: Ty, span: Span) {
        let name = self.lw.program.type_name(ty);
        self.lw.unsupported(
            span,
            format_args!("a value of type `{name}` within a value of interface type that is made of bits is"),
        );
    }

    /// The words of the value in an existential value.
    fn payload_words(&mut self, ty: Ty, values: &[Value], span: Span) -> Vec<Value> {
        let n = self.lw.payload_size(ty, 0).div_ceil(4) as usize;
        let shared = self.lw.existential(self.b.types, ty);
        let results = vec![Type::U32; n];
        let Some(&tag) = values.first() else { return Vec::new() };
        self.switch_on_type(&shared, tag, &results, &mut |body, idx| {
            let inner = shared.types[idx].ty;
            let opened = body.open(&shared, idx, values);
            if !body.fits(inner, ty, span) {
                return Vec::new();
            }
            let mut bits = Bits::default();
            body.put(inner, &opened, 0, &mut bits, span);
            (0..n as u32).map(|k| body.word(&bits, 4 * k)).collect()
        })
    }

    /// Checks that a type has a bit representation and fits into the values of an interface. Reports an error
    /// if not.
    fn fits(&mut self, inner: Ty, ty: Ty, span: Span) -> bool {
        let Some(extent) = self.lw.extent(inner, 0) else {
            self.no_bits(inner, span);
            return false;
        };
        let size = self.lw.payload_size(ty, 0);
        if extent.size > size {
            let (inner, name) = (self.lw.program.type_name(inner), self.lw.program.type_name(ty));
            let message = format!(
                "the type `{inner}` takes {} bytes: more than the {size} that a value of `{name}` has in memory",
                extent.size
            );
            self.lw.error("E41011", span, message);
            self.lw.help("give the interface a larger `[anyValueSize(…)]`");
            return false;
        }
        true
    }

    // ---- numbers to values

    /// A value assembled from the numbers at an offset.
    fn take(&mut self, ty: Ty, bits: &Bits, at: u32, span: Span) -> Vec<Value> {
        let lw = &mut *self.lw;
        if let Some(scalar) = lw.scalar_of(ty) {
            return vec![self.number_at(bits, scalar, at)];
        }
        let matrix = lw.matrix_of(ty).map(|(scalar, rows, columns)| (scalar, rows * columns));
        if let Some((scalar, n)) = lw.vector_of(ty).or(matrix) {
            let places = (0..n).map(|k| at + lw.place_of(ty, k, bits) * bytes(scalar));
            let places: Vec<u32> = places.collect();
            let scalars: Vec<Value> = places.into_iter().map(|at| self.number_at(bits, scalar, at)).collect();
            return self.of_components(ty, &scalars);
        }
        if let Some((element, n)) = lw.array_of(ty) {
            let Some(extent) = lw.extent(element, 0) else {
                self.no_bits(ty, span);
                return self.zeros(ty);
            };
            let elements = (0..n).map(|k| self.take(element, bits, at + k * extent.stride(), span)).collect();
            return self.array_of_elements(ty, element, elements);
        }
        if lw.is_handle(ty) {
            let number = self.number_at(bits, Scalar::U64, at);
            let leaves = self.leaf_types(ty);
            return leaves.first().map(|&leaf| self.handle_of(number, leaf)).into_iter().collect();
        }
        if lw.program.is_existential(ty) {
            let id = self.number_at(bits, Scalar::U32, at + ID);
            let words = self.lw.payload_size(ty, 0).div_ceil(4);
            let mut inner = Bits::default();
            for k in 0..words {
                inner.parts.push((4 * k, Scalar::U32, self.word(bits, at + HEADER + 4 * k)));
            }
            return self.by_id(ty, id, &inner, Holder::Memory, span);
        }
        let Some((offsets, _)) = lw.offsets(ty, 0) else {
            self.no_bits(ty, span);
            return self.zeros(ty);
        };
        let layout = self.layout(ty);
        let mut values = Vec::new();
        let mut offsets = offsets.into_iter();
        for part in &layout.parts {
            if part.is_shadow {
                values.extend(self.shadow_zeros(&layout, part));
                continue;
            }
            let offset = offsets.next().unwrap_or(0);
            values.extend(self.take(part.ty, bits, at + offset, span));
        }
        values
    }

    /// An existential value from the number of its type and the bits of its content. An unknown number stops
    /// the program, except that zero may be memory that was never written.
    fn by_id(&mut self, ty: Ty, id: Value, bits: &Bits, from: Holder, span: Span) -> Vec<Value> {
        self.lw.note_from_data(ty);
        let shared = self.lw.existential(self.b.types, ty);
        let one = self.b.u32(1);
        let tag = self.b.emit(Op::Add, &[id, one]);
        let known = self.is_one_of(tag, shared.types.iter().map(|placed| placed.tag));
        let none = self.b.u32(0);
        let (passes, tag) = if from == Holder::Memory {
            let empty = self.b.emit(Op::Eq, &[id, none]);
            let null = self.b.emit(Op::Eq, &[tag, none]);
            let unset = self.b.emit(Op::Or, &[empty, null]);
            let passes = self.b.emit(Op::Or, &[known, unset]);
            (passes, self.b.emit(Op::Select, &[known, tag, none]))
        } else {
            (known, tag)
        };
        let name = self.lw.program.type_name(ty);
        self.b.effect(Op::Assert(format!("no type of this number conforms to `{name}`").into()), &[passes]);
        let results = self.leaf_types(ty);
        self.switch_on_type(&shared, tag, &results, &mut |body, idx| {
            let inner = shared.types[idx].ty;
            if from == Holder::Memory && !body.fits(inner, ty, span) {
                return Vec::new();
            }
            let values = body.take(inner, bits, 0, span);
            body.close(&shared, ty, idx, &values)
        })
    }

    /// Lowers `createDynamicObject<I>(id, value)`.
    pub(crate) fn create_dynamic_object(
        &mut self,
        ty: Ty,
        id: Value,
        value: (&[Value], Ty),
        span: Span,
    ) -> Vec<Value> {
        if !self.lw.program.is_existential(ty) {
            let name = self.lw.program.type_name(ty);
            let message = format!("`createDynamicObject` makes values of interface type, not of `{name}`");
            self.lw.error("E39999", span, message);
            return self.zeros(ty);
        }
        let mut bits = Bits::default();
        self.put(value.1, value.0, 0, &mut bits, span);
        self.by_id(ty, id, &bits, Holder::Value, span)
    }

    /// Lowers `bit_cast<T>(value)` and `reinterpret<T>(value)`: a value made from the bits of another;
    /// missing bits are zero.
    pub(crate) fn made_of_bits(
        &mut self,
        ty: Ty,
        value: (&[Value], Ty),
        in_rows: bool,
        span: Span,
    ) -> Vec<Value> {
        let mut bits = Bits { in_rows, ..Bits::default() };
        self.put(value.1, value.0, 0, &mut bits, span);
        self.take(ty, &bits, 0, span)
    }

    // ---- bits

    /// The number of the given type at an offset: the number that is there, or one made from its bits.
    fn number_at(&mut self, bits: &Bits, scalar: Scalar, at: u32) -> Value {
        if let Some(part) = bits.parts.iter().find(|p| p.0 == at && p.1 == scalar) {
            return part.2;
        }
        let base = at & !3;
        let word = self.word(bits, base);
        let raw = match bytes(scalar) {
            8 => {
                let high = self.word(bits, base + 4);
                let low = self.b.emit_typed(Op::Convert, &[word], Scalar::U64.into());
                let high = self.b.emit_typed(Op::Convert, &[high], Scalar::U64.into());
                let shift = self.b.constant(Scalar::U64, 32);
                let high = self.b.emit(Op::Shl, &[high, shift]);
                self.b.emit(Op::Or, &[low, high])
            }
            4 => word,
            _ => {
                let shift = self.b.u32((at - base) * 8);
                let part = self.b.emit(Op::Shr, &[word, shift]);
                self.b.emit_typed(Op::Convert, &[part], unsigned(scalar).into())
            }
        };
        if scalar == Scalar::Bool {
            let zero = self.b.u32(0);
            return self.b.emit(Op::Ne, &[raw, zero]);
        }
        if unsigned(scalar) == scalar { raw } else { self.b.emit_typed(Op::Bitcast, &[raw], scalar.into()) }
    }

    /// The 32 bits at an offset.
    fn word(&mut self, bits: &Bits, at: u32) -> Value {
        let mut result = None;
        for &(offset, scalar, value) in &bits.parts {
            let n = bytes(scalar);
            if offset + n <= at || offset >= at + 4 {
                continue;
            }
            let raw = if scalar == Scalar::Bool {
                self.b.emit_typed(Op::Convert, &[value], Type::U32)
            } else if unsigned(scalar) == scalar {
                value
            } else {
                self.b.emit_typed(Op::Bitcast, &[value], unsigned(scalar).into())
            };
            let part = match n {
                8 => {
                    let shift = self.b.constant(Scalar::U64, u64::from(at - offset) * 8);
                    let part = self.b.emit(Op::Shr, &[raw, shift]);
                    self.b.emit_typed(Op::Convert, &[part], Type::U32)
                }
                4 => raw,
                _ => {
                    let wide = self.b.emit_typed(Op::Convert, &[raw], Type::U32);
                    let shift = self.b.u32((offset - at) * 8);
                    self.b.emit(Op::Shl, &[wide, shift])
                }
            };
            result = Some(match result {
                None => part,
                Some(other) => self.b.emit(Op::Or, &[other, part]),
            });
        }
        match result {
            Some(word) => word,
            None => self.b.u32(0),
        }
    }

    // ---- memory

    fn memory_word(&mut self, memory: &Memory, field: u32, k: u32) -> Value {
        let place = memory.step(Step::Static(field)).step(Step::Static(k));
        self.b.emit_typed(Op::BufferLoad(place.ir_path()), &place.operands(), Type::U32)
    }

    /// Reads an existential value from memory.
    pub(crate) fn read_any_value(&mut self, memory: &Memory, ty: Ty, span: Span) -> Vec<Value> {
        let id = self.memory_word(memory, 1, 0);
        let words = self.lw.payload_size(ty, 0).div_ceil(4);
        let mut bits = Bits::default();
        for k in 0..words {
            bits.parts.push((4 * k, Scalar::U32, self.memory_word(memory, 2, k)));
        }
        self.by_id(ty, id, &bits, Holder::Memory, span)
    }

    /// The leaves of a value as it is in memory, where values of interface type are words.
    pub(crate) fn memory_leaves(&mut self, ty: Ty, values: Vec<Value>, span: Span) -> Vec<Value> {
        let layout = self.layout(ty);
        let is_open = layout.leaves.iter().any(|leaf| leaf.is_tag);
        if self.lw.program.is_existential(ty) {
            let words: SmallVec<[Value; 4]> = self.payload_words(ty, &values, span).into();
            let id = self.id_of(&values);
            let pair = self.b.func.ty(id);
            let rtti = self.b.zero(pair);
            let array = self.b.types.array(Type::U32, words.len() as u32);
            return vec![rtti, id, self.b.emit_typed(Op::Construct, &words, array)];
        }
        let differs = is_open || self.lw.holds_columns(self.b.types, ty);
        if let (Some((element, n)), true) = (self.lw.array_of(ty), differs) {
            if n == 0 || n > MAX_SIZE / HEADER {
                return self.unsupported(
                    span,
                    "an initial value with so many values of interface type or `column_major` matrices is",
                    ty,
                );
            }
            let mut columns: Vec<SmallVec<[Value; 4]>> = Vec::new();
            for k in 0..n {
                let inner = self.elements_at(&values, k);
                let leaves = self.memory_leaves(element, inner, span);
                columns.resize(leaves.len(), SmallVec::new());
                for (column, leaf) in columns.iter_mut().zip(leaves) {
                    column.push(leaf);
                }
            }
            let column = |body: &mut Self, column: &SmallVec<[Value; 4]>| {
                let array = body.b.types.array(body.b.func.ty(column[0]), n);
                body.b.emit_typed(Op::Construct, column, array)
            };
            return columns.iter().map(|c| column(self, c)).collect();
        }
        if self.lw.program.lies_in_columns(ty) {
            return self.in_columns(ty, &values).into_iter().collect();
        }
        if layout.parts.is_empty() {
            return values;
        }
        let mut leaves = Vec::new();
        for part in layout.parts.iter().filter(|p| !p.is_shadow) {
            let inner = values[part.offset..part.offset + part.len].to_vec();
            leaves.extend(self.memory_leaves(part.ty, inner, span));
        }
        leaves
    }

    /// The number of the type of a value in its memory format: two words.
    fn id_of(&mut self, values: &[Value]) -> Value {
        let pair = self.b.types.vector(Scalar::U32, 2);
        let Some(&tag) = values.first() else { return self.b.zero(pair) };
        let (zero, one) = (self.b.u32(0), self.b.u32(1));
        let id = self.b.emit(Op::Sub, &[tag, one]);
        self.b.emit_typed(Op::Construct, &[id, zero], pair)
    }

    /// Writes an existential value to memory.
    pub(crate) fn write_any_value(&mut self, memory: &Memory, ty: Ty, values: &[Value], span: Span) {
        let words = self.payload_words(ty, values, span);
        let id = self.id_of(values);
        let pair = self.b.func.ty(id);
        let rtti = self.b.zero(pair);
        let stores = [(memory.step(Step::Static(0)), rtti), (memory.step(Step::Static(1)), id)];
        let payload = memory.step(Step::Static(2));
        let words = (0u32..).zip(words).map(|(k, word)| (payload.step(Step::Static(k)), word));
        stores.into_iter().chain(words).for_each(|(place, value)| self.store(&place, value));
    }
}
