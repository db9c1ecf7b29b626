//! Builds the types of memory and accesses places in it.
//!
//! Memory is laid out as [`crate::layout`] specifies; where naga's own rules would place a field elsewhere,
//! padding members are inserted. The type of a leaf that atomic operations work on is atomic; there are no
//! atomic floats, so an unsigned word holds the bits of a float.

use std::num::NonZeroU32;

use ir::{AtomicOp, MemData, MemType, Path, Scalar, Selection, Step, Type};
use naga::{Expression, GlobalVariable, Handle, StructMember, TypeInner};

use crate::Unsupported;
use crate::build::{Code, Expr};
use crate::layout::{self, Rule};
use crate::module::Cx;
use crate::plan::Base;
use crate::types::member;

/// A form of memory layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Std430,
    Std140,
    /// As local values: for memory that the host does not see.
    Local,
}

/// A declared global.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) var: Handle<GlobalVariable>,
    /// The global is a single element rather than an array of elements.
    pub(crate) is_single: bool,
    /// The memory is declared as an array of words.
    pub(crate) raw: bool,
    /// The memory is private to a thread, so it has no atomic words.
    pub(crate) is_private: bool,
    /// The number of words, if known.
    pub(crate) words: Option<u32>,
    pub(crate) element: MemType,
    /// The type of an element; `None` if the memory is words.
    pub(crate) ty: Option<Handle<naga::Type>>,
    pub(crate) name: String,
}

/// An action on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Load,
    Store,
    Atomic(AtomicOp),
}

/// A kind of access, for which a function is emitted: the memory, the path, the type and the action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Access {
    pub(crate) bases: Vec<Base>,
    pub(crate) element: MemType,
    pub(crate) path: Path,
    /// An element is in range only if all of it is.
    pub(crate) whole: bool,
    /// The power of two, at most 4, that is known to divide the byte offset into memory that is words.
    pub(crate) align: u32,
    /// The type of the leaf.
    pub(crate) leaf: Type,
    pub(crate) action: Action,
}

/// The place that a walk along a path has reached.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) pointer: Expr,
    pub(crate) ty: Handle<naga::Type>,
    /// The memory type; `None` within a vector or matrix.
    mem: Option<MemType>,
}

