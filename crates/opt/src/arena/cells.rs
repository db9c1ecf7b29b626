//! Rewrites operations on cells that hold stacks, and reads of stacks.
//!
//! A cell holds the place of its stack's header. A path of indices leads through stacks to a place in the arena
//! and from there through arrays; where an index is out of range, nothing is written.
//!
//! A cell owns as many levels of its stacks as its accesses change in place ([`owned`]): these are copied where a
//! stack is stored in the cell or loaded from it, while deeper stacks are shared. A stack that is loaded from a
//! cell which nothing changes afterwards ([`ir::analysis::lasting`]) needs no copy either.

use ir::build::Builder;
use ir::{Defs, Function, InstData, Op, Scalar, Type, TypeData, Types, Value};
use rustc_hash::FxHashMap;

use super::records::Slot;
use super::rewrite::Rewriter;
use super::{Helper, plain, runtime};

/// A part of a cell's content.
pub(super) struct Part {
    /// Its place; `None` for the whole content.
    place: Option<Value>,
    /// The stack that is there, if it is one; the empty stack where there is nothing.
    stack: Option<Value>,
    ty: Type,
    /// The condition that it exists, as far as stacks and as far as arrays are concerned.
    in_stack: Option<Value>,
    in_array: Option<Value>,
}

/// The header of a cell's stack, as long as it is known.
#[derive(Clone, Copy)]
pub(super) struct Header {
    stack: Value,
    length: Value,
    elements: Value,
}

/// The purpose of an access.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Access,
    Grow,
}

fn both(b: &mut Builder, x: Option<Value>, y: Option<Value>) -> Option<Value> {
    match (x, y) {
        (Some(x), Some(y)) => Some(b.emit(Op::And, &[x, y])),
        (x, y) => x.or(y),
    }
}

/// For each cell of a stack, the number of levels of stacks, from the outside in, that are changed in place.
pub(super) fn owned(types: &Types, f: &Function, defs: &Defs) -> FxHashMap<Value, usize> {
    let mut owned: FxHashMap<Value, usize> = FxHashMap::default();
    f.walk(f.body(), &mut |inst| {
        let data = &f.insts[inst];
        if !matches!(data.op, Op::Store | Op::AddTo) {
            return;
        }
        let (mut cell, mut indices) = (data.args[0], data.args.len() - 2);
        while let Some(inner) = defs.inst(cell).map(|inst| &f.insts[inst]).filter(|d| d.op == Op::SubCell) {
            (cell, indices) = (inner.args[0], indices + 1);
        }
        let (mut depth, mut at) = (0, types.content(f.ty(cell)).expect("a cell has a content"));
        while let TypeData::Stack(inner) = types[at] {
            (depth, at) = (depth + 1, inner);
        }
        let x = data.args[data.args.len() - 1];
        let is_empty = defs.inst(x).is_some_and(|inst| matches!(f.insts[inst].op, Op::Zero | Op::Absent));
        // A stack that is added is added to all levels.
        let is_deep = data.op == Op::AddTo && types.has_stack(f.ty(x)) && !is_empty;
        let levels = if is_deep { depth } else { indices.min(depth) };
        let known = owned.entry(cell).or_default();
        *known = (*known).max(levels);
    });
    owned
}

impl Rewriter<'_, '_> {
    /// Rewrites an operation on a cell that holds a stack; false if there is none.
    pub(super) fn cell(&mut self, b: &mut Builder, data: &InstData) -> bool {
        let cell = match data.op {
            Op::Local => data.results[0],
            Op::Load | Op::Store | Op::AddTo | Op::SubCell => data.args[0],
            _ => return false,
        };
        let content = b.types.content(self.f.ty(cell)).expect("a cell has a content");
        if !b.types.has_stack(content) {
            return false;
        }
        match data.op {
            Op::Local => {
                let init = self.get(data.args[0]);
                let own =
                    if self.is_empty(data.args[0]) { init } else { self.copied(b, init, content, (cell, 0)) };
                let made = b.emit(Op::Local, &[own]);
                self.set(b, cell, made);
            }
            Op::SubCell => {
                let mut path = self.path(data.args[0]);
                path.extend(&data.args[1..]);
                self.sub_cells.insert(data.results[0], path);
            }
            Op::Load => {
                let part = self.part(b, cell, &data.args[1..], Purpose::Access);
                let mut v = self.value(b, &part);
                if let TypeData::Stack(_) = b.types[part.ty]
                    && !self.facts.lasting.contains(data.results[0])
                {
                    v = self.copied(b, v, part.ty, (cell, data.args.len() - 1));
                }
                self.set(b, data.results[0], v);
            }
            _ => self.change(b, data),
        }
        true
    }

