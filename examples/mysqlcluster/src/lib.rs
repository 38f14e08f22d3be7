//! `MySQLCluster`: runs database servers with a password, a name and volumes for every object of this kind, and
//! restores a backup once.
//!
//! ```sh
//! kopf-rs run examples/mysqlcluster --embedded
//! ```

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Secret, Service};
use kopf_rs::prelude::*;
use kopf_rs::register_crd;
use kube::{Api, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use uuid::Uuid;

/// The desired state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, CustomResource)]
#[kube(
    group = "databases.example.com",
    version = "v1",
    kind = "MySQLCluster",
    plural = "mysqlclusters",
    namespaced
)]
#[kube(status = "MySQLClusterStatus")]
#[kube(printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#)]
#[serde(rename_all = "camelCase")]
pub struct MySQLClusterSpec {
    /// The Secret with the `password` of `root`. The operator creates it if it is missing.
    secret: String,
    /// The URL of an SQL file with the initial content.
    from_backup: Option<String>,
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    port: i32,
    #[serde(default = "replicas")]
    #[schemars(range(min = 1))]
    replicas: i32,
    #[serde(default = "storage")]
    storage: String,
    #[serde(default = "image")]
    image: String,
}

fn port() -> i32 {
    3306
}

fn replicas() -> i32 {
    1
}

fn storage() -> String {
    "1Gi".to_owned()
}

fn image() -> String {
    "mysql:8.4".to_owned()
}

/// The observed state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MySQLClusterStatus {
    ready_replicas: Option<i32>,
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
}

/// A rule that the API server enforces by itself, since it is a part of the CRD.
#[validation_rule(MySQLCluster, message = "volumes keep their size", field = "spec.storage")]
const VOLUMES_KEEP_THEIR_SIZE: &str = "self.spec.storage == oldSelf.spec.storage";

#[validation_rule(MySQLCluster, message = "a backup is restored once", field = "spec.fromBackup")]
const ONE_BACKUP: &str = "!has(self.spec.fromBackup) || !has(oldSelf.spec.fromBackup) \
                          || self.spec.fromBackup == oldSelf.spec.fromBackup";

/// Registers the CRD with its rules.
///
/// # Errors
///
/// Fails until the server serves the kind.
#[on_startup(requires = ["create,patch customresourcedefinitions.apiextensions.k8s.io"])]
pub async fn register(client: Client) -> HandlerResult {
    register_crd(&client, &MySQLCluster::crd()).await
}

/// Makes the servers match the object, and restores the backup once they are ready.
///
/// # Errors
///
/// Fails permanently if the password is lost or the backup cannot be restored; fails if a child is rejected.
#[reconcile(MySQLCluster, owns = [Secret, Service], reads = [StatefulSet, Job])]
pub async fn keep_in_shape(
    spec: MySQLClusterSpec,
    name: &str,
    namespace: &str,
    client: Client,
    children: Children,
    status: &mut Status<MySQLClusterStatus>,
) -> HandlerResult {
    let secrets = Api::<Secret>::namespaced(client, namespace);
    if secrets.get_opt(&spec.secret).await?.is_none() {
        if status.ready_replicas.is_some() {
            status.conditions().set("Ready", false, "PasswordLost", &spec.secret);
            fail!("the Secret {} is gone, and with it the password", spec.secret);
        }
        children.apply(&password(&spec)).await?;
    }
    children.apply(&service(&spec, name)).await?;
    let servers = children.apply(&servers(&spec, name)).await?.object().await?;
    let ready = servers["status"]["readyReplicas"].as_i64().unwrap_or_default();
    status.ready_replicas = Some(i32::try_from(ready)?);
    if ready < i64::from(spec.replicas) {
        let message = format!("{ready} of {} servers are ready", spec.replicas);
        status.conditions().set("Ready", false, "TooFewServers", message);
        return Ok(());
    }
    if let Some(url) = &spec.from_backup
        && !status.conditions().is_true("Restored")
    {
        let job = children.apply(&restoration(&spec, name, url)).await?.object().await?;
        if job["status"]["succeeded"] != 1 {
            let has_failed = job["status"]["failed"].is_u64();
            let reason = if has_failed { "RestoreFailed" } else { "Restoring" };
            status.conditions().set("Restored", false, reason, url);
            status.conditions().set("Ready", false, reason, url);
            return Ok(());
        }
        status.conditions().set("Restored", true, "Restored", url);
    }
    status.conditions().set("Ready", true, "AllServers", "");
    Ok(())
}

fn password(spec: &MySQLClusterSpec) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": spec.secret},
        "stringData": {"password": Uuid::new_v4().simple().to_string()},
    })
}

fn service(spec: &MySQLClusterSpec, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"name": "mysql", "port": spec.port}]},
    })
}

fn servers(spec: &MySQLClusterSpec, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {
            "serviceName": name,
            "replicas": spec.replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "mysql",
                    "image": spec.image,
                    "args": [format!("--port={}", spec.port)],
                    "env": [password_as("MYSQL_ROOT_PASSWORD", spec)],
                    "ports": [{"name": "mysql", "containerPort": spec.port}],
                    "readinessProbe": {"tcpSocket": {"port": "mysql"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/var/lib/mysql"}],
                }]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": spec.storage}}},
            }],
        },
    })
}

/// Returns the Job that restores the backup into the first server.
fn restoration(spec: &MySQLClusterSpec, name: &str, url: &str) -> Value {
    let script =
        r#"curl --fail --silent --show-error "$BACKUP" | mysql --host="$HOST" --port="$PORT" --user=root"#;
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": format!("{name}-restore")},
        "spec": {
            "backoffLimit": 3,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "restore",
                    "image": spec.image,
                    "command": ["bash", "-o", "pipefail", "-c", script],
                    "env": [
                        {"name": "BACKUP", "value": url},
                        {"name": "HOST", "value": format!("{name}-0.{name}")},
                        {"name": "PORT", "value": spec.port.to_string()},
                        password_as("MYSQL_PWD", spec),
                    ],
                }],
            }},
        },
    })
}

fn password_as(variable: &str, spec: &MySQLClusterSpec) -> Value {
    let key = json!({"name": spec.secret, "key": "password"});
    json!({"name": variable, "valueFrom": {"secretKeyRef": key}})
}

#[cfg(test)]
mod tests;
