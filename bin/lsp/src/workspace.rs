//! Finds the files of the workspace.

use std::path::{Path, PathBuf};

use ide::Analysis;
use lsp_types::{InitializeParams, WorkspaceFolder, WorkspaceFoldersChangeEvent};

use crate::uri::to_path;

/// The maximum number of files that are searched.
const MAX_FILES: usize = 5000;
/// The maximum length of a file that is searched.
const MAX_LEN: u64 = 4 << 20;

/// The folders of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    folders: Vec<PathBuf>,
    /// The files in them with their texts, once they have been read.
    files: Option<Vec<(PathBuf, String)>>,
    /// The trees of files, each with the text that was parsed.
    outlines: Vec<(PathBuf, String, Analysis)>,
}

impl Workspace {
    #[expect(deprecated, reason = "editors without folders state the root in one of two old ways")]
    pub(crate) fn of(params: &InitializeParams) -> Workspace {
        let folders = params.workspace_folders.iter().flatten().map(path_of);
        let mut folders: Vec<PathBuf> = folders.collect();
        if folders.is_empty() {
            let root = params.root_uri.as_ref().map(|uri| to_path(uri.as_str()));
            folders.extend(root.or_else(|| params.root_path.as_ref().map(PathBuf::from)));
        }
        Workspace { folders, ..Workspace::default() }
    }

    /// The first folder, to which the paths of settings are relative.
    pub(crate) fn first(&self) -> Option<&Path> {
        self.folders.first().map(PathBuf::as_path)
    }

    pub(crate) fn change(&mut self, event: WorkspaceFoldersChangeEvent) {
        let removed: Vec<PathBuf> = event.removed.iter().map(path_of).collect();
        self.folders.retain(|folder| !removed.contains(folder));
        self.folders.extend(event.added.iter().map(path_of));
        self.forget();
    }

    /// Files may have changed.
    pub(crate) fn forget(&mut self) {
        self.files = None;
    }

    /// The programs in the folders with their texts, without those in hidden folders.
    pub(crate) fn files(&mut self) -> &[(PathBuf, String)] {
        let folders = &self.folders;
        self.files.get_or_insert_with(|| read(folders))
    }

    /// The tree of a file.
    pub(crate) fn outline(&mut self, path: &Path, text: String) -> &Analysis {
        let at = self.outlines.iter().position(|o| o.0 == path);
        let at = match at {
            Some(at) if self.outlines[at].1 == text => at,
            Some(at) => {
                self.outlines[at] = (path.into(), text.clone(), Analysis::outline(path, text));
                at
            }
            None => {
                self.outlines.push((path.into(), text.clone(), Analysis::outline(path, text)));
                self.outlines.len() - 1
            }
        };
        &self.outlines[at].2
    }
}

fn path_of(folder: &WorkspaceFolder) -> PathBuf {
    to_path(folder.uri.as_str())
}

fn read(folders: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = folders.iter().rev().cloned().collect();
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Links may lead in circles.
            let is_link = path.is_symlink();
            if name.starts_with('.') || is_link || name == "target" || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if matches!(path.extension().and_then(|e| e.to_str()), Some("slang" | "slangh"))
                && std::fs::metadata(&path).is_ok_and(|m| m.len() <= MAX_LEN)
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push((path, text));
                if found.len() >= MAX_FILES {
                    return found;
                }
            }
        }
    }
    found
}
