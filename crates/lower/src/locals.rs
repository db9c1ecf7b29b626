//! Finds the variables that a piece of source writes.
//!
//! Before code is lowered, scans of its tree answer two questions: which variables a loop assigns (these
//! become its carried values), and which variables have an array whose elements are written (such arrays
//! become cells). Both answers may include too many variables, but never too few; the slots that a loop
//! really changed are checked afterwards.

use std::rc::Rc;

use check::Direction;
use check::tables::{Callable, FuncRef, Meaning};
use check::types::TyKind;
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use syntax::ast::StmtKind;
use syntax::{DeclId, ExprId, StmtId};

use crate::body::{Body, Name};
use crate::declared::Written;

/// The result of a scan.
#[derive(Default)]
pub(crate) struct Scan {
    /// Variables that are assigned, wholly or in part.
    pub(crate) assigned: IndexSet<Name, FxBuildHasher>,
    /// Variables with an array of which an element is assigned.
    pub(crate) elements: FxHashSet<Name>,
    /// Variables whose address is taken, and where.
    pub(crate) addressed: FxHashMap<DeclId, ExprId>,
    /// Variables declared within the code.
    pub(crate) declared: FxHashSet<Name>,
    /// There are calls, writes to buffers or the like, which may change things other than variables.
    pub(crate) effects: bool,
}

impl Body<'_, '_, '_> {
    /// Finds the variables with an array of which an element is written in a body, and the variables whose
    /// address is taken.
    pub(crate) fn find_celled(&mut self, body: StmtId) {
        let mut scan = Scan::default();
        self.scan_stmt(body, &mut scan);
        self.locals.celled = scan.elements;
        self.locals.addressed = scan.addressed;
    }

    pub(crate) fn scan_stmt(&mut self, stmt: StmtId, scan: &mut Scan) {
        let mut work = vec![stmt];
        while let Some(stmt) = work.pop() {
            scan.declared.extend(self.lw.program.ast.tries(stmt).into_iter().map(Name::Try));
            let kind = self.lw.program.ast.stmts[stmt].kind.clone();
            if let StmtKind::DoCatch { catches, .. } = &kind {
                scan.declared.extend(catches.iter().filter_map(|c| c.0).map(Name::Decl));
            }
            let mut exprs = Vec::new();
            kind.expressions(&mut exprs);
            exprs.into_iter().for_each(|e| self.scan_expr(e, scan));
            kind.declarations().iter().for_each(|&d| self.scan_decl(d, scan));
            kind.statements(&mut work);
        }
    }

    fn scan_decl(&mut self, decl: DeclId, scan: &mut Scan) {
        if self.lw.program.tables.aliases.contains(&decl) {
            return;
        }
        let kind = &self.lw.program.ast.decls[decl].kind;
        scan.declared.extend([decl].iter().chain(kind.parts()).map(|&decl| Name::Decl(decl)));
        kind.init().into_iter().for_each(|init| self.scan_expr(init, scan));
    }

    /// Scans an expression and its operands. There is no recursion, since operands may nest deeply.
    pub(crate) fn scan_expr(&mut self, expr: ExprId, scan: &mut Scan) {
        let mut work = vec![expr];
        while let Some(e) = work.pop() {
            match &self.lw.program.tables.exprs[e].meaning {
                Meaning::Assign { target, .. }
                | Meaning::AssignCall { target, .. }
                | Meaning::IncDec(target) => {
                    let target = *target;
                    self.scan_target(target, scan);
                }
                Meaning::Call { .. } | Meaning::Init { .. } => self.scan_call(e, scan),
                Meaning::AddressOf(of) if !self.lw.program.tables.addresses.contains(&e) => {
                    let of = *of;
                    self.scan_address(e, of, scan);
                }
                Meaning::Binary(..) | Meaning::Unary(..) => {}
                Meaning::Var(_) | Meaning::This | Meaning::Field { .. } | Meaning::Index { .. }
                    if self.splits =>
                {
                    let ty = self.raw_ty(e);
                    if self.is_split(ty) {
                        self.scan_target(e, scan);
                    }
                }
                _ => {}
            }
            self.lw.program.ast.exprs[e].kind.operands(&mut work);
        }
    }

    fn scan_call(&mut self, e: ExprId, scan: &mut Scan) {
        scan.effects = true;
        let written = self.written(e);
        let (base, args) = match &self.lw.program.tables.exprs[e].meaning {
            Meaning::Call { base, args, .. } => (*base, args.clone()),
            Meaning::Init { args, .. } => (None, args.clone()),
            _ => return,
        };
        if written.base {
            match base {
                Some(base) => self.scan_target(base, scan),
                None => {
                    scan.assigned.insert(Name::This);
                }
            }
        }
        for (arg, &is_written) in args.iter().zip(&written.args) {
            if is_written {
                for arg in arg.exprs() {
                    self.scan_target(arg, scan);
                }
            }
        }
    }

    /// The arguments that a call writes.
    pub(crate) fn written(&mut self, e: ExprId) -> Rc<Written> {
        if let Some(written) = self.lw.written.get(&e) {
            return written.clone();
        }
        let callable = match &self.lw.program.tables.exprs[e].meaning {
            Meaning::Call { func, .. } => Some(func.clone()),
            Meaning::Init { init, .. } => Some(Callable::Func(FuncRef::clone(init))),
            _ => None,
        };
        let written = match callable {
            Some(callable) => {
                let sig = self.lw.program.callable_signature(&callable);
                Written {
                    args: sig
                        .params
                        .iter()
                        .map(|p| matches!(p.dir, Direction::Out | Direction::InOut | Direction::Ref))
                        .collect(),
                    base: sig.is_mutating(),
                }
            }
            None => Written::default(),
        };
        let written = Rc::new(written);
        self.lw.written.insert(e, written.clone());
        written
    }

    /// Records the variable that a place is a part of.
    fn scan_target(&mut self, target: ExprId, scan: &mut Scan) {
        self.scan_part(target, false, scan);
    }

    /// Records the variable that a place is a part of; `element`: an element of the place is assigned.
    fn scan_part(&mut self, target: ExprId, mut element: bool, scan: &mut Scan) {
        let mut e = target;
        let name = loop {
            e = match &self.lw.program.tables.exprs[e].meaning {
                Meaning::Var(decl) => break Name::Decl(*decl),
                Meaning::This | Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. } => {
                    break Name::This;
                }
                Meaning::Index { base, .. } => {
                    let base = *base;
                    let ty = self.raw_ty(base);
                    element |= matches!(self.lw.program.types[ty], TyKind::Array(..));
                    base
                }
                Meaning::NoDiff(inner) | Meaning::Assign { target: inner, .. } | Meaning::IncDec(inner) => {
                    *inner
                }
                // Any of the places may be assigned.
                Meaning::Chosen(pointer) => {
                    let chosen = self.lw.program.tables.chosen.get(pointer).cloned();
                    for place in chosen.iter().flat_map(|chosen| &chosen.places) {
                        self.scan_part(place.of, element, scan);
                    }
                    return;
                }
                meaning => match meaning.base() {
                    Some(base) => base,
                    None => {
                        scan.effects = true;
                        return;
                    }
                },
            };
        };
        scan.assigned.insert(name);
        if element {
            scan.elements.insert(name);
        }
    }
}
