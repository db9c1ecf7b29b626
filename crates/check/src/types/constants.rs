//! Evaluates constants at compile time: lengths of arrays, values of enumerations, sizes.

use syntax::ast::{BinaryOp, DeclKind, ExprKind, Modifiers, PackPart, SizeOfKind, UnaryOp};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::exprs::infer::Checker;
use crate::generics::substitution::binary_val;
use crate::program::Program;
use crate::signature::Subst;
use crate::tables::{FuncRef, Initializer, Meaning};
use crate::types::data_layout::{DataLayout, round_up};
use crate::types::follow_up::text;
use crate::types::{GenericArg, Scalar, Ty, TyKind, Val};

impl Checker<'_> {
    /// Evaluates an inferred expression as a compile-time integer; reports a diagnostic if it is not one.
    pub(crate) fn val_of(&mut self, expr: ExprId) -> Val {
        match self.p.constant(expr, 0) {
            Some(val) => val,
            None => {
                if !matches!(self.p.tables.exprs[expr].meaning, Meaning::Error) {
                    self.error_in(expr, "E39001", "expected an integer that is known at compile time");
                }
                Val::Error
            }
        }
    }
}

impl Program {
    /// Evaluates an integer constant expression.
    pub fn const_int(&mut self, expr: ExprId, env: &Subst) -> Option<i64> {
        let val = self.constant(expr, 0)?;
        let val = self.substitute_val(&val, env);
        self.val_int(&val, env)
    }

    /// Evaluates an integer constant expression that is not part of a body, for example in an attribute of a
    /// declaration.
    pub fn const_int_at(&mut self, decl: DeclId, expr: ExprId) -> Option<i64> {
        self.const_int_of(decl, expr, &Subst::default())
    }

    /// The same where generic parameters of the declaration may be part of the expression.
    pub fn const_int_of(&mut self, decl: DeclId, expr: ExprId, env: &Subst) -> Option<i64> {
        if let Some(value) = self.const_int(expr, env) {
            return Some(value);
        }
        Checker::new(self, decl).infer_any(expr, None);
        self.const_int(expr, env)
    }

    /// Evaluates an inferred expression as a compile-time integer over generic parameters.
    pub(crate) fn constant(&mut self, expr: ExprId, depth: u32) -> Option<Val> {
        if depth > 300 {
            return None;
        }
        let info = self.tables.exprs[expr].clone();
        let val = match info.meaning {
            Meaning::Literal => match &self.ast.exprs[expr].kind {
                ExprKind::Int { value, .. } => Val::Int(*value as i64),
                ExprKind::Bool(value) => Val::Int(i64::from(*value)),
                _ => return None,
            },
            Meaning::Const(value) => Val::Int(value as i64),
            Meaning::Value(val) => val,
            Meaning::EnumCase(case) => Val::Int(self.enum_case_value(case)),
            Meaning::Var(decl) => self.constant_variable(decl, depth)?,
            Meaning::StaticMember(member) => {
                let found = self.resolve_requirement(&member).func();
                let is_known = found.and_then(|f| self.constant_variable(f.decl, depth)).is_some();
                if !(is_known || self.is_integer(info.ty) && self.is_requirement(member.decl)) {
                    return None;
                }
                self.constant_member(member)
            }
            Meaning::Index { base, index } => {
                let Val::Int(index) = self.constant(index, depth + 1)? else { return None };
                let element = self.constant_element(base, index)?;
                self.constant(element, depth + 1)?
            }
            // `__first((40, 50))`
            Meaning::PackPart(part, base) => {
                let Meaning::MakeTuple(parts) = &self.tables.exprs[self.tables.plain(base)].meaning else {
                    return None;
                };
                let element = match part {
                    PackPart::First => parts.first(),
                    PackPart::Last => parts.last(),
                    PackPart::TrimFirst | PackPart::TrimLast => None,
                };
                self.constant(*element?, depth + 1)?
            }
            Meaning::SizeOf(kind @ (SizeOfKind::SizeOf | SizeOfKind::AlignOf), ty) => Val::SizeOf(kind, ty),
            Meaning::SizeOf(SizeOfKind::CountOf, ty) => self.count_of(&GenericArg::Type(ty)),
            Meaning::Expand { inner, shape } => {
                let val = self.constant(inner, depth + 1)?;
                self.expand_val(val, &shape)
            }
            Meaning::Same(inner) => self.constant(inner, depth + 1)?,
            Meaning::Cast(inner) => self.is_integer(info.ty).then(|| self.constant(inner, depth + 1))??,
            Meaning::Unary(op, inner) => {
                let val = self.constant(inner, depth + 1)?;
                match (op, val) {
                    (UnaryOp::Neg, val) => binary_val(BinaryOp::Sub, Val::Int(0), val),
                    (UnaryOp::Not, Val::Int(v)) => Val::Int(i64::from(v == 0)),
                    (UnaryOp::BitNot, Val::Int(v)) => Val::Int(!v),
                    (UnaryOp::Not, val) => binary_val(BinaryOp::Eq, val, Val::Int(0)),
                    (UnaryOp::BitNot, val) => binary_val(BinaryOp::BitXor, val, Val::Int(-1)),
                    (UnaryOp::Plus, val) => val,
                    _ => return None,
                }
            }
            Meaning::Binary(op, left, right) => {
                let a = self.constant(left, depth + 1)?;
                let b = self.constant(right, depth + 1)?;
                match binary_val(op, a, b) {
                    Val::Error => return None,
                    val => val,
                }
            }
            Meaning::Ternary(cond, a, b) => match self.constant(cond, depth + 1)? {
                Val::Int(cond) => self.constant(if cond != 0 { a } else { b }, depth + 1)?,
                cond => {
                    let a = self.constant(a, depth + 1)?;
                    let b = self.constant(b, depth + 1)?;
                    Val::Select(Box::new([cond, a, b]))
                }
            },
            _ => return None,
        };
        // A wrapped 32-bit result is what the program would compute.
        match (val, &self.types[info.ty]) {
            (Val::Int(v), TyKind::Scalar(scalar)) => Some(Val::Int(wrap(v, *scalar))),
            (val, _) => Some(val),
        }
    }

