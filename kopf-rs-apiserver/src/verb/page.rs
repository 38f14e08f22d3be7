//! Pages that are no resources: discovery, version, health.
//!
//! Promise: both discovery forms come from the table of kinds. Must not change anything.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;

use super::Answer;
use crate::access::token;
use crate::call::{Call, Form};
use crate::kind::{discovery, openapi, swagger};
use crate::status::Refusal;
use crate::store::Store;

/// The Kubernetes version whose behaviour is followed.
const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.3");

/// The parts of the server whose health can be asked for alone.
const CHECKS: &[&str] = &["etcd", "log", "ping"];

/// Whether a page can only be read; others heed no method.
fn is_strict(segments: &[&str]) -> bool {
    matches!(segments, ["version" | "api"] | ["api", _] | ["apis", _, _])
}

pub(crate) fn answer(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    if call.method != "GET" && is_strict(&segments) {
        return Err(Refusal::method_not_allowed());
    }
    match segments.as_slice() {
        [] => Ok(Answer::json(200, &root(store))),
        ["api"] => discover(store, call, true),
        ["apis"] => discover(store, call, false),
        ["api", version] => resources(store, "", version).map_err(|_| Refusal::no_resource()),
        ["apis", group] => discovery::group(&store.kinds, group)
            .map(|page| Answer::json(200, &page))
            .ok_or_else(Refusal::no_page),
        ["apis", group, version] => resources(store, group, version).map_err(|refusal| {
            let builtin = store.kinds.group(group).is_some_and(|group| group.builtin);
            if builtin {
                Refusal::no_resource()
            } else {
                refusal
            }
        }),
        ["openapi", "v2"] => Ok(described(store, call)),
        ["openapi", "v3"] => Ok(Answer::json(200, &openapi::index(&store.kinds))),
        ["openapi", "v3", "api", version] => document(store, "", version),
        ["openapi", "v3", "apis", group, version] => document(store, group, version),
        [".well-known", "openid-configuration"] => Ok(Answer::json(200, &issuer(store))),
        ["openid", "v1", "jwks"] => keys(store),
        ["metrics"] => Ok(metrics(store)),
        ["version"] => Ok(Answer::json(200, &version())),
        [page @ ("healthz" | "readyz" | "livez")] => Ok(healthy(call, page)),
        [page @ ("healthz" | "readyz" | "livez"), check] if CHECKS.contains(check) => {
            Ok(healthy(call, page))
        }
        ["readyz", "etcd-readiness" | "informer-sync" | "shutdown"] => Ok(healthy(call, "readyz")),
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
        .map(|page| Answer::bytes(200, page))
        .ok_or_else(Refusal::no_page)
}

/// `OpenAPI` v2: Go's clients name no form that is JSON.
fn described(store: &Store, call: &Call) -> Answer {
    if call.form.is_some() {
        return Answer::json(200, &openapi::second(&store.kinds));
    }
    let definitions = openapi::definitions(&store.kinds);
    let mut answer = Answer::bytes(200, swagger::message(&openapi::info(), &definitions));
    answer.content_type = swagger::MESSAGE_TYPE;
    answer
}

fn root(store: &Store) -> serde_json::Value {
    let pages = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ];
    let mut paths = BTreeSet::from(pages.map(str::to_owned));
    for group in store.kinds.groups.iter().filter(|g| !g.name.is_empty()) {
        paths.insert(format!("/apis/{}", group.name));
        for version in &group.versions {
            paths.insert(format!("/apis/{}/{}", group.name, version.name));
        }
    }
    json!({"paths": paths})
}

/// What others need who check the tokens of service accounts.
fn issuer(store: &Store) -> serde_json::Value {
    json!({
        "issuer": token::AUDIENCE,
        "jwks_uri": format!("https://{}/openid/v1/jwks", store.address),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [token::ALGORITHM],
    })
}

fn keys(store: &mut Store) -> Result<Answer, Refusal> {
    let key = token::public_key(store).map_err(|error| Refusal::internal(error.to_string()))?;
    let mut answer = Answer::json(200, &json!({"keys": [key]}));
    answer.content_type = "application/jwk-set+json";
    Ok(answer)
}

fn version() -> serde_json::Value {
    let (major, minor, version) = VERSION;
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("{version}+kopf-rs"),
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": "35",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, processor),
    })
}

/// How many objects there are of each kind, as Prometheus reads it.
fn metrics(store: &Store) -> Answer {
    let name = "apiserver_resource_objects";
    let mut text = format!(
        "# HELP {name} Number of stored objects at the time of the request.\n# TYPE {name} gauge\n"
    );
    for kind in store
        .kinds
        .iter()
        .filter(|kind| kind.version == kind.stored_version)
    {
        let count = store
            .collection(kind.collection)
            .map_or(0, |found| found.objects.len());
        let (group, plural) = (&kind.group, &kind.plural);
        let line = writeln!(
            text,
            "{name}{{group=\"{group}\",resource=\"{plural}\"}} {count}"
        );
        debug_assert!(line.is_ok(), "texts take all that is written to them");
    }
    let mut answer = Answer::bytes(200, text.into());
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    answer
}

fn healthy(call: &Call, page: &str) -> Answer {
    let text = if call.switch("verbose") {
        format!("[+]ping ok\n{page} check passed\n")
    } else {
        "ok".to_owned()
    };
    let mut answer = Answer::bytes(200, text.into());
    answer.content_type = "text/plain; charset=utf-8";
    answer
}
