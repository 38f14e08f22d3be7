//! How to delete: what becomes of dependants, how long there is, and which object is meant.
//!
//! Promise: what a request says in its body counts before what it says beside it. Must not know the store.

use serde_json::Value;

use super::Target;
use super::list::bad_number;
use crate::call::{Call, PROTOBUF, go};
use crate::cascade::{FOREGROUND, ORPHAN};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, text};
use crate::status::{Cause, Refusal, options};
use crate::typed::proto;

/// What happens to dependants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    propagation: Propagation,
    /// Nobody asked for orphans, but the kind leaves them.
    pub(super) by_default: bool,
    grace: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    pub(super) dry_run: bool,
}

// === impl Deletion ===

impl Deletion {
    /// Without waiting for anybody but finalizers.
    pub(crate) fn at_once() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }

    /// In the background, within that time.
    pub(crate) fn within(grace: Option<i64>, dry_run: bool) -> Self {
        Self {
            grace,
            dry_run,
            ..Self::default()
        }
    }

    /// After what it owns.
    pub(super) fn foreground() -> Self {
        Self {
            propagation: Propagation::Foreground,
            ..Self::default()
        }
    }

    /// What the options of a request say, in its body or beside it.
    pub(super) fn of_call(target: &Target<'_>) -> Result<Self, Refusal> {
        let call = target.call;
        let body = if call.body.is_empty() {
            Body::new()
        } else {
            sent(call)?
        };
        check_kind(&body)?;
        let preconditions = body.get("preconditions").and_then(Value::as_object);
        let precondition = |field: &str| {
            let found = preconditions.map_or("", |map| text(map, field));
            Some(found.to_owned()).filter(|found| !found.is_empty())
        };
        let policy = match text(&body, "propagationPolicy") {
            "" => call.param("propagationPolicy"),
            given => given,
        };
        let orphan = call.switch("orphanDependents")
            || body.get("orphanDependents") == Some(&Value::Bool(true));
        if !policy.is_empty() && body.contains_key("orphanDependents") {
            let message = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", &policy.into(), message);
            return Err(Refusal::invalid(options("DeleteOptions"), &[cause]));
        }
        let in_body = body.get("dryRun").and_then(Value::as_array);
        let grace = match (
            body.get("gracePeriodSeconds"),
            call.param("gracePeriodSeconds"),
        ) {
            (Some(given), _) => given.as_i64(),
            (None, "") => None,
            (None, given) => Some(given.parse().map_err(|_| bad_number(given))?),
        };
        Ok(Self {
            propagation: match policy {
                "Foreground" => Propagation::Foreground,
                "Orphan" => Propagation::Orphan,
                "" if orphan || orphans_by_default(target) => Propagation::Orphan,
                "" | "Background" => Propagation::Background,
                other => return Err(unknown_policy(other)),
            },
            by_default: policy.is_empty() && !orphan && orphans_by_default(target),
            grace,
            uid: precondition("uid"),
            revision: precondition("resourceVersion"),
            dry_run: call.dry_run()? || in_body.is_some_and(|items| !items.is_empty()),
        })
    }

    /// Whether an object is the one that is meant.
    pub(super) fn check(&self, kind: &Kind, stored: &Stored) -> Result<(), Refusal> {
        let slim = &stored.slim;
        if let Some(uid) = self.uid.as_ref().filter(|uid| **uid != slim.uid) {
            return Err(Refusal::conflict(
                kind.subject_by_kind(&slim.name),
                &format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                    slim.uid
                ),
            ));
        }
        let found = slim.revision.to_string();
        if let Some(revision) = self
            .revision
            .as_ref()
            .filter(|revision| **revision != found)
        {
            return Err(Refusal::conflict(
                kind.subject_by_kind(&slim.name),
                &format!(
                    "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({found}). The object might have been modified"
                ),
            ));
        }
        Ok(())
    }

    /// The finalizer under which an object waits until its dependants are seen to.
    pub(super) fn lingers(&self, kind: &Kind) -> Option<&'static str> {
        match self.propagation {
            Propagation::Background => None,
            // Events are nobody's owners.
            _ if kind.kind == "Event" && kind.traits.builtin => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        }
    }

    /// How long a Pod is given to end: only one that is on a node gets any time.
    pub(super) fn grace(&self, kind: &Kind, body: &Body) -> i64 {
        let string = |path: &str| {
            at_path(body, path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let ended = matches!(string(".status.phase"), "Succeeded" | "Failed");
        if !kind.is_core("pods") || string(".spec.nodeName").is_empty() || ended {
            return 0;
        }
        self.grace.unwrap_or_else(|| {
            at_path(body, ".spec.terminationGracePeriodSeconds")
                .and_then(Value::as_i64)
                .unwrap_or(30)
        })
    }
}

/// The options in the body of a deletion.
fn sent(call: &Call) -> Result<Body, Refusal> {
    let value = match call.media_type() {
        PROTOBUF => {
            let found = proto::decode(&call.body, "v1", "DeleteOptions");
            return found.map_err(|why| Refusal::bad_request(why.to_string()));
        }
        "application/yaml" => call.yaml()?,
        _ => go::parse(&call.body).map_err(|why| {
            Refusal::bad_request(format!(
                "couldn't get version/kind; json parse error: {why}"
            ))
        })?,
    };
    Ok(value.as_object().cloned().unwrap_or_default())
}

fn check_kind(options: &Body) -> Result<(), Refusal> {
    let (version, word) = (text(options, "apiVersion"), text(options, "kind"));
    if matches!(word, "" | "DeleteOptions") {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "no kind {word:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )))
}

/// Some old kinds leave their Pods alone unless they are told not to.
fn orphans_by_default(target: &Target<'_>) -> bool {
    let told = target.call.param("orphanDependents") == "false";
    let kind = target.kind.kind.as_str();
    !told && target.kind.traits.builtin && matches!(kind, "Job" | "ReplicationController")
}

fn unknown_policy(policy: &str) -> Refusal {
    let message = format!(
        "Unsupported value: {policy:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
    let cause = Cause::new("FieldValueNotSupported", "propagationPolicy", message);
    Refusal::invalid(options("DeleteOptions"), &[cause])
}
