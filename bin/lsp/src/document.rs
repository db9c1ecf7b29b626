//! Holds the open documents of the editor and the analyses of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use driver::session::FileOptions;
use ide::Analysis;
use lsp_types::Uri;
use serde_json::Value;

/// The open documents.
#[derive(Debug)]
pub(crate) struct Documents {
    options: FileOptions,
    open: Vec<Document>,
}

#[derive(Debug)]
struct Document {
    uri: Uri,
    path: PathBuf,
    text: Arc<str>,
    /// The analysis of this text in the context of the other documents.
    analysis: Option<Analysis>,
}

/// Reads the editor's settings, `{"includeDirs":[…],"defines":["NAME=V"]}`.
pub(crate) fn options(settings: Option<&Value>) -> FileOptions {
    let strings = |key: &str| -> Vec<String> {
        let list = settings.and_then(|s| s.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_string)).collect()
    };
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.clone(), "1".to_string()),
    };
    FileOptions {
        defines: strings("defines").iter().map(define).collect(),
        include_dirs: strings("includeDirs").into_iter().map(PathBuf::from).collect(),
        ..FileOptions::default()
    }
}

impl Documents {
    pub(crate) fn new(options: FileOptions) -> Documents {
        Documents { options, open: Vec::new() }
    }

    /// Opens a document, or replaces its text.
    pub(crate) fn set(&mut self, uri: Uri, text: String) {
        self.forget();
        let text: Arc<str> = text.into();
        match self.open.iter_mut().find(|d| d.uri == uri) {
            Some(document) => document.text = text,
            None => {
                let path = to_path(uri.as_str());
                self.open.push(Document { uri, path, text, analysis: None });
            }
        }
    }

    pub(crate) fn close(&mut self, uri: &Uri) {
        self.forget();
        self.open.retain(|d| d.uri != *uri);
    }

    /// Discards all analyses, since a document may import any other.
    pub(crate) fn forget(&mut self) {
        self.open.iter_mut().for_each(|d| d.analysis = None);
    }

    /// The options for reading files, with the texts of the open documents.
    pub(crate) fn options(&self) -> FileOptions {
        let open = self.open.iter().map(|d| (d.path.clone(), d.text.clone())).collect();
        FileOptions { open, ..self.options.clone() }
    }

    /// The paths of all open documents.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.open.iter().map(|d| d.path.clone()).collect()
    }

    /// The path and text of a document.
    pub(crate) fn text(&self, uri: &Uri) -> Option<(&Path, &str)> {
        self.open.iter().find(|d| d.uri == *uri).map(|d| (d.path.as_path(), &*d.text))
    }

    /// The analysis of a document, computed if necessary.
    pub(crate) fn analysis(&mut self, uri: &Uri) -> Option<&mut Analysis> {
        let at = self.open.iter().position(|d| d.uri == *uri)?;
        if self.open[at].analysis.is_none() {
            let options = self.options();
            self.open[at].analysis = Analysis::new(&options, &self.open[at].path).ok();
        }
        self.open[at].analysis.as_mut()
    }

    /// The URI under which the editor knows a file.
    pub(crate) fn uri(&self, path: &Path) -> Option<Uri> {
        match self.open.iter().find(|d| d.path == path) {
            Some(document) => Some(document.uri.clone()),
            None => to_uri(path).parse().ok(),
        }
    }
}

/// Converts `file:///a%20b.slang` to `/a b.slang`; URIs of other schemes are kept as they are.
fn to_path(uri: &str) -> PathBuf {
    let Some(rest) = uri.strip_prefix("file://") else { return PathBuf::from(uri) };
    let bytes = rest.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| rest.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
            .flatten();
        match escaped {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    let path = String::from_utf8_lossy(&out).into_owned();
    // `/c:/a.slang`: the slash before a drive letter belongs to the URI, not to the path.
    let drive = path.as_bytes().get(2) == Some(&b':') && path.starts_with('/');
    PathBuf::from(if drive { &path[1..] } else { &path })
}

fn to_uri(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut out = String::from("file://");
    let text = path.to_string_lossy().replace('\\', "/");
    if !text.starts_with('/') {
        out.push('/');
    }
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte as char)
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_go_both_ways() {
        assert_eq!(to_path("file:///a%20b/%C3%A4.slang"), PathBuf::from("/a b/ä.slang"));
        assert_eq!(to_uri(Path::new("/nowhere/a b/ä.slang")), "file:///nowhere/a%20b/%C3%A4.slang");
        assert_eq!(to_path("file:///c%3A/x.slang"), PathBuf::from("c:/x.slang"));
        assert_eq!(to_path("untitled:1"), PathBuf::from("untitled:1"));
        assert_eq!(to_path("file:///100%"), PathBuf::from("/100%"));
    }
}
