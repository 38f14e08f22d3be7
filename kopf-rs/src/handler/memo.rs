//! What handlers of one object remember in the process, for as long as the object lives.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Values by type, kept per object (by uid) and dropped with it; never persisted. Cloning shares.
#[derive(Clone, Default)]
pub struct Memo(Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>);

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
    /// A memo of its own with the same values: later ones are not shared.
    pub(crate) fn copied(&self) -> Self {
        Self(Arc::new(Mutex::new(self.lock().clone())))
    }
    /// Whether nothing would be lost with it: it is empty, and nobody else holds it.
    pub(crate) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.lock().is_empty()
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TypeId, Arc<dyn Any + Send + Sync>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memo({})", self.lock().len())
    }
}
