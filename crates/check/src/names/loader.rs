//! The interface through which modules are found.

use syntax::FileId;

use crate::program::Program;

/// Finds modules for `import` and `__include`.
pub trait ModuleLoader {
    /// Parses the file into `program.ast` (unless it is there already) and returns its index in `ast.files`;
    /// `None` if there is no such file.
    fn load(&mut self, program: &mut Program, path: &str, quoted: bool, from: FileId) -> Option<usize>;
}

/// A loader that finds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModules;

impl ModuleLoader for NoModules {
    fn load(&mut self, _: &mut Program, _: &str, _: bool, _: FileId) -> Option<usize> {
        None
    }
}
