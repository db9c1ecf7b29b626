//! The parser's state: the tokens, where it is, and how it reports and recovers. The grammar is in
//! `grammar/`.
//!
//! There is no backtracking. Where Slang is ambiguous (`a < b`, `T x`, `(T) x`) the parser looks ahead
//! over tokens only, without building anything, and keeps what it found out, so that each question is
//! answered in time linear in the file. Recursion is counted: text that nests deeper than
//! [`MAX_NESTING`] gets a diagnostic and the rest of the file is skipped.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::grammar::bit_fields::BitField;
use crate::keywords as kw;
use crate::preprocess::{IncludeLoader, Preprocessor};
use crate::source::{FileId, Sources, Span};
use crate::spelling::nearest;
use crate::token::{Token, TokenKind, lex};

/// Expressions, types and statements may nest so deep.
pub const MAX_NESTING: u32 = 1000;
/// Words that statements and declarations start with.
pub const WORDS: [&str; 20] = [
    "return",
    "while",
    "switch",
    "for",
    "else",
    "break",
    "continue",
    "case",
    "default",
    "discard",
    "struct",
    "interface",
    "extension",
    "namespace",
    "typedef",
    "typealias",
    "associatedtype",
    "import",
    "property",
    "func",
];
/// So many errors in one file, and the rest is skipped.
const MAX_ERRORS: usize = 200;

/// Parses a file and everything that it `#include`s. Gives the index of its tree in [`Ast::files`].
pub fn parse_file(
    ast: &mut Ast,
    sources: &mut Sources,
    file: FileId,
    loader: &mut dyn IncludeLoader,
    defines: &[(String, String)],
    diagnostics: &mut Vec<Diagnostic>,
) -> usize {
    let before = diagnostics.len();
    let tokens = tokens_of(ast, sources, file, loader, defines, diagnostics);
    let damage = damage(sources, &diagnostics[before..]);
    // About as many nodes as Slang text has; growing is slower than reading.
    ast.exprs.reserve(tokens.len() / 3);
    ast.stmts.reserve(tokens.len() / 16);
    ast.decls.reserve(tokens.len() / 12);
    let mut parser = Parser::new(ast, tokens, damage, diagnostics);
    parser.sources = Some(sources);
    let decls = parser.file();
    ast.files.push(FileAst { file, decls });
    ast.files.len() - 1
}

/// The expression that a text is, if it is one; every node lies at `span`.
pub fn parse_expression(ast: &mut Ast, text: &str, span: Span) -> Option<ExprId> {
    let mut tokens = lex(&mut ast.symbols, span.file, text).tokens;
    tokens.iter_mut().for_each(|token| token.span = span);
    let mut diagnostics = Vec::new();
    let mut parser = Parser::new(ast, tokens, Vec::new(), &mut diagnostics);
    let expr = parser.any_expr();
    let at_end = parser.kind() == TokenKind::Eof;
    (at_end && diagnostics.is_empty()).then_some(expr)
}

/// Macros that say which compiler and which language this is.
const PREDEFINED: [(&str, &str); 4] =
    [("__SLANG__", "1"), ("__SLANG_COMPILER__", "1"), ("__HLSL__", "0"), ("__HLSL_VERSION", "2018")];

