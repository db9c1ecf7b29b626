//! Marks the code of derivatives, so that a profile can tell it from that of the program.
//!
//! Once functions are inlined, nothing says what an instruction was made for. For a profile, each instruction of a
//! derivative therefore gets the span of its line in a copy of the file: the number of the file has one more bit.
//! Spans have no other effect on code than to be reported, and [`source_span`](crate::error::source_span) gives the
//! place in the file itself.
//!
//! The functions that differentiation makes have an [`Origin`]. The primal half of a derivative computes values of the
//! program, also where `[Checkpoint]` computes them again; a linear half, its transpose and a forward derivative compute
//! differentials, and so do the derivatives that the user defines.

use cranelift_entity::SecondaryMap;
use ir::{Func, Module, Op, Origin, Span};

/// The part of the code that an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// It computes values of the program.
    Primal,
    /// It computes differentials.
    Derivative,
}

/// The bit of a file's number that marks derivatives.
const DERIVATIVE: u32 = 1 << 30;

/// Marks the instructions of all functions that compute differentials.
pub fn mark(module: &mut Module) {
    let mut defined: SecondaryMap<Func, bool> = SecondaryMap::new();
    for witness in module.witnesses.values() {
        [witness.jvp, witness.vjp].into_iter().flatten().for_each(|func| defined[func] = true);
    }
    let funcs: Vec<Func> = module.funcs.keys().collect();
    for func in funcs {
        if part(module, func, &defined) == Part::Derivative {
            let insts = module.funcs[func].insts.values_mut();
            insts.filter(|data| data.span != Span::NONE).for_each(|data| data.span.file |= DERIVATIVE);
        }
    }
    let marked: Vec<u32> = module.library_files.iter().map(|file| file | DERIVATIVE).collect();
    module.library_files.extend(marked);
}

/// The part that a function belongs to; `defined` are the derivatives that the user defines.
fn part(module: &Module, func: Func, defined: &SecondaryMap<Func, bool>) -> Part {
    let decided = module.origins(func).find_map(|at| match module.funcs[at].origin {
        Origin::PrimalHalf(_) => Some(Part::Primal),
        Origin::LinearHalf(_) | Origin::Pullback(_) | Origin::Jvp(_) => Some(Part::Derivative),
        Origin::Program if defined[at] => Some(Part::Derivative),
        Origin::Program | Origin::Segment(_) | Origin::Variant(_) => None,
    });
    decided.unwrap_or(Part::Primal)
}

/// Takes the loops of a span as loops with `[Checkpoint]`.
pub fn checkpoint(module: &mut Module, span: Span) {
    for data in module.funcs.values_mut().flat_map(|f| f.insts.values_mut()).filter(|data| data.span == span)
    {
        if let Op::For(info) | Op::Loop(info) = &mut data.op {
            info.checkpoint = info.checkpoint.or(Some(ir::Checkpoint::Root));
        }
    }
}

/// The place in the source that a span stands for, and the part of the code.
pub fn of(span: Span) -> (Span, Part) {
    if span == Span::NONE || span.file & DERIVATIVE == 0 {
        return (span, Part::Primal);
    }
    (Span { file: span.file & !DERIVATIVE, ..span }, Part::Derivative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_removed() {
        let span = Span { file: 3, start: 5, end: 9 };
        assert_eq!(of(span), (span, Part::Primal));
        assert_eq!(of(Span { file: 3 | DERIVATIVE, ..span }), (span, Part::Derivative));
        assert_eq!(of(Span::NONE), (Span::NONE, Part::Primal));
    }
}
