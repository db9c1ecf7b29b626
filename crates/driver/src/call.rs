//! Calls functions from the host: arguments as JSON, results and derivatives as numbers.
//!
//! A function's inputs and outputs are its leaves; here each leaf is split into single numbers, so that a
//! Jacobian is a plain matrix. Forward mode gives its columns and reverse mode its rows, both by the same
//! compiled functions that a kernel would call. Generated kernels call them ([`crate::wrap`]), on any
//! backend.

mod pattern;
mod products;
mod sparse;

use std::path::Path;

use ir::{Func, Module, Scalar, Slot, Space, Type, TypeData, Types, scalar};
use lower::{FunctionInfo, ParamInfo};
use serde_json::Value as Json;

use crate::behind;
use crate::bind;
use crate::error::{Error, Failure};
use crate::inputs;
use crate::launch::{Backend, CodeOptions, Runner};
use crate::output::number_text;
use crate::pipeline::{Compiled, Loaded};
use crate::sparse::Products;
use crate::wrap::{self, Tables, Wrapped};

use pattern::Masks;
use products::{Calls, MOST_BYTES, floats, scalars, units};
pub use sparse::Sparse;

/// One number of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its path in the source: `ray.origin[1]`; `result` for the returned value.
    pub name: String,
    /// The index of its leaf, counted over all inputs or outputs.
    pub leaf: usize,
    /// Its type.
    pub scalar: Scalar,
    /// The number has a tangent.
    pub diff: bool,
}

/// A compiled function that the host can call, on some backend.
pub struct Callee {
    runner: Runner,
    backend: Backend,
    code: CodeOptions,
    /// The function's description by `lower`.
    pub info: FunctionInfo,
    /// Every input number.
    pub inputs: Vec<Number>,
    /// Every output number.
    pub outputs: Vec<Number>,
    common: Tables,
    arguments: Tables,
    results: Tables,
    primal: Wrapped,
    jvp: Option<Wrapped>,
    vjp: Option<Wrapped>,
    hessian: Option<Wrapped>,
    /// Threads per group.
    group: usize,
    /// The memory that calls may change, with its content before each call; `None` if there is no such
    /// memory.
    writable: Option<Vec<(ir::Global, Vec<u8>)>>,
    /// The first warning of a tangent that forward mode loses.
    lost: Option<String>,
    /// The functions of masks of derivatives, made when they are first used.
    masks: Masks,
}

/// The bits of each input number.
pub type Point = Vec<u64>;

/// The kind of derivatives requested from a callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// [`Callee::forward`].
    Forward,
    /// [`Callee::reverse`], and second derivatives if they were compiled.
    Reverse,
    /// [`Callee::back`]: one product of reverse mode at a time.
    Back,
}

