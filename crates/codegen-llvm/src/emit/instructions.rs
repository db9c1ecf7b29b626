//! LLVM's instructions, as the walk over the IR uses them.
//!
//! Instructions that are only partially defined are guarded here, so that nothing is poison or undefined:
//! shift amounts are masked, conversions saturate. No instruction has a flag that allows other results. A
//! value that increases from lane to lane by the same step keeps that form where it can.

use ir::{AtomicOp, Func, Math, Scalar};
use native::Options;
use native::emit::{Assembler, Binary, Cast, Compare, Fixed, Instructions, Odds, UNIFORM, Unary};
use native::plan::Plan;
use native::runtime::{Helper, Tables, Word, offsets};

use super::calls::{PASSED, is_by_memory};
use super::local::Class;
use super::{Emitter, Stop, Version, el, word};
use crate::operand::{El, Id, Lin, Val, Vals};
use crate::text::Block;

impl<'m> Instructions<'m> for Emitter<'_, 'm> {
    type V = Val;
    type Block = Block;
    type Error = Stop;
    const NAME: &'static str = crate::NAME;
    const LEAST_BITS: u32 = 0;
    const THREADS_JUMPS: bool = false;

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
            },
        )
    }

    fn register_bits(s: Scalar) -> u32 {
        el(s).bits()
    }

    fn unary(&mut self, op: Unary, a: Val) -> Val {
        match op {
            Unary::NegF => self.w.unary("fneg", a),
            Unary::Neg => self.w.binary("sub", Val::bits(a.el, 0), a),
            Unary::Not => self.w.binary("xor", a, Val::bits(a.el, u64::MAX)),
            Unary::CountBits => self.w.intrinsic("ctpop", &[a]),
            Unary::ReverseBits => self.w.intrinsic("bitreverse", &[a]),
            Unary::LeadingZeros => self.w.zeros("ctlz", a),
            Unary::TrailingZeros => self.w.zeros("cttz", a),
        }
    }

    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        let name = match op {
            Binary::Add => return self.add_ints(a, b),
            Binary::Sub => return self.sub_ints(a, b),
            Binary::Mul => return self.mul_ints(a, b),
            Binary::Shl | Binary::ShrSigned | Binary::ShrUnsigned => return self.shift(op, a, b),
            Binary::AddNoWrap => "add nuw",
            Binary::AddF => "fadd",
            Binary::SubF => "fsub",
            Binary::MulF => "fmul",
            Binary::DivF => "fdiv",
            Binary::DivSigned => "sdiv",
            Binary::DivUnsigned => "udiv",
            Binary::RemSigned => "srem",
            Binary::RemUnsigned => "urem",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::MinSigned => return self.w.intrinsic("smin", &[a, b]),
            Binary::MaxSigned => return self.w.intrinsic("smax", &[a, b]),
            Binary::MaxUnsigned => return self.w.intrinsic("umax", &[a, b]),
        };
        self.w.binary(name, a, b)
    }

    fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        let name = match op {
            Compare::EqualF => "fcmp oeq",
            Compare::NotEqualF => "fcmp une",
            Compare::LessF => "fcmp olt",
            Compare::LessOrEqualF => "fcmp ole",
            Compare::MoreF => "fcmp ogt",
            Compare::MoreOrEqualF => "fcmp oge",
            Compare::UnorderedF => "fcmp uno",
            Compare::Equal => "icmp eq",
            Compare::NotEqual => "icmp ne",
            Compare::LessSigned => "icmp slt",
            Compare::LessOrEqualSigned => "icmp sle",
            Compare::MoreSigned => "icmp sgt",
            Compare::MoreOrEqualSigned => "icmp sge",
            Compare::LessUnsigned => "icmp ult",
            Compare::LessOrEqualUnsigned => "icmp ule",
            Compare::MoreUnsigned => "icmp ugt",
            Compare::MoreOrEqualUnsigned => "icmp uge",
        };
        self.w.compare(name, a, b)
    }

    fn cast(&mut self, op: Cast, a: Val, to: Scalar) -> Val {
        let to = el(to);
        match op {
            Cast::Promote => self.w.cast("fpext", a, to),
            Cast::Demote => self.w.cast("fptrunc", a, to),
            Cast::OfSigned => self.w.cast("sitofp", a, to),
            Cast::OfUnsigned => self.w.cast("uitofp", a, to),
            Cast::Bits => self.w.cast("bitcast", a, to),
            Cast::Truncate => {
                let out = self.w.cast("trunc", a, to);
                let lin = a.lin.map(|lin| {
                    let base = self.w.cast("trunc", Val::uniform(lin.base, a.el), to);
                    Lin { base: base.id, ..lin }
                });
                Val { lin, ..out }
            }
        }
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
        let name = if signed && a.el != El::I1 { "sext" } else { "zext" };
        let out = self.w.cast(name, a, ty);
        let Some(lin) = a.lin.filter(|_| a.el.bits() >= 16) else { return out };
        // The exact numbers of all lanes must be within the range of the narrow type.
        let span = lin.step.unsigned_abs() * u64::from(self.lanes - 1);
        let bits = a.el.bits();
        let base = Val::uniform(lin.base, a.el);
        let fits = match (signed, lin.step >= 0) {
            (false, true) => {
                self.w.compare("icmp ule", base, Val::bits(a.el, (u64::MAX >> (64 - bits)) - span))
            }
            (false, false) => self.w.compare("icmp uge", base, Val::bits(a.el, span)),
            (true, true) => {
                let max = (1u64 << (bits - 1)) - 1;
                self.w.compare("icmp sle", base, Val::bits(a.el, max - span))
            }
            (true, false) => {
                let min = 1u64 << (bits - 1);
                self.w.compare("icmp sge", base, Val::bits(a.el, min + span))
            }
        };
        let holds = self.w.binary("and", fits, Val::uniform(lin.holds, El::I1));
        let base = self.w.cast(name, base, ty);
        Val { lin: Some(Lin { base: base.id, step: lin.step, holds: holds.id }), ..out }
    }

    fn float_to_int(&mut self, a: Val, to: Scalar) -> Val {
        let name = if to.is_signed_int() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
        self.w.call(format_args!("{name}"), el(to), a.var, &[a])
    }

    fn widen(&mut self, a: Val) -> Val {
        if self.cx.has_f16c {
            return self.by_half("bitcast", a, "fpext", El::F32);
        }
        self.by_lane(Scalar::F32, &[a], |e, args| {
            let a = e.w.cast("zext", args[0], El::I32);
            e.helper_value(Helper::HalfToSingle, &[a])
        })
    }

    fn narrow(&mut self, a: Val) -> Val {
        if self.cx.has_f16c {
            return self.by_half("fptrunc", a, "bitcast", El::I16);
        }
        self.by_lane(Scalar::U16, &[a], |e, args| {
            let bits = e.helper_value(Helper::SingleToHalf, args);
            e.w.cast("trunc", bits, El::I16)
        })
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        self.w.select(c, a, b)
    }

    fn math_instruction(&mut self, m: Math, args: &[Val]) -> Option<Val> {
        let name = match m {
            Math::Sqrt => "sqrt",
            Math::Abs => "fabs",
            Math::Floor => "floor",
            Math::Ceil => "ceil",
            Math::Trunc => "trunc",
            Math::Round => "roundeven",
            Math::Fma => "fma",
            _ => return None,
        };
        Some(self.w.intrinsic(name, args))
    }

    /// Calls a function of `ir::library`.
    fn math_call(&mut self, m: Math, _: Scalar, args: &[Val]) -> Val {
        let el = args[0].el;
        let var = args.iter().any(|a| a.var);
        let args: Vals = args.iter().map(|&a| self.w.fit(a, var)).collect();
        let lanes = if var { self.lanes } else { 1 };
        self.cx.used_library.insert((m, el, lanes));
        let like = Val { var, ..Val::bits(el, 0) };
        self.w.call_own(&super::library::name(m, el, lanes), &[like], &args)[0]
    }

    fn atomic_instruction(&mut self, s: Scalar, op: AtomicOp, at: Val, x: Val) -> Option<Val> {
        let signed = s.is_signed_int();
        let name = match op {
            AtomicOp::Add if s.is_float() => "fadd",
            AtomicOp::Add => "add",
            AtomicOp::And => "and",
            AtomicOp::Or => "or",
            AtomicOp::Xor => "xor",
            AtomicOp::Exchange => "xchg",
            AtomicOp::Min if signed => "min",
            AtomicOp::Min => "umin",
            AtomicOp::Max if signed => "max",
            AtomicOp::Max => "umax",
            AtomicOp::CompareExchange => return None,
        };
        match s {
            _ if s.is_int() && s.bits() >= 32 => Some(self.atomic_line(name, at, x, "acq_rel")),
            Scalar::F32 | Scalar::F64 if op == AtomicOp::Add => {
                Some(self.atomic_line(name, at, x, "monotonic"))
            }
            _ => None,
        }
    }

    fn add_alone(&mut self, s: Scalar, at: Val, x: Val) -> Val {
        let note = self.note(Class::Buffer { global: None, constant: false }, el(s).bytes());
        let old = self.w.load(x.el, UNIFORM, at, &note);
        let new = self.w.binary("fadd", old, x);
        self.w.store(new, at, &note);
        old
    }

    fn stack_pointer(&mut self) -> Val {
        let at = self.w.call(format_args!("llvm.frameaddress"), El::Ptr, UNIFORM, &[Val::i32(0)]);
        self.w.cast("ptrtoint", at, El::I64)
    }

    fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        if helper.allocates() {
            let site = self.cx.tables.memory_site(self.here);
            self.set_context(Val::i32(site), offsets::SITE);
        }
        let (params, result) = helper.signature();
        let ctx = Val::name(El::Ptr, "%ctx");
        let args: Vals = if params.len() == args.len() + 1 {
            std::iter::once(ctx).chain(args.iter().copied()).collect()
        } else {
            args.iter().copied().collect()
        };
        debug_assert!(args.iter().zip(params).all(|(a, &w)| !a.var && a.el == word(w)), "{helper:?}");
        let about = match helper {
            Helper::HalfToSingle
            | Helper::SingleToHalf
            | Helper::DoubleToHalf
            | Helper::RemSingle
            | Helper::RemDouble => " nounwind willreturn memory(none)",
            Helper::Fail | Helper::NotFinite => " cold nounwind",
            _ => " nounwind",
        };
        self.w.call_external(helper.name(), result.map(word), &args, about)
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
        if is_by_memory(&returned) {
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
        let note = self.note(class, el.bytes());
        self.w.load(el, UNIFORM, at, &note)
    }

    fn set_context(&mut self, x: Val, offset: i32) {
        let at = self.context_at(offset);
        let note = self.note(Class::Context, 4);
        self.w.store(x, at, &note);
    }

    fn block(&mut self, like: &[Val]) -> Block {
        self.w.block(like)
    }

    fn enter(&mut self, block: Block) -> Vals {
        self.w.enter(block)
    }

    fn jump(&mut self, to: Block, args: &[Val]) {
        self.w.jump(to, args);
    }

    fn branch(&mut self, c: Val, yes: (Block, &[Val]), no: (Block, &[Val]), odds: Odds) {
        self.w.branch(c, yes, no, odds);
    }

    fn switch(&mut self, tag: Val, cases: &[(u64, Block)], otherwise: Block) {
        self.w.switch(tag, cases, otherwise);
    }

    fn ret(&mut self) {
        self.w.line(&[], format_args!("ret void"));
    }
}

