//! Converts between paths and URIs, also those of documents that are no files.

use std::path::{Path, PathBuf};

/// The scheme of the files of the core library.
pub(crate) const CORE: &str = "pullback-core:/";
/// The scheme of derivatives.
pub(crate) const DERIVATIVE: &str = "pullback-derivative:/";

/// Converts `file:///a%20b.slang` to `/a b.slang`; URIs of other schemes are kept as they are.
pub(crate) fn to_path(uri: &str) -> PathBuf {
    let Some(rest) = uri.strip_prefix("file://") else { return PathBuf::from(uri) };
    let path = decoded(rest);
    // `/c:/a.slang`: the slash before a drive letter belongs to the URI, not to the path.
    let drive = path.as_bytes().get(2) == Some(&b':') && path.starts_with('/');
    PathBuf::from(if drive { &path[1..] } else { &path })
}

pub(crate) fn to_uri(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let text = path.to_string_lossy().replace('\\', "/");
    let slash = if text.starts_with('/') { "" } else { "/" };
    format!("file://{slash}{}", encoded(&text))
}

/// The name of a derivative's document, and what it is the derivative of.
pub(crate) fn derivative(source: &str, function: &str, mode: &str) -> String {
    format!("{DERIVATIVE}{}.{mode}.slang?{}", encoded(function), encoded(source))
}

/// The URI of the source, the function and the mode in the name of a derivative's document.
pub(crate) fn of_derivative(uri: &str) -> Option<(String, String, String)> {
    let (name, source) = uri.strip_prefix(DERIVATIVE)?.split_once('?')?;
    // An editor may encode again what it was given.
    let name = decoded(name);
    let (function, mode) = name.strip_suffix(".slang")?.rsplit_once('.')?;
    let source = decoded(source);
    let source = if source.contains("://") { source } else { decoded(&source) };
    Some((source, decoded(function), mode.to_string()))
}

/// Replaces all bytes that have a meaning in URIs by `%XX`.
fn encoded(text: &str) -> String {
    let mut out = String::new();
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

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok()))
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
    String::from_utf8_lossy(&out).into_owned()
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

    #[test]
    fn names_of_derivatives_go_both_ways() {
        let uri = derivative("file:///a%20b.slang", "S.f", "bwd");
        let expected = ("file:///a%20b.slang".to_string(), "S.f".to_string(), "bwd".to_string());
        assert_eq!(of_derivative(&uri), Some(expected));
        assert_eq!(of_derivative("pullback-derivative:/f.slang?x"), None);
    }
}
