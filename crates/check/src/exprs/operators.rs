//! Checks operators: on numbers they are built in, on other types they are functions of the user's (see
//! [`crate::exprs::operator_functions`]).

use syntax::ast::{BinaryOp, ExprKind, UnaryOp};
use syntax::{Diagnostic, ExprId};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::tables::{ExprInfo, Meaning};
use crate::types::builtin::{FLOATS, INTEGERS};
use crate::types::follow_up::text;
use crate::types::{Comparison, Ty, TyKind, Val};

fn is_bitwise(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr)
}

impl Program {
    /// Returns true for `CoopVec<T, N>`; only that has more than four components.
    pub fn is_compared_whole(&self, ty: Ty) -> bool {
        match &self.types[ty] {
            TyKind::Vector(_, n, comparison) => {
                *comparison == Comparison::Whole || matches!(n, Val::Int(5..))
            }
            _ => false,
        }
    }

    pub(crate) fn with_element(&mut self, shape: Ty, element: Ty) -> Ty {
        match self.types[shape].clone() {
            TyKind::Vector(_, n, c) => self.types.intern(TyKind::Vector(element, n, c)),
            TyKind::Matrix(_, r, c, order) => self.types.intern(TyKind::Matrix(element, r, c, order)),
            _ => element,
        }
    }

    /// The integer type of an enumeration; any other type is returned as it is.
    pub(crate) fn untagged(&mut self, ty: Ty) -> Ty {
        match self.types[ty] {
            TyKind::Enum(decl) => self.enum_tag(decl),
            _ => ty,
        }
    }

    pub(crate) fn element(&self, ty: Ty) -> Ty {
        match self.types[ty] {
            TyKind::Vector(e, _, _) | TyKind::Matrix(e, ..) => e,
            _ => ty,
        }
    }
}

