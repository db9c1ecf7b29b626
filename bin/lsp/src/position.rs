//! Converts positions: the protocol counts lines and code units from 0, the compiler counts bytes of the
//! file.

use lsp_types::{InitializeParams, Position, PositionEncodingKind, Range};
use syntax::{SourceFile, Span};

/// The unit in which columns are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units, the protocol's default.
    Utf16,
}

impl Encoding {
    /// Chooses UTF-8 if the editor supports it.
    pub(crate) fn negotiate(params: &InitializeParams) -> Encoding {
        let general = params.capabilities.general.as_ref();
        let offered = general.and_then(|g| g.position_encodings.as_ref());
        match offered {
            Some(list) if list.contains(&PositionEncodingKind::UTF8) => Encoding::Utf8,
            _ => Encoding::Utf16,
        }
    }

    /// The offset of a position; positions past the end of a line or file map to that end.
    pub(crate) fn offset(self, text: &str, position: Position) -> usize {
        let mut start = 0;
        for _ in 0..position.line {
            match text[start..].find('\n') {
                Some(at) => start += at + 1,
                None => return text.len(),
            }
        }
        let line = text[start..].split('\n').next().unwrap_or("");
        let line = line.strip_suffix('\r').unwrap_or(line);
        let mut units = 0;
        for (at, c) in line.char_indices() {
            if units >= position.character as usize {
                return start + at;
            }
            units += self.width(c);
        }
        start + line.len()
    }

    /// The position of an offset.
    pub(crate) fn position(self, file: &SourceFile, offset: u32) -> Position {
        let line = file.line_starts.partition_point(|&s| s <= offset).saturating_sub(1);
        let start = file.line_starts[line] as usize;
        let end = (offset as usize).clamp(start, file.text.len());
        let units: usize = file.text.get(start..end).map_or(0, |s| s.chars().map(|c| self.width(c)).sum());
        Position { line: line as u32, character: units as u32 }
    }

    /// The range of a span in its file.
    pub(crate) fn range(self, file: &SourceFile, span: Span) -> Range {
        Range { start: self.position(file, span.start), end: self.position(file, span.end.max(span.start)) }
    }

    fn width(self, c: char) -> usize {
        match self {
            Encoding::Utf8 => c.len_utf8(),
            Encoding::Utf16 => c.len_utf16(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syntax::Sources;

    #[test]
    fn offsets_and_positions_are_inverse() {
        let text = "a\nä\u{1F600}b\n\nend";
        let mut sources = Sources::default();
        sources.add("a.slang", text);
        for encoding in [Encoding::Utf8, Encoding::Utf16] {
            for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let position = encoding.position(&sources.files[0], offset as u32);
                assert_eq!(encoding.offset(text, position), offset, "{encoding:?} {position:?}");
            }
        }
        let after = Position { line: 1, character: 99 };
        assert_eq!(Encoding::Utf16.offset(text, after), text.find("\n\n").unwrap());
        assert_eq!(Encoding::Utf16.offset(text, Position { line: 99, character: 0 }), text.len());
        let smile = Encoding::Utf16.position(&sources.files[0], text.find('b').unwrap() as u32);
        assert_eq!(smile, Position { line: 1, character: 3 });
    }
}
