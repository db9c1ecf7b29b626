//! Properties and user-written subscripts: read by `get`, written by `set`.

use check::Accessors;
use check::tables::{Arg, Callable, FuncRef};
use check::types::Ty;
use ir::Value;
use syntax::ExprId;

use crate::body::Body;
use crate::functions::Declared;
use crate::places::{Place, PlaceKind};

/// A property or subscript of a place.
#[derive(Clone, Debug)]
pub(crate) struct Accessor {
    /// The receiver; none for static ones.
    pub(crate) base: Option<Place>,
    pub(crate) accessors: Accessors,
    /// Values of the subscript's arguments, in their own types.
    pub(crate) args: Vec<(Vec<Value>, Ty)>,
    pub(crate) span: syntax::Span,
}

impl Body<'_, '_, '_> {
    pub(crate) fn property_place(
        &mut self,
        e: ExprId,
        base: Option<ExprId>,
        property: &FuncRef,
        ty: Ty,
    ) -> Place {
        self.accessor_place(e, base, property, &[], ty)
    }

    pub(crate) fn subscript_place(
        &mut self,
        e: ExprId,
        base: ExprId,
        subscript: &FuncRef,
        args: &[Arg],
        ty: Ty,
    ) -> Place {
        self.accessor_place(e, Some(base), subscript, args, ty)
    }

    fn accessor_place(
        &mut self,
        e: ExprId,
        base: Option<ExprId>,
        member: &FuncRef,
        args: &[Arg],
        ty: Ty,
    ) -> Place {
        let span = self.span_of(e);
        let subst = self.subst.clone();
        let member = self.lw.program.substitute_func(member, &subst);
        let accessors = self.lw.program.accessors(&member);
        let one = accessors.get.as_ref().or(accessors.set.as_ref()).or(accessors.by_ref.as_ref());
        let Some(one) = one.cloned() else {
            let values = self.internal(span, "a property without accessors", ty);
            return Place::value(ty, values);
        };
        let has_this = self.lw.program.func_signature(&one).this.is_some();
        let base = match base {
            _ if !has_this => None,
            Some(base) => Some(self.place_as_context(base)),
            None => Some(self.this_place(e)),
        };
        let mut values = Vec::new();
        for arg in args {
            match arg {
                Arg::Expr(a) => {
                    let v = self.expr(*a);
                    let from = self.expr_ty(*a);
                    values.push((v, from));
                }
                Arg::Default(param) => values.push(self.default_argument(*param, &one)),
            }
        }
        let accessor = Accessor { base, accessors, args: values, span };
        Place { ty, kind: PlaceKind::Accessor(Box::new(accessor)) }
    }

    fn resolved(&mut self, func: &FuncRef) -> Option<(Callable, std::rc::Rc<Declared>)> {
        let callable = self.lw.canonical(Callable::Func(func.clone())).ok()?;
        let declared = self.lw.function(self.b.types, &callable);
        Some((callable, declared))
    }

    pub(crate) fn read_accessor(&mut self, accessor: &Accessor, ty: Ty) -> Vec<Value> {
        let Some((_, declared)) = accessor.accessors.get.as_ref().and_then(|get| self.resolved(get)) else {
            return self.unsupported(accessor.span, "reading a property that has no `get` is", ty);
        };
        let mut inputs: Vec<(Vec<Value>, Ty)> = Vec::new();
        let mut written = Vec::new();
        if let Some(base) = &accessor.base {
            inputs.push((self.read(base), base.ty));
            written.push(Some(base.clone()));
        }
        inputs.extend(accessor.args.iter().cloned());
        written.resize(inputs.len(), None);
        self.invoke(&declared, inputs, &written, accessor.span)
    }

    pub(crate) fn write_accessor(&mut self, accessor: &Accessor, values: Vec<Value>) {
        let Some((_, declared)) = accessor.accessors.set.as_ref().and_then(|set| self.resolved(set)) else {
            self.lw.unsupported(accessor.span, "writing through an accessor other than `set` is");
            return;
        };
        let mut inputs: Vec<(Vec<Value>, Ty)> = Vec::new();
        let mut written = Vec::new();
        if let Some(base) = &accessor.base {
            inputs.push((self.read(base), base.ty));
            written.push(Some(base.clone()));
        }
        inputs.extend(accessor.args.iter().cloned());
        // the new value is the last parameter, of the property's type
        let ty = declared.sig.params.last().map_or(Ty::ERROR, |p| p.ty);
        inputs.push((values, ty));
        written.resize(inputs.len(), None);
        self.invoke(&declared, inputs, &written, accessor.span);
    }
}