impl Checker<'_> {
    /// Returns true if the built-in operators apply to values of a type, as far as it is known.
    pub(crate) fn numbers(&mut self, ty: Ty) -> bool {
        ty == Ty::ERROR || matches!(self.p.types[ty], TyKind::Enum(_)) || self.p.has_operators(ty)
    }

    /// Infers a chain `a + b + c + …`, which is nested to the left, from the inside out without recursion.
    pub(crate) fn infer_binary_chain(&mut self, expr: ExprId) -> Ty {
        let mut chain = Vec::new();
        let mut at = expr;
        while let ExprKind::Binary(_, left, _) = self.p.ast.exprs[at].kind {
            chain.push(at);
            at = left;
        }
        if let Some(ty) = self.conjunction(&chain, at) {
            return self.set_type(expr, ty);
        }
        if self.lacks_angle(&chain, at) {
            return self.set_error(expr);
        }
        let mut ty = Ty::ERROR;
        for &node in chain.iter().rev() {
            let ExprKind::Binary(op, left, right) = self.p.ast.exprs[node].kind else { break };
            ty = self.infer_binary(node, op, left, right);
        }
        ty
    }

    /// Returns true if a chain starts with `f <` for a function `f` that has been reported: generic arguments
    /// without `>`.
    fn lacks_angle(&mut self, chain: &[ExprId], first: ExprId) -> bool {
        let opens =
            |&node: &ExprId| matches!(self.p.ast.exprs[node].kind, ExprKind::Binary(BinaryOp::Lt, ..));
        let span = self.span(first);
        if !chain.last().is_some_and(opens) || !matches!(self.p.tables.exprs[first].meaning, Meaning::Error) {
            return false;
        }
        let last = self.p.diagnostics.last_mut();
        let Some(error) = last.filter(|d| d.primary.span == span && d.code == "E30060") else { return false };
        error.help = Some("if '<' opens generic arguments, their '>' is missing".to_string());
        true
    }

    /// `A & B` of interfaces, kept as the list of them. Infers the first operand even if the chain is not a
    /// conjunction.
    fn conjunction(&mut self, chain: &[ExprId], first: ExprId) -> Option<Ty> {
        let operand = |&node: &ExprId| match self.p.ast.exprs[node].kind {
            ExprKind::Binary(BinaryOp::BitAnd, _, right) => Some(right),
            _ => None,
        };
        let rest: Option<Vec<ExprId>> = chain.iter().rev().map(operand).collect();
        if rest.is_some() {
            self.infer_any(first, None);
        }
        let (Some(rest), Meaning::Type(ty)) = (rest, &self.p.tables.exprs[first].meaning) else {
            self.infer(first, None);
            return None;
        };
        let mut parts = vec![*ty];
        parts.extend(rest.into_iter().map(|part| self.type_expr(part)));
        let parts = self.p.spliced(parts);
        Some(self.p.types.intern(TyKind::Pack(parts)))
    }

    /// Infers a binary operator whose left operand has been inferred.
    fn infer_binary(&mut self, expr: ExprId, op: BinaryOp, left: ExprId, right: ExprId) -> Ty {
        if op == BinaryOp::Comma {
            let ty = self.infer(right, None);
            return self.set_value(expr, ty, Meaning::Binary(op, left, right));
        }
        let a = self.load(left);
        self.infer(right, None);
        let b = self.load(right);
        if a == Ty::ERROR || b == Ty::ERROR {
            // The result type of a comparison is known nevertheless.
            let ty = if op.is_comparison() { Ty::BOOL } else { Ty::ERROR };
            return self.set_value(expr, ty, Meaning::Error);
        }
        // A pointer is true if it is not null.
        let [a, b] = [(left, a), (right, b)].map(|(side, ty)| match self.p.types[ty] {
            TyKind::Pointer(..) if op.is_logical() => {
                self.coerce(side, Ty::BOOL);
                Ty::BOOL
            }
            _ => ty,
        });
        if !self.numbers(a) || !self.numbers(b) {
            return self.user_binary(expr, op, left, right);
        }
        if let Some(chosen) = self.shaped_operator(expr, op, left, right) {
            let arguments = [self.argument(left), self.argument(right)];
            let args = self.fit_arguments(&chosen, &arguments);
            let ty = chosen.signature.ret;
            return self.set_value(expr, ty, Meaning::Call { func: chosen.callable, base: None, args });
        }
        match self.binary_types(op, a, b) {
            Some((x, y, result)) => {
                if op == BinaryOp::Rem || op == BinaryOp::Div {
                    self.check_zero_divisor(op, x, right);
                }
                self.coerce(left, x);
                self.coerce(right, y);
                self.set_value(expr, result, Meaning::Binary(op, left, right))
            }
            None => self.operand_error(expr, op.text(), a, b),
        }
    }

    fn check_zero_divisor(&mut self, op: BinaryOp, ty: Ty, right: ExprId) {
        let element = self.p.element(ty);
        if matches!(self.p.types[element], TyKind::Scalar(s) if s.is_int())
            && self.p.int_literal(right) == Some(0)
        {
            let what = if op == BinaryOp::Div { "division" } else { "remainder" };
            self.error("E30002", self.span(right), format!("{what} by zero"));
        }
    }

    pub(crate) fn operand_error(&mut self, expr: ExprId, op: &str, a: Ty, b: Ty) -> Ty {
        let message = text!("no operator '{op}' for '{}' and '{}'", self.name(a), self.name(b));
        self.p.report(Diagnostic::error("E39999", self.span(expr), message));
        self.set_error(expr)
    }

    /// The types that the operands are converted to, and the type of the result.
    pub(crate) fn binary_types(&mut self, op: BinaryOp, a: Ty, b: Ty) -> Option<(Ty, Ty, Ty)> {
        if a == b && matches!(self.p.types[a], TyKind::Enum(_)) {
            match op {
                BinaryOp::Eq | BinaryOp::Ne => return Some((a, a, Ty::BOOL)),
                _ if is_bitwise(op) => return Some((a, a, a)),
                _ => {}
            }
        }
        let [a, b] = [a, b].map(|ty| self.p.untagged(ty));
        if op.is_logical() {
            let shape = self.p.join(a, b)?;
            let ty = self.p.with_element(shape, Ty::BOOL);
            return Some((ty, ty, ty));
        }
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
            // The shift amount has a type of its own; only its shape follows the left operand.
            let element = self.p.element(b);
            let is_shape = matches!(self.p.types[a], TyKind::Vector(..) | TyKind::Matrix(..));
            let is_scalar = matches!(self.p.types[b], TyKind::Scalar(_));
            let a = if is_shape || is_scalar {
                a
            } else {
                let element = self.p.element(a);
                self.p.with_element(b, element)
            };
            let left = self.p.element(a);
            if self.p.may_be_float(left) || self.p.may_be_float(element) {
                return None;
            }
            let left = if left == Ty::BOOL { Ty::INT } else { left };
            let a = self.p.with_element(a, left);
            return Some((a, a, a));
        }
        let mut ty = self.p.join(a, b)?;
        if op.is_comparison() {
            let element = self.p.element(ty);
            // Vectors of floats or of integers conform to `IComparable`. If the type of their components is not known
            // yet, its comparison is the one that is known to exist, and has one answer.
            let kinds = self.p.kinds_of(element);
            let is_one = element != ty
                && self.p.types.is_abstract(element)
                && (kinds & !FLOATS == 0 || kinds & !INTEGERS == 0)
                && !self.p.is_core(self.scope)
                || self.p.is_compared_whole(ty);
            let result = if is_one { Ty::BOOL } else { self.p.with_element(ty, Ty::BOOL) };
            return Some((ty, ty, result));
        }
        let element = self.p.element(ty);
        if is_bitwise(op) && self.p.may_be_float(element) {
            return None;
        }
        if element == Ty::BOOL && !is_bitwise(op) {
            ty = self.p.with_element(ty, Ty::INT);
        }
        Some((ty, ty, ty))
    }

    /// Loads through constant buffers and returns the resulting type.
    pub(crate) fn load(&mut self, expr: ExprId) -> Ty {
        let ty = self.ty_of(expr);
        let loaded = self.p.loaded(ty);
        if loaded != ty {
            self.coerce(expr, loaded);
        }
        loaded
    }

    /// Infers a prefix operator.
    pub(crate) fn infer_unary(&mut self, expr: ExprId, op: UnaryOp, inner: ExprId) -> Ty {
        self.infer(inner, None);
        let ty = self.load(inner);
        if ty == Ty::ERROR {
            return self.set_error(expr);
        }
        match op {
            UnaryOp::Deref => {
                return match self.p.types[ty] {
                    TyKind::Pointer(content, ..) => {
                        let lvalue = self.p.is_writing_pointer(ty);
                        self.set(expr, ExprInfo::new(content, Meaning::Deref(inner), lvalue))
                    }
                    _ if let Some(target) = self.p.handle_target(ty) => {
                        self.p.tables.exprs[inner].coerce = Some(target);
                        self.set_value(expr, target, Meaning::Same(inner))
                    }
                    _ => {
                        let message = text!("a value of type '{}' cannot be dereferenced", self.name(ty));
                        self.fail(expr, "E39999", message)
                    }
                };
            }
            UnaryOp::AddressOf | UnaryOp::GetAddress => {
                self.p.tables.exprs[inner].coerce = None;
                if !self.p.tables.exprs[inner].lvalue && ty != Ty::ERROR && self.p.pointer_to(inner).is_none()
                {
                    let message = "the address of something that cannot be assigned to";
                    self.error("E30079", self.span(inner), message);
                }
                let pointer = self.address_type(inner, op == UnaryOp::GetAddress);
                self.takes_address = true;
                return self.set_value(expr, pointer, Meaning::AddressOf(inner));
            }
            UnaryOp::Plus
            | UnaryOp::Neg
            | UnaryOp::Not
            | UnaryOp::BitNot
            | UnaryOp::PreInc
            | UnaryOp::PreDec => {}
        }
        if !self.numbers(ty) {
            if let Some(func) = self.p.unary_operator_of(op, ty) {
                return self.call_operator(expr, func, inner, None);
            }
            let text = op.text();
            return self.fail(expr, "E39999", text!("no operator '{text}' for '{}'", self.name(ty)));
        }
        let ty = self.p.untagged(ty);
        let element = self.p.element(ty);
        let result = match op {
            UnaryOp::Not => self.p.with_element(ty, Ty::BOOL),
            UnaryOp::Neg | UnaryOp::BitNot | UnaryOp::Plus if element == Ty::BOOL => {
                self.p.with_element(ty, Ty::INT)
            }
            _ => ty,
        };
        if op == UnaryOp::BitNot && self.p.may_be_float(element) {
            return self.fail(expr, "E39999", text!("no operator '~' for '{}'", self.name(ty)));
        }
        self.coerce(inner, result);
        let meaning = if op == UnaryOp::Plus { Meaning::Same(inner) } else { Meaning::Unary(op, inner) };
        self.set_value(expr, result, meaning)
    }

    /// `c ? a : b`.
    pub(crate) fn infer_ternary(
        &mut self,
        expr: ExprId,
        cond: ExprId,
        a: ExprId,
        b: ExprId,
        expected: Option<Ty>,
    ) -> Ty {
        let cond_ty = self.infer(cond, None);
        let cond_ty = self.p.loaded(cond_ty);
        let each = |p: &Program, ty: Ty| matches!(p.types[ty], TyKind::Vector(..) | TyKind::Matrix(..));
        let chooses_each = each(self.p, cond_ty);
        if chooses_each {
            let ty = self.p.with_element(cond_ty, Ty::BOOL);
            self.coerce(cond, ty);
        } else {
            self.condition(cond);
        }
        let ty = match (self.is_list(a), self.is_list(b)) {
            (false, false) => {
                self.infer(a, expected);
                self.infer(b, expected);
                let (x, y) = (self.load(a), self.load(b));
                match self.p.join(x, y) {
                    Some(ty) => ty,
                    None => {
                        let message = text!(
                            "the two sides of '?:' are of different types: '{}' and '{}'",
                            self.name(x),
                            self.name(y)
                        );
                        return self.fail(expr, "E39999", message);
                    }
                }
            }
            (true, true) => expected.unwrap_or(Ty::ERROR),
            (true, false) => self.infer(b, expected),
            (false, true) => self.infer(a, expected),
        };
        let ty = if chooses_each && self.numbers(ty) && !each(self.p, ty) {
            self.p.with_element(cond_ty, ty)
        } else {
            ty
        };
        if chooses_each
            && ty != Ty::ERROR
            && self.p.with_element(ty, Ty::BOOL) != self.p.with_element(cond_ty, Ty::BOOL)
        {
            let (cond, ty) = (self.name(cond_ty), self.name(ty));
            let message = text!("a condition of type '{}' cannot choose components of '{}'", cond, ty);
            return self.fail(expr, "E30019", message);
        }
        for side in [a, b] {
            if self.is_list(side) {
                self.init_list(side, ty);
            } else {
                self.coerce(side, ty);
            }
        }
        self.set_value(expr, ty, Meaning::Ternary(cond, a, b))
    }

    /// Infers and checks a condition of `if` or a loop.
    pub(crate) fn infer_condition(&mut self, cond: ExprId) {
        self.infer(cond, None);
        self.condition(cond);
    }

    /// Checks a condition that has been inferred.
    pub(crate) fn condition(&mut self, cond: ExprId) {
        let ty = self.ty_of(cond);
        let loaded = self.p.loaded(ty);
        let fits = match &self.p.types[loaded] {
            TyKind::Scalar(_) | TyKind::Error | TyKind::Pointer(..) | TyKind::Enum(_) => true,
            TyKind::Vector(_, n, _) => *n == crate::types::Val::Int(1),
            TyKind::Matrix(..) => false,
            _ => self.p.has_operators(loaded),
        };
        if fits {
            if loaded != Ty::BOOL && loaded != Ty::ERROR {
                self.p.tables.exprs[cond].coerce = Some(Ty::BOOL);
            } else {
                self.coerce(cond, Ty::BOOL);
            }
        } else {
            self.error_in(cond, "E30019", text!("a condition has to be a 'bool', got '{}'", self.name(ty)));
        }
    }
}
