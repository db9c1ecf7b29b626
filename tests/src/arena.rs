//! Memory for one thread of a module whose stacks are in an arena (`opt::arena`).

use ir::Module;
use ir::interp::Memory;
use opt::arena::{ARENA, HEAD, STATE};

/// The bytes behind the arena, which nobody must touch.
const BEHIND: usize = 64;
/// The value of each byte that the thread must not touch.
const MARK: u8 = 0x5a;

/// A thread, among those whose parts of the arena are interleaved.
#[derive(Clone, Copy)]
pub struct Thread {
    /// Its number.
    pub number: u32,
    /// The number of threads.
    pub of: u32,
}

/// The second of three threads.
pub const SECOND: Thread = Thread { number: 1, of: 3 };

/// Binds an arena whose parts have so many bytes behind their heads, if the module has an arena.
pub fn bind(module: &Module, memory: &mut Memory, bytes: u32) {
    bind_for(module, memory, bytes, SECOND);
}

/// Binds an arena for that thread. The words of the others are marked, if there are few.
pub fn bind_for(module: &Module, memory: &mut Memory, bytes: u32, thread: Thread) {
    let words = |n: u32| n.to_le_bytes().to_vec();
    // Whole words, for all threads.
    let bytes = HEAD + bytes;
    let part = bytes.next_multiple_of(4) as usize;
    for (global, data) in &module.globals {
        match &data.name[..] {
            ARENA => {
                // Pages that nobody touches take no memory.
                let mut all = vec![0; part * thread.of as usize + BEHIND];
                let end = all.len() - BEHIND;
                all[end..].fill(MARK);
                if thread.of <= SECOND.of {
                    let others = all[..end].chunks_exact_mut(4).enumerate();
                    others.filter(|(k, _)| !thread.owns(*k)).for_each(|(_, word)| word.fill(MARK));
                }
                memory.bind(global, all);
            }
            STATE => memory.bind(global, vec![0; 20]),
            "arena_thread" => memory.bind(global, words(thread.number)),
            "arena_threads" => memory.bind(global, words(thread.of)),
            "arena_top" => memory.bind(global, words(HEAD)),
            "arena_end" => memory.bind(global, words(bytes)),
            "arena_lost" => memory.bind(global, words(0)),
            _ => {}
        }
    }
}

impl Thread {
    /// Returns true if a word of the arena is the thread's.
    fn owns(self, word: usize) -> bool {
        word % self.of as usize == self.number as usize
    }
}

/// Returns true if the part was large enough. Panics if something was written outside of it.
pub fn was_enough(module: &Module, memory: &Memory) -> bool {
    let bytes = |name: &str| {
        let global = module.globals.iter().find(|(_, data)| data.name == name).map(|(global, _)| global);
        global.map_or(&[][..], |global| memory.bytes(global))
    };
    let number = |name: &str| bytes(name).iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte));
    let thread = Thread { number: number("arena_thread"), of: number("arena_threads") };
    let arena = bytes(ARENA);
    if !arena.is_empty() {
        let (parts, behind) = arena.split_at(arena.len() - BEHIND);
        let is_marked = |bytes: &[u8]| bytes.iter().all(|&byte| byte == MARK);
        assert!(is_marked(behind), "something behind was written");
        let words = parts.chunks_exact(4).enumerate();
        let head = (HEAD / 4 * thread.of) as usize;
        let is_kept = |(k, word): (usize, &[u8])| match thread.owns(k) {
            true => k >= head || word == [0; 4],
            false => thread.of > SECOND.of || is_marked(word),
        };
        assert!(words.into_iter().all(is_kept), "the head, or a word of another thread, was written");
    }
    let (short, lost) =
        (bytes(STATE).iter().take(4).any(|&b| b != 0), bytes("arena_lost").iter().any(|&b| b != 0));
    assert_eq!(short, lost, "the host is told what was lost");
    !lost
}
