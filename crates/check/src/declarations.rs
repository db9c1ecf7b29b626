//! Checks that declarations are valid independently of their uses, for `pullback check`.

use rustc_hash::FxHashMap;
use syntax::ast::{Attribute, DeclKind, ExprKind, Modifiers};
use syntax::{DeclId, Diagnostic, ExprId, Symbol, keywords as kw};

use crate::facts::{FacetKind, Magic};
use crate::program::Program;
use crate::signature::{DiffFieldTarget, Level, ParamSig, Resolved, Subst};
use crate::tables::{DiffOp, FuncRef};
use crate::types::follow_up::text;
use crate::types::{GenericArg, Ty, TyKind, types_of};
use crate::view::View;

/// The derivatives that what fulfils a requirement must have, of those that the requirement promises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Those of all modes.
    All,
    /// That of a mode.
    Any,
}

impl Program {
    /// Checks everything that a file declares (for `pullback check`).
    pub fn check_file(&mut self, file: usize) {
        self.resolve_extensions();
        let decls = self.ast.files[file].decls.clone();
        self.check_names(&decls);
        self.check_signatures(&decls);
        self.check_registers(file);
        for decl in decls {
            self.check_decl(decl);
        }
        self.check_together();
    }

    /// The declarations of a file that are checked one by one: those at its top level and in its namespaces.
    pub fn units_of(&self, file: usize) -> Vec<DeclId> {
        let mut found = Vec::new();
        let mut open: Vec<DeclId> = self.ast.files[file].decls.iter().rev().copied().collect();
        while let Some(decl) = open.pop() {
            match &self.ast.decls[decl].kind {
                DeclKind::Namespace { members } => open.extend(members.iter().rev()),
                _ => found.push(decl),
            }
        }
        found
    }

    /// Checks what the declarations of a file say together, and the heads of its functions. With
    /// [`Program::check_unit`] for each of [`Program::units_of`] and [`Program::check_rest`], this finds what
    /// [`Program::check_file`] finds.
    pub fn check_heads(&mut self, file: usize) {
        self.resolve_extensions();
        let decls = self.ast.files[file].decls.clone();
        self.check_names(&decls);
        self.check_signatures(&decls);
        self.check_registers(file);
        let mut open = decls;
        while let Some(decl) = open.pop() {
            match self.ast.decls[decl].kind.clone() {
                DeclKind::Namespace { members } => {
                    self.check_attributes(decl);
                    self.check_rules(decl);
                    self.check_parts(decl);
                    open.extend(members);
                }
                DeclKind::Func { .. } => {
                    self.constraints_of(decl);
                    self.raw_signature(decl);
                }
                _ => {}
            }
        }
    }

    /// Checks one declaration of [`Program::units_of`] and everything inside it.
    pub fn check_unit(&mut self, decl: DeclId) {
        self.resolve_extensions();
        self.check_decl(decl);
    }

    /// Checks what is known once all declarations have been.
    pub fn check_rest(&mut self) {
        self.check_together();
        self.report_lacking();
        self.report_endless_search();
    }

    /// Checks what all declarations say together.
    fn check_together(&mut self) {
        self.check_derivative_targets();
        self.check_bit_casts();
        self.check_removed();
        self.check_unset_globals();
    }

    fn check_names(&mut self, decls: &[DeclId]) {
        let mut seen: FxHashMap<Symbol, DeclId> = FxHashMap::default();
        let mut functions: FxHashMap<Symbol, DeclId> = FxHashMap::default();
        for &decl in decls {
            let d = &self.ast.decls[decl];
            let is_function = matches!(d.kind, DeclKind::Func { .. });
            let is_single = matches!(
                d.kind,
                DeclKind::Var { .. }
                    | DeclKind::Struct { .. }
                    | DeclKind::Interface { .. }
                    | DeclKind::Enum { .. }
                    | DeclKind::TypeAlias(_)
                    | DeclKind::AssociatedType { .. }
                    | DeclKind::EnumCase(_)
                    | DeclKind::Property { .. }
                    | DeclKind::TypeParam { .. }
                    | DeclKind::ValueParam { .. }
            );
            if !is_single && !is_function || d.name == kw::EMPTY {
                continue;
            }
            // Functions may share a name with each other, but not with a variable.
            let is_variable = |d: &&DeclId| matches!(self.ast.decls[**d].kind, DeclKind::Var { .. });
            let first = match is_function {
                true => seen.get(&d.name).filter(is_variable),
                false => functions.get(&d.name).filter(|_| is_variable(&&decl)).or(seen.get(&d.name)),
            };
            // A struct may be declared in advance without members.
            let is_announced = |d: DeclId| matches!(&self.ast.decls[d].kind, DeclKind::Struct { members, .. } if members.is_empty());
            match first {
                Some(&first) if is_announced(first) || is_announced(decl) => {}
                Some(&first) => {
                    let message = format!("the name '{}' is declared twice", self.ast.name(d.name));
                    let error = Diagnostic::error("E30200", d.name_span, message);
                    self.report(error.note(self.name_span(first), "first here"));
                }
                None if is_function => _ = functions.entry(d.name).or_insert(decl),
                None => _ = seen.insert(d.name, decl),
            }
        }
    }

