//! Splits uniforms of struct type that hold buffers: `x ↦ x.field…`, one global for each buffer and each
//! other field.
//!
//! A buffer is not a number that a uniform's bytes could hold, so the host binds it separately, under the
//! path of the field. The remaining fields are bound separately, too, so that their binding does not depend
//! on the fields around them. Arrays are split likewise, `x[k]…`. A constant buffer or parameter block of
//! such a struct is the struct as a value, wherever it is passed.

use check::types::{BufferKind, Ty, TyKind};
use ir::{Global, GlobalData, Types, Value};
use syntax::{DeclId, Span};

use crate::body::Body;
use crate::layout::MAX_DEPTH;
use crate::lowerer::{Lowerer, ir_span};

/// Longer arrays of resources are rejected.
const MAX_ARRAY: u32 = 1024;

/// The field of a library struct that wraps a single buffer; the global has the name of the struct.
const RESOURCE: &str = ".__resource";

/// The field of the texture in a texture with a sampler, which is dropped from names likewise.
const TEXTURE: &str = ".__texture";

impl Lowerer<'_> {
    /// Returns true if a type is a struct or array that contains a buffer, or a constant buffer of one.
    pub(crate) fn holds_buffers(&mut self, ty: Ty) -> bool {
        match self.program.types[ty] {
            TyKind::Struct(..) | TyKind::Array(_, Some(_)) => self.has_buffer(ty, 0),
            TyKind::Buffer(..) => self.block_content(ty).is_some(),
            _ => false,
        }
    }

    /// Returns true for a type that the host binds as a resource, or that has such parts.
    pub(crate) fn is_resource(&mut self, ty: Ty) -> bool {
        self.has_buffer(ty, 0) || self.program.is_resource(ty)
    }

    /// Reports an array of resources of which the host has not told the length.
    pub(crate) fn no_length(&mut self, span: Span, name: Option<&str>) {
        if name.is_none() && self.diagnostics.iter().any(|known| known.code == "E0919") {
            return;
        }
        self.error("E0919", span, "the number of resources in this array is not known".to_owned());
        let name = name.unwrap_or("NAME");
        self.help(format!(
            "bind its elements, `--bind {name}[0]=…`, or give their number, `--length {name}=N`"
        ));
    }

    /// The content type of a constant buffer or parameter block that holds buffers, or is one of a buffer or of another
    /// block. Such a block is the value of its content.
    pub(crate) fn block_content(&mut self, ty: Ty) -> Option<Ty> {
        let content = match self.program.types[ty] {
            TyKind::Buffer(BufferKind::ConstantBuffer | BufferKind::ParameterBlock, content) => content,
            _ => return None,
        };
        let content = self.program.types.bare(content);
        let is_buffer = matches!(self.program.types[content], TyKind::Buffer(..));
        (is_buffer || self.holds_buffers(content)).then_some(content)
    }

    fn has_buffer(&mut self, ty: Ty, depth: u32) -> bool {
        match self.program.types[ty] {
            TyKind::Buffer(..) => true,
            TyKind::Array(element, Some(_)) if depth < MAX_DEPTH => self.has_buffer(element, depth + 1),
            // What a uniform handle names is bound in its place.
            TyKind::Struct(..) if self.program.handle_target(ty).is_some() => true,
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
        let (space, element) = self.space_of(ty);
        let node = &self.program.ast.decls[root];
        // A resource that only its number names is no part of a variable.
        let variable = match self.program.handle_decl() == Some(root) {
            true => "",
            false => self.program.ast.name(node.name),
        };
        let name = format!("{variable}{}", path.replace(RESOURCE, "").replace(TEXTURE, ""));
        let span = ir_span(node.name_span);
        let ty = self.mem_type(types, element);
        let global = self.module.globals.push(GlobalData { name, space, ty, init: None, span });
        self.uniform_parts.insert((root, path), global);
        global
    }
}

impl Body<'_, '_, '_> {
    /// The value of a uniform that holds buffers.
    pub(crate) fn split_uniform(&mut self, root: DeclId, path: &str, ty: Ty, span: Span) -> Vec<Value> {
        if let Some(content) = self.lw.block_content(ty) {
            return self.split_uniform(root, path, content, span);
        }
        if let Some((element, n)) = self.lw.array_of(ty).filter(|_| self.lw.holds_buffers(ty)) {
            if n > MAX_ARRAY {
                return self.unsupported(span, format_args!("an array of {n} resources is"), ty);
            }
            let split = |k| self.split_uniform(root, &format!("{path}[{k}]"), element, span);
            let elements = (0..n).map(split).collect();
            return self.array_of_elements(ty, element, elements);
        }
        if let Some(target) = self.lw.program.handle_target(ty) {
            return self.named_handle(root, path, target);
        }
        if self.lw.holds_buffers(ty) {
            let mut values = Vec::new();
            for (field, field_ty, _) in self.lw.program.fields(ty) {
                let name = self.lw.program.ast.name(self.lw.program.ast.decls[field].name);
                let path = format!("{path}.{name}");
                values.extend(self.split_uniform(root, &path, field_ty, span));
            }
            // A pointer from the host has no differential yet: programs make a pair of two pointers.
            let layout = self.layout(ty);
            for part in layout.parts.iter().filter(|p| p.is_shadow) {
                values.extend(self.shadow_zeros(&layout, part));
            }
            return values;
        }
        if self.layout(ty).leaves.is_empty() {
            return Vec::new();
        }
        let global = self.lw.part_global(self.b.types, path.to_owned(), root, ty);
        self.b.span = ir_span(span);
        let handle = self.global_handle(global);
        if let TyKind::Buffer(..) = self.lw.program.types[ty] {
            return vec![handle];
        }
        let place = self.content_place(ty, handle);
        self.read(&place)
    }
}
