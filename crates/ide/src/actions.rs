//! Proposes changes of the program: the fixes of diagnostics about derivatives, and marks that functions and loops can
//! be given.

use check::tables::{Callable, DiffOp, FuncRef, Meaning};
use check::types::TyKind;
use check::{Direction, ModuleId};
use syntax::ast::{DeclKind, ExprKind, StmtKind, UNROLLED};
use syntax::{DeclId, ExprId, Span};

use crate::Analysis;
use crate::words::{Piece, pieces};

/// A change that the user may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The text of the menu.
    pub title: String,
    /// The change fixes the diagnostic of this code at this place; otherwise it is offered anywhere.
    pub fixes: Option<(String, u32, u32)>,
    /// The replacements, each with the place that it replaces.
    pub edits: Vec<(Span, String)>,
}

/// The number of trips that is written where the user has to decide.
const TRIPS: u32 = 100;

impl Analysis {
    /// The changes that make sense between two offsets of the file, where there are these diagnostics: their codes
    /// and places.
    pub fn actions(&mut self, start: u32, end: u32, diagnostics: &[(String, u32, u32)]) -> Vec<Action> {
        self.check_range(self.file, start, end);
        let mut actions = Vec::new();
        for diagnostic in diagnostics {
            let (code, from, to) = diagnostic;
            let span = Span { file: self.file, start: *from, end: *to };
            let found = match &code[..] {
                "E41022" => self.fix_lost_call(span),
                "E41031" => self.fix_lost_assignment(span),
                "E31149" => self.fix_signature(span).into_iter().collect(),
                "E30019" => self.wrap_in_pair(span).into_iter().collect(),
                _ => Vec::new(),
            };
            actions.extend(found.into_iter().map(|a| Action { fixes: Some(diagnostic.clone()), ..a }));
        }
        actions.extend(self.mark_function(start));
        actions.extend(self.bound_loop(start));
        actions
    }

    /// The innermost expression with exactly this place, and `accept`ed.
    fn expr_at(&self, span: Span, accept: impl Fn(ExprId) -> bool) -> Option<ExprId> {
        let exprs = self.program.ast.exprs.iter();
        exprs.filter(|e| e.1.span == span).map(|e| e.0).find(|&e| accept(e))
    }

    fn insert(&self, offset: u32, text: &str) -> (Span, String) {
        (Span { file: self.file, start: offset, end: offset }, text.to_string())
    }

    /// The end of lines in a file, and the spaces before a place on its line.
    fn line_style(&self, span: Span) -> (&'static str, String) {
        let files = &self.session.sources.files;
        let text = files.get(span.file.0 as usize).map_or("", |f| &f.text);
        let before = text.get(..span.start as usize).unwrap_or("");
        let line = &before[before.rfind('\n').map_or(0, |n| n + 1)..];
        let indent = line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        (if text.contains("\r\n") { "\r\n" } else { "\n" }, indent)
    }

    /// A line with an attribute before a declaration or statement at a place.
    fn attribute_line(&self, attribute: &str, span: Span) -> (Span, String) {
        let (end, indent) = self.line_style(span);
        (Span { end: span.start, ..span }, format!("{attribute}{end}{indent}"))
    }

    /// `[Differentiable]` before the function, or `no_diff` before the call, whose derivative is lost.
    fn fix_lost_call(&mut self, span: Span) -> Vec<Action> {
        let is_call = |e: ExprId| matches!(self.program.tables.exprs[e].meaning, Meaning::Call { .. });
        let Some(call) = self.expr_at(span, is_call) else { return Vec::new() };
        let Meaning::Call { func, .. } = self.program.tables.exprs[call].meaning.clone() else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        if let Some(decl) = func.function().map(|f| f.decl).filter(|&d| !self.program.is_core(d)) {
            let name = self.name_of(decl);
            let title = format!("Mark `{name}` as [Differentiable]");
            actions.push(Action { title, fixes: None, edits: vec![self.mark(decl)] });
        }
        let title = "State by `no_diff` that the derivative is not wanted".to_string();
        actions.push(Action { title, fixes: None, edits: vec![self.insert(span.start, "no_diff ")] });
        actions
    }

