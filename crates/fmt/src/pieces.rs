//! Splits a text into pieces: tokens, comments and directives of the preprocessor, with what stood before each.
//!
//! Between two pieces there is only white space, so a formatter that writes every piece and chooses the white space
//! changes no token. Where white space means more than that, the piece is marked `verbatim` and keeps it: at lines
//! that are continued by `\`, in the arguments of macros that make strings of them, and between
//! `// pullback-fmt off` and `// pullback-fmt on`.

use syntax::FileId;
use syntax::ast::Symbols;
use syntax::token::{Token, TokenKind, lex};

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Token(TokenKind),
    LineComment,
    BlockComment,
    /// A whole line of the preprocessor, with the lines that continue it and its comments.
    Directive,
}

/// A part of the text that is written as it is.
#[derive(Clone, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// The offset of the text.
    pub(crate) start: usize,
    /// The number of line ends between the previous piece and this one.
    pub(crate) newlines: u32,
    /// The number of spaces before the piece if it is on the line of the previous one; tabs count as what they show.
    pub(crate) gap: usize,
    /// The column of the piece.
    pub(crate) column: usize,
    /// The white space before the piece must be kept.
    pub(crate) verbatim: bool,
}

impl Piece<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::BlockComment)
    }

    /// Returns true if the piece is a token, and therefore of interest to the grammar.
    pub(crate) fn is_token(&self) -> bool {
        matches!(self.kind, Kind::Token(_))
    }

    pub(crate) fn token(&self) -> Option<TokenKind> {
        match self.kind {
            Kind::Token(kind) => Some(kind),
            Kind::LineComment | Kind::BlockComment | Kind::Directive => None,
        }
    }

    pub(crate) fn is(&self, kind: TokenKind) -> bool {
        self.kind == Kind::Token(kind)
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.is(TokenKind::Ident) && self.text == word
    }

    /// The name of the directive: `if` for `# if X`.
    pub(crate) fn directive(&self) -> Option<&str> {
        let rest = self.text.strip_prefix('#').filter(|_| self.kind == Kind::Directive)?.trim_start();
        Some(&rest[..rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())])
    }
}

/// Lexes a text that stands alone.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    lex(&mut Symbols::default(), FileId(0), text).tokens
}

/// Splits a text; tabs are `tab` columns wide.
pub(crate) fn split(text: &str, tab: usize) -> Vec<Piece<'_>> {
    let mut splitter =
        Splitter { text, tab, column: 0, newlines: 0, gap: 0, verbatim: false, out: Vec::new() };
    let tokens = tokens(text);
    let mut at = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut k = 0;
    while k < tokens.len() {
        let token = tokens[k];
        let start = token.span.start as usize;
        splitter.space(at, start);
        if token.kind == TokenKind::Eof {
            break;
        }
        let mut end = token.span.end as usize;
        let mut kind = Kind::Token(token.kind);
        if token.kind == TokenKind::BadComment {
            end = text.trim_ascii_end().len().max(end);
        } else if token.kind == TokenKind::BadString {
            end = start + text[start..end].trim_ascii_end().len();
        } else if token.kind == TokenKind::Hash && token.at_line_start() {
            kind = Kind::Directive;
            while tokens[k + 1].kind != TokenKind::Eof && !tokens[k + 1].at_line_start() {
                k += 1;
            }
            let last = tokens[k];
            let is_open = last.kind == TokenKind::BadComment;
            end =
                if is_open { text.trim_ascii_end().len() } else { splitter.line_end(last.span.end as usize) };
            end = end.max(last.span.end as usize);
        }
        splitter.push(kind, start, end);
        at = end;
        if tokens[k].kind == TokenKind::BadComment {
            break;
        }
        k += 1;
    }
    let mut pieces = splitter.out;
    keep_strings(&mut pieces);
    keep_regions(&mut pieces);
    pieces
}

struct Splitter<'a> {
    text: &'a str,
    tab: usize,
    column: usize,
    newlines: u32,
    gap: usize,
    verbatim: bool,
    out: Vec<Piece<'a>>,
}

