//! What is written for the CPU: the case of a `__target_switch`, and `__intrinsic_asm` of C++ text.
//!
//! The text has to be a call of a function that the library has too: `"$P_exp($0)"`, `"pow($0, $1)"`, or the bare
//! name, which takes all parameters. It becomes a `return` of that call in the tree.

use std::rc::Rc;

use smallvec::SmallVec;
use syntax::ast::{Expr, ExprKind, StmtKind};
use syntax::{DeclId, ExprId, Span, StmtId};

use crate::infer::Checker;
use crate::lookup::Ref;

impl Checker<'_> {
    /// The statements of a `__target_switch` that are for the CPU, or else the default ones.
    pub(crate) fn target_case(&self, stmt: StmtId) -> Option<Vec<StmtId>> {
        let StmtKind::TargetSwitch(cases) = &self.p.ast.stmts[stmt].kind else { return None };
        let named = |wanted: &str| {
            let found = cases.iter().find(|c| c.0.iter().any(|&s| self.p.ast.name(s) == wanted));
            found.map(|c| c.1.clone())
        };
        named("cpu").or_else(|| named("cpp")).or_else(|| named("default"))
    }

    /// `__intrinsic_asm "text";`
    pub(crate) fn intrinsic_asm(&mut self, stmt: StmtId, text: &str, span: Span) {
        let Some((name, operands)) = call_of(text) else { return self.unknown_asm(text, span) };
        let params = self.p.params_of(self.scope);
        let operands = operands.unwrap_or_else(|| (0..params.len()).collect());
        let known =
            self.p.ast.symbols.find(name).and_then(|s| Some((s, self.p.modules[0].names.get(&s)?.clone())));
        let (Some((symbol, decls)), true) = (known, operands.iter().all(|&k| k < params.len())) else {
            return self.unknown_asm(text, span);
        };
        let Ref::Funcs(candidates, _) = self.ref_of(&decls, &Rc::default(), 0) else {
            return self.unknown_asm(text, span);
        };
        let scope = candidates[0].decl;
        let callee = self.p.ast.exprs.push(Expr { kind: ExprKind::Name(symbol), span });
        let args: Vec<ExprId> = operands.iter().map(|&k| self.param_expr(params[k], span)).collect();
        let call = self.p.ast.exprs.push(Expr { kind: ExprKind::Call { callee, args }, span });
        // The name is the library's, whatever it means here; parameters are found as locals.
        let (own_scope, own_module) = (self.scope, self.module);
        let locals: SmallVec<[_; 8]> = self.locals.iter().copied().filter(|l| l.0 == symbol).collect();
        self.locals.retain(|l| l.0 != symbol);
        (self.scope, self.module) = (scope, 0);
        self.return_statement(Some(call), span);
        (self.scope, self.module) = (own_scope, own_module);
        self.locals.extend(locals);
        self.p.ast.stmts[stmt].kind = StmtKind::Return(Some(call));
    }

    fn param_expr(&mut self, param: DeclId, span: Span) -> ExprId {
        let name = self.p.ast.decls[param].name;
        self.p.ast.exprs.push(Expr { kind: ExprKind::Name(name), span })
    }

    fn unknown_asm(&mut self, text: &str, span: Span) {
        let message = format!("'__intrinsic_asm' with the text \"{text}\" is");
        self.unsupported(span, &message);
    }
}

/// The function and the numbers of its operands in a text like `$P_f($0, $1)`; no operands for a bare name.
fn call_of(text: &str) -> Option<(&str, Option<Vec<usize>>)> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let text = text.strip_prefix("$P_").unwrap_or(text);
    let (name, rest) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest)),
        None => (text, None),
    };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return None;
    }
    let Some(rest) = rest else { return Some((name, None)) };
    let inner = rest.trim_end().strip_suffix(')')?.trim();
    if inner.is_empty() {
        return Some((name, Some(Vec::new())));
    }
    let operand = |part: &str| part.trim().strip_prefix('$')?.parse::<usize>().ok();
    let operands: Option<Vec<usize>> = inner.split(',').map(operand).collect();
    operands.map(|operands| (name, Some(operands)))
}

#[cfg(test)]
mod tests {
    use super::call_of;

    #[test]
    fn calls_in_texts() {
        assert_eq!(call_of("$P_exp($0)"), Some(("exp", Some(vec![0]))));
        assert_eq!(call_of("pow($1, $0);"), Some(("pow", Some(vec![1, 0]))));
        assert_eq!(call_of("exp"), Some(("exp", None)));
        assert_eq!(call_of("f()"), Some(("f", Some(Vec::new()))));
        assert_eq!(call_of("$0 + $1"), None);
        assert_eq!(call_of("f($0 * 2)"), None);
        assert_eq!(call_of(""), None);
    }
}
