//! Selects the resources that a handler applies to.
//!
//! A selector is parsed once, then matched against the discovered resources after every discovery. This module does
//! not know how resources are discovered.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::object::resource::Resource;
use crate::object::typed::HasKind;

pub(crate) mod named;

/// A resource selector. Created from text, such as `"myapps"` or `("example.com", "v1", "myapps")`, wherever a selector is expected, or by
/// its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selector {
    /// The group, if it matters; empty for core.
    pub group: Option<String>,
    /// The version, if it matters; otherwise the preferred one.
    pub version: Option<String>,
    /// The name of the resource.
    pub name: SelectorName,
    /// The definition of the kind, if a Rust type that has one names it.
    pub(crate) definition: Option<Definition>,
}

/// Returns the definition of a kind, such as `MyApp::crd()`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "only `--manifests` reads it"))]
pub struct Definition {
    /// The name of the Rust type.
    pub(crate) of: &'static str,
    pub(crate) value: fn() -> Value,
}

impl PartialEq for Definition {
    /// The other parts of a selector say which resources it selects.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Definition {}

/// The name part of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectorName {
    /// By kind, plural, singular or short name.
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
    /// All resources except events.
    Everything,
    /// All resources except events for which a function returns true: see [`Selector::matching`].
    Matching(ResourcePredicate),
}

/// A function that selects resources: see [`Selector::matching`].
#[derive(Clone)]
pub struct ResourcePredicate(Arc<dyn Fn(&Resource) -> bool + Send + Sync>);

impl fmt::Debug for ResourcePredicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResourcePredicate(..)")
    }
}

impl PartialEq for ResourcePredicate {
    /// Only clones are known to be equal.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ResourcePredicate {}

/// The error for a selector that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    /// Creates an error with the expectation and the finding, for an [`IntoSelector`](crate::IntoSelector) of yours.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Selector {
    /// Parses Kopf's positional forms: `["group", "version", "plural"]`, `["group/version", "plural"]`, `["plural.group"]`, `["plural"]`.
    ///
    /// # Errors
    /// If the parts do not name a resource.
    pub fn positional(parts: &[&str]) -> Result<Self, SelectorError> {
        let (name, place) = match parts {
            [name] => return Self::dotted(name),
            [.., name] => (*name, &parts[..parts.len() - 1]),
            [] => {
                return Err(SelectorError::new("expected the name of a resource, found nothing"));
            }
        };
        let (group, version) = Self::place(place)?;
        Self::named(group, version, SelectorName::Any(name.into()))
    }

    /// Selects all resources except events of `[]`, `["group"]`, `["group/version"]`, `["v1"]` or `["group", "version"]`.
    ///
    /// # Errors
    /// If there are more parts than that.
    pub fn everything(place: &[&str]) -> Result<Self, SelectorError> {
        let (group, version) = Self::place(place)?;
        Self::named(group, version, SelectorName::Everything)
    }

    /// Selects all resources except events for which the function returns `true`. The function is called for every version of a resource, and
    /// also for resources that are discovered later. Each resource is served in one version, as for other handlers.
    ///
    /// ```
    /// use kopf_rs::Selector;
    ///
    /// let ours = Selector::matching(|resource| resource.group.ends_with(".example.com") && resource.namespaced);
    /// ```
    #[must_use]
    pub fn matching(predicate: impl Fn(&Resource) -> bool + Send + Sync + 'static) -> Self {
        Self {
            group: None,
            version: None,
            name: SelectorName::Matching(ResourcePredicate(Arc::new(predicate))),
            definition: None,
        }
    }

    /// Selects the kind of a Rust type, in its version.
    pub(crate) fn of_kind<T: HasKind>() -> Self {
        let api_version = T::api_version();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Self {
            group: Some(group.to_owned()),
            version: Some(version.to_owned()),
            name: SelectorName::Kind(T::kind()),
            definition: None,
        }
    }

