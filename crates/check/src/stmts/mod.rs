//! Statements: the bodies of functions.

mod aliases;
mod chosen;
mod exceptions;
mod in_place;
mod statements;
mod target;