    /// Reports functions that would match the same calls equally well.
    fn check_signatures(&mut self, decls: &[DeclId]) {
        let mut by_name: FxHashMap<Symbol, Vec<DeclId>> = FxHashMap::default();
        for &decl in decls {
            let d = &self.ast.decls[decl];
            let is_extension = self.ast.extensions.contains_key(&decl);
            let target = |p: &Program, decl: DeclId| {
                let attribute = p.attribute(decl, "__target_intrinsic")?;
                match p.ast.exprs[*attribute.args.first()?].kind {
                    ExprKind::Name(name) => Some(name),
                    _ => None,
                }
            };
            let own = target(self, decl);
            let has_body = matches!(d.kind, DeclKind::Func { body: Some(_), .. });
            let is_given = matches!(d.kind, DeclKind::Func { .. }) && own.is_some();
            if !(has_body || is_given) || is_extension {
                continue;
            }
            let others = by_name.entry(d.name).or_default();
            // A function may have a body, and one for each of several targets.
            let same_target = |p: &Program, other: DeclId| target(p, other) == own;
            let first = others
                .iter()
                .copied()
                .find(|&other| same_target(self, other) && self.same_signature(other, decl));
            others.push(decl);
            let Some(first) = first else { continue };
            let text = self.ast.decl_name(decl);
            let message = format!("the function '{text}' is declared twice with the same parameters");
            let error = Diagnostic::error("E30201", self.name_span(decl), message);
            self.report(error.note(self.name_span(first), "first here"));
        }
    }

    fn same_signature(&mut self, a: DeclId, b: DeclId) -> bool {
        let Some(renamed) = self.same_generics(a, b) else { return false };
        let (a, b) = (self.raw_signature(a), self.raw_signature(b));
        // A static function and a non-static one are called in the same way.
        let same_object = a.is_mutating() == b.is_mutating();
        let types: Vec<Ty> = a.params.iter().map(|param| self.substitute(param.ty, &renamed)).collect();
        // A resource and a handle of it have the same type here.
        let is_resource = |p: &Program, ty: Ty| match &p.types[ty] {
            TyKind::Buffer(..) | TyKind::Opaque(..) => true,
            TyKind::Struct(decl, _) => p.is_core(*decl),
            _ => false,
        };
        let same = |((ty, a), b): ((&Ty, &ParamSig), &ParamSig)| {
            let is_same_way = a.dir == b.dir || a.dir.is_written() && b.dir.is_written();
            *ty == b.ty && is_same_way && *ty != Ty::ERROR && !is_resource(self, *ty)
        };
        same_object
            && a.params.len() == b.params.len()
            && types.iter().zip(&a.params).zip(&b.params).all(same)
    }

    /// Maps the generic parameters of one function to those of another if they agree in kind and constraints,
    /// in which case no generic arguments distinguish the functions.
    fn same_generics(&mut self, a: DeclId, b: DeclId) -> Option<Subst> {
        let (own, other) = (self.own_params(a), self.own_params(b));
        let mut subst = Subst::default();
        if own.len() != other.len() {
            return None;
        }
        for (&own, &other) in own.iter().zip(&other) {
            if self.is_value_param(own) != self.is_value_param(other) {
                return None;
            }
            subst.map.push((own, self.param_arg(other)));
        }
        let (one, two) = (self.constraints_of(a), self.constraints_of(b));
        let renamed = |&(ty, bound): &(Ty, Ty)| (self.substitute(ty, &subst), self.substitute(bound, &subst));
        let conforms: Vec<(Ty, Ty)> = one.conforms.iter().map(renamed).collect();
        (one.is_of_bounds() && two.is_of_bounds() && conforms == two.conforms).then_some(subst)
    }

