//! Pointers that lead to one of several places in local variables (see [`check::tables::Chosen`]).
//!
//! Such a pointer is a number, which selects the place, and the values of the indices in all places, of which those of the
//! selected place count. These are ordinary slots, so loops and branches carry them like any variable, and reading or
//! writing through the pointer is a `switch` on the number whose cases read or write the places. So derivatives need no
//! rule of their own.

use std::rc::Rc;

use check::tables::{Chosen, Meaning};
use check::types::Ty;
use ir::{Op, Type, Value};
use syntax::ast::DeclKind;
use syntax::{DeclId, ExprId};

use crate::body::{Body, Name};
use crate::places::{Place, PlaceKind};

impl Body<'_, '_, '_> {
    fn chosen(&self, pointer: DeclId) -> Option<Rc<Chosen>> {
        self.lw.program.tables.chosen.get(&pointer).cloned()
    }

    /// Declares a variable if it is such a pointer.
    pub(crate) fn declare_chosen(&mut self, decl: DeclId) -> bool {
        let Some(chosen) = self.chosen(decl) else { return false };
        let DeclKind::Var { init, .. } = self.lw.program.ast.decls[decl].kind else { return false };
        let values = match init {
            Some(init) => self.pointer_value(&chosen, init),
            None => self.no_place(&chosen),
        };
        let ty = self.declared_ty(decl);
        self.declare_var(Name::Decl(decl), ty, values);
        true
    }

    /// Lowers an assignment if it sets such a pointer.
    pub(crate) fn assign_chosen(&mut self, target: ExprId, value: ExprId) -> bool {
        let at = self.lw.program.tables.plain(target);
        let Meaning::Var(decl) = self.lw.program.tables.exprs[at].meaning else { return false };
        let (Some(chosen), Some(&var)) = (self.chosen(decl), self.locals.vars.get(&Name::Decl(decl))) else {
            return false;
        };
        let values = self.pointer_value(&chosen, value);
        self.set_slots(var.start, values);
        true
    }

    /// The types of the number and of the indices.
    fn pointer_types(&mut self, chosen: &Chosen) -> Vec<Type> {
        let mut types = vec![Type::U32];
        for &index in chosen.places.iter().flat_map(|place| &place.indices) {
            let ty = self.expr_ty(index);
            types.push(self.leaf_types(ty).first().copied().unwrap_or(Type::I32));
        }
        types
    }

    /// A pointer that leads nowhere.
    fn no_place(&mut self, chosen: &Chosen) -> Vec<Value> {
        let types = self.pointer_types(chosen);
        types.into_iter().map(|ty| self.b.zero(ty)).collect()
    }

    /// The value of an expression that such a pointer is set to.
    fn pointer_value(&mut self, chosen: &Chosen, e: ExprId) -> Vec<Value> {
        match self.lw.program.tables.exprs[e].meaning.clone() {
            Meaning::Same(inner) => self.pointer_value(chosen, inner),
            Meaning::Var(other) => match self.locals.vars.get(&Name::Decl(other)) {
                Some(&var) => self.read_var(var),
                None => self.no_place(chosen),
            },
            Meaning::Ternary(cond, a, b) => {
                if let Some(known) = self.known_condition(cond) {
                    return self.pointer_value(chosen, if known { a } else { b });
                }
                let types = self.pointer_types(chosen);
                let Some(&cond) = self.expr(cond).first() else { return self.no_place(chosen) };
                let set = |body: &mut Self, start, e| {
                    let values = body.pointer_value(chosen, e);
                    body.set_slots(start, values);
                };
                self.joined(types, |body, start| {
                    body.branch(cond, |body| set(body, start, a), |body| set(body, start, b));
                })
            }
            Meaning::AddressOf(_) => {
                let mut values = self.no_place(chosen);
                let mut at = 1;
                for (k, place) in chosen.places.iter().enumerate() {
                    if place.address == e {
                        values[0] = self.b.u32(k as u32 + 1);
                        for (value, &index) in values[at..].iter_mut().zip(&place.indices) {
                            if let Some(&given) = self.expr(index).first() {
                                *value = given;
                            }
                        }
                    }
                    at += place.indices.len();
                }
                values
            }
            _ => self.no_place(chosen),
        }
    }

    /// The place that such a pointer leads to.
    pub(crate) fn chosen_place(&mut self, pointer: DeclId, ty: Ty) -> Place {
        let (Some(chosen), Some(&var)) = (self.chosen(pointer), self.locals.vars.get(&Name::Decl(pointer)))
        else {
            return Place::value(ty, self.zeros(ty));
        };
        let values = self.read_var(var);
        let mut rest = &values[1..];
        let mut places = Vec::new();
        for place in &chosen.places {
            let given = crate::flat::take(&mut rest, place.indices.len());
            let before = self.locals.fixed.len();
            self.locals.fixed.extend(place.indices.iter().copied().zip(given.iter().copied()));
            places.push(self.place(place.of));
            self.locals.fixed.truncate(before);
        }
        if let ([place], Some(1)) = (&places[..], self.constant_of(values[0])) {
            return place.clone();
        }
        Place { ty, kind: PlaceKind::Chosen { number: values[0], places } }
    }

    pub(crate) fn read_chosen(&mut self, number: Value, places: &[Place], ty: Ty) -> Vec<Value> {
        let types = self.leaf_types(ty);
        self.joined(types, |body, start| {
            body.for_chosen(number, places, &mut |body, place| {
                let values = body.read(place);
                body.set_slots(start, values);
            });
        })
    }

    pub(crate) fn write_chosen(&mut self, number: Value, places: &[Place], values: &[Value]) {
        self.for_chosen(number, places, &mut |body, place| body.write(place, values.to_vec()));
    }

    /// Runs code for the place of this number.
    fn for_chosen(&mut self, number: Value, places: &[Place], run: &mut dyn FnMut(&mut Self, &Place)) {
        let mut arms: Vec<_> = places.iter().map(|place| self.arm(|body| run(body, place))).collect();
        arms.push(self.arm(|_| {}));
        let numbers = (1..=places.len() as i64).collect();
        self.join(Op::Switch(numbers), &[number], &arms);
    }
}
