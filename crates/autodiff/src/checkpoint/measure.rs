//! Computes how many bytes reverse mode keeps for one call of a function.

use ir::{Func, Function, Inst, Op, Origin, Span};

use super::{Kept, Plan, Policy, Sides};
use crate::engine::Engine;
use crate::results::{Footprint, Part, What};

/// The total memory kept for a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    /// The bytes for one call. A loop without a known bound counts as a single trip.
    pub(crate) bytes: u64,
    /// A loop without a known bound.
    pub(crate) unknown: Option<Span>,
    /// The bytes that each loop of a function or of what it calls keeps, also within segments: a loop is
    /// after those within it.
    pub(crate) loops: Vec<(Span, u64)>,
}

/// The parts of a footprint that are counted.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    All,
    /// The parts that a caller keeps for each of its trips.
    Stacks,
}

impl Engine<'_> {
    /// Records the footprint of `func`, keyed by its primal half, along with the user function or segment that
    /// it derives from.
    pub(crate) fn measure(&mut self, func: Func, src: &Function, sides: &Sides, kept: &Kept, primal: Func) {
        let policy = Policy {
            in_loop: false,
            prefer_kept: false,
            inductions: &Default::default(),
            calls: &Default::default(),
            thrift: 1,
        };
        let plan = Plan::new(self.module, src, sides, &policy);
        let mut footprint = Footprint::default();
        let owner = self.segment_of(func).unwrap_or_else(|| self.user_function(func));
        // The trips of a segment are no loop of their own.
        let own = self.segment_of(func).map(|segment| self.module.funcs[segment].span);
        let part = |what: What, around: &[(Inst, Option<u64>)]| Part {
            what,
            trips: around.iter().try_fold(1u64, |n, &(_, trips)| Some(n.saturating_mul(trips?))),
            unknown: around.iter().rev().find(|(_, n)| n.is_none()).map(|&(inst, _)| src.insts[inst].span),
            around: {
                let all = around.iter().rev().map(|&(inst, _)| src.insts[inst].span);
                let others: Vec<Span> = all.filter(|&s| Some(s) != own).collect();
                if others.is_empty() && !around.is_empty() { own.into_iter().collect() } else { others }
            },
        };
        for v in kept.stored.iter() {
            let mut around: Vec<_> = plan.loops_around(v).map(|at| (at, plan.known_trips(at))).collect();
            around.reverse();
            footprint.parts.push(part(What::Bytes(self.module.types.bytes(src.ty(v))), &around));
        }
        let mut work = vec![(src.body(), Vec::new())];
        while let Some((region, around)) = work.pop() {
            for &inst in &src.regions[region].insts {
                let data = &src.insts[inst];
                match data.op {
                    Op::Call(callee) => {
                        if let Some(segment) = self.segment_of(callee) {
                            // What a segment's own segments keep is counted with it.
                            footprint.segments.extend(Some(segment).filter(|&segment| segment != owner));
                        } else if !sides.linear.contains(inst) {
                            footprint.parts.push(part(What::Stacks(callee), &around));
                        }
                    }
                    Op::For(_) | Op::Loop(_) => {
                        let mut inside = around.clone();
                        inside.push((inst, plan.known_trips(inst)));
                        work.push((data.regions[0], inside));
                    }
                    _ => work.extend(data.regions.iter().map(|&r| (r, around.clone()))),
                }
            }
        }
        self.found.footprints.insert(primal, (owner, footprint));
    }

    /// The memory that one call of a user function or segment keeps: the maximum over all derivatives made of it.
    pub(crate) fn total(&self, func: Func) -> Total {
        self.total_in(func, &[])
    }

    /// As [`Self::total`], within the totals of other functions. Where functions call each other, a segment may be among the
    /// segments of what it calls; it counts once.
    fn total_in(&self, func: Func, around: &[Func]) -> Total {
        if around.contains(&func) {
            return Total::default();
        }
        let around = [around, &[func]].concat();
        let mut most = Total::default();
        for (_, footprint) in self.found.footprints.values().filter(|(owner, _)| *owner == func) {
            let mut total = Total::default();
            let mut segments = footprint.segments.clone();
            self.add(footprint, Counted::All, 1, &mut total, &mut segments);
            // The segments are reversed one after the other.
            let mut largest = 0;
            for segment in segments.into_iter().map(|s| self.total_in(s, &around)) {
                largest = segment.bytes.max(largest);
                total.unknown = total.unknown.or(segment.unknown);
                total.loops.extend(segment.loops);
            }
            total.bytes = total.bytes.saturating_add(largest);
            let in_calls = self.made.binomials.get(&func).map_or(0, |binomial| binomial.in_calls());
            total.bytes = total.bytes.saturating_add(in_calls);
            if total.bytes >= most.bytes {
                most = total;
            }
        }
        most
    }

    /// The segment that a function derives from, if it derives from one.
    fn segment_of(&self, func: Func) -> Option<Func> {
        let is_segment = |f: &Func| matches!(self.module.funcs[*f].origin, Origin::Segment(_));
        self.module.origins(func).find(is_segment)
    }

    fn add(
        &self,
        footprint: &Footprint,
        counted: Counted,
        times: u64,
        total: &mut Total,
        segments: &mut Vec<Func>,
    ) {
        let whole = counted == Counted::All;
        for part in footprint
            .parts
            .iter()
            .filter(|p| whole || !p.around.is_empty() || matches!(p.what, What::Stacks(_)))
        {
            let times = times.saturating_mul(part.trips.unwrap_or(1));
            let before = total.bytes;
            match part.what {
                What::Bytes(bytes) => {
                    total.unknown = total.unknown.or(part.unknown);
                    total.bytes = total.bytes.saturating_add(times.saturating_mul(bytes));
                }
                What::Stacks(callee) => {
                    let Some((_, inner)) = self.found.footprints.get(&callee) else { continue };
                    segments.extend(
                        inner.segments.iter().filter(|s| !segments.contains(s)).copied().collect::<Vec<_>>(),
                    );
                    self.add(inner, Counted::Stacks, times, total, segments);
                    if total.bytes > before {
                        total.unknown = total.unknown.or(part.unknown);
                    }
                }
            }
            let more = total.bytes - before;
            for &span in &part.around {
                match total.loops.iter_mut().find(|(s, _)| *s == span) {
                    Some((_, bytes)) => *bytes += more,
                    None => total.loops.push((span, more)),
                }
            }
        }
    }
}
