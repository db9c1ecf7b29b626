//! Computes the differential of each type: `T ↦ T.Differential`.
//!
//! Floating-point scalars, vectors and matrices are their own differentials. Arrays, tuples, optionals and
//! pairs map part by part. A struct that conforms to `IDifferentiable` has the differential that its author
//! names, or one synthesised from its differentiable fields; if the synthesised one would have exactly the
//! struct's own fields, the struct is its own differential.

use syntax::ast::{DeclKind, Modifiers};
use syntax::{DeclId, ExprId, keywords as kw};

use crate::exprs::infer::Checker;
use crate::facts::Magic;
use crate::names::enter::last_name;
use crate::program::Program;
use crate::signature::DiffFieldTarget;
use crate::tables::Meaning;
use crate::types::{GenericArg, Ty, TyKind};

impl Program {
    /// The `Differential` of a type; `None` if it is not differentiable.
    pub fn differential(&mut self, ty: Ty) -> Option<Ty> {
        if let Some(&found) = self.queries.differentials.get(&ty) {
            return found;
        }
        let result = match self.types[ty].clone() {
            TyKind::Scalar(scalar) => scalar.is_float().then_some(ty),
            TyKind::Vector(element, _, _) | TyKind::Matrix(element, ..) => {
                // Components are numbers, and the differential of a number is itself: a component of a type that is not
                // known yet can only become one.
                let own = self.differential(element)?;
                (own == element || self.types.is_abstract(element)).then_some(ty)
            }
            kind @ (TyKind::Array(part, _) | TyKind::Optional(part) | TyKind::DiffPair(part)) => {
                let differential = self.differential(part)?;
                let rest = kind.parts().into_iter().skip(1);
                let parts = std::iter::once(GenericArg::Type(differential)).chain(rest).collect();
                Some(self.types.intern(kind.with_parts(parts)))
            }
            TyKind::SynthDiff(_) => Some(ty),
            TyKind::Laid(content, _) => self.differential(content),
            TyKind::Struct(decl, _) => {
                // A struct may be part of its own differential: during the computation it counts as its own
                // differential.
                self.queries.differentials.begin_as(&ty, Some(ty));
                let is_declared = self.declares(ty, Magic::Differentiable);
                let result = is_declared.then(|| self.struct_differential(ty, decl));
                if self.queries.facets.open().len() > 0 {
                    self.queries.differentials.end(&ty);
                    self.queries.differentials.forget(&ty);
                } else {
                    self.queries.differentials.finish(&ty, result);
                }
                return result;
            }
            TyKind::Param(param) if self.is_pack_param(param) => {
                let element = self.each_of(ty)?;
                let element = self.differential(element)?;
                Some(self.expand_of(element, &GenericArg::Type(ty)))
            }
            TyKind::Expand(pattern, shape) => {
                let element = self.differential(pattern)?;
                Some(self.expand_of(element, &shape))
            }
            TyKind::PackPart(part, pack) if !part.is_element() => {
                let pack = self.differential(pack)?;
                self.part_of_pack(part, &GenericArg::Type(pack)).map(GenericArg::ty)
            }
            ref kind @ (TyKind::Tuple(ref parts) | TyKind::Pack(ref parts)) => {
                let parts = parts.iter().map(|&t| self.differential(t)).collect::<Option<Vec<Ty>>>()?;
                let is_tuple = matches!(kind, TyKind::Tuple(_));
                Some(if is_tuple { self.tuple_of(parts) } else { self.pack_of(parts) })
            }
            TyKind::Param(_)
            | TyKind::This(_)
            | TyKind::Assoc(..)
            | TyKind::Interface(..)
            | TyKind::PackPart(..)
            | TyKind::PackBranch(..)
            | TyKind::Each(_) => {
                let promised = |p: &mut Program| p.promised_differential(ty, Magic::Differentiable);
                return if self.is_float_kind(ty) { Some(ty) } else { promised(self) };
            }
            TyKind::Error => return Some(ty),
            TyKind::Void
            | TyKind::Enum(_)
            | TyKind::DiffPtrPair(_)
            | TyKind::Pointer(..)
            | TyKind::Buffer(..)
            | TyKind::Opaque(..)
            | TyKind::String
            | TyKind::NullPtr
            | TyKind::NoneLiteral
            | TyKind::Function(..) => None,
        };
        // While facets are collected, what conforms is only known in part.
        if self.queries.facets.open().len() == 0 {
            self.queries.differentials.insert(ty, result);
        }
        result
    }

