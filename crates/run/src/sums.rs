//! Worker-local accumulation of floats into buffers that threads only add to: each worker adds to a zeroed
//! copy of its own, without locks, and the copies are added to the buffer at the end.
//!
//! For a small buffer, the copy is allocated and added as a whole. For a large buffer, a worker only reserves
//! addresses: the system provides a page of zeros where one is first touched, and reports the touched pages
//! at the end. A large buffer therefore costs no more than the pages that are touched, provided that there
//! are enough threads per page.

use native::plan::Summed;
use native::{Compiled, Desc};

/// The maximum size in bytes of a buffer of which workers have whole copies, and its maximum number of floats
/// per thread.
const MOST_WHOLE: u64 = 256 << 10;
const NUMBERS_EACH: u64 = 4;

/// The maximum number of portions of a dispatch whose sums have a fixed order; of floats in the copies of all portions, per
/// thread; and of bytes in them.
const MOST_PORTIONS: u64 = 64;
const PORTION_NUMBERS_EACH: u64 = MOST_PORTIONS * NUMBERS_EACH;
const MOST_IN_PORTIONS: u64 = 256 << 20;

/// A worker's zeroed copies of the buffers that are only added to.
pub(crate) struct Sums {
    list: Vec<Sum>,
    /// There are no other atomic additions to memory, at least not of floats.
    pub(crate) all: bool,
}

/// The zeroed copy of one buffer.
struct Sum {
    global: usize,
    bits: u32,
    count: u64,
    /// The start of the copy: code writes there between `new` and `add_to`.
    start: *mut u8,
    memory: Memory,
}

enum Memory {
    Whole(#[expect(dead_code, reason = "owned; used by its address")] Vec<u128>),
    #[cfg(target_os = "linux")]
    Pages(pages::Pages),
}

// SAFETY: the copies are owned, whichever kind of memory they are in.
unsafe impl Send for Sums {}

impl Sums {
    /// No copies: the worker adds to the buffers themselves.
    pub(crate) fn none() -> Sums {
        Sums { list: Vec::new(), all: false }
    }

    /// The number of portions of a dispatch of `threads` threads that each have copies of everything that an entry point
    /// adds to. It depends on the dispatch alone. `None` if clearing and adding so many copies would take longer than
    /// the threads gain.
    pub(crate) fn portions(code: &Compiled, entry: usize, descs: &[Desc], threads: u64) -> Option<u64> {
        let facts = code.sums(entry);
        let (mut numbers, mut bytes) = (0u64, 0u64);
        for sum in &facts.globals {
            let count = count(descs, sum);
            numbers = numbers.saturating_add(count);
            bytes = bytes.saturating_add(count.saturating_mul(u64::from(sum.bits / 8)));
        }
        let by_numbers = threads.saturating_mul(PORTION_NUMBERS_EACH) / numbers.max(1);
        let n = by_numbers.min(MOST_IN_PORTIONS / bytes.max(1)).min(MOST_PORTIONS);
        (facts.all && n > 1).then_some(n)
    }

    /// Replaces buffers that are only added to by zeroed copies in `descs`: where that pays off in a dispatch of `threads`
    /// threads, or all of them.
    pub(crate) fn new(code: &Compiled, entry: usize, descs: &mut [Desc], wanted: Wanted) -> Sums {
        let facts = code.sums(entry);
        let mut list = Vec::new();
        let mut missing = false;
        for sum in &facts.globals {
            let (global, bits, count) = (sum.global, sum.bits, count(descs, sum));
            if count == 0 {
                continue;
            }
            match Memory::new(count, bits, wanted) {
                None => missing = true,
                Some((start, memory)) => {
                    descs[global].ptr = start;
                    list.push(Sum { global, bits, count, start, memory });
                }
            }
        }
        Sums { list, all: facts.all && !missing }
    }

    /// Adds the nonzero elements of the copies to the buffers.
    ///
    /// # Safety
    /// `descs` are the buffers that the copies stand for, and nothing else accesses them during the call.
    pub(crate) unsafe fn add_to(&self, descs: &[Desc]) {
        for sum in &self.list {
            let desc = &descs[sum.global];
            for (first, n) in sum.touched() {
                // SAFETY: the buffer has `count` floats, so has the worker's copy, and the range is within
                // both.
                unsafe {
                    match sum.bits {
                        64 => add::<f64>(desc.ptr, sum.start, first, n),
                        _ => add::<f32>(desc.ptr, sum.start, first, n),
                    }
                }
            }
        }
    }
}

/// The buffers of which there are copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All.
    All,
    /// Those for which copies pay off in a dispatch of so many threads.
    For(u64),
}

/// The number of floats in a global's buffer.
fn count(descs: &[Desc], sum: &Summed) -> u64 {
    descs.get(sum.global).map_or(0, |desc| desc.count * sum.floats)
}

fn is_whole(count: u64, bits: u32, threads: u64) -> bool {
    count <= threads.saturating_mul(NUMBERS_EACH) && count.saturating_mul(u64::from(bits / 8)) <= MOST_WHOLE
}

impl Memory {
    fn new(count: u64, bits: u32, wanted: Wanted) -> Option<(*mut u8, Memory)> {
        let bytes = count.checked_mul(u64::from(bits / 8))?;
        let is_small = match wanted {
            Wanted::All => bytes <= MOST_WHOLE,
            Wanted::For(threads) => is_whole(count, bits, threads),
        };
        #[cfg(target_os = "linux")]
        if !is_small {
            let threads = if let Wanted::For(threads) = wanted { threads } else { u64::MAX };
            if let Some(pages) = pages::Pages::new(bytes, threads) {
                return Some((pages.start(), Memory::Pages(pages)));
            }
        }
        (is_small || wanted == Wanted::All).then(|| {
            let mut memory = vec![0u128; bytes.div_ceil(16) as usize];
            (memory.as_mut_ptr().cast(), Memory::Whole(memory))
        })
    }
}

