//! Colourings for Jacobians: columns of one colour share no row, and rows of one colour no column.
//!
//! Greedy colouring of the graph in which columns are adjacent that share a row (partial distance-2 colouring of the
//! bipartite graph; Coleman and Moré, "Estimation of sparse Jacobian matrices and graph coloring problems", 1983), in the
//! given order and by falling number of neighbours, of which the better one is taken. A colouring of columns needs as
//! many colours as the longest row has numbers. So rows that are long may be left to reverse mode, which has a whole row
//! in one product: products of both modes together have all numbers (Coleman and Verma, "The efficient computation of
//! sparse Jacobian matrices using automatic differentiation", 1998).

use super::{Colours, Pattern, Products, least};

/// The most steps of a greedy colouring, and of one that is done a second time in another order.
const MOST_WORK: u64 = 1 << 32;
const WORK_OF_TWO: u64 = 1 << 28;

/// The most lengths of rows at which the rows are divided between the modes to see which is best.
const MOST_DIVISIONS: usize = 12;

/// Which products have all numbers of a Jacobian.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The columns of each product of forward mode.
    pub forward: Colours,
    /// The rows of each product of reverse mode.
    pub reverse: Colours,
}

impl Plan {
    /// The fewest products that were found for a pattern. A product of each mode counts the same; of plans with as many
    /// the one with fewer of reverse mode is taken, since that keeps what its first half computes.
    pub fn new(pattern: &Pattern) -> Plan {
        let mut lengths: Vec<usize> = (0..pattern.n_rows()).map(|row| pattern.row(row).len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        // From all rows by forward mode to all by reverse mode.
        let step = lengths.len().div_ceil(MOST_DIVISIONS).max(1);
        let longest = lengths.first().copied();
        let divisions = longest.into_iter().chain(lengths.iter().copied().skip(1).step_by(step)).chain([0]);
        let mut divisions: Vec<(usize, usize)> =
            divisions.map(|most| (fewest(pattern, most), most)).collect();
        divisions.sort_by_key(|&(fewest, most)| (fewest, std::cmp::Reverse(most)));
        let mut best = Plan::each(pattern);
        for (fewest, most) in divisions {
            if fewest >= best.count() {
                break;
            }
            let rank = |plan: &Plan| (plan.count(), plan.reverse.count);
            best = divided(pattern, most).filter(|plan| rank(plan) < rank(&best)).unwrap_or(best);
        }
        best
    }

    /// The number of products.
    pub fn count(&self) -> usize {
        self.forward.count + self.reverse.count
    }

    /// A product for each column, or for each row if these are fewer.
    fn each(pattern: &Pattern) -> Plan {
        let all = |n: usize| Colours { of: (0..n as u32).map(Some).collect(), count: n };
        let none = |n: usize| Colours { of: vec![None; n], count: 0 };
        let (n_rows, n_columns) = (pattern.n_rows(), pattern.n_columns);
        match n_columns <= n_rows {
            true => Plan { forward: all(n_columns), reverse: none(n_rows) },
            false => Plan { forward: none(n_columns), reverse: all(n_rows) },
        }
    }

    /// The matrix's numbers, given the products of each mode by colour: of reverse mode those of the transposed matrix.
    pub fn recovered(&self, pattern: &Pattern, forward: &Products, reverse: &Products) -> Vec<f64> {
        let mut values = Vec::with_capacity(pattern.len());
        for row in 0..pattern.n_rows() {
            let columns = pattern.row(row).iter().map(|&column| column as usize);
            match self.reverse.of[row] {
                Some(colour) => values.extend(columns.map(|column| reverse.at(colour as usize, column))),
                None => {
                    let number = |colour: Option<u32>| colour.map_or(0.0, |c| forward.at(c as usize, row));
                    values.extend(columns.map(|column| number(self.forward.of[column])));
                }
            }
        }
        values
    }
}

/// A number of products that no plan with this division goes below: that of the longest row of forward mode, and of the
/// longest column of reverse mode.
fn fewest(pattern: &Pattern, most: usize) -> usize {
    let mut in_column = vec![0; pattern.n_columns];
    let mut forward = 0;
    for row in (0..pattern.n_rows()).map(|row| pattern.row(row)) {
        match row.len() > most {
            true => row.iter().for_each(|&column| in_column[column as usize] += 1),
            false => forward = forward.max(row.len()),
        }
    }
    forward + in_column.into_iter().max().unwrap_or(0)
}

/// The plan that has rows of more than `most` numbers by reverse mode, and the others by forward mode; `None` if finding
/// it takes too long.
fn divided(pattern: &Pattern, most: usize) -> Option<Plan> {
    let is_long = |row: usize| pattern.row(row).len() > most;
    let short = pattern.only(|row| !is_long(row));
    let long = pattern.only(is_long);
    Some(Plan { forward: coloured(&short)?, reverse: coloured(&long.transposed())? })
}

/// Colours for the columns that have numbers: those of one colour share no row.
pub fn coloured(pattern: &Pattern) -> Option<Colours> {
    let work = (0..pattern.n_rows()).map(|row| (pattern.row(row).len() as u64).pow(2)).sum::<u64>();
    if work > MOST_WORK {
        return None;
    }
    let rows_of = pattern.transposed();
    let columns: Vec<u32> =
        (0..pattern.n_columns as u32).filter(|&c| !rows_of.row(c as usize).is_empty()).collect();
    let natural = greedy(pattern, &rows_of, &columns);
    if work > WORK_OF_TWO {
        return Some(natural);
    }
    let neighbours = |&column: &u32| -> usize {
        rows_of.row(column as usize).iter().map(|&row| pattern.row(row as usize).len()).sum()
    };
    let mut by_size = columns;
    by_size.sort_by_key(|column| std::cmp::Reverse(neighbours(column)));
    let other = greedy(pattern, &rows_of, &by_size);
    Some(if other.count < natural.count { other } else { natural })
}

/// Gives each column in turn the first colour that no column has with which it shares a row.
fn greedy(pattern: &Pattern, rows_of: &Pattern, order: &[u32]) -> Colours {
    let mut of: Vec<Option<u32>> = vec![None; pattern.n_columns];
    let mut forbidden: Vec<u32> = Vec::new();
    for &column in order {
        for &row in rows_of.row(column as usize) {
            for colour in pattern.row(row as usize).iter().filter_map(|&other| of[other as usize]) {
                forbidden[colour as usize] = column;
            }
        }
        of[column as usize] = Some(least(&mut forbidden, column));
    }
    Colours { of, count: forbidden.len() }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// The products that a plan asks for, of a matrix with these numbers.
    fn products(pattern: &Pattern, values: &[f64], plan: &Plan) -> [Products; 2] {
        let mut forward = Products::new(plan.forward.count, pattern.n_rows());
        let mut reverse = Products::new(plan.reverse.count, pattern.n_columns);
        for ((row, column), value) in pattern.places().zip(values) {
            if let Some(colour) = plan.forward.of[column] {
                forward.row_mut(row)[colour as usize] += value;
            }
            if let Some(colour) = plan.reverse.of[row] {
                reverse.row_mut(column)[colour as usize] += value;
            }
        }
        [forward, reverse]
    }

    #[test]
    fn products_have_all_numbers_of_random_matrices() {
        let mut random = Random(3);
        for _ in 0..300 {
            let (n_rows, n_columns) = (1 + random.below(12), 1 + random.below(12));
            let pattern = random.pattern(n_rows, n_columns);
            let values: Vec<f64> = (0..pattern.len()).map(|_| random.number()).collect();
            let plan = Plan::new(&pattern);
            let [forward, reverse] = products(&pattern, &values, &plan);
            assert_eq!(plan.recovered(&pattern, &forward, &reverse), values);
            assert!(plan.count() <= n_rows.min(n_columns), "{pattern:?}");
        }
    }

    #[test]
    fn columns_of_one_colour_share_no_row() {
        let mut random = Random(5);
        for _ in 0..100 {
            let pattern = random.pattern(10, 8);
            let colours = coloured(&pattern).expect("is small");
            for row in 0..10 {
                let mut used: Vec<_> = pattern.row(row).iter().map(|&c| colours.of[c as usize]).collect();
                assert!(used.iter().all(Option::is_some));
                used.sort_unstable();
                used.dedup();
                assert_eq!(used.len(), pattern.row(row).len());
            }
        }
    }

    #[test]
    fn an_arrow_takes_both_modes() {
        // A full first row and column, and the diagonal.
        let n = 50;
        let rows: Vec<Vec<u32>> =
            (0..n).map(|row| if row == 0 { (0..n).collect() } else { vec![0, row] }).collect();
        let plan = Plan::new(&Pattern::new(n as usize, &rows));
        assert_eq!((plan.forward.count, plan.reverse.count), (2, 1));
    }

    #[test]
    fn no_plan_is_below_its_bound() {
        let mut random = Random(17);
        for _ in 0..200 {
            let pattern = random.pattern(9, 7);
            for most in 0..8 {
                let plan = divided(&pattern, most).expect("is small");
                assert!(plan.count() >= fewest(&pattern, most), "{pattern:?} {most}");
            }
        }
        // All numbers below the diagonal: as many products as columns, which is known without colouring.
        let triangle: Vec<Vec<u32>> = (0..3000).map(|row| (0..=row).collect()).collect();
        assert_eq!(Plan::new(&Pattern::new(3000, &triangle)).count(), 3000);
    }
}
