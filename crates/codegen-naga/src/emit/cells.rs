//! Emits operations on cells and stacks: a cell is a variable, and a stack is a struct of a length and an
//! array of known size.
//!
//! The elements of a stack at and beyond its length are zero, so a stack that grows gains zeros. The run
//! reports an error for an index beyond the array.

use ir::{InstData, Op, Scalar, Type, TypeData, Value};
use naga::BinaryOperator as Bin;

use super::{Emitter, Held, Res};
use crate::build::Expr;

/// A part of a cell: its place, and the condition that it is in range unless that is certain.
struct Part {
    place: Expr,
    ty: Type,
    inside: Option<Expr>,
}

/// The operand of an addition to a place.
#[derive(Clone, Copy)]
enum Added {
    Value(Expr),
    Place(Expr),
}

/// An access to the elements of a stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnStacks {
    Copy,
    Add,
}

/// The reason why a part of a cell is needed.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Read,
    Write,
}

impl<'m> Emitter<'_, 'm> {
    pub(super) fn cell(&mut self, data: &'m InstData) -> Res {
        match data.op {
            Op::Local => {
                let (init, result) = (data.args[0], data.results[0]);
                let place = self.variable(result, self.ty(result))?;
                if let TypeData::Stack(_) = self.types[self.ty(init)] {
                    self.copy_stack(place, init)?;
                } else {
                    self.store_value(place, init)?;
                }
                self.values[result] = Held::Cell(place);
                Ok(())
            }
            Op::Load => {
                let result = data.results[0];
                if self.lasting.contains(result)
                    && let Held::Cell(place) = self.values[data.args[0]]
                    && (self.is_array(self.ty(result)) || self.is_same_stack(data.args[0], result))
                {
                    self.values[result] = Held::Place(place);
                    return Ok(());
                }
                let part = self.part_of(data, &data.args[1..], Purpose::Read)?;
                let shape = self.stack_shape_of(data.args[0], data.args.len() - 1);
                self.load_part(data, part, &shape)
            }
            Op::Store => {
                let (&x, indices) = data.args[1..].split_last().expect("a store has a value");
                let part = self.part_of(data, indices, Purpose::Read)?;
                self.when(part.inside, |e| match e.types[part.ty] {
                    TypeData::Stack(_) => {
                        let to = e.stack_shape_of(data.args[0], indices.len());
                        e.copy_stack_to(part.place, &to, x)
                    }
                    _ => e.store_value(part.place, x),
                })
            }
            Op::AddTo => {
                let (&x, indices) = data.args[1..].split_last().expect("an addition has a value");
                let part = self.part_of(data, indices, Purpose::Write)?;
                self.when(part.inside, |e| {
                    if let TypeData::Stack(_) = e.types[part.ty] {
                        let to = e.stack_shape_of(data.args[0], indices.len());
                        let Some(place) = e.stack_place(x) else { return Ok(()) };
                        let (ty, shape) = (e.ty(x), e.shape(x));
                        return e.each_of_stack((part.place, &to), (place, &shape), ty, OnStacks::Add);
                    }
                    let x = match e.values[x] {
                        Held::Place(place) => Added::Place(place),
                        _ => Added::Value(e.get(x)),
                    };
                    e.add(part.place, part.ty, x)
                })
            }
            _ => {
                // The cell of an inner stack is the place of that stack.
                let part = self.part_of(data, &data.args[1..], Purpose::Write)?;
                self.values[data.results[0]] = Held::Cell(part.place);
                Ok(())
            }
        }
    }

    /// Returns true if the value is a stack of the same shape as the cell.
    fn is_same_stack(&self, cell: Value, v: Value) -> bool {
        matches!(self.types[self.ty(v)], TypeData::Stack(_)) && self.shape(cell) == self.shape(v)
    }

    /// The shape of the stack that `n` indices lead to.
    fn stack_shape_of(&self, cell: Value, n: usize) -> Vec<u32> {
        self.shape(cell).get(n..).unwrap_or_default().to_vec()
    }

    /// The part of a cell that indices lead to. For a write, stacks are extended to contain the index.
    fn part_of(&mut self, data: &InstData, indices: &[Value], purpose: Purpose) -> Res<Part> {
        let cell = data.args[0];
        let mut place = match self.values[cell] {
            Held::Cell(place) | Held::Place(place) => place,
            _ => return self.refuse("a cell", "it has no place", data.span),
        };
        let mut ty = self.types.content(self.ty(cell)).unwrap_or(self.ty(cell));
        let mut shape = self.shape(cell);
        let mut inside = None;
        for &index in indices {
            let i = self.index(index);
            let is_stack = matches!(self.types[ty], TypeData::Stack(_));
            let n = if is_stack { shape.first().copied().unwrap_or(1).max(1) } else { self.length(ty) };
            let element = self.types.element(ty).unwrap_or(ty);
            let mut known = !is_stack && self.bounds.upper(index).is_some_and(|most| most < n as u64);
            let mut array = place;
            let mut test = None;
            if is_stack {
                let length = self.code.part(place, 0);
                array = self.code.part(place, 1);
                if purpose == Purpose::Write {
                    let capacity = self.code.u32(n);
                    let fits = self.code.binary(Bin::Less, i, capacity);
                    self.fail_unless(fits, "more values must be kept than there is room for", data.span);
                    let one = self.code.u32(1);
                    let clamped = self.clamp(i, n);
                    let wanted = self.code.binary(Bin::Add, clamped, one);
                    let old = self.code.load(length);
                    let new = self.code.math(naga::MathFunction::Max, &[old, wanted]);
                    self.code.store(length, new);
                    test = Some(fits);
                } else {
                    let length = self.code.load(length);
                    test = Some(self.code.binary(Bin::Less, i, length));
                }
            } else if let Some(naga::Literal::U32(k)) = self.code.literal_of(i) {
                known = k < n;
                if !known {
                    test = Some(self.code.literal(naga::Literal::Bool(false)));
                }
            } else if !known {
                let limit = self.code.u32(n);
                test = Some(self.code.binary(Bin::Less, i, limit));
            }
            if let Some(test) = test {
                inside = Some(match inside {
                    Some(before) => self.code.binary(Bin::LogicalAnd, before, test),
                    None => test,
                });
            }
            let at = if known { i } else { self.clamp(i, n) };
            let at = match self.code.literal_of(at) {
                Some(naga::Literal::U32(k)) if k >= n => self.code.u32(0),
                _ => at,
            };
            if is_stack || self.is_array(ty) || n > 1 {
                place = self.code.element(array, at);
            }
            if is_stack {
                shape = shape.get(1..).unwrap_or_default().to_vec();
            }
            ty = element;
        }
        Ok(Part { place, ty, inside })
    }

    /// Reports an error at run time unless `ok` holds.
    pub(super) fn fail_unless(&mut self, ok: Expr, message: &str, span: ir::Span) {
        let bad = self.code.unary(naga::UnaryOperator::LogicalNot, ok);
        self.fail_if(bad, message, span);
    }

    /// Reports an error at run time if `bad` holds.
    pub(super) fn fail_if(&mut self, bad: Expr, message: &str, span: ir::Span) {
        let report = self.cx.report();
        let site = self.cx.site(message.to_string(), span);
        let site = self.code.u32(site);
        self.code.when(bad, |c| {
            c.run(report, vec![site]);
        });
    }

    /// Adds to the contents of a place, number by number.
    fn add(&mut self, place: Expr, ty: Type, x: Added) -> Res {
        if let (TypeData::Scalar(s), _) | (TypeData::Vector(s, _), false) =
            (self.types[ty], self.is_array(ty))
        {
            let n = self.lanes(ty);
            let old = self.code.load(place);
            let x = match x {
                Added::Value(x) => x,
                Added::Place(from) => self.code.load(from),
            };
            let new = self.binary(Bin::Add, s, n, old, x);
            self.code.store(place, new);
            return Ok(());
        }
        let element = self.types.element(ty).unwrap_or(ty);
        let n = self.length(ty);
        if n <= 16 {
            for k in 0..n {
                let to = self.code.part(place, k);
                let part = match x {
                    Added::Value(x) => Added::Value(self.code.part(x, k)),
                    Added::Place(from) => Added::Place(self.code.part(from, k)),
                };
                self.add(to, element, part)?;
            }
            return Ok(());
        }
        let from = match x {
            Added::Place(from) => from,
            Added::Value(x) => {
                let naga_ty = self.cx.value_type(ty, &[], self.f.span)?;
                let from = self.code.local("added", naga_ty);
                self.store_expr(from, x)?;
                from
            }
        };
        self.each(n, |e, i| {
            let (to, from) = (e.code.element(place, i), e.code.element(from, i));
            e.add(to, element, Added::Place(from))
        })
    }

    // ---- stacks

    /// The place of a stack value; the empty stack has none.
    fn stack_place(&mut self, v: Value) -> Option<Expr> {
        match self.values[v] {
            Held::Place(place) | Held::Cell(place) => Some(place),
            _ => None,
        }
    }

    /// `stack[i]`, which is zero beyond the length.
    pub(super) fn index_stack(&mut self, data: &'m InstData) -> Res {
        let (stack, result) = (data.args[0], data.results[0]);
        let shape = self.shape(stack);
        let n = shape.first().copied().unwrap_or(1).max(1);
        let element = self.ty(result);
        let Some(place) = self.stack_place(stack) else {
            let ty = self.naga_type(result, data.span)?;
            let zero = self.code.zero(ty);
            return self.set(result, zero);
        };
        let i = self.index(data.args[1]);
        let (length, items) = (self.code.part(place, 0), self.code.part(place, 1));
        // A loop that exceeds its bound is reported but continues, so the bounds of the index must be checked
        // against the capacity.
        let has_room = self.bounds.upper(data.args[1]).is_some_and(|most| most < u64::from(n));
        let at = if has_room { i } else { self.clamp(i, n) };
        let part = self.code.element(items, at);
        let is_stack = matches!(self.types[element], TypeData::Stack(_));
        let is_inside = self.inside.contains(result) && !is_stack;
        let inside = (!is_inside).then(|| {
            let length = self.code.load(length);
            self.code.binary(Bin::Less, i, length)
        });
        let part = Part { place: part, ty: element, inside };
        self.load_part(data, part, shape.get(1..).unwrap_or_default())
    }

    /// Sets the result to what a part holds, a stack of the given shape or another value; to zero, if the part is out
    /// of range.
    fn load_part(&mut self, data: &'m InstData, part: Part, shape: &[u32]) -> Res {
        let (result, Part { place, ty, inside }) = (data.results[0], part);
        let is_stack = matches!(self.types[ty], TypeData::Stack(_));
        if is_stack || self.is_large_value(result)? {
            let to = self.variable(result, ty)?;
            let (naga_ty, to_shape) = (self.naga_type(result, data.span)?, self.shape(result));
            if inside.is_some() {
                self.store_zero(to, naga_ty)?;
            }
            self.when(inside, |e| match is_stack {
                true => e.each_of_stack((to, &to_shape), (place, shape), ty, OnStacks::Copy),
                false => e.copy_place(to, place, naga_ty),
            })?;
            self.values[result] = Held::Place(to);
            return Ok(());
        }
        let value = self.code.load(place);
        let value = match inside {
            Some(inside) => self.select_value(result, inside, value, None, data)?,
            None => value,
        };
        self.set(result, value)
    }

    /// Copies a stack value to a place, whose variable determines the size.
    pub(super) fn copy_stack(&mut self, to: Expr, from: Value) -> Res {
        // The place has the type of its local variable.
        let shape = self.variable_shape(to).unwrap_or_else(|| self.shape(from));
        self.copy_stack_to(to, &shape, from)
    }

    /// The shape of the stack in a variable.
    fn variable_shape(&self, place: Expr) -> Option<Vec<u32>> {
        self.code.local_type(place).map(|mut ty| {
            let mut shape = Vec::new();
            let types = &self.cx.out.types;
            while let naga::TypeInner::Struct { members, .. } = &types[ty].inner {
                let naga::TypeInner::Array { base, size: naga::ArraySize::Constant(n), .. } =
                    &types[members[1].ty].inner
                else {
                    break;
                };
                shape.push(n.get());
                ty = *base;
            }
            shape
        })
    }

    pub(super) fn copy_stack_to(&mut self, to: Expr, to_shape: &[u32], from: Value) -> Res {
        let ty = self.ty(from);
        let from_shape = self.shape(from);
        match self.stack_place(from) {
            Some(place) => self.each_of_stack((to, to_shape), (place, &from_shape), ty, OnStacks::Copy),
            None => {
                let naga_ty = self.cx.value_type(ty, to_shape, self.f.span)?;
                self.store_zero(to, naga_ty)
            }
        }
    }

    /// Copies a stack, where elements beyond its length become zero, or adds it to another; each with its shape.
    fn each_of_stack(
        &mut self,
        (to, to_shape): (Expr, &[u32]),
        (from, from_shape): (Expr, &[u32]),
        ty: Type,
        what: OnStacks,
    ) -> Res {
        let TypeData::Stack(element) = self.types[ty] else { return Ok(()) };
        let inner_to = to_shape.get(1..).unwrap_or_default();
        let inner_from = from_shape.get(1..).unwrap_or_default();
        let (room, have) = (to_shape.first().copied().unwrap_or(1), from_shape.first().copied().unwrap_or(1));
        let length = self.code.part(from, 0);
        let length = self.code.load(length);
        let most = self.code.u32(room.min(have).max(1));
        let length = self.code.math(naga::MathFunction::Min, &[length, most]);
        let mut new = length;
        if what == OnStacks::Copy {
            let naga_ty = self.cx.value_type(ty, to_shape, self.f.span)?;
            self.store_zero(to, naga_ty)?;
        }
        let to_length = self.code.part(to, 0);
        if what == OnStacks::Add {
            let old = self.code.load(to_length);
            new = self.code.math(naga::MathFunction::Max, &[old, length]);
        }
        self.code.store(to_length, new);
        let (to_items, from_items) = (self.code.part(to, 1), self.code.part(from, 1));
        self.each_below(length, |e, i| {
            let (to, from) = (e.code.element(to_items, i), e.code.element(from_items, i));
            match what {
                _ if matches!(e.types[element], TypeData::Stack(_)) => {
                    e.each_of_stack((to, inner_to), (from, inner_from), element, what)
                }
                OnStacks::Copy => {
                    let ty = e.cx.value_type(element, inner_to, e.f.span)?;
                    e.copy_place(to, from, ty)
                }
                OnStacks::Add => e.add(to, element, Added::Place(from)),
            }
        })
    }

    /// The type of iteration counters.
    pub(super) fn counter_type(&mut self) -> naga::Handle<naga::Type> {
        self.cx.lanes_type(Scalar::U32, 1)
    }
}
