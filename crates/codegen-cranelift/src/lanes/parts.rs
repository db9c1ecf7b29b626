//! The values that hold an operand.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    ConstantData, InstBuilder, StackSlotData, StackSlotKind, Type as ClifType, Value, types,
};
use native::emit::{UNIFORM, VARYING};
use native::lanes::operand::{El, Id, Val};
use smallvec::SmallVec;

use super::{Writer, ins};
use crate::common::plain;

/// The values that hold an operand.
pub(super) type Parts = SmallVec<[Value; 4]>;
/// The numbers of the lanes.
pub(super) type Scalars = SmallVec<[Value; 16]>;

/// The type of one number.
pub(super) fn scalar(el: El) -> ClifType {
    match el {
        El::I1 | El::I8 => types::I8,
        El::I16 => types::I16,
        El::I32 => types::I32,
        El::I64 | El::Ptr => types::I64,
        El::F32 => types::F32,
        El::F64 => types::F64,
    }
}

/// The type of the values that hold an operand, and their number.
pub(super) fn form(el: El, var: bool, lanes: u32) -> (ClifType, usize) {
    if !var || lanes == 1 {
        return (scalar(el), 1);
    }
    match el {
        El::I1 | El::I32 => (types::I32X4, lanes as usize / 4),
        El::F32 => (types::F32X4, lanes as usize / 4),
        El::I64 | El::Ptr => (types::I64X2, lanes as usize / 2),
        El::F64 => (types::F64X2, lanes as usize / 2),
        El::I8 | El::I16 => (scalar(el), lanes as usize),
    }
}

impl Writer {
    /// A new register.
    pub(super) fn register(&mut self, el: El, var: bool, parts: Parts) -> Val {
        self.registers.push(parts);
        Val { var, ..Val::uniform(Id::Reg(self.registers.len() as u32 - 1), el) }
    }

    /// The form of the values that hold an operand.
    pub(super) fn form(&self, el: El, var: bool) -> (ClifType, usize) {
        form(el, var, self.lanes)
    }

    /// The values that hold an operand, broadcast if `var`.
    pub(super) fn parts(&mut self, v: Val, var: bool) -> Parts {
        let var = var && self.lanes > 1;
        let (ty, n) = self.form(v.el, var);
        if let Id::Reg(k) = v.id
            && (v.var == var || self.lanes == 1)
        {
            return self.registers[k as usize].clone();
        }
        if v.id == Id::Iota {
            let all: Scalars =
                (0..i64::from(self.lanes)).map(|k| ins!(self).iconst(scalar(v.el), k)).collect();
            return if var { self.pack(v.el, &all) } else { Parts::from_slice(&all[..1]) };
        }
        if !ty.is_vector() {
            let one = self.one(v);
            return Parts::from_elem(one, n);
        }
        let one = match self.bits_of(v) {
            Some(bits) => self.constant_vector(v.el, ty, bits),
            None => {
                let one = self.one(v);
                let lane = if v.el == El::I1 { self.mask_lane(one) } else { one };
                ins!(self).splat(ty, lane)
            }
        };
        Parts::from_elem(one, n)
    }

    /// The bits of a constant.
    fn bits_of(&self, v: Val) -> Option<u64> {
        match v.id {
            Id::Bits(bits) => Some(bits),
            Id::Poison => Some(0),
            Id::Reg(_) | Id::Iota | Id::Name(_) | Id::Shape(_) => None,
        }
    }

    pub(super) fn constant_vector(&mut self, el: El, ty: ClifType, bits: u64) -> Value {
        let bits = if el == El::I1 { 0u64.wrapping_sub(bits & 1) } else { bits };
        let width = ty.lane_bits() as usize / 8;
        let bytes: Vec<u8> = (0..16).map(|k| bits.to_le_bytes()[k % width]).collect();
        let data = self.func.dfg.constants.insert(ConstantData::from(&bytes[..]));
        ins!(self).vconst(ty, data)
    }

