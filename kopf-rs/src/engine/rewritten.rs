//! Remembers values that the server stores in another form than they are sent: list items with defaults, `null` for a field with a default,
//! `stringData` of Secrets, quantities in canonical form.
//!
//! Sending such a value again would change nothing. It therefore counts as written while its place holds the server's version of it and
//! nothing but metadata and status has changed since, because one field may depend on others. Changes that the same write causes in the rest
//! of the object, after the status, do not count, or each write of both parts would cost another one. Only digests are kept, and only of
//! rewritten values. Must not know the purpose of a write.

use std::collections::BTreeMap;
use std::time::Duration;

use blake2::Digest as _;
use blake2::digest::consts::U12;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::write::{Changes, Part};
use crate::object::inconsistency::is_kept;
use crate::object::operations::Operations;
use crate::object::patch::Patch;
use crate::object::raw::Raw;

/// The time for which a rewriting is trusted: a webhook may change its behaviour without notice.
const BELIEVED: Duration = Duration::from_secs(3600);
/// The limit of rewritten fields. A larger patch evicts all others and is not remembered completely.
const MOST: usize = 256;

type Digest = [u8; 12];

/// The known rewritings of one object's fields.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The rewritings, by JSON pointer.
    fields: BTreeMap<String, Rewriting>,
    /// A digest of the object without metadata and status at that time.
    content: Option<Digest>,
    since: Instant,
    /// The revision of the kind's definition at that time.
    definitions: u64,
}

/// One value: digests of its sent and its stored form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rewriting {
    sent: Digest,
    kept: Digest,
}

/// The rewritings that the answer to one request shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sighting {
    fields: Vec<(String, Rewriting)>,
    content: Option<Digest>,
}

impl Sighting {
    /// Returns the values of this part of the changes that `reply` has in another form; `None` if it has all of them as sent.
    pub(crate) fn of(changes: &Changes, part: Part, reply: &Raw) -> Option<Self> {
        let mut sighting = Self::default();
        match changes {
            Changes::Merge(patch) => {
                for (key, sent) in part.members(patch) {
                    let found = reply.stanza(key);
                    let mut at = vec![key];
                    differences(&mut at, sent, found.as_ref(), &mut |at, sent, found| {
                        sighting.add(pointer("", at), sent, found);
                    });
                }
            }
            Changes::Operations { operations, .. } => {
                let found = reply.body().ok()?;
                for (path, sent) in part.operations(operations) {
                    sighting.compare_operation(path, sent, found.pointer(path));
                }
            }
        }
        if sighting.fields.is_empty() {
            return None;
        }
        sighting.content = Some(content(&*reply.body().ok()?));
        Some(sighting)
    }

    /// Processes `reply`, a later answer to the same write, unless another writer has changed the object (`known` by then) in between.
    pub(crate) fn goes_on(&mut self, known: &Raw, reply: &Raw) {
        let content = |raw: &Raw| Some(content(&*raw.body().ok()?));
        if self.content == content(known) {
            self.content = content(reply);
        }
    }

    /// Compares an operation with the result. Unlike in a merge patch, `null` is a value here.
    fn compare_operation(&mut self, at: &str, sent: Option<&Value>, found: Option<&Value>) {
        match (sent, found) {
            (Some(Value::Object(members)), Some(Value::Object(found))) => {
                for (key, sent) in members {
                    self.compare_operation(&pointer(at, &[key]), Some(sent), found.get(key));
                }
                // Fields that the server has added are the ones that the function would remove the next time.
                let added = found.iter().filter(|(key, _)| !members.contains_key(*key));
                for (key, kept) in added {
                    self.add(pointer(at, &[key]), &Value::Null, Some(kept));
                }
            }
            (Some(sent), Some(found)) if is_kept(sent, found) => {}
            (None, None) => {}
            (sent, found) => self.add(at.to_owned(), sent.unwrap_or(&Value::Null), found),
        }
    }

    fn add(&mut self, path: String, sent: &Value, found: Option<&Value>) {
        self.fields.push((path, Rewriting::of(sent, found)));
    }
}

impl Rewriting {
    fn of(sent: &Value, found: Option<&Value>) -> Self {
        Self { sent: digest(Some(sent)), kept: digest(found) }
    }
}

impl Rewritten {
    pub(crate) fn new(now: Instant, definitions: u64) -> Self {
        Self { fields: BTreeMap::new(), content: None, since: now, definitions }
    }

    /// Returns whether the rewritings are still trusted.
    pub(crate) fn is_believed(&self, now: Instant, definitions: u64) -> bool {
        self.definitions == definitions && now.duration_since(self.since) < BELIEVED
    }

