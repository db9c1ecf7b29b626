//! Implements overload resolution.
//!
//! Each candidate is tried: its generic arguments are inferred from the arguments of the call (through
//! `fwd_diff` and `bwd_diff` by matching the derived signature), then each argument must convert. The
//! candidate with the least total cost wins; among equals a candidate that is not generic is preferred, then
//! a nearer one. Omitted arguments do not affect the choice.

use syntax::ast::DeclKind;
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::exprs::infer::Checker;
use crate::exprs::mismatch::Failure;
use crate::names::lookup::Candidate;
use crate::program::Program;
use crate::signature::{Direction, ParamSig, Role, Signature};
use crate::tables::{Callable, DiffOp, FuncRef};
use crate::types::conversion::Source;
use crate::types::packs::Groups;
use crate::types::{Ty, TyKind, Val};
use crate::view::View;

/// Facts about an argument before its parameter is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument {
    pub(crate) expr: ExprId,
    /// `None` for a brace list, whose type is determined by its parameter.
    pub(crate) ty: Option<Ty>,
    pub(crate) source: Source,
    pub(crate) lvalue: bool,
}

/// The candidate chosen for a call.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) callable: Callable,
    pub(crate) decl: DeclId,
    pub(crate) signature: Signature,
    /// The arguments of each parameter, if there are packs.
    pub(crate) groups: Option<Groups>,
    /// The argument that precedes the written ones (see [`Candidate::object`]).
    pub(crate) object: Option<ExprId>,
}

struct Applicable {
    chosen: Chosen,
    cost: u32,
    generic: bool,
    rank: u32,
    required: bool,
    has_body: bool,
    specificity: u32,
    /// The number of the function's own generic parameters.
    n_generics: usize,
    /// The strength of the constraints: more constraints make a candidate more specific.
    constraints: usize,
}

impl Program {
    /// Returns true if a place of one type can be passed for a written parameter of another type: the value
    /// is written back without conversion.
    pub(crate) fn fits_place(&mut self, from: Ty, to: Ty, dir: Direction) -> bool {
        let is_scalar = |ty: Ty| matches!(self.types[ty], TyKind::Scalar(_));
        // `float1` and `float` denote the same place.
        let is_single =
            |whole: Ty, part: Ty| matches!(self.types[whole], TyKind::Vector(e, Val::Int(1), _) if e == part);
        from == to
            || is_single(from, to)
            || is_single(to, from)
            || (dir != Direction::Ref || is_scalar(from)) && self.same_but_sign(from, to)
            || self.conversion(from, to, Source::default()).is_some_and(|c| c <= 30)
    }

    /// Returns true for `int` and `uint` and equal shapes of these, whose representations agree: they are
    /// converted on the way in and back.
    fn same_but_sign(&self, a: Ty, b: Ty) -> bool {
        match (&self.types[a], &self.types[b]) {
            (TyKind::Scalar(a), TyKind::Scalar(b)) => a.is_int() && b.is_int() && a.size() == b.size(),
            (TyKind::Vector(a, n, _), TyKind::Vector(b, m, _)) => n == m && self.same_but_sign(*a, *b),
            (TyKind::Matrix(a, r, c, _), TyKind::Matrix(b, s, d, _)) => {
                r == s && c == d && self.same_but_sign(*a, *b)
            }
            _ => false,
        }
    }
}

