//! Explains to the user why no candidate of a call fits.
//!
//! A single candidate gets a specific diagnostic that names the argument; several get a list, the most likely
//! first. Nothing is reported for a type whose declaration already has an error, since the mismatch follows
//! from that error.

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, Message, Span};

use crate::exprs::infer::Checker;
use crate::exprs::overload::Argument;
use crate::names::lookup::Candidate;
use crate::program::Program;
use crate::tables::DiffOp;
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

/// The maximum number of candidates shown.
const MAX_CANDIDATES: usize = 5;

/// The reason why a candidate does not apply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Count {
        least: usize,
        most: usize,
    },
    Type {
        arg: ExprId,
        from: Ty,
        to: Ty,
    },
    NotAnInterface {
        arg: ExprId,
        from: Ty,
        to: Ty,
    },
    NotAPlace {
        arg: ExprId,
    },
    NotInferred {
        param: DeclId,
    },
    /// Arguments that must have the same type but do not.
    Conflict {
        one: Ty,
        other: Ty,
    },
    Constraint {
        subject: Ty,
        bound: Ty,
    },
    Generics,
}

/// Describes the arguments accepted by a function whose parameters are bound by one of the library's own
/// interfaces.
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

impl Checker<'_> {
    /// A short description of a function's declaration.
    pub(crate) fn describe(&mut self, decl: DeclId) -> Message {
        let signature = self.p.raw_signature(decl);
        let params = self.p.shown_params(signature.params.iter().map(|p| (p.dir, p.ty)));
        let name = match self.p.ast.decls[decl].kind {
            DeclKind::Init { .. } => "__init",
            _ => self.p.ast.decl_name(decl),
        };
        text!("candidate: {name}({}) -> {}", params, self.name(signature.ret))
    }

    pub(crate) fn report_none(
        &mut self,
        candidates: &[Candidate],
        failures: &[(DeclId, Failure)],
        args: &[Argument],
        span: Span,
    ) {
        let name = match self.p.ast.decls[candidates[0].decl].kind {
            DeclKind::Init { .. } => candidates[0].self_ty.map_or_else(Message::default, |ty| self.name(ty)),
            _ => self.p.ast.decl_name(candidates[0].decl).into(),
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
            let declared = self.p.name_span(*decl);
            let diagnostic = match failure {
                Failure::Count { least, most } => {
                    let wanted = match most {
                        _ if least == most => format!("{least}"),
                        &usize::MAX => "another number of".to_string(),
                        _ => format!("{least} to {most}"),
                    };
                    let plural = if least == most && *least == 1 { "" } else { "s" };
                    let ops = &candidates[0].ops;
                    let name = if ops.is_empty() { name } else { self.name_within_operators(&candidates[0]) };
                    let called = ops.iter().rfold(name, |f, op| text!("{}({})", op.word(), f));
                    let message = text!("'{}' takes {wanted} argument{plural}, got {}", called, args.len());
                    let help = self.arguments_of_operator(&candidates[0]);
                    Diagnostic::error("E39999", span, message).help_if(help)
                }
                Failure::Type { arg, from, to } => {
                    let (wanted, given) = (self.name(*to), self.name(*from));
                    let message = text!("expected an expression of type '{}', got '{}'", wanted, given);
                    let help = self.conversion_wanted(*arg, *from, *to);
                    Diagnostic::error("E30019", self.span(*arg), message).help_if(help)
                }
                Failure::NotAnInterface { arg, from, to } => {
                    let message = text!(
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
                    let help = self.only_read(*arg).unwrap_or_else(|| {
                        "put the value into a variable, declared with 'var' or its type".to_string()
                    });
                    Diagnostic::error("E30047", self.span(*arg), message).help(help)
                }
                Failure::NotInferred { param } => {
                    let param = self.p.ast.decl_name(*param).to_string();
                    let message = text!("the generic argument '{param}' of '{}' cannot be inferred", name);
                    Diagnostic::error("E39999", span, message).help(text!("name it: '{}<…>(…)'", name))
                }
                Failure::Conflict { one, other } => {
                    let message = text!(
                        "'{}' takes arguments of one type, which '{}' and '{}' are not",
                        name,
                        self.name(*one),
                        self.name(*other)
                    );
                    Diagnostic::error("E39999", span, message)
                        .help(text!("convert one of them, or name the type: '{}<…>(…)'", name))
                }
                Failure::Constraint { subject, .. } if self.p.is_pack(*subject) => {
                    let message =
                        text!("'{}' cannot be called with a pack of ({})", name, self.name(*subject));
                    Diagnostic::error("E38029", span, message)
                }
                Failure::Constraint { subject, bound } if self.p.type_name(*bound).starts_with("__") => {
                    let takes = taken(&self.p.type_name(*bound));
                    let message = text!("'{}' cannot be called with '{}'", name, self.name(*subject));
                    Diagnostic::error("E38029", span, message).help(format!("it takes {takes}"))
                }
                Failure::Constraint { subject, bound }
                    if !matches!(self.p.types[*bound], TyKind::Interface(..)) =>
                {
                    let (subject, bound) = (self.name(*subject), self.name(*bound));
                    Diagnostic::error(
                        "E38029",
                        span,
                        text!("'{}' wants the type '{}', not '{}'", name, bound, subject),
                    )
                }
                Failure::Constraint { subject, bound } => {
                    let (subject, bound) = (self.name(*subject), self.name(*bound));
                    Diagnostic::error(
                        "E38029",
                        span,
                        text!("type '{}' does not conform to '{}'", subject, bound),
                    )
                }
                Failure::Generics => {
                    Diagnostic::error("E30075", span, text!("wrong generic arguments for '{}'", name))
                }
            };
            self.p.report(diagnostic.note(declared, "declared here"));
            return;
        }
        let types = args.iter().map(|a| a.ty.map_or_else(|| "{…}".into(), |ty| self.name(ty)));
        let message = text!("no overload of '{}' takes ({})", name, Message::list(types));
        let mut diagnostic = Diagnostic::error("E39999", span, message);
        // List the most likely candidates first: a function of matrices before a function of numbers, where a
        // matrix is given.
        let mut failures: Vec<&(DeclId, Failure)> = failures.iter().collect();
        failures.sort_by_key(|f| std::cmp::Reverse(self.likeness(f.0, &f.1, args)));
        let mut told: Vec<String> = Vec::new();
        for (decl, failure) in failures.iter().take(MAX_CANDIDATES) {
            let text = text!("{}: {}", self.describe(*decl), self.reason(failure, args)).text;
            if self.p.is_core(*decl) && told.contains(&text) {
                continue;
            }
            told.push(text.clone());
            diagnostic = diagnostic.note(self.p.name_span(*decl), text);
        }
        let places = failures.iter().filter_map(|(_, failure)| match failure {
            Failure::NotAPlace { arg } => Some(*arg),
            _ => None,
        });
        if let Some(help) = places.collect::<Vec<_>>().into_iter().find_map(|arg| self.only_read(arg)) {
            diagnostic = diagnostic.help(help);
        }
        if failures.len() > MAX_CANDIDATES {
            diagnostic = diagnostic.help(format!("there are {} more", failures.len() - MAX_CANDIDATES));
        }
        self.p.report(diagnostic);
    }

    /// The likelihood that a candidate was meant: the number of arguments of the kind that it takes.
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

    /// The name of a function within operators, qualified by the object or type of which it is a method.
    fn name_within_operators(&self, candidate: &Candidate) -> Message {
        let name = self.p.ast.decl_name(candidate.decl);
        match (candidate.object, candidate.self_ty) {
            (Some(object), _) => format!("{}.{name}", self.path_text(object)).into(),
            (None, Some(ty)) if !self.p.is_static(candidate.decl) => text!("{}.{name}", self.name(ty)),
            (None, _) => name.into(),
        }
    }

    fn path_text(&self, expr: ExprId) -> String {
        match &self.p.ast.exprs[expr].kind {
            ExprKind::Name(name) => self.p.ast.name(*name).to_string(),
            ExprKind::This => "this".to_string(),
            ExprKind::Paren(inner) => self.path_text(*inner),
            ExprKind::Member { base, name, .. } => {
                format!("{}.{}", self.path_text(*base), self.p.ast.name(*name))
            }
            _ => "object".to_string(),
        }
    }

    /// The parameters of `fwd_diff(f)` and the like, which differ from those of `f`.
    fn arguments_of_operator(&mut self, candidate: &Candidate) -> Option<Message> {
        let (&op, []) = candidate.ops.split_last()? else { return None };
        let gives = match op {
            DiffOp::Bwd => ": a pair for each input that has a derivative, then the cotangent of the result",
            DiffOp::Fwd | DiffOp::Apply | DiffOp::Linearize | DiffOp::Decisions => "",
        };
        let word = op.word();
        let signature = self.p.pattern_signature(candidate.decl, &candidate.ops);
        let name = self.name_within_operators(candidate);
        let has_this = self.p.raw_signature(candidate.decl).this.is_some();
        let mut list = Vec::new();
        for (k, param) in signature.params.iter().enumerate() {
            let own = match param.decl {
                Some(own) => format!(" {}", self.p.ast.decl_name(own)),
                None if k == 0 && candidate.object.is_some() => continue,
                None if k == 0 && has_this => " this".to_string(),
                None if op == DiffOp::Bwd => " resultGradient".to_string(),
                None => String::new(),
            };
            let written = if param.dir.is_written() { "inout " } else { "" };
            list.push(text!("{written}{}{own}", self.name(param.ty)));
        }
        let by_object = match (candidate.object, candidate.self_ty) {
            (Some(_), Some(ty)) => {
                let method = self.p.ast.decl_name(candidate.decl);
                text!("; '{word}({}.{method})' is the derivative by the object, too", self.name(ty))
            }
            _ => Message::default(),
        };
        Some(text!("it is '{word}({})({})'{gives}{}", name, Message::list(list), by_object))
    }

    /// A hint for a value that does not convert by itself: where a pair is expected and its primal is given, and where
    /// a pointer is to be used otherwise.
    fn conversion_wanted(&mut self, arg: ExprId, from: Ty, to: Ty) -> Option<String> {
        if let (TyKind::Pointer(a, ..), TyKind::Pointer(b, ..)) = (&self.p.types[from], &self.p.types[to])
            && a == b
        {
            return Some(format!("convert it explicitly: '({})…'", self.p.type_name(to)));
        }
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

    /// A short reason why a candidate does not fit.
    fn reason(&mut self, failure: &Failure, args: &[Argument]) -> Message {
        let number = |expr: &ExprId| args.iter().position(|a| a.expr == *expr).map_or(0, |k| k + 1);
        match failure {
            Failure::Count { least, most } if least == most => text!("takes {}", least),
            Failure::Count { least, most: usize::MAX } => text!("takes at least {}", least),
            Failure::Count { least, most } => text!("takes {} to {}", least, most),
            Failure::Type { arg, from, to } if *from == Ty::VOID => {
                text!("argument {}: no list makes a '{}'", number(arg), self.name(*to))
            }
            Failure::Type { arg, from, to } | Failure::NotAnInterface { arg, from, to } => {
                text!("argument {}: '{}' is no '{}'", number(arg), self.name(*from), self.name(*to))
            }
            Failure::NotAPlace { arg } => text!("argument {} cannot be assigned to", number(arg)),
            Failure::NotInferred { param } => {
                text!("'{}' cannot be inferred", self.p.ast.decl_name(*param))
            }
            Failure::Conflict { one, other } => {
                text!("'{}' and '{}' are not of one type", self.name(*one), self.name(*other))
            }
            Failure::Constraint { subject, bound } if self.p.type_name(*bound).starts_with("__") => {
                text!("it takes {}, not '{}'", taken(&self.p.type_name(*bound)), self.name(*subject))
            }
            Failure::Constraint { subject, bound } => {
                text!("'{}' does not conform to '{}'", self.name(*subject), self.name(*bound))
            }
            Failure::Generics => "has other generic parameters".into(),
        }
    }
}
