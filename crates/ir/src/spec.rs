//! The table of ops: for each op its name, operands, typing rule, linearity and effects.
//!
//! Printing, parsing, verifying, the inference of types, activity and the effects of code all read this table,
//! so a new op is a row here, its meaning in `scalar` or the interpreter, and its code in each backend.

use crate::function::{Function, Slot};
use crate::ops::{Builtin, DerivativeOp, Factors, Math, Op, Rest};
use crate::types::{Scalar, Type};

/// The facts about an op that do not depend on what it computes.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name in the textual IR.
    pub name: &'static str,
    /// The kind of op.
    pub class: Class,
    /// The least number of operands, and the greatest.
    pub operands: (usize, usize),
    /// The number of results; `None` if the callee or the regions decide.
    pub results: Option<usize>,
    /// The types of operands and results.
    pub typing: Typing,
    /// The operands that may be linear.
    pub linearity: Linearity,
    /// The op by itself (not its regions, not its callee) only computes its results from its operands, so that
    /// it may be removed, merged with an equal op or moved.
    pub is_pure: bool,
    /// A machine computes the op in about one step per lane: sums, products, comparisons, conversions and
    /// similar ops, but no quotients and no functions.
    pub is_elementary: bool,
}

/// A kind of op, by what it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Numbers and vectors of numbers, elementwise: arithmetic, comparisons, conversions, constants.
    Number,
    /// Differentials, of which each may be absent.
    Differential,
    /// Vectors and arrays as values, and the choice between values.
    Aggregate,
    /// Cells.
    Cell,
    /// Memory that the host sees, and whatever else is around a thread.
    World,
    /// Calls.
    Call,
    /// Ops with regions.
    Control,
}

/// The typing rule of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typing {
    /// Operands and result are of one scalar or vector type, whose numbers are of this kind.
    Same(Kind),
    /// The operands are of one scalar or vector type, and the result is `bool` in its shape.
    Compare,
    /// A rule of its own.
    Own,
}

/// A kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers and floats.
    Number,
    /// Floats.
    Float,
    /// Integers.
    Int,
    /// Integers and `bool`.
    Bits,
}

impl Kind {
    /// Returns true if numbers of a scalar type are of this kind.
    pub fn has(self, s: Scalar) -> bool {
        match self {
            Kind::Number => s != Scalar::Bool,
            Kind::Float => s.is_float(),
            Kind::Int => s.is_int(),
            Kind::Bits => !s.is_float(),
        }
    }
}

/// Which operands of an op may be linear, and when its result is linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearity {
    /// All operands linear, result linear: `add sub neg convert splat sum construct insert`.
    All,
    /// The operand with this number is linear, all others are not: `extract(0) index(0)
    /// div(0)`.
    Only(usize),
    /// Exactly one of the two operands: `mul`.
    Either,
    /// The first is a number, all others linear: `select`.
    AllButFirst,
    /// No operand; the result may be linear: `zero`.
    Source,
    /// Decided by the cell: `local load store add_to sub_cell` (all indices are numbers).
    Cell,
    /// Decided by the callee's signature or the regions.
    Structure,
    /// Never linear.
    Never,
}

