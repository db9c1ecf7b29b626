//! Computes how memory that the host sees is laid out on a device: where every field of a struct is.
//!
//! The CPU's layout ([`ir::MemTypes::size`]) is that of C, with the alignment of scalars. A device has two
//! other layouts, both those of WGSL. They match those of GLSL except for one difference: a struct has the
//! alignment of its fields, not 16.
//!
//! - **std430**, for storage: a vector of two is aligned to two scalars, one of three or four to four.
//! - **std140**, for uniforms: as std430, and in addition the stride of an array and the size of a struct are
//!   multiples of 16, and a struct or array is aligned to 16.
//!
//! In both, `bool` and integers of fewer than 32 bits take 32 bits, a matrix is an array of its rows, and a
//! vector of more than four an array of scalars. Memory that a program accesses as bytes
//! (`ByteAddressBuffer`, or the target of a pointer cast) has the CPU's layout everywhere: [`Rule::Scalar`].

use ir::{MemData, MemType, MemTypes, Scalar};

/// A set of layout rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Storage buffers.
    Std430,
    /// Uniforms.
    Std140,
    /// The CPU's layout.
    Scalar,
}

impl Rule {
    /// The usual name of the rules.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Std430 => "std430",
            Rule::Std140 => "std140",
            Rule::Scalar => "scalar",
        }
    }
}

/// The size of a number in bytes.
pub fn scalar_bytes(s: Scalar, rule: Rule) -> u64 {
    match rule {
        Rule::Scalar => s.bytes() as u64,
        Rule::Std430 | Rule::Std140 if s == Scalar::F16 => 2,
        Rule::Std430 | Rule::Std140 => s.bytes().max(4) as u64,
    }
}

/// The size and alignment of a type in bytes.
pub fn size_align(mem: &MemTypes, ty: MemType, rule: Rule) -> (u64, u64) {
    if rule == Rule::Scalar {
        return (mem.size(ty), mem.align(ty));
    }
    match &mem[ty] {
        MemData::Scalar(s) => vector(*s, 1, rule),
        MemData::Vector(s, n) => vector(*s, *n, rule),
        MemData::Matrix(s, rows, columns, _) => array(vector(*s, *columns, rule), *rows, rule),
        MemData::Array(t, n) => array(size_align(mem, *t, rule), *n, rule),
        MemData::Handle(_) => (8, 8),
        MemData::Struct { fields, .. } => {
            // A struct without fields takes one word.
            let least = if fields.is_empty() { 4 } else { 1 };
            let (mut at, mut align) = (0u64, if rule == Rule::Std140 { 16 } else { least });
            for field in fields {
                let (size, own) = size_align(mem, field.1, rule);
                at = at.next_multiple_of(own) + size;
                align = align.max(own);
            }
            (at.max(least).next_multiple_of(align), align)
        }
    }
}

/// The size and alignment of a number or vector in memory of a device.
fn vector(s: Scalar, n: u32, rule: Rule) -> (u64, u64) {
    let bytes = scalar_bytes(s, rule);
    match n {
        0 | 1 => (bytes, bytes),
        2 => (2 * bytes, 2 * bytes),
        3 => (3 * bytes, 4 * bytes),
        4 => (4 * bytes, 4 * bytes),
        _ => array((bytes, bytes), n, rule),
    }
}

fn array((size, align): (u64, u64), n: u32, rule: Rule) -> (u64, u64) {
    let (stride, align) = stride_of((size, align), rule);
    (stride.saturating_mul(n.max(1) as u64), align)
}

/// The stride and alignment of an array whose elements have this size and alignment.
fn stride_of((size, align): (u64, u64), rule: Rule) -> (u64, u64) {
    let align = if rule == Rule::Std140 { align.max(16) } else { align };
    (size.next_multiple_of(align), align)
}

/// The number of bytes from one element of an array to the next.
pub fn stride(mem: &MemTypes, element: MemType, rule: Rule) -> u64 {
    match rule {
        Rule::Scalar => mem.size(element),
        Rule::Std430 | Rule::Std140 => stride_of(size_align(mem, element, rule), rule).0,
    }
}

/// The number of bytes from one row of a matrix, or from one element of a long vector, to the next.
pub fn row_stride(s: Scalar, columns: u32, rule: Rule) -> u64 {
    match rule {
        Rule::Scalar => scalar_bytes(s, rule) * columns as u64,
        Rule::Std430 | Rule::Std140 => stride_of(vector(s, columns, rule), rule).0,
    }
}

/// The offset of a struct's field.
pub fn field_offset(mem: &MemTypes, ty: MemType, idx: usize, rule: Rule) -> u64 {
    let MemData::Struct { fields, .. } = &mem[ty] else { return 0 };
    if rule == Rule::Scalar {
        return mem.field_offset(ty, idx);
    }
    let mut at = 0u64;
    for (k, field) in fields.iter().enumerate() {
        let (size, align) = size_align(mem, field.1, rule);
        at = at.next_multiple_of(align);
        if k == idx {
            return at;
        }
        at += size;
    }
    at
}

/// A number within a memory type: where it is on the CPU and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kind of number.
    pub scalar: Scalar,
    /// Byte offset on the CPU.
    pub host: u64,
    /// Byte offset on the device.
    pub device: u64,
}

