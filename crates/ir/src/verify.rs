//! Checks that a function is well-formed. The rules are:
//!
//! 1. **Structure.** Regions and instructions that are alive are listed once. An op has the number of
//!    operands, results and regions that its rule asks for; a region has the number of parameters and results
//!    that its op asks for.
//! 2. **Definition.** A value is defined once, and used only after its definition in the same region or in a
//!    region nested there.
//! 3. **Types.** The operands and results of every op have the types of its rule in `docs/ir.md`; a static
//!    index is in range; a path leads to a leaf; the arms of an `if` or `switch` yield the same types; the
//!    values that a loop carries keep their types; a stacked value comes out as a stack.
//! 4. **Cells** do not cross a border: no parameter, result or argument is a cell (except in the cell ops
//!    themselves), and no type has a cell as its element or content.
//! 5. **Linearity.** Linear values are made of floats; every op takes and gives them as [`Op::linearity`]
//!    allows. Conditions, tags, trip counts and indices are numbers; a `loop` carries linear values only
//!    beside numbers, until `unzip` splits it; a call's operands and results are linear where the callee's
//!    slots are.
//! 6. **Slots.** The body's parameters and results have the types and marks of the function's slots; `diff`
//!    slots are of floats.
//! 7. **The module.** Names of functions are unique; witnesses have the flat signatures; initialisers give
//!    the leaves of their globals; entries take and give nothing; ids are in range.
//!
//! All errors are collected. The time is linear in the size of the function.

mod module;
mod ops;

use cranelift_entity::{EntityRef, SecondaryMap};

use crate::entities::{Inst, Region, Value};
use crate::function::{Function, InstData};
use crate::module::Module;
use crate::ops::Op;
use crate::spec::Linearity;
use crate::types::{Scalar, Type, TypeData, Types};

pub use module::{verify_module, verify_signatures};

/// A violation of one of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The function's name; empty for an error of the module itself.
    pub func: String,
    /// The value, instruction or slot that is wrong, with the instruction as text.
    pub entity: String,
    /// A description of the violation.
    pub message: String,
}

impl std::fmt::Display for VerifyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let VerifyError { func, entity, message } = self;
        match func.as_str() {
            "" => write!(f, "{entity}: {message}"),
            func => write!(f, "{func}: {entity}: {message}"),
        }
    }
}

/// Returns all violations in a function; none if it is well-formed.
pub fn verify_function(module: &Module, function: &Function) -> Vec<VerifyError> {
    let mut verifier = Verifier {
        module,
        types: &module.types,
        f: function,
        state: SecondaryMap::with_capacity(function.values.len()),
        seen_insts: SecondaryMap::with_capacity(function.insts.len()),
        seen_regions: SecondaryMap::with_capacity(function.regions.len()),
        good_types: SecondaryMap::new(),
        current: None,
        errors: Vec::new(),
    };
    verifier.function();
    verifier.errors
}

/// Panics with all errors and the function's text if the function is not well-formed. Used by tests, and
/// between passes in debug builds.
pub fn assert_valid(module: &Module, function: &Function) {
    let errors = verify_function(module, function);
    let list: Vec<String> = errors.iter().map(VerifyError::to_string).collect();
    assert!(list.is_empty(), "{}\n{}", list.join("\n"), crate::print::print_function(module, function));
}

/// The visibility of a value at the current point of the walk.
#[derive(Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Undefined,
    Visible,
    /// The value was defined in a region that has ended.
    Hidden,
}

struct Verifier<'a> {
    module: &'a Module,
    types: &'a Types,
    f: &'a Function,
    state: SecondaryMap<Value, State>,
    seen_insts: SecondaryMap<Inst, bool>,
    seen_regions: SecondaryMap<Region, bool>,
    good_types: SecondaryMap<Type, bool>,
    current: Option<Inst>,
    errors: Vec<VerifyError>,
}

/// The outcome of one rule; an error is reported at the instruction.
type Checked = Result<(), String>;

fn check(condition: bool, message: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(message()) }
}

