//! Shows the core library, which is part of the binary: as virtual documents, or as files for editors without those.

use std::path::{Path, PathBuf};

use crate::uri::CORE;

/// The folder of the copies of the library's files, by version: a file that exists is not written again. In WebAssembly
/// there is none.
fn folder() -> Option<PathBuf> {
    let name = concat!("pullback-core-", env!("CARGO_PKG_VERSION"));
    (!cfg!(target_family = "wasm")).then(|| std::env::temp_dir().join(name))
}

/// The URI of a virtual document.
pub(crate) fn virtual_uri(path: &Path) -> String {
    format!("{CORE}{}", path.display())
}

/// The file's name in the library, for the URI of a virtual document.
pub(crate) fn of_virtual_uri(uri: &str) -> Option<&str> {
    Some(uri.strip_prefix(CORE)?.trim_start_matches('/'))
}

/// A copy of a file of the library that nobody can write.
pub(crate) fn copy(path: &Path, text: &str) -> Option<PathBuf> {
    let file = folder()?.join(path);
    if std::fs::read_to_string(&file).is_ok_and(|found| found == text) {
        return Some(file);
    }
    std::fs::create_dir_all(file.parent()?).ok()?;
    // Another server may be writing the same file.
    let new = file.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, text).ok()?;
    let mut permissions = std::fs::metadata(&new).ok()?.permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&new, permissions).ok()?;
    std::fs::rename(&new, &file).ok()?;
    Some(file)
}

/// Returns true for a copy of a file of the library.
pub(crate) fn is_copy(path: &Path) -> bool {
    folder().is_some_and(|folder| path.starts_with(folder)) || path.to_string_lossy().starts_with(CORE)
}
