//! Rules about values of interface type, and about interfaces of COM.
//!
//! The type in such a value is known at run time only, so the value lies where all types fit, and a reference
//! to it as the interface, through which a value of another type could be assigned, has no meaning. Objects
//! of COM are referred to, and have none of these rules, but others.

use syntax::ast::{AccessorKind, DeclKind};
use syntax::{DeclId, Diagnostic, ExprId, Span};

use crate::exprs::infer::Checker;
use crate::program::Program;
use crate::signature::{Direction, Subst};
use crate::types::data_layout::DataLayout;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

impl Program {
    /// Checks what a declaration says about values of interface type.
    pub(crate) fn check_dynamic(&mut self, decl: DeclId) {
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Interface { bases, members } => self.check_com_interface(decl, &bases, &members),
            DeclKind::Struct { bases, .. } if !self.ast.classes.contains(&decl) => {
                self.bases_of(decl);
                for base in bases {
                    if self.interface_decl(self.tables.exprs[base].ty).is_some_and(|i| self.is_com(i)) {
                        let message = "a struct cannot implement an interface of COM";
                        let error = Diagnostic::error("E31124", self.span(base), message);
                        self.report(error.help("such an object is referred to: declare a `class`"));
                    }
                }
            }
            DeclKind::Func { .. } | DeclKind::Init { .. } => self.check_references(decl),
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                for accessor in accessors {
                    self.check_ref_accessor(decl, accessor);
                }
            }
            _ => {}
        }
    }

    /// Returns true for an interface of COM, whose values are references to objects.
    pub(crate) fn is_com(&self, interface: DeclId) -> bool {
        ["COM", "com_interface"].iter().any(|word| self.attribute(interface, word).is_some())
    }

    fn check_com_interface(&mut self, decl: DeclId, bases: &[ExprId], members: &[DeclId]) {
        if self.is_com(decl) {
            for &member in members {
                let d = &self.ast.decls[member];
                if matches!(d.kind, DeclKind::AssociatedType { .. }) && d.name != syntax::keywords::EMPTY {
                    let message = "an interface of COM cannot have an associated type";
                    let error = Diagnostic::error("E31122", d.name_span, message);
                    self.report(
                        error.help("its functions are called without knowing the type of the object"),
                    );
                }
            }
            return;
        }
        self.bases_of(decl);
        for &base in bases {
            if self.interface_decl(self.tables.exprs[base].ty).is_some_and(|i| self.is_com(i)) {
                let message = "an interface that inherits from one of COM has to be one itself";
                let error = Diagnostic::error("E31126", self.span(base), message);
                self.report(error.help("mark it `[COM(\"…\")]`"));
            }
        }
    }

    /// Returns true if a value of a type has a value of interface type as a part.
    pub(crate) fn holds_interface(&mut self, ty: Ty) -> bool {
        self.holds_interface_within(ty, &mut Vec::new())
    }

    fn holds_interface_within(&mut self, ty: Ty, seen: &mut Vec<Ty>) -> bool {
        if seen.contains(&ty) || seen.len() > 200 {
            return false;
        }
        seen.push(ty);
        match self.types[ty].clone() {
            TyKind::Interface(decl, _) => !self.is_com(decl),
            TyKind::Array(inner, _) | TyKind::Optional(inner) => self.holds_interface_within(inner, seen),
            TyKind::Tuple(parts) => parts.into_iter().any(|part| self.holds_interface_within(part, seen)),
            TyKind::Struct(decl, _) if !self.is_core(decl) => {
                let fields = self.raw_fields(ty);
                fields.into_iter().any(|field| self.holds_interface_within(field.1, seen))
            }
            _ => false,
        }
    }

    /// Reports parameters that refer to values of interface type.
    fn check_references(&mut self, decl: DeclId) {
        for param in self.raw_signature(decl).params.clone() {
            let word = match param.dir {
                Direction::Ref => "__ref",
                Direction::ConstRef => "__constref",
                Direction::In | Direction::Out | Direction::InOut => continue,
            };
            let Some(at) = param.decl else { continue };
            // A parameter of interface type has a generic parameter that was made for it.
            let held = match self.types[param.ty] {
                TyKind::Param(made) if self.opened.params.contains(&made) => {
                    self.bases_of(made).first().copied().unwrap_or(Ty::ERROR)
                }
                _ => param.ty,
            };
            if !self.holds_interface(held) {
                continue;
            }
            let ty = self.shown(param.ty);
            let message =
                text!("a '{}', whose type is known at run time only, cannot be passed by `{word}`", ty);
            let help = if word == "__ref" { "pass it by `inout`" } else { "pass it by `in`" };
            let span = self.name_span(at);
            self.report(Diagnostic::error("E52010", span, message).help(help));
        }
    }

    fn check_ref_accessor(&mut self, member: DeclId, accessor: DeclId) {
        let DeclKind::Accessor { kind: AccessorKind::Ref, .. } = self.ast.decls[accessor].kind else {
            return;
        };
        let ty = self.decl_type(member);
        if self.holds_interface(ty) {
            let shown = self.shown(ty);
            let message = text!("`ref` cannot refer to a '{}', whose type is known at run time only", shown);
            let error = Diagnostic::error("E52012", self.name_span(accessor), message);
            self.report(error.help("write `get` and `set`"));
        }
    }

    /// Reports types whose values cannot be made from bits, where any type that conforms to an interface may
    /// be made from bits.
    pub(crate) fn check_made_from_bits(&mut self, interface: Ty, span: Span) {
        for ty in self.conforming_structs(interface) {
            let TyKind::Struct(decl, _) = self.types[ty] else { continue };
            let Some(part) = self.part_without_bits(ty, &mut Vec::new()) else { continue };
            let (whole, interface) = (self.shown(ty), self.shown(interface));
            let message = text!(
                "a '{}' cannot be made from bits, as a value of '{}' is here: {part}",
                whole,
                interface
            );
            let error = Diagnostic::error("E41014", self.name_span(decl), message);
            self.report_once(error.note(span, "made from bits here"));
        }
    }

    /// Describes a part of a value that has no bits of its own: a reference to a resource or an object.
    fn part_without_bits(&mut self, ty: Ty, seen: &mut Vec<Ty>) -> Option<String> {
        if seen.contains(&ty) {
            return None;
        }
        seen.push(ty);
        match self.types[ty].clone() {
            TyKind::Array(inner, _) | TyKind::Optional(inner) => self.part_without_bits(inner, seen),
            TyKind::Tuple(parts) => parts.into_iter().find_map(|part| self.part_without_bits(part, seen)),
            TyKind::Struct(decl, _) => {
                if self.attribute(decl, "__NonCopyableType").is_some() {
                    return Some("it cannot be copied".to_string());
                }
                if self.is_core(decl) && self.ast.decl_name(decl) == "CoopMat" {
                    return Some("the threads of a wave share a part of it".to_string());
                }
                if self.ast.classes.contains(&decl) && seen.len() > 1 {
                    return Some("it refers to an object".to_string());
                }
                for (field, field_ty) in self.raw_fields(ty) {
                    let name = self.ast.decl_name(field).to_string();
                    if self.is_bound(field_ty) {
                        return Some(format!("its field '{name}' is a resource"));
                    }
                    if field_ty == Ty::STRING {
                        return Some(format!("its field '{name}' is a text"));
                    }
                    if let Some(why) = self.part_without_bits(field_ty, seen) {
                        return Some(why);
                    }
                }
                None
            }
            TyKind::Opaque(..) => Some("a part of it is a resource".to_string()),
            _ => None,
        }
    }

    /// Reports a struct that is larger than the values of an interface that it is converted to.
    pub(crate) fn check_any_value_fit(&mut self, from: Ty, to: Ty, span: Span) {
        let (TyKind::Struct(decl, _), Some(interface)) = (&self.types[from], self.interface_decl(to)) else {
            return;
        };
        let decl = *decl;
        let Some(attribute) = self.attribute(interface, "anyValueSize").cloned() else { return };
        let Some(limit) = self.integer_argument(&attribute, 0) else { return };
        let Some((size, _)) = self.extent_in(from, DataLayout::Scalar) else { return };
        if size > limit {
            let (from, to) = (self.shown(from), self.shown(to));
            let message =
                text!("a '{}' has {size} bytes, and values of '{}' have room for {limit}", from, to);
            let error = Diagnostic::error("E41011", self.name_span(decl), message);
            let error = error.note(attribute.span, "the room").note(span, "converted here");
            self.report_once(error.help(format!("write `[anyValueSize({size})]`")));
        }
    }

    /// The interface types among the arguments that a call gives to generic parameters explicitly, or to those
    /// without a constraint.
    pub(crate) fn unknown_arguments(
        &mut self,
        func: &crate::tables::FuncRef,
        is_explicit: bool,
    ) -> Vec<(DeclId, Ty)> {
        if self.is_core(func.decl) {
            return Vec::new();
        }
        let params = self.own_params(func.decl);
        let env: Subst = self.subst_of(func);
        let constraints = self.constraints_of(func.decl);
        let mut found = Vec::new();
        for param in params {
            if self.is_value_param(param) || self.opened.params.contains(&param) {
                continue;
            }
            let ty = self.types.intern(TyKind::Param(param));
            let is_bound = constraints.conforms.iter().any(|c| c.0 == ty);
            let Some(arg) = env.get(param).cloned() else { continue };
            let arg = arg.ty();
            if (is_explicit || !is_bound) && self.is_existential(arg) {
                found.push((param, arg));
            }
        }
        found
    }
}

