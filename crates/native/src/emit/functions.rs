//! Emits whole functions, and the function around one that Rust calls.

use ir::{Func, Op, Scalar, TypeData};

use super::blocks::{fail_if, mark, release};
use super::{Assembler, Binary, Compare, Res, Vals, control, region, world};
use crate::runtime::{Site, Word, offsets};
use crate::types::{is_array, words};

/// Emits a function, whose parameters are set. Results that are arrays are written to the destinations; returns
/// the parts of the others.
pub fn function<'m, A: Assembler<'m>>(
    e: &mut A,
    func: Func,
    destinations: Vals<A::V>,
) -> Res<'m, A, Vals<A::V>> {
    let f = e.f;
    let recursive = e.plan().facts[func].recursive;
    if recursive {
        let (sp, limit) = (e.stack_pointer(), e.context(Word::I64, offsets::STACK_LIMIT));
        let deep = e.compare(Compare::LessUnsigned, sp, limit);
        fail_if(e, deep, Site::NoStack(f.span));
        let depth = e.context(Word::I32, offsets::DEPTH);
        let most = e.constant(Scalar::I32, ir::interp::MAX_DEPTH as u64);
        let deep = e.compare(Compare::MoreOrEqualUnsigned, depth, most);
        fail_if(e, deep, Site::TooDeep(f.span));
        count_depth(e, Binary::Add);
    }
    e.begin_path(func);
    let body = f.body();
    let mark = e.releases_body(body).then(|| mark(e));
    let varying = e.results_vary(None)?;
    place_results(e, &varying, &destinations);
    region(e, body)?;
    let (mut returned, mut destinations) = (Vals::new(), destinations.into_iter());
    for (&v, varying) in f.regions[body].results.iter().zip(varying) {
        let ty = e.ty(v);
        let vals = e.fit_all(ty, e.get(v), varying, f.span)?;
        if is_array(e.ts, ty) {
            let to = destinations.next().expect("a destination for each array");
            e.store(ty, &vals, e.place(to), f.span)?;
        } else {
            returned.extend(vals);
        }
    }
    release(e, mark);
    if recursive {
        count_depth(e, Binary::Sub);
    }
    Ok(returned)
}

/// A result that is the final content of a cell of the body is built directly in the caller's destination, to which it
/// need not be copied. No argument overlaps it: callers pass memory that nothing else refers to.
fn place_results<'m, A: Assembler<'m>>(e: &mut A, varying: &[bool], destinations: &[A::V]) {
    let f = e.f;
    let ts = e.ts;
    let results = f.regions[f.body()].results.iter().zip(varying).filter(|(v, _)| is_array(ts, f.ty(**v)));
    for ((&v, &varying), &to) in results.zip(destinations) {
        let Some(inst) = e.nesting.analyses.inst(v) else { continue };
        let data = &f.insts[inst];
        let is_final = data.op == Op::Load && data.args.len() == 1 && e.nesting.last_use(inst, data.args[0]);
        if is_final && e.varies(data.args[0]) == varying {
            e.destinations.entry(data.args[0]).or_insert(to);
        }
    }
}

fn count_depth<'m, A: Assembler<'m>>(e: &mut A, by: Binary) {
    let (depth, one) = (e.context(Word::I32, offsets::DEPTH), e.constant(Scalar::I32, 1));
    let depth = e.binary(by, depth, one);
    e.set_context(depth, offsets::DEPTH);
}

/// Emits the body of an entry point for one thread, or for as many as there are lanes.
pub fn thread<'m, A: Assembler<'m>>(e: &mut A) -> Res<'m, A> {
    let body = e.f.body();
    let mark = e.releases_body(body).then(|| mark(e));
    region(e, body)?;
    release(e, mark);
    Ok(())
}

/// Emits `raw(ctx, args, results)` of a function, whose own body this is not.
pub fn raw<'m, A: Assembler<'m>>(e: &mut A, func: Func, args: A::V, results: A::V) -> Res<'m, A> {
    if e.plan().facts[func].private {
        world::init_private(e)?;
    }
    let f = e.f;
    let params = &f.regions[f.body()].params;
    let mut at = 0;
    for &param in params {
        let ty = e.ty(param);
        let (first, rest) = match e.ts[ty] {
            TypeData::Scalar(s) | TypeData::Vector(s, _) => (Some(s), Some(s)),
            _ => (None, Some(Scalar::I64)),
        };
        let n = words(e.ts, ty);
        let part = |k: usize| e.load_word(if k == 0 { first } else { rest }, args, at + k);
        let vals: Vals<A::V> = (0..n).map(part).collect();
        at += vals.len();
        e.set(param, &vals);
    }
    let returned = control::call(e, func, params, f.span)?;
    at = 0;
    for (slot, vals) in f.results.iter().zip(returned) {
        if is_array(e.ts, slot.ty) {
            // The word holds the destination of the array.
            let to = e.load_word(None, results, at);
            e.store(slot.ty, &vals, e.place(to), f.span)?;
        } else {
            vals.iter().enumerate().for_each(|(k, &x)| e.store_word(x, results, at + k));
        }
        at += words(e.ts, slot.ty);
    }
    e.ret();
    Ok(())
}
