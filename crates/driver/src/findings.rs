//! Diagnostics about IR, which needs the program only for words: loops whose values cannot be kept everywhere, data races,
//! and code that cannot be differentiated.

use ir::{Module, Op};
use syntax::ast::{Ast, ExprKind, UnaryOp};
use syntax::print::print_expr;
use syntax::{Diagnostic, ExprId, Span};

use crate::bind;
use crate::error::source_span;

/// The number of the diagnostic for loops without a bound of whose iterations reverse mode keeps values: an
/// error if there is no memory for them, silent otherwise.
pub(crate) const UNBOUNDED: u32 = 931;

/// The loops whose number of iterations has no bound.
pub(crate) fn unbounded_loops(module: &Module) -> Vec<ir::Span> {
    let insts = module.funcs.values().flat_map(|f| f.insts.values().map(move |inst| (f, inst)));
    let is_unbounded = |f: &ir::Function, inst: &ir::InstData| match &inst.op {
        Op::Loop(info) => info.max_iters.is_none(),
        Op::For(info) => {
            let is_constant =
                f.insts.values().any(|i| matches!(i.op, Op::Const(_)) && i.results.contains(&inst.args[0]));
            info.max_iters.is_none() && !is_constant
        }
        _ => false,
    };
    insts.filter(|(f, inst)| is_unbounded(f, inst)).map(|(_, inst)| inst.span).collect()
}

/// Warnings about those unbounded loops for which values of each iteration are kept.
pub(crate) fn unbounded_kept(unbounded: &[ir::Span], kept: &[autodiff::KeptValue]) -> Vec<Diagnostic> {
    let loops = kept.iter().flat_map(|value| &value.loops).filter(|l| unbounded.contains(l));
    let message = "reverse mode keeps values of each trip of this loop, and the maximum number of its trips is not known";
    let warning = |&span: &ir::Span| {
        Diagnostic::warning("E0931", source_span(span), message).help(
            "graphics processors keep them in an arena, which is slower than an array of the thread: give it \
             `[MaxIters(n)]`, or let reverse mode keep less with `[Checkpoint(n)]` or `[PreferRecompute]`",
        )
    };
    loops.map(warning).collect()
}

/// Warnings about data races between the threads of an entry point.
pub(crate) fn races(ast: &Ast, module: &Module, entry: &ir::Entry) -> Vec<Diagnostic> {
    let found = ir::threads::shared_writes(module, entry).into_iter().map(|write| {
        let name = &module.globals[write.global].name;
        let name = name.split_once(".__").map_or(&name[..], |n| n.0);
        let (what, help) = if write.is_update {
            (
                "change",
                "use `InterlockedAdd` or a similar function, or let one thread do it: `if (tid.x == 0) …`",
            )
        } else {
            ("write", "let one thread do it: `if (tid.x == 0) …`, or give each thread an element of its own")
        };
        let span = source_span(write.span);
        let place = written(ast, span).map_or_else(|| format!("one place of `{name}`"), |p| format!("`{p}`"));
        let message = format!("the threads of a group {what} {place} without an atomic operation");
        Diagnostic::warning("E0950", span, message).label("which thread's value remains is a race").help(help)
    });
    found.collect()
}

/// The place that an assignment writes, as written in the source: that of the smallest assignment around a
/// span.
fn written(ast: &Ast, span: Span) -> Option<String> {
    let around = |e: &&ExprId| {
        let outer = ast.exprs[**e].span;
        outer.file == span.file && outer.start <= span.start && span.end <= outer.end
    };
    let exprs: Vec<ExprId> = ast.exprs.keys().collect();
    let (_, place) = exprs
        .iter()
        .filter(around)
        .filter_map(|&e| {
            let place = match ast.exprs[e].kind {
                ExprKind::Assign(_, place, _) | ExprKind::Postfix(_, place) => place,
                ExprKind::Unary(UnaryOp::PreInc | UnaryOp::PreDec, place) => place,
                _ => return None,
            };
            Some((ast.exprs[e].span.end - ast.exprs[e].span.start, place))
        })
        .min_by_key(|found| found.0)?;
    Some(bind::shorten(&print_expr(ast, place)))
}

/// Converts a problem of differentiation to a diagnostic.
pub(crate) fn problem(problem: autodiff::Problem) -> Diagnostic {
    let diagnostic = Diagnostic::error(problem.code, source_span(problem.span), problem.message);
    match problem.code {
        "E0910" => diagnostic.help("for fixed primals a derivative is a linear map of its differentials"),
        "E0916" => diagnostic.help("each order takes some three times as many: ask for a lower one"),
        "E0915" => diagnostic.help("write a forward derivative beside it"),
        "E0933" => diagnostic.help("write 'detach' of what is stored if zero is meant"),
        "E0912" => diagnostic.help("write a backward derivative beside it, or use a loop"),
        _ => diagnostic,
    }
}
