//! Parses functions, parameters, initialisers, properties and subscripts.

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::token::TokenKind as T;

impl Parser<'_> {
    /// Parses a function from its parameters on; `result` is the type before the name.
    pub(crate) fn function(&mut self, id: DeclId, result: Option<ExprId>) {
        let params = self.params(id);
        let arrow = self.result_type(id);
        self.where_clauses(id);
        if let Some(semantic) = self.semantic() {
            self.ast.semantics.insert(id, semantic);
        }
        let result = arrow.or(result);
        let body = match self.body(id) {
            None => self.spirv_function(id, &params, result),
            body => body,
        };
        self.ast.decls[id].kind = DeclKind::Func { params, result, body };
    }

    /// `func f<T>(x : T) -> T { … }`
    pub(crate) fn modern_function(&mut self, id: DeclId) {
        self.bump();
        let (name, span) = if self.is_word(kw::OPERATOR) {
            let start = self.bump().span;
            (self.operator_name(), self.span_from(start))
        } else {
            self.expect_name("the function's name")
        };
        self.name_decl(id, name, span);
        self.suffix_generics(id);
        self.function(id, None);
    }

    /// `-> T` and `throws E`
    fn result_type(&mut self, id: DeclId) -> Option<ExprId> {
        self.throws(id);
        let result = self.eat(T::Arrow).then(|| self.inside(id, Self::ty));
        self.throws(id);
        result
    }

    fn throws(&mut self, id: DeclId) {
        if self.eat_word(kw::THROWS) {
            let error = self.inside(id, Self::ty);
            self.ast.throws.insert(id, error);
        }
    }

    /// `{ … }` or `;`
    fn body(&mut self, id: DeclId) -> Option<StmtId> {
        if self.is(T::LBrace) {
            return Some(self.inside(id, Self::block));
        }
        if !self.eat(T::Semi) {
            self.expected("`{` or `;`");
            if self.lacks_brace() {
                return Some(self.inside(id, |p| p.block_rest(|_| false)));
            }
            if !self.at_margin() {
                self.skip_statement();
            }
        }
        None
    }

    /// `(…)` with the parameters of `owner`
    pub(crate) fn params(&mut self, owner: DeclId) -> Vec<DeclId> {
        let open = self.span();
        // A list without a closing bracket ends where a declaration begins that is not indented.
        let is_open = self.is(T::LParen) && self.partner(self.pos()).is_none();
        if !self.expect(T::LParen) {
            return Vec::new();
        }
        if self.is_word(kw::VOID) && self.nth(1) == T::RParen {
            self.bump();
        }
        let is_past = |p: &Self| is_open && p.at_margin();
        let ends = |p: &Self| matches!(p.kind(), T::RParen | T::LBrace | T::Semi) || is_past(p);
        let params = self.inside(owner, |p| p.bracketed(|p| p.separated_until(ends, Self::param)));
        if !self.expect_list_end(T::RParen, open) && !is_past(self) {
            self.skip_past(T::RParen);
        }
        params
    }

    /// `inout float x = 1`, `x : inout float`, or only a type
    fn param(&mut self) -> DeclId {
        let start = self.span();
        let id = self.new_decl(start);
        let prefix = self.prefix(id);
        let mut modifiers = prefix.modifiers;
        let (mut ty, mut name, mut name_span) = (None, kw::EMPTY, start);
        let mut semantic = None;
        if self.is_word(kw::LET) && self.nth(1) == T::Ident {
            self.bump();
        }
        if self.is(T::Ident) && self.nth(1) == T::Colon && !self.is_nameless() {
            (name, name_span) = self.expect_name("a name");
            self.bump();
            let written = self.ty();
            ty = Some(self.take_modifiers(written, &mut modifiers));
            semantic = self.semantic();
        } else if self.is(T::Ident)
            && matches!(self.nth(1), T::FatArrow | T::RParen | T::Comma)
            && self.untyped()
        {
            // `(x) => x`
            (name, name_span) = self.expect_name("a name");
        } else {
            let base = self.ty();
            if self.is(T::Ident) {
                (name, name_span) = self.expect_name("a name");
            }
            ty = Some(self.dimensions(base));
            semantic = self.semantic();
        }
        let default = self.eat(T::Eq).then(|| self.any_expr());
        self.complete(id, start, DeclKind::Param { ty, default, semantic });
        self.name_decl(id, name, name_span);
        self.ast.decls[id].modifiers = modifiers;
        self.ast.decls[id].attributes = prefix.attributes;
        id
    }

    /// Returns true at `uint3 : SV_GroupID`, a parameter without a name: what follows the colon is no type.
    fn is_nameless(&self) -> bool {
        let word = self.ast.name(self.at(self.pos() + 2).symbol);
        word.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("SV_"))
    }

    /// Returns true if the parameter belongs to a lambda, whose parameters need no type.
    fn untyped(&self) -> bool {
        let mut pos = self.pos();
        while matches!(self.at(pos).kind, T::Ident | T::Comma) {
            pos += 1;
        }
        self.at(pos).kind == T::RParen && self.at(pos + 1).kind == T::FatArrow
    }

    /// In `x : inout T` the direction belongs to the parameter, not to the type.
    fn take_modifiers(&mut self, ty: ExprId, modifiers: &mut Modifiers) -> ExprId {
        if let ExprKind::Modified(found, inner) = self.ast.exprs[ty].kind {
            *modifiers |= found;
            return inner;
        }
        ty
    }

    /// `__init<T>(…) { … }`
    pub(crate) fn initializer(&mut self, id: DeclId) {
        let word = self.bump();
        self.name_decl(id, word.symbol, word.span);
        self.suffix_generics(id);
        let params = self.params(id);
        self.where_clauses(id);
        let body = self.body(id);
        self.ast.decls[id].kind = DeclKind::Init { params, body };
    }

    /// `__subscript<T>(…) -> T where … { get; set; }`
    pub(crate) fn subscript(&mut self, id: DeclId) {
        let word = self.bump();
        self.name_decl(id, word.symbol, word.span);
        self.suffix_generics(id);
        let params = self.params(id);
        let result = if self.eat(T::Arrow) {
            self.inside(id, Self::ty)
        } else {
            let error = Diagnostic::error("E0001", word.span, "a `__subscript` needs the type of its result");
            self.report(error.help("write `-> T` after its parameters"));
            self.expr_at(word.span, ExprKind::Error)
        };
        self.where_clauses(id);
        let accessors = self.accessors(id);
        self.ast.decls[id].kind = DeclKind::Subscript { params, result, accessors };
    }

    /// `property T p { … }`, `property p : T { … }`
    pub(crate) fn property(&mut self, id: DeclId) {
        self.bump();
        let base = self.typed_name(id, "the property's name");
        let ty = self.dimensions(base);
        let accessors = self.accessors(id);
        self.ast.decls[id].kind = DeclKind::Property { ty, accessors };
    }

    /// `T x` or `x : T`: names the declaration and returns the type
    pub(crate) fn typed_name(&mut self, id: DeclId, what: &str) -> ExprId {
        let before = self.is(T::Ident) && self.nth(1) == T::Colon;
        let ty = (!before).then(|| self.inside(id, Self::ty));
        let (name, span) = self.expect_name(what);
        self.name_decl(id, name, span);
        ty.unwrap_or_else(|| {
            self.bump();
            self.inside(id, Self::ty)
        })
    }

    /// `{ get { … } set(v); ref; }`; the getter of `;` alone has no name
    fn accessors(&mut self, owner: DeclId) -> Vec<DeclId> {
        let mut list = Vec::new();
        let open = self.span();
        if self.eat(T::Semi) {
            let get = self.inside(owner, |p| p.new_decl(open));
            self.ast.decls[get].kind =
                DeclKind::Accessor { kind: AccessorKind::Get, param: None, body: None };
            list.push(get);
            return list;
        }
        if !self.expect(T::LBrace) {
            self.skip_statement();
            return list;
        }
        while !matches!(self.kind(), T::RBrace | T::Eof) {
            if self.eat(T::Semi) {
                continue;
            }
            let before = self.pos();
            if let Some(accessor) = self.inside(owner, Self::accessor) {
                list.push(accessor);
            }
            if self.pos() == before {
                self.bump();
            }
        }
        self.expect_close(T::RBrace, open);
        list
    }

    fn accessor(&mut self) -> Option<DeclId> {
        let start = self.span();
        let id = self.new_decl(start);
        let prefix = self.prefix(id);
        let kind = match self.word() {
            kw::GET => AccessorKind::Get,
            kw::SET => AccessorKind::Set,
            kw::REF_ACCESSOR => AccessorKind::Ref,
            _ => {
                self.expected("`get`, `set` or `ref`");
                self.skip_statement();
                return None;
            }
        };
        let word = self.bump();
        let param = if self.is(T::LParen) { self.accessor_param(id, kind) } else { None };
        let body = self.body(id);
        self.complete(id, start, DeclKind::Accessor { kind, param, body });
        self.name_decl(id, word.symbol, word.span);
        self.ast.decls[id].modifiers = prefix.modifiers;
        self.ast.decls[id].attributes = prefix.attributes;
        Some(id)
    }

    /// `set(v)`, `set(float v)`; `get()` and `set()` have no parameter
    fn accessor_param(&mut self, id: DeclId, kind: AccessorKind) -> Option<DeclId> {
        let open = self.span();
        if kind == AccessorKind::Set && self.nth(1) == T::Ident && self.nth(2) == T::RParen {
            let span = self.bump().span;
            let name = self.bump();
            self.expect_close(T::RParen, span);
            let param = self.inside(id, |p| p.new_decl(name.span));
            let kind = DeclKind::Param { ty: None, default: None, semantic: None };
            (self.ast.decls[param].kind, self.ast.decls[param].name) = (kind, name.symbol);
            return Some(param);
        }
        let params = self.params(id);
        if kind == AccessorKind::Set && params.len() > 1 {
            let span = self.ast.decls[params[1]].span;
            self.error("E31108", span, "a `set` has one parameter: the value that is assigned");
        } else if kind != AccessorKind::Set && !params.is_empty() {
            let span = self.span_from(open);
            self.error("E31112", span, "`get` and `ref` have no parameters");
        }
        params.first().copied()
    }

    /// `__func_extension<T> fwd_diff(f)(…) -> T { … }`
    pub(crate) fn func_extension(&mut self, id: DeclId) {
        self.bump();
        self.suffix_generics(id);
        let op = self.word();
        let op = match op {
            kw::FWD_DIFF | kw::FWD_DIFF_OLD => kw::FWD_DIFF,
            kw::BWD_DIFF | kw::BWD_DIFF_OLD => kw::BWD_DIFF,
            kw::APPLY => kw::APPLY,
            _ => {
                self.expected("`fwd_diff`, `bwd_diff` or `__apply`");
                return self.skip_statement();
            }
        };
        let word = self.bump();
        self.name_decl(id, op, word.span);
        let open = self.span();
        if !self.expect(T::LParen) {
            return self.skip_statement();
        }
        let target = self.inside(id, |p| p.bracketed(Self::any_expr));
        self.expect_close(T::RParen, open);
        let params = self.params(id);
        let result = self.result_type(id);
        self.where_clauses(id);
        let body = self.body(id);
        self.ast.decls[id].kind = DeclKind::Func { params, result, body };
        self.ast.extensions.insert(id, FuncExtension { op, target });
    }
}
