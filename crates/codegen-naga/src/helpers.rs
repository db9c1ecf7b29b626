//! Emits helper functions of a module, on demand: operations for which the IR specifies exact results that
//! devices do not guarantee.

use ir::Scalar;
use naga::{
    BinaryOperator as Bin, Expression, Function, GlobalVariable, Handle, Literal, MathFunction as Fun,
    ScalarKind,
};

use crate::build::{Code, Expr};
use crate::memory::Slot;
use crate::module::Cx;
use crate::types::scalar;

/// A function of the module that does not correspond to a function of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Helper {
    /// Reads the 32 bits that begin at a byte offset of an array of words.
    Word(Handle<GlobalVariable>),
    /// Records a failure.
    Report,
    /// Sets the error word.
    WriteError,
    /// Converts a float to an integer: saturates, NaN is 0.
    ToInteger(Scalar, Scalar),
    /// C's `pow`, including negative bases.
    Pow(Scalar),
    /// An infinity or NaN, given by its bits.
    Special(u32),
    /// Writes a record with this number of words to the log.
    Print(u32),
}

impl Cx<'_> {
    fn helper(&mut self, helper: Helper, make: impl FnOnce(&mut Self) -> Code) -> Handle<Function> {
        if let Some(&found) = self.helpers.get(&helper) {
            return found;
        }
        let code = make(self);
        let made = self.add_function(code);
        self.helpers.insert(helper, made);
        made
    }

    /// `(at) ↦ the 32 bits that begin at byte at`
    pub(crate) fn word_reader(&mut self, slot: &Slot) -> Handle<Function> {
        self.helper(Helper::Word(slot.var), |cx| {
            let name = cx.names.unique(&format!("word_of_{}", slot.name));
            cx.comment_words(&name, &format!("the 32 bits from a byte of `{}` on", slot.name));
            let mut code = Code::new(&name);
            let uint = cx.lanes_type(Scalar::U32, 1);
            let at = code.param("at", uint, None);
            code.result(uint);
            let (two, three, one) = (code.u32(2), code.u32(3), code.u32(1));
            let index = code.binary(Bin::ShiftRight, at, two);
            let all = code.expr(Expression::GlobalVariable(slot.var));
            let first = code.element(all, index);
            let low = code.load(first);
            let byte = code.binary(Bin::And, at, three);
            let shift = code.binary(Bin::ShiftLeft, byte, three);
            let zero = code.u32(0);
            let aligned = code.binary(Bin::Equal, shift, zero);
            code.when(aligned, |c| c.ret(Some(low)));
            // The word after the last one is taken to be zero.
            let next = code.binary(Bin::Add, index, one);
            let words = match slot.words {
                Some(n) => code.u32(n),
                None => code.expr(Expression::ArrayLength(all)),
            };
            let some = code.binary(Bin::Less, next, words);
            let last = code.binary(Bin::Subtract, words, one);
            let next = code.math(Fun::Min, &[next, last]);
            let second = code.element(all, next);
            let high = code.load(second);
            let high = code.select(some, high, zero);
            let width = code.u32(32);
            let back = code.binary(Bin::Subtract, width, shift);
            let low = code.binary(Bin::ShiftRight, low, shift);
            let high = code.binary(Bin::ShiftLeft, high, back);
            let word = code.binary(Bin::InclusiveOr, low, high);
            code.ret(Some(word));
            code
        })
    }

    /// `(site)`: records the site as that of the thread's first failure, if nothing failed before.
    ///
    /// Programs check many things, drivers inline what they call, and some take long for each atomic operation. So
    /// a failure sets a variable of the thread, and entry points write that to the error word at their end. A
    /// function that is emitted without an entry point has no such end and writes the error word itself.
    pub(crate) fn report(&mut self) -> Handle<Function> {
        // Whoever reports needs the error word and the thread, which are declared before entry points begin.
        let write = self.write_error();
        if !self.options.functions.is_empty() {
            return write;
        }
        let failed = self.failed_site();
        self.helper(Helper::Report, |cx| {
            let name = cx.names.unique("report_error");
            cx.comment_words(&name, "keeps the thread's first failure for the end of the kernel");
            let mut code = Code::new(&name);
            let uint = cx.lanes_type(Scalar::U32, 1);
            let site = code.param("site", uint, None);
            let place = code.expr(Expression::GlobalVariable(failed));
            let (before, zero) = (code.load(place), code.u32(0));
            let is_first = code.binary(Bin::Equal, before, zero);
            code.when(is_first, |c| c.store(place, site));
            code.ret(None);
            code
        })
    }

    /// `(site)`: records the site in the error word, if no error has been recorded yet.
    pub(crate) fn write_error(&mut self) -> Handle<Function> {
        let (word, thread) = (self.error_state(), self.current_thread());
        self.helper(Helper::WriteError, |cx| {
            let name = cx.names.unique("write_error");
            cx.comment_words(&name, "sets the error word, if nothing did before");
            let mut code = Code::new(&name);
            let uint = cx.lanes_type(Scalar::U32, 1);
            let site = code.param("site", uint, None);
            let word = code.expr(Expression::GlobalVariable(word));
            let place = code.part(word, 0);
            let zero = code.u32(0);
            let exchanged = cx.exchange_type(naga::Scalar::U32);
            code.repeat(|code| {
                let (old, done) = code.exchange(place, zero, site, exchanged);
                code.when(done, |c| {
                    let thread = c.expr(Expression::GlobalVariable(thread));
                    let value = c.load(thread);
                    let to = c.part(word, 1);
                    c.store(to, value);
                    c.ret(None);
                });
                let other = code.binary(Bin::NotEqual, old, zero);
                code.when(other, |c| c.ret(None));
            });
            code.ret(None);
            code
        })
    }

    /// `(site, words…)`: appends a record to the log, if there is room.
    pub(crate) fn printer(&mut self, words: u32) -> Handle<Function> {
        let (log, thread) = (self.print_log(), self.current_thread());
        self.helper(Helper::Print(words), |cx| {
            let name = cx.names.unique(&format!("print_{words}_words"));
            cx.comment_words(&name, "`printf`: a record in the log, if there is room");
            let mut code = Code::new(&name);
            let uint = cx.lanes_type(Scalar::U32, 1);
            let site = code.param("site", uint, None);
            let args: Vec<Expr> = (0..words).map(|_| code.param("word", uint, None)).collect();
            let log = code.expr(Expression::GlobalVariable(log));
            let count = code.part(log, 0);
            let size = code.u32(4 + words);
            let start = code.atomic(count, naga::AtomicFunction::Add, size, uint);
            let end = code.binary(Bin::Add, start, size);
            let room = code.expr(Expression::ArrayLength(log));
            let fits = code.binary(Bin::Less, end, room);
            code.when(fits, |code| {
                let thread = code.expr(Expression::GlobalVariable(thread));
                let thread = code.load(thread);
                let place = (0..3).map(|k| code.part(thread, k)).collect::<Vec<_>>();
                for (k, word) in std::iter::once(site).chain(place).chain(args).enumerate() {
                    let offset = code.u32(k as u32 + 1);
                    let at = code.binary(Bin::Add, start, offset);
                    let to = code.element(log, at);
                    code.store(to, word);
                }
            });
            code.ret(None);
            code
        })
    }

    /// `(x) ↦ x as an integer`, for one number.
    pub(crate) fn integer_from(&mut self, from: Scalar, to: Scalar) -> Handle<Function> {
        self.helper(Helper::ToInteger(from, to), |cx| {
            let name = cx.names.unique(&format!("{}_of_{}", to.name(), from.name()));
            cx.comment_words(&name, "a float as an integer: saturates, NaN is 0");
            let mut code = Code::new(&name);
            let (from_ty, to_ty) = (cx.lanes_type(from, 1), cx.lanes_type(to, 1));
            let x = code.param("x", from_ty, None);
            code.result(to_ty);
            let (bits, signed) = (to.bits(), to.is_signed_int());
            let (least, most) = if signed {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            } else {
                (0, (1i128 << bits) - 1)
            };
            // The largest value plus one is a power of two, which every float type but `half` represents.
            let limit = (most + 1) as f64;
            let (low, high) = (integer(&mut code, to, least), integer(&mut code, to, most));
            if from != Scalar::F16 || limit <= 65504.0 {
                let limit = float(&mut code, from, limit);
                let above = code.binary(Bin::GreaterEqual, x, limit);
                code.when(above, |c| c.ret(Some(high)));
            } else {
                let limit = float(&mut code, from, 65504.0);
                let above = code.binary(Bin::Greater, x, limit);
                code.when(above, |c| c.ret(Some(high)));
            }
            if from != Scalar::F16 || least >= -65504 {
                let limit = float(&mut code, from, least as f64);
                let below = code.binary(Bin::LessEqual, x, limit);
                code.when(below, |c| c.ret(Some(low)));
            } else {
                let limit = float(&mut code, from, -65504.0);
                let below = code.binary(Bin::Less, x, limit);
                code.when(below, |c| c.ret(Some(low)));
            }
            let number = code.binary(Bin::Equal, x, x);
            code.when(number, |code| {
                let as_integer = code.convert(x, scalar(to).kind, Some(scalar(to).width));
                code.ret(Some(as_integer));
            });
            let zero = integer(&mut code, to, 0);
            code.ret(Some(zero));
            code
        })
    }

    /// `(x, y) ↦ x to the power y`, for one number.
    pub(crate) fn pow(&mut self, s: Scalar) -> Handle<Function> {
        self.helper(Helper::Pow(s), |cx| {
            let name = cx.names.unique("power");
            cx.comment_words(&name, "`pow`, of negative numbers too");
            let mut code = Code::new(&name);
            let ty = cx.lanes_type(s, 1);
            let (x, y) = (code.param("x", ty, None), code.param("y", ty, None));
            code.result(ty);
            let (zero, one) = (float(&mut code, s, 0.0), float(&mut code, s, 1.0));
            let none = code.binary(Bin::Equal, y, zero);
            code.when(none, |c| c.ret(Some(one)));
            let at_zero = code.binary(Bin::Equal, x, zero);
            let positive = code.binary(Bin::Greater, y, zero);
            let vanishes = code.binary(Bin::LogicalAnd, at_zero, positive);
            code.when(vanishes, |c| c.ret(Some(zero)));
            let below = code.binary(Bin::Less, x, zero);
            let whole = code.math(Fun::Trunc, &[y]);
            let is_whole = code.binary(Bin::Equal, whole, y);
            let negative = code.binary(Bin::LogicalAnd, below, is_whole);
            code.when(negative, |code| {
                let size = code.math(Fun::Abs, &[x]);
                let size = code.math(Fun::Pow, &[size, y]);
                let half = float(code, s, 0.5);
                let halved = code.binary(Bin::Multiply, y, half);
                let floor = code.math(Fun::Floor, &[halved]);
                let even = code.binary(Bin::Equal, floor, halved);
                let minus = code.unary(naga::UnaryOperator::Negate, size);
                let result = code.select(even, size, minus);
                code.ret(Some(result));
            });
            let plain = code.math(Fun::Pow, &[x, y]);
            code.ret(Some(plain));
            code
        })
    }

    /// `() ↦ the float with these bits`, for floats that have no literal.
    pub(crate) fn special(&mut self, bits: u32) -> Handle<Function> {
        self.helper(Helper::Special(bits), |cx| {
            let name = match bits {
                0x7f80_0000 => "infinity",
                0xff80_0000 => "minus_infinity",
                _ => "not_a_number",
            };
            let name = cx.names.unique(name);
            cx.comment_words(&name, "a number that no literal can say");
            let mut code = Code::new(&name);
            let (uint, ty) = (cx.lanes_type(Scalar::U32, 1), cx.lanes_type(Scalar::F32, 1));
            code.result(ty);
            // The bits go through a variable, so that no compiler takes them for a constant.
            let local = code.local("bits", uint);
            let bits = code.u32(bits);
            code.store(local, bits);
            let bits = code.load(local);
            let x = code.convert(bits, ScalarKind::Float, None);
            code.ret(Some(x));
            code
        })
    }
}

/// An integer literal of kind `s`.
pub(crate) fn integer(code: &mut Code, s: Scalar, x: i128) -> Expr {
    code.literal(match scalar(s) {
        naga::Scalar::I32 => Literal::I32(x as i32),
        naga::Scalar::I64 => Literal::I64(x as i64),
        naga::Scalar::U64 => Literal::U64(x as u64),
        naga::Scalar::BOOL => Literal::Bool(x != 0),
        _ => Literal::U32(x as u32),
    })
}

/// A float literal of kind `s`; `x` must be finite.
pub(crate) fn float(code: &mut Code, s: Scalar, x: f64) -> Expr {
    code.literal(match s {
        Scalar::F64 => Literal::F64(x),
        Scalar::F16 => Literal::F16(half::f16::from_bits(ir::scalar::from_f64(s, x) as u16)),
        _ => Literal::F32(x as f32),
    })
}
