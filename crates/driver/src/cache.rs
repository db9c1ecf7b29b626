//! Keeps compiled kernels beyond the process: object files in the user's cache folder, addressed by their
//! inputs.
//!
//! The name of a file is a hash of everything that its content depends on: the compiled text, the options,
//! the compiler and the machine (`Key`). An entry of the cache is therefore never wrong, only no longer used.
//!
//! Several processes may use one folder. A file is written under a unique temporary name and then renamed, so
//! it is visible either whole or not at all; two processes that write the same file write the same bytes. A
//! file is only accepted if its header matches the request and its checksum is correct: a truncated or
//! modified file is removed and made again. If anything goes wrong with the folder, the program runs without
//! it.
//!
//! Machine code that is read is executed, so the folder must be one that only the user can write.

use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The environment variable that names the folder. `off` or an empty value disables the cache.
const FOLDER: &str = "PULLBACK_CACHE";
/// The maximum number of bytes in the folder.
const MOST: u64 = 256 << 20;
/// The maximum number of bytes of one entry.
const MOST_OF_ONE: usize = 64 << 20;
/// An unfinished file of this age belongs to a process that no longer exists.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// The first bytes of a file; the last character is the version of the format.
const HEAD: &[u8; 8] = b"pbcache1";
const ENDING: &str = "kernel";
/// The ending of a note, an empty file.
const NOTE: &str = "known";
/// A note of this age is removed.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);

/// A hash of the inputs that an entry was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u64; 2]);

impl Key {
    /// The key of these inputs.
    pub fn new(parts: &[&[u8]]) -> Key {
        Key(std::array::from_fn(|seed| {
            let mut hasher = std::hash::DefaultHasher::new();
            seed.hash(&mut hasher);
            parts.hash(&mut hasher);
            hasher.finish()
        }))
    }

    /// The key as a text of 32 digits.
    pub fn digits(self) -> String {
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }

    /// The key as bytes.
    pub(crate) fn bytes(self) -> [u8; 16] {
        let mut all = [0; 16];
        all[..8].copy_from_slice(&self.0[0].to_le_bytes());
        all[8..].copy_from_slice(&self.0[1].to_le_bytes());
        all
    }
}

/// Identifies a build of this compiler: its version, and the executable file.
pub fn compiler() -> String {
    let file = std::env::current_exe().and_then(fs::metadata).ok();
    let time = file
        .as_ref()
        .and_then(|f| f.modified().ok())
        .and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok());
    format!("{} {:?} {:?}", env!("CARGO_PKG_VERSION"), file.map(|f| f.len()), time)
}

/// A folder of compiled kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    most: u64,
}

impl Cache {
    /// The user's cache; `None` if there is no folder for it, or if it is disabled.
    pub fn of_user() -> Option<Cache> {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = match std::env::var_os(FOLDER) {
            Some(folder) if folder.is_empty() || folder == "off" => return None,
            Some(folder) => PathBuf::from(folder),
            None => match set("XDG_CACHE_HOME").filter(|p| p.is_absolute()) {
                Some(folder) => folder.join("pullback"),
                None => set("HOME")?.join(".cache").join("pullback"),
            },
        };
        Some(Cache::at(folder))
    }

    /// The cache in this folder, which is created when the first entry is stored.
    pub fn at(folder: PathBuf) -> Cache {
        Cache { folder, most: MOST }
    }

    /// Limits the cache to `most` bytes.
    #[must_use]
    pub fn with_room(self, most: u64) -> Cache {
        Cache { most, ..self }
    }

