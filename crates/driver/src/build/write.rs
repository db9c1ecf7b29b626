//! Writes a library to a file.

use std::path::Path;
use std::process::Command;

use super::Built;
use crate::error::Error;
use crate::files;

/// Writes the result to a file: depending on the path's extension an object file, an archive or a shared
/// library. The last two need the system's `ar` and `cc`.
pub fn write(built: &Built, path: &Path) -> Result<(), Error> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if ending == "o" || ending == "obj" {
        return files::write(path, &built.object);
    }
    let tool = match ending {
        "a" => "ar",
        "so" | "dylib" => "cc",
        _ => return Err(Error::input(format!("`{}` ends in none of .o, .a and .so", path.display()))),
    };
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty() && !p.is_dir()) {
        return Err(Error::write(path, format!("there is no folder `{}`", folder.display())));
    }
    let object = std::env::temp_dir().join(format!("pullback-{}.o", std::process::id()));
    files::write(&object, &built.object)?;
    let mut failed = None;
    let made = files::make(path, |beside| {
        let mut command = Command::new(tool);
        match tool {
            "ar" => command.arg("rcs").arg(beside).arg(&object),
            _ => command.arg("-shared").arg("-o").arg(beside).arg(&object).arg("-lm"),
        };
        let stopped = || std::io::Error::other("it was not made");
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).trim().to_string();
                failed = Some(format!("`{tool}` could not make `{}`: {text}", path.display()));
                Err(stopped())
            }
            Err(error) => {
                failed = Some(format!("`{tool}`, which makes `{}`, does not run: {error}", path.display()));
                Err(stopped())
            }
        }
    });
    let _ = std::fs::remove_file(&object);
    failed.map_or(made, |why| Err(Error::input(why)))
}
