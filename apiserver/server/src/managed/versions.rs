//! Versions of an object: each manager owns fields in the version in which it wrote them.
//!
//! Guarantees that the changes of a write are computed once per version. Must not depend on how objects are converted.

use std::collections::BTreeMap;

use super::entry::Managed;
use super::outline::Outline;
use super::set::Set;
use super::track::Author;
use super::walk::Difference;
use crate::object::Body;

/// The reason why an object is not available in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The version does not exist.
    Missing,
    /// The conversion failed with this message.
    Wrong(String),
    /// A conversion webhook must be called first.
    Unasked,
}

/// Access to the versions of a kind.
pub(crate) trait Versions<'a> {
    /// Returns the merge structure of objects of a version.
    fn outline(&self, version: &str) -> Outline<'a>;

    /// Converts an object from one version to another.
    fn view(&mut self, body: &Body, from: &str, to: &str) -> Result<Body, Failure>;
}

/// Versions that do not differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single<'a>(pub(crate) Outline<'a>);

/// The changes of a write, as each version sees them.
#[derive(Debug)]
pub(super) struct Changes(BTreeMap<String, Difference>);

// === impl Failure ===

impl Failure {
    pub(super) fn within(self, what: &str) -> Self {
        match self {
            Self::Wrong(why) => Self::Wrong(format!("{what}: {why}")),
            Self::Missing | Self::Unasked => self,
        }
    }
}

// === impl Single ===

impl<'a> Versions<'a> for Single<'a> {
    fn outline(&self, _version: &str) -> Outline<'a> {
        self.0
    }

    fn view(&mut self, body: &Body, _from: &str, _to: &str) -> Result<Body, Failure> {
        Ok(body.clone())
    }
}

// === impl Changes ===

impl Changes {
    /// Compares two objects, given in the author's version, in that version and in those of all managers. Fields that the author cannot
    /// change are ignored in the author's version.
    pub(super) fn of(
        versions: &mut dyn Versions<'_>,
        author: &Author,
        managed: &Managed,
        [old, new]: [&Body; 2],
    ) -> Result<Self, Failure> {
        let own = &author.api_version;
        let outline = versions.outline(own);
        let mut changes = BTreeMap::from([(own.clone(), author.compare(outline, old, new))]);
        for entry in &managed.entries {
            let version = &entry.api_version;
            if changes.contains_key(version) {
                continue;
            }
            let mut view = |body, what: &str| {
                let seen = versions.view(body, own, version);
                seen.map_err(|failure| failure.within(&format!("failed to convert {what} object")))
            };
            let (old, new) = (view(old, "old")?, view(new, "new")?);
            let difference = super::walk::compare(versions.outline(version), &old, &new);
            changes.insert(version.clone(), difference);
        }
        Ok(Self(changes))
    }

    /// Returns the added and modified fields, in a version.
    pub(super) fn made(&self, version: &str) -> Set {
        let found = self.0.get(version);
        found.map_or_else(Set::default, |found| found.added.union(&found.modified))
    }

    /// Returns the removed fields, in a version.
    pub(super) fn gone(&self, version: &str) -> Set {
        let found = self.0.get(version);
        found.map_or_else(Set::default, |found| found.removed.clone())
    }
}
