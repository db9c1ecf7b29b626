//! `test reads`: prints which reads of stacks are in range in the only function.

use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let module = super::module(file)?;
    let f = module.funcs.values().next().ok_or("there is no function")?;
    let inside = ir::analysis::reads_in_range(&module.types, f);
    let names: Vec<String> = f.values.keys().filter(|&v| inside.contains(v)).map(|v| v.to_string()).collect();
    let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
    file.match_output(&format!("in range: {names}.\n"))
}
