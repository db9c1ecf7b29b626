//! Defines the AST as plain data, in one set of arenas for the whole program.
//!
//! Every file of a program is parsed into the same [`Ast`], so an ID identifies a node of any file, and the
//! side table of a compiler stage is a single map. Types are parsed as expressions, since `A<B>.C[4]` can be
//! either; the checker distinguishes them. The tree corresponds to the source as written: nothing is
//! desugared.

use cranelift_entity::{PrimaryMap, entity_impl};
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::source::{FileId, Span};

/// An interned name. The default is the empty name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(u32);
entity_impl!(Symbol, "sym");

/// An expression (or a type).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(u32);
entity_impl!(ExprId, "expr");

/// A statement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StmtId(u32);
entity_impl!(StmtId, "stmt");

/// A declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeclId(u32);
entity_impl!(DeclId, "decl");

/// Interned names. The words of the grammar (`keywords.rs`) are interned first, so their symbols are
/// constants.
#[derive(Clone, Debug)]
pub struct Symbols {
    set: IndexSet<Box<str>, FxBuildHasher>,
}

impl Default for Symbols {
    fn default() -> Symbols {
        Symbols { set: crate::keywords::NAMES.iter().map(|&name| name.into()).collect() }
    }
}

impl Symbol {
    /// The symbol with this number, for the constants of `keywords.rs`.
    pub(crate) const fn new(number: u32) -> Symbol {
        Symbol(number)
    }
}

impl Symbols {
    /// The symbol of a name.
    pub fn intern(&mut self, name: &str) -> Symbol {
        if let Some(idx) = self.set.get_index_of(name) {
            return Symbol(idx as u32);
        }
        Symbol(self.set.insert_full(name.into()).0 as u32)
    }

    /// Returns true if any file contains a name with this prefix.
    pub fn has_prefix(&self, start: &str) -> bool {
        self.set.iter().any(|name| name.starts_with(start))
    }

    /// The symbol of a name, if any file contains the name.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        self.set.get_index_of(name).map(|idx| Symbol(idx as u32))
    }

    /// The name of a symbol.
    pub fn name(&self, symbol: Symbol) -> &str {
        &self.set[symbol.0 as usize]
    }
}

/// The syntax trees of a program.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// Names.
    pub symbols: Symbols,
    /// Expressions and types.
    pub exprs: PrimaryMap<ExprId, Expr>,
    /// Statements.
    pub stmts: PrimaryMap<StmtId, Stmt>,
    /// Declarations, a parent before its members.
    pub decls: PrimaryMap<DeclId, Decl>,
    /// One for each parsed file, in order of parsing.
    pub files: Vec<FileAst>,
    /// The warning levels set by `#pragma warning`.
    pub warnings: crate::warnings::WarningLevels,
    /// The error type of each function that throws; used only for lookups.
    pub throws: FxHashMap<DeclId, ExprId>,
    /// The widths of bit-fields; used only for lookups.
    pub bit_widths: FxHashMap<DeclId, ExprId>,
    /// Some expression is a `try`.
    pub has_try: bool,
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct FileAst {
    /// The file.
    pub file: FileId,
    /// The top-level declarations in order, including imports and module declarations.
    pub decls: Vec<DeclId>,
}

impl Ast {
    /// The name of a symbol.
    pub fn name(&self, symbol: Symbol) -> &str {
        self.symbols.name(symbol)
    }

    /// The name of a declaration.
    pub fn decl_name(&self, decl: DeclId) -> &str {
        self.name(self.decls[decl].name)
    }

    /// The `try` expressions of a statement, without those of the statements in it, in the order in which they
    /// run: all of them before the rest of the statement.
    pub fn tries(&self, stmt: StmtId) -> Vec<ExprId> {
        let mut found = Vec::new();
        if !self.has_try {
            return found;
        }
        let kind = &self.stmts[stmt].kind;
        let mut open = Vec::new();
        kind.expressions(&mut open);
        for &decl in kind.declarations() {
            if let DeclKind::Var { init, .. } = self.decls[decl].kind {
                open.extend(init);
            }
        }
        // Visited from the last operand to the first, the outer before the inner.
        while let Some(expr) = open.pop() {
            let kind = &self.exprs[expr].kind;
            if matches!(kind, ExprKind::Try(_)) {
                found.push(expr);
            }
            kind.operands(&mut open);
        }
        found.reverse();
        found
    }

