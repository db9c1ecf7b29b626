//! Accesses memory that is used as several types: an array of words in the CPU's layout, accessed by
//! functions that take byte offsets.

use ir::Scalar;
use naga::{AtomicFunction, BinaryOperator, Expression, Handle, Literal, MathFunction, ScalarKind};

use crate::access::Params;
use crate::build::{Code, Expr};
use crate::memory::{Access, Action, Res, Slot};
use crate::module::Cx;
use crate::transfer::{Bytes, Spot};

impl Cx<'_> {
    pub(crate) fn raw_access(
        &mut self,
        access: &Access,
        slot: &Slot,
        span: ir::Span,
    ) -> Res<Handle<naga::Function>> {
        let name = self.access_name(access, &slot.name);
        let mut code = Code::new(&name);
        let at = self.offset_param(&mut code);
        let Params { index, dynamic, values } = self.access_params(&mut code, access, span)?;
        let size = self.ir.mem.size(access.element).max(1) as u32;
        // The element must begin within 2^31 bytes on either side of the offset.
        let far = (1u32 << 31) / size.next_power_of_two();
        let (far_expr, both) = (code.u32(far), code.u32(far.wrapping_mul(2)));
        let mut inside = if far.wrapping_mul(2) == 0 {
            code.literal(Literal::Bool(true))
        } else {
            let moved = code.binary(BinaryOperator::Add, index, far_expr);
            code.binary(BinaryOperator::Less, moved, both)
        };
        let size_expr = code.u32(size);
        let from = code.binary(BinaryOperator::Multiply, index, size_expr);
        let mut place = code.binary(BinaryOperator::Add, at, from);
        let mut align = access.align.min(divisor(size));
        // Either the whole element must be within the words, or its beginning and the leaf must be.
        let words = match slot.words {
            Some(n) => code.u32(n),
            None => {
                let all = code.expr(Expression::GlobalVariable(slot.var));
                code.expr(Expression::ArrayLength(all))
            }
        };
        let four = code.u32(4);
        let bytes = code.binary(BinaryOperator::Multiply, words, four);
        let selection = self.select(access.element, &access.path);
        let leaf = selection.target.bytes(&self.ir.mem) as u32;
        let within = |code: &mut Code, place: Expr, inside: Expr, size: u32| {
            let size = code.u32(size);
            let fits = code.binary(BinaryOperator::GreaterEqual, bytes, size);
            let last = code.binary(BinaryOperator::Subtract, bytes, size);
            let before_end = code.binary(BinaryOperator::LessEqual, place, last);
            let range = code.binary(BinaryOperator::LogicalAnd, fits, before_end);
            code.binary(BinaryOperator::LogicalAnd, inside, range)
        };
        inside = within(&mut code, place, inside, if access.whole { size } else { 1 });
        for (&k, (n, stride)) in dynamic.iter().zip(selection.choices) {
            let n = code.u32(n);
            let below = code.binary(BinaryOperator::Less, k, n);
            inside = code.binary(BinaryOperator::LogicalAnd, inside, below);
            align = align.min(divisor(stride as u32));
            let stride = code.u32(stride as u32);
            let by = code.binary(BinaryOperator::Multiply, k, stride);
            place = code.binary(BinaryOperator::Add, place, by);
        }
        align = align.min(divisor(selection.fixed as u32));
        place = self.offset(&mut code, place, selection.fixed as u32);
        if !access.whole {
            inside = within(&mut code, place, inside, leaf);
        }
        code.name(place, "place");
        let before = code.enter();
        match access.action {
            Action::Load | Action::Store => {
                let spot = Spot::Words(Bytes { slot, at: place, align, by: 0 });
                let loaded = self.transfer(&mut code, spot, access.leaf, values.first().copied(), span)?;
                if loaded.is_some() {
                    code.ret(loaded);
                }
            }
            Action::Atomic(op) => {
                let s = self.ir.types.scalar_of(access.leaf).unwrap_or(Scalar::U32);
                let pointer = self.word_pointer(&mut code, slot, place);
                if s.bytes() < 4 {
                    let three = code.u32(3);
                    let byte = code.binary(BinaryOperator::And, place, three);
                    let shift = code.binary(BinaryOperator::ShiftLeft, byte, three);
                    self.atomic_part(&mut code, pointer, shift, op, s, &values);
                } else if let Some(old) =
                    // Words are unsigned and have no signed minimum or maximum: those use compare-exchange.
                    self.atomic(&mut code, pointer, op, s, Scalar::U32, &values, span)?
                {
                    code.ret(Some(old));
                }
            }
        }
        self.end_access(code, access, (before, inside), span)
    }

    /// The pointer to the word that holds a byte.
    fn word_pointer(&mut self, code: &mut Code, slot: &Slot, place: Expr) -> Expr {
        let two = code.u32(2);
        let index = code.binary(BinaryOperator::ShiftRight, place, two);
        let all = code.expr(Expression::GlobalVariable(slot.var));
        code.element(all, index)
    }

    fn offset(&mut self, code: &mut Code, place: Expr, by: u32) -> Expr {
        if by == 0 {
            return place;
        }
        let by = code.u32(by);
        code.binary(BinaryOperator::Add, place, by)
    }

    /// A word whose low `bytes` are those at a place, aligned or not.
    pub(crate) fn load_word(&mut self, code: &mut Code, from: Bytes<'_>, bytes: u32) -> Expr {
        let at = self.offset(code, from.at, from.by);
        if from.divisor() < bytes.min(4) {
            let function = self.word_reader(from.slot);
            return code.value_of(function, &[at]);
        }
        let pointer = self.word_pointer(code, from.slot, at);
        let word = code.load(pointer);
        if from.divisor() == 4 {
            return word;
        }
        let three = code.u32(3);
        let byte = code.binary(BinaryOperator::And, at, three);
        let shift = code.binary(BinaryOperator::ShiftLeft, byte, three);
        code.binary(BinaryOperator::ShiftRight, word, shift)
    }

    /// Stores a whole word; an unaligned address is an error.
    pub(crate) fn store_word(&mut self, code: &mut Code, to: Bytes<'_>, word: Expr, span: ir::Span) {
        let at = self.offset(code, to.at, to.by);
        if to.divisor() < 4 {
            let (three, zero) = (code.u32(3), code.u32(0));
            let rest = code.binary(BinaryOperator::And, at, three);
            let odd = code.binary(BinaryOperator::NotEqual, rest, zero);
            let site = self.site("a store of a word to bytes that are not aligned to it".into(), span);
            let report = self.report();
            let site = code.u32(site);
            code.when(odd, |c| {
                c.run(report, vec![site]);
            });
        }
        let pointer = self.word_pointer(code, to.slot, at);
        code.store(pointer, word);
    }

    /// Stores the low bits of a word atomically with respect to its other bits, which other threads may be
    /// writing.
    pub(crate) fn store_part(&mut self, code: &mut Code, to: Bytes<'_>, bits: Expr, width: u32) -> Res {
        let at = self.offset(code, to.at, to.by);
        let pointer = self.word_pointer(code, to.slot, at);
        // The byte within the word, and eight bits for each.
        let (last, log_of_bits) = (code.u32(3), code.u32(3));
        let byte = code.binary(BinaryOperator::And, at, last);
        let shift = code.binary(BinaryOperator::ShiftLeft, byte, log_of_bits);
        let mask = code.u32((1 << width) - 1);
        let mask = code.binary(BinaryOperator::ShiftLeft, mask, shift);
        let keep = code.unary(naga::UnaryOperator::BitwiseNot, mask);
        let bits = code.binary(BinaryOperator::ShiftLeft, bits, shift);
        if to.slot.is_private {
            let old = code.load(pointer);
            let kept = code.binary(BinaryOperator::And, old, keep);
            let new = code.binary(BinaryOperator::InclusiveOr, kept, bits);
            code.store(pointer, new);
            return Ok(());
        }
        for (fun, value) in [(AtomicFunction::And, keep), (AtomicFunction::InclusiveOr, bits)] {
            let ty = self.lanes_type(Scalar::U32, 1);
            code.atomic(pointer, fun, value, ty);
        }
        Ok(())
    }
}

