//! Rules about what memory can hold: resources and arrays without a length in buffers, initial values of
//! shared memory, constants that depend on inputs.

use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::program::Program;
use crate::tables::Meaning;
use crate::types::follow_up::text;
use crate::types::limits::MAX_NESTING;
use crate::types::{BufferKind, Ty, TyKind};

impl Program {
    /// Checks the memory that a variable, field or parameter stands for.
    pub(crate) fn check_storage(&mut self, decl: DeclId) {
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Var { ty: Some(written), init, .. } => {
                let ty = self.decl_type(decl);
                self.check_elements(decl, written);
                let modifiers = self.ast.decls[decl].modifiers;
                if modifiers.has(Modifiers::GROUPSHARED) && init.is_some() && self.is_global(decl) {
                    let name = self.ast.decl_name(decl);
                    let message =
                        format!("'{name}' is shared by a group, so it cannot have an initial value");
                    let error = Diagnostic::error("E31223", self.name_span(decl), message);
                    self.report(error.help("let one thread assign it, and put a barrier after that"));
                }
                self.check_leaks(decl, written, ty);
            }
            DeclKind::Struct { .. } => self.check_last_field(decl),
            DeclKind::Func { .. } | DeclKind::Init { .. } => {
                for param in self.params_of(decl) {
                    let ty = self.decl_type(param);
                    if matches!(self.types[ty], TyKind::Struct(..)) && self.is_unsized(ty) {
                        let message = text!(
                            "a '{}', which ends in an array without a length, cannot be passed",
                            self.shown(ty)
                        );
                        self.error("E30072", self.name_span(param), message);
                    }
                }
            }
            _ => {}
        }
    }

    /// The type in a written type without its modifiers and lengths, and its arguments.
    pub(super) fn head_of(&self, written: ExprId) -> Option<(&str, &[ExprId])> {
        match &self.ast.exprs[written].kind {
            ExprKind::Modified(_, inner) | ExprKind::Paren(inner) => self.head_of(*inner),
            ExprKind::Index { base, .. } => self.head_of(*base),
            ExprKind::Generic { base, args } => match self.ast.exprs[*base].kind {
                ExprKind::Name(name) => Some((self.ast.name(name), args)),
                _ => None,
            },
            ExprKind::Name(name) => Some((self.ast.name(*name), &[])),
            _ => None,
        }
    }

    /// Returns true if what a type is called is not declared by the user.
    fn is_of_library(&self, written: ExprId) -> bool {
        match &self.ast.exprs[written].kind {
            ExprKind::Modified(_, inner) | ExprKind::Paren(inner) => self.is_of_library(*inner),
            ExprKind::Index { base, .. } | ExprKind::Generic { base, .. } => self.is_of_library(*base),
            ExprKind::Name(name) => self.declared_anywhere(*name).into_iter().all(|decl| self.is_core(decl)),
            _ => false,
        }
    }

    /// Reports a structured buffer of resources, of a type that has a buffer of itself, or of what has no
    /// length.
    fn check_elements(&mut self, decl: DeclId, written: ExprId) {
        let Some((name, args)) = self.head_of(written) else { return };
        let is_buffer = name.trim_start_matches("RW") == "StructuredBuffer";
        let &[element, ..] = args else { return };
        if !is_buffer || !self.is_of_library(written) {
            return;
        }
        let ty = self.tables.exprs[element].ty;
        let span = self.name_span(decl);
        let shown = self.shown(ty);
        if self.is_unsized(ty) {
            let message = text!("a buffer cannot have elements of type '{}': they have no length", shown);
            self.error("E30031", span, message);
        } else if self.has_buffer_of(ty, ty, &mut Vec::new()) {
            let message =
                text!("the elements of this buffer, of type '{}', have buffers of themselves", shown);
            let help = "let an element have the index of another one, or a pointer to it";
            self.report(Diagnostic::error("E38205", span, message).help(help));
        } else if self.is_bound(ty) {
            let message = text!("a buffer cannot have elements of type '{}', which is a resource", shown);
            let help = "keep a handle of the resource in the buffer: `DescriptorHandle<T>`, or `T.Handle`";
            self.report(Diagnostic::error("E38204", span, message).help(help));
        } else if self.holds_resource(ty, 0) {
            let message = text!("the elements of this buffer, of type '{}', have resources", shown);
            let help =
                "graphics processors have no such buffers: keep handles of resources, `DescriptorHandle<T>`";
            self.report(Diagnostic::warning("E38204", span, message).help(help));
        }
    }

    /// Returns true if a type has a part that is a buffer of another type, or of what has such a part.
    fn has_buffer_of(&mut self, ty: Ty, wanted: Ty, seen: &mut Vec<Ty>) -> bool {
        if seen.contains(&ty) || seen.len() > 200 {
            return false;
        }
        seen.push(ty);
        match self.types[ty].clone() {
            TyKind::Array(inner, _) => self.has_buffer_of(inner, wanted, seen),
            TyKind::Buffer(BufferKind::StructuredBuffer | BufferKind::RWStructuredBuffer, inner) => {
                inner == wanted || self.has_buffer_of(inner, wanted, seen)
            }
            TyKind::Struct(decl, _) if !self.is_core(decl) => {
                let fields = self.raw_fields(ty);
                fields.into_iter().any(|field| self.has_buffer_of(field.1, wanted, seen))
            }
            _ => false,
        }
    }

    /// The struct's own fields and their types, also of a struct that contains itself.
    pub(crate) fn raw_fields(&mut self, ty: Ty) -> Vec<(DeclId, Ty)> {
        let TyKind::Struct(decl, args) = self.types[ty].clone() else { return Vec::new() };
        if self.extent(ty).nesting > MAX_NESTING {
            return Vec::new();
        }
        let env = self.subst(decl, &args, None);
        let mut found = Vec::new();
        for field in self.own_fields(decl) {
            let declared = self.decl_type(field);
            found.push((field, self.substitute(declared, &env)));
        }
        found
    }

    /// Returns true for an array without a length, and for a struct that ends in one.
    pub(crate) fn is_unsized(&mut self, ty: Ty) -> bool {
        let mut at = ty;
        for _ in 0..50 {
            match self.types[at] {
                TyKind::Array(_, None) => return true,
                TyKind::Struct(decl, _) if !self.is_core(decl) => match self.raw_fields(at).last() {
                    Some(field) => at = field.1,
                    None => return false,
                },
                _ => return false,
            }
        }
        false
    }

    /// Reports a variable of a function that has no length.
    pub(crate) fn check_local_variable(&mut self, decl: DeclId, ty: Ty) {
        if self.is_core(decl) {
            return;
        }
        self.check_modifiers(decl);
        if matches!(self.types[ty], TyKind::Struct(..)) && self.is_unsized(ty) {
            let message = text!(
                "a '{}', which ends in an array without a length, cannot be a variable",
                self.shown(ty)
            );
            self.error("E30071", self.name_span(decl), message);
        }
    }

    /// Reports fields without a length that another field follows.
    fn check_last_field(&mut self, decl: DeclId) {
        let fields = self.own_fields(decl);
        let Some((_, first)) = fields.split_last() else { return };
        for &field in first {
            let ty = self.decl_type(field);
            // Arrays of resources take no room in a struct.
            if self.is_unsized(ty) && !self.holds_resource(ty, 0) {
                let name = self.ast.decl_name(field);
                let message = format!("the field '{name}' has no length, so it has to be the last one");
                self.error("E30070", self.name_span(field), message);
            }
        }
    }

    /// Warns about resources in the type of a constant buffer: they are bound separately.
    fn check_leaks(&mut self, decl: DeclId, written: ExprId, ty: Ty) {
        let TyKind::Buffer(BufferKind::ConstantBuffer, content) = self.types[ty] else { return };
        let TyKind::Struct(of, _) = self.types[content] else { return };
        if self.is_core(of) || !matches!(self.head_of(written), Some(("ConstantBuffer", _))) {
            return;
        }
        let mut fields = self.raw_fields(content);
        fields.retain(|field| self.holds_resource(field.1, 0));
        if fields.is_empty() {
            return;
        }
        let message =
            text!("the resources in '{}' are bound outside of this constant buffer", self.shown(content));
        let mut warning = Diagnostic::warning("E31106", self.name_span(decl), message);
        for (field, _) in fields {
            warning = warning.note(self.name_span(field), "a resource");
        }
        self.report(warning.help("a `ParameterBlock` has its resources and its numbers together"));
    }

    /// Reports a constant whose value depends on an input or on a variable.
    pub(crate) fn check_constant(&mut self, decl: DeclId) {
        let d = &self.ast.decls[decl];
        let DeclKind::Var { init: Some(init), .. } = d.kind else { return };
        let is_constant = d.modifiers.has(Modifiers::STATIC) && d.modifiers.has(Modifiers::CONST);
        if self.is_core(decl) || !is_constant || !self.is_global(decl) {
            return;
        }
        let mut open = vec![init];
        while let Some(expr) = open.pop() {
            if let Meaning::Var(read) = self.tables.exprs[expr].meaning
                && self.is_global(read)
                && !self.is_compile_time(read)
            {
                let (name, read_name) = (self.ast.decl_name(decl), self.ast.decl_name(read));
                let message = format!(
                    "the constant '{name}' depends on '{read_name}', which is known at run time only"
                );
                let error = Diagnostic::error("E31226", self.name_span(decl), message);
                let error = self.declared(read, error);
                return self.report(error.help("compute it where it is used, in a function"));
            }
            self.ast.exprs[expr].kind.operands(&mut open);
        }
    }

    /// Returns true for a global variable whose value is known when the program is compiled or linked.
    fn is_compile_time(&self, decl: DeclId) -> bool {
        let modifiers = self.ast.decls[decl].modifiers;
        modifiers.has(Modifiers::EXTERN)
            || modifiers.has(Modifiers::CONST) && modifiers.has(Modifiers::STATIC)
            || modifiers.has(Modifiers::CONST) && self.ast.decls[decl].kind.init().is_some()
            || self.is_specialized(decl)
    }
}
