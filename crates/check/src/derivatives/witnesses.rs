//! Finds the derivatives of functions: attributes on the function itself, and `…Of` attributes on other
//! functions.
//!
//! All derivatives that the program declares for a function are collected once ([`Entry`]); which of them
//! applies depends on the requesting module (see [`crate::derivatives::precedence`]). [`crate::derivatives::fit`] decides whether a
//! derivative fits its function.

use std::rc::Rc;

use syntax::ast::{AccessorKind, DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, Symbol, keywords as kw};

use crate::derivatives::implicit::IMPLICIT;
use crate::derivatives::precedence::Rank;
use crate::exprs::infer::Checker;
use crate::facts::{Entry, Magic};
use crate::names::lookup::Ref;
use crate::program::Program;
use crate::signature::{Applied, Derivatives, Level, Resolved, Role};
use crate::tables::{DiffOp, FuncRef};
use crate::view::View;

impl Program {
    /// The derivatives of a function as seen by the requesting module: see [`crate::derivatives::precedence`].
    pub fn derivatives_of(&mut self, func: &FuncRef, view: View) -> Derivatives {
        let view = self.seen_by(func.decl, view);
        // While the derivatives of a function are collected, it has none.
        if self.queries.witnesses.is_open(func) {
            return Derivatives::default();
        }
        let compute = |p: &mut Program| Rc::new(p.applying_derivatives(func, view));
        let found = self.query(|q| &mut q.derivatives, (func.clone(), view), Rc::default(), compute);
        (*found).clone()
    }

    fn applying_derivatives(&mut self, func: &FuncRef, view: View) -> Derivatives {
        let entries = self.entries(func);
        let mut out = Derivatives::default();
        let redeclared = self.redeclarations(func.decl);
        for &decl in &redeclared {
            out.level = out.level.max(self.level(decl));
            out.treat_as_differentiable |= self.attribute(decl, "TreatAsDifferentiable").is_some();
        }
        let home = self.home(&redeclared);
        let mut ranks = [None; 4];
        let roles = [Role::Forward, Role::Backward, Role::Substitute, Role::Apply];
        for (role, rank) in roles.into_iter().zip(&mut ranks) {
            let Some((best, near)) = self.nearest(func, &entries, role, home, view, &mut out) else {
                continue;
            };
            *rank = Some(near);
            let Entry { func, propagate, span, .. } = entries[best].clone();
            match role {
                Role::Forward => (out.fwd, out.spans.fwd) = (Some(func), Some(span)),
                Role::Backward => (out.bwd, out.spans.bwd) = (Some(func), Some(span)),
                Role::Substitute => (out.substitute, out.spans.substitute) = (Some(func), Some(span)),
                Role::Apply => {
                    out.apply = propagate.map(|propagate| Applied { apply: func, propagate });
                    out.spans.apply = Some(span);
                }
            }
        }
        // A nearer derivative overrides the others; among equally near ones, the substitute does.
        let nearer = |a: Option<Rank>, b: Option<Rank>| a.is_some() && b.is_some() && a < b;
        let [fwd, bwd, substitute, apply] = ranks;
        let overrides = |custom: Option<Rank>| substitute.is_some() && !nearer(custom, substitute);
        let spans = out.spans;
        let overridden = [
            (fwd, spans.fwd.filter(|_| overrides(fwd) && out.fwd.take().is_some())),
            (bwd, spans.bwd.filter(|_| overrides(bwd) && out.bwd.take().is_some())),
            (apply, spans.apply.filter(|_| overrides(apply) && out.apply.take().is_some())),
        ];
        if nearer(apply, bwd) {
            out.bwd = None;
        }
        if nearer(bwd, apply) {
            out.apply = None;
        }
        let beside = overridden.into_iter().filter(|o| o.0 == substitute).find_map(|o| o.1);
        if let (Some(span), Some(by)) = (beside, out.spans.substitute) {
            self.report_overridden(func, span, by);
        }
        out
    }

    /// Reports a derivative that is overridden by a substitute which is equally near.
    fn report_overridden(&mut self, func: &FuncRef, span: Span, by: Span) {
        let name = self.ast.decl_name(func.decl).to_string();
        let message =
            format!("this derivative of '{name}' is never used: its primal substitute overrides it");
        let diagnostic = Diagnostic::warning("E31160", span, message).note(by, "the substitute");
        self.report_once(diagnostic.help("give the substitute this derivative, or remove one of the two"));
    }

