//! The part of an object that counts for change detection.
//!
//! It excludes system metadata, the status, and the annotations that operators keep for themselves. Values of Secrets
//! are stored as digests, because more readers can see the stored essence, but handlers see the values. This module
//! must not depend on the storage.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use blake2::Digest as _;
use blake2::digest::consts::U12;
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use crate::object::body::Body;
use crate::object::diff::same;
use crate::object::path::FieldPath;

/// An essence. It is cheap to clone and computes its digest at most once.
#[derive(Clone, Debug)]
pub(crate) struct Essence {
    /// The stored and compared form.
    value: Arc<Value>,
    /// The form that handlers see, if it differs.
    shown: Option<Arc<Value>>,
    digest: Arc<OnceLock<String>>,
}

/// An observation of a field or of the whole essence. Its digest is computed when it is compared or written.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// The stored form: a digest, or the value itself after [`SPELLED`].
    Read(String),
    Of {
        essence: Essence,
        field: Option<FieldPath>,
    },
}

/// The stanzas of Secrets that contain values.
pub(super) const HIDDEN: [&str; 2] = ["data", "stringData"];

/// The substitute for the digest of an absent field.
const ABSENT: &str = "absent";
/// The prefix of a value that is written in place of its digest. Digests do not contain this character.
const SPELLED: char = '=';
/// The maximum size of a field's value; longer ones are written as digests.
const LONGEST_FIELD: usize = 1024;
/// The maximum size of a whole state; longer ones are written as digests.
const LONGEST_WHOLE: usize = 16 * 1024;

/// The annotation of `kubectl apply`.
const KUBECTL: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Identifies the annotations of operators, which do not count as changes, and defines how Secrets are stored.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    own: String,
    secrets: Secrets,
}

/// The form of Secret values in stored essences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrets {
    AsDigests,
    Plain,
}

impl Essence {
    /// Returns the essence of `body`, with the `extra` fields that handlers have opted into, without the parts that `clear` removes.
    pub(crate) fn of<'a>(
        body: &Body,
        extra: impl IntoIterator<Item = &'a FieldPath>,
        marks: &Marks,
        clear: impl Fn(&mut Value),
    ) -> Self {
        let extra: Vec<_> = extra.into_iter().collect();
        let make = |secrets| {
            let mut essence = essence(body, &extra, marks, secrets);
            clear(&mut essence);
            essence
        };
        let hides = marks.secrets == Secrets::AsDigests && is_secret(body);
        Self { shown: hides.then(|| Arc::new(make(Secrets::Plain))), ..Self::from(make(marks.secrets)) }
    }
    /// Returns the stored and compared form.
    pub(crate) fn value(&self) -> &Arc<Value> {
        &self.value
    }
    /// Returns the form that handlers see.
    pub(crate) fn shown(&self) -> &Arc<Value> {
        self.shown.as_ref().unwrap_or(&self.value)
    }
    /// Returns an `older` essence of the same object in the form that handlers see. Digests are replaced by this essence's values where both
    /// agree; a changed value is unknown.
    pub(crate) fn shown_of(&self, older: &Self) -> Arc<Value> {
        let (Some(shown), None) = (&self.shown, &older.shown) else {
            return older.shown().clone();
        };
        let mut known = Value::clone(&older.value);
        for stanza in HIDDEN {
            let members = known.get_mut(stanza).and_then(Value::as_object_mut);
            for (key, value) in members.into_iter().flatten() {
                if self.value[stanza].get(key) == Some(&*value) {
                    *value = shown[stanza][key].clone();
                }
            }
        }
        Arc::new(known)
    }
    /// Returns the same essence in the form that handlers see, with digests replaced by values from the `newest` essence of the object.
    pub(crate) fn shown_as_in(self, newest: &Self) -> Self {
        if self.shown.is_some() || newest.shown.is_none() {
            return self;
        }
        Self { shown: Some(newest.shown_of(&self)), ..self }
    }
    /// Returns compact JSON.
    pub(crate) fn text(&self) -> String {
        text(&self.value)
    }
    /// Returns the digest of this essence.
    pub(crate) fn digest(&self) -> &str {
        self.digest.get_or_init(|| digest(&self.value))
    }
    /// Returns a hash that is equal for equivalent essences. It is for in-process use, and ten times cheaper than a digest.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let meaning = serde_json::to_string(&Meaning(&self.value));
        meaning.unwrap_or_default().hash(&mut hasher);
        hasher.finish()
    }
    /// Returns the digest of the value at `field`, or of the whole essence.
    pub(crate) fn digest_at(&self, field: Option<&FieldPath>) -> String {
        match field.filter(|field| !field.parts().is_empty()) {
            None => self.digest().to_owned(),
            Some(field) => field
                .resolve(&self.value)
                .filter(|value| !value.is_null())
                .map_or_else(|| ABSENT.to_owned(), digest),
        }
    }
    /// Returns the same essence with `value` at `field`, or without the field if `value` is `null`. Without a field, `value` replaces
    /// everything.
    pub(crate) fn but_for(&self, field: Option<&FieldPath>, value: Value) -> Self {
        let Some(field) = field.filter(|field| !field.parts().is_empty()) else {
            return Self::from(value);
        };
        let mut essence = Value::clone(&self.value);
        let mut at = &mut essence;
        for key in field.parts() {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[key.as_str()];
        }
        *at = value;
        Self::from(essence)
    }
    /// Returns true if both essences are equivalent.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is(other) || same(Some(&self.value), Some(&other.value))
    }
    /// Returns true if both share one allocation.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value)
    }
}