    /// Adds the rewritings of an answer.
    pub(crate) fn note(&mut self, seen: Sighting) {
        if seen.content != self.content {
            self.fields.clear();
            self.content = seen.content;
        }
        if self.fields.len() + seen.fields.len() > MOST {
            self.fields.clear();
        }
        self.fields.extend(seen.fields.into_iter().take(MOST));
    }

    /// Removes values from a patch that would not change the object `found`.
    pub(crate) fn leave_out_of(&self, patch: &mut Patch, found: &Value) {
        let known = Known::of(self, found);
        let mut vain: Vec<Vec<String>> = Vec::new();
        let wanted = patch.as_value();
        differences(&mut Vec::new(), wanted, Some(found), &mut |at, sent, there| {
            if known.has(&pointer("", at), sent, there) {
                vain.push(at.iter().map(|key| (*key).to_owned()).collect());
            }
        });
        for at in vain {
            let at: Vec<_> = at.iter().map(String::as_str).collect();
            patch.unset(&at);
        }
    }

    /// Removes operations that would not change the object `found`.
    pub(crate) fn leave_out_of_operations(&self, operations: &mut Operations, found: &Value) {
        let known = Known::of(self, found);
        operations.retain(|path, sent| !known.has(path, sent.unwrap_or(&Value::Null), found.pointer(path)));
    }
}

/// The rewritings applied to one state of the object.
struct Known<'a> {
    rewritten: &'a Rewritten,
    /// Everything except metadata and status is unchanged.
    is_same_content: bool,
}

impl<'a> Known<'a> {
    fn of(rewritten: &'a Rewritten, found: &Value) -> Self {
        let then = rewritten.content;
        Self { rewritten, is_same_content: then.is_some_and(|then| then == content(found)) }
    }

    /// Returns whether the present value is the server's version of the value to send.
    fn has(&self, path: &str, sent: &Value, there: Option<&Value>) -> bool {
        let known = self.rewritten.fields.get(path);
        self.is_same_content && known.is_some_and(|known| *known == Rewriting::of(sent, there))
    }
}

