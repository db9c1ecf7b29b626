//! Substitutes generic arguments in types, normalises the results, and prints types.
//!
//! Normalisation replaces an associated type of a known type by its definition, and an associated type that
//! an equality constraint names by the other side of the constraint. It also recomputes a synthesised
//! differential, since the substituted type may have another one.

use syntax::ast::{BinaryOp, DeclKind, UnaryOp};
use syntax::{DeclId, keywords as kw};

use crate::facts::{Facet, FacetKind, Magic};
use crate::program::Program;
use crate::signature::Subst;
use crate::tables::{Callable, FuncRef};
use crate::types::{Args, GenericArg, Order, Ty, TyKind, Val};

impl Program {
    /// The substitution of a function's generic parameters and of `This`.
    pub fn subst_of(&self, func: &FuncRef) -> Subst {
        self.subst(func.decl, &func.args, func.self_ty)
    }

    /// The substitution of arguments for the generic parameters of a declaration and of all enclosing ones.
    pub(crate) fn subst(&self, decl: DeclId, args: &[GenericArg], this: Option<Ty>) -> Subst {
        let map = self.all_generic_params(decl).into_iter().zip(args.iter().cloned()).collect();
        Subst { map, this, element: None }
    }

    /// A function with the arguments that a substitution has for its generic parameters, which otherwise
    /// stand for themselves.
    pub(crate) fn func_ref(&mut self, decl: DeclId, env: &Subst, self_ty: Option<Ty>) -> FuncRef {
        let params = self.all_generic_params(decl).into_iter();
        let args = params.map(|p| env.get(p).cloned().unwrap_or_else(|| self.param_arg(p))).collect();
        FuncRef { decl, args, self_ty }
    }

    /// A function of a facet.
    pub(crate) fn member_ref(&mut self, decl: DeclId, facet: &Facet) -> FuncRef {
        self.func_ref(decl, &facet.env, Some(facet.self_ty))
    }

    /// A function as seen from inside: its generic parameters stand for themselves.
    pub(crate) fn own_ref(&mut self, decl: DeclId) -> FuncRef {
        let self_ty = self.container_of(decl).map(|c| self.self_type(c));
        FuncRef { decl, args: self.identity_args(decl), self_ty }
    }

    /// Substitutes arguments in a type. The result is normalised: associated types of known types are
    /// replaced.
    pub fn substitute(&mut self, ty: Ty, env: &Subst) -> Ty {
        if env.is_empty() {
            return ty;
        }
        match self.types[ty].clone() {
            TyKind::Param(param) => match env.get(param) {
                Some(GenericArg::Type(arg)) => *arg,
                _ => ty,
            },
            TyKind::This(_) => env.this.unwrap_or(ty),
            TyKind::Assoc(base, assoc) => {
                let base = self.substitute(base, env);
                let found = self.project(base, assoc);
                if found == Ty::ERROR {
                    self.lacks(env);
                }
                found
            }
            TyKind::SynthDiff(primal) => match self.substitute(primal, env) {
                new if new == primal => ty,
                new => self.differential(new).unwrap_or_else(|| {
                    self.lacks(env);
                    Ty::ERROR
                }),
            },
            TyKind::Tuple(parts) => {
                let parts = parts.into_iter().map(|t| self.substitute(t, env)).collect();
                self.tuple_of(parts)
            }
            TyKind::Pack(parts) => {
                let parts = parts.into_iter().map(|t| self.substitute(t, env)).collect();
                self.pack_of(parts)
            }
            TyKind::Laid(content, layout) => {
                let (content, layout) = (self.substitute(content, env), self.substitute(layout, env));
                self.laid(content, layout)
            }
            TyKind::Each(pack) => self.substitute_each(&GenericArg::Type(pack), env).ty(),
            TyKind::PackPart(part, pack) => {
                let pack = self.substitute(pack, env);
                self.part_of_pack(part, &GenericArg::Type(pack)).map_or(Ty::ERROR, GenericArg::ty)
            }
            TyKind::PackBranch(pack, empty, other) => {
                let pack = self.substitute_arg(&pack, env);
                match self.is_nonempty(&pack) {
                    Some(holds) => self.substitute(if holds { other } else { empty }, env),
                    None => {
                        let [empty, other] = [empty, other].map(|ty| self.substitute(ty, env));
                        self.pack_branch(pack, empty, other)
                    }
                }
            }
            TyKind::Expand(pattern, shape) => {
                self.substitute_expand(&GenericArg::Type(pattern), &shape, env).ty()
            }
            kind => {
                let parts = kind.parts();
                if parts.is_empty() {
                    return ty;
                }
                let parts = self.substitute_args(&parts, env);
                self.types.intern(kind.with_parts(parts))
            }
        }
    }

