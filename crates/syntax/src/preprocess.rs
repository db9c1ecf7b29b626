//! Implements the C preprocessor: directives and conditional text. Macro expansion is in `macros.rs`.
//!
//! It works on tokens that have already been lexed, so it is not run for a file without `#`. Tokens of
//! included files keep the spans of their own file; the tokens of a macro's body take the span of its use, so
//! that every later message refers to text that the user can see.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ast::{Ast, BinaryOp, ExprId, ExprKind, Symbol, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::parser::parse_tokens;
use crate::source::{FileId, Sources, Span};
use crate::spelling::nearest;
use crate::token::{Token, TokenKind, lex};
use crate::warnings::Levels;

/// Finds the files that `#include` refers to. The driver has the search paths; this crate reads no files.
pub trait IncludeLoader {
    /// The file that `path` (as written, without quotes) refers to in the file `from`. The same file must get
    /// the same ID each time, otherwise `#pragma once` does not work. The error is shown to the user.
    fn include(&mut self, path: &str, from: FileId, sources: &mut Sources) -> Result<FileId, String>;
}

/// A loader without files: each `#include` is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIncludes;

impl IncludeLoader for NoIncludes {
    fn include(&mut self, path: &str, _from: FileId, _sources: &mut Sources) -> Result<FileId, String> {
        Err(format!("there is no file `{path}`"))
    }
}

const DIRECTIVES: [&str; 12] = [
    "if", "ifdef", "ifndef", "elif", "else", "endif", "define", "undef", "include", "error", "warning",
    "pragma",
];

/// The maximum nesting depth of included files.
const MAX_INCLUDE_DEPTH: usize = 64;
/// The maximum number of bytes of all included files, where each inclusion counts.
const MAX_INCLUDED: usize = 1 << 24;
/// The minimum number of bytes that an included file counts for.
const LEAST_INCLUDED: usize = 1 << 10;
/// The maximum number of tokens that macros may add; beyond that, a macro is assumed to grow without bound.
pub(crate) const MAX_TOKENS: usize = 1 << 21;
/// The maximum number of preprocessor errors that are reported in one file.
const MAX_ERRORS: usize = 200;

/// A macro's definition.
#[derive(Debug)]
pub(crate) struct Macro {
    /// Its parameters (the last is `__VA_ARGS__` if `variadic`); an object-like macro has none.
    pub(crate) params: Option<Vec<Symbol>>,
    /// Takes any number of arguments.
    pub(crate) variadic: bool,
    /// The tokens that replace the macro.
    pub(crate) body: Vec<Token>,
    /// The location of the definition.
    pub(crate) span: Span,
}

impl Macro {
    /// Returns true if two definitions are equivalent.
    pub(crate) fn same(&self, other: &Macro) -> bool {
        self.params == other.params
            && self.variadic == other.variadic
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).all(|(a, b)| a.kind == b.kind && a.symbol == b.symbol)
    }
}

/// The levels of warnings at the current location.
#[derive(Default)]
pub(crate) struct WarningState {
    pub(crate) levels: Levels,
    /// The levels saved by each open `push`, with its location.
    pub(crate) pushed: Vec<(Levels, Span)>,
}

/// The state of the preprocessor.
pub(crate) struct Preprocessor<'a> {
    pub(crate) ast: &'a mut Ast,
    pub(crate) sources: &'a mut Sources,
    pub(crate) warnings_state: WarningState,
    diagnostics: &'a mut Vec<Diagnostic>,
    loader: &'a mut dyn IncludeLoader,
    pub(crate) macros: FxHashMap<Symbol, Rc<Macro>>,
    /// Macros whose expansion is being read, innermost last.
    pub(crate) active: Vec<Symbol>,
    pub(crate) out: Vec<Token>,
    /// The file says `#version`.
    pub(crate) has_version: bool,
    /// The limit on tokens has been exceeded and reported.
    pub(crate) full: bool,
    /// The number of bytes included so far.
    included: usize,
    /// The nesting depth of arguments that are being expanded.
    pub(crate) nesting: usize,
    /// The effects of `#line` directives, in order.
    pub(crate) lines: Vec<LineShift>,
    once: FxHashSet<FileId>,
    depth: usize,
    reported: usize,
}

/// The effect of a `#line` directive on `__LINE__` and `__FILE__` from its location on. Diagnostics still use
/// the real locations.
#[derive(Clone, Debug)]
pub(crate) struct LineShift {
    file: FileId,
    from: u32,
    /// The number to add to a line's number.
    by: i64,
    path: Option<String>,
}

