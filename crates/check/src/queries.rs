//! Queries: facts that are computed on demand, each once.
//!
//! A query may come back to itself: the facets of a struct depend on the extensions that apply to it, whose
//! constraints may ask for the facets of the struct. A [`Memo`] knows the results and the keys in progress,
//! innermost last. A query that is asked for a key in progress has one of three answers: a provisional
//! result that it has stored itself, the result that its caller gives to [`Program::query`], or an error.
//!
//! Results depend on declarations only, never on the order of queries. Loading a module or checking a body
//! may add declarations; nearly all results are about declarations that exist already, and stay. The others,
//! about what extensions add, become outdated ([`Queries::extensions_changed`]): they are dropped, and those
//! in progress are not kept.

use std::hash::Hash;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use syntax::DeclId;

use crate::facts::{Constraints, Entry, Extent, Facet};
use crate::program::Program;
use crate::signature::{Derivatives, Signature};
use crate::tables::FuncRef;
use crate::types::{Ty, Val};
use crate::view::View;

/// The results of a query by key, and the keys in progress.
#[derive(Clone, Debug)]
pub(crate) struct Memo<K, V = ()> {
    results: FxHashMap<K, V>,
    /// The keys in progress, innermost last, each with the generation in which it was begun.
    open: Vec<(K, u32)>,
    generation: u32,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Memo<K, V> {
        Memo { results: FxHashMap::default(), open: Vec::new(), generation: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Memo<K, V> {
    /// The result for a key, final or provisional.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.results.get(key)
    }

    /// Returns true if the key is in progress.
    pub(crate) fn is_open(&self, key: &K) -> bool {
        self.open.iter().rev().any(|open| open.0 == *key)
    }

    /// The keys in progress.
    pub(crate) fn open(&self) -> impl ExactSizeIterator<Item = &K> {
        self.open.iter().map(|open| &open.0)
    }

    /// Begins to compute the result for a key. Returns false if that is in progress.
    pub(crate) fn begin(&mut self, key: &K) -> bool {
        let is_new = !self.is_open(key);
        if is_new {
            self.open.push((key.clone(), self.generation));
        }
        is_new
    }

    /// Begins to compute the result for a key; until then, the provisional result stands for it.
    pub(crate) fn begin_as(&mut self, key: &K, provisional: V) {
        self.open.push((key.clone(), self.generation));
        self.results.insert(key.clone(), provisional);
    }

    /// Ends a computation without a result.
    pub(crate) fn end(&mut self, key: &K) -> bool {
        let Some(at) = self.open.iter().rposition(|open| open.0 == *key) else { return false };
        self.open.remove(at).1 == self.generation
    }

    /// Ends a computation with its result, which is not kept if it is outdated.
    pub(crate) fn finish(&mut self, key: &K, result: V) {
        if self.end(key) {
            self.results.insert(key.clone(), result);
        }
    }

    /// Sets the result for a key.
    pub(crate) fn insert(&mut self, key: K, result: V) {
        self.results.insert(key, result);
    }

    /// Drops the result for a key.
    pub(crate) fn forget(&mut self, key: &K) {
        self.results.remove(key);
    }

    /// Drops the results for some keys.
    pub(crate) fn forget_all(&mut self, are: impl Fn(&K) -> bool) {
        self.results.retain(|key, _| !are(key));
    }

    /// Drops all results; those in progress will not be kept.
    fn outdate(&mut self) {
        self.results.clear();
        self.generation += 1;
    }
}

impl<K: Clone + Eq + Hash> Memo<K> {
    /// Returns true for a key that has not been seen before, for work that is done once.
    pub(crate) fn is_first(&mut self, key: K) -> bool {
        self.results.insert(key, ()).is_none()
    }

    /// The number of keys for which the work has been done.
    pub(crate) fn len(&self) -> usize {
        self.results.len()
    }
}

/// The queries of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queries {
    /// The types of declarations are in [`crate::tables::Tables::decl_types`].
    pub(crate) decl_types: Memo<DeclId>,
    /// The functions whose results' types are in progress.
    pub(crate) result_types: Memo<DeclId>,
    pub(crate) bases: Memo<DeclId, Rc<[Ty]>>,
    pub(crate) constraints: Memo<DeclId, Rc<Constraints>>,
    /// The constraints that the interfaces of a type put on its associated types.
    pub(crate) associated: Memo<(Ty, bool)>,
    pub(crate) facets: Memo<Ty, Rc<[Facet]>>,
    /// Pairs of a type and an interface, as far as extensions of all types that conform to an interface
    /// decide.
    pub(crate) conformances: Memo<(Ty, Ty)>,
    /// The extents of the types for which they were computed.
    pub(crate) extents: Memo<Ty, Extent>,
    /// The numbers of parts of values, as far as they are known: see [`crate::types::limits`].
    pub(crate) leaf_counts: Memo<Ty, u32>,
    pub(crate) enum_values: Memo<DeclId, i64>,
    /// The values of constant variables that have one.
    pub(crate) constants: Memo<DeclId, Val>,
    /// The values of constant members of known types.
    pub(crate) constant_members: Memo<FuncRef, i64>,
    pub(crate) signatures: Memo<DeclId, Rc<Signature>>,
    pub(crate) differentials: Memo<Ty, Option<Ty>>,
    /// All derivatives that the program declares for a function.
    pub(crate) witnesses: Memo<FuncRef, Rc<[Entry]>>,
    pub(crate) derivatives: Memo<(FuncRef, View), Rc<Derivatives>>,
    /// Functions mapped to true if modules other than their own declare derivatives of them.
    pub(crate) retroactive: Memo<DeclId, bool>,
    /// Functions mapped to true if their results are made from the bits of arguments.
    pub(crate) bits: Memo<DeclId, bool>,
    /// Functions without differentiable inputs mapped to true if they read memory that has derivatives.
    pub(crate) reads_derivatives: Memo<DeclId, bool>,
    /// The parameters of functions that atomic operations update: see [`crate::stmts`].
    pub(crate) in_place: Memo<DeclId, Rc<[Option<DeclId>]>>,
    /// Declarations whose code has been checked.
    pub(crate) bodies: Memo<DeclId>,
    /// Types and extensions whose conformance to their interfaces has been checked.
    pub(crate) conforming: Memo<DeclId>,
    /// Types whose differential has been checked.
    pub(crate) differential_types: Memo<DeclId>,
    /// The requirements that compiled code calls: checked once each.
    pub(crate) called: Memo<FuncRef>,
    /// Functions that have been checked for lost derivatives.
    pub(crate) flows: Memo<DeclId>,
}

impl Queries {
    /// Outdates the results that depend on extensions and on the modules that are loaded.
    pub(crate) fn extensions_changed(&mut self) {
        self.facets.outdate();
        self.differentials.outdate();
        self.witnesses.outdate();
        self.derivatives.outdate();
        self.retroactive.outdate();
    }
}

impl Program {
    /// Answers a query: by its result, by `in_progress` if the key is being computed, or by computing it.
    pub(crate) fn query<K: Clone + Eq + Hash, V: Clone>(
        &mut self,
        memo: impl Fn(&mut Queries) -> &mut Memo<K, V>,
        key: K,
        in_progress: V,
        compute: impl FnOnce(&mut Program) -> V,
    ) -> V {
        let queries = memo(&mut self.queries);
        if let Some(known) = queries.get(&key) {
            return known.clone();
        }
        if !queries.begin(&key) {
            return in_progress;
        }
        let result = compute(self);
        memo(&mut self.queries).finish(&key, result.clone());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::Memo;

    #[test]
    fn a_query_that_comes_back_to_itself_has_a_provisional_result() {
        let mut memo = Memo::default();
        memo.begin_as(&1, "so far");
        assert!(!memo.begin(&1));
        assert_eq!((memo.get(&1), memo.is_open(&1)), (Some(&"so far"), true));
        memo.finish(&1, "all");
        assert_eq!((memo.get(&1), memo.is_open(&1)), (Some(&"all"), false));
    }

    #[test]
    fn a_result_that_became_outdated_in_progress_is_not_kept() {
        let mut memo = Memo::default();
        memo.insert(1, "old");
        assert!(memo.begin(&2));
        memo.outdate();
        memo.finish(&2, "old");
        assert_eq!((memo.get(&1), memo.get(&2), memo.open().len()), (None, None, 0));
    }
}
