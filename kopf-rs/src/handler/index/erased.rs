//! Type-erased indices of an operator by name. The engine fills them; handlers downcast them to the types that they
//! ask for.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::handler::index::Index;
use crate::handler::index::returned::{IndexEntries, IndexReturn};
use crate::handler::index::table::{Contribution, Entry};

/// The types of an index, with a constructor for an empty one.
#[derive(Clone, Copy)]
pub struct IndexType {
    id: fn() -> TypeId,
    name: fn() -> String,
    make: fn() -> Arc<dyn AnyIndex>,
    /// True if a lister declares the index, which holds whole objects.
    pub(crate) is_of_lister: bool,
}

/// An index that a handler asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredIndex {
    pub(crate) name: &'static str,
    pub(crate) ty: IndexType,
}

/// A type-erased index.
pub(crate) trait AnyIndex: Any + Send + Sync {
    /// Replaces all values of the object by those that a function returned.
    fn replace(&self, object: u64, contribution: &mut Contribution, entries: NewEntries) -> Discarded;
    /// Removes all values of the object.
    fn clear(&self, object: u64, contribution: &mut Contribution) -> Discarded;
    /// Returns the number of keys.
    fn keys(&self) -> usize;
}

/// A type-erased [`IndexUpdate`].
pub(crate) type NewEntries = Box<dyn Any + Send>;

/// Values removed from an index. Drop them without holding a lock, since their `Drop` is user code.
pub(crate) type Discarded = Option<Box<dyn Any + Send>>;

/// The result of an index function, with the hashes of its keys.
pub(crate) enum IndexUpdate<K, V> {
    Unchanged,
    Replaced(Vec<Entry<K, V>>),
}

/// Receives the result of an index function.
#[derive(Clone, Default)]
pub(crate) struct EntriesSink(Arc<Mutex<Option<NewEntries>>>);

/// All indices of an operator, by the ids of their functions.
#[derive(Clone, Default)]
pub(crate) struct Indices(Vec<(Arc<str>, Arc<dyn AnyIndex>)>);

// === impl IndexType ===

impl IndexType {
    /// Returns the index type of a function that returns `R`.
    #[must_use]
    pub const fn of_function<R: IndexReturn>() -> Self {
        Self::of::<R::Key, R::Value>()
    }

    /// Returns the index type with these keys and values.
    #[must_use]
    pub const fn of<K, V>() -> Self
    where
        K: Eq + Hash + Send + Sync + 'static,
        V: Clone + Send + Sync + 'static,
    {
        Self {
            id: TypeId::of::<Index<K, V>>,
            name: || format!("Index<{}, {}>", short(type_name::<K>()), short(type_name::<V>())),
            make: || Arc::new(Index::<K, V>::new()),
            is_of_lister: false,
        }
    }

    /// Returns the type of an index that a lister declares.
    pub(crate) const fn of_lister(self) -> Self {
        Self { is_of_lister: true, ..self }
    }
}

impl PartialEq for IndexType {
    fn eq(&self, other: &Self) -> bool {
        (self.id)() == (other.id)()
    }
}

impl Eq for IndexType {}

impl fmt::Display for IndexType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.name)())
    }
}

impl fmt::Debug for IndexType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Shortens the name of a type by removing the module paths.
fn short(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(end) = rest.find(|it: char| !it.is_alphanumeric() && it != '_') {
        let (word, after) = rest.split_at(end);
        if let Some(inner) = after.strip_prefix("::") {
            rest = inner;
            continue;
        }
        short.push_str(word);
        let mut others = after.chars();
        short.extend(others.next());
        rest = others.as_str();
    }
    short + rest
}

// === impl AnyIndex ===

impl<K, V> AnyIndex for Index<K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn replace(&self, object: u64, contribution: &mut Contribution, entries: NewEntries) -> Discarded {
        let update = entries.downcast::<IndexUpdate<K, V>>();
        let Ok(IndexUpdate::Replaced(entries)) = update.map(|it| *it) else {
            return None;
        };
        let removed = self.table.write().replace(object, contribution, entries);
        (!removed.is_empty()).then(|| Box::new(removed) as _)
    }

    fn clear(&self, object: u64, contribution: &mut Contribution) -> Discarded {
        if contribution.is_empty() {
            return None;
        }
        let removed = self.table.write().replace(object, contribution, Vec::new());
        Some(Box::new(removed))
    }

    fn keys(&self) -> usize {
        self.len()
    }
}

// === impl IndexUpdate ===

impl<K: Hash, V> From<IndexEntries<K, V>> for IndexUpdate<K, V> {
    fn from(entries: IndexEntries<K, V>) -> Self {
        match entries {
            IndexEntries::Unchanged => Self::Unchanged,
            IndexEntries::These(pairs) => Self::Replaced(pairs.into_iter().map(Entry::of).collect()),
        }
    }
}

// === impl EntriesSink ===

impl EntriesSink {
    pub(crate) fn put(&self, entries: NewEntries) {
        *self.0.lock() = Some(entries);
    }

    pub(crate) fn take(&self) -> Option<NewEntries> {
        self.0.lock().take()
    }
}

impl fmt::Debug for EntriesSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntriesSink(..)")
    }
}

// === impl Indices ===

impl Indices {
    /// Adds an empty index of that name, unless it exists.
    pub(crate) fn declare(&mut self, name: &Arc<str>, ty: IndexType) {
        if self.place(name).is_none() {
            self.0.push((Arc::clone(name), (ty.make)()));
        }
    }

    /// Adds an index under this name; replaces an existing one.
    pub(crate) fn insert(&mut self, name: &str, index: Arc<dyn AnyIndex>) {
        self.0.retain(|(known, _)| **known != *name);
        self.0.push((name.into(), index));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().map(|(name, _)| name)
    }

    /// Returns the position of an index.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| **known == *name)
    }

    pub(crate) fn at(&self, place: usize) -> Option<&dyn AnyIndex> {
        self.0.get(place).map(|(_, index)| &**index)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn AnyIndex> {
        self.at(self.place(name)?)
    }
}

impl fmt::Debug for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_short() {
        let ty = IndexType::of_function::<Vec<((String, String), Option<Vec<u8>>)>>();
        assert_eq!(ty.to_string(), "Index<(String, String), Option<Vec<u8>>>");
        assert_eq!(IndexType::of::<(), &'static str>().to_string(), "Index<(), &str>");
        assert_ne!(ty, IndexType::of::<(), ()>());
    }

    #[test]
    fn returned_entries_reach_their_index() {
        let mut indices = Indices::default();
        let name: Arc<str> = "by_name".into();
        indices.declare(&name, IndexType::of::<String, u8>());
        indices.declare(&name, IndexType::of::<(), ()>());
        let index = indices.get("by_name").unwrap();
        let mut contribution = Contribution::default();
        let entries = IndexEntries::from(vec![("a".to_owned(), 1_u8)]);
        index.replace(7, &mut contribution, Box::new(IndexUpdate::from(entries)));
        let any: &dyn Any = index;
        let typed = any.downcast_ref::<Index<String, u8>>().unwrap().clone();
        assert_eq!(typed.get("a").to_vec(), [1]);
        let unchanged = IndexUpdate::<String, u8>::Unchanged;
        index.replace(7, &mut contribution, Box::new(unchanged));
        assert_eq!(typed.get("a").to_vec(), [1]);
        index.clear(7, &mut contribution);
        assert!(typed.is_empty());
    }
}
