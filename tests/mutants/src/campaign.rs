//! Builds a copy of the repository with faults in its passes, and runs the tests once for each fault.
//!
//! A test ends at its first failure, and does not run for a fault whose place it does not reach. The fates of faults are
//! written down, so a campaign that was stopped goes on where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::Random;

use crate::plant::{Fault, faults, planted};

/// The passes: folders, the name of the crate of the IR in their source.
const PASSES: [(&str, &str); 3] =
    [("crates/opt/src", "ir"), ("crates/autodiff/src", "ir"), ("crates/ir/src/transform", "crate")];

/// The addition to the crate of the IR in the copy.
const SWITCH: &str = r#"
/// Returns true if the fault with this number is asked for. Numbers that are reached are written to a file, if one is named.
pub fn planted(number: u32) -> bool {
    use std::sync::atomic::{AtomicBool, Ordering};
    static ASKED: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    static REPORT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    static SEEN: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    if let Some(path) = REPORT.get_or_init(|| std::env::var("PULLBACK_REACHED").ok())
        && !SEEN[number as usize % SEEN.len()].swap(true, Ordering::Relaxed)
    {
        use std::io::Write;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
    }
    let asked = || std::env::var("PULLBACK_FAULT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    *ASKED.get_or_init(asked) == number
}
"#;

/// The tests that run for each fault, and their arguments. The first that fails ends it, so the quick ones are first. The
/// name of a crate stands for the tests beside its code.
const TESTS: [(&str, &[&str]); 10] = [
    ("pullback_opt", &[]),
    ("pullback_autodiff", &[]),
    ("filetest", &["opt/"]),
    ("filetest", &["autodiff/"]),
    ("filetest", &[]),
    ("functions", &[]),
    ("random", &[]),
    ("singular", &[]),
    ("validate", &[]),
    ("levels", &[]),
];

/// How these are built: as the tests of the workspace are, so that the crates of others are built once.
const BUILDS: [&[&str]; 2] = [
    &["-p", "pullback-opt", "-p", "pullback-autodiff", "--lib"],
    &[
        "--workspace",
        "--features",
        "all",
        "--test",
        "filetest",
        "--test",
        "functions",
        "--test",
        "random",
        "--test",
        "singular",
        "--test",
        "validate",
        "--test",
        "levels",
    ],
];

/// A fault with its number and file.
struct Numbered {
    number: u32,
    file: PathBuf,
    fault: Fault,
}

/// The outcome of a fault.
enum Fate {
    /// The test that failed.
    Found(String),
    Survived,
}

/// Runs a campaign of so many faults.
pub(crate) fn run(root: &Path, tree: &Path, most: usize, seed: u64) -> Result<(), String> {
    let state = copy(root, tree)?;
    let mut chosen = choose(root, most, seed)?;
    let tests = loop {
        plant(root, tree, &chosen)?;
        match build(tree)? {
            Ok(tests) => break tests,
            Err(wrong) => {
                // Faults that the compiler of Rust refuses are none.
                let before = chosen.len();
                chosen.retain(|n| !wrong.contains(&n.number));
                if chosen.len() == before {
                    return Err("the copy cannot be built".into());
                }
            }
        }
    };
    println!("{} faults are planted", chosen.len());
    let (mut limits, mut reached) = (Vec::new(), Vec::new());
    for test in &tests {
        let (start, report) = (Instant::now(), tree.join("reached.txt"));
        let _ = fs::remove_file(&report);
        if !passes(test, 0, Duration::from_secs(3600), Some(&report))? {
            return Err(format!("{} fails without a fault", test.name));
        }
        let (took, numbers) = (start.elapsed(), fs::read_to_string(&report).unwrap_or_default());
        let numbers: BTreeSet<u32> = numbers.lines().filter_map(|line| line.parse().ok()).collect();
        println!("{} reaches {} of them in {:.0} s", test.name, numbers.len(), took.as_secs_f64());
        limits.push(took * 4 + Duration::from_secs(10));
        reached.push(numbers);
    }
    let mut known = Fates::open(&tree.join(format!("fates-{state:016x}-{seed}.txt")))?;
    let mut by_test: BTreeMap<String, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    for numbered in &chosen {
        let place = format!("{}:{}: {}", numbered.file.display(), numbered.fault.line, numbered.fault.what);
        let mut fate = known.of(&place);
        if fate.is_none() {
            let all = tests.iter().zip(&limits).zip(&reached);
            let mut found = Fate::Survived;
            for ((test, &limit), _) in all.filter(|(_, reached)| reached.contains(&numbered.number)) {
                if !passes(test, numbered.number, limit, None)? {
                    found = Fate::Found(test.name.clone());
                    break;
                }
            }
            known.note(&place, &found)?;
            fate = Some(found);
        }
        match fate.unwrap_or(Fate::Survived) {
            Fate::Found(test) => {
                println!("found by {test}: {place}");
                *by_test.entry(test).or_default() += 1;
            }
            Fate::Survived => {
                println!("SURVIVES: {place}");
                survivors.push(place);
            }
        }
    }
    let n = chosen.len();
    println!(
        "\n{} of {n} faults found ({:.1} %)",
        n - survivors.len(),
        100.0 * (n - survivors.len()) as f64 / n.max(1) as f64
    );
    by_test.iter().for_each(|(test, n)| println!("  {n:4} by {test}"));
    survivors.iter().for_each(|place| println!("  survives: {place}"));
    Ok(())
}

/// The fates that were found by now, in a file.
struct Fates {
    file: fs::File,
    known: BTreeMap<String, String>,
}

impl Fates {
    fn open(path: &Path) -> Result<Fates, String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let known = text.lines().filter_map(|line| line.split_once('\t'));
        let known = known.map(|(place, test)| (place.to_string(), test.to_string())).collect();
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        Ok(Fates { file: file.map_err(|e| format!("{}: {e}", path.display()))?, known })
    }

    fn of(&self, place: &str) -> Option<Fate> {
        let test = self.known.get(place)?;
        Some(if test.is_empty() { Fate::Survived } else { Fate::Found(test.clone()) })
    }

    fn note(&mut self, place: &str, fate: &Fate) -> Result<(), String> {
        let test = if let Fate::Found(test) = fate { test.as_str() } else { "" };
        writeln!(self.file, "{place}\t{test}").map_err(|e| e.to_string())
    }
}

