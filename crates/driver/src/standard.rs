//! Finds the standard modules of Slang: `slang.NAME` of an `import`.
//!
//! They are source that comes with Slang and is not part of this compiler. After the include path, which has been
//! searched already, the folders that the variable [`FOLDERS`] lists are searched, then the trees that the importing
//! file lies in: a checkout of Slang has `source/standard-modules/NAME/NAME.slang`, and an installation has
//! `slang/NAME.slang` in a folder `slang-standard-module-VERSION` beside the library. Every host (the command line, the
//! language server, Rust and Python) finds modules here, so an import means the same for all of them.

use std::path::{Path, PathBuf};

/// The environment variable that lists folders with standard modules, separated as in `PATH`.
pub const FOLDERS: &str = "PULLBACK_STANDARD_MODULES";

/// The macro that is defined in the modules of a checkout: they are what Slang's own build calls a development build,
/// which has functions for its tests, too.
pub(crate) const DEVELOPMENT: &str = "UNIT_TEST";

/// Returns true if the files of a folder are those of a module as it is in a checkout, rather than installed.
pub(crate) fn is_development(folder: &Path) -> bool {
    folder.ancestors().any(|folder| folder.ends_with("source/standard-modules"))
}

/// The source of a module that a file in `folder` imports by the path `slang/NAME`.
pub(crate) fn find(path: &str, folder: Option<&Path>) -> Option<PathBuf> {
    let name = path.strip_prefix("slang/").filter(|name| !name.is_empty() && !name.starts_with('.'))?;
    let listed = std::env::var_os(FOLDERS);
    let mut listed = listed.iter().flat_map(std::env::split_paths).filter(|f| !f.as_os_str().is_empty());
    listed
        .find_map(|folder| in_folder(&folder, name))
        // A file that is named without its folder lies in the empty one, which has no absolute path.
        .or_else(|| above(&std::path::absolute(folder?.join(".")).ok()?, name))
}

/// The module in a folder of standard modules, whether it is laid out as in a checkout or as in an installation.
fn in_folder(folder: &Path, name: &str) -> Option<PathBuf> {
    let last = name.rsplit('/').next()?;
    let layouts = [format!("slang/{name}.slang"), format!("{name}/{last}.slang"), format!("{name}.slang")];
    layouts.iter().map(|layout| folder.join(layout)).find(|file| file.is_file())
}

/// The module of the checkout or installation of Slang that a folder lies in.
fn above(folder: &Path, name: &str) -> Option<PathBuf> {
    folder.ancestors().find_map(|tree| {
        let checkout = in_folder(&tree.join("source/standard-modules"), name);
        checkout.or_else(|| ["lib", "bin"].iter().find_map(|part| installed(&tree.join(part), name)))
    })
}

/// The module beside an installed library, of the latest version that has its source.
fn installed(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_ours = |path: &PathBuf| {
        path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with("slang-standard-module-"))
    };
    let entries = std::fs::read_dir(folder).ok()?;
    let mut versions: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_ours).collect();
    versions.sort();
    versions.iter().rev().find_map(|version| in_folder(version, name))
}

#[cfg(test)]
mod tests {
    use super::above;
    use std::fs;

    #[test]
    fn trees_of_both_kinds() {
        let root = std::env::temp_dir().join(format!("pullback-standard-{}", std::process::id()));
        let make = |file: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("is made");
            fs::write(&file, "").expect("is written");
            file
        };
        let source = make("checkout/source/standard-modules/nets/nets.slang");
        let deep = make("checkout/tests/a/b.slang");
        assert_eq!(above(deep.parent().expect("a folder"), "nets"), Some(source));
        make("installed/lib/slang-standard-module-2026.1/slang/nets.slang");
        let later = make("installed/lib/slang-standard-module-2026.2/slang/nets.slang");
        make("installed/lib/slang-standard-module-2026.3/slang/nets.slang-module");
        assert_eq!(above(&root.join("installed/share/examples"), "nets"), Some(later));
        assert_eq!(above(&root.join("checkout/tests"), "other"), None);
        fs::remove_dir_all(&root).expect("is removed");
    }
}
