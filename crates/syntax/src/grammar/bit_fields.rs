//! Desugars bit-fields: `uint a : 5;` becomes a property over a hidden field of the struct.
//!
//! Consecutive bit-fields share a *word*, with the first in its lowest bits. A word is as wide as the widest
//! type of its fields. A field that would extend beyond the end of the word begins a new one. A field of zero
//! bits, or a non-static variable that is not a bit-field, ends the word. The word is private, so initialiser
//! lists skip it, as they skip the bit-fields themselves.

use crate::Span;
use crate::ast::*;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::token::TokenKind as T;

/// A parsed bit-field: a variable that has yet to be turned into a property.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitField {
    decl: DeclId,
    ty: ExprId,
    width: u32,
    /// The number of bits of the type, and below, whether it is signed.
    bits: u32,
    signed: bool,
}

/// The width and signedness of an integer type, given its name.
fn integer(name: &str) -> Option<(u32, bool)> {
    Some(match name {
        "int8_t" => (8, true),
        "uint8_t" | "bool" => (8, false),
        "int16_t" | "short" => (16, true),
        "uint16_t" | "ushort" => (16, false),
        "int" | "int32_t" => (32, true),
        "uint" | "uint32_t" | "dword" => (32, false),
        "int64_t" | "long" | "longlong" | "intptr_t" => (64, true),
        "uint64_t" | "ulong" | "ulonglong" | "uintptr_t" => (64, false),
        _ => return None,
    })
}

