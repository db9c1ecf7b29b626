//! Reads the textual form of the IR that [`crate::print`] writes.
//!
//! The parser makes two passes over the text: the first reads structs, globals and the heads of functions, so
//! that the second can read bodies, witnesses and entries with every name known. A value keeps its number, so
//! printing the parsed module gives the text back; numbers that the text skips become values that nothing
//! defines. `;` starts a comment. The parser leaves all checks of [`crate::verify`] to the verifier.

mod body;
mod cursor;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use crate::entities::{Func, Global, MemType, Region, Value};
use crate::function::{Function, Inline, Prefer, RegionData, Slot, Span, ValueData};
use crate::memory::{MatrixOrder, MemData, Placement};
use crate::module::{Entry, GlobalData, Module, Residuals, Space, Witness};
use crate::ops::Op;
use crate::pipeline::{Interpolation, Pipeline, Sampling, Stage, StageBuiltin, Varying};
use crate::types::{Scalar, Type};

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The error message.
    pub message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Numbers of values must be below this.
const MAX_VALUE: u32 = 1 << 22;
/// The nesting depth of regions must be below this.
const MAX_DEPTH: usize = 250;

/// Reads a module.
pub fn parse_module(text: &str) -> Result<Module, ParseError> {
    let mut parser = Parser {
        text,
        at: 0,
        module: Module::default(),
        funcs: FxHashMap::default(),
        globals: FxHashMap::default(),
        structs: FxHashMap::default(),
        residuals: IndexSet::default(),
        depth: 0,
    };
    parser.module().map_err(|message| ParseError {
        line: text[..parser.at.min(text.len())].matches('\n').count() + 1,
        message,
    })?;
    Ok(parser.module)
}

type Parsed<T> = Result<T, String>;

/// An op, its operands and its regions.
type OpParts = (Op, SmallVec<[Value; 4]>, SmallVec<[Region; 2]>);

struct Parser<'t> {
    text: &'t str,
    at: usize,
    module: Module,
    funcs: FxHashMap<String, Func>,
    globals: FxHashMap<String, Global>,
    structs: FxHashMap<String, MemType>,
    /// The functions whose residuals occur as types, by name, since a head may name a later function.
    residuals: IndexSet<(String, bool), FxBuildHasher>,
    depth: usize,
}