impl Sight {
    /// Returns true if the observation equals `essence` at `field`.
    pub(crate) fn is_of(&self, essence: &Essence, field: Option<&FieldPath>) -> bool {
        let is_it = match self {
            Self::Read(_) => false,
            Self::Of { essence: seen, field: of } => seen.is(essence) && of.as_ref() == field,
        };
        is_it || self.digest() == essence.digest_at(field)
    }
    /// Returns the digest of the observed value.
    pub(crate) fn digest(&self) -> Cow<'_, str> {
        match (self, self.spelled()) {
            (_, Some(Value::Null)) => ABSENT.into(),
            (_, Some(value)) => digest(&value).into(),
            (Self::Read(text), None) => text.into(),
            (Self::Of { essence, field }, None) => essence.digest_at(field.as_ref()).into(),
        }
    }
    /// Returns the stored form: the value if it is spelled out, or else its digest.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Read(text) => text.into(),
            Self::Of { .. } => self.digest(),
        }
    }
    /// Returns the observed value if it is known; `null` means absent.
    pub(crate) fn value(&self) -> Option<Value> {
        match self {
            Self::Read(_) => self.spelled(),
            Self::Of { essence, field } => {
                let field = field.as_ref().filter(|field| !field.parts().is_empty());
                let value = field.map_or(Some(&*essence.value), |it| it.resolve(&essence.value));
                Some(value.cloned().unwrap_or_default())
            }
        }
    }
    /// Returns the observation with its value spelled out, so that another process can compute a diff for a handler. Returns `None` if the
    /// value is already spelled out, is too long, or equals the `kept` state. `even_whole` allows a whole state, not only the value of a
    /// field.
    pub(crate) fn spelling(&self, kept: Option<&Essence>, even_whole: bool) -> Option<Self> {
        let Self::Of { field, .. } = self else {
            return None;
        };
        let (field, is_whole) = (field.as_ref(), field.is_none());
        let longest = if is_whole { LONGEST_WHOLE } else { LONGEST_FIELD };
        let is_kept = kept.is_some_and(|kept| self.is_of(kept, field));
        let value = self.value().filter(|_| !is_kept)?;
        if is_whole && !even_whole {
            return None;
        }
        let text = format!("{SPELLED}{}", text(&value));
        (text.len() <= longest).then_some(Self::Read(text))
    }
    fn spelled(&self) -> Option<Value> {
        match self {
            Self::Read(text) => serde_json::from_str(text.strip_prefix(SPELLED)?).ok(),
            Self::Of { .. } => None,
        }
    }
}

impl PartialEq for Sight {
    fn eq(&self, other: &Self) -> bool {
        self.digest() == other.digest()
    }
}

impl Eq for Sight {}

impl From<Value> for Essence {
    fn from(value: Value) -> Self {
        Self { value: Arc::new(value), shown: None, digest: Arc::default() }
    }
}

