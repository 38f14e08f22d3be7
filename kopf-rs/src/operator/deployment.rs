//! The objects that run an operator in a cluster: its namespace, account, Deployment, Service and disruption budget.
//!
//! Pure. Must not know the permissions of the account.

use serde_json::{Value, json};

use crate::object::essence::digest;
use crate::object::rights::Account;

/// The port of the health endpoints in the Pod.
const HEALTH: u16 = 8080;

/// The folder and the name of the settings file in the Pod.
const SETTINGS: (&str, &str) = ("/etc/operator", "settings.yaml");

/// What the objects depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deployed<'a> {
    pub(crate) account: Account<'a>,
    pub(crate) image: &'a str,
    pub(crate) replicas: u16,
    /// The arguments of the program, except for those about health endpoints.
    pub(crate) args: &'a [String],
    /// The text of the settings file.
    pub(crate) settings: Option<&'a str>,
    /// Environment variables.
    pub(crate) variables: &'a [(String, String)],
    pub(crate) webhooks: Option<WebhookService<'a>>,
}

/// The Service through which the API server reaches webhooks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebhookService<'a> {
    pub(crate) name: &'a str,
    pub(crate) port: u16,
    /// The port on which the operator answers.
    pub(crate) target: u16,
}

/// Returns the objects that must exist before the Deployment.
pub(crate) fn before(account: Account<'_>) -> Vec<Value> {
    let Account { name, namespace } = account;
    let created = (namespace != "default")
        .then(|| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name)},
    });
    created.into_iter().chain([account]).collect()
}

/// Returns the Deployment, and the objects around it.
pub(crate) fn deployment(deployed: Deployed<'_>) -> Vec<Value> {
    let Deployed { account: Account { name, namespace }, replicas, .. } = deployed;
    let metadata = || json!({"name": name, "namespace": namespace, "labels": labels(name)});
    let service = deployed.webhooks.map(|service| {
        let port = json!({"name": "webhooks", "port": service.port, "targetPort": "webhooks"});
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": service.name, "namespace": namespace, "labels": labels(name)},
            "spec": {"selector": labels(name), "ports": [port]},
        })
    });
    // Two Pods without a Lease would handle the same objects.
    let strategy = if replicas > 1 { json!({"type": "RollingUpdate"}) } else { json!({"type": "Recreate"}) };
    let main = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(),
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": {"matchLabels": labels(name)},
            "template": {"metadata": pod_metadata(deployed), "spec": pod(deployed)},
        },
    });
    let settings = deployed.settings.map(|text| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(), "data": {SETTINGS.1: text}})
    });
    let budget = (replicas > 1).then(|| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(name)}},
        })
    });
    settings.into_iter().chain(service).chain([main]).chain(budget).collect()
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

/// Returns the metadata of the Pods, with a digest of the settings, so that a change of the settings replaces the Pods.
fn pod_metadata(deployed: Deployed<'_>) -> Value {
    let mut metadata = json!({"labels": labels(deployed.account.name)});
    if let Some(text) = deployed.settings {
        metadata["annotations"] = json!({"kopf.rs/settings": digest(&text.into())});
    }
    metadata
}

fn pod(deployed: Deployed<'_>) -> Value {
    let name = deployed.account.name;
    let mut pod = json!({
        "serviceAccountName": name,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container(deployed)],
    });
    if deployed.settings.is_some() {
        pod["volumes"] = json!([{"name": "settings", "configMap": {"name": name}}]);
    }
    if deployed.replicas > 1 {
        pod["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels(name)},
        }]);
    }
    pod
}

fn container(deployed: Deployed<'_>) -> Value {
    let health = format!("--liveness=http://0.0.0.0:{HEALTH}/healthz");
    let (folder, file) = SETTINGS;
    let settings = deployed.settings.map(|_| format!("--settings={folder}/{file}"));
    let mounts =
        deployed.settings.map(|_| json!({"name": "settings", "mountPath": folder, "readOnly": true}));
    let own = settings.as_deref().into_iter().chain([&*health]);
    let args: Vec<&str> = deployed.args.iter().map(String::as_str).chain(own).collect();
    let name = json!({"name": "POD_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let variables = deployed.variables.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let variables: Vec<Value> = [name].into_iter().chain(variables).collect();
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port});
    let webhooks = deployed.webhooks.map(|service| port("webhooks", service.target));
    // A Service routes only to ready Pods, and `/readyz` waits for listings, for which the API server may have to call the webhooks.
    let ready = if webhooks.is_some() { "/readyz/webhooks" } else { "/readyz" };
    let ports: Vec<Value> = [port("health", HEALTH)].into_iter().chain(webhooks).collect();
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
    json!({
        "name": "operator",
        "image": deployed.image,
        "args": args,
        "env": variables,
        "ports": ports,
        "volumeMounts": mounts.into_iter().collect::<Vec<Value>>(),
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe(ready),
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPERATOR: Deployed<'_> = Deployed {
        account: Account { name: "op", namespace: "team" },
        image: "op:1",
        replicas: 1,
        args: &[],
        settings: None,
        variables: &[],
        webhooks: None,
    };

    #[test]
    fn one_pod_is_replaced_and_several_roll() {
        let [one]: [Value; 1] = deployment(OPERATOR).try_into().unwrap();
        assert_eq!(one["spec"]["strategy"]["type"], "Recreate");
        let several = Deployed { replicas: 2, ..OPERATOR };
        let [several, budget]: [Value; 2] = deployment(several).try_into().unwrap();
        assert_eq!(several["spec"]["strategy"]["type"], "RollingUpdate");
        assert_eq!(several["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["maxSkew"], 1);
        assert_eq!(budget["kind"], "PodDisruptionBudget");
    }

    #[test]
    fn a_service_leads_to_the_port_of_the_webhooks() {
        let hooks = WebhookService { name: "hooks", port: 8443, target: 9443 };
        let asked = Deployed { webhooks: Some(hooks), args: &["-A".to_owned()], ..OPERATOR };
        let [service, main]: [Value; 2] = deployment(asked).try_into().unwrap();
        assert_eq!(service["metadata"]["name"], "hooks");
        let container = &main["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][1], json!({"name": "webhooks", "containerPort": 9443}));
        assert_eq!(container["args"], json!(["-A", "--liveness=http://0.0.0.0:8080/healthz"]));
        assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][1]["name"]);
        assert_eq!(service["spec"]["ports"][0]["port"], 8443);
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz/webhooks");
        assert_eq!(service["spec"]["selector"], main["spec"]["template"]["metadata"]["labels"]);
    }

    #[test]
    fn the_settings_file_is_mounted() {
        let with_settings = Deployed { settings: Some("posting: {enabled: false}"), ..OPERATOR };
        let [file, main]: [Value; 2] = deployment(with_settings).try_into().unwrap();
        assert_eq!(file["data"], json!({"settings.yaml": "posting: {enabled: false}"}));
        let pod = &main["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["configMap"]["name"], file["metadata"]["name"]);
        let container = &pod["containers"][0];
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/etc/operator");
        assert_eq!(container["args"][0], "--settings=/etc/operator/settings.yaml");
    }

    #[test]
    fn a_namespace_of_its_own_is_created() {
        let kinds = |account| before(account).iter().map(|it| it["kind"].clone()).collect::<Vec<_>>();
        assert_eq!(kinds(OPERATOR.account), ["Namespace", "ServiceAccount"]);
        assert_eq!(kinds(Account { name: "op", namespace: "default" }), ["ServiceAccount"]);
    }
}
