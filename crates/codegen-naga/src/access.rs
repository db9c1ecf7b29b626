//! Emits functions that read and write memory.
//!
//! On every device, an index out of range reads zero and writes nothing. Each kind of access through an index
//! therefore becomes a small function that checks the index, `load_NAME` or `store_NAME`, shared by all
//! accesses of that kind.
//!
//! A float has no atomic operations, unless the device adds floats natively: the new value is exchanged for
//! the old one in a compare-exchange loop that repeats until no other thread has interfered. Parts of a word
//! are handled in the same way.

use ir::{AtomicOp, MemData, Scalar, Step, TypeData};
use naga::{AtomicFunction, BinaryOperator, Block, Expression, Handle, MathFunction, Statement, TypeInner};

use crate::build::{Code, Expr};
use crate::memory::{Access, Action, Res};
use crate::module::Cx;
use crate::plan::Base;
use crate::transfer::Spot;
use crate::types::scalar;
use crate::words::{Half, word_of_number};

/// The parameters of an access function.
pub(crate) struct Params {
    /// The index of the element.
    pub(crate) index: Expr,
    /// The dynamic indices along the path.
    pub(crate) dynamic: Vec<Expr>,
    /// The value to store, or the values to compare with and to store.
    pub(crate) values: Vec<Expr>,
}

