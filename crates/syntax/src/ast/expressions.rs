//! Expressions, and types, which are parsed as expressions.

use super::*;

/// An expression and its location.
#[derive(Clone, Debug)]
pub struct Expr {
    /// The kind of the expression.
    pub kind: ExprKind,
    /// The location.
    pub span: Span,
}

/// The kind of an expression. `e`, `base`, … are sub-expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `12`, `0xffu`, `3LL`, `5z`; a negative number is a unary minus.
    Int {
        /// The value of the digits.
        value: u64,
        /// The type: "" is `int`, "u" `uint`, "ll" `int64_t`, others `uint64_t`. It is derived from the value
        /// if the suffix in the source does not determine it.
        suffix: Symbol,
    },
    /// `1.5`, `2e3f`, `1.0h`, `1.0lf`.
    Float {
        /// The value of the digits.
        value: f64,
        /// The suffix in lower case: "", "f", "h", "l", "lf".
        suffix: Symbol,
    },
    /// `true`, `false`
    Bool(bool),
    /// `"text"`, with escapes decoded and adjacent literals joined.
    String(String),
    /// `nullptr`
    NullPtr,
    /// `none`
    None,
    /// `name`
    Name(Symbol),
    /// `operator+` as a name
    OperatorName(Symbol),
    /// `::name`: the name looked up in the global scope.
    GlobalName(Symbol),
    /// `this`
    This,
    /// `This`
    ThisType,
    /// `base.name`; `base->name` has `arrow`
    Member {
        /// Left of the dot.
        base: ExprId,
        /// Right of it.
        name: Symbol,
        /// The location of the name.
        name_span: Span,
        /// Written `->`.
        arrow: bool,
    },
    /// `Base::name`
    Static {
        /// Left of `::`.
        base: ExprId,
        /// Right of it.
        name: Symbol,
        /// The location of the name.
        name_span: Span,
    },
    /// `base[i, j]`; `base[]` (an unsized array type) has none
    Index {
        /// Left of the bracket.
        base: ExprId,
        /// The indices.
        args: Vec<ExprId>,
    },
    /// `callee(args)`
    Call {
        /// The callee, or the type that is constructed.
        callee: ExprId,
        /// Arguments.
        args: Vec<ExprId>,
    },
    /// `base<args>`
    Generic {
        /// The base, before the `<`.
        base: ExprId,
        /// Types and values.
        args: Vec<ExprId>,
    },
    /// `-e`, `!e`, `~e`, `+e`, `++e`, `--e`, `*e`, `&e`
    Unary(UnaryOp, ExprId),
    /// `e++` (true), `e--` (false)
    Postfix(bool, ExprId),
    /// `a op b`, not assignment
    Binary(BinaryOp, ExprId, ExprId),
    /// `a = b`, `a += b`
    Assign(Option<BinaryOp>, ExprId, ExprId),
    /// `c ? a : b`
    Ternary(ExprId, ExprId, ExprId),
    /// `(T)e`
    Cast(ExprId, ExprId),
    /// `T{a, b}`: a type, and the brace list of its value.
    TypedList(ExprId, ExprId),
    /// `(e)`
    Paren(ExprId),
    /// `{a, b}`
    InitList(Vec<ExprId>),
    /// `no_diff e`
    NoDiff(ExprId),
    /// `try f(x)`: runs before the rest of the statement; see [`Ast::tries`].
    Try(ExprId),
    /// `fwd_diff(f)` and the other derivative operators.
    Derivative(DiffOp, ExprId),
    /// `e is T`
    Is(ExprId, ExprId),
    /// `e as T`
    As(ExprId, ExprId),
    /// `sizeof(T)`, `alignof(T)`, `countof(pack)`; with a data layout, `sizeof(T, L)`
    SizeOf(SizeOfKind, ExprId, Option<ExprId>),
    /// `expand e`
    Expand(ExprId),
    /// `each e`
    Each(ExprId),
    /// `__first(pack)` and the like, of a pack or tuple
    PackPart(PackPart, ExprId),
    /// `__shapeSwap(pack, I, J)` and the like, of packs of integers
    Shape(ShapeOp, Vec<ExprId>),
    /// `__packBranch(pack, A, B)`: the type `A` where the pack is empty, otherwise `B`
    PackBranch([ExprId; 3]),
    /// `T*` as a type
    Pointer(ExprId),
    /// `const T`, `no_diff T`, `row_major T`, … as a type
    Modified(Modifiers, ExprId),
    /// `(params) => body`; the declaration is a function without a name. Its body is a block, or for `=> e` a
    /// `return`.
    Lambda(DeclId),
    /// `functype(A, B) -> R`
    FuncType(Vec<ExprId>, ExprId),
    /// `__intrinsic_asm`, `spirv_asm { … }` and other opaque forms, by name
    Opaque(Symbol),
    /// An erroneous expression, already diagnosed.
    Error,
}

