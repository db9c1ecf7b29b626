//! Emits accesses of memory.
//!
//! Where lanes access places of their own, each lane has its own load or store; a lane that is not in the mask loads
//! from memory that is always zero, and stores to memory that is never read.

use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Type as ClifType, Value, types};
use ir::{AtomicOp, Scalar};
use native::emit::{UNIFORM, VARYING};
use native::lanes::operand::{El, Val, Vals};
use native::lanes::{Class, Writer as _};
use native::runtime::Helper;

use super::parts::{Parts, Scalars, form, scalar};
use super::{Writer, ins};
use crate::common::{chunks, constant_memory, plain};

impl Writer {
    pub(super) fn emit_load(&mut self, el: El, var: bool, at: Val, class: Class) -> Val {
        let flags = if class == Class::Constant { constant_memory() } else { plain() };
        let at = self.one(at);
        let var = var && self.lanes() > 1;
        let (ty, n) = form(el, var, self.lanes());
        let step = ty.bytes() as i32;
        let parts = (0..n).map(|k| ins!(self).load(ty, flags, at, k as i32 * step)).collect();
        self.register(el, var, parts)
    }

    pub(super) fn emit_store(&mut self, x: Val, at: Val) {
        let at = self.one(at);
        let parts = self.parts(x, x.var);
        let step = form(x.el, x.var, self.lanes()).0.bytes() as i32;
        for (k, part) in parts.into_iter().enumerate() {
            ins!(self).store(plain(), part, at, k as i32 * step);
        }
    }

    pub(super) fn emit_gather(&mut self, el: El, at: Val, mask: Val) -> Val {
        let zeros = self.settings.zero;
        let places = self.places(at, mask, |w| ins!(w).iconst(types::I64, zeros));
        let all: Scalars = places.into_iter().map(|at| ins!(self).load(scalar(el), plain(), at, 0)).collect();
        let parts = self.pack(el, &all);
        self.register(el, VARYING, parts)
    }

    pub(super) fn emit_scatter(&mut self, x: Val, at: Val, mask: Val) {
        let places = self.places(at, mask, |w| {
            let aside = w.aside.unwrap_or_else(|| w.frame(8));
            w.aside = Some(aside);
            aside
        });
        let numbers = self.scalars(x);
        for (at, x) in places.into_iter().zip(numbers) {
            ins!(self).store(plain(), x, at, 0);
        }
    }

    /// The address of each lane, or another one if it is not in the mask.
    fn places(&mut self, at: Val, mask: Val, other: impl FnOnce(&mut Writer) -> Value) -> Scalars {
        if mask.constant() == Some(1) {
            return self.scalars(at);
        }
        let other = other(self);
        let other = self.register(El::Ptr, UNIFORM, Parts::from_slice(&[other]));
        let at = self.emit_select(mask, at, other);
        self.scalars(at)
    }

    /// Stores consecutive numbers if a condition holds.
    fn store_if(&mut self, c: Value, numbers: &[Value], at: Value, offset: i32) {
        let (here, after) = (self.func.dfg.make_block(), self.func.dfg.make_block());
        ins!(self).brif(c, here, &[], after, &[]);
        self.func.layout.append_block(here);
        self.at = here;
        let mut offset = offset;
        for &x in numbers {
            ins!(self).store(plain(), x, at, offset);
            offset += self.func.dfg.value_type(x).bytes() as i32;
        }
        ins!(self).jump(after, &[]);
        self.func.layout.append_block(after);
        self.at = after;
    }

    /// See `native::lanes::Writer::columns`.
    pub(super) fn emit_columns(&mut self, el: El, n: u32, at: Val, step: i64) -> Vals {
        let bases = self.scalars(at);
        let offset = |lane: u32| if at.var { step } else { i64::from(lane) * step };
        let (ty, _) = form(el, VARYING, self.lanes());
        let mut columns: Vec<Parts> = vec![Parts::new(); n as usize];
        if ty.is_vector() && ty.lane_count() == n {
            for first in (0..self.lanes()).step_by(n as usize) {
                let lanes = first..first + n;
                let rows = lanes.map(|lane| self.load_far(ty, bases[lane as usize], offset(lane)));
                let rows = rows.collect();
                let part = self.transpose(ty, rows);
                columns.iter_mut().zip(part).for_each(|(column, x)| column.push(x));
            }
        } else {
            for (k, column) in (0..i64::from(n)).zip(&mut columns) {
                let place = |lane: u32| offset(lane) + k * el.bytes() as i64;
                let lanes = 0..self.lanes();
                let all = lanes.map(|lane| self.load_far(scalar(el), bases[lane as usize], place(lane)));
                let all: Scalars = all.collect();
                *column = self.pack(el, &all);
            }
        }
        columns.into_iter().map(|parts| self.register(el, VARYING, parts)).collect()
    }

    /// Stores adjacent numbers of each lane, at a stride of `step` bytes.
    pub(super) fn emit_store_columns(&mut self, vals: &[Val], at: Val, step: i64) {
        let (el, n) = (vals[0].el, vals.len());
        let at = self.one(at);
        let (ty, _) = form(el, VARYING, self.lanes());
        if ty.is_vector() && ty.lane_count() as usize == n {
            let columns: Vec<Parts> = vals.iter().map(|&x| self.parts(x, VARYING)).collect();
            for part in 0..columns[0].len() {
                let rows = self.transpose(ty, columns.iter().map(|column| column[part]).collect());
                for (k, x) in rows.into_iter().enumerate() {
                    self.store_far(x, at, (part * n + k) as i64 * step);
                }
            }
            return;
        }
        let columns: Vec<Scalars> = vals.iter().map(|&x| self.scalars(x)).collect();
        for lane in 0..self.lanes() as usize {
            for (k, column) in columns.iter().enumerate() {
                self.store_far(column[lane], at, lane as i64 * step + k as i64 * el.bytes() as i64);
            }
        }
    }