    /// A declaration and those around it, innermost first.
    pub fn enclosing(&self, decl: DeclId) -> impl Iterator<Item = DeclId> {
        std::iter::successors(Some(decl), |&decl| self.decls[decl].parent)
    }

    /// Makes a declaration that the source does not contain.
    pub fn new_decl(&mut self, kind: DeclKind, name: Symbol, span: Span, parent: Option<DeclId>) -> DeclId {
        self.decls.push(Decl {
            kind,
            name,
            name_span: span,
            span,
            modifiers: Modifiers::default(),
            attributes: Vec::new(),
            generics: None,
            parent,
        })
    }
}

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
    /// `sizeof(T)`, `alignof(T)`, `countof(pack)`
    SizeOf(SizeOfKind, ExprId),
    /// `expand e`
    Expand(ExprId),
    /// `each e`
    Each(ExprId),
    /// `T*` as a type
    Pointer(ExprId),
    /// `const T`, `no_diff T`, `row_major T`, … as a type
    Modified(Modifiers, ExprId),
    /// `(params) => body`; the declaration is a function without a name.
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
            | ExprKind::SizeOf(_, e)
            | ExprKind::Expand(e)
            | ExprKind::Each(e)
            | ExprKind::Pointer(e)
            | ExprKind::Modified(_, e) => out.push(*e),
            ExprKind::Binary(_, a, b)
            | ExprKind::Assign(_, a, b)
            | ExprKind::Cast(a, b)
            | ExprKind::Is(a, b)
            | ExprKind::As(a, b) => out.extend([*a, *b]),
            ExprKind::Ternary(a, b, c) => out.extend([*a, *b, *c]),
            ExprKind::InitList(parts) => out.extend(parts),
        }
    }
}

/// Prefix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum UnaryOp {
    Plus,
    Neg,
    Not,
    BitNot,
    PreInc,
    PreDec,
    Deref,
    AddressOf,
}

/// Infix operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    BitAnd,
    BitOr,
    BitXor,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Comma,
}

impl UnaryOp {
    /// The operator as written.
    pub fn text(self) -> &'static str {
        match self {
            UnaryOp::Plus => "+",
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
            UnaryOp::BitNot => "~",
            UnaryOp::PreInc => "++",
            UnaryOp::PreDec => "--",
            UnaryOp::Deref => "*",
            UnaryOp::AddressOf => "&",
        }
    }
}

impl BinaryOp {
    /// The operator as written.
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::Comma => ",",
        }
    }
}

/// A derivative operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffOp {
    /// `fwd_diff`
    Fwd,
    /// `bwd_diff`
    Bwd,
    /// `__apply`; applies only to a function itself, not to another derivative.
    Apply,
    /// `__linearize`; applies only to a function itself, not to another derivative.
    Linearize,
}

impl DiffOp {
    /// The operator's keyword in the language.
    pub fn word(self) -> &'static str {
        match self {
            DiffOp::Fwd => "fwd_diff",
            DiffOp::Bwd => "bwd_diff",
            DiffOp::Apply => "__apply",
            DiffOp::Linearize => "__linearize",
        }
    }

    /// The operator runs in reverse mode.
    pub fn is_backward(self) -> bool {
        matches!(self, DiffOp::Bwd | DiffOp::Apply)
    }
}

/// A compile-time size query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SizeOfKind {
    SizeOf,
    AlignOf,
    CountOf,
}

/// A statement and its location.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// The kind of the statement.
    pub kind: StmtKind,
    /// The attributes before the statement: `[MaxIters(n)]`, `[ForceUnroll]`, ….
    pub attributes: Vec<Attribute>,
    /// The location.
    pub span: Span,
}