    /// Returns true for integers, `bool` and enumerations.
    fn is_integer(&self, ty: Ty) -> bool {
        matches!(self.types[ty], TyKind::Scalar(scalar) if scalar.is_int() || scalar == Scalar::Bool)
            || matches!(self.types[ty], TyKind::Enum(_))
    }

    /// The value of a constant member; the result stays symbolic while the member's type is not known.
    pub fn constant_member(&mut self, member: FuncRef) -> Val {
        let Some(found) = self.resolve_requirement(&member).func() else {
            return Val::Member(Box::new(member));
        };
        if let Some(&value) = self.queries.constant_members.get(&found) {
            return Val::Int(value);
        }
        if self.n_constant_members > 200 {
            let span = self.name_span(found.decl);
            self.error("E39001", span, "the value of this constant has no end");
            return Val::Error;
        }
        self.n_constant_members += 1;
        let val = self.constant_variable(found.decl, 0).map(|val| {
            let env = self.subst_of(&found);
            self.substitute_val(&val, &env)
        });
        self.n_constant_members -= 1;
        if let Some(Val::Int(value)) = val {
            self.queries.constant_members.insert(found, value);
        }
        // A constant that an interface declares without a value is known once the type is.
        val.unwrap_or_else(|| Val::Member(Box::new(member)))
    }

    /// The element of a constant array that has an explicit initializer list.
    fn constant_element(&mut self, base: ExprId, index: i64) -> Option<ExprId> {
        let Meaning::Var(decl) = self.tables.exprs[base].meaning else { return None };
        let init = self.fixed_value(decl)?;
        self.body(decl);
        let Meaning::Aggregate(Initializer::Parts(_, parts)) = &self.tables.exprs[init].meaning else {
            return None;
        };
        match parts.get(usize::try_from(index).ok()?)? {
            Initializer::Expr(expr) => Some(*expr),
            _ => None,
        }
    }

    /// The initial value of a variable that cannot be assigned to.
    fn fixed_value(&self, decl: DeclId) -> Option<ExprId> {
        let is_fixed = self.ast.decls[decl].modifiers.has(Modifiers(Modifiers::CONST.0 | Modifiers::LET.0));
        match self.ast.decls[decl].kind {
            DeclKind::Var { init, .. } if is_fixed => init,
            _ => None,
        }
    }

    /// The value of a constant variable.
    fn constant_variable(&mut self, decl: DeclId, depth: u32) -> Option<Val> {
        if let Some(known) = self.queries.constants.get(&decl) {
            return Some(known.clone());
        }
        let Some(init) = self.fixed_value(decl) else { return self.linked_later(decl) };
        if !self.queries.constants.begin(&decl) {
            return None;
        }
        self.body(decl);
        let val = self.constant(init, depth + 1);
        self.queries.constants.end(&decl);
        if let Some(val) = &val {
            self.queries.constants.insert(decl, val.clone());
        }
        val
    }

