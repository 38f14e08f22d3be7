//! The children of one kind, as their watch tells of them: whose they are, and which changes concern their owners.
//!
//! A change concerns the owners where it touches what the operator has applied, its marks, the references, or the deletion: what is noted of the
//! operator's own applies (`managedFields`) tells that without a look at any value. Nobody is woken by the echo of an own apply. Must not know
//! requests, nor what an owner wants.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use crate::object::child::ChildSight;
use crate::object::event::EventType;

/// The children of a kind, in one namespace or in all.
#[derive(Debug, Default)]
pub(crate) struct OwnedObjects {
    /// By uid.
    objects: HashMap<String, Seen>,
    /// What a listing under way has shown so far.
    listed: Option<BTreeSet<String>>,
    /// All that are there have been listed once.
    was_listed: bool,
    /// The watch cannot go on for now.
    is_in_trouble: bool,
    /// Owners are told of every change: they read more than what they apply.
    is_read: bool,
}

#[derive(Debug)]
struct Seen {
    sight: ChildSight,
    /// The versions of own applies that the watch has not told of yet.
    own: Vec<String>,
}

// === impl ===

impl OwnedObjects {
    pub(crate) fn new(is_read: bool) -> Self {
        Self {
            is_read,
            ..Self::default()
        }
    }

