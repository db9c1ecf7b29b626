//! Writes LLVM's textual IR: operands, and one function for each kind of instruction.
//!
//! A [`Val`] is an operand: a register or a constant, of an element type, *uniform* (one number for all
//! lanes) or *varying* (a vector with one number for each lane). If an operand of an instruction is varying,
//! the instruction works on vectors, and its other operands are broadcast; so the code that emits for lanes
//! and for one thread is written once.
//!
//! Writing text takes a few per cent of the time of LLVM's optimiser, needs no LLVM library, and the result
//! can be inspected.

use std::fmt::Write as _;

use native::emit::Odds;
use smallvec::SmallVec;

use crate::pieces::Registers;
use crate::unit::FxIndexMap;

/// The type of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum El {
    I1,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    Ptr,
}

impl El {
    /// The type's text.
    pub(crate) fn name(self) -> &'static str {
        match self {
            El::I1 => "i1",
            El::I8 => "i8",
            El::I16 => "i16",
            El::I32 => "i32",
            El::I64 => "i64",
            El::F32 => "float",
            El::F64 => "double",
            El::Ptr => "ptr",
        }
    }

    /// The width in bits; 64 for a pointer.
    pub(crate) fn bits(self) -> u32 {
        match self {
            El::I1 => 1,
            El::I8 => 8,
            El::I16 => 16,
            El::I32 | El::F32 => 32,
            El::I64 | El::F64 | El::Ptr => 64,
        }
    }

    /// The size in memory in bytes.
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.bits().div_ceil(8))
    }

    /// Returns true if the type is a float.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, El::F32 | El::F64)
    }
}

/// The identity of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    /// `%rN`.
    Reg(u32),
    /// A constant by its bits; the same in every lane.
    Bits(u64),
    /// The poison value, which may be anything.
    Poison,
    /// The numbers of the lanes: 0, 1, ….
    Iota,
    /// A parameter or symbol by name.
    Name(&'static str),
    /// A shape by its number in `native::runtime::Tables`.
    Shape(u32),
}

/// An operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Val {
    pub(crate) id: Id,
    pub(crate) el: El,
    /// The operand has one number for each lane.
    pub(crate) var: bool,
    /// The operand is the address of memory in which each number has room for all lanes.
    pub(crate) wide: bool,
    /// The operand is known to be `base + lane * step`, wrapped; `base` is a register or constant of the
    /// type.
    pub(crate) lin: Option<Lin>,
}

/// A value that increases by the same step from lane to lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lin {
    /// The number of lane 0.
    pub(crate) base: Id,
    /// The difference between the numbers of neighbouring lanes.
    pub(crate) step: i64,
    /// A truth value: it holds if a widening preserved the form. If it does not hold, nothing is known about
    /// the lanes.
    pub(crate) holds: Id,
}

/// Several operands.
pub(crate) type Vals = SmallVec<[Val; 4]>;

impl Val {
    /// A uniform value.
    pub(crate) fn uniform(id: Id, el: El) -> Val {
        Val { id, el, var: false, wide: false, lin: None }
    }

    /// A constant.
    pub(crate) fn bits(el: El, bits: u64) -> Val {
        Val::uniform(Id::Bits(bits), el)
    }

    /// A constant of 64 bits.
    pub(crate) fn i64(n: i64) -> Val {
        Val::bits(El::I64, n as u64)
    }

    /// A constant of 32 bits.
    pub(crate) fn i32(n: i64) -> Val {
        Val::bits(El::I32, n as u64)
    }

    /// A constant truth value.
    pub(crate) fn bool(b: bool) -> Val {
        Val::bits(El::I1, b as u64)
    }

    /// A parameter or symbol.
    pub(crate) fn name(el: El, name: &'static str) -> Val {
        Val::uniform(Id::Name(name), el)
    }

