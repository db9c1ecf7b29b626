//! Data layouts: where the parts of a value are in memory.
//!
//! `extent_in(T, L)` ↦ (size, alignment) in bytes. A struct ends with its last field; where elements follow one
//! another, the size is rounded up to the alignment. The layouts differ in the size of `bool`, in the alignment of
//! vectors, and in what may lie in the padding at the end of a struct:
//!
//! | layout | `bool` | vector | after a struct or array |
//! | --- | --- | --- | --- |
//! | natural | 1 | as its scalar | at once |
//! | C | 1 | as its scalar | at its alignment |
//! | scalar | 4 | as its scalar | at once |
//! | std430 | 4 | of 2: 2 scalars, of 3 and 4: 4 scalars | at its alignment |
//! | std140 | 4 | as std430; structs and elements of arrays: at least 16 bytes | at its alignment |

use syntax::DeclId;

use crate::program::Program;
use crate::types::{Scalar, Ty, TyKind, Val};

/// A rule by which values are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataLayout {
    /// The layout that `sizeof` counts where no layout is named.
    #[default]
    Natural,
    /// That of memory which the host sees, where no layout is named.
    C,
    /// `ScalarDataLayout`
    Scalar,
    /// `Std430DataLayout`
    Std430,
    /// `Std140DataLayout`
    Std140,
}

impl DataLayout {
    /// The layout that a type of the library names.
    fn by_name(name: &str) -> Option<DataLayout> {
        Some(match name {
            "DefaultDataLayout" | "DefaultPushConstantDataLayout" => DataLayout::Natural,
            "CDataLayout" => DataLayout::C,
            "ScalarDataLayout" => DataLayout::Scalar,
            "Std430DataLayout" => DataLayout::Std430,
            "Std140DataLayout" => DataLayout::Std140,
            _ => return None,
        })
    }

    /// The size of a scalar.
    fn scalar(self, scalar: Scalar) -> i64 {
        match (scalar, self) {
            (Scalar::Bool, DataLayout::Scalar | DataLayout::Std430 | DataLayout::Std140) => 4,
            _ => i64::from(scalar.size()),
        }
    }

    /// Returns true if vectors are aligned as a whole.
    fn aligns_vectors(self) -> bool {
        matches!(self, DataLayout::Std430 | DataLayout::Std140)
    }

    fn vector(self, scalar: i64, n: i64) -> (i64, i64) {
        match n {
            2 if self.aligns_vectors() => (2 * scalar, 2 * scalar),
            3 | 4 if self.aligns_vectors() => (n * scalar, 4 * scalar),
            _ => (n * scalar, scalar),
        }
    }

    /// The distance from one element of an array to the next, and the array's alignment.
    pub fn stride(self, (size, align): (i64, i64)) -> (i64, i64) {
        let align = if self == DataLayout::Std140 { round_up(align, 16) } else { align };
        (round_up(size, align), align)
    }

    fn array(self, element: (i64, i64), n: i64) -> Option<(i64, i64)> {
        let (stride, align) = self.stride(element);
        if self.aligns_vectors() && n > 0 {
            return Some((stride.checked_mul(n - 1)?.checked_add(element.0)?, align));
        }
        Some((stride.checked_mul(n)?, align))
    }
}

/// The places of the fields of a struct.
#[derive(Clone, Debug)]
pub struct Fields {
    /// The offset of each field.
    pub offsets: Vec<i64>,
    /// The end of the last field.
    pub size: i64,
    /// The alignment of the struct.
    pub align: i64,
}

impl Program {
    /// The layout that a type names; `None` for a type that is not known yet, or is none of the library's.
    pub fn data_layout(&self, ty: Ty) -> Option<DataLayout> {
        match self.types[ty] {
            TyKind::Struct(decl, _) if self.is_core(decl) => DataLayout::by_name(self.ast.decl_name(decl)),
            _ => None,
        }
    }

    /// Returns true if the bounds of a type that is not known yet let it be a data layout only.
    pub(crate) fn is_bound_by_layouts(&mut self, ty: Ty) -> bool {
        let named = self.ast.symbols.find("IBufferDataLayout");
        let found = named.and_then(|name| self.modules.all[0].names.get(&name)?.first().copied());
        found.is_some_and(|interface| {
            let bound = self.types.intern(TyKind::Interface(interface, Vec::new()));
            self.conforms(ty, bound)
        })
    }

