//! Tests the API server as its clients see it, with one module per area.

#![expect(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected should end there"
)]

mod access;
mod apply;
mod crd;
mod disk;
mod fault;
mod jobs;
mod journal;
mod literal;
mod namespace;
mod pending;
mod proto;
mod schema;
mod tcp;
mod watch;
mod workloads;
mod write;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kopf_rs_apiserver::{ApiBody, ApiServer};
use serde_json::{Value, json};
use tower::ServiceExt;

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// The path of the sample CRD's objects.
const APPS: &str = "/apis/demo.example/v1/namespaces/default/myapps";

/// Sends a literal request; returns the code and the JSON body (or the text as a JSON string).
async fn ask(server: &ApiServer, method: &str, uri: &str, body: Value) -> (u16, Value) {
    ask_as(server, method, uri, "application/json", body).await
}

async fn ask_as(
    server: &ApiServer,
    method: &str,
    uri: &str,
    kind: &str,
    body: Value,
) -> (u16, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", kind)
        .body(Full::new(body))
        .unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    (
        code,
        serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
    )
}

async fn get(server: &ApiServer, uri: &str) -> (u16, Value) {
    ask(server, "GET", uri, Value::Null).await
}

/// Sends a request that must succeed; returns the body of the answer.
async fn done(server: &ApiServer, method: &str, uri: &str, body: Value) -> Value {
    let kind = if method == "PATCH" {
        MERGE
    } else {
        "application/json"
    };
    let (code, answer) = ask_as(server, method, uri, kind, body).await;
    assert!(
        (200..300).contains(&code),
        "{method} {uri}: {code} {answer}"
    );
    answer
}

/// A watch that is read event by event.
struct Lines {
    body: ApiBody,
    rest: Vec<u8>,
}

impl Lines {
    async fn open(server: &ApiServer, uri: &str) -> Self {
        let request = Request::get(uri).body(Full::new(Bytes::new())).unwrap();
        let response = server.service().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    /// Returns the next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    /// Returns the type of the next event and the name of its object.
    async fn brief(&mut self) -> String {
        let event = self.next().await.unwrap();
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap())
    }
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "myapps.demo.example"},
        "spec": {
            "group": "demo.example",
            "names": {"plural": "myapps", "kind": "MyApp", "shortNames": ["ma"], "categories": ["all"]},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn app(name: &str) -> Value {
    json!({"apiVersion": "demo.example/v1", "kind": "MyApp", "metadata": {"name": name}, "spec": {"image": "nginx"}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The path of the sample CRD.
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/myapps.demo.example";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns a server with the sample CRD.
async fn with_crd() -> ApiServer {
    let server = ApiServer::new();
    done(&server, "POST", CRDS, crd()).await;
    server
}
