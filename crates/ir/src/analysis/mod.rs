//! Analyses of functions and modules: each fact that passes and backends ask for is computed here, once.
//!
//! | question | analysis |
//! | --- | --- |
//! | Which instruction defines a value, and is it a constant? | [`Defs`] |
//! | Who uses a value? | [`Uses`] |
//! | Which region lists an instruction, and which instruction holds a region? | [`Tree`] |
//! | How large can an integer be, and how often does a loop run? | [`Bounds`] |
//! | Is an index a sum of multiples of loop counters? | [`affine`] |
//! | Which trip of which loop is an index, and is a read of a stack in range? | [`Trips`] |
//! | What follows from a condition? | [`implied`] |
//! | What does an instruction read or write? | [`Effects`], [`Summaries`], [`Writes`] |
//! | Which cell or global does a value refer to? | [`points_to`] |
//! | Which functions call each other, or reach each other? | [`Cycles`], [`post_order`], [`reach`] |
//! | Which loads of cells need no copy? | [`lasting`] |
//! | Which stacks of nested loops can one pointer hold? | [`bundles`] |
//! | Does memory end within an element? | [`room`] |
//! | Is it cheaper to keep a value or to compute it again? | [`cost`] |
//! | What flows from value to value through regions? | [`flow`] |
//!
//! [`Analyses`] computes those of one function when they are first asked for. It borrows the function, so one
//! rule invalidates everything: whoever changes the function has to give the borrow up first. A pass
//! therefore decides with an `Analyses` and acts afterwards. A pass that acts while it walks owns the few
//! analyses that it needs and keeps them up to date itself ([`Defs::add`]).

pub mod affine;
pub mod bounds;
pub mod bundles;
pub mod cost;
mod cycles;
mod defs;
mod effects;
pub mod flow;
pub mod implied;
mod lasting;
pub mod points_to;
pub mod room;
mod tree;
mod trips;
mod uses;

use std::cell::OnceCell;

pub use bounds::Bounds;
use cranelift_entity::{EntityRef, SecondaryMap};
pub use cycles::{Cycles, post_order, post_order_of, reach};
pub use defs::{Defs, Lanes};
pub use effects::{Effects, Stage, Summaries, Writes};
pub use lasting::lasting;
pub use tree::Tree;
pub use trips::{Trips, is_last_trip, reads_in_range};
pub use uses::{Use, Uses};

use crate::entities::{Inst, Region, Value};
use crate::function::{Function, InstData};
use crate::ops::Op;
use crate::types::Types;

/// A map with an entry for each of `n` keys, so that writes need not grow it.
fn dense<K: EntityRef, V: Clone + Default>(n: usize) -> SecondaryMap<K, V> {
    let mut map = SecondaryMap::new();
    map.resize(n);
    map
}

/// The analyses of one function, each computed when it is first asked for.
pub struct Analyses<'f> {
    /// The types of the function's module.
    pub types: &'f Types,
    /// The function.
    pub func: &'f Function,
    defs: OnceCell<Defs>,
    uses: OnceCell<Uses>,
    tree: OnceCell<Tree>,
    trips: OnceCell<Trips>,
    bounds: OnceCell<Bounds>,
}

impl<'f> Analyses<'f> {
    /// No analysis yet.
    pub fn of(types: &'f Types, func: &'f Function) -> Analyses<'f> {
        Analyses {
            types,
            func,
            defs: OnceCell::new(),
            uses: OnceCell::new(),
            tree: OnceCell::new(),
            trips: OnceCell::new(),
            bounds: OnceCell::new(),
        }
    }

    /// The definitions of values.
    pub fn defs(&self) -> &Defs {
        self.defs.get_or_init(|| Defs::of(self.func))
    }

    /// The uses of values.
    pub fn uses(&self) -> &Uses {
        self.uses.get_or_init(|| Uses::of(self.func))
    }

    /// The tree of regions.
    pub fn tree(&self) -> &Tree {
        self.tree.get_or_init(|| Tree::of(self.func))
    }

    /// The numbers of trips.
    pub fn trips(&self) -> &Trips {
        self.trips.get_or_init(|| Trips::of(self.func))
    }

    /// The loop that a value is a trip of: the value is its counter, or its counter counted from the end.
    pub fn trip(&self, v: Value) -> Option<Inst> {
        self.trips().trip(self.types, self.func, self.defs(), v)
    }

    /// The number of trips of the `for` that a value is the counter of, if that number is constant.
    pub fn constant_trips(&self, counter: Value) -> Option<u64> {
        self.constant(self.func.insts[self.trips().counter(counter)?].args[0])
    }

    /// The bounds of integers.
    pub fn bounds(&self) -> &Bounds {
        self.bounds.get_or_init(|| Bounds::of(self.types, self.func, self.defs()))
    }

    /// The instruction that defines a value; `None` for a parameter of a region.
    pub fn inst(&self, v: Value) -> Option<Inst> {
        self.defs().inst(v)
    }

    /// The data of the instruction that defines a value.
    pub fn def(&self, v: Value) -> Option<&'f InstData> {
        self.inst(v).map(|inst| &self.func.insts[inst])
    }

    /// The op that defines a value.
    pub fn op(&self, v: Value) -> Option<&'f Op> {
        self.def(v).map(|data| &data.op)
    }

    /// The bits of a scalar constant.
    pub fn constant(&self, v: Value) -> Option<u64> {
        self.defs().scalar(self.types, self.func, v).map(|c| c.1)
    }

    /// The region that lists an instruction.
    pub fn home(&self, inst: Inst) -> Option<Region> {
        self.tree().home(inst)
    }

    /// The region in which a value is defined.
    pub fn home_of(&self, v: Value) -> Option<Region> {
        match self.inst(v) {
            Some(inst) => self.home(inst),
            None => self.tree().param(v).map(|param| param.0),
        }
    }

    /// Returns true if a value is defined in a region or in a nested one.
    pub fn is_defined_in(&self, v: Value, region: Region) -> bool {
        self.home_of(v).is_some_and(|home| self.tree().contains(region, home))
    }
}
