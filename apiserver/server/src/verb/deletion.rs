//! The options of a deletion: propagation to dependents, grace period, preconditions.
//!
//! Guarantees that options in the query count only if the request has no body. Must not depend on the store.

use serde_json::Value;

use super::Target;
use super::list::bad_number;
use crate::call::{Call, PROTOBUF, bad_dry_run, go};
use crate::cascade::{FOREGROUND, ORPHAN};
use crate::kind::Kind;
use crate::object::{Body, Stored, at_path, text};
use crate::rules;
use crate::status::{Cause, Refusal, options};
use crate::typed::{self, proto};

/// The fate of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    propagation: Propagation,
    /// The kind orphans its dependents by default, and the request does not set a policy.
    pub(super) by_default: bool,
    grace: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    pub(super) dry_run: bool,
    /// The request asks through the deprecated `orphanDependents` to delete the dependents.
    pub(super) without_orphans: bool,
}

// === impl Deletion ===

impl Deletion {
    /// A deletion without grace period, which waits for finalizers only.
    pub(crate) fn at_once() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }

    /// Returns whether the options ask for a dry run.
    pub(super) fn is_dry(options: &Body) -> bool {
        !stages(options).is_empty()
    }

    /// Drops the preconditions, after they were checked.
    pub(super) fn without_preconditions(mut self) -> Self {
        (self.uid, self.revision) = (None, None);
        self
    }

    /// A deletion that waits until the dependents are deleted.
    pub(crate) fn foreground() -> Self {
        Self {
            propagation: Propagation::Foreground,
            ..Self::default()
        }
    }

    /// Reads the options of a request from its body, or from its query if it has none.
    pub(super) fn of_call(target: &Target<'_>) -> Result<Self, Refusal> {
        let call = target.call;
        let given = if call.body.is_empty() {
            beside(call)?
        } else {
            sent(call)?
        };
        check_kind(&given)?;
        let given = shaped(given)?;
        validate(&given)?;
        Ok(Self::of_options(&given, target))
    }

    /// Converts valid options.
    pub(super) fn of_options(given: &Body, target: &Target<'_>) -> Self {
        let preconditions = given.get("preconditions").and_then(Value::as_object);
        let precondition = |field: &str| {
            let found = preconditions.map_or("", |map| text(map, field));
            Some(found.to_owned()).filter(|found| !found.is_empty())
        };
        let orphan = given.get("orphanDependents").and_then(Value::as_bool);
        let by_default = policy(given).is_none() && orphan.is_none() && leaves_orphans(target);
        Self {
            propagation: match policy(given) {
                Some("Foreground") => Propagation::Foreground,
                Some("Orphan") => Propagation::Orphan,
                None if by_default || orphan == Some(true) => Propagation::Orphan,
                _ => Propagation::Background,
            },
            by_default,
            without_orphans: orphan == Some(false),
            grace: given.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: precondition("uid"),
            revision: precondition("resourceVersion"),
            dry_run: !stages(given).is_empty(),
        }
    }

    /// Checks the preconditions against an object.
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

    /// Returns the finalizer that holds an object until its dependents are deleted or orphaned.
    pub(super) fn lingers(&self, kind: &Kind) -> Option<&'static str> {
        match self.propagation {
            Propagation::Background => None,
            // The real server does not apply propagation to Events, because they own no objects.
            _ if kind.kind == "Event" && kind.traits.builtin => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        }
    }

    /// Returns the seconds that a Pod has to terminate: zero unless it is bound to a node and still active.
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

/// Returns the deletion options in the query.
fn beside(call: &Call) -> Result<Body, Refusal> {
    let mut options = Body::new();
    if let Some(grace) = call.params("gracePeriodSeconds").next() {
        let seconds: i64 = grace.parse().map_err(|_| bad_number(grace))?;
        options.insert("gracePeriodSeconds".to_owned(), seconds.into());
    }
    if call.params("orphanDependents").next().is_some() {
        let orphan = call.switch("orphanDependents");
        options.insert("orphanDependents".to_owned(), orphan.into());
    }
    if let Some(policy) = call.params("propagationPolicy").next() {
        options.insert("propagationPolicy".to_owned(), policy.into());
    }
    let stages: Vec<&str> = call.params("dryRun").collect();
    options.insert("dryRun".to_owned(), stages.into());
    let mut preconditions = Body::new();
    for field in ["uid", "resourceVersion"] {
        if let Some(found) = call.params(field).next() {
            preconditions.insert(field.to_owned(), found.into());
        }
    }
    options.insert("preconditions".to_owned(), preconditions.into());
    Ok(options)
}

/// Returns the deletion options in the body.
fn sent(call: &Call) -> Result<Body, Refusal> {
    let value = match call.media_type() {
        PROTOBUF => {
            let found = proto::decode(&call.body, "v1", "DeleteOptions");
            return found.map_err(|why| Refusal::bad_request(why.to_string()));
        }
        "application/yaml" => call.yaml()?.0,
        _ => go::parse(&call.body).map_err(|why| no_options(&why))?,
    };
    match value {
        Value::Object(options) => Ok(options),
        Value::Null => Ok(Body::new()),
        other => {
            let found = rules::go_type(&other);
            Err(no_options(&format!(
                "json: cannot unmarshal {found} into Go value of type struct {{ \
                 APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )))
        }
    }
}

/// Brings the options into the shape of their type.
fn shaped(mut options: Body) -> Result<Body, Refusal> {
    let Some(of) = typed::of_kind("v1", "DeleteOptions") else {
        return Ok(options);
    };
    options.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
    let shaped = typed::shape(of, options);
    let (options, _unknown) = shaped.map_err(|why| Refusal::bad_request(why.to_string()))?;
    Ok(options)
}

fn no_options(why: &str) -> Refusal {
    Refusal::bad_request(format!(
        "couldn't get version/kind; json parse error: {why}"
    ))
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

/// Refuses invalid options.
pub(super) fn validate(given: &Body) -> Result<(), Refusal> {
    let causes = complaints(given);
    if causes.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(options("DeleteOptions"), &causes))
}

fn complaints(given: &Body) -> Vec<Cause> {
    let mut causes = Vec::new();
    let field = "propagationPolicy";
    if let Some(policy) = policy(given) {
        if given.get("orphanDependents").is_some_and(Value::is_boolean) {
            let message = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid(field, &policy.into(), message));
        }
        if !matches!(policy, "Foreground" | "Background" | "Orphan") {
            let message = format!(
                "Unsupported value: {policy:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            causes.push(Cause::new("FieldValueNotSupported", field, message));
        }
    }
    causes.extend(bad_dry_run(&stages(given)));
    causes
}

fn policy(given: &Body) -> Option<&str> {
    given.get("propagationPolicy").and_then(Value::as_str)
}

/// Returns the dry-run stages.
fn stages(given: &Body) -> Vec<&str> {
    let found = given.get("dryRun").and_then(Value::as_array);
    let words = found.into_iter().flatten();
    words.filter_map(Value::as_str).collect()
}

/// Returns whether the kind orphans its dependents by default, as some old kinds do.
fn leaves_orphans(target: &Target<'_>) -> bool {
    let kind = target.kind.kind.as_str();
    target.kind.traits.builtin && matches!(kind, "Job" | "ReplicationController")
}
