//! The items that a loss is summed over: named columns with one row per item.
//!
//! An image gives the columns `uv`, `pixel`, `color` and `size`; a `.csv` file those named in its header; an
//! `.npy` file `row` (or `value`); a number only `index`, which all items have.

use std::path::Path;

use crate::bind;
use crate::error::Error;
use crate::files;
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
    /// Width and height of the image, if the items are its pixels.
    pub image: Option<(usize, usize)>,
}

impl Items {
    /// Items with nothing but an index.
    pub fn indices(n: usize) -> Items {
        let index = Column { name: "index".into(), width: 1, values: (0..n).map(|k| k as f64).collect() };
        Items { n, columns: vec![index], image: None }
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
        items.image = Some((width, height));
        items
    }

    /// The rows of a `.csv` file whose first line names the columns (otherwise they are `c0`, `c1`, …). The
    /// column `row` holds all of them.
    pub fn csv(text: &str) -> Result<Items, Error> {
        // Spreadsheets write a byte order mark at the start of a text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty()).peekable();
        let cells = |line: &str| -> Vec<String> {
            line.split([',', ';', '\t']).map(|c| c.trim().trim_matches('"').to_string()).collect()
        };
        let first = cells(lines.peek().ok_or_else(|| Error::input("the file is empty"))?);
        let named = first.iter().any(|c| c.parse::<f64>().is_err());
        let names: Vec<String> = if named {
            lines.next();
            first.iter().map(|name| identifier(name)).collect()
        } else {
            (0..first.len()).map(|k| format!("c{k}")).collect()
        };
        for (k, name) in names.iter().enumerate() {
            if names[..k].contains(name) {
                return Err(Error::input(format!("two columns are named `{name}`")));
            }
            if name == "index" || name == "row" {
                let what = if name == "row" { "all numbers of a row" } else { "the number of a row" };
                return Err(Error::input(format!(
                    "a column is named `{name}`, which is {what}: give it another name"
                )));
            }
        }
        let mut rows = Vec::new();
        let mut n = 0;
        for line in lines {
            n += 1;
            let cells = cells(line);
            if cells.len() != names.len() {
                return Err(Error::input(format!(
                    "row {n} has {} cell{}, {} wanted",
                    cells.len(),
                    if cells.len() == 1 { "" } else { "s" },
                    names.len()
                )));
            }
            for (cell, name) in cells.iter().zip(&names) {
                let number = cell.parse().ok().filter(|x: &f64| x.is_finite());
                rows.push(number.ok_or_else(|| {
                    let cell = bind::shorten(cell);
                    Error::input(format!("row {n}, column `{name}`: `{cell}` is not a number"))
                })?);
            }
        }
        let mut items = Items::indices(n);
        let width = names.len();
        for (k, name) in names.iter().enumerate() {
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
            let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
            let items = match &ending[..] {
                "npy" => Items::npy(&npy::read(&path)?),
                "csv" => Items::csv(&files::read_text(&path, files::DATA)?),
                _ => {
                    let why = "the file ends in neither .csv nor .npy; a picture is `image:FILE.png`";
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
            "expected `image:FILE.png`, `image:W,H`, `@file.npy`, `@file.csv` or a number",
        )))
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

/// Turns a header's text into a name: characters other than letters and digits become `_`.
fn identifier(text: &str) -> String {
    let name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_with_and_without_names() {
        let items = Items::csv("year, hare (k)\n1900,30\n1901,47.2\n").expect("reads");
        assert_eq!(items.n, 2);
        assert_eq!(items.column("hare__k_").map(|c| c.values.clone()), Some(vec![30.0, 47.2]));
        assert_eq!(items.column("row").map(|c| c.width), Some(2));
        let items = Items::csv("1,2\n3,4\n").expect("reads");
        assert_eq!(items.column("c1").map(|c| c.values.clone()), Some(vec![2.0, 4.0]));
        assert!(Items::csv("a,b\n1\n").is_err());
        assert!(Items::csv("").is_err());
        for wrong in [
            "a,b\n1,nan\n",
            "a,b\n1,NaN\n",
            "1,2\n3,inf\n",
            "a,b\n1,-Infinity\n",
            "a,b\n1,1e999\n",
            "a,b\n1,\n",
        ] {
            let why = Items::csv(wrong).expect_err("refused").to_string();
            assert!(why.contains("row ") && why.contains("column `"), "{why}");
        }
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
