//! LLVM's instructions, as code for lanes and for single threads uses them.

use ir::{AtomicOp, Inline, Math, Scalar};
use native::emit::{Binary, Cast, Compare, Odds, UNIFORM, Unary, VARYING};
use native::lanes::cost::Sketch;
use native::lanes::{self, Class, Head, Kind};
use native::runtime::{Helper, Word};
use rustc_hash::FxHashMap;

use crate::operand::{El, Id, Val, Vals};
use crate::pieces;
use crate::sketch;
use crate::text::{Block, Style, Writer};
use crate::unit::{Function, Unit};

/// A function with more results than this returns them through memory.
const IN_REGISTERS: usize = 8;
/// A function with more floats as results than this returns them through memory, too: x86-64 returns a fourth
/// float on the x87 stack, which costs a store and a load as well, and which LLVM without optimisation does
/// not always pop. Once that stack is full, every float that is pushed on it becomes NaN.
const FLOATS_IN_REGISTERS: usize = 3;

/// The attributes of every function. Estimates only stand for divisions and roots that allow it, by fast mathematics.
const ABOUT: &str = "nounwind \"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\" \
                     \"reciprocal-estimates\"=\"divf:1,vec-divf:1,sqrtf:1,vec-sqrtf:1\"";
/// Those of them that are about vectors.
const VECTORS: &str = "\"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\"";

/// A module while functions are added to it.
pub(crate) struct Llvm {
    /// The functions.
    pub(crate) unit: Unit,
    pub(crate) style: Style,
    /// See [`crate::Machine::has_waves`].
    pub(crate) has_waves: bool,
    /// The code of the functions for the estimate of their time, while lanes are chosen.
    pub(crate) sketches: Option<FxHashMap<String, Sketch>>,
    /// The length of a piece: see [`crate::pieces`].
    pub(crate) piece: usize,
}

impl lanes::Backend for Llvm {
    type Writer = Writer;
    const NAME: &'static str = crate::NAME;
    const LEAST_BITS: u32 = 0;
    const THREADS_JUMPS: bool = false;
    const UNROLLS: bool = false;
    const TESTS_BEFORE: bool = true;
    const PAIRED_BYTES: u32 = 0;
    const MASKS_LEFT_OVER: bool = true;

    fn writer(&self, kind: Kind, lanes: u32, fast: bool) -> Writer {
        let mut w = Writer::new(lanes);
        w.style = self.style;
        w.fast = fast;
        let params: &[&str] = match kind {
            Kind::Span => &["ptr %ctx", "i64 %start", "i64 %end"],
            Kind::Raw => &["ptr %ctx", "ptr %args", "ptr %results"],
            Kind::Version(_) => &["ptr %ctx"],
            Kind::Math | Kind::RareMath => &[],
        };
        w.params.extend(params.iter().map(|param| param.to_string()));
        w
    }

    fn define(&mut self, head: Head, mut w: Writer) {
        let (name, params) = (head.name, w.params.join(", "));
        let own = format!("fastcc {}", w.result);
        let pure = format!("nounwind willreturn memory(none) {VECTORS}");
        let mut function = match head.kind {
            Kind::Span | Kind::Raw => Function::external(&name, &params, ABOUT),
            Kind::Version(inline) => {
                let inline = match inline {
                    Inline::Always => " alwaysinline",
                    Inline::Never => " noinline",
                    Inline::Auto => "",
                };
                Function {
                    name,
                    result: own,
                    params,
                    about: format!("{ABOUT}{inline}"),
                    ..Function::default()
                }
            }
            Kind::Math => {
                Function { name, result: own, params, about: pure, is_copied: true, ..Function::default() }
            }
            Kind::RareMath => {
                let about = format!("noinline cold {pure}");
                Function { name, result: own, params, about, is_copied: true, ..Function::default() }
            }
        };
        function.frame = w.frame();
        let is_math = matches!(head.kind, Kind::Math | Kind::RareMath);
        if let Some(sketches) = &mut self.sketches {
            sketches.insert(function.name.clone(), sketch::sketch(&w, head.kind));
        }
        match pieces::split(&function, &w, ABOUT, self.piece).filter(|_| !is_math) {
            Some(all) => self.unit.functions.extend(all),
            None => {
                function.body = w.finish();
                function.callees = std::mem::take(&mut w.callees);
                self.unit.functions.push(function);
            }
        }
        self.unit.declared.extend(w.declared);
        if !w.table.is_empty() {
            let list: Vec<String> =
                w.table.iter().map(|x| format!("double 0x{:016X}", x.to_bits())).collect();
            let list = format!("internal constant [{} x double] [{}], align 8", list.len(), list.join(", "));
            self.unit.global("library_table", list);
        }
    }

