//! Versions of an object: who manages fields does so in the version they were written in.
//!
//! Promise: what a write changes is told apart for each of these versions, once. Must not know how objects are converted.

use std::collections::BTreeMap;

use super::entry::Managed;
use super::outline::Outline;
use super::set::Set;
use super::track::Author;
use super::walk::Difference;
use crate::object::Body;

/// Why an object is not to be had in a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no such version.
    Missing,
    /// For a reason that may be told.
    Wrong(String),
    /// Whoever converts it is to be asked first.
    Unasked,
}

/// A kind in its versions.
pub(crate) trait Versions<'a> {
    /// How objects of a version come apart.
    fn outline(&self, version: &str) -> Outline<'a>;

    /// An object of one version in another one.
    fn view(&mut self, body: &Body, from: &str, to: &str) -> Result<Body, Failure>;
}

/// Versions that do not differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Single<'a>(pub(crate) Outline<'a>);

/// What a write changes, as each version sees it.
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
    /// How two objects in the version of an author differ, in that and in all versions that managers have written in. Other
    /// versions do not know what the author cannot change.
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

    /// What is added or has another value, for a version.
    pub(super) fn made(&self, version: &str) -> Set {
        let found = self.0.get(version);
        found.map_or_else(Set::default, |found| found.added.union(&found.modified))
    }

    /// What is not there any more, for a version.
    pub(super) fn gone(&self, version: &str) -> Set {
        let found = self.0.get(version);
        found.map_or_else(Set::default, |found| found.removed.clone())
    }
}
