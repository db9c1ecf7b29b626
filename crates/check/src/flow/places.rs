//! Tracks the places that are read and assigned: see [`crate::flow`].
//!
//! A place is a variable or a part of one that is identified by its path; such a part has marks of its own.
//! Any other place stands for the variable that contains it: reading it reads the whole variable, and
//! assigning to it replaces nothing. The approximation thus only adds marks. `this` is a variable too.

use syntax::ast::{DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId};

use crate::flow::{Direction, Flow, Key, Mark, Part, Purpose};
use crate::signature::Level;
use crate::tables::{Arg, Callable, FuncRef, Meaning};
use crate::types::TyKind;

/// A place in a variable.
pub(crate) struct Place {
    /// The variable, and the part of it that the place is or lies in.
    pub(crate) key: Key,
    /// The place is exactly that part, rather than something inside it.
    pub(crate) exact: bool,
    /// A field on the path has no derivative.
    pub(crate) plain: bool,
}

impl Flow<'_> {
    /// The place in a variable that an expression denotes, if it denotes one without running code of the
    /// user's.
    pub(crate) fn place(&mut self, expr: ExprId) -> Option<Place> {
        let (base, part, exact, plain) = match self.p.tables.exprs[expr].meaning.clone() {
            Meaning::Var(decl) => return Some(Place { key: (decl, None), exact: true, plain: false }),
            Meaning::This => return Some(Place { key: (self.decl, None), exact: true, plain: false }),
            Meaning::Field { base: None, field } => {
                let plain = self.p.is_no_diff(field);
                return Some(Place { key: (self.decl, Some(Part::Field(field))), exact: true, plain });
            }
            Meaning::Same(base) => return self.place(base),
            Meaning::Field { base: Some(base), field } => {
                (base, Some(Part::Field(field)), true, self.p.is_no_diff(field))
            }
            Meaning::DiffField { base, field } => (base, Some(Part::Field(field)), true, false),
            Meaning::TupleField { base, idx } => (base, Some(Part::Element(idx.into())), true, false),
            Meaning::Swizzle { base, comps } if comps.len() == 1 => {
                (base, Some(Part::Element(comps[0].into())), true, false)
            }
            Meaning::MatrixSwizzle { base, comps } if comps.len() == 1 => {
                (base, Some(Part::Element(comps[0].0.into())), false, false)
            }
            Meaning::Index { base, index } => match self.p.ast.exprs[index].kind {
                ExprKind::Int { value, .. } => (base, Some(Part::Element(value)), true, false),
                _ => (base, None, false, false),
            },
            Meaning::PairField { base, .. }
            | Meaning::Swizzle { base, .. }
            | Meaning::MatrixSwizzle { base, .. }
            | Meaning::TupleSwizzle { base, .. } => (base, None, false, false),
            _ => return None,
        };
        let outer = self.place(base)?;
        let plain = plain || outer.plain;
        Some(match (outer.key.1, outer.exact) {
            // The base is the variable itself.
            (None, true) => Place { key: (outer.key.0, part), exact, plain },
            _ => Place { exact: false, plain, ..outer },
        })
    }

    /// The place that contains a place.
    pub(crate) fn base(&self, expr: ExprId) -> Option<ExprId> {
        self.p.tables.exprs[expr].meaning.base()
    }

    /// The variable that contains a place, also through accessors.
    fn variable(&self, expr: ExprId) -> Option<DeclId> {
        let mut at = expr;
        while let Some(base) = self.base(at) {
            at = base;
        }
        match self.p.tables.exprs[at].meaning {
            Meaning::Var(decl) => Some(decl),
            Meaning::This | Meaning::Field { base: None, .. } | Meaning::Property { base: None, .. } => {
                Some(self.decl)
            }
            _ => None,
        }
    }

    /// The places that a pointer may lead to.
    pub(crate) fn chosen_places(&self, pointer: DeclId) -> Vec<ExprId> {
        let chosen = self.p.tables.chosen.get(&pointer);
        chosen.map_or(Vec::new(), |chosen| chosen.places.iter().map(|place| place.of).collect())
    }

    /// The places of which one contains a place that is reached through a pointer. Each may be read or changed, so that
    /// an assignment replaces nothing in any of them.
    pub(crate) fn reached(&self, expr: ExprId) -> Option<Vec<ExprId>> {
        let mut at = expr;
        while let Some(base) = self.base(at) {
            at = base;
        }
        match self.p.tables.exprs[at].meaning {
            Meaning::Chosen(pointer) => Some(self.chosen_places(pointer)),
            _ => None,
        }
    }

    /// Visits a place that an expression denotes.
    pub(crate) fn read_place(&mut self, expr: ExprId, place: Place, needed: bool) -> bool {
        self.indices(expr);
        self.read(expr, place.key, needed && !place.plain) && !place.plain
    }

    /// Reads a place; returns true if it carries a derivative. In the backward pass the place becomes needed.
    pub(crate) fn read(&mut self, expr: ExprId, key: Key, needed: bool) -> bool {
        if self.direction == Direction::Forward {
            self.check_set(expr, key);
            return self.holds(key);
        }
        if needed {
            self.places.insert((Mark::Derivative, key.0, key.1));
        }
        false
    }

    /// Reads `this` for a call with an implicit receiver; returns true if it carries a derivative.
    pub(crate) fn read_this(&mut self, call: ExprId, needed: bool) -> bool {
        if self.read(call, (self.decl, None), needed) {
            self.this_carried.insert(call);
        }
        self.this_carried.contains(&call)
    }

    /// Reads a place that the same operation also assigns; returns true if it carries a derivative. In the
    /// backward pass the place stays needed if it was.
    pub(crate) fn read_and_set(&mut self, target: ExprId, needed: bool) -> bool {
        let mut is_set = true;
        let carried = match self.place(target) {
            Some(place) => {
                self.indices(target);
                self.check_set(target, place.key);
                // What is added to nothing is nothing: later uses are as wrong as this one.
                is_set = !self.is_never_set(place.key);
                self.direction == Direction::Forward && !place.plain && self.holds(place.key)
            }
            // An accessor is called.
            None => self.expr(target, needed),
        };
        if is_set {
            self.set(target);
        }
        carried
    }

    /// Replaces the old value of a place by an assignment, if the assignment covers all of it.
    pub(crate) fn overwrite(&mut self, target: ExprId) {
        self.set(target);
        if let Some(place) = self.place(target).filter(|p| p.exact) {
            self.forget(place.key);
        }
    }

    pub(crate) fn place_needed(&mut self, target: ExprId) -> bool {
        // A value that is stored where no derivative can be is not needed for one.
        if self.direction == Direction::Forward || !self.has_tangent(target) {
            return false;
        }
        if self.is_set_elsewhere(target) {
            return true;
        }
        if let Some(place) = self.place(target) {
            return self.holds(place.key);
        }
        if let Some(places) = self.reached(target) {
            return places.into_iter().any(|place| self.place_needed(place));
        }
        self.variable(target).is_some_and(|decl| self.holds((decl, None)))
    }

    /// Returns true if a place, or what it is a part of, is set by a differentiable function that changes nothing here
    /// (`p[i]` of a `DiffPtr`): it sets memory elsewhere, which whoever reads it has the derivative of.
    pub(crate) fn is_set_elsewhere(&mut self, target: ExprId) -> bool {
        let mut at = Some(target);
        while let Some(expr) = at {
            if let Meaning::Property { member, .. } = self.p.tables.exprs[expr].meaning.clone()
                && let Some(set) = self.p.declared_accessors(&member).set
                && self.p.level(set.decl) != Level::None
                && !self.p.raw_signature(set.decl).is_mutating()
            {
                return true;
            }
            at = self.base(expr);
        }
        false
    }

    /// Visits the indices within a place, which are expressions of their own. The indices of accessors are
    /// arguments: see [`Flow::call_setters`].
    pub(crate) fn indices(&mut self, target: ExprId) {
        match self.p.tables.exprs[target].meaning {
            Meaning::Property { .. } => return,
            Meaning::Index { index, .. } => {
                self.primal(index);
            }
            _ => {}
        }
        if let Some(base) = self.base(target) {
            self.indices(base);
        }
    }

    /// Follows a value that is stored to a place through the calls of `set` for properties and user-defined
    /// subscripts on the path, from the inside out; an object that changes in part is read first. `carried`:
    /// the value carries a derivative; `needed`: the place is needed afterwards. Returns true if the value
    /// that is finally stored carries a derivative.
    pub(crate) fn call_setters(&mut self, target: ExprId, mut carried: bool, needed: bool) -> bool {
        let mut at = target;
        loop {
            if let Meaning::Property { base, member, args } = self.p.tables.exprs[at].meaning.clone() {
                carried |= at != target && self.expr(at, needed);
                carried = self.call_set(at, (base, member, &args), carried, needed);
            }
            match self.base(at) {
                Some(base) => at = base,
                None => return carried,
            }
        }
    }

    fn call_set(
        &mut self,
        expr: ExprId,
        (base, member, args): (Option<ExprId>, FuncRef, &[Arg]),
        carried: bool,
        needed: bool,
    ) -> bool {
        if let Some(base) = base {
            self.indices(base);
        }
        let member = self.p.substitute_func(&member, &self.subst);
        let set = self.p.declared_accessors(&member).set.filter(|set| !self.p.is_core(set.decl));
        let Some(set) = set else {
            for arg in args.iter().flat_map(Arg::exprs) {
                self.primal(arg);
            }
            return carried;
        };
        let differentiable = self.p.differentiable_level(&set, self.view) >= self.level;
        let signature = self.p.func_signature(&set);
        let mut any = carried;
        // The parameters without a derivative that receive a value with one.
        let mut dropped = Vec::new();
        for (arg, param) in args.iter().zip(&signature.params).filter(|(_, p)| !p.no_diff) {
            for arg in arg.exprs() {
                if self.expr(arg, needed && differentiable && param.has_tangent()) {
                    any = true;
                    dropped.extend((!param.has_tangent()).then_some(param.decl));
                }
            }
        }
        let value = signature.params.last().filter(|p| carried && !p.has_tangent() && !p.no_diff);
        dropped.extend(value.map(|value| value.decl));
        if let Some(this) =
            signature.this.filter(|t| t.dir.is_written() && !self.p.says_no_diff_this(set.decl))
        {
            any |= self.object_carries(expr, base, needed);
            dropped.extend((any && !this.has_tangent()).then_some(None));
        }
        if any && needed && !differentiable {
            self.lost_in_call(expr, &Callable::Func(set));
        } else if needed {
            for param in dropped {
                self.lost_by_declaration(expr, set.decl, param);
            }
        }
        any && differentiable
    }

    /// Returns true if the object that an accessor modifies carries a derivative.
    fn object_carries(&mut self, call: ExprId, base: Option<ExprId>, needed: bool) -> bool {
        let key = match base {
            None => (self.decl, None),
            Some(base) => match self.place(base) {
                Some(place) if place.plain => return false,
                Some(place) => place.key,
                None => return self.expr(base, needed),
            },
        };
        if self.direction == Direction::Forward && self.holds(key) {
            self.this_carried.insert(call);
        }
        self.this_carried.contains(&call)
    }

    pub(crate) fn store_to(&mut self, target: ExprId) {
        for place in self.reached(target).unwrap_or_default() {
            self.store_to(place);
        }
        let place = self.place(target).map(|place| place.key);
        if let Some(key) = place.or_else(|| self.variable(target).map(|decl| (decl, None))) {
            self.carry(key);
        }
    }

    /// Records an assignment of a value.
    pub(crate) fn store(&mut self, expr: ExprId, target: ExprId, value: ExprId, carried: bool) {
        let ty = self.p.tables.exprs[target].ty;
        self.cut_store(target, value, carried);
        if !carried || !self.may_carry(ty) {
            return;
        }
        if self.has_tangent(target) || !self.has_differential(ty) {
            self.store_to(target);
        } else if self.purpose == Purpose::Derivatives {
            let place = self.p.span(target);
            self.p.lost.insert(value);
            let help = if self.is_behind_pointer(target) {
                "use 'detach(…)' to say that this is meant; what a pointer leads to has a derivative only if it is in \
                 variables of this function, and the pointer is a local variable that is set to their addresses"
            } else {
                "use 'detach(…)' to say that this is meant"
            };
            self.report(
                Diagnostic::error("E41031", self.p.span(expr), "the derivative is lost in this assignment")
                    .note(place, "this place has no derivative")
                    .help(help),
            );
        }
    }

    fn is_behind_pointer(&self, expr: ExprId) -> bool {
        let mut at = expr;
        loop {
            let info = &self.p.tables.exprs[at];
            let is_pointer = matches!(self.p.types[info.ty], TyKind::Pointer(..)) && at != expr;
            if is_pointer || matches!(info.meaning, Meaning::Deref(_)) {
                return true;
            }
            match info.meaning.base() {
                Some(base) => at = base,
                None => return false,
            }
        }
    }

    /// Returns true if a place can hold a derivative.
    pub(crate) fn has_tangent(&mut self, target: ExprId) -> bool {
        match self.p.tables.exprs[target].meaning.clone() {
            Meaning::Var(decl) => {
                if let DeclKind::Param { .. } = self.p.ast.decls[decl].kind {
                    // A parameter that is not passed back is a variable of the function itself.
                    let written = Modifiers(Modifiers::OUT.0 | Modifiers::INOUT.0 | Modifiers::REF.0);
                    return !self.p.is_no_diff(decl) || !self.p.ast.decls[decl].modifiers.has(written);
                }
                let modifiers = self.p.ast.decls[decl].modifiers;
                let shared = Modifiers(Modifiers::STATIC.0 | Modifiers::GROUPSHARED.0);
                let global = self.p.ast.decls[decl].parent.is_none_or(|p| !self.p.is_function(p));
                !modifiers.has(shared) && !self.p.is_no_diff(decl) && !global
            }
            Meaning::Field { base, field } => {
                if self.p.is_no_diff(field) {
                    return false;
                }
                match base {
                    Some(base) => {
                        let info = &self.p.tables.exprs[base];
                        let ty = info.coerce.unwrap_or(info.ty);
                        self.has_differential(ty) && self.has_tangent(base)
                    }
                    // A field of `this`; fields of types without derivatives are not distinguished here.
                    None => self.this_returns,
                }
            }
            Meaning::This => self.this_returns,
            Meaning::Index { base, .. } => {
                let ty = self.p.tables.exprs[base].ty;
                self.has_differential(ty) && self.has_tangent(base)
            }
            Meaning::Chosen(pointer) => {
                self.chosen_places(pointer).into_iter().all(|place| self.has_tangent(place))
            }
            Meaning::StaticMember(_) | Meaning::Deref(_) => false,
            // Setters are functions; their use of the value is checked in their bodies.
            Meaning::Property { .. } => true,
            meaning => meaning.base().is_none_or(|base| self.has_tangent(base)),
        }
    }
}
