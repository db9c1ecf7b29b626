//! Packs: `f<each T>(T values)` takes any number of arguments.
//!
//! A parameter whose type is a pack takes as many arguments as the others leave; they are one value, like a tuple's,
//! from there on. `where T == int` says it of each element, `where countof(T) == N` of their number. What is written
//! with `expand` over each element is not supported.

use syntax::ast::{Expr, ExprKind, Modifiers};
use syntax::{DeclId, ExprId};

use crate::conversion::Source;
use crate::infer::Checker;
use crate::overload::Argument;
use crate::program::Program;
use crate::signature::Signature;
use crate::tables::Meaning;
use crate::types::{Ty, TyKind};

/// Which arguments of a call are one pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) first: usize,
    pub(crate) len: usize,
}

impl Program {
    /// Whether a generic parameter stands for any number of types.
    pub(crate) fn is_pack_param(&self, param: DeclId) -> bool {
        self.ast.decls[param].modifiers.has(Modifiers::EACH)
    }

    /// Whether a type is a pack, known or not.
    pub(crate) fn is_pack(&self, ty: Ty) -> bool {
        match self.types[ty] {
            TyKind::Pack(_) => true,
            TyKind::Param(param) => self.is_pack_param(param),
            _ => false,
        }
    }

    /// Two types that a constraint says are the same; for a pack, that each element is the other.
    pub(crate) fn same_types(&self, a: Ty, b: Ty) -> bool {
        if a == b || a == Ty::ERROR || b == Ty::ERROR {
            return true;
        }
        match (&self.types[a], &self.types[b]) {
            (TyKind::Pack(parts), _) => parts.iter().all(|&part| part == b),
            (_, TyKind::Pack(parts)) => parts.iter().all(|&part| part == a),
            // which elements it has is not known yet
            _ => self.is_pack(a) || self.is_pack(b),
        }
    }

    /// The type that constraints of a function give each element of a pack.
    fn element_of_pack(&mut self, decl: DeclId, pack: Ty) -> Option<Ty> {
        let constraints = self.constraints_of(decl);
        constraints.equal.iter().find_map(|&(a, b)| {
            if a == pack {
                Some(b)
            } else if b == pack {
                Some(a)
            } else {
                None
            }
        })
    }
}

impl Checker<'_> {
    /// The arguments of a call with those for a pack put together; what they cost beyond conversion of the whole.
    pub(crate) fn pack_arguments(
        &mut self,
        decl: DeclId,
        pattern: &Signature,
        args: &[Argument],
    ) -> Option<(Vec<Argument>, Packed)> {
        let first = pattern.params.iter().position(|p| self.p.is_pack(p.ty))?;
        let others = pattern.params.len() - 1;
        let len = args.len().checked_sub(others)?;
        let pack = pattern.params[first].ty;
        let given = &args[first..first + len];
        if let [only] = given
            && only.ty.is_some_and(|ty| self.p.is_pack(ty))
        {
            return None;
        }
        let element = self.p.element_of_pack(decl, pack);
        let mut types = Vec::new();
        for arg in given {
            let from = arg.ty?;
            let to = match element {
                Some(element) => {
                    self.p.conversion(from, element, arg.source)?;
                    element
                }
                None => self.p.loaded(from),
            };
            types.push(to);
        }
        let ty = self.p.types.intern(TyKind::Pack(types));
        let expr = given.first().or(args.first()).map(|a| a.expr);
        let expr = match expr {
            Some(expr) => expr,
            None => self
                .p
                .ast
                .exprs
                .push(Expr { kind: ExprKind::InitList(Vec::new()), span: self.p.ast.decls[decl].name_span }),
        };
        let whole = Argument { expr, ty: Some(ty), source: Source::default(), lvalue: false };
        let mut all = args[..first].to_vec();
        all.push(whole);
        all.extend_from_slice(&args[first + len..]);
        Some((all, Packed { first, len }))
    }

    /// Whether the operand of `expand` or `each` is a pack as it is: its name, or `each` and its name.
    pub(crate) fn names_pack(&self, operand: ExprId) -> bool {
        match &self.p.ast.exprs[operand].kind {
            ExprKind::Name(_) => true,
            ExprKind::Each(inner) => matches!(self.p.ast.exprs[*inner].kind, ExprKind::Name(_)),
            _ => false,
        }
    }

    /// The value of a pack: its elements, each converted.
    pub(crate) fn pack_value(&mut self, args: &[Argument], ty: Ty) -> Argument {
        let elements = match &self.p.types[ty] {
            TyKind::Pack(parts) => parts.clone(),
            _ => Vec::new(),
        };
        let exprs: Vec<ExprId> = args.iter().map(|a| a.expr).collect();
        for (&expr, &element) in exprs.iter().zip(&elements) {
            self.coerce(expr, element);
        }
        let span = exprs.first().map_or(self.p.ast.decls[self.scope].name_span, |&e| self.span(e));
        let expr = self.p.ast.exprs.push(Expr { kind: ExprKind::InitList(exprs.clone()), span });
        self.set_value(expr, ty, Meaning::MakeTuple(exprs));
        Argument { expr, ty: Some(ty), source: Source::default(), lvalue: false }
    }
}