/// Visits each value of a merge patch that `found` does not have.
fn differences<'a>(
    path: &mut Vec<&'a str>,
    sent: &'a Value,
    found: Option<&Value>,
    visit: &mut impl FnMut(&[&'a str], &Value, Option<&Value>),
) {
    match (sent, found) {
        (Value::Null, None) => {}
        (Value::Object(members), Some(Value::Object(found))) => {
            for (key, sent) in members {
                path.push(key);
                differences(path, sent, found.get(key), visit);
                path.pop();
            }
        }
        (sent, Some(found)) if is_kept(sent, found) => {}
        (sent, found) => visit(path, sent, found),
    }
}

fn pointer(at: &str, path: &[&str]) -> String {
    let mut pointer = at.to_owned();
    for key in path {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// Returns a digest of everything except metadata and status.
fn content(object: &Value) -> Digest {
    let members = object.as_object().into_iter().flatten();
    let content = members.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"));
    let mut hash = blake2::Blake2b::<U12>::new();
    for (key, value) in content {
        hash.update(key);
        hash.update(value.to_string());
    }
    hash.finalize().into()
}

fn digest(value: Option<&Value>) -> Digest {
    let text = value.map(Value::to_string).unwrap_or_default();
    blake2::Blake2b::<U12>::digest(text).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    const WHOLE: Part = Part::Object { with_status: true };

    fn patch(value: Value) -> Patch {
        let mut patch = Patch::new();
        patch.merge(value);
        patch
    }

    /// Returns the part of `wanted` to send for an object in state `found`, after `sent` was answered by `reply`.
    fn left(sent: &Value, reply: &Value, wanted: &Value, found: &Value) -> Value {
        let changes = Changes::Merge(Arc::new(patch(sent.clone())));
        let reply = Raw::parse(&reply.to_string()).unwrap();
        let mut rewritten = Rewritten::new(Instant::now(), 0);
        if let Some(seen) = Sighting::of(&changes, WHOLE, &reply) {
            rewritten.note(seen);
        }
        let mut left = patch(wanted.clone()).effective(found);
        rewritten.leave_out_of(&mut left, found);
        left.as_value().clone()
    }

    #[test]
    fn what_was_rewritten_is_not_sent_again() {
        for (sent, reply) in [
            (json!({"spec": {"cpu": "0.5"}}), json!({"spec": {"cpu": "500m"}})),
            (
                json!({"spec": {"ports": [{"port": 80}]}}),
                json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}}),
            ),
            (json!({"spec": {"mode": null}}), json!({"spec": {"mode": "a"}})),
            (json!({"status": {"l": [null, 1]}}), json!({"status": {"l": [1]}})),
            (json!({"stringData": {"a": "x"}}), json!({"data": {"a": "eA=="}})),
            (json!({"spec": {"a": {"b": null}}}), json!({"spec": {}})),
            (json!({"status": {"a/b": {"~": "1"}}}), json!({"status": {"a/b": {"~": 1}}})),
        ] {
            assert_eq!(left(&sent, &reply, &sent, &reply), json!({}), "{sent}");
            let mut others = reply.clone();
            others["metadata"] = json!({"resourceVersion": "9", "labels": {"x": "y"}});
            others["status"]["more"] = json!(1);
            assert_eq!(left(&sent, &reply, &sent, &others), json!({}), "{sent}");
        }
    }

    #[test]
    fn it_is_sent_where_anything_else_may_come_of_it() {
        let (sent, reply) = (json!({"spec": {"n": 5}}), json!({"spec": {"n": 3, "max": 3}}));
        let raised = json!({"spec": {"n": 3, "max": 9}});
        assert_eq!(left(&sent, &reply, &sent, &raised), sent);
        let changed = json!({"spec": {"n": 4, "max": 3}});
        assert_eq!(left(&sent, &reply, &sent, &changed), sent);
        let other = json!({"spec": {"n": 6}});
        assert_eq!(left(&sent, &reply, &other, &reply), other);
        // Another writer has changed the entry of a Secret that was sent as text.
        let (sent, reply) = (json!({"stringData": {"a": "x"}}), json!({"data": {"a": "eA=="}}));
        let changed = json!({"data": {"a": "eQ=="}});
        assert_eq!(left(&sent, &reply, &sent, &changed), sent);
        let (sent, reply) = (json!({"status": {"n": [1, null]}}), json!({"status": {"n": [1]}}));
        let changed = json!({"status": {"n": [2]}});
        assert_eq!(left(&sent, &reply, &sent, &changed), sent);
        // A webhook keeps a value of the status below one of the spec.
        let sent = json!({"status": {"n": 5}});
        let reply = json!({"spec": {"max": 3}, "status": {"n": 3}});
        let raised = json!({"spec": {"max": 9}, "status": {"n": 3}});
        assert_eq!(left(&sent, &reply, &sent, &raised), sent);
    }

    #[test]
    fn the_same_is_so_for_what_functions_make() {
        let before = json!({"spec": {"l": []}, "status": {}});
        let wanted = json!({"spec": {"l": [{"a": 1}]}, "status": {"x": {"q": "0.5", "n": 1}}});
        let reply = json!({
            "spec": {"l": [{"a": 1, "b": 2}]},
            "status": {"x": {"q": "500m", "n": 1, "b": {"c": 2}}},
        });
        let changes =
            Changes::Operations { operations: Operations::between(&before, &wanted), wanted: wanted.clone() };
        let raw = Raw::parse(&reply.to_string()).unwrap();
        let mut rewritten = Rewritten::new(Instant::now(), 0);
        rewritten.note(Sighting::of(&changes, WHOLE, &raw).unwrap());
        let mut again = Operations::between(&reply, &wanted);
        rewritten.leave_out_of_operations(&mut again, &reply);
        // The function only removes the defaults again, which is no change.
        assert_eq!(again.to_string(), "[]");
    }

    #[test]
    fn much_that_is_rewritten_takes_no_memory_without_end() {
        let mut rewritten = Rewritten::new(Instant::now(), 0);
        for number in 0..1000 {
            let name = format!("pod-{number}");
            let sent = json!({"status": {name.clone(): "0.5"}});
            let reply = Raw::parse(&json!({"status": {name: "500m"}}).to_string()).unwrap();
            let changes = Changes::Merge(Arc::new(patch(sent)));
            rewritten.note(Sighting::of(&changes, WHOLE, &reply).unwrap());
        }
        assert!(rewritten.fields.len() <= MOST, "{}", rewritten.fields.len());
        let defaults = (0..1000).map(|number| (format!("field-{number}"), json!(1)));
        let defaults: serde_json::Map<_, _> = defaults.collect();
        let (before, wanted) = (json!({}), json!({"status": {"a": 1}}));
        let changes = Changes::Operations { operations: Operations::between(&before, &wanted), wanted };
        let reply = Raw::parse(&json!({"status": defaults}).to_string()).unwrap();
        rewritten.note(Sighting::of(&changes, WHOLE, &reply).unwrap());
        assert_eq!(rewritten.fields.len(), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_believed_for_an_hour_unless_the_definition_changes() {
        let rewritten = Rewritten::new(Instant::now(), 1);
        assert!(rewritten.is_believed(Instant::now(), 1));
        assert!(!rewritten.is_believed(Instant::now(), 2));
        tokio::time::advance(BELIEVED).await;
        assert!(!rewritten.is_believed(Instant::now(), 1));
    }
}
