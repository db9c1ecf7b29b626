//! Statements: the bodies of functions.

mod exceptions;
mod statements;
mod target;
