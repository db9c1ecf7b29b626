//! Holds the parser's state: the tokens and the current position. The grammar is in `grammar/`.
//!
//! There is no backtracking. Where Slang is ambiguous (`a < b`, `T x`, `(T) x`), the parser looks ahead over
//! tokens only, without building nodes, and caches what it finds, so that all lookahead takes time linear in
//! the size of the file. Recursion depth is counted: text that nests deeper than [`MAX_NESTING`] gets a
//! diagnostic, and the rest of the file is skipped.

mod lookahead;
mod recovery;
mod tokens;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::preprocess::IncludeLoader;
use crate::source::{FileId, Sources, Span};
use crate::token::{Token, TokenKind, lex};
use lookahead::survey;
use tokens::{damage, tokens_of};

/// The maximum nesting depth of expressions, types and statements.
pub const MAX_NESTING: u32 = 1000;
/// The words that statements and declarations start with.
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
/// The maximum number of errors in one file, after which the rest is skipped.
const MAX_ERRORS: usize = 200;

/// Parses a file and everything that it `#include`s. Returns the index of its tree in [`Ast::files`].
pub fn parse_file(
    ast: &mut Ast,
    sources: &mut Sources,
    file: FileId,
    loader: &mut dyn IncludeLoader,
    defines: &[(String, String)],
    diagnostics: &mut Vec<Diagnostic>,
) -> usize {
    let before = diagnostics.len();
    let (tokens, has_version) = tokens_of(ast, sources, file, loader, defines, diagnostics);
    let damage = damage(sources, &diagnostics[before..]);
    ast.reserve(tokens.len());
    let mut parser = Parser::new(ast, tokens, damage, diagnostics);
    parser.sources = Some(sources);
    parser.has_version = has_version;
    let decls = parser.file();
    ast.files.push(FileAst { file, decls });
    ast.files.len() - 1
}

/// Parses a text as an expression, or returns `None` if it is not one; the location of every node is `span`.
pub fn parse_expression(ast: &mut Ast, text: &str, span: Span) -> Option<ExprId> {
    let mut tokens = lex(&mut ast.symbols, span.file, text).tokens;
    tokens.iter_mut().for_each(|token| token.span = span);
    parse_tokens(ast, tokens)
}

/// Parses tokens as an expression, or returns `None` if they are not one.
pub(crate) fn parse_tokens(ast: &mut Ast, tokens: Vec<Token>) -> Option<ExprId> {
    let mut diagnostics = Vec::new();
    let mut parser = Parser::new(ast, tokens, Vec::new(), &mut diagnostics);
    let expr = parser.any_expr();
    let at_end = parser.kind() == TokenKind::Eof;
    (at_end && diagnostics.is_empty()).then_some(expr)
}

/// Marks a bracket without a partner.
const NONE: u32 = u32::MAX;

/// The parser.
pub(crate) struct Parser<'a> {
    pub(crate) ast: &'a mut Ast,
    tokens: Vec<Token>,
    pos: usize,
    survey: Survey,
    /// For each `<` examined so far, the `>` that closes it, if the `<` opens generic arguments.
    angles: FxHashMap<u32, Option<u32>>,
    reports: Reports<'a>,
    /// Used to find the starts of lines.
    sources: Option<&'a Sources>,
    /// Parsing has stopped, as if the file ended here.
    stopped: bool,
    depth: u32,
    /// The first token of the most recently begun statement or declaration.
    head: usize,
    /// The declaration that encloses what is being parsed.
    pub(crate) parent: Option<DeclId>,
    /// Inside generic arguments, where `>` closes them and is not an operator.
    pub(crate) in_angle: bool,
    /// In a constraint, where a brace after a type opens a body.
    pub(crate) in_constraint: bool,
    /// Names of the generic type parameters in scope, innermost last.
    pub(crate) type_params: Vec<Symbol>,
    /// The enclosing labels, innermost last.
    pub(crate) labels: Vec<Symbol>,
    /// The `try`s of the statement that is being parsed.
    pub(crate) tries: Vec<Span>,
    /// The struct whose members are being parsed, which may have bit-fields.
    pub(crate) bit_owner: Option<DeclId>,
    /// The declaration whose members are being parsed.
    pub(crate) container: Option<DeclId>,
    /// The structs without a name that have been found where types are; they become members of the container.
    pub(crate) nameless: Vec<DeclId>,
    /// The registers after the name that is being parsed.
    pub(crate) registers: Vec<Register>,
    /// The file has declarations of GLSL.
    pub(crate) is_glsl: bool,
    /// The file says `#version`, so it is all GLSL.
    pub(crate) has_version: bool,
}

