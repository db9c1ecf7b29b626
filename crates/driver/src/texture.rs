//! Converts textures and samplers from the form that the host gives to the one that kernels see.
//!
//! A texture is bound to an array, like a tensor: `[height, width]` or `[height, width, channels]` for two
//! dimensions, with the slowest dimension (layers, depth) first. In the module it is represented by its size
//! and a buffer of texels, with x varying fastest and the levels one after the other. Channels that the array
//! lacks are 0, a missing alpha is 1; bytes become numbers from 0 to 1.

use ir::{Scalar, build::float_bits, build::float_value};
use serde_json::Value as Json;

use crate::bind::{self, BindValue};
use crate::files;

/// The number of dimensions of a texture, including layers, and how many of them shrink from level to level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    /// All dimensions.
    pub all: usize,
    /// The dimensions that shrink from level to level.
    pub axes: usize,
}

impl Dimensions {
    /// Parses the dimensions from the name of the library's type that holds a texture's size.
    pub(crate) fn of(name: &str) -> Option<Dimensions> {
        let (all, axes) = name.strip_prefix("__TextureShape<")?.strip_suffix('>')?.split_once(',')?;
        Some(Dimensions { all: all.trim().parse().ok()?, axes: axes.trim().parse().ok()? })
    }
}

/// A texture's content.
pub(crate) struct Texture {
    /// The texels of all levels.
    pub(crate) bytes: Vec<u8>,
    /// Width, height, depth or layers, levels.
    pub(crate) size: [u32; 4],
}

/// Reads the value bound to a texture whose texels have `lanes` lanes of scalar `s`.
pub(crate) fn read(value: &BindValue, dims: Dimensions, s: Scalar, lanes: usize) -> Result<Texture, String> {
    let (shape, numbers, levels) = numbers(value, s)?;
    let channels = match shape.len() {
        n if n == dims.all => 1,
        n if n == dims.all + 1 => shape[dims.all],
        n => return Err(format!("a texture of {} dimensions has no array of {n}", dims.all)),
    };
    let extent = |k: usize| if k < dims.all { shape[dims.all - 1 - k] } else { 1 };
    let size = [extent(0), extent(1), extent(2)];
    let n = size.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n < 1 << 28);
    let n = n.ok_or("the texture is too large")?;
    if n == 0 || channels == 0 {
        return Err("a texture has at least one texel".into());
    }
    files::check_room(n * lanes * 16)?;
    let mut texels = vec![0u64; n * lanes];
    match numbers {
        None => {}
        Some(list) if n.checked_mul(channels) != Some(list.len()) => {
            return Err(format!("{} numbers for a texture of {n} texels of {channels} channels", list.len()));
        }
        Some(list) => {
            let one = if s.is_float() { float_bits(s, 1.0) } else { 1 };
            for (texel, given) in texels.chunks_mut(lanes).zip(list.chunks(channels)) {
                for (k, lane) in texel.iter_mut().enumerate() {
                    *lane = given.get(k).copied().unwrap_or(if k == 3 { one } else { 0 });
                }
            }
        }
    }
    let largest = size.iter().take(dims.axes).max().copied().unwrap_or(1);
    let most = usize::BITS as usize - largest.leading_zeros() as usize;
    if levels == 0 || levels > most {
        return Err(format!("a texture of this size has 1 to {most} levels, not {levels}"));
    }
    if levels > 1 && !s.is_float() {
        return Err("only a texture of floats has further levels made of it".into());
    }
    let mut bytes = Vec::new();
    let mut now = size;
    for level in 0..levels {
        if level > 0 {
            (texels, now) = halve(&texels, now, dims.axes, lanes, s);
        }
        for &lane in &texels {
            bytes.extend_from_slice(&lane.to_le_bytes()[..s.bytes() as usize]);
        }
    }
    let [w, h, d] = size.map(|n| n as u32);
    Ok(Texture { bytes, size: [w, h, d, levels as u32] })
}

