//! Answers an editor's queries about a program: types, declarations, completions.
//!
//! An [`Analysis`] is one file as the editor holds it, parsed with everything that it imports. Nothing is
//! checked until a query needs it, and then only the declaration around the queried place; hence a query
//! takes milliseconds in a file of thousands of lines. Places are byte offsets; this crate is independent of
//! any protocol.
#![forbid(unsafe_code)]

mod completion;
mod cursor;
mod definition;
mod describe;
mod hover;
mod locals;
mod symbols;

use std::path::Path;

use check::Program;
use driver::Error;
use driver::session::{FileOptions, Session};
use syntax::{Diagnostic, FileId, Sources};

pub use completion::{Completion, CompletionKind, complete};
pub use hover::Hover;
pub use symbols::{SymbolKind, SymbolNode};

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

    /// The texts of all files that were read.
    pub fn sources(&self) -> &Sources {
        &self.session.sources
    }
}

/// Diagnostics, and the sources that they point into.
pub type Checked = (Sources, Vec<Diagnostic>);

/// The checker's diagnostics for a file, without the analysis of derivatives: fast enough for an editor to
/// wait for.
pub fn quick_diagnostics(options: &FileOptions, path: &Path) -> Result<Checked, Error> {
    let mut analysis = Analysis::new(options, path)?;
    analysis.program.check_file(analysis.index);
    let mut diagnostics = driver::pipeline::in_order(std::mem::take(&mut analysis.program.diagnostics));
    diagnostics.retain(|d| analysis.session.is_shown(d));
    Ok((analysis.session.sources, diagnostics))
}

/// All diagnostics of a file, including those of its derivatives.
pub fn diagnostics(options: &FileOptions, path: &Path) -> Result<Checked, Error> {
    let mut session = Session::new(options.clone());
    let diagnostics = driver::pipeline::check(&mut session, path)?;
    Ok((session.sources, diagnostics))
}