/// The findings of one pass over the tokens before parsing.
struct Survey {
    /// For each opening bracket, the position of the closing one.
    partners: Vec<u32>,
    /// Names that this file declares as types.
    types: FxHashSet<Symbol>,
    /// The position of the last `}` without a partner; 0 if there is none.
    last_stray: usize,
}

/// The errors of the file.
struct Reports<'a> {
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Text with lexical errors: errors that the parser finds there are their consequences.
    damage: Vec<Span>,
    /// The number of errors so far.
    count: usize,
    /// The position of the token of the last error; `usize::MAX` if there is none.
    last: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(
        ast: &'a mut Ast,
        tokens: Vec<Token>,
        damage: Vec<Span>,
        diagnostics: &'a mut Vec<Diagnostic>,
    ) -> Parser<'a> {
        Parser {
            ast,
            survey: survey(&tokens),
            tokens,
            pos: 0,
            angles: FxHashMap::default(),
            reports: Reports { diagnostics, damage, count: 0, last: usize::MAX },
            sources: None,
            stopped: false,
            depth: 0,
            head: 0,
            parent: None,
            in_angle: false,
            in_constraint: false,
            type_params: Vec::new(),
            labels: Vec::new(),
            tries: Vec::new(),
            bit_owner: None,
            container: None,
            nameless: Vec::new(),
            registers: Vec::new(),
            is_glsl: false,
            has_version: false,
        }
    }

    // Inspecting tokens.

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    /// The token at a position; past the end, the end-of-file token.
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

    /// The name at a position; empty if there is no name.
    pub(crate) fn word_at(&self, pos: usize) -> Symbol {
        let token = self.at(pos);
        if token.kind == TokenKind::Ident { token.symbol } else { kw::EMPTY }
    }

    /// The current name; empty if the current token is not a name.
    pub(crate) fn word(&self) -> Symbol {
        self.word_at(self.pos)
    }

    pub(crate) fn is(&self, kind: TokenKind) -> bool {
        self.kind() == kind
    }

    pub(crate) fn is_word(&self, word: Symbol) -> bool {
        self.word() == word
    }

    /// The location of the current token.
    pub(crate) fn span(&self) -> Span {
        self.current().span
    }

    /// The location from `start` to the last consumed token.
    pub(crate) fn span_from(&self, start: Span) -> Span {
        if self.pos == 0 {
            return start;
        }
        let last = self.tokens[self.pos - 1].span;
        if last.file == start.file && last.end < start.end { start } else { start.to(last) }
    }

    /// The location of the last consumed token.
    pub(crate) fn span_before(&self) -> Span {
        self.tokens[self.pos.saturating_sub(1)].span
    }

    /// Marks the current token as the start of a statement or declaration.
    pub(crate) fn begin(&mut self) {
        self.head = self.pos;
    }

    /// Returns true if the current token is the first of an unindented line, as at the start of a top-level
    /// declaration.
    pub(crate) fn at_margin(&self) -> bool {
        let span = self.span();
        let starts = self.sources.and_then(|s| s.files.get(span.file.0 as usize)).map(|f| &f.line_starts);
        self.current().at_line_start()
            && matches!(self.kind(), TokenKind::Ident | TokenKind::LBracket)
            && starts.is_some_and(|starts| starts.binary_search(&span.start).is_ok())
    }

    /// The bracket that closes the one at `pos`.
    pub(crate) fn partner(&self, pos: usize) -> Option<usize> {
        self.survey.partners.get(pos).copied().filter(|&p| p != NONE).map(|p| p as usize)
    }

    /// Returns true if a `{` that was expected here is really missing, which shows in an unmatched `}`
    /// further on.
    pub(crate) fn lacks_brace(&self) -> bool {
        self.survey.last_stray > self.pos
    }

    /// Recovers from an error in a top-level declaration: if the declaration has ended too early, skips to
    /// its real end, where an unmatched `}` stands.
    pub(crate) fn skip_strays(&mut self) {
        if self.lacks_brace() && !self.stopped && !self.at_margin() {
            self.pos = self.survey.last_stray;
            self.bump();
        }
    }

    /// The number of errors reported so far.
    pub(crate) fn n_errors(&self) -> usize {
        self.reports.count
    }

    pub(crate) fn is_known_type(&self, name: Symbol) -> bool {
        self.survey.types.contains(&name) || self.type_params.contains(&name)
    }

    // Consuming tokens.

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

    /// Consumes the first half of `<<`.
    pub(crate) fn use_half_shift(&mut self) {
        let token = &mut self.tokens[self.pos];
        token.kind = TokenKind::Lt;
        token.span.start = (token.span.start + 1).min(token.span.end);
    }

    /// Enters a level of nesting; returns false if the nesting is too deep.
    pub(crate) fn enter(&mut self) -> bool {
        if self.depth >= MAX_NESTING {
            if !self.stopped {
                let error = Diagnostic::error("E0007", self.span(), "this is nested too deeply");
                self.reports.last = usize::MAX;
                self.report(error.help(format!("at most {MAX_NESTING} levels are allowed")));
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

    /// Moves the position to a token; used to go back, and to skip ahead to a known position.
    pub(crate) fn rewind(&mut self, pos: usize) {
        if !self.stopped {
            self.pos = pos;
        }
    }

    // Creating nodes.

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

    /// Creates a declaration whose kind is set later, so that its members can refer to it as their parent.
    pub(crate) fn new_decl(&mut self, span: Span) -> DeclId {
        self.ast.decls.push(Decl::new(DeclKind::Empty, kw::EMPTY, span, self.parent))
    }

    /// Sets the kind and the location of a declaration that ends here.
    pub(crate) fn complete(&mut self, id: DeclId, start: Span, kind: DeclKind) {
        let span = self.span_from(start);
        let decl = &mut self.ast.decls[id];
        decl.kind = kind;
        decl.span = span;
    }

    /// Parses items with commas between them, up to a token that ends the list; a comma may follow the last.
    pub(crate) fn separated<R>(
        &mut self,
        ends: impl Fn(TokenKind) -> bool,
        item: impl FnMut(&mut Self) -> R,
    ) -> Vec<R> {
        self.separated_until(|p| ends(p.kind()), item)
    }

    /// Like [`Parser::separated`]; the list ends where `ends` returns true of the parser.
    pub(crate) fn separated_until<R>(
        &mut self,
        ends: impl Fn(&Self) -> bool,
        mut item: impl FnMut(&mut Self) -> R,
    ) -> Vec<R> {
        let mut items = Vec::new();
        while !self.is(TokenKind::Eof) && !ends(self) {
            items.push(item(self));
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        items
    }

    /// Parses a part of the grammar with another parent.
    pub(crate) fn inside<R>(&mut self, parent: DeclId, part: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.parent.replace(parent);
        let result = part(self);
        self.parent = outer;
        result
    }

    /// Parses a part of the grammar in which `>` closes generic arguments.
    pub(crate) fn angled<R>(&mut self, part: impl FnOnce(&mut Self) -> R) -> R {
        self.with_angle(true, part)
    }

    /// Parses a part of the grammar in which `>` is an operator.
    pub(crate) fn bracketed<R>(&mut self, part: impl FnOnce(&mut Self) -> R) -> R {
        self.with_angle(false, part)
    }

    fn with_angle<R>(&mut self, in_angle: bool, part: impl FnOnce(&mut Self) -> R) -> R {
        let outer = std::mem::replace(&mut self.in_angle, in_angle);
        let result = part(self);
        self.in_angle = outer;
        result
    }
}
