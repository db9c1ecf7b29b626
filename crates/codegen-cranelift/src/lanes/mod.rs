//! Cranelift's instructions, as code for lanes uses them.
//!
//! Cranelift's vectors have 128 bits on every machine, so a number for each lane is held in several values: floats,
//! 32-bit integers and truth values four at a time, doubles, 64-bit integers and addresses two at a time, and numbers of
//! other types each by itself ([`Parts`]). A truth value of a lane is a 32-bit integer of ones or zeros,
//! as comparisons of vectors give it. An instruction that Cranelift lacks for vectors is emitted lane by lane.
//!
//! A [`Writer`] knows the functions that it calls by name: their code is declared once it is certain that all
//! functions of an entry point can be emitted ([`Unit`]).

mod casts;
mod memory;
mod numbers;
mod parts;
mod shuffles;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    AbiParam, Block as ClifBlock, BlockArg, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder,
    Signature, SourceLoc, Type as ClifType, UserExternalName, UserExternalNameRef, Value, types,
};
use cranelift_codegen::isa::CallConv;
use ir::{AtomicOp, Math, Scalar};
use native::emit::{Binary, Cast, Compare, Odds, UNIFORM, Unary, VARYING};
use native::lanes::cost::Sketch;
use native::lanes::operand::{El, Id, Val, Vals};
use native::lanes::{self, Class, Head, Kind};
use native::runtime::{Helper, Word};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use parts::Parts;

/// The traits of the machine and the module that code depends on.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The convention by which the host calls functions, and helpers are called.
    pub system: CallConv,
    /// The address of memory that is always zero.
    pub zero: i64,
    /// The address of the empty stack's header.
    pub empty: i64,
    /// The address of a word that holds [`Self::empty`].
    pub empty_at: i64,
    /// The address of the counts of regions, if the code counts.
    pub counts: i64,
    /// The machine has a fused multiply-add.
    pub has_fma: bool,
    /// The machine rounds floats to integers in one instruction.
    pub has_round: bool,
    /// The layout of tables, if they are not in this process.
    pub apart: Option<Apart>,
}

/// The addresses of tables in memory that is not this process's, where code has no registers to preserve either.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// The address of the first shape, and the distance between shapes.
    pub shapes: (i64, i64),
    /// The address of the digits of 2/π, the one table of numbers that functions refer to.
    pub digits: i64,
}

/// A function that is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A function for lanes.
    Own(String),
    /// A function of the runtime.
    Helper(Helper),
    /// A function that preserves all registers, and calls one of the runtime.
    Rare(Helper),
    /// A mathematical function of numbers of this kind, by its symbol, and the number of its operands.
    Symbol(String, Scalar, usize),
}

/// A function that is emitted.
pub struct Emitted {
    /// Its name, and how it is called.
    pub head: Head,
    /// The number of lanes.
    pub lanes: u32,
    /// Its code.
    pub func: Function,
    /// The functions that it calls.
    pub callees: Vec<(UserExternalNameRef, Callee)>,
}

/// The functions for lanes of a module.
pub struct Unit {
    settings: Settings,
    /// The functions.
    pub functions: Vec<Emitted>,
}

impl Unit {
    /// A module without functions.
    pub fn new(settings: Settings) -> Unit {
        Unit { settings, functions: Vec::new() }
    }
}

impl lanes::Backend for Unit {
    type Writer = Writer;
    const NAME: &'static str = crate::NAME;
    const LEAST_BITS: u32 = 32;
    const THREADS_JUMPS: bool = true;
    const UNROLLS: bool = true;
    const TESTS_BEFORE: bool = false;
    // Eight registers.
    const PAIRED_BYTES: u32 = 128;
    const MASKS_LEFT_OVER: bool = false;

    fn writer(&self, kind: Kind, lanes: u32, _: bool) -> Writer {
        Writer::new(self.settings, kind, lanes)
    }

    fn define(&mut self, head: Head, w: Writer) {
        self.functions.push(Emitted { head, lanes: w.lanes, func: w.func, callees: w.callees });
    }

    fn n_functions(&self) -> usize {
        self.functions.len()
    }

    fn truncate(&mut self, n: usize) {
        self.functions.truncate(n);
    }

    fn sketch(&self, name: &str) -> Option<Sketch> {
        self.functions.iter().find(|f| f.head.name == name).map(crate::cost::sketch)
    }
}

/// A block, by its number in [`Writer`].
#[derive(Clone, Copy)]
pub struct Block(usize);

