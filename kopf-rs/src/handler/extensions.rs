//! Values handlers ask for by type: the client, the user's own context.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// One value per type, shared by all handlers of an operator.
#[derive(Clone, Default)]
pub(crate) struct Extensions(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Extensions {
    /// Keep `value`; the former one of its type is dropped.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }
    /// Whether there is a value of this type.
    pub(crate) fn has(&self, type_id: TypeId) -> bool {
        self.0.contains_key(&type_id)
    }
    /// The value of type `T`, if one was given.
    #[must_use]
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Extensions({})", self.0.len())
    }
}
