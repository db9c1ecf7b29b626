//! The program: trees, tables, types and diagnostics, and what has been found out so far.

use syntax::{Ast, Diagnostic};

use crate::tables::Tables;
use crate::types::TyInterner;

/// A program that is being checked. Owns everything; there is no global state.
#[derive(Debug, Default)]
pub struct Program {
    /// The trees of all files.
    pub ast: Ast,
    /// What expressions and declarations mean.
    pub tables: Tables,
    /// The types.
    pub types: TyInterner,
    /// What is to be told to the user, in order of finding.
    pub diagnostics: Vec<Diagnostic>,
}
