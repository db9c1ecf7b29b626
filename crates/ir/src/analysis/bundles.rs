//! Finds the stacks of nested loops that one pointer can hold.
//!
//! Reverse mode keeps the values of each trip of a loop on stacks, and passes the stacks of inner loops out through
//! every loop and branch around them: `n` loops within each other have `n²` stacks of stacks, if each of the values is
//! passed on by itself. But what leaves a loop together stays together: the stacks of a loop are pushed by the same
//! trips of the loop around it, and read by the same trips of the loop that reverses that. So the stacks of a loop are one
//! *bundle*, and the loop around it has one *column* for the whole bundle, which holds pointers to bundles, instead of one
//! for each stack. A stack is then a bundle and a place in it, and so are the elements of a column.
//!
//! A bundle has one of two [forms](Form), as it suits the memory that holds it:
//!
//! - *Headers*: each column is a stack of its own, and their headers lie side by side. The content of a column of bundles is
//!   no stack of stacks by itself, since its elements are not headers but places in bundles; but a column of numbers is a
//!   stack of numbers. Where lanes run side by side, a column has room for the numbers of all lanes.
//! - *Records*: the bundle is one stack, whose elements are records with a field for each column. No column is a stack by
//!   itself.
//!
//! So a stack may only be such a part if it is never used as a whole: all uses of it, and of the values that it flows to,
//! are reads of elements, results of branches whose other arms have no stack, and pushes. Where a branch has no stack, its
//! bundle is that of loops without trips: a row of empty headers, or the empty stack.

use std::collections::hash_map::Entry;

use cranelift_entity::EntitySet;
use rustc_hash::FxHashMap;

use super::Analyses;
use crate::entities::{Inst, Region, Value};
use crate::function::{Function, InstData};
use crate::ops::Op;
use crate::types::{Type, TypeData, Types};

/// The number of a bundle, or of another value that holds one: that of a branch, or an element of a column.
pub type Bundle = usize;

/// The form of bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// At most so many headers. Two loops within each other gain nothing, so their stacks stay as they are.
    Headers(usize),
    /// A stack of records.
    Records,
}

/// A place in a bundle.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of headers or fields before it.
    pub column: usize,
    /// The result of a loop that is the stack with this header.
    pub origin: Value,
    /// If the elements of that stack are bundles: the index of the place of this value in them, in [`Bundles::place`].
    pub rest: Option<usize>,
}

/// A stack that is part of a bundle.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The bundle.
    pub bundle: Bundle,
    /// The index of its place in it.
    pub place: usize,
}

/// A stack that a loop makes.
#[derive(Clone, Debug)]
pub struct Column {
    /// The numbers of the stacks of the IR that it represents: one, or all those whose elements are of one bundle.
    pub members: Vec<usize>,
    /// Its elements are bundles.
    pub of_bundles: bool,
    /// The bundle that it is part of; `None` if it is a stack by itself.
    pub bundle: Option<Bundle>,
}

impl Column {
    /// The column of one stack of the IR, which is in no bundle.
    pub fn alone(number: usize) -> Column {
        Column { members: vec![number], of_bundles: false, bundle: None }
    }
}

/// A bundle that is the result of a branch.
#[derive(Clone, Debug)]
pub struct Join {
    /// The bundle.
    pub bundle: Bundle,
    /// The only arm that has stacks.
    pub arm: Region,
    /// The bundle in that arm.
    pub of: Bundle,
    /// The results of the branch that are part of it.
    pub members: Vec<Value>,
}

/// The bundles of a function.
#[derive(Default)]
pub struct Bundles {
    members: FxHashMap<Value, Member>,
    places: Vec<Place>,
    columns: FxHashMap<Inst, Vec<Column>>,
    /// The key is the first result of the branch.
    joins: FxHashMap<Value, Vec<Join>>,
    /// The first read of each element of a column of bundles in a region.
    leaders: FxHashMap<Value, Bundle>,
    count: usize,
}

impl Bundles {
    /// Finds the bundles of a function.
    pub fn of(analyses: &Analyses<'_>, form: Form) -> Bundles {
        let (f, types) = (analyses.func, analyses.types);
        let (least, own) = match form {
            Form::Headers(_) => (3, 1),
            Form::Records => (1, 0),
        };
        if f.values.values().all(|v| depth(types, v.ty) < least) {
            return Bundles::default();
        }
        let whole = used_whole(analyses, own);
        let mut finder =
            Finder { f, analyses, form, whole, found: Bundles::default(), reads: FxHashMap::default() };
        finder.region(f.body(), 0);
        finder.found
    }

