//! Expands macros.
//!
//! A name is expanded into a stack of token lists that is read as a single stream, so that the result is
//! rescanned together with the text after it, as C requires. A macro is not expanded while its own expansion
//! is being read; a name that was skipped for this reason is never expanded later (`NO_EXPAND`).

use std::rc::Rc;

use crate::ast::Symbol;
use crate::diagnostic::Diagnostic;
use crate::keywords as kw;
use crate::preprocess::{MAX_TOKENS, Macro, Preprocessor};
use crate::source::Span;
use crate::token::{Token, TokenKind, lex};

/// A token list that is being read.
struct Frame {
    tokens: Vec<Token>,
    pos: usize,
    /// The macro whose expansion the list is.
    of: Symbol,
}

/// The tokens of the file (`base`), with the expansions on top.
struct Reader<'a> {
    base: &'a [Token],
    pos: usize,
    frames: Vec<Frame>,
}

/// The maximum nesting depth of expansions and arguments.
const MAX_DEPTH: usize = 200;

/// The end of an expansion.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// The expansion of the first token is used up.
    FirstIsUsed,
    /// There are no more tokens.
    End,
}

impl Preprocessor<'_> {
    /// Emits the token at `pos`, expanded; returns the position after the consumed tokens.
    pub(crate) fn text(&mut self, tokens: &[Token], pos: usize) -> usize {
        let token = tokens[pos];
        if token.kind != TokenKind::Ident || !self.may_expand(&token) {
            self.out.push(token);
            return pos + 1;
        }
        let mut out = std::mem::take(&mut self.out);
        let mut reader = Reader { base: tokens, pos, frames: Vec::new() };
        self.expand(&mut reader, Until::FirstIsUsed, &mut out);
        self.out = out;
        reader.pos
    }

    /// Expands a whole token list on its own.
    pub(crate) fn expand_all(&mut self, tokens: &[Token]) -> Vec<Token> {
        if self.nesting >= MAX_DEPTH {
            if let Some(first) = tokens.first() {
                self.error("E0031", first.span, "macros nest too deep");
            }
            return tokens.to_vec();
        }
        self.nesting += 1;
        let mut out = Vec::with_capacity(tokens.len());
        let mut reader = Reader { base: tokens, pos: 0, frames: Vec::new() };
        self.expand(&mut reader, Until::End, &mut out);
        self.nesting -= 1;
        out
    }

    fn may_expand(&self, token: &Token) -> bool {
        token.flags & Token::NO_EXPAND == 0
            && (token.symbol == kw::FILE
                || token.symbol == kw::LINE
                || self.macros.contains_key(&token.symbol))
    }

    /// Reads tokens into `out`.
    fn expand(&mut self, reader: &mut Reader<'_>, until: Until, out: &mut Vec<Token>) {
        let outer = self.active.len();
        let mut first = true;
        loop {
            self.drop_finished(reader);
            if until == Until::FirstIsUsed && !first && reader.frames.is_empty() {
                break;
            }
            let Some(mut token) = self.next(reader) else { break };
            if token.kind == TokenKind::Eof {
                break;
            }
            first = false;
            if out.len() >= MAX_TOKENS || self.full {
                if !self.full {
                    self.full = true;
                    self.error("E0031", token.span, "macros expand to too much text");
                }
                reader.frames.clear();
                break;
            }
            if token.kind == TokenKind::Ident && self.may_expand(&token) {
                if self.active.contains(&token.symbol) {
                    token.flags |= Token::NO_EXPAND;
                } else if self.use_macro(reader, token, out) {
                    continue;
                }
            }
            out.push(token);
        }
        self.active.truncate(outer);
    }

    fn drop_finished(&mut self, reader: &mut Reader<'_>) {
        while reader.frames.last().is_some_and(|f| f.pos >= f.tokens.len()) {
            let frame = reader.frames.pop().expect("there is a last");
            if let Some(at) = self.active.iter().rposition(|&a| a == frame.of) {
                self.active.remove(at);
            }
        }
    }

    fn next(&mut self, reader: &mut Reader<'_>) -> Option<Token> {
        self.drop_finished(reader);
        if let Some(frame) = reader.frames.last_mut() {
            frame.pos += 1;
            return Some(frame.tokens[frame.pos - 1]);
        }
        let token = reader.base.get(reader.pos).copied()?;
        reader.pos += 1;
        Some(token)
    }

    /// Starts the expansion of `name`; returns false if this is not a use of the macro after all.
    fn use_macro(&mut self, reader: &mut Reader<'_>, name: Token, out: &mut Vec<Token>) -> bool {
        if name.symbol == kw::LINE {
            let line = self.shown_place(name.span).0;
            let symbol = self.ast.symbols.intern(&line.to_string());
            out.push(Token { kind: TokenKind::Int, symbol, ..name });
            return true;
        }
        if name.symbol == kw::FILE {
            let path = self.shown_place(name.span).1;
            let symbol = self.ast.symbols.intern(&format!("{path:?}"));
            out.push(Token { kind: TokenKind::String, symbol, ..name });
            return true;
        }
        let definition = Rc::clone(&self.macros[&name.symbol]);
        let mut args = Vec::new();
        if let Some(params) = &definition.params {
            if !opens_arguments(reader) {
                return false;
            }
            match self.arguments(reader, name, params.len(), definition.variadic) {
                Some(found) => args = found,
                None => {
                    // A token must stand here; otherwise, the parser would report an error as well.
                    let symbol = self.ast.symbols.intern("0");
                    out.push(Token { kind: TokenKind::Int, symbol, ..name });
                    return true;
                }
            }
        }
        if reader.frames.len() >= MAX_DEPTH || self.active.len() >= MAX_DEPTH {
            self.error("E0031", name.span, "macros nest too deep");
            return true;
        }
        let mut tokens = self.substitute(&definition, &args, name.span);
        if let Some(first) = tokens.first_mut() {
            first.flags = (first.flags & Token::NO_EXPAND) | (name.flags & !Token::NO_EXPAND);
        }
        self.active.push(name.symbol);
        reader.frames.push(Frame { tokens, pos: 0, of: name.symbol });
        true
    }

    /// Reads the arguments of a macro use, up to the closing parenthesis.
    fn arguments(
        &mut self,
        reader: &mut Reader<'_>,
        name: Token,
        count: usize,
        variadic: bool,
    ) -> Option<Vec<Vec<Token>>> {
        let _open = self.next(reader);
        let mut args = vec![Vec::new()];
        let mut depth = 0usize;
        loop {
            let in_base = reader.frames.is_empty();
            let token = self.next(reader).filter(|t| t.kind != TokenKind::Eof);
            let directive = |t: &Token| in_base && t.kind == TokenKind::Hash && t.at_line_start();
            let Some(token) = token.filter(|t| !directive(t)) else {
                let text = self.ast.symbols.name(name.symbol).to_owned();
                self.error("E0028", name.span, format!("the argument list of macro `{text}` is not closed"));
                reader.pos = reader.pos.saturating_sub(usize::from(in_base));
                return None;
            };
            match token.kind {
                TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace => depth += 1,
                TokenKind::RParen if depth == 0 => break,
                TokenKind::RParen | TokenKind::RBracket | TokenKind::RBrace => {
                    depth = depth.saturating_sub(1)
                }
                TokenKind::Comma if depth == 0 && !(variadic && args.len() == count) => {
                    args.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            args.last_mut().expect("never empty").push(token);
        }
        if count == 0 && args.len() == 1 && args[0].is_empty() {
            args.clear();
        }
        if variadic && args.len() + 1 == count {
            args.push(Vec::new());
        }
        if args.len() != count {
            let text = self.ast.symbols.name(name.symbol).to_owned();
            let found = args.len();
            let defined = self.macros.get(&name.symbol).map_or(name.span, |m| m.span);
            let plural = if count == 1 { "" } else { "s" };
            let message = format!("macro `{text}` takes {count} argument{plural}, found {found}");
            let error = Diagnostic::error("E0027", name.span, message);
            self.report(error.note(defined, "defined here"));
            return None;
        }
        Some(args)
    }

    /// The body with its parameters replaced by arguments.
    fn substitute(&mut self, definition: &Macro, args: &[Vec<Token>], span: Span) -> Vec<Token> {
        let body = &definition.body;
        let params = definition.params.as_deref().unwrap_or(&[]);
        let param = |token: &Token| {
            (token.kind == TokenKind::Ident).then(|| params.iter().position(|&p| p == token.symbol)).flatten()
        };
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; args.len()];
        let mut out: Vec<Token> = Vec::with_capacity(body.len());
        let mut pos = 0;
        while let Some(&token) = body.get(pos) {
            let here = Token { span, ..token };
            let next = body.get(pos + 1);
            if token.kind == TokenKind::Hash && definition.params.is_some() {
                if let Some(index) = next.and_then(param) {
                    out.push(self.stringise(&args[index], here));
                    pos += 2;
                    continue;
                }
            } else if token.kind == TokenKind::HashHash && !out.is_empty() {
                if let Some(next) = next {
                    let right = match param(next) {
                        Some(index) => args[index].clone(),
                        None => vec![Token { span, ..*next }],
                    };
                    // An empty left operand leaves an `Eof` token as a placeholder; see below.
                    let left = out.pop().expect("not empty");
                    let mut right = right.into_iter();
                    match right.next() {
                        None => out.push(left),
                        Some(first) if left.kind == TokenKind::Eof => out.push(first),
                        // `, ## __VA_ARGS__` keeps the comma and pastes nothing.
                        Some(first) if left.kind == TokenKind::Comma => out.extend([left, first]),
                        Some(first) => out.extend(self.paste(left, first, [token.span, span])),
                    }
                    out.extend(right);
                    pos += 2;
                    continue;
                }
            } else if let Some(index) = param(&token) {
                let pasted = next.is_some_and(|t| t.kind == TokenKind::HashHash);
                if pasted {
                    out.extend_from_slice(&args[index]);
                    if args[index].is_empty() {
                        out.push(Token { kind: TokenKind::Eof, ..here });
                    }
                } else {
                    if expanded[index].is_none() {
                        expanded[index] = Some(self.expand_all(&args[index]));
                    }
                    let list = expanded[index].as_deref().unwrap_or(&[]);
                    let start = out.len();
                    out.extend_from_slice(list);
                    if let Some(first) = out.get_mut(start) {
                        first.flags = (first.flags & Token::NO_EXPAND) | here.flags;
                    }
                }
                pos += 1;
                continue;
            }
            out.push(here);
            pos += 1;
        }
        out.retain(|t| t.kind != TokenKind::Eof);
        if definition.variadic && args.last().is_some_and(Vec::is_empty) {
            drop_comma_before_nothing(body, &mut out);
        }
        out
    }

    fn stringise(&mut self, arg: &[Token], at: Token) -> Token {
        let mut text = String::from("\"");
        for (i, token) in arg.iter().enumerate() {
            if i > 0 && !token.joined() {
                text.push(' ');
            }
            let spelling = token.text(&self.ast.symbols);
            let literal = matches!(token.kind, TokenKind::String | TokenKind::Char);
            for c in spelling.chars() {
                if c == '"' || (c == '\\' && literal) {
                    text.push('\\');
                }
                text.push(c);
            }
        }
        text.push('"');
        Token { kind: TokenKind::String, symbol: self.ast.symbols.intern(&text), ..at }
    }

    /// Joins two tokens. The spans are those of the `##` and of the use of its macro.
    fn paste(&mut self, left: Token, right: Token, [paste, span]: [Span; 2]) -> Vec<Token> {
        let text = format!("{}{}", left.text(&self.ast.symbols), right.text(&self.ast.symbols));
        let lexed = lex(&mut self.ast.symbols, span.file, &text);
        match lexed.tokens.as_slice() {
            [one, _eof] if !lexed.has_bad => vec![Token { span, flags: left.flags, ..*one }],
            _ => {
                let message = format!("pasting gives `{text}`, which is not one token");
                self.report(Diagnostic::error("E0029", paste, message).note(span, "in this use"));
                vec![left, right]
            }
        }
    }
}

/// Returns true if the next token is `(`, without consuming it.
fn opens_arguments(reader: &Reader<'_>) -> bool {
    for frame in reader.frames.iter().rev() {
        if let Some(token) = frame.tokens.get(frame.pos) {
            return token.kind == TokenKind::LParen;
        }
    }
    reader.base.get(reader.pos).is_some_and(|t| t.kind == TokenKind::LParen)
}

/// Removes the comma of `f(a, ## __VA_ARGS__)` if there are no further arguments.
fn drop_comma_before_nothing(body: &[Token], out: &mut Vec<Token>) {
    let written = body.windows(3).any(|w| {
        w[0].kind == TokenKind::Comma && w[1].kind == TokenKind::HashHash && w[2].symbol == kw::VA_ARGS
    });
    if written && let Some(comma) = out.iter().rposition(|t| t.kind == TokenKind::Comma) {
        out.remove(comma);
    }
}
