//! Functions called by the host: arguments as JSON, results and derivatives as numbers.
//!
//! A function's inputs and outputs are its leaves; here each leaf is taken apart into single
//! numbers, so that a Jacobian is a plain matrix. Forward mode gives its columns, reverse mode its
//! rows, both by the same compiled functions that a kernel would call.

use ir::interp::{Memory, RunError, Value};
use ir::{Func, Module, Scalar, Slot, Type, TypeData, Types, scalar};
use lower::{FunctionInfo, ParamInfo};
use serde_json::Value as Json;

use crate::bind;
use crate::error::Error;
use crate::output::{number_json, number_text};
use crate::pipeline::source_span;

/// One number of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Where in the source: `ray.origin[1]`; `result` for the returned value.
    pub name: String,
    /// Which leaf, counted over all inputs or outputs.
    pub leaf: usize,
    /// Which number of that leaf.
    pub idx: usize,
    /// Its type.
    pub scalar: Scalar,
    /// Whether it has a tangent.
    pub diff: bool,
}

/// A compiled function that the host calls.
pub struct Callee<'m> {
    /// Where it lives.
    pub module: &'m Module,
    /// What `lower` says of it.
    pub info: &'m FunctionInfo,
    /// Every number that goes in.
    pub inputs: Vec<Number>,
    /// Every number that comes out.
    pub outputs: Vec<Number>,
    /// Types of the leaves.
    input_types: Vec<(Type, bool)>,
    output_types: Vec<(Type, bool)>,
}

/// Values for all inputs.
pub type Point = Vec<Value>;