impl Verifier<'_> {
    fn error(&mut self, message: String) {
        let entity = match self.current {
            Some(inst) => format!("'{}'", crate::print::print_inst(self.module, self.f, inst)),
            None => "function".to_string(),
        };
        self.errors.push(VerifyError { func: self.f.name.clone(), entity, message });
    }

    fn report(&mut self, result: Checked) {
        if let Err(message) = result {
            self.error(message);
        }
    }

    fn function(&mut self) {
        let f = self.f;
        for (idx, slot) in f.params.iter().chain(&f.results).enumerate() {
            let what = if idx < f.params.len() { "parameter" } else { "result" };
            let idx = if idx < f.params.len() { idx } else { idx - f.params.len() };
            if matches!(self.types[slot.ty], TypeData::Cell(_)) {
                self.error(format!("{what} {idx} is a cell"));
            }
            if (slot.diff || slot.linear) && !self.types.is_differentiable(slot.ty) {
                self.error(format!("{what} {idx} has a tangent but is not made of floats"));
            }
        }
        if !f.has_body() {
            return;
        }
        let body = &f.regions[f.body()];
        self.agree("parameter", &body.params, &f.params);
        self.region(f.body());
        self.current = None;
        self.agree("result", &f.regions[f.body()].results, &f.results);
    }

    /// Checks that the body's values agree with the slots.
    fn agree(&mut self, what: &str, values: &[Value], slots: &[crate::function::Slot]) {
        if values.len() != slots.len() {
            self.error(format!("the body has {} {what}s, the slots are {}", values.len(), slots.len()));
        }
        for (idx, (&v, slot)) in values.iter().zip(slots).enumerate() {
            let Some(data) = self.f.values.get(v) else { continue };
            if data.ty != slot.ty {
                let (is, slot) = (self.name(data.ty), self.name(slot.ty));
                self.error(format!("{what} {idx} is {is}, its slot {slot}"));
            }
            if data.linear != slot.linear {
                self.error(format!("{what} {idx} is linear in one of body and slot"));
            }
        }
    }

    /// Checks a region and everything within; its values are hidden afterwards.
    fn region(&mut self, region: Region) {
        let Some(data) = self.f.regions.get(region) else {
            return self.error(format!("{region} does not exist"));
        };
        if std::mem::replace(&mut self.seen_regions[region], true) {
            return self.error(format!("{region} is held twice"));
        }
        let holder = self.current;
        let mut defined: Vec<Value> = Vec::with_capacity(data.params.len() + data.insts.len());
        for &param in &data.params {
            self.define(param, &mut defined);
            if self.f.values.get(param).is_some_and(|d| matches!(self.types[d.ty], TypeData::Cell(_))) {
                self.error(format!("the parameter {param} of a region is a cell"));
            }
        }
        for &inst in &data.insts {
            self.current = Some(inst);
            self.inst(inst, &mut defined);
        }
        self.current = holder;
        for &result in &data.results {
            self.used(result);
            if self.f.values.get(result).is_some_and(|d| matches!(self.types[d.ty], TypeData::Cell(_))) {
                self.error(format!("the result {result} of a region is a cell"));
            }
        }
        for v in defined {
            self.state[v] = State::Hidden;
        }
    }

    fn define(&mut self, v: Value, defined: &mut Vec<Value>) {
        let Some(data) = self.f.values.get(v) else {
            return self.error(format!("{v} does not exist"));
        };
        if self.state[v] != State::Undefined {
            self.error(format!("{v} is defined twice"));
        }
        self.state[v] = State::Visible;
        defined.push(v);
        if !self.is_good_type(data.ty) {
            let ty = self.name(data.ty);
            self.error(format!("{v} has the type {ty}, which cannot be"));
        }
        let content = self.types.content(data.ty).unwrap_or(data.ty);
        if data.linear && !self.types.is_differentiable(content) {
            self.error(format!("{v} is linear but not made of floats"));
        }
    }

    fn used(&mut self, v: Value) {
        if self.f.values.get(v).is_none() {
            return self.error(format!("{v} does not exist"));
        }
        match self.state[v] {
            State::Visible => {}
            State::Undefined => self.error(format!("{v} is used before it is defined")),
            State::Hidden => self.error(format!("{v} is not visible here: its region has ended")),
        }
    }

    /// Returns true if a type keeps the rules for elements and contents.
    fn is_good_type(&mut self, ty: Type) -> bool {
        if self.good_types[ty] {
            return true;
        }
        let types = self.types;
        let element = |t: Type| !matches!(types[t], TypeData::Cell(_));
        let good = match types[ty] {
            TypeData::Scalar(_) => true,
            TypeData::Vector(_, n) => n >= 1,
            TypeData::Array(t, _) => {
                element(t) && !matches!(types[t], TypeData::Stack(_)) && self.is_good_type(t)
            }
            TypeData::Stack(t) | TypeData::Cell(t) => element(t) && self.is_good_type(t),
            TypeData::Residuals(n) => (n as usize) < self.module.residuals.len(),
            TypeData::Buffer(t) => (t.as_u32() as usize) < self.module.mem.iter().count(),
        };
        self.good_types[ty] = good;
        good
    }

    fn inst(&mut self, inst: Inst, defined: &mut Vec<Value>) {
        let Some(data) = self.f.insts.get(inst) else {
            self.current = None;
            return self.error(format!("{inst} does not exist"));
        };
        if std::mem::replace(&mut self.seen_insts[inst], true) {
            return self.error("listed twice".to_string());
        }
        let before = self.errors.len();
        for &arg in &data.args {
            self.used(arg);
        }
        for &region in &data.regions {
            self.region(region);
            self.current = Some(inst);
        }
        for &result in &data.results {
            self.define(result, defined);
        }
        // The rules below need all values to exist.
        let exist = |values: &[Value]| values.iter().all(|&v| v.index() < self.f.values.len());
        let whole = exist(&data.args)
            && exist(&data.results)
            && data
                .regions
                .iter()
                .all(|&r| self.f.regions.get(r).is_some_and(|r| exist(&r.params) && exist(&r.results)));
        if !whole {
            debug_assert!(self.errors.len() > before);
            return;
        }
        let result = self.arity(data).and_then(|()| self.op(data));
        let typed = result.is_ok();
        self.report(result);
        if typed {
            let result = self.linearity(data);
            self.report(result);
        }
    }

    // ---- names for messages

    fn name(&self, ty: Type) -> String {
        crate::print::print_type(self.module, ty)
    }

    // ---- linearity

    fn linear(&self, v: Value) -> bool {
        self.f.is_linear(v)
    }

    fn linearity(&self, data: &InstData) -> Checked {
        let any = |values: &[Value]| values.iter().copied().find(|&v| self.linear(v));
        let none = |values: &[Value], what: &str| match any(values) {
            Some(v) => Err(format!("{what} {v} must not be linear")),
            None => Ok(()),
        };
        let result = data.results.first().is_some_and(|&v| self.linear(v));
        let gives = |want: bool| {
            check(result == want, || format!("the result must {}be linear", if want { "" } else { "not " }))
        };
        match data.op.linearity() {
            Linearity::Never => {
                none(&data.args, "the operand")?;
                none(&data.results, "the result")
            }
            Linearity::Source => Ok(()),
            Linearity::All => {
                let n_linear = data.args.iter().filter(|&&v| self.linear(v)).count();
                check(n_linear == 0 || n_linear == data.args.len(), || {
                    "either all operands are linear or none is".to_string()
                })?;
                check(n_linear == 0 || self.is_float_convert(data), || {
                    "a linear value is converted between floats only".to_string()
                })?;
                gives(n_linear > 0)
            }
            Linearity::Only(idx) => {
                for (k, &v) in data.args.iter().enumerate() {
                    check(k == idx || !self.linear(v), || format!("operand {k} must not be linear"))?;
                }
                gives(self.linear(data.args[idx]))
            }
            Linearity::Either => {
                let both = self.linear(data.args[0]) && self.linear(data.args[1]);
                check(!both, || "a product of two linear values is not linear".to_string())?;
                gives(any(&data.args).is_some())
            }
            Linearity::AllButFirst => {
                none(&data.args[..1], "the condition")?;
                let n_linear = data.args[1..].iter().filter(|&&v| self.linear(v)).count();
                check(n_linear == 0 || n_linear == data.args.len() - 1, || {
                    "either both arms are linear or none is".to_string()
                })?;
                gives(n_linear > 0)
            }
            Linearity::Cell => {
                let cell = self.linear(data.args[0]);
                let last = data.args.len() - 1;
                let (indices, x) = match data.op {
                    Op::Local => (&data.args[1..], None),
                    Op::Store | Op::AddTo => (&data.args[1..last], Some(data.args[last])),
                    _ => (&data.args[1..], None),
                };
                none(indices, "the index")?;
                if let Some(x) = x {
                    return check(self.linear(x) == cell, || {
                        "either the cell and the value are linear or none is".to_string()
                    });
                }
                gives(cell)
            }
            Linearity::Structure => self.structure_linearity(data),
        }
    }

    fn is_float_convert(&self, data: &InstData) -> bool {
        let is_float = |v: Value| self.types.scalar_of(self.f.ty(v)).is_some_and(Scalar::is_float);
        !matches!(data.op, Op::Convert) || data.results.iter().chain(&data.args).all(|&v| is_float(v))
    }
}
