//! Packs bit-fields: `uint a : 5;` stands for a property over a hidden field of the struct. The properties and
//! hidden fields are added beside the tree, and are the members of the struct in place of the bit-fields.
//!
//! Consecutive bit-fields share a *word*, with the first in its lowest bits. A word is as wide as the widest
//! type of its fields. A field that would extend beyond the end of the word begins a new one. A field of zero
//! bits, or a non-static variable that is not a bit-field, ends the word. With [`Program::has_high_bit_fields`] a word
//! has the type of its fields, so that a field of another size begins a new one, and is filled from its highest bit
//! downwards. The word is private, so initialiser
//! lists skip it, as they skip the bit-fields themselves.

use syntax::ast::{AccessorKind, Decl, DeclKind, ExprKind, Modifiers, StmtKind};
use syntax::{DeclId, ExprId, Span, Symbol};

use crate::program::Program;
use crate::types::Scalar;

/// The beginning of the names of words.
pub(crate) const WORD: &str = "__bits";

/// A bit-field, as declared.
#[derive(Clone, Copy, Debug)]
struct BitField {
    decl: DeclId,
    ty: ExprId,
    /// The name that the type is written with.
    ty_name: Symbol,
    width: u32,
    /// The number of bits of the type, and below, whether it is signed.
    bits: u32,
    signed: bool,
}

impl Program {
    /// The bit-field that a member declares, if its type and width are right.
    fn bit_field(&mut self, member: DeclId) -> Option<BitField> {
        let width = *self.ast.bit_widths.get(&member)?;
        let DeclKind::Var { ty: Some(ty), .. } = self.ast.decls[member].kind else { return None };
        let ExprKind::Int { value, .. } = self.ast.exprs[width].kind else { return None };
        let name = match self.ast.exprs[ty].kind {
            ExprKind::Name(name) => self.integer_alias(name, self.span(ty)).map(|found| (name, found)),
            _ => None,
        };
        let Some((ty_name, (bits, signed))) = name else {
            self.error("E31301", self.span(ty), "a bit-field has to be of an integer type");
            return None;
        };
        if value > u64::from(bits) {
            let message = format!("a bit-field of {value} bits is wider than its type, which has {bits}");
            self.error("E31300", self.span(width), message);
            return None;
        }
        Some(BitField { decl: member, ty, ty_name, width: value as u32, bits, signed })
    }

    /// The integer type that a name stands for in this file, either directly or through `typedef` and
    /// `typealias`. The names of the module are not known yet.
    fn integer_alias(&self, mut name: Symbol, within: Span) -> Option<(u32, bool)> {
        for _ in 0..8 {
            if let Some(scalar) = Scalar::by_name(self.ast.name(name)) {
                return (!scalar.is_float() && !scalar.is_stored())
                    .then_some((8 * scalar.size(), scalar.is_signed()));
            }
            let here = |d: &&syntax::ast::Decl| d.name == name && d.span.file == within.file;
            name = self.ast.decls.values().filter(here).find_map(|d| match d.kind {
                DeclKind::TypeAlias(ty) => match self.ast.exprs[ty].kind {
                    ExprKind::Name(name) => Some(name),
                    _ => None,
                },
                _ => None,
            })?;
        }
        None
    }