    fn check_attributes(&mut self, decl: DeclId) {
        for attribute in self.ast.decls[decl].attributes.clone() {
            self.check_attribute(&attribute);
            self.check_stage(&attribute);
        }
    }

    /// Checks the names of all parts of a namespace in one module together, at the first part.
    fn check_parts(&mut self, decl: DeclId) {
        let module = self.module_of(decl);
        let parts: Vec<DeclId> =
            self.parts(decl).into_iter().filter(|&part| self.module_of(part) == module).collect();
        if parts.first() == Some(&decl) {
            let all: Vec<DeclId> =
                parts.iter().flat_map(|&part| self.ast.decls[part].kind.members()).copied().collect();
            self.check_names(&all);
            self.check_signatures(&all);
        }
    }

    pub(crate) fn check_decl(&mut self, decl: DeclId) {
        self.check_attributes(decl);
        if let DeclKind::Struct { .. } = self.ast.decls[decl].kind {
            self.check_size(decl);
        }
        self.check_rules(decl);
        if let Some(generics) = self.ast.decls[decl].generics.clone() {
            self.check_names(&generics.params);
        }
        self.constraints_of(decl);
        match self.ast.decls[decl].kind.clone() {
            DeclKind::Var { ty, .. } => {
                let resolved = self.decl_type(decl);
                let span = self.name_span(decl);
                // A `static_assert` is a constant without a value.
                if ty.is_some() || resolved != Ty::VOID {
                    self.check_value_type(resolved, span);
                }
                self.check_field_place(decl);
                self.check_derivative_member(decl);
                self.body(decl);
                self.lint(decl);
                self.check_constant(decl);
                self.check_value(decl);
            }
            DeclKind::Func { .. } | DeclKind::Init { .. } => self.check_function(decl),
            DeclKind::Property { accessors, .. } | DeclKind::Subscript { accessors, .. } => {
                self.decl_type(decl);
                for accessor in accessors {
                    self.check_function(accessor);
                    self.check_rules(accessor);
                }
            }
            DeclKind::Struct { .. } | DeclKind::Extension { .. } | DeclKind::Interface { .. } => {
                let members = self.members(decl).to_vec();
                let is_interface = matches!(self.ast.decls[decl].kind, DeclKind::Interface { .. });
                self.bases_of(decl);
                self.check_names(&members);
                if !is_interface {
                    self.check_signatures(&members);
                }
                members.iter().for_each(|&member| self.check_decl(member));
                if !is_interface {
                    self.check_conformance(decl);
                    self.check_overriding(decl);
                }
            }
            // The names of a namespace are those of all its parts.
            DeclKind::Namespace { members } => {
                self.check_parts(decl);
                members.into_iter().for_each(|member| self.check_decl(member));
            }
            DeclKind::CBuffer { members } => {
                self.check_names(&members);
                self.check_signatures(&members);
                members.into_iter().for_each(|member| self.check_decl(member));
            }
            DeclKind::Enum { cases, .. } => {
                self.check_names(&cases);
                cases.into_iter().for_each(|case| _ = self.enum_case_value(case));
            }
            DeclKind::TypeAlias(_) if self.ast.decls[decl].generics.is_none() => _ = self.decl_type(decl),
            DeclKind::AssociatedType { .. } => _ = self.bases_of(decl),
            DeclKind::Using(expr) => self.check_using(expr),
            DeclKind::TypeAlias(_)
            | DeclKind::Tuple { .. }
            | DeclKind::Param { .. }
            | DeclKind::Accessor { .. }
            | DeclKind::EnumCase(_)
            | DeclKind::TypeParam { .. }
            | DeclKind::ValueParam { .. }
            | DeclKind::Import { .. }
            | DeclKind::Include { .. }
            | DeclKind::Module(_)
            | DeclKind::Implementing(_)
            | DeclKind::Unsupported(_)
            | DeclKind::Empty => {}
        }
        self.check_rules(decl);
    }

