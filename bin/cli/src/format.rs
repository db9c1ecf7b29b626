//! `fmt`: formats programs in place, or says what would change.

use std::path::Path;

use driver::{Error, files, format};

use crate::args::FmtArgs;
use crate::report;

pub(crate) fn fmt(args: &FmtArgs) -> u8 {
    let mut status = 0;
    for path in &args.files {
        let done = if path.as_os_str() == "-" { Ok(vec![path.clone()]) } else { format::programs(path) };
        let paths = match done {
            Ok(paths) => paths,
            Err(error) => {
                status = 1;
                tell(&error);
                continue;
            }
        };
        // One file that cannot be formatted does not keep the others from it.
        for path in paths {
            match file(args, &path) {
                Ok(true) => {}
                Ok(false) => status = 1,
                Err(error) => {
                    status = 1;
                    tell(&error);
                }
            }
        }
    }
    status
}

fn tell(error: &Error) {
    report::err(&format!("error[{}]: {error}\n", error.code()));
}

/// Formats one file; returns false if `--check` finds a difference.
fn file(args: &FmtArgs, path: &Path) -> Result<bool, Error> {
    let is_input = path.as_os_str() == "-";
    let text = match is_input {
        true => String::from_utf8(files::read_input(files::PROGRAM)?)
            .map_err(|_| Error::read(path, "it is not text in UTF-8"))?,
        false => files::read_text(path, files::PROGRAM)?,
    };
    let named = if is_input { Path::new("stdin.slang") } else { path };
    let formatted = fmt::format(&text, &format::style(named)?)
        .map_err(|changed| Error::Internal(format!("`{}`: {changed}", path.display())))?;
    if args.check {
        report::out(&difference(path, &text, &formatted, "(formatted)"));
        return Ok(text == formatted);
    }
    if is_input || args.stdout {
        report::out(&formatted);
    } else if text != formatted {
        files::write(path, formatted.as_bytes())?;
    }
    Ok(true)
}

/// The lines that differ, as a unified diff; `how` the text was changed is shown beside the second path.
pub(crate) fn difference(path: &Path, text: &str, changed: &str, how: &str) -> String {
    let name = path.display().to_string();
    let lines = similar::TextDiff::from_lines(text, changed);
    lines.unified_diff().context_radius(2).header(&name, &format!("{name} {how}")).to_string()
}
