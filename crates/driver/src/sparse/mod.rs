//! Sparse matrices of derivatives: their patterns, and how few products with directions have all their numbers.
//!
//! A product `J d` mixes the columns of `J` that `d` has. Where columns share no row, one product has all their numbers,
//! unmixed (Curtis, Powell and Reid, "On the estimation of sparse Jacobian matrices", 1974). Which columns go together
//! is a colouring of a graph, and the fewer colours, the fewer products: [`columns`] colours for Jacobians, [`symmetric`]
//! for Hessians, whose symmetry needs fewer still (Gebremedhin, Manne and Pothen, "What color is your Jacobian? Graph
//! coloring for computing derivatives", 2005). Nothing here knows of programs: [`crate::call`] finds the patterns and
//! computes the products.

use std::sync::Arc;

pub mod columns;
pub mod picture;
pub mod symmetric;
pub mod write;

/// Where a matrix may have numbers other than zero, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// The number of columns.
    pub n_columns: usize,
    /// Where each row begins in `columns`, and the end of the last one.
    pub starts: Vec<usize>,
    /// The columns of each row, in ascending order.
    pub columns: Vec<u32>,
}

impl Pattern {
    /// The pattern with these columns in each row.
    pub fn new(n_columns: usize, rows: &[Vec<u32>]) -> Pattern {
        let mut starts = Vec::with_capacity(rows.len() + 1);
        starts.push(0);
        let mut columns = Vec::with_capacity(rows.iter().map(Vec::len).sum());
        for row in rows {
            columns.extend_from_slice(row);
            starts.push(columns.len());
        }
        Pattern { n_columns, starts, columns }
    }

    /// The number of rows.
    pub fn n_rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns true if all numbers are zero.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The columns of a row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.columns[self.starts[row]..self.starts[row + 1]]
    }

    /// Every row and column, row by row.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.n_rows()).flat_map(|row| self.row(row).iter().map(move |&column| (row, column as usize)))
    }

    /// The pattern of the transposed matrix.
    pub fn transposed(&self) -> Pattern {
        let mut starts = vec![0; self.n_columns + 1];
        for &column in &self.columns {
            starts[column as usize + 1] += 1;
        }
        for column in 0..self.n_columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; self.columns.len()];
        for (row, column) in self.places() {
            rows[next[column]] = row as u32;
            next[column] += 1;
        }
        Pattern { n_columns: self.n_rows(), starts, columns: rows }
    }

    /// The places of a square pattern and of its transpose.
    pub fn symmetric(&self) -> Pattern {
        let other = self.transposed();
        let rows: Vec<Vec<u32>> = (0..self.n_rows())
            .map(|row| {
                let mut both = [self.row(row), other.row(row)].concat();
                both.sort_unstable();
                both.dedup();
                both
            })
            .collect();
        Pattern::new(self.n_columns, &rows)
    }

    /// The pattern with only the rows for which `is_kept` is true; the others are empty.
    pub fn only(&self, is_kept: impl Fn(usize) -> bool) -> Pattern {
        let row = |row| if is_kept(row) { self.row(row).to_vec() } else { Vec::new() };
        Pattern::new(self.n_columns, &(0..self.n_rows()).map(row).collect::<Vec<_>>())
    }
}

/// Products of a matrix with several directions. The numbers of a row are together, as they are computed and as they are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Products {
    /// The number of products.
    count: usize,
    n_rows: usize,
    /// The numbers of all products, row by row.
    numbers: Vec<f64>,
}

impl Products {
    /// `count` products of a matrix with `n_rows` rows, which are zero.
    pub fn new(count: usize, n_rows: usize) -> Products {
        Products { count, n_rows, numbers: vec![0.0; count * n_rows] }
    }

    /// A number of a product.
    pub fn at(&self, product: usize, row: usize) -> f64 {
        self.numbers[row * self.count + product]
    }

    /// The numbers of a row, one for each product.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.numbers[row * self.count..(row + 1) * self.count]
    }

    /// All rows, each with a number for each product.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        (0..self.n_rows).map(|row| &self.numbers[row * self.count..(row + 1) * self.count])
    }

    /// One product.
    pub fn product(&self, product: usize) -> Vec<f64> {
        self.rows().map(|row| row[product]).collect()
    }

    /// All products.
    pub fn each(&self) -> impl Iterator<Item = Vec<f64>> {
        (0..self.count).map(|product| self.product(product))
    }
}

/// A matrix in compressed rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Csr {
    /// Where its numbers are; all others are zero.
    pub pattern: Arc<Pattern>,
    /// The numbers, in the order of the pattern's places.
    pub values: Vec<f64>,
}

