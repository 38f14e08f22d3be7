//! Selectors as they are written in an explicit registry, and whether two of them can mean the same object.

use crate::object::resource::Resource;
use crate::object::selector::named::{NamesResource, either};
use crate::object::selector::{Selector, SelectorError, SelectorName};

/// What can be said instead of a [`Selector`]: `"plural"`, `"plural.group"`, `("group", "plural")`, `("group", "version", "plural")`, these
/// words as an array, or a function `|resource: &Resource| ..` that returns `true` for those that are meant.
pub trait IntoSelector {
    /// The selector.
    ///
    /// # Errors
    /// Where the text names no resource.
    fn into_selector(self) -> Result<Selector, SelectorError>;
}

impl IntoSelector for Selector {
    fn into_selector(self) -> Result<Selector, SelectorError> {
        Ok(self)
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

/// Whether no object can be meant by both, as far as their text tells. Versions do not matter: an object is served in all of them.
pub(crate) fn disjoint(one: &Selector, other: &Selector) -> bool {
    let groups = one.group.as_ref().zip(other.group.as_ref());
    groups.is_some_and(|(one, other)| one != other) || different(&one.name, &other.name)
}

fn different(one: &SelectorName, other: &SelectorName) -> bool {
    use SelectorName::{Any, Kind, Plural, Singular};
    match (one, other) {
        (Kind(one), Kind(other))
        | (Plural(one), Plural(other))
        | (Singular(one), Singular(other)) => one != other,
        (Any(one), Any(other)) => {
            one != other && (is_plural(one) && is_plural(other) || is_kind(one) && is_kind(other))
        }
        (Any(any), Plural(plural)) | (Plural(plural), Any(any)) => is_plural(any) && any != plural,
        (Any(any), Kind(kind)) | (Kind(kind), Any(any)) => is_kind(any) && any != kind,
        _ => false,
    }
}

/// By the conventions of Kubernetes: kinds begin with a capital, nothing else does.
fn is_kind(name: &str) -> bool {
    name.starts_with(|first: char| first.is_uppercase())
}

/// By the conventions of Kubernetes; short names are too short to tell, but for two plurals of its own.
fn is_plural(name: &str) -> bool {
    let is_known = matches!(name, "pods" | "jobs");
    is_known || !is_kind(name) && name.ends_with('s') && name.len() > 4
}
