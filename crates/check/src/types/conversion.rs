//! Implements implicit conversions and their costs. Overload resolution selects the candidate with the least
//! total cost.
//!
//! The costs use Slang's scale, so that the same candidate wins.

use syntax::{DeclId, ExprId, keywords as kw};

use crate::exprs::infer::Checker;
use crate::facts::{Facet, Magic};
use crate::program::Program;
use crate::tables::FuncRef;
use crate::types::{Order, Scalar, Ty, TyKind, Val};

/// The cost if the types are the same.
pub(crate) const NONE: u32 = 0;
const LITERAL: u32 = 23;
const LITERAL_SIGN: u32 = 32;
const SPLAT: u32 = 1;
const MATRIX_SPLAT: u32 = 10;
const BOOL_TO_INT: u32 = 120;
const PROMOTION: u32 = 150;
const UNSIGNED_TO_SIGNED: u32 = 200;
const SIGNED_TO_UNSIGNED: u32 = 250;
const SAME_SIZE_TO_SIGNED: u32 = 300;
const INT_TO_FLOAT: u32 = 400;
const GENERAL: u32 = 900;
const TRUNCATE_VECTOR: u32 = 950;

/// Facts about the value being converted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source {
    /// The value, if it is an integer literal.
    pub(crate) literal: Option<i128>,
    /// The conversion is explicit: a cast or a constructor.
    pub(crate) explicit: bool,
}

impl Source {
    /// A conversion that the program states, of any value.
    pub(crate) const EXPLICIT: Source = Source { literal: None, explicit: true };
}

