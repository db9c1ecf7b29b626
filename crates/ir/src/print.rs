//! Prints the IR as text. [`crate::parse`] reads it back: printing a parsed module gives the same text.
//!
//! A value is printed by its number, `v12`, and a linear one as `~v12`. A result's type is printed where it
//! is a choice or does not follow from the operands. Names and spans are not part of the text, except for the
//! names of slots (`@name`).

use std::fmt::Write;

use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;

use crate::build::infer;
use crate::entities::{Func, Global, Inst, MemType, Region, Value};
use crate::function::{Function, Inline, InstData, Prefer, Slot};
use crate::memory::{MatrixOrder, MemData, Placement};
use crate::module::{GlobalData, Module, Space};
use crate::ops::{Checkpoint, LoopInfo, Op, Path, Step, WAVE_LANES};
use crate::pipeline::{Pipeline, Varying};
use crate::scalar;
use crate::types::{Scalar, Type, TypeData, Types};

/// Prints a whole module.
pub fn print_module(module: &Module) -> String {
    let mut p = Printer::new(module);
    for (ty, data) in module.mem.iter() {
        if let MemData::Struct { fields, placement, .. } = data {
            let fields: Vec<String> =
                fields.iter().map(|f| format!("{}: {}", quoted(&f.0), p.mem_type(f.1))).collect();
            let name = &p.structs[&ty];
            let _ = write!(p.out, "struct {name} {{ {} }}", fields.join(", "));
            if let Some(Placement { offsets, size, align }) = placement.as_deref() {
                let offsets: Vec<String> = offsets.iter().map(u64::to_string).collect();
                let _ = write!(p.out, " at ({}) size {size} align {align}", offsets.join(", "));
            }
            p.out.push('\n');
        }
    }
    for (id, global) in &module.globals {
        let space = match global.space {
            Space::ReadWrite => "read_write",
            Space::ReadOnly => "read_only",
            Space::Uniform => "uniform",
            Space::GroupShared => "group_shared",
            Space::Private => "private",
            Space::Arena => "arena",
        };
        let init = global.init.map(|f| format!(" = {}", p.funcs[&f])).unwrap_or_default();
        let line = format!("global {}: {space} {}{init}\n", p.globals[&id], p.mem_type(global.ty));
        p.out += &line;
    }
    for (&func, witness) in &module.witnesses {
        let _ = write!(p.out, "witness {}:", p.funcs[&func]);
        let parts = [
            ("jvp", witness.jvp),
            ("vjp", witness.vjp),
            ("apply", witness.apply),
            ("substitute", witness.substitute),
        ];
        for (word, func) in parts {
            if let Some(func) = func {
                let _ = write!(p.out, " {word} {}", p.funcs[&func]);
            }
        }
        if witness.is_same {
            p.out += " same";
        }
        if witness.differentiable {
            p.out += " differentiable";
        }
        if witness.continuous {
            p.out += " continuous";
        }
        if witness.last {
            p.out += " last";
        }
        p.out += if witness.treat_as_differentiable { " treat_as_differentiable\n" } else { "\n" };
    }
    for entry in &module.entries {
        let _ = write!(p.out, "entry {}: {} ", quoted(&entry.name), p.funcs[&entry.func]);
        let [x, y, z] = entry.group_size;
        let _ = match &entry.pipeline {
            None => writeln!(p.out, "[{x}, {y}, {z}]"),
            Some(Pipeline { stage, inputs, outputs }) => {
                writeln!(p.out, "{}({}) -> ({})", stage.name(), varyings(inputs), varyings(outputs))
            }
        };
    }
    for (id, function) in &module.funcs {
        if !p.out.is_empty() {
            p.out += "\n";
        }
        let name = p.funcs[&id].clone();
        p.function(&name, function);
    }
    p.out
}

