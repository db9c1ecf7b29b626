//! Formats the contents of buffers after a run as text, JSON or `.npy`. Pointers in them have no value that a
//! host could use: text and lists of values leave them out, and lists of words have zeros in their place.

use ir::{MemData, MemType, MemTypes, Scalar, scalar};

use crate::behind::pointers;
use crate::bind::{self, scalars};
use crate::error::Error;
use crate::files;
use crate::npy::{self, Array};

/// The name of a scalar type in the JSON output; `None` for types without one.
pub fn type_name(s: Scalar) -> Option<&'static str> {
    match s {
        Scalar::Bool => None,
        Scalar::I8 => Some("int8"),
        Scalar::I16 => Some("int16"),
        Scalar::I32 => Some("int32"),
        Scalar::I64 => Some("int64"),
        Scalar::U8 => Some("uint8"),
        Scalar::U16 => Some("uint16"),
        Scalar::U32 => Some("uint32"),
        Scalar::U64 => Some("uint64"),
        Scalar::F16 => Some("float16"),
        Scalar::F32 => Some("float32"),
        Scalar::F64 => Some("float64"),
    }
}

/// The scalar that a buffer's elements are made of, if they are scalars, vectors or matrices.
pub fn plain_scalar(mem: &MemTypes, element: MemType) -> Option<Scalar> {
    match &mem[element] {
        MemData::Scalar(s) | MemData::Vector(s, _) | MemData::Matrix(s, ..) => Some(*s),
        MemData::Struct { fields, .. } if fields.len() == 1 => plain_scalar(mem, fields[0].1),
        MemData::Array(..) | MemData::Struct { .. } | MemData::Handle(_) => None,
    }
}

/// A number as text: the shortest form that reads back as the same number, or `nan`, `inf`, `-inf`.
pub fn number_text(s: Scalar, bits: u64) -> String {
    match s {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::F16 | Scalar::F32 | Scalar::F64 => {
            let x = scalar::to_f64(s, bits);
            if x.is_nan() {
                "nan".into()
            } else if x.is_infinite() {
                if x > 0.0 { "inf".into() } else { "-inf".into() }
            } else if s == Scalar::F64 {
                float_text(x, format!("{x}"), format!("{x:e}"))
            } else {
                let f = x as f32;
                float_text(x, format!("{f}"), format!("{f:e}"))
            }
        }
        Scalar::I8
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::U8
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64 => scalar::to_i128(s, bits).to_string(),
    }
}

