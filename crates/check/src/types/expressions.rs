//! Checks type expressions and generic arguments.

use std::ops::RangeInclusive;
use std::rc::Rc;

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::signature::Subst;
use crate::tables::Meaning;
use crate::types::builtin::NativeGeneric;
use crate::types::follow_up::text;
use crate::types::{Comparison, GenericArg, Order, Ty, TyKind, Val, pointers};

/// The maximum length of a `CoopVec`; every component is an operation of its own.
pub const MAX_COOP_VEC: i64 = 1024;

impl Checker<'_> {
    /// The type that an expression denotes.
    pub(crate) fn type_expr(&mut self, expr: ExprId) -> Ty {
        self.infer_any(expr, None);
        match self.p.tables.exprs[expr].meaning {
            Meaning::Type(ty) => ty,
            Meaning::Error => Ty::ERROR,
            _ => self.fail(expr, "E30060", "expected a type"),
        }
    }

    pub(crate) fn array_of(&mut self, element: Ty, n: Option<Val>, span: Span) -> Ty {
        if element == Ty::ERROR {
            return Ty::ERROR;
        }
        let kind = TyKind::Array(element, n);
        if self.is_of_no_size(&kind, MAX_COOP_VEC, span) {
            return Ty::ERROR;
        }
        self.p.types.intern(kind)
    }

    /// Reports an error in a type's sizes, as found by [`Program::wrong_size`]. Returns true if there is one.
    fn is_of_no_size(&mut self, kind: &TyKind, most: i64, span: Span) -> bool {
        let wrong = self.p.wrong_size(kind, most);
        if let Some((code, message)) = &wrong {
            self.error(code, span, message.clone());
        }
        wrong.is_some()
    }

    pub(crate) fn native_generic(&mut self, native: NativeGeneric, written: &[ExprId], span: Span) -> Ty {
        if let Some(most) = native.most_args().filter(|&most| written.len() > most) {
            let arguments = if most == 1 { "argument" } else { "arguments" };
            let message =
                text!("'{}' takes {most} generic {arguments}, not {}", native.name(), written.len());
            self.error("E30075", span, message);
            return Ty::ERROR;
        }
        let args: Vec<GenericArg> = written.iter().map(|&a| self.generic_arg(a)).collect();
        let ty = |idx: usize| if let GenericArg::Type(ty) = args.get(idx)? { Some(*ty) } else { None };
        let val =
            |idx: usize| if let GenericArg::Val(val) = args.get(idx)? { Some(val.clone()) } else { None };
        // The types in the head of an extension are patterns, never the types of values:
        // `Vectorizer<T, vector<Any, 0>>`.
        let is_pattern = self.outside_of.is_some()
            && matches!(self.p.ast.decls[self.scope].kind, DeclKind::Extension { .. });
        let four = |idx: usize| (idx >= args.len()).then_some(Val::Int(4));
        let kind = match native {
            NativeGeneric::Vector | NativeGeneric::CoopVec => match (ty(0), val(1)) {
                (Some(element), Some(n)) => {
                    let most = if native == NativeGeneric::CoopVec { MAX_COOP_VEC } else { 4 };
                    let comparison = match native {
                        NativeGeneric::CoopVec => Comparison::Whole,
                        _ => Comparison::Each,
                    };
                    let kind = self.p.types.without_single(TyKind::Vector(element, n, comparison));
                    if !is_pattern && self.is_of_no_size(&kind, most, span) {
                        return Ty::ERROR;
                    }
                    Some(kind)
                }
                (Some(element), None) if args.len() == 1 && native == NativeGeneric::Vector => {
                    Some(TyKind::Vector(element, Val::Int(4), Comparison::Each))
                }
                _ => None,
            },
            NativeGeneric::Matrix => match (ty(0), val(1).or_else(|| four(1)), val(2).or_else(|| four(2))) {
                (Some(element), Some(r), Some(c)) => {
                    let kind = TyKind::Matrix(element, r, c, val(3).unwrap_or(Order::HOST));
                    if !is_pattern && self.is_of_no_size(&kind, 4, span) {
                        return Ty::ERROR;
                    }
                    Some(kind)
                }
                _ => None,
            },
            NativeGeneric::Array => match (ty(0), val(1)) {
                (Some(element), n) => return self.array_of(element, n, span),
                _ => None,
            },
            NativeGeneric::Pair => {
                let primal = ty(0);
                if let Some(primal) = primal
                    && self.p.differential(primal).is_none()
                    && !(self.p.is_core(self.scope) && self.p.may_be_float(primal))
                {
                    self.not_differentiable(primal, span);
                    return Ty::ERROR;
                }
                primal.map(TyKind::DiffPair)
            }
            NativeGeneric::PtrPair => ty(0).map(TyKind::DiffPtrPair),
            NativeGeneric::Tuple => {
                let parts: Option<Vec<Ty>> = (0..args.len()).map(ty).collect();
                match parts {
                    Some(parts) if !parts.contains(&Ty::ERROR) => return self.p.tuple_of(parts),
                    parts => parts.map(TyKind::Tuple),
                }
            }
            NativeGeneric::Optional => ty(0).map(TyKind::Optional),
            NativeGeneric::Ptr | NativeGeneric::Ref if !self.are_pointer_traits(native, written) => {
                return Ty::ERROR;
            }
            NativeGeneric::Ptr | NativeGeneric::Buffer(_) => {
                let place = if native == NativeGeneric::Ptr { 3 } else { 1 };
                let content = match args.get(place) {
                    Some(&GenericArg::Type(layout)) if !self.is_layout(layout, span) => return Ty::ERROR,
                    Some(&GenericArg::Type(layout)) => ty(0).map(|content| self.p.laid(content, layout)),
                    Some(GenericArg::Val(_)) => None,
                    None => ty(0),
                };
                content.map(|content| match native {
                    NativeGeneric::Buffer(kind) => TyKind::Buffer(kind, content),
                    _ => {
                        let trait_or = |idx: usize, default| val(idx).unwrap_or(default);
                        let access = trait_or(1, pointers::READ_WRITE);
                        TyKind::Pointer(content, access, trait_or(2, pointers::DEVICE))
                    }
                })
            }
            NativeGeneric::Ref => match ty(0) {
                Some(resource) => return resource,
                None => None,
            },
            NativeGeneric::Unsupported(name) => {
                self.unsupported_type(name, span);
                return Ty::ERROR;
            }
        };
        if args.iter().any(|a| matches!(a, GenericArg::Type(Ty::ERROR) | GenericArg::Val(Val::Error))) {
            return Ty::ERROR;
        }
        match kind {
            Some(kind) => self.p.types.intern(kind),
            None => {
                self.error("E30075", span, text!("these generic arguments do not fit '{}'", native.name()));
                Ty::ERROR
            }
        }
    }

    /// A generic argument: a type or a compile-time integer.
    pub(crate) fn generic_arg(&mut self, expr: ExprId) -> GenericArg {
        self.infer_any(expr, None);
        match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Type(ty) => GenericArg::Type(ty),
            Meaning::Error => GenericArg::Type(Ty::ERROR),
            _ => GenericArg::Val(self.val_of(expr)),
        }
    }

    /// Reports an error in the generic arguments of a declaration.
    fn generic_error(&mut self, decl: DeclId, span: Span, message: String) {
        let error = self.p.declared(decl, Diagnostic::error("E30075", span, message));
        self.p.report(error);
    }

    /// Applies a generic type to its arguments.
    pub(crate) fn apply_generic(
        &mut self,
        decl: DeclId,
        outer: &Rc<Subst>,
        args: Vec<GenericArg>,
        span: Span,
    ) -> Ty {
        let params = self.p.own_params(decl);
        let mut env = (**outer).clone();
        let given = args.len();
        if args.iter().any(|a| matches!(a, GenericArg::Type(Ty::ERROR) | GenericArg::Val(Val::Error))) {
            return Ty::ERROR;
        }
        let Some(args) = self.p.assign_generics(&params, &args) else {
            let n = params.len();
            let plural = if n == 1 { "" } else { "s" };
            self.generic_error(decl, span, format!("expected {n} generic argument{plural}, got {given}"));
            return Ty::ERROR;
        };
        for (param, arg) in params.into_iter().zip(args) {
            let arg = arg.or_else(|| self.default_arg(param, &env)).or_else(|| self.p.empty_pack(param));
            let Some(arg) = arg else {
                let message = format!("generic argument '{}' is missing", self.p.ast.decl_name(param));
                self.generic_error(decl, span, message);
                return Ty::ERROR;
            };
            if !self.fits_param(param, &arg, span) {
                return Ty::ERROR;
            }
            env.map.push((param, arg));
        }
        let busy = self.p.queries.decl_types.is_open(&decl);
        if !busy && let Some((subject, bound)) = self.p.unsatisfied(decl, &env) {
            // A default that does not fit is reported where it is declared.
            if self.p.is_core(decl) || self.p.check_defaults(decl) {
                self.constraint_error(subject, bound, span);
            }
            return Ty::ERROR;
        }
        let declared = self.p.decl_type(decl);
        self.p.substitute(declared, &env)
    }

    /// Reports a type that lacks a required differential.
    pub(crate) fn not_differentiable(&mut self, ty: Ty, span: Span) {
        let message = text!("type '{}' does not conform to 'IDifferentiable'", self.name(ty));
        let mut diagnostic = Diagnostic::error("E38029", span, message);
        if let TyKind::Struct(decl, _) = self.p.types[ty]
            && !self.p.is_core(decl)
        {
            let short = self.p.ast.decl_name(decl).to_string();
            diagnostic = diagnostic
                .note(self.p.name_span(decl), "declared here")
                .help(format!("write 'struct {short} : IDifferentiable'"));
        }
        self.p.report(diagnostic);
    }

    pub(crate) fn constraint_error(&mut self, subject: Ty, bound: Ty, span: Span) {
        let relation = self.p.relation(bound);
        self.error("E38029", span, text!("type '{}' {relation} '{}'", self.name(subject), self.name(bound)));
    }

    fn fits_param(&mut self, param: DeclId, arg: &GenericArg, span: Span) -> bool {
        let is_value = self.p.is_value_param(param);
        let fits = is_value == matches!(arg, GenericArg::Val(_));
        if !fits {
            let name = self.p.ast.decl_name(param).to_string();
            let wanted = if is_value { "a value" } else { "a type" };
            self.error("E30075", span, format!("generic argument '{name}' has to be {wanted}"));
        }
        fits
    }

    /// The default of a generic parameter.
    pub(crate) fn default_arg(&mut self, param: DeclId, env: &Subst) -> Option<GenericArg> {
        let kind = self.p.ast.decls[param].kind.clone();
        let mut checker = Checker::new(self.p, param);
        checker.scope = checker.p.scopes.param_owner.get(&param).copied().unwrap_or(param);
        let arg = match kind {
            DeclKind::TypeParam { default: Some(default), .. } => {
                GenericArg::Type(checker.type_expr(default))
            }
            DeclKind::ValueParam { default: Some(default), .. } => checker.generic_arg(default),
            _ => return None,
        };
        Some(self.p.substitute_arg(&arg, env))
    }
}

