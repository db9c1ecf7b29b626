//! The items that a loss is summed over: named columns with one row per item.
//!
//! An image gives the columns `uv`, `pixel`, `color` and `size`, a table of images besides these `view` and its own; a
//! table the columns that its header names; an `.npy` file `row` (or `value`); a number only `index`, which all items
//! have.

use std::path::Path;

use crate::arrays;
use crate::bind;
use crate::error::Error;
use crate::files;
use crate::fit::table::Table;
use crate::npy;

/// The maximum number of items of a fit.
pub const MOST_ITEMS: usize = 1 << 25;

/// One column: `width` numbers per item.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name that a parameter must have to receive the column.
    pub name: String,
    /// Numbers per item.
    pub width: usize,
    /// The numbers, item after item.
    pub values: Vec<f64>,
}

/// All items that a loss is summed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Items {
    /// The number of items.
    pub n: usize,
    /// The columns of data about the items.
    pub columns: Vec<Column>,
    /// Width and height of each picture whose pixels the items are, one picture after the other.
    pub views: Vec<(usize, usize)>,
}

impl Items {
    /// Items with nothing but an index.
    pub fn indices(n: usize) -> Items {
        let index = Column { name: "index".into(), width: 1, values: (0..n).map(|k| k as f64).collect() };
        Items { n, columns: vec![index], views: Vec::new() }
    }

    /// The pixels of an image, row by row from the top; `rgb` holds three numbers from 0 to 1 per pixel, or
    /// is empty if only the positions are wanted.
    pub fn pixels(width: usize, height: usize, rgb: Vec<f64>) -> Items {
        let mut items = Items::indices(width * height);
        let places = || (0..height).flat_map(move |y| (0..width).map(move |x| (x as f64, y as f64)));
        let (w, h) = (width as f64, height as f64);
        items.push("uv", 2, places().flat_map(|(x, y)| [(x + 0.5) / w, (y + 0.5) / h]).collect());
        items.push("pixel", 2, places().flat_map(|(x, y)| [x, y]).collect());
        items.push("size", 2, places().flat_map(|_| [w, h]).collect());
        if !rgb.is_empty() {
            items.push("color", 3, rgb);
        }
        items.views = vec![(width, height)];
        items
    }

    /// The pixels of several pictures, one after the other, each with the numbers of its row of a table.
    pub fn views(table: &Table, pictures: &[(usize, usize, Vec<f64>)]) -> Result<Items, Error> {
        let n: usize = pictures.iter().map(|p| p.0 * p.1).sum();
        bounded(Some(n), 11 + table.names.len())?;
        let mut items = Items::indices(n);
        for (width, height, rgb) in pictures {
            let one = Items::pixels(*width, *height, rgb.clone());
            for column in one.columns.into_iter().filter(|c| c.name != "index") {
                match items.columns.iter_mut().find(|c| c.name == column.name) {
                    Some(all) => all.values.extend(column.values),
                    None => items.push(&column.name, column.width, column.values),
                }
            }
            items.views.push((*width, *height));
        }
        let of_views = |number: &dyn Fn(usize) -> f64| {
            let each = pictures.iter().enumerate();
            each.flat_map(|(k, p)| std::iter::repeat_n(number(k), p.0 * p.1)).collect::<Vec<f64>>()
        };
        items.push("view", 1, of_views(&|k| k as f64));
        for (k, name) in table.names.iter().enumerate().filter(|(_, name)| *name != "image") {
            let numbers: Vec<f64> =
                (0..table.rows.len()).map(|row| table.number(row, k)).collect::<Result<_, _>>()?;
            if items.column(name).is_some() {
                return Err(Error::input(format!(
                    "a column is named `{name}`, which pixels have by themselves"
                )));
            }
            items.push(name, 1, of_views(&|row| numbers[row]));
        }
        Ok(items)
    }

    /// The rows of a table of numbers. The column `row` holds all of them.
    pub fn table(table: &Table) -> Result<Items, Error> {
        for name in &table.names {
            if name == "index" || name == "row" {
                let what = if name == "row" { "all numbers of a row" } else { "the number of a row" };
                return Err(Error::input(format!(
                    "a column is named `{name}`, which is {what}: give it another name"
                )));
            }
        }
        let width = table.names.len();
        bounded(Some(table.rows.len()), 1 + 2 * width)?;
        let mut rows = Vec::with_capacity(table.rows.len() * width);
        for row in 0..table.rows.len() {
            for column in 0..width {
                rows.push(table.number(row, column)?);
            }
        }
        let mut items = Items::indices(table.rows.len());
        for (k, name) in table.names.iter().enumerate() {
            items.push(name, 1, rows.iter().skip(k).step_by(width).copied().collect());
        }
        items.push("row", width, rows);
        Ok(items)
    }

    /// The rows of an array: all dimensions but the first form the column `row`, also called `value`.
    pub fn npy(array: &npy::Array) -> Result<Items, Error> {
        let n = *array.shape.first().ok_or_else(|| Error::input("the file holds a single number"))?;
        let width: usize = array.shape[1..].iter().product();
        bounded(Some(n), 1 + 2 * width)?;
        let numbers = array.to_f64();
        if let Some(at) = numbers.iter().position(|x| !x.is_finite()) {
            let (row, column, x) = (at / width.max(1), at % width.max(1), numbers[at]);
            return Err(Error::input(format!("row {row}, column {column} (from 0) is {x}")));
        }
        let mut items = Items::indices(n);
        items.push("row", width, numbers.clone());
        items.push("value", width, numbers);
        Ok(items)
    }

