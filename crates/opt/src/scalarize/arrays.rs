//! Puts small arrays that cross control flow into cells, which scalar replacement then takes apart.
//!
//! An array that is a result of an `if`, `switch`, `for` or `loop`, and that is read by elements or built
//! from elements, is stored in a cell where it was yielded, and loaded from it where it was a parameter or a
//! result. That is right because the cell holds what would have been passed. It is worthwhile because each
//! element then passes by itself: a matrix carried round a loop is never in memory, and an element that does
//! not change is not carried. Arrays that are read at a variable index stay whole, since they end up in memory
//! anyway.

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::analysis::Defs;
use ir::{Function, Inst, InstData, Op, Region, Type, TypeData, Types, Value};
use smallvec::SmallVec;

use crate::util::make;
use ir::transform::{Subst, keep_results};

/// The maximum number of elements of an array that is taken apart.
const MOST: u32 = 16;

/// Puts arrays into cells; returns true if there was one.
pub(super) fn run(types: &mut Types, func: &mut Function) -> bool {
    let passes_array = |inst: Inst| {
        let data = &func.insts[inst];
        let is_array = |&r: &Value| matches!(types[func.ty(r)], TypeData::Array(..));
        !data.regions.is_empty() && data.results.iter().any(is_array)
    };
    if !func.any(func.body(), &passes_array) {
        return false;
    }
    let defs = Defs::of(func);
    let uses = uses(types, func, &defs);
    let mut arrays = Arrays { types, func, defs, uses, subst: Subst::default(), loaded: EntitySet::new() };
    let body = arrays.func.body();
    arrays.region(body);
    !arrays.loaded.is_empty()
}

/// How an array is read.
#[derive(Clone, Copy, Default)]
struct Use {
    /// Read by `extract`, or by `index` with a constant.
    element: bool,
    /// Read by `index` with a variable.
    variable: bool,
}

fn uses(types: &Types, func: &Function, defs: &Defs) -> SecondaryMap<Value, Use> {
    let mut uses: SecondaryMap<Value, Use> = SecondaryMap::new();
    func.walk(func.body(), &mut |inst| {
        let data = &func.insts[inst];
        match data.op {
            Op::Extract(_) | Op::Insert(_) => uses[data.args[0]].element = true,
            Op::Index if defs.scalar(types, func, data.args[1]).is_some() => {
                uses[data.args[0]].element = true;
            }
            // An array is put in a cell in order to be read at a variable index.
            Op::Index | Op::Local => uses[data.args[0]].variable = true,
            _ => {}
        }
    });
    uses
}

struct Arrays<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    uses: SecondaryMap<Value, Use>,
    subst: Subst,
    /// The values that are loaded from the new cells.
    loaded: EntitySet<Value>,
}

impl Arrays<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut out = Vec::with_capacity(insts.len());
        for inst in insts {
            self.subst.apply(self.func, inst);
            let data = &self.func.insts[inst];
            let nested: SmallVec<[Region; 2]> = data.regions.clone();
            if data.op.is_loop() {
                let plan: Vec<bool> = (0..data.n_carried()).map(|k| self.is_taken(inst, k)).collect();
                self.pass_by_cells(inst, &plan, &mut out);
            } else if nested.is_empty() {
                out.push(inst);
            } else {
                nested.into_iter().for_each(|region| self.region(region));
                let n = self.func.insts[inst].results.len();
                let plan: Vec<bool> = (0..n).map(|k| self.is_taken(inst, k)).collect();
                self.pass_by_cells(inst, &plan, &mut out);
            }
        }
        self.func.regions[region].insts = out;
        self.subst.apply_results(self.func, region);
    }

    /// Returns true if a result of a control instruction is an array that is taken apart.
    fn is_taken(&self, inst: Inst, k: usize) -> bool {
        let data = &self.func.insts[inst];
        let (_, params, yields) = data.op.carried_at();
        let r = data.results[k];
        let TypeData::Array(element, n) = self.types[self.func.ty(r)] else { return false };
        let mut uses = self.uses[r];
        if data.op.is_loop() {
            let inside = self.uses[self.func.regions[data.regions[0]].params[params + k]];
            uses =
                Use { element: uses.element || inside.element, variable: uses.variable || inside.variable };
        }
        let is_built = |&region: &Region| self.is_built(self.func.regions[region].results[yields + k]);
        let by_elements = uses.element || data.regions.iter().all(is_built);
        n <= MOST && !uses.variable && by_elements && self.types.scalar_of(element).is_some()
    }

    /// Returns true if an array is built from elements.
    fn is_built(&self, v: Value) -> bool {
        let v = self.subst.get(v);
        let op = self.defs.op(self.func, v);
        self.loaded.contains(v)
            || matches!(op, Some(Op::Construct | Op::Insert(_) | Op::Splat | Op::Zero | Op::Absent))
    }

    /// Appends a control instruction that passes the results in `plan` by cells; walks the body of a loop.
    fn pass_by_cells(&mut self, inst: Inst, plan: &[bool], out: &mut Vec<Inst>) {
        let InstData { op, args, results, regions, span } = self.func.insts[inst].clone();
        let (first, params, yields) = op.carried_at();
        let mut after = Vec::new();
        let mut before = Vec::new();
        for k in (0..plan.len()).filter(|&k| plan[k]) {
            let (ty, linear) = (self.func.ty(results[k]), self.func.is_linear(results[k]));
            let init = match args.get(first + k).filter(|_| op.is_loop()) {
                Some(&init) => init,
                None => self.emit(if linear { Op::Absent } else { Op::Zero }, &[], ty, inst, linear, out),
            };
            let of = self.types.cell(ty);
            let cell = self.emit(Op::Local, &[init], of, inst, linear, out);
            for &region in &regions {
                let yielded = self.func.regions[region].results[yields + k];
                let store = self.func.make(Op::Store, &[cell, yielded], &[], span);
                self.func.regions[region].insts.push(store);
            }
            if op.is_loop() {
                let param = self.func.regions[regions[0]].params[params + k];
                self.load(cell, param, inst, &mut before);
            }
            self.load(cell, results[k], inst, &mut after);
        }
        if op.is_loop() {
            self.func.regions[regions[0]].insts.splice(0..0, before);
            self.region(regions[0]);
        }
        let keep: SmallVec<[bool; 16]> = plan.iter().map(|&taken| !taken).collect();
        keep_results(self.func, inst, &keep);
        out.push(inst);
        out.append(&mut after);
    }

    /// Loads the array that was passed as `v`.
    fn load(&mut self, cell: Value, v: Value, at: Inst, out: &mut Vec<Inst>) {
        let (ty, linear) = (self.func.ty(v), self.func.is_linear(v));
        let loaded = self.emit(Op::Load, &[cell], ty, at, linear, out);
        self.func.values[loaded] = self.func.values[v].clone();
        self.loaded.insert(loaded);
        self.subst.set(v, loaded);
    }

    fn emit(
        &mut self,
        op: Op,
        args: &[Value],
        ty: Type,
        at: Inst,
        linear: bool,
        out: &mut Vec<Inst>,
    ) -> Value {
        let (inst, v) = make(self.func, op, args, ty, linear, self.func.insts[at].span);
        self.defs.add(self.func, inst);
        out.push(inst);
        v
    }
}
