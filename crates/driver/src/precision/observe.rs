//! Puts an observation behind each operation that rounds.
//!
//! `y = f(x)` in floating-point numbers is `ŷ = f(x)·(1 + δ)` with `|δ| ≤ u`, where `u` is the unit roundoff of the
//! operation's type (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 2.2). The identity
//! `__rounded` of the library (core/precision.slang) takes the place of `y`: its reverse derivative passes the cotangent
//! `ȳ` on and adds `|ȳ·y|·u` to a table. One run of reverse mode thus sums up what every operation contributes to the
//! error of the result, whatever the program's control flow is, since the identity is differentiated as any call.
//!
//! The pass runs before differentiation and before numbers are widened, so that types are those of the program. Functions
//! of the library that have no derivative of their own are inlined first: their operations belong to the line that calls
//! them. A function with a derivative of its own is not differentiated through its body, so it is a single operation, with
//! as many roundings as its body has.

use ir::analysis::{Stage, reach};
use ir::build::float_bits;
use ir::rounding::{digits, half_least, largest, roundoffs, unit};
use ir::transform::inline::{self, Choice};
use ir::{
    CheckpointPolicy, Cycles, Func, Function, Inline, Inst, Module, Op, Scalar, Span, Type, TypeData, Value,
    ValueData,
};
use rustc_hash::FxHashMap;
use syntax::Diagnostic;

use crate::error::{Failure, source_span};

/// Calls within calls of the library beyond this depth are not inlined.
const DEPTH: u32 = 64;

/// A row of the table: the operations at a place whose results have one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The place in the source.
    pub span: Span,
    /// The type of the results.
    pub scalar: Scalar,
}

/// The function of the library that observes, and the function of the program.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    /// The function whose error is estimated.
    pub function: Func,
    /// `__rounded`.
    pub rounded: Func,
}

/// The observations of a program.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// The rows of the table.
    pub rows: Vec<Row>,
    /// Where the functions are declared whose operations are observed.
    pub functions: Vec<Span>,
}

/// Observes all operations of a function and of those that it calls. Derivative operators in the code are an error.
pub fn observe(module: &mut Module, observed: Observed) -> Result<Observations, Failure> {
    let own = |module: &Module, f: Func| {
        let func = &module.funcs[f];
        func.has_body() && !module.is_library(func.span) && !module.has_rule(f)
    };
    inline_library(module, observed.rounded);
    let reached = reach([observed.function], |f| {
        let func = &module.funcs[f];
        let mut called = Vec::new();
        if func.has_body() && (f == observed.function || !module.has_rule(f)) {
            func.walk(func.body(), &mut |inst| {
                if let Op::Call(g) = func.insts[inst].op {
                    called.push(g);
                }
            });
        }
        called
    });
    let is_observed =
        |module: &Module, f: Func| reached.contains(f) && (own(module, f) || f == observed.function);
    if let Some(span) =
        module.funcs.keys().find_map(|f| derivative(module, f).filter(|_| is_observed(module, f)))
    {
        let message = "the rounding errors of code that calls derivatives are not estimated";
        let error = Diagnostic::error("E0926", source_span(span), message);
        let help = "estimate those of the function that is differentiated";
        return Err(Failure::Program(vec![error.help(help)]));
    }
    let (mut rows, mut functions) = (Rows::default(), Vec::new());
    for f in module.funcs.keys().collect::<Vec<_>>() {
        if !is_observed(module, f) {
            continue;
        }
        functions.push(module.funcs[f].span);
        let mut func = ir::build::take(module, f);
        // What the observed code keeps is more, and in doubles, than what the program's limit is about.
        func.checkpoint.budget = None;
        let mut work = Work { module, rounded: observed.rounded, func, rows: &mut rows, out: Vec::new() };
        work.function();
        let func = work.func;
        ir::build::put_back(module, f, func);
    }
    Ok(Observations { rows: rows.list, functions })
}

/// Where a function calls a derivative, itself or by a function that only wraps the operator.
fn derivative(module: &Module, f: Func) -> Option<ir::Span> {
    let asks = |g: Func| module.funcs[g].contains(|op| matches!(op, Op::CallDerivative(..)));
    let wraps = |g: Func| module.funcs[g].inline == Inline::Always && asks(g);
    if wraps(f) {
        return None;
    }
    let calls = |op: &Op| match op {
        Op::CallDerivative(..) => true,
        Op::Call(g) => wraps(*g),
        _ => false,
    };
    module.funcs[f].insts.values().find(|data| calls(&data.op)).map(|data| data.span)
}

