//! Finds words, comments and directives in text that need not be a program.

use std::hash::{Hash, Hasher};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Comment,
    /// A string or a character, with its quotes.
    Quoted,
    /// A name or a number.
    Word,
    Space,
    /// One other character.
    Mark,
}

/// The pieces of a text in order, each with the offset of its first byte and of the one after its last.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = (Piece, usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let &first = bytes.get(at)?;
        let run = |from: usize, is_in: fn(u8) -> bool| {
            bytes[from..].iter().position(|&b| !is_in(b)).map_or(bytes.len(), |n| from + n)
        };
        let rest = &text[at..];
        let (piece, end) = if rest.starts_with("//") {
            (Piece::Comment, rest.find('\n').map_or(bytes.len(), |n| at + n))
        } else if let Some(inner) = rest.strip_prefix("/*") {
            (Piece::Comment, inner.find("*/").map_or(bytes.len(), |n| at + 2 + n + 2))
        } else if first == b'"' || first == b'\'' {
            (Piece::Quoted, quoted_end(bytes, at))
        } else if first.is_ascii_whitespace() {
            (Piece::Space, run(at, |b| b.is_ascii_whitespace()))
        } else if is_word_byte(first) {
            (Piece::Word, run(at, is_word_byte))
        } else {
            (Piece::Mark, at + 1)
        };
        at = end;
        Some((piece, start, end))
    })
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of a string, at its quote or at the end of its line.
fn quoted_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if at + 1 < bytes.len() && bytes[at + 1] < 0x80 => at += 2,
            b'\n' => return at,
            _ if byte == bytes[start] => return at + 1,
            _ => at += 1,
        }
    }
    at.min(bytes.len())
}

/// The words of a text, also those in comments.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii();
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

/// Returns true for what can be a name.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Hashes a text without its spaces and comments.
pub(crate) fn significant(text: &str, hasher: &mut impl Hasher) {
    for (piece, start, end) in pieces(text) {
        if !matches!(piece, Piece::Space | Piece::Comment) {
            text.as_bytes()[start..end].hash(hasher);
        }
    }
}

/// The lines of a text that begin with `#`, each with the lines that continue it.
pub(crate) fn directives(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let mut end = text[at..].find('\n').map_or(text.len(), |n| at + n + 1);
        if text[at..end].trim_start().starts_with('#') {
            while text[at..end].trim_end_matches(['\r', '\n']).ends_with('\\') && end < text.len() {
                end = text[end..].find('\n').map_or(text.len(), |n| end + n + 1);
            }
            found.push(&text[at..end]);
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_any_text() {
        for text in
            ["a // b\n\"c \\\" d\" e1.5f /* x", "'", "\"\\", "ä\u{1F600}🙂 /*/ x */ y", "/", "\"a\nb\""]
        {
            let mut at = 0;
            for (_, start, end) in pieces(text) {
                assert_eq!(start, at, "{text}");
                assert!(text.is_char_boundary(end) && end > start, "{text}");
                at = end;
            }
            assert_eq!(at, text.len());
        }
    }

    #[test]
    fn directives_have_their_continuations() {
        assert_eq!(directives("a\n #define X \\\n 1\nb\n#if 1"), [" #define X \\\n 1\n", "#if 1"]);
    }
}
