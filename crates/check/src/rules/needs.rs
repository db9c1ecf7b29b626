//! Rules about `[require(…)]`: the targets, stages and features that a declaration needs.
//!
//! Several attributes are alternatives; the words of one attribute are needed together. Words that the tables do not
//! know are names of features, of which nothing is implied, so nothing is said about them where a word with unknown
//! parts stands next to them.

use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, ExprKind, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, Symbol};

use crate::program::Program;
use crate::tables::{Callable, FuncRef, Meaning};
use crate::types::TyKind;

const TARGETS: [&str; 9] = ["hlsl", "glsl", "spirv", "metal", "wgsl", "cuda", "cpp", "c", "llvm"];

const STAGES: [&str; 16] = [
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
    "node",
    "dispatch",
];

/// Words that stand for several features.
const COMPOSITE: [(&str, &[&str]); 1] =
    [("shaderclock", &["spvShaderClockKHR", "SPV_KHR_shader_clock", "GL_EXT_shader_realtime_clock"])];

/// A set of targets or of stages, as bits of their table.
type Bits = u32;

/// All targets or stages: nothing is said about them.
const ANY: Bits = Bits::MAX;

/// The bit of a stage, by any of its names.
fn stage_bit(name: &str) -> Option<Bits> {
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

/// The bits of the targets that a word names: `spirv`, `cuda_spirv`.
fn target_bits(word: &str) -> Option<Bits> {
    let bit = |part: &str| TARGETS.iter().position(|&target| target == part).map(|at| 1 << at);
    word.split('_').map(bit).try_fold(0, |all, bit| Some(all | bit?))
}

/// The first name of a set.
fn first_of(bits: Bits, names: &[&'static str]) -> &'static str {
    names.get(bits.trailing_zeros() as usize).copied().unwrap_or_default()
}

/// One alternative of what a declaration needs: the words of one attribute.
#[derive(Clone, Debug)]
struct Needs {
    span: Span,
    targets: Bits,
    stages: Bits,
    /// The words that nothing fulfils together.
    conflict: Option<[String; 2]>,
    /// The version of `sm_5_1`, as 51.
    model: Option<u32>,
    features: Vec<String>,
}

impl Needs {
    fn of(words: impl Iterator<Item = String>, span: Span) -> Needs {
        let (targets, stages) = (ANY, ANY);
        let mut needs = Needs { span, targets, stages, conflict: None, model: None, features: Vec::new() };
        let mut said: [Vec<String>; 2] = Default::default();
        for word in words {
            let is_spirv = word.starts_with("spv") || word.starts_with("SPV_");
            let targets = if is_spirv { target_bits("spirv") } else { target_bits(&word) };
            let stages = stage_bit(&word);
            if let Some(version) = word.strip_prefix("sm_") {
                needs.model = version.replace('_', "").parse().ok();
            } else if is_spirv || targets.is_none() && stages.is_none() {
                needs.features.push(word.clone());
            }
            needs.targets &= targets.unwrap_or(ANY);
            needs.stages &= stages.unwrap_or(ANY);
            let word = if is_spirv { "spirv".to_string() } else { word };
            for (k, all) in [(0, targets), (1, stages)] {
                if all.is_some() && !said[k].contains(&word) {
                    said[k].push(word.clone());
                }
            }
        }
        for (words, left) in said.into_iter().zip([needs.targets, needs.stages]) {
            if let (0, [one, other, ..], None) = (left, &words[..], &needs.conflict) {
                needs.conflict = Some([one.clone(), other.clone()]);
            }
        }
        needs
    }

    fn meets(&self, other: &Needs) -> bool {
        self.targets & other.targets != 0 && self.stages & other.stages != 0
    }

    /// Returns true if a feature is among those that are declared, as far as that is known.
    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|own| {
            let composite = COMPOSITE.iter().find(|composite| composite.0 == own);
            let is_plain = own.starts_with("spv") || own.starts_with("SPV_") || own.starts_with("GL_");
            own == feature || composite.map_or(!is_plain, |composite| composite.1.contains(&feature))
        })
    }
}

/// The targets or stages of all alternatives together; `None` if they say nothing.
fn union(needs: &[Needs], of: fn(&Needs) -> Bits) -> Option<Bits> {
    let said = needs.iter().map(of).filter(|&bits| bits != ANY);
    said.reduce(|all, bits| all | bits)
}

impl Program {
    /// The alternatives that a declaration's attributes name; none if it says nothing.
    fn needs_of(&self, decl: DeclId) -> Vec<Needs> {
        let is_require = |name: &str| name == "require" || name == "__require";
        let attributes = self.ast.decls[decl].attributes.iter().filter(|a| is_require(self.ast.name(a.name)));
        let word = |arg: &ExprId| match self.ast.exprs[*arg].kind {
            ExprKind::Name(name) => Some(self.ast.name(name).to_string()),
            _ => None,
        };
        attributes.map(|a| Needs::of(a.args.iter().filter_map(word), a.span)).collect()
    }

    /// Returns true if a declaration demands stages, and that one is not among them.
    pub(super) fn excludes_stage(&self, decl: DeclId, stage: &str) -> bool {
        let needs = self.needs_of(decl);
        let Some(own) = stage_bit(stage) else { return false };
        !needs.is_empty() && needs.iter().all(|needs| needs.stages & own == 0)
    }

    /// Checks what a declaration says that it needs.
    pub(super) fn check_needs(&mut self, decl: DeclId) {
        if let DeclKind::Extension { .. } = self.ast.decls[decl].kind {
            return self.check_needs_of_extension(decl);
        }
        let needs = self.needs_of(decl);
        if needs.is_empty() {
            return;
        }
        for alternative in &needs {
            for word in &alternative.features {
                if !syntax::capabilities::is_capability(word) {
                    let message = format!("no device has a capability '{word}'");
                    self.report(Diagnostic::warning("E36105", alternative.span, message));
                }
            }
            if let Some([one, other]) = &alternative.conflict {
                let message = format!("nothing is both `{one}` and `{other}`");
                let help = "write an attribute `[require(…)]` for each: these are alternatives";
                self.report(Diagnostic::error("E36111", alternative.span, message).help(help));
                return;
            }
        }
        match self.ast.decls[decl].kind {
            DeclKind::Func { .. } if !self.is_static(decl) => self.check_needs_of_type(decl, &needs),
            DeclKind::Struct { .. } => self.check_needs_of_bases(decl, &needs),
            _ => {}
        }
    }

    /// Reports an extension, or a member of one, that demands what the extended type excludes.
    fn check_needs_of_extension(&mut self, decl: DeclId) {
        let DeclKind::Extension { target, members, .. } = self.ast.decls[decl].kind.clone() else { return };
        let ty = self.self_type(decl);
        let TyKind::Struct(owner, _) = self.types[ty] else { return };
        let wanted = self.needs_of(owner);
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
            let own = self.needs_of(part);
            if own.is_empty() || own.iter().any(|a| wanted.iter().any(|b| a.meets(b))) {
                continue;
            }
            let name = self.ast.decl_name(owner);
            let message = format!("this requires what '{name}' excludes by its own '[require]'");
            let error = Diagnostic::error("E36100", span, message);
            self.report(error.note(self.name_span(owner), "the extended type"));
        }
    }

    /// Reports a method for devices that its type is not for.
    fn check_needs_of_type(&mut self, decl: DeclId, needs: &[Needs]) {
        let Some(owner) = self.container_of(decl) else { return };
        // An extension may be for other devices than what it extends.
        if !matches!(self.ast.decls[owner].kind, DeclKind::Struct { .. }) {
            return;
        }
        let own = union(needs, |needs| needs.targets);
        let (Some(own), Some(of_type)) = (own, union(&self.needs_of(owner), |needs| needs.targets)) else {
            return;
        };
        if own & of_type != 0 {
            return;
        }
        let (name, owner_name) = (self.ast.decl_name(decl), self.ast.decl_name(owner));
        let message =
            format!("'{name}' is for `{}`, and its type '{owner_name}' is not", first_of(own, &TARGETS));
        let error = Diagnostic::error("E36108", self.name_span(decl), message);
        self.report(error.note(self.name_span(owner), format!("for `{}`", first_of(of_type, &TARGETS))));
    }

    /// Reports a struct that is for other devices, or needs more of them, than its interface.
    fn check_needs_of_bases(&mut self, decl: DeclId, needs: &[Needs]) {
        for &base in self.bases_of(decl).iter() {
            let TyKind::Interface(interface, _) = self.types[base] else { continue };
            let asked = self.needs_of(interface);
            let Some(message) = self.excess(decl, needs, &asked) else { continue };
            let error = Diagnostic::error("E36108", self.name_span(decl), message);
            self.report(error.note(self.name_span(interface), "the interface"));
        }
    }

    fn excess(&self, decl: DeclId, needs: &[Needs], asked: &[Needs]) -> Option<String> {
        let name = self.ast.decl_name(decl);
        let targets = (union(needs, |n| n.targets), union(asked, |n| n.targets), &TARGETS[..]);
        let stages = (union(needs, |n| n.stages), union(asked, |n| n.stages), &STAGES[..]);
        for (own, wanted, names) in [targets, stages] {
            let (Some(own), Some(wanted)) = (own, wanted) else { continue };
            if wanted & !own != 0 {
                let missing = first_of(wanted & !own, names);
                return Some(format!("'{name}' is not for `{missing}`, and its interface is"));
            }
            if own & !wanted != 0 {
                let more = first_of(own & !wanted, names);
                return Some(format!("'{name}' is for `{more}`, and its interface is not"));
            }
        }
        let model = |needs: &[Needs]| needs.iter().filter_map(|n| n.model).max();
        match (model(needs), model(asked)) {
            (Some(own), Some(wanted)) if own > wanted => {
                let version = format!("sm_{}_{}", own / 10, own % 10);
                Some(format!("'{name}' needs `{version}`, and its interface asks for less"))
            }
            _ => None,
        }
    }

    /// Reports a function that says what it needs, and calls one that needs more.
    pub(crate) fn check_needs_of_calls(&mut self, decl: DeclId) {
        let own = self.needs_of(decl);
        if own.is_empty() {
            return;
        }
        if let Some(targets) = union(&own, |needs| needs.targets)
            && let Some(switch) = self.switch_without(decl, targets, &mut FxHashSet::default())
        {
            let (name, target) = (self.ast.decl_name(decl), first_of(targets, &TARGETS));
            let message = format!("'{name}' is for `{target}`, and reaches a switch without a case for it");
            let error = Diagnostic::error("E36108", self.name_span(decl), message);
            let error = error.note(switch, "no case of this is for it");
            return self.report(error.help(format!("add a `case {target}:` or a `default:`")));
        }
        let Some((chain, feature)) = self.undeclared(decl, &own, &mut FxHashSet::default()) else { return };
        let name = self.ast.decl_name(decl).to_string();
        let message = format!("'{name}' needs `{feature}`, which it does not declare");
        let mut error = Diagnostic::error("E36104", self.name_span(decl), message);
        for &(callee, span) in &chain {
            let text = format!("'{}' is called", self.ast.decl_name(callee));
            error = error.note(span, text);
        }
        if let Some(&(last, _)) = chain.last() {
            error = error.note(self.name_span(last), "declared here");
        }
        self.report(error.help(format!("add `{feature}` to its `[require(…)]`")));
    }

    /// A `__target_switch` that a function reaches and that has a case for none of its targets.
    fn switch_without(&mut self, from: DeclId, targets: Bits, seen: &mut FxHashSet<DeclId>) -> Option<Span> {
        if !seen.insert(from) || seen.len() > 500 {
            return None;
        }
        let mut open = Vec::from_iter(self.ast.decls[from].kind.body());
        while let Some(stmt) = open.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            let StmtKind::TargetSwitch(cases) = kind else {
                kind.statements(&mut open);
                continue;
            };
            // Stages, versions and the default are for any target.
            let bits = |word: &Symbol| target_bits(self.ast.name(*word)).unwrap_or(ANY);
            let known = cases.iter().flat_map(|case| &case.0).map(bits).fold(0, |all, bits| all | bits);
            if known & targets == 0 && !cases.is_empty() {
                return Some(self.ast.stmts[stmt].span);
            }
        }
        self.body(from);
        let callees: Vec<DeclId> = self.calls_in(from).into_iter().map(|call| call.0.decl).collect();
        callees.into_iter().find_map(|callee| {
            let is_followed = !self.is_core(callee) && self.needs_of(callee).is_empty();
            if is_followed { self.switch_without(callee, targets, seen) } else { None }
        })
    }

    /// The calls that lead to a function with a feature that is not declared, and the feature.
    fn undeclared(
        &mut self,
        from: DeclId,
        own: &[Needs],
        seen: &mut FxHashSet<DeclId>,
    ) -> Option<(Vec<(DeclId, Span)>, String)> {
        if !seen.insert(from) || seen.len() > 500 {
            return None;
        }
        self.body(from);
        let calls: Vec<_> = self.calls_in(from).into_iter().map(|(func, span)| (func.decl, span)).collect();
        for (callee, span) in calls {
            if self.is_core(callee) {
                continue;
            }
            let needs = self.needs_of(callee);
            let mut features = needs.iter().flat_map(|n| n.features.clone());
            if let [_] = needs[..]
                && let Some(feature) = features
                    .find(|feature| feature.starts_with("spv") && own.iter().all(|own| !own.has(feature)))
            {
                return Some((vec![(callee, span)], feature));
            }
            if needs.is_empty()
                && let Some((mut chain, feature)) = self.undeclared(callee, own, seen)
            {
                chain.insert(0, (callee, span));
                return Some((chain, feature));
            }
        }
        None
    }

    /// The functions that a body calls, each with the place of the call, in the order of the text.
    pub(crate) fn calls_in(&self, decl: DeclId) -> Vec<(&FuncRef, Span)> {
        let Some(body) = self.body_of(decl) else { return Vec::new() };
        let mut calls = Vec::new();
        for expr in self.body_parts(body).0 {
            if let Meaning::Call { func: Callable::Func(func), .. } = &self.tables.exprs[expr].meaning {
                calls.push((func, self.span(expr)));
            }
        }
        calls.sort_by_key(|call| call.1.start);
        calls
    }
}
