//! A map from entities to values for a table of which a program uses small parts.
//!
//! The part of the library that every program has is 6,000 expressions, of which a program reaches a few hundred, side
//! by side, since the bodies of functions are checked when they are asked for. A value for each would take longer to
//! write than a small program takes to check; here only the pages exist that hold a value.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use cranelift_entity::EntityRef;

/// Values in a page.
const PAGE: usize = 32;

/// A map that has the default for every key without a value of its own.
#[derive(Clone, Debug)]
pub struct PagedMap<K, V> {
    pages: Vec<Option<Box<[V]>>>,
    default: V,
    keys: PhantomData<K>,
}

impl<K, V: Default> Default for PagedMap<K, V> {
    fn default() -> Self {
        PagedMap { pages: Vec::new(), default: V::default(), keys: PhantomData }
    }
}

impl<K: EntityRef, V> PagedMap<K, V> {
    /// The keys in pages that exist, in order, each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let pages = self.pages.iter().enumerate().filter_map(|(k, page)| Some((k, page.as_deref()?)));
        pages.flat_map(|(k, page)| {
            page.iter().enumerate().map(move |(i, value)| (K::new(k * PAGE + i), value))
        })
    }
}

impl<K: EntityRef, V> Index<K> for PagedMap<K, V> {
    type Output = V;

    fn index(&self, key: K) -> &V {
        let page = self.pages.get(key.index() / PAGE).and_then(Option::as_deref);
        page.map_or(&self.default, |page| &page[key.index() % PAGE])
    }
}

impl<K: EntityRef, V: Clone> IndexMut<K> for PagedMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        let number = key.index() / PAGE;
        if number >= self.pages.len() {
            self.pages.resize_with(number + 1, || None);
        }
        let page =
            self.pages[number].get_or_insert_with(|| vec![self.default.clone(); PAGE].into_boxed_slice());
        &mut page[key.index() % PAGE]
    }
}