    /// Makes properties and words of the bit-fields among a struct's members.
    pub(crate) fn pack_bit_fields(&mut self, id: DeclId) {
        if self.ast.bit_widths.is_empty() {
            return;
        }
        let DeclKind::Struct { members, .. } = self.ast.decls[id].kind.clone() else { return };
        if !members.iter().any(|member| self.ast.bit_widths.contains_key(member)) {
            return;
        }
        let mut out = Vec::new();
        let mut word: Vec<BitField> = Vec::new();
        let (mut used, mut bits, mut n_words) = (0, 0, 0);
        for member in members {
            let field = self.bit_field(member);
            let ends = match &field {
                None => {
                    let decl = &self.ast.decls[member];
                    matches!(decl.kind, DeclKind::Var { .. }) && !decl.modifiers.has(Modifiers::STATIC)
                }
                Some(f) if self.has_high_bit_fields => {
                    f.width == 0 || !word.is_empty() && f.bits != bits || used + f.width > f.bits
                }
                Some(f) => f.width == 0 || used + f.width > bits.max(f.bits),
            };
            if ends {
                self.close_word(id, &mut word, bits, &mut n_words, &mut out);
                (used, bits) = (0, 0);
            }
            match field {
                None => out.push(member),
                // A field of zero bits is always zero.
                Some(f) if f.width == 0 => {
                    let zero = format!("{}(0)", self.ast.name(f.ty_name));
                    out.push(self.bit_property(&f, &zero, None));
                }
                Some(f) => {
                    used += f.width;
                    bits = bits.max(f.bits);
                    word.push(f);
                }
            }
        }
        self.close_word(id, &mut word, bits, &mut n_words, &mut out);
        self.made.members.insert(id, out);
    }

    /// Creates the hidden field of a word and the properties over it, whose accessors are written as text.
    fn close_word(
        &mut self,
        id: DeclId,
        fields: &mut Vec<BitField>,
        bits: u32,
        n_words: &mut u32,
        out: &mut Vec<DeclId>,
    ) {
        let Some(first) = fields.first() else { return };
        let span = self.name_span(first.decl);
        let (word, whole) = (format!("{WORD}{n_words}"), format!("uint{bits}_t"));
        *n_words += 1;
        let (ty, init) = (self.add_text(&whole, span), self.add_text("0", span));
        let name = self.ast.symbols.intern(&word);
        let hidden = Decl::new(DeclKind::Var { ty, init, semantic: None }, name, span, Some(id));
        out.push(self.add_decl(Decl { modifiers: Modifiers::PRIVATE, ..hidden }));
        let mut used = 0;
        for field in fields.drain(..) {
            let offset = if self.has_high_bit_fields { bits - used - field.width } else { used };
            // `get` shifts the field's bits to the top and back down, which extends the sign; `set` combines the
            // other bits with those of the new value.
            let (up, down) = (bits - offset - field.width, bits - field.width);
            let sign = if field.signed { "" } else { "u" };
            let own = u64::MAX >> (64 - field.width);
            let others = !(own << offset) & (u64::MAX >> (64 - bits));
            let get =
                format!("{}({sign}int{bits}_t({word} << {up}) >> {down})", self.ast.name(field.ty_name));
            let of_field = format!("({whole}(newValue) & {whole}({own}ull)) << {offset}");
            let set = format!("{word} = {whole}({word} & {whole}({others}ull) | {of_field})");
            out.push(self.bit_property(&field, &get, Some(&set)));
            used += field.width;
        }
    }

    /// The property that stands for a bit-field, with these expressions as accessors.
    fn bit_property(&mut self, field: &BitField, get: &str, set: Option<&str>) -> DeclId {
        let span = self.name_span(field.decl);
        let property = Decl { kind: DeclKind::Empty, ..self.ast.decls[field.decl].clone() };
        let property = self.add_decl(property);
        let get = StmtKind::Return(self.add_text(get, span));
        let set = set.and_then(|set| self.add_text(set, span)).map_or(StmtKind::Empty, StmtKind::Expr);
        let mut accessors = Vec::new();
        for (kind, body) in [(AccessorKind::Get, get), (AccessorKind::Set, set)] {
            let body = Some(self.add_block(body, span));
            let accessor = self.add_owner(kind.word(), span, property);
            self.complete(accessor, DeclKind::Accessor { kind, param: None, body });
            // The other fields of the object keep their derivatives.
            self.made.differentiable.insert(accessor);
            accessors.push(accessor);
        }
        self.complete(property, DeclKind::Property { ty: field.ty, accessors });
        property
    }
}
