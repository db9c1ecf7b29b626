//! The local names in scope, innermost last.

use std::ops::Deref;

use rustc_hash::FxHashMap;
use syntax::{DeclId, Symbol};

/// A list of names and their declarations. The latest declaration of a name is found in constant time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locals {
    entries: Vec<(Symbol, DeclId)>,
    /// The positions of each name, latest declaration last.
    places: FxHashMap<Symbol, Vec<u32>>,
}

impl Deref for Locals {
    type Target = [(Symbol, DeclId)];

    fn deref(&self) -> &[(Symbol, DeclId)] {
        &self.entries
    }
}

impl Extend<(Symbol, DeclId)> for Locals {
    fn extend<T: IntoIterator<Item = (Symbol, DeclId)>>(&mut self, more: T) {
        more.into_iter().for_each(|entry| self.push(entry));
    }
}

impl Locals {
    pub(crate) fn push(&mut self, entry: (Symbol, DeclId)) {
        self.places.entry(entry.0).or_default().push(self.entries.len() as u32);
        self.entries.push(entry);
    }

    /// Leaves the scopes that were entered since the list had this length.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.entries.len() > len {
            let Some((name, _)) = self.entries.pop() else { return };
            if let Some(places) = self.places.get_mut(&name) {
                places.pop();
            }
        }
    }

    /// The innermost declaration of a name.
    pub(crate) fn find(&self, name: Symbol) -> Option<DeclId> {
        let &place = self.places.get(&name)?.last()?;
        Some(self.entries[place as usize].1)
    }

    /// The first declaration of a name since the list had this length.
    pub(crate) fn first_since(&self, name: Symbol, len: usize) -> Option<DeclId> {
        let places = self.places.get(&name)?;
        let &place = places.get(places.partition_point(|&place| (place as usize) < len))?;
        Some(self.entries[place as usize].1)
    }

    /// Replaces all names by others.
    pub(crate) fn replace(&mut self, entries: Vec<(Symbol, DeclId)>) {
        *self = Locals::default();
        self.extend(entries);
    }
}