    /// Creates a selector from its parts.
    ///
    /// # Errors
    /// If the name is empty.
    pub fn named(
        group: Option<String>,
        version: Option<String>,
        name: SelectorName,
    ) -> Result<Self, SelectorError> {
        if name.text() == Some("") {
            return Err(SelectorError::new("expected the name of a resource, found an empty string"));
        }
        Ok(Self { group, version, name, definition: None })
    }

    /// Adds the definition of the kind.
    #[doc(hidden)]
    #[must_use]
    pub fn defined_by(mut self, definition: Option<Definition>) -> Self {
        self.definition = definition;
        self
    }

    /// Parses `name`, `name.group`, `name.version.group`, `name.version.` (core), `name.v1` (core).
    fn dotted(text: &str) -> Result<Self, SelectorError> {
        let mut parts = text.splitn(3, '.');
        let name = parts.next().unwrap_or_default();
        let (group, version) = match (parts.next(), parts.next()) {
            (None, _) => (None, None),
            (Some(version), Some(group)) if is_version(version) => (Some(group), Some(version)),
            (Some("v1"), None) => (Some(""), Some("v1")),
            (Some(version), None) if is_version(version) => (None, Some(version)),
            (Some(_), _) => (text.get(name.len() + 1..), None),
        };
        Self::named(group.map(str::to_owned), version.map(str::to_owned), SelectorName::Any(name.to_owned()))
    }

    /// Returns the group and version of the leading positional parts.
    fn place(parts: &[&str]) -> Result<(Option<String>, Option<String>), SelectorError> {
        let (group, version) = match parts {
            [] => (None, None),
            ["v1"] => (Some(""), Some("v1")),
            [one] => match one.rsplit_once('/') {
                Some((group, version)) => (Some(group), Some(version)),
                None => (Some(*one), None),
            },
            [group, version] => (Some(*group), Some(*version)),
            _ => {
                return Err(SelectorError::new(format!(
                    "expected at most a group, a version and a name, found {} parts",
                    parts.len() + 1
                )));
            }
        };
        Ok((group.map(str::to_owned), version.map(str::to_owned)))
    }

    /// Returns true if the selector matches `resource`.
    #[must_use]
    pub fn matches(&self, resource: &Resource) -> bool {
        let is_of_version = match &self.version {
            Some(version) => *version == resource.version,
            None => resource.preferred || self.is_function(),
        };
        is_of_version && self.names(resource)
    }

    /// Returns true if the selector matches `resource` in any version, or in the given one if the selector has a version.
    pub(crate) fn means(&self, resource: &Resource) -> bool {
        let version = self.version.as_ref();
        version.is_none_or(|version| *version == resource.version) && self.names(resource)
    }

    /// Returns true if the selector matches `resource`, regardless of its version.
    pub(crate) fn names(&self, resource: &Resource) -> bool {
        let has = |names: &[String], name: &String| names.contains(name);
        self.group.as_ref().is_none_or(|it| *it == resource.group)
            && match &self.name {
                SelectorName::Any(name) => {
                    [&resource.kind, &resource.plural, &resource.singular].contains(&name)
                        || has(&resource.short_names, name)
                }
                SelectorName::Kind(name) => *name == resource.kind,
                SelectorName::Plural(name) => *name == resource.plural,
                SelectorName::Singular(name) => *name == resource.singular,
                SelectorName::Shortcut(name) => has(&resource.short_names, name),
                SelectorName::Category(name) => has(&resource.categories, name),
                SelectorName::Everything => !is_events(resource),
                SelectorName::Matching(predicate) => {
                    !is_events_of_any_version(resource) && predicate.0(resource)
                }
            }
    }

    /// Returns true if a function selects the resources.
    pub(crate) fn is_function(&self) -> bool {
        matches!(self.name, SelectorName::Matching(_))
    }

