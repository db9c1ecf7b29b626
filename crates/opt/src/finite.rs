//! Inserts checks that find where a differential becomes infinite or NaN: `ẋ = op(…)` becomes
//! `ẋ = check_finite(op(…), …)`. With [`CheckFinite::Everything`], all numbers are checked.
//!
//! A differential is a tangent or cotangent that differentiation made, or a value of a user's derivative that
//! depends on one. The program stops at the first differential that is not finite, so all differentials that
//! it was computed from are finite; its other operands are reported. Numbers that are not differentials may
//! be infinite: a derivative rule may divide by an infinite number to get zero.
//!
//! A check returns its operand, so it is removed if the checked value is unused; a value that is never read
//! cannot stop the program. A value that only selections, arms or loops read, directly or through arithmetic,
//! is checked behind or within them, since a value that is not taken may be anything. The checks are inserted
//! after inlining, which shows where each value is read, and before all passes that change operations.

use cranelift_entity::EntitySet;
use ir::analysis::{Defs, Tree};
use ir::{Func, Function, Inline, Inst, Module, Op, Value, ValueData};
use smallvec::SmallVec;

use crate::CheckFinite;

/// Prepares a module: functions of the library are inlined, so that the user's line is known. Returns the
/// functions that contain no differentials unless a user's derivative calls them.
pub(crate) fn prepare(module: &mut Module) -> EntitySet<Func> {
    let mut plain: EntitySet<Func> = EntitySet::new();
    let all: Vec<Func> = module.funcs.keys().collect();
    for f in all {
        let func = &module.funcs[f];
        let is_auto = func.inline == Inline::Auto && module.is_library(func.span);
        if func.values.values().all(|v| !v.differential) {
            plain.insert(f);
        }
        if is_auto {
            module.funcs[f].inline = Inline::Always;
        }
    }
    plain
}

/// Inserts the checks into a function.
pub(crate) fn run(module: &mut Module, f: Func, plain: &EntitySet<Func>, checked: CheckFinite) {
    if !module.funcs[f].has_body() {
        return;
    }
    let mut func = ir::build::take(module, f);
    let checks = Checks { module, plain, needed: needed(module, &func), checked };
    func.rebuild(|func, inst, out| {
        out.push(inst);
        for k in 0..func.insts[inst].results.len() {
            out.extend(checks.check(func, inst, k));
        }
    });
    ir::build::put_back(module, f, func);
}

/// The values that are read in the region that defines them, other than as an alternative of a selection,
/// directly or through arithmetic. A value that is only read in an arm or a loop may not be read at all;
/// there, the values computed from it are checked.
fn needed(module: &Module, func: &Function) -> EntitySet<Value> {
    let mut needed: EntitySet<Value> = EntitySet::new();
    let (defs, tree) = (Defs::of(func), Tree::of(func));
    let home = |v: Value| defs.inst(v).and_then(|inst| tree.home(inst));
    let mut insts = Vec::new();
    let is_half = module.is_half(func);
    func.walk(func.body(), &mut |inst| insts.push(inst));
    for (region, data) in &func.regions {
        // The callers of a half know which of its results are read.
        if region != func.body() || !is_half {
            needed.extend(data.results.iter().copied().filter(|&v| home(v) == Some(region)));
        }
    }
    for inst in insts.into_iter().rev() {
        let data = &func.insts[inst];
        let is_check = matches!(data.op, Op::CheckFinite(_));
        let is_arithmetic = is_check || data.op.is_pure() && data.regions.is_empty();
        if is_arithmetic && !data.results.iter().any(|&v| needed.contains(v)) {
            continue;
        }
        let read: &[Value] = match data.op {
            // The first operand of a check is the value that it passes on.
            Op::Select | Op::CheckFinite(_) => &data.args[..1],
            _ => &data.args,
        };
        needed.extend(read.iter().copied().filter(|&v| home(v) == tree.home(inst)));
    }
    needed
}

struct Checks<'a> {
    module: &'a Module,
    plain: &'a EntitySet<Func>,
    needed: EntitySet<Value>,
    checked: CheckFinite,
}

impl Checks<'_> {
    /// Makes the check of a result, if it needs one; the instruction gets a new result in its place.
    fn check(&self, func: &mut Function, inst: Inst, k: usize) -> Option<Inst> {
        let data = &func.insts[inst];
        let v = data.results[k];
        let ValueData { ty, differential, .. } = func.values[v];
        let types = &self.module.types;
        let is_shown = |v: &Value| types.is_numeric(func.ty(*v));
        let is_checked = differential || self.checked == CheckFinite::Everything;
        if !is_checked || !types.is_differentiable(ty) || !is_shown(&v) || !self.needed.contains(v) {
            return None;
        }
        let what = match &data.op {
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Scale
            | Op::Unscale
            | Op::Rem
            | Op::Math(_)
            | Op::Convert
            | Op::Sum
            | Op::Select => ir::print::arithmetic(&data.op),
            Op::Load => "a sum in memory".to_string(),
            Op::If | Op::Switch(_) => "the value of a branch".to_string(),
            Op::For(_) | Op::Loop(_) => "the value of a loop".to_string(),
            Op::Call(callee) if self.plain.contains(*callee) => self.module.funcs[*callee].name.clone(),
            Op::Call(callee) if self.module.is_half(&self.module.funcs[*callee]) => {
                "a value for the reverse pass".to_string()
            }
            _ => return None,
        };
        let what = if differential { what } else { format!("{}{what}", ir::interp::VALUE) };
        let shows = match data.op {
            Op::Load | Op::If | Op::Switch(_) | Op::For(_) | Op::Loop(_) => false,
            Op::Call(callee) => self.plain.contains(callee),
            _ => true,
        };
        let operands = data.args.iter().copied().filter(|v| shows && is_shown(v));
        let operands: SmallVec<[Value; 4]> = operands.collect();
        let span = data.span;
        let raw = func.values.push(ValueData::new(ty));
        let args: SmallVec<[Value; 4]> = std::iter::once(raw).chain(operands).collect();
        func.insts[inst].results[k] = raw;
        Some(func.make(Op::CheckFinite(what.into()), &args, &[v], span))
    }
}
