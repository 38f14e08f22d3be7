//! The rules for `metadata` that apply to all kinds: defaults, validation, immutable fields.
//!
//! Guarantees the real server's messages. Must not depend on the store or verbs.

pub(crate) mod names;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Body, MANAGED, finalizers, metadata, metadata_mut, owners, text};
use crate::status::{Cause, shown};

/// The maximum total size of an object's annotations, keys and values.
const ANNOTATION_LIMIT: usize = 256 * 1024;

/// The fields of `metadata`; others are dropped, as on the real server.
const FIELDS: [&str; 14] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    MANAGED,
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "uid",
];

/// The API groups of built-in kinds that accept any finalizer, as custom kinds do.
const LENIENT: [&str; 5] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
];

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// Removes unknown fields, nulls, and empty lists and maps from `metadata`; returns the names of the unknown fields.
pub(crate) fn tidy(body: &mut Body) -> Vec<String> {
    let mut unknown = Vec::new();
    metadata_mut(body).retain(|key, value| {
        let known = FIELDS.contains(&key.as_str());
        if !known && key != "selfLink" {
            unknown.push(format!("metadata.{key}"));
        }
        if let Value::Object(map) = value {
            // Go reads a null among strings as an empty string.
            let nulls = map.values_mut().filter(|value| value.is_null());
            nulls.for_each(|value| *value = "".into());
        }
        let empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        // An empty list of managed fields stays, because it asks to reset them.
        known && (!empty || (key == MANAGED && value.is_array()))
    });
    unknown
}

/// Returns the decoding error of metadata whose parts have wrong JSON types.
pub(crate) fn check_types(kind: &Kind, body: &Body) -> Result<(), String> {
    let wrong = |field: &str, wanted: &str, found: &Value| {
        let field = if kind.traits.builtin {
            format!("metadata.{field}")
        } else {
            field.to_owned()
        };
        let found = go_type(found);
        format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {wanted}"
        )
    };
    let meta = match body.get("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(meta)) => meta,
        Some(other) => {
            let found = go_type(other);
            let place = if kind.traits.builtin {
                format!("struct field {}.metadata", kind.kind)
            } else {
                "value".to_owned()
            };
            return Err(format!(
                "json: cannot unmarshal {found} into Go {place} of type v1.ObjectMeta"
            ));
        }
    };
    check_numbers_and_times(meta, wrong)?;
    for field in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
    ] {
        if let Some(value) = meta.get(field).filter(|v| !v.is_string() && !v.is_null()) {
            return Err(wrong(field, "string", value));
        }
    }
    for field in ["labels", "annotations"] {
        match meta.get(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => {
                if let Some(value) = map.values().find(|v| !v.is_string() && !v.is_null()) {
                    return Err(wrong(field, "string", value));
                }
            }
            Some(other) => return Err(wrong(field, "map[string]string", other)),
        }
    }
    match meta.get("finalizers") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(items)) => items
            .iter()
            .find(|item| !item.is_string())
            .map_or(Ok(()), |item| Err(wrong("finalizers", "string", item))),
        Some(other) => Err(wrong("finalizers", "[]string", other)),
    }
}

fn check_numbers_and_times(
    meta: &Body,
    wrong: impl Fn(&str, &str, &Value) -> String,
) -> Result<(), String> {
    for field in ["generation", "deletionGracePeriodSeconds"] {
        if let Some(value) = meta.get(field).filter(|v| !v.is_i64() && !v.is_null()) {
            return Err(wrong(field, "int64", value));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let text = meta.get(field).and_then(Value::as_str);
        if let Some(text) = text.filter(|text| text.parse::<jiff::Timestamp>().is_err()) {
            return Err(format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
            ));
        }
    }
    Ok(())
}

/// Returns Go's name for the type of a JSON value.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null => "null",
    }
}

/// Validates the metadata of a new or changed object.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let empty = Body::new();
    let meta = metadata(body).unwrap_or(&empty);
    let name = text(meta, "name");
    let stem = text(meta, "generateName");
    // A `generateName` may end in a dash, because a suffix follows.
    let masked = stem
        .strip_suffix('-')
        .map_or_else(|| stem.to_owned(), |start| format!("{start}a"));
    if let Some(message) = names::object_name(kind, &masked).filter(|_| !stem.is_empty()) {
        let cause = Cause::invalid("metadata.generateName", &stem.into(), &message);
        causes.push(cause);
    }
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(message) = names::object_name(kind, name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), &message));
    }
    check_labels(meta, &mut causes);
    check_annotations(meta, &mut causes);
    check_owners(meta, &mut causes);
    let found = finalizers(body);
    for finalizer in &found {
        for message in names::qualified(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &(*finalizer).into(),
                &message,
            ));
        }
    }
    if found.contains(&"orphan") && found.contains(&"foregroundDeletion") {
        let message = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid(
            "metadata.finalizers",
            &found.clone().into(),
            message,
        ));
    }
    let strict = kind.traits.builtin && !LENIENT.contains(&kind.group.as_str());
    for (at, finalizer) in found.iter().enumerate().filter(|_| strict) {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            causes.push(Cause::invalid(
                format!("metadata.finalizers[{at}]"),
                &(*finalizer).into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    causes
}

/// Validates labels.
pub(crate) fn check_labels(meta: &Body, causes: &mut Vec<Cause>) {
    let labels = meta.get("labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        for message in names::qualified(key) {
            causes.push(Cause::invalid(
                "metadata.labels",
                &key.as_str().into(),
                &message,
            ));
        }
        for message in names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &message));
        }
    }
}

