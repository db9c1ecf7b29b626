//! Finds pointers that are other names of local variables.
//!
//! A pointer that is declared with the address of a variable, or of a part of it, and then only dereferenced
//! stands for that place, so what is read and written through it is the place itself: it needs no memory, has the
//! variable's derivative, and stands for the variable of this call in recursion. [`super::chosen`] finds pointers that
//! lead to one of several variables. Any other address of a variable is one of memory, which has no derivative.

use rustc_hash::{FxHashMap, FxHashSet};
use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, ExprId, StmtId};

use crate::program::Program;
use crate::tables::Meaning;
use crate::types::TyKind;

impl Program {
    /// Replaces what such pointers lead to by the places themselves, in a body that has been checked.
    pub(crate) fn resolve_aliases(&mut self, body: StmtId) {
        let (exprs, locals) = self.body_parts(body);
        // A lambda may use a pointer where this walk does not see it.
        if exprs.iter().any(|&e| matches!(self.ast.exprs[e].kind, ExprKind::Lambda(_))) {
            return;
        }
        let mut targets: FxHashMap<DeclId, ExprId> = FxHashMap::default();
        for &local in &locals {
            if let Some(of) = self.ast.decls[local].kind.init().and_then(|init| self.fixed_place(init)) {
                targets.insert(local, of);
            }
        }
        // Where each is dereferenced, and the names of pointers there.
        let (mut uses, mut followed) = (Vec::new(), FxHashSet::default());
        for &e in &exprs {
            let Meaning::Deref(inner) = self.tables.exprs[e].meaning else { continue };
            let name = self.tables.plain(inner);
            if let Meaning::Var(pointer) = self.tables.exprs[name].meaning
                && targets.contains_key(&pointer)
            {
                followed.insert(name);
                uses.push((e, pointer));
            } else if let Some(of) = self.fixed_place(inner) {
                self.tables.exprs[e].meaning = Meaning::Same(of);
            }
        }
        for &e in &exprs {
            let info = &self.tables.exprs[e];
            let Meaning::Var(pointer) = info.meaning else { continue };
            if followed.contains(&e) || !targets.contains_key(&pointer) {
                continue;
            }
            let content = match self.types[info.ty] {
                TyKind::Pointer(content, ..) => self.types.bare(content),
                _ => info.ty,
            };
            if info.coerce == Some(content) && content != info.ty {
                uses.push((e, pointer));
            } else {
                targets.remove(&pointer);
            }
        }
        for (e, pointer) in uses {
            let Some(&of) = targets.get(&pointer) else { continue };
            let ty = self.tables.exprs[of].ty;
            let info = &mut self.tables.exprs[e];
            (info.meaning, info.ty, info.coerce) = (Meaning::Same(of), ty, None);
        }
        self.tables.aliases.extend(targets.into_keys());
    }

    /// The expressions and the declarations of a body.
    pub(crate) fn body_parts(&self, body: StmtId) -> (Vec<ExprId>, Vec<DeclId>) {
        let (mut stmts, mut work, mut locals) = (vec![body], Vec::new(), Vec::new());
        while let Some(stmt) = stmts.pop() {
            let kind = &self.ast.stmts[stmt].kind;
            kind.expressions(&mut work);
            locals.extend(kind.declarations());
            kind.statements(&mut stmts);
        }
        work.extend(locals.iter().filter_map(|&local| self.ast.decls[local].kind.init()));
        let mut exprs = Vec::new();
        while let Some(expr) = work.pop() {
            exprs.push(expr);
            self.ast.exprs[expr].kind.operands(&mut work);
        }
        (exprs, locals)
    }

    /// The place whose address an expression is, if it is always the same part of one local variable.
    fn fixed_place(&self, address: ExprId) -> Option<ExprId> {
        let is_literal = |index: ExprId| matches!(self.ast.exprs[index].kind, ExprKind::Int { .. });
        self.named_place(address, &mut { is_literal })?;
        match self.tables.exprs[self.tables.plain(address)].meaning {
            Meaning::AddressOf(of) => Some(of),
            _ => None,
        }
    }

    /// The local variable of whose part an expression is the address. The path has indices that `allows` accepts.
    pub(crate) fn named_place(
        &self,
        address: ExprId,
        allows: &mut dyn FnMut(ExprId) -> bool,
    ) -> Option<DeclId> {
        let address = self.tables.plain(address);
        let info = &self.tables.exprs[address];
        let Meaning::AddressOf(of) = info.meaning else { return None };
        let TyKind::Pointer(content, ..) = self.types[info.coerce.unwrap_or(info.ty)] else { return None };
        if self.types.bare(content) != self.types.bare(self.tables.exprs[of].ty) {
            return None;
        }
        let mut at = of;
        loop {
            let info = &self.tables.exprs[at];
            if info.coerce.is_some_and(|to| to != info.ty) {
                return None;
            }
            at = match info.meaning {
                Meaning::Var(decl) => return self.is_automatic(decl).then_some(decl),
                Meaning::Swizzle { base, ref comps } if comps.len() == 1 => base,
                Meaning::MatrixSwizzle { base, ref comps } if comps.len() == 1 => base,
                Meaning::Field { base: Some(base), .. }
                | Meaning::TupleField { base, .. }
                | Meaning::PairField { base, .. }
                | Meaning::Same(base) => base,
                Meaning::Index { base, index } if allows(index) => base,
                _ => return None,
            };
            if !matches!(
                self.types[self.tables.exprs[at].ty],
                TyKind::Struct(..)
                    | TyKind::Tuple(_)
                    | TyKind::DiffPair(_)
                    | TyKind::Array(..)
                    | TyKind::Matrix(..)
                    | TyKind::Vector(..)
                    | TyKind::Scalar(_)
            ) {
                return None;
            }
        }
    }

    /// Returns true for a variable or parameter that each call of a function has for itself.
    pub(crate) fn is_automatic(&self, decl: DeclId) -> bool {
        let data = &self.ast.decls[decl];
        let is_shared = data.modifiers.has(Modifiers::STATIC) || data.modifiers.has(Modifiers::GROUPSHARED);
        let is_local = match data.kind {
            DeclKind::Param { .. } => true,
            DeclKind::Var { .. } => data.parent.is_some_and(|parent| self.is_function(parent)),
            _ => false,
        };
        is_local && !is_shared
    }
}
