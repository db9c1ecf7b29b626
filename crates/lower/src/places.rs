//! Places (lvalues): expressions that can be assigned, read or passed by reference.
//!
//! A place is evaluated once (its indices are values); then it can be read and written any number of times.
//! Parts of locals and of memory are places of their own; a part of anything else is written by reading the
//! whole, replacing the part, and writing the whole back.

use check::Accessors;
use check::tables::{Callable, Meaning};
use check::types::{BufferKind, Ty, TyKind, Val};
use ir::{Op, Step, Value};
use smallvec::SmallVec;
use syntax::ExprId;

use crate::body::{Body, Name, Slot, Var};
use crate::leaves::scalar_in;

/// A place and its type.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) ty: Ty,
    pub(crate) kind: PlaceKind,
}

#[derive(Clone, Debug)]
pub(crate) enum PlaceKind {
    /// Leaves of a local, each indexed by all `indices`. `stale` are the shadows that become invalid when
    /// this place is written.
    Slots { start: usize, len: usize, indices: Vec<Value>, stale: Vec<Stale> },
    /// A part of an element of memory.
    Memory(Memory),
    /// A temporary: writes are lost.
    Value(Vec<Value>),
    /// A part of another place.
    Part { base: Box<Place>, part: Proj },
    /// A property or a user-defined subscript.
    Accessor(Box<Accessor>),
    /// The parts of a pack or tuple, each with its own place.
    Group(Vec<Place>),
    /// One of several places, by its number, counted from 1; 0 is none: it reads zero, and writes are lost.
    Chosen { number: Value, places: Vec<Place> },
}

/// A part of an element of memory.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) handle: Value,
    pub(crate) element: Value,
    pub(crate) path: Vec<Step>,
    pub(crate) dynamic: Vec<Value>,
    /// The place is a row of a column-major matrix that the path leads to: the index of the row and the
    /// number of rows.
    pub(crate) row: Option<(Value, u32)>,
}

/// A step from a whole to a part.
#[derive(Clone, Debug)]
pub(crate) enum Proj {
    /// A field: its index, and the range of its leaves.
    Field { idx: usize, offset: usize, len: usize },
    /// An element of an array.
    Element(Value),
    /// A row of a matrix, or a lane of a vector.
    Row(Value),
    /// Lanes of a vector (a scalar counts as a vector with one lane), or entries of a matrix, each given by its
    /// row and its column; a single one gives a scalar.
    Scalars(SmallVec<[SmallVec<[u8; 2]>; 4]>),
}

/// The shadow of a local that is a pointer: its slots, and how many of a place's indices apply to them.
#[derive(Clone, Debug)]
pub(crate) struct Stale {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) n_indices: usize,
}

/// A property or subscript of a place.
#[derive(Clone, Debug)]
pub(crate) struct Accessor {
    /// The receiver; `None` for static accessors.
    pub(crate) base: Option<Place>,
    pub(crate) accessors: Accessors,
    /// The accessors of the interface, if the expression names one of those.
    pub(crate) named: Accessors,
    /// The values of the subscript's arguments, in their own types.
    pub(crate) args: Vec<(Vec<Value>, Ty)>,
    pub(crate) span: syntax::Span,
}

impl Place {
    /// The place of a local.
    pub(crate) fn local(Var { start, len, ty }: Var) -> Place {
        Place { ty, kind: PlaceKind::Slots { start, len, indices: Vec::new(), stale: Vec::new() } }
    }

    pub(crate) fn value(ty: Ty, values: Vec<Value>) -> Place {
        Place { ty, kind: PlaceKind::Value(values) }
    }

    pub(crate) fn memory(ty: Ty, handle: Value, element: Value) -> Place {
        let memory = Memory { handle, element, path: Vec::new(), dynamic: Vec::new(), row: None };
        Place { ty, kind: PlaceKind::Memory(memory) }
    }
}

