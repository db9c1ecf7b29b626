//! Memory: its types, and functions that read and write it.
//!
//! An index out of range reads zero and writes nothing, on every device; so each place of the source that is read or
//! written through an index becomes a small function that checks it, `load_NAME` or `store_NAME`, shared by all accesses of
//! that kind. Memory that is seen as several types is an array of words in the CPU's layout ([`Slot::raw`]), whose functions
//! take byte offsets.
//!
//! A float has no atomic operations, so its word is atomic and its new value is exchanged for the old one until no other
//! thread came between.

use std::num::NonZeroU32;

use ir::{AtomicOp, MemData, MemType, Path, Scalar, Step, Type, TypeData};
use naga::{
    AtomicFunction, BinaryOperator, Block, Expression, GlobalVariable, Handle, Literal, MathFunction,
    ScalarKind, Statement, StructMember, TypeInner,
};

use crate::Unsupported;
use crate::build::{Code, Expr};
use crate::layout::{self, Rule};
use crate::module::Cx;
use crate::plan::Base;
use crate::types::scalar;

/// How memory is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Std430,
    Std140,
    /// As values: what the host does not see.
    Local,
}

/// A declared global.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) var: Handle<GlobalVariable>,
    /// One element and not an array of them.
    pub(crate) is_single: bool,
    /// An array of words.
    pub(crate) raw: bool,
    /// How many words, if that is known.
    pub(crate) words: Option<u32>,
    pub(crate) element: MemType,
    /// An element's type.
    pub(crate) ty: Option<Handle<naga::Type>>,
    pub(crate) name: String,
}

/// What is done to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Load,
    Store,
    Atomic(AtomicOp),
}

/// A function that reads or writes: what is accessed as what, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) bases: Vec<Base>,
    pub(crate) element: MemType,
    pub(crate) path: Path,
    /// The type of the leaf.
    pub(crate) leaf: Type,
    pub(crate) action: Action,
}

/// Where a walk along a path has come to.
struct At {
    pointer: Expr,
    ty: Handle<naga::Type>,
    /// The memory type; `None` within a vector or matrix.
    mem: Option<MemType>,
}

type Res<T = ()> = Result<T, Unsupported>;

