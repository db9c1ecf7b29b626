//! Values that go into functions, and numbers that come out.

use std::fmt;

use driver::output::number_json;
use driver::ranges::covers;
use ir::scalar;
use serde_json::{Map, Value as Json};

use crate::failure::Failure;
use crate::layout::Scalar;

/// A value: a number, a list of values, or an object with a value for each field of a struct.
///
/// Any value that [`serde_json::Value`] holds, and floats that are not finite.
///
/// ```
/// use pullback::Value;
///
/// assert_eq!(Value::from([1.0, 2.5]), Value::from(serde_json::json!([1.0, 2.5])));
/// assert_eq!(Value::from(f64::INFINITY), Value::from(serde_json::json!("inf")));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Value(pub(crate) Json);

impl From<Json> for Value {
    fn from(json: Json) -> Value {
        Value(json)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value(serde_json::Number::from_f64(x).map_or_else(|| Json::from(not_finite(x)), Json::Number))
    }
}

impl From<f32> for Value {
    fn from(x: f32) -> Value {
        Value::from(f64::from(x))
    }
}

fn not_finite(x: f64) -> &'static str {
    match x {
        x if x.is_nan() => "nan",
        x if x > 0.0 => "inf",
        _ => "-inf",
    }
}

macro_rules! plain {
    ($($ty:ty),*) => { $(
        impl From<$ty> for Value {
            fn from(x: $ty) -> Value {
                Value(Json::from(x))
            }
        }
    )* };
}
plain!(bool, i8, i16, i32, i64, u8, u16, u32, u64);

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Value {
        Value(Json::Array(list.into_iter().map(|x| x.into().0).collect()))
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(list: [T; N]) -> Value {
        Value(Json::Array(list.into_iter().map(|x| x.into().0).collect()))
    }
}

impl<T: Into<Value> + Clone> From<&[T]> for Value {
    fn from(list: &[T]) -> Value {
        Value(Json::Array(list.iter().map(|x| x.clone().into().0).collect()))
    }
}

/// Values by name: for the parameters of a function, or for their tangents, or for the cotangents of its results.
///
/// Where a function takes arguments, it takes whatever converts to them.
///
/// ```
/// use pullback::Arguments;
///
/// let one = Arguments::from([("x", 1.0), ("y", 2.0)]);
/// let two = Arguments::new().with("x", 1.0).with("y", 2.0);
/// let three = Arguments::try_from(serde_json::json!({ "x": 1.0, "y": 2.0 }))?;
/// assert!(one == two && two == three);
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments(pub(crate) Vec<(String, Json)>);

impl Arguments {
    /// No values.
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// Adds a value. Of several with one name the last counts.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Arguments {
        self.0.push((name.into(), value.into().0));
        self
    }
}

impl<N: Into<String>, V: Into<Value>, const K: usize> From<[(N, V); K]> for Arguments {
    fn from(list: [(N, V); K]) -> Arguments {
        list.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<Value>> From<Vec<(N, V)>> for Arguments {
    fn from(list: Vec<(N, V)>) -> Arguments {
        list.into_iter().collect()
    }
}

impl<N: Into<String>, V: Into<Value>> FromIterator<(N, V)> for Arguments {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(list: I) -> Arguments {
        Arguments(list.into_iter().map(|(name, value)| (name.into(), value.into().0)).collect())
    }
}

impl From<&Arguments> for Arguments {
    fn from(arguments: &Arguments) -> Arguments {
        arguments.clone()
    }
}

impl TryFrom<Json> for Arguments {
    type Error = Failure;

    fn try_from(json: Json) -> Result<Arguments, Failure> {
        match json {
            Json::Object(map) => Ok(map.into_iter().collect()),
            _ => Err(Failure::input("arguments are an object with a value for each name")),
        }
    }
}

/// Numbers by their paths: `x`, `ray.origin[1]`, and `result` for what a function returns.
///
/// ```
/// use pullback::Compiler;
///
/// let module = Compiler::new().text("a.slang", "
///     [Differentiable] float3 f(float a, float3 v) { return a * v; }")?;
/// let values = module.function("f")?.call(pullback::Arguments::new().with("a", 2.0).with("v", [1.0, 2.0, 3.0]))?;
/// assert_eq!(values.number("result[2]")?, 6.0);
/// assert_eq!(values.list("result")?, [2.0, 4.0, 6.0]);
/// assert_eq!(values.to_json(), serde_json::json!({ "result": [2.0, 4.0, 6.0] }));
/// assert!(values.number("other").is_err());
/// # Ok::<(), pullback::Failure>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Numbers {
    pub(crate) list: Vec<Entry>,
}

/// One number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) scalar: ir::Scalar,
    pub(crate) bits: u64,
}

