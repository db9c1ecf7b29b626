//! Implements `[CheckpointBudget(n)]`: reverse mode of a function keeps at most `n` bytes for one call, or
//! the user gets an error.
//!
//! The number of bytes kept is known only when a function has been split, so the ways to keep less are tried
//! on a copy of the module, cheapest first: memory counts for more in the minimum cut, then loops are
//! reversed by segments ([`crate::segment`]), beginning with the loops that keep most, and at last with as many
//! states as fit, whose trips run as often as that takes. The first way that fits the budget is taken.
//!
//! The bytes that a call keeps count for its caller, so the loops of the functions that are called are reversed in segments, too, for
//! all of their callers. Where functions with budgets call the same function, its loops have the fewest states that one of
//! them needs: a function whose budget was kept before is tried again.

use ir::{Checkpoint, Func, Op, Span};

use super::measure::Total;
use crate::Memory;
use crate::engine::Engine;

/// The factors by which memory costs more than usual, in the order in which they are tried.
const THRIFT: [u64; 3] = [1, 8, 1 << 16];

/// A way to differentiate a function.
#[derive(Clone, Debug, Default)]
struct Way {
    thrift: u64,
    /// The loops that are reversed by segments.
    segmented: Vec<Span>,
    /// The number of states of each of them, if it is bounded.
    states: Option<u32>,
}

/// The numbers of states that are tried first. Fewer states take more calls within calls, which hold a state, too: with
/// 18 states, loops whose trips nothing bounds take the least memory.
const STATES: [u32; 6] = [3, 4, 6, 9, 13, 18];
/// The most states of a loop that are tried.
const MOST: u32 = 1 << 20;

