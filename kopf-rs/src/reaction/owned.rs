//! The children of one kind as observed by their watch: their owners, and the changes that affect these.
//!
//! A change affects the owners if it touches the fields that the operator has applied, its marks, the owner references, or the deletion. The
//! operator's entry in `managedFields` shows that without a comparison of values. The echo of an own apply wakes no owner. Must not know
//! requests or the desired state of an owner.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::object::child::ChildSight;
use crate::object::event::EventType;
use crate::object::key::{Key, KeySet};
use crate::reaction::children::AppliedFacts;

/// The maximum number of own applies per child that are remembered until the watch shows them. While a watch fails, there may be arbitrarily
/// many, and an unrecognised echo only costs a call.
const OWN: usize = 16;

/// The children of a kind, in one namespace or in all.
#[derive(Debug, Default)]
pub(crate) struct OwnedObjects {
    /// By uid.
    objects: HashMap<String, Seen>,
    /// The uids of the children of each owner, by the owner's uid.
    by_owner: HashMap<String, BTreeSet<String>>,
    /// The uids of children that the operator has released, until the watch shows that.
    gone: BTreeSet<String>,
    /// When the last listing was requested.
    listing: Option<Instant>,
    /// True after a complete listing.
    was_listed: bool,
    /// True while the watch fails.
    is_in_trouble: bool,
    /// The number of times that the operator has taken over from another instance.
    term: u32,
    /// The term in which the last complete listing began: objects that it lacks have not existed since.
    complete_in: Option<u32>,
    /// The term in which the last listing began.
    listed_in: u32,
    /// True if handlers read complete objects: these are then kept, and owners are notified of every change.
    is_read: bool,
}

#[derive(Debug)]
struct Seen {
    sight: ChildSight,
    /// The state after the last own apply.
    applied: Option<String>,
    /// True if another client may have applied other values since.
    is_doubted: bool,
    /// The versions of own applies that the watch has not shown yet.
    own: Vec<String>,
    /// True if the state is known from a response and not from the watch yet, and its writer is unknown.
    is_untold: bool,
    /// When the server answered the last own apply: a listing that was requested before may lack the object.
    answered: Option<Instant>,
    /// The object is at least as new as the beginning of this term.
    term: u32,
}

/// The state of a child after an own apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    /// The digest of its owner-related metadata.
    pub(crate) state: String,
    pub(crate) version: String,
}

/// A notification for an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChildNews {
    /// The owner's uid.
    pub(crate) owner: String,
    pub(crate) child: ChildVersion,
}

/// A version of a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChildVersion {
    pub(crate) uid: String,
    /// `None` if the child is gone.
    pub(crate) version: Option<String>,
}

/// A complete child, if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnownBody {
    /// It must be read from the server.
    Unknown,
    Absent,
    There(Arc<str>),
}

// === impl ===

impl AppliedState {
    pub(crate) fn of(facts: &AppliedFacts) -> Self {
        Self { state: facts.state.clone(), version: facts.resource_version.clone() }
    }
}

impl Seen {
    fn of(sight: ChildSight, term: u32) -> Self {
        Self {
            sight,
            applied: None,
            is_doubted: false,
            own: Vec::new(),
            is_untold: false,
            answered: None,
            term,
        }
    }
}

impl OwnedObjects {
    pub(crate) fn new(is_read: bool) -> Self {
        Self { is_read, ..Self::default() }
    }

    /// Returns true if complete objects are kept.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Begins a listing that was requested at this time.
    pub(crate) fn listing(&mut self, requested: Instant) {
        self.listing = Some(requested);
        self.listed_in = self.term;
    }

    /// Begins a term: the operator has taken over from another instance, whose writes the watch may not have shown yet.
    pub(crate) fn begin_term(&mut self) {
        self.term += 1;
    }

    /// Completes a listing of these objects, and returns notifications about children that it lacks.
    pub(crate) fn synced(&mut self, listed: &KeySet) -> Vec<ChildNews> {
        self.was_listed = true;
        self.complete_in = Some(self.listed_in);
        let is_listed = |uid: &str| listed.contains(&Key::of_uid(uid));
        self.gone.retain(|uid| is_listed(uid));
        let lacking = self.objects.iter();
        let lacking = lacking.filter(|(_, seen)| seen.answered < self.listing);
        let lacking = lacking.filter(|(uid, _)| !is_listed(uid));
        let lacking: Vec<String> = lacking.map(|(uid, _)| uid.clone()).collect();
        let mut woken = BTreeSet::new();
        for uid in lacking {
            let former = self.take(&uid);
            woken.extend(former.into_iter().flat_map(|seen| seen.sight.when_gone()));
        }
        woken.into_iter().collect()
    }