impl Callee {
    /// Prepares the first compiled function for calls, given the memory that will be bound to it.
    pub fn new(
        compiled: Compiled,
        backend: Backend,
        code: &CodeOptions,
        binds: &[bind::Bind],
    ) -> Result<Callee, Failure> {
        let Compiled { mut module, functions, warnings, .. } = compiled;
        let lost =
            warnings.into_iter().find(|warning| warning.code == "E0915").map(|warning| warning.message);
        let info = functions.into_iter().next().ok_or_else(|| Error::Internal("no function".into()))?;
        let is_number = |ty| wrap::is_number(&module.types, ty);
        for param in info.params.iter().chain([&info.result]) {
            if let Some(leaf) = param.leaves.iter().find(|l| !is_number(l.1)) {
                let what = if param.name.is_empty() {
                    "result".into()
                } else {
                    format!("parameter `{}`", param.name)
                };
                let place = if leaf.0.is_empty() { String::new() } else { format!(" (`{}`)", leaf.0) };
                let message = format!(
                    "`{}` cannot be called from the host: its {what}{place} is no number but memory; \
                     write a function that takes numbers and calls it",
                    info.name
                );
                return Err(Error::input(message).into());
            }
        }
        let (inputs, outputs) = signature(&module.types, &info);
        let behind = behind::name_pointers(&mut module, binds, backend)?;
        let user: Vec<_> =
            module.globals.iter().filter(|(_, g)| is_written(&module, g)).map(|g| g.0).collect();
        // Places in tables of a group are numbers of 32 bits.
        let fits = inputs.len().max(outputs.len()) < MOST_BYTES;
        let bytes = inputs.iter().chain(&outputs).map(|n| n.scalar.bytes()).max().unwrap_or(4);
        let together = backend.side_by_side(code, bytes).next_power_of_two();
        // A written derivative may ask its wave where the function does not.
        let mut funcs =
            [Some(info.func), info.jvp, info.vjp].into_iter().flatten().chain(info.derived.iter().copied());
        let is_alone = funcs.any(|func| wrap::sees_wave(&module, func));
        let group = if user.is_empty() && fits && !is_alone { together } else { 1 };
        let mut common = Tables::new("call.point", Space::ReadOnly);
        let mut arguments = Tables::new("call.arguments", Space::ReadOnly);
        let mut results = Tables::new("call.results", Space::ReadWrite);
        module.entries.clear();
        // Derivatives are called at one point with several directions.
        let point = module.funcs[info.func].params.len();
        let mut wrapped = |func: Func| {
            let shared = if func == info.func { 0 } else { point };
            let is_plain = |s: &Slot| wrap::is_number(&module.types, s.ty);
            let f = &module.funcs[func];
            f.params.iter().chain(&f.results).all(is_plain).then(|| {
                wrap::wrap(&mut module, func, shared, [&mut common, &mut arguments, &mut results], group)
            })
        };
        let primal = wrapped(info.func)
            .ok_or_else(|| Error::Internal(format!("`{}` is not made of numbers", info.name)))?;
        let (jvp, vjp) = (info.jvp.and_then(&mut wrapped), info.vjp.and_then(&mut wrapped));
        let hessian = info.derived.first().copied().and_then(&mut wrapped);
        crate::pipeline::verify(&module, "wrap")?;
        let runner = Runner::with_behind(module, behind, backend, code)?;
        let writable = (!user.is_empty()).then(|| user.into_iter().map(|g| (g, Vec::new())).collect());
        let mut callee = Callee {
            runner,
            backend,
            code: code.clone(),
            info,
            inputs,
            outputs,
            common,
            arguments,
            results,
            primal,
            jvp,
            vjp,
            hessian,
            group: group as usize,
            writable,
            lost,
            masks: Masks::default(),
        };
        let nothing = Wrapped {
            entry: 0,
            shared: Default::default(),
            args: Default::default(),
            results: Default::default(),
        };
        callee.give(&nothing, &[], &Calls::default(), 0..0, 0);
        Ok(callee)
    }

    /// Creates a callee for one direction and one point at a time: only the code needed for that is compiled,
    /// and for lanes only if there are several calls per point.
    pub fn for_points(
        mut compiled: Compiled,
        backend: Backend,
        code: &CodeOptions,
        binds: &[bind::Bind],
        direction: Direction,
    ) -> Result<Callee, Failure> {
        let mut code = code.clone();
        if let Some(info) = compiled.functions.first_mut() {
            let (inputs, outputs) = signature(&compiled.module.types, info);
            let numbers = match direction {
                Direction::Forward => {
                    info.vjp = None;
                    inputs
                }
                Direction::Reverse | Direction::Back => {
                    info.jvp = None;
                    outputs
                }
            };
            if direction == Direction::Back
                || numbers.iter().filter(|n| n.diff).count() <= 1 && info.derived.is_empty()
            {
                code.lanes = code.lanes.or(Some(1));
            }
        }
        Callee::new(compiled, backend, &code, binds)
    }

    /// Binds the memory that the function reaches, as announced to [`Callee::new`]. All of it must be bound.
    pub fn bind(&mut self, loaded: &mut Loaded, binds: &[bind::Bind]) -> Result<(), Error> {
        inputs::bind(loaded, &mut self.runner, binds)?;
        for (global, bytes) in self.writable.iter_mut().flatten() {
            *bytes = self.runner.bytes_of(*global).to_vec();
        }
        Ok(())
    }

