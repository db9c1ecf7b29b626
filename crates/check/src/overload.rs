//! Choosing a function for a call.
//!
//! Each candidate is tried: its generic arguments are inferred from the call's, through `fwd_diff` and `bwd_diff` by
//! matching the derived signature, then each argument must convert. The least total cost wins; among equals the one
//! that is not generic, nearer, and with fewer default arguments.

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::conversion::Source;
use crate::infer::Checker;
use crate::lookup::Candidate;
use crate::native::FLOATS;
use crate::pack::Groups;
use crate::program::Program;
use crate::signature::{Direction, Role, Signature, Subst};
use crate::sigs::DiffOp;
use crate::tables::{Callable, FuncRef};
use crate::types::{GenericArg, Scalar, Ty, TyKind, Val};
use crate::views::{ModuleId, View};

/// What is known of an argument before its parameter is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument {
    pub(crate) expr: ExprId,
    /// `None` for a brace list, whose type its parameter gives.
    pub(crate) ty: Option<Ty>,
    pub(crate) source: Source,
    pub(crate) lvalue: bool,
}

/// The candidate that a call is of.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) callable: Callable,
    pub(crate) decl: DeclId,
    pub(crate) signature: Signature,
    /// The arguments of each parameter, where there are packs.
    pub(crate) groups: Option<Groups>,
}

/// Why a candidate does not apply.
#[derive(Clone, Debug)]
enum Failure {
    Count { least: usize, most: usize },
    Type { arg: ExprId, from: Ty, to: Ty },
    NotAnInterface { arg: ExprId, from: Ty, to: Ty },
    NotAPlace { arg: ExprId },
    NotInferred { param: DeclId },
    Constraint { subject: Ty, bound: Ty },
    Generics,
}

/// So many candidates are shown.
const MAX_CANDIDATES: usize = 5;

/// The kinds of arguments of a function whose parameters are bound by one of the library's own interfaces.
fn taken(bound: &str) -> &'static str {
    match bound {
        "__FloatElementwise" => "floating-point numbers, vectors and matrices",
        "__IntElementwise" => "integers, and vectors and matrices of them",
        "__NumericElementwise" => "numbers, vectors and matrices",
        "__BuiltinFloatingPointType" => "floating-point types",
        "__BuiltinIntegerType" => "integer types",
        _ => "numbers",
    }
}

struct Applicable {
    chosen: Chosen,
    cost: u32,
    generic: bool,
    n_defaults: usize,
    rank: u32,
    required: bool,
    has_body: bool,
    specificity: u32,
    /// Generic parameters of its own.
    n_generics: usize,
    /// How much the constraints ask for: more is more special.
    constraints: usize,
}

/// A function within operators, outermost first.
pub(crate) fn wrap(func: FuncRef, ops: &[DiffOp], asks: ModuleId) -> Callable {
    let mut callable = Callable::Func(func);
    for op in ops.iter().rev() {
        callable = match op {
            DiffOp::Fwd => Callable::Fwd(Box::new(callable), asks),
            DiffOp::Bwd => Callable::Bwd(Box::new(callable), asks),
            DiffOp::Apply => Callable::Apply(Box::new(callable), asks),
            DiffOp::Linearize => Callable::Linearize(Box::new(callable), asks),
        };
    }
    callable
}

