//! Every command in every bad situation: files that are missing, damaged, of another format or not to be read or written;
//! full disks; readers that go away; outputs that would replace inputs; memory that is not there.
//!
//! In each, the status is 1 or 2, there is one message, which names the file or the option, nothing panics, and the files
//! that were there stay as they were. A `#` in arguments stands for what is bad.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 i : SV_DispatchThreadID) { o[i.x] = i.x + 1; }
[Differentiable] float f(float x) { return x * x; }
[Differentiable] float loss(float a, no_diff float x, no_diff float y) { return (a * x - y) * (a * x - y); }
float off(float a, float x, float y) { return abs(a * x - y); }
float render(float a, float x) { return a * x; }
";

/// Commands that read a program `#`, with what makes them succeed with a good one.
const COMMANDS: [&str; 13] = [
    "run # --bind o=zeros:4",
    "check # --json",
    "emit #",
    "emit # --target wgsl",
    "explain # f",
    "derive # f",
    "grad # f --at x=1",
    "gradcheck # f --points 1",
    "verify # f --points 1 --backend interp",
    "fit # --items @good.csv --steps 3 --quiet --out out",
    "bench # f --seconds 0 --count 1",
    "build # f -o made.o",
    "fmt # --stdout",
];

/// Commands that write a file `#`.
const WRITERS: [&str; 9] = [
    "run k.slang --bind o=zeros:4 --out o=@#",
    "emit k.slang -o #",
    "build k.slang -o made.o --header #",
    "build k.slang -o made.o --rust #",
    "fit k.slang --items @good.csv --steps 3 --quiet --out out --predict #",
    "fit k.slang --items @good.csv --steps 3 --quiet --out out --log #",
    "fit k.slang --items @good.csv --steps 3 --quiet --out out --checkpoint #",
    "fit k.slang --items @good.csv --steps 3 --quiet --out out --optimizer lbfgs --checkpoint #",
    "bench k.slang f --seconds 0.01 --profile #",
];

/// A command of a feature that this build lacks.
fn is_absent(command: &str) -> bool {
    let needs = |feature: bool, word: &str| !feature && command.split(' ').any(|w| w == word);
    needs(cfg!(feature = "llvm"), "build") || needs(cfg!(feature = "gpu"), "--target")
}

fn commands(all: &'static [&str]) -> impl Iterator<Item = &'static str> {
    all.iter().copied().filter(|command| !is_absent(command))
}

/// A folder with a program and data.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("pullback-bad-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("folder")).expect("a folder for temporary files");
        let folder = Folder(folder);
        folder.write("k.slang", PROGRAM);
        folder.write("good.csv", "x,y\n1,2\n2,4\n");
        folder
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), bytes).expect("the folder is writable");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).expect("it is there")
    }

    /// Runs the program; `bad` replaces the `#`.
    fn run(&self, command: &str, bad: &str) -> Out {
        self.of(Command::new(env!("CARGO_BIN_EXE_pullback")).args(words(command, bad)))
    }

    /// Runs a script, in which `$@` is the command.
    fn script(&self, script: &str, command: &str) -> Out {
        let mut sh = Command::new("sh");
        let text = format!("pullback() {{ '{}' \"$@\"; }}\n{script}", env!("CARGO_BIN_EXE_pullback"));
        self.of(sh.args(["-c", &text, "sh"]).args(words(command, "k.slang")))
    }

    fn of(&self, command: &mut Command) -> Out {
        let shown = format!("{command:?}");
        let output = command.current_dir(&self.0).stdin(Stdio::null()).output().expect("it starts");
        Out::new(shown, output)
    }

    /// The files, but those of `out`, which commands may write.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                match path.is_dir() {
                    true if path.ends_with("out") => {}
                    true => folders.push(path),
                    false => _ = found.insert(path.clone(), std::fs::read(&path).unwrap_or_default()),
                }
            }
        }
        found
    }

    /// Does something that must change no file and leave none behind but those of these names.
    fn unharmed(&self, made: &[&str], act: impl FnOnce() -> Out) -> Out {
        let before = self.files();
        let out = act();
        let mut after = self.files();
        for name in made.iter().filter(|name| !before.contains_key(&self.0.join(name))) {
            after.remove(&self.0.join(name));
        }
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "{out:?}");
        assert!(before == after, "a file has changed: {out:?}");
        out
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn words(command: &str, bad: &str) -> Vec<String> {
    command.split(' ').map(|word| word.replace('#', bad)).collect()
}

