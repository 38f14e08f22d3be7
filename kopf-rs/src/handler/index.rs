//! In-memory indices: values by keys, which user functions compute from objects, and which all handlers can read.
//!
//! Readers never wait for user code, and never see a partial update of an object: each read returns a snapshot. This
//! module decides neither when objects are indexed nor how failures of index functions are handled.

pub(crate) mod erased;
pub(crate) mod returned;
pub(crate) mod table;
pub(crate) mod values;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::handler::index::table::{Contribution, Entry, Table};
use crate::handler::index::values::{Values, ValuesIter};

/// The index that an index function fills: values by keys, read-only for handlers. Clones refer to the same index.
///
/// A handler asks for an index by its id, which is the name of the index function, as the name of an argument:
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[index("v1", "pods")]
/// fn by_node(#[from(spec.nodeName)] node: Option<String>, name: String) -> Option<(String, String)> {
///     Some((node?, name))
/// }
///
/// #[on_event("v1", "nodes")]
/// async fn count_pods(name: &str, by_node: Index<String, String>) {
///     let pods = by_node.get(name);
///     info!("{name} has {} pods", pods.len());
///     for pod in &pods {
///         info!("{name} has the pod {pod}");
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// let by_node = Index::from([("n1".to_owned(), "a".to_owned()), ("n1".to_owned(), "b".to_owned())]);
/// assert_eq!(by_node.get("n1").to_vec(), ["a", "b"]);
/// count_pods("n1", by_node).await;
/// # });
/// ```
///
/// Each read returns a snapshot, which stays unchanged while objects change, holds no lock, and can be kept across an
/// `await`. Reading does not copy the map.
pub struct Index<K, V> {
    table: Arc<RwLock<Table<K, V>>>,
}

/// A snapshot of the values under one key of an [`Index`], one per object.
pub struct IndexValues<V> {
    values: Values<V>,
}

/// Iterator over [`IndexValues`].
pub struct IndexValuesIter<'a, V>(ValuesIter<'a, V>);

// === impl Index ===

impl<K: Eq + Hash, V> Index<K, V> {
    /// Returns the values under a key; empty if the key is absent.
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> IndexValues<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let values = self.table.read().get(key).cloned().unwrap_or_default();
        IndexValues { values }
    }

    /// Returns whether there are values under a key.
    #[must_use]
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.table.read().get(key).is_some()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.read().len()
    }

    /// Returns whether the index has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all keys in arbitrary order.
    #[must_use]
    pub fn keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        self.table.read().iter().map(|(key, _)| key.clone()).collect()
    }

    /// Returns a snapshot of all keys with their values, in arbitrary order.
    #[must_use]
    pub fn iter(&self) -> std::vec::IntoIter<(K, IndexValues<V>)>
    where
        K: Clone,
    {
        let read = self.table.read();
        let snapshot = |(key, values): (&K, &Values<V>)| {
            let values = values.clone();
            (key.clone(), IndexValues { values })
        };
        let all: Vec<_> = read.iter().map(snapshot).collect();
        drop(read);
        all.into_iter()
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Index<K, V> {
    /// Returns the keys whose newest values meet the condition, with these values. The condition runs under the lock of the index, so it must
    /// not be user code.
    pub(crate) fn filtered(&self, is_meant: impl Fn(&K, &V) -> bool) -> Vec<(K, V)> {
        let read = self.table.read();
        let newest = read.iter().filter_map(|(key, values)| Some((key, values.iter().last()?.1)));
        let meant = newest.filter(|(key, value)| is_meant(key, value));
        meant.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl<K, V> Index<K, V> {
    pub(crate) fn new() -> Self {
        Self { table: Arc::new(RwLock::new(Table::new())) }
    }
}

/// For unit tests of handlers. Each pair counts as coming from a different object.
impl<K: Eq + Hash, V: Clone> FromIterator<(K, V)> for Index<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Self {
        let index = Self::new();
        for (object, pair) in (0..).zip(pairs) {
            let entry = Entry::of(pair);
            let replaced = index.table.write().replace(object, &mut Contribution::default(), vec![entry]);
            drop(replaced);
        }
        index
    }
}

/// For unit tests of handlers. Each pair counts as coming from a different object.
impl<K: Eq + Hash, V: Clone, const N: usize> From<[(K, V); N]> for Index<K, V> {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl<K: Eq + Hash + Clone, V> IntoIterator for &Index<K, V> {
    type Item = (K, IndexValues<V>);
    type IntoIter = std::vec::IntoIter<Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table) }
    }
}

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.table.read();
        let lists = read.iter().map(|(key, values)| {
            let values: Vec<_> = values.iter().map(|(_, value)| value).collect();
            (key, values)
        });
        f.debug_map().entries(lists).finish()
    }
}