    fn n_functions(&self) -> usize {
        self.unit.functions.len()
    }

    fn truncate(&mut self, n: usize) {
        self.unit.functions.truncate(n);
    }

    fn start_sketches(&mut self) {
        self.sketches = Some(FxHashMap::default());
    }

    fn stop_sketches(&mut self) {
        self.sketches = None;
    }

    fn sketch(&self, name: &str) -> Option<Sketch> {
        self.sketches.as_ref()?.get(name).cloned()
    }

    fn has_waves(&self) -> bool {
        self.has_waves
    }

    fn has_arena(&self) -> bool {
        !self.has_waves
    }
}

impl lanes::Writer for Writer {
    type Block = Block;
    const SKIPS: bool = true;

    fn is_by_memory(results: &[Val], _: u32) -> bool {
        let floats = results.iter().filter(|v| !v.var && matches!(v.el, El::F32 | El::F64)).count();
        results.len() > IN_REGISTERS || floats > FLOATS_IN_REGISTERS
    }

    fn slow_masks(&self) -> bool {
        self.style.slow_masks
    }

    fn estimates(&self) -> bool {
        self.fast
    }

    fn lanes(&self) -> u32 {
        self.lanes
    }

    fn locate(&mut self, location: Option<u32>) {
        self.location = location;
    }

    fn param(&mut self, el: El, var: bool, alone: bool) -> Val {
        let v = self.reg(el, var);
        let (ty, o, alone) = (self.ty(el, var), self.operand(v, var), if alone { " noalias" } else { "" });
        self.params.push(format!("{ty}{alone} {o}"));
        v
    }

    fn spread(&mut self, v: Val) -> Val {
        self.spread(v)
    }

    fn lane(&mut self, v: Val, lane: Val) -> Val {
        self.lane(v, lane)
    }

    fn with_lane(&mut self, v: Val, lane: Val, x: Val) -> Val {
        self.with_lane(v, lane, x)
    }

