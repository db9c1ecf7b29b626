//! A bump allocator in chunks: memory is handed out upwards and given back to a mark.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FIRST: usize = 64 << 10;
/// The mark of an arena that has no chunk: no memory is there.
const NOWHERE: usize = align_of::<u128>();
/// The bytes that the arenas of all threads hold together at most, if nobody says otherwise: a loop without an end that
/// keeps what its reversal needs shall end with a message.
pub const DEFAULT_MEMORY: u64 = 2 << 30;

/// The bytes that some arenas may hold together.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    held: AtomicU64,
}

impl Budget {
    /// So many bytes.
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

/// The arena of a thread. Compiled code allocates and releases within a chunk by itself, by the
/// first three fields; `top` is always aligned to 16, and is the mark.
#[repr(C)]
pub struct Arena {
    top: usize,
    end: usize,
    base: usize,
    current: usize,
    /// The first is made once it is needed: code that needs no memory takes none.
    chunks: Vec<Vec<MaybeUninit<u128>>>,
    /// Chunks but the first count.
    budget: Arc<Budget>,
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.give_back(1);
    }
}

impl Arena {
    /// An arena, empty so far, that shares what it may hold with others.
    pub fn new(budget: Arc<Budget>) -> Arena {
        let mut arena = Arena { top: 0, end: 0, base: 0, current: 0, chunks: vec![Vec::new()], budget };
        arena.enter(0);
        arena
    }

    /// The bytes that it and those that share with it may hold.
    pub fn limit(&self) -> u64 {
        self.budget.limit
    }

    /// Frees the chunks from this one on.
    fn give_back(&mut self, from: usize) {
        for chunk in self.chunks.drain(from.min(self.chunks.len())..) {
            self.budget.give(chunk.capacity() * 16);
        }
    }

    /// `bytes` of memory, aligned to 16; `None` if there is none.
    pub fn alloc(&mut self, bytes: u64) -> Option<*mut u8> {
        let bytes = usize::try_from(bytes).ok()?.checked_add(15)? & !15;
        if self.end - self.top < bytes {
            self.next_chunk(bytes)?;
        }
        let at = self.top as *mut u8;
        self.top += bytes;
        if cfg!(debug_assertions) {
            // Whoever reads what nobody wrote finds NaN and not, by chance, the right number.
            // SAFETY: the bytes are within the chunk and belong to nobody yet.
            unsafe { at.write_bytes(0xff, bytes.min(1 << 16)) };
        }
        Some(at)
    }

    /// Gives back everything handed out since `top` was `mark`.
    pub fn release(&mut self, mark: usize) {
        while !(self.base..=self.end).contains(&mark) && self.current > 0 {
            self.enter(self.current - 1);
        }
        // A mark from before there was a chunk is that of its start.
        debug_assert!((self.base..=self.end).contains(&mark) || mark == NOWHERE);
        self.top = mark.max(self.base);
    }

    /// Gives everything back.
    pub fn reset(&mut self) {
        self.enter(0);
    }

    /// The bytes of all chunks.
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
            // No more than is needed where that is all there is.
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
