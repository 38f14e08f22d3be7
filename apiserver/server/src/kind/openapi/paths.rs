//! The paths of `OpenAPI` v2 and v3 documents.
//!
//! Both documents describe the same operations. Independent of which kinds exist.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::operations::{Content, Operation, capital, of_kind, tag, word};
use super::reference::{self, REFERENCE};
use super::second::DEFINITIONS;
use crate::kind::{Kinds, Version};

/// The `OpenAPI` version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Second,
    Third,
}

const FORMS: [&str; 3] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// Returns the paths of a group version.
pub(super) fn of_version(
    group: &str,
    version: &Version,
    builtin: bool,
    dialect: Dialect,
) -> Map<String, Value> {
    let mut paths = Map::new();
    let tag = tag(group, &version.name);
    if builtin {
        let path = format!("/{}/", super::path(group, &version.name));
        let id = format!(
            "get{}{}APIResources",
            capital(&word(group)),
            capital(&version.name)
        );
        let page = page(
            &tag,
            &id,
            &reference::meta("APIResourceList"),
            &FORMS,
            dialect,
        );
        paths.insert(path, page);
    }
    for kind in version.kinds.values() {
        let operations = of_kind(kind);
        let named: BTreeSet<&str> = operations.iter().map(|one| one.path.as_str()).collect();
        for path in named {
            let there: Vec<&Operation> = operations.iter().filter(|one| one.path == path).collect();
            paths.insert(path.to_owned(), item(&tag, &there, &kind.kind, dialect));
        }
    }
    paths
}

/// Returns the paths of discovery and of `/version`, which only the v2 document includes.
pub(super) fn of_pages(kinds: &Kinds) -> Map<String, Value> {
    let second = Dialect::Second;
    let of =
        |tag: &str, id: &str, schema: &str| page(tag, id, &reference::meta(schema), &FORMS, second);
    let version = page(
        "version",
        "getCodeVersion",
        reference::VERSION,
        &FORMS[..1],
        second,
    );
    let named = kinds.groups.iter().filter(|group| !group.name.is_empty());
    let groups = named.filter(|group| group.builtin).map(|group| {
        let word = word(&group.name);
        let id = format!("get{}APIGroup", capital(&word));
        (format!("/apis/{}/", group.name), of(&word, &id, "APIGroup"))
    });
    let others = [
        ("/api/", of("core", "getCoreAPIVersions", "APIVersions")),
        ("/apis/", of("apis", "getAPIVersions", "APIGroupList")),
        ("/version/", version),
        (
            "/.well-known/openid-configuration/",
            text(
                "WellKnown",
                "getServiceAccountIssuerOpenIDConfiguration",
                FORMS[0],
            ),
        ),
        (
            "/openid/v1/jwks/",
            text(
                "openid",
                "getServiceAccountIssuerOpenIDKeyset",
                "application/jwk-set+json",
            ),
        ),
    ];
    let others = others
        .into_iter()
        .map(|(path, page)| (path.to_owned(), page));
    groups.chain(others).collect()
}

/// Describes a page of which v2 only says that it returns text.
fn text(tag: &str, id: &str, form: &str) -> Value {
    json!({"get": {
        "tags": [tag],
        "operationId": id,
        "produces": [form],
        "schemes": ["https"],
        "responses": answers(&[200], None, &[form], Dialect::Second),
    }})
}

/// Returns the parameters that v2 defines once and references.
pub(super) fn shared(paths: &Map<String, Value>) -> Map<String, Value> {
    let items = paths.values().filter_map(Value::as_object);
    let operations = items.flat_map(|item| {
        item.values().map(|operation| match operation {
            Value::Array(list) => list.as_slice(),
            _ => operation["parameters"]
                .as_array()
                .map_or(&[][..], Vec::as_slice),
        })
    });
    let named = operations.flatten().filter_map(|parameter| {
        let name = parameter["$ref"].as_str()?.strip_prefix(PARAMETERS)?;
        Some((name.to_owned(), described(name)))
    });
    named.collect()
}

const PARAMETERS: &str = "#/parameters/";

fn page(tag: &str, id: &str, schema: &str, forms: &[&str], dialect: Dialect) -> Value {
    let mut operation = json!({
        "tags": [tag],
        "operationId": id,
        "responses": answers(&[200], Some(schema), forms, dialect),
    });
    if dialect == Dialect::Second {
        operation["consumes"] = json!(forms);
        operation["produces"] = json!(forms);
        operation["schemes"] = json!(["https"]);
    }
    json!({"get": operation})
}

