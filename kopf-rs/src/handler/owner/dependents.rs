//! The objects that an owner changes: raw JSON, typed objects, and collections of them.
//!
//! Typed objects are serialized, changed and deserialized. The round trip reports an error instead of losing data
//! silently, and an object whose change fails stays unchanged.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::handler::error::PermanentError;
use crate::handler::read::to_json;
use crate::object::hierarchy::{self, Misfit};

/// Objects that can be made to belong to an owner, as JSON or as any type that implements `Serialize` and
/// `Deserialize`, such as those of `k8s-openapi`:
///
/// - `&mut pod`: one object, a list of them (`Vec<Pod>`), or any value that serializes to an object or a list of
///   them; `None` is skipped
/// - `(&mut pod, &mut service)`, `[&mut one, &mut two]`, a `Vec` of such references: objects of several types, or
///   from several places
/// - `&mut pods[1..]`, `pods.iter_mut()`
///
/// ```
/// use kopf_rs::prelude::*;
///
/// # fn main() -> Result<(), PermanentError> {
/// let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one", "uid": "1"}});
/// let owner = Owner::of(&object)?;
/// let mut pods = vec![json!({"kind": "Pod"}), json!({"kind": "Pod"})];
/// let mut service = Some(json!({"kind": "Service"}));
/// owner.adopt((&mut pods, &mut service))?;
/// assert_eq!(pods[1]["metadata"]["generateName"], "one-");
/// # Ok(()) }
/// ```
///
/// For other iterators: `objects.values_mut().collect::<Vec<_>>()`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be adopted, labelled or renamed",
    label = "expected `&mut` of an object, or a collection of such",
    note = "the objects are changed in place: pass `&mut pod`, `&mut pods` or `(&mut pod, &mut service)`",
    note = "their types must implement `serde::Serialize` and `serde::Deserialize`"
)]
pub trait Dependents {
    /// Applies the change to each object.
    #[doc(hidden)]
    fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError>;
}

/// The change to apply to each object.
pub struct Change<'a>(pub(super) &'a mut dyn FnMut(&mut Value) -> Result<(), Misfit>);

impl From<Misfit> for PermanentError {
    fn from(misfit: Misfit) -> Self {
        Self::new(misfit.to_string())
    }
}

impl<T: Serialize + DeserializeOwned> Dependents for &mut T {
    fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError> {
        let written = |object: &T| to_json(object, &format!("`{}`", type_name::<T>()));
        let before = written(self)?;
        let mut after = before.clone();
        hierarchy::each(&mut after, change.0)?;
        if after == before {
            return Ok(());
        }
        let changed = T::deserialize(&after).map_err(|error| {
            let of = type_name::<T>();
            PermanentError::new(format!("`{of}` cannot be deserialized after the change: {error}"))
        })?;
        if let Some(path) = hierarchy::lost(&before, &after, &written(&changed)?) {
            return Err(PermanentError::new(format!(
                "`{}` has no field for `{path}`, so its value would be lost: add that field to the type, or use JSON",
                type_name::<T>()
            )));
        }
        *self = changed;
        Ok(())
    }
}

impl<T: Serialize + DeserializeOwned> Dependents for &mut [T] {
    fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError> {
        self.iter_mut().change(change)
    }
}

impl<T: Serialize + DeserializeOwned> Dependents for std::slice::IterMut<'_, T> {
    fn change(mut self, change: &mut Change<'_>) -> Result<(), PermanentError> {
        self.try_for_each(|one| one.change(change))
    }
}

impl<D: Dependents> Dependents for Vec<D> {
    fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError> {
        self.into_iter().try_for_each(|one| one.change(change))
    }
}

impl<D: Dependents, const N: usize> Dependents for [D; N] {
    fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError> {
        self.into_iter().try_for_each(|one| one.change(change))
    }
}

impl<D: Dependents> Dependents for Option<D> {
    fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError> {
        self.map_or(Ok(()), |one| one.change(change))
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        impl<$($name: Dependents),+> Dependents for ($($name,)+) {
            #[expect(non_snake_case, reason = "a variable is named as its type")]
            fn change(self, change: &mut Change<'_>) -> Result<(), PermanentError> {
                let ($($name,)+) = self;
                $($name.change(change)?;)+
                Ok(())
            }
        }
    )*};
}

tuples! {
    (A)
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
}

impl std::fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Change")
    }
}
