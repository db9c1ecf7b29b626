//! Memory that ends within an element: what a cast to a larger type may leave behind a handle.
//!
//! The memory behind a handle is whole elements where a global or a handle in memory gives it. A cast takes the same bytes
//! for elements of another type, of which the last may be there in part. For each type of elements this finds a number
//! that divides the bytes of all memory that is seen as such elements; where the size of the element is not among its
//! divisors, the last element may be a part, and accesses look at bytes and not at whole elements only.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::function::{Function, Inst, Value};
use crate::memory::{MemData, MemType};
use crate::module::Module;
use crate::ops::{Op, Rest};
use crate::types::TypeData;

/// The types of elements of which memory may hold the last one in part.
pub fn partial_elements(module: &Module) -> FxHashSet<MemType> {
    let mut casts = Vec::new();
    // What divides the bytes of the memory; 0 for a type that no handle leads to.
    let mut units: FxHashMap<MemType, u64> = FxHashMap::default();
    let whole = |ty: MemType| module.mem.size(ty).max(1);
    for (_, data) in module.mem.iter() {
        if let MemData::Handle(ty) = *data {
            units.insert(ty, whole(ty));
        }
    }
    for global in module.globals.values() {
        units.insert(global.ty, whole(global.ty));
    }
    for func in module.funcs.values().filter(|func| func.has_body()) {
        let mut defs: FxHashMap<Value, Inst> = FxHashMap::default();
        func.walk(func.body(), &mut |inst| {
            let data = &func.insts[inst];
            defs.extend(data.results.iter().map(|&r| (r, inst)));
            let Op::BufferCast(rest) = data.op else { return };
            let ends = (module.types[func.ty(data.args[0])], module.types[func.ty(data.results[0])]);
            if let (TypeData::Buffer(from), TypeData::Buffer(to)) = ends {
                if rest == Rest::Dropped {
                    let unit = units.entry(to).or_default();
                    *unit = gcd(*unit, whole(to));
                    return;
                }
                let step = gcd(whole(from), unit_of(func, &defs, data.args[1], 8));
                // What the cast moves the begin of the memory by.
                let moved = if step.is_multiple_of(whole(to)) { 0 } else { gcd(step, whole(to)) };
                casts.push((from, to, moved));
            }
        });
    }
    loop {
        let mut settled = true;
        for &(from, to, moved) in &casts {
            let (before, given) = (units.get(&to).copied().unwrap_or(0), units.get(&from).copied());
            let Some(given) = given else { continue };
            let unit = gcd(gcd(before, given), moved);
            settled &= unit == before;
            units.insert(to, unit);
        }
        if settled {
            break;
        }
    }
    units.into_iter().filter(|&(ty, unit)| !unit.is_multiple_of(whole(ty))).map(|(ty, _)| ty).collect()
}

/// A number that divides `v`; 0 if `v` is 0. Looks at operands of operands to a depth.
fn unit_of(func: &Function, defs: &FxHashMap<Value, Inst>, v: Value, depth: u32) -> u64 {
    let data = defs.get(&v).map(|&inst| &func.insts[inst]);
    let Some(data) = data.filter(|_| depth > 0) else { return 1 };
    let of = |k: usize| unit_of(func, defs, data.args[k], depth - 1);
    match data.op {
        Op::Const(bits) => (bits as i64).unsigned_abs(),
        Op::Add | Op::Sub => gcd(of(0), of(1)),
        // The product may wrap, and of its divisors only powers of two stay.
        Op::Mul => match of(0).wrapping_mul(of(1)) {
            0 => 0,
            unit => 1 << unit.trailing_zeros(),
        },
        _ => 1,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