/// A function while it is written.
pub struct Writer {
    func: Function,
    settings: Settings,
    lanes: u32,
    entry: ClifBlock,
    /// The block that is being written.
    at: ClifBlock,
    location: SourceLoc,
    /// The named parameters.
    names: Vec<(&'static str, Value)>,
    /// The values that hold each register.
    registers: Vec<Parts>,
    /// The memory that the parts of some registers were stored to.
    stored: FxHashMap<Id, Value>,
    blocks: Vec<(ClifBlock, Vals)>,
    refs: FxHashMap<Callee, FuncRef>,
    callees: Vec<(UserExternalNameRef, Callee)>,
    /// The memory through which rarely called helpers return their results.
    rare_result: Option<Value>,
    /// The memory that lanes write to which are not in a mask.
    aside: Option<Value>,
}

/// Emits an instruction at the end of the block that is being written.
macro_rules! ins {
    ($w:expr) => {
        $crate::lanes::cursor(&mut $w.func, $w.at, $w.location).ins()
    };
}
pub(crate) use ins;

/// The end of a block, for instructions with this location. The first location that a cursor is given becomes the base
/// of all, so it must be one.
fn cursor(func: &mut Function, at: ClifBlock, location: SourceLoc) -> FuncCursor<'_> {
    let cursor = FuncCursor::new(func).at_bottom(at);
    if location.is_default() { cursor } else { cursor.with_srcloc(location) }
}

impl Writer {
    fn new(settings: Settings, kind: Kind, lanes: u32) -> Writer {
        let mut func = Function::new();
        let (conv, names): (_, &[_]) = match kind {
            Kind::Span => (settings.system, &["%ctx", "%start", "%end"]),
            Kind::Raw => (settings.system, &["%ctx", "%args", "%results"]),
            Kind::Version(_) => (CallConv::Tail, &["%ctx"]),
            Kind::Math | Kind::RareMath => (CallConv::Tail, &[]),
        };
        func.signature = Signature::new(conv);
        let entry = func.dfg.make_block();
        func.layout.append_block(entry);
        let mut w = Writer {
            func,
            settings,
            lanes,
            entry,
            at: entry,
            location: SourceLoc::default(),
            names: Vec::new(),
            registers: Vec::new(),
            stored: FxHashMap::default(),
            blocks: Vec::new(),
            refs: FxHashMap::default(),
            callees: Vec::new(),
            rare_result: None,
            aside: None,
        };
        w.names = names.iter().map(|&name| (name, w.clif_param(types::I64))).collect();
        w
    }

    fn clif_param(&mut self, ty: ClifType) -> Value {
        self.func.signature.params.push(AbiParam::new(ty));
        self.func.dfg.append_block_param(self.entry, ty)
    }

    /// The reference to a function with this signature.
    fn func_ref(&mut self, callee: Callee, signature: impl FnOnce(&Writer) -> Signature) -> FuncRef {
        if let Some(&func) = self.refs.get(&callee) {
            return func;
        }
        let signature = signature(self);
        let signature = self.func.import_signature(signature);
        // The number of the function is set when it is known.
        let index = self.callees.len() as u32;
        let name = self.func.declare_imported_user_function(UserExternalName { namespace: 2, index });
        let colocated = matches!(callee, Callee::Own(_) | Callee::Rare(_));
        let data = ExtFuncData { name: ExternalName::user(name), signature, colocated, patchable: false };
        let func = self.func.import_function(data);
        self.callees.push((name, callee.clone()));
        self.refs.insert(callee, func);
        func
    }

    fn call(&mut self, func: FuncRef, args: &[Value]) -> SmallVec<[Value; 4]> {
        let call = ins!(self).call(func, args);
        self.func.dfg.inst_results(call).iter().copied().collect()
    }

    /// The types of the values that hold operands like these.
    fn types_of<'v>(&self, like: impl IntoIterator<Item = &'v Val>) -> Vec<ClifType> {
        let of = |v: &Val| {
            let (ty, n) = parts::form(v.el, v.var, self.lanes);
            std::iter::repeat_n(ty, n)
        };
        like.into_iter().flat_map(of).collect()
    }

    /// The arguments of a block, in the form of its parameters.
    fn block_args(&mut self, to: Block, args: &[Val]) -> SmallVec<[BlockArg; 8]> {
        let params = self.blocks[to.0].1.clone();
        let mut all = SmallVec::new();
        for (param, &arg) in params.iter().zip(args) {
            all.extend(self.parts(arg, param.var).into_iter().map(BlockArg::Value));
        }
        all
    }
}