    fn path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{}.{ENDING}", key.digits()))
    }

    /// The files stored for a key.
    pub fn load(&self, key: Key) -> Option<Vec<Vec<u8>>> {
        let path = self.path(key);
        if !is_private(&self.folder) {
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        let found = decode(&bytes, key);
        match found {
            // The time of the file records its last use: the least recently used entry is removed first.
            Some(_) => {
                let now = SystemTime::now();
                let _ = fs::File::options().append(true).open(&path).and_then(|f| f.set_modified(now));
            }
            None => {
                let _ = fs::remove_file(&path);
            }
        }
        found
    }

    /// Notes a key; returns true if it was noted before. A note says what a process may expect, and is no input to
    /// anything that is computed.
    pub fn note(&self, key: Key) -> bool {
        let is_known = self.is_noted(key);
        if !is_known && make(&self.folder).is_ok() && is_private(&self.folder) {
            let _ = fs::write(self.note_path(key), []);
        }
        is_known
    }

    /// Returns true if a key was noted.
    pub fn is_noted(&self, key: Key) -> bool {
        self.note_path(key).exists()
    }

    fn note_path(&self, key: Key) -> PathBuf {
        self.folder.join(format!("{}.{NOTE}", key.digits()))
    }

    /// Stores files for a key, if possible.
    pub fn store(&self, key: Key, files: &[Vec<u8>]) {
        let bytes = encode(key, files);
        if bytes.len() > MOST_OF_ONE || bytes.len() as u64 > self.most || make(&self.folder).is_err() {
            return;
        }
        if !is_private(&self.folder) {
            return;
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let own = format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let own = self.folder.join(own);
        let done = fs::write(&own, &bytes).and_then(|()| fs::rename(&own, self.path(key)));
        if done.is_err() {
            let _ = fs::remove_file(&own);
        }
        self.clear_up();
    }

    /// Returns true the first time that it is called with a word, in any process. The folder has a file for
    /// each such word.
    pub fn is_first(&self, word: &str) -> bool {
        let made = make(&self.folder).and_then(|()| fs::File::create_new(self.folder.join(word)));
        !made.is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
    }

    /// Removes the least recently used entries until the rest fits, and unfinished files of other processes.
    fn clear_up(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let now = SystemTime::now();
        let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let Ok(about) = entry.metadata() else { continue };
            let path = entry.path();
            let time = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|e| e.to_str()) {
                Some(ENDING) => all.push((time, about.len(), path)),
                Some("new") if now.duration_since(time).is_ok_and(|age| age > LEFT_BEHIND) => {
                    let _ = fs::remove_file(path);
                }
                Some(NOTE) if now.duration_since(time).is_ok_and(|age| age > FORGOTTEN) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        let mut total: u64 = all.iter().map(|e| e.1).sum();
        all.sort();
        for (_, bytes, path) in all {
            if total <= self.most {
                break;
            }
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }
}

/// Makes a folder that only the user can access.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Returns true if only the user may write into a folder.
fn is_private(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(folder).is_ok_and(|f| f.is_dir() && f.permissions().mode() & 0o022 == 0)
    }
    #[cfg(not(unix))]
    folder.is_dir()
}

/// `HEAD key n length… bytes… checksum`.
fn encode(key: Key, files: &[Vec<u8>]) -> Vec<u8> {
    let mut all = HEAD.to_vec();
    all.extend(key.bytes());
    all.extend((files.len() as u64).to_le_bytes());
    files.iter().for_each(|file| all.extend((file.len() as u64).to_le_bytes()));
    files.iter().for_each(|file| all.extend(file));
    let sum = Key::new(&[&all]);
    all.extend(sum.bytes());
    all
}

fn decode(bytes: &[u8], key: Key) -> Option<Vec<Vec<u8>>> {
    let (all, sum) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
    if Key::new(&[all]).bytes() != sum {
        return None;
    }
    let rest = all.strip_prefix(HEAD)?.strip_prefix(&key.bytes())?;
    let (n, mut rest) = rest.split_first_chunk::<8>()?;
    let mut lengths = Vec::new();
    for _ in 0..u64::from_le_bytes(*n) {
        let (length, after) = rest.split_first_chunk::<8>()?;
        lengths.push(u64::from_le_bytes(*length));
        rest = after;
    }
    let mut files = Vec::new();
    for length in lengths {
        let (file, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        files.push(file.to_vec());
        rest = after;
    }
    rest.is_empty().then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder for one test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pullback-cache-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn key(n: u8) -> Key {
        Key::new(&[b"kernel", &[n]])
    }

    #[test]
    fn what_was_kept_is_there() {
        let folder = folder("kept");
        let cache = Cache::at(folder.clone());
        assert_eq!(cache.load(key(1)), None);
        let files = vec![b"first".to_vec(), Vec::new(), vec![7; 1000]];
        cache.store(key(1), &files);
        assert_eq!(cache.load(key(1)), Some(files));
        assert_eq!(cache.load(key(2)), None);
        assert_ne!(Key::new(&[b"ab", b"c"]), Key::new(&[b"a", b"bc"]));
        fs::remove_dir_all(folder).expect("was made");
    }

    #[test]
    fn a_word_is_first_once() {
        let folder = folder("words");
        let cache = Cache::at(folder.clone());
        assert!(cache.is_first("advice"));
        assert!(!cache.is_first("advice"));
        assert!(cache.is_first("other"));
        fs::remove_dir_all(folder).expect("was made");
    }

    #[test]
    fn what_is_cut_off_or_changed_is_not_believed() {
        let folder = folder("changed");
        let cache = Cache::at(folder.clone());
        cache.store(key(1), &[vec![1, 2, 3]]);
        let path = cache.path(key(1));
        let whole = fs::read(&path).expect("is there");
        for n in 0..whole.len() {
            fs::write(&path, &whole[..n]).expect("can be written");
            assert_eq!(cache.load(key(1)), None, "cut off at {n}");
            assert!(!path.exists(), "removed");
            let mut changed = whole.clone();
            changed[n] ^= 1;
            fs::write(&path, &changed).expect("can be written");
            assert_eq!(cache.load(key(1)), None, "changed at {n}");
        }
        // The file is complete, but belongs to another kernel.
        fs::write(cache.path(key(2)), &whole).expect("can be written");
        assert_eq!(cache.load(key(2)), None);
        fs::remove_dir_all(folder).expect("was made");
    }

    #[test]
    fn the_folder_stays_small() {
        let folder = folder("small");
        let cache = Cache::at(folder.clone()).with_room(4000);
        for n in 0..10 {
            cache.store(key(n), &[vec![n; 1000]]);
            // The times of files are coarse.
            std::thread::sleep(Duration::from_millis(15));
            // The first entry is used again and again.
            assert!(cache.load(key(0)).is_some(), "{n}");
        }
        let left: Vec<u8> = (0..10).filter(|&n| cache.load(key(n)).is_some()).collect();
        assert_eq!(left, [0, 8, 9]);
        cache.store(key(11), &[vec![0; 5000]]);
        assert_eq!(cache.load(key(11)), None, "larger than the room");
        fs::remove_dir_all(folder).expect("was made");
    }

    #[test]
    fn many_may_use_one_folder_at_once() {
        let folder = folder("many");
        let cache = Cache::at(folder.clone());
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for round in 0..50u8 {
                        let n = (round + thread) % 5;
                        let found = cache.load(key(n));
                        assert!(found.is_none_or(|files| files == [vec![n; 10_000]]));
                        cache.store(key(n), &[vec![n; 10_000]]);
                    }
                });
            }
        });
        let left: Vec<_> = fs::read_dir(&folder).expect("is there").flatten().collect();
        assert_eq!(left.len(), 5, "nothing is left behind");
        fs::remove_dir_all(folder).expect("was made");
    }

    #[cfg(unix)]
    #[test]
    fn what_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("others");
        let cache = Cache::at(folder.clone());
        cache.store(key(1), &[vec![1]]);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("is ours");
        assert_eq!(cache.load(key(1)), None);
        fs::remove_dir_all(folder).expect("was made");
    }
}