impl Emitter<'_, '_> {
    /// Emits two conversions, with halves in between.
    fn by_half(&mut self, first: &str, a: Val, second: &str, to: El) -> Val {
        let half = self.w.odd();
        let out = self.w.reg(to, a.var);
        let (h, ty, from) = (self.w.operand(half, UNIFORM), self.w.ty(to, a.var), self.w.typed(a));
        let halves = if a.var { format!("<{} x half>", self.lanes) } else { "half".to_string() };
        self.w.make(half, &[a], format_args!("{first} {from} to {halves}"));
        self.w.make(out, &[half], format_args!("{second} {halves} {h} to {ty}"));
        out
    }

    /// The form of a stepped value after an instruction on its base.
    fn stepped(&mut self, op: &str, lin: Lin, with: Val, el: El, step: i64) -> Option<Lin> {
        let base = self.w.binary(op, Val::uniform(lin.base, el), with);
        (step.unsigned_abs() < 1 << 24).then_some(Lin { base: base.id, step, holds: lin.holds })
    }

    /// The sum of integers, which preserves steps.
    pub(super) fn add_ints(&mut self, a: Val, b: Val) -> Val {
        if b.constant() == Some(0) && !b.var {
            return a;
        }
        let out = self.w.binary("add", a, b);
        let lin = match (a.lin, b.lin) {
            (Some(lin), None) if !b.var => self.stepped("add", lin, b, out.el, lin.step),
            (None, Some(lin)) if !a.var => self.stepped("add", lin, a, out.el, lin.step),
            _ => None,
        };
        Val { lin, ..out }
    }