impl Engine<'_> {
    /// Chooses a way for every function with a budget, before anything is differentiated.
    pub(crate) fn keep_budgets(&mut self) {
        let all: Vec<(Func, u64)> =
            self.module.funcs.iter().filter_map(|(f, data)| Some((f, data.checkpoint.budget?))).collect();
        let all: Vec<_> = all.into_iter().filter(|(f, _)| self.module.funcs[*f].has_body()).collect();
        loop {
            let before = self.chosen();
            let faults: Vec<_> =
                all.iter().filter_map(|&(f, budget)| self.keep_budget(f, budget).err()).collect();
            if all.len() == 1 || self.chosen() == before {
                faults.into_iter().for_each(|(span, message)| self.problem(span, "E0921", message));
                return;
            }
        }
    }

    /// How the loops are reversed that budgets reach. Ways only become stricter, so at some time they stay the same.
    fn chosen(&self) -> Vec<Option<Checkpoint>> {
        let all = self.module.funcs.values().flat_map(|f| f.insts.values());
        let loops = all.filter(|data| self.budgeted.contains(&data.span)).filter_map(|data| match &data.op {
            Op::For(info) | Op::Loop(info) => Some(info.checkpoint),
            _ => None,
        });
        loops.collect()
    }

    /// Chooses a way for a function; otherwise a message and its place.
    fn keep_budget(&mut self, func: Func, budget: u64) -> Result<(), (Span, String)> {
        let mut way = Way::default();
        let mut least: Option<Total> = None;
        let fits = |total: &Total| total.unknown.is_none() && total.bytes <= budget;
        for thrift in THRIFT {
            way.thrift = thrift;
            // An error here occurs again when the module is differentiated, and is reported then.
            let Some(total) = self.attempt(func, &way) else { return Ok(()) };
            if fits(&total) {
                self.choose(func, &way);
                return Ok(());
            }
            least = Some(total);
        }
        let mut least = least.unwrap_or_default();
        let mut refused: Vec<Span> = Vec::new();
        loop {
            let left = least.loops.iter().filter(|(s, _)| !way.segmented.contains(s) && !refused.contains(s));
            let Some(&(span, _)) = left.max_by_key(|(_, bytes)| *bytes) else { break };
            way.segmented.push(span);
            match self.attempt(func, &way) {
                Some(total) if fits(&total) => {
                    self.choose(func, &way);
                    return Ok(());
                }
                Some(total) if total.unknown.is_some() || total.bytes < least.bytes => least = total,
                _ => {
                    way.segmented.pop();
                    refused.push(span);
                }
            }
        }
        if self.bound_states(func, &mut way, refused, &mut least, &fits) {
            self.choose(func, &way);
            return Ok(());
        }
        let name = &self.module.funcs[func].name;
        match least.unknown {
            Some(span) => {
                let message = format!(
                    "`{name}` may keep {budget} bytes for reverse mode, but nothing bounds the trips of this loop: \
                     `[MaxIters(n)]` says how many there are at most"
                );
                Err((span, message))
            }
            None => {
                let span = self.module.funcs[func].span;
                let message = format!(
                    "`{name}` may keep {budget} bytes for reverse mode, but needs {} for one call",
                    least.bytes
                );
                Err((span, message))
            }
        }
    }

    /// Bounds the states of all loops, by as many as fit. Returns false if there is no such number, and then notes
    /// the least that is kept.
    fn bound_states(
        &self,
        func: Func,
        way: &mut Way,
        refused: Vec<Span>,
        least: &mut Total,
        fits: &dyn Fn(&Total) -> bool,
    ) -> bool {
        way.segmented.extend(refused);
        if way.segmented.is_empty() {
            return false;
        }
        let try_states = |way: &mut Way, states: u32| {
            way.states = Some(states);
            self.attempt(func, way)
        };
        for states in STATES {
            match try_states(way, states) {
                Some(total) if fits(&total) => {
                    // From here on, what is kept grows with the number of states.
                    let (mut good, mut bad) = (states, MOST);
                    while good + 1 < bad {
                        let more = good + ((bad - good) / 2).min(good).max(1);
                        match try_states(way, more).is_some_and(|total| fits(&total)) {
                            true => good = more,
                            false => bad = more,
                        }
                    }
                    way.states = Some(good);
                    return true;
                }
                Some(total) if total.unknown.is_some() => {}
                Some(total) if least.unknown.is_some() || total.bytes < least.bytes => *least = total,
                _ => {}
            }
        }
        false
    }

    /// The number of bytes that reverse mode keeps for a function, and the number if only memory counted, in
    /// all functions. Must be called before anything is differentiated.
    pub(crate) fn memory(&self, func: Func) -> Option<Memory> {
        let usual = self.attempt_by(func, |_| {})?;
        let all: Vec<Func> = self.module.funcs.keys().collect();
        let least =
            self.attempt_by(func, |engine| engine.thrift.extend(all.iter().map(|&f| (f, THRIFT[2]))))?;
        Some(Memory { kept: usual.bytes, least: least.bytes.min(usual.bytes), unknown: usual.unknown })
    }

    /// The memory kept if `func` is differentiated in the given way; `None` if there is no derivative.
    fn attempt(&self, func: Func, way: &Way) -> Option<Total> {
        self.attempt_by(func, |engine| engine.choose(func, way))
    }

    fn attempt_by(&self, func: Func, choose: impl FnOnce(&mut Engine<'_>)) -> Option<Total> {
        let mut module = self.module.clone();
        let mut engine = Engine::new(&mut module);
        engine.measuring = true;
        engine.budgeted = self.budgeted.clone();
        choose(&mut engine);
        engine.resolve(func);
        engine.backward(func, Span::NONE);
        engine.found.problems.is_empty().then(|| engine.total(func))
    }

    fn choose(&mut self, func: Func, way: &Way) {
        let wanted = way.states.map_or(Checkpoint::Root, Checkpoint::States);
        for func in ir::walk::reachable(self.module, &[func]) {
            let thrift = self.thrift.entry(func).or_default();
            *thrift = way.thrift.max(*thrift);
            let all = self.module.funcs[func].insts.values_mut();
            for data in all.filter(|d| way.segmented.contains(&d.span)) {
                let (Op::For(info) | Op::Loop(info)) = &mut data.op else { continue };
                info.checkpoint = Some(match (info.checkpoint, wanted) {
                    (None, _) => {
                        self.budgeted.insert(data.span);
                        wanted
                    }
                    (Some(own), _) if !self.budgeted.contains(&data.span) => own,
                    (Some(Checkpoint::States(a)), Checkpoint::States(b)) => Checkpoint::States(a.min(b)),
                    (Some(Checkpoint::Root), wanted) => wanted,
                    (Some(own), _) => own,
                });
            }
        }
    }
}
