//! Checks expressions that make a value of a given type: brace lists, constructors of built-in types, casts
//! and default values.
//!
//! A brace list fills the parts of its type in order; a part that is itself an aggregate takes either one
//! fitting element or as many elements as it has parts (C's rule). Parts after the end of the list have their
//! default values.

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, Diagnostic, ExprId, keywords as kw};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::tables::{ExprInfo, FuncRef, Initializer, Meaning};
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{Comparison, Ty, TyKind, Val};

impl Program {
    /// The initial value of a variable of this type without an initialiser: the type's `__init()`, its
    /// fields' initialisers, else [`Initializer::Default`] (zeros).
    pub fn default_of(&mut self, ty: Ty) -> Initializer {
        self.default_within(ty, &mut Vec::new())
    }

    /// Like [`Program::default_of`], but without the type's own `__init()`: the initial value of `this` in a
    /// constructor.
    pub fn fields_default_of(&mut self, ty: Ty) -> Initializer {
        self.default_parts(ty, &mut Vec::new())
    }

    /// Computes a default. `inside` are the enclosing structs; a struct that contains itself is reported
    /// elsewhere.
    fn default_within(&mut self, ty: Ty, inside: &mut Vec<DeclId>) -> Initializer {
        if inside.len() > 50 {
            return Initializer::Default(ty);
        }
        if let TyKind::Struct(decl, args) = self.types[ty].clone() {
            if inside.contains(&decl) {
                return Initializer::Default(ty);
            }
            for init in self.named(decl, kw::CONSTRUCTOR) {
                if self.params_of(init).is_empty() && !self.is_generic(init) {
                    let func = FuncRef { decl: init, args, self_ty: Some(ty) };
                    return Initializer::Init(ty, func, Vec::new());
                }
            }
        }
        self.default_parts(ty, inside)
    }

    fn default_parts(&mut self, ty: Ty, inside: &mut Vec<DeclId>) -> Initializer {
        match self.types[ty].clone() {
            // The `__init()` of the base has to run, which lowering of the default takes care of.
            TyKind::Struct(decl, _) if self.has_base_struct(decl) => Initializer::Default(ty),
            TyKind::Struct(decl, _) => {
                let mut parts = Vec::new();
                let mut plain = true;
                inside.push(decl);
                for (field, field_ty, _) in self.fields(ty) {
                    let initial = self.initial_value(field);
                    let part = initial.unwrap_or_else(|| self.default_within(field_ty, inside));
                    plain &= matches!(part, Initializer::Default(_));
                    parts.push(part);
                }
                inside.pop();
                if plain { Initializer::Default(ty) } else { Initializer::Parts(ty, parts) }
            }
            TyKind::Array(element, Some(Val::Int(n))) if n <= 4096 => {
                match self.default_within(element, inside) {
                    Initializer::Default(_) => Initializer::Default(ty),
                    part => Initializer::Parts(ty, vec![part; n.max(0) as usize]),
                }
            }
            _ => Initializer::Default(ty),
        }
    }

    /// The value that a field has where it is declared.
    fn initial_value(&mut self, field: DeclId) -> Option<Initializer> {
        let DeclKind::Var { init: Some(init), .. } = self.ast.decls[field].kind else { return None };
        self.body(field);
        Some(Initializer::Expr(init))
    }

    /// Returns true if a struct inherits from another.
    pub fn has_base_struct(&mut self, decl: DeclId) -> bool {
        self.bases_of(decl).iter().any(|&base| matches!(self.types[base], TyKind::Struct(..)))
    }

    /// The type of a variable whose declared type may leave the length of an array to a brace list.
    pub(crate) fn sized_by(&mut self, declared: Ty, init: Option<ExprId>) -> Ty {
        match (&self.types[declared], init.map(|init| &self.ast.exprs[init].kind)) {
            (&TyKind::Array(element, None), Some(ExprKind::InitList(items))) => {
                self.types.intern(TyKind::Array(element, Some(Val::Int(items.len() as i64))))
            }
            _ => declared,
        }
    }

