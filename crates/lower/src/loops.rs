//! Loops.
//!
//! `for (i = a; i < b; i += c)`, if nothing else writes `i` or the operands of `b`, and nothing leaves the
//! loop early, becomes [`Op::For`] with its exact number of trips. Every other loop becomes [`Op::Loop`]: the
//! body runs, and returns a flag that says whether to run it again. The variables that the loop assigns are
//! carried; a check afterwards makes sure that nothing else has changed.

use check::tables::Meaning;
use check::types::TyKind;
use ir::{Checkpoint, LoopInfo, Op, Region, Scalar, Value};
use syntax::ast::{Attribute, BinaryOp, DeclKind, ExprKind, Modifiers, StmtKind, UNROLLED};
use syntax::{DeclId, ExprId, StmtId};

use crate::body::{Body, Flow, Name, Slot, Target};
use crate::locals::Scan;
use crate::lowerer::ir_span;
use crate::statements::truncate;

/// A counted loop.
struct Counted {
    var: DeclId,
    start: Start,
    limit: ExprId,
    /// The comparison `i op limit`, with `i` on the left.
    op: BinaryOp,
    step: i64,
}

/// The source of the loop variable's first value.
enum Start {
    /// The loop declares the variable.
    Declared(StmtId),
    /// The loop's first part assigns the variable, or it keeps its value.
    Present(Option<StmtId>),
}

/// A loop whose body is being lowered.
struct OpenLoop {
    region: Region,
    counter: Option<Value>,
    /// The slots that it carries, and their values before it.
    carried: Vec<usize>,
    inits: Vec<Value>,
    before: Vec<Slot>,
    /// The number of slots outside of the loop.
    outer: usize,
}