    /// The part of a bundle that a value is.
    pub fn member(&self, v: Value) -> Option<Member> {
        self.members.get(&v).copied()
    }

    /// A place by its index.
    pub fn place(&self, idx: usize) -> Place {
        self.places[idx]
    }

    /// The stacks that a loop makes, if they are not those of the IR.
    pub fn columns(&self, inst: Inst) -> Option<&[Column]> {
        self.columns.get(&inst).map(|columns| &columns[..])
    }

    /// The bundles that a branch has as results.
    pub fn joins(&self, data: &InstData) -> &[Join] {
        data.results.first().and_then(|v| self.joins.get(v)).map_or(&[], |joins| joins)
    }

    /// The bundle that a read of an element loads; `None` if an earlier read in the region has loaded it.
    pub fn leader(&self, v: Value) -> Option<Bundle> {
        self.leaders.get(&v).copied()
    }

    /// The number of bundles.
    pub fn count(&self) -> usize {
        self.count
    }

    fn bundle(&mut self) -> Bundle {
        self.count += 1;
        self.count - 1
    }

    fn add(&mut self, v: Value, bundle: Bundle, place: Place) {
        self.members.insert(v, Member { bundle, place: self.places.len() });
        self.places.push(place);
    }
}

/// The number of stacks within each other that a type is.
fn depth(types: &Types, mut ty: Type) -> usize {
    let mut n = 0;
    while let TypeData::Stack(elem) = types[ty] {
        (n, ty) = (n + 1, elem);
    }
    n
}

/// Returns true if a value is an empty stack wherever it is.
fn is_empty(analyses: &Analyses<'_>, v: Value) -> bool {
    matches!(analyses.op(v), Some(Op::Zero))
}

/// The stacks of more than `own` levels that are used as a whole, or that flow to such a value.
fn used_whole(analyses: &Analyses<'_>, own: usize) -> EntitySet<Value> {
    let (f, types) = (analyses.func, analyses.types);
    let nested = |v: &Value| depth(types, f.ty(*v)) > own;
    let mut whole: Vec<Value> = f.regions[f.body()].results.iter().copied().filter(nested).collect();
    f.walk(f.body(), &mut |inst| {
        let data = &f.insts[inst];
        let skip = usize::from(data.op == Op::Index);
        whole.extend(data.args.iter().skip(skip).copied().filter(nested));
        if data.op.is_loop() {
            let results = &f.regions[data.regions[0]].results;
            let first = data.op.carried_at().2 + data.n_carried();
            whole.extend(results[..first].iter().copied().filter(nested));
        } else {
            let joins = |k: usize| {
                let arms = data.regions.iter().map(|&arm| f.regions[arm].results[k]);
                arms.filter(|&v| !is_empty(analyses, v)).count() > 1
            };
            let results = data.results.iter().enumerate().filter(|_| !data.regions.is_empty());
            whole.extend(results.filter(|&(k, v)| nested(v) && joins(k)).map(|(_, &v)| v));
        }
    });
    let mut found = EntitySet::new();
    while let Some(v) = whole.pop() {
        if !found.insert(v) {
            continue;
        }
        let Some((inst, k)) = analyses.defs().result(v) else { continue };
        let data = &f.insts[inst];
        if data.op.is_loop() {
            let first = data.op.carried_at().2;
            whole.extend(f.regions[data.regions[0]].results.get(first + k).copied().filter(nested));
        } else if data.op == Op::Index {
            whole.push(data.args[0]);
        } else {
            whole.extend(data.regions.iter().map(|&arm| f.regions[arm].results[k]).filter(nested));
        }
    }
    found
}

struct Finder<'a> {
    f: &'a Function,
    analyses: &'a Analyses<'a>,
    form: Form,
    whole: EntitySet<Value>,
    found: Bundles,
    /// The elements of columns of bundles that have been read: by the region, the bundle, the column and the index.
    reads: FxHashMap<(Region, Bundle, usize, Value), Bundle>,
}

