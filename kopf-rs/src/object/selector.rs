//! Which resources a handler is for (core.md 3).

use crate::object::resource::Resource;

/// A resource selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Group, if it matters; empty for core.
    pub group: Option<String>,
    /// Version, if it matters; else the preferred one.
    pub version: Option<String>,
    /// How the resource is named.
    pub name: SelectorName,
}

/// The naming part of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorName {
    /// Kind, plural, singular or short name.
    Any(String),
    /// By kind.
    Kind(String),
    /// By plural name.
    Plural(String),
    /// By singular name.
    Singular(String),
    /// By short name.
    Shortcut(String),
    /// By category.
    Category(String),
    /// All resources but events.
    Everything,
}

/// A selector that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl Selector {
    /// Kopf's positional forms: `["group", "version", "plural"]`, `["group/version", "plural"]`, `["plural.group"]`, `["plural"]`.
    ///
    /// # Errors
    /// Where the parts name no resource.
    pub fn positional(parts: &[&str]) -> Result<Self, SelectorError> {
        let _ = parts;
        todo!("core")
    }
    /// Whether `resource` is meant.
    #[must_use]
    pub fn matches(&self, resource: &Resource) -> bool {
        let _ = resource;
        todo!("core")
    }
}
