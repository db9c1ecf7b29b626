//! `test PASS…`: runs the named passes of `opt`, one after the other. The result must be well-formed and
//! match the `; check:` lines; `; run:` lines must hold before and after. The word `fast_math` turns that
//! option on; `on_device` and `on_processor` select the target of the code.

use crate::file::TestFile;

pub(super) fn run(file: &TestFile, first: &str) -> Result<(), String> {
    let mut module = super::module(file)?;
    super::run::hold(file, &module, "before the passes")?;
    let on_device = match (file.has_option("on_device"), file.has_option("on_processor")) {
        (false, false) => None,
        (is, _) => Some(is),
    };
    let fast_math = file.has_option("fast_math");
    let options = opt::Options { fast_math, on_device, ..opt::Options::default() };
    let is_option = |word: &str| ["fast_math", "on_device", "on_processor"].contains(&word);
    for pass in file.command.iter().filter(|word| !is_option(word)) {
        opt::run_pass(&mut module, pass, &options)
            .ok_or_else(|| format!("no command is named '{first}', and no pass '{pass}'"))?;
        super::well_formed(&module, &format!("the module after {pass}"))?;
    }
    let text = ir::print::print_module(&module);
    super::run::hold(file, &module, "after the passes").map_err(|e| format!("{e}\n{text}"))?;
    file.match_output(&text)
}