impl Body<'_, '_, '_> {
    /// The place of the receiver of a member: of an expression, or else of `this`.
    pub(crate) fn base_place(&mut self, base: Option<ExprId>, e: ExprId) -> Place {
        match base {
            Some(base) => self.place_as_context(base),
            None => self.this_place(e),
        }
    }

    /// The place of an expression, before any conversion.
    pub(crate) fn place(&mut self, e: ExprId) -> Place {
        let place = self.nested(self.span_of(e), |body| body.place_inner(e));
        place.unwrap_or_else(|| {
            let ty = self.raw_ty(e);
            Place::value(ty, self.zeros(ty))
        })
    }

    fn place_inner(&mut self, e: ExprId) -> Place {
        let ty = self.raw_ty(e);
        match self.lw.program.tables.exprs[e].meaning.clone() {
            Meaning::Var(decl) => self.variable_place(e, decl, ty),
            Meaning::StaticMember(member) => self.static_member_place(e, &member, ty),
            Meaning::This => self.this_place(e),
            Meaning::Field { base, field } => {
                let base = self.base_place(base, e);
                self.field_place(base, field, ty, e)
            }
            Meaning::DiffField { base, field } => {
                let base = self.place_as_context(base);
                self.field_place(base, field, ty, e)
            }
            Meaning::PairField { base, primal } => {
                let base = self.place_as_context(base);
                self.part_place(base, usize::from(!primal), ty)
            }
            Meaning::TupleField { base, idx } => {
                let base = self.place_as_context(base);
                self.part_place(base, idx as usize, ty)
            }
            Meaning::Swizzle { base, comps } => {
                let base = self.place_as_context(base);
                if let TyKind::Matrix(..) = self.lw.program.types[base.ty] {
                    // In an instance where the components are vectors, of which there is one.
                    let first = self.b.u32(0);
                    return self.index_place(base, first, ty, e);
                }
                let comps = comps.into_iter().map(|lane| [lane].into_iter().collect());
                self.project(base, Proj::Scalars(comps.collect()), ty)
            }
            Meaning::MatrixSwizzle { base, comps } => {
                let base = self.place_as_context(base);
                let comps = comps.into_iter().map(|(row, column)| [row, column].into_iter().collect());
                self.project(base, Proj::Scalars(comps.collect()), ty)
            }
            Meaning::Index { base, index } => {
                let base = self.place_as_context(base);
                let index = match self.locals.fixed.iter().rev().find(|fixed| fixed.0 == index) {
                    Some(&(_, value)) => vec![value],
                    None => self.expr(index),
                };
                let Some(&index) = index.first() else { return Place::value(ty, Vec::new()) };
                let is_single = self.lw.vector_of(base.ty).is_some_and(|(_, n)| n == 1);
                let index = if is_single { self.b.u32(0) } else { index };
                self.index_place(base, index, ty, e)
            }
            Meaning::Deref(inner) => {
                let handle = self.expr(inner);
                let Some(&handle) = handle.first() else { return Place::value(ty, Vec::new()) };
                self.content_place(ty, handle)
            }
            Meaning::Chosen(pointer) => self.chosen_place(pointer, ty),
            Meaning::Same(inner) => self.place_as_context(inner),
            Meaning::Call { func: Callable::Func(func), base, args }
                if self.lw.program.gives_place(func.decl) =>
            {
                self.called_place(e, &func, base, &args, ty)
            }
            Meaning::Each(inner) => {
                let span = self.span_of(e);
                self.each_place(inner, ty, span)
            }
            Meaning::PackPart(part, inner) => self.pack_part(inner, part, ty),
            Meaning::Expand { inner, shape } => {
                let span = self.span_of(e);
                self.expand_place(inner, &shape, ty, span)
            }
            Meaning::TupleSwizzle { base, comps } => self.tuple_swizzle(base, &comps, ty),
            Meaning::Property { base, member, args } => self.accessor_place(e, base, &member, &args, ty),
            Meaning::Assign { target, .. } | Meaning::AssignCall { target, .. } => {
                self.expr_raw(e);
                self.place(target)
            }
            _ => {
                let values = self.value_raw(e);
                Place::value(ty, values)
            }
        }
    }

    /// The place of an expression as its context sees it: the content of a constant buffer or pointer, or the
    /// base of a struct. Any other conversion makes it a temporary.
    pub(crate) fn place_as_context(&mut self, e: ExprId) -> Place {
        let (own, seen) = (self.raw_ty(e), self.expr_ty(e));
        let place = self.place(e);
        if own == seen {
            return place;
        }
        if let Some(place) = self.block_place(&place, own, seen) {
            return place;
        }
        if let TyKind::Struct(..) = self.lw.program.types[own] {
            let (whole, base) = (self.layout(own), self.layout(seen));
            // The leaves of the base come first.
            let is_prefix = base.leaves.len() <= whole.leaves.len()
                && base.leaves.iter().zip(&whole.leaves).all(|(a, b)| a.ty == b.ty);
            if let (true, PlaceKind::Slots { start, indices, .. }) = (is_prefix, &place.kind) {
                let (len, indices) = (base.leaves.len(), indices.clone());
                let kind = PlaceKind::Slots { start: *start, len, indices, stale: Vec::new() };
                return Place { ty: seen, kind };
            }
        }
        let values = self.read(&place);
        let span = self.span_of(e);
        let values = self.convert(values, own, seen, span);
        Place::value(seen, values)
    }

    /// The content `seen` of a pointer or block of type `own`, or of a block in a block.
    fn block_place(&mut self, place: &Place, own: Ty, seen: Ty) -> Option<Place> {
        let (content, is_block) = match self.lw.program.types[own] {
            TyKind::Buffer(BufferKind::ConstantBuffer | BufferKind::ParameterBlock, content) => {
                (content, true)
            }
            TyKind::Pointer(content, ..) => (content, false),
            _ => return None,
        };
        let content = self.lw.program.types.bare(content);
        let is_inner = |body: &Self, ty| {
            let kind = &body.lw.program.types[ty];
            matches!(kind, TyKind::Buffer(BufferKind::ConstantBuffer | BufferKind::ParameterBlock, _))
        };
        if content != seen && !(is_block && is_inner(self, content)) {
            return None;
        }
        let values = self.read(place);
        let inner = match (self.lw.block_content(own), values.first()) {
            // The block is the value of its content.
            (Some(_), _) => Place::value(content, values),
            (None, Some(&handle)) => self.content_place(content, handle),
            (None, None) => return Some(Place::value(seen, Vec::new())),
        };
        if content == seen { Some(inner) } else { self.block_place(&inner, content, seen) }
    }

    /// The first element of memory.
    pub(crate) fn content_place(&mut self, ty: Ty, handle: Value) -> Place {
        let handle = self.opened(handle);
        let zero = self.b.u32(0);
        Place::memory(ty, handle, zero)
    }

    pub(crate) fn this_place(&mut self, e: ExprId) -> Place {
        if let Some(alias) = &self.this_alias {
            return alias.clone();
        }
        if let Some(place) = self.place_in_memory(Name::This) {
            return place;
        }
        match self.locals.vars.get(&Name::This).copied() {
            Some(var) => Place::local(var),
            None => {
                let (ty, span) = (self.raw_ty(e), self.span_of(e));
                Place::value(ty, self.internal(span, "`this` is used where there is none", ty))
            }
        }
    }

    fn variable_place(&mut self, e: ExprId, decl: syntax::DeclId, ty: Ty) -> Place {
        if let Some(place) = self.place_in_memory(Name::Decl(decl)) {
            return place;
        }
        match self.locals.vars.get(&Name::Decl(decl)).copied() {
            Some(var) => Place::local(var),
            None => self.global_place(e, decl, ty),
        }
    }

    pub(crate) fn field_place(&mut self, base: Place, field: syntax::DeclId, ty: Ty, e: ExprId) -> Place {
        let layout = self.layout(base.ty);
        let Some(idx) = layout.parts.iter().position(|p| p.decl == Some(field)) else {
            let values = self.internal(self.span_of(e), "a field is not in its struct", ty);
            return Place::value(ty, values);
        };
        self.part_place(base, idx, ty)
    }

    /// The part of a struct, tuple, pair or optional with this index.
    pub(crate) fn part_place(&mut self, base: Place, idx: usize, ty: Ty) -> Place {
        let layout = self.layout(base.ty);
        let Some(part) = layout.parts.get(idx) else {
            let values = self.zeros(ty);
            return Place::value(ty, values);
        };
        let (offset, len) = (part.offset, part.len);
        self.project(base, Proj::Field { idx, offset, len }, part.ty)
    }

    /// `base[index]` for built-in types.
    pub(crate) fn index_place(&mut self, base: Place, index: Value, ty: Ty, e: ExprId) -> Place {
        match self.lw.program.types[base.ty].clone() {
            // Each is its own number.
            TyKind::Array(element, _) if self.lw.program.is_dynamic_resource(element) => {
                let number = self.convert_leaf(index, ir::Type::U32);
                Place::value(ty, vec![number])
            }
            TyKind::Array(element, length)
                if length.is_none() || length == Some(Val::Error) && self.lw.is_resource(element) =>
            {
                if let PlaceKind::Memory(memory) = &base.kind
                    && let Some(place) = self.element_behind(memory, element, index, e)
                {
                    return place;
                }
                if self.lw.is_resource(element) {
                    // How many resources there are, the host says.
                    if !self.lw.only_checks {
                        self.lw.no_length(self.span_of(e), None);
                    }
                    let values = self.zeros(ty);
                    return Place::value(ty, values);
                }
                let what = "an element of an array without a length in memory is";
                let values = self.unsupported(self.span_of(e), what, ty);
                self.lw
                    .help("only behind a pointer to the struct, `p->data[i]`, is there memory for elements");
                Place::value(ty, values)
            }
            TyKind::Array(..) => self.project(base, Proj::Element(index), ty),
            TyKind::Matrix(..) | TyKind::Vector(..) => self.project(base, Proj::Row(index), ty),
            TyKind::Buffer(..) | TyKind::Pointer(..) => {
                let handle = self.read(&base);
                let Some(&handle) = handle.first() else { return Place::value(ty, Vec::new()) };
                let handle = self.opened(handle);
                Place::memory(ty, handle, index)
            }
            _ => {
                let name = self.lw.program.type_name(base.ty);
                let what = format_args!("indexing a `{name}` is");
                Place::value(ty, self.unsupported(self.span_of(e), what, ty))
            }
        }
    }

    /// A part of a place.
    pub(crate) fn project(&mut self, base: Place, part: Proj, ty: Ty) -> Place {
        match base.kind {
            PlaceKind::Value(values) => {
                let values = self.read_part(&values, &part, ty);
                Place::value(ty, values)
            }
            PlaceKind::Slots { start, len, mut indices, mut stale } => match part {
                Proj::Field { offset, len, .. } => {
                    stale.extend(self.stale_shadow(base.ty, ty, start, indices.len()));
                    Place { ty, kind: PlaceKind::Slots { start: start + offset, len, indices, stale } }
                }
                Proj::Element(index) => {
                    indices.push(index);
                    Place { ty, kind: PlaceKind::Slots { start, len, indices, stale } }
                }
                Proj::Row(index) if len == 1 && matches!(self.env[start], Slot::Cell(_)) => {
                    indices.push(index);
                    Place { ty, kind: PlaceKind::Slots { start, len, indices, stale } }
                }
                part => {
                    let kind = PlaceKind::Slots { start, len, indices, stale };
                    let base = Box::new(Place { ty: base.ty, kind });
                    Place { ty, kind: PlaceKind::Part { base, part } }
                }
            },
            PlaceKind::Memory(mut memory) => match part {
                Proj::Field { idx, .. } => {
                    memory.path.push(Step::Static(idx as u32));
                    Place { ty, kind: PlaceKind::Memory(memory) }
                }
                Proj::Row(index) if memory.row.is_none() && self.lies_in_columns(&memory) => {
                    memory.row = Some((index, self.extent(base.ty)));
                    Place { ty, kind: PlaceKind::Memory(memory) }
                }
                Proj::Element(index) | Proj::Row(index) => {
                    let n = self.extent(base.ty);
                    let memory = self.part_in_memory(&memory, index, n);
                    Place { ty, kind: PlaceKind::Memory(memory) }
                }
                Proj::Scalars(comps)
                    if comps.len() == 1 && !matches!(self.lw.program.types[base.ty], TyKind::Scalar(_)) =>
                {
                    let memory = match comps[0][..] {
                        [row, column] if self.lies_in_columns(&memory) => memory.lane(column).lane(row),
                        [row, column] => memory.lane(row).lane(column),
                        _ => self.lane_in_memory(&memory, comps[0][0].into()),
                    };
                    Place { ty, kind: PlaceKind::Memory(memory) }
                }
                part => {
                    let base = Box::new(Place { ty: base.ty, kind: PlaceKind::Memory(memory) });
                    Place { ty, kind: PlaceKind::Part { base, part } }
                }
            },
            PlaceKind::Group(places) => match part {
                Proj::Field { idx, .. } if idx < places.len() => places[idx].clone(),
                part => {
                    let whole = Place { ty: base.ty, kind: PlaceKind::Group(places) };
                    let values = self.read(&whole);
                    let values = self.read_part(&values, &part, ty);
                    Place::value(ty, values)
                }
            },
            PlaceKind::Chosen { number, places } => {
                let places = places.into_iter().map(|place| self.project(place, part.clone(), ty)).collect();
                Place { ty, kind: PlaceKind::Chosen { number, places } }
            }
            kind @ (PlaceKind::Part { .. } | PlaceKind::Accessor(_)) => {
                let base = Box::new(Place { ty: base.ty, kind });
                Place { ty, kind: PlaceKind::Part { base, part } }
            }
        }
    }

    /// The number of elements, rows or lanes of a type.
    fn extent(&mut self, ty: Ty) -> u32 {
        self.lw
            .array_of(ty)
            .map(|a| a.1)
            .or_else(|| self.lw.vector_of(ty).map(|v| v.1))
            .or_else(|| self.lw.matrix_of(ty).map(|m| m.1))
            .unwrap_or(0)
    }

    // ---- reading and writing

    pub(crate) fn read(&mut self, place: &Place) -> Vec<Value> {
        match &place.kind {
            PlaceKind::Slots { start, len, indices, .. } => {
                (*start..start + len).map(|slot| self.read_indexed(slot, indices)).collect()
            }
            PlaceKind::Memory(memory) => self.read_memory(memory, place.ty),
            PlaceKind::Value(values) => values.clone(),
            PlaceKind::Part { base, part } => {
                let whole = self.read(base);
                self.read_part(&whole, part, place.ty)
            }
            PlaceKind::Accessor(accessor) => self.read_accessor(accessor, place.ty),
            PlaceKind::Group(places) => places.iter().flat_map(|p| self.read(p)).collect(),
            PlaceKind::Chosen { number, places } => self.read_chosen(*number, places, place.ty),
        }
    }

    pub(crate) fn write(&mut self, place: &Place, values: Vec<Value>) {
        match &place.kind {
            PlaceKind::Slots { start, len, indices, stale } => {
                for (slot, value) in (*start..start + len).zip(values) {
                    self.write_indexed(slot, indices, value);
                }
                self.forget(indices, stale);
            }
            PlaceKind::Memory(memory) => self.write_memory(memory, place.ty, &values),
            PlaceKind::Value(_) => {}
            PlaceKind::Part { base, part } => {
                let whole = self.read(base);
                let whole = self.replace_part(whole, part, values);
                self.write(base, whole);
            }
            PlaceKind::Accessor(accessor) => self.write_accessor(accessor, values),
            PlaceKind::Group(places) => self.write_group(places, values),
            PlaceKind::Chosen { number, places } => self.write_chosen(*number, places, &values),
        }
    }

    pub(crate) fn read_indexed(&mut self, slot: usize, indices: &[Value]) -> Value {
        match self.env[slot] {
            Slot::Cell(cell) => self.b.emit(Op::Load, &[&[cell], indices].concat()),
            Slot::Value(value) => indices.iter().fold(value, |value, &index| self.element(value, index)),
        }
    }

    pub(crate) fn write_indexed(&mut self, slot: usize, indices: &[Value], new: Value) {
        match self.env[slot] {
            Slot::Cell(cell) => {
                self.b.effect(Op::Store, &[&[cell], indices, &[new]].concat());
            }
            Slot::Value(old) => {
                let value = self.with_element(old, indices, new);
                self.keep_name(old, value);
                self.env[slot] = Slot::Value(value);
            }
        }
    }

    /// An array with the element at these indices replaced.
    fn with_element(&mut self, old: Value, indices: &[Value], new: Value) -> Value {
        let Some((&first, rest)) = indices.split_first() else { return new };
        let n = self.length(self.b.func.ty(old));
        if let Some(k) = self.constant_of(first).filter(|&k| k < n as u64) {
            let inner = if rest.is_empty() {
                new
            } else {
                let inner = self.b.emit(Op::Extract(k as u32), &[old]);
                self.with_element(inner, rest, new)
            };
            return self.b.emit(Op::Insert(k as u32), &[old, inner]);
        }
        if !self.is_data(old) {
            // Handles are never in cells, so each index is compared.
            return self.select_element(old, first, |body, before| body.with_element(before, rest, new));
        }
        let cell = self.b.emit(Op::Local, &[old]);
        self.b.effect(Op::Store, &[&[cell], indices, &[new]].concat());
        self.b.emit(Op::Load, &[cell])
    }

    /// The number of elements of a vector or array.
    pub(crate) fn length(&self, ty: ir::Type) -> u32 {
        self.b.types.length(ty).unwrap_or(0)
    }

    /// Element `index` of a vector or array value.
    pub(crate) fn element(&mut self, value: Value, index: Value) -> Value {
        let n = self.length(self.b.func.ty(value));
        match self.constant_of(index) {
            Some(k) if k < n as u64 => self.b.emit(Op::Extract(k as u32), &[value]),
            _ => self.b.emit(Op::Index, &[value, index]),
        }
    }

    /// A part of a value.
    pub(crate) fn read_part(&mut self, values: &[Value], part: &Proj, ty: Ty) -> Vec<Value> {
        match part {
            Proj::Field { offset, len, .. } => {
                values.get(*offset..offset + len).map(<[Value]>::to_vec).unwrap_or_default()
            }
            Proj::Element(index) => values.iter().map(|&v| self.element(v, *index)).collect(),
            Proj::Row(index) => values.iter().take(1).map(|&v| self.element(v, *index)).collect(),
            Proj::Scalars(comps) => {
                let Some(&value) = values.first() else { return Vec::new() };
                let own = self.b.func.ty(value);
                let result = self.layout(ty).leaves.first().map_or(own, |leaf| leaf.ty);
                let is_scalar = self.b.types.lanes(result).is_none();
                if self.b.types.scalar_of(own).map(ir::Type::from) == Some(own) {
                    // A scalar counts as a vector with one lane.
                    let splat = |body: &mut Self| body.b.emit_typed(Op::Splat, &[value], result);
                    return vec![if is_scalar { value } else { splat(self) }];
                }
                let is_identity = comps.iter().zip(0u8..).all(|(at, k)| at[..] == [k]);
                if own == result && is_identity {
                    return vec![value];
                }
                let scalar = |body: &mut Self, k: u32| {
                    let path = comps[k as usize].iter();
                    path.fold(value, |v, &at| body.b.emit(Op::Extract(at.into()), &[v]))
                };
                vec![if is_scalar { scalar(self, 0) } else { self.construct(result, scalar) }]
            }
        }
    }

    /// A value with a part replaced.
    fn replace_part(&mut self, mut whole: Vec<Value>, part: &Proj, new: Vec<Value>) -> Vec<Value> {
        match part {
            Proj::Field { offset, .. } => {
                for (k, value) in new.into_iter().enumerate() {
                    if let Some(slot) = whole.get_mut(offset + k) {
                        *slot = value;
                    }
                }
                whole
            }
            Proj::Element(index) => {
                whole.iter().zip(new).map(|(&old, new)| self.with_element(old, &[*index], new)).collect()
            }
            Proj::Row(index) => {
                let replaced = |(&old, new): (&Value, Value)| {
                    let n = self.length(self.b.func.ty(old));
                    match self.constant_of(*index).filter(|&k| k < u64::from(n)) {
                        Some(k) => self.b.emit(Op::Insert(k as u32), &[old, new]),
                        None => self.select_element(old, *index, |_, _| new),
                    }
                };
                whole.iter().zip(new).map(replaced).collect()
            }
            Proj::Scalars(comps) => {
                let (Some(&old), Some(&new)) = (whole.first(), new.first()) else { return whole };
                if self.length(self.b.func.ty(old)) == 0 {
                    return vec![new];
                }
                let is_scalar = self.length(self.b.func.ty(new)) == 0;
                let mut value = old;
                for (k, at) in comps.iter().enumerate() {
                    let one = if is_scalar { new } else { self.b.emit(Op::Extract(k as u32), &[new]) };
                    value = self.with_scalar(value, at, one);
                }
                vec![value]
            }
        }
    }

    /// A vector with a lane replaced, or a matrix with an entry.
    fn with_scalar(&mut self, value: Value, at: &[u8], new: Value) -> Value {
        let Some((&first, rest)) = at.split_first() else { return new };
        let inner = match rest {
            [] => new,
            _ => {
                let row = self.b.emit(Op::Extract(first.into()), &[value]);
                self.with_scalar(row, rest, new)
            }
        };
        self.b.emit(Op::Insert(first.into()), &[value, inner])
    }

    /// A vector with the lane (or a matrix with the row) at `index` replaced, by comparing `index` with each
    /// number.
    fn select_element(
        &mut self,
        old: Value,
        index: Value,
        mut new: impl FnMut(&mut Self, Value) -> Value,
    ) -> Value {
        let scalar = scalar_in(self.b.types, self.b.func.ty(index));
        self.construct(self.b.func.ty(old), |body, k| {
            let before = body.b.emit(Op::Extract(k), &[old]);
            let new = new(body, before);
            let number = body.b.constant(scalar, u64::from(k));
            let hit = body.b.emit(Op::Eq, &[index, number]);
            body.b.emit(Op::Select, &[hit, new, before])
        })
    }
}
