//! Answers what emission asks about integers and names: bounds determine how often loops run and thereby the
//! sizes of local arrays on a device.

use ir::analysis::{Analyses, Bounds as Upper, Use};
use ir::{Function, Inst, Op, Types, Value};

/// The analyses of a function, with its bounds in groups of a given size.
pub(crate) struct Bounds<'m> {
    analyses: Analyses<'m>,
    upper: Upper,
}

/// The maximum length of a chain that is followed where each value leads to a single other value.
const CHAIN: u32 = 64;

impl<'m> Bounds<'m> {
    /// Finds the bounds of a function in thread groups of at most this size.
    pub(crate) fn new(types: &'m Types, f: &'m Function, group: [u32; 3]) -> Bounds<'m> {
        let analyses = Analyses::of(types, f);
        let upper = Upper::in_groups(types, f, analyses.defs(), Some(group));
        Bounds { analyses, upper }
    }

    /// The instruction that defines a value.
    pub(crate) fn def(&self, v: Value) -> Option<Inst> {
        self.analyses.inst(v)
    }

    /// The uses of a value.
    pub(crate) fn uses(&self, v: Value) -> &[Use] {
        self.analyses.uses().of_value(v)
    }

    /// The source name of a value; for a result of a loop or branch without one, the name of a value that it
    /// comes from.
    pub(crate) fn name(&self, v: Value) -> Option<String> {
        self.name_at(v, 4)
    }

    fn name_at(&self, v: Value, depth: u32) -> Option<String> {
        // Equal constants share one value, which carries the name of the first.
        let is_constant = matches!(self.analyses.op(v), Some(Op::Const(_) | Op::Zero | Op::Splat));
        if is_constant || depth == 0 {
            return None;
        }
        let f = self.analyses.func;
        if let Some(name) = &f.values[v].name {
            return Some(name.to_string());
        }
        if let Some((region, k)) = self.analyses.tree().param(v) {
            let data = &f.insts[self.analyses.tree().holder(region)?];
            let (args, params, yields) = data.op.carried_at();
            let k = (k as usize).checked_sub(params).filter(|_| data.op.is_loop())?;
            let next = self.name_at(f.regions[region].results[yields + k], depth - 1);
            return next.or_else(|| self.name_at(data.args[args + k], depth - 1));
        }
        let (inst, at) = self.analyses.defs().result(v)?;
        let data = &f.insts[inst];
        let (_, params, yields) = data.op.carried_at();
        let region = &f.regions[*data.regions.first()?];
        if at < data.n_carried() {
            return self.name_at(region.params[params + at], depth - 1);
        }
        let arms = data.regions.iter().map(|&arm| f.regions[arm].results[yields + at]);
        let name = arms.filter_map(|v| self.name_at(v, depth - 1)).next()?;
        Some(if data.op.is_loop() { format!("kept_{name}") } else { name })
    }

    /// The value of an integer constant.
    pub(crate) fn constant(&self, v: Value) -> Option<i64> {
        let (s, bits) = self.analyses.defs().scalar(self.analyses.types, self.analyses.func, v)?;
        if s.is_signed_int() {
            return Some(ir::scalar::to_i64(s, bits));
        }
        i64::try_from(bits).ok().filter(|_| !s.is_float() || bits == 0)
    }

    /// An upper bound of an integer; if there is one, the integer is not negative.
    pub(crate) fn upper(&self, v: Value) -> Option<u64> {
        self.upper.upper(v)
    }

    /// An estimate of the largest value of an index, used to size memory whose limit is checked at run time.
    pub(crate) fn index_estimate(&self, mut v: Value) -> Option<u64> {
        for _ in 0..CHAIN {
            if let Some(most) = self.upper(v) {
                return Some(most);
            }
            let data = self.analyses.def(v)?;
            match data.op {
                Op::Sub | Op::Convert | Op::Detach => v = data.args[0],
                _ => return None,
            }
        }
        None
    }

    /// The maximum number of times that the body of a loop runs.
    pub(crate) fn trips(&self, inst: Inst) -> Option<u64> {
        self.upper.trips(inst)
    }
}
