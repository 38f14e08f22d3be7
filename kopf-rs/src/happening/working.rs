//! Happenings of the engine's work on objects: requests, writes and children.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::happening::{DEBUG, ERROR, INFO, WARN, happenings, listed, objects};
use crate::object::child::ChildName;
use crate::object::child::taken::TakenFields;
use crate::object::inconsistency::Inconsistency;
use crate::object::patch::Patch;
use crate::object::resource::Resource;

happenings! {
    /// A happening of the work on an object, or of all workers.
    #[derive(Clone, Debug)]
    enum Working {
        /// The watch of the object is closed. The operator has dropped its memory of the object, which may still exist.
        Unwatched => DEBUG, "The object is no longer watched: its state in memory is dropped.";
        /// A request about an object (`doing` is `Reading` or `Patching`) has failed and will be retried after a pause.
        /// Carries the number of requests that wait for the same reason if it is the first one, or if the number has grown
        /// considerably.
        RequestFailed { doing: &'static str, error: String, pause: Duration, waiting: Option<usize> }
            => if waiting.is_some() { WARN } else { DEBUG }, "{doing} failed; will retry in {:.1} seconds{}: {error}",
            pause.as_secs_f64(), match waiting {
                Some(waiting @ 2..) => format!("; {waiting} objects are waiting"),
                _ => String::new(),
            };
        /// Objects of this kind may not be read, so the operator handles them by their watch events alone.
        Unreadable { error: String }
            => WARN, "The operator cannot read objects of this kind. It handles them from watch events only, which can take longer: {error}";
        /// A permission is missing; this RBAC rule would grant it.
        PermissionMissing { rule: String } => WARN, "A permission is missing. To grant it, add {rule}";
        /// Triggers have fired for objects that the operator does not know.
        TriggersIgnored { unknown: Vec<String> }
            => DEBUG, "Triggers are ignored, because the operator reconciles no object of this name: {}", listed(unknown);
        /// An outage is over. This many requests waited for the same reason, the first for this long, and none waits any
        /// more: the requests succeed again, or are no longer needed.
        OutageOver { reason: Arc<str>, waiting: usize, still: usize, lasted: Duration, recovered: bool }
            => INFO, "{}: {} had to wait, the first for {:.1} seconds{}", if *recovered {
                "Requests succeed again".to_owned()
            } else {
                let reason = reason.lines().next().unwrap_or_default();
                format!("No object waits for a retry any more ({})", reason.trim_end_matches(':'))
            }, objects(*waiting), lasted.as_secs_f64(), match still {
                0 => ".".to_owned(),
                1 => "; 1 is still waiting.".to_owned(),
                _ => format!("; {still} are still waiting."),
            };
        /// The operator has stopped before it could write the outcomes of this many objects, because of this error.
        OutcomesLost { objects: usize, error: String }
            => ERROR, "The outcomes of {} could not be written before the exit: {} handlers will be called again at the next start. The last \
            error: {error}", self::objects(*objects), if *objects == 1 { "its" } else { "their" };
        /// The operator ends while it still handles this many objects.
        StreamsLeft { objects: usize } => WARN, "Unprocessed streams left for {objects} object(s).";
        /// A worker has panicked, which is a defect of this framework. The object is left alone until its next change.
        Panicked
            => ERROR, "Event processing has panicked, which is a bug in kopf-rs. The object is handled again at its next change.";
    }
}

happenings! {
    /// A happening of a write.
    #[derive(Clone, Debug)]
    enum Patching {
        /// This part of the patch is about to be sent.
        Begins { patch: Arc<Patch>, part: PatchPart }
            => DEBUG, "{} the {} with: {}{}",
            if patch.functions().is_empty() { "Merge-patching" } else { "JSON-patching" },
            if *part == PatchPart::Status { "status" } else { "resource" },
            part.of(patch.as_value()),
            if patch.functions().is_empty() { "" } else { ", and by functions" };
        /// Another writer has changed the object; the write is planned again.
        Outdated { patch: Arc<Patch> }
            => DEBUG, "Could not apply the patch in full due to conflicts with newer changes. Will try on the next cycle soon. Remaining: {}",
            patch.as_value();
        /// The object no longer exists, or the server no longer serves its API version.
        Skipped => DEBUG, "Patching was skipped: the object does not exist anymore.";
        /// The server rejects the content, which is truncated here.
        Refused { message: String, patch: String } => ERROR, "Patching was refused: {message}. The refused patch: {patch}";
        /// Another instance may be the leader, so the operator drops the write.
        NotSent => DEBUG, "Patching was skipped: this instance does not hold the Lease any more, and the one that does makes the attempt again.";
        /// The operator stops before it could complete the write.
        GivenUp { error: String } => DEBUG, "Patching failed for the last time before the exit: {error}";
        /// A handler has tried to change fields that it must not change.
        Foreign { fields: Vec<String>, owner: Owner }
            => WARN, "A handler has patched {}, which {}: this part of the patch is ignored, and the rest is written.",
            listed(fields), match owner {
                Owner::Server => "only the server sets",
                Owner::Operator => "belongs to the operator",
            };
        /// A function in the patch has panicked. Carries the handler that added it.
        FunctionPanicked { handler: Option<Arc<str>>, panic: String }
            => ERROR, "A patch function{} is skipped: it {panic}",
            handler.as_ref().map(|id| format!(" of '{id}'")).unwrap_or_default();
        /// The server has pruned these fields, because the schema lacks them. Reported once per field and resource.
        Pruned { resource: Box<Resource>, fields: Vec<Inconsistency> }
            => WARN, "Merge-patching finished with inconsistencies: {} ({})", listed(fields), lacking(resource, fields);
        /// The CRD no longer has the status subresource. Reported once per resource.
        StatusSubresourceLost { resource: Box<Resource> }
            => WARN, "{resource} no longer has a status subresource: the status is written with the rest of the object.";
        /// The handlers of one kind have changed an object so often in a row that the operator backs off from now on.
        SelfTriggered { resource: Box<Resource>, times: u8 }
            => WARN, "The handlers of this object have changed it {times} times in a row, and each change has caused their next call. The operator \
            now pauses between these calls. Write only values that differ from those of the object, or write only to the status. This warning \
            appears once for {resource}.";
    }
}

/// The part of a patch that one request sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchPart {
    All,
    Status,
    /// All parts except the status.
    Rest,
}

