//! Notations of selectors in explicit registries, and a check whether two selectors can overlap.

use crate::object::resource::Resource;
use crate::object::selector::named::{NamesResource, either};
use crate::object::selector::{Selector, SelectorError, SelectorName};

/// Notations that convert to a [`Selector`]: `"plural"`, `"plural.group"`, `("group", "plural")`,
/// `("group", "version", "plural")`, the same words as an array, or a function `|resource: &Resource| ..` that returns
/// `true` for the selected resources.
pub trait IntoSelector {
    /// Converts the notation.
    ///
    /// # Errors
    /// Returns an error if the text names no resource.
    fn into_selector(self) -> Result<Selector, SelectorError>;
}

impl IntoSelector for Selector {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Ok(self)
    }
}

impl IntoSelector for Result<Selector, SelectorError> {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        self
    }
}

impl IntoSelector for &str {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Selector::positional(&[self])
    }
}

impl IntoSelector for (&str, &str) {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Selector::positional(&[self.0, self.1])
    }
}

impl IntoSelector for (&str, &str, &str) {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Selector::positional(&[self.0, self.1, self.2])
    }
}

impl<F: Fn(&Resource) -> bool + Send + Sync + 'static> IntoSelector for F {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Ok(Selector::matching(self))
    }
}

impl<const N: usize> IntoSelector for [&str; N] {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Selector::positional(&self)
    }
}

impl<S: IntoSelector> NamesResource<either::__KopfResource> for S {
    fn selector(self) -> Result<Selector, SelectorError> {
        self.into_selector()
    }
}

/// Returns whether the two selectors certainly have no object in common, judging by their text. Ignores versions,
/// since the API server serves each object in all of them.
pub(crate) fn disjoint(one: &Selector, other: &Selector) -> bool {
    let groups = one.group.as_ref().zip(other.group.as_ref());
    groups.is_some_and(|(one, other)| one != other) || different(&one.name, &other.name)
}

fn different(one: &SelectorName, other: &SelectorName) -> bool {
    use SelectorName::{Any, Kind, Plural, Singular};
    match (one, other) {
        (Kind(one), Kind(other)) | (Plural(one), Plural(other)) | (Singular(one), Singular(other)) => {
            one != other
        }
        (Any(one), Any(other)) => {
            one != other && (is_plural(one) && is_plural(other) || is_kind(one) && is_kind(other))
        }
        (Any(any), Plural(plural)) | (Plural(plural), Any(any)) => is_plural(any) && any != plural,
        (Any(any), Kind(kind)) | (Kind(kind), Any(any)) => is_kind(any) && any != kind,
        _ => false,
    }
}

/// Returns whether this is a kind by the naming conventions of Kubernetes: only kinds start with a capital letter.
fn is_kind(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase())
}

/// Returns whether this is a plural by the naming conventions of Kubernetes. Short names are ambiguous, except two
/// built-in plurals.
fn is_plural(name: &str) -> bool {
    let is_known = matches!(name, "pods" | "jobs");
    is_known || !is_kind(name) && name.ends_with('s') && name.len() > 4
}
