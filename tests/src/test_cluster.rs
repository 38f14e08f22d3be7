//! The cluster of a scenario: one server, an administrator's client, a separate namespace.
//!
//! Objects are raw JSON, named by kind or plural (`pods`, `MyApp`, `myapps.demo.example.com`) or by a collection's
//! path (`/apis/apps/v1/namespaces/other/deployments`). The cluster's own requests carry the user agent
//! [`TestCluster::USER_AGENT`], so that tests can count those of an operator separately. Any unexpected result panics
//! and so fails the test. This module must not depend on operators.

mod asked;
mod start;
mod wait;

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use kopf_rs_apiserver_tests::{RealServer, kubectl, skipped};
use serde_json::{Value, json};

use crate::lines::Lines;
use crate::play::Server;
use crate::resource::{Resource, documents, group_roots, listed, root_of};
pub use asked::Asked;
use start::Backend;

/// One server, and the operations of a test on it.
pub struct TestCluster {
    server: Server,
    backend: Backend,
    /// The client that operators get.
    client: kube::Client,
    /// The same client with the user agent of the tests.
    own: kube::Client,
    namespace: String,
    lines: Lines,
    known: Mutex<Vec<Resource>>,
}

impl TestCluster {
    /// The user agent of the cluster's own requests.
    pub const USER_AGENT: &'static str = "kopf-rs-tests";

    /// Starts a fresh cluster; its [`TestCluster::lines`] stay empty unless the test installs their subscriber.
    ///
    /// # Panics
    ///
    /// Panics if the server is unavailable. [`crate::scenarios!`] skips scenarios instead if Go is missing.
    pub async fn start(server: Server) -> Self {
        Self::with_lines(server, Lines::new(server.patience())).await
    }

    /// Returns the kind of server.
    #[must_use]
    pub fn server(&self) -> Server {
        self.server
    }

