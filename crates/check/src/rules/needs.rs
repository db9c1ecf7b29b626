//! Rules about `[require(…)]`: the devices, stages and features that a declaration needs.
//!
//! Several attributes are alternatives; the words of one attribute are needed together. Words that this table
//! does not know are names of features, of which nothing is implied, so nothing is said about them where a
//! word with unknown parts stands next to them.

use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::program::Program;
use crate::tables::{Callable, FuncRef, Meaning};
use crate::types::TyKind;

const TARGETS: [&str; 9] = ["hlsl", "glsl", "spirv", "metal", "wgsl", "cuda", "cpp", "c", "llvm"];
const STAGES: [&str; 18] = [
    "vertex",
    "fragment",
    "pixel",
    "geometry",
    "hull",
    "domain",
    "compute",
    "mesh",
    "amplification",
    "raygen",
    "raygeneration",
    "intersection",
    "anyhit",
    "closesthit",
    "miss",
    "callable",
    "node",
    "dispatch",
];
/// Words that stand for several features.
const COMPOSITE: [(&str, &[&str]); 1] =
    [("shaderclock", &["spvShaderClockKHR", "SPV_KHR_shader_clock", "GL_EXT_shader_realtime_clock"])];

/// One alternative of what a declaration needs.
#[derive(Clone, Debug, Default)]
struct Needs {
    targets: Vec<String>,
    stages: Vec<String>,
    /// The version of `sm_5_1`, as 51.
    model: Option<u32>,
    features: Vec<String>,
}

