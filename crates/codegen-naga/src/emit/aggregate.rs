//! Emits operations on vectors, arrays and handles as values, and selections between values.

use ir::{InstData, Op, Scalar, TypeData, Value};
use naga::{BinaryOperator as Bin, Block, Literal};

use super::{Buffer, Emitter, Held, Res, Row};
use crate::build::Expr;
use crate::plan::Base;

impl<'m> Emitter<'_, 'm> {
    pub(super) fn aggregate(&mut self, data: &'m InstData) -> Res {
        let result = data.results[0];
        let ty = self.ty(result);
        match &data.op {
            Op::Zero => self.zero(data, result),
            Op::Detach => {
                let held = self.values[data.args[0]].clone();
                self.values[result] = held;
                Ok(())
            }
            Op::Select => self.choose(data),
            Op::Construct | Op::Splat if self.holds_buffers(result) => {
                let n = self.length(ty) as usize;
                let args: Vec<Value> = data.args.iter().copied().cycle().take(n).collect();
                let buffers = args.iter().map(|&a| self.buffer(a)).collect();
                self.values[result] = Held::Buffers(buffers);
                Ok(())
            }
            Op::Construct => {
                let parts: Vec<Expr> = data.args.iter().map(|&a| self.get(a)).collect();
                if self.lanes(ty) == 1 && matches!(self.types[ty], TypeData::Vector(..)) {
                    return self.set(result, parts[0]);
                }
                let whole = self.naga_type(result, data.span)?;
                let e =
                    if parts.is_empty() { self.code.zero(whole) } else { self.code.compose(whole, parts) };
                self.set(result, e)
            }
            Op::Splat => {
                let x = self.get(data.args[0]);
                let n = self.length(ty);
                if self.is_array(ty) {
                    let whole = self.naga_type(result, data.span)?;
                    if n > 64 {
                        return self.splat_loop(result, n, x);
                    }
                    let e = self.code.compose(whole, vec![x; n.max(1) as usize]);
                    return self.set(result, e);
                }
                let e = self.code.splat(n, x);
                self.set(result, e)
            }
            Op::Extract(k) => {
                if let Held::Buffers(buffers) = &self.values[data.args[0]] {
                    let found = buffers.get(*k as usize).cloned().unwrap_or_else(Buffer::null);
                    self.values[result] = Held::Buffer(found);
                    return Ok(());
                }
                if self.length(self.ty(data.args[0])) == 1 && !self.is_array(self.ty(data.args[0])) {
                    let e = self.get(data.args[0]);
                    return self.set(result, e);
                }
                let k = self.code.u32(*k);
                self.element(data, k, None)
            }
            Op::Insert(k) => self.insert(data, *k),
            Op::Index => self.index_op(data),
            _ => self.refuse("an operation", "it makes no vector or array", data.span),
        }
    }

    fn holds_buffers(&self, v: Value) -> bool {
        crate::plan::holds_handle(self.cx.ir, self.ty(v))
    }

    fn zero(&mut self, data: &InstData, result: Value) -> Res {
        let ty = self.ty(result);
        match self.types[ty] {
            TypeData::Buffer(_) => {
                self.values[result] = Held::Buffer(Buffer::null());
                return Ok(());
            }
            TypeData::Array(_, n) if self.holds_buffers(result) => {
                self.values[result] = Held::Buffers(vec![Buffer::null(); n as usize]);
                return Ok(());
            }
            TypeData::Scalar(s) => {
                self.cx.check_scalar(s, data.span)?;
                let e = self.constant(s, 0);
                return self.set(result, e);
            }
            _ => {}
        }
        let whole = self.naga_type(result, data.span)?;
        let e = self.code.zero(whole);
        self.set(result, e)
    }

    /// An array with all elements equal, filled by a loop.
    fn splat_loop(&mut self, result: Value, n: u32, x: Expr) -> Res {
        let place = self.variable(result, self.ty(result))?;
        self.each(n, |e, i| {
            let part = e.code.element(place, i);
            e.code.store(part, x);
            Ok(())
        })?;
        self.values[result] = Held::Place(place);
        Ok(())
    }

    /// Emits a loop over the numbers below `n`.
    pub(super) fn each(&mut self, n: u32, body: impl FnOnce(&mut Self, Expr) -> Res) -> Res {
        let n = self.code.u32(n);
        self.each_below(n, body)
    }

    /// Emits a loop as [`Self::each`] does, with `per_trip` numbers in each iteration.
    pub(super) fn each_of(
        &mut self,
        n: u32,
        per_trip: u32,
        mut body: impl FnMut(&mut Self, Expr) -> Res,
    ) -> Res {
        if per_trip == 1 || n < 2 * per_trip {
            return self.each(n, body);
        }
        let trips = n / per_trip;
        self.each(trips, |e, i| {
            let by = e.code.u32(per_trip);
            let first = e.code.binary(Bin::Multiply, i, by);
            for k in 0..per_trip {
                let k = e.code.u32(k);
                let at = e.code.binary(Bin::Add, first, k);
                body(e, at)?;
            }
            Ok(())
        })?;
        for k in trips * per_trip..n {
            let k = self.code.u32(k);
            body(self, k)?;
        }
        Ok(())
    }

    /// Emits a loop over the numbers below the value of `n`.
    pub(super) fn each_below(&mut self, n: Expr, body: impl FnOnce(&mut Self, Expr) -> Res) -> Res {
        let uint = self.cx.lanes_type(Scalar::U32, 1);
        let counter = self.code.local("i", uint);
        let (zero, one) = (self.code.u32(0), self.code.u32(1));
        self.code.store(counter, zero);
        let body = self.scoped(|e| {
            let i = e.code.load(counter);
            let end = e.code.binary(Bin::GreaterEqual, i, n);
            e.code.break_if(end);
            body(e, i)?;
            let next = e.code.binary(Bin::Add, i, one);
            e.code.store(counter, next);
            Ok(())
        })?;
        self.code.push(naga::Statement::Loop { body, continuing: Block::new(), break_if: None });
        self.check_counter(counter, n, self.f.span);
        Ok(())
    }

    fn insert(&mut self, data: &'m InstData, k: u32) -> Res {
        let (result, whole, part) = (data.results[0], data.args[0], data.args[1]);
        let ty = self.ty(result);
        if let (Held::Buffers(mut buffers), Held::Buffer(new)) =
            (self.values[whole].clone(), self.values[part].clone())
        {
            if let Some(place) = buffers.get_mut(k as usize) {
                *place = new;
            }
            self.values[result] = Held::Buffers(buffers);
            return Ok(());
        }
        if !self.is_array(ty) {
            let x = self.get(part);
            let n = self.length(ty);
            if n == 1 {
                return self.set(result, x);
            }
            let old = self.get(whole);
            let parts = (0..n).map(|j| if j == k { x } else { self.code.part(old, j) }).collect();
            let vector = self.naga_type(result, data.span)?;
            let e = self.code.compose(vector, parts);
            return self.set(result, e);
        }
        // A value that has no further uses is modified in place; otherwise, the array is copied.
        let x = self.get(part);
        let place = self.variable(result, ty)?;
        self.store_value(place, whole)?;
        let element = self.code.part(place, k);
        self.code.store(element, x);
        self.values[result] = Held::Place(place);
        Ok(())
    }

    /// `a[i]`, which is zero out of range.
    fn index_op(&mut self, data: &'m InstData) -> Res {
        let (whole, result) = (data.args[0], data.results[0]);
        let is_stack = matches!(self.types[self.ty(whole)], TypeData::Stack(_));
        let is_held = matches!(self.values[whole], Held::Place(_) | Held::Row(_));
        if is_stack || !is_held || !self.is_row(result) {
            self.count_read(whole);
        }
        if let Held::Buffers(buffers) = self.values[whole].clone() {
            let i = self.index(data.args[1]);
            let set = self.bases_of(result);
            let held = self.one_of(&buffers, i, set);
            self.values[result] = Held::Buffer(held);
            return Ok(());
        }
        if is_stack {
            return self.index_stack(data);
        }
        let n = self.length(self.ty(whole));
        let i = self.index(data.args[1]);
        let known = self.bounds.upper(data.args[1]).is_some_and(|most| most < n as u64);
        if let Some(Literal::U32(k)) = self.code.literal_of(i)
            && k >= n
        {
            let ty = self.naga_type(result, data.span)?;
            let zero = self.code.zero(ty);
            return self.set(result, zero);
        }
        if !self.is_array(self.ty(whole)) && n == 1 {
            let x = self.get(whole);
            let inside = if known { None } else { Some(self.below(i, n)) };
            let e = self.or_zero(result, inside, x, data)?;
            return self.set(result, e);
        }
        let at = if known { i } else { self.clamp(i, n) };
        let inside = if known { None } else { Some(self.below(i, n)) };
        self.element(data, at, inside)
    }

    /// An element at an index in range, or zero unless `inside`.
    fn element(&mut self, data: &'m InstData, at: Expr, mut inside: Option<Expr>) -> Res {
        let (whole, result) = (data.args[0], data.results[0]);
        let place = match self.values[whole] {
            Held::Place(place) => place,
            Held::Row(Row { place, inside: row, .. }) => {
                inside = match (row, inside) {
                    (Some(row), Some(inside)) => Some(self.code.binary(Bin::LogicalAnd, row, inside)),
                    (row, inside) => row.or(inside),
                };
                place
            }
            _ => {
                let value = self.get(whole);
                let x = self.code.element(value, at);
                let e = self.or_zero(result, inside, x, data)?;
                return self.set(result, e);
            }
        };
        let place = self.code.element(place, at);
        if self.is_row(result) {
            self.values[result] = Held::Row(Row { place, inside, of: whole });
            return Ok(());
        }
        let x = self.code.load(place);
        let e = self.or_zero(result, inside, x, data)?;
        self.set(result, e)
    }

    /// Returns true for an array that is only indexed: as an element of an array, it need not be copied first.
    fn is_row(&self, v: Value) -> bool {
        self.is_array(self.ty(v)) && self.reads[v] == self.uses[v] && !self.holds_buffers(v)
    }

    /// Notes that an array has been indexed once more; if that was the last time for a row, so has been the array
    /// that it is in.
    fn count_read(&mut self, whole: Value) {
        self.read[whole] += 1;
        if self.read[whole] == self.uses[whole]
            && let Held::Row(Row { of, .. }) = self.values[whole]
        {
            self.count_read(of);
        }
    }

    fn below(&mut self, i: Expr, n: u32) -> Expr {
        let n = self.code.u32(n);
        self.code.binary(Bin::Less, i, n)
    }

    /// The index, or the last valid index if it is too large.
    pub(super) fn clamp(&mut self, i: Expr, n: u32) -> Expr {
        let last = self.code.u32(n.saturating_sub(1));
        self.code.math(naga::MathFunction::Min, &[i, last])
    }

    /// `inside ? x : 0`
    fn or_zero(&mut self, result: Value, inside: Option<Expr>, x: Expr, data: &InstData) -> Res<Expr> {
        match inside {
            Some(inside) => self.select_value(result, inside, x, None, data),
            None => Ok(x),
        }
    }

    /// `c ? x : y`, with zero for `y` if it is `None`, for values of any type made of numbers.
    pub(super) fn select_value(
        &mut self,
        result: Value,
        c: Expr,
        x: Expr,
        y: Option<Expr>,
        data: &InstData,
    ) -> Res<Expr> {
        let ty = self.ty(result);
        let naga_ty = self.naga_type(result, data.span)?;
        let given = y;
        if self.types.is_numeric(ty) && !self.is_array(ty) {
            let y = match (y, self.types[ty]) {
                (Some(y), _) => y,
                (None, TypeData::Scalar(s)) => self.constant(s, 0),
                (None, _) => self.code.zero(naga_ty),
            };
            let lanes = self.lanes(ty);
            if let (None, TypeData::Scalar(Scalar::Bool)) = (given, self.types[ty]) {
                return Ok(self.code.binary(Bin::LogicalAnd, c, x));
            }
            // naga requires a condition for each lane unless the operands are scalars.
            let c = if lanes > 1 { self.code.splat(lanes, c) } else { c };
            return Ok(self.code.select(c, x, y));
        }
        let y = match y {
            Some(y) => y,
            None => self.code.zero(naga_ty),
        };
        let place = self.variable(result, ty)?;
        self.store_expr(place, y)?;
        self.code.when(c, |code| code.store(place, x));
        Ok(self.code.load(place))
    }

    fn choose(&mut self, data: &'m InstData) -> Res {
        let (c, a, b, result) = (data.args[0], data.args[1], data.args[2], data.results[0]);
        let ty = self.ty(result);
        let condition = self.get(c);
        if let (Held::Buffer(x), Held::Buffer(y)) = (self.values[a].clone(), self.values[b].clone()) {
            let set = self.bases_of(result);
            let held = self.choose_buffer(condition, &x, &y, set);
            self.values[result] = Held::Buffer(held);
            return Ok(());
        }
        if self.holds_buffers(result) {
            return self.refuse("a choice between arrays of buffers", "it has no such values", data.span);
        }
        if let TypeData::Stack(_) = self.types[ty] {
            let place = self.variable(result, ty)?;
            self.either(condition, |e| e.copy_stack(place, a), |e| e.copy_stack(place, b))?;
            self.values[result] = Held::Place(place);
            return Ok(());
        }
        if self.lanes(self.ty(c)) == 1 && self.is_large_value(result)? {
            let place = self.variable(result, ty)?;
            self.either(condition, |e| e.store_value(place, a), |e| e.store_value(place, b))?;
            self.values[result] = Held::Place(place);
            return Ok(());
        }
        let (x, y) = (self.get(a), self.get(b));
        if self.lanes(self.ty(c)) > 1 {
            if self.is_array(ty) {
                let whole = self.naga_type(result, data.span)?;
                let select = |e: &mut Self, v: &[Expr]| Ok(e.code.select(v[0], v[1], v[2]));
                let e = self.by_lane(whole, self.length(ty), &[condition, x, y], select)?;
                return self.set(result, e);
            }
            let e = self.code.select(condition, x, y);
            return self.set(result, e);
        }
        let e = self.select_value(result, condition, x, Some(y), data)?;
        self.set(result, e)
    }

    // ---- handles

    /// The handle that a value holds.
    pub(super) fn buffer(&mut self, v: Value) -> Buffer {
        match &self.values[v] {
            Held::Buffer(buffer) => buffer.clone(),
            _ => Buffer::null(),
        }
    }

    /// The buffers that a value may refer to, according to the plan.
    pub(super) fn bases_of(&self, v: Value) -> Vec<Base> {
        match self.cx.plan.instances[self.instance].values.get(&v) {
            Some(crate::plan::Arg::Handle(set, _)) => set.clone(),
            _ => vec![Base::Null],
        }
    }

    /// The number of a handle's buffer within a larger set, and the handle's offset.
    pub(super) fn widen(&mut self, buffer: &Buffer, set: &[Base]) -> (Expr, Expr) {
        let place = |base: &Base| set.iter().position(|b| b == base).unwrap_or(0) as u32;
        let at = match buffer.at {
            Some(at) => at,
            None => self.code.u32(0),
        };
        let which = match (&buffer.bases[..], buffer.which) {
            ([one], _) => self.code.u32(place(one)),
            (many, Some(which)) if many == set => which,
            (many, which) => {
                let which = match which {
                    Some(which) => which,
                    None => self.code.u32(0),
                };
                let mut all = self.code.u32(many.first().map_or(0, place));
                for (k, base) in many.iter().enumerate().skip(1) {
                    let (k, to) = (self.code.u32(k as u32), self.code.u32(place(base)));
                    let is = self.code.binary(Bin::Equal, which, k);
                    all = self.code.select(is, to, all);
                }
                all
            }
        };
        (which, at)
    }

    pub(super) fn choose_buffer(&mut self, c: Expr, x: &Buffer, y: &Buffer, set: Vec<Base>) -> Buffer {
        let ((wx, ax), (wy, ay)) = (self.widen(x, &set), self.widen(y, &set));
        let which = (set.len() > 1).then(|| self.code.select(c, wx, wy));
        let at = (x.at.is_some() || y.at.is_some()).then(|| self.code.select(c, ax, ay));
        Buffer { bases: set, which, at }
    }

    /// Element `i` of an array of handles, or the null handle if `i` is out of range.
    fn one_of(&mut self, buffers: &[Buffer], i: Expr, set: Vec<Base>) -> Buffer {
        let mut found = Buffer::null();
        for (k, buffer) in buffers.iter().enumerate() {
            let k = self.code.u32(k as u32);
            let is = self.code.binary(Bin::Equal, i, k);
            found = self.choose_buffer(is, buffer, &found, set.clone());
        }
        found
    }
}

impl Buffer {
    /// The null handle.
    pub(super) fn null() -> Buffer {
        Buffer { bases: vec![Base::Null], which: None, at: None }
    }
}