impl Marks {
    /// Creates the marks of an operator with the prefix `own`.
    pub(crate) fn new(own: impl Into<String>) -> Self {
        Self { own: own.into(), secrets: Secrets::AsDigests }
    }
    /// Returns the same marks with another form for Secrets.
    pub(crate) fn seeing(self, secrets: Secrets) -> Self {
        Self { secrets, ..self }
    }
    /// Returns true if an annotation counts as a user's change: it belongs neither to `kubectl` nor to an operator. `is_there` looks up other
    /// annotations of the object.
    pub(super) fn counts(&self, key: &str, is_there: impl Fn(&str) -> bool) -> bool {
        let prefix = key.split_once('/').map(|(prefix, _)| prefix);
        key != KUBECTL && prefix.is_none_or(|prefix| !self.covers(prefix, is_there))
    }
    /// Returns true if annotations under `prefix` belong to an operator: to this one, to Kopf, to another kopf-rs operator, or to one with a
    /// `kopf-managed` annotation.
    fn covers(&self, prefix: &str, is_there: impl Fn(&str) -> bool) -> bool {
        let of = |domain: &str| {
            prefix.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        prefix == self.own
            || of("kopf.zalando.org")
            || of("kopf.rs")
            || is_there(&format!("{prefix}/kopf-managed"))
    }
}

/// Returns the digest of a JSON value: 16 characters of base64, equal for equivalent values.
pub(crate) fn digest(value: &Value) -> String {
    hash(serde_json::to_string(&Meaning(value)).unwrap_or_default().as_bytes())
}

/// Serializes a JSON value canonically: without `null` members, and with whole numbers as integers.
struct Meaning<'a>(&'a Value);

impl Serialize for Meaning<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                serializer.collect_map(members.map(|(key, value)| (key, Meaning(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Meaning)),
            Value::Number(number) => match whole(number) {
                Some(whole) => whole.serialize(serializer),
                None => number.serialize(serializer),
            },
            other => other.serialize(serializer),
        }
    }
}

/// Returns the integer that equals the float, if there is one.
fn whole(number: &Number) -> Option<i64> {
    if !number.is_f64() {
        return None;
    }
    let text = number.as_f64().map(|it| format!("{it:.0}"))?;
    let whole: i64 = text.parse().ok()?;
    same(Some(&whole.into()), Some(&number.clone().into())).then_some(whole)
}

