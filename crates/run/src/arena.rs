//! The size of a thread's part of an arena on a device, and the words that tell it.
//!
//! How much the threads of a dispatch keep is not known in advance. A dispatch whose parts were too small is
//! repeated with larger ones: four times as large, or as large as the device has room for, as long as that is
//! more than what was too small.

/// The bytes of a part at first, or fewer if there is no room for them.
pub(crate) const FIRST: u64 = 1 << 10;
/// The bytes that each part is a multiple of, so that all numbers in it are aligned.
const ALIGN: u64 = 16;

/// The bytes of a part, where so many are wanted and `threads` parts have `room` bytes together; `None` if that is
/// no more than was too small already.
pub(crate) fn part(wanted: u64, too_small: u64, threads: u64, room: u64) -> Option<u64> {
    let each = wanted.min(room / threads.max(1)) / ALIGN * ALIGN;
    (each > too_small).then_some(each)
}

/// The bytes of the arena's state.
pub(crate) const STATE: u64 = 20;

/// The arena's state at the start of a dispatch: whether a part was too small, and the fields that the host sets.
pub(crate) fn state(each: u64, groups: [u32; 3], threads: u64) -> Vec<u8> {
    let word = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let words = [0, word(each), groups[0], groups[1], word(threads)];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns true if the state says that a part was too small.
pub(crate) fn was_short(state: &[u8]) -> bool {
    state.iter().take(4).any(|&byte| byte != 0)
}

/// The bytes to ask for when a part was too small.
pub(crate) fn larger(too_small: u64) -> u64 {
    too_small.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that a dispatch tries whose threads keep `need` bytes, and if the last one is enough.
    fn tries(need: u64, threads: u64, room: u64) -> (Vec<u64>, bool) {
        let (mut all, mut wanted, mut too_small) = (Vec::new(), FIRST, 0);
        while let Some(each) = part(wanted, too_small, threads, room) {
            assert!(threads * each <= room && each % ALIGN == 0);
            all.push(each);
            if each >= need {
                return (all, true);
            }
            too_small = each;
            wanted = larger(each);
        }
        (all, false)
    }

    #[test]
    fn parts_grow_until_they_are_enough() {
        assert_eq!(tries(0, 192, 1 << 20), (vec![1 << 10], true));
        assert_eq!(tries(5000, 64, 1 << 20), (vec![1 << 10, 1 << 12, 1 << 14], true));
    }

    /// The last size is all that there is room for, and the search ends where that is too little.
    #[test]
    fn parts_have_what_there_is_room_for() {
        assert_eq!(tries(10_000, 100, 1 << 20), (vec![1 << 10, 1 << 12, 10_480], true));
        assert_eq!(tries(20_000, 100, 1 << 20), (vec![1 << 10, 1 << 12, 10_480], false));
        // The first size is only a guess, which must not be what the device has no memory for.
        assert_eq!(tries(64, 1 << 20, 100 << 20), (vec![96], true));
        assert_eq!(tries(100, 1 << 20, 100 << 20), (vec![96], false));
        assert_eq!(tries(4, 1 << 20, 1 << 23), (vec![], false));
        assert_eq!(tries(4, u64::MAX, u64::MAX), (vec![], false));
        assert_eq!(tries(4, 0, 1 << 20), (vec![1 << 10], true));
    }

    /// Nothing is limited to 2 GiB, or to 4.
    #[test]
    fn parts_of_more_than_all_that_31_bits_reach() {
        assert_eq!(
            tries(30_000, 100_000, u64::from(u32::MAX)),
            (vec![1 << 10, 1 << 12, 1 << 14, 42_944], true)
        );
        assert_eq!(tries(1 << 33, 2, 1 << 40).0.last(), Some(&(1 << 34)));
        assert_eq!(part(u64::MAX, 0, 1, u64::MAX), Some(u64::MAX / 16 * 16));
        assert_eq!(larger(u64::MAX / 2), u64::MAX);
    }
}
