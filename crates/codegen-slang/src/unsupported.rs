//! The errors for constructs that have no textual form.

use ir::{Op, Span};

/// An error for a construct that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The source location of the construct.
    pub span: Span,
    /// A description of the construct.
    pub message: String,
}

/// The error for a construct that has no textual form.
pub(crate) fn refused(span: Span, what: impl Into<String>) -> Unsupported {
    Unsupported { span, message: what.into() }
}

/// The error for a pointer.
pub(crate) fn pointer(span: Span) -> Unsupported {
    refused(span, "a pointer to memory of the host")
}

/// The error for an operation that has no textual form.
pub(crate) fn unsupported(op: &Op, span: Span) -> Unsupported {
    match op {
        Op::BufferOffset | Op::BufferCast(_) | Op::BufferAddress | Op::HandleBits | Op::HandleOf => {
            pointer(span)
        }
        Op::Barrier | Op::WaveGather | Op::WaveMultiply(_) | Op::Builtin(_) | Op::OnDevice | Op::Clock => {
            refused(span, "what a thread knows of its group")
        }
        other => refused(span, format!("the operation `{}`", ir::print::op_name(other))),
    }
}