    /// The point given by `NAME=JSON` pairs. `missing` supplies the numbers that are not named.
    pub fn point(
        &self,
        named: &[(String, Json)],
        missing: &mut dyn FnMut(&Number) -> Option<u64>,
    ) -> Result<Point, Error> {
        point(&self.runner.module().types, &self.info, &self.inputs, named, missing)
    }

    /// The function's outputs, as bits, at each point.
    pub fn values(&mut self, points: &[Point]) -> Result<Vec<Vec<u64>>, Error> {
        self.call(&self.primal.clone(), &[], points, 0)
    }

    /// The function's outputs, as bits.
    pub fn value(&mut self, point: &Point) -> Result<Vec<u64>, Error> {
        Ok(self.values(std::slice::from_ref(point))?.swap_remove(0))
    }

    /// The Jacobian by forward mode: `[output][input]`, over the numbers that have tangents.
    pub fn forward(&mut self, point: &Point) -> Result<Vec<Vec<f64>>, Error> {
        let jvp = self.derivative(self.jvp.as_ref())?;
        let columns =
            self.products(&jvp, point, &units(&self.inputs), &scalars(&self.outputs), self.outputs.len())?;
        Ok(columns.rows().map(<[f64]>::to_vec).collect())
    }

    /// The Jacobian by reverse mode: `[output][input]`.
    pub fn reverse(&mut self, point: &Point) -> Result<Vec<Vec<f64>>, Error> {
        let vjp = self.derivative(self.vjp.as_ref())?;
        let rows = self.products(&vjp, point, &units(&self.outputs), &scalars(&self.inputs), 0)?;
        Ok(rows.each().collect())
    }

    /// The function's outputs, as bits, and their derivative along a direction, over the outputs that have tangents. The
    /// direction has a tangent, as bits, for each input that has one.
    pub fn along(&mut self, point: &Point, tangents: &[u64]) -> Result<(Vec<u64>, Vec<f64>), Error> {
        let jvp = self.derivative(self.jvp.as_ref())?;
        check_length(&self.inputs, tangents)?;
        let mut found = self.call(&jvp, point, &[tangents.to_vec()], 0)?.swap_remove(0);
        let tangents = found.split_off(self.outputs.len().min(found.len()));
        Ok((found, floats(&self.outputs, &tangents)))
    }

    /// The cotangents of the inputs for given cotangents, as bits, of the outputs, over the numbers that have tangents.
    pub fn back(&mut self, point: &Point, cotangents: &[u64]) -> Result<Vec<f64>, Error> {
        let vjp = self.derivative(self.vjp.as_ref())?;
        check_length(&self.outputs, cotangents)?;
        let found = self.call(&vjp, point, &[cotangents.to_vec()], 0)?.swap_remove(0);
        Ok(floats(&self.inputs, &found))
    }

    /// A callee for the same code with a copy of the memory, so that several threads can call concurrently.
    pub fn fork(&self) -> Result<Callee, Error> {
        Ok(Callee {
            runner: self.runner.duplicate()?,
            backend: self.backend,
            code: self.code.clone(),
            info: self.info.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            common: self.common.clone(),
            arguments: self.arguments.clone(),
            results: self.results.clone(),
            primal: self.primal.clone(),
            jvp: self.jvp.clone(),
            vjp: self.vjp.clone(),
            hessian: self.hessian.clone(),
            group: self.group,
            writable: self.writable.clone(),
            lost: self.lost.clone(),
            masks: Masks::default(),
        })
    }

    /// The underlying runner.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// The names of the memory that the function reaches and that nothing is bound to, other than the gradients of
    /// tensors, which have a default.
    pub fn unbound(&self) -> Vec<String> {
        let is_own = |g: &ir::Global| {
            self.runner.tensor(*g).is_none_or(|tensor| !tensor.is_grad) && !self.runner.of_pointers(*g)
        };
        let mut names: Vec<String> = Vec::new();
        for global in self.runner.all_unbound().filter(is_own) {
            let name = self.runner.name(global);
            if !names.iter().any(|known| known == name) {
                names.push(name.to_string());
            }
        }
        names
    }

