//! Lexes text into tokens.
//!
//! The lexer is written by hand: a token is 20 bytes, every identifier and literal is interned, and a file is
//! lexed in one pass before anything else. The lexer reports no errors: malformed text becomes a token of a
//! `Bad…` kind, which matters only if it survives preprocessing. `>` is never joined with a following `>`, so
//! that the parser can close two generic argument lists with them.

use crate::ast::{Symbol, Symbols};
use crate::keywords as kw;
use crate::literal::quoted;
use crate::source::{FileId, Span};

macro_rules! tokens {
    ($($(#[$doc:meta])* $kind:ident = $what:literal),*; $($mark:ident = $text:literal),* $(,)?) => {
        /// The kind of a token.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the spelling is in `text`")]
        #[repr(u8)]
        pub enum TokenKind { $($(#[$doc])* $kind,)* $($mark),* }

        impl TokenKind {
            /// The spelling of punctuation, or a description of any other kind.
            pub fn text(self) -> &'static str {
                match self { $(TokenKind::$kind => $what,)* $(TokenKind::$mark => $text),* }
            }
        }

        /// All punctuation: marks that start with the same byte stand together, the longer ones first and the
        /// byte alone last.
        const PUNCTUATION: &[(TokenKind, usize, [u32; 2])] =
            &[$((TokenKind::$mark, $text.len(), pattern($text))),*];
    };
}

tokens! {
    Eof = "end of file",
    Ident = "name",
    /// An integer with its suffix.
    Int = "number",
    /// A floating-point number with its suffix.
    Float = "number",
    /// A string with its quotes, escapes as written.
    String = "string",
    /// A character with its quotes, escapes as written.
    Char = "character",
    /// A character that cannot start a token.
    BadChar = "unknown character",
    /// A string or character literal without a closing quote.
    BadString = "unterminated literal",
    /// A block comment without an end.
    BadComment = "unterminated comment";
    LParen = "(", RParen = ")", LBracket = "[", RBracket = "]", LBrace = "{", RBrace = "}",
    Comma = ",", Semi = ";", ColonColon = "::", Colon = ":", Ellipsis = "...", Dot = ".",
    Question = "?", At = "@", Dollar = "$", Backslash = "\\", HashHash = "##", Hash = "#", Tilde = "~",
    Arrow = "->", MinusMinus = "--", MinusEq = "-=", Minus = "-",
    PlusPlus = "++", PlusEq = "+=", Plus = "+", StarEq = "*=", Star = "*", SlashEq = "/=", Slash = "/",
    PercentEq = "%=", Percent = "%", AndAnd = "&&", AmpEq = "&=", Amp = "&", OrOr = "||", PipeEq = "|=",
    Pipe = "|", CaretEq = "^=", Caret = "^", Ne = "!=", Bang = "!", EqEq = "==", FatArrow = "=>", Eq = "=",
    ShlEq = "<<=", Shl = "<<", Le = "<=", Lt = "<", ShrEq = ">>=", Ge = ">=", Gt = ">",
}

/// The bytes of a mark in a number of three bytes, and their mask.
const fn pattern(mark: &str) -> [u32; 2] {
    match *mark.as_bytes() {
        [a] => [a as u32, 0xFF],
        [a, b] => [u32::from_le_bytes([a, b, 0, 0]), 0xFFFF],
        [a, b, c] => [u32::from_le_bytes([a, b, c, 0]), 0xFF_FFFF],
        _ => panic!("marks have at most three bytes"),
    }
}

/// For each byte, the position of the first punctuation that starts with it.
const STARTS: [u8; 256] = {
    let mut table = [PUNCTUATION.len() as u8; 256];
    let mut at = PUNCTUATION.len();
    while at > 0 {
        at -= 1;
        table[(PUNCTUATION[at].2[0] & 0xFF) as usize] = at as u8;
    }
    table
};

impl TokenKind {
    /// Returns true if the token's text is in its symbol.
    pub fn has_symbol(self) -> bool {
        use TokenKind as T;
        matches!(self, T::Ident | T::Int | T::Float | T::String | T::Char | T::BadChar | T::BadString)
    }
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// The kind of the token.
    pub kind: TokenKind,
    /// A combination of [`Token::AT_LINE_START`] and the other flags.
    pub flags: u8,
    /// The spelling of names and literals.
    pub symbol: Symbol,
    /// The location; for a token of a macro's expansion, the location of the macro's use.
    pub span: Span,
}

impl Token {
    /// The first token of its line.
    pub const AT_LINE_START: u8 = 1;
    /// Whitespace or a comment precedes the token.
    pub const SPACE_BEFORE: u8 = 2;
    /// The name of a macro that must not be expanded again.
    pub const NO_EXPAND: u8 = 4;

    /// Returns true if the token is the first of its line.
    pub fn at_line_start(&self) -> bool {
        self.flags & Token::AT_LINE_START != 0
    }

    /// Returns true if nothing separates the token from the previous one.
    pub fn joined(&self) -> bool {
        self.flags & (Token::AT_LINE_START | Token::SPACE_BEFORE) == 0
    }

    /// The token as written.
    pub fn text<'a>(&self, symbols: &'a Symbols) -> &'a str {
        if self.kind.has_symbol() { symbols.name(self.symbol) } else { self.kind.text() }
    }
}

/// The tokens of a file, with information for later steps.
#[derive(Debug)]
pub struct Lexed {
    /// The tokens; the last is [`TokenKind::Eof`].
    pub tokens: Vec<Token>,
    /// The file needs preprocessing: it contains a `#`, `__FILE__`, `__LINE__`, `__SLANG__` or another such
    /// name.
    pub needs_preprocessing: bool,
    /// The file contains tokens of `Bad…` kinds.
    pub has_bad: bool,
}

const IDENT_START: u8 = 1;
const IDENT_CONTINUE: u8 = 2;
const DIGIT: u8 = 4;

/// The classes of tokens that each byte may occur in.
const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = if b.is_ascii_alphabetic() || b == b'_' || b >= 0x80 {
            IDENT_START | IDENT_CONTINUE
        } else if b.is_ascii_digit() {
            IDENT_CONTINUE | DIGIT
        } else {
            0
        };
        byte += 1;
    }
    table
};

