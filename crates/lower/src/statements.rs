//! Lowering of statements, with one match arm for each kind.

use check::tables::{Callable, Meaning};
use check::types::{Ty, TyKind};
use ir::{Op, Scalar, Value};
use syntax::ast::{Case, DeclKind, Modifiers, StmtKind};
use syntax::{DeclId, ExprId, StmtId};

use crate::body::{Body, Flow, Label, Name, Target};
use crate::flat::take;
use crate::lowerer::ir_span;

impl Body<'_, '_, '_> {
    /// Lowers a statement after which control falls through to the next one (or that leaves and has no
    /// successor).
    pub(crate) fn stmt(&mut self, stmt: StmtId) {
        let node = &self.lw.program.ast.stmts[stmt];
        let (kind, span) = (node.kind.clone(), node.span);
        self.b.span = ir_span(span);
        self.nested(span, |body| body.stmt_of_kind(stmt, kind));
    }

    fn stmt_of_kind(&mut self, stmt: StmtId, kind: StmtKind) {
        let span = self.lw.program.ast.stmts[stmt].span;
        match kind {
            StmtKind::Empty | StmtKind::Error => {}
            StmtKind::Block(_) | StmtKind::If { .. } | StmtKind::IfLet { .. } | StmtKind::TargetSwitch(_) => {
                self.with_rest(stmt, Flow::FALLS, &[]);
            }
            StmtKind::Expr(e) => {
                self.expr_raw(e);
            }
            StmtKind::Decl(decls) => {
                for d in decls {
                    self.local_decl(d);
                }
            }
            StmtKind::For { init, cond, step, body } => self.for_loop(stmt, init, cond, step, body),
            StmtKind::While { cond, body } => self.general_loop(stmt, [Some(cond), None], body, None),
            StmtKind::DoWhile { body, cond } => self.general_loop(stmt, [None, Some(cond)], body, None),
            StmtKind::Switch { scrutinee, cases } => self.switch(scrutinee, &cases),
            StmtKind::Break
            | StmtKind::BreakTo { .. }
            | StmtKind::Continue
            | StmtKind::Return(_)
            | StmtKind::IntrinsicAsm(_)
            | StmtKind::Throw(_)
            | StmtKind::Defer(_) => self.list(&[stmt]),
            StmtKind::DoCatch { body, level, catches } => self.do_catch(body, level, &catches),
            StmtKind::Labeled { body, .. } => {
                let flag = self.new_flag(0);
                self.exits.labels.push(Label { flag, ..Label::default() });
                self.list(&[body]);
                self.exits.labels.pop();
            }
            StmtKind::Discard => self.lw.needs_pipeline(span, "discard", "pixel shaders"),
            // The checker has replaced it by a `return` or reported an error.
            StmtKind::Unsupported(name) => {
                let name = self.lw.program.ast.name(name).to_owned();
                if name != "static_assert" {
                    self.lw.unsupported(span, format_args!("`{name}` is"));
                }
            }
        }
    }

    /// The value of a condition on types or on the device, which is known here. The branch not taken may not even be
    /// valid for these types or on this device.
    pub(crate) fn known_condition(&mut self, cond: ExprId) -> Option<bool> {
        if let Meaning::Call { func: Callable::Func(f), .. } = &self.lw.program.tables.exprs[cond].meaning
            && self.lw.intrinsic_name(f.decl).is_some_and(|name| name == "matrix_units")
        {
            return Some(self.lw.matrix_units);
        }
        self.lw.program.known_condition(cond, &self.subst)
    }

    /// The type of a local variable.
    pub(crate) fn declared_ty(&mut self, decl: DeclId) -> Ty {
        self.lw.program.tables.decl_types[decl].map_or(Ty::ERROR, |ty| self.ty(ty))
    }

    fn local_decl(&mut self, decl: DeclId) {
        if self.lw.program.tables.aliases.contains(&decl) {
            return;
        }
        if self.declare_chosen(decl) {
            return;
        }
        let node = &self.lw.program.ast.decls[decl];
        let init = match node.kind {
            DeclKind::Var { init, .. } => init,
            DeclKind::Tuple { ref parts, init } => {
                let parts = parts.clone();
                let values = self.expr(init);
                let mut rest = &values[..];
                for part in parts {
                    let ty = self.declared_ty(part);
                    let own = take(&mut rest, self.n_leaves(ty)).to_vec();
                    self.declare_var(Name::Decl(part), ty, own);
                }
                return;
            }
            _ => return,
        };
        let modifiers = node.modifiers;
        let is_global = modifiers.has(Modifiers::STATIC) && !modifiers.has(Modifiers::CONST);
        if is_global || modifiers.has(Modifiers::GROUPSHARED) {
            // Only this function sees it, and it is looked up by name when it is used.
            if let Some(init) = init.filter(|_| is_global && self.lw.is_set_when_reached(decl)) {
                self.set_when_reached(decl, init);
            }
            return;
        }
        let span = node.name_span;
        let mut ty = self.declared_ty(decl);
        let values = match init {
            Some(init) => {
                let (values, from) = self.typed(init);
                if ty == Ty::ERROR {
                    ty = from;
                }
                self.convert(values, from, ty, span)
            }
            None => self.default_value(ty, span),
        };
        self.declare_var(Name::Decl(decl), ty, values);
    }

    /// The initialiser of `let x = e` in an `if let`: the flag for the presence of a value, and the value.
    pub(crate) fn optional_init(&mut self, var: DeclId) -> Option<(Value, Vec<Value>)> {
        let mut values = self.expr(self.lw.program.ast.decls[var].kind.init()?);
        let has = values.pop()?;
        Some((has, values))
    }

    pub(crate) fn bind_optional(&mut self, var: DeclId, values: Vec<Value>) {
        let mut ty = self.declared_ty(var);
        if let TyKind::Optional(inner) = self.lw.program.types[ty]
            && self.layout(ty).leaves.len() == values.len() + 1
        {
            ty = inner;
        }
        self.declare_var(Name::Decl(var), ty, values);
    }

    /// The compile-time value of a `case` label.
    fn label(&mut self, e: ExprId) -> Option<i64> {
        let mut inner = e;
        loop {
            match self.lw.program.tables.exprs[inner].meaning {
                Meaning::EnumCase(case) => return Some(self.lw.program.enum_case_value(case)),
                Meaning::Same(next) => inner = next,
                _ => break,
            }
        }
        let value = self.lw.program.const_int(e, &self.subst);
        if value.is_none() {
            self.lw.error("E39001", self.span_of(e), "a case has to be a constant");
        }
        value
    }

    /// The statements that a `switch` runs from a case on.
    fn statements_from(&mut self, cases: &[Case]) -> Vec<StmtId> {
        let mut body: Vec<StmtId> = Vec::new();
        for later in cases {
            body.extend(&later.body);
            if later.body.iter().any(|&s| !self.flow(s).falls) {
                break;
            }
        }
        body
    }

    /// The case of a `switch` for a value that is known.
    fn known_case(&mut self, value: i64, cases: &[Case]) -> Vec<StmtId> {
        let mut found = None;
        for (k, case) in cases.iter().enumerate() {
            let is_default = case.labels.contains(&None) && found.is_none();
            if is_default || case.labels.iter().flatten().any(|&label| self.label(label) == Some(value)) {
                found = Some(k);
                if !is_default {
                    break;
                }
            }
        }
        found.map_or(Vec::new(), |k| self.statements_from(&cases[k..]))
    }

    fn switch(&mut self, scrutinee: ExprId, cases: &[Case]) {
        if let Some(value) = self.lw.program.known_value(scrutinee, &self.subst) {
            let body = self.known_case(value, cases);
            let broke = self.new_flag(0);
            self.exits.targets.push(Target { broke, ..Target::default() });
            self.list(&body);
            self.exits.targets.pop();
            return;
        }
        let values = self.expr(scrutinee);
        let Some(&value) = values.first() else { return };
        // The scrutinee is an enumeration based on `bool`.
        let value = if self.b.func.ty(value) == ir::Type::BOOL {
            self.convert_leaf(value, ir::Type::U32)
        } else {
            value
        };
        let scalar = self.b.types.scalar_of(self.b.func.ty(value)).unwrap_or(Scalar::I32);
        let broke = self.new_flag(0);
        self.exits.targets.push(Target { broke, ..Target::default() });
        // The labels, each with its group: the labels of one body.
        let mut labels: Vec<(i64, usize)> = Vec::new();
        let mut bodies: Vec<Vec<StmtId>> = Vec::new();
        let mut default: Vec<StmtId> = Vec::new();
        for (k, case) in cases.iter().enumerate() {
            let body = self.statements_from(&cases[k..]);
            if case.labels.contains(&None) {
                default.clone_from(&body);
                continue; // labels beside `default` are the default
            }
            for &label in case.labels.iter().flatten() {
                labels.extend(self.label(label).map(|tag| (tag, bodies.len())));
            }
            bodies.push(body);
        }
        let several = cases.iter().any(|case| case.labels.len() > 1 && !case.labels.contains(&None));
        let (tag, tags): (Value, Vec<i64>) = if several {
            // There is one number for each group of labels, so no body is lowered twice.
            let mut tag = self.b.u32(bodies.len() as u32);
            for (label, group) in labels {
                let constant = self.b.constant(scalar, truncate(scalar, label));
                let hit = self.b.emit(Op::Eq, &[value, constant]);
                let number = self.b.u32(group as u32);
                tag = self.b.emit(Op::Select, &[hit, number, tag]);
            }
            (tag, (0..bodies.len() as i64).collect())
        } else {
            (value, labels.into_iter().map(|label| label.0).collect())
        };
        let span = self.b.span;
        let bodies = bodies.iter().chain([&default]);
        let arms: Vec<_> = bodies.map(|body| self.arm(|b| b.list(body))).collect();
        self.b.span = span;
        if arms.len() == tags.len() + 1 {
            self.join(Op::Switch(tags.into()), &[tag], &arms);
        }
        self.exits.targets.pop();
    }
}

/// The bits of an integer in a scalar type.
pub(crate) fn truncate(scalar: Scalar, value: i64) -> u64 {
    match scalar.bytes() {
        1 => value as u8 as u64,
        2 => value as u16 as u64,
        4 => value as u32 as u64,
        _ => value as u64,
    }
}
