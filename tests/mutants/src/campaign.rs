//! Builds a copy of the repository with faults in its passes, and runs the tests once for each fault.
//!
//! First, every case of every test runs without a fault, in a process of its own, which tells how long it takes and which
//! places it reaches. For a fault, the cases that reach its place run on all cores until one fails: first those that are
//! the most likely to fail for their time. What takes long is left until all faults have had their turn.
//! The fates of faults are written down, so a campaign that was stopped goes on where it was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_support::Random;

use crate::plant::{Fault, faults, planted};

/// The passes: folders, the name of the crate of the IR in their source.
const PASSES: [(&str, &str); 3] =
    [("crates/opt/src", "ir"), ("crates/autodiff/src", "ir"), ("crates/ir/src/transform", "crate")];

/// The root of the crate of the IR.
const LIBRARY: &str = "crates/ir/src/lib.rs";

/// The text that it has more in the copy.
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

/// The time that a fault has in the first round.
const FIRST_ROUND: Duration = Duration::from_secs(20);

/// The tests that run for each fault, each with the folder of its package. The name of a package stands for the tests beside
/// its code.
const TESTS: [(&str, &str); 19] = [
    ("crates/opt", "pullback_opt"),
    ("crates/opt", "calls"),
    ("crates/opt", "large"),
    ("crates/opt", "targets"),
    ("crates/autodiff", "pullback_autodiff"),
    ("crates/autodiff", "checkpoints"),
    ("crates/autodiff", "scale"),
    ("crates/driver", "profile"),
    ("crates/driver", "rounding_errors"),
    ("crates/pullback", "surface"),
    ("bin/cli", "codes"),
    ("tests", "filetest"),
    ("tests", "functions"),
    ("tests", "growth"),
    ("tests", "random"),
    ("tests", "singular"),
    ("tests", "validate"),
    ("tests", "levels"),
    ("tests", "sizes"),
];

/// A fault with its number and file.
struct Numbered {
    number: u32,
    file: PathBuf,
    fault: Fault,
}

impl Numbered {
    /// Its number, its line, and what is wrong there.
    fn place(&self) -> String {
        format!("{}. {}:{}: {}", self.number, self.file.display(), self.fault.line, self.fault.what)
    }
}

