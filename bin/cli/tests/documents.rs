//! Runs the documents of `tests/documents`, `README.md` and `docs/commands.md`: each has programs, commands, and what the commands print.
//!
//! A block whose language is followed by a name, as in "slang scale.slang", is a file of the folder where the
//! commands run. A block of the language `console` has commands, each with its output: standard output first,
//! then standard error. `trycmd` runs the commands, and explains their syntax, the wildcards `[..]` and `...`, and
//! `? 1` for the status. `sh -c '…'` gives a command redirections and pipes.
//!
//! `TRYCMD=overwrite cargo test -p pullback-cli --test documents NAME` writes into the documents whose name
//! contains NAME what their commands print. A comment `<!-- needs: llvm cc -->` names features of the build and
//! programs of the machine without which a document is ignored. A document with commands that have
//! `--backend BACKEND` runs on each backend of the processor. In a document with the comment `<!-- quiet errors -->`,
//! commands that fail must print nothing on standard output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use driver::launch::Backend;
use libtest_mimic::{Arguments, Failed, Trial};
use trycmd::schema::Bin;

const PULLBACK: &str = env!("CARGO_BIN_EXE_pullback");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The programs that documents may call.
const PROGRAMS: [&str; 5] = ["pullback", "sh", "cat", "ls", "cc"];

fn main() {
    let arguments = Arguments::from_args();
    let entries = std::fs::read_dir(FOLDER).expect("is there").flatten();
    let root = Path::new(ROOT);
    let mut paths: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    paths.extend([root.join("README.md"), root.join("docs/commands.md")]);
    paths.sort();
    let mut trials = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("is text");
        let name = path.file_stem().expect("has a name").to_string_lossy().into_owned();
        let document = Document::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let lacks = document.needs.iter().any(|need| !is_there(need));
        if text.contains("--backend BACKEND") {
            for backend in ["interp", "cranelift", "llvm", "tiers"] {
                let lacks = lacks || ["llvm", "tiers"].contains(&backend) && !has_llvm();
                let path = path.clone();
                let run = move || check(&path, Some(backend));
                trials.push(Trial::test(format!("{name}-{backend}"), run).with_ignored_flag(lacks));
            }
        } else {
            trials.push(Trial::test(name, move || check(&path, None)).with_ignored_flag(lacks));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The parts of a document that `trycmd` does not know.
#[derive(Default)]
struct Document {
    needs: Vec<String>,
    has_quiet_errors: bool,
    files: Vec<(String, String)>,
    commands: Vec<String>,
}

impl Document {
    fn parse(text: &str) -> Result<Document, String> {
        let mut document = Document::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(comment) = line.strip_prefix("<!-- ") {
                match comment.trim_end_matches(" -->").split_once(": ") {
                    Some(("needs", names)) => document.needs = names.split(' ').map(String::from).collect(),
                    None if comment == "quiet errors -->" => document.has_quiet_errors = true,
                    _ => return Err(format!("`{line}` is no directive")),
                }
            }
            let Some(info) = line.strip_prefix("```") else { continue };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            match info.split_once(' ') {
                Some((_, name)) => document.files.push((name.into(), block.join("\n") + "\n")),
                None if info == "console" => {
                    let commands = block.iter().filter_map(|line| line.strip_prefix("$ "));
                    document.commands.extend(commands.map(String::from));
                }
                None => return Err(format!("`{line}` is neither a file nor a list of commands")),
            }
        }
        let program = |command: &str| command.split(' ').find(|word| !word.contains('=')).map(String::from);
        let is_known = |command: &&String| program(command).is_some_and(|p| PROGRAMS.contains(&p.as_str()));
        match document.commands.iter().find(|command| !is_known(command)) {
            Some(command) => Err(format!("`{command}` calls no program of documents")),
            None => Ok(document),
        }
    }
}

/// Returns true if the build can use LLVM, and the machine has it.
fn has_llvm() -> bool {
    Backend::named("llvm").is_some_and(|backend| backend.find().is_ok())
}

/// Returns true if the build has a feature, or the machine a program.
fn is_there(need: &str) -> bool {
    match need {
        "gpu" => cfg!(feature = "gpu"),
        "llvm" => has_llvm(),
        "cuda" => cfg!(feature = "cuda"),
        "wasm" => cfg!(feature = "wasm"),
        // Only processors.
        "plain" => !Backend::ALL.iter().any(|backend| backend.is_device()),
        "no-cuda-device" => {
            let devices = Command::new(PULLBACK).arg("devices").output();
            devices.is_ok_and(|out| {
                !String::from_utf8_lossy(&out.stdout).lines().any(|line| line.starts_with("cuda:"))
            })
        }
        "linux" => cfg!(target_os = "linux"),
        "cc" => Command::new("cc").arg("--version").stdout(Stdio::null()).status().is_ok(),
        other => panic!("nothing is named `{other}`"),
    }
}

/// Runs a copy of a document, in a folder with its files, and takes over what `trycmd` has changed.
fn check(path: &Path, backend: Option<&str>) -> Result<(), Failed> {
    let (placeholder, option) = ("--backend BACKEND", format!("--backend {}", backend.unwrap_or("BACKEND")));
    let text = std::fs::read_to_string(path)?.replace(placeholder, &option);
    let document = Document::parse(&text)?;
    let name = format!("{}-{}", path.file_stem().expect("has a name").display(), backend.unwrap_or("all"));
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents").join(name).with_extension("md");
    let folder = copy.with_extension("in");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(&copy, &text)?;
    for (name, block) in &document.files {
        std::fs::write(folder.join(name), if block == "\n" { "" } else { block })?;
    }

    let own = Path::new(PULLBACK).parent().expect("is in a folder").to_path_buf();
    let folders: Vec<PathBuf> =
        std::iter::once(own).chain(std::env::split_paths(&std::env::var("PATH")?)).collect();
    let cases = trycmd::TestCases::new();
    cases.env("PATH", std::env::join_paths(&folders)?.to_string_lossy()).env("ROOT", ROOT);
    for name in PROGRAMS {
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        cases.register_bin(name, found.map_or(Bin::Ignore, Bin::Path));
    }
    cases.case(&copy).timeout(Duration::from_secs(300)).run();

    if document.has_quiet_errors {
        for command in document.commands.iter().filter(|command| !command.contains("--json")) {
            let command = command.replacen("pullback", PULLBACK, 1);
            let out = Command::new("sh").args(["-c", &command]).current_dir(&folder).output()?;
            if !out.status.success() && !out.stdout.is_empty() {
                return Err(
                    format!("{command} fails and prints {}", String::from_utf8_lossy(&out.stdout)).into()
                );
            }
        }
    }
    if std::env::var("TRYCMD").is_ok_and(|mode| mode == "overwrite")
        && backend.is_none_or(|b| b == "cranelift")
    {
        std::fs::write(path, std::fs::read_to_string(&copy)?.replace(&option, placeholder))?;
    }
    Ok(())
}
