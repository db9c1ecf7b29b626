//! Reads and writes the user's files, and allocates memory of sizes that the user requests, with limits and
//! checks.
//!
//! A file is written either whole or not at all: the data goes to a temporary file beside it, which is then
//! renamed. Reading stops at a limit, so that a file without an end (`/dev/zero`) gives an error.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// The maximum size of a program.
pub const PROGRAM: u64 = 256 << 20;
/// The maximum size of a file of numbers.
pub const DATA: u64 = 16 << 30;
/// Less is allocated without a look at the free memory.
const ALWAYS_FREE: usize = 4 << 20;
/// The number of bytes that are read before the free memory is looked at.
const PART: u64 = 16 << 20;
/// The maximum number of bytes read from a pipe or device, whose size is not known.
const ENDLESS: u64 = 1 << 30;

/// Reads a file; an error if it has more than `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let error = |e: std::io::Error| Error::read(path, plain(&e));
    let file = File::open(path).map_err(error)?;
    let about = file.metadata().map_err(error)?;
    let most = if about.is_file() { most } else { most.min(ENDLESS) };
    let too_large = || Error::read(path, format!("it is larger than {} MiB", most >> 20));
    if about.len() > most {
        return Err(too_large());
    }
    check_room(about.len() as usize).map_err(|why| Error::read(path, why))?;
    read_from(file, path, most)
}

/// Returns an error if a file is not there or may not be read; it is not read.
pub fn expect_readable(path: &Path) -> Result<(), Error> {
    if path == Path::new("-") {
        return Ok(());
    }
    let error = |e: std::io::Error| Error::read(path, plain(&e));
    let about = fs::metadata(path).map_err(error)?;
    match about.is_dir() {
        true => Err(Error::read(path, "it is a directory")),
        false if about.is_file() => File::open(path).map(|_| ()).map_err(error),
        false => Ok(()),
    }
}

/// Reads standard input; an error if it has more than `most` bytes.
pub fn read_input(most: u64) -> Result<Vec<u8>, Error> {
    read_from(std::io::stdin().lock(), Path::new("-"), most)
}

/// Reads what a file gives, which may be packed, so that its length is not known; an error if it is more than `most`
/// bytes, or more than there is memory for.
pub(crate) fn read_from(from: impl Read, path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut limited = from.take(most + 1);
    // The first part is as much as any machine has room for.
    for part in std::iter::successors(Some(PART), |part| Some(part * 2)) {
        let read = limited.by_ref().take(part).read_to_end(&mut bytes);
        let n = read.map_err(|e| Error::read(path, plain(&e)))?;
        if bytes.len() as u64 > most {
            return Err(Error::read(path, format!("it is larger than {} MiB", most >> 20)));
        }
        if (n as u64) < part {
            break;
        }
        check_room(bytes.len()).map_err(|why| Error::read(path, why))?;
    }
    Ok(bytes)
}

/// Reads a file as text.
pub fn read_text(path: &Path, most: u64) -> Result<String, Error> {
    String::from_utf8(read(path, most)?).map_err(|_| Error::read(path, "it is not text in UTF-8"))
}

/// The message for a failed write.
fn unwritten(error: &std::io::Error) -> String {
    match error.kind() {
        // When writing, the missing part is the folder, since the file itself need not exist.
        std::io::ErrorKind::NotFound => "there is no such folder".into(),
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => "it is no folder".into(),
        _ => plain(error),
    }
}

/// The message of a system error without its number.
pub fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::NotADirectory => "a part of its path is no folder".into(),
        std::io::ErrorKind::UnexpectedEof => "it ends too early".into(),
        std::io::ErrorKind::OutOfMemory => "there is not enough memory".into(),
        std::io::ErrorKind::IsADirectory => "it is a directory".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_string()
        }
    }
}

/// Reads the members of a JSON object.
pub fn read_json(path: &Path) -> Result<Vec<(String, serde_json::Value)>, Error> {
    let text = read_text(path, DATA)?;
    match serde_json::from_str(&text) {
        Ok(serde_json::Value::Object(members)) => Ok(members.into_iter().collect()),
        Ok(_) => Err(Error::read(path, "it is not a JSON object, which has a value for each name")),
        Err(e) => Err(Error::read(path, e)),
    }
}

