//! Answers an editor's queries: the names visible at a place, and the members of a type.
//!
//! The lists contain what the checker's own lookup would find, in lookup order. Names are in order of
//! declaration, so that results do not depend on the order of hash maps.

use syntax::DeclId;
use syntax::ast::DeclKind;

use crate::facts::Names;
use crate::program::Program;
use crate::types::{Ty, TyKind};

impl Program {
    /// Checks one declaration of a file and everything inside it, as [`Program::check_file`] would.
    pub fn check_declaration(&mut self, decl: DeclId) {
        self.resolve_extensions();
        self.check_decl(decl);
    }

    /// The members of a type: its own, those of its extensions and bases, and of its interfaces.
    pub fn members_of(&mut self, ty: Ty) -> Vec<DeclId> {
        let mut containers: Vec<DeclId> = self.facets(ty).iter().map(|f| f.container).collect();
        containers.extend(self.blanket_facets(ty, |_, _| true).iter().map(|f| f.container));
        if let TyKind::SynthDiff(primal) = self.types[ty] {
            return self.fields(primal).iter().map(|f| f.0).collect();
        }
        let mut out = Vec::new();
        for container in containers {
            if let Some(names) = self.names_in(container) {
                append(names, &mut out);
            }
        }
        out
    }

    /// The type that a method, constructor or accessor is a member of.
    pub fn receiver_of(&mut self, decl: DeclId) -> Option<Ty> {
        self.container_of(decl).map(|c| self.self_type(c))
    }

    /// The members that all parts of a namespace declare.
    pub fn namespace_members(&self, namespace: DeclId) -> Vec<DeclId> {
        let mut out = Vec::new();
        for part in self.parts(namespace) {
            if let Some(names) = self.names_in(part) {
                append(names, &mut out);
            }
        }
        out
    }

    /// The declarations that can be named without a path inside `scope` (at the top of the file if it is
    /// `None`), except for variables of a function's body: nearest first, the library's names last.
    pub fn names_at(&mut self, scope: Option<DeclId>, file: usize) -> Vec<DeclId> {
        let mut out = Vec::new();
        let mut at = scope;
        while let Some(decl) = at {
            if let Some(generics) = &self.ast.decls[decl].generics {
                out.extend(generics.params.iter().copied());
            }
            match self.ast.decls[decl].kind {
                DeclKind::Struct { .. }
                | DeclKind::Interface { .. }
                | DeclKind::Extension { .. }
                | DeclKind::Enum { .. } => {
                    let ty = self.self_type(decl);
                    out.extend(self.members_of(ty));
                }
                DeclKind::Namespace { .. } => out.extend(self.namespace_members(decl)),
                DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. } => {
                    out.extend(self.params_of(decl));
                }
                _ => {}
            }
            at = self.ast.decls[decl].parent;
        }
        let module = self.modules.of_index.get(&file).copied().unwrap_or(0);
        for (seen, _) in self.modules.seen_from(module) {
            append(&self.modules.all[seen].names, &mut out);
        }
        if module != 0 {
            append(&self.modules.all[0].names, &mut out);
        }
        out
    }
}

fn append(names: &Names, out: &mut Vec<DeclId>) {
    let mut decls: Vec<DeclId> = names.values().flatten().copied().collect();
    decls.sort();
    out.extend(decls);
}
