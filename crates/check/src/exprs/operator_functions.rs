//! Resolves operators on types that are not numbers to the functions that a program declares for them.
//!
//! Arithmetic on pointers is built in. Otherwise a visible function `operator+` takes precedence, selected by
//! overload resolution; then come comparisons of pointers and optionals with their empty value; then a member
//! `operator+`, and the method that an interface provides for the operator (`add`). Later stages query
//! [`Program::operator_of`] for the arguments of an instance.

use syntax::ExprId;
use syntax::ast::{BinaryOp, DeclKind, ExprKind, UnaryOp};

use crate::exprs::infer::Checker;
use crate::exprs::overload::{Argument, Chosen};
use crate::generics::substitution::unary_method;
use crate::names::lookup::{Base, Ref};
use crate::program::Program;
use crate::tables::{Arg, Callable, FuncRef, Meaning};
use crate::types::{Scalar, Ty, TyKind};

impl Program {
    /// The user's function for a binary operator on two values of a type; `None` for built-in numbers.
    pub fn operator_of(&mut self, op: BinaryOp, ty: Ty) -> Option<FuncRef> {
        if matches!(self.types[ty], TyKind::Scalar(_) | TyKind::Vector(..) | TyKind::Matrix(..)) {
            return None;
        }
        let method = match op {
            BinaryOp::Add => "add",
            BinaryOp::Sub => "sub",
            BinaryOp::Mul => "mul",
            BinaryOp::Div => "div",
            BinaryOp::Rem => "mod",
            BinaryOp::Lt => "lessThan",
            BinaryOp::Le => "lessThanOrEquals",
            BinaryOp::Eq => "equals",
            BinaryOp::Shl => "shl",
            BinaryOp::Shr => "shr",
            BinaryOp::BitAnd => "bitAnd",
            BinaryOp::BitOr => "bitOr",
            BinaryOp::BitXor => "bitXor",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
            BinaryOp::Ne | BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Comma => "",
        };
        self.operator_function(&format!("operator{}", op.text()), ty, 2)
            .or_else(|| self.method_named(ty, method, 1))
    }

    /// The user's function for a prefix operator on a type.
    pub fn unary_operator_of(&mut self, op: UnaryOp, ty: Ty) -> Option<FuncRef> {
        if matches!(self.types[ty], TyKind::Scalar(_) | TyKind::Vector(..) | TyKind::Matrix(..)) {
            return None;
        }
        self.operator_function(&format!("operator{}", op.text()), ty, 1)
            .or_else(|| self.method_named(ty, unary_method(op)?, 0))
    }

    /// The functions of this name that the library declares.
    pub fn library_functions(&self, name: &str) -> Vec<syntax::DeclId> {
        let names = &self.modules.all[0].names;
        let symbol = self.ast.symbols.find(name);
        symbol.and_then(|symbol| names.get(&symbol)).map_or_else(Vec::new, |decls| decls.to_vec())
    }

    /// Finds `operator+(T, T)` in any of the program's modules.
    fn operator_function(&mut self, name: &str, ty: Ty, n_params: usize) -> Option<FuncRef> {
        let symbol = self.ast.symbols.find(name)?;
        for decl in self.declared_anywhere(symbol) {
            let signature = self.raw_signature(decl);
            let params = self.all_generic_params(decl);
            let mut env = crate::Subst::default();
            if signature.params.len() == n_params
                && self.unify_all(signature.params.iter().map(|p| (p.ty, ty)), &params, &mut env)
                && self.is_solved(decl, &params, &env)
            {
                return Some(FuncRef { decl, args: self.known_args(decl, &env), self_ty: None });
            }
        }
        None
    }

    fn method_named(&mut self, ty: Ty, name: &str, n_params: usize) -> Option<FuncRef> {
        let symbol = self.ast.symbols.find(name)?;
        for facet in self.facets(ty).iter() {
            for decl in self.named(facet.container, symbol) {
                if matches!(self.ast.decls[decl].kind, DeclKind::Func { .. })
                    && self.params_of(decl).len() == n_params
                    && !self.is_generic(decl)
                {
                    let func = self.member_ref(decl, facet);
                    return self.resolve_requirement(&func).func();
                }
            }
        }
        None
    }
}

