//! Infers a type and a meaning for each expression.
//!
//! [`Checker::infer`] finds the type of an expression by itself; [`Checker::coerce`] converts the expression
//! to the type that its context requires. Types are expressions too: an expression whose meaning is a type
//! denotes that type.

use syntax::ast::{DeclKind, ExprKind, SizeOfKind, UnaryOp};
use syntax::keywords as kw;
use syntax::{DeclId, Diagnostic, ExprId, Message, Span};

use crate::exprs::lambdas::Capture;
use crate::names::locals::Locals;
use crate::names::lookup::{Candidate, Ref};
use crate::program::Program;
use crate::tables::{Callable, ExprInfo, Meaning};
use crate::types::builtin::NativeGeneric;
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::limits::MAX_PARTS;
use crate::types::{Comparison, GenericArg, Scalar, Ty, TyKind, Val};

/// Expressions nested deeper than this are refused.
const MAX_DEPTH: u32 = 4000;

/// Checks the expressions and statements of one declaration.
pub(crate) struct Checker<'p> {
    pub(crate) p: &'p mut Program,
    /// The declaration in whose scope names are looked up.
    pub(crate) scope: DeclId,
    pub(crate) module: usize,
    /// Variables and types of the function's body that are in scope, outermost first.
    pub(crate) locals: Locals,
    /// The type of `this`, and true if `this` can be assigned to.
    pub(crate) this: Option<(Ty, bool)>,
    /// The return type of the function.
    pub(crate) ret: Option<Ty>,
    /// The code takes the address of something.
    pub(crate) takes_address: bool,
    /// The type of the errors that the function throws.
    pub(crate) throws: Option<Ty>,
    /// The level of each enclosing `do` with a `catch`, and the error types that it catches (`None`: any).
    pub(crate) catches: Vec<(u32, Vec<Option<Ty>>)>,
    /// The call that is the operand of the `try` being checked.
    pub(crate) tried: Option<ExprId>,
    pub(crate) n_loops: u32,
    pub(crate) n_switches: u32,
    pub(crate) depth: u32,
    /// The path of a `using` is being resolved.
    pub(crate) in_using: bool,
    /// Namespaces opened by `using` within the body.
    pub(crate) using: Vec<DeclId>,
    /// The captures of the lambda whose body is being checked.
    pub(crate) capture: Option<Capture>,
    /// The return type is inferred from the first `return`.
    pub(crate) infers_result: bool,
    /// The expressions that a lambda's body returns.
    pub(crate) returned: Vec<ExprId>,
    /// The packs that each enclosing `expand` names with `each`, outermost first.
    pub(crate) expanding: Vec<Vec<GenericArg>>,
    /// The expression that stands in for the arguments of an empty pack.
    pub(crate) placeholder: ExprId,
    /// The declaration whose members are not looked up: a type's bases are resolved without its members.
    pub(crate) outside_of: Option<DeclId>,
    /// The parts of the place that is being assigned to, which are not read.
    pub(crate) targets: Vec<ExprId>,
}

