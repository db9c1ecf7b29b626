//! Decides how the threads of an entry point run, and emits the functions that run them.

use ir::{Func, Module, Op};

use super::entry::{LeftOver, emit_versions};
use super::uniform::{Dealing, Facts, reason as reason_of};
use super::{Backend, Emitter, Kind, ModuleCx, Res, Stop, cost};
use crate::plan::Plan;

/// The numbers of lanes that suit a machine.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    /// The width of the machine's vectors in bits.
    pub vector_bits: u32,
    /// The number of vectors that hold a value of all lanes in a kernel without loops, and in others.
    pub vectors: [u32; 2],
    /// The smallest and largest number of lanes that a kernel is given.
    pub least: u32,
    /// See `least`.
    pub most: u32,
    /// The largest number of lanes that the backend has code for.
    pub widest: u32,
    /// Twice and half as many lanes are tried, too.
    pub tries: bool,
}

/// Emits entry point number `k` for one thread at a time, under this name.
pub fn one_at_a_time<B: Backend>(cx: &mut ModuleCx<'_, B>, k: usize, name: &str) -> Res {
    let entry = &cx.ir.entries[k];
    let f = &cx.ir.funcs[entry.func];
    let emitter = Emitter::new(cx, f, Kind::Span, 1, ONE, Facts::default());
    emitter.span(entry.func, name, entry.group_size, LeftOver::Elsewhere)?;
    emit_versions(cx)
}

/// The cost of entry point number `k` for one thread at a time. Its functions are emitted, and dropped.
fn cost_alone<B: Backend>(cx: &mut ModuleCx<'_, B>, k: usize) -> Res<f64> {
    let before = Before::of(cx);
    let name = "alone";
    let emitted = one_at_a_time(cx, k, name);
    let cost = cost::cost(&cx.backend, name);
    before.restore(cx);
    emitted.map(|()| cost)
}

/// The functions that a module had at some time.
#[derive(Clone, Copy)]
struct Before {
    functions: usize,
    versions: usize,
    emitted: usize,
    library: usize,
}

impl Before {
    /// The functions that a module has now.
    fn of<B: Backend>(cx: &ModuleCx<'_, B>) -> Before {
        Before {
            functions: cx.backend.n_functions(),
            versions: cx.versions.len(),
            emitted: cx.emitted,
            library: cx.used_library.len(),
        }
    }

    /// Drops the functions that were added since.
    fn restore<B: Backend>(self, cx: &mut ModuleCx<'_, B>) {
        cx.backend.truncate(self.functions);
        cx.versions.truncate(self.versions);
        cx.emitted = self.emitted;
        cx.used_library.truncate(self.library);
    }
}

/// Emits a function that Rust calls, under this name.
pub fn raw<B: Backend>(cx: &mut ModuleCx<'_, B>, func: Func, name: &str) -> Res {
    let f = &cx.ir.funcs[func];
    Emitter::new(cx, f, Kind::Raw, 1, ONE, Facts::default()).raw(func, name)?;
    emit_versions(cx)
}

/// The assignment of one thread.
const ONE: Dealing = Dealing { rows: false, packed: false };

/// Emits entry point number `k` for lanes, unless it takes longer in them.
pub fn in_lanes<B: Backend>(
    cx: &mut ModuleCx<'_, B>,
    k: usize,
    widths: &Widths,
) -> Result<(String, u32), Stop> {
    let module = cx.ir;
    let entry = &module.entries[k];
    match cx.options.lanes {
        Some(1) => Err(Stop::Lanes(reason_of("`--lanes 1`", module.funcs[entry.func].span))),
        Some(n) => as_many_lanes(cx, k, widths, n),
        None => {
            let suited = suits(module, &cx.plan, entry, widths);
            cx.backend.start_sketches();
            let chosen = cheapest(cx, k, widths, suited);
            cx.backend.stop_sketches();
            chosen
        }
    }
}

/// Half as many lanes as suit the machine are chosen if they take no more than this part of the time, by an estimate that
/// is right to about a tenth.
const FEWER: f64 = 0.9;
/// Twice as many lanes have to take no more than this part of the time, by an estimate that misses much of what their
/// values cost in memory.
const TWICE: f64 = 0.8;

/// Emits entry point number `k` for as many lanes as it takes the least time in, by an estimate. If it does not run in as
/// many as suit the machine, since more threads at a time may come between each other, it may still run in fewer.
fn cheapest<B: Backend>(
    cx: &mut ModuleCx<'_, B>,
    k: usize,
    widths: &Widths,
    suited: u32,
) -> Result<(String, u32), Stop> {
    let before = Before::of(cx);
    let group = cx.ir.entries[k].group_size;
    let others = [(2 * suited, TWICE), (suited / 2, FEWER)].into_iter().filter(|_| widths.tries);
    let others = others.filter(|&(n, _)| n >= 4 && n <= widths.most && fits(group, n));
    // The candidate that takes the least time, the code that is emitted now, and why the first candidate failed.
    let (mut best, mut emitted, mut failed) = (None::<(u32, f64)>, None, None);
    for (n, worth) in [(suited, 1.0)].into_iter().chain(others) {
        if n > suited && failed.is_some() {
            continue;
        }
        before.restore(cx);
        match as_many_lanes(cx, k, widths, n) {
            Ok(other) => {
                let cost = cost::cost(&cx.backend, &other.0) / f64::from(n);
                // By this number, a candidate is compared with those before it.
                let compared = cost / worth;
                if best.is_none_or(|(_, least)| compared < least) {
                    best = Some((n, cost));
                }
                emitted = Some(other);
            }
            Err(stop @ Stop::Lanes(_)) => {
                emitted = None;
                failed.get_or_insert(stop);
            }
            Err(stop) => return Err(stop),
        }
    }
    let Some((n, least)) = best else {
        return Err(failed.expect("there is a candidate"));
    };
    let emitted = match emitted.filter(|emitted| emitted.1 == n) {
        Some(emitted) => emitted,
        None => {
            before.restore(cx);
            as_many_lanes(cx, k, widths, n)?
        }
    };
    if cost_alone(cx, k)? < least {
        before.restore(cx);
        let span = cx.ir.funcs[cx.ir.entries[k].func].span;
        let what = "a kernel that mostly does what lanes do one after the other";
        return Err(Stop::Lanes(reason_of(what, span)));
    }
    Ok(emitted)
}