impl Sum {
    /// Ranges of elements, as start and length, outside of which everything is zero.
    fn touched(&self) -> Vec<(usize, usize)> {
        let count = self.count as usize;
        match &self.memory {
            Memory::Whole(_) => vec![(0, count)],
            #[cfg(target_os = "linux")]
            Memory::Pages(pages) => {
                let each = self.bits as usize / 8;
                let elements = |(start, end): (usize, usize)| {
                    let (first, last) = (start / each, (end / each).min(count));
                    (first, last.saturating_sub(first))
                };
                pages.touched().into_iter().map(elements).collect()
            }
        }
    }
}

/// # Safety
/// Both have at least `first + n` numbers of this type, and nothing else accesses those of `to` during the
/// call.
unsafe fn add<T: Copy + Default + PartialEq + std::ops::AddAssign>(
    to: *mut u8,
    from: *const u8,
    first: usize,
    n: usize,
) {
    // SAFETY: guaranteed by the caller.
    let (to, from) = unsafe {
        let to = std::slice::from_raw_parts_mut(to.cast::<T>().add(first), n);
        (to, std::slice::from_raw_parts(from.cast::<T>().add(first), n))
    };
    let zero = T::default();
    to.iter_mut().zip(from).filter(|(_, x)| **x != zero).for_each(|(sum, x)| *sum += *x);
}

#[cfg(target_os = "linux")]
mod pages {
    //! Zeroed memory that is committed page by page, as pages are touched.

    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    /// The number of threads that justify a page, and the maximum number of bytes.
    const THREADS_EACH: u64 = 64;
    const MOST: u64 = 256 << 20;
    /// The size of a page's entry in the system's page map, and the bits that say that the page is present or
    /// swapped.
    const ENTRY: usize = 8;
    const THERE: u64 = 3 << 62;

    /// A reserved range of zeroed memory.
    pub(super) struct Pages {
        start: *mut u8,
        bytes: usize,
        page: usize,
        map: File,
    }

    impl Pages {
        /// Reserves `bytes` zeroed bytes, if there are enough threads and the system can report touched
        /// pages.
        pub(super) fn new(bytes: u64, threads: u64) -> Option<Pages> {
            // SAFETY: the call only returns a number.
            let page =
                usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|&p| p > 0)?;
            if bytes > MOST || bytes / page as u64 > threads / THREADS_EACH {
                return None;
            }
            let map = File::open("/proc/self/pagemap").ok()?;
            // Two pages are appended: the last is touched here, and the one before it never, as a check in
            // `touched`.
            let bytes = (bytes as usize).next_multiple_of(page) + 2 * page;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: this maps new memory at an address chosen by the system.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            let pages = Pages { start: start.cast(), bytes, page, map };
            // SAFETY: the mapping was made above and is not shared, and the last page is within it. Large
            // pages are turned off, since they would commit memory that is not touched.
            unsafe {
                libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
                *pages.start.add(bytes - page) = 1;
            }
            Some(pages)
        }

        pub(super) fn start(&self) -> *mut u8 {
            self.start
        }

        /// The touched pages as ranges of bytes; the whole memory if the system cannot tell.
        pub(super) fn touched(&self) -> Vec<(usize, usize)> {
            let n = self.bytes / self.page;
            let mut entries = vec![0u8; n * ENTRY];
            let from = (self.start as usize / self.page * ENTRY) as u64;
            let read = self.map.read_exact_at(&mut entries, from).is_ok();
            let is_there = |k: usize| {
                let entry: [u8; ENTRY] = std::array::from_fn(|b| entries[k * ENTRY + b]);
                u64::from_ne_bytes(entry) & THERE != 0
            };
            if !read || !is_there(n - 1) || is_there(n - 2) {
                return vec![(0, self.bytes - 2 * self.page)];
            }
            let mut ranges: Vec<(usize, usize)> = Vec::new();
            for k in (0..n - 2).filter(|&k| is_there(k)) {
                let (start, end) = (k * self.page, (k + 1) * self.page);
                match ranges.last_mut() {
                    Some(range) if range.1 == start => range.1 = end,
                    _ => ranges.push((start, end)),
                }
            }
            ranges
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the memory was mapped in `new` with this size, and its address is no longer used.
            unsafe { libc::munmap(self.start.cast(), self.bytes) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::Pages;

        #[test]
        fn what_was_touched_is_known() {
            let Some(pages) = Pages::new(40 << 20, u64::MAX) else { return };
            for at in [0, 5_000_000, 5_004_096, (40 << 20) - 1] {
                // SAFETY: the address is within the memory.
                unsafe { *pages.start().add(at) = 1 };
            }
            let touched = pages.touched();
            let holds = |at: usize| touched.iter().any(|r| r.0 <= at && at < r.1);
            assert!(holds(0) && holds(5_000_000) && holds(5_004_096) && holds((40 << 20) - 1));
            let bytes: usize = touched.iter().map(|r| r.1 - r.0).sum();
            assert!(bytes == 40 << 20 || bytes <= 4 * pages.page);
            assert!(Pages::new(40 << 20, 1000).is_none());
        }
    }
}
