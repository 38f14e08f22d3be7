//! Annotation names: prefixes, and handler ids as valid keys.
//!
//! This module guarantees a valid and stable name for every id. Most names equal Kopf's (by the second version of its
//! rule). Ids that differ only in slashes and dots share one name in Kopf; here the likeliest of them gets that name.
//! (Ids with angle brackets still share names with those with underscores, which is harmless, because function names
//! contain no angle brackets.) Must not know the values under the names.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::Digest as _;
use blake2::digest::consts::U4;
use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;

/// The maximum length of an annotation's name part.
const LONGEST: usize = 63;
/// Signals to Kopf-like operators that all annotations with this prefix belong to an operator.
const MARKER: &str = "kopf-managed";
/// Holds the last-handled essence.
pub(crate) const LAST_HANDLED: &str = "last-handled-configuration";
/// Holds, in the middle of a cycle, the essence that will be stored as last-handled.
const TARGET: &str = "target-configuration";
/// The prefix of the names that hold the last runs of timers with a schedule.
const LAST_RUN: &str = "last-run";

/// The suffix of names on `ReplicaSets` of Deployments, to which the annotations of the Deployment are copied.
const OF_COPY: &str = "-ofDRS";

/// The annotations of one operator.
#[derive(Clone, Debug)]
pub(crate) struct Annotations {
    prefix: Arc<str>,
}

impl Annotations {
    pub(crate) fn under(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }
    /// Returns the annotation for a handler's record.
    pub(crate) fn of_handler(&self, id: &str, body: &Body) -> String {
        self.full(&handler_name(&own(id, body)))
    }
    /// Returns the annotation in which earlier versions kept that record, if it differs. It may also be that of another handler.
    pub(crate) fn former_of_handler(&self, id: &str, body: &Body) -> Option<String> {
        Some(self.full(&former_name(&own(id, body))?))
    }
    /// Returns the annotation for the last-handled essence.
    pub(crate) fn of_essence(&self, body: &Body) -> String {
        self.full(&own(LAST_HANDLED, body))
    }
    /// Returns the annotation for the target of the current cycle.
    pub(crate) fn of_target(&self, body: &Body) -> String {
        self.full(&own(TARGET, body))
    }
    /// Returns the annotation for the last run of a timer with a schedule.
    pub(crate) fn of_last_run(&self, id: &str, body: &Body) -> String {
        self.of_handler(&format!("{LAST_RUN}/{id}"), body)
    }
    /// Like [`of_essence`](Self::of_essence), for an object that is not a copy of another one.
    pub(crate) fn last_handled(&self) -> String {
        self.full(LAST_HANDLED)
    }
    /// Returns true if the annotation is ours and holds a handler's record.
    pub(crate) fn is_record(&self, annotation: &str) -> bool {
        let ours = annotation.split_once('/').filter(|(prefix, _)| **prefix == *self.prefix);
        let is_run = |name: &str| {
            let rest = name.strip_prefix(LAST_RUN);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        ours.is_some_and(|(_, name)| name != MARKER && name != LAST_HANDLED && !is_run(name))
    }
    /// Writes an annotation, and the marker if the object lacks it.
    pub(crate) fn put(&self, annotation: &str, value: String, body: &Body, patch: &mut Patch) {
        let marker = self.full(MARKER);
        if !body.annotation_map().contains_key(&marker) {
            patch.put(&["metadata", "annotations", &marker], "yes".into());
        }
        patch.put(&["metadata", "annotations", annotation], value.into());
    }
    /// Removes an annotation from the object or from the patch.
    pub(crate) fn remove(annotation: &str, body: &Body, patch: &mut Patch) {
        let at = ["metadata", "annotations", annotation];
        if body.annotation_map().contains_key(annotation) {
            patch.put(&at, Value::Null);
        } else {
            patch.unset(&at);
        }
    }
    fn full(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }
}

/// Returns the annotation prefix of an operator: always a valid DNS name, for any operator name.
pub(crate) fn prefix(operator: &str) -> String {
    const DOMAIN: &str = "kopf.rs";
    let name: String = operator
        .to_ascii_lowercase()
        .chars()
        .map(|it| if is_plain(it) || it == '.' { it } else { '-' })
        .take(200)
        .collect();
    let labels: Vec<&str> = name
        .split('.')
        .map(|label| label[..label.len().min(LONGEST)].trim_matches('-'))
        .filter(|label| !label.is_empty())
        .collect();
    if labels.is_empty() { format!("operator.{DOMAIN}") } else { format!("{}.{DOMAIN}", labels.join(".")) }
}

/// Returns the name part for a handler id. An id that is not a valid name, equals one of our names, or would share the name of a likelier id
/// gets a readable part plus a digest.
pub(crate) fn handler_name(id: &str) -> String {
    let likeliest = kopfs_name(id).filter(|_| is_likeliest(id));
    likeliest.unwrap_or_else(|| digested_name(id))
}

/// Returns the name part that earlier versions used for a handler id, if it differs.
fn former_name(id: &str) -> Option<String> {
    kopfs_name(id).filter(|_| !is_likeliest(id))
}

/// Returns Kopf's name for the id if it is short, valid and not one of ours.
fn kopfs_name(id: &str) -> Option<String> {
    let safe = safe(id);
    let only_kopfs = id.chars().all(|it| is_plain(it) || "-_./<>".contains(it));
    let name = safe.strip_suffix(OF_COPY).unwrap_or(&safe);
    let is_ours = [MARKER, LAST_HANDLED, TARGET].contains(&name);
    (only_kopfs && is_valid_name(&safe) && !is_ours).then_some(safe)
}

/// Returns true if this is the likeliest of the ids that share a name in Kopf: a function, a slash, and the path of its field or the name of
/// its sub-handler.
fn is_likeliest(id: &str) -> bool {
    let (function, below) = id.split_once('/').unwrap_or((id, ""));
    !function.contains('.') && !below.contains('/')
}

/// Returns true if other ids share this id's name in Kopf, so that a value under that name may be theirs.
pub(crate) fn is_ambiguous(id: &str) -> bool {
    kopfs_name(id).is_some_and(|name| name.contains('.'))
}

fn digested_name(id: &str) -> String {
    let suffix = suffix(id);
    let safe = safe(id);
    let head = safe.trim_start_matches(|it| !is_plain(it));
    let head = if head.is_empty() { "handler" } else { head };
    format!("{}{suffix}", &head[..head.len().min(LONGEST - suffix.len())])
}

/// Replaces characters that names cannot contain.
fn safe(id: &str) -> String {
    let replaced = |it| match it {
        '/' => '.',
        it if is_plain(it) || matches!(it, '-' | '_' | '.') => it,
        _ => '_',
    };
    id.chars().map(replaced).collect()
}

/// Returns a dash and six characters of digest, as Kopf does.
pub(crate) fn suffix(id: &str) -> String {
    let digest = blake2::Blake2b::<U4>::digest(id.as_bytes());
    let text = STANDARD.encode(digest).replace('+', "-").replace('/', ".");
    format!("-{}", text.trim_end_matches(['=', '-', '.']))
}

/// Returns true for a valid name part of an annotation.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let fits = |it: char| is_plain(it) || "-_.".contains(it);
    (1..=LONGEST).contains(&name.len())
        && name.chars().all(fits)
        && name.starts_with(is_plain)
        && name.ends_with(is_plain)
}