impl Op {
    /// The row of the op.
    pub fn spec(&self) -> Spec {
        use Class as C;
        use Kind::{Bits, Float, Int, Number};
        use Linearity::{All, AllButFirst, Cell, Either, Never, Only, Source, Structure};
        use Typing::{Compare, Own, Same};
        const MANY: usize = usize::MAX;
        match self {
            Op::Const(_) => row(C::Number, "const", 0, Own, Never),
            Op::Zero => row(C::Aggregate, "zero", 0, Own, Source),

            Op::Absent => row(C::Differential, "absent", 0, Own, Source),
            Op::Scale => row(C::Differential, "scale", 2, Same(Float), Only(0)).elementary(),
            Op::Unscale => row(C::Differential, "unscale", 2, Same(Float), Only(0)),
            Op::Mask => row(C::Differential, "mask", 2, Same(Float), Only(1)).elementary(),
            Op::Present => row(C::Differential, "present", 1, Own, All).elementary(),

            Op::Add => row(C::Number, "add", 2, Same(Number), All).elementary(),
            Op::Sub => row(C::Number, "sub", 2, Same(Number), All).elementary(),
            Op::Mul => row(C::Number, "mul", 2, Same(Number), Either).elementary(),
            Op::Div => row(C::Number, "div", 2, Same(Number), Only(0)),
            Op::Rem => row(C::Number, "rem", 2, Same(Number), Never),
            Op::Neg => row(C::Number, "neg", 1, Same(Number), All).elementary(),
            Op::And => row(C::Number, "and", 2, Same(Bits), Never).elementary(),
            Op::Or => row(C::Number, "or", 2, Same(Bits), Never).elementary(),
            Op::Xor => row(C::Number, "xor", 2, Same(Bits), Never).elementary(),
            Op::Not => row(C::Number, "not", 1, Same(Bits), Never).elementary(),
            Op::Shl => row(C::Number, "shl", 2, Same(Int), Never).elementary(),
            Op::Shr => row(C::Number, "shr", 2, Same(Int), Never).elementary(),
            Op::Math(m) => row(C::Number, m.name(), m.arity(), Own, Never),

            Op::Eq => row(C::Number, "eq", 2, Compare, Never).elementary(),
            Op::Ne => row(C::Number, "ne", 2, Compare, Never).elementary(),
            Op::Lt => row(C::Number, "lt", 2, Compare, Never).elementary(),
            Op::Le => row(C::Number, "le", 2, Compare, Never).elementary(),
            Op::Gt => row(C::Number, "gt", 2, Compare, Never).elementary(),
            Op::Ge => row(C::Number, "ge", 2, Compare, Never).elementary(),

            Op::Convert => row(C::Number, "convert", 1, Own, All).elementary(),
            Op::Bitcast => row(C::Number, "bitcast", 1, Own, Never).elementary(),
            Op::Select => row(C::Aggregate, "select", 3, Own, AllButFirst),
            Op::Detach => row(C::Aggregate, "detach", 1, Own, Never),

            Op::Construct => row(C::Aggregate, "construct", 0, Own, All).up_to(MANY),
            Op::Splat => row(C::Aggregate, "splat", 1, Own, All),
            Op::Extract(_) => row(C::Aggregate, "extract", 1, Own, Only(0)),
            Op::Insert(_) => row(C::Aggregate, "insert", 2, Own, All),
            Op::Index => row(C::Aggregate, "index", 2, Own, Only(0)),
            Op::Sum => row(C::Aggregate, "sum", 1, Own, All),

            Op::Local => row(C::Cell, "local", 1, Own, Cell).impure(),
            Op::Load => row(C::Cell, "load", 1, Own, Cell).up_to(MANY).impure(),
            Op::Store => row(C::Cell, "store", 2, Own, Cell).up_to(MANY).impure().gives(0),
            Op::AddTo => row(C::Cell, "add_to", 2, Own, Cell).up_to(MANY).impure().gives(0),
            Op::SubCell => row(C::Cell, "sub_cell", 2, Own, Cell),

            Op::GlobalRef(_) => row(C::World, "global_ref", 0, Own, Never),
            Op::BufferLoad(path) => row(C::World, "buffer_load", 2 + path.n_dynamic(), Own, Never).impure(),
            Op::BufferStore(path) => {
                row(C::World, "buffer_store", 3 + path.n_dynamic(), Own, Never).impure().gives(0)
            }
            Op::Atomic(path, op) => {
                row(C::World, "atomic", 2 + path.n_dynamic() + op.n_values(), Own, Never).impure()
            }
            Op::BufferLen => row(C::World, "buffer_len", 1, Own, Never),
            Op::BufferOffset => row(C::World, "buffer_offset", 2, Own, Never),
            Op::BufferCast(Rest::Kept) => row(C::World, "buffer_cast", 2, Own, Never),
            Op::BufferCast(Rest::Dropped) => row(C::World, "buffer_cast_whole", 2, Own, Never),
            Op::BufferAddress => row(C::World, "buffer_address", 1, Own, Never),
            Op::HandleBits => row(C::World, "handle_bits", 1, Own, Never),
            Op::HandleOf => row(C::World, "handle_of", 1, Own, Never),
            Op::OnDevice => row(C::World, "on_device", 0, Own, Never),
            Op::Clock => row(C::World, "clock", 0, Own, Never).impure(),
            Op::Barrier => row(C::World, "barrier", 0, Own, Never).impure().gives(0),
            Op::WaveGather => row(C::World, "wave_gather", 1, Own, Never).impure().gives(2),
            Op::WaveMultiply(factors) => row(C::World, factors.name(), 3, Own, Never).impure(),
            Op::Builtin(builtin) => row(C::World, builtin.name(), 0, Own, Never),
            Op::Printf(_) => row(C::World, "printf", 0, Own, Never).up_to(MANY).impure().gives(0),
            Op::Assert(_) => row(C::World, "assert", 1, Own, Never).impure().gives(0),
            Op::CheckFinite(_) => row(C::World, "check_finite", 0, Own, Never).up_to(MANY).impure(),

            Op::Call(_) => row(C::Call, "call", 0, Own, Structure).up_to(MANY).impure().gives_any(),
            Op::CallDerivative(op, _) => {
                row(C::Call, op.name(), 0, Own, Structure).up_to(MANY).impure().gives_any()
            }
            Op::CallTransposeOf(_) => {
                row(C::Call, "call_transpose_of", 0, Own, Structure).up_to(MANY).impure().gives_any()
            }

            Op::If => row(C::Control, "if", 1, Own, Structure).impure().gives_any(),
            Op::Switch(_) => row(C::Control, "switch", 1, Own, Structure).impure().gives_any(),
            Op::For(_) => row(C::Control, "for", 1, Own, Structure).up_to(MANY).impure().gives_any(),
            Op::Loop(_) => row(C::Control, "loop", 0, Own, Structure).up_to(MANY).impure().gives_any(),
        }
    }

