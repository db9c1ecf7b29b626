//! `test PASS…`: runs the named passes of `opt`, one after the other. The result must be well-formed and
//! match the `; check:` lines; `; run:` lines must hold before and after, and the functions that `; unchanged:` names
//! must be the same. The passes that `; passes:` names must change a function, and say so, where all passes of a stage run.
//! The word `fast_math` turns that option on; `on_device` and `on_processor` select the target of the code.

use std::collections::BTreeSet;

use ir::{Func, Function, Module};

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
    let unchanged = printed(file, &module)?;
    let mut changing = Changing::default();
    match first {
        "before-ad" => opt::before_ad_observed(&mut module.clone(), &options, Some(&mut changing)),
        "after-ad" => {
            let all: Vec<Func> = module.funcs.keys().collect();
            opt::after_ad_observed(&mut module.clone(), &options, &all, Some(&mut changing));
        }
        _ => {}
    }
    for pass in file.directives.iter().filter(|d| d.key == "passes").flat_map(|d| d.text.split_whitespace()) {
        if !changing.passes.contains(pass) {
            return Err(format!(
                "'{pass}' is not among the passes that change something: {:?}",
                changing.passes
            ));
        }
    }
    for pass in file.command.iter().filter(|word| !is_option(word)) {
        let before = module.clone();
        let said = opt::run_pass(&mut module, pass, &options)
            .ok_or_else(|| format!("no command is named '{first}', and no pass '{pass}'"))?;
        for (func, said) in said {
            let text = |module: &Module| ir::print::print_function(module, &module.funcs[func]);
            if said != (text(&before) != text(&module)) {
                let what = if said { "has" } else { "has not" };
                return Err(format!("{pass} says that it {what} changed '{}'", module.funcs[func].name));
            }
        }
        super::well_formed(&module, &format!("the module after {pass}"))?;
    }
    let text = ir::print::print_module(&module);
    super::run::hold(file, &module, "after the passes").map_err(|e| format!("{e}\n{text}"))?;
    match printed(file, &module)? == unchanged {
        true => file.match_output(&text),
        false => Err(format!("a function that should be unchanged is not:\n{text}")),
    }
}

/// The names of the passes that change a function.
#[derive(Default)]
struct Changing {
    passes: BTreeSet<&'static str>,
}

impl opt::Observer for Changing {
    fn changed(&mut self, _: &mut Module, _: Func, _: Function, versions: Vec<(&'static str, Function)>) {
        self.passes.extend(versions.iter().map(|version| version.0));
    }
}

/// The text of the functions that the passes must leave as they are.
fn printed(file: &TestFile, module: &Module) -> Result<Vec<String>, String> {
    let names = file.directives.iter().filter(|d| d.key == "unchanged");
    let names = names.flat_map(|d| d.text.split_whitespace());
    names
        .map(|name| {
            let f = module.funcs.values().find(|f| f.name == name);
            f.map(|f| ir::print::print_function(module, f))
                .ok_or_else(|| format!("there is no function '{name}'"))
        })
        .collect()
}