    /// Substitutes arguments in a generic argument.
    pub fn substitute_arg(&mut self, arg: &GenericArg, env: &Subst) -> GenericArg {
        match arg {
            GenericArg::Type(ty) => GenericArg::Type(self.substitute(*ty, env)),
            GenericArg::Val(val) => GenericArg::Val(self.substitute_val(val, env)),
        }
    }

    pub(crate) fn substitute_args(&mut self, args: &Args, env: &Subst) -> Args {
        args.iter().map(|a| self.substitute_arg(a, env)).collect()
    }

    /// Substitutes arguments in a compile-time integer and folds the result.
    pub fn substitute_val(&mut self, val: &Val, env: &Subst) -> Val {
        match val {
            Val::Int(_) | Val::Error => val.clone(),
            Val::Param(param) => match env.get(*param) {
                Some(GenericArg::Val(arg)) => arg.clone(),
                _ => val.clone(),
            },
            Val::Binary(op, a, b) => {
                let (a, b) = (self.substitute_val(a, env), self.substitute_val(b, env));
                binary_val(*op, a, b)
            }
            Val::Select(parts) => {
                let [cond, a, b] = &**parts;
                match self.substitute_val(cond, env) {
                    Val::Int(cond) => self.substitute_val(if cond != 0 { a } else { b }, env),
                    Val::Error => Val::Error,
                    cond => {
                        let (a, b) = (self.substitute_val(a, env), self.substitute_val(b, env));
                        Val::Select(Box::new([cond, a, b]))
                    }
                }
            }
            Val::Member(member) => {
                let member = self.substitute_func(member, env);
                self.constant_member(member)
            }
            Val::SizeOf(kind, ty) => {
                let ty = self.substitute(*ty, env);
                match self.measure(*kind, ty) {
                    Some(n) => Val::Int(n),
                    None => Val::SizeOf(*kind, ty),
                }
            }
            Val::CountOf(ty) => {
                let ty = self.substitute(*ty, env);
                self.count_of(&GenericArg::Type(ty))
            }
            Val::CountOfVals(vals) => {
                let vals = self.substitute_val(vals, env);
                self.count_of(&GenericArg::Val(vals))
            }
            Val::Pack(vals) => {
                let vals = vals.iter().map(|val| self.substitute_val(val, env)).collect();
                self.val_pack_of(vals)
            }
            Val::Each(pack) => self.substitute_each(&GenericArg::Val((**pack).clone()), env).val(),
            Val::Expand(pattern, shape) => {
                self.substitute_expand(&GenericArg::Val((**pattern).clone()), shape, env).val()
            }
            Val::Shape(op, operands) => {
                let operands = operands.iter().map(|val| self.substitute_val(val, env)).collect();
                self.shape(*op, operands)
            }
            Val::PackPart(part, pack) => {
                let pack = self.substitute_val(pack, env);
                self.part_of_pack(*part, &GenericArg::Val(pack)).map_or(Val::Error, GenericArg::val)
            }
        }
    }

    /// Substitutes arguments in a reference to a function (a callee found in a generic body).
    pub fn substitute_func(&mut self, func: &FuncRef, env: &Subst) -> FuncRef {
        FuncRef {
            decl: func.decl,
            args: self.substitute_args(&func.args, env),
            self_ty: func.self_ty.map(|ty| self.substitute(ty, env)),
        }
    }

