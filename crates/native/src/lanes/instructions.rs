//! The instructions of a [`Writer`], as the walk over the IR uses them.
//!
//! Instructions that are only partially defined are guarded here, so that nothing is poison or undefined:
//! shift amounts are masked, conversions saturate. No instruction has a flag that allows other results. A
//! value that increases from lane to lane by the same step keeps that form where it can.

use crate::Options;
use crate::emit::{Assembler, Binary, Cast, Compare, Fixed, Instructions, Odds, UNIFORM, Unary};
use crate::plan::Plan;
use crate::runtime::{Helper, Tables, Word, offsets};
use ir::{AtomicOp, Func, Math, Scalar};

use super::calls::PASSED;
use super::library::What;
use super::operand::{El, Id, Lin, Val, Vals};
use super::{Backend, Class, Emitter, Stop, Version, Writer, el, word};

impl<'m, B: Backend> Instructions<'m> for Emitter<'_, 'm, B> {
    type V = Val;
    type Block = <B::Writer as Writer>::Block;
    type Error = Stop;
    const NAME: &'static str = B::NAME;
    const LEAST_BITS: u32 = B::LEAST_BITS;
    const THREADS_JUMPS: bool = B::THREADS_JUMPS;
    const UNROLLS: bool = B::UNROLLS;
    const TESTS_BEFORE: bool = B::TESTS_BEFORE;

