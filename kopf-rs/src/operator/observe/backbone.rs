//! The kinds that the observer itself watches: namespaces and custom resource definitions.
//!
//! Must not know their purpose.

use std::collections::BTreeSet;

use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::engine::report::report_of_operator;
use crate::happening::serving::Serving;
use crate::object::event::EventType;
use crate::object::raw::Raw;
use crate::object::resource::Resource;
use crate::operator::scope::{Patterns, Scope};

/// The existing namespaces that the operator serves.
pub(super) struct Namespaces {
    /// `None` if the operator serves all namespaces, without knowing them.
    patterns: Option<Patterns>,
    found: BTreeSet<String>,
    /// The namespaces in a listing that is not complete yet.
    listing: BTreeSet<String>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unlisted,
    Listing,
    Known,
    /// The namespaces cannot be listed: names among the patterns are assumed to exist.
    Assumed,
}

impl Namespaces {
    pub(super) fn new(scope: &Scope, unwatched: bool) -> Self {
        let patterns = match scope {
            Scope::All => None,
            Scope::Some(patterns) => Some(patterns.clone()),
        };
        let mut namespaces =
            Self { patterns, found: BTreeSet::new(), listing: BTreeSet::new(), state: State::Unlisted };
        if unwatched {
            namespaces.assume();
        }
        namespaces
    }

    pub(super) fn are_known(&self) -> bool {
        self.patterns.is_none() || matches!(self.state, State::Known | State::Assumed)
    }

    /// Returns the existing namespaces; `None` if the operator serves all.
    pub(super) fn some(&self) -> Option<&BTreeSet<String>> {
        self.patterns.as_ref().map(|_| &self.found)
    }

    /// Returns the namespaces that are given by name and do not exist.
    pub(super) fn missing(&self) -> Vec<String> {
        let literals = self.patterns.iter().flat_map(Patterns::literals);
        let missing = literals.filter(|it| self.state == State::Known && !self.found.contains(*it));
        missing.map(str::to_owned).collect()
    }

    /// Processes an event. Returns whether the set of namespaces has changed.
    pub(super) fn on_event(&mut self, event: WatchEvent) -> bool {
        match event {
            WatchEvent::Listing(_) => {
                self.listing.clear();
                if self.state != State::Known {
                    self.state = State::Listing;
                }
                false
            }
            WatchEvent::Synced(_) => {
                let listed = std::mem::take(&mut self.listing);
                let first = self.state != State::Known;
                self.state = State::Known;
                let changed = listed != self.found;
                self.found = listed;
                changed || first
            }
            WatchEvent::Object(event, raw) => self.namespace(event, &raw.facts().name),
            WatchEvent::Trouble(ClusterError::Denied { .. }) if self.state != State::Known => {
                self.assume();
                let names = self.found.iter().cloned().collect();
                let is_all = self.patterns.as_ref().is_none_or(Patterns::are_names);
                report_of_operator(&Serving::NamespacesAssumed { names, is_all });
                true
            }
            WatchEvent::Resumed | WatchEvent::Silent | WatchEvent::Bookmark | WatchEvent::Trouble(_) => false,
        }
    }

    fn namespace(&mut self, event: EventType, name: &str) -> bool {
        if event == EventType::Deleted {
            self.listing.remove(name);
            return self.found.remove(name);
        }
        let ours = self.patterns.as_ref().is_some_and(|p| p.matches(name));
        if !ours {
            return false;
        }
        if event == EventType::Listed {
            self.listing.insert(name.to_owned());
            return false;
        }
        self.state == State::Known && self.found.insert(name.to_owned())
    }

    fn assume(&mut self) {
        self.state = State::Assumed;
        let literals = self.patterns.iter().flat_map(Patterns::literals);
        self.found = literals.map(str::to_owned).collect();
    }
}

pub(super) fn namespaces() -> Resource {
    Resource::built_in("", "Namespace", false)
}

pub(super) fn custom_resource_definitions() -> Resource {
    Resource::built_in("apiextensions.k8s.io", "CustomResourceDefinition", false)
}

/// Returns where a resource is watched: in each of these namespaces, or cluster-wide (`None`) if the operator serves all or the resource is
/// cluster-scoped.
pub(super) fn places(resource: &Resource, namespaces: Option<&BTreeSet<String>>) -> Vec<Option<String>> {
    match namespaces.filter(|_| resource.namespaced) {
        Some(names) => names.iter().cloned().map(Some).collect(),
        None => vec![None],
    }
}

/// Returns the generation of a definition's `spec`, if the server counts generations.
pub(super) fn generation(definition: &Raw) -> Option<i64> {
    definition.stanza("metadata")?["generation"].as_i64()
}