impl Body<'_, '_, '_> {
    /// Returns true if an expression is the literal `true`.
    pub(crate) fn is_true(&self, e: ExprId) -> bool {
        match &self.lw.program.ast.exprs[e].kind {
            ExprKind::Bool(b) => *b,
            ExprKind::Paren(inner) => self.is_true(*inner),
            ExprKind::Int { value, .. } => *value != 0,
            _ => false,
        }
    }

    /// The attributes `[MaxIters(n)]`, `[ForceUnroll]`, `[Checkpoint(n)]` and `[CheckpointStates(n)]` of a loop.
    fn loop_info(&mut self, stmt: StmtId) -> LoopInfo {
        let mut info = LoopInfo::default();
        for attribute in self.lw.program.ast.stmts[stmt].attributes.clone() {
            match self.lw.program.ast.name(attribute.name) {
                "MaxIters" => info.max_iters = self.number_in(&attribute),
                "ForceUnroll" | UNROLLED => info.unroll = true,
                "Checkpoint" if attribute.args.is_empty() => info.checkpoint = Some(Checkpoint::Root),
                "Checkpoint" => info.checkpoint = self.positive_in(&attribute).map(Checkpoint::Every),
                "CheckpointStates" => info.checkpoint = self.positive_in(&attribute).map(Checkpoint::States),
                _ => {}
            }
        }
        info
    }

    /// The number of an attribute, which must be positive.
    fn positive_in(&mut self, attribute: &Attribute) -> Option<u32> {
        let n = self.number_in(attribute).filter(|&n| n > 0);
        if n.is_none() {
            let name = self.lw.program.ast.name(attribute.name);
            let message =
                format!("`[{name}(n)]` needs a positive number that is known when the program is compiled");
            self.lw.error("E0924", attribute.span, message);
        }
        n
    }

    fn number_in(&mut self, attribute: &Attribute) -> Option<u32> {
        let n = self.lw.program.const_int(*attribute.args.first()?, &self.subst)?;
        u32::try_from(n).ok()
    }

    /// The slots that a loop must carry.
    fn carried(&self, scan: &Scan, flow: Flow) -> Vec<usize> {
        let mut slots = Vec::new();
        for name in scan.assigned.iter().filter(|n| !scan.declared.contains(*n)) {
            if let Some(var) = self.locals.vars.get(name) {
                slots.extend((var.start..var.start + var.len).filter(|&s| s < self.env.len()));
            }
        }
        if flow.returns {
            slots.push(self.exits.returned.slot);
            for var in self.exits.ret.into_iter().chain(self.exits.thrown) {
                slots.extend(var.start..var.start + var.len);
            }
        }
        for (level, label) in self.exits.labels.iter().enumerate() {
            if flow.labels >> level & 1 != 0 {
                slots.push(label.flag.slot);
                slots.extend(label.slots.clone());
            }
        }
        slots.retain(|&s| matches!(self.env[s], Slot::Value(_)));
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Opens the region of a loop, whose parameters are a counter, if it has one, and the carried slots.
    fn open_loop(&mut self, carried: Vec<usize>, outer: usize, counter: Option<ir::Type>) -> OpenLoop {
        let inits: Vec<Value> = carried.iter().map(|&s| self.read_slot(s)).collect();
        let before = self.env.clone();
        let region = self.b.open();
        let counter = counter.map(|ty| self.b.region_param(ty));
        for (&slot, &value) in carried.iter().zip(&inits) {
            let param = self.b.region_param(self.b.func.ty(value));
            self.keep_name(value, param);
            self.env[slot] = Slot::Value(param);
        }
        OpenLoop { region, counter, carried, inits, before, outer }
    }

    /// Closes the region of a loop and emits the loop. `args` and `results` come before those of the carried
    /// slots.
    fn close_loop(&mut self, stmt: StmtId, open: OpenLoop, op: Op, args: &[Value], results: &[Value]) {
        let OpenLoop { region, carried, inits, before, outer, .. } = open;
        let carried_results = carried.iter().map(|&s| match self.env[s] {
            Slot::Value(v) | Slot::Cell(v) => v,
        });
        let results = results.iter().copied().chain(carried_results).collect();
        self.b.close(results);
        self.env.truncate(before.len());
        self.check_carried(&before[..outer], &carried, stmt);
        self.b.span = ir_span(self.lw.program.ast.stmts[stmt].span);
        let values = self.b.nest(op, &[args, &inits].concat(), &[region]);
        self.env = before;
        for ((&slot, value), old) in carried.iter().zip(values).zip(inits) {
            self.keep_name(old, value);
            self.env[slot] = Slot::Value(value);
        }
    }

    /// Checks that only the carried slots have changed.
    fn check_carried(&mut self, before: &[Slot], carried: &[usize], stmt: StmtId) {
        let missed = (0..before.len()).any(|s| self.env[s] != before[s] && !carried.contains(&s));
        if missed {
            let span = self.lw.program.ast.stmts[stmt].span;
            self.lw.internal(span, "a loop assigns a variable that it does not carry");
        }
    }

    pub(crate) fn for_loop(
        &mut self,
        stmt: StmtId,
        init: Option<StmtId>,
        cond: Option<ExprId>,
        step: Option<ExprId>,
        body: StmtId,
    ) {
        if let Some(counted) = self.counted(init, cond, step, body) {
            self.counted_loop(stmt, &counted, body);
            return;
        }
        if let Some(init) = init {
            self.stmt(init);
        }
        self.general_loop(stmt, [cond, None], body, step);
    }

    /// Lowers a loop as `loop { if first { body; step; last } else { stop } }`, with its conditions before and
    /// after the body.
    pub(crate) fn general_loop(
        &mut self,
        stmt: StmtId,
        conditions: [Option<ExprId>; 2],
        body: StmtId,
        step: Option<ExprId>,
    ) {
        let info = self.loop_info(stmt);
        let [first, last] = conditions.map(|cond| cond.filter(|&c| !self.is_true(c)));
        let flow = self.flow(body);
        let mut scan = Scan::default();
        for e in first.into_iter().chain(last).chain(step) {
            self.scan_expr(e, &mut scan);
        }
        self.scan_stmt(body, &mut scan);

        let outer = self.env.len();
        let (broke, continued) = (self.new_flag(1), self.new_flag(0));
        let again = self.new_flag(0).slot;
        self.exits.targets.push(Target { is_loop: true, broke, continued });
        let observed = Flow { returns: true, labels: flow.labels, ..Flow::default() };
        self.observe(observed, 1);

        let open = self.open_loop(self.carried(&scan, flow), outer, None);
        let run = |b: &mut Self| {
            b.list(&[body]);
            let left = b.left(Flow { continues: false, ..flow });
            b.guard_again(left, again, |b| {
                if let Some(step) = step {
                    b.expr_raw(step);
                }
                match last {
                    Some(last) => b.expr(last).first().copied(),
                    None => Some(b.b.bool(true)),
                }
            });
        };
        match first.map(|first| self.expr(first).first().copied()) {
            Some(Some(test)) => self.branch(test, run, |_| {}),
            Some(None) => {}
            None => run(self),
        }
        let again = self.read_slot(again);
        self.close_loop(stmt, open, Op::Loop(info), &[], &[again]);
        self.observe(observed, -1);
        self.exits.targets.pop();
    }

    /// Sets `again` to the result of `run`, unless control has left.
    fn guard_again(
        &mut self,
        left: Option<Value>,
        again: usize,
        run: impl FnOnce(&mut Self) -> Option<Value>,
    ) {
        let run = |b: &mut Self| {
            if let Some(value) = run(b) {
                b.env[again] = Slot::Value(value);
            }
        };
        match left {
            Some(left) => self.branch(left, |_| {}, run),
            None => run(self),
        }
    }

    // ---- loops that count

    fn counted(
        &mut self,
        init: Option<StmtId>,
        cond: Option<ExprId>,
        step: Option<ExprId>,
        body: StmtId,
    ) -> Option<Counted> {
        let (cond, step) = (self.lw.program.tables.plain(cond?), self.lw.program.tables.plain(step?));
        let Meaning::Binary(op, left, right) = self.lw.program.tables.exprs[cond].meaning else {
            return None;
        };
        // The condition may be `i < b`, or `b > i`.
        let stepped = self.stepped(step)?;
        let (op, limit, compared) = if self.variable(left) == Some(stepped.0) {
            (op, right, left)
        } else if self.variable(right) == Some(stepped.0) {
            let op = match op {
                BinaryOp::Lt => BinaryOp::Gt,
                BinaryOp::Le => BinaryOp::Ge,
                BinaryOp::Gt => BinaryOp::Lt,
                BinaryOp::Ge => BinaryOp::Le,
                other => other,
            };
            (op, left, right)
        } else {
            return None;
        };
        let (var, step) = stepped;
        if self.locals.addressed.contains_key(&var) {
            return None;
        }
        let fits = match op {
            BinaryOp::Lt | BinaryOp::Le => step > 0,
            BinaryOp::Gt | BinaryOp::Ge => step < 0,
            BinaryOp::Ne => step == 1 || step == -1,
            _ => false,
        };
        // Both types are 32 or 64 bits wide, so counting in one type is the same as counting in the other.
        let own = self.raw_ty(compared);
        let common = self.expr_ty(compared);
        let own = self.lw.scalar_of(own).filter(|s| s.is_int())?;
        let common = self.lw.scalar_of(common).filter(|s| s.is_int())?;
        if !fits || own.bytes() != common.bytes() || own.bytes() < 4 {
            return None;
        }
        let flow = self.flow(body);
        if flow.breaks || flow.returns || flow.labels != 0 {
            return None;
        }
        let start = match init {
            Some(s) => match &self.lw.program.ast.stmts[s].kind {
                StmtKind::Decl(decls) if decls.as_slice() == [var] => Start::Declared(s),
                StmtKind::Expr(_) => Start::Present(Some(s)),
                StmtKind::Empty => Start::Present(None),
                _ => return None,
            },
            None => Start::Present(None),
        };
        let mut scan = Scan::default();
        self.scan_stmt(body, &mut scan);
        if scan.assigned.contains(&Name::Decl(var)) {
            return None;
        }
        if !self.is_invariant(limit, &scan, var, 0) {
            return None;
        }
        if matches!(start, Start::Present(_)) && !self.locals.vars.contains_key(&Name::Decl(var)) {
            return None;
        }
        Some(Counted { var, start, limit, op, step })
    }

    fn variable(&self, e: ExprId) -> Option<DeclId> {
        match self.lw.program.tables.exprs[self.lw.program.tables.plain(e)].meaning {
            Meaning::Var(d) => Some(d),
            _ => None,
        }
    }

    /// Matches `i++`, `i += 2`, `i = i + 2`: the variable and the constant step.
    fn stepped(&mut self, step: ExprId) -> Option<(DeclId, i64)> {
        match self.lw.program.tables.exprs[step].meaning.clone() {
            Meaning::IncDec(e) => {
                let var = self.variable(e)?;
                let up = match self.lw.program.ast.exprs[step].kind {
                    ExprKind::Postfix(up, _) => up,
                    ExprKind::Unary(op, _) => op == syntax::ast::UnaryOp::PreInc,
                    _ => return None,
                };
                Some((var, if up { 1 } else { -1 }))
            }
            Meaning::Assign { op, target, value } => {
                let var = self.variable(target)?;
                let (op, amount) = match op {
                    Some(op) => (op, value),
                    None => match self.lw.program.tables.exprs[self.lw.program.tables.plain(value)].meaning {
                        Meaning::Binary(op, left, right) if self.variable(left) == Some(var) => (op, right),
                        _ => return None,
                    },
                };
                let ty = self.raw_ty(amount);
                self.lw.scalar_of(ty).filter(|s| s.is_int())?;
                let amount = self.lw.program.const_int(amount, &self.subst)?;
                let amount = match op {
                    BinaryOp::Add => amount,
                    BinaryOp::Sub => amount.checked_neg()?,
                    _ => return None,
                };
                (amount != 0 && i32::try_from(amount).is_ok()).then_some((var, amount))
            }
            _ => None,
        }
    }

    /// Returns true if an expression has no effect and keeps its value while the loop runs.
    fn is_invariant(&mut self, e: ExprId, scan: &Scan, var: DeclId, depth: u32) -> bool {
        if depth > 64 {
            return false;
        }
        match self.lw.program.tables.exprs[e].meaning.clone() {
            Meaning::Literal | Meaning::Const(_) | Meaning::Value(_) | Meaning::EnumCase(_) => true,
            Meaning::Var(d) => {
                if d == var
                    || scan.assigned.contains(&Name::Decl(d))
                    || self.locals.in_memory.contains_key(&Name::Decl(d))
                {
                    return false;
                }
                if self.locals.vars.contains_key(&Name::Decl(d)) {
                    return true;
                }
                // Globals qualify if they are constants or written only by the host.
                let decl = &self.lw.program.ast.decls[d];
                let modifiers = decl.modifiers;
                let is_const = modifiers.has(Modifiers::CONST);
                let is_private = modifiers.has(Modifiers::STATIC) || modifiers.has(Modifiers::GROUPSHARED);
                matches!(decl.kind, DeclKind::Var { .. }) && (is_const || !is_private)
            }
            Meaning::This => !scan.assigned.contains(&Name::This),
            Meaning::Field { base: None, .. } => !scan.assigned.contains(&Name::This),
            Meaning::Field { base: Some(b), .. }
            | Meaning::Same(b)
            | Meaning::Cast(b)
            | Meaning::Unary(_, b)
            | Meaning::TupleField { base: b, .. }
            | Meaning::PairField { base: b, .. }
            | Meaning::Swizzle { base: b, .. } => {
                let ty = self.raw_ty(b);
                if matches!(self.lw.program.types[ty], TyKind::Pointer(..)) {
                    return false;
                }
                self.is_invariant(b, scan, var, depth + 1)
            }
            Meaning::Binary(_, a, b) => {
                self.is_invariant(a, scan, var, depth + 1) && self.is_invariant(b, scan, var, depth + 1)
            }
            Meaning::Construct(parts) => parts.iter().all(|&p| self.is_invariant(p, scan, var, depth + 1)),
            _ => false,
        }
    }

    fn counted_loop(&mut self, stmt: StmtId, counted: &Counted, body: StmtId) {
        let info = self.loop_info(stmt);
        match counted.start {
            Start::Declared(s) | Start::Present(Some(s)) => self.stmt(s),
            Start::Present(None) => {}
        }
        let Some(&var) = self.locals.vars.get(&Name::Decl(counted.var)) else { return };
        let own = self.read_slot(var.start);
        let own_ty = self.b.func.ty(own);
        let Some(&limit) = self.expr(counted.limit).first() else { return };
        let ty = self.b.func.ty(limit);
        let start = if ty == own_ty { own } else { self.b.emit_typed(Op::Convert, &[own], ty) };
        let scalar = self.b.types.scalar_of(ty).unwrap_or(Scalar::I32);
        let trips = self.trips(counted, scalar, start, limit);

        let flow = self.flow(body);
        let mut scan = Scan::default();
        self.scan_stmt(body, &mut scan);
        let outer = self.env.len();
        let (continued, broke) = (self.new_flag(0), self.new_flag(0));
        self.exits.targets.push(Target { is_loop: true, broke, continued });
        let open = self.open_loop(self.carried(&scan, flow), outer, Some(ty));
        let Some(counter) = open.counter else { return };
        let value = self.after(counted, scalar, start, counter, own_ty);
        let name = self.lw.program.ast.name(self.lw.program.ast.decls[counted.var].name).to_owned();
        self.b.name(value, &name);
        self.env[var.start] = Slot::Value(value);
        self.list(&[body]);
        self.env[var.start] = open.before[var.start];
        self.close_loop(stmt, open, Op::For(info), &[trips], &[]);
        if matches!(counted.start, Start::Present(_)) {
            let last = self.after(counted, scalar, start, trips, own_ty);
            self.env[var.start] = Slot::Value(last);
        }
        self.exits.targets.pop();
    }

    /// Emits `start + trips * step` in the loop variable's type.
    fn after(
        &mut self,
        counted: &Counted,
        scalar: Scalar,
        start: Value,
        trips: Value,
        own: ir::Type,
    ) -> Value {
        let mut offset = trips;
        if counted.step != 1 {
            let step = self.b.constant(scalar, truncate(scalar, counted.step));
            offset = self.b.emit(Op::Mul, &[offset, step]);
        }
        let value =
            if self.constant_of(start) == Some(0) { offset } else { self.b.emit(Op::Add, &[start, offset]) };
        if self.b.func.ty(value) == own { value } else { self.b.emit_typed(Op::Convert, &[value], own) }
    }

    /// The bits of a value that is a constant.
    pub(crate) fn constant_of(&self, value: Value) -> Option<u64> {
        // Constants are emitted just before they are used, so only the last instructions are searched.
        let region = self.b.region();
        let insts = &self.b.func.regions[region].insts;
        insts.iter().rev().take(16).find_map(|&inst| {
            let data = &self.b.func.insts[inst];
            match data.op {
                Op::Const(bits) if data.results[0] == value => Some(bits),
                _ => None,
            }
        })
    }

    /// Emits the number of trips, without overflow.
    fn trips(&mut self, counted: &Counted, scalar: Scalar, start: Value, limit: Value) -> Value {
        let unsigned = if scalar.bytes() == 8 { Scalar::U64 } else { Scalar::U32 };
        let ty = scalar.into();
        let up = counted.step > 0;
        let (low, high) = if up { (start, limit) } else { (limit, start) };
        let size = counted.step.unsigned_abs();
        if counted.op == BinaryOp::Ne {
            return self.b.emit(Op::Sub, &[high, low]);
        }
        let inclusive = matches!(counted.op, BinaryOp::Le | BinaryOp::Ge);
        if let (Some(a), Some(b)) = (self.constant_of(low), self.constant_of(high)) {
            let widen = |bits: u64| match scalar {
                Scalar::I32 => bits as u32 as i32 as i128,
                Scalar::I64 => bits as i64 as i128,
                _ => bits as i128,
            };
            let (a, b) = (widen(a), widen(b));
            let span = b - a + i128::from(inclusive);
            let n = if span <= 0 { 0 } else { (span - 1) / size as i128 + 1 };
            return self.b.constant(scalar, truncate(scalar, n as i64));
        }
        // If high > low, it is (high - low - 1) / size + 1, or (high - low) / size + 1 if the bound is
        // included, unsigned.
        let mut n = self.b.emit(Op::Sub, &[high, low]);
        if inclusive || size != 1 {
            let wide = unsigned.into();
            n = self.b.emit_typed(Op::Convert, &[n], wide);
            let one = self.b.constant(unsigned, 1);
            if !inclusive {
                n = self.b.emit(Op::Sub, &[n, one]);
            }
            if size != 1 {
                let size = self.b.constant(unsigned, size);
                n = self.b.emit(Op::Div, &[n, size]);
            }
            n = self.b.emit(Op::Add, &[n, one]);
            n = self.b.emit_typed(Op::Convert, &[n], ty);
        }
        let runs = self.b.emit(if inclusive { Op::Le } else { Op::Lt }, &[low, high]);
        let zero = self.b.constant(scalar, 0);
        self.b.emit(Op::Select, &[runs, n, zero])
    }
}
