//! `printf`, and strings as values.
//!
//! A string is an index into a table of the program's texts, so it can be passed, returned and selected like
//! an integer on every backend. A literal among the arguments of `printf` becomes part of the format; the
//! conversion of any other string holds the whole table, which is complete once all functions are lowered.

use check::tables::{Arg, Meaning};
use check::types::Ty;
use ir::{Op, Scalar, Type, TypeData, Value};
use syntax::ast::ExprKind;
use syntax::{ExprId, Span};

use crate::body::Body;
use crate::lowerer::{Lowerer, ir_span};

impl Lowerer<'_> {
    /// The index of a text in the table. The first text is empty: it is the value of a string that was never
    /// set.
    pub(crate) fn text_number(&mut self, text: &str) -> u64 {
        if self.texts.is_empty() {
            self.texts.insert(String::new());
        }
        self.texts.insert_full(text.to_owned()).0 as u64
    }

    /// Inserts the table into the formats that need it.
    pub(crate) fn complete_formats(&mut self) {
        let texts = ir::interp::choice_of_texts(self.texts.iter().map(String::as_str));
        let empty = ir::interp::choice_of_texts([]);
        for func in self.module.funcs.values_mut() {
            for data in func.insts.values_mut() {
                if let Op::Printf(format) = &mut data.op
                    && format.contains(&empty)
                {
                    *format = format.replace(&empty, &texts).into();
                }
            }
        }
    }
}

impl Body<'_, '_, '_> {
    /// Lowers `printf(format, args…)`; vectors are passed as their lanes, floats as doubles, as in C.
    pub(crate) fn printf(&mut self, args: &[Arg], span: Span) -> Vec<Value> {
        let mut exprs = args.iter().filter_map(|a| match a {
            Arg::Expr(e) => Some(*e),
            Arg::Default(_) | Arg::Pack(_) => None,
        });
        let format = exprs.next().and_then(|e| self.string(e));
        let Some(mut format) = format else {
            return self.unsupported(span, "a format that is not a string literal is", Ty::VOID);
        };
        let mut operands = Vec::new();
        for e in exprs {
            if let Some(text) = self.string(e) {
                let Some(spliced) = with_text(&format, operands.len(), &text) else {
                    return self.unsupported(span, "a string where the format has no `%s` is", Ty::VOID);
                };
                format = spliced;
                continue;
            }
            if self.expr_ty(e) == Ty::STRING {
                let Some(chosen) = with_choice(&format, operands.len()) else {
                    return self.unsupported(span, "a string where the format has no `%s` is", Ty::VOID);
                };
                format = chosen;
                operands.extend(self.expr(e));
                continue;
            }
            for value in self.expr(e) {
                self.printf_operand(value, &mut operands);
            }
        }
        self.b.span = ir_span(span);
        self.b.effect(Op::Printf(format.into()), &operands);
        Vec::new()
    }

    fn string(&self, e: ExprId) -> Option<String> {
        match (&self.lw.program.ast.exprs[e].kind, &self.lw.program.tables.exprs[e].meaning) {
            (ExprKind::String(text), _) => Some(text.clone()),
            (_, Meaning::Same(inner)) => self.string(*inner),
            _ => None,
        }
    }

    fn printf_operand(&mut self, value: Value, out: &mut Vec<Value>) {
        let ty = self.b.func.ty(value);
        match self.b.types[ty] {
            TypeData::Scalar(Scalar::F16 | Scalar::F32) => {
                out.push(self.b.emit_typed(Op::Convert, &[value], Type::F64));
            }
            TypeData::Vector(_, n) | TypeData::Array(_, n) => {
                for k in 0..n {
                    let inner = self.b.emit(Op::Extract(k), &[value]);
                    self.printf_operand(inner, out);
                }
            }
            TypeData::Scalar(_) => out.push(value),
            TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {}
        }
    }
}

/// A format with the conversion at this index, if it is `%s`, replaced by text.
fn with_text(format: &str, number: usize, text: &str) -> Option<String> {
    let (start, end) = conversion(format, number)?;
    let flags = format[start + 1..end].strip_suffix('s')?;
    let (width, precision) = flags.split_once('.').unwrap_or((flags, ""));
    let text: String = match precision.parse() {
        Ok(n) => text.chars().take(n).collect(),
        Err(_) => text.to_owned(),
    };
    let columns = width.trim_start_matches('-').parse().unwrap_or(0).min(1000);
    let text = if width.starts_with('-') { format!("{text:<columns$}") } else { format!("{text:>columns$}") };
    Some(format!("{}{}{}", &format[..start], text.replace('%', "%%"), &format[end..]))
}

/// A format with the conversion at this index, if it is `%s`, replaced by a choice of texts.
fn with_choice(format: &str, number: usize) -> Option<String> {
    let (_, end) = conversion(format, number)?;
    let head = format[..end].strip_suffix('s')?;
    Some(format!("{head}{}{}", ir::interp::choice_of_texts([]), &format[end..]))
}

/// The range of the conversion at this index: from its `%` to after its letter.
fn conversion(format: &str, number: usize) -> Option<(usize, usize)> {
    let mut left = number;
    let mut at = 0;
    while let Some(found) = format[at..].find('%') {
        let start = at + found;
        let rest = &format[start + 1..];
        if rest.starts_with('%') {
            at = start + 2;
            continue;
        }
        let is_flag = |c: &char| matches!(c, '0'..='9' | '-' | '+' | ' ' | '#' | '.');
        let flags: usize = rest.chars().take_while(is_flag).count();
        let end = start + 1 + flags + rest[flags..].chars().next()?.len_utf8();
        if left == 0 {
            return Some((start, end));
        }
        left -= 1;
        at = end;
    }
    None
}