    /// The second derivatives `[input][input]` of the differentiable output number `output`, if they were
    /// requested.
    pub fn hessian(&mut self, point: &Point, output: usize) -> Result<Vec<Vec<f64>>, Error> {
        // Column i holds d(gradient)/d(input i).
        let columns = self.second(point, output, &units(&self.inputs))?;
        Ok(columns.rows().map(<[f64]>::to_vec).collect())
    }

    /// The second derivatives of the differentiable output number `output` times a direction. The direction
    /// is given as a point, of which only the numbers with tangents are used.
    pub fn hessian_vector(&mut self, point: &Point, output: usize, along: &Point) -> Result<Vec<f64>, Error> {
        let along: Vec<u64> = self.inputs.iter().zip(along).filter(|n| n.0.diff).map(|n| *n.1).collect();
        let mut calls = Calls::default();
        calls.push(along.into_iter().enumerate());
        Ok(self.second(point, output, &calls)?.product(0))
    }

    /// The derivative of a gradient along each direction, whose numbers are the calls' own.
    fn second(&mut self, point: &Point, output: usize, along: &Calls) -> Result<Products, Error> {
        let second = self.hessian.clone();
        let second = second.ok_or_else(|| Error::input("the function has no second derivative"))?;
        let mut calls = Calls::default();
        (0..along.len()).for_each(|call| calls.push(self.second_order(output, along.numbers(call))));
        let skip = self.inputs.iter().filter(|n| n.diff).count();
        self.products(&second, point, &calls, &scalars(&self.inputs), skip)
    }

    /// The arguments after the point of the derivative of a gradient, as far as they differ from zero: the cotangents, one for
    /// the output; then the direction; then the directions of the cotangents, which stay.
    fn second_order(
        &self,
        output: usize,
        along: impl Iterator<Item = (usize, u64)>,
    ) -> impl Iterator<Item = (usize, u64)> {
        let cotangents = scalars(&self.outputs);
        let one = cotangents.get(output).map(|&s| (output, scalar::one(s)));
        one.into_iter().chain(along.map(move |(n, bits)| (cotangents.len() + n, bits)))
    }

    /// All outputs as text, by parameter: `(name, value)`. `text` is [`number_text`] or [`number_json`](crate::output::number_json).
    pub fn output_texts(&self, bits: &[u64], text: NumberText) -> Vec<(String, String)> {
        group(&self.outputs, bits, &mut |n, b| text(n.scalar, b))
    }

    /// All inputs as text, by parameter: `(name, value)`.
    pub fn input_texts(&self, point: &Point) -> Vec<(String, String)> {
        group(&self.inputs, point, &mut |n, b| number_text(n.scalar, b))
    }

    /// The inputs that have tangents, with one number of `row` for each, as text: `(name, value)`.
    pub fn gradient_texts(&self, row: &[f64], text: NumberText) -> Vec<(String, String)> {
        let inputs: Vec<Number> = self.inputs.iter().filter(|n| n.diff).cloned().collect();
        let bits: Vec<u64> = row.iter().zip(&inputs).map(|(&x, n)| scalar::from_f64(n.scalar, x)).collect();
        group(&inputs, &bits, &mut |n, b| text(n.scalar, b))
    }

    fn derivative(&self, wrapped: Option<&Wrapped>) -> Result<Wrapped, Error> {
        wrapped.cloned().ok_or_else(|| {
            Error::input(format!(
                "`{}` has no derivative: it needs `[Differentiable]` and a differentiable result",
                self.info.name
            ))
        })
    }
}

/// All numbers of a function's inputs and outputs.
pub(crate) fn signature(types: &Types, info: &FunctionInfo) -> (Vec<Number>, Vec<Number>) {
    let outputs = std::iter::once(&info.result).chain(info.params.iter().filter(|p| p.is_output));
    (numbers(types, info.params.iter().filter(|p| p.is_input)), numbers(types, outputs))
}

/// Returns true if kernels may change a global in a way that other kernels or the host can see.
fn is_written(module: &Module, global: &ir::GlobalData) -> bool {
    match global.space {
        Space::ReadWrite => true,
        Space::ReadOnly | Space::Uniform => global.pointee(&module.mem).is_some(),
        // Each group has its own copy of this memory, but the threads of one group, which are separate calls,
        // would share it.
        Space::GroupShared => true,
        Space::Private | Space::Arena => false,
    }
}

