//! Binds tensors: parameters of the types of slangtorch and slangpy, each bound to one array with its shape.
//!
//! In the module a tensor `x` is the buffer `x.__data` and the uniform `x.__layout`; a differentiable view is
//! a pair of views, which the user calls `x` and `x.grad`. A shape counts numbers, as in numpy: a view of
//! `float2` on a tensor of shape `[n, 2]` has `n` elements, and its second index can only be 0.

use ir::{Global, MemData, MemType, MemTypes, Scalar};
use serde_json::Value as Json;

use crate::bind::{self, BindValue, MAX_RANK, flatten};
use crate::error::Error;
use crate::files;
use crate::launch::{Foreign, Runner};
use crate::texture::{self, Dimensions};

/// A tensor view among the globals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name for the user.
    pub name: String,
    /// The global that holds its elements.
    pub data: Global,
    /// The global that holds its layout: `__TensorLayout` or `__TensorShape<D>`.
    pub layout: Global,
    /// The tensor holds derivatives of the tensor with the same name without `.grad`.
    pub is_grad: bool,
    /// The dimensions, if it is a texture.
    pub texture: Option<Dimensions>,
    /// The shape of the bound array.
    pub shape: Vec<usize>,
}

/// Suffixes of the gradients of differentiable tensors, each with the suffix of a second gradient that may
/// exist beside it.
const GRADIENTS: [(&str, &str); 3] =
    [(".diff.diff", ""), ("._grad_out", "._grad_in"), ("._grad_in", "._grad_out")];

/// The tensors among a module's globals.
pub(crate) fn tensors(module: &ir::Module) -> Vec<Tensor> {
    let mut found = Vec::new();
    for (data, global) in module.globals.iter() {
        let Some(path) = global.name.strip_suffix(".__data") else { continue };
        let layout = module.globals.iter().find(|g| g.1.name.strip_suffix(".__layout") == Some(path));
        let Some((layout, _)) = layout else { continue };
        let has = |path: String| module.globals.iter().any(|g| g.1.name == path);
        let grad = GRADIENTS.into_iter().find_map(|(suffix, other)| {
            let base = path.strip_suffix(suffix)?;
            // If there are gradients in both directions, each has its own name.
            let both = !other.is_empty() && has(format!("{base}{other}.__data"));
            Some(if both { format!("{base}{}", suffix.replace("._", ".")) } else { format!("{base}.grad") })
        });
        let is_grad = grad.is_some();
        let primal = || path.strip_suffix(".primal").or_else(|| path.strip_suffix("._primal"));
        let name = grad.unwrap_or_else(|| primal().unwrap_or(path).to_owned());
        found.push(Tensor { name, data, layout, is_grad, texture: None, shape: Vec::new() });
    }
    for (data, global) in module.globals.iter() {
        let Some(path) = global.name.strip_suffix(".__texels") else { continue };
        let shape = module.globals.iter().find(|g| g.1.name.strip_suffix(".__shape") == Some(path));
        let Some((layout, shape)) = shape else { continue };
        let texture = match &module.mem[shape.ty] {
            ir::MemData::Struct { name, .. } => Dimensions::of(name),
            _ => None,
        };
        let name = path.to_owned();
        found.push(Tensor { name, data, layout, is_grad: false, texture, shape: Vec::new() });
    }
    found
}

impl Runner {
    /// Binds a tensor's elements and shape.
    pub(crate) fn bind_tensor(&mut self, at: usize, value: &BindValue) -> Result<(), String> {
        let element = self.element_of(self.tensors[at].data);
        if let Some(dims) = self.tensors[at].texture {
            return self.bind_texture(at, dims, value);
        }
        let (bytes, shape) = read(self.mem(), element, value)?;
        let words = self.mem().size(self.element_of(self.tensors[at].layout)) / 4;
        let within = shape_within(self.mem(), element);
        let rank = (words as usize).saturating_sub(1) / 2 + within.len();
        if words != VIEW_WORDS && (shape.len() != rank || !shape.ends_with(&within)) {
            let end = if within.is_empty() { String::new() } else { format!(" that end with {within:?}") };
            return Err(format!(
                "a tensor of {rank} dimensions{end} is needed, this one has the shape {shape:?}"
            ));
        }
        self.set_tensor(at, &bytes, shape);
        Ok(())
    }

