//! Rules about the entry points of graphics pipelines.

use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic};

use crate::program::Program;
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty, TyKind, Val};

impl Program {
    /// Checks what an entry point says about the primitives that it makes.
    pub(crate) fn check_stage_outputs(&mut self, decl: DeclId) {
        if !matches!(self.ast.decls[decl].kind, DeclKind::Func { .. }) {
            return;
        }
        let made = Modifiers(Modifiers::VERTICES.0 | Modifiers::INDICES.0);
        let params = self.params_of(decl);
        let makes = params.iter().any(|&param| self.ast.decls[param].modifiers.has(made));
        let stage = self.stage(decl);
        self.check_made_types(decl, stage.as_deref());
        let is_mesh = makes || stage.as_deref() == Some("mesh");
        let is_hull = ["patchconstantfunc", "outputcontrolpoints"]
            .iter()
            .any(|word| self.attribute(decl, word).is_some());
        let is_tessellation = is_hull || matches!(stage.as_deref(), Some("hull" | "domain"));
        let topology = self.attribute(decl, "outputtopology").cloned();
        if let Some(attribute) = &topology
            && let Some(text) = self.text_argument(attribute)
        {
            let allowed: &[&str] = match (is_mesh, is_tessellation) {
                (true, _) => &["point", "line", "triangle"],
                (_, true) => &["point", "line", "triangle_cw", "triangle_ccw"],
                _ => &[],
            };
            if !allowed.is_empty() && !allowed.contains(&text.to_ascii_lowercase().as_str()) {
                let code = if is_mesh { "E50060" } else { "E50061" };
                let message = format!("'{text}' is not a topology that this stage can put out");
                let help = format!("it is one of {}", allowed.join(", "));
                // The hull shader chooses the topology; a domain shader can only repeat it.
                let is_repeated = stage.as_deref() == Some("domain");
                let make = if is_repeated { Diagnostic::warning } else { Diagnostic::error };
                self.report(make(code, attribute.span, message).help(help));
            }
        }
        if !is_mesh {
            return;
        }
        let (mut vertices, mut indices) = (false, false);
        for param in params {
            let modifiers = self.ast.decls[param].modifiers;
            let ty = self.decl_type(param);
            let is_made = modifiers.has(made) && self.is_made_array(param);
            let of = match &self.types[ty] {
                TyKind::Struct(of, _) | TyKind::Opaque(of, _) => self.ast.decl_name(*of),
                TyKind::Error => return,
                _ => "",
            };
            vertices |= is_made && modifiers.has(Modifiers::VERTICES) || of == "OutputVertices";
            indices |= is_made && modifiers.has(Modifiers::INDICES) || of == "OutputIndices";
        }
        let name = self.ast.decl_name(decl).to_string();
        let span = self.name_span(decl);
        if topology.is_none() {
            let message = format!("the mesh shader '{name}' does not say which primitives it makes");
            let error = Diagnostic::error("E38047", span, message);
            self.report(error.help("add `[outputtopology(\"triangle\")]`"));
        }
        if !vertices || !indices {
            let message = format!("the mesh shader '{name}' needs outputs for vertices and for indices");
            let help = "add `out vertices V verts[n]` and `out indices uint3 prims[n]`";
            self.report(Diagnostic::error("E38048", span, message).help(help));
        }
    }

    /// Reports parameters and results of types that another stage makes, and indices that are not of 1 to 3 vertices.
    fn check_made_types(&mut self, decl: DeclId, stage: Option<&str>) {
        let is_grid = self.attribute(decl, "numthreads").is_some();
        let Some(stage) = stage.or(is_grid.then_some("compute")) else { return };
        let params = self.params_of(decl);
        let mut parts: Vec<_> = params.into_iter().map(|p| (self.decl_type(p), self.name_span(p))).collect();
        parts.push((self.raw_signature(decl).ret, self.name_span(decl)));
        for (ty, span) in parts {
            let (TyKind::Struct(of, args) | TyKind::Opaque(of, args)) = self.types[ty].clone() else {
                continue;
            };
            if !self.is_core(of) {
                continue;
            }
            let name = self.ast.decl_name(of).to_string();
            let maker = match &*name {
                "OutputVertices" | "OutputIndices" | "OutputPrimitives" => "mesh",
                "PointStream" | "LineStream" | "TriangleStream" => "geometry",
                _ => continue,
            };
            // A function with threads may be a mesh shader, whose stage its host chooses.
            if maker != stage && !(maker == "mesh" && is_grid && self.stage(decl).is_none()) {
                let message = format!("the {stage} stage has no '{name}': {maker} shaders make them");
                self.error("E38050", span, message);
            } else if let ("OutputIndices", Some(&GenericArg::Type(element))) = (&*name, args.first()) {
                let is_index = match self.types[element] {
                    TyKind::Vector(element, Val::Int(n), _) => element == Ty::UINT && (1..=3).contains(&n),
                    _ => element == Ty::UINT || element == Ty::ERROR,
                };
                if !is_index {
                    let message = text!(
                        "the indices of a primitive are 'uint', 'uint2' or 'uint3', not '{}'",
                        self.shown(element)
                    );
                    self.error("E38050", span, message);
                }
            }
        }
    }

    /// Checks a parameter for the `vertices` or `indices` that a mesh shader makes. Returns true if it is right.
    fn is_made_array(&mut self, param: DeclId) -> bool {
        let modifiers = self.ast.decls[param].modifiers;
        let word = if modifiers.has(Modifiers::VERTICES) { "vertices" } else { "indices" };
        let DeclKind::Param { ty: Some(written), .. } = self.ast.decls[param].kind else { return false };
        let length = match &self.ast.exprs[written].kind {
            ExprKind::Index { args, .. } => Some(args.len()),
            _ => None,
        };
        let ty = self.decl_type(param);
        let is_array = length.is_some() || matches!(self.types[ty], TyKind::Array(..));
        let (code, message) = if !modifiers.has(Modifiers(Modifiers::OUT.0 | Modifiers::INOUT.0)) {
            ("E54001", format!("`{word}` are an output: they need `out`"))
        } else if !is_array {
            ("E54002", format!("`{word}` are an array"))
        } else if length == Some(0) {
            ("E54003", format!("the array of the `{word}` needs a length"))
        } else {
            return true;
        };
        let help = format!("write `out {word} T name[n]`");
        self.report(Diagnostic::error(code, self.name_span(param), message).help(help));
        false
    }
}
