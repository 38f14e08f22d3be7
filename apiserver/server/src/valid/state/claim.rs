//! Validates the status of a volume claim.
//!
//! Quantities must be valid and concern resources that claims have. Independent of volumes.

use crate::object::Body;
use crate::rules::names;
use crate::valid::finder::{Finder, map};
use crate::valid::resource::amount;

pub(super) fn check(finder: &mut Finder<'_>, status: &Body) {
    for (name, size) in map(status, "capacity").into_iter().flatten() {
        if let Some(amount) = amount(size).filter(|amount| *amount < 0) {
            let whole = i64::try_from(amount / 1_000_000_000).unwrap_or(i64::MIN);
            let at = format!("status.capacity[{name}]");
            finder.invalid(at, &whole.into(), "must be a valid resource quantity");
        }
    }
    let at = "status.allocatedResourceStatuses";
    for (name, state) in map(status, "allocatedResourceStatuses")
        .into_iter()
        .flatten()
    {
        resource_key(finder, name, at);
        if !RESIZES.iter().any(|known| state == known) {
            finder.unsupported(at, &name.as_str().into(), &RESIZES);
        }
    }
    let at = "status.allocatedResources";
    for (name, size) in map(status, "allocatedResources").into_iter().flatten() {
        if resource_key(finder, name, at) {
            continue;
        }
        if let Some(amount) = amount(size).filter(|amount| *amount < 0) {
            let whole = i64::try_from(amount / 1_000_000_000).unwrap_or(i64::MIN);
            let at = format!("{at}[{name}]");
            finder.invalid(at, &whole.into(), "must be a valid resource quantity");
        }
    }
}

/// The states of a volume resize.
const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Adds errors for resources that claims do not have; returns true if there were any.
fn resource_key(finder: &mut Finder<'_>, name: &str, at: &str) -> bool {
    let messages = names::qualified(name);
    let mut wrong = !messages.is_empty();
    for message in messages {
        finder.invalid(at, &name.into(), &message);
    }
    if !wrong && !name.contains('/') && name != "storage" {
        finder.unsupported(at, &name.into(), &["storage"]);
        wrong = true;
    }
    wrong
}
