//! The leaves of a type: how a struct becomes a list of IR values.
//!
//! The order is that of declaration; a pair has the leaves of its primal, then those of its differential; an
//! array of structs is one array for each leaf. A [`DiffMap`] maps the leaves of `T` to the leaves of
//! `T.Differential`; both sides of every derivative operator agree on it.

use std::rc::Rc;

use check::DiffFieldTarget;
use check::signature::Subst;
use check::types::limits::MAX_LEAVES;
use check::types::{self as source, Ty, TyKind};
use ir::{MatrixOrder, MemData, MemType, Scalar, Type, TypeData, Types};
use syntax::{DeclId, Diagnostic};

use crate::layout::{DiffMap, Layout, Leaf, MAX_DEPTH, Part};
use crate::lowerer::Lowerer;

/// The IR's type of number for a source type.
pub(crate) fn scalar(scalar: source::Scalar) -> Scalar {
    match scalar {
        source::Scalar::Bool => Scalar::Bool,
        source::Scalar::Int8 => Scalar::I8,
        source::Scalar::Int16 => Scalar::I16,
        source::Scalar::Int => Scalar::I32,
        source::Scalar::Int64 => Scalar::I64,
        source::Scalar::UInt8 => Scalar::U8,
        source::Scalar::UInt16 => Scalar::U16,
        source::Scalar::UInt => Scalar::U32,
        source::Scalar::UInt64 => Scalar::U64,
        source::Scalar::Half => Scalar::F16,
        source::Scalar::Float => Scalar::F32,
        source::Scalar::Double => Scalar::F64,
        // their bits
        source::Scalar::BFloat16 => Scalar::U16,
        source::Scalar::FloatE4M3 | source::Scalar::FloatE5M2 => Scalar::U8,
    }
}

/// A number of lanes or elements that the IR can represent.
fn count(n: i64) -> Option<u32> {
    u32::try_from(n).ok()
}

