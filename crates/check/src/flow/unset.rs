//! Finds variables that are read before they are assigned, and outputs that are never assigned: see
//! [`crate::flow`].
//!
//! The forward analysis of derivatives includes this one, in every function. A variable that is declared
//! without a value is marked as unset, part by part, until it is assigned. Paths are joined, so a remaining
//! mark means "unset on some path"; a second mark means that another path has assigned the variable.
//!
//! In case of doubt nothing is reported: a loop is assumed to run at least once, an array counts as set once
//! an element is, a struct that is read as a whole counts as set once a field is, and an argument of an
//! `inout` parameter is set by the call.

use cranelift_entity::EntityRef;
use syntax::ast::Modifiers;
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::flow::{Direction, Flow, Key, Mark, Part, Places, Purpose};
use crate::tables::{Initializer, Meaning};
use crate::types::{Ty, TyKind, Val};

impl Flow<'_> {
    fn follows_unset(&self) -> bool {
        self.direction == Direction::Forward && self.purpose != Purpose::Bits && !self.is_instance
    }

    /// Marks a variable that is declared without a value.
    pub(crate) fn declare_unset(&mut self, decl: DeclId) {
        // The threads of a mesh shader write its outputs together.
        let made = Modifiers::VERTICES.0 | Modifiers::INDICES.0;
        let shared = Modifiers(Modifiers::STATIC.0 | Modifiers::GROUPSHARED.0 | made);
        if !self.follows_unset() || self.p.ast.decls[decl].modifiers.has(shared) {
            return;
        }
        for part in self.unset_parts(decl) {
            self.places.remove(&(Mark::Set, decl, part));
            self.places.insert((Mark::Unset, decl, part));
        }
    }

    /// The parts of a variable that have no initial value.
    fn unset_parts(&mut self, decl: DeclId) -> Vec<Option<Part>> {
        let ty = self.variable_ty(decl);
        match self.p.types[ty] {
            TyKind::Struct(..) => {
                let default = match decl == self.decl {
                    true => self.p.fields_default_of(ty),
                    false => self.p.default_of(ty),
                };
                let fields = self.unset_fields(ty, default, decl == self.decl).into_iter();
                let unset: Vec<_> = fields.filter(|f| self.starts_unset(f.1, 0)).collect();
                unset.into_iter().map(|(field, _)| Some(Part::Field(field))).collect()
            }
            TyKind::Vector(_, Val::Int(n), _) => {
                (0..n.max(0) as u64).map(|k| Some(Part::Element(k))).collect()
            }
            _ => Vec::from_iter(self.starts_unset(ty, 0).then_some(None)),
        }
    }

    /// The fields of a struct that are not initialised, not even by the default value.
    fn unset_fields(&mut self, ty: Ty, default: Initializer, in_constructor: bool) -> Vec<(DeclId, Ty)> {
        let TyKind::Struct(decl, _) = self.p.types[ty] else { return Vec::new() };
        let given = match default {
            Initializer::Default(_) if self.p.has_base_struct(decl) => return Vec::new(),
            Initializer::Expr(_) | Initializer::Init(..) => return Vec::new(),
            Initializer::Default(_) => Vec::new(),
            // In Slang, the values that fields are declared with are those of constructors and lists: a variable that
            // is declared without a value has none of them.
            Initializer::Parts(..) if !in_constructor => Vec::new(),
            Initializer::Parts(_, parts) => parts,
        };
        let is_given = |k: usize| given.get(k).is_some_and(|part| !matches!(part, Initializer::Default(_)));
        let fields = self.p.fields(ty).into_iter().enumerate();
        fields.filter(|&(k, _)| !is_given(k)).map(|(_, (field, ty, _))| (field, ty)).collect()
    }

    /// Returns true if a value of a type has a part without an initial value. Deeply nested types count as
    /// initialised. Each type is examined once; a recursive occurrence contributes nothing.
    fn starts_unset(&mut self, ty: Ty, depth: u32) -> bool {
        if depth > 8 {
            return false;
        }
        if let Some(&known) = self.unset.types.get(&ty) {
            return known;
        }
        self.unset.types.insert(ty, false);
        let is_unset = match self.p.types[ty] {
            TyKind::Struct(..) => {
                let default = self.p.default_of(ty);
                self.unset_fields(ty, default, false)
                    .into_iter()
                    .any(|(_, ty)| self.starts_unset(ty, depth + 1))
            }
            TyKind::Array(element, Some(_)) => self.starts_unset(element, depth + 1),
            TyKind::Scalar(_)
            | TyKind::Vector(..)
            | TyKind::Matrix(..)
            | TyKind::Enum(_)
            | TyKind::Pointer(..) => true,
            _ => false,
        };
        self.unset.types.insert(ty, is_unset);
        is_unset
    }

    /// Records that a place is or may be assigned.
    pub(crate) fn set(&mut self, target: ExprId) {
        if !self.follows_unset() {
            return;
        }
        if let Meaning::Swizzle { base, comps } = self.p.tables.exprs[target].meaning.clone()
            && let Meaning::Var(decl) = self.p.tables.exprs[base].meaning
        {
            for comp in comps {
                self.set_part((decl, Some(Part::Element(comp.into()))));
            }
            return;
        }
        for place in self.reached(target).unwrap_or_default() {
            self.set(place);
        }
        let mut at = Some(target);
        while let Some(expr) = at {
            if let Some(place) = self.place(expr) {
                return self.set_part(place.key);
            }
            at = self.base(expr);
        }
    }

    fn set_part(&mut self, (decl, part): Key) {
        let marks: Vec<_> = match part {
            Some(_) => vec![(Mark::Unset, decl, None), (Mark::Unset, decl, part)],
            None => self.marks(Mark::Unset, decl),
        };
        for mark in marks {
            if self.places.remove(&mark) {
                self.places.insert((Mark::Set, decl, mark.2));
            }
        }
    }

    /// Removes the marks of unset places: the code is unreachable, or nothing is known about the places.
    pub(crate) fn take_unset(&mut self) -> Places {
        self.places.split_off(&(Mark::Unset, DeclId::new(0), None))
    }

    /// Returns true if a variable is declared as a copy of another, of the same type, that has no value on any
    /// path.
    pub(crate) fn copies_unset(&mut self, init: ExprId, decl: DeclId) -> bool {
        let info = &self.p.tables.exprs[init];
        let Meaning::Var(from) = info.meaning else { return false };
        if !self.follows_unset() || info.coerce.is_some() || self.variable_ty(from) != self.variable_ty(decl)
        {
            return false;
        }
        let parts = self.unset_parts(from);
        let is_unset = |part: &Option<Part>| self.places.contains(&(Mark::Unset, from, *part));
        !parts.is_empty() && parts.iter().all(is_unset) && !self.has(Mark::Set, (from, None))
    }

    /// Returns true if no path has assigned a variable or a part of one.
    pub(crate) fn is_never_set(&mut self, (decl, part): Key) -> bool {
        if !self.follows_unset() || !self.has(Mark::Unset, (decl, part)) || self.has(Mark::Set, (decl, part))
        {
            return false;
        }
        let parts = if part.is_some() { vec![part] } else { self.unset_parts(decl) };
        parts.iter().all(|&part| self.places.contains(&(Mark::Unset, decl, part)))
    }

    /// Checks a read of a place.
    pub(crate) fn check_set(&mut self, expr: ExprId, (decl, part): Key) {
        if !self.follows_unset() || !self.has(Mark::Unset, (decl, part)) {
            return;
        }
        // A constructor may call methods that need only some of the fields.
        if decl == self.decl && part.is_none() {
            return;
        }
        let is_possible = match part {
            Some(_) => self.places.contains(&(Mark::Set, decl, part)),
            None => {
                let parts = self.unset_parts(decl);
                if !parts.iter().all(|&part| self.places.contains(&(Mark::Unset, decl, part))) {
                    return;
                }
                self.has(Mark::Set, (decl, None))
            }
        };
        *self.unset.uses.entry((expr, decl, part)).or_default() |= is_possible;
    }

    /// Checks at an exit of the function that its outputs are set.
    pub(crate) fn check_outputs_set(&mut self, span: Span) {
        if !self.follows_unset() {
            return;
        }
        for decl in self.unset.outputs.clone() {
            let parts = self.unset_parts(decl);
            let is_unset = |part: &Option<Part>| self.places.contains(&(Mark::Unset, decl, *part));
            if parts.is_empty() || !parts.iter().all(is_unset) {
                continue;
            }
            let name = self.p.ast.decl_name(decl).to_string();
            let declared = self.p.name_span(decl);
            let on_some = if self.has(Mark::Set, (decl, None)) { ", on some paths" } else { "" };
            let message = format!("the function ends here without a value for its output '{name}'{on_some}");
            self.p.report_once(Diagnostic::warning("E41018", span, message).note(declared, "declared here"));
        }
        for (is_set, on_some) in [(false, ""), (true, ", on some paths")] {
            let marks = self.places.range((Mark::Unset, self.decl, None)..);
            let fields: Vec<DeclId> = marks
                .take_while(|mark| mark.1 == self.decl)
                .filter(|mark| self.places.contains(&(Mark::Set, mark.1, mark.2)) == is_set)
                .filter_map(|mark| if let Some(Part::Field(field)) = mark.2 { Some(field) } else { None })
                .collect();
            let Some(&first) = fields.first() else { continue };
            let name = |&field: &DeclId| format!("'{}'", self.p.ast.decl_name(field));
            let names: Vec<String> = fields.iter().map(name).collect();
            let of = if fields.len() == 1 { "its field" } else { "its fields" };
            let message =
                format!("the constructor ends here without a value for {of} {}{on_some}", names.join(", "));
            let declared = self.p.name_span(first);
            let help = "assign to it, or give it a value where it is declared: without one it is zero here, and may be \
                        anything elsewhere";
            self.p.report_once(
                Diagnostic::warning("E41020", span, message).note(declared, "declared here").help(help),
            );
        }
    }

    /// Reports the places that were read too early.
    pub(crate) fn report_unset(&mut self) {
        for ((expr, decl, part), is_possible) in std::mem::take(&mut self.unset.uses) {
            if is_possible && self.is_decided_by_tests(expr, decl) {
                continue;
            }
            let mut name = self.p.ast.decl_name(decl).to_string();
            let mut declared = self.p.name_span(decl);
            if let Some(Part::Field(field)) = part {
                let field_name = self.p.ast.decl_name(field);
                if decl == self.decl {
                    name = field_name.to_string();
                    declared = self.p.name_span(field);
                } else {
                    name = format!("{name}.{field_name}");
                }
            }
            let (code, message) = if is_possible {
                ("E41035", format!("'{name}' is used, and on some paths nothing has been assigned to it"))
            } else {
                ("E41016", format!("'{name}' is used before anything is assigned to it"))
            };
            let ty = self.variable_ty(decl);
            let has_values = decl != self.decl && matches!(self.p.default_of(ty), Initializer::Parts(..));
            let help = if has_values {
                "write `= {}` where it is declared: elsewhere, only lists and constructors use the values of its fields"
            } else {
                "give it a value where it is declared: without one it is zero here, and may be anything elsewhere"
            };
            let warning = Diagnostic::warning(code, self.p.span(expr), message);
            self.p.report_once(warning.note(declared, "declared here").help(help));
        }
    }
}
