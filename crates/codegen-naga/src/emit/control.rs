//! Emits `if` and `switch`: their results become variables that the arms assign.
//!
//! A loop with many `break`s is a chain of many `if`s, each in an arm of the one before, which pass all
//! loop-carried values outwards. The chain uses one variable for each such value instead of a copy at each
//! `if`: if an arm yields a result of an inner `if` unchanged, the inner result shares the variable of the
//! outer one. A value that the other arms of such a chain have in common is assigned before the chain.

use cranelift_entity::SecondaryMap;
use ir::{Function, Inst, InstData, Op, Region, TypeData, Value};
use naga::{Block, Statement, SwitchCase, SwitchValue};
use rustc_hash::FxHashMap;

use super::{Buffer, Emitter, Held, Res};
use crate::build::Expr;
use crate::plan::Arg;

/// A variable that several blocks assign.
#[derive(Clone, Debug)]
pub(super) enum Joined {
    /// The value has no uses.
    Unused,
    /// A value.
    Value(Expr),
    /// A stack.
    Stack(Expr),
    /// A handle: the number of its buffer and its offset, where these vary.
    Buffer(Option<Expr>, Option<Expr>),
}

/// The results of `if`s and `switch`es that are yielded unchanged by the arm around them and have no other
/// use; each with its instruction and its position among the results.
pub(super) fn chains(f: &Function, uses: &SecondaryMap<Value, u32>) -> FxHashMap<Value, (Inst, usize)> {
    let mut chains = FxHashMap::default();
    if !f.has_body() {
        return chains;
    }
    let is_choice = |inst: Inst| matches!(f.insts[inst].op, Op::If | Op::Switch(_));
    f.walk(f.body(), &mut |inst| {
        if !is_choice(inst) {
            return;
        }
        for &arm in &f.insts[inst].regions {
            let arm = &f.regions[arm];
            let choices = arm.insts.iter().filter(|&&inst| is_choice(inst));
            let made: FxHashMap<Value, (Inst, usize)> = choices
                .flat_map(|&inst| f.insts[inst].results.iter().enumerate().map(move |(k, &v)| (v, (inst, k))))
                .collect();
            let given = arm.results.iter().filter(|&&v| uses[v] == 1);
            chains.extend(given.filter_map(|v| made.get(v).map(|&made| (*v, made))));
        }
    });
    chains
}

/// Variables whose default value was temporarily replaced, each with the default before that.
type Changed = Vec<(Expr, Option<Value>)>;

