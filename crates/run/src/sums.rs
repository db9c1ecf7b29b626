//! What threads only add floats to: each worker adds to zeros of its own, without locks, and those are added to the
//! buffer in the end.
//!
//! A small buffer's zeros are memory that is allocated and added as a whole. Of a large one a worker has the addresses
//! only: the system gives a page of zeros where one is first touched, and says in the end which those are. So a large
//! buffer costs no more than what is touched of it, if that is a page for every so many threads.

use native::{Compiled, Desc};

/// Bytes of a buffer that workers have a whole copy of, at most; and its numbers for each thread.
const MOST_WHOLE: u64 = 256 << 10;
const NUMBERS_EACH: u64 = 4;

/// A worker's zeros in the place of the buffers of sums.
pub(crate) struct Sums {
    list: Vec<Sum>,
    /// Whether nothing else is added to atomically, floats anyway.
    pub(crate) all: bool,
}

/// Zeros in the place of a buffer.
struct Sum {
    global: usize,
    bits: u32,
    count: u64,
    /// Where they begin: code writes there between `new` and `add_to`.
    start: *mut u8,
    memory: Memory,
}

enum Memory {
    Whole(#[expect(dead_code, reason = "owned; used by its address")] Vec<u128>),
    #[cfg(target_os = "linux")]
    Pages(pages::Pages),
}

// SAFETY: the zeros are owned, wherever they are.
unsafe impl Send for Sums {}

impl Sums {
    /// No zeros: the worker adds to the buffers themselves.
    pub(crate) fn none() -> Sums {
        Sums { list: Vec::new(), all: false }
    }

    /// Whether all that an entry point adds to can have whole copies, for a dispatch of so many threads.
    pub(crate) fn are_whole(code: &Compiled, entry: usize, descs: &[Desc], threads: u64) -> bool {
        let facts = code.sums(entry);
        facts.all && facts.globals.iter().all(|&(global, bits)| is_whole(count(descs, global), bits, threads))
    }

    /// Puts zeros in the place of what is only added to, where that pays in a dispatch of so many threads.
    pub(crate) fn new(code: &Compiled, entry: usize, descs: &mut [Desc], threads: u64) -> Sums {
        let facts = code.sums(entry);
        let mut list = Vec::new();
        let mut missing = false;
        for &(global, bits) in &facts.globals {
            let count = count(descs, global);
            if count == 0 {
                continue;
            }
            match Memory::new(count, bits, threads) {
                None => missing = true,
                Some((start, memory)) => {
                    descs[global].ptr = start;
                    list.push(Sum { global, bits, count, start, memory });
                }
            }
        }
        Sums { list, all: facts.all && !missing }
    }

    /// Adds what is not zero to the buffers.
    ///
    /// # Safety
    /// The buffers are those that the zeros stand for, and nobody else touches them meanwhile.
    pub(crate) unsafe fn add_to(&self, descs: &[Desc]) {
        for sum in &self.list {
            let desc = &descs[sum.global];
            for (first, n) in sum.touched() {
                // SAFETY: the buffer has `count` floats, so have the worker's zeros, and the range is within.
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

/// The elements of a global's buffer.
fn count(descs: &[Desc], global: usize) -> u64 {
    descs.get(global).map_or(0, |desc| desc.count)
}

fn is_whole(count: u64, bits: u32, threads: u64) -> bool {
    count <= threads.saturating_mul(NUMBERS_EACH) && count.saturating_mul(u64::from(bits / 8)) <= MOST_WHOLE
}

impl Memory {
    fn new(count: u64, bits: u32, threads: u64) -> Option<(*mut u8, Memory)> {
        let bytes = count.checked_mul(u64::from(bits / 8))?;
        if is_whole(count, bits, threads) {
            let mut memory = vec![0u128; bytes.div_ceil(16) as usize];
            return Some((memory.as_mut_ptr().cast(), Memory::Whole(memory)));
        }
        #[cfg(target_os = "linux")]
        return pages::Pages::new(bytes, threads).map(|pages| (pages.start(), Memory::Pages(pages)));
        #[cfg(not(target_os = "linux"))]
        None
    }
}

impl Sum {
    /// Ranges of elements, with how many they have, beyond which all is zero.
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
/// Both have `first + n` numbers of this type, and nobody else touches those of `to` meanwhile.
unsafe fn add<T: Copy + Default + PartialEq + std::ops::AddAssign>(
    to: *mut u8,
    from: *const u8,
    first: usize,
    n: usize,
) {
    // SAFETY: the caller's.
    let (to, from) = unsafe {
        let to = std::slice::from_raw_parts_mut(to.cast::<T>().add(first), n);
        (to, std::slice::from_raw_parts(from.cast::<T>().add(first), n))
    };
    let zero = T::default();
    to.iter_mut().zip(from).filter(|(_, x)| **x != zero).for_each(|(sum, x)| *sum += *x);
}

#[cfg(target_os = "linux")]
mod pages {
    //! Zeros that take memory page by page, as they are touched.

    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    /// So many threads are worth a page, and so many bytes are the most.
    const THREADS_EACH: u64 = 64;
    const MOST: u64 = 256 << 20;
    /// Bytes that the system has for a page of ours, and the bits that say that it is there or elsewhere.
    const ENTRY: usize = 8;
    const THERE: u64 = 3 << 62;

    /// Addresses of zeros.
    pub(super) struct Pages {
        start: *mut u8,
        bytes: usize,
        page: usize,
        map: File,
    }

    impl Pages {
        /// So many bytes of zeros, if they are worth it and the system can say what was touched.
        pub(super) fn new(bytes: u64, threads: u64) -> Option<Pages> {
            // SAFETY: asks for a number.
            let page =
                usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|&p| p > 0)?;
            if bytes > MOST || bytes / page as u64 > threads / THREADS_EACH {
                return None;
            }
            let map = File::open("/proc/self/pagemap").ok()?;
            // A last page is touched here, and the one before it never: see `touched`.
            let bytes = (bytes as usize).next_multiple_of(page) + 2 * page;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: new memory, of which nothing is said but its size.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            };
            if start == libc::MAP_FAILED {
                return None;
            }
            let pages = Pages { start: start.cast(), bytes, page, map };
            // SAFETY: the memory is ours; large pages would take what is not touched; the last page is within.
            unsafe {
                libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
                *pages.start.add(bytes - page) = 1;
            }
            Some(pages)
        }

        pub(super) fn start(&self) -> *mut u8 {
            self.start
        }

        /// The bytes of pages that were touched, as ranges; all, if the system does not know.
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
            // SAFETY: mapped in `new` with this size; nobody has the address any more.
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
                // SAFETY: within the memory.
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
