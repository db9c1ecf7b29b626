//! The types of memory that the host sees: buffers and uniforms.
//!
//! Layout is C layout with scalar alignment, as on Slang's CPU target: a vector is as aligned as
//! its scalar (`float3` is 12 bytes), a struct as its most aligned field, `bool` is 1 byte.
//! Matrices are arrays of row vectors, or of column vectors. A struct may state another placement of its fields.

use cranelift_entity::EntityRef;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::entities::MemType;
use crate::ops::{Path, Step};
use crate::types::{Scalar, Type, Types};

/// The order in which the numbers of a matrix are laid out in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixOrder {
    /// Row by row.
    Rows,
    /// Column by column.
    Columns,
}

/// The structure of a [`MemType`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemData {
    /// One number.
    Scalar(Scalar),
    /// A vector, aligned as its scalar.
    Vector(Scalar, u32),
    /// An array without padding between elements other than the element's own.
    Array(MemType, u32),
    /// A matrix, laid out as an array of vectors, which are its rows or its columns: the number of vectors,
    /// then the number of scalars in each.
    Matrix(Scalar, u32, u32, MatrixOrder),
    /// A struct with named fields in declaration order.
    Struct {
        /// The source's name.
        name: String,
        /// Name and type of each field.
        fields: Vec<(String, MemType)>,
        /// Where the fields are, if not where C would place them.
        placement: Option<Box<Placement>>,
    },
    /// A pointer to, or handle of, another buffer: 8 bytes in the host's view, bound by name.
    Handle(MemType),
}

/// The layout of a struct that the program asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The offset of each field in bytes.
    pub offsets: Vec<u64>,
    /// The size in bytes, a multiple of the alignment.
    pub size: u64,
    /// The alignment in bytes.
    pub align: u64,
}

/// A part of memory that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A complete value of a memory type.
    Mem(MemType),
    /// A row of a matrix.
    Row(Scalar, u32),
    /// A number of a vector or row.
    Lane(Scalar),
}

impl Place {
    /// The size in bytes.
    pub fn bytes(self, mem: &MemTypes) -> u64 {
        match self {
            Place::Mem(ty) => mem.size(ty),
            Place::Row(s, n) => u64::from(s.bytes() * n),
            Place::Lane(s) => u64::from(s.bytes()),
        }
    }
}

/// The part of an element that a path selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The bytes before the part, as far as they are known.
    pub fixed: u64,
    /// For each dynamic step, the number of parts that it selects from and the size of each in bytes.
    pub choices: SmallVec<[(u32, u64); 2]>,
    /// The part.
    pub target: Place,
}

/// The interner of memory types.
#[derive(Clone, Debug, Default)]
pub struct MemTypes {
    set: IndexSet<MemData, FxBuildHasher>,
}

impl std::ops::Index<MemType> for MemTypes {
    type Output = MemData;
    fn index(&self, ty: MemType) -> &MemData {
        &self.set[ty.index()]
    }
}

impl MemTypes {
    /// The handle of `data`.
    pub fn intern(&mut self, data: MemData) -> MemType {
        MemType::new(self.set.insert_full(data).0)
    }

    /// The name of a type in the language of programs.
    pub fn type_name(&self, ty: MemType) -> String {
        match &self[ty] {
            MemData::Scalar(s) => s.word().to_string(),
            MemData::Vector(s, n) => format!("{}{n}", s.word()),
            MemData::Matrix(s, r, c, MatrixOrder::Columns) => format!("column_major {}{c}x{r}", s.word()),
            MemData::Matrix(s, r, c, MatrixOrder::Rows) => format!("{}{r}x{c}", s.word()),
            MemData::Array(t, n) => format!("{}[{n}]", self.type_name(*t)),
            MemData::Struct { name, .. } => name.clone(),
            MemData::Handle(t) => format!("{}*", self.type_name(*t)),
        }
    }

    /// Alignment in bytes.
    pub fn align(&self, ty: MemType) -> u64 {
        match &self[ty] {
            MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => s.bytes() as u64,
            MemData::Array(t, _) => self.align(*t),
            MemData::Struct { placement: Some(placement), .. } => placement.align,
            MemData::Struct { fields, .. } => fields.iter().map(|f| self.align(f.1)).max().unwrap_or(1),
            MemData::Handle(_) => 8,
        }
    }

    /// Size in bytes, a multiple of the alignment.
    pub fn size(&self, ty: MemType) -> u64 {
        match &self[ty] {
            MemData::Scalar(s) => s.bytes() as u64,
            MemData::Vector(s, n) => s.bytes() as u64 * *n as u64,
            MemData::Matrix(s, r, c, _) => s.bytes() as u64 * *r as u64 * *c as u64,
            MemData::Array(t, n) => self.size(*t).saturating_mul(*n as u64),
            MemData::Struct { placement: Some(placement), .. } => placement.size,
            MemData::Struct { fields, .. } => {
                let end = fields.iter().fold(0, |at, f| self.place(at, f.1).saturating_add(self.size(f.1)));
                end.checked_next_multiple_of(self.align(ty)).unwrap_or(u64::MAX)
            }
            MemData::Handle(_) => 8,
        }
    }

    /// The offset of a struct's field `idx`.
    pub fn field_offset(&self, ty: MemType, idx: usize) -> u64 {
        match &self[ty] {
            MemData::Struct { placement: Some(placement), .. } => placement.offsets[idx],
            MemData::Struct { fields, .. } => {
                let before =
                    fields[..idx].iter().fold(0, |at, f| self.place(at, f.1).saturating_add(self.size(f.1)));
                self.place(before, fields[idx].1)
            }
            _ => 0,
        }
    }

    fn place(&self, at: u64, ty: MemType) -> u64 {
        at.checked_next_multiple_of(self.align(ty)).unwrap_or(u64::MAX)
    }

