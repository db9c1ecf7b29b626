//! `printf`, strings as values, and their hashes.
//!
//! A string is an index into a table of the program's texts, so it can be passed, returned and selected like
//! an integer on every backend. A literal among the arguments of `printf` becomes part of the format; the
//! conversion of any other string holds the whole table, which is complete once all functions are lowered.

use check::tables::{Arg, Meaning};
use check::types::{Ty, TyKind};
use ir::printf::{self, Replacement, choice_of_texts};
use ir::{Builder, Func, Function, Op, Scalar, Slot, Type, TypeData, Types, Value, scalar};
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

    /// The function that gives the hash of a string; its body follows when all texts are known.
    fn hash_function(&mut self) -> Func {
        if let Some(func) = self.text_hash {
            return func;
        }
        let slot = |ty| Slot { ty, diff: false, linear: false, name: None };
        let func = Function {
            name: "getStringHash".into(),
            params: vec![slot(Type::U32)],
            results: vec![slot(Type::I32)],
            ..Function::default()
        };
        let func = self.module.funcs.push(func);
        self.text_hash = Some(func);
        func
    }

    /// Gives the function of hashes a body: a choice among the texts.
    pub(crate) fn complete_hashes(&mut self, types: &mut Types) {
        let Some(func) = self.text_hash else { return };
        let slots = self.module.funcs[func].results.clone();
        let mut b = Builder::new(types, "getStringHash");
        let index = b.param(self.module.funcs[func].params[0].clone());
        let mut hash = b.constant(Scalar::I32, 0);
        for (k, text) in self.texts.iter().enumerate() {
            let (own, number) = (b.constant(Scalar::I32, text_hash(text)), b.u32(k as u32));
            let is = b.emit(Op::Eq, &[index, number]);
            hash = b.emit(Op::Select, &[is, own, hash]);
        }
        self.module.funcs[func] = b.finish(vec![hash], slots);
    }

    /// Inserts the table into the formats that need it.
    pub(crate) fn complete_formats(&mut self) {
        let texts = choice_of_texts(self.texts.iter().map(String::as_str));
        let empty = choice_of_texts([]);
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

/// The hash of a text, of its bytes: `h ↦ c + (h << 6) + (h << 16) - h`, in 32 bits.
fn text_hash(text: &str) -> u64 {
    let step = |h: u32, c: u8| u32::from(c).wrapping_add(h << 6).wrapping_add(h << 16).wrapping_sub(h);
    scalar::canonical(Scalar::I32, text.bytes().fold(0, step).into())
}

impl Body<'_, '_, '_> {
    /// The hash of a string, given by its index in the table of texts.
    pub(crate) fn string_hash(&mut self, index: Value) -> Value {
        let known = self.constant_of(index).and_then(|k| self.lw.texts.get_index(k as usize));
        if let Some(hash) = known.map(|text| text_hash(text)) {
            return self.b.constant(Scalar::I32, hash);
        }
        let func = self.lw.hash_function();
        self.b.emit_typed(Op::Call(func), &[index], Type::I32)
    }

    /// Returns true if a string is neither a literal nor given to this function: it is chosen here, or read from memory.
    pub(crate) fn is_chosen(&self, index: Value) -> bool {
        let ops = self.b.func.insts.values().find(|data| data.results.contains(&index)).map(|data| &data.op);
        ops.is_some_and(|op| !matches!(op, Op::Const(_) | Op::Call(_)))
    }

    /// Lowers `printf(format, args…)`; vectors are passed as their lanes, floats as doubles, as in C.
    pub(crate) fn printf(&mut self, args: &[Arg], span: Span) -> Vec<Value> {
        let mut exprs = args.iter().filter_map(|a| match a {
            Arg::Expr(e) => Some(*e),
            Arg::Default(_) | Arg::Pack(_) => None,
        });
        let format = exprs.next().and_then(|e| self.string(e));
        let Some(format) = format else {
            return self.unsupported(span, "a format that is not a string literal is", Ty::VOID);
        };
        let mut operands = Vec::new();
        let mut arguments = Vec::new();
        for e in exprs {
            if let Some(text) = self.string(e) {
                arguments.push(Argument::Literal(text));
                continue;
            }
            let ty = self.expr_ty(e);
            if matches!(self.lw.program.types[ty], TyKind::Struct(..)) {
                let span = self.lw.program.ast.exprs[e].span;
                return self.unsupported(span, "a struct among the values of a text is", Ty::VOID);
            }
            let first = operands.len();
            for value in self.expr(e) {
                self.printf_operand(value, &mut operands);
            }
            let is_string = self.expr_ty(e) == Ty::STRING;
            let argument = || if is_string { Argument::String } else { Argument::Number };
            arguments.extend(operands[first..].iter().map(|_| argument()));
        }
        let Some(format) = with_strings(&format, arguments) else {
            return self.unsupported(span, "a string where the format has no `%s` is", Ty::VOID);
        };
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

/// An argument of one conversion.
enum Argument {
    Literal(String),
    String,
    Number,
}

/// A format with the literals among its arguments in it, and the conversions of other strings as choices of
/// texts. `None` if a string's conversion is not `%s`.
fn with_strings(format: &str, arguments: Vec<Argument>) -> Option<String> {
    let mut arguments = arguments.into_iter();
    let mut all_fit = true;
    let format = printf::replace(format, |conversion| {
        let argument = arguments.next()?;
        all_fit &= matches!(argument, Argument::Number) || conversion.is_of_text();
        match argument {
            Argument::Literal(text) => Some(Replacement::Text(conversion.print_text(&text))),
            Argument::String => Some(Replacement::Conversion(conversion.of_choice(&choice_of_texts([])))),
            Argument::Number => None,
        }
    });
    let all_fit = all_fit && arguments.all(|argument| matches!(argument, Argument::Number));
    all_fit.then_some(format)
}
