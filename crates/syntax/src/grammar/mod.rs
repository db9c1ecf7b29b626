//! Implements the grammar, with one file for each kind of construct. Each function parses the construct that
//! its name indicates from the current token on, reports errors, and always returns a node.

pub(crate) mod attributes;
mod declarations;
mod expressions;
mod functions;
mod glsl;
mod items;
mod spirv;
mod spirv_functions;
mod statements;
mod types;
