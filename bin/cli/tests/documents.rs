//! Runs the documents of `tests/documents` and the pages for readers (`README.md`, `docs`): each has programs, commands, and
//! what the commands print. Further tests check every page as a whole (`pages/rules.rs`).
//!
//! A block whose language is followed by a name, as in "slang scale.slang", is a file of the folder where the
//! commands run. A block of the language `console` has commands, each with its output: standard output first,
//! then standard error. `trycmd` runs the commands, and explains their syntax, the wildcards `[..]` and `...`, and
//! `? 1` for the status. `sh -c '…'` gives a command redirections and pipes. The commands of a block of the language
//! `sh` must succeed; they run after the others, and those that install something do not run.
//!
//! `TRYCMD=overwrite cargo test -p pullback-cli --test documents NAME` writes into the documents whose name
//! contains NAME what their commands print. A comment `<!-- needs: llvm cc -->` names features of the build and
//! programs of the machine without which a document is ignored, and `needs=llvm,cc` behind the language those without
//! which a block is. `<!-- copy: examples/a.png b.png -->` is a file of the repository that the folder has. A document with
//! commands that have `--backend BACKEND` runs on each backend of the processor. In a document with the comment
//! `<!-- quiet errors -->`, commands that fail must print nothing on standard output.

#[path = "pages/blocks.rs"]
mod blocks;
#[path = "pages/rules.rs"]
mod rules;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use blocks::{Block, Kind, ROOT, pages};
use driver::launch::Backend;
use libtest_mimic::{Arguments, Failed, Trial};
use trycmd::schema::Bin;

const PULLBACK: &str = env!("CARGO_BIN_EXE_pullback");
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents");

/// The programs that documents may call.
const PROGRAMS: [&str; 6] = ["pullback", "sh", "cat", "ls", "cc", "node"];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("pages: every block is run", || all_is_well(rules::every_block_is_run())),
        Trial::test("pages: every link leads somewhere", || all_is_well(rules::every_link_leads_somewhere())),
        Trial::test("pages: pictures are small and shown", || {
            all_is_well(rules::pictures_are_small_and_shown())
        }),
        Trial::test("pages: the rules find faults", || all_is_well(rules::the_rules_find_faults())),
        Trial::test("pages: the contents name every page", || {
            all_is_well(rules::the_contents_name_every_page())
        }),
    ];
    let entries = std::fs::read_dir(FOLDER).expect("is there").flatten();
    let mut paths: Vec<(String, PathBuf)> = entries
        .map(|entry| {
            (entry.path().file_stem().expect("has a name").to_string_lossy().into_owned(), entry.path())
        })
        .collect();
    // The commands of the gallery's pages run in the repository: see `gallery`.
    let pages = pages().into_iter().filter(|page| !page.starts_with("docs/gallery/"));
    paths.extend(pages.map(|page| (page.trim_end_matches(".md").into(), Path::new(ROOT).join(page))));
    paths.sort();
    for (name, path) in paths {
        let text = std::fs::read_to_string(&path).expect("is text");
        // What is wrong with a block is reported by the rules for pages.
        let document = Document::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        if document.commands.is_empty() && document.scripts.is_empty() {
            continue;
        }
        let lacks = document.needs.iter().any(|need| !is_there(need));
        if text.contains("--backend BACKEND") {
            for backend in ["interp", "cranelift", "llvm", "tiers"] {
                let lacks = lacks || ["llvm", "tiers"].contains(&backend) && !has_llvm();
                let (own, path) = (format!("{name}-{backend}"), path.clone());
                let run = move || check(&own, &path, Some(backend));
                trials.push(Trial::test(format!("{name}-{backend}"), run).with_ignored_flag(lacks));
            }
        } else {
            let own = name.clone();
            trials.push(Trial::test(name, move || check(&own, &path, None)).with_ignored_flag(lacks));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn all_is_well(faults: Vec<String>) -> Result<(), Failed> {
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

/// The parts of a document that `trycmd` does not know.
#[derive(Default)]
struct Document {
    needs: Vec<String>,
    has_quiet_errors: bool,
    files: Vec<(String, String)>,
    /// Files of the repository, and their names in the folder.
    copies: Vec<(String, String)>,
    commands: Vec<String>,
    scripts: Vec<String>,
}

impl Document {
    fn parse(text: &str) -> Result<Document, String> {
        let mut document = Document::default();
        for (_, line) in blocks::prose(text) {
            let Some(comment) = line.strip_prefix("<!-- ") else { continue };
            match comment.trim_end_matches(" -->").split_once(": ") {
                Some(("needs", names)) => document.needs = names.split(' ').map(String::from).collect(),
                Some(("copy", names)) => {
                    let (from, to) = names.split_once(' ').ok_or("`copy` takes two names")?;
                    document.copies.push((from.into(), to.into()));
                }
                None if comment == "quiet errors -->" => document.has_quiet_errors = true,
                _ => return Err(format!("`{line}` is no directive")),
            }
        }
        for block in blocks::blocks(text) {
            match block.kind()? {
                Kind::File(name) => document.files.push((name.into(), block.text.clone())),
                Kind::Console if is_run(&block) => {
                    let commands = block.text.lines().filter_map(|line| line.strip_prefix("$ "));
                    document.commands.extend(commands.map(String::from));
                }
                Kind::Shell if is_run(&block) => document.scripts.push(block.script()),
                Kind::Console | Kind::Shell => {}
                Kind::Rust | Kind::Python | Kind::Ir | Kind::Text | Kind::Theirs => {}
            }
        }
        document.scripts.retain(|script| !script.is_empty());
        let program = |command: &str| command.split(' ').find(|word| !word.contains('=')).map(String::from);
        let is_known = |command: &&String| program(command).is_some_and(|p| PROGRAMS.contains(&p.as_str()));
        match document.commands.iter().find(|command| !is_known(command)) {
            Some(command) => Err(format!("`{command}` calls no program of documents")),
            None => Ok(document),
        }
    }
}

/// Returns true if nothing is missing that a block needs.
fn is_run(block: &Block) -> bool {
    block.needs().all(is_there)
}

/// Replaces the first lines of blocks: those that `trycmd` runs are `console`, and those that it does not run `text`.
fn for_trycmd(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut lines: Vec<String> = lines.into_iter().map(String::from).collect();
    for block in blocks::blocks(text).iter().filter(|block| block.language == "console") {
        lines[block.line - 1] = if is_run(block) { "```console" } else { "```text" }.into();
    }
    lines.join("\n")
}

/// Puts the first lines of blocks of a text in place of those of what `for_trycmd` made of it.
fn from_trycmd(changed: &str, text: &str) -> String {
    let mut lines: Vec<String> = changed.split('\n').map(String::from).collect();
    for (now, before) in blocks::blocks(changed).iter().zip(blocks::blocks(text)) {
        let words: Vec<String> = std::iter::once(before.language).chain(before.words).collect();
        lines[now.line - 1] = format!("```{}", words.join(" "));
    }
    lines.join("\n")
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
        "wasmi" => cfg!(feature = "wasmi"),
        // Only processors.
        "plain" => !Backend::ALL.iter().any(|backend| backend.is_device()) && !cfg!(feature = "wasmi"),
        "no-cuda-device" => !has_device("cuda"),
        "linux" => cfg!(target_os = "linux"),
        "wgpu-device" => has_device("wgpu"),
        "cuda-device" => has_device("cuda"),
        "cc" | "node" => Command::new(need).arg("--version").stdout(Stdio::null()).status().is_ok(),
        other => panic!("nothing is named `{other}`"),
    }
}

/// Returns true if a backend has a device of this machine.
fn has_device(backend: &str) -> bool {
    let devices = Command::new(PULLBACK).arg("devices").output();
    let is_named = |line: &str| line.starts_with(&format!("{backend}:"));
    devices.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).lines().any(is_named))
}