    /// Reads `@file.npy`, `@file.csv`, `image:W,H` or a number. Pictures are read by the caller.
    pub fn parse(text: &str, base: &Path) -> Result<Items, Error> {
        let named = |error| match error {
            Error::Input(why) => Error::input(format!("`--items {}`: {why}", bind::shorten(text))),
            error => error,
        };
        if let Some(path) = text.strip_prefix('@') {
            let path = base.join(path);
            let items = match Table::is_table(&path) {
                true => Table::read(&path).and_then(|table| Items::table(&table)),
                false if path.to_string_lossy().contains(".np") => {
                    arrays::read(&path).and_then(|a| Items::npy(&a))
                }
                false => {
                    let why = "the file ends in none of .csv, .tsv, .csv.gz, .npy and .npz; a picture is \
                               `image:FILE.png`";
                    Err(Error::input(why))
                }
            };
            return items.map_err(named);
        }
        if let Some((w, h)) = text.strip_prefix("image:").and_then(|size| size.split_once(','))
            && let (Ok(w), Ok(h)) = (w.trim().parse::<usize>(), h.trim().parse::<usize>())
        {
            // The numbers are those of `uv`, `pixel`, `size` and the index.
            bounded(w.checked_mul(h), 7).map_err(named)?;
            return Ok(Items::pixels(w, h, Vec::new()));
        }
        if let Ok(n) = text.trim().parse() {
            bounded(Some(n), 1).map_err(named)?;
            return Ok(Items::indices(n));
        }
        Err(named(Error::input(
            "expected `image:FILE.png`, `images:TABLE.csv`, `image:W,H`, `@file.csv`, `@file.npy` or a number",
        )))
    }

    /// The picture that an item is a pixel of, and the pixel's column and row.
    pub fn pixel(&self, item: u32) -> Option<(usize, usize, usize)> {
        let mut at = item as usize;
        for (view, &(width, height)) in self.views.iter().enumerate() {
            if at < width * height {
                return Some((view, at % width, at / width));
            }
            at -= width * height;
        }
        None
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    fn push(&mut self, name: &str, width: usize, values: Vec<f64>) {
        self.columns.push(Column { name: name.into(), width, values });
    }
}

/// Returns an error if there are more items than can be fitted, or than there is memory for.
fn bounded(n: Option<usize>, numbers: usize) -> Result<(), Error> {
    let n = n.filter(|&n| n <= MOST_ITEMS);
    let n = n.ok_or_else(|| Error::input(format!("there are at most {MOST_ITEMS} items")))?;
    files::check_room(n * numbers * size_of::<f64>()).map_err(Error::Input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_columns() {
        let of = |text: &str| Table::parse(text.as_bytes(), b',').and_then(|table| Items::table(&table));
        let items = of("year, hare (k)\n1900,30\n1901,47.2\n").expect("reads");
        assert_eq!(items.n, 2);
        assert_eq!(items.column("hare__k_").map(|c| c.values.clone()), Some(vec![30.0, 47.2]));
        assert_eq!(items.column("row").map(|c| c.width), Some(2));
        for wrong in [
            "a,b\n1,nan\n",
            "a,b\n1,NaN\n",
            "1,2\n3,inf\n",
            "a,b\n1,-Infinity\n",
            "a,b\n1,1e999\n",
            "a,b\n1,\n",
        ] {
            let why = of(wrong).expect_err("refused").to_string();
            assert!(why.contains("row ") && why.contains("column `"), "{why}");
        }
        assert!(of("index,b\n1,2\n").is_err() && of("row,b\n1,2\n").is_err());
    }

    #[test]
    fn pixels_of_views_have_the_numbers_of_their_view() {
        let table = Table::parse(b"image,focus\na.png,1.5\nb.png,2\n", b',').expect("reads");
        let pictures = [(2, 1, vec![0.0; 6]), (1, 3, vec![1.0; 9])];
        let items = Items::views(&table, &pictures).expect("fits");
        let of = |name: &str| items.column(name).map(|c| c.values.clone()).expect("is there");
        assert_eq!(of("view"), [0.0, 0.0, 1.0, 1.0, 1.0]);
        assert_eq!(of("focus"), [1.5, 1.5, 2.0, 2.0, 2.0]);
        assert_eq!(of("pixel"), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0]);
        assert_eq!(of("color")[6..9], [1.0; 3]);
        assert_eq!(items.pixel(4), Some((1, 0, 2)));
        assert_eq!(items.pixel(5), None);
        let table = Table::parse(b"image,uv\na.png,1\n", b',').expect("reads");
        assert!(Items::views(&table, &pictures[..1]).is_err());
    }

    #[test]
    fn too_many_are_refused() {
        for text in ["99999999999999", "image:100000,100000", "image:18446744073709551615,2", "4294967296"] {
            let why = Items::parse(text, Path::new("")).expect_err("refused").to_string();
            assert!(why.contains("at most"), "{why}");
        }
        assert!(Items::parse("18446744073709551616", Path::new("")).is_err());
    }

    #[test]
    fn arrays_hold_numbers_only() {
        let bits = [1.0f64, 2.0, 3.0, f64::NAN, 5.0, 6.0].map(f64::to_bits).to_vec();
        let array = npy::Array { scalar: ir::Scalar::F64, shape: vec![3, 2], bits };
        let why = Items::npy(&array).expect_err("refused").to_string();
        assert!(why.contains("row 1, column 1"), "{why}");
    }

    #[test]
    fn pixels_have_centres() {
        let items = Items::pixels(2, 1, vec![0.0; 6]);
        assert_eq!(items.column("uv").map(|c| c.values.clone()), Some(vec![0.25, 0.5, 0.75, 0.5]));
    }
}
