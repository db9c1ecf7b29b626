//! Parses PTX as LLVM writes it: functions, their instructions, and declared memory.

use std::collections::HashMap;

/// A parsed text.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) functions: Vec<Function>,
    /// The memory of the module.
    pub(super) globals: Vec<Global>,
    /// The memory of groups, as name and size in bytes.
    pub(super) shared: Vec<(String, u64)>,
}

/// Declared memory.
#[derive(Debug)]
pub(super) struct Global {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    /// The symbols whose addresses are stored in the memory, with their offsets.
    pub(super) names: Vec<(usize, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) params: Vec<String>,
    /// The name and the size in bytes of the local memory of a call.
    pub(super) local: Option<(String, u64)>,
    pub(super) n_registers: usize,
    pub(super) code: Vec<Inst>,
}

/// A type: its kind (`b`, `u`, `s`, `f`, `p` for a predicate) and its number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ty(pub(super) char, pub(super) u32);

#[derive(Clone, Debug)]
pub(super) enum Operand {
    Register(usize),
    Number(u64),
    /// `%tid.x` and similar registers.
    Special(String),
    /// The address of a declared symbol.
    Symbol(String),
    /// The content of brackets: an address, and an offset in bytes.
    At(Box<Operand>, i64),
    Vector(Vec<Operand>),
}

#[derive(Debug)]
pub(super) struct Inst {
    /// The instruction is only executed if this predicate register has this value.
    pub(super) guard: Option<(usize, bool)>,
    /// The text of the instruction.
    pub(super) text: String,
    /// The operation with its modifiers, without the types at its end.
    pub(super) op: Vec<String>,
    pub(super) ty: Ty,
    /// The type before the last one, for `cvt` and `mul.wide`; the last one is the type of the operand.
    pub(super) first: Option<Ty>,
    pub(super) operands: Vec<Operand>,
    /// The target of a branch.
    pub(super) target: usize,
    /// The called function, and the names of its arguments.
    pub(super) call: Option<(String, Vec<String>)>,
}

fn ty(word: &str) -> Option<Ty> {
    if word == "pred" {
        return Some(Ty('p', 1));
    }
    let kind = word.chars().next().filter(|c| "busf".contains(*c))?;
    let bits = word[1..].parse().ok().filter(|b| [8, 16, 32, 64].contains(b))?;
    Some(Ty(kind, bits))
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Program, String> {
    let plain: String =
        text.lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut program = Program::default();
    let mut rest = plain.as_str();
    loop {
        rest = rest.trim_start();
        let Some(word) = rest.split_whitespace().next() else { return Ok(program) };
        match word {
            ".version" | ".target" | ".address_size" => {
                rest = rest.split_once('\n').map_or("", |r| r.1);
            }
            ".global" | ".const" | ".shared" => {
                let (line, after) = rest.split_once(';').ok_or("a declaration does not end")?;
                declaration(&mut program, word, line)?;
                rest = after;
            }
            ".visible" | ".func" | ".entry" => {
                let end = rest.find(['{', ';']).ok_or("a function does not begin")?;
                let (head, after) = rest.split_at(end);
                if let Some(after) = after.strip_prefix(';') {
                    rest = after;
                    continue;
                }
                let body = matching(after)?;
                let (function, shared) = function(head, &after[1..body])?;
                shared.iter().try_for_each(|line| declaration(&mut program, ".shared", line))?;
                program.functions.push(function);
                rest = &after[body + 1..];
            }
            other => return Err(format!("what is '{other}'?")),
        }
    }
}

/// The position of the bracket that closes the one at the beginning of a text.
fn matching(text: &str) -> Result<usize, String> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return Ok(at);
        }
    }
    Err("a bracket does not close".into())
}

