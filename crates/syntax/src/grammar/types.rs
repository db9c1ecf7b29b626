//! Parses types, generic arguments, generic parameters and `where` clauses.

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::source::Span;
use crate::token::TokenKind as T;

impl Parser<'_> {
    /// Parses a type: modifiers, a name, and the suffixes `.B`, `::B`, `<…>`, `[…]` and `*`.
    pub(crate) fn ty(&mut self) -> ExprId {
        let start = self.span();
        if !self.enter() {
            return self.expr_at(start, ExprKind::Error);
        }
        let mut modifiers = Modifiers::default();
        while let Some(modifier) = self.type_modifier() {
            self.bump();
            modifiers |= modifier;
        }
        let base = self.type_base(start);
        let mut ty = self.type_suffixes(base);
        if self.is_word(kw::CONST) && self.nth(1) == T::Ident {
            self.bump();
        }
        if modifiers != Modifiers::default() {
            ty = self.expr(start, ExprKind::Modified(modifiers, ty));
        }
        self.leave();
        ty
    }

    fn type_modifier(&self) -> Option<Modifiers> {
        let modifier = match self.word() {
            kw::SOME => Modifiers::DYN,
            // These modifiers change how a texture is read, not the type.
            kw::UNORM | kw::SNORM | kw::RESTRICT => Modifiers::default(),
            word => Modifiers::of(word).filter(|&modifier| Modifiers::IN_TYPES.has(modifier))?,
        };
        matches!(self.nth(1), T::Ident | T::ColonColon).then_some(modifier)
    }

    fn type_base(&mut self, start: Span) -> ExprId {
        match self.word() {
            kw::EXPAND => {
                self.bump();
                let inner = self.ty();
                return self.expr(start, ExprKind::Expand(inner));
            }
            kw::EACH => {
                self.bump();
                let base = self.type_base(start);
                let inner = self.type_suffixes(base);
                return self.expr(start, ExprKind::Each(inner));
            }
            kw::FUNCTYPE if self.nth(1) == T::LParen => return self.func_type(),
            word if self.nth(1) == T::LParen && Self::is_pack_query(word) => return self.pack_query(),
            kw::THIS_TYPE => {
                self.bump();
                return self.expr(start, ExprKind::ThisType);
            }
            kw::UNSIGNED if self.word_at(self.pos() + 1) == kw::INT => {
                self.bump();
                self.bump();
                return self.expr(start, ExprKind::Name(kw::UINT));
            }
            kw::STRUCT if self.nth(1) == T::LBrace => return self.nameless_struct(),
            kw::STRUCT | kw::CLASS | kw::ENUM if self.nth(1) == T::Ident => {
                // `struct S x;`
                self.bump();
            }
            _ => {}
        }
        if self.is(T::LParen) && self.partner(self.pos()).is_some() {
            self.bump();
            let inner = self.bracketed(Self::ty_conjunction);
            self.expect_close(T::RParen, start);
            return self.expr(start, ExprKind::Paren(inner));
        }
        let global = self.eat(T::ColonColon);
        if !self.is(T::Ident) {
            self.expected("a type");
            return self.expr_at(start, ExprKind::Error);
        }
        let name = self.bump().symbol;
        self.expr(start, if global { ExprKind::GlobalName(name) } else { ExprKind::Name(name) })
    }

    fn type_suffixes(&mut self, mut ty: ExprId) -> ExprId {
        let start = self.ast.exprs[ty].span;
        loop {
            let kind = match self.kind() {
                T::Dot | T::ColonColon if self.nth(1) == T::Ident => {
                    let dot = self.bump().kind == T::Dot;
                    let (name, name_span) = self.expect_name("a type's name");
                    if dot {
                        ExprKind::Member { base: ty, name, name_span, arrow: false }
                    } else {
                        ExprKind::Static { base: ty, name, name_span }
                    }
                }
                T::Lt => ExprKind::Generic { base: ty, args: self.generic_args() },
                T::LBracket => ExprKind::Index { base: ty, args: self.index_args() },
                T::Star => {
                    self.bump();
                    ExprKind::Pointer(ty)
                }
                _ => return ty,
            };
            ty = self.expr(start, kind);
        }
    }

    fn func_type(&mut self) -> ExprId {
        let start = self.bump().span;
        let open = self.bump().span;
        let params = self.separated(|kind| kind == T::RParen, |p| p.bracketed(Self::ty));
        self.expect_close(T::RParen, open);
        self.expect(T::Arrow);
        let result = self.ty();
        self.expr(start, ExprKind::FuncType(params, result))
    }

    /// `A & B`
    pub(crate) fn ty_conjunction(&mut self) -> ExprId {
        let start = self.span();
        let mut ty = self.ty();
        while self.eat(T::Amp) {
            let right = self.ty();
            ty = self.expr(start, ExprKind::Binary(BinaryOp::BitAnd, ty, right));
        }
        ty
    }

    /// `A, B & C`
    pub(crate) fn ty_list(&mut self) -> Vec<ExprId> {
        let mut list = vec![self.ty_conjunction()];
        while self.is(T::Comma) && matches!(self.nth(1), T::Ident | T::ColonColon) {
            self.bump();
            list.push(self.ty_conjunction());
        }
        list
    }

    /// `: A, B`, or nothing
    pub(crate) fn bases(&mut self) -> Vec<ExprId> {
        if self.eat(T::Colon) { self.ty_list() } else { Vec::new() }
    }

    /// `<A, 3>` at its `<`
    pub(crate) fn generic_args(&mut self) -> Vec<ExprId> {
        let open = self.bump().span;
        let ends = |kind| matches!(kind, T::Gt | T::Ge | T::ShrEq);
        let args = self.separated(ends, |p| p.angled(Self::generic_arg));
        self.expect_angle(open);
        args
    }

    fn generic_arg(&mut self) -> ExprId {
        let word = self.word();
        if self.type_modifier().is_some() || (word == kw::FUNCTYPE && self.nth(1) == T::LParen) {
            return self.ty_conjunction();
        }
        if (word == kw::EXPAND || word == kw::EACH) && self.nth(1) == T::Ident {
            return self.ty();
        }
        self.conditional_operand()
    }

    /// `[i, j]` at its bracket; `[]` is empty
    pub(crate) fn index_args(&mut self) -> Vec<ExprId> {
        let open = self.bump().span;
        let args = self.bracketed(|p| p.arg_list(T::RBracket));
        self.expect_close(T::RBracket, open);
        args
    }

    /// `<T : I, let N : int>` at its `<`; the parameters belong to `owner`
    pub(crate) fn generic_params(&mut self, owner: DeclId) -> Generics {
        let open = self.bump().span;
        let param = |p: &mut Self| p.inside(owner, |p| p.angled(Self::generic_param));
        let params = self.separated(|kind| kind == T::Gt, param);
        self.expect_angle(open);
        Generics { params, constraints: Vec::new() }
    }

    fn generic_param(&mut self) -> DeclId {
        let start = self.span();
        let id = self.new_decl(start);
        let mut modifiers = Modifiers::default();
        let next_name = self.nth(1) == T::Ident;
        let mut value = false;
        match self.word() {
            kw::LET if next_name => {
                self.bump();
                value = true;
            }
            kw::TYPENAME | kw::TYPE if next_name => {
                self.bump();
            }
            _ => {}
        }
        if self.is_word(kw::EACH) && self.nth(1) == T::Ident {
            self.bump();
            modifiers |= Modifiers::EACH;
        }
        // The type before the name may be a member of a module or type: `outer.Kind K`.
        let mut named = 1;
        while matches!(self.nth(named), T::Dot | T::ColonColon) && self.nth(named + 1) == T::Ident {
            named += 2;
        }
        let old_style = !value && self.nth(named) == T::Ident;
        let (name, name_span, kind);
        if old_style {
            // `int N`, `uint N = 4`
            let ty = Some(self.ty());
            (name, name_span) = self.expect_name("the parameter's name");
            let default = self.generic_default();
            kind = DeclKind::ValueParam { ty, default };
        } else {
            (name, name_span) = self.expect_name("a generic parameter");
            if value {
                let ty = self.eat(T::Colon).then(|| self.ty());
                let default = self.generic_default();
                kind = DeclKind::ValueParam { ty, default };
            } else {
                self.type_params.push(name);
                let bases = if self.eat(T::Colon) { vec![self.ty_conjunction()] } else { Vec::new() };
                let default = self.generic_default();
                kind = DeclKind::TypeParam { bases, default };
            }
        }
        self.complete(id, start, kind);
        self.name_decl(id, name, name_span);
        self.ast.decls[id].modifiers = modifiers;
        id
    }

    fn generic_default(&mut self) -> Option<ExprId> {
        self.eat(T::Eq).then(|| self.generic_arg())
    }

    /// Parses all `where` clauses of a declaration.
    pub(crate) fn where_clauses(&mut self, owner: DeclId) {
        while self.is_word(kw::WHERE) && matches!(self.nth(1), T::Ident | T::ColonColon) {
            let start = self.bump().span;
            let optional = self.is_word(kw::OPTIONAL) && self.nth(1) == T::Ident;
            if optional {
                self.bump();
            }
            let constraint = match self.constraint(start) {
                constraint if !optional => constraint,
                Constraint::Conforms(left, bases) => Constraint::Optional(left, bases),
                // An optional equality adds no knowledge about the type except where it has been tested.
                Constraint::Equal(left, _) => Constraint::Optional(left, Vec::new()),
                _ => Constraint::Other(self.span_from(start)),
            };
            self.ast.decls[owner].generics.get_or_insert_default().constraints.push(constraint);
        }
    }

    /// Parses a constraint after `where` or `__constraint`.
    pub(crate) fn constraint(&mut self, start: Span) -> Constraint {
        let left = self.constraint_side();
        let is_count = |p: &Self, side: ExprId| {
            matches!(p.ast.exprs[side].kind, ExprKind::SizeOf(SizeOfKind::CountOf, ..))
        };
        if matches!(self.kind(), T::Ne | T::Lt | T::Le | T::Gt | T::Ge) {
            let span = self.bump().span;
            let right = self.constraint_side();
            let help = "write `where countof(T) == N`";
            let error = Diagnostic::error("E30436", span, "a constraint on a number needs `==`");
            self.report(if is_count(self, left) || is_count(self, right) { error.help(help) } else { error });
            Constraint::Equal(left, right)
        } else if self.eat(T::EqEq) {
            let right = self.constraint_side();
            let counts_right = match self.ast.exprs[right].kind {
                ExprKind::Binary(_, first, _) => is_count(self, first),
                _ => is_count(self, right),
            };
            if counts_right && !is_count(self, left) {
                let span = self.ast.exprs[right].span;
                let message = "`countof` has to stand on the left side of its constraint";
                let error = Diagnostic::error("E30437", span, message);
                self.report(error.help("write `where countof(T) == N`"));
            }
            Constraint::Equal(left, right)
        } else if self.eat(T::Colon) {
            Constraint::Conforms(left, self.ty_list())
        } else {
            let implicit = self.eat_word(kw::IMPLICIT_WORD);
            match &self.ast.exprs[left].kind {
                ExprKind::Call { callee, args } if args.len() == 1 => {
                    let (to, from) = (*callee, args[0]);
                    match self.ast.exprs[to].kind {
                        ExprKind::Name(name) if self.ast.name(name) == "nonempty" => {
                            Constraint::NonEmpty(from)
                        }
                        _ => Constraint::Converts { to, from, implicit },
                    }
                }
                _ => Constraint::Other(self.span_from(start)),
            }
        }
    }
}
