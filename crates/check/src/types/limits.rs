//! Limits the growth of types and searches: generic code can describe types without end, and types that are
//! short to write but exceed any memory.
//!
//! A type is a term of other types. Its nesting and its number of parts, as a tree, are known once it is
//! made. Code that makes larger types from smaller ones on the user's behalf queries both, and refuses types
//! beyond [`MAX_PARTS`] or [`MAX_NESTING`]. A search that asks for ever larger types ends after
//! [`MAX_SEARCH_DEPTH`] nested queries, or [`MAX_SEARCH_STEPS`] in total.
//!
//! A value of a short type may also have an unbounded number of parts: let each of forty structs have two
//! fields of the previous struct's type. Such a struct ([`MAX_LEAVES`]) is refused, and walks over its fields
//! find none.

use rustc_hash::FxHashMap;
use syntax::{DeclId, Diagnostic, Severity};

use crate::facts::Extent;
use crate::program::Program;
use crate::tables::FuncRef;
use crate::types::follow_up::text;
use crate::types::{Part, Ty, TyKind, types_of};

/// The maximum nesting of the generic arguments of a called function.
pub const MAX_NESTING: u32 = 100;
/// The maximum number of parts of a type.
pub const MAX_PARTS: u32 = 1 << 13;
/// The maximum number of scalars, vectors, matrices, pointers and the like in a value; an array counts as one
/// element.
pub const MAX_LEAVES: u32 = 1 << 13;
/// The maximum depth of conformance queries that depend on each other.
const MAX_SEARCH_DEPTH: usize = 64;
/// The maximum number of such queries that one query may lead to.
const MAX_SEARCH_STEPS: u32 = 20_000;

/// The state of a count of parts: the maximum nesting of types reached through fields, the types visited so
/// far, and the structs whose fields are being walked.
struct Count {
    deepest: u32,
    seen: FxHashMap<Ty, (u32, bool)>,
    open: Vec<DeclId>,
}

impl Program {
    /// The extent of the types in a function's generic arguments.
    pub fn extent_of_arguments(&mut self, func: &FuncRef) -> Extent {
        let types: Vec<Ty> = types_of(&func.args).chain(func.self_ty).collect();
        let mut all = Extent::default();
        for ty in types {
            let own = self.extent(ty);
            all = Extent { nesting: all.nesting.max(own.nesting), parts: all.parts.max(own.parts) };
        }
        all
    }

    /// The extent of a type. Types are built bottom-up, so that the extents of the parts are known.
    pub(crate) fn extent(&mut self, ty: Ty) -> Extent {
        if let Some(&known) = self.queries.extents.get(&ty) {
            return known;
        }
        let mut parts = Vec::new();
        self.types[ty].for_each_part(&mut |part| {
            if let Part::Type(part) = part {
                parts.push(part);
            }
        });
        // A pack that grows without end is as harmful as a type that does.
        let width = if let TyKind::Pack(parts) = &self.types[ty] { parts.len() as u32 / 4 } else { 0 };
        let mut all = Extent { nesting: width, parts: 1 };
        for part in parts {
            let own = self.extent(part);
            all.nesting = all.nesting.max(own.nesting + 1);
            all.parts = all.parts.saturating_add(own.parts);
        }
        self.queries.extents.insert(ty, all);
        all
    }

    /// Returns true, after reporting the struct, if a value of a struct type has too many parts.
    pub(crate) fn is_too_large(&mut self, ty: Ty) -> bool {
        let TyKind::Struct(decl, _) = self.types[ty] else { return false };
        let deepest = self.extent(ty).nesting + MAX_NESTING;
        let mut count = Count { deepest, seen: FxHashMap::default(), open: Vec::new() };
        let is_too_large = self.leaves(ty, &mut count).0 > MAX_LEAVES;
        if is_too_large {
            let message = text!("a value of type `{}` has more than 8,192 parts", self.shown(ty));
            let help = "an array counts as one of its elements: put what is alike in arrays";
            // There is no separate record of the report, since diagnostics of a failed attempt are taken back.
            let error = Diagnostic::error("E0901", self.name_span(decl), message).help(help);
            // A struct that grows without end does so by one field.
            let field = self.own_fields(decl).into_iter().find(|&field| {
                let declared = self.decl_type(field);
                self.mentions_struct(declared, decl)
            });
            self.report_once(match field {
                Some(field) => error.note(self.name_span(field), "by this field"),
                None => error,
            });
        }
        is_too_large
    }

    /// Returns true if a struct occurs in a type as it is written.
    fn mentions_struct(&self, ty: Ty, decl: DeclId) -> bool {
        let kind = &self.types[ty];
        let mut found = matches!(kind, TyKind::Struct(of, _) if *of == decl);
        kind.for_each_part(&mut |part| {
            if let Part::Type(part) = part {
                found = found || self.mentions_struct(part, decl);
            }
        });
        found
    }