    /// Returns true if calls of a function have no derivative, whichever module requests one.
    pub fn is_never_differentiable(&mut self, func: &FuncRef) -> bool {
        !self.is_core(func.decl) && self.differentiable_level(func, View::default()) == Level::None
    }

    /// The module that declares a function: the module of its body, if there are prototypes elsewhere.
    fn home(&self, redeclared: &[DeclId]) -> usize {
        let body = redeclared.iter().copied().find(|&d| self.body_of(d).is_some());
        self.module_of(body.unwrap_or(redeclared[0]))
    }

    /// The body of a declaration: the one that was made, where it is not as written.
    pub fn body_of(&self, decl: DeclId) -> Option<syntax::StmtId> {
        self.made.implied.get(&decl).map(|made| made.body).or(self.ast.decls[decl].kind.body())
    }

    /// Returns true if a module other than the function's own declares derivatives of functions of this name,
    /// or prototypes of the function.
    pub(crate) fn is_retroactive(&mut self, decl: DeclId) -> bool {
        let compute = |p: &mut Program| {
            let home = p.module_of(decl);
            let is_elsewhere = |of: &(DeclId, Role, ExprId)| ![0, home].contains(&p.module_of(of.0));
            let declared = p.registry.derivative_of.get(&p.registered_name(decl));
            declared.is_some_and(|found| found.iter().any(is_elsewhere))
                || p.redeclarations(decl).iter().any(|&d| p.module_of(d) != home)
        };
        self.query(|q| &mut q.retroactive, decl, false, compute)
    }

    /// The functions that a declaration says it is a derivative of, by `…Of` attributes or as a
    /// `__func_extension`, and its role for each.
    pub(crate) fn derivative_targets(&self, decl: DeclId) -> Vec<(Role, ExprId)> {
        let attributes = self.ast.decls[decl].attributes.iter();
        let named = attributes.filter_map(|a| Some((Role::of(a.name)?, *a.args.first()?)));
        let extended = self.ast.extensions.get(&decl).map(|extension| match extension.op {
            kw::FWD_DIFF => (Role::Forward, extension.target),
            kw::BWD_DIFF => (Role::Backward, extension.target),
            _ => (Role::Apply, extension.target),
        });
        named.chain(extended).collect()
    }

    /// The name by which `…Of` attributes refer to a function. An accessor is named by its kind:
    /// `S::__subscript::get`.
    pub(crate) fn registered_name(&self, decl: DeclId) -> Symbol {
        match self.ast.decls[decl].kind {
            DeclKind::Accessor { kind, .. } => kind.word(),
            _ => self.ast.decls[decl].name,
        }
    }

    /// Returns true if the program declares a derivative of a function, or a substitute whose derivative is taken.
    pub fn has_rule(&mut self, decl: DeclId) -> bool {
        let func = self.own_ref(decl);
        !self.entries(&func).is_empty()
    }

    /// All derivatives that the program declares for a function, by attributes on it and by `…Of` attributes.
    fn entries(&mut self, func: &FuncRef) -> Rc<[Entry]> {
        self.query(|q| &mut q.witnesses, func.clone(), Rc::from([]), |p| p.declared_derivatives(func).into())
    }

    fn declared_derivatives(&mut self, func: &FuncRef) -> Vec<Entry> {
        let mut entries = Vec::new();
        for decl in self.redeclarations(func.decl) {
            for (word, role) in [
                ("ForwardDerivative", Role::Forward),
                ("BackwardDerivative", Role::Backward),
                ("PrimalSubstitute", Role::Substitute),
            ] {
                let Some(&arg) = self.attribute(decl, word).and_then(|a| a.args.first()) else { continue };
                let (module, span) = (self.module_of(decl), self.span(arg));
                let found = self.named_derivative(func, decl, arg, role);
                entries.extend(found.map(|func| Entry { role, func, propagate: None, module, span }));
            }
        }
        let name = self.registered_name(func.decl);
        for (derivative, role, target) in self.registry.derivative_of.get(&name).cloned().unwrap_or_default()
        {
            let found = if role == Role::Apply {
                self.fit_apply(func, derivative, target).map(|found| (found.apply, Some(found.propagate)))
            } else if derivative == func.decl || !self.targets(derivative, target, func, role) {
                None
            } else {
                self.fit_derivative(func, derivative, None, &[], role).map(|func| (func, None))
            };
            let (module, span) = (self.module_of(derivative), self.span(target));
            entries.extend(found.map(|(func, propagate)| Entry { role, func, propagate, module, span }));
        }
        entries
    }