/// Serializes a value. This is twice as fast as `Display`, and cannot fail.
fn text(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn hash(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(blake2::Blake2b::<U12>::digest(bytes))
}

fn essence(body: &Body, extra: &[&FieldPath], marks: &Marks, secrets: Secrets) -> Value {
    let mut essence = stanzas(body, secrets);
    for field in extra {
        if let Some(value) = field.resolve(body) {
            place(&mut essence, field, value);
        }
    }
    clean_metadata(&mut essence, body, marks);
    for stanza in ["metadata", "status"] {
        if is_empty(essence.get(stanza)) {
            essence.remove(stanza);
        }
    }
    Value::Object(essence)
}

pub(crate) fn is_secret(body: &Body) -> bool {
    body["apiVersion"] == "v1" && body["kind"] == "Secret"
}

/// Returns all stanzas except the system's. Values of Secrets become digests.
fn stanzas(body: &Body, secrets: Secrets) -> Map<String, Value> {
    let secret = secrets == Secrets::AsDigests && is_secret(body);
    let system = ["apiVersion", "kind", "metadata", "status"];
    let members = body.as_object().into_iter().flatten();
    members
        .filter(|(key, _)| !system.contains(&key.as_str()))
        .map(|(key, value)| {
            let hidden = secret && HIDDEN.contains(&key.as_str());
            let value = if hidden { conceal(value, body.uid()) } else { value.clone() };
            (key.clone(), value)
        })
        .collect()
}

/// Replaces values by digests. The salt hides that two Secrets have equal values.
pub(super) fn conceal(values: &Value, salt: &str) -> Value {
    let Some(members) = values.as_object() else {
        return values.clone();
    };
    members
        .iter()
        .map(|(key, value)| {
            if value.is_null() {
                return (key.clone(), Value::Null);
            }
            let hidden = hash(format!("{salt}\n{key}\n{value}").as_bytes());
            (key.clone(), format!("digest:{hidden}").into())
        })
        .collect::<Map<_, _>>()
        .into()
}

/// Adds an extra field, unless it changes with every write: such a field would turn every write into the next change.
fn place(essence: &mut Map<String, Value>, field: &FieldPath, value: &Value) {
    let [first, rest @ ..] = field.parts() else {
        return;
    };
    let system = first == "metadata"
        && rest.first().is_some_and(|it| it == "resourceVersion" || it == "managedFields");
    let is_partial = first == "metadata" || first == "status";
    if system || (!is_partial && essence.contains_key(first)) {
        return; // The essence already contains other stanzas completely.
    }
    let mut at = essence.entry(first.clone()).or_insert(Value::Null);
    for key in rest {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[key.as_str()];
    }
    *at = value.clone();
}

/// Adds labels, and annotations that belong neither to operators nor to `kubectl`.
fn clean_metadata(essence: &mut Map<String, Value>, body: &Body, marks: &Marks) {
    let all = body.annotation_map();
    let opted = essence
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let annotations: Map<String, Value> = all
        .iter()
        .filter(|(key, _)| {
            let opted = key.as_str() == KUBECTL && opted.contains_key(KUBECTL);
            opted || marks.counts(key, |other| all.contains_key(other))
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let metadata = essence.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    metadata.insert("annotations".into(), Value::Object(annotations));
    metadata.insert("labels".into(), Value::Object(body.label_map().clone()));
    metadata.retain(|key, value| match key.as_str() {
        "annotations" | "labels" => !is_empty(Some(value)),
        "resourceVersion" | "managedFields" => false,
        _ => true,
    });
}

fn is_empty(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value.as_object().is_some_and(Map::is_empty))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn essence(body: Value, extra: &[&str]) -> Value {
        let extra: Vec<_> = extra.iter().map(|it| FieldPath::parse(it)).collect();
        let marks = Marks::new("my.example.com");
        Value::clone(Essence::of(&Body::new(body), &extra, &marks, |_| {}).value())
    }

    #[test]
    fn system_fields_do_not_count() {
        let body = json!({
            "apiVersion": "g/v1", "kind": "X", "spec": {"a": 1}, "data": {"k": "v"}, "status": {"s": 1},
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "generation": 3, "finalizers": ["f"],
                         "labels": {"l": "1"}, "annotations": {"x": "y", "kubectl.kubernetes.io/last-applied-configuration": "z"}},
        });
        assert_eq!(
            essence(body, &[]),
            json!({"spec": {"a": 1}, "data": {"k": "v"}, "metadata": {"labels": {"l": "1"}, "annotations": {"x": "y"}}})
        );
        let bare = json!({"spec": {}, "status": {}, "metadata": {"labels": {}, "annotations": {"kopf.zalando.org/x": "1"}}});
        assert_eq!(essence(bare, &[]), json!({"spec": {}}));
        assert_eq!(essence(json!({"metadata": {"name": "n"}}), &[]), json!({}));
    }

    #[test]
    fn annotations_of_operators_do_not_count() {
        for (key, counts) in [
            ("kopf.zalando.org/last-handled-configuration", false),
            ("sub.kopf.zalando.org/x", false),
            ("notkopf.zalando.org/x", true),
            ("other.kopf.rs/x", false),
            ("kopf.rs/x", false),
            ("mykopf.rs/x", true),
            ("my.example.com/x", false),
            ("marked.example.com/x", false),
            ("marked.example.com/kopf-managed", false),
            ("kopf.example.com/x", true),
            ("kopf-managed", true),
            ("plain", true),
        ] {
            let mut body = json!({"metadata": {"annotations": {"marked.example.com/kopf-managed": "yes"}}});
            body["metadata"]["annotations"][key] = json!("1");
            let found = essence(body, &[])["metadata"]["annotations"].get(key).is_some();
            assert_eq!(found, counts, "{key}");
        }
    }

    #[test]
    fn extra_fields_count() {
        let body = json!({"spec": {"a": 1}, "status": {"s": {"t": 1}, "u": 2}, "metadata": {"name": "n", "resourceVersion": "7",
            "annotations": {"my.example.com/x": "1", "y": "1"}}});
        assert_eq!(
            essence(body.clone(), &["status.s.t", "status.none", "spec.a"])["status"],
            json!({"s": {"t": 1}})
        );
        assert_eq!(
            essence(body.clone(), &["metadata.name"])["metadata"],
            json!({"name": "n", "annotations": {"y": "1"}})
        );
        assert_eq!(
            essence(body.clone(), &["metadata.annotations"])["metadata"],
            json!({"annotations": {"y": "1"}})
        );
        assert_eq!(
            essence(body, &["metadata", "metadata.resourceVersion"])["metadata"],
            json!({"name": "n", "annotations": {"y": "1"}})
        );
    }

    #[test]
    fn secrets_stay_secret() {
        let secret = |value: &str, uid: &str| {
            let body = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"uid": uid}, "data": {"k": value}});
            essence(body, &["data.k", "data"])
        };
        let one = secret("aHVudGVyMg==", "u1");
        assert!(!one.to_string().contains("aHVudGVyMg"), "{one}");
        assert_eq!(one["type"], json!("Opaque"));
        assert_eq!(one, secret("aHVudGVyMg==", "u1"));
        assert_ne!(one, secret("other", "u1"));
        assert_ne!(one, secret("aHVudGVyMg==", "u2"));
    }

    #[test]
    fn secrets_are_shown_as_far_as_they_are_known() {
        let secret = |data: Value| {
            let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"uid": "u"}, "data": data});
            Essence::of(&Body::new(body), [], &Marks::new("my.example.com"), |_| {})
        };
        let (old, new) = (
            secret(json!({"same": "MQ==", "other": "MQ==", "gone": "MQ=="})),
            secret(json!({"same": "MQ==", "other": "Mg==", "came": "MQ=="})),
        );
        assert_eq!(new.shown()["data"], json!({"same": "MQ==", "other": "Mg==", "came": "MQ=="}));
        assert_eq!(*new.shown_of(&old), **old.shown(), "in memory all is known");
        let read = Essence::from(Value::clone(old.value()));
        let shown = new.shown_of(&read);
        assert_eq!(shown["data"]["same"], "MQ==");
        for lost in ["other", "gone"] {
            let text = shown["data"][lost].as_str().unwrap();
            assert!(text.starts_with("digest:"), "{text}");
        }
        let plain = Essence::from(json!({"spec": 1}));
        assert_eq!(*plain.shown_of(&read), **read.value());
    }

    #[test]
    fn digests_distinguish_essences() {
        let of = |value: Value| Essence::from(value).digest().to_owned();
        assert_eq!(of(json!({"a": 1, "b": 2})), of(json!({"b": 2, "a": 1})));
        assert_ne!(of(json!({"a": 1})), of(json!({"a": 2})));
        assert_eq!(of(json!({})).len(), 16);
    }

    #[test]
    fn equivalent_values_have_the_same_digest() {
        let at = FieldPath::parse("a");
        for (one, other) in [
            (json!({"a": 1}), json!({"a": 1.0})),
            (json!({"a": null, "b": [{"c": null}]}), json!({"b": [{}]})),
            (json!({"a": {"b": -3.0}}), json!({"a": {"b": -3, "c": null}})),
        ] {
            assert!(same(Some(&one), Some(&other)));
            let (one, other) = (Essence::from(one), Essence::from(other));
            assert_eq!(one.digest(), other.digest());
            assert_eq!(one.digest_at(Some(&at)), other.digest_at(Some(&at)));
        }
        let of = |value: Value| Essence::from(value).digest().to_owned();
        assert_ne!(of(json!({"a": [null]})), of(json!({"a": []})));
        assert_ne!(of(json!({"a": 1.5})), of(json!({"a": 1})));
        assert_ne!(of(json!({"a": {}})), of(json!({})));
    }

    /// An essence survives storage as text unchanged, so that its digest still matches earlier observations.
    #[test]
    fn an_essence_that_was_stored_has_the_same_digest() {
        for share in 1..2000_u32 {
            let number = f64::from(share).sqrt() / 7.0;
            let essence = Essence::from(json!({"a": number}));
            let stored: Value = serde_json::from_str(&essence.text()).unwrap();
            assert_eq!(Essence::from(stored).digest(), essence.digest(), "{number}");
        }
    }
}
