//! A fresh kube-apiserver with the measured kinds, and a separate user for the operator.
//!
//! In the audit log, this user separates the operator's requests from the loader's. Must not know the contenders.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
pub use kopf_rs_apiserver_bench::API_VERSION;
use kopf_rs_tests::RealServer;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// The deadline for a server to serve a new kind, or to apply a new permission.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// A server for measurements; dropping it removes everything.
pub struct BenchCluster {
    server: RealServer,
    user: String,
    /// The loader's client.
    pub admin: Client,
}

impl BenchCluster {
    /// Starts a server with only the kinds and the operator's permissions.
    pub async fn start() -> Result<Self> {
        let server =
            tokio::task::spawn_blocking(RealServer::start).await?.context("a real kube-apiserver")?;
        let user = server.restricted_user();
        let admin = client(server.kubeconfig()).await?;
        let cluster = Self { server, user, admin };
        let object = json!({"n": {"type": "integer"}, "text": {"type": "string"}});
        cluster.define("BenchObj", "benchobjs", &object, None).await?;
        let app = json!({"image": {"type": "string"}, "banner": {"type": "string"}});
        cluster.define("MyApp", "myapps", &app, None).await?;
        let app = json!({
            "image": {"type": "string"}, "replicas": {"type": "integer"}, "port": {"type": "integer"},
        });
        let condition = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let status = json!({
            "availableReplicas": {"type": "integer"}, "observedGeneration": {"type": "integer"},
            "conditions": {"type": "array", "items": condition},
        });
        cluster.define("WebApp", "webapps", &app, Some(&status)).await?;
        cluster.empower().await?;
        Ok(cluster)
    }

    /// Defines a kind, with a status subresource if it has a status.
    async fn define(&self, kind: &str, plural: &str, spec: &Value, status: Option<&Value>) -> Result<()> {
        let mut properties = json!({"spec": {"type": "object", "properties": spec}});
        let mut subresources = json!({});
        if let Some(status) = status {
            properties["status"] = json!({"type": "object", "properties": status});
            subresources["status"] = json!({});
        }
        let schema = json!({"type": "object", "properties": properties});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.bench.kopf.rs")},
            "spec": {
                "group": "bench.kopf.rs", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}, "subresources": subresources,
                }],
            },
        });
        post(&self.admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        until_served(&self.admin, &format!("/apis/{API_VERSION}/{plural}?limit=1")).await
    }

    /// Grants all permissions to the operator's user, and waits until the server applies them.
    async fn empower(&self) -> Result<()> {
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "bench-operator"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": self.user}],
        });
        post(&self.admin, &format!("/apis/{group}/v1/clusterrolebindings"), &binding).await?;
        let operator = client(self.kubeconfig()).await?;
        until_served(&operator, &format!("/apis/{API_VERSION}/benchobjs?limit=1")).await
    }

    /// Creates a namespace.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        post(&self.admin, "/api/v1/namespaces", &namespace).await
    }

    /// Returns the operator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig_of(&self.user)
    }

    /// Returns the numbers of the operator's finished requests so far, by verb.
    pub fn requests(&self) -> BTreeMap<String, usize> {
        let mut verbs = BTreeMap::new();
        for entry in self.server.audit() {
            if entry["user"]["username"] == *self.user {
                *verbs.entry(entry["verb"].as_str().unwrap_or("none").to_owned()).or_default() += 1;
            }
        }
        verbs
    }
}

/// Returns the URL path of a collection of a benchmark kind in a namespace.
pub fn collection(namespace: &str, plural: &str) -> String {
    format!("/apis/{API_VERSION}/namespaces/{namespace}/{plural}")
}

async fn client(kubeconfig: PathBuf) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn until_served(client: &Client, url: &str) -> Result<()> {
    let deadline = Instant::now() + SETTLED_WITHIN;
    let mut pulse = tokio::time::interval(Duration::from_millis(20));
    loop {
        pulse.tick().await;
        match get(client, url).await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => bail!("{url} is not served: {error:#}"),
            Err(_) => {}
        }
    }
}

pub fn request(method: &str, url: &str, body: Vec<u8>) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::builder()
        .method(method)
        .uri(url)
        .header("content-type", "application/json")
        .body(body)?)
}

pub async fn get(client: &Client, url: &str) -> Result<String> {
    client.request_text(request("GET", url, Vec::new())?).await.with_context(|| format!("GET {url}"))
}

pub async fn post(client: &Client, url: &str, body: &Value) -> Result<()> {
    let sent = request("POST", url, serde_json::to_vec(body)?)?;
    client.request_text(sent).await.map(drop).with_context(|| format!("POST {url}"))
}

pub async fn patch(client: &Client, url: &str, body: &Value) -> Result<()> {
    let mut sent = request("PATCH", url, serde_json::to_vec(body)?)?;
    let merge = http::HeaderValue::from_static("application/merge-patch+json");
    sent.headers_mut().insert("content-type", merge);
    client.request_text(sent).await.map(drop).with_context(|| format!("PATCH {url}"))
}

pub async fn delete(client: &Client, url: &str) -> Result<()> {
    client
        .request_text(request("DELETE", url, Vec::new())?)
        .await
        .map(drop)
        .with_context(|| format!("DELETE {url}"))
}