/// An open `#if`.
struct Conditional {
    /// The text in this branch is kept.
    active: bool,
    /// Some branch was kept, or the whole conditional is inside text that is not kept.
    taken: bool,
    seen_else: bool,
    span: Span,
}

impl<'a> Preprocessor<'a> {
    pub(crate) fn new(
        ast: &'a mut Ast,
        sources: &'a mut Sources,
        diagnostics: &'a mut Vec<Diagnostic>,
        loader: &'a mut dyn IncludeLoader,
    ) -> Preprocessor<'a> {
        Preprocessor {
            ast,
            sources,
            warnings_state: WarningState::default(),
            diagnostics,
            loader,
            macros: FxHashMap::default(),
            active: Vec::new(),
            out: Vec::new(),
            has_version: false,
            full: false,
            included: 0,
            nesting: 0,
            lines: Vec::new(),
            once: FxHashSet::default(),
            depth: 0,
            reported: 0,
        }
    }

    /// Defines a macro given on the command line: `NAME` or `NAME(args)`, and its body.
    pub(crate) fn predefine(&mut self, file: FileId, name: &str, value: &str) {
        let text = format!("{name} {value}");
        let mut tokens = lex(&mut self.ast.symbols, file, &text).tokens;
        tokens.pop();
        let span = Span { file, start: 0, end: 0 };
        for token in &mut tokens {
            token.span = span;
        }
        self.define(&tokens, span);
    }

    /// Processes the tokens of a file and appends the result to `out`.
    pub(crate) fn file(&mut self, tokens: &[Token]) {
        let mut conditionals: Vec<Conditional> = Vec::new();
        let mut pos = 0;
        while let Some(&token) = tokens.get(pos) {
            if token.kind == TokenKind::Eof {
                break;
            }
            if token.kind == TokenKind::Hash && token.at_line_start() {
                let end = line_end(tokens, pos);
                self.directive(&tokens[pos..end], &mut conditionals);
                pos = end;
            } else if conditionals.last().is_some_and(|c| !c.active) {
                pos = line_end(tokens, pos);
            } else {
                pos = self.text(tokens, pos);
            }
        }
        for conditional in conditionals {
            self.report(
                Diagnostic::error("E0021", conditional.span, "this `#if` has no `#endif`")
                    .help("add `#endif` before the end of the file"),
            );
        }
    }

    fn directive(&mut self, line: &[Token], conditionals: &mut Vec<Conditional>) {
        let hash = line[0];
        let Some(&word) = line.get(1) else { return };
        let span = hash.span.to(word.span);
        let rest = &line[2..];
        let skipping = conditionals.last().is_some_and(|c| !c.active);
        let name = if word.kind == TokenKind::Ident { word.symbol } else { kw::EMPTY };
        match name {
            kw::IF | kw::IFDEF | kw::IFNDEF => {
                let value = !skipping
                    && match name {
                        kw::IF => self.condition(rest, span),
                        _ => self.is_defined(rest, span) == (name == kw::IFDEF),
                    };
                conditionals.push(Conditional {
                    active: value,
                    taken: value || skipping,
                    seen_else: false,
                    span,
                });
            }
            kw::ELIF | kw::ELSE => {
                let is_else = name == kw::ELSE;
                let Some(c) = conditionals.last_mut() else {
                    return self.orphan(span, if is_else { "#else" } else { "#elif" });
                };
                if c.seen_else {
                    let what = if is_else { "second `#else` of one `#if`" } else { "`#elif` after `#else`" };
                    let error = Diagnostic::error("E0022", span, what);
                    return self.report(error.note(c.span, "the `#if` that it belongs to"));
                }
                c.seen_else = is_else;
                c.active = !c.taken && (is_else || self.condition(rest, span));
                c.taken |= c.active | is_else;
            }
            kw::ENDIF => {
                if conditionals.pop().is_none() {
                    self.orphan(span, "#endif");
                }
            }
            _ if skipping => {}
            kw::DEFINE => self.define(rest, span),
            kw::UNDEF => match rest {
                [name] if name.kind == TokenKind::Ident => {
                    if self.macros.remove(&name.symbol).is_none() && !self.has_macro(name.symbol) {
                        let text = self.ast.symbols.name(name.symbol);
                        let message = format!("the macro `{text}` is not defined");
                        self.report(Diagnostic::warning("E15401", name.span, message));
                    }
                }
                _ => self.error("E0023", span, "`#undef` takes one name"),
            },
            kw::INCLUDE => self.include(rest, span),
            kw::ERROR => {
                let message = self.line_text(word.span, rest);
                self.error("E0025", span, format!("#error: {message}"));
            }
            kw::WARNING => {
                let message = self.line_text(word.span, rest);
                self.report(Diagnostic::warning("E15901", span, format!("#warning: {message}")));
            }
            kw::PRAGMA => self.pragma(rest, span),
            kw::LINE_PRIMITIVE => self.line_directive(rest, span),
            kw::LANGUAGE | kw::LANG => self.language(rest, span),
            kw::VERSION => self.glsl_version(span),
            kw::EXTENSION => {}
            _ => {
                let found = word.text(&self.ast.symbols).to_owned();
                let error = Diagnostic::error("E0020", span, format!("unknown directive `#{found}`"));
                self.report(match nearest(&found, DIRECTIVES.into_iter()) {
                    Some(name) => error.help(format!("did you mean `#{name}`?")),
                    None => error,
                });
            }
        }
    }

    /// `#lang 2026`, `#language slang latest`: from 2026 on, `(a, b)` is a tuple.
    fn language(&mut self, rest: &[Token], span: Span) {
        let version = rest.last().map(|token| token.text(&self.ast.symbols));
        let has_tuples = version.is_some_and(|version| {
            version == "latest" || version.parse::<u32>().is_ok_and(|year| year >= 2026)
        });
        if has_tuples {
            self.ast.tuple_files.insert(span.file);
        }
        let version = rest.last().map(|token| token.text(&self.ast.symbols).parse());
        if let Some(Ok(version)) = version {
            self.ast.languages.push((span.file, version));
        }
    }

    /// `#version 450`: a file of GLSL imports the module with its names.
    fn glsl_version(&mut self, span: Span) {
        self.has_version = true;
        let glsl = self.ast.symbols.intern("glsl");
        let token = |kind, symbol| Token { kind, flags: 0, symbol, span };
        self.out.push(Token { flags: Token::AT_LINE_START, ..token(TokenKind::Ident, kw::IMPORT) });
        self.out.push(token(TokenKind::Ident, glsl));
        self.out.push(token(TokenKind::Semi, kw::EMPTY));
    }

    /// `#line 12`, `#line 12 "file"`, `#line default`.
    fn line_directive(&mut self, rest: &[Token], span: Span) {
        let rest = self.expand_all(rest);
        let here = i64::from(self.sources.line_column(span.file, span.start).0);
        let number = rest.first().filter(|token| token.kind == TokenKind::Int);
        let number = number.and_then(|token| token.text(&self.ast.symbols).parse::<i64>().ok());
        let (by, path) = match (number, &rest[..]) {
            (_, [word]) if word.text(&self.ast.symbols) == "default" => (0, None),
            (Some(line), [_]) => (line - here - 1, self.shift_at(span).and_then(|s| s.path.clone())),
            (Some(line), [_, path]) if path.kind == TokenKind::String => {
                (line - here - 1, Some(path.text(&self.ast.symbols).trim_matches('"').to_owned()))
            }
            _ => return self.error("E0023", span, "`#line` takes a line's number and the name of a file"),
        };
        self.lines.push(LineShift { file: span.file, from: span.start, by, path });
    }

    fn shift_at(&self, span: Span) -> Option<&LineShift> {
        self.lines.iter().rev().find(|s| s.file == span.file && s.from <= span.start)
    }

    /// The line number and file name of a location, as modified by `#line`.
    pub(crate) fn shown_place(&self, span: Span) -> (i64, String) {
        let line = i64::from(self.sources.line_column(span.file, span.start).0);
        let shift = self.shift_at(span);
        let path = shift.and_then(|s| s.path.clone()).unwrap_or_else(|| {
            self.sources.files.get(span.file.0 as usize).map_or_else(String::new, |f| f.path.clone())
        });
        (line + shift.map_or(0, |s| s.by), path)
    }

    /// `#pragma once`.
    pub(crate) fn include_once(&mut self, file: FileId) {
        self.once.insert(file);
    }

    fn orphan(&mut self, span: Span, what: &str) {
        self.error("E0022", span, format!("`{what}` without `#if`"));
    }

    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if self.reported < MAX_ERRORS {
            self.reported += 1;
            self.diagnostics.push(diagnostic);
        }
    }

    /// The source text of the rest of a line, for `#error`.
    fn line_text(&self, word: Span, rest: &[Token]) -> String {
        let Some(last) = rest.last() else { return String::new() };
        let text = self.sources.files.get(word.file.0 as usize).map(|f| &f.text);
        text.and_then(|t| t.get(word.end as usize..last.span.end as usize))
            .map_or_else(String::new, |t| t.trim().to_owned())
    }

    fn is_defined(&mut self, rest: &[Token], span: Span) -> bool {
        match rest.first() {
            Some(name) if name.kind == TokenKind::Ident => self.has_macro(name.symbol),
            _ => {
                self.error("E0023", span, "expected a macro's name");
                false
            }
        }
    }

    fn has_macro(&self, name: Symbol) -> bool {
        name == kw::FILE || name == kw::LINE || self.macros.contains_key(&name)
    }

    fn define(&mut self, rest: &[Token], span: Span) {
        let Some((name, mut body)) = rest.split_first() else {
            return self.error("E0023", span, "`#define` needs a name");
        };
        if name.kind != TokenKind::Ident || matches!(name.symbol, kw::DEFINED | kw::FILE | kw::LINE) {
            let found = name.text(&self.ast.symbols).to_owned();
            return self.error("E0023", name.span, format!("`{found}` is not a valid macro name"));
        }
        let mut params = None;
        let mut variadic = false;
        if let Some(open) = body.first()
            && open.kind == TokenKind::LParen
            && open.joined()
        {
            let Some((names, dots, used)) = macro_params(body) else {
                return self.error("E0023", open.span, "malformed parameter list of a macro");
            };
            params = Some(names);
            variadic = dots;
            body = &body[used..];
        }
        let is_paste = |token: &&Token| token.kind == TokenKind::HashHash;
        if let Some(paste) = body.first().filter(is_paste).or(body.last().filter(is_paste)) {
            let error = Diagnostic::error("E0023", paste.span, "`##` has to stand between two tokens");
            self.report(error.help("it joins the token before it to the one after it"));
            body = &body[..0];
        }
        let new = Macro { params, variadic, body: body.to_vec(), span: name.span };
        if let Some(old) = self.macros.get(&name.symbol)
            && !old.same(&new)
        {
            let old_span = old.span;
            let text = self.ast.symbols.name(name.symbol);
            let message = format!("macro `{text}` is redefined");
            let warning = Diagnostic::warning("E15400", name.span, message).help("`#undef` it first");
            self.report(warning.note(old_span, "the meaning that it had"));
        }
        self.macros.insert(name.symbol, Rc::new(new));
    }

    fn include(&mut self, rest: &[Token], span: Span) {
        let expanded;
        let mut line = rest;
        if line.first().is_some_and(|t| t.kind == TokenKind::Ident) {
            expanded = self.expand_all(rest);
            line = &expanded;
        }
        let path = match line {
            [only] if only.kind == TokenKind::String => {
                only.text(&self.ast.symbols).trim_matches('"').to_owned()
            }
            [first, .., last] if first.kind == TokenKind::Lt && last.kind == TokenKind::Gt => {
                let file = self.sources.files.get(first.span.file.0 as usize);
                let range = first.span.end as usize..last.span.start as usize;
                file.and_then(|f| f.text.get(range)).unwrap_or("").trim().to_owned()
            }
            _ => return self.error("E0023", span, "`#include` needs \"path\" or <path>"),
        };
        if self.depth >= MAX_INCLUDE_DEPTH {
            return self.error("E0032", span, "`#include` is nested too deeply");
        }
        let file = match self.loader.include(&path, span.file, self.sources) {
            Ok(file) => file,
            Err(why) => {
                let error = Diagnostic::error("E0024", span, format!("cannot include `{path}`"));
                self.report(error.label(why));
                return;
            }
        };
        if self.once.contains(&file) {
            return;
        }
        let Some(text) = self.sources.files.get(file.0 as usize).map(|f| f.text.clone()) else { return };
        self.included += text.len().max(LEAST_INCLUDED);
        if self.included > MAX_INCLUDED {
            if !self.full {
                self.full = true;
                self.error("E0032", span, "`#include` makes too much text: more than 16 MB, or 16,384 files");
            }
            return;
        }
        let tokens = lex(&mut self.ast.symbols, file, &text).tokens;
        self.depth += 1;
        self.keep_levels(file, 0);
        self.file(&tokens);
        self.keep_levels(span.file, span.end);
        self.depth -= 1;
    }

    fn condition(&mut self, rest: &[Token], span: Span) -> bool {
        // `defined` is evaluated before expansion, since its operand must not be expanded.
        let mut line = Vec::with_capacity(rest.len());
        let mut pos = 0;
        while let Some(&token) = rest.get(pos) {
            pos += 1;
            if token.kind != TokenKind::Ident || token.symbol != kw::DEFINED {
                line.push(token);
                continue;
            }
            let (name, used) = match &rest[pos..] {
                [open, name, close, ..]
                    if open.kind == TokenKind::LParen && close.kind == TokenKind::RParen =>
                {
                    (*name, 3)
                }
                [name, ..] if name.kind == TokenKind::Ident => (*name, 1),
                _ => {
                    self.error("E0030", token.span, "`defined` needs a name");
                    return false;
                }
            };
            pos += used;
            let value = if self.has_macro(name.symbol) { "1" } else { "0" };
            let symbol = self.ast.symbols.intern(value);
            line.push(Token { kind: TokenKind::Int, symbol, ..token });
        }
        let line = self.expand_all(&line);
        let mut line = self.expanded_defined(line);
        self.warn_of_names(&line);
        line.push(Token { kind: TokenKind::Eof, flags: 0, symbol: kw::EMPTY, span });
        let value = parse_tokens(self.ast, line).and_then(|condition| constant(self.ast, condition));
        if value.is_none() {
            self.error("E0030", span, "this condition is not an integer expression");
        }
        value.is_some_and(|value| value != 0)
    }
}

