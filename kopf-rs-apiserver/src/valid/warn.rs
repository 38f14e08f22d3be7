//! What is worth a word about objects that are taken.
//!
//! Promise: the real server's words. Must not know what is refused.

use serde_json::json;

use super::finder::{is_empty, map};
use crate::kind::Kind;
use crate::object::{Body, text};

/// What is said of an object of a built-in kind, whether it has its defaults yet or not.
pub(crate) fn warnings(kind: &Kind, body: &Body) -> Vec<String> {
    match map(body, "spec") {
        Some(spec) if kind.is_core("services") => service(spec),
        _ => Vec::new(),
    }
}

fn service(spec: &Body) -> Vec<String> {
    let mut told = Vec::new();
    let of = text(spec, "type");
    let headless = matches!(of, "" | "ClusterIP")
        && (text(spec, "clusterIP") == "None" || spec.get("clusterIPs") == Some(&json!(["None"])));
    if headless {
        let ignored = [
            ("loadBalancerIP", !is_empty(spec.get("loadBalancerIP"))),
            ("externalIPs", !is_empty(spec.get("externalIPs"))),
            (
                "SessionAffinity",
                !matches!(text(spec, "sessionAffinity"), "" | "None"),
            ),
        ];
        let ignored = ignored.into_iter().filter(|(_, set)| *set);
        told.extend(
            ignored.map(|(field, _)| format!("spec.{field} is ignored for headless services")),
        );
    }
    let addresses = !is_empty(spec.get("externalIPs"));
    if addresses && of == "ExternalName" {
        told.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    } else if addresses && !headless {
        let why = "is deprecated and may no longer be implemented in some clusters";
        told.push(format!("spec.externalIPs {why}"));
    }
    if of != "ExternalName" && !text(spec, "externalName").is_empty() {
        let why = "is ignored when spec.type is not \"ExternalName\"";
        told.push(format!("spec.externalName {why}"));
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        told.push(format!("spec.trafficDistribution: {why}"));
    }
    told
}
