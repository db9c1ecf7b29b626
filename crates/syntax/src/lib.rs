//! Lexes, preprocesses and parses Slang source into an AST. This crate knows nothing of types or of the IR.
//!
//! Parsing never fails: it always yields a tree, together with diagnostics.
#![forbid(unsafe_code)]

pub mod ast;
pub mod capabilities;
pub mod diagnostic;
mod grammar;
pub mod keywords;
mod literal;
mod macros;
pub mod parser;
mod pragma;
pub mod preprocess;
pub mod print;
pub mod source;
pub mod spelling;
pub mod stored;
pub mod token;
pub mod warnings;

pub use ast::{Ast, DeclId, ExprId, FileAst, StmtId, Symbol};
pub use diagnostic::{Diagnostic, Label, Message, Severity};
pub use parser::{MAX_NESTING, parse_expression, parse_file};
pub use preprocess::{IncludeLoader, NoIncludes};
pub use source::{FileId, SourceFile, Sources, Span};