impl Cx<'_> {
    /// The function for an access. Its parameters: the number of the buffer if there are several, the byte
    /// offset if the memory is words, the element's index, the dynamic indices, and the values.
    pub(crate) fn access(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Function>> {
        if let Some(&found) = self.accesses.get(access) {
            return Ok(found);
        }
        let made = if access.bases.len() > 1 {
            self.any_access(access, span)?
        } else {
            self.one_access(access, span)?
        };
        self.accesses.insert(access.clone(), made);
        Ok(made)
    }

    pub(crate) fn access_name(&mut self, access: &Access, owner: &str) -> String {
        let verb = match access.action {
            Action::Load => "load".to_string(),
            Action::Store => "store".to_string(),
            Action::Atomic(op) => format!("atomic_{}", op.name()),
        };
        let (mut name, mut path) = (format!("{verb}_{owner}"), owner.to_string());
        let mut ty = access.element;
        for &step in &access.path.0 {
            match (&self.ir.mem[ty], step) {
                (MemData::Struct { fields, .. }, Step::Static(k)) => {
                    let field = &fields[k as usize].0;
                    name.push_str(&format!("_{field}"));
                    path.push_str(&format!(".{field}"));
                    ty = fields[k as usize].1;
                }
                (MemData::Array(t, _), _) => ty = *t,
                _ => {}
            }
        }
        let name = self.names.unique(&name);
        // For a single buffer, name the place of its declaration.
        match access.bases[..] {
            [Base::Global(global) | Base::Pointee(global)] => {
                self.comment(&name, &path, self.ir.globals[global].span);
            }
            [Base::Null] => self.comment_words(&name, "of a null pointer: reads zero, writes nothing"),
            _ => {
                let owner = |b: &Base| match *b {
                    Base::Global(g) | Base::Pointee(g) => Some(format!("`{}`", self.ir.globals[g].name)),
                    Base::Null => None,
                };
                let owners: Vec<String> = access.bases.iter().filter_map(owner).collect();
                self.comment_words(&name, &format!("one of {}", owners.join(", ")));
            }
        }
        name
    }

    /// The type of the values that an access takes or returns.
    fn leaf_type(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Type>> {
        self.value_type(access.leaf, &[], span)
    }

    /// Adds the parameter for the place of memory that is accessed as words.
    pub(crate) fn offset_param(&mut self, code: &mut Code) -> Expr {
        let uint = self.lanes_type(Scalar::U32, 1);
        code.param("at", uint, None)
    }

    /// Adds the other parameters of an access function and returns them.
    pub(crate) fn access_params(&mut self, code: &mut Code, access: &Access, span: ir::Span) -> Res<Params> {
        let uint = self.lanes_type(Scalar::U32, 1);
        let index = code.param("index", uint, None);
        let n = access.path.0.iter().filter(|&&s| s == Step::Dynamic).count();
        let names = ["i", "j", "k", "l"];
        let dynamic = (0..n).map(|k| code.param(names[k.min(3)], uint, None)).collect();
        let leaf = self.leaf_type(access, span)?;
        let values = match access.action {
            Action::Load => Vec::new(),
            Action::Atomic(AtomicOp::CompareExchange) => {
                vec![code.param("expected", leaf, None), code.param("value", leaf, None)]
            }
            Action::Store | Action::Atomic(_) => vec![code.param("value", leaf, None)],
        };
        if access.action != Action::Store {
            code.result(leaf);
        }
        Ok(Params { index, dynamic, values })
    }

    /// Emits an access to one of several buffers, by a `switch` on the buffer's number.
    fn any_access(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Function>> {
        let name = self.access_name(access, "any");
        let mut code = Code::new(&name);
        let uint = self.lanes_type(Scalar::U32, 1);
        let which = code.param("which", uint, None);
        let raw = access.bases.iter().any(|b| self.slots.get(b).is_some_and(|s| s.raw));
        let at = raw.then(|| self.offset_param(&mut code));
        let Params { index, dynamic, values } = self.access_params(&mut code, access, span)?;
        let gives = access.action != Action::Store;
        let mut cases = Vec::new();
        for (k, &base) in access.bases.iter().enumerate() {
            if base == Base::Null {
                continue;
            }
            let one = Access { bases: vec![base], ..access.clone() };
            let function = self.access(&one, span)?;
            let before = code.enter();
            let args = at.into_iter().chain([index]).chain(dynamic.clone()).chain(values.clone()).collect();
            let result = code.call(function, args, gives);
            code.ret(result);
            let body = code.close(before);
            cases.push(naga::SwitchCase {
                value: naga::SwitchValue::U32(k as u32),
                body,
                fall_through: false,
            });
        }
        cases.push(naga::SwitchCase {
            value: naga::SwitchValue::Default,
            body: Block::new(),
            fall_through: false,
        });
        code.push(Statement::Switch { selector: which, cases });
        self.access_nothing(&mut code, access, span)?;
        Ok(self.add_function(code))
    }

    /// Ends a function with the result of an access that is out of range.
    pub(crate) fn access_nothing(&mut self, code: &mut Code, access: &Access, span: ir::Span) -> Res {
        let gives = access.action != Action::Store;
        let leaf = self.leaf_type(access, span)?;
        let zero = match self.ir.types[access.leaf] {
            _ if !gives => None,
            TypeData::Scalar(s) if s.is_float() => Some(crate::helpers::float(code, s, 0.0)),
            TypeData::Scalar(s) => Some(crate::helpers::integer(code, s, 0)),
            _ => Some(code.zero(leaf)),
        };
        code.ret(zero);
        Ok(())
    }

    /// Adds a finished function to the module.
    pub(crate) fn add_function(&mut self, code: Code) -> Handle<naga::Function> {
        self.out.functions.append(code.finish(), naga::Span::default())
    }

    fn one_access(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Function>> {
        let base = access.bases.first().copied().unwrap_or(Base::Null);
        let Some(slot) = self.slots.get(&base).cloned() else {
            let name = self.access_name(access, "nothing");
            let mut code = Code::new(&name);
            self.access_params(&mut code, access, span)?;
            self.access_nothing(&mut code, access, span)?;
            return Ok(self.add_function(code));
        };
        if slot.raw {
            return self.raw_access(access, &slot, span);
        }
        let name = self.access_name(access, &slot.name);
        let mut code = Code::new(&name);
        let Params { index, dynamic, values } = self.access_params(&mut code, access, span)?;
        let mut inside = if slot.is_single {
            let zero = code.u32(0);
            code.binary(BinaryOperator::Equal, index, zero)
        } else {
            let all = code.expr(Expression::GlobalVariable(slot.var));
            let len = code.expr(Expression::ArrayLength(all));
            code.binary(BinaryOperator::Less, index, len)
        };
        for (&k, (n, _)) in dynamic.iter().zip(self.select(access.element, &access.path).choices) {
            let n = code.u32(n);
            let below = code.binary(BinaryOperator::Less, k, n);
            inside = code.binary(BinaryOperator::LogicalAnd, inside, below);
        }
        let before = code.enter();
        let at = self.element(&mut code, &slot, Some(index));
        let at = self.walk(&mut code, at, &access.path, &dynamic);
        match access.action {
            Action::Load | Action::Store => {
                let value = values.first().copied();
                let loaded = self.transfer(&mut code, Spot::Typed(at), access.leaf, value, span)?;
                if loaded.is_some() {
                    code.ret(loaded);
                }
            }
            Action::Atomic(op) => {
                let s = self.ir.types.scalar_of(access.leaf).unwrap_or(Scalar::U32);
                let word = match self.out.types[at.ty].inner {
                    TypeInner::Atomic(naga::Scalar::F32) => Scalar::F32,
                    TypeInner::Atomic(naga::Scalar::I32) => Scalar::I32,
                    TypeInner::Atomic(naga::Scalar::I64) => Scalar::I64,
                    TypeInner::Atomic(naga::Scalar::U64) => Scalar::U64,
                    _ => Scalar::U32,
                };
                let old = self.atomic(&mut code, at.pointer, op, s, word, &values, span)?;
                if let Some(old) = old {
                    code.ret(Some(old));
                }
            }
        }
        self.end_access(code, access, (before, inside), span)
    }

    /// Emits an atomic operation on a number of kind `s` in an atomic word; returns the old value, or `None`
    /// if the emitted code returns from the function itself.
    #[expect(clippy::too_many_arguments, reason = "a place and an operation")]
    pub(crate) fn atomic(
        &mut self,
        code: &mut Code,
        pointer: Expr,
        op: AtomicOp,
        s: Scalar,
        word: Scalar,
        values: &[Expr],
        span: ir::Span,
    ) -> Res<Option<Expr>> {
        // A number and its word have equally many bits, unless the memory is words of 32 bits.
        if s.bytes() != word.bytes() {
            let what = format!("an atomic operation on a number of type `{}`", s.name());
            return Err(self.refuse(what, "its memory is seen as words of 32 bits", span));
        }
        let word_ty = self.lanes_type(word, 1);
        // Conversions of the number to the word's bits and back.
        let kind = scalar(word).kind;
        let bits = |code: &mut Code, x: Expr| if s == word { x } else { code.convert(x, kind, None) };
        let back =
            |code: &mut Code, x: Expr| if s == word { x } else { code.convert(x, scalar(s).kind, None) };
        let simple = match op {
            AtomicOp::Add => Some(AtomicFunction::Add),
            AtomicOp::And => Some(AtomicFunction::And),
            AtomicOp::Or => Some(AtomicFunction::InclusiveOr),
            AtomicOp::Xor => Some(AtomicFunction::ExclusiveOr),
            AtomicOp::Exchange => Some(AtomicFunction::Exchange { compare: None }),
            AtomicOp::Min if s == word => Some(AtomicFunction::Min),
            AtomicOp::Max if s == word => Some(AtomicFunction::Max),
            AtomicOp::Min | AtomicOp::Max | AtomicOp::CompareExchange => None,
        };
        let is_bitwise = matches!(op, AtomicOp::Exchange | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
        if let Some(fun) = simple
            && (!s.is_float() || is_bitwise || s == word)
        {
            let value = bits(code, values[0]);
            let result = code.atomic(pointer, fun, value, word_ty);
            return Ok(Some(back(code, result)));
        }
        if op == AtomicOp::CompareExchange {
            // Repeats until the exchange succeeds or the comparison fails: a weak exchange may also fail
            // spuriously.
            let exchanged = self.exchange_type(scalar(word));
            let (compare, value) = (bits(code, values[0]), bits(code, values[1]));
            code.repeat(|code| {
                let (old, done) = code.exchange(pointer, compare, value, exchanged);
                let differs = code.binary(BinaryOperator::NotEqual, old, compare);
                let end = code.binary(BinaryOperator::LogicalOr, done, differs);
                let result = back(code, old);
                code.when(end, |c| c.ret(Some(result)));
            });
            return Ok(None);
        }
        self.update(code, pointer, scalar(word), |code, old| {
            let number = back(code, old);
            let new = combined(code, op, number, values[0]);
            (number, bits(code, new))
        });
        Ok(None)
    }

    /// The type of the result of an exchange of atomic words.
    pub(crate) fn exchange_type(&mut self, word: naga::Scalar) -> Handle<naga::Type> {
        let ty = naga::PredeclaredType::AtomicCompareExchangeWeakResult(word);
        self.out.generate_predeclared_type(ty)
    }

    /// Replaces an atomic word by one that `new` computes from it, again and again until no other thread has
    /// interfered. The emitted code returns the number that `new` returns, too.
    fn update(
        &mut self,
        code: &mut Code,
        pointer: Expr,
        word: naga::Scalar,
        new: impl FnOnce(&mut Code, Expr) -> (Expr, Expr),
    ) {
        let exchanged = self.exchange_type(word);
        code.repeat(|code| {
            let old = code.load(pointer);
            let (number, new) = new(code, old);
            let (_, done) = code.exchange(pointer, old, new, exchanged);
            code.when(done, |c| c.ret(Some(number)));
        });
    }

    /// Emits an atomic operation on a number of kind `s` in the low bits of `word >> shift`; the emitted code
    /// returns the old value.
    pub(crate) fn atomic_part(
        &mut self,
        code: &mut Code,
        pointer: Expr,
        shift: Expr,
        op: AtomicOp,
        s: Scalar,
        values: &[Expr],
    ) {
        self.update(code, pointer, naga::Scalar::U32, |code, old| {
            let part = code.binary(BinaryOperator::ShiftRight, old, shift);
            let number = crate::words::number_of_word(code, s, part, None);
            let new = match op {
                AtomicOp::CompareExchange => {
                    let mask = code.u32((1 << s.bits()) - 1);
                    let wanted = word_of_number(code, s, values[0], Half::Low);
                    let found = code.binary(BinaryOperator::And, part, mask);
                    let is_it = code.binary(BinaryOperator::Equal, found, wanted);
                    code.select(is_it, values[1], number)
                }
                _ => combined(code, op, number, values[0]),
            };
            let new = word_of_number(code, s, new, Half::Low);
            let mask = code.u32((1 << s.bits()) - 1);
            // A sum of integers may have carried beyond its bits.
            let new = code.binary(BinaryOperator::And, new, mask);
            let new = code.binary(BinaryOperator::ShiftLeft, new, shift);
            let mask = code.binary(BinaryOperator::ShiftLeft, mask, shift);
            let others = code.unary(naga::UnaryOperator::BitwiseNot, mask);
            let others = code.binary(BinaryOperator::And, old, others);
            (number, code.binary(BinaryOperator::InclusiveOr, others, new))
        });
    }

    /// Ends an access function, whose block since `before` is the access, which takes place if it is `inside`.
    pub(crate) fn end_access(
        &mut self,
        mut code: Code,
        access: &Access,
        (before, inside): (Block, Expr),
        span: ir::Span,
    ) -> Res<Handle<naga::Function>> {
        let body = code.close(before);
        code.if_else(inside, body, Block::new());
        if access.action != Action::Store {
            self.access_nothing(&mut code, access, span)?;
        }
        Ok(self.add_function(code))
    }
}

/// The number that an atomic operation writes, other than a comparison.
fn combined(code: &mut Code, op: AtomicOp, old: Expr, x: Expr) -> Expr {
    match op {
        AtomicOp::Add => code.binary(BinaryOperator::Add, old, x),
        AtomicOp::Min => code.math(MathFunction::Min, &[old, x]),
        AtomicOp::Max => code.math(MathFunction::Max, &[old, x]),
        AtomicOp::And => code.binary(BinaryOperator::And, old, x),
        AtomicOp::Or => code.binary(BinaryOperator::InclusiveOr, old, x),
        AtomicOp::Xor => code.binary(BinaryOperator::ExclusiveOr, old, x),
        AtomicOp::Exchange | AtomicOp::CompareExchange => x,
    }
}