    fn mark(&self, decl: DeclId) -> (Span, String) {
        let d = &self.program.ast.decls[decl];
        // An attribute's place does not contain its bracket.
        let text = self.session.sources.files.get(d.span.file.0 as usize).map_or("", |f| &f.text);
        let start = d.attributes.iter().map(|a| a.span.start).min().unwrap_or(d.span.start).min(d.span.start);
        let before = text.get(..start as usize).unwrap_or("");
        let start = match before.trim_end().strip_suffix('[') {
            Some(rest) if start < d.span.start || !d.attributes.is_empty() => {
                rest.trim_end_matches('[').len() as u32
            }
            _ => start,
        };
        self.attribute_line("[Differentiable]", Span { start, end: start, ..d.span })
    }

    /// `detach` around a value whose derivative is lost where it is assigned.
    fn fix_lost_assignment(&mut self, span: Span) -> Vec<Action> {
        let is_assignment = |e: ExprId| matches!(self.program.ast.exprs[e].kind, ExprKind::Assign(None, ..));
        let Some(found) = self.expr_at(span, is_assignment) else { return Vec::new() };
        let ExprKind::Assign(_, _, value) = self.program.ast.exprs[found].kind else { return Vec::new() };
        let value = self.program.ast.exprs[value].span;
        let title = "State by `detach` that the derivative is not wanted".to_string();
        let edits = vec![self.insert(value.start, "detach("), self.insert(value.end, ")")];
        vec![Action { title, fixes: None, edits }]
    }

    /// The parameters that a custom derivative needs, in place of its own. The diagnostic is at the name in the
    /// attribute, of the function or of its derivative.
    fn fix_signature(&mut self, span: Span) -> Option<Action> {
        let decls = self.program.ast.decls.iter();
        let (owner, attribute) = decls
            .filter(|d| d.1.span.file == span.file)
            .flat_map(|(id, d)| d.attributes.iter().map(move |a| (id, a)))
            .find(|(_, a)| a.args.iter().any(|&arg| self.program.ast.exprs[arg].span == span))?;
        let (name, &argument) = (self.program.ast.name(attribute.name).to_string(), attribute.args.first()?);
        let named = self.program.functions_in_attribute(owner, argument).first().copied()?;
        let (primal, derivative, op) = match &name[..] {
            "ForwardDerivative" => (owner, named, DiffOp::Fwd),
            "BackwardDerivative" => (owner, named, DiffOp::Bwd),
            "ForwardDerivativeOf" => (named, owner, DiffOp::Fwd),
            "BackwardDerivativeOf" => (named, owner, DiffOp::Bwd),
            _ => return None,
        };
        let Callable::Func(FuncRef { decl, args, self_ty }) = self.as_callable(primal) else { return None };
        let wanted = Callable::of(FuncRef { decl, args, self_ty }, &[op], ModuleId(0));
        let signature = self.program.callable_signature(&wanted);
        let mut params: Vec<String> = Vec::new();
        for param in &signature.params {
            let direction = match param.dir {
                Direction::In | Direction::ConstRef => "",
                Direction::Out => "out ",
                Direction::InOut | Direction::Ref => "inout ",
            };
            let name = param.decl.map_or("resultGradient", |d| self.name_of(d));
            params.push(format!("{direction}{} {name}", self.program.type_name(param.ty)));
        }
        let DeclKind::Func { result: Some(result), .. } = self.program.ast.decls[derivative].kind else {
            return None;
        };
        let d = &self.program.ast.decls[derivative];
        let (result, name_span) = (self.program.ast.exprs[result].span, d.name_span);
        let list = self.brackets_after(name_span)?;
        let title = format!(
            "Give `{}` the parameters of a derivative of `{}`",
            self.name_of(derivative),
            self.name_of(primal)
        );
        let edits =
            vec![(result, self.program.type_name(signature.ret)), (list, format!("({})", params.join(", ")))];
        // `func f(…) -> T` has its result after the list.
        (result.end <= name_span.start).then_some(Action { title, fixes: None, edits })
    }

