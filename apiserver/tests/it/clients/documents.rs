//! Discovery and `OpenAPI`: the documents from which clients learn the served kinds.
//!
//! Both servers must describe built-in kinds and a custom one in the same way. Must not know which client reads the documents.

use std::path::Path;
use std::time::Duration;

use kopf_rs_apiserver_tests::say;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::both::both;
use super::ledger::Ledger;
use super::plain::unequal;

/// The deadline for a server to describe a new kind.
const PATIENCE: Duration = Duration::from_secs(60);

const GROUP: &str = "documents.example.com";

#[tokio::test]
async fn both_servers_describe_kinds_alike() {
    let Some(both) = both("clients::documents::both_servers_describe_kinds_alike") else {
        return;
    };
    let (ours, real) = tokio::join!(told(&both.ours), told(&both.real.kubeconfig));
    assert!(real.len() > 40, "the real server tells {}", real.len());
    let ledger = Ledger::of("documents");
    let mut left = Vec::new();
    let mut count = 0;
    for (title, ours, real) in ours
        .iter()
        .zip(&real)
        .map(|((title, ours), (_, real))| (title, ours, real))
    {
        let found = unequal(title, ours, real);
        count += found.len();
        left.extend(ledger.without_excused(("", title), found));
    }
    let total: usize = real.iter().map(|(_, lines)| lines.len()).sum();
    let closing = format!(
        "documents: {total} descriptions, {} in the ledger / {} different",
        count - left.len(),
        left.len()
    );
    let shown: Vec<String> = left
        .iter()
        .map(|line| line.chars().take(400).collect())
        .collect();
    assert!(left.is_empty(), "{}\n{closing}", shown.join("\n"));
    say(&closing);
    assert_eq!(ledger.unused(), Vec::<String>::new(), "excuses without use");
}

/// Returns all documents of a server.
async fn told(kubeconfig: &Path) -> Vec<(String, Vec<String>)> {
    let server = Reader::new(kubeconfig).await;
    server.define().await;
    let mut pages = Vec::new();
    for (group, version) in server.versions().await {
        let path = match group.as_str() {
            "" => format!("api/{version}"),
            group => format!("apis/{group}/{version}"),
        };
        pages.push((path.clone(), server.resources(&path).await));
        let document = server.get(&format!("/openapi/v3/{path}")).await;
        pages.push((
            format!("{path} in OpenAPI v3"),
            described(&document["components"]["schemas"]),
        ));
        pages.push((format!("{path} in paths of OpenAPI v3"), asked(&document)));
    }
    let second = server.second().await;
    pages.push(("OpenAPI v2".to_owned(), described(&second["definitions"])));
    pages.push(("paths of OpenAPI v2".to_owned(), asked(&second)));
    server.undefine().await;
    pages
}

/// Returns whether a group is a built-in one or the one of this test: other tests may have left groups on the real server.
fn is_known(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io") || group == GROUP
}

/// Returns a line per operation, with its parameters from all levels and without descriptions.
fn asked(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().expect("paths by name");
    let known = |path: &str| {
        let group = path.strip_prefix("/apis/").unwrap_or_default();
        is_known(group.split('/').next().unwrap_or_default())
    };
    let mut lines = Vec::new();
    for (path, item) in paths.iter().filter(|(path, _)| known(path)) {
        let methods = item.as_object().expect("operations by method");
        for (method, operation) in methods.iter().filter(|(name, _)| *name != "parameters") {
            let told = operation_with(operation, &item["parameters"], document);
            lines.push(format!("{path} {method} {told}"));
        }
    }
    lines.sort();
    lines
}

fn operation_with(operation: &Value, common: &Value, document: &Value) -> Value {
    let lists = [common, &operation["parameters"]];
    let lists = lists.into_iter().filter_map(Value::as_array).flatten();
    let mut parameters: Vec<String> = lists
        .map(|parameter| {
            let shared = parameter["$ref"].as_str().map(|target| &target[1..]);
            let found = shared.and_then(|pointer| document.pointer(pointer));
            undescribed(found.unwrap_or(parameter)).to_string()
        })
        .collect();
    parameters.sort();
    let mut operation = undescribed(operation);
    operation["parameters"] = parameters.into();
    for field in ["consumes", "produces"] {
        if let Some(forms) = operation.get_mut(field).and_then(Value::as_array_mut) {
            forms.sort_by_key(Value::to_string);
        }
    }
    operation
}

/// Returns a value without descriptions.
fn undescribed(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "description");
            let kept = kept.map(|(name, inner)| (name.clone(), undescribed(inner)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(undescribed).collect(),
        other => other.clone(),
    }
}