    /// Binds the host's memory to a tensor with a shape and strides, both counted in numbers. If an element
    /// consists of several numbers, these form the last dimensions and are contiguous.
    pub fn bind_foreign_tensor(
        &mut self,
        name: &str,
        memory: Foreign,
        shape: &[usize],
        strides: &[usize],
    ) -> Result<(), Error> {
        let found = self.tensors.iter().position(|t| t.name == name && t.texture.is_none());
        let at = found.ok_or_else(|| Error::input(format!("`{name}` is no tensor")))?;
        let (data, layout) = (self.tensors[at].data, self.tensors[at].layout);
        let element = self.element_of(data);
        let n_words = self.mem().size(self.element_of(layout)) / 4;
        let within = shape_within(self.mem(), element);
        let wrong = |why: String| Error::input(format!("`{name}`: {why}"));
        if !shape.ends_with(&within) {
            return Err(wrong(format!("a tensor whose shape ends with {within:?} is needed, not {shape:?}")));
        }
        if n_words == VIEW_WORDS {
            if shape.len() > MAX_RANK {
                let n = shape.len();
                return Err(wrong(format!("a tensor has at most {MAX_RANK} dimensions, this one has {n}")));
            }
        } else {
            let rank = (n_words as usize).saturating_sub(1) / 2 + within.len();
            if shape.len() != rank {
                return Err(wrong(format!(
                    "a tensor of {rank} dimensions is needed, not of shape {shape:?}"
                )));
            }
        }
        self.bind_foreign(data, memory);
        self.set_layout(at, shape.to_vec(), strides);
        Ok(())
    }

    /// Binds the host's memory to a texture. It holds the texels in the order of the kernel, with x varying
    /// fastest and the levels one after the other. The size is width, height, depth or layers, and levels.
    pub fn bind_foreign_texture(&mut self, name: &str, memory: Foreign, size: [u32; 4]) -> Result<(), Error> {
        let found = self.tensors.iter().position(|t| t.name == name);
        let found = found.and_then(|at| self.tensors[at].texture.map(|dims| (at, dims)));
        let (at, dims) = found.ok_or_else(|| Error::input(format!("`{name}` is no texture")))?;
        let data = self.tensors[at].data;
        let element = self.element_of(data);
        let bytes = self.mem().size(element);
        let texels = texture::count(size, dims);
        if size.contains(&0) || texels.and_then(|n| n.checked_mul(bytes)) != Some(memory.len() as u64) {
            let why = format!("{} bytes are no texels of {bytes} for the size {size:?}", memory.len());
            return Err(Error::input(format!("`{name}`: {why}")));
        }
        self.bind_foreign(data, memory);
        self.set_size(at, dims, size);
        Ok(())
    }

    /// Binds zeros to unbound gradients, in the shape of the tensors that they belong to; others must have that shape.
    pub fn bind_gradients(&mut self) -> Result<(), Error> {
        for at in 0..self.tensors.len() {
            let tensor = &self.tensors[at];
            if !tensor.is_grad {
                continue;
            }
            let base = tensor.name.rsplit_once('.').map_or("", |n| n.0).to_owned();
            let Some(primal) = self.tensors.iter().find(|t| t.name == base && self.is_bound(t.data)) else {
                continue;
            };
            let shape = primal.shape.clone();
            if self.is_bound(tensor.data) {
                if tensor.shape != shape {
                    let (name, own) = (&tensor.name, &tensor.shape);
                    return Err(Error::input(format!(
                        "`{name}` must have the shape of `{base}`, {shape:?}, not {own:?}"
                    )));
                }
                continue;
            }
            let each = self.mem().size(self.element_of(self.tensors[at].data)) as usize;
            let n = shape.iter().try_fold(each, |n, &length| n.checked_mul(length)).unwrap_or(usize::MAX);
            let named = |why: String| Error::input(format!("`{}`: {why}", self.tensors[at].name));
            let bytes = files::zeros(n).map_err(named)?;
            self.set_tensor(at, &bytes, shape);
        }
        Ok(())
    }

    fn bind_texture(&mut self, at: usize, dims: Dimensions, value: &BindValue) -> Result<(), String> {
        let data = self.tensors[at].data;
        let leaves = bind::scalars(self.mem(), self.element_of(data));
        let scalar = leaves.first().map_or(Scalar::F32, |l| l.1);
        let texture = texture::read(value, dims, scalar, leaves.len())?;
        self.bind_global(data, &texture.bytes);
        self.set_size(at, dims, texture.size);
        Ok(())
    }

    /// Sets the size of a texture: width, height, depth or layers, and levels.
    fn set_size(&mut self, at: usize, dims: Dimensions, size: [u32; 4]) {
        let Tensor { data, layout, .. } = self.tensors[at];
        let lanes = bind::scalars(self.mem(), self.element_of(data)).len();
        let words: Vec<u8> = size.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.bind_global(layout, &words);
        let mut shape: Vec<usize> = size[..dims.all].iter().rev().map(|&n| n as usize).collect();
        if lanes > 1 {
            shape.push(lanes);
        }
        self.tensors[at].shape = shape;
    }