/// Describes all operations at one path.
fn item(tag: &str, operations: &[&Operation], kind: &str, dialect: Dialect) -> Value {
    let Some((first, others)) = operations.split_first() else {
        return json!({});
    };
    let everywhere = |name: &&&str| {
        matches!(**name, "name" | "namespace" | "path" | "pretty")
            && others.iter().all(|other| other.parameters.contains(*name))
    };
    let common: Vec<&str> = first
        .parameters
        .iter()
        .filter(everywhere)
        .copied()
        .collect();
    let mut item = Map::new();
    for one in operations {
        item.insert(one.method.to_owned(), operation(tag, one, &common, dialect));
    }
    if !common.is_empty() {
        let target = first.target["kind"].as_str().unwrap_or(kind);
        let told = common.iter().map(|name| parameter(name, target, dialect));
        item.insert("parameters".to_owned(), told.collect());
    }
    item.into()
}

fn operation(tag: &str, one: &Operation, common: &[&str], dialect: Dialect) -> Value {
    let own = one.parameters.iter().filter(|name| !common.contains(name));
    let mut parameters: Vec<Value> = own.map(|name| parameter(name, "", dialect)).collect();
    let mut told = json!({
        "tags": [tag],
        "operationId": one.id,
        "responses": answers(one.codes, one.answer.as_deref(), one.gives, dialect),
        "x-kubernetes-action": one.action,
        "x-kubernetes-group-version-kind": one.target,
    });
    if dialect == Dialect::Second {
        let any: &[&str] = if one.gives.len() == 2 {
            one.gives
        } else {
            &["*/*"]
        };
        told["consumes"] = json!(one.body.as_ref().map_or(any, |body| body.forms));
        told["produces"] = json!(one.gives);
        told["schemes"] = json!(["https"]);
    }
    match (&one.body, dialect) {
        (None, _) => {}
        (Some(body), Dialect::Second) => parameters.push(sent(body)),
        (Some(body), Dialect::Third) => {
            told["requestBody"] = json!({"content": contents(body.forms, &body.schema)});
            if body.required {
                told["requestBody"]["required"] = true.into();
            }
        }
    }
    if !parameters.is_empty() {
        told["parameters"] = parameters.into();
    }
    told
}

fn sent(body: &Content) -> Value {
    let mut told = json!({
        "name": "body", "in": "body",
        "schema": {"$ref": format!("{DEFINITIONS}{}", body.schema)},
    });
    if body.required {
        told["required"] = true.into();
    }
    told
}

fn contents(forms: &[&str], schema: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("{REFERENCE}{schema}")}});
    let each = forms
        .iter()
        .map(|form| ((*form).to_owned(), schema.clone()));
    Value::Object(each.collect())
}

fn answers(codes: &[u16], schema: Option<&str>, forms: &[&str], dialect: Dialect) -> Value {
    let mut all = Map::new();
    for code in codes {
        let mut told = json!({"description": reason(*code)});
        match (schema, dialect) {
            (Some(schema), Dialect::Second) => {
                told["schema"] = json!({"$ref": format!("{DEFINITIONS}{schema}")});
            }
            (Some(schema), Dialect::Third) => told["content"] = contents(forms, schema),
            (None, Dialect::Second) => told["schema"] = json!({"type": "string"}),
            (None, Dialect::Third) => {
                let text = json!({"schema": {"type": "string"}});
                let each = forms.iter().map(|form| ((*form).to_owned(), text.clone()));
                told["content"] = Value::Object(each.collect());
            }
        }
        all.insert(code.to_string(), told);
    }
    all.insert("401".to_owned(), json!({"description": reason(401)}));
    all.into()
}

fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}

/// Describes a parameter of a path or an operation; `path?` is the query parameter `path`.
fn parameter(name: &str, kind: &str, dialect: Dialect) -> Value {
    match dialect {
        Dialect::Second if name == "name" => {
            let mut told = described(name);
            told["description"] = format!("name of the {kind}").into();
            told
        }
        Dialect::Second => json!({"$ref": format!("{PARAMETERS}{name}")}),
        Dialect::Third => {
            let mut told = described(name);
            let of = told["type"].take();
            let all = told.as_object_mut().into_iter();
            all.for_each(|told| told.retain(|field, _| field != "type" && field != "uniqueItems"));
            told["schema"] = json!({"type": of, "uniqueItems": true});
            told
        }
    }
}

fn described(name: &str) -> Value {
    let within = ["name", "namespace", "path"].contains(&name);
    let of = match name {
        "allowWatchBookmarks"
        | "follow"
        | "force"
        | "insecureSkipTLSVerifyBackend"
        | "ignoreStoreReadErrorWithClusterBreakingPotential"
        | "orphanDependents"
        | "previous"
        | "sendInitialEvents"
        | "stderr"
        | "stdin"
        | "stdout"
        | "timestamps"
        | "tty"
        | "watch" => "boolean",
        "gracePeriodSeconds" | "limit" | "limitBytes" | "ports" | "sinceSeconds" | "tailLines"
        | "timeoutSeconds" => "integer",
        _ => "string",
    };
    let mut told = json!({
        "name": name.trim_end_matches('?'),
        "in": if within { "path" } else { "query" },
        "type": of,
        "uniqueItems": true,
    });
    if within {
        told["required"] = true.into();
    }
    told
}
