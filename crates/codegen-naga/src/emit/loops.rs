//! Emits loops: carried values become variables, and stacks become local arrays of the known bound.
//!
//! A loop whose body ends in an `if` that decides whether to continue is left inside that `if`, so that a
//! `while` of the source becomes a `while` again. If a loop exceeds the bound that the user gave, it ends and
//! the error word reports it.

use ir::{Inst, InstData, LoopInfo, Op, Region, Scalar, Value};
use naga::{BinaryOperator as Bin, Block, Statement, UnaryOperator};

use super::control::Joined;
use super::{Emitter, Held, Res, Role};
use crate::build::Expr;
use crate::types::scalar;

/// A loop while its body is being emitted.
struct Loop<'m> {
    data: &'m InstData,
    info: LoopInfo,
    /// The parameters of carried values, and their variables.
    params: &'m [Value],
    carried: Vec<Joined>,
    /// The variables of the stacks that the loop yields, where used.
    kept: Vec<Option<Expr>>,
    /// The counter of iterations and its current value, if stacks need it.
    trip: Option<(Expr, Expr)>,
}

/// The error message for a loop that the device terminated.
const ENDED: &str =
    "the device ended this loop before its end; lavapipe does so after 65,535 trips of all loops of a thread";

/// The error message for a kernel with a loop that the device terminated.
const ENDED_SOMEWHERE: &str = "the device ended a loop of this kernel before its end; lavapipe does so after 65,535 trips of all loops of a thread";

