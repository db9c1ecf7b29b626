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
}

const ATOM: u8 = 20;
const UNARY: u8 = 15;
const TERNARY: u8 = 2;

impl Text {
    pub(crate) fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), level: ATOM, size: 0 }
    }

    fn number(text: String) -> Text {
        let level = if text.starts_with('-') { UNARY } else { ATOM };
        Text { text, level, size: 0 }
    }

    pub(crate) fn call(function: &str, args: &[Text]) -> Text {
        let size = 1 + args.iter().map(|a| a.size).sum::<u32>();
        let args: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
        Text { text: format!("{function}({})", args.join(", ")), level: ATOM, size }
    }

    /// The text, in parentheses if it binds less tightly than `level` requires.
    fn at(&self, level: u8) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }

    fn infix(op: &str, level: u8, a: &Text, b: &Text) -> Text {
        // Floating-point arithmetic is not associative, so the right operand keeps its parentheses.
        let text = format!("{} {op} {}", a.at(level), b.at(level + 1));
        Text { text, level, size: 1 + a.size + b.size }
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
            Ok(Text { text, level: UNARY, size: 1 + args[0].size })
        };
        let call = |function: &str| Ok(Text::call(function, &args));
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
            Op::Add => infix("+", 12),
            Op::Sub => infix("-", 12),
            Op::Mul => infix("*", 13),
            Op::Div => infix("/", 13),
            Op::Rem if scalar.is_some_and(Scalar::is_float) => call("fmod"),
            Op::Rem => infix("%", 13),
            Op::Neg => prefix("-"),
            Op::And if is_bool => infix("&&", 5),
            Op::Or if is_bool => infix("||", 4),
            Op::Xor if is_bool => infix("!=", 9),
            Op::And => infix("&", 8),
            Op::Or => infix("|", 6),
            Op::Xor => infix("^", 7),
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
                Ok(Text { text, level: TERNARY, size })
            }
            Op::Detach => call("detach"),
            Op::CheckFinite(_) => Ok(args[0].clone()),
            Op::Construct | Op::Splat if types.lanes(ty).is_some() => call(&name(types, ty, data.span)?),
            Op::Extract(k) => Ok(match types.lanes(self.src.ty(data.args[0])) {
                Some(n) if n <= 4 => {
                    Text { text: format!("{}.{}", args[0].at(ATOM), lane(*k)), ..args[0].atomic() }
                }
                _ => Text { text: format!("{}[{k}]", args[0].at(ATOM)), ..args[0].atomic() },
            }),
            Op::Index => {
                let text = format!("{}[{}]", args[0].at(ATOM), args[1].text);
                Ok(Text { text, level: ATOM, size: args[0].size + args[1].size })
            }
            Op::Load => Ok(Text::atom(self.place(&data.args))),
            Op::Sum if self.products.contains_key(&data.args[0]) => {
                let (a, b) = &self.products[&data.args[0]];
                Ok(Text::call("dot", &[a.clone(), b.clone()]))
            }
            Op::Sum => {
                let n = types.lanes(self.src.ty(data.args[0])).unwrap_or(1);
                let parts: Vec<String> =
                    (0..n).map(|k| format!("{}.{}", args[0].at(ATOM), lane(k))).collect();
                Ok(Text { text: parts.join(" + "), level: 12, size: n })
            }
            other => Err(unsupported(other, data.span)),
        }
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
        Text { text: String::new(), level: ATOM, size: self.size }
    }
}

/// The component letter of a vector lane.
pub(crate) fn lane(k: u32) -> char {
    ['x', 'y', 'z', 'w'].get(k as usize).copied().unwrap_or('x')
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
