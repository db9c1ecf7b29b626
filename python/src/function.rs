//! Functions: their signatures and calls.

use std::sync::Arc;

use array::{Argument, Array, Check, Csr, Derivative, Leaf, Number, Order, Parameter, Place, Recovery, Step};
use numpy::PyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use smallvec::SmallVec;

use crate::convert::{Inputs, dtype_name, new_array, on_device};
use crate::error::raised;
use crate::ffi::register;
use crate::interrupt::{MANY, run};
use crate::kernel::{PlaceInfo, argument, json, place_info};

/// A function of a program, or one derived from it: a map from arrays to arrays.
#[pyclass(frozen, module = "pullback._core")]
pub(crate) struct Function {
    inner: Arc<array::Function>,
}

impl Function {
    pub(crate) fn new(inner: array::Function) -> Function {
        Function { inner: Arc::new(inner) }
    }

    /// The contents of the memory that the function reaches, by name.
    fn memory(
        &self,
        py: Python<'_>,
        memory: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<(String, serde_json::Value)>> {
        let mut bound = Vec::new();
        for (name, value) in memory {
            let name: String = name.extract()?;
            self.inner.place(&name).map_err(|error| raised(py, error))?;
            let value = json(&value)
                .map_err(|why| PyTypeError::new_err(format!("`{name}` cannot be bound to {why}")))?;
            bound.push((name, value));
        }
        Ok(bound)
    }
}

/// The numbers of a point.
#[derive(FromPyObject)]
enum PointArg<'py> {
    /// As doubles, which takes less time.
    Floats(Bound<'py, PyBytes>),
    List(Vec<NumberArg>),
}

fn number(arg: NumberArg) -> Number {
    match arg {
        NumberArg::Int(n) => Number::Int(n),
        NumberArg::Unsigned(n) => Number::Unsigned(n),
        NumberArg::Float(x) => Number::Float(x),
    }
}

/// A step of [`Function::derive`].
#[derive(FromPyObject)]
enum StepArg {
    Named(String),
    By(String, Vec<bool>),
    Only(Vec<bool>),
}

/// One number of a point.
#[derive(FromPyObject)]
enum NumberArg {
    Int(i64),
    Unsigned(u64),
    Float(f64),
}

/// A leaf: its path, its kind of number, its lengths, and whether it is differentiable.
type LeafInfo = (String, &'static str, Vec<u32>, bool);

/// A parameter: its name, its type, whether it is an input and whether it is an output, and its leaves.
type ParameterInfo = (String, String, bool, bool, Vec<LeafInfo>);

/// A matrix in compressed rows: arrays of the starts of the rows (int32 if that holds them, else int64), of the columns (int32)
/// and of the values (float64), and the number of columns.
type Compressed<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, usize);

fn leaf_info(leaf: &Leaf) -> LeafInfo {
    (leaf.path.clone(), dtype_name(leaf.kind), leaf.dims.clone(), leaf.diff)
}

fn parameter_info(p: &Parameter) -> ParameterInfo {
    (p.name.clone(), p.ty.clone(), p.is_input, p.is_output, p.leaves.iter().map(leaf_info).collect())
}

#[pymethods]
impl Function {
    /// The name of the function in the source.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// Makes the function, which must not reach memory, callable from compiled programs of XLA under the
    /// returned name.
    fn register(&self, py: Python<'_>) -> PyResult<String> {
        if !self.inner.memory.is_empty() {
            let name = &self.inner.name;
            return Err(PyTypeError::new_err(format!("`{name}` reaches memory, which XLA does not pass")));
        }
        py.detach(|| {
            let name = self.inner.fingerprint();
            register(name.clone(), &self.inner);
            Ok(name)
        })
    }

    /// The parameters that the source declares.
    #[getter]
    fn params(&self) -> Vec<ParameterInfo> {
        self.inner.params.iter().map(parameter_info).collect()
    }

    /// The result of the function.
    #[getter]
    fn result(&self) -> ParameterInfo {
        parameter_info(&self.inner.result)
    }

    /// The leaves of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<LeafInfo> {
        self.inner.inputs.iter().map(leaf_info).collect()
    }

    /// The leaves of the outputs, each with the index of the input whose cotangent it is.
    #[getter]
    fn outputs(&self) -> Vec<(LeafInfo, Option<usize>)> {
        self.inner.outputs.iter().map(|leaf| (leaf_info(leaf), leaf.cotangent_of)).collect()
    }

