//! Rules of `[require(…)]`, by which a declaration says which targets and stages it needs. The words of one
//! attribute hold together; several attributes are alternatives. Words that name neither a target nor a stage
//! (versions, extensions) restrict neither here.

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, Span};

use crate::program::Program;
use crate::types::TyKind;

const TARGETS: [&str; 9] = ["hlsl", "glsl", "spirv", "cuda", "metal", "wgsl", "cpp", "llvm", "c"];

const STAGES: [&str; 14] = [
    "vertex",
    "fragment",
    "compute",
    "geometry",
    "hull",
    "domain",
    "raygen",
    "intersection",
    "anyhit",
    "closesthit",
    "miss",
    "callable",
    "mesh",
    "amplification",
];

/// Targets and stages, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    targets: u32,
    pub(crate) stages: u32,
}

impl Capability {
    const ANY: Capability = Capability { targets: u32::MAX, stages: u32::MAX };

    fn and(self, other: Capability) -> Capability {
        Capability { targets: self.targets & other.targets, stages: self.stages & other.stages }
    }

    fn is_possible(self) -> bool {
        self.targets != 0 && self.stages != 0
    }
}

/// The bit of a stage, by any of its names.
pub(crate) fn stage_bit(name: &str) -> Option<u32> {
    let name = match name {
        "pixel" => "fragment",
        "tesscontrol" => "hull",
        "tesseval" => "domain",
        "raygeneration" => "raygen",
        "task" => "amplification",
        name => name.trim_start_matches('_'),
    };
    STAGES.iter().position(|&stage| stage == name).map(|at| 1 << at)
}

/// The demand of one word: `spirv`, `cuda_spirv`, `fragment`.
fn demand(word: &str) -> Capability {
    if let Some(stages) = stage_bit(word) {
        return Capability { stages, ..Capability::ANY };
    }
    let bit = |part: &str| TARGETS.iter().position(|&target| target == part).map(|at| 1u32 << at);
    let bits: Option<Vec<u32>> = word.split('_').map(bit).collect();
    match bits {
        Some(bits) => {
            Capability { targets: bits.into_iter().fold(0, |all, bit| all | bit), ..Capability::ANY }
        }
        None => Capability::ANY,
    }
}

impl Program {
    /// The alternatives that a declaration demands; none if it says nothing.
    pub(crate) fn capabilities_of(&self, decl: DeclId) -> Vec<Capability> {
        let is_require = |name: &str| name == "require" || name == "__require";
        let attributes = self.ast.decls[decl].attributes.iter();
        attributes
            .filter(|attribute| is_require(self.ast.name(attribute.name)))
            .map(|attribute| {
                let words = attribute.args.iter().filter_map(|&arg| match self.ast.exprs[arg].kind {
                    ExprKind::Name(name) => Some(self.ast.name(name)),
                    _ => None,
                });
                words.map(demand).fold(Capability::ANY, Capability::and)
            })
            .collect()
    }

    /// Reports an extension, or a member of one, that demands what the extended type excludes.
    pub(super) fn check_capabilities(&mut self, decl: DeclId) {
        let DeclKind::Extension { target, members, .. } = self.ast.decls[decl].kind.clone() else { return };
        let ty = self.self_type(decl);
        let TyKind::Struct(owner, _) = self.types[ty] else { return };
        let wanted = self.capabilities_of(owner);
        if wanted.is_empty() {
            return;
        }
        let mut checked: Vec<(DeclId, Span)> = vec![(decl, self.span(target))];
        for member in members {
            // A static member has no object whose type could exclude it.
            if self.is_static(member) {
                continue;
            }
            checked.push((member, self.name_span(member)));
            if let DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } =
                &self.ast.decls[member].kind
            {
                checked.extend(accessors.iter().map(|&a| (a, self.name_span(a))));
            }
        }
        for (part, span) in checked {
            let own = self.capabilities_of(part);
            let meet = own.iter().any(|a| wanted.iter().any(|b| a.and(*b).is_possible()));
            if own.is_empty() || meet {
                continue;
            }
            let name = self.ast.decl_name(owner);
            let message = format!("this requires what '{name}' excludes by its own '[require]'");
            let error = Diagnostic::error("E36100", span, message);
            self.report(error.note(self.name_span(owner), "the extended type"));
        }
    }
}