    /// The bracket after a name, with its content.
    fn brackets_after(&self, name: Span) -> Option<Span> {
        let text = &self.session.sources.files.get(name.file.0 as usize)?.text;
        let rest = text.get(name.end as usize..)?;
        let (mut depth, mut open) = (0, None);
        for (piece, start, end) in pieces(rest) {
            match (piece, rest.as_bytes()[start]) {
                (Piece::Mark, b'(') => {
                    open.get_or_insert(start);
                    depth += 1;
                }
                (Piece::Mark, b')') => {
                    depth -= 1;
                    if depth == 0 {
                        let start = name.end + open? as u32;
                        return Some(Span { start, end: name.end + end as u32, ..name });
                    }
                }
                (Piece::Mark, b'{' | b';') if open.is_none() => return None,
                _ => {}
            }
        }
        None
    }

    /// `diffPair(x)` in place of an argument `x`. A pair that the callee writes is put into a variable before the
    /// statement.
    fn wrap_in_pair(&mut self, span: Span) -> Option<Action> {
        let arg = self.expr_at(span, |_| true)?;
        let parents = self.parents(self.file);
        let mut call = *parents.get(&arg)?;
        while !matches!(self.program.ast.exprs[call].kind, ExprKind::Call { .. }) {
            call = *parents.get(&call)?;
        }
        let ExprKind::Call { callee, args } = self.program.ast.exprs[call].kind.clone() else { return None };
        let position = args.iter().position(|&a| a == arg)?;
        let text = self.text(span).to_string();
        let signature = match self.program.tables.exprs[callee].meaning.clone() {
            Meaning::Func { func, .. } => Some(self.program.callable_signature(&func)),
            _ => self.signature_of_operator(callee),
        };
        let param = signature.and_then(|s| s.params.get(position).cloned());
        if param.as_ref().is_some_and(|p| !matches!(self.program.types[p.ty], TyKind::DiffPair(_))) {
            return None;
        }
        let title = format!("Wrap `{text}` in `diffPair`");
        if !param?.dir.is_written() {
            return Some(Action { title, fixes: None, edits: vec![(span, format!("diffPair({text})"))] });
        }
        let is_simple = crate::words::is_name(&text);
        let base = if is_simple { format!("{text}Pair") } else { "pair".to_string() };
        let mut name = base.clone();
        let mut n = 2;
        while self.program.ast.symbols.find(&name).is_some() {
            name = format!("{base}{n}");
            n += 1;
        }
        let statement = self.statement_around(span)?;
        let (end, indent) = self.line_style(statement);
        let before = Span { end: statement.start, ..statement };
        let edits = vec![(before, format!("var {name} = diffPair({text});{end}{indent}")), (span, name)];
        Some(Action { title, fixes: None, edits })
    }

    /// The signature of `bwd_diff(f)`, where a call with wrong arguments has no meaning.
    fn signature_of_operator(&mut self, callee: ExprId) -> Option<check::Signature> {
        let (mut ops, mut at) = (Vec::new(), callee);
        loop {
            match self.program.ast.exprs[at].kind {
                ExprKind::Derivative(op, inner) => {
                    ops.push(op);
                    at = inner;
                }
                ExprKind::Paren(inner) => at = inner,
                _ => break,
            }
        }
        let owner = self.function_of_expr(self.program.ast.exprs[callee].span)?;
        let named = self.program.functions_in_attribute(owner, at).first().copied()?;
        let Callable::Func(func) = self.as_callable(named) else { return None };
        Some(self.program.callable_signature(&Callable::of(func, &ops, ModuleId(0))))
    }

