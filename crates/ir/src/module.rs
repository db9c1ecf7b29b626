//! A module: types, globals, functions and the sources of custom derivatives.

use std::hash::{Hash as _, Hasher as _};

use cranelift_entity::PrimaryMap;
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHasher};

use crate::entities::{Func, Global, MemType};
use crate::function::{Function, Origin, Span};
use crate::memory::{MemData, MemTypes};
use crate::pipeline::Pipeline;
use crate::types::{Type, Types};

/// The kind of memory that a global is in.
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
    /// A buffer that the host of a device provides for what threads keep while they run; `opt::arena` adds it,
    /// and no program declares it.
    Arena,
}

/// A global variable.
#[derive(Clone, Debug)]
pub struct GlobalData {
    /// The source's name, which `--bind` refers to.
    pub name: String,
    /// The memory that the global is in.
    pub space: Space,
    /// Element type (buffers), or the type of the one element.
    pub ty: MemType,
    /// A function without parameters whose results are the leaves of `ty`, for `Private`.
    pub init: Option<Func>,
    /// Where it is declared.
    pub span: Span,
}

impl GlobalData {
    /// The type of the memory that the host provides for a global that is a pointer. `None` for other
    /// globals, also for a buffer of pointers.
    pub fn pointee(&self, mem: &MemTypes) -> Option<MemType> {
        match mem[self.ty] {
            MemData::Handle(element) if self.space == Space::Uniform => Some(element),
            _ => None,
        }
    }
}

/// The functions that provide the derivatives of a function where they are not derived from its body. Every
/// function named here has the *flat* signature of [`crate::ops::DerivativeOp::Fwd`] and
/// [`crate::ops::DerivativeOp::Bwd`], not the source's pairs, except for a vjp beside an `apply`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    pub jvp: Option<Func>,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    /// With `apply`: `(context…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pub vjp: Option<Func>,
    /// The function that reverse mode calls in place of the primal: `(params…) -> (results…, context…)`.
    /// Needs a `vjp`.
    pub apply: Option<Func>,
    /// `apply` and `substitute` give the same results as the function itself.
    pub is_same: bool,
    /// The function to differentiate in place of this one; it has the same signature.
    pub substitute: Option<Func>,
    /// A mode without a custom derivative derives it from the body.
    pub differentiable: bool,
    /// The primal is computed as usual; all tangents and cotangents are zero.
    pub treat_as_differentiable: bool,
    /// The function has no jumps, or its custom derivatives account for them, so [`crate::DerivativeOp::Decisions`] looks for
    /// none in it.
    pub continuous: bool,
    /// The function, which is a derivative, must not be differentiated in turn.
    pub last: bool,
}

/// Identifies the residuals of a function: the state kept of a run for a later pushforward or pullback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Residuals {
    /// The function that is run.
    pub func: Func,
    /// The residuals are for [`crate::DerivativeOp::Pushforward`] rather than for [`crate::DerivativeOp::Pullback`].
    pub forward: bool,
}

/// An entry point.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The source's name.
    pub name: String,
    /// A function without parameters or results, except for a stage of a graphics pipeline.
    pub func: Func,
    /// `[numthreads(x, y, z)]`.
    pub group_size: [u32; 3],
    /// The stage of a graphics pipeline that this is the entry point of; `None` for a kernel.
    pub pipeline: Option<Pipeline>,
}

impl Entry {
    /// A kernel.
    pub fn kernel(name: impl Into<String>, func: Func, group_size: [u32; 3]) -> Entry {
        Entry { name: name.into(), func, group_size, pipeline: None }
    }
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
    /// The residuals that each number in [`crate::TypeData::Residuals`] refers to.
    pub residuals: Vec<Residuals>,
    /// Custom derivatives.
    pub witnesses: IndexMap<Func, Witness, FxBuildHasher>,
    /// Entry points.
    pub entries: Vec<Entry>,
    /// The files of the library, in ascending order. Events in them are reported to the user at the line of
    /// the call into the library.
    pub library_files: Vec<u32>,
}

