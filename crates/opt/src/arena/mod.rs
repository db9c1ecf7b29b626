//! Turns stacks into memory of an arena, for devices, where a stack whose length is not known has no place.
//!
//! `stack<T>` ↦ `u32`, the place of a header in the arena; 0 is the empty stack
//!
//! The arena is a buffer of words that the host provides. Each thread of the dispatch has a part of it, whose size
//! the host chooses and tells in a second buffer, with the numbers of groups and threads. The parts are interleaved:
//! word `w` of thread `t` of `n` is word `w·n + t` of the buffer. So the threads of a wave, which mostly access the same
//! word of their parts at the same time, access adjacent memory, as the memory of a graphics processor wants it. A
//! place is a number of bytes within a part. The first [`HEAD`] bytes of a part are zero and stay so: they are the header
//! of the empty stack. After them, a thread takes memory from the front to the back. A header is the length, the
//! capacity and the place of the elements; a stack that outgrows its capacity moves to a place twice as
//! large. The values of a stack are immutable and therefore shared, but a cell owns what it changes in place:
//! that is copied when it is stored in the cell, and when it is loaded from one that is written later.
//! The stacks of a loop that are only read are one stack, whose elements are records (`records.rs`).
//!
//! Memory is given back by setting the front back: at the end of a function that gives no stack, and at the
//! end of a trip of a loop that carries none and leaves none in a cell outside of it.
//!
//! If a thread's part is too small, the thread sets the word `short` of the second buffer, and what did not
//! fit is lost: the stack keeps the elements that it had, and elements beyond are zero. No other memory is
//! touched, since every access is checked against the length; and every `loop` ends, since its condition also
//! asks whether something was lost, so the dispatch comes to its end. The host has to discard all that the
//! dispatch wrote, and to repeat it with a larger arena.

mod access;
mod cells;
mod records;
mod rewrite;
mod runtime;

use ir::analysis::Stage;
use ir::analysis::{Summaries, lasting};
use ir::transform::{cse, dce};
use ir::walk::reachable;
use ir::{
    Func, Function, Global, GlobalData, MemData, MemType, Module, Op, Scalar, Space, Span, Type, TypeData,
    Types,
};
use rustc_hash::{FxHashMap, FxHashSet};

use rewrite::Rewriter;

/// The number of bytes at the start of a part that are zero.
pub const HEAD: u32 = 16;
/// The name of the arena.
pub const ARENA: &str = "arena";
/// The name of the buffer that tells the size of each thread's part.
pub const STATE: &str = "arena_state";
/// The fields of that buffer's only element, each a `u32`. `short` is not zero if a thread's part was too
/// small; the host sets it to zero, and the others to the bytes of a thread's part, a multiple of four, the
/// numbers of groups along the first two axes, and the number of threads.
pub const FIELDS: [&str; 5] = ["short", "bytes", "groups_x", "groups_y", "threads"];

/// Returns true if the functions, or what they reach, have stacks.
pub fn has_stacks(module: &Module, roots: &[Func]) -> bool {
    Parts::of(module, roots).own.iter().any(|&f| uses_stacks(module, f))
}

