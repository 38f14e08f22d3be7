//! The options of a write in its query: dry run, field manager, field validation.
//!
//! Guarantees the real server's refusals of invalid options. Must not depend on bodies.

use super::{Call, Verb};
use crate::status::{Cause, Refusal, options};

/// The treatment of unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    Warn,
    Ignore,
    Refuse,
}

// === impl UnknownFields ===

impl UnknownFields {
    /// Returns the complaints as warnings, or as the text of a refusal.
    pub(crate) fn judge(self, complaints: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Refuse if !complaints.is_empty() => {
                Err(format!("strict decoding error: {}", together(&complaints)))
            }
            Self::Warn | Self::Refuse => Ok(complaints),
        }
    }
}

/// Joins complaints; those of YAML form one message.
fn together(complaints: &[String]) -> String {
    let of_yaml = |told: &&String| told.starts_with("line ");
    let lines: Vec<&String> = complaints.iter().filter(of_yaml).collect();
    let mut all = Vec::new();
    if !lines.is_empty() {
        all.push(unmarshal_errors(lines));
    }
    all.extend(complaints.iter().filter(|told| !of_yaml(told)).cloned());
    all.join(", ")
}

/// Joins messages as Go's YAML parser does.
pub(crate) fn unmarshal_errors<'a>(lines: impl IntoIterator<Item = &'a String>) -> String {
    let mut text = "yaml: unmarshal errors:".to_owned();
    for line in lines {
        text += "\n  ";
        text += line;
    }
    text
}

/// Returns the complaint about invalid dry-run stages.
pub(crate) fn bad_dry_run(given: &[&str]) -> Option<Cause> {
    if given.iter().all(|stage| *stage == "All") {
        return None;
    }
    let shown: Vec<String> = given.iter().map(|stage| format!("{stage:?}")).collect();
    let message = format!(
        "Unsupported value: [{}]: supported values: \"All\"",
        shown.join(",")
    );
    Some(Cause::new("FieldValueNotSupported", "dryRun", message))
}

// === impl Call ===

impl Call {
    /// Returns whether the request is a dry run, which persists nothing.
    pub(crate) fn dry_run(&self) -> Result<bool, Refusal> {
        let given: Vec<&str> = self.params("dryRun").collect();
        match bad_dry_run(&given) {
            Some(cause) => Err(self.bad_options(&[cause])),
            None => Ok(!given.is_empty()),
        }
    }

    /// Returns the field manager: that of the request, or the client's name.
    pub(crate) fn manager(&self) -> Result<String, Refusal> {
        let given = self.param("fieldManager");
        if given.is_empty() {
            let agent = self.user_agent.as_deref().unwrap_or_default();
            let name = agent.split('/').next().unwrap_or_default();
            let printable = name.chars().filter(|letter| !letter.is_control());
            return Ok(printable.take(128).collect());
        }
        let wrong = given.chars().position(char::is_control);
        let cause = if given.len() > 128 {
            let message = "Too long: may not be more than 128 bytes";
            Cause::new("FieldValueTooLong", "fieldManager", message)
        } else if let Some(at) = wrong {
            let letter = given.chars().nth(at).map_or(0, u32::from);
            let message = format!("invalid character U+{letter:04X} (at position {at})");
            Cause::invalid("fieldManager", &given.into(), &message)
        } else {
            return Ok(given.to_owned());
        };
        Err(self.bad_options(&[cause]))
    }

    /// Returns the treatment of unknown fields.
    pub(crate) fn unknown_fields(&self) -> Result<UnknownFields, Refusal> {
        match self.param("fieldValidation") {
            "" | "Warn" => Ok(UnknownFields::Warn),
            "Ignore" => Ok(UnknownFields::Ignore),
            "Strict" => Ok(UnknownFields::Refuse),
            other => Err(self.unsupported(
                "fieldValidation",
                &format!("{other:?}"),
                "\"\", \"Ignore\", \"Strict\", \"Warn\"",
            )),
        }
    }

    fn unsupported(&self, field: &str, given: &str, supported: &str) -> Refusal {
        let message = format!("Unsupported value: {given}: supported values: {supported}");
        self.bad_options(&[Cause::new("FieldValueNotSupported", field, message)])
    }

    /// Returns the refusal of invalid options.
    pub(crate) fn bad_options(&self, causes: &[Cause]) -> Refusal {
        let word = match self.verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            _ => "DeleteOptions",
        };
        Refusal::invalid(options(word), causes)
    }
}
