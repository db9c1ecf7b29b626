//! Lists the derivative that each call gets, and its origin: the output of `pullback explain --witnesses`.
//!
//! The listing starts at the derivative operators of a file, and at its differentiable functions that these
//! do not reach. It follows the calls in bodies that are differentiated, as differentiation does: on behalf
//! of the requesting module, with the generic arguments of the call. A derivative that depends on the
//! run-time type is listed as such.

use rustc_hash::FxHashSet;
use syntax::ast::DeclKind;
use syntax::{DeclId, Span};

use crate::program::Program;
use crate::signature::{Level, Role};
use crate::tables::{Callable, FuncRef, Meaning};
use crate::view::View;

/// The way in which a call gets its derivative in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Derived from the function's body; the calls there follow.
    Derived,
    /// Derived from the function's body, whose calls are listed above.
    DerivedAbove,
    /// The user's forward derivative.
    WrittenForward,
    /// The user's forward derivative, transposed.
    Transposed,
    /// The user's backward derivative.
    WrittenBackward,
    /// The user's `__apply` and the call operator of its context.
    Applied,
    /// The derivative of a function that replaces it, whose calls follow.
    Substitute,
    /// The derivative of the root of the residual that the function names.
    Implied,
    /// A rule of the library.
    Rule,
    /// Zero: `[TreatAsDifferentiable]`.
    TreatedAs,
    /// The derivative of the value's run-time type.
    ByType,
    /// No derivative: `no_diff`.
    NoDiff,
    /// No derivative: the function's backward derivative serves reverse mode only, so the tangent is zero.
    BackwardOnly,
    /// No derivative.
    None,
}

impl How {
    /// A description in words.
    pub fn words(self) -> &'static str {
        match self {
            How::Derived => "derived from its body",
            How::DerivedAbove => "derived from its body (see above)",
            How::WrittenForward => "written forward",
            How::Transposed => "written forward, transposed",
            How::WrittenBackward => "written backward",
            How::Applied => "written as '__apply'",
            How::Substitute => "substitute",
            How::Implied => "implied by its residual",
            How::Rule => "built-in rule",
            How::TreatedAs => "treat-as: zero",
            How::ByType => "by the type in the value",
            How::NoDiff => "none ('no_diff')",
            How::BackwardOnly => "none (zero: it has a backward derivative only)",
            How::None => "none",
        }
    }
}

/// A call in the listing.
#[derive(Clone, Debug)]
pub struct Witnessed {
    /// The number of calls that enclose it.
    pub depth: usize,
    /// The span of the call.
    pub call: Span,
    /// The name of the function, within the operator if it is the operand of one.
    pub name: String,
    /// The span of the function's declaration.
    pub declared: Span,
    /// The call is differentiated in reverse mode rather than in forward mode.
    pub backward: bool,
    /// The way in which the call gets its derivative.
    pub how: How,
    /// The derivative's name, declaration and module, if the user wrote one.
    pub derivative: Option<(String, Span, Option<String>)>,
    /// The name of the requesting module, if it has one.
    pub asks: Option<String>,
}

/// The state of the listing.
struct Listing<'p> {
    p: &'p mut Program,
    out: Vec<Witnessed>,
    /// The name of the requesting module.
    asks: Option<String>,
    listed: FxHashSet<(FuncRef, View, bool)>,
    /// The functions reached so far, on behalf of any module.
    reached: FxHashSet<(FuncRef, bool)>,
}

impl Program {
    /// Lists the derivatives in a file, as described at the head of this module. `file` is an index in
    /// `ast.files`.
    pub fn witness_listing(&mut self, file: usize) -> Vec<Witnessed> {
        self.check_file(file);
        let id = self.ast.files[file].file;
        let mut roots: Vec<(Span, Callable)> = Vec::new();
        for (expr, info) in self.tables.exprs.iter() {
            let is_here = self.ast.exprs.get(expr).is_some_and(|e| e.span.file == id);
            if let (Meaning::Call { func, .. }, true) = (&info.meaning, is_here)
                && !matches!(func, Callable::Func(_) | Callable::Synthesized(..))
            {
                roots.push((self.span(expr), func.clone()));
            }
        }
        roots.sort_by_key(|r| (r.0.start, r.0.end));
        let asks = self.ast.files[file].decls.first().and_then(|&d| self.module_name(d));
        let mut listing = Listing {
            p: self,
            out: Vec::new(),
            asks,
            listed: FxHashSet::default(),
            reached: FxHashSet::default(),
        };
        for (span, callable) in roots {
            listing.root(span, &callable);
        }
        for func in listing.p.marked_functions(file) {
            let view = View::of(listing.p.asking(func.decl));
            if [false, true].iter().any(|&b| listing.reached.contains(&(func.clone(), b))) {
                continue;
            }
            let span = listing.p.name_span(func.decl);
            let name = listing.p.short_name(&func);
            let both = listing.p.level(func.decl) == Level::Backward;
            for backward in [false, true].into_iter().take(1 + usize::from(both)) {
                listing.call(0, span, &name, &func, backward, view);
            }
        }
        listing.out
    }

