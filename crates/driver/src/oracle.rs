//! Computes derivatives by dual numbers ([`ir::interp::dual`]) on the code before differentiation. If the
//! program itself calls derivatives, these are differentiated first, and the dual numbers are evaluated on
//! the result. The same code in numbers of twice the digits ([`ir::interp::precise`]) gives slopes by differences that
//! have all digits of a double.

use ir::interp::dual::{self, Dual};
use ir::interp::interval::Interval;
use ir::interp::precise::Precise;
use ir::interp::{Lane, Limits, Memory, RunError, Value, call_limited};
use ir::{Func, Module, Op, Space, Type, TypeData, Types, scalar};
use lower::Request;
use syntax::Span;

use crate::bind::Bind;
use crate::call::{Callee, Number, Point};
use crate::error::{Failure, source_span};
use crate::inputs;
use crate::launch::{Backend, CodeOptions, Runner};
use crate::pipeline::{self, Loaded};

/// A slope computed by dual numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exact {
    /// The derivative.
    pub slope: f64,
    /// The place where a derivative is cut on the way, if there is one: differences cannot see that.
    pub cut: Option<Span>,
}

/// Slopes `[output][input]`.
pub type Jacobian = Vec<Vec<Exact>>;

/// A function that can be called with dual numbers.
pub struct Oracle {
    module: Module,
    func: Func,
    memory: Memory,
}

/// The maximum number of instructions of a call with dual numbers. Calls that take longer are checked without
/// them.
const MOST_STEPS: u64 = 20_000_000;

impl Oracle {
    /// Creates the oracle of the first requested function in doubles, with the memory that it reaches.
    pub fn new(loaded: &mut Loaded, request: &Request, binds: &[Bind]) -> Result<Oracle, Failure> {
        let options = pipeline::Options { widen: true, ..pipeline::Options::default() };
        Oracle::with(loaded, request, binds, &options)
    }

    /// Creates the oracle of the first requested function, in the types that the options give it.
    pub fn with(
        loaded: &mut Loaded,
        request: &Request,
        binds: &[Bind],
        options: &pipeline::Options,
    ) -> Result<Oracle, Failure> {
        let options = pipeline::Options { no_autodiff: true, ..options.clone() };
        let request = Request { derivatives: false, ..request.clone() };
        let mut compiled = loaded.compile(&request, &options)?;
        let asks = |op: &Op| matches!(op, Op::CallDerivative(..));
        let mut functions = compiled.module.funcs.values();
        if functions.any(|f| f.insts.values().any(|i| asks(&i.op))) {
            // No optimisation follows, since it would lose the places where values are detached.
            let problems = autodiff::differentiate(&mut compiled.module, &autodiff::Options::default());
            if !problems.is_empty() {
                return Err(Failure::Program(problems.into_iter().map(crate::findings::problem).collect()));
            }
            stand_in(&mut compiled.module);
        }
        let func = compiled.functions[0].func;
        let module = compiled.module;
        let code = CodeOptions::default();
        let mut runner = Runner::with_pointers(module.clone(), binds, Backend::INTERP, &code)?;
        inputs::bind(loaded, &mut runner, binds)?;
        let buffers = runner.contents().map(<[u8]>::to_vec).collect();
        let memory = memory(&module, buffers);
        Ok(Oracle { module, func, memory })
    }

    /// The Jacobian; `None` if the call fails.
    pub fn jacobian(&self, callee: &Callee, point: &Point) -> Option<Jacobian> {
        let primal = self.values(point);
        let mut columns = Vec::new();
        for at in (0..callee.inputs.len()).filter(|&k| callee.inputs[k].diff) {
            let mut tangent = vec![0; point.len()];
            tangent[at] = scalar::one(callee.inputs[at].scalar);
            let mut memory = self.memory.clone();
            let (tangent, memory) = (self.values(&tangent), &mut memory);
            let called = dual::call(&self.module, self.func, &primal, &tangent, memory, limits());
            let lanes: Vec<Dual> = called.ok()?.iter().flat_map(Value::lanes).collect();
            let outputs = callee.outputs.iter().zip(lanes).filter(|n| n.0.diff);
            let exact =
                |(_, lane): (&Number, Dual)| Exact { slope: lane.tangent, cut: lane.cut.map(source_span) };
            columns.push(outputs.map(exact).collect::<Vec<Exact>>());
        }
        let rows = columns.first().map_or(0, Vec::len);
        Some((0..rows).map(|row| columns.iter().map(|c| c[row]).collect()).collect())
    }