    /// The product of integers, which preserves steps if one factor is a constant.
    pub(super) fn mul_ints(&mut self, a: Val, b: Val) -> Val {
        if b.constant() == Some(1) {
            return a;
        }
        let out = self.w.binary("mul", a, b);
        let times = |lin: Lin, n: u64| lin.step.checked_mul(i64::try_from(n).ok()?);
        let lin = match (a.lin, b.lin, a.constant(), b.constant()) {
            (Some(lin), None, _, Some(n)) => times(lin, n).map(|step| (lin, b, step)),
            (None, Some(lin), Some(n), _) => times(lin, n).map(|step| (lin, a, step)),
            _ => None,
        };
        let lin = lin.and_then(|(lin, by, step)| self.stepped("mul", lin, by, out.el, step));
        Val { lin, ..out }
    }

    /// The difference of integers, which preserves steps.
    fn sub_ints(&mut self, a: Val, b: Val) -> Val {
        let out = self.w.binary("sub", a, b);
        let lin = match (a.lin, b.lin) {
            (Some(a), None) if !b.var => self.stepped("sub", a, b, out.el, a.step),
            (None, Some(b)) if !a.var => {
                let base = self.w.binary("sub", a, Val::uniform(b.base, out.el));
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
            None => self.w.binary("and", b, Val::bits(b.el, most)),
        };
        let name = match op {
            Binary::ShrSigned => "ashr",
            Binary::ShrUnsigned => "lshr",
            _ => "shl",
        };
        let out = self.w.binary(name, a, amount);
        let lin = match (a.lin, amount.constant()) {
            (Some(lin), Some(n)) if n < 20 && op == Binary::Shl => {
                self.stepped("shl", lin, amount, out.el, lin.step << n)
            }
            _ => None,
        };
        Val { lin, ..out }
    }

    /// The address of a field of the context.
    pub(super) fn context_at(&mut self, offset: i32) -> Val {
        self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offset.into()))
    }

    /// Emits an atomic instruction; returns the old number.
    fn atomic_line(&mut self, name: &str, at: Val, x: Val, order: &str) -> Val {
        let out = self.w.reg(x.el, UNIFORM);
        let (list, align) = (self.w.list(&[at, x]), x.el.bytes());
        self.w.make(out, &[at, x], format_args!("atomicrmw {name} {list} {order}, align {align}"));
        out
    }
}
