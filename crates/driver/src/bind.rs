//! Converts inputs from the command line to the bytes that kernels see.
//!
//! The input is `NAME=VALUE`, where VALUE is JSON, `zeros:N`, `words:W,W,…` or `@file.npy`; the declared
//! memory type decides how it is read. The layout is that of [`ir::MemTypes`]: C layout with scalar
//! alignment.

use std::borrow::Cow;
use std::path::PathBuf;

use codegen_slang::scalar_name;
use ir::{MatrixOrder, MemData, MemType, MemTypes, Scalar, scalar};
use serde_json::Value as Json;

use crate::error::Error;
use crate::files;
use crate::npy;
use crate::texture;

/// A name and the value bound to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// The global's name.
    pub name: String,
    /// Its content.
    pub value: BindValue,
}

/// A value as written on the command line.
#[derive(Clone, Debug, PartialEq)]
pub enum BindValue {
    /// A JSON value.
    Json(Json),
    /// The given number of zero elements.
    Zeros(u64),
    /// Zeros, with the given length along each dimension.
    ZerosOf(Vec<usize>),
    /// Raw 32-bit words.
    Words(Vec<u32>),
    /// The numbers of a file.
    Npy(PathBuf),
    /// Numbers with a shape.
    Array(npy::Array),
}

/// The value's array; an error if the value is not an array.
pub(crate) fn array(value: &BindValue) -> Result<Cow<'_, npy::Array>, String> {
    match value {
        BindValue::Npy(path) => crate::arrays::read(path).map(Cow::Owned).map_err(|e| e.to_string()),
        BindValue::Array(array) => {
            let n = array.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
            match n == Some(array.bits.len()) {
                true => Ok(Cow::Borrowed(array)),
                false => Err(format!("{} numbers do not fill the shape {:?}", array.bits.len(), array.shape)),
            }
        }
        BindValue::Json(_) | BindValue::Zeros(_) | BindValue::ZerosOf(_) | BindValue::Words(_) => {
            Err("no array".into())
        }
    }
}

/// A conformance `TYPE:INTERFACE=ID`, as `--conform` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conformance {
    /// The type.
    pub ty: String,
    /// The interface that it conforms to.
    pub interface: String,
    /// The number that identifies the type in dynamic dispatch.
    pub id: Option<u32>,
}

/// Parses `NAME=VALUE`.
pub fn parse_bind(text: &str) -> Result<Bind, Error> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Error::input(format!("`--bind {text}`: expected NAME=VALUE")))?;
    let name = name.trim().to_string();
    if name.is_empty() {
        return Err(Error::input(format!("`--bind {text}`: the name is empty")));
    }
    let value = parse_value(value).map_err(|why| Error::input(format!("`--bind {name}`: {why}")))?;
    Ok(Bind { name, value })
}

/// The lengths of arrays of resources that the names of bindings imply, as [`crate::session::FileOptions`] has them:
/// `textures[3]` is an element of an array of at least four, and `TYPE.Handle[3]` has the number 3.
pub fn lengths(binds: &[Bind]) -> Vec<(String, u32)> {
    let mut all: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for bind in binds {
        for (at, _) in bind.name.match_indices('[') {
            let (before, after) = (&bind.name[..at], &bind.name[at + 1..]);
            let Some((number, _)) = after.split_once(']') else { continue };
            let Ok(number) = number.trim().parse::<u32>() else { continue };
            let (name, n) = match before.ends_with(".Handle") {
                true => (format!("{before}[{number}]"), 1),
                false => {
                    (before.rsplit(['.', ']']).next().unwrap_or(before).to_owned(), number.saturating_add(1))
                }
            };
            let known = all.entry(name).or_default();
            *known = n.max(*known);
        }
    }
    all.into_iter().collect()
}

/// Parses a VALUE.
pub fn parse_value(text: &str) -> Result<BindValue, String> {
    let text = text.trim();
    if let Some(n) = text.strip_prefix("zeros:") {
        if n.contains(',') {
            let lengths: Result<Vec<usize>, _> = n.split(',').map(|n| n.trim().parse()).collect();
            return lengths.map(BindValue::ZerosOf).map_err(|_| format!("`zeros:{n}` needs whole numbers"));
        }
        let n = n.trim().parse().map_err(|_| format!("`zeros:{n}` needs a number of elements"))?;
        return Ok(BindValue::Zeros(n));
    }
    if let Some(words) = text.strip_prefix("words:") {
        let words = words.split(',').map(str::trim).filter(|w| !w.is_empty());
        let words = words.map(|w| parse_word(w).ok_or_else(|| format!("`{w}` is not a 32-bit word")));
        return Ok(BindValue::Words(words.collect::<Result<_, _>>()?));
    }
    if let Some(path) = text.strip_prefix('@') {
        return Ok(BindValue::Npy(path.into()));
    }
    serde_json::from_str(text).map(BindValue::Json).map_err(|e| {
        format!("`{}` is neither JSON nor `zeros:N`, `words:…` or `@file.npy` ({e})", shorten(text))
    })
}