    /// The function that results from a list of steps, applied in order: `jvp`, `vjp`, `value_and_vjp`, or a
    /// list that has `True` for the inputs that remain differentiable. A pair of `jvp` or `vjp` and such a
    /// list gives only tangents of the outputs, or only cotangents of the selected inputs; the other inputs
    /// have derivatives in later steps. With `jvp` and `vjp`, tangents and cotangents that are zero are
    /// absent.
    fn derive(&self, py: Python<'_>, steps: Vec<StepArg>) -> PyResult<Function> {
        let step = |arg| {
            Ok(match arg {
                StepArg::Only(chosen) => Step::Only(chosen),
                StepArg::By(name, chosen) => match &name[..] {
                    "jvp" => Step::JvpBy(chosen),
                    "vjp" => Step::VjpBy(chosen),
                    _ => {
                        return Err(PyValueError::new_err(format!(
                            "there is no step `{name}` by some inputs"
                        )));
                    }
                },
                StepArg::Named(name) => match &name[..] {
                    "jvp" => Step::SparseJvp,
                    "vjp" => Step::SparseVjp,
                    "value_and_vjp" => Step::ValueAndVjp,
                    _ => return Err(PyValueError::new_err(format!("there is no step `{name}`"))),
                },
            })
        };
        let steps = steps.into_iter().map(step).collect::<PyResult<Vec<Step>>>()?;
        let derived = py.detach(|| self.inner.derive(&steps));
        Ok(Function::new(derived.map_err(|error| raised(py, error))?))
    }

    /// The names of all parameters, including those that are memory.
    #[getter]
    fn order(&self) -> Vec<String> {
        self.inner.order.clone()
    }

    /// The parameters that take values of interface type.
    #[getter]
    fn dynamic(&self) -> Vec<String> {
        self.inner.params.iter().filter(|p| p.is_dynamic).map(|p| p.name.clone()).collect()
    }

    /// Compares forward mode, reverse mode and finite differences at points, and returns JSON; each point has
    /// the numbers of all inputs.
    fn check(
        &self,
        py: Python<'_>,
        points: Vec<Vec<NumberArg>>,
        tolerance: f64,
        memory: &Bound<'_, PyDict>,
    ) -> PyResult<String> {
        let points = points.into_iter().map(|point| point.into_iter().map(number).collect()).collect();
        let memory = self.memory(py, memory)?;
        let (f, check) = (self.inner.clone(), Check { points, tolerance, memory });
        run(py, true, Vec::new, move |_| f.check(&check))?.map_err(|error| raised(py, error))
    }

