//! Validates the status of a certificate signing request.
//!
//! A decision about a request is final. Independent of signers.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::{Body, text};
use crate::valid::finder::{Finder, child, maps};

/// Conditions that cannot be removed.
const DECIDED: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Validates a status update by an approver or a signer.
pub(crate) fn check(finder: &mut Finder<'_>, old: &Body, status: &Body, approves: bool) {
    conditions(finder, status);
    let certificate = status.get("certificate").and_then(Value::as_str);
    if let Some(why) = certificate.and_then(flaw) {
        finder.invalid("status.certificate", &"<certificate data>".into(), &why);
    }
    for kind in DECIDED {
        let (before, now) = (count(old, kind), count(status, kind));
        let what = match now.cmp(&before) {
            std::cmp::Ordering::Less => "remove",
            std::cmp::Ordering::Greater if !approves && kind != "Failed" => "add",
            _ => continue,
        };
        let why = format!("updates may not {what} a condition of type {kind:?}");
        finder.forbidden("status.conditions", &why);
    }
    let before = text(old, "certificate");
    if !before.is_empty() && certificate.unwrap_or_default() != before {
        let why = "updates may not modify existing certificate content";
        finder.forbidden("status.certificate", why);
    }
}

fn count(status: &Body, kind: &str) -> usize {
    let conditions = maps(status, "conditions", "");
    let of_kind = conditions
        .iter()
        .filter(|(_, found)| text(found, "type") == kind);
    of_kind.count()
}

fn conditions(finder: &mut Finder<'_>, status: &Body) {
    let mut seen = BTreeSet::new();
    for (at, condition) in maps(status, "conditions", "status") {
        let (kind, state) = (text(condition, "type"), text(condition, "status"));
        if kind.is_empty() {
            finder.required(child(&at, "type"), "");
        }
        let known: &[&str] = if DECIDED.contains(&kind) {
            &["True"]
        } else {
            &["False", "True", "Unknown"]
        };
        if state.is_empty() {
            finder.required(child(&at, "status"), "");
        } else if !known.contains(&state) {
            finder.unsupported(child(&at, "status"), &state.into(), known);
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            finder.invalid("status.conditions", &kind.into(), why);
        }
        if !seen.insert(kind) {
            finder.duplicate(child(&at, "type"), &kind.into());
        }
    }
}

/// Returns the error of a base64 text that is not a list of certificates.
fn flaw(encoded: &str) -> Option<String> {
    let found = STANDARD.decode(encoded).unwrap_or_default();
    let found = String::from_utf8_lossy(&found);
    if found.is_empty() {
        return None;
    }
    let mut blocks = 0;
    let mut rest = &*found;
    while let Some((_, tail)) = rest.split_once("-----BEGIN ") {
        let Some((kind, tail)) = tail.split_once("-----") else {
            break;
        };
        let end = format!("-----END {kind}-----");
        let Some((_, after)) = tail.split_once(&end) else {
            rest = tail;
            continue;
        };
        if kind != "CERTIFICATE" {
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {kind:?}"
            ));
        }
        blocks += 1;
        rest = after;
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}
