//! The leaves of types, and the maps between those of a type and those of its differential, as data.

use check::tables::FuncRef;
use check::types::Ty;
use ir::Type;
use syntax::DeclId;

/// Structs nested deeper than this are taken to be recursive, and their parts beyond are not looked at.
pub(crate) const MAX_DEPTH: u32 = 64;

/// A leaf of a type.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// The path from the whole, e.g. `.ray.origin`.
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// An array in the source (a matrix is an array only in the IR).
    pub(crate) is_array: bool,
    /// The tag of an existential value, or an array of tags.
    pub(crate) is_tag: bool,
}

/// A field, an element of a tuple, or a half of a pair.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) ty: Ty,
    /// The declaration of a field; `None` for other parts.
    pub(crate) decl: Option<DeclId>,
    pub(crate) no_diff: bool,
    pub(crate) name: String,
    /// The leaves of the differential of an `IDifferentiablePtrType`, which the value carries along: the
    /// pointer that gradients go through. They are zero outside of derivatives, and absent in memory.
    pub(crate) is_shadow: bool,
}

/// How a type is split into leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) leaves: Vec<Leaf>,
    /// The parts of structs, tuples, pairs and optionals.
    pub(crate) parts: Vec<Part>,
}

/// Maps each leaf of a type to its tangent among the leaves of the differential.
#[derive(Clone, Debug)]
pub(crate) struct DiffMap {
    /// `T.Differential`.
    pub(crate) ty: Ty,
    /// For each leaf of `T`, the index of its tangent.
    pub(crate) map: Vec<Option<usize>>,
    /// Leaves of `T` that are the same in its differential, such as the flag of an optional.
    pub(crate) same: Vec<(usize, usize)>,
}

/// Leaves that are split together by a `use` function.
#[derive(Clone, Debug)]
pub(crate) struct UsePart {
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) func: FuncRef,
}
