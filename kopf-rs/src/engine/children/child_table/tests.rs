use std::cell::Cell;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cluster::error::ClusterError;
use crate::object::key::KeySet;

/// Returns a time that is later than all times that this test has got before.
fn later() -> Instant {
    thread_local!(static LAST: Cell<Instant> = Cell::new(Instant::now()));
    LAST.set(LAST.get() + Duration::from_secs(1));
    LAST.get()
}

/// A watch of children.
struct OwnedObjects(ChildTable);

impl OwnedObjects {
    fn new(is_read: bool) -> Self {
        let mut children = ChildTable::default();
        let of = Collection { resource: Arc::default(), namespace: None };
        children.open(1, Arc::new(of), is_read, None);
        Self(children)
    }

    fn event(&mut self, event: &WatchEvent) -> Vec<ChildNews> {
        self.0.on_event(1, event, later()).expect("an open watch")
    }

    fn listing(&mut self, requested: Instant) {
        assert!(self.event(&WatchEvent::Listing(requested)).is_empty());
    }

    fn synced(&mut self, listed: &KeySet) -> Vec<ChildNews> {
        self.event(&WatchEvent::Synced(listed.clone()))
    }

    fn trouble(&mut self, is_in_trouble: bool) {
        let trouble = WatchEvent::Trouble(ClusterError::Unreachable(String::new()));
        self.event(if is_in_trouble { &trouble } else { &WatchEvent::Resumed });
    }

    fn seen(&mut self, event: EventType, sight: ChildSight) -> Vec<ChildNews> {
        self.0.seen(1, event, sight)
    }

    fn replied(&mut self, sight: ChildSight, changed: bool, now: Instant) {
        let found = json!({"metadata": {"resourceVersion": sight.version}});
        self.0.replied(&child(), (sight, &found), changed, now);
    }

    fn let_go(&mut self, uid: &str) {
        self.0.let_go(&child(), uid);
    }

    fn is_current(&self) -> bool {
        self.0.watch(1).is_some_and(Watch::is_current)
    }

    fn is_intact(&self, uid: &str, applied: &AppliedState) -> bool {
        self.0.is_intact(uid, applied)
    }

    fn get(&self, uid: &str) -> Option<&ChildSight> {
        self.0.get(uid)
    }

    fn of_set(&self, owner: &str, set: &str) -> usize {
        let [owner, name] = [owner, set].map(str::to_owned);
        self.0.left_over(&ChildSet { owner, name, wanted: BTreeSet::new() }).count()
    }

    /// Returns the version of the whole child. A list of the owner's children agrees, unless it needs a complete listing of the present term.
    fn body(&self) -> KnownBody {
        let known = self.0.body(&child(), &Resource::default(), "o");
        let listed = self.0.bodies(&[1], &Resource::default(), "o");
        let agrees = match &known {
            KnownBody::Unknown => listed.is_none(),
            KnownBody::Absent => listed.as_ref().is_some_and(Vec::is_empty),
            KnownBody::There(body) => listed.as_ref().is_none_or(|it| *it == [body.clone()]),
        };
        assert!(agrees, "{known:?}, {listed:?}");
        let KnownBody::There(body) = &known else {
            return known;
        };
        match serde_json::from_str(body) {
            Ok(Value::Object(found)) => {
                KnownBody::There(found["metadata"]["resourceVersion"].as_str().unwrap().into())
            }
            _ => known,
        }
    }
}

fn child() -> ChildName {
    ChildName { group: String::new(), kind: String::new(), namespace: None, name: "child".to_owned() }
}

/// Returns the notified owners.
fn told(news: &[ChildNews]) -> Vec<&str> {
    news.iter().map(|it| &*it.owner).collect()
}

/// Returns a listing of the child.
fn shown() -> KeySet {
    KeySet::from_iter([Key::of_uid("c")])
}

fn sight(version: &str, state: &str, owner: &str) -> ChildSight {
    ChildSight {
        name: "child".to_owned(),
        namespace: None,
        uid: "c".to_owned(),
        version: version.to_owned(),
        noted: state.to_owned(),
        others: "x".to_owned(),
        generation: Some(1),
        owners: vec![owner.to_owned()],
        owner: Some(owner.to_owned()),
        set: Some("keep".to_owned()),
        state: state.to_owned(),
        terminating: false,
        managers: Some(Value::Null),
        body: Some(version.into()),
    }
}