    /// The bits of the operand, if it is a constant.
    pub(crate) fn constant(self) -> Option<u64> {
        match self.id {
            Id::Bits(bits) => Some(bits),
            Id::Reg(_) | Id::Poison | Id::Iota | Id::Name(_) | Id::Shape(_) => None,
        }
    }
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block(u32);

/// The parameters of a block, the jumps to it, and the part of the text that it begins with.
#[derive(Default)]
struct BlockData {
    params: Vals,
    /// The block of each jump, and the arguments that it passes.
    jumps: Vec<(Block, Vals)>,
    start: usize,
}

/// The text of one function.
pub(crate) struct Writer {
    /// Operations on floats may be reordered and fused.
    pub(crate) fast: bool,
    /// The number of lanes.
    pub(crate) lanes: u32,
    text: String,
    entry: String,
    /// The types of the registers; `None` for those of other types than operands have.
    registers: Vec<Option<(El, bool)>>,
    blocks: Vec<BlockData>,
    /// The blocks in the order of the text; the last one is being written.
    order: Vec<Block>,
    /// The number of bytes of memory allocated in the frame.
    memory: u64,
    /// The functions that are called and not of the module: the type of the result, and the parameters and
    /// attributes. LLVM declares intrinsics by itself, and completes their names by types.
    pub(crate) declared: FxIndexMap<String, (String, String)>,
    /// The functions of the module that are called, with the number of calls.
    pub(crate) callees: FxIndexMap<String, usize>,
}

impl Writer {
    /// An empty function.
    pub(crate) fn new(lanes: u32) -> Writer {
        Writer {
            fast: false,
            lanes,
            text: String::new(),
            entry: String::new(),
            registers: Vec::new(),
            blocks: vec![BlockData::default()],
            order: vec![Block(0)],
            memory: 0,
            declared: Default::default(),
            callees: Default::default(),
        }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, args: std::fmt::Arguments<'_>) {
        self.text.push_str("  ");
        let _ = self.text.write_fmt(args);
        self.text.push('\n');
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

    /// Takes the types of the registers at the end of the function.
    pub(crate) fn registers(&mut self) -> Registers {
        Registers { types: std::mem::take(&mut self.registers), lanes: self.lanes }
    }

    /// The text of the function's blocks. Parameters of blocks become phis.
    pub(crate) fn finish(&self) -> String {
        let mut all = format!("entry:\n{}  br label %b0\n", self.entry);
        let starts = self.order.iter().map(|block| self.blocks[block.0 as usize].start);
        let ends = starts.skip(1).chain([self.text.len()]);
        for (block, end) in self.order.iter().zip(ends) {
            let data = &self.blocks[block.0 as usize];
            let _ = writeln!(all, "b{}:", block.0);
            for (k, &param) in data.params.iter().enumerate() {
                let (o, ty) = (self.operand(param, false), self.ty(param.el, param.var));
                let incoming = |(from, args): &(Block, Vals)| {
                    format!(" [ {}, %b{} ]", self.operand(args[k], param.var), from.0)
                };
                let incoming: Vec<String> = data.jumps.iter().map(incoming).collect();
                let _ = writeln!(all, "  {o} = phi {ty}{}", incoming.join(","));
            }
            all.push_str(&self.text[data.start..end]);
        }
        all
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
        let (ty, n) = (self.ty(v.el, true), self.lanes);
        let one = self.reg(v.el, true);
        let (a, b) = (self.operand(v, false), self.operand(one, true));
        self.line(format_args!("{b} = insertelement {ty} poison, {} {a}, i64 0", v.el.name()));
        let all = self.reg(v.el, true);
        let c = self.operand(all, true);
        self.line(format_args!("{c} = shufflevector {ty} {b}, {ty} poison, <{n} x i32> zeroinitializer"));
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
        let out = self.reg(v.el, false);
        let (o, a, l) = (self.operand(out, false), self.typed(v), self.typed(lane));
        self.line(format_args!("{o} = extractelement {a}, {l}"));
        Val { wide: v.wide, ..out }
    }

    /// Inserts the number of one lane into `v`.
    pub(crate) fn with_lane(&mut self, v: Val, lane: Val, x: Val) -> Val {
        let v = self.spread(v);
        let out = self.reg(v.el, true);
        let (o, a, x, l) = (self.operand(out, true), self.typed(v), self.typed(x), self.typed(lane));
        self.line(format_args!("{o} = insertelement {a}, {x}, {l}"));
        out
    }

    // ---- instructions

    /// An instruction with one operand, such as `fneg`.
    pub(crate) fn unary(&mut self, op: &str, a: Val) -> Val {
        let out = self.reg(a.el, a.var);
        let (o, a) = (self.operand(out, false), self.typed(a));
        self.line(format_args!("{o} = {op} {a}"));
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
        let (o, ty) = (self.operand(out, false), self.ty(a.el, var));
        let fast = match op {
            "fadd" | "fsub" | "fmul" | "fdiv" if self.fast => " reassoc nsz arcp contract",
            _ => "",
        };
        let (a, b) = (self.operand(a, var), self.operand(b, var));
        self.line(format_args!("{o} = {op}{fast} {ty} {a}, {b}"));
        out
    }

    /// A comparison: `icmp ult`, `fcmp oeq`, ….
    pub(crate) fn compare(&mut self, op: &str, a: Val, b: Val) -> Val {
        self.binary_to(op, a, b, El::I1)
    }

    /// A conversion.
    pub(crate) fn cast(&mut self, op: &str, a: Val, to: El) -> Val {
        let out = self.reg(to, a.var);
        let (o, a, ty) = (self.operand(out, false), self.typed(a), self.ty(to, a.var));
        self.line(format_args!("{o} = {op} {a} to {ty}"));
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
        let o = self.operand(out, false);
        let (c, a, b) = (self.typed(c), self.typed(a), self.typed(b));
        self.line(format_args!("{o} = select {c}, {a}, {b}"));
        out
    }

    /// Calls a function whose result is of type `el`.
    pub(crate) fn call(&mut self, function: std::fmt::Arguments<'_>, el: El, var: bool, args: &[Val]) -> Val {
        let out = self.reg(el, var);
        let (o, ty, list) = (self.operand(out, false), self.ty(el, var), self.list(args));
        self.line(format_args!("{o} = call {ty} @{function}({list})"));
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
            return Some(self.call(format_args!("{name}"), el, false, args));
        }
        let list = self.list(args);
        self.line(format_args!("call void @{name}({list})"));
        None
    }