impl Module {
    /// Returns true if a place is in the library.
    pub fn is_library(&self, span: Span) -> bool {
        self.library_files.binary_search(&span.file).is_ok()
    }

    /// A number that two modules very probably share only if they have the same code: a hash of all functions, without
    /// names and places in the source.
    pub fn digest(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for (f, func) in self.funcs.iter().filter(|(_, func)| func.has_body()) {
            f.hash(&mut hasher);
            func.values.values().for_each(|value| value.ty.hash(&mut hasher));
            for data in func.insts.values() {
                (&data.op, &data.args, &data.results, &data.regions).hash(&mut hasher);
            }
            for region in func.regions.values() {
                (&region.params, &region.insts, &region.results).hash(&mut hasher);
            }
        }
        self.entries.iter().for_each(|entry| (entry.func, entry.group_size).hash(&mut hasher));
        hasher.finish()
    }

    /// The witness of `func`; the default if it has none.
    pub fn witness(&self, func: Func) -> Witness {
        self.witnesses.get(&func).copied().unwrap_or_default()
    }

    /// The functions that a function was made of: itself, the one that it was made of, and so on to one of the
    /// program.
    pub fn origins(&self, func: Func) -> impl Iterator<Item = Func> {
        std::iter::successors(Some(func), |&at| self.funcs[at].origin.parent())
    }

    /// Returns true if a function is the primal half of a derivative, or was made of one: its results are inputs
    /// of the other half.
    pub fn is_half(&self, func: &Function) -> bool {
        let origins = std::iter::successors(Some(func.origin), |at| Some(self.funcs[at.parent()?].origin));
        let half = origins.into_iter().find(|at| matches!(at, Origin::PrimalHalf(_) | Origin::LinearHalf(_)));
        matches!(half, Some(Origin::PrimalHalf(_)))
    }

    /// Returns true if the derivative of a function is not, or not in every mode, that of its body.
    pub fn has_rule(&self, func: Func) -> bool {
        let Witness { jvp, vjp, apply, substitute, treat_as_differentiable, .. } = self.witness(func);
        treat_as_differentiable || [jvp, vjp, apply, substitute].iter().any(Option::is_some)
    }

    /// Returns true if a function is what a pullback or pushforward is differentiated as.
    pub fn is_whole(&self, func: Func) -> bool {
        self.witnesses.values().any(|witness| witness.is_same && witness.substitute == Some(func))
    }

    /// The type of a function's residuals.
    pub fn residuals_of(&mut self, of: Residuals) -> Type {
        let number = self.residuals.iter().position(|&known| known == of).unwrap_or_else(|| {
            self.residuals.push(of);
            self.residuals.len() - 1
        });
        self.types.residuals(number as u32)
    }

    /// A name that no function has: `base`, or `base` with a number appended.
    pub fn free_name(&self, base: &str) -> String {
        let mut name = base.to_string();
        let mut n = 1;
        while self.find(&name).is_some() {
            n += 1;
            name = format!("{base}_{n}");
        }
        name
    }

    /// The function with that name.
    pub fn find(&self, name: &str) -> Option<Func> {
        self.funcs.iter().find(|(_, f)| f.name == name).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::Module;
    use crate::parse::parse_module;

    #[test]
    fn the_digest_is_of_code_alone() {
        let made = |name: &str, number: &str, op: &str| -> Module {
            let text = format!(
                "func {name}(v0: f32) -> (f32) {{\n v1: f32 = const {number}\n v2 = {op} v0, v1\n yield v2\n}}"
            );
            parse_module(&text).expect("it is well-formed")
        };
        let digest = made("f", "1.0", "add").digest();
        assert_eq!(made("g", "1.0", "add").digest(), digest);
        for other in [made("f", "2.0", "add"), made("f", "1.0", "mul")] {
            assert_ne!(other.digest(), digest);
        }
    }
}