/// The power of two, at most 4, that divides a number of bytes.
pub(crate) fn divisor(bytes: u32) -> u32 {
    1 << bytes.trailing_zeros().min(2)
}

/// The number that the low bits of a word represent; for 64 bits, `high` is the upper word.
pub(crate) fn number_of_word(code: &mut Code, s: Scalar, word: Expr, high: Option<Expr>) -> Expr {
    let mask = |code: &mut Code, mask: u32| {
        let mask = code.u32(mask);
        code.binary(BinaryOperator::And, word, mask)
    };
    let signed = |code: &mut Code, unused: u32| {
        let (x, by) = (code.convert(word, ScalarKind::Sint, None), code.u32(unused));
        let x = code.binary(BinaryOperator::ShiftLeft, x, by);
        code.binary(BinaryOperator::ShiftRight, x, by)
    };
    match s {
        Scalar::U32 => word,
        Scalar::I32 => code.convert(word, ScalarKind::Sint, None),
        Scalar::F32 => code.convert(word, ScalarKind::Float, None),
        Scalar::Bool => {
            let low = mask(code, 0xff);
            let zero = code.u32(0);
            code.binary(BinaryOperator::NotEqual, low, zero)
        }
        Scalar::U8 => mask(code, 0xff),
        Scalar::U16 => mask(code, 0xffff),
        Scalar::I8 => signed(code, 24),
        Scalar::I16 => signed(code, 16),
        Scalar::F16 => {
            let both = code.math(MathFunction::Unpack2x16float, &[word]);
            let low = code.part(both, 0);
            code.convert(low, ScalarKind::Float, Some(2))
        }
        Scalar::I64 | Scalar::U64 | Scalar::F64 => {
            let low = code.convert(word, ScalarKind::Uint, Some(8));
            let high = high.unwrap_or(word);
            let high = code.convert(high, ScalarKind::Uint, Some(8));
            let by = code.u32(32);
            let high = code.binary(BinaryOperator::ShiftLeft, high, by);
            let bits = code.binary(BinaryOperator::InclusiveOr, low, high);
            match s {
                Scalar::U64 => bits,
                Scalar::I64 => code.convert(bits, ScalarKind::Sint, None),
                _ => code.convert(bits, ScalarKind::Float, None),
            }
        }
    }
}