    /// The `Differential` that an interface promises for a type that is not known.
    pub(crate) fn promised_differential(&mut self, ty: Ty, magic: Magic) -> Option<Ty> {
        let interface = self.magic_type(magic)?;
        if !self.interfaces_of(ty).contains(&interface) {
            return None;
        }
        let assoc = self.named(self.magic_decl(magic)?, kw::DIFFERENTIAL).first().copied()?;
        Some(self.project(ty, assoc))
    }

    fn struct_differential(&mut self, ty: Ty, decl: DeclId) -> Ty {
        if let Some(named) = self.type_member(ty, kw::DIFFERENTIAL) {
            return named;
        }
        let generic = self.self_type(decl);
        let mut own = true;
        for (_, declared, no_diff) in self.fields(generic) {
            own &= !no_diff && self.differential(declared).is_some();
        }
        for (_, field_ty, no_diff) in self.fields(ty) {
            own &= !no_diff && self.differential(field_ty).is_none_or(|d| d == field_ty);
        }
        if own { ty } else { self.types.intern(TyKind::SynthDiff(ty)) }
    }

    /// The primal and the differential of a pair.
    pub(crate) fn halves(&mut self, pair: Ty) -> Option<(Ty, Ty)> {
        let (primal, differential) = match self.types[pair] {
            TyKind::DiffPair(primal) => (primal, self.differential(primal)),
            TyKind::DiffPtrPair(primal) => (primal, self.pointer_differential(primal)),
            _ => return None,
        };
        Some((primal, differential.unwrap_or(primal)))
    }

    /// The fields that a struct declares itself (without its bases), as declarations.
    pub(crate) fn own_fields(&self, decl: DeclId) -> Vec<DeclId> {
        if !matches!(self.ast.decls[decl].kind, DeclKind::Struct { .. }) {
            return Vec::new();
        }
        self.members(decl)
            .iter()
            .copied()
            .filter(|&m| {
                matches!(self.ast.decls[m].kind, DeclKind::Var { .. })
                    && !self.ast.decls[m].modifiers.has(Modifiers::STATIC)
            })
            .collect()
    }

    /// Returns true if a field, parameter or result is declared `no_diff`, before its name or in its type.
    pub(crate) fn is_no_diff(&self, decl: DeclId) -> bool {
        let d = &self.ast.decls[decl];
        if d.modifiers.has(Modifiers::NO_DIFF) {
            return true;
        }
        match &d.kind {
            DeclKind::Var { ty: Some(ty), .. }
            | DeclKind::Param { ty: Some(ty), .. }
            | DeclKind::Property { ty, .. } => self.is_no_diff_type(*ty),
            DeclKind::Func { result: Some(ty), .. } | DeclKind::Subscript { result: ty, .. } => {
                self.is_no_diff_type(*ty)
            }
            DeclKind::Accessor { .. } => d.parent.is_some_and(|p| self.is_no_diff(p)),
            _ => false,
        }
    }

    /// Returns true if a type, or the element type of an array, is marked `no_diff`.
    fn is_no_diff_type(&self, ty: ExprId) -> bool {
        match &self.ast.exprs[ty].kind {
            syntax::ast::ExprKind::Modified(modifiers, inner) => {
                modifiers.has(Modifiers::NO_DIFF) || self.is_no_diff_type(*inner)
            }
            syntax::ast::ExprKind::Index { base, .. } | syntax::ast::ExprKind::Paren(base) => {
                self.is_no_diff_type(*base)
            }
            syntax::ast::ExprKind::NoDiff(_) => true,
            _ => false,
        }
    }

    /// The structs that a struct inherits from.
    pub fn base_structs(&mut self, ty: Ty) -> Vec<Ty> {
        let TyKind::Struct(decl, args) = self.types[ty].clone() else { return Vec::new() };
        let env = self.subst(decl, &args, None);
        let bases = self.bases_of(decl);
        let structs = bases.iter().filter(|&&b| matches!(self.types[b], TyKind::Struct(..)) && b != ty);
        let structs: Vec<Ty> = structs.copied().collect();
        structs.into_iter().map(|base| self.substitute(base, &env)).collect()
    }

