//! Validates objects of built-in kinds beyond their metadata, with the rules of `tables/rules.txt` applied along the types.
//!
//! Errors match the real server; fields without a rule always pass. Independent of the store and of verbs.

mod autoscaler;
mod batch;
mod certificate;
mod change;
mod container;
mod cron;
mod endpoints;
mod ephemeral;
mod finder;
mod fixed;
mod format;
mod network;
mod node;
mod outcome;
mod pod;
mod quota;
mod reference;
mod resource;
mod rule;
mod scheduling;
mod security;
mod service;
mod simple;
mod source;
mod state;
mod storage;
mod volume;
mod warn;
mod whole;
mod workload;

pub(crate) use change::{check_change, keep_given};
pub(crate) use cron::Schedule;
pub(crate) use ephemeral::{check_ephemeral, check_resize};
pub(crate) use state::{check_approval, check_state};
pub(crate) use warn::warnings;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Body;
use crate::status::Cause;
use crate::typed::{Struct, Type};
use finder::Finder;

/// Validates an object except for its metadata and status.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    let Some(of) = kind.stored_type().filter(|_| !is_checked_elsewhere(kind)) else {
        return Vec::new();
    };
    let mut finder = Finder::new(kind, body);
    object(&mut finder, of, body, "");
    finder.causes
}

/// Validates a new object.
pub(crate) fn check_new(kind: &Kind, body: &Body) -> Vec<Cause> {
    let mut causes = check(kind, body);
    let added = crate::object::at_path(body, ".spec.ephemeralContainers");
    if kind.is_core("pods") && !finder::is_empty(added) {
        let message = "cannot be set on create";
        causes.push(Cause::forbidden("spec.ephemeralContainers", message));
    }
    if kind.is_core("namespaces") {
        // The real server validates the finalizers of new namespaces separately, and names the list as the field.
        let of_finalizers = |cause: &&mut Cause| cause.field.starts_with("spec.finalizers[");
        for cause in causes.iter_mut().filter(of_finalizers) {
            "spec.finalizers".clone_into(&mut cause.field);
        }
    }
    causes
}

/// Returns true for roles, bindings and webhook configurations, which other modules validate.
fn is_checked_elsewhere(kind: &Kind) -> bool {
    kind.group == "rbac.authorization.k8s.io" || kind.plural.ends_with("webhookconfigurations")
}

fn object(finder: &mut Finder<'_>, of: &'static Struct, body: &Body, at: &str) {
    for check in rule::of(of.name) {
        check.apply(finder, body, at);
    }
    for field in of.fields.iter().filter(|field| rule::leads(&field.of)) {
        if field.is_inline() {
            if let Some(inner) = field.of.as_struct() {
                object(finder, inner, body, at);
            }
        } else if let Some(found) = body.get(field.name)
            && !is_passed_over(of, body, field.name, at)
        {
            let name = match field.name {
                "gcePersistentDisk" => "persistentDisk",
                name => name,
            };
            value(finder, &field.of, found, &finder::child(at, name));
        }
    }
}

/// Returns true for fields that are not validated here: the status, an inline volume beside a volume name, and backends of untyped paths.
fn is_passed_over(of: &Struct, body: &Body, field: &str, at: &str) -> bool {
    match (of.name, field) {
        (_, "status") => at.is_empty(),
        ("storage/v1.VolumeAttachmentSource", "inlineVolumeSpec") => {
            body.contains_key("persistentVolumeName")
        }
        ("networking/v1.HTTPIngressPath", "backend") => finder::is_empty(body.get("pathType")),
        _ => false,
    }
}

fn value(finder: &mut Finder<'_>, of: &Type, found: &Value, at: &str) {
    match (of.element(), found) {
        (Some(inner), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                value(finder, inner, item, &format!("{at}[{index}]"));
            }
        }
        (Some(inner), Value::Object(map)) => {
            for (key, item) in map {
                value(finder, inner, item, &format!("{at}[{key}]"));
            }
        }
        (None, Value::Object(map)) => {
            if let Some(of) = of.as_struct() {
                object(finder, of, map, at);
            }
        }
        _ => {}
    }
}
