//! Removes barriers that order nothing: two accesses of group-shared memory or storage, by any threads, need one
//! barrier between them, and only if they are to the same memory and one of them writes.
//!
//! Each operation of a wave, and each access to a cooperative matrix, brings the barriers that it needs by itself. Next
//! to each other, most of them are superfluous. A barrier costs a device time, and a driver that makes a coroutine of
//! each kernel (lavapipe) compiles for a time that grows with the square of them.
//!
//! A body is read from its beginning to its end. A barrier is kept only once an access behind it conflicts with one
//! before it; if another barrier comes first, that one takes its place, and waits for the memory of both. Around a
//! block, a call or a jump with effects that this cannot follow, barriers are kept, and so is the last one of a block,
//! since what comes behind the block is not known; what comes before it is known only for a kernel.

use naga::{
    AddressSpace, Arena, Barrier, Block, Expression, Function, GlobalVariable, Handle, Module, Statement,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Removes superfluous barriers from all functions of the module.
pub(crate) fn merge(module: &mut Module) {
    let globals = &module.global_variables;
    let mut effects = FxHashMap::default();
    // Callees precede callers.
    for (handle, function) in module.functions.iter_mut() {
        let effect = merge_in(globals, &effects, function, Effect::unknown());
        effects.insert(handle, effect);
    }
    for entry in &mut module.entry_points {
        merge_in(globals, &effects, &mut entry.function, Effect::default());
    }
}

/// Memory that threads share. Buffers count as one, since a host may bind memory twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Memory {
    Storage,
    Shared(Handle<GlobalVariable>),
}

/// The effect of a piece of code on the memory that threads share.
#[derive(Clone, Debug, Default)]
struct Effect {
    reads: FxHashSet<Memory>,
    writes: FxHashSet<Memory>,
    /// It has a barrier, or does what this module does not look into.
    is_unknown: bool,
    /// It may leave a loop or begin its next trip.
    jumps: bool,
    /// It may leave the function.
    returns: bool,
}

impl Effect {
    fn unknown() -> Effect {
        Effect { is_unknown: true, ..Effect::default() }
    }

    fn add(&mut self, other: &Effect) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.is_unknown |= other.is_unknown;
        self.jumps |= other.jumps;
        self.returns |= other.returns;
    }

    /// Leaves what a barrier does not order.
    fn order(&mut self, barrier: Barrier) {
        if std::mem::take(&mut self.is_unknown) && !barrier.contains(Barrier::STORAGE) {
            self.reads.insert(Memory::Storage);
            self.writes.insert(Memory::Storage);
        }
        // There is no barrier of storage alone.
        let is_left = |memory: &Memory| *memory == Memory::Storage && !barrier.contains(Barrier::STORAGE);
        self.reads.retain(is_left);
        self.writes.retain(is_left);
        (self.jumps, self.returns) = (false, false);
    }

    /// Returns true if accesses of the first effect must not be ordered behind those of the second one.
    fn conflicts_with(&self, later: &Effect) -> bool {
        let is_access = !later.reads.is_empty() || !later.writes.is_empty();
        let touches = |memory| self.reads.contains(memory) || self.writes.contains(memory);
        later.is_unknown
            || later.jumps
            || later.returns
            || is_access && self.is_unknown
            || later.writes.iter().any(touches)
            || later.reads.iter().any(|memory| self.writes.contains(memory))
    }
}

fn merge_in(
    globals: &Arena<GlobalVariable>,
    callees: &FxHashMap<Handle<Function>, Effect>,
    function: &mut Function,
    before: Effect,
) -> Effect {
    let body = std::mem::take(&mut function.body);
    let walk = Walk { globals, callees, expressions: &function.expressions };
    let (body, effect) = walk.block(body, before);
    function.body = body;
    Effect { jumps: false, returns: false, ..effect }
}

/// The statements of a block so far.
struct Open {
    statements: Vec<Option<Statement>>,
    /// The effects up to the last barrier.
    before: Effect,
    /// The place of the last barrier, if nothing behind it conflicts with what is before it.
    pending: Option<usize>,
    /// The effects behind that barrier.
    behind: Effect,
}