/// Returns an error unless there is a differential for each number that has a tangent.
fn check_length(numbers: &[Number], differentials: &[u64]) -> Result<(), Error> {
    let wanted = numbers.iter().filter(|n| n.diff).count();
    match differentials.len() {
        n if n == wanted => Ok(()),
        n => Err(Error::input(format!("{n} differentials for {wanted} numbers"))),
    }
}

/// The point given by `NAME=JSON` pairs, for a function with these inputs.
pub(crate) fn point(
    types: &Types,
    info: &FunctionInfo,
    inputs: &[Number],
    named: &[(String, Json)],
    missing: &mut dyn FnMut(&Number) -> Option<u64>,
) -> Result<Point, Error> {
    for (name, _) in named {
        if !info.params.iter().any(|p| p.name == *name && p.is_input) {
            let names: Vec<&str> =
                info.params.iter().filter(|p| p.is_input).map(|p| p.name.as_str()).collect();
            return Err(Error::input(format!(
                "`{}` has no parameter `{name}`; it has {}",
                info.name,
                if names.is_empty() { "none".into() } else { names.join(", ") }
            )));
        }
    }
    let mut point = Vec::new();
    let mut leaf = 0;
    for param in info.params.iter().filter(|p| p.is_input) {
        let json = named.iter().rev().find(|n| n.0 == param.name).map(|n| &n.1);
        for (path, ty, _) in &param.leaves {
            match json {
                Some(json) => read(types, *ty, path, json, &mut point)
                    .map_err(|why| Error::input(format!("`{}`: {why}", param.name)))?,
                None => {
                    let numbers = inputs.iter().filter(|n| n.leaf == leaf);
                    let bits: Option<Vec<u64>> = numbers.map(&mut *missing).collect();
                    point.extend(bits.ok_or_else(|| {
                        let name = &param.name;
                        Error::input(format!("parameter `{name}` needs a value: `--at {name}=…`"))
                    })?);
                }
            }
            leaf += 1;
        }
    }
    Ok(point)
}

/// Splits `x=1.5,y=[1,2]` at the commas outside of brackets and strings; `@file.json` stands for the members of the
/// object in the file.
pub fn parse_arguments(option: &str, texts: &[String]) -> Result<Vec<(String, Json)>, Error> {
    let mut out: Vec<(String, Json)> = Vec::new();
    let mut from_files: Vec<(String, Json)> = Vec::new();
    for text in texts {
        for part in split(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            if let Some(path) = part.strip_prefix('@') {
                from_files.extend(crate::files::read_json(Path::new(path))?);
                continue;
            }
            let wrong = || {
                let part = bind::shorten(part);
                Error::input(format!("`{option} {part}`: expected NAME=VALUE or @FILE.json"))
            };
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let (name, value) = (name.trim(), value.trim());
            let json = serde_json::from_str(value).map_err(|e| {
                let value = bind::shorten(value);
                Error::input(format!("`{option} {name}`: `{value}` is not JSON ({e})"))
            })?;
            if out.iter().any(|known| known.0 == name) {
                return Err(Error::input(format!("`{option} {name}` is given twice")));
            }
            out.push((name.to_string(), json));
        }
    }
    // What is given by name takes precedence.
    from_files.retain(|(name, _)| !out.iter().any(|given| given.0 == *name));
    out.extend(from_files);
    Ok(out)
}

fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start) = (0i32, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn numbers<'a>(types: &Types, params: impl Iterator<Item = &'a ParamInfo>) -> Vec<Number> {
    let mut all = Vec::new();
    let mut leaf = 0;
    for param in params {
        let name = if param.name.is_empty() { "result" } else { &param.name };
        for (path, ty, diff) in &param.leaves {
            let s = types.scalar_of(*ty).unwrap_or(Scalar::U64);
            let mut places = Vec::new();
            indices(types, *ty, String::new(), &mut places);
            all.extend(places.into_iter().map(|place| {
                let name = format!("{name}{path}{place}");
                Number { name, leaf, scalar: s, diff: *diff }
            }));
            leaf += 1;
        }
    }
    all
}

