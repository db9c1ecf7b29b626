//! The rule for arrays: their elements have an address. A parameter block is a group of bindings, and an array
//! without a length has no size; neither can be an element, nor can a struct that has one as a field. And the rule for textures, whose elements are texels.

use syntax::ast::DeclKind;
use syntax::{DeclId, Diagnostic};

use crate::facts::Magic;
use crate::program::Program;
use crate::types::follow_up::text;
use crate::types::{BufferKind, GenericArg, Ty, TyKind, Val};

/// The types of the library that are no resources, and that a stage of a pipeline is given or makes for itself.
const OF_STAGES: [&str; 8] = [
    "RayQuery",
    "SubpassInput",
    "SubpassInputMS",
    "OutputVertices",
    "OutputIndices",
    "PointStream",
    "LineStream",
    "TriangleStream",
];

impl Program {
    /// The type of an array of resources whose length the host gives.
    pub(crate) fn host_length(&mut self, decl: DeclId, declared: Ty) -> Option<Ty> {
        let TyKind::Array(element, None) = self.types[declared] else { return None };
        let &n = self.lengths.get(self.ast.decl_name(decl))?;
        let is_resource = self.is_resource(element);
        is_resource.then(|| self.types.intern(TyKind::Array(element, Some(Val::Int(n.into())))))
    }

    /// Returns true for resources, for arrays of them, and for the other types that only a stage of a pipeline can make.
    pub(crate) fn is_bound(&mut self, ty: Ty) -> bool {
        match self.types[ty] {
            TyKind::Array(element, _) => self.is_bound(element),
            TyKind::Struct(decl, _) | TyKind::Opaque(decl, _)
                if self.is_core(decl) && OF_STAGES.contains(&self.ast.decl_name(decl)) =>
            {
                true
            }
            TyKind::Opaque(..) => true,
            _ => self.is_resource(ty),
        }
    }

    /// Returns true for buffers, textures and samplers.
    pub fn is_resource(&mut self, ty: Ty) -> bool {
        let opaque = self.magic_type(Magic::OpaqueDescriptor).filter(|_| ty != Ty::ERROR);
        matches!(self.types[ty], TyKind::Buffer(..)) || opaque.is_some_and(|opaque| self.conforms(ty, opaque))
    }

    pub(super) fn check_arrays(&mut self, decl: DeclId) {
        let vars = match &self.ast.decls[decl].kind {
            DeclKind::Var { .. } => vec![decl],
            kind => self.variables_in(kind.body()),
        };
        for var in vars {
            let Some(ty) = self.tables.decl_types[var] else { continue };
            self.check_texel(var, ty);
            let TyKind::Array(element, _) = self.types[ty] else { continue };
            let Some(why) = self.without_address(element, 0) else { continue };
            let element = self.shown(element);
            let message = text!("an array cannot have elements of type '{}': it has {why}", element);
            self.report_once(Diagnostic::error("E30028", self.name_span(var), message));
        }
    }

    /// Reports a texture or typed buffer whose elements are neither numbers nor vectors.
    fn check_texel(&mut self, var: DeclId, ty: Ty) {
        let (name, texel) = match self.types[ty].clone() {
            TyKind::Array(element, _) => return self.check_texel(var, element),
            TyKind::Struct(decl, args) | TyKind::Opaque(decl, args) if self.is_core(decl) => {
                let Some(&GenericArg::Type(texel)) = args.first() else { return };
                (self.ast.decl_name(decl).to_string(), texel)
            }
            // A typed buffer has the type of a structured one, and its own name.
            TyKind::Buffer(_, element) => {
                let DeclKind::Var { ty: Some(written), .. } = self.ast.decls[var].kind else { return };
                let Some((name, _)) = self.head_of(written) else { return };
                (name.to_string(), element)
            }
            _ => return,
        };
        let plain = name.trim_start_matches("RW").trim_start_matches("RasterizerOrdered");
        if !(plain.starts_with("Texture") || plain == "Buffer") {
            return;
        }
        let is_refused = match self.types[texel] {
            TyKind::Matrix(..) | TyKind::Array(..) | TyKind::Buffer(..) | TyKind::Opaque(..) => true,
            TyKind::Struct(of, _) => self.is_core(of) && self.holds_handle(texel),
            _ => false,
        };
        if is_refused {
            let message =
                text!("the elements of a '{name}' are numbers or vectors, not '{}'", self.shown(texel));
            self.report(Diagnostic::error("E38029", self.name_span(var), message));
        }
    }

    fn holds_handle(&mut self, ty: Ty) -> bool {
        let fields = self.fields(ty);
        fields.is_empty()
            || fields.iter().any(|f| match self.types[f.1] {
                TyKind::Buffer(..) | TyKind::Opaque(..) => true,
                // A sampler has a texture.
                TyKind::Struct(of, _) => self.is_core(of) && self.holds_handle(f.1),
                _ => false,
            })
    }

    /// The part of a type that keeps it from being the element of an array.
    fn without_address(&mut self, ty: Ty, depth: u32) -> Option<&'static str> {
        match self.types[ty].clone() {
            TyKind::Buffer(BufferKind::ParameterBlock, _) => Some("a parameter block"),
            TyKind::Array(_, None) => Some("an array without a length"),
            TyKind::Array(element, _) => self.without_address(element, depth + 1),
            TyKind::Struct(decl, _) if !self.is_core(decl) && depth < 16 => {
                let fields = self.fields(ty);
                fields.into_iter().find_map(|(_, field, _)| self.without_address(field, depth + 1))
            }
            _ => None,
        }
    }
}
