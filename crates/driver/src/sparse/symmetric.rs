//! Colourings for Hessians: symmetry gives each number twice, so columns of one colour may share rows.
//!
//! The graph has a vertex for each row (and column) and an edge for each number beside the diagonal; neighbours get
//! different colours. The edges between two colours then make a forest if the colouring is *acyclic*, and stars if it is
//! a *star colouring*. In a product with the vertices of a colour, a leaf of a tree has the number of its edge alone, and
//! the numbers of the other edges follow by subtracting those that are known, from the leaves inwards (substitution;
//! Coleman and Cai, "The cyclic coloring problem and estimation of sparse Hessian matrices", 1986). In a star each edge
//! has a leaf, so nothing is subtracted (Coleman and Moré, "Estimation of sparse Hessian matrices and graph coloring
//! problems", 1984). The greedy algorithms for both are those of Gebremedhin, Tarafdar, Manne and Pothen, "New acyclic and
//! star coloring algorithms with application to computing Hessians" (2007).

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::{Colours, Pattern, Products, least};

/// The steps of a colouring, at least, and for each number. What takes more has vertices with very many neighbours, which
/// get colours of their own: no star or cycle goes through them, and the row of each is one product.
const WORK: usize = 1 << 28;
const WORK_OF_A_NUMBER: usize = 256;

/// How the numbers of a Hessian follow from products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// Each is a number of a product, by a star colouring.
    #[default]
    Direct,
    /// Some follow from others by subtraction, by an acyclic colouring, which may have fewer colours. The rounding errors
    /// of a product are then those of the largest numbers on a path of the pattern, which may be as long as the matrix
    /// has rows, and a number that is not finite makes others NaN.
    Substitution,
}

/// The colours for a symmetric pattern.
pub fn coloured(pattern: &Pattern, recovery: Recovery) -> Colours {
    match recovery {
        Recovery::Direct => star(pattern),
        Recovery::Substitution => acyclic(pattern),
    }
}

/// The vertices by falling number of neighbours, and how many of them have colours of their own.
fn order(pattern: &Pattern) -> (Vec<u32>, usize) {
    let mut order: Vec<u32> = (0..pattern.n_rows() as u32).collect();
    let degree = |&at: &u32| pattern.row(at as usize).len();
    order.sort_by_key(|at| std::cmp::Reverse(degree(at)));
    let most = WORK.max(WORK_OF_A_NUMBER * pattern.len());
    let mut work = order.iter().map(|at| degree(at).pow(2)).sum::<usize>();
    let is_hub = |at: &&u32| {
        let too_much = work > most;
        work -= degree(at).pow(2);
        too_much
    };
    let hubs = order.iter().take_while(is_hub).count();
    (order, hubs)
}

/// Colours vertices in turn: `forbid(at, colours so far, forbidden)` marks the colours that `at` must not have, and
/// `given(at, colours)` is told of each.
fn greedy(
    pattern: &Pattern,
    mut forbid: impl FnMut(u32, &[Option<u32>], &mut Vec<u32>),
    mut given: impl FnMut(u32, &[Option<u32>]),
) -> Colours {
    let (order, hubs) = order(pattern);
    // Vertices without a number have no colour: their columns are zero.
    let mut of: Vec<Option<u32>> = vec![None; pattern.n_rows()];
    let mut forbidden: Vec<u32> = Vec::new();
    for &at in order[hubs..].iter().filter(|&&at| !pattern.row(at as usize).is_empty()) {
        forbid(at, &of, &mut forbidden);
        of[at as usize] = Some(least(&mut forbidden, at));
        given(at, &of);
    }
    let mut count = forbidden.len();
    for &hub in &order[..hubs] {
        of[hub as usize] = Some(count as u32);
        count += 1;
    }
    Colours { of, count }
}

/// The edges of a vertex to neighbours that have colours: the place in the pattern, the neighbour and its colour.
fn coloured_edges<'a>(
    pattern: &'a Pattern,
    of: &'a [Option<u32>],
    at: u32,
) -> impl Iterator<Item = (u32, u32, u32)> + 'a {
    let start = pattern.starts[at as usize];
    let others = pattern.row(at as usize).iter().enumerate().filter(move |&(_, &other)| other != at);
    others.filter_map(move |(k, &other)| Some(((start + k) as u32, other, of[other as usize]?)))
}