/// Returns true for names that are alike on purpose: `MODE_A` and `MODE_B`, `PASS1` and `PASS2`.
fn are_of_family(a: &str, b: &str) -> bool {
    let parts = |name: &str| {
        let at =
            name.rfind('_').map_or(name.trim_end_matches(|c: char| c.is_ascii_digit()).len(), |at| at + 1);
        (name[..at].to_string(), name.len() - at)
    };
    let (a, b) = (parts(a), parts(b));
    a.0 == b.0 && a.1.max(b.1) <= 2
}

impl Preprocessor<'_> {
    /// Warns about names in a condition that no macro gives a value, and that look like those of macros: they count as
    /// 0. That a name has no value at all is usual: what selects a variant of a program is defined where it is built.
    fn warn_of_names(&mut self, line: &[Token]) {
        let is_name = |token: &&Token| {
            token.kind == TokenKind::Ident && !matches!(token.symbol, kw::TRUE | kw::FALSE | kw::VA_ARGS)
        };
        for token in line.iter().filter(is_name) {
            let text = self.ast.symbols.name(token.symbol);
            let macros = self.macros.keys().map(|&name| self.ast.symbols.name(name));
            let Some(similar) = nearest(text, macros.filter(|name| !are_of_family(name, text))) else {
                continue;
            };
            let message = format!("`{text}` is not a macro: in this condition it counts as 0");
            let help =
                format!("did you mean `{similar}`? `defined({text})` asks whether there is such a macro");
            self.report(Diagnostic::warning("E15205", token.span, message).help(help));
        }
    }

    /// Evaluates `defined(X)` that came from the text of a macro. If `X` is itself a macro, its expansion now
    /// stands in the parentheses.
    fn expanded_defined(&mut self, line: Vec<Token>) -> Vec<Token> {
        if !line.iter().any(|t| t.kind == TokenKind::Ident && t.symbol == kw::DEFINED) {
            return line;
        }
        let mut out = Vec::with_capacity(line.len());
        let mut pos = 0;
        while let Some(&token) = line.get(pos) {
            pos += 1;
            if token.kind != TokenKind::Ident || token.symbol != kw::DEFINED {
                out.push(token);
                continue;
            }
            let open = line.get(pos).is_some_and(|t| t.kind == TokenKind::LParen);
            let mut end = pos + 1;
            let mut depth = usize::from(open);
            while depth > 0 && end < line.len() {
                match line[end].kind {
                    TokenKind::LParen => depth += 1,
                    TokenKind::RParen => depth -= 1,
                    _ => {}
                }
                end += 1;
            }
            let end = end.min(line.len());
            let inside =
                if open { &line[pos + 1..end.saturating_sub(1).max(pos + 1)] } else { &line[pos..end] };
            let is = match inside {
                [name] if name.kind == TokenKind::Ident => self.has_macro(name.symbol),
                _ => true,
            };
            pos = end;
            let symbol = self.ast.symbols.intern(if is { "1" } else { "0" });
            out.push(Token { kind: TokenKind::Int, symbol, ..token });
        }
        out
    }
}

