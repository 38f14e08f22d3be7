//! Selectors for objects that have a Rust type, and for their kinds.

use crate::object::selector::named::{NamesResource, Unnamed};
use crate::object::selector::{Selector, SelectorError, SelectorName};
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
        }
    }
}

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
