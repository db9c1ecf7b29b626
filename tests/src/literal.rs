//! Parses calls and values in directives: `f(1.0, (1, 2), [true]) == 3.0, <1.5>`.
//!
//! A value is written as [`ir::interp::Value::display`] prints it: vectors in `()`, arrays in `[]`, stacks in
//! `<>`; its type comes from the function's slots.

use ir::interp::Value;
use ir::{Func, Module, Scalar, Slot, Type, TypeData, scalar};

/// A call with the expectation that follows it.
pub struct Call {
    /// The called function.
    pub func: Func,
    /// The arguments.
    pub args: Vec<Value>,
    /// The text after the closing parenthesis.
    pub rest: String,
}

/// Parses `f(args…) rest`.
pub fn parse_call(module: &Module, text: &str) -> Result<Call, String> {
    let (name, rest) = text.split_once('(').ok_or("a call needs parentheses")?;
    let name = name.trim().trim_matches('"');
    let func = module.find(name).ok_or_else(|| format!("no function is named '{name}'"))?;
    let mut reader = Reader { module, text: rest };
    let mut args = Vec::new();
    for slot in &module.funcs[func].params {
        if !args.is_empty() {
            reader.expect(',')?;
        }
        args.push(reader.value(slot.ty)?);
    }
    reader.expect(')')?;
    Ok(Call { func, args, rest: reader.text.trim().to_string() })
}

/// Parses values of the slots' types, separated by commas.
pub fn parse_values(module: &Module, slots: &[Slot], text: &str) -> Result<Vec<Value>, String> {
    let mut reader = Reader { module, text };
    let mut values = Vec::new();
    for slot in slots {
        if !values.is_empty() {
            reader.expect(',')?;
        }
        values.push(reader.value(slot.ty)?);
    }
    match reader.text.trim() {
        "" => Ok(values),
        rest => Err(format!("'{rest}' is left over")),
    }
}

/// Formats values as text.
pub fn show(module: &Module, slots: &[Slot], values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().zip(slots).map(|(v, s)| v.display(&module.types, s.ty)).collect();
    texts.join(", ")
}

struct Reader<'a> {
    module: &'a Module,
    text: &'a str,
}

impl Reader<'_> {
    fn eat(&mut self, mark: char) -> bool {
        match self.text.trim_start().strip_prefix(mark) {
            Some(rest) => {
                self.text = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, mark: char) -> Result<(), String> {
        if self.eat(mark) { Ok(()) } else { Err(format!("expected '{mark}' before '{}'", self.text)) }
    }

    fn value(&mut self, ty: Type) -> Result<Value, String> {
        match self.module.types[ty] {
            TypeData::Scalar(s) => Ok(Value::Scalar(self.scalar(s)?)),
            TypeData::Vector(s, n) => {
                self.expect('(')?;
                let mut lanes = Vec::new();
                while !self.eat(')') {
                    if !lanes.is_empty() {
                        self.expect(',')?;
                    }
                    lanes.push(self.scalar(s)?);
                }
                match lanes.len() == n as usize {
                    true => Ok(Value::Vector(lanes.into_iter().collect())),
                    false => Err(format!("{} lanes instead of {n}", lanes.len())),
                }
            }
            TypeData::Array(t, n) => {
                let elements = self.list(t, '[', ']')?;
                match elements.len() == n as usize {
                    true => Ok(Value::array(elements)),
                    false => Err(format!("{} elements instead of {n}", elements.len())),
                }
            }
            TypeData::Stack(t) => Ok(Value::stack(self.list(t, '<', '>')?)),
            TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
                Err("no value of that type can be written".to_string())
            }
        }
    }

    fn list(&mut self, element: Type, open: char, close: char) -> Result<Vec<Value>, String> {
        self.expect(open)?;
        let mut elements = Vec::new();
        while !self.eat(close) {
            if !elements.is_empty() {
                self.expect(',')?;
            }
            elements.push(self.value(element)?);
        }
        Ok(elements)
    }

    fn scalar(&mut self, s: Scalar) -> Result<u64, String> {
        let text = self.text.trim_start();
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)));
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.text = rest;
        let bits = if let Some(hex) = word.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).ok()
        } else if s == Scalar::Bool {
            word.parse::<bool>().ok().map(u64::from)
        } else if s == Scalar::F32 {
            word.parse::<f32>().ok().map(|x| x.to_bits() as u64)
        } else if s.is_float() {
            word.parse().ok().map(|x| scalar::from_f64(s, x))
        } else {
            word.parse::<i128>().ok().map(|n| scalar::canonical(s, n as u64))
        };
        bits.ok_or_else(|| format!("'{word}' is not a {}", s.name()))
    }
}

/// Returns true if two lists of values are equal: exactly (all NaNs being equal), or with a tolerance
/// relative to the larger of 1 and the value.
pub fn close(module: &Module, slots: &[Slot], a: &[Value], b: &[Value], tolerance: Option<f64>) -> bool {
    let types = &module.types;
    a.len() == b.len()
        && a.iter().zip(b).zip(slots).all(|((a, b), slot)| match (tolerance, types.scalar_of(slot.ty)) {
            (Some(tolerance), Some(s)) if s.is_float() => {
                let (a, b) = (a.lanes(), b.lanes());
                a.len() == b.len()
                    && a.iter().zip(&b).all(|(&a, &b)| {
                        let (x, y) = (scalar::to_f64(s, a), scalar::to_f64(s, b));
                        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * y.abs().max(1.0)
                    })
            }
            _ => a.same(b, types, slot.ty),
        })
}