/// Returns true for a valid prefix of annotations and finalizers: a DNS name.
pub(crate) fn is_valid_prefix(prefix: &str) -> bool {
    const LONGEST_PREFIX: usize = 253;
    let lower = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let is_label = |label: &str| {
        let fits = |it: char| lower(it) || it == '-';
        label.len() <= LONGEST
            && label.chars().all(fits)
            && label.starts_with(lower)
            && label.ends_with(lower)
    };
    prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(is_label)
}

/// Returns true for a valid finalizer.
pub(crate) fn is_valid_finalizer(finalizer: &str) -> bool {
    match finalizer.split_once('/') {
        Some((prefix, name)) => is_valid_prefix(prefix) && is_valid_name(name),
        None => is_valid_name(finalizer),
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric()
}

/// Returns the name for this object. Deployments copy their annotations to their `ReplicaSets`, which therefore need names of their own.
pub(crate) fn own<'a>(name: &'a str, body: &Body) -> Cow<'a, str> {
    let mut owners = body.metadata()["ownerReferences"].as_array().into_iter().flatten();
    if body["kind"] == "ReplicaSet" && owners.any(|owner| owner["kind"] == "Deployment") {
        format!("{name}{OF_COPY}").into()
    } else {
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_as_kopf_does() {
        let x = |count| "x".repeat(count);
        for (id, expected) in [
            ("create_fn".to_owned(), "create_fn".to_owned()),
            ("create_fn/item1".into(), "create_fn.item1".into()),
            (x(47), x(47)),
            (x(63), x(63)),
            (x(64), x(56) + "-SItAqA"),
            (format!("parent/{}", "y".repeat(60)), format!("parent.{}-qhWf2w", "y".repeat(49))),
            ("fn".repeat(323), "fn".repeat(28) + "-Az-r.g"),
            ("fn/spec.size".into(), "fn.spec.size".into()),
            ("a/".repeat(32), "a.".repeat(28) + "-KEa9pg"),
            (
                "handle_very_long_operator_function_name_for_reconciliation/spec.template.metadata".into(),
                "handle_very_long_operator_function_name_for_reconciliati-GUKS.Q".into(),
            ),
        ] {
            assert_eq!(handler_name(&id), expected);
        }
    }

    #[test]
    fn prefixes_and_finalizers_that_no_server_takes() {
        for (prefix, taken) in [
            ("my-op.example.com", true),
            ("a", true),
            ("", false),
            ("My-op.example.com", false),
            ("a..b", false),
            ("-a", false),
            ("a_b", false),
            ("a/b", false),
        ] {
            assert_eq!(is_valid_prefix(prefix), taken, "{prefix}");
            assert!(is_valid_finalizer(&format!("{prefix}/finalizer")) == taken);
        }
        for (prefix, taken) in [
            ("a".repeat(63) + ".example.com", true),
            ("a".repeat(64), false),
            ("a".repeat(64) + ".example.com", false),
            ("a.".repeat(126) + "a", true),
            ("a.".repeat(127) + "a", false),
        ] {
            assert_eq!(is_valid_prefix(&prefix), taken, "{prefix}");
        }
        for (finalizer, taken) in [
            ("KopfFinalizerMarker", true),
            ("no slash and spaces", false),
            ("", false),
            ("a.b/", false),
            ("a.b/c/d", false),
        ] {
            assert_eq!(is_valid_finalizer(finalizer), taken, "{finalizer}");
        }
    }

    #[test]
    fn every_id_gets_a_valid_name_of_its_own() {
        let ids = [
            "kopf-managed",
            "last-handled-configuration",
            "_private",
            "fn/spec.größe",
            "fn/spec.grüße",
            "lambda:/x/y.py:12",
            "a b",
            "a:b",
            "",
            "ß",
            "x-",
            "/",
            "f<locals>",
            "a/b",
            "a.b",
            "a/b/c",
            "a/b.c",
            "a.b/c",
            "a.b.c",
            &"ä".repeat(100),
            &format!("_{}", "x".repeat(80)),
        ];
        let mut names = std::collections::BTreeSet::new();
        for id in ids {
            let name = handler_name(id);
            assert!(
                name.len() <= LONGEST && name.starts_with(is_plain) && name.ends_with(is_plain),
                "{id:?}: {name}"
            );
            assert!(name.chars().all(|it| is_plain(it) || "-_.".contains(it)), "{id:?}: {name}");
            assert!(names.insert(name), "{id:?}");
        }
        assert!(!names.contains(MARKER) && !names.contains(LAST_HANDLED));
    }

    #[test]
    fn names_that_earlier_versions_gave_are_known() {
        for (id, former) in [
            ("Cls.method.<locals>.fn", Some("Cls.method._locals_.fn")),
            ("f<locals>fn", None),
            ("a/b/c", Some("a.b.c")),
            ("a.b", Some("a.b")),
            ("a/b.c", None),
            ("create_fn", None),
            ("_private", None),
        ] {
            assert_eq!(former_name(id).as_deref(), former, "{id}");
        }
    }

    #[test]
    fn prefixes_are_domains() {
        for (operator, expected) in [
            ("my-operator", "my-operator.kopf.rs"),
            ("My_Operator", "my-operator.kopf.rs"),
            ("a.b", "a.b.kopf.rs"),
            ("-x-", "x.kopf.rs"),
            ("..", "operator.kopf.rs"),
            ("", "operator.kopf.rs"),
            ("größe", "gr--e.kopf.rs"),
        ] {
            assert_eq!(prefix(operator), expected);
        }
        assert!(prefix(&"x".repeat(300)).len() < 253);
    }

    #[test]
    fn copies_of_deployments_have_their_own() {
        let annotations = Annotations::under("p");
        let set = Body::new(
            json!({"kind": "ReplicaSet", "metadata": {"ownerReferences": [{"kind": "Deployment"}]}}),
        );
        assert_eq!(annotations.of_handler("xyz", &set), "p/xyz-ofDRS");
        assert_eq!(annotations.of_essence(&set), "p/last-handled-configuration-ofDRS");
        assert_eq!(annotations.of_handler("xyz", &Body::new(json!({"kind": "ReplicaSet"}))), "p/xyz");
    }

    #[test]
    fn the_marker_comes_with_the_first() {
        let annotations = Annotations::under("p");
        let mut patch = Patch::new();
        annotations.put("p/a", "1".into(), &Body::new(json!({})), &mut patch);
        assert_eq!(
            *patch.as_value(),
            json!({"metadata": {"annotations": {"p/kopf-managed": "yes", "p/a": "1"}}})
        );
        let body = Body::new(json!({"metadata": {"annotations": {"p/kopf-managed": "yes", "p/b": "1"}}}));
        let mut patch = Patch::new();
        annotations.put("p/a", "1".into(), &body, &mut patch);
        Annotations::remove("p/a", &body, &mut patch);
        Annotations::remove("p/b", &body, &mut patch);
        assert_eq!(*patch.as_value(), json!({"metadata": {"annotations": {"p/b": null}}}));
    }

    #[test]
    fn no_record_of_a_copy_gets_the_name_of_its_essence() {
        let owner = json!([{"kind": "Deployment"}]);
        let copy = json!({"kind": "ReplicaSet", "metadata": {"ownerReferences": owner}});
        let (copy, annotations) = (Body::new(copy), Annotations::under("p"));
        let ours = [annotations.of_essence(&copy), annotations.of_target(&copy)];
        for id in [LAST_HANDLED, TARGET] {
            assert!(!ours.contains(&annotations.of_handler(id, &copy)), "{id}");
        }
    }
}