    /// The fields of a struct (or of a synthesised differential, by primal fields), those of base structs
    /// first: declaration, type, and true if the field is `no_diff`. Empty if the type has too many parts.
    pub fn fields(&mut self, ty: Ty) -> Vec<(DeclId, Ty, bool)> {
        if self.is_too_large(ty) {
            return Vec::new();
        }
        match self.types[ty].clone() {
            TyKind::Struct(decl, args) => {
                let env = self.subst(decl, &args, None);
                let mut out = Vec::new();
                for base in self.base_structs(ty) {
                    out.extend(self.fields(base));
                }
                for field in self.own_fields(decl) {
                    let declared = self.decl_type(field);
                    out.push((field, self.substitute(declared, &env), self.is_no_diff(field)));
                }
                out
            }
            TyKind::SynthDiff(primal) => {
                let mut out = Vec::new();
                for field in self.differentiable_fields(primal) {
                    if let Some(differential) = self.differential(field.1) {
                        out.push((field.0, differential, false));
                    }
                }
                out
            }
            _ => Vec::new(),
        }
    }

    /// The fields that carry derivatives, judged by their declared types. If a struct is its own
    /// differential, all of its fields have their place in it, whatever is known of them at the declaration:
    /// an extension may have added constraints on `T`.
    fn differentiable_fields(&mut self, ty: Ty) -> Vec<(DeclId, Ty)> {
        let TyKind::Struct(decl, _) = self.types[ty] else { return Vec::new() };
        let fields = self.fields(ty);
        let declared = if self.differential(ty) == Some(ty) {
            fields.clone()
        } else {
            let generic = self.self_type(decl);
            self.fields(generic)
        };
        declared
            .into_iter()
            .zip(fields)
            .filter(|(declared, _)| !declared.2 && self.differential(declared.1).is_some())
            .map(|(_, field)| (field.0, field.1))
            .collect()
    }

    /// The differentiable fields of a struct and the locations of their differentials in `T.Differential`.
    pub fn diff_fields(&mut self, ty: Ty) -> Vec<(DeclId, DiffFieldTarget)> {
        if let TyKind::SynthDiff(_) = self.types[ty] {
            return self.fields(ty).into_iter().map(|f| (f.0, DiffFieldTarget::Synth(f.0))).collect();
        }
        let Some(differential) = self.differential(ty) else { return Vec::new() };
        if let TyKind::Struct(decl, _) = self.types[ty] {
            let own = self.self_type(decl);
            self.check_differential(decl, own);
        }
        let fields = self.differentiable_fields(ty);
        let mut out = Vec::new();
        for (field, _) in fields {
            let target = match self.types[differential] {
                TyKind::SynthDiff(_) => Some(DiffFieldTarget::Synth(field)),
                _ => match self.derivative_member(field) {
                    Some(member) => Some(DiffFieldTarget::Member(member)),
                    None if differential == ty => Some(DiffFieldTarget::Same(field)),
                    None => {
                        let name = self.ast.decls[field].name;
                        self.fields(differential)
                            .into_iter()
                            .find(|f| self.ast.decls[f.0].name == name)
                            .map(|f| DiffFieldTarget::Member(f.0))
                    }
                },
            };
            out.extend(target.map(|target| (field, target)));
        }
        out
    }

    /// The field named by `[DerivativeMember(D.f)]`.
    pub(crate) fn derivative_member(&mut self, field: DeclId) -> Option<DeclId> {
        let expr = *self.attribute(field, "DerivativeMember")?.args.first()?;
        self.quietly(|p| Checker::new(p, field).infer(expr, None));
        if let Meaning::Field { field, .. } | Meaning::DiffField { field, .. } =
            self.tables.exprs[expr].meaning
        {
            return Some(field);
        }
        // The field is named through a type whose declaration is in progress, so it is looked up by name.
        let name = last_name(&self.ast, expr)?;
        let container = self.container_of(field)?;
        let ty = self.self_type(container);
        let differential = self.differential(ty)?;
        self.fields(differential).into_iter().find(|f| self.ast.decls[f.0].name == name).map(|f| f.0)
    }
}
