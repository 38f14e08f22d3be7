//! Builds `OpenAPI` documents as far as clients read them: the v3 index, the v3 document of each group version, and the v2 document.
//!
//! Lets kubectl see that the server validates fields, and the schemas of all kinds. Independent of requests.

mod custom;
mod operations;
mod paths;
mod reference;
mod second;

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Kind, Kinds, Version};
use paths::Dialect;
use reference::Texts;

/// The schemas that subresources read or write.
const SUBRESOURCES: [(&str, &str); 4] = [
    ("scale", "io.k8s.api.autoscaling.v1.Scale"),
    ("token", "io.k8s.api.authentication.v1.TokenRequest"),
    ("eviction", "io.k8s.api.policy.v1.Eviction"),
    ("binding", "io.k8s.api.core.v1.Binding"),
];

/// Returns the document `/openapi/v3`.
pub(crate) fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for group in &kinds.groups {
        for version in &group.versions {
            let path = path(&group.name, &version.name);
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Returns the document `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`.
pub(crate) fn document(kinds: &Kinds, group: &str, version: &str) -> Option<Bytes> {
    let found = kinds.version(group, version)?;
    let builtin = kinds.group(group).is_some_and(|group| group.builtin);
    let mut all = schemas(found);
    say_versions(&mut all, &[(group, version)]);
    let made = all.made.iter().filter_map(|(name, schema)| {
        let text = serde_json::value::to_raw_value(schema).ok()?;
        Some((name.as_str(), Cow::Owned(text)))
    });
    let texts = all.texts.iter();
    let texts = texts.map(|(name, text)| (*name, Cow::Borrowed(*text)));
    let document = Document {
        openapi: "3.0.0",
        info: info(),
        paths: paths::of_version(group, found, builtin, Dialect::Third),
        components: Components {
            schemas: texts.chain(made).collect(),
        },
    };
    serde_json::to_vec(&document).ok().map(Bytes::from)
}

#[derive(Serialize)]
struct Document<'a> {
    openapi: &'static str,
    info: Value,
    paths: Map<String, Value>,
    components: Components<'a>,
}

#[derive(Serialize)]
struct Components<'a> {
    schemas: BTreeMap<&'a str, Cow<'a, RawValue>>,
}

/// Returns the document `/openapi/v2`.
pub(crate) fn second(kinds: &Kinds) -> Value {
    let mut paths = paths::of_pages(kinds);
    for group in &kinds.groups {
        for version in &group.versions {
            let more = paths::of_version(&group.name, version, group.builtin, Dialect::Second);
            paths.extend(more);
        }
    }
    json!({
        "swagger": "2.0",
        "info": info(),
        "parameters": paths::shared(&paths),
        "paths": paths,
        "definitions": definitions(kinds),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

/// Returns the schemas of `OpenAPI` v2.
pub(crate) fn definitions(kinds: &Kinds) -> Map<String, Value> {
    let mut all = Schemas::default();
    for page in ["APIGroupList", "APIVersions"] {
        reference::add(&reference::meta(page), &mut all.texts);
    }
    reference::add(reference::VERSION, &mut all.texts);
    let mut versions = Vec::new();
    for group in &kinds.groups {
        for version in &group.versions {
            versions.push((group.name.as_str(), version.name.as_str()));
            let mut more = schemas(version);
            all.texts.append(&mut more.texts);
            all.made.append(&mut more.made);
        }
    }
    let mut customs = std::mem::take(&mut all.made);
    customs.values_mut().for_each(second::custom);
    say_versions(&mut all, &versions);
    all.made.values_mut().for_each(second::builtin);
    for (name, text) in all.texts {
        let mut schema = reference::read(text);
        second::builtin(&mut schema);
        all.made.insert(name.to_owned(), schema);
    }
    all.made.append(&mut customs);
    all.made
}

/// Schemas by name: verbatim texts, and schemas that this module builds.
#[derive(Debug, Default)]
struct Schemas {
    texts: Texts,
    made: Map<String, Value>,
}

/// Returns the title and version of the documents.
pub(crate) fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.3"})
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn gvk(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// Returns the schemas of all requests and responses for the kinds of a version.
fn schemas(version: &Version) -> Schemas {
    let mut all = Schemas::default();
    let builtin = version.kinds.values().any(|kind| kind.traits.builtin);
    if builtin {
        reference::add(&reference::meta("APIResourceList"), &mut all.texts);
    }
    for kind in version.kinds.values() {
        if !kind.traits.review {
            for name in ["DeleteOptions", "Patch", "Status"] {
                reference::add(&reference::meta(name), &mut all.texts);
            }
        }
        if builtin && kind.verbs().contains(&"watch") {
            reference::add(&reference::meta("WatchEvent"), &mut all.texts);
        }
        for (name, schema) in SUBRESOURCES {
            if kind.subresources().contains(&name) {
                reference::add(schema, &mut all.texts);
            }
        }
        match kind.typed() {
            Some(of) => {
                let name = reference::name(of);
                reference::add(&name, &mut all.texts);
                reference::add(&format!("{name}List"), &mut all.texts);
            }
            None => custom::add_kind(kind, &mut all),
        }
    }
    all
}

/// Lists all group versions in the schemas of delete options and watch events, which they share.
fn say_versions(all: &mut Schemas, versions: &[(&str, &str)]) {
    for kind in ["DeleteOptions", "WatchEvent"] {
        let name = reference::meta(kind);
        let Some(text) = all.texts.remove(name.as_str()) else {
            continue;
        };
        let mut schema = reference::read(text);
        let mut said = schema["x-kubernetes-group-version-kind"].as_array_mut();
        for (group, version) in versions {
            let one = json!({"group": group, "version": version, "kind": kind});
            if let Some(said) = said.as_mut().filter(|said| !said.contains(&one)) {
                said.push(one);
            }
        }
        all.made.insert(name, schema);
    }
}