impl Program {
    /// The words for how a type fails a constraint.
    pub(crate) fn relation(&self, bound: Ty) -> &'static str {
        match self.types[bound] {
            TyKind::Interface(..) => "does not conform to",
            _ => "is not the same as",
        }
    }

    /// Applies modifiers to a type. As in Slang, the order of matrices can be stated for a matrix, but not
    /// for an array or pointer.
    pub(crate) fn ordered(&mut self, modifiers: Modifiers, ty: Ty, span: Span) -> Ty {
        let order = match (modifiers.has(Modifiers::COLUMN_MAJOR), modifiers.has(Modifiers::ROW_MAJOR)) {
            (true, _) => Order::COLUMNS,
            (false, true) => Order::ROWS,
            (false, false) => return ty,
        };
        let (inner, whole) = match self.types[ty] {
            TyKind::Array(element, _) => (element, "Array"),
            TyKind::Pointer(element, ..) => (element, "Ptr"),
            _ => return self.types.in_order(ty, order),
        };
        let wants_columns = order == Order::COLUMNS;
        if matches!(self.types[inner], TyKind::Matrix(..)) && self.lies_in_columns(inner) != wants_columns {
            let (word, lines) = if wants_columns { ("column_major", "row") } else { ("row_major", "column") };
            let message = text!(
                "'{word}' has no effect on a '{}', whose matrices lie {lines} by {lines}",
                self.shown(ty)
            );
            let help = format!("write '{whole}<{word} …>', or give the matrix type a name");
            self.report(Diagnostic::warning("E30026", span, message).help(help));
        }
        ty
    }

    /// Returns true if a type is a matrix that is stored column by column.
    pub fn lies_in_columns(&self, ty: Ty) -> bool {
        match &self.types[ty] {
            TyKind::Matrix(.., Order::HOST) => self.host_has_columns,
            TyKind::Matrix(.., order) => *order == Order::COLUMNS,
            _ => false,
        }
    }

    /// The type of a variable after applying the modifiers of its declaration.
    pub(crate) fn ordered_as(&mut self, decl: DeclId, ty: Ty) -> Ty {
        let node = &self.ast.decls[decl];
        let (modifiers, span) = (node.modifiers, node.name_span);
        self.ordered(modifiers, ty, span)
    }
}