fn indices(types: &Types, ty: Type, prefix: String, out: &mut Vec<String>) {
    match types[ty] {
        TypeData::Scalar(_) => out.push(prefix),
        TypeData::Vector(_, n) => out.extend((0..n).map(|k| format!("{prefix}[{k}]"))),
        TypeData::Array(t, n) => (0..n).for_each(|k| indices(types, t, format!("{prefix}[{k}]"), out)),
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {}
    }
}

/// Reads the numbers of the leaf with that path and type from a JSON value. An array of structs is a list of
/// objects.
fn read(types: &Types, ty: Type, path: &str, json: &Json, out: &mut Vec<u64>) -> Result<(), String> {
    let path = path.trim_start_matches("[]");
    let list = |n: u32| match json {
        Json::Array(list) if list.len() == n as usize => Ok(list),
        _ => Err(format!("a list of {n} wanted, found {}", bind::shown(json))),
    };
    if let (Json::Array(_), TypeData::Array(t, n), false) = (json, &types[ty], path.is_empty()) {
        return list(*n)?.iter().try_for_each(|j| read(types, *t, path, j, out));
    }
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (field, rest) = rest.split_at(end);
        let missing = || format!("field `{field}` is missing in {}", bind::shown(json));
        return read(types, ty, rest, json.get(field).ok_or_else(missing)?, out);
    }
    match types[ty] {
        TypeData::Scalar(s) => out.push(bind::number(json, s)?),
        TypeData::Vector(s, n) => {
            for json in list(n)? {
                out.push(bind::number(json, s)?);
            }
        }
        TypeData::Array(t, n) => list(n)?.iter().try_for_each(|j| read(types, t, "", j, out))?,
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
            return Err("a buffer cannot be an argument here".into());
        }
    }
    Ok(())
}

/// A way to write a number, from its type and bits.
type NumberText = fn(Scalar, u64) -> String;

/// Joins the numbers of each parameter into text: `x`, `[1, 2]`.
fn group(
    numbers: &[Number],
    bits: &[u64],
    text: &mut dyn FnMut(&Number, u64) -> String,
) -> Vec<(String, String)> {
    let mut out: Vec<(String, Vec<String>, bool)> = Vec::new();
    for (number, &b) in numbers.iter().zip(bits) {
        let end = number.name.find('[').unwrap_or(number.name.len());
        let (base, indexed) = (&number.name[..end], end < number.name.len());
        let text = text(number, b);
        match out.last_mut() {
            Some(last) if last.0 == base && indexed => last.1.push(text),
            _ => out.push((base.to_string(), vec![text], indexed)),
        }
    }
    out.into_iter()
        .map(|(name, texts, indexed)| {
            let joined = texts.join(", ");
            (name, if indexed { format!("[{joined}]") } else { joined })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_outside_brackets() {
        let parsed = parse_arguments("--at", &[r#"x=1.5,y=[1,2],z={"a":[0,1]}"#.into(), "w=true".into()])
            .expect("parses");
        let names: Vec<&str> = parsed.iter().map(|p| p.0.as_str()).collect();
        assert_eq!(names, ["x", "y", "z", "w"]);
        for wrong in ["x", "x=1.5.2", "x=1,x=2"] {
            assert!(parse_arguments("--at", &[wrong.into()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn structs_and_arrays_of_them_are_read() {
        let mut types = Types::default();
        let float2 = types.vector(Scalar::F32, 2);
        let array = types.array(float2, 2);
        let json: Json = serde_json::from_str(r#"[{"c":[1,2]},{"c":[3,4]}]"#).expect("JSON");
        let mut bits = Vec::new();
        read(&types, array, ".c", &json, &mut bits).expect("reads");
        let floats: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b as u32)).collect();
        assert_eq!(floats, [1.0, 2.0, 3.0, 4.0]);
        assert!(read(&types, float2, ".d", &json[0], &mut bits).is_err());
    }
}