    /// Substitutes arguments in a callee.
    pub fn substitute_callable(&mut self, callable: &Callable, env: &Subst) -> Callable {
        match callable {
            Callable::Func(func) => Callable::Func(self.substitute_func(func, env)),
            Callable::Derived(op, inner, asks) => {
                Callable::Derived(*op, Box::new(self.substitute_callable(inner, env)), *asks)
            }
            Callable::Synthesized(member, ty) => Callable::Synthesized(*member, self.substitute(*ty, env)),
        }
    }

    /// `base.Assoc`, normalised. For an existential type, this is the existential that covers the associated
    /// types of all conforming types.
    pub fn project(&mut self, base: Ty, assoc: DeclId) -> Ty {
        if base == Ty::ERROR {
            return Ty::ERROR;
        }
        let magic = self.container_of(assoc).and_then(|c| self.magic_of(c));
        if self.types.is_abstract(base) || matches!(self.types[base], TyKind::Interface(..)) {
            let raw = self.types.intern(TyKind::Assoc(base, assoc));
            if let Some(owner) = self.root_owner(base) {
                let constraints = self.constraints_of(owner);
                if let Some(&(_, to)) = constraints.equal.iter().find(|e| e.0 == raw) {
                    return to;
                }
            }
            let mut at = raw;
            while let TyKind::Assoc(outer, _) = self.types[at] {
                let (_, equal) = self.constraints_on(outer);
                for (a, b) in equal {
                    // Rewrite towards the shorter path so that rewriting terminates.
                    let (from, to) = if self.path_length(a) >= self.path_length(b) { (a, b) } else { (b, a) };
                    if self.is_redeclared(from, raw) && to != raw {
                        return to;
                    }
                }
                at = outer;
            }
            // `associatedtype A : I where A.B == int`
            if let TyKind::Assoc(outer, inner) = self.types[base]
                && self.is_constrained(inner)
            {
                let constraints = self.constraints_of(inner);
                let env = Subst { this: Some(outer), ..Subst::default() };
                for &(from, to) in &constraints.equal {
                    if let TyKind::Assoc(from_base, from_assoc) = self.types[from]
                        && from_assoc == assoc
                        && self.substitute(from_base, &env) == base
                    {
                        return self.substitute(to, &env);
                    }
                }
            }
            if magic == Some(Magic::Differentiable) {
                // A differential is its own differential.
                if let TyKind::Assoc(_, inner) = self.types[base]
                    && inner == assoc
                {
                    return base;
                }
                if self.is_float_kind(base) {
                    return base;
                }
            }
            return raw;
        }
        match magic {
            Some(Magic::Differentiable) => self.differential(base),
            Some(Magic::DifferentiablePtr) => self.pointer_differential(base),
            Some(Magic::EnumType) => match self.types[base] {
                TyKind::Enum(decl) => Some(self.enum_tag(decl)),
                _ => None,
            },
            _ => self.type_member(base, self.ast.decls[assoc].name),
        }
        .unwrap_or_else(|| {
            self.lacking.push(base);
            Ty::ERROR
        })
    }

    fn path_length(&self, ty: Ty) -> u32 {
        match self.types[ty] {
            TyKind::Assoc(base, _) => 1 + self.path_length(base),
            _ => 0,
        }
    }

    /// Returns true if two associated types of one type are the same: an interface may redeclare an
    /// associated type of its bases.
    fn is_redeclared(&self, a: Ty, b: Ty) -> bool {
        match (&self.types[a], &self.types[b]) {
            (TyKind::Assoc(x, a), TyKind::Assoc(y, b)) => {
                x == y && (a == b || self.ast.decls[*a].name == self.ast.decls[*b].name)
            }
            _ => a == b,
        }
    }

    /// The type that a known type declares as a member of this name, itself or by an extension.
    pub(crate) fn type_member(&mut self, base: Ty, name: syntax::Symbol) -> Option<Ty> {
        let facets = self.facets(base);
        if let Some(found) = facets.iter().find_map(|facet| self.type_in(facet, name)) {
            return Some(found);
        }
        // What an extension of all types that fit a bound says.
        self.blanket_facets_with(base, name).iter().find_map(|facet| self.type_in(facet, name))
    }

