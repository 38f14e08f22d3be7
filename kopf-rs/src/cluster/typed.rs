//! Selectors for objects that have a Rust type, and for their kinds.

use std::marker::PhantomData;

use crate::object::selector::named::{NamesResource, Unnamed};
use crate::object::selector::{Definition, Selector, SelectorError, SelectorName};
use crate::object::typed::HasKind;

impl Selector {
    /// Selects the resource of a Rust type that implements `kube::Resource`, such as a type that derives `kube::CustomResource`, by its
    /// group, version and plural name.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>() -> Self {
        Self {
            group: Some(K::group(&()).into_owned()),
            version: Some(K::version(&()).into_owned()),
            name: SelectorName::Plural(K::plural(&()).into_owned()),
            definition: None,
        }
    }
}

/// Returns the plural that `kube::CustomResource` gives to a kind.
#[cfg(feature = "testing")]
pub(crate) fn plural_of(kind: &str) -> String {
    kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "", kind)).plural
}

/// Finds the definition of a type that derives `kube::CustomResource`. Generated code calls [`definition`](Self::definition) for any type: the
/// inherent function takes precedence over that of [`Undefined`], which all types have.
#[derive(Debug)]
pub struct DefinedBy<T>(PhantomData<T>);

impl<T> DefinedBy<T> {
    /// Asks for the definition of the type.
    #[must_use]
    pub const fn ask() -> Self {
        Self(PhantomData)
    }
}

impl<T: kube::CustomResourceExt> DefinedBy<T> {
    /// Returns the definition of the kind.
    #[must_use]
    pub fn definition(&self) -> Option<Definition> {
        let value = || serde_json::to_value(T::crd()).unwrap_or_default();
        Some(Definition { of: std::any::type_name::<T>(), value })
    }
}

/// A type without a definition: one that names a built-in kind, or that is no kind at all.
pub trait Undefined {
    /// Returns no definition.
    fn definition(&self) -> Option<Definition> {
        None
    }
}

impl<T> Undefined for DefinedBy<T> {}

impl<K: kube::Resource<DynamicType = ()>> NamesResource<K> for Unnamed {
    fn selector(self) -> Result<Selector, SelectorError> {
        Ok(Selector::of::<K>())
    }
}

impl<K: kube::Resource<DynamicType = ()>> HasKind for K {
    fn api_version() -> String {
        <K as kube::Resource>::api_version(&()).into_owned()
    }

    fn kind() -> String {
        <K as kube::Resource>::kind(&()).into_owned()
    }
}