    /// A listing begins.
    pub(crate) fn listing(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// A listing is complete: the owners of those that it lacks.
    pub(crate) fn synced(&mut self) -> Vec<String> {
        self.was_listed = true;
        let Some(listed) = self.listed.take() else {
            return Vec::new();
        };
        let mut woken = BTreeSet::new();
        self.objects.retain(|uid, seen| {
            let is_there = listed.contains(uid);
            if !is_there {
                woken.extend(seen.sight.owners.iter().cloned());
            }
            is_there
        });
        woken.into_iter().collect()
    }

    /// Whether the watch goes on.
    pub(crate) fn trouble(&mut self, is_in_trouble: bool) {
        self.is_in_trouble = is_in_trouble;
    }

    /// A child as the watch shows it: the owners that it concerns.
    pub(crate) fn seen(&mut self, event: EventType, sight: ChildSight) -> Vec<String> {
        if event == EventType::Deleted {
            let former = self.objects.remove(&sight.uid);
            return both(former.as_ref(), &sight);
        }
        if let Some(listed) = &mut self.listed {
            listed.insert(sight.uid.clone());
        }
        let Some(known) = self.objects.get_mut(&sight.uid) else {
            // Owners are called for themselves at first.
            let woken = if self.was_listed {
                sight.owners.clone()
            } else {
                Vec::new()
            };
            let own = Vec::new();
            self.objects.insert(sight.uid.clone(), Seen { sight, own });
            return woken;
        };
        let is_echo = known.own.contains(&sight.version);
        known
            .own
            .retain(|own| order(own, &sight.version) == Ordering::Greater);
        // A foreign write that came in before an own one, of which the answer was there first.
        let is_older = order(&sight.version, &known.sight.version) == Ordering::Less;
        let is_other = is_older
            || sight.state != known.sight.state
            || self.is_read && sight.version != known.sight.version;
        let woken = if is_other && !is_echo {
            both(Some(known), &sight)
        } else {
            Vec::new()
        };
        if !is_older {
            known.sight = sight;
        }
        woken
    }

    /// The answer to an own apply, which has changed the child or not.
    pub(crate) fn replied(&mut self, sight: ChildSight, changed: bool) {
        if let Some(listed) = &mut self.listed {
            listed.insert(sight.uid.clone());
        }
        let own: Vec<String> = changed.then(|| sight.version.clone()).into_iter().collect();
        match self.objects.get_mut(&sight.uid) {
            Some(known) if order(&sight.version, &known.sight.version) == Ordering::Less => {}
            Some(known) => {
                known.own.extend(own);
                known.sight = sight;
            }
            None => {
                self.objects.insert(sight.uid.clone(), Seen { sight, own });
            }
        }
    }

    /// Whether all children are known as they are, but for what is on its way.
    pub(crate) fn is_current(&self) -> bool {
        self.was_listed && !self.is_in_trouble
    }

    /// A child, where it is known.
    pub(crate) fn get(&self, uid: &str) -> Option<&ChildSight> {
        self.objects.get(uid).map(|seen| &seen.sight)
    }
}

/// The owners of a child before and now.
fn both(former: Option<&Seen>, sight: &ChildSight) -> Vec<String> {
    let former = former.into_iter().flat_map(|seen| &seen.sight.owners);
    let owners: BTreeSet<&String> = former.chain(&sight.owners).collect();
    owners.into_iter().cloned().collect()
}

/// Versions are decimal numbers of any length; of others, only the same one is not newer.
fn order(one: &str, other: &str) -> Ordering {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if one == other {
        Ordering::Equal
    } else if is_number(one) && is_number(other) {
        one.len().cmp(&other.len()).then_with(|| one.cmp(other))
    } else {
        Ordering::Greater
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(version: &str, state: &str, owner: &str) -> ChildSight {
        ChildSight {
            uid: "c".to_owned(),
            version: version.to_owned(),
            owners: vec![owner.to_owned()],
            state: state.to_owned(),
            terminating: false,
        }
    }

    /// A kind with one child, at version 5.
    fn settled() -> OwnedObjects {
        let mut owned = OwnedObjects::new(false);
        owned.listing();
        assert!(
            owned
                .seen(EventType::Listed, sight("5", "a", "o"))
                .is_empty()
        );
        assert!(owned.synced().is_empty() && owned.is_current());
        owned
    }

    #[test]
    fn owners_are_told_of_what_concerns_them() {
        use EventType::{Added, Deleted, Modified};
        for (event, seen, expected) in [
            // Its status, say.
            (Modified, sight("6", "a", "o"), &[][..]),
            (Modified, sight("6", "b", "o"), &["o"]),
            (Modified, sight("6", "b", "p"), &["o", "p"]),
            (Deleted, sight("6", "a", "o"), &["o"]),
            (Added, sight("6", "a", "o"), &[]),
        ] {
            assert_eq!(settled().seen(event, seen.clone()), expected, "{seen:?}");
        }
        let mut read = OwnedObjects::new(true);
        read.listing();
        read.seen(EventType::Listed, sight("5", "a", "o"));
        read.synced();
        assert_eq!(read.seen(Modified, sight("6", "a", "o")), ["o"]);
    }

    #[test]
    fn an_own_apply_has_no_echo_and_hides_nothing_else() {
        use EventType::Modified;
        let mut owned = settled();
        owned.replied(sight("7", "b", "o"), true);
        // Somebody else was in between.
        assert_eq!(owned.seen(Modified, sight("6", "x", "o")), ["o"]);
        assert!(owned.seen(Modified, sight("7", "b", "o")).is_empty());
        assert_eq!(owned.seen(Modified, sight("8", "a", "o")), ["o"]);
        // An apply that changes nothing is answered with the version of somebody else's write.
        let mut owned = settled();
        owned.replied(sight("6", "a", "o"), false);
        assert!(owned.seen(Modified, sight("6", "a", "o")).is_empty());
        let mut owned = settled();
        owned.replied(sight("10", "b", "o"), true);
        assert!(owned.seen(Modified, sight("10", "b", "o")).is_empty());
    }

    #[test]
    fn what_a_listing_lacks_is_gone() {
        let mut owned = settled();
        owned.trouble(true);
        assert!(!owned.is_current());
        owned.trouble(false);
        owned.listing();
        let mut made = sight("9", "a", "p");
        made.uid = "d".to_owned();
        owned.replied(made, true);
        assert_eq!(owned.synced(), ["o"]);
        assert!(owned.get("c").is_none() && owned.get("d").is_some());
    }
}
