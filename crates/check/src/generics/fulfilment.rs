//! Implements the rule by which a member of a type fulfils a requirement of an interface.
//!
//! A member fulfils a requirement if a function with the requirement's signature could call the member with
//! its own parameters: arguments convert as in any call, written arguments are places of the parameter's
//! type, and the result converts to the required type. So a member may accept more or return something more
//! specific than required, but not the reverse. Calls through the interface are calls of that function
//! ([`Program::is_adapted`]).

use syntax::ast::{AccessorKind, DeclKind, Modifiers};
use syntax::{DeclId, Diagnostic, Message, Span};

use crate::declarations::Promise;
use crate::facts::FacetKind;
use crate::program::Program;
use crate::signature::{Direction, ParamSig, Signature};
use crate::tables::FuncRef;
use crate::types::conversion::Source;
use crate::types::follow_up::text;
use crate::types::{Ty, TyKind};

/// The reason why a member does not fulfil a requirement.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    code: &'static str,
    text: Message,
}

impl Difference {
    fn new(text: impl Into<Message>) -> Option<Difference> {
        Some(Difference { code: "E38105", text: text.into() })
    }
}

fn word(dir: Direction) -> &'static str {
    match dir {
        Direction::In => "in",
        Direction::Out => "out",
        Direction::InOut => "inout",
        Direction::Ref => "__ref",
        Direction::ConstRef => "__constref",
    }
}

/// Returns true if a parameter of the first kind can be passed as an argument for the second kind. As in
/// Slang, a value cannot be passed for a reference nor a reference for a value, although a copy would work.
fn passes_on(required: Direction, own: Direction) -> bool {
    required == own || required == Direction::InOut && matches!(own, Direction::In | Direction::Out)
}

impl Program {
    /// The reason why a member does not fulfil a requirement, or `None` if it does. Both have the same
    /// generic arguments.
    pub(crate) fn difference(&mut self, required: &FuncRef, own: &FuncRef) -> Option<Difference> {
        if self.is_static(required.decl) && !self.is_static(own.decl) {
            return Difference::new("it is not static");
        }
        match (&self.ast.decls[required.decl].kind, &self.ast.decls[own.decl].kind) {
            (DeclKind::Var { .. }, _) => self.difference_of_constants(required, own),
            (DeclKind::Property { .. }, DeclKind::Var { .. }) => self.difference_of_field(required, own),
            (DeclKind::Property { .. }, _) => self.difference_of_accessors(required, own),
            (DeclKind::Subscript { .. }, _) => {
                let (wanted, have) = (self.func_signature(required), self.func_signature(own));
                let params = self.difference_of_params(required, &wanted, &have);
                params.or_else(|| self.difference_of_accessors(required, own))
            }
            _ => self.difference_of_functions(required, own),
        }
    }

    fn difference_of_functions(&mut self, required: &FuncRef, own: &FuncRef) -> Option<Difference> {
        if let Some((subject, bound)) = self.unmet_bound(required, own) {
            let verb = if matches!(self.types[bound], TyKind::Interface(..)) { "conforms to" } else { "is" };
            let (subject, bound) = (self.shown(subject), self.shown(bound));
            return Difference::new(text!("it needs a '{}' that {verb} '{}'", subject, bound));
        }
        let (wanted, have) = (self.func_signature(required), self.func_signature(own));
        if have.is_mutating() && !wanted.is_mutating() {
            return Difference::new("it is '[mutating]'");
        }
        if let Some(have) = self.error_of(own) {
            match self.error_of(required) {
                None => return Difference::new("it throws errors"),
                Some(wanted) if wanted != have && ![wanted, have].contains(&Ty::ERROR) => {
                    let (have, wanted) = (self.shown(have), self.shown(wanted));
                    return Difference::new(text!("it throws '{}', not '{}'", have, wanted));
                }
                Some(_) => {}
            }
        }
        let given = self.constraints_of(required.decl).nonempty.len();
        if self.constraints_of(own.decl).nonempty.len() > given {
            return Difference::new("it needs a pack that is not empty");
        }
        if let Some(difference) = self.difference_of_params(required, &wanted, &have) {
            return Some(difference);
        }
        let declared = self.raw_signature(required.decl).ret;
        if self.is_elsewhere(required, declared) {
            return None;
        }
        let converts = (wanted.ret == Ty::VOID) == (have.ret == Ty::VOID)
            && self.conversion(have.ret, wanted.ret, Source::default()).is_some();
        if !converts {
            let (have, wanted) = (self.shown(have.ret), self.shown(wanted.ret));
            return Difference::new(text!("it returns '{}', not '{}'", have, wanted));
        }
        None
    }