impl<'m> Callee<'m> {
    /// Takes the function's signature apart.
    pub fn new(module: &'m Module, info: &'m FunctionInfo) -> Callee<'m> {
        let (inputs, input_types) = numbers(&module.types, info.params.iter().filter(|p| p.is_input));
        let results = std::iter::once(&info.result).chain(info.params.iter().filter(|p| p.is_output));
        let (outputs, output_types) = numbers(&module.types, results);
        Callee { module, info, inputs, outputs, input_types, output_types }
    }

    /// The point that `NAME=JSON` pairs name. `missing` gives the numbers that are not named.
    pub fn point(
        &self,
        named: &[(String, Json)],
        missing: &mut dyn FnMut(&Number) -> Option<u64>,
    ) -> Result<Point, Error> {
        for (name, _) in named {
            if !self.info.params.iter().any(|p| p.name == *name && p.is_input) {
                let names: Vec<&str> =
                    self.info.params.iter().filter(|p| p.is_input).map(|p| p.name.as_str()).collect();
                return Err(Error::input(format!(
                    "`{}` has no parameter `{name}`; it has {}",
                    self.info.name,
                    if names.is_empty() { "none".into() } else { names.join(", ") }
                )));
            }
        }
        let mut point = Vec::new();
        for param in self.info.params.iter().filter(|p| p.is_input) {
            let json = named.iter().rev().find(|n| n.0 == param.name).map(|n| &n.1);
            for (path, ty, _) in &param.leaves {
                let leaf = point.len();
                let value = match json {
                    Some(json) => read(&self.module.types, *ty, path, json)
                        .map_err(|why| Error::input(format!("`{}`: {why}", param.name)))?,
                    None => {
                        let numbers = self.inputs.iter().filter(|n| n.leaf == leaf);
                        let bits: Option<Vec<u64>> = numbers.map(&mut *missing).collect();
                        let bits = bits.ok_or_else(|| {
                            Error::input(format!(
                                "parameter `{}` needs a value: `--at {}=…`",
                                param.name, param.name
                            ))
                        })?;
                        from_bits(&self.module.types, *ty, &mut bits.into_iter())
                    }
                };
                point.push(value);
            }
        }
        Ok(point)
    }

    /// The numbers of a point.
    pub fn input_bits(&self, point: &[Value]) -> Vec<u64> {
        point.iter().flat_map(Value::lanes).collect()
    }

    /// A point from the numbers of all inputs.
    pub fn from_bits(&self, bits: &[u64]) -> Point {
        let mut bits = bits.iter().copied();
        self.input_types.iter().map(|t| from_bits(&self.module.types, t.0, &mut bits)).collect()
    }

    /// The function's outputs, as bits.
    pub fn value(&self, point: &[Value]) -> Result<Vec<u64>, Error> {
        let results = self.call(self.info.func, point.to_vec())?;
        Ok(results.iter().flat_map(Value::lanes).collect())
    }

    /// The Jacobian by forward mode: `[output][input]`, over the numbers that have tangents.
    pub fn forward(&self, point: &[Value]) -> Result<Vec<Vec<f64>>, Error> {
        let jvp = self.derivative(self.info.jvp)?;
        let inputs: Vec<&Number> = self.inputs.iter().filter(|n| n.diff).collect();
        let n_results = self.output_types.len();
        let mut columns = Vec::new();
        for input in &inputs {
            let mut args = point.to_vec();
            args.extend(self.unit(&self.input_types, input));
            let results = self.call(jvp, args)?;
            columns.push(self.to_f64(&self.output_types, &results[n_results.min(results.len())..]));
        }
        let n_outputs = self.outputs.iter().filter(|n| n.diff).count();
        Ok((0..n_outputs)
            .map(|o| columns.iter().map(|c| c.get(o).copied().unwrap_or(0.0)).collect())
            .collect())
    }

    /// The Jacobian by reverse mode: `[output][input]`.
    pub fn reverse(&self, point: &[Value]) -> Result<Vec<Vec<f64>>, Error> {
        let vjp = self.derivative(self.info.vjp)?;
        let mut rows = Vec::new();
        for output in self.outputs.iter().filter(|n| n.diff) {
            let mut args = point.to_vec();
            args.extend(self.unit(&self.output_types, output));
            let results = self.call(vjp, args)?;
            rows.push(self.to_f64(&self.input_types, &results));
        }
        Ok(rows)
    }

    /// The second derivatives `[input][input]` of output number `output`, by the function that [`hessian`] made.
    pub fn hessian(
        &self,
        forward_of_vjp: Func,
        point: &[Value],
        output: &Number,
    ) -> Result<Vec<Vec<f64>>, Error> {
        let n_results = self.input_types.iter().filter(|t| t.1).count();
        let mut columns = Vec::new();
        for input in self.inputs.iter().filter(|n| n.diff) {
            let mut args = point.to_vec();
            args.extend(self.unit(&self.output_types, output));
            args.extend(self.unit(&self.input_types, input));
            let cotangents = self.output_types.iter().filter(|t| t.1);
            args.extend(cotangents.map(|t| Value::zero(&self.module.types, t.0)));
            let results = self.call(forward_of_vjp, args)?;
            columns.push(self.to_f64(&self.input_types, &results[n_results.min(results.len())..]));
        }
        // Column i holds d(gradient)/d(input i).
        let n = columns.len();
        Ok((0..n).map(|r| (0..n).map(|c| columns[c].get(r).copied().unwrap_or(0.0)).collect()).collect())
    }

    /// The second derivatives of output number `output` times a direction, a point of which only what has tangents
    /// counts.
    pub fn hessian_vector(
        &self,
        forward_of_vjp: Func,
        point: &[Value],
        output: &Number,
        along: &[Value],
    ) -> Result<Vec<f64>, Error> {
        let n_results = self.input_types.iter().filter(|t| t.1).count();
        let mut args = point.to_vec();
        args.extend(self.unit(&self.output_types, output));
        args.extend(along.iter().zip(&self.input_types).filter(|n| n.1.1).map(|n| n.0.clone()));
        let cotangents = self.output_types.iter().filter(|t| t.1);
        args.extend(cotangents.map(|t| Value::zero(&self.module.types, t.0)));
        let results = self.call(forward_of_vjp, args)?;
        Ok(self.to_f64(&self.input_types, &results[n_results.min(results.len())..]))
    }

    /// All outputs as text, by parameter: `(name, value)`.
    pub fn output_texts(&self, bits: &[u64], json: bool) -> Vec<(String, String)> {
        group(&self.outputs, bits, &mut |n, b| {
            if json { number_json(n.scalar, b) } else { number_text(n.scalar, b) }
        })
    }

    /// The inputs with tangents and a number for each, as text: `(name, value)`.
    pub fn gradient_texts(&self, row: &[f64], json: bool) -> Vec<(String, String)> {
        let inputs: Vec<Number> = self.inputs.iter().filter(|n| n.diff).cloned().collect();
        let bits: Vec<u64> = row.iter().zip(&inputs).map(|(&x, n)| scalar::from_f64(n.scalar, x)).collect();
        group(&inputs, &bits, &mut |n, b| {
            if json { number_json(n.scalar, b) } else { number_text(n.scalar, b) }
        })
    }

    fn derivative(&self, func: Option<Func>) -> Result<Func, Error> {
        func.ok_or_else(|| {
            Error::input(format!(
                "`{}` has no derivative: it needs `[Differentiable]` and a differentiable result",
                self.info.name
            ))
        })
    }

    /// A tangent for each `diff` leaf: one at that number, zero elsewhere.
    fn unit(&self, leaves: &[(Type, bool)], number: &Number) -> Vec<Value> {
        let types = &self.module.types;
        let diff = leaves.iter().enumerate().filter(|l| l.1.1);
        diff.map(|(leaf, &(ty, _))| {
            let zero: Value = Value::zero(types, ty);
            let mut bits = vec![0; zero.lanes().len()];
            if leaf == number.leaf {
                bits[number.idx] = scalar::one(number.scalar);
            }
            from_bits(types, ty, &mut bits.into_iter())
        })
        .collect()
    }

    fn to_f64(&self, leaves: &[(Type, bool)], values: &[Value]) -> Vec<f64> {
        let diff = leaves.iter().filter(|l| l.1);
        diff.zip(values)
            .flat_map(|(&(ty, _), value)| {
                let s = self.module.types.scalar_of(ty).unwrap_or(Scalar::F64);
                value.lanes().into_iter().map(move |b| scalar::to_f64(s, b))
            })
            .collect()
    }

    fn call(&self, func: Func, args: Vec<Value>) -> Result<Vec<Value>, Error> {
        let mut memory = Memory::new(self.module, |_| 0);
        ir::interp::call(self.module, func, &args, &mut memory).map_err(
            |RunError { message, span, .. }| match span {
                ir::Span::NONE => Error::Stopped(message),
                span => Error::StoppedAt { message, span: source_span(span) },
            },
        )
    }
}