    fn set_tensor(&mut self, at: usize, bytes: &[u8], shape: Vec<usize>) {
        self.bind_global(self.tensors[at].data, bytes);
        let strides = dense(&shape);
        self.set_layout(at, shape, &strides);
    }

    /// Sets the shape of a tensor and its strides, both counted in numbers.
    fn set_layout(&mut self, at: usize, shape: Vec<usize>, strides: &[usize]) {
        let Tensor { data, layout, .. } = self.tensors[at];
        let leaves = bind::scalars(self.mem(), self.element_of(data));
        let scalar = leaves.first().map_or(4, |l| l.1.bytes());
        let words = match self.mem().size(self.element_of(layout)) / 4 {
            VIEW_WORDS => view_words(&shape, strides, leaves.len(), scalar),
            n => shape_words(&shape, strides, (n as usize).saturating_sub(1) / 2, leaves.len()),
        };
        let words: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.bind_global(layout, &words);
        self.tensors[at].shape = shape;
    }
}

/// The strides of contiguous numbers.
fn dense(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|k| shape[k + 1..].iter().product()).collect()
}

/// The words of a `__TensorShape<D>`: sizes, and strides in elements; no offset.
fn shape_words(shape: &[usize], strides: &[usize], rank: usize, numbers: usize) -> Vec<u32> {
    let step = |k: usize| (strides[k] / numbers.max(1)) as u32;
    let mut words: Vec<u32> = shape[..rank].iter().map(|&n| n as u32).collect();
    words.extend((0..rank).map(step));
    words.push(0);
    words
}

/// The dimensions of one element.
fn shape_within(mem: &MemTypes, element: MemType) -> Vec<usize> {
    match mem[element] {
        MemData::Scalar(_) | MemData::Handle(_) => Vec::new(),
        MemData::Vector(_, n) => vec![n as usize],
        MemData::Matrix(_, r, c, _) => vec![r as usize, c as usize],
        MemData::Array(..) | MemData::Struct { .. } => vec![bind::scalars(mem, element).len()],
    }
}

/// The number of words of a `__TensorLayout`. A `__TensorShape` has an odd number of words.
const VIEW_WORDS: u64 = 16;

/// The words of a `__TensorLayout`: rank, sizes, strides in elements, strides in bytes. A dimension whose
/// stride is not a multiple of an element gets a stride so large that any index but 0 is out of range.
fn view_words(shape: &[usize], strides: &[usize], numbers: usize, scalar: u32) -> Vec<u32> {
    let mut words = vec![shape.len() as u32];
    let padded = |list: Vec<u32>| (0..MAX_RANK).map(move |k| list.get(k).copied().unwrap_or(0));
    words.extend(padded(shape.iter().map(|&n| n as u32).collect()));
    let step = |k: usize| {
        let stride = strides[k];
        if stride.is_multiple_of(numbers.max(1)) { (stride / numbers.max(1)) as u32 } else { 1 << 31 }
    };
    words.extend(padded((0..shape.len()).map(step).collect()));
    words.extend(padded(strides.iter().map(|&stride| stride as u32 * scalar).collect()));
    words
}

