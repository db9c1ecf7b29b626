//! A chunked bump allocator: memory is allocated upwards and released to a mark.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FIRST: usize = 64 << 10;
/// The size of a line of a cache.
const LINE: usize = 64;
/// The mark of an arena without a chunk; there is no memory at this address.
const NOWHERE: usize = align_of::<u128>();
/// The default limit of the bytes that the arenas of all threads hold together. It makes an endless loop that
/// keeps residuals for its reversal end with an error message.
pub const DEFAULT_MEMORY: u64 = 2 << 30;

/// A limit of the bytes that several arenas hold together.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    held: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget { limit, held: AtomicU64::new(0) })
    }

    fn take(&self, bytes: usize) -> bool {
        let held = self.held.fetch_add(bytes as u64, Ordering::Relaxed);
        let fits = held.checked_add(bytes as u64).is_some_and(|all| all <= self.limit);
        if !fits {
            self.give(bytes);
        }
        fits
    }

    fn give(&self, bytes: usize) {
        self.held.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// The arena of a thread. Compiled code allocates and releases within a chunk by itself, through the first
/// three fields. `top` is always aligned to 16, and serves as the mark.
#[repr(C)]
pub struct Arena {
    top: usize,
    end: usize,
    base: usize,
    current: usize,
    /// The first chunk is allocated on first use: code that needs no memory allocates none.
    chunks: Vec<Vec<MaybeUninit<u128>>>,
    /// Every chunk but the first counts against the budget.
    budget: Arc<Budget>,
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.give_back(1);
    }
}

impl Arena {
    /// An empty arena that shares `budget` with other arenas.
    pub fn new(budget: Arc<Budget>) -> Arena {
        let mut arena = Arena { top: 0, end: 0, base: 0, current: 0, chunks: vec![Vec::new()], budget };
        arena.enter(0);
        arena
    }

    /// The number of bytes that all arenas with the same budget may hold together.
    pub fn limit(&self) -> u64 {
        self.budget.limit
    }

    /// Frees the chunks from number `from` on.
    fn give_back(&mut self, from: usize) {
        for chunk in self.chunks.drain(from.min(self.chunks.len())..) {
            self.budget.give(chunk.capacity() * 16);
        }
    }

    /// Allocates `bytes` of memory, aligned to 16, or to the line of a cache if it fills one: vectors that cross lines
    /// take twice as long. `None` if there is not enough.
    pub fn alloc(&mut self, bytes: u64) -> Option<*mut u8> {
        let bytes = usize::try_from(bytes).ok()?.checked_add(15)? & !15;
        let align = if bytes < LINE { 16 } else { LINE };
        let mut at = self.top.next_multiple_of(align);
        if self.end.checked_sub(at).is_none_or(|room| room < bytes) {
            self.next_chunk(bytes.checked_add(align - 16)?)?;
            at = self.top.next_multiple_of(align);
        }
        self.top = at + bytes;
        let at = at as *mut u8;
        if cfg!(debug_assertions) {
            // Reads of uninitialised memory find NaN instead of, by chance, the right number.
            // SAFETY: the bytes are within the chunk and not in use yet.
            unsafe { at.write_bytes(0xff, bytes.min(1 << 16)) };
        }
        Some(at)
    }

    /// Releases everything allocated since `top` was `mark`.
    pub fn release(&mut self, mark: usize) {
        while !(self.base..=self.end).contains(&mark) && self.current > 0 {
            self.enter(self.current - 1);
        }
        // A mark taken before there was a chunk stands for the start of the first chunk.
        debug_assert!((self.base..=self.end).contains(&mark) || mark == NOWHERE);
        self.top = mark.max(self.base);
    }

    /// Releases everything.
    pub fn reset(&mut self) {
        self.enter(0);
    }

    /// The size of all chunks in bytes.
    pub fn held(&self) -> usize {
        self.chunks.iter().map(|c| c.capacity() * 16).sum()
    }

    fn next_chunk(&mut self, bytes: usize) -> Option<()> {
        if self.chunks[0].capacity() == 0 {
            self.chunks[0].try_reserve_exact(FIRST / 16).ok()?;
            self.enter(0);
            if bytes <= FIRST {
                return Some(());
            }
        }
        let next = self.current + 1;
        let fits = self.chunks.get(next).is_some_and(|c| c.capacity() * 16 >= bytes);
        if !fits {
            // Chunks past the current one hold nothing: a mark always lies in an earlier one.
            self.give_back(next);
            let mut chunk = Vec::new();
            // If the budget does not allow a chunk of the usual size, allocate only what is needed.
            let size = [bytes.max(FIRST << next.min(14)), bytes]
                .into_iter()
                .find(|&size| self.budget.take(size.next_multiple_of(16)))?;
            if chunk.try_reserve_exact(size.div_ceil(16)).is_err() {
                self.budget.give(size.next_multiple_of(16));
                return None;
            }
            self.chunks.push(chunk);
        }
        self.enter(next);
        Some(())
    }

    fn enter(&mut self, chunk: usize) {
        self.current = chunk;
        self.base = self.chunks[chunk].as_mut_ptr() as usize;
        self.end = self.base + self.chunks[chunk].capacity() * 16;
        self.top = self.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_begins_with_a_line() {
        let mut arena = Arena::new(Budget::new(DEFAULT_MEMORY));
        for k in 0..2_000 {
            let (bytes, mark) = (1 + k * 13 % 300, arena.top);
            let at = arena.alloc(bytes).expect("memory") as usize;
            assert!(at.is_multiple_of(if bytes > 48 { LINE } else { 16 }));
            assert!(arena.base <= at && at + bytes as usize <= arena.top && arena.top <= arena.end);
            assert!(at >= mark || arena.top < mark || arena.base > mark);
        }
    }

    #[test]
    fn marks_work_across_chunks() {
        let mut arena = Arena::new(Budget::new(DEFAULT_MEMORY));
        let (nothing, mark) = (arena.held(), arena.top);
        assert_eq!((nothing, mark), (0, NOWHERE));
        let first = arena.alloc(100).expect("memory");
        arena.release(mark);
        assert_eq!(arena.alloc(100), Some(first));
        let mark = arena.top;
        for _ in 0..100 {
            arena.alloc(10_000).expect("memory");
        }
        let used = arena.chunks.len();
        arena.release(mark);
        assert_eq!(arena.top, first as usize + 112);
        for _ in 0..100 {
            arena.alloc(10_000).expect("memory");
        }
        assert_eq!(arena.chunks.len(), used);
        arena.release(mark);
        arena.alloc(1 << 24).expect("memory");
        assert!(arena.alloc(u64::MAX - 3).is_none());
        assert!(arena.alloc(1 << 62).is_none());
    }
}