/// Returns a kind with one child at version 5.
fn settled() -> OwnedObjects {
    let mut owned = OwnedObjects::new(false);
    owned.listing(later());
    assert!(owned.seen(EventType::Listed, sight("5", "a", "o")).is_empty());
    assert!(owned.synced(&shown()).is_empty() && owned.is_current());
    owned
}

#[test]
fn owners_are_told_of_what_concerns_them() {
    use EventType::{Added, Deleted, Modified};
    for (event, seen, expected) in [
        // For example its status.
        (Modified, sight("6", "a", "o"), &[][..]),
        (Modified, sight("6", "b", "o"), &["o"]),
        (Modified, sight("6", "b", "p"), &["o", "p"]),
        (Deleted, sight("6", "a", "o"), &["o"]),
        (Added, sight("6", "a", "o"), &[]),
    ] {
        assert_eq!(told(&settled().seen(event, seen.clone())), expected, "{seen:?}");
    }
    let mut read = OwnedObjects::new(true);
    read.listing(later());
    read.seen(EventType::Listed, sight("5", "a", "o"));
    read.synced(&shown());
    assert_eq!(told(&read.seen(Modified, sight("6", "a", "o"))), ["o"]);
}

#[test]
fn an_own_apply_has_no_echo_and_hides_nothing_else() {
    use EventType::Modified;
    let mut owned = settled();
    owned.replied(sight("7", "b", "o"), true, later());
    // Another client has written in between.
    assert_eq!(told(&owned.seen(Modified, sight("6", "x", "o"))), ["o"]);
    assert!(owned.seen(Modified, sight("7", "b", "o")).is_empty());
    assert_eq!(told(&owned.seen(Modified, sight("8", "a", "o"))), ["o"]);
    // The response to an apply without changes has the version of another client's write.
    let mut owned = settled();
    owned.replied(sight("6", "a", "o"), false, later());
    assert!(owned.seen(Modified, sight("6", "a", "o")).is_empty());
    let mut owned = settled();
    owned.replied(sight("10", "b", "o"), true, later());
    assert!(owned.seen(Modified, sight("10", "b", "o")).is_empty());
}

#[test]
fn a_watch_in_trouble_does_not_let_memory_grow() {
    let mut owned = settled();
    owned.trouble(true);
    for version in 6..1006 {
        owned.replied(sight(&version.to_string(), "b", "o"), true, later());
    }
    assert_eq!(owned.0.objects.get(&Key::of_uid("c")).unwrap().own.len(), OWN);
    owned.trouble(false);
    let newest = sight("1005", "b", "o");
    assert!(owned.seen(EventType::Modified, newest).is_empty());
}

#[test]
fn a_listing_of_a_restored_server_counts_although_its_versions_are_older() {
    let mut owned = OwnedObjects::new(true);
    owned.listing(later());
    owned.synced(&KeySet::default());
    owned.replied(sight("70", "b", "o"), true, later());
    // A pending listing may be older than the write.
    owned.listing(later());
    owned.replied(sight("71", "b", "o"), true, later());
    owned.seen(EventType::Listed, sight("60", "a", "o"));
    owned.synced(&shown());
    assert_eq!(owned.body(), KnownBody::There("71".into()));
    owned.listing(later());
    assert_eq!(told(&owned.seen(EventType::Listed, sight("50", "a", "o"))), ["o"]);
    owned.synced(&shown());
    assert_eq!(owned.body(), KnownBody::There("50".into()));
    assert_eq!(owned.get("c").map(|it| &*it.state), Some("a"));
}

/// The server has lost an apply and restored an earlier one of the same fields, whose values may differ.
#[test]
fn the_same_fields_on_a_restored_server_may_have_other_values() {
    let mut owned = settled();
    owned.replied(sight("71", "b", "o"), true, later());
    owned.seen(EventType::Modified, sight("71", "b", "o"));
    assert!(owned.is_intact("c", &applied_at("71")));
    owned.listing(later());
    let news = owned.seen(EventType::Listed, sight("50", "b", "o"));
    assert_eq!(told(&news), ["o"]);
    owned.synced(&shown());
    assert!(!owned.is_intact("c", &applied_at("71")));
    owned.replied(sight("51", "b", "o"), true, later());
    assert!(owned.is_intact("c", &applied_at("51")), "it is put right");
}