    /// Reports a `using` whose name is not a namespace of any module.
    fn check_using(&mut self, expr: ExprId) {
        let ExprKind::Name(name) = self.ast.exprs[expr].kind else { return };
        let declared = self.declared_anywhere(name);
        if declared.iter().any(|&d| matches!(self.ast.decls[d].kind, DeclKind::Namespace { .. })) {
            return;
        }
        let text = self.ast.name(name);
        let (code, message) = match declared.is_empty() {
            true => ("E30015", format!("undefined identifier '{text}'")),
            false => ("E30061", format!("'{text}' is not a namespace")),
        };
        self.error(code, self.span(expr), message);
    }

    /// Reports a `[shader("…")]` that names an unknown stage.
    fn check_stage(&mut self, attribute: &Attribute) {
        const STAGES: &str = "vertex fragment pixel geometry hull domain tesscontrol tesseval compute \
            raygen raygeneration intersection anyhit closesthit miss callable mesh \
            amplification task dispatch node ser_raygen ser_motion_raygen";
        if !self.ast.name(attribute.name).eq_ignore_ascii_case("shader") {
            return;
        }
        let Some(&arg) = attribute.args.first() else { return };
        let ExprKind::String(text) = &self.ast.exprs[arg].kind else { return };
        let stage = text.to_ascii_lowercase();
        // A capability of a stage has its name behind `_`.
        let stage = stage.strip_prefix('_').unwrap_or(&stage);
        if !STAGES.split(' ').any(|known| known == stage) {
            let message = format!("there is no stage '{text}'");
            let help = "a kernel is '[shader(\"compute\")]'";
            self.report(Diagnostic::error("E36105", self.span(arg), message).help(help));
        }
    }

    /// Reports fields outside of structs: an interface requires properties, and an extension cannot extend
    /// its type's values.
    fn check_field_place(&mut self, decl: DeclId) {
        let d = &self.ast.decls[decl];
        // An extension can name a field of its type by `extern`.
        if d.modifiers.has(Modifiers(Modifiers::STATIC.0 | Modifiers::EXTERN.0)) || d.name == kw::EMPTY {
            return;
        }
        let (message, help) = match d.parent.map(|p| &self.ast.decls[p].kind) {
            Some(DeclKind::Interface { .. }) => (
                "an interface cannot have a field",
                format!("require a property: `property {} : … {{ get; }}`", self.ast.name(d.name)),
            ),
            Some(DeclKind::Extension { .. }) => {
                ("an extension cannot add a field", "declare it in the struct itself".to_string())
            }
            _ => return,
        };
        self.report(Diagnostic::error("E31400", d.name_span, message).help(help));
    }

    fn check_function(&mut self, decl: DeclId) {
        self.body(decl);
        if let Some(solver) = self.solver_of(decl) {
            self.body(solver);
            self.check_code(solver);
            self.check_flow(solver);
        }
        self.check_code(decl);
        self.check_marks(decl);
        self.check_flow(decl);
        self.lint(decl);
        // The derivatives named by the function's attributes have to exist.
        let func = self.own_ref(decl);
        self.derivatives_of(&func, View::of(self.asking(decl)));
        self.check_deriv_method(decl);
    }

    /// The span at which a declaration names one of its bases.
    pub(crate) fn base_span(&self, decl: DeclId, base: Ty) -> syntax::Span {
        let bases = match &self.ast.decls[decl].kind {
            DeclKind::Struct { bases, .. } | DeclKind::Extension { bases, .. } => bases.as_slice(),
            _ => &[],
        };
        let named = bases.iter().find(|&&e| self.tables.exprs[e].ty == base);
        named.map_or(self.name_span(decl), |&e| self.span(e))
    }

    /// Notes that something which a generic declaration relies on is missing from the types that it is
    /// instantiated with.
    pub fn lacks(&mut self, env: &Subst) {
        self.lacking.extend(types_of(env.map.iter().map(|(_, arg)| arg)).chain(env.this));
    }

    /// Reports what is missing from the types that turned out to lack something, and from no others: so every
    /// unknown type that follows from it has a cause that the user is told.
    pub(crate) fn report_lacking(&mut self) {
        while let Some(ty) = self.lacking.pop() {
            for facet in self.facets(ty).iter() {
                if facet.kind != FacetKind::Interface && !self.is_core(facet.container) {
                    self.check_conformance(facet.container);
                }
            }
        }
    }

