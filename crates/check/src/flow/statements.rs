//! The control flow of a function's body as a graph, and the analysis over it in both directions: see
//! [`crate::flow`].
//!
//! A node of the graph is one step. The marks before a node are the join of those after its predecessors; in the
//! backward pass, the marks after it are the join of those before its successors. Nodes are visited until
//! nothing is added. The marks at a node only grow, so this terminates. They are kept where paths meet only.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use syntax::ast::{AccessorKind, DeclKind, ExprKind, StmtKind};
use syntax::{DeclId, Diagnostic, ExprId, Span, StmtId};

use crate::flow::{Direction, Flow, Mark, Places};
use crate::types::Ty;

/// A part of a statement that is visited at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Expr(ExprId),
    Declare(DeclId),
    Return(Option<ExprId>, Span),
    /// A `try`, and the variable of the `catch` for what it throws.
    Try(ExprId, Option<DeclId>),
    /// The value of a `throw`, and the variable of the `catch` for it.
    Throw(ExprId, Option<DeclId>),
    /// An error leaves the function.
    Leave,
    /// The function's end.
    End,
    /// Paths meet or part.
    Join,
    /// The marks of unset places do not pass: the code is unreachable, or nothing is known about the places.
    ForgetUnset,
    /// Only the marks of unset places pass.
    OnlyUnset,
}

/// The variable of a `catch`, and the node at its beginning.
type Handler = (Option<DeclId>, usize);

#[derive(Debug)]
struct Node {
    step: Step,
    next: Vec<usize>,
    /// The node is part of code that may not run to its end, where assignments do not replace the old value.
    weak: bool,
}

/// The node at a function's end.
const END: usize = 0;

/// The graph of a function's body, and what is known of the surroundings of the statement being added.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    entry: usize,
    /// Where each enclosing `break` continues, outermost first, with the level of the label that it names.
    breaks: Vec<(Option<u32>, usize)>,
    continues: Vec<usize>,
    /// The handlers of each enclosing `do` with its level, outermost first.
    catches: Vec<(u32, Vec<Handler>)>,
    /// The statements of each block, with the nodes at their beginnings.
    blocks: Vec<Vec<(StmtId, usize)>>,
    weak: u32,
    depth: u32,
}

impl Graph {
    fn add(&mut self, step: Step, next: &[usize]) -> usize {
        self.nodes.push(Node { step, next: next.to_vec(), weak: self.weak > 0 });
        self.nodes.len() - 1
    }

    /// Adds a `break`, to the label of this level if there is one.
    fn leave_to(&mut self, label: Option<u32>) -> usize {
        let target = self.breaks.iter().rev().find(|target| target.0 == label).map(|target| target.1);
        self.add(Step::Join, &Vec::from_iter(target))
    }

    /// The nodes that can be reached, each before its successors except where a loop repeats.
    fn order(&self) -> Vec<usize> {
        let (mut order, mut seen) = (Vec::new(), vec![false; self.nodes.len()]);
        let mut open = vec![(self.entry, 0)];
        seen[self.entry] = true;
        while let Some((node, next)) = open.last_mut() {
            let Some(&to) = self.nodes[*node].next.get(*next) else {
                order.push(*node);
                open.pop();
                continue;
            };
            *next += 1;
            if !std::mem::replace(&mut seen[to], true) {
                open.push((to, 0));
            }
        }
        order.reverse();
        order
    }
}

/// Adds all marks; returns true if any of them was new.
fn join(places: &mut Places, more: &Places) -> bool {
    let before = places.len();
    places.extend(more.iter().copied());
    places.len() != before
}

