//! Collects validation errors, and offers typed access to JSON maps.
//!
//! This module words each error in one place. Independent of the rules.

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Body;
use crate::status::{Cause, shown};

/// Collects the errors of one object.
#[derive(Debug)]
pub(super) struct Finder<'a> {
    pub(super) kind: &'a Kind,
    pub(super) root: &'a Body,
    pub(super) causes: Vec<Cause>,
}

// === impl Finder ===

impl<'a> Finder<'a> {
    pub(super) fn new(kind: &'a Kind, root: &'a Body) -> Self {
        Self {
            kind,
            root,
            causes: Vec::new(),
        }
    }

    pub(super) fn required(&mut self, field: impl Into<String>, message: &str) {
        self.causes.push(Cause::required(field, message));
    }

    pub(super) fn invalid(&mut self, field: impl Into<String>, value: &Value, message: &str) {
        self.causes.push(Cause::invalid(field, value, message));
    }

    /// Like `invalid`, with a value that is already printed.
    pub(super) fn invalid_as(&mut self, field: impl Into<String>, shown: &str, message: &str) {
        let message = format!("Invalid value: {shown}: {message}");
        self.causes
            .push(Cause::new("FieldValueInvalid", field, message));
    }

    /// Like `invalid`, without a value.
    pub(super) fn invalid_bare(&mut self, field: impl Into<String>, message: &str) {
        let message = format!("Invalid value: {message}");
        self.causes
            .push(Cause::new("FieldValueInvalid", field, message));
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, message: &str) {
        self.causes.push(Cause::forbidden(field, message));
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        let message = format!("Duplicate value: {}", shown(value));
        self.causes
            .push(Cause::new("FieldValueDuplicate", field, message));
    }

    /// Like `duplicate`, with a value that is already printed.
    pub(super) fn duplicate_as(&mut self, field: impl Into<String>, shown: &str) {
        let message = format!("Duplicate value: {shown}");
        self.causes
            .push(Cause::new("FieldValueDuplicate", field, message));
    }

    pub(super) fn too_long(&mut self, field: impl Into<String>, most: usize) {
        let message = format!("Too long: may not be more than {most} bytes");
        self.causes
            .push(Cause::new("FieldValueTooLong", field, message));
    }

    pub(super) fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        let message = format!("Not found: {}", shown(value));
        self.causes
            .push(Cause::new("FieldValueNotFound", field, message));
    }

    /// Like `not_found`, with a value that is already printed.
    pub(super) fn not_found_as(&mut self, field: impl Into<String>, shown: &str) {
        let message = format!("Not found: {shown}");
        self.causes
            .push(Cause::new("FieldValueNotFound", field, message));
    }

    pub(super) fn unsupported(&mut self, field: impl Into<String>, value: &Value, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|word| format!("{word:?}")).collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            known.join(", ")
        );
        self.causes
            .push(Cause::new("FieldValueNotSupported", field, message));
    }

    /// Adds an `invalid` error for each message.
    pub(super) fn all(&mut self, field: &str, value: &Value, messages: Vec<String>) {
        for message in messages {
            self.invalid(field, value, &message);
        }
    }
}

/// Returns the path of a field.
pub(super) fn child(at: &str, name: &str) -> String {
    if at.is_empty() {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    }
}

/// Returns the items of a list, or none if the field is not a list.
pub(super) fn items<'a>(body: &'a Body, field: &str) -> &'a [Value] {
    body.get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns the maps in a list with their paths.
pub(super) fn maps<'a>(body: &'a Body, field: &str, at: &str) -> Vec<(String, &'a Body)> {
    let at = child(at, field);
    let items = items(body, field).iter().enumerate();
    items
        .filter_map(|(index, item)| Some((format!("{at}[{index}]"), item.as_object()?)))
        .collect()
}

/// Returns a map, if the field is one.
pub(super) fn map<'a>(body: &'a Body, field: &str) -> Option<&'a Body> {
    body.get(field).and_then(Value::as_object)
}

/// Returns a number, if the field is one.
pub(super) fn number(body: &Body, field: &str) -> Option<i64> {
    body.get(field).and_then(Value::as_i64)
}

/// Returns true if the field is true.
pub(super) fn is_true(body: &Body, field: &str) -> bool {
    body.get(field) == Some(&Value::Bool(true))
}

/// Returns true if the value is the zero value of its type in Go.
pub(super) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::Bool(_)) => false,
    }
}