/// Parses `TYPE:INTERFACE` or `TYPE:INTERFACE=ID`.
pub fn parse_conformance(text: &str) -> Result<Conformance, Error> {
    let wrong = || Error::input(format!("`--conform {text}`: expected TYPE:INTERFACE=ID"));
    let (names, id) = match text.rsplit_once('=') {
        Some((names, id)) => (names, Some(id.trim().parse().map_err(|_| wrong())?)),
        None => (text, None),
    };
    // Find the colon that is not part of a `::`.
    let bytes = names.as_bytes();
    let is_colon = |k: usize| bytes.get(k) == Some(&b':');
    let single = (0..bytes.len()).find(|&k| is_colon(k) && !is_colon(k + 1) && (k == 0 || !is_colon(k - 1)));
    let (ty, interface) = single.map(|k| (&names[..k], &names[k + 1..])).ok_or_else(wrong)?;
    let (ty, interface) = (ty.trim().to_string(), interface.trim().to_string());
    if ty.is_empty() || interface.is_empty() {
        return Err(wrong());
    }
    Ok(Conformance { ty, interface, id })
}

fn parse_word(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    u32::try_from(number).ok().or_else(|| i32::try_from(number).ok().map(|n| n as u32))
}

/// A JSON value in the form in which messages quote it.
pub(crate) fn shown(json: &Json) -> String {
    shorten(&json.to_string())
}

/// A text in the form in which messages quote it.
pub(crate) fn shorten(text: &str) -> String {
    if text.chars().count() > 40 { text.chars().take(40).chain(['…']).collect() } else { text.into() }
}

/// The bytes of a buffer of elements of type `element`.
pub fn buffer_bytes(mem: &MemTypes, element: MemType, value: &BindValue) -> Result<Vec<u8>, String> {
    let stride = mem.size(element) as usize;
    match value {
        BindValue::Zeros(n) => {
            // Of an array without a length, these are its elements, after the members before it.
            let (before, each) = match tail(mem, element) {
                Some((at, each)) => (at, mem.size(each) as usize),
                None => (0, stride),
            };
            let size = usize::try_from(*n).ok().and_then(|n| n.checked_mul(each.max(1))?.checked_add(before));
            let size = size.and_then(|size| size.checked_next_multiple_of(stride.max(1)));
            files::zeros(size.ok_or_else(|| format!("{n} elements are too many"))?)
        }
        BindValue::ZerosOf(lengths) => {
            let n = lengths.iter().fold(1u64, |n, &l| n.saturating_mul(l as u64));
            buffer_bytes(mem, element, &BindValue::Zeros(n))
        }
        BindValue::Words(words) => {
            let mut bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
            // The padding at the end of the only element may be missing.
            if bytes.len() < stride && bytes.len() >= end(mem, element) {
                bytes.resize(stride, 0);
            }
            if !bytes.is_empty() && bytes.len() < stride {
                return Err(format!("{} words are less than one element of {stride} bytes", words.len()));
            }
            if has_tail(mem, element) && !bytes.len().is_multiple_of(stride.max(1)) {
                let n = words.len();
                return Err(format!("{n} words do not fill elements of {stride} bytes: fill up with zeros"));
            }
            Ok(bytes)
        }
        BindValue::Npy(_) | BindValue::Array(_) => {
            let array = array(value)?;
            from_numbers(mem, element, array.scalar, &array.bits)
        }
        BindValue::Json(Json::Array(list)) => {
            // The list has either one entry per element, or all scalars in order.
            let n = count(mem, element);
            let flat = n > 1 && list.iter().all(is_scalar);
            if flat {
                check_whole(list.len(), n)?;
                let mut bytes = files::zeros(list.len() / n * stride)?;
                let leaves = if list.is_empty() { Vec::new() } else { scalars(mem, element) };
                for (chunk, at) in list.chunks(n).zip((0..).step_by(stride.max(1))) {
                    for (json, (offset, s)) in chunk.iter().zip(&leaves) {
                        put(&mut bytes, at + offset, *s, number(json, *s)?);
                    }
                }
                return Ok(bytes);
            }
            let size = list.len().checked_mul(stride);
            let mut bytes =
                files::zeros(size.ok_or_else(|| format!("{} elements are too many", list.len()))?)?;
            for (idx, json) in list.iter().enumerate() {
                fill(mem, element, json, &mut bytes, idx * stride)
                    .map_err(|why| format!("element {idx}: {why}"))?;
            }
            Ok(bytes)
        }
        BindValue::Json(json @ Json::Object(_)) if matches!(mem[element], MemData::Struct { .. }) => {
            let mut bytes = files::zeros(stride)?;
            fill(mem, element, json, &mut bytes, 0)?;
            Ok(bytes)
        }
        BindValue::Json(json) => Err(format!("a buffer needs a list, found {}", kind(json))),
    }
}