    fn type_in(&mut self, facet: &Facet, name: syntax::Symbol) -> Option<Ty> {
        if facet.kind == FacetKind::Interface {
            return None;
        }
        let found = *self.named(facet.container, name).first()?;
        let kind = &self.ast.decls[found].kind;
        let is_type =
            matches!(kind, DeclKind::TypeAlias(_) | DeclKind::Struct { .. } | DeclKind::Enum { .. });
        is_type.then(|| {
            let ty = self.decl_type(found);
            self.substitute(ty, &facet.env)
        })
    }

    /// Evaluates a compile-time integer under a substitution.
    pub fn val_int(&self, val: &Val, env: &Subst) -> Option<i64> {
        match val {
            Val::Int(value) => Some(*value),
            Val::Param(param) => match env.get(*param)? {
                GenericArg::Val(arg) if arg != val => self.val_int(arg, env),
                _ => None,
            },
            Val::Binary(op, a, b) => {
                let (a, b) = (self.val_int(a, env)?, self.val_int(b, env)?);
                self.val_int(&binary_val(*op, Val::Int(a), Val::Int(b)), env)
            }
            Val::CountOf(ty) => self.known_count(*ty),
            Val::CountOfVals(vals) => self.shape_count(&GenericArg::Val((**vals).clone())).map(|n| n as i64),
            Val::Pack(_)
            | Val::Each(_)
            | Val::Expand(..)
            | Val::PackPart(..)
            | Val::Shape(..)
            | Val::Select(_)
            | Val::Member(_)
            | Val::SizeOf(..)
            | Val::Error => None,
        }
    }

    /// The name of a type's declaration as shown to the user, without names that the compiler made up.
    fn shown_name(&self, decl: DeclId) -> String {
        let name = self.ast.decl_name(decl);
        match self.opened.params.contains(&decl) {
            true => name.trim_start_matches("some ").to_string(),
            false if name.starts_with('$') => "lambda".to_string(),
            false => name.to_string(),
        }
    }

    /// A type as Slang writes it.
    pub fn type_name(&self, ty: Ty) -> String {
        let name = |decl: DeclId| self.shown_name(decl);
        match &self.types[ty] {
            TyKind::Error => "<error>".into(),
            TyKind::Void => "void".into(),
            TyKind::Scalar(scalar) => scalar.name().into(),
            TyKind::Vector(element, n, _) => match (&self.types[*element], n) {
                _ if self.is_compared_whole(ty) => {
                    format!("CoopVec<{}, {}>", self.type_name(*element), self.val_name(n))
                }
                (TyKind::Scalar(s), Val::Int(n)) => format!("{}{n}", s.name()),
                _ => format!("vector<{}, {}>", self.type_name(*element), self.val_name(n)),
            },
            TyKind::Matrix(element, r, c, order) => {
                let (order, last) = match *order {
                    Order::HOST => ("", String::new()),
                    Order::ROWS => ("row_major ", String::new()),
                    Order::COLUMNS => ("column_major ", String::new()),
                    ref order => ("", format!(", {}", self.val_name(order))),
                };
                match (&self.types[*element], r, c) {
                    (TyKind::Scalar(s), Val::Int(r), Val::Int(c)) if last.is_empty() => {
                        format!("{order}{}{r}x{c}", s.name())
                    }
                    _ => {
                        let element = self.type_name(*element);
                        format!("{order}matrix<{element}, {}, {}{last}>", self.val_name(r), self.val_name(c))
                    }
                }
            }
            TyKind::Array(element, Some(n)) => format!("{}[{}]", self.type_name(*element), self.val_name(n)),
            TyKind::Array(element, None) => format!("{}[]", self.type_name(*element)),
            TyKind::Struct(decl, args) | TyKind::Interface(decl, args) | TyKind::Opaque(decl, args) => {
                self.path_name(*decl, args)
            }
            TyKind::Function(decl, args) => format!("{}{}", name(*decl), self.args_name(args)),
            TyKind::Enum(decl) => self.path_name(*decl, &[]),
            TyKind::Param(decl) => name(*decl),
            TyKind::This(_) => "This".into(),
            TyKind::Assoc(base, decl) => format!("{}.{}", self.type_name(*base), name(*decl)),
            TyKind::DiffPair(t) => format!("DifferentialPair<{}>", self.type_name(*t)),
            TyKind::DiffPtrPair(t) => format!("DifferentialPtrPair<{}>", self.type_name(*t)),
            TyKind::SynthDiff(t) => format!("{}.Differential", self.type_name(*t)),
            TyKind::Tuple(parts) => format!("Tuple<{}>", self.type_names(parts)),
            TyKind::Pack(parts) => self.type_names(parts),
            TyKind::Each(t) => format!("each {}", self.type_name(*t)),
            TyKind::Expand(t, _) => format!("expand {}", self.type_name(*t)),
            TyKind::PackPart(part, pack) => format!("{}({})", part.text(), self.type_name(*pack)),
            TyKind::PackBranch(pack, empty, other) => {
                let (empty, other) = (self.type_name(*empty), self.type_name(*other));
                format!("__packBranch({}, {empty}, {other})", self.arg_name(pack))
            }
            TyKind::Optional(t) => format!("Optional<{}>", self.type_name(*t)),
            TyKind::Pointer(t, access, space) => self.pointer_name(*t, access, space),
            TyKind::Buffer(kind, t) => format!("{}<{}>", kind.name(), self.type_name(*t)),
            TyKind::Laid(t, layout) => format!("{}, {}", self.type_name(*t), self.type_name(*layout)),
            TyKind::String => "String".into(),
            TyKind::NullPtr => "nullptr".into(),
            TyKind::NoneLiteral => "none".into(),
        }
    }