    /// The unknown value of an `extern` constant that a module exports which is linked later.
    fn linked_later(&mut self, decl: DeclId) -> Option<Val> {
        let node = &self.ast.decls[decl];
        let is_open = matches!(node.kind, DeclKind::Var { init: None, .. })
            && node.modifiers.has(Modifiers::EXTERN)
            && node.modifiers.has(Modifiers::CONST);
        if !self.modules.links_later || !is_open {
            return None;
        }
        let ty = self.decl_type(decl);
        if !self.is_integer(ty) {
            return None;
        }
        self.modules.has_open_types = true;
        Some(Val::Param(decl))
    }

    /// The value of a case of an enumeration.
    pub fn enum_case_value(&mut self, case: DeclId) -> i64 {
        if let Some(&value) = self.queries.enum_values.get(&case) {
            return value;
        }
        let Some(parent) = self.ast.decls[case].parent else { return 0 };
        let DeclKind::Enum { cases, .. } = self.ast.decls[parent].kind.clone() else { return 0 };
        let tag = self.enum_tag(parent);
        let flags = self.attribute(parent, "Flags").is_some();
        let TyKind::Scalar(scalar) = self.types[tag] else { return 0 };
        let (mut next, mut overflows) = (i64::from(flags), false);
        for decl in cases {
            let DeclKind::EnumCase(value) = self.ast.decls[decl].kind else { continue };
            if let Some(value) = value
                && self.queries.enum_values.get(&decl).is_none()
            {
                // A value that depends on itself is 0; the provisional entry ends the recursion.
                self.queries.enum_values.begin_as(&decl, 0);
                let mut checker = Checker::new(self, decl);
                checker.check(value, tag);
                if let Val::Int(v) = checker.val_of(value) {
                    next = v;
                }
                self.queries.enum_values.end(&decl);
            }
            if value.is_none() && overflows {
                let name = self.shown(tag);
                let message = text!("this case exceeds the type '{}': its value is {next} again", name);
                let warning = Diagnostic::warning("E32006", self.name_span(decl), message);
                self.report_once(warning.help("give it a value, or the enumeration a larger type"));
            }
            self.queries.enum_values.insert(decl, next);
            (next, overflows) = following(next, scalar, flags);
        }
        self.queries.enum_values.get(&case).copied().unwrap_or(0)
    }

    /// The integer type that represents an enumeration.
    pub fn enum_tag(&mut self, decl: DeclId) -> Ty {
        let DeclKind::Enum { tag: Some(tag), .. } = self.ast.decls[decl].kind else { return Ty::INT };
        let ty = Checker::new(self, decl).type_expr(tag);
        if matches!(self.types[ty], TyKind::Scalar(_)) { ty } else { Ty::INT }
    }

    /// `sizeof`, `alignof`, `countof` of a type, if it is known.
    pub fn measure(&mut self, kind: SizeOfKind, ty: Ty) -> Option<i64> {
        match kind {
            SizeOfKind::CountOf => match &self.types[ty] {
                TyKind::Tuple(_) | TyKind::Pack(_) => self.known_count(ty),
                TyKind::Array(_, Some(Val::Int(n))) | TyKind::Vector(_, Val::Int(n), _) => Some(*n),
                _ => None,
            },
            // Outside of an aggregate, an optional is as large as in an array.
            SizeOfKind::SizeOf if matches!(self.types[ty], TyKind::Optional(_)) => {
                self.extent_in(ty, DataLayout::Natural).map(|(size, align)| round_up(size, align))
            }
            SizeOfKind::SizeOf => self.extent_in(ty, DataLayout::Natural).map(|l| l.0),
            SizeOfKind::AlignOf => self.extent_in(ty, DataLayout::Natural).map(|l| l.1),
        }
    }
}

/// The value of the case after one without a value of its own, and true if the type cannot hold it, so that the
/// values begin again. Cases of flags are bits.
fn following(value: i64, scalar: Scalar, flags: bool) -> (i64, bool) {
    let bits = if scalar == Scalar::Bool { 1 } else { scalar.size() * 8 };
    if flags {
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let next = ((value as u64 & mask) << 1) & mask;
        return if next == 0 { (1, value != 0) } else { (next as i64, false) };
    }
    let next =
        i128::from(value) + if bits == 64 && !scalar.is_signed() && value < 0 { 1 << 64 } else { 0 } + 1;
    let last = if scalar.is_signed() { (1i128 << (bits - 1)) - 1 } else { (1i128 << bits) - 1 };
    if next <= last {
        return (next as i64, false);
    }
    (if scalar.is_signed() { (-1 - last) as i64 } else { 0 }, true)
}

fn wrap(value: i64, scalar: Scalar) -> i64 {
    let unused = 64 - 8 * scalar.size();
    match scalar {
        Scalar::Bool => i64::from(value != 0),
        _ if scalar.has_fraction() => value,
        _ if scalar.is_signed() => value << unused >> unused,
        _ => ((value << unused) as u64 >> unused) as i64,
    }
}