impl Checker<'_> {
    /// The function of this name that is visible here and fits best.
    pub(crate) fn visible_operator(
        &mut self,
        expr: ExprId,
        name: &str,
        arguments: &[Argument],
    ) -> Option<Chosen> {
        let symbol = self.p.ast.symbols.find(name)?;
        let Ref::Funcs(candidates, _) = self.lookup(symbol) else { return None };
        let span = self.span(expr);
        self.attempt(|c| c.choose(&candidates, arguments, span))
    }

    /// The visible function that a program (or the module `glsl`) declares for an operator on vectors and matrices,
    /// if all of its parameters are such.
    pub(crate) fn shaped_operator(
        &mut self,
        expr: ExprId,
        op: BinaryOp,
        left: ExprId,
        right: ExprId,
    ) -> Option<Chosen> {
        let is_shaped = |p: &Program, ty: Ty| matches!(p.types[ty], TyKind::Vector(..) | TyKind::Matrix(..));
        let (a, b) = (self.ty_of(left), self.ty_of(right));
        if !is_shaped(self.p, a) || !is_shaped(self.p, b) {
            return None;
        }
        let symbol = self.p.ast.symbols.find(&format!("operator{}", op.text()))?;
        let Ref::Funcs(mut candidates, _) = self.lookup(symbol) else { return None };
        candidates.retain(|candidate| {
            let params = self.p.raw_signature(candidate.decl).params.clone();
            params.len() == 2 && params.iter().all(|param| is_shaped(self.p, param.ty))
        });
        if candidates.is_empty() {
            return None;
        }
        let arguments = [self.argument(left), self.argument(right)];
        let span = self.span(expr);
        self.attempt(|c| c.choose(&candidates, &arguments, span))
    }

    pub(crate) fn argument(&self, expr: ExprId) -> Argument {
        Argument {
            expr,
            ty: Some(self.ty_of(expr)),
            source: self.source_of(expr),
            lvalue: self.p.tables.exprs[expr].lvalue,
        }
    }

    /// Infers arithmetic and comparisons on pointers.
    fn pointer_binary(&mut self, expr: ExprId, op: BinaryOp, left: ExprId, right: ExprId) -> Option<Ty> {
        let (a, b) = (self.ty_of(left), self.ty_of(right));
        let is_pointer = |ty: Ty| matches!(self.p.types[ty], TyKind::Pointer(..));
        let is_int = |ty: Ty| match self.p.types[ty] {
            TyKind::Scalar(s) => s.is_int(),
            TyKind::Enum(_) => true,
            _ => false,
        };
        // Pointers are the same numbers however they may be used.
        let are_same = matches!(
            (&self.p.types[a], &self.p.types[b]),
            (TyKind::Pointer(x, ..), TyKind::Pointer(y, ..)) if x == y
        );
        let result = match op {
            BinaryOp::Add | BinaryOp::Sub if is_pointer(a) && is_int(b) => a,
            BinaryOp::Add if is_int(a) && is_pointer(b) => b,
            BinaryOp::Sub if are_same => self.p.types.scalar(Scalar::Int64),
            _ if op.is_comparison() && are_same => Ty::BOOL,
            _ => return None,
        };
        Some(self.set_value(expr, result, Meaning::Binary(op, left, right)))
    }

    pub(crate) fn user_binary(&mut self, expr: ExprId, op: BinaryOp, left: ExprId, right: ExprId) -> Ty {
        let (a, b) = (self.ty_of(left), self.ty_of(right));
        if let Some(ty) = self.pointer_binary(expr, op, left, right) {
            return ty;
        }
        let arguments = [self.argument(left), self.argument(right)];
        if let Some(chosen) = self.visible_operator(expr, &format!("operator{}", op.text()), &arguments) {
            let args = self.fit_arguments(&chosen, &arguments);
            let ty = chosen.signature.ret;
            return self.set_value(expr, ty, Meaning::Call { func: chosen.callable, base: None, args });
        }
        // Pointers, optionals and the like can be compared with their empty value.
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            let comparable = |ty: &Ty| {
                matches!(
                    self.p.types[*ty],
                    TyKind::Optional(_) | TyKind::NoneLiteral | TyKind::Pointer(..) | TyKind::NullPtr
                )
            };
            if [a, b].iter().all(comparable)
                && let Some(ty) = self.p.join(a, b)
            {
                self.coerce(left, ty);
                self.coerce(right, ty);
                return self.set_value(expr, Ty::BOOL, Meaning::Binary(op, left, right));
            }
        }
        // Try a member operator, or the method that an interface provides for the operator.
        if let Some(symbol) = self.p.ast.symbols.find(&format!("operator{}", op.text()))
            && let Ref::Funcs(candidates, _) = self.declared_member(a, symbol, Base::Value(left, false))
        {
            let arguments = [self.argument(right)];
            if let Some(chosen) = self.choose(&candidates, &arguments, self.span(expr)) {
                let args = self.fit_arguments(&chosen, &arguments);
                let ty = chosen.signature.ret;
                let meaning = Meaning::Call { func: chosen.callable, base: Some(left), args };
                return self.set_value(expr, ty, meaning);
            }
            return self.set_error(expr);
        }
        if a == b
            && let Some(func) = self.p.operator_of(op, a)
        {
            return self.call_operator(expr, func, left, Some(right));
        }
        self.operand_error(expr, op.text(), a, b)
    }

    /// Makes an expression the call of a function for its operator; the first operand is the object of a method.
    pub(crate) fn call_operator(
        &mut self,
        expr: ExprId,
        func: FuncRef,
        first: ExprId,
        second: Option<ExprId>,
    ) -> Ty {
        let signature = self.p.func_signature(&func);
        let (base, first) = if signature.this.is_some() { (Some(first), None) } else { (None, Some(first)) };
        let args = first.into_iter().chain(second).map(Arg::Expr).collect();
        self.set_value(expr, signature.ret, Meaning::Call { func: Callable::Func(func), base, args })
    }

    /// The function for `++` or `--` on a struct.
    pub(crate) fn counting_function(&mut self, expr: ExprId, ty: Ty) -> Option<FuncRef> {
        if !matches!(self.p.types[ty], TyKind::Struct(..)) {
            return None;
        }
        let name = match self.p.ast.exprs[expr].kind {
            ExprKind::Unary(UnaryOp::PreInc, _) => "operator++",
            ExprKind::Unary(UnaryOp::PreDec, _) => "operator--",
            ExprKind::Postfix(true, _) => "__postfix_increment",
            ExprKind::Postfix(false, _) => "__postfix_decrement",
            _ => return None,
        };
        self.p.operator_function(name, ty, 1)
    }
}
