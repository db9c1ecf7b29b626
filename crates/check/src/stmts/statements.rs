//! Checks the bodies of functions, statement by statement.

use std::rc::Rc;

use syntax::ast::{Case, DeclKind, ExprKind, Stmt, StmtKind, UNROLLED};
use syntax::{DeclId, Diagnostic, ExprId, StmtId, keywords as kw};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::signature::Accessors;
use crate::signature::Level;
use crate::tables::Meaning;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind, Val};

impl Program {
    /// Makes sure that the code belonging to a declaration is checked: a function's body and default
    /// arguments, a variable's or field's initialiser, an accessor's body. Idempotent.
    pub fn body(&mut self, decl: DeclId) {
        if !self.queries.bodies.is_first(decl) {
            return;
        }
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. } => {
                let signature = self.raw_signature(decl);
                for param in self.params_of(decl) {
                    self.check_default(param);
                    let ty = self.decl_type(param);
                    self.check_value_type(ty, self.name_span(param));
                }
                if self.check_implied(decl)
                    && let Some(body) = self.body_of(decl)
                {
                    let n_before = self.diagnostics.len();
                    self.function_body(decl, signature.ret, body);
                    self.explain_implied(decl, n_before);
                }
            }
            DeclKind::Var { ty: Some(_), init: Some(init), .. } => {
                let ty = self.decl_type(decl);
                Checker::new(self, decl).check(init, ty);
            }
            DeclKind::Var { ty: None, init: Some(_), .. } => {
                self.decl_type(decl);
            }
            DeclKind::Param { .. } => self.check_default(decl),
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                for accessor in accessors {
                    self.body(accessor);
                }
            }
            _ => {
                self.decl_type(decl);
            }
        }
    }

    /// Checks the bodies of all functions that checked code calls, directly or not.
    pub fn check_reached(&mut self) {
        let mut n_checked = 0;
        while n_checked < self.queries.bodies.len() {
            n_checked = self.queries.bodies.len();
            let exprs: Vec<ExprId> = self.tables.exprs.iter().map(|(expr, _)| expr).collect();
            for expr in exprs {
                let called = match &self.tables.exprs[expr].meaning {
                    Meaning::Call { func, .. } => [func.function().cloned(), None, None],
                    Meaning::Init { init: func, .. } | Meaning::AssignCall { func, .. } => {
                        [Some(func.clone()), None, None]
                    }
                    Meaning::Property { member, .. } => {
                        let Accessors { get, set, by_ref } = self.declared_accessors(member);
                        [get, set, by_ref]
                    }
                    _ => continue,
                };
                for func in called.into_iter().flatten().filter(|f| !self.is_core(f.decl)).collect::<Vec<_>>()
                {
                    self.body(func.decl);
                }
            }
        }
    }

    /// Checks the default of a parameter, at most once.
    pub(crate) fn check_default(&mut self, param: DeclId) {
        let DeclKind::Param { default: Some(default), .. } = self.ast.decls[param].kind else { return };
        if !self.queries.bodies.is_first(param) {
            return;
        }
        let ty = self.decl_type(param);
        Checker::new(self, param).check(default, ty);
    }

    /// Reports a type that has no values.
    pub(crate) fn check_value_type(&mut self, ty: Ty, span: syntax::Span) {
        match self.types[ty] {
            TyKind::Void => self.error("E30009", span, "a variable cannot be of type 'void'"),
            TyKind::Array(Ty::VOID, _) => self.check_value_type(Ty::VOID, span),
            _ => {}
        }
    }

    fn function_body(&mut self, decl: DeclId, ret: Ty, body: StmtId) {
        let raw = self.raw_signature(decl);
        let this = match (&raw.this, &self.ast.decls[decl].kind) {
            (Some(this), _) => Some((this.ty, this.dir.is_written())),
            (None, DeclKind::Init { .. }) => Some((ret, true)),
            (None, _) => None,
        };
        let params = self.params_of(decl);
        let container = self.container_of(decl);
        let local_scope = container.and_then(|c| self.scopes.local_scopes.get(&c).cloned());
        let mut checker = Checker::new(self, decl);
        checker.this = this;
        checker.ret = Some(ret);
        checker.check_throws(decl);
        if let Some(outer) = local_scope {
            // Methods of a local type see only the types of the enclosing function.
            let decls = &checker.p.ast.decls;
            let is_value = |d: DeclId| matches!(decls[d].kind, DeclKind::Var { .. } | DeclKind::Param { .. });
            checker.locals.extend(outer.iter().copied().filter(|local| !is_value(local.1)));
        }
        for &param in &params {
            let name = checker.p.ast.decls[param].name;
            let first = checker.locals.iter().find(|l| l.0 == name && params.contains(&l.1)).map(|l| l.1);
            if let Some(first) = first.filter(|_| name != kw::EMPTY) {
                let text = checker.p.ast.name(name).to_string();
                let message = format!("the name '{text}' is declared twice");
                let error = Diagnostic::error("E30200", checker.p.name_span(param), message);
                checker.p.report(error.note(checker.p.name_span(first), "first here"));
            }
            checker.locals.push((name, param));
        }
        checker.statement(body);
        if checker.takes_address {
            self.resolve_aliases(body);
            if self.level(decl) != Level::None {
                self.resolve_chosen(body);
            }
        }
    }
}