    /// Reports a struct or extension that lacks something its interfaces require, at most once.
    fn check_conformance(&mut self, decl: DeclId) {
        if !self.queries.conforming.is_first(decl) {
            return;
        }
        let ty = self.self_type(decl);
        if matches!(self.types[ty], TyKind::Error | TyKind::This(_)) {
            return;
        }
        let is_extension = matches!(self.ast.decls[decl].kind, DeclKind::Extension { .. });
        let mut interfaces: Vec<Ty> = Vec::new();
        for &base in self.bases_of(decl).iter() {
            if matches!(self.types[base], TyKind::Interface(..)) {
                self.add_interface(base, base, &mut interfaces);
            } else if is_extension
                || !matches!(self.types[base], TyKind::Struct(..) | TyKind::Enum(_) | TyKind::Error)
            {
                let span = self.base_span(decl, base);
                self.error("E30810", span, text!("'{}' is not an interface", self.shown(base)));
            }
        }
        // An extension does not have to fulfil the constraints that its parameter's bounds put on associated
        // types.
        let (conforms, equal) = match self.types[ty] {
            TyKind::Param(_) => Default::default(),
            _ => self.constraints_on(ty),
        };
        let broken = conforms.into_iter().find(|&(subject, bound)| !self.conforms(subject, bound));
        if let Some((subject, bound)) = broken.or_else(|| equal.into_iter().find(|&(a, b)| a != b)) {
            let relation = self.relation(bound);
            let message = text!(
                "type '{}' {relation} '{}', as an interface requires",
                self.shown(subject),
                self.shown(bound)
            );
            self.error("E38029", self.name_span(decl), message);
        }
        for interface in interfaces {
            let TyKind::Interface(idecl, args) = self.types[interface].clone() else { continue };
            let members = self.ast.decls[idecl].kind.members().to_vec();
            match self.magic_of(idecl) {
                Some(Magic::Differentiable) => {
                    self.check_differential(decl, ty);
                    if self.check_differentiable_type(decl, ty) {
                        members.into_iter().for_each(|member| self.check_own_sum(ty, member));
                    }
                }
                Some(Magic::DifferentiablePtr) => self.check_pointer_type(decl, ty, interface),
                Some(_) => {}
                None => {
                    for member in members {
                        self.check_required_derivatives(ty, member, &args);
                        self.check_fulfilment(decl, ty, member, interface);
                    }
                }
            }
        }
    }

    /// Reports a type that lacks a member required by an interface.
    fn check_fulfilment(&mut self, decl: DeclId, ty: Ty, member: DeclId, interface: Ty) {
        let TyKind::Interface(_, args) = self.types[interface].clone() else { return };
        let name = self.ast.decls[member].name;
        let func = self.required_ref(member, &args, ty);
        let is_fulfilled = match self.ast.decls[member].kind {
            DeclKind::AssociatedType { .. } if name == kw::EMPTY => true,
            DeclKind::AssociatedType { .. } => {
                // The members of an extension of all types that conform to an interface are not members of
                // its type parameter.
                let own = self.named(decl, name).first().copied();
                let found = self.type_member(ty, name).or_else(|| own.map(|own| self.decl_type(own)));
                if let Some(found) = found {
                    self.check_associated(decl, &func, found);
                }
                found.is_some()
            }
            DeclKind::Func { .. }
            | DeclKind::Init { .. }
            | DeclKind::Property { .. }
            | DeclKind::Subscript { .. }
            | DeclKind::Var { .. } => !matches!(self.fulfilment(&func, ty), Resolved::Unresolved),
            _ => true,
        };
        if !is_fulfilled && !self.is_given_elsewhere(decl, ty, member) {
            self.report_unfulfilled(decl, &func, interface);
        }
    }

    /// A requirement of an interface with these arguments, for a type.
    fn required_ref(&mut self, member: DeclId, args: &[GenericArg], ty: Ty) -> FuncRef {
        let own: Vec<_> = self.own_params(member).into_iter().map(|p| self.param_arg(p)).collect();
        FuncRef { decl: member, args: args.iter().cloned().chain(own).collect(), self_ty: Some(ty) }
    }

