//! Computes which differentials may be absent, and for which their absence may be tested.
//!
//! These are two properties of the values of one function (for a cell, of its content), each a least fixpoint
//! over the function's instructions ([`ir::analysis::flow`]). A parameter of a function may be absent, and
//! its caller may test whether a result is, unless the host is the caller, which only passes numbers.
//!
//! The content of a cell is one value, so one element that may be absent makes all of them so. But an array that
//! starts as absent differentials is mostly filled before it is read: a read behind a loop that writes every element
//! is absent only if what that loop writes is ([`filled`]).

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::flow::{Direction, Flow};
use ir::analysis::points_to::root_cell;
use ir::analysis::{Analyses, Defs, Use};
use ir::{Function, Inst, Math, Op, Region, Scalar, TypeData, Types, Value};
use rustc_hash::FxHashMap;

/// The facts about a function's values; see the module's documentation.
pub(super) struct Facts {
    /// Values whose absence may be tested: a value derived from them may be scaled by a number that is not
    /// finite, so absence must be distinguished from zero.
    pub(super) asked: SecondaryMap<Value, bool>,
    /// Values that may be absent.
    pub(super) absent: SecondaryMap<Value, bool>,
    /// Values that are neither infinite nor NaN.
    pub(super) finite: EntitySet<Value>,
}

/// The kind of caller of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Border {
    /// Functions of the module, which pass differentials.
    Callers,
    /// The host, which passes numbers.
    Host,
}

impl Facts {
    pub(super) fn of(types: &Types, func: &Function, defs: &Defs, border: Border) -> Facts {
        let search = Search { types, func, defs, finite: finite(types, func), filled: filled(types, func) };
        let is_differential = |v: Value| types.is_differentiable(func.ty(v));
        let (mut absent, mut asked) = (Flow::new(func, &is_differential), Flow::new(func, &is_differential));
        if border == Border::Callers {
            let body = &func.regions[func.body()];
            body.params.iter().for_each(|&v| absent.join(v, &true));
            body.results.iter().for_each(|&v| asked.join(v, &true));
        }
        // A sum over the trips of a loop begins as absent, and is present after the first.
        absent.count_trips(defs);
        absent.settle(Direction::Forward, &mut |flow, inst| search.absent(flow, inst));
        asked.settle(Direction::Backward, &mut |flow, inst| search.asked(flow, inst, &absent));
        Facts { asked: asked.into_facts(), absent: absent.into_facts(), finite: search.finite }
    }
}

struct Search<'a> {
    types: &'a Types,
    func: &'a Function,
    defs: &'a Defs,
    finite: EntitySet<Value>,
    /// For reads of elements that a loop before has written: what it wrote.
    filled: FxHashMap<Inst, Value>,
}

impl Search<'_> {
    /// Propagates tests from an instruction's results to its operands.
    fn asked(&self, flow: &mut Flow<bool>, inst: Inst, absent: &Flow<bool>) {
        let data = &self.func.insts[inst];
        let args = &data.args[..];
        let root = |cell: Value| root_cell(self.func, self.defs, cell);
        match &data.op {
            Op::Scale | Op::Unscale => {
                let is_tame = data.op == Op::Scale && self.finite.contains(args[1]);
                flow.join(args[0], &(*absent.get(args[0]) && !is_tame));
                flow.copy(data.results[0], args[0]);
            }
            Op::Mask => {
                flow.join(args[0], absent.get(args[0]));
                flow.copy(data.results[0], args[1]);
            }
            Op::Add
            | Op::Sum
            | Op::Splat
            | Op::Construct
            | Op::Insert(_)
            | Op::Extract(_)
            | Op::Index
            | Op::Convert
            | Op::Detach
            | Op::CheckFinite(_)
            | Op::Select => args.iter().for_each(|&v| flow.copy(data.results[0], v)),
            Op::Local => flow.copy(data.results[0], args[0]),
            Op::Load => flow.copy(data.results[0], root(args[0])),
            Op::Store | Op::AddTo => flow.copy(root(args[0]), args[args.len() - 1]),
            Op::Call(_) => args.iter().for_each(|&v| flow.join(v, &true)),
            _ => (),
        }
    }

    /// Propagates absence from an instruction's operands to its results.
    fn absent(&self, flow: &mut Flow<bool>, inst: Inst) {
        let data = &self.func.insts[inst];
        let args = &data.args[..];
        let root = |cell: Value| root_cell(self.func, self.defs, cell);
        match &data.op {
            Op::Absent => flow.join(data.results[0], &true),
            Op::Const(bits) => {
                let s = self.types.scalar_of(self.func.ty(data.results[0]));
                flow.join(data.results[0], &s.is_some_and(|s| ir::scalar::is_absent(s, *bits)));
            }
            Op::Add => flow.join(data.results[0], &(*flow.get(args[0]) && *flow.get(args[1]))),
            Op::Mask | Op::Construct | Op::Insert(_) | Op::Select => flow.copy_all(args, data.results[0]),
            Op::Scale
            | Op::Unscale
            | Op::Sum
            | Op::Splat
            | Op::Extract(_)
            | Op::Convert
            | Op::Detach
            | Op::CheckFinite(_)
            | Op::Local => flow.copy(args[0], data.results[0]),
            Op::Index => {
                flow.join(data.results[0], &is_sparse(self.types, self.func, self.defs, inst));
                flow.copy(args[0], data.results[0]);
            }
            Op::Load => {
                flow.join(data.results[0], &is_sparse(self.types, self.func, self.defs, inst));
                let written = self.filled.get(&inst).is_none_or(|&x| *flow.get(x));
                flow.join(data.results[0], &(*flow.get(root(args[0])) && written));
            }
            Op::Store => flow.copy(args[args.len() - 1], root(args[0])),
            Op::Call(_) => data.results.iter().for_each(|&v| flow.join(v, &true)),
            _ => (),
        }
    }
}