/// Emits entry point number `k` for `width` lanes.
fn as_many_lanes<'m, B: Backend>(
    cx: &mut ModuleCx<'m, B>,
    k: usize,
    widths: &Widths,
    width: u32,
) -> Result<(String, u32), Stop> {
    let module = cx.ir;
    let entry = &module.entries[k];
    let f = &module.funcs[entry.func];
    let reason = |what: &str| Err(Stop::Lanes(reason_of(what, f.span)));
    let facts = cx.plan.facts[entry.func];
    if facts.wave {
        return reason("wave operations");
    }
    let all: u64 = entry.group_size.iter().map(|&n| n as u64).product();
    if all == 0 {
        return reason("a group without threads");
    }
    if !matches!(width, 2 | 4 | 8 | 16 | 32) || width < widths.least {
        return reason("a number of lanes other than 4, 8, 16 and 32");
    }
    if width > widths.widest {
        return reason(&format!("more than {} lanes", widths.widest));
    }
    // Groups with memory of their own, or whose threads wait for each other, run one at a time.
    let each = facts.shared || facts.barrier;
    if each && all < width as u64 {
        return reason("a group with fewer threads than there are lanes");
    }
    let mut dealing = super::entry::dealing(entry.group_size, width);
    dealing.packed &= !each;
    let order = ir::threads::Lanes {
        count: width,
        group_size: entry.group_size,
        rows: dealing.rows,
        packed: dealing.packed,
    };
    if let Some(conflict) = ir::threads::conflict(module, entry.func, order) {
        return Err(Stop::Lanes(reason_of(&conflict.what, conflict.span)));
    }
    let facts = cx.facts(dealing, entry.func, &[])?;
    // The code for lanes would be the code for one thread, compiled a second time.
    if !facts.varies && !each {
        return reason("a kernel whose threads all do the same");
    }
    let before = Before::of(cx);
    let name = format!("entry{k}_lanes");
    let emit = |cx: &mut ModuleCx<'m, B>| {
        let left = if cx.takes_left_over { LeftOver::Masked } else { LeftOver::Elsewhere };
        let emitter = Emitter::new(cx, f, Kind::Span, width, dealing, facts.clone());
        emitter.span(entry.func, &name, entry.group_size, left)?;
        emit_versions(cx)
    };
    cx.takes_left_over = B::MASKS_LEFT_OVER && dealing.packed;
    let mut emitted = emit(cx);
    if cx.takes_left_over && matches!(emitted, Err(Stop::Lanes(_))) {
        before.restore(cx);
        cx.takes_left_over = false;
        emitted = emit(cx);
    }
    match emitted {
        Ok(()) => Ok((name, width)),
        Err(stop) => {
            before.restore(cx);
            Err(stop)
        }
    }
}

/// A suitable number of lanes: as many floats (or doubles) as fit in several vectors of the machine, since
/// uniform values are computed once for all lanes, and independent vectors overlap; or in fewer if there is no
/// loop, where straight-line code has enough independent instructions and needs the registers. It
/// is fewer if that keeps the lanes in one row of the group, or makes them a whole group that fills a vector:
/// groups then need not share lanes, and no thread is left over.
fn suits(module: &Module, plan: &Plan, entry: &ir::Entry, widths: &Widths) -> u32 {
    let size = entry.group_size;
    // A few doubles among many floats are ignored.
    let (mut floats, mut doubles) = (0, 0);
    for &f in &plan.order {
        for v in module.funcs[f].values.values() {
            match module.types.scalar_of(v.ty) {
                Some(ir::Scalar::F64) => doubles += 1,
                Some(ir::Scalar::F32) => floats += 1,
                _ => {}
            }
        }
    }
    let wide = doubles > floats / 2;
    let (vectors, bits) =
        (widths.vectors[usize::from(repeats(module, entry.func))], if wide { 64 } else { 32 });
    let most = (vectors * widths.vector_bits / bits).clamp(4, widths.most);
    let flat = size[1] == 1 && size[2] == 1;
    if flat && matches!(size[0], 4 | 8) && size[0] <= most && size[0] * bits >= widths.vector_bits {
        return size[0];
    }
    [32, 16, 8, 4].into_iter().filter(|&n| n <= most).find(|&n| fits(size, n)).unwrap_or(most)
}

/// Returns true if a kernel has loops.
fn repeats(module: &Module, entry: Func) -> bool {
    let mut repeats = false;
    for func in ir::walk::reachable(module, &[entry]) {
        let f = &module.funcs[func];
        f.walk(f.body(), &mut |inst| repeats |= matches!(f.insts[inst].op, Op::For(_) | Op::Loop(_)));
    }
    repeats
}

/// Returns true if lanes are in one row of a group of this size, or few enough for a row of groups.
fn fits(size: [u32; 3], lanes: u32) -> bool {
    size[0].is_multiple_of(lanes) || (size[1] == 1 && size[2] == 1 && lanes <= 16)
}
