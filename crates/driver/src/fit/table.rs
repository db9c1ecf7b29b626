//! Tables: CSV and TSV, with and without a header, quoted or not, packed with gzip or not.

use std::path::Path;

use crate::bind;
use crate::error::Error;
use crate::files;

/// A table of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The names of the columns: those of the header, with `_` for characters other than letters and digits, or else
    /// `c0`, `c1`, ….
    pub names: Vec<String>,
    /// The rows below the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns true if the path has the ending of a table.
    pub fn is_table(path: &Path) -> bool {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        name.ends_with(".csv") || name.ends_with(".tsv")
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Table, Error> {
        let bytes = files::read(path, files::DATA)?;
        let name = path.to_string_lossy().to_ascii_lowercase();
        let (name, bytes) = match name.strip_suffix(".gz") {
            None => (name.as_str(), bytes),
            Some(name) => {
                let packed = flate2::read::MultiGzDecoder::new(&bytes[..]);
                (name, files::read_from(packed, path, files::DATA)?)
            }
        };
        let separator = if name.ends_with(".tsv") { b'\t' } else { separator(&bytes) };
        Table::parse(&bytes, separator).map_err(|error| match error {
            Error::Input(why) => Error::read(path, why),
            error => error,
        })
    }

    /// Parses the text of a table. The first line is a header if a cell of it is no number.
    pub fn parse(text: &[u8], separator: u8) -> Result<Table, Error> {
        // Spreadsheets write a byte order mark at the start of a text.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new();
        reader.delimiter(separator).has_headers(false).trim(csv::Trim::All).flexible(true);
        let mut rows = Vec::new();
        for record in reader.from_reader(text).records() {
            let record = record.map_err(|e| Error::input(unread(&e)))?;
            // A line of spaces is an empty one.
            if !(record.len() == 1 && record[0].is_empty()) {
                // Quotes after a space are part of the cell for the parser.
                let cells = record.iter().map(|cell| cell.trim_matches('"').to_string());
                rows.push(cells.collect::<Vec<String>>());
            }
        }
        let first = rows.first().ok_or_else(|| Error::input("the file is empty"))?;
        let names: Vec<String> = match first.iter().any(|cell| cell.parse::<f64>().is_err()) {
            true => rows.remove(0).iter().map(|name| identifier(name)).collect(),
            false => (0..first.len()).map(|k| format!("c{k}")).collect(),
        };
        if let Some((_, name)) = names.iter().enumerate().find(|(k, name)| names[..*k].contains(name)) {
            return Err(Error::input(format!("two columns are named `{name}`")));
        }
        if let Some((k, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != names.len()) {
            let s = if row.len() == 1 { "" } else { "s" };
            return Err(Error::input(format!(
                "row {} has {} cell{s}, {} wanted",
                k + 1,
                row.len(),
                names.len()
            )));
        }
        Ok(Table { names, rows })
    }

    /// The number in a cell, which must be finite.
    pub fn number(&self, row: usize, column: usize) -> Result<f64, Error> {
        let cell = &self.rows[row][column];
        cell.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| {
            let (row, name, cell) = (row + 1, &self.names[column], bind::shorten(cell));
            Error::input(format!("row {row}, column `{name}`: `{cell}` is not a number"))
        })
    }

    /// The texts of a column.
    pub fn column(&self, name: &str) -> Option<Vec<&str>> {
        let k = self.names.iter().position(|known| known == name)?;
        Some(self.rows.iter().map(|row| row[k].as_str()).collect())
    }
}

/// The message that a line is no part of a table.
fn unread(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(1, csv::Position::line);
            format!("line {line} is not text in UTF-8")
        }
        _ => error.to_string(),
    }
}

/// The separator of the cells of the first line: a comma, a semicolon or a tab, whichever there is most of outside of
/// quotes.
fn separator(text: &[u8]) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0)];
    let mut is_quoted = false;
    for &byte in text.iter().take_while(|&&byte| byte != b'\n') {
        is_quoted ^= byte == b'"';
        if let Some(count) = counts.iter_mut().find(|count| count.0 == byte && !is_quoted) {
            count.1 += 1;
        }
    }
    // The first of those that are equally frequent.
    counts.iter().rev().max_by_key(|count| count.1).map_or(b',', |count| count.0)
}

/// Turns a header's text into a name: characters other than letters and digits become `_`.
fn identifier(text: &str) -> String {
    let name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn written(name: &str, bytes: &[u8]) -> Result<Table, Error> {
        let path = std::env::temp_dir().join(format!("pullback-table-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("it is written");
        let table = Table::read(&path);
        std::fs::remove_file(&path).expect("it is removed");
        table
    }

    #[test]
    fn tables_of_all_forms_are_read() {
        let wanted = Table {
            names: vec!["a".into(), "b__c_".into()],
            rows: vec![vec!["1".into(), "2.5".into()], vec!["-3".into(), "4e1".into()]],
        };
        for text in [
            "a,b (c)\n1,2.5\n-3,4e1\n",
            "\u{feff}a;b (c)\r\n1;2.5\r\n\r\n-3;4e1",
            "a\tb (c)\n1\t2.5\n-3\t4e1\n",
            "\"a\" , \"b (c)\"\n 1, 2.5\n\"-3\",\"4e1\"\n",
        ] {
            assert_eq!(written("a.csv", text.as_bytes()).expect("reads"), wanted, "{text}");
        }
        assert_eq!(written("b.TSV", b"a\tb (c)\n1\t2.5\n-3\t4e1\n").expect("reads"), wanted);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(b"a,b (c)\n1,2.5\n-3,4e1\n").expect("it is packed");
        let packed = packed.finish().expect("it is packed");
        assert_eq!(written("c.csv.gz", &packed).expect("reads"), wanted);
        assert!(written("d.csv.gz", &packed[..20]).is_err());
        let table = Table::parse(b"1,2\n3,4\n", b',').expect("reads");
        assert_eq!((table.names, table.rows.len()), (vec!["c0".to_string(), "c1".to_string()], 2));
        // A quoted cell may contain separators and line breaks.
        let table = Table::parse(b"image,n\n\"a,\nb.png\",1\n", b',').expect("reads");
        assert_eq!(table.column("image"), Some(vec!["a,\nb.png"]));
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for (text, wanted) in [
            ("", "empty"),
            ("a,b\n1\n", "row 1 has 1 cell, 2 wanted"),
            ("a,a\n1,2\n", "two columns"),
            ("a,b\n1,2\n1,2,3\n", "row 2 has 3 cells"),
        ] {
            let why = Table::parse(text.as_bytes(), b',').expect_err("refused").to_string();
            assert!(why.contains(wanted), "{why}");
        }
        assert!(Table::parse(b"a,b\n\xff,1\n", b',').is_err());
    }
}
