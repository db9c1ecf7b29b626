//! Passes small arrays across control flow as their elements.
//!
//! An array that is a result of an `if`, `switch`, `for` or `loop`, and that is read by elements or built
//! from elements, is replaced by one result for each element: `extract` before the border, `construct` after
//! it. That is right because an array is nothing but its elements. It is worthwhile because `simplify` then
//! joins the extracts and constructs on both sides, so that a matrix carried round a loop is never in memory,
//! and an element that does not change is not carried. Arrays that are read at a variable index stay whole,
//! since they end up in memory anyway.

use cranelift_entity::SecondaryMap;
use ir::analysis::Defs;
use ir::{Function, Inst, Op, Region, Type, TypeData, Types, Value, ValueData};
use smallvec::SmallVec;

use crate::util::{Subst, make};

/// The maximum number of elements of an array that is taken apart.
const MOST: u32 = 16;

/// Takes arrays apart at the borders of control flow; returns true if any was.
pub(crate) fn run(types: &mut Types, func: &mut Function) -> bool {
    if !func.has_body() {
        return false;
    }
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
    let mut explode = Explode { types, func, defs, uses, subst: Subst::default(), changed: false };
    let body = explode.func.body();
    explode.region(body);
    explode.changed
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
            Op::Extract(_) => uses[data.args[0]].element = true,
            Op::Insert(_) => uses[data.args[0]].element = true,
            Op::Index if defs.scalar(types, func, data.args[1]).is_some() => {
                uses[data.args[0]].element = true
            }
            Op::Index => uses[data.args[0]].variable = true,
            // An array is put in a cell in order to be read at a variable index.
            Op::Local => uses[data.args[0]].variable = true,
            _ => {}
        }
    });
    uses
}

struct Explode<'a> {
    types: &'a mut Types,
    func: &'a mut Function,
    defs: Defs,
    uses: SecondaryMap<Value, Use>,
    subst: Subst,
    changed: bool,
}

/// For each result: the element's type and the number of elements, if it is taken apart.
type Plan = SmallVec<[Option<(Type, u32)>; 8]>;

