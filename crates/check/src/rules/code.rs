//! Rules about the code of a function, which walk its body once it has been checked.

use syntax::ast::{DeclKind, ExprKind, SizeOfKind, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::program::Program;
use crate::tables::{Arg, Callable, FuncRef, Meaning};
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

/// The facts at a place of the code.
#[derive(Clone, Default)]
struct Place {
    /// Within a `defer`, whose errors nothing can catch.
    in_defer: bool,
    /// The conformances that a surrounding `if (T is I)` has tested.
    tested: Vec<(Ty, Ty)>,
}

impl Program {
    /// Applies the rules to the body of a function.
    pub(crate) fn check_code(&mut self, decl: DeclId) {
        if self.is_core(decl) {
            return;
        }
        if let Some(body) = self.body_of(decl) {
            self.check_statement(body, &Place::default());
            self.check_access_in(decl, body);
            self.check_endless(decl, body);
            self.check_needs_of_calls(decl);
            self.check_shader_records(decl);
        }
    }

    /// Reports a function that uses two shader records: an entry point has one.
    fn check_shader_records(&mut self, decl: DeclId) {
        let marks =
            ["vk::shader_record", "shader_record", "__layout_shaderRecordNV", "__layout_shaderRecordEXT"];
        let mut first: Option<(DeclId, Span)> = None;
        for (used, span) in self.names_used_in(decl) {
            let block = self.ast.decls[used]
                .parent
                .filter(|&p| matches!(self.ast.decls[p].kind, DeclKind::CBuffer { .. }));
            let record = block.unwrap_or(used);
            if !marks.iter().any(|mark| self.attribute(record, mark).is_some()) {
                continue;
            }
            match first {
                None => first = Some((record, span)),
                Some((other, _)) if other == record => {}
                Some((_, place)) => {
                    let message = "a second shader record: an entry point has one";
                    let error = Diagnostic::error("E39020", span, message).note(place, "the other one");
                    return self.report(error.help("put what both hold into one"));
                }
            }
        }
    }

    /// Warns about a function that calls itself whatever its arguments are.
    fn check_endless(&mut self, decl: DeclId, body: StmtId) {
        let mut open = vec![body];
        let mut exprs = Vec::new();
        while let Some(stmt) = open.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            match kind {
                StmtKind::Block(stmts) => open.extend(stmts.iter().rev()),
                StmtKind::Expr(_) | StmtKind::Return(_) | StmtKind::Decl(_) => {
                    kind.expressions(&mut exprs);
                    let locals = kind.declarations();
                    exprs.extend(locals.iter().filter_map(|&local| self.ast.decls[local].kind.init()));
                }
                // Of a choice, only the condition is evaluated whatever the arguments are.
                StmtKind::If { cond, .. } | StmtKind::Switch { scrutinee: cond, .. } => exprs.push(*cond),
                StmtKind::Empty => {}
                _ => return,
            }
            while let Some(expr) = exprs.pop() {
                if let Meaning::Call { func: Callable::Func(func), .. } = &self.tables.exprs[expr].meaning
                    && func.decl == decl
                {
                    let name = self.ast.decl_name(decl);
                    let message =
                        format!("'{name}' calls itself whatever its arguments are, so it never returns");
                    let warning = Diagnostic::warning("E41036", self.span(expr), message);
                    return self.report(warning.help("return before this call for some arguments"));
                }
                match self.ast.exprs[expr].kind {
                    ExprKind::Ternary(cond, ..) => exprs.push(cond),
                    ExprKind::Binary(op, first, _) if op.is_logical() => exprs.push(first),
                    ref kind => kind.operands(&mut exprs),
                }
            }
            if matches!(
                self.ast.stmts[stmt].kind,
                StmtKind::If { .. } | StmtKind::Switch { .. } | StmtKind::Return(_)
            ) {
                return;
            }
        }
    }

    /// Applies the rules to the initial value of a variable.
    pub(crate) fn check_value(&mut self, decl: DeclId) {
        if let Some(init) = self.ast.decls[decl].kind.init().filter(|_| !self.is_core(decl)) {
            self.check_expression(init, &Place::default());
            self.check_access(decl, init);
            self.check_endless_value(decl, init);
        }
    }

    /// Reports a constant of a generic type whose value is that of itself, with other arguments, in any case.
    fn check_endless_value(&mut self, decl: DeclId, init: ExprId) {
        let mut open = vec![init];
        while let Some(expr) = open.pop() {
            let named = match &self.tables.exprs[expr].meaning {
                Meaning::Var(named) => Some(*named),
                Meaning::StaticMember(member) => Some(member.decl),
                _ => None,
            };
            if named == Some(decl) {
                let name = self.ast.decl_name(decl);
                let message =
                    format!("the value of '{name}' is that of itself with other arguments, without end");
                let error = Diagnostic::error("E39998", self.name_span(decl), message);
                let error = error.note(self.span(expr), "here");
                return self
                    .report(error.help("choose by a condition, or end it by an extension for one argument"));
            }
            match self.ast.exprs[expr].kind {
                // Of a choice, only the condition is evaluated in any case.
                ExprKind::Ternary(cond, ..) => open.push(cond),
                ExprKind::Binary(op, first, _) if op.is_logical() => open.push(first),
                ref kind => kind.operands(&mut open),
            }
        }
    }

    fn check_statement(&mut self, stmt: StmtId, place: &Place) {
        let kind = self.ast.stmts[stmt].kind.clone();
        let mut exprs = Vec::new();
        kind.expressions(&mut exprs);
        for local in kind.declarations() {
            exprs.extend(self.ast.decls[*local].kind.init());
        }
        for expr in exprs {
            self.check_expression(expr, place);
        }
        match &kind {
            StmtKind::If { cond, then, otherwise } => {
                let mut inner = place.clone();
                self.tested_by(*cond, &mut inner.tested);
                self.check_statement(*then, &inner);
                if let Some(otherwise) = otherwise {
                    self.check_statement(*otherwise, place);
                }
                return;
            }
            StmtKind::Defer(body) => {
                let inner = Place { in_defer: true, ..place.clone() };
                return self.check_statement(*body, &inner);
            }
            StmtKind::DoCatch { body, catches, .. } => {
                let inner = Place { in_defer: false, ..place.clone() };
                self.check_statement(*body, &inner);
                for (_, handler) in catches {
                    self.check_statement(*handler, place);
                }
                return;
            }
            StmtKind::Throw(_) if place.in_defer => {
                let span = self.ast.stmts[stmt].span;
                let error = Diagnostic::error(
                    "E30113",
                    span,
                    "an error that is thrown in a `defer` has to be caught there",
                );
                self.report(error.help("other `defer`s would not run: write `do { … } catch { … }`"));
            }
            StmtKind::Expr(expr) => self.check_discarded(*expr),
            _ => {}
        }
        let mut inner = Vec::new();
        kind.statements(&mut inner);
        for stmt in inner {
            self.check_statement(stmt, place);
        }
    }

    /// Collects the conformances that a condition tests.
    fn tested_by(&self, cond: ExprId, tested: &mut Vec<(Ty, Ty)>) {
        match self.tables.exprs[cond].meaning {
            Meaning::TypeIs(subject, ty) => tested.push((subject, ty)),
            Meaning::TypeTest { value, ty, cast: false } => tested.push((self.tables.exprs[value].ty, ty)),
            Meaning::Same(inner) => self.tested_by(inner, tested),
            Meaning::Binary(syntax::ast::BinaryOp::And, a, b) => {
                self.tested_by(a, tested);
                self.tested_by(b, tested);
            }
            _ => {}
        }
    }

    /// Reports a call whose result is meant to be used.
    fn check_discarded(&mut self, expr: ExprId) {
        let Meaning::Call { func: Callable::Func(func), .. } = &self.tables.exprs[expr].meaning else {
            return;
        };
        let decl = func.decl;
        if self.attribute(decl, "NoDiscard").is_some() && self.tables.exprs[expr].ty != Ty::VOID {
            let name = self.ast.decl_name(decl);
            let message = format!("the result of '{name}', which is `[NoDiscard]`, is not used");
            let error = self.declared(decl, Diagnostic::error("E30059", self.span(expr), message));
            self.report(error.help("use it, or write `let _ = …`"));
        }
    }

    /// Applies the rules to an expression and its operands.
    fn check_expression(&mut self, expr: ExprId, place: &Place) {
        let mut open = vec![(expr, place.clone())];
        while let Some((expr, place)) = open.pop() {
            self.check_one(expr, &place);
            let kind = self.ast.exprs[expr].kind.clone();
            let mut operands = Vec::new();
            kind.operands(&mut operands);
            match kind {
                ExprKind::Ternary(cond, then, _) => {
                    let mut inner = place.clone();
                    self.tested_by(cond, &mut inner.tested);
                    open.extend(operands.into_iter().map(|operand| {
                        (operand, if operand == then { inner.clone() } else { place.clone() })
                    }));
                }
                ExprKind::Binary(syntax::ast::BinaryOp::And, first, _) => {
                    let mut inner = place.clone();
                    self.tested_by(first, &mut inner.tested);
                    open.extend(operands.into_iter().map(|operand| {
                        (operand, if operand == first { place.clone() } else { inner.clone() })
                    }));
                }
                _ => open.extend(operands.into_iter().map(|operand| (operand, place.clone()))),
            }
        }
    }

    fn check_one(&mut self, expr: ExprId, place: &Place) {
        let info = self.tables.exprs[expr].clone();
        if let Some(to) = info.coerce
            && matches!(self.types[to], TyKind::Interface(..))
        {
            self.check_any_value_fit(info.ty, to, self.span(expr));
        }
        match &info.meaning {
            Meaning::Try(_) if place.in_defer => {
                let span = self.span(expr);
                let error = Diagnostic::error(
                    "E30113",
                    span,
                    "an error of a `try` in a `defer` has to be caught there",
                );
                self.report(error.help("other `defer`s would not run: write `do { … } catch { … }`"));
            }
            Meaning::TypeIs(subject, ty) => self.check_type_test(expr, *subject, *ty, false),
            Meaning::TypeTest { value, ty, cast } => {
                let subject = self.tables.exprs[*value].ty;
                self.check_type_test(expr, subject, *ty, *cast);
            }
            Meaning::Call { func: Callable::Func(func), base, args } => {
                self.check_call(expr, func, *base, args, place);
            }
            Meaning::Assign { target, .. } | Meaning::AssignCall { target, .. } => {
                self.check_component(*target)
            }
            _ => {}
        }
        if let ExprKind::SizeOf(kind, inner, _) = self.ast.exprs[expr].kind
            && kind != SizeOfKind::CountOf
            && matches!(self.tables.exprs[inner].meaning, Meaning::Func { .. } | Meaning::Namespace(_))
        {
            let message = format!("`{}` needs a type or a value", kind.text());
            self.error("E30099", self.span(inner), message);
        }
    }

    /// Reports a test that cannot succeed, or that nothing in a generic function can decide.
    fn check_type_test(&mut self, expr: ExprId, subject: Ty, ty: Ty, cast: bool) {
        let span = self.span(expr);
        let word = if cast { "as" } else { "is" };
        if let TyKind::Interface(..) = self.types[ty] {
            let is_optional = self.is_optionally(subject, ty);
            if is_optional && !cast || subject == Ty::ERROR {
                return;
            }
            let (code, help) = match cast {
                true => ("E30302", "Slang takes only a struct here: test the type by `if (T is I)`"),
                false => ("E30301", "Slang takes this only with `where optional T : I`"),
            };
            let message = text!("`{word}` is asked for the interface '{}', not for a type", self.shown(ty));
            self.report(Diagnostic::warning(code, span, message).help(help));
            return;
        }
        let is_concrete = |p: &Program, ty: Ty| {
            matches!(
                p.types[ty],
                TyKind::Struct(..) | TyKind::Enum(_) | TyKind::Scalar(_) | TyKind::Vector(..)
            )
        };
        let is_open = |p: &mut Program, ty: Ty| {
            let mut params = Vec::new();
            p.params_in(ty, &mut params);
            !params.is_empty()
        };
        let differs = subject != ty && is_concrete(self, subject) && is_concrete(self, ty);
        if differs && !is_open(self, subject) && !is_open(self, ty) && !self.conforms(subject, ty) {
            let (have, wanted) = (self.shown(subject), self.shown(ty));
            let message = text!("this is always false: a '{}' is not a '{}'", have, wanted);
            let help = "only a value of interface type, or of a generic type, can be of another type";
            self.report(Diagnostic::error("E30304", span, message).help(help));
        }
    }

    /// Returns true if a `where optional` clause makes it a question whether a type conforms.
    fn is_optionally(&mut self, subject: Ty, bound: Ty) -> bool {
        let Some(owner) = self.root_owner(subject) else { return false };
        let constraints = self.constraints_of(owner);
        constraints
            .optional
            .iter()
            .chain(&constraints.conforms)
            .any(|&(ty, what)| ty == subject && what == bound)
    }

    fn check_call(
        &mut self,
        expr: ExprId,
        func: &FuncRef,
        base: Option<ExprId>,
        args: &[Arg],
        place: &Place,
    ) {
        let span = self.span(expr);
        match self.intrinsic(func.decl).filter(|_| self.is_core(func.decl)).as_deref() {
            Some("bit_cast") => {
                if let Some(to) = func.args.first().map(|arg| arg.clone().ty())
                    && self.is_existential(to)
                {
                    let message = text!(
                        "a '{}', whose type is known at run time only, cannot be made by `bit_cast`",
                        self.shown(to)
                    );
                    let help = "make it by `createDynamicObject`, which is told the type";
                    self.report(Diagnostic::error("E41204", span, message).help(help));
                }
                return;
            }
            Some("create_dynamic_object") => {
                if let Some(to) = func.args.first().map(|arg| arg.clone().ty())
                    && matches!(self.types[to], TyKind::Interface(..))
                {
                    self.check_made_from_bits(to, span);
                }
                return;
            }
            _ => {}
        }
        if self.is_core(func.decl) {
            return;
        }
        self.check_optional(expr, func, place);
        let written = self.raw_signature(func.decl);
        for (param, arg) in written.params.iter().zip(args) {
            let Arg::Expr(arg) = arg else { continue };
            if param.dir.is_written() {
                self.check_component(*arg);
            }
        }
        let is_explicit = match self.ast.exprs[expr].kind {
            ExprKind::Call { callee, .. } => matches!(self.ast.exprs[callee].kind, ExprKind::Generic { .. }),
            _ => false,
        };
        for (param, ty) in self.unknown_arguments(func, is_explicit) {
            let (callee, name) = (self.ast.decl_name(func.decl), self.ast.decl_name(param));
            let message = text!(
                "'{callee}' is called for '{name}' = '{}', a type that is known at run time only",
                self.shown(ty)
            );
            let help = match is_explicit {
                true => "Slang accepts this only where the argument is inferred".to_string(),
                false => format!("Slang accepts this only with a constraint, such as '{name} : I'"),
            };
            let warning = Diagnostic::warning("E33180", span, message).help(help);
            let warning = self.declared(func.decl, warning);
            self.report_once(warning);
        }
        // The object and the argument may be of different types.
        let Some(base) = base.filter(|base| self.is_existential(self.tables.exprs[*base].ty)) else { return };
        let is_own = |p: &Program, ty: Ty| matches!(p.types[ty], TyKind::This(_));
        for (param, arg) in written.params.iter().zip(args) {
            let Arg::Expr(arg) = *arg else { continue };
            if is_own(self, param.ty)
                && self.is_existential(self.tables.exprs[arg].ty)
                && self.is_requirement(func.decl)
            {
                let ty = self.shown(self.tables.exprs[base].ty);
                let message = text!(
                    "the argument has to be of the type of the object, and both are known as '{}' only",
                    ty
                );
                let help = "Slang refuses this; here, the run stops if the types differ";
                self.report_once(Diagnostic::warning("E30019", self.span(arg), message).help(help));
            }
        }
    }

    /// Reports a member of an interface to which a type conforms only where that has been tested, and a call that needs
    /// such a type to conform.
    fn check_optional(&mut self, expr: ExprId, func: &FuncRef, place: &Place) {
        if let Some(subject) = func.self_ty.filter(|_| self.is_requirement(func.decl))
            && let Some(interface) = self.container_of(func.decl)
            && self.is_untested(subject, interface, place)
        {
            let (name, shown) = (self.ast.decl_name(func.decl).to_string(), self.shown(subject));
            let message = text!("'{}' has '{name}' only where it conforms to the interface", shown);
            let help = text!("test it first: `if ({} is …)`", shown);
            self.report(Diagnostic::error("E30403", self.span(expr), message).help(help));
        }
        if func.args.is_empty() {
            return;
        }
        let env = self.subst_of(func);
        for &(ty, bound) in &self.constraints_of(func.decl).conforms {
            let (ty, bound) = (self.substitute(ty, &env), self.substitute(bound, &env));
            let Some(interface) = self.interface_decl(bound) else { continue };
            if self.is_untested(ty, interface, place) {
                let name = self.ast.decl_name(func.decl).to_string();
                let (ty, bound) = (self.shown(ty), self.shown(bound));
                let message = text!(
                    "'{name}' needs a '{}', and '{}' is one only where that has been tested",
                    bound,
                    ty
                );
                let help = text!("test it first: `if ({} is {})`", ty, bound);
                self.report(Diagnostic::error("E30403", self.span(expr), message).help(help));
                return;
            }
        }
    }

    /// Returns true if a type conforms to an interface by an optional constraint only, which has not been tested here.
    fn is_untested(&mut self, subject: Ty, interface: DeclId, place: &Place) -> bool {
        let TyKind::Param(param) = self.types[subject] else { return false };
        let Some(&owner) = self.scopes.param_owner.get(&param) else { return false };
        let constraints = self.constraints_of(owner);
        let gives = |p: &mut Program, bound: Ty| {
            let mut all = Vec::new();
            p.add_interface(bound, subject, &mut all);
            all.iter().any(|&given| p.interface_decl(given) == Some(interface))
        };
        let is_optional = constraints.optional.iter().any(|known| known.0 == subject && gives(self, known.1));
        let known: Vec<Ty> = constraints
            .conforms
            .iter()
            .chain(&place.tested)
            .filter(|known| is_optional && known.0 == subject)
            .map(|known| known.1)
            .collect();
        is_optional && !known.into_iter().any(|bound| gives(self, bound))
    }

    /// Reports a component of a swizzle that is assigned by a number which is known at run time only.
    fn check_component(&mut self, target: ExprId) {
        let Meaning::Index { base, index } = self.tables.exprs[target].meaning else { return };
        let is_swizzle = matches!(
            self.tables.exprs[base].meaning,
            Meaning::Swizzle { .. } | Meaning::MatrixSwizzle { .. }
        );
        if is_swizzle && self.constant(index, 0).is_none() {
            let message = "the number of a swizzle's component has to be a constant where it is assigned";
            let error = Diagnostic::error("E39001", self.span(index), message);
            self.report_once(error.help("copy the components into a vector, and assign that back"));
        }
    }
}