    /// The value that holds a uniform operand.
    pub(super) fn one(&mut self, v: Val) -> Value {
        debug_assert!(!v.var || self.lanes == 1 || self.bits_of(v).is_some());
        match v.id {
            Id::Reg(k) => self.registers[k as usize][0],
            Id::Name("@rt_zero") => ins!(self).iconst(types::I64, self.settings.zero),
            Id::Name("@rt_empty") => ins!(self).iconst(types::I64, self.settings.empty),
            Id::Name("@rt_empty_at") => ins!(self).iconst(types::I64, self.settings.empty_at),
            Id::Name("@rt_counts") => ins!(self).iconst(types::I64, self.settings.counts),
            Id::Name(name) => {
                let known = self.names.iter().find(|known| known.0 == name);
                known.expect("a parameter of this kind of function").1
            }
            Id::Bits(_) | Id::Poison | Id::Iota | Id::Shape(_) => {
                let bits = self.bits_of(v).unwrap_or(0);
                match v.el {
                    El::F32 => ins!(self).f32const(Ieee32::with_bits(bits as u32)),
                    El::F64 => ins!(self).f64const(Ieee64::with_bits(bits)),
                    // An immediate may be sign-extended from its width or zero-extended.
                    el => {
                        let ty = scalar(el);
                        let bits =
                            if el == El::I1 { bits & 1 } else { bits & (u64::MAX >> (64 - ty.bits())) };
                        ins!(self).iconst(ty, bits as i64)
                    }
                }
            }
        }
    }

    /// A truth value as a lane of a mask.
    pub(super) fn mask_lane(&mut self, truth: Value) -> Value {
        let wide = ins!(self).uextend(types::I32, truth);
        ins!(self).ineg(wide)
    }

    /// The number of lane `k` of the parts of a varying operand.
    fn part_lane(&mut self, el: El, parts: &[Value], k: usize) -> Value {
        let (ty, _) = self.form(el, VARYING);
        if !ty.is_vector() {
            return parts[k];
        }
        let n = ty.lane_count() as usize;
        let x = ins!(self).extractlane(parts[k / n], (k % n) as u8);
        if el == El::I1 { self.truth(x) } else { x }
    }

    /// The truth value of a lane of a mask.
    fn truth(&mut self, lane: Value) -> Value {
        let byte = ins!(self).ireduce(types::I8, lane);
        let one = ins!(self).iconst(types::I8, 1);
        ins!(self).band(byte, one)
    }

    /// The number of each lane.
    pub(super) fn scalars(&mut self, v: Val) -> Scalars {
        if !v.var || self.lanes == 1 {
            let one = self.one(v);
            return Scalars::from_elem(one, self.lanes as usize);
        }
        if self.bits_of(v).is_some() {
            let one = self.one(Val { var: false, ..v });
            return Scalars::from_elem(one, self.lanes as usize);
        }
        let parts = self.parts(v, VARYING);
        (0..self.lanes as usize).map(|k| self.part_lane(v.el, &parts, k)).collect()
    }

    /// The condition of each lane, as an integer that is zero or not.
    pub(super) fn conditions(&mut self, c: Val) -> Scalars {
        if !c.var {
            return self.scalars(c);
        }
        let parts = self.parts(c, VARYING);
        (0..self.lanes as usize).map(|k| ins!(self).extractlane(parts[k / 4], (k % 4) as u8)).collect()
    }

    /// The parts of a varying operand, given the number of each lane.
    pub(super) fn pack(&mut self, el: El, all: &[Value]) -> Parts {
        let (ty, _) = self.form(el, VARYING);
        if !ty.is_vector() {
            return all.iter().copied().collect();
        }
        let mut parts = Parts::new();
        for lanes in all.chunks(ty.lane_count() as usize) {
            let mut vector = None;
            for (k, &x) in lanes.iter().enumerate() {
                let x = if el == El::I1 { ins!(self).uextend(types::I32, x) } else { x };
                vector = Some(match vector {
                    None => ins!(self).scalar_to_vector(ty, x),
                    Some(vector) => ins!(self).insertlane(vector, x, k as u8),
                });
            }
            let Some(vector) = vector else { continue };
            parts.push(if el == El::I1 { ins!(self).ineg(vector) } else { vector });
        }
        parts
    }

