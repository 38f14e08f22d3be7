//! Fingerprints of an operator's own state on an object, to detect later that another operator has written it.
//!
//! Costs no space on the object and a few bytes in memory. Must not know the writer or the resulting message.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::object::lazy_json::Outline;
use crate::state::naming::{LAST_HANDLED, MARKER, TARGET, handler_name, safe};

/// The fingerprint of an operator's own state on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// A hash of the essences and of the known handlers' records.
    own: u32,
    /// A hash of the records of unknown handlers.
    strange: u32,
    /// True if the object has the finalizer.
    held: bool,
}

/// A difference between two traces that almost certainly stems from an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Records of unknown handlers have appeared or changed.
    UnknownRecords,
    /// Values that this operator itself would write have appeared or changed.
    KnownRecords,
    /// The finalizer has appeared.
    FinalizerReadded,
}

/// The annotation names of an operator's handlers for one kind, including their sub-handlers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<Name>);

#[derive(Clone, Debug)]
struct Name {
    whole: String,
    safe: String,
}

/// The places where an operator keeps its own state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) finalizer: &'a str,
    pub(crate) names: &'a Names,
}

impl Names {
    pub(crate) fn of<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        let name = |id| Name {
            whole: handler_name(id),
            safe: safe(id),
        };
        Self(ids.map(name).collect())
    }

    /// Returns true if this is the name of one of these handlers or of a sub-handler, by any version of the rule that shortens long names.
    fn has(&self, name: &str) -> bool {
        /// Every name of a long id starts with this many characters of the id.
        const HEAD: usize = 30;
        let name = name.strip_suffix("-ofDRS").unwrap_or(name);
        self.0.iter().any(|known| {
            let below = name.strip_prefix(known.safe.as_str());
            let head = known.safe.get(..HEAD);
            name == known.whole
                || below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                || head.is_some_and(|head| name.starts_with(head))
        })
    }
}

impl Places<'_> {
    /// Returns the trace of the object.
    pub(crate) fn trace(&self, outline: &Outline<'_>) -> Trace {
        let (mut own, mut strange) = (DefaultHasher::new(), DefaultHasher::new());
        for (name, text) in self.annotations(outline) {
            if self.is_strange(name, text) {
                (name, text).hash(&mut strange);
            } else if is_essence(name) || self.names.has(name) {
                (name, text).hash(&mut own);
            }
        }
        Trace {
            own: folded(&own),
            strange: folded(&strange),
            held: outline.has_finalizer(self.finalizer),
        }
    }

    /// Returns the annotations with records of unknown handlers.
    pub(crate) fn strangers(&self, outline: &Outline<'_>) -> Vec<String> {
        let all = self.annotations(outline);
        let strange = all.filter(|(name, text)| self.is_strange(name, text));
        strange
            .map(|(name, _)| format!("{}/{name}", self.prefix))
            .collect()
    }

    fn annotations<'a>(
        &'a self,
        outline: &'a Outline<'_>,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        outline.annotation_texts().filter_map(|(key, text)| {
            let (prefix, name) = key.split_once('/')?;
            (prefix == self.prefix && name != MARKER).then_some((name, text))
        })
    }

    /// Returns true for records of unknown handlers and for Kopf's wake-up time. Other annotations may be users' notes.
    fn is_strange(&self, name: &str, text: &str) -> bool {
        let of_kopf = name == "touch-dummy";
        let is_record = text.starts_with("\"{") && text.contains("\\\"started\\\"");
        !is_essence(name) && (of_kopf || is_record && !self.names.has(name))
    }
}

/// Returns true if the name is that of an essence.
fn is_essence(name: &str) -> bool {
    name.starts_with(LAST_HANDLED) || name.starts_with(TARGET)
}