    /// Reports an associated type that does not conform to the bounds which the interface puts on it.
    fn check_associated(&mut self, decl: DeclId, required: &FuncRef, found: Ty) {
        let env = self.subst_of(required);
        for &bound in self.bases_of(required.decl).iter() {
            let bound = self.substitute(bound, &env);
            if self.conforms(found, bound) || self.has_unknown_base(found) {
                continue;
            }
            let name = self.ast.decls[required.decl].name;
            let at = self.named(decl, name).first().copied().unwrap_or(decl);
            let (own, bound) = (self.shown(found), self.shown(bound));
            let relation = text!("is '{}', which does not conform to '{}'", own, bound);
            let message = text!("'{}' {}, as an interface requires", self.ast.name(name), relation);
            let error = Diagnostic::error("E38029", self.name_span(at), message);
            self.report(error.note(self.name_span(required.decl), "required here"));
        }
    }

    /// Reports a member that does not have the derivatives promised by the requirement it fulfils.
    fn check_required_derivatives(&mut self, ty: Ty, member: DeclId, args: &[GenericArg]) {
        if matches!(self.ast.decls[member].kind, DeclKind::Func { .. }) {
            let func = self.required_ref(member, args, ty);
            self.check_promised(&func, Promise::All);
        }
    }

    /// Reports what fulfils a requirement without the derivatives that the requirement promises.
    pub(crate) fn check_promised(&mut self, required: &FuncRef, promise: Promise) {
        let member = required.decl;
        let level = self.level(member);
        if level == Level::None {
            return;
        }
        let Resolved::Func(found) = self.resolve_requirement(required) else { return };
        let is_function = matches!(self.ast.decls[member].kind, DeclKind::Func { .. });
        if found.decl == member || self.check_lost_types(required, &found) || !is_function {
            return;
        }
        let signature = self.func_signature(&found);
        let has_tangents = signature.returns_differential()
            || signature.params.iter().any(ParamSig::has_tangent)
            || signature.has_differentiable_this();
        if !has_tangents {
            return;
        }
        let view = View::of(self.asking(found.decl));
        let promised = [(DiffOp::Fwd, "forward"), (DiffOp::Bwd, "backward")].into_iter().take(level as usize);
        let missing: Vec<&str> =
            promised.filter(|mode| !self.has_derivative(&found, mode.0, view)).map(|mode| mode.1).collect();
        let Some(mode) =
            missing.first().filter(|_| promise == Promise::All || missing.len() == level as usize)
        else {
            return;
        };
        let name = self.ast.decl_name(member).to_string();
        let message = format!("'{name}' is not {mode}-differentiable, as its interface requires");
        let error = Diagnostic::error("E38110", self.name_span(found.decl), message);
        let error = error.note(self.name_span(member), "required here");
        self.report(error.help("mark it '[Differentiable]', or give it the derivative that is missing"));
    }

    /// Reports a member that takes or returns a number without a derivative where the requirement has one.
    pub(crate) fn check_lost_types(&mut self, required: &FuncRef, found: &FuncRef) -> bool {
        let (wanted, have) = (self.func_signature(required), self.func_signature(found));
        let mut lost = Vec::new();
        for (wanted, have) in wanted.params.iter().zip(&have.params) {
            if wanted.has_tangent() && !have.has_tangent() && !have.no_diff && wanted.ty != have.ty {
                let name = have.decl.map_or("", |d| self.ast.decl_name(d));
                lost.push((format!("takes '{name}' as"), wanted.ty, have.ty));
            }
        }
        if wanted.returns_differential() && !have.returns_differential() && wanted.ret != have.ret {
            lost.push(("returns".to_string(), wanted.ret, have.ret));
        }
        let Some((verb, wanted, have)) = lost.into_iter().next() else { return false };
        let name = self.ast.decl_name(found.decl);
        let message = text!(
            "'{name}' {verb} '{}', which has no derivative: its interface requires that of '{}'",
            self.shown(have),
            self.shown(wanted)
        );
        let (span, at) = (self.name_span(found.decl), self.name_span(required.decl));
        self.report(Diagnostic::error("E38110", span, message).note(at, "required here"));
        true
    }

    /// The span at which a declaration states its differential.
    pub(crate) fn differential_span(&mut self, decl: DeclId) -> Option<syntax::Span> {
        let &declared = self.named(decl, kw::DIFFERENTIAL).first()?;
        Some(self.name_span(declared))
    }