    fn module(&self) -> &'m ir::Module {
        self.cx.ir
    }

    fn plan(&self) -> &Plan {
        &self.cx.plan
    }

    fn options(&self) -> &Options {
        &self.cx.options
    }

    fn tables(&mut self) -> &mut Tables {
        &mut self.cx.tables
    }

    fn locate(&mut self, location: Option<u32>) {
        self.w.locate(location);
    }

    fn constant(&mut self, s: Scalar, bits: u64) -> Val {
        Val::bits(el(s), bits)
    }

    fn constant_of(&self, v: Val) -> Option<u64> {
        v.constant()
    }

    fn null(&mut self) -> Val {
        Val::bits(El::Ptr, 0)
    }

    fn fixed(&mut self, which: Fixed) -> Val {
        Val::name(
            El::Ptr,
            match which {
                Fixed::Zeros => "@rt_zero",
                Fixed::Empty => "@rt_empty",
                Fixed::EmptyAt => "@rt_empty_at",
                Fixed::Counts => "@rt_counts",
            },
        )
    }

    fn register_bits(s: Scalar) -> u32 {
        el(s).bits()
    }

    fn unary(&mut self, op: Unary, a: Val) -> Val {
        match op {
            Unary::Neg => self.w.binary(Binary::Sub, Val::bits(a.el, 0), a),
            Unary::Not => self.w.binary(Binary::Xor, a, Val::bits(a.el, u64::MAX)),
            _ => self.w.unary(op, a),
        }
    }

    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        match op {
            Binary::Add => self.add_ints(a, b),
            Binary::Sub => self.sub_ints(a, b),
            Binary::Mul => self.mul_ints(a, b),
            Binary::Shl | Binary::ShrSigned | Binary::ShrUnsigned => self.shift(op, a, b),
            _ => self.w.binary(op, a, b),
        }
    }

    fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        self.w.compare(op, a, b)
    }

    fn cast(&mut self, op: Cast, a: Val, to: Scalar) -> Val {
        let to = el(to);
        let out = self.w.cast(op, a, to);
        let lin = a.lin.filter(|_| op == Cast::Truncate).map(|lin| {
            let base = self.w.cast(Cast::Truncate, Val::uniform(lin.base, a.el), to);
            Lin { base: base.id, ..lin }
        });
        Val { lin, ..out }
    }

    /// Steps are preserved where they fit.
    fn extend(&mut self, to: Scalar, signed: bool, a: Val) -> Val {
        let ty = el(to);
        if a.el == ty {
            return a;
        }
        if let (Some(bits), false) = (a.constant(), a.el == El::I1) {
            let shift = 64 - a.el.bits();
            let bits = if signed { ((bits << shift) as i64 >> shift) as u64 } else { bits << shift >> shift };
            return Val { el: ty, id: Id::Bits(bits), ..a };
        }
        let name = if signed && a.el != El::I1 { Cast::SignExtend } else { Cast::ZeroExtend };
        let out = self.w.cast(name, a, ty);
        let Some(lin) = a.lin.filter(|_| a.el.bits() >= 16) else { return out };
        // The exact numbers of all lanes must be within the range of the narrow type.
        let span = lin.step.unsigned_abs() * u64::from(self.lanes - 1);
        let bits = a.el.bits();
        let base = Val::uniform(lin.base, a.el);
        let fits = match (signed, lin.step >= 0) {
            (false, true) => self.w.compare(
                Compare::LessOrEqualUnsigned,
                base,
                Val::bits(a.el, (u64::MAX >> (64 - bits)) - span),
            ),
            (false, false) => self.w.compare(Compare::MoreOrEqualUnsigned, base, Val::bits(a.el, span)),
            (true, true) => {
                let max = (1u64 << (bits - 1)) - 1;
                self.w.compare(Compare::LessOrEqualSigned, base, Val::bits(a.el, max - span))
            }
            (true, false) => {
                let min = 1u64 << (bits - 1);
                self.w.compare(Compare::MoreOrEqualSigned, base, Val::bits(a.el, min + span))
            }
        };
        let holds = self.w.binary(Binary::And, fits, Val::uniform(lin.holds, El::I1));
        let base = self.w.cast(name, base, ty);
        Val { lin: Some(Lin { base: base.id, step: lin.step, holds: holds.id }), ..out }
    }

    fn float_to_int(&mut self, a: Val, to: Scalar) -> Val {
        self.w.float_to_int(a, el(to), to.is_signed_int())
    }

    fn widen(&mut self, a: Val) -> Val {
        if let Some(wide) = self.w.widen(a) {
            return wide;
        }
        self.by_lane(Scalar::F32, &[a], |e, args| {
            let a = e.w.cast(Cast::ZeroExtend, args[0], El::I32);
            e.helper_value(Helper::HalfToSingle, &[a])
        })
    }

    fn narrow(&mut self, a: Val) -> Val {
        if let Some(half) = self.w.narrow(a) {
            return half;
        }
        self.by_lane(Scalar::U16, &[a], |e, args| {
            let bits = e.helper_value(Helper::SingleToHalf, args);
            e.w.cast(Cast::Truncate, bits, El::I16)
        })
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        self.w.select(c, a, b)
    }

    fn math_instruction(&mut self, m: Math, args: &[Val]) -> Option<Val> {
        let is_one = matches!(
            m,
            Math::Sqrt | Math::Abs | Math::Floor | Math::Ceil | Math::Trunc | Math::Round | Math::Fma
        );
        is_one.then(|| self.w.math(m, args))
    }

    /// Calls a function of `ir::library`.
    fn math_call(&mut self, m: Math, s: Scalar, args: &[Val]) -> Val {
        let estimated = s == Scalar::F32 && self.w.estimates() && ir::library::has_estimate(m);
        self.library_call(if estimated { What::Estimate(m) } else { What::One(m) }, args)[0]
    }

    fn atomic_instruction(&mut self, s: Scalar, op: AtomicOp, at: Val, x: Val) -> Option<Val> {
        self.w.atomic(s, op, at, x)
    }

    fn add_alone(&mut self, s: Scalar, at: Val, x: Val) -> Val {
        let class = Class::Buffer { global: None, constant: false };
        let old = self.w.load(el(s), UNIFORM, at, class);
        let new = self.w.binary(Binary::AddF, old, x);
        self.w.store(new, at, class);
        old
    }

    fn stack_pointer(&mut self) -> Val {
        let at = self.w.stack_pointer();
        self.w.cast(Cast::Address, at, El::I64)
    }

    fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        self.note_memory(helper);
        let args = with_context(helper, args);
        self.w.helper(helper, &args)
    }

    fn rare_helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        self.note_memory(helper);
        let args = with_context(helper, args);
        self.w.rare_helper(helper, &args)
    }

    fn call_code(
        &mut self,
        func: Func,
        args: &[ir::Value],
        mut parts: Vals,
        arrays: &[Val],
        varying: &[bool],
    ) -> Vals {
        if parts.len() > PASSED {
            let at = self.room(parts.len());
            self.store_words(at, &parts);
            parts = Vals::from_slice(&[at]);
        }
        let mask = self.mask.map(|mask| self.w.spread(mask));
        let ctx = Val::name(El::Ptr, "%ctx");
        let mut list: Vals =
            std::iter::once(ctx).chain(parts).chain(arrays.iter().copied()).chain(mask).collect();
        let params = args.iter().map(|&a| self.facts.varying[a]).collect();
        let version =
            Version { func, lanes: self.lanes, params, masked: mask.is_some(), dealing: self.dealing };
        let name = format!("f{}", self.cx.versions.insert_full(version).0);
        let returned = self.returned(func, varying);
        if B::Writer::is_by_memory(&returned, self.lanes) {
            let from = self.room(returned.len());
            list.push(from);
            self.w.call_own(&name, &[], &list);
            return self.load_words(from, &returned);
        }
        self.w.call_own(&name, &returned, &list)
    }

    fn context(&mut self, kind: Word, offset: i32) -> Val {
        let (at, el) = (self.context_at(offset), word(kind));
        let class = if offsets::is_constant(offset) { Class::Constant } else { Class::Context };
        self.w.load(el, UNIFORM, at, class)
    }

    fn set_context(&mut self, x: Val, offset: i32) {
        let at = self.context_at(offset);
        self.w.store(x, at, Class::Context);
    }

    fn block(&mut self, like: &[Val]) -> Self::Block {
        self.w.block(like)
    }

    fn enter(&mut self, block: Self::Block) -> Vals {
        self.w.enter(block)
    }

    fn jump(&mut self, to: Self::Block, args: &[Val]) {
        self.w.jump(to, args);
    }

    fn branch(&mut self, c: Val, yes: (Self::Block, &[Val]), no: (Self::Block, &[Val]), odds: Odds) {
        self.w.branch(c, yes, no, odds);
    }

    fn switch(&mut self, tag: Val, cases: &[(u64, Self::Block)], otherwise: Self::Block) {
        self.w.switch(tag, cases, otherwise);
    }

    fn ret(&mut self) {
        self.w.give(&[]);
    }
}