    /// Records whether the watch fails.
    pub(crate) fn trouble(&mut self, is_in_trouble: bool) {
        self.is_in_trouble = is_in_trouble;
    }

    /// Records a child as shown by the watch, and returns notifications for the affected owners.
    pub(crate) fn seen(&mut self, event: EventType, sight: ChildSight) -> Vec<ChildNews> {
        if event == EventType::Deleted {
            return self.left(&sight);
        }
        if self.gone.contains(&sight.uid) {
            return Vec::new();
        }
        let Some(mut known) = self.take(&sight.uid) else {
            // At first, owners are called for themselves and apply their children. But the state that they have read may be older than this
            // listing.
            let woken = if self.was_listed || self.is_read { both(None, &sight) } else { Vec::new() };
            self.put(Seen::of(sight, self.listed_in));
            return woken;
        };
        let is_echo = known.own.contains(&sight.version);
        known.own.retain(|own| order(own, &sight.version) == Ordering::Greater);
        // A foreign write that preceded an own one, whose response arrived first.
        let is_older = order(&sight.version, &known.sight.version) == Ordering::Less;
        if is_older && event == EventType::Listed && known.answered < self.listing {
            // The listing has begun later: the server was restored from a backup, and later writes are lost.
            let woken = both(Some(&known), &sight);
            self.put(Seen { applied: known.applied, is_doubted: true, ..Seen::of(sight, self.listed_in) });
            return woken;
        }
        let is_gap = event == EventType::Listed;
        let is_doubtful = !is_older && sight.hides_an_apply(&known.sight, is_gap);
        let is_news = sight.version != known.sight.version || known.is_untold;
        let is_other = is_older || is_doubtful || sight.state != known.sight.state || self.is_read && is_news;
        let woken = if is_other && !is_echo { both(Some(&known), &sight) } else { Vec::new() };
        if !is_older {
            (known.sight, known.is_untold) = (sight, false);
            known.is_doubted |= is_doubtful;
            // Late watch events may be older than the term. A listing is as new as its beginning, and the following events are newer.
            known.term = known.term.max(self.listed_in);
        }
        self.put(known);
        woken
    }

    /// Records a child that was deleted or has left the selector of the watch.
    fn left(&mut self, sight: &ChildSight) -> Vec<ChildNews> {
        let was_let_go = self.gone.remove(&sight.uid);
        let is_back = |known: &Seen| {
            let is_older = order(&sight.version, &known.sight.version) == Ordering::Less;
            is_older && (known.is_untold || !known.own.is_empty())
        };
        // Its label was removed, and an own apply has restored it since.
        if self.objects.get(&sight.uid).is_some_and(is_back) {
            return Vec::new();
        }
        let former = self.take(&sight.uid);
        if was_let_go {
            return Vec::new();
        }
        let mut woken = both(former.as_ref(), sight);
        for news in &mut woken {
            news.child.version = None;
        }
        woken
    }

    /// Records the response to an own apply, and whether the apply has changed the child. Returns notifications for owners that may read the
    /// change in other ways.
    pub(crate) fn replied(&mut self, sight: ChildSight, changed: bool, now: Instant) -> Vec<ChildNews> {
        let news = if changed && self.is_read { both(None, &sight) } else { Vec::new() };
        self.record_apply(sight, changed, now);
        news
    }

    fn record_apply(&mut self, sight: ChildSight, changed: bool, now: Instant) {
        self.gone.remove(&sight.uid);
        let applied = Some(sight.state.clone());
        let known = match self.take(&sight.uid) {
            Some(known) if order(&sight.version, &known.sight.version) == Ordering::Less => {
                self.put(Seen { applied, answered: Some(now), term: self.term, ..known });
                return;
            }
            known => known,
        };
        let mut own: Vec<String> = changed.then(|| sight.version.clone()).into_iter().collect();
        let is_told = |it: &Seen| it.sight.version == sight.version && !it.is_untold;
        let is_untold = !changed && !known.as_ref().is_some_and(is_told);
        own.extend(known.into_iter().flat_map(|seen| seen.own));
        own.truncate(OWN);
        self.put(Seen { applied, answered: Some(now), own, is_untold, ..Seen::of(sight, self.term) });
    }

