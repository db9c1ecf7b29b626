//! Statements: the bodies of functions.

mod aliases;
mod exceptions;
mod statements;
mod target;
