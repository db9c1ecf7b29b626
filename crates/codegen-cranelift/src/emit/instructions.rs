//! Cranelift's instructions, as the walk over the IR uses them.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type as ClifType, Value, types::*};
use ir::{AtomicOp, Builtin, Func, Inst, InstData, Math, Path, Scalar, Span, Type, TypeData, library};
use native::emit::cells::Access;
use native::emit::{Assembler, Binary, Cast, Compare, Unary};
use native::plan::Plan;
use native::runtime::{Helper, Tables, libm_name, own_name};
use native::types::{HANDLE_WORDS, size};
use smallvec::SmallVec;

use super::aggregate::Indexed;
use super::{Emitter, Res, Vals, constant_memory, plain, word};
use crate::types::clif;

/// A place in memory: an address, and bytes that are added to it.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    addr: Value,
    offset: u64,
}

impl<'m> Assembler<'m> for Emitter<'_, 'm> {
    type V = Value;
    type Place = Place;
    type Error = native::Unsupported;
    const NAME: &'static str = crate::NAME;
    const LEAST_BITS: u32 = 32;

    fn module(&self) -> &'m ir::Module {
        self.cx.ir
    }

    fn plan(&self) -> &Plan {
        &self.cx.plan
    }

    fn tables(&mut self) -> &mut Tables {
        &mut self.cx.tables
    }

    fn constant(&mut self, s: Scalar, bits: u64) -> Value {
        match s {
            Scalar::F32 => self.b.ins().f32const(Ieee32::with_bits(bits as u32)),
            Scalar::F64 => self.b.ins().f64const(Ieee64::with_bits(bits)),
            // An immediate may be sign-extended from its width or zero-extended.
            _ => self.b.ins().iconst(clif(s), (bits & (u64::MAX >> (64 - s.bits()))) as i64),
        }
    }

    fn constant_of(&self, _: Value) -> Option<u64> {
        None
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
            Binary::Add => self.b.ins().iadd(a, b),
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
        }
    }

    fn extend(&mut self, to: Scalar, signed: bool, a: Value) -> Value {
        Emitter::extend(self, clif(to), signed, a)
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

    /// Calls the function that the interpreter uses, or that of `ir::library` if the options ask for it.
    fn math_call(&mut self, m: Math, s: Scalar, args: &[Value]) -> Value {
        let own = self.cx.own_math && library::has(m);
        let name = if own { own_name(m, s == Scalar::F64) } else { libm_name(m, s == Scalar::F64) };
        let params = [clif(s); 3];
        self.call_symbol(&name, &params[..args.len()], Some(clif(s)), args)
            .expect("a math function has a result")
    }

    fn helper(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        self.note_memory(helper);
        let (params, result) = helper.signature();
        let params: SmallVec<[ClifType; 8]> = params.iter().map(|&w| word(w)).collect();
        let args = self.with_context(helper, args);
        self.call_symbol(helper.name(), &params, result.map(word), &args)
    }

    fn by_lane(
        &mut self,
        _: Scalar,
        args: &[Value],
        mut one: impl FnMut(&mut Self, &[Value]) -> Value,
    ) -> Value {
        one(self, args)
    }

    fn zero_of(&mut self, ty: Type) -> Vals {
        match self.ts[ty] {
            TypeData::Stack(_) => Vals::from_slice(&[self.i64(self.cx.empty)]),
            TypeData::Buffer(_) => Vals::from_elem(self.i64(0), HANDLE_WORDS),
            _ => Vals::from_slice(&[self.i64(self.cx.zero)]),
        }
    }

    fn selection(&mut self, data: &InstData) -> Res<Vals> {
        let (c, a, b) = (self.get(data.args[0]), self.get(data.args[1]), self.get(data.args[2]));
        Ok(a.iter()
            .zip(&b)
            .enumerate()
            .map(|(k, (&a, &b))| {
                let c = if c.len() > 1 { c[k] } else { c[0] };
                self.b.ins().select(c, a, b)
            })
            .collect())
    }

    fn map_numbers(
        &mut self,
        n: u64,
        s: Scalar,
        args: &[Value],
        to_s: Scalar,
        to: Value,
        mut body: impl FnMut(&mut Self, &[Value]) -> Res<Value>,
    ) -> Res {
        let (step, to_step) = (s.bytes() as u64, to_s.bytes() as u64);
        self.each(n, step, &mut |e, at| {
            let mut operands = Vals::new();
            for &a in args {
                let a = e.b.ins().iadd(a, at);
                operands.push(e.b.ins().load(clif(s), plain(), a, 0));
            }
            let x = body(e, &operands)?;
            let mut to_at = at;
            if to_step != step {
                let shift = e.i64(i64::from(step.trailing_zeros()));
                let k = e.b.ins().ushr(at, shift);
                to_at = e.mul_imm(k, to_step);
            }
            let place = e.b.ins().iadd(to, to_at);
            e.b.ins().store(plain(), x, place, 0);
            Ok(())
        })
    }

    fn varies(&self, _: ir::Value) -> bool {
        false
    }

    fn fit(&mut self, _: Type, vals: Vals, _: bool, _: Span) -> Res<Vals> {
        Ok(vals)
    }

    fn memory(&mut self, bytes: u64, _: bool) -> Value {
        Emitter::memory(self, bytes)
    }

    fn offset(&mut self, address: Value, bytes: Value) -> Value {
        self.b.ins().iadd(address, bytes)
    }

    fn address_bits(&mut self, address: Value) -> Value {
        address
    }

    fn times(&mut self, a: Value, n: u64) -> Value {
        self.mul_imm(a, n)
    }

    fn index64(&mut self, v: ir::Value) -> Value {
        let (s, x) = (self.scalar_of(v), self.one(v));
        Emitter::extend(self, I64, s.is_signed_int(), x)
    }

    fn part(&mut self, array: Value, elem: Type, k: u64) -> Place {
        Place { addr: array, offset: k * size(self.ts, elem) }
    }

    fn each_part(
        &mut self,
        array: Value,
        elem: Type,
        n: u64,
        body: &mut dyn FnMut(&mut Self, Place) -> Res,
    ) -> Res {
        self.each(n, size(self.ts, elem), &mut |e, at| {
            let addr = e.b.ins().iadd(array, at);
            body(e, Place { addr, offset: 0 })
        })
    }

    fn element(&mut self, array: Value, elem: Type, idx: ir::Value, n: u64) -> Place {
        let otherwise = self.otherwise(elem, false);
        let from = Indexed { base: array, stride: size(self.ts, elem), otherwise };
        Place { addr: self.place(&from, idx, n), offset: 0 }
    }

    fn stack_element(&mut self, stack: Value, elem: Type, idx: ir::Value, certain: bool) -> Place {
        let base = self.b.ins().load(I64, constant_memory(), stack, 0);
        let stride = size(self.ts, elem);
        let at = self.index64(idx);
        if certain {
            let bytes = self.mul_imm(at, stride);
            return Place { addr: self.b.ins().iadd(base, bytes), offset: 0 };
        }
        let len = self.b.ins().load(I64, constant_memory(), stack, 8);
        let otherwise = self.otherwise(elem, true);
        Place { addr: self.place_below(&Indexed { base, stride, otherwise }, at, len), offset: 0 }
    }

    fn load(&mut self, ty: Type, place: Place, _: Span) -> Res<Vals> {
        Ok(Emitter::load(self, ty, place.addr, place.offset))
    }

    fn store(&mut self, ty: Type, vals: &[Value], place: Place, _: Span) -> Res {
        Emitter::store(self, ty, vals, place.addr, place.offset);
        Ok(())
    }

    fn store_word(&mut self, x: Value, words: Value, k: usize) {
        self.b.ins().store(plain(), x, words, 8 * k as i32);
    }

    fn global(&mut self, global: ir::Global) -> Vals {
        Emitter::global(self, global)
    }

    fn clear_private(&mut self, base: Value, bytes: u64) {
        self.clear(base, bytes);
    }

    fn store_private(&mut self, ty: Type, vals: &[Value], base: Value, offset: u64, _: Span) -> Res {
        Emitter::store(self, ty, vals, base, offset);
        Ok(())
    }

    fn call_initial(&mut self, func: Func, span: Span) -> Res<Vec<Vals>> {
        self.call_func(func, &[], span)
    }

    fn cell_memory(&mut self, cell: ir::Value, bytes: u64) -> Value {
        match self.wanted.get(&cell) {
            Some(&at) => at,
            None => Emitter::memory(self, bytes),
        }
    }

    fn clear(&mut self, at: Value, bytes: u64) {
        Emitter::clear(self, at, bytes);
    }

    fn cell_place(&mut self, _: &InstData, args: &[ir::Value], access: Access) -> Res<Place> {
        Ok(Place { addr: Emitter::cell_place(self, args, access)?, offset: 0 })
    }

    fn loads_in_place(&self, _: Place) -> bool {
        true
    }

    fn own(&mut self, ty: Type, vals: Vals) -> Vals {
        let TypeData::Stack(elem) = self.ts[ty] else { return vals };
        let (shape, empty) = self.shape(elem);
        Vals::from_slice(&[self.helper_value(Helper::StackClone, &[vals[0], shape, empty])])
    }

    fn to_own(&mut self, ty: Type, vals: Vals, _: Place, _: Span) -> Res<Vals> {
        Ok(self.own(ty, vals))
    }

    fn copy_of(&mut self, ty: Type, vals: Vals, _: Span) -> Res<Vals> {
        let bytes = size(self.ts, ty);
        let to = Emitter::memory(self, bytes);
        self.copy(to, vals[0], bytes);
        Ok(Vals::from_slice(&[to]))
    }

    fn add_whole(&mut self, data: &InstData, ty: Type, vals: Vals, place: Place) -> Res {
        Emitter::add_whole(self, data, ty, vals[0], place.addr)
    }

    fn buffer_load(&mut self, data: &InstData, path: &Path) -> Res {
        Emitter::buffer_load(self, data, path)
    }

    fn buffer_store(&mut self, data: &InstData, path: &Path) -> Res {
        Emitter::buffer_store(self, data, path)
    }

    fn atomic(&mut self, data: &InstData, path: &Path, op: AtomicOp) -> Res {
        Emitter::atomic(self, data, path, op)
    }

    fn barrier(&mut self, _: Span) -> Res {
        self.helper(Helper::Barrier, &[]);
        Ok(())
    }

    fn builtin(&mut self, builtin: Builtin, _: &InstData) -> Vals {
        Emitter::builtin(self, builtin)
    }

    fn is_device(&self) -> bool {
        false
    }

    fn check_alone(&self, _: &str, _: Span) -> Res {
        Ok(())
    }

    fn stop_if(&mut self, c: Value, body: &mut dyn FnMut(&mut Self, Value)) {
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.branch(c, (bad, &[]), (good, &[]));
        self.enter(bad);
        body(self, c);
        self.jump(good, &[]);
        self.enter(good);
    }

    fn of_lane(&mut self, x: Value, _: Value) -> Value {
        x
    }

    fn rare_helper(&mut self, helper: Helper, args: &[Value]) -> Option<Value> {
        self.rare_call(helper, args)
    }

    fn control(&mut self, inst: Inst) -> Res {
        let f = self.f;
        Emitter::control(self, &f.insts[inst])
    }
}

impl Emitter<'_, '_> {
    /// The operands of a helper, with the context if it takes one.
    pub(super) fn with_context(&self, helper: Helper, args: &[Value]) -> SmallVec<[Value; 8]> {
        let takes = helper.signature().0.len() > args.len();
        takes.then_some(self.ctx).into_iter().chain(args.iter().copied()).collect()
    }

    /// Extends an integer to a wider type.
    pub(super) fn extend(&mut self, ty: cranelift_codegen::ir::Type, signed: bool, a: Value) -> Value {
        if self.b.func.dfg.value_type(a) == ty {
            a
        } else if signed {
            self.b.ins().sextend(ty, a)
        } else {
            self.b.ins().uextend(ty, a)
        }
    }
}
