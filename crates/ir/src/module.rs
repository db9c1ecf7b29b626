//! A module: types, globals, functions and where derivatives come from.

use cranelift_entity::{PrimaryMap, entity_impl};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::function::{Func, Function, Span};
use crate::memory::{MemData, MemType, MemTypes};
use crate::types::{Type, Types};

/// A global of a module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Global(u32);
entity_impl!(Global, "g");

/// What kind of memory a global is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// A buffer bound by the host that kernels may write.
    ReadWrite,
    /// A buffer bound by the host that kernels only read.
    ReadOnly,
    /// One element, bound by the host, that kernels only read.
    Uniform,
    /// One element for each thread group, zero at its start.
    GroupShared,
    /// One element for each thread, with the initialiser given by [`GlobalData::init`].
    Private,
}

/// A global variable.
#[derive(Clone, Debug)]
pub struct GlobalData {
    /// The source's name; what `--bind` names.
    pub name: String,
    /// Where it lives.
    pub space: Space,
    /// Element type (buffers), or the type of the one element.
    pub ty: MemType,
    /// A function without parameters whose results are the leaves of `ty`, for `Private`.
    pub init: Option<Func>,
    /// Where it is declared.
    pub span: Span,
}

impl GlobalData {
    /// The type of the memory that the host gives for a global that is a pointer. A buffer of pointers is none.
    pub fn pointee(&self, mem: &MemTypes) -> Option<MemType> {
        match mem[self.ty] {
            MemData::Handle(element) if self.space == Space::Uniform => Some(element),
            _ => None,
        }
    }
}

/// Where a function's derivatives come from when they are not derived from its body.
/// Every function named here has the *flat* signature of [`crate::ops::Op::CallFwd`] and
/// [`crate::ops::Op::CallBwd`], not the source's pairs; but for a vjp beside an `apply`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    pub jvp: Option<Func>,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    /// With `apply`: `(context…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pub vjp: Option<Func>,
    /// What reverse mode calls in place of the function, `(params…) -> (results…, context…)`; needs a `vjp`.
    pub apply: Option<Func>,
    /// The results of `apply` and `substitute` are those of the function itself.
    pub is_same: bool,
    /// The function to differentiate in this one's place; of the same signature.
    pub substitute: Option<Func>,
    /// A mode that has no custom derivative is derived from the body.
    pub differentiable: bool,
    /// Primal as usual, all tangents and cotangents zero.
    pub treat_as_differentiable: bool,
}

/// What is kept of a run of a function for what comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residuals {
    /// The function.
    pub func: Func,
    /// For [`crate::Op::CallPushforward`]; else for [`crate::Op::CallPullback`].
    pub forward: bool,
}

/// An entry point.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The source's name.
    pub name: String,
    /// A function without parameters or results.
    pub func: Func,
    /// `[numthreads(x, y, z)]`.
    pub group_size: [u32; 3],
}

/// A module.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Value types.
    pub types: Types,
    /// Memory types.
    pub mem: MemTypes,
    /// Globals, in order of declaration.
    pub globals: PrimaryMap<Global, GlobalData>,
    /// Functions.
    pub funcs: PrimaryMap<Func, Function>,
    /// What [`crate::TypeData::Residuals`] are of, by number.
    pub residuals: Vec<Residuals>,
    /// Custom derivatives.
    pub witnesses: IndexMap<Func, Witness, FxBuildHasher>,
    /// Entry points.
    pub entries: Vec<Entry>,
    /// The files of the library, ascending: what happens in them happens, to the user, at the line of the call.
    pub library_files: Vec<u32>,
}

impl Module {
    /// Whether a place is in the library.
    pub fn is_library(&self, span: Span) -> bool {
        self.library_files.binary_search(&span.file).is_ok()
    }

    /// The witness of `func`, if it has one.
    pub fn witness(&self, func: Func) -> Witness {
        self.witnesses.get(&func).copied().unwrap_or_default()
    }

    /// The type of what is kept of a function.
    pub fn residuals_of(&mut self, of: Residuals) -> Type {
        let number = self.residuals.iter().position(|&known| known == of).unwrap_or_else(|| {
            self.residuals.push(of);
            self.residuals.len() - 1
        });
        self.types.residuals(number as u32)
    }

    /// The function of that name.
    pub fn find(&self, name: &str) -> Option<Func> {
        self.funcs.iter().find(|(_, f)| f.name == name).map(|(id, _)| id)
    }
}
