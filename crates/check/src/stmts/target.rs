//! Handles target-specific code for the CPU: the cases of a `__target_switch`, and `__intrinsic_asm` with C++
//! text.
//!
//! The text has to be an expression of parameters and of functions that the library has too: `"$P_exp($0)"`,
//! `"pow($0, $1)"`, `"$0 % $1"`, or the bare name of a function, which is called with all parameters. The
//! statement returns that expression.

use syntax::ast::{DeclKind, ExprKind, StmtKind};
use syntax::{DeclId, ExprId, Span, StmtId, Symbol, keywords as kw};

use crate::exprs::infer::Checker;
use crate::program::Program;

/// The targets whose cases run here, in the order in which they are preferred. Code for graphics processors means the
/// same here if it needs nothing but the language.
const TARGETS: [&str; 6] = ["cpu", "cpp", "default", "spirv", "cuda", "metal"];

impl Program {
    /// The statements of a `__target_switch` for the CPU, or else the default ones, or else those for a target whose code
    /// can run here. A case is passed over if it is written in the assembly of its target, or refuses the target by
    /// `static_assert(false)`, as long as there is another.
    pub fn target_case(&self, stmt: StmtId) -> Option<Vec<StmtId>> {
        let StmtKind::TargetSwitch(cases) = &self.ast.stmts[stmt].kind else { return None };
        let named = |wanted: &&str| cases.iter().find(|c| c.0.iter().any(|&s| self.ast.name(s) == *wanted));
        let mut found = TARGETS.iter().filter_map(named);
        let runs = |case: &&(Vec<Symbol>, Vec<StmtId>)| !case.1.iter().any(|&stmt| self.is_foreign(stmt));
        let case = found.clone().find(runs).or_else(|| found.next());
        case.map(|case| case.1.clone())
    }

    /// Returns true for a statement that is assembly, or that refuses to be compiled.
    fn is_foreign(&self, stmt: StmtId) -> bool {
        match &self.ast.stmts[stmt].kind {
            StmtKind::Unsupported(word) => self.ast.name(*word) != "static_assert",
            StmtKind::Block(stmts) => stmts.iter().any(|&stmt| self.is_foreign(stmt)),
            StmtKind::Return(Some(value)) => self.is_foreign_value(*value),
            StmtKind::Expr(value) => self.is_foreign_value(*value),
            _ => false,
        }
    }

    fn is_foreign_value(&self, expr: ExprId) -> bool {
        match &self.ast.exprs[expr].kind {
            ExprKind::Opaque(_) => true,
            ExprKind::Call { callee, args } => {
                let is_it = |name| self.ast.name(name) == "static_assert";
                let is_assertion =
                    matches!(self.ast.exprs[*callee].kind, ExprKind::Name(name) if is_it(name));
                is_assertion
                    && args
                        .first()
                        .is_some_and(|&arg| matches!(self.ast.exprs[arg].kind, ExprKind::Bool(false)))
            }
            kind => {
                let mut operands = Vec::new();
                kind.operands(&mut operands);
                operands.into_iter().any(|operand| self.is_foreign_value(operand))
            }
        }
    }
}

impl Checker<'_> {
    /// Checks `__intrinsic_asm "text";`.
    pub(crate) fn intrinsic_asm(&mut self, stmt: StmtId, text: &str, span: Span) {
        let params = self.p.params_of(self.scope);
        let mut names = Vec::new();
        for (k, &param) in params.iter().enumerate() {
            let mut name = self.p.ast.decls[param].name;
            if name == kw::EMPTY {
                name = self.p.ast.symbols.intern(&format!("__parameter{k}"));
                self.locals.push((name, param));
            }
            names.push(self.p.ast.name(name).to_owned());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Text of other languages, and for other targets, is refused where code is made of it.
        let Some(source) = expression_of(text, &names) else { return };
        let Some(value) = self.p.add_text(&source, span) else { return };
        let mut callees = Vec::new();
        if !self.names_are_known(value, &names, &mut callees) {
            return;
        }
        // Function names refer to the library, whatever their meaning in this scope; parameters are found as
        // locals.
        let library = self.p.modules.all[0].names.values().flatten().next().copied();
        let Some(library) = callees.first().copied().or(library) else { return };
        let (own_scope, own_module) = (self.scope, self.module);
        let is_library = |p: &Program, s| p.modules.all[0].names.contains_key(&s);
        let locals = self.locals.to_vec();
        let is_seen = |l: &&(Symbol, DeclId)| params.contains(&l.1) || !is_library(self.p, l.0);
        self.locals.replace(locals.iter().filter(is_seen).copied().collect());
        (self.scope, self.module) = (library, 0);
        let before = self.p.diagnostics.len();
        self.return_statement(Some(value), span);
        (self.scope, self.module) = (own_scope, own_module);
        self.locals.replace(locals);
        // A function of that name, with other parameters, is another target's.
        let is_error = |d: &syntax::Diagnostic| d.severity == syntax::Severity::Error;
        if self.p.diagnostics[before..].iter().any(is_error) {
            self.p.diagnostics.truncate(before);
            return;
        }
        self.p.tables.intrinsics.insert(stmt, value);
    }

    /// Returns true if an expression consists of parameters, numbers, operators and calls of library
    /// functions.
    fn names_are_known(&self, root: ExprId, params: &[&str], callees: &mut Vec<DeclId>) -> bool {
        let mut open = vec![root];
        while let Some(expr) = open.pop() {
            match &self.p.ast.exprs[expr].kind {
                ExprKind::Name(name) if params.contains(&self.p.ast.name(*name)) => {}
                ExprKind::Call { callee, args } => {
                    let ExprKind::Name(name) = self.p.ast.exprs[*callee].kind else { return false };
                    let found = self.p.modules.all[0].names.get(&name).and_then(|d| d.first().copied());
                    let Some(found) = found else { return false };
                    if !matches!(self.p.ast.decls[found].kind, DeclKind::Func { .. }) {
                        return false;
                    }
                    callees.push(found);
                    open.extend(args);
                }
                ExprKind::Int { .. }
                | ExprKind::Float { .. }
                | ExprKind::Paren(_)
                | ExprKind::Unary(..)
                | ExprKind::Binary(..)
                | ExprKind::Ternary(..) => self.p.ast.exprs[expr].kind.operands(&mut open),
                _ => return false,
            }
        }
        true
    }
}

/// Converts the text to an expression of the language: `$1` is the second parameter, `$P_` a prefix that
/// stands for a type. A bare name becomes a call with all parameters.
fn expression_of(text: &str, params: &[&str]) -> Option<String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Some(format!("{text}({})", params.join(", ")));
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix("P_") {
            rest = after;
            continue;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let k: usize = rest[..digits].parse().ok()?;
        out.push_str(params.get(k)?);
        rest = &rest[digits..];
    }
    out.push_str(rest);
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::expression_of;

    #[test]
    fn texts() {
        let of = |text| expression_of(text, &["x", "y"]);
        assert_eq!(of("$P_exp($0)").as_deref(), Some("exp(x)"));
        assert_eq!(of("pow($1, $0);").as_deref(), Some("pow(y, x)"));
        assert_eq!(of("exp").as_deref(), Some("exp(x, y)"));
        assert_eq!(of("$0 % ($1)").as_deref(), Some("x % (y)"));
        assert_eq!(of("f($2)"), None);
        assert_eq!(of("$T"), None);
        assert_eq!(of(""), None);
    }
}
