//! LLVM's instructions, as the walk over the IR uses them.
//!
//! Instructions that are only partially defined are guarded here, so that nothing is poison or undefined:
//! shift amounts are masked, conversions saturate. No instruction has a flag that allows other results. A
//! value that increases from lane to lane by the same step keeps that form where it can.

use ir::{AtomicOp, Builtin, Func, Inst, InstData, Math, Op, Path, Scalar, Span, Type, TypeData, library};
use native::emit::cells::Access;
use native::emit::{Assembler, Binary, Cast, Compare, Unary};
use native::plan::Plan;
use native::runtime::{Helper, Tables, libm_name, offsets};
use native::types::{Shape, size};

use super::handles::private_bytes;
use super::local::{Class, Place};
use super::{Emitter, Res, Stop, el, word};
use crate::text::{El, Id, Lin, Val, Vals};

impl<'m> Assembler<'m> for Emitter<'_, 'm> {
    type V = Val;
    type Place = Place;
    type Error = Stop;
    const NAME: &'static str = crate::NAME;
    const LEAST_BITS: u32 = 0;

    fn module(&self) -> &'m ir::Module {
        self.cx.ir
    }

    fn plan(&self) -> &Plan {
        &self.cx.plan
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

    fn register_bits(s: Scalar) -> u32 {
        el(s).bits()
    }

    fn unary(&mut self, op: Unary, a: Val) -> Val {
        match op {
            Unary::NegF => self.w.unary("fneg", a),
            Unary::Neg => self.w.binary("sub", Val::bits(a.el, 0), a),
            Unary::Not => self.w.binary("xor", a, Val::bits(a.el, u64::MAX)),
            Unary::CountBits => self.w.intrinsic("ctpop", &[a], ""),
            Unary::ReverseBits => self.w.intrinsic("bitreverse", &[a], ""),
            Unary::LeadingZeros => self.w.intrinsic("ctlz", &[a], ", i1 false"),
            Unary::TrailingZeros => self.w.intrinsic("cttz", &[a], ", i1 false"),
        }
    }

    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        let name = match op {
            Binary::Add => return self.add_ints(a, b),
            Binary::Sub => return self.sub_ints(a, b),
            Binary::Mul => return self.mul_ints(a, b),
            Binary::Shl | Binary::ShrSigned | Binary::ShrUnsigned => return self.shift(op, a, b),
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
            Binary::MinSigned => return self.w.intrinsic("smin", &[a, b], ""),
            Binary::MaxSigned => return self.w.intrinsic("smax", &[a, b], ""),
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

    fn extend(&mut self, to: Scalar, signed: bool, a: Val) -> Val {
        Emitter::extend(self, el(to), signed, a)
    }

    fn float_to_int(&mut self, a: Val, to: Scalar) -> Val {
        self.w.float_to_int(a, el(to), to.is_signed_int())
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
        Some(self.w.intrinsic(name, args, ""))
    }

    /// Calls a function of `ir::library` or the function that the interpreter uses.
    fn math_call(&mut self, m: Math, s: Scalar, args: &[Val]) -> Val {
        if self.cx.library && library::has(m) {
            return self.library(m, args);
        }
        let (name, ty) = (libm_name(m, s == Scalar::F64), el(s).name());
        let types = vec![ty; args.len()].join(", ");
        self.w.declare(ty, &name, &types, " nounwind willreturn memory(none)");
        self.by_lane(s, args, |e, args| {
            e.call_text(&name, Some(args[0].el), args).expect("a math function has a result")
        })
    }

    fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        if helper.allocates() {
            let site = self.cx.tables.memory_site(self.here);
            let at = self.w.offset(Val::name(El::Ptr, "%ctx"), Val::i64(offsets::SITE.into()));
            let note = self.note(Class::Context, 4);
            self.w.store(Val::i32(site), at, &note);
        }
        let (params, result) = helper.signature();
        let ctx = Val::name(El::Ptr, "%ctx");
        let args: Vals = if params.len() == args.len() + 1 {
            std::iter::once(ctx).chain(args.iter().copied()).collect()
        } else {
            args.iter().copied().collect()
        };
        debug_assert!(args.iter().zip(params).all(|(a, &w)| !a.var && a.el == word(w)), "{helper:?}");
        let types: Vec<&str> = params.iter().map(|&w| word(w).name()).collect();
        let ret = result.map_or("void", |w| word(w).name());
        let about = match helper {
            Helper::HalfToSingle
            | Helper::SingleToHalf
            | Helper::DoubleToHalf
            | Helper::RemSingle
            | Helper::RemDouble => " nounwind willreturn memory(none)",
            Helper::Fail | Helper::NotFinite => " cold nounwind",
            _ => " nounwind",
        };
        let name = helper.name();
        self.w.declare(ret, name, &types.join(", "), about);
        self.call_text(name, result.map(word), &args)
    }

    /// Emits an operation without a vector form lane by lane.
    fn by_lane(&mut self, to: Scalar, args: &[Val], mut one: impl FnMut(&mut Self, &[Val]) -> Val) -> Val {
        if args.iter().all(|a| !a.var) {
            return one(self, args);
        }
        let mut all = Val { id: Id::Poison, el: el(to), var: true, wide: false, lin: None };
        for k in 0..self.lanes {
            let lane = Val::i32(k as i64);
            let args: Vals = args.iter().map(|&a| self.w.lane(a, lane)).collect();
            let x = one(self, &args);
            all = self.w.with_lane(all, lane, x);
        }
        all
    }

    fn zero_of(&mut self, ty: Type) -> Vals {
        match self.ts[ty] {
            TypeData::Stack(_) => Vals::from_slice(&[Val::name(El::Ptr, "@rt_empty")]),
            TypeData::Buffer(_) => self.null(),
            _ => Vals::from_slice(&[Val::name(El::Ptr, "@rt_zero")]),
        }
    }

    fn selection(&mut self, data: &InstData) -> Res<Vals> {
        let ty = self.ty(data.results[0]);
        let c = self.get(data.args[0]);
        let varying = self.varies(data.results[0]);
        let (a, b) = (self.get(data.args[1]), self.get(data.args[2]));
        if !self.ts.is_numeric(ty) {
            let (a, b) = (self.fit(ty, a, varying, data.span)?, self.fit(ty, b, varying, data.span)?);
            return self.pick(ty, c[0], &a, &b, data.span);
        }
        Ok(a.iter()
            .zip(&b)
            .enumerate()
            .map(|(k, (&a, &b))| self.w.select(if c.len() > 1 { c[k] } else { c[0] }, a, b))
            .collect())
    }

    fn map_numbers(
        &mut self,
        n: u64,
        s: Scalar,
        args: &[Val],
        to_s: Scalar,
        to: Val,
        mut body: impl FnMut(&mut Self, &[Val]) -> Res<Val>,
    ) -> Res {
        self.each(n, &mut |e, k| {
            let operands: Vals = args.iter().map(|&a| e.load_local(s, a, k)).collect();
            let x = body(e, &operands)?;
            e.store_local(to_s, x, to, k);
            Ok(())
        })
    }

    fn has_value(&mut self, data: &InstData) -> bool {
        let (Op::Sub, Some(counter)) = (&data.op, data.args.get(1)) else { return false };
        let left = self.trips_left.get(counter).copied();
        left.inspect(|&left| self.set(data.results[0], &[left])).is_some()
    }

    fn varies(&self, v: ir::Value) -> bool {
        self.facts.varying[v]
    }

    fn fit(&mut self, ty: Type, vals: Vals, varying: bool, span: Span) -> Res<Vals> {
        Emitter::fit(self, ty, vals, varying, span)
    }

    fn memory(&mut self, bytes: u64, varying: bool) -> Val {
        Emitter::memory(self, bytes, varying)
    }

    fn offset(&mut self, address: Val, bytes: Val) -> Val {
        self.w.offset(address, bytes)
    }

    fn address_bits(&mut self, address: Val) -> Val {
        self.w.cast("ptrtoint", address, El::I64)
    }

    fn times(&mut self, a: Val, n: u64) -> Val {
        Emitter::times(self, a, n)
    }

    fn index64(&mut self, v: ir::Value) -> Val {
        Emitter::index64(self, v)
    }

    fn part(&mut self, array: Val, elem: Type, k: u64) -> Place {
        let step = self.stride(elem, array.wide);
        Place::local(self.w.offset(array, Val::i64((k * step) as i64)))
    }

    fn each_part(
        &mut self,
        array: Val,
        elem: Type,
        n: u64,
        body: &mut dyn FnMut(&mut Self, Place) -> Res,
    ) -> Res {
        let step = self.stride(elem, array.wide);
        self.each(n, &mut |e, k| {
            let by = e.times(k, step);
            let at = e.w.offset(array, by);
            body(e, Place::local(at))
        })
    }

    fn element(&mut self, array: Val, elem: Type, idx: ir::Value, n: u64) -> Place {
        Emitter::element(self, array, elem, idx, n)
    }

    fn stack_element(&mut self, stack: Val, elem: Type, idx: ir::Value, certain: bool) -> Place {
        Emitter::stack_element(self, stack, elem, idx, certain)
    }

    fn load(&mut self, ty: Type, place: Place, span: Span) -> Res<Vals> {
        Emitter::load(self, ty, place, span)
    }

    fn store(&mut self, ty: Type, vals: &[Val], place: Place, span: Span) -> Res {
        Emitter::store(self, ty, vals, place, span)
    }

    fn store_word(&mut self, x: Val, words: Val, k: usize) {
        self.word_to(x, words, k);
    }

    fn global(&mut self, global: ir::Global) -> Vals {
        Emitter::global(self, global)
    }

    fn clear_private(&mut self, base: Val, bytes: u64) {
        let first = self.w.lane(base, Val::i32(0));
        self.clear(first, private_bytes(bytes) * self.lanes as u64);
    }

    fn store_private(&mut self, ty: Type, vals: &[Val], base: Val, offset: u64, span: Span) -> Res {
        let addr = self.w.offset(base, Val::i64(offset as i64));
        let class = Class::Buffer { global: None, constant: false };
        Emitter::store(self, ty, vals, Place { class, ..Place::local(addr) }, span)
    }

    fn call_initial(&mut self, func: Func, span: Span) -> Res<Vec<Vals>> {
        self.call_func(func, &[], span)
    }

    fn cell_memory(&mut self, cell: ir::Value, bytes: u64) -> Val {
        self.cell_mask.insert(cell, self.mask);
        Emitter::memory(self, bytes, self.varies(cell))
    }

    fn clear(&mut self, at: Val, bytes: u64) {
        Emitter::clear(self, at, bytes * self.scale(at));
    }

    fn cell_place(&mut self, data: &InstData, args: &[ir::Value], access: Access) -> Res<Place> {
        Emitter::cell_place(self, data, args, access)
    }

    fn loads_in_place(&self, place: Place) -> bool {
        !place.addr.var
    }

    fn own(&mut self, ty: Type, vals: Vals) -> Vals {
        let TypeData::Stack(elem) = self.ts[ty] else { return vals };
        let shape = self.shape(elem, vals[0].wide);
        let copy = self.helper_value(Helper::StackClone, &[vals[0], shape, Val::name(El::Ptr, "@rt_empty")]);
        Vals::from_slice(&[Val { wide: vals[0].wide, ..copy }])
    }

    fn to_own(&mut self, ty: Type, vals: Vals, place: Place, span: Span) -> Res<Vals> {
        let vals = Emitter::fit(self, ty, vals, place.addr.wide, span)?;
        if place.mask.is_some() && matches!(self.ts[ty], TypeData::Stack(_)) {
            return self.no_lanes("a stack that is replaced in some lanes", span);
        }
        Ok(self.own(ty, vals))
    }

    fn copy_of(&mut self, ty: Type, vals: Vals, span: Span) -> Res<Vals> {
        let to = Emitter::memory(self, size(self.ts, ty), vals[0].wide);
        Emitter::store(self, ty, &vals, Place::local(to), span)?;
        Ok(Vals::from_slice(&[to]))
    }

    fn add_whole(&mut self, data: &InstData, ty: Type, vals: Vals, place: Place) -> Res {
        Emitter::add_whole(self, data, ty, vals, place)
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

    fn barrier(&mut self, span: Span) -> Res {
        if self.mask.is_some() {
            return self.no_lanes("a barrier that not all lanes reach", span);
        }
        self.helper(Helper::Barrier, &[]);
        Ok(())
    }

    fn builtin(&mut self, builtin: Builtin, data: &InstData) -> Vals {
        Emitter::builtin(self, builtin, self.varies(data.results[0]))
    }

    /// Among LLVM's targets, only devices have waves.
    fn is_device(&self) -> bool {
        self.cx.has_waves
    }

    fn check_alone(&self, what: &str, span: Span) -> Res {
        if self.lanes > 1 { self.no_lanes(what, span) } else { Ok(()) }
    }

    fn stop_if(&mut self, c: Val, body: &mut dyn FnMut(&mut Self, Val)) {
        let (bad, good) = (self.w.new_block(), self.w.new_block());
        let c = self.for_any(c);
        let stop = self.any(c);
        self.w.branch(stop, bad, good, ", !prof !9");
        self.w.enter(bad);
        let lane = self.name_lane(c);
        body(self, lane);
        self.w.jump(good);
        self.w.enter(good);
    }

    fn of_lane(&mut self, x: Val, lane: Val) -> Val {
        self.w.lane(x, lane)
    }

    fn rare_helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        self.helper(helper, args)
    }

    fn control(&mut self, inst: Inst) -> Res {
        Emitter::control(self, inst)
    }
}

