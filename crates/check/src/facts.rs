//! The facts that a program keeps, as plain data. The files that find them have the functions.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use syntax::{DeclId, FileId, Span, Symbol};

use crate::signature::{Role, Subst};
use crate::tables::FuncRef;
use crate::types::{GenericArg, Ty, Val};
use crate::view::ModuleId;

/// The declarations in a scope by name; overloads share a name.
pub(crate) type Names = FxHashMap<Symbol, SmallVec<[DeclId; 2]>>;

/// The names inside declarations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes {
    /// Members of structs, interfaces, enumerations, extensions and namespaces.
    pub(crate) members: FxHashMap<DeclId, Rc<Names>>,
    /// All parts of a namespace, by each of its parts.
    pub(crate) namespace_parts: FxHashMap<(Vec<Symbol>, usize), Vec<DeclId>>,
    /// The declaration that owns each generic parameter.
    pub(crate) param_owner: FxHashMap<DeclId, DeclId>,
    /// The locals that are visible to a type declared inside a function.
    pub(crate) local_scopes: FxHashMap<DeclId, Rc<Vec<(Symbol, DeclId)>>>,
    /// Declarations with a base or bound that is unknown.
    pub(crate) unknown_bases: rustc_hash::FxHashSet<DeclId>,
}

/// Files that share a scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Module {
    /// Its top-level declarations.
    pub(crate) names: Names,
    /// Modules that its `import`s name, in order.
    pub(crate) imports: Vec<usize>,
    /// The subset of `imports` that importers of this module see too.
    pub(crate) exported: Vec<usize>,
    /// Namespaces that `using` opens for the whole module, as written.
    pub(crate) using: Vec<DeclId>,
    /// The module uses visibility modifiers; without them, other modules may name all of its declarations.
    pub(crate) has_visibility: bool,
}

/// The modules of a program; the first is the library.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modules {
    pub(crate) all: Vec<Module>,
    pub(crate) of_file: FxHashMap<FileId, usize>,
    /// Files of modules that come with the compiler, and are imported.
    pub(crate) built_in: Vec<FileId>,
    /// The module made from each file, by the file's index in `ast.files`.
    pub(crate) of_index: FxHashMap<usize, usize>,
    /// Parts of modules that are not loaded yet: the indices of both in `ast.files`, the module first.
    pub(crate) parts: Vec<(usize, usize)>,
    /// The file that an `import` names, by its index in `ast.files`.
    pub(crate) imported: FxHashMap<DeclId, usize>,
    /// `extern` constants without a value may be linked later, so types may name them.
    pub(crate) links_later: bool,
    /// A type names such a constant.
    pub(crate) has_open_types: bool,
    /// Modules whose imports are being loaded.
    pub(crate) open: Vec<usize>,
}

impl Modules {
    /// The modules whose names a module sees, nearest first, itself included, with the number of imports on
    /// the way.
    pub(crate) fn seen_from(&self, from: usize) -> Vec<(usize, u32)> {
        let mut seen = vec![(from, 0)];
        let mut next = 0;
        while let Some(&(at, distance)) = seen.get(next) {
            next += 1;
            let more = if at == from { &self.all[at].imports } else { &self.all[at].exported };
            for &module in more {
                if !seen.iter().any(|s| s.0 == module) {
                    seen.push((module, distance + 1));
                }
            }
        }
        seen
    }

    /// The declarations of one name at the top level of a module.
    pub(crate) fn named(&self, module: usize, name: Symbol) -> &[DeclId] {
        self.all[module].names.get(&name).map_or(&[], |decls| decls)
    }
}

/// The origin of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FacetKind {
    Own,
    Extension,
    Base,
    Interface,
    /// An extension of an interface, or of all types that conform to one.
    InterfaceExtension,
}

/// A declaration whose members a type has.
#[derive(Clone, Debug)]
pub(crate) struct Facet {
    pub(crate) container: DeclId,
    pub(crate) kind: FacetKind,
    /// The substitution for the container's parameters and `This`.
    pub(crate) env: Rc<Subst>,
    /// The type that the members belong to: for the members of a base, the base struct.
    pub(crate) self_ty: Ty,
    /// If two functions fit a call equally well, the one of lower rank is chosen.
    pub(crate) rank: u32,
}

/// An extension whose target is known.
#[derive(Clone, Debug)]
pub(crate) struct ExtensionInfo {
    pub(crate) decl: DeclId,
    pub(crate) target: Ty,
    pub(crate) params: Vec<DeclId>,
}

/// The constraints of a declaration's generics on their parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints {
    /// Pairs of a type and an interface that it conforms to.
    pub(crate) conforms: Vec<(Ty, Ty)>,
    /// Pairs of equal types.
    pub(crate) equal: Vec<(Ty, Ty)>,
    /// Pairs of equal integers: `countof(T) == N`.
    pub(crate) equal_values: Vec<(Val, Val)>,
    /// `where A(B)`: the target type `A`, the source type `B`, and true if the conversion is implicit.
    pub(crate) converts: Vec<(Ty, Ty, bool)>,
    /// `where optional T : I`: conformances that hold only where `T is I` has been tested.
    pub(crate) optional: Vec<(Ty, Ty)>,
    /// Packs that are not empty.
    pub(crate) nonempty: Vec<GenericArg>,
}

impl Constraints {
    /// Returns true if there are no constraints other than conformances.
    pub(crate) fn is_of_bounds(&self) -> bool {
        let Constraints { conforms: _, equal, equal_values, converts, optional, nonempty } = self;
        let nothing_else = equal.is_empty() && equal_values.is_empty() && converts.is_empty();
        nothing_else && optional.is_empty() && nonempty.is_empty()
    }
}

/// The size of a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// One more than the largest nesting of its parts.
    pub nesting: u32,
    /// The type itself and its parts, counted with multiplicity.
    pub parts: u32,
}

/// A derivative that the program declares for a function.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) role: Role,
    pub(crate) func: FuncRef,
    /// The call operator of the context, for an `__apply` extension.
    pub(crate) propagate: Option<FuncRef>,
    /// The module that declares the derivative.
    pub(crate) module: usize,
    /// The span at which the derivative names its target.
    pub(crate) span: Span,
}

/// A struct that is made for a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pullback {
    pub(crate) of: DeclId,
    pub(crate) asks: ModuleId,
    pub(crate) context: DeclId,
    /// The struct is a pushforward.
    pub(crate) forward: bool,
}

/// An interface of the library that has a special meaning for the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Magic {
    Differentiable,
    DifferentiablePtr,
    DefaultInitializable,
    OpaqueDescriptor,
    EnumType,
    Elementwise,
    NumericElementwise,
    IntElementwise,
    FloatElementwise,
    Comparable,
    Ranged,
    Arithmetic,
    Logical,
    Integer,
    Float,
    BuiltinType,
    BuiltinArithmetic,
    BuiltinLogical,
    BuiltinSignedArithmetic,
    BuiltinInteger,
    BuiltinReal,
    BuiltinFloat,
}