/// The output of a command.
#[derive(Debug)]
struct Out {
    #[expect(dead_code, reason = "shown where a test fails")]
    command: String,
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Out {
    fn new(command: String, output: Output) -> Out {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = Out {
            command,
            status: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        // Whatever happens, it is the program that ends, by itself.
        assert!(matches!(out.status, Some(0..=2)), "{out:?}");
        for word in ["panicked", "internal compiler error", "RUST_BACKTRACE", "Broken pipe", "os error"] {
            assert!(!out.stderr.contains(word) && !out.stdout.contains(word), "`{word}`: {out:?}");
        }
        out
    }

    fn errors(&self) -> usize {
        self.stderr.lines().filter(|line| line.starts_with("error")).count()
    }

    /// It failed, and said why in one message, with one of these words.
    fn refused(&self, words: &[&str]) {
        assert!(matches!(self.status, Some(1 | 2)), "{self:?}");
        assert_eq!(self.errors(), 1, "{self:?}");
        assert!(words.iter().any(|word| self.stderr.contains(word)), "{words:?}: {self:?}");
    }

    fn succeeded(&self) {
        assert!(self.status == Some(0) && self.errors() == 0, "{self:?}");
    }
}

#[test]
fn good_input_is_taken() {
    let folder = Folder::new("good");
    for command in commands(&COMMANDS) {
        folder.run(command, "k.slang").succeeded();
    }
    for (k, command) in commands(&WRITERS).enumerate() {
        let name = format!("out/{k}.{}", if command.starts_with("bench") { "html" } else { "npy" });
        folder.run(command, &name).succeeded();
        assert!(folder.0.join(&name).is_file(), "{command}");
    }
}

#[test]
fn programs_that_are_none() {
    let folder = Folder::new("programs");
    folder.run("run k.slang --bind o=zeros:4 --groups 4 --out o=@array.npy", "").succeeded();
    folder.write("bytes", b"\x93\xff\x00\x01rubbish\xfe".repeat(100));
    folder.write("half", &PROGRAM[..200]);
    folder.write("utf16", b"\xff\xfef\x00l");
    for command in commands(&COMMANDS) {
        for bad in ["missing.slang", "folder", "k.slang/k.slang", "missing/k.slang"] {
            // All files of a folder are formatted.
            if command.starts_with("fmt") && bad == "folder" {
                continue;
            }
            folder.unharmed(&[], || folder.run(command, bad)).refused(&[&format!("`{bad}`")]);
        }
        for bad in ["bytes", "array.npy", "good.csv", "half", "utf16"] {
            let out = folder.unharmed(&[], || folder.run(command, bad));
            // A formatter changes no token, so it takes any text; `emit` needs neither functions nor kernels.
            assert!(out.status != Some(0) || command.starts_with("fmt"), "{out:?}");
            assert!(out.status == Some(0) || out.errors() > 0, "{out:?}");
        }
    }
}

#[test]
fn names_that_nothing_has() {
    let folder = Folder::new("names");
    for (command, word) in [
        ("run k.slang --entry nothing --bind o=zeros:4", "`nothing`"),
        ("run k.slang --bind nothing=zeros:4", "`nothing`"),
        ("run k.slang --bind o=zeros:4 --out nothing", "`--out nothing`"),
        ("run k.slang --bind o=@nothing.npy", "`nothing.npy`"),
        ("run k.slang --bind o=zeros:4 --backend nothing", "--backend"),
        ("run k.slang --bind o=zeros:4 --conform Nothing:Nothing", "Nothing"),
        ("emit k.slang --entry nothing", "`nothing`"),
        ("emit k.slang --stage nothing", "--stage"),
        ("emit k.slang --target nothing", "--target"),
        ("explain k.slang nothing", "`nothing`"),
        ("derive k.slang nothing", "`nothing`"),
        ("grad k.slang nothing", "`nothing`"),
        ("grad k.slang f --at nothing=1", "nothing"),
        ("grad k.slang f --at @nothing.json", "`nothing.json`"),
        ("grad k.slang f --at @good.csv", "good.csv"),
        ("gradcheck k.slang nothing", "`nothing`"),
        ("gradcheck k.slang f --range nothing=0,1", "nothing"),
        ("verify k.slang nothing", "`nothing`"),
        ("verify k.slang --range nothing=0,1", "`nothing`"),
        ("bench k.slang nothing", "`nothing`"),
        ("bench k.slang --entry nothing", "`nothing`"),
        ("build k.slang nothing -o made.o", "`nothing`"),
        ("build k.slang -o made.txt", "made.txt"),
        ("fit k.slang --loss nothing --items 3", "`nothing`"),
        ("fit k.slang --items @nothing.csv", "`nothing.csv`"),
        ("fit k.slang --items @k.slang", "k.slang"),
        ("fit k.slang --items image:nothing.png", "`nothing.png`"),
        ("fit k.slang --items images:good.csv", "`image`"),
        ("fit k.slang --items @good.csv --metric nothing", "`nothing`"),
        ("fit k.slang --items @good.csv --render nothing", "`nothing`"),
        ("fit k.slang --items @good.csv --param nothing=1", "nothing"),
        ("fit k.slang --items @good.csv --param a=nothing", "nothing"),
        ("fit k.slang --items @good.csv --param a=@nothing.npy", "`nothing.npy`"),
        ("fit k.slang --items @good.csv --param @nothing.json", "`nothing.json`"),
        ("fit k.slang --items @good.csv --fix nothing", "nothing"),
        ("fit k.slang --items @good.csv --bounds nothing=1", "nothing"),
        ("fit k.slang --items @good.csv --optimizer nothing", "--optimizer"),
        ("completions nothing", "nothing"),
        ("nothing k.slang", "nothing"),
        ("run k.slang --nothing", "--nothing"),
    ] {
        if !is_absent(command) {
            folder.unharmed(&[], || folder.run(command, "")).refused(&[word]);
        }
    }
}

#[test]
fn flags_that_contradict_each_other_or_the_world() {
    let folder = Folder::new("flags");
    let fit = "fit k.slang --items @good.csv --steps 3 --quiet --out out";
    for (command, word) in [
        ("run k.slang --bind o=zeros:1 --bind o=zeros:2".to_string(), "`o` is bound twice"),
        ("run k.slang --bind o=zeros:1 -D A=1 -D A=2".to_string(), "`-D A=2`"),
        ("run k.slang --bind o=zeros:1 --out o=@a.npy --out o=@a.npy".to_string(), "a.npy"),
        ("build k.slang -o made.o --header made.o".to_string(), "made.o"),
        ("grad k.slang f --at x=1 --at x=2".to_string(), "`--at x` is given twice"),
        ("gradcheck k.slang f --points 4294967295".to_string(), "--points"),
        (format!("{fit} --param a=1 --param a=2"), "`--param a` is given twice"),
        (format!("{fit} --rate 1 --rate 2"), "`--rate` is given twice"),
        (format!("{fit} --bounds a=1 --bounds a=,2"), "`--bounds a` is given twice"),
        (format!("{fit} --fix a --fix a"), "`--fix a` is given twice"),
        (format!("{fit} --metric off --metric off"), "`--metric off` is given twice"),
        (format!("{fit} --log a.csv --predict ./a.csv"), "a.csv"),
        (format!("{fit} --log a.csv --checkpoint out/../a.csv"), "a.csv"),
        (format!("{fit} --accumulate 99999999999999"), "99999999999999 batches"),
        (format!("{fit} --watch 99999"), "--watch"),
        ("bench k.slang --count 4294967295".to_string(), "--count"),
    ] {
        if !is_absent(&command) {
            folder.unharmed(&[], || folder.run(&command, "")).refused(&[word]);
        }
    }
    for allowed in ["--warm-up 18446744073709551615", "--batch 99999999999999", "--seconds 1e300"] {
        folder.run(&format!("{fit} {allowed}"), "").succeeded();
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = Folder::new("outputs");
    folder.write("file", "kept");
    let made = &["made.o"];
    for command in commands(&WRITERS) {
        let html =
            |path: &str| if command.starts_with("bench") { format!("{path}.html") } else { path.to_string() };
        // A folder that is missing is made by commands that take long, and only by them.
        if !command.starts_with("fit") {
            folder.unharmed(made, || folder.run(command, &html("missing/x"))).refused(&["missing/x"]);
        }
        folder.unharmed(made, || folder.run(command, &html("file/x"))).refused(&["`file"]);
        if !command.starts_with("bench") {
            folder.unharmed(made, || folder.run(command, "folder")).refused(&["`folder`"]);
            // What is read stays.
            folder.unharmed(made, || folder.run(command, "k.slang")).refused(&["k.slang` would replace"]);
            folder
                .unharmed(made, || folder.run(command, "folder/../k.slang"))
                .refused(&["would replace `k.slang`"]);
            if cfg!(target_os = "linux") {
                let out = folder.unharmed(made, || folder.run(command, "/dev/full"));
                out.refused(&["cannot write `/dev/full`: No space left on device"]);
                // The other results are there.
                if command.contains("--predict") || command.contains("--checkpoint") {
                    let words = ["a = ", "out/k-a.npy", "out/k-parameters.json"];
                    assert!(words.iter().all(|word| out.stdout.contains(word)), "{out:?}");
                }
            }
        }
    }
    let fit = "fit k.slang --steps 3 --quiet";
    folder
        .unharmed(&[], || folder.run(&format!("{fit} --items @good.csv --out file"), ""))
        .refused(&["`file`"]);
    let events = format!("{fit} --items @good.csv --out out --tensorboard file");
    folder.unharmed(&[], || folder.run(&events, "")).refused(&["`file`"]);
    folder.unharmed(&[], || folder.run("manual file", "")).refused(&["`file`"]);
    // The items are in the place of a result.
    let predict = format!("{fit} --items @good.csv --out out --predict good.csv");
    folder.unharmed(&[], || folder.run(&predict, "")).refused(&["`--predict good.csv` would replace"]);
    folder.write("own.slang", "[Differentiable] float loss(float x) { return x * x; }\n");
    let own = "fit own.slang --steps 3 --quiet --out .";
    folder.run(&format!("{own} --items 3"), "").succeeded();
    let items = format!("{own} --items @own-x.npy");
    folder.unharmed(&[], || folder.run(&items, "")).refused(&["own-x.npy`: it holds the items"]);
}

/// The process and a folder of a user who may write nothing else; `None` where this process cannot become that user.
#[cfg(unix)]
fn unprivileged(folder: &Folder) -> Option<(Vec<String>, PathBuf)> {
    use std::os::unix::fs::PermissionsExt;
    let is_superuser =
        std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0);
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(folder.0.join(name), std::fs::Permissions::from_mode(mode))
            .expect("it is ours");
    };
    let words = match is_superuser {
        true => vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        false => vec!["env"],
    };
    folder.write("secret.slang", PROGRAM);
    folder.write("secret.csv", "x,y\n1,2\n2,4\n");
    folder.write("folder/kept", "kept");
    for (name, bits) in
        [("secret.slang", 0o000), ("secret.csv", 0o000), ("folder/kept", 0o444), ("k.slang", 0o444)]
    {
        mode(name, bits);
    }
    std::fs::create_dir(folder.0.join("closed")).expect("the folder is writable");
    mode("closed", 0o000);
    mode("folder", 0o777);
    mode("", 0o555);
    let program = std::env::temp_dir().join(format!("pullback-bad-program-{}", std::process::id()));
    let words: Vec<String> = words.into_iter().map(String::from).collect();
    // The folder of the build may be closed to others.
    std::fs::copy(env!("CARGO_BIN_EXE_pullback"), &program).ok()?;
    let out = Command::new(&words[0]).args(&words[1..]).arg(&program).arg("--version").output();
    match out.is_ok_and(|out| out.status.success()) {
        true => Some((words, program)),
        false => {
            eprintln!("skipped: this process cannot give up its rights");
            None
        }
    }
}

#[cfg(unix)]
#[test]
fn files_and_folders_without_permission() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("permission");
    if let Some((words, program)) = unprivileged(&folder) {
        let run = |command: &str, bad: &str| {
            let mut user = Command::new(&words[0]);
            user.args(&words[1..]).arg(&program).args(self::words(command, bad));
            let cache = folder.0.join(if bad == "folder/x" { "closed" } else { "k.slang" });
            folder.of(user.env("PULLBACK_CACHE", cache).env("HOME", "/nonexistent"))
        };
        let denied = |bad: &str| format!("`{bad}`: permission denied");
        for command in commands(&COMMANDS).filter(|c| !c.starts_with("build") && !c.starts_with("fit")) {
            // A cache that cannot be used is not needed.
            run(command, "k.slang").succeeded();
            folder.unharmed(&[], || run(command, "secret.slang")).refused(&[&denied("secret.slang")]);
            folder.unharmed(&[], || run(command, "closed/k.slang")).refused(&[&denied("closed/k.slang")]);
        }
        let of_user =
            |command: &str| command.replace("made.o", "folder/made.o").replace(" out ", " folder/out ");
        for command in commands(&WRITERS).map(of_user) {
            for bad in ["new", "folder/kept", "closed/x"].map(|bad| match command.starts_with("bench") {
                true => format!("{bad}.html"),
                false => bad.to_string(),
            }) {
                if bad == "folder/kept.html" {
                    continue;
                }
                let made = ["folder/made.o"];
                let wanted = ["closed", "new", "folder/kept"].map(|name| format!("cannot write `{name}"));
                let out = folder.unharmed(&made, || run(&command, &bad));
                out.refused(&[&wanted[0], &wanted[1], &wanted[2]]);
                assert!(out.stderr.contains("permission denied"), "{out:?}");
            }
        }
        for (command, bad) in [
            ("fit k.slang --items @secret.csv", "secret.csv"),
            ("fit k.slang --items @good.csv --steps 3 --quiet", "target/fit"),
            ("fit k.slang --items @good.csv --steps 3 --quiet --out closed/out", "closed/out"),
            ("fit k.slang --items @good.csv --steps 3 --out folder/out --tensorboard closed/x", "closed/x"),
            ("run k.slang --bind o=@closed/x.npy", "closed/x.npy"),
            ("manual closed", "closed"),
            ("manual new", "new"),
            ("fmt closed", "closed"),
        ] {
            folder.unharmed(&[], || run(command, "")).refused(&[&denied(bad)]);
        }
        // A folder that may not be written, also with a file in it that may.
        run("emit k.slang -o folder/x", "folder/x").succeeded();
        let _ = std::fs::remove_file(program);
    }
    for name in ["", "closed"] {
        let _ = std::fs::set_permissions(folder.0.join(name), std::fs::Permissions::from_mode(0o755));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_that_goes_away_and_streams_that_are_closed_or_full() {
    let folder = Folder::new("streams");
    let more = ["devices", "completions bash", "--help", "run --help", "--version"];
    for command in commands(&COMMANDS).chain(more) {
        let full = folder.script("pullback \"$@\" >/dev/full", command);
        match command.starts_with("build") {
            // It prints nothing.
            true => full.succeeded(),
            false => full.refused(&["cannot write to standard output: No space left on device"]),
        }
        let gone = folder
            .script("mkfifo pipe; true < pipe & exec 3> pipe; wait; rm pipe; pullback \"$@\" >&3", command);
        gone.succeeded();
        folder.script("pullback \"$@\" >&- <&-", command).succeeded();
        folder.script("pullback \"$@\" 2>&-", command).succeeded();
        folder.script("pullback \"$@\" 2>/dev/full", command).succeeded();
        assert!(!folder.0.join("pipe").exists());
    }
    // A message that nobody reads changes no status.
    for stream in ["2>/dev/full", "2>&-"] {
        let out = folder.script(&format!("pullback \"$@\" {stream}"), "run missing.slang");
        assert_eq!(out.status, Some(1), "{out:?}");
    }
    folder.script("pullback check - <&-", "").succeeded();
    folder.script("pullback lsp <&-", "").refused(&["the input ended before the editor said `exit`"]);
    folder.script("echo rubbish | pullback lsp", "").refused(&["header"]);
}

/// A script that runs `$@` in a folder `small` of 64 KiB, all of which is taken.
#[cfg(target_os = "linux")]
const FULL: &str = "mkdir -p small
unshare --map-root-user --mount sh -c '
    mount -t tmpfs -o size=64k tmpfs small || exit 77
    printf kept > small/kept; printf kept > small/kept.html
    head -c 60000 /dev/zero > small/taken; head -c 60000 /dev/zero >> small/taken 2>/dev/null
    \"$0\" \"$@\"
    status=$?
    test \"$(cat small/kept small/kept.html)\" = keptkept || echo \"error: small/kept is harmed\" >&2
    test \"$(ls -A small | wc -l)\" = 3 || { ls -A small; echo \"error: something is left behind\"; } >&2
    exit $status
' ";

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full() {
    let folder = Folder::new("disk");
    let script = format!("{FULL} '{}' \"$@\"", env!("CARGO_BIN_EXE_pullback"));
    let probe = Command::new("sh").current_dir(&folder.0).args(["-c", &format!("{FULL} true")]).output();
    if !probe.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    for command in commands(&WRITERS) {
        let kept = if command.starts_with("bench") { "small/kept.html" } else { "small/kept" };
        let out = folder.script(&script, &command.replace('#', kept));
        // The log of a short fit is begun before the disk is full for it.
        out.refused(&[&format!("cannot write `{kept}`: No space left on device")]);
    }
    let out = folder.script(&script, "fit k.slang --items @good.csv --steps 3 --quiet --out small");
    assert!(out.status == Some(1) && out.stdout.contains("a = -0."), "the result is printed: {out:?}");
    // The cache is a help, and no need.
    let cached = script.replace(FULL, &format!("export PULLBACK_CACHE=small/cache\n{FULL}"));
    let out = folder.script(&cached.replace("= 3 ||", "-ge 3 ||"), "run k.slang --bind o=zeros:4 --groups 4");
    out.succeeded();
}

#[cfg(target_os = "linux")]
#[test]
fn allocations_that_do_not_fit() {
    let folder = Folder::new("memory");
    // Numbers of a byte, which take eight each once they are read: the file has no blocks, and 3 GiB.
    let header = format!("{:<117}\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (3221225472,), }");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(header.as_bytes());
    folder.write("large.npy", &bytes);
    let file = std::fs::File::options().write(true).open(folder.0.join("large.npy")).expect("it is there");
    file.set_len(bytes.len() as u64 + 3_221_225_472).expect("the file system has sparse files");
    // The memory that the process may have; compilers take some.
    let limited = "ulimit -v 4000000; pullback \"$@\"";
    for command in [
        "run k.slang --bind o=zeros:99999999999",
        "run k.slang --bind o=zeros:18446744073709551615",
        "run k.slang --bind o=zeros:700000000",
        "run k.slang --bind o=@large.npy",
        "bench k.slang --entry k --bind o=zeros:99999999999",
        "fit k.slang --loss f --items @large.npy",
        "fit k.slang --loss f --items 33554433",
        "fit k.slang --items @good.csv --param a=@large.npy",
        "fit k.slang --items @good.csv --accumulate 1000000000000",
        "fit k.slang --loss f --items image:99999999,99999999",
    ] {
        folder.script(limited, command).refused(&["memory", "too many", "at most"]);
    }
}

#[test]
fn data_that_is_damaged_or_of_another_format() {
    let folder = Folder::new("data");
    folder.write(
        "write.slang",
        "TensorView<float> o;
[shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 at : SV_DispatchThreadID)
{
    for (uint c = 0; c < 3; c++) o.store(at.y, at.x, c, at.x * 0.05 + c * 0.1);
}
",
    );
    folder.write(
        "read.slang",
        "Texture2D<float3> p; RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(1, 1, 1)] void k() { o[0] = p[uint2(1, 0)].x; }
",
    );
    let mut endings = vec!["npy", "png", "jpg", "hdr"];
    if cfg!(feature = "exr") {
        endings.push("exr");
    }
    for ending in &endings {
        let write = format!("run write.slang --bind o=zeros:8,8,3 --groups 8,8 --out o=@whole.{ending}");
        folder.run(&write, "").succeeded();
    }
    // An archive of one array, stored.
    folder.write("whole.npz", archive(&folder.read("whole.npy")));
    folder.write("whole.csv.gz", packed(&folder.read("good.csv")));
    endings.push("npz");
    let read =
        |name: &str| folder.unharmed(&[], || folder.run("run read.slang --bind o=zeros:1 --bind p=@#", name));
    let fit = "fit k.slang --items @# --steps 1 --quiet --out out";
    let table = |name: &str| folder.unharmed(&[], || folder.run(fit, name));
    folder.run(fit, "whole.csv.gz").succeeded();
    for ending in &endings {
        read(&format!("whole.{ending}")).succeeded();
        let whole = folder.read(&format!("whole.{ending}"));
        let name = format!("bad.{ending}");
        for n in [0, 1, 10, whole.len() / 4, whole.len() / 2, whole.len() - 30] {
            folder.write(&name, &whole[..n]);
            read(&name).refused(&[&format!("cannot read `{name}`")]);
        }
        // A changed byte may be a changed number; it must not be more than that.
        for k in (0..whole.len()).step_by(whole.len() / 40 + 1) {
            let mut changed = whole.clone();
            changed[k] ^= 0xff;
            folder.write(&name, &changed);
            let out = read(&name);
            assert!(out.status == Some(0) || out.errors() == 1, "{out:?}");
        }
        for other in &endings {
            if other != ending {
                folder.write(&name, folder.read(&format!("whole.{other}")));
                read(&name).refused(&[&format!("cannot read `{name}`")]);
            }
        }
        let items =
            if ["npy", "npz"].contains(ending) { format!("@{name}") } else { format!("image:{name}") };
        folder.write(&name, "x,y\n1,2\n");
        let command = format!("fit k.slang --items {items} --steps 1 --out out");
        folder.unharmed(&[], || folder.run(&command, "")).refused(&[&format!("cannot read `{name}`")]);
    }
    let whole = folder.read("whole.csv.gz");
    for n in [0, 1, 10, whole.len() / 2, whole.len() - 1] {
        folder.write("bad.csv.gz", &whole[..n]);
        table("bad.csv.gz").refused(&["cannot read `bad.csv.gz`"]);
    }
    for other in ["whole.npy", "whole.png", "k.slang", "whole.csv.gz"] {
        folder.write("bad.csv", folder.read(other));
        table("bad.csv").refused(&["bad.csv`"]);
    }
    for bad in ["folder", "whole.txt", "k.slang"] {
        table(bad).refused(&[bad]);
    }
    // A checkpoint that is none.
    for (name, text) in
        [("empty", ""), ("list", "[]"), ("object", "{}"), ("half", "{\"of\":\"`loss` by adam\",\"step\":3")]
    {
        folder.write(name, text);
        let command = "fit k.slang --items @good.csv --steps 1 --out out --resume --checkpoint #";
        folder.unharmed(&[], || folder.run(command, name)).refused(&[&format!("cannot read `{name}`")]);
    }
}

#[cfg(feature = "llvm")]
#[test]
fn a_cache_that_is_damaged() {
    let folder = Folder::new("cache");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        command.args(words("run # --bind o=zeros:4 --groups 4 --backend llvm", "k.slang"));
        folder.of(command.env("PULLBACK_CACHE", folder.0.join("cache")))
    };
    let first = run();
    if first.stderr.contains("could not be opened") {
        eprintln!("skipped: {}", first.stderr);
        return;
    }
    first.succeeded();
    let cache = || std::fs::read_dir(folder.0.join("cache")).expect("it is made").flatten().map(|e| e.path());
    for damage in [&b""[..], b"rubbish", &[0; 10_000]] {
        cache().for_each(|path| std::fs::write(path, damage).expect("it is ours"));
        let again = run();
        again.succeeded();
        assert_eq!(again.stdout, first.stdout);
    }
    let kernels = cache().filter(|path| path.extension().is_some_and(|e| e == "kernel")).count();
    assert_eq!(kernels, 1);
    std::fs::remove_dir_all(folder.0.join("cache")).expect("it is ours");
    folder.write("cache", "a file");
    run().succeeded();
    assert_eq!(folder.read("cache"), b"a file");
}

/// CRC-32, as in archives.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xedb8_8320 },
        )
    })
}

/// A zip archive with one stored file `a.npy`.
fn archive(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u32).to_le_bytes();
    let about =
        [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &crc32(bytes).to_le_bytes(), &length, &length, &[5, 0, 0, 0]]
            .concat();
    let file = [b"PK\x03\x04", &about[..], b"a.npy", bytes].concat();
    let entry = [b"PK\x01\x02", &[20, 0][..], &about, &[0; 14], b"a.npy"].concat();
    let end = [&(entry.len() as u32).to_le_bytes()[..], &(file.len() as u32).to_le_bytes(), &[0, 0]].concat();
    [file, entry, b"PK\x05\x06\0\0\0\0\x01\0\x01\0".to_vec(), end].concat()
}

/// Bytes in the form of gzip, stored.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u16;
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let lengths = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
    [&head[..], &lengths, bytes, &crc32(bytes).to_le_bytes(), &u32::from(length).to_le_bytes()].concat()
}
