//! Converts the return values of index functions into keys and values.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::handler::error::HandlerError;

/// The result of an index function, for cases that a pair or a map cannot express.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[index("kopfexamples")]
/// fn by_owner(#[from(status)] status: &Value, name: String) -> IndexEntries<String, String> {
///     let Some(owners) = status["owners"].as_array() else {
///         // The owners are not known yet, so the former entries stay.
///         return IndexEntries::Unchanged;
///     };
///     let owners = owners.iter().filter_map(Value::as_str);
///     owners.map(|owner| (owner.to_owned(), name.clone())).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexEntries<K, V> {
    /// Replaces all entries of the object in the index; an empty list removes them. If several values have the same
    /// key, the last one wins.
    These(Vec<(K, V)>),
    /// Keeps the entries of the object in the index.
    Unchanged,
}

/// Types that index functions can return.
#[diagnostic::on_unimplemented(
    message = "an index function cannot return `{Self}`",
    label = "not a return type of index functions",
    note = "return a pair `(key, value)`, a `Vec` or map of them, `IndexEntries`, or an `Option` or `Result` of one of these; a value without a key is `((), value)`"
)]
pub trait IndexReturn {
    /// The type of the keys.
    type Key: Eq + Hash + Send + Sync + 'static;
    /// The type of the values.
    type Value: Clone + Send + Sync + 'static;

    /// Returns the entries of the object.
    ///
    /// # Errors
    /// Returns the error of the function.
    fn into_entries(self) -> Result<IndexEntries<Self::Key, Self::Value>, HandlerError>;
}

// === impl ===

impl<K, V> FromIterator<(K, V)> for IndexEntries<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Self {
        Self::These(pairs.into_iter().collect())
    }
}

impl<K, V> From<Vec<(K, V)>> for IndexEntries<K, V> {
    fn from(pairs: Vec<(K, V)>) -> Self {
        Self::These(pairs)
    }
}

impl<K, V> IndexReturn for IndexEntries<K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    type Key = K;
    type Value = V;
    fn into_entries(self) -> Result<Self, HandlerError> {
        Ok(self)
    }
}

impl<K, V> IndexReturn for (K, V)
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    type Key = K;
    type Value = V;
    fn into_entries(self) -> Result<IndexEntries<K, V>, HandlerError> {
        Ok(IndexEntries::These(vec![self]))
    }
}

/// `None` removes the entries of the object from the index.
impl<T: IndexReturn> IndexReturn for Option<T> {
    type Key = T::Key;
    type Value = T::Value;
    fn into_entries(self) -> Result<IndexEntries<T::Key, T::Value>, HandlerError> {
        let nothing = || Ok(IndexEntries::These(Vec::new()));
        self.map_or_else(nothing, T::into_entries)
    }
}

impl<T: IndexReturn, E: Into<HandlerError>> IndexReturn for Result<T, E> {
    type Key = T::Key;
    type Value = T::Value;
    fn into_entries(self) -> Result<IndexEntries<T::Key, T::Value>, HandlerError> {
        self.map_err(Into::into)?.into_entries()
    }
}

macro_rules! collections {
    ($([$($generic:tt)*] $collection:ty;)*) => {$(
        impl<K, V, $($generic)*> IndexReturn for $collection
        where
            K: Eq + Hash + Send + Sync + 'static,
            V: Clone + Send + Sync + 'static,
        {
            type Key = K;
            type Value = V;
            fn into_entries(self) -> Result<IndexEntries<K, V>, HandlerError> {
                Ok(self.into_iter().collect())
            }
        }
    )*};
}

collections! {
    [] Vec<(K, V)>;
    [] BTreeMap<K, V>;
    [S] HashMap<K, V, S>;
    [const N: usize] [(K, V); N];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::error::{HandlerResult, PermanentError};

    fn entries<R: IndexReturn>(returned: R) -> IndexEntries<R::Key, R::Value> {
        returned.into_entries().unwrap()
    }

    #[test]
    fn all_shapes_are_keys_and_values() {
        let one = IndexEntries::These(vec![("a", 1)]);
        assert_eq!(entries(("a", 1)), one);
        assert_eq!(entries(vec![("a", 1)]), one);
        assert_eq!(entries([("a", 1)]), one);
        assert_eq!(entries(BTreeMap::from([("a", 1)])), one);
        assert_eq!(entries(HashMap::from([("a", 1)])), one);
        assert_eq!(entries(Some(("a", 1))), one);
        assert_eq!(entries(HandlerResult::Ok(("a", 1))), one);
        assert_eq!(entries(one.clone()), one);
        // Kopf stores a plain value under the key `None`; here the key is `()`. And a `None` that is itself a value.
        assert_eq!(entries(((), vec![1])), IndexEntries::These(vec![((), vec![1])]));
        assert_eq!(entries(("a", None::<u8>)), IndexEntries::These(vec![("a", None)]));
    }

    #[test]
    fn no_entries_differ_from_no_change() {
        let nothing = IndexEntries::<&str, u8>::These(Vec::new());
        assert_eq!(entries(None::<(&str, u8)>), nothing);
        assert_eq!(entries(Vec::<(&str, u8)>::new()), nothing);
        assert_eq!(entries(Some(IndexEntries::<&str, u8>::Unchanged)), IndexEntries::Unchanged);
    }

    #[test]
    fn errors_stay_errors() {
        let failed: Result<Option<(&str, u8)>, _> = Err(PermanentError::new("no"));
        assert_eq!(failed.into_entries().unwrap_err().to_string(), "no");
    }
}
