//! The request for functions to lower, and the facts about those that the host calls.

use check::tables::FuncRef;
use check::types::Ty;
use ir::Func;
use syntax::DeclId;

/// The parts of a program to lower.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Entry points, each with its thread group.
    pub entries: Vec<DeclId>,
    /// Functions that the host calls.
    pub functions: Vec<FuncRef>,
    /// The thread group of entry points without `[numthreads(…)]`; one thread if not given.
    pub group_size: Option<[u32; 3]>,
    /// Types with an interface that each conforms to, and optionally their numbers in dynamic dispatch.
    pub conformances: Vec<(Ty, Ty, Option<u32>)>,
    /// Lower the flat derivatives of `functions`, too: [`FunctionInfo::jvp`] and `vjp`.
    pub derivatives: bool,
    /// Use [`Step::SparseJvp`] and [`Step::SparseVjp`] for these derivatives, for example for unit vectors.
    pub sparse: bool,
    /// Lower only those derivatives that the functions are marked for.
    pub as_marked: bool,
    /// The request is a check, which makes no code: what this program has for others only is accepted, as if it did
    /// nothing (functions of other pipelines of a graphics processor, text for other targets, implementations that a
    /// host links or chooses).
    pub only_checks: bool,
    /// Code for a device that has matrix units, by which products of cooperative matrices may be computed.
    pub matrix_units: bool,
    /// Differentials are checked: where a program calls a derivative that it has written, the function that it is the
    /// derivative of is lowered, too, so that the values in it are known to be differentials.
    pub check_finite: bool,
    /// Derivation steps to apply to each of `functions`: [`FunctionInfo::derived`].
    pub derived: Vec<Vec<Step>>,
}

/// A parameter or result of a function that the host calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The name in the source; empty for the result.
    pub name: String,
    /// The type in source syntax.
    pub ty: String,
    /// The value is passed in.
    pub is_input: bool,
    /// The value is returned.
    pub is_output: bool,
    /// The leaves of the value: the path from the parameter (`.origin`; empty for the parameter itself), the
    /// type, and true if the leaf has a tangent.
    pub leaves: Vec<(String, ir::Type, bool)>,
    /// The value contains a value of interface type, so some numbers in its leaves stand for types.
    pub is_dynamic: bool,
}

/// A function that the host calls.
#[derive(Clone, Debug)]
pub struct FunctionInfo {
    /// The name in the source with its generic arguments.
    pub name: String,
    /// The IR function: its parameters are the leaves of `params` in order, its results the leaves of the
    /// results (the returned value, then the written parameters).
    pub func: Func,
    /// The parameters in order, the receiver first.
    pub params: Vec<ParamInfo>,
    /// The returned value.
    pub result: ParamInfo,
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    pub jvp: Option<Func>,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    pub vjp: Option<Func>,
    /// The function for each of [`Request::derived`].
    pub derived: Vec<Func>,
}

/// A derivation of a function on leaves from another one, whose parameters and results appear in the
/// signatures below. The slots of the new function say which of its parameters and results are
/// differentiable, so steps can be chained to any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// `(params…, tangents of diff params…) -> (results…, tangents of diff results…)`.
    Jvp,
    /// `(params…, cotangents of diff results…) -> (cotangents of diff params…)`.
    Vjp,
    /// `(params…, cotangents of diff results…) -> (results…, cotangents of diff params…)`, with a single run
    /// of the function.
    ValueAndVjp,
    /// Like `Jvp`, except that a zero tangent means that its number is constant. The tangent is absent, and
    /// nothing is scaled by it, so a unit vector gives exactly the derivative by one number, even where other
    /// numbers have no derivative.
    SparseJvp,
    /// Like `Vjp`, except that a zero cotangent is absent.
    SparseVjp,
    /// The same function, in which only the parameters marked `true` here are differentiable.
    Only(Vec<bool>),
    /// `(params…, tangents of chosen diff params…) -> (tangents of diff results…)`. Other parameters are
    /// constant, but remain differentiable in later steps. Zero tangents are absent.
    JvpBy(Vec<bool>),
    /// `(params…, cotangents of diff results…) -> (cotangents of chosen diff params…)`. Other parameters
    /// remain differentiable in later steps. Zero cotangents are absent.
    VjpBy(Vec<bool>),
}

impl Step {
    /// Returns true if a zero passed for a differential means that the differential is absent.
    pub(crate) fn is_sparse(&self) -> bool {
        matches!(self, Step::SparseJvp | Step::SparseVjp | Step::JvpBy(_) | Step::VjpBy(_))
    }

    /// A short name, for names of functions.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Step::Jvp => "fwd",
            Step::Vjp => "bwd",
            Step::ValueAndVjp => "value-bwd",
            Step::SparseJvp => "fwd-sparse",
            Step::SparseVjp => "bwd-sparse",
            Step::Only(_) => "only",
            Step::JvpBy(_) => "fwd-by",
            Step::VjpBy(_) => "bwd-by",
        }
    }
}
