//! Parses the declarations that only GLSL has, as declarations of this language.
//!
//! | GLSL | here |
//! | --- | --- |
//! | `buffer B { … } b;` | `struct B { … }` and `uniform LayoutPtr<B, Std430DataLayout> b;` |
//! | `uniform B { … } b;` | `struct B { … }` and `ConstantBuffer<B, Std140DataLayout> b;` |
//! | `uniform B { … };` | `cbuffer B { … }` |
//! | `in B { … } b;` | `struct B { … }` and `in B b;` |
//! | `layout(location = 0) in vec4 v;` | a variable with the attribute |
//! | `rayPayloadEXT vec4 v;` | `static vec4 v;` |
//! | `vec4 v;` after `#version` | `static vec4 v;` |
//! | `layout(local_size_x = 4) in;` | a declaration without content that has the attribute |
//! | `precision highp float;` | nothing |
//!
//! A storage block without the name of an instance is `struct __B { … }` and `uniform LayoutPtr<__B, …> B;`, and the attribute
//! `__block` on the struct says that its members are named without the instance. A qualifier of `layout(…)` is an
//! attribute: `binding = 1` is `__layout_binding(1)`. Of `std140`, `std430` and `scalar` it is the layout that is named. A file with any of these imports the module `glsl`, as a file
//! with `#version` does.

use crate::ast::*;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::source::Span;
use crate::token::TokenKind as T;

/// The qualifiers of `layout(…)` that have a value.
const WITH_VALUE: &str = "location binding set offset index component align local_size_x local_size_y local_size_z \
    local_size_x_id local_size_y_id local_size_z_id constant_id input_attachment_index vertices max_vertices \
    max_primitives invocations stream xfb_buffer xfb_offset xfb_stride num_views buffer_reference_align";

/// The storage that the shaders of a ray pass to each other.
const RAY_STORAGE: &str =
    "rayPayload rayPayloadIn hitAttribute callableData callableDataIn hitObjectAttribute";

/// The qualifiers that stand alone.
const WITHOUT_VALUE: &str = "std140 std430 scalar shared packed row_major column_major push_constant \
    buffer_reference shaderRecordEXT shaderRecordNV hitObjectShaderRecordNV origin_upper_left pixel_center_integer \
    early_fragment_tests depth_any depth_greater depth_less depth_unchanged points lines lines_adjacency triangles \
    triangles_adjacency line_strip triangle_strip quads isolines equal_spacing fractional_even_spacing \
    fractional_odd_spacing cw ccw point_mode derivative_group_quadsNV derivative_group_linearNV \
    derivative_group_quadsKHR derivative_group_linearKHR full_quads quad_derivatives nonwritable \
    rgba32f rgba16f rg32f rg16f r11f_g11f_b10f r32f r16f rgba16 rgb10_a2 rgba8 rg16 rg8 r16 r8 rgba16_snorm \
    rgba8_snorm rg16_snorm rg8_snorm r16_snorm r8_snorm rgba32i rgba16i rgba8i rg32i rg16i rg8i r32i r16i r8i \
    rgba32ui rgba16ui rgba8ui rgb10_a2ui rg32ui rg16ui rg8ui r32ui r16ui r8ui r64ui r64i";