/// Copies the files that git knows, where they have changed. Returns a number for their content.
fn copy(root: &Path, tree: &Path) -> Result<u64, String> {
    let mut state = DefaultHasher::new();
    let listed = Command::new("git").arg("ls-files").current_dir(root).output().map_err(|e| e.to_string())?;
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        let (from, to) = (root.join(name), tree.join(name));
        let Ok(bytes) = fs::read(&from) else { continue };
        (name, &bytes).hash(&mut state);
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        write(&to, &bytes)?;
    }
    Ok(state.finish())
}

fn write(to: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = to.parent().expect("a file is in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(to, bytes))
        .map_err(|e| format!("{}: {e}", to.display()))
}

/// The source files of the passes, with the name of the crate of the IR in them.
fn sources(root: &Path) -> Vec<(PathBuf, &'static str)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                found.push(path);
            }
        }
    }
    let mut all = Vec::new();
    for (folder, ir) in PASSES {
        let mut found = Vec::new();
        walk(&root.join(folder), &mut found);
        found.sort();
        all.extend(found.into_iter().map(|p| (p.strip_prefix(root).expect("is below").to_path_buf(), ir)));
    }
    all
}

/// Chooses faults at random.
fn choose(root: &Path, most: usize, seed: u64) -> Result<Vec<Numbered>, String> {
    let mut all = Vec::new();
    for (file, _) in sources(root) {
        let text = fs::read_to_string(root.join(&file)).map_err(|e| e.to_string())?;
        let found = faults(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        all.extend(found.into_iter().map(|fault| (file.clone(), fault)));
    }
    println!("{} places", all.len());
    let mut random = Random(seed);
    while all.len() > most {
        all.swap_remove(random.below(all.len()));
    }
    all.sort_by(|a, b| (&a.0, a.1.line).cmp(&(&b.0, b.1.line)));
    Ok((1..).zip(all).map(|(number, (file, fault))| Numbered { number, file, fault }).collect())
}

/// Writes the passes with faults into the copy, with a list of what belongs to which fault beside it.
fn plant(root: &Path, tree: &Path, chosen: &[Numbered]) -> Result<(), String> {
    let mut places: BTreeMap<PathBuf, Value> = BTreeMap::new();
    for (file, ir) in sources(root) {
        let text = fs::read_to_string(root.join(&file)).map_err(|e| e.to_string())?;
        let own: Vec<(u32, &Fault)> =
            chosen.iter().filter(|n| n.file == file).map(|n| (n.number, &n.fault)).collect();
        let (text, ranges) = planted(&text, &own, ir);
        if fs::read_to_string(tree.join(&file)).is_ok_and(|old| old != text) {
            write(&tree.join(&file), text.as_bytes())?;
        }
        let ranges = ranges.into_iter().map(|(n, r)| serde_json::json!([n, r.start, r.end])).collect();
        places.insert(file, Value::Array(ranges));
    }
    let lib = PathBuf::from("crates/ir/src/lib.rs");
    let text = fs::read_to_string(root.join(&lib)).map_err(|e| e.to_string())? + SWITCH;
    write(&tree.join(&lib), text.as_bytes())?;
    let places: serde_json::Map<String, Value> =
        places.into_iter().map(|(file, ranges)| (file.display().to_string(), ranges)).collect();
    write(&tree.join("faults.json"), Value::Object(places).to_string().as_bytes())
}

/// A test to run.
struct Test {
    name: String,
    executable: PathBuf,
    folder: PathBuf,
    arguments: &'static [&'static str],
}

