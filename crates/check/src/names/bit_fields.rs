//! Packs bit-fields: `uint a : 5;` is a property over a hidden field of the struct.
//!
//! Consecutive bit-fields share a *word*, with the first in its lowest bits. A word is as wide as the widest
//! type of its fields. A field that would extend beyond the end of the word begins a new one. A field of zero
//! bits, or a non-static variable that is not a bit-field, ends the word. The word is private, so initialiser
//! lists skip it, as they skip the bit-fields themselves.

use syntax::ast::{AccessorKind, BinaryOp, DeclKind, Expr, ExprKind, Modifiers, Stmt, StmtKind};
use syntax::{DeclId, ExprId, Span, StmtId, Symbol};

use crate::program::Program;

/// A bit-field that has yet to be turned into a property.
#[derive(Clone, Copy, Debug)]
struct BitField {
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

impl Program {
    /// The bit-field that a member declares, if its type and width are right.
    fn bit_field(&mut self, member: DeclId) -> Option<BitField> {
        let width = *self.ast.bit_widths.get(&member)?;
        let DeclKind::Var { ty: Some(ty), .. } = self.ast.decls[member].kind else { return None };
        let ExprKind::Int { value, .. } = self.ast.exprs[width].kind else { return None };
        let name = match self.ast.exprs[ty].kind {
            ExprKind::Name(name) => self.integer_alias(name, self.ast.exprs[ty].span),
            _ => None,
        };
        let Some((bits, signed)) = name else {
            self.error("E31301", self.span(ty), "a bit-field has to be of an integer type");
            return None;
        };
        if value > u64::from(bits) {
            let message = format!("a bit-field of {value} bits is wider than its type, which has {bits}");
            self.error("E31300", self.span(width), message);
            return None;
        }
        Some(BitField { decl: member, ty, width: value as u32, bits, signed })
    }

    /// The integer type that a name stands for in this file, either directly or through `typedef` and
    /// `typealias`. The names of the module are not known yet.
    fn integer_alias(&self, mut name: Symbol, within: Span) -> Option<(u32, bool)> {
        for _ in 0..8 {
            if let Some(found) = integer(self.ast.name(name)) {
                return Some(found);
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

    /// Turns the bit-fields among a struct's members into properties and words.
    pub(crate) fn pack_bit_fields(&mut self, id: DeclId) {
        if self.ast.bit_widths.is_empty() {
            return;
        }
        let DeclKind::Struct { bases, members } = self.ast.decls[id].kind.clone() else { return };
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
                Some(f) => f.width == 0 || used + f.width > bits.max(f.bits),
            };
            if ends {
                self.close_word(id, &mut word, bits, &mut n_words, &mut out);
                (used, bits) = (0, 0);
            }
            match field {
                None => out.push(member),
                Some(f) if f.width == 0 => self.empty_bit_field(&f, &mut out),
                Some(f) => {
                    used += f.width;
                    bits = bits.max(f.bits);
                    word.push(f);
                }
            }
        }
        self.close_word(id, &mut word, bits, &mut n_words, &mut out);
        self.ast.decls[id].kind = DeclKind::Struct { bases, members: out };
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
        let ty = self.type_named(&format!("uint{bits}_t"), span);
        let zero = self.number(0, span);
        let kind = DeclKind::Var { ty: Some(ty), init: Some(zero), semantic: None };
        let hidden = self.ast.new_decl(kind, name, span, Some(id));
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
            let get = self.made_stmt(StmtKind::Return(Some(value)), span);
            // `set`: combines the other bits with those of the new value.
            let own = u64::MAX >> (64 - field.width);
            let whole = self.name_expr(name, span);
            let others = self.number(!(own << offset) & (u64::MAX >> (64 - bits)), span);
            let others = self.cast_to(&format!("uint{bits}_t"), others, span);
            let others = self.binary(BinaryOp::BitAnd, whole, others, span);
            let value = self.name_expr(self.words.new_value, span);
            let value = self.cast_to(&format!("uint{bits}_t"), value, span);
            let own = self.number(own, span);
            let own = self.cast_to(&format!("uint{bits}_t"), own, span);
            let value = self.binary(BinaryOp::BitAnd, value, own, span);
            let value = self.shift(BinaryOp::Shl, value, offset, span);
            let value = self.binary(BinaryOp::BitOr, others, value, span);
            let value = self.cast_to(&format!("uint{bits}_t"), value, span);
            let whole = self.name_expr(name, span);
            let set = self.ast.exprs.push(Expr { kind: ExprKind::Assign(None, whole, value), span });
            let set = self.made_stmt(StmtKind::Expr(set), span);
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
        let get = self.made_stmt(StmtKind::Return(Some(zero)), span);
        let set = self.made_stmt(StmtKind::Empty, span);
        self.bit_property(field, get, set);
        out.push(field.decl);
    }

    fn bit_property(&mut self, field: &BitField, get: StmtId, set: StmtId) {
        let span = self.ast.decls[field.decl].name_span;
        let mut accessors = Vec::new();
        for (kind, name, body) in [(AccessorKind::Get, "get", get), (AccessorKind::Set, "set", set)] {
            let body = self.made_stmt(StmtKind::Block(vec![body]), span);
            let name = self.ast.symbols.intern(name);
            let id = self.ast.new_decl(DeclKind::Empty, name, span, Some(field.decl));
            let param = (kind == AccessorKind::Set).then(|| {
                let kind = DeclKind::Param { ty: None, default: None, semantic: None };
                self.ast.new_decl(kind, self.words.new_value, span, Some(id))
            });
            self.ast.decls[id].kind = DeclKind::Accessor { kind, param, body: Some(body) };
            accessors.push(id);
        }
        self.ast.decls[field.decl].kind = DeclKind::Property { ty: field.ty, accessors };
    }

    fn made_stmt(&mut self, kind: StmtKind, span: Span) -> StmtId {
        self.ast.stmts.push(Stmt { kind, attributes: Vec::new(), span })
    }

    fn name_expr(&mut self, name: Symbol, span: Span) -> ExprId {
        self.ast.exprs.push(Expr { kind: ExprKind::Name(name), span })
    }

    fn type_named(&mut self, name: &str, span: Span) -> ExprId {
        let name = self.ast.symbols.intern(name);
        self.name_expr(name, span)
    }

    fn number(&mut self, value: u64, span: Span) -> ExprId {
        let suffix = self.ast.symbols.intern(if value <= i32::MAX as u64 { "" } else { "ull" });
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
        let ty = self.type_named(ty, span);
        self.ast.exprs.push(Expr { kind: ExprKind::Cast(ty, e), span })
    }
}