impl Program {
    /// The cost of converting a value, or `None` if there is no such conversion.
    pub(crate) fn conversion(&mut self, from: Ty, to: Ty, source: Source) -> Option<u32> {
        let (from, to) = (self.types.of_value(from), self.types.of_value(to));
        if from == to || from == Ty::ERROR || to == Ty::ERROR {
            return Some(NONE);
        }
        if let Some(cost) = self.promised_conversion(from, to, source) {
            return Some(cost);
        }
        match (self.types[from].clone(), self.types[to].clone()) {
            (TyKind::Pack(a), TyKind::Pack(b)) => {
                let parts: Vec<_> = a.into_iter().zip(b.iter().copied()).collect();
                if parts.len() != b.len() {
                    return None;
                }
                parts.into_iter().map(|(a, b)| self.conversion(a, b, Source::default())).sum()
            }
            (TyKind::Expand(a, s), TyKind::Expand(b, t)) if s == t => {
                self.conversion(a, b, Source::default())
            }
            (TyKind::Scalar(a), TyKind::Scalar(b)) => {
                // Nothing becomes a float that is only stored, or is made of one, without being told to.
                let is_allowed = source.explicit || !a.is_stored() && !b.is_stored();
                is_allowed.then(|| scalar_cost(a, b, source.literal))
            }
            (TyKind::Scalar(_), TyKind::Vector(element, _, _)) => {
                Some(self.conversion(from, element, source)? + SPLAT)
            }
            (TyKind::Scalar(_), TyKind::Matrix(element, ..)) => {
                Some(self.conversion(from, element, source)? + MATRIX_SPLAT)
            }
            (TyKind::Vector(a, n, c), TyKind::Vector(b, m, d)) => {
                // What takes such a vector as it is goes before what takes it as another kind.
                let cost = self.conversion(a, b, Source { literal: None, ..source })? + u32::from(c != d);
                if n == m || n == Val::Error || m == Val::Error {
                    return Some(cost);
                }
                match (n, m) {
                    (Val::Int(n), Val::Int(m)) if n > m && source.explicit => Some(cost + TRUNCATE_VECTOR),
                    (Val::Int(1), Val::Int(_)) => Some(cost + SPLAT),
                    _ => None,
                }
            }
            (TyKind::Vector(a, n, _), TyKind::Scalar(_)) => {
                let cost = self.conversion(a, to, Source { literal: None, ..source })?;
                (n == Val::Int(1)).then_some(cost + TRUNCATE_VECTOR)
            }
            (TyKind::Matrix(a, r, c, _), TyKind::Matrix(b, s, d, _)) => {
                let cost = self.conversion(a, b, Source { literal: None, ..source })?;
                if r == s && c == d {
                    return Some(cost);
                }
                match (r, c, s, d) {
                    (Val::Int(r), Val::Int(c), Val::Int(s), Val::Int(d))
                        if r >= s && c >= d && source.explicit =>
                    {
                        Some(cost + TRUNCATE_VECTOR)
                    }
                    _ => None,
                }
            }
            // The components correspond row by row, so their number has to be the same.
            (TyKind::Matrix(a, Val::Int(r), Val::Int(c), _), TyKind::Vector(b, Val::Int(n), _))
            | (TyKind::Vector(a, Val::Int(n), _), TyKind::Matrix(b, Val::Int(r), Val::Int(c), _))
                if source.explicit && r.checked_mul(c) == Some(n) =>
            {
                self.conversion(a, b, Source { literal: None, ..source }).map(|cost| cost + GENERAL)
            }
            (TyKind::Array(a, Some(n)), TyKind::Array(b, m)) => {
                let same_length = m.is_none() || m.as_ref() == Some(&n);
                // Arrays convert implicitly only if their elements stay as they are.
                (same_length && (a == b || source.explicit && self.conversion(a, b, source).is_some()))
                    .then_some(30)
            }
            (TyKind::Array(a, None), TyKind::Array(b, Some(Val::Error))) => (a == b).then_some(NONE),
            (TyKind::Enum(decl), TyKind::Scalar(b)) => {
                let tag = self.enum_tag(decl);
                let TyKind::Scalar(a) = self.types[tag] else { return None };
                Some(scalar_cost(a, b, None) + if source.explicit { 0 } else { 100 })
            }
            (TyKind::Scalar(_) | TyKind::Enum(_), TyKind::Enum(_)) => source.explicit.then_some(GENERAL),
            (TyKind::NoneLiteral, TyKind::Optional(_)) => Some(PROMOTION),
            (TyKind::Optional(a), TyKind::Optional(b)) => self.conversion(a, b, source),
            (from_kind, TyKind::Optional(inner)) => match self.conversion(from, inner, source) {
                Some(cost) => Some(cost + PROMOTION),
                None if matches!(from_kind, TyKind::Struct(..)) => self.implicit_cost(from, to),
                None => None,
            },
            (TyKind::NullPtr, TyKind::Pointer(..)) => Some(PROMOTION),
            (TyKind::Pointer(..), TyKind::Scalar(Scalar::Bool)) => Some(INT_TO_FLOAT),
            (TyKind::Pointer(a, x, _), TyKind::Pointer(b, y, _)) => {
                (source.explicit || x == y && (a == b || b == Ty::VOID)).then_some(GENERAL)
            }
            (TyKind::Scalar(number), TyKind::Pointer(..)) => {
                (source.explicit && number.is_int()).then_some(GENERAL)
            }
            (TyKind::Pointer(..), TyKind::Scalar(Scalar::UInt64 | Scalar::Int64)) => {
                source.explicit.then_some(GENERAL)
            }
            (TyKind::Buffer(_, inner), to_kind)
                if self.types_deref(from) && !matches!(to_kind, TyKind::Buffer(..)) =>
            {
                Some(self.conversion(inner, to, source)? + 10)
            }
            (TyKind::Buffer(..), TyKind::Buffer(..)) if self.types_deref(from) && self.loaded(from) == to => {
                Some(10)
            }
            (TyKind::Struct(..), to_kind) if let Some(target) = self.handle_target(from) => {
                if source.explicit && self.is_handle_number(to) {
                    return Some(GENERAL);
                }
                let is_value = matches!(to_kind, TyKind::Interface(..)) || self.handle_target(to).is_some();
                if is_value { None } else { Some(self.conversion(target, to, source)? + 10) }
            }
            (TyKind::Struct(..), _) if self.is_dynamic_resource(from) => self.is_resource(to).then_some(10),
            (TyKind::Struct(..), TyKind::Struct(..)) if self.is_derived(from, to) => Some(PROMOTION),
            (_, TyKind::Struct(..)) if self.implicit_cost(from, to).is_some() => self.implicit_cost(from, to),
            (_, TyKind::Interface(..)) => self.conforms(from, to).then_some(50),
            // Converts a differential of any type to the differential of an existential; whether it fits is
            // only known at run time.
            (TyKind::Interface(..), TyKind::Assoc(_, assoc))
                if self.is_existential(to) && self.is_differential(assoc) =>
            {
                let any = self.magic_type(Magic::Differentiable) == Some(from);
                any.then_some(50)
            }
            (TyKind::Struct(..) | TyKind::SynthDiff(_), TyKind::Assoc(_, assoc))
                if self.is_existential(to) && self.is_differential(assoc) =>
            {
                self.differential(from).is_some().then_some(60)
            }
            (TyKind::Scalar(_), _) if self.types.is_abstract(to) => {
                // A literal can be a number of any type; other numbers have to be converted explicitly.
                let literal = source.literal.is_some();
                let is_enum = source.explicit && self.is_abstract_enum(to);
                (is_enum || self.has_operators(to) && (literal || source.explicit)).then_some(INT_TO_FLOAT)
            }
            (_, TyKind::Vector(element, _, _)) if self.types.is_abstract(from) => {
                (element == from).then_some(SPLAT)
            }
            (_, TyKind::Matrix(element, ..)) if self.types.is_abstract(from) => {
                (element == from).then_some(MATRIX_SPLAT)
            }
            // An enumeration.
            (_, TyKind::Scalar(scalar)) if self.types.is_abstract(from) && self.is_abstract_enum(from) => {
                (source.explicit || scalar == Scalar::Bool).then_some(GENERAL)
            }
            (_, to_kind) if self.types.is_abstract(from) => {
                let is_number = matches!(to_kind, TyKind::Scalar(_))
                    || self.types.is_abstract(to) && self.has_operators(to);
                (source.explicit && is_number && self.has_operators(from)).then_some(GENERAL)
            }
            _ => None,
        }
    }

