//! Early exits: `return`, `break` and `continue` become values and flags.
//!
//! [`Body::list`] lowers statements in order. A statement that may leave takes the rest of the list with it:
//! if one arm of an `if` always leaves, the rest goes into the other arm, and no flag is needed. If both arms
//! may fall through, a flag is set where control leaves, and the rest runs only if it is not set. Flags are
//! slots of the environment, and are set only if some construct reads them.

use ir::{Op, Value};
use syntax::ast::StmtKind;
use syntax::{ExprId, StmtId};

use crate::body::{Body, Exits, Flag, Flow, Name, Slot};
use crate::lowerer::ir_span;
use crate::places::Place;

impl Flow {
    pub(crate) const FALLS: Flow =
        Flow { falls: true, breaks: false, continues: false, returns: false, labels: 0 };

    pub(crate) fn leaves(self) -> bool {
        self.breaks || self.continues || self.returns || self.labels != 0
    }

    fn or(self, other: Flow) -> Flow {
        Flow {
            falls: self.falls || other.falls,
            breaks: self.breaks || other.breaks,
            continues: self.continues || other.continues,
            returns: self.returns || other.returns,
            labels: self.labels | other.labels,
        }
    }

    fn then(self, next: Flow) -> Flow {
        if self.falls { Flow { falls: next.falls, ..self.or(next) } } else { self }
    }
}

impl Exits {
    /// Visits the flags of the ways out in `flow`.
    fn each_flag(&mut self, flow: Flow, mut visit: impl FnMut(&mut Flag)) {
        if flow.returns {
            visit(&mut self.returned);
        }
        if flow.breaks
            && let Some(target) = self.targets.last_mut()
        {
            visit(&mut target.broke);
        }
        // A switch between here and the loop must be left, too; its guards read `continued`.
        if flow.continues
            && let Some(target) = self.targets.iter_mut().rev().find(|t| t.is_loop)
        {
            visit(&mut target.continued);
        }
        for (level, label) in self.labels.iter_mut().enumerate() {
            if flow.labels >> level & 1 != 0 {
                visit(&mut label.flag);
            }
        }
    }
}