    /// A type as it is stored with a layout. The default layout is none.
    pub(crate) fn laid(&mut self, ty: Ty, layout: Ty) -> Ty {
        match self.data_layout(layout) {
            Some(DataLayout::Natural) => ty,
            _ if layout == Ty::ERROR || matches!(self.types[ty], TyKind::Laid(..)) => ty,
            _ => self.types.intern(TyKind::Laid(ty, layout)),
        }
    }

    /// `DefaultDataLayout`, if the program names layouts at all.
    pub(crate) fn default_layout(&mut self) -> Option<Ty> {
        let name = self.ast.symbols.find("DefaultDataLayout")?;
        let decl: DeclId = self.modules.named(0, name).first().copied()?;
        Some(self.decl_type(decl))
    }

    /// Size and alignment of a type, if they are known.
    pub fn extent_in(&mut self, ty: Ty, layout: DataLayout) -> Option<(i64, i64)> {
        match self.types[ty].clone() {
            TyKind::Laid(content, layout) => {
                let layout = self.data_layout(layout)?;
                self.extent_in(content, layout)
            }
            TyKind::Scalar(s) => Some((layout.scalar(s), layout.scalar(s))),
            TyKind::Vector(element, Val::Int(n), _) => {
                let (size, _) = self.extent_in(element, layout)?;
                Some(layout.vector(size, n))
            }
            TyKind::Matrix(element, Val::Int(rows), Val::Int(columns), _) => {
                let (size, _) = self.extent_in(element, layout)?;
                let (n, each) = if self.lies_in_columns(ty) { (columns, rows) } else { (rows, columns) };
                let (stride, align) = layout.stride(layout.vector(size, each));
                Some((stride.checked_mul(n)?, align))
            }
            TyKind::Array(element, Some(Val::Int(n))) => {
                let element = self.extent_in(element, layout)?;
                layout.array(element, n)
            }
            // An array without a length at the end of a struct is behind it.
            TyKind::Array(element, None) if !matches!(layout, DataLayout::Natural | DataLayout::C) => {
                let element = self.extent_in(element, layout)?;
                layout.array(element, 0)
            }
            TyKind::Enum(decl) => {
                let tag = self.enum_tag(decl);
                self.extent_in(tag, layout)
            }
            TyKind::Struct(..) | TyKind::SynthDiff(_) => {
                let fields: Vec<Ty> = self.fields(ty).into_iter().map(|f| f.1).collect();
                self.extent_of(&fields, layout)
            }
            TyKind::Tuple(parts) => self.extent_of(&parts, layout),
            TyKind::DiffPair(primal) => {
                let differential = self.differential(primal)?;
                self.extent_of(&[primal, differential], layout)
            }
            TyKind::Optional(inner) => self.extent_of(&[inner, Ty::BOOL], layout),
            TyKind::Pointer(..) | TyKind::Buffer(..) | TyKind::NullPtr | TyKind::String => Some((8, 8)),
            // A type without values takes no room.
            TyKind::Void | TyKind::NoneLiteral => Some((0, 1)),
            _ => None,
        }
    }

    fn extent_of(&mut self, parts: &[Ty], layout: DataLayout) -> Option<(i64, i64)> {
        let fields = self.places_of(parts, layout)?;
        let size = if layout == DataLayout::C { round_up(fields.size, fields.align) } else { fields.size };
        Some((size, fields.align))
    }

    /// The places of fields of these types in a struct.
    pub fn places_of(&mut self, parts: &[Ty], layout: DataLayout) -> Option<Fields> {
        let (mut offsets, mut at, mut most) = (Vec::new(), 0i64, 1i64);
        for &part in parts {
            let (size, align) = self.extent_in(part, layout)?;
            let start = round_up(at, align);
            offsets.push(start);
            at = start.checked_add(size)?;
            let is_composite = !matches!(
                self.types[part],
                TyKind::Scalar(_)
                    | TyKind::Vector(..)
                    | TyKind::Enum(_)
                    | TyKind::Pointer(..)
                    | TyKind::Buffer(..)
            );
            if layout.aligns_vectors() && is_composite {
                at = round_up(at, align);
            }
            most = most.max(align);
        }
        let align = if layout == DataLayout::Std140 { round_up(most, 16) } else { most };
        Some(Fields { offsets, size: at, align })
    }
}

/// The next multiple of an alignment.
pub(crate) fn round_up(size: i64, align: i64) -> i64 {
    (size + align - 1) / align * align
}