    /// The op of that name, if it has no static data besides.
    pub fn plain(name: &str) -> Option<Op> {
        const PLAIN: [Op; 48] = [
            Op::Zero,
            Op::Absent,
            Op::Scale,
            Op::Unscale,
            Op::Mask,
            Op::Present,
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::Div,
            Op::Rem,
            Op::Neg,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::Not,
            Op::Shl,
            Op::Shr,
            Op::Eq,
            Op::Ne,
            Op::Lt,
            Op::Le,
            Op::Gt,
            Op::Ge,
            Op::Convert,
            Op::Bitcast,
            Op::Select,
            Op::Detach,
            Op::Construct,
            Op::Splat,
            Op::Index,
            Op::Sum,
            Op::Local,
            Op::Load,
            Op::Store,
            Op::AddTo,
            Op::SubCell,
            Op::BufferLen,
            Op::BufferOffset,
            Op::BufferCast(Rest::Kept),
            Op::BufferCast(Rest::Dropped),
            Op::BufferAddress,
            Op::HandleBits,
            Op::HandleOf,
            Op::OnDevice,
            Op::Clock,
            Op::Barrier,
            Op::WaveGather,
        ];
        let builtins = Builtin::ALL.into_iter().map(Op::Builtin);
        let functions = Math::ALL.into_iter().map(Op::Math);
        let products = Factors::ALL.into_iter().map(Op::WaveMultiply);
        PLAIN.into_iter().chain(builtins).chain(products).chain(functions).find(|op| op.spec().name == name)
    }

    /// [`Spec::linearity`].
    pub fn linearity(&self) -> Linearity {
        self.spec().linearity
    }

    /// [`Spec::is_pure`].
    pub fn is_pure(&self) -> bool {
        self.spec().is_pure
    }

    /// [`Spec::is_elementary`].
    pub fn is_elementary(&self) -> bool {
        self.spec().is_elementary
    }
}

/// A pure op with a number of operands and one result.
fn row(class: Class, name: &'static str, operands: usize, typing: Typing, linearity: Linearity) -> Spec {
    Spec {
        name,
        class,
        operands: (operands, operands),
        results: Some(1),
        typing,
        linearity,
        is_pure: true,
        is_elementary: false,
    }
}

impl Spec {
    fn elementary(self) -> Spec {
        Spec { is_elementary: true, ..self }
    }

    fn impure(self) -> Spec {
        Spec { is_pure: false, ..self }
    }

    fn up_to(self, most: usize) -> Spec {
        Spec { operands: (self.operands.0, most), ..self }
    }

    fn gives(self, n: usize) -> Spec {
        Spec { results: Some(n), ..self }
    }

    fn gives_any(self) -> Spec {
        Spec { results: None, ..self }
    }
}

impl DerivativeOp {
    /// The number of directions in a call of [`DerivativeOp::Second`] with so many operands.
    pub fn directions(of: &Function, n_operands: usize) -> usize {
        let n_moving = of.params.iter().filter(|slot| slot.diff).count();
        n_operands.saturating_sub(of.params.len()) / n_moving.max(1)
    }

    /// The types of operands and results of a call of the operator on a function with so many operands; `None` is
    /// the function's residuals.
    pub fn signature(self, of: &Function, n_operands: usize) -> [Vec<Option<Type>>; 2] {
        let all = |slots: &[Slot]| slots.iter().map(|s| Some(s.ty)).collect::<Vec<_>>();
        let differentials =
            |slots: &[Slot]| slots.iter().filter(|s| s.diff).map(|s| Some(s.ty)).collect::<Vec<_>>();
        let (params, results) = (all(&of.params), all(&of.results));
        let (d_params, d_results) = (differentials(&of.params), differentials(&of.results));
        match self {
            DerivativeOp::Fwd => [[params, d_params].concat(), [results, d_results].concat()],
            DerivativeOp::Bwd => [[params, d_results].concat(), d_params],
            DerivativeOp::Apply | DerivativeOp::Linearize => [params, [results, vec![None]].concat()],
            DerivativeOp::Pullback => [[params, vec![None], d_results].concat(), d_params],
            DerivativeOp::Pushforward => [[params, vec![None], d_params].concat(), d_results],
            DerivativeOp::Decisions => {
                let trace = vec![Some(Type::U32), Some(Type::U32), Some(Type::F32)];
                [[params, vec![Some(Type::U32)]].concat(), [results, trace].concat()]
            }
            DerivativeOp::Second => {
                let n = DerivativeOp::directions(of, n_operands);
                [[params, d_params.repeat(n)].concat(), [results, d_results.repeat(n + 1)].concat()]
            }
        }
    }
}