    /// The types of an aggregate's parts, if it has a known size.
    fn parts_of(&mut self, ty: Ty) -> Option<Vec<Ty>> {
        match self.types[ty].clone() {
            TyKind::Struct(..) | TyKind::SynthDiff(_) => {
                Some(self.fields(ty).into_iter().map(|f| f.1).collect())
            }
            TyKind::Array(element, Some(Val::Int(n))) if (0..=1 << 20).contains(&n) => {
                Some(vec![element; n as usize])
            }
            TyKind::Vector(element, Val::Int(n), _) => Some(vec![element; n.max(0) as usize]),
            TyKind::Matrix(element, Val::Int(r), c, _) => {
                let row = self.types.intern(TyKind::Vector(element, c, Comparison::Each));
                Some(vec![row; r.max(0) as usize])
            }
            TyKind::Tuple(parts) => Some(parts),
            TyKind::DiffPair(_) | TyKind::DiffPtrPair(_) => self.halves(ty).map(|(p, d)| vec![p, d]),
            _ => None,
        }
    }
}

impl Checker<'_> {
    /// Checks a brace list against a type.
    pub(crate) fn init_list(&mut self, expr: ExprId, ty: Ty) -> Ty {
        let ExprKind::InitList(items) = self.p.ast.exprs[expr].kind.clone() else { return Ty::ERROR };
        let span = self.span(expr);
        if ty == Ty::ERROR {
            self.skip_args(&items);
            return self.set_error(expr);
        }
        self.check_list_of_base(expr, ty);
        if items.is_empty() {
            self.warn_of_default(expr, ty);
            if let Some(message) = self.lacks_constructor(ty, 0) {
                return self.fail_as(expr, ty, "E30500", message);
            }
            self.check_empty_list(expr, ty);
            self.check_hidden_fields(expr, ty);
            return self.default_value(expr, ty);
        }
        let kind = self.p.types[ty].clone();
        let is_single = matches!(kind, TyKind::Scalar(_) | TyKind::Enum(_)) || self.p.types.is_abstract(ty);
        if (is_single || matches!(kind, TyKind::Struct(..)))
            && let Some((init, args)) = self.constructor_for(ty, &items, span)
        {
            return self.set_value(expr, ty, Meaning::Init { init, args });
        }
        let is_whole =
            |c: &mut Self| !matches!(items[..], [item] if !c.is_list(item) && c.infer(item, None) == ty);
        if matches!(kind, TyKind::Struct(..))
            && is_whole(self)
            && let Some(message) = self.lacks_constructor(ty, items.len())
        {
            self.skip_args(&items);
            return self.fail_as(expr, ty, "E30500", message);
        }
        match kind {
            TyKind::Vector(..) | TyKind::Matrix(..) => {
                let nested = items.iter().any(|&i| self.is_list(i));
                if nested { self.aggregate(expr, ty, &items) } else { self.list_components(expr, ty, &items) }
            }
            _ if items.len() == 1
                && (is_single || matches!(kind, TyKind::Optional(_) | TyKind::Interface(..))) =>
            {
                self.check(items[0], ty);
                self.set_value(expr, ty, Meaning::Aggregate(Initializer::Expr(items[0])))
            }
            // The list contains the parts of the optional's value.
            TyKind::Optional(inner) => {
                self.init_list(expr, inner);
                self.p.tables.exprs[expr].coerce = Some(ty);
                ty
            }
            _ if is_single => {
                let message =
                    text!("a value of type '{}' is made of one element, got {}", self.name(ty), items.len());
                self.fail_as(expr, ty, "E30500", message)
            }
            _ => self.aggregate(expr, ty, &items),
        }
    }

    /// Warns of `{}` for a value of interface type, or for a struct with such a field: no type is known whose
    /// default it could be.
    fn warn_of_default(&mut self, expr: ExprId, ty: Ty) {
        if self.p.is_core(self.scope) {
            return;
        }
        let field = match self.p.types[ty] {
            TyKind::Interface(..) => None,
            TyKind::Struct(decl, _) if self.p.named(decl, kw::CONSTRUCTOR).is_empty() => {
                let fields = self.p.fields(ty);
                let field = fields.into_iter().find(|&(field, ty, _)| {
                    let init = self.p.ast.decls[field].kind.init();
                    matches!(self.p.types[ty], TyKind::Interface(..)) && init.is_none()
                });
                let Some((field, ..)) = field else { return };
                Some(field)
            }
            _ => return,
        };
        let message = "this leaves open of which type a value of interface type is";
        let mut warning = Diagnostic::warning("E30521", self.span(expr), message);
        if let Some(field) = field {
            warning = warning.note(self.p.name_span(field), "this field");
        }
        self.p.report_once(warning.help("give it a value of a type that conforms"));
    }

    /// The reason why a list of elements, which fits no constructor, does not make a struct: it declares
    /// constructors.
    fn lacks_constructor(&mut self, ty: Ty, n: usize) -> Option<syntax::Message> {
        let TyKind::Struct(decl, _) = self.p.types[ty] else { return None };
        if self.p.is_core(decl) {
            return None;
        }
        let shown = self.name(ty);
        let mut own = self.p.named(decl, kw::CONSTRUCTOR);
        own.retain(|init| !self.p.is_generic(*init));
        if !own.is_empty() {
            let takes_none =
                |p: &Program, init: DeclId| p.params_of(init).into_iter().all(|param| p.has_default(param));
            if n == 0 && own.iter().any(|&init| takes_none(self.p, init)) {
                return None;
            }
            let plural = if n == 1 { "" } else { "s" };
            return Some(text!("no constructor of '{}' takes {n} argument{plural} like these", shown));
        }
        None
    }

    /// Returns true if a brace list may become a value of a type, judging by its shape.
    pub(crate) fn list_may_fit(&mut self, expr: ExprId, ty: Ty) -> bool {
        let ExprKind::InitList(items) = self.p.ast.exprs[expr].kind.clone() else { return false };
        if items.len() <= 1 || ty == Ty::ERROR {
            return true;
        }
        match self.p.types[ty].clone() {
            TyKind::Scalar(_) | TyKind::Enum(_) | TyKind::Buffer(..) | TyKind::Pointer(..) => false,
            TyKind::Struct(..) => true,
            _ => self.p.parts_of(ty).is_none_or(|parts| {
                let is_flat = parts.iter().all(|&p| matches!(self.p.types[p], TyKind::Scalar(_)));
                !is_flat || items.len() <= parts.len()
            }),
        }
    }

    /// Makes a value of an aggregate type from its parts in order.
    pub(crate) fn aggregate(&mut self, expr: ExprId, ty: Ty, items: &[ExprId]) -> Ty {
        if items.is_empty() {
            return self.default_value(expr, ty);
        }
        // A single element may already be the whole value.
        if let [item] = *items
            && !self.is_list(item)
        {
            let from = self.infer(item, None);
            if from == ty {
                return self.set_value(expr, ty, Meaning::Aggregate(Initializer::Expr(item)));
            }
        }
        if self.p.parts_of(ty).is_none() {
            if let TyKind::Array(element, None) = self.p.types[ty] {
                let sized = self.p.types.intern(TyKind::Array(element, Some(Val::Int(items.len() as i64))));
                return self.aggregate(expr, sized, items);
            }
            if let TyKind::Array(element, Some(_)) = self.p.types[ty] {
                // The length is a parameter: the elements come in order, the rest has default values.
                for &item in items {
                    self.check(item, element);
                }
                let parts = items.iter().map(|&i| Initializer::Expr(i)).collect();
                return self.set_value(expr, ty, Meaning::Aggregate(Initializer::Parts(ty, parts)));
            }
            let message = text!("a value of type '{}' cannot be made from a list", self.name(ty));
            self.skip_args(items);
            return self.fail_as(expr, ty, "E30500", message);
        }
        let mut at = 0;
        let initializer = self.fill(ty, items, &mut at, &mut Vec::new());
        if at < items.len() {
            let n = items.len();
            let message = text!("too many elements for '{}': {n} are given, {at} are used", self.name(ty));
            let mut error = Diagnostic::error("E30523", self.span(items[at]), message);
            for (field, ..) in self.p.fields(ty) {
                if self.p.is_hidden_from_lists(field) && !self.p.is_core(field) {
                    error =
                        error.note(self.p.name_span(field), "less visible than its struct: lists skip it");
                }
            }
            self.p.report(error);
            self.skip_args(&items[at..]);
        }
        self.set_value(expr, ty, Meaning::Aggregate(initializer))
    }

    /// Takes the elements for one aggregate from a list. `inside` are the types that the aggregate is a part
    /// of; a type that contains itself is reported elsewhere.
    fn fill(&mut self, ty: Ty, items: &[ExprId], at: &mut usize, inside: &mut Vec<Ty>) -> Initializer {
        if inside.contains(&ty) {
            return Initializer::Default(ty);
        }
        let Some(parts) = self.p.parts_of(ty) else { return self.p.default_of(ty) };
        inside.push(ty);
        let fields = match self.p.types[ty] {
            TyKind::Struct(..) => self.p.fields(ty),
            _ => Vec::new(),
        };
        let mut out = Vec::new();
        for (idx, part) in parts.into_iter().enumerate() {
            let hidden = fields.get(idx).is_some_and(|f| self.p.is_hidden_from_lists(f.0));
            if *at >= items.len() || inside.len() > 100 || hidden {
                let initial = fields.get(idx).and_then(|field| self.p.initial_value(field.0));
                out.push(initial.unwrap_or_else(|| self.p.default_of(part)));
                continue;
            }
            let item = items[*at];
            if self.is_list(item) {
                self.init_list(item, part);
            } else {
                let from = self.infer(item, Some(part));
                let fits = self.p.conversion(from, part, self.source_of(item)).is_some()
                    && !self.splits(from, part, items.len() - *at);
                // Scalars and types that are not known have no parts.
                if !fits && self.p.parts_of(part).is_some() {
                    out.push(self.fill(part, items, at, inside));
                    continue;
                }
                self.coerce(item, part);
            }
            *at += 1;
            out.push(Initializer::Expr(item));
        }
        inside.pop();
        Initializer::Parts(ty, out)
    }

    /// Returns true if a scalar is the first of a vector's components rather than a value that fills the
    /// whole vector, because more elements of the list follow.
    fn splits(&self, from: Ty, part: Ty, left: usize) -> bool {
        left > 1
            && matches!(self.p.types[from], TyKind::Scalar(_) | TyKind::Param(_))
            && matches!(self.p.types[part], TyKind::Vector(..) | TyKind::Matrix(..))
    }

    /// The number of components that an argument contributes to the constructor of a vector or matrix.
    fn n_components(&self, ty: Ty) -> Option<i64> {
        match &self.p.types[ty] {
            TyKind::Vector(_, Val::Int(n), _) => Some(*n),
            TyKind::Matrix(_, Val::Int(r), Val::Int(c), _) => Some(r * c),
            TyKind::Vector(..) | TyKind::Matrix(..) => None,
            TyKind::Array(element, Some(Val::Int(n))) => self.n_components(*element).map(|e| e * n),
            _ => Some(1),
        }
    }

    fn element_of(&self, ty: Ty) -> Ty {
        match self.p.types[ty] {
            TyKind::Vector(element, _, _) | TyKind::Matrix(element, ..) | TyKind::Array(element, _) => {
                element
            }
            _ => ty,
        }
    }

    /// `{a, b, c}` for a vector or matrix: missing components are zero.
    fn list_components(&mut self, expr: ExprId, ty: Ty, items: &[ExprId]) -> Ty {
        let mut total = Some(0);
        for &item in items {
            let from = self.infer(item, None);
            total = total.zip(self.n_components(from)).map(|(a, b)| a + b);
        }
        let wanted = self.n_components(ty);
        if let [item] = *items
            && self.n_components(self.ty_of(item)) == Some(1)
            && wanted != Some(1)
        {
            // A single scalar fills all components.
            return self.construct_components(expr, ty, items);
        }
        if let (Some(total), Some(wanted)) = (total, wanted)
            && total < wanted
            && items.iter().all(|&i| self.n_components(self.ty_of(i)) == Some(1))
        {
            return self.aggregate(expr, ty, items);
        }
        self.construct_components(expr, ty, items)
    }

    /// `float3(v.xy, 1)` and the like.
    pub(crate) fn construct_components(&mut self, expr: ExprId, ty: Ty, args: &[ExprId]) -> Ty {
        let span = self.span(expr);
        if args.is_empty() {
            return self.default_value(expr, ty);
        }
        if let [arg] = *args
            && !self.is_list(arg)
        {
            let from = self.infer(arg, None);
            if self.p.handle_target(from).is_some() {
                return self.infer_cast(expr, ty, arg);
            }
        }
        let element = self.element_of(ty);
        let mut total = Some(0);
        let mut failed = false;
        for &arg in args {
            if self.is_list(arg) {
                // A brace list gives the whole value, or a row of a matrix.
                let part = match self.p.types[ty].clone() {
                    TyKind::Matrix(element, _, c, _) if args.len() > 1 => {
                        self.p.types.intern(TyKind::Vector(element, c, Comparison::Each))
                    }
                    _ => ty,
                };
                self.init_list(arg, part);
            } else {
                let from = self.infer(arg, None);
                let loaded = self.p.loaded(from);
                if loaded != from {
                    self.coerce(arg, loaded);
                }
            }
            let from = self.ty_of(arg);
            let from = self.p.loaded(from);
            if from == Ty::ERROR {
                failed = true;
                continue;
            }
            let component = match self.p.types[from] {
                TyKind::Array(inner, _) => self.element_of(inner),
                _ => self.element_of(from),
            };
            let source = Source { explicit: true, ..self.source_of(arg) };
            if self.p.conversion(component, element, source).is_none() {
                let message =
                    text!("a component of '{}' cannot be made from '{}'", self.name(ty), self.name(from));
                self.error("E30019", self.span(arg), message);
                failed = true;
            }
            total = total.zip(self.n_components(from)).map(|(a, b)| a + b);
        }
        if failed {
            return self.set_value(expr, ty, Meaning::Error);
        }
        let wanted = self.n_components(ty);
        if let [arg] = *args {
            let from = self.ty_of(arg);
            let from = self.p.loaded(from);
            let source = Source { explicit: true, ..self.source_of(arg) };
            let is_shape =
                matches!(self.p.types[from], TyKind::Vector(..) | TyKind::Matrix(..) | TyKind::Enum(_));
            if from == ty || is_shape && self.p.conversion(from, ty, source).is_some() {
                return self.set_value(expr, ty, Meaning::Cast(arg));
            }
            if !is_shape && !matches!(self.p.types[from], TyKind::Array(..)) {
                return self.set_value(expr, ty, Meaning::Construct(vec![arg]));
            }
        }
        if let (Some(total), Some(wanted)) = (total, wanted)
            && total != wanted
        {
            let message = text!("'{}' has {wanted} components, the arguments have {total}", self.name(ty));
            self.error("E39999", span, message);
            return self.set_value(expr, ty, Meaning::Error);
        }
        self.set_value(expr, ty, Meaning::Construct(args.to_vec()))
    }

    /// `(T)e` and `T(e)` for a single value.
    pub(crate) fn infer_cast(&mut self, expr: ExprId, ty: Ty, inner: ExprId) -> Ty {
        if self.is_list(inner) {
            self.init_list(inner, ty);
            return self.set_value(expr, ty, Meaning::Cast(inner));
        }
        let from = self.infer(inner, Some(ty));
        if ty == Ty::ERROR {
            return self.set_error(expr);
        }
        if from == Ty::ERROR {
            return self.set_value(expr, ty, Meaning::Error);
        }
        if ty == Ty::VOID {
            return self.set_value(expr, ty, Meaning::Cast(inner));
        }
        let info = &self.p.tables.exprs[inner];
        if info.lvalue && info.coerce.is_none() && info.ty == ty {
            // An expression that already has the type remains a place.
            return self.set(expr, ExprInfo::place(ty, Meaning::Same(inner)));
        }
        let source = Source { explicit: true, ..self.source_of(inner) };
        if self.p.conversion(from, ty, source).is_some() {
            let meaning = match (&self.p.types[from], &self.p.types[ty]) {
                // The same pointer, used otherwise.
                (TyKind::Pointer(a, ..), TyKind::Pointer(b, ..)) if a == b => Meaning::Same(inner),
                _ => Meaning::Cast(inner),
            };
            return self.set_value(expr, ty, meaning);
        }
        match self.p.types[ty].clone() {
            // `(T*)0`
            TyKind::Pointer(..) if self.p.int_literal(inner) == Some(0) => {
                self.set_value(expr, ty, Meaning::Aggregate(Initializer::Default(ty)))
            }
            // `(S)0`
            TyKind::Struct(..)
            | TyKind::Array(..)
            | TyKind::DiffPair(_)
            | TyKind::SynthDiff(_)
            | TyKind::Tuple(_)
                if self.p.int_literal(inner) == Some(0) && self.constructors(ty).is_empty() =>
            {
                self.set_value(expr, ty, Meaning::Aggregate(Initializer::Default(ty)))
            }
            kind if matches!(kind, TyKind::Struct(..)) || self.p.types.is_abstract(ty) => {
                if let Some((init, args)) = self.constructor_for(ty, &[inner], self.span(expr)) {
                    return self.set_value(expr, ty, Meaning::Init { init, args });
                }
                if self.p.int_literal(inner) == Some(0) {
                    return self.set_value(expr, ty, Meaning::Aggregate(Initializer::Default(ty)));
                }
                // Treat the expression as a list of one element.
                if self.constructors(ty).is_empty()
                    && let Some(&first) = self.p.parts_of(ty).as_deref().and_then(<[Ty]>::first)
                    && self.p.conversion(from, first, self.source_of(inner)).is_some()
                {
                    return self.aggregate(expr, ty, &[inner]);
                }
                // `(S)t` where the type of `t` is not known here and may turn out to be `S`.
                if self.p.types.is_abstract(from) || self.p.types.is_abstract(ty) {
                    return self.set_value(expr, ty, Meaning::Cast(inner));
                }
                self.cast_error(expr, from, ty)
            }
            // An extension may give a number's type an `__init`.
            _ => match self.constructor_for(ty, &[inner], self.span(expr)) {
                Some((init, args)) => self.set_value(expr, ty, Meaning::Init { init, args }),
                None => self.cast_error(expr, from, ty),
            },
        }
    }

    fn cast_error(&mut self, expr: ExprId, from: Ty, to: Ty) -> Ty {
        let message =
            text!("a value of type '{}' cannot be converted to '{}'", self.name(from), self.name(to));
        self.p.report(Diagnostic::error("E30019", self.span(expr), message));
        self.set(expr, ExprInfo { ty: to, ..ExprInfo::default() })
    }
}