    /// Returns true for a type of which is known that it is an enumeration.
    fn is_abstract_enum(&mut self, ty: Ty) -> bool {
        self.kinds_of(ty) == Magic::EnumType.kinds()
    }

    /// The cost of a conversion that a `where` clause promises: `T == U`, `T(U)`.
    fn promised_conversion(&mut self, from: Ty, to: Ty, source: Source) -> Option<u32> {
        let unknown = |p: &Program, ty: Ty| matches!(p.types[ty], TyKind::Param(_) | TyKind::Assoc(..));
        if !unknown(self, from) && !unknown(self, to) {
            return None;
        }
        for ty in [from, to] {
            let Some(mut owner) = self.root_owner(ty) else { continue };
            // Check the function's own clauses, and those of the enclosing type.
            loop {
                let constraints = self.constraints_of(owner);
                if constraints.equal.iter().any(|&(a, b)| (a, b) == (from, to) || (b, a) == (from, to)) {
                    return Some(NONE);
                }
                // A parameter that is a known type converts as this type does.
                let both = constraints.equal.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
                let same = both.filter(|pair| !self.types.is_abstract(pair.1)).find_map(|(a, b)| match () {
                    () if a == from => Some((b, to)),
                    () if a == to => Some((from, b)),
                    () => None,
                });
                if let Some((from, to)) = same {
                    return self.conversion(from, to, source);
                }
                let found = constraints.converts.iter().find(|c| c.0 == to && c.1 == from);
                if let Some(&(_, _, implicit)) = found
                    && (implicit || source.explicit)
                {
                    return Some(GENERAL);
                }
                match self.ast.decls[owner].parent {
                    Some(parent) => owner = parent,
                    None => break,
                }
            }
        }
        None
    }

    /// Returns true if one type can be made from another, by conversion or by a constructor.
    pub(crate) fn is_convertible(&mut self, from: Ty, to: Ty) -> bool {
        self.conversion(from, to, Source::EXPLICIT).is_some() || self.converting_init(from, to).is_some()
    }

