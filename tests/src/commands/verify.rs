//! `test verify`: the verifier reports exactly the errors listed in `; error: TEXT` lines.

use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let module = ir::parse::parse_module(&file.text).map_err(|e| e.to_string())?;
    let found: Vec<String> = ir::verify::verify_module(&module).iter().map(ToString::to_string).collect();
    let wanted: Vec<&str> = file.all("error").collect();
    for want in &wanted {
        if !found.iter().any(|error| error.contains(want)) {
            return Err(format!("no error has '{want}':\n{}", found.join("\n")));
        }
    }
    match found.iter().find(|error| !wanted.iter().any(|want| error.contains(want))) {
        Some(error) => Err(format!("unexpected: {error}")),
        None => Ok(()),
    }
}
