//! Reads the textual form of the IR that [`crate::print`] writes.
//!
//! Two passes over the text: the first reads structs, globals and the heads of functions, so that
//! the second can read bodies, witnesses and entries with every name known. A value keeps its number, so printing
//! what was parsed gives the text back; numbers that the text skips become values that nothing
//! defines. `;` starts a comment. Nothing is checked that [`crate::verify`] checks.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::function::{Func, Function, Inline, InstData, Region, RegionData, Slot, Span, Value, ValueData};
use crate::memory::{MemData, MemType};
use crate::module::{Entry, Global, GlobalData, Module, Space, Witness};
use crate::ops::{AtomicOp, Builtin, LoopInfo, Math, Op, Path, Step};
use crate::print::result_types;
use crate::scalar;
use crate::types::{Scalar, Type, TypeData};

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What was expected there.
    pub message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Values are numbered below this.
const MAX_VALUE: u32 = 1 << 22;
/// Regions are nested less deep than this.
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
    depth: usize,
}

// ---- characters and words

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips blanks and comments; newlines too if asked for.
    fn skip(&mut self, newlines: bool) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
            self.at += blank;
            match self.rest().as_bytes().first() {
                Some(b';') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                Some(b'\n') if newlines => self.at += 1,
                _ => return,
            }
        }
    }

    /// Takes a mark if it comes next, on this line or a later one.
    fn eat(&mut self, mark: &str) -> bool {
        let start = self.at;
        self.skip(true);
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len();
        } else {
            self.at = start;
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { Err(format!("expected '{mark}', found {}", self.found())) }
    }

    fn found(&mut self) -> String {
        self.skip(true);
        match self.rest().split(char::is_whitespace).next() {
            Some(word) if !word.is_empty() => format!("'{}'", word.chars().take(40).collect::<String>()),
            _ => "the end".to_string(),
        }
    }

    /// The word that comes next, not taken.
    fn peek_word(&mut self) -> &'t str {
        self.skip(true);
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_.$#".contains(c)));
        &rest[..end.unwrap_or(rest.len())]
    }

    fn word(&mut self) -> Parsed<&'t str> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(format!("expected a word, found {}", self.found()));
        }
        self.at += word.len();
        Ok(word)
    }

    /// Takes this very word if it comes next.
    fn eat_word(&mut self, word: &str) -> bool {
        let start = self.at;
        let found = self.peek_word() == word;
        self.at = if found { self.at + word.len() } else { start };
        found
    }

    /// A name, bare or in quotes, with its `#n` if it has one.
    fn key(&mut self) -> Parsed<String> {
        self.skip(true);
        if !self.rest().starts_with('"') {
            return Ok(self.word()?.to_string());
        }
        let mut key = self.string()?;
        if self.rest().starts_with('#') {
            key += self.word()?;
        }
        Ok(key)
    }

    fn string(&mut self) -> Parsed<String> {
        self.expect("\"")?;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some('u') => {
                        let hex: String =
                            chars.by_ref().map(|(_, c)| c).skip(1).take_while(|&c| c != '}').collect();
                        let c = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        out.push(c.ok_or("a character that is none")?);
                    }
                    Some(c) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err("a string without end".to_string())
    }

    fn number<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        self.skip(true);
        let rest = self.rest();
        let body = rest.strip_prefix('-').unwrap_or(rest);
        let digits = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
        let text = &rest[..rest.len() - body.len() + digits];
        let n = text.parse().map_err(|_| format!("expected a number, found {}", self.found()))?;
        self.at += text.len();
        Ok(n)
    }
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
    fn module(&mut self) -> Parsed<()> {
        self.declarations()?;
        self.at = 0;
        self.definitions()
    }

    /// First pass: structs, globals, heads.
    fn declarations(&mut self) -> Parsed<()> {
        loop {
            self.skip(true);
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
                    self.head(true)?;
                    self.skip_body()?;
                }
                "declare" => self.head(false)?,
                other => return Err(format!("expected a declaration, found '{other}'")),
            }
        }
    }

    /// Second pass: what names functions, and bodies.
    fn definitions(&mut self) -> Parsed<()> {
        let mut next = 0;
        loop {
            self.skip(true);
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
                        } else if self.eat_word("substitute") {
                            witness.substitute = Some(self.func_name()?);
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
                    self.expect("[")?;
                    let x = self.number()?;
                    self.expect(",")?;
                    let y = self.number()?;
                    self.expect(",")?;
                    let z = self.number()?;
                    self.expect("]")?;
                    self.module.entries.push(Entry { name, func, group_size: [x, y, z] });
                }
                "func" => {
                    let func = Func::from_u32(next);
                    next += 1;
                    self.skip(true);
                    while !self.rest().starts_with('{') {
                        self.skip_token()?;
                        self.skip(true);
                    }
                    // A copy: the slots must stay in place for calls of the function itself.
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

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// Skips one character, string or comment.
    fn skip_token(&mut self) -> Parsed<()> {
        self.skip(true);
        match self.rest().chars().next() {
            None => return Err("the text ends in a function".to_string()),
            Some('"') => drop(self.string()?),
            Some(c) => self.at += c.len_utf8(),
        }
        Ok(())
    }

    fn skip_body(&mut self) -> Parsed<()> {
        self.expect("{")?;
        let mut depth = 1;
        while depth > 0 {
            self.skip(true);
            match self.rest().chars().next() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                _ => {}
            }
            self.skip_token()?;
        }
        Ok(())
    }

    fn struct_type(&mut self) -> Parsed<()> {
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
        let ty = self.module.mem.intern(MemData::Struct { name: bare(&key), fields });
        self.structs.insert(key, ty);
        Ok(())
    }

    fn func_name(&mut self) -> Parsed<Func> {
        let key = self.key()?;
        self.funcs.get(&key).copied().ok_or_else(|| format!("no function is named '{key}'"))
    }

    /// The head of a function, which it adds to the module with its slots and the body's parameters.
    fn head(&mut self, has_body: bool) -> Parsed<()> {
        let key = self.key()?;
        let mut f = Function { name: bare(&key), ..Function::default() };
        if has_body {
            f.regions.push(RegionData::default());
        }
        self.expect("(")?;
        while !self.eat(")") {
            let linear = self.eat("~");
            let v = if has_body {
                let v = self.value_number()?;
                self.expect(":")?;
                Some(v)
            } else {
                None
            };
            let slot = self.slot(linear)?;
            if let Some(v) = v {
                let data = ValueData { ty: slot.ty, linear, name: slot.name.clone() };
                define(&mut f, v, data)?;
                f.regions[Region::from_u32(0)].params.push(v);
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
        f.prefer_recompute = self.eat_word("prefer_recompute");
        let id = self.module.funcs.push(f);
        match self.funcs.insert(key, id) {
            Some(_) => Err("a second function of that name".to_string()),
            None => Ok(()),
        }
    }

    fn slot(&mut self, linear: bool) -> Parsed<Slot> {
        let ty = self.ty()?;
        let diff = self.eat_word("diff");
        let name = if self.eat("@") { Some(self.key()?.into()) } else { None };
        Ok(Slot { ty, diff, linear, name })
    }

    // ---- types

    /// `f32`, `f32x3` or `f32x3x4`.
    fn numeric(word: &str) -> Option<(Scalar, Vec<u32>)> {
        let mut parts = word.split('x');
        let name = parts.next()?;
        let s = Scalar::ALL.into_iter().find(|s| s.name() == name)?;
        let sizes: Option<Vec<u32>> = parts.map(|n| n.parse().ok()).collect();
        Some((s, sizes?))
    }

    fn ty(&mut self) -> Parsed<Type> {
        self.nested(|p| {
            if p.eat("[") {
                let n = p.number()?;
                p.expect("x")?;
                let element = p.ty()?;
                p.expect("]")?;
                return Ok(p.module.types.array(element, n));
            }
            let word = p.word()?;
            if let "stack" | "cell" | "buffer" = word {
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

    fn mem_type(&mut self) -> Parsed<MemType> {
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
                    word => match Self::numeric(word) {
                        Some((s, sizes)) => match sizes[..] {
                            [] => MemData::Scalar(s),
                            [n] => MemData::Vector(s, n),
                            [r, c] => MemData::Matrix(s, r, c),
                            _ => return Err(format!("'{word}' is not a type")),
                        },
                        None => return Err(format!("'{word}' is not a type in memory")),
                    },
                }
            };
            Ok(p.module.mem.intern(data))
        })
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }
}

/// Gives a value its data.
fn define(f: &mut Function, v: Value, data: ValueData) -> Parsed<()> {
    let idx = v.as_u32();
    while f.values.len() as u32 <= idx {
        f.values.push(ValueData { ty: Type::BOOL, linear: false, name: None });
    }
    f.values[v] = data;
    Ok(())
}

// ---- bodies

impl Parser<'_> {
    fn body(&mut self, f: &mut Function) -> Parsed<()> {
        self.expect("{")?;
        self.region(f, Region::from_u32(0))
    }

    /// The instructions up to and with the closing brace.
    fn region(&mut self, f: &mut Function, region: Region) -> Parsed<()> {
        self.nested(|p| {
            while !p.eat("}") {
                if p.eat_word("yield") {
                    f.regions[region].results = p.uses(f)?.to_vec();
                    return p.expect("}");
                }
                p.inst(f, region)?;
            }
            Ok(())
        })
    }

    /// `v12`
    fn value_number(&mut self) -> Parsed<Value> {
        let word = self.peek_word();
        let n: Option<u32> = word.strip_prefix('v').and_then(|n| n.parse().ok()).filter(|&n| n < MAX_VALUE);
        match n {
            Some(n) => {
                self.at += word.len();
                Ok(Value::from_u32(n))
            }
            None => Err(format!("expected a value, found {}", self.found())),
        }
    }

    /// Whether a value comes next on this line.
    fn at_value(&mut self) -> bool {
        self.skip(false);
        let rest = self.rest();
        let rest = rest.strip_prefix('~').unwrap_or(rest);
        rest.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    fn use_of(&mut self, f: &Function) -> Parsed<Value> {
        let linear = self.eat("~");
        let v = self.value_number()?;
        match f.values.get(v) {
            None => Err(format!("{v} is not defined above")),
            Some(data) if data.linear != linear => {
                Err(format!("{v} is {}linear where it is defined", if data.linear { "" } else { "not " }))
            }
            Some(_) => Ok(v),
        }
    }

    /// The values on the rest of the line, with commas between.
    fn uses(&mut self, f: &Function) -> Parsed<SmallVec<[Value; 4]>> {
        let mut values = SmallVec::new();
        if !self.at_value() {
            return Ok(values);
        }
        loop {
            values.push(self.use_of(f)?);
            self.skip(false);
            if !self.rest().starts_with(',') {
                return Ok(values);
            }
            self.at += 1;
        }
    }

    fn inst(&mut self, f: &mut Function, region: Region) -> Parsed<()> {
        // Results, with their types where said.
        let mut results: SmallVec<[(Value, bool, Option<Type>); 2]> = SmallVec::new();
        self.skip(true);
        if self.at_value() {
            loop {
                let linear = self.eat("~");
                let v = self.value_number()?;
                let ty = if self.eat(":") { Some(self.ty()?) } else { None };
                results.push((v, linear, ty));
                if !self.eat(",") {
                    break;
                }
            }
            self.expect("=")?;
        }
        let said = results.first().and_then(|r| r.2);
        let (op, args, regions) = self.op(f, said)?;
        let arg_types: Vec<Type> = args.iter().map(|&v| f.ty(v)).collect();
        let inner: Option<Vec<Option<Type>>> =
            regions.first().map(|&r| f.regions[r].results.iter().map(|&v| Some(f.ty(v))).collect());
        let Module { types, mem, funcs, globals, .. } = &mut self.module;
        let mut inferred = result_types(funcs, globals, types, &op, &arg_types, inner.as_ref());
        // The printer says the type of a leaf, which a reader wants to see; here it may be left out.
        if let Op::BufferLoad(path) | Op::Atomic(path, _) = &op
            && let Some(TypeData::Buffer(element)) = arg_types.first().map(|&ty| types[ty])
        {
            inferred = vec![mem.leaf_at(types, element, path)];
        }
        for (idx, &(v, linear, ty)) in results.iter().enumerate() {
            let ty = ty
                .or(inferred.get(idx).copied().flatten())
                .ok_or_else(|| format!("the type of {v} does not follow: write it"))?;
            define(f, v, ValueData { ty, linear, name: None })?;
        }
        let inst = f.insts.push(InstData {
            op,
            args,
            results: results.iter().map(|r| r.0).collect(),
            regions,
            span: Span::NONE,
        });
        f.regions[region].insts.push(inst);
        Ok(())
    }

    /// The op with its operands and regions.
    fn op(&mut self, f: &mut Function, said: Option<Type>) -> Parsed<OpParts> {
        let word = self.word()?;
        let none = SmallVec::new;
        let op = match word {
            "const" => {
                let s = match said.map(|ty| self.module.types[ty]) {
                    Some(TypeData::Scalar(s)) => Some(s),
                    _ => None,
                };
                return Ok((Op::Const(self.constant(s)?), SmallVec::new(), none()));
            }
            "printf" | "assert" => {
                let text = self.string()?.into_boxed_str();
                self.skip(false);
                let args = if self.rest().starts_with(',') {
                    self.at += 1;
                    self.uses(f)?
                } else {
                    SmallVec::new()
                };
                let op = if word == "printf" { Op::Printf(text) } else { Op::Assert(text) };
                return Ok((op, args, none()));
            }
            "call" | "call_fwd" | "call_bwd" | "call_transpose_of" => {
                let callee = self.func_name()?;
                let op = match word {
                    "call" => Op::Call(callee),
                    "call_fwd" => Op::CallFwd(callee),
                    "call_bwd" => Op::CallBwd(callee),
                    _ => Op::CallTransposeOf(callee),
                };
                self.expect("(")?;
                let args = self.uses(f)?;
                self.expect(")")?;
                return Ok((op, args, none()));
            }
            "global_ref" => {
                let key = self.key()?;
                let global = self.globals.get(&key).copied();
                Op::GlobalRef(global.ok_or_else(|| format!("no global is named '{key}'"))?)
            }
            "if" => return self.if_op(f),
            "switch" => return self.switch_op(f),
            "for" | "loop" => return self.loop_op(f, word == "for"),
            _ => self.plain_op(word)?,
        };
        let args = self.uses(f)?;
        Ok((op, args, none()))
    }

    fn constant(&mut self, s: Option<Scalar>) -> Parsed<u64> {
        self.skip(false);
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
        let word = &rest[..end.unwrap_or(rest.len())];
        let bits = match (word, s) {
            ("true", _) => Some(1),
            ("false", _) => Some(0),
            _ if word.starts_with("0x") => u64::from_str_radix(&word[2..], 16).ok(),
            (_, Some(Scalar::F32)) => word.parse::<f32>().ok().map(|x| x.to_bits() as u64),
            (_, Some(s)) if s.is_float() => word.parse().ok().map(|x| scalar::from_f64(s, x)),
            (_, Some(s)) => word.parse::<i128>().ok().map(|n| scalar::canonical(s, n as u64)),
            (_, None) => return Err("the type of a constant does not follow: write it".to_string()),
        };
        let bits = bits.ok_or_else(|| format!("'{word}' is not a constant"))?;
        self.at += word.len();
        Ok(bits)
    }

    fn if_op(&mut self, f: &mut Function) -> Parsed<OpParts> {
        let args = self.uses(f)?;
        let mut regions = SmallVec::new();
        regions.push(f.regions.push(RegionData::default()));
        self.expect("{")?;
        self.region(f, regions[0])?;
        regions.push(f.regions.push(RegionData::default()));
        if self.eat_word("else") {
            self.expect("{")?;
            self.region(f, regions[1])?;
        }
        Ok((Op::If, args, regions))
    }

    fn switch_op(&mut self, f: &mut Function) -> Parsed<OpParts> {
        let args = self.uses(f)?;
        self.expect("{")?;
        let (mut cases, mut regions) = (Vec::new(), SmallVec::new());
        loop {
            let region = f.regions.push(RegionData::default());
            regions.push(region);
            if self.eat_word("case") {
                cases.push(self.number()?);
                self.expect("{")?;
                self.region(f, region)?;
            } else {
                if !self.eat_word("default") {
                    return Err(format!("expected 'case' or 'default', found {}", self.found()));
                }
                self.expect("{")?;
                self.region(f, region)?;
                self.expect("}")?;
                return Ok((Op::Switch(cases.into()), args, regions));
            }
        }
    }

    fn loop_op(&mut self, f: &mut Function, counted: bool) -> Parsed<OpParts> {
        let mut info = LoopInfo::default();
        if self.eat_word("max_iters") {
            self.expect("(")?;
            info.max_iters = Some(self.number()?);
            self.expect(")")?;
        }
        info.unroll = self.eat_word("unroll");
        let args = self.uses(f)?;
        let region = f.regions.push(RegionData::default());
        // The parameters' types are those of the operands.
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.eat(")") {
            let linear = self.eat("~");
            let v = self.value_number()?;
            let ty = args.get(params.len()).map(|&arg| f.ty(arg)).ok_or("more parameters than operands")?;
            define(f, v, ValueData { ty, linear, name: None })?;
            params.push(v);
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        f.regions[region].params = params;
        self.expect("{")?;
        self.region(f, region)?;
        let op = if counted { Op::For(info) } else { Op::Loop(info) };
        Ok((op, args, SmallVec::from_elem(region, 1)))
    }

    /// An op that is a word, perhaps with a number or a path.
    fn plain_op(&mut self, word: &str) -> Parsed<Op> {
        let (name, suffix) = word.split_once('.').unwrap_or((word, ""));
        let number = || suffix.parse::<u32>().map_err(|_| format!("expected a number after '{name}.'"));
        Ok(match name {
            "extract" => Op::Extract(number()?),
            "insert" => Op::Insert(number()?),
            "buffer_load" => Op::BufferLoad(self.path()?),
            "buffer_store" => Op::BufferStore(self.path()?),
            "atomic" => {
                let all = [
                    AtomicOp::Add,
                    AtomicOp::Min,
                    AtomicOp::Max,
                    AtomicOp::And,
                    AtomicOp::Or,
                    AtomicOp::Xor,
                    AtomicOp::Exchange,
                    AtomicOp::CompareExchange,
                ];
                let op = all.into_iter().find(|op| crate::print::atomic_name(*op) == suffix);
                Op::Atomic(self.path()?, op.ok_or_else(|| format!("'{suffix}' is not atomic"))?)
            }
            _ => simple_op(word).ok_or_else(|| format!("'{word}' is not an op"))?,
        })
    }

    fn path(&mut self) -> Parsed<Path> {
        let mut steps = Vec::new();
        if self.rest().starts_with('<') {
            self.at += 1;
            let end = self.rest().find('>').ok_or("a path without end")?;
            for step in self.rest()[..end].split('.') {
                steps.push(match step {
                    "*" => Step::Dynamic,
                    n => Step::Static(n.parse().map_err(|_| format!("'{n}' is not a step of a path"))?),
                });
            }
            self.at += end + 1;
        }
        Ok(Path(steps.into()))
    }
}

/// The op of that name, if nothing but operands belongs to it.
fn simple_op(name: &str) -> Option<Op> {
    Some(match name {
        "zero" => Op::Zero,
        "add" => Op::Add,
        "sub" => Op::Sub,
        "mul" => Op::Mul,
        "div" => Op::Div,
        "rem" => Op::Rem,
        "neg" => Op::Neg,
        "and" => Op::And,
        "or" => Op::Or,
        "xor" => Op::Xor,
        "not" => Op::Not,
        "shl" => Op::Shl,
        "shr" => Op::Shr,
        "eq" => Op::Eq,
        "ne" => Op::Ne,
        "lt" => Op::Lt,
        "le" => Op::Le,
        "gt" => Op::Gt,
        "ge" => Op::Ge,
        "convert" => Op::Convert,
        "bitcast" => Op::Bitcast,
        "select" => Op::Select,
        "detach" => Op::Detach,
        "construct" => Op::Construct,
        "splat" => Op::Splat,
        "index" => Op::Index,
        "sum" => Op::Sum,
        "local" => Op::Local,
        "load" => Op::Load,
        "store" => Op::Store,
        "add_to" => Op::AddTo,
        "sub_cell" => Op::SubCell,
        "buffer_len" => Op::BufferLen,
        "buffer_offset" => Op::BufferOffset,
        "barrier" => Op::Barrier,
        "dispatch_thread_id" => Op::Builtin(Builtin::DispatchThreadId),
        "group_id" => Op::Builtin(Builtin::GroupId),
        "group_thread_id" => Op::Builtin(Builtin::GroupThreadId),
        "group_index" => Op::Builtin(Builtin::GroupIndex),
        _ => Op::Math(Math::ALL.into_iter().find(|m| m.name() == name)?),
    })
}