    fn unary(&mut self, op: Unary, a: Val) -> Val {
        match op {
            Unary::NegF => self.unary("fneg", a),
            Unary::Neg => self.binary("sub", Val::bits(a.el, 0), a),
            Unary::Not => self.binary("xor", a, Val::bits(a.el, u64::MAX)),
            Unary::CountBits => self.intrinsic("ctpop", &[a]),
            Unary::ReverseBits => self.intrinsic("bitreverse", &[a]),
            Unary::LeadingZeros => self.zeros("ctlz", a),
            Unary::TrailingZeros => self.zeros("cttz", a),
        }
    }

    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        let name = match op {
            Binary::AddF => "fadd",
            Binary::SubF => "fsub",
            Binary::MulF => "fmul",
            Binary::DivF => "fdiv",
            Binary::Add => "add",
            Binary::AddNoWrap => "add nuw",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::DivSigned => "sdiv",
            Binary::DivUnsigned => "udiv",
            Binary::RemSigned => "srem",
            Binary::RemUnsigned => "urem",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::Shl => "shl",
            Binary::ShrSigned => "ashr",
            Binary::ShrUnsigned => "lshr",
            Binary::MinSigned => return self.intrinsic("smin", &[a, b]),
            Binary::MaxSigned => return self.intrinsic("smax", &[a, b]),
            Binary::MaxUnsigned => return self.intrinsic("umax", &[a, b]),
        };
        self.binary(name, a, b)
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
        self.binary_to(name, a, b, El::I1)
    }

    fn cast(&mut self, op: Cast, a: Val, to: El) -> Val {
        let name = match op {
            Cast::Promote => "fpext",
            Cast::Demote => "fptrunc",
            Cast::OfSigned => "sitofp",
            Cast::OfUnsigned => "uitofp",
            Cast::Bits => "bitcast",
            Cast::Truncate => "trunc",
            Cast::ZeroExtend => "zext",
            Cast::SignExtend => "sext",
            Cast::Address => "ptrtoint",
        };
        self.cast(name, a, to)
    }

    fn float_to_int(&mut self, a: Val, to: El, signed: bool) -> Val {
        let name = if signed { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
        self.call(format_args!("{name}"), to, a.var, &[a])
    }

    fn widen(&mut self, a: Val) -> Option<Val> {
        self.style.has_f16c.then(|| by_half(self, "bitcast", a, "fpext", El::F32))
    }

    fn narrow(&mut self, a: Val) -> Option<Val> {
        self.style.has_f16c.then(|| by_half(self, "fptrunc", a, "bitcast", El::I16))
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        self.select(c, a, b)
    }

    fn math(&mut self, m: Math, args: &[Val]) -> Val {
        let name = match m {
            Math::Abs => "fabs",
            Math::Round => "roundeven",
            _ => m.name(),
        };
        self.intrinsic(name, args)
    }

    fn copy_sign(&mut self, a: Val, b: Val) -> Val {
        self.intrinsic("copysign", &[a, b])
    }

    fn reduce(&mut self, op: Binary, a: Val) -> Val {
        let name = match op {
            Binary::And => "and",
            Binary::MaxSigned => "smax",
            Binary::MaxUnsigned => "umax",
            _ => "add",
        };
        self.reduce(name, a)
    }

    fn sum_by_halves(&mut self, a: Val) -> Val {
        self.sum_by_halves(a)
    }

    fn scales(&self, e: El) -> bool {
        self.style.has_scale && matches!(e, El::F32 | El::F64) && self.lanes * e.bits() >= 128
    }

    /// LLVM has no name for this instruction on all machines: each vector of the machine is scaled by itself.
    fn scale(&mut self, p: Val, k: Val) -> Val {
        let (el, lanes) = (p.el, self.lanes);
        let (p, k) = (self.spread(p), self.spread(k));
        let width = lanes.min(512 / el.bits());
        let (bits, letter) = (width * el.bits(), if el == El::F32 { 's' } else { 'd' });
        let (mask, round) =
            (if width == 16 { "i16" } else { "i8" }, if bits == 512 { ", i32 4" } else { "" });
        let parts = (0..lanes).step_by(width as usize).map(|first| {
            let part = |w: &mut Writer, v: Val| match width == lanes {
                true => v,
                false => w.shuffle(el, lanes, [v, Val::POISON], first..first + width),
            };
            let (p, k) = (part(self, p), part(self, k));
            let (out, ty) = (self.of_width(el, width), format!("<{width} x {}>", el.name()));
            let (a, b) = (self.operand(p, VARYING), self.operand(k, VARYING));
            let args = format!("{ty} {a}, {ty} {b}, {ty} zeroinitializer, {mask} -1{round}");
            let call = format_args!("call {ty} @llvm.x86.avx512.mask.scalef.p{letter}.{bits}({args})");
            self.make(out, &[p, k], call);
            out
        });
        let parts = parts.collect();
        self.join(el, parts, width)
    }

    fn any(&mut self, c: Val) -> Val {
        if !c.var {
            return c;
        }
        let (n, bits) = (self.lanes, lane_bits(self, c));
        let out = self.reg(El::I1, UNIFORM);
        let b = self.operand(bits, UNIFORM);
        self.make(out, &[bits], format_args!("icmp ne i{n} {b}, 0"));
        self.of_any.extend(out.register());
        out
    }

    fn mask_bits(&mut self, c: Val) -> Val {
        let c = self.spread(c);
        let (n, bits) = (self.lanes, lane_bits(self, c));
        if n == 32 {
            return Val { el: El::I32, ..bits };
        }
        let wide = self.reg(El::I32, UNIFORM);
        let b = self.operand(bits, UNIFORM);
        self.make(wide, &[bits], format_args!("zext i{n} {b} to i32"));
        wide
    }

    fn call_own(&mut self, name: &str, like: &[Val], args: &[Val]) -> Vals {
        self.call_own(name, like, args)
    }

    fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        let about = match helper {
            Helper::HalfToSingle
            | Helper::SingleToHalf
            | Helper::DoubleToHalf
            | Helper::RemSingle
            | Helper::RemDouble => " nounwind willreturn memory(none)",
            Helper::Fail | Helper::NotFinite => " cold nounwind",
            _ => " nounwind",
        };
        self.call_external(helper.name(), helper.signature().1.map(word), args, about)
    }

    fn access_helper(&mut self, helper: Helper, args: &[Val], class: Class) {
        let types: Vec<&str> = args.iter().map(|a| a.el.name()).collect();
        let (name, note) = (helper.name(), self.call_note(class));
        let about = " cold nounwind willreturn nofree nosync";
        self.declare("void", name, &types.join(", "), about);
        let list = self.list(args);
        self.line(args, format_args!("call void @{name}({list}){note}"));
    }

    fn device_call(&mut self, name: &str, result: Option<El>, args: &[Val]) -> Option<Val> {
        self.call_external(name, result, args, " nounwind")
    }

    fn give(&mut self, results: &[Val]) {
        self.give(results);
    }

    fn offset(&mut self, at: Val, bytes: Val) -> Val {
        self.offset(at, bytes)
    }

    fn alloca(&mut self, bytes: u64, align: u64) -> Val {
        self.alloca(bytes, align)
    }

    fn shape(&mut self, number: u32, _: i64) -> Val {
        Val::uniform(Id::Shape(number), El::Ptr)
    }

    fn table(&mut self, table: &'static [f64]) -> Val {
        self.table = table;
        Val::name(El::Ptr, "@library_table")
    }

    fn stack_pointer(&mut self) -> Val {
        self.call(format_args!("llvm.frameaddress"), El::Ptr, UNIFORM, &[Val::i32(0)])
    }

    fn load(&mut self, el: El, var: bool, at: Val, class: Class) -> Val {
        self.load(el, var, at, class)
    }

    fn store(&mut self, x: Val, at: Val, class: Class) {
        self.store(x, at, class);
    }

    fn gather(&mut self, e: El, at: Val, class: Class, mask: Val) -> Val {
        let (ty, out) = (self.ty(e, VARYING), self.reg(e, VARYING));
        let (a, m) = (self.typed(at), self.typed(mask));
        let (note, align) = (self.call_note(class), e.bytes());
        self.make(
            out,
            &[at, mask],
            format_args!("call {ty} @llvm.masked.gather({a}, i32 {align}, {m}, {ty} zeroinitializer){note}"),
        );
        out
    }

    fn scatter(&mut self, x: Val, at: Val, class: Class, mask: Val) {
        let (note, align) = (self.call_note(class), x.el.bytes());
        let (to, m) = (self.list(&[x, at]), self.typed(mask));
        let text = format_args!("call void @llvm.masked.scatter({to}, i32 {align}, {m}){note}");
        self.line(&[x, at, mask], text);
    }

    fn columns(&mut self, el: El, n: u32, base: Val, step: i64, class: Class) -> Vals {
        self.load_columns(el, n, base, step, class)
    }

    /// Eight numbers fill a vector of 512 bits. With more lanes there are no registers to transpose squares of eight.
    fn most_columns(&self, el: El) -> u32 {
        let most = (16 / el.bytes()) as u32;
        if most == 2 && self.style.vector_bits >= 512 && self.lanes == 8 { 8 } else { most }
    }

    fn store_columns(&mut self, pieces: &[(Vals, i64)], base: Val, step: i64, class: Class) {
        self.write_columns(pieces, base, step, class);
    }

    /// Concatenates the components, then permutes them to the order of memory.
    fn row(&mut self, vals: &[Val]) -> Val {
        let (n, w) = (vals.len() as u32, self.lanes);
        let (el, total) = (vals[0].el, n * w);
        let mut parts = vals.to_vec();
        parts.resize(vals.len().next_power_of_two(), Val::POISON);
        let len = parts.len() as u32 * w;
        let side = self.join(el, parts, w);
        let order = |k: u32| (k % n) * w + k / n;
        if n == 1 { side } else { self.shuffle(el, len, [side, Val::POISON], (0..total).map(order)) }
    }

    fn store_row(&mut self, x: Val, (el, n): (El, u32), base: Val, class: Class, mask: Option<Val>) {
        let (w, total) = (self.lanes, n * self.lanes);
        let text = self.operand(x, VARYING);
        let text = format!("<{total} x {}> {text}, {}", el.name(), self.typed(base));
        let Some(mask) = mask else {
            let note = self.note(class, el.bytes());
            return self.line(&[x, base], format_args!("store {text}{note}"));
        };
        let all = match n {
            1 => mask,
            _ => self.shuffle(El::I1, w, [mask, Val::POISON], (0..total).map(|k| k / n)),
        };
        let (m, note, align) = (self.operand(all, VARYING), self.call_note(class), el.bytes());
        self.line(
            &[x, base, all],
            format_args!("call void @llvm.masked.store({text}, i32 {align}, <{total} x i1> {m}){note}"),
        );
    }

    fn clear(&mut self, at: Val, bytes: u64) {
        let to = self.typed(at);
        self.line(&[at], format_args!("call void @llvm.memset({to}, i8 0, i64 {bytes}, i1 false)"));
    }

    fn copy(&mut self, to: Val, from: Val, bytes: u64, align: u64) {
        let (t, f) = (self.operand(to, UNIFORM), self.operand(from, UNIFORM));
        let list = format!("ptr align {align} {t}, ptr align {align} {f}, i64 {bytes}, i1 false");
        self.line(&[to, from], format_args!("call void @llvm.memmove({list})"));
    }

    fn atomic(&mut self, s: Scalar, op: AtomicOp, at: Val, x: Val) -> Option<Val> {
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
        let order = match s {
            _ if s.is_int() && s.bits() >= 32 => "acq_rel",
            Scalar::F32 | Scalar::F64 if op == AtomicOp::Add => "monotonic",
            _ => return None,
        };
        let out = self.reg(x.el, UNIFORM);
        let (list, align) = (self.list(&[at, x]), x.el.bytes());
        self.make(out, &[at, x], format_args!("atomicrmw {name} {list} {order}, align {align}"));
        Some(out)
    }

    fn exchange(&mut self, at: Val, old: Val, new: Val) -> (Val, Val) {
        let (pair, found, same) = (self.odd(), self.reg(old.el, UNIFORM), self.reg(El::I1, UNIFORM));
        let (p, ty, align) = (self.operand(pair, UNIFORM), old.el.name(), old.el.bytes());
        let list = self.list(&[at, old, new]);
        let exchange = format_args!("cmpxchg {list} monotonic monotonic, align {align}");
        self.make(pair, &[at, old, new], exchange);
        self.make(found, &[pair], format_args!("extractvalue {{ {ty}, i1 }} {p}, 0"));
        self.make(same, &[pair], format_args!("extractvalue {{ {ty}, i1 }} {p}, 1"));
        (found, same)
    }

    fn block(&mut self, like: &[Val]) -> Block {
        self.block(like)
    }

    fn enter(&mut self, block: Block) -> Vals {
        self.enter(block)
    }

    fn jump(&mut self, to: Block, args: &[Val]) {
        self.jump(to, args);
    }

    fn branch(&mut self, c: Val, yes: (Block, &[Val]), no: (Block, &[Val]), odds: Odds) {
        self.branch(c, yes, no, odds);
    }

    fn switch(&mut self, tag: Val, cases: &[(u64, Block)], otherwise: Block) {
        self.switch(tag, cases, otherwise);
    }
}

/// Emits two conversions, with halves in between.
fn by_half(w: &mut Writer, first: &str, a: Val, second: &str, to: El) -> Val {
    let half = w.odd();
    let out = w.reg(to, a.var);
    let (h, ty, from) = (w.operand(half, UNIFORM), w.ty(to, a.var), w.typed(a));
    let halves = if a.var { format!("<{} x half>", w.lanes) } else { "half".to_string() };
    w.make(half, &[a], format_args!("{first} {from} to {halves}"));
    w.make(out, &[half], format_args!("{second} {halves} {h} to {ty}"));
    out
}

/// The truth values of all lanes in an integer with one bit for each lane.
fn lane_bits(w: &mut Writer, c: Val) -> Val {
    let (n, out, text) = (w.lanes, w.odd(), w.typed(c));
    w.make(out, &[c], format_args!("bitcast {text} to i{n}"));
    out
}

/// The type of a helper's parameter.
fn word(w: Word) -> El {
    match w {
        Word::I32 => El::I32,
        Word::I64 => El::I64,
        Word::F32 => El::F32,
        Word::F64 => El::F64,
        Word::Ptr => El::Ptr,
    }
}