/// The places of a stage's inputs or outputs.
fn varyings(all: &[Varying]) -> String {
    let texts = all.iter().map(|varying| match varying {
        Varying::Builtin(builtin) => builtin.name().to_string(),
        Varying::Location { number, interpolation, sampling } => {
            format!("location {number} {} {}", interpolation.name(), sampling.name())
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Prints one function.
pub fn print_function(module: &Module, function: &Function) -> String {
    let mut p = Printer::new(module);
    p.function(&quoted(&function.name), function);
    p.out
}

/// Prints one instruction without its regions, for messages.
pub fn print_inst(module: &Module, function: &Function, inst: Inst) -> String {
    let mut p = Printer::new(module);
    p.inst_head(function, &function.insts[inst]);
    p.out.trim_end().to_string()
}

/// Prints a type.
pub fn print_type(module: &Module, ty: Type) -> String {
    Printer::new(module).ty(ty)
}

/// Prints a scalar, given by its canonical bits, so that it reads back exactly: `-3`, `true`, `1.5`, `1e-7`;
/// a float that is not finite is printed as its bits, `0x7fc00000`.
pub fn scalar_text(s: Scalar, bits: u64) -> String {
    match s {
        Scalar::Bool => if bits & 1 != 0 { "true" } else { "false" }.to_string(),
        Scalar::F16 | Scalar::F32 | Scalar::F64 if !scalar::to_f64(s, bits).is_finite() => {
            format!("{bits:#x}")
        }
        Scalar::F16 => format!("{:?}", scalar::f16_to_f32(bits)),
        Scalar::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        Scalar::F64 => format!("{:?}", f64::from_bits(bits)),
        _ => scalar::to_i128(s, bits).to_string(),
    }
}

/// Prints a name: bare if it is a plain word, else in quotes.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '$';
    let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
    if name.starts_with(starts) && name.chars().all(plain) {
        return name.to_string();
    }
    quote(name)
}

/// Puts a string in quotes and escapes it.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

struct Printer<'m> {
    module: &'m Module,
    /// A copy of the module's types in which inferred types are interned; the same types have the same
    /// numbers.
    types: Types,
    funcs: FxHashMap<Func, String>,
    globals: FxHashMap<Global, String>,
    structs: FxHashMap<MemType, String>,
    out: String,
    depth: usize,
}

/// Makes printed names unique: the second item of a name gets `#1` appended, and so on.
fn unique<'a, K: std::hash::Hash + Eq>(items: impl Iterator<Item = (K, &'a str)>) -> FxHashMap<K, String> {
    let mut seen: FxHashMap<&str, u32> = FxHashMap::default();
    items
        .map(|(key, name)| {
            let n = seen.entry(name).or_default();
            *n += 1;
            let mut text = quoted(name);
            if *n > 1 {
                let _ = write!(text, "#{}", *n - 1);
            }
            (key, text)
        })
        .collect()
}