#[test]
fn what_a_listing_lacks_is_gone() {
    let mut owned = settled();
    owned.trouble(true);
    assert!(!owned.is_current());
    owned.trouble(false);
    owned.listing(later());
    let mut made = sight("9", "a", "p");
    made.uid = "d".to_owned();
    owned.replied(made, true, later());
    assert_eq!(told(&owned.synced(&KeySet::default())), ["o"]);
    assert!(owned.get("c").is_none() && owned.get("d").is_some());
    // An event from before the listing may be late, but only own writes are newer than the listing.
    let mut owned = settled();
    owned.listing(later());
    owned.seen(EventType::Modified, sight("6", "a", "o"));
    assert_eq!(told(&owned.synced(&KeySet::default())), ["o"]);
    assert!(owned.get("c").is_none());
}

#[test]
fn a_listing_may_lack_a_child_that_was_applied_after_its_request() {
    for is_before in [false, true] {
        let mut owned = OwnedObjects::new(false);
        let (one, other) = (later(), later());
        let (answered, requested) = if is_before { (one, other) } else { (other, one) };
        owned.replied(sight("7", "a", "o"), true, answered);
        owned.listing(requested);
        assert_eq!(told(&owned.synced(&KeySet::default())).is_empty(), !is_before);
        assert_eq!(owned.get("c").is_none(), is_before);
    }
}

/// Others may delete a child after the request of a listing, too.
#[test]
fn a_child_is_gone_if_a_listing_of_a_later_version_lacks_it() {
    for (version, is_gone) in
        [("6", false), ("7", true), ("8", true), ("10", true), ("", false), ("x", false)]
    {
        let mut owned = OwnedObjects::new(false);
        owned.listing(later());
        owned.replied(sight("7", "a", "o"), true, later());
        let news = owned.synced(&KeySet::at(version.to_owned()));
        assert_eq!(
            (told(&news).len(), owned.get("c").is_none()),
            (usize::from(is_gone), is_gone),
            "{version}"
        );
    }
}

#[test]
fn a_child_that_goes_while_its_watch_is_replaced_is_news_for_its_owner() {
    let mut owned = settled();
    owned.let_go("d");
    let of = Collection { resource: Arc::default(), namespace: None };
    owned.0.open(2, Arc::new(of), false, Some(1));
    assert!(owned.get("c").is_some() && !owned.0.watch(2).is_some_and(Watch::is_current));
    let listing = WatchEvent::Listing(later());
    owned.0.on_event(2, &listing, later());
    let synced = WatchEvent::Synced(KeySet::default());
    assert!(owned.0.on_event(1, &synced, later()).is_none());
    let news = owned.0.on_event(2, &synced, later()).expect("an open watch");
    assert_eq!(told(&news), ["o"]);
    assert!(owned.0.gone.is_empty());
}

#[test]
fn a_watch_of_another_kind_shows_no_children_of_the_former_one() {
    let mut owned = settled();
    let kind = Resource { kind: "Other".to_owned(), ..Resource::default() };
    owned.0.open(2, Arc::new(Collection { resource: Arc::new(kind), namespace: None }), false, Some(1));
    assert!(owned.0.watch_of(&child()).is_none());
    assert!(owned.0.watch_of(&ChildName { kind: "Other".to_owned(), ..child() }).is_some());
}

#[test]
fn a_child_that_was_let_go_is_seen_no_more() {
    use EventType::{Added, Deleted, Modified};
    let mut owned = settled();
    owned.let_go("c");
    assert_eq!(owned.of_set("o", "keep"), 0);
    for (event, version) in [(Modified, "6"), (Deleted, "7")] {
        assert!(owned.seen(event, sight(version, "b", "o")).is_empty());
        assert!(owned.get("c").is_none());
    }
    // A later object with this uid affects its owners again.
    assert_eq!(told(&owned.seen(Added, sight("8", "a", "o"))), ["o"]);
    assert_eq!(owned.of_set("o", "keep"), 1);
    assert_eq!(owned.of_set("o", "other"), 0);
}