impl Explode<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.func.regions[region].insts);
        let mut out = Vec::with_capacity(insts.len());
        for inst in insts {
            self.subst.apply(self.func, inst);
            match self.func.insts[inst].op {
                Op::If | Op::Switch(_) => self.arms(inst, &mut out),
                Op::For(_) | Op::Loop(_) => self.r#loop(inst, &mut out),
                _ => out.push(inst),
            }
        }
        self.func.regions[region].insts = out;
        self.subst.apply_results(self.func, region);
    }

    fn arms(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let regions: SmallVec<[Region; 2]> = self.func.insts[inst].regions.clone();
        for &region in &regions {
            self.region(region);
        }
        let results = self.func.insts[inst].results.clone();
        let plan: Plan = results
            .iter()
            .enumerate()
            .map(|(n, &r)| {
                let built = regions.iter().all(|&region| self.built(self.func.regions[region].results[n]));
                self.plan(r, self.uses[r], built)
            })
            .collect();
        if plan.iter().all(Option::is_none) {
            out.push(inst);
            return;
        }
        for region in regions {
            self.split_results(region, 0, &plan);
        }
        self.join(inst, &plan, out);
    }

    fn r#loop(&mut self, inst: Inst, out: &mut Vec<Inst>) {
        let body = self.func.insts[inst].regions[0];
        let (args, params, yields) = self.func.insts[inst].op.carried_at();
        let n_carried = self.func.insts[inst].n_carried();
        let plan: Plan = (0..n_carried)
            .map(|k| {
                let p = self.func.regions[body].params[params + k];
                let r = self.func.insts[inst].results[k];
                let y = self.func.regions[body].results[yields + k];
                let (a, b) = (self.uses[p], self.uses[r]);
                let both = Use { element: a.element || b.element, variable: a.variable || b.variable };
                self.plan(r, both, self.built(y))
            })
            .collect();
        if plan.iter().all(Option::is_none) {
            self.region(body);
            out.push(inst);
            return;
        }
        let old_args = self.func.insts[inst].args.clone();
        let mut new_args: SmallVec<[Value; 4]> = old_args[..args].into();
        let old_params = self.func.regions[body].params.clone();
        let mut new_params: Vec<Value> = old_params[..params].to_vec();
        let mut first = Vec::new();
        for (k, plan) in plan.iter().enumerate() {
            let (arg, p) = (old_args[args + k], old_params[params + k]);
            let Some((element, n)) = *plan else {
                new_args.push(arg);
                new_params.push(p);
                continue;
            };
            let parts = self.parts(arg, element, n, out);
            new_args.extend(parts);
            let inner: SmallVec<[Value; 16]> = (0..n).map(|_| self.fresh(element, p)).collect();
            new_params.extend(inner.iter().copied());
            let whole = self.whole(&inner, p, inst, &mut first);
            self.subst.set(p, whole);
        }
        self.func.insts[inst].args = new_args;
        self.func.regions[body].params = new_params;
        let old = std::mem::take(&mut self.func.regions[body].insts);
        first.extend(old);
        self.func.regions[body].insts = first;
        self.region(body);
        self.split_results(body, yields, &plan);
        self.join(inst, &plan, out);
    }

    fn plan(&self, r: Value, uses: Use, built: bool) -> Option<(Type, u32)> {
        let TypeData::Array(element, n) = self.types[self.func.ty(r)] else { return None };
        let fits = n <= MOST && !uses.variable && (uses.element || built);
        (fits && self.types.scalar_of(element).is_some()).then_some((element, n))
    }

    /// Returns true if an array is built from elements.
    fn built(&self, v: Value) -> bool {
        let op = self.defs.op(self.func, self.subst.get(v));
        matches!(op, Some(Op::Construct | Op::Insert(_) | Op::Splat | Op::Zero | Op::Absent))
    }

    /// A new value for an element, with the marks of the array.
    fn fresh(&mut self, element: Type, like: Value) -> Value {
        let like = self.func.values[like].clone();
        self.func.values.push(ValueData { ty: element, ..like })
    }

    fn parts(&mut self, v: Value, element: Type, n: u32, out: &mut Vec<Inst>) -> SmallVec<[Value; 16]> {
        let linear = self.func.is_linear(v);
        let span = self.defs.inst(v).map_or(ir::Span::NONE, |inst| self.func.insts[inst].span);
        (0..n)
            .map(|k| {
                let (inst, part) = make(self.func, Op::Extract(k), &[v], element, linear, span);
                self.defs.add(self.func, inst);
                out.push(inst);
                part
            })
            .collect()
    }

    fn whole(&mut self, parts: &[Value], like: Value, holder: Inst, out: &mut Vec<Inst>) -> Value {
        let (ty, linear) = (self.func.ty(like), self.func.is_linear(like));
        let span = self.func.insts[holder].span;
        let (inst, v) = make(self.func, Op::Construct, parts, ty, linear, span);
        self.defs.add(self.func, inst);
        out.push(inst);
        v
    }

    /// Splits the arrays that a region yields into their elements.
    fn split_results(&mut self, region: Region, at: usize, plan: &Plan) {
        let old = self.func.regions[region].results.clone();
        let mut results = old[..at].to_vec();
        let mut last = Vec::new();
        for (n, &v) in old[at..].iter().enumerate() {
            match plan.get(n).copied().flatten() {
                Some((element, count)) => results.extend(self.parts(v, element, count, &mut last)),
                None => results.push(v),
            }
        }
        self.func.regions[region].results = results;
        self.func.regions[region].insts.append(&mut last);
    }

    /// Gives the instruction elements as results, and rebuilds the arrays after it.
    fn join(&mut self, inst: Inst, plan: &Plan, out: &mut Vec<Inst>) {
        self.changed = true;
        let old = std::mem::take(&mut self.func.insts[inst].results);
        let mut results: SmallVec<[Value; 2]> = SmallVec::new();
        let mut after = Vec::new();
        for (n, &r) in old.iter().enumerate() {
            let Some((element, count)) = plan.get(n).copied().flatten() else {
                results.push(r);
                continue;
            };
            let parts: SmallVec<[Value; 16]> = (0..count).map(|_| self.fresh(element, r)).collect();
            results.extend(parts.iter().copied());
            let whole = self.whole(&parts, r, inst, &mut after);
            self.subst.set(r, whole);
        }
        self.func.insts[inst].results = results;
        self.defs.add(self.func, inst);
        out.push(inst);
        out.append(&mut after);
    }
}