/// Returns the module with the stacks of some functions, and of all that these reach, in an arena. Entry points
/// among them have to be kernels. Other functions stay as they are: what both need exists twice.
pub fn stacks_to_arena(module: &Module, roots: &[Func]) -> Module {
    let mut made = module.clone();
    // Derivatives have been made, and residuals in a signature become numbers.
    made.witnesses.clear();
    // The builder of a function has the types.
    let mut types = std::mem::take(&mut made.types);
    let mut cx = Cx::declare(&mut made, &mut types);
    let Parts { own, shared } = Parts::of(module, roots);
    let uses: FxHashMap<Func, bool> =
        module.funcs.keys().map(|f| (f, module.funcs[f].has_body() && uses_stacks(module, f))).collect();
    let mut places: FxHashMap<Func, Func> = FxHashMap::default();
    for &f in own.iter().filter(|&&f| uses[&f] && shared.contains(&f)) {
        let name = cx.module.free_name(&format!("{}_in_arena", module.funcs[f].name));
        places.insert(f, cx.module.funcs.push(Function { name, ..module.funcs[f].clone() }));
    }
    let mut changed = Vec::new();
    for &f in own.iter().filter(|f| uses[f]) {
        let is_entry = module.entries.iter().any(|entry| entry.func == f);
        let func = Rewriter::run(&mut cx, &mut types, module, f, &uses, is_entry);
        let place = places.get(&f).copied().unwrap_or(f);
        let name = cx.module.funcs[place].name.clone();
        cx.module.funcs[place] = Function { name, ..func };
        changed.push(place);
    }
    made.types = types;
    for &f in &changed {
        for data in made.funcs[f].insts.values_mut() {
            if let Op::Call(callee) = &mut data.op {
                *callee = places.get(callee).copied().unwrap_or(*callee);
            }
        }
    }
    for entry in made.entries.iter_mut().filter(|entry| roots.contains(&entry.func)) {
        entry.func = places.get(&entry.func).copied().unwrap_or(entry.func);
    }
    let summaries = Summaries::of(&made, Stage::AfterAd);
    for f in changed {
        let mut func = std::mem::take(&mut made.funcs[f]);
        cse::run(&mut made.types, &mut func, &summaries);
        dce::run(&mut func, &summaries);
        made.funcs[f] = func;
    }
    made
}

/// The functions whose stacks go to the arena.
struct Parts {
    /// Those that the roots reach, initialisers of globals included.
    own: Vec<Func>,
    /// Those that others reach, too. An initialiser is none: a global has only one, and it gives no stacks, so
    /// whoever needs it can use the one with the arena.
    shared: FxHashSet<Func>,
}

impl Parts {
    fn of(module: &Module, roots: &[Func]) -> Parts {
        let (mut roots, mut inits) = (roots.to_vec(), FxHashSet::default());
        let own = loop {
            let own = reachable(module, &roots);
            let before = roots.len();
            for data in own.iter().flat_map(|&f| module.funcs[f].insts.values()) {
                if let Op::GlobalRef(global) = data.op
                    && let Some(init) = module.globals[global].init
                    && inits.insert(init)
                {
                    roots.push(init);
                }
            }
            if roots.len() == before {
                break own;
            }
        };
        let is_own: FxHashSet<Func> = own.iter().copied().collect();
        let mut others: Vec<Func> = module.funcs.keys().filter(|f| !is_own.contains(f)).collect();
        others.extend(module.entries.iter().map(|entry| entry.func).filter(|f| !roots.contains(f)));
        let shared =
            reachable(module, &others).into_iter().filter(|f| is_own.contains(f) && !inits.contains(f));
        Parts { own, shared: shared.collect() }
    }
}

/// Returns true if a function, or one that it calls, has stacks.
fn uses_stacks(module: &Module, func: Func) -> bool {
    reachable(module, &[func]).into_iter().any(|f| {
        let f = &module.funcs[f];
        f.values.values().any(|v| module.types.has_stack(v.ty))
    })
}

/// The functions of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Helper {
    /// `(bytes) -> place`, 0 if there is no room.
    Take,
    /// `(stack, n, size) -> stack`, with room for `n` elements of `size` bytes.
    Room,
    /// `(stack, index, size, low, high) -> stack`, with an element `index`; the words of new elements are `low`
    /// and `high` in turn.
    Grow,
    /// `(n, size) -> stack`, of `n` elements that are not set.
    Make,
    /// `(stack, size) -> stack`, a copy; the number is that of the stacks around the elements, less one.
    Copy(u32),
    /// `(to, from) -> to`, the sum of two stacks of this type.
    Add(Type),
}