impl PatchPart {
    fn of(self, patch: &Value) -> Value {
        if self == Self::Status {
            return json!({"status": patch["status"]});
        }
        let mut patch = patch.clone();
        if let (Self::Rest, Some(members)) = (self, patch.as_object_mut()) {
            members.remove("status");
        }
        patch
    }
}

/// The sole owner of a field, which no other writer may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Operator,
}

/// Returns what to add to the schema.
fn lacking(resource: &Resource, fields: &[Inconsistency]) -> String {
    let lines = fields.iter().filter_map(Inconsistency::schema_line);
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() || !resource.is_custom() {
        return format!("does the schema of {resource} have these fields?");
    }
    let lines = lines.join(", ");
    format!("the schema of {resource} seems to lack them; add to it: {lines}")
}

happenings! {
    /// A happening of a child of an object.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum ChildHappening {
        /// An apply has created the child.
        Created { child: ChildName } => INFO, "{child} is created.";
        /// An apply has changed the child.
        Changed { child: ChildName } => INFO, "{child} is changed.";
        /// An apply was a no-op.
        Unchanged { child: ChildName } => DEBUG, "{child} is applied without a change.";
        /// An apply has overwritten changes of other field managers.
        TakenBack { child: ChildName, taken: Vec<TakenFields> }
            => INFO, "{child} was changed by others: {} is corrected.{}", listed(taken), if taken.iter().any(|it| it.by_scale) {
                " It was set by the subresource `scale`, as autoscalers do: to leave it to them, do not apply that field."
            } else {
                ""
            };
        /// The child was released from its owner.
        Orphaned { child: ChildName } => INFO, "{child} is released: it is no longer a child of this object.";
        /// The operator has requested the deletion of the child.
        Deleted { child: ChildName } => INFO, "{child} is deleted.";
        /// This many calls in a row have applied different content, although the owner was unchanged. `place` is the field
        /// in which the last two differ.
        Unstable { child: ChildName, times: u8, place: String }
            => WARN, "{child} has other content in each of {times} calls in a row, though this object has not changed: the last two \
            differ at `{place}`. From now on it is applied once a minute at most, until two calls apply the same content.";
        /// Applies have overwritten changes of another field manager this many times within a short time.
        Contested { child: ChildName, times: u8, taken: TakenFields }
            => WARN, "{child} was corrected {times} times within minutes, because \"{}\" changes {} each time. From now on it is corrected after \
            growing pauses of up to five minutes. One of the two should leave that field to the other.", taken.manager, listed(&taken.fields);
        /// The server refuses to change the child, so it is about to be deleted.
        Recreated { child: ChildName, why: String }
            => INFO, "{child} cannot be changed, so it is deleted and created again: {why}";
        /// The object was not deleted because it is not a child.
        NotDeleted { child: ChildName, why: String }
            => WARN, "{child} is not deleted, because it is no child of this object: it is {why}.";
    }
}
