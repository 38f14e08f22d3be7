//! The cluster of a history: definitions, namespaces and objects, which users change.
//!
//! This module must not depend on the operator or the checks.

use kopf_rs_apiserver::ApiServer;
use kube::Client;
use serde_json::{Value, json};

use crate::operating::definition;

/// The API group of the kind in these histories.
pub(super) const GROUP: &str = "watches.kopf.dev";

/// Another group with a kind of the same plural.
const OTHER_GROUP: &str = "rivals.kopf.dev";

pub(super) const PLURAL: &str = crate::operating::KIND;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The second version of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    Absent,
    Served,
    Unserved,
}

/// The definition of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// True if the first version is served.
    pub(super) first: bool,
    pub(super) second: Second,
    /// True if there is a status subresource.
    pub(super) status: bool,
}

/// The state of an object on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Alive,
    /// It is marked for deletion.
    Terminating,
    Gone,
    /// Its kind is not served, and its definition or its namespace is being deleted.
    Unknown,
}

/// An object's namespace and name.
pub(super) type Name = (&'static str, &'static str);

/// The possible objects. The last one is outside the scope `team-*`.
pub(super) const OBJECTS: [Name; 4] = [("team-a", "x"), ("team-b", "y"), ("team-a", "z"), ("others", "w")];

/// The users' side of an in-memory API server. Clones share it.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) server: ApiServer,
    client: Client,
}

// === impl Cluster ===

impl Cluster {
    pub(super) fn new() -> Self {
        let server = ApiServer::new();
        Self { client: Client::new(server.service(), "default"), server }
    }

    /// Sends a request of a user; returns `None` if it is refused.
    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content).body(bytes);
        let request = request.expect("a valid request");
        self.client.request::<Value>(request).await.ok()
    }

    /// Creates the definition, or changes it; ignores a refusal.
    pub(super) async fn define(&self, shape: Shape) {
        let crd = shape.definition();
        let path = format!("{DEFINITIONS}/{PLURAL}.{GROUP}");
        if self.ask("POST", DEFINITIONS, Some(&crd)).await.is_none() {
            let merge = json!({"spec": {"versions": crd["spec"]["versions"]}});
            self.ask("PATCH", &path, Some(&merge)).await;
        }
    }

    pub(super) async fn undefine(&self) {
        let path = format!("{DEFINITIONS}/{PLURAL}.{GROUP}");
        self.ask("DELETE", &path, None).await;
    }

    pub(super) async fn definition(&self) -> Option<Value> {
        let path = format!("{DEFINITIONS}/{PLURAL}.{GROUP}");
        self.ask("GET", &path, None).await
    }

    /// Installs a kind with the same plural in another group, or removes it.
    pub(super) async fn rival(&self, there: bool) {
        if there {
            let crd = definition(OTHER_GROUP);
            self.ask("POST", DEFINITIONS, Some(&crd)).await;
        } else {
            let path = format!("{DEFINITIONS}/{PLURAL}.{OTHER_GROUP}");
            self.ask("DELETE", &path, None).await;
        }
    }

    pub(super) async fn namespace(&self, name: &str) -> Option<Value> {
        let path = format!("/api/v1/namespaces/{name}");
        self.ask("GET", &path, None).await
    }

    pub(super) async fn make_namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.ask("POST", "/api/v1/namespaces", Some(&namespace)).await;
    }

    pub(super) async fn delete_namespace(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{name}");
        self.ask("DELETE", &path, None).await;
    }

    pub(super) async fn create(&self, name: Name, spec: &Value) -> Option<Value> {
        for version in ["v1", "v2"] {
            let object = json!({
                "apiVersion": format!("{GROUP}/{version}"), "kind": "KopfExample",
                "metadata": {"name": name.1}, "spec": spec,
            });
            let path = path(version, (name.0, ""));
            if let Some(made) = self.ask("POST", &path, Some(&object)).await {
                return Some(made);
            }
        }
        None
    }

    /// Changes the object, through any served version.
    pub(super) async fn patch(&self, name: Name, merge: &Value) -> Option<Value> {
        self.ask_for(name, "PATCH", Some(merge)).await
    }

    pub(super) async fn delete(&self, name: Name) {
        self.ask_for(name, "DELETE", None).await;
    }

    pub(super) async fn get(&self, name: Name) -> Option<Value> {
        self.ask_for(name, "GET", None).await
    }

    async fn ask_for(&self, name: Name, method: &str, body: Option<&Value>) -> Option<Value> {
        for version in ["v1", "v2"] {
            let answer = self.ask(method, &path(version, name), body).await;
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    /// Returns whether the object with this uid under this definition exists; `known` is its former presence.
    pub(super) async fn presence(&self, name: Name, uid: &str, crd: &str, known: Presence) -> Presence {
        if let Some(object) = self.get(name).await {
            let metadata = &object["metadata"];
            return match metadata["uid"] == uid {
                true if metadata["deletionTimestamp"].is_null() => Presence::Alive,
                true => Presence::Terminating,
                false => Presence::Gone,
            };
        }
        let Some(definition) = self.definition().await else {
            return Presence::Gone;
        };
        let versions = definition["spec"]["versions"].as_array();
        let served = versions.is_some_and(|all| all.iter().any(|it| it["served"] == true));
        if definition["metadata"]["uid"] != crd || served {
            return Presence::Gone;
        }
        let namespace = self.namespace(name.0).await.unwrap_or_default();
        let leaves = |it: &Value| it.is_null() || !it["metadata"]["deletionTimestamp"].is_null();
        if leaves(&definition) || leaves(&namespace) { Presence::Unknown } else { known }
    }
}

// === impl Shape ===

impl Shape {
    pub(super) const PLAIN: Self = Self { first: true, second: Second::Absent, status: true };

    fn definition(self) -> Value {
        let mut crd = definition(GROUP);
        let mut first = crd["spec"]["versions"][0].take();
        first["served"] = json!(self.first);
        if !self.status {
            first["subresources"] = Value::Null;
        }
        let mut second = first.clone();
        second["name"] = json!("v2");
        second["storage"] = json!(false);
        second["served"] = json!(self.second == Second::Served);
        crd["spec"]["versions"] = match self.second {
            Second::Absent => json!([first]),
            Second::Served | Second::Unserved => json!([first, second]),
        };
        crd
    }
}

fn path(version: &str, name: Name) -> String {
    let collection = format!("/apis/{GROUP}/{version}/namespaces/{}/{PLURAL}", name.0);
    match name.1 {
        "" => collection,
        name => format!("{collection}/{name}"),
    }
}
