//! The grammar, one file for each kind of thing. Each function reads what its name says from the current
//! token on, reports what is wrong, and always gives a node.

pub(crate) mod attributes;
pub(crate) mod bit_fields;
mod declarations;
mod expressions;
mod functions;
mod items;
mod statements;
mod types;