/// The reads of an element of a cell behind a loop that writes each element of the cell, with what it writes.
///
/// The loop runs whenever the code behind it does: it is in the cell's region, or in loops there that have at least
/// one trip. Whatever is stored in it or later must not matter: only the element that was read is replaced, in the same trip of
/// a loop that visits each element once.
fn filled(types: &Types, func: &Function) -> FxHashMap<Inst, Value> {
    let mut found = FxHashMap::default();
    if !func.contains(|op| *op == Op::Local) {
        return found;
    }
    let analyses = Analyses::of(types, func);
    let tree = analyses.tree();
    func.walk(func.body(), &mut |local| {
        let cell = match func.insts[local].op {
            Op::Local => func.result(local),
            _ => return,
        };
        let Some(TypeData::Array(_, n)) = types.content(func.ty(cell)).map(|ty| &types[ty]) else { return };
        let Some(home) = tree.home(local) else { return };
        let (mut fills, mut stores, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for &at in analyses.uses().of_value(cell) {
            let Use::Operand(inst, 0) = at else { return };
            let data = &func.insts[inst];
            match (&data.op, &data.args[..]) {
                (Op::Load, &[_, index]) => reads.push((inst, index)),
                (Op::Load, _) => {}
                (Op::Store | Op::AddTo, &[_, index, x]) => {
                    let whole = analyses.constant_trips(index) == Some(u64::from(*n))
                        && analyses
                            .trips()
                            .counter(index)
                            .is_some_and(|holder| tree.home(inst) == Some(func.insts[holder].regions[0]));
                    let first = whole.then(|| always_in(&analyses, inst, home)).flatten();
                    fills.extend(first.map(|first| (first, inst, x)));
                    stores.extend((data.op == Op::Store).then_some((inst, index)));
                }
                _ => return,
            }
        }
        for (read, index) in reads {
            let before = |inst: Inst| tree.order(inst) < tree.order(read);
            let inside = |inst: Inst| holds(&analyses, inst, read);
            // The last of the loops before the read.
            let fill = fills.iter().filter(|&&(first, ..)| before(first) && !inside(first));
            let Some(&(first, fill, x)) = fill.max_by_key(|(first, ..)| tree.order(*first)) else { continue };
            let is_counter = analyses.trips().counter(index).is_some_and(|holder| {
                tree.home(read) == Some(func.insts[holder].regions[0]) && tree.home(holder) == Some(home)
            });
            let harmless = stores.iter().all(|&(store, at)| {
                let earlier = tree.order(store) < tree.order(first);
                let replaced =
                    is_counter && at == index && !before(store) && tree.home(store) == tree.home(read);
                earlier || store == fill || replaced
            });
            if harmless {
                found.insert(read, x);
            }
        }
    });
    found
}

/// The instruction of the region that holds another one, which runs whenever the region does.
fn always_in(analyses: &Analyses, inst: Inst, region: Region) -> Option<Inst> {
    let (func, tree) = (analyses.func, analyses.tree());
    let mut at = inst;
    while tree.home(at)? != region {
        let home = tree.home(at)?;
        let counter = func.regions[home].params.first()?;
        analyses.constant_trips(*counter).filter(|&trips| trips > 0)?;
        at = tree.holder(home)?;
    }
    Some(at)
}

/// Returns true if an instruction is in a region of another.
fn holds(analyses: &Analyses, outer: Inst, inner: Inst) -> bool {
    let tree = analyses.tree();
    tree.home(inner)
        .is_some_and(|home| analyses.func.insts[outer].regions.iter().any(|&r| tree.contains(r, home)))
}

/// Returns true if a zero that a `load` or an `index` reads may be an element to which nothing was added: a stack
/// in a cell grows with zeros.
pub(super) fn is_sparse(types: &Types, func: &Function, defs: &Defs, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let of = data.args[0];
    match data.op {
        Op::Load => types.content(func.ty(root_cell(func, defs, of))).is_some_and(|ty| types.has_stack(ty)),
        _ => {
            types.has_stack(func.ty(of))
                && matches!(defs.op(func, of), Some(Op::Load | Op::Index | Op::If | Op::Switch(_)))
        }
    }
}

/// The floats that are finite whatever the program computes: constants, converted integers, and values made
/// from these without arithmetic.
fn finite(types: &Types, func: &Function) -> EntitySet<Value> {
    let mut finite: EntitySet<Value> = EntitySet::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        let &[r] = &data.results[..] else { return };
        let Some(s) = types.scalar_of(func.ty(r)).filter(|s| s.is_float()) else { return };
        let all = |from: usize| data.args[from..].iter().all(|&v| finite.contains(v));
        let is_finite = match data.op {
            Op::Const(bits) => ir::build::float_value(s, bits).is_finite(),
            Op::Zero => true,
            Op::Convert => {
                let from = types.scalar_of(func.ty(data.args[0]));
                let is_float = from.is_some_and(Scalar::is_float);
                if is_float { all(0) && s == Scalar::F64 } else { s != Scalar::F16 }
            }
            Op::Splat | Op::Construct | Op::Insert(_) | Op::Extract(_) | Op::Neg | Op::Detach => all(0),
            Op::Math(Math::Min | Math::Max | Math::Abs | Math::Floor | Math::Ceil) => all(0),
            Op::Select => all(1),
            _ => false,
        };
        if is_finite {
            finite.insert(r);
        }
    });
    finite
}
