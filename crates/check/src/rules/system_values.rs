//! Rules for system values (`SV_Position`): which stage takes or gives each, and of which type it is.
//!
//! A value is a parameter or the result of an entry point, or a field of a struct among those. What a stage hands on
//! to the next one may have any system value that the table does not restrict, since stages of one pipeline share
//! their structs.

use syntax::{DeclId, Diagnostic, Span, Symbol};

use crate::program::Program;
use crate::signature::Direction;
use crate::types::follow_up::text;
use crate::types::{Scalar, Ty, TyKind, Val};

/// A grid of threads.
const GRID: &str = "compute mesh amplification task node";
const PIXEL: &str = "fragment pixel";

/// The system values that some stages only have: the stages that take them and those that give them.
const VALUES: [(&str, &str, &str); 22] = [
    ("sv_dispatchthreadid", GRID, ""),
    ("sv_groupid", GRID, ""),
    ("sv_groupthreadid", GRID, ""),
    ("sv_groupindex", GRID, ""),
    ("sv_vertexid", "vertex", ""),
    ("sv_startvertexlocation", "vertex", ""),
    ("sv_startinstancelocation", "vertex", ""),
    ("sv_drawindex", "vertex mesh amplification task", ""),
    ("sv_target", "", PIXEL),
    ("sv_depth", "", PIXEL),
    ("sv_depthgreaterequal", "", PIXEL),
    ("sv_depthlessequal", "", PIXEL),
    ("sv_stencilref", "", PIXEL),
    ("sv_coverage", PIXEL, PIXEL),
    ("sv_innercoverage", PIXEL, ""),
    ("sv_sampleindex", PIXEL, ""),
    ("sv_gsinstanceid", "geometry", ""),
    ("sv_outputcontrolpointid", "hull", ""),
    ("sv_domainlocation", "domain", ""),
    ("sv_tessfactor", "domain", "hull"),
    ("sv_insidetessfactor", "domain", "hull"),
    ("sv_cullprimitive", "", "mesh"),
];

/// Values that are integers.
const INTEGERS: [&str; 9] = [
    "sv_vertexid",
    "sv_instanceid",
    "sv_viewid",
    "sv_primitiveid",
    "sv_sampleindex",
    "sv_gsinstanceid",
    "sv_outputcontrolpointid",
    "sv_rendertargetarrayindex",
    "sv_viewportarrayindex",
];

/// One side of a stage.
struct Side<'s> {
    stage: &'s str,
    is_output: bool,
    /// Where the depth is given.
    depth: Option<Span>,
}

/// Stages that read or write memory alone, and those whose data no interface between stages carries.
fn has_varyings(stage: &str) -> bool {
    ["vertex", "hull", "domain", "geometry", "fragment", "pixel"].contains(&stage)
}

impl Program {
    /// Warns of a function without a stage whose system values no single stage has: as an entry point, it would be
    /// wrong whatever its stage.
    pub(super) fn check_stages_of_values(&mut self, decl: DeclId) {
        let params = self.params_of(decl);
        let mut values: Vec<_> = params
            .into_iter()
            .filter_map(|p| {
                let is_output = Direction::of(self.ast.decls[p].modifiers) == Direction::Out;
                Some((self.ast.decls[p].kind.semantic()?, is_output, self.name_span(p)))
            })
            .collect();
        if let Some(&semantic) = self.ast.semantics.get(&decl) {
            values.insert(0, (semantic, true, self.name_span(decl)));
        }
        let mut all: Option<(Vec<&str>, String)> = None;
        for (semantic, is_output, span) in values {
            let written = self.ast.name(semantic).to_string();
            let value = written.to_ascii_lowercase();
            let value = value.trim_end_matches(|c: char| c.is_ascii_digit());
            let stages = match VALUES.iter().find(|row| row.0 == value) {
                Some(row) if is_output => row.2,
                Some(row) => row.1,
                // The stages before the rasteriser return positions.
                None if is_output && value == "sv_position" => "vertex hull domain",
                None => continue,
            };
            let (known, first) = all.take().unwrap_or((stages.split(' ').collect(), written.clone()));
            let left: Vec<&str> = known.into_iter().filter(|s| stages.split(' ').any(|t| t == *s)).collect();
            if left.is_empty() {
                let message = format!("no stage has both '{first}' and '{written}'");
                let warning = Diagnostic::warning("E30702", span, message);
                return self.report(warning.help("as an entry point, this would be wrong in any stage"));
            }
            all = Some((left, first));
        }
    }

    /// Warns of what the stages of a pipeline hand on to each other on Direct3D only: vectors of `bool`, and matrices
    /// of integers.
    pub(super) fn check_varyings(&mut self, decl: DeclId, stage: &str) {
        if !has_varyings(stage) {
            return;
        }
        let mut parts: Vec<(Ty, Option<Symbol>, Span)> = Vec::new();
        for param in self.params_of(decl) {
            if !self.ast.decls[param].modifiers.has(syntax::ast::Modifiers::UNIFORM) {
                let semantic = self.ast.decls[param].kind.semantic();
                parts.push((self.decl_type(param), semantic, self.name_span(param)));
            }
        }
        let semantic = self.ast.semantics.get(&decl).copied();
        parts.push((self.raw_signature(decl).ret, semantic, self.name_span(decl)));
        for (ty, semantic, span) in parts {
            self.check_varying(ty, semantic, span, 0);
        }
    }

