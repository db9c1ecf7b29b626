//! Emits accesses to global memory, barriers, `printf`, and operations that stop a run.

use ir::{InstData, Math, Op, Path, Rest, Scalar, TypeData, Value};
use naga::{Barrier, BinaryOperator as Bin, Expression, Statement};

use super::{Buffer, Emitter, Held, Res};
use crate::build::Expr;
use crate::memory::{Access, Action};
use crate::plan::Base;
use crate::transfer::Spot;
use crate::words::{Half, word_of_number};

impl<'m> Emitter<'_, 'm> {
    pub(super) fn world(&mut self, data: &'m InstData) -> Res {
        match &data.op {
            Op::GlobalRef(global) => {
                let buffer = Buffer { bases: vec![Base::Global(*global)], which: None, at: None };
                self.values[data.results[0]] = Held::Buffer(buffer);
                Ok(())
            }
            Op::BufferLoad(path) => {
                let result = data.results[0];
                if let TypeData::Buffer(_) = self.types[self.ty(result)] {
                    // The global is a pointer, and its pointee is bound.
                    let bases = self.bases_of(result);
                    self.values[result] = Held::Buffer(Buffer { bases, which: None, at: None });
                    return Ok(());
                }
                let e = self.access(data, path, Action::Load, &data.args, &[], result)?;
                match e {
                    Some(e) => self.set(result, e),
                    None => Ok(()),
                }
            }
            Op::BufferStore(path) => {
                let (&x, args) = data.args.split_last().expect("a store has a value");
                self.access(data, path, Action::Store, args, &[x], x)?;
                Ok(())
            }
            Op::Atomic(path, op) => {
                let (args, values) = data.args.split_at(data.args.len() - op.n_values());
                let result = data.results[0];
                match self.access(data, path, Action::Atomic(*op), args, values, result)? {
                    Some(e) => self.set(result, e),
                    None => Ok(()),
                }
            }
            Op::BufferLen => self.buffer_len(data),
            Op::BufferOffset | Op::BufferCast(_) => {
                let mut buffer = self.buffer(data.args[0]);
                let mut by = self.low(data.args[1]);
                // If the memory is words, as for casts, offsets count bytes.
                if data.op == Op::BufferOffset && self.is_raw(&buffer) {
                    let TypeData::Buffer(element) = self.types[self.ty(data.args[0])] else { return Ok(()) };
                    let size = self.code.u32(self.cx.ir.mem.size(element) as u32);
                    by = self.code.binary(Bin::Multiply, by, size);
                }
                buffer.at = Some(match buffer.at {
                    Some(at) => self.code.binary(Bin::Add, at, by),
                    None => by,
                });
                self.values[data.results[0]] = Held::Buffer(buffer);
                Ok(())
            }
            Op::OnDevice => {
                let yes = self.code.literal(naga::Literal::Bool(true));
                self.set(data.results[0], yes)
            }
            Op::BufferAddress => self.buffer_address(data),
            Op::Barrier => {
                self.code.push(Statement::ControlBarrier(Barrier::STORAGE | Barrier::WORK_GROUP));
                Ok(())
            }
            Op::Builtin(builtin) => {
                let e = self.builtin(*builtin)?;
                self.set(data.results[0], e)
            }
            Op::Printf(format) => self.printf(data, format),
            Op::Assert(message) => {
                let c = self.get(data.args[0]);
                self.fail_unless(c, message, data.span);
                Ok(())
            }
            Op::CheckFinite(what) => {
                let x = self.get(data.args[0]);
                let (s, n) = (self.scalar(data.args[0]), self.lanes(self.ty(data.args[0])));
                for k in 0..n {
                    let lane = if n == 1 { x } else { self.code.part(x, k) };
                    let nan = self.classify(Math::IsNan, s, 1, lane);
                    let infinite = self.classify(Math::IsInf, s, 1, lane);
                    let bad = self.code.binary(Bin::LogicalOr, nan, infinite);
                    self.fail_if(bad, &format!("`{what}` gives a derivative that is not finite"), data.span);
                }
                self.set(data.results[0], x)
            }
            _ => self.refuse("an operation", "it is none of memory", data.span),
        }
    }

    /// Writes a record to the log, which the host prints.
    fn printf(&mut self, data: &InstData, format: &str) -> Res {
        let (mut args, mut words) = (Vec::new(), Vec::new());
        for &arg in &data.args {
            let shown = self.scalar(arg);
            let def = self.bounds.def(arg).filter(|_| self.printed.contains(arg));
            let def = def.map(|def| &self.f.insts[def]);
            let constant = def.and_then(|def| super::constant_bits(self.types, self.f, def));
            let (s, x) = match constant {
                Some(bits) => {
                    let (s, small) = super::printed_constant(Some(shown), bits).unwrap_or((shown, bits));
                    (s, self.constant(s, small))
                }
                None => {
                    let from = def.map_or(arg, |def| def.args[0]);
                    let s = self.scalar(from);
                    self.cx.check_scalar(s, data.span)?;
                    (s, self.get(from))
                }
            };
            if s.bytes() == 8 {
                self.cx.check_scalar(Scalar::U64, data.span)?;
            }
            args.push((s, shown));
            words.push(word_of_number(&mut self.code, s, x, Half::Low));
            if s.bytes() == 8 {
                words.push(word_of_number(&mut self.code, s, x, Half::High));
            }
        }
        let function = self.cx.printer(words.len() as u32);
        let site = self.cx.print_site(format, args, words.len() as u32);
        let site = self.code.u32(site);
        self.code.run(function, std::iter::once(site).chain(words).collect());
        Ok(())
    }

    /// Returns true if an index is an unsigned 32-bit number, or is widened from one.
    fn is_unsigned(&self, v: Value) -> bool {
        let from = self.bounds.def(v).and_then(|def| super::widened(self.types, self.f, &self.f.insts[def]));
        self.scalar(from.unwrap_or(v)) == Scalar::U32
    }

    /// Returns true if the handle's offset counts bytes.
    fn is_raw(&self, buffer: &Buffer) -> bool {
        buffer.bases.iter().any(|b| self.cx.slots.get(b).is_some_and(|s| s.raw))
    }

    /// Emits a load, a store or an atomic operation; returns the value that was in memory, if the action
    /// yields one.
    fn access(
        &mut self,
        data: &InstData,
        path: &Path,
        action: Action,
        args: &[Value],
        values: &[Value],
        typed: Value,
    ) -> Res<Option<Expr>> {
        let buffer = self.buffer(args[0]);
        let TypeData::Buffer(element) = self.types[self.ty(args[0])] else { return Ok(None) };
        let leaf = self.ty(typed);
        let raw = self.is_raw(&buffer);
        let choices = self.cx.select(element, path).choices;
        let dynamic = &args[2..];
        let in_range = |(&k, &(n, _)): (&Value, &(u32, u64))| {
            self.bounds.upper(k).is_some_and(|most| most < u64::from(n))
        };
        let certain = dynamic.iter().zip(&choices).all(in_range);
        let is_first = self.bounds.constant(args[1]) == Some(0);
        if let ([base], None, true, true, false) = (&buffer.bases[..], buffer.at, certain, is_first, raw)
            && let Some(slot) = self.cx.slots.get(base)
            && slot.is_single
            && !matches!(action, Action::Atomic(_))
        {
            let indices: Vec<Expr> = dynamic.iter().map(|&k| self.index(k)).collect();
            let value = values.first().map(|&value| self.get(value));
            let at = self.cx.place_in(&mut self.code, *base, path, &indices);
            return self.cx.transfer(&mut self.code, Spot::Typed(at), leaf, value, data.span);
        }
        let def = self.bounds.def(args[0]).map(|def| &self.f.insts[def].op);
        let whole = matches!(def, Some(Op::BufferCast(Rest::Dropped)));
        let at = buffer.at.unwrap_or_else(|| self.code.u32(0));
        let align = if raw { self.code.divisor(at) } else { 4 };
        let (bases, path) = (buffer.bases.clone(), path.clone());
        let access = Access { bases, element, path, whole, align, leaf, action };
        let function = self.cx.access(&access, data.span)?;
        let mut arguments = Vec::new();
        if buffer.bases.len() > 1 {
            let which = match buffer.which {
                Some(which) => which,
                None => self.code.u32(0),
            };
            arguments.push(which);
        }
        let mut index = self.index(args[1]);
        // An unsigned index must not wrap to a place before the pointer.
        if (raw || buffer.at.is_some()) && self.is_unsigned(args[1]) && self.bounds.upper(args[1]).is_none() {
            let far = self.code.u32(super::FAR);
            index = self.code.math(naga::MathFunction::Min, &[index, far]);
        }
        if raw {
            arguments.push(at);
        } else if let Some(at) = buffer.at {
            index = self.code.binary(Bin::Add, index, at);
        }
        arguments.push(index);
        for &k in dynamic {
            let k = self.index(k);
            arguments.push(k);
        }
        for &value in values {
            let value = self.get(value);
            arguments.push(value);
        }
        Ok(self.code.call(function, arguments, action != Action::Store))
    }

    /// The address of a handle: the number of its memory, from 1, in the bits above 40 bits of byte offset; 0
    /// for null. Devices have no pointers, but addresses can be compared and subtracted from each other. The
    /// address is held in two words, since not all languages have 64-bit integers.
    fn buffer_address(&mut self, data: &InstData) -> Res {
        let buffer = self.buffer(data.args[0]);
        let TypeData::Buffer(element) = self.types[self.ty(data.args[0])] else { return Ok(()) };
        let zero = self.code.u32(0);
        let (low, above) = match buffer.at {
            Some(at) => {
                let size = if self.is_raw(&buffer) { 1 } else { self.cx.ir.mem.size(element) };
                let Ok(size) = u32::try_from(size) else {
                    return self.refuse(
                        "a pointer to elements of 4 GiB",
                        "it counts bytes in 32 bits",
                        data.span,
                    );
                };
                self.bytes_before(at, size)
            }
            None => (zero, zero),
        };
        let (mut all_low, mut all_high) = (zero, zero);
        for (k, base) in buffer.bases.iter().enumerate() {
            let Some(number) = self.cx.plan.uses.get_index_of(base) else { continue };
            let start = self.code.u32((number as u32 + 1) << 8);
            let high = self.code.binary(Bin::Add, start, above);
            (all_low, all_high) = match buffer.which {
                Some(which) => {
                    let k = self.code.u32(k as u32);
                    let is = self.code.binary(Bin::Equal, which, k);
                    (self.code.select(is, low, all_low), self.code.select(is, high, all_high))
                }
                None => (low, high),
            };
        }
        let ty = self.cx.value_type(self.ty(data.results[0]), &[], data.span)?;
        let words = self.code.compose(ty, vec![all_low, all_high]);
        self.set(data.results[0], words)
    }

    /// `at · size` in two words, for an index that may be negative: the unsigned product, computed from
    /// 16-bit halves, minus `size` in the high word if the index is negative.
    fn bytes_before(&mut self, at: Expr, size: u32) -> (Expr, Expr) {
        let all = self.code.u32(size);
        let low = self.code.binary(Bin::Multiply, at, all);
        let (sixteen, mask) = (self.code.u32(16), self.code.u32(0xffff));
        let (x0, x1) = (self.code.binary(Bin::And, at, mask), self.code.binary(Bin::ShiftRight, at, sixteen));
        let (y0, y1) = (self.code.u32(size & 0xffff), self.code.u32(size >> 16));
        let p00 = self.code.binary(Bin::Multiply, x0, y0);
        let p10 = self.code.binary(Bin::Multiply, x1, y0);
        let carry = self.code.binary(Bin::ShiftRight, p00, sixteen);
        let middle = self.code.binary(Bin::Add, p10, carry);
        let mut high = self.code.binary(Bin::ShiftRight, middle, sixteen);
        if size >> 16 != 0 {
            let p01 = self.code.binary(Bin::Multiply, x0, y1);
            let rest = self.code.binary(Bin::And, middle, mask);
            let rest = self.code.binary(Bin::Add, p01, rest);
            let rest = self.code.binary(Bin::ShiftRight, rest, sixteen);
            let p11 = self.code.binary(Bin::Multiply, x1, y1);
            high = self.code.binary(Bin::Add, high, p11);
            high = self.code.binary(Bin::Add, high, rest);
        }
        let signed = self.code.convert(at, naga::ScalarKind::Sint, None);
        let none = self.code.literal(naga::Literal::I32(0));
        let is_before = self.code.binary(Bin::Less, signed, none);
        let less = self.code.binary(Bin::Subtract, high, all);
        (low, self.code.select(is_before, less, high))
    }

    /// The number of elements from the handle to the end of its memory.
    fn buffer_len(&mut self, data: &InstData) -> Res {
        let buffer = self.buffer(data.args[0]);
        let TypeData::Buffer(element) = self.types[self.ty(data.args[0])] else { return Ok(()) };
        let size = self.cx.ir.mem.size(element).max(1) as u32;
        let mut len = self.code.u32(0);
        for (k, base) in buffer.bases.iter().enumerate() {
            let Some(slot) = self.cx.slots.get(base).cloned() else { continue };
            let mut own = match (slot.is_single, slot.raw) {
                (true, false) => self.code.u32(1),
                (true, true) => self.code.u32(self.cx.ir.mem.size(slot.element) as u32),
                (false, raw) => {
                    let all = self.code.expr(Expression::GlobalVariable(slot.var));
                    let n = self.code.expr(Expression::ArrayLength(all));
                    if raw {
                        let four = self.code.u32(4);
                        self.code.binary(Bin::Multiply, n, four)
                    } else {
                        n
                    }
                }
            };
            if let Some(at) = buffer.at {
                let rest = self.code.binary(Bin::Subtract, own, at);
                let some = self.code.binary(Bin::LessEqual, at, own);
                let zero = self.code.u32(0);
                own = self.code.select(some, rest, zero);
            }
            if slot.raw {
                let size = self.code.u32(size);
                own = self.code.binary(Bin::Divide, own, size);
            }
            len = match buffer.which {
                Some(which) => {
                    let k = self.code.u32(k as u32);
                    let is = self.code.binary(Bin::Equal, which, k);
                    self.code.select(is, own, len)
                }
                None => own,
            };
        }
        self.set(data.results[0], len)
    }
}