/// Inlines the library's functions that are differentiated through their bodies.
fn inline_library(module: &mut Module, rounded: Func) {
    let mut cycles = Cycles::default();
    let recursive: Vec<Func> = module.funcs.keys().filter(|&f| cycles.is_recursive(module, f)).collect();
    for f in module.funcs.keys().collect::<Vec<_>>() {
        if !module.funcs[f].has_body() || module.is_library(module.funcs[f].span) {
            continue;
        }
        inline::calls(module, f, Stage::BeforeAd, &mut |module, _, call| {
            let (g, callee) = (call.callee, &module.funcs[call.callee]);
            let may = callee.has_body()
                && module.is_library(callee.span)
                && !module.has_rule(g)
                && !callee.reruns
                && callee.checkpoint == CheckpointPolicy::default()
                && call.depth < DEPTH
                && g != rounded
                && !recursive.contains(&g);
            if may { Choice::InlineNested } else { Choice::Keep }
        });
    }
}

#[derive(Default)]
struct Rows {
    list: Vec<Row>,
    known: FxHashMap<Row, usize>,
}

impl Rows {
    fn of(&mut self, row: Row) -> usize {
        let Rows { list, known } = self;
        *known.entry(row).or_insert_with(|| {
            list.push(row);
            list.len() - 1
        })
    }
}

/// A function that is being observed.
struct Work<'a> {
    module: &'a mut Module,
    rounded: Func,
    func: Function,
    rows: &'a mut Rows,
    out: Vec<Inst>,
}

/// The parameters of an observation: the operation's unit in the roundoff of the type, and the integers that it does not round.
#[derive(Clone, Copy)]
struct Rounding {
    units: f64,
    exact: f64,
}