/// The position of the first token of the next line.
fn line_end(tokens: &[Token], pos: usize) -> usize {
    let mut end = pos + 1;
    while tokens.get(end).is_some_and(|t| !t.at_line_start()) {
        end += 1;
    }
    end
}

/// The parameters of a macro, whether it is variadic (`...`), and the number of tokens up to and including
/// the closing parenthesis.
fn macro_params(tokens: &[Token]) -> Option<(Vec<Symbol>, bool, usize)> {
    let mut names = Vec::new();
    let mut pos = 1;
    if tokens.get(pos)?.kind == TokenKind::RParen {
        return Some((names, false, pos + 1));
    }
    loop {
        let token = tokens.get(pos)?;
        let mut variadic = token.kind == TokenKind::Ellipsis;
        match token.kind {
            TokenKind::Ident if !names.contains(&token.symbol) => names.push(token.symbol),
            TokenKind::Ellipsis => names.push(kw::VA_ARGS),
            _ => return None,
        }
        if !variadic && tokens.get(pos + 1)?.kind == TokenKind::Ellipsis {
            // `args...` names the remaining arguments.
            variadic = true;
            pos += 1;
        }
        let next = tokens.get(pos + 1)?;
        pos += 2;
        match next.kind {
            TokenKind::RParen => return Some((names, variadic, pos)),
            TokenKind::Comma if !variadic => {}
            _ => return None,
        }
    }
}

