//! Checks that the defaults of a schema are valid values of the schema itself.
//!
//! Changes nothing. Independent of objects.

use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::rules as metadata_rules;
use crate::schema::{embedded, rules};
use crate::status::{Cause, shown};

/// Checks the defaults of the schema at `field`.
pub(super) fn check(schema: &Value, field: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let around = Around::default();
    walk(schema, field, &around, true, &mut causes);
    causes
}

/// True with the path from the object if a default lies in `metadata`, `apiVersion` or `kind`.
#[derive(Clone, Debug, Default)]
struct Around {
    in_meta: bool,
    way: Vec<Option<String>>,
}

fn walk(schema: &Value, field: &str, around: &Around, root: bool, causes: &mut Vec<Cause>) {
    let embedded = root || crate::schema::is(schema, "x-kubernetes-embedded-resource");
    let around = if embedded { &Around::default() } else { around };
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        let at = format!("{field}.default");
        if around.in_meta {
            causes.extend(in_meta(schema, default, &at, around));
        } else {
            causes.extend(own(schema, default, &at, root));
        }
    }
    // The real server does not check defaults of map entries.
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let inner = around.step(None);
        walk(items, &format!("{field}.items"), &inner, false, causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, part) in properties.into_iter().flatten() {
        let mut inner = around.step(Some(name));
        inner.in_meta |= embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let field = format!("{field}.properties[{name}]");
        walk(part, &field, &inner, false, causes);
    }
}

/// Checks a default outside of the metadata.
fn own(schema: &Value, default: &Value, at: &str, root: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut pruned = default.clone();
    let mut unknown = Vec::new();
    let embedded = root || crate::schema::is(schema, "x-kubernetes-embedded-resource");
    crate::schema::prune(schema, &mut pruned, "", embedded, &mut unknown);
    if pruned != *default {
        causes.push(Cause::invalid(at, default, "must not have unknown fields"));
    }
    let mut whole;
    let schema = if root {
        whole = schema.clone();
        whole["x-kubernetes-embedded-resource"] = true.into();
        &whole
    } else {
        schema
    };
    let mut tidied = default.clone();
    if let Err(told) = embedded::tidy(schema, &mut tidied, at, &mut unknown) {
        if let Some((field, message)) = told.split_once(": ") {
            causes.push(Cause::new("FieldValueInvalid", field, message));
        }
        return causes;
    }
    let misfits = embedded::check(schema, &tidied, at);
    if !misfits.is_empty() {
        causes.extend(misfits);
        return causes;
    }
    causes.extend(validated(schema, &tidied, at));
    causes
}

/// Checks a default against the schema and its rules.
fn validated(schema: &Value, default: &Value, at: &str) -> Vec<Cause> {
    let misfits = crate::schema::check::check_default(schema, default, at);
    if !misfits.is_empty() {
        return misfits;
    }
    let kept = rules::check_value(schema, default, Some(default), at);
    if kept.is_empty() {
        return rules::check_value(schema, default, None, at);
    }
    kept
}

/// Checks a default within the metadata or of `apiVersion` or `kind`, as a part of a whole object.
fn in_meta(schema: &Value, default: &Value, at: &str, around: &Around) -> Vec<Cause> {
    let object = around.object(default);
    let told = |why: &str| {
        let message = format!("must result in valid metadata: {why}");
        vec![Cause::invalid(at, default, &message)]
    };
    for name in ["apiVersion", "kind"] {
        if let Some(found) = object.get(name).filter(|found| !found.is_string()) {
            let why = format!("{name}: Invalid value: {}: must be a string", shown(found));
            return told(&why);
        }
    }
    if let Err(why) = metadata_rules::check_types(&Kind::anonymous(), &object) {
        let found = object.get("metadata").map(shown).unwrap_or_default();
        return told(&format!("metadata: Invalid value: {found}: {why}"));
    }
    let mut causes = Vec::new();
    embedded::check_object(&object, "", &mut causes);
    if !causes.is_empty() {
        let line = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
        let lines: Vec<String> = causes.iter().map(line).collect();
        return told(&match lines.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        });
    }
    validated(schema, default, at)
}

// === impl Around ===

impl Around {
    fn step(&self, name: Option<&str>) -> Self {
        let mut inner = self.clone();
        inner.way.push(name.map(str::to_owned));
        inner
    }

    /// Builds an object that has the value at this path.
    fn object(&self, value: &Value) -> Map<String, Value> {
        let mut whole = value.clone();
        for step in self.way.iter().rev() {
            whole = match step {
                Some(name) => json!({ name.as_str(): whole }),
                None => json!([whole]),
            };
        }
        let mut object = whole.as_object().cloned().unwrap_or_default();
        object.entry("kind").or_insert_with(|| "Validation".into());
        let version = object.entry("apiVersion");
        version.or_insert_with(|| "validation/v1".into());
        object
    }
}
