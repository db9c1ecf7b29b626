//! Tests command lines that are wrong, that contradict themselves, or that ask for more than is available:
//! each ends with a status and a message that names the option, the file or the variable.

use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "
RWStructuredBuffer<float> o;
[shader(\"compute\")] [numthreads(1, 1, 1)] void k(uint3 i : SV_DispatchThreadID) { o[i.x] = i.x + 1; }
[Differentiable] float f(float x) { return x * x; }
[Differentiable] float loss(float a, no_diff float x, no_diff float y) { return (a * x - y) * (a * x - y); }
";

const FILES: [(&str, &[u8]); 22] = [
    ("k.slang", PROGRAM.as_bytes()),
    ("empty", b""),
    ("empty.csv", b""),
    ("empty.png", b""),
    ("rubbish", b"\x93\xff\x00\x01rubbish\xfe"),
    ("rubbish.csv", b"\x93\xff\x00\x01rubbish\xfe"),
    ("rubbish.npy", b"\x93\xff\x00\x01rubbish\xfe"),
    ("rubbish.png", b"\x93\xff\x00\x01rubbish\xfe"),
    ("not.json", b"{}"),
    ("good.csv", b"x,y\n1,2\n2,4\n"),
    ("marked.csv", b"\xef\xbb\xbfx,y\n1,2\n2,4\n"),
    ("returns.csv", b"x,y\r\n1,2\r\n\r\n2,4\r\n"),
    ("nan.csv", b"x,y\n1,2\nnan,3\n"),
    ("inf.csv", b"x;y\n3;-Infinity\n"),
    ("large.csv", b"x,y\n1,1e999\n"),
    ("gap.csv", b"x,y\n1,\n"),
    ("word.csv", b"x,y\n1,two\n"),
    ("short.csv", b"x,y\n1,2\n3\n"),
    ("head.csv", b"x,y\n"),
    ("twice.csv", b"x,y,x\n1,2,3\n"),
    ("index.csv", b"x,y,index\n1,2,3\n"),
    ("lacks.csv", b"x,z\n1,2\n"),
];

/// The arguments of `pullback`, its status, and a part of standard error; an empty part means that standard
/// error must be empty.
#[rustfmt::skip]
const LINES: &[(&str, i32, &str)] = &[
    // Values of memory.
    ("run k.slang --bind o=zeros:99999999999", 1, "`--bind o`: 381470 MiB are more"),
    ("run k.slang --bind o=zeros:18446744073709551615", 1, "`--bind o`: "),
    ("run k.slang --bind o=zeros:1000000,1000000,1000", 1, "`--bind o`: "),
    ("run k.slang --bind o=zeros:18446744073709551615,18446744073709551615", 1, "`--bind o`: "),
    ("run k.slang --bind o=zeros:-1", 2, "`zeros:-1`"),
    ("run k.slang --bind o=words:4294967296", 2, "`4294967296` is not a 32-bit word"),
    ("run k.slang --bind o=[nan]", 2, "`--bind o`"),
    ("run k.slang --bind o=[1e999]", 2, "`--bind o`"),
    ("run k.slang --bind o=@nothing.npy", 1, "cannot read `nothing.npy`"),
    ("run k.slang --bind o=@rubbish.npy", 1, "cannot read `rubbish.npy`"),
    ("run k.slang --bind o=@empty", 1, "cannot read `empty`"),
    ("run k.slang --bind o=@.", 1, "cannot read `.`: it is a directory"),
    ("run k.slang --bind =1", 2, "`--bind =1`"),
    ("run k.slang --bind o=zeros:1 --bind o=zeros:2", 1, "`o` is bound twice"),
    ("run k.slang", 1, "`o` is not bound"),
    // Numbers out of range.
    ("run k.slang --bind o=zeros:1 --groups 0", 2, "`--groups 0`"),
    ("run k.slang --bind o=zeros:1 --groups 99999999999", 2, "`--groups 99999999999`"),
    ("run k.slang --bind o=zeros:1 --groups 4294967295,65536", 2, "`--groups 4294967295,65536,1`"),
    ("run k.slang --bind o=zeros:1 --groups 4294967295,4294967295,4294967295", 2, "`--groups "),
    ("run k.slang --bind o=zeros:1 --block 100000,100000", 2, "`--block 100000,100000,1`"),
    ("run k.slang --bind o=zeros:1 --seconds 0", 2, "'--seconds <S>'"),
    ("run k.slang --bind o=zeros:1 --memory 0", 2, "'--memory <SIZE>'"),
    ("run k.slang --bind o=zeros:1 --memory 99999999999G", 2, "'--memory <SIZE>'"),
    ("run k.slang --bind o=zeros:1 --repeat 0", 2, "'--repeat <N>'"),
    ("run k.slang --bind o=zeros:1 --threads 0", 2, "'--threads <N>'"),
    ("run k.slang --bind o=zeros:9 --groups 9 --threads 18446744073709551615", 0, ""),
    ("run k.slang --bind o=zeros:1 -O9", 2, "'-O <LEVEL>'"),
    ("run k.slang --bind o=zeros:1 --conform A:B=99999999999", 2, "`--conform A:B=99999999999`"),
    ("gradcheck k.slang f --points 0", 2, "'--points <N>'"),
    ("gradcheck k.slang f --range=-inf,inf", 2, "`--range -inf,inf`"),
    ("gradcheck k.slang f --range=2,1", 2, "`--range 2,1`"),
    ("gradcheck k.slang f --tolerance nan", 2, "'--tolerance <X>'"),
    ("verify k.slang f --tolerance inf", 2, "'--tolerance <X>'"),
    ("bench k.slang --count 0", 2, "'--count <N>'"),
    ("bench k.slang --count 4294967295", 1, "`--count 4294967295`: too many threads"),
    ("bench k.slang --seconds inf", 2, "'--seconds <S>'"),
    ("fit k.slang --items @good.csv --seconds nan", 2, "'--seconds <S>'"),
    ("fit k.slang --items @good.csv --batch 0", 2, "'--batch <N>'"),
    ("fit k.slang --items @good.csv --steps 0", 2, "'--steps <N>'"),
    ("fit k.slang --items @good.csv --threads 0", 2, "'--threads <N>'"),
    ("fit k.slang --items @good.csv --steps 1 --out out --quiet --threads 18446744073709551615", 0, ""),
    ("fit k.slang --items @good.csv --param a=random:2,1", 2, "`--param a=random:2,1`"),
    ("fit k.slang --items @good.csv --rate b=1 --out out", 1, "`--rate b=1`"),
    // Items.
    ("fit k.slang --items 99999999999999", 1, "`--items 99999999999999`"),
    ("fit k.slang --items image:100000,100000", 1, "`--items image:100000,100000`"),
    ("fit k.slang --items image:4294967296,4294967296", 1, "`--items image:4294967296,4294967296`"),
    ("fit k.slang --items image:0,0", 1, "`--items`: there are no items"),
    ("fit k.slang --items image:rubbish.png", 1, "cannot read `rubbish.png`"),
    ("fit k.slang --items image:empty.png", 1, "cannot read `empty.png`"),
    ("fit k.slang --items @rubbish.csv", 1, "cannot read `rubbish.csv`"),
    ("fit k.slang --items @rubbish.npy", 1, "cannot read `rubbish.npy`"),
    ("fit k.slang --items @empty.csv", 1, "`--items @empty.csv`"),
    ("fit k.slang --items @nan.csv", 1, "`--items @nan.csv`: row 2, column `x`: `nan`"),
    ("fit k.slang --items @inf.csv", 1, "`--items @inf.csv`: row 1, column `y`: `-Infinity`"),
    ("fit k.slang --items @large.csv", 1, "`--items @large.csv`: row 1, column `y`: `1e999`"),
    ("fit k.slang --items @gap.csv", 1, "`--items @gap.csv`: row 1, column `y`: ``"),
    ("fit k.slang --items @word.csv", 1, "`--items @word.csv`: row 1, column `y`: `two`"),
    ("fit k.slang --items @short.csv", 1, "`--items @short.csv`: row 2 has 1 cell, 2 wanted"),
    ("fit k.slang --items @head.csv", 1, "`--items`: there are no items"),
    ("fit k.slang --items @twice.csv", 1, "`--items @twice.csv`: two columns are named `x`"),
    ("fit k.slang --items @index.csv", 1, "`--items @index.csv`: a column is named `index`"),
    ("fit k.slang --items @lacks.csv --out out", 1, "the items have no column `y`"),
    ("fit k.slang --items @marked.csv --steps 1 --out out --quiet", 0, ""),
    ("fit k.slang --items @returns.csv --steps 1 --out out --quiet", 0, ""),
    // Outputs that cannot be written.
    ("run k.slang --bind o=zeros:1 --out o=@nowhere/x.npy", 1, "cannot write `nowhere/x.npy`: there is no such folder"),
    ("fit k.slang --items @good.csv --steps 1 --out k.slang", 1, "cannot write `k.slang`: it is no folder"),
    ("fit k.slang --items @good.csv --steps 1 --out out --checkpoint .", 1, "cannot write `.`: it is a directory"),
    ("fit k.slang --items @good.csv --steps 1 --out out --resume --checkpoint empty", 1, "cannot read `empty`"),
    ("fit k.slang --items @good.csv --steps 1 --out out --resume --checkpoint not.json", 1, "cannot read `not.json`"),
    // Options that contradict each other or have no effect.
    ("grad k.slang f --at x=1,x=2", 2, "`--at x` is given twice"),
    ("grad k.slang f --at x=1 --at x=2", 2, "`--at x` is given twice"),
    ("grad k.slang f --at x=1 --along x=1", 2, "`--along`"),
    ("grad k.slang f --at x=1 --mode hvp --along x=1,x=1", 2, "`--along x` is given twice"),
    ("grad k.slang f --at x=nan", 2, "`--at x`: `nan` is not JSON"),
    ("run k.slang --bind o=zeros:1 --out none --out o", 2, "`--out none`"),
    ("run k.slang --bind o=zeros:1 --out q", 1, "`--out q`"),
    ("run k.slang --bind o=zeros:1 --out o=@o.npy --out o=@o.npy", 2, "`--out o=@o.npy`"),
    ("run k.slang --bind o=zeros:1 --groups 1 --groups 2", 2, "'--groups <X[,Y[,Z]]>'"),
    ("run k.slang --bind o=zeros:1 --check-races --trap", 2, "'--trap'"),
    ("run k.slang --bind o=zeros:1 --allow xyz", 2, "'--allow <CODE,…>'"),
    ("run k.slang --bind o=zeros:1 --nothing", 2, "'--nothing'"),
    ("fit k.slang --items @good.csv --resume", 2, "--checkpoint <FILE>"),
    // Programs.
    ("run nothing.slang", 1, "cannot read `nothing.slang`"),
    ("run .", 1, "cannot read `.`: it is a directory"),
    ("check rubbish", 1, "not valid UTF-8"),
    ("run empty", 1, "no entry point"),
    ("run k.slang --entry nothing", 1, "`nothing`"),
    ("grad k.slang nothing", 1, "`nothing`"),
    ("emit k.slang -o .", 1, "cannot write `.`"),
];

/// Files without an end.
const ENDLESS: &[(&str, i32, &str)] = &[
    ("run /dev/zero", 1, "`/dev/zero`: it is larger than"),
    ("check /dev/zero", 1, "`/dev/zero`: it is larger than"),
    ("run k.slang --bind o=@/dev/zero", 1, "`/dev/zero`: it is larger than"),
    ("fit k.slang --items @/dev/zero", 1, "`--items @/dev/zero`"),
];

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the folder is writable");
    for (name, bytes) in FILES {
        std::fs::write(path.join(name), bytes).expect("written");
    }
    path
}

#[test]
fn each_line_ends_as_it_should() {
    let folder = folder("lines");
    let endless = if cfg!(target_os = "linux") { ENDLESS } else { &[] };
    let mut wrong = Vec::new();
    for (line, status, says) in LINES.iter().chain(endless) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        let out = command.args(line.split(' ')).current_dir(&folder).output().expect("it starts");
        let err = String::from_utf8_lossy(&out.stderr);
        let is_said = if says.is_empty() { err.is_empty() } else { err.contains(says) };
        if out.status.code() != Some(*status) || !is_said {
            wrong.push(format!("{line}\n  {:?}: {err}", out.status.code()));
        }
        if *status != 0 && !out.stdout.is_empty() {
            wrong.push(format!("{line}\n  prints {}", String::from_utf8_lossy(&out.stdout)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left = std::fs::read_dir(&folder).expect("lists").flatten().map(|e| e.file_name());
    let known =
        |name: &std::ffi::OsString| name == "out" || name == "target" || FILES.iter().any(|f| name == f.0);
    let left: Vec<_> = left.filter(|name| !known(name)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = folder("lines-bytes");
    for (bytes, status) in [(&b"k\xff.slang"[..], 1), (b"--bind=o=\xff", 2), (b"--out=o=@\xff.npy", 2)] {
        let file = if status == 1 { &[][..] } else { &["k.slang"] };
        let mut command = Command::new(env!("CARGO_BIN_EXE_pullback"));
        command.arg("run").args(file).arg(OsStr::from_bytes(bytes)).current_dir(&folder);
        let out = command.output().expect("it starts");
        assert!(out.status.code() == Some(status) && !out.stderr.is_empty(), "{bytes:?}: {out:?}");
    }
}