impl Parser<'_> {
    /// `layout(binding = 1, std430)` before a declaration
    pub(crate) fn layout(&mut self, attributes: &mut Vec<Attribute>) {
        self.bump();
        let open = self.bump().span;
        let errors = self.n_errors();
        while !matches!(self.kind(), T::RParen | T::Semi | T::Eof) && self.n_errors() == errors {
            if !self.is(T::Ident) {
                self.expected("a layout qualifier");
                break;
            }
            attributes.extend(self.qualifier());
            if !self.eat(T::Comma) {
                break;
            }
        }
        if self.n_errors() > errors || !self.expect_close(T::RParen, open) {
            self.skip_past(T::RParen);
        }
        let offset = attributes.iter().find(|a| self.ast.name(a.name) == "__layout_offset").map(|a| a.span);
        let is_bound = attributes.iter().any(|a| self.ast.name(a.name) == "__layout_binding");
        // The offset of a member of a block needs no binding.
        if let Some(span) = offset.filter(|_| !is_bound && self.parent.is_none()) {
            self.error("E31217", span, "`offset` is only known together with `binding`");
        }
    }

    /// `binding = 1`, `std430`
    fn qualifier(&mut self) -> Option<Attribute> {
        let word = self.bump();
        let name = self.ast.name(word.symbol).to_owned();
        let is_in = |list: &str| list.split_whitespace().any(|known| known.eq_ignore_ascii_case(&name));
        let has_value = is_in(WITH_VALUE);
        if !has_value && !is_in(WITHOUT_VALUE) {
            self.error("E31216", word.span, format!("unknown layout qualifier `{name}`"));
            return None;
        }
        let mut args = Vec::new();
        if self.eat(T::Eq) {
            args.push(self.any_expr());
        } else if has_value {
            self.error(
                "E31216",
                word.span,
                format!("the layout qualifier `{name}` needs a value: `{name} = …`"),
            );
            return None;
        }
        let symbol = self.ast.symbols.intern(&format!("__layout_{name}"));
        Some(Attribute { name: symbol, args, span: self.span_from(word.span) })
    }

    /// `readonly`, `highp`, `coherent`, … before the type of a declaration; returns false if there is none.
    pub(crate) fn memory_word(&mut self, attributes: &mut Vec<Attribute>) -> bool {
        let word = self.word();
        let is_known = matches!(
            word,
            kw::READONLY
                | kw::WRITEONLY
                | kw::RESTRICT
                | kw::COHERENT
                | kw::HIGHP
                | kw::MEDIUMP
                | kw::LOWP
                | kw::FLAT
                | kw::SMOOTH
        );
        if !is_known || !self.type_follows() {
            return false;
        }
        let span = self.bump().span;
        if matches!(word, kw::READONLY | kw::WRITEONLY) {
            attributes.push(Attribute { name: word, args: Vec::new(), span });
        }
        true
    }

    /// `rayPayloadEXT`, … before the type of a global variable, which is one of the thread's own; returns false if there
    /// is none.
    pub(crate) fn ray_storage(&mut self) -> bool {
        if self.parent.is_some() || !self.type_follows() {
            return false;
        }
        let word = self.ast.name(self.word());
        let storage = word.strip_suffix("EXT").or_else(|| word.strip_suffix("NV"));
        if !storage.is_some_and(|storage| RAY_STORAGE.split(' ').any(|known| known == storage)) {
            return false;
        }
        self.is_glsl = true;
        self.bump();
        true
    }

    /// Returns true if a complete `T x` follows the current word, or other modifiers and such.
    pub(crate) fn type_follows(&self) -> bool {
        self.nth(1) == T::Ident
            && matches!(self.nth(2), T::Ident | T::Lt | T::Dot | T::ColonColon | T::Star | T::LBracket)
    }

    /// Returns true for a global variable of numbers in a file with `#version`, which each thread has for itself.
    pub(crate) fn is_private_in_glsl(&self, id: DeclId, mut ty: ExprId) -> bool {
        let Decl { modifiers, attributes, .. } = &self.ast.decls[id];
        let of_host = Modifiers(
            Modifiers::UNIFORM.0
                | Modifiers::IN.0
                | Modifiers::OUT.0
                | Modifiers::CONST.0
                | Modifiers::GROUPSHARED.0
                | Modifiers::EXTERN.0
                | Modifiers::EXPORT.0,
        );
        if !self.has_version || !attributes.is_empty() || modifiers.has(of_host) {
            return false;
        }
        while let ExprKind::Index { base, .. } = self.ast.exprs[ty].kind {
            ty = base;
        }
        let ExprKind::Name(name) = self.ast.exprs[ty].kind else { return false };
        let text = self.ast.name(name);
        let kind = text.strip_suffix("_t").unwrap_or(text);
        // `mat2x3`, `uint64_t`
        let kind = kind.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'x');
        let is_number = matches!(kind, "bool" | "int" | "uint" | "float" | "double");
        is_number || kind.ends_with("vec") || kind.ends_with("mat") || self.is_known_type(name)
    }

    /// `precision highp float;`
    pub(crate) fn is_precision(&self) -> bool {
        self.is_word(kw::PRECISION)
            && matches!(self.word_at(self.pos() + 1), kw::HIGHP | kw::MEDIUMP | kw::LOWP)
    }

    /// Returns true at the name of a block with these modifiers, or at `buffer` before it.
    pub(crate) fn is_block(&self, modifiers: Modifiers) -> bool {
        let interface = Modifiers(Modifiers::UNIFORM.0 | Modifiers::IN.0 | Modifiers::OUT.0);
        match self.word() {
            kw::BUFFER => self.nth(1) == T::Ident && self.nth(2) == T::LBrace,
            kw::EMPTY => false,
            _ => self.parent.is_none() && modifiers.has(interface) && self.nth(1) == T::LBrace,
        }
    }

    /// `buffer B { … } b;`, and the like
    pub(crate) fn block_decl(&mut self, id: DeclId, start: Span, list: &mut Vec<DeclId>) {
        self.is_glsl = true;
        let is_storage = self.is_word(kw::BUFFER);
        if is_storage {
            self.bump();
        }
        let (name, span) = self.expect_name("the block's name");
        self.name_decl(id, name, span);
        let members = self.members(id, crate::grammar::declarations::Place::Member);
        // What is said of a block holds for its members.
        let memory: Vec<Attribute> = self.ast.decls[id]
            .attributes
            .iter()
            .filter(|a| matches!(a.name, kw::READONLY | kw::WRITEONLY))
            .cloned()
            .collect();
        for &member in &members {
            self.ast.decls[member].attributes.extend(memory.iter().cloned());
        }
        let modifiers = std::mem::take(&mut self.ast.decls[id].modifiers);
        // A block without the name of an instance may be followed by another declaration at once.
        let has_name = self.is(T::Ident) && matches!(self.nth(1), T::Semi | T::LBracket);
        if !has_name && !is_storage {
            self.eat(T::Semi);
            let stage = modifiers.0 & (Modifiers::IN.0 | Modifiers::OUT.0);
            members.iter().for_each(|&member| self.ast.decls[member].modifiers |= Modifiers(stage));
            return self.complete(id, start, DeclKind::CBuffer { members });
        }
        self.complete(id, start, DeclKind::Struct { bases: Vec::new(), members });
        let (variable, variable_span) = match has_name {
            true => self.expect_name("the instance's name"),
            false => (name, span),
        };
        let mut struct_name = name;
        if !has_name {
            struct_name = self.ast.symbols.intern(&format!("__{}", self.ast.name(name)));
            self.name_decl(id, struct_name, span);
            let block = Attribute { name: self.ast.symbols.intern("__block"), args: Vec::new(), span };
            self.ast.decls[id].attributes.push(block);
        }
        let mut ty = self.expr_at(span, ExprKind::Name(struct_name));
        let mut own = modifiers;
        if is_storage || modifiers.has(Modifiers::UNIFORM) {
            let (of, otherwise) = if is_storage {
                ("LayoutPtr", "Std430DataLayout")
            } else {
                ("ConstantBuffer", "Std140DataLayout")
            };
            let layout = self.block_layout(id).unwrap_or(otherwise);
            let layout = self.ast.symbols.intern(layout);
            let layout = self.expr_at(span, ExprKind::Name(layout));
            ty = self.generic_type(span, of, vec![ty, layout]);
        }
        if is_storage {
            own |= Modifiers::UNIFORM;
        }
        let ty = if has_name { self.dimensions(ty) } else { ty };
        self.instance(start, (variable, variable_span), ty, own, list);
        self.eat(T::Semi);
    }

    /// The data layout that the qualifiers of a block name.
    fn block_layout(&self, id: DeclId) -> Option<&'static str> {
        self.ast.decls[id].attributes.iter().rev().find_map(|attribute| match self.ast.name(attribute.name) {
            "__layout_std140" => Some("Std140DataLayout"),
            "__layout_std430" => Some("Std430DataLayout"),
            "__layout_scalar" => Some("ScalarDataLayout"),
            _ => None,
        })
    }

    /// Adds `import glsl;` to a file that has declarations of GLSL.
    pub(crate) fn import_glsl(&mut self, decls: &mut Vec<DeclId>) {
        let span = decls.first().map_or(self.span(), |&d| self.ast.decls[d].span);
        let span = Span { end: span.start, ..span };
        let id = self.new_decl(span);
        self.name_decl(id, kw::EMPTY, span);
        self.ast.decls[id].kind = DeclKind::Import { path: "glsl".into(), quoted: false };
        decls.push(id);
    }
}
