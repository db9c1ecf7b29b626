//! The walk over the IR that the emitters of CPU backends share.
//!
//! A backend is an [`Assembler`]: it offers instructions, memory of the function, and calls of the runtime.
//! The meaning of each op in terms of these is written here once, for Cranelift's instructions, which work on one
//! thread, and for LLVM's, which also work on lanes. An emitter contains a [`Walk`], to which it
//! dereferences: the values of the function, and what is known of its structure.

mod aggregate;
mod assembler;
pub mod blocks;
mod bundles;
mod cells;
pub mod control;
pub mod functions;
mod handles;
mod in_range;
mod loops;
pub mod memory;
pub mod notes;
pub mod numbers;
mod paths;
mod walk;
pub mod world;

use ir::{Class, Inst, Op, Region};

pub use assembler::{
    Access, Assembler, Binary, Cast, Compare, Fixed, Instructions, Memory, Odds, Res, Stack, UNIFORM, Unary,
    VARYING, begin_path, zero,
};
use paths::path_inst;
pub use walk::{UNROLL, Vals, Walk};

/// Emits the instructions of a region.
pub fn region<'m, A: Assembler<'m>>(e: &mut A, region: Region) -> Res<'m, A> {
    notes::within(e, |e| e.f.regions[region].insts.iter().try_for_each(|&i| inst(e, i)))
}

/// Emits one instruction.
pub fn inst<'m, A: Assembler<'m>>(e: &mut A, inst: Inst) -> Res<'m, A> {
    let f = e.f;
    let data = &f.insts[inst];
    e.here = data.span;
    notes::instruction(e);
    path_inst(e, inst);
    if e.is_done(inst)? {
        return Ok(());
    }
    match &data.op {
        Op::Zero | Op::Select | Op::Sum => aggregate::arithmetic(e, data),
        Op::Detach => {
            let vals = e.get(data.args[0]);
            e.set(data.results[0], &vals);
            Ok(())
        }
        Op::CallDerivative(..) | Op::CallTransposeOf(_) => {
            e.unsupported(&data.op, "a derivative that was not generated", data.span)
        }
        op => match op.spec().class {
            Class::Number => aggregate::arithmetic(e, data),
            Class::Aggregate => aggregate::aggregate(e, data),
            Class::Cell => cells::cell(e, inst),
            Class::World => world::world(e, data),
            Class::Call | Class::Control => control::control(e, inst),
            Class::Differential => e.unsupported(&data.op, "a derivative that was not generated", data.span),
        },
    }
}