    fn type_names(&self, types: &[Ty]) -> String {
        types.iter().map(|&t| self.type_name(t)).collect::<Vec<_>>().join(", ")
    }

    /// The name of a type with its enclosing types and namespaces, `A.S<float>.T`, which tells it apart from
    /// types of the same name declared elsewhere.
    fn path_name(&self, decl: DeclId, args: &[GenericArg]) -> String {
        // The arguments of enclosing generics come first and are not written on this name.
        let own = self.ast.decls[decl].generics.as_ref().map_or(0, |g| g.params.len());
        let (outer, own) = args.split_at(args.len().saturating_sub(own));
        let name = format!("{}{}", self.shown_name(decl), self.args_name(own));
        let parent = self.ast.decls[decl].parent.filter(|&parent| {
            let is_named = self.ast.decls[parent].name != kw::EMPTY;
            let kind = &self.ast.decls[parent].kind;
            is_named
                && matches!(
                    kind,
                    DeclKind::Struct { .. } | DeclKind::Interface { .. } | DeclKind::Namespace { .. }
                )
        });
        match parent {
            Some(parent) if !self.is_core(decl) => format!("{}.{name}", self.path_name(parent, outer)),
            _ => name,
        }
    }

    pub(crate) fn args_name(&self, args: &[GenericArg]) -> String {
        if args.is_empty() {
            return String::new();
        }
        let args: Vec<String> = args.iter().map(|arg| self.arg_name(arg)).collect();
        format!("<{}>", args.join(", "))
    }

    pub(crate) fn arg_name(&self, arg: &GenericArg) -> String {
        match arg {
            GenericArg::Type(ty) => self.type_name(*ty),
            GenericArg::Val(val) => self.val_name(val),
        }
    }

