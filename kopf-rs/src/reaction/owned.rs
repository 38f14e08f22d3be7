//! The children of one kind, as their watch tells of them: whose they are, and which changes concern their owners.
//!
//! A change concerns the owners where it touches what the operator has applied, its marks, the references, or the deletion: what is noted of the
//! operator's own applies (`managedFields`) tells that without a look at any value. Nobody is woken by the echo of an own apply. Must not know
//! requests, nor what an owner wants.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;

use serde_json::Value;

use crate::object::child::ChildSight;
use crate::object::event::EventType;

/// So many own applies of one child are remembered until the watch tells of them. Of a child whose watch is in trouble there may be any number, and an
/// echo that is not known as one costs a call.
const OWN: usize = 16;

/// The children of a kind, in one namespace or in all.
#[derive(Debug, Default)]
pub(crate) struct OwnedObjects {
    /// By uid.
    objects: HashMap<String, Seen>,
    /// The uids of the children of each owner, by its uid.
    by_owner: HashMap<String, BTreeSet<String>>,
    /// The uids of those that the operator has let go, until the watch tells so.
    gone: BTreeSet<String>,
    /// What a listing under way has shown so far.
    listed: Option<BTreeSet<String>>,
    /// How many listings have begun.
    listings: u32,
    /// All that are there have been listed once.
    was_listed: bool,
    /// The watch cannot go on for now.
    is_in_trouble: bool,
    /// Handlers read whole objects: they are kept, and owners are told of every change.
    is_read: bool,
}

#[derive(Debug)]
struct Seen {
    sight: ChildSight,
    /// The state after the last own apply.
    applied: Option<String>,
    /// The versions of own applies that the watch has not told of yet.
    own: Vec<String>,
    /// How many listings had begun by then.
    listings: u32,
}

/// A whole child, where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnownBody {
    /// The server has to say.
    Unknown,
    Absent,
    There(Arc<str>),
}

// === impl ===

impl OwnedObjects {
    pub(crate) fn new(is_read: bool) -> Self {
        Self {
            is_read,
            ..Self::default()
        }
    }

    /// Whether whole objects are kept.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// A listing begins.
    pub(crate) fn listing(&mut self) {
        self.listed = Some(BTreeSet::new());
        self.listings += 1;
    }

    /// A listing is complete: the owners of those that it lacks.
    pub(crate) fn synced(&mut self) -> Vec<String> {
        self.was_listed = true;
        let Some(listed) = self.listed.take() else {
            return Vec::new();
        };
        self.gone.retain(|uid| listed.contains(uid));
        let uids = self.objects.keys();
        let lacking: Vec<String> = uids.filter(|uid| !listed.contains(*uid)).cloned().collect();
        let mut woken = BTreeSet::new();
        for uid in lacking {
            let former = self.take(&uid);
            woken.extend(former.into_iter().flat_map(|seen| seen.sight.owners));
        }
        woken.into_iter().collect()
    }

    /// Whether the watch goes on.
    pub(crate) fn trouble(&mut self, is_in_trouble: bool) {
        self.is_in_trouble = is_in_trouble;
    }

    /// A child as the watch shows it: the owners that it concerns.
    pub(crate) fn seen(&mut self, event: EventType, sight: ChildSight) -> Vec<String> {
        if event == EventType::Deleted {
            return self.left(&sight);
        }
        if let Some(listed) = &mut self.listed {
            listed.insert(sight.uid.clone());
        }
        if self.gone.contains(&sight.uid) {
            return Vec::new();
        }
        let Some(mut known) = self.take(&sight.uid) else {
            // Owners are called for themselves at first.
            let woken = if self.was_listed {
                sight.owners.clone()
            } else {
                Vec::new()
            };
            self.put(sight, None, Vec::new());
            return woken;
        };
        let is_echo = known.own.contains(&sight.version);
        known
            .own
            .retain(|own| order(own, &sight.version) == Ordering::Greater);
        // A foreign write that came in before an own one, of which the answer was there first.
        let is_older = order(&sight.version, &known.sight.version) == Ordering::Less;
        if is_older && event == EventType::Listed && known.listings < self.listings {
            // The listing has begun since: the server was restored from a copy, and what was written later is no more.
            let woken = both(Some(&known), &sight);
            self.put(sight, known.applied, Vec::new());
            return woken;
        }
        let is_other = is_older
            || sight.state != known.sight.state
            || self.is_read && sight.version != known.sight.version;
        let woken = if is_other && !is_echo {
            both(Some(&known), &sight)
        } else {
            Vec::new()
        };
        let newest = if is_older { known.sight } else { sight };
        self.put(newest, known.applied, known.own);
        woken
    }