/// The bytes and the shape of a value bound to a view of `element`s.
fn read(mem: &MemTypes, element: MemType, value: &BindValue) -> Result<(Vec<u8>, Vec<usize>), String> {
    let leaves = bind::scalars(mem, element);
    let rank = |shape: Vec<usize>| {
        if shape.len() > MAX_RANK {
            return Err(format!("a tensor has at most {MAX_RANK} dimensions, this one has {}", shape.len()));
        }
        Ok(shape)
    };
    let whole = |shape: &[usize]| {
        // Strides are products of lengths, also where another length is zero.
        let most = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
        let n = most.filter(|&most| most < 1 << 31).map(|most| if shape.contains(&0) { 0 } else { most });
        match n {
            None => Err("the tensor is too large".to_owned()),
            Some(n) if n % leaves.len().max(1) != 0 => {
                Err(format!("{n} numbers do not fill elements of {} each", leaves.len()))
            }
            Some(n) => Ok(n),
        }
    };
    match value {
        BindValue::Zeros(n) => {
            let mut shape = vec![usize::try_from(*n).map_err(|_| "the tensor is too large")?];
            if leaves.len() > 1 {
                shape.push(leaves.len());
            }
            Ok((files::zeros(whole(&shape)? / leaves.len().max(1) * mem.size(element) as usize)?, shape))
        }
        BindValue::ZerosOf(shape) => {
            let shape = rank(shape.clone())?;
            Ok((files::zeros(whole(&shape)? / leaves.len().max(1) * mem.size(element) as usize)?, shape))
        }
        BindValue::Words(_) => {
            let bytes = bind::buffer_bytes(mem, element, value)?;
            let shape = vec![bytes.len() / mem.size(element).max(1) as usize];
            Ok((bytes, shape))
        }
        BindValue::Npy(_) | BindValue::Array(_) => {
            let array = bind::array(value)?;
            let bytes = bind::buffer_bytes(mem, element, value)?;
            let shape = rank(array.shape.clone())?;
            whole(&shape)?;
            Ok((bytes, shape))
        }
        BindValue::Json(json) => {
            let (shape, numbers) = match json {
                Json::Object(map) => given_shape(map)?,
                _ => {
                    let mut shape = Vec::new();
                    let mut numbers = Vec::new();
                    flatten(json, 0, &mut shape, &mut numbers)?;
                    (shape, numbers)
                }
            };
            let shape = rank(shape)?;
            if whole(&shape)? != numbers.len() {
                return Err(format!("{} numbers for a tensor of shape {shape:?}", numbers.len()));
            }
            let same = |s: Scalar| leaves.iter().all(|l| l.1 == s);
            let Some(scalar) = leaves.first().map(|l| l.1).filter(|&s| same(s)) else {
                return Err("a tensor's elements are numbers, or vectors of them".into());
            };
            let mut bytes = Vec::new();
            for json in &numbers {
                let bits = bind::number(json, scalar)?;
                bytes.extend_from_slice(&bits.to_le_bytes()[..scalar.bytes() as usize]);
            }
            Ok((bytes, shape))
        }
    }
}

/// Reads an object `{"shape": […], "data": […]}`.
fn given_shape(map: &serde_json::Map<String, Json>) -> Result<(Vec<usize>, Vec<Json>), String> {
    let wrong = || "expected nested lists, or an object with `shape` and `data`".to_owned();
    let (Some(Json::Array(shape)), Some(data)) = (map.get("shape"), map.get("data")) else {
        return Err(wrong());
    };
    if map.len() != 2 {
        return Err(wrong());
    }
    let shape: Option<Vec<usize>> = shape.iter().map(|n| n.as_u64().map(|n| n as usize)).collect();
    let mut numbers = Vec::new();
    flatten(data, 0, &mut Vec::new(), &mut numbers)?;
    Ok((shape.ok_or_else(wrong)?, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(element: MemData, text: &str) -> Result<(usize, Vec<usize>), String> {
        let mut mem = MemTypes::default();
        let element = mem.intern(element);
        let value = bind::parse_value(text).expect("a value");
        read(&mem, element, &value).map(|(bytes, shape)| (bytes.len(), shape))
    }

    #[test]
    fn shapes() {
        let float = || MemData::Scalar(Scalar::F32);
        assert_eq!(read_json(float(), "[[1,2,3],[4,5,6]]"), Ok((24, vec![2, 3])));
        assert_eq!(read_json(float(), r#"{"shape":[2,1,2],"data":[1,2,3,4]}"#), Ok((16, vec![2, 1, 2])));
        assert_eq!(read_json(float(), "zeros:2,5"), Ok((40, vec![2, 5])));
        assert_eq!(read_json(MemData::Vector(Scalar::F32, 2), "zeros:3"), Ok((24, vec![3, 2])));
        assert_eq!(read_json(float(), "7"), Ok((4, vec![])));
        for wrong in ["[[1,2],[3]]", "[1,[2]]", "[[1],2]", r#"{"shape":[2],"data":[1]}"#, r#"{"data":[1]}"#] {
            assert!(read_json(float(), wrong).is_err(), "{wrong}");
        }
        assert!(read_json(MemData::Vector(Scalar::F32, 2), "[1,2,3]").is_err());
        assert!(read_json(float(), "zeros:0,4294967296,4294967296").is_err(), "strides are products, too");
    }

    #[test]
    fn tensors_with_their_rank() {
        assert_eq!(shape_words(&[4, 3], &[3, 1], 2, 1), [4, 3, 3, 1, 0]);
        assert_eq!(shape_words(&[4, 3, 2], &[6, 2, 1], 2, 2), [4, 3, 3, 1, 0]);
    }

    #[test]
    fn steps() {
        assert_eq!(view_words(&[2, 3], &[3, 1], 1, 4)[6..8], [3, 1]);
        assert_eq!(view_words(&[4, 3, 2], &[6, 2, 1], 2, 4)[6..9], [3, 1, 1 << 31]);
        assert_eq!(view_words(&[4, 3, 2], &[6, 2, 1], 2, 4)[11..14], [24, 8, 4]);
    }
}
