//! The values that the interpreter computes with: the leaves of the IR.
//!
//! A value does not record its type: the meaning of its bits follows from the function's slots, as in machine
//! code. `L` is the data carried for each scalar: canonical bits (see [`crate::scalar`]), or bits and a
//! tangent in [`super::dual`].

use std::sync::Arc;

use smallvec::SmallVec;

use crate::function::Span;
use crate::scalar;
use crate::types::{Scalar, Type, TypeData, Types};

/// One leaf: a scalar, vector, array, stack or buffer handle.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<L = u64> {
    /// One number.
    Scalar(L),
    /// The lanes.
    Vector(SmallVec<[L; 4]>),
    /// The elements; shared until changed.
    Array(Arc<Vec<Value<L>>>),
    /// The elements; shared until changed.
    Stack(Arc<Vec<Value<L>>>),
    /// A place in memory.
    Buffer(Handle),
}

/// A handle of memory: a buffer of the host and the element that indices count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// The host's number of the buffer; `None` is null, a buffer without elements.
    pub buffer: Option<u32>,
    /// The number of elements that `buffer_offset` has advanced the handle by.
    pub offset: i64,
    /// The byte of the buffer where element 0 begins, as set by `buffer_cast`.
    pub start: u64,
    /// The number of bytes from `start` on; `None` for all bytes of the buffer.
    pub len: Option<u64>,
}

/// The data of one lane in the interpreter: bits, or bits with more.
pub trait Lane: Copy + PartialEq + std::fmt::Debug {
    /// A lane with these bits and no derivative.
    fn from_bits(bits: u64) -> Self;
    /// The lane's bits.
    fn bits(self) -> u64;
    /// The place where the derivative is lost if the lane continues as plain bits from `here`; `None` if it
    /// has no derivative to lose.
    fn cut_at(self, here: &dyn Fn() -> Span) -> Option<Span>;
    /// The lane where only its bits are kept, if it has lost its derivative at a place.
    fn cut(self, at: Option<Span>) -> Self;
    /// Evaluates any elementwise op, like [`scalar::elementwise`].
    fn elementwise(op: &crate::ops::Op, from: Scalar, to: Scalar, args: &[Self]) -> Option<Self>;

    /// The lane without its derivative, which is lost at a place if it has one.
    fn detached(self, at: Option<Span>) -> Self {
        self.cut(at)
    }

    /// The bits, where they decide what runs or which element is meant; an error if the lane leaves that open.
    fn decided(self) -> Result<u64, String> {
        Ok(self.bits())
    }

    /// `self ? a : b`, of numbers of a type.
    fn selected(self, a: Self, b: Self, _s: Scalar) -> Self {
        if self.bits() != 0 { a } else { b }
    }
}

impl Lane for u64 {
    fn from_bits(bits: u64) -> u64 {
        bits
    }
    fn bits(self) -> u64 {
        self
    }
    fn cut_at(self, _here: &dyn Fn() -> Span) -> Option<Span> {
        None
    }
    fn cut(self, _at: Option<Span>) -> u64 {
        self
    }
    fn elementwise(op: &crate::ops::Op, from: Scalar, to: Scalar, args: &[u64]) -> Option<u64> {
        scalar::elementwise(op, from, to, args)
    }
}

#[expect(missing_docs, reason = "the names say it")]
impl Value {
    pub fn bool(x: bool) -> Value {
        Value::Scalar(x as u64)
    }
    pub fn i32(x: i32) -> Value {
        Value::Scalar(x as u32 as u64)
    }
    pub fn u32(x: u32) -> Value {
        Value::Scalar(x as u64)
    }
    pub fn f32(x: f32) -> Value {
        Value::Scalar(x.to_bits() as u64)
    }
    pub fn f64(x: f64) -> Value {
        Value::Scalar(x.to_bits())
    }
}

impl<L: Lane> Value<L> {
    /// The value of a type that `zero` produces.
    pub fn zero(types: &Types, ty: Type) -> Value<L> {
        Value::filled(types, ty, 0)
    }

    /// The identity of addition: the absent differential, where the type has floats.
    pub fn absent(types: &Types, ty: Type) -> Value<L> {
        let bits = types.scalar_of(ty).filter(|s| s.is_float()).map_or(0, scalar::absent);
        Value::filled(types, ty, bits)
    }

    /// A value of a type with these bits in every scalar (no element in a stack, null handles).
    pub fn filled(types: &Types, ty: Type, bits: u64) -> Value<L> {
        match types[ty] {
            TypeData::Scalar(_) => Value::Scalar(L::from_bits(bits)),
            TypeData::Vector(_, n) => Value::Vector(SmallVec::from_elem(L::from_bits(bits), n as usize)),
            TypeData::Array(t, n) => Value::array(vec![Value::filled(types, t, bits); n as usize]),
            TypeData::Stack(_) => Value::stack(Vec::new()),
            TypeData::Cell(t) => Value::filled(types, t, bits),
            TypeData::Buffer(_) => Value::Buffer(Handle::default()),
            // No code reads the residuals.
            TypeData::Residuals(_) => Value::stack(Vec::new()),
        }
    }

    /// An array of elements.
    pub fn array(elements: Vec<Value<L>>) -> Value<L> {
        Value::Array(Arc::new(elements))
    }

    /// A stack of elements.
    pub fn stack(elements: Vec<Value<L>>) -> Value<L> {
        Value::Stack(Arc::new(elements))
    }

    /// The lane of a scalar; a lane of zero bits for any other value.
    pub fn lane(&self) -> L {
        match self {
            Value::Scalar(lane) => *lane,
            Value::Vector(_) | Value::Array(_) | Value::Stack(_) | Value::Buffer(_) => L::from_bits(0),
        }
    }