/// Adds to a module the forward derivative of a reverse derivative, before differentiation.
pub fn hessian(module: &mut Module, vjp: Func) -> Func {
    let (params, results) = (module.funcs[vjp].params.clone(), module.funcs[vjp].results.clone());
    let mut types = std::mem::take(&mut module.types);
    let mut builder = ir::Builder::new(&mut types, "hessian");
    let mut args = Vec::new();
    for slot in &params {
        args.push(builder.param(Slot { diff: false, ..slot.clone() }));
    }
    for slot in params.iter().filter(|s| s.diff) {
        args.push(builder.param(Slot { diff: false, ..slot.clone() }));
    }
    let mut all: Vec<Slot> = results.clone();
    all.extend(results.iter().filter(|s| s.diff).cloned());
    let slots: Vec<Slot> = all.into_iter().map(|s| Slot { diff: false, ..s }).collect();
    let result_types: Vec<(Type, bool)> = slots.iter().map(|s| (s.ty, false)).collect();
    let values = builder.call(ir::Op::CallFwd(vjp), &args, &result_types);
    let function = builder.finish(values, slots);
    module.types = types;
    module.funcs.push(function)
}

/// Splits `x=1.5,y=[1,2]` at the commas that are outside brackets and strings.
pub fn parse_arguments(texts: &[String]) -> Result<Vec<(String, Json)>, Error> {
    let mut out = Vec::new();
    for text in texts {
        for part in split(text) {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            let wrong = || Error::input(format!("`--at {part}`: expected NAME=VALUE"));
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let json = serde_json::from_str(value.trim()).map_err(|e| {
                Error::input(format!("`--at {}`: `{}` is not JSON ({e})", name.trim(), value.trim()))
            })?;
            out.push((name.trim().to_string(), json));
        }
    }
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

fn numbers<'a>(
    types: &Types,
    params: impl Iterator<Item = &'a ParamInfo>,
) -> (Vec<Number>, Vec<(Type, bool)>) {
    let (mut all, mut leaf_types) = (Vec::new(), Vec::new());
    for param in params {
        let name = if param.name.is_empty() { "result" } else { &param.name };
        for (path, ty, diff) in &param.leaves {
            let s = types.scalar_of(*ty).unwrap_or(Scalar::U64);
            let leaf = leaf_types.len();
            let mut places = Vec::new();
            indices(types, *ty, String::new(), &mut places);
            all.extend(places.into_iter().enumerate().map(|(idx, place)| {
                let name = format!("{name}{path}{place}");
                Number { name, leaf, idx, scalar: s, diff: *diff }
            }));
            leaf_types.push((*ty, *diff));
        }
    }
    (all, leaf_types)
}