#[test]
fn a_child_that_was_let_go_is_forgotten_once_a_listing_lacks_it() {
    let mut owned = settled();
    owned.let_go("c");
    owned.listing(later());
    owned.synced(&KeySet::default());
    assert!(owned.0.gone.is_empty());
}

#[test]
fn a_child_that_was_labelled_again_has_not_gone() {
    use EventType::{Added, Deleted};
    let mut owned = settled();
    owned.replied(sight("7", "a", "o"), true, later());
    assert!(owned.seen(Deleted, sight("6", "a", "o")).is_empty());
    assert!(owned.get("c").is_some());
    assert!(owned.seen(Added, sight("7", "a", "o")).is_empty());
}

#[test]
fn all_children_are_known_once_each_watch_that_covers_them_is_listed() {
    let mut children = ChildTable::default();
    let resource = Resource::default();
    for (id, namespace) in [(1, "a"), (2, "b")] {
        let of = Collection { resource: Arc::default(), namespace: Some(namespace.to_owned()) };
        children.open(id, Arc::new(of), true, None);
    }
    let listed = |children: &ChildTable, namespace: Option<&str>| {
        let watches = children.watches_of(&resource, namespace);
        let ids: Vec<StreamId> = watches.into_iter().map(|(id, _)| id).collect();
        children.bodies(&ids, &resource, "o").map(|it| it.len())
    };
    for (id, uid) in [(1, "x"), (2, "y")] {
        assert_eq!(listed(&children, None), None);
        children.on_event(id, &WatchEvent::Listing(later()), later());
        let sight = ChildSight { uid: uid.to_owned(), ..sight("5", "a", "o") };
        children.seen(id, EventType::Listed, sight);
        let other = ChildSight { uid: format!("{uid}2"), ..self::sight("5", "a", "another") };
        children.seen(id, EventType::Listed, other);
        children.on_event(id, &WatchEvent::Synced(KeySet::from_iter([Key::of_uid(uid)])), later());
        assert_eq!(listed(&children, Some("a")), Some(1));
    }
    assert_eq!(listed(&children, None), Some(2));
    assert_eq!(listed(&children, Some("unserved")), None);
}

#[test]
fn what_is_read_is_never_older_than_an_own_write() {
    use EventType::{Deleted, Modified};
    let read = |owned: &OwnedObjects| owned.body();
    assert_eq!(read(&settled()), KnownBody::Unknown);
    let mut owned = OwnedObjects::new(true);
    assert_eq!(read(&owned), KnownBody::Unknown);
    owned.listing(later());
    owned.seen(EventType::Listed, sight("5", "a", "o"));
    owned.synced(&shown());
    assert_eq!(read(&owned), KnownBody::There("5".into()));
    owned.replied(sight("9", "b", "o"), true, later());
    owned.seen(Modified, sight("6", "x", "o"));
    assert_eq!(read(&owned), KnownBody::There("9".into()));
    owned.trouble(true);
    assert_eq!(read(&owned), KnownBody::Unknown);
    owned.trouble(false);
    owned.replied(sight("b5", "b", "o"), true, later());
    owned.seen(Modified, sight("a9", "x", "o"));
    assert_eq!(read(&owned), KnownBody::Unknown);
    owned.seen(Deleted, sight("c", "x", "o"));
    assert_eq!(read(&owned), KnownBody::Absent);
}

/// A child without a `generation`, with the given entries of other managers.
fn bare(version: &str, others: &str) -> ChildSight {
    ChildSight { others: others.to_owned(), generation: None, ..sight(version, "b", "o") }
}

fn generation(version: &str, generation: i64, others: &str) -> ChildSight {
    ChildSight { generation: Some(generation), ..bare(version, others) }
}

fn applied_at(version: &str) -> AppliedState {
    AppliedState { state: "b".to_owned(), version: version.to_owned() }
}

