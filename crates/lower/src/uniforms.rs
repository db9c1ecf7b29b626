//! Uniforms of struct type that hold buffers: `x ↦ x.field…`, one global for each buffer and each other field.
//!
//! A buffer is no number that a uniform's bytes could hold, so the host binds it by itself, under the field's path.
//! What is left of the struct is bound by field, too: then nothing depends on what the fields around it are.

use check::types::{BufferKind, Ty, TyKind};
use ir::{Global, GlobalData, Op, Space, Types, Value};
use syntax::{DeclId, Span};

use crate::Lowerer;
use crate::body::Body;
use crate::places::Place;

/// Structs nested deeper than this are taken to be recursive.
const MAX_DEPTH: u32 = 64;

impl Lowerer<'_> {
    /// Whether a type is a struct with a buffer in it.
    pub(crate) fn holds_buffers(&mut self, ty: Ty) -> bool {
        matches!(self.program.types[ty], TyKind::Struct(..)) && self.has_buffer(ty, 0)
    }

    fn has_buffer(&mut self, ty: Ty, depth: u32) -> bool {
        match self.program.types[ty] {
            TyKind::Buffer(..) => true,
            TyKind::Struct(..) if depth < MAX_DEPTH => {
                self.program.fields(ty).into_iter().any(|(_, field, _)| self.has_buffer(field, depth + 1))
            }
            _ => false,
        }
    }

    fn part_global(&mut self, types: &mut Types, path: String, root: DeclId, ty: Ty) -> Global {
        if let Some(&global) = self.uniform_parts.get(&(root, path.clone())) {
            return global;
        }
        let (space, element) = match self.program.types[ty].clone() {
            TyKind::Buffer(BufferKind::RWStructuredBuffer, element) => (Space::ReadWrite, element),
            TyKind::Buffer(BufferKind::StructuredBuffer, element) => (Space::ReadOnly, element),
            TyKind::Buffer(_, element) => (Space::Uniform, element),
            _ => (Space::Uniform, ty),
        };
        let node = &self.program.ast.decls[root];
        let name = format!("{}{path}", self.program.ast.name(node.name));
        let span = crate::ir_span(node.name_span);
        let ty = self.mem_type(types, element);
        let global = self.module.globals.push(GlobalData { name, space, ty, init: None, span });
        self.uniform_parts.insert((root, path), global);
        global
    }
}

impl Body<'_, '_, '_> {
    /// The value of a uniform that holds buffers.
    pub(crate) fn split_uniform(&mut self, root: DeclId, path: &str, ty: Ty, span: Span) -> Vec<Value> {
        if self.lw.holds_buffers(ty) {
            let mut values = Vec::new();
            for (field, field_ty, _) in self.lw.program.fields(ty) {
                let name = self.lw.program.ast.name(self.lw.program.ast.decls[field].name);
                let path = format!("{path}.{name}");
                values.extend(self.split_uniform(root, &path, field_ty, span));
            }
            return values;
        }
        if self.layout(ty).leaves.is_empty() {
            return Vec::new();
        }
        let global = self.lw.part_global(self.b.types, path.to_owned(), root, ty);
        let handle_ty = self.b.types.buffer(self.lw.module.globals[global].ty);
        self.b.span = crate::ir_span(span);
        let handle = self.b.emit_typed(Op::GlobalRef(global), &[], handle_ty);
        if let TyKind::Buffer(..) = self.lw.program.types[ty] {
            return vec![handle];
        }
        let zero = self.b.u32(0);
        self.read(&Place::memory(ty, handle, zero))
    }
}