    /// The IR type of a leaf: a scalar, vector, matrix, handle, or array of those. A struct (or an array of
    /// structs) is not a leaf.
    pub fn leaf(&self, types: &mut Types, ty: MemType) -> Option<Type> {
        Some(match &self[ty] {
            MemData::Scalar(s) => (*s).into(),
            MemData::Vector(s, n) => types.vector(*s, *n),
            MemData::Array(t, n) => {
                let element = self.leaf(types, *t)?;
                types.array(element, *n)
            }
            MemData::Matrix(s, r, c, _) => {
                let row = types.vector(*s, *c);
                types.array(row, *r)
            }
            MemData::Struct { .. } => return None,
            MemData::Handle(t) => types.buffer(*t),
        })
    }

    /// The IR type of the leaf that a path reaches from an element, if the path is valid and ends at a leaf.
    pub fn leaf_at(&self, types: &mut Types, ty: MemType, path: &Path) -> Option<Type> {
        let mut ty = ty;
        for (k, step) in path.0.iter().enumerate() {
            let fits = |n: u32| match *step {
                Step::Static(idx) => idx < n,
                Step::Dynamic => true,
            };
            let last = path.0.len() - k == 1;
            ty = match &self[ty] {
                MemData::Scalar(_) | MemData::Handle(_) => return None,
                MemData::Vector(s, n) => return (last && fits(*n)).then(|| (*s).into()),
                MemData::Matrix(s, r, c, _) => {
                    return match path.0.get(k + 1) {
                        _ if !fits(*r) => None,
                        None => Some(types.vector(*s, *c)),
                        Some(Step::Static(idx)) if idx >= c => None,
                        Some(_) => (k + 2 == path.0.len()).then(|| (*s).into()),
                    };
                }
                MemData::Array(t, n) if fits(*n) => *t,
                MemData::Array(..) => return None,
                MemData::Struct { fields, .. } => match *step {
                    Step::Static(idx) => fields.get(idx as usize)?.1,
                    Step::Dynamic => return None,
                },
            };
        }
        self.leaf(types, ty)
    }

    /// The part of an element that a path selects; `None` if the path is invalid.
    pub fn select(&self, ty: MemType, path: &[Step]) -> Option<Selection> {
        let mut found = Selection { fixed: 0, choices: SmallVec::new(), target: Place::Mem(ty) };
        for &step in path {
            let (n, next) = match found.target {
                Place::Lane(_) => return None,
                Place::Row(s, n) => (n, Place::Lane(s)),
                Place::Mem(ty) => match &self[ty] {
                    MemData::Scalar(_) | MemData::Handle(_) => return None,
                    MemData::Vector(s, n) => (*n, Place::Lane(*s)),
                    MemData::Array(t, n) => (*n, Place::Mem(*t)),
                    MemData::Matrix(s, rows, columns, _) => (*rows, Place::Row(*s, *columns)),
                    MemData::Struct { fields, .. } => {
                        let Step::Static(idx) = step else { return None };
                        found.fixed += self.field_offset(ty, idx as usize);
                        found.target = Place::Mem(fields.get(idx as usize)?.1);
                        continue;
                    }
                },
            };
            match step {
                Step::Static(idx) if idx >= n => return None,
                Step::Static(idx) => found.fixed += u64::from(idx) * next.bytes(self),
                Step::Dynamic => found.choices.push((n, next.bytes(self))),
            }
            found.target = next;
        }
        Some(found)
    }

    /// The memory type that a path of fields and elements leads to; `None` if it leads into a vector or
    /// matrix.
    pub fn part_at(&self, ty: MemType, path: &[Step]) -> Option<MemType> {
        path.iter().try_fold(ty, |ty, step| match (&self[ty], step) {
            (MemData::Array(t, _), _) => Some(*t),
            (MemData::Struct { fields, .. }, Step::Static(idx)) => Some(fields.get(*idx as usize)?.1),
            _ => None,
        })
    }

    /// Returns true for a matrix laid out column by column, and for arrays of such matrices.
    pub fn lies_in_columns(&self, ty: MemType) -> bool {
        match self[ty] {
            MemData::Matrix(.., order) => order == MatrixOrder::Columns,
            MemData::Array(t, _) => self.lies_in_columns(t),
            MemData::Scalar(_) | MemData::Vector(..) | MemData::Struct { .. } | MemData::Handle(_) => false,
        }
    }

    /// The IR types of the leaves of a memory type as a local value: a struct's fields in order, an
    /// array of structs as one array for each leaf.
    pub fn leaves(&self, types: &mut Types, ty: MemType) -> Vec<Type> {
        match &self[ty] {
            MemData::Struct { fields, .. } => fields.iter().flat_map(|f| self.leaves(types, f.1)).collect(),
            MemData::Array(t, n) => {
                let elements = self.leaves(types, *t);
                elements.into_iter().map(|e| types.array(e, *n)).collect()
            }
            MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) | MemData::Handle(_) => {
                self.leaf(types, ty).into_iter().collect()
            }
        }
    }

    /// The number of leaves of a memory type.
    pub fn n_leaves(&self, ty: MemType) -> usize {
        match &self[ty] {
            MemData::Struct { fields, .. } => fields.iter().map(|f| self.n_leaves(f.1)).sum(),
            MemData::Array(t, _) => self.n_leaves(*t),
            MemData::Scalar(_) | MemData::Vector(..) | MemData::Matrix(..) | MemData::Handle(_) => 1,
        }
    }

    /// All types, in the order in which they were interned.
    pub fn iter(&self) -> impl Iterator<Item = (MemType, &MemData)> {
        self.set.iter().enumerate().map(|(idx, data)| (MemType::new(idx), data))
    }
}