#[test]
fn only_what_nobody_can_have_applied_anew_is_intact() {
    use EventType::{Listed, Modified};
    for (event, seen, is_intact) in [
        // Another manager has written.
        (Modified, bare("8", "y"), true),
        // The writer is unknown, so values may have changed.
        (Modified, bare("8", "x"), false),
        (Listed, bare("8", "y"), false),
        // The content is the same.
        (Modified, generation("8", 1, "x"), true),
        (Modified, generation("8", 2, "y"), true),
        (Modified, generation("8", 2, "x"), false),
        (Listed, generation("8", 2, "y"), false),
    ] {
        let mut owned = settled();
        owned.replied(ChildSight { generation: seen.generation.map(|_| 1), ..bare("7", "x") }, true, later());
        assert!(owned.is_intact("c", &applied_at("7")));
        let news = owned.seen(event, seen.clone());
        let of_apply = applied_at("7");
        assert_eq!(owned.is_intact("c", &of_apply), is_intact, "{seen:?}");
        assert_eq!(news.is_empty(), is_intact, "{seen:?}");
        owned.replied(bare("9", "x"), true, later());
        assert!(owned.is_intact("c", &applied_at("9")), "it is put right");
    }
}

#[test]
fn a_version_of_somebody_else_in_an_answer_is_told_when_the_watch_shows_it() {
    use EventType::Modified;
    let mut owned = OwnedObjects::new(true);
    owned.listing(later());
    owned.seen(EventType::Listed, sight("5", "a", "o"));
    owned.synced(&shown());
    owned.replied(sight("6", "a", "o"), false, later());
    assert_eq!(told(&owned.seen(Modified, sight("6", "a", "o"))), ["o"]);
    assert!(owned.seen(Modified, sight("6", "a", "o")).is_empty());
    owned.replied(sight("6", "a", "o"), false, later());
    assert!(owned.seen(Modified, sight("6", "a", "o")).is_empty());
}

#[test]
fn owners_are_told_of_what_they_may_have_read_before_the_first_listing() {
    let mut owned = OwnedObjects::new(true);
    owned.listing(later());
    let news = owned.seen(EventType::Listed, sight("5", "a", "o"));
    assert_eq!(told(&news), ["o"]);
    let mut owned = OwnedObjects::new(false);
    owned.listing(later());
    let news = owned.seen(EventType::Listed, sight("5", "a", "o"));
    assert!(news.is_empty());
}

#[test]
fn what_was_heard_before_another_instance_was_at_work_is_not_known() {
    use EventType::{Listed, Modified};
    let read = |owned: &OwnedObjects| owned.body();
    let mut owned = OwnedObjects::new(true);
    owned.listing(later());
    owned.synced(&KeySet::default());
    assert_eq!(read(&owned), KnownBody::Absent);
    owned.replied(sight("5", "b", "o"), true, later());
    owned.0.begin_term();
    assert_eq!(read(&owned), KnownBody::Unknown);
    assert!(!owned.is_intact("c", &applied_at("5")));
    // The watch may be late.
    owned.seen(Modified, sight("6", "b", "o"));
    assert_eq!(read(&owned), KnownBody::Unknown);
    owned.replied(sight("7", "b", "o"), true, later());
    assert_eq!(read(&owned), KnownBody::There("7".into()));
    assert!(owned.is_intact("c", &applied_at("7")));
    owned.0.begin_term();
    owned.listing(later());
    owned.seen(Listed, sight("7", "b", "o"));
    assert_eq!(read(&owned), KnownBody::There("7".into()));
    owned.synced(&shown());
    owned.let_go("c");
    assert_eq!(read(&owned), KnownBody::Absent);
    owned.0.begin_term();
    assert_eq!(read(&owned), KnownBody::Unknown);
}

#[test]
fn what_was_let_go_is_not_remembered_while_the_watch_is_refused() {
    let mut owned = settled();
    owned.trouble(true);
    for number in 0..1000 {
        let mut made = sight("6", "b", "o");
        made.uid = number.to_string();
        owned.replied(made, true, later());
        owned.let_go(&number.to_string());
    }
    assert!(owned.0.gone.is_empty());
}

#[test]
fn managers_are_kept_while_a_child_is_not_as_it_was_applied() {
    use EventType::Modified;
    let mut owned = settled();
    assert_eq!(owned.0.take_managers("c"), None);
    owned.replied(sight("7", "b", "o"), true, later());
    assert_eq!(owned.0.take_managers("c"), None);
    owned.seen(Modified, sight("8", "x", "o"));
    assert_eq!(owned.0.take_managers("c"), Some(Value::Null));
    assert_eq!(owned.0.take_managers("c"), None);
}
