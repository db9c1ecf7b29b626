//! `test PASS…`: the named passes of `opt`, one after the other. What comes out must be well-formed
//! and match the `; check:` lines; `; run:` lines must hold before and after. The word `fast_math`
//! turns that option on.

use crate::file::TestFile;

pub(super) fn run(file: &TestFile, first: &str) -> Result<(), String> {
    let mut module = super::module(file)?;
    super::run::hold(file, &module, "before the passes")?;
    let options = opt::Options { fast_math: file.has_option("fast_math"), ..opt::Options::default() };
    for pass in file.command.iter().filter(|word| *word != "fast_math") {
        opt::run_pass(&mut module, pass, &options)
            .ok_or_else(|| format!("no command is named '{first}', and no pass '{pass}'"))?;
        super::well_formed(&module, &format!("the module after {pass}"))?;
    }
    let text = ir::print::print_module(&module);
    super::run::hold(file, &module, "after the passes").map_err(|e| format!("{e}\n{text}"))?;
    file.match_output(&text)
}