impl ExprKind {
    /// Appends the operands of the expression to `out`, for traversals.
    pub fn operands(&self, out: &mut Vec<ExprId>) {
        match self {
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::NullPtr
            | ExprKind::None
            | ExprKind::Name(_)
            | ExprKind::OperatorName(_)
            | ExprKind::GlobalName(_)
            | ExprKind::This
            | ExprKind::ThisType
            | ExprKind::Lambda(_)
            | ExprKind::Opaque(_)
            | ExprKind::FuncType(..)
            | ExprKind::Error => {}
            ExprKind::Shape(_, parts) => out.extend(parts),
            ExprKind::Member { base, .. } | ExprKind::Static { base, .. } => out.push(*base),
            ExprKind::Index { base, args } | ExprKind::Generic { base, args } => {
                out.push(*base);
                out.extend(args);
            }
            ExprKind::Call { callee, args } => {
                out.push(*callee);
                out.extend(args);
            }
            ExprKind::Unary(_, e)
            | ExprKind::Postfix(_, e)
            | ExprKind::Paren(e)
            | ExprKind::NoDiff(e)
            | ExprKind::Try(e)
            | ExprKind::Derivative(_, e)
            | ExprKind::Expand(e)
            | ExprKind::Each(e)
            | ExprKind::PackPart(_, e)
            | ExprKind::Pointer(e)
            | ExprKind::Modified(_, e) => out.push(*e),
            ExprKind::SizeOf(_, e, layout) => {
                out.push(*e);
                out.extend(layout);
            }
            ExprKind::Binary(_, a, b)
            | ExprKind::Assign(_, a, b)
            | ExprKind::Cast(a, b)
            | ExprKind::TypedList(a, b)
            | ExprKind::Is(a, b)
            | ExprKind::As(a, b) => out.extend([*a, *b]),
            ExprKind::Ternary(a, b, c) => out.extend([*a, *b, *c]),
            ExprKind::PackBranch(parts) => out.extend(parts),
            ExprKind::InitList(parts) => out.extend(parts),
        }
    }
}

/// Declares an enum whose variants have a text in the language.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the texts say it")]
        pub enum $name { $($(#[$of])* $variant),* }

        impl $name {
            /// The text in the language.
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}
pub(super) use words;

words! {
    /// Prefix operators.
    UnaryOp {
        Plus = "+", Neg = "-", Not = "!", BitNot = "~", PreInc = "++", PreDec = "--", Deref = "*",
        AddressOf = "&", GetAddress = "__getAddress",
    }
}

words! {
    /// Infix operators.
    BinaryOp {
        Add = "+", Sub = "-", Mul = "*", Div = "/", Rem = "%", Shl = "<<", Shr = ">>", BitAnd = "&",
        BitOr = "|", BitXor = "^", And = "&&", Or = "||", Eq = "==", Ne = "!=", Lt = "<", Le = "<=", Gt = ">",
        Ge = ">=", Comma = ",",
    }
}

impl BinaryOp {
    /// Returns true for `==`, `<` and the like.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
        )
    }

    /// Returns true for `&&` and `||`.
    pub fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }
}

words! {
    /// A derivative operator.
    DiffOp {
        Fwd = "fwd_diff",
        Bwd = "bwd_diff",
        /// It applies only to a function itself, not to another derivative.
        Apply = "__apply",
        /// It applies only to a function itself, not to another derivative.
        Linearize = "__linearize",
        /// The function and a trace of its decisions. It applies only to a function itself, not to a derivative.
        Decisions = "__decisions",
    }
}

impl DiffOp {
    /// The operator's keyword in the language.
    pub fn word(self) -> &'static str {
        self.text()
    }

    /// The operator runs in reverse mode.
    pub fn is_backward(self) -> bool {
        matches!(self, DiffOp::Bwd | DiffOp::Apply)
    }
}

words! {
    /// A compile-time size query.
    SizeOfKind { SizeOf = "sizeof", AlignOf = "alignof", CountOf = "countof" }
}

words! {
    /// A part of a pack or tuple, by its position.
    PackPart { First = "__first", Last = "__last", TrimFirst = "__trimFirst", TrimLast = "__trimLast" }
}

words! {
    /// A query of shapes, which are packs of integers: the shape with its axes in another order, with one element along
    /// an axis, with those of another shape along an axis, and with two axes exchanged.
    ShapeOp { Permute = "__shapePermute", Reduce = "__shapeReduce", Concat = "__shapeConcat", Swap = "__shapeSwap" }
}

impl PackPart {
    /// The part is a single element rather than a pack.
    pub fn is_element(self) -> bool {
        matches!(self, PackPart::First | PackPart::Last)
    }
}
