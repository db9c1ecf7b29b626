//! The parser's cursor: characters and words.

use super::{Parsed, Parser};

impl<'t> Parser<'t> {
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Skips blanks and comments on this line.
    pub(super) fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        if self.rest().starts_with(';') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips blanks, comments and newlines.
    pub(super) fn skip_lines(&mut self) {
        self.skip_blanks();
        while self.rest().starts_with('\n') {
            self.at += 1;
            self.skip_blanks();
        }
    }

    /// Consumes a mark if it comes next, on this line or a later one.
    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let start = self.at;
        self.skip_lines();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len();
        } else {
            self.at = start;
        }
        found
    }

    pub(super) fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { Err(format!("expected '{mark}', found {}", self.found())) }
    }

    pub(super) fn found(&mut self) -> String {
        self.skip_lines();
        match self.rest().split(char::is_whitespace).next() {
            Some(word) if !word.is_empty() => format!("'{}'", word.chars().take(40).collect::<String>()),
            _ => "the end".to_string(),
        }
    }

    /// Returns the next word without consuming it.
    pub(super) fn peek_word(&mut self) -> &'t str {
        self.skip_lines();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_.$#".contains(c)));
        &rest[..end.unwrap_or(rest.len())]
    }

    pub(super) fn word(&mut self) -> Parsed<&'t str> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(format!("expected a word, found {}", self.found()));
        }
        self.at += word.len();
        Ok(word)
    }

    /// Consumes the given word if it comes next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let start = self.at;
        let found = self.peek_word() == word;
        self.at = if found { self.at + word.len() } else { start };
        found
    }

    /// Parses a name, bare or in quotes, with its `#n` if it has one.
    pub(super) fn key(&mut self) -> Parsed<String> {
        self.skip_lines();
        if !self.rest().starts_with('"') {
            return Ok(self.word()?.to_string());
        }
        let mut key = self.string()?;
        if self.rest().starts_with('#') {
            key += self.word()?;
        }
        Ok(key)
    }

    pub(super) fn string(&mut self) -> Parsed<String> {
        self.expect("\"")?;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some('u') => {
                        let hex: String =
                            chars.by_ref().map(|(_, c)| c).skip(1).take_while(|&c| c != '}').collect();
                        let c = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        out.push(c.ok_or("a character that is none")?);
                    }
                    Some(c) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err("a unterminated string".to_string())
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        self.skip_lines();
        let rest = self.rest();
        let body = rest.strip_prefix('-').unwrap_or(rest);
        let digits = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
        let text = &rest[..rest.len() - body.len() + digits];
        let n = text.parse().map_err(|_| format!("expected a number, found {}", self.found()))?;
        self.at += text.len();
        Ok(n)
    }
}