impl Checker<'_> {
    /// Reports `{}` for what has no default value: a value of interface type, which would be of no type.
    pub(crate) fn check_empty_list(&mut self, expr: ExprId, ty: Ty) {
        if self.p.is_core(self.scope) || !self.lacks_default(ty, 0) {
            return;
        }
        let span = self.span(expr);
        let is_new = self.p.ast.languages.iter().any(|l| l.0 == span.file && l.1 >= 2026);
        let message = text!("a '{}' has no default value: its type would not be known", self.name(ty));
        let help = "give it a value of a type that conforms, or leave it without a value until it has one";
        if is_new {
            self.p.report(Diagnostic::error("E30524", span, message).help(help));
        }
    }

    /// Returns true for a type of interface values, and for a struct that has some without an initial value.
    fn lacks_default(&mut self, ty: Ty, depth: u32) -> bool {
        match self.p.types[ty].clone() {
            TyKind::Interface(decl, _) => !self.p.is_com(decl) && !self.p.is_core(decl),
            TyKind::Array(inner, _) => self.lacks_default(inner, depth),
            TyKind::Struct(decl, _) if depth < 20 && !self.p.is_core(decl) => {
                if !self.p.named(decl, syntax::keywords::CONSTRUCTOR).is_empty() {
                    return false;
                }
                self.p.raw_fields(ty).into_iter().any(|(field, ty)| {
                    self.p.ast.decls[field].kind.init().is_none() && self.lacks_default(ty, depth + 1)
                })
            }
            _ => false,
        }
    }

    /// Warns about fields that `{}` leaves without a value since they are less visible than their struct.
    pub(crate) fn check_hidden_fields(&mut self, expr: ExprId, ty: Ty) {
        let TyKind::Struct(decl, _) = self.p.types[ty] else { return };
        if self.p.is_core(decl) || !self.p.named(decl, syntax::keywords::CONSTRUCTOR).is_empty() {
            return;
        }
        let fields = self.p.raw_fields(ty);
        let is_listed = |c: &Self, field: DeclId| !c.p.is_hidden_from_lists(field);
        if !fields.iter().any(|field| is_listed(self, field.0)) {
            return;
        }
        for (field, ..) in fields {
            if is_listed(self, field) || self.p.ast.decls[field].kind.init().is_some() {
                continue;
            }
            let name = self.p.ast.decl_name(field).to_string();
            let message = text!(
                "`{{}}` gives the field '{name}' of '{}' no value: it is less visible than its struct",
                self.name(ty)
            );
            let warning = Diagnostic::warning("E41021", self.p.name_span(field), message);
            let warning = warning.note(self.span(expr), "made here");
            self.p.report_once(warning.help("give it a value where it is declared"));
        }
    }

    /// Warns about a list for a struct whose base has constructors: Slang has no rule for its elements.
    pub(crate) fn check_list_of_base(&mut self, expr: ExprId, ty: Ty) {
        let TyKind::Struct(decl, _) = self.p.types[ty] else { return };
        let constructor = syntax::keywords::CONSTRUCTOR;
        if self.p.is_core(decl) || !self.p.named(decl, constructor).is_empty() {
            return;
        }
        for &base in self.p.bases_of(decl).iter() {
            if let TyKind::Struct(of, _) = self.p.types[base]
                && !self.p.named(of, constructor).is_empty()
            {
                let (shown, base) = (self.name(ty), self.name(base));
                let message = text!("a list makes a '{}', whose base '{}' has constructors", shown, base);
                let warning = Diagnostic::warning("E30525", self.span(expr), message);
                self.p.report_once(warning.help("Slang refuses this: declare a constructor"));
            }
        }
    }
}