    /// Returns true if the selector stands for one resource rather than for any number of them.
    #[must_use]
    pub fn is_specific(&self) -> bool {
        !matches!(self.name, SelectorName::Category(_) | SelectorName::Everything | SelectorName::Matching(_))
    }

    /// Returns the selected resources among `resources`. Like in `kubectl`, core resources take precedence. Several results for a
    /// [specific](Self::is_specific) selector mean that it is ambiguous.
    pub(crate) fn select<'a>(&self, resources: &'a [Resource]) -> Vec<&'a Resource> {
        let mut found: Vec<&Resource> = resources.iter().filter(|it| self.matches(it)).collect();
        if self.is_specific() && found.iter().any(|it| it.group.is_empty()) {
            found.retain(|it| it.group.is_empty());
        }
        found
    }

    /// Returns the one of these resources to watch, if the selector is for one kind: the preferred version, if several match.
    pub(crate) fn select_one<'a>(&self, resources: &'a [Resource]) -> Option<&'a Resource> {
        let found = self.select(resources);
        found.iter().find(|it| it.preferred).or(found.first()).copied()
    }
}

impl SelectorName {
    /// Returns the name if there is one.
    fn text(&self) -> Option<&str> {
        match self {
            Self::Any(name)
            | Self::Kind(name)
            | Self::Plural(name)
            | Self::Singular(name)
            | Self::Shortcut(name)
            | Self::Category(name) => Some(name),
            Self::Everything | Self::Matching(_) => None,
        }
    }
}

impl fmt::Display for Selector {
    /// Displays in the form that users write: `plural.version.group`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            SelectorName::Category(name) => write!(f, "category={name}")?,
            SelectorName::Matching(_) => f.write_str("the resources that a function selects")?,
            name => f.write_str(name.text().unwrap_or("everything"))?,
        }
        match (&self.version, self.group.as_deref()) {
            (None, None) => Ok(()),
            (None, Some("")) => f.write_str(" of the core group"),
            (None, Some(group)) => write!(f, ".{group}"),
            (Some(version), None | Some("")) => write!(f, ".{version}"),
            (Some(version), Some(group)) => write!(f, ".{version}.{group}"),
        }
    }
}

impl TryFrom<&str> for Selector {
    type Error = SelectorError;
    fn try_from(name: &str) -> Result<Self, SelectorError> {
        Self::positional(&[name])
    }
}

impl TryFrom<(&str, &str)> for Selector {
    type Error = SelectorError;
    fn try_from((place, name): (&str, &str)) -> Result<Self, SelectorError> {
        Self::positional(&[place, name])
    }
}

impl TryFrom<(&str, &str, &str)> for Selector {
    type Error = SelectorError;
    fn try_from((group, version, name): (&str, &str, &str)) -> Result<Self, SelectorError> {
        Self::positional(&[group, version, name])
    }
}

impl From<&Resource> for Selector {
    /// Selects exactly this resource in this version.
    fn from(resource: &Resource) -> Self {
        Self {
            group: Some(resource.group.clone()),
            version: Some(resource.version.clone()),
            name: SelectorName::Plural(resource.plural.clone()),
            definition: None,
        }
    }
}

/// Returns true for version-like text such as `v1` or `v2beta1`, as opposed to a group.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    digits(rest)
        || ["alpha", "beta"]
            .iter()
            .filter_map(|stage| rest.split_once(stage))
            .any(|(major, minor)| digits(major) && digits(minor))
}

/// Returns true for events in any version: functions are called for all versions, and events are the same objects in both of their groups.
fn is_events_of_any_version(resource: &Resource) -> bool {
    resource.identity() == ("", "events")
}

/// Returns true for events, which users do not mean when they select everything.
fn is_events(resource: &Resource) -> bool {
    resource.plural == "events"
        && match resource.group.as_str() {
            "" => resource.version == "v1",
            "events.k8s.io" => resource.preferred,
            _ => false,
        }
}

#[cfg(test)]
mod tests;
