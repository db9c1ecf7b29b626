//! Defines source files and spans, and maps byte offsets to lines and columns.

use std::sync::Arc;

/// A file of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span for an error that concerns a file but has no location in it.
    pub fn of_file(file: FileId) -> Span {
        Span { file, start: u32::MAX, end: u32::MAX }
    }

    /// Returns true if the span is a location in a file.
    pub fn is_place(self) -> bool {
        self.start != u32::MAX
    }

    /// From the start of `self` to the end of `other`, if both are in one file.
    pub fn to(self, other: Span) -> Span {
        if self.file == other.file { Span { end: other.end.max(self.end), ..self } } else { self }
    }
}

/// A file's path, as shown to the user, and its text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// As the user wrote it; `core/math.slang` for a file of the library.
    pub path: String,
    /// UTF-8; invalid bytes have been replaced (and diagnosed).
    pub text: Arc<str>,
    /// For a file of a compiled module, the hash of the module: there are spaces in place of its text, which is not
    /// known.
    pub module: Option<u64>,
    /// The byte offset of each line's first byte.
    pub line_starts: Vec<u32>,
}

/// All files of a program, by [`FileId`].
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// In order of loading.
    pub files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<Arc<str>>) -> FileId {
        let text = text.into();
        let line_starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1))
            .collect();
        self.files.push(SourceFile { path: path.into(), text, module: None, line_starts });
        FileId(self.files.len() as u32 - 1)
    }

    /// Adds a file of a compiled module, of which only the length of each line is known.
    pub fn add_without_text(&mut self, path: impl Into<String>, lines: &[u32], module: u64) -> FileId {
        let length = lines.iter().map(|&line| line as usize + 1).sum::<usize>();
        let mut text = vec![b' '; length.saturating_sub(1)];
        let mut end = 0;
        for &line in lines.split_last().map_or(&[][..], |lines| lines.1) {
            end += line as usize;
            text[end] = b'\n';
            end += 1;
        }
        let file = self.add(path, String::from_utf8(text).unwrap_or_default());
        self.files[file.0 as usize].module = Some(module);
        file
    }

    /// Line and column (in characters), both from 1.
    pub fn line_column(&self, file: FileId, byte: u32) -> (u32, u32) {
        let Some(f) = self.files.get(file.0 as usize) else { return (0, 0) };
        let line = f.line_starts.partition_point(|&s| s <= byte).saturating_sub(1);
        let start = f.line_starts[line] as usize;
        let end = (byte as usize).clamp(start, f.text.len());
        let column = f.text.get(start..end).map_or(end - start, |s| s.chars().count());
        (line as u32 + 1, column as u32 + 1)
    }
}
