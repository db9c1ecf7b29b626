//! Answers an editor's queries about a program: types, declarations, completions.
//!
//! An [`Analysis`] is one file as the editor holds it, parsed with everything that it imports. Nothing is
//! checked until a query needs it, and then only the declaration around the queried place; hence a query
//! takes milliseconds in a file of thousands of lines. Places are byte offsets; this crate is independent of
//! any protocol.
#![forbid(unsafe_code)]

mod actions;
mod attributes;
mod checker;
mod completion;
mod consequences;
mod cursor;
mod definition;
mod describe;
mod folding;
mod highlighter;
mod hints;
mod hover;
mod lens;
mod locals;
mod names;
mod references;
mod signature_help;
mod symbols;
mod tokens;
mod units;
mod words;

use std::path::Path;

use check::Program;
use driver::Error;
use driver::session::{FileOptions, Session};
use syntax::{Diagnostic, FileId, Sources, Span};

pub use actions::Action;
pub use attributes::{ATTRIBUTES, AttributeDoc, attribute};
pub use checker::Checker;
pub use completion::{Completion, CompletionKind, complete};
pub use folding::{Fold, FoldKind, folds};
pub use highlighter::Highlighter;
pub use hints::{Hint, HintKind, HintOptions};
pub use hover::Hover;
pub use lens::{Lens, Rounding, derivative, gradcheck, rounding};
pub use references::{Reference, Refusal, Target, references, rename};
pub use signature_help::{SignatureHelp, SignatureText, signature_help};
pub use symbols::{SymbolKind, SymbolNode};
pub use tokens::{Token, TokenKind, TokenModifier};

/// A file with everything that it imports.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) session: Session,
    pub(crate) program: Program,
    /// The file's index in `ast.files`.
    pub(crate) index: usize,
    pub(crate) file: FileId,
}

impl Analysis {
    /// Reads and parses a file. Texts in `options.open` take precedence over files.
    pub fn new(options: &FileOptions, path: &Path) -> Result<Analysis, Error> {
        let mut session = Session::new(options.clone());
        let mut program = session.program();
        let index = session.load(&mut program, path)?;
        let file = program.ast.files.get(index).map_or(FileId(0), |f| f.file);
        Ok(Analysis { session, program, index, file })
    }

    /// Parses a text by itself, without the library and what it imports: enough for [`Analysis::symbols`].
    pub fn outline(path: &Path, text: String) -> Analysis {
        let mut session = Session::new(FileOptions::default());
        let mut program = Program::new(syntax::Ast::default(), &[]);
        let index = session.parse_text(&mut program, &path.display().to_string(), text);
        let file = program.ast.files.get(index).map_or(FileId(0), |f| f.file);
        Analysis { session, program, index, file }
    }

    /// The text of a span; empty if there is none.
    pub(crate) fn text(&self, span: Span) -> &str {
        let file = self.session.sources.files.get(span.file.0 as usize);
        file.and_then(|f| f.text.get(span.start as usize..span.end as usize)).unwrap_or("")
    }

    /// The texts of all files that were read.
    pub fn sources(&self) -> &Sources {
        &self.session.sources
    }
}

/// Diagnostics, and the sources that they point into.
pub type Checked = (Sources, Vec<Diagnostic>);

/// All diagnostics of a file, including those of its derivatives.
pub fn diagnostics(options: &FileOptions, path: &Path) -> Result<Checked, Error> {
    let mut session = Session::new(options.clone());
    let diagnostics = driver::pipeline::check(&mut session, path)?;
    Ok((session.sources, diagnostics))
}