impl<'m> Printer<'m> {
    fn new(module: &'m Module) -> Printer<'m> {
        Printer {
            module,
            types: module.types.clone(),
            funcs: unique(module.funcs.iter().map(|(id, f)| (id, f.name.as_str()))),
            globals: unique(module.globals.iter().map(|(id, g)| (id, g.name.as_str()))),
            structs: unique(module.mem.iter().filter_map(|(ty, data)| match data {
                MemData::Struct { name, .. } => Some((ty, name.as_str())),
                MemData::Scalar(_)
                | MemData::Vector(..)
                | MemData::Array(..)
                | MemData::Matrix(..)
                | MemData::Handle(_) => None,
            })),
            out: String::new(),
            depth: 0,
        }
    }

    fn func_name(&self, func: Func) -> String {
        self.funcs.get(&func).cloned().unwrap_or_else(|| format!("{func}"))
    }

    fn mem_type(&self, ty: MemType) -> String {
        match &self.module.mem[ty] {
            MemData::Scalar(s) => s.name().to_string(),
            MemData::Vector(s, n) => format!("{}x{n}", s.name()),
            MemData::Array(t, n) => format!("[{n} x {}]", self.mem_type(*t)),
            MemData::Matrix(s, n, lanes, order) => {
                let order = match order {
                    MatrixOrder::Rows => "",
                    MatrixOrder::Columns => "columns ",
                };
                format!("{order}{}x{n}x{lanes}", s.name())
            }
            MemData::Struct { .. } => format!("struct {}", self.structs[&ty]),
            MemData::Handle(t) => format!("handle<{}>", self.mem_type(*t)),
        }
    }

    fn ty(&self, ty: Type) -> String {
        match self.types[ty] {
            TypeData::Scalar(s) => s.name().to_string(),
            TypeData::Vector(s, n) => format!("{}x{n}", s.name()),
            TypeData::Array(t, n) => format!("[{n} x {}]", self.ty(t)),
            TypeData::Stack(t) => format!("stack<{}>", self.ty(t)),
            TypeData::Cell(t) => format!("cell<{}>", self.ty(t)),
            TypeData::Buffer(t) => format!("buffer<{}>", self.mem_type(t)),
            TypeData::Residuals(n) => {
                let of = self.module.residuals[n as usize];
                let forward = if of.forward { "forward " } else { "" };
                format!("residuals<{forward}{}>", self.func_name(of.func))
            }
        }
    }

    fn slot_marks(&self, slot: &Slot) -> String {
        let diff = if slot.diff { " diff" } else { "" };
        let name = slot.name.as_ref().map(|n| format!(" @{}", quoted(n))).unwrap_or_default();
        format!("{}{diff}{name}", self.ty(slot.ty))
    }

    fn function(&mut self, name: &str, f: &Function) {
        let tilde = |linear: bool| if linear { "~" } else { "" };
        let mut head = format!("{} {name}(", if f.has_body() { "func" } else { "declare" });
        for (idx, slot) in f.params.iter().enumerate() {
            let separator = if idx > 0 { ", " } else { "" };
            let v = match f.has_body().then(|| f.regions[f.body()].params.get(idx)).flatten() {
                Some(&v) => format!("{v}: "),
                None => String::new(),
            };
            let _ = write!(head, "{separator}{}{v}{}", tilde(slot.linear), self.slot_marks(slot));
        }
        head += ")";
        if !f.results.is_empty() {
            let results: Vec<String> = f
                .results
                .iter()
                .map(|slot| format!("{}{}", tilde(slot.linear), self.slot_marks(slot)))
                .collect();
            let _ = write!(head, " -> ({})", results.join(", "));
        }
        head += match f.inline {
            Inline::Auto => "",
            Inline::Always => " always_inline",
            Inline::Never => " never_inline",
        };
        if f.reruns {
            head += " reruns";
        }
        head += match f.checkpoint.prefer {
            Prefer::Neither => "",
            Prefer::Recompute => " prefer_recompute",
            Prefer::Checkpoint => " prefer_checkpoint",
        };
        if let Some(bytes) = f.checkpoint.budget {
            let _ = write!(head, " budget({bytes})");
        }
        if f.fast_math {
            head += " fast_math";
        }
        self.out += &head;
        if f.has_body() {
            self.out += " {\n";
            self.region(f, f.body());
            self.out += "}";
        }
        self.out += "\n";
    }

    fn indent(&mut self) {
        for _ in 0..self.depth {
            self.out += "    ";
        }
    }

    fn region(&mut self, f: &Function, region: Region) {
        self.depth += 1;
        for &inst in &f.regions[region].insts {
            self.inst(f, inst);
        }
        let results = &f.regions[region].results;
        if !results.is_empty() {
            self.indent();
            let list = self.values(f, results);
            let _ = writeln!(self.out, "yield {list}");
        }
        self.depth -= 1;
    }

    fn value(&self, f: &Function, v: Value) -> String {
        match f.values.get(v) {
            Some(data) if data.linear => format!("~{v}"),
            Some(_) | None => format!("{v}"),
        }
    }

    fn values(&self, f: &Function, values: &[Value]) -> String {
        values.iter().map(|&v| self.value(f, v)).collect::<Vec<_>>().join(", ")
    }

    fn inst(&mut self, f: &Function, inst: Inst) {
        let data = &f.insts[inst];
        self.indent();
        self.inst_head(f, data);
        match &data.op {
            Op::If => {
                for (idx, &region) in data.regions.iter().enumerate() {
                    self.out += if idx == 0 { " {\n" } else { " else {\n" };
                    self.region(f, region);
                    self.indent();
                    self.out += "}";
                }
            }
            Op::Switch(cases) => {
                self.out += " {\n";
                self.depth += 1;
                for (idx, &region) in data.regions.iter().enumerate() {
                    self.indent();
                    match cases.get(idx) {
                        Some(case) => {
                            let _ = writeln!(self.out, "case {case} {{");
                        }
                        None => self.out += "default {\n",
                    }
                    self.region(f, region);
                    self.indent();
                    self.out += "}\n";
                }
                self.depth -= 1;
                self.indent();
                self.out += "}";
            }
            Op::For(_) | Op::Loop(_) => {
                for &region in &data.regions {
                    let params = self.values(f, &f.regions[region].params);
                    let _ = writeln!(self.out, " ({params}) {{");
                    self.region(f, region);
                    self.indent();
                    self.out += "}";
                }
            }
            _ => {}
        }
        self.out += "\n";
    }

    /// Prints the results, the op and its operands.
    fn inst_head(&mut self, f: &Function, data: &InstData) {
        let inferred = self.inferred(f, data);
        for (idx, &v) in data.results.iter().enumerate() {
            if idx > 0 {
                self.out += ", ";
            }
            let name = self.value(f, v);
            self.out += &name;
            if inferred.get(idx).copied().flatten() != f.values.get(v).map(|data| data.ty) {
                let ty = f.values.get(v).map_or("?".to_string(), |data| self.ty(data.ty));
                let _ = write!(self.out, ": {ty}");
            }
        }
        if !data.results.is_empty() {
            self.out += " = ";
        }
        let args = self.values(f, &data.args);
        let text = match &data.op {
            Op::Const(bits) => {
                let result = data.results.first().map(|&v| f.ty(v));
                match result.map(|ty| self.types[ty]) {
                    Some(TypeData::Scalar(s)) if scalar::canonical(s, *bits) == *bits => {
                        format!("const {}", scalar_text(s, *bits))
                    }
                    _ => format!("const {bits:#x}"),
                }
            }
            Op::Printf(text) | Op::Assert(text) | Op::CheckFinite(text) => {
                let comma = if data.args.is_empty() { "" } else { ", " };
                format!("{} {}{comma}{args}", op_name(&data.op), quote(text))
            }
            Op::Call(callee) | Op::CallDerivative(_, callee) | Op::CallTransposeOf(callee) => {
                format!("{} {}({args})", op_name(&data.op), self.func_name(*callee))
            }
            op => {
                let mut text = op_name(op);
                match op {
                    Op::Extract(idx) | Op::Insert(idx) => {
                        let _ = write!(text, ".{idx}");
                    }
                    Op::BufferLoad(path) | Op::BufferStore(path) | Op::Atomic(path, _) => {
                        text += &path_text(path);
                    }
                    Op::GlobalRef(global) => {
                        let name = self.globals.get(global).cloned();
                        let _ = write!(text, " {}", name.unwrap_or_else(|| format!("{global}")));
                    }
                    Op::For(info) | Op::Loop(info) => text += &loop_text(info),
                    _ => {}
                }
                if !args.is_empty() {
                    let _ = write!(text, " {args}");
                }
                text
            }
        };
        self.out += &text;
    }

    /// The types that [`crate::parse`] will infer for the results if they are not printed.
    fn inferred(&mut self, f: &Function, data: &InstData) -> Vec<Option<Type>> {
        let known = |v: &Value| f.values.get(*v).map(|data| data.ty);
        let args: Option<Vec<Type>> = data.args.iter().map(known).collect();
        let inner: Vec<Vec<Option<Type>>> = data
            .regions
            .first()
            .map(|&region| f.regions[region].results.iter().map(known).collect())
            .into_iter()
            .collect();
        match args {
            Some(args) => {
                let Module { funcs, globals, .. } = self.module;
                result_types(funcs, globals, &mut self.types, &data.op, &args, inner.first())
            }
            None => Vec::new(),
        }
    }
}

/// The types of an op's results, as far as they follow from its operands and from the results of its first
/// region. A type that is a choice, or that is better printed, is `None`.
pub(crate) fn result_types(
    funcs: &PrimaryMap<Func, Function>,
    globals: &PrimaryMap<Global, GlobalData>,
    types: &mut Types,
    op: &Op,
    args: &[Type],
    inner: Option<&Vec<Option<Type>>>,
) -> Vec<Option<Type>> {
    let stacked = |types: &mut Types, skip: usize, n_carried: usize| -> Vec<Option<Type>> {
        let results = inner.map_or(&[][..], |r| r.get(skip..).unwrap_or_default());
        results
            .iter()
            .enumerate()
            .map(|(idx, ty)| if idx < n_carried { *ty } else { ty.map(|ty| types.stack(ty)) })
            .collect()
    };
    match op {
        Op::Call(callee) => match funcs.get(*callee) {
            Some(callee) => callee.results.iter().map(|slot| Some(slot.ty)).collect(),
            None => Vec::new(),
        },
        Op::CallDerivative(op, callee) => match funcs.get(*callee) {
            // The type of residuals is printed.
            Some(callee) => {
                let [_, results] = op.signature(callee, args.len());
                results
            }
            None => Vec::new(),
        },
        Op::GlobalRef(global) => match globals.get(*global) {
            Some(global) => vec![Some(types.buffer(global.ty))],
            None => Vec::new(),
        },
        Op::If | Op::Switch(_) => inner.cloned().unwrap_or_default(),
        Op::For(_) => stacked(types, 0, args.len().saturating_sub(1)),
        Op::Loop(_) => stacked(types, 1, args.len()),
        Op::WaveGather => match args.first() {
            Some(&ty) => vec![Some(types.array(ty, WAVE_LANES)), Some(Type::U32)],
            None => Vec::new(),
        },
        Op::Load if args.is_empty() => vec![None],
        op => vec![infer(types, op, args)],
    }
}

fn path_text(path: &Path) -> String {
    if path.0.is_empty() {
        return String::new();
    }
    let steps: Vec<String> = path
        .0
        .iter()
        .map(|step| match step {
            Step::Static(idx) => idx.to_string(),
            Step::Dynamic => "*".to_string(),
        })
        .collect();
    format!("<{}>", steps.join("."))
}

fn loop_text(info: &LoopInfo) -> String {
    let bound = info.max_iters.map(|n| format!(" max_iters({n})")).unwrap_or_default();
    let kept = match info.checkpoint {
        None => String::new(),
        Some(Checkpoint::Root) => " checkpoint".to_string(),
        Some(Checkpoint::Every(n)) => format!(" checkpoint({n})"),
        Some(Checkpoint::States(n)) => format!(" checkpoint(states {n})"),
    };
    let (unroll, down) = (if info.unroll { " unroll" } else { "" }, if info.down { " down" } else { "" });
    format!("{bound}{unroll}{kept}{down}")
}

/// The name that users know an op by: that of the arithmetic that it performs.
pub fn arithmetic(op: &Op) -> String {
    match op {
        Op::Scale => op_name(&Op::Mul),
        Op::Unscale => op_name(&Op::Div),
        _ => op_name(op),
    }
}

/// The name of an op in the textual IR.
pub fn op_name(op: &Op) -> String {
    match op {
        Op::Atomic(_, op) => format!("atomic.{}", op.name()),
        op => op.spec().name.to_string(),
    }
}