impl<B: Backend> Emitter<'_, '_, B> {
    /// Records the line that allocates memory, for the error message if there is not enough.
    fn note_memory(&mut self, helper: Helper) {
        if helper.allocates() {
            let site = self.cx.tables.memory_site(self.here);
            self.set_context(Val::i32(site), offsets::SITE);
        }
    }

    /// The form of a stepped value after an instruction on its base.
    fn stepped(&mut self, op: Binary, lin: Lin, with: Val, el: El, step: i64) -> Option<Lin> {
        let base = self.w.binary(op, Val::uniform(lin.base, el), with);
        (step.unsigned_abs() < 1 << 24).then_some(Lin { base: base.id, step, holds: lin.holds })
    }

    /// The sum of integers, which preserves steps.
    pub(super) fn add_ints(&mut self, a: Val, b: Val) -> Val {
        if b.constant() == Some(0) && !b.var {
            return a;
        }
        let out = self.w.binary(Binary::Add, a, b);
        let lin = match (a.lin, b.lin) {
            (Some(lin), None) if !b.var => self.stepped(Binary::Add, lin, b, out.el, lin.step),
            (None, Some(lin)) if !a.var => self.stepped(Binary::Add, lin, a, out.el, lin.step),
            _ => None,
        };
        Val { lin, ..out }
    }

    /// The product of integers, which preserves steps if one factor is a constant.
    pub(super) fn mul_ints(&mut self, a: Val, b: Val) -> Val {
        if b.constant() == Some(1) {
            return a;
        }
        let out = self.w.binary(Binary::Mul, a, b);
        let times = |lin: Lin, n: u64| lin.step.checked_mul(i64::try_from(n).ok()?);
        let lin = match (a.lin, b.lin, a.constant(), b.constant()) {
            (Some(lin), None, _, Some(n)) => times(lin, n).map(|step| (lin, b, step)),
            (None, Some(lin), Some(n), _) => times(lin, n).map(|step| (lin, a, step)),
            _ => None,
        };
        let lin = lin.and_then(|(lin, by, step)| self.stepped(Binary::Mul, lin, by, out.el, step));
        Val { lin, ..out }
    }

    /// The difference of integers, which preserves steps.
    fn sub_ints(&mut self, a: Val, b: Val) -> Val {
        let out = self.w.binary(Binary::Sub, a, b);
        let lin = match (a.lin, b.lin) {
            (Some(a), None) if !b.var => self.stepped(Binary::Sub, a, b, out.el, a.step),
            (None, Some(b)) if !a.var => {
                let base = self.w.binary(Binary::Sub, a, Val::uniform(b.base, out.el));
                Some(Lin { base: base.id, step: -b.step, holds: b.holds })
            }
            _ => None,
        };
        Val { lin, ..out }
    }

    /// A shift, of which the one to the left preserves steps if the amount is a constant.
    fn shift(&mut self, op: Binary, a: Val, b: Val) -> Val {
        let most = u64::from(b.el.bits()) - 1;
        let amount = match b.constant() {
            Some(n) => Val::bits(b.el, n & most),
            None => self.w.binary(Binary::And, b, Val::bits(b.el, most)),
        };
        let out = self.w.binary(op, a, amount);
        let lin = match (a.lin, amount.constant()) {
            (Some(lin), Some(n)) if n < 20 && op == Binary::Shl => {
                self.stepped(Binary::Shl, lin, amount, out.el, lin.step << n)
            }
            _ => None,
        };
        Val { lin, ..out }
    }

    /// The address of a field of the context.
    pub(super) fn context_at(&mut self, offset: i32) -> Val {
        self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset.into()))
    }
}

/// The operands of a helper, with the context if it takes one.
fn with_context(helper: Helper, args: &[Val]) -> Vals {
    let (params, _) = helper.signature();
    let ctx = (params.len() == args.len() + 1).then(|| Val::name(El::Ptr, "%ctx"));
    let args: Vals = ctx.into_iter().chain(args.iter().copied()).collect();
    debug_assert!(args.iter().zip(params).all(|(a, &w)| !a.var && a.el == word(w)), "{helper:?}");
    args
}
