//! Statements.

use super::*;

/// The attribute of a loop that was written with `$for`.
pub const UNROLLED: &str = "__unrolled";

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