impl Lowerer<'_> {
    /// The value of a compile-time integer without parameters.
    pub(crate) fn val(&mut self, val: &source::Val) -> Option<u32> {
        self.program.val_int(val, &Subst::default()).and_then(count)
    }

    /// The type of number of a scalar or enumeration.
    pub(crate) fn scalar_of(&mut self, ty: Ty) -> Option<Scalar> {
        match self.program.types[ty].clone() {
            TyKind::Scalar(s) => Some(scalar(s)),
            TyKind::Enum(decl) => {
                let tag = self.program.enum_tag(decl);
                match self.program.types[tag] {
                    TyKind::Scalar(s) => Some(scalar(s)),
                    _ => Some(Scalar::I32),
                }
            }
            _ => None,
        }
    }

    /// The scalar, rows and columns of a matrix.
    pub(crate) fn matrix_of(&mut self, ty: Ty) -> Option<(Scalar, u32, u32)> {
        let TyKind::Matrix(element, rows, columns, _) = self.program.types[ty].clone() else { return None };
        Some((self.scalar_of(element)?, self.val(&rows)?, self.val(&columns)?))
    }

    /// The scalar and length of a vector.
    pub(crate) fn vector_of(&mut self, ty: Ty) -> Option<(Scalar, u32)> {
        let TyKind::Vector(element, n, _) = self.program.types[ty].clone() else { return None };
        Some((self.scalar_of(element)?, self.val(&n)?))
    }

    /// The element and length of an array; the length is 0 if the array has none.
    pub(crate) fn array_of(&mut self, ty: Ty) -> Option<(Ty, u32)> {
        let TyKind::Array(element, n) = self.program.types[ty].clone() else { return None };
        let n = match n {
            Some(n) => self.val(&n)?,
            None => 0,
        };
        Some((element, n))
    }

    /// Reports invalid sizes that come from generic arguments: at the call that brings them, with a note at the
    /// declaration of the innermost struct around or else at the function that uses the type; if the code around is not
    /// generic, at that place.
    fn check_sizes(&mut self, ty: Ty) {
        let mut wrong = self.program.wrong_size(&self.program.types[ty], check::MAX_COOP_VEC);
        // An array of resources gets its length from the host.
        let is_open = match self.program.types[ty] {
            TyKind::Array(element, _) => self.is_resource(element),
            _ => false,
        };
        let has_none = self.program.has_no_size(ty) && !is_open && !self.has_errors();
        if has_none {
            wrong = Some(("E30025", "a size divides by zero or shifts by too many bits".to_string()));
        }
        let Some((code, message)) = wrong else { return };
        let around = self.types.open.iter().rev();
        let declared = around.map(|&ty| self.span_of_type(ty)).find(|span| span.file.0 != u32::MAX);
        let user = self.next.checked_sub(1).and_then(|k| Some(self.declared.get_index(k)?.1));
        let Some(span) = declared.or(user.map(|user| user.span)) else { return };
        let call = user.and_then(|user| self.call_from_outside(user.func));
        let help = match has_none {
            true => "give generic arguments for which it has a value".to_string(),
            false => format!("the generic arguments make it `{}`", self.program.type_name(ty)),
        };
        let error = Diagnostic::error(code, call.unwrap_or(span), message).help(help);
        self.diagnostics.push(if call.is_some() { error.note(span, "it is used here") } else { error });
    }

    /// The layout of a concrete type.
    pub(crate) fn layout(&mut self, types: &mut Types, ty: Ty) -> Rc<Layout> {
        self.layout_at(types, ty, 0)
    }

    pub(crate) fn layout_at(&mut self, types: &mut Types, ty: Ty, depth: u32) -> Rc<Layout> {
        if let Some(layout) = self.types.layouts.get(&ty).cloned() {
            self.check_circular(ty);
            return layout;
        }
        if depth > MAX_DEPTH {
            return Rc::default();
        }
        if let TyKind::Struct(decl, _) = self.program.types[ty] {
            self.program.check_size(decl);
        }
        self.check_sizes(ty);
        // A type that contains itself (through a pointer) sees itself as empty.
        self.types.layouts.insert(ty, Rc::default());
        self.types.open.push(ty);
        let one = |ty: Type| Layout {
            leaves: vec![Leaf { name: String::new(), ty, is_array: false, is_tag: false }],
            parts: Vec::new(),
        };
        let layout = match self.program.types[ty].clone() {
            TyKind::Scalar(_) | TyKind::Enum(_) => one(self.scalar_of(ty).unwrap_or(Scalar::I32).into()),
            // A string is its index in the table of texts.
            TyKind::String => one(Scalar::U32.into()),
            TyKind::Vector(..) => {
                self.vector_of(ty).map(|(s, n)| one(types.vector(s, n.max(1)))).unwrap_or_default()
            }
            TyKind::Matrix(..) => {
                let matrix = self.matrix_of(ty).map(|(s, r, c)| {
                    let row = types.vector(s, c.max(1));
                    one(types.array(row, r.max(1)))
                });
                matrix.unwrap_or_default()
            }
            TyKind::Array(..) => {
                let array = self.array_of(ty).map(|(element, n)| {
                    let element = self.layout_at(types, element, depth + 1);
                    let leaf = |leaf: &Leaf| {
                        let ty = types.array(leaf.ty, n);
                        Leaf { ty, is_array: true, ..leaf.clone() }
                    };
                    Layout { leaves: element.leaves.iter().map(leaf).collect(), parts: Vec::new() }
                });
                array.unwrap_or_default()
            }
            TyKind::Buffer(..) if self.block_content(ty).is_some() => {
                let content = self.block_content(ty).unwrap_or(ty);
                let leaves = self.layout_at(types, content, depth + 1).leaves.clone();
                Layout { leaves, parts: Vec::new() }
            }
            TyKind::Pointer(element, ..) => {
                let element = self.target_memory(types, element, depth);
                one(types.buffer(element))
            }
            TyKind::Buffer(_, element) => {
                // The target of a handle is not part of the value.
                let outer = std::mem::take(&mut self.types.open);
                let pointing = self.types.pointing.len();
                self.types.pointing.extend(&outer);
                let element = self.mem_type_at(types, element, depth + 1);
                self.types.pointing.truncate(pointing);
                self.types.open = outer;
                one(types.buffer(element))
            }
            TyKind::Laid(content, _) => (*self.layout_at(types, content, depth + 1)).clone(),
            TyKind::Struct(..) | TyKind::SynthDiff(_) => {
                let fields = self.program.fields(ty);
                let parts = fields.into_iter().map(|(decl, ty, no_diff)| {
                    let name = self.program.ast.name(self.program.ast.decls[decl].name).to_owned();
                    (name, ty, Some(decl), no_diff)
                });
                let parts: Vec<_> = parts.collect();
                let mut layout = self.product(types, parts, depth);
                if let Some(kept) = self.residuals_in(types, ty) {
                    let name = ".kept".to_owned();
                    layout.leaves.push(Leaf { name, ty: kept, is_array: false, is_tag: false });
                }
                if let Some(differential) = self.program.pointer_differential(ty) {
                    let bare = if differential == ty {
                        layout.leaves.clone()
                    } else {
                        let inner = self.layout_at(types, differential, depth + 1);
                        let end =
                            inner.parts.iter().find(|p| p.is_shadow).map_or(inner.leaves.len(), |p| p.offset);
                        inner.leaves[..end].to_vec()
                    };
                    let offset = layout.leaves.len();
                    layout.parts.push(Part {
                        offset,
                        len: bare.len(),
                        ty: differential,
                        decl: None,
                        no_diff: true,
                        name: "d".to_owned(),
                        is_shadow: true,
                    });
                    let named =
                        bare.into_iter().map(|leaf| Leaf { name: format!(".d{}", leaf.name), ..leaf });
                    layout.leaves.extend(named);
                }
                layout
            }
            TyKind::DiffPair(primal) | TyKind::DiffPtrPair(primal) => {
                let differential = match self.program.types[ty] {
                    TyKind::DiffPair(_) => self.program.differential(primal),
                    _ => self.program.pointer_differential(primal),
                };
                let mut parts = vec![("p".to_owned(), primal, None, false)];
                parts.extend(differential.map(|d| ("d".to_owned(), d, None, false)));
                self.product(types, parts, depth)
            }
            TyKind::Tuple(elements) | TyKind::Pack(elements) => {
                let parts = elements.iter().enumerate().map(|(k, &ty)| (format!("_{k}"), ty, None, false));
                self.product(types, parts.collect(), depth)
            }
            TyKind::Optional(value) => {
                let parts = vec![
                    ("value".to_owned(), value, None, false),
                    ("hasValue".to_owned(), Ty::BOOL, None, false),
                ];
                self.product(types, parts, depth)
            }
            TyKind::Interface(..) | TyKind::Assoc(..) => self.existential_layout(types, ty, depth),
            TyKind::Error
            | TyKind::Void
            | TyKind::Param(_)
            | TyKind::This(_)
            | TyKind::Each(_)
            | TyKind::PackPart(..)
            | TyKind::PackBranch(..)
            | TyKind::Expand(..)
            | TyKind::Opaque(..)
            | TyKind::NullPtr
            | TyKind::NoneLiteral
            | TyKind::Function(..) => Layout::default(),
        };
        self.types.open.pop();
        let layout = Rc::new(layout);
        self.types.layouts.insert(ty, layout.clone());
        layout
    }

    fn product(
        &mut self,
        types: &mut Types,
        fields: Vec<(String, Ty, Option<DeclId>, bool)>,
        depth: u32,
    ) -> Layout {
        let mut layout = Layout::default();
        for (name, ty, decl, no_diff) in fields {
            let inner = self.layout_at(types, ty, depth + 1);
            if self.too_large {
                return Layout::default();
            }
            let offset = layout.leaves.len();
            let leaf = |leaf: &Leaf| Leaf { name: format!(".{name}{}", leaf.name), ..leaf.clone() };
            layout.leaves.extend(inner.leaves.iter().map(leaf));
            let len = inner.leaves.len();
            layout.parts.push(Part { offset, len, ty, decl, no_diff, name, is_shadow: false });
            if layout.leaves.len() > MAX_LEAVES as usize {
                self.too_large = true;
                return Layout::default();
            }
        }
        layout
    }

    /// The range of the shadow in the leaves of a pointer-like type (or of an array of one).
    pub(crate) fn shadow_of(&mut self, types: &mut Types, ty: Ty) -> Option<std::ops::Range<usize>> {
        if let Some((element, _)) = self.array_of(ty) {
            return self.shadow_of(types, element);
        }
        let layout = self.layout(types, ty);
        layout.parts.iter().find(|p| p.is_shadow).map(|p| p.offset..p.offset + p.len)
    }

    /// Finds a field of a value that is a pointer.
    pub(crate) fn pointer_within(&mut self, types: &mut Types, ty: Ty, depth: u32) -> Option<DeclId> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some((element, _)) = self.array_of(ty) {
            return self.pointer_within(types, element, depth + 1);
        }
        let layout = self.layout(types, ty);
        for part in layout.parts.iter().filter(|p| !p.no_diff && !p.is_shadow) {
            let Some(field) = part.decl else { continue };
            if self.shadow_of(types, part.ty).is_some() {
                return Some(field);
            }
            if let Some(inner) = self.pointer_within(types, part.ty, depth + 1) {
                return Some(inner);
            }
        }
        None
    }

    /// The memory type of a concrete type.
    pub(crate) fn mem_type(&mut self, types: &mut Types, ty: Ty) -> MemType {
        self.mem_type_at(types, ty, 0)
    }

    /// Returns true if a value of a type contains a matrix that is column-major in memory.
    pub(crate) fn holds_columns(&mut self, types: &mut Types, ty: Ty) -> bool {
        if let Some((element, _)) = self.array_of(ty) {
            return self.holds_columns(types, element);
        }
        let layout = self.layout(types, ty);
        self.program.lies_in_columns(ty) || layout.parts.iter().any(|p| self.holds_columns(types, p.ty))
    }

    pub(crate) fn mem_type_at(&mut self, types: &mut Types, ty: Ty, depth: u32) -> MemType {
        if let Some(content) = self.block_content(ty).filter(|_| depth <= MAX_DEPTH) {
            return self.mem_type_at(types, content, depth + 1);
        }
        if let TyKind::Laid(content, layout) = self.program.types[ty] {
            let layout = self.program.data_layout(layout).unwrap_or_default();
            let outer = std::mem::replace(&mut self.types.data_layout, layout);
            let mem = self.mem_type_at(types, content, depth + 1);
            let mem = self.element_of_buffer(content, mem);
            self.types.data_layout = outer;
            return mem;
        }
        let data = self.mem_data(types, ty, depth);
        let data = data.unwrap_or_else(|| MemData::Struct {
            name: self.program.type_name(ty),
            fields: Vec::new(),
            placement: None,
        });
        let data = self.padded(ty, data);
        self.mem.intern(data)
    }

    /// The content of a type in memory; `None` if it has none.
    fn mem_data(&mut self, types: &mut Types, ty: Ty, depth: u32) -> Option<MemData> {
        if depth > MAX_DEPTH {
            return None;
        }
        Some(match self.program.types[ty].clone() {
            TyKind::Scalar(_) | TyKind::Enum(_) => MemData::Scalar(self.scalar_of(ty).unwrap_or(Scalar::I32)),
            TyKind::String => MemData::Scalar(Scalar::U32),
            TyKind::Vector(..) => self.vector_of(ty).map(|(s, n)| MemData::Vector(s, n))?,
            TyKind::Matrix(..) => match self.matrix_of(ty)? {
                (s, r, c) if self.program.lies_in_columns(ty) => {
                    MemData::Matrix(s, c, r, MatrixOrder::Columns)
                }
                (s, r, c) => MemData::Matrix(s, r, c, MatrixOrder::Rows),
            },
            TyKind::Array(..) => {
                let (element, n) = self.array_of(ty)?;
                MemData::Array(self.mem_type_at(types, element, depth + 1), n)
            }
            TyKind::Pointer(element, ..) => MemData::Handle(self.target_memory(types, element, depth)),
            TyKind::Buffer(_, element) => {
                let outer = std::mem::take(&mut self.types.data_layout);
                let element = self.mem_type_at(types, element, depth + 1);
                self.types.data_layout = outer;
                MemData::Handle(element)
            }
            TyKind::Interface(..) | TyKind::Assoc(..) => self.any_value_memory(ty),
            TyKind::Void => MemData::Scalar(Scalar::U8),
            _ => {
                if self.types.pointing.contains(&ty) {
                    let name = self.program.type_name(ty);
                    let what = format_args!("`{name}`, which contains a buffer of its own type, is");
                    self.unsupported(self.span_of_type(ty), what);
                }
                let layout = self.layout_at(types, ty, depth + 1);
                let parts: Vec<_> = layout.parts.iter().filter(|p| !p.is_shadow).collect();
                let fields = parts.iter().map(|p| (p.name.clone(), self.mem_type_at(types, p.ty, depth + 1)));
                let fields = fields.collect();
                let types: Vec<Ty> = parts.iter().map(|p| p.ty).collect();
                let placement = self.placement(&types);
                MemData::Struct { name: self.program.type_name(ty), fields, placement }
            }
        })
    }

    /// The map from leaves to tangents; `None` if the type is not differentiable.
    pub(crate) fn diff_map(&mut self, types: &mut Types, ty: Ty) -> Option<Rc<DiffMap>> {
        if let Some(map) = self.types.diff_maps.get(&ty) {
            return map.clone();
        }
        if !self.program.is_existential(ty) {
            // This ends the recursion for a struct that contains itself, which is an error.
            self.types.diff_maps.insert(ty, None);
        }
        let map = self.diff_map_uncached(types, ty).map(Rc::new);
        self.types.diff_maps.insert(ty, map.clone());
        map
    }

    fn diff_map_uncached(&mut self, types: &mut Types, ty: Ty) -> Option<DiffMap> {
        let differential = self.program.differential(ty)?;
        if self.program.is_existential(ty) {
            return Some(self.existential_diff_map(types, ty, differential));
        }
        let layout = self.layout(types, ty);
        let target = self.layout(types, differential);
        let mut map = vec![None; layout.leaves.len()];
        let mut same = Vec::new();
        let float = |types: &Types, k: usize| types.is_differentiable(layout.leaves[k].ty);
        match (self.program.types[ty].clone(), self.program.types[differential].clone()) {
            (TyKind::Array(a, _), TyKind::Array(..)) => {
                if let Some(inner) = self.diff_map(types, a) {
                    map.clone_from(&inner.map);
                    same.clone_from(&inner.same);
                }
            }
            (TyKind::Struct(..) | TyKind::SynthDiff(_), _) => {
                for (field, to) in self.program.diff_fields(ty) {
                    let (DiffFieldTarget::Same(to)
                    | DiffFieldTarget::Synth(to)
                    | DiffFieldTarget::Member(to)) = to;
                    let from = layout.parts.iter().find(|p| p.decl == Some(field));
                    let to = target.parts.iter().find(|p| p.decl == Some(to));
                    if let (Some(from), Some(to)) = (from, to) {
                        self.map_part(types, from, to, &mut map, &mut same);
                    }
                }
            }
            (
                TyKind::Tuple(_) | TyKind::DiffPair(_) | TyKind::DiffPtrPair(_) | TyKind::Optional(_),
                TyKind::Tuple(_) | TyKind::DiffPair(_) | TyKind::DiffPtrPair(_) | TyKind::Optional(_),
            ) => {
                for (from, to) in layout.parts.iter().zip(&target.parts) {
                    self.map_part(types, from, to, &mut map, &mut same);
                }
                if let (TyKind::Optional(_), Some(from), Some(to)) =
                    (&self.program.types[ty], layout.parts.get(1), target.parts.get(1))
                {
                    same.push((from.offset, to.offset));
                }
            }
            _ => {
                for (k, entry) in map.iter_mut().enumerate() {
                    let same = target.leaves.get(k).is_some_and(|leaf| leaf.ty == layout.leaves[k].ty);
                    *entry = (same && float(types, k)).then_some(k);
                }
            }
        }
        for (k, entry) in map.iter_mut().enumerate() {
            let fits =
                entry.is_some_and(|to| target.leaves.get(to).is_some_and(|t| t.ty == layout.leaves[k].ty));
            if !fits || !float(types, k) {
                *entry = None;
            }
        }
        Some(DiffMap { ty: differential, map, same })
    }

    fn map_part(
        &mut self,
        types: &mut Types,
        from: &Part,
        to: &Part,
        map: &mut [Option<usize>],
        same: &mut Vec<(usize, usize)>,
    ) {
        if from.no_diff || to.is_shadow {
            return;
        }
        let Some(inner) = self.diff_map(types, from.ty) else { return };
        if inner.map.len() != from.len {
            // This is a struct that contains itself, which is an error.
            return;
        }
        for (k, entry) in inner.map.iter().enumerate() {
            map[from.offset + k] = entry.map(|d| to.offset + d);
        }
        same.extend(inner.same.iter().map(|&(a, b)| (from.offset + a, to.offset + b)));
    }
}

/// The scalar type of a scalar, a vector, or an array of those, for types that are known to have one.
pub(crate) fn scalar_in(types: &Types, ty: Type) -> Scalar {
    types.scalar_of(ty).unwrap_or(Scalar::I32)
}

/// The row type and the number of rows of a matrix's IR type.
pub(crate) fn rows(types: &Types, ty: Type) -> Option<(Type, u32)> {
    match types[ty] {
        TypeData::Array(row, n) => Some((row, n)),
        TypeData::Scalar(_)
        | TypeData::Vector(..)
        | TypeData::Stack(_)
        | TypeData::Cell(_)
        | TypeData::Buffer(_)
        | TypeData::Residuals(_) => None,
    }
}