impl<'a> Splitter<'a> {
    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let text = &self.text[start..end];
        let (newlines, gap, verbatim) = (self.newlines, self.gap, self.verbatim);
        self.out.push(Piece { kind, text, start, newlines, gap, column: self.column, verbatim });
        (self.newlines, self.gap, self.verbatim) = (0, 0, false);
        match text.rfind('\n') {
            Some(line) => self.column = text[line + 1..].chars().count(),
            None => self.column += text.chars().count(),
        }
    }

    /// Splits what stands between two tokens into comments and white space.
    fn space(&mut self, mut at: usize, end: usize) {
        let bytes = self.text.as_bytes();
        while at < end {
            match bytes[at] {
                b'\n' => {
                    self.newlines += 1;
                    (self.gap, self.column) = (0, 0);
                }
                b'\t' => {
                    let to = (self.column / self.tab + 1) * self.tab;
                    self.gap += to - self.column;
                    self.column = to;
                }
                b'/' => {
                    let line = bytes[at + 1] == b'/';
                    let length = if line {
                        line_comment(&self.text[at..end])
                    } else {
                        self.text[at + 2..end].find("*/").map_or(end - at, |n| n + 4)
                    };
                    let kind = if line { Kind::LineComment } else { Kind::BlockComment };
                    self.push(kind, at, at + length);
                    at += length;
                    continue;
                }
                b'\\' => self.verbatim = true,
                b'\r' => {}
                _ => {
                    self.gap += 1;
                    self.column += 1;
                }
            }
            at += 1;
        }
    }

    /// The end of a directive whose last token ends at `at`: comments that begin on its line belong to it.
    fn line_end(&self, mut at: usize) -> usize {
        let mut end = at;
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'\n' => break,
                b'\\' => {
                    at += self.text[at..].find('\n').map_or(1, |n| n + 1);
                    end = at.min(bytes.len());
                    continue;
                }
                b'/' => {
                    let rest = &self.text[at..];
                    at += if rest.starts_with("//") {
                        line_comment(rest)
                    } else {
                        rest[2..].find("*/").map_or(rest.len(), |n| n + 4)
                    };
                    end = at;
                    continue;
                }
                _ => at += 1,
            }
        }
        end
    }
}

/// The length of a line comment, with the lines that continue it, without its line end.
fn line_comment(text: &str) -> usize {
    let mut from = 0;
    loop {
        let Some(length) = text[from..].find('\n') else { return text.trim_end_matches('\r').len() };
        let line = text[..from + length].trim_end_matches('\r');
        if !line.ends_with('\\') {
            return line.len();
        }
        from += length + 1;
    }
}

/// Keeps white space in the arguments of macros that make strings of their arguments.
fn keep_strings(pieces: &mut [Piece]) {
    let mut names: Vec<&str> = Vec::new();
    for piece in pieces.iter() {
        if piece.directive() == Some("define") {
            let tokens = tokens(piece.text);
            let text = |k: usize| {
                tokens.get(k).map_or("", |t| &piece.text[t.span.start as usize..t.span.end as usize])
            };
            let is_string = (3..tokens.len()).any(|k| tokens[k].kind == TokenKind::Hash);
            if is_string && text(3) == "(" {
                names.push(text(2));
            }
        }
    }
    if names.is_empty() {
        return;
    }
    let mut k = 0;
    while k + 1 < pieces.len() {
        let is_use = pieces[k].is(TokenKind::Ident) && names.contains(&pieces[k].text);
        k += 1;
        if is_use && pieces[k].is(TokenKind::LParen) {
            let mut depth = 0;
            while k < pieces.len() {
                pieces[k].verbatim |= depth > 0;
                match pieces[k].token() {
                    Some(TokenKind::LParen) => depth += 1,
                    Some(TokenKind::RParen) => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                k += 1;
            }
        }
    }
}

/// Keeps white space where comments ask for that.
fn keep_regions(pieces: &mut [Piece]) {
    let mut off = false;
    for piece in pieces {
        let switch = piece.text.trim_start_matches('/').trim();
        let switches = ["pullback-fmt", "clang-format"];
        let is =
            |state| switches.iter().any(|s| switch.strip_prefix(s).is_some_and(|rest| rest.trim() == state));
        piece.verbatim |= off;
        if piece.kind == Kind::LineComment && is("off") {
            off = true;
        } else if piece.kind == Kind::LineComment && is("on") {
            off = false;
        }
    }
}
