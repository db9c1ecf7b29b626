//! Source to tokens to AST. Knows nothing of types or of the IR.
//!
//! Parsing never fails: it gives a tree and diagnostics.
#![forbid(unsafe_code)]

pub mod ast;
pub mod diagnostic;
pub mod source;

pub use ast::{Ast, DeclId, ExprId, FileAst, StmtId, Symbol};
pub use diagnostic::{Diagnostic, Label, Severity};
pub use source::{FileId, SourceFile, Sources, Span};