    /// The differentiable functions and methods of a file; generic ones with their own parameters as
    /// arguments.
    fn marked_functions(&mut self, file: usize) -> Vec<FuncRef> {
        let mut found = Vec::new();
        let mut open: Vec<DeclId> = self.ast.files[file].decls.iter().rev().copied().collect();
        while let Some(decl) = open.pop() {
            match &self.ast.decls[decl].kind {
                DeclKind::Func { body: Some(_), .. } if self.level(decl) != Level::None => {
                    found.push(self.own_ref(decl));
                }
                DeclKind::Namespace { members }
                | DeclKind::Struct { members, .. }
                | DeclKind::Extension { members, .. } => open.extend(members.iter().rev().copied()),
                _ => {}
            }
        }
        found
    }

    /// The name of a declaration's module, if the module declares one.
    pub(crate) fn module_name(&self, decl: DeclId) -> Option<String> {
        let module = self.module_of(decl);
        let files = self.ast.files.iter().enumerate();
        let own = files.filter(|(idx, _)| self.modules.of_index.get(idx) == Some(&module));
        own.flat_map(|(_, f)| &f.decls).find_map(|&d| match &self.ast.decls[d].kind {
            DeclKind::Module(name) => Some(name.clone()),
            _ => None,
        })
    }

    /// `S.f<float>`.
    fn short_name(&self, func: &FuncRef) -> String {
        let name = self.function_name(func.decl);
        let name = match func.self_ty {
            Some(ty) => format!("{}.{name}", self.type_name(ty)),
            None => name,
        };
        // Arguments that are the function's own parameters are not shown.
        let params = self.all_generic_params(func.decl);
        if params.len() == func.args.len()
            && params.iter().zip(&func.args).all(|(&p, arg)| arg.is_param(p, &self.types))
        {
            return name;
        }
        let n_own = self.own_params(func.decl).len().min(func.args.len());
        format!("{name}{}", self.args_name(&func.args[func.args.len() - n_own..]))
    }
}