    fn load_far(&mut self, ty: ClifType, at: Value, offset: i64) -> Value {
        match i32::try_from(offset) {
            Ok(offset) => ins!(self).load(ty, plain(), at, offset),
            Err(_) => {
                let at = ins!(self).iadd_imm_s(at, offset);
                ins!(self).load(ty, plain(), at, 0)
            }
        }
    }

    fn store_far(&mut self, x: Value, at: Value, offset: i64) {
        match i32::try_from(offset) {
            Ok(offset) => ins!(self).store(plain(), x, at, offset),
            Err(_) => {
                let at = ins!(self).iadd_imm_s(at, offset);
                ins!(self).store(plain(), x, at, 0)
            }
        };
    }

    /// Stores to a row the numbers of `n` vectors, whose parts `row` holds one after the other.
    pub(super) fn emit_store_row(&mut self, row: Val, (el, n): (El, u32), at: Val, mask: Option<Val>) {
        let parts = self.registers_of(row);
        let at = self.one(at);
        let each = form(el, VARYING, self.lanes()).1;
        if n == 1 && mask.is_none() {
            let step = form(el, VARYING, self.lanes()).0.bytes() as i32;
            for (k, part) in parts.into_iter().enumerate() {
                ins!(self).store(plain(), part, at, k as i32 * step);
            }
            return;
        }
        let vals: Vals = parts.chunks(each).map(|parts| self.register(el, VARYING, parts.into())).collect();
        let all: Vec<Scalars> = vals.iter().map(|&v| self.scalars(v)).collect();
        let conditions = mask.filter(|mask| mask.constant() != Some(1)).map(|mask| self.conditions(mask));
        let bytes = (n as u64 * el.bytes()) as i32;
        for lane in 0..self.lanes() as usize {
            let numbers: Parts = all.iter().map(|numbers| numbers[lane]).collect();
            match &conditions {
                Some(conditions) => self.store_if(conditions[lane], &numbers, at, lane as i32 * bytes),
                None => {
                    for (k, &x) in numbers.iter().enumerate() {
                        let offset = lane as i32 * bytes + k as i32 * el.bytes() as i32;
                        ins!(self).store(plain(), x, at, offset);
                    }
                }
            }
        }
    }

    /// The values that a row holds.
    fn registers_of(&mut self, row: Val) -> Parts {
        self.parts(row, VARYING)
    }

    pub(super) fn emit_clear(&mut self, at: Val, bytes: u64) {
        if bytes > 256 {
            self.helper(Helper::Clear, &[at, Val::i64(bytes as i64)]);
            return;
        }
        let at = self.one(at);
        for (offset, ty) in chunks(bytes) {
            let x = if ty.is_vector() {
                let zero = ins!(self).iconst(types::I8, 0);
                ins!(self).splat(ty, zero)
            } else {
                ins!(self).iconst(ty, 0)
            };
            ins!(self).store(plain(), x, at, offset);
        }
    }

    pub(super) fn emit_copy(&mut self, to: Val, from: Val, bytes: u64) {
        if bytes > 256 {
            let (to, from) = (Val { wide: false, ..to }, Val { wide: false, ..from });
            self.helper(Helper::Copy, &[to, from, Val::i64(bytes as i64)]);
            return;
        }
        let (to, from) = (self.one(to), self.one(from));
        for (offset, ty) in chunks(bytes) {
            let x = ins!(self).load(ty, plain(), from, offset);
            ins!(self).store(plain(), x, to, offset);
        }
    }

    pub(super) fn emit_atomic(&mut self, s: Scalar, op: AtomicOp, at: Val, x: Val) -> Option<Val> {
        let signed = s.is_signed_int();
        let op = match op {
            AtomicOp::Add if s == Scalar::F32 => return self.helper(Helper::AddSingle, &[at, x]),
            AtomicOp::Add if s == Scalar::F64 => return self.helper(Helper::AddDouble, &[at, x]),
            AtomicOp::Add => AtomicRmwOp::Add,
            AtomicOp::And => AtomicRmwOp::And,
            AtomicOp::Or => AtomicRmwOp::Or,
            AtomicOp::Xor => AtomicRmwOp::Xor,
            AtomicOp::Exchange => AtomicRmwOp::Xchg,
            AtomicOp::Min if signed => AtomicRmwOp::Smin,
            AtomicOp::Min => AtomicRmwOp::Umin,
            AtomicOp::Max if signed => AtomicRmwOp::Smax,
            AtomicOp::Max => AtomicRmwOp::Umax,
            AtomicOp::CompareExchange => return None,
        };
        if !s.is_int() || s.bits() < 32 {
            return None;
        }
        let (at, number) = (self.one(at), self.one(x));
        let old = ins!(self).atomic_rmw(scalar(x.el), plain(), op, at, number);
        Some(self.register(x.el, UNIFORM, Parts::from_slice(&[old])))
    }
}