impl Open {
    fn act(&mut self, effect: &Effect) {
        if let Some(at) = self.pending.filter(|_| self.before.conflicts_with(effect)) {
            self.pending = None;
            // Memory that the barrier does not wait for is as it was.
            if let Some(Statement::ControlBarrier(barrier)) = self.statements[at] {
                self.before.order(barrier);
            }
            let behind = std::mem::take(&mut self.behind);
            self.before.add(&behind);
        }
        match self.pending {
            Some(_) => self.behind.add(effect),
            None => self.before.add(effect),
        }
    }

    fn barrier(&mut self, mut barrier: Barrier) {
        if let Some(at) = self.pending.replace(self.statements.len()) {
            if let Some(Statement::ControlBarrier(earlier)) = self.statements[at].take() {
                barrier |= earlier;
            }
            let behind = std::mem::take(&mut self.behind);
            self.before.add(&behind);
        }
        self.statements.push(Some(Statement::ControlBarrier(barrier)));
    }
}

struct Walk<'a> {
    globals: &'a Arena<GlobalVariable>,
    callees: &'a FxHashMap<Handle<Function>, Effect>,
    expressions: &'a Arena<Expression>,
}

impl Walk<'_> {
    /// Removes barriers in a block, in front of which is what has the effect `before`, and says what the block does.
    fn block(&self, block: Block, before: Effect) -> (Block, Effect) {
        let mut whole = Effect::default();
        let mut open = Open { statements: Vec::new(), before, pending: None, behind: Effect::default() };
        for (statement, _) in block.span_into_iter() {
            if let Statement::ControlBarrier(barrier) = statement {
                whole.is_unknown = true;
                open.barrier(barrier);
                continue;
            }
            let (statement, effect) = self.statement(statement);
            open.act(&effect);
            whole.add(&effect);
            open.statements.push(Some(statement));
        }
        (Block::from_vec(open.statements.into_iter().flatten().collect()), whole)
    }

    fn inner(&self, block: &mut Block) -> Effect {
        let (new, effect) = self.block(std::mem::take(block), Effect::unknown());
        *block = new;
        effect
    }

    /// Removes barriers in a statement that is not one itself, and says what it does.
    fn statement(&self, mut statement: Statement) -> (Statement, Effect) {
        let mut effect = Effect::default();
        match &mut statement {
            Statement::Block(block) => effect.add(&self.inner(block)),
            Statement::If { accept, reject, .. } => {
                effect.add(&self.inner(accept));
                effect.add(&self.inner(reject));
            }
            Statement::Switch { cases, .. } => {
                cases.iter_mut().for_each(|case| effect.add(&self.inner(&mut case.body)));
            }
            Statement::Loop { body, continuing, .. } => {
                effect.add(&self.inner(body));
                effect.add(&self.inner(continuing));
                effect.jumps = false;
            }
            Statement::Emit(range) => {
                for handle in range.clone() {
                    if let Expression::Load { pointer } = self.expressions[handle] {
                        effect.reads.extend(self.memory(pointer));
                    }
                }
            }
            Statement::Store { pointer, .. } | Statement::Atomic { pointer, .. } => {
                effect.writes.extend(self.memory(*pointer));
            }
            Statement::Call { function, .. } => match self.callees.get(function) {
                Some(callee) => effect.add(callee),
                None => effect.is_unknown = true,
            },
            Statement::Break | Statement::Continue => effect.jumps = true,
            Statement::Return { .. } => effect.returns = true,
            _ => effect.is_unknown = true,
        }
        (statement, effect)
    }

    /// The memory that a pointer points to, unless it is the thread's own or is never written.
    fn memory(&self, mut pointer: Handle<Expression>) -> Option<Memory> {
        loop {
            match self.expressions[pointer] {
                Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => pointer = base,
                Expression::GlobalVariable(var) => {
                    return match self.globals[var].space {
                        AddressSpace::WorkGroup => Some(Memory::Shared(var)),
                        AddressSpace::Storage { .. } => Some(Memory::Storage),
                        _ => None,
                    };
                }
                // The parameters of functions are no pointers to shared memory.
                _ => return None,
            }
        }
    }
}