/// The number of texels of all levels; `None` on overflow.
pub(crate) fn count(size: [u32; 4], dims: Dimensions) -> Option<u64> {
    let mut total = 0u64;
    for level in 0..size[3].min(32) {
        let along = |k: usize| u64::from(if k < dims.axes { (size[k] >> level).max(1) } else { size[k] });
        total = total.checked_add(along(0).checked_mul(along(1))?.checked_mul(along(2))?)?;
    }
    Some(total)
}

/// Computes the next level, in which each texel is the mean of the texels that it covers.
fn halve(from: &[u64], size: [usize; 3], axes: usize, lanes: usize, s: Scalar) -> (Vec<u64>, [usize; 3]) {
    let to: [usize; 3] = std::array::from_fn(|k| if k < axes { (size[k] / 2).max(1) } else { size[k] });
    let mut out = Vec::with_capacity(to.iter().product::<usize>() * lanes);
    let range = |k: usize, at: usize| {
        if k < axes && size[k] > 1 { 2 * at..2 * at + 2 } else { at..at + 1 }
    };
    for z in 0..to[2] {
        for y in 0..to[1] {
            for x in 0..to[0] {
                for lane in 0..lanes {
                    let (mut sum, mut n) = (0.0, 0.0);
                    for c in range(2, z) {
                        for b in range(1, y) {
                            for a in range(0, x) {
                                let at = (c * size[1] + b) * size[0] + a;
                                sum += float_value(s, from[at * lanes + lane]);
                                n += 1.0;
                            }
                        }
                    }
                    out.push(float_bits(s, sum / n));
                }
            }
        }
    }
    (out, to)
}

type Numbers = (Vec<usize>, Option<Vec<u64>>, usize);

/// The shape, the numbers (none for zeros) and the number of levels.
fn numbers(value: &BindValue, s: Scalar) -> Result<Numbers, String> {
    let bits = |list: &[Json]| list.iter().map(|json| bind::number(json, s)).collect::<Result<Vec<u64>, _>>();
    match value {
        BindValue::Zeros(n) => {
            Ok((vec![usize::try_from(*n).map_err(|_| "the texture is too large")?], None, 1))
        }
        BindValue::ZerosOf(shape) => Ok((shape.clone(), None, 1)),
        BindValue::Words(_) => Err("a texture needs an array with a shape".into()),
        BindValue::Npy(_) | BindValue::Array(_) => {
            let array = bind::array(value)?;
            let convert = |b: u64| match (array.scalar, s.is_float()) {
                (Scalar::U8, true) => float_bits(s, b as f64 / 255.0),
                _ => ir::scalar::convert(array.scalar, s, b),
            };
            if array.scalar.is_float() && !s.is_float() {
                return Err(bind::unfit(array.scalar, s));
            }
            Ok((array.shape.clone(), Some(array.bits.iter().map(|&b| convert(b)).collect()), 1))
        }
        BindValue::Json(Json::Object(map)) => {
            let known = ["size", "shape", "data", "levels"];
            if let Some(key) = map.keys().find(|k| !known.contains(&k.as_str())) {
                return Err(format!("a texture has no `{key}`, but {}", known.join(", ")));
            }
            let list = |key: &str| -> Option<Vec<usize>> {
                map.get(key)?.as_array()?.iter().map(|n| n.as_u64().map(|n| n as usize)).collect()
            };
            let mut data = Vec::new();
            if let Some(json) = map.get("data") {
                bind::flatten(json, 0, &mut Vec::new(), &mut data)?;
            }
            let shape = match (list("shape"), list("size")) {
                (Some(shape), None) => shape,
                (None, Some(mut size)) => {
                    let n = size.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
                    let n = n.ok_or("the texture is too large")?;
                    size.reverse();
                    if n > 0 && data.len() > n && data.len().is_multiple_of(n) {
                        size.push(data.len() / n);
                    }
                    size
                }
                _ => return Err("a texture needs either `size` (width first) or `shape` (width last)".into()),
            };
            let levels = map.get("levels").map_or(Some(1), Json::as_u64).ok_or("`levels` is a number")?;
            let data = if map.contains_key("data") { Some(bits(&data)?) } else { None };
            Ok((shape, data, levels as usize))
        }
        BindValue::Json(json) => {
            let (mut shape, mut list) = (Vec::new(), Vec::new());
            bind::flatten(json, 0, &mut shape, &mut list)?;
            Ok((shape, Some(bits(&list)?), 1))
        }
    }
}

