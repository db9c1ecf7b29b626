//! Where a derivative would be lost without a word.
//!
//! Inside of a differentiable function two sets of variables are found, ignoring the order of statements: those that
//! may *carry* a derivative (they depend on a differentiable input) and those that are *needed* (the differentiable
//! results depend on them). A derivative is lost by
//! - a call of a function without derivatives, where an argument carries one and the result is needed, and
//! - an assignment of a value that carries one to a place that has none.
//!
//! Both have to be said: by `no_diff` and by `detach`. When in doubt a program is accepted.

use rustc_hash::FxHashSet;
use syntax::ast::{BinaryOp, DeclKind, Modifiers, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, StmtId};

use crate::program::Program;
use crate::signature::Level;
use crate::tables::{Arg, Callable, FuncRef, Initializer, Meaning};
use crate::types::Ty;
use crate::views::View;

/// What is known of the variables of one function.
struct Flow<'p> {
    p: &'p mut Program,
    carries: FxHashSet<DeclId>,
    needed: FxHashSet<DeclId>,
    /// `this` carries a derivative, and is a differentiable result.
    this: (bool, bool),
    /// `this` has no derivative, and nobody says that this is meant.
    plain_this: bool,
    /// The result is differentiable.
    returns: bool,
    level: Level,
    /// The module that the function is in.
    view: View,
    report: bool,
    changed: bool,
    depth: u32,
}

impl Program {
    /// Checks a differentiable function for derivatives that get lost. Idempotent.
    pub fn check_flow(&mut self, decl: DeclId) {
        if !self.flow_checked.insert(decl) || self.is_core(decl) {
            return;
        }
        let level = self.level(decl);
        let (DeclKind::Func { body: Some(body), .. }
        | DeclKind::Init { body: Some(body), .. }
        | DeclKind::Accessor { body: Some(body), .. }) = self.ast.decls[decl].kind
        else {
            return;
        };
        if level == Level::None || self.attribute(decl, "TreatAsDifferentiable").is_some() {
            return;
        }
        let signature = self.raw_signature(decl);
        let view = View::of(self.asking(decl));
        let mut flow = Flow {
            p: self,
            view,
            carries: FxHashSet::default(),
            needed: FxHashSet::default(),
            this: signature
                .this
                .as_ref()
                .map_or((false, false), |t| (t.differentiable, t.differentiable && t.mutating)),
            plain_this: false,
            returns: signature.ret_differentiable,
            level,
            report: false,
            changed: true,
            depth: 0,
        };
        if let DeclKind::Init { .. } = flow.p.ast.decls[decl].kind {
            flow.this = (false, signature.ret_differentiable);
        }
        if let Some(this) = &signature.this {
            let p = &mut flow.p;
            flow.plain_this =
                p.differentiability(this.ty, false) == (false, false) && !p.says_no_diff_this(decl);
        }
        for param in &signature.params {
            let Some(decl) = param.decl else { continue };
            if param.differentiable {
                if param.dir != crate::Direction::Out {
                    flow.carries.insert(decl);
                }
                if param.dir.is_written() {
                    flow.needed.insert(decl);
                }
            }
        }
        // Both sets only grow, and there are finitely many variables.
        while std::mem::take(&mut flow.changed) {
            flow.statement(body);
        }
        flow.report = true;
        flow.statement(body);
    }
}