    /// Emits an operation lane by lane; `el` is the type of its result.
    pub(super) fn by_lane(
        &mut self,
        el: El,
        args: &[Val],
        mut one: impl FnMut(&mut Writer, &[Value]) -> Value,
    ) -> Val {
        if self.lanes == 1 || args.iter().all(|a| !a.var) {
            let args: Parts = args.iter().map(|&a| self.one(Val { var: false, ..a })).collect();
            let x = one(self, &args);
            return self.register(el, UNIFORM, Parts::from_slice(&[x]));
        }
        let args: SmallVec<[Scalars; 4]> = args.iter().map(|&a| self.scalars(a)).collect();
        let mut all = Scalars::new();
        for k in 0..self.lanes as usize {
            let args: Parts = args.iter().map(|a| a[k]).collect();
            all.push(one(self, &args));
        }
        let all = self.pack(el, &all);
        self.register(el, VARYING, all)
    }

    /// Emits an instruction for each of the parts of the operands; `el` is the type of its result.
    pub(super) fn by_part(
        &mut self,
        el: El,
        args: &[Val],
        mut one: impl FnMut(&mut Writer, &[Value]) -> Value,
    ) -> Val {
        let var = self.lanes > 1 && args.iter().any(|a| a.var);
        let args: SmallVec<[Parts; 4]> = args.iter().map(|&a| self.parts(a, var)).collect();
        let mut all = Parts::new();
        for k in 0..args[0].len() {
            let args: Parts = args.iter().map(|a| a[k]).collect();
            all.push(one(self, &args));
        }
        self.register(el, var, all)
    }

    /// The number of a lane that is known only when the code runs: the vector goes through memory.
    pub(super) fn extract(&mut self, v: Val, lane: Val) -> Value {
        if let Some(k) = lane.constant() {
            let parts = self.parts(v, VARYING);
            return self.part_lane(v.el, &parts, k as usize);
        }
        let (ty, _) = self.form(v.el, VARYING);
        let room = match self.stored.get(&v.id) {
            Some(&room) => room,
            None => self.store_parts(v),
        };
        let lane = self.one(lane);
        let lane = match self.func.dfg.value_type(lane) {
            types::I64 => lane,
            _ => ins!(self).uextend(types::I64, lane),
        };
        let of = if ty.is_vector() { ty.lane_type() } else { ty };
        let size = ins!(self).iconst(types::I64, i64::from(of.bytes()));
        let by = ins!(self).imul(lane, size);
        let at = ins!(self).iadd(room, by);
        let x = ins!(self).load(of, plain(), at, 0);
        if v.el == El::I1 { self.truth(x) } else { x }
    }

    /// See [`native::lanes::Writer::indexed`]: the parts are stored once, before the loop.
    pub(super) fn emit_indexed(&mut self, v: Val) -> Val {
        if !v.var || self.lanes == 1 || v.constant().is_some() {
            return v;
        }
        let (room, parts) = (self.store_parts(v), self.parts(v, VARYING));
        let indexed = Val { wide: v.wide, ..self.register(v.el, VARYING, parts) };
        self.stored.insert(indexed.id, room);
        indexed
    }

    /// Stores the parts of a varying operand to memory of the frame.
    fn store_parts(&mut self, v: Val) -> Value {
        let (ty, n) = self.form(v.el, VARYING);
        let room = self.frame(u64::from(ty.bytes()) * n as u64);
        for (k, part) in self.parts(v, VARYING).into_iter().enumerate() {
            ins!(self).store(plain(), part, room, k as i32 * ty.bytes() as i32);
        }
        room
    }

    /// The address of memory of the frame.
    pub(super) fn frame(&mut self, bytes: u64) -> Value {
        let bytes = (bytes as u32).max(1).next_multiple_of(8);
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
        let slot = self.func.create_sized_stack_slot(slot);
        // In the entry, so that it may be used anywhere.
        let mut cursor = FuncCursor::new(&mut self.func);
        cursor.goto_first_insertion_point(self.entry);
        cursor.ins().stack_addr(types::I64, slot, 0)
    }
}