impl<'p> Checker<'p> {
    /// A checker for code that is written at a declaration.
    pub(crate) fn new(p: &'p mut Program, scope: DeclId) -> Checker<'p> {
        let module = p.module_of(scope);
        Checker {
            p,
            scope,
            module,
            locals: Locals::default(),
            this: None,
            ret: None,
            takes_address: false,
            throws: None,
            catches: Vec::new(),
            tried: None,
            n_loops: 0,
            n_switches: 0,
            depth: 0,
            in_using: false,
            using: Vec::new(),
            capture: None,
            infers_result: false,
            returned: Vec::new(),
            expanding: Vec::new(),
            placeholder: <ExprId as cranelift_entity::EntityRef>::new(0),
            outside_of: None,
            targets: Vec::new(),
        }
    }

    /// A checker for parts of a declaration that cannot depend on its members: bases, constraints.
    pub(crate) fn outside(p: &'p mut Program, scope: DeclId) -> Checker<'p> {
        let mut checker = Checker::new(p, scope);
        checker.outside_of = Some(scope);
        checker
    }

    /// Returns true in a constructor, where `return` without a value is allowed.
    pub(crate) fn is_init(&self) -> bool {
        matches!(self.p.ast.decls[self.scope].kind, DeclKind::Init { .. })
    }

    pub(crate) fn span(&self, expr: ExprId) -> Span {
        self.p.span(expr)
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<syntax::Message>) {
        self.p.error(code, span, message);
    }

    pub(crate) fn unsupported(&mut self, span: Span, what: &str) {
        self.error("E0900", span, format!("{what} not supported yet"));
    }

    pub(crate) fn unsupported_type(&mut self, name: syntax::Symbol, span: Span) {
        self.unsupported(span, &format!("the type '{}' is", self.p.ast.name(name)));
    }

    pub(crate) fn name(&self, ty: Ty) -> Message {
        self.p.shown(ty)
    }

    pub(crate) fn ty_of(&self, expr: ExprId) -> Ty {
        self.p.tables.exprs[expr].ty
    }

    /// The type as which a value is used: what a handle names, else its own.
    pub(crate) fn seen(&self, expr: ExprId) -> Ty {
        let info = &self.p.tables.exprs[expr];
        info.coerce.filter(|_| self.p.handle_target(info.ty).is_some()).unwrap_or(info.ty)
    }

    pub(crate) fn set(&mut self, expr: ExprId, mut info: ExprInfo) -> Ty {
        if !matches!(info.meaning, Meaning::Type(_)) {
            info.ty = self.p.types.of_value(info.ty);
        }
        let ty = info.ty;
        if self.p.extent(ty).parts > MAX_PARTS {
            self.error("E0901", self.span(expr), "the type of this has more than 8,192 parts");
            self.p.tables.exprs[expr] = ExprInfo::default();
            return Ty::ERROR;
        }
        self.p.tables.exprs[expr] = info;
        ty
    }

    pub(crate) fn set_value(&mut self, expr: ExprId, ty: Ty, meaning: Meaning) -> Ty {
        self.set(expr, ExprInfo::value(ty, meaning))
    }

    pub(crate) fn set_error(&mut self, expr: ExprId) -> Ty {
        self.set(expr, ExprInfo::default())
    }

    /// Records that an expression denotes a type.
    pub(crate) fn set_type(&mut self, expr: ExprId, ty: Ty) -> Ty {
        self.set_value(expr, ty, if ty == Ty::ERROR { Meaning::Error } else { Meaning::Type(ty) })
    }

    /// Reports an error in an expression.
    pub(crate) fn fail(&mut self, expr: ExprId, code: &'static str, message: impl Into<Message>) -> Ty {
        self.fail_as(expr, Ty::ERROR, code, message)
    }

    /// Reports an error in an expression whose type is known nevertheless.
    pub(crate) fn fail_as(
        &mut self,
        expr: ExprId,
        ty: Ty,
        code: &'static str,
        message: impl Into<Message>,
    ) -> Ty {
        self.error_in(expr, code, message);
        self.set_value(expr, ty, Meaning::Error)
    }

    /// Reports an error at an expression.
    pub(crate) fn error_in(&mut self, expr: ExprId, code: &'static str, message: impl Into<Message>) {
        self.error(code, self.span(expr), message);
    }

    /// Runs a search whose diagnostics are of no interest if it finds nothing.
    pub(crate) fn attempt<T>(&mut self, search: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.p.diagnostics.len();
        let found = search(self);
        if found.is_none() {
            self.p.diagnostics.truncate(before);
        }
        found
    }

    // ---- expressions

    /// Infers an expression that has to be a value.
    pub(crate) fn infer(&mut self, expr: ExprId, expected: Option<Ty>) -> Ty {
        let ty = self.infer_any(expr, expected);
        match self.p.tables.exprs[expr].meaning {
            Meaning::Type(_) => {
                self.fail(expr, "E30060", text!("expected a value, found the type '{}'", self.name(ty)))
            }
            Meaning::Func { .. } => {
                if let Some(ty) = self.function_value(expr) {
                    return ty;
                }
                let span = self.span(expr);
                let error = Diagnostic::error("E30060", span, "expected a value, found a function");
                self.p.report(error.help("call it: add its arguments in parentheses"));
                self.set_error(expr)
            }
            Meaning::Namespace(_) => self.fail(expr, "E30060", "expected a value, found a namespace"),
            _ => ty,
        }
    }

    /// Infers an expression that may denote a type. `expected` is a hint for brace lists.
    pub(crate) fn infer_any(&mut self, expr: ExprId, expected: Option<Ty>) -> Ty {
        if self.makes_lambda(expr) {
            // Its struct exists already.
            return self.ty_of(expr);
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.error("E0901", self.span(expr), "this expression is nested too deeply");
            self.depth -= 1;
            return self.set_error(expr);
        }
        let ty = self.infer_kind(expr, expected);
        self.depth -= 1;
        ty
    }

    fn infer_kind(&mut self, expr: ExprId, expected: Option<Ty>) -> Ty {
        let span = self.span(expr);
        match self.p.ast.exprs[expr].kind.clone() {
            ExprKind::Int { suffix, .. } => {
                let ty = int_literal_type(self.p.ast.name(suffix));
                let ty = self.p.types.scalar(ty);
                self.set_value(expr, ty, Meaning::Literal)
            }
            ExprKind::Float { suffix, .. } => {
                let ty = match self.p.ast.name(suffix) {
                    "h" | "hf" => Ty::HALF,
                    "l" | "lf" => Ty::DOUBLE,
                    _ => Ty::FLOAT,
                };
                self.set_value(expr, ty, Meaning::Literal)
            }
            ExprKind::Bool(_) => self.set_value(expr, Ty::BOOL, Meaning::Literal),
            ExprKind::String(_) => self.set_value(expr, Ty::STRING, Meaning::Literal),
            ExprKind::NullPtr => self.set_value(expr, Ty::NULLPTR, Meaning::Literal),
            ExprKind::None => self.set_value(expr, Ty::NONE, Meaning::Literal),
            ExprKind::Name(_)
            | ExprKind::OperatorName(_)
            | ExprKind::GlobalName(_)
            | ExprKind::Member { .. }
            | ExprKind::Static { .. }
            | ExprKind::Generic { .. }
            | ExprKind::Derivative(..) => self.infer_path(expr),
            ExprKind::This => {
                let info = match self.capture {
                    Some(_) => self.captured_this(),
                    None => self.this.map(|(ty, lvalue)| ExprInfo::new(ty, Meaning::This, lvalue)),
                };
                match info {
                    Some(info) => self.set(expr, info),
                    None => self.fail(expr, "E38101", "'this' is only known inside methods"),
                }
            }
            ExprKind::ThisType => {
                if let Some(ty) = self.parameter_this() {
                    return self.set_type(expr, ty);
                }
                let ty = self.this_type();
                if ty == Ty::ERROR {
                    self.error("E30015", span, "'This' is only known inside a type");
                }
                self.set_type(expr, ty)
            }
            ExprKind::Index { base, args } => self.infer_index(expr, base, &args),
            ExprKind::Call { callee, args } => self.infer_call(expr, callee, &args, expected),
            ExprKind::Unary(UnaryOp::PreInc | UnaryOp::PreDec, inner) => self.infer_inc_dec(expr, inner),
            ExprKind::Unary(op, inner) => self.infer_unary(expr, op, inner),
            ExprKind::Postfix(_, inner) => self.infer_inc_dec(expr, inner),
            ExprKind::Binary(..) => self.infer_binary_chain(expr),
            ExprKind::Assign(op, target, value) => self.infer_assign(expr, op, target, value),
            ExprKind::Ternary(cond, a, b) => self.infer_ternary(expr, cond, a, b, expected),
            ExprKind::Cast(ty, inner) | ExprKind::TypedList(ty, inner) => {
                let ty = self.type_expr(ty);
                self.infer_cast(expr, ty, inner)
            }
            ExprKind::Paren(inner) => {
                self.infer_any(inner, expected);
                let info = self.p.tables.exprs[inner].clone();
                let meaning = match info.meaning {
                    Meaning::Type(_) | Meaning::Error | Meaning::Func { .. } => info.meaning,
                    _ => Meaning::Same(inner),
                };
                let (ty, lvalue) = (info.coerce.unwrap_or(info.ty), info.lvalue);
                self.set(expr, ExprInfo::new(ty, meaning, lvalue))
            }
            ExprKind::InitList(_) => match expected {
                Some(ty) => self.init_list(expr, ty),
                None => self.fail(expr, "E39999", "the type of this brace list is not known here"),
            },
            ExprKind::NoDiff(inner) => {
                self.infer_any(inner, expected);
                let info = self.p.tables.exprs[inner].clone();
                if let Meaning::Type(ty) = info.meaning {
                    return self.set_type(expr, ty);
                }
                if !self.may_be_no_diff(inner) {
                    self.error("E38031", span, "'no_diff' can only be used with a call or a subscript");
                } else {
                    self.p.check_no_diff(self.scope, span);
                }
                self.set_value(expr, info.ty, Meaning::NoDiff(inner))
            }
            // It was checked before the statement that contains it.
            ExprKind::Try(_) => {
                self.p.tables.exprs[expr].coerce = None;
                self.ty_of(expr)
            }
            ExprKind::Is(value, ty) | ExprKind::As(value, ty) => {
                let cast = matches!(self.p.ast.exprs[expr].kind, ExprKind::As(..));
                self.infer_any(value, None);
                if let (Meaning::Type(subject), false) = (&self.p.tables.exprs[value].meaning, cast) {
                    let subject = *subject;
                    let ty = self.type_expr(ty);
                    return self.set_value(expr, Ty::BOOL, Meaning::TypeIs(subject, ty));
                }
                self.infer(value, None);
                let ty = self.type_expr(ty);
                let result = if cast { self.p.types.intern(TyKind::Optional(ty)) } else { Ty::BOOL };
                self.set_value(expr, result, Meaning::TypeTest { value, ty, cast })
            }
            ExprKind::SizeOf(kind, inner, layout) => {
                self.infer_any(inner, None);
                let mut ty = self.p.tables.exprs[inner].ty;
                if let Some(named) = layout {
                    let layout = self.type_expr(named);
                    if !self.is_layout(layout, self.span(named)) {
                        return self.set_error(expr);
                    }
                    ty = self.p.laid(ty, layout);
                }
                let result = if kind == SizeOfKind::CountOf { Ty::INT } else { Ty::UINT };
                let pack = match self.p.tables.exprs[inner].meaning.clone() {
                    Meaning::Value(val) if self.p.is_val_pack(&val) => Some(GenericArg::Val(val)),
                    _ => self.p.is_pack(ty).then_some(GenericArg::Type(ty)),
                };
                if let Some(pack) = pack.filter(|_| kind == SizeOfKind::CountOf) {
                    let count = self.p.count_of(&pack);
                    return self.set_value(expr, Ty::INT, Meaning::Value(count));
                }
                let meaning = match self.p.measure(kind, ty) {
                    Some(value) => Meaning::Const(value as f64),
                    // The size is known once the parameters are: `lower` measures the operand's type.
                    None => Meaning::SizeOf(kind, ty),
                };
                self.set_value(expr, result, meaning)
            }
            ExprKind::Expand(inner) => self.infer_expand(expr, inner),
            ExprKind::Each(inner) => self.infer_each(expr, inner),
            ExprKind::Shape(op, ref parts) => {
                let parts = parts.clone();
                self.infer_shape(expr, op, &parts)
            }
            ExprKind::PackPart(part, inner) => self.infer_pack_part(expr, part, inner),
            ExprKind::PackBranch(parts) => self.infer_pack_branch(expr, parts),
            ExprKind::Pointer(inner) => {
                let ty = self.type_expr(inner);
                let ty = self.p.types.intern(TyKind::pointer(ty));
                self.set_type(expr, ty)
            }
            ExprKind::Modified(modifiers, inner) => {
                let ty = self.type_expr(inner);
                let ty = self.p.ordered(modifiers, ty, span);
                self.set_type(expr, ty)
            }
            ExprKind::Lambda(func) => self.infer_lambda(expr, func),
            ExprKind::FuncType(params, result) => self.infer_function_type(expr, &params, result),
            ExprKind::Opaque(word) => {
                self.unsupported(span, &format!("'{}' is", self.p.ast.name(word)));
                self.set_error(expr)
            }
            ExprKind::Error => self.set_error(expr),
        }
    }

    /// Reports a type that names no data layout.
    pub(crate) fn is_layout(&mut self, layout: Ty, span: Span) -> bool {
        let is_layout = layout == Ty::ERROR
            || match self.p.types.is_abstract(layout) {
                true => self.p.is_bound_by_layouts(layout),
                false => self.p.data_layout(layout).is_some(),
            };
        if !is_layout {
            let message = text!("'{}' is not a data layout", self.name(layout));
            let help = "the data layouts are 'DefaultDataLayout', 'CDataLayout', 'ScalarDataLayout', \
                        'Std430DataLayout' and 'Std140DataLayout'";
            self.p.report(Diagnostic::error("E30075", span, message).help(help));
        }
        is_layout
    }

    /// The type that `This` denotes here.
    pub(crate) fn this_type(&mut self) -> Ty {
        let is_type = |d: &DeclId| {
            let kind = &self.p.ast.decls[*d].kind;
            matches!(kind, DeclKind::Struct { .. } | DeclKind::Interface { .. } | DeclKind::Extension { .. })
                && self.p.ast.decl_name(*d) != "$lambda"
        };
        let found = self.p.ast.enclosing(self.scope).find(is_type);
        found.map_or(Ty::ERROR, |decl| self.p.self_type(decl))
    }

    /// The generic parameter that is named `This`, which the word means wherever the parameter is known.
    fn parameter_this(&mut self) -> Option<Ty> {
        let param = {
            let ast = &self.p.ast;
            let is_this = |&param: &DeclId| ast.decls[param].name == kw::THIS_TYPE;
            let mut generics = ast.enclosing(self.scope).filter_map(|d| ast.decls[d].generics.as_ref());
            generics.find_map(|generics| generics.params.iter().copied().find(is_this))?
        };
        (!self.p.is_value_param(param)).then(|| self.p.param_type(param))
    }

    fn infer_path(&mut self, expr: ExprId) -> Ty {
        let found = match self.resolve(expr) {
            Ref::Native(NativeGeneric::Unsupported(name)) => {
                self.unsupported_type(name, self.span(expr));
                Ref::Error
            }
            found => self.completed(expr, found),
        };
        match found {
            Ref::Value(info) => {
                // Naming a type's field without a value makes no sense outside of attributes.
                self.check_receiver(expr, &info);
                self.set(expr, info)
            }
            Ref::Type(ty) => self.set_type(expr, ty),
            Ref::Namespace(decl) => self.set_value(expr, Ty::ERROR, Meaning::Namespace(decl)),
            Ref::Funcs(funcs, base) => {
                let candidate = &funcs[0];
                let callable = self.callable_of(candidate);
                let args = self.p.identity_args(candidate.decl);
                let ty = self.p.types.intern(TyKind::Function(candidate.decl, args));
                self.set_value(expr, ty, Meaning::Func { func: callable, base })
            }
            Ref::NotFound => {
                self.not_found(expr);
                self.set_error(expr)
            }
            Ref::Native(_) | Ref::Generic(..) | Ref::Error => self.set_error(expr),
        }
    }

    /// Reports a member that is named without a receiver where there is no `this`.
    pub(crate) fn check_receiver(&mut self, expr: ExprId, info: &ExprInfo) {
        let implicit = matches!(info.meaning, Meaning::Field { base: None, .. });
        if implicit && self.this.is_none() && matches!(self.p.ast.exprs[expr].kind, ExprKind::Name(_)) {
            self.error_in(expr, "E30015", "this field needs a value of its type: there is no 'this' here");
        } else if implicit && !matches!(self.p.ast.exprs[expr].kind, ExprKind::Name(_)) {
            self.error_in(expr, "E30100", "this field is not static: it needs a value of its type");
        } else if self.this_is_pair()
            && let (
                Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. },
                ExprKind::Name(name),
            ) = (&info.meaning, &self.p.ast.exprs[expr].kind)
        {
            self.half_is_missing(*name, self.span(expr));
        }
    }

    fn may_be_no_diff(&self, expr: ExprId) -> bool {
        match &self.p.ast.exprs[expr].kind {
            ExprKind::Paren(inner) => self.may_be_no_diff(*inner),
            ExprKind::Call { .. } | ExprKind::Index { .. } | ExprKind::Error => true,
            // Accessing a property is a call too.
            _ => matches!(
                self.p.tables.exprs[expr].meaning,
                Meaning::Error | Meaning::Property { .. } | Meaning::Call { .. }
            ),
        }
    }

    fn infer_index(&mut self, expr: ExprId, base: ExprId, args: &[ExprId]) -> Ty {
        let span = self.span(expr);
        self.infer_any(base, None);
        let info = self.p.tables.exprs[base].clone();
        if let Meaning::Type(element) = info.meaning {
            let n = match args {
                [] => None,
                [n] => {
                    self.infer(*n, None);
                    Some(self.val_of(*n))
                }
                _ => {
                    self.error("E30025", span, "an array type has one length");
                    Some(Val::Error)
                }
            };
            let ty = self.array_of(element, n, span);
            return self.set_type(expr, ty);
        }
        if matches!(info.meaning, Meaning::Error) {
            args.iter().for_each(|&arg| _ = self.infer(arg, None));
            return self.set_error(expr);
        }
        if matches!(info.meaning, Meaning::Func { .. } | Meaning::Namespace(_)) {
            return self.fail(expr, "E30013", "this cannot be subscripted");
        }
        let mut ty = info.ty;
        if self.p.types_deref(ty) {
            let content = self.p.loaded(ty);
            self.p.tables.exprs[base].coerce = Some(content);
            ty = content;
        }
        if let Some(target) = self.p.handle_target(ty) {
            self.p.tables.exprs[base].coerce = Some(target);
            ty = target;
        }
        let element = match self.p.types[ty].clone() {
            TyKind::Array(element, _) | TyKind::Vector(element, _, _) => Some((element, info.lvalue)),
            TyKind::Matrix(element, _, columns, _) => {
                Some((self.p.types.intern(TyKind::Vector(element, columns, Comparison::Each)), info.lvalue))
            }
            TyKind::Buffer(kind, element) => {
                Some((element, kind == crate::types::BufferKind::RWStructuredBuffer))
            }
            TyKind::Pointer(element, ..) => Some((element, self.p.is_writing_pointer(ty))),
            _ => None,
        };
        if let Some((element, lvalue)) = element {
            let [index] = args else {
                return self.fail(expr, "E30013", "exactly one index is needed here");
            };
            self.index_value(*index);
            if let (TyKind::Array(_, Some(Val::Int(n))) | TyKind::Vector(_, Val::Int(n), _), Some(at)) =
                (&self.p.types[ty], self.p.int_literal(*index))
                && (at < 0 || at >= i128::from(*n))
            {
                let message = match n {
                    1 => format!("index {at} is out of bounds: there is 1 element"),
                    n => format!("index {at} is out of bounds: there are {n} elements"),
                };
                if matches!(self.p.types[ty], TyKind::Vector(_, Val::Int(1), _)) {
                    // A vector with one component is the component, whatever the index.
                    let span = self.span(*index);
                    self.p.report(Diagnostic::warning("E30029", span, message));
                } else {
                    self.error_in(*index, "E30029", message);
                }
            }
            let meaning = Meaning::Index { base, index: *index };
            return self.set(expr, ExprInfo::new(element, meaning, lvalue));
        }
        self.infer_subscript(expr, base, args)
    }

    /// Infers an index, which has to be an integer (or a bool or enumeration, which convert to `int`).
    fn index_value(&mut self, index: ExprId) {
        let ty = self.infer(index, None);
        let is_int = ty == Ty::ERROR || matches!(self.p.types[ty], TyKind::Scalar(scalar) if scalar.is_int());
        if !is_int {
            let is_vector =
                matches!(self.p.types[ty], TyKind::Vector(_, Val::Int(2..), _) | TyKind::Matrix(..));
            let float = self.p.has_operators(ty) && self.p.may_be_float(ty);
            if float || is_vector {
                let message = text!("an index has to be an integer, got '{}'", self.name(ty));
                let is_vector = matches!(self.p.types[ty], TyKind::Vector(..));
                let help = is_vector.then_some("take a component of it: '.x'");
                self.p.report(Diagnostic::error("E30019", self.span(index), message).help_if(help));
            } else if matches!(self.p.types[ty], TyKind::Vector(..) | TyKind::Scalar(_) | TyKind::Enum(_))
                // Other types with operators are type parameters bounded to be integers.
                || !self.p.has_operators(ty)
            {
                self.coerce(index, Ty::INT);
            }
        }
    }

    // ---- conversion

    /// Checks an expression against the type that its context requires.
    pub(crate) fn check(&mut self, expr: ExprId, to: Ty) {
        if self.is_list(expr) {
            self.init_list(expr, to);
            return;
        }
        self.infer(expr, Some(to));
        if self.coerce(expr, to) {
            self.check_enum_conversion(expr);
        }
    }

    /// Reports an enumeration that becomes an integer of another type than its own.
    fn check_enum_conversion(&mut self, expr: ExprId) {
        let info = &self.p.tables.exprs[expr];
        let (from, Some(to)) = (info.ty, info.coerce) else { return };
        let (TyKind::Enum(decl), TyKind::Scalar(scalar)) = (&self.p.types[from], &self.p.types[to]) else {
            return;
        };
        let (decl, is_bool) = (*decl, *scalar == Scalar::Bool);
        if self.p.is_core(self.scope) || is_bool || self.p.enum_tag(decl) == to {
            return;
        }
        let message = text!("expected an expression of type '{}', got '{}'", self.name(to), self.name(from));
        let help = text!("convert it explicitly: '{}(…)'", self.name(to));
        self.p.report(Diagnostic::error("E30019", self.span(expr), message).help(help));
    }

    /// Converts an expression that has already been inferred.
    pub(crate) fn coerce(&mut self, expr: ExprId, to: Ty) -> bool {
        let (from, to) = (self.ty_of(expr), self.p.types.of_value(to));
        if from == to || from == Ty::ERROR || to == Ty::ERROR {
            return true;
        }
        let source = self.source_of(expr);
        if self.p.conversion(from, to, source).is_some() {
            self.p.tables.exprs[expr].coerce = Some(to);
            return true;
        }
        let message = text!("expected an expression of type '{}', got '{}'", self.name(to), self.name(from));
        let explicit = self.p.conversion(from, to, Source { explicit: true, ..source });
        let help = explicit.map(|_| text!("convert it explicitly: '({})…'", self.name(to)));
        self.p.report(Diagnostic::error("E30019", self.span(expr), message).help_if(help));
        false
    }

    pub(crate) fn callable_of(&mut self, candidate: &Candidate) -> Callable {
        let func = self.p.func_ref(candidate.decl, &candidate.env, candidate.self_ty);
        Callable::of(func, &candidate.ops, self.p.asking_module(self.module))
    }

    /// Returns true for a brace list.
    pub(crate) fn is_list(&self, expr: ExprId) -> bool {
        matches!(self.p.ast.exprs[expr].kind, ExprKind::InitList(_))
    }
}

/// The type denoted by a literal's suffix; the parser has chosen the suffix by the value.
fn int_literal_type(suffix: &str) -> Scalar {
    match suffix {
        "" => Scalar::Int,
        "u" => Scalar::UInt,
        "ll" => Scalar::Int64,
        _ => Scalar::UInt64,
    }
}