impl Flow<'_> {
    fn carry(&mut self, decl: DeclId) {
        let ty = self.p.tables.decl_types[decl].unwrap_or(Ty::ERROR);
        let has_tangent = self.p.differential(ty).is_some();
        if has_tangent && self.carries.insert(decl) {
            self.changed = true;
        }
    }

    fn need(&mut self, decl: DeclId) {
        if self.needed.insert(decl) {
            self.changed = true;
        }
    }

    fn statement(&mut self, stmt: StmtId) {
        self.depth += 1;
        if self.depth > 1500 {
            self.depth -= 1;
            return;
        }
        match self.p.ast.stmts[stmt].kind.clone() {
            StmtKind::Block(stmts) => stmts.into_iter().for_each(|s| self.statement(s)),
            StmtKind::Expr(expr) => {
                self.expr(expr, false);
            }
            StmtKind::Decl(decls) => {
                for decl in decls {
                    if let DeclKind::Var { init: Some(init), .. } = self.p.ast.decls[decl].kind {
                        let needed = self.needed.contains(&decl);
                        if self.expr(init, needed) {
                            self.carry(decl);
                        }
                    }
                }
            }
            StmtKind::If { cond, then, otherwise } => {
                self.expr(cond, false);
                self.statement(then);
                if let Some(otherwise) = otherwise {
                    self.statement(otherwise);
                }
            }
            StmtKind::IfLet { var, then, otherwise } => {
                if let DeclKind::Var { init: Some(init), .. } = self.p.ast.decls[var].kind {
                    let needed = self.needed.contains(&var);
                    if self.expr(init, needed) {
                        self.carry(var);
                    }
                }
                self.statement(then);
                if let Some(otherwise) = otherwise {
                    self.statement(otherwise);
                }
            }
            StmtKind::For { init, cond, step, body } => {
                if let Some(init) = init {
                    self.statement(init);
                }
                if let Some(cond) = cond {
                    self.expr(cond, false);
                }
                if let Some(step) = step {
                    self.expr(step, false);
                }
                self.statement(body);
            }
            StmtKind::While { cond, body } | StmtKind::DoWhile { body, cond } => {
                self.expr(cond, false);
                self.statement(body);
            }
            StmtKind::Switch { scrutinee, cases } => {
                self.expr(scrutinee, false);
                for case in cases {
                    case.body.into_iter().for_each(|s| self.statement(s));
                }
            }
            StmtKind::TargetSwitch(cases) => {
                // Only the CPU's case has been checked; in the others nothing is known to carry anything.
                cases.into_iter().flat_map(|c| c.1).for_each(|s| self.statement(s));
            }
            StmtKind::Return(Some(value)) => {
                let needed = self.returns;
                self.expr(value, needed);
            }
            StmtKind::DoCatch { body, catches, .. } => {
                self.statement(body);
                catches.into_iter().for_each(|c| self.statement(c.1));
            }
            StmtKind::Throw(value) => {
                self.expr(value, false);
            }
            StmtKind::Try(var) => {
                if let DeclKind::Var { init: Some(call), .. } = self.p.ast.decls[var].kind {
                    self.expr(call, false);
                }
            }
            StmtKind::Defer(body) | StmtKind::Labeled { body, .. } => self.statement(body),
            StmtKind::Empty
            | StmtKind::Break
            | StmtKind::BreakTo { .. }
            | StmtKind::Continue
            | StmtKind::Return(None)
            | StmtKind::Discard
            | StmtKind::Unsupported(_)
            | StmtKind::IntrinsicAsm(_)
            | StmtKind::Error => {}
        }
        self.depth -= 1;
    }

    /// Whether an expression may carry a derivative. `needed`: a differentiable result depends on it.
    fn expr(&mut self, expr: ExprId, needed: bool) -> bool {
        self.depth += 1;
        let carries = if self.depth > 3000 { false } else { self.kind(expr, needed) };
        self.depth -= 1;
        let info = &self.p.tables.exprs[expr];
        let ty = info.coerce.unwrap_or(info.ty);
        carries && self.p.differential(ty).is_some()
    }

    fn kind(&mut self, expr: ExprId, needed: bool) -> bool {
        match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Error
            | Meaning::Type(_)
            | Meaning::Namespace(_)
            | Meaning::Literal
            | Meaning::Const(_)
            | Meaning::SizeOf(..)
            | Meaning::StaticMember(_)
            | Meaning::Value(_)
            | Meaning::EnumCase(_)
            | Meaning::Func { .. }
            | Meaning::TypeTest { .. }
            | Meaning::TypeIs(..) => false,
            Meaning::Var(decl) => {
                if needed {
                    self.need(decl);
                }
                self.carries.contains(&decl)
            }
            Meaning::This => self.this.0,
            Meaning::Field { base, field } => {
                let plain = self.p.is_no_diff(field);
                let of_this = base.is_none_or(|b| matches!(self.p.tables.exprs[b].meaning, Meaning::This));
                if self.report && self.plain_this && of_this && !plain {
                    self.check_field_of_this(expr, field);
                }
                match base {
                    Some(base) => self.expr(base, needed && !plain) && !plain,
                    None => self.this.0 && !plain,
                }
            }
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::TupleSwizzle { base, .. }
            | Meaning::Cast(base)
            | Meaning::Unary(_, base) => self.expr(base, needed),
            Meaning::Deref(base) | Meaning::AddressOf(base) => {
                self.expr(base, false);
                false
            }
            Meaning::Index { base, index } => {
                self.expr(index, false);
                self.expr(base, needed)
            }
            Meaning::Property { base, property } => {
                let carried = base.is_some_and(|b| self.expr(b, needed)) || base.is_none() && self.this.0;
                let getter = self.p.accessors(&property).get;
                let differentiable = match getter {
                    Some(getter) => self.p.differentiable_level(&getter, self.view) >= Level::Forward,
                    None => false,
                };
                carried && differentiable && !self.p.is_no_diff(property.decl)
            }
            Meaning::Subscript { base, args, .. } => {
                let mut carried = self.expr(base, needed);
                for arg in args {
                    for arg in arg.exprs() {
                        carried |= self.expr(arg, needed);
                    }
                }
                carried
            }
            Meaning::Call { func, base, args } => self.call(expr, &func, base, &args, needed),
            Meaning::Init { init, args } => self.call(expr, &Callable::Func(init), None, &args, needed),
            Meaning::Construct(parts) | Meaning::MakeTuple(parts) => {
                parts.into_iter().fold(false, |carried, part| self.expr(part, needed) | carried)
            }
            Meaning::Aggregate(initializer) => self.initializer(&initializer, needed),
            Meaning::MakePair { primal, differential } => {
                let carried = self.expr(primal, needed);
                differential.is_some_and(|d| self.expr(d, needed)) || carried
            }
            Meaning::Binary(op, ..) => self.chain(expr, op, needed),
            Meaning::Ternary(cond, a, b) => {
                self.expr(cond, false);
                let a = self.expr(a, needed);
                self.expr(b, needed) || a
            }
            Meaning::Assign { target, value, op } => {
                let place_needed = self.place_needed(target);
                let mut carried = self.expr(value, place_needed || needed);
                self.indices(target);
                if op.is_some() {
                    // `a op= b` reads the place too.
                    carried |=
                        self.p.differential(self.p.tables.exprs[target].ty).is_some() && self.read(target);
                }
                self.store(expr, target, carried);
                carried
            }
            Meaning::AssignCall { target, value, .. } => {
                let place_needed = self.place_needed(target);
                let carried = self.expr(value, place_needed || needed);
                self.indices(target);
                if carried {
                    self.store_to(target);
                }
                carried
            }
            Meaning::IncDec(target) => self.read(target),
            Meaning::NoDiff(inner) => {
                // What is inside is a constant; its arguments are looked at as if it were not needed.
                self.expr(inner, false);
                false
            }
        }
    }

    /// Chains are nested to the left: no recursion along them.
    fn chain(&mut self, expr: ExprId, op: BinaryOp, needed: bool) -> bool {
        let mut at = expr;
        let mut carried = false;
        let mut op = op;
        let mut needed = needed;
        loop {
            let Meaning::Binary(_, left, right) = self.p.tables.exprs[at].meaning else {
                return self.expr(at, needed) || carried;
            };
            let compares = matches!(
                op,
                BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::And
                    | BinaryOp::Or
            );
            needed &= !compares;
            carried |= self.expr(right, needed);
            match self.p.tables.exprs[left].meaning {
                Meaning::Binary(inner, ..) => {
                    op = inner;
                    at = left;
                }
                _ => return self.expr(left, needed) || carried,
            }
        }
    }

    fn initializer(&mut self, initializer: &Initializer, needed: bool) -> bool {
        match initializer {
            Initializer::Expr(expr) => self.expr(*expr, needed),
            Initializer::Default(_) => false,
            Initializer::Parts(_, parts) => {
                parts.iter().fold(false, |carried, part| self.initializer(part, needed) | carried)
            }
            Initializer::Init(_, _, args) => args
                .iter()
                .flat_map(Arg::exprs)
                .fold(false, |carried, expr| self.expr(expr, needed) | carried),
        }
    }

    /// The variable that a place is part of; `None` for `this` and places that are no variable's.
    fn root(&self, expr: ExprId) -> Option<ExprId> {
        match &self.p.tables.exprs[expr].meaning {
            Meaning::Field { base: Some(base), .. }
            | Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::Index { base, .. }
            | Meaning::Subscript { base, .. }
            | Meaning::Property { base: Some(base), .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::TupleSwizzle { base, .. } => self.root(*base),
            _ => Some(expr),
        }
    }

    fn place_needed(&mut self, target: ExprId) -> bool {
        // What is put where no derivative can be is not needed for one.
        if !self.has_tangent(target) {
            return false;
        }
        match self.root(target).map(|r| &self.p.tables.exprs[r].meaning) {
            Some(Meaning::Var(decl)) => self.needed.contains(decl),
            Some(
                Meaning::This | Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. },
            ) => self.this.1,
            _ => false,
        }
    }

    /// Whether the variable of a place carries a derivative now.
    fn read(&mut self, target: ExprId) -> bool {
        match self.root(target).map(|r| self.p.tables.exprs[r].meaning.clone()) {
            Some(Meaning::Var(decl)) => self.carries.contains(&decl),
            Some(Meaning::This | Meaning::Field { base: None, .. }) => self.this.0,
            _ => false,
        }
    }

    /// The indices within a place are expressions of their own.
    fn indices(&mut self, target: ExprId) {
        match self.p.tables.exprs[target].meaning.clone() {
            Meaning::Index { base, index } => {
                self.expr(index, false);
                self.indices(base);
            }
            Meaning::Field { base: Some(base), .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::TupleSwizzle { base, .. } => self.indices(base),
            _ => {}
        }
    }

    fn store_to(&mut self, target: ExprId) {
        match self.root(target).map(|r| self.p.tables.exprs[r].meaning.clone()) {
            Some(Meaning::Var(decl)) => self.carry(decl),
            Some(
                Meaning::This | Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. },
            ) if !self.this.0 && self.this.1 => {
                self.this.0 = true;
                self.changed = true;
            }
            _ => {}
        }
    }

    /// A value is assigned.
    fn store(&mut self, expr: ExprId, target: ExprId, carried: bool) {
        let ty = self.p.tables.exprs[target].ty;
        if !carried || self.p.differential(ty).is_none() {
            return;
        }
        if self.has_tangent(target) {
            self.store_to(target);
        } else if self.report {
            let span = self.p.ast.exprs[expr].span;
            let place = self.p.ast.exprs[target].span;
            self.p.report(
                Diagnostic::error("E41031", span, "the derivative is lost in this assignment")
                    .note(place, "this place has no derivative")
                    .help("use 'detach(…)' to say that this is meant"),
            );
        }
    }

    /// Whether a place can hold a derivative.
    fn has_tangent(&mut self, target: ExprId) -> bool {
        match self.p.tables.exprs[target].meaning.clone() {
            Meaning::Var(decl) => {
                if let DeclKind::Param { .. } = self.p.ast.decls[decl].kind {
                    return !self.p.is_no_diff(decl);
                }
                let modifiers = self.p.ast.decls[decl].modifiers;
                let shared = Modifiers(Modifiers::STATIC.0 | Modifiers::GROUPSHARED.0);
                let global = self.p.ast.decls[decl].parent.is_none_or(|p| {
                    !matches!(
                        self.p.ast.decls[p].kind,
                        DeclKind::Func { .. } | DeclKind::Init { .. } | DeclKind::Accessor { .. }
                    )
                });
                !modifiers.has(shared) && !self.p.is_no_diff(decl) && !global
            }
            Meaning::Field { base, field } => {
                if self.p.is_no_diff(field) {
                    return false;
                }
                match base {
                    Some(base) => {
                        let info = &self.p.tables.exprs[base];
                        let ty = info.coerce.unwrap_or(info.ty);
                        self.p.differential(ty).is_some() && self.has_tangent(base)
                    }
                    // A field of `this`; one of a type without derivatives is not told apart here.
                    None => self.this.1,
                }
            }
            Meaning::This => self.this.1,
            Meaning::DiffField { base, .. }
            | Meaning::PairField { base, .. }
            | Meaning::TupleField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::Same(base)
            | Meaning::Each(base)
            | Meaning::Expand { inner: base, .. }
            | Meaning::TupleSwizzle { base, .. } => self.has_tangent(base),
            Meaning::Index { base, .. } => {
                let ty = self.p.tables.exprs[base].ty;
                self.p.differential(ty).is_some() && self.has_tangent(base)
            }
            Meaning::StaticMember(_) | Meaning::Deref(_) => false,
            // Setters are functions; what they do with the value is checked there.
            _ => true,
        }
    }

    fn call(
        &mut self,
        expr: ExprId,
        func: &Callable,
        base: Option<ExprId>,
        args: &[Arg],
        needed: bool,
    ) -> bool {
        let signature = self.p.callable_signature(func);
        let level = match func {
            Callable::Func(func) => self.p.differentiable_level(func, self.view),
            // Derivatives of derivatives.
            Callable::Fwd(..) | Callable::Bwd(..) | Callable::Apply(..) | Callable::Synthesized(..) => {
                Level::Backward
            }
        };
        let differentiable = level >= self.level;
        let mutates = signature.this.as_ref().is_some_and(|t| t.mutating);
        let writes = signature.params.iter().any(|p| p.dir.is_written()) || mutates;
        let mut carried = false;
        let is_detach = matches!(func, Callable::Func(f) if self.p.is_core(f.decl)
            && self.p.intrinsic(f.decl).as_deref() == Some("detach"));
        if let Some(base) = base {
            let inner = differentiable && (needed || writes);
            let has_tangent = signature.this.as_ref().is_some_and(|t| t.differentiable);
            carried |= self.expr(base, inner && has_tangent) && has_tangent;
        } else if signature.this.is_some() {
            carried |= self.this.0;
        }
        for (arg, param) in args.iter().zip(&signature.params) {
            let inner = differentiable && (needed || writes) && !param.no_diff && param.differentiable;
            for arg in arg.exprs() {
                if self.report && differentiable && param.dir.is_written() && param.differentiable {
                    self.check_output(arg);
                }
                if param.dir == crate::Direction::Out {
                    self.indices(arg);
                    continue;
                }
                let carries = self.expr(arg, inner);
                carried |= carries && !param.no_diff;
                let lost = carries && !param.no_diff && !param.differentiable;
                if self.report && lost && needed && differentiable && self.p.is_lambda(arg) {
                    let span = self.p.ast.exprs[arg].span;
                    self.p.report(
                        Diagnostic::error(
                            "E41022",
                            span,
                            "the derivative by what this lambda captures is lost in this call",
                        )
                        .help("pass it as an argument of the lambda, or capture 'detach' of it if this is meant"),
                    );
                }
            }
        }
        for arg in args.iter().skip(signature.params.len()).flat_map(Arg::exprs) {
            self.expr(arg, false);
        }
        if is_detach {
            return false;
        }
        // A derivative that the user wrote for a function without differentiable inputs is that of what it reads.
        let has_inputs = signature.params.iter().any(|p| p.differentiable && p.dir != crate::Direction::Out)
            || signature.this.as_ref().is_some_and(|t| t.differentiable);
        if let (Callable::Func(f), false) = (func, has_inputs)
            && !self.p.is_core(f.decl)
        {
            let derivatives = self.p.derivatives_of(f, self.view);
            carried |= derivatives.fwd.is_some() || derivatives.bwd.is_some();
        }
        if carried && differentiable {
            for (arg, param) in args.iter().zip(&signature.params) {
                if param.dir.is_written() && param.differentiable {
                    for arg in arg.exprs() {
                        self.store_to(arg);
                    }
                }
            }
            if mutates {
                match base {
                    Some(base) => self.store_to(base),
                    None => {
                        if !self.this.0 && self.this.1 {
                            self.this.0 = true;
                            self.changed = true;
                        }
                    }
                }
            }
        }
        let result_differentiable = signature.ret != Ty::VOID && self.p.differential(signature.ret).is_some();
        if self.report && carried && !differentiable && needed && result_differentiable {
            self.lost_in_call(expr, func);
        }
        if let (Callable::Func(f), true) = (func, self.report && carried && differentiable) {
            let span = self.p.ast.exprs[expr].span;
            let derivatives = self.p.derivatives_of(f, self.view);
            self.p.report_ambiguity(f, &derivatives, self.level == Level::Backward, span);
        }
        let no_diff_result = match func {
            Callable::Func(f) => self.p.is_no_diff(f.decl),
            _ => false,
        };
        carried && differentiable && result_differentiable && !no_diff_result
    }

    /// A field whose type has derivatives, of an object whose type has none.
    fn check_field_of_this(&mut self, expr: ExprId, field: DeclId) {
        let ty = self.p.tables.exprs[expr].ty;
        let span = self.p.ast.exprs[expr].span;
        if self.p.differential(ty).is_none()
            || self.p.diagnostics.iter().any(|d| d.code == "E31159" && d.primary.span == span)
        {
            return;
        }
        let name = self.p.ast.name(self.p.ast.decls[field].name).to_string();
        let message = format!("'{name}' has no derivative here: the type of 'this' is not differentiable");
        let help =
            "write '[NoDiffThis]' before the function if this is meant, or make the type 'IDifferentiable'";
        self.p.report(Diagnostic::warning("E31159", span, message).help(help));
    }

    /// A place that is passed for a differentiable output.
    fn check_output(&mut self, arg: ExprId) {
        if !self.has_tangent(arg) {
            let span = self.p.ast.exprs[arg].span;
            let message =
                "the derivative is lost: this place has none, and is passed for a differentiable output";
            let help = "pass a local variable, and assign 'detach' of it";
            self.p.report(Diagnostic::error("E41025", span, message).help(help));
        }
    }

    fn lost_in_call(&mut self, expr: ExprId, func: &Callable) {
        let Callable::Func(FuncRef { decl, .. }) = func else { return };
        let decl = *decl;
        let name = match self.p.ast.decls[decl].kind {
            DeclKind::Init { .. } => "__init".to_string(),
            _ => self.p.ast.name(self.p.ast.decls[decl].name).to_string(),
        };
        let mode = if self.level == Level::Backward { "backward" } else { "forward" };
        let span = self.p.ast.exprs[expr].span;
        let declared = self.p.ast.decls[decl].name_span;
        let mut diagnostic = Diagnostic::error(
            "E41022",
            span,
            format!("the derivative is lost in this call: '{name}' is not {mode}-differentiable"),
        )
        .help("write 'no_diff' before the call if this is meant, or mark the function '[Differentiable]'");
        if !self.p.is_core(decl) {
            diagnostic = diagnostic.note(declared, "declared here");
        }
        self.p.report(diagnostic);
    }
}