    /// Returns an administrator's client, for an operator.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Returns the namespace that only this cluster uses.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the log lines of the operator and the handlers of this scenario.
    #[must_use]
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Returns the administrator's kubeconfig file.
    ///
    /// # Panics
    ///
    /// Panics for the in-memory server, which has no address.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.backend.kubeconfig().expect("the in-memory server has no kubeconfig: use Tcp or Real")
    }

    /// Returns the real server, if this is one, for its audit log, users without rights and controllers.
    #[must_use]
    pub fn real(&self) -> Option<&'static RealServer> {
        self.backend.real()
    }

    /// Starts the controllers of the real server, once for all tests. The server in the process does their work itself.
    pub async fn start_controllers(&self) {
        if let Some(real) = self.real() {
            let started = tokio::task::spawn_blocking(|| real.controllers()).await;
            let started = started.expect("the start does not panic");
            started.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Returns the name of a user that no other test uses and that has no rights until RBAC objects grant them; `NAME-token` is its bearer
    /// token.
    #[must_use]
    pub fn restricted_user(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        if let Some(real) = self.real() {
            return real.restricted_user();
        }
        let name = format!("user{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.backend.add_user(&name);
        name
    }

    /// Returns a client of a user that [`TestCluster::restricted_user`] returned.
    pub async fn client_of(&self, user: &str) -> kube::Client {
        self.backend.client_of(user).await
    }

    /// Runs kubectl as the administrator in this cluster's namespace, and builds it first if necessary. Returns `None` if Go is missing:
    /// the rest of the test is recorded as skipped, and the scenario should return.
    ///
    /// # Panics
    ///
    /// Panics if kubectl cannot run for another reason; a failure of kubectl itself is in the output.
    pub async fn kubectl(&self, args: &[&str]) -> Option<Output> {
        let kubeconfig = self.kubeconfig().to_owned();
        let namespace = format!("--namespace={}", self.namespace);
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let run = move || {
            let mut all = vec![namespace.as_str()];
            all.extend(args.iter().map(String::as_str));
            kubectl(&kubeconfig, &all)
        };
        let output = tokio::task::spawn_blocking(run).await.expect("kubectl's thread ends");
        match output {
            Ok(output) => Some(output),
            Err(error) => {
                let missing = error.missing().unwrap_or_else(|| panic!("kubectl: {error}"));
                skipped(std::thread::current().name().unwrap_or("a test with kubectl"), missing);
                None
            }
        }
    }

    /// Creates or merges every document of a YAML or JSON text, and returns the objects as stored.
    ///
    /// Objects of namespaced kinds without a namespace get the cluster's. For a CRD, waits until its kind is served.
    pub async fn apply(&self, text: &str) -> Vec<Value> {
        let mut stored = Vec::new();
        for document in documents(text) {
            stored.push(self.apply_one(document).await);
        }
        stored
    }

    async fn apply_one(&self, object: Value) -> Value {
        let is_crd = object["kind"] == "CustomResourceDefinition";
        let (path, object) = self.placed(object).await;
        let stored = match self.request("POST", &path, Some(&object)).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let name = object["metadata"]["name"].as_str().expect("an object that exists has a name");
                self.must("PATCH", &format!("{path}/{name}"), Some(&object)).await
            }
            Err(error) => panic!("POST {path}: {error}\n{object:#}"),
            Ok(stored) => stored,
        };
        if is_crd { self.until_served(&stored).await } else { stored }
    }

    /// Creates an object under its `apiVersion`, `kind` and namespace.
    pub async fn create(&self, object: &Value) -> Value {
        let (path, object) = self.placed(object.clone()).await;
        self.must("POST", &path, Some(&object)).await
    }

    /// Returns an object, if it exists.
    pub async fn get(&self, resource: &str, name: &str) -> Option<Value> {
        let path = self.path(resource, name).await;
        match self.request("GET", &path, None).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("GET {path}: {error}"),
        }
    }

    /// Returns all objects of a kind in the cluster's namespace.
    pub async fn list(&self, resource: &str) -> Vec<Value> {
        let path = self.collection(resource).await;
        let mut list = self.must("GET", &path, None).await;
        match list["items"].take() {
            Value::Array(items) => items,
            other => panic!("GET {path}: items are {other}"),
        }
    }

    /// Merges into an object; `name` may end in a subresource (`example-app/status`).
    pub async fn patch(&self, resource: &str, name: &str, merge: &Value) -> Value {
        let path = self.path(resource, name).await;
        self.must("PATCH", &path, Some(merge)).await
    }

    /// Requests the deletion of an object; finalizers may keep it.
    pub async fn delete(&self, resource: &str, name: &str) -> Value {
        let path = self.path(resource, name).await;
        self.must("DELETE", &path, None).await
    }

    /// Sends any request by path and returns an error response as a value. PATCH is a merge patch.
    ///
    /// # Errors
    ///
    /// Returns the error of the server or the connection.
    pub async fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let bytes = body.map(|value| value.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content).body(bytes).map_err(kube::Error::HttpError)?;
        self.own.request(request).await
    }

    async fn must(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let mut answer = self.request(method, path, body).await;
        // A real server refuses requests for a kind while it initializes the storage of a new definition.
        for _ in 0..100 {
            match &answer {
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    answer = self.request(method, path, body).await;
                }
                _ => break,
            }
        }
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}\n{:#}", body.unwrap_or(&Value::Null)))
    }

    /// Returns the collection path of an object, and the object with its namespace filled in.
    async fn placed(&self, mut object: Value) -> (String, Value) {
        let root = root_of(object["apiVersion"].as_str().unwrap_or_default());
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let resource = self.lookup(&kind, |known| known.root == root && known.kind == kind).await;
        if resource.namespaced && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        (resource.collection(namespace), object)
    }

    async fn path(&self, resource: &str, name: &str) -> String {
        format!("{}/{name}", self.collection(resource).await)
    }

    async fn collection(&self, resource: &str) -> String {
        if resource.starts_with('/') {
            return resource.to_owned();
        }
        self.lookup(resource, |known| known.is_meant_by(resource)).await.collection(&self.namespace)
    }

    /// Returns a resource that the cluster remembers, or else discovers it on the server.
    async fn lookup(&self, word: &str, wanted: impl Fn(&Resource) -> bool) -> Resource {
        let remembered = |known: &[Resource]| known.iter().find(|resource| wanted(resource)).cloned();
        let found = remembered(&self.known.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(resource) = found {
            return resource;
        }
        let served = self.discover().await;
        let found = remembered(&served);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = served;
        found.unwrap_or_else(|| panic!("the server does not serve `{word}`"))
    }

    /// Lists core resources first, so that a bare `events` means those.
    async fn discover(&self) -> Vec<Resource> {
        let groups = self.must("GET", "/apis", None).await;
        let mut served = Vec::new();
        for root in std::iter::once("/api/v1".to_owned()).chain(group_roots(&groups)) {
            // A group may vanish between the two requests, together with its last CRD.
            if let Ok(list) = self.request("GET", &root, None).await {
                served.extend(listed(&root, &list));
            }
        }
        served
    }
}