impl Cx<'_> {
    // ---- types

    /// A word of memory that is seen as several types.
    pub(crate) fn word_type(&mut self, atomic: bool) -> Handle<naga::Type> {
        self.ty(if atomic {
            TypeInner::Atomic(naga::Scalar::U32)
        } else {
            TypeInner::Scalar(naga::Scalar::U32)
        })
    }

    /// The type of a number in memory.
    fn stored(&mut self, s: Scalar, n: u32, form: Form) -> Handle<naga::Type> {
        let s = if s == Scalar::Bool && form != Form::Local { Scalar::U32 } else { s };
        if n <= 4 {
            return self.lanes_type(s, n);
        }
        let base = self.lanes_type(s, 1);
        self.spaced_array(base, n, form)
    }

    /// An array whose elements are as far apart as the form wants.
    fn spaced_array(&mut self, base: Handle<naga::Type>, n: u32, form: Form) -> Handle<naga::Type> {
        let (size, align) = self.natural(base);
        let stride = size.next_multiple_of(align);
        let base = if form == Form::Std140 && !stride.is_multiple_of(16) {
            let mut members = vec![member("value", base, 0)];
            self.pad(&mut members, size, stride.next_multiple_of(16));
            let wrapper = self.structure("Wide", members, stride.next_multiple_of(16));
            self.wrappers.push(wrapper);
            wrapper
        } else {
            base
        };
        self.array_of(base, NonZeroU32::new(n.max(1)))
    }

    /// Members that take the place from one offset to another.
    fn pad(&mut self, members: &mut Vec<StructMember>, from: u32, to: u32) {
        let word = self.ty(TypeInner::Scalar(naga::Scalar::U32));
        for at in (from.next_multiple_of(4)..to).step_by(4) {
            members.push(member("pad", word, at));
        }
    }

    /// The type of memory; leaves at the paths in `atomics` are atomic.
    pub(crate) fn memory_type(
        &mut self,
        ty: MemType,
        form: Form,
        atomics: &[(Path, Scalar)],
        span: ir::Span,
    ) -> Res<Handle<naga::Type>> {
        let form = if form == Form::Std140 && self.is_alike(ty) { Form::Std430 } else { form };
        if let (true, Some(&found)) = (atomics.is_empty(), self.memory_types.get(&(ty, form))) {
            return Ok(found);
        }
        let mem = &self.ir.mem;
        let made = match mem[ty].clone() {
            MemData::Scalar(s) => {
                self.check_scalar(s, span)?;
                match atomics.first() {
                    Some(_) => {
                        let word = match s {
                            Scalar::I32 => naga::Scalar::I32,
                            Scalar::U32 | Scalar::F32 => naga::Scalar::U32,
                            // Held in 32 bits where the host does not care.
                            _ => {
                                let what = format!("an atomic operation on a number of type `{}`", s.name());
                                return Err(self.refuse(what, "only 32 bits are atomic", span));
                            }
                        };
                        self.ty(TypeInner::Atomic(word))
                    }
                    None => self.stored(s, 1, form),
                }
            }
            MemData::Vector(s, n) => {
                self.check_scalar(s, span)?;
                self.stored(s, n, form)
            }
            MemData::Matrix(s, rows, columns) => {
                self.check_scalar(s, span)?;
                let row = self.stored(s, columns, form);
                self.spaced_array(row, rows, form)
            }
            MemData::Array(t, n) => {
                let inner: Vec<(Path, Scalar)> = atomics.iter().filter_map(|a| tail(a, None)).collect();
                let base = self.memory_type(t, form, &inner, span)?;
                self.spaced_array(base, n, form)
            }
            MemData::Handle(_) => self.lanes_type(Scalar::U32, 2),
            MemData::Struct { name, fields } => {
                let rule = if form == Form::Std140 { Rule::Std140 } else { Rule::Std430 };
                let (mut members, mut indices, mut at) = (Vec::new(), Vec::new(), 0u32);
                for (idx, (field, field_ty)) in fields.iter().enumerate() {
                    let inner: Vec<(Path, Scalar)> =
                        atomics.iter().filter_map(|a| tail(a, Some(idx as u32))).collect();
                    let member_ty = self.memory_type(*field_ty, form, &inner, span)?;
                    let (size, align) = self.natural(member_ty);
                    let mut offset = at.next_multiple_of(align);
                    if form != Form::Local {
                        let wanted = layout::field_offset(&self.ir.mem, ty, idx, rule) as u32;
                        if wanted > offset {
                            self.pad(&mut members, at, wanted);
                        }
                        offset = wanted;
                    }
                    indices.push(members.len() as u32);
                    members.push(member(field, member_ty, offset));
                    at = offset + size;
                }
                if members.is_empty() {
                    self.pad(&mut members, 0, 4);
                    at = 4;
                }
                let align = members.iter().map(|m| m.ty).collect::<Vec<_>>();
                let align = align.into_iter().map(|t| self.natural(t).1).max().unwrap_or(4);
                let mut span_bytes = at.next_multiple_of(align);
                if form != Form::Local {
                    let wanted = layout::size_align(&self.ir.mem, ty, rule).0 as u32;
                    if wanted > span_bytes {
                        self.pad(&mut members, at, wanted);
                    }
                    span_bytes = wanted;
                }
                let made = self.structure(&name, members, span_bytes);
                self.members.insert(made, indices);
                made
            }
        };
        if atomics.is_empty() {
            self.memory_types.insert((ty, form), made);
        }
        Ok(made)
    }

    /// Whether a type is laid out alike in uniforms and storage, so that both may have one.
    fn is_alike(&self, ty: MemType) -> bool {
        let mem = &self.ir.mem;
        let (size, align) = layout::size_align(mem, ty, Rule::Std140);
        let is_struct = matches!(mem[ty], MemData::Struct { .. });
        is_struct
            && size <= 4096
            && (size, align) == layout::size_align(mem, ty, Rule::Std430)
            && layout::places(mem, ty, Rule::Std140) == layout::places(mem, ty, Rule::Std430)
    }

    // ---- places

    /// The pointer to a global's element, and the element's type.
    fn element(&mut self, code: &mut Code, slot: &Slot, index: Option<Expr>) -> At {
        let mut pointer = code.expr(Expression::GlobalVariable(slot.var));
        if let (false, Some(index)) = (slot.is_single, index) {
            pointer = code.element(pointer, index);
        }
        let ty = slot.ty.expect("memory that is no words has a type");
        At { pointer, ty, mem: Some(slot.element) }
    }

    /// Goes along a path. `dynamic` are the indices, which are in range.
    fn walk(&mut self, code: &mut Code, mut at: At, path: &Path, dynamic: &[Expr]) -> At {
        let mut dynamic = dynamic.iter().copied();
        for &step in &path.0 {
            let index = match step {
                Step::Static(k) => code.u32(k),
                Step::Dynamic => dynamic.next().unwrap_or_else(|| code.u32(0)),
            };
            let next = at.mem.and_then(|m| match (&self.ir.mem[m], step) {
                (MemData::Struct { fields, .. }, Step::Static(k)) => fields.get(k as usize).map(|f| f.1),
                (MemData::Array(t, _), _) => Some(*t),
                _ => None,
            });
            match self.out.types[at.ty].inner.clone() {
                TypeInner::Struct { members, .. } => {
                    let Step::Static(k) = step else { return at };
                    let k = self.members.get(&at.ty).and_then(|m| m.get(k as usize)).copied().unwrap_or(k);
                    at = At { pointer: code.part(at.pointer, k), ty: members[k as usize].ty, mem: next };
                }
                TypeInner::Array { base, .. } => {
                    at = At { pointer: code.element(at.pointer, index), ty: base, mem: next };
                    if self.wrappers.contains(&base)
                        && let TypeInner::Struct { members, .. } = &self.out.types[base].inner
                    {
                        let ty = members[0].ty;
                        at = At { pointer: code.part(at.pointer, 0), ty, mem: next };
                    }
                }
                TypeInner::Vector { scalar, .. } => {
                    let ty = self.ty(TypeInner::Scalar(scalar));
                    at = At { pointer: code.element(at.pointer, index), ty, mem: None };
                }
                // The only lane of a vector of one.
                _ => at.mem = next,
            }
        }
        at
    }

    /// The value at a place, of the leaf's type.
    fn load_at(&mut self, code: &mut Code, at: &At, leaf: Type, span: ir::Span) -> Res<Expr> {
        let value_ty = self.value_type(leaf, &[], span)?;
        if at.ty == value_ty {
            return Ok(code.load(at.pointer));
        }
        match (self.ir.types[leaf], self.out.types[at.ty].inner.clone()) {
            (TypeData::Array(..) | TypeData::Vector(..), TypeInner::Array { base, .. }) => {
                let element = self.element_type(leaf);
                let n = self.length(leaf);
                if n > 256 {
                    let what = format!("an array of {n} elements that is read at once");
                    return Err(self.refuse(what, "its layout differs from that of a local array", span));
                }
                let mut parts = Vec::new();
                for k in 0..n.max(1) {
                    let place = self.array_part(code, at, base, k);
                    parts.push(self.load_at(code, &place, element, span)?);
                }
                Ok(code.compose(value_ty, parts))
            }
            (_, TypeInner::Atomic(_)) if self.ir.types.scalar_of(leaf) == Some(Scalar::F32) => {
                let bits = code.load(at.pointer);
                Ok(code.convert(bits, ScalarKind::Float, None))
            }
            (_, TypeInner::Atomic(_)) => Ok(code.load(at.pointer)),
            // A `bool` that the host sees is a number.
            _ => {
                let n = self.ir.types.lanes(leaf).unwrap_or(1);
                let x = code.load(at.pointer);
                let zero = code.u32(0);
                let zero = if n > 1 { code.splat(n, zero) } else { zero };
                Ok(code.binary(BinaryOperator::NotEqual, x, zero))
            }
        }
    }

    /// Stores a value of the leaf's type.
    fn store_at(&mut self, code: &mut Code, at: &At, leaf: Type, value: Expr, span: ir::Span) -> Res {
        let value_ty = self.value_type(leaf, &[], span)?;
        if at.ty == value_ty {
            code.store(at.pointer, value);
            return Ok(());
        }
        match (self.ir.types[leaf], self.out.types[at.ty].inner.clone()) {
            (TypeData::Array(..) | TypeData::Vector(..), TypeInner::Array { base, .. }) => {
                let element = self.element_type(leaf);
                let n = self.length(leaf);
                if n > 256 {
                    let what = format!("an array of {n} elements that is written at once");
                    return Err(self.refuse(what, "its layout differs from that of a local array", span));
                }
                for k in 0..n {
                    let place = self.array_part(code, at, base, k);
                    let part = code.part(value, k);
                    self.store_at(code, &place, element, part, span)?;
                }
            }
            (_, TypeInner::Atomic(_)) if self.ir.types.scalar_of(leaf) == Some(Scalar::F32) => {
                let bits = code.convert(value, ScalarKind::Uint, None);
                code.store(at.pointer, bits);
            }
            (_, TypeInner::Atomic(_)) => code.store(at.pointer, value),
            _ => {
                let n = self.ir.types.lanes(leaf).unwrap_or(1);
                let (one, zero) = (code.u32(1), code.u32(0));
                let (one, zero) = (code.splat(n, one), code.splat(n, zero));
                let bits = code.select(value, one, zero);
                code.store(at.pointer, bits);
            }
        }
        Ok(())
    }

    fn array_part(&mut self, code: &mut Code, at: &At, base: Handle<naga::Type>, k: u32) -> At {
        let pointer = code.part(at.pointer, k);
        if self.wrappers.contains(&base)
            && let TypeInner::Struct { members, .. } = &self.out.types[base].inner
        {
            let ty = members[0].ty;
            return At { pointer: code.part(pointer, 0), ty, mem: None };
        }
        At { pointer, ty: base, mem: None }
    }

    fn element_type(&self, ty: Type) -> Type {
        self.ir.types.element(ty).unwrap_or(ty)
    }

    /// Elements of an array or vector.
    fn length(&self, ty: Type) -> u32 {
        match self.ir.types[ty] {
            TypeData::Array(_, n) | TypeData::Vector(_, n) => n,
            _ => 1,
        }
    }

    /// How many indices each dynamic step of a path allows.
    pub(crate) fn limits(&self, mut ty: MemType, path: &Path) -> Vec<u32> {
        let (mut limits, mut lanes) = (Vec::new(), None);
        for &step in &path.0 {
            let (n, next) = match (&self.ir.mem[ty], lanes) {
                (_, Some(n)) => (n, ty),
                (MemData::Struct { fields, .. }, None) => match step {
                    Step::Static(k) => (u32::MAX, fields[k as usize].1),
                    Step::Dynamic => (0, ty),
                },
                (MemData::Array(t, n), None) => (*n, *t),
                (MemData::Matrix(_, rows, columns), None) => {
                    lanes = Some(*columns);
                    (*rows, ty)
                }
                (MemData::Vector(_, n), None) => (*n, ty),
                (MemData::Scalar(_) | MemData::Handle(_), None) => (1, ty),
            };
            if step == Step::Dynamic {
                limits.push(n);
            }
            ty = next;
        }
        limits
    }

    // ---- direct accesses

    /// Reads or writes one element whose indices are in range, without a function.
    pub(crate) fn load_direct(
        &mut self,
        code: &mut Code,
        base: Base,
        path: &Path,
        dynamic: &[Expr],
        leaf: Type,
        span: ir::Span,
    ) -> Res<Expr> {
        let slot = self.slots[&base].clone();
        let at = self.element(code, &slot, None);
        let at = self.walk(code, at, path, dynamic);
        self.load_at(code, &at, leaf, span)
    }

    /// As [`Self::load_direct`].
    #[expect(clippy::too_many_arguments, reason = "a place and a value")]
    pub(crate) fn store_direct(
        &mut self,
        code: &mut Code,
        base: Base,
        path: &Path,
        dynamic: &[Expr],
        leaf: Type,
        value: Expr,
        span: ir::Span,
    ) -> Res {
        let slot = self.slots[&base].clone();
        let at = self.element(code, &slot, None);
        let at = self.walk(code, at, path, dynamic);
        self.store_at(code, &at, leaf, value, span)
    }

    // ---- functions that access

    /// The function for an access. Its parameters: which of several buffers, the byte offset if there are words, the element's
    /// index, dynamic indices, values.
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

    fn access_name(&mut self, access: &Access, owner: &str) -> String {
        let verb = match access.action {
            Action::Load => "load",
            Action::Store => "store",
            Action::Atomic(AtomicOp::Add) => "atomic_add",
            Action::Atomic(AtomicOp::Min) => "atomic_min",
            Action::Atomic(AtomicOp::Max) => "atomic_max",
            Action::Atomic(AtomicOp::And) => "atomic_and",
            Action::Atomic(AtomicOp::Or) => "atomic_or",
            Action::Atomic(AtomicOp::Xor) => "atomic_xor",
            Action::Atomic(AtomicOp::Exchange) => "atomic_exchange",
            Action::Atomic(AtomicOp::CompareExchange) => "atomic_compare_exchange",
        };
        let mut name = format!("{verb}_{owner}");
        let mut ty = access.element;
        for &step in &access.path.0 {
            match (&self.ir.mem[ty], step) {
                (MemData::Struct { fields, .. }, Step::Static(k)) => {
                    name.push_str(&format!("_{}", fields[k as usize].0));
                    ty = fields[k as usize].1;
                }
                (MemData::Array(t, _), _) => ty = *t,
                _ => {}
            }
        }
        self.names.unique(&name)
    }

    /// The type of the values that an access takes or gives.
    fn leaf_type(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Type>> {
        self.value_type(access.leaf, &[], span)
    }

    /// Adds an access's parameters; gives byte offset, index, dynamic indices and values.
    fn access_params(
        &mut self,
        code: &mut Code,
        access: &Access,
        raw: bool,
        span: ir::Span,
    ) -> Res<(Option<Expr>, Expr, Vec<Expr>, Vec<Expr>)> {
        let uint = self.lanes_type(Scalar::U32, 1);
        let at = raw.then(|| code.param("at", uint, None));
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
        Ok((at, index, dynamic, values))
    }

    /// An access to one of several buffers.
    fn any_access(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Function>> {
        let name = self.access_name(access, "any");
        let mut code = Code::new(&name);
        let uint = self.lanes_type(Scalar::U32, 1);
        let which = code.param("which", uint, None);
        let raw = access.bases.iter().any(|b| self.slots.get(b).is_some_and(|s| s.raw));
        let (at, index, dynamic, values) = self.access_params(&mut code, access, raw, span)?;
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

    /// Ends a function as an access out of range does.
    fn access_nothing(&mut self, code: &mut Code, access: &Access, span: ir::Span) -> Res {
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

    /// Adds a finished function.
    pub(crate) fn add_function(&mut self, code: Code) -> Handle<naga::Function> {
        self.out.functions.append(code.finish(), naga::Span::default())
    }

    fn one_access(&mut self, access: &Access, span: ir::Span) -> Res<Handle<naga::Function>> {
        let base = access.bases.first().copied().unwrap_or(Base::Null);
        let Some(slot) = self.slots.get(&base).cloned() else {
            let name = self.access_name(access, "nothing");
            let mut code = Code::new(&name);
            self.access_params(&mut code, access, false, span)?;
            self.access_nothing(&mut code, access, span)?;
            return Ok(self.add_function(code));
        };
        if slot.raw {
            return self.raw_access(access, &slot, span);
        }
        let name = self.access_name(access, &slot.name);
        let mut code = Code::new(&name);
        let (_, index, dynamic, values) = self.access_params(&mut code, access, false, span)?;
        let mut inside = if slot.is_single {
            let zero = code.u32(0);
            code.binary(BinaryOperator::Equal, index, zero)
        } else {
            let all = code.expr(Expression::GlobalVariable(slot.var));
            let len = code.expr(Expression::ArrayLength(all));
            code.binary(BinaryOperator::Less, index, len)
        };
        for (&k, n) in dynamic.iter().zip(self.limits(access.element, &access.path)) {
            let n = code.u32(n);
            let below = code.binary(BinaryOperator::Less, k, n);
            inside = code.binary(BinaryOperator::LogicalAnd, inside, below);
        }
        let before = code.enter();
        let at = self.element(&mut code, &slot, Some(index));
        let at = self.walk(&mut code, at, &access.path, &dynamic);
        match access.action {
            Action::Load => {
                let value = self.load_at(&mut code, &at, access.leaf, span)?;
                code.ret(Some(value));
            }
            Action::Store => self.store_at(&mut code, &at, access.leaf, values[0], span)?,
            Action::Atomic(op) => {
                let s = self.ir.types.scalar_of(access.leaf).unwrap_or(Scalar::U32);
                let word = if s == Scalar::I32 { Scalar::I32 } else { Scalar::U32 };
                let old = self.atomic(&mut code, at.pointer, op, s, word, &values, span)?;
                if let Some(old) = old {
                    code.ret(Some(old));
                }
            }
        }
        let body = code.close(before);
        code.if_else(inside, body, Block::new());
        if access.action != Action::Store {
            self.access_nothing(&mut code, access, span)?;
        }
        Ok(self.add_function(code))
    }

    /// An atomic operation on a number of kind `s` in an atomic word; gives the old value, or returns it itself.
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
        if !matches!(s, Scalar::I32 | Scalar::U32 | Scalar::F32) {
            let what = format!("an atomic operation on a number of type `{}`", s.name());
            return Err(self.refuse(what, "only 32 bits are atomic", span));
        }
        let word_ty = self.lanes_type(word, 1);
        // The number as the word's bits, and back.
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
            && (s != Scalar::F32 || is_bitwise)
        {
            let value = bits(code, values[0]);
            let result = code.expr(Expression::AtomicResult { ty: word_ty, comparison: false });
            code.push(Statement::Atomic { pointer, fun, value, result: Some(result) });
            return Ok(Some(back(code, result)));
        }
        let exchanged = self
            .out
            .generate_predeclared_type(naga::PredeclaredType::AtomicCompareExchangeWeakResult(scalar(word)));
        let exchange = |code: &mut Code, compare: Expr, value: Expr| -> (Expr, Expr) {
            let result = code.expr(Expression::AtomicResult { ty: exchanged, comparison: true });
            let fun = AtomicFunction::Exchange { compare: Some(compare) };
            code.push(Statement::Atomic { pointer, fun, value, result: Some(result) });
            (code.part(result, 0), code.part(result, 1))
        };
        if op == AtomicOp::CompareExchange {
            // Until it failed for a reason or did it: the exchange may also fail for none.
            let (compare, value) = (bits(code, values[0]), bits(code, values[1]));
            let before = code.enter();
            let (old, done) = exchange(code, compare, value);
            let differs = code.binary(BinaryOperator::NotEqual, old, compare);
            let end = code.binary(BinaryOperator::LogicalOr, done, differs);
            let result = back(code, old);
            code.when(end, |c| c.ret(Some(result)));
            let body = code.close(before);
            code.push(Statement::Loop { body, continuing: Block::new(), break_if: None });
            return Ok(None);
        }
        let before = code.enter();
        let old = code.load(pointer);
        let number = back(code, old);
        let new = match op {
            AtomicOp::Add => code.binary(BinaryOperator::Add, number, values[0]),
            AtomicOp::Min => code.math(MathFunction::Min, &[number, values[0]]),
            _ => code.math(MathFunction::Max, &[number, values[0]]),
        };
        let new = bits(code, new);
        let (_, done) = exchange(code, old, new);
        code.when(done, |c| c.ret(Some(number)));
        let body = code.close(before);
        code.push(Statement::Loop { body, continuing: Block::new(), break_if: None });
        Ok(None)
    }

    // ---- words

    fn raw_access(&mut self, access: &Access, slot: &Slot, span: ir::Span) -> Res<Handle<naga::Function>> {
        let name = self.access_name(access, &slot.name);
        let mut code = Code::new(&name);
        let (at, index, dynamic, values) = self.access_params(&mut code, access, true, span)?;
        let at = at.expect("words are accessed at a byte");
        let size = self.ir.mem.size(access.element).max(1) as u32;
        // Elements that begin before 2^31 bytes on either side of the offset.
        let far = (1u32 << 31) / size.next_power_of_two();
        let (far_expr, both) = (code.u32(far), code.u32(far.wrapping_mul(2)));
        let mut inside = if far.wrapping_mul(2) == 0 {
            code.literal(Literal::Bool(true))
        } else {
            let moved = code.binary(BinaryOperator::Add, index, far_expr);
            code.binary(BinaryOperator::Less, moved, both)
        };
        let size_expr = code.u32(size);
        let from = code.binary(BinaryOperator::Multiply, index, size_expr);
        let mut place = code.binary(BinaryOperator::Add, at, from);
        // The whole element is within the words.
        let words = match slot.words {
            Some(n) => code.u32(n),
            None => {
                let all = code.expr(Expression::GlobalVariable(slot.var));
                code.expr(Expression::ArrayLength(all))
            }
        };
        let four = code.u32(4);
        let bytes = code.binary(BinaryOperator::Multiply, words, four);
        let fits = code.binary(BinaryOperator::GreaterEqual, bytes, size_expr);
        let last = code.binary(BinaryOperator::Subtract, bytes, size_expr);
        let before_end = code.binary(BinaryOperator::LessEqual, place, last);
        let range = code.binary(BinaryOperator::LogicalAnd, fits, before_end);
        inside = code.binary(BinaryOperator::LogicalAnd, inside, range);
        let (fixed, strides) = self.scalar_path(access);
        for ((&k, n), stride) in dynamic.iter().zip(self.limits(access.element, &access.path)).zip(strides) {
            let n = code.u32(n);
            let below = code.binary(BinaryOperator::Less, k, n);
            inside = code.binary(BinaryOperator::LogicalAnd, inside, below);
            let stride = code.u32(stride);
            let by = code.binary(BinaryOperator::Multiply, k, stride);
            place = code.binary(BinaryOperator::Add, place, by);
        }
        if fixed != 0 {
            let fixed = code.u32(fixed);
            place = code.binary(BinaryOperator::Add, place, fixed);
        }
        code.name(place, "place");
        let before = code.enter();
        match access.action {
            Action::Load => {
                let value = self.load_words(&mut code, slot, access.leaf, place, 0, span)?;
                code.ret(Some(value));
            }
            Action::Store => self.store_words(&mut code, slot, access.leaf, place, 0, values[0], span)?,
            Action::Atomic(op) => {
                let s = self.ir.types.scalar_of(access.leaf).unwrap_or(Scalar::U32);
                let pointer = self.word_pointer(&mut code, slot, place);
                // A word of unsigned numbers has no signed least or greatest: those go by exchange.
                let old = self.atomic(&mut code, pointer, op, s, Scalar::U32, &values, span)?;
                if let Some(old) = old {
                    code.ret(Some(old));
                }
            }
        }
        let body = code.close(before);
        code.if_else(inside, body, Block::new());
        if access.action != Action::Store {
            self.access_nothing(&mut code, access, span)?;
        }
        Ok(self.add_function(code))
    }

    /// Byte offset of a path's static steps, and the stride of each dynamic one, in the CPU's layout.
    fn scalar_path(&self, access: &Access) -> (u32, Vec<u32>) {
        let mem = &self.ir.mem;
        let (mut ty, mut lanes, mut fixed, mut strides) = (access.element, None, 0u64, Vec::new());
        for &step in &access.path.0 {
            let stride = match (&mem[ty], lanes) {
                (_, Some(bytes)) => bytes,
                (MemData::Struct { fields, .. }, None) => {
                    if let Step::Static(k) = step {
                        fixed += mem.field_offset(ty, k as usize);
                        ty = fields[k as usize].1;
                    }
                    continue;
                }
                (MemData::Array(t, _), None) => {
                    ty = *t;
                    mem.size(*t)
                }
                (MemData::Matrix(s, _, columns), None) => {
                    lanes = Some(s.bytes() as u64);
                    s.bytes() as u64 * *columns as u64
                }
                (MemData::Vector(s, _) | MemData::Scalar(s), None) => s.bytes() as u64,
                (MemData::Handle(_), None) => 8,
            };
            match step {
                Step::Static(k) => fixed += k as u64 * stride,
                Step::Dynamic => strides.push(stride as u32),
            }
        }
        (fixed as u32, strides)
    }

    /// The pointer to the word that holds a byte.
    fn word_pointer(&mut self, code: &mut Code, slot: &Slot, place: Expr) -> Expr {
        let two = code.u32(2);
        let index = code.binary(BinaryOperator::ShiftRight, place, two);
        let all = code.expr(Expression::GlobalVariable(slot.var));
        code.element(all, index)
    }

    fn offset(&mut self, code: &mut Code, place: Expr, by: u32) -> Expr {
        if by == 0 {
            return place;
        }
        let by = code.u32(by);
        code.binary(BinaryOperator::Add, place, by)
    }

    /// The 32 bits from byte `place + by` on, aligned or not.
    fn load_word(&mut self, code: &mut Code, slot: &Slot, place: Expr, by: u32) -> Expr {
        let place = self.offset(code, place, by);
        let function = self.word_reader(slot);
        code.call(function, vec![place], true).expect("it gives a word")
    }

    /// A value in the CPU's layout from byte `place + by` on.
    fn load_words(
        &mut self,
        code: &mut Code,
        slot: &Slot,
        ty: Type,
        place: Expr,
        by: u32,
        span: ir::Span,
    ) -> Res<Expr> {
        match self.ir.types[ty] {
            TypeData::Scalar(s) => {
                self.check_scalar(s, span)?;
                let word = self.load_word(code, slot, place, by);
                let high = (s.bytes() == 8).then(|| self.load_word(code, slot, place, by + 4));
                Ok(number_of_word(code, s, word, high))
            }
            TypeData::Vector(..) | TypeData::Array(..) => {
                let value_ty = self.value_type(ty, &[], span)?;
                let (element, n) = (self.element_type(ty), self.length(ty));
                let bytes = self.ir.types.bytes(element) as u32;
                if n > 256 {
                    let what = format!("an array of {n} elements that is read at once");
                    return Err(self.refuse(what, "it is in memory that is seen as bytes", span));
                }
                let parts = (0..n.max(1))
                    .map(|k| self.load_words(code, slot, element, place, by + k * bytes, span))
                    .collect::<Res<Vec<Expr>>>()?;
                let is_one = n == 1 && matches!(self.ir.types[ty], TypeData::Vector(..));
                Ok(if is_one { parts[0] } else { code.compose(value_ty, parts) })
            }
            _ => Err(self.refuse("a pointer read from memory", "devices have no pointers in memory", span)),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a place and a value")]
    fn store_words(
        &mut self,
        code: &mut Code,
        slot: &Slot,
        ty: Type,
        place: Expr,
        by: u32,
        value: Expr,
        span: ir::Span,
    ) -> Res {
        match self.ir.types[ty] {
            TypeData::Scalar(s) => {
                self.check_scalar(s, span)?;
                let at = self.offset(code, place, by);
                if s.bytes() < 4 {
                    let bits = word_of_number(code, s, value, false);
                    return self.store_part(code, slot, at, bits, s.bits());
                }
                let low = word_of_number(code, s, value, false);
                self.store_word(code, slot, at, low, span);
                if s.bytes() == 8 {
                    let high = word_of_number(code, s, value, true);
                    let at = self.offset(code, place, by + 4);
                    self.store_word(code, slot, at, high, span);
                }
                Ok(())
            }
            TypeData::Vector(..) | TypeData::Array(..) => {
                let (element, n) = (self.element_type(ty), self.length(ty));
                let bytes = self.ir.types.bytes(element) as u32;
                if n > 256 {
                    let what = format!("an array of {n} elements that is written at once");
                    return Err(self.refuse(what, "it is in memory that is seen as bytes", span));
                }
                let is_one = n == 1 && matches!(self.ir.types[ty], TypeData::Vector(..));
                for k in 0..n {
                    let part = if is_one { value } else { code.part(value, k) };
                    self.store_words(code, slot, element, place, by + k * bytes, part, span)?;
                }
                Ok(())
            }
            _ => Err(self.refuse("a store of a pointer", "devices have no pointers", span)),
        }
    }

    /// Stores a whole word; bytes that are not aligned to it are an error.
    fn store_word(&mut self, code: &mut Code, slot: &Slot, at: Expr, word: Expr, span: ir::Span) {
        let (three, zero) = (code.u32(3), code.u32(0));
        let rest = code.binary(BinaryOperator::And, at, three);
        let odd = code.binary(BinaryOperator::NotEqual, rest, zero);
        let site = self.site("a store of a word to bytes that are not aligned to it".into(), span);
        let report = self.report();
        let site = code.u32(site);
        code.when(odd, |c| {
            c.call(report, vec![site], false);
        });
        let pointer = self.word_pointer(code, slot, at);
        code.store(pointer, word);
    }

    /// Stores the low bits of a word; the other bits stay what other threads make of them.
    fn store_part(&mut self, code: &mut Code, slot: &Slot, at: Expr, bits: Expr, width: u32) -> Res {
        let pointer = self.word_pointer(code, slot, at);
        let (three, eight) = (code.u32(3), code.u32(3));
        let byte = code.binary(BinaryOperator::And, at, three);
        let shift = code.binary(BinaryOperator::ShiftLeft, byte, eight);
        let mask = code.u32((1 << width) - 1);
        let mask = code.binary(BinaryOperator::ShiftLeft, mask, shift);
        let keep = code.unary(naga::UnaryOperator::BitwiseNot, mask);
        let bits = code.binary(BinaryOperator::ShiftLeft, bits, shift);
        for (fun, value) in [(AtomicFunction::And, keep), (AtomicFunction::InclusiveOr, bits)] {
            let ty = self.lanes_type(Scalar::U32, 1);
            let result = code.expr(Expression::AtomicResult { ty, comparison: false });
            code.push(Statement::Atomic { pointer, fun, value, result: Some(result) });
        }
        Ok(())
    }
}

/// The number that the low bits of a word are; with 64 bits, `high` are the others.
fn number_of_word(code: &mut Code, s: Scalar, word: Expr, high: Option<Expr>) -> Expr {
    let mask = |code: &mut Code, mask: u32| {
        let mask = code.u32(mask);
        code.binary(BinaryOperator::And, word, mask)
    };
    let signed = |code: &mut Code, unused: u32| {
        let (x, by) = (code.convert(word, ScalarKind::Sint, None), code.u32(unused));
        let x = code.binary(BinaryOperator::ShiftLeft, x, by);
        code.binary(BinaryOperator::ShiftRight, x, by)
    };
    match s {
        Scalar::U32 => word,
        Scalar::I32 => code.convert(word, ScalarKind::Sint, None),
        Scalar::F32 => code.convert(word, ScalarKind::Float, None),
        Scalar::Bool => {
            let low = mask(code, 0xff);
            let zero = code.u32(0);
            code.binary(BinaryOperator::NotEqual, low, zero)
        }
        Scalar::U8 => mask(code, 0xff),
        Scalar::U16 => mask(code, 0xffff),
        Scalar::I8 => signed(code, 24),
        Scalar::I16 => signed(code, 16),
        Scalar::F16 => {
            let both = code.math(MathFunction::Unpack2x16float, &[word]);
            let low = code.part(both, 0);
            code.convert(low, ScalarKind::Float, Some(2))
        }
        Scalar::I64 | Scalar::U64 | Scalar::F64 => {
            let low = code.convert(word, ScalarKind::Uint, Some(8));
            let high = high.unwrap_or(word);
            let high = code.convert(high, ScalarKind::Uint, Some(8));
            let by = code.u32(32);
            let high = code.binary(BinaryOperator::ShiftLeft, high, by);
            let bits = code.binary(BinaryOperator::InclusiveOr, low, high);
            match s {
                Scalar::U64 => bits,
                Scalar::I64 => code.convert(bits, ScalarKind::Sint, None),
                _ => code.convert(bits, ScalarKind::Float, None),
            }
        }
    }
}

/// The word that a number is in memory; `high` asks for the upper half of 64 bits.
fn word_of_number(code: &mut Code, s: Scalar, x: Expr, high: bool) -> Expr {
    let low_bits = |code: &mut Code, x: Expr| {
        let bits = code.convert(x, ScalarKind::Uint, None);
        let mask = code.u32(((1u64 << s.bits()) - 1) as u32);
        code.binary(BinaryOperator::And, bits, mask)
    };
    match s {
        Scalar::U32 => x,
        Scalar::I32 | Scalar::F32 => code.convert(x, ScalarKind::Uint, None),
        Scalar::Bool => {
            let (one, zero) = (code.u32(1), code.u32(0));
            code.select(x, one, zero)
        }
        Scalar::U8 | Scalar::U16 => x,
        Scalar::I8 | Scalar::I16 => low_bits(code, x),
        Scalar::F16 => word_of_half(code, x),
        Scalar::I64 | Scalar::U64 | Scalar::F64 => {
            let bits = if s == Scalar::U64 { x } else { code.convert(x, ScalarKind::Uint, None) };
            let bits = if high {
                let by = code.u32(32);
                code.binary(BinaryOperator::ShiftRight, bits, by)
            } else {
                bits
            };
            code.convert(bits, ScalarKind::Uint, Some(4))
        }
    }
}

/// The bits of a half.
pub(crate) fn word_of_half(code: &mut Code, x: Expr) -> Expr {
    let x = code.convert(x, ScalarKind::Float, Some(4));
    // The second lane is of no importance.
    let pair = code.splat(2, x);
    let bits = code.math(MathFunction::Pack2x16float, &[pair]);
    let mask = code.u32(0xffff);
    code.binary(BinaryOperator::And, bits, mask)
}

fn member(name: &str, ty: Handle<naga::Type>, offset: u32) -> StructMember {
    StructMember { name: Some(name.to_string()), ty, binding: None, offset }
}

/// What is left of an atomic path after a step into a field, or into any element.
fn tail((path, s): &(Path, Scalar), field: Option<u32>) -> Option<(Path, Scalar)> {
    let (first, rest) = path.0.split_first()?;
    let goes_there = match (first, field) {
        (Step::Static(k), Some(field)) => *k == field,
        (_, None) => true,
        (Step::Dynamic, Some(_)) => false,
    };
    goes_there.then(|| (Path(rest.into()), *s))
}
