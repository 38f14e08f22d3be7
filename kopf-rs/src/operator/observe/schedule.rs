//! Decides when to repeat discovery.
//!
//! Pure: takes events and the time, returns the time of the next discovery. Guarantees that a failed discovery is always repeated, and that
//! no event causes discoveries in a hot loop. Must not know how discovery works, nor log anything.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::object::resource::Resource;

/// The pause between an announcement and the discovery that follows it. Announcements within the pause coalesce.
const SOON: Duration = Duration::from_millis(100);
/// The number of discoveries that follow an announcement, because servers announce a definition a moment before they serve its resources.
const LOOKS: u32 = 6;
/// The pause before one more discovery after a successful one, which may have come before the server knew the announced kinds.
const CONFIRMATION: Duration = Duration::from_secs(3);
/// The number of times that the pause before a discovery after a missing resource is doubled: up to 51 seconds.
const DOUBLINGS: u32 = 9;

/// An event that affects the schedule.
#[derive(Clone, Debug)]
pub(super) enum Event<'a> {
    /// A listing of the definitions begins.
    DefinitionsListing,
    /// A definition exists, whether it is new or not. Discovery may have found its resources already.
    DefinitionExists {
        name: &'a str,
        is_served: bool,
    },
    DefinitionDeleted {
        name: &'a str,
    },
    /// The listing of the definitions is complete.
    DefinitionsListed,
    /// Definitions cannot be watched: RBAC forbids it, or the server has none.
    DefinitionsUnwatchable,
    /// The server has answered a watch of a served resource with 404.
    ResourceMissing,
    /// A discovery begins.
    Discovering,
    /// A discovery has found these resources; some handlers may still have no resource.
    Discovered {
        resources: &'a [Resource],
        is_unresolved: bool,
    },
    /// A discovery has failed; it has to be repeated after this pause.
    Failed {
        pause: Duration,
        is_transient: bool,
    },
}

/// How the definitions of custom resources are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Definitions {
    Listing,
    Watched,
    Unwatchable,
    /// The settings disable it.
    Ignored,
}

/// Decides when to discover.
#[derive(Debug)]
pub(super) struct DiscoverySchedule {
    /// The interval of discovery if definitions cannot be watched.
    interval: Duration,
    definitions: Definitions,
    /// Definitions (`plural.group`) whose resources discovery has not found yet.
    announced: BTreeSet<String>,
    /// Some handlers are for resources that are not served or ambiguous.
    is_unresolved: bool,
    next: Option<Instant>,
    /// The number of discoveries still due for the last announcement.
    looks: u32,
    /// The number of missing resources since the last announcement.
    missing: u32,
    is_failing: bool,
}

impl DiscoverySchedule {
    pub(super) fn new(interval: Duration, scanning: bool) -> Self {
        Self {
            interval,
            definitions: if scanning { Definitions::Listing } else { Definitions::Ignored },
            announced: BTreeSet::new(),
            is_unresolved: false,
            next: None,
            looks: 0,
            missing: 0,
            is_failing: false,
        }
    }

    /// Processes an event. Returns the time of the next discovery, unless another event changes it.
    pub(super) fn on(&mut self, event: &Event<'_>, now: Instant) -> Option<Instant> {
        match event {
            Event::DefinitionsListing => self.announced.clear(),
            Event::DefinitionExists { name, is_served } => {
                if !is_served {
                    self.announced.insert((*name).to_owned());
                }
                self.definition_has_changed(now);
            }
            Event::DefinitionDeleted { name } => {
                self.announced.remove(*name);
                self.definition_has_changed(now);
            }
            Event::DefinitionsListed => {
                self.definitions = Definitions::Watched;
                if self.is_unresolved {
                    let is_coming = !self.announced.is_empty();
                    self.look(if is_coming { LOOKS / 2 } else { 1 }, now);
                }
            }
            Event::DefinitionsUnwatchable => {
                self.definitions = Definitions::Unwatchable;
                self.next.get_or_insert(now + self.interval);
            }
            Event::ResourceMissing => {
                let pause = SOON * 2_u32.pow(self.missing.min(DOUBLINGS));
                self.missing = self.missing.saturating_add(1);
                self.at_the_latest(now + pause);
            }
            Event::Discovering => self.next = None,
            Event::Discovered { resources, is_unresolved } => {
                self.announced.retain(|name| !is_served(name, resources));
                self.is_unresolved = *is_unresolved;
                self.discovered(now);
            }
            Event::Failed { pause, is_transient } => {
                self.is_failing = true;
                if !is_transient {
                    self.looks = self.looks.saturating_sub(1);
                }
                self.next = Some(now + *pause);
            }
        }
        self.next
    }

    /// Returns whether the definitions are known, and no announced resource that handlers wait for is missing.
    pub(super) fn is_settled(&self) -> bool {
        let is_coming = self.is_unresolved && !self.announced.is_empty() && self.looks > 0;
        let is_missing = (1..=LOOKS).contains(&self.missing);
        match self.definitions {
            Definitions::Listing => false,
            Definitions::Unwatchable => true,
            Definitions::Watched | Definitions::Ignored => self.next.is_none() || !(is_coming || is_missing),
        }
    }

    /// Schedules discoveries after a change. The first listing only repeats the results of discovery, so it does not count.
    fn definition_has_changed(&mut self, now: Instant) {
        if self.definitions == Definitions::Watched {
            self.missing = 0;
            self.look(LOOKS, now);
        }
    }

    fn look(&mut self, looks: u32, now: Instant) {
        self.looks = self.looks.max(looks);
        // The back-off of a failing server stays in force.
        if !self.is_failing {
            self.at_the_latest(now + SOON);
        }
    }

    fn at_the_latest(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    fn discovered(&mut self, now: Instant) {
        self.is_failing = false;
        self.looks = self.looks.saturating_sub(1);
        if self.looks > 0 && self.is_unresolved {
            self.at_the_latest(now + SOON * 2_u32.pow(LOOKS.saturating_sub(self.looks)));
        } else if self.looks > 0 {
            self.looks = 1;
            self.at_the_latest(now + CONFIRMATION);
        } else if self.definitions == Definitions::Unwatchable {
            self.at_the_latest(now + self.interval);
        }
    }
}

/// Returns whether the resources of a definition (`plural.group`) are among `resources`.
pub(super) fn is_served(definition: &str, resources: &[Resource]) -> bool {
    resources.iter().any(|resource| {
        let group = definition.strip_prefix(resource.plural.as_str());
        group.and_then(|rest| rest.strip_prefix('.')) == Some(&resource.group)
    })
}

#[cfg(test)]
mod tests;