impl<'m> Emitter<'_, 'm> {
    /// Variables for the carried values, with their initial values.
    fn carried(&mut self, data: &InstData, args: &[Value], params: &[Value]) -> Res<Vec<Joined>> {
        let mut all = Vec::new();
        for (k, (&arg, &param)) in args.iter().zip(params).enumerate() {
            // The parameter is used by the body; otherwise only the result may be used, after the loop.
            let after = data.results[k];
            let joined = if self.uses[param] == 0 {
                self.joined(after, data.span)?
            } else {
                self.joined(param, data.span)?
            };
            self.assign(std::slice::from_ref(&joined), &[param], &[arg])?;
            all.push(joined);
        }
        Ok(all)
    }

    /// The variables of the stacks that a loop yields.
    fn kept(&mut self, stacks: &[Value]) -> Res<Vec<Option<Expr>>> {
        let mut all = Vec::new();
        for &v in stacks {
            all.push(if self.uses[v] == 0 { None } else { Some(self.variable(v, self.ty(v))?) });
        }
        Ok(all)
    }

    /// Stores a value on a stack at the index of the iteration.
    fn keep(&mut self, stack: Value, place: Expr, trip: Expr, value: Value) -> Res {
        let items = self.code.part(place, 1);
        let to = self.code.element(items, trip);
        if let ir::TypeData::Stack(_) = self.types[self.ty(value)] {
            let shape = self.shape(stack).get(1..).unwrap_or_default().to_vec();
            return self.copy_stack_to(to, &shape, value);
        }
        self.store_value(to, value)
    }

    pub(super) fn for_op(&mut self, inst: Inst, info: LoopInfo) -> Res {
        let data: &'m InstData = &self.f.insts[inst];
        let region = &self.f.regions[data.regions[0]];
        let s = self.scalar(data.args[0]);
        self.cx.check_scalar(s, data.span)?;
        let mut n = self.get(data.args[0]);
        // The trip count is unsigned; where it is known not to be negative, the counter has the type of the
        // source.
        let counts = if s.is_signed_int() && self.bounds.upper(data.args[0]).is_none() {
            let unsigned = if s == Scalar::I64 { Scalar::U64 } else { Scalar::U32 };
            n = self.code.convert(n, naga::ScalarKind::Uint, None);
            unsigned
        } else {
            s
        };
        let stacks = &data.results[data.args.len() - 1..];
        let kept = self.kept(stacks)?;
        let is_kept = kept.iter().any(Option::is_some);
        if let (Some(most), true) = (info.max_iters, is_kept) {
            let limit = crate::helpers::integer(&mut self.code, counts, most as i128);
            let over = self.code.binary(Bin::Greater, n, limit);
            self.fail_if(over, &ir::interp::max_iters_message(most), data.span);
            n = self.code.math(naga::MathFunction::Min, &[n, limit]);
        }
        let params = &region.params[1..];
        let carried = self.carried(data, &data.args[1..], params)?;
        let counter_ty = self.lanes_type(counts, 1, data.span)?;
        let name = self.f.values[region.params[0]].name.clone();
        let counter = self.code.local(name.as_deref().map_or("i", |n| n), counter_ty);
        let zero = crate::helpers::integer(&mut self.code, counts, 0);
        let one = crate::helpers::integer(&mut self.code, counts, 1);
        self.code.store(counter, if info.down { n } else { zero });

        // When counting down, the variable holds the number of iterations left.
        let before = self.code.enter();
        let held = self.code.load(counter);
        let end = if info.down {
            self.code.binary(Bin::Equal, held, zero)
        } else {
            self.code.binary(Bin::GreaterEqual, held, n)
        };
        self.code.break_if(end);
        let counted = if info.down { self.code.binary(Bin::Subtract, held, one) } else { held };
        let i = if info.down && is_kept { self.code.binary(Bin::Subtract, n, held) } else { held };
        let as_param = if counts == s { counted } else { self.code.convert(counted, scalar(s).kind, None) };
        self.values[region.params[0]] = Held::Expr(as_param);
        for (&param, joined) in params.iter().zip(&carried) {
            if self.uses[param] > 0 {
                self.bind(param, joined)?;
            }
        }
        self.in_loop(|e| e.region(data.regions[0]))?;
        let results = &region.results;
        for ((place, &value), &stack) in kept.iter().zip(&results[params.len()..]).zip(stacks) {
            if let Some(place) = place {
                let trip = if counts == Scalar::U32 || counts == Scalar::I32 {
                    i
                } else {
                    self.code.convert(i, naga::ScalarKind::Uint, Some(4))
                };
                self.keep(stack, *place, trip, value)?;
            }
        }
        self.next(params, &carried, &results[..params.len()])?;
        let after = self.code.enter();
        let way = if info.down { Bin::Subtract } else { Bin::Add };
        let next = self.code.binary(way, held, one);
        self.code.store(counter, next);
        let continuing = self.code.close(after);
        let body = self.code.close(before);
        self.code.push(Statement::Loop { body, continuing, break_if: None });
        self.check_counter(counter, if info.down { zero } else { n }, data.span);
        for place in kept.iter().flatten() {
            let length = self.code.part(*place, 0);
            let n = if scalar(counts) == naga::Scalar::U32 {
                n
            } else {
                self.code.convert(n, naga::ScalarKind::Uint, Some(4))
            };
            self.code.store(length, n);
        }
        self.results(data, &carried, &kept, data.args.len() - 1)
    }

    pub(super) fn loop_op(&mut self, inst: Inst, info: LoopInfo) -> Res {
        let data: &'m InstData = &self.f.insts[inst];
        let region = &self.f.regions[data.regions[0]];
        let n = data.args.len();
        let params = &region.params[..];
        let kept = self.kept(&data.results[n..])?;
        let carried = self.carried(data, &data.args, params)?;
        let needs_trip = kept.iter().any(Option::is_some);
        let trip = if needs_trip {
            let uint = self.counter_type();
            let trip = self.code.local("trip", uint);
            let zero = self.code.u32(0);
            self.code.store(trip, zero);
            Some(trip)
        } else {
            None
        };
        let before = self.code.enter();
        for (&param, joined) in params.iter().zip(&carried) {
            if self.uses[param] > 0 {
                self.bind(param, joined)?;
            }
        }
        let trip = match trip {
            Some(place) => {
                let number = self.code.load(place);
                Some((place, number))
            }
            None => None,
        };
        let lp = Loop { data, info, params, carried, kept, trip };
        self.in_loop(|e| e.trip(data.regions[0], &region.results, &lp))?;
        let body = self.code.close(before);
        self.code.push(Statement::Loop { body, continuing: Block::new(), break_if: None });
        if self.cx.options.checks_loops {
            match self.role {
                Role::Kernel(_) if self.loops.0.is_empty() => self.probe(ENDED, data.span),
                _ => self.cx.reports.has_open_loops = true,
            }
        }
        if let Some((trips, _)) = lp.trip {
            let count = self.code.load(trips);
            for place in lp.kept.iter().flatten() {
                let length = self.code.part(*place, 0);
                self.code.store(length, count);
            }
        }
        self.results(data, &lp.carried, &lp.kept, n)
    }

    /// Reports an error if a loop ended before its counter reached its end.
    pub(super) fn check_counter(&mut self, counter: Expr, end: Expr, span: ir::Span) {
        if self.cx.options.checks_loops {
            let last = self.code.load(counter);
            let early = self.code.binary(Bin::NotEqual, last, end);
            self.fail_if(early, ENDED, span);
        }
    }

    /// Reports an error if the device has ended a loop of the thread.
    ///
    /// The values that a loop leaves behind do not tell: a driver deduces from the conditions of its exits that it has
    /// come to its end. But once the device ends loops, it ends all of them after a trip, so a loop of two trips shows
    /// it. How many these are depends on the number of groups, which is at least 1, for the driver not to know it.
    fn probe(&mut self, message: &str, span: ir::Span) {
        let uint = self.counter_type();
        let (zero, one) = (self.code.u32(0), self.code.u32(1));
        let counts = self.group_counts();
        let groups = self.code.part(counts, 0);
        let least = self.code.math(naga::MathFunction::Min, &[groups, one]);
        let two = self.code.binary(Bin::Add, least, one);
        let counter = self.code.local("probe", uint);
        self.code.store(counter, zero);
        let before = self.code.enter();
        let held = self.code.load(counter);
        let end = self.code.binary(Bin::GreaterEqual, held, two);
        self.code.break_if(end);
        let after = self.code.enter();
        let next = self.code.binary(Bin::Add, held, one);
        self.code.store(counter, next);
        let continuing = self.code.close(after);
        let body = self.code.close(before);
        self.code.push(Statement::Loop { body, continuing, break_if: None });
        let last = self.code.load(counter);
        let early = self.code.binary(Bin::NotEqual, last, two);
        self.fail_if(early, message, span);
    }

    /// Probes at the end of a kernel for all loops that nothing else has checked: those within other loops, whose last
    /// trip they may take place in, and those of functions.
    pub(super) fn probe_at_end(&mut self) {
        if self.cx.reports.has_open_loops {
            self.probe(ENDED_SOMEWHERE, self.f.span);
        }
    }

    /// Binds the results of a loop.
    fn results(&mut self, data: &InstData, carried: &[Joined], kept: &[Option<Expr>], n: usize) -> Res {
        for (&v, joined) in data.results[..n].iter().zip(carried) {
            if self.uses[v] > 0 {
                self.bind(v, joined)?;
            }
        }
        for (&v, place) in data.results[n..].iter().zip(kept) {
            if let Some(place) = place {
                self.values[v] = Held::Place(*place);
            }
        }
        Ok(())
    }

    /// Assigns the values of the next iteration to the carried variables.
    fn next(&mut self, params: &[Value], carried: &[Joined], next: &[Value]) -> Res {
        let (mut to, mut of, mut from) = (Vec::new(), Vec::new(), Vec::new());
        for ((&param, joined), &value) in params.iter().zip(carried).zip(next) {
            if value == param {
                continue;
            }
            if let (Joined::Stack(_), true) = (joined, params.contains(&value)) {
                return self.refuse("stacks that change places in a loop", "their sizes differ", self.f.span);
            }
            to.push(joined.clone());
            of.push(param);
            from.push(value);
        }
        self.assign(&to, &of, &from)
    }

    /// Emits a region as the end of the loop's body, given the body's results, followed by the end of the
    /// iteration.
    fn trip(&mut self, region: Region, results: &[Value], lp: &Loop<'m>) -> Res {
        let insts = &self.f.regions[region].insts;
        if let Some((&last, first)) = insts.split_last() {
            let tail: &'m InstData = &self.f.insts[last];
            if tail.op == Op::If && tail.results.contains(&results[0]) {
                for &inst in first {
                    self.inst(inst)?;
                }
                let c = self.get(tail.args[0]);
                let mapped = |arm: Region| -> Vec<Value> {
                    let inner = &self.f.regions[arm].results;
                    let of = |v: &Value| tail.results.iter().position(|r| r == v).map_or(*v, |k| inner[k]);
                    results.iter().map(of).collect()
                };
                let (yes, no) = (mapped(tail.regions[0]), mapped(tail.regions[1]));
                // The arm only leaves the loop, so the other arm can follow it without nesting.
                if self.only_leaves(tail.regions[1], &no, lp) {
                    let not = self.code.unary(UnaryOperator::LogicalNot, c);
                    self.code.break_if(not);
                    return self.trip(tail.regions[0], &yes, lp);
                }
                if self.only_leaves(tail.regions[0], &yes, lp) {
                    self.code.break_if(c);
                    return self.trip(tail.regions[1], &no, lp);
                }
                let [accept, reject] = tail.regions[..] else { return Ok(()) };
                return self.either(c, |e| e.trip(accept, &yes, lp), |e| e.trip(reject, &no, lp));
            }
        }
        self.region(region)?;
        self.end_trip(results, lp)
    }

    /// Returns true if an arm does nothing but leave the loop.
    fn only_leaves(&self, arm: Region, results: &[Value], lp: &Loop<'_>) -> bool {
        self.bounds.constant(results[0]) == Some(0)
            && lp.kept.iter().all(Option::is_none)
            && self.f.regions[arm].insts.is_empty()
            && lp.params.iter().zip(&results[1..]).all(|(a, b)| a == b)
    }

    /// Emits the end of an iteration: stores values on stacks, then continues or leaves.
    fn end_trip(&mut self, results: &[Value], lp: &Loop<'_>) -> Res {
        let n = lp.params.len();
        let known = self.bounds.constant(results[0]);
        let again = if known.is_some() { None } else { Some(self.get(results[0])) };
        if let Some((trips, trip)) = lp.trip {
            for (k, place) in lp.kept.iter().enumerate() {
                if let Some(place) = place {
                    self.keep(lp.data.results[n + k], *place, trip, results[1 + n + k])?;
                }
            }
            let one = self.code.u32(1);
            let next = self.code.binary(Bin::Add, trip, one);
            self.code.store(trips, next);
        }
        self.next(lp.params, &lp.carried, &results[1..=n])?;
        if known == Some(0) {
            self.code.push(Statement::Break);
            return Ok(());
        }
        if let Some(again) = again {
            let not = self.code.unary(UnaryOperator::LogicalNot, again);
            self.code.break_if(not);
        }
        if let (Some((_, trip)), Some(most)) = (lp.trip, lp.info.max_iters) {
            let limit = self.code.u32(most);
            let over = self.code.binary(Bin::GreaterEqual, trip, limit);
            let message = ir::interp::max_iters_message(most);
            self.fail_if(over, &message, lp.data.span);
            self.code.break_if(over);
        }
        Ok(())
    }
}