/// Validates annotations.
pub(crate) fn check_annotations(meta: &Body, causes: &mut Vec<Cause>) {
    let annotations = meta.get("annotations").and_then(Value::as_object);
    let mut total = 0;
    for (key, value) in annotations.into_iter().flatten() {
        total += key.len() + value.as_str().map_or(0, str::len);
        for message in names::qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                &message,
            ));
        }
    }
    if total > ANNOTATION_LIMIT {
        causes.push(Cause::new(
            "FieldValueTooLong",
            "metadata.annotations",
            format!("Too long: may not be more than {ANNOTATION_LIMIT} bytes"),
        ));
    }
}

/// Removes duplicate owner references, as the real server does; returns the warning about them, whose text differs for patches.
pub(crate) fn unite_owners(body: &mut Body, patched: bool) -> Option<String> {
    let found = body.get_mut("metadata")?.get_mut("ownerReferences")?;
    let found = found.as_array_mut()?;
    let (mut kept, mut twice) = (Vec::new(), Vec::new());
    for owner in std::mem::take(found) {
        if kept.contains(&owner) {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *found = kept;
    let when = if patched {
        " after mutating admission happens"
    } else {
        ""
    };
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

fn check_owners(meta: &Body, causes: &mut Vec<Cause>) {
    let mut controllers = Vec::new();
    let all = owners(meta);
    for owner in &all {
        let field = |name: &str| format!("metadata.ownerReferences.{name}");
        for (name, message) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, name).is_empty() {
                causes.push(Cause::invalid(field(name), &"".into(), message));
            }
        }
        if (text(owner, "apiVersion"), text(owner, "kind")) == ("v1", "Event") {
            let shown = shown_owners(&[owner]);
            let shown = shown.trim_start_matches('[').trim_end_matches(']');
            causes.push(Cause::new(
                "FieldValueInvalid",
                "metadata.ownerReferences",
                format!(
                    "Invalid value: {shown}: /v1, Kind=Event is disallowed from being an owner"
                ),
            ));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            controllers.push(format!("{}/{}", text(owner, "kind"), text(owner, "name")));
        }
    }
    if controllers.len() > 1 {
        causes.push(Cause::new(
            "FieldValueInvalid",
            "metadata.ownerReferences",
            format!(
                "Invalid value: {}: Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                shown_owners(&all),
                controllers[0],
                controllers[1]
            ),
        ));
    }
}

/// Formats owner references as the real server prints them, with the fields in the order of the Go struct.
fn shown_owners(owners: &[&Body]) -> String {
    let fields = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let shown: Vec<String> = owners
        .iter()
        .map(|owner| {
            let parts: Vec<String> = fields
                .iter()
                .filter_map(|field| Some(format!("{field:?}:{}", owner.get(*field)?)))
                .collect();
            format!("{{{}}}", parts.join(","))
        })
        .collect();
    format!("[{}]", shown.join(","))
}

/// Returns the real server's warnings about finalizers of custom objects that are not in `known`.
pub(crate) fn warnings(kind: &Kind, body: &Body, known: &[String]) -> Vec<String> {
    let fresh = finalizers(body)
        .into_iter()
        .filter(|_| !kind.traits.builtin)
        .filter(|finalizer| !known.iter().any(|known| known == finalizer));
    let mut warnings = Vec::new();
    for finalizer in fresh {
        let start = format!("metadata.finalizers: {finalizer:?}");
        let misspelt = names::qualified(finalizer);
        warnings.extend(misspelt.iter().map(|why| format!("{start}: {why}")));
        if finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer) {
            continue;
        }
        let path = if finalizer.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warnings.push(format!(
            "{start}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}

/// Fills in the metadata that an update may omit, and refuses changes of immutable fields.
pub(crate) fn check_change(old: &Body, new: &mut Body) -> Vec<Cause> {
    let empty = Body::new();
    let before = metadata(old).unwrap_or(&empty);
    let meta = metadata_mut(new);
    let deleting = before.contains_key("deletionTimestamp");
    let keep = |meta: &mut Body, field: &str, always: bool| {
        if let Some(value) = before.get(field)
            && (always || !meta.contains_key(field))
        {
            meta.insert(field.to_owned(), value.clone());
        }
    };
    keep(meta, "uid", false);
    keep(meta, "creationTimestamp", true);
    keep(meta, "namespace", false);
    if deleting {
        keep(meta, "deletionTimestamp", true);
        keep(meta, "deletionGracePeriodSeconds", true);
    }
    let mut causes = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if meta.get(field) != before.get(field) {
            let value = meta.get(field).unwrap_or(&Value::Null);
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                value,
                "field is immutable",
            ));
        }
    }
    if deleting {
        causes.extend(new_finalizers(old, new));
    }
    causes
}

fn new_finalizers(old: &Body, new: &Body) -> Option<Cause> {
    let known = finalizers(old);
    let found: Vec<String> = finalizers(new)
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(|name| shown(&name.into()))
        .collect();
    (!found.is_empty()).then(|| {
        Cause::forbidden(
            "metadata.finalizers",
            &format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                found.join(", ")
            ),
        )
    })
}
