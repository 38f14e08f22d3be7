//! The objects that run an operator in a cluster: its namespace, account, Deployment, Service and disruption budget.
//!
//! Pure. Must not know the permissions of the account.

use serde_json::{Value, json};

use crate::object::rights::Account;

/// The port of the health endpoints in the Pod.
const HEALTH: u16 = 8080;

/// What the objects depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deployed<'a> {
    pub(crate) account: Account<'a>,
    pub(crate) image: &'a str,
    pub(crate) replicas: u16,
    /// The arguments of the program, except for those about health endpoints.
    pub(crate) args: &'a [String],
    /// Environment variables.
    pub(crate) variables: &'a [(&'static str, String)],
    /// The name of the Service for webhooks, and the port on which the operator answers them.
    pub(crate) webhooks: Option<(&'a str, u16)>,
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
    let service = deployed.webhooks.map(|(service, _)| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": service, "namespace": namespace, "labels": labels(name)},
            "spec": {"selector": labels(name), "ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}]},
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
            "template": {"metadata": {"labels": labels(name)}, "spec": pod(deployed)},
        },
    });
    let budget = (replicas > 1).then(|| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(name)}},
        })
    });
    service.into_iter().chain([main]).chain(budget).collect()
}

fn labels(name: &str) -> Value {
    json!({"app.kubernetes.io/name": name})
}

fn pod(deployed: Deployed<'_>) -> Value {
    let name = deployed.account.name;
    let mut pod = json!({
        "serviceAccountName": name,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container(deployed)],
    });
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
    let args: Vec<&str> = deployed.args.iter().map(String::as_str).chain([&*health]).collect();
    let name = json!({"name": "POD_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let variables = deployed.variables.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let variables: Vec<Value> = [name].into_iter().chain(variables).collect();
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port});
    let webhooks = deployed.webhooks.map(|(_, at)| port("webhooks", at));
    let ports: Vec<Value> = [port("health", HEALTH)].into_iter().chain(webhooks).collect();
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "health"}});
    json!({
        "name": "operator",
        "image": deployed.image,
        "args": args,
        "env": variables,
        "ports": ports,
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
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
        let asked = Deployed { webhooks: Some(("hooks", 9443)), args: &["-A".to_owned()], ..OPERATOR };
        let [service, main]: [Value; 2] = deployment(asked).try_into().unwrap();
        assert_eq!(service["metadata"]["name"], "hooks");
        let container = &main["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][1], json!({"name": "webhooks", "containerPort": 9443}));
        assert_eq!(container["args"], json!(["-A", "--liveness=http://0.0.0.0:8080/healthz"]));
        assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][1]["name"]);
        assert_eq!(service["spec"]["selector"], main["spec"]["template"]["metadata"]["labels"]);
    }

    #[test]
    fn a_namespace_of_its_own_is_created() {
        let kinds = |account| before(account).iter().map(|it| it["kind"].clone()).collect::<Vec<_>>();
        assert_eq!(kinds(OPERATOR.account), ["Namespace", "ServiceAccount"]);
        assert_eq!(kinds(Account { name: "op", namespace: "default" }), ["ServiceAccount"]);
    }
}
