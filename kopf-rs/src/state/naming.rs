//! Annotation names: prefixes, handler ids as valid keys.
//!
//! Promises a valid and stable name for every id. Most are named as Kopf names them (its second version of the rule); of the ids
//! that differ in slashes and dots only, to which Kopf gives one name, the likeliest keeps it. (Angle brackets, which names of
//! functions do not have, remain one with underscores.) Must not know what is kept under the names.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use blake2::Digest as _;
use blake2::digest::consts::U4;
use serde_json::Value;

use crate::object::body::Body;
use crate::object::patch::Patch;

/// The longest name part of an annotation.
const LONGEST: usize = 63;
/// Tells operators of Kopf's kind that all annotations of its prefix are an operator's own.
pub(crate) const MARKER: &str = "kopf-managed";
/// Keeps the essence that was handled last.
pub(crate) const LAST_HANDLED: &str = "last-handled-configuration";
/// Keeps, in the middle of a cycle, the essence that is to be stored as handled last.
pub(crate) const TARGET: &str = "target-configuration";
/// Begins the names under which the last runs of timers with a schedule are kept.
const LAST_RUN: &str = "last-run";

/// Ends the names on `ReplicaSets` of Deployments, whose annotations are copied there.
const OF_COPY: &str = "-ofDRS";

/// The annotations of one operator.
#[derive(Clone, Debug)]
pub(crate) struct Annotations {
    prefix: Arc<str>,
}

impl Annotations {
    pub(crate) fn under(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }
    /// The annotation for a handler's record.
    pub(crate) fn of_handler(&self, id: &str, body: &Body) -> String {
        if is_copy_of_deployment(body) {
            return self.full(&handler_name(&format!("{id}{OF_COPY}")));
        }
        self.full(&handler_name(id))
    }
    /// The annotation in which earlier versions kept that record, where it is another one. It may be that of another handler.
    pub(crate) fn former_of_handler(&self, id: &str, body: &Body) -> Option<String> {
        let marked = is_copy_of_deployment(body).then(|| format!("{id}{OF_COPY}"));
        let former = former_name(marked.as_deref().unwrap_or(id))?;
        Some(self.full(&former))
    }
    /// The annotation for the essence handled last.
    pub(crate) fn of_essence(&self, body: &Body) -> String {
        if is_copy_of_deployment(body) {
            return self.full(&format!("{LAST_HANDLED}{OF_COPY}"));
        }
        self.last_handled()
    }
    /// The annotation for the target of the cycle under way.
    pub(crate) fn of_target(&self, body: &Body) -> String {
        if is_copy_of_deployment(body) {
            return self.full(&format!("{TARGET}{OF_COPY}"));
        }
        self.full(TARGET)
    }
    /// The annotation for the last run of a timer with a schedule.
    pub(crate) fn of_last_run(&self, id: &str, body: &Body) -> String {
        self.of_handler(&format!("{LAST_RUN}/{id}"), body)
    }
    /// The same as [`of_essence`](Self::of_essence) for any object that is no copy of another one.
    pub(crate) fn last_handled(&self) -> String {
        self.full(LAST_HANDLED)
    }
    /// Whether the annotation is one of ours for a handler's record.
    pub(crate) fn is_record(&self, annotation: &str) -> bool {
        let ours = annotation
            .split_once('/')
            .filter(|(prefix, _)| **prefix == *self.prefix);
        let is_run = |name: &str| {
            let rest = name.strip_prefix(LAST_RUN);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        ours.is_some_and(|(_, name)| name != MARKER && name != LAST_HANDLED && !is_run(name))
    }
    /// Write an annotation, and with the first one the marker.
    pub(crate) fn put(&self, annotation: &str, value: String, body: &Body, patch: &mut Patch) {
        let marker = self.full(MARKER);
        if !body.annotation_map().contains_key(&marker) {
            patch.put(&["metadata", "annotations", &marker], "yes".into());
        }
        patch.put(&["metadata", "annotations", annotation], value.into());
    }
    /// Take an annotation off the object, or out of the patch.
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

/// The annotation prefix of the operator of that name: a DNS name, whatever the name is.
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
    if labels.is_empty() {
        format!("operator.{DOMAIN}")
    } else {
        format!("{}.{DOMAIN}", labels.join("."))
    }
}

/// The name part for a handler id. What is no valid name, is one of ours, or would get the name of a likelier id, gets a
/// readable part and a digest.
pub(crate) fn handler_name(id: &str) -> String {
    let likeliest = kopfs_name(id).filter(|_| is_likeliest(id));
    likeliest.unwrap_or_else(|| digested_name(id))
}

/// The name part that earlier versions gave to a handler id, where it was another one.
fn former_name(id: &str) -> Option<String> {
    kopfs_name(id).filter(|_| !is_likeliest(id))
}

/// Kopf's name for the id, where it is short and valid and none of ours.
fn kopfs_name(id: &str) -> Option<String> {
    let safe = safe(id);
    let only_kopfs = id.chars().all(|it| is_plain(it) || "-_./<>".contains(it));
    let name = safe.strip_suffix(OF_COPY).unwrap_or(&safe);
    let is_ours = [MARKER, LAST_HANDLED, TARGET].contains(&name);
    (only_kopfs && is_valid_name(&safe) && !is_ours).then_some(safe)
}

/// Whether this is the likeliest of the ids with the same name in Kopf: a function, a slash, and the path of its field or the
/// name of its sub-handler.
fn is_likeliest(id: &str) -> bool {
    let (function, below) = id.split_once('/').unwrap_or((id, ""));
    !function.contains('.') && !below.contains('/')
}

/// Whether other ids have the same name in Kopf, so that what is found under it may be theirs.
pub(crate) fn is_ambiguous(id: &str) -> bool {
    kopfs_name(id).is_some_and(|name| name.contains('.'))
}

fn digested_name(id: &str) -> String {
    let suffix = suffix(id);
    let safe = safe(id);
    let head = safe.trim_start_matches(|it| !is_plain(it));
    let head = if head.is_empty() { "handler" } else { head };
    format!(
        "{}{suffix}",
        &head[..head.len().min(LONGEST - suffix.len())]
    )
}

/// The id in characters that names may have.
pub(crate) fn safe(id: &str) -> String {
    let replaced = |it| match it {
        '/' => '.',
        it if is_plain(it) || matches!(it, '-' | '_' | '.') => it,
        _ => '_',
    };
    id.chars().map(replaced).collect()
}

/// A dash and six characters of digest, as Kopf makes them.
pub(crate) fn suffix(id: &str) -> String {
    let digest = blake2::Blake2b::<U4>::digest(id.as_bytes());
    let text = STANDARD.encode(digest).replace('+', "-").replace('/', ".");
    format!("-{}", text.trim_end_matches(['=', '-', '.']))
}

/// Whether it can be the name part of an annotation.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let fits = |it: char| is_plain(it) || "-_.".contains(it);
    (1..=LONGEST).contains(&name.len())
        && name.chars().all(fits)
        && name.starts_with(is_plain)
        && name.ends_with(is_plain)
}