    /// A child that is gone, or has left the selector of the watch.
    fn left(&mut self, sight: &ChildSight) -> Vec<String> {
        let was_let_go = self.gone.remove(&sight.uid);
        let is_back = |known: &Seen| {
            let is_older = order(&sight.version, &known.sight.version) == Ordering::Less;
            is_older && !known.own.is_empty()
        };
        // Its label was taken out, and an own apply has brought it back since.
        if self.objects.get(&sight.uid).is_some_and(is_back) {
            return Vec::new();
        }
        let former = self.take(&sight.uid);
        if was_let_go {
            Vec::new()
        } else {
            both(former.as_ref(), sight)
        }
    }

    /// The answer to an own apply, which has changed the child or not.
    pub(crate) fn replied(&mut self, sight: ChildSight, changed: bool) {
        if let Some(listed) = &mut self.listed {
            listed.insert(sight.uid.clone());
        }
        self.gone.remove(&sight.uid);
        let mut own: Vec<String> = changed.then(|| sight.version.clone()).into_iter().collect();
        let applied = Some(sight.state.clone());
        match self.take(&sight.uid) {
            Some(known) if order(&sight.version, &known.sight.version) == Ordering::Less => {
                self.put(known.sight, applied, known.own);
            }
            known => {
                own.extend(known.into_iter().flat_map(|seen| seen.own));
                own.truncate(OWN);
                self.put(sight, applied, own);
            }
        }
    }

    /// The operator has deleted a child, or has let it go: the watch may show it for a while.
    pub(crate) fn let_go(&mut self, uid: &str) {
        drop(self.take(uid));
        self.gone.insert(uid.to_owned());
    }

    fn take(&mut self, uid: &str) -> Option<Seen> {
        let seen = self.objects.remove(uid)?;
        if let Some(owner) = &seen.sight.owner
            && let Some(children) = self.by_owner.get_mut(owner)
        {
            children.remove(uid);
            if children.is_empty() {
                self.by_owner.remove(owner);
            }
        }
        Some(seen)
    }

    fn put(&mut self, mut sight: ChildSight, applied: Option<String>, own: Vec<String>) {
        // Whose fields these are is asked only of a child that is not as it was applied.
        if applied.as_ref().is_none_or(|state| *state == sight.state) {
            sight.managers = None;
        }
        if !self.is_read {
            sight.body = None;
        }
        let uid = sight.uid.clone();
        if let Some(owner) = sight.owner.clone() {
            let children = self.by_owner.entry(owner).or_default();
            children.insert(uid.clone());
        }
        let seen = Seen {
            sight,
            applied,
            own,
            listings: self.listings,
        };
        self.objects.insert(uid, seen);
    }

    /// Whether all children are known as they are, but for what is on its way.
    pub(crate) fn is_current(&self) -> bool {
        self.was_listed && !self.is_in_trouble
    }

    /// A child, where it is known.
    pub(crate) fn get(&self, uid: &str) -> Option<&ChildSight> {
        self.objects.get(uid).map(|seen| &seen.sight)
    }

    /// The managers of a child that is not as it was applied.
    pub(crate) fn take_managers(&mut self, uid: &str) -> Option<Value> {
        let seen = self.objects.get_mut(uid)?;
        mem::take(&mut seen.sight.managers)
    }

    /// The children of an owner that were applied with this set.
    pub(crate) fn of_set<'a>(
        &'a self,
        owner: &str,
        set: &'a str,
    ) -> impl Iterator<Item = &'a ChildSight> {
        let of_set = move |it: &&ChildSight| it.set.as_deref() == Some(set) && !it.terminating;
        self.of_owner(owner).map(|it| &it.sight).filter(of_set)
    }

    /// A child of an owner, never older than an own write.
    pub(crate) fn body(&self, owner: &str, namespace: Option<&str>, name: &str) -> KnownBody {
        if !self.is_current() {
            return KnownBody::Unknown;
        }
        let Some(seen) = self.child(owner, namespace, name) else {
            return KnownBody::Absent;
        };
        // Of two versions that are no numbers, nobody can tell the newer one.
        let is_sure = seen.own.is_empty() || is_number(&seen.sight.version);
        match &seen.sight.body {
            Some(body) if is_sure => KnownBody::There(body.clone()),
            _ => KnownBody::Unknown,
        }
    }

    /// A child of an owner.
    pub(crate) fn named(
        &self,
        owner: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<&ChildSight> {
        self.child(owner, namespace, name).map(|seen| &seen.sight)
    }

    fn child(&self, owner: &str, namespace: Option<&str>, name: &str) -> Option<&Seen> {
        self.of_owner(owner)
            .find(|it| it.sight.name == name && it.sight.namespace.as_deref() == namespace)
    }

    fn of_owner(&self, owner: &str) -> impl Iterator<Item = &Seen> {
        let uids = self.by_owner.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.objects.get(uid))
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
    if one == other {
        Ordering::Equal
    } else if is_number(one) && is_number(other) {
        one.len().cmp(&other.len()).then_with(|| one.cmp(other))
    } else {
        Ordering::Greater
    }
}

