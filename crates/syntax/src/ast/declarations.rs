//! Declarations, with the modifiers, attributes and generic parameters before them.

use super::*;
use crate::keywords as kw;

/// `[Name(args)]`
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The name; the parts of `A::B` are joined with `::`.
    pub name: Symbol,
    /// Arguments.
    pub args: Vec<ExprId>,
    /// The location.
    pub span: Span,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Decl {
    /// The kind of declaration.
    pub kind: DeclKind,
    /// The name; empty for declarations without one.
    pub name: Symbol,
    /// The location of the name or, without a name, of the keyword.
    pub name_span: Span,
    /// The location of the whole declaration.
    pub span: Span,
    /// The keywords before it.
    pub modifiers: Modifiers,
    /// The bracketed attributes before it.
    pub attributes: Vec<Attribute>,
    /// `<T : I, let N : int>` after the name or `__generic<…>` before the declaration.
    pub generics: Option<Generics>,
    /// The declaration that this is a member, parameter or local of: a struct, function, ….
    pub parent: Option<DeclId>,
}

impl Decl {
    /// A declaration without modifiers, attributes and generic parameters; its name is where it is.
    pub fn new(kind: DeclKind, name: Symbol, span: Span, parent: Option<DeclId>) -> Decl {
        let (modifiers, attributes) = (Modifiers::default(), Vec::new());
        Decl { kind, name, name_span: span, span, modifiers, attributes, generics: None, parent }
    }
}

/// Generic parameters and constraints.
#[derive(Clone, Debug, Default)]
pub struct Generics {
    /// [`DeclKind::TypeParam`] and [`DeclKind::ValueParam`], in order.
    pub params: Vec<DeclId>,
    /// `where` clauses.
    pub constraints: Vec<Constraint>,
}

/// One `where` constraint.
#[derive(Clone, Debug)]
pub enum Constraint {
    /// `T : A, B` (or `A & B` as one expression)
    Conforms(ExprId, Vec<ExprId>),
    /// `A == B`
    Equal(ExprId, ExprId),
    /// `optional T : A, B`
    Optional(ExprId, Vec<ExprId>),
    /// `To(From)`, `To(From) implicit`
    Converts {
        /// The type that values are converted to.
        to: ExprId,
        /// The type that values are converted from.
        from: ExprId,
        /// The conversion is implicit.
        implicit: bool,
    },
    /// `nonempty(P)`
    NonEmpty(ExprId),
    /// Other constraints, which are not supported, by location
    Other(Span),
}

/// Keywords before a declaration or in a type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers(pub u64);