impl Checker<'_> {
    fn block(&mut self, stmts: &[StmtId]) {
        let (depth, n_using) = (self.locals.len(), self.using.len());
        stmts.iter().for_each(|&stmt| self.statement_in(stmt, depth));
        self.using.truncate(n_using);
        self.locals.truncate(depth);
    }

    pub(crate) fn statement(&mut self, id: StmtId) {
        let depth = self.locals.len();
        self.statement_in(id, depth);
        self.locals.truncate(depth);
    }

    /// Checks a statement whose declarations stay in scope. `scope` is the index at which the current block's
    /// names begin.
    fn statement_in(&mut self, id: StmtId, scope: usize) {
        self.depth += 1;
        if self.depth > 1500 {
            self.error("E0901", self.p.ast.stmts[id].span, "statements are nested too deeply");
            self.depth -= 1;
            return;
        }
        let Stmt { kind, attributes, span } = self.p.ast.stmts[id].clone();
        for attribute in &attributes {
            self.p.check_attribute(attribute);
            let name = self.p.ast.name(attribute.name).to_string();
            if matches!(
                name.as_str(),
                "MaxIters" | "ForceUnroll" | "Checkpoint" | "CheckpointStates" | "unroll" | "loop"
            ) {
                for &arg in &attribute.args {
                    self.infer(arg, None);
                }
            }
        }
        for expr in self.p.ast.tries(id) {
            self.try_call(expr);
        }
        match kind {
            StmtKind::Empty | StmtKind::Error | StmtKind::BreakTo { .. } => {}
            StmtKind::Block(stmts) => self.block(&stmts),
            StmtKind::Expr(expr) => self.expression_statement(expr),
            StmtKind::Decl(decls) => decls.into_iter().for_each(|decl| self.local(decl, scope)),
            StmtKind::If { cond, then, otherwise } => {
                self.infer_condition(cond);
                self.statement(then);
                otherwise.into_iter().for_each(|otherwise| self.statement(otherwise));
            }
            StmtKind::IfLet { var, then, otherwise } => {
                let depth = self.locals.len();
                self.if_let(var);
                self.statement(then);
                self.locals.truncate(depth);
                otherwise.into_iter().for_each(|otherwise| self.statement(otherwise));
            }
            StmtKind::For { init, cond, step, body } => {
                let depth = self.locals.len();
                init.into_iter().for_each(|init| self.statement_in(init, depth));
                cond.into_iter().for_each(|cond| self.infer_condition(cond));
                step.into_iter().for_each(|step| self.expression_statement(step));
                if attributes.iter().any(|a| self.p.ast.name(a.name) == UNROLLED) {
                    self.unrolled(init, cond, body);
                } else {
                    self.loop_body(body);
                }
                self.locals.truncate(depth);
            }
            StmtKind::While { cond, body } => {
                self.infer_condition(cond);
                self.loop_body(body);
            }
            StmtKind::DoWhile { body, cond } => {
                self.loop_body(body);
                self.infer_condition(cond);
            }
            StmtKind::Switch { scrutinee, cases } => self.switch(scrutinee, &cases),
            StmtKind::Break if self.n_loops == 0 && self.n_switches == 0 => {
                self.error("E30003", span, "'break' must appear inside a loop or a switch");
            }
            StmtKind::Continue if self.n_loops == 0 => {
                self.error("E30004", span, "'continue' must appear inside a loop");
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Discard => {}
            StmtKind::Defer(body) | StmtKind::Labeled { body, .. } => self.statement(body),
            StmtKind::Throw(value) => self.throw(value),
            StmtKind::DoCatch { body, level, catches } => self.do_catch(body, level, &catches),
            StmtKind::Return(value) => self.return_statement(value, span),
            StmtKind::TargetSwitch(_) => {
                self.n_switches += 1;
                // Without a case, it is refused where code is made of it.
                let body = self.p.target_case(id).unwrap_or_default();
                self.block(&body);
                self.n_switches -= 1;
            }
            StmtKind::IntrinsicAsm(text) => self.intrinsic_asm(id, &text, span),
            StmtKind::Unsupported(word) => {
                self.unsupported(span, &format!("'{}' is", self.p.ast.name(word)));
            }
        }
        self.depth -= 1;
    }

    fn switch(&mut self, scrutinee: ExprId, cases: &[Case]) {
        let mut ty = self.infer(scrutinee, None);
        if ty == Ty::BOOL {
            self.coerce(scrutinee, Ty::INT);
            ty = Ty::INT;
        }
        // A vector of one component is that component.
        if let &TyKind::Vector(element, Val::Int(1), _) = &self.p.types[ty] {
            self.coerce(scrutinee, element);
            ty = element;
        }
        let fits = match &self.p.types[ty] {
            TyKind::Scalar(scalar) => scalar.is_int(),
            TyKind::Enum(_) | TyKind::Error => true,
            TyKind::Vector(..) | TyKind::Matrix(..) => false,
            _ => self.p.has_operators(ty),
        };
        if !fits {
            let message = text!("'switch' needs an integer or an enumeration, got '{}'", self.name(ty));
            self.error_in(scrutinee, "E30019", message);
        }
        self.n_switches += 1;
        let mut seen: Vec<(Option<i64>, syntax::Span)> = Vec::new();
        for case in cases {
            for label in &case.labels {
                let span = label.map_or(case.span, |l| self.span(l));
                let mut value = None;
                if let &Some(label) = label {
                    self.check(label, ty);
                    value = self.p.const_int(label, &crate::Subst::default());
                    if value.is_none() {
                        let failed = matches!(self.p.tables.exprs[label].meaning, Meaning::Error);
                        // The value is known once the generic arguments are.
                        if !failed && self.p.constant(label, 0).is_none() {
                            self.error("E39001", span, "a case has to be a constant");
                        }
                        continue;
                    }
                }
                if let Some(&(_, first)) = seen.iter().find(|s| s.0 == value) {
                    let error = Diagnostic::error("E30605", span, "this case occurs twice");
                    self.p.report(error.note(first, "first here"));
                }
                seen.push((value, span));
            }
            self.block(&case.body);
        }
        self.n_switches -= 1;
    }

    fn expression_statement(&mut self, expr: ExprId) {
        self.infer(expr, None);
        // The left side of a comma is a statement of its own.
        if let Meaning::Binary(syntax::ast::BinaryOp::Eq, ..) = self.p.tables.exprs[expr].meaning {
            let warning = Diagnostic::warning("E30058", self.span(expr), "the result of '==' is not used");
            self.p.report(warning.help("did you mean '='?"));
        }
    }

    /// Checks the bounds of a `$for`, which are constants, and its body, whose copies no `break` or `continue` leaves.
    fn unrolled(&mut self, init: Option<StmtId>, cond: Option<ExprId>, body: StmtId) {
        let first = init.and_then(|init| match &self.p.ast.stmts[init].kind {
            StmtKind::Decl(decls) => match self.p.ast.decls[*decls.first()?].kind {
                DeclKind::Var { init, .. } => init,
                _ => None,
            },
            _ => None,
        });
        let end = cond.and_then(|cond| match self.p.ast.exprs[cond].kind {
            ExprKind::Binary(_, _, end) => Some(end),
            _ => None,
        });
        for bound in [first, end].into_iter().flatten() {
            self.val_of(bound);
        }
        let around = (std::mem::take(&mut self.n_loops), std::mem::take(&mut self.n_switches));
        self.statement(body);
        (self.n_loops, self.n_switches) = around;
    }

    fn loop_body(&mut self, body: StmtId) {
        self.n_loops += 1;
        let switches = std::mem::take(&mut self.n_switches);
        self.statement(body);
        self.n_switches = switches;
        self.n_loops -= 1;
    }

    pub(crate) fn return_statement(&mut self, value: Option<ExprId>, span: syntax::Span) {
        if self.infers_result {
            self.returned.extend(value);
        }
        if self.infers_result && self.ret.is_none() {
            let ty = match value {
                Some(value) => {
                    self.infer(value, None);
                    self.load(value)
                }
                None => Ty::VOID,
            };
            self.ret = Some(ty);
            return;
        }
        let ret = self.ret.unwrap_or(Ty::ERROR);
        match value {
            Some(value) if ret == Ty::VOID => {
                let ty = self.infer(value, None);
                if ty != Ty::VOID && ty != Ty::ERROR {
                    let message = text!("this function returns nothing, but '{}' is returned", self.name(ty));
                    self.error_in(value, "E30019", message);
                }
            }
            Some(value) => self.check(value, ret),
            None => {
                if ret != Ty::VOID && ret != Ty::ERROR && !self.is_init() {
                    self.error("E30006", span, text!("'return' needs a value of type '{}'", self.name(ret)));
                }
            }
        }
    }

    fn if_let(&mut self, var: DeclId) {
        let DeclKind::Var { init: Some(init), .. } = self.p.ast.decls[var].kind else { return };
        let ty = self.infer(init, None);
        let inner = match self.p.types[ty] {
            TyKind::Optional(inner) => inner,
            TyKind::Error => Ty::ERROR,
            _ => {
                let message = text!("'if (let …)' needs an optional, got '{}'", self.name(ty));
                self.error("E30019", self.span(init), message);
                Ty::ERROR
            }
        };
        self.p.tables.decl_types[var] = Some(inner);
        self.p.queries.bodies.insert(var, ());
        let name = self.p.ast.decls[var].name;
        self.locals.push((name, var));
    }

    /// Returns true if a variable's type is unknown; the statement may not be a declaration at all
    /// (`retrun x;`).
    fn is_of_unknown_type(&mut self, decl: DeclId) -> bool {
        match self.p.ast.decls[decl].kind {
            DeclKind::Var { ty: Some(ty), .. } => self.type_expr(ty) == Ty::ERROR,
            _ => false,
        }
    }

    /// Reports a name that the block declares already.
    fn declared_once(&mut self, decl: DeclId, scope: usize) {
        let name = self.p.ast.decls[decl].name;
        if name != kw::EMPTY
            && let Some(other) = self.locals.first_since(name, scope)
            && !matches!(self.p.ast.decls[decl].kind, DeclKind::Func { .. })
            && !self.is_of_unknown_type(decl)
        {
            let text = self.p.ast.name(name).to_string();
            let message = format!("the name '{text}' is declared twice in this block");
            let error = Diagnostic::error("E30200", self.p.name_span(decl), message);
            self.p.report(error.note(self.p.name_span(other), "first here"));
        }
    }

    /// Brings a variable of a body into scope.
    fn enter_variable(&mut self, decl: DeclId, ty: Ty) {
        if matches!(self.p.types[ty], TyKind::NoneLiteral | TyKind::NullPtr | TyKind::Function(..)) {
            let span = self.p.name_span(decl);
            self.error("E39999", span, "the type of this variable is not known: name it");
        }
        self.p.queries.bodies.insert(decl, ());
        self.p.tables.decl_types[decl] = Some(ty);
        self.locals.push((self.p.ast.decls[decl].name, decl));
    }

    /// `let (a, b) = e`
    fn tuple_variables(&mut self, parts: &[DeclId], init: ExprId, scope: usize) {
        let ty = self.infer(init, None);
        let whole = self.p.loaded(ty);
        if whole != ty {
            self.coerce(init, whole);
        }
        for (k, &part) in parts.iter().enumerate() {
            self.declared_once(part, scope);
            let span = self.p.name_span(part);
            let ty = match &self.p.types[whole] {
                TyKind::Error => Some(Ty::ERROR),
                TyKind::Tuple(types) => types.iter().copied().take_while(|&ty| !self.p.is_pack(ty)).nth(k),
                _ => None,
            };
            let ty = ty.unwrap_or_else(|| {
                let message = text!("'_{k}' is not a member of '{}'", self.name(whole));
                self.error("E30027", span, message);
                Ty::ERROR
            });
            self.p.check_value_type(ty, span);
            self.enter_variable(part, ty);
        }
    }

    /// Checks a declaration in a body.
    pub(crate) fn local(&mut self, decl: DeclId, scope: usize) {
        let name = self.p.ast.decls[decl].name;
        self.declared_once(decl, scope);
        match self.p.ast.decls[decl].kind.clone() {
            DeclKind::Tuple { parts, init } => self.tuple_variables(&parts, init, scope),
            DeclKind::Var { ty, init, .. } => {
                let span = self.p.name_span(decl);
                let resolved = match ty {
                    Some(ty) => {
                        let declared = self.type_expr(ty);
                        let declared = self.p.ordered_as(decl, declared);
                        if matches!(self.p.types[declared], TyKind::Array(_, None)) && init.is_none() {
                            self.error("E30071", span, "this array needs a length");
                            Ty::ERROR
                        } else {
                            self.p.sized_by(declared, init)
                        }
                    }
                    None => match init {
                        Some(init) => {
                            let ty = self.infer(init, None);
                            self.p.loaded(ty)
                        }
                        None => {
                            self.error("E30620", span, "a type or an initial value is needed here");
                            Ty::ERROR
                        }
                    },
                };
                // `let r = f()` is accepted for a function without a result: the variable holds nothing.
                self.p.check_local_variable(decl, resolved);
                let void_result = ty.is_none() && resolved == Ty::VOID;
                if !void_result {
                    self.p.check_value_type(resolved, span);
                }
                if let (Some(init), true) = (init, ty.is_some()) {
                    self.check(init, resolved);
                } else if let Some(init) = init
                    && resolved != self.ty_of(init)
                {
                    self.coerce(init, resolved);
                }
                self.enter_variable(decl, resolved);
            }
            DeclKind::TypeAlias(ty) => {
                let ty = self.type_expr(ty);
                self.p.tables.decl_types[decl] = Some(ty);
                self.p.queries.bodies.insert(decl, ());
                self.locals.push((name, decl));
            }
            DeclKind::Struct { .. } | DeclKind::Enum { .. } | DeclKind::Interface { .. } => {
                self.locals.push((name, decl));
                self.p.enter_local(decl);
                self.p.scopes.local_scopes.insert(decl, Rc::new(self.locals.to_vec()));
            }
            DeclKind::Empty => {}
            DeclKind::Using(_) => self.using.push(decl),
            _ => {
                let span = self.p.ast.decls[decl].span;
                self.unsupported(span, "this kind of declaration inside a function is");
            }
        }
    }
}