pub(crate) type Res<T = ()> = Result<T, Unsupported>;
impl Cx<'_> {
    // ---- types

    /// The type of a word of memory that is accessed as several types.
    pub(crate) fn word_type(&mut self) -> Handle<naga::Type> {
        self.ty(TypeInner::Scalar(naga::Scalar::U32))
    }

    /// The type of such a word that atomic operations access.
    pub(crate) fn atomic_word_type(&mut self) -> Handle<naga::Type> {
        self.ty(TypeInner::Atomic(naga::Scalar::U32))
    }

    /// The type of a number or vector in memory.
    fn stored(&mut self, s: Scalar, n: u32, form: Form) -> Handle<naga::Type> {
        let s = if s == Scalar::Bool && form != Form::Local { Scalar::U32 } else { s };
        if n <= 4 {
            return self.lanes_type(s, n);
        }
        let base = self.lanes_type(s, 1);
        self.spaced_array(base, n, form)
    }

    /// An array with the stride that the form requires.
    fn spaced_array(&mut self, base: Handle<naga::Type>, n: u32, form: Form) -> Handle<naga::Type> {
        let (size, align) = self.natural(base);
        let stride = size.next_multiple_of(align);
        let base = if form == Form::Std140 && !stride.is_multiple_of(16) {
            let mut members = vec![member("value", base, 0)];
            self.pad(&mut members, size, stride.next_multiple_of(16));
            let wrapper = self.structure("Wide", members, stride.next_multiple_of(16));
            self.types.wrappers.push(wrapper);
            wrapper
        } else {
            base
        };
        self.array_of(base, NonZeroU32::new(n.max(1)))
    }

    /// Adds padding members that fill the space from one offset to another.
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
        if let (true, Some(&found)) = (atomics.is_empty(), self.types.of_memory.get(&(ty, form))) {
            return Ok(found);
        }
        let mem = &self.ir.mem;
        let made = match mem[ty].clone() {
            MemData::Scalar(s) => {
                self.check_scalar(s, span)?;
                match atomics.first() {
                    Some(_) => {
                        let word = match s {
                            Scalar::F32 if self.types.adds_natively => naga::Scalar::F32,
                            Scalar::U32 | Scalar::F32 => naga::Scalar::U32,
                            Scalar::I32 => naga::Scalar::I32,
                            Scalar::I64 if self.options.target.has_atomic_int64() => naga::Scalar::I64,
                            Scalar::U64 | Scalar::F64 if self.options.target.has_atomic_int64() => {
                                naga::Scalar::U64
                            }
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
            MemData::Matrix(s, rows, columns, _) => {
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
            MemData::Struct { name, fields, .. } => {
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
                self.types.members.insert(made, indices);
                made
            }
        };
        if atomics.is_empty() {
            self.types.of_memory.insert((ty, form), made);
        }
        Ok(made)
    }

    /// Returns true if a struct has the same layout in uniforms and in storage, so that both can share one
    /// type.
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

    /// The place of a global's element.
    pub(crate) fn element(&mut self, code: &mut Code, slot: &Slot, index: Option<Expr>) -> At {
        let mut pointer = code.expr(Expression::GlobalVariable(slot.var));
        if let (false, Some(index)) = (slot.is_single, index) {
            pointer = code.element(pointer, index);
        }
        let ty = slot.ty.expect("memory that is no words has a type");
        At { pointer, ty, mem: Some(slot.element) }
    }

    /// Follows a path from a place. `dynamic` are the dynamic indices, which must be in range.
    pub(crate) fn walk(&mut self, code: &mut Code, mut at: At, path: &Path, dynamic: &[Expr]) -> At {
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
                    let k =
                        self.types.members.get(&at.ty).and_then(|m| m.get(k as usize)).copied().unwrap_or(k);
                    at = At { pointer: code.part(at.pointer, k), ty: members[k as usize].ty, mem: next };
                }
                TypeInner::Array { base, .. } => {
                    at = At { pointer: code.element(at.pointer, index), ty: base, mem: next };
                    if self.types.wrappers.contains(&base)
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
                // The only lane of a vector of one lane.
                _ => at.mem = next,
            }
        }
        at
    }

    /// Element `k` of an array.
    pub(crate) fn array_part(&mut self, code: &mut Code, at: At, k: u32) -> At {
        let TypeInner::Array { base, .. } = self.out.types[at.ty].inner else { return at };
        let pointer = code.part(at.pointer, k);
        if self.types.wrappers.contains(&base)
            && let TypeInner::Struct { members, .. } = &self.out.types[base].inner
        {
            let ty = members[0].ty;
            return At { pointer: code.part(pointer, 0), ty, mem: None };
        }
        At { pointer, ty: base, mem: None }
    }

    pub(crate) fn element_type(&self, ty: Type) -> Type {
        self.ir.types.element(ty).unwrap_or(ty)
    }

    /// The number of elements of an array or vector.
    pub(crate) fn length(&self, ty: Type) -> u32 {
        self.ir.types.length(ty).unwrap_or(1)
    }

    /// The part of an element that a path selects, in the CPU's layout. The path must be valid.
    pub(crate) fn select(&self, element: MemType, path: &Path) -> Selection {
        self.ir.mem.select(element, &path.0).expect("the verifier accepts only valid paths")
    }

    /// The place in the only element of a global at indices known to be in range.
    pub(crate) fn place_in(&mut self, code: &mut Code, base: Base, path: &Path, dynamic: &[Expr]) -> At {
        let slot = self.slots[&base].clone();
        let at = self.element(code, &slot, None);
        self.walk(code, at, path, dynamic)
    }

    /// Refuses to access an array as a whole if it is too long to be accessed element by element.
    pub(crate) fn check_length(&self, n: u32, done: &str, why: &str, span: ir::Span) -> Res {
        if n <= 256 {
            return Ok(());
        }
        Err(self.refuse(format!("an array of {n} elements that is {done} at once"), why, span))
    }
}

/// The rest of an atomic path after a step into the given field, or into any array element.
fn tail((path, s): &(Path, Scalar), field: Option<u32>) -> Option<(Path, Scalar)> {
    let (first, rest) = path.0.split_first()?;
    let goes_there = match (first, field) {
        (Step::Static(k), Some(field)) => *k == field,
        (_, None) => true,
        (Step::Dynamic, Some(_)) => false,
    };
    goes_there.then(|| (Path(rest.into()), *s))
}
