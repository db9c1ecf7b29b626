//! Finds the programs to format, and the style that their `.editorconfig` asks for.
//!
//! The standard keys `indent_style`, `indent_size`, `tab_width` and `max_line_length` are read, and
//! `indent_brace_style` (`Allman`, or `K&R` and its relatives), which the format's list of further keys has. What no
//! file says is as it prevails in the program itself.

use std::path::{Path, PathBuf};

use fmt::{BraceStyle, Indent, Style};

use crate::error::Error;
use crate::files;

/// The programs that a path stands for, in order: itself, or all `.slang` files in a folder.
pub fn programs(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let error = |e: std::io::Error| Error::read(&folder, files::plain(&e));
        for entry in std::fs::read_dir(&folder).map_err(error)? {
            let path = entry.map_err(error)?.path();
            let is_hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
            // A link may lead to a folder above.
            if path.is_dir() && !path.is_symlink() && !is_hidden {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "slang") && !path.is_dir() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The style for a program.
pub fn style(path: &Path) -> Result<Style, Error> {
    let wrong = |e: ec4rs::Error| Error::read(".editorconfig", e);
    let properties = ec4rs::properties_of(path).map_err(wrong)?;
    let value = |key: &str| properties.get_raw_for_key(key).into_option().map(str::to_ascii_lowercase);
    let number = |key: &str| value(key).and_then(|v| v.parse::<usize>().ok()).filter(|&n| n > 0);
    let columns = number("indent_size").or_else(|| number("tab_width"));
    let indent = match (value("indent_style").as_deref(), columns) {
        (Some("tab"), columns) => Some(Indent::Tab(number("tab_width").or(columns).unwrap_or(4))),
        (_, Some(columns)) => Some(Indent::Spaces(columns)),
        (Some("space"), None) => Some(Indent::Spaces(4)),
        (_, None) => None,
    };
    let max_width = match value("max_line_length").as_deref() {
        Some("off") => usize::MAX,
        _ => number("max_line_length").unwrap_or(Style::default().max_width),
    };
    let braces = value("indent_brace_style").and_then(|v| match v.as_str() {
        "allman" | "bsd" | "whitesmiths" | "gnu" => Some(BraceStyle::NextLine),
        "k&r" | "1tbs" | "otbs" | "stroustrup" | "java" => Some(BraceStyle::SameLine),
        _ => None,
    });
    Ok(Style { indent, max_width, braces, ..Style::default() })
}
