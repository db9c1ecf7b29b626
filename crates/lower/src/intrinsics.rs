//! Library functions that are operations of the IR: `__intrinsic_op(name)`.
//!
//! A function of numbers that has (or may have) a derivative rule remains a call of a tiny function, so that
//! the rule can be attached to it. All others are emitted inline at the call.

use check::signature::Direction;
use check::tables::{Arg, FuncRef};
use check::types::Ty;
use ir::{AtomicOp, Builtin, Function, Math, Op, Rest, Scalar, Type, TypeData, Value};
use smallvec::SmallVec;
use syntax::ast::{BinaryOp, ExprKind};
use syntax::{DeclId, ExprId, Span};

use crate::body::Body;
use crate::leaves::scalar_in;
use crate::lowerer::{Lowerer, Making, ir_span};
use crate::places::{Memory, Place, PlaceKind};
use crate::second;

impl Lowerer<'_> {
    /// The name of the operation that a library function stands for.
    pub(crate) fn intrinsic_name(&self, decl: DeclId) -> Option<String> {
        let attribute = self.program.attribute(decl, "__intrinsic_op")?;
        match &self.program.ast.exprs[*attribute.args.first()?].kind {
            ExprKind::Name(name) => Some(self.program.ast.name(*name).to_owned()),
            ExprKind::String(name) => Some(name.clone()),
            _ => None,
        }
    }
}

/// The bits of the greatest number of a type; infinity for floats.
fn greatest(s: Scalar) -> u64 {
    match s {
        Scalar::F16 | Scalar::F32 | Scalar::F64 => ir::build::float_bits(s, f64::INFINITY),
        _ if s.is_signed_int() => (1u64 << (s.bits() - 1)) - 1,
        _ => u64::MAX >> (64 - s.bits()),
    }
}

/// The bits of the least number of a type; negative infinity for floats.
fn least(s: Scalar) -> u64 {
    match s {
        Scalar::F16 | Scalar::F32 | Scalar::F64 => ir::build::float_bits(s, f64::NEG_INFINITY),
        _ if s.is_signed_int() => ir::scalar::canonical(s, 1u64 << (s.bits() - 1)),
        _ => 0,
    }
}

fn math_of(name: &str) -> Option<Math> {
    Math::ALL.into_iter().find(|m| m.name() == name)
}

fn atomic_of(name: &str) -> Option<AtomicOp> {
    Some(match name.strip_suffix("_new").unwrap_or(name) {
        "atomic_add" | "atomic_sub" | "atomic_inc" | "atomic_dec" => AtomicOp::Add,
        "atomic_min" => AtomicOp::Min,
        "atomic_max" => AtomicOp::Max,
        "atomic_and" => AtomicOp::And,
        "atomic_or" => AtomicOp::Or,
        "atomic_xor" => AtomicOp::Xor,
        "atomic_exchange" => AtomicOp::Exchange,
        "atomic_compare_exchange" => AtomicOp::CompareExchange,
        _ => return None,
    })
}

/// Builds the function of an operation, for calls of the function and its derivatives.
pub(crate) fn build(making: Making<'_, '_>, f: &FuncRef) -> Option<Function> {
    let name = making.lw.intrinsic_name(f.decl)?;
    if name == second::NAME {
        return second::build(making, f);
    }
    let Making { lw, types, declared } = making;
    let (mut body, params) = Body::with_params(lw, types, declared);
    let ret = declared.sig.ret;
    match body.operation(&name, &params, ret) {
        Some(values) => body.finish(values, declared),
        None => {
            body.lw.unsupported(declared.span, format_args!("a derivative of `{name}` is"));
            None
        }
    }
}

