//! Pointers: addresses of places, casts, arithmetic, and variables whose address is taken.
//!
//! A pointer is a handle of memory that knows its end, so every access through it is checked. A pointer to a
//! part is a view of the memory that contains the part, and so is the result of a cast. A variable whose
//! address is taken is kept in the thread's private memory instead of in values. That memory has no
//! derivatives, so such a variable is rejected where it would need them, and also in recursive functions,
//! where one location would stand for several variables.

use check::tables::Meaning;
use check::types::{Ty, TyKind};
use ir::{Func, GlobalData, MemData, Op, Rest, Scalar, Space, Step, TypeData, Value};
use rustc_hash::FxHashSet;
use syntax::ast::BinaryOp;
use syntax::{DeclId, ExprId};

use crate::body::{Body, Name};
use crate::locals::Scan;
use crate::lowerer::{Lowerer, ir_span};
use crate::places::{Memory, Place, PlaceKind};

impl Body<'_, '_, '_> {
    /// Records the variable whose address an expression takes.
    pub(crate) fn scan_address(&mut self, address: ExprId, of: ExprId, scan: &mut Scan) {
        let mut e = of;
        loop {
            let info = &self.lw.program.tables.exprs[e];
            let next = match &info.meaning {
                Meaning::Var(decl) => {
                    scan.addressed.entry(*decl).or_insert(address);
                    return;
                }
                Meaning::Field { base: Some(base), .. }
                | Meaning::TupleField { base, .. }
                | Meaning::PairField { base, .. }
                | Meaning::Swizzle { base, .. }
                | Meaning::MatrixSwizzle { base, .. }
                | Meaning::Index { base, .. } => *base,
                Meaning::Same(inner) | Meaning::NoDiff(inner) => *inner,
                _ => return,
            };
            let ty = self.lw.program.tables.exprs[next].ty;
            let ty = self.ty(ty);
            if matches!(self.lw.program.types[ty], TyKind::Pointer(..) | TyKind::Buffer(..)) {
                return;
            }
            e = next;
        }
    }

    /// Allocates private memory for a variable.
    pub(crate) fn declare_in_memory(&mut self, decl: DeclId, ty: Ty, values: &[Value]) {
        let node = &self.lw.program.ast.decls[decl];
        let (span, name) = (node.name_span, self.lw.program.ast.name(node.name).to_owned());
        let has_tangent =
            self.lw.diff_map(self.b.types, ty).is_some_and(|map| map.map.iter().any(Option::is_some));
        if self.differentiable && has_tangent {
            let place = self.locals.addressed.get(&decl).map_or(span, |&address| self.span_of(address));
            self.lw.unsupported(place, "the address of a variable that has a derivative is");
            self.lw.help(
                "a local pointer that is only set to addresses of variables, copied and dereferenced may lead to it",
            );
        }
        let mem = self.lw.mem_type(self.b.types, ty);
        let data = GlobalData { name, space: Space::Private, ty: mem, init: None, span: ir_span(span) };
        let global = self.lw.module.globals.push(data);
        let handle = self.global_handle(global);
        let place = self.content_place(ty, handle);
        self.write(&place, values.to_vec());
        self.locals.in_memory.insert(Name::Decl(decl), (global, ty));
        if let Some(func) = self.func {
            self.lw.pointers.addressing.push((func, span));
        }
    }

    /// The place of a variable that is kept in memory.
    pub(crate) fn place_in_memory(&mut self, name: Name) -> Option<Place> {
        if let Some(&(handle, ty)) = self.locals.references.get(&name) {
            return Some(self.content_place(ty, handle));
        }
        let (global, ty) = *self.locals.in_memory.get(&name)?;
        let handle = self.global_handle(global);
        Some(self.content_place(ty, handle))
    }

    /// Lowers `&e`.
    pub(crate) fn address_of(&mut self, e: ExprId, of: ExprId) -> Vec<Value> {
        let pointer = self.raw_ty(e);
        self.address_as(e, of, pointer)
    }

    /// The address of a place as a pointer of a type; `e` is where it is taken.
    pub(crate) fn address_as(&mut self, e: ExprId, of: ExprId, pointer: Ty) -> Vec<Value> {
        let place = self.place(of);
        let span = self.span_of(e);
        self.address_of_place(place, pointer, span)
    }

    /// The address of a place, as a pointer of a type.
    pub(crate) fn address_of_place(&mut self, place: Place, pointer: Ty, span: syntax::Span) -> Vec<Value> {
        let target = self.layout(pointer).leaves.first().map(|leaf| leaf.ty);
        let (PlaceKind::Memory(memory), Some(target)) = (place.kind, target) else {
            return self.unsupported(span, "the address of this expression is", pointer);
        };
        if memory.row.is_some() {
            let rows =
                self.unsupported(span, "the address of a row of a matrix that lies in columns is", pointer);
            self.lw.help("its numbers do not lie one after the other: take the address of one of them");
            return rows;
        }
        // The order of the matrix is part of the pointer's type.
        if let TypeData::Buffer(element) = self.b.types[target]
            && self.lies_in_columns(&memory) != self.lw.mem.lies_in_columns(element)
        {
            return self.unsupported(
                span,
                "the address of a `column_major` matrix through this name is",
                pointer,
            );
        }
        if memory.path.is_empty() && self.b.func.ty(memory.handle) == target {
            if self.constant_of(memory.element) == Some(0) {
                return vec![memory.handle];
            }
            let offset = self.convert_leaf(memory.element, ir::Type::I64);
            return vec![self.b.emit(Op::BufferOffset, &[memory.handle, offset])];
        }
        let at = self.byte_of(&memory);
        vec![self.b.emit_typed(Op::BufferCast(Rest::Kept), &[memory.handle, at], target)]
    }

    /// An element of an array without a length at the end of the memory that a pointer leads to: the elements
    /// follow the other fields. Returns `None` if that memory belongs to something else.
    pub(crate) fn element_behind(
        &mut self,
        memory: &Memory,
        element: Ty,
        index: Value,
        e: ExprId,
    ) -> Option<Place> {
        let Meaning::Index { base, .. } = self.lw.program.tables.exprs[e].meaning else { return None };
        if memory.path.is_empty() {
            // The pointer leads to an array without a length.
            let first = self.convert_leaf(memory.element, ir::Type::I64);
            let by = self.convert_leaf(index, ir::Type::I64);
            let at = self.b.emit(Op::Add, &[first, by]);
            return Some(Place::memory(element, memory.handle, at));
        }
        let TypeData::Buffer(whole) = self.b.types[self.b.func.ty(memory.handle)] else { return None };
        let [Step::Static(field)] = memory.path[..] else { return None };
        let MemData::Struct { fields, .. } = &self.lw.mem[whole] else { return None };
        let is_last = fields.len() == field as usize + 1;
        let MemData::Array(mem, _) = self.lw.mem[fields.last()?.1] else { return None };
        if !is_last || !self.is_behind_pointer(base) {
            return None;
        }
        let at = self.byte_of(memory);
        let handle_ty = self.b.types.buffer(mem);
        let handle = self.b.emit_typed(Op::BufferCast(Rest::Kept), &[memory.handle, at], handle_ty);
        // The index is unsigned, so a negative index does not lead back to the other fields.
        let unsigned = match self.b.types.scalar_of(self.b.func.ty(index)).map(Scalar::bits) {
            Some(64) => ir::Type::U64,
            _ => ir::Type::U32,
        };
        let index = self.convert_leaf(index, unsigned);
        Some(Place::memory(element, handle, index))
    }

    /// Returns true if an expression is a field, at any depth, of the target of a pointer.
    fn is_behind_pointer(&mut self, e: ExprId) -> bool {
        let base = match self.lw.program.tables.exprs[e].meaning {
            Meaning::Deref(_) => return true,
            Meaning::Field { base: Some(base), .. } | Meaning::Index { base, .. } => base,
            Meaning::Same(inner) => return self.is_behind_pointer(inner),
            _ => return false,
        };
        let ty = self.raw_ty(base);
        match self.lw.program.types[ty] {
            TyKind::Pointer(..) => true,
            TyKind::Buffer(..) => false,
            _ => self.is_behind_pointer(base),
        }
    }

    /// The offset of a place in bytes from its handle.
    fn byte_of(&mut self, memory: &Memory) -> Value {
        let TypeData::Buffer(element) = self.b.types[self.b.func.ty(memory.handle)] else {
            return self.b.constant(Scalar::I64, 0);
        };
        let mem = &self.lw.mem;
        let selection = mem.select(element, &memory.path).expect("the path is valid");
        let strides = selection.choices.iter().map(|&(_, stride)| stride);
        let mut terms = vec![(memory.element, mem.size(element))];
        terms.extend(memory.dynamic.iter().copied().zip(strides));
        let mut sum = self.b.constant(Scalar::I64, selection.fixed);
        for (index, stride) in terms {
            let index = self.convert_leaf(index, ir::Type::I64);
            let stride = self.b.constant(Scalar::I64, stride);
            let bytes = self.b.emit(Op::Mul, &[index, stride]);
            sum = self.b.emit(Op::Add, &[sum, bytes]);
        }
        sum
    }

    /// Lowers `__offsetOf(whole, part)`: the bytes from a value in memory to a part of it, which is named as fields and
    /// elements of the same expression.
    pub(crate) fn offset_of(
        &mut self,
        whole: ExprId,
        part: ExprId,
        ty: Ty,
        span: syntax::Span,
    ) -> Vec<Value> {
        let own = self.expr_ty(whole);
        let memory = self.lw.mem_type(self.b.types, own);
        let handle = self.b.types.buffer(memory);
        let handle = self.b.zero(handle);
        let root = self.content_place(own, handle);
        let Some(place) = self.part_of(root, whole, part) else {
            let message = "`__offsetOf` takes a variable and a field of this variable";
            self.lw.error("E39999", span, message);
            return self.zeros(ty);
        };
        let PlaceKind::Memory(memory) = place.kind else { return self.zeros(ty) };
        let bytes = self.byte_of(&memory);
        let leaf = self.leaf_types(ty);
        leaf.first().map(|&leaf| self.convert_leaf(bytes, leaf)).into_iter().collect()
    }

    /// The part that an expression names, where `root` stands for the variable that `whole` names.
    fn part_of(&mut self, root: Place, whole: ExprId, part: ExprId) -> Option<Place> {
        let exprs = &self.lw.program.tables.exprs;
        let ty = exprs[part].ty;
        match exprs[part].meaning.clone() {
            Meaning::Var(decl) => {
                let own = self.lw.program.tables.plain(whole);
                matches!(exprs[own].meaning, Meaning::Var(other) if other == decl).then_some(root)
            }
            Meaning::Same(inner) => self.part_of(root, whole, inner),
            Meaning::Field { base: Some(base), field } => {
                let base = self.part_of(root, whole, base)?;
                let ty = self.ty(ty);
                Some(self.field_place(base, field, ty, part))
            }
            Meaning::Index { base, index } => {
                let base = self.part_of(root, whole, base)?;
                let ty = self.ty(ty);
                let &index = self.expr(index).first()?;
                Some(self.index_place(base, index, ty, part))
            }
            _ => None,
        }
    }

    /// Casts a pointer to one with elements of another type.
    pub(crate) fn cast_pointer(&mut self, handle: Value, to: ir::Type) -> Value {
        if self.b.func.ty(handle) == to {
            return handle;
        }
        let zero = self.b.constant(Scalar::I64, 0);
        self.b.emit_typed(Op::BufferCast(Rest::Kept), &[handle, zero], to)
    }

    /// The number that stands for a handle, as one of type `to`.
    pub(crate) fn address(&mut self, handle: Value, to: ir::Type) -> Value {
        let bits = self.b.emit(Op::HandleBits, &[handle]);
        self.convert_leaf(bits, to)
    }

    /// The handle of type `to` that a number (`u64`) stands for: the one that the number was made of, if that is known.
    pub(crate) fn handle_of(&mut self, bits: Value, to: ir::Type) -> Value {
        let own = self.b.func.insts.iter().rev().take(256).find_map(|(_, data)| {
            (data.op == Op::HandleBits && data.results[0] == bits).then(|| data.args[0])
        });
        match own {
            Some(handle) if self.b.func.ty(handle) == to => handle,
            Some(handle) => self.cast_pointer(handle, to),
            None => self.b.emit_typed(Op::HandleOf, &[bits], to),
        }
    }

    /// The address that a handle points to, as a number.
    fn place_number(&mut self, handle: Value) -> Value {
        let words = self.b.emit(Op::BufferAddress, &[handle]);
        let low = self.b.emit(Op::Extract(0), &[words]);
        let high = self.b.emit(Op::Extract(1), &[words]);
        let (low, high) = (self.convert_leaf(low, ir::Type::I64), self.convert_leaf(high, ir::Type::I64));
        let by = self.b.constant(Scalar::I64, 32);
        let high = self.b.emit(Op::Shl, &[high, by]);
        self.b.emit(Op::Or, &[high, low])
    }

    /// Emits a test that two handles point to the same address.
    fn same_place(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = (self.b.emit(Op::BufferAddress, &[a]), self.b.emit(Op::BufferAddress, &[b]));
        let same = self.b.emit(Op::Eq, &[a, b]);
        self.all_lanes(same)
    }

    /// Emits a test that the address of `a` is lower than that of `b`.
    fn place_before(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = (self.b.emit(Op::BufferAddress, &[a]), self.b.emit(Op::BufferAddress, &[b]));
        let (low_a, low_b) = (self.b.emit(Op::Extract(0), &[a]), self.b.emit(Op::Extract(0), &[b]));
        let (high_a, high_b) = (self.b.emit(Op::Extract(1), &[a]), self.b.emit(Op::Extract(1), &[b]));
        let low = self.b.emit(Op::Lt, &[low_a, low_b]);
        let same = self.b.emit(Op::Eq, &[high_a, high_b]);
        let low = self.b.emit(Op::And, &[same, low]);
        let high = self.b.emit(Op::Lt, &[high_a, high_b]);
        self.b.emit(Op::Or, &[high, low])
    }

    /// Lowers `p + n`, `p - n`, `p - q` and comparisons.
    pub(crate) fn pointer_arithmetic(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let is_pointer =
            |body: &Self, v: Value| matches!(body.b.types[body.b.func.ty(v)], TypeData::Buffer(_));
        if !is_pointer(self, a) {
            return self.pointer_arithmetic(op, b, a);
        }
        if is_pointer(self, b) {
            match op {
                BinaryOp::Eq => return self.same_place(a, b),
                BinaryOp::Ne => {
                    let same = self.same_place(a, b);
                    return self.b.emit(Op::Not, &[same]);
                }
                BinaryOp::Lt => return self.place_before(a, b),
                BinaryOp::Gt => return self.place_before(b, a),
                BinaryOp::Le | BinaryOp::Ge => {
                    let (first, second) = if op == BinaryOp::Le { (b, a) } else { (a, b) };
                    let before = self.place_before(first, second);
                    return self.b.emit(Op::Not, &[before]);
                }
                _ => {}
            }
            let (x, y) = (self.place_number(a), self.place_number(b));
            if op != BinaryOp::Sub {
                return self.binary_leaf(op, x, y);
            }
            let bytes = self.b.emit(Op::Sub, &[x, y]);
            let size = match self.b.types[self.b.func.ty(a)] {
                TypeData::Buffer(element) => self.lw.mem.size(element).max(1),
                _ => 1,
            };
            let size = self.b.constant(Scalar::I64, size);
            return self.b.emit(Op::Div, &[bytes, size]);
        }
        let offset = self.convert_leaf(b, ir::Type::I64);
        let offset = match op {
            BinaryOp::Sub => self.b.emit(Op::Neg, &[offset]),
            _ => offset,
        };
        self.b.emit(Op::BufferOffset, &[a, offset])
    }
}

impl Lowerer<'_> {
    /// Reports variables whose address is taken in recursive functions.
    pub(crate) fn check_addresses(&mut self) {
        for (func, span) in std::mem::take(&mut self.pointers.addressing) {
            if self.reaches_itself(func) {
                self.unsupported(span, "the address of a variable of a function that calls itself is");
            }
        }
    }

    fn reaches_itself(&self, func: Func) -> bool {
        let mut seen = FxHashSet::default();
        let mut work = vec![func];
        while let Some(at) = work.pop() {
            for data in self.module.funcs[at].insts.values() {
                let Some(callee) = data.op.callee() else { continue };
                if callee == func {
                    return true;
                }
                if seen.insert(callee) {
                    work.push(callee);
                }
            }
        }
        false
    }
}
