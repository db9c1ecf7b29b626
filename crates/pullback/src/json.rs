//! Values of memory as JSON.

use driver::npy::from_le;
use driver::output::number_json;
use serde_json::{Map, Value as Json};

use crate::layout::{Layout, Scalar};

/// The value whose bytes these are. Bytes that are missing are zeros.
pub(crate) fn of(layout: &Layout, bytes: &[u8]) -> Json {
    match layout {
        Layout::Scalar(s) => number(*s, bytes),
        Layout::Vector(s, n) => Json::Array(parts(bytes, s.bytes(), *n).map(|b| number(*s, b)).collect()),
        Layout::Matrix { scalar, vectors, length, in_columns } => {
            let at = |row: u32, column: u32| {
                let (vector, k) = if *in_columns { (column, row) } else { (row, column) };
                let place = (vector as usize * *length as usize + k as usize) * scalar.bytes();
                number(*scalar, bytes.get(place..).unwrap_or_default())
            };
            let (rows, columns) = if *in_columns { (*length, *vectors) } else { (*vectors, *length) };
            let row = |row| Json::Array((0..columns).map(|column| at(row, column)).collect());
            Json::Array((0..rows).map(row).collect())
        }
        Layout::Array(element, n) => {
            Json::Array(parts(bytes, element.size(), *n).map(|b| of(element, b)).collect())
        }
        Layout::Struct { fields, .. } => {
            let field =
                |f: &crate::Field| (f.name.clone(), of(&f.layout, bytes.get(f.offset..).unwrap_or_default()));
            // Pointers are bound by their own names.
            let fields = fields.iter().filter(|f| f.layout != Layout::Pointer);
            Json::Object(fields.map(field).collect::<Map<_, _>>())
        }
        Layout::Pointer => Json::Null,
    }
}

/// So many parts of so many bytes.
fn parts(bytes: &[u8], size: usize, n: u32) -> impl Iterator<Item = &[u8]> {
    (0..n as usize).map(move |k| bytes.get(k * size..).unwrap_or_default())
}

fn number(s: Scalar, bytes: &[u8]) -> Json {
    let bits = from_le(bytes.get(..s.bytes()).unwrap_or_default());
    let text = match s {
        Scalar::Bool => (bits != 0).to_string(),
        _ => number_json(s.of_ir(), bits),
    };
    serde_json::from_str(&text).unwrap_or(Json::Null)
}

/// Appends all numbers of a value, in order.
pub(crate) fn flat(layout: &Layout, bytes: &[u8], out: &mut Vec<Json>) {
    let mut stack = vec![of(layout, bytes)];
    while let Some(value) = stack.pop() {
        match value {
            Json::Array(list) => stack.extend(list.into_iter().rev()),
            Json::Object(map) => {
                let values: Vec<Json> = map.into_iter().map(|field| field.1).collect();
                stack.extend(values.into_iter().rev());
            }
            value => out.push(value),
        }
    }
}

/// Numbers as nested lists of a shape.
pub(crate) fn shaped(shape: &[usize], numbers: &mut impl Iterator<Item = Json>) -> Json {
    match shape {
        [] => numbers.next().unwrap_or(Json::Null),
        [n, rest @ ..] => Json::Array((0..*n).map(|_| shaped(rest, numbers)).collect()),
    }
}