/// The bytes of a single value of type `ty`, such as a uniform.
pub fn value_bytes(mem: &MemTypes, ty: MemType, value: &BindValue) -> Result<Vec<u8>, String> {
    let size = mem.size(ty) as usize;
    match value {
        BindValue::Zeros(_) | BindValue::ZerosOf(_) => Ok(vec![0; size]),
        BindValue::Words(words) => {
            let mut bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
            if bytes.len() < size {
                return Err(format!("{} words are {} bytes, {size} needed", words.len(), bytes.len()));
            }
            bytes.truncate(size);
            Ok(bytes)
        }
        BindValue::Npy(_) | BindValue::Array(_) => {
            let array = array(value)?;
            let bytes = from_numbers(mem, ty, array.scalar, &array.bits)?;
            if bytes.len() == size {
                Ok(bytes)
            } else {
                Err(format!("{} numbers for one value of {}", array.bits.len(), count(mem, ty)))
            }
        }
        BindValue::Json(json) => {
            let mut bytes = vec![0; size];
            fill(mem, ty, json, &mut bytes, 0)?;
            Ok(bytes)
        }
    }
}

/// Every scalar of a type in order of declaration, with its offset.
pub fn scalars(mem: &MemTypes, ty: MemType) -> Vec<(usize, Scalar)> {
    let mut out = Vec::new();
    collect(mem, ty, 0, &mut out);
    out
}

/// The number of scalars in a type. A type of 128 MiB may have as many scalars, so they are only enumerated
/// if as many values are given.
fn count(mem: &MemTypes, ty: MemType) -> usize {
    match &mem[ty] {
        MemData::Scalar(_) | MemData::Handle(_) => 1,
        MemData::Vector(_, n) => *n as usize,
        MemData::Matrix(_, r, c, _) => (r * c) as usize,
        MemData::Array(t, n) => count(mem, *t) * *n as usize,
        MemData::Struct { fields, .. } => fields.iter().map(|f| count(mem, f.1)).sum(),
    }
}

/// Returns an error if `given` numbers do not fill whole elements of `each` numbers.
fn check_whole(given: usize, each: usize) -> Result<(), String> {
    if each == 0 || !given.is_multiple_of(each) {
        return Err(format!("{given} numbers do not fill elements of {each} each"));
    }
    Ok(())
}

fn collect(mem: &MemTypes, ty: MemType, at: usize, out: &mut Vec<(usize, Scalar)>) {
    let mut run = |s: Scalar, n: u32| {
        out.extend((0..n as usize).map(|k| (at + k * s.bytes() as usize, s)));
    };
    match &mem[ty] {
        MemData::Scalar(s) => run(*s, 1),
        MemData::Vector(s, n) => run(*s, *n),
        MemData::Matrix(s, r, c, _) => run(*s, r * c),
        MemData::Array(t, n) => {
            let size = mem.size(*t) as usize;
            for k in 0..*n as usize {
                collect(mem, *t, at + k * size, out);
            }
        }
        MemData::Struct { fields, .. } => {
            for (idx, field) in fields.iter().enumerate() {
                collect(mem, field.1, at + mem.field_offset(ty, idx) as usize, out);
            }
        }
        MemData::Handle(_) => run(Scalar::U64, 1),
    }
}