/// Evaluates the expression of `#if`, in which a name is 0.
fn constant(ast: &Ast, expr: ExprId) -> Option<i64> {
    // A chain of operators is as deep as it is long on the left.
    let mut chain = Vec::new();
    let mut left = expr;
    while let ExprKind::Binary(op, a, b) = ast.exprs[left].kind {
        chain.push((op, b));
        left = a;
    }
    let mut value = match ast.exprs[left].kind {
        ExprKind::Int { value, .. } => value as i64,
        ExprKind::Bool(value) => i64::from(value),
        ExprKind::Name(_) => 0,
        ExprKind::Paren(inner) | ExprKind::Unary(UnaryOp::Plus, inner) => constant(ast, inner)?,
        ExprKind::Unary(UnaryOp::Neg, inner) => constant(ast, inner)?.wrapping_neg(),
        ExprKind::Unary(UnaryOp::Not, inner) => i64::from(constant(ast, inner)? == 0),
        ExprKind::Unary(UnaryOp::BitNot, inner) => !constant(ast, inner)?,
        ExprKind::Ternary(cond, then, otherwise) => {
            let (then, otherwise) = (constant(ast, then)?, constant(ast, otherwise)?);
            if constant(ast, cond)? != 0 { then } else { otherwise }
        }
        _ => return None,
    };
    for (op, right) in chain.into_iter().rev() {
        let right = constant(ast, right)?;
        value = match op {
            BinaryOp::Or => i64::from(value != 0 || right != 0),
            BinaryOp::And => i64::from(value != 0 && right != 0),
            BinaryOp::BitOr => value | right,
            BinaryOp::BitXor => value ^ right,
            BinaryOp::BitAnd => value & right,
            BinaryOp::Eq => i64::from(value == right),
            BinaryOp::Ne => i64::from(value != right),
            BinaryOp::Lt => i64::from(value < right),
            BinaryOp::Le => i64::from(value <= right),
            BinaryOp::Gt => i64::from(value > right),
            BinaryOp::Ge => i64::from(value >= right),
            BinaryOp::Shl => value.wrapping_shl(right as u32),
            BinaryOp::Shr => value.wrapping_shr(right as u32),
            BinaryOp::Add => value.wrapping_add(right),
            BinaryOp::Sub => value.wrapping_sub(right),
            BinaryOp::Mul => value.wrapping_mul(right),
            // The untaken side of `defined(N) && 4 / N` is evaluated too, so division by zero is not an error.
            BinaryOp::Div => value.checked_div(right).unwrap_or(0),
            BinaryOp::Rem => value.checked_rem(right).unwrap_or(0),
            BinaryOp::Comma => return None,
        };
    }
    Some(value)
}
