//! Writes instructions as expressions.

use ir::{InstData, Math, Op, Scalar, TypeData, Value};

use crate::statement::Writer;
use crate::types::{literal, name};
use crate::unsupported::{Unsupported, unsupported};

/// A text with its operator precedence: a higher level binds tighter.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    level: u8,
    /// The number of operators; a long expression is given a name.
    pub(crate) size: u32,
    /// The text and level of the same number without its sign, for a text that begins with a minus.
    positive: Option<(String, u8)>,
    /// The text and level of the number that all lanes of a vector are.
    splat: Option<(String, u8)>,
}

const ATOM: u8 = 20;
const UNARY: u8 = 15;
const TERNARY: u8 = 2;

impl Text {
    pub(crate) fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), level: ATOM, size: 0, positive: None, splat: None }
    }

    fn number(text: String) -> Text {
        let level = if text.starts_with('-') { UNARY } else { ATOM };
        Text { text, level, size: 0, positive: None, splat: None }
    }

    pub(crate) fn call(function: &str, args: &[Text]) -> Text {
        let size = 1 + args.iter().map(|a| a.size).sum::<u32>();
        let args: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
        Text {
            text: format!("{function}({})", args.join(", ")),
            level: ATOM,
            size,
            positive: None,
            splat: None,
        }
    }

    /// The text, in parentheses if it binds less tightly than `level` requires.
    fn at(&self, level: u8) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }

    /// The text as an operand of a comparison.
    pub(crate) fn operand(&self) -> String {
        self.at(11)
    }

    /// `!a`.
    pub(crate) fn not(a: &str) -> Text {
        Text { text: format!("!{a}"), level: UNARY, size: 1, positive: None, splat: None }
    }

    /// `a + b`.
    pub(crate) fn sum(a: &str, b: &str) -> Text {
        Text::infix("+", 12, &Text::atom(a), &Text::atom(b))
    }

    /// The opposite of a condition, without parentheses around all of it.
    pub(crate) fn negated(&self) -> String {
        let text = crate::control::strip(&self.text);
        if let Some(inner) = text.strip_prefix('!')
            && self.level == UNARY
        {
            return crate::control::strip(inner).to_owned();
        }
        // The opposite of an order is another one only for numbers that are no NaN.
        if self.level == 9
            && let [a, op, b] = text.split(' ').collect::<Vec<_>>()[..]
        {
            match op {
                "==" => return format!("{a} != {b}"),
                "!=" => return format!("{a} == {b}"),
                _ => {}
            }
        }
        format!("!{}", self.at(UNARY))
    }

    /// Returns true for the literal of a floating-point number.
    fn is_float(&self, number: &str) -> bool {
        self.text.trim_end_matches(['l', 'h']) == number
    }

    /// The text of the same number without its sign, if it has a minus.
    pub(crate) fn without_minus(&self) -> Option<Text> {
        let (text, level) = self.positive.clone()?;
        Some(Text { text, level, size: self.size.saturating_sub(1), positive: None, splat: None })
    }

    fn negative(&self) -> Text {
        self.without_minus().unwrap_or_else(|| Text {
            text: format!("-{}", self.at(UNARY + 1)),
            level: UNARY,
            size: 1 + self.size,
            positive: Some((self.text.clone(), self.level)),
            splat: None,
        })
    }

    fn infix(op: &str, level: u8, a: &Text, b: &Text) -> Text {
        // Floating-point arithmetic is not associative, so the right operand keeps its parentheses.
        let text = format!("{} {op} {}", a.at(level), b.at(level + 1));
        let size = 1 + a.size + b.size;
        // `-a * b` is the negation of `a * b`, to the bit.
        let positive = a.without_minus().filter(|_| level == 13 && op != "%");
        let positive = positive.map(|a| (format!("{} {op} {}", a.at(level), b.at(level + 1)), level));
        Text { text, level, size, positive, splat: None }
    }
}