    /// Rewrites `store` and `add_to`.
    fn change(&mut self, b: &mut Builder, data: &InstData) {
        let (&x, indices) = data.args[1..].split_last().expect("a value");
        let purpose = if data.op == Op::AddTo { Purpose::Grow } else { Purpose::Access };
        let part = self.part(b, data.args[0], indices, purpose);
        let adds = data.op == Op::AddTo;
        if adds && (self.is_empty(x) || self.is_identity(b, x)) {
            return;
        }
        let mut v = self.get(x);
        if let TypeData::Stack(_) = b.types[part.ty] {
            v = match adds {
                true => {
                    let old = self.value(b, &part);
                    self.cx.call(b, Helper::Add(part.ty), &[old, v])
                }
                false => self.copied(b, v, part.ty, (data.args[0], indices.len())),
            };
        }
        let Some(place) = part.place else {
            self.headers.remove(&self.path(data.args[0])[0]);
            let cell = self.root(data.args[0]);
            b.effect(Op::Store, &[cell, v]);
            return;
        };
        let inside = both(b, part.in_stack, part.in_array);
        let is_sum = adds && !matches!(b.types[part.ty], TypeData::Stack(_));
        self.cx.when(b, inside, &mut |cx, b| match is_sum {
            true => cx.add(b, place, v, part.ty),
            false => cx.write(b, place, v, part.ty),
        });
    }

    pub(super) fn header(&mut self, b: &mut Builder, stack: Value) -> Header {
        let length = self.cx.word(b, stack, runtime::LENGTH);
        let elements = self.cx.word(b, stack, runtime::ELEMENTS);
        Header { stack, length, elements }
    }

    /// Element `i` of a stack.
    pub(super) fn element(
        &mut self,
        b: &mut Builder,
        header: Header,
        i: Value,
        (ty, slot): (Type, Slot),
    ) -> Part {
        let Header { length, elements, .. } = header;
        let is_there = b.emit(Op::Lt, &[i, length]);
        let place = self.cx.at(b, elements, i, slot.size);
        let place = self.cx.within(b, place, slot.at);
        let mut stack = None;
        if let TypeData::Stack(_) = b.types[ty] {
            let (inner, none) = (self.cx.word(b, place, 0), b.u32(0));
            stack = Some(b.emit(Op::Select, &[is_there, inner, none]));
        }
        Part { place: Some(place), stack, ty, in_stack: Some(is_there), in_array: None }
    }

    /// The value of a part; what stands for it where there is none.
    pub(super) fn value(&mut self, b: &mut Builder, part: &Part) -> Value {
        if let Some(stack) = part.stack {
            return stack;
        }
        let (place, ty) = (part.place.expect("numbers are in stacks"), part.ty);
        let is_long = b.types.length(ty).is_some_and(|n| n > 4);
        match (part.in_stack, part.in_array) {
            (Some(inside), None) | (None, Some(inside)) if is_long => {
                let absent = part.in_stack.is_some();
                self.cx.choose(b, inside, &mut |cx, b| cx.read(b, place, ty), &mut |cx, b| {
                    cx.nothing(b, ty, absent)
                })
            }
            _ => {
                let mut v = self.cx.read(b, place, ty);
                for (inside, absent) in [(part.in_stack, true), (part.in_array, false)] {
                    if let Some(inside) = inside {
                        let nothing = self.cx.nothing(b, ty, absent);
                        let ty = plain(b.types, ty);
                        v = b.emit_typed(Op::Select, &[inside, v, nothing], ty);
                    }
                }
                v
            }
        }
    }

    /// The cell that a value is, or is a part of, and the indices of the part.
    fn path(&self, cell: Value) -> Vec<Value> {
        self.sub_cells.get(&cell).cloned().unwrap_or_else(|| vec![cell])
    }

    fn root(&self, cell: Value) -> Value {
        self.get(self.path(cell)[0])
    }

