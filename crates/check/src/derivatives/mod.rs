//! Derivatives: the differentials of types, the signatures of derivative operators, and the derivative of a
//! function that applies where one is requested.

mod apply;
mod attributes;
mod differentials;
mod fit;
pub(crate) mod implicit;
pub(crate) mod listing;
mod methods;
mod pointers;
pub(crate) mod precedence;
pub(crate) mod pullback;
pub(crate) mod signatures;
pub(crate) mod witnesses;