/// Writes a file, either whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    make(path, |beside| {
        let mut file = File::create(beside)?;
        file.write_all(bytes)?;
        file.flush()
    })
}

/// Has `made` write a temporary file beside the target, then renames it to the target.
pub fn make(path: &Path, made: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), Error> {
    let error = |e: std::io::Error| Error::write(path, unwritten(&e));
    // Devices, pipes and the like are written directly instead of being replaced; a link stays, and its
    // target is replaced. In WebAssembly there is no other process to see a part of a file.
    let about = fs::metadata(path).ok();
    if cfg!(target_family = "wasm") || about.as_ref().is_some_and(|a| !a.is_file()) {
        return made(path).map_err(error);
    }
    let target = match &about {
        Some(_) => fs::canonicalize(path).map_err(error)?,
        None => link_target(path).unwrap_or_else(|| path.to_path_buf()),
    };
    if about.is_some() {
        // To rename asks for no permission of the file that is replaced, to write does.
        File::options().append(true).open(&target).map_err(error)?;
    }
    let beside = beside(&target);
    let done = made(&beside).and_then(|()| {
        if let Some(about) = &about {
            // The new file keeps the permissions of the one that it replaces.
            fs::set_permissions(&beside, about.permissions())?;
        }
        fs::rename(&beside, &target)
    });
    done.map_err(|e| {
        let _ = fs::remove_file(&beside);
        error(e)
    })
}

/// The number of this process. In WebAssembly there is no other.
fn process() -> u32 {
    if cfg!(target_family = "wasm") { 0 } else { std::process::id() }
}

/// The path that a link without a target leads to.
fn link_target(path: &Path) -> Option<PathBuf> {
    let target = fs::read_link(path).ok()?;
    Some(path.parent().unwrap_or(Path::new("")).join(target))
}

/// A unique name in the same folder.
fn beside(path: &Path) -> PathBuf {
    let named = path.file_name().unwrap_or_default();
    let mut name = std::ffi::OsString::from(".");
    // The name of a file has at most 255 bytes in most systems.
    name.push(if named.len() < 200 { named } else { "pullback".as_ref() });
    // The extension is kept, since tools depend on it.
    let ending = path.extension().unwrap_or_default();
    name.push(format!(".{}.", process()));
    name.push(ending);
    path.with_file_name(name)
}

/// Returns true if two paths lead to the same file, which exists.
pub fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns an error if a file could not be written later, for a command that works for a long time before.
pub fn expect_writable(path: &Path) -> Result<(), Error> {
    let error = |e: std::io::Error| Error::write(path, unwritten(&e));
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(Error::write(path, "it is a directory")),
        Ok(about) if !about.is_file() => return Ok(()),
        Ok(_) => drop(File::options().append(true).open(path).map_err(error)?),
        Err(_) => {}
    }
    let beside = beside(&fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()));
    File::create(&beside).and_then(|_| fs::remove_file(&beside)).map_err(error)
}

/// Makes sure that files can be created in a folder, and creates the folder if necessary.
pub fn prepare_folder(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|e| Error::write(folder, unwritten(&e)))?;
    let probe = folder.join(format!(".pullback-{}", process()));
    File::create(&probe).map_err(|e| Error::write(folder, unwritten(&e)))?;
    fs::remove_file(&probe).map_err(|e| Error::write(&probe, unwritten(&e)))
}

/// Allocates `bytes` zeros if there is enough memory; the caller makes at most one copy.
pub(crate) fn zeros(bytes: usize) -> Result<Vec<u8>, String> {
    check_room(bytes)?;
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes).map_err(|_| too_much(bytes))?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

/// Returns an error if there is not enough memory for `bytes` bytes and a copy of them.
pub(crate) fn check_room(bytes: usize) -> Result<(), String> {
    let with_copy =
        bytes.checked_mul(2).and_then(|n| n.checked_add(1 << 20)).ok_or_else(|| too_much(bytes))?;
    if with_copy <= ALWAYS_FREE {
        return Ok(());
    }
    // The system may promise more memory than it has.
    if available().is_some_and(|free| with_copy as u64 > free) {
        return Err(too_much(bytes));
    }
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(with_copy).map_err(|_| too_much(bytes))
}

