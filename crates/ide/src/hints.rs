//! Computes what an editor shows between the words of the program: the names of parameters before arguments, the
//! types of variables that state none, and a mark after variables that carry a derivative.

use check::tables::{Arg, Meaning};
use check::types::Ty;
use syntax::ast::{DeclKind, Expr, ExprKind};
use syntax::{DeclId, ExprId};

use crate::Analysis;

/// The kind of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// The name of a parameter, before the argument.
    Parameter,
    /// A deduced type, after the name of a variable.
    Type,
    /// The variable carries a derivative.
    Active,
    /// The variable's contribution to a rounding error, after its name.
    Rounding,
}

/// A text to show at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The offset in the file.
    pub offset: u32,
    /// The text.
    pub text: String,
    /// The kind.
    pub kind: HintKind,
    /// An explanation.
    pub tooltip: Option<String>,
}

/// The kinds of hints that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintOptions {
    /// Names of parameters.
    pub parameters: bool,
    /// Deduced types.
    pub types: bool,
    /// Marks of values that carry a derivative.
    pub active: bool,
}

impl Default for HintOptions {
    fn default() -> HintOptions {
        HintOptions { parameters: true, types: true, active: true }
    }
}

impl Analysis {
    /// The hints between two offsets of the file, in order.
    pub fn hints(&mut self, start: u32, end: u32, options: HintOptions) -> Vec<Hint> {
        self.check_range(self.file, start, end);
        let mut hints = Vec::new();
        if options.parameters {
            self.parameter_hints(start, end, &mut hints);
        }
        if options.types || options.active {
            self.variable_hints(start, end, options, &mut hints);
        }
        hints.sort_by_key(|hint| hint.offset);
        hints
    }

    fn parameter_hints(&mut self, start: u32, end: u32, hints: &mut Vec<Hint>) {
        let exprs = &self.program.ast.exprs;
        // A call that the checker has made is where its callee is.
        let is_call = |expr: &Expr| matches!(expr.kind, ExprKind::Call { callee, .. } if exprs[callee].span != expr.span);
        let calls: Vec<ExprId> = exprs
            .iter()
            .filter(|(_, e)| e.span.file == self.file && start <= e.span.end && e.span.start <= end)
            .filter(|(_, e)| is_call(e))
            .map(|(id, _)| id)
            .collect();
        for call in calls {
            let (names, args) = match self.program.tables.exprs[call].meaning.clone() {
                Meaning::Call { func, args, .. } => (self.program.callable_signature(&func).params, args),
                Meaning::Init { init, args } => (self.program.func_signature(&init).params, args),
                _ => continue,
            };
            // One argument of one parameter needs no name.
            if names.len() < 2 {
                continue;
            }
            for (param, arg) in names.iter().zip(&args) {
                let (Some(decl), Arg::Expr(arg)) = (param.decl, arg) else { continue };
                let name = self.name_of(decl).to_string();
                let span = self.program.ast.exprs[*arg].span;
                let is_in = span.file == self.file && start <= span.start && span.start <= end;
                if !is_in || name.is_empty() || name.starts_with('$') || self.says(*arg, &name) {
                    continue;
                }
                // The names of the library's parameters (`x`, `y`, `a`) say little.
                if self.program.is_core(decl) && name.len() <= 2 {
                    continue;
                }
                let text = format!("{name}:");
                hints.push(Hint { offset: span.start, text, kind: HintKind::Parameter, tooltip: None });
            }
        }
    }

    /// Returns true if the text of an argument already says the name of its parameter.
    fn says(&self, arg: ExprId, name: &str) -> bool {
        let text = match &self.program.ast.exprs[arg].kind {
            ExprKind::Name(symbol) | ExprKind::Member { name: symbol, .. } => self.program.ast.name(*symbol),
            _ => return false,
        };
        text.eq_ignore_ascii_case(name)
            || text.to_ascii_lowercase().ends_with(&format!("_{}", name.to_ascii_lowercase()))
    }

    fn variable_hints(&mut self, start: u32, end: u32, options: HintOptions, hints: &mut Vec<Hint>) {
        let is_variable = |kind: &DeclKind| matches!(kind, DeclKind::Var { .. } | DeclKind::Param { .. });
        let vars: Vec<DeclId> = self
            .program
            .ast
            .decls
            .iter()
            .filter(|(_, d)| {
                d.name_span.file == self.file && start <= d.name_span.start && d.name_span.end <= end
            })
            .filter(|(_, d)| d.name_span.start < d.name_span.end && is_variable(&d.kind))
            .filter(|(_, d)| !self.program.ast.name(d.name).starts_with('$'))
            .map(|(id, _)| id)
            .collect();
        let active = match options.active {
            true => self.active_within(start, end),
            false => Default::default(),
        };
        // A variable is active if it is so anywhere: it may get its derivative after its declaration.
        let mut active_vars: rustc_hash::FxHashSet<DeclId> = Default::default();
        for expr in active {
            if let Meaning::Var(decl) = self.program.tables.exprs[expr].meaning {
                active_vars.insert(decl);
            }
        }
        for decl in vars {
            let offset = self.program.ast.decls[decl].name_span.end;
            let lacks_type = match self.program.ast.decls[decl].kind {
                DeclKind::Var { ty, init, .. } => ty.is_none() && init.is_some(),
                _ => false,
            };
            if options.types && lacks_type {
                let ty = self.program.decl_type(decl);
                if ty != Ty::ERROR {
                    let text = format!(": {}", self.program.type_name(ty));
                    hints.push(Hint { offset, text, kind: HintKind::Type, tooltip: None });
                }
            }
            if active_vars.contains(&decl) && self.function_around(decl).is_some() {
                let name = self.name_of(decl);
                let tooltip = format!("`{name}` carries a derivative");
                hints.push(Hint {
                    offset, text: "∂".into(), kind: HintKind::Active, tooltip: Some(tooltip)
                });
            }
        }
    }
}
