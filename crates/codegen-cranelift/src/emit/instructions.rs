//! Cranelift's instructions, as the walk over the IR uses them.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    AtomicRmwOp, Block, InstBuilder, InstructionData, MemFlagsData, Opcode, SourceLoc, Type as ClifType,
    Value, types::*,
};
use cranelift_frontend::Switch;
use ir::{AtomicOp, Builtin, Func, InstData, Math, Scalar};
use native::Options;
use native::emit::{Assembler, Binary, Cast, Compare, Fixed, Instructions, Odds, Unary};
use native::plan::Plan;
use native::runtime::{Helper, Tables, Word, math_name, offsets};
use smallvec::SmallVec;

use super::{Emitter, Vals, block_args};
use crate::common::{constant_memory, plain, word};
use crate::types::{clif, returns};

impl<'m> Instructions<'m> for Emitter<'_, 'm> {
    type V = Value;
    type Block = Block;
    type Error = native::Unsupported;
    const NAME: &'static str = crate::NAME;
    const LEAST_BITS: u32 = 32;
    const THREADS_JUMPS: bool = true;
    // For one thread, code that is short is worth more.
    const UNROLLS: bool = false;
    const TESTS_BEFORE: bool = false;

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
        self.b.set_srcloc(location.map_or(SourceLoc::default(), SourceLoc::new));
    }

    fn constant(&mut self, s: Scalar, bits: u64) -> Value {
        match s {
            Scalar::F32 => self.b.ins().f32const(Ieee32::with_bits(bits as u32)),
            Scalar::F64 => self.b.ins().f64const(Ieee64::with_bits(bits)),
            // An immediate may be sign-extended from its width or zero-extended.
            _ => self.b.ins().iconst(clif(s), (bits & (u64::MAX >> (64 - s.bits()))) as i64),
        }
    }

    fn constant_of(&self, v: Value) -> Option<u64> {
        match self.b.func.dfg.insts[self.b.func.dfg.value_def(v).inst()?] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
                let bits = self.b.func.dfg.value_type(v).bits();
                Some(imm.bits() as u64 & (u64::MAX >> (64 - bits)))
            }
            _ => None,
        }
    }

    fn null(&mut self) -> Value {
        self.i64(0)
    }

    fn fixed(&mut self, which: Fixed) -> Value {
        let at = match which {
            Fixed::Zeros => self.cx.zero,
            Fixed::Empty => self.cx.empty,
            Fixed::EmptyAt => self.cx.empty_at,
            Fixed::Counts => self.cx.tables.notes.counts_at(),
        };
        self.i64(at)
    }

    fn register_bits(s: Scalar) -> u32 {
        clif(s).bits()
    }

    fn unary(&mut self, op: Unary, a: Value) -> Value {
        match op {
            Unary::NegF => self.b.ins().fneg(a),
            Unary::Neg => self.b.ins().ineg(a),
            Unary::Not => self.b.ins().bnot(a),
            Unary::CountBits => self.b.ins().popcnt(a),
            Unary::ReverseBits => self.b.ins().bitrev(a),
            Unary::LeadingZeros => self.b.ins().clz(a),
            Unary::TrailingZeros => self.b.ins().ctz(a),
        }
    }

    fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        match op {
            Binary::AddF => self.b.ins().fadd(a, b),
            Binary::SubF => self.b.ins().fsub(a, b),
            Binary::MulF => self.b.ins().fmul(a, b),
            Binary::DivF => self.b.ins().fdiv(a, b),
            Binary::Add | Binary::AddNoWrap => self.b.ins().iadd(a, b),
            Binary::Sub => self.b.ins().isub(a, b),
            Binary::Mul => self.b.ins().imul(a, b),
            Binary::DivSigned => self.b.ins().sdiv(a, b),
            Binary::DivUnsigned => self.b.ins().udiv(a, b),
            Binary::RemSigned => self.b.ins().srem(a, b),
            Binary::RemUnsigned => self.b.ins().urem(a, b),
            Binary::And => self.b.ins().band(a, b),
            Binary::Or => self.b.ins().bor(a, b),
            Binary::Xor => self.b.ins().bxor(a, b),
            Binary::Shl => self.b.ins().ishl(a, b),
            Binary::ShrSigned => self.b.ins().sshr(a, b),
            Binary::ShrUnsigned => self.b.ins().ushr(a, b),
            Binary::MinSigned => self.b.ins().smin(a, b),
            Binary::MaxSigned => self.b.ins().smax(a, b),
            Binary::MaxUnsigned => self.b.ins().umax(a, b),
        }
    }

    fn compare(&mut self, op: Compare, a: Value, b: Value) -> Value {
        let cc = match op {
            Compare::EqualF => return self.b.ins().fcmp(FloatCC::Equal, a, b),
            Compare::NotEqualF => return self.b.ins().fcmp(FloatCC::NotEqual, a, b),
            Compare::LessF => return self.b.ins().fcmp(FloatCC::LessThan, a, b),
            Compare::LessOrEqualF => return self.b.ins().fcmp(FloatCC::LessThanOrEqual, a, b),
            Compare::MoreF => return self.b.ins().fcmp(FloatCC::GreaterThan, a, b),
            Compare::MoreOrEqualF => return self.b.ins().fcmp(FloatCC::GreaterThanOrEqual, a, b),
            Compare::UnorderedF => return self.b.ins().fcmp(FloatCC::Unordered, a, b),
            Compare::Equal => IntCC::Equal,
            Compare::NotEqual => IntCC::NotEqual,
            Compare::LessSigned => IntCC::SignedLessThan,
            Compare::LessOrEqualSigned => IntCC::SignedLessThanOrEqual,
            Compare::MoreSigned => IntCC::SignedGreaterThan,
            Compare::MoreOrEqualSigned => IntCC::SignedGreaterThanOrEqual,
            Compare::LessUnsigned => IntCC::UnsignedLessThan,
            Compare::LessOrEqualUnsigned => IntCC::UnsignedLessThanOrEqual,
            Compare::MoreUnsigned => IntCC::UnsignedGreaterThan,
            Compare::MoreOrEqualUnsigned => IntCC::UnsignedGreaterThanOrEqual,
        };
        self.b.ins().icmp(cc, a, b)
    }

    fn cast(&mut self, op: Cast, a: Value, to: Scalar) -> Value {
        let to = clif(to);
        match op {
            Cast::Promote => self.b.ins().fpromote(to, a),
            Cast::Demote => self.b.ins().fdemote(to, a),
            Cast::Truncate => self.b.ins().ireduce(to, a),
            Cast::OfSigned => self.b.ins().fcvt_from_sint(to, a),
            Cast::OfUnsigned => self.b.ins().fcvt_from_uint(to, a),
            Cast::Bits => self.b.ins().bitcast(to, MemFlagsData::new(), a),
            Cast::ZeroExtend => self.b.ins().uextend(to, a),
            Cast::SignExtend => self.b.ins().sextend(to, a),
            Cast::Address => a,
        }
    }

    fn extend(&mut self, to: Scalar, signed: bool, a: Value) -> Value {
        let to = clif(to);
        if self.b.func.dfg.value_type(a) == to {
            a
        } else if signed {
            self.b.ins().sextend(to, a)
        } else {
            self.b.ins().uextend(to, a)
        }
    }

    fn float_to_int(&mut self, a: Value, to: Scalar) -> Value {
        let signed = to.is_signed_int();
        let wide = if to.bits() < 32 { I32 } else { clif(to) };
        let x = if signed {
            self.b.ins().fcvt_to_sint_sat(wide, a)
        } else {
            self.b.ins().fcvt_to_uint_sat(wide, a)
        };
        if to.bits() >= 32 {
            return x;
        }
        let x = if signed {
            let (min, max) = (-1i64 << (to.bits() - 1), (1i64 << (to.bits() - 1)) - 1);
            let min = self.b.ins().iconst(I32, min & 0xffff_ffff);
            let max = self.b.ins().iconst(I32, max);
            let x = self.b.ins().smax(x, min);
            self.b.ins().smin(x, max)
        } else {
            let max = self.b.ins().iconst(I32, (1i64 << to.bits()) - 1);
            self.b.ins().umin(x, max)
        };
        self.b.ins().ireduce(clif(to), x)
    }

    fn widen(&mut self, a: Value) -> Value {
        let a = self.b.ins().uextend(I32, a);
        self.helper_value(Helper::HalfToSingle, &[a])
    }

    fn narrow(&mut self, a: Value) -> Value {
        let bits = self.helper_value(Helper::SingleToHalf, &[a]);
        self.b.ins().ireduce(I16, bits)
    }

    fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        self.b.ins().select(c, a, b)
    }

    fn math_instruction(&mut self, m: Math, args: &[Value]) -> Option<Value> {
        let a = args[0];
        Some(match m {
            Math::Sqrt => self.b.ins().sqrt(a),
            Math::Abs => self.b.ins().fabs(a),
            Math::Floor if self.cx.has_round => self.b.ins().floor(a),
            Math::Ceil if self.cx.has_round => self.b.ins().ceil(a),
            Math::Trunc if self.cx.has_round => self.b.ins().trunc(a),
            Math::Round if self.cx.has_round => self.b.ins().nearest(a),
            Math::Fma if self.cx.has_fma => self.b.ins().fma(a, args[1], args[2]),
            _ => return None,
        })
    }

    /// Calls the function that the interpreter uses.
    fn math_call(&mut self, m: Math, s: Scalar, args: &[Value]) -> Value {
        let name = math_name(m, s);
        let params = [clif(s); 3];
        self.call_symbol(&name, &params[..args.len()], Some(clif(s)), args)
            .expect("a math function has a result")
    }

    fn atomic_instruction(&mut self, s: Scalar, op: AtomicOp, at: Value, x: Value) -> Option<Value> {
        let signed = s.is_signed_int();
        let op = match op {
            AtomicOp::Add if s == Scalar::F32 => return self.helper(Helper::AddSingle, &[at, x]),
            AtomicOp::Add if s == Scalar::F64 => return self.helper(Helper::AddDouble, &[at, x]),
            AtomicOp::Add => AtomicRmwOp::Add,
            AtomicOp::And => AtomicRmwOp::And,
            AtomicOp::Or => AtomicRmwOp::Or,
            AtomicOp::Xor => AtomicRmwOp::Xor,
            AtomicOp::Exchange => AtomicRmwOp::Xchg,
            AtomicOp::Min if signed => AtomicRmwOp::Smin,
            AtomicOp::Min => AtomicRmwOp::Umin,
            AtomicOp::Max if signed => AtomicRmwOp::Smax,
            AtomicOp::Max => AtomicRmwOp::Umax,
            AtomicOp::CompareExchange => return None,
        };
        let is_native = s.is_int() && s.bits() >= 32;
        is_native.then(|| self.b.ins().atomic_rmw(clif(s), plain(), op, at, x))
    }

    fn add_alone(&mut self, s: Scalar, at: Value, x: Value) -> Value {
        let old = self.b.ins().load(clif(s), plain(), at, 0);
        let new = self.b.ins().fadd(old, x);
        self.b.ins().store(plain(), new, at, 0);
        old
    }

    fn stack_pointer(&mut self) -> Value {
        self.b.ins().get_stack_pointer(I64)
    }

    fn helper(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        self.note_memory(helper);
        let (params, result) = helper.signature();
        let params: SmallVec<[ClifType; 8]> = params.iter().map(|&w| word(w)).collect();
        let args = self.with_context(helper, args);
        self.call_symbol(helper.name(), &params, result.map(word), &args)
    }

    fn rare_helper(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        self.rare_call(helper, args)
    }

    fn call_code(&mut self, func: Func, _: &[ir::Value], parts: Vals, arrays: &[Value], _: &[bool]) -> Vals {
        let id = self.cx.funcs[func].expect("a function with a body is declared");
        let (all, spilled) = returns(self.ts, super::slot_types(&self.cx.ir.funcs[func].results));
        let rest = (spilled > 0).then(|| self.frame_memory(8 * spilled));
        let args = std::iter::once(self.ctx).chain(parts).chain(arrays.iter().copied()).chain(rest);
        let args: Vals = args.collect();
        let callee = self.func_ref(id);
        let call = self.b.ins().call(callee, &args);
        let mut registers = Vals::from_slice(self.b.inst_results(call)).into_iter();
        let mut at = 0;
        let mut returned = Vals::new();
        for (ty, in_register) in all {
            returned.push(match rest {
                Some(rest) if !in_register => {
                    at += 8;
                    self.b.ins().load(ty, plain(), rest, at - 8)
                }
                _ => registers.next().expect("as many registers as the signature says"),
            });
        }
        returned
    }

    fn context(&mut self, kind: Word, offset: i32) -> Value {
        let flags = if offsets::is_constant(offset) { constant_memory() } else { plain() };
        self.b.ins().load(word(kind), flags, self.ctx, offset)
    }

    fn set_context(&mut self, x: Value, offset: i32) {
        self.b.ins().store(plain(), x, self.ctx, offset);
    }

    fn block(&mut self, like: &[Value]) -> Block {
        let block = self.b.create_block();
        for &v in like {
            let ty = self.b.func.dfg.value_type(v);
            self.b.append_block_param(block, ty);
        }
        block
    }

    fn enter(&mut self, block: Block) -> Vals {
        self.b.switch_to_block(block);
        Vals::from_slice(self.b.block_params(block))
    }

    fn jump(&mut self, to: Block, args: &[Value]) {
        let args = block_args(args);
        self.b.ins().jump(to, &args);
    }

    fn branch(&mut self, c: Value, yes: (Block, &[Value]), no: (Block, &[Value]), odds: Odds) {
        match odds {
            Odds::Even => {}
            Odds::Likely => self.b.set_cold_block(no.0),
            Odds::Unlikely => self.b.set_cold_block(yes.0),
        }
        let (a, b) = (block_args(yes.1), block_args(no.1));
        self.b.ins().brif(c, yes.0, &a, no.0, &b);
    }

    fn switch(&mut self, tag: Value, cases: &[(u64, Block)], otherwise: Block) {
        let mut switch = Switch::new();
        cases.iter().for_each(|&(bits, block)| switch.set_entry(bits.into(), block));
        switch.emit(&mut self.b, tag, otherwise);
    }

    fn ret(&mut self) {
        self.b.ins().return_(&[]);
    }
}

impl<'m> Assembler<'m> for Emitter<'_, 'm> {
    fn builtin(&mut self, builtin: Builtin, _: &InstData) -> Vals {
        let (at, n) = offsets::of(builtin);
        (0..n).map(|k| self.b.ins().load(I32, plain(), self.ctx, at + 4 * k)).collect()
    }
}

impl Emitter<'_, '_> {
    /// The operands of a helper, with the context if it takes one.
    pub(super) fn with_context(&self, helper: Helper, args: &[Value]) -> SmallVec<[Value; 8]> {
        let takes = helper.signature().0.len() > args.len();
        takes.then_some(self.ctx).into_iter().chain(args.iter().copied()).collect()
    }
}