impl Checker<'_> {
    /// Infers arguments without knowing their parameters.
    pub(crate) fn arguments(&mut self, args: &[ExprId]) -> Vec<Argument> {
        let mut out = Vec::new();
        for &expr in args {
            if let ExprKind::InitList(_) = self.p.ast.exprs[expr].kind {
                out.push(Argument { expr, ty: None, source: Source::default(), lvalue: false });
                continue;
            }
            let ty = self.infer(expr, None);
            if let Some(parts) = self.spread(expr, ty) {
                out.extend(parts);
                continue;
            }
            let lvalue = self.p.tables.exprs[expr].lvalue;
            out.push(Argument { expr, ty: Some(ty), source: self.source_of(expr), lvalue });
        }
        out
    }

    /// Chooses among candidates; a diagnostic if none or several fit.
    pub(crate) fn choose(
        &mut self,
        candidates: &[Candidate],
        args: &[Argument],
        span: Span,
    ) -> Option<Chosen> {
        self.fit_lambdas(candidates, args);
        let mut fits: Vec<Applicable> = Vec::new();
        let mut failures: Vec<(DeclId, Failure)> = Vec::new();
        for candidate in candidates {
            match self.try_candidate(candidate, args) {
                Ok(applicable) => fits.push(applicable),
                Err(failure) => failures.push((candidate.decl, failure)),
            }
        }
        if args.iter().any(|a| a.ty == Some(Ty::ERROR)) && (fits.len() != 1) {
            // Diagnosed already; more would only be noise.
            return None;
        }
        if fits.is_empty() {
            self.report_none(candidates, &failures, args, span);
            return None;
        }
        let key = |a: &Applicable| {
            let n_written = a.chosen.signature.params.iter().filter(|p| p.dir.is_written()).count();
            let special = (a.specificity, usize::MAX - a.constraints, n_written, a.n_generics);
            (a.cost, a.generic, a.required, a.rank, a.n_defaults, special, !a.has_body)
        };
        let best = fits.iter().map(key).min()?;
        let mut winners: Vec<Applicable> = fits.into_iter().filter(|a| key(a) == best).collect();
        if winners.len() > 1 {
            // Redeclarations of one function are the same function.
            let first = winners[0].chosen.signature.clone();
            let same = winners.iter().all(|w| {
                let s = &w.chosen.signature;
                s.ret == first.ret
                    && s.params.len() == first.params.len()
                    && s.params.iter().zip(&first.params).all(|(a, b)| a.ty == b.ty && a.dir == b.dir)
            });
            let prototypes = winners.iter().filter(|w| !w.has_body).count();
            let by_handle = winners.iter().filter(|w| self.takes_handle(w.chosen.decl)).count();
            if !(same && prototypes.max(by_handle) + 1 >= winners.len()) {
                let name = self.p.ast.name(self.p.ast.decls[winners[0].chosen.decl].name).to_string();
                let mut diagnostic = Diagnostic::error("E39999", span, format!("ambiguous call to '{name}'"));
                for winner in winners.iter().take(5) {
                    let text = self.describe(winner.chosen.decl);
                    diagnostic = diagnostic.note(self.p.ast.decls[winner.chosen.decl].name_span, text);
                }
                self.p.report(diagnostic);
                return None;
            }
        }
        Some(winners.swap_remove(0).chosen)
    }

    /// Whether a parameter is written as the handle of a resource, which is the resource itself here: then the
    /// function is another form of the one that takes the resource.
    fn takes_handle(&self, decl: DeclId) -> bool {
        self.p.params_of(decl).into_iter().any(|param| {
            let syntax::ast::DeclKind::Param { ty: Some(ty), .. } = self.p.ast.decls[param].kind else {
                return false;
            };
            crate::program::last_name(&self.p.ast, ty)
                .is_some_and(|name| matches!(self.p.ast.name(name), "Handle" | "DescriptorHandle"))
        })
    }

    /// Lambdas as arguments of the only candidate return what it wants.
    fn fit_lambdas(&mut self, candidates: &[Candidate], args: &[Argument]) {
        let [candidate] = candidates else { return };
        if !args.iter().any(|a| matches!(self.p.ast.exprs[a.expr].kind, ExprKind::Lambda(_))) {
            return;
        }
        let pattern = self.p.pattern_signature(candidate.decl, &candidate.ops);
        for (arg, param) in args.iter().zip(&pattern.params) {
            let (Some(ty), ExprKind::Lambda(_)) = (arg.ty, &self.p.ast.exprs[arg.expr].kind) else {
                continue;
            };
            for bound in self.p.interfaces_of(param.ty) {
                self.fit_lambda(ty, bound);
            }
        }
    }

    /// Whether the operators around a chosen function exist for it.
    pub(crate) fn check_operators(&mut self, chosen: &Chosen, span: Span) -> bool {
        let mut ops = Vec::new();
        let mut at = &chosen.callable;
        let func = loop {
            match at {
                Callable::Fwd(inner, _) => {
                    ops.push(DiffOp::Fwd);
                    at = inner;
                }
                Callable::Bwd(inner, _) => {
                    ops.push(DiffOp::Bwd);
                    at = inner;
                }
                Callable::Apply(inner, _) => {
                    ops.push(DiffOp::Apply);
                    at = inner;
                }
                Callable::Linearize(inner, _) => {
                    ops.push(DiffOp::Linearize);
                    at = inner;
                }
                Callable::Func(func) => break func.clone(),
                Callable::Synthesized(..) => return true,
            }
        };
        let Some(&innermost) = ops.last() else { return true };
        let half = ops.iter().find(|op| matches!(op, DiffOp::Apply | DiffOp::Linearize));
        if let Some(half) = half
            && (ops.len() > 1 || self.p.is_requirement(func.decl))
        {
            let word = half.word();
            self.unsupported(
                span,
                &format!("'{word}' of a derivative, or of what an interface requires, is"),
            );
            return false;
        }
        let view = View::of(self.p.asking_module(self.module));
        let exists = self.p.has_derivative(&func, innermost, view);
        let derivatives = self.p.derivatives_of(&func, view);
        let backward = !matches!(innermost, DiffOp::Fwd | DiffOp::Linearize);
        self.p.report_ambiguity(&func, &derivatives, backward, span);
        // The author of a function may keep its derivative to his module.
        let (user, place) = match derivatives.role(backward) {
            Some(Role::Forward) => (derivatives.fwd, derivatives.spans.fwd),
            Some(Role::Backward) => (derivatives.bwd, derivatives.spans.bwd),
            Some(Role::Apply) => (derivatives.apply.map(|a| a.apply), derivatives.spans.apply),
            Some(Role::Substitute) | None => (None, None),
        };
        let hidden = user
            .is_some_and(|f| self.p.module_of(f.decl) != self.module && !self.p.is_visible_outside(f.decl));
        if let Some(place) = place.filter(|_| hidden) {
            let name = self.p.ast.name(self.p.ast.decls[func.decl].name).to_string();
            let message = format!("'{}' of '{name}' is not accessible here", innermost.word());
            let diagnostic = Diagnostic::error("E30600", span, message);
            self.p.report(diagnostic.note(place, "its derivative is not visible outside of this module"));
            return false;
        }
        if !exists {
            let word = innermost.word();
            let name = self.p.ast.name(self.p.ast.decls[func.decl].name).to_string();
            let help = match innermost {
                DiffOp::Fwd | DiffOp::Linearize => "mark it '[ForwardDifferentiable]' or '[Differentiable]'",
                DiffOp::Bwd | DiffOp::Apply => "mark it '[Differentiable]'",
            };
            let declared = self.p.ast.decls[func.decl].name_span;
            let mut diagnostic =
                Diagnostic::error("E30027", span, format!("'{word}' is not a member of '{name}'")).help(help);
            if !self.p.is_core(func.decl) {
                diagnostic = diagnostic.note(declared, "declared here");
            }
            self.p.report(diagnostic);
        }
        exists
    }

    /// A function's declaration in short.
    pub(crate) fn describe(&mut self, decl: DeclId) -> String {
        let signature = self.p.raw_signature(decl);
        let param = |p: &crate::ParamSig| {
            let word = match p.dir {
                Direction::Out => "out ",
                Direction::InOut | Direction::Ref => "inout ",
                Direction::In | Direction::ConstRef => "",
            };
            format!("{word}{}", self.name(p.ty))
        };
        let params: Vec<String> = signature.params.iter().map(param).collect();
        let name = match self.p.ast.decls[decl].kind {
            DeclKind::Init { .. } => "__init",
            _ => self.p.ast.name(self.p.ast.decls[decl].name),
        };
        format!("candidate: {name}({}) -> {}", params.join(", "), self.name(signature.ret))
    }

    fn report_none(
        &mut self,
        candidates: &[Candidate],
        failures: &[(DeclId, Failure)],
        args: &[Argument],
        span: Span,
    ) {
        let name = match self.p.ast.decls[candidates[0].decl].kind {
            DeclKind::Init { .. } => candidates[0].self_ty.map_or_else(String::new, |ty| self.name(ty)),
            _ => self.p.ast.name(self.p.ast.decls[candidates[0].decl].name).to_string(),
        };
        let doubtful = |this: &mut Self, failure: &Failure| match failure {
            Failure::Constraint { subject, .. } => this.p.has_unknown_base(*subject),
            Failure::Type { from, to, .. } => {
                *to == Ty::ERROR || this.p.has_unknown_base(*from) || this.p.has_unknown_base(*to)
            }
            _ => false,
        };
        if failures.iter().any(|(_, failure)| doubtful(self, failure)) {
            return;
        }
        if let [(decl, failure)] = failures {
            let declared = self.p.ast.decls[*decl].name_span;
            let diagnostic = match failure {
                Failure::Count { least, most } => {
                    let wanted = match most {
                        _ if least == most => format!("{least}"),
                        &usize::MAX => "another number of".to_string(),
                        _ => format!("{least} to {most}"),
                    };
                    let plural = if least == most && *least == 1 { "" } else { "s" };
                    let called = candidates[0].ops.iter().fold(name, |f, op| format!("{}({f})", op.word()));
                    let message = format!("'{called}' takes {wanted} argument{plural}, got {}", args.len());
                    let diagnostic = Diagnostic::error("E39999", span, message);
                    match self.arguments_of_operator(&candidates[0]) {
                        Some(help) => diagnostic.help(help),
                        None => diagnostic,
                    }
                }
                Failure::Type { arg, from, to } => {
                    let message = format!(
                        "expected an expression of type '{}', got '{}'",
                        self.name(*to),
                        self.name(*from)
                    );
                    let diagnostic = Diagnostic::error("E30019", self.span(*arg), message);
                    match self.pair_wanted(*arg, *from, *to) {
                        Some(help) => diagnostic.help(help),
                        None => diagnostic,
                    }
                }
                Failure::NotAnInterface { arg, from, to } => {
                    let message = format!(
                        "a place of type '{}' cannot be passed for an output of type '{}': it may be given another type",
                        self.name(*from),
                        self.name(*to)
                    );
                    Diagnostic::error("E30077", self.span(*arg), message)
                        .help("pass a variable of the interface's type, or make the function generic")
                }
                Failure::NotAPlace { arg } => {
                    let message =
                        "argument passed to parameter must be an l-value: a variable that can be assigned to";
                    Diagnostic::error("E30047", self.span(*arg), message)
                }
                Failure::NotInferred { param } => {
                    let param = self.p.ast.name(self.p.ast.decls[*param].name).to_string();
                    let message = format!("the generic argument '{param}' of '{name}' cannot be inferred");
                    Diagnostic::error("E39999", span, message).help(format!("name it: '{name}<…>(…)'"))
                }
                Failure::Constraint { subject, .. } if self.p.is_pack(*subject) => {
                    let message =
                        format!("'{name}' cannot be called with a pack of ({})", self.name(*subject));
                    Diagnostic::error("E38029", span, message)
                }
                Failure::Constraint { subject, bound } if self.name(*bound).starts_with("__") => {
                    let takes = taken(&self.name(*bound));
                    let message = format!("'{name}' cannot be called with a '{}'", self.name(*subject));
                    Diagnostic::error("E38029", span, message).help(format!("it takes {takes}"))
                }
                Failure::Constraint { subject, bound } => {
                    let message =
                        format!("type '{}' does not conform to '{}'", self.name(*subject), self.name(*bound));
                    Diagnostic::error("E38029", span, message)
                }
                Failure::Generics => {
                    Diagnostic::error("E30075", span, format!("wrong generic arguments for '{name}'"))
                }
            };
            self.p.report(diagnostic.note(declared, "declared here"));
            return;
        }
        let types: Vec<String> =
            args.iter().map(|a| a.ty.map_or_else(|| "{…}".to_string(), |ty| self.name(ty))).collect();
        let message = format!("no overload of '{name}' takes ({})", types.join(", "));
        let mut diagnostic = Diagnostic::error("E39999", span, message);
        // Those that go wrong last come first: a function of matrices before one of numbers, where a matrix is given.
        let mut failures: Vec<&(DeclId, Failure)> = failures.iter().collect();
        failures.sort_by_key(|f| std::cmp::Reverse(self.likeness(f.0, &f.1, args)));
        for (decl, failure) in failures.iter().take(MAX_CANDIDATES) {
            let text = format!("{}: {}", self.describe(*decl), self.reason(failure, args));
            diagnostic = diagnostic.note(self.p.ast.decls[*decl].name_span, text);
        }
        if failures.len() > MAX_CANDIDATES {
            diagnostic = diagnostic.help(format!("there are {} more", failures.len() - MAX_CANDIDATES));
        }
        self.p.report(diagnostic);
    }

    /// How likely it is that a candidate was meant: how many arguments are of the kind that it takes.
    fn likeness(&mut self, decl: DeclId, failure: &Failure, args: &[Argument]) -> usize {
        let params = self.p.raw_signature(decl).params.clone();
        if matches!(failure, Failure::Count { .. }) || params.len() != args.len() {
            return 0;
        }
        let is_alike = |p: &Program, given: Ty, wanted: Ty| match (&p.types[given], &p.types[wanted]) {
            (_, TyKind::Param(_)) => false,
            (given, wanted) => std::mem::discriminant(given) == std::mem::discriminant(wanted),
        };
        let given = args.iter().filter_map(|a| a.ty);
        1 + given.zip(&params).filter(|(ty, param)| is_alike(self.p, *ty, param.ty)).count()
    }

    /// The parameters of `fwd_diff(f)` and its kin, which are not those of `f`.
    fn arguments_of_operator(&mut self, candidate: &Candidate) -> Option<String> {
        let (&op, []) = candidate.ops.split_last()? else { return None };
        let gives = match op {
            DiffOp::Bwd => ": a pair for each input that has a derivative, then the cotangent of the result",
            DiffOp::Fwd | DiffOp::Apply | DiffOp::Linearize => "",
        };
        let word = op.word();
        let signature = self.p.pattern_signature(candidate.decl, &candidate.ops);
        let params = self.p.raw_signature(candidate.decl).params.clone();
        let name = self.p.ast.name(self.p.ast.decls[candidate.decl].name).to_string();
        let mut list = Vec::new();
        for (k, param) in signature.params.iter().enumerate() {
            let written = if param.dir.is_written() { "inout " } else { "" };
            let own = params.get(k).and_then(|p| p.decl).or(param.decl);
            let own = own.map(|d| format!(" {}", self.p.ast.name(self.p.ast.decls[d].name)));
            let own = own
                .unwrap_or_else(|| if op == DiffOp::Bwd { " resultGradient".into() } else { String::new() });
            list.push(format!("{written}{}{own}", self.name(param.ty)));
        }
        Some(format!("it is '{word}({name})({})'{gives}", list.join(", ")))
    }

    /// The text to write where a pair is wanted and its primal is given.
    fn pair_wanted(&mut self, arg: ExprId, from: Ty, to: Ty) -> Option<String> {
        let TyKind::DiffPair(primal) = self.p.types[to] else { return None };
        self.p.conversion(from, primal, Source::default())?;
        let text = match &self.p.ast.exprs[arg].kind {
            ExprKind::Name(name) => self.p.ast.name(*name).to_string(),
            _ => "x".to_string(),
        };
        Some(format!(
            "a pair is made by 'diffPair({text})' or 'diffPair({text}, d{text})', in a variable of its own"
        ))
    }

    /// Why a candidate does not fit, in short.
    fn reason(&mut self, failure: &Failure, args: &[Argument]) -> String {
        let number = |expr: &ExprId| args.iter().position(|a| a.expr == *expr).map_or(0, |k| k + 1);
        match failure {
            Failure::Count { least, most } if least == most => format!("takes {least}"),
            Failure::Count { least, most: usize::MAX } => format!("takes at least {least}"),
            Failure::Count { least, most } => format!("takes {least} to {most}"),
            Failure::Type { arg, from, to } if *from == Ty::VOID => {
                format!("argument {}: no list makes a '{}'", number(arg), self.name(*to))
            }
            Failure::Type { arg, from, to } | Failure::NotAnInterface { arg, from, to } => {
                format!("argument {}: '{}' is no '{}'", number(arg), self.name(*from), self.name(*to))
            }
            Failure::NotAPlace { arg } => format!("argument {} cannot be assigned to", number(arg)),
            Failure::NotInferred { param } => {
                format!("'{}' cannot be inferred", self.p.ast.name(self.p.ast.decls[*param].name))
            }
            Failure::Constraint { subject, bound } if self.name(*bound).starts_with("__") => {
                format!("it takes {}, not a '{}'", taken(&self.name(*bound)), self.name(*subject))
            }
            Failure::Constraint { subject, bound } => {
                format!("'{}' does not conform to '{}'", self.name(*subject), self.name(*bound))
            }
            Failure::Generics => "has other generic parameters".to_string(),
        }
    }

    fn try_candidate(&mut self, candidate: &Candidate, args: &[Argument]) -> Result<Applicable, Failure> {
        let pattern = self.p.pattern_signature(candidate.decl, &candidate.ops);
        let most = pattern.params.len();
        let mut least = most;
        if candidate.ops.is_empty() {
            while least > 0 {
                let Some(param) = pattern.params[least - 1].decl else { break };
                let has_default =
                    matches!(self.p.ast.decls[param].kind, DeclKind::Param { default: Some(_), .. });
                if !has_default {
                    break;
                }
                least -= 1;
            }
        }
        let has_pack = pattern.params.iter().any(|p| self.p.is_pack(p.ty));
        let (mut groups, mut whole) = (None, Vec::new());
        if has_pack {
            let found = self.group(candidate, &pattern, args, most - least);
            let (found, arguments) = found.ok_or(Failure::Count { least, most: usize::MAX })?;
            groups = Some(found);
            whole = arguments;
        }
        let n_given = groups.as_ref().map_or(args.len(), |g| g.len());
        let variadic = self.p.is_variadic(candidate.decl);
        if n_given < least || n_given > most && !variadic {
            return Err(Failure::Count { least, most });
        }
        let env = self.infer_generics(candidate, &pattern, if has_pack { &whole } else { args })?;
        let params = self.p.all_generic_params(candidate.decl);
        let generic = self.p.ast.decls[candidate.decl].generics.is_some();
        let func = FuncRef {
            decl: candidate.decl,
            args: params
                .iter()
                .map(|&p| env.get(p).cloned().unwrap_or_else(|| self.p.param_arg(p)))
                .collect(),
            self_ty: candidate.self_ty,
        };
        let callable = wrap(func, &candidate.ops, self.p.asking_module(self.module));
        let signature = self.p.callable_signature(&callable);
        let mut cost = 0;
        match &groups {
            None => {
                for (arg, param) in args.iter().zip(&signature.params) {
                    cost += self.argument_cost(arg, param.ty, param.dir)?;
                }
            }
            Some(groups) => {
                for (&(first, len), param) in groups.iter().zip(&signature.params) {
                    let given = &args[first..first + len];
                    let elements =
                        if self.p.is_pack(param.ty) { self.p.elements(param.ty) } else { vec![param.ty] };
                    if elements.len() != len {
                        return Err(Failure::Count { least, most: usize::MAX });
                    }
                    for (arg, element) in given.iter().zip(elements) {
                        cost += self.argument_cost(arg, element, param.dir)?;
                    }
                }
            }
        }
        let has_body = match self.p.ast.decls[candidate.decl].kind {
            DeclKind::Func { body, .. } | DeclKind::Init { body, .. } => body.is_some(),
            DeclKind::Subscript { .. } => !candidate.required,
            _ => true,
        };
        let mut specificity = 0;
        for param in &pattern.params {
            // A bare parameter fits more than a shape of one, and that more than a known type.
            let mut mentioned = Vec::new();
            self.p.params_in(param.ty, &mut mentioned);
            specificity += u32::from(matches!(self.p.types[param.ty], TyKind::Param(_))) * 2;
            specificity += mentioned.len() as u32;
        }
        let mut constraints = 0;
        for &(_, bound) in &self.p.constraints_of(candidate.decl).conforms {
            constraints += self.p.interfaces_of(bound).len();
        }
        Ok(Applicable {
            chosen: Chosen { callable, decl: candidate.decl, signature: signature.clone(), groups },
            cost,
            generic,
            n_defaults: signature.params.len().saturating_sub(n_given),
            rank: candidate.rank,
            required: candidate.required,
            has_body,
            specificity,
            n_generics: self.p.own_params(candidate.decl).len(),
            constraints,
        })
    }

    /// `int` and `uint` and shapes of them: the same bits.
    fn same_but_sign(&self, a: Ty, b: Ty) -> bool {
        match (&self.p.types[a], &self.p.types[b]) {
            (TyKind::Scalar(a), TyKind::Scalar(b)) => {
                use crate::types::Scalar::{Int, Int8, Int16, Int64, UInt, UInt8, UInt16, UInt64};
                let signs = [(Int8, UInt8), (Int16, UInt16), (Int, UInt), (Int64, UInt64)];
                signs.contains(&(*a, *b)) || signs.contains(&(*b, *a))
            }
            (TyKind::Vector(a, n), TyKind::Vector(b, m)) => n == m && self.same_but_sign(*a, *b),
            (TyKind::Matrix(a, r, c), TyKind::Matrix(b, s, d)) => {
                r == s && c == d && self.same_but_sign(*a, *b)
            }
            _ => false,
        }
    }

    /// What passing an argument for a parameter costs.
    fn argument_cost(&mut self, arg: &Argument, to: Ty, dir: Direction) -> Result<u32, Failure> {
        let Some(from) = arg.ty else {
            if !self.list_may_fit(arg.expr, to) {
                return Err(Failure::Type { arg: arg.expr, from: Ty::VOID, to });
            }
            return Ok(0);
        };
        if from == Ty::ERROR {
            return Ok(0);
        }
        let mismatch = Failure::Type { arg: arg.expr, from, to };
        if dir.is_written() {
            // Written back without conversion.
            let same = from == to
                || self.same_shape(from, to)
                || dir != Direction::Ref && self.same_but_sign(from, to)
                || self.p.conversion(from, to, Source::default()).is_some_and(|c| c <= 30);
            if !same && self.p.is_existential(to) && self.p.conforms(from, to) {
                return Err(Failure::NotAnInterface { arg: arg.expr, from, to });
            }
            if !arg.lvalue {
                // A number in place of a pair is no pair before it is no variable.
                let is_pair = matches!(self.p.types[to], TyKind::DiffPair(_));
                return Err(if is_pair && !same { mismatch } else { Failure::NotAPlace { arg: arg.expr } });
            }
            if !same {
                return Err(mismatch);
            }
        }
        self.p.conversion(from, to, arg.source).ok_or(mismatch)
    }

    /// Which arguments belong to which parameter, where there are packs, and one argument for each parameter.
    fn group(
        &mut self,
        candidate: &Candidate,
        pattern: &Signature,
        args: &[Argument],
        n_defaults: usize,
    ) -> Option<(Groups, Vec<Argument>)> {
        let mut env = (*candidate.env).clone();
        env.this = candidate.self_ty.or(env.this);
        let own = self.p.own_params(candidate.decl);
        let explicit = self.p.assign_generics(&own, &candidate.explicit)?;
        let mut open = Vec::new();
        for (&param, arg) in own.iter().zip(explicit) {
            match arg {
                Some(arg) => env.map.push((param, arg)),
                None => open.push(param),
            }
        }
        let types: Vec<Ty> = pattern.params.iter().map(|p| self.p.substitute(p.ty, &env)).collect();
        let groups = self.group_arguments(&types, &open, args.len(), n_defaults)?;
        let mut whole = Vec::new();
        for (&(first, len), &ty) in groups.iter().zip(&types) {
            let given = &args[first..first + len];
            whole.push(match given {
                [only] if !self.p.is_pack(ty) => *only,
                _ => self.packed_argument(candidate.decl, ty, given)?,
            });
        }
        Some((groups, whole))
    }

    /// `float1` and `float`, which are the same place.
    fn same_shape(&self, a: Ty, b: Ty) -> bool {
        match (&self.p.types[a], &self.p.types[b]) {
            // `int` and `uint`: converted on the way in and back.
            (TyKind::Scalar(x), TyKind::Scalar(y)) => x.is_int() && y.is_int() && x.size() == y.size(),
            (TyKind::Vector(e, Val::Int(1)), _) => *e == b,
            (_, TyKind::Vector(e, Val::Int(1))) => *e == a,
            _ => false,
        }
    }

    /// The arguments of a candidate's generics.
    fn infer_generics(
        &mut self,
        candidate: &Candidate,
        pattern: &Signature,
        args: &[Argument],
    ) -> Result<Subst, Failure> {
        let mut env = (*candidate.env).clone();
        env.this = candidate.self_ty.or(env.this);
        let Some(generics) = self.p.ast.decls[candidate.decl].generics.clone() else { return Ok(env) };
        let explicit =
            self.p.assign_generics(&generics.params, &candidate.explicit).ok_or(Failure::Generics)?;
        let mut open: Vec<DeclId> = Vec::new();
        for (&param, arg) in generics.params.iter().zip(explicit) {
            let Some(arg) = arg else {
                open.push(param);
                continue;
            };
            let is_value = matches!(self.p.ast.decls[param].kind, DeclKind::ValueParam { .. });
            if is_value != matches!(arg, GenericArg::Val(_)) {
                return Err(Failure::Generics);
            }
            env.map.push((param, arg));
        }
        if !open.is_empty() {
            let mut found = Found::default();
            for (param, arg) in pattern.params.iter().zip(args) {
                let Some(from) = arg.ty else { continue };
                if from == Ty::ERROR {
                    continue;
                }
                let to = if env.is_empty() { param.ty } else { self.p.substitute(param.ty, &env) };
                self.collect(to, from, &open, &mut found);
            }
            for &param in &open {
                if !matches!(self.p.ast.decls[param].kind, DeclKind::ValueParam { .. })
                    && let Some(ty) = self.solve(param, &found)
                {
                    env.map.push((param, GenericArg::Type(ty)));
                }
            }
            self.p.infer_from_constraints(candidate.decl, &open, &mut env);
            for &param in &open {
                if env.get(param).is_some() {
                    continue;
                }
                let arg = if matches!(self.p.ast.decls[param].kind, DeclKind::ValueParam { .. }) {
                    let val =
                        found.vals.iter().chain(&found.weak_vals).find(|v| v.0 == param).map(|v| v.1.clone());
                    val.map(GenericArg::Val)
                } else {
                    self.solve(param, &found).map(GenericArg::Type)
                };
                match arg.or_else(|| self.default_arg(param, &env)).or_else(|| self.p.empty_pack(param)) {
                    Some(arg) => env.map.push((param, arg)),
                    None => return Err(Failure::NotInferred { param }),
                }
            }
        }
        if let Some((subject, bound)) = self.p.unsatisfied(candidate.decl, &env) {
            return Err(Failure::Constraint { subject, bound });
        }
        Ok(env)
    }

    /// What the arguments for one parameter have in common; an integer becomes `float` where only floats will do.
    fn solve(&mut self, param: DeclId, found: &Found) -> Option<Ty> {
        let mut exact = found.types.iter().filter(|t| t.0 == param && t.2).map(|t| t.1);
        let mut ty = exact.next();
        if ty.is_none() {
            for &(_, from, _) in found.types.iter().filter(|t| t.0 == param) {
                ty = match ty {
                    None => Some(from),
                    Some(ty) => Some(self.p.join(ty, from)?),
                };
            }
        }
        let ty = ty?;
        let as_param = self.p.types.intern(TyKind::Param(param));
        if let TyKind::Pack(parts) = self.p.types[ty].clone() {
            let parts = parts.into_iter().map(|part| self.fitted(as_param, part)).collect();
            return Some(self.p.pack_of(parts));
        }
        Some(self.fitted(as_param, ty))
    }

    /// A type for a parameter: an integer becomes `float` where only floats will do.
    fn fitted(&mut self, as_param: Ty, ty: Ty) -> Ty {
        let wants_float = {
            let kinds = self.p.kinds_of(as_param);
            let bounded = !self.p.interfaces_of(as_param).is_empty();
            bounded && kinds & FLOATS != 0 && kinds & !(FLOATS | 256) == 0
        };
        if wants_float {
            let float =
                |ty: Ty, checker: &Self| matches!(&checker.p.types[ty], TyKind::Scalar(s) if !s.is_float());
            return match self.p.types[ty].clone() {
                TyKind::Scalar(s) if !s.is_float() => Ty::FLOAT,
                TyKind::Vector(e, n) if float(e, self) => self.p.types.intern(TyKind::Vector(Ty::FLOAT, n)),
                TyKind::Matrix(e, r, c) if float(e, self) => {
                    self.p.types.intern(TyKind::Matrix(Ty::FLOAT, r, c))
                }
                _ => ty,
            };
        }
        if ty == Ty::BOOL && self.p.kinds_of(as_param) & 1 == 0 && self.p.kinds_of(as_param) & 2 != 0 {
            return self.p.types.scalar(Scalar::Int);
        }
        ty
    }

    /// Collects what the elements of a pack say of the parameters in the pattern of an expansion.
    fn collect_elements(
        &mut self,
        pattern: Ty,
        shape: &GenericArg,
        pack: Ty,
        open: &[DeclId],
        found: &mut Found,
    ) {
        let parts = self.p.elements(pack);
        let mut env = Subst::default();
        // Element by element where that is exact; else what each says is brought together.
        if self.p.unify_expand(pattern, shape, pack, open, &mut env) {
            found.add(env);
            return;
        }
        let mut lists: Vec<(DeclId, Vec<Ty>)> = Vec::new();
        for part in parts {
            let mut inner = Found::default();
            self.collect(pattern, part, open, &mut inner);
            for &param in open {
                if !self.p.is_pack_param(param) {
                    continue;
                }
                let own: Vec<Ty> = inner.types.iter().filter(|t| t.0 == param).map(|t| t.1).collect();
                let Some(&first) = own.first() else { continue };
                let ty = own.iter().skip(1).fold(first, |a, &b| self.p.join(a, b).unwrap_or(a));
                match lists.iter_mut().find(|l| l.0 == param) {
                    Some(list) => list.1.push(ty),
                    None => lists.push((param, vec![ty])),
                }
            }
            found.types.extend(inner.types.into_iter().filter(|t| !self.p.is_pack_param(t.0)));
            found.vals.extend(inner.vals.into_iter().filter(|t| !self.p.is_pack_param(t.0)));
        }
        for (param, list) in lists {
            let ty = self.p.pack_of(list);
            found.types.push((param, ty, false));
        }
    }

    /// Collects what an argument says of the parameters in its parameter's type.
    fn collect(&mut self, pattern: Ty, from: Ty, open: &[DeclId], found: &mut Found) {
        match (self.p.types[pattern].clone(), self.p.types[from].clone()) {
            (TyKind::Each(pack), _) if matches!(self.p.types[pack], TyKind::Param(p) if open.contains(&p)) => {
                if let TyKind::Param(param) = self.p.types[pack] {
                    found.types.push((param, from, false));
                }
            }
            (TyKind::Expand(pattern, shape), _) if self.p.is_pack(from) => {
                self.collect_elements(pattern, &shape, from, open, found);
            }
            (TyKind::Param(param), _) if open.contains(&param) => {
                if self.p.is_pack_param(param) != self.p.is_pack(from) {
                    return;
                }
                let from = self.p.loaded(from);
                found.types.push((param, from, false));
            }
            (TyKind::Vector(element, n), TyKind::Vector(from, m)) => {
                self.collect(element, from, open, found);
                collect_val(&n, &m, open, found);
            }
            (TyKind::Vector(element, n), TyKind::Scalar(_)) => {
                self.collect(element, from, open, found);
                // A scalar is a vector of one, unless another argument says more.
                if let Val::Param(param) = n
                    && open.contains(&param)
                {
                    found.weak_vals.push((param, Val::Int(1)));
                }
            }
            (TyKind::Matrix(element, _, _), TyKind::Scalar(_)) => self.collect(element, from, open, found),
            (TyKind::Matrix(element, r, c), TyKind::Matrix(from, s, d)) => {
                self.collect(element, from, open, found);
                collect_val(&r, &s, open, found);
                collect_val(&c, &d, open, found);
            }
            (TyKind::Optional(inner), from_kind) => match from_kind {
                TyKind::Optional(from) => self.collect(inner, from, open, found),
                TyKind::NoneLiteral => {}
                _ => self.collect(inner, from, open, found),
            },
            _ => {
                // Anything else has to match exactly.
                let mut env = Subst::default();
                if self.p.unify(pattern, from, open, &mut env) {
                    found.add(env);
                } else if let TyKind::Interface(decl, args) = self.p.types[pattern].clone() {
                    for interface in self.p.interfaces_of(from) {
                        let mut env = Subst::default();
                        if matches!(self.p.types[interface], TyKind::Interface(d, _) if d == decl)
                            && !args.is_empty()
                            && self.p.unify(pattern, interface, open, &mut env)
                        {
                            found.add(env);
                        }
                    }
                }
            }
        }
    }
}

/// What arguments say of generic parameters.
#[derive(Debug, Default)]
struct Found {
    /// Parameter, type, and whether it has to be exactly that.
    types: Vec<(DeclId, Ty, bool)>,
    vals: Vec<(DeclId, Val)>,
    weak_vals: Vec<(DeclId, Val)>,
}

impl Found {
    /// What an exact match gave.
    fn add(&mut self, env: Subst) {
        for (param, arg) in env.map {
            match arg {
                GenericArg::Type(ty) => self.types.push((param, ty, true)),
                GenericArg::Val(val) => self.vals.push((param, val)),
            }
        }
    }
}

fn collect_val(pattern: &Val, from: &Val, open: &[DeclId], found: &mut Found) {
    if let Val::Param(param) = pattern
        && open.contains(param)
    {
        found.vals.push((*param, from.clone()));
    }
}