impl Finder<'_> {
    /// Finds the bundles of a region that so many loops hold.
    fn region(&mut self, region: Region, loops: usize) {
        let f = self.f;
        for &inst in &f.regions[region].insts {
            let data = &f.insts[inst];
            let inner = loops + usize::from(data.op.is_loop());
            data.regions.iter().for_each(|&nested| self.region(nested, inner));
            match data.op {
                Op::Index => self.read(data, region),
                Op::If | Op::Switch(_) => self.join(data),
                Op::For(_) | Op::Loop(_) => self.stacks(inst, data, loops),
                _ => {}
            }
        }
    }

    fn read(&mut self, data: &InstData, region: Region) {
        let Some(Member { bundle, place }) = self.found.member(data.args[0]) else { return };
        let Place { column, rest: Some(rest), .. } = self.found.places[place] else { return };
        let result = data.results[0];
        let bundle = match self.reads.entry((region, bundle, column, data.args[1])) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let bundle = *new.insert(self.found.bundle());
                self.found.leaders.insert(result, bundle);
                bundle
            }
        };
        self.found.members.insert(result, Member { bundle, place: rest });
    }

    fn join(&mut self, data: &InstData) {
        let (mut joins, mut places): (Vec<Join>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        let mut known: FxHashMap<(Region, Bundle), usize> = FxHashMap::default();
        for (k, &result) in data.results.iter().enumerate() {
            if depth(self.analyses.types, self.f.ty(result)) == 0 {
                continue;
            }
            let arms = data.regions.iter().map(|&arm| (arm, self.f.regions[arm].results[k]));
            let mut some = arms.filter(|&(_, v)| !is_empty(self.analyses, v));
            let (Some((arm, v)), None) = (some.next(), some.next()) else { continue };
            let Some(Member { bundle: of, place }) = self.found.member(v) else { continue };
            let group = *known.entry((arm, of)).or_insert_with(|| {
                joins.push(Join { bundle: self.found.bundle(), arm, of, members: Vec::new() });
                places.push(Vec::new());
                joins.len() - 1
            });
            joins[group].members.push(result);
            places[group].push(place);
        }
        let mut places = places.into_iter();
        joins.retain(|join| {
            let places = places.next().unwrap_or_default();
            let keeps = self.is_worth(&places);
            if keeps {
                let members = join.members.iter().zip(places);
                let members = members.map(|(&v, place)| (v, Member { bundle: join.bundle, place }));
                self.found.members.extend(members);
            }
            keeps
        });
        if let (Some(&first), false) = (data.results.first(), joins.is_empty()) {
            self.found.joins.insert(first, joins);
        }
    }

    /// Returns true if parts of a bundle are passed on as a bundle: there are several, or they cannot be passed on
    /// otherwise.
    fn is_worth(&self, places: &[usize]) -> bool {
        self.form == Form::Records
            || places.len() > 1
            || places.iter().any(|&place| self.found.places[place].rest.is_some())
    }

    fn stacks(&mut self, inst: Inst, data: &InstData, loops: usize) {
        let first = data.op.carried_at().2 + data.n_carried();
        let pushed = &self.f.regions[data.regions[0]].results[first..];
        let results = &data.results[data.n_carried()..];
        let mut columns: Vec<Column> = Vec::new();
        let mut of_bundle: FxHashMap<Bundle, usize> = FxHashMap::default();
        for (k, (&v, &result)) in pushed.iter().zip(results).enumerate() {
            let member = self.found.member(v).filter(|_| !self.whole.contains(result));
            let column = member.map(|m| *of_bundle.entry(m.bundle).or_insert(columns.len()));
            match column.and_then(|column| columns.get_mut(column)) {
                Some(column) => column.members.push(k),
                None => {
                    columns.push(Column { of_bundles: member.is_some(), ..Column::alone(k) });
                }
            }
        }
        for column in columns.iter_mut().filter(|column| column.of_bundles) {
            let places = column.members.iter().filter_map(|&k| self.found.member(pushed[k]));
            let places: Vec<usize> = places.map(|m| m.place).collect();
            column.of_bundles = self.is_worth(&places);
        }
        let parts = match self.form {
            Form::Headers(_) => columns.len(),
            Form::Records => columns.iter().filter(|c| !self.whole.contains(results[c.members[0]])).count(),
        };
        let bundled = parts > 1 && (loops > 1 || self.form == Form::Records);
        if !bundled && columns.iter().all(|column| !column.of_bundles) {
            return;
        }
        let most = match self.form {
            Form::Headers(most) if bundled => most,
            Form::Headers(_) => 1,
            Form::Records => columns.len(),
        };
        for columns in columns.chunks_mut(most) {
            let (bundle, mut number) = (self.found.bundle(), 0);
            for column in columns {
                let is_part = match self.form {
                    Form::Headers(_) => bundled || column.of_bundles,
                    Form::Records => !self.whole.contains(results[column.members[0]]),
                };
                if !is_part {
                    continue;
                }
                column.bundle = Some(bundle);
                for &k in &column.members {
                    let inner = self.found.member(pushed[k]).filter(|_| column.of_bundles);
                    let rest = inner.map(|m| m.place);
                    self.found.add(results[k], bundle, Place { column: number, origin: results[k], rest });
                }
                number += 1;
            }
        }
        self.found.columns.insert(inst, columns);
    }
}
