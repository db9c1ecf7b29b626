//! Statements: the bodies of functions.

mod aliases;
mod chosen;
mod exceptions;
mod statements;
mod target;