/// Runs a copy of a document, in a folder with its files, and takes over what `trycmd` has changed.
fn check(name: &str, path: &Path, backend: Option<&str>) -> Result<(), Failed> {
    let (placeholder, option) = ("--backend BACKEND", format!("--backend {}", backend.unwrap_or("BACKEND")));
    let text = std::fs::read_to_string(path)?.replace(placeholder, &option);
    let document = Document::parse(&text)?;
    let name = format!("{}.md", name.replace('/', "-"));
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents").join(name);
    let folder = copy.with_extension("in");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(&copy, for_trycmd(&text))?;
    for (name, block) in &document.files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("is in a folder"))?;
        std::fs::write(file, if block == "\n" { "" } else { block })?;
    }
    for (from, to) in &document.copies {
        let file = folder.join(to);
        std::fs::create_dir_all(file.parent().expect("is in a folder"))?;
        std::fs::copy(Path::new(ROOT).join(from), file)?;
    }

    let own = Path::new(PULLBACK).parent().expect("is in a folder").to_path_buf();
    let folders: Vec<PathBuf> =
        std::iter::once(own).chain(std::env::split_paths(&std::env::var("PATH")?)).collect();
    // What is printed once for each user has been printed for this one.
    let cache = folder.with_extension("cache");
    let _ = std::fs::remove_dir_all(&cache);
    std::fs::create_dir_all(&cache)?;
    std::fs::write(cache.join("advice-llvm"), "")?;
    let cases = trycmd::TestCases::new();
    cases.env("PATH", std::env::join_paths(&folders)?.to_string_lossy()).env("ROOT", ROOT);
    if !text.contains("PULLBACK_CACHE") {
        cases.env("PULLBACK_CACHE", cache.to_string_lossy());
    }
    for name in PROGRAMS {
        let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        cases.register_bin(name, found.map_or(Bin::Ignore, Bin::Path));
    }
    cases.case(&copy).timeout(Duration::from_secs(300)).run();
    for script in &document.scripts {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", script]).current_dir(&folder).env("PATH", std::env::join_paths(&folders)?);
        let out = command.stdin(Stdio::null()).output()?;
        if !out.status.success() {
            return Err(format!("{script}{}", String::from_utf8_lossy(&out.stderr)).into());
        }
    }

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
        let changed = from_trycmd(&std::fs::read_to_string(&copy)?, &text);
        std::fs::write(path, changed.replace(&option, placeholder))?;
    }
    Ok(())
}