/// Bytes of text for each token, or a few more: in dense code without comments.
pub const BYTES: usize = 3;

/// Lexes a text.
pub fn lex(symbols: &mut Symbols, file: FileId, text: &str) -> Lexed {
    let mut lexer = Lexer {
        symbols,
        text,
        bytes: text.as_bytes(),
        pos: 0,
        file,
        out: Lexed {
            tokens: Vec::with_capacity(text.len() / BYTES + 8),
            needs_preprocessing: false,
            has_bad: false,
        },
    };
    lexer.run();
    lexer.out
}

struct Lexer<'a> {
    symbols: &'a mut Symbols,
    text: &'a str,
    bytes: &'a [u8],
    pos: usize,
    file: FileId,
    out: Lexed,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        let mut flags = Token::AT_LINE_START;
        if self.text.starts_with('\u{feff}') {
            self.pos = 3;
        }
        loop {
            flags |= self.skip_space();
            let start = self.pos;
            let Some(&first) = self.bytes.get(start) else { break };
            let (kind, symbol) = self.token(first);
            let span = Span { file: self.file, start: start as u32, end: self.pos as u32 };
            self.out.tokens.push(Token { kind, flags, symbol, span });
            flags = 0;
        }
        let end = self.bytes.len() as u32;
        let span = Span { file: self.file, start: end, end };
        let flags = flags | Token::AT_LINE_START;
        self.out.tokens.push(Token { kind: TokenKind::Eof, flags, symbol: kw::EMPTY, span });
    }

    /// Skips whitespace, comments and continued lines; returns flags. An unterminated comment becomes a
    /// token.
    fn skip_space(&mut self) -> u8 {
        let mut flags = 0;
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {
                    self.pos += 1;
                    flags |= Token::SPACE_BEFORE;
                }
                b'\n' => {
                    self.pos += 1;
                    flags |= Token::AT_LINE_START | Token::SPACE_BEFORE;
                }
                b'\\' if self.peek(1) == b'\n' => {
                    self.pos += 2;
                    flags |= Token::SPACE_BEFORE;
                }
                b'\\' if self.peek(1) == b'\r' && self.peek(2) == b'\n' => {
                    self.pos += 3;
                    flags |= Token::SPACE_BEFORE;
                }
                b'/' if self.peek(1) == b'/' => {
                    flags |= Token::SPACE_BEFORE;
                    self.skip_line_comment();
                }
                b'/' if self.peek(1) == b'*' => {
                    flags |= Token::SPACE_BEFORE;
                    let start = self.pos;
                    match self.text[start + 2..].find("*/") {
                        Some(length) => self.pos = start + 2 + length + 2,
                        None => {
                            self.pos = self.bytes.len();
                            self.out.has_bad = true;
                            let span = Span { file: self.file, start: start as u32, end: start as u32 + 2 };
                            let kind = TokenKind::BadComment;
                            self.out.tokens.push(Token { kind, flags, symbol: kw::EMPTY, span });
                        }
                    }
                }
                _ => return flags,
            }
        }
    }

    fn skip_line_comment(&mut self) {
        loop {
            let Some(length) = self.bytes[self.pos..].iter().position(|&b| b == b'\n') else {
                self.pos = self.bytes.len();
                return;
            };
            let newline = self.pos + length;
            let before = self.bytes[..newline].strip_suffix(b"\r").unwrap_or(&self.bytes[..newline]);
            self.pos = newline;
            if before.last() != Some(&b'\\') {
                return;
            }
            self.pos += 1;
        }
    }

    fn token(&mut self, first: u8) -> (TokenKind, Symbol) {
        let class = CLASS[first as usize];
        if class & IDENT_START != 0 {
            return self.ident(first);
        }
        if class & DIGIT != 0 || (first == b'.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if first == b'"' || first == b'\'' {
            return self.quoted(first);
        }
        let (kind, length) = self.punctuation(first);
        let start = self.pos;
        self.pos += length;
        match kind {
            TokenKind::BadChar => {
                self.out.has_bad = true;
                (kind, self.symbols.intern(&self.text[start..self.pos]))
            }
            TokenKind::Hash => {
                self.out.needs_preprocessing = true;
                (kind, kw::EMPTY)
            }
            _ => (kind, kw::EMPTY),
        }
    }

    fn ident(&mut self, first: u8) -> (TokenKind, Symbol) {
        let start = self.pos;
        self.pos += 1;
        self.skip(IDENT_CONTINUE);
        if first == b'R' && self.pos == start + 1 && self.peek(0) == b'"' {
            return self.raw_string(start);
        }
        let symbol = self.symbols.intern(&self.text[start..self.pos]);
        let predefined = matches!(
            symbol,
            kw::FILE | kw::LINE | kw::SLANG_MACRO | kw::SLANG_COMPILER | kw::HLSL_MACRO | kw::HLSL_VERSION
        );
        if predefined {
            self.out.needs_preprocessing = true;
        }
        (TokenKind::Ident, symbol)
    }

    /// `R"tag(…)tag"`, represented as an ordinary string token.
    fn raw_string(&mut self, start: usize) -> (TokenKind, Symbol) {
        let rest = &self.text[self.pos + 1..];
        let found = rest.find('(').and_then(|open| {
            let close = format!("){}\"", &rest[..open]);
            rest[open + 1..].find(&close).map(|length| (open + 1, length, close.len()))
        });
        let Some((open, length, close)) = found else {
            self.pos = self.bytes.len();
            self.out.has_bad = true;
            return (TokenKind::BadString, self.symbols.intern(&self.text[start..start + 2]));
        };
        let quoted = quoted(&rest[open..open + length]);
        self.pos += 1 + open + length + close;
        (TokenKind::String, self.symbols.intern(&quoted))
    }

    /// Skips bytes of a class.
    fn skip(&mut self, class: u8) {
        while CLASS[self.peek(0) as usize] & class != 0 {
            self.pos += 1;
        }
    }

    fn number(&mut self) -> (TokenKind, Symbol) {
        let start = self.pos;
        let mut kind = TokenKind::Int;
        let radix_letter = self.peek(1) | 0x20;
        if self.peek(0) == b'0' && (radix_letter == b'x' || radix_letter == b'b') {
            let hex = radix_letter == b'x';
            self.pos += 2;
            while CLASS[self.peek(0) as usize] & IDENT_CONTINUE != 0 || (hex && self.peek(0) == b'.') {
                let exponent = hex && self.peek(0) | 0x20 == b'p';
                if exponent || self.peek(0) == b'.' {
                    kind = TokenKind::Float;
                }
                self.pos += 1;
                if exponent && matches!(self.peek(0), b'+' | b'-') {
                    self.pos += 1;
                }
            }
            if self.bytes[self.pos..].starts_with(b"#INF") {
                kind = TokenKind::Float;
                self.pos += 4;
                self.skip(IDENT_CONTINUE);
            }
            return (kind, self.symbols.intern(&self.text[start..self.pos]));
        }
        self.skip(DIGIT);
        if self.peek(0) == b'.' && self.fraction_follows() {
            kind = TokenKind::Float;
            self.pos += 1;
            self.skip(DIGIT);
        }
        if self.peek(0) | 0x20 == b'e' {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                kind = TokenKind::Float;
                self.pos += 1 + sign;
                self.skip(DIGIT);
            }
        }
        if self.bytes[self.pos..].starts_with(b"#INF") {
            kind = TokenKind::Float;
            self.pos += 4;
        }
        let suffix = self.pos;
        self.skip(IDENT_CONTINUE);
        if matches!(self.bytes.get(suffix).map(|b| b | 0x20), Some(b'f' | b'h')) {
            kind = TokenKind::Float;
        }
        (kind, self.symbols.intern(&self.text[start..self.pos]))
    }

    /// Returns true if the dot after digits belongs to the number; in `1.xxx` (a swizzle), it does not.
    fn fraction_follows(&self) -> bool {
        let next = self.peek(1);
        if CLASS[next as usize] & IDENT_START == 0 {
            return true;
        }
        let length = self.bytes[self.pos + 1..]
            .iter()
            .take_while(|&&b| CLASS[b as usize] & IDENT_CONTINUE != 0)
            .count();
        let word = &self.bytes[self.pos + 1..self.pos + 1 + length];
        matches!(word.to_ascii_lowercase().as_slice(), b"f" | b"h" | b"l" | b"lf" | b"hf" | b"e")
            || (word[0] | 0x20 == b'e' && word.get(1).is_some_and(u8::is_ascii_digit))
    }

    fn quoted(&mut self, quote: u8) -> (TokenKind, Symbol) {
        let start = self.pos;
        self.pos += 1;
        loop {
            match self.peek(0) {
                b'\n' | 0 if self.pos >= self.bytes.len() || self.peek(0) == b'\n' => {
                    self.out.has_bad = true;
                    return (TokenKind::BadString, self.symbols.intern(&self.text[start..self.pos]));
                }
                b'\\' => {
                    let escaped = self.text[self.pos + 1..].chars().next().map_or(0, char::len_utf8);
                    self.pos += 1 + escaped;
                }
                byte => {
                    self.pos += 1;
                    if byte == quote {
                        break;
                    }
                }
            }
        }
        let kind = if quote == b'"' { TokenKind::String } else { TokenKind::Char };
        (kind, self.symbols.intern(&self.text[start..self.pos]))
    }

    fn punctuation(&self, first: u8) -> (TokenKind, usize) {
        let mut at = STARTS[first as usize] as usize;
        while let Some(&(kind, length, [bytes, mask])) = PUNCTUATION.get(at) {
            let next = || u32::from_le_bytes([first, self.peek(1), self.peek(2), 0]);
            if length == 1 || next() & mask == bytes {
                return (kind, length);
            }
            at += 1;
        }
        (TokenKind::BadChar, 1)
    }
}
