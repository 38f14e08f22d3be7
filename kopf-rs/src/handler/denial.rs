//! Errors that deny an admission request: a message with an HTTP code, or a list of invalid fields.
//!
//! Both keep their meaning when another error wraps them. This module does not build the response to a review.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::object::path::FieldPath;

/// An error that denies an admission request with a message and an HTTP code: Kopf's `AdmissionError`. Return it from
/// handlers with [`#[on_validate]`](macro@crate::on_validate) and [`#[on_mutate]`](macro@crate::on_mutate). In other
/// handlers, it is treated as a [`PermanentError`](crate::PermanentError).
///
/// ```
/// # use kopf_rs::prelude::*;
/// #[on_validate("kopfexamples")]
/// async fn not_too_large(#[from(spec.size)] size: u32) -> HandlerResult {
///     if size > 100 {
///         return Err(AdmissionError::new("the size must be at most 100").code(422));
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AdmissionError {
    message: String,
    #[source]
    denial: Denial,
}

/// A list of all invalid fields of an object, reported together. The response has the form that the API server uses
/// for its own kinds: code 422, reason `Invalid`, and one cause per field.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_validate("kopfexamples")]
/// async fn valid(spec: &Value) -> Result<(), AdmissionErrors> {
///     let mut errors = AdmissionErrors::new();
///     if spec["size"].as_u64().is_none_or(|size| size == 0) {
///         errors.invalid("spec.size", &spec["size"], "must be a positive number");
///     }
///     if spec["image"].is_null() {
///         errors.required("spec.image", "");
///     }
///     errors.into_result()
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let errors = valid(&json!({"size": -1})).await.unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "[spec.size: Invalid value: -1: must be a positive number, spec.image: Required value]"
/// );
/// # });
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.listed())]
pub struct AdmissionErrors(#[source] Denial);

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldError {
    /// The Kubernetes reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// The path of the field, such as `spec.size` or `spec.ports[0].name`.
    pub field: String,
    /// The explanation for the user.
    pub message: String,
}

/// The part of an error that shapes the response. The error exposes it as its source, because wrappers such as
/// `anyhow::Error` hide the type of the error they hold, but not its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the request is denied")]
pub(crate) struct Denial {
    /// The code as given, even if it is invalid; `None` if the handler gave none.
    pub(crate) code: Option<u16>,
    pub(crate) fields: Vec<FieldError>,
}

// === impl AdmissionError ===

impl AdmissionError {
    /// Creates an error with the code 500, as in Kopf.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), denial: Denial::default() }
    }

    /// Sets the HTTP code, from 400 to 599. An invalid code counts as 500 and logs a warning.
    #[must_use]
    pub fn code(mut self, code: u16) -> Self {
        self.denial.code = Some(code);
        self
    }

    /// Restores the error from another error that wraps it.
    pub(crate) fn of(message: String, denial: Denial) -> Self {
        Self { message, denial }
    }

    pub(crate) fn into_denial(self) -> Denial {
        self.denial
    }
}

// === impl AdmissionErrors ===

impl AdmissionErrors {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field whose value is not allowed.
    ///
    /// # Panics
    /// If the value cannot be JSON, such as a map whose keys are not text.
    pub fn invalid(
        &mut self,
        field: impl Into<FieldPath>,
        value: impl Serialize,
        message: impl fmt::Display,
    ) {
        let value = serde_json::json!(value);
        let found = format!("Invalid value: {value}");
        self.add("FieldValueInvalid", field, &found, &message);
    }

    /// Adds a required field that is missing. The message may be empty.
    pub fn required(&mut self, field: impl Into<FieldPath>, message: impl fmt::Display) {
        self.add("FieldValueRequired", field, "Required value", &message);
    }

    /// Adds a field that must be absent, or that must not change.
    pub fn forbidden(&mut self, field: impl Into<FieldPath>, message: impl fmt::Display) {
        self.add("FieldValueForbidden", field, "Forbidden", &message);
    }

    /// Adds a field whose value is already in use.
    ///
    /// # Panics
    /// If the value cannot be JSON, such as a map whose keys are not text.
    pub fn duplicate(&mut self, field: impl Into<FieldPath>, value: impl Serialize) {
        let value = serde_json::json!(value);
        let found = format!("Duplicate value: {value}");
        self.add("FieldValueDuplicate", field, &found, &"");
    }

    /// Adds a field whose value is not one of the supported values.
    ///
    /// # Panics
    /// If the value cannot be JSON, such as a map whose keys are not text.
    pub fn unsupported<T: Serialize>(
        &mut self,
        field: impl Into<FieldPath>,
        value: impl Serialize,
        supported: impl IntoIterator<Item = T>,
    ) {
        let value = serde_json::json!(value);
        let supported = supported.into_iter().map(|it| serde_json::json!(it));
        let supported: Vec<String> = supported.map(|it: Value| it.to_string()).collect();
        let found = format!("Unsupported value: {value}");
        let message = format!("supported values: {}", supported.join(", "));
        self.add("FieldValueNotSupported", field, &found, &message);
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.fields.is_empty()
    }

    /// Iterates over the invalid fields in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.0.fields.iter()
    }

    /// Returns `Ok` if the list is empty.
    ///
    /// # Errors
    /// Returns the list if it has any entry.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    fn add(&mut self, reason: &str, field: impl Into<FieldPath>, found: &str, message: &dyn fmt::Display) {
        let message = message.to_string();
        self.0.fields.push(FieldError {
            reason: reason.to_owned(),
            field: field.into().to_string(),
            message: if message.is_empty() { found.to_owned() } else { format!("{found}: {message}") },
        });
    }
}

impl<'a> IntoIterator for &'a AdmissionErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

// === impl Denial ===

impl Denial {
    /// Returns the fields and their messages in the API server's notation: several entries in brackets.
    pub(crate) fn listed(&self) -> String {
        let all: Vec<_> = self.fields.iter().map(FieldError::to_string).collect();
        match all.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_fields_are_worded_as_the_api_server_words_them() {
        let mut errors = AdmissionErrors::new();
        assert!(errors.clone().into_result().is_ok());
        errors.duplicate("spec.name", "a");
        assert_eq!(errors.to_string(), "spec.name: Duplicate value: \"a\"");
        errors.unsupported("spec.mode", json!("x"), ["a", "b"]);
        errors.forbidden(["metadata", "labels", "example.com/app"], "is ours");
        assert_eq!(
            errors.to_string(),
            "[spec.name: Duplicate value: \"a\", spec.mode: Unsupported value: \"x\": supported values: \"a\", \"b\", \
             metadata.labels.example.com/app: Forbidden: is ours]"
        );
        let reasons: Vec<_> = errors.iter().map(|it| it.reason.as_str()).collect();
        let expected = ["FieldValueDuplicate", "FieldValueNotSupported", "FieldValueForbidden"];
        assert_eq!(reasons, expected);
        assert!(errors.into_result().is_err());
    }
}
