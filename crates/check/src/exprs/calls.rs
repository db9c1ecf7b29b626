//! Checks calls of functions, of methods and of the few functions that are native to the language.
//! [`crate::exprs::construct`] handles calls that construct a value of a type.

use syntax::ast::{DeclKind, ExprKind};
use syntax::{DeclId, ExprId, keywords as kw};

use crate::exprs::infer::Checker;
use crate::exprs::overload::{Argument, Chosen};
use crate::names::lookup::{Base, Candidate, Ref};
use crate::program::Program;
use crate::tables::{Arg, Callable, ExprInfo, Meaning};
use crate::types::builtin::NativeGeneric;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind, Val};

impl Program {
    /// Returns true for the library's `static_assert`.
    pub fn is_static_assert(&self, decl: DeclId) -> bool {
        self.is_core(decl) && self.ast.decl_name(decl) == "static_assert"
    }

    /// The type that is read where a value of this type is used: for a constant buffer, its content, or what that
    /// stands for in its turn.
    pub(crate) fn loaded(&self, mut ty: Ty) -> Ty {
        while let TyKind::Buffer(_, content) = self.types[ty]
            && self.types_deref(ty)
        {
            ty = self.types.bare(content);
        }
        ty
    }
}

impl Checker<'_> {
    /// Infers a call.
    pub(crate) fn infer_call(
        &mut self,
        expr: ExprId,
        callee: ExprId,
        args: &[ExprId],
        expected: Option<Ty>,
    ) -> Ty {
        if let ExprKind::Generic { base, args: generic } = self.p.ast.exprs[callee].kind.clone()
            && let Some(native) = self.native_function(base)
        {
            let ty = self.native_generic(native, &generic, self.span(callee));
            return self.construct(expr, ty, args);
        }
        if let Some(dispatch) = self.dispatch_of(callee) {
            return self.infer_dispatch(expr, dispatch, args);
        }
        match self.resolve(callee) {
            Ref::Funcs(candidates, base) => self.call_functions(expr, callee, &candidates, base, args),
            Ref::Type(ty) => {
                self.set_type(callee, ty);
                self.construct(expr, ty, args)
            }
            Ref::Native(NativeGeneric::Tuple) => self.make_tuple(expr, args),
            Ref::Native(NativeGeneric::Pair) => self.diff_pair(expr, args, expected),
            Ref::Native(NativeGeneric::Unsupported(name)) => {
                self.unsupported_type(name, self.span(expr));
                self.skip_args(args);
                self.set_error(expr)
            }
            Ref::Native(native) => match self.p.native_default(native) {
                Some(ty) => self.construct(expr, ty, args),
                None => self.fail_call(expr, args, "E30075", "generic arguments are missing"),
            },
            Ref::Generic(decl, outer) => self.construct_generic(expr, decl, &outer, args),
            // `pair.p()` and `pair.d()` denote the halves too.
            Ref::Value(info) if args.is_empty() && matches!(info.meaning, Meaning::PairField { .. }) => {
                let ty = self.set(callee, info);
                self.set_value(expr, ty, Meaning::Same(callee))
            }
            Ref::Value(info) => {
                let ty = self.set(callee, info);
                self.call_value(expr, callee, ty, args)
            }
            Ref::Namespace(_) => self.fail_call(expr, args, "E39999", "a namespace cannot be called"),
            Ref::NotFound => {
                if let Some(native) = self.native_function(callee) {
                    return match native {
                        NativeGeneric::Pair => self.diff_pair(expr, args, expected),
                        _ => self.make_tuple(expr, args),
                    };
                }
                if args.is_empty()
                    && let Some(base) = self.used_value(callee)
                {
                    let ty = self.ty_of(base);
                    self.set_value(callee, ty, Meaning::Same(base));
                    return self.set_value(expr, ty, Meaning::Same(base));
                }
                self.not_found(callee);
                self.fail_call_of(expr, callee, args)
            }
            Ref::Error => self.fail_call_of(expr, callee, args),
        }
    }

    /// Makes a call an error that has been reported.
    fn fail_call_of(&mut self, expr: ExprId, callee: ExprId, args: &[ExprId]) -> Ty {
        self.set_error(callee);
        self.skip_args(args);
        self.set_error(expr)
    }

    /// The type whose values are made by a function that the language knows by name.
    pub(crate) fn native_function(&mut self, callee: ExprId) -> Option<NativeGeneric> {
        let ExprKind::Name(name) = self.p.ast.exprs[callee].kind else { return None };
        let native = match self.p.ast.name(name) {
            "diffPair" => NativeGeneric::Pair,
            "makeTuple" => NativeGeneric::Tuple,
            _ => return None,
        };
        matches!(self.lookup(name), Ref::NotFound).then_some(native)
    }

    /// Reports an error in a call.
    fn fail_call(
        &mut self,
        expr: ExprId,
        args: &[ExprId],
        code: &'static str,
        message: impl Into<syntax::Message>,
    ) -> Ty {
        self.skip_args(args);
        self.fail(expr, code, message)
    }

    /// Infers the arguments of a call that cannot be checked.
    pub(crate) fn skip_args(&mut self, args: &[ExprId]) {
        for &arg in args.iter() {
            if !self.is_list(arg) {
                self.infer(arg, None);
            }
        }
    }

    fn call_functions(
        &mut self,
        expr: ExprId,
        callee: ExprId,
        candidates: &[Candidate],
        base: Option<ExprId>,
        args: &[ExprId],
    ) -> Ty {
        let arguments = self.arguments(args);
        let Some(chosen) = self.choose(candidates, &arguments, self.span(expr)) else {
            // The type of the result is known nevertheless if there is only one candidate and it is not
            // generic.
            let ty = match candidates {
                [only] if !self.p.is_generic(only.decl) => {
                    let callable = self.callable_of(only);
                    self.p.callable_signature(&callable).ret
                }
                _ => Ty::ERROR,
            };
            self.set_error(callee);
            return self.set_value(expr, ty, Meaning::Error);
        };
        let callee_span = self.span(callee);
        if !self.check_operators(&chosen, callee_span) {
            self.fit_arguments(&chosen, &arguments);
            self.set_error(callee);
            return self.set_value(expr, chosen.signature.ret, Meaning::Error);
        }
        let is_static = self.p.is_static(chosen.decl);
        let plain = matches!(chosen.callable, Callable::Func(_));
        if plain && self.p.is_deriv_method(chosen.decl) {
            self.refuse_deriv_method(chosen.decl, callee_span);
        } else if plain && !is_static {
            self.check_this(&chosen, base, callee);
        }
        let args = self.fit_arguments(&chosen, &arguments);
        if self.p.is_static_assert(chosen.decl)
            && let Some(Arg::Expr(cond)) = args.first()
        {
            self.static_assert(*cond);
        }
        if self.p.is_core(chosen.decl)
            && !self.p.is_core(self.scope)
            && self.p.ast.decl_name(chosen.decl) == "__floatAsInt"
            && let Some(Arg::Expr(value)) = args.first()
        {
            self.check_bits_of_constant(*value, callee_span);
        }
        self.check_tried(expr, &chosen.callable);
        if let Callable::Func(func) = &chosen.callable {
            self.note_instance(func, self.p.span(expr));
        }
        let ty = chosen.signature.ret;
        // The value selects the implementation of a static requirement if its type is only known at run time.
        let base =
            if is_static && self.p.is_requirement(chosen.decl) || plain && !is_static { base } else { None };
        let func_ty = self.p.types.intern(TyKind::Function(chosen.decl, Vec::new()));
        self.set_value(callee, func_ty, Meaning::Func { func: chosen.callable.clone(), base });
        let is_place = plain && self.p.gives_written_place(chosen.decl);
        let ty = self.set_value(expr, ty, Meaning::Call { func: chosen.callable, base, args });
        self.p.tables.exprs[expr].lvalue = is_place;
        ty
    }

    /// Reports an operand of `__floatAsInt` that is not a constant of a floating-point type.
    fn check_bits_of_constant(&mut self, value: ExprId, span: syntax::Span) {
        let ty = self.ty_of(value);
        if !matches!(self.p.types[ty], TyKind::Scalar(scalar) if scalar.is_float()) {
            let message =
                text!("'__floatAsInt' takes a 'half', 'float' or 'double', got '{}'", self.name(ty));
            self.error("E30084", span, message);
        } else if !self.is_constant_number(value) {
            let message = "'__floatAsInt' takes a number that is known at compile time";
            let error = syntax::Diagnostic::error("E30085", span, message);
            self.p.report(error.help("'asuint' takes any number"));
        }
    }

    /// Returns true if a number is known at compile time.
    fn is_constant_number(&self, expr: ExprId) -> bool {
        match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Literal
            | Meaning::Const(_)
            | Meaning::Value(_)
            | Meaning::SizeOf(..)
            | Meaning::EnumCase(_) => true,
            Meaning::Same(inner) | Meaning::Cast(inner) | Meaning::Unary(_, inner) => {
                self.is_constant_number(inner)
            }
            Meaning::Binary(_, a, b) => self.is_constant_number(a) && self.is_constant_number(b),
            Meaning::Construct(parts) => parts.into_iter().all(|part| self.is_constant_number(part)),
            Meaning::Var(decl) => self.p.is_constant(decl),
            Meaning::StaticMember(member) => self.p.is_constant(member.decl),
            _ => false,
        }
    }

    /// Checks a static assertion if its condition is known; `lower` checks conditions that depend on
    /// parameters, and those that no instance of a generic function may reach.
    fn static_assert(&mut self, cond: ExprId) {
        let span = self.span(cond);
        let is_interface = |d: DeclId| matches!(self.p.ast.decls[d].kind, DeclKind::Interface { .. });
        let is_instantiated = !self.p.all_generic_params(self.scope).is_empty()
            || self.p.container_of(self.scope).is_some_and(is_interface);
        match self.p.constant(cond, 0) {
            Some(Val::Int(0)) if is_instantiated => {}
            Some(Val::Int(0)) => self.error("E41400", span, "this static assertion does not hold"),
            None if self.p.all_generic_params(self.scope).is_empty() && self.ty_of(cond) != Ty::ERROR => {
                let message = "a static assertion needs a condition that is known at compile time";
                self.error("E41402", span, message);
            }
            _ => {}
        }
    }

    /// Checks that the receiver of a method exists, and that it is a place if the method modifies it.
    fn check_this(&mut self, chosen: &Chosen, base: Option<ExprId>, callee: ExprId) {
        let mutating = chosen.signature.is_mutating();
        let span = self.span(callee);
        match base {
            Some(base) => {
                let self_ty = chosen.signature.this.as_ref().map_or(Ty::ERROR, |t| t.ty);
                let from = self.ty_of(base);
                let is_seen_through = self.p.types_deref(from) || self.p.handle_target(from).is_some();
                if self_ty != from && self_ty != Ty::ERROR && !is_seen_through {
                    self.p.tables.exprs[base].coerce = Some(self_ty);
                }
                // The content of a constant buffer cannot be changed.
                let lvalue = match self.p.types[from] {
                    TyKind::Buffer(..) => !self.p.types_deref(from),
                    TyKind::Pointer(..) => self.p.is_writing_pointer(from),
                    _ => self.p.tables.exprs[base].lvalue,
                };
                if mutating && !lvalue {
                    let message = "a method that changes its object needs one that can be assigned to";
                    let error = syntax::Diagnostic::error("E30050", span, message);
                    let pointer = matches!(self.p.types[from], TyKind::Pointer(..));
                    let help = if pointer { self.only_read_through(from) } else { self.only_read(base) };
                    let help = help.unwrap_or_else(|| "copy the object into a variable first".to_string());
                    self.p.report(error.help(help));
                }
            }
            None => match (&self.p.ast.exprs[callee].kind, self.this) {
                (ExprKind::Name(_), None) => {
                    self.error("E30100", span, "this method needs an object: there is no 'this' here");
                }
                (ExprKind::Name(_) | ExprKind::Generic { .. } | ExprKind::OperatorName(_), Some(this)) => {
                    let message =
                        "a method that changes 'this' can only be called from one marked '[mutating]'";
                    if self.this_is_pair() {
                        self.half_is_missing(self.p.ast.decls[chosen.decl].name, span);
                    } else if mutating && !this.1 {
                        self.error("E30050", span, message);
                    }
                }
                _ => self.error("E30100", span, "this method needs an object: it is not static"),
            },
        }
    }

    /// Converts the arguments of a call to the parameters of the chosen function.
    pub(crate) fn fit_arguments(&mut self, chosen: &Chosen, arguments: &[Argument]) -> Vec<Arg> {
        let object = chosen.object.map(|object| self.bind_object(object, &chosen.callable));
        let arguments = &object.into_iter().chain(arguments.iter().copied()).collect::<Vec<_>>()[..];
        let mut out = Vec::new();
        for (idx, param) in chosen.signature.params.iter().enumerate() {
            let given = match &chosen.groups {
                Some(groups) => groups.get(idx).map(|&(first, len)| &arguments[first..first + len]),
                None => arguments.get(idx..idx + 1),
            };
            let given = given.unwrap_or_default();
            if self.p.is_pack(param.ty) && chosen.groups.is_some() {
                for (arg, element) in given.iter().zip(self.p.elements(param.ty)) {
                    self.fit_argument(arg, element, param.dir);
                }
                out.push(Arg::Pack(given.iter().map(|a| a.expr).collect()));
                continue;
            }
            match given.first() {
                Some(arg) => {
                    self.fit_argument(arg, param.ty, param.dir);
                    out.push(Arg::Expr(arg.expr));
                }
                None => {
                    if let Some(decl) = param.decl {
                        self.p.check_default(decl);
                        out.push(Arg::Default(decl));
                    }
                }
            }
        }
        if chosen.groups.is_none() && arguments.len() > chosen.signature.params.len() {
            // Pass the remaining arguments of `printf` unchanged, except that constant buffers are read.
            for arg in &arguments[chosen.signature.params.len()..] {
                if let Some(ty) = arg.ty {
                    let loaded = self.p.loaded(ty);
                    self.coerce(arg.expr, loaded);
                    out.push(Arg::Expr(arg.expr));
                }
            }
        }
        out
    }

    fn fit_argument(&mut self, arg: &Argument, to: Ty, dir: crate::Direction) {
        if arg.ty.is_none() {
            self.init_list(arg.expr, to);
        } else if !dir.is_written() {
            self.coerce(arg.expr, to);
        } else if self.ty_of(arg.expr) != to {
            self.p.tables.exprs[arg.expr].coerce = Some(to);
        }
    }

    /// `value(args)`: calls the call operator of a value.
    fn call_value(&mut self, expr: ExprId, callee: ExprId, ty: Ty, args: &[ExprId]) -> Ty {
        let lvalue = self.p.tables.exprs[callee].lvalue;
        match self.declared_member(ty, kw::CALL_OPERATOR, Base::Value(callee, lvalue)) {
            Ref::Funcs(candidates, base) => {
                let info = self.p.tables.exprs[callee].clone();
                let ty = self.call_functions(expr, callee, &candidates, base, args);
                self.p.tables.exprs[callee] = info;
                ty
            }
            _ => {
                if ty != Ty::ERROR && !self.p.has_unknown_base(ty) {
                    let message = text!("a value of type '{}' cannot be called", self.name(ty));
                    self.error_in(callee, "E39999", message);
                }
                self.skip_args(args);
                self.set_error(expr)
            }
        }
    }

    /// The kernel, its group size and the number of groups in `__dispatch_kernel(kernel, size, groups)`.
    fn dispatch_of(&self, callee: ExprId) -> Option<[ExprId; 3]> {
        let ExprKind::Call { callee, args } = &self.p.ast.exprs[callee].kind else { return None };
        let ExprKind::Name(name) = self.p.ast.exprs[*callee].kind else { return None };
        let is_dispatch = self.p.ast.name(name) == "__dispatch_kernel";
        args[..].try_into().ok().filter(|_| is_dispatch)
    }

    /// `__dispatch_kernel(kernel, size, groups)(args)`: the kernel's call is checked, but only `__dispatch`
    /// is called.
    fn infer_dispatch(&mut self, expr: ExprId, [kernel, size, groups]: [ExprId; 3], args: &[ExprId]) -> Ty {
        let span = self.span(expr);
        let call = ExprKind::Call { callee: kernel, args: args.to_vec() };
        let call = self.p.add_expr(call, span);
        self.infer(call, None);
        let dispatch = self.p.ast.symbols.intern("__dispatch");
        let callee = self.p.add_expr(ExprKind::Name(dispatch), span);
        self.infer_call(expr, callee, &[size, groups], None)
    }

    /// `base[args]` with a `__subscript` of the user's.
    pub(crate) fn infer_subscript(&mut self, expr: ExprId, base: ExprId, args: &[ExprId]) -> Ty {
        let span = self.span(expr);
        let (ty, place) = (self.seen(base), self.p.tables.exprs[base].lvalue);
        let Ref::Funcs(mut candidates, _) = self.declared_member(ty, kw::SUBSCRIPT, Base::Value(base, place))
        else {
            if ty != Ty::ERROR {
                let message = text!("a value of type '{}' cannot be subscripted", self.name(ty));
                self.error("E30013", span, message);
            }
            self.skip_args(args);
            return self.set_error(expr);
        };
        // Among extensions of all types that conform to an interface, use the subscripts with the most
        // accessors.
        let n_accessors = |c: &Candidate| match &self.p.ast.decls[c.decl].kind {
            DeclKind::Subscript { accessors, .. } if self.p.is_of_blanket(c.decl) => Some(accessors.len()),
            _ => None,
        };
        let most = candidates.iter().filter_map(n_accessors).max();
        candidates.retain(|c| n_accessors(c).is_none_or(|n| Some(n) == most));
        let arguments = self.arguments(args);
        let Some(chosen) = self.choose(&candidates, &arguments, span) else { return self.set_error(expr) };
        let args = self.fit_arguments(&chosen, &arguments);
        let Callable::Func(func) = chosen.callable else { return self.set_error(expr) };
        let accessors = self.p.accessors(&func);
        let lvalue = self.is_written_through(accessors, place);
        let self_ty = func.self_ty.unwrap_or(ty);
        if self_ty != ty {
            self.p.tables.exprs[base].coerce = Some(self_ty);
        }
        let meaning = Meaning::Property { base: Some(base), member: func, args };
        self.set(expr, ExprInfo::new(chosen.signature.ret, meaning, lvalue))
    }
}