    /// The number of elements that an index can select.
    pub fn len(&self) -> usize {
        match self {
            Value::Scalar(_) | Value::Buffer(_) => 0,
            Value::Vector(lanes) => lanes.len(),
            Value::Array(elements) | Value::Stack(elements) => elements.len(),
        }
    }

    /// Returns true if there is no element to index.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `idx`, if there is one.
    pub fn element(&self, idx: usize) -> Option<Value<L>> {
        match self {
            Value::Scalar(_) | Value::Buffer(_) => None,
            Value::Vector(lanes) => lanes.get(idx).map(|&lane| Value::Scalar(lane)),
            Value::Array(elements) | Value::Stack(elements) => elements.get(idx).cloned(),
        }
    }

    /// Replaces element `idx`, if there is one.
    pub fn set_element(&mut self, idx: usize, x: Value<L>) {
        match self {
            Value::Scalar(_) | Value::Buffer(_) => {}
            Value::Vector(lanes) => {
                if let Some(lane) = lanes.get_mut(idx) {
                    *lane = x.lane();
                }
            }
            Value::Array(elements) | Value::Stack(elements) => {
                if idx < elements.len() {
                    Arc::make_mut(elements)[idx] = x;
                }
            }
        }
    }

    /// The value with `change` applied to every lane.
    pub fn map<M: Lane>(&self, change: &mut dyn FnMut(L) -> M) -> Value<M> {
        match self {
            Value::Scalar(lane) => Value::Scalar(change(*lane)),
            Value::Vector(lanes) => Value::Vector(lanes.iter().map(|&lane| change(lane)).collect()),
            Value::Array(elements) => Value::array(elements.iter().map(|e| e.map(change)).collect()),
            Value::Stack(elements) => Value::stack(elements.iter().map(|e| e.map(change)).collect()),
            Value::Buffer(handle) => Value::Buffer(*handle),
        }
    }

    /// Every lane in order (elements first to last).
    pub fn lanes(&self) -> Vec<L> {
        let mut all = Vec::new();
        self.map(&mut |lane| {
            all.push(lane);
            lane
        });
        all
    }

    /// Elementwise `self + other` for a type made of `s`; the sum of two stacks has the length of the longer
    /// one.
    pub fn add(&self, other: &Value<L>, s: Scalar) -> Value<L> {
        let add = |a: L, b: L| L::elementwise(&crate::ops::Op::Add, s, s, &[a, b]).unwrap_or(a);
        match (self, other) {
            (Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(add(*a, *b)),
            (Value::Vector(a), Value::Vector(b)) => {
                Value::Vector(a.iter().zip(b).map(|(&a, &b)| add(a, b)).collect())
            }
            (Value::Array(a), Value::Array(b)) => {
                Value::array(a.iter().zip(b.iter()).map(|(a, b)| a.add(b, s)).collect())
            }
            (Value::Stack(a), Value::Stack(b)) => {
                let mut sum: Vec<_> = a.iter().zip(b.iter()).map(|(a, b)| a.add(b, s)).collect();
                let longer = if a.len() > b.len() { a } else { b };
                sum.extend_from_slice(&longer[sum.len()..]);
                Value::stack(sum)
            }
            _ => self.clone(),
        }
    }

    /// Returns true if the value has the shape of a type.
    pub fn fits(&self, types: &Types, ty: Type) -> bool {
        match (self, types[ty]) {
            (Value::Scalar(_), TypeData::Scalar(_)) | (Value::Buffer(_), TypeData::Buffer(_)) => true,
            (Value::Vector(lanes), TypeData::Vector(_, n)) => lanes.len() == n as usize,
            (Value::Array(elements), TypeData::Array(t, n)) => {
                elements.len() == n as usize && elements.iter().all(|e| e.fits(types, t))
            }
            (Value::Stack(elements), TypeData::Stack(t)) => elements.iter().all(|e| e.fits(types, t)),
            _ => false,
        }
    }
}

impl Value {
    /// Returns true if two values of a type are the same: equal bits, with all NaN equal.
    pub fn same(&self, other: &Value, types: &Types, ty: Type) -> bool {
        let Some(s) = types.scalar_of(ty) else { return self == other };
        let (a, b) = (self.lanes(), other.lanes());
        self.fits(types, ty)
            && other.fits(types, ty)
            && a.len() == b.len()
            && a.iter().zip(&b).all(|(&a, &b)| scalar::same(s, a, b))
    }

    /// Formats the value: `1.5`, `(1.0, 2.0)` for vectors, `[…]` for arrays, `<…>` for stacks.
    pub fn display(&self, types: &Types, ty: Type) -> String {
        let list = |open: &str, items: Vec<String>, close: &str| open.to_string() + &items.join(", ") + close;
        let s = types.scalar_of(ty);
        let lane = |bits: u64| match s {
            Some(s) => crate::print::scalar_text(s, bits),
            None => format!("{bits:#x}"),
        };
        match self {
            Value::Scalar(bits) => lane(*bits),
            Value::Vector(lanes) => list("(", lanes.iter().map(|&b| lane(b)).collect(), ")"),
            Value::Array(elements) | Value::Stack(elements) => {
                let t = types.element(ty).unwrap_or(ty);
                let items = elements.iter().map(|e| e.display(types, t)).collect();
                if matches!(self, Value::Array(_)) { list("[", items, "]") } else { list("<", items, ">") }
            }
            Value::Buffer(handle) => match handle.buffer {
                Some(n) => format!("buffer{n}+{}", handle.offset),
                None => "null".to_string(),
            },
        }
    }
}
