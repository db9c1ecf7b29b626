//! Every crate that is published has what a registry asks for, and holds all that it is built from.

use std::path::{Path, PathBuf};

/// The crates that are published: everything but tests, benchmarks and the Python module.
fn published() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = std::fs::read_dir(root.join("crates")).expect("the folder is there");
    let mut all: Vec<PathBuf> = crates.map(|entry| entry.expect("readable").path()).collect();
    all.retain(|path| path.join("Cargo.toml").is_file());
    all.extend(["bin/cli", "bin/lsp"].map(|path| root.join(path)));
    all.sort();
    all
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn metadata_is_complete() {
    let all = published();
    assert!(all.len() > 15, "{all:?}");
    for path in all {
        let manifest = read(&path.join("Cargo.toml"));
        let package = manifest.split("\n[").next().expect("a table").to_string();
        for key in
            ["name", "description", "version", "license", "readme", "keywords", "categories", "rust-version"]
        {
            let has = package.lines().any(|line| {
                line.strip_prefix(key)
                    .is_some_and(|rest| rest.starts_with([' ', '.']) && !rest.ends_with("\"\""))
            });
            assert!(has, "{}: `{key}` is missing", path.display());
        }
        assert!(!package.contains("publish"), "{}: it is not published", path.display());
        let readme = package.lines().find_map(|line| line.strip_prefix("readme = \"")?.strip_suffix('"'));
        assert!(path.join(readme.expect("a path")).is_file(), "{}: the readme is missing", path.display());
        for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(read(&path.join(license)).len() > 500, "{}: {license}", path.display());
        }
    }
}

#[test]
fn crates_of_the_workspace_are_named_with_versions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = read(&root.join("Cargo.toml"));
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let wanted = format!("version = \"={}\"", version.expect("a version"));
    let ours: Vec<&str> = manifest.lines().filter(|line| line.contains("path = \"")).collect();
    assert!(ours.len() > 15, "{ours:?}");
    for line in ours {
        // Packages leave out crates that are for tests only, unless they have a version.
        let path = line.split("path = \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a path");
        if read(&root.join(path).join("Cargo.toml")).contains("publish = false") {
            assert!(!line.contains("version"), "{line}");
            continue;
        }
        assert!(line.contains(&wanted), "{line}: {wanted}");
    }
    for path in published() {
        let own = read(&path.join("Cargo.toml"));
        let outside = own.lines().find(|line| line.contains("path = \"") && !line.starts_with("path"));
        assert_eq!(outside, None, "{}: a dependency by its path, and not of the workspace", path.display());
    }
}

/// The texts of a folder of sources.
fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn included_files_are_inside() {
    let mut seen = 0;
    for krate in published() {
        let inside = krate.canonicalize().expect("the folder is there");
        let mut all = Vec::new();
        sources(&krate.join("src"), &mut all);
        for file in all.iter().filter(|file| !file.ends_with("tests.rs")) {
            let text = read(file);
            for rest in text.split("include_str!(\"").chain(text.split("include_bytes!(\"")).skip(1) {
                let Some((name, _)) = rest.split_once("\")") else { continue };
                let folder = file.parent().expect("a folder");
                let Ok(path) = folder.join(name).canonicalize() else { continue };
                seen += 1;
                assert!(path.starts_with(&inside), "{}: `{name}` is outside of the package", file.display());
            }
        }
    }
    assert!(seen > 15, "{seen} included files");
}