    /// Selects the derivative that applies to a role: the nearest one, where a derivative for exactly these
    /// arguments takes precedence over a derivative for all arguments. It is an error if two derivatives
    /// remain; the error is reported here if one module declares both, and otherwise where the derivative is
    /// requested.
    fn nearest(
        &mut self,
        func: &FuncRef,
        entries: &[Entry],
        role: Role,
        home: usize,
        view: View,
        out: &mut Derivatives,
    ) -> Option<(usize, Rank)> {
        let mut best: Vec<usize> = Vec::new();
        let mut least = None;
        for (k, entry) in entries.iter().enumerate() {
            if entry.role != role {
                continue;
            }
            let Some(rank) = self.rank(entry.module, entry.func.decl, home, view) else { continue };
            let key = (rank, !self.own_params(entry.func.decl).is_empty());
            if least.is_none_or(|least| key < least) {
                least = Some(key);
                best.clear();
            }
            if least == Some(key) {
                best.push(k);
            }
        }
        let (rank, _) = least?;
        // A module that imports another overrides the derivatives declared there.
        let modules: Vec<usize> = best.iter().map(|&k| entries[k].module).collect();
        best.retain(|&k| {
            let module = entries[k].module;
            !modules.iter().any(|&other| other != module && self.imports(other, module))
        });
        let &first = best.first()?;
        for &second in &best[1..] {
            let (a, b) = (&entries[first], &entries[second]);
            let (f, g) = (a.func.decl, b.func.decl);
            if f == g || role != Role::Apply && self.redeclarations(f).contains(&g) {
                continue;
            }
            if a.module != b.module {
                out.ambiguous.push((role, a.span, b.span));
            } else if !self.is_told(b.span) {
                let name = self.ast.decl_name(func.decl).to_string();
                let message = format!("'{name}' has this derivative already");
                let diagnostic = Diagnostic::error("E31146", b.span, message);
                self.report(diagnostic.note(a.span, "here, and neither is nearer"));
            }
            break;
        }
        Some((first, rank))
    }

    /// Reports that the derivatives of two modules are equally near, at a place that requests one.
    pub fn report_ambiguity(
        &mut self,
        func: &FuncRef,
        derivatives: &Derivatives,
        backward: bool,
        span: Span,
    ) {
        let Some((first, second)) = derivatives.ambiguity(backward) else { return };
        let name = self.ast.decl_name(func.decl).to_string();
        let message = format!("two modules have a derivative of '{name}', and neither is nearer");
        let diagnostic = Diagnostic::error("E31146", span, message)
            .note(first, "one is here")
            .note(second, "and one is here")
            .help("declare the one that is meant in this module, or import only one of the two");
        self.report_once(diagnostic);
    }

    /// The degree to which a declaration is marked differentiable.
    pub(crate) fn level(&self, decl: DeclId) -> Level {
        let any = |name: &str| self.has_mark(decl, name);
        match () {
            () if self.made.differentiable.contains(&decl) => Level::Backward,
            () if self.attribute(decl, IMPLICIT).is_some() => Level::Backward,
            () if any("Differentiable") || any("BackwardDifferentiable") => Level::Backward,
            () if any("ForwardDifferentiable") => Level::Forward,
            () if self.is_part_of_caller(decl) => Level::Backward,
            () => Level::None,
        }
    }

    /// Returns true for an accessor that is inlined and says nothing of derivatives: it is differentiable like the code
    /// that it becomes a part of.
    pub(crate) fn is_part_of_caller(&self, decl: DeclId) -> bool {
        let any = |name: &str| self.has_mark(decl, name);
        matches!(self.ast.decls[decl].kind, DeclKind::Accessor { .. })
            && any("ForceInline")
            && !any("Differentiable")
            && !any("BackwardDifferentiable")
            && !any("ForwardDifferentiable")
    }

