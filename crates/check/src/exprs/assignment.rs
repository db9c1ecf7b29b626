//! Checks assignments: `a = b`, `a op= b`, `++a` and `a--`.
//!
//! The target has to be a place. The result of an operator has to convert back to the target's type, so that
//! `op=` cannot assign a vector to a scalar. On types other than numbers the user's function returns the
//! value, or operates on the place.

use syntax::ast::{BinaryOp, DeclKind, ExprKind, Modifiers};
use syntax::{Diagnostic, ExprId};

use crate::exprs::infer::Checker;
use crate::signature::Direction;
use crate::tables::{Callable, ExprInfo, Meaning};
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

impl Checker<'_> {
    /// Infers `++e`, `e--` and the like.
    pub(crate) fn infer_inc_dec(&mut self, expr: ExprId, inner: ExprId) -> Ty {
        let ty = self.infer(inner, None);
        if ty == Ty::ERROR {
            return self.set_error(expr);
        }
        self.need_place(inner);
        if let Some(func) = self.counting_function(expr, ty) {
            return self.call_operator(expr, func, inner, None);
        }
        let is_pointer = matches!(self.p.types[ty], TyKind::Pointer(..));
        if !is_pointer && (!self.p.has_operators(ty) || self.p.element(ty) == Ty::BOOL) {
            let message = text!("a value of type '{}' cannot be counted up or down", self.name(ty));
            return self.fail(expr, "E39999", message);
        }
        self.set_value(expr, ty, Meaning::IncDec(inner))
    }

    /// Reports an expression that cannot be assigned to. Returns true if it can.
    pub(crate) fn need_place(&mut self, expr: ExprId) -> bool {
        let info = &self.p.tables.exprs[expr];
        if info.lvalue || matches!(info.meaning, Meaning::Error) {
            return true;
        }
        let root = self.root_of(expr);
        let help = match self.p.tables.exprs[root].meaning.clone() {
            Meaning::Var(decl) => {
                let modifiers = self.p.ast.decls[decl].modifiers;
                let name = self.p.ast.decl_name(decl).to_string();
                match modifiers.has(Modifiers::LET) {
                    true => Some(format!("'{name}' is declared with 'let': use 'var'")),
                    false => modifiers.has(Modifiers::CONST).then(|| format!("'{name}' is constant")),
                }
            }
            Meaning::This | Meaning::Field { base: None, .. } if self.capture.is_some() => {
                Some("a lambda has a copy of what is around it, which cannot be changed".to_string())
            }
            Meaning::This | Meaning::Field { base: None, .. } => {
                Some("mark the method '[mutating]' to change its object".to_string())
            }
            Meaning::PairField { .. } => Some("make a new pair: 'p = diffPair(p.p, d)'".to_string()),
            _ => None,
        };
        let help = self.only_read(expr).or(help);
        let error = Diagnostic::error("E30011", self.span(expr), "left of '=' is not an l-value");
        self.p.report(error.label("this cannot be assigned to").help_if(help));
        false
    }

    /// The expression that determines whether a path can be assigned to.
    fn root_of(&self, expr: ExprId) -> ExprId {
        let meaning = &self.p.tables.exprs[expr].meaning;
        match meaning.base() {
            _ if matches!(meaning, Meaning::PairField { .. } | Meaning::Property { .. }) => expr,
            Some(base) if !self.p.tables.exprs[base].lvalue => self.root_of(base),
            _ => expr,
        }
    }

    /// Infers `a = b`, `a op= b`.
    pub(crate) fn infer_assign(
        &mut self,
        expr: ExprId,
        op: Option<BinaryOp>,
        target: ExprId,
        value: ExprId,
    ) -> Ty {
        // The members on the way to the target are not read, unless the value is computed from the old one.
        let mut at = Some(target).filter(|_| op.is_none());
        while let Some(place) = at {
            self.targets.push(place);
            at = match self.p.ast.exprs[place].kind {
                ExprKind::Member { base, .. } | ExprKind::Index { base, .. } => Some(base),
                ExprKind::Paren(inner) => Some(inner),
                _ => None,
            };
        }
        let ty = self.infer(target, None);
        self.targets.clear();
        if ty == Ty::ERROR {
            if !self.is_list(value) {
                self.infer(value, None);
            }
            return self.set_error(expr);
        }
        let lvalue = self.need_place(target);
        let assign = ExprInfo::new(ty, Meaning::Assign { op, target, value }, lvalue);
        let Some(op) = op else {
            self.check(value, ty);
            return self.set(expr, assign);
        };
        self.infer(value, None);
        let b = self.load(value);
        if b == Ty::ERROR {
            return self.set_value(expr, ty, Meaning::Error);
        }
        if let Some(chosen) = self.shaped_operator(expr, op, target, value)
            && chosen.signature.ret == ty
            && let Callable::Func(func) = chosen.callable.clone()
        {
            let arguments = [self.argument(target), self.argument(value)];
            self.fit_arguments(&chosen, &arguments);
            return self.set(expr, ExprInfo::new(ty, Meaning::AssignCall { func, target, value }, lvalue));
        }
        if self.numbers(ty) && self.numbers(b) {
            let types = self.binary_types(op, ty, b);
            let Some((_, y, result)) = types else { return self.operand_error(expr, op.text(), ty, b) };
            // The result has to convert back to the target's shape.
            if self.p.conversion(result, ty, Source::EXPLICIT).is_none() || self.truncates(result, ty) {
                return self.operand_error(expr, &format!("{}=", op.text()), ty, b);
            }
            self.coerce(value, y);
            return self.set(expr, assign);
        }
        if matches!(self.p.types[ty], TyKind::Pointer(..))
            && matches!(self.p.types[b], TyKind::Scalar(s) if s.is_int())
            && matches!(op, BinaryOp::Add | BinaryOp::Sub)
        {
            return self.set(expr, assign);
        }
        let arguments = [self.argument(target), self.argument(value)];
        for name in [format!("operator{}=", op.text()), format!("operator{}", op.text())] {
            if let Some(chosen) = self.visible_operator(expr, &name, &arguments)
                && let Callable::Func(func) = chosen.callable.clone()
            {
                self.fit_arguments(&chosen, &arguments);
                if chosen.signature.params.first().is_some_and(|p| p.dir == Direction::Ref) {
                    // The function operates on the place, and nothing is assigned.
                    return self.call_operator(expr, func, target, Some(value));
                }
                let meaning = Meaning::AssignCall { func, target, value };
                return self.set(expr, ExprInfo::new(ty, meaning, lvalue));
            }
        }
        if ty == b
            && let Some(func) = self.p.operator_of(op, ty)
        {
            let meaning = Meaning::AssignCall { func, target, value };
            return self.set(expr, ExprInfo::new(ty, meaning, lvalue));
        }
        self.operand_error(expr, &format!("{}=", op.text()), ty, b)
    }

    /// The type with which a place is stored: matrices in memory have an order, their values have none.
    pub(crate) fn stored_type(&mut self, place: ExprId) -> Ty {
        let info = self.p.tables.exprs[place].clone();
        if let Some(seen) = info.coerce {
            return seen;
        }
        let ty = info.ty;
        match info.meaning {
            Meaning::Same(inner) => self.stored_type(inner),
            Meaning::Var(decl) if matches!(self.p.ast.decls[decl].kind, DeclKind::Var { .. }) => {
                self.p.decl_type(decl)
            }
            Meaning::Field { base, field } => {
                let base = match base {
                    Some(base) => Some(self.stored_type(base)),
                    None => self.this.map(|this| this.0),
                };
                let layout = match base.map(|base| &self.p.types[base]) {
                    Some(&TyKind::Laid(_, layout)) => Some(layout),
                    _ => None,
                };
                let base = base.map(|base| if layout.is_some() { self.p.types.of_value(base) } else { base });
                let fields = base.map_or(Vec::new(), |base| self.p.fields(base));
                let stored = fields.iter().find(|f| f.0 == field).map_or(ty, |f| f.1);
                // A part of what has a layout has that layout.
                match (layout, &self.p.types[stored]) {
                    (Some(layout), TyKind::Struct(..) | TyKind::Array(..)) => self.p.laid(stored, layout),
                    _ => stored,
                }
            }
            Meaning::Index { base, .. } | Meaning::Deref(base) => {
                let base = self.stored_type(base);
                match self.p.types[base] {
                    TyKind::Array(element, _) | TyKind::Buffer(_, element) | TyKind::Pointer(element, ..) => {
                        element
                    }
                    _ => ty,
                }
            }
            Meaning::TupleField { base, idx } => {
                let base = self.stored_type(base);
                match &self.p.types[base] {
                    TyKind::Tuple(parts) => parts.get(idx as usize).copied().unwrap_or(ty),
                    _ => ty,
                }
            }
            _ => ty,
        }
    }

    fn truncates(&self, from: Ty, to: Ty) -> bool {
        let shape = |ty: Ty| matches!(self.p.types[ty], TyKind::Vector(..) | TyKind::Matrix(..));
        shape(from) && !shape(to)
    }
}
