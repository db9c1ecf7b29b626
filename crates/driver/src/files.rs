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
    let mut bytes = Vec::new();
    bytes.try_reserve(about.len() as usize).map_err(|_| Error::read(path, "there is not enough memory"))?;
    let mut limited = file.take(most + 1);
    limited.read_to_end(&mut bytes).map_err(error)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// Reads standard input; an error if it has more than `most` bytes.
pub fn read_input(most: u64) -> Result<Vec<u8>, Error> {
    let path = Path::new("-");
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(most + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::read(path, plain(&e)))?;
    match bytes.len() as u64 > most {
        true => Err(Error::read(path, format!("it is larger than {} MiB", most >> 20))),
        false => Ok(bytes),
    }
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
    let target = if about.is_some() { fs::canonicalize(path).map_err(error)? } else { path.to_path_buf() };
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

/// A unique name in the same folder.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    // The extension is kept, since tools depend on it.
    let ending = path.extension().unwrap_or_default();
    name.push(format!(".{}.", process()));
    name.push(ending);
    path.with_file_name(name)
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

/// The available memory in bytes, if the system reports it.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
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

    #[test]
    fn no_memory_is_an_error() {
        for bytes in [usize::MAX, usize::MAX / 2, 1 << 60, 1 << 50] {
            assert!(zeros(bytes).is_err(), "{bytes}");
        }
        assert_eq!(zeros(3).map(|z| z.len()), Ok(3));
    }
}