impl Body<'_, '_, '_> {
    /// Lowers a call of an operation. Returns `None` if it remains a call.
    pub(crate) fn intrinsic_call(
        &mut self,
        f: &FuncRef,
        base: Option<ExprId>,
        args: &[Arg],
        ty: Ty,
        span: Span,
    ) -> Option<Vec<Value>> {
        let name = self.lw.intrinsic_name(f.decl)?;
        if atomic_of(&name).is_some() {
            return Some(self.atomic(f, &name, (base, args), ty, span));
        }
        // As in WGSL, all threads have written before the load, and have loaded before they continue.
        if let ("uniform_load", Some(&Arg::Expr(e))) = (&*name, args.first()) {
            let place = self.place_as_context(e);
            self.b.span = ir_span(span);
            self.b.effect(Op::Barrier, &[]);
            let values = self.read(&place);
            self.b.effect(Op::Barrier, &[]);
            return Some(self.convert(values, place.ty, ty, span));
        }
        if let ("offset_of", &[Arg::Expr(whole), Arg::Expr(part)]) = (&*name, args) {
            return Some(self.offset_of(whole, part, ty, span));
        }
        if name == "static_assert" {
            if let Some(Arg::Expr(cond)) = args.first() {
                self.static_assert(*cond);
            }
            return Some(Vec::new());
        }
        if name == "printf" {
            return Some(self.printf(args, span));
        }
        if name == "abort" {
            if args.iter().any(|arg| matches!(arg, Arg::Expr(_))) {
                self.printf(args, span);
            }
            self.b.span = ir_span(span);
            let no = self.b.bool(false);
            self.b.effect(Op::Assert(ir::ABORTS.into()), &[no]);
            return Some(Vec::new());
        }
        if self.stays_call(f, &name) {
            return None;
        }
        let sig = self.lw.program.func_signature(f);
        let mut values: Vec<Vec<Value>> = Vec::new();
        for (arg, param) in args.iter().zip(&sig.params) {
            match arg {
                Arg::Expr(e) => values.push(self.expr_as(*e, param.ty, span)),
                Arg::Pack(exprs) => {
                    let inputs = self.pack_inputs(exprs);
                    values.push(inputs.into_iter().flat_map(|i| i.0).collect());
                }
                Arg::Default(d) => {
                    let (v, from) = self.default_argument(*d, f);
                    values.push(self.convert(v, from, param.ty, span));
                }
            }
        }
        self.b.span = ir_span(span);
        if let ("resource_of", Some(&[number])) = (&*name, values.first().map(Vec::as_slice)) {
            return Some(self.resource_of(sig.ret, number, span));
        }
        if let ("create_dynamic_object", [id, value], [_, param]) = (&*name, &values[..], &sig.params[..]) {
            let &id = id.first()?;
            let value = if self.detached { self.detach(value.clone()) } else { value.clone() };
            self.lw.conformances.note_call(sig.ret, span);
            return Some(self.create_dynamic_object(sig.ret, id, (&value, param.ty), span));
        }
        if let ("bit_cast" | "reinterpret", [value], [param]) = (&*name, &values[..], &sig.params[..]) {
            let is_of_values = name == "bit_cast";
            if is_of_values {
                self.lw.check_bit_cast(param.ty, sig.ret, span);
            }
            let value = self.detach(value.clone());
            // No bits are needed for what remains what it is, so this may hold buffers and pointers.
            if param.ty == sig.ret {
                return Some(value);
            }
            return Some(self.made_of_bits(sig.ret, (&value, param.ty), is_of_values, span));
        }
        if let ("string_hash", Some(&[text])) = (&*name, values.first().map(Vec::as_slice))
            && self.is_chosen(text)
        {
            self.lw.error("E39999", span, "the text that `getStringHash` takes is only known at run time");
            self.lw.help("take the hash of each literal, and choose among the hashes");
            return Some(self.zeros(ty));
        }
        match self.operation(&name, &values, sig.ret) {
            Some(values) => Some(self.convert(values, sig.ret, ty, span)),
            None => Some(self.unsupported(span, format_args!("the operation `{name}` is"), ty)),
        }
    }

    /// Checks a condition for the current generic arguments.
    fn static_assert(&mut self, cond: syntax::ExprId) {
        let known = self.known_condition(cond);
        let known = known.or_else(|| Some(self.lw.program.const_int(cond, &self.subst)? != 0));
        let (code, message) = match known {
            Some(true) => return,
            Some(false) => ("E41400", "this static assertion does not hold"),
            None => ("E41402", "a static assertion needs a condition that is known at compile time"),
        };
        let span = self.span_of(cond);
        let told = self.lw.program.diagnostics.iter().any(|d| d.primary.span == span);
        if !told {
            self.lw.error(code, span, message);
        }
    }

    /// Like [`Body::intrinsic_call`], but with values as arguments. Returns `None` if it remains a call.
    pub(crate) fn intrinsic_values(
        &mut self,
        f: &FuncRef,
        inputs: &[(Vec<Value>, Ty)],
        span: Span,
    ) -> Option<Vec<Value>> {
        let name = self.lw.intrinsic_name(f.decl)?;
        if self.stays_call(f, &name) {
            return None;
        }
        let sig = self.lw.program.func_signature(f);
        let mut values = Vec::new();
        for ((v, from), param) in inputs.iter().zip(&sig.params) {
            values.push(self.convert(v.clone(), *from, param.ty, span));
        }
        if name == "resource_of" {
            return Some(self.resource_of(sig.ret, *values.first()?.first()?, span));
        }
        self.operation(&name, &values, sig.ret)
    }

    /// Returns true if the operation is a function of its own, or may have a derivative rule: that is the case for
    /// functions of floating-point numbers.
    fn stays_call(&mut self, f: &FuncRef, name: &str) -> bool {
        if name == second::NAME {
            return true;
        }
        if math_of(name).is_none() && name != "rem" {
            return false;
        }
        let sig = self.lw.program.func_signature(f);
        let Some(param) = sig.params.first() else { return false };
        self.layout(param.ty).leaves.first().is_some_and(|l| self.b.types.is_differentiable(l.ty))
    }

    /// Emits an operation on values. Returns `None` if there is no operation of that name.
    fn operation(&mut self, name: &str, args: &[Vec<Value>], ty: Ty) -> Option<Vec<Value>> {
        let leaf = |k: usize| args.get(k).and_then(|a| a.first().copied());
        if let Some(math) = math_of(name) {
            let operands: SmallVec<[Value; 4]> = (0..math.arity()).filter_map(leaf).collect();
            return Some(vec![self.each_row(&operands, &mut |body, v| body.b.emit(Op::Math(math), v))]);
        }
        if let Some(builtin) = Builtin::ALL.into_iter().find(|builtin| builtin.name() == name) {
            let to = self.layout(ty).leaves.first()?.ty;
            let value = self.b.emit(Op::Builtin(builtin), &[]);
            return Some(vec![self.convert_leaf(value, to)]);
        }
        let value = match name {
            "rem" => self.each_row(&[leaf(0)?, leaf(1)?], &mut |body, v| body.b.emit(Op::Rem, v)),
            "detach" => return Some(self.detach(args.first()?.clone())),
            "same" => {
                let values = args.first()?.clone();
                let layout = self.layout(ty);
                let same = values.len() == layout.leaves.len()
                    && values.iter().zip(&layout.leaves).all(|(&v, l)| self.b.func.ty(v) == l.ty);
                return same.then_some(values);
            }
            "select" => {
                let cond = leaf(0)?;
                let (x, y) = (args.get(1)?.clone(), args.get(2)?.clone());
                return Some(
                    x.iter().zip(&y).map(|(&x, &y)| self.b.emit(Op::Select, &[cond, x, y])).collect(),
                );
            }
            "select_lt" | "select_le" | "select_eq" => {
                let op = match name {
                    "select_lt" => Op::Lt,
                    "select_le" => Op::Le,
                    _ => Op::Eq,
                };
                let operands = [leaf(0)?, leaf(1)?, leaf(2)?, leaf(3)?];
                self.each_row(&operands, &mut |body, v| {
                    let cond = body.b.emit(op.clone(), &v[..2]);
                    body.b.emit(Op::Select, &[cond, v[2], v[3]])
                })
            }
            "sum" => {
                let value = leaf(0)?;
                if self.b.types.lanes(self.b.func.ty(value)).is_none() {
                    value
                } else {
                    self.b.emit(Op::Sum, &[value])
                }
            }
            "all" => self.all_lanes(leaf(0)?),
            "any" => self.fold_lanes(leaf(0)?, &Op::Or),
            "and" => self.binary_leaf(BinaryOp::BitAnd, leaf(0)?, leaf(1)?),
            "or" => self.binary_leaf(BinaryOp::BitOr, leaf(0)?, leaf(1)?),
            "xor" => self.binary_leaf(BinaryOp::BitXor, leaf(0)?, leaf(1)?),
            "cmpEQ" => self.binary_leaf(BinaryOp::Eq, leaf(0)?, leaf(1)?),
            "cmpNE" => self.binary_leaf(BinaryOp::Ne, leaf(0)?, leaf(1)?),
            "cmpLT" => self.binary_leaf(BinaryOp::Lt, leaf(0)?, leaf(1)?),
            "cmpLE" => self.binary_leaf(BinaryOp::Le, leaf(0)?, leaf(1)?),
            "cmpGT" => self.binary_leaf(BinaryOp::Gt, leaf(0)?, leaf(1)?),
            "cmpGE" => self.binary_leaf(BinaryOp::Ge, leaf(0)?, leaf(1)?),
            "not" => self.map_leaf(leaf(0)?, |body, v| body.b.emit(Op::Not, &[v])),
            "bitcast" | "asint" | "asuint" | "asfloat" => {
                let to = self.layout(ty).leaves.first()?.ty;
                let value = leaf(0)?;
                let scalar = scalar_in(self.b.types, to);
                self.map_leaf(value, |body, v| {
                    let own = body.b.func.ty(v);
                    let to = body.b.types.with_scalar(own, scalar);
                    if to == own { v } else { body.b.emit_typed(Op::Bitcast, &[v], to) }
                })
            }
            "f32tof16" => self.half_to_word(leaf(0)?),
            "f16tof32" => self.word_to_half(leaf(0)?),
            "convert" | "splat" => {
                let to = self.layout(ty).leaves.first()?.ty;
                self.convert_leaf(leaf(0)?, to)
            }
            "string_hash" => self.string_hash(leaf(0)?),
            "on_device" => self.b.emit(Op::OnDevice, &[]),
            "clock" => self.b.emit(Op::Clock, &[]),
            "buffer_address" => self.b.emit(Op::BufferAddress, &[leaf(0)?]),
            "buffer_len" => self.b.emit(Op::BufferLen, &[leaf(0)?]),
            "buffer_load" => {
                let place = Place::memory(ty, leaf(0)?, leaf(1)?);
                return Some(self.read(&place));
            }
            "buffer_cast" => {
                let to = self.layout(ty).leaves.first()?.ty;
                let from = self.b.func.ty(leaf(0)?);
                if !matches!(self.b.types[from], TypeData::Buffer(_)) {
                    return None;
                }
                self.b.emit_typed(Op::BufferCast(Rest::Dropped), &[leaf(0)?, leaf(1)?], to)
            }
            "to_float4" | "from_float4" => self.texel(leaf(0)?, ty)?,
            "wave_gather" => return self.wave_gather(args.first()?),
            "wave_multiply_f16" | "wave_multiply_bf16" | "wave_multiply_i8" | "wave_multiply_u8" => {
                let op = Op::plain(name)?;
                self.b.emit(op, &[leaf(0)?, leaf(1)?, leaf(2)?])
            }
            "equal" => return self.equal(args.first()?, args.get(1)?),
            "greatest" | "least" => {
                let leaf = self.layout(ty).leaves.first()?.ty;
                let scalar = scalar_in(self.b.types, leaf);
                let bits = if name == "greatest" { greatest(scalar) } else { least(scalar) };
                let value = self.b.constant(scalar, bits);
                self.convert_leaf(value, leaf)
            }
            "quads_are_rows" => {
                let rows = self.lw.quads_are_rows();
                self.b.bool(rows)
            }
            "barrier" => {
                self.b.effect(Op::Barrier, &[]);
                return Some(Vec::new());
            }
            "assert" | "assert_wave" | "assert_same_lanes" => {
                let message = match name {
                    "assert" => "assertion failed",
                    "assert_wave" => "all 32 lanes of a wave have to come by this operation together",
                    _ => {
                        "the lanes that were together at this operation are not together in its backward \
                         derivative, as where loops around it have other numbers of trips in other lanes"
                    }
                };
                self.b.effect(Op::Assert(message.into()), &[leaf(0)?]);
                return Some(Vec::new());
            }
            "refuse_small_floats" | "unreachable" => {
                let no = self.b.bool(false);
                let message = match name {
                    "unreachable" => "unreachable code was reached",
                    _ => "components of this type are not supported in matrices of cooperative vectors",
                };
                self.b.effect(Op::Assert(message.into()), &[no]);
                return Some(self.zeros(ty));
            }
            _ => return None,
        };
        Some(vec![value])
    }

    /// A number as a half in the low bits of a word. Bits have no derivative, but the conversion to half
    /// precision and back does.
    fn half_to_word(&mut self, value: Value) -> Value {
        self.map_leaf(value, |body, v| {
            let own = body.b.func.ty(v);
            let [half, bits, word] =
                [Scalar::F16, Scalar::U16, Scalar::U32].map(|scalar| body.b.types.with_scalar(own, scalar));
            let half = body.b.emit_typed(Op::Convert, &[v], half);
            let bits = body.b.emit_typed(Op::Bitcast, &[half], bits);
            let word = body.b.emit_typed(Op::Convert, &[bits], word);
            body.halves.insert(word, half);
            word
        })
    }

    fn word_to_half(&mut self, value: Value) -> Value {
        self.map_leaf(value, |body, v| {
            let own = body.b.func.ty(v);
            let [half, bits, float] =
                [Scalar::F16, Scalar::U16, Scalar::F32].map(|scalar| body.b.types.with_scalar(own, scalar));
            let half = body.halves.get(&v).copied().unwrap_or_else(|| {
                let bits = body.b.emit_typed(Op::Convert, &[v], bits);
                body.b.emit_typed(Op::Bitcast, &[bits], half)
            });
            body.b.emit_typed(Op::Convert, &[half], float)
        })
    }

    /// Converts a texel to a colour or back: lanes are converted, and missing ones are 0, 0, 1.
    fn texel(&mut self, value: Value, ty: Ty) -> Option<Value> {
        let to = self.layout(ty).leaves.first()?.ty;
        let scalar = scalar_in(self.b.types, to);
        let own = self.b.func.ty(value);
        let n = self.b.types.lanes(own);
        let lane = |body: &mut Self, k: u32| {
            let lane = match n {
                None if k == 0 => value,
                Some(n) if k < n => body.b.emit(Op::Extract(k), &[value]),
                _ => body.b.constant(scalar, if k == 3 { ir::build::float_bits(scalar, 1.0) } else { 0 }),
            };
            body.convert_leaf(lane, Type::from(scalar))
        };
        Some(if self.b.types.lanes(to).is_none() { lane(self, 0) } else { self.construct(to, lane) })
    }

    /// Gathers the leaves of all lanes' values, and the mask of the active lanes.
    fn wave_gather(&mut self, value: &[Value]) -> Option<Vec<Value>> {
        let mut all = Vec::new();
        let mut mask = None;
        for &leaf in value {
            let ty = self.b.func.ty(leaf);
            self.b.types.scalar_of(ty)?;
            let results = [(self.b.types.array(ty, ir::WAVE_LANES), false), (Type::U32, false)];
            let values = self.b.call(Op::WaveGather, &[leaf], &results);
            all.push(values[0]);
            mask = Some(values[1]);
        }
        all.push(mask?);
        Some(all)
    }

    /// Emits a test that two values are equal in every number.
    fn equal(&mut self, a: &[Value], b: &[Value]) -> Option<Vec<Value>> {
        let mut all = self.b.bool(true);
        for (&a, &b) in a.iter().zip(b) {
            let ty = self.b.func.ty(a);
            self.b.types.scalar_of(ty)?;
            let same = self.equal_leaf(a, b);
            all = self.b.emit(Op::And, &[all, same]);
        }
        Some(vec![all])
    }

    fn equal_leaf(&mut self, a: Value, b: Value) -> Value {
        let ty = self.b.func.ty(a);
        match self.b.types[ty] {
            TypeData::Array(_, n) => {
                let mut all = self.b.bool(true);
                for k in 0..n {
                    let a = self.b.emit(Op::Extract(k), &[a]);
                    let b = self.b.emit(Op::Extract(k), &[b]);
                    let same = self.equal_leaf(a, b);
                    all = self.b.emit(Op::And, &[all, same]);
                }
                all
            }
            TypeData::Vector(..) => {
                let same = self.b.emit(Op::Eq, &[a, b]);
                self.all_lanes(same)
            }
            _ => self.b.emit(Op::Eq, &[a, b]),
        }
    }

    /// Emits `cond ? a : b` for each component of vectors or matrices.
    pub(crate) fn select_rows(&mut self, cond: Value, a: Value, b: Value) -> Value {
        self.each_row(&[cond, a, b], &mut |body, v| body.b.emit(Op::Select, v))
    }

    // ---- atomics

    /// Lowers `f(place, value)`, `f(place, value, out old)` and `f(place, compare, value, out old)`. In a
    /// method call, `place` is the only field of the receiver. `f_new` returns the new value instead of the
    /// old one. Further inputs specify the memory order, and need not be read, as the order is always
    /// respected.
    fn atomic(
        &mut self,
        f: &FuncRef,
        name: &str,
        (base, args): (Option<ExprId>, &[Arg]),
        ty: Ty,
        span: Span,
    ) -> Vec<Value> {
        let (gives_new, name) = (name.ends_with("_new"), name.trim_end_matches("_new"));
        let Some(op) = atomic_of(name) else { return Vec::new() };
        let sig = self.lw.program.func_signature(f);
        let mut inputs = Vec::new();
        let mut out = None;
        for (arg, param) in args.iter().zip(&sig.params) {
            match arg {
                Arg::Expr(e) if base.is_none() && inputs.is_empty() => inputs.push(*e),
                Arg::Expr(e) if param.dir == Direction::Out => out = Some(*e),
                Arg::Expr(e) => inputs.push(*e),
                Arg::Default(_) | Arg::Pack(_) => {}
            }
        }
        let mut inputs = base.into_iter().chain(inputs);
        let Some(target) = inputs.next() else { return Vec::new() };
        let mut place = self.place_as_context(target);
        if base.is_some() || self.lw.program.type_name(place.ty).starts_with("Atomic<") {
            let layout = self.layout(place.ty);
            let Some(field) = layout.parts.first() else { return self.zeros(ty) };
            place = self.part_place(place, 0, field.ty);
        }
        let n_values = if matches!(name, "atomic_inc" | "atomic_dec") { 0 } else { op.n_values() };
        let mut operands = Vec::new();
        for e in inputs.take(n_values) {
            operands.extend(self.expr_as(e, place.ty, span));
        }
        if n_values == 0 {
            let scalar = self.lw.scalar_of(place.ty).unwrap_or(Scalar::I32);
            operands.push(self.b.constant(scalar, ir::scalar::from_i64(scalar, 1)));
        }
        if matches!(name, "atomic_sub" | "atomic_dec") {
            operands = operands.iter().map(|&v| self.b.emit(Op::Neg, &[v])).collect();
        }
        let out = out.map(|e| self.place(e));
        self.b.span = ir_span(span);
        let PlaceKind::Memory(memory) = &place.kind else {
            let values = self.unsupported(span, "an atomic operation on what is not memory is", ty);
            self.lw.help(
                "it takes a place in a buffer or in `groupshared` memory, also as an `inout` parameter or by `this` of a `[mutating]` method",
            );
            return values;
        };
        let old = self.atomic_memory(op, memory, &operands, place.ty);
        self.step_together(memory);
        let Some(mut old) = old else { return Vec::new() };
        if gives_new {
            let again = match op {
                AtomicOp::And => Op::And,
                AtomicOp::Or => Op::Or,
                AtomicOp::Xor => Op::Xor,
                _ => Op::Add,
            };
            old = self.b.emit(again, &[old, operands[0]]);
        }
        if let Some(out) = out {
            let values = self.convert(vec![old], place.ty, out.ty, span);
            self.write(&out, values);
        }
        if sig.ret == Ty::VOID { Vec::new() } else { self.convert(vec![old], place.ty, ty, span) }
    }

    /// Makes the lanes of a wave reconverge after an atomic operation on group-shared memory: programs for
    /// hardware whose lanes run in lockstep rely on it.
    fn step_together(&mut self, memory: &Memory) {
        if self.is_group_shared(memory) {
            let here = self.b.bool(true);
            let _ = self.wave_gather(&[here]);
        }
    }

    /// Returns true if memory is that of a variable in group-shared memory.
    pub(crate) fn is_group_shared(&self, memory: &Memory) -> bool {
        let made = self.b.func.insts.values().rev().find(|d| d.results.contains(&memory.handle));
        let global =
            made.and_then(|made| if let Op::GlobalRef(global) = made.op { Some(global) } else { None });
        global.is_some_and(|global| self.lw.module.globals[global].space == ir::Space::GroupShared)
    }

    fn atomic_memory(&mut self, op: AtomicOp, memory: &Memory, operands: &[Value], ty: Ty) -> Option<Value> {
        let leaf = self.layout(ty).leaves.first()?.ty;
        if let TypeData::Vector(s, _) = self.b.types[leaf] {
            // Each lane is updated atomically by itself.
            return Some(self.construct(leaf, |body, k| {
                let inner = body.lane_in_memory(memory, k);
                let mut args = inner.operands();
                args.extend(operands.iter().map(|&operand| body.b.emit(Op::Extract(k), &[operand])));
                body.b.emit_typed(Op::Atomic(inner.ir_path(), op), &args, Type::from(s))
            }));
        }
        let mut args = memory.operands();
        args.extend_from_slice(operands);
        Some(self.b.emit_typed(Op::Atomic(memory.ir_path(), op), &args, leaf))
    }
}