    /// Checks that every differentiable field has a counterpart in a differential that the user wrote, of the
    /// type of the field's differential. The check runs once per type, also for types that only executed
    /// programs use. `decl` declares the type, or is an extension of it.
    pub(crate) fn check_differential(&mut self, decl: DeclId, ty: Ty) {
        let TyKind::Struct(own, _) = self.types[ty] else { return };
        if self.is_core(own) || !self.queries.differential_types.is_first(own) {
            return;
        }
        let Some(differential) = self.differential(ty) else { return };
        if differential == ty || matches!(self.types[differential], TyKind::SynthDiff(_)) {
            return;
        }
        let span = self.differential_span(decl).unwrap_or(self.name_span(decl));
        let shown = self.shown(differential);
        if self.differential(differential).is_none() {
            self.error(
                "E38029",
                span,
                text!("the differential '{}' does not conform to 'IDifferentiable'", shown),
            );
            return;
        }
        if !self.check_second_differential(decl, ty) {
            return;
        }
        let targets = self.diff_fields(ty);
        let parts = self.fields(differential);
        for (field, field_ty, no_diff) in self.fields(ty) {
            let Some(wanted) = self.differential(field_ty).filter(|_| !no_diff) else { continue };
            let name = self.ast.decl_name(field).to_string();
            let at = self.name_span(field);
            if let Some(&(_, DiffFieldTarget::Member(part))) = targets.iter().find(|t| t.0 == field)
                && let Some(found) = parts.iter().find(|p| p.0 == part)
                && found.1 != wanted
                && ![found.1, wanted].contains(&Ty::ERROR)
            {
                let message = text!(
                    "'{}' of the differential '{}' is of type '{}', and the differential of '{name}' is '{}'",
                    self.ast.decl_name(part),
                    shown,
                    self.shown(found.1),
                    self.shown(wanted)
                );
                let error = Diagnostic::error("E38105", self.name_span(part), message);
                self.report(error.note(at, "this field"));
            }
            let is_named = self.attribute(field, "DerivativeMember").is_some();
            if !is_named && !targets.iter().any(|t| t.0 == field) {
                // If the differential was written for this struct, it lacks a field; otherwise the struct
                // does not fit the differential.
                let is_nested = matches!(self.types[differential], TyKind::Struct(own, _)
                    if self.ast.decls[own].parent == Some(decl));
                let (span, other, what) =
                    if is_nested { (span, at, "this field") } else { (at, span, "the differential") };
                let lacking = "has no counterpart of the differentiable field";
                let message = text!("the differential '{}' {lacking} '{name}'", shown);
                let help = format!(
                    "give it a field '{name}', or mark this field '[DerivativeMember(…)]' or 'no_diff'"
                );
                self.report(Diagnostic::error("E38105", span, message).note(other, what).help(help));
            }
        }
    }

    /// Reports a struct that contains itself, once, and gives the offending fields the error type.
    pub fn check_size(&mut self, decl: DeclId) {
        let (mut open, mut seen, mut is_reported) = (vec![decl], vec![decl], false);
        // The struct whose field led to each of `seen`.
        let mut from = vec![decl];
        while let Some(at) = open.pop() {
            for field in self.own_fields(at) {
                let mut ty = self.decl_type(field);
                while let TyKind::Array(element, _)
                | TyKind::Optional(element)
                | TyKind::DiffPair(element)
                | TyKind::DiffPtrPair(element) = self.types[ty]
                {
                    ty = element;
                }
                let TyKind::Struct(inner, _) = self.types[ty] else { continue };
                if inner == decl {
                    let message = format!("struct '{}' contains itself", self.ast.decl_name(decl));
                    if !std::mem::replace(&mut is_reported, true) {
                        let is_same = ty == self.self_type(decl) && !self.ast.bit_widths.contains_key(&field);
                        let error = match is_same {
                            true => Diagnostic::error("E30114", self.name_span(decl), message)
                                .note(self.name_span(field), "by this field"),
                            false => Diagnostic::error("E30114", self.name_span(field), message),
                        };
                        let mut error = error.help("a pointer, `T*`, can refer to a value of its own type");
                        let mut inside = at;
                        while inside != decl {
                            error = error.note(self.name_span(inside), "within this struct");
                            let k = seen.iter().position(|&s| s == inside).unwrap_or(0);
                            inside = from[k];
                        }
                        self.report(error);
                    }
                    // Without this, walks over these fields would not terminate, or only after following every
                    // path through them.
                    self.tables.decl_types[field] = Some(Ty::ERROR);
                } else if !seen.contains(&inner) {
                    seen.push(inner);
                    from.push(at);
                    open.push(inner);
                }
            }
        }
    }