impl Emitter<'_, '_> {
    /// Emits `c ? a : b` for values with the same representation.
    pub(super) fn pick(&mut self, ty: Type, c: Val, a: &[Val], b: &[Val], span: Span) -> Res<Vals> {
        if a == b {
            return Ok(a.iter().copied().collect());
        }
        match self.ts[ty] {
            TypeData::Array(..) if c.var => {
                let to = self.memory(size(self.ts, ty), true);
                self.blend(ty, to, a[0], b[0], c)?;
                Ok(Vals::from_slice(&[to]))
            }
            TypeData::Stack(_) if c.var => self.no_lanes("a choice of stacks that varies", span),
            TypeData::Array(..) | TypeData::Stack(_) => {
                let wide = a[0].wide || b[0].wide;
                let one = self.w.select(c, a[0], b[0]);
                Ok(Vals::from_slice(&[Val { wide, ..one }]))
            }
            _ => Ok(a.iter().zip(b).map(|(&a, &b)| self.w.select(c, a, b)).collect()),
        }
    }

    /// The address of the shape of a stack's elements.
    pub(super) fn shape(&mut self, elem: Type, wide: bool) -> Val {
        let shape = Shape::of(self.ts, elem);
        let shape = if wide { widened(shape, self.lanes) } else { shape };
        Val::uniform(Id::Shape(self.cx.tables.shape(shape).0), El::Ptr)
    }