/// The outcome of a fault.
enum Fate {
    /// The test and the case of it that failed.
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
    let mut cases = cases(&tests)?;
    measure(&mut cases, tree, &tree.join(format!("cases-{state:016x}-{seed}.txt")))?;
    let mut known = Fates::open(&tree.join(format!("fates-{state:016x}-{seed}.txt")))?;
    let mut record = Record::default();
    for numbered in &chosen {
        if let Some(Fate::Found(name)) = known.of(&numbered.place())
            && let Some(case) = cases.iter().find(|case| case.name() == name)
        {
            record.note(&[case], Some(0), &numbered.file);
        }
    }
    let mut ran: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for round in [Some(FIRST_ROUND), None] {
        for numbered in &chosen {
            let place = numbered.place();
            if known.of(&place).is_some() {
                continue;
            }
            let ran = ran.entry(numbered.number).or_default();
            let mut reaching: Vec<&Case> = (cases.iter())
                .filter(|case| case.reached.contains(&numbered.number) && !ran.contains(&case.number))
                .collect();
            let n_left = reaching.len();
            reaching.retain(|case| round.is_none_or(|time| case.took < time));
            record.order(&mut reaching, &numbered.file);
            let until = round.map(|time| Instant::now() + time);
            let (begun, failing) = first_that_fails(&reaching, numbered.number, until)?;
            let is_last = begun == n_left;
            reaching.truncate(begun);
            record.note(&reaching, failing, &numbered.file);
            ran.extend(reaching.iter().map(|case| case.number));
            match failing {
                Some(at) => known.note(&place, &Fate::Found(reaching[at].name()))?,
                None if is_last => known.note(&place, &Fate::Survived)?,
                None => println!("later: {place}"),
            }
        }
    }
    let mut by_test: BTreeMap<String, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    for place in chosen.iter().map(Numbered::place) {
        match known.of(&place) {
            Some(Fate::Found(test)) => {
                let of = test.split_once(' ').map_or(test.as_str(), |parts| parts.0);
                *by_test.entry(of.to_string()).or_default() += 1;
            }
            _ => survivors.push(place),
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

/// Runs every case without a fault, and notes how long it takes and which places it reaches, unless the file says so to which
/// this is written.
fn measure(cases: &mut [Case<'_>], tree: &Path, file: &Path) -> Result<(), String> {
    let known = fs::read_to_string(file).unwrap_or_default();
    let known: BTreeMap<&str, &str> = known.lines().filter_map(|line| line.split_once('\t')).collect();
    let mut left = Vec::new();
    for case in &mut *cases {
        let Some((took, reached)) = known.get(&*case.name()).and_then(|known| known.split_once('\t')) else {
            left.push(case.number);
            continue;
        };
        case.took = Duration::from_millis(took.parse().unwrap_or(0));
        case.reached = reached.split(',').filter_map(|number| number.parse().ok()).collect();
    }
    if left.is_empty() {
        return Ok(());
    }
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let measured = on_all_cores(|| {
        let mut found = Vec::new();
        while let Some(&number) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            let case = &cases[number];
            let (start, report) = (Instant::now(), tree.join(format!("reached-{}.txt", case.number)));
            let _ = fs::remove_file(&report);
            if !case.passes(0, Duration::from_secs(3600), Some(&report), &AtomicBool::new(false))? {
                failed.lock().map_err(|e| e.to_string())?.push(case.name());
            }
            let took = start.elapsed();
            let numbers = fs::read_to_string(&report).unwrap_or_default();
            let _ = fs::remove_file(&report);
            found.push((case.number, took, numbers.lines().filter_map(|line| line.parse().ok()).collect()));
        }
        Ok(found)
    })?;
    let failed = failed.into_inner().map_err(|e| e.to_string())?;
    if !failed.is_empty() {
        return Err(format!("without a fault, these fail: {}", failed.join(", ")));
    }
    for (number, took, reached) in measured.into_iter().flatten() {
        (cases[number].took, cases[number].reached) = (took, reached);
    }
    println!("{} cases run in {:.0} s", left.len(), start.elapsed().as_secs_f64());
    let line = |case: &Case<'_>| {
        let reached: Vec<String> = case.reached.iter().map(u32::to_string).collect();
        format!("{}\t{}\t{}\n", case.name(), case.took.as_millis(), reached.join(","))
    };
    write(file, cases.iter().map(line).collect::<String>().as_bytes())
}

/// How often cases have run and failed, for all faults and for those of each file.
#[derive(Default)]
struct Record {
    of_case: BTreeMap<usize, (f64, f64)>,
    in_file: BTreeMap<(usize, PathBuf), (f64, f64)>,
}

impl Record {
    /// Puts those first that are the most likely to fail for their time. Faults of the same file count three times.
    fn order(&self, cases: &mut [&Case<'_>], file: &Path) {
        let rate = |case: &Case<'_>| {
            let (ran, failed) = self.of_case.get(&case.number).copied().unwrap_or_default();
            let (ran_here, failed_here) =
                self.in_file.get(&(case.number, file.to_path_buf())).copied().unwrap_or_default();
            let likely = (0.2 + failed + 3.0 * failed_here) / (1.0 + ran + 3.0 * ran_here);
            likely / (0.02 + case.took.as_secs_f64())
        };
        cases.sort_by_cached_key(|case| Reverse((rate(case) * 1e6) as u64));
    }

    /// Notes that the cases ran up to the one that failed.
    fn note(&mut self, cases: &[&Case<'_>], failing: Option<usize>, file: &Path) {
        let ran = failing.map_or(cases.len(), |at| at + 1);
        for (at, case) in cases.iter().enumerate().take(ran) {
            let failed = f64::from(u8::from(failing == Some(at)));
            let of_case = self.of_case.entry(case.number).or_default();
            let in_file = self.in_file.entry((case.number, file.to_path_buf())).or_default();
            for (ran, failures) in [of_case, in_file] {
                (*ran, *failures) = (*ran + 1.0, *failures + failed);
            }
        }
    }
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
        match fate {
            Fate::Found(test) => println!("found by {test}: {place}"),
            Fate::Survived => println!("SURVIVES: {place}"),
        }
        self.known.insert(place.to_string(), test.to_string());
        writeln!(self.file, "{place}\t{test}").map_err(|e| e.to_string())
    }
}

/// Copies the files that git knows, where they have changed, but for those that [`plant`] writes, and removes those that it
/// knows no more, which would be tests. Returns a number for the content of those that fates depend on.
fn copy(root: &Path, tree: &Path) -> Result<u64, String> {
    let mut state = DefaultHasher::new();
    let planted: BTreeSet<PathBuf> = sources(root).into_iter().map(|source| source.0).collect();
    let listed = Command::new("git").arg("ls-files").current_dir(root).output().map_err(|e| e.to_string())?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    for name in listed.lines() {
        let (from, to) = (root.join(name), tree.join(name));
        let Ok(bytes) = fs::read(&from) else { continue };
        if !name.starts_with("tests/mutants/") && !name.ends_with(".md") {
            (name, &bytes).hash(&mut state);
        }
        if !planted.contains(Path::new(name)) && name != LIBRARY {
            write(&to, &bytes)?;
        }
    }
    let known: BTreeSet<&str> = listed.lines().collect();
    let folders: BTreeSet<&str> = known.iter().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    let has_gone = |path: &PathBuf| {
        path.strip_prefix(tree).is_ok_and(|name| name.to_str().is_none_or(|name| !known.contains(name)))
    };
    for path in folders
        .iter()
        .flat_map(|folder| test_support::files(&tree.join(folder), &["ir", "slang", "rs"]))
        .filter(has_gone)
    {
        fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(state.finish())
}

/// Writes a file, unless it has this content: what has not changed is not built again.
fn write(to: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
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
        write(&tree.join(&file), text.as_bytes())?;
        let ranges = ranges.into_iter().map(|(n, r)| serde_json::json!([n, r.start, r.end])).collect();
        places.insert(file, Value::Array(ranges));
    }
    let text = fs::read_to_string(root.join(LIBRARY)).map_err(|e| e.to_string())? + SWITCH;
    write(&tree.join(LIBRARY), text.as_bytes())?;
    let places: serde_json::Map<String, Value> =
        places.into_iter().map(|(file, ranges)| (file.display().to_string(), ranges)).collect();
    write(&tree.join("faults.json"), Value::Object(places).to_string().as_bytes())
}

/// A test's executable.
struct Test {
    name: String,
    executable: PathBuf,
    folder: PathBuf,
}

impl Test {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).stderr(Stdio::null());
        command
    }
}

