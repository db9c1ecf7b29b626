//! Removes dead instructions, so that no residual is kept for a tangent that is never used.
//!
//! One backward walk over the regions: an instruction stays if it, or an instruction nested in it, has an
//! effect, or if one of its results is used by an instruction that stays. All values that the regions of such
//! an instruction yield count as used: only whole instructions are removed here, never single results.

use cranelift_entity::EntitySet;
use ir::{Function, Inst, Op, Region, Value};

/// Removes dead instructions from all regions; results of structured instructions stay.
pub(crate) fn clean(func: &mut Function) {
    let mut live: EntitySet<Value> = EntitySet::new();
    let body = func.body();
    live.extend(func.regions[body].results.iter().copied());
    sweep(func, body, &mut live);
}

fn has_effect(func: &Function, inst: Inst) -> bool {
    let data = &func.insts[inst];
    match data.op {
        Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => {
            data.regions.iter().any(|&r| func.regions[r].insts.iter().any(|&i| has_effect(func, i)))
        }
        Op::Local | Op::Load | Op::BufferLoad(_) => false,
        _ => !data.op.is_pure(),
    }
}

fn sweep(func: &mut Function, region: Region, live: &mut EntitySet<Value>) {
    let insts = std::mem::take(&mut func.regions[region].insts);
    let mut kept: Vec<Inst> = Vec::with_capacity(insts.len());
    for inst in insts.into_iter().rev() {
        let data = &func.insts[inst];
        let is_read = data.results.iter().any(|&v| live.contains(v));
        if !is_read && !has_effect(func, inst) {
            continue;
        }
        live.extend(data.args.iter().copied());
        for nested in data.regions.clone() {
            live.extend(func.regions[nested].results.iter().copied());
            sweep(func, nested, live);
        }
        kept.push(inst);
    }
    kept.reverse();
    func.regions[region].insts = kept;
}
