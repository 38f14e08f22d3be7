//! In-memory state that the handlers of one object share while the object exists.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// In-memory values by type, one set per object (by uid), dropped with the object. Clones share the values.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// /// How often a handler was called for one object.
/// #[derive(Clone, Default)]
/// struct Calls(u32);
///
/// #[on_update("kopfexamples")]
/// async fn update_fn(memo: Memo) {
///     let calls = memo.update::<Calls>(|calls| calls.0 += 1);
///     info!("called {} times", calls.0);
/// }
/// ```
///
/// The operator has a memo, too: [`Operator::memo`](crate::Operator::memo) and startup and cleanup handlers access
/// it. When the operator first sees an object, the object's memo starts with a copy of the operator's values. Later
/// inserts stay in their own memo. Use a value with shared state if all objects must change it:
///
/// ```
/// use std::sync::Mutex;
///
/// use kopf_rs::prelude::*;
///
/// #[derive(Default)]
/// struct Seen(Mutex<Vec<String>>);
///
/// #[on_startup]
/// async fn startup(memo: Memo) {
///     memo.insert(Seen::default());
/// }
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(memo: Memo, name: String) {
///     if let Some(seen) = memo.get::<Seen>() {
///         seen.0.lock().unwrap().push(name);
///     }
/// }
/// ```
#[derive(Clone, Default)]
pub struct Memo(Arc<Shared>);

#[derive(Default)]
struct Shared {
    values: Mutex<Values>,
    /// Held during an update, so that no update is lost. Readers are not blocked.
    changing: Mutex<()>,
}

type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Memo {
    /// Stores `value`, and returns the former value of its type.
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        self.0.values.lock().insert(TypeId::of::<T>(), Arc::new(value))?.downcast().ok()
    }
    /// Returns the value of type `T`.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.values.lock().get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
    /// Returns the value of type `T`; inserts the default if there is none.
    #[must_use]
    pub fn get_or_default<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.0.values.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        value.clone().downcast().unwrap_or_default()
    }
    /// Updates the value of type `T` and returns the new value. Starts from the default if there is none.
    ///
    /// Updates are serialized, so concurrent calls of `|count| count.0 += 1` lose no increment. `change` may read the
    /// memo, but must not update it.
    pub fn update<T: Clone + Default + Send + Sync + 'static>(&self, change: impl FnOnce(&mut T)) -> Arc<T> {
        let _changing = self.0.changing.lock();
        let mut value = T::clone(&self.get_or_default());
        change(&mut value);
        let value = Arc::new(value);
        self.0.values.lock().insert(TypeId::of::<T>(), value.clone());
        value
    }
    /// Returns an independent memo with the same values.
    pub(crate) fn copied(&self) -> Self {
        let values = self.0.values.lock().clone();
        Self(Arc::new(Shared { values: Mutex::new(values), changing: Mutex::default() }))
    }
    /// Returns whether dropping the memo would lose nothing: it is empty, and no other clone exists.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.0.values.lock().is_empty()
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memo({})", self.0.values.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_changed_in_place_and_can_be_read_meanwhile() {
        let memo = Memo::default();
        let former = memo.update::<u32>(|count| *count += 1);
        memo.update::<u32>(|count| *count += 1);
        assert_eq!((*former, memo.get()), (1, Some(Arc::new(2_u32))));
        let appended = memo.update::<String>(|text| {
            let count = memo.get::<u32>().map_or(0, |count| *count);
            text.push_str(&count.to_string());
        });
        assert_eq!(*appended, "2");
    }
}