    /// The part of a cell that indices lead to. Stacks on the way grow if the access requires it.
    fn part(&mut self, b: &mut Builder, cell: Value, indices: &[Value], purpose: Purpose) -> Part {
        let mut path = self.path(cell);
        path.extend(indices);
        let root = path[0];
        let (made, mut ty) = (self.get(root), b.types.content(self.f.ty(root)).expect("a cell"));
        let mut header = self.headers.get(&root).copied();
        let mut stack = match header {
            Some(known) => known.stack,
            None => b.emit(Op::Load, &[made]),
        };
        let mut part = Part { place: None, stack: Some(stack), ty, in_stack: None, in_array: None };
        for &index in &path[1..] {
            let i = self.index_of(b, index);
            if let TypeData::Stack(element) = b.types[ty] {
                if purpose == Purpose::Grow {
                    let grown = self.cx.grown(b, stack, i, element);
                    let (place, inside) = (part.place, part.in_stack);
                    match place {
                        None => _ = b.effect(Op::Store, &[made, grown]),
                        Some(place) => {
                            self.cx.when(b, inside, &mut |cx, b| cx.set_word(b, place, 0, grown));
                        }
                    }
                    (stack, header) = (grown, None);
                }
                let known = match header.take() {
                    Some(known) => known,
                    None => self.header(b, stack),
                };
                if part.place.is_none() {
                    self.headers.insert(root, known);
                }
                let slot = Slot { size: self.cx.size(b.types, element), at: 0 };
                let next = self.element(b, known, i, (element, slot));
                part = Part { in_stack: both(b, part.in_stack, next.in_stack), ..next };
                stack = part.stack.unwrap_or(stack);
                ty = element;
            } else {
                let n = b.types.length(ty).unwrap_or(1);
                let n = b.u32(n);
                let is_there = b.emit(Op::Lt, &[i, n]);
                let element = b.types.element(ty).expect("an array or vector");
                let size = self.cx.size(b.types, element);
                let place = part.place.expect("arrays are in stacks");
                part.place = Some(self.cx.at(b, place, i, size));
                part.in_array = both(b, part.in_array, Some(is_there));
                ty = element;
            }
            part.ty = ty;
        }
        part
    }

    /// A copy of a stack as far as a cell owns it that has or will have it at the given number of indices.
    fn copied(&mut self, b: &mut Builder, stack: Value, ty: Type, (cell, indices): (Value, usize)) -> Value {
        let path = self.path(cell);
        let owned = self.owned.get(&path[0]).copied().unwrap_or(0);
        let Some(levels) = owned.checked_sub(path.len() - 1 + indices).filter(|&levels| levels > 0) else {
            return stack;
        };
        let mut leaf = ty;
        for _ in 0..levels {
            leaf = b.types.element(leaf).expect("a level of stacks");
        }
        let size = self.cx.size(b.types, leaf);
        let size = b.u32(size);
        self.cx.call(b, Helper::Copy(levels as u32 - 1), &[stack, size])
    }

    /// An index as a number of 32 bits, which is far beyond any memory if the index is.
    pub(super) fn index_of(&mut self, b: &mut Builder, v: Value) -> Value {
        let Some(s) = b.types.scalar_of(self.f.ty(v)) else { unreachable!("an index is a number") };
        let at = self.get(v);
        match s {
            Scalar::U32 => at,
            Scalar::I32 => b.emit_typed(Op::Bitcast, &[at], Type::U32),
            Scalar::U64 | Scalar::I64 => {
                if let Some(data) = self.facts.defs.inst(v).map(|inst| &self.f.insts[inst])
                    && data.op == Op::Convert
                    && b.types
                        .scalar_of(self.f.ty(data.args[0]))
                        .is_some_and(|s| s.is_int() && s.bits() <= 32)
                {
                    return self.index_of(b, data.args[0]);
                }
                let wide = match s {
                    Scalar::I64 => b.emit_typed(Op::Bitcast, &[at], Type::U64),
                    _ => at,
                };
                let far = b.constant(Scalar::U64, 1 << 31);
                let near = b.emit(Op::Lt, &[wide, far]);
                let low = b.emit_typed(Op::Convert, &[wide], Type::U32);
                let beyond = b.u32(u32::MAX);
                b.emit(Op::Select, &[near, low, beyond])
            }
            Scalar::I8 | Scalar::I16 => {
                let at = b.emit_typed(Op::Convert, &[at], Type::I32);
                b.emit_typed(Op::Bitcast, &[at], Type::U32)
            }
            _ => b.emit_typed(Op::Convert, &[at], Type::U32),
        }
    }

    /// Returns true if a value is zero: for a stack, the empty one.
    fn is_empty(&self, v: Value) -> bool {
        let op = self.facts.defs.inst(v).map(|inst| &self.f.insts[inst].op);
        matches!(op, Some(Op::Zero | Op::Absent)) && self.types_have_stack(v)
    }

    /// Returns true if adding a value changes nothing but the length of a stack.
    fn is_identity(&self, b: &Builder, mut v: Value) -> bool {
        let Some(s) = b.types.scalar_of(self.f.ty(v)) else { return false };
        while let Some(data) = self.facts.defs.inst(v).map(|inst| &self.f.insts[inst]) {
            match data.op {
                Op::Splat => v = data.args[0],
                Op::Const(bits) => {
                    return bits == ir::scalar::absent(s) && s.is_float() || bits == 0 && !s.is_float();
                }
                Op::Zero => return !s.is_float(),
                _ => return false,
            }
        }
        false
    }
}
