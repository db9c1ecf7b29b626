//! The fitted parameters as arrays, as JSON and as text, for files and for the user.

use ir::{MatrixOrder, MemData, MemType, MemTypes};
use serde_json::{Map, Value};

use crate::bind;
use crate::error::Error;
use crate::fit::Fit;
use crate::npy::{self, Array};
use crate::output;

impl Fit {
    /// Each fitted parameter whose numbers are all of one type, as an array to be written to a file.
    pub fn arrays(&mut self, x: &[f64]) -> Vec<(String, Array)> {
        self.put(x);
        let arrays = self.kernel.fitted.iter().zip(&self.values).filter_map(|(f, bytes)| {
            let element = self.value_element(f)?;
            let array = output::buffer_array(self.runner.mem(), element, bytes).ok()?;
            Some((f.name.clone(), array))
        });
        arrays.collect()
    }

    /// All fitted parameters by name, as `fit --param`, `grad --at` and `run --bind` read them.
    pub fn json(&mut self, x: &[f64]) -> Result<Map<String, Value>, Error> {
        self.put(x);
        let mut all = Map::new();
        for (f, bytes) in self.kernel.fitted.iter().zip(&self.values) {
            let missing = || Error::Internal(format!("the buffer of `{}` is gone", f.name));
            let element = self.value_element(f).ok_or_else(missing)?;
            let mem = self.runner.mem();
            let stride = mem.size(element) as usize;
            let value = match f.length {
                Some(_) => {
                    bytes.chunks_exact(stride.max(1)).map(|bytes| value(mem, element, bytes)).collect()
                }
                None => value(mem, element, bytes),
            };
            all.insert(f.name.clone(), value);
        }
        Ok(all)
    }

    /// The text of number `k`: the shortest that reads back as the same number of its type.
    pub fn text_of(&self, k: usize, x: f64) -> String {
        let scalar = self.places[k].scalar;
        output::number_text(scalar, ir::scalar::from_f64(scalar, x))
    }
}

/// A value in memory as JSON: structs are objects, vectors and arrays lists, matrices lists of their rows.
fn value(mem: &MemTypes, ty: MemType, bytes: &[u8]) -> Value {
    match &mem[ty] {
        MemData::Struct { fields, .. } => {
            let fields = fields.iter().enumerate().map(|(k, (name, field))| {
                let at = mem.field_offset(ty, k) as usize;
                (name.to_string(), value(mem, *field, &bytes[at..]))
            });
            Value::Object(fields.collect())
        }
        MemData::Array(element, n) => {
            let stride = mem.size(*element) as usize;
            (0..*n as usize).map(|k| value(mem, *element, &bytes[k * stride..])).collect()
        }
        MemData::Matrix(_, vectors, each, order) => {
            let (vectors, each) = (*vectors as usize, *each as usize);
            let numbers = numbers(mem, ty, bytes);
            match order {
                MatrixOrder::Rows => numbers.chunks(each).map(|row| Value::Array(row.to_vec())).collect(),
                MatrixOrder::Columns => (0..each)
                    .map(|row| {
                        (0..vectors).map(|column| numbers[column * each + row].clone()).collect::<Value>()
                    })
                    .collect(),
            }
        }
        MemData::Vector(..) => Value::Array(numbers(mem, ty, bytes)),
        MemData::Scalar(_) | MemData::Handle(_) => {
            numbers(mem, ty, bytes).into_iter().next().unwrap_or(Value::Null)
        }
    }
}

/// The numbers of a vector, matrix or scalar, in the order of memory.
fn numbers(mem: &MemTypes, ty: MemType, bytes: &[u8]) -> Vec<Value> {
    let each = bind::scalars(mem, ty).into_iter().map(|(at, s)| {
        let text = output::number_text(s, npy::from_le(&bytes[at..at + s.bytes() as usize]));
        // An infinity or NaN is a text.
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    });
    each.collect()
}
