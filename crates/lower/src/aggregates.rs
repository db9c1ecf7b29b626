//! Construction of values: built-in types from components, structs from parts, and defaults.

use check::signature::Subst;
use check::tables::{Arg, Callable, FuncRef, Initializer};
use check::types::{Ty, TyKind};
use ir::{Op, Type, TypeData, Value};
use smallvec::SmallVec;
use syntax::{ExprId, Span};

use crate::body::Body;
use crate::leaves::scalar_in;

impl Body<'_, '_, '_> {
    /// Lowers the built-in construction of a scalar, vector, matrix or array from parts.
    pub(crate) fn construct_from(&mut self, ty: Ty, parts: &[ExprId], span: Span) -> Vec<Value> {
        if let [only] = parts {
            return self.expr_as(*only, ty, span);
        }
        if let Some((element, n)) = self.lw.array_of(ty) {
            if parts.len() <= n as usize {
                let elements: Vec<Vec<Value>> =
                    parts.iter().map(|&p| self.expr_as(p, element, span)).collect();
                return self.array_of_elements(ty, element, elements);
            }
            return self.unsupported(span, "this construction of an array is", ty);
        }
        let mut scalars = Vec::new();
        for &part in parts {
            for value in self.expr(part) {
                self.components(value, &mut scalars);
            }
        }
        self.of_components(ty, &scalars)
    }

    /// The scalars of a scalar, vector or matrix, in order.
    pub(crate) fn components(&mut self, value: Value, out: &mut Vec<Value>) {
        match self.b.types[self.b.func.ty(value)] {
            TypeData::Vector(_, n) | TypeData::Array(_, n) => {
                for k in 0..n {
                    let inner = self.b.emit(Op::Extract(k), &[value]);
                    self.components(inner, out);
                }
            }
            TypeData::Scalar(_)
            | TypeData::Stack(_)
            | TypeData::Cell(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => {
                out.push(value);
            }
        }
    }

    /// A scalar, vector or matrix built from scalars, in order; missing ones are zero.
    pub(crate) fn of_components(&mut self, ty: Ty, scalars: &[Value]) -> Vec<Value> {
        let layout = self.layout(ty);
        let mut scalars = scalars.iter().copied();
        layout.leaves.iter().map(|leaf| self.build(leaf.ty, &mut scalars)).collect()
    }

    fn build(&mut self, ty: Type, scalars: &mut dyn Iterator<Item = Value>) -> Value {
        match self.b.types[ty] {
            TypeData::Vector(s, _) => self.construct(ty, |body, _| body.build(s.into(), scalars)),
            TypeData::Array(element, _) => self.construct(ty, |body, _| body.build(element, scalars)),
            TypeData::Scalar(_)
            | TypeData::Stack(_)
            | TypeData::Cell(_)
            | TypeData::Buffer(_)
            | TypeData::Residuals(_) => match scalars.next() {
                Some(value) => self.convert_leaf(value, ty),
                None => self.b.zero(ty),
            },
        }
    }

    /// Element `k` of the leaves of an array.
    pub(crate) fn elements_at(&mut self, values: &[Value], k: u32) -> Vec<Value> {
        values.iter().map(|&v| self.b.emit(Op::Extract(k), &[v])).collect()
    }

    /// An array value built from its elements' leaves; missing elements are zero.
    pub(crate) fn array_of_elements(
        &mut self,
        ty: Ty,
        element: Ty,
        mut elements: Vec<Vec<Value>>,
    ) -> Vec<Value> {
        let n = self.lw.array_of(ty).map_or(0, |a| a.1) as usize;
        let layout = self.layout(ty);
        let inner = self.layout(element);
        // Such an array is rejected by `sizes`, and too large to be expanded here.
        if layout.leaves.iter().any(|leaf| self.b.types.bytes(leaf.ty) > crate::sizes::MOST) {
            return self.zeros(ty);
        }
        if elements.len() < n {
            let zeros = self.zeros(element);
            elements.resize(n, zeros);
        }
        let mut values = Vec::new();
        for (k, leaf) in layout.leaves.iter().enumerate().take(inner.leaves.len()) {
            let column: SmallVec<[Value; 4]> =
                elements.iter().take(n).filter_map(|e| e.get(k).copied()).collect();
            values.push(self.b.emit_typed(Op::Construct, &column, leaf.ty));
        }
        values
    }

    /// The type of an initialiser's value.
    pub(crate) fn initializer_ty(&mut self, init: &Initializer) -> Ty {
        match init {
            Initializer::Expr(e) => self.expr_ty(*e),
            Initializer::Default(ty) | Initializer::Parts(ty, _) | Initializer::Init(ty, ..) => self.ty(*ty),
        }
    }

    pub(crate) fn initializer(&mut self, init: &Initializer, span: Span) -> Vec<Value> {
        let ty = self.initializer_ty(init);
        let values = self.nested(span, |body| match init {
            Initializer::Expr(e) => body.expr(*e),
            Initializer::Default(_) => body.default_value(ty, span),
            Initializer::Parts(_, parts) => body.parts(ty, parts, span),
            Initializer::Init(_, func, args) => {
                let func = body.lw.program.substitute_func(func, &body.subst);
                body.construct_by_init(ty, &func, args, span)
            }
        });
        values.unwrap_or_else(|| self.zeros(ty))
    }

    fn part_as(&mut self, init: &Initializer, ty: Ty, span: Span) -> Vec<Value> {
        let values = self.initializer(init, span);
        let from = self.initializer_ty(init);
        self.convert(values, from, ty, span)
    }

    fn parts(&mut self, ty: Ty, parts: &[Initializer], span: Span) -> Vec<Value> {
        if let Some((element, _)) = self.lw.array_of(ty) {
            let elements: Vec<Vec<Value>> = parts.iter().map(|p| self.part_as(p, element, span)).collect();
            return self.array_of_elements(ty, element, elements);
        }
        if matches!(
            self.lw.program.types[ty],
            TyKind::Scalar(_) | TyKind::Vector(..) | TyKind::Matrix(..) | TyKind::Enum(_)
        ) {
            let mut scalars = Vec::new();
            for part in parts {
                for value in self.initializer(part, span) {
                    self.components(value, &mut scalars);
                }
            }
            return self.of_components(ty, &scalars);
        }
        let layout = self.layout(ty);
        let mut values = Vec::new();
        for (k, field) in layout.parts.iter().enumerate() {
            if field.is_shadow {
                values.extend(self.shadow_zeros(&layout, field));
                continue;
            }
            match parts.get(k) {
                Some(part) => {
                    let own = field.decl.and_then(|d| self.lw.program.ast.decls[d].kind.init());
                    let own = own.filter(|own| matches!(part, Initializer::Expr(e) if e == own));
                    if own.is_some_and(|e| self.open.defaults.contains(&e)) {
                        let place = field.decl.map_or(span, |d| self.lw.program.ast.decls[d].name_span);
                        let message = "the initial value of this field makes the struct that it belongs to, without end";
                        self.lw.error("E0903", place, message);
                        values.extend(self.zeros(field.ty));
                        continue;
                    }
                    self.open.defaults.extend(own);
                    // A field's own initialiser belongs to the struct's declaration.
                    let subst = if own.is_some() { self.struct_subst(ty) } else { self.subst.clone() };
                    let part = self.with_subst(subst, |body| body.part_as(part, field.ty, span));
                    values.extend(part);
                    if own.is_some() {
                        self.open.defaults.pop();
                    }
                }
                None => values.extend(self.default_value(field.ty, span)),
            }
        }
        if matches!(self.lw.program.types[ty], TyKind::Struct(..)) {
            values = self.cut_plain_leaves(ty, values);
        }
        values
    }

    /// Detaches the leaves of a struct that have no differential.
    fn cut_plain_leaves(&mut self, ty: Ty, values: Vec<Value>) -> Vec<Value> {
        let map = self.lw.diff_map(self.b.types, ty);
        let mut out = Vec::with_capacity(values.len());
        for (k, v) in values.into_iter().enumerate() {
            let kept = map.as_ref().is_some_and(|m| m.map.get(k).is_some_and(Option::is_some));
            let float = self.b.types.is_differentiable(self.b.func.ty(v));
            let constant = self.constant_of(v).is_some();
            out.push(if kept || !float || constant { v } else { self.b.emit(Op::Detach, &[v]) });
        }
        out
    }

    /// The generic arguments of a struct, for expressions within its declaration.
    pub(crate) fn struct_subst(&mut self, ty: Ty) -> Subst {
        match self.lw.program.types[ty].clone() {
            TyKind::Struct(decl, args) => {
                self.lw.program.subst_of(&FuncRef { decl, args, self_ty: Some(ty) })
            }
            _ => Subst::default(),
        }
    }

    /// The initial value of a variable without an initialiser.
    pub(crate) fn default_value(&mut self, ty: Ty, span: Span) -> Vec<Value> {
        if !matches!(self.lw.program.types[ty], TyKind::Struct(..) | TyKind::Array(..)) {
            return self.zeros(ty);
        }
        if let Some((element, n)) = self.lw.array_of(ty) {
            if !self.has_default(element) {
                return self.zeros(ty);
            }
            let one = self.default_value(element, span);
            return self.array_of_elements(ty, element, vec![one; n as usize]);
        }
        match self.lw.program.default_of(ty) {
            Initializer::Init(_, func, args) => self.construct_by_init(ty, &func, &args, span),
            Initializer::Default(_) | Initializer::Expr(_) | Initializer::Parts(..) => {
                self.field_defaults(ty, span)
            }
        }
    }

    /// Returns true if a type's default is something other than zeros.
    fn has_default(&mut self, ty: Ty) -> bool {
        match self.lw.program.types[ty] {
            TyKind::Struct(decl, _) => {
                self.lw.program.has_base_struct(decl)
                    || !matches!(self.lw.program.default_of(ty), Initializer::Default(_))
                    || self.layout(ty).parts.iter().any(|part| self.has_default(part.ty))
            }
            TyKind::Array(element, _) => self.has_default(element),
            _ => false,
        }
    }

    /// The value of a struct before its constructor runs: the initialisers of its fields, or else their
    /// defaults.
    pub(crate) fn field_defaults(&mut self, ty: Ty, span: Span) -> Vec<Value> {
        if !matches!(self.lw.program.types[ty], TyKind::Struct(..)) {
            return self.zeros(ty);
        }
        self.nested(span, |body| body.fields_of(ty, span)).unwrap_or_else(|| self.zeros(ty))
    }

    fn fields_of(&mut self, ty: Ty, span: Span) -> Vec<Value> {
        let layout = self.layout(ty);
        let subst = self.struct_subst(ty);
        let mut values = Vec::new();
        for base in self.lw.program.base_structs(ty) {
            values.extend(self.default_value(base, span));
        }
        let inherited = values.len();
        for part in layout.parts.iter().filter(|part| part.offset >= inherited) {
            if part.is_shadow {
                values.extend(self.shadow_zeros(&layout, part));
                continue;
            }
            let init = part.decl.and_then(|d| Some((d, self.lw.program.ast.decls[d].kind.init()?)));
            match init {
                Some((decl, e)) => {
                    self.lw.program.body(decl);
                    let to = part.ty;
                    values.extend(self.with_subst(subst.clone(), |body| body.expr_as(e, to, span)));
                }
                None => values.extend(self.default_value(part.ty, span)),
            }
        }
        // The residuals of a pullback belong to no field.
        self.fill(&mut values, ty);
        values
    }

    /// Constructs a value with a user-defined `__init`.
    pub(crate) fn construct_by_init(
        &mut self,
        ty: Ty,
        init: &FuncRef,
        args: &[Arg],
        span: Span,
    ) -> Vec<Value> {
        if init.self_ty.is_some_and(|t| self.lw.program.is_existential(t))
            && self.lw.program.is_requirement(init.decl)
        {
            return self.unsupported(span, "a constructor of a type that is only known at run time is", ty);
        }
        let callable = match self.lw.canonical(Callable::Func(init.clone())) {
            Ok(callable) => callable,
            Err(name) => {
                return self.internal(span, format_args!("the constructor `{name}` is not resolved"), ty);
            }
        };
        if let Some(values) = self.builtin_init(ty, init, args, span) {
            return values;
        }
        self.call_init(&callable, ty, args, span)
    }

    /// Lowers a constructor that a built-in type has natively (`T(1.0)` with `T = float`).
    fn builtin_init(&mut self, ty: Ty, init: &FuncRef, args: &[Arg], span: Span) -> Option<Vec<Value>> {
        if !matches!(self.lw.program.resolve_requirement(init), check::Resolved::Builtin(_)) {
            return None;
        }
        let values = match args.first() {
            Some(Arg::Expr(e)) => self.expr_as(*e, ty, span),
            _ => self.zeros(ty),
        };
        let layout = self.layout(ty);
        let fits = values.len() == layout.leaves.len()
            && values
                .iter()
                .zip(&layout.leaves)
                .all(|(&v, l)| scalar_in(self.b.types, self.b.func.ty(v)) == scalar_in(self.b.types, l.ty));
        Some(if fits { values } else { self.zeros(ty) })
    }
}