/// Every number of a memory type, in order.
pub fn places(mem: &MemTypes, ty: MemType, rule: Rule) -> Vec<Place> {
    let mut out = Vec::new();
    collect(mem, ty, rule, (0, 0), &mut out);
    out
}

fn collect(mem: &MemTypes, ty: MemType, rule: Rule, (host, device): (u64, u64), out: &mut Vec<Place>) {
    let mut lanes = |s: Scalar, n: u32, (host, device): (u64, u64)| {
        let step = if n > 4 { row_stride(s, 1, rule) } else { scalar_bytes(s, rule) };
        for k in 0..n as u64 {
            out.push(Place { scalar: s, host: host + k * s.bytes() as u64, device: device + k * step });
        }
    };
    match &mem[ty] {
        MemData::Scalar(s) => lanes(*s, 1, (host, device)),
        MemData::Vector(s, n) => lanes(*s, *n, (host, device)),
        MemData::Matrix(s, rows, columns, _) => {
            let step = row_stride(*s, *columns, rule);
            for r in 0..*rows as u64 {
                lanes(*s, *columns, (host + r * (s.bytes() * columns) as u64, device + r * step));
            }
        }
        MemData::Array(t, n) => {
            let step = stride(mem, *t, rule);
            for k in 0..*n as u64 {
                collect(mem, *t, rule, (host + k * mem.size(*t), device + k * step), out);
            }
        }
        MemData::Struct { fields, .. } => {
            for (idx, field) in fields.iter().enumerate() {
                let at = (host + mem.field_offset(ty, idx), device + field_offset(mem, ty, idx, rule));
                collect(mem, field.1, rule, at, out);
            }
        }
        MemData::Handle(_) => out.push(Place { scalar: Scalar::U64, host, device }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct Inner { float3 n; bool b; }
    /// `struct Item { float x; Inner in[2]; float2 p; half h; float2x3 m; uint8_t c; }`
    fn awkward() -> (MemTypes, MemType) {
        let mut mem = MemTypes::default();
        let float = mem.intern(MemData::Scalar(Scalar::F32));
        let float2 = mem.intern(MemData::Vector(Scalar::F32, 2));
        let float3 = mem.intern(MemData::Vector(Scalar::F32, 3));
        let bool = mem.intern(MemData::Scalar(Scalar::Bool));
        let half = mem.intern(MemData::Scalar(Scalar::F16));
        let byte = mem.intern(MemData::Scalar(Scalar::U8));
        let matrix = mem.intern(MemData::Matrix(Scalar::F32, 2, 3, ir::MatrixOrder::Rows));
        let fields = vec![("n".to_string(), float3), ("b".to_string(), bool)];
        let inner = mem.intern(MemData::Struct { name: "Inner".into(), fields, placement: None });
        let inners = mem.intern(MemData::Array(inner, 2));
        let fields = [("x", float), ("in", inners), ("p", float2), ("h", half), ("m", matrix), ("c", byte)];
        let fields = fields.map(|(name, ty)| (name.to_string(), ty)).to_vec();
        let item = mem.intern(MemData::Struct { name: "Item".into(), fields, placement: None });
        (mem, item)
    }

    fn offsets(mem: &MemTypes, ty: MemType, rule: Rule) -> Vec<u64> {
        (0..6).map(|k| field_offset(mem, ty, k, rule)).collect()
    }

    #[test]
    fn fields_of_awkward_structs() {
        let (mem, item) = awkward();
        assert_eq!(offsets(&mem, item, Rule::Std430), [0, 16, 48, 56, 64, 96]);
        assert_eq!(size_align(&mem, item, Rule::Std430), (112, 16));
        assert_eq!(offsets(&mem, item, Rule::Std140), [0, 16, 48, 56, 64, 96]);
        assert_eq!(size_align(&mem, item, Rule::Std140), (112, 16));
        assert_eq!(offsets(&mem, item, Rule::Scalar), [0, 4, 36, 44, 48, 72]);
    }

    #[test]
    fn arrays_of_uniforms_have_wide_elements() {
        let mut mem = MemTypes::default();
        let float = mem.intern(MemData::Scalar(Scalar::F32));
        let floats = mem.intern(MemData::Array(float, 3));
        let small = mem.intern(MemData::Struct {
            name: "S".into(),
            fields: vec![("x".into(), float)],
            placement: None,
        });
        let smalls = mem.intern(MemData::Array(small, 2));
        let fields =
            vec![("a".into(), float), ("b".into(), floats), ("c".into(), smalls), ("d".into(), small)];
        let all = mem.intern(MemData::Struct { name: "All".into(), fields, placement: None });
        let at = |rule| (0..4).map(|k| field_offset(&mem, all, k, rule)).collect::<Vec<_>>();
        assert_eq!(at(Rule::Std430), [0, 4, 16, 24]);
        assert_eq!(at(Rule::Std140), [0, 16, 64, 96]);
        assert_eq!(size_align(&mem, all, Rule::Std140), (112, 16));
    }

    #[test]
    fn every_number_has_a_place() {
        let (mem, item) = awkward();
        let places = places(&mem, item, Rule::Std430);
        assert_eq!(places.len(), 1 + 2 * 4 + 2 + 1 + 6 + 1);
        let last = places.last().expect("there are some");
        assert_eq!((last.scalar, last.host, last.device), (Scalar::U8, 72, 96));
        let row = places[places.len() - 4];
        assert_eq!((row.host, row.device), (60, 80));
    }
}
