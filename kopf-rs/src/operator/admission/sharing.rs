//! The rank of this instance among all instances of the operator that share an object, which decides if it may change the object.
//!
//! A killed instance removes itself from no list, and may never come back under its name. So each instance sends heartbeats while it sees
//! others, and an instance without heartbeats for a while counts as gone. Silence is measured by the local clock, because the clocks of
//! other instances may be wrong. Must not know the contents of the object.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::admission::instances::{Instances, annotation};
use crate::rt::clock::Clock;

/// The heartbeat interval of an instance that is not alone.
const SIGN: Duration = Duration::from_secs(300);
/// An instance without a heartbeat for this time is gone.
const GONE: Duration = Duration::from_secs(1200);
/// A gone instance is on no list any more after this time.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// This instance, in the list that one shared object holds.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    annotation: String,
    name: String,
    clock: Clock,
    /// The time of registration, fixed when the object is first read.
    since: Option<i64>,
    /// The last heartbeat, and the time at which it was set.
    sign: (i64, Instant),
    /// The heartbeats of the other instances, and when they were first seen.
    others: BTreeMap<String, (i64, Instant)>,
    /// The time of the last read.
    looked: Instant,
}

/// The decision about a shared object in the state that was found.
#[expect(clippy::struct_excessive_bools, reason = "independent answers")]
pub(super) struct Plan {
    /// No newer instance lives, so this one may change the object.
    pub(super) decides: bool,
    /// The content has to be written.
    pub(super) writes: bool,
    /// The list to write; `None` if neither it nor the content differs.
    pub(super) annotations: Option<Value>,
    /// The object lists this instance.
    pub(super) is_listed: bool,
    /// The object lists other living instances.
    pub(super) is_shared: bool,
}

impl Sharing {
    /// Creates the rank in an object. `domain` is the operator's; `name` must be unique among processes that run at the same time.
    pub(super) fn new(domain: &str, name: &str, clock: Clock) -> Self {
        Self {
            annotation: annotation(domain),
            name: name.to_owned(),
            clock,
            since: None,
            sign: (clock.wall().as_millisecond(), Instant::now()),
            others: BTreeMap::new(),
            looked: Instant::now(),
        }
    }

    /// Decides what this instance writes into the object: the content unless it is right or a newer instance decides, and the list with this
    /// instance, or without it at its end.
    pub(super) fn plan(&mut self, found: Option<&Value>, is_right: bool, is_ending: bool) -> Plan {
        let all = self.instances(found);
        let (decides, left) = (self.decides(&all), self.left(&all));
        let writes = decides && !is_right;
        let is_shared = !left.is_empty();
        let listed = if is_ending { left } else { self.joined(&all) };
        let is_due = writes || found.is_some() && listed != all;
        Plan {
            decides,
            writes,
            annotations: is_due.then(|| self.annotations(&listed)),
            is_listed: all.has(&self.name),
            is_shared,
        }
    }

    fn instances(&mut self, found: Option<&Value>) -> Instances {
        let now = self.clock.wall().as_millisecond();
        let found = found.unwrap_or(&Value::Null);
        let all = Instances::of(found, &self.annotation, now);
        self.since.get_or_insert_with(|| all.time_of(&self.name, now));
        self.observe(&all, now);
        all
    }

    fn observe(&mut self, all: &Instances, now: i64) {
        let (sign, given) = self.sign;
        let known = all.sign_of(&self.name).unwrap_or(sign).max(sign);
        self.sign.0 = known;
        if given.elapsed() >= SIGN {
            self.sign = (known.saturating_add(1).max(now), Instant::now());
        }
        // Silence does not count while this instance did not read the object: the server may have been down, so that heartbeats failed.
        let unseen = self.looked.elapsed().saturating_sub(SIGN);
        self.looked = Instant::now();
        self.others.retain(|_, (_, seen)| {
            *seen += unseen;
            seen.elapsed() < FORGOTTEN
        });
        for (other, sign) in all.others(&self.name) {
            let seen = (sign, Instant::now());
            let known = self.others.entry(other.to_owned()).or_insert(seen);
            if sign > known.0 {
                *known = seen;
            }
        }
    }

    /// Returns the listed instances that are not known to be gone.
    fn living(&self, all: &Instances) -> Instances {
        let is_gone = |other: &str| {
            let seen = self.others.get(other).map(|(_, seen)| seen.elapsed());
            seen.is_some_and(|silent| silent >= GONE)
        };
        all.clone().only(|name| !is_gone(name))
    }

    /// Returns the longest pause before the next read, to send a heartbeat and to see those of others.
    pub(super) fn pause(&self) -> Duration {
        if self.others.is_empty() { Duration::MAX } else { SIGN }
    }

