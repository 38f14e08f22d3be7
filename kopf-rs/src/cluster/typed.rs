//! Selectors for objects that have a Rust type.

use crate::object::selector::named::{NamesResource, Unnamed};
use crate::object::selector::{Selector, SelectorError, SelectorName};

/// The selector of a `kube` type: its group, version and plural name.
#[must_use]
pub fn selector_of<K: kube::Resource<DynamicType = ()>>() -> Selector {
    Selector {
        group: Some(K::group(&()).into_owned()),
        version: Some(K::version(&()).into_owned()),
        name: SelectorName::Plural(K::plural(&()).into_owned()),
    }
}

impl<K: kube::Resource<DynamicType = ()>> NamesResource<K> for Unnamed {
    fn selector(self) -> Result<Selector, SelectorError> {
        Ok(selector_of::<K>())
    }
}
