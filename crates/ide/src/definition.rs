//! Finds the declaration of the entity under the cursor.

use std::path::PathBuf;

use syntax::{FileId, Span};

use crate::Analysis;
use crate::cursor::Under;

impl Analysis {
    /// The span of the declaration of the entity at an offset, which may be in the library; the start of a file for
    /// an `import`.
    pub fn definition(&mut self, offset: u32) -> Option<Span> {
        if let Some(index) = self.imported(offset) {
            let file = self.program.ast.files.get(index)?.file;
            return Some(Span { file, start: 0, end: 0 });
        }
        let decl = match self.under(offset)?.0 {
            Under::Declaration(decl) => decl,
            Under::Expr(expr) => {
                let entity = self.entity(expr)?;
                self.declaration_of(&entity)?
            }
        };
        Some(self.program.ast.decls[decl].name_span)
    }

    /// The path under which a file was read.
    pub fn path(&self, file: FileId) -> Option<PathBuf> {
        Some(PathBuf::from(&self.session.sources.files.get(file.0 as usize)?.path))
    }
}