/// Parses `.global .align 4 .b8 name[12] = {1, 2}`.
fn declaration(program: &mut Program, space: &str, line: &str) -> Result<(), String> {
    let (left, values) = line.split_once('=').map_or((line, None), |(l, v)| (l, Some(v)));
    let words: Vec<&str> = left.split_whitespace().collect();
    let element = words.iter().find_map(|w| ty(w.strip_prefix('.')?)).ok_or("memory without a type")?;
    let name = words.last().ok_or("memory without a name")?;
    let (name, count) = match name.split_once('[') {
        Some((name, n)) => (name, n.trim_end_matches(']').parse::<u64>().map_err(|e| e.to_string())?),
        None => (*name, 1),
    };
    let size = u64::from(element.1 / 8);
    if space == ".shared" {
        program.shared.push((name.to_string(), size * count));
        return Ok(());
    }
    let (mut bytes, mut names) = (vec![0u8; (size * count) as usize], Vec::new());
    let list = values.unwrap_or_default().trim().trim_matches(['{', '}']);
    for (k, value) in list.split(',').map(str::trim).filter(|v| !v.is_empty()).enumerate() {
        let at = k * size as usize;
        if let Some(name) = value.strip_prefix("generic(") {
            names.push((at, name.trim_end_matches(')').to_string()));
            continue;
        }
        let number = value.parse::<i128>().map_err(|e| format!("{value}: {e}"))? as u64;
        bytes[at..at + size as usize].copy_from_slice(&number.to_le_bytes()[..size as usize]);
    }
    program.globals.push(Global { name: name.to_string(), bytes, names });
    Ok(())
}

/// Parses a function from its head and body, and returns it with the group memory that it declares.
fn function(head: &str, body: &str) -> Result<(Function, Vec<String>), String> {
    let lists: Vec<&str> =
        head.match_indices('(').map(|(at, _)| head[at + 1..].split(')').next().unwrap_or_default()).collect();
    let names = |list: &str| -> Vec<String> {
        let name =
            |p: &str| p.split_whitespace().last().map(|n| n.split('[').next().unwrap_or(n).to_string());
        list.split(',').filter_map(name).collect()
    };
    let params = lists.last().map_or_else(Vec::new, |list| names(list));
    // The name comes before the last list, or at the end if the only list is that of the result.
    let name = if head.contains(".entry") {
        head.split(".entry").nth(1).and_then(|t| t.split(['(', '.']).next())
    } else {
        let after = head.split(".func").nth(1).unwrap_or_default().trim_start();
        let after = if after.starts_with('(') { after.split_once(')').map_or("", |r| r.1) } else { after };
        after.split('(').next()
    };
    let name = name.unwrap_or_default().trim().to_string();
    let mut own = Function { name, params, ..Function::default() };
    let mut reader = Reader::default();
    let mut statement = String::new();
    for c in body.chars() {
        match c {
            ';' => reader.statement(&mut own, &std::mem::take(&mut statement))?,
            ':' if statement.trim().starts_with('$') => {
                reader.labels.insert(std::mem::take(&mut statement).trim().to_string(), own.code.len());
            }
            // A nested block and not a vector.
            '{' if statement.trim().is_empty() => statement.clear(),
            '}' if statement.trim().is_empty() => statement.clear(),
            c => statement.push(c),
        }
    }
    for (inst, label) in &reader.branches {
        let target = reader.labels.get(label).ok_or_else(|| format!("there is no label {label}"))?;
        own.code[*inst].target = *target;
    }
    own.n_registers = reader.registers.len();
    Ok((own, reader.shared))
}

#[derive(Default)]
struct Reader {
    registers: HashMap<String, usize>,
    labels: HashMap<String, usize>,
    branches: Vec<(usize, String)>,
    /// The group memory that the function declares.
    shared: Vec<String>,
}

impl Reader {
    fn register(&mut self, name: &str) -> usize {
        let next = self.registers.len();
        *self.registers.entry(name.to_string()).or_insert(next)
    }

