//! Finds global variables that are read and that nothing assigns.
//!
//! The whole module is looked over, in any order: which function runs first is not known, so one assignment anywhere
//! is enough, and so is any use that might be one. A module without an entry point is part of a program whose other
//! modules may assign its variables, so nothing is said about it.

use rustc_hash::FxHashSet;
use syntax::ast::{DeclKind, Modifiers, UnaryOp};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::program::Program;
use crate::tables::{Arg, Callable, Initializer, Meaning};

impl Program {
    /// Returns true if there is a global variable that [`Self::check_unset_globals`] looks for.
    pub fn has_unset_globals(&mut self) -> bool {
        self.unset_candidates().is_some()
    }

    /// The global variables that may be unset, and all declarations of their module that contain code.
    fn unset_candidates(&mut self) -> Option<(FxHashSet<DeclId>, Vec<DeclId>)> {
        let mut module = None;
        let mut variables: FxHashSet<DeclId> = FxHashSet::default();
        let mut code = Vec::new();
        let mut has_entry_point = false;
        for decl in self.ast.decls.keys() {
            if self.is_core(decl) {
                continue;
            }
            match self.ast.decls[decl].kind {
                DeclKind::Var { init: None, ty: Some(_), .. } if self.may_be_unset(decl) => {
                    variables.insert(decl);
                }
                DeclKind::Func { body: Some(_), .. } => {
                    let marks = ["shader", "numthreads"];
                    has_entry_point |= marks.iter().any(|mark| self.attribute(decl, mark).is_some());
                    code.push(decl);
                }
                DeclKind::Init { body: Some(_), .. } | DeclKind::Accessor { body: Some(_), .. } => {
                    code.push(decl);
                }
                DeclKind::Var { init: Some(_), .. } => code.push(decl),
                _ => {}
            }
            module = module.or(Some(self.module_of(decl)));
        }
        code.retain(|&decl| Some(self.module_of(decl)) == module);
        (!variables.is_empty() && has_entry_point).then_some((variables, code))
    }

    /// Warns of reads of global variables that are never assigned, where all code of the module has been checked.
    pub(crate) fn check_unset_globals(&mut self) {
        let Some((mut variables, code)) = self.unset_candidates() else { return };
        let mut reads: Vec<(DeclId, ExprId)> = Vec::new();
        for decl in code {
            let mut exprs = Vec::from_iter(self.ast.decls[decl].kind.init());
            if let Some(body) = self.body_of(decl) {
                exprs.extend(self.body_parts(body).0);
            } else {
                let mut next = 0;
                while let Some(&expr) = exprs.get(next) {
                    self.ast.exprs[expr].kind.operands(&mut exprs);
                    next += 1;
                }
            }
            let mut seen = FxHashSet::default();
            exprs.sort_by_key(|&expr| self.span(expr).start);
            for expr in exprs {
                self.written_by(expr).into_iter().for_each(|var| _ = variables.remove(&var));
                if let Meaning::Var(var) = self.tables.exprs[expr].meaning
                    && variables.contains(&var)
                    && seen.insert(var)
                {
                    reads.push((var, expr));
                }
            }
        }
        for (var, expr) in reads {
            let ty = self.decl_type(var);
            let has_numbers =
                self.holds_numbers(ty, 0) && matches!(self.default_of(ty), Initializer::Default(_));
            if !variables.contains(&var) || !has_numbers {
                continue;
            }
            let name = self.ast.decl_name(var);
            let message = format!("'{name}' is read, and nothing ever assigns it");
            let warning = Diagnostic::warning("E41017", self.span(expr), message);
            let warning = warning.note(self.name_span(var), "declared here");
            self.report_once(warning.help("it is zero here, and may be anything elsewhere"));
        }
    }

    /// Returns true for a global variable that the program itself has to give a value.
    fn may_be_unset(&self, decl: DeclId) -> bool {
        let modifiers = self.ast.decls[decl].modifiers;
        let own = Modifiers(Modifiers::STATIC.0 | Modifiers::GROUPSHARED.0 | Modifiers::OUT.0);
        let others =
            Modifiers(Modifiers::EXTERN.0 | Modifiers::EXPORT.0 | Modifiers::IN.0 | Modifiers::UNIFORM.0);
        self.is_global(decl) && modifiers.has(own) && !modifiers.has(others)
    }

    /// The variables that an expression assigns, or that it may assign.
    fn written_by(&mut self, expr: ExprId) -> Vec<DeclId> {
        let mut places: Vec<ExprId> = Vec::new();
        match self.tables.exprs[expr].meaning.clone() {
            Meaning::Assign { target, .. } | Meaning::AssignCall { target, .. } => places.push(target),
            Meaning::IncDec(place) | Meaning::AddressOf(place) => places.push(place),
            Meaning::Unary(UnaryOp::PreInc | UnaryOp::PreDec, place) => places.push(place),
            Meaning::Property { base, .. } => places.extend(base),
            Meaning::Call { func, base, args } => {
                places.extend(base);
                let params = match &func {
                    Callable::Func(func) => Some(self.raw_signature(func.decl).params.clone()),
                    _ => None,
                };
                for (k, arg) in args.iter().enumerate() {
                    let param = params.as_ref().and_then(|params| params.get(k));
                    if !matches!(arg, Arg::Expr(_)) || param.is_none_or(|param| param.dir.is_written()) {
                        places.extend(arg.exprs());
                    }
                }
            }
            _ => {}
        }
        let roots = places.into_iter().filter_map(|place| {
            let place = match self.tables.exprs[place].meaning {
                // Something is written through a pointer or a reference: where it comes from is not known.
                Meaning::Deref(inner) => inner,
                _ => place,
            };
            self.root_of(place)
        });
        roots.collect()
    }
}
