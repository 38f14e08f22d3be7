//! Objects that a handler refers to but does not own, with functions that map a change of such an object to the
//! objects to handle.
//!
//! This module does not know how they are watched.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::handler::cause::Cause;
use crate::object::selector::{Selector, SelectorError};

/// Maps a changed object to the objects that the handler must be called for.
pub(crate) type MapOwners = Arc<dyn Fn(&Cause) -> Vec<OwnerName> + Send + Sync>;

/// A kind of objects that a handler refers to. A change of such an object triggers a call for each object that it
/// maps to.
#[derive(Clone)]
pub(crate) struct TargetKind {
    pub(crate) selector: Selector,
    pub(crate) owners: MapOwners,
}

/// The name of an object that a change of another one maps to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerName {
    namespace: Option<String>,
    name: String,
}

/// Return types of functions in `watches`: names of objects in the namespace of the changed object, or pairs of
/// namespace and name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whom a change concerns",
    label = "expected a name, or several",
    note = "return a `String`, a pair of namespace and name, or an `Option`, a `Vec` or an array of these"
)]
pub trait IntoOwners {
    /// Converts to a list of names.
    fn into_owners(self) -> Vec<OwnerName>;
}

// === impl ===

/// Returns the kind that an option names.
pub(super) fn target_kind<R: IntoOwners>(
    selector: Result<Selector, SelectorError>,
    owners: impl Fn(&Cause) -> R + Send + Sync + 'static,
) -> Result<TargetKind, String> {
    let selector = selector.map_err(|error| error.to_string())?;
    if !selector.is_specific() {
        return Err(format!("each entry of `watches` names one kind: `{selector}` is not a single kind"));
    }
    Ok(TargetKind { selector, owners: Arc::new(move |cause: &Cause| owners(cause).into_owners()) })
}

impl OwnerName {
    /// Returns the keys `namespace/name` that the object may have. A bare name can refer to an object in the
    /// namespace of the changed one, or to a cluster-scoped object.
    pub(crate) fn full_names(&self, namespace: Option<&str>) -> BTreeSet<Box<str>> {
        let Self { namespace: given, name } = self;
        match given {
            Some(given) => BTreeSet::from([format!("{given}/{name}").into()]),
            None => BTreeSet::from([
                format!("{}/{name}", namespace.unwrap_or_default()).into(),
                format!("/{name}").into(),
            ]),
        }
    }
}

impl fmt::Debug for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TargetKind({})", self.selector)
    }
}

impl IntoOwners for () {
    fn into_owners(self) -> Vec<OwnerName> {
        Vec::new()
    }
}

impl IntoOwners for OwnerName {
    fn into_owners(self) -> Vec<OwnerName> {
        vec![self]
    }
}

impl IntoOwners for String {
    fn into_owners(self) -> Vec<OwnerName> {
        vec![OwnerName { namespace: None, name: self }]
    }
}

impl IntoOwners for &str {
    fn into_owners(self) -> Vec<OwnerName> {
        self.to_owned().into_owners()
    }
}

impl<N: Into<String>, M: Into<String>> IntoOwners for (N, M) {
    fn into_owners(self) -> Vec<OwnerName> {
        vec![OwnerName { namespace: Some(self.0.into()), name: self.1.into() }]
    }
}

impl<T: IntoOwners> IntoOwners for Option<T> {
    fn into_owners(self) -> Vec<OwnerName> {
        self.map(T::into_owners).unwrap_or_default()
    }
}

impl<T: IntoOwners> IntoOwners for Vec<T> {
    fn into_owners(self) -> Vec<OwnerName> {
        self.into_iter().flat_map(T::into_owners).collect()
    }
}

impl<T: IntoOwners, const N: usize> IntoOwners for [T; N] {
    fn into_owners(self) -> Vec<OwnerName> {
        self.into_iter().flat_map(T::into_owners).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_namespace_unless_it_is_given() {
        let names = |owners: Vec<OwnerName>| -> Vec<String> {
            let all = owners.iter().flat_map(|it| it.full_names(Some("ns")));
            all.map(String::from).collect()
        };
        assert_eq!(names("a".into_owners()), ["/a", "ns/a"]);
        assert_eq!(names(vec![("other", "a")].into_owners()), ["other/a"]);
        let several = [Some("a".to_owned()), None];
        assert_eq!(names(several.into_owners()).len(), 2);
        assert!(().into_owners().is_empty());
    }
}
