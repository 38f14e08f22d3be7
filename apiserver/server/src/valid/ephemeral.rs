//! Validates ephemeral containers that are added to a running Pod, and resizes of its containers.
//!
//! Existing containers must stay the same, and so must the quality of service class. Independent of which client makes the change.

use serde_json::Value;

use super::finder::{Finder, items, map};
use crate::kind::{Kind, defaults};
use crate::object::{Body, at_path};
use crate::status::Cause;

const LIST: &str = "ephemeralContainers";

/// Validates ephemeral containers that are added to a Pod.
pub(crate) fn check_ephemeral(kind: &Kind, old: &Body, new: &Body) -> Vec<Cause> {
    let mut finder = Finder::new(kind, new);
    let empty = Body::new();
    let spec = |body| map(body, "spec").unwrap_or(&empty);
    for before in items(spec(old), LIST) {
        let same = |after: &&Value| after["name"] == before["name"];
        let name = before["name"].as_str().unwrap_or_default();
        let done = match items(spec(new), LIST).iter().find(same) {
            None => "removed",
            Some(after) if after != before => "changed",
            Some(_) => continue,
        };
        let message = format!("existing ephemeral containers {name:?} may not be {done}\n");
        finder.forbidden(format!("spec.{LIST}"), &message);
    }
    finder.causes
}

/// Validates changed resources of the containers of a Pod.
pub(crate) fn check_resize(kind: &Kind, old: &Body, new: &Body) -> Vec<Cause> {
    let mut finder = Finder::new(kind, new);
    if defaults::quality(old) != defaults::quality(new) {
        let known = at_path(old, ".status.qosClass").cloned();
        let message = "Pod QOS Class may not change as a result of resizing";
        finder.invalid("spec", &known.unwrap_or_default(), message);
    }
    finder.causes
}