fn from_numbers(mem: &MemTypes, element: MemType, from: Scalar, bits: &[u64]) -> Result<Vec<u8>, String> {
    check_whole(bits.len(), count(mem, element))?;
    let leaves = if bits.is_empty() { Vec::new() } else { scalars(mem, element) };
    let stride = mem.size(element) as usize;
    let mut bytes = files::zeros(bits.len() / leaves.len().max(1) * stride)?;
    for (idx, chunk) in bits.chunks(leaves.len().max(1)).enumerate() {
        for (&b, &(offset, to)) in chunk.iter().zip(&leaves) {
            if from.is_float() && !to.is_float() {
                return Err(unfit(from, to));
            }
            put(&mut bytes, idx * stride + offset, to, scalar::convert(from, to, b));
        }
    }
    Ok(bytes)
}

/// The message that converting the numbers of a file would lose information.
pub(crate) fn unfit(from: Scalar, to: Scalar) -> String {
    format!("the file holds {}, the program wants {}", scalar_name(from), scalar_name(to))
}

/// The end of the last field of an element; the padding after it follows.
fn end(mem: &MemTypes, element: MemType) -> usize {
    match &mem[element] {
        MemData::Struct { fields, .. } if !fields.is_empty() => {
            let last = fields.len() - 1;
            mem.field_offset(element, last) as usize + end(mem, fields[last].1)
        }
        _ => mem.size(element) as usize,
    }
}

/// Returns true if a type ends with an array without a length, so that any memory after it is part of it.
fn has_tail(mem: &MemTypes, ty: MemType) -> bool {
    tail(mem, ty).is_some()
}

/// The offset and the type of the elements of an array without a length at the end of a type.
pub(crate) fn tail(mem: &MemTypes, ty: MemType) -> Option<(usize, MemType)> {
    let MemData::Struct { fields, .. } = &mem[ty] else { return None };
    let last = fields.len().checked_sub(1)?;
    let at = mem.field_offset(ty, last) as usize;
    match &mem[fields[last].1] {
        MemData::Array(element, 0) => Some((at, *element)),
        _ => tail(mem, fields[last].1).map(|(inner, element)| (at + inner, element)),
    }
}

/// Writes one value of type `ty` at offset `at`.
fn fill(mem: &MemTypes, ty: MemType, json: &Json, bytes: &mut [u8], at: usize) -> Result<(), String> {
    let leaves = |ty| scalars(mem, ty);
    match (&mem[ty], json) {
        (MemData::Scalar(s), Json::Array(list)) if list.len() == 1 => {
            put(bytes, at, *s, number(&list[0], *s)?);
        }
        (MemData::Scalar(s), json) => put(bytes, at, *s, number(json, *s)?),
        (MemData::Handle(_), _) => {
            return Err(
                "a pointer within a value is bound by its name, as `--bind OUTER.FIELD=…` or `OUTER[0]=…`"
                    .into(),
            );
        }
        (MemData::Struct { name, .. }, Json::Object(map)) if texture::is_sampler(name) => {
            for (json, (offset, s)) in texture::sampler(map)?.iter().zip(leaves(ty)) {
                put(bytes, at + offset, s, number(json, s)?);
            }
        }
        (MemData::Struct { name, fields, .. }, Json::Object(map)) => {
            for key in map.keys() {
                if !fields.iter().any(|f| f.0 == *key) {
                    let names: Vec<&str> = fields.iter().map(|f| f.0.as_str()).collect();
                    return Err(format!("`{name}` has no field `{key}`, but {}", names.join(", ")));
                }
            }
            for (idx, (field, field_ty)) in fields.iter().enumerate() {
                // Pointers may be missing, since they are bound by their own names.
                let is_handle = matches!(mem[*field_ty], MemData::Handle(_));
                if is_handle && !map.contains_key(field) {
                    continue;
                }
                let json = map.get(field).ok_or_else(|| format!("field `{field}` of `{name}` is missing"))?;
                fill(mem, *field_ty, json, bytes, at + mem.field_offset(ty, idx) as usize)
                    .map_err(|why| format!("field `{field}`: {why}"))?;
            }
        }
        (_, Json::Array(list)) if list.iter().all(is_scalar) && list.len() == count(mem, ty) => {
            for (json, (offset, s)) in list.iter().zip(leaves(ty)) {
                put(bytes, at + offset, s, number(json, s)?);
            }
        }
        (MemData::Struct { fields, .. }, json) if fields.len() == 1 => {
            fill(mem, fields[0].1, json, bytes, at)?
        }
        (MemData::Struct { name, fields, .. }, Json::Array(list)) => {
            if list.len() != fields.len() {
                return Err(format!("`{name}` has {} fields, found {}", fields.len(), list.len()));
            }
            for (idx, (json, (_, field_ty))) in list.iter().zip(fields).enumerate() {
                fill(mem, *field_ty, json, bytes, at + mem.field_offset(ty, idx) as usize)?;
            }
        }
        (MemData::Array(t, n), Json::Array(list)) => {
            if list.len() != *n as usize {
                return Err(format!("{n} elements wanted, found {}", list.len()));
            }
            for (idx, json) in list.iter().enumerate() {
                fill(mem, *t, json, bytes, at + idx * mem.size(*t) as usize)
                    .map_err(|why| format!("element {idx}: {why}"))?;
            }
        }
        (MemData::Vector(_, n), Json::Array(list)) => {
            return Err(format!("{n} numbers wanted, found {}", list.len()));
        }
        (&MemData::Matrix(s, n, lanes, order), Json::Array(rows)) => {
            // A list of lists always gives the rows of the matrix, whatever its order in memory.
            let in_columns = order == MatrixOrder::Columns;
            let (r, c) = if in_columns { (lanes, n) } else { (n, lanes) };
            let wrong = || format!("{r} rows of {c} numbers wanted");
            if rows.len() != r as usize {
                return Err(wrong());
            }
            for (i, row) in rows.iter().enumerate() {
                let Json::Array(row) = row else { return Err(wrong()) };
                if row.len() != c as usize {
                    return Err(wrong());
                }
                for (j, json) in row.iter().enumerate() {
                    let (line, lane) = if in_columns { (j, i) } else { (i, j) };
                    let place = line * lanes as usize + lane;
                    put(bytes, at + place * s.bytes() as usize, s, number(json, s)?);
                }
            }
        }
        (MemData::Struct { name, .. }, json) => {
            return Err(format!("`{name}` needs an object, found {}", kind(json)));
        }
        (MemData::Array(..) | MemData::Vector(..) | MemData::Matrix(..), json) => {
            return Err(format!("a list wanted, found {}", kind(json)));
        }
    }
    Ok(())
}

