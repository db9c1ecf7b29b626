//! Rules that declarations have to follow, whatever uses them: `pullback check` checks them for each declaration
//! of a file. What a use of a declaration has to follow is checked where the use is, or, where that needs a view of a
//! whole body, by a walk over the body once it has been checked.

mod arrays;
mod attributes;
mod bindings;
mod code;
mod dynamic;
mod entry_points;
mod functions;
mod generics;
mod globals;
mod interfaces;
mod marks;
mod needs;
mod overriding;
mod parameters;
mod places;
mod removed;
mod resources;
mod stages;
mod storage;
mod system_values;
mod unset_globals;
mod visibility;
mod visible;

use syntax::DeclId;
use syntax::ast::DeclKind;

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
        self.check_copies(decl);
        self.check_requirement(decl);
        self.check_global(decl);
        self.check_arrays(decl);
        self.check_entry_point(decl);
        self.check_visibility(decl);
        self.check_place(decl);
        self.check_modifiers(decl);
        self.check_attribute_places(decl);
        self.check_stage_outputs(decl);
        self.check_dynamic(decl);
        self.check_storage(decl);
        self.check_resources(decl);
        self.check_generic_params(decl);
        self.check_vulkan_bindings(decl);
        self.check_needs(decl);
    }

    /// Returns true for a variable outside of functions and types: an input of the program, or one that it
    /// keeps.
    pub(crate) fn is_global(&self, decl: DeclId) -> bool {
        let d = &self.ast.decls[decl];
        let is_open = |kind: &DeclKind| matches!(kind, DeclKind::Namespace { .. } | DeclKind::CBuffer { .. });
        matches!(d.kind, DeclKind::Var { .. }) && d.parent.is_none_or(|p| is_open(&self.ast.decls[p].kind))
    }
}