    /// Returns true if a type was reported as too large; functions may then request ever larger types.
    pub fn has_endless_type(&self) -> bool {
        self.diagnostics.iter().any(|d| d.code == "E0901" && d.severity == Severity::Error)
    }

    /// Returns the number of parts of a value, saturated just above [`MAX_LEAVES`], and true if that number
    /// is final. Fields whose types have not been resolved yet count as one part: resolving them here could
    /// cause a cycle. A walk over the type resolves them, so that the next count sees them.
    fn leaves(&mut self, ty: Ty, count: &mut Count) -> (u32, bool) {
        if let Some(&known) = self.queries.leaf_counts.get(&ty) {
            return (known, true);
        }
        if let Some(&found) = count.seen.get(&ty) {
            return found;
        }
        if count.seen.len() > MAX_LEAVES as usize || self.extent(ty).nesting > count.deepest {
            return (MAX_LEAVES + 1, false);
        }
        // A generic argument may lead to the same type again, or to ever larger types; these have an
        // unbounded number of parts.
        count.seen.insert(ty, (MAX_LEAVES + 1, false));
        let found = match self.types[ty].clone() {
            TyKind::Array(e, _) | TyKind::Optional(e) => self.leaves(e, count),
            TyKind::DiffPair(e) => self.sum_of_leaves(&[e, e], count),
            TyKind::Tuple(parts) => self.sum_of_leaves(&parts, count),
            TyKind::Struct(decl, args) => {
                let fields = self.own_fields(decl).into_iter();
                let known: Option<Vec<Ty>> = fields.map(|field| self.tables.decl_types[field]).collect();
                let Some(fields) = known else {
                    count.seen.insert(ty, (1, false));
                    return (1, false);
                };
                let env = self.subst(decl, &args, None);
                count.open.push(decl);
                let mut parts = Vec::new();
                let mut of_arguments = Vec::new();
                for field in fields {
                    let mut heads = Vec::new();
                    self.heads(field, &mut heads);
                    // A struct that contains itself, even with other arguments, is reported elsewhere.
                    if heads.iter().any(|head| count.open.contains(head)) {
                        continue;
                    }
                    match self.types[field] {
                        TyKind::Assoc(..) => parts.push(field),
                        _ if heads.is_empty() => of_arguments.push(self.substitute(field, &env)),
                        _ => parts.push(self.substitute(field, &env)),
                    }
                }
                let own = self.sum_of_leaves(&parts, count);
                // The parts of a generic argument may legitimately contain this struct again.
                let open = std::mem::take(&mut count.open);
                let given = self.sum_of_leaves(&of_arguments, count);
                count.open = open;
                count.open.pop();
                (own.0.saturating_add(given.0).clamp(1, MAX_LEAVES + 1), own.1 && given.1)
            }
            _ => (1, true),
        };
        count.seen.insert(ty, found);
        if found.1 {
            self.queries.leaf_counts.insert(ty, found.0);
        }
        found
    }

    fn sum_of_leaves(&mut self, parts: &[Ty], count: &mut Count) -> (u32, bool) {
        let (mut sum, mut is_known) = (0u32, true);
        for &part in parts {
            let (n, known) = self.leaves(part, count);
            sum = sum.saturating_add(n).min(MAX_LEAVES + 1);
            is_known &= known;
        }
        (sum, is_known)
    }

    /// The structs that a field's type names as parts of its values.
    fn heads(&self, ty: Ty, heads: &mut Vec<DeclId>) {
        match &self.types[ty] {
            TyKind::Struct(decl, _) => heads.push(*decl),
            TyKind::Array(e, _) | TyKind::Optional(e) | TyKind::DiffPair(e) => self.heads(*e, heads),
            TyKind::Tuple(parts) => parts.iter().for_each(|&part| self.heads(part, heads)),
            _ => {}
        }
    }

    /// Begins to decide whether a generic extension applies, which may depend on what other extensions apply
    /// to. Returns `false` if the search has gone too far. Must be paired with [`Self::end_search`].
    pub(crate) fn begin_search(&mut self, extension: DeclId) -> bool {
        if self.search.endless.is_some() {
            return false;
        }
        if self.search.open.is_empty() {
            self.search.steps = 0;
        }
        self.search.steps += 1;
        if self.search.open.len() >= MAX_SEARCH_DEPTH || self.search.steps > MAX_SEARCH_STEPS {
            let span = self.name_span(extension);
            let message = "what this extension applies to depends on ever more types";
            let help = "its constraints cannot ask for something of larger types that they give themselves";
            self.search.endless = Some(Diagnostic::error("E0901", span, message).help(help));
            return false;
        }
        self.search.open.push(extension);
        true
    }

    pub(crate) fn end_search(&mut self) {
        self.search.open.pop();
    }

    /// Reports a search that was given up, in place of the other errors, which may be wrong.
    pub fn report_endless_search(&mut self) {
        if let Some(diagnostic) = self.search.endless.clone() {
            self.diagnostics.retain(|d| d.severity != Severity::Error);
            self.diagnostics.push(diagnostic);
        }
    }
}
