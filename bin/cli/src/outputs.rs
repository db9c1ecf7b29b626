//! The files that a command is asked to write. What cannot be written, or would replace what the command reads, is
//! refused before any work is done.

use std::path::{Path, PathBuf};

use driver::files;
use syntax::Sources;

use crate::report::Stop;

/// The files of a command.
pub(crate) struct Outputs<'a> {
    /// Files that are read and must stay.
    inputs: Vec<PathBuf>,
    /// Files that are written, each with the option that asks for it.
    outputs: Vec<(&'a str, &'a Path)>,
}

impl<'a> Outputs<'a> {
    /// A program of these files.
    pub(crate) fn of(sources: &Sources) -> Outputs<'a> {
        let inputs = sources.files.iter().map(|file| PathBuf::from(&file.path)).collect();
        Outputs { inputs, outputs: Vec::new() }
    }

    /// Adds files that are read.
    pub(crate) fn reads(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Outputs<'a> {
        self.inputs.extend(paths);
        self
    }

    /// Adds a file that an option asks for.
    pub(crate) fn writes(mut self, option: &'a str, path: Option<&'a Path>) -> Outputs<'a> {
        self.outputs.extend(path.map(|path| (option, path)));
        self
    }

    /// Refuses files that cannot be written, that are read, or that two options ask for.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        for (k, &(option, path)) in self.outputs.iter().enumerate() {
            let file = path.display();
            if let Some(input) = self.inputs.iter().find(|input| files::is_same(input, path)) {
                let input = input.display();
                return Err(Stop::Usage(format!("`{option} {file}` would replace `{input}`, which is read")));
            }
            let before = &self.outputs[..k];
            if let Some((other, _)) = before.iter().find(|(_, known)| is_same_place(known, path)) {
                let other =
                    if *other == option { format!("another `{other}`") } else { format!("`{other}`") };
                return Err(Stop::Usage(format!("`{option} {file}`: {other} writes that file, too")));
            }
            files::expect_writable(path)?;
        }
        Ok(())
    }
}

/// Returns true if two paths are those of the same file, which need not exist yet.
fn is_same_place(one: &Path, other: &Path) -> bool {
    matches!((place(one), place(other)), (Some(one), Some(other)) if one == other)
}

/// A path by which files that do not exist yet can be compared. A device is a place for any number of outputs.
fn place(path: &Path) -> Option<PathBuf> {
    if path.exists() && !path.is_file() {
        return None;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let there = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(there).or_else(|| Some(path.to_path_buf()))
}