impl<'m> Emitter<'_, 'm> {
    /// A variable for a value that several blocks yield.
    pub(super) fn joined(&mut self, v: Value, span: ir::Span) -> Res<Joined> {
        if self.uses[v] == 0 {
            return Ok(Joined::Unused);
        }
        let ty = self.ty(v);
        match self.types[ty] {
            TypeData::Buffer(_) => {
                let (several, moved) = match self.cx.plan.instances[self.instance].values.get(&v) {
                    Some(Arg::Handle(set, moved)) => (set.len() > 1, *moved),
                    _ => (false, false),
                };
                let uint = self.counter_type();
                let which = several.then(|| self.code.local("which", uint));
                let at = moved.then(|| self.code.local("at", uint));
                Ok(Joined::Buffer(which, at))
            }
            TypeData::Stack(_) => Ok(Joined::Stack(self.variable(v, ty)?)),
            _ if crate::plan::holds_handle(self.cx.ir, ty) => {
                self.refuse("an array of buffers that depends on control flow", "it has no such values", span)
            }
            _ => Ok(Joined::Value(self.variable(v, ty)?)),
        }
    }

    /// Assigns values to variables, as if simultaneously.
    pub(super) fn assign(&mut self, to: &[Joined], of: &[Value], from: &[Value]) -> Res {
        let mut stores = Vec::new();
        let written: Vec<Expr> = to
            .iter()
            .filter_map(|t| if let Joined::Value(place) = t { Some(*place) } else { None })
            .collect();
        for ((to, &of), &from) in to.iter().zip(of).zip(from) {
            match to {
                Joined::Unused => {}
                Joined::Value(place)
                    if self.defaults.get(place).is_some_and(|&default| self.is_same(default, from)) => {}
                Joined::Value(place) => {
                    // A value that is already held in its own variable needs no store.
                    if let Held::Place(p) = self.values[from]
                        && p == *place
                    {
                        continue;
                    }
                    // A variable outside this set is not modified by the assignment.
                    if let Held::Place(p) = self.values[from]
                        && !written.contains(&p)
                    {
                        self.store_value(*place, from)?;
                        continue;
                    }
                    let value = self.get(from);
                    stores.push((*place, value));
                }
                Joined::Stack(place) => {
                    if let Held::Place(p) = self.values[from]
                        && p == *place
                    {
                        continue;
                    }
                    self.copy_stack(*place, from)?;
                }
                Joined::Buffer(which, at) => {
                    let buffer = self.buffer(from);
                    let set = self.bases_of(of);
                    let (w, a) = self.widen(&buffer, &set);
                    stores.extend(which.map(|place| (place, w)));
                    stores.extend(at.map(|place| (place, a)));
                }
            }
        }
        for (place, value) in stores {
            self.store_expr(place, value)?;
        }
        Ok(())
    }

    /// Binds a value to the current contents of a variable.
    pub(super) fn bind(&mut self, v: Value, joined: &Joined) -> Res {
        match joined {
            Joined::Unused => {}
            Joined::Value(place) if self.is_array(self.ty(v)) => self.values[v] = Held::Place(*place),
            Joined::Value(place) => {
                let value = self.code.load(*place);
                self.set(v, value)?;
            }
            Joined::Stack(place) => self.values[v] = Held::Place(*place),
            Joined::Buffer(which, at) => {
                let bases = self.bases_of(v);
                let which = which.map(|place| self.code.load(place));
                let at = at.map(|place| self.code.load(place));
                self.values[v] = Held::Buffer(Buffer { bases, which, at });
            }
        }
        Ok(())
    }

    /// The variables of all results, and the defaults that were replaced.
    fn joined_all(&mut self, data: &'m InstData) -> Res<(Vec<Joined>, Changed)> {
        let (mut all, mut changed) = (Vec::new(), Changed::new());
        for (k, &v) in data.results.iter().enumerate() {
            let joined = match self.shared.get(&v) {
                Some(&place) => Joined::Value(place),
                None => self.joined(v, data.span)?,
            };
            if let Joined::Value(place) = joined
                && let Some(default) = self.common(data, k)
                && self.defaults.get(&place).is_none_or(|&known| !self.is_same(known, default))
            {
                self.store_value(place, default)?;
                changed.push((place, self.defaults.insert(place, default)));
            }
            all.push(joined);
        }
        Ok((all, changed))
    }

    /// An already computed value that several arms of a chain yield for a result: one arm of this `if` and
    /// one of an `if` nested in another arm.
    fn common(&self, data: &InstData, k: usize) -> Option<Value> {
        if self.is_array(self.ty(data.results[k])) {
            return None;
        }
        let given = |region: &Region| self.f.regions[*region].results[k];
        let &(inner, k) = data.regions.iter().find_map(|region| self.chains.get(&given(region)))?;
        let known = data.regions.iter().map(given).find(|&v| !matches!(self.values[v], Held::Nothing))?;
        let mut values = self.f.insts[inner].regions.iter().map(|&region| self.f.regions[region].results[k]);
        values.any(|v| self.is_same(v, known)).then_some(known)
    }

    /// Returns true for identical values and for equal constants.
    fn is_same(&self, a: Value, b: Value) -> bool {
        let constant = |v: Value| {
            let op = &self.f.insts[self.bounds.def(v)?].op;
            Some(op).filter(|op| matches!(op, Op::Const(_) | Op::Zero))
        };
        a == b || self.ty(a) == self.ty(b) && constant(a).is_some() && constant(a) == constant(b)
    }

    fn arm(&mut self, data: &'m InstData, arm: Region, to: &[Joined]) -> Res<Block> {
        let results = &self.f.regions[arm].results;
        for (joined, &v) in to.iter().zip(results) {
            if let Joined::Value(place) = joined
                && self.chains.contains_key(&v)
            {
                self.shared.insert(v, *place);
            }
        }
        self.block(arm, |e| e.assign(to, &data.results, results))
    }

    /// Binds the results to their variables after the arms, and restores replaced defaults.
    fn bind_all(&mut self, data: &InstData, to: &[Joined], changed: Changed) -> Res {
        for (place, default) in changed.into_iter().rev() {
            match default {
                Some(default) => self.defaults.insert(place, default),
                None => self.defaults.remove(&place),
            };
        }
        for (&v, joined) in data.results.iter().zip(to) {
            match self.shared.remove(&v) {
                Some(place) => self.values[v] = Held::Place(place),
                None => self.bind(v, joined)?,
            }
        }
        Ok(())
    }

    pub(super) fn if_op(&mut self, data: &'m InstData) -> Res {
        let condition = self.get(data.args[0]);
        let (to, changed) = self.joined_all(data)?;
        let accept = self.arm(data, data.regions[0], &to)?;
        let reject = self.arm(data, data.regions[1], &to)?;
        if accept.is_empty() && !reject.is_empty() {
            let not = self.code.unary(naga::UnaryOperator::LogicalNot, condition);
            self.code.if_else(not, reject, accept);
        } else if !accept.is_empty() {
            self.code.if_else(condition, accept, reject);
        }
        self.bind_all(data, &to, changed)
    }

    pub(super) fn switch_op(&mut self, data: &'m InstData) -> Res {
        let Op::Switch(cases) = &data.op else { return Ok(()) };
        let s = self.scalar(data.args[0]);
        if s.bits() == 64 {
            return self.refuse("a `switch` on a 64-bit integer", "it has none", data.span);
        }
        let selector = self.get(data.args[0]);
        let (to, changed) = self.joined_all(data)?;
        let mut list = Vec::new();
        for (k, &arm) in data.regions.iter().enumerate() {
            let body = self.arm(data, arm, &to)?;
            let value = match cases.get(k) {
                Some(&case) if s.is_signed_int() => SwitchValue::I32(case as i32),
                Some(&case) => SwitchValue::U32(case as u32),
                None => SwitchValue::Default,
            };
            list.push(SwitchCase { value, body, fall_through: false });
        }
        self.code.push(Statement::Switch { selector, cases: list });
        self.bind_all(data, &to, changed)
    }
}