/// The tokens that the parser sees, without those of `Bad…` kinds; the last is the end of the file.
fn tokens_of(
    ast: &mut Ast,
    sources: &mut Sources,
    file: FileId,
    loader: &mut dyn IncludeLoader,
    defines: &[(String, String)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Token> {
    let text = sources.files.get(file.0 as usize).map_or_else(|| "".into(), |f| f.text.clone());
    let lexed = lex(&mut ast.symbols, file, &text);
    let mut tokens = lexed.tokens;
    let mut has_bad = lexed.has_bad;
    if lexed.needs_preprocessing || !defines.is_empty() {
        let eof = tokens[tokens.len() - 1];
        let mut preprocessor =
            Preprocessor::new(&mut ast.symbols, sources, &mut ast.warnings, diagnostics, loader);
        preprocessor.out.reserve(tokens.len());
        for (name, value) in PREDEFINED {
            if !defines.iter().any(|d| d.0 == name) {
                preprocessor.predefine(file, name, value);
            }
        }
        for (name, value) in defines {
            preprocessor.predefine(file, name, value);
        }
        preprocessor.file(&tokens);
        preprocessor.end_pragmas();
        tokens = preprocessor.out;
        tokens.push(eof);
        has_bad = true;
    }
    if has_bad {
        tokens.retain_mut(|token| report_bad(&mut ast.symbols, token, diagnostics));
    }
    tokens
}

/// Reports a token that is none; false if the parser must not see it. A literal without end gets one, so
/// that nothing else is reported for it.
fn report_bad(symbols: &mut Symbols, token: &mut Token, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let error = match token.kind {
        TokenKind::BadString => {
            let character = symbols.name(token.symbol).starts_with('\'');
            let what = if character { "character" } else { "string" };
            let quote = if character { '\'' } else { '"' };
            token.kind = TokenKind::String;
            token.symbol = symbols.intern("\"\"");
            Diagnostic::error("E0003", token.span, format!("{what} without end"))
                .help(format!("add the closing `{quote}` on the same line"))
        }
        TokenKind::BadComment => {
            Diagnostic::error("E0004", token.span, "comment without end").help("close it with `*/`")
        }
        TokenKind::BadChar => {
            let text = symbols.name(token.symbol).escape_debug();
            Diagnostic::error("E0005", token.span, format!("unexpected character `{text}`"))
        }
        _ => return true,
    };
    if diagnostics.len() < MAX_ERRORS {
        diagnostics.push(error);
    }
    token.kind == TokenKind::String
}

/// Text whose tokens are not what the user meant: a lexical error up to the end of its line, all after what has no end.
fn damage(sources: &Sources, errors: &[Diagnostic]) -> Vec<Span> {
    let damaged = errors.iter().filter_map(|error| {
        let span = error.primary.span;
        let file = sources.files.get(span.file.0 as usize)?;
        let end = match error.code {
            "E0003" | "E0005" | "E0029" | "E0031" => {
                let next = file.line_starts.partition_point(|&s| s < span.end);
                file.line_starts.get(next).copied().unwrap_or(u32::MAX)
            }
            "E0004" | "E0028" => u32::MAX,
            _ => return None,
        };
        Some(Span { end, ..span })
    });
    damaged.collect()
}

/// No partner.
const NONE: u32 = u32::MAX;

/// The parser.
pub(crate) struct Parser<'a> {
    pub(crate) ast: &'a mut Ast,
    tokens: Vec<Token>,
    pos: usize,
    /// For each bracket that opens, the position of the one that closes it.
    partners: Vec<u32>,
    /// The position of the last `}` that closes nothing; 0 if each closes something.
    last_stray: usize,
    /// For each `<` that was asked about, the `>` that closes it, if it opens generic arguments.
    angles: FxHashMap<u32, Option<u32>>,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Text with lexical errors: what the parser finds there follows from them.
    damage: Vec<Span>,
    /// For where a line starts.
    sources: Option<&'a Sources>,
    errors: usize,
    last_error: usize,
    stopped: bool,
    depth: u32,
    /// The first token of the innermost statement or declaration that has begun last.
    head: usize,
    /// The declaration around what is parsed now.
    pub(crate) parent: Option<DeclId>,
    /// Inside generic arguments, where `>` closes and isn't an operator.
    pub(crate) in_angle: bool,
    /// In a constraint, where a brace after a type opens a body.
    pub(crate) in_constraint: bool,
    /// Names that this file declares as types.
    types: FxHashSet<Symbol>,
    /// Names of the generic type parameters in scope, innermost last.
    pub(crate) type_params: Vec<Symbol>,
    /// Labels around what is parsed now, innermost last.
    pub(crate) labels: Vec<Symbol>,
    /// `try` calls of the statement that is parsed now.
    pub(crate) tries: Vec<StmtId>,
    /// Bit-fields of the struct that is parsed now.
    pub(crate) bit_fields: Vec<BitField>,
    /// That struct.
    pub(crate) bit_owner: Option<DeclId>,
}

impl<'a> Parser<'a> {
    fn new(
        ast: &'a mut Ast,
        tokens: Vec<Token>,
        damage: Vec<Span>,
        diagnostics: &'a mut Vec<Diagnostic>,
    ) -> Parser<'a> {
        let (partners, types, last_stray) = survey(&tokens);
        Parser {
            ast,
            tokens,
            pos: 0,
            partners,
            last_stray,
            angles: FxHashMap::default(),
            diagnostics,
            damage,
            sources: None,
            errors: 0,
            last_error: usize::MAX,
            stopped: false,
            depth: 0,
            head: 0,
            parent: None,
            in_angle: false,
            in_constraint: false,
            types,
            type_params: Vec::new(),
            labels: Vec::new(),
            tries: Vec::new(),
            bit_fields: Vec::new(),
            bit_owner: None,
        }
    }

    // Looking at tokens.

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    /// The token at a position; the end of the file for all after it.
    pub(crate) fn n_tokens(&self) -> usize {
        self.tokens.len()
    }

    pub(crate) fn at(&self, pos: usize) -> &Token {
        &self.tokens[pos.min(self.tokens.len() - 1)]
    }

    pub(crate) fn current(&self) -> &Token {
        &self.tokens[self.pos]
    }

    pub(crate) fn kind(&self) -> TokenKind {
        self.tokens[self.pos].kind
    }

    pub(crate) fn nth(&self, ahead: usize) -> TokenKind {
        self.at(self.pos + ahead).kind
    }

    /// The name at a position; empty if there is none.
    pub(crate) fn word_at(&self, pos: usize) -> Symbol {
        let token = self.at(pos);
        if token.kind == TokenKind::Ident { token.symbol } else { kw::EMPTY }
    }

    /// The current name; empty if the current token is none.
    pub(crate) fn word(&self) -> Symbol {
        self.word_at(self.pos)
    }

    pub(crate) fn is(&self, kind: TokenKind) -> bool {
        self.kind() == kind
    }

    pub(crate) fn is_word(&self, word: Symbol) -> bool {
        self.word() == word
    }

    /// The place of the current token.
    pub(crate) fn span(&self) -> Span {
        self.current().span
    }

    /// From `start` to the last token that was read.
    pub(crate) fn span_from(&self, start: Span) -> Span {
        if self.pos == 0 {
            return start;
        }
        let last = self.tokens[self.pos - 1].span;
        if last.file == start.file && last.end < start.end { start } else { start.to(last) }
    }

    /// The place of the last token that was read.
    pub(crate) fn span_before(&self) -> Span {
        self.tokens[self.pos.saturating_sub(1)].span
    }

    /// A statement or declaration starts with the current token.
    pub(crate) fn begin(&mut self) {
        self.head = self.pos;
    }

    /// Whether the current token is the first of a line that is not indented, as those of a file's declarations are.
    pub(crate) fn at_margin(&self) -> bool {
        let span = self.span();
        let starts = self.sources.and_then(|s| s.files.get(span.file.0 as usize)).map(|f| &f.line_starts);
        self.current().at_line_start()
            && matches!(self.kind(), TokenKind::Ident | TokenKind::LBracket)
            && starts.is_some_and(|starts| starts.binary_search(&span.start).is_ok())
    }

    /// The bracket that closes the one at `pos`.
    pub(crate) fn partner(&self, pos: usize) -> Option<usize> {
        self.partners.get(pos).copied().filter(|&p| p != NONE).map(|p| p as usize)
    }

    /// Whether a `{` that is not here is really missing: there is a `}` too much.
    pub(crate) fn lacks_brace(&self) -> bool {
        self.last_stray > self.pos
    }

    /// After an error in a declaration of the file: if it has ended too early, goes on after its real end, which is
    /// where a `}` closes nothing.
    pub(crate) fn skip_strays(&mut self) {
        if self.lacks_brace() && !self.stopped && !self.at_margin() {
            self.pos = self.last_stray;
            self.bump();
        }
    }

    /// How many errors have been reported.
    pub(crate) fn n_errors(&self) -> usize {
        self.errors
    }

    pub(crate) fn is_known_type(&self, name: Symbol) -> bool {
        self.types.contains(&name) || self.type_params.contains(&name)
    }

    // Reading tokens.

    pub(crate) fn bump(&mut self) -> Token {
        let token = self.tokens[self.pos];
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
        token
    }

    pub(crate) fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.is(kind);
        if found {
            self.bump();
        }
        found
    }

    pub(crate) fn eat_word(&mut self, word: Symbol) -> bool {
        let found = self.is_word(word);
        if found {
            self.bump();
        }
        found
    }

    pub(crate) fn expect(&mut self, kind: TokenKind) -> bool {
        let found = self.eat(kind);
        if !found {
            self.expected(&format!("`{}`", kind.text()));
        }
        found
    }

    /// Like [`Parser::expect_close`] after the elements of a list.
    pub(crate) fn expect_list_end(&mut self, kind: TokenKind, open: Span) -> bool {
        if self.eat(kind) {
            return true;
        }
        self.report_open(&format!("`,` or `{}`", kind.text()), open);
        false
    }

    /// Reads a closing bracket, or says where the one that is open came from.
    pub(crate) fn expect_close(&mut self, kind: TokenKind, open: Span) -> bool {
        if self.eat(kind) {
            return true;
        }
        self.report_open(&format!("`{}`", kind.text()), open);
        false
    }

    /// Says that a bracket is not closed: at the end of the line before, if a line starts here.
    fn report_open(&mut self, wanted: &str, open: Span) {
        // The end of a block may be many lines before.
        let place = self.line_end().filter(|_| wanted != "`}`");
        let (message, span) = match place {
            Some(end) => (format!("expected {wanted} at the end of this line"), end),
            None => (format!("expected {wanted}, found {}", self.found()), self.span()),
        };
        self.report(Diagnostic::error("E0001", span, message).note(open, "to close this"));
    }

    /// The last character of the line before, if the current token starts a line.
    fn line_end(&self) -> Option<Span> {
        if !self.current().at_line_start() || self.pos == 0 {
            return None;
        }
        let span = self.tokens[self.pos - 1].span;
        Some(Span { start: span.end.saturating_sub(1).max(span.start), ..span })
    }

    pub(crate) fn expect_word(&mut self, word: Symbol) -> bool {
        let found = self.eat_word(word);
        if !found {
            let text = self.ast.name(word).to_owned();
            self.expected(&format!("`{text}`"));
        }
        found
    }

    /// A name and its place; the empty name (with a report) if there is none.
    pub(crate) fn expect_name(&mut self, what: &str) -> (Symbol, Span) {
        if self.is(TokenKind::Ident) {
            let token = self.bump();
            return (token.symbol, token.span);
        }
        self.expected(what);
        (kw::EMPTY, self.span())
    }

    /// Closes generic arguments; takes the first half of `>=` and the first third of `>>=`.
    pub(crate) fn expect_angle(&mut self, open: Span) -> bool {
        let rest = match self.kind() {
            TokenKind::Ge => TokenKind::Eq,
            TokenKind::ShrEq => TokenKind::Ge,
            _ => return self.expect_list_end(TokenKind::Gt, open),
        };
        let token = &mut self.tokens[self.pos];
        token.kind = rest;
        token.span.start = (token.span.start + 1).min(token.span.end);
        true
    }

    /// Reads the first half of `<<`.
    pub(crate) fn use_half_shift(&mut self) {
        let token = &mut self.tokens[self.pos];
        token.kind = TokenKind::Lt;
        token.span.start = (token.span.start + 1).min(token.span.end);
    }

    // Reporting.

    /// How the current token is called in a message.
    pub(crate) fn found(&self) -> String {
        let token = self.current();
        match token.kind {
            TokenKind::Eof => "end of file".to_owned(),
            TokenKind::String => "a string".to_owned(),
            _ => format!("`{}`", token.text(&self.ast.symbols)),
        }
    }

    pub(crate) fn expected(&mut self, what: &str) {
        let message = format!("expected {what}, found {}", self.found());
        let error = Diagnostic::error("E0001", self.span(), message);
        self.report(error);
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Reports an error that any error before it may have caused, if there is none.
    pub(crate) fn follow_up(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        if self.errors == 0 {
            self.error(code, span, message);
        }
    }

    /// Reports an error, but only the first at a token: the others follow from it.
    pub(crate) fn report(&mut self, error: Diagnostic) {
        if self.stopped || self.last_error == self.pos {
            return;
        }
        self.last_error = self.pos;
        if self.is_damaged() {
            return;
        }
        self.errors += 1;
        let error = self.with_word(error);
        self.diagnostics.push(error);
        if self.errors >= MAX_ERRORS {
            self.diagnostics.push(Diagnostic::error(
                "E0008",
                self.span(),
                "too many errors; the rest of the file is not parsed",
            ));
            self.stop();
        }
    }

    /// Adds the word that the statement may be meant to start with.
    fn with_word(&self, error: Diagnostic) -> Diagnostic {
        let read = &self.tokens[self.head.min(self.pos)..self.pos];
        let ended = |t: &Token| matches!(t.kind, TokenKind::Semi | TokenKind::LBrace | TokenKind::RBrace);
        if error.code != "E0001" || error.help.is_some() || read.iter().any(ended) {
            return error;
        }
        let Some(first) = read.first().filter(|t| t.kind == TokenKind::Ident) else { return error };
        match nearest(self.ast.name(first.symbol), WORDS.into_iter()) {
            Some(word) => error.note(first.span, format!("did you mean `{word}`?")),
            None => error,
        }
    }

    /// Whether the current token, or the end of the one before, is in damaged text.
    fn is_damaged(&self) -> bool {
        let within =
            |file: FileId, at: u32| self.damage.iter().any(|d| d.file == file && d.start <= at && at < d.end);
        let before = self.pos.checked_sub(1).map(|p| self.tokens[p].span);
        within(self.span().file, self.span().start)
            || before.is_some_and(|b| within(b.file, b.end.saturating_sub(1).max(b.start)))
    }

    /// Gives up: as if the file ended here.
    fn stop(&mut self) {
        self.stopped = true;
        self.pos = self.tokens.len() - 1;
    }

    /// Enters a level of nesting; false if that is too deep.
    pub(crate) fn enter(&mut self) -> bool {
        if self.depth >= MAX_NESTING {
            if !self.stopped {
                let error = Diagnostic::error("E0007", self.span(), "this nests too deep");
                self.last_error = usize::MAX;
                self.report(error.help(format!("at most {MAX_NESTING} levels are possible")));
                self.stop();
            }
            return false;
        }
        self.depth += 1;
        true
    }

    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Goes back to a token that was read already.
    pub(crate) fn rewind(&mut self, pos: usize) {
        if !self.stopped {
            self.pos = pos;
        }
    }

    // Recovery.

    /// Ends a statement or declaration. Without `;` it goes on at the next line, if a statement may start
    /// there, and else after the next `;` or at the end of the block.
    pub(crate) fn expect_semi(&mut self) {
        if self.eat(TokenKind::Semi) {
            return;
        }
        // The statement has an error already.
        let silent = self.errors > 0 && self.last_error != usize::MAX && self.last_error >= self.head;
        let found = self.found();
        let next_line = self.current().at_line_start() || matches!(self.kind(), TokenKind::RBrace);
        let error = Diagnostic::error("E0001", self.span(), format!("expected `;`, found {found}"));
        if next_line && self.pos > 0 {
            let mut place = self.tokens[self.pos - 1].span;
            place.start = place.end.saturating_sub(1).max(place.start);
            let error = Diagnostic { message: "expected `;` at the end of this line".to_owned(), ..error };
            let error = Diagnostic { primary: crate::Label { span: place, message: String::new() }, ..error };
            if !silent {
                self.report(error);
            }
            return;
        }
        if !silent {
            self.report(error);
        }
        self.skip_statement();
    }

    /// Skips to after the next `;` or before the `}` that closes the block. Blocks inside are skipped whole.
    pub(crate) fn skip_statement(&mut self) {
        loop {
            match self.kind() {
                TokenKind::Eof | TokenKind::RBrace => return,
                TokenKind::Semi => {
                    self.bump();
                    return;
                }
                TokenKind::LBrace => {
                    self.skip_brackets();
                    if self.current().at_line_start() {
                        return;
                    }
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    /// Skips a bracket and what it holds. Not at a bracket: skips one token.
    pub(crate) fn skip_brackets(&mut self) {
        if let Some(close) = self.partner(self.pos) {
            self.pos = close;
        }
        self.bump();
    }

    // Nodes.

    pub(crate) fn expr(&mut self, start: Span, kind: ExprKind) -> ExprId {
        let span = self.span_from(start);
        self.ast.exprs.push(Expr { kind, span })
    }

    pub(crate) fn expr_at(&mut self, span: Span, kind: ExprKind) -> ExprId {
        self.ast.exprs.push(Expr { kind, span })
    }

    pub(crate) fn stmt(&mut self, start: Span, kind: StmtKind) -> StmtId {
        let span = self.span_from(start);
        self.ast.stmts.push(Stmt { kind, attributes: Vec::new(), span })
    }

    /// A declaration that gets its kind later, so that its members can name it as their parent.
    pub(crate) fn new_decl(&mut self, span: Span) -> DeclId {
        self.ast.decls.push(Decl {
            kind: DeclKind::Empty,
            name: kw::EMPTY,
            name_span: span,
            span,
            modifiers: Modifiers::default(),
            attributes: Vec::new(),
            generics: None,
            parent: self.parent,
        })
    }

    /// Runs a part of the grammar with another parent.
    pub(crate) fn inside<R>(&mut self, parent: DeclId, part: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.parent.replace(parent);
        let result = part(self);
        self.parent = outer;
        result
    }

    /// Runs a part of the grammar where `>` is an operator (false) or closes (true).
    pub(crate) fn angled<R>(&mut self, in_angle: bool, part: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.in_angle, in_angle);
        let result = part(self);
        self.in_angle = outer;
        result
    }

    // Looking ahead.

    /// The `>` that closes the `<` at `open`, if what is between can be generic arguments.
    pub(crate) fn angle_close(&mut self, open: usize) -> Option<usize> {
        if let Some(&known) = self.angles.get(&(open as u32)) {
            return known.map(|close| close as usize);
        }
        self.scan_angles(open);
        self.angles.get(&(open as u32)).copied().flatten().map(|close| close as usize)
    }

    /// Finds out about the `<` at `open` and all others up to its end.
    fn scan_angles(&mut self, open: usize) {
        // The `<` that are open, and for each how many brackets were open before it.
        let mut angles: Vec<(u32, usize)> = vec![(open as u32, 0)];
        let mut brackets = 0usize;
        let mut pos = open + 1;
        while let Some(&(top, level)) = angles.last() {
            match self.at(pos).kind {
                TokenKind::Lt => angles.push((pos as u32, brackets)),
                TokenKind::Gt if level == brackets => {
                    self.angles.insert(top, Some(pos as u32));
                    angles.pop();
                }
                TokenKind::LParen | TokenKind::LBracket => brackets += 1,
                TokenKind::RParen | TokenKind::RBracket => {
                    self.drop_angles(&mut angles, brackets);
                    brackets = brackets.saturating_sub(1);
                }
                TokenKind::Eof | TokenKind::Semi | TokenKind::LBrace | TokenKind::RBrace => {
                    self.drop_angles(&mut angles, 0);
                }
                kind if ends_angles(kind) => self.drop_angles(&mut angles, brackets),
                _ => {}
            }
            pos += 1;
        }
    }

    /// The open `<` at this level of brackets or deeper are operators.
    fn drop_angles(&mut self, angles: &mut Vec<(u32, usize)>, level: usize) {
        while let Some(&(top, at)) = angles.last()
            && at >= level
        {
            self.angles.insert(top, None);
            angles.pop();
        }
    }

    /// The position after a type that starts at `pos`, if there can be one.
    pub(crate) fn skip_type(&mut self, mut pos: usize) -> Option<usize> {
        while self.is_type_modifier(self.word_at(pos)) && self.at(pos + 1).kind == TokenKind::Ident {
            pos += 1;
        }
        if self.at(pos).kind == TokenKind::ColonColon {
            pos += 1;
        }
        if self.word_at(pos) == kw::FUNCTYPE && self.at(pos + 1).kind == TokenKind::LParen {
            let close = self.partner(pos + 1)?;
            return if self.at(close + 1).kind == TokenKind::Arrow {
                self.skip_type(close + 2)
            } else {
                None
            };
        }
        if self.at(pos).kind != TokenKind::Ident {
            return None;
        }
        pos += 1;
        if self.word_at(pos - 1) == kw::UNSIGNED && self.word_at(pos) == kw::INT {
            pos += 1;
        }
        loop {
            match self.at(pos).kind {
                TokenKind::Dot | TokenKind::ColonColon if self.at(pos + 1).kind == TokenKind::Ident => {
                    pos += 2
                }
                TokenKind::Lt => pos = self.angle_close(pos)? + 1,
                TokenKind::LBracket => pos = self.partner(pos)? + 1,
                TokenKind::Star => pos += 1,
                _ => return Some(pos),
            }
        }
    }

    pub(crate) fn is_type_modifier(&self, word: Symbol) -> bool {
        matches!(
            word,
            kw::CONST
                | kw::NO_DIFF
                | kw::ROW_MAJOR
                | kw::COLUMN_MAJOR
                | kw::UNORM
                | kw::SNORM
                | kw::VOLATILE
                | kw::EACH
                | kw::EXPAND
                | kw::DYN
                | kw::SOME
        )
    }
}

/// Tokens that no generic argument has outside brackets.
fn ends_angles(kind: TokenKind) -> bool {
    use TokenKind as T;
    matches!(
        kind,
        T::AndAnd
            | T::OrOr
            | T::Question
            | T::Colon
            | T::Eq
            | T::Le
            | T::Ge
            | T::PlusEq
            | T::MinusEq
            | T::StarEq
            | T::SlashEq
            | T::PercentEq
            | T::AmpEq
            | T::PipeEq
            | T::CaretEq
            | T::ShlEq
            | T::ShrEq
            | T::PlusPlus
            | T::MinusMinus
            | T::Hash
            | T::At
            | T::Dollar
            | T::Backslash
    )
}

/// One look at all tokens: which brackets belong together, and which names are declared as types.
fn survey(tokens: &[Token]) -> (Vec<u32>, FxHashSet<Symbol>, usize) {
    let mut partners = vec![NONE; tokens.len()];
    let mut types = FxHashSet::default();
    let mut open: Vec<(TokenKind, usize)> = Vec::new();
    let mut last_stray = 0;
    for (pos, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::LParen => open.push((TokenKind::RParen, pos)),
            TokenKind::LBracket => open.push((TokenKind::RBracket, pos)),
            TokenKind::LBrace => open.push((TokenKind::RBrace, pos)),
            TokenKind::RParen | TokenKind::RBracket | TokenKind::RBrace => {
                // A brace closes whatever was left open inside it; other brackets only their own kind.
                let brace = token.kind == TokenKind::RBrace;
                if brace && open.iter().all(|o| o.0 != TokenKind::RBrace) {
                    last_stray = pos;
                }
                while let Some(&(kind, at)) = open.last() {
                    if kind == token.kind {
                        partners[at] = pos as u32;
                        open.pop();
                        break;
                    }
                    if token.kind != TokenKind::RBrace {
                        break;
                    }
                    open.pop();
                }
            }
            TokenKind::Ident => match token.symbol {
                kw::STRUCT | kw::CLASS | kw::ENUM | kw::INTERFACE | kw::TYPEALIAS | kw::ASSOCIATEDTYPE => {
                    let mut next = pos + 1;
                    if token.symbol == kw::ENUM && tokens.get(next).is_some_and(|t| t.symbol == kw::CLASS) {
                        next += 1;
                    }
                    types.extend(tokens.get(next).filter(|t| t.kind == TokenKind::Ident).map(|t| t.symbol));
                }
                kw::TYPEDEF => {
                    let mut rest = tokens[pos..].iter().take(64);
                    if let Some(length) = rest.position(|t| t.kind == TokenKind::Semi) {
                        let name = &tokens[pos + length - 1];
                        types.extend((name.kind == TokenKind::Ident).then_some(name.symbol));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
    types.remove(&kw::EMPTY);
    (partners, types, last_stray)
}