    /// Returns true if a function has an attribute; an accessor has those of its property or subscript, too.
    pub(crate) fn has_mark(&self, decl: DeclId, name: &str) -> bool {
        let d = &self.ast.decls[decl];
        let parent = d.parent.filter(|_| matches!(d.kind, DeclKind::Accessor { .. }));
        std::iter::once(decl).chain(parent).any(|decl| self.attribute(decl, name).is_some())
    }

    /// The declaration itself and the others of the same name and parameters (prototypes).
    pub(crate) fn redeclarations(&mut self, decl: DeclId) -> Vec<DeclId> {
        let mut out = vec![decl];
        if self.container_of(decl).is_some() || !matches!(self.ast.decls[decl].kind, DeclKind::Func { .. }) {
            return out;
        }
        let name = self.ast.decls[decl].name;
        let module = self.module_of(decl);
        let imports = |a: usize, b: usize| a == b || self.modules.all[a].imports.contains(&b);
        let near = (0..self.modules.all.len()).filter(|&m| imports(m, module) || imports(module, m));
        let others: Vec<DeclId> = near.flat_map(|m| self.modules.named(m, name)).copied().collect();
        let own = self.raw_signature(decl);
        let generic = self.is_generic(decl);
        for other in others {
            let is_function = matches!(self.ast.decls[other].kind, DeclKind::Func { .. });
            if other == decl || !is_function || generic || self.is_generic(other) {
                continue;
            }
            if self.body_of(decl).is_some() && self.body_of(other).is_some() {
                continue;
            }
            if self.raw_signature(other).takes_the_same(&own) {
                out.push(other);
            }
        }
        out
    }

    /// The degree to which a call of a function inside a differentiable one propagates derivatives.
    pub(crate) fn differentiable_level(&mut self, func: &FuncRef, view: View) -> Level {
        let derivatives = self.derivatives_of(func, view);
        if derivatives.treat_as_differentiable {
            return Level::Backward;
        }
        // `dzero` and `dadd` are differentiable.
        if self.container_of(func.decl).and_then(|c| self.magic_of(c)) == Some(Magic::Differentiable) {
            return Level::Backward;
        }
        let mut level = derivatives.level.max(self.fulfilled_level(func, view));
        // A derivative for forward mode alone is transposed for reverse mode.
        if derivatives.fwd.is_some() || derivatives.bwd.is_some() || derivatives.apply.is_some() {
            level = Level::Backward;
        }
        if let Some(substitute) = derivatives.substitute
            && substitute != *func
        {
            level = level.max(self.differentiable_level(&substitute, view));
        }
        let known = ["detach", "same", "select", "sum", "create_dynamic_object", "second"];
        match self.intrinsic(func.decl) {
            Some(name) if known.contains(&&name[..]) => Level::Backward,
            _ => level,
        }
    }

    /// Returns true for a requirement of an interface that has the derivatives of what fulfils it, as if that stood in
    /// its place: an accessor, and a function marked `[MaybeDifferentiable]`.
    pub(crate) fn is_as_fulfilled(&self, decl: DeclId) -> bool {
        let is_accessor = matches!(self.ast.decls[decl].kind, DeclKind::Accessor { .. });
        (is_accessor || self.has_mark(decl, "MaybeDifferentiable")) && self.is_requirement(decl)
    }

    /// The level of what fulfils such a requirement.
    fn fulfilled_level(&mut self, func: &FuncRef, view: View) -> Level {
        if !self.is_as_fulfilled(func.decl) {
            return Level::None;
        }
        match self.resolve_requirement(func) {
            Resolved::Func(found) if found.decl != func.decl => self.differentiable_level(&found, view),
            Resolved::Unresolved => Level::Backward,
            _ => Level::None,
        }
    }

    /// Returns true if a derivative operator can be applied to a function.
    pub(crate) fn has_derivative(&mut self, func: &FuncRef, op: DiffOp, view: View) -> bool {
        let derivatives = self.derivatives_of(func, view);
        if let DeclKind::Accessor { kind: AccessorKind::Ref, .. } = self.ast.decls[func.decl].kind {
            return match op {
                DiffOp::Fwd => derivatives.fwd.is_some(),
                DiffOp::Bwd => derivatives.bwd.is_some(),
                DiffOp::Apply | DiffOp::Linearize | DiffOp::Decisions => false,
            };
        }
        let level = self.differentiable_level(func, view);
        match op {
            DiffOp::Fwd | DiffOp::Linearize => {
                derivatives.level >= Level::Forward
                    || derivatives.fwd.is_some()
                    || derivatives.treat_as_differentiable
                    || level >= Level::Forward && derivatives.bwd.is_none() && derivatives.apply.is_none()
            }
            DiffOp::Bwd | DiffOp::Apply | DiffOp::Decisions => level >= Level::Backward,
        }
    }