    /// A bound that a member puts on its generic parameters and the requirement does not.
    fn unmet_bound(&mut self, required: &FuncRef, own: &FuncRef) -> Option<(Ty, Ty)> {
        if self.own_params(own.decl).is_empty() {
            return None;
        }
        let [asked, needed] = [required, own].map(|member| {
            let (env, constraints) = (self.subst_of(member), self.constraints_of(member.decl));
            [&constraints.conforms, &constraints.equal].map(|pairs| {
                let known = |&(a, b): &(Ty, Ty)| (self.substitute(a, &env), self.substitute(b, &env));
                pairs.iter().map(known).collect::<Vec<_>>()
            })
        });
        let unmet = needed[0].iter().copied().find(|&(subject, bound)| {
            let mut given = Vec::new();
            for &(_, what) in asked[0].iter().filter(|asked| asked.0 == subject) {
                self.add_interface(what, subject, &mut given);
            }
            !given.contains(&bound) && !self.conforms(subject, bound)
        });
        let differs = |&(a, b): &(Ty, Ty)| {
            !asked[1].contains(&(a, b)) && !asked[1].contains(&(b, a)) && !self.same_types(a, b)
        };
        unmet.or_else(|| needed[1].iter().copied().find(differs))
    }

    /// Returns true if a type in a requirement cannot be determined here: an associated type provided by an
    /// extension of all types that conform to an interface, or one with a separate definition for each of
    /// several interfaces.
    fn is_elsewhere(&mut self, required: &FuncRef, declared: Ty) -> bool {
        let TyKind::Assoc(_, assoc) = self.types[declared] else { return false };
        let Some(this) = required.self_ty else { return false };
        let name = self.ast.decls[assoc].name;
        let facets = self.facets(this);
        let own = facets.iter().filter(|facet| facet.kind != FacetKind::Interface);
        own.filter(|facet| self.declares_name(facet.container, name)).count() != 1
    }

    fn difference_of_params(
        &mut self,
        required: &FuncRef,
        wanted: &Signature,
        have: &Signature,
    ) -> Option<Difference> {
        let is_pack = |p: &Program, s: &Signature| s.params.iter().any(|param| p.is_pack(param.ty));
        if is_pack(self, wanted) || is_pack(self, have) {
            return None;
        }
        let given = wanted.params.len();
        let has_default = |param: &ParamSig| param.decl.is_some_and(|d| self.has_default(d));
        if have.params.len() < given || !have.params[given..].iter().all(has_default) {
            let n = have.params.len();
            let plural = if n == 1 { "" } else { "s" };
            return Difference::new(format!("it takes {n} parameter{plural}, not {given}"));
        }
        let declared = self.raw_signature(required.decl);
        for ((wanted, have), declared) in wanted.params.iter().zip(&have.params).zip(&declared.params) {
            let name = have.decl.map_or("", |d| self.ast.decl_name(d)).to_string();
            if !passes_on(wanted.dir, have.dir) {
                let text =
                    format!("its parameter '{name}' is '{}', not '{}'", word(have.dir), word(wanted.dir));
                return Some(Difference { code: "E38108", text: text.into() });
            }
            let fits = if have.dir.is_written() {
                self.fits_place(wanted.ty, have.ty, have.dir)
            } else {
                self.conversion(wanted.ty, have.ty, Source::default()).is_some()
            };
            if !fits && !self.is_elsewhere(required, declared.ty) {
                let (have, wanted) = (self.shown(have.ty), self.shown(wanted.ty));
                let text = text!("its parameter '{name}' is of type '{}', not '{}'", have, wanted);
                return Difference::new(text);
            }
        }
        None
    }