impl Writer<'_> {
    /// The text of an instruction that has one result and no side effects.
    pub(crate) fn expression(&mut self, data: &InstData) -> Result<Text, Unsupported> {
        let result = data.results[0];
        let ty = self.src.ty(result);
        let types = &self.module.types;
        let args: Vec<Text> = data.args.iter().map(|&v| self.text(v)).collect();
        let scalar = types.scalar_of(self.src.ty(*data.args.first().unwrap_or(&result)));
        let is_bool = scalar == Some(Scalar::Bool);
        let infix = |op: &str, level: u8| Ok(Text::infix(op, level, &args[0], &args[1]));
        let prefix = |op: &str| {
            let text = format!("{op}{}", args[0].at(UNARY + 1));
            Ok(Text { text, level: UNARY, size: 1 + args[0].size, positive: None, splat: None })
        };
        let call = |function: &str| Ok(Text::call(function, &args));
        let is_zero = |k: usize| args[k].is_float("0.0") && scalar.is_some_and(Scalar::is_float);
        let scalar_result = types.lanes(ty).is_none();
        let same_type = data.args.iter().all(|&v| self.src.ty(v) == ty);
        // Comparisons of long vectors have one answer in the language.
        if types.lanes(ty).is_some_and(|n| n > 4) && types.scalar_of(ty) == Some(Scalar::Bool) {
            return Err(unsupported(&data.op, data.span));
        }
        match &data.op {
            Op::Const(bits) => {
                let scalar = types.scalar_of(ty).ok_or_else(|| unsupported(&data.op, data.span))?;
                Ok(Text::number(literal(scalar, *bits)))
            }
            Op::Zero => match types[ty] {
                TypeData::Scalar(scalar) => Ok(Text::atom(literal(scalar, 0))),
                TypeData::Vector(scalar, _) => {
                    Ok(Text::call(&name(types, ty, data.span)?, &[Text::atom(literal(scalar, 0))]))
                }
                _ => Err(unsupported(&data.op, data.span)),
            },
            // The sign of a zero does not matter.
            Op::Add if is_zero(1) => Ok(args[0].clone()),
            Op::Add if is_zero(0) => Ok(args[1].clone()),
            Op::Sub if is_zero(1) => Ok(args[0].clone()),
            Op::Sub if is_zero(0) => Ok(args[1].negative()),
            Op::Mul if args[1].is_float("1.0") && same_type => Ok(args[0].clone()),
            Op::Mul if args[0].is_float("1.0") && same_type => Ok(args[1].clone()),
            Op::Add | Op::Sub if data.args.len() == 2 && args[1].without_minus().is_some() => {
                let positive = args[1].without_minus().unwrap_or_else(|| args[1].clone());
                self.sum(data, if matches!(data.op, Op::Add) { "-" } else { "+" }, &args[0], &positive)
            }
            Op::Add => self.sum(data, "+", &args[0], &args[1]),
            Op::Sub => self.sum(data, "-", &args[0], &args[1]),
            Op::Mul => self.product(data, &args[0], &args[1]),
            Op::Div => infix("/", 13),
            Op::Rem if scalar.is_some_and(Scalar::is_float) => call("fmod"),
            Op::Rem => infix("%", 13),
            Op::Neg => Ok(args[0].negative()),
            Op::And if is_bool => infix("&&", 5),
            Op::Or if is_bool => infix("||", 4),
            Op::Xor if is_bool => infix("!=", 9),
            Op::And => infix("&", 8),
            Op::Or => infix("|", 6),
            Op::Xor => infix("^", 7),
            Op::Not if is_bool && scalar_result => {
                let text = args[0].negated();
                let level = match args[0].level == UNARY {
                    true => 0,
                    false if text.starts_with('!') => UNARY,
                    false => 9,
                };
                Ok(Text { text, level, size: 1 + args[0].size, positive: None, splat: None })
            }
            Op::Not => prefix(if is_bool { "!" } else { "~" }),
            Op::Shl => infix("<<", 11),
            Op::Shr => infix(">>", 11),
            Op::Math(math) => call(function(*math)),
            Op::Eq => infix("==", 9),
            Op::Ne => infix("!=", 9),
            Op::Lt => infix("<", 10),
            Op::Le => infix("<=", 10),
            Op::Gt => infix(">", 10),
            Op::Ge => infix(">=", 10),
            Op::Convert => call(&name(types, ty, data.span)?),
            Op::Bitcast => call(&format!("bit_cast<{}>", name(types, ty, data.span)?)),
            Op::Select if types.lanes(self.src.ty(data.args[0])).is_some() => call("select"),
            Op::Select => {
                let text = format!(
                    "{} ? {} : {}",
                    args[0].at(TERNARY + 1),
                    args[1].at(TERNARY + 1),
                    args[2].at(TERNARY)
                );
                let size = 1 + args.iter().map(|a| a.size).sum::<u32>();
                Ok(Text { text, level: TERNARY, size, positive: None, splat: None })
            }
            Op::Detach => call("detach"),
            Op::CheckFinite(_) => Ok(args[0].clone()),
            Op::Splat if types.lanes(ty).is_some() => {
                let splat = Some((args[0].text.clone(), args[0].level));
                Ok(Text { splat, ..Text::call(&name(types, ty, data.span)?, &args) })
            }
            Op::Construct if types.lanes(ty).is_some() => call(&name(types, ty, data.span)?),
            Op::Extract(k) => Ok(match types.lanes(self.src.ty(data.args[0])) {
                Some(n) => Text { text: format!("{}{}", args[0].at(ATOM), lane(*k, n)), ..args[0].atomic() },
                _ => Text { text: format!("{}[{k}]", args[0].at(ATOM)), ..args[0].atomic() },
            }),
            // A stack that nothing was put on.
            Op::Index if !self.texts.contains_key(&data.args[0]) => match types[ty] {
                TypeData::Scalar(scalar) => Ok(Text::atom(literal(scalar, 0))),
                TypeData::Vector(scalar, _) => {
                    Ok(Text::call(&name(types, ty, data.span)?, &[Text::atom(literal(scalar, 0))]))
                }
                _ => Err(unsupported(&data.op, data.span)),
            },
            Op::Index => {
                let text = format!("{}[{}]", args[0].at(ATOM), args[1].text);
                Ok(Text { text, level: ATOM, size: args[0].size + args[1].size, positive: None, splat: None })
            }
            Op::Load => Ok(Text::atom(self.place(&data.args))),
            Op::Sum if self.products.contains_key(&data.args[0]) => {
                let (a, b) = &self.products[&data.args[0]];
                Ok(Text::call("dot", &[a.clone(), b.clone()]))
            }
            Op::Sum => {
                let n = types.lanes(self.src.ty(data.args[0])).unwrap_or(1);
                let parts: Vec<String> =
                    (0..n).map(|k| format!("{}{}", args[0].at(ATOM), lane(k, n))).collect();
                Ok(Text { text: parts.join(" + "), level: 12, size: n, positive: None, splat: None })
            }
            other => Err(unsupported(other, data.span)),
        }
    }

    /// A sum or difference, which may become an assignment with `+=` or `-=`.
    fn sum(&mut self, data: &InstData, op: &'static str, a: &Text, b: &Text) -> Result<Text, Unsupported> {
        let text = Text::infix(op, 12, a, b);
        self.compound.insert(data.results[0], (a.text.clone(), op, b.at(13)));
        Ok(text)
    }

    /// A product, which may become an assignment with `*=`.
    fn product(&mut self, data: &InstData, a: &Text, b: &Text) -> Result<Text, Unsupported> {
        // A number times a vector needs no vector of the number.
        let number = |x: &Text| {
            let (text, level) = x.splat.clone()?;
            Some(Text { text, level, splat: None, ..x.clone() })
        };
        let (a, b) = match (number(a), number(b)) {
            (Some(number), None) => (number, b.clone()),
            (None, Some(number)) => (a.clone(), number),
            _ => (a.clone(), b.clone()),
        };
        let (a, b) = (&a, &b);
        let text = Text::infix("*", 13, a, b);
        self.compound.insert(data.results[0], (a.text.clone(), "*", b.at(14)));
        Ok(text)
    }

    /// The place of the part of a cell that indices lead to.
    pub(crate) fn place(&mut self, path: &[Value]) -> String {
        let mut text = self.text(path[0]).text;
        for &index in &path[1..] {
            text += &format!("[{}]", self.text(index).text);
        }
        text
    }
}

impl Text {
    fn atomic(&self) -> Text {
        Text { text: String::new(), level: ATOM, size: self.size, positive: None, splat: None }
    }
}

/// The component of a vector of `n` lanes: `.x`, or `[0]` of a long one.
pub(crate) fn lane(k: u32, n: u32) -> String {
    match ['x', 'y', 'z', 'w'].get(k as usize) {
        Some(letter) if n <= 4 => format!(".{letter}"),
        _ => format!("[{k}]"),
    }
}

/// The name of a mathematical function.
pub(crate) fn function(math: Math) -> &'static str {
    match math {
        Math::IsNan => "isnan",
        Math::IsInf => "isinf",
        Math::CountBits => "countbits",
        Math::ReverseBits => "reversebits",
        Math::FirstBitLow => "firstbitlow",
        Math::FirstBitHigh => "firstbithigh",
        other => other.name(),
    }
}

/// Returns true if a text in parentheses may stand without them: it has no comma outside of brackets.
pub(crate) fn is_infix(text: &str) -> bool {
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => return false,
            _ => {}
        }
    }
    true
}