/// The neighbours of a vertex that have colours, with these.
fn coloured_neighbours<'a>(
    pattern: &'a Pattern,
    of: &'a [Option<u32>],
    at: u32,
) -> impl Iterator<Item = (u32, u32)> + 'a {
    coloured_edges(pattern, of, at).map(|(_, other, colour)| (other, colour))
}

/// Neighbours of different colours, and no path of four vertices in two colours.
pub fn star(pattern: &Pattern) -> Colours {
    let stars = RefCell::new(Stars::new(pattern));
    let forbid = |at: u32, of: &[Option<u32>], forbidden: &mut Vec<u32>| {
        let mut stars = stars.borrow_mut();
        for (edge, next, colour) in coloured_edges(pattern, of, at) {
            forbidden[colour as usize] = at;
            match stars.first.insert(colour, (at, next, edge)) {
                // Between two neighbours of one colour: no other neighbour of either may have the new vertex's colour.
                Some(first) if first.0 == at => {
                    for end in [first.1, next] {
                        coloured_edges(pattern, of, end)
                            .for_each(|(_, _, colour)| forbidden[colour as usize] = at);
                    }
                    stars.first.insert(colour, first);
                }
                // The centre of a star has further neighbours of the first one's colour.
                _ => {
                    for (edge, end, colour) in coloured_edges(pattern, of, next) {
                        if stars.centre_of(edge) == Some(end) {
                            forbidden[colour as usize] = at;
                        }
                    }
                }
            }
        }
    };
    let given = |at: u32, of: &[Option<u32>]| {
        let mut stars = stars.borrow_mut();
        let own = of[at as usize];
        for (edge, next, colour) in coloured_edges(pattern, of, at) {
            let beyond = coloured_edges(pattern, of, next).find(|&(_, end, c)| end != at && Some(c) == own);
            let star = match (beyond, stars.first[&colour]) {
                (Some((other, ..)), _) => stars.around(other, next),
                (None, (_, first, other)) if first != next => stars.around(other, at),
                _ => stars.new_star(),
            };
            stars.set(edge, star);
        }
    };
    greedy(pattern, forbid, given)
}

/// The stars that the edges between any two colours make.
struct Stars {
    /// By place in the pattern: the place on the other side of the diagonal, and the star of the edge.
    mirror: Vec<u32>,
    star: Vec<u32>,
    /// By star: its centre, once it has two edges.
    centres: Vec<Option<u32>>,
    /// By colour: the vertex that last had a neighbour of it, that neighbour, and the edge.
    first: FxHashMap<u32, (u32, u32, u32)>,
}

impl Stars {
    fn new(pattern: &Pattern) -> Stars {
        let mut next = pattern.starts.clone();
        let mut mirror = Vec::with_capacity(pattern.len());
        for (_, column) in pattern.places() {
            mirror.push(next[column] as u32);
            next[column] += 1;
        }
        Stars { star: vec![0; mirror.len()], mirror, centres: Vec::new(), first: FxHashMap::default() }
    }

    fn centre_of(&self, edge: u32) -> Option<u32> {
        self.centres.get(self.star[edge as usize] as usize).copied().flatten()
    }

    /// The star of an edge, whose centre is known from now on.
    fn around(&mut self, edge: u32, centre: u32) -> u32 {
        let star = self.star[edge as usize];
        self.centres[star as usize] = Some(centre);
        star
    }

    fn new_star(&mut self) -> u32 {
        self.centres.push(None);
        self.centres.len() as u32 - 1
    }

    fn set(&mut self, edge: u32, star: u32) {
        self.star[edge as usize] = star;
        self.star[self.mirror[edge as usize] as usize] = star;
    }
}

