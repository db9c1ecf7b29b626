//! Parses declarations: determines their kind, and parses variables and functions in the style of C.

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::grammar::attributes::{Prefix, merge_generics};
use crate::keywords as kw;
use crate::parser::Parser;
use crate::source::Span;
use crate::token::TokenKind as T;

/// The context of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a file or namespace.
    Global,
    /// In a struct, interface or extension.
    Member,
    /// In a function.
    Local,
}

impl Parser<'_> {
    /// Parses a whole file.
    pub(crate) fn file(&mut self) -> Vec<DeclId> {
        let mut decls = Vec::new();
        loop {
            self.declarations(Place::Global, &mut decls, |_| false);
            if self.is(T::Eof) {
                if self.is_glsl {
                    self.import_glsl(&mut decls);
                }
                return decls;
            }
            self.follow_up("E0010", self.span(), "this `}` has no matching `{`");
            self.bump();
        }
    }

    /// Parses declarations up to `}`, the end of the file, or where `is_past` returns true.
    pub(crate) fn declarations(
        &mut self,
        place: Place,
        list: &mut Vec<DeclId>,
        is_past: impl Fn(&Self) -> bool,
    ) {
        let outer = std::mem::replace(&mut self.container, self.parent);
        while !matches!(self.kind(), T::RBrace | T::Eof) && !is_past(self) {
            if self.eat(T::Semi) {
                continue;
            }
            let before = self.pos();
            let errors = self.n_errors();
            self.declaration(place, list);
            list.append(&mut self.nameless);
            if self.parent.is_none() && self.n_errors() > errors {
                self.skip_strays();
            }
            if self.pos() == before {
                self.bump();
            }
        }
        self.container = outer;
    }

    /// `{ … }` of a struct, namespace or similar; the members belong to `owner`
    pub(crate) fn members(&mut self, owner: DeclId, place: Place) -> Vec<DeclId> {
        let mut list = Vec::new();
        let open = self.span();
        // A type without a closing brace ends where a declaration begins that is not indented. The members of a
        // namespace often are not.
        let is_open = place == Place::Member && self.is(T::LBrace) && self.partner(self.pos()).is_none();
        if !self.expect(T::LBrace) && !self.lacks_brace() {
            self.skip_statement();
            return list;
        }
        self.inside(owner, |p| {
            p.bracketed(|p| p.declarations(place, &mut list, |p| is_open && p.at_margin()))
        });
        self.expect_close(T::RBrace, open);
        list
    }

    /// Parses one declaration; a declaration with several declarators appends several.
    pub(crate) fn declaration(&mut self, place: Place, list: &mut Vec<DeclId>) {
        let start = self.span();
        let id = self.new_decl(start);
        if !self.enter() {
            return;
        }
        let outer_params = self.type_params.len();
        let outer_labels = std::mem::take(&mut self.labels);
        let prefix = self.prefix(id);
        self.begin();
        self.declaration_after(place, id, start, prefix, list);
        self.type_params.truncate(outer_params);
        self.labels = outer_labels;
        if place != Place::Local {
            let tries = std::mem::take(&mut self.tries);
            if let Some(&span) = tries.first() {
                self.error("E0014", span, "`try` cannot stand outside a function");
            }
        }
        self.leave();
    }

    fn declaration_after(
        &mut self,
        place: Place,
        id: DeclId,
        start: Span,
        prefix: Prefix,
        list: &mut Vec<DeclId>,
    ) {
        let next = self.nth(1);
        let word = self.word();
        let named = next == T::Ident;
        let first = list.len();
        list.push(id);
        let Prefix { modifiers, attributes, generics } = prefix;
        // `layout(location = 0) in vec4 v;`
        if place == Place::Global && modifiers.has(Modifiers(Modifiers::IN.0 | Modifiers::OUT.0)) {
            self.is_glsl |= attributes.iter().any(|a| self.ast.name(a.name) == "__layout_location");
        }
        let decl = &mut self.ast.decls[id];
        (decl.modifiers, decl.attributes, decl.generics) = (modifiers, attributes, generics);
        match word {
            _ if self.is_block(modifiers) => self.block_decl(id, start, list),
            _ if self.is_precision() => self.skip_statement(),
            // `layout(local_size_x = 4) in;`
            kw::EMPTY if self.is(T::Semi) && modifiers.has(Modifiers(Modifiers::IN.0 | Modifiers::OUT.0)) => {
                self.is_glsl = true;
                self.bump();
            }
            kw::STRUCT | kw::CLASS | kw::UNION
                if matches!(next, T::Ident | T::LBrace | T::Colon | T::LBracket) =>
            {
                self.structure(id, list)
            }
            kw::INTERFACE if named => self.interface(id),
            kw::ENUM if matches!(next, T::Ident | T::LBrace | T::Colon) => self.enumeration(id, list),
            kw::EXTENSION | kw::EXTENSION_OLD if matches!(next, T::Ident | T::Lt | T::ColonColon) => {
                self.extension(id)
            }
            kw::TYPEDEF => self.typedef(id),
            kw::TYPEALIAS if named => self.type_alias(id),
            kw::ASSOCIATEDTYPE if named => self.associated_type(id),
            kw::NAMESPACE if named || next == T::LBrace => {
                if place != Place::Global {
                    let span = if named { self.at(self.pos() + 1).span } else { self.span() };
                    self.error("E30102", span, "a namespace has to be in a file or in another namespace");
                }
                self.namespace(id);
            }
            kw::CBUFFER | kw::TBUFFER if named || next == T::LBrace => self.cbuffer(id, start, list),
            kw::IMPORT | kw::IMPORT_OLD | kw::INCLUDE_DECL | kw::MODULE | kw::IMPLEMENTING
                if matches!(next, T::Ident | T::String | T::Semi) =>
            {
                self.module_decl(id)
            }
            kw::USING if named => self.using(id),
            kw::PROPERTY if named => self.property(id),
            kw::SUBSCRIPT if matches!(next, T::LParen | T::Lt) => self.subscript(id),
            kw::INIT if matches!(next, T::LParen | T::Lt) => self.initializer(id),
            kw::FUNC if matches!(next, T::Ident) => self.modern_function(id),
            kw::LET | kw::VAR if named => self.modern_variables(id, start, list),
            kw::LET | kw::VAR if place == Place::Local && next == T::LParen => {
                self.tuple_variables(id, start);
            }
            kw::CONSTRAINT if place == Place::Member && matches!(next, T::Ident | T::ColonColon) => {
                // A `where` clause, represented as an associated type without a name.
                let word = self.bump().span;
                let constraint = self.inside(id, |p| p.constraint(word));
                if let Constraint::Conforms(left, _) | Constraint::Equal(left, _) = constraint
                    && matches!(self.ast.exprs[left].kind, ExprKind::ThisType)
                {
                    let span = self.ast.exprs[left].span;
                    let message = "a constraint of an interface is on an associated type, not on `This`";
                    let error = Diagnostic::error("E30427", span, message);
                    self.report(error.help("an interface inherits from another: `interface I : J`"));
                }
                self.name_decl(id, kw::EMPTY, word);
                self.ast.decls[id].generics =
                    Some(Generics { params: Vec::new(), constraints: vec![constraint] });
                self.ast.decls[id].kind = DeclKind::AssociatedType { bases: Vec::new() };
                self.expect_semi();
            }
            // `type_param T : I;` is `extern struct T : I;`: a module that the program is linked with names the type.
            kw::TYPE_PARAM if named => {
                self.ast.decls[id].modifiers |= Modifiers::EXTERN;
                self.structure(id, list);
            }
            kw::FUNC_EXTENSION => self.func_extension(id),
            kw::STATIC_ASSERT if next == T::LParen => {
                // A call that is evaluated where constants are.
                let span = self.span();
                let init = self.inside(id, Self::any_expr);
                self.expect_semi();
                self.name_decl(id, kw::EMPTY, span);
                self.ast.decls[id].modifiers |= Modifiers(Modifiers::STATIC.0 | Modifiers::CONST.0);
                self.finish_var(id, start, None, Some(init), None);
            }
            kw::ATTRIBUTE_SYNTAX
            | kw::SYNTAX
            | kw::IGNORED_BLOCK
            | kw::TRANSPARENT_BLOCK
            | kw::FILE_DECL
            | kw::REQUIRE_PRELUDE
                if matches!(next, T::Ident | T::LParen | T::LBrace | T::LBracket) =>
            {
                self.bump();
                self.skip_statement();
                self.ast.decls[id].kind = DeclKind::Unsupported(word);
            }
            kw::EMPTY if !self.is(T::ColonColon) => self.no_declaration(place),
            _ => self.typed(place, id, start, list),
        }
        // The other declarators have been given their spans already.
        if let Some(&own) = list.get(first) {
            let span = self.span_from(start);
            let decl = &mut self.ast.decls[own];
            decl.span = span;
            if decl.name == kw::EMPTY && decl.name_span == start {
                decl.name_span = Span { end: start.end, ..start };
            }
        }
    }

    fn no_declaration(&mut self, place: Place) {
        if self.is(T::Semi) {
            self.bump();
            return;
        }
        let what = match place {
            Place::Global => "a declaration",
            Place::Member => "a member",
            Place::Local => "a statement",
        };
        self.expected(what);
        match self.kind() {
            T::RBrace | T::Eof => {}
            T::LParen | T::LBracket | T::LBrace => self.skip_brackets(),
            _ => {
                self.bump();
                if !self.at_margin() {
                    self.skip_statement();
                }
            }
        }
    }

    /// `T x = e, y;`, `T f(…) { … }`
    fn typed(&mut self, place: Place, id: DeclId, start: Span, list: &mut Vec<DeclId>) {
        let before = self.pos();
        let ty = self.inside(id, Self::ty);
        if self.is_word(kw::OPERATOR) {
            let span = self.bump().span;
            let name = self.operator_name();
            let span = self.span_from(span);
            self.name_decl(id, name, span);
            self.suffix_generics(id);
            return self.function(id, Some(ty));
        }
        if !self.is(T::Ident) {
            if self.is(T::LParen)
                && place != Place::Local
                && matches!(self.ast.exprs[ty].kind, ExprKind::Name(_))
            {
                let error = "expected a name, found `(`; a function needs a result type before its name";
                self.error("E0001", self.span(), error);
            } else {
                self.expected("a name");
            }
            if self.pos() == before {
                self.bump();
            }
            return self.skip_statement();
        }
        let name = self.bump();
        let function = match self.kind() {
            T::LParen => true,
            T::Lt => place != Place::Local,
            _ => false,
        };
        if function {
            self.name_decl(id, name.symbol, name.span);
            self.suffix_generics(id);
            return self.function(id, Some(ty));
        }
        if place == Place::Global && self.is_private_in_glsl(id, ty) {
            self.ast.decls[id].modifiers |= Modifiers::STATIC;
        }
        self.declarators(id, start, ty, name.symbol, name.span, list);
    }

    /// Parses the rest of `T x` after the first name: dimensions, semantic, initialiser, further declarators.
    pub(crate) fn declarators(
        &mut self,
        id: DeclId,
        start: Span,
        base: ExprId,
        name: Symbol,
        name_span: Span,
        list: &mut Vec<DeclId>,
    ) {
        let (mut id, mut name, mut name_span) = (id, name, name_span);
        loop {
            self.name_decl(id, name, name_span);
            let ty = self.dimensions(base);
            let semantic = self.semantic();
            self.keep_registers(id);
            if self.is(T::Colon) {
                self.bit_field(id);
            }
            let init = self.initial_value();
            self.finish_var(id, start, Some(ty), init, semantic);
            if !self.eat(T::Comma) {
                break;
            }
            if !self.is(T::Ident) {
                self.expected("a name");
                break;
            }
            let token = self.bump();
            (name, name_span) = (token.symbol, token.span);
            id = self.sibling(id, name_span, list);
        }
        self.expect_semi();
    }

    /// Another variable with the modifiers and attributes of one.
    fn sibling(&mut self, of: DeclId, span: Span, list: &mut Vec<DeclId>) -> DeclId {
        let id = self.new_decl(span);
        self.ast.decls[id].modifiers = self.ast.decls[of].modifiers;
        self.ast.decls[id].attributes = self.ast.decls[of].attributes.clone();
        list.push(id);
        id
    }

    /// Parses `: width` of a bit-field.
    fn bit_field(&mut self, id: DeclId) {
        let colon = self.bump().span;
        let width = self.ternary_expr();
        if self.parent.is_none() || self.parent != self.bit_owner {
            return self.follow_up("E0013", colon, "a bit-field has to be a member of a struct");
        }
        if !matches!(self.ast.exprs[width].kind, ExprKind::Int { .. }) {
            return self.error("E0013", colon, "the width of a bit-field must be a number");
        }
        self.ast.bit_widths.insert(id, width);
    }

    /// `let x : T = e, y = f;`
    fn modern_variables(&mut self, id: DeclId, start: Span, list: &mut Vec<DeclId>) {
        if self.bump().symbol == kw::LET {
            self.ast.decls[id].modifiers |= Modifiers::LET;
        }
        let mut id = id;
        loop {
            self.modern_variable(id, start);
            if !self.eat(T::Comma) {
                break;
            }
            id = self.sibling(id, self.span(), list);
        }
        self.expect_semi();
    }

    /// `let (a, b) = e;`
    fn tuple_variables(&mut self, id: DeclId, start: Span) {
        if self.bump().symbol == kw::LET {
            self.ast.decls[id].modifiers |= Modifiers::LET;
        }
        self.bump();
        let mut parts = Vec::new();
        while self.is(T::Ident) {
            let (name, span) = self.expect_name("a name");
            let part = self.sibling(id, span, &mut parts);
            self.name_decl(part, name, span);
            self.finish_var(part, span, None, None, None);
            if !self.eat(T::Comma) {
                break;
            }
        }
        self.expect(T::RParen);
        let init = self.initial_value().unwrap_or_else(|| {
            self.expected("`=`");
            self.expr_at(start, ExprKind::Error)
        });
        self.complete(id, start, DeclKind::Tuple { parts, init });
        self.expect_semi();
    }

    fn modern_variable(&mut self, id: DeclId, start: Span) {
        let (name, name_span) = self.expect_name("a name");
        self.name_decl(id, name, name_span);
        let mut ty = self.eat(T::Colon).then(|| self.inside(id, Self::ty));
        if let Some(base) = ty
            && self.is(T::LBracket)
        {
            ty = Some(self.dimensions(base));
        }
        let init = self.initial_value();
        self.finish_var(id, start, ty, init, None);
    }

    /// `let x = e` in `if (…)`
    pub(crate) fn condition_variable(&mut self) -> DeclId {
        let start = self.span();
        let id = self.new_decl(start);
        if self.bump().symbol == kw::LET {
            self.ast.decls[id].modifiers |= Modifiers::LET;
        }
        self.bracketed(|p| p.modern_variable(id, start));
        id
    }

    fn initial_value(&mut self) -> Option<ExprId> {
        self.eat(T::Eq).then(|| self.bracketed(Self::any_expr))
    }

    fn finish_var(
        &mut self,
        id: DeclId,
        start: Span,
        ty: Option<ExprId>,
        init: Option<ExprId>,
        semantic: Option<Symbol>,
    ) {
        self.complete(id, start, DeclKind::Var { ty, init, semantic });
    }

    pub(crate) fn name_decl(&mut self, id: DeclId, name: Symbol, span: Span) {
        if matches!(name, kw::STRUCT | kw::CLASS | kw::ENUM | kw::TYPEALIAS | kw::TYPEDEF) {
            let message = format!("the keyword `{}` as a name", self.ast.name(name));
            let warning = Diagnostic::warning("E20103", span, message);
            self.warn(warning.help("choose another name: a statement cannot begin with this one"));
        }
        let decl = &mut self.ast.decls[id];
        decl.name = name;
        decl.name_span = span;
    }

    /// `<…>` after a declaration's name
    pub(crate) fn suffix_generics(&mut self, owner: DeclId) {
        if self.is(T::Lt) {
            let new = self.generic_params(owner);
            merge_generics(&mut self.ast.decls[owner].generics, new);
        }
    }

    /// `[2][3]` after a name: the first is the outermost, so it is applied last.
    pub(crate) fn dimensions(&mut self, base: ExprId) -> ExprId {
        let start = self.ast.exprs[base].span;
        let mut all = Vec::new();
        while self.is(T::LBracket) {
            all.push(self.index_args());
        }
        let mut ty = base;
        for args in all.into_iter().rev() {
            ty = self.expr(start, ExprKind::Index { base: ty, args });
        }
        ty
    }

    /// Checks the stages in `: read(caller, anyhit)`, which says who reads a field of a ray's payload. The
    /// list begins at `from` and ends here.
    fn check_payload_stages(&mut self, from: usize) {
        const STAGES: [&str; 4] = ["anyhit", "closesthit", "miss", "caller"];
        for pos in from..self.pos() {
            let word = self.word_at(pos);
            if word != kw::EMPTY && !STAGES.contains(&self.ast.name(word)) {
                let message = format!("`{}` is no stage that reads or writes a payload", self.ast.name(word));
                let help = "the stages are `anyhit`, `closesthit`, `miss` and `caller`";
                self.report(Diagnostic::error("E40001", self.at(pos).span, message).help(help));
            }
        }
    }

    /// Keeps the registers that were found after a name.
    pub(crate) fn keep_registers(&mut self, id: DeclId) {
        if !self.registers.is_empty() {
            let registers = std::mem::take(&mut self.registers);
            self.ast.registers.insert(id, registers);
        }
    }

    /// `: SV_Position`, `: register(u0, space1)`; the first if there are several
    pub(crate) fn semantic(&mut self) -> Option<Symbol> {
        let mut first = None;
        while self.is(T::Colon) && self.nth(1) == T::Ident {
            self.bump();
            let token = self.bump();
            let name = token.symbol;
            let mut text = self.ast.name(name).to_owned();
            if self.is(T::LParen) {
                let from = self.pos();
                self.skip_brackets();
                if matches!(name, kw::READ | kw::WRITE) {
                    self.check_payload_stages(from);
                }
                if text == "register" {
                    let words = (from..self.pos()).map(|pos| self.at(pos));
                    let words = words.filter(|token| token.kind == T::Ident);
                    let words = words.map(|token| (token.symbol, token.span)).collect();
                    self.registers.push(Register { words, span: self.span_from(token.span) });
                }
                for pos in from..self.pos() {
                    text.push_str(self.at(pos).text(&self.ast.symbols));
                    if self.at(pos).kind == T::Comma {
                        text.push(' ');
                    }
                }
            }
            let symbol = self.ast.symbols.intern(&text);
            first = first.or(Some(symbol));
        }
        first
    }
}