fn float_text(x: f64, plain: String, exponent: String) -> String {
    let size = x.abs();
    if size != 0.0 && !(1e-5..1e16).contains(&size) {
        exponent
    } else if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// A number in JSON: the shortest text that reads back as the same double, since JSON readers parse numbers
/// as doubles.
pub fn number_json(s: Scalar, bits: u64) -> String {
    let text = match s {
        Scalar::F16 | Scalar::F32 => number_text(Scalar::F64, scalar::to_f64(s, bits).to_bits()),
        _ => number_text(s, bits),
    };
    if matches!(text.as_str(), "nan" | "inf" | "-inf") { format!("\"{text}\"") } else { text }
}

/// Returns an error if there is not enough memory for the text of a buffer of so many bytes.
pub fn expect_room(name: &str, bytes: usize) -> Result<(), Error> {
    // A number of four bytes is a text of up to two dozen, which is copied on its way.
    files::check_room(bytes.saturating_mul(12)).map_err(|why| {
        Error::input(format!("the text of `{name}`: {why}; `--out {name}=@FILE.npy` writes the numbers"))
    })
}

/// `v v v`: every scalar of every element.
pub fn buffer_text(mem: &MemTypes, element: MemType, bytes: &[u8]) -> String {
    let mut out = String::new();
    for_each_scalar(mem, element, bytes, &mut |s, bits| {
        if !out.is_empty() {
            out.push(' ');
        }
        out += &number_text(s, bits);
    });
    out
}

/// `{"type":…,"values":[…]}`, or `{"type":null,"words":[…]}` if the elements do not consist of a single
/// number type.
pub fn buffer_json(mem: &MemTypes, element: MemType, bytes: &[u8], shape: Option<&[usize]>) -> String {
    let shape = shape.map_or(String::new(), |s| format!(",\"shape\":{}", serde_json::json!(s)));
    let named = plain_scalar(mem, element).and_then(type_name);
    let mut list = String::new();
    match named {
        Some(name) => {
            for_each_scalar(mem, element, bytes, &mut |s, bits| {
                if !list.is_empty() {
                    list.push(',');
                }
                list += &number_json(s, bits);
            });
            format!("{{\"type\":\"{name}\",\"values\":[{list}]{shape}}}")
        }
        None => {
            let (stride, pointers) = (mem.size(element) as usize, pointers(mem, element));
            let mut bytes = bytes.to_vec();
            for element in bytes.chunks_exact_mut(stride.max(1)) {
                pointers.iter().for_each(|&at| element[at..at + 8].fill(0));
            }
            for chunk in bytes.chunks(4) {
                if !list.is_empty() {
                    list.push(',');
                }
                list += &npy::from_le(chunk).to_string();
            }
            format!("{{\"type\":null,\"words\":[{list}]{shape}}}")
        }
    }
}

/// The buffer as an array, with one row per element if an element has several scalars.
pub fn buffer_array(mem: &MemTypes, element: MemType, bytes: &[u8]) -> Result<Array, Error> {
    let mut leaves = scalars(mem, element);
    let tail = bind::tail(mem, element);
    leaves.extend(tail.iter().flat_map(|tail| scalars(mem, tail.1)));
    let Some(&(_, first)) = leaves.first() else {
        return Err(Error::input("an empty element type has no array"));
    };
    if !pointers(mem, element).is_empty() {
        return Err(Error::input("the elements hold pointers: no .npy array holds those"));
    }
    if leaves.iter().any(|leaf| leaf.1 != first) {
        return Err(Error::input("the elements hold numbers of several types: no .npy array holds that"));
    }
    let n = bytes.len() / (mem.size(element) as usize).max(1) * leaves.len();
    files::check_room(n.saturating_mul(size_of::<u64>())).map_err(Error::Input)?;
    let mut bits = Vec::with_capacity(n);
    for_each_scalar(mem, element, bytes, &mut |_, b| bits.push(b));
    if tail.is_some() {
        let shape = vec![bits.len()];
        return Ok(Array { scalar: first, shape, bits });
    }
    let mut shape = vec![bits.len() / leaves.len()];
    match &mem[element] {
        MemData::Scalar(_) => {}
        MemData::Matrix(_, r, c, _) => shape.extend([*r as usize, *c as usize]),
        MemData::Vector(..) | MemData::Array(..) | MemData::Struct { .. } | MemData::Handle(_) => {
            shape.push(leaves.len());
        }
    }
    Ok(Array { scalar: first, shape, bits })
}

fn for_each_scalar(mem: &MemTypes, element: MemType, bytes: &[u8], visit: &mut dyn FnMut(Scalar, u64)) {
    let stride = mem.size(element) as usize;
    let mut leaves = scalars(mem, element);
    let pointers = pointers(mem, element);
    leaves.retain(|leaf| !pointers.contains(&leaf.0));
    if let Some((at, tail)) = bind::tail(mem, element) {
        let head = leaves.iter().filter(|&&(at, s)| at + s.bytes() as usize <= bytes.len());
        head.for_each(|&(at, s)| visit(s, npy::from_le(&bytes[at..at + s.bytes() as usize])));
        return for_each_scalar(mem, tail, bytes.get(at..).unwrap_or_default(), visit);
    }
    if stride == 0 {
        return;
    }
    for element in bytes.chunks_exact(stride) {
        for &(at, s) in &leaves {
            visit(s, npy::from_le(&element[at..at + s.bytes() as usize]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back() {
        for x in [0.0f32, -0.0, 0.1, 1.0, -3.5, 1e-20, 3e30, f32::MIN_POSITIVE, 16777216.0] {
            let text = number_text(Scalar::F32, x.to_bits() as u64);
            assert_eq!(text.parse::<f32>().map(f32::to_bits), Ok(x.to_bits()), "{text}");
            assert!(serde_json::from_str::<f64>(&text).is_ok(), "{text} is JSON");
        }
        assert_eq!(number_json(Scalar::F32, 311.017_43_f32.to_bits() as u64), "311.0174255371094");
        assert_eq!(number_json(Scalar::F32, f32::NAN.to_bits() as u64), "\"nan\"");
        assert_eq!(number_json(Scalar::F64, f64::NEG_INFINITY.to_bits()), "\"-inf\"");
        assert_eq!(number_text(Scalar::I8, 0xFF), "-1");
    }

    #[test]
    fn vectors_are_flattened_and_structs_are_words() {
        let mut mem = MemTypes::default();
        let float2 = mem.intern(MemData::Vector(Scalar::F32, 2));
        let bytes: Vec<u8> = [1.0f32, 2.5].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(buffer_json(&mem, float2, &bytes, None), r#"{"type":"float32","values":[1.0,2.5]}"#);
        assert_eq!(buffer_text(&mem, float2, &bytes), "1.0 2.5");
        let float = mem.intern(MemData::Scalar(Scalar::F32));
        let fields = vec![("a".into(), float), ("b".into(), float)];
        let s = mem.intern(MemData::Struct { name: "S".into(), fields, placement: None });
        assert_eq!(buffer_json(&mem, s, &bytes, None), r#"{"type":null,"words":[1065353216,1075838976]}"#);
        // A struct with a single field is printed as that field, just as an atomic number is printed as its
        // number.
        let one = mem.intern(MemData::Struct {
            name: "One".into(),
            fields: vec![("a".into(), float2)],
            placement: None,
        });
        assert_eq!(buffer_json(&mem, one, &bytes, None), r#"{"type":"float32","values":[1.0,2.5]}"#);
    }
}