    /// A vector of some numbers of two vectors of `n` numbers each.
    pub(crate) fn shuffle(
        &mut self,
        el: El,
        n: u32,
        [a, b]: [&str; 2],
        picks: impl Iterator<Item = u32>,
    ) -> Val {
        let picks: Vec<String> = picks.map(|k| format!("i32 {k}")).collect();
        let out = if picks.len() == self.lanes as usize { self.reg(el, true) } else { self.odd() };
        let (o, ty, m) = (self.operand(out, true), format!("<{n} x {}>", el.name()), picks.len());
        let picks = picks.join(", ");
        self.line(format_args!("{o} = shufflevector {ty} {a}, {ty} {b}, <{m} x i32> <{picks}>"));
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
        self.call(format_args!("llvm.vector.reduce.{name}"), a.el, false, &[a])
    }

    /// The sum of the floats of all lanes by repeated halving: the upper half of the lanes is added to the
    /// lower half until one lane is left.
    pub(crate) fn sum_by_halves(&mut self, a: Val) -> Val {
        let mut n = self.lanes;
        let mut text = self.operand(a, true);
        while n > 1 {
            let half = n / 2;
            let [low, high] = [0, half].map(|from| {
                let part = self.shuffle(a.el, n, [&text, "poison"], from..from + half);
                self.operand(part, true)
            });
            let sum = self.odd();
            let o = self.operand(sum, true);
            self.line(format_args!("{o} = fadd <{half} x {}> {low}, {high}", a.el.name()));
            (text, n) = (o, half);
        }
        let out = self.reg(a.el, false);
        let o = self.operand(out, false);
        self.line(format_args!("{o} = extractelement <1 x {}> {text}, i32 0", a.el.name()));
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
        *self.callees.entry(name.to_string()).or_default() += 1;
        let (ty, list) = (self.result(like), self.list(args));
        let all = match like {
            [] => {
                self.line(format_args!("call fastcc void @{name}({list})"));
                return Vals::new();
            }
            [one] => self.reg(one.el, one.var),
            _ => self.odd(),
        };
        let a = self.operand(all, false);
        self.line(format_args!("{a} = call fastcc {ty} @{name}({list})"));
        if let [one] = like {
            return Vals::from_slice(&[Val { wide: one.wide, ..all }]);
        }
        let part = |(k, part): (usize, &Val)| {
            let out = self.reg(part.el, part.var);
            let o = self.operand(out, false);
            self.line(format_args!("{o} = extractvalue {ty} {a}, {k}"));
            Val { wide: part.wide, ..out }
        };
        like.iter().enumerate().map(part).collect()
    }