    /// Checks the targets of all derivatives that name one: a derivative without a matching target would
    /// otherwise go unnoticed.
    pub fn check_derivative_targets(&mut self) {
        for decl in std::mem::take(&mut self.registry.unchecked_targets) {
            self.check_derivative_target(decl);
        }
    }

    /// Reports a derivative (`[ForwardDerivativeOf(f)]`, `__func_extension`) that does not name a function
    /// which it fits.
    fn check_derivative_target(&mut self, decl: DeclId) {
        for (role, target) in self.derivative_targets(decl) {
            let role = Some(role).filter(|&role| role != Role::Apply);
            let span = self.span(target);
            let found = Checker::new(self, decl).resolve(target);
            let candidates = match found {
                Ref::Funcs(candidates, _) => candidates,
                Ref::Error => continue,
                Ref::NotFound => {
                    Checker::new(self, decl).not_found(target);
                    continue;
                }
                Ref::Type(_) | Ref::Native(_) | Ref::Generic(..) | Ref::Namespace(_) | Ref::Value(_) => {
                    self.error("E31147", span, "this is not a function, so it cannot have a derivative");
                    continue;
                }
            };
            let before = self.diagnostics.len();
            let mut fits = false;
            let mut first = None;
            for candidate in candidates {
                let args = self.identity_args(candidate.decl);
                let func = FuncRef { decl: candidate.decl, args, self_ty: candidate.self_ty };
                // `f<float>` targets these arguments, unless they are the derivative's own parameters.
                let is_exact = candidate.self_ty.is_none()
                    && candidate.explicit.len() == func.args.len()
                    && !self.is_generic(decl);
                if let (Some(role), true) = (role, is_exact && !func.args.is_empty()) {
                    let func = FuncRef { args: candidate.explicit.clone(), ..func };
                    fits |= self.fit_derivative(&func, decl, None, &[], role).is_some();
                    first.get_or_insert(func);
                    continue;
                }
                fits |= match role {
                    // The arguments of a generic function that the derivative fits are determined at its
                    // uses.
                    Some(role) if !func.args.is_empty() => self.may_fit(&func, decl, role),
                    None if !func.args.is_empty() => true,
                    Some(role) => self.fit_derivative(&func, decl, None, &[], role).is_some(),
                    None => self.fit_apply(&func, decl, target).is_some(),
                };
                first.get_or_insert(func);
            }
            // The function has been asked for its derivatives before, which has said why this is none.
            let own = self.ast.decls[decl].span;
            let is_said = self.diagnostics.iter().any(|d| {
                let at = d.primary.span;
                d.code == "E31149" && at.file == own.file && own.start <= at.start && at.end <= own.end
            });
            let quiet = fits || is_said || self.diagnostics.len() > before || self.has_unknown_types(decl);
            if let Some(func) = first.filter(|func| !quiet && !self.has_unknown_bases(func)) {
                let name = self.ast.decl_name(func.decl).to_string();
                let message = format!("this does not have the parameters of a derivative of '{name}'");
                let help = match role {
                    Some(role) => self.wanted_text(&func, role),
                    None => "'__apply' takes the parameters of the function itself".into(),
                };
                self.report(syntax::Diagnostic::error("E31149", span, message).help(help));
                // That the function has no derivative was found before its reason.
                let own = self.name_span(func.decl);
                let follows = |d: &&mut syntax::Diagnostic| {
                    d.code == "E30027" && d.notes.iter().any(|note| note.span == own)
                };
                self.diagnostics.iter_mut().filter(follows).for_each(|d| d.is_follow_up = true);
            }
        }
    }

    /// The name of the operation that a library declaration stands for.
    pub fn intrinsic(&self, decl: DeclId) -> Option<String> {
        let attribute = self.attribute(decl, "__intrinsic_op")?;
        let arg = *attribute.args.first()?;
        match &self.ast.exprs[arg].kind {
            ExprKind::Name(name) => Some(self.ast.name(*name).to_string()),
            ExprKind::String(text) => Some(text.clone()),
            _ => None,
        }
    }
}
