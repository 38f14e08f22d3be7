//! The status of a Pod's containers.
//!
//! Guarantees that an image is never pulled if its name is invalid or contains `missing`, and that a container with the command `false`
//! fails. Must not depend on Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::{Body, text};

/// The availability of an image.
pub(super) enum Image {
    Fine,
    Missing,
    Invalid,
}

pub(super) fn image(container: &Body) -> Image {
    let name = text(container, "image");
    let (path, _tag) = name.split_once('@').unwrap_or((name, ""));
    let repository =
        path.rsplit_once(':').map_or(
            path,
            |(start, tag)| if tag.contains('/') { path } else { start },
        );
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/:".contains(c);
    let host_free = repository
        .split_once('/')
        .map_or(repository, |(_, rest)| rest);
    if repository.is_empty() || !host_free.chars().all(is_fine) {
        Image::Invalid
    } else if name.contains("missing") {
        Image::Missing
    } else {
        Image::Fine
    }
}

/// Returns the reason and message for a container whose image is not available.
pub(super) fn pulling(container: &Body, tried: bool) -> (&'static str, String) {
    let name = text(container, "image");
    match (image(container), tried) {
        (Image::Invalid, _) => (
            "InvalidImageName",
            format!(
                "Failed to apply default image tag {name:?}: couldn't parse image name {name:?}: invalid reference format"
            ),
        ),
        (Image::Missing, true) => (
            "ImagePullBackOff",
            format!("Back-off pulling image {name:?}"),
        ),
        (Image::Missing, false) => (
            "ErrImagePull",
            format!("failed to pull and unpack image {name:?}: not found"),
        ),
        (Image::Fine, _) => ("ContainerCreating", String::new()),
    }
}

pub(super) fn status_of(container: &Body, ready: bool, started: bool, state: &Value) -> Value {
    json!({
        "name": text(container, "name"),
        "image": text(container, "image"),
        "imageID": if started { text(container, "image") } else { "" },
        "ready": ready,
        "started": started && ready,
        "restartCount": 0,
        "lastState": {},
        "state": state,
    })
}

pub(super) fn running(container: &Body, since: Timestamp) -> Value {
    let since = crate::clock::stamp(since);
    let state = json!({"running": {"startedAt": since}});
    status_of(container, true, true, &state)
}

fn terminated(code: i64, from: Timestamp, to: Timestamp) -> Value {
    json!({"terminated": {
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": crate::clock::stamp(from),
        "finishedAt": crate::clock::stamp(to),
    }})
}

pub(super) fn ended(container: &Body, code: i64, from: Timestamp, to: Timestamp) -> Value {
    status_of(container, false, true, &terminated(code, from, to))
}

/// Returns whether an init container is a sidecar, which keeps running beside the others.
pub(super) fn is_sidecar(container: &Body) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// Returns the status of an init container once the others may start.
pub(super) fn started_first(container: &Body, at: Timestamp) -> Value {
    if is_sidecar(container) {
        return running(container, at);
    }
    let mut status = ended(container, 0, at, at);
    status["ready"] = true.into();
    status
}

pub(super) fn crashing(container: &Body, since: Timestamp) -> Value {
    let name = text(container, "name");
    let message = format!("back-off 10s restarting failed container={name}");
    let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    let mut status = status_of(container, false, true, &state);
    status["restartCount"] = 1.into();
    status["lastState"] = terminated(1, since, since);
    status
}

pub(super) fn is_failing(container: &Body) -> bool {
    let first = container.get("command").and_then(|command| command.get(0));
    first
        .and_then(Value::as_str)
        .is_some_and(|word| word == "false" || word.ends_with("/false"))
}