    fn statement(&mut self, own: &mut Function, text: &str) -> Result<(), String> {
        let mut text = text.trim();
        if text.starts_with(".shared") {
            self.shared.push(text.to_string());
            return Ok(());
        }
        if let Some(rest) = text.strip_prefix(".local") {
            let name = rest.split_whitespace().last().unwrap_or_default();
            let (name, n) = name.split_once('[').ok_or("local memory without a size")?;
            let bytes = n.trim_end_matches(']').parse().map_err(|e| format!("{n}: {e}"))?;
            own.local = Some((name.to_string(), bytes));
            return Ok(());
        }
        if text.is_empty() || text.starts_with('.') {
            return Ok(());
        }
        let mut guard = None;
        if let Some(rest) = text.strip_prefix('@') {
            let (name, rest) = rest.split_once(char::is_whitespace).ok_or("a guard alone")?;
            let (name, wanted) = name.strip_prefix('!').map_or((name, true), |n| (n, false));
            guard = Some((self.register(name), wanted));
            text = rest.trim();
        }
        let (op, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let mut words: Vec<String> = op.split('.').map(str::to_string).collect();
        let mut types = Vec::new();
        while let Some(t) = words.last().and_then(|w| ty(w)) {
            types.push(t);
            words.pop();
        }
        let mut inst = Inst {
            text: text.to_string(),
            guard,
            ty: types.first().copied().unwrap_or(Ty('b', 32)),
            first: types.get(1).copied(),
            op: words,
            operands: Vec::new(),
            target: 0,
            call: None,
        };
        match inst.op[0].as_str() {
            "bra" => self.branches.push((own.code.len(), rest.trim().to_string())),
            "call" => {
                let rest = match rest.trim_start().strip_prefix('(') {
                    Some(result) => result.split_once(')').map_or("", |r| r.1),
                    None => rest,
                };
                let (name, list) = rest.split_once('(').unwrap_or((rest, ""));
                let name = name.trim_matches(|c: char| c == ',' || c.is_whitespace()).to_string();
                let list = list.trim_end().trim_end_matches(')');
                let args = list.split(',').map(|a| a.trim().to_string()).filter(|a| !a.is_empty());
                inst.call = Some((name, args.collect()));
            }
            _ => inst.operands = self.operands(rest)?,
        }
        own.code.push(inst);
        Ok(())
    }

    fn operands(&mut self, text: &str) -> Result<Vec<Operand>, String> {
        let (mut list, mut depth, mut start) = (Vec::new(), 0, 0);
        for (at, c) in text.char_indices() {
            depth += i32::from("{[".contains(c)) - i32::from("}]".contains(c));
            if c == ',' && depth == 0 {
                list.push(&text[start..at]);
                start = at + 1;
            }
        }
        list.push(&text[start..]);
        list.into_iter().map(str::trim).filter(|t| !t.is_empty()).map(|t| self.operand(t)).collect()
    }

    fn operand(&mut self, text: &str) -> Result<Operand, String> {
        if let Some(inner) = text.strip_prefix('{') {
            return Ok(Operand::Vector(self.operands(inner.trim_end_matches('}'))?));
        }
        // The two results of a comparison of halves.
        if text.starts_with('%') && text.contains('|') {
            return Ok(Operand::Vector(self.operands(&text.replace('|', ","))?));
        }
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.trim_end_matches(']');
            let (place, by) = inner.split_once('+').map_or((inner, Ok(0)), |(p, by)| (p, by.parse::<i64>()));
            let by = by.map_err(|e| format!("{text}: {e}"))?;
            return Ok(Operand::At(Box::new(self.operand(place)?), by));
        }
        if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0d")) {
            return u64::from_str_radix(hex, 16).map(Operand::Number).map_err(|e| format!("{text}: {e}"));
        }
        if let Some(hex) = text.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16).map(Operand::Number).map_err(|e| format!("{text}: {e}"));
        }
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let number = text.trim_end_matches('U').parse::<i128>().map_err(|e| format!("{text}: {e}"))?;
            return Ok(Operand::Number(number as u64));
        }
        let is_special =
            |name: &str| ["%tid", "%ntid", "%ctaid", "%nctaid"].iter().any(|s| name.starts_with(s));
        Ok(match text {
            _ if is_special(text) => Operand::Special(text.to_string()),
            "tmp" => Operand::Register(self.register(text)),
            _ if text.starts_with('%') => Operand::Register(self.register(text)),
            _ => Operand::Symbol(text.to_string()),
        })
    }
}