    /// Ranks this instance after all instances that any of these objects lists, unless one of them lists it already.
    pub(super) fn come<'a>(&mut self, objects: impl Iterator<Item = &'a Value>) {
        let now = self.clock.wall().as_millisecond();
        let lists = objects.map(|it| Instances::of(it, &self.annotation, now));
        let lists: Vec<_> = lists.collect();
        let own = lists.iter().find(|it| it.has(&self.name));
        let own = own.map(|it| it.time_of(&self.name, now));
        let times = lists.iter().map(|it| it.time_of(&self.name, now));
        let since = own.or(times.max()).unwrap_or(now);
        self.since.get_or_insert(since);
    }

    /// Returns whether this instance may change the object.
    fn decides(&self, all: &Instances) -> bool {
        let since = self.since.unwrap_or_default();
        self.living(all).is_newest(&self.name, since)
    }

    /// Returns the list with this instance, unless the list is full and this instance is not the newest, since it would displace another
    /// one. Includes a heartbeat unless no other instance would see it.
    fn joined(&self, all: &Instances) -> Instances {
        let living = self.living(all);
        if living.is_full() && !self.decides(all) && !all.has(&self.name) {
            return all.clone();
        }
        let is_alone = living.others(&self.name).next().is_none();
        let sign = all.sign_of(&self.name).filter(|_| is_alone);
        let since = self.since.unwrap_or_default();
        living.with(&self.name, since, sign.unwrap_or(self.sign.0))
    }

    /// Returns the list without this instance, which ends, and without those that are gone.
    fn left(&self, all: &Instances) -> Instances {
        self.living(all).without(&self.name)
    }

    /// Returns the annotations to merge for this list.
    fn annotations(&self, all: &Instances) -> Value {
        json!({ self.annotation.as_str(): all.text() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two instances of one operator, and the object that they write.
    struct Shared {
        object: Value,
        old: Sharing,
        new: Sharing,
    }

    fn shared() -> Shared {
        let sharing = |name: &str| Sharing::new("op.kopf.rs", name, Clock::start());
        let (old, new) = (sharing("old"), sharing("new"));
        let mut shared = Shared { object: json!({}), old, new };
        look(&mut shared.object, &mut shared.old);
        look(&mut shared.object, &mut shared.new);
        shared
    }

    /// Reads the object, and writes the list if it has changed. Returns whether it has, and whether the instance decides.
    fn look(object: &mut Value, sharing: &mut Sharing) -> (bool, bool) {
        let all = sharing.instances(Some(object));
        let joined = sharing.joined(&all);
        object["metadata"]["annotations"] = sharing.annotations(&joined);
        (joined != all, sharing.decides(&all))
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_killed_decides_for_a_while_only() {
        let Shared { mut object, mut old, .. } = shared();
        let killed = Instant::now();
        while look(&mut object, &mut old) != (true, true) {
            assert!(killed.elapsed() <= GONE);
            tokio::time::sleep(old.pause()).await;
        }
        assert!(killed.elapsed() >= GONE);
        let all = Instances::of(&object, &old.annotation, i64::MAX);
        assert!(all.names().eq(["old"]));
        // No other instance sees its heartbeats.
        tokio::time::sleep(SIGN).await;
        assert_eq!(look(&mut object, &mut old), (false, true));
        while old.pause() < Duration::MAX {
            assert!(killed.elapsed() <= FORGOTTEN);
            tokio::time::sleep(old.pause()).await;
            assert_eq!(look(&mut object, &mut old), (false, true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_decides_as_long_as_it_lives_and_again_once_it_is_back() {
        let Shared { mut object, mut old, mut new } = shared();
        for _ in 0..20 {
            tokio::time::sleep(SIGN).await;
            assert_eq!(look(&mut object, &mut new), (true, true));
            assert_eq!(look(&mut object, &mut new), (false, true));
            assert_eq!(look(&mut object, &mut old), (true, false));
            assert_eq!(look(&mut object, &mut old), (false, false));
        }
        // The newer instance was frozen, and not killed.
        let frozen = Instant::now();
        while look(&mut object, &mut old) != (true, true) {
            assert!(frozen.elapsed() <= GONE);
            tokio::time::sleep(old.pause()).await;
        }
        assert_eq!(look(&mut object, &mut new), (true, true));
        assert_eq!(look(&mut object, &mut old), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_on_no_list_joins_it_and_takes_nobody_for_gone() {
        let Shared { mut object, mut old, mut new } = shared();
        // Printed manifests were applied again, and the newer instance registered first.
        object["metadata"]["annotations"] = old.annotations(&Instances::default());
        assert_eq!(look(&mut object, &mut new), (true, true));
        assert_eq!(look(&mut object, &mut old), (true, false));
        let begun = Instant::now();
        while begun.elapsed() < GONE * 2 {
            tokio::time::sleep(SIGN).await;
            assert!(look(&mut object, &mut new).1);
            assert!(!look(&mut object, &mut old).1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_old_takes_no_place_where_all_are_taken() {
        let Shared { old, .. } = shared();
        let mut full = Instances::default();
        while !full.is_full() {
            let since = full.time_of("", i64::MAX / 2);
            full = full.with(&format!("pod-{since}"), since, 0);
        }
        assert_eq!(old.joined(&full), full);
        let one_less = full.clone().without("pod-4611686018427387903");
        assert!(old.joined(&one_less).has("old"));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_gone_who_was_not_looked_at() {
        let Shared { mut object, mut old, mut new } = shared();
        tokio::time::sleep(SIGN).await;
        look(&mut object, &mut new);
        look(&mut object, &mut old);
        // The server is down.
        tokio::time::sleep(GONE * 2).await;
        assert!(!look(&mut object, &mut old).1);
        assert_eq!(look(&mut object, &mut new), (true, true));
        tokio::time::sleep(SIGN).await;
        assert!(!look(&mut object, &mut old).1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_alone_gives_no_signs() {
        let mut old = Sharing::new("op.kopf.rs", "old", Clock::start());
        let mut object = json!({});
        assert_eq!(look(&mut object, &mut old), (true, true));
        assert_eq!(old.pause(), Duration::MAX);
        tokio::time::sleep(GONE).await;
        assert_eq!(look(&mut object, &mut old), (false, true));
    }
}
