//! Writes LLVM's textual IR, with one function for each kind of instruction.
//!
//! If an operand of an instruction is varying, the instruction works on vectors, and its other operands are
//! broadcast; so the code that emits for lanes and for one thread is written once.
//!
//! Writing text takes a few per cent of the time of LLVM's optimiser, needs no LLVM library, and the result
//! can be inspected.

use std::fmt::Write as _;

use native::emit::{Odds, UNIFORM, VARYING};
use native::lanes::Class;
use rustc_hash::FxHashSet;

use crate::debug;
use crate::operand::{El, Id, Val, Vals};
use crate::unit::FxIndexMap;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block(u32);

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b{}", self.0)
    }
}

/// The parameters of a block, the jumps to it, and the number of its first instruction.
#[derive(Default)]
pub(crate) struct BlockData {
    pub(crate) params: Vals,
    /// The block of each jump, and the arguments that it passes.
    pub(crate) jumps: Vec<(Block, Vals)>,
    /// The number of jumps that are hardly ever taken, and of those that are taken if any lane needs it.
    unlikely: usize,
    parted: usize,
    start: usize,
}

impl BlockData {
    /// Returns true if the block hardly ever runs.
    pub(crate) fn is_rare(&self) -> bool {
        self.unlikely > 0 && self.unlikely == self.jumps.len()
    }

    /// Returns true if the block runs for the lanes that need it.
    pub(crate) fn is_parted(&self) -> bool {
        self.parted > 0 && self.parted == self.jumps.len()
    }
}

/// An instruction.
struct Inst {
    /// The register that it sets.
    makes: Option<u32>,
    /// The ends of its text and of the list of values that it reads; both begin where those of the instruction
    /// before it end.
    text: usize,
    reads: usize,
    /// The function of the module that it calls, by its number in `callees`.
    callee: Option<usize>,
}

/// An instruction, for a reader: the register that it sets, the values that it reads, its text, and the function
/// of the module that it calls.
pub(crate) struct Line<'w> {
    pub(crate) makes: Option<u32>,
    pub(crate) reads: &'w [u32],
    pub(crate) text: &'w str,
    pub(crate) callee: Option<&'w str>,
}

/// The number of the first named parameter as a value; smaller numbers are those of registers.
pub(crate) const NAMED: u32 = 1 << 31;

/// The traits of the machine and the module that the text depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    /// Fields of the context never change while a function runs, wherever it is inlined.
    pub(crate) constant_context: bool,
    /// The machine has instructions that convert from and to halves.
    pub(crate) has_f16c: bool,
    /// There are instructions that scale the floats of a vector by powers of two.
    pub(crate) has_scale: bool,
    /// Masked stores are slow, as on x86-64 before AVX-512.
    pub(crate) slow_masks: bool,
    /// The width of the machine's vectors in bits.
    pub(crate) vector_bits: u32,
}

/// The number of a shuffle that picks anything.
pub(crate) const ANY: u32 = u32::MAX;

/// One function: blocks of instructions.
pub(crate) struct Writer {
    /// The traits of the machine and the module that the text depends on.
    pub(crate) style: Style,
    /// Operations on floats may be reordered and fused.
    pub(crate) fast: bool,
    /// The function's parameters, and the type of its result, as they are written.
    pub(crate) params: Vec<String>,
    pub(crate) result: String,
    /// The table that the function refers to.
    pub(crate) table: &'static [f64],
    /// The number of lanes.
    pub(crate) lanes: u32,
    text: String,
    /// The instructions that allocate memory in the frame.
    pub(crate) entry: String,
    insts: Vec<Inst>,
    reads: Vec<u32>,
    /// The types of the registers; `None` for those of other types than operands have.
    registers: Vec<Option<(El, bool)>>,
    /// The named parameters that are read, apart from the context.
    names: Vec<Val>,
    blocks: Vec<BlockData>,
    /// The registers that hold conditions for any lane.
    pub(crate) of_any: FxHashSet<u32>,
    /// The blocks in the order of the text; the last one is being written.
    pub(crate) order: Vec<Block>,
    /// The number of bytes of memory allocated in the frame.
    memory: u64,
    /// The functions that are called and not of the module: the type of the result, and the parameters and
    /// attributes. LLVM declares intrinsics by itself, and completes their names by types.
    pub(crate) declared: FxIndexMap<String, (String, String)>,
    /// The functions of the module that are called, with the number of calls.
    pub(crate) callees: FxIndexMap<String, usize>,
    /// The location of the instructions that are written, for a profile: see `debug`.
    pub(crate) location: Option<u32>,
}

