//! `test parse`: printing a module and parsing it again is the identity; `; check:` lines match the printed
//! text. With `; error: TEXT`, parsing must fail with that text, on that line.

use ir::parse::parse_module;
use ir::print::print_module;

use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let parsed = parse_module(&file.text);
    if let Some(want) = file.directives.iter().find(|d| d.key == "error") {
        return match parsed {
            Ok(_) => Err(format!("it parses, instead of '{}'", want.text)),
            Err(e) if e.message.contains(&want.text) && e.line == want.line => Ok(()),
            Err(e) => Err(format!("wanted line {}: {}\nfound {e}", want.line, want.text)),
        };
    }
    let text = print_module(&parsed.map_err(|e| e.to_string())?);
    let again = parse_module(&text).map_err(|e| format!("{e}\n{text}"))?;
    let second = print_module(&again);
    if second != text {
        return Err(format!("printed first\n{text}\nthen\n{second}"));
    }
    file.match_output(&text)
}