    /// The constructor of a struct or optional that takes a single value of this type; otherwise, of those that are
    /// marked as implicit conversions, the generic one that takes it, or the one for a number to which it converts.
    pub fn converting_init(&mut self, from: Ty, to: Ty) -> Option<FuncRef> {
        let (TyKind::Struct(..) | TyKind::Optional(_)) = self.types[to] else { return None };
        let (mut by_argument, mut by_number) = (None, None);
        for facet in self.facets(to).iter() {
            for decl in self.named(facet.container, kw::CONSTRUCTOR) {
                if self.params_of(decl).len() != 1 {
                    continue;
                }
                if self.is_generic(decl) {
                    let is_implicit = self.attribute(decl, "__implicit_conversion").is_some();
                    if by_argument.is_none() && is_implicit {
                        by_argument = self.init_for_argument(decl, facet, from);
                    }
                    continue;
                }
                let init = self.member_ref(decl, facet);
                let Some(takes) = self.func_signature(&init).params.first().map(|p| p.ty) else { continue };
                if takes == from {
                    return Some(init);
                }
                let numbers = [takes, from].map(|ty| matches!(self.types[ty], TyKind::Scalar(_)));
                if numbers == [true, true]
                    && by_number.is_none()
                    && self.attribute(decl, "__implicit_conversion").is_some()
                    && self.conversion(from, takes, Source::default()).is_some()
                {
                    by_number = Some(init);
                }
            }
        }
        by_argument.or(by_number)
    }

    /// The instance of a generic constructor whose only parameter has this type.
    fn init_for_argument(&mut self, decl: DeclId, facet: &Facet, from: Ty) -> Option<FuncRef> {
        let params = self.own_params(decl);
        let mut env = (*facet.env).clone();
        let pattern = self.raw_signature(decl).params.first()?.ty;
        let pattern = self.substitute(pattern, &facet.env);
        let fits = self.unify(pattern, from, &params, &mut env)
            && params.iter().all(|&param| env.get(param).is_some())
            && self.unsatisfied(decl, &env).is_none();
        fits.then(|| self.func_ref(decl, &env, Some(facet.self_ty)))
    }

    /// Returns true if a struct is derived from another.
    pub fn is_derived(&mut self, from: Ty, base: Ty) -> bool {
        matches!(self.types[from], TyKind::Struct(..)) && self.facets(from).iter().any(|f| f.self_ty == base)
    }

    /// The cost that `__implicit_conversion(cost)` gives to a constructor of a struct.
    fn implicit_cost(&mut self, from: Ty, to: Ty) -> Option<u32> {
        let init = self.converting_init(from, to)?;
        let cost = self.attribute(init.decl, "__implicit_conversion")?.args.first().copied();
        let cost = cost.and_then(|c| self.int_literal(c)).and_then(|c| u32::try_from(c).ok());
        Some(cost.unwrap_or(GENERAL))
    }

    /// Returns true for types whose values are used like their content: constant buffers.
    pub(crate) fn types_deref(&self, ty: Ty) -> bool {
        use crate::types::BufferKind::{ConstantBuffer, ParameterBlock};
        matches!(self.types[ty], TyKind::Buffer(ConstantBuffer | ParameterBlock, _))
    }

    /// The common type of two operands (or of two arguments for one parameter).
    pub(crate) fn join(&mut self, a: Ty, b: Ty) -> Option<Ty> {
        if a == b || b == Ty::ERROR {
            return Some(a);
        }
        if a == Ty::ERROR {
            return Some(b);
        }
        let is_component =
            |p: &Program, ty: Ty| matches!(p.types[ty], TyKind::Scalar(_)) || p.types.is_abstract(ty);
        match (self.types[a].clone(), self.types[b].clone()) {
            (TyKind::Pack(x), TyKind::Pack(y)) if x.len() == y.len() => {
                let parts: Option<Vec<Ty>> = x.into_iter().zip(y).map(|(x, y)| self.join(x, y)).collect();
                parts.map(|parts| self.pack_of(parts))
            }
            (TyKind::Scalar(x), TyKind::Scalar(y)) => Some(self.types.scalar(join_scalars(x, y))),
            (TyKind::Vector(x, n, c), TyKind::Vector(y, m, d))
                if n == m || [&n, &m].contains(&&Val::Int(1)) =>
            {
                let n = if n == Val::Int(1) { m } else { n };
                let element = self.join(x, y)?;
                Some(self.types.intern(TyKind::Vector(element, n, c.join(d))))
            }
            (TyKind::Vector(x, n, c), _) if is_component(self, b) => {
                let element = self.join(x, b)?;
                Some(self.types.intern(TyKind::Vector(element, n, c)))
            }
            (TyKind::Matrix(x, r, c, _), _) if is_component(self, b) => {
                let element = self.join(x, b)?;
                Some(self.types.matrix(element, r, c))
            }
            (TyKind::Matrix(x, r, c, order), TyKind::Matrix(y, s, d, other)) if r == s && c == d => {
                let element = self.join(x, y)?;
                // If either type states an order, the result does too: that type is stored in memory, while
                // values have no order.
                let order = if order == Order::HOST { other } else { order };
                Some(self.types.intern(TyKind::Matrix(element, r, c, order)))
            }
            (_, TyKind::Vector(..) | TyKind::Matrix(..)) if is_component(self, a) => self.join(b, a),
            // The type of a literal yields to that of a parameter.
            (_, TyKind::Scalar(_)) if self.types.is_abstract(a) => Some(a),
            (TyKind::Scalar(_), _) if self.types.is_abstract(b) => Some(b),
            (TyKind::Enum(decl), TyKind::Scalar(_)) => {
                let tag = self.enum_tag(decl);
                self.join(tag, b)
            }
            (TyKind::Scalar(_), TyKind::Enum(_)) => self.join(b, a),
            _ => {
                let mut converts = |from, to| self.conversion(from, to, Source::default()).map(|_| to);
                converts(a, b).or_else(|| converts(b, a))
            }
        }
    }
}