    /// Functions of a file with `[shader(…)]`, `[numthreads(…)]` or `[CUDAKernel]`, in order.
    pub fn entry_points(&self, file: usize) -> Vec<DeclId> {
        let mut out = Vec::new();
        let mut stack: Vec<DeclId> = self.ast.files[file].decls.iter().rev().copied().collect();
        while let Some(decl) = stack.pop() {
            let marks = ["shader", "numthreads", "CUDAKernel", "CudaKernel"];
            match &self.ast.decls[decl].kind {
                DeclKind::Func { body: Some(_), .. } => {
                    out.extend(marks.iter().any(|mark| self.attribute(decl, mark).is_some()).then_some(decl));
                }
                DeclKind::Namespace { members } => stack.extend(members.iter().rev().copied()),
                _ => {}
            }
        }
        out
    }

    /// The functions of a module that have a name; `S.f` and `n.f` name members.
    pub fn find_function(&self, file: usize, name: &str) -> Vec<DeclId> {
        let Some(&module) = self.modules.of_index.get(&file) else { return Vec::new() };
        let name = name.replace("::", ".");
        let mut parts = name.split('.');
        let Some(first) = parts.next().and_then(|p| self.ast.symbols.find(p)) else { return Vec::new() };
        let mut found = self.modules.named(module, first).to_vec();
        if found.is_empty() {
            let imports = self.modules.all[module].imports.iter();
            found.extend(imports.flat_map(|&import| self.modules.named(import, first)));
        }
        for part in parts {
            let Some(symbol) = self.ast.symbols.find(part) else { return Vec::new() };
            found = found.into_iter().flat_map(|decl| self.named(decl, symbol)).collect();
        }
        found.retain(|&d| matches!(self.ast.decls[d].kind, DeclKind::Func { .. }));
        found
    }

    /// Returns the attribute of this name on a declaration, if it has one. `[NumThreads(…)]` and `[Shader(…)]`
    /// are recognised in any letter case.
    pub fn attribute(&self, decl: DeclId, name: &str) -> Option<&Attribute> {
        let in_any_case = ["numthreads", "shader"].contains(&name);
        self.ast.decls[decl].attributes.iter().find(|attribute| {
            let own = self.ast.name(attribute.name);
            own == name || in_any_case && own.eq_ignore_ascii_case(name)
        })
    }

    /// The numbers of `layout(local_size_x = …, …) in;` in the file of a declaration.
    pub fn local_size(&self, decl: DeclId) -> [Option<ExprId>; 3] {
        let file = self.ast.decls[decl].span.file;
        let decls = self.ast.files.iter().filter(|f| f.file == file).flat_map(|f| &f.decls);
        let empty = decls.filter(|&&d| matches!(self.ast.decls[d].kind, DeclKind::Empty));
        let layouts: Vec<DeclId> = empty.copied().collect();
        ["__layout_local_size_x", "__layout_local_size_y", "__layout_local_size_z"].map(|name| {
            let found = layouts.iter().find_map(|&d| self.attribute(d, name));
            found.and_then(|attribute| attribute.args.first().copied())
        })
    }

    /// The stage that `[shader("…")]` gives a function, in lower case, or that its other attributes can only mean.
    pub fn stage(&self, decl: DeclId) -> Option<String> {
        let Some(attribute) = self.attribute(decl, "shader") else {
            // Of the shaders that a group of threads runs, only these make primitives.
            let is_mesh = ["outputtopology", "numthreads"].iter().all(|a| self.attribute(decl, a).is_some());
            return is_mesh.then(|| "mesh".into());
        };
        match &self.ast.exprs[*attribute.args.first()?].kind {
            ExprKind::String(text) => Some(text.to_ascii_lowercase()),
            _ => None,
        }
    }

    /// The span of a declaration's name.
    pub fn name_span(&self, decl: DeclId) -> syntax::Span {
        self.ast.decls[decl].name_span
    }

    /// Returns true if a variable is a constant whose value is its initialiser.
    pub fn is_constant(&self, decl: DeclId) -> bool {
        let modifiers = self.ast.decls[decl].modifiers;
        modifiers.has(Modifiers::CONST) && modifiers.has(Modifiers::STATIC)
    }
}