fn is_number(version: &str) -> bool {
    !version.is_empty() && version.bytes().all(|it| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(version: &str, state: &str, owner: &str) -> ChildSight {
        ChildSight {
            name: "child".to_owned(),
            namespace: None,
            uid: "c".to_owned(),
            version: version.to_owned(),
            owners: vec![owner.to_owned()],
            owner: Some(owner.to_owned()),
            set: Some("keep".to_owned()),
            state: state.to_owned(),
            terminating: false,
            managers: Some(Value::Null),
            body: Some(version.into()),
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
    fn a_watch_in_trouble_does_not_let_memory_grow() {
        let mut owned = settled();
        owned.trouble(true);
        for version in 6..1006 {
            owned.replied(sight(&version.to_string(), "b", "o"), true);
        }
        assert_eq!(owned.objects["c"].own.len(), OWN);
        owned.trouble(false);
        let newest = sight("1005", "b", "o");
        assert!(owned.seen(EventType::Modified, newest).is_empty());
    }

    #[test]
    fn a_listing_of_a_restored_server_counts_although_its_versions_are_older() {
        let mut owned = OwnedObjects::new(true);
        owned.listing();
        owned.synced();
        owned.replied(sight("70", "b", "o"), true);
        // One that was under way may be older than the write.
        owned.listing();
        owned.replied(sight("71", "b", "o"), true);
        owned.seen(EventType::Listed, sight("60", "a", "o"));
        owned.synced();
        assert_eq!(
            owned.body("o", None, "child"),
            KnownBody::There("71".into())
        );
        owned.listing();
        assert_eq!(owned.seen(EventType::Listed, sight("50", "a", "o")), ["o"]);
        owned.synced();
        assert_eq!(
            owned.body("o", None, "child"),
            KnownBody::There("50".into())
        );
        assert_eq!(owned.get("c").map(|it| &*it.state), Some("a"));
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

    #[test]
    fn a_child_that_was_let_go_is_seen_no_more() {
        use EventType::{Added, Deleted, Modified};
        let mut owned = settled();
        owned.let_go("c");
        assert_eq!(owned.of_set("o", "keep").count(), 0);
        for (event, version) in [(Modified, "6"), (Deleted, "7")] {
            assert!(owned.seen(event, sight(version, "b", "o")).is_empty());
            assert!(owned.get("c").is_none());
        }
        // Whatever else has this uid now is somebody's again.
        assert_eq!(owned.seen(Added, sight("8", "a", "o")), ["o"]);
        assert_eq!(owned.of_set("o", "keep").count(), 1);
        assert_eq!(owned.of_set("o", "other").count(), 0);
    }

    #[test]
    fn a_child_that_was_labelled_again_has_not_gone() {
        use EventType::{Added, Deleted};
        let mut owned = settled();
        owned.replied(sight("7", "a", "o"), true);
        assert!(owned.seen(Deleted, sight("6", "a", "o")).is_empty());
        assert!(owned.get("c").is_some());
        assert!(owned.seen(Added, sight("7", "a", "o")).is_empty());
    }

    #[test]
    fn what_is_read_is_never_older_than_an_own_write() {
        use EventType::{Deleted, Modified};
        let read = |owned: &OwnedObjects| owned.body("o", None, "child");
        assert_eq!(read(&settled()), KnownBody::Unknown);
        let mut owned = OwnedObjects::new(true);
        assert_eq!(read(&owned), KnownBody::Unknown);
        owned.listing();
        owned.seen(EventType::Listed, sight("5", "a", "o"));
        owned.synced();
        assert_eq!(read(&owned), KnownBody::There("5".into()));
        owned.replied(sight("9", "b", "o"), true);
        owned.seen(Modified, sight("6", "x", "o"));
        assert_eq!(read(&owned), KnownBody::There("9".into()));
        owned.trouble(true);
        assert_eq!(read(&owned), KnownBody::Unknown);
        owned.trouble(false);
        owned.replied(sight("b5", "b", "o"), true);
        owned.seen(Modified, sight("a9", "x", "o"));
        assert_eq!(read(&owned), KnownBody::Unknown);
        owned.seen(Deleted, sight("c", "x", "o"));
        assert_eq!(read(&owned), KnownBody::Absent);
    }

    #[test]
    fn managers_are_kept_while_a_child_is_not_as_it_was_applied() {
        use EventType::Modified;
        let mut owned = settled();
        assert_eq!(owned.take_managers("c"), None);
        owned.replied(sight("7", "b", "o"), true);
        assert_eq!(owned.take_managers("c"), None);
        owned.seen(Modified, sight("8", "x", "o"));
        assert_eq!(owned.take_managers("c"), Some(Value::Null));
        assert_eq!(owned.take_managers("c"), None);
    }
}