/// A case of a test.
struct Case<'t> {
    number: usize,
    test: &'t Test,
    what: String,
    /// The time that it takes without a fault.
    took: Duration,
    /// The faults whose places it reaches.
    reached: BTreeSet<u32>,
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.test.name, self.what)
    }

    /// Returns true if the case passes in time, or is stopped since another has failed. The numbers of the places that it
    /// reaches are written to `report`.
    fn passes(
        &self,
        fault: u32,
        limit: Duration,
        report: Option<&Path>,
        stopped: &AtomicBool,
    ) -> Result<bool, String> {
        let mut command = self.test.command();
        if let Some(report) = report {
            command.env("PULLBACK_REACHED", report);
        }
        let mut child = command
            .args(["--exact", &self.what])
            .env("PULLBACK_FAULT", fault.to_string())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| e.to_string())?;
        let start = Instant::now();
        loop {
            let is_stopped = stopped.load(Ordering::Relaxed);
            match child.try_wait().map_err(|e| e.to_string())? {
                Some(status) => return Ok(status.success()),
                None if start.elapsed() > limit || is_stopped => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok(is_stopped);
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

/// All cases of the tests, in the order of the tests.
fn cases(tests: &[Test]) -> Result<Vec<Case<'_>>, String> {
    let mut all = Vec::new();
    for test in tests {
        let listed = test.command().args(["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|e| format!("{}: {e}", test.name))?;
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let Some(what) = line.strip_suffix(": test") else { continue };
            let what = what.to_string();
            all.push(Case { number: all.len(), test, what, took: Duration::ZERO, reached: BTreeSet::new() });
        }
    }
    Ok(all)
}

/// Does the same on as many threads as there are cores.
fn on_all_cores<T: Send>(work: impl Fn() -> Result<T, String> + Sync) -> Result<Vec<T>, String> {
    let n = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n).map(|_| scope.spawn(&work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a thread has failed".to_string())?)
            .collect()
    })
}

/// The number of cases that have begun, in their order, and the place of one that fails with a fault, if one does. After a
/// time, none begins any more.
fn first_that_fails(
    cases: &[&Case<'_>],
    fault: u32,
    until: Option<Instant>,
) -> Result<(usize, Option<usize>), String> {
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let found = on_all_cores(|| {
        loop {
            if stopped.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() > until) {
                return Ok(None);
            }
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { return Ok(None) };
            if !case.passes(fault, case.took * 4 + Duration::from_secs(10), None, &stopped)? {
                stopped.store(true, Ordering::Relaxed);
                return Ok(Some(at));
            }
        }
    })?;
    Ok((next.into_inner().min(cases.len()), found.into_iter().flatten().next()))
}

/// Builds the tests; otherwise the numbers of the faults that are not valid.
fn build(tree: &Path) -> Result<Result<Vec<Test>, Vec<u32>>, String> {
    let mut messages: Vec<Value> = Vec::new();
    // As the tests of the workspace are built, so that the crates of others are built once.
    let is_lib = |name: &str| name.starts_with("pullback_");
    let packages = TESTS.iter().filter(|test| is_lib(test.1)).map(|test| test.1.replace('_', "-"));
    let beside: Vec<String> =
        packages.flat_map(|package| ["-p".into(), package]).chain(["--lib".into()]).collect();
    let mut apart: Vec<String> = ["--workspace", "--features", "all"].map(String::from).into();
    for (_, name) in TESTS.iter().filter(|test| !is_lib(test.1)) {
        apart.extend(["--test".into(), name.to_string()]);
    }
    for what in [beside, apart] {
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
    for (package, name) in TESTS {
        let folder = tree.join(package);
        let manifest = folder.join("Cargo.toml");
        let found = messages.iter().find(|message| {
            message["target"]["name"] == name
                && message["profile"]["test"] == true
                && message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest)
                && message["executable"].is_string()
        });
        let Some(found) = found else { return Err(format!("there is no test {name}")) };
        let executable = PathBuf::from(found["executable"].as_str().unwrap_or_default());
        tests.push(Test { name: name.to_string(), executable, folder });
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
