//! Parses bodies: instructions, their operands and regions.

use smallvec::SmallVec;

use super::{MAX_VALUE, OpParts, Parsed, Parser, define};
use crate::entities::{Region, Value};
use crate::function::{Function, InstData, RegionData, Span, ValueData};
use crate::module::Module;
use crate::ops::{AtomicOp, Checkpoint, DerivativeOp, LoopInfo, Op, Path, Step};
use crate::print::result_types;
use crate::scalar;
use crate::types::{Scalar, Type, TypeData};

impl Parser<'_> {
    pub(super) fn body(&mut self, f: &mut Function) -> Parsed<()> {
        self.expect("{")?;
        self.region(f, Region::from_u32(0))
    }

    /// Parses instructions up to and including the closing brace.
    pub(super) fn region(&mut self, f: &mut Function, region: Region) -> Parsed<()> {
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

    /// Parses a value's number: `v12`.
    pub(super) fn value_number(&mut self) -> Parsed<Value> {
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

    /// Returns true if a value comes next on this line.
    pub(super) fn at_value(&mut self) -> bool {
        self.skip_blanks();
        let rest = self.rest();
        let rest = rest.strip_prefix('~').unwrap_or(rest);
        rest.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    pub(super) fn use_of(&mut self, f: &Function) -> Parsed<Value> {
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

    /// Parses the values on the rest of the line, separated by commas.
    pub(super) fn uses(&mut self, f: &Function) -> Parsed<SmallVec<[Value; 4]>> {
        let mut values = SmallVec::new();
        if !self.at_value() {
            return Ok(values);
        }
        loop {
            values.push(self.use_of(f)?);
            self.skip_blanks();
            if !self.rest().starts_with(',') {
                return Ok(values);
            }
            self.at += 1;
        }
    }

    pub(super) fn inst(&mut self, f: &mut Function, region: Region) -> Parsed<()> {
        // Parse the results, with their types where given.
        let mut results: SmallVec<[(Value, bool, Option<Type>); 2]> = SmallVec::new();
        self.skip_lines();
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
        // The printer prints the type of a leaf, since it helps the reader; in the input it may be left out.
        if let Op::BufferLoad(path) | Op::Atomic(path, _) = &op
            && let Some(TypeData::Buffer(element)) = arg_types.first().map(|&ty| types[ty])
        {
            inferred = vec![mem.leaf_at(types, element, path)];
        }
        for (idx, &(v, linear, ty)) in results.iter().enumerate() {
            let ty = ty
                .or(inferred.get(idx).copied().flatten())
                .ok_or_else(|| format!("the type of {v} does not follow: write it"))?;
            define(f, v, ValueData::marked(ty, linear))?;
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

    /// Parses the op with its operands and regions.
    pub(super) fn op(&mut self, f: &mut Function, said: Option<Type>) -> Parsed<OpParts> {
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
            "printf" | "assert" | "check_finite" => {
                let text = self.string()?.into_boxed_str();
                self.skip_blanks();
                let args = if self.rest().starts_with(',') {
                    self.at += 1;
                    self.uses(f)?
                } else {
                    SmallVec::new()
                };
                let op = match word {
                    "printf" => Op::Printf(text),
                    "assert" => Op::Assert(text),
                    _ => Op::CheckFinite(text),
                };
                return Ok((op, args, none()));
            }
            _ if word == "call" || word == "call_transpose_of" || derivative(word).is_some() => {
                let callee = self.func_name()?;
                let op = match derivative(word) {
                    Some(op) => Op::CallDerivative(op, callee),
                    None if word == "call" => Op::Call(callee),
                    None => Op::CallTransposeOf(callee),
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

    pub(super) fn constant(&mut self, s: Option<Scalar>) -> Parsed<u64> {
        self.skip_blanks();
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

    pub(super) fn if_op(&mut self, f: &mut Function) -> Parsed<OpParts> {
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

    pub(super) fn switch_op(&mut self, f: &mut Function) -> Parsed<OpParts> {
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

    pub(super) fn loop_op(&mut self, f: &mut Function, counted: bool) -> Parsed<OpParts> {
        let mut info = LoopInfo::default();
        if self.eat_word("max_iters") {
            self.expect("(")?;
            info.max_iters = Some(self.number()?);
            self.expect(")")?;
        }
        info.unroll = self.eat_word("unroll");
        if self.eat_word("checkpoint") {
            info.checkpoint = Some(Checkpoint::Root);
            if self.eat("(") {
                let of = if self.eat_word("states") { Checkpoint::States } else { Checkpoint::Every };
                info.checkpoint = Some(of(self.number()?));
                self.expect(")")?;
            }
        }
        info.down = counted && self.eat_word("down");
        let args = self.uses(f)?;
        let region = f.regions.push(RegionData::default());
        // The parameters' types are those of the operands.
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.eat(")") {
            let linear = self.eat("~");
            let v = self.value_number()?;
            let ty = args.get(params.len()).map(|&arg| f.ty(arg)).ok_or("more parameters than operands")?;
            define(f, v, ValueData::marked(ty, linear))?;
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

    /// Parses an op that is a single word, possibly with a number or a path.
    pub(super) fn plain_op(&mut self, word: &str) -> Parsed<Op> {
        let (name, suffix) = word.split_once('.').unwrap_or((word, ""));
        let number = || suffix.parse::<u32>().map_err(|_| format!("expected a number after '{name}.'"));
        Ok(match name {
            "extract" => Op::Extract(number()?),
            "insert" => Op::Insert(number()?),
            "buffer_load" => Op::BufferLoad(self.path()?),
            "buffer_store" => Op::BufferStore(self.path()?),
            "atomic" => {
                let op = AtomicOp::ALL.into_iter().find(|op| op.name() == suffix);
                Op::Atomic(self.path()?, op.ok_or_else(|| format!("'{suffix}' is not atomic"))?)
            }
            _ => Op::plain(word).ok_or_else(|| format!("'{word}' is not an op"))?,
        })
    }

    pub(super) fn path(&mut self) -> Parsed<Path> {
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

/// The derivative operator with that name.
fn derivative(word: &str) -> Option<DerivativeOp> {
    DerivativeOp::ALL.into_iter().find(|op| op.name() == word)
}
