//! Parses statements.

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::parser::Parser;
use crate::token::TokenKind as T;

/// The maximum number of labelled statements that a `break` may leave.
const MAX_LABELS: usize = 32;

impl Parser<'_> {
    /// Parses one statement with its attributes.
    pub(crate) fn statement(&mut self) -> StmtId {
        let outer = std::mem::take(&mut self.tries);
        let stmt = self.one_statement();
        self.tries = outer;
        stmt
    }

    fn one_statement(&mut self) -> StmtId {
        let start = self.span();
        if !self.enter() {
            return self.stmt(start, StmtKind::Error);
        }
        let mut attributes = Vec::new();
        let first = self.pos();
        self.attributes(&mut attributes);
        let stmt = if !attributes.is_empty() && self.declaration_follows() {
            // The declaration parses its attributes itself.
            self.rewind(first);
            self.declaration_statement()
        } else {
            if self.is(T::Dollar) {
                // `$for` is a loop that is unrolled, between bounds that are constants.
                let name = self.ast.symbols.intern(UNROLLED);
                attributes.push(Attribute { name, args: Vec::new(), span: self.span() });
            }
            self.plain_statement()
        };
        if self.ast.stmts[stmt].attributes.is_empty()
            && !matches!(self.ast.stmts[stmt].kind, StmtKind::Decl(_))
        {
            self.ast.stmts[stmt].attributes = attributes;
        }
        self.leave();
        stmt
    }

    fn plain_statement(&mut self) -> StmtId {
        self.begin();
        let start = self.span();
        let kind = match self.kind() {
            T::Semi => {
                self.bump();
                StmtKind::Empty
            }
            T::LBrace => return self.block(),
            T::Dollar if self.word_at(self.pos() + 1) == kw::FOR => self.range_statement(),
            T::Ident => match self.word() {
                kw::IF if self.nth(1) == T::LParen => self.if_statement(),
                kw::FOR => self.for_statement(),
                kw::WHILE => {
                    self.bump();
                    let cond = self.without_try(Self::condition);
                    let body = self.statement();
                    StmtKind::While { cond, body }
                }
                kw::DO if matches!(self.nth(1), T::LBrace | T::Ident) => self.do_statement(),
                kw::SWITCH => self.switch_statement(),
                kw::NEEDS_CAPABILITY if self.nth(1) == T::LParen => self.needed_capability(),
                kw::TARGET_SWITCH | kw::STAGE_SWITCH => self.target_switch(),
                kw::BREAK | kw::CONTINUE => {
                    let word = self.bump().symbol;
                    if self.is(T::Ident) && !self.current().at_line_start() {
                        let label = self.bump();
                        self.expect_semi();
                        self.leave_label(word, label.symbol, label.span)
                    } else {
                        self.expect_semi();
                        if word == kw::BREAK { StmtKind::Break } else { StmtKind::Continue }
                    }
                }
                kw::RETURN => {
                    self.bump();
                    let value = (!matches!(self.kind(), T::Semi | T::RBrace)).then(|| self.comma_expr());
                    self.expect_semi();
                    StmtKind::Return(value)
                }
                kw::DISCARD if self.nth(1) == T::Semi => {
                    self.bump();
                    self.expect_semi();
                    StmtKind::Discard
                }
                kw::DEFER if matches!(self.nth(1), T::Ident | T::LBrace) => {
                    self.bump();
                    StmtKind::Defer(self.statement())
                }
                kw::THROW => {
                    self.bump();
                    let value = self.comma_expr();
                    self.expect_semi();
                    StmtKind::Throw(value)
                }
                kw::INTRINSIC_ASM if self.nth(1) == T::String => {
                    self.bump();
                    let text = self.string_text();
                    // The names in the text are words of the program: they may require parts of the library.
                    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                        self.ast.symbols.intern(word.strip_prefix("P_").unwrap_or(word));
                    }
                    self.skip_statement();
                    StmtKind::IntrinsicAsm(text)
                }
                // The prelude of a target's text has no meaning here.
                kw::REQUIRE_PRELUDE => {
                    self.bump();
                    self.skip_statement();
                    StmtKind::Empty
                }
                word @ (kw::INTRINSIC_ASM | kw::GPU_FOREACH) => {
                    self.bump();
                    self.skip_statement();
                    StmtKind::Unsupported(word)
                }
                kw::SPIRV_ASM if self.nth(1) == T::LBrace => self.spirv_statement(),
                kw::CASE | kw::DEFAULT if matches!(self.nth(1), T::Colon | T::Ident | T::Int) => {
                    // Where brackets are missing, the `switch` may have ended too early.
                    if self.has_only("E0012") {
                        let message = format!("{} outside the block of a `switch`", self.found());
                        self.error("E0012", start, message);
                    }
                    self.bump();
                    while !matches!(self.kind(), T::Colon | T::Semi | T::RBrace | T::Eof) {
                        self.bump();
                    }
                    self.eat(T::Colon);
                    StmtKind::Error
                }
                kw::ELSE => {
                    self.follow_up("E0012", start, "`else` without `if`");
                    self.bump();
                    return self.statement();
                }
                _ if self.nth(1) == T::Colon => {
                    let label = self.bump().symbol;
                    self.bump();
                    let level = self.labels.len() as u32;
                    self.labels.push(label);
                    let body = self.statement();
                    self.labels.pop();
                    StmtKind::Labeled { label, level, body }
                }
                _ if self.declaration_follows() => return self.declaration_statement(),
                _ => self.expression_statement(),
            },
            _ => self.expression_statement(),
        };
        self.stmt(start, kind)
    }

    /// `break label;`
    fn leave_label(&mut self, word: Symbol, label: Symbol, span: crate::Span) -> StmtKind {
        if word != kw::BREAK {
            return StmtKind::Unsupported(word);
        }
        match self.labels.iter().rposition(|&l| l == label) {
            Some(level) if level < MAX_LABELS => StmtKind::BreakTo { label, level: level as u32 },
            Some(_) => {
                self.error("E0007", span, format!("more than {MAX_LABELS} labels are around this `break`"));
                StmtKind::Error
            }
            None => {
                let name = self.ast.name(label).to_owned();
                self.error("E30101", span, format!("no statement around this one has the label `{name}`"));
                StmtKind::Error
            }
        }
    }

    fn expression_statement(&mut self) -> StmtKind {
        if matches!(self.kind(), T::RParen | T::RBracket) {
            self.follow_up("E0001", self.span(), format!("this {} closes nothing", self.found()));
            self.bump();
            self.eat(T::Semi);
            return StmtKind::Error;
        }
        let before = self.pos();
        let expr = self.comma_expr();
        if self.pos() == before {
            // Nothing was consumed; that has already been reported.
            match self.kind() {
                T::RBrace | T::Eof => {}
                T::LBrace => self.skip_brackets(),
                _ => {
                    self.bump();
                    self.skip_statement();
                }
            }
            return StmtKind::Error;
        }
        self.expect_semi();
        StmtKind::Expr(expr)
    }

    /// `{ … }` at its brace
    pub(crate) fn block(&mut self) -> StmtId {
        let closed = self.partner(self.pos()).is_some();
        self.bump();
        self.block_rest(|p| !closed && p.at_margin())
    }

    /// `… }` after the brace. A block without a closing brace ends where `is_past` returns true.
    pub(crate) fn block_rest(&mut self, is_past: impl Fn(&Self) -> bool) -> StmtId {
        let start = self.span_before();
        let ends = |p: &Self| matches!(p.kind(), T::RBrace | T::Eof) || is_past(p);
        let stmts = self.bracketed(|p| p.statements(ends));
        self.expect_close(T::RBrace, start);
        self.stmt(start, StmtKind::Block(stmts))
    }

    /// Parses statements until `ends` returns true.
    /// `__requireCapability(a, b);` does nothing here: the writer of a target reports what the target lacks.
    fn needed_capability(&mut self) -> StmtKind {
        self.bump();
        let open = self.bump().span;
        while self.is(T::Ident) {
            let word = self.bump();
            let (symbol, span) = (word.symbol, word.span);
            let name = self.ast.name(symbol).to_owned();
            if !crate::capabilities::is_capability(&name) {
                let message = format!("no device has a capability '{name}'");
                self.report(Diagnostic::warning("E36105", span, message));
            }
            if !self.eat(T::Comma) {
                break;
            }
        }
        self.expect_close(T::RParen, open);
        self.expect_semi();
        StmtKind::Empty
    }

    fn statements(&mut self, ends: impl Fn(&Self) -> bool) -> Vec<StmtId> {
        let mut list = Vec::new();
        while !ends(self) {
            let before = self.pos();
            list.push(self.statement());
            if self.pos() == before {
                self.bump();
            }
        }
        list
    }

    /// `(cond)`
    fn condition(&mut self) -> ExprId {
        let open = self.span();
        if !self.expect(T::LParen) {
            return self.expr_at(open, ExprKind::Error);
        }
        let cond = self.bracketed(Self::comma_expr);
        self.close_header(open);
        cond
    }

    /// The `)` of `if (…)` and similar; if it is missing, skips to its likely place.
    fn close_header(&mut self, open: crate::Span) {
        if !self.expect_close(T::RParen, open) {
            self.skip_past(T::RParen);
        }
    }

    fn if_statement(&mut self) -> StmtKind {
        self.bump();
        let binds = matches!(self.word_at(self.pos() + 1), kw::LET | kw::VAR) && self.nth(2) == T::Ident;
        if binds {
            let open = self.bump().span;
            let var = self.condition_variable();
            self.close_header(open);
            let (then, otherwise) = self.branches();
            return StmtKind::IfLet { var, then, otherwise };
        }
        let cond = self.condition();
        let (then, otherwise) = self.branches();
        StmtKind::If { cond, then, otherwise }
    }

    fn branches(&mut self) -> (StmtId, Option<StmtId>) {
        let then = self.branch();
        let otherwise = self.eat_word(kw::ELSE).then(|| self.branch());
        (then, otherwise)
    }

    fn branch(&mut self) -> StmtId {
        if self.is(T::Semi) {
            let warning =
                Diagnostic::warning("E20101", self.span(), "this `;` is all that the `if` controls");
            self.warn(warning.help("write `{}` if nothing is to happen, or remove the `;`"));
        }
        self.statement()
    }

    fn for_statement(&mut self) -> StmtKind {
        self.bump();
        let open = self.span();
        self.expect(T::LParen);
        let (init, cond, step) = self.bracketed(|p| {
            let init = match p.kind() {
                T::Semi => {
                    p.bump();
                    None
                }
                _ if p.declaration_follows() => Some(p.declaration_statement()),
                _ => {
                    let start = p.span();
                    let kind = p.expression_statement();
                    Some(p.stmt(start, kind))
                }
            };
            let cond = (!p.is(T::Semi)).then(|| p.without_try(Self::comma_expr));
            p.expect_semi();
            let step = (!p.is(T::RParen)).then(|| p.without_try(Self::comma_expr));
            (init, cond, step)
        });
        self.close_header(open);
        let body = self.statement();
        StmtKind::For { init, cond, step, body }
    }

    /// `$for (i in Range(a, b)) body`, where `Range(b)` begins at zero: `for (int i = a; i < b; i++) body`
    fn range_statement(&mut self) -> StmtKind {
        self.bump();
        self.bump();
        let open = self.span();
        self.expect(T::LParen);
        let start = self.span();
        let var = self.new_decl(start);
        let bounds = self.bracketed(|p| {
            let (name, span) = p.expect_name("the name of a counter");
            p.name_decl(var, name, span);
            p.expect_word(kw::IN);
            p.expect_word(kw::RANGE);
            let open = p.span();
            p.expect(T::LParen);
            let from = p.pos();
            let bounds = p.separated(|kind| kind == T::RParen, Self::ternary_expr);
            // The loop's own header would take the name for its counter.
            if name != kw::EMPTY && (from..p.pos()).any(|at| p.word_at(at) == name) {
                p.error("E0001", span, "the bounds of `$for` have the name of its counter");
            }
            p.expect_close(T::RParen, open);
            bounds
        });
        self.close_header(open);
        let (first, end) = match bounds[..] {
            [end] => (self.expr_at(start, ExprKind::Int { value: 0, suffix: kw::EMPTY }), end),
            [first, end] => (first, end),
            _ => {
                self.follow_up("E0001", start, "`Range` has one or two bounds");
                return StmtKind::Error;
            }
        };
        let name = self.ast.decls[var].name;
        let ty = self.expr_at(start, ExprKind::Name(kw::INT));
        self.complete(var, start, DeclKind::Var { ty: Some(ty), init: Some(first), semantic: None });
        let init = Some(self.stmt(start, StmtKind::Decl(vec![var])));
        let [tested, counted] = [(); 2].map(|()| self.expr_at(start, ExprKind::Name(name)));
        let cond = Some(self.expr_at(start, ExprKind::Binary(BinaryOp::Lt, tested, end)));
        let step = Some(self.expr_at(start, ExprKind::Postfix(true, counted)));
        StmtKind::For { init, cond, step, body: self.statement() }
    }

    fn do_statement(&mut self) -> StmtKind {
        self.bump();
        let catches = self.catches_follow();
        let level = self.labels.len();
        if catches {
            // A `throw` leaves the body like a `break` to a label on it.
            self.labels.push(kw::EMPTY);
        }
        let body = self.statement();
        if catches {
            self.labels.pop();
            if level >= MAX_LABELS {
                let span = self.ast.stmts[body].span;
                self.error("E0007", span, format!("more than {MAX_LABELS} labels are around this"));
                return StmtKind::Error;
            }
            let mut catches = Vec::new();
            while self.eat_word(kw::CATCH) {
                let var = self.is(T::LParen).then(|| self.catch_variable());
                catches.push((var, self.statement()));
            }
            return StmtKind::DoCatch { body, level: level as u32, catches };
        }
        self.expect_word(kw::WHILE);
        let cond = self.without_try(Self::condition);
        self.expect_semi();
        StmtKind::DoWhile { body, cond }
    }

    /// Returns true if a `catch` follows the block after `do`.
    fn catches_follow(&self) -> bool {
        let close = if self.is(T::LBrace) { self.partner(self.pos()) } else { None };
        close.is_some_and(|close| self.word_at(close + 1) == kw::CATCH)
    }

    /// `(err : E)`, `(E err)`
    fn catch_variable(&mut self) -> DeclId {
        let open = self.bump().span;
        let id = self.new_decl(open);
        let ty = self.typed_name(id, "the error's name");
        self.expect_close(T::RParen, open);
        self.ast.decls[id].kind = DeclKind::Var { ty: Some(ty), init: None, semantic: None };
        id
    }

    fn at_label(&self) -> bool {
        self.is_word(kw::CASE) || (self.is_word(kw::DEFAULT) && self.nth(1) == T::Colon)
    }

    fn switch_statement(&mut self) -> StmtKind {
        self.bump();
        let scrutinee = self.condition();
        let label = |p: &mut Self| {
            let default = p.bump().symbol == kw::DEFAULT;
            (!default).then(|| p.bracketed(Self::ternary_expr))
        };
        let mut cases = self.cases(None, label);
        // Statements before the first label are never reached.
        let unlabelled = cases.first().filter(|case| case.0.is_empty()).and_then(|case| case.1.first());
        if let Some(&first) = unlabelled {
            let span = self.ast.stmts[first].span;
            let warning = Diagnostic::warning("E41000", span, "unreachable code");
            self.warn(warning.help("a 'switch' begins at one of its cases"));
        }
        cases.retain(|case| !case.0.is_empty());
        let cases = cases.into_iter().map(|(labels, body, span)| Case { labels, body, span }).collect();
        StmtKind::Switch { scrutinee, cases }
    }

    /// `{ case …: … default: … }`: labels, statements and the location of each case; `expected` are the
    /// labels that every case must have
    fn cases<L>(
        &mut self,
        expected: Option<&str>,
        mut label: impl FnMut(&mut Self) -> L,
    ) -> Vec<(Vec<L>, Vec<StmtId>, crate::Span)> {
        let open = self.span();
        let mut cases = Vec::new();
        if !self.expect(T::LBrace) {
            return cases;
        }
        while !matches!(self.kind(), T::RBrace | T::Eof) {
            let span = self.span();
            let mut labels = Vec::new();
            while self.at_label() {
                labels.push(label(self));
                self.expect(T::Colon);
            }
            if let Some(expected) = expected.filter(|_| labels.is_empty()) {
                self.expected(expected);
            }
            let body = self.statements(|p| p.at_label() || matches!(p.kind(), T::RBrace | T::Eof));
            cases.push((labels, body, span));
        }
        self.expect_close(T::RBrace, open);
        cases
    }

    /// `__target_switch { case cpp: case cuda: …; default: …; }`
    fn target_switch(&mut self) -> StmtKind {
        self.bump();
        let label = |p: &mut Self| match p.bump().symbol {
            kw::DEFAULT => kw::DEFAULT,
            _ => p.expect_name("a target's name").0,
        };
        let cases = self.cases(Some("`case` or `default`"), label);
        StmtKind::TargetSwitch(cases.into_iter().map(|(names, body, _)| (names, body)).collect())
    }

    fn declaration_statement(&mut self) -> StmtId {
        let start = self.span();
        let mut decls = Vec::new();
        self.declaration(super::declarations::Place::Local, &mut decls);
        self.stmt(start, StmtKind::Decl(decls))
    }

    /// Returns true if a declaration starts here, in the context of a function body.
    fn declaration_follows(&mut self) -> bool {
        let next = self.nth(1);
        match self.word() {
            kw::EMPTY => return self.is(T::ColonColon) && self.type_and_name_follow(),
            kw::STRUCT | kw::CLASS | kw::ENUM => return matches!(next, T::Ident | T::LBrace | T::Colon),
            kw::LET | kw::VAR if next == T::LParen => return self.names_follow(),
            kw::LET | kw::VAR | kw::TYPEDEF | kw::TYPEALIAS | kw::FUNC | kw::USING => {
                return next == T::Ident;
            }
            kw::STATIC | kw::CONST | kw::GROUPSHARED | kw::UNIFORM | kw::PRECISE | kw::VOLATILE => {
                return true;
            }
            kw::GENERIC => return next == T::Lt,
            kw::FOR | kw::DO | kw::WHILE | kw::SWITCH | kw::RETURN => return false,
            kw::NO_DIFF => {}
            _ => {}
        }
        self.type_and_name_follow()
    }

    /// `let (a, b) =`, as opposed to a call of something named `let`
    fn names_follow(&mut self) -> bool {
        let mut at = self.pos() + 2;
        while self.at(at).kind == T::Ident && self.at(at + 1).kind == T::Comma {
            at += 2;
        }
        self.at(at).kind == T::Ident && self.at(at + 1).kind == T::RParen && self.at(at + 2).kind == T::Eq
    }

    /// `T x`; `T * x` is a declaration only if the following token fits one.
    fn type_and_name_follow(&mut self) -> bool {
        let start = self.pos();
        let Some(end) = self.skip_type(start) else { return false };
        let name = self.word_at(end);
        if end == start || name == kw::EMPTY {
            return false;
        }
        if matches!(name, kw::IS | kw::AS) {
            // Either a variable with that name or the operator; no type begins with these tokens.
            return matches!(self.at(end + 1).kind, T::Semi | T::Eq | T::Comma | T::LBracket);
        }
        if self.at(end - 1).kind == T::Star {
            return matches!(self.at(end + 1).kind, T::Semi | T::Eq | T::Comma | T::LBracket);
        }
        // `each x` and similar are expressions; `return x` and similar are handled before.
        end > start + 1 || !matches!(self.word(), kw::EACH | kw::EXPAND | kw::TRY | kw::NO_DIFF)
    }
}
