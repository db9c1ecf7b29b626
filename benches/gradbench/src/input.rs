//! Converts the inputs of messages to numbers, and numbers to outputs.

use driver::Error;
use serde_json::Value as Json;

fn wrong(path: &str, wanted: &str) -> Error {
    Error::input(format!("input: `{path}` is no {wanted}"))
}

/// The value at a path of fields, such as `data.model.weights`.
pub(crate) fn field<'j>(input: &'j Json, path: &str) -> Result<&'j Json, Error> {
    let found = path.split('.').try_fold(input, |json, name| json.get(name));
    found.ok_or_else(|| Error::input(format!("input: there is no `{path}`")))
}

/// A non-negative number that is small enough to be the size of something in memory.
pub(crate) fn count(input: &Json, path: &str) -> Result<usize, Error> {
    let n = field(input, path)?.as_u64().filter(|&n| n < 1 << 31);
    n.map(|n| n as usize).ok_or_else(|| wrong(path, "count"))
}

pub(crate) fn number(input: &Json, path: &str) -> Result<f64, Error> {
    field(input, path)?.as_f64().ok_or_else(|| wrong(path, "number"))
}

/// All numbers of nested lists, in order.
pub(crate) fn numbers(input: &Json, path: &str) -> Result<Vec<f64>, Error> {
    let mut out = Vec::new();
    let is_all = flatten(field(input, path)?, &mut |json| {
        out.push(json.as_f64()?);
        Some(())
    });
    is_all.map(|()| out).ok_or_else(|| wrong(path, "list of numbers"))
}

/// Like [`numbers`], for integers.
pub(crate) fn integers(input: &Json, path: &str) -> Result<Vec<i32>, Error> {
    let mut out = Vec::new();
    let is_all = flatten(field(input, path)?, &mut |json| {
        out.push(i32::try_from(json.as_i64()?).ok()?);
        Some(())
    });
    is_all.map(|()| out).ok_or_else(|| wrong(path, "list of integers"))
}

/// The number of elements of the list at a path.
pub(crate) fn length(input: &Json, path: &str) -> Result<usize, Error> {
    field(input, path)?.as_array().map(Vec::len).ok_or_else(|| wrong(path, "list"))
}

fn flatten(json: &Json, leaf: &mut dyn FnMut(&Json) -> Option<()>) -> Option<()> {
    match json {
        Json::Array(list) => list.iter().try_for_each(|json| flatten(json, leaf)),
        json => leaf(json),
    }
}

/// Returns an error unless the input has the expected number of numbers.
pub(crate) fn expect(name: &str, found: usize, wanted: usize) -> Result<(), Error> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::input(format!("input: `{name}` has {found} numbers, and {wanted} are wanted")))
}

/// Returns an error if a value exceeds a limit of the program.
pub(crate) fn at_most(name: &str, value: usize, most: usize) -> Result<(), Error> {
    if value <= most {
        return Ok(());
    }
    Err(Error::input(format!("input: `{name}` is {value}, and the program takes at most {most}")))
}

/// Transposes a list of rows of `columns` numbers: all first numbers, then all second numbers, ….
pub(crate) fn transposed(rows: &[f64], columns: usize) -> Vec<f64> {
    let n = rows.len() / columns.max(1);
    (0..columns).flat_map(|c| (0..n).map(move |r| rows[r * columns + c])).collect()
}

/// Converts numbers to a list of rows of `columns` numbers.
pub(crate) fn rows(numbers: &[f64], columns: usize) -> Json {
    if columns == 0 {
        return Json::Array(Vec::new());
    }
    numbers.chunks(columns).map(Json::from).collect()
}
