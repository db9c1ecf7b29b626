//! How the parameters and results of a derivative are told apart from those of its primal.

use ir::{Function, Slot, Type, Value};

/// How the linear program is used: run as it is, or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Tangents are wanted.
    Forward,
    /// The linear part will be transposed: functions known by their vjp alone may be called.
    Reverse,
}

/// Selects parameters or results.
pub(crate) type Mask = Box<[bool]>;

/// The number of parameters and results of a forward derivative that precede the tangents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) params: usize,
    pub(crate) results: usize,
}

/// A slot for the tangent (or cotangent) of another slot.
pub(crate) fn tangent_slot(of: &Slot) -> Slot {
    let name = of.name.as_ref().map(|name| format!("d_{name}").into());
    Slot { ty: of.ty, diff: true, linear: false, name }
}

/// A slot for the tangent of another slot of a linear function.
pub(crate) fn linear_tangent_slot(of: &Slot) -> Slot {
    Slot { linear: true, ..tangent_slot(of) }
}

/// A slot without a name; `diff` if its type can have a tangent.
pub(crate) fn plain_slot(types: &ir::Types, ty: Type) -> Slot {
    Slot { ty, diff: types.is_differentiable(ty), linear: false, name: None }
}

/// The items of `all` that the mask selects.
pub(crate) fn select<'a, T>(all: &'a [T], mask: &'a [bool]) -> impl Iterator<Item = &'a T> {
    all.iter().zip(mask).filter(|(_, named)| **named).map(|(item, _)| item)
}

/// The parameters of a function's body.
pub(crate) fn params(func: &Function) -> &[Value] {
    &func.regions[func.body()].params
}
