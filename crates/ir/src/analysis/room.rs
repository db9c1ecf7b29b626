//! Finds memory that ends within an element, as a cast to a larger type may produce.
//!
//! The memory behind a handle consists of whole elements where a global or a handle in memory provides it. A
//! cast treats the same bytes as elements of another type, the last of which may be partial. For each element
//! type, this module finds a number that divides the size in bytes of all memory that is viewed as such
//! elements. If that number is not a multiple of the element's size, the last element may be partial, and
//! accesses must check bytes rather than whole elements only.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::entities::{Inst, MemType, Value};
use crate::function::{Function, InstData};
use crate::memory::MemData;
use crate::module::Module;
use crate::ops::{Op, Rest};
use crate::types::TypeData;

/// The element types for which memory may end in a partial element.
pub fn partial_elements(module: &Module) -> FxHashSet<MemType> {
    let mut casts = Vec::new();
    // A divisor of the memory's size in bytes; 0 for a type that no handle leads to.
    let mut units: FxHashMap<MemType, u64> = FxHashMap::default();
    let whole = |ty: MemType| module.mem.size(ty).max(1);
    let made = numbered_handle(module).is_some();
    for (_, data) in module.mem.iter() {
        if let MemData::Handle(ty) = *data {
            units.insert(ty, if made { 1 } else { whole(ty) });
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
            if data.op == Op::HandleOf
                && let TypeData::Buffer(to) = module.types[func.ty(data.results[0])]
            {
                // The number may stand for any byte of any memory.
                units.insert(to, 1);
            }
            let Op::BufferCast(rest) = data.op else { return };
            let ends = (module.types[func.ty(data.args[0])], module.types[func.ty(data.results[0])]);
            if let (TypeData::Buffer(from), TypeData::Buffer(to)) = ends {
                if rest == Rest::Dropped {
                    let unit = units.entry(to).or_default();
                    *unit = gcd(*unit, whole(to));
                    return;
                }
                let step = gcd(whole(from), unit_of(func, &defs, data.args[1], 8));
                // The effect of the cast's offset, which moves the start of the memory.
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

/// The first instruction that makes a handle of a number, or stores one as a number. In a module without such
/// instructions, numbers only tell handles apart.
pub fn numbered_handle(module: &Module) -> Option<&InstData> {
    let mut all = module.funcs.values().flat_map(|func| func.insts.values().map(move |data| (func, data)));
    all.find(|(func, data)| data.op == Op::HandleOf || stores_handle(module, func, data)).map(|found| found.1)
}

fn stores_handle(module: &Module, func: &Function, data: &InstData) -> bool {
    let value = data.args.last().filter(|_| matches!(data.op, Op::BufferStore(_)));
    value.is_some_and(|&x| super::points_to::has_handle(&module.types, func.ty(x)))
}

/// A number that divides `v`; 0 if `v` is 0. Follows operands to a limited depth.
fn unit_of(func: &Function, defs: &FxHashMap<Value, Inst>, v: Value, depth: u32) -> u64 {
    let data = defs.get(&v).map(|&inst| &func.insts[inst]);
    let Some(data) = data.filter(|_| depth > 0) else { return 1 };
    let of = |k: usize| unit_of(func, defs, data.args[k], depth - 1);
    match data.op {
        Op::Const(bits) => (bits as i64).unsigned_abs(),
        Op::Add | Op::Sub => gcd(of(0), of(1)),
        // The product may wrap, and only powers of two remain divisors of a wrapped product.
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