/// Builds the tests; otherwise the numbers of the faults that are not valid.
fn build(tree: &Path) -> Result<Result<Vec<Test>, Vec<u32>>, String> {
    let mut messages: Vec<Value> = Vec::new();
    for what in BUILDS {
        let out = Command::new("cargo")
            .args(["test", "--no-run", "--no-fail-fast", "--message-format", "json"])
            .args(what)
            .current_dir(tree)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| e.to_string())?;
        let text = String::from_utf8_lossy(&out.stdout);
        messages.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        if !out.status.success() {
            return Ok(Err(refused(tree, &messages)?));
        }
    }
    let mut tests = Vec::new();
    for (name, arguments) in TESTS {
        let found = messages.iter().find(|message| {
            message["target"]["name"] == name
                && message["profile"]["test"] == true
                && message["executable"].is_string()
        });
        let Some(found) = found else { return Err(format!("there is no test {name}")) };
        let manifest = PathBuf::from(found["manifest_path"].as_str().unwrap_or_default());
        let filter = arguments.first().map(|a| format!(" {a}")).unwrap_or_default();
        tests.push(Test {
            name: format!("{name}{filter}"),
            executable: PathBuf::from(found["executable"].as_str().unwrap_or_default()),
            folder: manifest.parent().unwrap_or(tree).to_path_buf(),
            arguments,
        });
    }
    Ok(Ok(tests))
}

/// The faults at the places of the errors among the compiler's messages.
fn refused(tree: &Path, messages: &[Value]) -> Result<Vec<u32>, String> {
    let text = fs::read_to_string(tree.join("faults.json")).map_err(|e| e.to_string())?;
    let places: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let mut wrong = Vec::new();
    for message in messages.iter().filter(|m| m["message"]["level"] == "error") {
        for span in message["message"]["spans"].as_array().into_iter().flatten() {
            let file = span["file_name"].as_str().unwrap_or_default();
            let Some(at) = span["byte_start"].as_u64() else { continue };
            for place in places[file].as_array().into_iter().flatten() {
                let number = |k: usize| place[k].as_u64().unwrap_or(0);
                if (number(1)..number(2)).contains(&at) {
                    wrong.push(number(0) as u32);
                }
            }
        }
    }
    Ok(wrong)
}

/// Returns true if a test passes in time. It ends at the first failure that it prints. The numbers of the places that it
/// reaches are written to `report`.
fn passes(test: &Test, fault: u32, limit: Duration, report: Option<&Path>) -> Result<bool, String> {
    let mut command = Command::new(&test.executable);
    if let Some(report) = report {
        command.env("PULLBACK_REACHED", report);
    }
    let mut child = command
        .args(test.arguments)
        .current_dir(&test.folder)
        .env("CARGO_MANIFEST_DIR", &test.folder)
        .env("PULLBACK_FAULT", fault.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let failed = Arc::new(AtomicBool::new(false));
    if let Some(out) = child.stdout.take() {
        let failed = Arc::clone(&failed);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if line.starts_with("test ") && line.ends_with("FAILED") {
                    failed.store(true, Ordering::Relaxed);
                }
            }
        });
    }
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => return Ok(status.success()),
            None if start.elapsed() > limit || failed.load(Ordering::Relaxed) => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(false);
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
