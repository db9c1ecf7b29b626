//! `if` and `switch`: what they give are variables that the arms assign.

use ir::{InstData, Op, Region, TypeData, Value};
use naga::{Block, Statement, SwitchCase, SwitchValue};

use super::{Buffer, Emitter, Held, Res};
use crate::build::Expr;
use crate::plan::Arg;

/// A variable that several blocks assign.
#[derive(Clone, Debug)]
pub(super) enum Joined {
    /// Nothing uses it.
    Unused,
    /// A value.
    Value(Expr),
    /// A stack.
    Stack(Expr),
    /// A handle: which buffer, and how far.
    Buffer(Option<Expr>, Option<Expr>),
}

impl<'m> Emitter<'_, 'm> {
    /// A variable for a value that several blocks give.
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

    /// Assigns values to variables, as if all at once.
    pub(super) fn assign(&mut self, to: &[Joined], of: &[Value], from: &[Value]) -> Res {
        let mut stores = Vec::new();
        let written: Vec<Expr> = to
            .iter()
            .filter_map(|t| if let Joined::Value(place) = t { Some(*place) } else { None })
            .collect();
        for ((to, &of), &from) in to.iter().zip(of).zip(from) {
            match to {
                Joined::Unused => {}
                Joined::Value(place) => {
                    // A value that is its own variable stays.
                    if let Held::Place(p) = self.values[from]
                        && p == *place
                    {
                        continue;
                    }
                    // What is no variable of these is not changed meanwhile.
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

    /// Binds a value to what a variable holds now.
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

    fn joined_all(&mut self, data: &InstData) -> Res<Vec<Joined>> {
        data.results.iter().map(|&v| self.joined(v, data.span)).collect()
    }

    fn arm(&mut self, data: &'m InstData, arm: Region, to: &[Joined]) -> Res<Block> {
        let results = &self.f.regions[arm].results;
        self.block(arm, |e| e.assign(to, &data.results, results))
    }

    pub(super) fn if_op(&mut self, data: &'m InstData) -> Res {
        let to = self.joined_all(data)?;
        let condition = self.get(data.args[0]);
        let accept = self.arm(data, data.regions[0], &to)?;
        let reject = self.arm(data, data.regions[1], &to)?;
        if accept.is_empty() && !reject.is_empty() {
            let not = self.code.unary(naga::UnaryOperator::LogicalNot, condition);
            self.code.if_else(not, reject, accept);
        } else if !accept.is_empty() {
            self.code.if_else(condition, accept, reject);
        }
        for (&v, joined) in data.results.iter().zip(&to) {
            self.bind(v, joined)?;
        }
        Ok(())
    }

    pub(super) fn switch_op(&mut self, data: &'m InstData) -> Res {
        let Op::Switch(cases) = &data.op else { return Ok(()) };
        let s = self.scalar(data.args[0]);
        if s.bits() == 64 {
            return self.refuse("a `switch` on a 64-bit integer", "it has none", data.span);
        }
        let to = self.joined_all(data)?;
        let selector = self.get(data.args[0]);
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
        for (&v, joined) in data.results.iter().zip(&to) {
            self.bind(v, joined)?;
        }
        Ok(())
    }
}