impl Writer {
    /// An empty function.
    pub(crate) fn new(lanes: u32) -> Writer {
        Writer {
            style: Style::default(),
            fast: false,
            params: Vec::new(),
            result: "void".to_string(),
            table: &[],
            lanes,
            text: String::new(),
            entry: String::new(),
            insts: Vec::new(),
            reads: Vec::new(),
            registers: Vec::new(),
            names: Vec::new(),
            blocks: vec![BlockData::default()],
            of_any: FxHashSet::default(),
            order: vec![Block(0)],
            memory: 0,
            declared: Default::default(),
            callees: Default::default(),
            location: None,
        }
    }

    /// Writes an instruction without a result; `reads` are its operands.
    pub(crate) fn line(&mut self, reads: &[Val], args: std::fmt::Arguments<'_>) {
        self.push(None, reads, args);
    }

    /// Writes an instruction whose result is `out`.
    pub(crate) fn make(&mut self, out: Val, reads: &[Val], args: std::fmt::Arguments<'_>) {
        self.push(out.register(), reads, args);
    }

    fn push(&mut self, makes: Option<u32>, reads: &[Val], args: std::fmt::Arguments<'_>) {
        let _ = match makes {
            Some(n) => write!(self.text, "  %r{n} = {args}"),
            None => write!(self.text, "  {args}"),
        };
        if let Some(location) = self.location {
            let _ = write!(self.text, "{}{location}", debug::MARK);
        }
        self.text.push('\n');
        for v in reads {
            let number = self.number(*v);
            self.reads.extend(number);
        }
        self.insts.push(Inst { makes, text: self.text.len(), reads: self.reads.len(), callee: None });
    }

    /// The number of an operand as a value that pieces of the function may have to share.
    fn number(&mut self, v: Val) -> Option<u32> {
        match v.id {
            Id::Reg(n) => Some(n),
            Id::Name(name) if name.starts_with('%') && name != "%ctx" => {
                let known = self.names.iter().position(|known| known.id == v.id);
                let k = known.unwrap_or_else(|| {
                    self.names.push(v);
                    self.names.len() - 1
                });
                Some(NAMED + k as u32)
            }
            Id::Name(_) | Id::Bits(_) | Id::Poison | Id::Iota | Id::Shape(_) => None,
        }
    }

    /// The operand of a number that `number` gave, its type and its size in memory; none if it is of no type
    /// that operands have.
    pub(crate) fn value(&self, number: u32) -> Option<(Val, String, u64)> {
        let v = match number.checked_sub(NAMED) {
            Some(k) => self.names[k as usize],
            None => {
                let (el, var) = self.registers[number as usize]?;
                Val { var, ..Val::uniform(Id::Reg(number), el) }
            }
        };
        let lanes = if v.var { u64::from(self.lanes) } else { 1 };
        Some((v, self.ty(v.el, v.var), v.el.bytes() * lanes))
    }

    /// The parameters of a block and the jumps to it.
    pub(crate) fn data(&self, block: Block) -> &BlockData {
        &self.blocks[block.0 as usize]
    }

    /// The numbers of the instructions of block number `k` in the order of the text.
    pub(crate) fn insts(&self, k: usize) -> std::ops::Range<usize> {
        let next = self.order.get(k + 1);
        self.data(self.order[k]).start..next.map_or(self.insts.len(), |&next| self.data(next).start)
    }