impl Work<'_> {
    fn function(&mut self) {
        for region in self.func.regions.keys().collect::<Vec<_>>() {
            for inst in std::mem::take(&mut self.func.regions[region].insts) {
                self.instruction(inst);
            }
            self.func.regions[region].insts = std::mem::take(&mut self.out);
        }
    }

    fn instruction(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        if self.is_sum(&data.op) && data.results.len() == 1 && self.is_float(data.results[0]) {
            self.sum(inst);
            return;
        }
        let Some(rounding) = self.rounding(inst) else {
            self.out.push(inst);
            return;
        };
        let span = data.span;
        let results = data.results.clone();
        self.out.push(inst);
        for (k, result) in results.into_iter().enumerate() {
            if !self.is_float(result) {
                continue;
            }
            let raw = self.func.value_like(result);
            self.func.insts[inst].results[k] = raw;
            self.observed_as(raw, result, rounding, span);
        }
    }

    /// The sum of the lanes of a vector as single additions.
    fn sum(&mut self, inst: Inst) {
        let data = self.func.insts[inst].clone();
        let (of, result) = (data.args[0], data.results[0]);
        let ty = self.func.ty(result);
        let n = match self.module.types[self.func.ty(of)] {
            TypeData::Vector(_, n) => n,
            _ => 1,
        };
        if n == 1 {
            self.func.insts[inst].op = Op::Extract(0);
            self.out.push(inst);
            return;
        }
        let mut sum = self.push(Op::Extract(0), &[of], ty, data.span);
        for k in 1..n {
            let lane = self.push(Op::Extract(k), &[of], ty, data.span);
            let added = self.push(Op::Add, &[sum, lane], ty, data.span);
            sum = if k + 1 == n { result } else { self.func.value_like(added) };
            self.observed_as(added, sum, Rounding { units: 1.0, exact: 0.0 }, data.span);
        }
    }

    /// Lets `to` be `from`, observed.
    fn observed_as(&mut self, from: Value, to: Value, rounding: Rounding, span: Span) {
        let ty = self.func.ty(from);
        let (element, n) = match self.module.types[ty] {
            TypeData::Vector(s, n) => (s.into(), n),
            TypeData::Array(element, n) => (element, n),
            TypeData::Scalar(s) => {
                let row = self.rows.of(Row { span, scalar: s });
                let double: Type = Scalar::F64.into();
                let wide = self.converted(from, s, Scalar::F64, span);
                let numbers =
                    [unit(s) * rounding.units, half_least(s) * rounding.units, largest(s), rounding.exact];
                let mut args = vec![wide, self.constant(Scalar::I32, row as u64, span)];
                for x in numbers {
                    args.push(self.constant(Scalar::F64, float_bits(Scalar::F64, x), span));
                }
                let call = Op::Call(self.rounded);
                if s == Scalar::F64 {
                    let inst = self.func.make(call, &args, &[to], span);
                    self.out.push(inst);
                } else {
                    let seen = self.push(call, &args, double, span);
                    let inst = self.func.make(Op::Convert, &[seen], &[to], span);
                    self.out.push(inst);
                }
                return;
            }
            _ => unreachable!("only values that are made of floats are observed"),
        };
        let mut parts = Vec::new();
        for k in 0..n {
            let part = self.push(Op::Extract(k), &[from], element, span);
            let seen = self.func.value_like(part);
            self.observed_as(part, seen, rounding, span);
            parts.push(seen);
        }
        let inst = self.func.make(Op::Construct, &parts, &[to], span);
        self.out.push(inst);
    }

    fn converted(&mut self, x: Value, from: Scalar, to: Scalar, span: Span) -> Value {
        if from == to { x } else { self.push(Op::Convert, &[x], to.into(), span) }
    }

    fn constant(&mut self, s: Scalar, bits: u64, span: Span) -> Value {
        self.push(Op::Const(bits), &[], s.into(), span)
    }

    fn push(&mut self, op: Op, args: &[Value], ty: Type, span: Span) -> Value {
        let (inst, value) = self.func.make_value(op, args, ValueData::new(ty), span);
        self.out.push(inst);
        value
    }

    /// Returns true for a value that consists of floats.
    fn is_float(&self, v: Value) -> bool {
        let is_value = !matches!(
            self.module.types[self.func.ty(v)],
            TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_)
        );
        is_value && self.module.types.scalar_of(self.func.ty(v)).is_some_and(Scalar::is_float)
    }

    /// The rounding of an instruction; `None` if it does not round.
    fn rounding(&self, inst: Inst) -> Option<Rounding> {
        let data = &self.func.insts[inst];
        let result = *data.results.first()?;
        let is_float = data.results.iter().any(|&result| self.is_float(result));
        let from = data.args.first().and_then(|&arg| self.module.types.scalar_of(self.func.ty(arg)));
        let to = self.module.types.scalar_of(self.func.ty(result));
        let units = match data.op {
            Op::Call(g) if g != self.rounded => self.roundings_of(g),
            _ => of_types(&data.op, from, to),
        };
        let exact = match (&data.op, from, to) {
            (Op::Convert, Some(from), Some(to)) if !from.is_float() => 2f64.powi(digits(to)),
            _ => 0.0,
        };
        (is_float && units > 0.0).then_some(Rounding { units, exact })
    }

    /// The roundings of a call: those of the body of a function that is not differentiated through it.
    fn roundings_of(&self, g: Func) -> f64 {
        let callee = &self.module.funcs[g];
        if !callee.has_body() || !(self.module.has_rule(g) || self.module.is_library(callee.span)) {
            return 0.0;
        }
        let mut units = 0.0;
        let scalar = |v: &Value| self.module.types.scalar_of(callee.ty(*v));
        callee.walk(callee.body(), &mut |inst| {
            let data = &callee.insts[inst];
            let (from, to) = (data.args.first().and_then(scalar), data.results.first().and_then(scalar));
            units += match data.op {
                Op::Call(h) if h != g => {
                    let inner = &self.module.funcs[h];
                    let is_math = inner.has_body() && inner.insts.len() == 1;
                    let of = |i: &ir::InstData| of_types(&i.op, from, to);
                    if is_math { inner.insts.values().map(of).sum() } else { 1.0 }
                }
                Op::Sum => 1.0,
                _ => of_types(&data.op, from, to),
            };
        });
        units
    }

    /// Returns true for the sum of a vector's lanes, and for calls of a function that is only that.
    fn is_sum(&self, op: &Op) -> bool {
        match op {
            Op::Sum => true,
            Op::Call(g) => {
                let callee = &self.module.funcs[*g];
                callee.has_body()
                    && callee.params.len() == 1
                    && callee.regions[callee.body()].insts.len() == 1
                    && callee.contains(|op| *op == Op::Sum)
            }
            _ => false,
        }
    }
}

/// The roundoffs of an operation whose operands and result have numbers of these types.
fn of_types(op: &Op, from: Option<Scalar>, to: Option<Scalar>) -> f64 {
    from.zip(to).map_or(0.0, |(from, to)| roundoffs(op, from, to))
}
