//! What handlers of one object remember in the process, for as long as the object lives.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values by type, kept in memory per object (by uid), and dropped with the object. Clones share the values.
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
/// The operator has a memo, too: [`Operator::memo`](crate::Operator::memo), and the memo of startup and cleanup handlers. When an object is seen for
/// the first time, its memo begins with the values that the operator's has at that moment. What is inserted later is each memo's own. A value
/// that all objects are to change is one that can be shared:
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
    /// Held while a value is changed, so that no change is lost. The values can be read meanwhile.
    changing: Mutex<()>,
}

type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl Memo {
    /// Keep `value`; the former one of its type is returned.
    pub fn insert<T: Send + Sync + 'static>(&self, value: T) -> Option<Arc<T>> {
        self.lock()
            .insert(TypeId::of::<T>(), Arc::new(value))?
            .downcast()
            .ok()
    }
    /// The value of type `T`.
    #[must_use]
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.lock().get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
    /// The value of type `T`, made by default where there is none.
    #[must_use]
    pub fn get_or_default<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut values = self.lock();
        let value = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        value.clone().downcast().unwrap_or_default()
    }
    /// Change the value of type `T`, which is made by default where there is none; the changed one is returned.
    ///
    /// Changes come one after the other, so `|count| count.0 += 1` counts right whoever else counts. `change` may read the memo; it must not
    /// update it.
    pub fn update<T: Clone + Default + Send + Sync + 'static>(
        &self,
        change: impl FnOnce(&mut T),
    ) -> Arc<T> {
        let _changing = self.0.changing.lock();
        let mut value = T::clone(&self.get_or_default());
        change(&mut value);
        let value = Arc::new(value);
        self.lock().insert(TypeId::of::<T>(), value.clone());
        value
    }
    /// A memo of its own with the same values: later ones are not shared.
    pub(crate) fn copied(&self) -> Self {
        let values = self.lock().clone();
        Self(Arc::new(Shared {
            values: Mutex::new(values),
            changing: Mutex::default(),
        }))
    }
    /// Whether nothing would be lost with it: it is empty, and nobody else holds it.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.lock().is_empty()
    }
    fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memo({})", self.lock().len())
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