impl Needs {
    fn of(words: impl Iterator<Item = String>) -> Needs {
        let mut needs = Needs::default();
        for word in words {
            if TARGETS.contains(&&*word) {
                needs.targets.push(word);
            } else if STAGES.contains(&&*word) {
                needs.stages.push(word);
            } else if let Some(version) = word.strip_prefix("sm_") {
                needs.model = version.replace('_', "").parse().ok();
            } else {
                if word.starts_with("spv") || word.starts_with("SPV_") {
                    needs.targets.push("spirv".to_string());
                }
                needs.features.push(word);
            }
        }
        needs.targets.sort();
        needs.targets.dedup();
        needs
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

impl Program {
    /// The alternatives that a declaration's attributes name.
    fn needs_of(&self, decl: DeclId) -> Vec<(Needs, Span)> {
        let is_require = |name: &str| name == "require";
        let attributes = self.ast.decls[decl].attributes.iter().filter(|a| is_require(self.ast.name(a.name)));
        let word = |arg: &ExprId| match self.ast.exprs[*arg].kind {
            ExprKind::Name(name) => Some(self.ast.name(name).to_string()),
            _ => None,
        };
        attributes.map(|a| (Needs::of(a.args.iter().filter_map(word)), a.span)).collect()
    }

    /// Checks what a declaration says that it needs.
    pub(crate) fn check_needs(&mut self, decl: DeclId) {
        let needs = self.needs_of(decl);
        if needs.is_empty() {
            return;
        }
        for (alternative, span) in &needs {
            let both = [&alternative.targets, &alternative.stages].into_iter().find(|words| words.len() > 1);
            if let Some(words) = both {
                let message = format!("nothing is both `{}` and `{}`", words[0], words[1]);
                let help = "write an attribute `[require(…)]` for each: these are alternatives";
                self.report(Diagnostic::error("E36111", *span, message).help(help));
                return;
            }
        }
        match self.ast.decls[decl].kind {
            DeclKind::Func { .. } if !self.is_static(decl) => self.check_needs_of_type(decl, &needs),
            DeclKind::Struct { .. } => self.check_needs_of_bases(decl, &needs),
            _ => {}
        }
    }

    /// Reports a method for devices that its type is not for.
    fn check_needs_of_type(&mut self, decl: DeclId, needs: &[(Needs, Span)]) {
        let Some(owner) = self.container_of(decl) else { return };
        // An extension may be for other devices than what it extends.
        if !matches!(self.ast.decls[owner].kind, DeclKind::Struct { .. }) {
            return;
        }
        let known = self.needs_of(owner);
        let targets =
            |needs: &[(Needs, Span)]| needs.iter().flat_map(|n| n.0.targets.clone()).collect::<Vec<_>>();
        let (own, of_type) = (targets(needs), targets(&known));
        if own.is_empty() || of_type.is_empty() || own.iter().any(|target| of_type.contains(target)) {
            return;
        }
        let (name, owner_name) = (self.ast.decl_name(decl), self.ast.decl_name(owner));
        let message = format!("'{name}' is for `{}`, and its type '{owner_name}' is not", own[0]);
        let error = Diagnostic::error("E36108", self.name_span(decl), message);
        self.report(error.note(self.name_span(owner), format!("for `{}`", of_type[0])));
    }

    /// Reports a struct that is for other devices, or needs more of them, than its interface.
    fn check_needs_of_bases(&mut self, decl: DeclId, needs: &[(Needs, Span)]) {
        for &base in self.bases_of(decl).iter() {
            let TyKind::Interface(interface, _) = self.types[base] else { continue };
            let asked = self.needs_of(interface);
            let Some(message) = self.excess(decl, needs, &asked) else { continue };
            let error = Diagnostic::error("E36108", self.name_span(decl), message);
            self.report(error.note(self.name_span(interface), "the interface"));
        }
    }

    fn excess(&self, decl: DeclId, needs: &[(Needs, Span)], asked: &[(Needs, Span)]) -> Option<String> {
        if asked.is_empty() {
            return None;
        }
        let name = self.ast.decl_name(decl);
        let words = |needs: &[(Needs, Span)], of: fn(&Needs) -> &Vec<String>| {
            needs.iter().flat_map(|n| of(&n.0).clone()).collect::<FxHashSet<_>>()
        };
        for of in [(|n: &Needs| &n.targets) as fn(&Needs) -> &Vec<String>, |n: &Needs| &n.stages] {
            let (own, wanted) = (words(needs, of), words(asked, of));
            if own.is_empty() || wanted.is_empty() {
                continue;
            }
            let first = |from: &FxHashSet<String>, without: &FxHashSet<String>| {
                let mut left: Vec<&String> = from.difference(without).collect();
                left.sort();
                left.first().map(|word| word.to_string())
            };
            if let Some(missing) = first(&wanted, &own) {
                return Some(format!("'{name}' is not for `{missing}`, and its interface is"));
            }
            if let Some(more) = first(&own, &wanted) {
                return Some(format!("'{name}' is for `{more}`, and its interface is not"));
            }
        }
        let model = |needs: &[(Needs, Span)]| needs.iter().filter_map(|n| n.0.model).max();
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

    /// The calls that lead to a function with a feature that is not declared, and the feature.
    fn undeclared(
        &mut self,
        from: DeclId,
        own: &[(Needs, Span)],
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
            let mut features = needs.iter().flat_map(|n| n.0.features.clone());
            if let [_] = needs[..]
                && let Some(feature) = features
                    .find(|feature| feature.starts_with("spv") && own.iter().all(|own| !own.0.has(feature)))
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
        let mut stmts: Vec<StmtId> = self.body_of(decl).into_iter().collect();
        let mut exprs = Vec::new();
        while let Some(stmt) = stmts.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            kind.expressions(&mut exprs);
            exprs.extend(kind.declarations().iter().filter_map(|&local| self.ast.decls[local].kind.init()));
            kind.statements(&mut stmts);
        }
        let mut calls = Vec::new();
        while let Some(expr) = exprs.pop() {
            if let Meaning::Call { func: Callable::Func(func), .. } = &self.tables.exprs[expr].meaning {
                calls.push((func, self.span(expr)));
            }
            self.ast.exprs[expr].kind.operands(&mut exprs);
        }
        calls.sort_by_key(|call| call.1.start);
        calls
    }
}