impl Csr {
    /// All numbers, `[row][column]`.
    pub fn dense(&self) -> Vec<Vec<f64>> {
        let mut rows = vec![vec![0.0; self.pattern.n_columns]; self.pattern.n_rows()];
        for ((row, column), &value) in self.pattern.places().zip(&self.values) {
            rows[row][column] = value;
        }
        rows
    }

    /// The first row in which the product with `v` differs from `expected` by more than `tolerance` times the sum of its
    /// terms' sizes; rows that are not finite are passed over.
    pub fn differs(&self, v: &[f64], expected: &[f64], tolerance: f64) -> Option<usize> {
        (0..self.pattern.n_rows()).find(|&row| {
            let range = self.pattern.starts[row]..self.pattern.starts[row + 1];
            let terms = range.map(|at| self.values[at] * v[self.pattern.columns[at] as usize]);
            let (sum, size) =
                terms.fold((0.0, expected[row].abs()), |(sum, size), x| (sum + x, size + x.abs()));
            (sum - expected[row]).abs() > tolerance * size
        })
    }

    /// Returns true if the product with `v` is `expected`, of which every row has to be finite: a number that is not hides
    /// the other terms of its row.
    pub fn gives(&self, v: &[f64], expected: &[f64], tolerance: f64) -> bool {
        let is_finite = self.values.iter().chain(expected).all(|x| x.is_finite());
        is_finite && self.differs(v, expected, tolerance).is_none()
    }
}

/// The colours of the columns, or of the rows, that products have unmixed: one product for each colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Colours {
    /// By column or row: its colour, if it is in any product.
    pub of: Vec<Option<u32>>,
    /// The number of colours.
    pub count: usize,
}

impl Colours {
    /// The columns or rows of each colour.
    pub fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.count];
        for (at, colour) in self.of.iter().enumerate() {
            if let Some(colour) = colour {
                members[*colour as usize].push(at);
            }
        }
        members
    }
}

/// The smallest colour that is not forbidden to vertex `at`: `forbidden[colour]` is the last vertex it was forbidden to.
fn least(forbidden: &mut Vec<u32>, at: u32) -> u32 {
    let found = forbidden.iter().position(|&last| last != at).unwrap_or(forbidden.len());
    if found == forbidden.len() {
        forbidden.push(u32::MAX);
    }
    found as u32
}

/// Random patterns and matrices for tests.
#[cfg(test)]
pub(crate) mod random {
    use super::Pattern;

    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        pub(super) fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % n as u64) as usize
        }

        /// A pattern with a few dense rows and columns now and then.
        pub(crate) fn pattern(&mut self, n_rows: usize, n_columns: usize) -> Pattern {
            let per_row = 1 + self.below(4);
            let (full_row, full_column) = (self.below(2 * n_rows), self.below(2 * n_columns));
            let rows: Vec<Vec<u32>> = (0..n_rows)
                .map(|row| {
                    let mut columns: Vec<u32> =
                        (0..self.below(per_row + 1)).map(|_| self.below(n_columns) as u32).collect();
                    if row == full_row {
                        columns = (0..n_columns as u32).collect();
                    }
                    columns.extend((full_column < n_columns).then_some(full_column as u32));
                    columns.sort_unstable();
                    columns.dedup();
                    columns
                })
                .collect();
            Pattern::new(n_columns, &rows)
        }

        pub(super) fn number(&mut self) -> f64 {
            self.below(2001) as f64 - 1000.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_twice_is_the_same() {
        let mut random = random::Random(7);
        for _ in 0..50 {
            let pattern = random.pattern(9, 5);
            assert_eq!(pattern.transposed().transposed(), pattern);
            let places: Vec<_> = pattern.places().map(|(row, column)| (column, row)).collect();
            assert!(pattern.transposed().places().all(|place| places.contains(&place)));
        }
    }

    #[test]
    fn a_missing_number_shows_in_a_product() {
        let whole =
            Csr { pattern: Pattern::new(2, &[vec![0, 1], vec![1]]).into(), values: vec![2.0, 3.0, 5.0] };
        let (v, product) = ([1.5, 1.25], [6.75, 6.25]);
        assert_eq!(whole.differs(&v, &product, 1e-12), None);
        let part = Csr { pattern: Pattern::new(2, &[vec![0], vec![1]]).into(), values: vec![2.0, 5.0] };
        assert_eq!(part.differs(&v, &product, 1e-2), Some(0));
    }
}