    fn difference_of_constants(&mut self, required: &FuncRef, own: &FuncRef) -> Option<Difference> {
        let is_const = |decl: DeclId| self.ast.decls[decl].modifiers.has(Modifiers::CONST);
        if is_const(required.decl) && !is_const(own.decl) {
            return Difference::new("it is not 'const'");
        }
        let (wanted, have) = self.value_types(required, own);
        self.difference_of_values(wanted, have, wanted == have || [wanted, have].contains(&Ty::ERROR))
    }

    /// The types of the values of a required property, subscript or field and of its implementation.
    fn value_types(&mut self, required: &FuncRef, own: &FuncRef) -> (Ty, Ty) {
        let [wanted, have] = [required, own].map(|member| {
            let declared = self.decl_type(member.decl);
            let env = self.subst_of(member);
            self.substitute(declared, &env)
        });
        (wanted, have)
    }

    fn difference_of_field(&mut self, required: &FuncRef, own: &FuncRef) -> Option<Difference> {
        let asked = self.declared_accessors(required);
        let is_written = asked.set.is_some() || asked.by_ref.is_some();
        if is_written && self.ast.decls[own.decl].modifiers.has(Modifiers::CONST) {
            return Difference::new("it cannot be assigned to");
        }
        let (wanted, have) = self.value_types(required, own);
        let declared = self.decl_type(required.decl);
        if self.is_elsewhere(required, declared) {
            return None;
        }
        let reads = self.conversion(have, wanted, Source::default()).is_some();
        self.difference_of_values(wanted, have, reads && (!is_written || wanted == have))
    }

    fn difference_of_values(&self, wanted: Ty, have: Ty, fits: bool) -> Option<Difference> {
        if fits {
            return None;
        }
        Difference::new(text!("it is of type '{}', not '{}'", self.shown(have), self.shown(wanted)))
    }

    fn difference_of_accessors(&mut self, required: &FuncRef, own: &FuncRef) -> Option<Difference> {
        let (asked, given) = (self.declared_accessors(required), self.declared_accessors(own));
        let (wanted, have) = self.value_types(required, own);
        let declared = self.decl_type(required.decl);
        for kind in AccessorKind::ALL {
            let name = self.ast.name(kind.word());
            let Some(asked) = asked.of(kind) else { continue };
            let Some(found) = given.of(kind).or(given.by_ref.as_ref()) else {
                return Difference::new(format!("it has no '{name}'"));
            };
            let name = name.to_string();
            let [is_asked, is_given] =
                [asked, found].map(|accessor| self.raw_signature(accessor.decl).is_mutating());
            // Reading through a place does not modify its object.
            let by_ref = given.by_ref.as_ref() == Some(found) && kind == AccessorKind::Get;
            if is_given && !is_asked && !by_ref {
                return Difference::new(format!("its '{name}' is '[mutating]'"));
            }
            let fits = match kind {
                AccessorKind::Get => self.conversion(have, wanted, Source::default()).is_some(),
                AccessorKind::Set => self.conversion(wanted, have, Source::default()).is_some(),
                AccessorKind::Ref => have == wanted,
            };
            let fits = fits || self.is_elsewhere(required, declared);
            if let Some(difference) = self.difference_of_values(wanted, have, fits) {
                return Some(difference);
            }
        }
        None
    }