impl Listing<'_> {
    /// Lists the operand of a derivative operator.
    fn root(&mut self, span: Span, callable: &Callable) {
        let Callable::Derived(op, inner, asks) = callable else { return };
        let Callable::Func(func) = &**inner else { return self.root(span, inner) };
        let func = self.resolved(func);
        let name = format!("{}({})", op.word(), self.p.short_name(&func));
        self.call(0, span, &name, &func, op.is_backward(), View::of(*asks));
    }

    /// The function that fulfils a requirement, if it is known.
    fn resolved(&mut self, func: &FuncRef) -> FuncRef {
        self.p.resolve_requirement(func).func().unwrap_or_else(|| func.clone())
    }

    fn call(&mut self, depth: usize, call: Span, name: &str, func: &FuncRef, backward: bool, view: View) {
        let derivatives = self.p.derivatives_of(func, view);
        self.reached.insert((func.clone(), backward));
        let is_core = self.p.is_core(func.decl);
        let rule = |how: How| if is_core { How::Rule } else { how };
        let by_body =
            derivatives.level == Level::Backward || derivatives.level == Level::Forward && !backward;
        let role = derivatives.role(backward);
        let user = role.and_then(|role| derivatives.of_role(role)).map(|user| user.0.clone());
        let mut next = None;
        let how = match role {
            Some(Role::Backward) => How::WrittenBackward,
            Some(Role::Apply) => How::Applied,
            Some(Role::Forward) => {
                if backward {
                    How::Transposed
                } else {
                    How::WrittenForward
                }
            }
            Some(Role::Substitute) => {
                next.clone_from(&user);
                How::Substitute
            }
            None if derivatives.treat_as_differentiable => How::TreatedAs,
            None if self.p.is_requirement(func.decl) => How::ByType,
            None if self.p.solver_of(func.decl).is_some() => How::Implied,
            None if by_body => {
                next = Some(func.clone());
                rule(How::Derived)
            }
            None if derivatives.bwd.is_some() || derivatives.apply.is_some() => How::BackwardOnly,
            None if self.p.differentiable_level(func, view) != Level::None => rule(How::None),
            None => How::None,
        };
        let user = user.map(|user| {
            let how = if self.p.is_core(user.decl) { How::Rule } else { how };
            let name = self.p.short_name(&user);
            let module = self.p.module_name(user.decl);
            (how, (name, self.p.name_span(user.decl), module))
        });
        let (mut how, derivative) = match user {
            Some((How::Rule, ..)) => (How::Rule, None),
            Some((how, written)) => (how, Some(written)),
            None if how == How::Implied => (how, self.p.residual_of(func.decl)),
            None => (how, None),
        };
        // The bodies of library functions are not of interest.
        let body = next.filter(|f| !self.p.is_core(f.decl));
        let fresh = body.as_ref().is_some_and(|f| self.listed.insert((f.clone(), view, backward)));
        if how == How::Derived && body.is_some() && !fresh {
            how = How::DerivedAbove;
        }
        self.push(depth, call, name, func, backward, (how, derivative));
        // Calls nested deeper than this do not help a reader.
        if let Some(body) = body.filter(|_| fresh && depth < 64) {
            self.body(depth + 1, &body, backward, view);
        }
    }

    fn push(
        &mut self,
        depth: usize,
        call: Span,
        name: &str,
        func: &FuncRef,
        backward: bool,
        (how, derivative): (How, Option<(String, Span, Option<String>)>),
    ) {
        let declared = self.p.name_span(func.decl);
        let (name, asks) = (name.to_owned(), self.asks.clone());
        self.out.push(Witnessed { depth, call, name, declared, backward, how, derivative, asks });
    }

    /// Lists the calls in a function's body.
    fn body(&mut self, depth: usize, func: &FuncRef, backward: bool, view: View) {
        self.p.body(func.decl);
        let within = self.p.ast.decls[func.decl].span;
        let (mut calls, mut accesses) = (Vec::new(), Vec::new());
        let mut constant: Vec<Span> = Vec::new();
        for (expr, info) in self.p.tables.exprs.iter() {
            let Some(span) = self.p.ast.exprs.get(expr).map(|e| e.span) else { continue };
            if span.file != within.file || span.start < within.start || span.end > within.end {
                continue;
            }
            match &info.meaning {
                Meaning::Call { func, .. } => calls.push((span, func.clone())),
                Meaning::Init { init: func, .. } | Meaning::AssignCall { func, .. } => {
                    calls.push((span, Callable::Func(func.clone())));
                }
                Meaning::Property { member, .. } => accesses.push((span, member.clone())),
                Meaning::NoDiff(inner) => constant.push(self.p.span(*inner)),
                _ => {}
            }
        }
        for (span, member) in accesses {
            calls.extend(self.p.accessors(&member).get.map(|get| (span, Callable::Func(get))));
        }
        calls.sort_by_key(|c| (c.0.start, c.0.end));
        let env = self.p.subst_of(func);
        let view = View { calls: self.p.asking(func.decl), ..view };
        for (span, callee) in calls {
            let Callable::Func(callee) = self.p.substitute_callable(&callee, &env) else { continue };
            let callee = self.resolved(&callee);
            let name = self.p.short_name(&callee);
            if constant.contains(&span) {
                self.push(depth, span, &name, &callee, backward, (How::NoDiff, None));
            } else if self.has_tangents(&callee, view) {
                self.call(depth, span, &name, &callee, backward, view);
            }
        }
    }

    /// Returns true if a derivative of the function can be requested at all.
    fn has_tangents(&mut self, func: &FuncRef, view: View) -> bool {
        let signature = self.p.func_signature(func);
        let has_types = self.p.differential(signature.ret).is_some()
            || signature.params.iter().any(|p| p.has_tangent() && p.dir.is_written())
            || signature.this.as_ref().is_some_and(|t| t.has_tangent() && t.dir.is_written());
        let derivatives = self.p.derivatives_of(func, view);
        has_types || derivatives.bwd.is_some() || derivatives.fwd.is_some()
    }
}