    /// All outputs for these inputs, with twice the digits of doubles; `None` if the call fails.
    pub fn precise(&self, inputs: &[Precise]) -> Option<Vec<Precise>> {
        let (inputs, mut memory) = (self.values(inputs), self.memory.clone());
        let called = call_limited(&self.module, self.func, &inputs, &mut memory, limits());
        Some(called.ok()?.iter().flat_map(Value::lanes).collect())
    }

    /// Bounds of all outputs for inputs that are given by their bits: of what the function computes in its types, and of
    /// what it would compute in real numbers.
    pub fn intervals(&self, inputs: &[u64]) -> Result<Vec<Interval>, RunError> {
        let inputs: Vec<Interval> = inputs.iter().map(|&bits| Interval::from_bits(bits)).collect();
        let (inputs, mut memory) = (self.values(&inputs), self.memory.clone());
        let called = call_limited(&self.module, self.func, &inputs, &mut memory, limits());
        Ok(called?.iter().flat_map(Value::lanes).collect())
    }

    /// The arguments that have these numbers.
    fn values<L: Lane>(&self, numbers: &[L]) -> Vec<Value<L>> {
        values(&self.module, self.func, numbers)
    }
}

/// Memory for the interpreter, with these contents of the module's globals.
pub(crate) fn memory(module: &Module, buffers: Vec<Vec<u8>>) -> Memory {
    let mut memory = Memory { buffers, ..Memory::default() };
    for (global, data) in &module.globals {
        memory.bound[global] = Some(global.as_u32());
        if matches!(data.space, Space::GroupShared | Space::Private) {
            memory.buffers[global.as_u32() as usize] = vec![0; module.mem.size(data.ty) as usize];
        }
    }
    // Static variables hold the values of their initialisers, evaluated in order of declaration, since an
    // initialiser may read earlier variables.
    for (global, data) in &module.globals {
        let Some(init) = data.init else { continue };
        let Ok(leaves) = ir::interp::call(module, init, &[], &mut memory) else { continue };
        memory.bind(global, ir::interp::element_bytes(module, data.ty, &leaves));
    }
    memory
}

/// The arguments of a function that have these numbers.
pub(crate) fn values<L: Lane>(module: &Module, func: Func, numbers: &[L]) -> Vec<Value<L>> {
    let mut numbers = numbers.iter().copied();
    module.funcs[func].params.iter().map(|s| value(&module.types, s.ty, &mut numbers)).collect()
}

fn limits() -> Limits {
    Limits { steps: Some(MOST_STEPS), ..Limits::default() }
}

/// Builds a value of a numeric type from its numbers.
fn value<L: Lane>(types: &Types, ty: Type, numbers: &mut dyn Iterator<Item = L>) -> Value<L> {
    let next = |numbers: &mut dyn Iterator<Item = L>| numbers.next().unwrap_or(L::from_bits(0));
    match types[ty] {
        TypeData::Scalar(_) => Value::Scalar(next(numbers)),
        TypeData::Vector(_, n) => Value::Vector((0..n).map(|_| next(numbers)).collect()),
        TypeData::Array(t, n) => Value::array((0..n).map(|_| value(types, t, &mut *numbers)).collect()),
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
            Value::zero(types, ty)
        }
    }
}

/// Replaces calls of a function by calls of a function that computes the same value and has derivatives: the
/// residuals kept for a pullback carry no derivatives themselves.
pub fn stand_in(module: &mut Module) {
    for func in module.funcs.keys().collect::<Vec<_>>() {
        for inst in module.funcs[func].insts.keys().collect::<Vec<_>>() {
            let Op::Call(callee) = module.funcs[func].insts[inst].op else { continue };
            let witness = module.witnesses.get(&callee).filter(|w| w.is_same);
            if let Some(other) = witness.and_then(|w| w.substitute).filter(|&other| other != func) {
                module.funcs[func].insts[inst].op = Op::Call(other);
            }
        }
    }
}