impl Entry {
    fn value(&self) -> f64 {
        driver::npy::number(self.scalar, self.bits)
    }
}

impl Numbers {
    /// The number with that path.
    pub fn get(&self, path: &str) -> Option<f64> {
        self.list.iter().find(|e| e.path == path).map(Entry::value)
    }

    /// The number with that path; an error that lists the paths if there is none.
    pub fn number(&self, path: &str) -> Result<f64, Failure> {
        self.get(path).ok_or_else(|| self.unknown(path))
    }

    /// All numbers of a value: `p` has `p.w[0]`, `p.w[1]`, … An error if there are none.
    pub fn list(&self, path: &str) -> Result<Vec<f64>, Failure> {
        let found: Vec<f64> = self.list.iter().filter(|e| covers(path, &e.path)).map(Entry::value).collect();
        if found.is_empty() { Err(self.unknown(path)) } else { Ok(found) }
    }

    /// All paths and numbers, in the order of declaration.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.list.iter().map(|e| (e.path.as_str(), e.value()))
    }

    /// The type of the number with that path.
    pub fn scalar(&self, path: &str) -> Option<Scalar> {
        self.list.iter().find(|e| e.path == path).map(|e| e.scalar.into())
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// An object with a value for each parameter, nested as the program's types are (an array of structs is an object
    /// with a list for each field). Integers have all their digits; what is not finite is `"nan"`, `"inf"` or `"-inf"`.
    pub fn to_json(&self) -> Json {
        let mut all = Json::Object(Map::new());
        for entry in &self.list {
            let number: Json =
                serde_json::from_str(&number_json(entry.scalar, entry.bits)).unwrap_or(Json::Null);
            put(&mut all, &entry.path, number);
        }
        all
    }

    fn unknown(&self, path: &str) -> Failure {
        let mut names: Vec<&str> = self.list.iter().map(|e| base(&e.path)).collect();
        names.dedup();
        let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        Failure::input(format!("there is no number `{path}`; the values are {names}"))
    }
}

/// The part of a path before indices and fields.
pub(crate) fn base(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or(path)
}

/// One step of a path.
pub(crate) enum Step<'a> {
    Field(&'a str),
    Index(usize),
}

/// The steps of a path, the first of which is a name.
pub(crate) fn steps(path: &str) -> Vec<Step<'_>> {
    let mut found = Vec::new();
    for part in path.split('.') {
        let mut pieces = part.split('[');
        found.extend(pieces.next().filter(|name| !name.is_empty()).map(Step::Field));
        let index = |piece: &str| piece.strip_suffix(']')?.parse().ok().map(Step::Index);
        found.extend(pieces.filter_map(index));
    }
    found
}

/// Puts a number at a path, whose parts are made as needed.
fn put(mut at: &mut Json, path: &str, number: Json) {
    for step in steps(path) {
        at = match step {
            Step::Field(name) => {
                if !at.is_object() {
                    *at = Json::Object(Map::new());
                }
                &mut at[name]
            }
            Step::Index(k) => {
                if !at.is_array() {
                    *at = Json::Array(Vec::new());
                }
                let Json::Array(list) = at else { return };
                if list.len() <= k {
                    list.resize(k + 1, Json::Null);
                }
                &mut list[k]
            }
        };
    }
    *at = number;
}

/// The value at a path.
pub(crate) fn value_at<'a>(json: &'a Json, steps: &[Step<'_>]) -> Option<&'a Json> {
    steps.iter().try_fold(json, |json, step| match step {
        Step::Field(name) => json.get(*name),
        Step::Index(k) => json.get(*k),
    })
}

/// The number of numbers in a value.
pub(crate) fn count(json: &Json) -> usize {
    match json {
        Json::Array(list) => list.iter().map(count).sum(),
        Json::Object(map) => map.values().map(count).sum(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 1,
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Display for Numbers {
    /// One line for each number: `path = number`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, entry) in self.list.iter().enumerate() {
            let separator = if k == 0 { "" } else { "\n" };
            let text = driver::output::number_text(entry.scalar, entry.bits);
            write!(f, "{separator}{} = {text}", entry.path)?;
        }
        Ok(())
    }
}

/// Numbers of doubles with the types of others.
pub(crate) fn entries<'a>(
    numbers: impl Iterator<Item = &'a driver::call::Number>,
    values: &[f64],
) -> Numbers {
    let entry = |(number, &x): (&driver::call::Number, &f64)| Entry {
        path: number.name.clone(),
        scalar: number.scalar,
        bits: scalar::from_f64(number.scalar, x),
    };
    Numbers { list: numbers.zip(values).map(entry).collect() }
}
