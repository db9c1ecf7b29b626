//! `test uniform [rows] [packed]`: prints the results of the divergence analysis for `main`. Each line of the
//! function shows which of the values that it defines are divergent, and whether control flow diverges there;
//! or a single line gives the reason why it runs in no lanes. The words select how threads are assigned to
//! lanes.

use std::collections::HashSet;
use std::fmt::Write as _;

use ir::{Function, Inst, Module, Value};
use native::lanes::uniform::{Analysis, Dealing, Facts};

use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    let module = super::module(file)?;
    let main = module.find("main").ok_or("there is no function 'main'")?;
    let dealing = Dealing { rows: file.has_option("rows"), packed: file.has_option("packed") };
    let mut analysis = Analysis::new(&module, dealing);
    let found = match analysis.function(main, &[]) {
        Ok(facts) => marked(&module, &module.funcs[main], facts),
        Err(reason) => format!("no lanes: {}\n", reason.what),
    };
    file.match_output(&found)
}

/// The function's text with marks. A value is defined where its number first occurs.
fn marked(module: &Module, f: &Function, facts: &Facts) -> String {
    let mut parting: Vec<Inst> = Vec::new();
    f.walk(f.body(), &mut |inst| {
        if !f.insts[inst].regions.is_empty() {
            parting.push(inst);
        }
    });
    let mut parting = parting.into_iter();
    let mut seen: HashSet<u32> = HashSet::new();
    let mut out = String::new();
    for line in ir::print::print_function(module, f).lines() {
        let mut marks: Vec<String> = Vec::new();
        let words = line.split(|c: char| !c.is_ascii_alphanumeric());
        let numbers = words.filter_map(|word| word.strip_prefix('v')?.parse::<u32>().ok());
        for number in numbers {
            let value = Value::from_u32(number);
            if seen.insert(number) && f.values.get(value).is_some() && facts.varying[value] {
                marks.push(format!("v{number} varies"));
            }
        }
        let opens =
            line.ends_with('{') && !line.starts_with("func") && !line.trim_start().starts_with(['}', '_']);
        let is_case = line.trim_start().starts_with(|c: char| c.is_ascii_digit()) || line.contains("default");
        if opens && !is_case && parting.next().is_some_and(|inst| facts.divergent[inst]) {
            marks.push("lanes part".to_string());
        }
        let marks = if marks.is_empty() { String::new() } else { format!("  ; {}", marks.join(", ")) };
        let _ = writeln!(out, "{line}{marks}");
    }
    out
}
