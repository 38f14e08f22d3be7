//! Whether objects of built-in kinds are in order, beyond their metadata: the table `tables/rules.txt`, walked along the types.
//!
//! Promise: complaints are worded as the real server's; what the table does not say is let pass. Must not know the store
//! or verbs.

mod batch;
mod change;
mod cron;
mod ephemeral;
mod finder;
mod format;
mod network;
mod pod;
mod resource;
mod rule;
mod service;
mod simple;
mod volume;
mod warn;
mod workload;

pub(crate) use change::{check_change, keep_given};
pub(crate) use cron::Schedule;
pub(crate) use ephemeral::{check_ephemeral, check_resize};
pub(crate) use warn::warnings;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::Body;
use crate::status::Cause;
use crate::typed::{Struct, Type};
use finder::Finder;

/// What is wrong with an object beyond its metadata and its status.
pub(crate) fn check(kind: &Kind, body: &Body) -> Vec<Cause> {
    let Some(of) = kind.stored_type().filter(|_| !is_checked_elsewhere(kind)) else {
        return Vec::new();
    };
    let mut finder = Finder::new(kind, body);
    object(&mut finder, of, body, "");
    finder.causes
}

/// Roles, bindings and webhooks are checked where they take effect, selectors and all.
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
        } else if let Some(found) = body.get(field.name) {
            let is_status = at.is_empty() && field.name == "status";
            if !is_status {
                value(finder, &field.of, found, &finder::child(at, field.name));
            }
        }
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