fn indices(types: &Types, ty: Type, prefix: String, out: &mut Vec<String>) {
    match types[ty] {
        TypeData::Scalar(_) => out.push(prefix),
        TypeData::Vector(_, n) => out.extend((0..n).map(|k| format!("{prefix}[{k}]"))),
        TypeData::Array(t, n) => (0..n).for_each(|k| indices(types, t, format!("{prefix}[{k}]"), out)),
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {}
    }
}

fn from_bits(types: &Types, ty: Type, bits: &mut dyn Iterator<Item = u64>) -> Value {
    match types[ty] {
        TypeData::Scalar(_) => Value::Scalar(bits.next().unwrap_or(0)),
        TypeData::Vector(_, n) => Value::Vector((0..n).map(|_| bits.next().unwrap_or(0)).collect()),
        TypeData::Array(t, n) => {
            let mut elements = Vec::with_capacity(n as usize);
            for _ in 0..n {
                elements.push(from_bits(types, t, &mut *bits));
            }
            Value::array(elements)
        }
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
            Value::zero(types, ty)
        }
    }
}

/// The leaf of that path and type in a JSON value. An array of structs is a list of objects.
fn read(types: &Types, ty: Type, path: &str, json: &Json) -> Result<Value, String> {
    let path = path.trim_start_matches("[]");
    if let (Json::Array(list), TypeData::Array(t, n), false) = (json, &types[ty], path.is_empty()) {
        if list.len() != *n as usize {
            return Err(format!("{n} elements wanted, found {}", list.len()));
        }
        let elements: Result<Vec<Value>, String> = list.iter().map(|j| read(types, *t, path, j)).collect();
        return Ok(Value::array(elements?));
    }
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (field, rest) = rest.split_at(end);
        let inner = json.get(field).ok_or_else(|| format!("field `{field}` is missing in {json}"))?;
        return read(types, ty, rest, inner);
    }
    let list = |n: u32| match json {
        Json::Array(list) if list.len() == n as usize => Ok(list),
        _ => Err(format!("a list of {n} wanted, found {json}")),
    };
    match types[ty] {
        TypeData::Scalar(s) => bind::number(json, s).map(Value::Scalar),
        TypeData::Vector(s, n) => {
            let lanes: Result<_, String> = list(n)?.iter().map(|j| bind::number(j, s)).collect();
            Ok(Value::Vector(lanes?))
        }
        TypeData::Array(t, n) => {
            let elements: Result<Vec<Value>, String> =
                list(n)?.iter().map(|j| read(types, t, "", j)).collect();
            Ok(Value::array(elements?))
        }
        TypeData::Stack(_) | TypeData::Cell(_) | TypeData::Buffer(_) | TypeData::Residuals(_) => {
            Err("a buffer cannot be an argument here".into())
        }
    }
}

/// Joins the numbers of each parameter: `x`, `[1, 2]`.
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
        let parsed =
            parse_arguments(&[r#"x=1.5,y=[1,2],z={"a":[0,1]}"#.into(), "w=true".into()]).expect("parses");
        let names: Vec<&str> = parsed.iter().map(|p| p.0.as_str()).collect();
        assert_eq!(names, ["x", "y", "z", "w"]);
        assert!(parse_arguments(&["x".into()]).is_err());
        assert!(parse_arguments(&["x=1.5.2".into()]).is_err());
    }

    #[test]
    fn structs_and_arrays_of_them_are_read() {
        let mut types = Types::default();
        let float2 = types.vector(Scalar::F32, 2);
        let array = types.array(float2, 2);
        let json: Json = serde_json::from_str(r#"[{"c":[1,2]},{"c":[3,4]}]"#).expect("JSON");
        let value = read(&types, array, ".c", &json).expect("reads");
        let floats: Vec<f32> = value.lanes().iter().map(|&b| f32::from_bits(b as u32)).collect();
        assert_eq!(floats, [1.0, 2.0, 3.0, 4.0]);
        assert!(read(&types, float2, ".d", &json[0]).is_err());
    }
}