/// A half of a 64-bit number; smaller numbers have a low half only.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Half {
    Low,
    High,
}

/// The word that represents a half of a number in memory.
pub(crate) fn word_of_number(code: &mut Code, s: Scalar, x: Expr, half: Half) -> Expr {
    let low_bits = |code: &mut Code, x: Expr| {
        let bits = code.convert(x, ScalarKind::Uint, None);
        let mask = code.u32(((1u64 << s.bits()) - 1) as u32);
        code.binary(BinaryOperator::And, bits, mask)
    };
    match s {
        Scalar::U32 => x,
        Scalar::I32 | Scalar::F32 => code.convert(x, ScalarKind::Uint, None),
        Scalar::Bool => {
            let (one, zero) = (code.u32(1), code.u32(0));
            code.select(x, one, zero)
        }
        Scalar::U8 | Scalar::U16 => x,
        Scalar::I8 | Scalar::I16 => low_bits(code, x),
        Scalar::F16 => word_of_half(code, x),
        Scalar::I64 | Scalar::U64 | Scalar::F64 => {
            let bits = if s == Scalar::U64 { x } else { code.convert(x, ScalarKind::Uint, None) };
            let bits = if half == Half::High {
                let by = code.u32(32);
                code.binary(BinaryOperator::ShiftRight, bits, by)
            } else {
                bits
            };
            code.convert(bits, ScalarKind::Uint, Some(4))
        }
    }
}

/// The bits of a `half`.
pub(crate) fn word_of_half(code: &mut Code, x: Expr) -> Expr {
    let x = code.convert(x, ScalarKind::Float, Some(4));
    // The second lane does not matter.
    let pair = code.splat(2, x);
    let bits = code.math(MathFunction::Pack2x16float, &[pair]);
    let mask = code.u32(0xffff);
    code.binary(BinaryOperator::And, bits, mask)
}