/// The state that all functions share.
struct Cx<'a> {
    module: &'a mut Module,
    arena: Global,
    state: Global,
    /// The number of the thread, and of all threads.
    thread: Global,
    threads: Global,
    /// The place of the next byte that is free, the end of the thread's part, and whether something was lost.
    top: Global,
    end: Global,
    lost: Global,
    helpers: FxHashMap<Helper, Func>,
}

/// A type as it is in the arena.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    /// Numbers, with at least 32 bits each: their type, and how many there are.
    Numbers(Scalar, u32),
    /// An array.
    Array(Type, u32),
    /// The place of a stack.
    Stack,
}

impl<'a> Cx<'a> {
    /// Declares the globals.
    fn declare(module: &'a mut Module, types: &mut Types) -> Cx<'a> {
        let word = module.mem.intern(MemData::Scalar(Scalar::U32));
        let fields = FIELDS.iter().map(|name| (name.to_string(), word)).collect();
        let state = module.mem.intern(MemData::Struct { name: "ArenaState".into(), fields, placement: None });
        let mut global = |name: &str, space: Space, ty: MemType| {
            module.globals.push(GlobalData { name: name.into(), space, ty, init: None, span: Span::NONE })
        };
        let arena = global(ARENA, Space::Arena, word);
        let state = global(STATE, Space::Arena, state);
        let thread = global("arena_thread", Space::Private, word);
        let threads = global("arena_threads", Space::Private, word);
        let top = global("arena_top", Space::Private, word);
        let end = global("arena_end", Space::Private, word);
        let lost = global("arena_lost", Space::Private, word);
        let mut cx =
            Cx { module, arena, state, thread, threads, top, end, lost, helpers: FxHashMap::default() };
        cx.initialise(types);
        cx
    }

    /// The form of a type in the arena.
    fn element(&mut self, types: &mut Types, ty: Type) -> Element {
        let wide = |s: Scalar| match s {
            Scalar::Bool | Scalar::U8 | Scalar::U16 => Scalar::U32,
            Scalar::I8 | Scalar::I16 => Scalar::I32,
            Scalar::F16 => Scalar::F32,
            _ => s,
        };
        match types[ty] {
            TypeData::Scalar(s) => Element::Numbers(wide(s), 1),
            TypeData::Vector(s, n) => Element::Numbers(wide(s), n),
            TypeData::Array(of, n) => Element::Array(of, n),
            TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
                Element::Stack
            }
        }
    }

    /// The number of bytes of a value in the arena.
    fn size(&mut self, types: &mut Types, ty: Type) -> u32 {
        match self.element(types, ty) {
            Element::Numbers(s, n) => s.bytes() * n,
            Element::Array(of, n) => self.size(types, of).saturating_mul(n),
            Element::Stack => 4,
        }
    }
}

/// The words of an absent differential, or of zero.
fn filling(types: &Types, ty: Type) -> (u32, u32) {
    match types.scalar_of(ty) {
        _ if types.has_stack(ty) => (0, 0),
        Some(Scalar::F16 | Scalar::F32) => (1 << 31, 1 << 31),
        Some(Scalar::F64) => (0, 1 << 31),
        _ => (0, 0),
    }
}

/// The type without stacks.
fn plain(types: &mut Types, ty: Type) -> Type {
    match types[ty] {
        TypeData::Stack(_) => Type::U32,
        TypeData::Cell(of) if types.has_stack(of) => types.cell(Type::U32),
        _ => ty,
    }
}

/// Facts about a function that is rewritten.
struct Facts {
    defs: ir::Defs,
    uses: cranelift_entity::SecondaryMap<ir::Value, u32>,
    lasting: cranelift_entity::EntitySet<ir::Value>,
}

impl Facts {
    fn of(f: &Function) -> Facts {
        Facts { defs: ir::Defs::of(f), uses: ir::walk::use_counts(f), lasting: lasting(f) }
    }
}