macro_rules! modifiers {
    ($($(#[$doc:meta])* $constant:ident = $word:path),* $(,)?) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "only used for the numbers")]
        enum Number { $($constant),* }

        #[expect(missing_docs, reason = "each is the keyword of its name")]
        impl Modifiers {
            $($(#[$doc])* pub const $constant: Modifiers = Modifiers(1 << Number::$constant as u32);)*

            /// The modifiers in the order in which they are written, each with its keyword.
            pub(crate) const WORDS: &[(Modifiers, &str)] =
                &[$((Modifiers::$constant, kw::NAMES[$word.number() as usize])),*];

            /// The modifier that a word stands for.
            pub(crate) fn of(word: Symbol) -> Option<Modifiers> {
                match word {
                    $($word => Some(Modifiers::$constant),)*
                    _ => None,
                }
            }
        }
    };
}

modifiers! {
    PUBLIC = kw::PUBLIC, INTERNAL = kw::INTERNAL, PRIVATE = kw::PRIVATE, EXPORTED = kw::EXTERN_EXPORTED,
    EXTERN = kw::EXTERN, EXPORT = kw::EXPORT, OVERRIDE = kw::OVERRIDE, INLINE = kw::INLINE, DYN = kw::DYN,
    STATIC = kw::STATIC, CONST = kw::CONST, UNIFORM = kw::UNIFORM, GROUPSHARED = kw::GROUPSHARED,
    PRECISE = kw::PRECISE, VOLATILE = kw::VOLATILE, GLOBALLYCOHERENT = kw::GLOBALLYCOHERENT,
    NOINTERPOLATION = kw::NOINTERPOLATION, NOPERSPECTIVE = kw::NOPERSPECTIVE, LINEAR = kw::LINEAR,
    SAMPLE = kw::SAMPLE, CENTROID = kw::CENTROID, ROW_MAJOR = kw::ROW_MAJOR, COLUMN_MAJOR = kw::COLUMN_MAJOR,
    NO_DIFF = kw::NO_DIFF, IN = kw::IN, OUT = kw::OUT,
    /// `inout`; `in out` sets IN and OUT instead
    INOUT = kw::INOUT,
    CONSTREF = kw::CONSTREF, REF = kw::REF,
    /// Written with `each` (a pack parameter).
    EACH = kw::EACH,
}

impl Modifiers {
    /// Written with `constexpr`, which implies `const`.
    pub const CONSTEXPR: Modifiers = Modifiers(1 << 60);
    /// The `vertices` that a mesh shader makes.
    pub const VERTICES: Modifiers = Modifiers(1 << 58);
    /// The `indices` that a mesh shader makes.
    pub const INDICES: Modifiers = Modifiers(1 << 59);
    /// The attribute `[mutating]`.
    pub const MUTATING: Modifiers = Modifiers(1 << 61);
    /// The attribute `[nonmutating]`.
    pub const NONMUTATING: Modifiers = Modifiers(1 << 62);
    /// Written with `let`.
    pub const LET: Modifiers = Modifiers(1 << 63);
    /// The modifiers of types. In `x : inout T`, those of the parameter come after the colon; the caller
    /// removes them from the type.
    pub(crate) const IN_TYPES: Modifiers = Modifiers(
        Modifiers::CONST.0
            | Modifiers::NO_DIFF.0
            | Modifiers::ROW_MAJOR.0
            | Modifiers::COLUMN_MAJOR.0
            | Modifiers::VOLATILE.0
            | Modifiers::DYN.0
            | Modifiers::IN.0
            | Modifiers::OUT.0
            | Modifiers::INOUT.0
            | Modifiers::CONSTREF.0
            | Modifiers::REF.0
            | Modifiers::UNIFORM.0,
    );

    /// Returns true if any of these modifiers is set.
    pub fn has(self, other: Modifiers) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOrAssign for Modifiers {
    fn bitor_assign(&mut self, other: Modifiers) {
        self.0 |= other.0;
    }
}

/// The kind of a declaration.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// A variable, field, global or local. `let`/`var` without type has none.
    Var {
        /// The declared type, with C declarators (`a[3]`) applied.
        ty: Option<ExprId>,
        /// The initialiser after `=`.
        init: Option<ExprId>,
        /// The semantic after `:`, such as `register(u0)` or `SV_Position`.
        semantic: Option<Symbol>,
    },
    /// `let (a, b) = e`
    Tuple {
        /// [`DeclKind::Var`]s without types and initialisers of their own.
        parts: Vec<DeclId>,
        /// The tuple.
        init: ExprId,
    },
    /// A parameter of a function; the modifiers give its direction.
    Param {
        /// The declared type.
        ty: Option<ExprId>,
        /// Default argument.
        default: Option<ExprId>,
        /// After `:`.
        semantic: Option<Symbol>,
    },
    /// A function, method, operator (`operator+`, `operator()`), or function requirement.
    Func {
        /// [`DeclKind::Param`]s.
        params: Vec<DeclId>,
        /// The return type; absent for `func f() { … }` without `->` (void).
        result: Option<ExprId>,
        /// Absent in prototypes and requirements.
        body: Option<StmtId>,
    },
    /// `__init(…) { … }`
    Init {
        /// [`DeclKind::Param`]s.
        params: Vec<DeclId>,
        /// Absent in requirements.
        body: Option<StmtId>,
    },
    /// `__subscript(…) -> T { get; set; }`
    Subscript {
        /// [`DeclKind::Param`]s.
        params: Vec<DeclId>,
        /// The element type.
        result: ExprId,
        /// [`DeclKind::Accessor`]s.
        accessors: Vec<DeclId>,
    },
    /// `property p : T { get { … } set(v) { … } }`
    Property {
        /// Its type.
        ty: ExprId,
        /// [`DeclKind::Accessor`]s.
        accessors: Vec<DeclId>,
    },
    /// `get`, `set` or `ref`; without a name, the `;` that declares a getter: `property p : T;`
    Accessor {
        /// The kind of accessor.
        kind: AccessorKind,
        /// The parameter of a setter; if it is not written, it is `newValue`.
        param: Option<DeclId>,
        /// Absent in requirements.
        body: Option<StmtId>,
    },
    /// `struct S : A, B { … }` (also `class`); a body-less `struct S;` has no members
    Struct {
        /// After `:`.
        bases: Vec<ExprId>,
        /// In order.
        members: Vec<DeclId>,
    },
    /// `interface I : A { … }`
    Interface {
        /// After `:`.
        bases: Vec<ExprId>,
        /// In order.
        members: Vec<DeclId>,
    },
    /// `extension T : A { … }`
    Extension {
        /// The extended type.
        target: ExprId,
        /// After `:`.
        bases: Vec<ExprId>,
        /// In order.
        members: Vec<DeclId>,
    },
    /// `enum E : int { A, B = 3 }`
    Enum {
        /// The tag type.
        tag: Option<ExprId>,
        /// [`DeclKind::EnumCase`]s.
        cases: Vec<DeclId>,
    },
    /// `A = 3`
    EnumCase(Option<ExprId>),
    /// `associatedtype T : I;`
    AssociatedType {
        /// After `:`; with `This` among them, the type is that of the object itself.
        bases: Vec<ExprId>,
    },
    /// `typedef T N;`, `typealias N = T;`
    TypeAlias(ExprId),
    /// `T : I = D`, `typename T`, `each T`
    TypeParam {
        /// After `:`.
        bases: Vec<ExprId>,
        /// After `=`.
        default: Option<ExprId>,
    },
    /// `let N : int = 4`, `int N`
    ValueParam {
        /// Its type; `let N` alone is an `int`.
        ty: Option<ExprId>,
        /// After `=`.
        default: Option<ExprId>,
    },
    /// `namespace A.B { … }` (nested ones for the dots)
    Namespace {
        /// In order.
        members: Vec<DeclId>,
    },
    /// `cbuffer C : register(b0) { … }`, `tbuffer`
    CBuffer {
        /// [`DeclKind::Var`]s, visible in the surrounding scope.
        members: Vec<DeclId>,
    },
    /// `import a.b;`, `import "file";`; `__exported` is in the modifiers
    Import {
        /// The name or path as written (`a.b` joined with `/`), without quotes.
        path: String,
        /// Written as a string.
        quoted: bool,
    },
    /// `__include a;`, `__include "a";`
    Include {
        /// As for `Import`.
        path: String,
        /// Written as a string.
        quoted: bool,
    },
    /// `module m;`
    Module(String),
    /// `implementing m;`
    Implementing(String),
    /// `using namespace n;`
    Using(ExprId),
    /// A construct that is parsed but not supported, by name (`__magic…`, `attribute_syntax`, `union`, …).
    Unsupported(Symbol),
    /// `;`, or an erroneous declaration, already diagnosed.
    Empty,
}

impl DeclKind {
    /// The body of a function, constructor or accessor.
    pub fn body(&self) -> Option<StmtId> {
        match *self {
            DeclKind::Func { body, .. } | DeclKind::Init { body, .. } | DeclKind::Accessor { body, .. } => {
                body
            }
            _ => None,
        }
    }

    /// The initial value of a variable, or of several together.
    pub fn init(&self) -> Option<ExprId> {
        match *self {
            DeclKind::Var { init, .. } => init,
            DeclKind::Tuple { init, .. } => Some(init),
            _ => None,
        }
    }

    /// The variables that stand for the elements of a tuple.
    pub fn parts(&self) -> &[DeclId] {
        if let DeclKind::Tuple { parts, .. } = self { parts } else { &[] }
    }

    /// The semantic of a variable or parameter.
    pub fn semantic(&self) -> Option<Symbol> {
        match *self {
            DeclKind::Var { semantic, .. } | DeclKind::Param { semantic, .. } => semantic,
            _ => None,
        }
    }

    /// The declarations inside a namespace, type or extension.
    pub fn members(&self) -> &[DeclId] {
        match self {
            DeclKind::Namespace { members }
            | DeclKind::CBuffer { members }
            | DeclKind::Struct { members, .. }
            | DeclKind::Interface { members, .. }
            | DeclKind::Extension { members, .. }
            | DeclKind::Enum { cases: members, .. } => members,
            _ => &[],
        }
    }
}

words! {
    /// The kind of an accessor.
    AccessorKind { Get = "get", Set = "set", Ref = "ref" }
}

impl AccessorKind {
    /// All kinds.
    pub const ALL: [AccessorKind; 3] = [AccessorKind::Get, AccessorKind::Set, AccessorKind::Ref];

    /// The keyword.
    pub fn word(self) -> Symbol {
        match self {
            AccessorKind::Get => kw::GET,
            AccessorKind::Set => kw::SET,
            AccessorKind::Ref => kw::REF_ACCESSOR,
        }
    }
}

/// `register(t0, space1)` after the name of a variable or constant buffer.
#[derive(Clone, Debug)]
pub struct Register {
    /// The words in the parentheses, without the commas.
    pub words: Vec<(Symbol, Span)>,
    /// The location of all of it.
    pub span: Span,
}

/// The head of `__func_extension op(f)(params) -> T { … }`; the rest is a function.
#[derive(Clone, Copy, Debug)]
pub struct FuncExtension {
    /// `fwd_diff`, `bwd_diff` or `__apply`.
    pub op: Symbol,
    /// The extended function.
    pub target: ExprId,
}