impl Checker<'_> {
    /// The facts about an expression that conversions may use.
    pub(crate) fn source_of(&self, expr: ExprId) -> Source {
        let literal = self.p.int_literal(expr).or_else(|| {
            // The value of a float literal does not matter here, only the fact that it is a literal.
            self.p.is_literal(expr).then_some(i128::MAX)
        });
        Source { literal, explicit: false }
    }
}

impl Program {
    /// Returns true if an expression is a numeric literal.
    pub(crate) fn is_literal(&self, expr: ExprId) -> bool {
        use syntax::ast::{ExprKind, UnaryOp};
        match &self.ast.exprs[expr].kind {
            ExprKind::Int { .. } | ExprKind::Float { .. } => true,
            ExprKind::Paren(e) | ExprKind::Unary(UnaryOp::Neg | UnaryOp::Plus, e) => self.is_literal(*e),
            _ => false,
        }
    }
}

/// Types that convert to each other without loss are of ascending rank.
fn rank(scalar: Scalar) -> (bool, u32) {
    (scalar.is_float(), if scalar == Scalar::Bool { 0 } else { scalar.size() })
}

fn fits(value: i128, to: Scalar) -> bool {
    let bits = to.size() * 8;
    if to.is_signed() {
        value >= -(1i128 << (bits - 1)) && value < 1i128 << (bits - 1)
    } else {
        value >= 0 && value < 1i128 << bits
    }
}

fn scalar_cost(from: Scalar, to: Scalar, literal: Option<i128>) -> u32 {
    if from == to {
        return NONE;
    }
    if from.is_int()
        && to.is_int()
        && let Some(value) = literal
        && fits(value, to)
    {
        return if from.is_signed() == to.is_signed() { LITERAL } else { LITERAL_SIGN };
    }
    let promotion = if rank(to) > rank(from) { PROMOTION } else { GENERAL };
    match (from, to) {
        (Scalar::Bool, _) if to.is_int() => BOOL_TO_INT,
        (Scalar::Bool, _) => INT_TO_FLOAT + BOOL_TO_INT,
        (_, Scalar::Bool) => GENERAL,
        _ if from.is_stored() || to.is_stored() => GENERAL,
        _ if from.is_float() && to.is_float() => promotion,
        _ if from.is_float() => GENERAL,
        // For the same integer, `float` is preferred slightly over `half` and `double`.
        _ if to.is_float() => INT_TO_FLOAT + if to == Scalar::Float { 0 } else { 1 },
        _ => match (from.is_signed(), to.is_signed()) {
            (a, b) if a == b => promotion,
            (false, true) if rank(to) > rank(from) => UNSIGNED_TO_SIGNED,
            (false, true) if rank(to) == rank(from) => SAME_SIZE_TO_SIGNED,
            (true, false) if rank(to) >= rank(from) => SIGNED_TO_UNSIGNED,
            _ => GENERAL,
        },
    }
}

/// The common type of two scalars by the usual arithmetic conversions.
pub(crate) fn join_scalars(a: Scalar, b: Scalar) -> Scalar {
    if a == b {
        return a;
    }
    let (low, high) = if rank(a) <= rank(b) { (a, b) } else { (b, a) };
    if rank(low) == rank(high) {
        // If the widths are equal, the unsigned type wins.
        return if low.is_signed() { high } else { low };
    }
    high
}
