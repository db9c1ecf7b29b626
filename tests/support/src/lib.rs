//! Helpers that tests of several crates share: random numbers that are the same in each run, numbers at which
//! mathematical functions are tried, and the programs of the repository.
//!
//! It depends on nothing, so the tests of every crate can use it. What needs the compiler is in `pullback-tests`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

/// A sequence of numbers that look random, and that are the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn step(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        // The low bits of a step have short periods.
        (self.step() >> 32) << 32 | self.step() >> 32
    }

    /// A whole number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.step() >> 33) as usize) % n.max(1)
    }

    /// A number from 0 to less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.step() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of any magnitude that is relevant for mathematical functions.
    pub fn number(&mut self) -> f64 {
        let (kind, x) = (self.unit(), 2.0 * self.unit() - 1.0);
        match kind {
            k if k < 0.3 => x,
            k if k < 0.6 => 20.0 * x,
            k if k < 0.7 => 750.0 * x,
            k if k < 0.8 => 1.25 + 0.75 * x,
            _ => x.signum() * 2f64.powf(90.0 * self.unit() - 60.0),
        }
    }
}

/// Numbers at which mathematical functions have limits, or change the way in which they are computed.
pub const SPECIAL: [f64; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    5e-324,
    1e-310,
    -1e-310,
    1e300,
    -1e300,
    709.9,
    -745.2,
    1024.0,
    3.0,
    1.2e308,
    -1.7e308,
];

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files with one of these endings below a folder, ordered by path. A folder that is missing has none.
pub fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| endings.contains(&e)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The programs below some folders of the repository, ordered by path.
pub fn programs(folders: &[&str]) -> Vec<PathBuf> {
    let root = repository();
    let mut found: Vec<PathBuf> =
        folders.iter().flat_map(|folder| files(&root.join(folder), &["slang"])).collect();
    found.sort();
    assert!(!found.is_empty(), "there are programs in {folders:?}");
    found
}

/// The start of a character at a place of a text, or before it.
pub fn boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_in_each_run_and_spread() {
        let numbers = |mut random: Random| -> Vec<usize> { (0..1000).map(|_| random.below(10)).collect() };
        assert_eq!(numbers(Random(7)), numbers(Random(7)));
        assert_ne!(numbers(Random(7)), numbers(Random(8)));
        for digit in 0..10 {
            let n = numbers(Random(7)).iter().filter(|&&x| x == digit).count();
            assert!((60..140).contains(&n), "{digit}: {n}");
        }
        let mut random = Random(1);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn programs_are_found() {
        let all = programs(&["tests", "examples"]);
        assert!(all.len() > 300 && all.is_sorted(), "{}", all.len());
        assert!(all.iter().any(|path| path.ends_with("examples/gaussians.slang")));
        assert_eq!(files(Path::new("/nowhere"), &["slang"]), Vec::<PathBuf>::new());
        assert_eq!([0, 1, 2, 3].map(|at| boundary("aäb", at)), [0, 1, 1, 3]);
    }
}
