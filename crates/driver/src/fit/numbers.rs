//! Numbers in memory: columns of items in the layout of a type, and the places of a type's numbers.

use ir::{MatrixOrder, MemData, MemType, MemTypes, Scalar, scalar};

use crate::bind;
use crate::error::Error;
use crate::fit::items::Items;
use crate::npy;

/// A column in the memory layout of a type.
pub(super) fn column_bytes(mem: &MemTypes, ty: MemType, name: &str, items: &Items) -> Result<Vec<u8>, Error> {
    let stride = mem.size(ty) as usize;
    let mut bytes = vec![0; stride * items.n];
    fill_column(mem, ty, 0, stride, name, items, &mut bytes)?;
    Ok(bytes)
}

fn fill_column(
    mem: &MemTypes,
    ty: MemType,
    offset: usize,
    stride: usize,
    name: &str,
    items: &Items,
    bytes: &mut [u8],
) -> Result<(), Error> {
    if let Some(column) = items.column(name) {
        let leaves = bind::scalars(mem, ty);
        if leaves.len() != column.width {
            return Err(Error::input(format!(
                "column `{name}` has {} numbers for each item, the parameter {}",
                column.width,
                leaves.len()
            )));
        }
        for (item, row) in column.values.chunks_exact(column.width).enumerate() {
            for (&x, &(at, s)) in row.iter().zip(&leaves) {
                put_number(bytes, item * stride + offset + at, s, x);
            }
        }
        return Ok(());
    }
    let MemData::Struct { fields, .. } = &mem[ty] else {
        return Err(Error::input(format!("the items have no column `{name}`")));
    };
    for (k, (field, field_ty)) in fields.iter().enumerate() {
        let at = offset + mem.field_offset(ty, k) as usize;
        fill_column(mem, *field_ty, at, stride, field, items, bytes)?;
    }
    Ok(())
}

/// Collects every scalar of a type with its path, such as `g.center[0]`.
pub(super) fn named_scalars(
    mem: &MemTypes,
    ty: MemType,
    at: usize,
    name: String,
    out: &mut Vec<(String, usize, Scalar)>,
) {
    match &mem[ty] {
        MemData::Struct { fields, .. } => {
            for (k, (field, field_ty)) in fields.iter().enumerate() {
                let at = at + mem.field_offset(ty, k) as usize;
                named_scalars(mem, *field_ty, at, format!("{name}.{field}"), out);
            }
        }
        MemData::Array(t, n) => {
            for k in 0..*n as usize {
                named_scalars(mem, *t, at + k * mem.size(*t) as usize, format!("{name}[{k}]"), out);
            }
        }
        // By rows, in whatever order they are stored.
        MemData::Matrix(_, vectors, each, order) => {
            let (vectors, each) = (*vectors as usize, *each as usize);
            let (rows, columns) = if *order == MatrixOrder::Rows { (vectors, each) } else { (each, vectors) };
            let leaves = bind::scalars(mem, ty);
            out.extend((0..rows * columns).map(|k| {
                let (row, column) = (k / columns, k % columns);
                let (offset, s) = match order {
                    MatrixOrder::Rows => leaves[k],
                    MatrixOrder::Columns => leaves[column * each + row],
                };
                (format!("{name}[{row}][{column}]"), at + offset, s)
            }));
        }
        MemData::Vector(..) => {
            let leaves = bind::scalars(mem, ty).into_iter().enumerate();
            out.extend(leaves.map(|(k, (offset, s))| (format!("{name}[{k}]"), at + offset, s)));
        }
        MemData::Scalar(_) | MemData::Handle(_) => {
            out.extend(bind::scalars(mem, ty).into_iter().map(|(offset, s)| (name.clone(), at + offset, s)));
        }
    }
}

pub(super) fn number_bytes(s: Scalar, x: f64) -> Vec<u8> {
    let mut bytes = vec![0; s.bytes() as usize];
    put_number(&mut bytes, 0, s, x);
    bytes
}

pub(super) fn put_number(bytes: &mut [u8], at: usize, s: Scalar, x: f64) {
    let bits = match s {
        Scalar::F16 | Scalar::F32 | Scalar::F64 => scalar::from_f64(s, x),
        Scalar::Bool => u64::from(x != 0.0),
        _ => scalar::from_i64(s, x as i64),
    };
    let n = s.bytes() as usize;
    bytes[at..at + n].copy_from_slice(&bits.to_le_bytes()[..n]);
}

pub(super) fn read_number(s: Scalar, bytes: &[u8], at: usize) -> f64 {
    let bits = npy::from_le(&bytes[at..at + s.bytes() as usize]);
    match s {
        Scalar::F32 => f32::from_bits(bits as u32) as f64,
        Scalar::F64 => f64::from_bits(bits),
        _ => npy::number(s, bits),
    }
}
