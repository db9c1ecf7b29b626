//! Files that hold arrays: `.npy`, the members of `.npz`, tables, and pictures.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use ir::Scalar;

use crate::error::Error;
use crate::files;
use crate::fit::table::Table;
use crate::npy::{self, Array};
use crate::pictures;

/// Reads an array from an `.npy` file, a picture, a table of numbers (of shape rows, columns), or an `.npz` file:
/// `data.npz` if it has only one array, otherwise `data.npz:NAME`.
pub fn read(path: &Path) -> Result<Array, Error> {
    if pictures::is_picture(path) {
        return pictures::read(path);
    }
    if Table::is_table(path) {
        return read_table(path);
    }
    match member(path) {
        Some((archive, name)) => read_member(&archive, name.as_deref()),
        None => npy::read(path),
    }
}

/// Writes an array as a picture or as an `.npy` file.
pub fn write(path: &Path, array: &Array) -> Result<(), Error> {
    if pictures::is_picture(path) { pictures::write(path, array) } else { npy::write(path, array) }
}

fn read_table(path: &Path) -> Result<Array, Error> {
    let table = Table::read(path)?;
    let shape = vec![table.rows.len(), table.names.len()];
    let places = (0..shape[0]).flat_map(|row| (0..shape[1]).map(move |column| (row, column)));
    let bits = places.map(|(row, column)| Ok(table.number(row, column)?.to_bits()));
    let bits = bits.collect::<Result<Vec<u64>, Error>>().map_err(|error| match error {
        Error::Input(why) => Error::read(path, why),
        error => error,
    })?;
    Ok(Array { scalar: Scalar::F64, shape, bits })
}

/// The path of an `.npz` file, and the name of an array in it.
fn member(path: &Path) -> Option<(PathBuf, Option<String>)> {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz")) {
        return Some((path.to_path_buf(), None));
    }
    let (archive, name) = path.to_str()?.rsplit_once(".npz:")?;
    Some((format!("{archive}.npz").into(), Some(name.to_string())))
}

fn read_member(path: &Path, name: Option<&str>) -> Result<Array, Error> {
    let error = |why: String| Error::read(path, why);
    let bytes = files::read(path, files::DATA)?;
    let damaged = |e: zip::result::ZipError| error(format!("it is no whole .npz file ({e})"));
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    let names: Vec<String> =
        archive.file_names().map(|name| name.strip_suffix(".npy").unwrap_or(name).to_string()).collect();
    let at = match (name, &names[..]) {
        (None, [_]) => 0,
        (None, []) => return Err(error("it holds no array".into())),
        (None, [first, ..]) => {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(error(format!(
                "it holds {}; one of them is meant by `{file}:{first}`",
                names.join(", ")
            )));
        }
        (Some(name), _) => names
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| error(format!("it holds no `{name}`, but {}", names.join(", "))))?,
    };
    let member = archive.by_index(at).map_err(damaged)?;
    // The size in the archive may be wrong.
    let bytes = files::read_from(member, path, files::DATA)?;
    npy::parse(&bytes).map_err(|why| error(format!("`{}`: {why}", names[at])))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    #[test]
    fn tables_are_arrays_of_their_rows() {
        let path = std::env::temp_dir().join(format!("pullback-arrays-{}.csv", std::process::id()));
        std::fs::write(&path, "a,b,c\n1,2,3\n4,5,6.5\n").expect("it is written");
        let array = read(&path).expect("it reads");
        assert_eq!((array.shape.clone(), array.to_f64()), (vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.5]));
        std::fs::write(&path, "a,b\n1,2\n4,x\n").expect("it is written");
        let why = read(&path).expect_err("is refused").to_string();
        assert!(why.contains(".csv") && why.contains("row 2, column `b`: `x` is not a number"), "{why}");
        std::fs::remove_file(&path).expect("it is removed");
    }

    #[test]
    fn members_of_archives_are_read() {
        let array = |x: u64| Array { scalar: Scalar::U32, shape: vec![2], bits: vec![x, 7] };
        let path = std::env::temp_dir().join(format!("pullback-arrays-{}.npz", std::process::id()));
        let write = |names: &[&str]| {
            let mut zip = ZipWriter::new(std::fs::File::create(&path).expect("it is made"));
            for (k, name) in names.iter().enumerate() {
                let packed = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated][k % 2];
                let options = SimpleFileOptions::default().compression_method(packed);
                zip.start_file(format!("{name}.npy"), options).expect("it begins");
                zip.write_all(&npy::to_bytes(&array(k as u64))).expect("it is written");
            }
            zip.finish().expect("it ends");
        };
        let of = |name: &str| read(Path::new(&format!("{}:{name}", path.display())));
        write(&["a", "b"]);
        assert_eq!(of("b").expect("it reads"), array(1));
        assert_eq!(of("a").expect("it reads"), array(0));
        assert!(of("c").expect_err("is refused").to_string().contains("holds no `c`, but a, b"));
        assert!(read(&path).expect_err("is refused").to_string().contains("holds a, b; one of them"));
        write(&["only"]);
        assert_eq!(read(&path).expect("it reads"), array(0));
        std::fs::remove_file(&path).expect("it is removed");
    }
}