impl Checker<'_> {
    /// Infers arguments without knowing their parameters.
    pub(crate) fn arguments(&mut self, args: &[ExprId]) -> Vec<Argument> {
        let mut out = Vec::new();
        for &expr in args {
            if self.is_list(expr) {
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

    /// Chooses among candidates; reports a diagnostic if none or several fit.
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
            // An error has been reported already; more diagnostics would be noise.
            return None;
        }
        if fits.is_empty() {
            self.report_none(candidates, &failures, args, span);
            return None;
        }
        if fits.len() > 1 {
            // What a parameter of an unknown type takes is not known; that the type is unknown has been reported.
            let types = &self.p.types;
            let is_known = |a: &Applicable| a.chosen.signature.params.iter().all(|p| !types.is_unknown(p.ty));
            let n_known = fits.iter().filter(|a| is_known(a)).count();
            match n_known {
                0 => return None,
                _ => fits.retain(is_known),
            }
        }
        let key = |a: &Applicable| {
            let special = (a.specificity, usize::MAX - a.constraints, a.n_generics);
            (a.cost, a.generic, a.required, a.rank, special, !a.has_body)
        };
        let best = fits.iter().map(key).min()?;
        let mut winners: Vec<Applicable> = fits.into_iter().filter(|a| key(a) == best).collect();
        if winners.len() > 1 {
            // Redeclarations of one function denote the same function.
            let first = winners[0].chosen.signature.clone();
            let same = winners
                .iter()
                .all(|w| w.chosen.signature.ret == first.ret && w.chosen.signature.takes_the_same(&first));
            let prototypes = winners.iter().filter(|w| !w.has_body).count();
            if !(same && prototypes + 1 >= winners.len()) {
                let name = self.p.ast.decl_name(winners[0].chosen.decl).to_string();
                let mut diagnostic = Diagnostic::error("E39999", span, format!("ambiguous call to '{name}'"));
                for winner in winners.iter().take(5) {
                    let text = self.describe(winner.chosen.decl);
                    diagnostic = diagnostic.note(self.p.name_span(winner.chosen.decl), text);
                }
                self.p.report(diagnostic);
                return None;
            }
        }
        Some(winners.swap_remove(0).chosen)
    }

    /// Makes lambdas that are arguments of the only candidate return the type that it expects.
    fn fit_lambdas(&mut self, candidates: &[Candidate], args: &[Argument]) {
        let [candidate] = candidates else { return };
        if !args.iter().any(|a| self.makes_lambda(a.expr)) {
            return;
        }
        let pattern = self.p.pattern_signature(candidate.decl, &candidate.ops);
        for (arg, param) in args.iter().zip(&pattern.params) {
            let Some(ty) = arg.ty.filter(|_| self.makes_lambda(arg.expr)) else { continue };
            for bound in self.p.interfaces_of(param.ty) {
                self.fit_lambda(ty, bound);
            }
        }
    }

    /// Returns true if the operators around a chosen function exist for it; reports those that do not.
    pub(crate) fn check_operators(&mut self, chosen: &Chosen, span: Span) -> bool {
        let ops = chosen.callable.operators();
        let Some(func) = chosen.callable.function().cloned() else { return true };
        let Some(&innermost) = ops.last() else { return true };
        let half = ops.iter().find(|op| matches!(op, DiffOp::Apply | DiffOp::Linearize | DiffOp::Decisions));
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
        let backward = innermost.is_backward();
        self.p.report_ambiguity(&func, &derivatives, backward, span);
        // The author of a function may restrict its derivative to the declaring module.
        let user = derivatives.role(backward).filter(|&role| role != Role::Substitute);
        let user = user.and_then(|role| derivatives.of_role(role));
        let is_hidden =
            |f: &FuncRef| self.p.module_of(f.decl) != self.module && !self.p.is_visible_outside(f.decl);
        if let Some((_, place)) = user.filter(|user| is_hidden(user.0)) {
            let name = self.p.ast.decl_name(func.decl).to_string();
            let message = format!("'{}' of '{name}' is not accessible here", innermost.word());
            let diagnostic = Diagnostic::error("E30600", span, message);
            self.p.report(diagnostic.note(place, "its derivative is not visible outside of this module"));
            return false;
        }
        if !exists {
            let word = innermost.word();
            let name = self.p.ast.decl_name(func.decl).to_string();
            let (mode, help) = match backward {
                false => ("forward", "mark it '[ForwardDifferentiable]' or '[Differentiable]'"),
                true => ("backward", "mark it '[Differentiable]'"),
            };
            let message = format!("'{name}' is not {mode}-differentiable: it has no '{word}'");
            let diagnostic = Diagnostic::error("E30027", span, message).help(help);
            let mut diagnostic = self.p.declared(func.decl, diagnostic);
            diagnostic.is_follow_up |= self.p.has_failed_derivative(func.decl);
            self.p.report(diagnostic);
        }
        exists
    }

    fn try_candidate(&mut self, candidate: &Candidate, args: &[Argument]) -> Result<Applicable, Failure> {
        let args = &self.after_object(candidate, args)[..];
        let pattern = self.p.pattern_signature(candidate.decl, &candidate.ops);
        let of_elements = self.of_elements(candidate, &pattern, args);
        let candidate = of_elements.as_ref().unwrap_or(candidate);
        let most = pattern.params.len();
        let mut least = most;
        if candidate.ops.is_empty() {
            while least > 0 {
                let Some(param) = pattern.params[least - 1].decl else { break };
                if !self.p.has_default(param) {
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
        let variadic = self.p.prints(candidate.decl);
        if n_given < least || n_given > most && !variadic {
            let bound = usize::from(candidate.object.is_some());
            return Err(Failure::Count { least: least.saturating_sub(bound), most: most - bound });
        }
        let env = self.infer_generics(candidate, &pattern, if has_pack { &whole } else { args })?;
        let generic = self.p.is_generic(candidate.decl);
        let func = self.p.func_ref(candidate.decl, &env, candidate.self_ty);
        let callable = Callable::of(func, &candidate.ops, self.p.asking_module(self.module));
        let signature = self.p.callable_signature(&callable);
        let mut cost = 0;
        let singles = || (0..args.len()).map(|idx| (idx, 1)).collect();
        for (&(first, len), param) in groups.as_ref().unwrap_or(&singles()).iter().zip(&signature.params) {
            let is_pack = groups.is_some() && self.p.is_pack(param.ty);
            let elements = if is_pack { self.p.elements(param.ty) } else { vec![param.ty] };
            if elements.len() != len {
                return Err(Failure::Count { least, most: usize::MAX });
            }
            for (arg, element) in args[first..first + len].iter().zip(elements) {
                cost += self.argument_cost(arg, element, param.dir)?;
            }
        }
        let has_body = match self.p.ast.decls[candidate.decl].kind {
            DeclKind::Func { body, .. } | DeclKind::Init { body, .. } => body.is_some(),
            DeclKind::Subscript { .. } => !candidate.required,
            _ => true,
        };
        // A bare parameter is more general than a shape of one, and that is more general than a known type.
        let generality = |param: &ParamSig| {
            let mut mentioned = Vec::new();
            self.p.params_in(param.ty, &mut mentioned);
            u32::from(matches!(self.p.types[param.ty], TyKind::Param(_))) * 2 + mentioned.len() as u32
        };
        let specificity = pattern.params.iter().map(generality).sum();
        // The constraints of an extension are those of its members.
        let extension = self.p.container_of(candidate.decl);
        let extension = extension.filter(|&c| matches!(self.p.ast.decls[c].kind, DeclKind::Extension { .. }));
        let owners = std::iter::once(candidate.decl).chain(extension);
        let bounds: Vec<_> = owners.map(|owner| self.p.constraints_of(owner)).collect();
        let bounds = bounds.iter().flat_map(|bounds| bounds.conforms.iter());
        let constraints = bounds.map(|&(_, bound)| self.p.interfaces_of(bound).len()).sum();
        Ok(Applicable {
            chosen: Chosen {
                callable,
                decl: candidate.decl,
                signature: signature.clone(),
                groups,
                object: candidate.object,
            },
            cost,
            generic,
            rank: candidate.rank,
            required: candidate.required,
            has_body,
            specificity,
            n_generics: self.p.own_params(candidate.decl).len(),
            constraints,
        })
    }

    /// The cost of passing an argument for a parameter.
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
            // The value is written back without conversion.
            let same = self.p.fits_place(from, to, dir);
            if !same && self.p.is_existential(to) && self.p.conforms(from, to) {
                return Err(Failure::NotAnInterface { arg: arg.expr, from, to });
            }
            if !arg.lvalue {
                // For a number in place of a pair, report the type rather than the fact that it is not a
                // variable.
                let is_pair = matches!(self.p.types[to], TyKind::DiffPair(_));
                return Err(if is_pair && !same { mismatch } else { Failure::NotAPlace { arg: arg.expr } });
            }
            if !same {
                return Err(mismatch);
            }
        }
        self.p.conversion(from, to, arg.source).ok_or(mismatch)
    }

    /// Assigns arguments to parameters where there are packs, and combines them into one argument per
    /// parameter.
    fn group(
        &mut self,
        candidate: &Candidate,
        pattern: &Signature,
        args: &[Argument],
        n_defaults: usize,
    ) -> Option<(Groups, Vec<Argument>)> {
        let (env, open) = self.explicit_arguments(candidate)?;
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
}
