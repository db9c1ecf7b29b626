//! Modules in a file of their own: what `pullback build --module` writes, and `import` and `--link` read in place of the
//! source.
//!
//! Such a file holds the text of all files of the module, its own and those that it includes, and the macros that were
//! defined when it was built: they are checked when the file is built, and compile as they did then, wherever the file
//! is. The modules that it imports are no part of it: they are found beside it, or in a folder that `-I` names.
//!
//! The file is a line of text ([`MAGIC`]), the version of the format, the length of the content and its hash, and the
//! content: each list is its length and its elements, each text its length in bytes and these. Numbers are little-endian.
//! A file of another version, or one that is damaged, is refused.

/// The ending of such files.
pub const ENDING: &str = "pullback-module";
/// The beginning of every version of the format.
const MAGIC: &[u8] = b"pullback module\n";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// A module as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The macros that are defined in its files.
    pub defines: Vec<(String, String)>,
    /// The name of each file and its text. The first one is the module, which includes the others.
    pub files: Vec<(String, String)>,
    /// The inclusions: the number of the file that includes, what it names, and the number of the file that is meant.
    pub includes: Vec<(u32, String, u32)>,
}

/// Returns true if these are the bytes of a module of any version.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl Packed {
    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for list in [&self.defines, &self.files] {
            content.extend((list.len() as u32).to_le_bytes());
            for text in list.iter().flat_map(|(a, b)| [a, b]) {
                put(&mut content, text);
            }
        }
        content.extend((self.includes.len() as u32).to_le_bytes());
        for (from, name, to) in &self.includes {
            content.extend(from.to_le_bytes());
            put(&mut content, name);
            content.extend(to.to_le_bytes());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(hash(&content).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    /// Reads the bytes of a file; an error says why they are no module.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packed, String> {
        const DAMAGED: &str = "the module is damaged: build it again";
        let mut rest = bytes.strip_prefix(MAGIC).ok_or("it is no module of `pullback build --module`")?;
        let version = number::<4>(&mut rest).ok_or(DAMAGED)?;
        if version != u64::from(VERSION) {
            return Err(format!(
                "the module has version {version} of the format, and this program reads version {VERSION}: build it again"
            ));
        }
        let (length, sum) = (number::<8>(&mut rest), number::<8>(&mut rest));
        if length != Some(rest.len() as u64) || sum != Some(hash(rest)) {
            return Err(DAMAGED.into());
        }
        let mut packed = || {
            let mut lists = [Vec::new(), Vec::new()];
            for list in &mut lists {
                for _ in 0..number::<4>(&mut rest)? {
                    list.push((text(&mut rest)?, text(&mut rest)?));
                }
            }
            let [defines, files] = lists;
            let mut includes = Vec::new();
            for _ in 0..number::<4>(&mut rest)? {
                let (from, name) = (number::<4>(&mut rest)? as u32, text(&mut rest)?);
                includes.push((from, name, number::<4>(&mut rest)? as u32));
            }
            let is_file = |k: u32| (k as usize) < files.len();
            let fits =
                !files.is_empty() && includes.iter().all(|(from, _, to)| is_file(*from) && is_file(*to));
            (rest.is_empty() && fits).then_some(Packed { defines, files, includes })
        };
        packed().ok_or_else(|| DAMAGED.into())
    }
}

/// Appends a text.
fn put(content: &mut Vec<u8>, text: &str) {
    content.extend((text.len() as u64).to_le_bytes());
    content.extend(text.as_bytes());
}

/// Takes a number of so many bytes from the beginning.
fn number<const N: usize>(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, more) = rest.split_at_checked(N)?;
    *rest = more;
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes);
    Some(u64::from_le_bytes(all))
}

/// Takes a text from the beginning.
fn text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(number::<8>(rest)?).ok()?;
    let (bytes, more) = rest.split_at_checked(length)?;
    *rest = more;
    String::from_utf8(bytes.to_vec()).ok()
}

/// The FNV-1a hash, by which damage is found.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{MAGIC, Packed};

    #[test]
    fn a_module_is_read_as_it_was_written_or_refused() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let packed = Packed {
            defines: vec![pair("N", "4")],
            files: vec![pair("m.slang", "int f();"), pair("a/b.slang", "")],
            includes: vec![(0, "b".to_owned(), 1)],
        };
        let bytes = packed.to_bytes();
        assert_eq!(Packed::from_bytes(&bytes), Ok(packed));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Packed::from_bytes(&damaged).is_err(), "{at}");
            assert!(Packed::from_bytes(&bytes[..at]).is_err(), "{at}");
        }
        let mut later = bytes;
        later[MAGIC.len()] = 2;
        let why = Packed::from_bytes(&later).expect_err("is refused");
        assert!(why.contains("version 2") && why.contains("build it again"), "{why}");
    }
}