/// The kind of a statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// `{ … }`
    Block(Vec<StmtId>),
    /// `e;`
    Expr(ExprId),
    /// `float a, b = 1;`, also a local struct or typedef
    Decl(Vec<DeclId>),
    /// `if (c) a else b`
    If {
        /// Condition.
        cond: ExprId,
        /// Taken if true.
        then: StmtId,
        /// Taken if false.
        otherwise: Option<StmtId>,
    },
    /// `if (let x = e) a else b`
    IfLet {
        /// The variable; its initialiser is the optional.
        var: DeclId,
        /// Taken if it has a value.
        then: StmtId,
        /// Taken if not.
        otherwise: Option<StmtId>,
    },
    /// `for (init; cond; step) body`
    For {
        /// A declaration or expression statement.
        init: Option<StmtId>,
        /// The condition; true if absent.
        cond: Option<ExprId>,
        /// Evaluated after each iteration.
        step: Option<ExprId>,
        /// The loop's body.
        body: StmtId,
    },
    /// `while (cond) body`
    While {
        /// Tested before each iteration.
        cond: ExprId,
        /// The loop's body.
        body: StmtId,
    },
    /// `do body while (cond);`
    DoWhile {
        /// The loop's body.
        body: StmtId,
        /// Tested after each iteration.
        cond: ExprId,
    },
    /// `switch (e) { case …: … }`
    Switch {
        /// The value that is compared with the cases.
        scrutinee: ExprId,
        /// The cases in order; a body that does not leave the `switch` falls through to the next.
        cases: Vec<Case>,
    },
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `return e;`
    Return(Option<ExprId>),
    /// `discard;`
    Discard,
    /// `__target_switch { case cpu: … default: … }`: names and bodies
    TargetSwitch(Vec<(Vec<Symbol>, Vec<StmtId>)>),
    /// `__intrinsic_asm "…";`: the result is that of the given text in the target's language.
    IntrinsicAsm(String),
    /// `defer s`: executed when control leaves the block.
    Defer(StmtId),
    /// A labelled statement `name: s`.
    Labeled {
        /// The label that a `break` refers to.
        label: Symbol,
        /// The number of labels around this one in its function.
        level: u32,
        /// The statement that a `break` to the label leaves.
        body: StmtId,
    },
    /// `break name;`: continues after the labelled statement with this level.
    BreakTo {
        /// The label's name.
        label: Symbol,
        /// The level of the label.
        level: u32,
    },
    /// `throw e;`
    Throw(ExprId),
    /// `do { … } catch (e : E) { … }`
    DoCatch {
        /// The body, which may throw.
        body: StmtId,
        /// The number of labels around the body: a `throw` leaves it like a `break`.
        level: u32,
        /// The handlers: the variable for the error, if it is named, and the statement.
        catches: Vec<(Option<DeclId>, StmtId)>,
    },
    /// `static_assert` and other statements by name, which are parsed and skipped.
    Unsupported(Symbol),
    /// An erroneous statement, already diagnosed.
    Error,
}

impl StmtKind {
    /// Appends the statements directly within a statement.
    pub fn statements(&self, out: &mut Vec<StmtId>) {
        match self {
            StmtKind::Block(inner) => out.extend(inner),
            StmtKind::If { then, otherwise, .. } | StmtKind::IfLet { then, otherwise, .. } => {
                out.push(*then);
                out.extend(otherwise);
            }
            StmtKind::For { init, body, .. } => out.extend(init.iter().chain([body])),
            StmtKind::While { body, .. }
            | StmtKind::DoWhile { body, .. }
            | StmtKind::Defer(body)
            | StmtKind::Labeled { body, .. } => out.push(*body),
            StmtKind::Switch { cases, .. } => out.extend(cases.iter().flat_map(|c| &c.body)),
            StmtKind::TargetSwitch(cases) => out.extend(cases.iter().flat_map(|c| &c.1)),
            StmtKind::DoCatch { body, catches, .. } => {
                out.push(*body);
                out.extend(catches.iter().map(|c| c.1));
            }
            StmtKind::Empty
            | StmtKind::Expr(_)
            | StmtKind::Decl(_)
            | StmtKind::Break
            | StmtKind::BreakTo { .. }
            | StmtKind::Continue
            | StmtKind::Return(_)
            | StmtKind::Discard
            | StmtKind::IntrinsicAsm(_)
            | StmtKind::Throw(_)
            | StmtKind::Unsupported(_)
            | StmtKind::Error => {}
        }
    }

    /// Appends the expressions directly within a statement, without those of its declarations.
    pub fn expressions(&self, out: &mut Vec<ExprId>) {
        match self {
            StmtKind::Expr(expr) | StmtKind::Throw(expr) => out.push(*expr),
            StmtKind::If { cond, .. } | StmtKind::While { cond, .. } | StmtKind::DoWhile { cond, .. } => {
                out.push(*cond);
            }
            StmtKind::For { cond, step, .. } => out.extend(cond.iter().chain(step)),
            StmtKind::Switch { scrutinee, .. } => out.push(*scrutinee),
            StmtKind::Return(value) => out.extend(value),
            _ => {}
        }
    }