    /// Records that the operator has deleted or released a child, which the watch may still show for a while. Returns notifications for
    /// owners that may still read it in other ways.
    pub(crate) fn let_go(&mut self, uid: &str) -> Vec<ChildNews> {
        let former = self.take(uid).filter(|_| self.is_read);
        // A failing watch may never recover. If it does, it may wake an owner unnecessarily.
        if !self.is_in_trouble {
            self.gone.insert(uid.to_owned());
        }
        let news = former.into_iter().flat_map(|seen| seen.sight.when_gone());
        news.collect()
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

    fn put(&mut self, mut seen: Seen) {
        let sight = &mut seen.sight;
        // The managers matter only for a child that differs from its applied state.
        if seen.applied.as_ref().is_none_or(|it| *it == sight.state) {
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
        self.objects.insert(uid, seen);
    }

    /// Returns true if all children are known, except for events in transit.
    pub(crate) fn is_current(&self) -> bool {
        self.was_listed && !self.is_in_trouble
    }

    /// Returns a child if it is known.
    pub(crate) fn get(&self, uid: &str) -> Option<&ChildSight> {
        self.objects.get(uid).map(|seen| &seen.sight)
    }

    /// Returns true if a child is still in the state of an own apply, so that all applied fields have the same values. Observations from
    /// before another instance's term do not count.
    pub(crate) fn is_intact(&self, uid: &str, applied: &AppliedState) -> bool {
        let seen = self.objects.get(uid).filter(|it| it.term == self.term);
        seen.is_some_and(|it| {
            let is_last = !it.is_doubted && it.applied.as_ref() == Some(&applied.state);
            it.sight.state == applied.state && (is_last || it.sight.version == applied.version)
        })
    }

    /// Returns the managers of a child that differs from its applied state.
    pub(crate) fn take_managers(&mut self, uid: &str) -> Option<Value> {
        let seen = self.objects.get_mut(uid)?;
        mem::take(&mut seen.sight.managers)
    }

    /// Returns the children of an owner that were applied with this set.
    pub(crate) fn of_set<'a>(&'a self, owner: &str, set: &'a str) -> impl Iterator<Item = &'a ChildSight> {
        let of_set = move |it: &&ChildSight| it.set.as_deref() == Some(set) && !it.terminating;
        self.of_owner(owner).map(|it| &it.sight).filter(of_set)
    }

    /// Returns a child of an owner that is never older than an own write, or than a write of the instance that was active before.
    pub(crate) fn body(&self, owner: &str, namespace: Option<&str>, name: &str) -> KnownBody {
        if !self.is_current() {
            return KnownBody::Unknown;
        }
        let Some(seen) = self.child(owner, namespace, name) else {
            return if self.complete_in == Some(self.term) { KnownBody::Absent } else { KnownBody::Unknown };
        };
        if seen.term != self.term {
            return KnownBody::Unknown;
        }
        // Versions that are not numbers cannot be ordered.
        let is_told = seen.own.is_empty() && !seen.is_untold;
        let is_sure = is_told || is_number(&seen.sight.version);
        match &seen.sight.body {
            Some(body) if is_sure => KnownBody::There(body.clone()),
            _ => KnownBody::Unknown,
        }
    }

    /// Returns a child of an owner.
    pub(crate) fn named(&self, owner: &str, namespace: Option<&str>, name: &str) -> Option<&ChildSight> {
        self.child(owner, namespace, name).map(|seen| &seen.sight)
    }

    fn child(&self, owner: &str, namespace: Option<&str>, name: &str) -> Option<&Seen> {
        self.of_owner(owner).find(|it| it.sight.name == name && it.sight.namespace.as_deref() == namespace)
    }

    fn of_owner(&self, owner: &str) -> impl Iterator<Item = &Seen> {
        let uids = self.by_owner.get(owner).into_iter().flatten();
        uids.filter_map(|uid| self.objects.get(uid))
    }
}

impl ChildSight {
    /// Returns the notifications for its owners when it is gone.
    fn when_gone(self) -> impl Iterator<Item = ChildNews> {
        let uid = self.uid;
        self.owners
            .into_iter()
            .map(move |owner| ChildNews { owner, child: ChildVersion { uid: uid.clone(), version: None } })
    }
}

/// Returns notifications for the former and current owners of a child.
fn both(former: Option<&Seen>, sight: &ChildSight) -> Vec<ChildNews> {
    let former = former.into_iter().flat_map(|seen| &seen.sight.owners);
    let owners: BTreeSet<&String> = former.chain(&sight.owners).collect();
    let news = |owner: &String| ChildNews {
        owner: owner.clone(),
        child: ChildVersion { uid: sight.uid.clone(), version: Some(sight.version.clone()) },
    };
    owners.into_iter().map(news).collect()
}

/// Compares versions, which are decimal numbers of any length. Other versions count as newer unless they are equal.
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