/// Whether Kubernetes takes it for a prefix of annotations and finalizers: a DNS name.
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

/// Whether Kubernetes takes it for a finalizer.
pub(crate) fn is_valid_finalizer(finalizer: &str) -> bool {
    match finalizer.split_once('/') {
        Some((prefix, name)) => is_valid_prefix(prefix) && is_valid_name(name),
        None => is_valid_name(finalizer),
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric()
}

/// Deployments copy their annotations to their `ReplicaSets`: these need names of their own.
pub(crate) fn is_copy_of_deployment(body: &Body) -> bool {
    body["kind"] == "ReplicaSet"
        && body.metadata()["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|owner| owner["kind"] == "Deployment")
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
            (
                format!("parent/{}", "y".repeat(60)),
                format!("parent.{}-qhWf2w", "y".repeat(49)),
            ),
            ("fn".repeat(323), "fn".repeat(28) + "-Az-r.g"),
            ("fn/spec.size".into(), "fn.spec.size".into()),
            ("a/".repeat(32), "a.".repeat(28) + "-KEa9pg"),
            (
                "handle_very_long_operator_function_name_for_reconciliation/spec.template.metadata"
                    .into(),
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
            assert!(
                name.chars().all(|it| is_plain(it) || "-_.".contains(it)),
                "{id:?}: {name}"
            );
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
        assert_eq!(
            annotations.of_essence(&set),
            "p/last-handled-configuration-ofDRS"
        );
        assert_eq!(
            annotations.of_handler("xyz", &Body::new(json!({"kind": "ReplicaSet"}))),
            "p/xyz"
        );
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
        let body =
            Body::new(json!({"metadata": {"annotations": {"p/kopf-managed": "yes", "p/b": "1"}}}));
        let mut patch = Patch::new();
        annotations.put("p/a", "1".into(), &body, &mut patch);
        Annotations::remove("p/a", &body, &mut patch);
        Annotations::remove("p/b", &body, &mut patch);
        assert_eq!(
            *patch.as_value(),
            json!({"metadata": {"annotations": {"p/b": null}}})
        );
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
