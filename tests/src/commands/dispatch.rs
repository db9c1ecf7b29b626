//! `test dispatch`: runs the entry points of a module on the interpreter and as machine code, with one worker and
//! with three: all must print the same, leave the same in all buffers, or stop with the same error. `; groups:`,
//! `; bind:`, `; stdout:`, `; buffer:` and `; error:` are those of programs, where they are stated. With the word
//! `trap`, accesses out of range are errors; with `ordered`, the outcome depends on the order of threads, so that
//! devices do not run it: they name any of several threads that fail.

use driver::launch::{Backend, CodeOptions, Runner};
use driver::session::Session;

use super::slang;
use crate::file::TestFile;

pub(super) fn run(file: &TestFile) -> Result<(), String> {
    run_on(file, &[(Backend::INTERP, 1), (Backend::CRANELIFT, 1), (Backend::CRANELIFT, 3)])
}

/// Runs the entry points on backends with numbers of workers.
pub fn run_on(file: &TestFile, on: &[(Backend, usize)]) -> Result<(), String> {
    let module = super::module(file)?;
    let trap = file.has_option("trap");
    for entry in &module.entries {
        let mut wanted = None;
        for &(backend, workers) in on {
            if trap && backend == Backend::INTERP {
                continue;
            }
            let session = Session::default();
            let options = CodeOptions { trap, ..CodeOptions::default() };
            let runner = Runner::with_options(module.clone(), backend, &options);
            let mut runner = runner.map_err(|failure| slang::text(&session, &failure))?;
            let mut printed = String::new();
            let outcome = slang::launch(file, &mut runner, &entry.name, workers, &mut printed);
            let is_stated = file.all("stdout").next().is_some();
            let stated = if is_stated { &printed[..] } else { "" };
            let found = match &outcome {
                Ok(()) => slang::buffers(&runner),
                Err(failure) => slang::places(&session, failure).join("\n"),
            };
            let name = |why: String| format!("{} on {backend:?} with {workers} workers: {why}", entry.name);
            slang::expect(file, &session, (outcome.map(|()| runner), stated)).map_err(name)?;
            let all = format!("{printed}{found}");
            match &wanted {
                None => wanted = Some(all),
                Some(wanted) if *wanted == all => {}
                Some(wanted) => return Err(name(format!("{all}\ninstead of\n{wanted}"))),
            }
        }
    }
    Ok(())
}
