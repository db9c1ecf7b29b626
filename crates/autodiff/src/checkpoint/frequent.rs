//! Finds the functions that are called in loops, whose residuals are kept for each trip.

use cranelift_entity::EntitySet;
use ir::analysis::reach;
use ir::{Func, Function, Region};
use rustc_hash::FxHashMap;

use crate::engine::Engine;

impl Engine<'_> {
    /// Returns true if a function, or the user function that it derives from, is called in a loop somewhere.
    pub(crate) fn is_called_in_loop(&mut self, func: Func) -> bool {
        let origin = self.user_function(func);
        if self.facts.called_in_loops.is_none() {
            self.facts.called_in_loops = Some(self.find_called_in_loops());
        }
        self.facts.called_in_loops.as_ref().is_some_and(|set| set.contains(origin))
    }

    fn find_called_in_loops(&self) -> EntitySet<Func> {
        let mut work = Vec::new();
        let mut callees: FxHashMap<Func, Vec<Func>> = FxHashMap::default();
        for (caller, src) in self.module.funcs.iter().filter(|(_, f)| f.has_body()) {
            let caller = self.user_function(caller);
            let mut found = Vec::new();
            calls(src, src.body(), 0, &mut found);
            for (callee, loops) in found {
                let callee = self.user_function(callee);
                if loops > 0 {
                    work.push(callee);
                } else {
                    callees.entry(caller).or_default().push(callee);
                }
            }
        }
        reach(work, |func| callees.get(&func).into_iter().flatten().copied())
    }
}

/// The calls in a region, each with the number of loops around it.
fn calls(src: &Function, region: Region, loops: u32, found: &mut Vec<(Func, u32)>) {
    for &inst in &src.regions[region].insts {
        let data = &src.insts[inst];
        found.extend(data.op.callee().map(|f| (f, loops)));
        let inside = loops + u32::from(data.op.is_loop());
        data.regions.iter().for_each(|&r| calls(src, r, inside, found));
    }
}
