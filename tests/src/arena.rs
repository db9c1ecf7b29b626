//! Memory for one thread of a module whose stacks are in an arena (`opt::arena`).

use ir::Module;
use ir::interp::Memory;
use opt::arena::{ARENA, HEAD, STATE};

/// The bytes behind the thread's part, which it must not touch.
const BEHIND: usize = 64;
/// The value of each of these bytes.
const MARK: u8 = 0x5a;

/// Binds an arena whose only part has so many bytes, if the module has an arena.
pub fn bind(module: &Module, memory: &mut Memory, bytes: u32) {
    bind_at(module, memory, HEAD, bytes);
}

/// Binds an arena in which the thread's part begins at a place.
pub fn bind_at(module: &Module, memory: &mut Memory, start: u32, bytes: u32) {
    let words = |n: u32| n.to_le_bytes().to_vec();
    for (global, data) in &module.globals {
        match &data.name[..] {
            ARENA => {
                // Pages that nobody touches take no memory.
                let mut all = vec![0; start as usize + bytes as usize + BEHIND];
                let end = all.len() - BEHIND;
                all[end..].fill(MARK);
                memory.bind(global, all);
            }
            STATE => memory.bind(global, vec![0; 16]),
            "arena_top" => memory.bind(global, words(start)),
            "arena_end" => memory.bind(global, words(start + bytes)),
            "arena_lost" => memory.bind(global, words(0)),
            _ => {}
        }
    }
}

/// Returns true if the part was large enough. Panics if something was written outside of it.
pub fn was_enough(module: &Module, memory: &Memory) -> bool {
    let bytes = |name: &str| {
        let global = module.globals.iter().find(|(_, data)| data.name == name).map(|(global, _)| global);
        global.map_or(&[][..], |global| memory.bytes(global))
    };
    let arena = bytes(ARENA);
    if !arena.is_empty() {
        assert!(arena[..HEAD as usize].iter().all(|&byte| byte == 0), "the head was written");
        assert!(
            arena[arena.len() - BEHIND..].iter().all(|&byte| byte == MARK),
            "something behind was written"
        );
    }
    let (short, lost) =
        (bytes(STATE).iter().take(4).any(|&b| b != 0), bytes("arena_lost").iter().any(|&b| b != 0));
    assert_eq!(short, lost, "the host is told what was lost");
    !lost
}