/// The bits of a JSON number (or `true`, or "nan") in a scalar type.
pub fn number(json: &Json, s: Scalar) -> Result<u64, String> {
    let unfit = || format!("{} is not a value of type {}", shown(json), scalar_name(s));
    match json {
        Json::Bool(b) => Ok(scalar::from_i64(s, *b as i64)),
        Json::Number(n) if s.is_float() => {
            // Integers beyond 2^53 are rounded through `f64`, as in the language.
            Ok(scalar::from_f64(s, n.as_f64().ok_or_else(unfit)?))
        }
        Json::Number(n) => {
            let whole = match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(i), ..) => i as i128,
                (_, Some(u), _) => u as i128,
                (_, _, Some(f)) if f.fract() == 0.0 && f.abs() < 1e19 => f as i128,
                _ => return Err(unfit()),
            };
            let bits = match s {
                Scalar::Bool => return Ok((whole != 0) as u64),
                _ => scalar::canonical(s, whole as u64),
            };
            if scalar::to_i128(s, bits) == whole { Ok(bits) } else { Err(unfit()) }
        }
        Json::String(text) if s.is_float() => match text.to_ascii_lowercase().as_str() {
            "nan" => Ok(scalar::from_f64(s, f64::NAN)),
            "inf" | "infinity" => Ok(scalar::from_f64(s, f64::INFINITY)),
            "-inf" | "-infinity" => Ok(scalar::from_f64(s, f64::NEG_INFINITY)),
            _ => Err(unfit()),
        },
        Json::String(_) | Json::Null | Json::Array(_) | Json::Object(_) => Err(unfit()),
    }
}