/// The element type of a helper's result.
fn word_el(w: Word) -> El {
    match w {
        Word::I32 => El::I32,
        Word::I64 => El::I64,
        Word::F32 => El::F32,
        Word::F64 => El::F64,
        Word::Ptr => El::Ptr,
    }
}

impl lanes::Writer for Writer {
    type Block = Block;
    const SKIPS: bool = false;

    fn is_by_memory(results: &[Val], lanes: u32) -> bool {
        let (mut ints, mut vectors) = (0, 0);
        for v in results {
            let (ty, n) = parts::form(v.el, v.var, lanes);
            *if ty.is_vector() || ty.is_float() { &mut vectors } else { &mut ints } += n;
        }
        ints > 6 || vectors > 8
    }

    fn slow_masks(&self) -> bool {
        true
    }

    fn lanes(&self) -> u32 {
        self.lanes
    }

    fn locate(&mut self, location: Option<u32>) {
        self.location = location.map_or(SourceLoc::default(), SourceLoc::new);
    }

    fn param(&mut self, el: El, var: bool, _: bool) -> Val {
        let (ty, n) = parts::form(el, var, self.lanes);
        let all = (0..n).map(|_| self.clif_param(ty)).collect();
        self.register(el, var, all)
    }

    fn spread(&mut self, v: Val) -> Val {
        if v.var || self.lanes == 1 {
            return v;
        }
        if v.constant().is_some() {
            return Val { var: true, ..v };
        }
        let all = self.parts(v, VARYING);
        Val { wide: v.wide, ..self.register(v.el, VARYING, all) }
    }

    fn lane(&mut self, v: Val, lane: Val) -> Val {
        if !v.var || v.constant().is_some() {
            return Val { var: false, ..v };
        }
        let x = self.extract(v, lane);
        Val { wide: v.wide, ..self.register(v.el, UNIFORM, Parts::from_slice(&[x])) }
    }

    fn indexed(&mut self, v: Val) -> Val {
        self.emit_indexed(v)
    }

    fn with_lane(&mut self, v: Val, lane: Val, x: Val) -> Val {
        if let Some(k) = lane.constant() {
            let (mut all, x) = (self.parts(v, VARYING), self.one(x));
            let (ty, _) = parts::form(v.el, VARYING, self.lanes);
            let n = if ty.is_vector() { ty.lane_count() as u64 } else { 1 };
            let part = &mut all[(k / n) as usize];
            *part = if !ty.is_vector() {
                x
            } else {
                let x = if v.el == El::I1 { self.mask_lane(x) } else { x };
                ins!(self).insertlane(*part, x, (k % n) as u8)
            };
            return self.register(v.el, VARYING, all);
        }
        let iota = lanes::Writer::iota(self, El::I32);
        let here = self.compare(Compare::Equal, iota, lane);
        self.select(here, x, v)
    }

    fn unary(&mut self, op: Unary, a: Val) -> Val {
        self.emit_unary(op, a)
    }

    fn binary(&mut self, op: Binary, a: Val, b: Val) -> Val {
        self.emit_binary(op, a, b)
    }

    fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        self.emit_compare(op, a, b)
    }

    fn cast(&mut self, op: Cast, a: Val, to: El) -> Val {
        self.emit_cast(op, a, to)
    }

    fn float_to_int(&mut self, a: Val, to: El, signed: bool) -> Val {
        self.emit_float_to_int(a, to, signed)
    }

    fn widen(&mut self, _: Val) -> Option<Val> {
        None
    }

    fn narrow(&mut self, _: Val) -> Option<Val> {
        None
    }

    fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        self.emit_select(c, a, b)
    }

    fn math(&mut self, m: Math, args: &[Val]) -> Val {
        self.emit_math(m, args)
    }

    fn copy_sign(&mut self, a: Val, b: Val) -> Val {
        self.emit_copy_sign(a, b)
    }

    fn reduce(&mut self, op: Binary, a: Val) -> Val {
        self.emit_reduce(op, a)
    }

    fn sum_by_halves(&mut self, a: Val) -> Val {
        self.emit_sum_by_halves(a)
    }

    fn any(&mut self, c: Val) -> Val {
        if !c.var {
            return c;
        }
        let all = self.parts(c, VARYING);
        let some = all[1..].iter().fold(all[0], |a, &b| ins!(self).bor(a, b));
        let some = ins!(self).vany_true(some);
        self.register(El::I1, UNIFORM, Parts::from_slice(&[some]))
    }

    fn mask_bits(&mut self, c: Val) -> Val {
        let mut bits = None;
        for (k, part) in self.parts(c, VARYING).into_iter().enumerate() {
            let four = ins!(self).vhigh_bits(types::I32, part);
            bits = Some(match bits {
                None => four,
                Some(bits) => {
                    let by = ins!(self).iconst(types::I32, 4 * k as i64);
                    let four = ins!(self).ishl(four, by);
                    ins!(self).bor(bits, four)
                }
            });
        }
        self.register(El::I32, UNIFORM, bits.into_iter().collect())
    }

    fn call_own(&mut self, name: &str, like: &[Val], args: &[Val]) -> Vals {
        let callee = Callee::Own(name.to_string());
        let func = self.func_ref(callee, |w| {
            let mut signature = Signature::new(CallConv::Tail);
            signature.params = w.types_of(args).into_iter().map(AbiParam::new).collect();
            signature.returns = w.types_of(like).into_iter().map(AbiParam::new).collect();
            signature
        });
        let args: Vec<Value> = args.iter().flat_map(|&arg| self.parts(arg, arg.var)).collect();
        let mut results = self.call(func, &args).into_iter();
        let mut all = Vals::new();
        for v in like {
            let (_, n) = parts::form(v.el, v.var, self.lanes);
            let parts = results.by_ref().take(n).collect();
            all.push(Val { wide: v.wide, ..self.register(v.el, v.var, parts) });
        }
        all
    }

    fn helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        let (params, result) = helper.signature();
        let func = self.func_ref(Callee::Helper(helper), |w| {
            let mut signature = Signature::new(w.settings.system);
            signature.params = params.iter().map(|&p| AbiParam::new(crate::common::word(p))).collect();
            signature.returns = result.map(|r| AbiParam::new(crate::common::word(r))).into_iter().collect();
            signature
        });
        let args: Vec<Value> = args.iter().map(|&arg| self.one(arg)).collect();
        let results = self.call(func, &args);
        Some(self.register(word_el(result?), UNIFORM, results.into_iter().collect()))
    }

    fn rare_helper(&mut self, helper: Helper, args: &[Val]) -> Option<Val> {
        if !crate::common::HAS_RARE || self.settings.apart.is_some() {
            return self.helper(helper, args);
        }
        let (_, result) = helper.signature();
        let func = self.func_ref(Callee::Rare(helper), |_| crate::common::rare_signature(helper));
        let mut args: Vec<Value> = args.iter().map(|&arg| self.one(arg)).collect();
        let Some(result) = result else {
            self.call(func, &args);
            return None;
        };
        let room = match self.rare_result {
            Some(room) => room,
            None => self.frame(8),
        };
        self.rare_result = Some(room);
        args.push(room);
        self.call(func, &args);
        let x = ins!(self).load(crate::common::word(result), crate::common::plain(), room, 0);
        Some(self.register(word_el(result), UNIFORM, Parts::from_slice(&[x])))
    }

    fn access_helper(&mut self, helper: Helper, args: &[Val], _: Class) {
        self.rare_helper(helper, args);
    }

    fn device_call(&mut self, _: &str, _: Option<El>, _: &[Val]) -> Option<Val> {
        None
    }

    fn give(&mut self, results: &[Val]) {
        let types = self.types_of(results);
        self.func.signature.returns = types.into_iter().map(AbiParam::new).collect();
        let all: Vec<Value> = results.iter().flat_map(|&v| self.parts(v, v.var)).collect();
        ins!(self).return_(&all);
    }

    fn offset(&mut self, at: Val, bytes: Val) -> Val {
        if bytes.constant() == Some(0) {
            return at;
        }
        let var = at.var || bytes.var;
        let (a, b) = (self.parts(at, var), self.parts(bytes, var));
        let out = a.into_iter().zip(b).map(|(a, b)| ins!(self).iadd(a, b)).collect();
        Val { wide: at.wide, ..self.register(El::Ptr, var, out) }
    }

    fn alloca(&mut self, bytes: u64, _: u64) -> Val {
        let at = self.frame(bytes);
        self.register(El::Ptr, UNIFORM, Parts::from_slice(&[at]))
    }

    fn shape(&mut self, number: u32, address: i64) -> Val {
        let shapes = self.settings.apart.map(|apart| apart.shapes);
        let address = shapes.map_or(address, |(first, step)| first + i64::from(number) * step);
        Val::bits(El::Ptr, address as u64)
    }

    fn table(&mut self, table: &'static [f64]) -> Val {
        let digits = self.settings.apart.map(|apart| apart.digits);
        Val::bits(El::Ptr, digits.unwrap_or(table.as_ptr() as i64) as u64)
    }

    fn stack_pointer(&mut self) -> Val {
        let sp = ins!(self).get_stack_pointer(types::I64);
        self.register(El::Ptr, UNIFORM, Parts::from_slice(&[sp]))
    }

    fn load(&mut self, el: El, var: bool, at: Val, class: Class) -> Val {
        self.emit_load(el, var, at, class)
    }

    fn store(&mut self, x: Val, at: Val, _: Class) {
        self.emit_store(x, at);
    }

    fn gather(&mut self, el: El, at: Val, _: Class, mask: Val) -> Val {
        self.emit_gather(el, at, mask)
    }

    fn scatter(&mut self, x: Val, at: Val, _: Class, mask: Val) {
        self.emit_scatter(x, at, mask);
    }

    fn columns(&mut self, el: El, n: u32, at: Val, step: i64, _: Class) -> Vals {
        self.emit_columns(el, n, at, step)
    }

    fn store_columns(&mut self, pieces: &[(Vals, i64)], at: Val, step: i64, _: Class) {
        for (vals, by) in pieces {
            let at = self.offset(at, Val::i64(*by));
            self.emit_store_columns(vals, at, step);
        }
    }

    fn row(&mut self, vals: &[Val]) -> Val {
        let all = vals.iter().flat_map(|&v| self.parts(v, VARYING)).collect();
        self.register(vals[0].el, VARYING, all)
    }

    fn store_row(&mut self, row: Val, of: (El, u32), at: Val, _: Class, mask: Option<Val>) {
        self.emit_store_row(row, of, at, mask);
    }

    fn clear(&mut self, at: Val, bytes: u64) {
        self.emit_clear(at, bytes);
    }

    fn copy(&mut self, to: Val, from: Val, bytes: u64, _: u64) {
        self.emit_copy(to, from, bytes);
    }

    fn atomic(&mut self, s: Scalar, op: AtomicOp, at: Val, x: Val) -> Option<Val> {
        self.emit_atomic(s, op, at, x)
    }

    fn exchange(&mut self, at: Val, old: Val, new: Val) -> (Val, Val) {
        let (at, before, new) = (self.one(at), self.one(old), self.one(new));
        let found = ins!(self).atomic_cas(crate::common::plain(), at, before, new);
        let same = ins!(self).icmp(cranelift_codegen::ir::condcodes::IntCC::Equal, found, before);
        let found = self.register(old.el, UNIFORM, Parts::from_slice(&[found]));
        (found, self.register(El::I1, UNIFORM, Parts::from_slice(&[same])))
    }

    fn block(&mut self, like: &[Val]) -> Block {
        let block = self.func.dfg.make_block();
        let mut params = Vals::new();
        for v in like {
            let (ty, n) = parts::form(v.el, v.var, self.lanes);
            let all = (0..n).map(|_| self.func.dfg.append_block_param(block, ty)).collect();
            params.push(Val { wide: v.wide, ..self.register(v.el, v.var, all) });
        }
        self.blocks.push((block, params));
        Block(self.blocks.len() - 1)
    }

    fn enter(&mut self, block: Block) -> Vals {
        let (clif, params) = self.blocks[block.0].clone();
        self.func.layout.append_block(clif);
        self.at = clif;
        params
    }

    fn jump(&mut self, to: Block, args: &[Val]) {
        let args = self.block_args(to, args);
        ins!(self).jump(self.blocks[to.0].0, &args);
    }

    fn branch(&mut self, c: Val, yes: (Block, &[Val]), no: (Block, &[Val]), odds: Odds) {
        let blocks = [yes.0, no.0].map(|block| self.blocks[block.0].0);
        match odds {
            Odds::Even => {}
            Odds::Likely => self.func.layout.set_cold(blocks[1]),
            Odds::Unlikely => self.func.layout.set_cold(blocks[0]),
        }
        let c = self.one(c);
        let (a, b) = (self.block_args(yes.0, yes.1), self.block_args(no.0, no.1));
        ins!(self).brif(c, blocks[0], &a, blocks[1], &b);
    }

    fn switch(&mut self, tag: Val, cases: &[(u64, Block)], otherwise: Block) {
        for &(bits, block) in cases {
            let here = self.compare(Compare::Equal, tag, Val::bits(tag.el, bits));
            let next = self.block(&[]);
            self.branch(here, (block, &[]), (next, &[]), Odds::Even);
            self.enter(next);
        }
        self.jump(otherwise, &[]);
    }
}
