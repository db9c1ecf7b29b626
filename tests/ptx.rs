//! Every kernel of tests/run as PTX: written, or refused with a reason; and `ptxas` accepts it where it is installed (on the
//! path, or named by `PULLBACK_PTXAS`).
#![cfg(feature = "llvm")]

use std::path::{Path, PathBuf};
use std::process::Command;

use driver::Request;
use driver::gpu::{Target, emit_compiled};
use driver::pipeline::{self, Failure, Options};
use driver::session::{FileOptions, Session};
use pullback_tests::file::{TestFile, discover};

/// What `ptxas` says of a text; `None` where it is not installed.
fn assemble(ptxas: &Path, text: &[u8]) -> Option<Result<(), String>> {
    let path = std::env::temp_dir().join(format!("pullback-{}.ptx", std::process::id()));
    std::fs::write(&path, text).expect("the text is written");
    let run = Command::new(ptxas).args(["-arch=sm_70", "-O0", "-o", "/dev/null"]).arg(&path).output();
    std::fs::remove_file(&path).expect("the text is removed");
    let output = run.ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

#[test]
fn kernels_are_accepted_or_refused() {
    let ptxas = std::env::var_os("PULLBACK_PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    let only = std::env::var("PULLBACK_ONLY").unwrap_or_default();
    let work = move || {
        let (mut written, mut accepted, mut refused, mut faults) = (0, 0, 0, Vec::new());
        for path in discover(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            let name = path.display().to_string();
            if !name.contains("/run/") || !name.ends_with(".slang") || !name.contains(&only) {
                continue;
            }
            let Ok(file) = TestFile::read(&path) else { continue };
            let mut session = Session::new(FileOptions::default());
            let Ok(mut loaded) = pipeline::load(&mut session, &path) else { continue };
            let entries = loaded.program.entry_points(loaded.file);
            if loaded.errors().is_err() || entries.is_empty() || file.all("error").next().is_some() {
                continue;
            }
            let request = Request { entries, ..Request::default() };
            let Ok(compiled) = loaded.compile(&request, &Options::default()) else { continue };
            match emit_compiled(&session.sources, &compiled, None, Target::Ptx) {
                Ok(text) => {
                    written += 1;
                    match assemble(&ptxas, &text) {
                        None => {}
                        Some(Ok(())) => accepted += 1,
                        Some(Err(why)) => faults.push(format!("{name}: {why}")),
                    }
                }
                Err(Failure::Program(list)) => {
                    refused += 1;
                    let why = list.first().map_or("", |d| d.message.as_str());
                    eprintln!("refused: {}: {why}", name.rsplit("/run/").next().unwrap_or_default());
                }
                Err(Failure::Other(error)) => faults.push(format!("{name}: {error}")),
            }
        }
        eprintln!("{written} written, {accepted} accepted by ptxas, {refused} refused");
        (written, faults)
    };
    let thread =
        std::thread::Builder::new().stack_size(512 << 20).spawn(work).expect("the system has a thread");
    let (written, faults) = thread.join().expect("no panic");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(written > 0 || std::env::var_os("PULLBACK_ONLY").is_some(), "nothing was written");
}