/// Returns a line per schema. Drops the list of kinds that share `DeleteOptions` or `WatchEvent`, because it depends on the other served
/// kinds.
fn described(schemas: &Value) -> Vec<String> {
    let schemas = schemas.as_object().expect("schemas by name");
    let known =
        |name: &str| name.starts_with("io.k8s.") || name.starts_with("com.example.documents.");
    let lines = schemas.iter().filter(|(name, _)| known(name));
    let mut lines: Vec<String> = lines
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            if name.ends_with(".DeleteOptions") || name.ends_with(".WatchEvent") {
                schema["x-kubernetes-group-version-kind"].take();
            }
            format!("{name} {schema}")
        })
        .collect();
    lines.sort();
    lines
}

/// A client that reads the documents of one server.
struct Reader(kube::Client);

// === impl Reader ===

impl Reader {
    async fn new(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig is readable");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options).await;
        let client = kube::Client::try_from(config.expect("a usable kubeconfig"));
        Self(client.expect("a client can be made"))
    }

    async fn try_get(&self, path: &str) -> Option<Value> {
        let request = http::Request::get(path).header("Accept", "application/json");
        let request = request.body(Vec::new()).expect("a request");
        let text = self.0.request_text(request).await.ok()?;
        serde_json::from_str(&text).ok()
    }

    async fn get(&self, path: &str) -> Value {
        let found = self.try_get(path).await;
        found.unwrap_or_else(|| panic!("{path} is no page"))
    }

    /// Returns the versions of the built-in groups and of the one of this test.
    async fn versions(&self) -> Vec<(String, String)> {
        let mut versions = vec![(String::new(), "v1".to_owned())];
        let groups = self.get("/apis").await;
        for group in groups["groups"].as_array().expect("groups") {
            let name = group["name"].as_str().expect("a group has a name");
            let listed = group["versions"].as_array().into_iter().flatten();
            for version in listed.filter(|_| is_known(name)) {
                let version = version["version"].as_str().expect("a version has a name");
                versions.push((name.to_owned(), version.to_owned()));
            }
        }
        versions.sort();
        versions
    }

    async fn resources(&self, path: &str) -> Vec<String> {
        let list = self.get(&format!("/{path}")).await;
        let found = list["resources"].as_array().expect("resources");
        let lines = found.iter().map(|resource| {
            let mut resource = resource.clone();
            if let Some(hash) = resource.get_mut("storageVersionHash") {
                *hash = "<hash>".into();
            }
            resource.to_string()
        });
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    }

    /// Returns the `OpenAPI` v2 document, once it describes the custom kind.
    async fn second(&self) -> Value {
        let described = |document: &Value| {
            let name = "com.example.documents.v1.Widget";
            document["definitions"].get(name).is_some()
        };
        self.until("/openapi/v2", described).await
    }

    async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut pulse = tokio::time::interval(Duration::from_millis(100));
        let poll = async {
            loop {
                pulse.tick().await;
                if let Some(page) = self.try_get(path).await.filter(|page| holds(page)) {
                    return page;
                }
            }
        };
        let page = tokio::time::timeout(PATIENCE, poll).await;
        page.unwrap_or_else(|_| panic!("{path} never told what was awaited"))
    }

    /// Defines a kind, and waits until the server describes it.
    async fn define(&self) {
        let body = definition().to_string().into_bytes();
        let request = http::Request::post(DEFINITIONS).header("Content-Type", "application/json");
        let request = request.body(body).expect("a request");
        self.0
            .request_text(request)
            .await
            .expect("a definition is taken");
        for version in ["v1", "v2"] {
            let page = format!("/openapi/v3/apis/{GROUP}/{version}");
            self.until(&page, |page| page["components"]["schemas"].is_object())
                .await;
            let page = format!("/apis/{GROUP}/{version}");
            self.until(&page, |page| page["resources"].is_array()).await;
        }
    }

    async fn undefine(&self) {
        let path = format!("{DEFINITIONS}/widgets.{GROUP}");
        let request = http::Request::delete(path).body(Vec::new());
        let gone = self.0.request_text(request.expect("a request")).await;
        gone.expect("a definition can be removed");
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition() -> Value {
    let spec = json!({
        "type": "object", "required": ["size"], "description": "What is wanted.",
        "properties": {
            "size": {"type": "integer", "maximum": 5, "default": 1, "description": "How large."},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "kept": {"type": "string", "nullable": true, "enum": ["a", "b"], "format": "date"},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "list": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^a"}}},
            },
            "map": {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}},
            "ruled": {
                "type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}],
                "anyOf": [{"minimum": 3}, {"multipleOf": 2}],
            },
        },
    });
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({
        "type": "object", "description": "A widget.", "required": ["spec"],
        "properties": {"spec": spec, "status": status},
    });
    let loose = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "subresources": {"status": {}, "scale": scale}, "schema": {"openAPIV3Schema": schema},
                },
                {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": loose}},
            ],
        },
    })
}