    fn check_varying(&mut self, ty: Ty, semantic: Option<Symbol>, span: Span, depth: u32) {
        let is_wrong = match self.types[ty] {
            TyKind::Array(element, _) => return self.check_varying(element, semantic, span, depth),
            TyKind::Struct(of, _) if depth < 8 && !self.is_core(of) => {
                for (field, ty, _) in self.fields(ty) {
                    let own = self.ast.decls[field].kind.semantic();
                    self.check_varying(ty, own.or(semantic), self.name_span(field), depth + 1);
                }
                return;
            }
            TyKind::Vector(element, _, _) => element == Ty::BOOL,
            TyKind::Matrix(element, ..) => {
                matches!(self.types[element], TyKind::Scalar(scalar) if !scalar.is_float())
            }
            _ => false,
        };
        let is_value = |s: Symbol| self.ast.name(s).to_ascii_lowercase().starts_with("sv_");
        if is_wrong && !semantic.is_some_and(is_value) {
            let message = text!("the stages of a pipeline cannot hand on a '{}'", self.shown(ty));
            let warning = Diagnostic::warning("E38051", span, message);
            self.report_once(
                warning.help("Direct3D alone can: use integers for truth values, vectors for matrices"),
            );
        }
    }

    /// Checks the system values of an entry point.
    pub(super) fn check_system_values(&mut self, decl: DeclId, stage: &str) {
        let mut inputs = Side { stage, is_output: false, depth: None };
        let mut outputs = Side { stage, is_output: true, depth: None };
        for param in self.params_of(decl) {
            let dir = Direction::of(self.ast.decls[param].modifiers);
            let (ty, semantic) = (self.decl_type(param), self.ast.decls[param].kind.semantic());
            let span = self.name_span(param);
            if stage == "intersection" && dir.is_written() {
                let message = "an intersection shader has no outputs: it calls 'ReportHit'";
                return self.error("E39017", span, message);
            }
            let before = self.diagnostics.len();
            if dir != Direction::Out {
                self.check_system_value(ty, semantic, span, &mut inputs, 0);
            }
            if dir.is_written() && self.diagnostics.len() == before {
                self.check_system_value(ty, semantic, span, &mut outputs, 0);
            }
        }
        let result = self.raw_signature(decl).ret;
        let semantic = self.ast.semantics.get(&decl).copied();
        self.check_system_value(result, semantic, self.name_span(decl), &mut outputs, 0);
    }

    fn check_system_value(
        &mut self,
        ty: Ty,
        semantic: Option<Symbol>,
        span: Span,
        side: &mut Side<'_>,
        depth: u32,
    ) {
        match self.types[ty] {
            TyKind::Array(element, _) => {
                return self.check_system_value(element, semantic, span, side, depth);
            }
            TyKind::Struct(of, _) if depth < 8 && !self.is_core(of) => {
                for (field, ty, _) in self.fields(ty) {
                    let own = self.ast.decls[field].kind.semantic();
                    self.check_system_value(ty, own.or(semantic), self.name_span(field), side, depth + 1);
                }
                return;
            }
            _ => {}
        }
        let Some(semantic) = semantic else { return };
        let written = self.ast.name(semantic).to_string();
        let value = written.to_ascii_lowercase();
        let value = value.trim_end_matches(|c: char| c.is_ascii_digit());
        let Some(row) = VALUES.iter().find(|row| row.0 == value) else {
            return self.check_type_of_value(&written, value, ty, span);
        };
        let stages = if side.is_output { row.2 } else { row.1 };
        if !stages.split(' ').any(|stage| stage == side.stage) {
            let verb = if side.is_output { "give" } else { "take" };
            let message = format!("the {} stage does not {verb} '{written}'", side.stage);
            let here = if side.is_output { row.1 } else { row.2 };
            let other = if side.is_output { "takes" } else { "gives" };
            let help = here.split(' ').any(|stage| stage == side.stage).then(|| format!("it {other} it"));
            let error = Diagnostic::error("E30702", span, message);
            return self.report(error.help_if(help));
        }
        if value.starts_with("sv_depth") {
            if let Some(first) = side.depth {
                let error = Diagnostic::error("E30705", span, "a second depth of the same pixel");
                return self.report(error.note(first, "the first").help("a pixel has one depth: remove one"));
            }
            side.depth = Some(span);
        }
        self.check_type_of_value(&written, value, ty, span);
    }

    /// An index of a thread is an integer or a vector of at most three, an index of something else an integer.
    fn check_type_of_value(&mut self, written: &str, value: &str, ty: Ty, span: Span) {
        let is_thread = VALUES[..3].iter().any(|row| row.0 == value);
        if !is_thread && value != "sv_groupindex" && !INTEGERS.contains(&value) {
            return;
        }
        let is_index = |p: &Program, ty: Ty| {
            matches!(p.types[ty], TyKind::Scalar(s) if s.is_int() && s != Scalar::Bool) || ty == Ty::ERROR
        };
        let fits = match self.types[ty] {
            TyKind::Vector(element, Val::Int(n), _) => {
                is_index(self, element) && (n == 1 || is_thread && (1..=3).contains(&n))
            }
            TyKind::Scalar(_) | TyKind::Error => is_index(self, ty),
            // Whatever it is, it is known where it is used.
            _ => return,
        };
        if !fits {
            let what = if is_thread { "an integer or a vector of at most three" } else { "an integer" };
            let message = text!("'{written}' is {what}, not '{}'", self.shown(ty));
            self.error("E38024", span, message);
        }
    }
}