    /// The innermost function around a place.
    fn function_of_expr(&self, span: Span) -> Option<DeclId> {
        let functions = self.functions_within(span.file, span.start, span.end);
        let len = |d: &DeclId| self.program.ast.decls[*d].span.end - self.program.ast.decls[*d].span.start;
        functions.into_iter().min_by_key(len)
    }

    /// The innermost statement in a block around a place.
    fn statement_around(&self, span: Span) -> Option<Span> {
        let stmts = &self.program.ast.stmts;
        let is_around = |s: Span| s.file == span.file && s.start <= span.start && span.end <= s.end;
        let inner = stmts.values().filter_map(|s| match &s.kind {
            StmtKind::Block(list) => list.iter().map(|&s| stmts[s].span).find(|&s| is_around(s)),
            _ => None,
        });
        inner.min_by_key(|s| s.end - s.start)
    }

    /// `[Differentiable]` before a function whose name is at an offset, or whose head.
    fn mark_function(&mut self, offset: u32) -> Option<Action> {
        let decl = self.functions_within(self.file, offset, offset).into_iter().find(|&d| {
            let body = self.program.ast.decls[d].kind.body().map(|b| self.program.ast.stmts[b].span.start);
            body.is_some_and(|start| offset < start)
        })?;
        let is_function = matches!(self.program.ast.decls[decl].kind, DeclKind::Func { .. });
        if !is_function || self.is_differentiable(decl) {
            return None;
        }
        let Callable::Func(func) = self.as_callable(decl) else { return None };
        let signature = self.program.func_signature(&func);
        let has_input =
            signature.params.iter().any(|p| p.has_tangent()) || signature.has_differentiable_this();
        let has_output = signature.returns_differential()
            || signature.params.iter().any(|p| p.dir.is_written() && p.has_tangent())
            || signature.is_mutating();
        let title = format!("Mark `{}` as [Differentiable]", self.name_of(decl));
        (has_input && has_output).then(|| Action { title, fixes: None, edits: vec![self.mark(decl)] })
    }

    /// `[MaxIters(n)]` before a loop at an offset, in a differentiable function.
    fn bound_loop(&mut self, offset: u32) -> Option<Action> {
        let stmts = self.program.ast.stmts.values();
        let is_loop = |kind: &StmtKind| {
            matches!(kind, StmtKind::For { .. } | StmtKind::While { .. } | StmtKind::DoWhile { .. })
        };
        let found = stmts
            .filter(|s| s.span.file == self.file && s.span.start <= offset && offset <= s.span.end)
            .filter(|s| is_loop(&s.kind))
            .min_by_key(|s| s.span.end - s.span.start)?;
        let (span, body) = (found.span, loop_body(&found.kind)?);
        let is_bounded = found.attributes.iter().any(|a| {
            matches!(self.program.ast.name(a.name), "MaxIters" | "ForceUnroll" | "unroll" | UNROLLED)
        });
        // Only at the head of the loop: inside, the action would be everywhere.
        let head_end = match found.kind {
            StmtKind::DoWhile { .. } => span.start + 2,
            _ => self.program.ast.stmts[body].span.start,
        };
        if is_bounded || offset > head_end {
            return None;
        }
        let function = self.function_of_expr(span)?;
        if !self.is_differentiable(function) {
            return None;
        }
        let edit = self.attribute_line(&format!("[MaxIters({TRIPS})]"), span);
        let title = format!("Bound the loop by [MaxIters({TRIPS})]");
        Some(Action { title, fixes: None, edits: vec![edit] })
    }
}

fn loop_body(kind: &StmtKind) -> Option<syntax::StmtId> {
    match kind {
        StmtKind::For { body, .. } | StmtKind::While { body, .. } | StmtKind::DoWhile { body, .. } => {
            Some(*body)
        }
        _ => None,
    }
}
