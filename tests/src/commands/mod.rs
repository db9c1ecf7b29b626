//! The commands of filetests, with one small file for each.

mod ad;
pub mod dispatch;
pub mod emit;
mod grad;
mod parse;
mod pass;
mod reads;
mod run;
pub mod slang;
mod uniform;
mod verify;

use ir::Module;

use crate::file::TestFile;

/// A test that does not end fails.
const LIMITS: ir::interp::Limits = ir::interp::Limits {
    steps: Some(10_000_000),
    depth: ir::interp::MAX_DEPTH,
    memory: 2 << 30,
    deadline: None,
};

/// Runs a filetest; the error is the text to show to the user.
pub fn run(file: &TestFile) -> Result<(), String> {
    let command = file.command.first().map_or("", String::as_str);
    if file.path.extension().is_some_and(|e| e == "slang") {
        return match command {
            "run" => slang::run(file),
            "check" => slang::check(file),
            "emit" => emit::run(file),
            other => Err(format!("no command for .slang files is named '{other}'")),
        };
    }
    match command {
        "parse" => parse::run(file),
        "verify" => verify::run(file),
        "run" => run::run(file),
        "dispatch" => dispatch::run(file),
        "grad" => grad::run(file),
        "uniform" => uniform::run(file),
        "reads" => reads::run(file),
        "linearize" | "propagate" | "unzip" | "transpose" | "forward" | "backward" | "sparsity"
        | "differentiate" => ad::run(file),
        pass => pass::run(file, pass),
    }
}

/// The module of a file, which must be well-formed.
fn module(file: &TestFile) -> Result<Module, String> {
    let module = ir::parse::parse_module(&file.text).map_err(|e| e.to_string())?;
    well_formed(&module, "the text")?;
    Ok(module)
}

/// Returns an error with the module's text if the module is not well-formed, or if its printed text does not
/// parse to the same module.
fn well_formed(module: &Module, when: &str) -> Result<(), String> {
    let errors: Vec<String> = ir::verify::verify_module(module).iter().map(ToString::to_string).collect();
    let text = ir::print::print_module(module);
    if !errors.is_empty() {
        return Err(format!("{when} is not well-formed:\n{}\n{text}", errors.join("\n")));
    }
    let again =
        ir::parse::parse_module(&text).map_err(|e| format!("{when} does not read back: {e}\n{text}"))?;
    match ir::print::print_module(&again) == text {
        true => Ok(()),
        false => Err(format!("{when} reads back as something else:\n{text}")),
    }
}
