//! Values that handlers ask for by type: the client, or the user's own context.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

/// A map with one value per type, shared by all handlers of an operator.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    given: HashMap<TypeId, Value>,
    /// A factory for values of one type, which only some handlers see.
    made: Option<(TypeId, Arc<dyn Fn() -> Value + Send + Sync>)>,
    /// The map in which all other types are looked up.
    outer: Option<Arc<Extensions>>,
}

type Value = Arc<dyn Any + Send + Sync>;

impl Extensions {
    /// Stores `value`, and drops the former value of its type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.share(Arc::new(value));
    }
    /// Stores a value that is also kept elsewhere.
    pub(crate) fn share<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.given.insert(TypeId::of::<T>(), value);
    }
    /// Returns a layer on top of this map, in which every lookup of `T` calls `make`.
    pub(crate) fn making<T: Send + Sync + 'static>(
        self: &Arc<Self>,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        let make: Arc<dyn Fn() -> Value + Send + Sync> = Arc::new(move || -> Value { Arc::new(make()) });
        Self { given: HashMap::new(), made: Some((TypeId::of::<T>(), make)), outer: Some(self.clone()) }
    }
    /// Returns whether there is a value of this type.
    pub(crate) fn has(&self, type_id: TypeId) -> bool {
        self.find(type_id).is_some()
    }
    /// Returns the value of type `T`, if there is one.
    #[must_use]
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.find(TypeId::of::<T>())?.downcast().ok()
    }
    fn find(&self, type_id: TypeId) -> Option<Value> {
        if let Some((made, make)) = &self.made
            && *made == type_id
        {
            return Some(make());
        }
        let given = self.given.get(&type_id).cloned();
        given.or_else(|| self.outer.as_ref()?.find(type_id))
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Extensions({})", self.given.len())
    }
}