/// Neighbours of different colours, and no cycle in two colours.
pub fn acyclic(pattern: &Pattern) -> Colours {
    let forest = RefCell::new(Forest::default());
    // By tree: the vertex that came by last, and through which neighbour.
    let mut visited: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
    let forbid = |at: u32, of: &[Option<u32>], forbidden: &mut Vec<u32>| {
        let mut forest = forest.borrow_mut();
        for (_, colour) in coloured_neighbours(pattern, of, at) {
            forbidden[colour as usize] = at;
        }
        for (next, _) in coloured_neighbours(pattern, of, at) {
            for (end, colour) in coloured_neighbours(pattern, of, next) {
                if forbidden[colour as usize] == at {
                    continue;
                }
                // Two neighbours in one tree: with this colour the path between them would be a cycle.
                let tree = forest.tree(next, end);
                match visited.insert(tree, (at, next)) {
                    Some((last, through)) if last == at && through != next => forbidden[colour as usize] = at,
                    _ => {}
                }
            }
        }
    };
    // By colour: the vertex that last had a neighbour of it, and that neighbour.
    let mut first: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
    let given = |at: u32, of: &[Option<u32>]| {
        let mut forest = forest.borrow_mut();
        for (next, colour) in coloured_neighbours(pattern, of, at) {
            match first.get(&colour) {
                Some(&(last, other)) if last == at => forest.join((at, next), (at, other)),
                _ => {
                    first.insert(colour, (at, next));
                }
            }
            for (end, _) in coloured_neighbours(pattern, of, next)
                .filter(|&(end, c)| end != at && Some(c) == of[at as usize])
            {
                forest.join((at, next), (next, end));
            }
        }
    };
    greedy(pattern, forbid, given)
}

/// The trees that the edges between any two colours make: sets of edges that share vertices.
#[derive(Default)]
struct Forest {
    edges: FxHashMap<(u32, u32), u32>,
    parents: Vec<u32>,
}

impl Forest {
    fn tree(&mut self, a: u32, b: u32) -> u32 {
        let next = self.parents.len() as u32;
        let mut edge = *self.edges.entry((a.min(b), a.max(b))).or_insert(next);
        if edge == next {
            self.parents.push(next);
        }
        while self.parents[edge as usize] != edge {
            let parent = self.parents[edge as usize];
            self.parents[edge as usize] = self.parents[parent as usize];
            edge = parent;
        }
        edge
    }

    fn join(&mut self, one: (u32, u32), other: (u32, u32)) {
        let (one, other) = (self.tree(one.0, one.1), self.tree(other.0, other.1));
        self.parents[one as usize] = other;
    }
}