    /// Emits two conversions, with halves in between.
    fn by_half(&mut self, first: &str, a: Val, second: &str, to: El) -> Val {
        let half = self.w.reg(El::I16, a.var);
        let out = self.w.reg(to, a.var);
        let (h, o, ty) = (self.w.operand(half, false), self.w.operand(out, false), self.w.ty(to, a.var));
        let half = if a.var { format!("<{} x half>", self.lanes) } else { "half".to_string() };
        let a = self.w.typed(a);
        self.w.line(format_args!("{h} = {first} {a} to {half}"));
        self.w.line(format_args!("{o} = {second} {half} {h} to {ty}"));
        out
    }

    /// Calls a function of `ir::library`.
    fn library(&mut self, m: Math, args: &[Val]) -> Val {
        let el = args[0].el;
        let var = args.iter().any(|a| a.var);
        let args: Vals = args.iter().map(|&a| self.w.fit(a, var)).collect();
        let lanes = if var { self.lanes } else { 1 };
        self.cx.used_library.insert((m, el, lanes));
        let list: Vec<String> = args.iter().map(|&a| self.w.typed(a)).collect();
        let out = self.w.reg(el, var);
        let (o, ty) = (self.w.operand(out, false), self.w.ty(el, var));
        let name = super::library::name(m, el, lanes);
        self.w.calls(&name);
        self.w.line(format_args!("{o} = call fastcc {ty} @{name}({})", list.join(", ")));
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

    /// Extends an integer to a wider type; steps are preserved where they fit.
    pub(super) fn extend(&mut self, ty: El, signed: bool, a: Val) -> Val {
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

    /// Extends an integer to an index of 64 bits: negative ones become huge.
    pub(crate) fn index64(&mut self, v: ir::Value) -> Val {
        let s = self.scalar_of(v);
        let x = self.one(v);
        let i = self.extend(El::I64, s.is_signed_int(), x);
        // A constant is the same in all lanes even if the analysis does not know it, and so is a place that
        // it selects.
        Val { var: i.var && i.constant().is_none(), ..i }
    }
}

/// The shape of elements that have room for all lanes.
fn widened(shape: Shape, lanes: u32) -> Shape {
    match shape {
        Shape::Flat(s, n) => Shape::Flat(s, n * lanes as u64),
        Shape::Opaque(n) => Shape::Opaque(n * lanes as u64),
        Shape::Stack(inner) => Shape::Stack(Box::new(widened(*inner, lanes))),
    }
}