    /// The variables and types that a statement declares.
    pub fn declarations(&self) -> &[DeclId] {
        match self {
            StmtKind::Decl(decls) => decls,
            StmtKind::IfLet { var, .. } => std::slice::from_ref(var),
            _ => &[],
        }
    }
}

/// One or more labels and the statements that follow them.
#[derive(Clone, Debug)]
pub struct Case {
    /// The values; `None` stands for `default`.
    pub labels: Vec<Option<ExprId>>,
    /// The statements up to the next label.
    pub body: Vec<StmtId>,
    /// The location of the first label.
    pub span: Span,
}

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
pub struct Modifiers(pub u32);

#[expect(missing_docs, reason = "each is the keyword of its name")]
impl Modifiers {
    pub const IN: Modifiers = Modifiers(1 << 0);
    pub const OUT: Modifiers = Modifiers(1 << 1);
    /// `inout`; `in out` sets IN and OUT instead
    pub const INOUT: Modifiers = Modifiers(1 << 2);
    pub const CONST: Modifiers = Modifiers(1 << 3);
    pub const STATIC: Modifiers = Modifiers(1 << 4);
    pub const UNIFORM: Modifiers = Modifiers(1 << 5);
    pub const GROUPSHARED: Modifiers = Modifiers(1 << 6);
    pub const NO_DIFF: Modifiers = Modifiers(1 << 7);
    pub const PUBLIC: Modifiers = Modifiers(1 << 8);
    pub const INTERNAL: Modifiers = Modifiers(1 << 9);
    pub const PRIVATE: Modifiers = Modifiers(1 << 10);
    pub const EXTERN: Modifiers = Modifiers(1 << 11);
    pub const EXPORT: Modifiers = Modifiers(1 << 12);
    pub const OVERRIDE: Modifiers = Modifiers(1 << 13);
    pub const ROW_MAJOR: Modifiers = Modifiers(1 << 14);
    pub const COLUMN_MAJOR: Modifiers = Modifiers(1 << 15);
    pub const CONSTREF: Modifiers = Modifiers(1 << 16);
    pub const REF: Modifiers = Modifiers(1 << 17);
    pub const DYN: Modifiers = Modifiers(1 << 18);
    pub const INLINE: Modifiers = Modifiers(1 << 19);
    pub const EXPORTED: Modifiers = Modifiers(1 << 20);
    pub const PRECISE: Modifiers = Modifiers(1 << 21);
    pub const VOLATILE: Modifiers = Modifiers(1 << 22);
    pub const GLOBALLYCOHERENT: Modifiers = Modifiers(1 << 23);
    pub const INTERPOLATION: Modifiers = Modifiers(1 << 24);
    pub const MUTATING: Modifiers = Modifiers(1 << 25);
    pub const NONMUTATING: Modifiers = Modifiers(1 << 26);
    /// Written with `let`.
    pub const LET: Modifiers = Modifiers(1 << 27);
    /// Written with `each` (a pack parameter).
    pub const EACH: Modifiers = Modifiers(1 << 28);

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
    /// `get`, `set` or `ref`
    Accessor {
        /// The kind of accessor.
        kind: AccessorKind,
        /// The parameter of a setter, whether it is written or the implicit `newValue`.
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
        /// After `:`.
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
        /// Its type.
        ty: ExprId,
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
    /// `__func_extension op(f)(params) -> T { … }`
    FuncExtension {
        /// `fwd_diff`, `bwd_diff` or `__apply`.
        op: Symbol,
        /// The extended function.
        target: ExprId,
        /// [`DeclKind::Param`]s.
        params: Vec<DeclId>,
        /// The return type.
        result: Option<ExprId>,
        /// The body.
        body: Option<StmtId>,
    },
    /// A construct that is parsed but not supported, by name (`__magic…`, `attribute_syntax`, `union`, …).
    Unsupported(Symbol),
    /// `;`, or an erroneous declaration, already diagnosed.
    Empty,
}

/// The kind of an accessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the keywords")]
pub enum AccessorKind {
    Get,
    Set,
    Ref,
}
