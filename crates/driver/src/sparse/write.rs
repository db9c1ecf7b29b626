//! Files of sparse matrices: `.npz` as SciPy's `load_npz` reads it, and Matrix Market's `.mtx`.

use std::io::{Cursor, Write};
use std::path::Path;

use ir::Scalar;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::Csr;
use crate::error::Error;
use crate::files;
use crate::npy::{self, Array};

/// Returns true if a matrix can be written to a file with this ending.
pub fn is_known(path: &Path) -> bool {
    ["npz", "mtx"].iter().any(|known| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(known)))
}

/// Writes a matrix, in the format that the path's ending names.
pub fn write(path: &Path, matrix: &Csr) -> Result<(), Error> {
    if !is_known(path) {
        let message = format!("`{}`: a sparse matrix is written as .npz or .mtx", path.display());
        return Err(Error::input(message));
    }
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("mtx")) {
        return files::write(path, text(matrix).as_bytes());
    }
    let bytes = archive(matrix).map_err(|e| Error::write(path, e.to_string()))?;
    files::write(path, &bytes)
}

/// The lines of a Matrix Market file; its rows and columns count from 1.
fn text(matrix: &Csr) -> String {
    let pattern = &matrix.pattern;
    let sizes = format!("{} {} {}\n", pattern.n_rows(), pattern.n_columns, pattern.len());
    let lines = pattern.places().zip(&matrix.values);
    let lines = lines.map(|((row, column), value)| format!("{} {} {value:e}\n", row + 1, column + 1));
    "%%MatrixMarket matrix coordinate real general\n".to_string() + &sizes + &lines.collect::<String>()
}

fn archive(matrix: &Csr) -> zip::result::ZipResult<Vec<u8>> {
    let pattern = &matrix.pattern;
    let list = |scalar, bits: Vec<u64>| Array { scalar, shape: vec![bits.len()], bits };
    let starts = pattern.starts.iter().map(|&at| at as u64).collect();
    let arrays = [
        ("indices", list(Scalar::I32, pattern.columns.iter().map(|&c| c.into()).collect())),
        ("indptr", list(Scalar::I64, starts)),
        ("shape", list(Scalar::I64, vec![pattern.n_rows() as u64, pattern.n_columns as u64])),
        ("data", list(Scalar::F64, matrix.values.iter().map(|x| x.to_bits()).collect())),
    ];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    // The time of the file is left out, so that the same matrix is the same file.
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), options)?;
        archive.write_all(&npy::to_bytes(&array))?;
    }
    archive.start_file("format.npy", options)?;
    archive.write_all(&format_name())?;
    Ok(archive.finish()?.into_inner())
}

/// An array of no dimensions with the text `csr`, as bytes.
fn format_name() -> Vec<u8> {
    let mut header = "{'descr': '|S3', 'fortran_order': False, 'shape': (), }".to_string();
    header.extend(std::iter::repeat_n(' ', 117 - header.len()));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(b"csr");
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::*;

    fn matrix() -> Csr {
        let pattern = Pattern::new(3, &[vec![0, 2], vec![], vec![1]]);
        Csr { pattern: pattern.into(), values: vec![1.5, -2.0, 1e-30] }
    }

    #[test]
    fn matrix_market_lines() {
        let expected =
            "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 1.5e0\n1 3 -2e0\n3 2 1e-30\n";
        assert_eq!(text(&matrix()), expected);
    }

    #[test]
    fn an_archive_has_the_arrays_of_scipy() {
        let bytes = archive(&matrix()).expect("writes");
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("reads");
        let mut member = |name: &str| {
            let mut bytes = Vec::new();
            let mut file = archive.by_name(name).expect("is there");
            std::io::Read::read_to_end(&mut file, &mut bytes).expect("reads");
            bytes
        };
        let mut array = |name: &str| npy::parse(&member(name)).expect("is an array").to_f64();
        assert_eq!(array("indices.npy"), [0.0, 2.0, 1.0]);
        assert_eq!(array("indptr.npy"), [0.0, 2.0, 2.0, 3.0]);
        assert_eq!(array("shape.npy"), [3.0, 3.0]);
        assert_eq!(array("data.npy"), [1.5, -2.0, 1e-30]);
        assert!(member("format.npy").ends_with(b"\ncsr"));
    }
}