/// A name without its `#n`.
fn bare(key: &str) -> String {
    match key.rsplit_once('#') {
        Some((name, n)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => name.to_string(),
        _ => key.to_string(),
    }
}

// ---- the module

impl Parser<'_> {
    pub(super) fn module(&mut self) -> Parsed<()> {
        self.declarations()?;
        self.at = 0;
        self.definitions()?;
        for (key, forward) in &self.residuals {
            let func = self.funcs.get(key).copied().ok_or_else(|| format!("no function is named '{key}'"))?;
            self.module.residuals.push(Residuals { func, forward: *forward });
        }
        Ok(())
    }

    /// First pass: reads structs, globals and the heads of functions.
    pub(super) fn declarations(&mut self) -> Parsed<()> {
        loop {
            self.skip_lines();
            if self.rest().is_empty() {
                return Ok(());
            }
            match self.word()? {
                "struct" => self.struct_type()?,
                "global" => {
                    let key = self.key()?;
                    self.expect(":")?;
                    let space = match self.word()? {
                        "read_write" => Space::ReadWrite,
                        "read_only" => Space::ReadOnly,
                        "uniform" => Space::Uniform,
                        "group_shared" => Space::GroupShared,
                        "private" => Space::Private,
                        "arena" => Space::Arena,
                        other => return Err(format!("'{other}' is not a space")),
                    };
                    let ty = self.mem_type()?;
                    let data = GlobalData { name: bare(&key), space, ty, init: None, span: Span::NONE };
                    let id = self.module.globals.push(data);
                    if self.globals.insert(key, id).is_some() {
                        return Err("a second global of that name".to_string());
                    }
                    self.skip_line();
                }
                "witness" | "entry" => self.skip_line(),
                "func" => {
                    self.head(Some(RegionData::default()))?;
                    self.skip_body()?;
                }
                "declare" => self.head(None)?,
                other => return Err(format!("expected a declaration, found '{other}'")),
            }
        }
    }

    /// Second pass: reads everything that names functions, and bodies.
    pub(super) fn definitions(&mut self) -> Parsed<()> {
        let mut next = 0;
        loop {
            self.skip_lines();
            if self.rest().is_empty() {
                return Ok(());
            }
            match self.word()? {
                "global" => {
                    let key = self.key()?;
                    self.expect(":")?;
                    self.word()?;
                    self.mem_type()?;
                    if self.eat("=") {
                        let init = self.func_name()?;
                        let global = self.globals[&key];
                        self.module.globals[global].init = Some(init);
                    }
                }
                "witness" => {
                    let func = self.func_name()?;
                    self.expect(":")?;
                    let mut witness = Witness::default();
                    loop {
                        if self.eat_word("jvp") {
                            witness.jvp = Some(self.func_name()?);
                        } else if self.eat_word("vjp") {
                            witness.vjp = Some(self.func_name()?);
                        } else if self.eat_word("apply") {
                            witness.apply = Some(self.func_name()?);
                        } else if self.eat_word("substitute") {
                            witness.substitute = Some(self.func_name()?);
                        } else if self.eat_word("same") {
                            witness.is_same = true;
                        } else if self.eat_word("differentiable") {
                            witness.differentiable = true;
                        } else if self.eat_word("continuous") {
                            witness.continuous = true;
                        } else if self.eat_word("last") {
                            witness.last = true;
                        } else if self.eat_word("treat_as_differentiable") {
                            witness.treat_as_differentiable = true;
                        } else {
                            break;
                        }
                    }
                    self.module.witnesses.insert(func, witness);
                }
                "entry" => {
                    let name = self.key()?;
                    self.expect(":")?;
                    let func = self.func_name()?;
                    let entry = match Stage::ALL.into_iter().find(|stage| self.eat_word(stage.name())) {
                        Some(stage) => {
                            let inputs = self.varyings()?;
                            self.expect("->")?;
                            let pipeline = Pipeline { stage, inputs, outputs: self.varyings()? };
                            Entry { pipeline: Some(pipeline), ..Entry::kernel(name, func, [1; 3]) }
                        }
                        None => {
                            self.expect("[")?;
                            let x = self.number()?;
                            self.expect(",")?;
                            let y = self.number()?;
                            self.expect(",")?;
                            let z = self.number()?;
                            self.expect("]")?;
                            Entry::kernel(name, func, [x, y, z])
                        }
                    };
                    self.module.entries.push(entry);
                }
                "func" => {
                    let func = Func::from_u32(next);
                    next += 1;
                    self.skip_lines();
                    while !self.rest().starts_with('{') {
                        self.skip_token()?;
                        self.skip_lines();
                    }
                    // Work on a copy: the slots must stay in place for calls of the function itself.
                    let mut function = self.module.funcs[func].clone();
                    let body = self.body(&mut function);
                    self.module.funcs[func] = function;
                    body?;
                }
                "declare" => {
                    next += 1;
                    self.skip_line();
                }
                _ => self.skip_line(),
            }
        }
    }

    pub(super) fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// Skips one character, string or comment.
    pub(super) fn skip_token(&mut self) -> Parsed<()> {
        self.skip_lines();
        match self.rest().chars().next() {
            None => return Err("the text ends in a function".to_string()),
            Some('"') => drop(self.string()?),
            Some(c) => self.at += c.len_utf8(),
        }
        Ok(())
    }

    pub(super) fn skip_body(&mut self) -> Parsed<()> {
        self.expect("{")?;
        let mut depth = 1;
        while depth > 0 {
            self.skip_lines();
            match self.rest().chars().next() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                _ => {}
            }
            self.skip_token()?;
        }
        Ok(())
    }

    pub(super) fn struct_type(&mut self) -> Parsed<()> {
        let key = self.key()?;
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.eat("}") {
            let name = self.key()?;
            self.expect(":")?;
            fields.push((name, self.mem_type()?));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        let placement =
            if self.eat_word("at") { Some(Box::new(self.placement(fields.len())?)) } else { None };
        let ty = self.module.mem.intern(MemData::Struct { name: bare(&key), fields, placement });
        self.structs.insert(key, ty);
        Ok(())
    }

    /// Parses `(0, 16) size 32 align 16` after a struct with this many fields.
    fn placement(&mut self, n_fields: usize) -> Parsed<Placement> {
        self.expect("(")?;
        let mut offsets = Vec::new();
        while !self.eat(")") {
            if !offsets.is_empty() {
                self.expect(",")?;
            }
            offsets.push(self.number()?);
        }
        if offsets.len() != n_fields {
            return Err(format!("{n_fields} offsets are needed, one for each field"));
        }
        self.expect("size")?;
        let size = self.number()?;
        self.expect("align")?;
        let align: u64 = self.number()?;
        Ok(Placement { offsets, size, align: align.max(1) })
    }

    /// Parses the places of a stage's inputs or outputs.
    fn varyings(&mut self) -> Parsed<Vec<Varying>> {
        let mut all = Vec::new();
        self.expect("(")?;
        while !self.eat(")") {
            if !all.is_empty() {
                self.expect(",")?;
            }
            let word = self.word()?;
            if let Some(builtin) = StageBuiltin::ALL.into_iter().find(|builtin| builtin.name() == word) {
                all.push(Varying::Builtin(builtin));
                continue;
            }
            if word != "location" {
                return Err(format!("'{word}' is no place of an input or output"));
            }
            let number = self.number()?;
            let interpolation = Interpolation::ALL.into_iter().find(|kind| self.eat_word(kind.name()));
            let sampling = Sampling::ALL.into_iter().find(|kind| self.eat_word(kind.name()));
            let (interpolation, sampling) = (interpolation.unwrap_or_default(), sampling.unwrap_or_default());
            all.push(Varying::Location { number, interpolation, sampling });
        }
        Ok(all)
    }

    pub(super) fn func_name(&mut self) -> Parsed<Func> {
        let key = self.key()?;
        self.funcs.get(&key).copied().ok_or_else(|| format!("no function is named '{key}'"))
    }

    /// Parses the head of a function, and adds the function to the module with its slots and the parameters of
    /// its body, if it has one.
    pub(super) fn head(&mut self, body: Option<RegionData>) -> Parsed<()> {
        let key = self.key()?;
        let mut f = Function { name: bare(&key), ..Function::default() };
        let body = body.map(|body| f.regions.push(body));
        self.expect("(")?;
        while !self.eat(")") {
            let linear = self.eat("~");
            let v = if body.is_some() {
                let v = self.value_number()?;
                self.expect(":")?;
                Some(v)
            } else {
                None
            };
            let slot = self.slot(linear)?;
            if let (Some(v), Some(body)) = (v, body) {
                let data = ValueData { name: slot.name.clone(), ..ValueData::marked(slot.ty, linear) };
                define(&mut f, v, data)?;
                f.regions[body].params.push(v);
            }
            f.params.push(slot);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        if self.eat("->") {
            self.expect("(")?;
            while !self.eat(")") {
                let linear = self.eat("~");
                let slot = self.slot(linear)?;
                f.results.push(slot);
                if !self.eat(",") {
                    self.expect(")")?;
                    break;
                }
            }
        }
        if self.eat_word("always_inline") {
            f.inline = Inline::Always;
        } else if self.eat_word("never_inline") {
            f.inline = Inline::Never;
        }
        f.reruns = self.eat_word("reruns");
        if self.eat_word("prefer_recompute") {
            f.checkpoint.prefer = Prefer::Recompute;
        } else if self.eat_word("prefer_checkpoint") {
            f.checkpoint.prefer = Prefer::Checkpoint;
        }
        if self.eat_word("budget") {
            self.expect("(")?;
            f.checkpoint.budget = Some(self.number()?);
            self.expect(")")?;
        }
        f.fast_math = self.eat_word("fast_math");
        let id = self.module.funcs.push(f);
        match self.funcs.insert(key, id) {
            Some(_) => Err("a second function of that name".to_string()),
            None => Ok(()),
        }
    }

    pub(super) fn slot(&mut self, linear: bool) -> Parsed<Slot> {
        let ty = self.ty()?;
        let diff = self.eat_word("diff");
        let name = if self.eat("@") { Some(self.key()?.into()) } else { None };
        Ok(Slot { ty, diff, linear, name })
    }

    // ---- types

    /// Parses a numeric type: `f32`, `f32x3` or `f32x3x4`.
    pub(super) fn numeric(word: &str) -> Option<(Scalar, Vec<u32>)> {
        let mut parts = word.split('x');
        let name = parts.next()?;
        let s = Scalar::ALL.into_iter().find(|s| s.name() == name)?;
        let sizes: Option<Vec<u32>> = parts.map(|n| n.parse().ok()).collect();
        Some((s, sizes?))
    }

    pub(super) fn ty(&mut self) -> Parsed<Type> {
        self.nested(|p| {
            if p.eat("[") {
                let n = p.number()?;
                p.expect("x")?;
                let element = p.ty()?;
                p.expect("]")?;
                return Ok(p.module.types.array(element, n));
            }
            let word = p.word()?;
            if let "stack" | "cell" | "buffer" | "residuals" = word {
                p.expect("<")?;
                let ty = match word {
                    "stack" => {
                        let t = p.ty()?;
                        p.module.types.stack(t)
                    }
                    "cell" => {
                        let t = p.ty()?;
                        p.module.types.cell(t)
                    }
                    "residuals" => {
                        let forward = p.eat_word("forward");
                        let of = (p.key()?, forward);
                        let number = p.residuals.insert_full(of).0;
                        p.module.types.residuals(number as u32)
                    }
                    _ => {
                        let t = p.mem_type()?;
                        p.module.types.buffer(t)
                    }
                };
                p.expect(">")?;
                return Ok(ty);
            }
            match Self::numeric(word) {
                Some((s, sizes)) if sizes.is_empty() => Ok(s.into()),
                Some((s, sizes)) if sizes.len() == 1 => Ok(p.module.types.vector(s, sizes[0])),
                _ => Err(format!("'{word}' is not a type")),
            }
        })
    }

    pub(super) fn mem_type(&mut self) -> Parsed<MemType> {
        self.nested(|p| {
            let data = if p.eat("[") {
                let n = p.number()?;
                p.expect("x")?;
                let element = p.mem_type()?;
                p.expect("]")?;
                MemData::Array(element, n)
            } else {
                match p.word()? {
                    "struct" => {
                        let key = p.key()?;
                        return p.structs.get(&key).copied().ok_or(format!("no struct is named '{key}'"));
                    }
                    "handle" => {
                        p.expect("<")?;
                        let t = p.mem_type()?;
                        p.expect(">")?;
                        MemData::Handle(t)
                    }
                    "columns" => {
                        let word = p.word()?;
                        match Self::numeric(word) {
                            Some((s, sizes)) if sizes.len() == 2 => {
                                MemData::Matrix(s, sizes[0], sizes[1], MatrixOrder::Columns)
                            }
                            _ => return Err(format!("'{word}' is not a matrix")),
                        }
                    }
                    word => match Self::numeric(word) {
                        Some((s, sizes)) => match sizes[..] {
                            [] => MemData::Scalar(s),
                            [n] => MemData::Vector(s, n),
                            [r, c] => MemData::Matrix(s, r, c, MatrixOrder::Rows),
                            _ => return Err(format!("'{word}' is not a type")),
                        },
                        None => return Err(format!("'{word}' is not a type in memory")),
                    },
                }
            };
            Ok(p.module.mem.intern(data))
        })
    }

    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }
}

/// Sets the data of a value, and creates the values before it where needed.
fn define(f: &mut Function, v: Value, data: ValueData) -> Parsed<()> {
    let idx = v.as_u32();
    while f.values.len() as u32 <= idx {
        f.values.push(ValueData::new(Type::BOOL));
    }
    f.values[v] = data;
    Ok(())
}
