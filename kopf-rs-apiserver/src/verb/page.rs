//! Pages that are no resources: discovery, version, health.
//!
//! Promise: both discovery forms come from the table of kinds. Must not change anything.

use bytes::Bytes;
use serde_json::json;

use super::Answer;
use crate::call::{Call, Form};
use crate::kind::{discovery, openapi};
use crate::status::Refusal;
use crate::store::Store;

/// The Kubernetes version whose behaviour is followed.
const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.3");

pub(crate) fn answer(store: &Store, call: &Call) -> Result<Answer, Refusal> {
    if !matches!(call.method.as_str(), "GET" | "HEAD") {
        return Err(Refusal::no_page());
    }
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        [] => Ok(Answer::json(200, &root(store))),
        ["api"] => discover(store, call, true),
        ["apis"] => discover(store, call, false),
        ["api", version] => resources(store, "", version).map_err(|_| Refusal::no_resource()),
        ["apis", group] => discovery::group(&store.kinds, group)
            .map(|page| Answer::json(200, &page))
            .ok_or_else(Refusal::no_page),
        ["apis", group, version] => resources(store, group, version),
        ["openapi", "v3"] => Ok(Answer::json(200, &openapi::index(&store.kinds))),
        ["openapi", "v3", "api", version] => document(store, "", version),
        ["openapi", "v3", "apis", group, version] => document(store, group, version),
        ["version"] => Ok(Answer::json(200, &version())),
        ["healthz" | "readyz" | "livez", ..] => Ok(healthy()),
        _ => Err(Refusal::no_page()),
    }
}

fn discover(store: &Store, call: &Call, core: bool) -> Result<Answer, Refusal> {
    match call.form {
        Some(Form::Aggregated(version)) => {
            let page = discovery::aggregated(&store.kinds, core, version);
            let mut answer = Answer::json(200, &page);
            answer.content_type = match version {
                "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            };
            Ok(answer)
        }
        Some(_) if core => Ok(Answer::json(200, &discovery::core_versions(&store.address))),
        Some(_) => Ok(Answer::json(200, &discovery::groups(&store.kinds))),
        None => Err(Refusal::not_acceptable()),
    }
}

fn resources(store: &Store, group: &str, version: &str) -> Result<Answer, Refusal> {
    discovery::resources(&store.kinds, group, version)
        .map(|page| Answer::json(200, &page))
        .ok_or_else(Refusal::no_page)
}

fn document(store: &Store, group: &str, version: &str) -> Result<Answer, Refusal> {
    openapi::document(&store.kinds, group, version)
        .map(|page| Answer::json(200, &page))
        .ok_or_else(Refusal::no_page)
}

fn root(store: &Store) -> serde_json::Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in store.kinds.groups.iter().filter(|g| !g.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        for version in &group.versions {
            paths.push(format!("/apis/{}/{}", group.name, version.name));
        }
    }
    for page in ["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"] {
        paths.push(page.to_owned());
    }
    json!({"paths": paths})
}

fn version() -> serde_json::Value {
    let (major, minor, version) = VERSION;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("{version}+kopf-rs"),
        "emulationMajor": major,
        "emulationMinor": minor,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn healthy() -> Answer {
    let mut answer = Answer::bytes(200, Bytes::from_static(b"ok"));
    answer.content_type = "text/plain; charset=utf-8";
    answer
}
