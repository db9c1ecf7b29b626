//! Names: the scopes and modules in which they are declared, and what they refer to.

mod bit_fields;
pub(crate) mod completion;
pub(crate) mod enter;
pub(crate) mod locals;
pub(crate) mod lookup;
pub(crate) mod modules;
mod paths;
mod suggest;
mod visibility;
