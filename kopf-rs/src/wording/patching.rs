//! The log lines about writes. Uses Kopf's wording wherever Kopf has such a line.

use std::fmt::{self, Formatter};

use serde_json::{Value, json};
use tracing::Level;

use crate::happening::patching::{Owner, PatchPart, Patching};
use crate::object::inconsistency::Inconsistency;
use crate::object::patch::Patch;
use crate::object::resource::Resource;

pub(super) fn level(patching: &Patching) -> Level {
    match patching {
        Patching::Begins { .. }
        | Patching::Outdated { .. }
        | Patching::Skipped
        | Patching::NotSent
        | Patching::GivenUp { .. } => Level::DEBUG,
        Patching::Foreign { .. }
        | Patching::Pruned { .. }
        | Patching::StatusSubresourceLost { .. }
        | Patching::SelfTriggered { .. } => Level::WARN,
        Patching::Refused { .. } | Patching::FunctionPanicked { .. } => Level::ERROR,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, patching: &Patching) -> fmt::Result {
    match patching {
        Patching::Begins { patch, part } => write_begin(f, patch, *part),
        Patching::Outdated { patch } => write!(
            f,
            "Could not apply the patch in full due to conflicts with newer changes. Will try on the next cycle soon. Remaining: {}",
            patch.as_value()
        ),
        Patching::Skipped => {
            f.write_str("Patching was skipped: the object does not exist anymore.")
        }
        Patching::Refused { message, patch } => write!(
            f,
            "Patching was refused: {message}. The refused patch: {patch}"
        ),
        Patching::NotSent => f.write_str(
            "Patching was skipped: this instance does not hold the Lease any more, and the one that does makes the attempt again.",
        ),
        Patching::GivenUp { error } => write!(
            f,
            "Patching failed for the last time before the exit: {error}"
        ),
        Patching::Foreign { fields, owner } => {
            let whose = match owner {
                Owner::Server => "only the server sets",
                Owner::Operator => "belongs to the operator",
            };
            write!(
                f,
                "A handler has patched {}, which {whose}: this part of the patch is ignored, and the rest is written.",
                fields.join(", ")
            )
        }
        Patching::FunctionPanicked { handler, panic } => {
            let of = handler.as_ref().map(|id| format!(" of '{id}'"));
            let of = of.unwrap_or_default();
            write!(f, "A patch function{of} is skipped: it {panic}")
        }
        Patching::Pruned { resource, fields } => write_pruned(f, resource, fields),
        Patching::StatusSubresourceLost { resource } => write!(
            f,
            "{resource} no longer has a status subresource: the status is written with the rest of the object."
        ),
        Patching::SelfTriggered { resource, times } => write!(
            f,
            "The handlers of this object have changed it {times} times in a row, and each change has caused their next call. The operator now \
             pauses between these calls. Write only values that differ from those of the object, or write only to the status. This warning \
             appears once for {resource}."
        ),
    }
}

pub(super) fn outcomes_lost(objects: usize, error: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let (objects, their) = match objects {
        1 => ("1 object".to_owned(), "its"),
        objects => (format!("{objects} objects"), "their"),
    };
    write!(
        f,
        "The outcomes of {objects} could not be written before the exit: {their} handlers will be called again at the next start. The last \
         error: {error}"
    )
}

/// Writes Kopf's line, plus the fields that the schema lacks.
fn write_pruned(
    f: &mut Formatter<'_>,
    resource: &Resource,
    fields: &[Inconsistency],
) -> fmt::Result {
    let joined = |texts: Vec<String>| texts.join(", ");
    let all = joined(fields.iter().map(ToString::to_string).collect());
    write!(f, "Merge-patching finished with inconsistencies: {all} (")?;
    let lines: Vec<_> = fields
        .iter()
        .filter_map(Inconsistency::schema_line)
        .collect();
    if lines.is_empty() || !resource.is_custom() {
        return write!(f, "does the schema of {resource} have these fields?)");
    }
    write!(
        f,
        "the schema of {resource} seems to lack them; add to it: {})",
        joined(lines)
    )
}

/// Writes Kopf's line: the destination and the content.
fn write_begin(f: &mut Formatter<'_>, patch: &Patch, part: PatchPart) -> fmt::Result {
    let (how, more) = if patch.functions().is_empty() {
        ("Merge-patching", "")
    } else {
        ("JSON-patching", ", and by functions")
    };
    let all = patch.as_value();
    match part {
        PatchPart::Status => {
            let status = json!({"status": all["status"]});
            write!(f, "{how} the status with: {status}{more}")
        }
        PatchPart::All => write!(f, "{how} the resource with: {all}{more}"),
        PatchPart::Rest => {
            let mut rest = all.clone();
            if let Value::Object(rest) = &mut rest {
                rest.remove("status");
            }
            write!(f, "{how} the resource with: {rest}{more}")
        }
    }
}