impl Body<'_, '_, '_> {
    /// Computes how control can leave a statement.
    pub(crate) fn flow(&mut self, stmt: StmtId) -> Flow {
        if let Some(&flow) = self.exits.flows.get(&stmt) {
            return flow;
        }
        let flow = self.flow_of_kind(stmt);
        let tries = self.lw.program.ast.tries(stmt).into_iter().rev();
        let flow = tries.fold(flow, |flow, expr| Flow::FALLS.or(self.thrown_flow(expr)).then(flow));
        self.exits.flows.insert(stmt, flow);
        flow
    }

    /// How control can leave a statement whose `try`s have run.
    fn flow_after_tries(&mut self, stmt: StmtId) -> Flow {
        let tries = self.lw.program.ast.tries(stmt);
        if tries.is_empty() {
            return self.flow(stmt);
        }
        // The statement may be lowered again, where its `try`s have to run again.
        self.exits.tried.retain(|expr| !tries.contains(expr));
        self.flow_of_kind(stmt)
    }

    fn flow_of_kind(&mut self, stmt: StmtId) -> Flow {
        let kind = self.lw.program.ast.stmts[stmt].kind.clone();
        match &kind {
            StmtKind::Empty
            | StmtKind::Expr(_)
            | StmtKind::Decl(_)
            | StmtKind::Discard
            | StmtKind::Unsupported(_)
            | StmtKind::Error => Flow::FALLS,
            StmtKind::Block(stmts) => self.flow_list(stmts),
            StmtKind::If { then, otherwise, .. } | StmtKind::IfLet { then, otherwise, .. } => {
                let otherwise = match otherwise {
                    Some(s) => self.flow(*s),
                    None => Flow::FALLS,
                };
                self.flow(*then).or(otherwise)
            }
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => {
                let body = self.flow(*body);
                let cond = match kind {
                    StmtKind::While { cond, .. } => Some(cond),
                    StmtKind::For { cond, .. } => cond,
                    _ => None,
                };
                let is_endless = cond.is_none_or(|c| self.is_true(c));
                Flow { falls: !is_endless || body.breaks, breaks: false, continues: false, ..body }
            }
            StmtKind::DoWhile { body, cond } => {
                let body = self.flow(*body);
                let falls = body.breaks || ((body.falls || body.continues) && !self.is_true(*cond));
                Flow { falls, breaks: false, continues: false, ..body }
            }
            StmtKind::Switch { cases, .. } => {
                let mut flow = Flow { falls: false, ..Flow::default() };
                let mut last_falls = true;
                for case in cases {
                    let body = self.flow_list(&case.body);
                    flow.returns |= body.returns;
                    flow.labels |= body.labels;
                    flow.continues |= body.continues;
                    flow.falls |= body.breaks;
                    last_falls = body.falls;
                }
                let has_default = cases.iter().any(|c| c.labels.contains(&None));
                flow.falls |= last_falls || !has_default;
                flow
            }
            StmtKind::Break => Flow { breaks: true, ..Flow::default() },
            StmtKind::BreakTo { level, .. } => Flow { labels: 1 << level, ..Flow::default() },
            StmtKind::Labeled { level, body, .. } => {
                let body = self.flow(*body);
                let bit = 1u32.checked_shl(*level).unwrap_or(0);
                Flow { falls: body.falls || body.labels & bit != 0, labels: body.labels & !bit, ..body }
            }
            StmtKind::Throw(value) => self.thrown_flow(*value),
            StmtKind::DoCatch { body, level, catches } => {
                let mut flow = self.flow(*body);
                flow.labels &= !1u32.checked_shl(*level).unwrap_or(0);
                for (_, handler) in catches {
                    flow = flow.or(self.flow(*handler));
                }
                flow
            }
            // Control cannot leave a `defer`: see `deferred`.
            StmtKind::Defer(_) => Flow::FALLS,
            StmtKind::Continue => Flow { continues: true, ..Flow::default() },
            StmtKind::Return(_) | StmtKind::IntrinsicAsm(_) => Flow { returns: true, ..Flow::default() },
            StmtKind::TargetSwitch(_) => match self.lw.program.target_case(stmt) {
                Some(stmts) => self.flow_list(&stmts),
                None => Flow::FALLS,
            },
        }
    }

    fn flow_list(&mut self, stmts: &[StmtId]) -> Flow {
        let mut flow = Flow::FALLS;
        for &s in stmts {
            flow = flow.then(self.flow(s));
            if !flow.falls {
                break;
            }
        }
        flow
    }

    /// Lowers statements in order, up to the first that always leaves.
    pub(crate) fn list(&mut self, stmts: &[StmtId]) {
        for (k, &stmt) in stmts.iter().enumerate() {
            if let StmtKind::Defer(body) = self.lw.program.ast.stmts[stmt].kind {
                self.deferred(body, &stmts[k + 1..]);
                return;
            }
            if let Some(expr) = self.pending_try(stmt) {
                return self.try_call(expr, &stmts[k..]);
            }
            let flow = self.flow_after_tries(stmt);
            if !flow.leaves() {
                self.stmt(stmt);
                if !flow.falls {
                    return;
                }
                continue;
            }
            let rest = &stmts[k + 1..];
            let span = self.lw.program.ast.stmts[stmt].span;
            self.nested(span, |body| body.with_rest(stmt, flow, rest));
            return;
        }
    }

    /// Lowers `defer body; rest`: however control leaves the rest, it continues after `rest` here, where
    /// `body` runs.
    fn deferred(&mut self, body: StmtId, rest: &[StmtId]) {
        let span = self.lw.program.ast.stmts[body].span;
        self.nested(span, |b| {
            b.list(rest);
            if b.flow(body).leaves() {
                b.lw.error("E30108", span, "control cannot leave a 'defer' statement");
            } else {
                b.list(&[body]);
            }
        });
    }

    /// Returns true if a list of statements has a `defer` of its own, so that it must end where its block
    /// does.
    fn defers(&self, stmts: &[StmtId]) -> bool {
        stmts.iter().any(|&s| matches!(self.lw.program.ast.stmts[s].kind, StmtKind::Defer(_)))
    }

    /// Lowers a statement, and the rest of its list if it may leave.
    pub(crate) fn with_rest(&mut self, stmt: StmtId, flow: Flow, rest: &[StmtId]) {
        let node = &self.lw.program.ast.stmts[stmt];
        self.b.span = ir_span(node.span);
        match node.kind.clone() {
            StmtKind::Return(value) => self.exit_return(value),
            StmtKind::IntrinsicAsm(text) => {
                let value = self.lw.program.tables.intrinsics.get(&stmt).copied();
                if value.is_none() {
                    let what = format_args!("`__intrinsic_asm` with the text \"{text}\" is");
                    self.lw.unsupported_here(node.span, what);
                }
                self.exit_return(value);
            }
            StmtKind::Break | StmtKind::BreakTo { .. } | StmtKind::Continue => self.set_flags(flow),
            StmtKind::Throw(value) => {
                let error = self.expr(value);
                self.leave_with(value, error);
            }
            StmtKind::Block(stmts) if rest.is_empty() || !self.defers(&stmts) => {
                if rest.is_empty() {
                    self.list(&stmts);
                } else {
                    let all: Vec<StmtId> = stmts.into_iter().chain(rest.iter().copied()).collect();
                    self.list(&all);
                }
            }
            StmtKind::TargetSwitch(_) => {
                let case = self.lw.program.target_case(stmt);
                if case.is_none() {
                    self.lw.unsupported_here(node.span, "a `__target_switch` without a case for the CPU is");
                }
                let stmts = case.unwrap_or_default();
                let all: Vec<StmtId> = stmts.into_iter().chain(rest.iter().copied()).collect();
                self.list(&all);
            }
            StmtKind::If { cond, then, otherwise } if self.known_condition(cond).is_some() => {
                let taken = if self.known_condition(cond) == Some(true) { Some(then) } else { otherwise };
                let all: Vec<StmtId> = taken.into_iter().chain(rest.iter().copied()).collect();
                self.list(&all);
            }
            StmtKind::If { cond, then, otherwise } => {
                let values = self.expr(cond);
                let Some(&cond) = values.first() else { return };
                self.leaving_if(cond, None, then, otherwise, rest);
            }
            StmtKind::IfLet { var, then, otherwise } => {
                let Some((cond, value)) = self.optional_init(var) else { return };
                self.leaving_if(cond, Some((var, value)), then, otherwise, rest);
            }
            _ => {
                if rest.is_empty() || !flow.falls {
                    self.stmt(stmt);
                } else {
                    self.observe(flow, 1);
                    self.stmt(stmt);
                    self.observe(flow, -1);
                    self.guarded(flow, rest);
                }
            }
        }
    }

    fn leaving_if(
        &mut self,
        cond: Value,
        bound: Option<(syntax::DeclId, Vec<Value>)>,
        then: StmtId,
        otherwise: Option<StmtId>,
        rest: &[StmtId],
    ) {
        let then_flow = self.flow(then);
        let else_flow = match otherwise {
            Some(s) => self.flow(s),
            None => Flow::FALLS,
        };
        let bind = |body: &mut Self| {
            if let Some((var, value)) = &bound {
                body.bind_optional(*var, value.clone());
            }
        };
        let with_rest = |first: Option<StmtId>, take: bool| -> Vec<StmtId> {
            let rest = if take { rest } else { &[] };
            first.into_iter().chain(rest.iter().copied()).collect()
        };
        let both_fall = then_flow.falls && else_flow.falls && !rest.is_empty();
        let then_list = with_rest(Some(then), then_flow.falls && !both_fall);
        let else_list = with_rest(otherwise, else_flow.falls && !both_fall);
        let flow = then_flow.or(else_flow);
        if both_fall {
            self.observe(flow, 1);
        }
        self.branch(
            cond,
            |body| {
                bind(body);
                body.list(&then_list);
            },
            |body| body.list(&else_list),
        );
        if both_fall {
            self.observe(flow, -1);
            self.guarded(flow, rest);
        }
    }

    /// Runs the rest of a list unless control has left.
    fn guarded(&mut self, flow: Flow, rest: &[StmtId]) {
        if rest.is_empty() {
            return;
        }
        let Some(left) = self.left(flow) else {
            self.list(rest);
            return;
        };
        let rest = rest.to_vec();
        self.branch(left, |_| {}, |body| body.list(&rest));
    }

    /// Emits a test that control has left in one of the ways in `flow`. Returns `None` if there are no flags.
    pub(crate) fn left(&mut self, flow: Flow) -> Option<Value> {
        let mut flags = Vec::new();
        self.exits.each_flag(flow, |flag| flags.push(flag.slot));
        let mut left = None;
        for flag in flags {
            let Slot::Value(flag) = self.env[flag] else { continue };
            left = Some(match left {
                None => flag,
                Some(other) => self.b.emit(Op::Or, &[other, flag]),
            });
        }
        left
    }

    /// Updates the numbers of constructs that read the flags.
    pub(crate) fn observe(&mut self, flow: Flow, change: i32) {
        self.exits.each_flag(flow, |flag| flag.readers = flag.readers.wrapping_add_signed(change));
    }

    /// Sets the flags of these ways out, if they are read.
    pub(crate) fn set_flags(&mut self, flow: Flow) {
        let mut read = Vec::new();
        self.exits.each_flag(flow, |flag| read.extend((flag.readers > 0).then_some(flag.slot)));
        for slot in read {
            self.env[slot] = Slot::Value(self.b.bool(true));
        }
    }

    fn exit_return(&mut self, value: Option<ExprId>) {
        if let Some(value) = value {
            let span = self.span_of(value);
            let values = self.expr_as(value, self.ret_ty, span);
            if self.is_init {
                // A constructor's result is the new object.
                self.write(&Place::local(self.locals.vars[&Name::This]), values);
            } else if let Some(ret) = self.exits.ret {
                for (k, value) in values.into_iter().take(ret.len).enumerate() {
                    self.env[ret.start + k] = Slot::Value(value);
                }
            }
        }
        self.set_flags(Flow { returns: true, ..Flow::default() });
    }
}