fn is_scalar(json: &Json) -> bool {
    !matches!(json, Json::Array(_) | Json::Object(_))
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn put(bytes: &mut [u8], at: usize, s: Scalar, bits: u64) {
    let n = s.bytes() as usize;
    bytes[at..at + n].copy_from_slice(&bits.to_le_bytes()[..n]);
}

/// The maximum number of dimensions of a tensor.
pub(crate) const MAX_RANK: usize = 5;

/// Collects the numbers of nested lists in order, and the length of the lists at each depth.
pub(crate) fn flatten(
    json: &Json,
    depth: usize,
    shape: &mut Vec<usize>,
    out: &mut Vec<Json>,
) -> Result<(), String> {
    let ragged = || "the lists of a tensor are of one length".to_owned();
    let Json::Array(list) = json else {
        if depth == shape.len() {
            out.push(json.clone());
            return Ok(());
        }
        return Err(ragged());
    };
    match shape.get(depth) {
        Some(&n) if n != list.len() => return Err(ragged()),
        Some(_) => {}
        None if depth >= MAX_RANK => return Err(format!("a tensor has at most {MAX_RANK} dimensions")),
        None if out.is_empty() => shape.push(list.len()),
        None => return Err(ragged()),
    }
    list.iter().try_for_each(|item| flatten(item, depth + 1, shape, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> BindValue {
        parse_value(text).expect("a value")
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
    }

    #[test]
    fn structs_as_objects_and_flat() {
        let mut mem = MemTypes::default();
        let float = mem.intern(MemData::Scalar(Scalar::F32));
        let float3 = mem.intern(MemData::Vector(Scalar::F32, 3));
        let fields = vec![("scale".to_string(), float), ("dir".to_string(), float3)];
        let ty = mem.intern(MemData::Struct { name: "S".into(), fields, placement: None });
        let object = json(r#"{"scale":1,"dir":[0,0,2.5]}"#);
        assert_eq!(floats(&value_bytes(&mem, ty, &object).expect("fits")), [1.0, 0.0, 0.0, 2.5]);
        let flat = json("[1,2,3,4, 5,6,7,8]");
        assert_eq!(floats(&buffer_bytes(&mem, ty, &flat).expect("fits")), [1., 2., 3., 4., 5., 6., 7., 8.]);
        for wrong in [r#"{"scale":1}"#, r#"{"scale":1,"dir":[0,0]}"#, "[1,2,3]", "3", r#"{"x":1}"#] {
            assert!(value_bytes(&mem, ty, &json(wrong)).is_err(), "{wrong}");
        }
        assert!(buffer_bytes(&mem, ty, &json("[1,2,3]")).is_err());
    }

    #[test]
    fn numbers_lie_as_in_memory_and_lists_of_rows_name_rows() {
        let mut mem = MemTypes::default();
        for (order, r, c, lists) in [
            (MatrixOrder::Rows, 2, 3, [1., 2., 3., 4., 5., 6.]),
            (MatrixOrder::Columns, 3, 2, [1., 4., 2., 5., 3., 6.]),
        ] {
            let matrix = mem.intern(MemData::Matrix(Scalar::F32, r, c, order));
            let words = value_bytes(&mem, matrix, &json("words:1,2,3,0x4,5,-1")).expect("fits");
            assert_eq!(words.chunks(4).map(|b| b[0]).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 255]);
            let flat = value_bytes(&mem, matrix, &json("[1,2,3,4,5,6]")).expect("fits");
            assert_eq!(floats(&flat), [1., 2., 3., 4., 5., 6.]);
            let rows = value_bytes(&mem, matrix, &json("[[1,2,3],[4,5,6]]")).expect("fits");
            assert_eq!(floats(&rows), lists);
        }
    }

    #[test]
    fn numbers_must_fit() {
        let of = |text: &str, s| number(&serde_json::from_str(text).expect("JSON"), s);
        assert_eq!(of("255", Scalar::U8), Ok(255));
        assert!(of("256", Scalar::U8).is_err());
        assert!(of("-1", Scalar::U32).is_err());
        assert!(of("1.5", Scalar::I32).is_err());
        assert_eq!(of("18446744073709551615", Scalar::U64), Ok(u64::MAX));
        assert_eq!(of("\"nan\"", Scalar::F32), Ok(f32::NAN.to_bits() as u64));
        assert_eq!(of("true", Scalar::Bool), Ok(1));
    }

    #[test]
    fn conformances() {
        let parsed = parse_conformance("Glass:IMaterial=3").expect("parses");
        assert_eq!(
            (parsed.ty.as_str(), parsed.interface.as_str(), parsed.id),
            ("Glass", "IMaterial", Some(3))
        );
        let parsed = parse_conformance("a::Glass<4>:b::IMaterial").expect("parses");
        assert_eq!((parsed.ty.as_str(), parsed.interface.as_str()), ("a::Glass<4>", "b::IMaterial"));
        assert!(parse_conformance("a::Glass").is_err());
        assert!(parse_conformance("Glass").is_err());
    }
}