impl Program {
    /// Returns the code and message of an error in the known sizes of a vector, matrix or array, or in its
    /// components, if there is one. A vector has at most `most` components.
    pub fn wrong_size(&self, kind: &TyKind, most: i64) -> Option<(&'static str, String)> {
        let outside = |val: &Val, range: RangeInclusive<i64>| {
            self.val_int(val, &Subst::default()).filter(|n| !range.contains(n))
        };
        let is_component = |ty: Ty| {
            matches!(self.types[ty], TyKind::Scalar(_) | TyKind::Error) || self.types.is_abstract(ty)
        };
        match kind {
            TyKind::Vector(element, ..) if !is_component(*element) => {
                let element = self.type_name(*element);
                Some(("E38203", format!("a vector cannot have components of type '{element}'")))
            }
            TyKind::Matrix(element, ..) if !is_component(*element) => {
                let element = self.type_name(*element);
                Some(("E38203", format!("a matrix cannot have elements of type '{element}'")))
            }
            TyKind::Vector(_, n, _) => {
                let n = outside(n, 1..=most)?;
                Some(("E38203", format!("a vector has 1 to {most} components, not {n}")))
            }
            TyKind::Matrix(_, rows, columns, order) => {
                if let Some(n) = outside(rows, 1..=4).or_else(|| outside(columns, 1..=4)) {
                    return Some(("E38203", format!("a matrix has 1 to 4 rows and 1 to 4 columns, not {n}")));
                }
                let n = outside(order, 0..=2)?;
                let orders = "0 (the host's), 1 (rows) or 2 (columns)";
                Some(("E38203", format!("the order of a matrix is {orders}, not {n}")))
            }
            TyKind::Array(_, Some(n)) => {
                let n = outside(n, 0..=i64::from(i32::MAX))?;
                Some(("E30025", format!("an array cannot have {n} elements")))
            }
            _ => None,
        }
    }

    /// Returns true if a size in a type is the result of a computation that has none: it divides by zero or
    /// shifts by too many bits.
    pub fn has_no_size(&self, ty: Ty) -> bool {
        self.types[ty].parts().contains(&GenericArg::Val(Val::Error))
    }
}