    fn val_name(&self, val: &Val) -> String {
        match val {
            Val::Int(value) => value.to_string(),
            Val::Param(param) => self.ast.decl_name(*param).to_string(),
            Val::Binary(op, a, b) => {
                let op = op.text();
                let part = |part: &Val| match part {
                    Val::Binary(..) | Val::Select(_) => format!("({})", self.val_name(part)),
                    _ => self.val_name(part),
                };
                format!("{} {op} {}", part(a), part(b))
            }
            Val::CountOf(ty) => format!("countof({})", self.type_name(*ty)),
            Val::Select(parts) => {
                let [cond, a, b] = &**parts;
                format!("{} ? {} : {}", self.val_name(cond), self.val_name(a), self.val_name(b))
            }
            Val::Member(member) => {
                let name = self.ast.decl_name(member.decl);
                match member.self_ty {
                    Some(ty) => format!("{}.{name}", self.type_name(ty)),
                    None => name.to_string(),
                }
            }
            Val::SizeOf(_, ty) => format!("sizeof({})", self.type_name(*ty)),
            Val::CountOfVals(vals) => format!("countof({})", self.val_name(vals)),
            Val::Pack(vals) => vals.iter().map(|v| self.val_name(v)).collect::<Vec<_>>().join(", "),
            Val::Each(val) => format!("each {}", self.val_name(val)),
            Val::Expand(val, _) => format!("expand {}", self.val_name(val)),
            Val::PackPart(part, pack) => format!("{}({})", part.text(), self.val_name(pack)),
            Val::Shape(op, operands) => {
                let parts: Vec<String> = operands
                    .iter()
                    .map(|val| match val {
                        Val::Pack(_) => format!("({})", self.val_name(val)),
                        val => self.val_name(val),
                    })
                    .collect();
                format!("{}({})", op.text(), parts.join(", "))
            }
            Val::Error => "<error>".into(),
        }
    }
}

/// `a op b`, folded if both operands are known.
pub(crate) fn binary_val(op: BinaryOp, a: Val, b: Val) -> Val {
    if let (Val::Int(x), Val::Int(y)) = (&a, &b) {
        let (x, y) = (*x, *y);
        let value = match op {
            BinaryOp::Add => Some(x.wrapping_add(y)),
            BinaryOp::Sub => Some(x.wrapping_sub(y)),
            BinaryOp::Mul => Some(x.wrapping_mul(y)),
            BinaryOp::Div => x.checked_div(y),
            BinaryOp::Rem => x.checked_rem(y),
            BinaryOp::Shl => u32::try_from(y).ok().and_then(|y| x.checked_shl(y)),
            BinaryOp::Shr => u32::try_from(y).ok().and_then(|y| x.checked_shr(y)),
            BinaryOp::BitAnd => Some(x & y),
            BinaryOp::BitOr => Some(x | y),
            BinaryOp::BitXor => Some(x ^ y),
            BinaryOp::Lt => Some(i64::from(x < y)),
            BinaryOp::Gt => Some(i64::from(x > y)),
            BinaryOp::Le => Some(i64::from(x <= y)),
            BinaryOp::Ge => Some(i64::from(x >= y)),
            BinaryOp::Eq => Some(i64::from(x == y)),
            BinaryOp::Ne => Some(i64::from(x != y)),
            BinaryOp::And => Some(i64::from(x != 0 && y != 0)),
            BinaryOp::Or => Some(i64::from(x != 0 || y != 0)),
            BinaryOp::Comma => None,
        };
        return value.map_or(Val::Error, Val::Int);
    }
    if op == BinaryOp::Comma || a == Val::Error || b == Val::Error {
        return Val::Error;
    }
    // Move constants to the right, so that `1 + N` becomes `N + 1`.
    if matches!(op, BinaryOp::Add | BinaryOp::Mul) && matches!(a, Val::Int(_)) {
        return Val::Binary(op, Box::new(b), Box::new(a));
    }
    Val::Binary(op, Box::new(a), Box::new(b))
}

/// The method of `IArithmetic` or a related interface that implements a unary operator.
pub(crate) fn unary_method(op: UnaryOp) -> Option<&'static str> {
    match op {
        UnaryOp::Neg => Some("neg"),
        UnaryOp::Not => Some("not"),
        UnaryOp::BitNot => Some("bitNot"),
        UnaryOp::Plus
        | UnaryOp::PreInc
        | UnaryOp::PreDec
        | UnaryOp::Deref
        | UnaryOp::AddressOf
        | UnaryOp::GetAddress => None,
    }
}