impl Parser<'_> {
    /// Parses `: width` of a field; the field is kept until its struct ends.
    pub(crate) fn bit_field(&mut self, decl: DeclId, ty: ExprId) {
        let colon = self.bump().span;
        let width = self.ternary_expr();
        let span = self.ast.exprs[width].span;
        if self.parent.is_none() || self.parent != self.bit_owner {
            return self.follow_up("E0013", colon, "a bit-field has to be a member of a struct");
        }
        let ExprKind::Int { value, .. } = self.ast.exprs[width].kind else {
            return self.error("E0013", colon, "the width of a bit-field has to be a number");
        };
        let name = match self.ast.exprs[ty].kind {
            ExprKind::Name(name) => self.integer_alias(name),
            _ => None,
        };
        let Some((bits, signed)) = name else {
            let span = self.ast.exprs[ty].span;
            return self.error("E31301", span, "a bit-field has to be of an integer type");
        };
        if value > u64::from(bits) {
            let message = format!("a bit-field of {value} bits is wider than its type, which has {bits}");
            return self.error("E31300", span, message);
        }
        self.bit_fields.push(BitField { decl, ty, width: value as u32, bits, signed });
    }

    /// The integer type that a name stands for in this file, either directly or through `typedef` and
    /// `typealias`.
    fn integer_alias(&self, name: Symbol) -> Option<(u32, bool)> {
        let mut name = name;
        for _ in 0..8 {
            if let Some(found) = integer(self.ast.name(name)) {
                return Some(found);
            }
            let next = (0..self.n_tokens()).find_map(|at| match self.word_at(at) {
                kw::TYPEDEF if self.word_at(at + 2) == name => Some(self.word_at(at + 1)),
                kw::TYPEALIAS if self.word_at(at + 1) == name && self.at(at + 2).kind == T::Eq => {
                    Some(self.word_at(at + 3))
                }
                _ => None,
            })?;
            name = next;
        }
        None
    }

    /// Turns the bit-fields among a struct's members into properties and words.
    pub(crate) fn pack_bit_fields(
        &mut self,
        id: DeclId,
        members: Vec<DeclId>,
        fields: &[BitField],
    ) -> Vec<DeclId> {
        if fields.is_empty() {
            return members;
        }
        let mut out = Vec::with_capacity(members.len() + fields.len());
        let mut word: Vec<BitField> = Vec::new();
        let (mut used, mut bits, mut n_words) = (0, 0, 0);
        for member in members {
            let field = fields.iter().find(|f| f.decl == member);
            let ends = match field {
                None => {
                    let decl = &self.ast.decls[member];
                    matches!(decl.kind, DeclKind::Var { .. }) && !decl.modifiers.has(Modifiers::STATIC)
                }
                Some(f) => f.width == 0 || used + f.width > bits.max(f.bits),
            };
            if ends {
                self.close_word(id, &mut word, bits, &mut n_words, &mut out);
                (used, bits) = (0, 0);
            }
            match field {
                None => out.push(member),
                Some(f) if f.width == 0 => self.empty_bit_field(f, &mut out),
                Some(f) => {
                    used += f.width;
                    bits = bits.max(f.bits);
                    word.push(*f);
                }
            }
        }
        self.close_word(id, &mut word, bits, &mut n_words, &mut out);
        out
    }

    /// Creates the hidden field of a word and the properties over it.
    fn close_word(
        &mut self,
        id: DeclId,
        word: &mut Vec<BitField>,
        bits: u32,
        n_words: &mut u32,
        out: &mut Vec<DeclId>,
    ) {
        let Some(first) = word.first() else { return };
        let span = self.ast.decls[first.decl].name_span;
        let name = self.ast.symbols.intern(&format!("$bits{n_words}"));
        *n_words += 1;
        let hidden = self.inside(id, |p| p.new_decl(span));
        let ty = self.named(&format!("uint{bits}_t"), span);
        let zero = self.number(0, span);
        self.name_decl(hidden, name, span);
        self.ast.decls[hidden].kind = DeclKind::Var { ty: Some(ty), init: Some(zero), semantic: None };
        self.ast.decls[hidden].modifiers = Modifiers::PRIVATE;
        out.push(hidden);
        let mut offset = 0;
        for field in word.drain(..) {
            let span = self.ast.decls[field.decl].name_span;
            // `get`: shifts the field's bits to the top and back down, which extends the sign.
            let whole = self.name_expr(name, span);
            let up = self.shift(BinaryOp::Shl, whole, bits - offset - field.width, span);
            let sign = if field.signed { "" } else { "u" };
            let up = self.cast_to(&format!("{sign}int{bits}_t"), up, span);
            let down = self.shift(BinaryOp::Shr, up, bits - field.width, span);
            let value = self.ast.exprs.push(Expr { kind: ExprKind::Cast(field.ty, down), span });
            let get = self.ast.stmts.push(Stmt {
                kind: StmtKind::Return(Some(value)),
                attributes: Vec::new(),
                span,
            });
            // `set`: combines the other bits with those of the new value.
            let own = u64::MAX >> (64 - field.width);
            let whole = self.name_expr(name, span);
            let others = self.number(!(own << offset) & (u64::MAX >> (64 - bits)), span);
            let others = self.cast_to(&format!("uint{bits}_t"), others, span);
            let others = self.binary(BinaryOp::BitAnd, whole, others, span);
            let value = self.name_expr(kw::NEW_VALUE, span);
            let value = self.cast_to(&format!("uint{bits}_t"), value, span);
            let own = self.number(own, span);
            let own = self.cast_to(&format!("uint{bits}_t"), own, span);
            let value = self.binary(BinaryOp::BitAnd, value, own, span);
            let value = self.shift(BinaryOp::Shl, value, offset, span);
            let value = self.binary(BinaryOp::BitOr, others, value, span);
            let value = self.cast_to(&format!("uint{bits}_t"), value, span);
            let whole = self.name_expr(name, span);
            let set = self.ast.exprs.push(Expr { kind: ExprKind::Assign(None, whole, value), span });
            let set = self.ast.stmts.push(Stmt { kind: StmtKind::Expr(set), attributes: Vec::new(), span });
            self.bit_property(&field, get, set);
            out.push(field.decl);
            offset += field.width;
        }
    }

    /// A field of zero bits is always zero.
    fn empty_bit_field(&mut self, field: &BitField, out: &mut Vec<DeclId>) {
        let span = self.ast.decls[field.decl].name_span;
        let zero = self.number(0, span);
        let zero = self.ast.exprs.push(Expr { kind: ExprKind::Cast(field.ty, zero), span });
        let get =
            self.ast.stmts.push(Stmt { kind: StmtKind::Return(Some(zero)), attributes: Vec::new(), span });
        let set = self.ast.stmts.push(Stmt { kind: StmtKind::Empty, attributes: Vec::new(), span });
        self.bit_property(field, get, set);
        out.push(field.decl);
    }

    fn bit_property(&mut self, field: &BitField, get: StmtId, set: StmtId) {
        let span = self.ast.decls[field.decl].name_span;
        let mut accessors = Vec::new();
        for (kind, name, body) in [(AccessorKind::Get, kw::GET, get), (AccessorKind::Set, kw::SET, set)] {
            let id = self.inside(field.decl, |p| p.new_decl(span));
            let param = (kind == AccessorKind::Set).then(|| self.implicit_param(id, span));
            let body =
                self.ast.stmts.push(Stmt { kind: StmtKind::Block(vec![body]), attributes: Vec::new(), span });
            self.ast.decls[id].kind = DeclKind::Accessor { kind, param, body: Some(body) };
            self.ast.decls[id].name = name;
            accessors.push(id);
        }
        self.ast.decls[field.decl].kind = DeclKind::Property { ty: field.ty, accessors };
    }

    fn name_expr(&mut self, name: Symbol, span: Span) -> ExprId {
        self.ast.exprs.push(Expr { kind: ExprKind::Name(name), span })
    }

    fn named(&mut self, name: &str, span: Span) -> ExprId {
        let name = self.ast.symbols.intern(name);
        self.name_expr(name, span)
    }

    fn number(&mut self, value: u64, span: Span) -> ExprId {
        let suffix = if value <= i32::MAX as u64 { kw::EMPTY } else { kw::ULL };
        self.ast.exprs.push(Expr { kind: ExprKind::Int { value, suffix }, span })
    }

    fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId, span: Span) -> ExprId {
        self.ast.exprs.push(Expr { kind: ExprKind::Binary(op, a, b), span })
    }

    fn shift(&mut self, op: BinaryOp, a: ExprId, by: u32, span: Span) -> ExprId {
        let by = self.number(u64::from(by), span);
        self.binary(op, a, by, span)
    }

    fn cast_to(&mut self, ty: &str, e: ExprId, span: Span) -> ExprId {
        let ty = self.named(ty, span);
        self.ast.exprs.push(Expr { kind: ExprKind::Cast(ty, e), span })
    }
}
