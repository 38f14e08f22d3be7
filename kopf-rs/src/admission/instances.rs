//! Decides which instance of an operator owns a shared object: the one that was started last.
//!
//! During a rolling update, instances of the old and of the new release run side by side, and their webhooks differ.
//! Each instance writes its name and its first start time into an annotation of the object, plus a keep-alive counter
//! that grows while there are other instances. Only the newest instance changes the object, so an old release neither
//! overwrites nor deletes the new one's changes, and a rollback counts as newer than the release that it replaces. An
//! instance that restarts under the same name keeps its time, so a Pod of the old release that crashes in the middle
//! of the update does not become the newest. This module must not depend on the component that writes the annotation.

use std::collections::BTreeMap;

use serde_json::Value;

/// Instances, each with its first start time in milliseconds since 1970 and its keep-alive counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instances(BTreeMap<String, (i64, i64)>);

/// The maximum number of listed instances. The newest are kept, because killed instances stay on the list.
const MOST: usize = 32;
/// The maximum plausible lead of a clock in the cluster. A later time is a mistake or a forgery, and must not exclude all other instances.
const AHEAD: i64 = 3_600_000;

/// Returns the name of the annotation; `domain` is the operator's, such as `my-operator.kopf.rs`.
pub(crate) fn annotation(domain: &str) -> String {
    format!("{domain}/instances")
}

impl Instances {
    /// Reads the instances in the annotation of an object. Unreadable content is ignored, since any user may have written it.
    pub(crate) fn of(object: &Value, annotation: &str, now: i64) -> Self {
        let text = object["metadata"]["annotations"][annotation].as_str();
        let read = serde_json::from_str::<BTreeMap<_, _>>(text.unwrap_or_default());
        let mut all = read.unwrap_or_default();
        all.retain(|_, (since, _)| *since <= now.saturating_add(AHEAD));
        Self(all)
    }

    /// Returns the time of an instance: the recorded one, or else one later than those of all others, regardless of its clock.
    pub(crate) fn time_of(&self, name: &str, now: i64) -> i64 {
        let latest = self.0.values().map(|(since, _)| since).max();
        let later = latest.map_or(now, |latest| latest.saturating_add(1).max(now));
        self.0.get(name).map_or(later, |(since, _)| *since)
    }

    /// Adds this instance, and drops the oldest ones.
    pub(crate) fn with(mut self, name: &str, since: i64, sign: i64) -> Self {
        self.0.insert(name.to_owned(), (since, sign));
        while self.0.len() > MOST {
            let others = self.0.iter().filter(|(other, _)| *other != name);
            let oldest = others.min_by_key(|(_, (since, _))| *since);
            let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) else {
                break;
            };
            self.0.remove(&oldest);
        }
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    /// Keeps the instances for which the predicate holds.
    pub(crate) fn only(mut self, holds: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|name, _| holds(name));
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn sign_of(&self, name: &str) -> Option<i64> {
        self.0.get(name).map(|(_, sign)| *sign)
    }

    /// Returns the other instances with their keep-alive counters.
    pub(crate) fn others(&self, name: &str) -> impl Iterator<Item = (&str, i64)> {
        let all = self.0.iter();
        let others = all.filter(move |(other, _)| *other != name);
        others.map(|(other, (_, sign))| (other.as_str(), *sign))
    }

    /// Returns true if this instance with that start time is the newest. Equal times are ordered by name.
    pub(crate) fn is_newest(&self, name: &str, since: i64) -> bool {
        let newest = self.0.iter();
        let newest = newest.map(|(name, (since, _))| (*since, name.as_str()));
        newest.max().is_none_or(|newest| newest <= (since, name))
    }

    /// Returns true if adding an instance would drop another one.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(any(feature = "cli", test))]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the value of the annotation. It remains even without instances, because it identifies the owner of the object.
    pub(crate) fn text(&self) -> String {
        serde_json::json!(self.0).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str, now: i64) -> Instances {
        let object = json!({"metadata": {"annotations": {"op.kopf.rs/instances": text}}});
        Instances::of(&object, &annotation("op.kopf.rs"), now)
    }

    #[test]
    fn the_last_started_instance_decides_despite_its_clock() {
        let old = Instances::default().with("old", 1000, 1);
        assert!(old.is_newest("old", 1000));
        // The clock of the new instance is behind.
        let since = old.time_of("new", 500);
        let both = old.with("new", since, 1);
        assert!(both.is_newest("new", since) && !both.is_newest("old", 1000));
        // A restart under the same name does not make it newer.
        assert_eq!(both.time_of("old", 9000), 1000);
        // After the new release is gone, the old one decides.
        assert!(both.without("new").is_newest("old", 1000));
    }

    #[test]
    fn written_instances_are_read_and_garbage_is_ignored() {
        let both = Instances::default().with("a", 1, 7).with("b", 2, 8);
        assert_eq!(read(&both.text(), 3), both);
        assert!(both.names().eq(["a", "b"]));
        assert!(both.others("a").eq([("b", 8)]));
        for garbage in ["", "[]", "{", r#"{"a": "b"}"#, r#"{"a": [1.5, 1]}"#, r#"{"a": [1]}"#] {
            assert_eq!(read(garbage, 3), Instances::default(), "{garbage}");
        }
        let forged = read(r#"{"forged": [9223372036854775807, 1], "a": [1, 7]}"#, 3);
        assert_eq!(forged, Instances::default().with("a", 1, 7));
        assert_eq!(Instances::default().text(), "{}");
    }

    #[test]
    fn the_list_is_bounded_and_keeps_the_newest() {
        let all =
            (0..100).fold(Instances::default(), |all, number| all.with(&format!("pod-{number}"), number, 0));
        assert_eq!(all.0.len(), MOST);
        assert!(all.has("pod-99") && !all.has("pod-0"));
        // The added instance stays, regardless of its age.
        assert!(all.with("old", -1, 0).has("old"));
    }
}