impl Flow<'_> {
    /// The graph of a function's body.
    pub(crate) fn graph(&mut self, body: StmtId) -> Graph {
        let mut graph = Graph::default();
        graph.add(Step::End, &[]);
        graph.entry = self.statement(&mut graph, body, END);
        graph
    }

    /// Adds a statement, after which control goes to `next`; returns the node at its beginning.
    fn statement(&mut self, graph: &mut Graph, stmt: StmtId, next: usize) -> usize {
        if graph.depth > 1500 {
            return next;
        }
        graph.depth += 1;
        let entry = self.statement_kind(graph, stmt, next);
        graph.depth -= 1;
        // The calls of `try` run before the rest of the statement.
        self.p.ast.tries(stmt).into_iter().rev().fold(entry, |next, expr| {
            let (var, handler) = self.handler(graph, expr);
            graph.add(Step::Try(expr, var), &[next, handler])
        })
    }

    /// Where control goes with the error that an expression throws, and the variable that it is in there.
    fn handler(&mut self, graph: &mut Graph, expr: ExprId) -> Handler {
        let target = self.p.tables.throws.get(&expr).and_then(|thrown| thrown.target);
        let handler = target.and_then(|(level, clause)| {
            let around = graph.catches.iter().rev().find(|catch| catch.0 == level)?;
            around.1.get(clause as usize).copied()
        });
        handler.unwrap_or_else(|| (None, graph.add(Step::Leave, &[])))
    }

    fn block(&mut self, graph: &mut Graph, stmts: &[StmtId], next: usize) -> usize {
        let (mut entry, mut entries) = (next, Vec::new());
        for &stmt in stmts.iter().rev() {
            entry = self.statement(graph, stmt, entry);
            entries.push((stmt, entry));
        }
        entries.reverse();
        graph.blocks.push(entries);
        entry
    }

    fn statement_kind(&mut self, graph: &mut Graph, stmt: StmtId, next: usize) -> usize {
        match self.p.ast.stmts[stmt].kind.clone() {
            StmtKind::Empty => next,
            StmtKind::Block(stmts) => self.block(graph, &stmts, next),
            StmtKind::Expr(expr) => graph.add(Step::Expr(expr), &[next]),
            StmtKind::Decl(decls) => {
                decls.into_iter().rev().fold(next, |next, decl| graph.add(Step::Declare(decl), &[next]))
            }
            StmtKind::If { cond, then, otherwise } => {
                // The branch of an `if` on types that is not compiled is left out.
                let known = self.p.known_condition(cond, &self.subst).filter(|_| self.is_instance);
                let then = if known == Some(false) { next } else { self.statement(graph, then, next) };
                let otherwise = otherwise.filter(|_| known != Some(true));
                let otherwise = otherwise.map_or(next, |stmt| self.statement(graph, stmt, next));
                graph.add(Step::Expr(cond), &[then, otherwise])
            }
            StmtKind::IfLet { var, then, otherwise } => {
                let then = self.statement(graph, then, next);
                let otherwise = otherwise.map_or(next, |stmt| self.statement(graph, stmt, next));
                graph.add(Step::Declare(var), &[then, otherwise])
            }
            StmtKind::For { init, cond, step, body } => {
                let head = self.repeated(graph, cond, body, step, next);
                init.map_or(head, |init| self.statement(graph, init, head))
            }
            StmtKind::While { cond, body } => self.repeated(graph, Some(cond), body, None, next),
            StmtKind::DoWhile { body, cond } => {
                let head = graph.add(Step::Join, &[]);
                let cond = graph.add(Step::Expr(cond), &[head, next]);
                let body = self.loop_body(graph, body, cond, next);
                graph.nodes[head].next.push(body);
                head
            }
            StmtKind::Switch { scrutinee, cases } => {
                graph.breaks.push((None, next));
                let mut entries = Vec::new();
                // The next case follows if a case does not leave.
                for case in cases.iter().rev() {
                    let after = entries.last().copied().unwrap_or(next);
                    entries.push(self.block(graph, &case.body, after));
                }
                graph.breaks.pop();
                if !cases.iter().any(|case| case.labels.contains(&None)) {
                    entries.push(next);
                }
                graph.add(Step::Expr(scrutinee), &entries)
            }
            StmtKind::TargetSwitch(cases) if cases.is_empty() => next,
            StmtKind::TargetSwitch(_) => {
                // Only the CPU's case has been checked, and only that is compiled.
                let after = graph.add(Step::ForgetUnset, &[next]);
                graph.breaks.push((None, after));
                let case = self.p.target_case(stmt).unwrap_or_default();
                let entry = self.block(graph, &case, after);
                graph.breaks.pop();
                graph.add(Step::ForgetUnset, &[entry])
            }
            StmtKind::Return(value) => graph.add(Step::Return(value, self.p.ast.stmts[stmt].span), &[]),
            StmtKind::Break => graph.leave_to(None),
            StmtKind::BreakTo { level, .. } => graph.leave_to(Some(level)),
            StmtKind::Continue => {
                let target: Vec<usize> = graph.continues.last().copied().into_iter().collect();
                graph.add(Step::Join, &target)
            }
            StmtKind::Labeled { level, body, .. } => {
                graph.breaks.push((Some(level), next));
                let entry = self.statement(graph, body, next);
                graph.breaks.pop();
                entry
            }
            StmtKind::DoCatch { body, level, catches } => {
                let handlers =
                    catches.iter().map(|&(var, handler)| (var, self.statement(graph, handler, next)));
                let handlers = handlers.collect();
                graph.catches.push((level, handlers));
                let entry = self.statement(graph, body, next);
                graph.catches.pop();
                entry
            }
            StmtKind::Throw(value) => {
                let (var, handler) = self.handler(graph, value);
                graph.add(Step::Throw(value, var), &[handler])
            }
            StmtKind::Defer(body) => {
                // The statement runs later, when more places are set.
                graph.weak += 1;
                let body = self.statement(graph, body, next);
                graph.weak -= 1;
                let later = graph.add(Step::ForgetUnset, &[body]);
                let now = graph.add(Step::OnlyUnset, &[next]);
                graph.add(Step::Join, &[later, now])
            }
            StmtKind::IntrinsicAsm(_) => match self.p.tables.intrinsics.get(&stmt) {
                Some(&value) => graph.add(Step::Return(Some(value), self.p.ast.stmts[stmt].span), &[]),
                // It returns, and what it does to outputs is not known.
                None => graph.add(Step::ForgetUnset, &[]),
            },
            StmtKind::Discard | StmtKind::Unsupported(_) | StmtKind::Error => {
                graph.add(Step::ForgetUnset, &[next])
            }
        }
    }

    /// Adds a loop with a condition before its body. It is assumed to run at least once: only places that are
    /// unset at the end of the body are unset after it.
    fn repeated(
        &mut self,
        graph: &mut Graph,
        cond: Option<ExprId>,
        body: StmtId,
        step: Option<ExprId>,
        next: usize,
    ) -> usize {
        let head = graph.add(Step::Join, &[]);
        let exit = graph.add(Step::ForgetUnset, &[next]);
        let unset = graph.add(Step::OnlyUnset, &[next]);
        let is_endless = cond.is_none_or(|cond| matches!(self.p.ast.exprs[cond].kind, ExprKind::Bool(true)));
        let back = graph.add(Step::Join, &[head, unset][..2 - usize::from(is_endless)]);
        let step = step.map_or(back, |step| graph.add(Step::Expr(step), &[back]));
        let body = self.loop_body(graph, body, step, next);
        let first = cond.map_or(body, |cond| graph.add(Step::Expr(cond), &[body]));
        graph.nodes[head].next.extend([first, exit].into_iter().take(2 - usize::from(is_endless)));
        head
    }

    fn loop_body(&mut self, graph: &mut Graph, body: StmtId, again: usize, next: usize) -> usize {
        graph.breaks.push((None, next));
        graph.continues.push(again);
        let entry = self.statement(graph, body, again);
        graph.continues.pop();
        graph.breaks.pop();
        entry
    }

    /// Reports statements that cannot be reached, and the end of a function that should have returned a value.
    pub(crate) fn check_paths(&mut self, graph: &Graph) {
        let reached: FxHashSet<usize> = graph.order().into_iter().collect();
        for block in &graph.blocks {
            let is_code =
                |stmt: StmtId| !matches!(self.p.ast.stmts[stmt].kind, StmtKind::Empty | StmtKind::Break);
            let is_entered = block.first().is_some_and(|first| reached.contains(&first.1));
            let mut unreached = block.iter().filter(|stmt| !reached.contains(&stmt.1) && is_code(stmt.0));
            if let Some(first) = unreached.next().filter(|_| is_entered) {
                let span = self.p.ast.stmts[first.0].span;
                self.p.report_once(Diagnostic::warning("E41000", span, "unreachable code"));
            }
        }
        let returns_value = match self.p.ast.decls[self.decl].kind {
            DeclKind::Init { .. } | DeclKind::Accessor { kind: AccessorKind::Ref, .. } => false,
            _ => ![Ty::VOID, Ty::ERROR].contains(&self.p.raw_signature(self.decl).ret),
        };
        // Without a case for the CPU, a `__target_switch` is not known to do anything, and may return.
        let is_elsewhere = |stmt: &StmtId| {
            let is_switch = matches!(&self.p.ast.stmts[*stmt].kind, StmtKind::TargetSwitch(_));
            is_switch && self.p.target_case(*stmt).is_none()
        };
        let is_known = !graph.blocks.iter().flatten().any(|(stmt, _)| is_elsewhere(stmt));
        if reached.contains(&END) && returns_value && is_known && !self.p.is_lambda_call(self.decl) {
            let message = "control flow may reach the end of this function without a return";
            let warning = Diagnostic::warning("E41010", self.p.name_span(self.decl), message);
            self.p.report_once(warning.help("the result is zero there: return a value on every path"));
        }
    }

    /// Visits all nodes, in the direction of the analysis, until nothing is added. Returns how many marks were
    /// copied, which is what this costs beside the visits.
    pub(crate) fn solve(&mut self, graph: &Graph) -> usize {
        let is_forward = self.direction == Direction::Forward;
        let mut order = graph.order();
        let mut edges = vec![Vec::new(); graph.nodes.len()];
        let mut n_before = vec![0; graph.nodes.len()];
        for &node in &order {
            for &to in &graph.nodes[node].next {
                let (from, to) = if is_forward { (node, to) } else { (to, node) };
                edges[from].push(to);
                n_before[to] += 1;
            }
        }
        let mut states = vec![Places::new(); graph.nodes.len()];
        if is_forward {
            states[graph.entry] = std::mem::take(&mut self.places);
            n_before[graph.entry] += 1;
        } else {
            order.reverse();
        }
        let mut position = vec![0; graph.nodes.len()];
        order.iter().enumerate().for_each(|(at, &node)| position[node] = at);
        let mut work: BTreeSet<usize> = (0..order.len()).collect();
        let mut n_copied = 0;
        while let Some(at) = work.pop_first() {
            let mut at = order[at];
            n_copied += states[at].len();
            self.places.clone_from(&states[at]);
            loop {
                self.is_weak = graph.nodes[at].weak;
                self.step(graph.nodes[at].step);
                // A node that follows on this one alone takes over its marks, which would otherwise be copied for
                // each statement of a long line.
                match edges[at][..] {
                    [next] if n_before[next] == 1 => at = next,
                    _ => break,
                }
                work.remove(&position[at]);
            }
            for &to in &edges[at] {
                n_copied += self.places.len();
                if join(&mut states[to], &self.places) {
                    work.insert(position[to]);
                }
            }
        }
        n_copied
    }

    fn step(&mut self, step: Step) {
        let is_forward = self.direction == Direction::Forward;
        match step {
            Step::Expr(expr) => self.primal(expr),
            Step::Declare(decl) => self.declare(decl),
            Step::Return(value, span) if is_forward => {
                if let Some(value) = value {
                    self.primal(value);
                    self.cuts.is_result |= self.is_cut(value);
                }
                self.check_outputs_set(span);
            }
            Step::Return(value, _) => {
                self.places.clone_from(&self.outputs);
                if let Some(value) = value {
                    self.expr(value, self.returns);
                }
            }
            Step::Try(expr, var) => self.visit_try(expr, var),
            Step::Throw(value, var) => {
                let needed = !is_forward && self.is_error_needed(value, var);
                let carried = self.expr(value, needed);
                if is_forward {
                    self.catch(var, carried || self.is_cut(value));
                }
            }
            Step::Leave if is_forward => {}
            Step::Leave => self.places.clone_from(&self.outputs),
            Step::End if is_forward => {
                let body = self.p.body_of(self.decl).map(|body| self.p.ast.stmts[body].span);
                // The closing brace.
                let end = body.map(|span| Span { start: span.end.saturating_sub(1), ..span });
                self.check_outputs_set(end.unwrap_or(self.p.name_span(self.decl)));
            }
            Step::End => self.places.clone_from(&self.outputs),
            Step::Join => {}
            Step::ForgetUnset => _ = self.take_unset(),
            Step::OnlyUnset if is_forward => self.places = self.take_unset(),
            Step::OnlyUnset => {}
        }
    }

    /// Visits the declaration of a variable and its initial value.
    fn declare(&mut self, decl: DeclId) {
        if self.p.tables.aliases.contains(&decl) {
            return;
        }
        let (init, vars) = match self.p.ast.decls[decl].kind.clone() {
            DeclKind::Var { init, .. } => (init, vec![decl]),
            DeclKind::Tuple { parts, init } => (Some(init), parts),
            _ => return,
        };
        let needed = self.direction == Direction::Backward && vars.iter().any(|&var| self.holds((var, None)));
        let parts = init.map_or(Vec::new(), |init| self.parts_needed(init, decl));
        if self.direction == Direction::Backward {
            vars.iter().for_each(|&var| self.forget((var, None)));
        }
        // A copy of a variable without a value has none either, and is reported where it is read.
        let copied = init.filter(|_| self.direction == Direction::Forward);
        let is_unset = copied.is_some_and(|init| self.copies_unset(init, decl));
        let carried = !is_unset && init.is_some_and(|init| self.value(init, parts, needed));
        if self.direction == Direction::Backward {
            return;
        }
        for var in vars {
            self.forget((var, None));
            if carried {
                self.carry((var, None));
            }
            match init {
                Some(init) if self.is_cut(init) => {
                    self.places.insert((Mark::Cut, var, None));
                }
                Some(_) if is_unset => self.declare_unset(var),
                Some(init) => self.cut_parts(var, init),
                None => self.declare_unset(var),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::flow::{Direction, Flow, Purpose};
    use crate::signature::Subst;
    use crate::tests::accept;

    /// Checks that twice as many statements about twice as many fields copy about twice as many marks.
    #[test]
    fn a_long_line_copies_its_marks_once() {
        let copied = |n: usize| {
            let lines = |line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<String>();
            let fields = lines(&|k| format!("float f{k}; "));
            let steps = lines(&|k| format!("t.f{k} = s.f{k} * s.f{}; ", (k + 1) % n));
            let mut checked = accept(&format!(
                "struct S : IDifferentiable {{ {fields} }}\n[Differentiable] S step(S s) {{ S t; {steps} if (s.f0 > 0.0) t.f0 = s.f1; return t; }}\n"
            ));
            let decl = checked.func("step").decl;
            let body = checked.program.body_of(decl).expect("has a body");
            let mut flow = Flow::of(&mut checked.program, decl, Subst::default(), Purpose::Derivatives);
            let graph = flow.graph(body);
            let forward = flow.solve(&graph);
            flow.direction = Direction::Backward;
            (forward, flow.solve(&graph))
        };
        let (small, large) = (copied(40), copied(80));
        assert!(small.0 > 0 && large.0 <= 3 * small.0, "{small:?}, twice as large {large:?}");
        assert!(small.1 > 0 && large.1 <= 3 * small.1, "{small:?}, twice as large {large:?}");
    }
}
