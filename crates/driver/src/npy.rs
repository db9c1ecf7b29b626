//! Reads and writes arrays in the `.npy` format: headers of versions 1 to 3, little-endian numbers.

use std::path::Path;

use ir::{Scalar, scalar};

use crate::error::Error;
use crate::files;

/// An array: the bits of each number in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of the numbers.
    pub scalar: Scalar,
    /// The lengths, outermost first; empty for a single number.
    pub shape: Vec<usize>,
    /// The bits of each number.
    pub bits: Vec<u64>,
}

impl Array {
    /// The numbers as `f64`.
    pub fn to_f64(&self) -> Vec<f64> {
        self.bits.iter().map(|&b| number(self.scalar, b)).collect()
    }
}

/// The number with these bits in a scalar type, as `f64`.
pub fn number(from: Scalar, bits: u64) -> f64 {
    f64::from_bits(scalar::convert(from, Scalar::F64, bits))
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Array, Error> {
    let bytes = files::read(path, files::DATA)?;
    parse(&bytes).map_err(|why| Error::read(path, why))
}

/// Writes a file.
pub fn write(path: &Path, array: &Array) -> Result<(), Error> {
    files::write(path, &to_bytes(array))
}

/// Parses the bytes of a file.
pub fn parse(bytes: &[u8]) -> Result<Array, String> {
    let not_npy = || "it is no .npy file".to_string();
    if bytes.len() < 10 || &bytes[..6] != b"\x93NUMPY" {
        return Err(not_npy());
    }
    let (header_len, at) = if bytes[6] == 1 {
        (u16::from_le_bytes([bytes[8], bytes[9]]) as usize, 10)
    } else {
        let len = bytes.get(8..12).ok_or_else(not_npy)?;
        (u32::from_le_bytes(len.try_into().expect("four bytes")) as usize, 12)
    };
    let header = bytes.get(at..at + header_len).ok_or("the header is cut off")?;
    let header = std::str::from_utf8(header).map_err(|_| "the header is not text")?;
    let descr = field(header, "descr").ok_or("the header has no `descr`")?;
    let descr = descr.trim_matches(['\'', '"']);
    let scalar = match descr.trim_start_matches(['<', '|', '=']) {
        "f2" => Scalar::F16,
        "f4" => Scalar::F32,
        "f8" => Scalar::F64,
        "i1" => Scalar::I8,
        "i2" => Scalar::I16,
        "i4" => Scalar::I32,
        "i8" => Scalar::I64,
        "u1" => Scalar::U8,
        "u2" => Scalar::U16,
        "u4" => Scalar::U32,
        "u8" => Scalar::U64,
        "b1" => Scalar::Bool,
        _ => return Err(format!("elements of type `{descr}` are not supported")),
    };
    let fortran = field(header, "fortran_order") == Some("True");
    let shape = field(header, "shape").ok_or("the header has no `shape`")?;
    let shape: Vec<usize> = shape
        .trim_matches(['(', ')'])
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty())
        .map(|n| n.parse().map_err(|_| format!("`{n}` is not a length")))
        .collect::<Result<_, _>>()?;
    let n = shape.iter().try_fold(1usize, |a, &b| a.checked_mul(b)).ok_or("the shape is too large")?;
    let size = scalar.bytes() as usize;
    let data = &bytes[at + header_len..];
    if n.checked_mul(size).is_none_or(|len| data.len() < len) {
        return Err(format!("{n} elements announced, {} bytes found", data.len()));
    }
    files::check_room(n * size_of::<u64>())?;
    let mut bits: Vec<u64> = data.chunks_exact(size).take(n).map(from_le).collect();
    if fortran && shape.len() > 1 {
        bits = from_fortran(&bits, &shape);
    }
    Ok(Array { scalar, shape, bits })
}

/// The bytes of a file with this array.
pub fn to_bytes(array: &Array) -> Vec<u8> {
    let kind = match array.scalar {
        Scalar::Bool => "|b1".to_string(),
        Scalar::I8 => "|i1".to_string(),
        Scalar::U8 => "|u1".to_string(),
        Scalar::I16 | Scalar::I32 | Scalar::I64 => format!("<i{}", array.scalar.bytes()),
        Scalar::U16 | Scalar::U32 | Scalar::U64 => format!("<u{}", array.scalar.bytes()),
        Scalar::F16 | Scalar::F32 | Scalar::F64 => format!("<f{}", array.scalar.bytes()),
    };
    let lengths: Vec<String> = array.shape.iter().map(|n| format!("{n},")).collect();
    let mut header =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}", lengths.join(" "));
    let padded = (10 + header.len() + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', padded - 10 - header.len() - 1));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    for b in &array.bits {
        bytes.extend(&b.to_le_bytes()[..array.scalar.bytes() as usize]);
    }
    bytes
}

/// A little-endian number of up to eight bytes.
pub fn from_le(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// The text after `'name':` in the header's dictionary.
fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let at = header.find(&format!("'{name}'"))?;
    let rest = header[at..].split_once(':')?.1.trim_start();
    let end = if rest.starts_with('(') { rest.find(')')? + 1 } else { rest.find([',', '}'])? };
    Some(rest[..end].trim())
}

fn from_fortran(bits: &[u64], shape: &[usize]) -> Vec<u64> {
    let mut out = Vec::with_capacity(bits.len());
    for flat in 0..bits.len() {
        let (mut rest, mut at, mut stride) = (flat, 0, bits.len());
        for &n in shape.iter().rev() {
            stride /= n;
            at += rest % n * stride;
            rest /= n;
        }
        out.push(bits[at]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_it_reads() {
        for scalar in Scalar::ALL {
            let mask = if scalar.bits() == 64 { u64::MAX } else { (1 << scalar.bits()) - 1 };
            let bits = (0..6u64).map(|k| k.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask).collect();
            let array = Array { scalar, shape: vec![2, 3], bits };
            assert_eq!(parse(&to_bytes(&array)), Ok(array));
        }
    }

    #[test]
    fn fortran_order_is_turned() {
        // [[1, 2, 3], [4, 5, 6]] stored by columns.
        assert_eq!(from_fortran(&[1, 4, 2, 5, 3, 6], &[2, 3]), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse(b"").is_err());
        assert!(parse(b"\x93NUMPY\x01\x00\xff\xff").is_err());
        let cut = to_bytes(&Array { scalar: Scalar::F32, shape: vec![2], bits: vec![0, 0] });
        assert!(parse(&cut[..cut.len() - 1]).is_err());
    }
}