    /// Returns the results of a function of the module; gives the text of their type.
    pub(crate) fn give(&mut self, results: &[Val]) -> String {
        let ty = self.result(results);
        let mut all = match results {
            [one] => self.operand(*one, one.var),
            _ => "poison".to_string(),
        };
        for (k, &v) in results.iter().enumerate().filter(|_| results.len() > 1) {
            let next = self.odd();
            let (n, v) = (self.operand(next, false), self.typed(v));
            self.line(format_args!("{n} = insertvalue {ty} {all}, {v}, {k}"));
            all = n;
        }
        match results {
            [] => self.line(format_args!("ret void")),
            _ => self.line(format_args!("ret {ty} {all}")),
        }
        ty
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
        let (o, a, b) = (self.operand(out, false), self.typed(at), self.typed(bytes));
        // Either the base or the offset may be a vector.
        self.line(format_args!("{o} = getelementptr i8, {a}, {b}"));
        Val { wide: at.wide, ..out }
    }

    /// Allocates memory in the function's frame, in its entry block.
    pub(crate) fn alloca(&mut self, bytes: u64, align: u64) -> Val {
        let out = self.reg(El::Ptr, false);
        let o = self.operand(out, false);
        self.memory += bytes + align;
        let _ = writeln!(self.entry, "  {o} = alloca [{} x i8], align {align}", bytes.max(1));
        out
    }

    /// Loads from a uniform address; `note` is the text that follows (alignment, metadata).
    pub(crate) fn load(&mut self, el: El, var: bool, at: Val, note: &str) -> Val {
        debug_assert!(!at.var);
        let out = self.reg(el, var);
        let (o, ty, a) = (self.operand(out, false), self.ty(el, var), self.typed(at));
        self.line(format_args!("{o} = load {ty}, {a}{note}"));
        out
    }

    /// Stores to a uniform address.
    pub(crate) fn store(&mut self, x: Val, at: Val, note: &str) {
        debug_assert!(!at.var);
        let (x, a) = (self.typed(x), self.typed(at));
        self.line(format_args!("store {x}, {a}{note}"));
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
        data.start = self.text.len();
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
        self.line(format_args!("br label %b{}", to.0));
    }

    /// Emits a conditional branch.
    pub(crate) fn branch(&mut self, c: Val, yes: (Block, &[Val]), no: (Block, &[Val]), odds: Odds) {
        self.pass(yes.0, yes.1);
        self.pass(no.0, no.1);
        let weights = match odds {
            Odds::Even => "",
            Odds::Likely => ", !prof !8",
            Odds::Unlikely => ", !prof !9",
        };
        let c = self.typed(c);
        self.line(format_args!("br {c}, label %b{}, label %b{}{weights}", yes.0.0, no.0.0));
    }

    /// Emits a switch.
    pub(crate) fn switch(&mut self, tag: Val, cases: &[(u64, Block)], otherwise: Block) {
        let tag_text = self.typed(tag);
        let ty = tag.el.name();
        let cases: Vec<String> =
            cases.iter().map(|(n, b)| format!("{ty} {}, label %b{}", constant(tag.el, *n), b.0)).collect();
        self.line(format_args!("switch {tag_text}, label %b{} [ {} ]", otherwise.0, cases.join(" ")));
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