fn too_much(bytes: usize) -> String {
    let size = bytes as f64 / (1u64 << 20) as f64;
    format!("{size:.0} MiB are more than this machine has memory for")
}

/// The available memory in bytes, if the system reports it: of the machine, and of the container.
fn available() -> Option<u64> {
    let machine = || {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    };
    machine().into_iter().chain(available_in_group()).min()
}

/// The memory that the control group of this process leaves, by the files of version 2 or 1. Files that the system
/// keeps in memory make room.
fn available_in_group() -> Option<u64> {
    let text = |path: &str| fs::read_to_string(format!("/sys/fs/cgroup/{path}")).ok();
    let number = |path: &str| text(path)?.trim().parse::<u64>().ok();
    let left = |most: &str, used: &str, stat: &str, prefix: &str| {
        let (most, used, stat) = (number(most)?, number(used)?, text(stat)?);
        let kept = ["active_file ", "inactive_file "].iter().filter_map(|name| {
            stat.lines()
                .find_map(|line| line.strip_prefix(prefix)?.strip_prefix(name)?.trim().parse::<u64>().ok())
        });
        Some(most.saturating_sub(used.saturating_sub(kept.sum())))
    };
    left("memory.max", "memory.current", "memory.stat", "").or_else(|| {
        let [most, used] = ["limit", "usage"].map(|what| format!("memory/memory.{what}_in_bytes"));
        left(&most, &used, "memory/memory.stat", "total_")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("pullback-files-{}", std::process::id()));
        prepare_folder(&folder).expect("a folder");
        let path = folder.join("a.bin");
        write(&path, b"one").expect("writes");
        let failed = make(&path, |beside| {
            fs::write(beside, b"half")?;
            Err(std::io::Error::other("the disk is full"))
        });
        assert!(failed.is_err_and(|e| e.to_string().contains("the disk is full")));
        assert_eq!(read(&path, DATA).expect("reads"), b"one");
        assert_eq!(fs::read_dir(&folder).expect("lists").count(), 1, "nothing is left behind");
        assert!(read(&path, 2).is_err());
        fs::remove_dir_all(&folder).expect("removes");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_must_not_be_written_stays() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("pullback-kept-{}", std::process::id()));
        prepare_folder(&folder).expect("a folder");
        let path = folder.join("a.bin");
        write(&path, b"one").expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("is ours");
        // The superuser may write it.
        let may = File::options().append(true).open(&path).is_ok();
        assert_eq!(write(&path, b"two").is_ok(), may);
        assert_eq!(expect_writable(&path).is_ok(), may);
        assert_eq!(read(&path, DATA).expect("reads"), if may { b"two" } else { b"one" });
        // A link to nothing is followed, and a name may be as long as the system allows.
        std::os::unix::fs::symlink("later", folder.join("link")).expect("links");
        write(&folder.join("link"), b"three").expect("writes");
        assert_eq!(read(&folder.join("later"), DATA).expect("reads"), b"three");
        write(&folder.join("x".repeat(255)), b"four").expect("writes");
        assert_eq!(fs::read_dir(&folder).expect("lists").count(), 4, "nothing is left behind");
        assert!(
            is_same(&folder.join("link"), &folder.join("later")) && !is_same(&path, &folder.join("link"))
        );
        fs::remove_dir_all(&folder).expect("removes");
    }

    #[test]
    fn packed_files_without_an_end_are_refused() {
        let why = read_from(std::io::repeat(0), Path::new("x"), 64 << 20).expect_err("refused").to_string();
        assert_eq!(why, "cannot read `x`: it is larger than 64 MiB");
        assert_eq!(read_from(&b"abc"[..], Path::new("x"), 3).expect("reads"), b"abc");
        assert!(read_from(&b"abcd"[..], Path::new("x"), 3).is_err());
        let long = vec![7; 3 * PART as usize + 1];
        assert_eq!(read_from(&long[..], Path::new("x"), DATA).expect("reads"), long);
    }

    #[test]
    fn no_memory_is_an_error() {
        for bytes in [usize::MAX, usize::MAX / 2, 1 << 60, 1 << 50] {
            assert!(zeros(bytes).is_err(), "{bytes}");
        }
        assert_eq!(zeros(3).map(|z| z.len()), Ok(3));
    }
}
