//! Properties and user-defined subscripts: read by `get`, written by `set`.

use std::rc::Rc;

use check::Resolved;
use check::tables::{Arg, Callable, FuncRef};
use check::types::Ty;
use ir::Value;
use syntax::ast::{DeclKind, Modifiers, StmtKind};
use syntax::{ExprId, StmtId};

use crate::body::{Body, Name};
use crate::declared::Declared;
use crate::places::{Accessor, Place, PlaceKind};

impl Body<'_, '_, '_> {
    /// The place of a property or user-defined subscript.
    pub(crate) fn accessor_place(
        &mut self,
        e: ExprId,
        base: Option<ExprId>,
        member: &FuncRef,
        args: &[Arg],
        ty: Ty,
    ) -> Place {
        let span = self.span_of(e);
        let member = self.lw.program.substitute_func(member, &self.subst);
        if let Resolved::Func(found) = self.lw.program.resolve_requirement(&member)
            && matches!(self.lw.program.ast.decls[found.decl].kind, DeclKind::Var { .. })
        {
            // A field fulfils the property.
            let base = self.base_place(base, e);
            let declared = self.lw.program.decl_type(found.decl);
            let own = self.lw.program.subst_of(&found);
            let own = self.lw.program.substitute(declared, &own);
            let place = self.field_place(base, found.decl, own, e);
            if own == ty {
                return place;
            }
            let values = self.read(&place);
            let values = self.convert(values, own, ty, span);
            return Place::value(ty, values);
        }
        let accessors = self.lw.program.accessors(&member);
        let named = self.lw.program.declared_accessors(&member);
        let one = accessors.get.as_ref().or(accessors.set.as_ref()).or(accessors.by_ref.as_ref());
        let Some(one) = one.cloned() else {
            let values =
                self.unsupported(span, "a property without accessors of a value of interface type is", ty);
            return Place::value(ty, values);
        };
        let has_this = self.lw.program.func_signature(&one).this.is_some();
        let base = has_this.then(|| self.base_place(base, e));
        let values = self.argument_values(args, &one);
        if accessors.set.is_none()
            && let Some(by_ref) = accessors.by_ref.clone()
        {
            return self.reference(&by_ref, base, values, ty, span);
        }
        let accessor = Accessor { base, accessors, named, args: values, span };
        Place { ty, kind: PlaceKind::Accessor(Box::new(accessor)) }
    }

    /// The values of arguments, each with its type.
    fn argument_values(&mut self, args: &[Arg], func: &FuncRef) -> Vec<(Vec<Value>, Ty)> {
        let mut values = Vec::new();
        for arg in args {
            match arg {
                Arg::Expr(a) => values.push(self.typed(*a)),
                Arg::Default(param) => values.push(self.default_argument(*param, func)),
                Arg::Pack(exprs) => values.extend(self.pack_inputs(exprs)),
            }
        }
        values
    }

    /// The place that a call of a function with a `Ref<T>` as its result is.
    pub(crate) fn called_place(
        &mut self,
        e: ExprId,
        func: &FuncRef,
        base: Option<ExprId>,
        args: &[Arg],
        ty: Ty,
    ) -> Place {
        let span = self.span_of(e);
        let func = self.lw.program.substitute_func(func, &self.subst);
        let sig = self.lw.program.func_signature(&func);
        if sig.params.iter().any(|param| param.dir.is_written()) {
            let what = "a function with a `Ref` as its result that writes to a parameter is";
            let values = self.unsupported(span, what, ty);
            return Place::value(ty, values);
        }
        let base = sig.this.is_some().then(|| self.base_place(base, e));
        let values = self.argument_values(args, &func);
        let place = self.reference(&func, base, values, ty, span);
        if let PlaceKind::Value(_) = place.kind
            && !self.lw.has_errors()
        {
            self.unsupported(span, "a `Ref` to a value that has no place is", ty);
        }
        place
    }

    /// The place that a `ref` accessor returns: the place of its only expression, in which `this` is the
    /// base's place.
    fn reference(
        &mut self,
        by_ref: &FuncRef,
        base: Option<Place>,
        args: Vec<(Vec<Value>, Ty)>,
        ty: Ty,
        span: syntax::Span,
    ) -> Place {
        let func = match self.lw.program.resolve_requirement(by_ref) {
            Resolved::Func(func) => func,
            Resolved::Synthesized(..) | Resolved::Builtin(_) | Resolved::Unresolved => by_ref.clone(),
        };
        let custom = self.lw.program.derivatives_of(&func, check::View::default());
        if self.differentiable && (custom.fwd.is_some() || custom.bwd.is_some()) {
            let what = "a place that a function with a derivative of its own gives, in a differentiable function, is";
            let values = self.unsupported(span, what, ty);
            return Place::value(ty, values);
        }
        self.lw.program.body(func.decl);
        let body = self.lw.program.ast.decls[func.decl].kind.body();
        let Some(returned) = body.and_then(|b| self.only_return(b)) else {
            let what = "a function or accessor that gives a place and does more than to return it is";
            let values = self.unsupported(span, what, ty);
            return Place::value(ty, values);
        };
        let sig = self.lw.program.func_signature(&func);
        for (param, (values, from)) in sig.params.iter().zip(args) {
            let values = self.convert(values, from, param.ty, span);
            if let Some(decl) = param.decl {
                self.declare_var(Name::Decl(decl), param.ty, values);
            }
        }
        let subst = self.lw.program.subst_of(&func);
        let outer = std::mem::replace(&mut self.this_alias, base);
        let place = self.with_subst(subst, |body| body.place(returned));
        self.this_alias = outer;
        place
    }

    /// Returns `e` for a body `{ return e; }`.
    fn only_return(&self, stmt: StmtId) -> Option<ExprId> {
        match &self.lw.program.ast.stmts[stmt].kind {
            StmtKind::Return(value) => *value,
            StmtKind::IntrinsicAsm(_) => self.lw.program.tables.intrinsics.get(&stmt).copied(),
            StmtKind::Block(stmts) => match stmts.as_slice() {
                [only] => self.only_return(*only),
                // A declaration of memory does nothing.
                [first, only] if self.is_memory(*first) => self.only_return(*only),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns true if a statement declares static or group-shared variables without a value.
    fn is_memory(&self, stmt: StmtId) -> bool {
        let ast = &self.lw.program.ast;
        let StmtKind::Decl(decls) = &ast.stmts[stmt].kind else { return false };
        decls.iter().all(|&decl| {
            let modifiers = ast.decls[decl].modifiers;
            matches!(ast.decls[decl].kind, DeclKind::Var { init: None, .. })
                && (modifiers.has(Modifiers::STATIC) || modifiers.has(Modifiers::GROUPSHARED))
        })
    }

    /// The function of an accessor. Where no derivatives are taken, its object in group-shared memory is a reference.
    fn resolved(
        &mut self,
        func: Option<&FuncRef>,
        named: Option<&FuncRef>,
        base: Option<&Place>,
    ) -> Option<Rc<Declared>> {
        let callable = self.lw.canonical(Callable::Func(named.or(func)?.clone())).ok()?;
        let is_shared = base.is_some_and(|base| match &base.kind {
            PlaceKind::Memory(memory) => {
                self.locals.references.values().any(|known| known.0 == memory.handle)
                    || self.is_group_shared(memory)
            }
            _ => false,
        });
        let plain = match &callable {
            Callable::Func(f) if is_shared && !self.differentiable => {
                self.lw.plain(self.b.types, f, Rc::new([None]))
            }
            _ => None,
        };
        let declared = plain.unwrap_or_else(|| self.lw.function(self.b.types, &callable));
        Some(match named {
            Some(named) => self.as_declared(named, declared),
            None => declared,
        })
    }

    pub(crate) fn read_accessor(&mut self, accessor: &Accessor, ty: Ty) -> Vec<Value> {
        let (get, named) = (accessor.accessors.get.as_ref(), accessor.named.get.as_ref());
        if get.is_some_and(|get| self.lw.is_beyond(get.decl, accessor.span)) {
            return self.zeros(ty);
        }
        match self.resolved(get, named, None) {
            Some(declared) => self.call_accessor(&declared, accessor, None),
            None => self.unsupported(accessor.span, "reading a property that has no `get` is", ty),
        }
    }

    /// Calls an accessor; `set` takes the new value.
    fn call_accessor(
        &mut self,
        declared: &Declared,
        accessor: &Accessor,
        new: Option<(Vec<Value>, Ty)>,
    ) -> Vec<Value> {
        let mut inputs: Vec<(Vec<Value>, Ty)> = Vec::new();
        let mut written = Vec::new();
        match (&accessor.base, declared.sig.params.first()) {
            (Some(base), Some(param)) if param.is_reference => {
                inputs.push((self.reference_to(base.clone(), param, accessor.span), param.ty));
            }
            (Some(base), _) => {
                inputs.push((self.read(base), base.ty));
                written.push(Some(base.clone()));
            }
            (None, _) => {}
        }
        inputs.extend(accessor.args.iter().cloned().chain(new));
        written.resize(inputs.len(), None);
        self.invoke(declared, inputs, &written, accessor.span)
    }

    pub(crate) fn write_accessor(&mut self, accessor: &Accessor, values: Vec<Value>) {
        let (set, named) = (accessor.accessors.set.as_ref(), accessor.named.set.as_ref());
        if set.is_some_and(|set| self.lw.is_beyond(set.decl, accessor.span)) {
            return;
        }
        let Some(declared) = self.resolved(set, named, accessor.base.as_ref()) else {
            return self.lw.unsupported(accessor.span, "writing through an accessor other than `set` is");
        };
        // The new value is the last parameter, which has the type of the property.
        let ty = declared.sig.params.last().map_or(Ty::ERROR, |p| p.ty);
        self.call_accessor(&declared, accessor, Some((values, ty)));
    }
}
