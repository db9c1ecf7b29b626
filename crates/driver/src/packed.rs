//! Compiled modules: what `pullback build --module` writes, and `import` and `--link` read in place of the source.
//!
//! Such a file holds the syntax tree of a module, with all files that belong to it, as `syntax::stored` writes it: its
//! source was lexed, preprocessed with the macros of its command line, parsed and checked when the file was built. It
//! means the same wherever it is, and nothing of the text is in it: no comments, no layout and no macros. Where
//! declarations are is, so that diagnostics have lines. The modules that it imports are no part of it: they are found
//! beside it, or in a folder that `-I` names.
//!
//! It stores what the parser makes rather than what later stages do, since those work on demand and depend on the
//! program: which bodies are reached, which types generics have, and which extensions and derivatives there are.
//!
//! The file is a line of text ([`MAGIC`]), the version of the format, the compiler's version, a number for the form of
//! its trees, the length of the content and its hash, and the content: each list is its length and its elements, each
//! text its length in bytes and these. Numbers are little-endian. A file of another version or another compiler is
//! refused, and so is one that is damaged.

/// The ending of such files.
pub const ENDING: &str = "pullback-module";
/// The beginning of every version of the format.
const MAGIC: &[u8] = b"pullback module\n";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 2;
/// The compiler that writes: only one with the same language reads it.
const COMPILER: &str = env!("CARGO_PKG_VERSION");
/// Said of a file that is not as it was written.
pub(crate) const DAMAGED: &str = "the module is damaged: build it again";

/// A compiled module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The name of each file and the length of each of its lines. The first one is the module; parts follow, and then
    /// what is included as text.
    pub files: Vec<(String, Vec<u32>)>,
    /// The files that `__include` and `implementing` name: the number of the file that says it, the name, and the
    /// number of the file that is meant.
    pub parts: Vec<(u32, String, u32)>,
    /// The syntax tree of the module and its parts.
    pub tree: Vec<u8>,
}

/// Returns true if these are the bytes of a module of any version.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl Packed {
    /// The bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let length = |n: usize| (n as u32).to_le_bytes();
        content.extend(length(self.files.len()));
        for (name, lines) in &self.files {
            put(&mut content, name.as_bytes());
            content.extend(length(lines.len()));
            lines.iter().for_each(|line| content.extend(line.to_le_bytes()));
        }
        content.extend(length(self.parts.len()));
        for (from, name, to) in &self.parts {
            content.extend(from.to_le_bytes());
            put(&mut content, name.as_bytes());
            content.extend(to.to_le_bytes());
        }
        put(&mut content, &self.tree);
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        put(&mut bytes, COMPILER.as_bytes());
        bytes.extend(syntax::stored::form().to_le_bytes());
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(hash(&content).to_le_bytes());
        bytes.extend(content);
        bytes
    }

    /// Reads the bytes of a file; an error says why they are no module that this compiler reads.
    pub fn from_bytes(bytes: &[u8]) -> Result<Packed, String> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or("it is no module of `pullback build --module`")?;
        let version = number::<4>(&mut rest).ok_or(DAMAGED)?;
        if version != u64::from(VERSION) {
            return Err(format!(
                "the module has version {version} of the format, and this program reads version {VERSION}: build it again"
            ));
        }
        let compiler = text(&mut rest).ok_or(DAMAGED)?;
        if compiler != COMPILER {
            return Err(format!(
                "the module was built by version {compiler} of Pullback, and this is version {COMPILER}: build it again"
            ));
        }
        if number::<8>(&mut rest).ok_or(DAMAGED)? != syntax::stored::form() {
            return Err(format!(
                "the module was built by another build of Pullback {COMPILER}: build it again"
            ));
        }
        let (length, sum) = (number::<8>(&mut rest), number::<8>(&mut rest));
        if length != Some(rest.len() as u64) || sum != Some(hash(rest)) {
            return Err(DAMAGED.into());
        }
        content(rest).ok_or_else(|| DAMAGED.into())
    }
}

/// Reads the content of a file, all of it.
fn content(mut rest: &[u8]) -> Option<Packed> {
    let mut packed = Packed::default();
    for _ in 0..number::<4>(&mut rest)? {
        let name = text(&mut rest)?;
        let n_lines = number::<4>(&mut rest)?;
        let (lines, more) = rest.split_at_checked(usize::try_from(n_lines).ok()?.checked_mul(4)?)?;
        rest = more;
        packed.files.push((name, lines.as_chunks().0.iter().map(|&line| u32::from_le_bytes(line)).collect()));
    }
    let total =
        packed.files.iter().flat_map(|file| &file.1).fold(0, |sum: u64, &line| sum + u64::from(line) + 1);
    if total > crate::files::PROGRAM {
        return None;
    }
    for _ in 0..number::<4>(&mut rest)? {
        let (from, name) = (number::<4>(&mut rest)? as u32, text(&mut rest)?);
        packed.parts.push((from, name, number::<4>(&mut rest)? as u32));
    }
    packed.tree = taken(&mut rest)?.to_vec();
    let is_file = |k: u32| (k as usize) < packed.files.len();
    let fits =
        !packed.files.is_empty() && packed.parts.iter().all(|(from, _, to)| is_file(*from) && is_file(*to));
    (rest.is_empty() && fits).then_some(packed)
}

/// Appends bytes after their length.
fn put(content: &mut Vec<u8>, bytes: &[u8]) {
    content.extend((bytes.len() as u64).to_le_bytes());
    content.extend(bytes);
}

/// Takes a number of so many bytes from the beginning.
fn number<const N: usize>(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, more) = rest.split_at_checked(N)?;
    *rest = more;
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes);
    Some(u64::from_le_bytes(all))
}

/// Takes bytes after their length from the beginning.
fn taken<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number::<8>(rest)?).ok()?;
    let (bytes, more) = rest.split_at_checked(length)?;
    *rest = more;
    Some(bytes)
}

/// Takes a text from the beginning.
fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(taken(rest)?.to_vec()).ok()
}

/// A hash like FNV-1a, of eight bytes at a time, by which damage is found.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|&word| u64::from_le_bytes(word));
    let mix = |h: u64, word: u64| ((h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(29);
    let hash = words.fold(0xcbf2_9ce4_8422_2325, mix);
    rest.iter().fold(hash ^ bytes.len() as u64, |h, &byte| mix(h, u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::{COMPILER, MAGIC, Packed};

    #[test]
    fn a_module_is_read_as_it_was_written_or_refused() {
        let packed = Packed {
            files: vec![("m.slang".into(), vec![8, 0]), ("a/b.slang".into(), vec![])],
            parts: vec![(0, "b".into(), 1)],
            tree: vec![1, 2, 3],
        };
        let bytes = packed.to_bytes();
        assert_eq!(Packed::from_bytes(&bytes), Ok(packed));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Packed::from_bytes(&damaged).is_err(), "{at}");
            assert!(Packed::from_bytes(&bytes[..at]).is_err(), "{at}");
        }
        let why = |at: usize, byte: u8| {
            let mut other = bytes.clone();
            other[at] = byte;
            Packed::from_bytes(&other).expect_err("is refused")
        };
        let version = MAGIC.len();
        let compiler = version + 4 + 8;
        let form = compiler + COMPILER.len();
        for (at, byte, said) in [
            (version, 1, "version 1 of the format"),
            (compiler, b'9', "by version 9."),
            (form, bytes[form] ^ 1, "another build"),
        ] {
            let why = why(at, byte);
            assert!(why.contains(said) && why.contains("build it again"), "{why}");
        }
    }
}
