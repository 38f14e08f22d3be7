//! Pages that are not resources: discovery, version, health, metrics.
//!
//! Guarantees that both forms of discovery come from the table of kinds. Must not change anything.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;

use super::{Answer, health};
use crate::access::token;
use crate::call::{Call, Form};
use crate::kind::{discovery, openapi, swagger};
use crate::status::Refusal;
use crate::store::Store;

/// The emulated Kubernetes version.
const VERSION: (&str, &str, &str) = ("1", "36", "v1.36.3");

/// The media type of the public keys for service account tokens.
const KEYS: &str = "application/jwk-set+json";

/// Returns whether a page accepts only reads; the others ignore the method.
fn is_strict(store: &Store, segments: &[&str]) -> bool {
    match segments {
        ["version" | "api"]
        | ["api", _]
        | [".well-known", "openid-configuration"]
        | ["openid", "v1", "jwks"] => true,
        ["apis", group, _] => store.kinds.group(group).is_none_or(|group| group.builtin),
        _ => false,
    }
}

/// Returns whether a page also answers a path with a trailing slash.
fn bears_slash(segments: &[&str]) -> bool {
    matches!(
        segments.first(),
        None | Some(&("api" | "apis" | "version" | ".well-known" | "openid"))
    )
}

pub(crate) fn answer(store: &mut Store, call: &Call) -> Result<Answer, Refusal> {
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    if call.ends_in_slash && !bears_slash(&segments) {
        return Err(Refusal::no_page());
    }
    if matches!(
        segments.as_slice(),
        ["api", _, "watch"] | ["apis", _, _, "watch"]
    ) {
        return Err(Refusal::undeterminable(&call.raw_path));
    }
    if call.method != "GET" && is_strict(store, &segments) {
        return Err(Refusal::method_not_allowed());
    }
    if let Some(refusal) = unacceptable(store, call, &segments) {
        return Err(refusal);
    }
    match segments.as_slice() {
        [] | ["index.html"] => Ok(Answer::json(200, &root(store))),
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
        ["openapi", "v3"] => {
            let mut answer = Answer::json(200, &openapi::index(&store.kinds));
            answer.content_type = "text/plain; charset=utf-8";
            Ok(answer)
        }
        ["openapi", "v3", "api", version] => document(store, "", version),
        ["openapi", "v3", "apis", group, version] => document(store, group, version),
        [".well-known", "openid-configuration"] => Ok(Answer::json(200, &issuer(store))),
        ["openid", "v1", "jwks"] if !call.accepted.has(&[KEYS]) => {
            Err(Refusal::not_acceptable(KEYS))
        }
        ["openid", "v1", "jwks"] => keys(store),
        ["metrics"] if call.method == "DELETE" => Ok(reset()),
        ["metrics"] => Ok(metrics(store)),
        ["version"] => Ok(Answer::json(200, &version())),
        [page @ ("healthz" | "readyz" | "livez"), part @ ..] => {
            health::answer(call, page, part).ok_or_else(Refusal::no_page)
        }
        ["version", ..] => Err(Refusal::no_resource()),
        _ => Err(Refusal::no_page()),
    }
}

/// Returns the refusal of a discovery page that is available in none of the accepted forms.
fn unacceptable(store: &Store, call: &Call, segments: &[&str]) -> Option<Refusal> {
    let builtin = |group: &str| store.kinds.group(group).is_some_and(|group| group.builtin);
    let accepted = &call.accepted;
    match segments {
        ["version"] if !accepted.has(&["application/json"]) => {
            Some(Refusal::not_acceptable("application/json"))
        }
        ["api"] | ["api", _] if accepted.is_foreign() => Some(Refusal::no_representation(false)),
        ["apis", group, _] if accepted.is_foreign() && builtin(group) => {
            Some(Refusal::no_representation(false))
        }
        ["api" | "apis", _] | ["apis", _, _] if !accepted.is_known() => {
            Some(Refusal::no_such_form())
        }
        _ => None,
    }
}

fn discover(store: &Store, call: &Call, core: bool) -> Result<Answer, Refusal> {
    match call.accepted.page() {
        Some(Form::Aggregated) => {
            let page = discovery::aggregated(&store.kinds, core);
            let mut answer = Answer::json(200, &page);
            answer.content_type =
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            Ok(answer)
        }
        Some(_) if core => Ok(Answer::json(200, &discovery::core_versions(&store.address))),
        Some(_) => Ok(Answer::json(200, &discovery::groups(&store.kinds))),
        None => Err(Refusal::no_such_form()),
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

/// Answers with `OpenAPI` v2, in JSON or, as Go clients expect, in protobuf.
fn described(store: &Store, call: &Call) -> Answer {
    if call.accepted.page().is_some() {
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

/// Returns the OIDC discovery document, with which others verify tokens of service accounts.
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
    answer.content_type = KEYS;
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

fn reset() -> Answer {
    let mut answer = Answer::bytes(200, "metrics reset\n".into());
    answer.content_type = "text/plain; charset=utf-8";
    answer
}

/// Answers with the number of objects per kind in the format of Prometheus.
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
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    answer
}