/// Returns true if a struct of this name is a sampler.
pub fn is_sampler(name: &str) -> bool {
    name == "SamplerState"
}

/// Converts `{"filter": "linear", "address": "wrap", …}` to the numbers of the library's sampler type, in
/// order.
pub(crate) fn sampler(map: &serde_json::Map<String, Json>) -> Result<Vec<Json>, String> {
    const ADDRESSES: [&str; 5] = ["wrap", "clamp", "mirror", "border", "mirror_once"];
    const FILTERS: [&str; 2] = ["linear", "nearest"];
    const COMPARES: [&str; 8] =
        ["less_equal", "less", "greater", "greater_equal", "equal", "not_equal", "always", "never"];
    let known = [
        "filter", "mip", "address", "addressU", "addressV", "addressW", "compare", "min", "max", "bias",
        "border",
    ];
    if let Some(key) = map.keys().find(|k| !known.contains(&k.as_str())) {
        return Err(format!("a sampler has no `{key}`, but {}", known.join(", ")));
    }
    let word = |key: &str, other: &str, words: &[&str]| -> Result<Json, String> {
        let Some(json) = map.get(key).or_else(|| map.get(other)) else { return Ok(Json::from(0)) };
        let at = json.as_str().and_then(|text| words.iter().position(|w| *w == text));
        at.map(Json::from).ok_or_else(|| format!("`{key}` is one of {}", words.join(", ")))
    };
    let number = |key: &str| map.get(key).cloned().unwrap_or(Json::from(0));
    let mut list = vec![word("filter", "filter", &FILTERS)?, word("mip", "filter", &FILTERS)?];
    for key in ["addressU", "addressV", "addressW"] {
        list.push(word(key, "address", &ADDRESSES)?);
    }
    list.push(word("compare", "compare", &COMPARES)?);
    list.extend(["min", "max", "bias"].map(number));
    match map.get("border") {
        None => list.extend([0, 0, 0, 0].map(Json::from)),
        Some(Json::Array(color)) if color.len() == 4 => list.extend(color.iter().cloned()),
        Some(_) => return Err("`border` is a list of four numbers".into()),
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texture(dims: (usize, usize), lanes: usize, text: &str) -> Result<(Vec<f32>, [u32; 4]), String> {
        let value = bind::parse_value(text).expect("a value");
        let dims = Dimensions { all: dims.0, axes: dims.1 };
        let t = read(&value, dims, Scalar::F32, lanes)?;
        let float = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Ok((t.bytes.chunks_exact(4).map(float).collect(), t.size))
    }

    #[test]
    fn arrays_are_texels() {
        assert_eq!(texture((2, 2), 1, "[[1,2],[3,4]]"), Ok((vec![1.0, 2.0, 3.0, 4.0], [2, 2, 1, 1])));
        assert_eq!(texture((1, 1), 4, "[[1,2,3]]"), Ok((vec![1.0, 2.0, 3.0, 1.0], [1, 1, 1, 1])));
        assert_eq!(texture((2, 2), 1, "zeros:1,2"), Ok((vec![0.0, 0.0], [2, 1, 1, 1])));
        let text = r#"{"size":[2,2],"data":[1,2,3,6],"levels":2}"#;
        assert_eq!(texture((2, 2), 1, text), Ok((vec![1.0, 2.0, 3.0, 6.0, 3.0], [2, 2, 1, 2])));
        for wrong in [
            "[1,2]",
            "[[1],[2,3]]",
            r#"{"size":[4294967296,4294967296],"data":[1,2,3]}"#,
            r#"{"shape":[1,1,9223372036854775807],"data":[1]}"#,
            r#"{"size":[2,2],"data":[1,2,3]}"#,
            r#"{"size":[2,2],"levels":3}"#,
        ] {
            assert!(texture((2, 2), 1, wrong).is_err(), "{wrong}");
        }
    }
}
