//! Rewrites loops that count down into loops that count up, before differentiation.
//!
//! `for down n (i) { … i … }  ↦  for n (k) { i = (n - 1) - k; … i … }`, which is the definition of `for
//! down`. Loops are reversed by their trips, so no other pass has to support both directions; afterwards the
//! optimiser makes reversed loops count down where it can.

use ir::{Function, Inst, Module, Op, ValueData};

/// Rewrites the loops that count down in all functions with a body.
pub(crate) fn run(module: &mut Module) {
    for func in module.funcs.values_mut().filter(|func| func.has_body()) {
        let mut down: Vec<Inst> = Vec::new();
        func.walk(func.body(), &mut |inst| {
            if matches!(func.insts[inst].op, Op::For(info) if info.down) {
                down.push(inst);
            }
        });
        down.into_iter().for_each(|inst| turn(func, inst));
    }
}

fn turn(func: &mut Function, inst: Inst) {
    let data = &mut func.insts[inst];
    let (n, body, span) = (data.args[0], data.regions[0], data.span);
    if let Op::For(info) = &mut data.op {
        info.down = false;
    }
    let ty = func.ty(n);
    let [k, one, last] = [(); 3].map(|()| func.values.push(ValueData::new(ty, false)));
    let i = std::mem::replace(&mut func.regions[body].params[0], k);
    let first = [
        func.make(Op::Const(1), &[], &[one], span),
        func.make(Op::Sub, &[n, one], &[last], span),
        func.make(Op::Sub, &[last, k], &[i], span),
    ];
    func.regions[body].insts.splice(0..0, first);
}