    /// The instruction of this number.
    pub(crate) fn inst(&self, k: usize) -> Line<'_> {
        let (text, reads) = k.checked_sub(1).map_or((0, 0), |k| (self.insts[k].text, self.insts[k].reads));
        let inst = &self.insts[k];
        Line {
            makes: inst.makes,
            reads: &self.reads[reads..inst.reads],
            text: &self.text[text..inst.text],
            callee: inst.callee.and_then(|k| self.callees.get_index(k)).map(|(name, _)| &name[..]),
        }
    }

    /// The number of all instructions, and of the values that they read.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.insts.len(), self.reads.len())
    }

    /// A new register.
    pub(crate) fn reg(&mut self, el: El, var: bool) -> Val {
        let id = Id::Reg(self.registers.len() as u32);
        self.registers.push(Some((el, var)));
        Val { id, el, var, wide: false, lin: None }
    }

    /// A new register of a type that no operand has, such as a struct: only the text is right about it.
    pub(crate) fn odd(&mut self) -> Val {
        self.registers.push(None);
        Val::uniform(Id::Reg(self.registers.len() as u32 - 1), El::Ptr)
    }

    /// An upper bound of the size of the function's frame in bytes: its memory, and every register spilled.
    pub(crate) fn frame(&self) -> u64 {
        self.memory + self.registers.len() as u64 * 8 * u64::from(self.lanes) + 256
    }

    /// The text of the function's blocks. Parameters of blocks become phis.
    pub(crate) fn finish(&self) -> String {
        let mut all = format!("entry:\n{}  br label %b0\n", self.entry);
        for (k, &block) in self.order.iter().enumerate() {
            self.write_head(&mut all, block, &|from| from);
            let insts = self.insts(k);
            if let (false, Some(last)) = (insts.is_empty(), insts.clone().last()) {
                let start = insts.start.checked_sub(1).map_or(0, |k| self.insts[k].text);
                all.push_str(&self.text[start..self.insts[last].text]);
            }
        }
        all
    }

    /// Writes the label of a block and its parameters; `last` gives the block in which a block ends that jumps to
    /// it.
    pub(crate) fn write_head(&self, all: &mut String, block: Block, last: &dyn Fn(Block) -> Block) {
        let data = self.data(block);
        let _ = writeln!(all, "{block}:");
        for (k, &param) in data.params.iter().enumerate() {
            let (o, ty) = (self.operand(param, UNIFORM), self.ty(param.el, param.var));
            let incoming = |(from, args): &(Block, Vals)| {
                format!(" [ {}, %{} ]", self.operand(args[k], param.var), last(*from))
            };
            let incoming: Vec<String> = data.jumps.iter().map(incoming).collect();
            let _ = writeln!(all, "  {o} = phi {ty}{}", incoming.join(","));
        }
    }

    // ---- text of types and operands

    /// The text of a type.
    pub(crate) fn ty(&self, el: El, var: bool) -> String {
        if var { format!("<{} x {}>", self.lanes, el.name()) } else { el.name().to_string() }
    }

    /// The text of an operand without its type; a constant is broadcast if `var`.
    pub(crate) fn operand(&self, v: Val, var: bool) -> String {
        match v.id {
            Id::Reg(n) => format!("%r{n}"),
            Id::Name(name) => name.to_string(),
            Id::Shape(k) => format!("@rt_shape_{k}"),
            Id::Poison => "poison".to_string(),
            Id::Iota => {
                let lanes: Vec<String> = (0..self.lanes).map(|k| format!("{} {k}", v.el.name())).collect();
                format!("<{}>", lanes.join(", "))
            }
            Id::Bits(bits) => {
                let one = constant(v.el, bits);
                if var { format!("splat ({} {one})", v.el.name()) } else { one }
            }
        }
    }

    /// The text of an operand with its type.
    pub(crate) fn typed(&self, v: Val) -> String {
        format!("{} {}", self.ty(v.el, v.var), self.operand(v, v.var))
    }

    // ---- lanes

    /// Broadcasts a uniform value to a varying one.
    pub(crate) fn spread(&mut self, v: Val) -> Val {
        if v.var || self.lanes == 1 {
            return v;
        }
        if matches!(v.id, Id::Bits(_) | Id::Poison) {
            return Val { var: true, ..v };
        }
        let (ty, n) = (self.ty(v.el, VARYING), self.lanes);
        let one = self.reg(v.el, VARYING);
        let (a, b) = (self.operand(v, UNIFORM), self.operand(one, VARYING));
        self.make(one, &[v], format_args!("insertelement {ty} poison, {} {a}, i64 0", v.el.name()));
        let all = self.reg(v.el, VARYING);
        self.make(
            all,
            &[one],
            format_args!("shufflevector {ty} {b}, {ty} poison, <{n} x i32> zeroinitializer"),
        );
        Val { wide: v.wide, lin: None, ..all }
    }

    /// Makes the value varying if `var`.
    pub(crate) fn fit(&mut self, v: Val, var: bool) -> Val {
        if var { self.spread(v) } else { v }
    }

    /// Extracts the number of one lane.
    pub(crate) fn lane(&mut self, v: Val, lane: Val) -> Val {
        if !v.var {
            return v;
        }
        let out = self.reg(v.el, UNIFORM);
        let (a, l) = (self.typed(v), self.typed(lane));
        self.make(out, &[v, lane], format_args!("extractelement {a}, {l}"));
        Val { wide: v.wide, ..out }
    }

    /// Inserts the number of one lane into `v`.
    pub(crate) fn with_lane(&mut self, v: Val, lane: Val, x: Val) -> Val {
        let v = self.spread(v);
        let out = self.reg(v.el, VARYING);
        let list = self.list(&[v, x, lane]);
        self.make(out, &[v, x, lane], format_args!("insertelement {list}"));
        out
    }

    // ---- instructions

    /// An instruction with one operand, such as `fneg`.
    pub(crate) fn unary(&mut self, op: &str, a: Val) -> Val {
        let out = self.reg(a.el, a.var);
        let text = self.typed(a);
        self.make(out, &[a], format_args!("{op} {text}"));
        out
    }

    /// An instruction with two operands of the same type.
    pub(crate) fn binary(&mut self, op: &str, a: Val, b: Val) -> Val {
        let el = a.el;
        self.binary_to(op, a, b, el)
    }

    /// An instruction with two operands of the same type and a result of type `el`, such as a comparison.
    pub(crate) fn binary_to(&mut self, op: &str, a: Val, b: Val, el: El) -> Val {
        let var = a.var || b.var;
        let (a, b) = (self.fit(a, var), self.fit(b, var));
        let out = self.reg(el, var);
        let ty = self.ty(a.el, var);
        let fast = match op {
            "fadd" | "fsub" | "fmul" | "fdiv" if self.fast => " reassoc nsz arcp contract",
            _ => "",
        };
        let (x, y) = (self.operand(a, var), self.operand(b, var));
        self.make(out, &[a, b], format_args!("{op}{fast} {ty} {x}, {y}"));
        out
    }

    /// A conversion.
    pub(crate) fn cast(&mut self, op: &str, a: Val, to: El) -> Val {
        let out = self.reg(to, a.var);
        let (from, ty) = (self.typed(a), self.ty(to, a.var));
        self.make(out, &[a], format_args!("{op} {from} to {ty}"));
        out
    }

    /// `c ? a : b`.
    pub(crate) fn select(&mut self, c: Val, a: Val, b: Val) -> Val {
        if a == b {
            return a;
        }
        if let Some(bit) = c.constant() {
            return if bit & 1 == 1 { a } else { b };
        }
        let var = c.var || a.var || b.var;
        let (a, b) = (self.fit(a, var), self.fit(b, var));
        let out = self.reg(a.el, var);
        let list = self.list(&[c, a, b]);
        self.make(out, &[c, a, b], format_args!("select {list}"));
        out
    }

    /// Calls a function whose result is of type `el`.
    pub(crate) fn call(&mut self, function: std::fmt::Arguments<'_>, el: El, var: bool, args: &[Val]) -> Val {
        let out = self.reg(el, var);
        let (ty, list) = (self.ty(el, var), self.list(args));
        self.make(out, args, format_args!("call {ty} @{function}({list})"));
        out
    }

    /// Calls a function that is not of the module, with uniform operands; `about` holds its attributes.
    pub(crate) fn call_external(
        &mut self,
        name: &str,
        result: Option<El>,
        args: &[Val],
        about: &str,
    ) -> Option<Val> {
        let types: Vec<&str> = args.iter().map(|a| a.el.name()).collect();
        self.declare(result.map_or("void", El::name), name, &types.join(", "), about);
        if let Some(el) = result {
            return Some(self.call(format_args!("{name}"), el, UNIFORM, args));
        }
        let list = self.list(args);
        self.line(args, format_args!("call void @{name}({list})"));
        None
    }

    /// A vector of some numbers of two vectors of `n` numbers each; [`ANY`] picks anything.
    pub(crate) fn shuffle(
        &mut self,
        el: El,
        n: u32,
        [a, b]: [Val; 2],
        picks: impl Iterator<Item = u32>,
    ) -> Val {
        let any = "i32 poison".to_string();
        let picks: Vec<String> =
            picks.map(|k| if k == ANY { any.clone() } else { format!("i32 {k}") }).collect();
        let out = if picks.len() == self.lanes as usize { self.reg(el, VARYING) } else { self.odd() };
        let (ty, m) = (format!("<{n} x {}>", el.name()), picks.len());
        let (x, y, picks) = (self.operand(a, VARYING), self.operand(b, VARYING), picks.join(", "));
        self.make(out, &[a, b], format_args!("shufflevector {ty} {x}, {ty} {y}, <{m} x i32> <{picks}>"));
        out
    }

    /// The text of several operands with their types.
    pub(crate) fn list(&self, args: &[Val]) -> String {
        args.iter().map(|&a| self.typed(a)).collect::<Vec<_>>().join(", ")
    }

    /// An intrinsic whose result has the type of its operands.
    pub(crate) fn intrinsic(&mut self, name: &str, args: &[Val]) -> Val {
        let var = args.iter().any(|a| a.var);
        let args: Vals = args.iter().map(|&a| self.fit(a, var)).collect();
        self.call(format_args!("llvm.{name}"), args[0].el, var, &args)
    }

    /// The number of zero bits before the first or last one (`ctlz`, `cttz`); the number of all bits, if there is
    /// none.
    pub(crate) fn zeros(&mut self, name: &str, a: Val) -> Val {
        self.call(format_args!("llvm.{name}"), a.el, a.var, &[a, Val::bool(false)])
    }

    /// A reduction over the lanes: `or`, `umax`, ….
    pub(crate) fn reduce(&mut self, name: &str, a: Val) -> Val {
        if !a.var {
            return a;
        }
        self.call(format_args!("llvm.vector.reduce.{name}"), a.el, UNIFORM, &[a])
    }

    /// The sum of the floats of all lanes by repeated halving: the upper half of the lanes is added to the
    /// lower half until one lane is left.
    pub(crate) fn sum_by_halves(&mut self, a: Val) -> Val {
        let all = self.halve(a.el, a, self.lanes, 1);
        let out = self.reg(a.el, UNIFORM);
        let text = self.operand(all, VARYING);
        self.make(out, &[all], format_args!("extractelement <1 x {}> {text}, i32 0", a.el.name()));
        out
    }

    /// Declares a function, unless it is declared already; `about` holds its attributes.
    pub(crate) fn declare(&mut self, result: &str, name: &str, params: &str, about: &str) {
        if !self.declared.contains_key(name) {
            self.declared.insert(name.to_string(), (result.to_string(), format!("{params}){about}")));
        }
    }

    /// Calls a function of the module; `like` are operands of the types of its results.
    pub(crate) fn call_own(&mut self, name: &str, like: &[Val], args: &[Val]) -> Vals {
        let (ty, list) = (self.result(like), self.list(args));
        let all = match like {
            [] => None,
            [one] => Some(self.reg(one.el, one.var)),
            _ => Some(self.odd()),
        };
        let call = format_args!("call fastcc {ty} @{name}({list})");
        match all {
            None => self.line(args, call),
            Some(all) => self.make(all, args, call),
        }
        let callee = self.callees.entry(name.to_string());
        let number = callee.index();
        *callee.or_default() += 1;
        if let Some(inst) = self.insts.last_mut() {
            inst.callee = Some(number);
        }
        let Some(all) = all else { return Vals::new() };
        if let [one] = like {
            return Vals::from_slice(&[Val { wide: one.wide, ..all }]);
        }
        let a = self.operand(all, UNIFORM);
        let part = |(k, part): (usize, &Val)| {
            let out = self.reg(part.el, part.var);
            self.make(out, &[all], format_args!("extractvalue {ty} {a}, {k}"));
            Val { wide: part.wide, ..out }
        };
        like.iter().enumerate().map(part).collect()
    }

    /// Returns the results of a function of the module.
    pub(crate) fn give(&mut self, results: &[Val]) {
        let ty = self.result(results);
        let mut all = if let [one] = results { *one } else { Val::POISON };
        for (k, &v) in results.iter().enumerate().filter(|_| results.len() > 1) {
            let next = self.odd();
            let (before, part) = (self.operand(all, UNIFORM), self.typed(v));
            self.make(next, &[all, v], format_args!("insertvalue {ty} {before}, {part}, {k}"));
            all = next;
        }
        let text = self.operand(all, all.var);
        match results {
            [] => self.line(&[], format_args!("ret void")),
            _ => self.line(&[all], format_args!("ret {ty} {text}")),
        }
        self.result = ty;
    }

    /// The text of the type of a function's results.
    fn result(&self, like: &[Val]) -> String {
        let types: Vec<String> = like.iter().map(|v| self.ty(v.el, v.var)).collect();
        match &types[..] {
            [] => "void".to_string(),
            [one] => one.clone(),
            _ => format!("{{ {} }}", types.join(", ")),
        }
    }

    // ---- addresses

    /// `address + bytes`.
    pub(crate) fn offset(&mut self, at: Val, bytes: Val) -> Val {
        if bytes.constant() == Some(0) {
            return at;
        }
        let var = at.var || bytes.var;
        let out = self.reg(El::Ptr, var);
        // Either the base or the offset may be a vector.
        let list = self.list(&[at, bytes]);
        self.make(out, &[at, bytes], format_args!("getelementptr i8, {list}"));
        Val { wide: at.wide, ..out }
    }

    /// Allocates memory in the function's frame, in its entry block.
    pub(crate) fn alloca(&mut self, bytes: u64, align: u64) -> Val {
        let out = self.reg(El::Ptr, UNIFORM);
        let o = self.operand(out, UNIFORM);
        self.memory += bytes + align;
        let _ = writeln!(self.entry, "  {o} = alloca [{} x i8], align {align}", bytes.max(1));
        out
    }

    /// Loads from a uniform address.
    pub(crate) fn load(&mut self, el: El, var: bool, at: Val, class: Class) -> Val {
        debug_assert!(!at.var);
        let out = self.reg(el, var);
        let (ty, a, note) = (self.ty(el, var), self.typed(at), self.note(class, el.bytes()));
        self.make(out, &[at], format_args!("load {ty}, {a}{note}"));
        out
    }

    /// Stores to a uniform address.
    pub(crate) fn store(&mut self, x: Val, at: Val, class: Class) {
        debug_assert!(!at.var);
        let (list, note) = (self.list(&[x, at]), self.note(class, x.el.bytes()));
        self.line(&[x, at], format_args!("store {list}{note}"));
    }

    /// The text that follows an access: its alignment, and metadata for alias analysis.
    pub(crate) fn note(&self, class: Class, align: u64) -> String {
        let invariant = match class {
            Class::Constant => self.style.constant_context,
            Class::Buffer { constant, .. } => constant,
            Class::Local | Class::Header | Class::Context => false,
        };
        let invariant = if invariant { ", !invariant.load !4" } else { "" };
        format!(", align {align}{}{invariant}", self.call_note(class))
    }

    /// The metadata that follows an access if the access is a call.
    pub(crate) fn call_note(&self, class: Class) -> String {
        match class {
            Class::Local => ", !tbaa !5".to_string(),
            Class::Header => ", !tbaa !7".to_string(),
            Class::Context | Class::Constant => ", !tbaa !11".to_string(),
            Class::Buffer { global: None, .. } => ", !tbaa !6".to_string(),
            Class::Buffer { global: Some(global), .. } => {
                let scope = crate::FIRST_SCOPE + 3 * crate::scope_of(global);
                format!(", !tbaa !6, !alias.scope !{scope}, !noalias !{}", scope + 1)
            }
        }
    }

    // ---- control

    /// A block to be written later, with parameters of the types of these operands.
    pub(crate) fn block(&mut self, like: &[Val]) -> Block {
        let params = like.iter().map(|v| Val { wide: v.wide, ..self.reg(v.el, v.var) }).collect();
        self.blocks.push(BlockData { params, ..BlockData::default() });
        Block(self.blocks.len() as u32 - 1)
    }

    /// Continues in a block; returns its parameters.
    pub(crate) fn enter(&mut self, block: Block) -> Vals {
        self.order.push(block);
        let data = &mut self.blocks[block.0 as usize];
        data.start = self.insts.len();
        data.params.clone()
    }

    /// Passes arguments from the current block to one that it jumps to. They must be uniform or varying, as the
    /// parameters are.
    fn pass(&mut self, to: Block, args: &[Val]) {
        let from = self.order[self.order.len() - 1];
        let data = &mut self.blocks[to.0 as usize];
        debug_assert_eq!(data.params.len(), args.len());
        debug_assert!(data.params.iter().zip(args).all(|(param, v)| {
            param.el == v.el && (v.var == param.var || matches!(v.id, Id::Bits(_) | Id::Poison))
        }));
        data.jumps.push((from, args.iter().copied().collect()));
    }

    /// Emits an unconditional branch.
    pub(crate) fn jump(&mut self, to: Block, args: &[Val]) {
        self.pass(to, args);
        self.line(args, format_args!("br label %{to}"));
    }

    /// Emits a conditional branch.
    pub(crate) fn branch(&mut self, c: Val, yes: (Block, &[Val]), no: (Block, &[Val]), odds: Odds) {
        self.pass(yes.0, yes.1);
        self.pass(no.0, no.1);
        let (weights, unlikely) = match odds {
            Odds::Even => ("", None),
            Odds::Likely => (", !prof !8", Some(no.0)),
            Odds::Unlikely => (", !prof !9", Some(yes.0)),
        };
        if let Some(block) = unlikely {
            self.blocks[block.0 as usize].unlikely += 1;
        }
        if c.register().is_some_and(|register| self.of_any.contains(&register)) {
            self.blocks[yes.0.0 as usize].parted += 1;
        }
        let text = self.typed(c);
        let reads = [&[c], yes.1, no.1].concat();
        self.line(&reads, format_args!("br {text}, label %{}, label %{}{weights}", yes.0, no.0));
    }

    /// Emits a switch.
    pub(crate) fn switch(&mut self, tag: Val, cases: &[(u64, Block)], otherwise: Block) {
        cases.iter().map(|case| case.1).chain([otherwise]).for_each(|to| self.pass(to, &[]));
        let tag_text = self.typed(tag);
        let ty = tag.el.name();
        let cases: Vec<String> =
            cases.iter().map(|(n, b)| format!("{ty} {}, label %{b}", constant(tag.el, *n))).collect();
        self.line(&[tag], format_args!("switch {tag_text}, label %{otherwise} [ {} ]", cases.join(" ")));
    }
}

/// The text of a constant.
fn constant(el: El, bits: u64) -> String {
    match el {
        El::I1 => if bits & 1 == 1 { "true" } else { "false" }.to_string(),
        El::I8 => (bits as i8).to_string(),
        El::I16 => (bits as i16).to_string(),
        El::I32 => (bits as i32).to_string(),
        El::I64 => (bits as i64).to_string(),
        // A float is written as the double of the same value; the payload of a NaN is shifted accordingly.
        El::F32 => {
            let b = bits as u32;
            let wide = if f32::from_bits(b).is_nan() {
                let (sign, rest) = (u64::from(b >> 31), u64::from(b & 0x7f_ffff));
                sign << 63 | 0x7ff0_0000_0000_0000 | rest << 29 | 0x8_0000_0000_0000
            } else {
                f64::from(f32::from_bits(b)).to_bits()
            };
            format!("0x{wide:016X}")
        }
        El::F64 => format!("0x{bits:016X}"),
        El::Ptr => {
            if bits == 0 {
                "null".to_string()
            } else {
                format!("inttoptr (i64 {} to ptr)", bits as i64)
            }
        }
    }
}