    /// Returns true if calls through an interface go through an adapter with the requirement's signature,
    /// since the signature of the member that fulfils it differs.
    pub fn is_adapted(&mut self, required: &FuncRef, own: &FuncRef) -> bool {
        if required.decl == own.decl {
            return false;
        }
        // In the library's requirements, differentiability is declared for any number, so it is not compared.
        let is_said = !self.is_core(required.decl);
        let shape = |signature: Signature| {
            let params = signature.params.iter().map(|p| (p.ty, p.dir, is_said && p.has_tangent()));
            let this = signature.this.as_ref().map(|t| (t.dir.is_written(), is_said && t.has_tangent()));
            (params.collect::<Vec<_>>(), signature.ret, is_said && signature.returns_differential(), this)
        };
        shape(self.func_signature(required)) != shape(self.func_signature(own))
    }

    /// Checks that what fulfils a requirement for a type whose calls are compiled loses no derivative, as
    /// `check` does at the declaration of a type. One mode of two is enough here: differentiation reports that it asks
    /// for the other.
    pub fn check_called(&mut self, required: &FuncRef) {
        if !self.is_requirement(required.decl) || !self.queries.called.is_first(required.clone()) {
            return;
        }
        let mut required = required.clone();
        if let DeclKind::Accessor { .. } = self.ast.decls[required.decl].kind
            && let Some(member) = self.ast.decls[required.decl].parent
        {
            required.decl = member;
        }
        self.check_promised(&required, Promise::Any);
    }

    /// Returns true if a member need not be found with the declaration of a type or extension: an empty
    /// `extern` declaration is defined elsewhere, other extensions may add to a built-in type, and the target
    /// of an extension may only be known for one type at a time.
    pub(crate) fn is_given_elsewhere(&mut self, decl: DeclId, ty: Ty, member: DeclId) -> bool {
        let is_own = matches!(self.types[ty], TyKind::Struct(..) | TyKind::Enum(_));
        match &self.ast.decls[decl].kind {
            DeclKind::Struct { members, .. } => {
                return members.is_empty() && self.ast.decls[decl].modifiers.has(Modifiers::EXTERN);
            }
            DeclKind::Extension { .. } if !is_own => {}
            _ => return false,
        }
        let name = self.member_name(member);
        let mut extensions = self.extensions.known.iter().filter(|e| e.decl != decl);
        if extensions.any(|e| self.is_blanket(e) && self.declares_name(e.decl, name)) {
            return true;
        }
        let own: Vec<DeclId> = self.facets(ty).iter().map(|facet| facet.container).collect();
        !own.contains(&decl) && !self.blanket_facets(ty, |_, e| e == decl).iter().any(|f| f.container == decl)
    }

    /// Reports why a type lacks what an interface requires.
    pub(crate) fn report_unfulfilled(&mut self, decl: DeclId, required: &FuncRef, interface: Ty) {
        let ty = required.self_ty.unwrap_or(Ty::ERROR);
        let name = self.member_name(required.decl);
        let what = self.function_name(required.decl);
        let interface = self.shown(interface);
        let mut differences: Vec<(Span, Difference)> = Vec::new();
        for (member, own) in self.members_for(required, ty, name) {
            let difference = match own {
                Some(own) => self.difference(required, &own),
                None => Difference::new("it has other generic parameters"),
            };
            let span = self.name_span(member);
            differences.extend(difference.map(|difference| (span, difference)));
        }
        let diagnostic = match differences.first() {
            Some((span, Difference { code, text })) => {
                let message = text!("'{what}' is not what interface '{}' requires: {}", interface, text);
                Diagnostic::error(code, *span, message)
            }
            None => {
                let message = text!(
                    "type '{}' does not provide the member '{what}' that interface '{}' requires",
                    self.shown(ty),
                    interface
                );
                Diagnostic::error("E38100", self.name_span(decl), message)
            }
        };
        self.report(diagnostic.note(self.name_span(required.decl), "required here"));
    }
}