impl Trace {
    /// Returns the difference from the older trace `was`.
    pub(crate) fn since(self, was: Self) -> Option<Evidence> {
        if self.strange != was.strange && self.strange != folded(&DefaultHasher::new()) {
            Some(Evidence::UnknownRecords)
        } else if self.own != was.own && self.own != folded(&DefaultHasher::new()) {
            Some(Evidence::KnownRecords)
        } else {
            (self.held && !was.held).then_some(Evidence::FinalizerReadded)
        }
    }
}

fn folded(hasher: &DefaultHasher) -> u32 {
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::raw::Raw;

    fn trace(annotations: &Value, finalizers: &Value) -> Trace {
        let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": annotations, "finalizers": finalizers}});
        let raw = Raw::parse(&object.to_string()).unwrap();
        let names = Names::of(["create_fn", "resize/spec.size"].into_iter());
        let places = Places {
            prefix: "op.kopf.rs",
            finalizer: "op.kopf.rs/finalizer",
            names: &names,
        };
        places.trace(&Outline::of(&raw).unwrap())
    }

    /// Returns annotations before and after, and the expected evidence.
    fn changes() -> [(Value, Value, Option<Evidence>); 13] {
        let record = r#"{"started":"2026-01-01T00:00:00Z"}"#;
        let other = r#"{"started":"2026-01-01T00:00:00Z","retries":1}"#;
        let last = "op.kopf.rs/last-handled-configuration";
        [
            (
                json!({}),
                json!({"a/b": "1", "op.kopf.rs/kopf-managed": "yes", "op.kopf.rs/note": "mine"}),
                None,
            ),
            (json!({}), json!({last: "{}"}), Some(Evidence::KnownRecords)),
            (json!({last: "{}"}), json!({}), None),
            (
                json!({}),
                json!({"op.kopf.rs/target-configuration": r#"{"spec":{"started":1}}"#}),
                Some(Evidence::KnownRecords),
            ),
            (
                json!({last: "{}"}),
                json!({last: "{\"spec\":1}"}),
                Some(Evidence::KnownRecords),
            ),
            (
                json!({}),
                json!({"op.kopf.rs/create_fn": record}),
                Some(Evidence::KnownRecords),
            ),
            (
                json!({}),
                json!({"op.kopf.rs/create_fn.sub": record}),
                Some(Evidence::KnownRecords),
            ),
            (
                json!({}),
                json!({"op.kopf.rs/resize.spec.size": record}),
                Some(Evidence::KnownRecords),
            ),
            (
                json!({}),
                json!({"op.kopf.rs/create_fn2": record}),
                Some(Evidence::UnknownRecords),
            ),
            (
                json!({"op.kopf.rs/x": record}),
                json!({"op.kopf.rs/x": record}),
                None,
            ),
            (
                json!({"op.kopf.rs/x": record}),
                json!({"op.kopf.rs/x": other}),
                Some(Evidence::UnknownRecords),
            ),
            (json!({"op.kopf.rs/x": record}), json!({}), None),
            (
                json!({}),
                json!({"op.kopf.rs/touch-dummy": "2026"}),
                Some(Evidence::UnknownRecords),
            ),
        ]
    }

    #[test]
    fn signs_are_what_operators_leave() {
        for (before, after, expected) in changes() {
            let none = json!([]);
            let sign = trace(&after, &none).since(trace(&before, &none));
            assert_eq!(sign, expected, "{before} {after}");
        }
        let (free, held) = (json!([]), json!(["op.kopf.rs/finalizer"]));
        let (free, held) = (trace(&json!({}), &free), trace(&json!({}), &held));
        assert_eq!(
            (held.since(free), free.since(held)),
            (Some(Evidence::FinalizerReadded), None)
        );
    }

    #[test]
    fn long_names_are_known_however_they_are_cut() {
        let id =
            "handle_very_long_operator_function_name_for_reconciliation/spec.template.metadata";
        let names = Names::of([id, "short"].into_iter());
        assert!(names.has("handle_very_long_operator_function_name_for_reconciliati-GUKS.Q"));
        assert!(names.has("handle_very_long_operator_function_name-DElYdg"));
        assert!(names.has("short-ofDRS") && !names.has("shorter"));
    }
}
