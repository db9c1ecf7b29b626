//! Rules that declarations have to follow, whatever uses them: `pullback check` checks them for each declaration
//! of a file. What a use of a declaration has to follow is checked where the use is.

mod arrays;
mod attributes;
mod capabilities;
mod entry_points;
mod functions;
mod generics;
mod globals;
mod interfaces;
mod visibility;

use syntax::DeclId;

use crate::program::Program;

impl Program {
    /// Checks a declaration that is checked already, apart from those inside it.
    pub(crate) fn check_rules(&mut self, decl: DeclId) {
        if self.is_core(decl) {
            return;
        }
        self.check_own_attributes(decl);
        self.check_generics(decl);
        self.check_parameters(decl);
        self.check_bases(decl);
        self.check_requirement(decl);
        self.check_global(decl);
        self.check_arrays(decl);
        self.check_entry_point(decl);
        self.check_capabilities(decl);
        self.check_visibility(decl);
    }
}