// === impl IndexValues ===

impl<V> IndexValues<V> {
    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Iterates over the values in the order in which their objects were first seen.
    #[must_use]
    pub fn iter(&self) -> IndexValuesIter<'_, V> {
        IndexValuesIter(self.values.iter())
    }

    /// Returns the value of the object that was seen first.
    #[must_use]
    pub fn first(&self) -> Option<&V> {
        self.iter().next()
    }

    /// Returns whether one of the values equals this one.
    #[must_use]
    pub fn contains(&self, value: &V) -> bool
    where
        V: PartialEq,
    {
        self.iter().any(|it| it == value)
    }

    /// Clones all values into a `Vec`.
    #[must_use]
    pub fn to_vec(&self) -> Vec<V>
    where
        V: Clone,
    {
        self.iter().cloned().collect()
    }
}

impl<'a, V> IntoIterator for &'a IndexValues<V> {
    type Item = &'a V;
    type IntoIter = IndexValuesIter<'a, V>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, V> Iterator for IndexValuesIter<'a, V> {
    type Item = &'a V;
    fn next(&mut self) -> Option<&'a V> {
        self.0.next().map(|(_, value)| value)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<V> ExactSizeIterator for IndexValuesIter<'_, V> {}

impl<V> Clone for IndexValues<V> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone() }
    }
}

impl<V> Default for IndexValues<V> {
    fn default() -> Self {
        Self { values: Values::default() }
    }
}

impl<V: fmt::Debug> fmt::Debug for IndexValues<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<V: fmt::Debug> fmt::Debug for IndexValuesIter<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Self(self.0.clone())).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn put<K: Eq + Hash, V: Clone, const N: usize>(
        index: &Index<K, V>,
        object: usize,
        contribution: &mut Contribution,
        pairs: [(K, V); N],
    ) {
        let entries = pairs.into_iter().map(Entry::of).collect();
        index.table.write().replace(object as u64, contribution, entries);
    }

    #[test]
    fn a_read_returns_a_snapshot() {
        let index = Index::from([("a", 1), ("a", 2), ("b", 3)]);
        let (values, all) = (index.get("a"), index.iter());
        put(&index, 0, &mut Contribution::One(0), [("c", 4)]);
        assert_eq!(values.to_vec(), [1, 2]);
        assert_eq!(all.len(), 2);
        assert_eq!(index.get("a").to_vec(), [2]);
        assert_eq!(index.get("a").first(), Some(&2));
        assert!(index.contains("c") && !index.contains("d"));
        assert!(index.get("b").contains(&3) && !index.get("b").contains(&4));
        assert_eq!((index.len(), index.get("d").len()), (3, 0));
        assert_eq!(format!("{:?}", index.get("a")), "[2]");
        let mut keys = index.keys();
        keys.sort_unstable();
        assert_eq!(keys, ["a", "b", "c"]);
    }

    /// A value that counts its clones.
    struct Counted(Arc<AtomicUsize>);

    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::Relaxed);
            Self(self.0.clone())
        }
    }

    #[test]
    fn a_change_under_a_key_of_many_objects_is_a_small_one() {
        const OBJECTS: usize = 4000;
        let clones = Arc::new(AtomicUsize::new(0));
        let index = Index::<&str, Counted>::new();
        let mut contributions = Vec::new();
        // A reader holds the former snapshot during each change.
        for object in 0..OBJECTS {
            let held = index.get("hot");
            let mut contribution = Contribution::default();
            put(&index, object, &mut contribution, [("hot", Counted(clones.clone()))]);
            contributions.push(contribution);
            assert_eq!((held.len(), index.get("hot").len()), (object, object + 1));
        }
        for (object, contribution) in contributions.iter_mut().enumerate() {
            let held = index.get("hot");
            put(&index, object, contribution, []);
            assert_eq!(held.len(), OBJECTS - object);
        }
        assert!(index.is_empty());
        let each = clones.load(Ordering::Relaxed) / OBJECTS;
        assert!(each < 64, "{each} clones for each object");
    }

    #[test]
    fn an_empty_index_is_reported_as_empty() {
        let index = Index::<String, ()>::default();
        assert!(index.is_empty() && index.get("a").is_empty());
        assert_eq!(format!("{index:?}"), "{}");
    }
}