    /// The first derivatives, or the second ones of the only number of the outputs (`second` tells whether some of them follow
    /// from others by subtraction), that may differ from zero, at a point that has the numbers of all inputs.
    fn sparse<'py>(
        &self,
        py: Python<'py>,
        point: PointArg<'py>,
        memory: &Bound<'_, PyDict>,
        second: Option<bool>,
    ) -> PyResult<Compressed<'py>> {
        let point: Vec<Number> = match point {
            PointArg::List(list) => list.into_iter().map(number).collect(),
            PointArg::Floats(bytes) => {
                let floats = bytes.as_bytes().as_chunks::<8>().0;
                floats.iter().map(|&bytes| Number::Float(f64::from_ne_bytes(bytes))).collect()
            }
        };
        let memory = self.memory(py, memory)?;
        let order = match second {
            None => Order::First,
            Some(false) => Order::Second(Recovery::Direct),
            Some(true) => Order::Second(Recovery::Substitution),
        };
        let f = self.inner.clone();
        let found = run(py, true, Vec::new, move |_| f.sparse(&point, &memory, order))?;
        let Csr { pattern, values } = found.map_err(|error| raised(py, error))?;
        let starts = match i32::try_from(pattern.len()) {
            Ok(_) => PyArray1::from_iter(py, pattern.starts.iter().map(|&at| at as i32)).into_any(),
            Err(_) => PyArray1::from_iter(py, pattern.starts.iter().map(|&at| at as i64)).into_any(),
        };
        let columns = PyArray1::from_iter(py, pattern.columns.iter().map(|&at| at as i32));
        let values = PyArray1::from_vec(py, values);
        Ok((starts, columns.into_any(), values.into_any(), pattern.n_columns))
    }

    /// The function after each pass of differentiation.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.inner.explain()).map_err(|error| raised(py, error))
    }

    /// The derivative as source text: `forward`, `backward` or `apply`.
    fn derivative_source(&self, py: Python<'_>, mode: &str) -> PyResult<String> {
        let what = match mode {
            "forward" => Derivative::Forward,
            "backward" => Derivative::Backward,
            "apply" => Derivative::Apply,
            _ => {
                let message = format!("`mode` is \"forward\", \"backward\" or \"apply\", not \"{mode}\"");
                return Err(PyValueError::new_err(message));
            }
        };
        py.detach(|| self.inner.derivative_source(what)).map_err(|error| raised(py, error))
    }

    /// The memory that the function reaches.
    #[getter]
    fn places(&self) -> Vec<PlaceInfo> {
        self.inner.memory.iter().map(place_info).collect()
    }

    /// Calls the function with a number or array for each input, and memory by name; returns a NumPy array
    /// for each output. `tensors` converts the outputs to another library's tensors by two functions: the
    /// first makes a tensor with the memory of an array; the second, used if an argument is on a CUDA device,
    /// makes a new tensor there from the name of its type, its shape, and a flag that is true if it is to be
    /// zeroed.
    #[pyo3(signature = (*args, memory=None, tensors=None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        memory: Option<&Bound<'py, PyDict>>,
        tensors: Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let f = &*self.inner;
        let mut bound = Vec::new();
        for (name, value) in memory.into_iter().flatten() {
            let name: String = name.extract()?;
            let place = f.place(&name).map_err(|error| raised(py, error))?;
            bound.push((place, argument(place, &value)?));
        }
        if args.len() != f.inputs.len() {
            let (name, n) = (&f.name, f.inputs.len());
            return Err(PyTypeError::new_err(format!("`{name}` takes {n} arrays, not {}", args.len())));
        }
        let mut inputs = Inputs::new(&f.name, f.inputs.len());
        for (leaf, arg) in f.inputs.iter().zip(args.iter_borrowed()) {
            inputs.push(py, leaf, &arg)?;
        }
        let inputs = inputs;
        let shape = f.shape(inputs.arrays.iter()).map_err(|error| raised(py, error))?;
        let is_on_device = |(_, argument): &(&Place, Argument)| match argument {
            Argument::Array(array) => array.memory().is_on_device(),
            _ => false,
        };
        let any_on_device =
            inputs.arrays.iter().any(|a| a.memory().is_on_device()) || bound.iter().any(is_on_device);
        let mut results = Vec::with_capacity(f.outputs.len());
        let mut outputs: Vec<Array> = Vec::with_capacity(f.outputs.len());
        for leaf in &f.outputs {
            // A cotangent has the shape and kind of the input that it belongs to.
            let (kind, lead) = match leaf.cotangent_of.and_then(|k| inputs.arrays.get(k).map(|a| (k, a))) {
                Some((k, array)) => {
                    let n = array.shape().len() - f.inputs[k].dims.len();
                    let kind = if array.kind().is_float() { array.kind() } else { leaf.kind };
                    (kind, &array.shape()[..n])
                }
                None => (leaf.kind, &shape[..]),
            };
            let whole: SmallVec<[usize; 6]> =
                lead.iter().copied().chain(leaf.dims.iter().map(|&d| d as usize)).collect();
            let zeros = leaf.cotangent_of.is_some();
            let (result, array) = match &tensors {
                Some((_, empty)) if any_on_device => {
                    let made = empty.call1((dtype_name(kind), whole.to_vec(), zeros))?;
                    let array = on_device(&leaf.path, &made, true)?;
                    (
                        made,
                        array.ok_or_else(|| PyTypeError::new_err("`tensors` makes none on a CUDA device"))?,
                    )
                }
                Some((with_memory, _)) => {
                    let (result, array) = new_array(py, kind, &whole, zeros)?;
                    (with_memory.call1((result,))?, array)
                }
                None => new_array(py, kind, &whole, zeros)?,
            };
            results.push(result);
            outputs.push(array);
        }
        let places = shape.iter().fold(1u64, |n, &length| n.saturating_mul(length as u64));
        let is_long = f.may_be_long || places > MANY;
        let (arrays, numbers, held) = inputs.apart();
        let values = memory.map(|memory| memory.values());
        let kept = || {
            let mut kept: Vec<Py<PyAny>> = held.iter().map(|made| made.clone().unbind()).collect();
            kept.push(args.clone().into_any().unbind());
            kept.extend(values.map(|values| values.into_any().unbind()));
            kept.extend(results.iter().map(|result| result.clone().unbind()));
            kept
        };
        let bound: Vec<(Place, Argument)> =
            bound.into_iter().map(|(place, argument)| (place.clone(), argument)).collect();
        let f = self.inner.clone();
        let done = run(py, is_long, kept, move |stop| {
            let bound: Vec<(&Place, Argument)> = bound.iter().map(|(place, a)| (place, a.clone())).collect();
            let done = f.call(&shape, &arrays, &outputs, &bound, stop);
            drop(numbers);
            done
        });
        done?.map_err(|error| raised(py, error))?;
        PyTuple::new(py, results)
    }
}