/// The matrix's numbers, given the products by colour. `None` if the colouring is not acyclic.
pub fn recovered(pattern: &Pattern, colours: &Colours, products: &Products) -> Option<Vec<f64>> {
    let n = pattern.n_rows();
    let colour_of = |column: u32| colours.of[column as usize].unwrap_or(0);
    // By row: the colours of its neighbours, with the neighbours whose numbers are not known and the sum of the others.
    let mut open: FxHashMap<(u32, u32), (u32, f64)> = FxHashMap::default();
    let mut values = vec![0.0; pattern.len()];
    let mut is_known = vec![false; pattern.len()];
    for row in 0..n as u32 {
        for at in pattern.starts[row as usize]..pattern.starts[row as usize + 1] {
            let column = pattern.columns[at];
            if column == row {
                // No neighbour has the row's own colour.
                values[at] = products.at(colour_of(row) as usize, row as usize);
                is_known[at] = true;
            } else {
                open.entry((row, colour_of(column))).or_default().0 += 1;
            }
        }
    }
    let place = |row: u32, column: u32| {
        let start = pattern.starts[row as usize];
        pattern.row(row as usize).binary_search(&column).ok().map(|at| start + at)
    };
    let mut ready: Vec<(u32, u32)> = Vec::new();
    for row in 0..n as u32 {
        let neighbours = pattern.row(row as usize).iter().filter(|&&column| column != row);
        let mut own: Vec<u32> = neighbours.map(|&column| colour_of(column)).collect();
        own.sort_unstable();
        own.dedup();
        ready.extend(
            own.into_iter().map(|colour| (row, colour)).filter(|key| open.get(key).is_some_and(|o| o.0 == 1)),
        );
    }
    // In this order a number that a product has alone is taken from it, and never follows from others.
    let mut next = 0;
    while let Some(&(row, colour)) = ready.get(next) {
        next += 1;
        let (_, sum) = open[&(row, colour)];
        let mut last =
            pattern.row(row as usize).iter().filter(|&&column| column != row && colour_of(column) == colour);
        let unknown = last.find(|&&column| place(row, column).is_some_and(|at| !is_known[at]));
        let Some(&column) = unknown else { continue };
        let value = products.at(colour as usize, row as usize) - sum;
        for (row, column) in [(row, column), (column, row)] {
            let at = place(row, column)?;
            values[at] = value;
            is_known[at] = true;
            let key = (row, colour_of(column));
            let rest = open.get_mut(&key)?;
            *rest = (rest.0 - 1, rest.1 + value);
            if rest.0 == 1 {
                ready.push(key);
            }
        }
    }
    is_known.iter().all(|&known| known).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    fn products(pattern: &Pattern, values: &[f64], colours: &Colours) -> Products {
        let mut products = Products::new(colours.count, pattern.n_rows());
        for ((row, column), value) in pattern.places().zip(values) {
            products.row_mut(row)[colours.of[column].expect("has numbers") as usize] += value;
        }
        products
    }

    fn is_star(pattern: &Pattern, of: &[Option<u32>]) -> bool {
        let next = |at: u32| pattern.row(at as usize).iter().copied().filter(move |&other| other != at);
        let c = |at: u32| of[at as usize];
        (0..pattern.n_rows() as u32).all(|a| {
            next(a).all(|b| {
                c(a) != c(b)
                    && next(b)
                        .filter(|&x| x != a && c(x) == c(a))
                        .all(|x| next(x).all(|y| y == b || c(y) != c(b)))
            })
        })
    }

    #[test]
    fn products_have_all_numbers_of_random_matrices() {
        let mut random = Random(11);
        for round in 0..400 {
            let n = 1 + random.below(14);
            let pattern = random.pattern(n, n).symmetric();
            let mut matrix = vec![vec![0.0; n]; n];
            for (row, column) in pattern.places().filter(|(row, column)| row <= column) {
                matrix[row][column] = random.number();
                matrix[column][row] = matrix[row][column];
            }
            let values: Vec<f64> = pattern.places().map(|(row, column)| matrix[row][column]).collect();
            let (star, acyclic) = (star(&pattern), acyclic(&pattern));
            assert!(is_star(&pattern, &star.of), "{pattern:?} {star:?}");
            for colours in [&star, &acyclic] {
                let found = recovered(&pattern, colours, &products(&pattern, &values, colours));
                assert_eq!(found.as_ref(), Some(&values), "round {round}: {pattern:?} {colours:?}");
            }
        }
    }

    #[test]
    fn a_pole_spoils_no_other_number() {
        // A star around 0, of which one number is infinite.
        let pattern = Pattern::new(4, &[vec![0, 1, 2, 3], vec![0, 1], vec![0, 2], vec![0, 3]]);
        let values = [1.0, 2.0, f64::INFINITY, 3.0, 2.0, 4.0, f64::INFINITY, 5.0, 3.0, 6.0];
        let colours = coloured(&pattern, Recovery::Direct);
        let found = recovered(&pattern, &colours, &products(&pattern, &values, &colours));
        assert_eq!(found.as_deref(), Some(&values[..]));
    }

    #[test]
    fn a_cycle_in_two_colours_is_refused() {
        let square = Pattern::new(4, &[vec![1, 3], vec![0, 2], vec![1, 3], vec![0, 2]]);
        let colours = Colours { of: vec![Some(0), Some(1), Some(0), Some(1)], count: 2 };
        assert_eq!(recovered(&square, &colours, &Products::new(2, 4)), None);
    }

    #[test]
    fn known_graphs_take_few_colours() {
        // Tridiagonal: a path is acyclic in two colours, and takes three as stars.
        let n = 40u32;
        let band = |width: u32| {
            let row = |row: u32| (row.saturating_sub(width)..(row + width + 1).min(n)).collect();
            Pattern::new(n as usize, &(0..n).map(row).collect::<Vec<_>>())
        };
        assert_eq!(star(&band(1)).count, 3);
        assert_eq!(acyclic(&band(1)).count, 2);
        // An arrow: one vertex has all others as its leaves.
        let arrow: Vec<Vec<u32>> =
            (0..n).map(|row| if row == 0 { (0..n).collect() } else { vec![0, row] }).collect();
        assert_eq!(star(&Pattern::new(n as usize, &arrow)).count, 2);
        // With so many that the vertex has a colour of its own.
        let n = 100_000u32;
        let arrow: Vec<Vec<u32>> =
            (0..n).map(|row| if row == 0 { (0..n).collect() } else { vec![0, row] }).collect();
        assert_eq!(star(&Pattern::new(n as usize, &arrow)).count, 2);
        // All numbers: a product for each, and at once.
        let full = vec![(0..1500).collect::<Vec<u32>>(); 1500];
        assert_eq!(star(&Pattern::new(1500, &full)).count, 1500);
    }
}
